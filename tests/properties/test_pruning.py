"""Runs that prune, end to end: the least saving, the agents' own words, and that nothing is done twice."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sessioncompress import PRESETS, compress_session, show
from sessioncompress.core import marker
from sessioncompress.pipeline.stats import Status
from sessioncompress.policy.model import Policy
from tests.support import texts
from tests.support.build import OmpSession, PiSession
from tests.support.chats import ChatSession, GenCodeSession
from tests.support.documents import OpenCodeExport
from tests.support.runs import (
    EAGER,
    NATIVE,
    PRUNING,
    append,
    compress,
    compress_again,
    entries,
    fixture,
    invoke,
    journal_of,
    old,
    restore,
    result_texts,
    snapshot,
    turn,
    units,
    write,
)

# Of prose head and tail stay: enough that a marker alone gains something.
LOG = "\n".join(texts.prose(random.Random(line)) for line in range(70)) + "\n\n"
ALL = PRUNING.prune

FIXTURES = [
    *("pi-anthropic.jsonl", "pi-compacted.jsonl", "pi-responses.jsonl", "omp.jsonl", "openclaw.jsonl"),
    *("claude-code.jsonl", "claude-compacted.jsonl", "codex.jsonl", "codex-older.jsonl", "gemini.jsonl"),
    *("gemini.json", "gencode.json", "opencode.json", "chat.jsonl", "chat.json"),
]


@pytest.mark.parametrize("policy", [PRUNING, NATIVE], ids=["marker", "native"])
@pytest.mark.parametrize("name", FIXTURES)
def test_every_format_is_pruned_once(tmp_path: Path, name: str, policy: Policy) -> None:
    """To fewer tokens than without; whatever placeholder a later run is to leave, there is nothing for it to do."""
    path = write(tmp_path, fixture(name), name)
    plain = compress_session(path, EAGER, dry_run=True)
    assert compress(path, policy).tokens_after < plain.tokens_after
    for other in (PRUNING, NATIVE, EAGER):
        compress_again(path, other)


@pytest.mark.parametrize("name", ["pi-anthropic.jsonl", "claude-code.jsonl", "codex.jsonl", "gencode.json"])
def test_a_run_that_only_prunes_takes_results_and_their_copies(tmp_path: Path, name: str) -> None:
    """As many as one that does the rest too, and each of them is counted as cleared."""
    path, only = write(tmp_path, fixture(name), name), replace(PRUNING, prune=replace(ALL, only=True))
    whole = compress_session(path, PRUNING, dry_run=True)
    stats = compress(path, only)
    assert stats.tool_results_cleared == stats.tool_results_compressed == whole.tool_results_cleared > 0
    assert whole.tool_results_compressed >= whole.tool_results_cleared
    assert (stats.tool_calls_compressed, stats.thinking_blocks_removed, stats.images_replaced) == (0, 0, 0)
    assert stats.mirrors_replaced <= stats.tool_results_cleared
    compress_again(path, only)
    restore(path)
    assert path.read_bytes() == fixture(name)


@pytest.mark.parametrize("policy", [PRUNING, NATIVE], ids=["marker", "native"])
def test_previews_of_an_earlier_run_go_too(tmp_path: Path, policy: Policy) -> None:
    """To their bare markers, which name the way back whatever the placeholder."""
    made = PiSession()
    made.user("Go.")
    for number in range(6):
        made.step("bash", {"command": f"make {number}"}, f"{LOG}{number}")
    data = old(made)
    path = write(tmp_path, data)
    compress(path, replace(EAGER, preview_share=0.5, preview_max_bytes=8_000))
    assert previews(path) == [True] * 6
    compress(path, policy)
    assert previews(path) == [False] * 6
    assert path.read_bytes().count(b"sessioncompress show ") == 6
    compress_again(path, policy)
    compress_again(path)
    restore(path)
    assert path.read_bytes() == data


def chat(tool: str = "bash", output: Any = LOG) -> bytes:
    return (
        ChatSession()
        .message("user", "Go.")
        .step(tool, {"command": "make"}, output)
        .message("user", "And?")
        .message("assistant", "Done.")
        .bytes()
    )


def gencode(indent: int | None = 2, **marks: Any) -> bytes:
    made = GenCodeSession().message("user", "Go.").step("Bash", {"command": "make"}, LOG)
    made.messages[-1]["content"][0].update(marks)
    return made.message("user", "And?").message("assistant", "Done.").bytes(indent)


def opencode(**state: Any) -> bytes:
    made = OpenCodeExport().user("Go.").assistant().tool("bash", {"command": "make"}, LOG)
    made.messages[-1]["parts"][-1]["state"].update(state)
    return made.user("And?").assistant().part("text", text="Done.").bytes()


def omp(**more: Any) -> bytes:
    made = OmpSession().opening()
    made.user("Go.")
    part = made.call("bash", {"command": "make"})
    made.assistant(part)
    content = [{"type": "text", "text": LOG}]
    made.message("toolResult", toolCallId=part["id"], toolName="bash", content=content, isError=False, **more)
    made.user("And?")
    made.assistant("Done.")
    return made.bytes()


def results(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the objects that hold the text of a result."""

    def found(value: Any) -> Iterator[dict[str, Any]]:
        if isinstance(value, dict):
            if (
                value.get("type") == "tool_result"
                or value.get("role") in ("tool", "toolResult")
                or isinstance(value.get("output"), str)
            ):
                yield value
            for child in value.values():
                yield from found(child)
        elif isinstance(value, list):
            for child in value:
                yield from found(child)

    for raw in units(data):
        yield from found(json.loads(raw))


def native(tmp_path: Path, data: bytes, name: str = "session.jsonl") -> dict[str, Any]:
    path = write(tmp_path, data, name)
    begun = time.time()
    stats = compress(path, NATIVE)
    assert stats.tool_results_compressed == 1
    record = next(each for each in journal_of(path) if each["type"] == "block" and each["kind"] == "result")
    assert show(record["ref"], path)[0].content.decode() == LOG
    compress_again(path, NATIVE)
    compress_again(path, PRUNING)
    compress_again(path)
    (found,) = results(path.read_bytes())
    found["begun"] = int(begun * 1000)
    restore(path)
    assert path.read_bytes() == data
    return found


MARKED = "[[sessioncompress: "


@pytest.mark.parametrize("indent", [None, 2])
def test_gencode_says_so_with_two_marks(tmp_path: Path, indent: int | None) -> None:
    found = native(tmp_path, gencode(indent), "session.json")
    assert found["content"] == "[Old tool result content cleared]"
    assert found["pruned"] is True
    at = datetime.strptime(found["prunedAt"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    assert found["prunedAt"][-5] == "."
    assert 0 <= round(at.timestamp() * 1000) - found["begun"] < 60_000


def test_oh_my_pi_says_how_many_tokens(tmp_path: Path) -> None:
    found = native(tmp_path, omp())
    assert found["content"] == [{"type": "text", "text": f"[Output truncated - {-(-len(LOG) // 4)} tokens]"}]
    assert 0 <= found["prunedAt"] - found["begun"] < 60_000


def test_opencode_has_its_mark_and_the_session_our_marker(tmp_path: Path) -> None:
    """The agent says its words to the model by itself."""
    found = native(tmp_path, opencode(), "session.json")
    assert found["output"].startswith(MARKED)
    assert 0 <= found["time"]["compacted"] - found["begun"] < 60_000


CHATS = [
    (LOG, f"[Tool: bash returned {len(LOG)} chars]"),
    (LOG + "Command exited with code 0", f"[Tool: bash returned {len(LOG) + 26} chars, exit code 0]"),
    ("Exit code: 127\n" + LOG, f"[Tool: bash returned {len(LOG) + 15} chars, exit code 127]"),
    ('{"exit_code": -9, "output": "' + "x " * 900 + '"}', "[Tool: bash returned 1831 chars, exit code -9]"),
    (LOG + "exit code 1\n" + LOG, f"[Tool: bash returned {2 * len(LOG) + 12} chars]"),
    (LOG + "the exit code of nothing", f"[Tool: bash returned {len(LOG) + 24} chars]"),
]


@pytest.mark.parametrize(("output", "expected"), CHATS, ids=[expected for _, expected in CHATS])
def test_a_chat_says_how_much_and_how_it_ended(tmp_path: Path, output: str, expected: str) -> None:
    """The exit code only where the text says one, at its end or above all."""
    path = write(tmp_path, chat(output=output))
    compress(path, NATIVE)
    assert [each["content"] for each in results(path.read_bytes())] == [expected]


HAS_NO_WORDS: list[tuple[str, Callable[[], bytes], str]] = [
    ("a chat whose tool nothing names", lambda: chat().replace(b'"bash"', b'""'), "session.jsonl"),
    ("a mark of gencode that is there", lambda: gencode(pruned=False), "session.json"),
    ("a time of gencode that is there", lambda: gencode(prunedAt=""), "session.json"),
    ("a time of oh-my-pi that is there", lambda: omp(prunedAt=1), "session.jsonl"),
    ("a call of OpenCode without times", lambda: opencode(time=None), "session.json"),
    ("a call of OpenCode that failed", lambda: opencode(status="error"), "session.json"),
    ("a mark of OpenCode that says no", lambda: opencode(time={"start": 1, "compacted": None}), "session.json"),
]


@pytest.mark.parametrize(("scene", "name"), [case[1:] for case in HAS_NO_WORDS], ids=[case[0] for case in HAS_NO_WORDS])
def test_our_marker_where_the_agent_has_no_words(tmp_path: Path, scene: Callable[[], bytes], name: str) -> None:
    path = write(tmp_path, scene(), name)
    before = next(results(scene()))
    compress(path, NATIVE)
    (found,) = results(path.read_bytes())
    assert MARKED in json.dumps(found)
    assert found.keys() == before.keys()
    assert {**found, "content": 0, "output": 0} == {**before, "content": 0, "output": 0}


def chat_of_one_id() -> bytes:
    made = ChatSession().message("user", "Go.")
    for number in range(20):
        made.step("bash", {"command": "make"}, f"{number:02}{LOG}")
    return re.sub(rb"call_[0-9a-f]{24}", b"call_0", made.message("user", "And?").message("assistant", "Done.").bytes())


def gencode_of_one_id() -> bytes:
    made = GenCodeSession().message("user", "Go.")
    for number in range(20):
        made.step("Bash", {"command": "make"}, f"{number:02}{LOG}")
    for message in made.messages[1:]:
        for part in message["content"]:
            part.update({key: "call_0" for key in ("id", "toolUseId") if key in part})
    return made.message("user", "And?").message("assistant", "Done.").bytes(None)


@pytest.mark.parametrize("protected", [0, 2_000])
@pytest.mark.parametrize(
    ("data", "name"),
    [(chat_of_one_id(), "session.jsonl"), (gencode_of_one_id(), "session.json")],
    ids=["chat", "gencode"],
)
def test_our_marker_where_results_go_by_one_id(tmp_path: Path, data: bytes, name: str, protected: int) -> None:
    """An agent's words would make their lines equal: only one could go at a run, and each next run took one more."""
    path = write(tmp_path, data, name)
    policy = replace(NATIVE, prune=replace(NATIVE.prune, prune_protect=protected))
    assert compress(path, policy).tool_results_compressed == 20
    compress_again(path, policy)
    assert path.read_bytes().count(b"sessioncompress show ") == 20
    restore(path)
    assert path.read_bytes() == data


def test_what_opencode_pruned_itself_does_not_count_as_read(tmp_path: Path) -> None:
    """Neither before nor after: the run saves what it saves of the rest."""
    sessions = opencode(), opencode(time={"start": 1, "compacted": 2})
    both = [write(tmp_path, data, f"{number}.json") for number, data in enumerate(sessions)]
    first, second = (compress_session(path, NATIVE, dry_run=True) for path in both)
    assert first.tokens_before - second.tokens_before == len(LOG) // 4
    assert first.tokens_after == second.tokens_after


def saving(path: Path) -> int:
    reason = compress_session(path, least(10**9), dry_run=True).reason
    return int(reason.partition(" tokens (4 characters each)")[0].rpartition(" ")[2].replace(",", ""))


def least(tokens: int) -> Policy:
    return replace(PRUNING, prune=replace(ALL, prune_minimum=tokens))


def test_a_run_that_saves_the_model_too_little_writes_nothing(tmp_path: Path) -> None:
    """By the tokens of the whole run; one that saves exactly so many is done, and force lifts none of it."""
    path = write(tmp_path, fixture("pi-anthropic.jsonl"))
    tokens, left = saving(path), snapshot(path)
    for options in ({}, {"force": True}, {"dry_run": True}):
        stats = compress_session(path, least(tokens + 1), **options)  # type: ignore[arg-type]
        assert stats.status is Status.UNCHANGED
        said = f"it would save the model only {tokens:,} tokens (4 characters each), less than pruneMinimum {tokens + 1:,} (a run without pruning may be worth it)"
        assert stats.reason.partition(";")[0] == said
        assert snapshot(path) == left
    assert compress(path, least(tokens)).tokens_after == compress_session(path, EAGER).tokens_after


def test_a_run_that_saves_much_but_not_the_model_touches_nothing(tmp_path: Path) -> None:
    """Copies for the screen are bytes that no model reads; no folder is left behind either."""
    made = PiSession()
    made.user("Go.")
    made.step("edit", {"path": "a"}, LOG, details={"diff": LOG * 60})
    path = write(tmp_path, turn(made))
    assert compress_session(path, least(10_000)).status is Status.UNCHANGED
    assert list(tmp_path.iterdir()) == [path]
    compress(path, least(1_000))


def test_without_pruning_its_least_saving_counts_for_nothing(tmp_path: Path) -> None:
    """The section may be there, and off."""
    path = write(tmp_path, fixture("pi-anthropic.jsonl"))
    compress(path, replace(EAGER, prune=replace(ALL, enabled=False, prune_minimum=1 << 30)))


def test_the_threshold_decides_as_ever(tmp_path: Path) -> None:
    """A session that is small is not pruned, until so many turns came."""
    path = write(tmp_path, fixture("pi-anthropic.jsonl"))
    large = replace(PRUNING, size_threshold_kb=1 << 20)
    assert compress_session(path, large).status is Status.SKIPPED
    assert compress_session(path, replace(large, every_turns=99)).status is Status.SKIPPED
    compress(path, replace(large, every_turns=1))


def previews(path: Path) -> list[bool]:
    return [not marker.is_one(text) for text in result_texts(entries(path.read_bytes()))]


def test_older_results_come_due_as_the_session_goes_on(tmp_path: Path) -> None:
    """So nothing is finished, and each run reads it from its first line on."""
    policy = replace(PRUNING, prune=replace(ALL, prune_protect=6_000))
    made = PiSession()
    made.user("Go.")
    for number in range(3):
        made.step("bash", {"command": f"make {number}"}, f"{number}\n{LOG}")
    path = write(tmp_path, turn(made))
    compress(path, policy)
    assert "prefix" not in journal_of(path)[-1]
    assert previews(path) == [False, True, True]
    made.user("More.")
    for number in range(3, 5):
        made.step("bash", {"command": f"make {number}"}, f"{number}\n{LOG}")
    made.user("So.")
    append(path, turn(made))
    compress(path, policy)
    assert previews(path) == [False, False, False, True, True]
    compress_again(path, policy)
    restore(path, policy)
    assert path.read_bytes() == made.bytes()


@pytest.mark.parametrize("preset", PRESETS)
def test_the_option_prunes_by_any_preset(tmp_path: Path, preset: str) -> None:
    """As its sections say; the option switches it on and changes nothing else."""
    made = PiSession()
    made.user("Go.")
    made.step("bash", {"command": "make"}, LOG)
    path = write(tmp_path, turn(made, 5))
    run = invoke("compress", "--prune", "--force", "--json", "--preset", preset, path)
    (said,) = json.loads(run.stdout)["files"]
    minimum = PRESETS[preset].prune.prune_minimum
    assert said["status"] == "unchanged"
    assert (
        said["reason"]
        .partition(";")[0]
        .endswith(f"less than pruneMinimum {minimum:,} (a run without pruning may be worth it)")
    )
    (tmp_path / "compression.json").write_text('{"session":{"prune":{"pruneMinimum":0,"pruneProtect":0}}}')
    run = invoke("compress", "--prune-only", "--force", "--json", "--preset", preset, path)
    assert json.loads(run.stdout)["totals"]["toolResultsCompressed"] > 0
    assert {"enabled": True, "only": True}.items() <= journal_of(path)[-1]["policy"]["prune"].items()
