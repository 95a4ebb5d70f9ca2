"""`pack` and `unpack` in an object store: moto's server stands for S3."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.operations import pack as packing
from sessioncompress.store.pack import Index
from tests.support.buckets import BUCKET, before_get, bucket, content, keys, obstore, putting, server, small
from tests.support.commands import run
from tests.support.packs import entry, member, planted

__all__ = ["bucket", "server"]

ONE, TWO = "ci/one/session.jsonl", "ci/two é%20 [1]+.jsonl"
STORE = ("ci/one/.sessioncompress/session.jsonl.zst", "ci/one/.sessioncompress/session.refs.jsonl")


DATA = {ONE: small("one"), TWO: small("two")}

COMPRESSED: dict[str, bytes] = {}
"""What is made once, and put for each test."""


@pytest.fixture
def sessions(bucket: Any) -> Any:
    """Put two sessions, the first of which has a store."""
    if not COMPRESSED:
        obstore.put(bucket, ONE, DATA[ONE])
        assert run("compress", f"{BUCKET}/{ONE}", "--force", "--keep-turns", "1").exit_code == 0
        COMPRESSED.update(full(bucket), **{TWO: DATA[TWO]})
    for key, data in COMPRESSED.items():
        obstore.put(bucket, key, data, attributes={"build": "17"})
    return bucket


def full(bucket: Any) -> dict[str, bytes]:
    found = {key: content(bucket, key) for key in keys(bucket) if "/packs/" not in key}
    return {key: data for key, data in found.items() if data}


def packs(bucket: Any) -> list[str]:
    return [key for key in keys(bucket) if "/packs/" in key and content(bucket, key)]


def test_sessions_are_packed_and_come_back(sessions: Any) -> None:
    """By the same bytes and attributes; meanwhile what reads sees them, and what is at their places is empty."""
    before = full(sessions)
    assert set(before) == {ONE, TWO, *STORE}
    assert run("pack", BUCKET, "--dry-run").stdout.startswith("total: would pack 2 sessions, ")
    assert full(sessions) == before
    done = run("pack", f"{BUCKET}/ci/", "--json")
    (archive,) = json.loads(done.stdout)["archives"]
    assert archive["path"].startswith(f"{BUCKET}/ci/.sessioncompress/packs/")
    assert (archive["sessions"], archive["size"]) == (2, sum(map(len, before.values())))
    assert (full(sessions), len(packs(sessions))) == ({}, 2)
    assert run("verify", BUCKET).stdout.startswith("total: 2 sessions: ")
    assert run("stats", f"{BUCKET}/ci/one", "--json").stdout.count(f'"path": "{BUCKET}/{ONE}"') == 2
    assert f"{BUCKET}/{TWO} (packed): turn 1, prompt: look at 0" in run("search", "look at 0", BUCKET).stdout
    assert run("pack", BUCKET).stdout == "total: packed 0 sessions, 0 KB\n"
    assert "the object is empty. Nothing was done. If it was packed" in run("verify", f"{BUCKET}/{ONE}").stderr

    done = run("unpack", f"{BUCKET}/{TWO}")
    assert (done.exit_code, done.stderr) == (0, "")
    assert full(sessions) == {TWO: before[TWO]}
    assert run("unpack", f"{BUCKET}/{archive['path'].removeprefix(BUCKET + '/')}").exit_code == 0
    assert full(sessions) == before
    assert obstore.get(sessions, ONE).attributes["build"] == "17"
    assert packs(sessions) == []
    assert run("restore", BUCKET).exit_code == 0
    assert content(sessions, ONE) == DATA[ONE]


def test_a_store_of_a_packed_session_is_no_dead_end(sessions: Any) -> None:
    """As a run leaves it that put its originals before a pack emptied the session: the error names the way back."""
    before = full(sessions)
    assert run("pack", BUCKET).exit_code == 0
    for key in STORE:
        obstore.put(sessions, key, before[key])
    done = run("history", BUCKET)
    assert done.exit_code == 4
    assert "the session is missing, but its store is still there" in done.stderr
    way_back = f"'sessioncompress unpack {BUCKET}/{ONE}' brings it back"
    assert way_back in done.stderr
    assert run(*way_back.split("'")[1].split()[1:]).exit_code == 0
    assert content(sessions, ONE) == before[ONE]
    assert run("restore", f"{BUCKET}/{ONE}").exit_code == 0
    assert content(sessions, ONE) == DATA[ONE]


@pytest.mark.slow
def test_what_is_written_meanwhile_stays(sessions: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that changed as it was packed is told of, and the pack does not bring its older state back."""
    newer, put_object = DATA[TWO] + b"\n", obstore.put

    def overwritten(key: str, put: Callable[[], Any]) -> Any:
        if key.endswith(".index") and not content(sessions, TWO).endswith(b"\n\n"):
            put_object(sessions, TWO, newer)
        return put()

    with monkeypatch.context() as patched:
        putting(patched, overwritten)
        done = run("pack", BUCKET)
    assert done.exit_code == 4
    assert f"refused: {BUCKET}/{TWO}: somebody else wrote it in the meantime. It was left alone" in done.stderr
    assert full(sessions) == {TWO: newer}
    obstore.delete(sessions, TWO)
    assert "1 session" in run("unpack", BUCKET, "--dry-run").stdout
    obstore.put(sessions, ONE, newer)
    done = run("unpack", BUCKET)
    assert done.exit_code == 4
    assert "there is another object in its place. It was not changed; the packed one is in the pack." in done.stderr
    assert full(sessions) == {ONE: newer}
    assert run("pack", BUCKET).exit_code == 0
    assert run("unpack", BUCKET).exit_code == 4
    assert full(sessions)[ONE] == newer


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "number", "arrives"),
    [
        *(("pack", n, True) for n in range(6)),
        *(("unpack", n, True) for n in range(7)),
        *((command, n, False) for command in ("pack", "unpack") for n in (0, 2)),
    ],
)
def test_a_put_that_fails_loses_nothing(
    sessions: Any, monkeypatch: pytest.MonkeyPatch, *, command: str, number: int, arrives: bool
) -> None:
    """Each session is at its place or in a pack; the next run finishes, and all comes back."""
    monkeypatch.setattr(packing, "AT_ONCE", 1)
    before = full(sessions)
    if command == "unpack":
        assert run("pack", BUCKET).exit_code == 0

    def failing(key: str, put: Callable[[], Any]) -> Any:
        if len(seen) > number:
            if arrives and len(seen) == number + 1:
                put()
            raise obstore.exceptions.GenericError("the network is down\n\nDebug source:")
        return put()

    with monkeypatch.context() as patched:
        seen = putting(patched, failing)
        done = run(command, BUCKET)
    assert done.exit_code == 3, (seen, done.output)
    there = {key: data for key, data in full(sessions).items() if key in DATA}
    packed = json.loads(run("unpack", BUCKET, "--dry-run", "--json").stdout or '{"files": []}')["files"]
    assert {*there, *(each["path"].removeprefix(f"{BUCKET}/") for each in packed)} == set(DATA)
    again = run(command, BUCKET)
    assert again.exit_code == (2 if "no packed session" in again.stderr else 0), again.output
    if command == "pack":
        assert full(sessions) == {}
        assert run("unpack", BUCKET).exit_code == 0
    assert full(sessions) == before


@pytest.mark.slow
def test_a_pack_that_does_not_read_back_takes_no_session(sessions: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store kept something else than it was given."""
    before, put_object = full(sessions), obstore.put

    def damaged(key: str, put: Callable[[], Any]) -> Any:
        done = put()
        if key.endswith(".tar.zst"):
            put_object(sessions, key, content(sessions, key)[:-1])
        return done

    putting(monkeypatch, damaged)
    done = run("pack", BUCKET)
    assert (done.exit_code, "it does not read back as it was uploaded. No session was moved" in done.stderr) == (
        3,
        True,
    )
    assert full(sessions) == before


def test_what_another_run_brought_back_meanwhile_is_no_damage(sessions: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It empties the index that was listed; that read as one to be put back from a backup, with 5."""
    assert run("pack", BUCKET).exit_code == 0
    (index,) = (key for key in packs(sessions) if key.endswith(".index"))
    meanwhile: list[int] = []
    before_get(monkeypatch, index, lambda: meanwhile.append(run("unpack", BUCKET).exit_code))
    done = run("search", "look at 0", BUCKET)
    assert meanwhile == [0]
    assert (done.exit_code, "another run just removed it" in done.stderr) == (4, True), done.output


@pytest.mark.parametrize("name", STORE, ids=["originals", "journal"])
def test_what_another_run_packs_as_it_is_read_is_no_damage(
    sessions: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Its store is emptied, and was to be put back from a backup, with 5, or to be forgotten."""
    meanwhile: list[int] = []
    before_get(monkeypatch, name, lambda: meanwhile.append(run("pack", BUCKET).exit_code))
    done = run("restore", f"{BUCKET}/{ONE}")
    assert meanwhile == [0]
    assert (done.exit_code, "somebody else just packed or wrote it" in done.stderr) == (4, True), done.output


def test_what_is_gone_on_with_as_soon_as_it_is_back(sessions: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays, and is no failure of the store."""
    newer, put_object = DATA[TWO] + b"\n", obstore.put
    assert run("pack", BUCKET).exit_code == 0

    def overwritten(key: str, put: Callable[[], Any]) -> Any:
        done = put()
        if key == TWO:
            put_object(sessions, TWO, newer)
        return done

    putting(monkeypatch, overwritten)
    done = run("unpack", BUCKET)
    assert (done.exit_code, "somebody else wrote it as soon as it was back" in done.stderr) == (4, True), done.output
    assert content(sessions, TWO) == newer


@pytest.mark.slow
def test_of_two_packs_at_once_none_loses(sessions: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second begins when the first has put its index: what comes back is all, and once."""
    before = full(sessions)
    second: list[Any] = []

    def between(key: str, put: Callable[[], Any]) -> Any:
        if key == ONE and not second:
            second.append(None)
            second[0] = run("pack", BUCKET)
        return put()

    putting(monkeypatch, between)
    run("pack", BUCKET)
    assert full(sessions) == {}
    assert run("verify", BUCKET).stdout.startswith("total: 2 sessions: ")
    assert run("unpack", BUCKET).exit_code == 0
    assert full(sessions) == before


@pytest.mark.slow
def test_little_is_fetched_at_a_time(sessions: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A pack ends when so much is fetched; of a pack only the frames that are needed are."""
    monkeypatch.setattr(packing, "BATCH", 1)
    monkeypatch.setattr(packing, "AT_ONCE", 1)
    before = full(sessions)
    assert len(json.loads(run("pack", BUCKET, "--json").stdout)["archives"]) == 2
    assert run("verify", BUCKET).stdout.startswith("total: 2 sessions: ")
    assert run("unpack", BUCKET).exit_code == 0
    assert full(sessions) == before


@pytest.mark.slow
def test_what_is_no_pack_of_ours_is_told_of(sessions: Any) -> None:
    """And keeps no other from being packed, read or brought back; nothing of it is written."""
    before = full(sessions)
    indexes = {
        "bad": b"{}\n",
        "large": Index(1 << 41, (entry(members=(member("x.jsonl"),)),)).written(),
        "outside": Index(1 << 41, (entry(members=(member("../x.jsonl"),)),)).written(),
    }
    for name, data in indexes.items():
        obstore.put(sessions, f"ci/.sessioncompress/packs/{name}.index", data)
    done = run("pack", f"{BUCKET}/ci")
    assert (done.exit_code, "packed 2 sessions" in done.stdout) == (5, True)
    done = run("unpack", f"{BUCKET}/ci")
    assert (done.exit_code, "unpacked 2 sessions" in done.stdout) == (5, True)
    assert "bad.index:1: this line does not belong in the index of a pack." in done.stderr
    assert "outside.index:2: this line names a file that no pack can hold." in done.stderr
    assert "large.index: its archive is missing." in done.stderr
    assert full(sessions) == before


@pytest.mark.slow
def test_a_pack_of_a_stranger(bucket: Any, tmp_path: Path) -> None:
    """As on a disk nothing comes back from it that an agent would not have there, nor what is larger than it can be."""
    folders = [tmp_path / "settings", tmp_path / "bomb"]
    for folder, name, size in zip(folders, (".claude/settings.json", "s.jsonl"), (1 << 10, 256 << 20), strict=True):
        folder.mkdir()
        made = planted(folder, name, (bytes(1 << 10) for _ in range(size >> 10)), size)
        for path in made.folder.iterdir():
            key = path.name.replace("p-1", folder.name)
            obstore.put(bucket, f".sessioncompress/packs/{key}", path.read_bytes())
    done = run("unpack", BUCKET)
    assert done.exit_code == 4, done.output
    assert "no agent keeps sessions in hidden files or folders there" in done.stderr
    assert "would be larger than any session of ours in so small an archive" in done.stderr
    assert full(bucket) == {}


def test_an_archive_that_lost_its_index(sessions: Any) -> None:
    before = full(sessions)
    assert run("pack", BUCKET).exit_code == 0
    (index,) = (key for key in packs(sessions) if key.endswith(".index"))
    obstore.delete(sessions, index)
    assert run("verify", BUCKET).stdout.startswith("total: 2 sessions: ")
    assert "total: unpacked 1 session" in run("unpack", f"{BUCKET}/{TWO}").stdout
    assert index in packs(sessions)
    assert run("unpack", BUCKET).exit_code == 0
    assert full(sessions) == before
    assert packs(sessions) == []


@pytest.mark.slow
def test_names_that_are_too_long_cost_no_other_pack(sessions: Any) -> None:
    """Whoever may write there plants them: no file can have them."""
    assert run("pack", BUCKET).exit_code == 0
    planted = [f".sessioncompress/packs/{'x' * length}.index" for length in (249, 280)]
    for key in planted:
        obstore.put(sessions, key, b"x")
    obstore.put(sessions, "more.jsonl", DATA[TWO])
    for command in ("stats", "verify", "pack", "unpack"):
        done = run(command, BUCKET)
        assert done.exit_code == 4, done.output
        assert done.stderr.count("its name is not a possible file name") == len(planted)
    assert full(sessions).keys() >= {ONE, TWO}


@pytest.mark.slow
def test_an_object_below_another_is_told_of_by_its_url(sessions: Any) -> None:
    """In a folder one of them has no place."""
    obstore.put(sessions, f"{TWO}/below.jsonl", DATA[TWO])
    done = run("pack", BUCKET)
    assert done.exit_code == 3
    assert f"failed: {BUCKET}/{TWO}" in done.stderr
    assert "sessioncompress-copy-" not in done.stderr


def test_a_temporary_folder_that_cannot_be_made_is_told_of(
    sessions: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a full disk is: it ended the command before, where it was to read a pack."""
    assert run("pack", BUCKET).exit_code == 0
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    for command in ("stats", "verify"):
        done = run(command, BUCKET)
        assert done.exit_code == 3, done.output
        assert "no such file or directory" in done.stderr
