"""Whose store it is: each run is signed, and what others wrote takes nothing away and gets nothing, unsaid."""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import nullcontext
from hashlib import sha256
from pathlib import Path

import pytest
from xxhash import xxh3_128_hexdigest

from sessioncompress.operations.matching import lacks
from sessioncompress.pipeline.relatives import Relative, Stranger, strangers_of, unknown_to, unnamed_in
from sessioncompress.store import journal as journals
from sessioncompress.store.layout import FOLDER, hidden_in, plain_in, store_in
from sessioncompress.store.lock import open_session
from sessioncompress.store.machine import folder_name
from tests.support.forged import sealed
from tests.support.runs import FIXTURES, invoke, journal_of, run, split
from tests.support.stores import (
    COMPRESS,
    HEAD,
    LINES,
    MORE,
    ORIGINAL,
    SMALL,
    copied,
    grows,
    repository,
    stores_of,
    user_of,
)
from tests.unit.store.tools import everything


def test_what_a_stranger_adds_to_a_copy_of_the_hidden_store_never_counts_before_that(tmp_path: Path) -> None:
    """Whoever committed his originals once has given all their records away."""
    mine, path = repository(tmp_path)
    run(*COMPRESS, path)
    shutil.copytree(mine.folder, tmp_path / "theirs")
    theirs = tmp_path / "theirs" / "s.jsonl"
    with user_of(tmp_path / "state"):
        grows(theirs, MORE)
        run(*COMPRESS, "--commit-originals", theirs)
    for one, other in zip(plain_in(theirs)[1:3], plain_in(path)[1:3], strict=True):
        shutil.copy(one, other)
    assert plain_in(path).journal.read_bytes().startswith(hidden_in(path, folder_name()).journal.read_bytes())
    assert store_in(path).is_ours
    grows(path, LINES[-1])
    assert store_in(path).is_ours


@pytest.mark.parametrize("how", [(), ("--dry-run",)])
def test_a_run_commits_originals_only_where_this_user_said_so(tmp_path: Path, how: tuple[str, ...]) -> None:
    """Once, with the option: who made a store does not tell whether another's originals may go into commits."""
    mine, path = repository(tmp_path)
    with user_of(tmp_path / "state"):
        run("compress", "--force", "--commit-originals", path)
    mine.commit()
    grows(path, MORE)
    before, stored = path.read_bytes(), everything(path.parent / FOLDER)
    refused = invoke(*COMPRESS, *how, path)
    assert refused.exit_code == 4
    assert "--commit-originals" in refused.output
    assert (path.read_bytes(), everything(path.parent / FOLDER)) == (before, stored)
    run("restore", path)
    assert not [each for each in stores_of(path) if each.is_hidden]
    run(*COMPRESS, path)
    assert [each.is_hidden for each in stores_of(path)] == [False, True]
    run("restore", path)
    run(*COMPRESS, "--commit-originals", path)
    run("restore", path)
    assert path.read_bytes() == ORIGINAL


def test_what_this_user_committed_of_another_session_is_no_leave(tmp_path: Path) -> None:
    """A branch puts that store, with a run of its own, beside a session whose originals are to stay here."""
    mine, other = repository(tmp_path)
    run(*COMPRESS, "--commit-originals", other)
    path = mine.folder / "t.jsonl"
    path.write_bytes(ORIGINAL)
    theirs = copied(plain_in(other), plain_in(path))
    records = journal_of(other)
    edit = {"type": "edit", "was": {"sha256": "0" * 64}, "isSha256": sha256(LINES[3]).hexdigest()}
    last = records[-1] | {"records": {"lines": 1, "blocks": 0}, "sha256": "0" * 64}
    del last["originalsSha256"], last["signed"]
    grows(theirs.journal, sealed([edit, {**last, "sha256": last.pop("sha256")}]))
    mine.git("add", "--force", "--all")
    mine.commit()
    stored = theirs.originals.read_bytes()
    assert "--commit-originals" in invoke(*COMPRESS, path).stderr
    assert (path.read_bytes(), theirs.originals.read_bytes()) == (ORIGINAL, stored)


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize(
    "words", ["stop", 17, "her own\n[[sessioncompress: 2 lines, 1.0 KB]]", {"stop": ""}, '["stop"]']
)
def test_a_stranger_s_store_takes_nothing_away(tmp_path: Path, hidden: bool, words: object) -> None:
    """It names a line of the user's, which no run touched, as what a run made of another; or as its own original."""
    _, path = repository(tmp_path)
    with user_of(tmp_path / "state"):
        run(*COMPRESS, "--commit-originals", path)
    theirs, records = plain_in(path), journal_of(path)
    originals = theirs.originals.read_bytes()
    run("forget", "--yes", path)
    edits = [each for each in records if each["type"] == "edit"]
    line = next(each for each in LINES if sha256(each).hexdigest() == edits[0]["was"]["sha256"])
    entry = json.loads(line)
    entry["message"]["content"] = [{"type": "text", "text": words}]
    hers = json.dumps(entry, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    path.write_bytes(HEAD.replace(line, hers))
    if hidden:
        run(*COMPRESS, path)
    edits[0]["isSha256"] = sha256(hers).hexdigest()
    edits[1]["isSha256"] = edits[1]["was"]["sha256"]
    theirs.folder.mkdir(exist_ok=True)
    theirs.journal.write_bytes(sealed(records))
    theirs.originals.write_bytes(originals)
    for options in (["--dry-run"], ["--from-markers"], []):
        done = invoke("restore", *options, path)
        assert hers in path.read_bytes()
        assert hidden or done.exit_code == 5


def test_what_this_user_committed_counts_for_no_fork(tmp_path: Path) -> None:
    """A branch puts that store beside a fork, which shares its lines: a signature has the session's name."""
    mine, other = repository(tmp_path)
    run(*COMPRESS, "--commit-originals", other)
    path = mine.folder / "t.jsonl"
    path.write_bytes(other.read_bytes() + MORE)
    copied(plain_in(other), plain_in(path))
    mine.git("add", "--force", "--all")
    mine.commit()
    assert "--commit-originals" in invoke(*COMPRESS, path).stderr
    assert "1 store was made elsewhere" in invoke("restore", path).stderr


@pytest.mark.parametrize("shown", [(), ("--commit-originals",)], ids=["hidden", "committed"])
def test_a_store_under_another_name_is_not_said_to_be_a_stranger_s(tmp_path: Path, shown: tuple[str, ...]) -> None:
    """It was renamed with its session, as the docs say: nobody can tell that from a store put beside another one."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(ORIGINAL)
    run(*COMPRESS, *shown, path)
    new = path.with_name("t.jsonl")

    def rename(old: Path, to: Path) -> None:
        (store,) = stores_of(old)
        copied(store, plain_in(to) if shown else hidden_in(to, folder_name()))
        for each in (store.journal, store.originals):
            each.unlink()
        old.rename(to)

    rename(path, new)
    told = "1 store was made elsewhere, under another name, or by"
    assert told in " ".join(invoke("verify", new).stderr.split())
    rename(new, path)
    assert "made elsewhere" not in invoke("verify", path).output
    rename(path, new)
    assert told in " ".join(invoke("restore", new).stderr.split())
    assert new.read_bytes() == ORIGINAL


def test_what_does_not_read_back_is_kept_again(tmp_path: Path) -> None:
    """A journal, or a branch, says that an earlier run kept it."""
    _, path = repository(tmp_path)
    run(*COMPRESS, path)
    run("restore", path)
    originals = store_in(path).originals
    originals.write_bytes(bytes(originals.stat().st_size))
    run(*COMPRESS, path)
    run("restore", path)
    assert path.read_bytes() == HEAD


def test_a_field_behind_a_signature_is_not_signed(tmp_path: Path) -> None:
    """A reader takes the last of two."""
    _, path = repository(tmp_path)
    run(*COMPRESS, "--commit-originals", path)
    plain = plain_in(path).journal
    journal = plain.read_bytes()
    run("forget", "--yes", path)
    path.write_bytes(ORIGINAL)
    run(*COMPRESS, path)
    records = split(journal)
    more = b'"compressedSize":%d,"compressedXxh3":"%s"' % (
        path.stat().st_size,
        xxh3_128_hexdigest(path.read_bytes()).encode(),
    )
    records[-1] = records[-1].replace(b',"sha256":"', b"," + more + b',"sha256":"')
    plain.write_bytes(b"".join(records))
    assert store_in(path).is_ours
    assert b'"signed"' in records[-1]


@pytest.mark.parametrize("by", ["this user", "a stranger"])
def test_a_summary_of_a_stranger_s_originals_is_told(tmp_path: Path, by: str) -> None:
    """Of what he says that the user asked for no marker's digest speaks."""
    config = tmp_path / "small.json"
    config.write_bytes(SMALL)
    _, path = repository(tmp_path, ORIGINAL)
    with user_of(tmp_path / "state") if by == "a stranger" else nullcontext():
        run(*COMPRESS, "--commit-originals", path)
    keep = ("--config", config, "--keep-tokens", "500")
    for command in (("handoff",), ("compact", "--commit-originals", *keep)):
        assert ("its store was made elsewhere" in run(*command, path).stderr) is (by == "a stranger")


def test_the_hook_stages_what_it_adds_to_a_store_that_git_has(tmp_path: Path) -> None:
    """Whoever committed originals of a session once: the commit would else have a session whose originals it lacks."""
    mine, path = repository(tmp_path)
    run(*COMPRESS, "--commit-originals", path)
    mine.commit()
    grows(path, MORE)
    mine.git("add", path)
    config = tmp_path / "eager.json"
    config.write_text('{"session": {"sizeThresholdKB": 0, "minSavedKB": 0, "turnThresholdBeforeCompress": 1}}')
    hook = mine.run(sys.executable, "-m", "sessioncompress", "pre-commit", "--config", config, path)
    assert "this work tree only" not in hook.stdout
    assert f"{FOLDER}/s.jsonl.zst" in mine.staged()
    mine.git("add", path)
    mine.git("commit", "--quiet", "--message", "a turn")
    mine.git("reset", "--quiet", "--hard")
    run("restore", path)
    assert path.read_bytes() == ORIGINAL


def test_in_a_work_tree_another_machine_s_store_comes_home(tmp_path: Path) -> None:
    """Its folder's name is known there: a branch may bring it. What that machine wrote is told of as before."""
    mine, path = repository(tmp_path)
    with user_of(tmp_path / "state"):
        run(*COMPRESS, path)
        theirs = store_in(path)
    grows(path, MORE)
    run(*COMPRESS, path)
    assert stores_of(path) == [hidden_in(path, folder_name())]
    assert not theirs.folder.exists()
    mine.commit()
    assert mine.tracked() == {"s.jsonl"}
    for command in (("verify",), ("diff",), ("search", "Skarvik"), ("restore",)):
        assert "1 store was made elsewhere" in invoke(*command, path).stderr
    assert path.read_bytes() == ORIGINAL


def test_a_packed_session_whose_other_store_stayed_is_not_gone(tmp_path: Path) -> None:
    """`forget --gone` would not delete that store, either."""
    _, path = repository(tmp_path)
    run(*COMPRESS, path)
    other = copied(store_in(path), hidden_in(path, "local-00000000"))
    run("pack", path)
    assert other.journal.exists()
    assert "is gone" not in invoke("verify", path.parent).output


def test_a_stranger_s_word_that_nothing_is_rewritten_is_told_as_that(tmp_path: Path) -> None:
    """Of a folder, too, where a session that stays as it is gets no line of its own."""
    path = tmp_path / "s/s.jsonl"
    path.parent.mkdir()
    path.write_bytes(ORIGINAL)
    with user_of(tmp_path / "state of a stranger"):
        run(*COMPRESS, path)
        run("restore", path)
        assert "1 store was made elsewhere" not in invoke("restore", path.parent).stderr
    done = invoke("restore", path.parent)
    assert (done.exit_code, "1 store was made elsewhere" in done.stderr) == (0, True)


_QUOTES = LINES[3].replace(b'"text":"', b'"text":"It began with [Extracted by sessioncompress from 4 entries. ', 1)


@pytest.mark.parametrize("prompt", [next(line for line in LINES if b'"role":"user"' in line), _QUOTES])
@pytest.mark.parametrize("options", [(), ("--last", "--yes"), ("--dry-run",)])
def test_a_stranger_s_checkpoint_takes_no_text_away(tmp_path: Path, options: tuple[str, ...], prompt: bytes) -> None:
    """It names a prompt of the user's as a line of a summary, which a restore takes out; one may quote a summary."""
    config = tmp_path / "small.json"
    config.write_bytes(SMALL)
    _, path = repository(tmp_path, ORIGINAL)
    with user_of(tmp_path / "state"):
        run("compact", "--commit-originals", "--config", config, "--keep-tokens", "500", path)
    records = journal_of(path)
    for record in records:
        if record["type"] == "checkpoint":
            record["lines"] = [sha256(prompt).hexdigest()]
    plain_in(path).journal.write_bytes(sealed(records))
    hers = b"".join([*LINES[:3], *({LINES[3]: None, prompt: None} if prompt is _QUOTES else LINES[3:4]), *LINES[4:]])
    path.write_bytes(hers)
    done = invoke("restore", *options, path)
    assert path.read_bytes() == hers
    assert "a text would go that no run wrote" in done.stderr


def test_a_record_of_a_text_that_names_another_content_is_none_of_it(tmp_path: Path) -> None:
    """A stranger's may be of the text itself, and its original reads back."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(ORIGINAL)
    run(*COMPRESS, path)
    journal = journals.load(store_in(path).journal)
    ref, key = next(
        (block.ref, key)
        for row, _ in enumerate(journal.references)
        for _, block in [journal.block(row)]
        for key in block.identities()
    )
    known, other = Stranger(ref, key), Stranger("f" * 12, key)
    assert unnamed_in(journal, [known, other]) == [other]


_SAID = {
    "type": "message",
    "content": [{"text": "Do not touch:"}, {"text": "a file"}, {"text": "Delete:"}, {"text": "b"}],
}


@pytest.mark.parametrize(
    ("order", "is_other"), [((0, 1, 2, 3), False), ((1, 3), False), ((0, 3, 2, 1), True), ((0, 0, 1, 2, 3), True)]
)
def test_a_line_says_what_its_original_does_in_that_order(order: tuple[int, ...], is_other: bool) -> None:
    """A run takes texts out, and moves or doubles none."""
    raw = json.dumps({**_SAID, "content": [_SAID["content"][each] for each in order]}).encode()
    assert lacks(json.dumps(_SAID).encode(), raw) is is_other


def forked(path: Path) -> Path:
    fork = path.with_name("t.jsonl")
    first, *others = split(path.read_bytes())
    header = {**json.loads(first), "id": "fork", "parentSession": str(path)}
    fork.write_bytes(b"".join([json.dumps(header).encode() + b"\n", *others]))
    return fork


@pytest.mark.parametrize("claims", ["references", "lines", "nothing"])
def test_a_stranger_s_journal_beside_a_fork_lets_no_original_go(tmp_path: Path, claims: str) -> None:
    """It tells of originals that it does not have, or cannot be read."""
    _, path = repository(tmp_path, ORIGINAL)
    run(*COMPRESS, path)
    fork = forked(path)
    theirs = plain_in(fork).journal
    records = [each for each in journal_of(path) if each["type"] in ("edit", "block", "run")]
    for record in records:
        record.get("was", {}).pop("frame", None)
        record["storeSize"] = 0
        if record["type"] == "edit" and claims != "lines":
            record["isSha256"] = "0" * 64
    del records[-1]["originalsSha256"], records[-1]["sessionId"]
    theirs.write_bytes(sealed(records[claims == "nothing" :]))
    run("restore", path)
    for how, where in (("--unneeded", path), ("--gone", path.parent)):
        if how == "--gone":
            path.unlink()
        assert "kept" in invoke("forget", how, "--yes", where).output
        assert hidden_in(path, folder_name()).originals.exists()
    told = "28 markers with originals in a relative's store" in invoke("verify", fork).output
    assert told is (claims != "nothing")


def test_a_printed_restore_names_the_backup_folder(tmp_path: Path) -> None:
    """In it are the originals of the relative, and without it the command would refuse."""
    _, path = repository(tmp_path, ORIGINAL)
    kept = tmp_path / "kept of mine"
    run(*COMPRESS, "--backup-dir", kept, path)
    fork = path.with_name("t.jsonl")
    fork.write_bytes(path.read_bytes())
    refused = invoke("restore", "--backup-dir", kept, fork)
    assert f"'sessioncompress restore --backup-dir '{kept}' --from-markers {fork}' puts them back" in refused.stderr
    run("restore", "--backup-dir", kept, "--from-markers", fork)
    assert fork.read_bytes() == ORIGINAL


def test_a_state_that_only_a_stranger_names_counts_for_less_than_lines_of_one_s_own(tmp_path: Path) -> None:
    """An agent, or a branch, changed the first line, so no run of the user's left any beginning."""
    _, path = repository(tmp_path)
    with user_of(tmp_path / "state"):
        run(*COMPRESS, "--commit-originals", path)
    records = journal_of(path)
    theirs = plain_in(path).journal
    run("forget", "--yes", path)
    path.write_bytes(HEAD)
    run(*COMPRESS, path)
    path.write_bytes(path.read_bytes().replace(b'"version":3', b'"version":3,"x":1', 1))
    size, digest = path.stat().st_size, xxh3_128_hexdigest(path.read_bytes())
    records[-1] |= {"compressedSize": size, "compressedXxh3": digest}
    theirs.write_bytes(sealed(records))
    assert store_in(path).is_ours


def test_lines_of_a_document_s_layout_count_for_no_store(tmp_path: Path) -> None:
    """Runs write messages: a stranger's journal that claims the lines around them, too, knows no more than one's own."""
    path = tmp_path / "session-1.json"
    whole = json.loads((FIXTURES / "gemini.json").read_bytes())
    path.write_text(json.dumps(whole, indent=2))
    run(*COMPRESS, path)
    anew = {**json.loads(path.read_bytes()), "startTime": "2026-01-01T00:00:00.000Z"}
    path.write_text(json.dumps(anew, indent=2))
    *_, last = journal_of(path)
    del last["originalsSha256"], last["records"]
    claimed = [each["isSha256"] for each in journal_of(path) if each["type"] == "edit"]
    claimed += [sha256(each.rstrip(b"\n")).hexdigest() for each in split(path.read_bytes()) if b"[[session" in each]
    records = [{"type": "edit", "was": {"sha256": "0" * 64}, "isSha256": each, "line": 1} for each in claimed]
    plain_in(path).journal.write_bytes(sealed([*records, {**last, "storeSize": 0}]))
    assert store_in(path).is_ours
    assert invoke("verify", path).exit_code == 0
    run("restore", path)
    assert json.loads(path.read_bytes())["messages"] == whole["messages"]


def test_a_fork_finds_its_parent_s_store_beside_a_stranger_s(tmp_path: Path) -> None:
    """Which store counts for the parent is another matter: each may know what the fork's markers stand for."""
    _, path = repository(tmp_path, ORIGINAL)
    run(*COMPRESS, path)
    fork = forked(path)
    *_, last = journal_of(path)
    del last["originalsSha256"], last["records"]
    run("restore", path)
    path.write_bytes(path.read_bytes().replace(b'"version":3', b'"version":3,"x":1', 1))
    state = {"compressedSize": path.stat().st_size, "compressedXxh3": xxh3_128_hexdigest(path.read_bytes())}
    plain_in(path).journal.write_bytes(sealed([{**last, **state, "storeSize": 0}]))
    assert not store_in(path).is_ours
    run("restore", "--from-markers", fork)
    assert split(fork.read_bytes())[1:] == split(ORIGINAL)[1:]


@pytest.mark.parametrize("command", ["verify", "restore", "compress"])
def test_a_store_that_lacks_the_newest_run_is_told(tmp_path: Path, command: str) -> None:
    """A branch puts the two files back as an earlier run left them."""
    _, path = repository(tmp_path)
    run("compress", "--force", "--keep-turns", "4", "--commit-originals", path)
    shutil.copytree(path.parent / FOLDER, tmp_path / "earlier")
    run("compress", "--force", "--preset", "archive", "--commit-originals", path)
    shutil.copytree(tmp_path / "earlier", path.parent / FOLDER, dirs_exist_ok=True)
    before = path.read_bytes()
    done = invoke(command, "--force", path) if command == "compress" else invoke(command, path)
    assert "its store is older than the session" in done.output
    assert "all good" not in done.output
    # A run would begin originals that the whole store, put back later, does not have.
    assert (done.exit_code, path.read_bytes() == before) == {"verify": (0, True), "compress": (4, True)}.get(
        command, (5, False)
    )


def test_originals_that_are_gone_are_nobody_s(tmp_path: Path) -> None:
    """The journal is this user's and whole, but forget took it for a store that has them, and deleted the last one."""
    _, path = repository(tmp_path, ORIGINAL)
    run(*COMPRESS, path)
    own = Relative(path, store_in(path), journals.load(store_in(path).journal))
    with open_session(path, writing=False) as session:
        strangers = strangers_of(session, journals.Journal())
    assert unknown_to(strangers, own) == []
    own.store.originals.unlink()
    assert unknown_to(strangers, own) == strangers != []


def compacted_by_others(folder: Path, before: tuple[str, ...], then: str, tokens: str) -> Path:
    """Return a session that others compacted with --drop-dead, and this user without, before pulling theirs.

    `before` is what both ran first, and `then` how this user left it.
    """
    mine, path = repository(folder, ORIGINAL)
    mine.commit()
    config = folder / "small.json"
    config.write_bytes(SMALL)
    compacting = ("compact", "--config", config, "--keep-tokens", tokens)
    theirs = mine.clone(folder / "theirs")
    for each, hers in ((path, ()), (theirs.folder / path.name, ("--drop-dead", "--commit-originals"))):
        with user_of(folder / "state") if hers else nullcontext():
            if before:
                run(*before, *hers[1:], each)
            run(*compacting, *hers, each)
    if then == "restore":
        run("restore", path)
    mine.git("checkout", "--quiet", path.name)
    theirs.commit()
    mine.git("pull", "--quiet", theirs.folder, "main")
    return path


@pytest.mark.parametrize("before", [(), COMPRESS], ids=["alone", "compressed before"])
@pytest.mark.parametrize("then", ["restore", "checkout"])
def test_a_summary_of_both_does_not_tell_whose_session_it_is(
    tmp_path: Path, before: tuple[str, ...], then: str
) -> None:
    """The same lines have the same summary; but only one of the two stores has what left the session for it."""
    path = compacted_by_others(tmp_path, before, then, "100")
    assert not store_in(path).is_ours
    verified = invoke("verify", path)
    assert (verified.exit_code, "all good" in verified.output) == (0, True)
    run("restore", path)
    assert path.read_bytes() == ORIGINAL


def test_no_summary_goes_whose_lines_only_another_store_brings_back(tmp_path: Path) -> None:
    """Another machine's folder is not asked first; what to move away is said."""
    path = compacted_by_others(tmp_path, (), "restore", "100")
    other = copied(plain_in(path), hidden_in(path, "local-00000000"))
    for file in (plain_in(path).journal, plain_in(path).originals):
        file.unlink()
    assert store_in(path).is_ours
    before = path.read_bytes()
    for command in (("verify",), ("restore", "--dry-run"), ("restore",)):
        refused = invoke(*command, path)
        assert (refused.exit_code, path.read_bytes()) == (4, before)
        assert f"only another store has them, {other.journal}" in refused.stderr
    shutil.move(store_in(path).folder, tmp_path / "away")
    run("restore", path)
    assert path.read_bytes() == ORIGINAL


def test_restore_says_as_verify_does_which_store_has_an_unknown_summary(tmp_path: Path) -> None:
    """No marker tells what left the session for it, so --from-markers would do nothing."""
    mine, path = repository(tmp_path, ORIGINAL)
    mine.commit()
    theirs = mine.clone(tmp_path / "theirs").folder / path.name
    (config := tmp_path / "small.json").write_bytes(SMALL)
    run(*COMPRESS, path)
    with user_of(tmp_path / "state"):
        run("compact", "--config", config, "--keep-tokens", "100", "--drop-dead", theirs)
        other = copied(store_in(theirs), hidden_in(path, "local-00000000"))
    path.write_bytes(theirs.read_bytes())
    verified, restored = invoke("verify", path), invoke("restore", path)
    assert (verified.exit_code, restored.exit_code) == (4, 4)
    assert verified.stderr == restored.stderr
    assert f"known only to its other store, {other.journal}" in restored.stderr
    assert "--from-markers" not in restored.stderr
    shutil.move(store_in(path).folder, tmp_path / "away")
    run("restore", path)
    assert path.read_bytes() == ORIGINAL
