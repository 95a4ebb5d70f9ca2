"""The benchmarks' table, as docs/explanation/benchmarks.md shows it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.bench.floors import Floor


@dataclass(slots=True)
class Row:
    """One job: seconds of its fastest round, what it is held against, and the most memory it held, in MB.

    `other` is another job, of which this one takes so much. `megabytes` are those of a run whose time is to be seen
    for each, and `start` the seconds of one over a session without any.
    """

    name: str
    seconds: float
    floor: Floor | None = None
    peak: float = 0
    other: str = ""
    by: float = 0
    megabytes: float = 0
    start: float = 0


@dataclass(slots=True)
class Table:
    """The rows in the order in which they were measured."""

    rows: list[Row] = field(default_factory=list)

    def seconds(self, name: str) -> float:
        """Return the time of a row. Raises KeyError where none has that name."""
        return {row.name: row.seconds for row in self.rows}[name]

    def markdown(self) -> str:
        head = "| job | seconds | by parse and write | by copy | by `zstd -3` | by the sum of its parts | memory | compared |"
        return "\n".join([head, "|---|" + "---:|" * 7, *map(_line, self.rows)])


def _line(row: Row) -> str:
    floors = [""] * 4
    if row.floor is not None:
        by = (row.floor.round_trip, row.floor.copy, row.floor.packed, row.floor.parts)
        floors = [f"{row.seconds / each:.2f}" for each in by]
    peak = f"{row.peak:.0f} MB" if row.peak else ""
    other = f"{row.seconds / row.by:.3g} of {row.other}" if row.other else ""
    if row.megabytes:
        other = f"{1000 * (row.seconds - row.start) / row.megabytes:.1f} ms a MB, start-up apart"
    return f"| {row.name} | {row.seconds:.3f} | {' | '.join(floors)} | {peak} | {other} |"
