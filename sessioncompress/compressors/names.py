"""The names in long results: which of them stay readable, and the line of a preview that shows them.

A model returns to an old result for things that it has not written yet: a function, a file, a number. So each such name
stays once, in the newest result that holds it, with the words next to it, unless other remaining text holds it too. All
results of a run share one budget, because most have few new names, and some have many.

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
"""Keeps only words; non-ASCII bytes separate them."""
_IN_NAMES = f"{_IN_WORDS.decode()}."
_WORDS = bytes(each if each in b"." else _PARTS[each] for each in range(256))
"""Keeps the dots in words too."""
_IN_FOLDER = bytes(each if each in _IN_WORDS + b".@~" else 0x20 for each in range(256))
"""Keeps the characters of a folder's name."""
_JOINS = bytes(each in _IN_WORDS for each in range(256))
"""Tells which bytes continue a word."""
_CONTROLS = bytes(each for each in range(32) if each not in b"\t\n\r\f\x1b")

_SYMBOLS = b"(){}[];=<>_/\\|"

_SUFFIXES = frozenset(
    b"ts tsx js jsx mjs cjs py go rs md mdx json jsonl yml yaml toml sh bash css scss htm html sql rb java kt swift "
    b"c h cc cpp hpp txt lock env svg png xml proto mod sum cfg ini conf log csv tmpl vue svelte ex lua zig ps1 "
    b"snap".split()
)
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
"""A generated file name, such as `index-DaueD7GO.js`."""
_BEFORE = re.compile(rb"(?<!\w)[A-Za-z_]\w*[^\w\n;)}]{1,4}\Z")
_BEHIND = re.compile(rb"[^\w\n;}]{1,4}\w{1,32}(?!\w)")
_VERSIONS = re.compile(rb"\nindex [0-9a-f]{4,40}\.\.[0-9a-f]{4,40}(?: [0-7]{6})?")
"""The file hashes in git's diff, which no one needs later."""
_OF_LINE = re.compile(rb"(?:\n[ *+>]{0,12}|[:-])\Z")
_AFTER_IT = b":-|\t\xe2"
"""Characters before and after a line number that a tool wrote before a line, alone or after the file's name."""
_NOT_OWN = re.compile(rb"/(?:(?<=\.git/)|(?<=\.venv/)|(?<=node_modules/)|(?<=__pycache__/)|(?<=site-packages/))")
"""Lines of a listing or a report about these folders don't concern the project. Slashes are found fastest."""
_PASSED = re.compile(
    rb"(?:\A|\n)(?:test [^\n]{1,300} \.\.\. ok|[ \t]{0,40}(?:\xe2\x9c[\x93\x94]|--- PASS:|PASS |ok \d{1,6} )[^\n]*|"
    rb"[^\s:]{1,300}::[^\n]{1,300} PASSED[^\n]*)(?=\n|\Z)"
)
"""Lines about passed tests, which no next step needs."""
_DIGITS = re.compile(rb"\d+")
_MOST_ALIKE = 2
"""Maximum pieces of one result that differ only in digits."""
_ESCAPE = re.compile(rb"\\[\\nt]")
"""Escapes in JSON text: they separate words, or hide that the next character does not."""
_DOT = ord(".")

LOOKED_AT: Final = 16_384
"""Characters of a result that are searched for names: three quarters from its beginning, the rest from its end."""
MOST_HELD: Final = 8 << 20
"""Bytes of results that are searched in one run, so that memory is bounded."""
_MOST_KNOWN = 100_000
"""Approximate maximum of remembered words in the remaining text, for the same reason."""
_MOST_FOUND = 10_000
"""Maximum of remembered names, for the same reason; hardly any budget fits more."""
_PROSE = 50
"""In text that is not prose, at least one of this many bytes is a symbol."""
_BINARY = 10
"""In data that is not text, more than one of this many bytes is a control character."""

_FILE_WORTH, _NAME_WORTH, _NUMBER_WORTH = 1.2, 1.0, 0.4
_SHORTEST, _LONGEST = 4, 64
"""Bytes of a name."""
_LEAST_ENDS = 160
_LINE = 80
"""Approximate bytes of a first line."""
_FOR_LINES = 0.05
"""The share of the budget for first lines."""
BETWEEN = " | "
_NEIGHBORS = 16
"""Approximate bytes of a name's neighbors with their separators."""
_BEFORE_WITHIN, _BEHIND_WITHIN = 20, 40
"""Bytes in which neighbors are searched for."""
_WITH_NEIGHBORS = 0.7
"""The share of the budget for names with neighbors; names alone get the rest."""


class Visible(NamedTuple):
    """The visible parts of a result: names with their neighbors (`pieces`) and `alone`, and parts of its text.

    These are `ends` bytes of head and tail or, if that is 0, the `first` line if set.
    """

    pieces: Sequence[str]
    alone: Sequence[str]
    ends: int
    first: bool

    def line(self, shown: str = "") -> str:
        """Write the line of names, without those that the rest of the preview shows; "" if none are left."""
        words = set(shown.encode(errors="replace").translate(_WORDS).decode().split()) if shown else ()
        written = [piece for piece in self.pieces if piece not in shown]
        if alone := " ".join(name for name in self.alone if name not in words):
            written.append(alone)
        return INDEX + BETWEEN.join(written) if written else ""


NOTHING: Final = Visible((), (), 0, first=True)
"""The index of a result that was not searched for names."""


class _Result:
    """The searched text of a result, and the names chosen from it with their offsets; `room` is bytes left for more."""

    __slots__ = ("alone", "data", "ends", "folders", "is_text", "kinds", "pieces", "room")

    def __init__(self, data: bytes, ends: int, room: int, *, is_text: bool) -> None:
        self.data = data
        self.ends = ends
        self.is_text = is_text
        self.pieces: list[tuple[int, bytes]] = []
        self.alone: list[tuple[int, bytes]] = []
        self.folders: dict[bytes, list[bytes]] = {}
        """The files of each folder; the first one includes the folder."""
        self.room = room
        self.kinds = Counter[bytes]()
        """The number of pieces of each form, ignoring digits."""

    def index(self, *, first: bool) -> Visible:
        """Return the names in text order; without any, a text shows its first line in any case."""
        inside = {files[0]: b" ".join(files) for files in self.folders.values()}
        pieces = [inside.get(piece, piece).decode(errors="ignore") for _, piece in sorted(self.pieces)]
        alone = [name.decode(errors="ignore") for _, name in sorted(self.alone)]
        return Visible(pieces, alone, self.ends, self.is_text and (first or not (pieces or alone)))


class PreviewNames:
    """The names of one run: call keep() for the remaining text, add() for the results, newest first, then choose().

    All previews take at most `preview_share` of the bytes of their results; a single one takes at most
    `preview_max_bytes` and half of its result.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._most = policy.preview_max_bytes
        self._known: set[bytes] = set()
        self._found: list[tuple[float, int, bytes]] = []
        """Each name's worth per byte, the index of its result (negative), and the name."""
        self._least = (0.0, 0, b"")
        """The worst remembered name once the limit is reached; anything below it has no chance."""
        self._results: list[_Result] = []
        self._size = self._held = self._ends = 0

    def keep(self, data: bytes) -> None:
        """Record texts (or their JSON) that a model can still read."""
        if len(self._known) < _MOST_KNOWN:
            words = set(_ESCAPE.sub(b" ", data).translate(_WORDS).split()) - self._known
            dotted = [word for word in words if _DOT in word]
            self._known.update(words, b" ".join(dotted).translate(_PARTS).split())

    @property
    def is_full(self) -> bool:
        """True if no more results should be added."""
        return self._held >= MOST_HELD

    def add(self, text: str) -> None:
        """Add the next older result that will be replaced, and find the names in it that no remaining text holds."""
        self._size += len(text)
        data = _looked_at(text)
        self._held += len(data)
        is_text = (len(data) - len(data.translate(None, _CONTROLS))) * _BINARY <= len(data)
        # Too few symbols for code, a listing or a log: its sentences matter, not its names.
        is_prose = (len(data) - len(data.translate(None, _SYMBOLS))) * _PROSE < len(data)
        ends = ends_of(len(text), self._policy) if is_text and is_prose else 0
        self._ends += ends
        number = len(self._results)
        room = min(self._most - ends, len(data) // 2) - len(INDEX)
        self._results.append(_Result(data, ends, room, is_text=is_text))
        if not is_text:
            return
        words = set(data.translate(_WORDS).split()) - self._known
        # Most are plain words; this is the fastest check for them.
        telling = {word for word in words if not (word.isalpha() and (word.islower() or word.istitle()))}
        # A dotted word that is not a file's name is split at its dots.
        dotted = {word for word in telling if _DOT in word}
        files = {word for word in dotted if _is_file(word)}
        parts = set(b" ".join(dotted - files).translate(_PARTS).split()) - self._known
        # A name in a newer result belongs to that one.
        if len(self._known) < _MOST_KNOWN:
            self._known.update(words, parts)
        found = [(_NUMBER_WORTH if _MADE_UP.search(name) else _FILE_WORTH, name) for name in files]
        # Numbers and ids in an API's answer mean nothing.
        of_number = 0.0 if data.lstrip()[:1] in (b"{", b"[") else _NUMBER_WORTH
        names = _NAME.findall(b" ".join((telling - dotted) | parts))
        found += [(of_number if _NUMBER.fullmatch(name) else _NAME_WORTH, name) for name in names]
        worths = [(worth / (len(name) + _NEIGHBORS), -number, name) for worth, name in found if worth]
        worths = [each for each in worths if each > self._least]
        # Keep only as many of one result as can fit: a name takes at least 8 bytes in an index.
        most = self._most // 8
        self._found += worths if len(worths) <= most else nlargest(most, worths)
        if len(self._found) > 2 * _MOST_FOUND:
            self._found.sort(reverse=True)
            del self._found[_MOST_FOUND:]
            self._least = self._found[-1]

    def choose(self) -> list[Visible]:
        """Choose the names with the highest worth per byte; return the index of each result in the order of add().

        The newest results show their first lines as long as a twentieth of the budget lasts; a text without names
        always does.
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
        """Take names while they fit; return the rest of the budget."""
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
    """Return the bytes of head and tail of a text: two thirds of its share, from 160 to a third of the maximum."""
    return min(max(int(size * policy.preview_share * 2 / 3), _LEAST_ENDS), policy.preview_max_bytes // 3)


def _is_file(word: bytes) -> bool:
    """True if a word with a dot is the name of a file as projects have it."""
    stem, _, suffix = word.rpartition(b".")
    return suffix in _SUFFIXES and _SHORTEST <= len(word) <= _LONGEST and stem[-1:] not in (b"", b".")


def _looked_at(text: str) -> bytes:
    """Return a text's ends without colors; if most line breaks are escaped, as in JSON, they become real ones.

    Lines about folders outside the project's own work are left out.
    """
    if len(text) > LOOKED_AT:
        # Part of a word would be a different name.
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
    """Return where a name occurs as a whole word, or else inside another. The text begins and ends with LF."""
    place = first = data.find(name)
    for _ in range(4):
        if place < 0 or not (_JOINS[data[place - 1]] or _JOINS[data[place + len(name)]]):
            break
        place = data.find(name, place + 1)
    return place if place >= 0 else first


def _folder(data: bytes, place: int) -> bytes:
    """Return the name of the folder right before a file's name, or b""."""
    if data[place - 1 : place] not in (b"/", b"\\"):
        return b""
    before = data[max(place - 64, 0) : place - 1]
    return before.translate(_IN_FOLDER).rpartition(b" ")[2] + data[place - 1 : place]


def _with_neighbors(data: bytes, start: int, end: int) -> bytes:
    """Return a name with the words before and after it, if they are close and on its line."""
    before = _BEFORE.search(data, max(0, start - _BEFORE_WITHIN), start)
    behind = _BEHIND.match(data, end, end + _BEHIND_WITHIN)
    return b" ".join(data[before.start() if before else start : behind.end() if behind else end].split())
