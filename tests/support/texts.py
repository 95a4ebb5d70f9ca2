"""Seeded texts that look like what tools read and print: source code, listings, test runs, logs, diffs."""

from __future__ import annotations

import difflib
import random
from collections.abc import Callable, Sequence

from tests.support.sources import python_source, typescript_source
from tests.support.words import ADJECTIVES, GREETINGS, NAMES, NOUNS, PACKAGES, PLACES, VERBS, past

__all__ = [
    "csv_rows",
    "edit_diff",
    "find_output",
    "git_log",
    "grep_output",
    "heading",
    "install_log",
    "json_document",
    "listing",
    "log_lines",
    "markdown",
    "numbered",
    "prose",
    "pytest_run",
    "python_source",
    "typescript_source",
    "unicode_text",
    "unified_diff",
    "vitest_run",
]

Maker = Callable[[random.Random], str]

_SENTENCES: Sequence[str] = (
    "The {a} {n} is {vd} before the {n2} is written, so a {a2} {n3} never reaches the {n4}.",
    "When the {n} is {a}, the {n2} falls back to the {a2} {n3}.",
    "Each {n} belongs to one {n2}; moving it needs a new {n3}.",
    "We {v} the {n} at {h}:{m:02d} and keep {k} of them in {p}.",
    "It should {v} the {a} {n} first and only then {v2} the {n2}.",
    "{who} saw a {a} {n} in {p} after the {n2} had been {vd}.",
    "Nothing here depends on the {n} except the {a} {n2} and its {n3}.",
    "A {n} of {k} rows takes about {m} ms, most of it in the {n2} {n3}.",
    "If two {n}s share a {n2}, the {a} one wins and the other is {vd}.",
    "The old {n} code did not {v} the {n2}, which is why {p} showed {k} {a} {n3}s.",
)


_MATCHES: Sequence[str] = (
    "    {v}({w}, {n})",
    "from {p}.{w} import {v}",
    "    # {s}",
    "    if {w} is None or {w}.{n} > {k}:",
    "{w} = {n}.{v}()",
)


def prose(rng: random.Random, sentences: int = 4) -> str:
    return " ".join(_sentence(rng) for _ in range(sentences))


def _sentence(rng: random.Random) -> str:
    verb = rng.choice(VERBS)
    return rng.choice(_SENTENCES).format(
        a=rng.choice(ADJECTIVES),
        a2=rng.choice(ADJECTIVES),
        n=rng.choice(NOUNS),
        n2=rng.choice(NOUNS),
        n3=rng.choice(NOUNS),
        n4=rng.choice(NOUNS),
        v=verb,
        vd=past(verb),
        v2=rng.choice(VERBS),
        p=rng.choice(PLACES),
        who=rng.choice(NAMES),
        k=rng.randint(2, 900),
        h=rng.randint(0, 23),
        m=rng.randint(0, 59),
    )


def heading(rng: random.Random) -> str:
    return f"{rng.choice(ADJECTIVES).capitalize()} {rng.choice(NOUNS)} {rng.choice(NOUNS)}s"


def markdown(rng: random.Random, sections: int = 6) -> str:
    """Return a document with headings, lists and a table."""
    parts = [f"# {heading(rng)}", prose(rng, 3)]
    for number in range(sections):
        parts.append(f"## {heading(rng)}\n\n{prose(rng, rng.randint(2, 5))}")
        if number % 3 == 1:
            rows = [f"| `{_name(rng)}` | {_sentence(rng)} |" for _ in range(rng.randint(3, 7))]
            parts.append("\n".join(["| Setting | Meaning |", "|---|---|", *rows]))
        elif number % 3 == 2:
            parts.append("\n".join(f"- {_sentence(rng)}" for _ in range(rng.randint(3, 6))))
    return "\n\n".join(parts) + "\n"


def _name(rng: random.Random) -> str:
    return f"{rng.choice(VERBS)}_{rng.choice(NOUNS)}"


def _file(rng: random.Random, suffix: str = "") -> str:
    package = rng.choice(PACKAGES).replace("-", "_")
    return f"src/{package}/{rng.choice(NOUNS)}/{_name(rng)}{suffix or rng.choice(('.py', '.py', '.ts', '.md'))}"


def listing(rng: random.Random, entries: int = 30) -> str:
    lines = [f"total {rng.randint(40, 900)}"]
    for _ in range(entries):
        folder = rng.random() < 0.25
        name = rng.choice(NOUNS) if folder else f"{_name(rng)}{rng.choice(('.py', '.toml', '.md', '.json', '.lock'))}"
        lines.append(
            f"{'drwxr-xr-x' if folder else '-rw-r--r--'} {rng.randint(1, 9)} dev staff {rng.randint(64, 99999):>7} "
            f"{rng.choice(('Jan', 'Feb', 'Mar'))} {rng.randint(1, 28):>2} {_clock(rng.randint(0, 86399))[:5]} {name}"
        )
    return "\n".join(lines)


def _clock(second: int) -> str:
    return f"{second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def find_output(rng: random.Random, files: int = 40) -> str:
    return "\n".join(sorted(f"./{_file(rng)}" for _ in range(files)))


def grep_output(rng: random.Random, matches: int = 25) -> str:
    word = rng.choice(NOUNS)
    lines = []
    for _ in range(matches):
        code = rng.choice(_MATCHES).format(
            w=word, v=_name(rng), n=rng.choice(NOUNS), p=rng.choice(PACKAGES), s=_sentence(rng), k=rng.randint(2, 90)
        )
        lines.append(f"{_file(rng, '.py')}:{rng.randint(3, 420)}:{code}")
    return "\n".join(sorted(lines))


def git_log(rng: random.Random, commits: int = 20) -> str:
    lines = []
    for _ in range(commits):
        subject = f"{rng.choice(VERBS).capitalize()} {rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}"
        lines.append(f"{rng.getrandbits(28):07x} {subject} in {rng.choice(NOUNS)}")
    return "\n".join(lines)


def log_lines(rng: random.Random, lines: int = 60, day: str = "2026-03-02", start: int | None = None) -> str:
    second = rng.randint(0, 40000) if start is None else start
    made = []
    for _ in range(lines):
        second += rng.randint(1, 30)
        clock = f"{day}T{_clock(second)}.{rng.randint(0, 999):03d}Z"
        level = rng.choice(("INFO ", "INFO ", "INFO ", "DEBUG", "WARN "))
        source = f"[{rng.choice(PACKAGES)}.{rng.choice(NOUNS)}]"
        facts = f"{rng.choice(NOUNS)}={rng.choice(PLACES)} {rng.choice(NOUNS)}={rng.randint(1, 99999)}"
        said = _name(rng).replace("_", " ")
        made.append(f"{clock} {level} {source} {said} {facts} took={rng.randint(1, 900)}ms")
    return "\n".join(made)


def pytest_run(rng: random.Random, tests: int = 40, failed: str = "") -> str:
    """Return a pytest run; `failed` is the report of one failure, put in before the summary."""
    lines = ["=" * 29 + " test session starts " + "=" * 29]
    lines += ["platform linux -- Python 3.12.4, pytest-8.3.2, pluggy-1.5.0"]
    lines += ["rootdir: /tmp/tidewatch", "configfile: pyproject.toml", f"collected {tests} items", ""]
    for number in range(tests):
        bad = failed and number == tests * 2 // 3
        name = f"tests/test_{rng.choice(NOUNS)}.py::test_{_name(rng)}_{rng.choice(ADJECTIVES)}"
        lines.append(f"{name} {'FAILED' if bad else 'PASSED'} [{(number + 1) * 100 // tests:>3}%]")
    took = f"{rng.randint(1, 20)}.{rng.randint(10, 99)}s"
    if failed:
        lines += ["", "=" * 35 + " FAILURES " + "=" * 35, failed]
        lines.append("=" * 20 + f" 1 failed, {tests - 1} passed in {took} " + "=" * 20)
    else:
        lines += ["", "=" * 26 + f" {tests} passed in {took} " + "=" * 26]
    return "\n".join(lines)


def vitest_run(rng: random.Random, files: int = 12) -> str:
    lines = [" RUN  v2.1.4 /tmp/lanes-ui", ""]
    total = 0
    for _ in range(files):
        tests = rng.randint(2, 30)
        total += tests
        lines.append(f" ✓ {_file(rng, '.test.ts')} ({tests} tests) {rng.randint(4, 900)}ms")
    return "\n".join([*lines, "", f" Test Files  {files} passed ({files})", f"      Tests  {total} passed ({total})"])


def install_log(rng: random.Random, packages: int = 25) -> str:
    names = [f"{rng.choice(ADJECTIVES)}-{rng.choice(NOUNS)}" for _ in range(packages)]
    lines = [f"Resolved {packages} packages in {rng.randint(20, 900)}ms"]
    lines += [f" + {name}=={rng.randint(0, 9)}.{rng.randint(0, 30)}.{rng.randint(0, 12)}" for name in sorted(names)]
    return "\n".join(lines)


def json_document(rng: random.Random, records: int = 20) -> str:
    """Return an indented JSON list of readings."""
    rows = [
        f'  {{"station": "{rng.choice(PLACES)}", "{rng.choice(NOUNS)}": {rng.randint(0, 9999) / 100}, '
        f'"{rng.choice(NOUNS)}": {rng.randint(0, 9999)}, "note": "{rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}"}}'
        for _ in range(records)
    ]
    return "[\n" + ",\n".join(rows) + "\n]"


def csv_rows(rng: random.Random, rows: int = 60) -> str:
    lines = ["station,taken_at,level_cm,wind_ms,quality"]
    for number in range(rows):
        clock = f"2026-02-{number // 24 % 28 + 1:02d}T{number % 24:02d}:00Z"
        place = rng.choice(PLACES).lower()
        quality = rng.choice(("ok", "ok", "raw"))
        lines.append(f"{place},{clock},{rng.randint(-80, 310)},{rng.randint(0, 280) / 10},{quality}")
    return "\n".join(lines)


def unicode_text(rng: random.Random, lines: int = 20) -> str:
    """Return messages in many scripts, with emoji."""
    return "\n".join(f"{rng.choice(PLACES)}: {rng.choice(GREETINGS)} ({rng.randint(1, 99)})" for _ in range(lines))


def numbered(text: str, bar: str = "|", start: int = 1) -> str:
    """Return the text with line numbers, as some readers show it."""
    return "\n".join(f"{number:>4}{bar}{line}" for number, line in enumerate(text.split("\n"), start))


def unified_diff(old: str, new: str, path: str) -> str:
    lines = difflib.unified_diff(old.split("\n"), new.split("\n"), f"a/{path}", f"b/{path}", lineterm="")
    return "\n".join([f"diff --git a/{path} b/{path}", *lines])


def edit_diff(old: str, new: str) -> str:
    """Return the numbered diff that pi's edit keeps for the screen."""
    before, after = old.split("\n"), new.split("\n")
    lines: list[str] = []
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for group in matcher.get_grouped_opcodes(4):
        lines.append("     ...")
        for kind, i1, i2, j1, j2 in group:
            if kind == "equal":
                lines += [f" {number + 1:>4} {before[number]}" for number in range(i1, i2)]
                continue
            lines += [f"-{number + 1:>4} {before[number]}" for number in range(i1, i2)]
            lines += [f"+{number + 1:>4} {after[number]}" for number in range(j1, j2)]
    return "\n".join(lines)


MAKERS: Sequence[tuple[str, Maker]] = (
    ("read", lambda rng: python_source(rng, rng.randint(3, 40))),
    ("read", lambda rng: typescript_source(rng, rng.randint(3, 30))),
    ("read", lambda rng: markdown(rng, rng.randint(2, 18))),
    ("bash", lambda rng: pytest_run(rng, rng.randint(8, 160))),
    ("bash", lambda rng: log_lines(rng, rng.randint(5, 160))),
    ("bash", lambda rng: grep_output(rng, rng.randint(2, 60))),
    ("bash", lambda rng: listing(rng, rng.randint(4, 50))),
    ("bash", lambda rng: find_output(rng, rng.randint(3, 120))),
    ("bash", lambda rng: git_log(rng, rng.randint(3, 40))),
    ("bash", lambda rng: json_document(rng, rng.randint(3, 90))),
    ("bash", lambda rng: csv_rows(rng, rng.randint(10, 300))),
    ("bash", lambda rng: vitest_run(rng, rng.randint(3, 60))),
    ("bash", lambda rng: install_log(rng, rng.randint(3, 80))),
    ("read", lambda rng: unicode_text(rng, rng.randint(4, 80))),
)
"""What a tool may give back: the tool, and how to make one such text."""


def colliding(one: bytes, other: bytes) -> str:
    r"""Return a text with two free places of three bytes; two texts that swap them have one XXH3, of any length.

    XXH3 multiplies the halves of each eight bytes after an exclusive or with its secret. Where one half is that of
    the secret (\xb7\xb3g\x1f, \x81:&L) the product is 0, and what is left is only added up, in any order.
    """
    made = bytearray(b"a line of some text, as tools print it, and then one more.....\n" * 40)
    made[192:200] = one + b"\xe1\xb7\xb3g\x1f"
    made[448:456] = other + b"\xc2\x81:&L"
    return made.decode()


ONE, OTHER = colliding(b"yes", b"not"), colliding(b"not", b"yes")
"""Two texts of one XXH3."""
