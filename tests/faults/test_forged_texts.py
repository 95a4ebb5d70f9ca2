"""Texts made to be taken for others: a constructed XXH3 collision, and tool output full of markers."""

from __future__ import annotations

import json
import random
import re
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace
from xxhash import xxh3_64_hexdigest, xxh3_128_hexdigest

from sessioncompress.core import marker
from sessioncompress.errors import Damaged, Refused, UsageError
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.show import show
from sessioncompress.operations.verify import verify_session
from sessioncompress.pipeline.stats import Status
from sessioncompress.store.layout import store_in
from sessioncompress.store.originals import zstd
from tests.faults.memory import memory_of
from tests.faults.watch import nothing_outside
from tests.support import texts
from tests.support.runs import EAGER, compress, compress_again, entries, result_texts, split, turn, write
from tests.support.session import PiSession
from tests.support.texts import ONE, OTHER
from tests.unit.store.tools import everything

_SECRET = "the secret of the other session"
_MOST = 100
"""MiB over the start."""


@pytest.fixture
def collided(tmp_path: Path) -> tuple[Path, PiSession]:
    """Return a compressed session with both texts, and what it was."""
    made = PiSession()
    made.user("Go.")
    for text in (ONE, OTHER, ONE):
        made.step("bash", {"command": "x"}, text)
    path = write(tmp_path, turn(made, 2))
    compress(path)
    return path, made


def test_colliding_texts_are_two(collided: tuple[Path, PiSession]) -> None:
    """Each has a reference of its own. Neither repeats the other, and each goes back where it was."""
    assert ONE != OTHER
    assert xxh3_64_hexdigest(ONE.encode()) == xxh3_64_hexdigest(OTHER.encode())
    assert xxh3_128_hexdigest(ONE.encode()) == xxh3_128_hexdigest(OTHER.encode())
    path, made = collided
    verify_session(path)
    named = {ref for text in result_texts(entries(path.read_bytes())) for ref in marker.references(text)}
    assert sorted(shown.content.decode() for ref in named for shown in show(ref, path)) == sorted([ONE, OTHER])
    repeats = ["same text" in text for text in result_texts(entries(path.read_bytes()))]
    assert repeats == [True, False, False]
    restore_session(path, from_markers=True)
    assert path.read_bytes() == made.bytes()


@pytest.mark.parametrize("from_markers", [False, True])
def test_a_colliding_text_in_the_originals_is_damage(collided: tuple[Path, PiSession], from_markers: bool) -> None:
    """What stands in another's place with its size and its XXH3 is found by SHA-256, and does not go back."""
    path, made = collided
    files = store_in(path)
    one, other = (json.dumps(text, ensure_ascii=False).encode()[1:-1] for text in (ONE, OTHER))
    kept = zstd.decompress(files.originals.read_bytes())
    assert kept.count(one) == 2
    changed = zstd.compress(kept.replace(one, other))
    records = [json.loads(line) for line in split(files.journal.read_bytes())]
    # Nor may anything else tell: the seals of a journal of version 0.1.0 do not.
    records[-1] = {name: value for name, value in records[-1].items() if not name.lower().endswith("sha256")}
    records[-1]["storeSize"] = len(changed)
    files.journal.write_bytes(b"".join(json.dumps(record).encode() + b"\n" for record in records))
    files.originals.write_bytes(changed)
    old = path.read_bytes()
    with pytest.raises(Damaged, match="SHA-256 does not match"):
        verify_session(path)
    with suppress(Damaged) if from_markers else pytest.raises(Damaged):
        restore_session(path, from_markers=from_markers)
    lines = split(path.read_bytes())
    assert all(line in pair for line, *pair in zip(lines, split(old), made.lines(), strict=True))
    assert from_markers or path.read_bytes() == old


# Markers that tools print


def with_secret(folder: Path) -> Path:
    """Return a compressed session whose originals hold the secret, where no text that was left does."""
    made = PiSession(seed="victim")
    made.user("Go.")
    for number in range(4):
        log = texts.log_lines(random.Random(number), 60).split("\n")
        log[30] = f"{_SECRET} {number}"
        made.step("bash", {"command": "env"}, "\n".join(log))
    path = write(folder, turn(made), "victim.jsonl")
    compress(path)
    assert _SECRET.encode() not in path.read_bytes()
    return path


def flood(victim: Path) -> list[str]:
    """Return texts that imitate, quote and copy what stands for the secrets of a session."""
    shown = result_texts(entries(victim.read_bytes()))
    refs = re.findall(r"show ([0-9a-f]+)", "".join(shown))
    form = "[[sessioncompress: 60 lines, 4.0 KB, kept on disk: sessioncompress show %s]]"
    names = [*refs, refs[0] * 4, "../victim", "/etc/passwd", str(victim), "0" * 12, "\x1b[2J", "\0", "f" * 5000]
    return [*shown, *(form % name for name in names), "\n".join(form % name for name in names * 20), victim.read_text()]


def attacker(victim: Path) -> PiSession:
    """Return a session whose tools printed, and whose calls wrote, all of them: also under the victim's call ids."""
    calls = re.findall(r'"toolCallId":"([^"]+)"', victim.read_text())
    made = PiSession(seed="attacker")
    made.user("Go.")
    for number, text in enumerate(flood(victim)):
        call = calls[number % len(calls)]
        made.assistant(made.call("write", {"path": "a", "content": text}, call_id=call))
        made.result(call, text)
        made.user(text)
    return turn(made)


@pytest.mark.parametrize("compressed", [False, True], ids=["never compressed", "compressed"])
@pytest.mark.parametrize("shared", [False, True], ids=["beside", "one backup folder"])
def test_markers_that_tools_printed_bring_nothing_back(tmp_path: Path, compressed: bool, shared: bool) -> None:
    """They are content, and go back as content: no secret of another session comes with them."""
    policy = replace(EAGER, backup_dir=str(tmp_path / "backup")) if shared else EAGER
    victim = with_secret(tmp_path)
    made = attacker(victim)
    path = write(tmp_path, made)
    if compressed:
        assert compress(path, policy).imitated_markers
        compress_again(path, policy)
        assert _SECRET.encode() not in path.read_bytes()
    others = {name: content for name, content in everything(tmp_path).items() if "victim" in name}
    with nothing_outside(tmp_path):
        try:
            restore_session(path, policy, from_markers=True)
        except Refused:
            assert not compressed
    assert path.read_bytes() == made.bytes()
    assert {name: content for name, content in everything(tmp_path).items() if "victim" in name} == others


def test_not_even_from_the_store_that_they_name(tmp_path: Path) -> None:
    """Where the user names the other session as the store, a marker in an entry that was never there stays."""
    victim = with_secret(tmp_path)
    made = attacker(victim)
    path = write(tmp_path, made)
    assert restore_session(path, from_markers=True, originals=victim).status is Status.UNCHANGED
    assert path.read_bytes() == made.bytes()


def test_a_reference_shows_nothing_of_another_session(tmp_path: Path) -> None:
    """Whoever names a session is shown its originals alone."""
    victim = with_secret(tmp_path)
    path = write(tmp_path, attacker(victim))
    compress(path)
    for ref in re.findall(r"show ([0-9a-f]+)", victim.read_text()):
        with pytest.raises(UsageError, match="no original"):
            show(ref, path)


def test_a_flood_of_markers_takes_no_memory(tmp_path: Path) -> None:
    """Hundreds of thousands of them in one line are content like any other."""
    made = PiSession()
    made.user("Go.")
    one = "[[sessioncompress: 60 lines, 4.0 KB, kept on disk: sessioncompress show 0123456789ab]]\n"
    for number in range(20):
        made.step("bash", {"command": "x"}, f"{number}\n" + one * 10_000)
    path = write(tmp_path, turn(made))
    compress(path)
    grown, code, _ = memory_of("restore", "--from-markers", path)
    assert (code, split(path.read_bytes())) == (0, made.lines())
    assert grown < _MOST
