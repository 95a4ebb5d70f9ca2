"""A session that goes on from a rewritten one, or is a fork of it, has our markers and no journal of its own."""

from __future__ import annotations

import base64
import json
import os
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.store.layout import plain_in, store_in
from sessioncompress.store.originals import zstd
from tests.support import texts
from tests.support.build import PiSession
from tests.support.claude import ClaudeSession
from tests.support.documents import GeminiDocument
from tests.support.rollout import Rollout
from tests.support.runs import HOMES, as_user, fixture, invoke, split, turn

HASTE = ("--force", "--keep-turns", "1", "--protect-tokens", "0")


def run(home: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command as a user whose agents keep their sessions below this home."""
    environment = {**{key: value for key, value in os.environ.items() if key not in HOMES}, "HOME": str(home)}
    return as_user(environment, home, *arguments)


def log(name: str) -> str:
    return texts.log_lines(random.Random(name), 120)


# What the agents make of a rewritten session


def gemini(parent: Path) -> bytes:
    """Return what Gemini CLI 0.61.0 writes when it resumes a document: its messages, and then all of them in one line.

    There a call's result stands with every call of its message, and once more in a message of the user with an id of
    its own.
    """
    document = json.loads(parent.read_bytes())
    messages = document.pop("messages")
    lines: list[Any] = [{**document, "kind": "main"}, *messages, {"$set": {"sessionId": document["sessionId"]}}]
    history: list[Any] = []
    for message in messages:
        made = message.get("toolCalls", [])
        parts = [{"text": message["content"]}]
        parts += [{"functionCall": {key: call[key] for key in ("id", "name", "args")}} for call in made]
        results = [part for call in made for part in call["result"]]
        history.append({**message, "content": parts})
        if made:
            history[-1]["toolCalls"] = [{**call, "result": results} for call in made]
            history.append({"id": f"{message['id']}_response", "timestamp": message["timestamp"], "type": "user"})
            history[-1]["content"] = results
    lines.append({"$set": {"messages": history}})
    return b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)


def changed(parent: Path, change: Callable[[int, Any], Any]) -> bytes:
    lines = enumerate(map(json.loads, split(parent.read_bytes())))
    return b"".join(json.dumps(change(*each), separators=(",", ":")).encode() + b"\n" for each in lines)


def pi(parent: Path) -> bytes:
    """Return a fork of pi: a header that names the file, and the other lines as they stand there."""
    header = {**json.loads(split(parent.read_bytes())[0]), "id": "fork-of-pi", "parentSession": str(parent)}
    return b"".join([json.dumps(header).encode() + b"\n", *split(parent.read_bytes())[1:]])


def omp(parent: Path) -> bytes:
    was = json.loads(split(parent.read_bytes())[0])
    header = {**was, "id": "fork-of-omp", "parentSession": was["id"]}
    return b"".join([json.dumps(header).encode() + b"\n", *split(parent.read_bytes())[1:]])


def claude(parent: Path) -> bytes:
    """Return a fork of Claude Code: every line under the new id, with where it comes from."""

    def forked(_: int, entry: Any) -> Any:
        whence = {"sessionId": entry["sessionId"], "messageUuid": entry.get("uuid")}
        return {**entry, "sessionId": "fork-of-claude", "forkedFrom": whence}

    return changed(parent, forked)


def codex(parent: Path) -> bytes:
    """Return a fork of Codex: a header that names the thread, and the items with times of their own."""

    def forked(number: int, entry: Any) -> Any:
        if number == 0:
            payload = {**entry["payload"], "id": "fork-of-codex", "forked_from_id": entry["payload"]["id"]}
            return {**entry, "payload": payload}
        return {**entry, "timestamp": "2026-04-01T00:00:00.000Z"}

    return changed(parent, forked)


# The rewritten sessions


def of_gemini() -> bytes:
    """Return a document with single and parallel calls."""
    made = GeminiDocument().user("Go.")
    for name in "abc":
        made.answer("So.", made.used("run_shell_command", {"command": name}, log(name)))
    made.answer("Both.", *(made.used("read_file", {"file_path": name}, log(name)) for name in "de"))
    return made.user("On.").answer("Done.").bytes()


def of_pi() -> bytes:
    made = PiSession()
    made.user("Go.")
    for name in "abc":
        made.step("bash", {"command": name}, log(name))
    return turn(made, 2).bytes()


def of_claude() -> bytes:
    made = ClaudeSession()
    made.user("Go.")
    for name in "abc":
        made.step("Bash", {"command": name}, log(name))
    return made.turn(2).bytes()


def of_codex() -> bytes:
    made = Rollout(ids=False).user("Go.")
    for name in "abc":
        made.run(name, log(name))
    return made.end("Done.").user("On.").end("Done.").bytes()


def id_of_codex() -> str:
    return str(json.loads(split(of_codex())[0])["payload"]["id"])


CHATS, PI, CLAUDE, CODEX = ".gemini/tmp/p/chats", ".pi/agent/sessions", ".claude/projects", ".codex/sessions/2026/03"
ARCHIVED = ".codex/archived_sessions"

FAMILY: list[tuple[str, Callable[[], bytes], str, Callable[[Path], bytes], str]] = [
    ("Gemini CLI goes on", of_gemini, f"{CHATS}/s.json", gemini, f"{CHATS}/s.jsonl"),
    ("Gemini CLI goes on, anywhere", of_gemini, "a/s.json", gemini, "a/s.jsonl"),
    ("pi forks", of_pi, f"{PI}/--p--/s.jsonl", pi, f"{PI}/--p--/fork.jsonl"),
    ("pi forks into another project", of_pi, f"{PI}/--p--/s.jsonl", pi, f"{PI}/--q--/fork.jsonl"),
    ("oh-my-pi forks", of_pi, "a/s.jsonl", omp, "a/fork.jsonl"),
    ("Claude Code forks", of_claude, f"{CLAUDE}/-p/s.jsonl", claude, f"{CLAUDE}/-p/fork.jsonl"),
    ("Codex archives the fork", of_codex, f"{CODEX}/01/at-{id_of_codex()}.jsonl", codex, f"{ARCHIVED}/rollout-2.jsonl"),
    ("Codex forks, a day later", of_codex, f"{CODEX}/01/at-{id_of_codex()}.jsonl", codex, f"{CODEX}/02/fork.jsonl"),
]


def texts_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in inner for text in texts_in(each)]


def long_texts(data: bytes) -> list[str]:
    return [text for line in split(data) for text in texts_in(json.loads(line)) if "\n" in text]


def family(home: Path, original: bytes, at: str, fork: Callable[[Path], bytes], to: str) -> tuple[Path, Path]:
    """Write a session, rewrite it, and let its agent make another of it; return both."""
    parent, child = home / at, home / to
    for path in (parent, child):
        path.parent.mkdir(parents=True, exist_ok=True)
    parent.write_bytes(original)
    done = run(home, "compress", *HASTE, parent)
    assert done.returncode == 0, done.stderr
    child.write_bytes(fork(parent))
    assert b"sessioncompress show" in child.read_bytes()
    return parent, child


@pytest.mark.parametrize(("make", "at", "fork", "to"), [each[1:] for each in FAMILY], ids=[each[0] for each in FAMILY])
def test_the_originals_are_found(
    tmp_path: Path, make: Callable[[], bytes], at: str, fork: Callable[[Path], bytes], to: str
) -> None:
    """Each text comes back; that it cannot be exact is said, with the command that works."""
    parent, child = family(tmp_path, make(), at, fork, to)
    child_before = child.read_bytes()

    found = run(tmp_path, "verify", child)
    assert (found.returncode, "in a relative's store" in found.stdout) == (0, True), found.stderr
    refused = run(tmp_path, "restore", child)
    assert refused.returncode == 4
    assert f"in the store of {parent if parent.parent != child.parent else parent.name}" in refused.stderr
    assert re.search(r"'sessioncompress restore --from-markers [^ ]+' puts them back", refused.stderr)
    assert "OTHER" not in refused.stderr
    assert child.read_bytes() == child_before

    marked = next(text for text in long_texts(child_before) if "sessioncompress show" in text)
    reference = marked.partition("sessioncompress show ")[2][:12]
    shown = run(tmp_path, "show", reference, child, "--all")
    assert shown.returncode == 0, shown.stderr
    assert sha256(shown.stdout.encode()).hexdigest().startswith(reference)

    done = run(tmp_path, "restore", "--from-markers", child)
    # Thinking and mirrors leave no marker that names them.
    assert done.returncode == (5 if "not exact" in done.stdout else 0), done.stderr
    assert f"from the originals of {parent}" in done.stdout
    assert b"[[sessioncompress" not in child.read_bytes()
    run(tmp_path, "restore", parent)
    assert parent.read_bytes() == make()
    assert long_texts(child.read_bytes()) == long_texts(fork(parent))


def test_a_fork_that_was_rewritten_itself_finds_both(tmp_path: Path) -> None:
    """Its own originals, and those of the session that it was forked from."""
    parent, child = family(tmp_path, of_pi(), "a/s.jsonl", pi, "a/fork.jsonl")
    own = PiSession(seed="more")
    own.user("More.")
    own.step("bash", {"command": "more"}, log("more"))
    child.write_bytes(child.read_bytes() + b"".join(turn(own, 2).lines()[1:]))
    assert run(tmp_path, "compress", *HASTE, child).returncode == 0
    found = run(tmp_path, "verify", child)
    assert (found.returncode, "in a relative's store" in found.stdout) == (0, True), found.stderr
    exact = run(tmp_path, "restore", child)
    assert "whose originals are in a relative's store" in exact.stdout
    done = run(tmp_path, "restore", "--from-markers", child)
    assert done.returncode == 0, done.stderr
    assert b"[[sessioncompress" not in child.read_bytes()
    run(tmp_path, "restore", parent)
    assert split(child.read_bytes())[1 : len(split(of_pi()))] == split(of_pi())[1:]


def test_a_fork_of_a_fork_finds_the_first(tmp_path: Path) -> None:
    """Of which only the one between them names the file."""
    parent, child = family(tmp_path, of_pi(), "a/s.jsonl", pi, "a/fork.jsonl")
    grandchild = child.with_name("again.jsonl")
    grandchild.write_bytes(pi(child))
    assert run(tmp_path, "restore", "--from-markers", grandchild).returncode == 0
    run(tmp_path, "restore", parent)
    assert split(grandchild.read_bytes())[1:] == split(of_pi())[1:]


def test_a_family_that_moved_together_is_one(tmp_path: Path) -> None:
    """As a clone has it: the header names a path of another machine."""
    _, child = family(tmp_path, of_pi(), "a/s.jsonl", pi, "a/fork.jsonl")
    (tmp_path / "a").rename(tmp_path / "b")
    assert run(tmp_path, "verify", tmp_path / "b" / child.name).returncode == 0


def strangers(home: Path, parent: Path, _: Path) -> None:
    """Nothing more: the header names the user's own session."""


def linked(home: Path, parent: Path, child: Path) -> None:
    (child.parent / ".sessioncompress").symlink_to(parent.parent / ".sessioncompress")


def linked_local(home: Path, parent: Path, child: Path) -> None:
    """Let a folder of stores in the clone lead to the user's, in which one of that name is the user's too."""
    (child.parent / ".sessioncompress").mkdir()
    (child.parent / ".sessioncompress/local-00000000").symlink_to(store_in(parent).folder)


def linked_files(home: Path, parent: Path, child: Path) -> None:
    (child.parent / ".sessioncompress/local-00000000").mkdir(parents=True)
    for each in (store_in(parent).originals, store_in(parent).journal):
        (child.parent / ".sessioncompress/local-00000000" / each.name).symlink_to(each)


def linked_file(home: Path, parent: Path, child: Path) -> None:
    (child.parent / parent.name).symlink_to(parent)


@pytest.mark.parametrize("plant", [strangers, linked, linked_local, linked_files, linked_file])
def test_a_strangers_header_does_not_choose_where_originals_are_read(
    tmp_path: Path, plant: Callable[[Path, Path, Path], None]
) -> None:
    """The session of a clone names one of the user's, and holds its marker: nothing of that one gets into the clone."""
    parent, child = family(tmp_path, of_pi(), f"{PI}/--p--/s.jsonl", pi, "clone/fork.jsonl")
    plant(tmp_path, parent, child)
    before = child.read_bytes()
    reference = before.partition(b"sessioncompress show ")[2][:12].decode()
    for command in (("verify", child), ("restore", child), ("restore", "--from-markers", child)):
        assert run(tmp_path, *command).returncode == 4
    assert child.read_bytes() == before
    assert run(tmp_path, "show", reference, child).returncode in (2, 4)


def test_a_relative_whose_originals_are_damaged_is_told(tmp_path: Path) -> None:
    """A check that says all is there has read it."""
    parent, child = family(tmp_path, of_pi(), "a/s.jsonl", pi, "a/fork.jsonl")
    originals = store_in(parent).originals
    data = bytearray(originals.read_bytes())
    data[len(data) // 2] ^= 0x10
    originals.write_bytes(data)
    assert run(tmp_path, "verify", child).returncode == 5


def test_another_relative_s_damage_costs_nothing(tmp_path: Path) -> None:
    """As a stranger's store that says it knows the markers: the one that has the originals counts."""
    parent, child = family(tmp_path, of_pi(), "a/s.jsonl", pi, "a/fork.jsonl")
    # The header names a copy of it, which is looked at first.
    copied = parent.with_name("t.jsonl")
    for file, copy in zip((parent, *store_in(parent)[1:3]), (copied, *store_in(copied)[1:3]), strict=True):
        shutil.copy(file, copy)
    damaged(copied, 0.6)
    child.write_bytes(pi(copied))
    done = run(tmp_path, "verify", child)
    assert (done.returncode, "checked, all good" in done.stdout) == (0, True), done.stderr
    damaged(parent, 0.6)
    assert run(tmp_path, "verify", child).returncode == 5


def test_a_damaged_journal_costs_no_other_session(tmp_path: Path) -> None:
    """A fork gets its own originals back, and is checked where another relative has the rest."""
    parent, child = family(tmp_path, of_pi(), "a/s.jsonl", pi, "a/fork.jsonl")
    own = PiSession(seed="more")
    own.user("More.")
    own.step("bash", {"command": "more"}, log("more"))
    grown = child.read_bytes() + b"".join(turn(own, 2).lines()[1:])
    child.write_bytes(grown)
    assert run(tmp_path, "compress", *HASTE, child).returncode == 0
    copied, journal = parent.with_name("t.jsonl"), store_in(parent).journal
    for file, copy in zip((parent, *store_in(parent)[1:3]), (copied, *store_in(copied)[1:3]), strict=True):
        shutil.copy(file, copy)
    journal.write_bytes(b"{}\n" + journal.read_bytes())
    found = run(tmp_path, "verify", child)
    assert (found.returncode, "in a relative's store, checked" in found.stdout) == (0, True), found.stderr
    store_in(copied).journal.unlink()
    found = run(tmp_path, "verify", child)
    assert found.returncode == 5
    assert f"failed: {journal}:1: this record of the journal cannot be read" in found.stderr
    assert f"deletes all stores of {parent.name}." in found.stderr
    assert run(tmp_path, "restore", child).returncode == 0
    assert child.read_bytes() == grown


def test_the_store_of_a_relative_whose_key_was_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there though it does not count, as where a branch brought another: then it is read, and that is told."""
    parent, child = family(tmp_path, of_pi(), "a/s.jsonl", pi, "a/fork.jsonl")
    theirs, more = tmp_path / "theirs/s.jsonl", PiSession(seed="more")
    theirs.parent.mkdir()
    more.user("More.")
    more.step("bash", {"command": "more"}, log("more"))
    theirs.write_bytes(parent.read_bytes() + b"".join(turn(more, 2).lines()[1:]))
    assert run(tmp_path, "compress", *HASTE, "--commit-originals", theirs).returncode == 0
    for file, place in ((theirs, parent), *zip(plain_in(theirs)[1:3], plain_in(parent)[1:3], strict=True)):
        shutil.copy(file, place)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state of another"))
    done = run(tmp_path, "verify", child)
    assert (done.returncode, "in a relative's store, checked, all good" in done.stdout) == (0, True), done.stderr
    assert "made elsewhere" in done.stderr


def twins(home: Path) -> tuple[Path, Path, bytes]:
    """Write a rewritten session and a copy of it, each with a store; return both, and what they were."""
    home.mkdir()
    made = PiSession()
    made.user("Go.")
    for name in "abc":
        shown = base64.b64encode(random.Random(name).randbytes(9000)).decode()
        made.step("bash", {"command": name}, shown, thinking="Hm. " * 99)
    paths = home / "s.jsonl", home / "t.jsonl"
    original = turn(made, 2).bytes()
    for path in paths:
        path.write_bytes(original)
    assert run(home, "compress", *HASTE, *paths).returncode == 0
    return *paths, original


def damaged(path: Path, share: float) -> None:
    """Flip a bit in what lies beside a session: what stands before it in the file may still be read."""
    originals = store_in(path).originals
    data = bytearray(originals.read_bytes())
    data[int(len(data) * share)] ^= 0x10
    originals.write_bytes(data)


@pytest.mark.parametrize("share", [0.001, 0.6], ids=["nothing of it can be read", "some of it can be read"])
def test_what_a_relative_made_exact_is_said_to_be(tmp_path: Path, share: float) -> None:
    """The own store is damaged, that of a copy is not: all comes back, and nothing else is said."""
    path, _, original = twins(tmp_path / "a")
    damaged(path, share)
    done = run(tmp_path, "restore", "--from-markers", path)
    assert done.returncode == 0, done.stderr
    assert "from the originals of " in done.stdout
    assert "not exact" not in done.stdout
    assert "cannot be read" not in done.stdout
    assert path.read_bytes() == original


def test_what_no_relative_made_exact_is_said_not_to_be(tmp_path: Path) -> None:
    """Both stores are damaged: what came back is there, and what did not is said once, as it stands at the end."""
    path, other, original = twins(tmp_path / "a")
    damaged(path, 0.001)
    damaged(other, 0.6)
    done = run(tmp_path, "restore", "--from-markers", path)
    stay = sum(now != then for now, then in zip(split(path.read_bytes()), split(original), strict=True))
    assert stay > 0
    assert done.returncode == 5, done.stderr
    assert done.stdout.count("not exact") == 1
    assert f"rewritten lines {stay} did not come back" in done.stdout


def test_a_damaged_relative_keeps_nothing_from_being_told(tmp_path: Path) -> None:
    """What the own store gave back is there: no error says that the session is not changed."""
    path, other, _ = twins(tmp_path / "a")
    damaged(path, 0.6)
    damaged(other, 0.001)
    before = path.read_bytes()
    done = run(tmp_path, "restore", "--from-markers", path)
    assert path.read_bytes() != before
    assert done.returncode == 5, done.stderr
    assert "not exact" in done.stdout
    assert f"{store_in(other).originals.name}: nothing can be put back" in done.stdout


def test_a_relative_whose_journal_is_damaged_keeps_nothing_from_coming_back(tmp_path: Path) -> None:
    """It is asked for once, and what the own store has comes back."""
    path, other, _ = twins(tmp_path / "a")
    damaged(path, 0.6)
    journal = store_in(other).journal
    journal.write_bytes(b"{}\n" + journal.read_bytes())
    before = path.read_bytes()
    done = run(tmp_path, "restore", "--from-markers", path)
    assert path.read_bytes() != before
    assert done.returncode == 5, done.stderr
    assert f"{journal}: this record of the journal cannot be read" in done.stdout


def test_where_every_store_is_damaged_nothing_is_put_back(tmp_path: Path) -> None:
    """That is an error, as where there is only one."""
    path, other, _ = twins(tmp_path / "a")
    before = path.read_bytes()
    for each in (path, other):
        damaged(each, 0.001)
    done = run(tmp_path, "restore", "--from-markers", path)
    assert (done.returncode, "nothing can be put back" in done.stderr) == (5, True)
    assert path.read_bytes() == before


def test_a_marker_that_no_relative_knows_is_refused_still(tmp_path: Path) -> None:
    """Without the one the others do not make the session sound."""
    _, child = family(tmp_path, of_pi(), "a/s.jsonl", pi, "a/fork.jsonl")
    data = child.read_bytes()
    known = data.partition(b"sessioncompress show ")[2][:12]
    child.write_bytes(data.replace(known, b"0123456789ab"))
    refused = run(tmp_path, "verify", child)
    assert refused.returncode == 4
    assert "it has 3 markers" in refused.stderr
    assert "The originals of 2 are in the store of" in refused.stderr
    assert f"'sessioncompress restore --from-markers {child}' puts them back" in refused.stderr


@pytest.mark.parametrize("command", [["verify"], ["restore"], ["restore", "--from-markers"], ["diff"]], ids=" ".join)
def test_where_the_relative_is_packed_that_is_said(tmp_path: Path, command: list[str]) -> None:
    """It said that the originals were deleted, perhaps, and `show` that there was none."""
    parent, child = family(tmp_path, of_pi(), "a/s.jsonl", pi, "a/fork.jsonl")
    reference = child.read_bytes().partition(b"sessioncompress show ")[2][:12].decode()
    before = run(tmp_path, "show", "--all", reference, child).stdout
    assert run(tmp_path, "pack", parent).returncode == 0
    refused = run(tmp_path, *command, child)
    assert refused.returncode == 4
    back = f"'sessioncompress unpack {parent}' brings it back with its originals"
    assert f"is packed. The session was not changed. {back}" in " ".join(refused.stderr.split())
    shown = run(tmp_path, "show", "--all", reference, child)
    assert (shown.returncode, shown.stdout) == (0, before), shown.stderr
    assert run(tmp_path, "unpack", parent).returncode == 0
    assert run(tmp_path, "verify", child).returncode == 0


def test_where_the_originals_are_packed_at_the_same_place_that_is_said(tmp_path: Path) -> None:
    """As where a backup of the session alone was put back after it was packed."""
    parent, _ = family(tmp_path, of_pi(), "a/s.jsonl", pi, "a/fork.jsonl")
    rewritten = parent.read_bytes()
    assert run(tmp_path, "pack", parent).returncode == 0
    parent.write_bytes(rewritten)
    refused = run(tmp_path, "restore", parent)
    assert refused.returncode == 4
    said = f"Move this one away; 'sessioncompress unpack {parent}' brings it back with its originals."
    assert said in " ".join(refused.stderr.split())


REFERS = "1 session here refers to these originals: fork.jsonl"


@pytest.mark.parametrize(
    ("make", "at", "fork", "to"),
    [each[1:] for each in FAMILY if each[2].rpartition("/")[0] == each[4].rpartition("/")[0]],
    ids=[each[0] for each in FAMILY if each[2].rpartition("/")[0] == each[4].rpartition("/")[0]],
)
@pytest.mark.parametrize("restored", [True, False], ids=["restored", "rewritten"])
def test_forget_names_the_sessions_that_need_the_originals(
    tmp_path: Path, make: Callable[[], bytes], at: str, fork: Callable[[Path], bytes], to: str, restored: bool
) -> None:
    """Their markers name what goes: that is lost too, and is asked about; other sessions are not named."""
    parent, child = family(tmp_path, make(), at, fork, to)
    (parent.parent / "another.jsonl").write_bytes(PiSession(seed="another").bytes())
    said = REFERS.replace("fork.jsonl", child.name)
    if restored:
        run(tmp_path, "restore", parent)
    asked = run(tmp_path, "forget", parent)
    assert asked.returncode == 2
    assert f"{said}" in asked.stdout
    assert "nothing is lost" not in asked.stdout
    limited = run(tmp_path, "forget", "--dry-run", "--max-size", "0KB", parent.parent)
    assert said in limited.stdout
    done = run(tmp_path, "forget", "--yes", parent)
    assert (done.returncode, said in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize("restored", [True, False], ids=["restored", "rewritten"])
def test_forget_names_a_packed_session_that_needs_the_originals(tmp_path: Path, restored: bool) -> None:
    """Of a restored session it said that nothing was lost; one that is packed and needs none of them is not named."""
    parent, child = family(tmp_path, of_pi(), "a/s.jsonl", pi, "a/fork.jsonl")
    child.with_name("plain.jsonl").write_bytes(of_pi())
    child.with_name("another.jsonl").write_bytes(PiSession(seed="another").bytes())
    assert (
        run(tmp_path, "pack", child, child.with_name("plain.jsonl"), child.with_name("another.jsonl")).returncode == 0
    )
    if restored:
        run(tmp_path, "restore", parent)
    asked = run(tmp_path, "forget", parent)
    assert (asked.returncode, f"{REFERS} (packed)" in asked.stdout) == (2, True), asked.stdout
    assert "nothing is lost" not in asked.stdout
    assert f"{REFERS} (packed)" in run(tmp_path, "forget", "--yes", parent).stdout


@pytest.mark.parametrize("how", ["gone", "another prompt", "unreadable"])
def test_forget_keeps_what_a_packed_session_needs(tmp_path: Path, how: str) -> None:
    """By its markers, as if it were not packed; what cannot be read may have some."""
    parent, child = family(tmp_path, of_pi(), "a/s.jsonl", pi, "a/fork.jsonl")
    if how == "another prompt":
        lines = child.read_bytes().splitlines(keepends=True)
        at = next(number for number, raw in enumerate(lines) if b'"role":"user"' in raw)
        lines[at] = lines[at].replace(b'"text":"', b'"text":"Now: ', 1)
        child.write_bytes(b"".join(lines))
    assert run(tmp_path, "pack", child).returncode == 0
    store = store_in(parent)
    if how == "gone":
        parent.unlink()
        (parent.parent / "notes.txt").touch()
    else:
        assert run(tmp_path, "restore", parent).returncode == 0
    if how == "unreadable":
        (index,) = parent.parent.rglob("*.index")
        index.write_bytes(index.read_bytes().replace(b'"version":1', b'"version":99', 1))
    done = run(tmp_path, "forget", "--gone" if how == "gone" else "--unneeded", "--yes", parent.parent)
    assert "1 kept" in done.stdout, done.stdout
    assert store.originals.exists()


def test_forget_says_so_where_the_session_is_gone_or_its_journal_damaged(tmp_path: Path) -> None:
    """Then the fork's markers are all that is left of it; by the id and the name that its header has."""
    parent, _ = family(tmp_path, of_pi(), "a/s.jsonl", pi, "a/fork.jsonl")
    was = parent.read_bytes()
    parent.unlink()
    assert REFERS in run(tmp_path, "forget", parent).stdout
    parent.write_bytes(was)
    journal = store_in(parent).journal
    journal.write_bytes(b"{" + journal.read_bytes())
    assert REFERS in run(tmp_path, "forget", parent).stdout


@pytest.mark.parametrize("packed", [False, True], ids=["archived", "packed by Codex"])
def test_forget_names_what_codex_itself_put_away(tmp_path: Path, packed: bool) -> None:
    """In its other folder, or packed there, where nothing of ours rewrites it."""
    _, make, at, fork, to = next(each for each in FAMILY if "archives" in each[0])
    parent, child = family(tmp_path, make(), at, fork, to)
    run(tmp_path, "restore", parent)
    if packed:
        child.with_name(f"{child.name}.zst").write_bytes(zstd.compress(child.read_bytes()))
        child.unlink()
    assert "others need it" in run(tmp_path, "forget", "--unneeded", "--yes", parent).stdout
    assert REFERS.replace("fork.jsonl", str(child)) in run(tmp_path, "forget", "--yes", parent).stdout


def test_forget_names_a_fork_of_a_fork(tmp_path: Path) -> None:
    """Its header names only the one between them."""
    parent, child = family(tmp_path, of_pi(), "a/s.jsonl", pi, "a/fork.jsonl")
    child.with_name("again.jsonl").write_bytes(pi(child))
    said = run(tmp_path, "forget", parent).stdout
    assert "2 sessions here refer to these originals: again.jsonl and fork.jsonl" in said


def test_forget_names_none_that_needs_nothing(tmp_path: Path) -> None:
    """A fork that was put back, and one whose markers a copy of the store holds, too."""
    parent, child = family(tmp_path, of_pi(), "a/s.jsonl", pi, "a/fork.jsonl")
    before = child.read_bytes()
    run(tmp_path, "restore", "--from-markers", child)
    assert "refer" not in run(tmp_path, "forget", parent).stdout
    child.write_bytes(before)
    copy = parent.with_name("t.jsonl")
    copy.write_bytes(parent.read_bytes())
    for which in ("journal", "originals"):
        Path(getattr(store_in(copy), which)).write_bytes(getattr(store_in(parent), which).read_bytes())
    assert "refer" not in run(tmp_path, "forget", copy).stdout


def renamed(path: Path, to: str) -> None:
    path.rename(path.with_name(to))


def copied_below(path: Path, to: str) -> None:
    (path.parent / to).parent.mkdir()
    (path.parent / to).write_bytes(path.read_bytes())


def forked_by_nobody(path: Path, to: str) -> None:
    """Copy a session under another id; nothing tells of which session it is a fork."""
    path.with_name(to).write_bytes(path.read_bytes().replace(b"session-of-claude", b"fork-of-claude"))


NAMELESS = [
    ("a chat has no id", lambda: fixture("chat.jsonl"), "s.jsonl", renamed, "t.jsonl"),
    ("a chat in one document", lambda: fixture("chat.json"), "s.json", renamed, "t.json"),
    ("a chat that was put aside", lambda: fixture("chat.jsonl"), "s.jsonl", renamed, "s.jsonl.bak"),
    ("a copy of a chat", lambda: fixture("chat.json"), "s.json", copied_below, "below/t.json"),
    ("claude --fork-session", of_claude, "s.jsonl", forked_by_nobody, "fork.jsonl"),
    ("a copy below", of_claude, "s.jsonl", copied_below, "below/s.jsonl"),
]


@pytest.mark.parametrize("option", ["--gone", "--unneeded", "--dry-run"])
@pytest.mark.parametrize(("make", "name", "move", "to"), [each[1:] for each in NAMELESS], ids=[e[0] for e in NAMELESS])
def test_forget_keeps_what_a_session_needs_that_names_none(
    tmp_path: Path, option: str, make: Callable[[], bytes], name: str, move: Callable[[Path, str], None], to: str
) -> None:
    """It has the texts that the store's runs wrote, which no other store knows."""
    path, other = tmp_path / "a" / name, tmp_path / "a" / to
    path.parent.mkdir()
    original = make().replace(ClaudeSession().session.encode(), b"session-of-claude")
    path.write_bytes(original)
    assert run(tmp_path, "compress", *HASTE, path).returncode == 0
    move(path, to)
    assert b"sessioncompress show " in other.read_bytes()
    path.unlink(missing_ok=True)
    if option != "--gone":
        path.write_bytes(original)
        # A store of a session that was put back under its old name.
        assert run(tmp_path, "verify", path).returncode == 0
    store = store_in(path)
    done = run(tmp_path, "forget", option, *(["--yes"] if option != "--dry-run" else []), path.parent)
    shown = other.name if other.parent == path.parent else other
    if option == "--dry-run":
        assert f"1 session here refers to these originals: {shown}" in done.stdout
    else:
        assert "1 kept" in done.stdout, done.stdout
    assert store.originals.exists()
    back = run(tmp_path, "restore", "--from-markers", "--originals", path, other)
    assert "restored" in back.stdout, back.stderr


@pytest.mark.parametrize("has", ["its own store", "nothing of ours", "a marker of another store"])
def test_forget_names_no_session_that_only_looks_alike(tmp_path: Path, has: str) -> None:
    """Sessions that saw the same contents are not relatives, and the store of none needs to stay for another."""
    path, other = tmp_path / "a/s.jsonl", tmp_path / "a/t.jsonl"
    path.parent.mkdir()
    path.write_bytes(of_claude())
    other.write_bytes(of_claude().replace(ClaudeSession().session.encode(), b"another-session"))
    if has == "a marker of another store":
        # The same contents, as results of other calls.
        other.write_bytes(other.read_bytes().replace(b"toolu_", b"toolx_"))
        assert run(tmp_path, "compress", *HASTE, other).returncode == 0
        assert run(tmp_path, "forget", "--yes", other).returncode == 0
    assert run(tmp_path, "compress", *HASTE, path, *([other] if has == "its own store" else [])).returncode == 0
    assert run(tmp_path, "restore", path).returncode == 0
    assert (b"sessioncompress show " in other.read_bytes()) is (has != "nothing of ours")
    assert "refer" not in run(tmp_path, "forget", "--dry-run", path).stdout
    assert "deleted" in run(tmp_path, "forget", "--unneeded", "--yes", path).stdout


def reads_of_forget(folder: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Forget sessions of one id with a store each; return how many files are opened, and the bytes that are read."""
    folder.mkdir()
    for each in range(number):
        (folder / f"s{each:03}.jsonl").write_bytes(of_pi())
    assert invoke("compress", *HASTE, folder).exit_code == 0
    opened = 0
    real = os.open

    def counting(*arguments: Any, **options: Any) -> int:
        nonlocal opened
        opened += 1
        return real(*arguments, **options)

    def read() -> int:
        return int(BYTES_READ.read_text().split()[1])

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", counting)
        before = read()
        done = invoke("forget", "--yes", folder)
        assert (done.exit_code, f"total: {number} sessions: deleted" in done.output) == (0, True), done.output
        return opened, read() - before


BYTES_READ = Path("/proc/self/io")


@pytest.mark.skipif(not BYTES_READ.exists(), reason="the system does not count the bytes that a process reads")
def test_forget_reads_each_of_many_forks_a_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for each other one: it read the stores of all of them for each two."""
    few, many = (reads_of_forget(tmp_path / str(number), number, monkeypatch) for number in (10, 40))
    assert many[0] < 5 * few[0]
    assert many[1] < 5 * few[1]
