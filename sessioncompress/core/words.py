"""How messages say a number of things."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


def counted(number: int, one: str, several: str) -> str:
    """Return the number with the word for as many."""
    return f"{number:,} {one if number == 1 else several}"


def file_line(name: str, status: str, reason: str) -> str:
    """Say of one file why it is as it was."""
    return f"{name}: {status}: {reason}"


def files_line(files: int, statuses: Mapping[str, int], more: str = "") -> str:
    """Say how many files there were, and how many of each status; `more` is one part more."""
    parts = [*(f"{number} {status}" for status, number in statuses.items() if number), *([more] if more else [])]
    said = f"total: {counted(files, 'file', 'files')}"
    return f"{said} ({', '.join(parts)})" if parts else said


def as_written(number: int) -> str:
    """Say that so many rewritten lines were altered since."""
    return f"{counted(number, 'rewritten line is', 'rewritten lines are')} no longer there as written"


def not_there(number: int) -> str:
    """Say that a session holds less than its store knows; nothing where nothing is missing."""
    if not number:
        return ""
    lines = counted(number, "line that its store knows is", "lines that its store knows are")
    return f"an older state of the session: {lines} not in it"


def of_relatives(number: int) -> str:
    """Say that markers stay whose originals a relative's store holds; nothing where there are none."""
    if not number:
        return ""
    stay = counted(number, "marker stays", "markers stay")
    return f"{stay} whose originals lie in a relative's store: 'restore --from-markers' puts back what they stand for"


def strangers(number: int) -> str:
    """Say that markers stay which a session's journal does not know; nothing where there are none."""
    if not number:
        return ""
    return (
        f"{counted(number, 'marker stays', 'markers stay')} that its journal does not know: quotes, or of another "
        "session or side, and then 'restore --from-markers --originals OTHER' puts back what they stand for"
    )


def unreadable(numbers: Iterable[int]) -> str:
    """Say of which lines, counted from 0, the originals cannot be read; nothing where all can."""
    lines = [number + 1 for number in sorted(numbers)]
    which = "original of line" if len(lines) == 1 else "originals of lines"
    return f"the {which} {listed(lines)} cannot be read" if lines else ""


def listed(numbers: Sequence[int], most: int = 10) -> str:
    """Return numbers as a text says them: `3, 7 and 9`; of many the first, and how many more."""
    shown = [f"{number:,}" for number in numbers[:most]]
    if len(numbers) > most:
        shown.append(f"{len(numbers) - most:,} more")
    return " and ".join(each for each in (", ".join(shown[:-1]), *shown[-1:]) if each)
