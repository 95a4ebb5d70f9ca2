"""`compress` of one session: its lines, its JSON document, and its options."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from pathlib import Path

import pytest

from sessioncompress.core.model import Kind
from sessioncompress.core.text import kb
from sessioncompress.store import journal as journals
from sessioncompress.store.layout import journals_in, store_in
from tests.support.commands import FILE_FIELDS, SIZES, TOKENS, TOTAL_FIELDS, document, one, policy, put, run
from tests.support.runs import blocks_of, but_undo, fixture, snapshot, split
from tests.support.session import PiSession

PARTS = r"\((\d+ % smaller|not smaller); .*; store " + SIZES + r"\)"


# Lines


def test_the_line_of_a_file(session: Path) -> None:
    """One line: sizes, by how much, counts, the store, and tokens as estimates."""
    result = run("compress", "session.jsonl")
    assert result.exit_code == 0
    assert but_undo(result.stderr) == ""
    assert re.fullmatch(rf"session\.jsonl: {SIZES} -> {SIZES} {PARTS}; {TOKENS}\n", result.stdout)
    assert session.stat().st_size < len(fixture("pi-anthropic.jsonl"))


def test_the_total_of_a_later_run_is_compared_with_the_total_before(session: Path) -> None:
    """What earlier runs left beside the session counts before and after."""
    run("compress", "--preset", "high-quality", "session.jsonl")
    before = lying(session.parent)
    last = run("compress", "--preset", "low-cost", "--force", ".").stdout
    found = re.search(rf"with the stores: ({SIZES}) -> ({SIZES}), (\d+) % smaller", last)
    assert found, last
    after = lying(session.parent)
    sizes = [f"{round(size / 1024):,} KB" for size in (before, after)]
    assert found.groups() == (*sizes, str(100 * (before - after) // before))


def lying(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_the_figures_are_those_of_the_disk(session: Path) -> None:
    before = session.stat().st_size
    stats = one("compress", session)
    folder = store_in(session).folder
    lying = sum(path.stat().st_size for path in folder.iterdir() if path.name != ".gitignore")
    assert stats["originalSize"] == before
    assert stats["compressedSize"] == session.stat().st_size
    assert stats["storeSize"] == lying
    assert session.stat().st_size + lying < before


def test_a_second_run_writes_nothing(compressed: Path) -> None:
    """It says so, and contents, inodes and times are as they were."""
    before = snapshot(compressed)
    result = run("compress", "--min-size", "0", "session.jsonl")
    assert result.exit_code == 0
    assert result.stdout.startswith("session.jsonl: unchanged: nothing more worth removing")
    assert "total" not in result.stdout
    assert snapshot(compressed) == before


def test_a_small_session_is_skipped(session: Path) -> None:
    """The line says its size and the threshold."""
    before = snapshot(session)
    result = run("compress", "--min-size", "400", "session.jsonl")
    assert result.exit_code == 0
    assert result.stdout.startswith("session.jsonl: skipped: 338 KB, under the threshold of 400 KB\n")
    assert snapshot(session) == before


def test_what_would_not_pay_says_how_much_and_what_would_help(here: Path) -> None:
    """The reason names the key, and what the recent context holds."""
    put(here / "session.jsonl", "pi-gemini.jsonl")
    reason = one("compress", "session.jsonl")["reason"]
    recent = r"\d+ KB protected, mostly the newest 20,000 tokens of tool I/O in the last 4 turns"
    assert re.search(rf"it would save only [\d.]+ KB, less than minSavedKB 16; {recent}", reason)
    hint = re.search(r"; (--protect-tokens 8000) \(protectTokens\) keeps less$", reason)
    assert hint
    less = one("compress", *hint[1].split(), "session.jsonl")
    assert less["protectedBytes"] < one("compress", "--dry-run", "session.jsonl")["protectedBytes"]


def test_no_hint_where_fewer_tokens_would_keep_as_much(here: Path) -> None:
    """The newest step is larger than any number of tokens."""
    made = PiSession().opening()
    made.user("go")
    made.step("bash", {"command": "make"}, "a line of output\n" * 40_000)
    made.write(here / "session.jsonl")
    reason = one("compress", "session.jsonl")["reason"]
    assert "protected, mostly the newest 20,000 tokens" in reason
    assert "keeps less" not in reason


def test_a_dry_run_says_what_the_run_does(session: Path) -> None:
    """All figures are those of the run that follows; nothing is written."""
    before = snapshot(session)
    said = run("compress", "--dry-run", "session.jsonl").stdout
    assert re.search(rf"session\.jsonl: {SIZES} would become {SIZES} {PARTS}", said)
    would = one("compress", "--dry-run", session)
    assert snapshot(session) == before
    assert [each.name for each in session.parent.iterdir()] == ["session.jsonl"]
    done = one("compress", session)
    assert (would.pop("status"), done.pop("status")) == ("would-compress", "compressed")
    assert would.pop("run") < done.pop("run")
    would["storeSize"], backup = done["storeSize"], would["storeSize"]
    assert abs(backup - done["storeSize"]) < 100
    assert would == done


def test_check(session: Path) -> None:
    """1 while something would change, 0 once it has; neither writes."""
    before = snapshot(session)
    assert run("compress", "--check", session).exit_code == 1
    assert snapshot(session) == before
    assert run("compress", session).exit_code == 0
    assert run("compress", "--check", session).exit_code == 0
    assert run("compress", "--check", "--min-size", "0", session).exit_code == 0


# JSON


def test_the_json_document(session: Path) -> None:
    put(session.with_name("small.jsonl"), "bom.jsonl")
    session.with_name("none.jsonl").write_bytes(b"x" * 200_000)
    result = run("compress", "session.jsonl", "small.jsonl", "none.jsonl", "--json")
    assert result.exit_code == 4
    done = json.loads(result.stdout)
    assert set(done) == {"schema", "dryRun", "files", "totals"}
    assert done["schema"] == "sessioncompress.compress/1"
    assert [set(each) for each in done["files"]] == [FILE_FIELDS] * 3
    assert [each["status"] for each in done["files"]] == ["compressed", "skipped", "refused"]
    assert [each["path"] for each in done["files"]] == ["session.jsonl", "small.jsonl", "none.jsonl"]
    assert [each["format"] for each in done["files"]] == ["pi", "", ""]
    assert set(done["totals"]) == TOTAL_FIELDS
    for field in TOTAL_FIELDS - {"ratio", "compressedShare"}:
        assert done["totals"][field] == sum(each[field] for each in done["files"]), field
    assert "refused: " in result.stderr


def test_the_ratios_of_the_json_document(session: Path) -> None:
    """Each is the share that a run saves, of a file and of all, and 0 where it saves nothing."""
    done = document("compress", session, put(session.with_name("other.jsonl"), "omp.jsonl"))
    for each in (*done["files"], done["totals"]):
        assert each["compressedShare"] == pytest.approx(each["compressedSize"] / each["originalSize"], abs=0.0001)
        assert each["ratio"] == pytest.approx(1 - each["compressedShare"], abs=0.0001)
    assert 0 < done["totals"]["ratio"] < 1
    assert [each["ratio"] for each in document("compress", session)["files"]] == [0]


def test_the_counts_of_the_json_document(session: Path) -> None:
    done = one("compress", session)
    blocks = [block for _, block in blocks_of(journals.load(store_in(session).journal))]
    count = {kind: sum(block.kind is kind for block in blocks) for kind in Kind}
    assert done["toolResultsCompressed"] == count[Kind.RESULT] > 0
    assert done["thinkingBlocksRemoved"] == count[Kind.THINKING] > 0
    assert done["imagesReplaced"] == count[Kind.IMAGE] > 0
    assert done["mirrorsReplaced"] == count[Kind.MIRROR] > 0
    assert 0 < done["toolCallsCompressed"] <= count[Kind.ARGUMENT]
    assert 0 < done["redundanciesEliminated"] <= done["toolResultsCompressed"]
    assert 0 < done["removedBytes"] <= done["removableBytes"]
    assert done["tokensAfter"] < done["tokensBefore"]
    assert done["lines"] == len(split(session.read_bytes()))
    assert 0 < done["linesChanged"] < done["lines"]


def test_lines_that_are_not_understood_are_counted(session: Path) -> None:
    """They are copied, and told of; verify says which they are."""
    with session.open("ab") as file:
        file.write(b"not JSON\n")
    number = len(split(session.read_bytes()))
    said = "1 line was not understood and was left alone; 'sessioncompress verify' says which, for the same sessions"
    assert f"; {said}\n" in run("compress", "--dry-run", session).stdout
    assert run("compress", "--dry-run", session.parent).stdout.endswith(f"\n  {said}\n")
    assert one("compress", session)["linesNotUnderstood"] == 1
    assert session.read_bytes().endswith(b"\nnot JSON\n")
    assert f"1 not understood (line {number}), " in run("verify", session).stdout
    assert f"1 not understood (line {number}), " in run("verify", session.parent).stdout
    assert one("verify", session)["notUnderstoodAt"] == [number]


def test_imitated_markers_are_warned_of(here: Path) -> None:
    """What stands in the arguments of a call may stand in a file: the warning says what to look for."""
    text = b"[[sessioncompress: 3 lines, 99 bytes, kept on disk: sessioncompress show 0123456789ab]]"
    lines = split(fixture("pi-anthropic.jsonl"))
    number = next(at for at, line in enumerate(lines) if b'"name":"write"' in line)
    lines[number] = (
        lines[number]
        .replace(b'"content":"', b'"content":"' + text + b"\\n", 1)
        .replace(b'"arguments":{"path":"', b'"arguments":{"note":"' + text + b'","path":"', 1)
    )
    (here / "session.jsonl").write_bytes(b"".join(lines))
    result = run("compress", "session.jsonl", "--json")
    assert json.loads(result.stdout)["files"][0]["imitatedMarkers"] >= 1
    assert "session.jsonl: " in result.stderr
    assert "look for '[[sessioncompress:' and 'in it: ' in the files it wrote" in result.stderr


def test_a_copied_index_is_warned_of(here: Path) -> None:
    """Alone in a call it is no preview of ours."""
    lines = split(fixture("pi-anthropic.jsonl"))
    number = next(at for at, line in enumerate(lines) if b'"name":"write"' in line)
    lines[number] = lines[number].replace(b'"content":"', b'"content":"in it: def decode(raw | src/a.py\\n', 1)
    (here / "session.jsonl").write_bytes(b"".join(lines))
    result = run("compress", "session.jsonl", "--json")
    assert json.loads(result.stdout)["files"][0]["imitatedMarkers"] == 1
    assert "session.jsonl: 1 text in a call looks like a marker of ours" in result.stderr


def test_warnings_come_after_the_rows(compressed: Path) -> None:
    put(compressed.with_name("zebra.jsonl"))
    shutil.rmtree(store_in(compressed).folder)
    lines = run("compress", "--force", ".").output.splitlines()
    (row,) = (at for at, line in enumerate(lines) if line.startswith("zebra.jsonl: "))
    (warning,) = (at for at, line in enumerate(lines) if "but its store is missing" in line)
    assert row < warning


def test_markers_without_a_journal_are_told(compressed: Path) -> None:
    """What they stand for is not here; no model is accused of having written them."""
    shutil.rmtree(store_in(compressed).folder)
    result = run("compress", "--force", "session.jsonl")
    assert re.fullmatch(
        r"session\.jsonl: \d+ markers, but its store is missing; 'sessioncompress verify' says whether their originals can be found\n",
        result.stderr,
    )


# Options


def test_keep_turns(session: Path) -> None:
    none = one("compress", "--dry-run", "--keep-turns", "0", session)
    two = one("compress", "--dry-run", "--keep-turns", "2", session)
    four = one("compress", "--dry-run", session)
    assert none["compressedSize"] < two["compressedSize"] < four["compressedSize"]
    assert none["protectedBytes"] < two["protectedBytes"] < four["protectedBytes"]


@pytest.mark.parametrize("turns", ["9", "20"])
def test_more_turns_than_tokens_let_stay(session: Path, turns: str) -> None:
    """Who asks for more turns than usual reads what they are measured by; more tokens keep the turns whole."""
    eight = one("compress", "--dry-run", "--keep-turns", "8", session)
    some = one("compress", "--dry-run", "--keep-turns", turns, session)
    assert some["compressedSize"] >= eight["compressedSize"]
    context = f"the newest 20,000 tokens of tool I/O in the last {turns} turns"
    assert some["reason"].startswith(f"{kb(some['protectedBytes'])} protected, mostly {context}")
    whole = one("compress", "--dry-run", "--keep-turns", turns, "--protect-tokens", "1000000", session)
    assert whole["status"] == "unchanged"


def long_session(steps: int) -> bytes:
    """Return a session of steps with results of 300 KB."""
    session = PiSession()
    for number in range(steps):
        session.user(f"Part {number}.")
        text = random.Random(number).randbytes(140_000).hex("\n", 7)
        session.step("bash", {"command": f"part {number}"}, text)
    return session.bytes()


def test_the_default_of_four_turns_is_no_surprise(here: Path) -> None:
    """It is measured in tokens, without a word where much is gained."""
    (here / "session.jsonl").write_bytes(long_session(4))
    for arguments in ((), ("--keep-turns", "4")):
        assert one("compress", "--dry-run", *arguments, "session.jsonl")["reason"] == ""
    assert " in the last 5 turns" in one("compress", "--dry-run", "--keep-turns", "5", "session.jsonl")["reason"]


def test_presets(session: Path) -> None:
    """The cheaper one takes more; the one for quality leaves thinking."""
    low, balanced, high = (
        one("compress", "--dry-run", "--preset", name, session) for name in ("low-cost", "balanced", "high-quality")
    )
    assert low["compressedSize"] < balanced["compressedSize"] < high["compressedSize"]
    assert balanced == one("compress", "--dry-run", session)
    assert high["thinkingBlocksRemoved"] == 0


def test_a_policy_file(session: Path) -> None:
    """The nearest one counts, --config names another, and an option wins over both."""
    policy(session.parent / "compression.json", stripThinking=False)
    other = policy(session.parent / "other.json", sizeThresholdKB=1000)
    assert one("compress", "--dry-run", session)["thinkingBlocksRemoved"] == 0
    assert one("compress", "--dry-run", "--config", other, session)["status"] == "skipped"
    assert one("compress", "--dry-run", "--config", other, "--min-size", "9", session)["thinkingBlocksRemoved"] > 0


def test_switched_off(session: Path) -> None:
    """`enabled: false` leaves a session alone, also with --force."""
    policy(session.parent / "compression.json", enabled=False)
    before = snapshot(session)
    result = run("compress", "--force", "session.jsonl")
    assert result.exit_code == 0
    assert "session.jsonl: skipped: switched off by the policy (enabled: false)" in result.stdout
    assert snapshot(session) == before


def test_force(here: Path) -> None:
    path = put(here / "session.jsonl", "pi-v1.jsonl")
    assert one("compress", path)["status"] == "skipped"
    assert one("compress", "--min-size", "0", path)["status"] == "unchanged"
    assert one("compress", "--force", path)["status"] == "compressed"


def test_no_backup(session: Path) -> None:
    """No original lies beside it, no marker names a way back, and restore says so."""
    assert one("compress", "--no-backup", session)["status"] == "compressed"
    assert not store_in(session).originals.exists()
    assert b"[[sessioncompress: " in session.read_bytes()
    assert b"sessioncompress show" not in session.read_bytes()
    result = run("restore", session)
    assert result.exit_code == 5
    assert "keepBackup: false" in result.stdout


def test_without_a_backup_a_journal_is_all_that_lies_there(session: Path) -> None:
    """It is the store then: in the line of the file and of all, before and after."""
    for options in (("--dry-run",), ()):
        out = run("compress", *options, "--no-backup", session).stdout
        assert len(re.findall(r"; store \d+ KB\)", out)) == 1
        assert "originals" not in out
    assert one("stats", session)["storeSize"] == store_in(session).journal.stat().st_size
    put(session.parent / "third.jsonl")
    out = run("compress", "--force", "--no-backup", ".").stdout
    assert re.search(rf"  sessions: .*; stores {SIZES}\n", out)


def test_backup_dir(session: Path) -> None:
    """Originals and journal lie there, from the working folder, and each command finds them with the same option."""
    before = session.read_bytes()
    elsewhere = session.parent / "kept"
    assert run("compress", "--backup-dir", "kept", "session.jsonl").exit_code == 0
    names = sorted(path.name for path in elsewhere.glob("local-*/[!.]*"))
    assert [re.sub(r"^[0-9a-f]{12}-", "", name) for name in names] == [
        "session.jsonl.history",
        "session.jsonl.originals.zst",
    ]
    assert not (session.parent / ".sessioncompress").exists()
    ref = next(ref for ref in re.findall(rb"sessioncompress show ([0-9a-f]+)", session.read_bytes())).decode()
    assert one("stats", "--backup-dir", "kept", session)["storeSize"] > 0
    assert "0 rewritten" not in run("verify", "--backup-dir", "kept", session).stdout
    assert run("show", ref, session, "--backup-dir", "kept").exit_code == 0
    assert run("show", ref, "--backup-dir", "kept").exit_code == 0
    assert run("restore", "--backup-dir", "kept", session).exit_code == 0
    assert session.read_bytes() == before
    assert run("forget", "--yes", "--backup-dir", "kept", session).exit_code == 0
    assert list(elsewhere.iterdir()) == []


def test_a_backup_dir_in_the_folder_that_is_walked(session: Path) -> None:
    """A journal in it ends like a session, and is none; a session of such a name is one."""
    run("compress", "--backup-dir", "kept", "session.jsonl")
    put(session.parent / "my.refs.jsonl")
    for command in ("compress", "stats", "restore", "verify", "forget"):
        yes = ["--yes"] if command == "forget" else []
        more = yes if command == "forget" else ["-v"]
        said = run(command, *more, "--backup-dir", "kept", ".").stdout
        assert "my.refs.jsonl" in said, command
        assert "session.refs.jsonl" not in said, command


def test_a_backup_dir_that_is_no_text(session: Path) -> None:
    """The bytes of its name are its name; the journal tells them escaped."""
    folder = os.fsdecode(os.fsencode(session.parent) + b"/\xff")
    assert run("compress", "--backup-dir", folder, session).exit_code == 0
    (journal,) = journals_in(Path(folder))
    assert journals.load(journal).runs[0].policy["backupDir"].endswith("\\udcff")
    assert run("restore", "--backup-dir", folder, session).exit_code == 0


def test_a_backup_dir_in_nobodys_home(session: Path) -> None:
    """Exit code 2: it is the policy that is wrong."""
    chosen = policy(session.parent / "p.json", backupDir="~nobody-of-this-name/x")
    for command in ("compress", "restore", "verify"):
        result = run(command, "--config", chosen, session)
        assert result.exit_code == 2
        assert "the policy's backupDir is '~nobody-of-this-name/x', but there is no such home folder." in result.stderr


def test_quiet_seconds(session: Path) -> None:
    """A session that has just changed is refused, an older one is not."""
    Path("own.json").write_text('{"session": {"quietSeconds": 3600}}')
    before = snapshot(session)
    result = run("compress", "--config", "own.json", "session.jsonl")
    assert result.exit_code == 4
    assert re.search(r"it changed \d+ seconds ago\. The session was not changed\. ", result.stderr)
    assert snapshot(session) == before
    old = session.stat().st_mtime - 7200
    os.utime(session, (old, old))
    assert run("compress", "--config", "own.json", "session.jsonl").exit_code == 0


def test_idle_seconds(session: Path) -> None:
    """While its provider may still have it cached a session is skipped, not refused; then it is compressed."""
    before = snapshot(session)
    result = run("compress", "--idle-seconds", "3600", "--force", "session.jsonl")
    assert result.exit_code == 0
    said = r"skipped: it changed \d+ seconds? ago, idleSeconds 3600: its provider may still have it cached"
    assert re.search(said, result.stdout)
    assert snapshot(session) == before
    for years in (-1, 9):
        then = session.stat().st_mtime + years * 366 * 24 * 3600
        os.utime(session, (then, then))
        assert "would become" in run("compress", "--dry-run", "--idle-seconds", "3600", "session.jsonl").stdout


def test_a_dry_run_and_stats_say_what_the_cache_would_lose(session: Path) -> None:
    """Once, with the next request; a run that was made need not say it any more."""
    said = r"the next request would send [1-9][\d,]* of them uncached"
    assert re.search(said, run("compress", "--dry-run", "session.jsonl").stdout)
    assert re.search(said, run("stats", "session.jsonl").stdout)
    assert "uncached" not in run("compress", "session.jsonl").stdout
    assert "uncached" not in run("compress", "--dry-run", "session.jsonl").stdout
