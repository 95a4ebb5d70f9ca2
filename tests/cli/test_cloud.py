"""Sessions in an object store: moto's server stands for S3."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from sessioncompress.operations import cloud
from sessioncompress.store import disk, places
from sessioncompress.store.lock import lock
from tests.docs.pages import code, page
from tests.support.buckets import BUCKET, bucket, content, keys, obstore, putting, server, small
from tests.support.commands import run
from tests.support.runs import fixture
from tests.support.session import PiSession

__all__ = ["bucket", "server"]

KEY = "ci/one/session.jsonl"
URL = f"{BUCKET}/{KEY}"
PI = fixture("pi-anthropic.jsonl")
SMALL = small("small")
COMMANDS = "compress, compact, history, pack, restore, search, stats, unpack and verify"
STORE = ("ci/one/.sessioncompress/session.jsonl.zst", "ci/one/.sessioncompress/session.refs.jsonl")
WRITES = (*STORE, KEY)
"""The objects that a run puts, in this order; the first run puts an empty journal before them."""


@pytest.fixture
def session(bucket: Any) -> str:
    """Put a session that gets much smaller into the bucket; return its URL."""
    obstore.put(bucket, KEY, PI)
    return URL


def test_a_session_goes_there_and_back(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All commands, by the same code; what the object said of its content stays, and a second run puts nothing."""
    obstore.put(bucket, KEY, PI, attributes={"Content-Type": "application/jsonl", "build": "17"})
    asked = json.loads(run("stats", BUCKET, "--json").stdout)["files"]
    assert [each["path"] for each in asked] == [URL]
    assert run("compress", URL, "--dry-run").exit_code == 0
    assert keys(bucket) == [KEY]

    seen = putting(monkeypatch, lambda _, put: put())
    done = run("compress", BUCKET)
    assert done.exit_code == 0
    assert re.fullmatch(f"undo with: sessioncompress restore --run [0-9a-f-]+ {BUCKET}\n", done.stderr)
    assert done.stdout.startswith(f"{URL}: 338 KB -> 99 KB (-70 %)\n")
    assert seen == [STORE[1], *WRITES]
    small = obstore.get(bucket, KEY)
    assert (small.attributes["Content-Type"], small.attributes["build"]) == ("application/jsonl", "17")
    assert len(content(bucket, KEY)) < len(PI) // 3

    assert "1 unchanged" in run("compress", f"{BUCKET}/ci/", "--min-size", "0").stdout
    assert run("verify", BUCKET).stdout == "total: 1 session: 98 lines, 34 rewritten, 34 originals checked, all good\n"
    assert run("restore", BUCKET, "--dry-run").exit_code == 0
    assert seen == [STORE[1], *WRITES]
    done = run("restore", URL)
    assert (done.exit_code, done.stderr) == (0, "")
    assert content(bucket, KEY) == PI
    assert keys(bucket) == sorted(WRITES)


@pytest.mark.slow
def test_lines_that_came_since_stay(session: str, bucket: Any) -> None:
    """As on a disk: a session is compressed, goes on, and comes back with what was added."""
    assert run("compress", session).exit_code == 0
    more = PiSession(seed="more")
    more.message("user", content=[{"type": "text", "text": "go on"}])
    obstore.put(bucket, KEY, content(bucket, KEY) + more.lines()[-1])
    assert run("compress", session, "--force").exit_code == 0
    assert run("verify", session).exit_code == 0
    assert run("restore", session).exit_code == 0
    assert content(bucket, KEY) == PI + more.lines()[-1]


def test_one_run_is_taken_back(session: str, bucket: Any) -> None:
    """By its name or as the last one; what others did stays, and only journals are fetched to find it."""
    assert run("compress", session).exit_code == 0
    small = content(bucket, KEY)
    assert run("compress", session, "--keep-turns", "0", "--protect-tokens", "0", "--min-size", "0").exit_code == 0
    runs = [line.split("\t") for line in run("history", BUCKET).stdout.splitlines()[1:3]]
    assert [(each[1], each[5]) for each in runs] == [("compress", "in place")] * 2
    done = run("restore", "--last", BUCKET, "--dry-run", "--json")
    assert [each["path"] for each in json.loads(done.stdout)["files"]] == [session]
    assert run("restore", "--last", BUCKET).exit_code == 0
    assert len(content(bucket, KEY)) >= len(small)
    assert run("restore", "--run", runs[1][0], session).exit_code == 0
    assert content(bucket, KEY) == PI
    assert "nothing left to undo" in run("restore", "--last", BUCKET).stderr


# What somebody else writes meanwhile


@pytest.mark.slow
@pytest.mark.parametrize("command", ["compress", "restore"])
def test_an_object_that_was_overwritten_is_left_alone(
    session: str, bucket: Any, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """And reported; the others are done, and the next run does it."""
    other = "ci/two/session.jsonl"
    obstore.put(bucket, other, PI)
    if command == "restore":
        assert run("compress", BUCKET).exit_code == 0
    newer = content(bucket, KEY) + b"\n"
    writes, put_object = [KEY], obstore.put

    def overwritten(key: str, put: Callable[[], Any]) -> Any:
        if key in writes:
            writes.clear()
            put_object(bucket, KEY, newer)
        return put()

    with monkeypatch.context() as patched:
        putting(patched, overwritten)
        done = run(command, BUCKET)
    assert done.exit_code == 4
    what = "somebody else wrote it in the meantime. It was left alone, and the session was not changed. Run again."
    assert f"refused: {session}: {what}\n" in done.stderr
    assert content(bucket, KEY) == newer
    assert (content(bucket, other) == PI) == (command == "restore")
    assert run("verify", BUCKET).exit_code == 0
    assert run(command, BUCKET).exit_code == 0
    assert run("restore", BUCKET).exit_code == 0
    assert content(bucket, KEY).rstrip() == PI.rstrip()


@pytest.mark.slow
@pytest.mark.parametrize("place", WRITES)
def test_of_two_runs_one_does_it(session: str, bucket: Any, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Wherever the second begins: no run writes over originals that the journal of another is about to name."""
    second: list[Any] = []

    def between(key: str, put: Callable[[], Any]) -> Any:
        if key == place and not second:
            second.append(None)
            # Other limits make other originals.
            second[0] = run("compress", session, "--keep-turns", "0", "--protect-tokens", "0")
        return put()

    putting(monkeypatch, between)
    first = run("compress", session)
    assert {first.exit_code, second[0].exit_code} == {0, 4}, (first.output, second[0].output)
    assert run("verify", session).exit_code == 0
    assert run("restore", session).exit_code == 0
    assert content(bucket, KEY) == PI


# A put that fails


@pytest.mark.slow
@pytest.mark.parametrize("arrives", [False, True], ids=["lost", "arrived"])
@pytest.mark.parametrize(
    ("before", "number"), [(False, 0), (False, 1), (False, 2), (False, 3), (True, 1), (True, 2), (True, 3)]
)
def test_a_put_that_fails_leaves_the_old_or_the_new(
    bucket: Any, monkeypatch: pytest.MonkeyPatch, *, number: int, arrives: bool, before: bool
) -> None:
    """With a complete store; the next run does the rest, at once or when no other can be at work."""
    obstore.put(bucket, KEY, SMALL)
    session, command = URL, ("compress", URL, "--force")
    if before:
        assert run(*command, "--keep-turns", "1").exit_code == 0
    place = (STORE[1], *WRITES)[number]

    def failing(key: str, put: Callable[[], Any]) -> Any:
        if len(seen) == (number if before else number + 1):
            if arrives:
                put()
            raise obstore.exceptions.GenericError("the network is down\n\nDebug source:")
        return put()

    again = [*command, "--keep-turns", "0" if before else "1", "--protect-tokens", "0"]
    old = content(bucket, KEY)
    with monkeypatch.context() as patched:
        seen = putting(patched, failing)
        done = run(*again)
    assert done.exit_code == 3
    assert seen[-1] == place
    state = "The session is either as before or completely rewritten."
    assert f"failed: {BUCKET}/{place}: the network is down. {state}" in done.stderr
    assert (content(bucket, KEY) == old) == (not (arrives and place == KEY))
    checked = run("verify", session)
    assert checked.exit_code == 0, checked.stderr

    if (number, arrives) in ((1, True), (2, False)):
        done = run(*again)
        assert done.exit_code == 4
        assert "another run has uploaded its originals, but not its journal yet" in done.stderr
        monkeypatch.setattr(cloud, "LEASE_SECONDS", 0)
    done = run(*again)
    assert done.exit_code == 0, done.stderr
    assert len(content(bucket, KEY)) < len(old)
    assert run("verify", session).exit_code == 0
    assert run("restore", session).exit_code == 0
    assert content(bucket, KEY) == SMALL


@pytest.mark.slow
def test_a_put_that_the_library_repeats_is_done(session: str, bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first answer got lost, so the condition fails the second time: the object tells that it came through."""

    def twice(_: str, put: Callable[[], Any]) -> Any:
        put()
        return put()

    putting(monkeypatch, twice)
    assert run("compress", session).exit_code == 0
    assert run("verify", session).exit_code == 0
    assert len(content(bucket, KEY)) < len(PI)


@pytest.mark.slow
def test_a_run_that_took_too_long_ends(session: str, bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its originals, and before a journal that could name those of another."""
    monkeypatch.setattr(cloud, "_COMMIT_SECONDS", -1)
    done = run("compress", session)
    assert done.exit_code == 3
    assert "took so long that another run may have started. The session was not changed." in done.stderr
    assert content(bucket, KEY) == PI


# Which objects are sessions


@pytest.mark.slow
def test_a_prefix_means_what_a_folder_means(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By names, first bytes, patterns and age; and it is listed once."""
    objects = {
        "a/pi é [1].jsonl": PI,
        "a/gemini.json": fixture("gemini.json"),
        "a/package.json": b"{}",
        "a/empty.json": b"",
        "a/notes.txt": b"x",
        "a/no.jsonl": b'{"a": 1}\n',
        "a/node_modules/x.jsonl": PI,
        "a/.sessioncompress/y.jsonl": PI,
        "a/" + "n" * 256 + ".jsonl": PI,
        "ab/other.jsonl": PI,
    }
    for key, data in objects.items():
        obstore.put(bucket, key, data)
    listings, real = [], obstore.list

    def listed(*given: Any, **named: Any) -> Any:
        listings.append(named)
        return real(*given, **named)

    monkeypatch.setattr(obstore, "list", listed)

    def found(*arguments: str) -> set[str]:
        files = json.loads(run("stats", "--json", *arguments).stdout)["files"]
        return {each["path"].removeprefix(f"{BUCKET}/") for each in files}

    assert found(f"{BUCKET}/a") == {"a/pi é [1].jsonl", "a/gemini.json"}
    # The second is that of packs above it.
    assert [each["prefix"] for each in listings] == ["a", ".sessioncompress/packs"]
    assert found(BUCKET, "--exclude", "a") == {"ab/other.jsonl"}
    assert found(f"{BUCKET}/a/", "--include", "*.json") == {"a/gemini.json"}
    assert found(BUCKET, "--older-than", "1h") == set()
    assert found(f"{BUCKET}/a/pi é [1].jsonl", BUCKET, "--include", "pi*") == {"a/pi é [1].jsonl"}
    done = run("stats", f"{BUCKET}/a")
    assert done.exit_code == 0
    assert "2 passed over" in done.stdout
    done = run("compress", f"{BUCKET}/a/" + "n" * 256 + ".jsonl")
    assert done.exit_code == 4
    assert "its name is not a possible file name" in done.stderr


@pytest.mark.slow
def test_what_has_a_store_is_told_of_if_it_is_gone(session: str, bucket: Any) -> None:
    """As in folders; and a session that is called otherwise is found by its store."""
    odd = "ci/odd"
    obstore.put(bucket, odd, PI)
    assert run("compress", session, f"{BUCKET}/{odd}").exit_code == 0
    assert run("verify", BUCKET).stdout.startswith("total: 2 sessions")
    assert run("stats", BUCKET).stdout.startswith("total: 1 session,")
    obstore.delete(bucket, KEY)
    done = run("verify", BUCKET)
    assert done.exit_code == 4
    assert f"refused: {session}: the session is missing, but its store is still there." in done.stderr
    assert run("compress", BUCKET).exit_code == 0


def test_small_sessions_are_not_fetched(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a bucket of thousands most are under the threshold."""
    obstore.put(bucket, "a.jsonl", PI[:5000])
    monkeypatch.setattr(cloud, "work_on", None)
    assert "1 skipped: 5 KB, under the threshold of 100 KB" in run("compress", BUCKET).stdout


def test_a_policy_near_a_session_does_not_count(session: str, bucket: Any, here: Path) -> None:
    off = json.dumps({"session": {"enabled": False}})
    obstore.put(bucket, "ci/one/compression.json", off.encode())
    (here / "compression.json").write_text(off)
    assert "would be" in run("compress", BUCKET, "--dry-run").stdout or "->" in run("compress", BUCKET).stdout
    obstore.put(bucket, KEY, PI)
    assert "switched off" in run("compress", session, "--config", "compression.json").stdout


# What is refused


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("compress", URL, "--log", "log"), 2, "--log (logFile) can't be used with sessions in object stores."),
        (("compress", URL, "--backup-dir", "b"), 2, "--backup-dir (backupDir) can't be used with sessions in"),
        (("compress", URL, "--commit-originals"), 2, "--originals-in (commitOriginals) can't be used with"),
        (("compress", URL, "."), 2, "local paths and URLs of object stores can't be combined; use one run for each"),
        (("compress", URL, "--all"), 2, "PATHS can't be combined with --agent, --project or --all"),
        (("restore", URL, "--from-markers", "--originals", "x"), 2, "--originals takes a local session"),
        (("diff", URL), 2, f"only {COMMANDS} take URLs of object stores."),
        (("forget", URL), 2, f"only {COMMANDS} take URLs of object stores."),
        (("unpack", URL, "."), 2, "local paths and URLs of object stores can't be combined; use one run for each"),
        (("unpack", URL), 2, "no packed session matches it. Nothing was done."),
        (("verify", f"{BUCKET}/nothing"), 2, "there is no object with this name or prefix. Nothing was done."),
        (("verify", "s3://no-such-bucket"), 3, "404 Not Found. Nothing was done. Check the bucket, the network,"),
        (("verify", "s3:///x"), 3, "s3:///: Generic URL error"),
        (("verify", "az://x"), 3, "Account must be specified"),
        (("verify", f"{BUCKET}/a/../b"), 3, "The library cannot read a key like that: rename the object"),
        (("verify", f"{BUCKET}/a//b"), 3, "The library cannot read a key like that: rename the object"),
        (("compress", f"{BUCKET}/{'/' + KEY}"), 2, "the library would drop the second slash. Nothing was done."),
    ],
)
def test_what_cannot_be_is_refused_by_name(session: str, arguments: tuple[str, ...], code: int, said: str) -> None:
    done = run(*arguments)
    assert done.exit_code == code
    assert said in " ".join(done.stderr.split())


def test_a_key_that_ends_with_a_slash_is_told_of(bucket: Any, server: str) -> None:
    """The library lists it without, so it is not there when it is fetched."""
    plain = {"Content-Type": "application/octet-stream"}
    urlopen(Request(f"{server}/bucket/a.jsonl/", data=SMALL, headers=plain, method="PUT")).close()
    done = run("compress", BUCKET, "--force")
    assert done.exit_code == 3
    assert (
        f"{BUCKET}/a.jsonl: it is gone. Run again. If that does not help, its key begins or ends with a slash"
        in done.stderr
    )


def test_no_access_key_is_printed(session: str, bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some servers send it in the body of an error, whose first line the library passes on."""

    def refusing(*_: Any, **__: Any) -> Any:
        raise obstore.exceptions.PermissionDeniedError("403 Forbidden: <Error><AWSAccessKeyId>AKIA</AWSAccessKeyId>")

    monkeypatch.setattr(obstore, "put", refusing)
    done = run("compress", session)
    assert done.exit_code == 3
    assert f"{STORE[1]}: 403 Forbidden. The session is either as before" in done.stderr
    assert "AKIA" not in done.output


def test_an_endpoint_is_a_url(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library would break off, with a trace of its own."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "localhost:9000")
    done = run("compress", URL)
    assert (done.exit_code, "AWS_ENDPOINT_URL is not a URL: 'localhost:9000'" in done.stderr) == (2, True)


def test_without_the_library_it_says_what_to_install(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    done = run("compress", URL)
    assert done.exit_code == 2
    assert "the extra [cloud], as the README says.\n" in done.stderr


@pytest.mark.slow
def test_without_a_network_nothing_is_lost(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{closed.getsockname()[1]}")
        done = run("compress", URL)
    assert done.exit_code == 3
    assert "Check the bucket, the network, and the credentials" in done.stderr


def test_what_a_killed_run_left_is_removed(session: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is an hour old, and nobody is at work in it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = [tmp_path / f"sessioncompress-copy-{name}" for name in ("old", "used", "new")]
    for each in left:
        (each / "at").mkdir(parents=True)
    for each in left[:2]:
        os.utime(each, (1, 1))
    places._sweep.cache_clear()
    with disk.closing(disk.open_folder(left[1])) as fd:
        assert lock(fd)
        assert run("stats", session).exit_code == 0
    assert [each.exists() for each in left] == [False, True, True]


# The guide, and many


@pytest.mark.slow
def test_the_commands_of_the_guide_work(bucket: Any, server: str) -> None:
    """On a bucket of its own, of sessions that are not a day old."""
    urlopen(Request(f"{server}/team-ci", method="PUT")).close()
    theirs = obstore.store.from_url("s3://team-ci")
    obstore.put(theirs, "sessions/4711/session.jsonl", PI)
    for line in (each for block in code(page("docs/how-to/cloud.md")) for each in block.lines):
        done = run(*line.replace(" --older-than 1d", "").split()[1:])
        assert done.exit_code == 0, done.stderr
    assert content(theirs, "sessions/4711/session.jsonl") == PI


@pytest.mark.slow
def test_many_sessions(bucket: Any, tmp_path: Path) -> None:
    """Compressed, verified and restored by several processes; each is a new one, since a fork loses threads."""
    names = [f"many/{number:03}.jsonl" for number in range(60)]
    for name in names:
        obstore.put(bucket, name, SMALL)

    def command(*arguments: str) -> str:
        words = [sys.executable, "-m", "sessioncompress", *arguments, "--jobs", "2", f"{BUCKET}/many"]
        return subprocess.run(words, check=True, capture_output=True, text=True, env=os.environ).stdout

    assert "60 files (60 compressed)" in command("compress", "--force", "--keep-turns", "1")
    assert all(meta["size"] < len(SMALL) for chunk in obstore.list(bucket) for meta in chunk)
    assert "total: 60 sessions: " in command("verify")
    assert "total: 60 sessions restored: " in command("restore")
    assert all(content(bucket, name) == SMALL for name in names)
