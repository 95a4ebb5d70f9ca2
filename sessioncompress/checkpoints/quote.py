"""Foreign text and paths as a summary shows them: without escapes, tags or markers, in whole lines, cuts marked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

from sessioncompress.core import marker
from sessioncompress.core.references import References

K = TypeVar("K")
V = TypeVar("V")

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]{0,32}[ -/]{0,8}[@-~]?|\][^\x07\x1b\n]{0,256}(?:\x07|\x1b\\)?|.)?", re.DOTALL)
_TAG = re.compile(
    r"<(?=\s{0,3}/?\s{0,3}(?:[A-Za-z]\w{0,40}[-:]|[A-Za-z]{1,40}_|[|\uff5c]\w|!--|<?/?SYS>>|"
    r"(?:summary|conversation|skill|skills|instructions|invoke|parameter|system|user|assistant|human|tool)\b))",
    re.IGNORECASE,
)
"""The beginning of a tag that is special to an agent or a provider."""
_OPENS = "\u2039"
"""Replaces the `<` of such a tag."""

CUT = " [...]"
"""Ends a line that was cut."""
_LEFT_OUT = re.compile(r"\[\.\.\. ([0-9]{1,9}) lines? left out\]")
_PART_OF_LINE, _LEAST_OF_LINE = 120, 40
"""Minimum room in which to begin a line that does not fit, and minimum length of an only line, in characters."""


def reference(content: str) -> str:
    """Return the reference with which `show` finds a text of the session."""
    return References().refer(content.encode("utf-8", "surrogatepass"))


def clean(text: str) -> str:
    """Make a text harmless; its markers are replaced by their references."""
    text = text.replace("\t", " ")
    if not text.replace("\n", " ").isprintable():
        if "\x1b" in text:
            text = _ESCAPE.sub("", text)
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        text = "\n".join(line if line.isprintable() else _plain(line) for line in text.split("\n"))
    if marker.PREFIX.rstrip() in text:
        names = [", ".join(marker.references(form)) or "nothing kept" for form in marker.whole_in(text)]
        first, *others = marker.around(text)
        joined = first + "".join(f"(left out before: {name}){piece}" for name, piece in zip(names, others, strict=True))
        text = joined.replace(marker.PREFIX.rstrip(), marker.PREFIX.strip("[ "))
    return _TAG.sub(_OPENS, text) if "<" in text else text


def _plain(line: str) -> str:
    return "".join(each if each.isprintable() else " " if each.isspace() else "" for each in line)


def one_line(text: str, most: int) -> str:
    """Write a text as one line of at most `most` characters; a cut is between words, and marked."""
    # Cleaning and joining rarely shorten a text to a quarter.
    line = " ".join(clean(text[: 4 * most + 200]).split())
    if len(line) <= most:
        return line
    kept = line[: max(most - len(CUT), 0)]
    words, blank, _ = kept.rpartition(" ")
    return (words if blank and len(words) * 2 > len(kept) else kept) + CUT[:most]


def lines_left_out(count: int) -> str:
    """Write how many lines were left out."""
    return f"[... {count} {'line' if count == 1 else 'lines'} left out]"


def clip(lines: Sequence[str], room: int, *, tail: bool = True) -> list[str]:
    """Take whole lines from head and tail in about `room` characters, and mark the gap between them.

    Without `tail`, take lines only from the head. A line that marks an earlier cut counts as the lines of that cut.
    """
    if sum(map(len, lines)) + len(lines) <= room:
        return list(lines)
    head: list[str] = []
    end: list[str] = []
    used_head = used_tail = 0
    room -= len(lines_left_out(10**6))
    first, last = 0, len(lines)
    while first < last:
        # The head of a text gets three times the characters of its tail.
        takes_head = not tail or used_head <= 3 * used_tail or not head
        left = room - used_head - used_tail
        if tail and len(lines[first if takes_head else last - 1]) >= left:
            takes_head = not takes_head
        line = lines[first] if takes_head else lines[last - 1]
        if len(line) >= left:
            if left >= _PART_OF_LINE or not head:
                head.append(one_line(lines[first], max(left - 1, _LEAST_OF_LINE)))
                first += 1
            break
        if takes_head:
            head.append(line)
            used_head += len(line) + 1
            first += 1
        else:
            end.append(line)
            used_tail += len(line) + 1
            last -= 1
    gone = sum(_count(line) for line in lines[first:last])
    end.reverse()
    while gone and head and _LEFT_OUT.fullmatch(head[-1]):
        gone += _count(head.pop())
    while gone and end and _LEFT_OUT.fullmatch(end[0]):
        gone += _count(end.pop(0))
    return [*head, *([lines_left_out(gone)] if gone else []), *end]


def _count(line: str) -> int:
    found = _LEFT_OUT.fullmatch(line)
    return int(found[1]) if found else 1


def excerpt(text: str, most: int) -> list[str]:
    """Return a text's cleaned lines, or if it is long, lines of its head and tail. Drop blank lines, cut long ones."""
    text = text.strip()
    between = 0
    if len(text) > 2 * most:
        head, tail = text[:most], text[-most:]
        # If a text has few lines, parts of them are better than none.
        head = head[: end + 1] if (end := head.rfind("\n")) > most // 2 else head
        tail = tail[start + 1 :] if 0 <= (start := tail.find("\n")) < most // 2 else tail
        between = text.count("\n") - head.count("\n") - tail.count("\n")
        lines = [*clean(head).split("\n"), lines_left_out(max(between, 1)), *clean(tail).split("\n")]
    else:
        lines = clean(text).split("\n")
    return [line if len(line) <= most else one_line(line, most) for each in lines if (line := each.rstrip())]


def quoted(label: str, lines: Iterable[str], end: str = "") -> str:
    """Write lines as a row of a summary, each prefixed with `> `."""
    return f"{label} > " + "\n   > ".join(lines) + end


_TICK = "\u02cb"
"""Replaces a backquote between backquotes."""


def code(text: str) -> str:
    """Write a foreign line between backquotes, for a row that is not a quote."""
    return f"`{text.replace('`', _TICK)}`"


def decoded(text: str) -> str:
    """Undo code() for the text between backquotes."""
    return text.replace(_TICK, "`")


def more(count: int) -> str:
    """Write how many rows were left out, or "" for none."""
    return f"({count:,} more left out)" if count else ""


_MORE = re.compile(r"\(([0-9]{1,3}(?:,[0-9]{3}){0,3}) more left out\)")


def left_out_before(line: str) -> int:
    """Return the count in a line that more() wrote, or 0 for any other line."""
    found = _MORE.fullmatch(line)
    return int(found[1].replace(",", "")) if found else 0


def newest(rows: Sequence[str], room: int, gone: int = 0) -> list[str]:
    """Take the newest rows that fit, in order, and add how many are left out, including `gone` from before."""
    room -= len(more(10**6))
    taken: list[str] = []
    for row in reversed(rows):
        if len(row) + 1 > room:
            break
        room -= len(row) + 1
        taken.append(row)
    taken.reverse()
    missing = len(rows) - len(taken) + gone
    return [*taken, *([more(missing)] if missing and taken else [])]


def fitting(rows: Sequence[str], order: Iterable[int], room: int) -> list[str]:
    """Take the rows that fit, tried in `order`; return them in their own order."""
    taken: list[int] = []
    for at in order:
        if len(rows[at]) + 1 <= room:
            taken.append(at)
            room -= len(rows[at]) + 1
    return [rows[at] for at in sorted(taken)]


def remember(held: dict[K, V], key: K, value: V, most: int) -> None:
    """Add a value as the newest, and drop the oldest of more than `most`."""
    held.pop(key, None)
    held[key] = value
    if len(held) > most:
        del held[next(iter(held))]


_PART = re.compile(r":[0-9]{1,9}(?:[-+][0-9]{1,9})?\Z")
"""The line numbers that some agents write after a file's name."""
_MOST_FOLDERS = 4_000
_SHORTEST_ROOT = 10
"""Characters."""
HERE = "./"
"""Begins a path relative to the agent's unknown working folder."""
AT_ROOT = "(top)/"
"""Names the root itself in lists by folder."""


def is_whole(path: str) -> bool:
    """True if a path does not depend on the agent's working folder."""
    return path.startswith(("/", "~/")) or path[1:3] == ":/" or "://" in path


def joined(folder: str, path: str) -> str:
    """Join a path to the folder that it is relative to, if that is known."""
    path = path.replace("\\", "/") if path[1:3] == ":\\" else path
    return f"{folder.rstrip('/')}/{path.removeprefix(HERE)}" if folder and not is_whole(path) else path


class Paths:
    """The folders of a session's files."""

    def __init__(self) -> None:
        self._folders: Counter[str] = Counter()
        self._seen = 0

    def key(self, path: str) -> str:
        """Return the normalized form of a path, and count its folder."""
        path = _PART.sub("", one_line(path, 400))
        if "\\" in path and path[1:2] == ":":
            path = path.replace("\\", "/")
        while path.startswith(HERE):
            path = path.removeprefix(HERE)
        path = path.rstrip("/") or path
        folder = path.rpartition("/")[0]
        self._seen += 1
        if is_whole(folder) and "://" not in folder and (folder in self._folders or len(self._folders) < _MOST_FOLDERS):
            self._folders[folder] += 1
        return path

    def root(self) -> str:
        """Return the folder that holds most files and saves the most characters in relative paths."""
        inside: Counter[str] = Counter()
        for folder, count in self._folders.items():
            steps = folder.split("/")
            # A root has at least two folders.
            for end in range(2 + (folder[1:2] != ":"), len(steps) + 1):
                inside["/".join(steps[:end])] += count
        most = self._seen * 0.6
        held = [folder for folder, count in inside.items() if count >= most and len(folder) >= _SHORTEST_ROOT]
        return max(held, key=lambda folder: (inside[folder] * len(folder), folder), default="")


def below(path: str, root: str) -> str:
    """Write a path relative to the root, or with `./` if it is relative to the working folder."""
    rest = next((path[len(name) + 1 :] for name in names_of(root) if path.startswith(f"{name}/")), "")
    return rest or (path if not root or is_whole(path) else HERE + path)


def names_of(root: str) -> list[str]:
    """Return all spellings of a root, [] without one. On Windows, shells write a drive's letter as a folder."""
    return [root, f"/{root[0].lower()}{root[2:]}"] if root[1:2] == ":" else [root] if root else []


def by_folder(names: Iterable[str]) -> list[str]:
    """Write one row for each folder, with its files' names."""
    folders: dict[str, list[str]] = {}
    for path in names:
        folder, slash, name = one_line(path, 160).rpartition("/")
        folders.setdefault(folder + slash, []).append(name)
    return [f"- {code(f'{folder or AT_ROOT}: ' + ', '.join(inside))}" for folder, inside in folders.items()]
