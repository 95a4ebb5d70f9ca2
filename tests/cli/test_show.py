"""`show`: what it prints, where it looks, and what it says if it finds nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from xxhash import xxh3_64_hexdigest

from sessioncompress.core.model import Kind
from sessioncompress.store import journal as journals
from sessioncompress.store.layout import store_in
from tests.support.commands import flip, put, read_all, references, run
from tests.support.runs import blocks_of, fixture, split, turn, write
from tests.support.session import PiSession
from tests.support.texts import ONE, OTHER


def test_show(compressed: Path) -> None:
    """A reference of a result, an argument or an image prints its original, to the byte."""
    journal = journals.load(store_in(compressed).journal)
    original = fixture("pi-anthropic.jsonl")
    for kind in (Kind.RESULT, Kind.ARGUMENT):
        for ref in references(compressed, kind):
            result = run("show", ref, compressed, "--all")
            assert result.exit_code == 0
            assert json.dumps(result.stdout_bytes.decode(), ensure_ascii=False).encode() in original
            assert len(result.stdout_bytes) == next(b.bytes for _, b in blocks_of(journal) if b.ref == ref)
    for ref in references(compressed, Kind.IMAGE):
        assert run("show", ref, compressed).stdout_bytes in original


def test_every_marker_can_be_shown(compressed: Path) -> None:
    """The command in a marker works as it stands there, and so does the marker as a whole."""
    found = re.findall(
        rb"\[\[sessioncompress: [^\]]*sessioncompress (show [0-9a-f]+)[^\]]*\]\]", compressed.read_bytes()
    )
    assert found
    for command in found:
        assert run(*command.decode().split()).exit_code == 0
    whole = re.search(rb"\[\[sessioncompress: [^\]]*\]\]", compressed.read_bytes())
    assert whole
    assert run("show", whole[0].decode()).stdout == run(*found[0].decode().split()).stdout != ""


def test_show_caps_what_it_prints(compressed: Path) -> None:
    """20 KB, and a word on how to get the rest; --all prints everything."""
    ref = max(
        (block for _, block in blocks_of(journals.load(store_in(compressed).journal)) if block.kind is Kind.RESULT),
        key=lambda block: block.bytes,
    ).ref
    part, whole = run("show", ref, compressed), run("show", ref, compressed, "--all")
    assert len(part.stdout_bytes) == 20 * 1024 < len(whole.stdout_bytes)
    assert whole.stdout_bytes.startswith(part.stdout_bytes)
    assert re.fullmatch(r"\n\d+ KB more; use --all for everything, or --lines A:B for a part\.\n", part.stderr)
    assert whole.stderr == ""


@pytest.mark.parametrize(
    ("wanted", "part"),
    [("2:4", slice(1, 4)), ("3", slice(2, 3)), ("3:", slice(2, None)), ("1:1", slice(1)), ("4:99999", slice(3, None))],
)
def test_show_some_lines(compressed: Path, wanted: str, part: slice) -> None:
    """Counted from 1, both ends included, each with its end of line; up to the last where there are no more."""
    ref = references(compressed)[0]
    lines = split(run("show", ref, compressed, "--all").stdout_bytes)
    assert run("show", ref, compressed, "--lines", wanted).stdout_bytes == b"".join(lines[part])


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("5:2", "--lines 5:2 ends before it starts"),
        ("9999:", "--lines 9999: starts after the last line, {}"),
        ("9999", "--lines 9999 starts after the last line, {}"),
    ],
)
def test_lines_that_are_not_there(compressed: Path, wanted: str, said: str) -> None:
    """A usage error says why nothing is printed."""
    ref = references(compressed)[0]
    count = len(split(run("show", ref, compressed, "--all").stdout_bytes))
    result = run("show", ref, compressed, "--lines", wanted)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert said.format(f"{count:,}") in result.stderr


def test_show_of_an_image_says_what_it_prints(compressed: Path) -> None:
    (ref,) = references(compressed, Kind.IMAGE)
    assert run("show", ref, "--all").stderr == "An image, in base64: 'show REF --all | base64 -d' gives the file.\n"
    assert run("show", references(compressed)[0], "--all").stderr == ""


@pytest.mark.parametrize("wanted", ["", "0:3", "a:b", ":5", "1:x", "-1", "1-2", "1" * 5000, "1:" + "2" * 5000])
def test_lines_that_are_none(compressed: Path, wanted: str) -> None:
    result = run("show", references(compressed)[0], compressed, f"--lines={wanted}")
    assert result.exit_code == 2
    assert "--lines needs A:B, two line numbers counted from 1" in result.stderr


def test_show_looks_upward(compressed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a path it is found from any folder below the session's."""
    below = compressed.parent / "src" / "deep"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert run("show", references(compressed)[0]).exit_code == 0
    monkeypatch.chdir(compressed.parent.parent)
    result = run("show", references(compressed)[0])
    assert result.exit_code == 2
    assert f"no original with the reference {references(compressed)[0]} found. Name the session: " in result.stderr


@pytest.mark.parametrize(
    ("variable", "below"), [("PI_CODING_AGENT_SESSION_DIR", ""), ("CLAUDE_CONFIG_DIR", "projects/-tmp/0a/subagents")]
)
def test_show_looks_where_agents_keep_sessions(
    here: Path, monkeypatch: pytest.MonkeyPatch, variable: str, below: str
) -> None:
    """By environment variables; which there are is a matter of the formats' own tests."""
    folder = here.parent / "agent" / below
    folder.mkdir(parents=True)
    path = put(folder / "session.jsonl")
    assert run("compress", path).exit_code == 0
    assert run("show", references(path)[0]).exit_code == 2
    monkeypatch.setenv(variable, str(here.parent / "agent"))
    assert run("show", references(path)[0]).exit_code == 0


def test_show_where_an_agents_folder_is_in_nobodys_home(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PI_CODING_AGENT_DIR", "~nobody-of-this-name/agent")
    result = run("show", "0123456789ab")
    assert result.exit_code == 2
    assert "0123456789ab found" in result.stderr


def test_show_passes_over_a_journal_that_cannot_be_read(
    compressed: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the reference may stand there: then it is 3, and the journal is named."""
    real = Path.open

    def denied(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.name == "bad.jsonl.history":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", denied)
    (store_in(compressed).folder / "bad.jsonl.history").touch()
    assert run("show", references(compressed)[0], compressed.parent).exit_code == 0
    result = run("show", "0123456789ab", compressed.parent)
    assert result.exit_code == 3
    assert "bad.jsonl.history: permission denied." in result.stderr


def test_show_says_when_a_reference_is_ambiguous(here: Path) -> None:
    """Exit code 2, and each candidate with its digest, what it is, and the journal that names it.

    The first stores had digests that can be aimed at: here is a collision.
    """
    digest = xxh3_64_hexdigest(ONE.encode())
    assert xxh3_64_hexdigest(OTHER.encode()) == digest
    for name, text in (("a.jsonl", ONE), ("b.jsonl", OTHER)):
        made = PiSession()
        made.user("Go.")
        made.step("bash", {"command": "x"}, text)
        path = write(here, turn(made, 2), name)
        assert run("compress", "--force", "--keep-turns", "1", "--protect-tokens", "0", path).exit_code == 0
        ours, journal = sha256(text.encode()).hexdigest(), store_in(path).journal
        first = journal.read_text().replace(f'"sha256":"{ours[:20]}"', f'"xxh3":"{digest}"')
        journal.write_text(first.replace(f'"ref":"{ours[:12]}"', f'"ref":"{digest[:12]}"'))
    result = run("show", digest[:12], ".")
    assert result.exit_code == 2
    assert f"{digest[:12]} matches 2 originals. Give more digits, or name the session." in result.stderr
    for name in "ab":
        said = rf"^{digest}  result \w+, [\d,]+ bytes, line \d+  .*{name}\.jsonl\.history$"
        assert re.search(said, result.stderr, re.MULTILINE)
    assert run("show", digest[:12], "a.jsonl").exit_code == 0


def test_show_of_a_damaged_original(compressed: Path) -> None:
    """Exit code 5: a wrong text is never printed."""
    flip(store_in(compressed).originals)
    codes = {run("show", ref, compressed).exit_code for ref in references(compressed)}
    assert 5 in codes


def test_show_on_a_terminal_prints_no_escapes(here: Path) -> None:
    """What a tool once printed must not reach the terminal as commands; into a pipe the bytes go as they are."""
    pty = pytest.importorskip("pty")
    path = here / "session.jsonl"
    lines = split(fixture("pi-anthropic.jsonl"))
    number = next(at for at, line in enumerate(lines) if b'"toolName":"bash"' in line and len(line) > 4000)
    lines[number] = lines[number].replace(b'"text":"', b'"text":"\\u001b]0;owned\\u0007\\u202e', 1)
    path.write_bytes(b"".join(lines))
    assert run("compress", path).exit_code == 0
    ref = re.findall(rb"show ([0-9a-f]+)", split(path.read_bytes())[number])[0].decode()
    command = [sys.executable, "-m", "sessioncompress", "show", ref, "--lines", "1"]
    raw = subprocess.run(command, cwd=here, capture_output=True, check=True).stdout
    assert raw.startswith(b"\x1b]0;owned\x07\xe2\x80\xae")
    parent, child = pty.openpty()
    with subprocess.Popen(command, cwd=here, stdout=child, stderr=child) as process:
        process.wait()
    os.close(child)
    shown = read_all(parent)
    assert shown.startswith(rb"\x1b]0;owned\x07\u202e")
    assert b"\x1b" not in shown
