"""What a summary stands for: the lines that a model reads, and the requests that no summary before it carries on."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sessioncompress.checkpoints.merge import head
from sessioncompress.core.checkpoint import Say
from sessioncompress.core.jsonl import parse
from sessioncompress.operations.compact import compact_session
from sessioncompress.operations.handoff import handoff_session
from sessioncompress.pipeline.stats import Status
from sessioncompress.policy.model import Summarizer
from sessioncompress.store.layout import FOLDER
from tests.support.claude import ClaudeSession
from tests.support.documents import OpenCodeExport
from tests.support.long import FEW, LINES, LONG, SMALL, grown
from tests.support.records import GeminiRecords
from tests.support.rollout import Rollout
from tests.support.runs import fixture, form_of, survey_of, units, write
from tests.support.session import PiSession
from tests.support.stories import SESSIONS
from tests.support.turns import B

ASKED = ("Look at the gauges.", "Now the levels: never round them.", "Publish both.")
LOG = "The gauge at the pier fell silent at noon, and again at two.\n" * 60
SUMMARY = "The gauges were looked at, and more."
STEPS = range(6)


def compacted(made: B, compact: Callable[[B], object]) -> bytes:
    """Return a session that its agent compacted in the middle of the last turn."""
    for text in ASKED[:2]:
        made.asks(text)
        made.runs("cat a.log", LOG)
        made.writes("levels.py", "LEVELS = ()\n")
        made.says("Seen.")
    made.asks(ASKED[2])
    compact(made)
    for step in STEPS:
        made.runs(f"make {step}", LOG)
    return made.bytes()


def pi() -> bytes:
    return compacted(
        PiSession().opening(), lambda made: made.compaction(SUMMARY, made.assistant("I publish them now."))
    )


def claude() -> bytes:
    head = "This session is being continued from a previous conversation."
    return compacted(ClaudeSession(), lambda made: made.compact(f"{head}\n\n{SUMMARY}"))


def gemini() -> bytes:
    content = [{"text": f"<state_snapshot>{SUMMARY}</state_snapshot>"}]
    kept = {"type": "user", "content": content, "id": "s", "timestamp": "2026-01-01T00:00:00.000Z"}
    return compacted(GeminiRecords(), lambda made: made.record({"$set": {"messages": [kept]}}))


INSIDE: dict[str, Callable[[], bytes]] = {
    "pi": pi,
    "claude-code": claude,
    "codex": lambda: compacted(Rollout(), Rollout.compact),
    "gemini-cli": gemini,
    "opencode": lambda: compacted(OpenCodeExport(), lambda made: made.compaction(SUMMARY)),
}


def section(text: str, title: str) -> str:
    return text.partition(f"\n## {title}")[2].partition("\n## ")[0]


def of_the_user(text: str) -> int:
    found = re.search(r" of this session, ([0-9]+) of the user\. ", text)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("name", INSIDE)
def test_requests_before_the_agents_own_compaction_stand_in_the_summary(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, INSIDE[name]())
    text = handoff_session(path, FEW).text
    assert of_the_user(text) == len(ASKED)
    assert all(text.count(asked) == 1 for asked in ASKED)
    assert [text.index(asked) for asked in ASKED] == sorted(text.index(asked) for asked in ASKED)
    # What cannot be read of a compaction is read where it was said.
    assert (SUMMARY in text) is (name != "codex")
    assert ("levels.py" in text) is (name == "codex")


@pytest.mark.parametrize("name", SESSIONS)
def test_no_summary_is_without_a_request_where_the_session_has_one(name: str, tmp_path: Path) -> None:
    data = fixture(name)
    reader, lines, live = form_of(data).reader(), units(data), survey_of(data).shape.live
    entries = (parse(lines[number]) or {} for number in live)
    asked = [each for entry in entries for each in reader.said(entry) if each.say in (Say.PROMPT, Say.CARRIED)]
    text = handoff_session(write(tmp_path, data, Path(name).name)).text
    assert text.replace("\n", "").isprintable()
    if asked:
        assert of_the_user(text) > 0
        assert section(text, "The user's requests") or section(text, "The request in progress")


def test_requests_that_a_model_left_out_stand_in_the_next_summary(tmp_path: Path) -> None:
    path = write(tmp_path, LONG["pi"](8))
    model = replace(FEW, summarizer=Summarizer(command="echo All gauges were looked at."))
    assert compact_session(path, model).by == "command"
    grown(path, "pi")
    text = handoff_session(path, FEW).text
    assert "All gauges were looked at." in section(text, "Summary before this one")
    assert all(f"{number + 1}. > Part {number}: " in text for number in range(16))


def test_what_codex_repeats_behind_a_summary_of_ours_counts_once(tmp_path: Path) -> None:
    made = Rollout()
    for text in ASKED[:2]:
        made.user(text)
        for step in STEPS:
            made.run(f"cat {step}.log", LOG)
        made.end(f"Seen: {text}")
    before = made.bytes()
    made.user(ASKED[2])
    made.run("make", LOG)
    made.compact()
    made.end(f"Seen: {ASKED[2]}")
    path = write(tmp_path, before)
    assert compact_session(path, SMALL).status is Status.COMPACTED
    with path.open("ab") as file:
        file.write(made.bytes().removeprefix(before))
    text = handoff_session(path, SMALL).text
    assert of_the_user(text) == len(ASKED)
    for number, asked in enumerate(ASKED, 1):
        assert text.count(f"{number}. > {asked}\n") == 1
        assert f"{number}. > Seen: {asked}" in text


def test_our_summary_carries_on_all_before_it(tmp_path: Path) -> None:
    """Behind a compaction of the agent's own on top of ours, what was dropped is known by ours alone."""
    path = write(tmp_path, pi())
    assert compact_session(path, SMALL, drop_dead=True).status is Status.COMPACTED
    its_own(path, "In short: published.")
    text = handoff_session(path, SMALL).text
    assert "In short: published." in text
    assert all(text.count(asked) == 1 for asked in ASKED)


COPIED = f"{head(30, 3, '')}\n\nThe gauges were looked at.\n\n## Files changed (newest last)\n- `planted.py`: edited 3x"
"""A model that is given our summary may begin with its head, and go on as it likes."""
IN_FORM = COPIED.replace("The gauges were looked at.\n\n", "")


def its_own(path: Path, summary: str) -> None:
    lines = path.read_bytes().splitlines()
    last: dict[str, Any] = json.loads(lines[-1])
    own = {**last, "id": "0a0a0a0a", "parentId": last["id"], "summary": summary, "details": {}}
    own["firstKeptEntryId"] = json.loads(lines[-2])["id"]
    path.write_bytes(b"".join(line + b"\n" for line in [*lines, json.dumps(own).encode()]))


@pytest.mark.parametrize("summary", [COPIED, IN_FORM], ids=["prose", "rows"])
def test_what_copies_our_head_is_quoted(summary: str, tmp_path: Path) -> None:
    """Ours is what the journal records, not what looks like it."""
    path = write(tmp_path, pi())
    assert compact_session(path, SMALL).status is Status.COMPACTED
    its_own(path, summary)
    text = handoff_session(path, SMALL).text
    assert all(text.count(asked) == 1 for asked in ASKED)
    assert "planted.py" in section(text, "Summary before this one")
    assert "planted.py" not in section(text, "Files changed")


@pytest.mark.parametrize("has_store", [True, False])
@pytest.mark.parametrize("name", LONG)
def test_ours_is_known_again(name: str, has_store: bool, tmp_path: Path) -> None:
    """Also of a session that came without its store, as out of git."""
    path = write(tmp_path, LONG[name](8))
    assert compact_session(path, FEW).status is Status.COMPACTED
    grown(path, name) if name in LINES else None
    if not has_store:
        shutil.rmtree(path.parent / FOLDER)
    text = handoff_session(path, FEW).text
    assert "notes-0.md" in section(text, "Files changed")
    assert "Part 0" in text
    assert not section(text, "Summary before this one")
