"""Arguments: same keys, same types, paths and short values; each long text, at any depth, becomes its head and tail."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from sessioncompress.core import marker
from sessioncompress.core.splice import literal
from sessioncompress.formats import values
from sessioncompress.policy.model import Policy
from tests.support import texts
from tests.support.build import GeminiSession, PiSession
from tests.support.runs import EAGER, after, calls, entries, old, turn

SOURCE = texts.python_source(random.Random(1), 20)
Scene = Callable[[], bytes]


def session(arguments: Any, tool: str = "write", made: PiSession | None = None, **extra: Any) -> bytes:
    made = made or PiSession()
    made.user("Go.")
    part = {**made.call(tool, {}), "arguments": arguments, **extra}
    made.assistant(part)
    made.result(part["id"], "ok", tool)
    return old(made)


def one(arguments: Any, policy: Policy = EAGER, **extra: Any) -> Any:
    return calls(after(session(arguments, **extra), policy))[0]["arguments"]


def recent() -> bytes:
    """Return a session whose last turn holds the call."""
    made = turn(PiSession())
    made.user("Go.")
    made.step("write", {"path": "a.py", "content": SOURCE})
    return made.bytes()


LEFT_ALONE: list[tuple[str, Scene]] = [
    ("short", lambda: session({"path": "a.py", "content": "x" * 400})),
    ("in the last turn", recent),
    ("of the tool skill", lambda: session({"name": SOURCE}, "skill")),
    ("many short values", lambda: session({f"k{number}": "x" * 200 for number in range(60)})),
    ("many numbers", lambda: session({"rows": list(range(4000))})),
    ("a long path", lambda: session({"path": "x" * 4000})),
    ("other long paths", lambda: session({"file_path": "x" * 4000, "filePath": "y" * 4000, "cwd": "z" * 4000})),
    ("long paths of Gemini", lambda: session({"absolute_path": "x" * 4000, "dir_path": "y" * 4000})),
    ("a list of long paths", lambda: session({"paths": ["x" * 4000]})),
    ("a long path inside", lambda: session({"edits": [{"path": "x" * 4000}]})),
    ("a thought signature vouches for it", lambda: session({"path": "a", "content": SOURCE}, made=GeminiSession())),
    ("a signature on this call", lambda: session({"path": "a", "content": SOURCE}, thoughtSignature="abc")),
    ("a text instead of an object", lambda: session(SOURCE)),
    ("a list instead of an object", lambda: session([SOURCE])),
    ("null", lambda: session(None)),
    ("a number", lambda: session(7)),
]


@pytest.mark.parametrize("scene", [case[1] for case in LEFT_ALONE], ids=[case[0] for case in LEFT_ALONE])
def test_left_alone(scene: Scene) -> None:
    data = scene()
    assert calls(after(data)) == calls(entries(data))


def outline(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: outline(child) for key, child in value.items()}
    if isinstance(value, list):
        return [outline(child) for child in value]
    return type(value)


ARGUMENTS: list[tuple[str, Any]] = [
    ("a write", {"path": "a.py", "content": SOURCE}),
    (
        "edits",
        {"path": "a.py", "edits": [{"oldText": SOURCE, "newText": SOURCE + "#"}, {"oldText": "x", "newText": SOURCE}]},
    ),
    ("a command", {"command": SOURCE, "timeout": 30, "background": False, "env": None, "rate": 0.5}),
    ("deep", {"a": [[[{"b": {"c": [SOURCE]}}]]]}),
    ("keys of digits", {"0": SOURCE, "1": {"2": SOURCE}}),
    ("an empty key", {"": SOURCE}),
    ("one giant line", {"content": "x" * 50_000}),
    ("escapes", {"content": '\x01\x1b"\\' * 3000}),
    ("CJK", {"content": "漢字\n" * 3000}),
    ("line ends", {"content": "\n" * 3000}),
    ("a path and a text at its side", {"path": "x" * 600, "content": SOURCE}),
]


@pytest.mark.parametrize("limit", [0, 1, 256, 300, 500, 5000])
@pytest.mark.parametrize("arguments", [case[1] for case in ARGUMENTS], ids=[case[0] for case in ARGUMENTS])
def test_keys_and_types_stay(arguments: Any, limit: int) -> None:
    """Each long text is at most the limit, says that the tool received all of it, and names its original."""
    policy = replace(EAGER, tool_call_max_bytes=limit)
    new = one(arguments, policy)
    assert outline(new) == outline(arguments)
    for (path, before), (_, now) in zip(leaves(arguments), leaves(new), strict=True):
        long = isinstance(before, str) and not path.endswith("path") and len(literal(before)) > policy.leaf_limit
        if not long or len(literal(arguments)) <= policy.call_limit:
            assert now == before
            continue
        assert len(literal(now)) <= policy.leaf_limit
        assert len(marker.references(now)) == 1
        assert "; the tool received all of it; do not copy this line]]" in now


def leaves(value: Any, path: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [leaf for key, child in value.items() for leaf in leaves(child, f"{path}/{key}")]
    if isinstance(value, list):
        return [leaf for number, child in enumerate(value) for leaf in leaves(child, f"{path}/{number}")]
    return [(path, value)]


PLACES: list[tuple[str, str, str]] = [
    ("of pi", "oldText", "newText"),
    ("of Claude Code", "old_string", "new_string"),
    ("of an editor tool", "old_str", "new_str"),
    ("of OpenCode", "oldString", "newString"),
]
BEFORE = SOURCE + "LEVEL = 1\n" + SOURCE
AFTER = SOURCE + "LEVEL = quay.level\nRISE = 2\n" + SOURCE


@pytest.mark.parametrize("limit", [300, 500])
@pytest.mark.parametrize("deep", [False, True], ids=["beside the path", "in a list"])
@pytest.mark.parametrize(("first", "second"), [case[1:] for case in PLACES], ids=[case[0] for case in PLACES])
def test_an_edit_shows_what_it_changed(first: str, second: str, deep: bool, limit: int) -> None:
    """Not the lines that both texts have; the markers count every line that is left out."""
    pair = {first: BEFORE, second: AFTER}
    new = one({"path": "a.py", **({"edits": [pair]} if deep else pair)}, replace(EAGER, tool_call_max_bytes=limit))
    new = new["edits"][0] if deep else new
    assert "\nLEVEL = 1\n" in new[first]
    assert "\nLEVEL = quay.level\nRISE = 2\n" in new[second]
    for key, text in pair.items():
        kept = [line for line in new[key].splitlines() if not marker.is_one(line)]
        left = [int(each) for each in re.findall(rf"(\d+) of {len(text.splitlines())} lines", new[key])]
        assert sum(left) + len(kept) == len(text.splitlines())


def test_texts_that_are_no_pair_are_not_compared() -> None:
    """Nor is a text with our own preview of another."""
    alone = one({"path": "a.py", "oldText": BEFORE})
    assert one({"path": "a.py", "oldText": BEFORE, "new_string": AFTER})["oldText"] == alone["oldText"]
    assert one({"path": "a.py", "oldText": BEFORE, "newText": 7})["oldText"] == alone["oldText"]
    assert one({"path": "a.py", "oldText": BEFORE, "newText": alone["oldText"]})["oldText"] == alone["oldText"]


HUNK = "@@\n" + "-the old line\n+the new line\n" * 30
ENVELOPE = "*** Begin Patch\n{}" + HUNK + "{}" + HUNK + "{}" + HUNK + "*** End Patch\n"
HEADINGS: list[tuple[str, tuple[str, str, str]]] = [
    ("updates", ("*** Update File: a.py\n", "*** Update File: b.py\n", "*** Update File: c.py\n")),
    ("all kinds", ("*** Add File: a.py\n", "*** Delete File: b.py\n*** Update File: c.py\n", "*** Move to: d.py\n")),
    ("a diff", ("--- a/a.py\n+++ b/a.py\n", "--- a/b.py\n+++ b/b.py\n", "--- /dev/null\n+++ b/c.py\n")),
]


def named(new: str) -> list[str]:
    """Return what the index of a replacement names; its last line says it."""
    last = new.rsplit("\n", maxsplit=1)[-1]
    return last.removeprefix(marker.INDEX).split(" | ") if last.startswith(marker.INDEX) else []


@pytest.mark.parametrize("headings", [case[1] for case in HEADINGS], ids=[case[0] for case in HEADINGS])
def test_a_patch_keeps_the_names_of_its_files(headings: tuple[str, str, str]) -> None:
    """Those that its beginning does not show stand in the index."""
    patch = ENVELOPE.format(*headings)
    new = one({"input": patch})["input"]
    assert [name for name in "abcd" if f"{name}.py" in patch] == [name for name in "abcd" if f"{name}.py" in new]
    assert named(new)


PATHS = ["/home/x/tide/src/gauge.rs", "/home/x/tide/src/quay.rs", "/home/x/tide/old.rs"]
PATCH = f"*** Begin Patch\n*** Update File: {PATHS[0]}\n{HUNK}*** Add File: {PATHS[1]}\n{HUNK}"
PATCH += f"*** Delete File: {PATHS[2]}\n*** End Patch"
COMMANDS = [f"rg -n gauge_{each} src | head" for each in "abc"]
PROGRAMS: list[tuple[str, str, list[str]]] = [
    ("a patch in a literal", f"const p = {literal(PATCH).decode()};\nawait tools.apply_patch(p);\n", PATHS),
    ("a patch in a template", f"await tools.apply_patch(`{PATCH}`);\n", PATHS),
    (
        "a patch in a list of lines",
        "const p = [\n" + "".join(f"  {literal(line).decode()},\n" for line in PATCH.split("\n")) + "].join('\\n');\n",
        PATHS,
    ),
    ("a patch given to a shell", f"apply_patch <<'EOF'\n{PATCH}\nEOF\n", PATHS),
    ("commands", "".join(f'await tools.exec_command({{cmd:"{each}"}});\n' for each in COMMANDS) + SOURCE, COMMANDS),
    ("quoted keys", "".join(f'tools.exec_command({{"cmd": "{each}"}});\n' for each in COMMANDS) + SOURCE, COMMANDS),
    (
        "words",
        "".join(f'tools.shell({{command: ["bash", "-lc", "{each}"]}});\n' for each in COMMANDS) + SOURCE,
        COMMANDS,
    ),
    ("a constant", f"const cmd = '{COMMANDS[0]}';\ntools.exec_command({{cmd}});\n{SOURCE}", COMMANDS[:1]),
    ("a template", f"tools.exec_command({{cmd: `{COMMANDS[0]} ${{x}}`}});\n{SOURCE}", COMMANDS[:1]),
    ("the first of many lines", f'tools.exec_command({{cmd:"\\n{COMMANDS[0]}\\nls"}});\n{SOURCE}', COMMANDS[:1]),
    ("words of a program", f'tools.shell({{command: ["git", "push", "--force"]}});\n{SOURCE}', ["git push --force"]),
    (
        "patches in a literal and in a template",
        f"f({literal(PATCH.replace(PATHS[1], 'x.rs')).decode()});\nawait tools.apply_patch(`{PATCH}`);\n",
        [PATHS[0], PATHS[2], "x.rs", PATHS[1]],
    ),
    ("an escaped backslash", "tools.exec_command({cmd:\"printf 'a\\\\nb'\"});\n" + SOURCE, ["printf 'a\\\\nb'"]),
]


@pytest.mark.parametrize("case", PROGRAMS, ids=[case[0] for case in PROGRAMS])
@pytest.mark.parametrize("form", ["preview", "reference"])
def test_a_program_keeps_its_commands_and_the_files_of_its_patches(form: str, case: tuple[str, str, list[str]]) -> None:
    _, program, expected = case
    policy = EAGER if form == "preview" else replace(EAGER, preview_share=0, preview_max_bytes=0)
    new = one({"input": program}, policy)["input"]
    assert len(new) < len(program)
    shown = new.partition("[[")[0] + " | ".join(named(new))
    kept = [each for each in expected if each in shown]
    assert kept == (expected if form == "preview" or expected[0] in PATHS else [])


def test_a_patch_in_a_patch_is_text() -> None:
    """Its files are none, and what is behind it stays as it is written."""
    inner = '+TEXT = "*** Begin Patch\\n*** Update File: fake.txt\\n"\n'
    patch = f"*** Begin Patch\n*** Add File: a.py\n{inner}*** Update File: src\\new.py\n@@\n-a\n+b\n*** End Patch"
    assert [name for name, *_ in values.patched(patch)] == ["a.py", "src\\new.py"]


LISTS = [
    ('["git", "commit", "-m", "Drop a; rm b"]', "git commit -m 'Drop a; rm b'"),
    ('["rg", "=>", "src"]', "rg '=>' src"),
    ('["ls"]', "ls"),
    ('["ssh", "-p", "22", "host"]', "ssh -p 22 host"),
    ('["/bin/bash", "-lc", "ls | wc"]', "ls | wc"),
]


@pytest.mark.parametrize(("words", "command"), LISTS)
def test_a_list_of_words_is_one_command(words: str, command: str) -> None:
    """Each word stays one, but of a shell the script counts."""
    assert values.commands(f"tools.shell({{command: [], cmd: [name], command: {words}}})") == [command]


@pytest.mark.parametrize("end", ["\r\n", " \n"])
def test_a_patch_with_other_line_ends_is_no_literal(end: str) -> None:
    """What looks like an escape in it is a path of Windows."""
    patch = f"*** Begin Patch{end}*** Update File: C:\\new\\test.py{end}{HUNK}"
    assert [name for name, *_ in values.patched(patch)] == ["C:\\new\\test.py"]


def test_a_command_that_is_cut_says_so() -> None:
    """It ends between words; of those that begin alike one is named."""
    runs = "".join(f'tools.exec_command({{cmd: "rm -rf {"x" * 50}/a {"y" * 30}/{each}"}});\n' for each in "abc")
    assert named(one({"input": runs + SOURCE})["input"]) == [f"rm -rf {'x' * 50}/a ..."]


def test_many_long_names_of_a_patch_share_their_folder() -> None:
    folder = f"/home/a/{'x' * 60}/"
    names = [f"{each}_{'y' * 20}.py" for each in "abcdefghijklmnopqrstuvwxyz"]
    patch = "*** Begin Patch\n" + "".join(f"*** Update File: {folder}{name}\n@@\n-a\n+b\n" for name in names)
    new = one({"input": patch})["input"]
    assert all(name in new for name in names)
    assert new.count(folder) <= 3
