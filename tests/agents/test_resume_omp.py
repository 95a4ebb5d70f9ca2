"""A rewritten session is loaded by oh-my-pi's own loader into the messages that the original gives, only less of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agents import omp
from tests.agents.compacting import SMALL, compacted
from tests.agents.compare import MARKER, context_differences
from tests.agents.installed import need
from tests.agents.sessions import FIXTURES, NO_THRESHOLDS, PRUNED_NATIVE, compressed, of_corpus, rewritten
from tests.support.build import OmpAnthropicSession, png, text
from tests.support.runs import turn

CORPUS_RUNS = [
    ("01a01ae5-8d1a", "little pruned"),  # Responses, with payloads
    ("01a01b67-3441", "little archive pruned"),  # the same, one prompt and three dozen calls
    ("01a0221c-9435", "little archive pruned"),
    ("01a01b95-b852-7001", "little archive pruned"),  # Gemini
    ("01a01d30-1823-7002", "little"),
]


def test_a_rewritten_fixture_is_loaded(tmp_path: Path) -> None:
    check(FIXTURES / "omp.jsonl", "default little archive pruned", tmp_path)


@pytest.mark.parametrize(("name", "ways"), CORPUS_RUNS)
def test_a_rewritten_real_session_is_loaded(name: str, ways: str, tmp_path: Path) -> None:
    check(of_corpus(name), ways, tmp_path)


@pytest.mark.parametrize("name", ["", *(name for name, _ in CORPUS_RUNS[:2])])
def test_what_is_pruned_in_its_own_words_is_loaded(name: str, tmp_path: Path) -> None:
    """The loader takes its mark and its words, and gives all else as it was."""
    need(omp.installed(), "oh-my-pi")
    session = of_corpus(name) if name else FIXTURES / "omp.jsonl"
    original = tmp_path / session.name
    original.write_bytes(session.read_bytes())
    before = omp.context(original, tmp_path)
    after = omp.context(compressed(original, PRUNED_NATIVE), tmp_path)
    pruned = [message for message in after if "prunedAt" in message]
    assert pruned
    for message in pruned:
        assert message["content"][0]["text"].startswith("[Output truncated - ")
        # What the loader gave of it is what it gives of the original, but for the two.
        was = next(each for each in before if each.get("timestamp") == message["timestamp"])
        assert message.pop("prunedAt") > was["timestamp"]
        message["content"] = was["content"]
    assert context_differences(before, after) == []


def output(of: str) -> str:
    return "".join(f"line {number} of {of}\n" for number in range(400))


def test_what_stands_beside_results_is_loaded_smaller(tmp_path: Path) -> None:
    """Files that a prompt names, what the user ran, what an extension said: all else as it was."""
    need(omp.installed(), "oh-my-pi")
    made = OmpAnthropicSession(cwd=str(tmp_path)).opening()
    made.user("Go.")
    made.message("fileMention", files=[{"path": "a.py", "content": output("a file"), "lineCount": 400}])
    for role, given in (("bashExecution", {"command": "make"}), ("pythonExecution", {"code": "print(1)"})):
        ran = {**given, "exitCode": 0, "cancelled": False, "truncated": False}
        made.message(role, **ran, output=output(role))
        made.message(role, **ran, output=output(f"{role} unread"), excludeFromContext=True)
    made.message("hookMessage", customType="gauges", content=output("a hook"), display=True)
    said = {"customType": "gauges", "display": True}
    made.entry("custom_message", **said, content=[text(output("an extension"))], attribution="agent")
    made.entry("custom_message", **said, content=output("the user"), attribution="user")
    for number in range(3):
        made.entry("custom", customType="board", data={"number": number, "items": [output("a state")]})
    original = turn(made, 5).write(tmp_path / "session.jsonl")
    smaller = compressed(original, NO_THRESHOLDS)
    before, after = (json.dumps(omp.context(path, tmp_path)).split('"') for path in (original, smaller))
    changed = [(was, now) for was, now in zip(before, after, strict=True) if was != now]
    assert [was.split("\\n")[0].removeprefix("line 0 of ") for was, _ in changed] == [
        "a file",
        "bashExecution",
        "bashExecution unread",
        "pythonExecution",
        "pythonExecution unread",
        "a hook",
        "an extension",
    ]
    assert all(MARKER in now and len(now) < 1000 for _, now in changed)
    assert smaller.read_bytes().count(b"line 200 of a state") == 1


def test_pictures_of_an_earlier_compaction_are_carried_on(tmp_path: Path) -> None:
    """The model has read the old part in them; a run over the session takes them out of the old entry alone."""
    need(omp.installed(), "oh-my-pi")
    made = OmpAnthropicSession(cwd=str(tmp_path)).opening()
    made.user("Go.")
    made.assistant("I do.")
    frames = [{"data": png(), "mimeType": "image/png", "cols": 9, "rows": 9, "chars": 81} for _ in range(3)]
    kept = made.user("Go on.")
    made.compaction("It is in the pictures.", kept, preserveData={"snapcompact": {"frames": frames, "totalChars": 9}})
    for _ in range(9):
        made.step("bash", {"command": "make"}, output("a command"))
    original = turn(made, 5).write(tmp_path / "session.jsonl")
    found = [omp.context(original, tmp_path)]
    made_smaller = compacted(original, tmp_path / "compacted", SMALL).path
    found.append(omp.context(made_smaller, tmp_path))
    found.append(omp.context(compressed(made_smaller, NO_THRESHOLDS), tmp_path))
    pictures = [[block for block in each[0]["blocks"] if block["type"] == "image"] for each in found]
    assert len(pictures[0]) == 3
    assert pictures[1:] == [pictures[0]] * 2
    assert found[1][0]["summary"] != found[0][0]["summary"]


def check(session: Path, ways: str, folder: Path) -> None:
    need(omp.installed(), "oh-my-pi")
    original = folder / session.name
    original.write_bytes(session.read_bytes())
    before = omp.context(original, folder)
    assert before
    for way in ways.split():
        after = omp.context(rewritten(original, way), folder)
        assert context_differences(before, after) == [], way
        assert len(json.dumps(after)) < len(json.dumps(before)), way
