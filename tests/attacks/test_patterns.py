"""No text makes a pattern slow: each runs over a megabyte of what is worst for it."""

from __future__ import annotations

import ast
import importlib
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sessioncompress
from sessioncompress.compressors import preview
from sessioncompress.formats.table import NAMES, format_named
from sessioncompress.formats.values import member

_ROOT = Path(sessioncompress.__file__).parent
_KB, _MB = 1 << 10, 1 << 20
_SIZES = ((16 * _KB, 0.5), (_MB, 2.0))
"""Bytes, and the seconds that they may take; the first ones, so that a pattern that is not linear ends soon."""

_WORST: dict[str, tuple[str, ...]] = {
    "checkpoints.merge._BEGINS": ("1", "1. ", "- ", "- The last call: ", "123456789. "),
    "operations.sessions._BASE64": ("a" * 59 + " ", "a" * 60 + "\n", "a" * 60 + "\n\n", "a" * 61 + " "),
    "operations.packed._LIKE_ID": ("a", "1", "-", "a-", "1-", "--1"),
    "compressors.preview._EXIT_LINE": ("exit 1", "a exit 1 ", "word", "exit\n"),
    "compressors.preview._EXIT_STATUS": ("exit 1", "exit 1 ", "exit code 1!", "exit 9"),
    "compressors.preview._FAILURE": ("not ", "no such", "errorerror", "tracebac "),
    "compressors.preview._MOCHA": (" ", "1 failing", "    9\n"),
    "compressors.preview._NUMBERED": (" ", "  1) ", "   1234)\n"),
    "compressors.preview.reports": (
        *("a", " ", "\t", ".py", "a.py::", "a.py:: ", " > ", "a > a ", "... ", " <<< ", "1 ", "1 passed, ", "[a] "),
        *("a a: ", "a\tb\t2026-01-01T00:00:00Z ", "not ok 1 # TOD ", "✕ 1 m", "test a ... FAILE ", "a" * 299 + "\n"),
        *("a.py::" * 50 + "\n", "x > " + "y " * 100 + "\n", "not ok 1 " + "# TOD " * 50 + "\n", "(fail) ", "FAIL "),
    ),
    "compressors.preview._TELLING": ("a", "-", "a-", "-\n", "a" * 11 + "\n", "\n", "-" * 900 + "\n"),
    "compressors.results._CONCLUSIONS": (
        "#",
        "# ",
        "###### ",
        "\n\n",
        "\t",
        "- ",
        "123",
        "1. ",
        "\n# a\n\n",
        "        ",
    ),
    "compressors.names._NAME": (
        "a",
        "A",
        "_",
        "a_",
        "aB",
        "0",
        "0a",
        "f",
        " a",
        "ab ",
        "a" * 47 + "- ",
        "AB",
        "x" * 48 + " ",
    ),
    "store.layout._MADE": (",", '"', '"' + "a" * 63, ',"' + "0" * 64, 'Sha256":"', 'Sha256":"' + "f" * 64, "["),
    "compressors.names._NUMBER": ("0", "f", "0 ", "abcdef0"),
    "compressors.names._MADE_UP": ("-", "A", "-A", "a", "-a0", "-" + "a" * 60, "-aA", "-0a", "0123-", "abcd-012"),
    "compressors.names._BEFORE": ("a", "a ", "a;", ".", "a.", "a...."),
    "compressors.names._BEHIND": (".", ". ", ".a", "...a"),
    "compressors.names._VERSIONS": (
        "\nindex ",
        "\n",
        "0",
        "abcd",
        "..",
        "abcd..abcd",
        "\nindex abcd..abcd",
        "\nindex abcd..",
    ),
    "compressors.names._OF_LINE": ("\n", "\n ", " ", "\n>", ":", ">"),
    "compressors.names._NOT_OWN": ("/", ".git", ".git/", "s/", "node_modules", "e/"),
    "compressors.names._ESCAPE": ("\\", "\\\\", "\\n", "n", "\\t\\"),
    "compressors.arguments._DIFFED": ("--- a", "--- a\n+++ ", "--- \n", "--- a\n"),
    "compressors.arguments._FIRST_LINE": ("\\n", " ", "\\", "\\a", "a", " \\n"),
    "compressors.preview._CODE": ("\\", "\\u00", "\\u002"),
    "compressors.preview._COLOR": ("\x1b[", "\x1b[1", "\x1b[1;", "1;"),
    "compressors.preview._MOVES": ("\x1b[", "\x1b[1", "\x1b[?", "1;"),
    "compressors.preview._TIMED": (
        "a",
        "\t",
        "a\t",
        "a\ta\t2026-01-01T00:00:00.0000000",
        "a\n",
        "2026-",
        "a" * 99 + "\t",
    ),
    "compressors.preview._REPORTED": (
        *("a", " ", "a.", "a:", "E ", "a a: ", "a\tb\t2026-01-01T00:00:00Z ", "timed ", "timeout of ", "[a] ", "Error"),
        *(
            "error[",
            "fatal: ",
            "##[error",
            "a" * 79 + "\n",
            "timed ou" * 9 + "\n",
            "AError" * 12 + "\n",
            "a:1: aErro",
            "a" * 299 + "\n",
        ),
    ),
    "compressors.names._PASSED": (
        *("\n", "test a", "\ntest a ... ", "\n ", "\nok 1 a", "\na::", "\na::a ", "\na::a PASSE", "a::", "\u2713"),
        *("\ntest " + " ... o" * 50, "\na" + "::a PASSE" * 30),
    ),
    "compressors.names._DIGITS": ("0", "a0", "00"),
    "compressors.results._FAILED": ("exited ", "exit", "xit code 1", "xit 0", 'exit_code":1'),
    "formats.codex.Codex.ended": ("Exit code: ", '"exit_code":', '"exit_code": ', "Process exited with code 1", "\n"),
    "core.jsonl._ESCAPE": ("\\ud800", "\\", "\\ud800\\u", "\\udc00"),
    "core.jsonl._NUMBER": ('"', '"\\', "1", "1.", "1e", "-", "1e400,", '"1'),
    "formats.values.CLEARED": ("[Tool: a returned 1 chars", " returned ", " returned 1", ", exit code 1"),
    "formats.gemini.ENDED": (
        *("Exit Code: ", "Exit Code: 1\n", "\nExit Code: -12345", "Exit Code: 123456", "Exit Code: 1\nSignal:", "\n"),
        *("Exit Code: 1\n\n\n", "Exit Code: 1" + "\n" * 9),
    ),
    "formats.copilot.Copilot.ended": (
        "<shellId: ",
        "<shellId: 0 completed with exit code 1",
        "<shellId: 0" + "x" * 40,
        "\n",
    ),
    "formats.claude.ClaudeCode.ended": ("Exit code ", "Exit code 1\n", "Exit code 1234"),
    "formats.pi.OpenClawReader.not_asked": (
        "System: [",
        "System: [\n",
        "System:\n",
        "\n",
        "System: [a\n\n",
        "System: ",
    ),
    "compressors.results._JSON": (" ", "[", "[ ", " [", "{"),
    "formats.chat._EXIT": ("exit code ", "exit ed with ", "exit code    ", "exit_status 12345"),
    "formats.claude.ClaudeCode.links": (
        "saved to ",
        "saved to: x tool-results",
        "tool-results",
        "saved to" + "x" * 5000,
    ),
    "core.documents._INDENT": ("{\n", " " * 80, "{\n  x"),
    "formats.opencode._ID": ("msg_", "msg_0123456789ab", "a"),
    "formats.codex._PREAMBLE": ("Chunk ID\n", "Wall time" + "x" * 80 + "\n", "Output:\n"),
    "formats.codex._PASSING": ("Chunk ID", "Chunk ID\n", "Wall time x"),
    "formats.codex._NAMES_SKILL": ("SKILL.mdx", "SKILL.md", "SKILL"),
    "formats.codex._PART": ("cat ", "|", "cat x|"),
    "formats.codex._PRINTS": ("ca", "catt ", "headtail"),
    "formats.codex._WORD": ("a", "'", "a "),
    "formats.codex_places._CHANGES": ("UPDATE", "UPDATEx", "U"),
    "formats.codex_places._UUID": ("0", "01234567-", "01234567-89ab-", "01234567-89ab-cdef-0123-"),
    "formats.codex_places._ROLLOUT": ("rollout-", "-", "01234567-89ab-cdef-0123-456789abcdef_"),
    "formats.codex_places._NUMBERED": ('{"timestamp":"', '{"timestamp":"x","ordinal":1', "1"),
    "formats.codex_places._OFFSET": ('"end_byte_offset":', '"end_byte_offset": ', " ", "1"),
    "formats.codex._STATUS": ("Chunk ID\n", "Wall time x\n", "Wall time" + "x" * 80 + "\n", "Exit code: 1"),
    "formats.table._KEPT": ("1", "1.", "1.1", "1d", "."),
    "formats.values._STRING": ('"', '"a', '"\\', '\\"', '"\\"'),
    "formats.values.member": ('"KEY"', '"KEY"   ', '"KEY":"', '"KEY":"a', '"KEY" :'),
    "formats.pi.OhMyPi.links": ("artifact://", "artifact://1", "1", "blob:sha256:", "blob:sha256:0", "a"),
    "formats.pi._INSTRUCTS": ("c", "contex", "Inject ", "rul"),
    "hooks.extension._COMMAND": ("const COMMAND = [", "const COMMAND = []", "];\n"),
    "hooks.extension._ENDED": ("const ENDED = [", "const ENDED = []", "];\n"),
    "hooks.settings._COMMENT": ("/*", "//", '"', '"\\', "/*/", "*", "\n"),
    "hooks.settings._NO_LINE_END": ("/", "\n"),
    "hooks.settings._INDENT": (" ", "\t ", " \n"),
    "hooks.settings._SPACE": (" ", "\n\t", " a"),
    "core.jsonl._MARK": ('"', '"\\', '\\"', '""', ","),
    "core.jsonl._MAY_HOLD_JSON": ('" ', '"\\n', "\\n", " "),
    "core.text._NUMBER": ("1", "1,", ",1", "1.", "1.1", "1 "),
    "core.marker": (
        *(
            "[[sessioncompress: ",
            "[[sessioncompress: a",
            "]]",
            "]",
            "[",
            "1",
            "1,",
            ",",
            "1 of 1",
            " of 1",
            "1 of 1 lines,",
        ),
        *("sessioncompress show 7f3a91c2e05b", "sessioncompress show ", "7f3a91c2e05b", "5 bytes", "1 KB", "\n"),
    ),
    "checkpoints.prose._CLOSES": ("<", "</", "</   ", "</summar", "</   summary-"),
    "checkpoints.prose._CALLS": (
        "<",
        "</",
        "[TOOL_CALL",
        "<|",
        '{"name": "',
        '{"name":"a',
        '{        "tool"        : ',
    ),
    "checkpoints.prose._TAG_LINE": (
        "\n",
        "\n<a",
        "\n> > <a ",
        "\n<a " + "b" * 299,
        "\n<" + "a" * 60,
        "a",
        "\n        ",
    ),
    "checkpoints.prose._WORD": ("a", "a" * 400, "a ", "("),
    "checkpoints.prose._FILE": ("a", "a.", ".", "a.py"),
    "checkpoints.prose._PLACE": (":", ":1", ":1-", "#L1-", ":123456789"),
    "checkpoints.quote._ESCAPE": ("\x1b", "\x1b[", "\x1b[0", "\x1b]", "\x1b]a", "\x1b[" + "0" * 31),
    "checkpoints.quote._TAG": ("<", "< ", "</", "<   /   ", "<a", "<aa-", "<a_", "<|", "<" + "a" * 40),
    "checkpoints.quote._LEFT_OUT": ("[... ", "[... 1", "[... 1 lines left out]", "1"),
    "checkpoints.quote._MORE": ("(", "(1", "(1,", "(1 more left out)", ",111"),
    "checkpoints.story._SENTENCE": (".", ". ", ". A", "\n", " ", ".\n", ".\t\t"),
    "checkpoints.story": ("a", "the ", "the issue ", "must ", "do ", "I ", " ", "* ", "#", "- ", "`", "Let me", "A"),
    "checkpoints.shell": (
        *(
            "a",
            "1",
            "1 ",
            "1 passed",
            "[a",
            "[a ",
            "[a 0000000",
            "https://",
            "https://a",
            "https://a/",
            "<",
            "<a",
            " ",
            "-",
        ),
        *("Exit code 1", "Wall time: ", "Wall time: a", "Command exited with code ", "(Process ", "no ", "error"),
    ),
    "checkpoints.quote._PART": (":", ":1", ":1-", ":1-1", ":1-1:"),
    "formats.values._RUN": (
        *('cmd:"', "cmd:'", "cmd:`", "cmd", "cmd: ", 'cmd:"a', "cmd:'a\\", 'cmd:"\\"', "cmd:`a$", 'cmd"  :  '),
        *("cmd:[", 'cmd:["a"', 'cmd:["a",', 'cmd:["a" , ', "cmd:[ ", "cmd:['a'  ", "cmd:[`", '"a",'),
    ),
    "formats.values._WORDS": ('"', "'", "`", '"a', "\\", '"\\', "'a'"),
    "formats.values._SHELL": ("a", "/", "a/", "sh", "bash", "/sh"),
    "formats.values._FLAG": ("-", "c", "-c", "a"),
    "formats.values._BEGINS": ("*** Begin Patch", " ", "\n", "\n ", "\n*** Begin ", '"*** ', "\\n", "\\n*** Begin"),
    "formats.values._ESCAPED": ("\\", "\\a", "a"),
    "checkpoints.shell._TESTS": ("go ", "npm ", "a", "cargo ", "make", "bun "),
    "checkpoints.shell._GIT": ("git ", "git -C ", "git -C a", "git -C a ", "gh ", "git -C " + "a" * 199),
    "checkpoints.shell._PURE": (" ", "git ", "git -C ", "git -C a", "git -C a ", "cat", "sed -", "gh pr "),
    "checkpoints.shell._CD": (" ", "cd ", 'cd "', 'cd "a', "cd '", "cd a", "cd a ", "cd a;"),
    "checkpoints.shell._TOKEN": ('"', '"a', '"\\', "'", "'a", "\"'", "a", "&", "|", "<", ">", "(", "0>", " ", "\\"),
    "checkpoints.shell._HERE": ("<<", "<<-", "<<a", "<<'a", "<<'a' ", "<< ", "<<" + "a" * 41),
    "formats.values._HEADER": (
        '  "*** Add File: a',
        "a" * 399 + '",\n',
        "*** ",
        "\n*** Add File: ",
        "\n*** Add File: a",
        "\n*** Move to: a",
        "\n",
    ),
    "checkpoints.shell._PLACE": ("a", "/", "a/"),
    "checkpoints.excerpts._WORD": ("a", "a-", "_", "0", "a" * 48, "-"),
    "checkpoints.excerpts._NAME": ("a", "A", "AA", "0", "a_", "a-", "AAA"),
    "checkpoints.excerpts._PLAIN": ("a", "A", "Aa", "aaa", "AAAA", "a" * 40),
    "checkpoints.excerpts._PATH": ("/", "a", "a.", "a.a", "."),
    "checkpoints.shell._CODE_LINE": ("a", ";", "return ", "a;"),
    "checkpoints.shell._BARE_WORD": ("a", "a ", "a" * 24),
    "checkpoints.story._LABEL": ("A", "NOTE", "NOTE ", "NOTE: ", "- "),
    "checkpoints.story._VALUE": ("a", "0", "A", "a/", "AB-", "$", "2026-01-0", "https://"),
    "checkpoints.story._STATES": ("is", "is ", "own", "a "),
    "checkpoints.excerpts._NUMBERED": (" ", "1", "1:", "1 ", " 1|"),
    "checkpoints.merge._COUNTS": ("1", "1 ", "1 entr", "1 entries of this session, ", "1 message of this session, 1 "),
    "checkpoints.merge._NUMBERED": ("1", "1.", "1. ", "- "),
    "checkpoints.merge._WHOLE": (" [whole: ", " [whole: 0", "0", " [whole: 0123456789ab]"),
    "checkpoints.merge._ENDED": ("ok", "ok: > ", "ended with", " nothing", ": > "),
    "checkpoints.merge._ROW": ("- `", "a", "`", "`: ", "` "),
    "checkpoints.merge._FILE_ROW": (
        "edited",
        "edited 1",
        "moved here",
        "written 1x, ",
        "written, 1 lines, the last",
        " [",
    ),
    "core.jsonl._TOKENS": ('"', '"a', '"\\', "[", "[]", '["'),
    "pipeline.budget._DID_NOT_FIT": (
        "context ",
        "exceeds the limit of ",
        "exceeds the limit of 1,",
        "prompt is too lon",
    ),
    "pipeline.budget._QUOTA": ("quot", "q"),
    "pipeline.budget._SLOWED_DOWN": ("rate limi", "rate", "too many request"),
    "pipeline.budget._TOO_MANY": ("429", "429a", "42 "),
    "core.splice._SCALAR": ("1", "1 ", "]"),
    "core.splice._SPACE": (" ", "\n\t", " a"),
    "core.splice._STRING": ('"a', '"\\"', '"\\', '\\"'),
    "core.splice._TO_BRACKET": ('"', '"a', '\\"', '"\\', "[", "[]"),
    "cli.tables._QUOTED": ("'", "'a", "a' ", "' "),
    "cli.pre_commit._ADDED": ("add ", "add\n", "\n"),
    "cli.pre_commit._PATCH": ("patch1-", "patch1", "1", "-1"),
    "formats.claude._COMMAND": ("/compact", "/compact ", "/a", "a", "\n", " "),
    "formats.values._PAGE": ("/Type", "/Type ", "/Type /Page", "/Type/Pages"),
    "operations.matching._CUT": ("a", "|", "data:", " ", "data:a"),
    "operations.verify._TIME": ("2026-01-01T00:00:0", "0", "-"),
    "pipeline.reading.CONFLICT": ("<", "<<<<<<< ", "=", "=======", "=======\r\n", ">>>>>>> "),
    "store.folder._OURS": ("*\n!/a.zst\n", "*\n!/aaaa", "*\n!/\\*.zst", "*\n", "!/a.refs.jsonl\n", "\\"),
    "store.folder._SPECIAL": ("*", "a", "\\"),
    "store.machine._SEAL": (',"sha256":"', ',"sha256":"' + "0" * 64, "0" * 64),
    "store.records._IS_RUN": ('"type":', '"type": ', '"type":"run'),
    "store.records._ID": ("0", "20260101-000000-", "-"),
    "store.records._COMMAND": ("a", " ", "-"),
    "store.late_links._SEALED": ("1", "1-", "1-2-3-4-5-01234567-", "a"),
    "store.late_links._LATE": ("0", "-", "g"),
    "store.late_links._DRAFT": ("0", "01234567"),
    "store.layout._LEFT_OVER": (".late-", ".temp-0123456", "."),
    "store.layout._IS_LOCAL": ("local-", "local-0123456", "0"),
    "store.tables._OPENCLAW_ID": ("0", "0_", "-"),
    "store.tables._OPENCODE_ID": ("ses_", "ses_0", "0"),
    "operations.database._EVENTS": (".events-1", ".rows-", ".zst", "1"),
    "operations.database._OUTPUT": ("tool_", "tool_0", "0"),
}
"""What makes each pattern look farthest, by its module and name (or by its module alone); repeated to the size."""

_USED: dict[str, str] = {
    "checkpoints.prose._FILE": "fullmatch",
    "checkpoints.shell._CODE_LINE": "fullmatch",
    "checkpoints.merge._BEGINS": "match",
    "operations.packed._LIKE_ID": "fullmatch",
    "checkpoints.quote._LEFT_OUT": "fullmatch",
    "checkpoints.quote._MORE": "fullmatch",
    "checkpoints.story._LABEL": "match",
    "checkpoints.story._RULE": "fullmatch",
    "checkpoints.shell._NOISE": "fullmatch",
    "checkpoints.shell._PURE": "match",
    "checkpoints.shell._CD": "match",
    "checkpoints.shell._PLACE": "match",
    "checkpoints.excerpts._NUMBERED": "match",
    "checkpoints.merge._NUMBERED": "match",
    "checkpoints.merge._FILE_ROW": "fullmatch",
    "checkpoints.merge._ROW": "fullmatch",
    "checkpoints.merge._ENDED": "fullmatch",
    "compressors.results._JSON": "match",
    "formats.values._SHELL": "fullmatch",
    "formats.values._FLAG": "fullmatch",
    "compressors.names._NUMBER": "fullmatch",
    "compressors.names._BEHIND": "match",
    "compressors.preview._TELLING": "match",
    "formats.values.CLEARED": "fullmatch",
    "core.documents._INDENT": "match",
    "formats.opencode._ID": "fullmatch",
    "formats.codex._PREAMBLE": "match",
    "formats.codex_places._ROLLOUT": "fullmatch",
    "formats.codex_places._NUMBERED": "match",
    "formats.codex._STATUS": "match",
    "hooks.settings._INDENT": "match",
    "hooks.settings._SPACE": "match",
    "core.jsonl._MAY_HOLD_JSON": "match",
    "core.splice._TO_BRACKET": "match",
    "store.folder._OURS": "fullmatch",
    "store.late_links._SEALED": "fullmatch",
    "store.late_links._LATE": "fullmatch",
    "store.late_links._DRAFT": "fullmatch",
    "store.layout._LEFT_OVER": "fullmatch",
    "store.layout._IS_LOCAL": "fullmatch",
    "store.tables._OPENCLAW_ID": "fullmatch",
    "store.tables._OPENCODE_ID": "fullmatch",
    "operations.database._EVENTS": "fullmatch",
    "store.records._ID": "fullmatch",
    "store.records._COMMAND": "fullmatch",
    "core.splice._SCALAR": "match",
    "core.splice._SPACE": "match",
    "core.splice._STRING": "match",
    "cli.pre_commit._PATCH": "fullmatch",
    "pipeline.reading.CONFLICT": "match",
}
"""How a pattern is used where that is not by looking for it everywhere in a text."""

_BUILT: dict[str, str] = {
    "cli.options.amount.read": "a word of the command line",
    "cli.output.tell_error": "the name of a file, in the words of an error of ours",
    "cli.show._lines": "a word of the command line",
    "hooks.extension.Extension._text": "a file of this package",
    "compressors.preview.reports": "the forms of this module, once",
    "operations.summarizer._redaction": "patterns of the user's own policy",
    "formats.values.member": "the keys that a format declares, once",
}
"""The functions that make or use a pattern of their own, and on what: on nothing that a session holds."""


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(_ROOT.rglob("*.py")):
        yield ".".join(path.relative_to(_ROOT).with_suffix("").parts), path


def in_functions(tree: ast.AST, name: str, *, inside: bool = False) -> Iterator[str]:
    """Yield where in functions the module `re` is called."""
    for child in ast.iter_child_nodes(tree):
        of_function = isinstance(child, ast.FunctionDef | ast.Lambda)
        named = f"{name}.{child.name}" if isinstance(child, ast.FunctionDef | ast.ClassDef) else name
        if inside and isinstance(child, ast.Call) and ast.unparse(child.func).startswith("re."):
            yield named
        yield from in_functions(child, named, inside=inside or of_function)


def held_in(value: Any) -> Iterator[re.Pattern[Any]]:
    """Yield the patterns in a mapping or a tuple, and in the tuples inside it."""
    for each in value.values() if isinstance(value, dict) else value:
        if isinstance(each, re.Pattern):
            yield each
        elif isinstance(each, tuple):
            yield from held_in(each)


def patterns(name: str, holder: Any) -> Iterator[tuple[str, re.Pattern[Any]]]:
    """Yield the patterns that a module holds, or a class or a mapping in it."""
    for key, value in dict(holder).items():
        if isinstance(value, re.Pattern):
            yield f"{name}.{key}", value
        elif isinstance(value, dict | tuple) and not key.startswith("__"):
            yield from ((f"{name}.{key}", each) for each in held_in(value))
        elif isinstance(value, type) and value.__module__ == f"sessioncompress.{name}":
            yield from patterns(f"{name}.{key}", vars(value))


def compiled() -> list[tuple[str, re.Pattern[Any]]]:
    """Return all patterns of the package by the modules that make them; one that a module names twice, by its first."""
    found: list[tuple[str, re.Pattern[Any]]] = [
        ("compressors.preview.reports", form.pattern) for form in preview.reports()
    ]
    keys = {path.rpartition(".")[2] for name in NAMES for path in format_named(name).reader.linking}
    found += [(f"formats.values.member.{key}", member(key)) for key in sorted(keys)]
    for name, path in modules():
        if "re.compile(" in path.read_text(encoding="utf-8"):
            held = list(patterns(name, vars(importlib.import_module(f"sessioncompress.{name}"))))
            first = {id(pattern): each for each, pattern in reversed(held)}
            found += [(each, pattern) for each, pattern in held if first[id(pattern)] == each]
    return found


PATTERNS = compiled()


def row(table: dict[str, Any], name: str) -> Any:
    return table.get(name, table.get(name.rpartition(".")[0]))


def test_every_pattern_has_its_worst_texts() -> None:
    """A new pattern has a row; a row has a pattern."""
    assert [name for name, _ in PATTERNS if row(_WORST, name) is None] == []
    names = {name for name, _ in PATTERNS}
    assert [
        key for key in (*_WORST, *_USED) if key not in names and not any(name.startswith(key) for name in names)
    ] == []


def test_no_function_has_a_pattern_of_its_own_for_a_session() -> None:
    """Those that have one are named, with what it runs on."""
    trees = ((name, ast.parse(path.read_text(encoding="utf-8"))) for name, path in modules())
    assert {each for name, tree in trees for each in in_functions(tree, name)} == set(_BUILT)


@pytest.mark.parametrize(("name", "pattern"), PATTERNS, ids=[f"{name}-{at}" for at, (name, _) in enumerate(PATTERNS)])
def test_a_pattern_is_linear(name: str, pattern: re.Pattern[Any]) -> None:
    """In its use, over texts of its pieces that end in something else, whatever comes of it."""
    used = getattr(pattern, _USED.get(name, "findall"))
    for piece in (each.replace("KEY", name.rpartition(".")[2]) for each in row(_WORST, name)):
        for size, most in _SIZES:
            text = (piece * (size // len(piece) + 1))[:size] + "\0"
            subject = text.encode() if isinstance(pattern.pattern, bytes) else text
            begun = time.process_time()
            used(subject)
            assert time.process_time() - begun < most, (piece, size)
