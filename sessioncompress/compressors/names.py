"""The names in long results: which of them stay readable, and the line of a preview that shows them.

A model goes back to an old result for what it has not written yet: a function, a file, a number. So each such name
stays once, in the newest result that holds it, with the words beside it, unless a text that stays holds it too. All
results of a run share one budget: most hold little that is new, a few hold much.

    in it: fn decode(signature_b64 | serde_json::from_str(&raw | src/a.ts b.ts | page_len < 100 | fooBar bazQux
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from heapq import nlargest
from typing import Final, NamedTuple

from sessioncompress.compressors.preview import said
from sessioncompress.core.marker import INDEX
from sessioncompress.policy.model import Policy

_IN_WORDS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_PARTS = bytes(each if each in _IN_WORDS else 0x20 for each in range(256))
"""Leaves nothing but words; what is no ASCII parts them."""
_IN_NAMES = f"{_IN_WORDS.decode()}."
_WORDS = bytes(each if each in b"." else _PARTS[each] for each in range(256))
"""Leaves the dots in them too."""
_IN_FOLDER = bytes(each if each in _IN_WORDS + b".@~" else 0x20 for each in range(256))
"""Leaves what stands in a folder's name."""
_JOINS = bytes(each in _IN_WORDS for each in range(256))
"""Tells which bytes make a word go on."""
_CONTROLS = bytes(each for each in range(32) if each not in b"\t\n\r\f\x1b")

_SYMBOLS = b"(){}[];=<>_/\\|"

_SUFFIXES = frozenset(
    b"ts tsx js jsx mjs cjs py go rs md mdx json jsonl yml yaml toml sh bash css scss htm html sql rb java kt swift "
    b"c h cc cpp hpp txt lock env svg png xml proto mod sum cfg ini conf log csv tmpl vue svelte ex lua zig ps1 "
    b"snap".split()
)
"""Of the files that a project has."""
_NAME = re.compile(
    rb"(?<!\S)(?=\S{4,48}(?!\S))(?:"
    # In camel case, with an underscore or a digit, or capitals before a word.
    rb"(?=[A-Za-z_])(?=\S*?(?:[a-z][A-Z]|[A-Za-z0-9]_[A-Za-z0-9]|[A-Za-z][0-9]|[A-Z]{2}[a-z]{2}))[\w-]+"
    # A number, or a hash.
    rb"|[0-9]+|(?=[0-9a-f]*[0-9])[0-9a-f]{7,40})(?!\S)"
)
"""More than a plain word: those recur in any session by chance."""
_NUMBER = re.compile(rb"[0-9]+|[0-9a-f]{7,40}")
_MADE_UP = re.compile(
    rb"[-_.](?=[A-Za-z0-9]*[0-9A-Z])(?:[a-z0-9]*+[A-Z0-9]){2}[A-Za-z0-9]{4,}|[0-9a-f]{4}-[0-9a-f]{4}-"
)
"""What a program made up for a file's name, such as `index-DaueD7GO.js`."""
_BEFORE = re.compile(rb"(?<!\w)[A-Za-z_]\w*[^\w\n;)}]{1,4}\Z")
_BEHIND = re.compile(rb"[^\w\n;}]{1,4}\w{1,32}(?!\w)")
_VERSIONS = re.compile(rb"\nindex [0-9a-f]{4,40}\.\.[0-9a-f]{4,40}(?: [0-7]{6})?")
"""The hashes of a file in git's diff, with which nobody goes on."""
_OF_LINE = re.compile(rb"(?:\n[ *+>]{0,12}|[:-])\Z")
_AFTER_IT = b":-|\t\xe2"
"""What stands around the number that a tool wrote before a line, alone or behind the file's name."""
_NOT_OWN = re.compile(rb"/(?:(?<=\.git/)|(?<=\.venv/)|(?<=node_modules/)|(?<=__pycache__/)|(?<=site-packages/))")
"""What a listing or a report says of these folders is nobody's own work. Slashes are found fastest."""
_PASSED = re.compile(
    rb"(?:\A|\n)(?:test [^\n]{1,300} \.\.\. ok|[ \t]{0,40}(?:\xe2\x9c[\x93\x94]|--- PASS:|PASS |ok \d{1,6} )[^\n]*|"
    rb"[^\s:]{1,300}::[^\n]{1,300} PASSED[^\n]*)(?=\n|\Z)"
)
"""Lines of passed tests, which no next step needs."""
_DIGITS = re.compile(rb"\d+")
_MOST_ALIKE = 2
"""Pieces of one result that differ in digits alone."""
_ESCAPE = re.compile(rb"\\[\\nt]")
"""What in JSON text parts words, or hides that the next character does not."""
_DOT = ord(".")

LOOKED_AT: Final = 16_384
"""Characters of a result in which names are looked for: three quarters from its beginning, the rest from its end."""
MOST_HELD: Final = 8 << 20
"""Bytes of results that are looked at in one run, and of what stays, so that memory is bounded."""
_MOST_KNOWN = 100_000
"""Words of what stays that are remembered, about, for the same reason."""
_MOST_FOUND = 10_000
"""Names that are remembered, for the same reason: hardly a budget takes more."""
_PROSE = 50
"""At least one of so many bytes of what is no prose is a symbol."""
_BINARY = 10
"""More than every tenth byte of what is no text is a control character."""

_FILE_WORTH, _NAME_WORTH, _NUMBER_WORTH = 1.2, 1.0, 0.4
_SHORTEST, _LONGEST = 4, 64
"""Bytes of a name."""
_LEAST_ENDS = 160
_LINE = 80
"""Bytes of a first line, about."""
_FOR_LINES = 0.05
"""The share of the budget for first lines."""
BETWEEN = " | "
_NEIGHBORS = 16
"""Bytes that the neighbors of a name and what separates them take, about."""
_BEFORE_WITHIN, _BEHIND_WITHIN = 20, 40
"""Bytes in which these are looked for."""
_WITH_NEIGHBORS = 0.7
"""The share of the budget for names with their neighbors; names alone take the rest."""


class Index(NamedTuple):
    """What a preview shows of a result: names, in `pieces` with what stands beside them and `alone`, and of its text.

    That is `ends` bytes of head and tail; where this is 0, its `first` line or none.
    """

    pieces: Sequence[str]
    alone: Sequence[str]
    ends: int
    first: bool

    def line(self, shown: str = "") -> str:
        """Write the line of names, without those that the rest of the preview shows; empty without any."""
        words = set(shown.encode(errors="replace").translate(_WORDS).decode().split()) if shown else ()
        written = [piece for piece in self.pieces if piece not in shown]
        if alone := " ".join(name for name in self.alone if name not in words):
            written.append(alone)
        return INDEX + BETWEEN.join(written) if written else ""


NOTHING: Final = Index((), (), 0, first=True)
"""What a preview shows of a result in which no names were looked for."""


class _Result:
    """What is looked at of a result, and what is chosen of it: places and texts; `room` is the bytes left for more."""

    __slots__ = ("alone", "data", "ends", "folders", "is_text", "kinds", "pieces", "room")

    def __init__(self, data: bytes, ends: int, room: int, *, is_text: bool) -> None:
        self.data = data
        self.ends = ends
        self.is_text = is_text
        self.pieces: list[tuple[int, bytes]] = []
        self.alone: list[tuple[int, bytes]] = []
        self.folders: dict[bytes, list[bytes]] = {}
        """The files of each folder, the first of them with it."""
        self.room = room
        self.kinds = Counter[bytes]()
        """The number of pieces of each form, with digits ignored."""

    def index(self, *, first: bool) -> Index:
        """Put the names in the order of the text; without any, a text shows its first line anyway."""
        inside = {files[0]: b" ".join(files) for files in self.folders.values()}
        pieces = [inside.get(piece, piece).decode(errors="ignore") for _, piece in sorted(self.pieces)]
        alone = [name.decode(errors="ignore") for _, name in sorted(self.alone)]
        return Index(pieces, alone, self.ends, self.is_text and (first or not (pieces or alone)))


class Names:
    """The names of one run: keep() what stays, then add() the results, the newest first, then choose().

    All previews take at most `preview_share` of the bytes of their results, and one at most `preview_max_bytes` and
    half of its own.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._most = policy.preview_max_bytes
        self._known: set[bytes] = set()
        self._found: list[tuple[float, int, bytes]] = []
        """What each name is worth a byte, in which result it stands, and the name."""
        self._least = (0.0, 0, b"")
        """The worst of so many that others find no place any more."""
        self._results: list[_Result] = []
        self._size = self._held = self._ends = 0

    def keep(self, data: bytes) -> None:
        """Take texts that a model can still read, or their JSON."""
        if len(self._known) < _MOST_KNOWN:
            words = set(_ESCAPE.sub(b" ", data).translate(_WORDS).split()) - self._known
            dotted = [word for word in words if _DOT in word]
            self._known.update(words, b" ".join(dotted).translate(_PARTS).split())

    @property
    def is_full(self) -> bool:
        """Whether no more results are to be taken."""
        return self._held >= MOST_HELD

    def add(self, text: str) -> None:
        """Take the next older result that is to be replaced, and find the names in it that nothing that stays holds."""
        self._size += len(text)
        data = _looked_at(text)
        self._held += len(data)
        is_text = (len(data) - len(data.translate(None, _CONTROLS))) * _BINARY <= len(data)
        # It has too few symbols for code, a listing or a log: its sentences say it, not its names.
        is_prose = (len(data) - len(data.translate(None, _SYMBOLS))) * _PROSE < len(data)
        ends = ends_of(len(text), self._policy) if is_text and is_prose else 0
        self._ends += ends
        number = len(self._results)
        room = min(self._most - ends, len(data) // 2) - len(INDEX)
        self._results.append(_Result(data, ends, room, is_text=is_text))
        if not is_text:
            return
        words = set(data.translate(_WORDS).split()) - self._known
        # Most are plain words, which this tells fastest.
        telling = {word for word in words if not (word.isalpha() and (word.islower() or word.istitle()))}
        # Parted at its dots is what is no file's name.
        dotted = {word for word in telling if _DOT in word}
        files = {word for word in dotted if _is_file(word)}
        parts = set(b" ".join(dotted - files).translate(_PARTS).split()) - self._known
        # A name that newer results hold is theirs.
        if len(self._known) < _MOST_KNOWN:
            self._known.update(words, parts)
        found = [(_NUMBER_WORTH if _MADE_UP.search(name) else _FILE_WORTH, name) for name in files]
        # The numbers and ids in an API's answer say nothing.
        of_number = 0.0 if data.lstrip()[:1] in (b"{", b"[") else _NUMBER_WORTH
        names = _NAME.findall(b" ".join((telling - dotted) | parts))
        found += [(of_number if _NUMBER.fullmatch(name) else _NAME_WORTH, name) for name in names]
        worths = [(worth / (len(name) + _NEIGHBORS), -number, name) for worth, name in found if worth]
        worths = [each for each in worths if each > self._least]
        # No more of one result than fit: a name takes at least 8 bytes in an index.
        most = self._most // 8
        self._found += worths if len(worths) <= most else nlargest(most, worths)
        if len(self._found) > 2 * _MOST_FOUND:
            self._found.sort(reverse=True)
            del self._found[_MOST_FOUND:]
            self._least = self._found[-1]

    def choose(self) -> list[Index]:
        """Choose what is worth most for its length; give the index of each result in the order in which they came.

        The newest show their first lines, as long as a twentieth of the budget lasts; and each without a name does.
        """
        budget = max(self._policy.preview_share * self._size - self._ends, 0)
        lines = int(budget * _FOR_LINES) // _LINE
        budget -= min(lines, len(self._results)) * _LINE
        self._found.sort(reverse=True)
        shown: set[bytes] = set()
        for_names = budget * (1 - _WITH_NEIGHBORS)
        self._take(for_names + self._take(budget - for_names, shown, alone=False), shown, alone=True)
        return [each.index(first=number < lines) for number, each in enumerate(self._results)]

    def _take(self, budget: float, shown: set[bytes], *, alone: bool) -> float:
        """Take names while they fit, and return what is left of the budget."""
        for _, order, name in self._found:
            if budget < _SHORTEST:
                break
            if name in shown:
                continue
            result = self._results[-order]
            begun = 0 if result.pieces or result.alone else len(INDEX)
            room = min(budget - begun, result.room)
            if len(name) >= room or (alone and _NUMBER.fullmatch(name)):
                continue
            data = result.data
            place = _place(data, name)
            if name.isdigit() and data[place + len(name)] in _AFTER_IT and _OF_LINE.search(data, place - 13, place):
                continue
            folder = _folder(data, place) if b"." in name else b""
            others = result.folders.get(folder) if folder else None
            if others is not None or alone:
                piece = name
            else:
                piece = folder + name if folder else _with_neighbors(data, place, place + len(name))
            size = len(piece) + piece.count(b'"') + piece.count(b"\\") + (1 if piece == name else len(BETWEEN))
            kind = _DIGITS.sub(b"#", piece if name.isdigit() else name)
            if size > room or (kind != name and result.kinds[kind] >= _MOST_ALIKE):
                continue
            result.kinds[kind] += 1
            shown.add(name)
            if others is not None:
                others.append(piece)
            elif piece == name:
                result.alone.append((place, name))
            else:
                result.pieces.append((place, piece))
                shown.update(piece.translate(_PARTS).split())
                if folder:
                    result.folders[folder] = [piece]
            result.room -= size
            budget -= size + begun
        return budget


def ends_of(size: int, policy: Policy) -> int:
    """Measure head and tail of a text of so many bytes: two thirds of its share, 160 bytes to a third of the most."""
    return min(max(int(size * policy.preview_share * 2 / 3), _LEAST_ENDS), policy.preview_max_bytes // 3)


def _is_file(word: bytes) -> bool:
    """Tell whether a word with a dot is the name of a file that a project has."""
    stem, _, suffix = word.rpartition(b".")
    return suffix in _SUFFIXES and _SHORTEST <= len(word) <= _LONGEST and stem[-1:] not in (b"", b".")


def _looked_at(text: str) -> bytes:
    """Take a text's ends, without colors; where most line ends are escaped, as in JSON, as real ones.

    Lines about folders that hold nobody's own work are left out.
    """
    if len(text) > LOOKED_AT:
        # A part of a word is another name.
        head, tail = text[: LOOKED_AT // 4 * 3].rstrip(_IN_NAMES), text[-LOOKED_AT // 4 :].lstrip(_IN_NAMES)
        text = f"{head}\n{tail}"
    data = said(text).encode(errors="replace")
    if b"\nindex " in data:
        data = _VERSIONS.sub(b"", data)
    if b" ok" in data or b"PASS" in data or b"\xe2\x9c" in data:
        data = _PASSED.sub(b"", data)
    if _NOT_OWN.search(data):
        data = b"\n".join([line for line in data.split(b"\n") if not _NOT_OWN.search(line)])
    return b"\n%b\n" % data


def _place(data: bytes, name: bytes) -> int:
    """Find where a name stands as a word of its own, or else within another. The text begins and ends with LF."""
    place = first = data.find(name)
    for _ in range(4):
        if place < 0 or not (_JOINS[data[place - 1]] or _JOINS[data[place + len(name)]]):
            break
        place = data.find(name, place + 1)
    return place if place >= 0 else first


def _folder(data: bytes, place: int) -> bytes:
    """Take the name of the folder right before a file's name; empty without one."""
    if data[place - 1 : place] not in (b"/", b"\\"):
        return b""
    before = data[max(place - 64, 0) : place - 1]
    return before.translate(_IN_FOLDER).rpartition(b" ")[2] + data[place - 1 : place]


def _with_neighbors(data: bytes, start: int, end: int) -> bytes:
    """Take a name with the word before it and the word behind it, as far as they stand close in its line."""
    before = _BEFORE.search(data, max(0, start - _BEFORE_WITHIN), start)
    behind = _BEHIND.match(data, end, end + _BEHIND_WITHIN)
    return b" ".join(data[before.start() if before else start : behind.end() if behind else end].split())
