"""Make external text safe to print: names, errors and tool output may contain escapes that a terminal obeys."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from shlex import quote as shell_word
from typing import Any

KB = 1024
MB = KB * KB
OBJECT_STORES = ("s3://", "gs://", "az://")
MADE_ELSEWHERE = "made elsewhere, under another name, or by an earlier version"
"""Describes a store that this user did not sign for this session."""


def printable(text: str) -> str:
    r"""Escape every character that is not printable: \x1b, \u202e, \U000e0001.

    A byte of a file name that is not UTF-8 (a lone surrogate in Python) is written as that byte: \xff.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def quote(text: str) -> str:
    r"""Quote a word for a shell so that it runs as printed; with unprintable characters it becomes $'\x1b'."""
    if text.isprintable():
        return shell_word(text)
    plain = set(range(0x20, 0x7F)) - set(b"'\\")
    raw = text.encode("utf-8", "surrogateescape")
    return "$'" + "".join(chr(byte) if byte in plain else f"\\x{byte:02x}" for byte in raw) + "'"


def argument(path: object) -> str:
    """Quote a path as an argument of a command; one that starts with a dash would be parsed as an option."""
    return quote(f"./{path}" if str(path).startswith("-") else str(path))


def restoring(backups: object, *words: str) -> str:
    """Write a quoted `restore` command; `backups` is the user's backup folder, or None."""
    where = [] if backups is None else ["--backup-dir", quote(str(backups))]
    return f"'{' '.join(['sessioncompress restore', *where, *words])}'"


def printable_json(text: str) -> str:
    r"""Escape every unprintable character of JSON text as JSON does: \u202e, \udb40\udc01.

    The result is the same document. Line breaks between its parts stay.
    """
    lines = text.split("\n")
    return "\n".join(line if line.isprintable() else "".join(map(_json_escaped, line)) for line in lines)


def shown_url(url: str) -> str:
    """Write a URL without its potentially secret parts: user, query and fragment."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        # Raises if part of a password would be parsed as the port.
        _ = parts.port
    except ValueError:
        return "(no URL)"
    return printable(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}")


def utf8(text: str) -> str:
    """Return text that JSON can hold: the bytes of a file name that is not UTF-8 are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def json_safe(value: Any) -> Any:
    """Return a value of lists and objects with utf8() applied to every string in it."""
    if isinstance(value, dict):
        return {key: json_safe(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(json_safe, value))
    return utf8(value) if isinstance(value, str) else value


def _json_escaped(char: str) -> str:
    if char.isprintable():
        return char
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _escaped(char: str) -> str:
    code = ord(char)
    # Python decodes the non-UTF-8 bytes of a file name to these.
    if code in range(0xDC80, 0xDD00):
        code &= 0xFF
    if code <= 0xFF:  # noqa: PLR2004
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004


def counted(number: int, one: str, several: str) -> str:
    """Write a number with its noun in singular or plural."""
    return f"{number:,} {one if number == 1 else several}"


def unit(size: int) -> tuple[int, str]:
    """Return the unit (bytes, name) in which a size has at most four digits before the point: KB (1,024), MB or GB."""
    for power, name in enumerate(("KB", "MB"), 1):
        if abs(size) < 10_000 * KB**power:
            return KB**power, name
    return KB**3, "GB"


def kb(size: int, beside: int = 0) -> str:
    """Format bytes for the terminal, the page and reasons: `338 KB`, and from 10,000 KB on `12.3 MB`.

    Next to a larger size (the second argument), use that size's unit if the value is at least 1 in it.
    """
    of, name = unit(size)
    if abs(size) >= unit(beside)[0] > of:
        of, name = unit(beside)
    return f"{round(size / of):,} KB" if of == KB else f"{size / of:,.1f} {name}"


def less(before: int, after: int) -> str:
    """Format a reduction for a column: `-64 %`, rounded as smaller() does."""
    return f"-{int(100 * (before - after) / before)} %" if after < before else "-"


def smaller(before: int, after: int) -> str:
    """Format a reduction in percent, rounded down so that it never claims too much."""
    if after >= before:
        return "not smaller"
    return f"{int(100 * (before - after) / before) or 'less than 1'} % smaller"


def file_line(name: str, status: str, reason: str) -> str:
    """Write why one file was left unchanged."""
    return f"{name}: {status}: {reason}"


_NUMBER = re.compile(r"([0-9](?:,?[0-9])*+(?:\.[0-9]+)?)")
_MOST_REASONS = 8


def reasons_lines(reasons: Iterable[tuple[str, str]]) -> list[str]:
    """Write why files were left unchanged, by status; reasons that differ only in numbers are merged.

    `3 skipped: 2 to 98 KB, under the threshold of 100 KB`. Text after a semicolon is left out.
    """
    alike: dict[tuple[str, ...], list[list[str]]] = {}
    for status, reason in reasons:
        # Words and numbers alternate.
        parts = _NUMBER.split(reason.partition(";")[0])
        alike.setdefault((status, *parts[::2]), []).append(parts[1::2])
    most = sorted(alike.items(), key=lambda each: -len(each[1]))
    lines = []
    for (status, first, *words), found in most[:_MOST_REASONS]:
        numbers = [_span(column) for column in zip(*found, strict=True)]
        said = "".join(number + word for number, word in zip(numbers, words, strict=True))
        lines.append(f"{len(found):,} {status}: {first}{said}")
    if rest := sum(len(found) for _, found in most[_MOST_REASONS:]):
        lines.append(f"{rest:,} for other reasons")
    return lines


def _span(numbers: Iterable[str]) -> str:
    by_size = sorted(set(numbers), key=lambda each: float(each.replace(",", "")))
    return by_size[0] if len(by_size) == 1 else f"{by_size[0]} to {by_size[-1]}"


def files_line(files: int, statuses: Mapping[str, int], more: str = "") -> str:
    """Write the number of files, and of each status; `more` is one extra part."""
    parts = [*(f"{number} {status}" for status, number in statuses.items() if number), *([more] if more else [])]
    said = f"total: {counted(files, 'file', 'files')}"
    return f"{said} ({', '.join(parts)})" if parts else said


def listed(items: Sequence[int | str], most: int = 10) -> str:
    """Write a list as prose: `3, 7 and 9`; of a long one the first `most`, and how many more."""
    shown = [each if isinstance(each, str) else f"{each:,}" for each in items[:most]]
    if len(items) > most:
        shown.append(f"{len(items) - most:,} more")
    return " and ".join(each for each in (", ".join(shown[:-1]), *shown[-1:]) if each)


_FORM = "%Y-%m-%dT%H:%M:%SZ"
_WRITTEN = "%04d-%02d-%02dT%02d:%02d:%02dZ"
_FIRST, _LAST = -62_135_596_800, 253_402_300_799
"""Seconds of the years 1 and 9999. Files and clocks may be set to other years, which nothing reads."""


def written_time(seconds: float) -> str:
    """Write seconds since 1970 as text, clamped to the years 1 to 9999."""
    return _WRITTEN % time.gmtime(min(max(seconds, _FIRST), _LAST))[:6]


_RUN_FORM = "%04d%02d%02d-%02d%02d%02d-%04x"


def run_id(seconds: float) -> str:
    """Name a run by its start in seconds since 1970: UTC with fractions of a second, so that names sort by time."""
    seconds = min(max(seconds, _FIRST), _LAST)
    # Two runs hardly ever start in the same 65,536th of a second.
    return _RUN_FORM % (*time.gmtime(seconds)[:6], int(seconds % 1 * (1 << 16)))


def said_time(text: str) -> float | None:
    """Parse a time, past or future, to seconds since 1970; return None if the text is not a time."""
    import calendar

    try:
        return calendar.timegm(time.strptime(text, _FORM))
    except ValueError:
        return None


def age(since: float) -> str:
    """Format how long ago a time (in seconds since 1970) was; a future time counts as now."""
    seconds = max(time.time() - since, 0)
    units = (("d", 24 * 3600), ("h", 3600), ("min", 60))
    unit, length = next((each for each in units if seconds >= each[1]), units[-1])
    return f"{int(seconds // length):,} {unit}"


CHARACTERS_PER_TOKEN = 4


def estimate(characters: int, per_token: float = CHARACTERS_PER_TOKEN) -> int:
    """Estimate the tokens in this many characters, rounded up, at `per_token` characters a token."""
    return ceil(characters / per_token)


def joined(*reasons: str) -> str:
    """Join reasons with semicolons, skipping empty ones."""
    return "; ".join(filter(None, reasons))
