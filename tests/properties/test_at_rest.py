"""The preset for sessions that nobody works in: what it alone does, and that it does no more than that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sessioncompress import PRESETS, Status, compress_session, restore_session, verify_session
from sessioncompress.core.marker import is_one
from sessioncompress.core.model import Change, Kind, Treatment
from sessioncompress.pipeline.rewrite import MustStay, rewrite
from tests.support import blocks
from tests.support.build import OmpSession, PiSession
from tests.support.claude import ClaudeSession
from tests.support.documents import OpenCodeExport
from tests.support.rollout import Rollout
from tests.support.runs import after, compress, entries, old, split, turn, view_of, write

ARCHIVE = replace(PRESETS["archive"], size_threshold_kb=0, min_saved_kb=0)
OTHERS = [replace(each, size_threshold_kb=0, min_saved_kb=0) for name, each in PRESETS.items() if name != "archive"]
LONG = "\n".join(f"line {number} of a text that is long enough" for number in range(60))
SKILL = "/home/a/.pi/skills/x/SKILL.md"
Scene = Callable[[], bytes]


def pi(*, details: Any = None, tool: str = "bash", given: Any = None, result: Any = LONG, thinking: str = "") -> bytes:
    """Return a session of pi whose last turn is a step."""
    made = turn(PiSession())
    made.user("Go.")
    made.step(tool, given or {"command": "make"}, result, details=details, thinking=thinking or None)
    return made.bytes()


def omp() -> bytes:
    made = turn(OmpSession().opening())
    made.user("Go.")
    made.step("bash", {"command": "make"}, "done", thinking=LONG)
    return made.bytes()


def claude(add: Callable[[ClaudeSession], object], *, recent: bool = True) -> bytes:
    """Return a session of Claude Code with something in its last turn, or before it."""
    made = ClaudeSession().turn(2)
    made.user("Go.")
    add(made)
    made.respond("Done.")
    return (made if recent else made.turn(2)).bytes()


def codex(add: Callable[[Rollout], object], *, recent: bool = True) -> bytes:
    """Return a rollout with something in its last turn, or before it."""
    made = Rollout().user("Before.").end("Yes.").user("Go.")
    add(made)
    made.end("Done.")
    return (made if recent else made.user("And?").end("So.")).bytes()


def said(role: str, text: str) -> Callable[[Rollout], object]:
    return lambda made: made.message(role, [{"type": "input_text", "text": text}])


SKILLS = f"<skills_instructions>\n{LONG}\n</skills_instructions>"

LEFT_ALONE: list[tuple[str, Scene]] = [
    ("a recent result", pi),
    ("recent arguments", lambda: pi(tool="write", given={"path": "a.py", "content": LONG}, result="done")),
    ("recent thinking", lambda: pi(thinking=LONG)),
    ("a recent image", lambda: pi(result=[blocks.image("A" * 4000)])),
    ("the newest state of an extension", lambda: pi(tool="todo", details={"items": [LONG]}, result="done")),
    ("a recent history that is sent again", omp),
    ("a recent list of skills", lambda: claude(lambda made: made.attachment("skill_listing", content=LONG))),
    ("a recent file before an edit, short", lambda: claude(lambda made: made.step("Edit", {}, "ok", {"a": "short"}))),
    (
        "what the user had waiting",
        lambda: claude(lambda made: made.note("queue-operation", content=LONG), recent=False),
    ),
    ("what a hook says", lambda: claude(lambda made: made.attachment("hook_success", content=LONG), recent=False)),
    ("a recent output of Codex", lambda: codex(lambda made: made.run("ls", LONG))),
    ("Codex's recent list of skills", lambda: codex(said("developer", SKILLS))),
    ("the project's own instructions", lambda: codex(said("developer", "<project>\n" + LONG), recent=False)),
    ("a prompt that looks like a list", lambda: codex(said("user", SKILLS), recent=False)),
    ("Codex's old list of skills, which it would say again", lambda: codex(said("developer", SKILLS), recent=False)),
]


@pytest.mark.parametrize("scene", [case[1] for case in LEFT_ALONE], ids=[case[0] for case in LEFT_ALONE])
def test_left_alone(scene: Scene) -> None:
    """What a model reads of the recent context, what the user said, and what nobody makes anew."""
    data = scene()
    for before, now in zip(entries(data), after(data, ARCHIVE), strict=True):
        # The reasoning of earlier turns goes as ever, with the ids of its response.
        if before.get("payload", {}).get("type") != "reasoning" and "id" not in before.get("payload", {}):
            assert now == before


UNSEEN = "the file before an edit"
MIRRORS: list[tuple[str, Scene, tuple[str, ...]]] = [
    ("pi's details", lambda: pi(tool="edit", details={"diff": LONG}), ("message", "details")),
    (
        "Claude Code's second result",
        lambda: claude(lambda made: made.step("Bash", {"command": "ls"}, LONG, {"stdout": LONG, "stderr": ""})),
        ("toolUseResult", "stdout"),
    ),
    (
        UNSEEN,
        lambda: claude(lambda made: made.step("Edit", {"file_path": "a"}, "ok", {"originalFile": LONG})),
        ("toolUseResult", "originalFile"),
    ),
    (
        "an event of Codex",
        lambda: codex(lambda made: made.mcp("s", "t", {"a": LONG}, LONG)),
        ("payload", "invocation", "arguments"),
    ),
]


def value_at(entry: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        entry = entry.get(step) if isinstance(entry, dict) else None
    return entry


@pytest.mark.parametrize(("name", "scene", "path"), MIRRORS, ids=[case[0] for case in MIRRORS])
def test_recent_mirrors_go(name: str, scene: Scene, path: tuple[str, ...]) -> None:
    """With this preset alone, but for what no screen shows again; what the model reads in that very line stays."""
    data = scene()
    place = next(number for number, entry in enumerate(entries(data)) if value_at(entry, path))
    before, now = entries(data)[place], after(data, ARCHIVE)[place]
    assert value_at(now, path) != value_at(before, path)
    assert now.get("message", {}).get("content") == before.get("message", {}).get("content")
    for policy in OTHERS:
        assert after(data, policy)[place] == (now if name == UNSEEN else before)


def test_nothing_else_of_a_protected_line_can_be_written() -> None:
    """Whoever may have planned it: a change of a text, of a tie, or of a mirror on which thinking hangs."""
    data = pi(details={"diff": LONG}, tool="edit")
    place = len(split(data)) - 1
    view = view_of(data, ARCHIVE)
    mirror, text = (
        next(each for each in view.lines[place].blocks if each.kind is kind) for kind in (Kind.MIRROR, Kind.RESULT)
    )
    change = Change(place, mirror.path, Treatment.REMOVE, mirror.size, mirror)
    bad = (
        Change(place, text.path, Treatment.REFERENCE, text.size, text),
        Change(place, ("message", "toolCallId"), Treatment.SET, 1, value="x"),
        change._replace(group=1),
    )

    def written(changes: list[Change]) -> object:
        return rewrite(split(data)[place], entries(data)[place], changes, view, lambda _: "0" * 12)

    assert written([change]) is not None
    for each in bad:
        with pytest.raises(MustStay, match="protected"):
            written([change, each])


def old_text(lines: list[Any]) -> str:
    """Return the one result, or attachment, that is now a marker and nothing else."""
    texts: list[str] = [part.get("text", "") for entry in lines for part in _parts(entry) if isinstance(part, dict)]
    texts += [str(value_at(entry, ("attachment", "content"))) for entry in lines]
    return next(each for each in texts if is_one(each))


def _parts(entry: Any) -> list[Any]:
    content = value_at(entry, ("message", "content"))
    return content if isinstance(content, list) else []


BARE: list[tuple[str, Scene]] = [
    ("a result", lambda: old(_step("bash", {"command": "make"}, LONG))),
    ("a skill that was read", lambda: old(_step("read", {"path": SKILL}, LONG))),
    ("of the tool skill", lambda: old(_step("skill", {"name": "x"}, LONG))),
    ("a list of skills", lambda: claude(lambda made: made.attachment("skill_listing", content=LONG), recent=False)),
]


def _step(tool: str, given: Any, result: str) -> PiSession:
    made = PiSession()
    made.user("Go.")
    made.step(tool, given, result)
    return made


@pytest.mark.parametrize("scene", [case[1] for case in BARE], ids=[case[0] for case in BARE])
def test_the_reference_alone(scene: Scene) -> None:
    assert "line 0" not in old_text(after(scene(), ARCHIVE))


def test_arguments_without_previews() -> None:
    made = _step("write", {"path": "a.py", "content": LONG}, "done")
    call = next(part for entry in after(old(made), ARCHIVE) for part in _parts(entry) if part["type"] == "toolCall")
    assert call["arguments"]["path"] == "a.py"
    assert is_one(call["arguments"]["content"])


def compressed_before() -> list[bytes]:
    """Return sessions of which another policy takes something, and this one more."""
    made = _step("bash", {"command": "make"}, LONG * 3)
    made.user("Go.")
    made.step("edit", {"path": "a.py"}, "done", details={"diff": LONG})
    rollout = Rollout().user("Before.")
    rollout.run("ls", LONG * 3)
    rollout.end("Yes.")
    rollout.run("cat x/SKILL.md", LONG * 3)
    return [made.bytes(), rollout.user("Go.").end("Done.").bytes()]


@pytest.mark.parametrize("data", compressed_before(), ids=["pi", "codex"])
def test_a_session_that_was_compressed_before_comes_to_rest(tmp_path: Path, data: bytes) -> None:
    """Its previews go too; a second run writes nothing; and it comes back whole."""
    path = write(tmp_path, data)
    compress(path)
    assert b"line 1 " in path.read_bytes()
    assert compress(path, ARCHIVE).status is Status.COMPRESSED
    assert b"line 1 " not in path.read_bytes()
    assert compress_session(path, ARCHIVE).status is Status.UNCHANGED
    assert verify_session(path).unknown_markers == 0
    restore_session(path)
    assert path.read_bytes() == data


def test_the_first_message_of_a_document(tmp_path: Path) -> None:
    """That it is the first shows only what stands before it; its mirror goes like any other's."""
    made = OpenCodeExport().user("Go.", diff=LONG)
    made.assistant().tool("bash", {"command": "ls"}, "ok").finish("stop")
    path = write(tmp_path, made.bytes())
    assert compress(path, ARCHIVE).mirrors_replaced == 1
    assert b"line 1 " not in path.read_bytes()
    restore_session(path)
    assert path.read_bytes() == made.bytes()
