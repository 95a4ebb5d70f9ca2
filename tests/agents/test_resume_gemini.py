"""A rewritten session is resumed by the real Gemini CLI, which sends what it sends after the original, only less."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessioncompress import compress_session
from sessioncompress.core import marker
from sessioncompress.errors import Refused
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.verify import verify_session
from tests.agents import gemini, replies
from tests.agents.bodies import Body, Kind, messages
from tests.agents.compare import differences
from tests.agents.installed import need
from tests.agents.sessions import FIXTURES, LITTLE_PROTECTED, compressed, of_corpus, rewritten
from tests.support import blocks
from tests.support.documents import GeminiDocument

CORPUS_RUNS = [
    ("970c70a7", "little pruned"),  # Gemini 3, a prompt in parts
    ("cdb14b05", "little pruned"),
    ("d0ed8c54", "little"),
    ("914f3c63", "little"),
    ("15f05963", "little"),  # Gemini 2.5
    ("e0f3d3a9", "little"),
]
"""All of ours of which anything can go."""


@pytest.mark.parametrize("session", sorted(FIXTURES.glob("gemini.json*")), ids=lambda path: path.name)
def test_a_rewritten_fixture_is_resumed(session: Path, tmp_path: Path) -> None:
    check(session, "default little archive pruned", tmp_path)


@pytest.mark.parametrize(("name", "ways"), CORPUS_RUNS)
def test_a_rewritten_real_session_is_resumed(name: str, ways: str, tmp_path: Path) -> None:
    check(of_corpus(name), ways, tmp_path)


def test_calls_that_stand_in_the_content_keep_their_signatures(tmp_path: Path) -> None:
    """So newer models' answers are kept: what they hold is sent, and neither `args` nor `thoughts` beside it."""
    document = json.loads((FIXTURES / "gemini.json").read_bytes())
    for number, message in enumerate(document["messages"]):
        if message.get("toolCalls"):
            message["content"] = parts(message, str(number))
    session = tmp_path / "sealed.json"
    session.write_text(json.dumps(document))
    assert signatures(check(session, "little", tmp_path))


def test_what_the_agent_makes_of_an_older_session_is_resumed(tmp_path: Path) -> None:
    """It goes on in records: the document's messages, and each of its own more than once."""
    need(gemini.installed(), f"Gemini CLI {gemini.VERSION}")
    gemini.resume(FIXTURES / "gemini.json", tmp_path / "older")
    check(gemini.copy_in(tmp_path / "older", ".jsonl"), "little", tmp_path)


@pytest.mark.parametrize("name", ["gemini.json", CORPUS_RUNS[0][0]])
def test_what_the_agent_makes_of_a_rewritten_session_finds_its_originals(name: str, tmp_path: Path) -> None:
    """The live file has our markers, in messages that the agent composed, and no journal under its name."""
    need(gemini.installed(), f"Gemini CLI {gemini.VERSION}")
    original = FIXTURES / name if name.endswith(".json") else of_corpus(name)
    session = tmp_path / "session.json"
    session.write_bytes(original.read_bytes())
    smaller = compressed(session, LITTLE_PROTECTED)
    gemini.resume(smaller, tmp_path / "resumed")
    live = smaller.with_suffix(".jsonl")
    live.write_bytes(gemini.copy_in(tmp_path / "resumed", ".jsonl").read_bytes())
    assert marker.PREFIX_BYTES in live.read_bytes()
    assert verify_session(live).markers_of_relatives > 1
    with pytest.raises(Refused, match=r"'sessioncompress restore --from-markers [^ ]+' puts them back"):
        restore_session(live)
    restore_session(live, from_markers=True)
    assert marker.PREFIX_BYTES not in live.read_bytes()


def test_pictures_inside_a_response_go_and_are_named(tmp_path: Path) -> None:
    """So newer models' results hold them; the text that they belong to says what they were."""
    made = GeminiDocument().user("Look.")
    call = made.used("read_file", {"file_path": "/tmp/a.png"}, "Binary content provided (1 item(s)).")
    picture = {"inlineData": {"mimeType": "image/png", "data": blocks.png(160)}}
    call["result"][0]["functionResponse"]["parts"] = [picture]
    made.answer("I look.", call)
    for number in range(5):
        made.user(f"Step {number}.").answer("Done.")
    session = tmp_path / "made.json"
    session.write_bytes(made.bytes())
    sent = json.dumps(check(session, "little", tmp_path))
    assert "(1 item(s)).\\n[[sessioncompress: image/png, " in sent
    assert picture["inlineData"]["data"] not in sent


def test_markers_in_what_the_agent_copied_are_told_of(tmp_path: Path) -> None:
    """It writes the results that it resumed with into lines of its own: the next request has them after a restore, too."""
    need(gemini.installed(), f"Gemini CLI {gemini.VERSION}")
    gemini.resume(FIXTURES / "gemini.json", tmp_path / "older")
    session = tmp_path / "session.jsonl"
    session.write_bytes(gemini.copy_in(tmp_path / "older", ".jsonl").read_bytes())
    there = gemini.placed(session, tmp_path / "resumed")
    assert compress_session(there.session, LITTLE_PROTECTED).is_smaller
    gemini.go_on(there, replies.gemini)
    told = "markers stay that the agent copied: 'restore --from-markers' "
    assert told in restore_session(there.session).reason
    restore_session(there.session, from_markers=True)
    assert marker.PREFIX_BYTES not in there.session.read_bytes()


def parts(message: Any, seed: str) -> list[Any]:
    calls: list[dict[str, Any]] = [
        {"functionCall": {key: call[key] for key in ("id", "name", "args")}} for call in message["toolCalls"]
    ]
    calls[0]["thoughtSignature"] = blocks.signature(seed)
    return [{"text": "What next?", "thought": True}, {"text": message["content"] or "Now."}, *calls]


def check(session: Path, ways: str, folder: Path) -> Body:
    """Compare the requests, and return the one of the session that was rewritten last."""
    need(gemini.installed(), f"Gemini CLI {gemini.VERSION}")
    original = folder / f"original{session.suffix}"
    original.write_bytes(session.read_bytes())
    before = after = gemini.resume(original, folder / "resumed")
    for way in ways.split():
        after = gemini.resume(rewritten(original, way), folder / "resumed")
        assert differences(before.body, after.body) == [], way
        assert signatures(after.body) == signatures(before.body), way
        assert after.size < before.size, way
    return after.body


def signatures(body: Body) -> list[tuple[int, str]]:
    """Return the model's own signatures with their places: here they stay, where other agents may drop them.

    Without thoughts the agent leaves its placeholder out too. It needs none there: the API asks for signatures from
    the last prompt on, where the agent puts them in whatever a session holds.
    """
    held = ((number, part) for number, message in enumerate(messages(body)) for part in message.parts)
    found = [(number, part.signature) for number, part in held if part.kind is not Kind.THINKING and part.signature]
    return [(number, signature) for number, signature in found if signature != gemini.PLACEHOLDER]


def test_damage_to_a_session_is_seen(tmp_path: Path) -> None:
    """What Gemini CLI mends by itself, it mends in the open: here a call without its result."""
    need(gemini.installed(), f"Gemini CLI {gemini.VERSION}")
    original = FIXTURES / "gemini.json"
    document = json.loads(original.read_bytes())
    call = next(call for message in document["messages"] for call in message.get("toolCalls", ()))
    call["result"] = None
    damaged = tmp_path / "damaged.json"
    damaged.write_text(json.dumps(document))
    before = gemini.resume(original, tmp_path / "resumed")
    after = gemini.resume(damaged, tmp_path / "resumed")
    assert differences(before.body, after.body) != []
