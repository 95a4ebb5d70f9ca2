"""Originals that are shorter than the journal says: what is left of them comes back, and nothing is given up."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from shutil import which

import pytest

from sessioncompress.core import marker
from sessioncompress.store.layout import store_in
from tests.support import texts
from tests.support.build import PiSession
from tests.support.documents import GeminiDocument
from tests.support.runs import compress, split, told, turn, units, write

_BACKUP = "Put a copy of it back from a backup"
_FROM_MARKERS = "'sessioncompress restore --from-markers' puts back all lines that can still be read"
_FORGET = "'sessioncompress forget' ends this: it deletes what is left there"


def log(name: str) -> str:
    return texts.log_lines(random.Random(name), 120)


def of_pi(parts: int) -> bytes:
    """Return a session of so many parts, each of which a run compresses."""
    made = PiSession()
    made.user("Go.")
    for part in range(parts):
        for step in range(6):
            made.step("bash", {"command": f"make {part}{step}"}, log(f"{part}{step}"), thinking="Hm. " * 200)
        turn(made)
    return made.bytes()


def of_gemini(parts: int) -> bytes:
    """Return the same as one document, as its agent writes it anew each time."""
    made = GeminiDocument()
    for part in range(parts):
        made.user("Go.")
        for step in range(6):
            made.answer("So.", made.used("run_shell_command", {"command": f"{part}{step}"}, log(f"{part}{step}")))
        made.user("On.").answer("Done.")
    return made.bytes()


def compressed_twice(folder: Path, of: Callable[[int], bytes] = of_pi, name: str = "session.jsonl") -> tuple[Path, int]:
    """Return a session that was compressed, went on and was compressed again; and how long the originals were first."""
    path = write(folder, of(1), name)
    compress(path)
    first = store_in(path).originals.stat().st_size
    if of is of_pi:
        with path.open("ab") as file:
            file.write(b"".join(split(of(2))[len(split(of(1))) :]))
    else:
        # The agent has the messages that it read, and adds its own.
        was, now, whole = units(path.read_bytes()), units(of(1)), of(2)
        for new, old in zip(was, now, strict=True):
            whole = whole.replace(old, new)
        path.write_bytes(whole)
    compress(path)
    assert store_in(path).originals.stat().st_size > first
    return path, first


def shows(path: Path, ref: str) -> bool:
    """Say whether a reference is shown; where it is not, a copy is asked for."""
    code, said = told(f"show {ref}", path)
    assert code == 0 or "from a backup" in said
    return code == 0


@pytest.mark.parametrize(("of", "name"), [(of_pi, "session.jsonl"), (of_gemini, "session.json")], ids=["pi", "gemini"])
@pytest.mark.parametrize("more", [0, 1, 60])
def test_what_is_left_comes_back_and_the_rest_with_a_copy(
    tmp_path: Path, of: Callable[[int], bytes], name: str, more: int
) -> None:
    """Cut to what the first run left, or a little behind: a whole copy that turns up later still fits."""
    path, first = compressed_twice(tmp_path, of, name)
    store = store_in(path)
    rewritten, whole, journal = units(path.read_bytes()), store.originals.read_bytes(), store.journal.read_bytes()
    os.truncate(store.originals, first + more)
    for command in ("verify", "restore", "compress --force"):
        code, said = told(command, path)
        assert code == 5
        places = [said.index(each) for each in (_BACKUP, _FROM_MARKERS, _FORGET)]
        assert places == sorted(places)
    code, said = told("restore --from-markers", path)
    assert code == 5
    lines = list(zip(units(path.read_bytes()), rewritten, units(of(2)), strict=True))
    came = sum(now == then != before for now, before, then in lines)
    stay = sum(now == before != then for now, before, then in lines)
    assert came
    assert stay
    assert all(now in (before, then) for now, before, then in lines)
    assert f"{came} lines restored" in said
    assert "cannot be read" in said
    assert f"of {came + stay} rewritten lines {stay} did not come back: the session is not exact" in said
    assert store.originals.read_bytes() == whole[: first + more]
    assert store.journal.read_bytes().startswith(journal)
    code, said = told("restore --from-markers", path)
    assert code == 5
    assert "nothing can be put back: the originals of lines" in said
    assert _FORGET in said
    assert told("verify", path)[0] == told("restore", path)[0] == 5
    store.originals.write_bytes(whole)
    assert told("verify", path)[0] == 0
    assert told("restore", path)[0] == 0
    assert path.read_bytes() == of(2)
    compress(path)
    assert told("verify", path)[0] == told("restore", path)[0] == 0
    assert path.read_bytes() == of(2)


def test_a_copy_of_both_files_still_fits(tmp_path: Path) -> None:
    """Also the journal may come back as it was before."""
    path, first = compressed_twice(tmp_path)
    store = store_in(path)
    copies = {file: file.read_bytes() for file in (store.originals, store.journal)}
    os.truncate(store.originals, first)
    assert told("restore --from-markers", path)[0] == 5
    for file, data in copies.items():
        file.write_bytes(data)
    assert told("verify", path)[0] == told("restore", path)[0] == 0
    assert path.read_bytes() == of_pi(2)


def test_show_advises_what_does_something(tmp_path: Path) -> None:
    """Where a reference cannot be read others can: what it names then comes back; where none can it is not advised."""
    path, first = compressed_twice(tmp_path)
    store = store_in(path)
    refs = marker.references(path.read_text().replace('\\"', '"'))
    os.truncate(store.originals, first)
    lost = [ref for ref in refs if not shows(path, ref)]
    assert 0 < len(lost) < len(refs)
    assert "restore --from-markers' puts back all lines" in told(f"show {lost[0]}", path)[1]
    was = path.read_bytes()
    assert told("restore --from-markers", path)[0] == 5
    assert path.read_bytes() != was
    os.truncate(store.originals, first // 2)
    code, said = told(f"show {lost[0]}", path)
    assert code == 5
    assert "--from-markers" not in said
    assert _BACKUP in said


@pytest.mark.parametrize("size", ["half a frame", "a few bytes", "nothing", "no file"])
@pytest.mark.parametrize("command", ["verify", "restore", "restore --from-markers", "compress --force"])
def test_nothing_is_promised_that_fails(tmp_path: Path, size: str, command: str) -> None:
    """Where no original can be read only a copy helps; session and store stay as they are."""
    path, first = compressed_twice(tmp_path)
    store = store_in(path)
    if size == "no file":
        store.originals.unlink()
    else:
        os.truncate(store.originals, {"half a frame": first // 2, "a few bytes": 30, "nothing": 0}[size])
    before = path.read_bytes(), store.journal.read_bytes()
    code, said = told(command, path)
    assert code == 5
    assert "--from-markers" not in said
    assert "zstd" not in said
    places = [said.index(each) for each in (_BACKUP, _FORGET)]
    assert places == sorted(places)
    assert (path.read_bytes(), store.journal.read_bytes()) == before


def test_zstd_prints_where_it_is_said(tmp_path: Path) -> None:
    if which("zstd") is None:
        pytest.skip("there is no zstd here")
    path, first = compressed_twice(tmp_path)
    originals = store_in(path).originals
    whole = originals.read_bytes()
    named = []
    for size in range(100, len(whole), len(whole) // 12):
        originals.write_bytes(whole[:size])
        named.append("zstd -dc" in told("verify", path)[1])
        printed = subprocess.run(["zstd", "-dcq", originals], capture_output=True, check=False).stdout
        assert printed or not named[-1]
        assert named[-1] or size < first
    assert any(named)
    assert False in named


def test_where_they_are_gone_a_relative_may_hold_them(tmp_path: Path) -> None:
    """A copy of the session under another name has the same originals; and where its own are gone they keep no other."""
    path, _ = compressed_twice(tmp_path)
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(path.read_bytes())
    for one, other in zip(store_in(path)[1:3], store_in(copy)[1:3], strict=True):
        other.write_bytes(one.read_bytes())
    store_in(path).originals.unlink()
    read = partial(told, "restore --from-markers")
    assert read(path)[0] == 0
    assert path.read_bytes() == of_pi(2)
    assert read(copy)[0] == 0
    assert copy.read_bytes() == of_pi(2)
