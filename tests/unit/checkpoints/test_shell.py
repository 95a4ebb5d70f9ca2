"""What a call runs, changes and reads."""

from __future__ import annotations

from typing import Any

import pytest

from sessioncompress.checkpoints import shell
from sessioncompress.formats import values

_PATCH = "*** Begin Patch\n*** Add File: a/new.py\n+x = 1\n*** Update File: b.py\n*** Move to: c.py\n@@\n-y\n+z\n"
_PATCH += "*** Delete File: d.py\n*** End Patch"


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ({"command": "make test"}, ["make test"]),
        ({"cmd": "cd /a/b && make test"}, ["make test"]),
        ({"cmd": "cd /a/b"}, ["cd /a/b"]),
        ({"command": ["bash", "-lc", "make test"]}, ["make test"]),
        ({"command": ["make", "test"]}, ["make test"]),
        ({"command": "# first\nmake\nmake test"}, ["make [...]"]),
        (
            {"input": 'await tools.exec_command({cmd: "ls \\"a b\\"", yield: 1}); f({"cmd": "make"})'},
            ['ls "a b"', "make"],
        ),
        ({"input": "await tools.exec_command({cmd: 'make'})"}, ["make"]),
        ({"input": "await tools.exec_command({cmd: `make ${x}`})"}, []),
        ({"command": 7, "cmd": ""}, []),
        ({"command": [7, None]}, []),
    ],
)
def test_commands_are_found_in_a_call(given: dict[str, Any], lines: list[str]) -> None:
    """As a text, as words, or in a program that calls tools."""
    assert [each.line for each in shell.commands_in(given, is_command=True)] == lines


@pytest.mark.parametrize(
    ("command", "changed", "read"),
    [
        ("echo x > a.txt", [("a.txt", "written")], []),
        ("echo x >> out/log 2>&1", [("out/log", "written")], []),
        ("make > /dev/null 2> /tmp/err.log", [], []),
        ("cat > a.py <<'EOF'\nrm b.py\nEOF\nrm c.py", [("a.py", "written"), ("c.py", "deleted")], []),
        ("rm -rf build a.txt", [("build", "deleted"), ("a.txt", "deleted")], []),
        ("rm *.txt $X", [], []),
        ("git mv a.py b.py", [("a.py", "moved"), ("b.py", "written")], []),
        ("git rm a.py && cp b.py c.py", [("a.py", "deleted"), ("c.py", "written")], []),
        ("git checkout -- a.py b", [("a.py", "reverted"), ("b", "reverted")], []),
        ("git checkout HEAD~1 src/a.py", [("src/a.py", "reverted")], []),
        ("cd /w && git restore a.py", [("/w/a.py", "reverted")], []),
        ("git stash push -m x -- a.py", [("a.py", "reverted")], []),
        ("git stash; git stash pop; git stash show -p a.py; git checkout main; git checkout .", [], []),
        ("git restore --staged a.py; git checkout -b fix.it", [], []),
        ("sed -i 's/a/b/' x.py y.py", [("x.py", "edited"), ("y.py", "edited")], []),
        ("cd /w/p && sed -i.bak s/a/b/ x.py", [("/w/p/x.py", "edited")], []),
        ("make | tee out/log.txt", [("out/log.txt", "written")], []),
        ("cat a.py b/c.md | head -3", [], ["a.py", "b/c.md"]),
        ("sed -n '1,20p' a.py; nl -ba \"b.py\"", [], ["a.py", "b.py"]),
        ("if [ 1 > 2 ]; then :; fi", [], []),
        ("python -c 'a > b.txt'", [], []),
        ("cat <<EOF\nrm a.py", [], []),
        ("rm a.py ' unfinished > a.txt", [("a.py", "deleted")], []),
    ],
)
def test_files_that_a_command_touches(command: str, changed: list[tuple[str, str]], read: list[str]) -> None:
    """By redirection, by what moves and removes files, and by what shows them."""
    assert shell.script(command) == (changed, read)


@pytest.mark.parametrize(
    "text", [_PATCH, 'apply("' + _PATCH.replace("\n", "\\n") + '")'], ids=["plain", "in a literal"]
)
def test_a_patch_names_its_files(text: str) -> None:
    found = list(values.patched(text))
    assert [each[:2] for each in found] == [
        ("a/new.py", "written"),
        ("b.py", "edited"),
        ("c.py", "moved here"),
        ("d.py", "deleted"),
    ]
    assert found[0][2] == "\n+x = 1\n"
    assert list(values.patched("*** Update File: b.py")) == []


@pytest.mark.parametrize(
    ("command", "worth"),
    [
        ("pytest -q", 3),
        ("cd a && git commit -m x && npm test", 6),
        ("ls -la", -6),
        ("git -C x log", -6),
        ("cat > a.txt", 0),
        ("./deploy", 0),
    ],
)
def test_commands_are_ranked(command: str, worth: int) -> None:
    """Tests, builds and git come first; what only reads is left out."""
    assert shell.grade(command) == worth


@pytest.mark.parametrize(
    ("text", "failed", "hidden", "written"),
    [
        ("3 passed in 1s", False, False, "ok: > 3 passed in 1s"),
        ("1 failed, 3 passed", True, False, "failed: > 1 failed, 3 passed"),
        ("exit code 1", False, False, "ok"),
        ("no such berth\n\nCommand exited with code 2", None, False, "failed: > no such berth"),
        ("all clean", None, False, "ok: > all clean"),
        ("2 failed", False, True, "ended with: > 2 failed"),
        ("2 failed", True, True, "failed: > 2 failed"),
        ("", False, False, "ok"),
        ("", None, True, "ended with nothing"),
        ("", True, False, "failed"),
        ("(Bash completed with no output)", False, True, "ended with nothing"),
        ("Chunk ID: a\nWall time: 1\nOutput:\n", False, False, "ok"),
        ("Traceback\nValueError: bad tide\nlast line", True, False, "failed: > ValueError: bad tide"),
        ("====== 3 passed in 1s ======", False, False, "ok: > 3 passed in 1s"),
        ("-1", False, False, "ok: > -1"),
        (
            "readings\n[Showing lines 7-56 of 56 (50.0KB limit). Full output: /tmp/x.log]",
            False,
            False,
            "ok: > readings",
        ),
        ("Process running with session ID 7", None, False, "ok"),
        ("12 tests run\nbye", False, False, "ok: > 12 tests run"),
        ("built it\nProcess Group PGID: 75548", False, False, "ok: > built it"),
        ("usage: fetch URL\nurl", True, False, "failed: > usage: fetch URL"),
        ('  "status": "error",\n}', True, False, "failed"),
        ("two berths\n  return value;", False, False, "ok: > two berths"),
        ("first\nlast", False, False, "ok: > last"),
        ("\x1b[32mgreen\x1b[0m", False, False, "ok: > green"),
        ("head\n" * 2000 + "7 passed\n" + "tail\n" * 100, False, False, "ok: > 7 passed"),
    ],
)
def test_a_result_says_how_its_call_ended(text: str, failed: bool | None, hidden: bool, written: str) -> None:
    """By what the agent recorded, else by its exit status; with the line that reports most."""
    assert shell.outcome(text, failed, hidden=hidden).written() == written
