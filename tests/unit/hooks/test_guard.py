"""What the guard lets through, and what it refuses with the way back; which markers something beside the session knows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.core.marker import PREFIX
from sessioncompress.errors import SessionCompressError
from sessioncompress.hooks import guard
from sessioncompress.hooks.guard import known
from sessioncompress.store.layout import journals_in, store_in
from tests.support.runs import fixture
from tests.unit.hooks.calls import INVENTED, call, compressed, markers

REF = "sessioncompress show 0123456789ab"

NEW: dict[str, tuple[Any, list[str]]] = {
    "nothing": (None, []),
    "no text": ({"n": 1, "flag": True}, []),
    "a text": ({"content": "the level"}, []),
    "a command to see an original": ({"command": REF}, []),
    "the beginning of one": ({"content": PREFIX}, []),
    "one without its end": ({"content": INVENTED[:-2]}, []),
    "one over two lines": ({"content": INVENTED.replace(", ", ",\n")}, []),
    "one that a pattern means": ({"command": r"grep '\[\[sessioncompress: .*\]\]' notes"}, []),
    "one that only goes": ({"old_string": INVENTED, "new_string": "the level"}, []),
    "one that stays": ({"old_string": f"a {INVENTED}", "new_string": f"b {INVENTED}"}, []),
    "one that stays, of pi": ({"edits": [{"oldText": INVENTED, "newText": INVENTED}]}, []),
    "one that stays, of Copilot CLI": ({"old_str": f"a {INVENTED}", "new_str": f"b {INVENTED}"}, []),
    "one that stays, of OpenCode": ({"oldString": f"a {INVENTED}", "newString": f"b {INVENTED}"}, []),
    "one": ({"content": INVENTED}, [INVENTED]),
    "one inside a line": ({"content": f"x = '{INVENTED}'"}, [INVENTED]),
    "one that a patch adds": ({"command": f"*** Begin Patch\n*** Add File: x\n+{INVENTED}\n"}, [INVENTED]),
    "one that a patch removes": ({"patchText": f"*** Begin Patch\n@@\n-{INVENTED}\n+x\n"}, []),
    "one that a patch passes": ({"command": f"\n*** Begin Patch\n@@ f\n {INVENTED}\n+x\n"}, []),
    "one that a patch moves": ({"command": f"*** Begin Patch\n@@\n-{INVENTED}\n+y\n+{INVENTED}\n"}, []),
    "one twice": ({"content": INVENTED + INVENTED}, [INVENTED]),
    "one in an edit": ({"old_string": "a", "new_string": INVENTED}, [INVENTED]),
    "one in the second edit": ({"edits": [{"newText": "a"}, {"oldText": "b", "newText": INVENTED}]}, [INVENTED]),
    "one in a cell": ({"new_source": INVENTED}, [INVENTED]),
    "one in a script": ({"command": f"cat > x <<'END'\n{INVENTED}\nEND"}, [INVENTED]),
    "one in a list of texts": ({"lines": ["a", INVENTED]}, [INVENTED]),
    "one in JSON in a text": ({"content": json.dumps({"a": json.dumps({"b": INVENTED})})}, [INVENTED]),
    "one that names no original": (
        {"content": "[[sessioncompress: 3 lines, 40 bytes]]"},
        ["[[sessioncompress: 3 lines, 40 bytes]]"],
    ),
}


@pytest.mark.parametrize(("given", "found"), NEW.values(), ids=NEW.keys())
def test_new_markers(given: Any, found: list[str]) -> None:
    assert guard.new_markers(given) == found


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # The first run of a process makes a key there; what the guard leaves is looked for elsewhere.
    made = compressed(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return made


def denied(said: bytes) -> str:
    """Return the reason, which Gemini CLI reads in another place."""
    answer = json.loads(said)
    why: str = answer["reason"]
    inner = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": why}
    assert answer == {"decision": "block", "reason": why, "hookSpecificOutput": inner}
    return why


def test_a_known_marker_is_refused_with_the_way_back(session: Path) -> None:
    found = markers(session)[0]
    ref = found.rpartition("show ")[2][:12]
    assert f"`sessioncompress show {ref} --all`" in denied(guard.answer(call(session, content=f"a\n{found}\nb\n")))


def test_a_changed_copy_of_it_too(session: Path) -> None:
    """A model copies inexactly; the reference is what counts."""
    ref = markers(session)[0].rpartition("show ")[2][:12]
    copy = f"[[sessioncompress: 1 line, kept on disk: sessioncompress show {ref}; the rest of it]]"
    assert f"show {ref} " in denied(guard.answer(call(session, command=f"echo '{copy}'")))


@pytest.mark.parametrize("named", [True, False], ids=["session", "no session"])
def test_an_unknown_marker_passes_and_is_noted(session: Path, tmp_path: Path, named: bool) -> None:
    assert guard.answer(call(session if named else None, content=INVENTED)) == b""
    assert f"{INVENTED}\n" in (tmp_path / "state" / "sessioncompress" / "hook.log").read_text()


def test_without_a_session_what_show_finds_from_here_is_refused(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenCode names none; beside an export of its own, and below, the original is found, and elsewhere it is not."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    found = markers(session)[0]
    (tmp_path / "project").mkdir()
    (tmp_path / "state").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    assert "`sessioncompress show " in denied(guard.answer(call(None, content=found)))
    store_in(session).originals.unlink()
    assert "`sessioncompress show " in denied(guard.answer(call(None, content=found))), "named, and cannot be read"
    store_in(session).journal.unlink()
    assert guard.answer(call(None, content=found)) == b""


def test_an_ordinary_call_leaves_no_trace(session: Path, tmp_path: Path) -> None:
    assert guard.answer(call(session, content="the level\n" * 100)) == b""
    assert guard.answer(b"") == b""
    assert not (tmp_path / "state").exists()


def test_those_of_sessions_elsewhere_are_not(tmp_path: Path) -> None:
    """They name no original here; and without anything beside the session, none is known."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    session = here / "session.jsonl"
    session.write_bytes(fixture("claude-code.jsonl"))
    assert known(markers(compressed(there)), session) == []


def test_under_a_policy_with_an_error(tmp_path: Path) -> None:
    """Every run says what is wrong with it; the guard goes by where most have what lies beside."""
    session = compressed(tmp_path)
    (tmp_path / "compression.json").write_text('{"session": {"protectToken": 1}}')
    assert known([INVENTED, *markers(session)[:1]], session) == markers(session)[:1]


def test_one_that_names_no_original_if_a_run_put_it_there(tmp_path: Path) -> None:
    session = compressed(tmp_path, keep_backup=False)
    ours = markers(session)[0]
    assert "show" not in ours
    assert known([ours], session) == [ours]


def test_one_that_names_no_original_passes_where_the_agent_wrote_it(tmp_path: Path) -> None:
    """The call that is about to run stands in the session already: that line is none of ours."""
    session = compressed(tmp_path, keep_backup=False)
    quoted = "[[sessioncompress: 77 lines, 9.9 KB]]"
    with session.open("a", encoding="utf-8") as file:
        file.write(f'{{"type":"user","text":"{quoted}"}}\n')
    assert known([quoted], session) == []


def test_a_damaged_journal_is_an_error_only_where_it_must_be_read(tmp_path: Path) -> None:
    session = compressed(tmp_path)
    (journal,) = journals_in(tmp_path)
    journal.write_bytes(b"[]\n" + journal.read_bytes())
    assert known(markers(session)[:1], session) == markers(session)[:1]
    assert known(["[[sessioncompress: 77 lines, 9.9 KB]]", *markers(session)[:1]], session) == markers(session)[:1]
    with pytest.raises(SessionCompressError):
        known(["[[sessioncompress: 77 lines, 9.9 KB]]"], session)
