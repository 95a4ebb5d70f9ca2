"""Results made to be the worst for their names: the previews stay within their budget, and time grows as they do."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from sessioncompress.compressors.names import LOOKED_AT, Index, Names
from sessioncompress.core import marker
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.policy.model import BALANCED
from tests.support.build import PiSession
from tests.support.runs import EAGER, compress, entries, old, result_texts, write

pytestmark = pytest.mark.usefixtures("collected")

_MB = 1_000_000
_MOST = 8.0
"""So many times as long may four times as much take; where time grows with the square it is sixteen."""
_SOON = 0.3
"""Seconds of processor time that say nothing of growth."""

Piece = Callable[[int], str]

PIECES: dict[str, Piece] = {
    "distinct names": lambda each: f"value = call(name_{each});\n",
    "distinct names in one line": lambda each: f"value = call(name_{each}); ",
    "distinct names and nothing else": lambda each: f"(n_{each})",
    "one name": lambda _: "(read_gauge);\n",
    "one name inside others": lambda each: f"(xread_gauge{each} read_gauge);\n",
    "the beginnings of one name": lambda each: f"(x_{'y' * (each % 46)});\n",
    "numbers": lambda each: f"({each + 10_000});\n",
    "numbered lines": lambda each: f"{each}\tint name_{each} = {each};\n",
    "files": lambda each: f"src/deep/file_{each}.py;\n",
    "files of one folder each": lambda each: f"src/folder_{each}/a{each}.py;\n",
    "dots": lambda _: ".",
    "dotted words": lambda each: f"a_{each}.b_{each}.",
    "slashes": lambda _: "/\\",
    "underscores": lambda _: "a_",
    "markers": lambda each: (
        f"[[sessioncompress: {each} lines, 5 bytes, kept on disk: sessioncompress show 7f3a91c2e05b]]\n"
    ),
    "lines like an index": lambda each: f"in it: name_{each} | src/f{each}.py\n",
    "CJK": lambda _: "漢字潮汐",
    "names between CJK": lambda each: f"漢字name_{each}潮汐 ",
    "emoji": lambda _: "👩\u200d👩\u200d👧",
    "lone surrogates": lambda each: f"\ud800name_{each}\udc00\n",
    "colors": lambda each: f"\x1b[31mname_{each}\x1b[0m;\n",
    "colors that do not end": lambda _: "\x1b[38;5;204;1;4",
    "base64": lambda each: f"QUJDREVGR0hJSktMTU5PUFFS{each}",
    "folders of nobody": lambda each: f".git/name_{each}\nnode_modules/n_{each};\n",
    "escaped line ends": lambda each: f"name_{each};\\n\\t",
    "quotes": lambda each: f'"name_{each}":"\\\\',
    "control characters": lambda each: f"\x00\x01name_{each}",
    "spaces": lambda _: " \t",
    "line ends": lambda _: "\n",
    "prose": lambda each: f"The tide rose {each} times and nobody said why. ",
}


def text_of(piece: Piece, size: int) -> str:
    """Return so many characters of different pieces."""
    found: list[str] = []
    for number in count():
        found.append(piece(number))
        size -= len(found[-1])
        if size <= 0:
            break
    return "".join(found)


def chosen(results: list[str]) -> tuple[list[Index], float]:
    """Return the indexes of results, and the seconds of processor time."""
    begun = time.process_time()
    names = Names(BALANCED)
    for text in results:
        names.keep(json.dumps(text[-2_000:]).encode())
    for text in results:
        names.add(text + "\n(own_name);")
    return names.choose(), time.process_time() - begun


@pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES)
def test_the_indexes_stay_within_the_budget(piece: Piece) -> None:
    """Of one result of a megabyte, and of many of what is looked at of one: no line of it is above its most."""
    text = text_of(piece, _MB)
    for results in ([text], [text[at : at + LOOKED_AT] for at in range(0, _MB, LOOKED_AT)]):
        lines = [index.line().encode() for index in chosen(results)[0]]
        assert sum(map(len, lines)) <= BALANCED.preview_share * sum(len(each) + 12 for each in results)
        assert all(len(line) <= BALANCED.preview_max_bytes and b"\n" not in line for line in lines)


@pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES)
def test_time_grows_as_the_results_do(piece: Piece) -> None:
    """Many results, all of whose bytes are looked at; in one result no more than some are."""
    text = text_of(piece, _MB)
    assert min(chosen([text])[1] for _ in range(2)) < _SOON
    parts = [text[at : at + LOOKED_AT] for at in range(0, len(text), LOOKED_AT)]
    quarter = chosen(parts[: len(parts) // 4])[1]
    whole = chosen(parts)[1]
    if whole > max(_SOON, _MOST * quarter):  # whatever else the machine did meanwhile
        quarter, whole = min(quarter, chosen(parts[: len(parts) // 4])[1]), min(whole, chosen(parts)[1])
    assert whole <= max(_SOON, _MOST * quarter)


LEFT_ALONE = ("lone surrogates",)
"""Such a line is sealed."""
LONG = {name: piece for name, piece in PIECES.items() if name not in LEFT_ALONE}


@pytest.mark.parametrize("piece", LONG.values(), ids=LONG)
def test_a_result_of_a_megabyte_has_a_short_preview(piece: Piece, tmp_path: Path) -> None:
    """One that a tool printed, with an error flag or without; every byte comes back."""
    made = PiSession()
    made.user("Go.")
    for error in (False, True):
        made.step("bash", {"command": "make"}, text_of(piece, _MB) + str(error), error=error)
    path = write(tmp_path, data := old(made))
    compress(path)
    for text in result_texts(entries(path.read_bytes())):
        assert marker.occurs_in(text)
        size = len(json.dumps(text, ensure_ascii=False).encode(errors="replace"))
        assert size <= BALANCED.preview_max_bytes + EAGER.result_limit
    assert compress_session(path, EAGER).lines_changed == 0
    restore_session(path, EAGER)
    assert path.read_bytes() == data
