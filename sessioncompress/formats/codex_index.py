"""The rows of one rollout in the index of Codex, with the places in it, and the texts that Codex shows of it."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from sessioncompress.core import jsonl
from sessioncompress.errors import NOT_CHANGED, InUse, Refused
from sessioncompress.formats import values

_BUSY_SECONDS: Final = 5.0
_MOST_TURNS: Final = 1 << 17
_CHANGES: Final = re.compile(r"\bUPDATE\b", re.IGNORECASE)
"""What in a trigger says that a change of a place would do more."""
_STATE: Final = "thread_history_projection_state"
_TURNS: Final = "thread_turns"
_NEXT: Final = "next_rollout_ordinal"
_PLACES: Final = (
    (_TURNS, "rollout_ordinal", "rollout_byte_offset", 0),
    (_TURNS, "rollout_end_ordinal", "rollout_end_byte_offset", 1),
    (_STATE, _NEXT, "next_rollout_byte_offset", 0),
)
"""Table, the column of a line's number, that of a place, and 1 where that is behind the line. Versions have not all."""
_GET: Final = "SELECT rowid, %s, %s FROM %s WHERE thread_id = ?"
_SET: Final = "UPDATE %s SET %s = ? WHERE rowid = ?"


class Places(NamedTuple):
    """Where the first line of a wanted number or a higher one begins; the file's size, and the highest number in it."""

    starts: dict[int, int]
    size: int
    last: int

    def of(self, number: int) -> int:
        """Find where a line begins; behind the last one that is the end."""
        return self.starts.get(number, self.size)


def long_texts(value: Any) -> Iterator[tuple[Any, Any]]:
    """Find the texts in a parsed value that a run may take out, each as its holder and the key or index there."""
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        members: Iterable[tuple[Any, Any]] = ()
        if isinstance(holder, dict):
            members = holder.items()
        elif isinstance(holder, list):
            members = enumerate(holder)
        for key, each in members:
            if isinstance(each, str) and len(each) >= values.SMALLEST_BLOCK:
                yield holder, key
            waiting.append(each)


class Rows:
    """The rows of one rollout in an index, within one transaction, which ends unless commit() does that before.

    Raises InUse where the index is busy, Refused where it is none that we know.
    """

    def __init__(self, path: Path, rollout: str, session: Path, *, writing: bool) -> None:
        self._path, self._rollout, self._session = path, rollout, session
        with self._saying():
            how = "mode=rw"
            if not writing:
                # With nothing of a writer beside it, it is read as it is: else SQLite makes files there.
                wal = path.with_name(f"{path.name}-wal")
                how = "mode=ro" if wal.exists() and wal.stat().st_size else "mode=ro&immutable=1"
            address = f"file:{quote(str(path))}?{how}"
            self._database = sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
            self._database.text_factory = partial(str, encoding="utf-8", errors="replace")
            # Another's index may ask SQLite for work without end.
            deadline = time.monotonic() + 60
            self._database.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
            self._database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, jsonl.LINE_CAP)
        try:
            with self._saying():
                self._database.execute("PRAGMA trusted_schema = OFF")
                if writing:
                    self._database.execute("PRAGMA secure_delete = ON")
                self._database.execute("BEGIN IMMEDIATE" if writing else "BEGIN")
                self._columns = self._known()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let the index go."""
        self._database.close()

    def known(self) -> set[tuple[int, int]]:
        """List the numbers of lines of which the rows hold the places, and those."""
        with self._saying():
            return {(number, place) for *_, number, place in self._places()}

    def changes(self, places: Places, *, was_read: bool) -> list[tuple[str, tuple[str | int, int]]]:
        """List what has to change.

        With wrong places in a file that `was_read` as it is, Codex read on where it should not. So it reads again
        behind the last turn whose places are wrong; what it has of later ones it passes over.
        """
        found: list[tuple[str, tuple[str | int, int]]] = []
        again = 0
        with self._saying():
            for table, column, row, known, place in self._places():
                number = known
                if table == _STATE:
                    number = min(known, places.last + 1, again or known)
                elif was_read and places.of(number) != place:
                    again = max(again, number)
                if number != known:
                    found.append((_SET % (_STATE, _NEXT), (number, row)))
                    if known > places.last + 1 and ("thread_items", "rollout_ordinal") in self._columns:
                        # As of a checkpoint that was taken out: Codex will give their numbers to other lines.
                        drop = "DELETE FROM thread_items WHERE thread_id = ? AND rollout_ordinal > ?"
                        found.append((drop, (self._rollout, places.last)))
                if places.of(number) != place:
                    found.append((_SET % (table, column), (places.of(number), row)))
        return found

    def change(self, places: Places, *, was_read: bool) -> None:
        """Change the rows; commit() makes that certain."""
        with self._saying():
            if not self._database.in_transaction:
                self._database.execute("BEGIN IMMEDIATE")
            for statement, given in self.changes(places, was_read=was_read):
                self._database.execute(statement, given)

    def commit(self) -> None:
        """End the transaction, if it has not ended before."""
        with self._saying():
            self._database.commit()

    def empty(self, numbers: Iterable[int], said: Container[int]) -> None:
        """Empty the long texts in the rows of some lines whose hashes are none of those that are `said`."""
        asked = "SELECT rowid, item_json FROM thread_items WHERE thread_id = ? AND rollout_ordinal = ?"
        with self._saying():
            for number in numbers if ("thread_items", "item_json") in self._columns else ():
                for row, written in self._database.execute(asked, (self._rollout, number)).fetchall():
                    item = jsonl.parse(str(written).encode())
                    gone = [(holder, key) for holder, key in long_texts(item) if hash(holder[key]) not in said]
                    for holder, key in gone:
                        holder[key] = ""
                    if gone:
                        given = (values.literal(item).decode(), row)
                        self._database.execute("UPDATE thread_items SET item_json = ? WHERE rowid = ?", given)

    def _places(self) -> Iterator[tuple[str, str, int, int, int]]:
        """Read each place: table, column and row, the number of the line that begins there, and the place."""
        for table, numbered, column, behind in _PLACES:
            if (table, column) in self._columns:
                rows = self._database.execute(_GET % (numbered, column, table), (self._rollout,)).fetchmany(_MOST_TURNS)
                if len(rows) == _MOST_TURNS:
                    raise self._refused("Codex's index has more turns of it than we look at", "Move the index away.")
                for row, number, place in rows:
                    if isinstance(number, int) and isinstance(place, int):
                        yield table, column, row, number + behind, place

    def _known(self) -> set[tuple[str, str]]:
        """Read which tables have which columns. Raises Refused where a place may stand that we do not know."""
        asked = "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'"
        found = set(self._database.execute(asked).fetchall())
        triggers = "SELECT sql FROM sqlite_master WHERE type = 'trigger'"
        known = {(table, column) for table, _, column, _ in _PLACES}
        if (
            not {(_STATE, "thread_id"), (_STATE, _NEXT), (_STATE, "next_rollout_byte_offset")} <= found
            or {(table, column) for table, column in found if "offset" in column} - known
            or any(_CHANGES.search(str(sql)) for (sql,) in self._database.execute(triggers))
        ):
            what = "Codex's index is of another kind than we know, and may have places of the rollout"
            raise self._refused(what, "Update sessioncompress.")
        return found

    @contextmanager
    def _saying(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeError) as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                what, remedy = "another program keeps Codex's index locked", "Run again when Codex is idle."
                raise InUse(f"{what} ({self._path})", where=self._session, state=NOT_CHANGED, remedy=remedy) from error
            raise self._refused(f"Codex's index cannot be changed: {error}", "Check it, or move it away.") from error

    def _refused(self, what: str, remedy: str) -> Refused:
        return Refused(f"{what} ({self._path})", where=self._session, state=NOT_CHANGED, remedy=remedy)
