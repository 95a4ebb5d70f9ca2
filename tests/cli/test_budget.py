"""`budget`, and `compress` by other rules than size: output, JSON, exit codes, and that it writes nothing."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from sessioncompress.cli import sessions
from sessioncompress.pipeline.stats import BudgetStats
from tests.support import texts
from tests.support.build import PiSession, dice
from tests.support.commands import document, one, policy, run
from tests.support.long import gencode
from tests.support.runs import FIXTURES, append, fixture, snapshot, split, turn, write

FIELDS = {
    *("path", "format", "model", "limitsFrom", "rule", "decision", "reason", "tokens", "tokensEstimated"),
    *("tokensRecorded", "recordedIsStale", "contextWindow", "outputLimit", "usable", "utilisation", "messages"),
    *("messagesSince", "secondsSince"),
}
STATS = BudgetStats(
    "s.jsonl",
    "pi",
    "omp",
    "none",
    "5 tokens in use are within the threshold of 9",
    tokens=5,
    tokens_estimated=4,
    context_window=10,
    usable=9,
    limits_from="table",
    model="m",
    messages=1,
)
HEAD = "s.jsonl: 50 % of the window in use, 5 of 10 tokens ({}); "
WHY = "none: 5 tokens in use are within the threshold of 9; rule omp; "
LINES = [
    (STATS, "m, from our table", "9 usable, estimated, none recorded, 1 message"),
    (
        replace(STATS, tokens_recorded=5, limits_from="session", messages=1200, usable=10),
        "m, from the session",
        "5 recorded, 4 estimated, 1,200 messages",
    ),
    (
        replace(STATS, tokens_recorded=8, recorded_is_stale=True, limits_from="policy", messages_since=0),
        "m, from the policy",
        "9 usable, estimated, 8 recorded before the last run or compaction, 1 message, 0 since the last run",
    ),
    (
        replace(STATS, model="", limits_from="fallback", messages_since=3, seconds_since=4000.4),
        "assumed, since the model is unknown",
        "9 usable, estimated, none recorded, 1 message, 3 since the last run 4,000 seconds ago",
    ),
    (replace(STATS, model="m\x1b[31m"), "m\\x1b[31m, from our table", "9 usable, estimated, none recorded, 1 message"),
]


@pytest.mark.parametrize(("stats", "window", "expected"), LINES)
def test_the_line_of_a_session(stats: BudgetStats, window: str, expected: str) -> None:
    """How full the window is, the decision and why, then the numbers behind both."""
    assert sessions.budget_line(stats) == HEAD.format(window) + WHY + expected


def much(made: PiSession, turns: int) -> PiSession:
    for number in range(turns):
        made.user(f"Part {number}.")
        made.step("bash", {"command": f"make {number}"}, texts.log_lines(dice("budget", number), 120))
    return made


def long(folder: Path, name: str = "session.jsonl") -> Path:
    return write(folder, turn(much(PiSession(), 30), 5), name)


def test_budget_says_what_is_due_and_changes_nothing(tmp_path: Path) -> None:
    """Exit 1 where something is, 0 where nothing is."""
    path = long(tmp_path)
    before = snapshot(path)
    due = run("budget", path)
    assert due.exit_code == 1
    assert re.match(
        r".* tokens \(.*\); compress: the file is over its threshold: [\d,]+ KB, sizeThresholdKB 100;", due.stdout
    )
    none = run("budget", "--rule", "gencode", path)
    assert none.exit_code == 0
    assert " tokens in use are within the 168,000 usable; rule gencode; " in none.stdout
    assert snapshot(path) == before


def test_a_document_for_others_to_build_on(tmp_path: Path) -> None:
    """Every field, also of several files; a bad one is an error and stops no other."""
    long(tmp_path)
    (tmp_path / "no.jsonl").write_text("nothing\n")
    found = run("budget", "--json", tmp_path / "session.jsonl", tmp_path / "no.jsonl")
    told = json.loads(found.stdout)
    assert found.exit_code == 4
    assert told["schema"] == "sessioncompress.budget/1"
    good, bad = told["files"]
    assert set(good) == FIELDS
    assert (bad["path"], bad["status"]) == (str(tmp_path / "no.jsonl"), "refused")
    assert bad["reason"].startswith(f"{tmp_path / 'no.jsonl'}: ")
    assert "refused: " in found.stderr


def test_a_total_over_a_folder(tmp_path: Path) -> None:
    long(tmp_path)
    write(tmp_path, PiSession().bytes(), "small.jsonl")
    due, *_, total = run("budget", tmp_path).stdout.splitlines()
    assert re.match(r".*/session\.jsonl: [0-9]+ % of the window; compress: the file is over its threshold: ", due)
    assert re.fullmatch(r"total: 2 sessions: 1 none, 1 compress; the fullest has [0-9]+ % of its window in use", total)


def test_what_is_half_full_is_listed_though_nothing_is_due(tmp_path: Path) -> None:
    """A folder is asked about to see which of its sessions will soon not fit."""
    path = long(tmp_path)
    write(tmp_path, PiSession().bytes(), "small.jsonl")
    config = tmp_path / "policy.json"
    for window, number in ((100_000, 1), (1_000_000, 0)):
        models = [{"pattern": "*", "contextWindow": window, "outputLimit": 8192}]
        config.write_text(json.dumps({"session": {"sizeThresholdKB": 10_000, "budget": {"models": models}}}))
        said = run("budget", "--config", config, tmp_path).stdout
        assert len(re.findall(f"{re.escape(str(path))}: [0-9]+ % of the window; none: ", said)) == number


@pytest.mark.parametrize("rule", ["size", "gencode", "omp", "eunice", "deliberate"])
def test_every_fixture_can_be_judged_by_every_rule(rule: str) -> None:
    """None fails, whatever its format; each names its model or says that it is not known."""
    names = [path for path in sorted(FIXTURES.iterdir()) if path.suffix in {".jsonl", ".json"}]
    judged = [path for path in names if not path.name.startswith("look-alike")]
    for each in document("budget", "--rule", rule, *judged)["files"]:
        assert each["rule"] == rule
        assert (each["limitsFrom"] == "fallback") or each["model"]
        assert 0 < each["usable"] <= each["contextWindow"]


def test_after_a_run_what_was_recorded_is_stale(tmp_path: Path) -> None:
    """Until the agent has answered again; and nothing is due any more."""
    path = long(tmp_path)
    before = one("budget", path)
    assert not before["recordedIsStale"]
    assert before["messagesSince"] is None
    assert run("compress", path).exit_code == 0
    after = one("budget", path)
    assert after["recordedIsStale"]
    assert after["tokensRecorded"] == before["tokensRecorded"]
    assert after["tokens"] == after["tokensEstimated"] < before["tokensEstimated"]
    assert (after["decision"], after["messagesSince"]) == ("none", 0)
    assert after["secondsSince"] >= 0
    assert after["messages"] == before["messages"]


def test_a_rule_of_tokens_decides_whether_a_run_acts(tmp_path: Path) -> None:
    """Neither the size of the file nor its threshold count then; --force lifts the rule as it lifts the threshold."""
    path = long(tmp_path)
    before = snapshot(path)
    result = run("compress", "--rule", "omp", path)
    assert result.exit_code == 0
    assert " tokens in use are within the threshold of 170,000 (rule omp)" in result.stdout
    assert "skipped" in result.stdout
    assert snapshot(path) == before
    assert "smaller" in run("compress", "--rule", "omp", "--force", path).stdout


def test_a_small_file_is_compressed_where_its_rule_says_so(tmp_path: Path) -> None:
    made = PiSession()
    made.user("Go.")
    made.step("bash", {"command": "make"}, texts.log_lines(dice("small"), 400))
    path = write(tmp_path, turn(made, 5))
    assert path.stat().st_size < 100 * 1024
    policy(tmp_path / "compression.json", budget={"rule": "omp", "thresholdTokens": 10}, prune={"pruneMinimum": 0})
    assert "smaller" in run("compress", path).stdout


def test_the_model_of_a_document_without_notes_is_known(tmp_path: Path) -> None:
    """Its window counts, not the one assumed of a model that nobody names."""
    told = one("budget", write(tmp_path, gencode(1), "session.json"))
    assert (told["model"], told["contextWindow"], told["tokensRecorded"]) == ("claude-sonnet-4-5", 200_000, None)


def test_a_later_turn_is_judged_by_what_came_since(tmp_path: Path) -> None:
    """The second run reads only what follows the first one's part, and counts messages on from it."""
    made = turn(much(PiSession(), 30), 5)
    path = write(tmp_path, made)
    total = one("budget", path)["messages"]
    assert run("compress", path).exit_code == 0
    append(path, much(made, 7))
    deliberate = ("--rule", "deliberate")
    told = one("budget", *deliberate, path)
    assert (told["messages"], told["messagesSince"]) == (total + 21, 21)
    assert "only 21 messages" in told["reason"] or "under actTokens" in told["reason"]
    log = tmp_path / "log"
    assert run("compress", "--log", log, path).exit_code == 0
    line = json.loads(log.read_bytes())
    assert line["messagesSince"] == 21
    assert line["messagesPreserved"] + line["messagesChanged"] == total + 21
    assert one("budget", path)["messagesSince"] == 0


def test_a_message_that_goes_on_behind_a_run_counts_once(tmp_path: Path) -> None:
    """Claude Code writes one answer in several lines, and a run may come between them."""
    lines = split(fixture("claude-agent.jsonl"))
    path = write(tmp_path, b"".join(lines[:17]))
    options = ("--force", "--keep-turns", "1", "--protect-tokens", "3000")
    assert run("compress", *options, path).exit_code == 0
    with path.open("ab") as file:
        file.write(lines[17])
    log = tmp_path / "log"
    assert run("compress", "--log", log, *options, path).exit_code == 0
    told = json.loads(log.read_bytes())
    assert told["messagesPreserved"] + told["messagesChanged"] == one("budget", path)["messages"] == 11


def test_what_names_no_model_is_judged_by_all_of_it(tmp_path: Path) -> None:
    """What came since the last run may be a prompt alone; its model's window stands in what that run finished."""
    made = much(PiSession(), 30)
    made.user("Done?")
    path = write(tmp_path, made)
    options = ("--keep-turns", "1", "--rule", "omp")
    assert run("compress", "--force", *options, path).exit_code == 0
    made.user("And now?")
    append(path, made)
    log = tmp_path / "log"
    assert run("compress", "--log", log, *options, path).exit_code == 0
    assert (
        json.loads(log.read_bytes())["contextWindow"]
        == one("budget", "--rule", "omp", path)["contextWindow"]
        == 200_000
    )


def test_a_log_tells_of_each_session_that_was_opened(tmp_path: Path) -> None:
    """One line each, appended; none by default, none of a dry run, none of what was not opened."""
    path, log = long(tmp_path), tmp_path / "runs.log"
    assert run("compress", "--dry-run", "--log", log, path).exit_code == 0
    assert not log.read_bytes() if log.exists() else True
    assert run("compress", "--log", log, path).exit_code == 0
    assert run("compress", "--log", log, path).exit_code == 0
    assert run("compress", "--force", "--log", log, path).exit_code == 0
    lines = [json.loads(line) for line in log.read_bytes().splitlines()]
    assert [line["status"] for line in lines] == ["compressed", "unchanged"]
    first = lines[0]
    assert first["schema"] == "sessioncompress.log/1"
    assert (first["rule"], first["decision"]) == ("size", "compress")
    assert first["trigger"].startswith("the file is over its threshold")
    assert first["tokensBefore"] > first["tokensAfter"] > 0
    assert first["messagesChanged"] > 0
    assert first["messagesPreserved"] > 0
    assert first["messagesSince"] is None
    assert first["secondsSince"] is None
    assert 0 < first["utilisation"] < 1
    assert first["safetyValve"] is False
    assert first["thresholds"]["sizeThresholdKB"] == 100
    assert first["thresholds"]["prune"]["pruneMinimum"] == 20_000
    assert first["thresholds"]["budget"]["rule"] == "size"
    assert log.stat().st_mode & 0o777 == 0o600


NO_LOGS = {
    "a session": b'{"type":"session","version":3}\n',
    "a policy": b'{"session": {}}',
    "text": b"notes\n",
    "a line of ours cut off": b'{"schema":"sessioncompress.l',
    "a line of ours behind another": b'\n{"schema":"sessioncompress.log/1","at":""}\n',
}


@pytest.mark.parametrize("name", NO_LOGS)
def test_nothing_is_added_to_what_is_no_log(tmp_path: Path, name: str) -> None:
    """A glob behind --log names a session; neither it nor the others are touched."""
    path, other = long(tmp_path), tmp_path / "other.jsonl"
    other.write_bytes(NO_LOGS[name])
    before = snapshot(path)
    result = run("compress", "--log", other, path)
    assert result.exit_code == 3
    assert f"it is not a log of sessioncompress: nothing was added to it. {path} was not changed. " in result.stderr
    assert other.read_bytes() == NO_LOGS[name]
    assert snapshot(path) == before
    itself = run("compress", "--log", path, path)
    assert itself.exit_code == 3
    assert snapshot(path) == before


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["a folder", "a pipe"])
def test_a_log_is_a_file(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """Nobody is waited for, and nothing is written."""
    path, log = long(tmp_path), tmp_path / "log"
    make(log)
    assert run("compress", "--log", log, path).exit_code == 3


@pytest.mark.parametrize("target", ["log", "none"])
def test_a_log_is_no_link(tmp_path: Path, target: str) -> None:
    """To a log or to nothing: what it leads to may be anything tomorrow."""
    path, link = long(tmp_path), tmp_path / "link"
    (tmp_path / "log").touch()
    link.symlink_to(target)
    result = run("compress", "--log", link, path)
    assert result.exit_code == 3
    assert f"link: it is a symbolic link: nothing was added to it. {path} was not changed. " in result.stderr
    assert (tmp_path / "log").read_bytes() == b""
    assert not (tmp_path / "none").exists()


def test_a_log_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder that all may write to, another's file may wait under the name."""
    path, log = long(tmp_path), tmp_path / "log"
    log.touch()
    owner = log.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    result = run("compress", "--log", log, "--config", policy(tmp_path / "p.json"), path)
    assert result.exit_code == 3
    assert f"log: it belongs to another user: nothing was added to it. {path} was not changed. " in result.stderr


BREAKS = ["\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\n$(touch x)\n", "'; x #", "\x1b]0;x\x07"]


@pytest.mark.parametrize("text", BREAKS)
def test_no_text_begins_a_line_of_a_log(tmp_path: Path, text: str) -> None:
    """For whoever reads it, with whatever idea of a line; as JSON it is the text."""
    path, log = long(tmp_path, f"a{text}b.jsonl".replace("/", "")), tmp_path / "log"
    models = [{"pattern": f"{text}*", "contextWindow": 1, "outputLimit": 1}]
    policy(tmp_path / "compression.json", budget={"models": models})
    assert run("compress", "--log", log, path).exit_code == 0
    said = log.read_bytes().decode()
    assert said.splitlines() == [said.removesuffix("\n")]
    assert said[:-1].isprintable()
    assert json.loads(said)["thresholds"]["budget"]["models"] == models
    assert json.loads(said)["path"] == str(path)


def test_where_the_rules_pruning_would_save_too_little_a_run_does_what_it_does_without(tmp_path: Path) -> None:
    """The rule asked for it, not the user, whose least saving counts where he asks himself."""
    path = long(tmp_path)
    budget = {"rule": "omp", "thresholdTokens": 10}
    policy(tmp_path / "compression.json", budget=budget, prune={"pruneMinimum": 10**6})
    asked = run("compress", "--prune", "--dry-run", path).stdout
    assert "less than pruneMinimum 1,000,000 (a run without pruning may be worth it)" in asked
    assert "smaller" in run("compress", path).stdout


def test_a_session_that_the_policy_lets_alone_has_nothing_due(tmp_path: Path) -> None:
    path = long(tmp_path)
    policy(tmp_path / "compression.json", enabled=False)
    result = run("budget", path)
    assert result.exit_code == 0
    assert "none: switched off by the policy (enabled: false)" in result.stdout


def test_a_log_named_by_a_policy_counts_from_the_session(tmp_path: Path) -> None:
    path = long(tmp_path)
    file = policy(tmp_path / "mine.json", logFile="runs.log")
    assert run("compress", "--config", file, path).exit_code == 0
    assert len((tmp_path / "runs.log").read_bytes().splitlines()) == 1


def test_a_log_that_cannot_be_written_stops_the_run_before_it_begins(tmp_path: Path) -> None:
    """Nobody who wants a record wants runs without one."""
    path = long(tmp_path)
    before = snapshot(path)
    result = run("compress", "--log", tmp_path / "nowhere" / "log", path)
    assert result.exit_code == 3
    assert f"no such file or directory. {path} was not changed. " in result.stderr
    assert snapshot(path) == before


def test_a_name_that_is_no_utf8_is_logged(tmp_path: Path) -> None:
    path = long(tmp_path, "a\udcff.jsonl")
    assert run("compress", "--log", tmp_path / "log", path).exit_code == 0
    assert json.loads((tmp_path / "log").read_bytes())["path"].endswith("a\\udcff.jsonl")


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["omp", "eunice"])
def test_every_real_session_can_be_judged(rule: str) -> None:
    """None fails; most name their model, and a failure of the newest answer is never taken for its usage."""
    corpus = FIXTURES.parent.parent / "shared" / "corpus"
    if not corpus.is_dir():
        pytest.skip("no real sessions in ../shared/corpus")
    result = run("budget", "--json", "--rule", rule, corpus)
    assert result.exit_code in {0, 1}
    judged = json.loads(result.stdout)["files"]
    assert len(judged) == sum(path.suffix in {".jsonl", ".json"} for path in corpus.rglob("*"))
    assert sum(each["tokensRecorded"] is not None for each in judged) > len(judged) * 0.9
    assert all(each["tokens"] <= 2 * each["contextWindow"] for each in judged)


def test_what_no_run_would_change_is_not_due(here: Path) -> None:
    """However large: whoever runs `budget` before `compress` would never come to rest."""
    made = PiSession().opening()
    for number in range(60):
        made.user(" ".join(texts.python_source(dice("asked", number), 4).split()))
        made.assistant("So be it.")
    path = write(here, made)
    assert path.stat().st_size > 100 * 1024
    assert run("compress", path).stdout.endswith(": unchanged: nothing worth removing\n")
    result = run("budget", path)
    assert result.exit_code == 0
    assert "none: the file is over its threshold" in result.stdout
    assert "but compress would change nothing: nothing worth removing; rule size" in " ".join(result.stdout.split())
