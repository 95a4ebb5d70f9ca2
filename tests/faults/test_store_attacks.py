"""The store under attack: what rots, what was forged, what is made to be expanded, what quotes our own marker."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from sessioncompress.errors import Damaged, SessionCompressError
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.verify import verify_session
from sessioncompress.store import disk
from sessioncompress.store.layout import store_in
from tests.faults.forging import append_forged, commands, forge
from tests.faults.scenes import NAME, SCENES, SIZES, built
from tests.faults.watch import nothing_outside
from tests.support.runs import append, compress, turn, write
from tests.unit.store.tools import everything

_FLIPS = 100
_EVERY = 9
"""One of so many values is also put where a killed run leaves its records: what reads them there is the same."""


@pytest.mark.parametrize("which", ["originals", "journal"])
def test_verify_finds_every_flipped_bit(tmp_path: Path, which: str) -> None:
    """Wherever it is: in a text, in a number, in what no other command looks at."""
    dice = random.Random(which)
    path = SCENES[1].prepare(tmp_path, SIZES[0])
    compress(path)
    file = getattr(store_in(path), which)
    right = file.read_bytes()
    for position in (0, len(right) - 1, *(dice.randrange(len(right)) for _ in range(_FLIPS))):
        file.write_bytes(right[:position] + bytes([right[position] ^ 1 << dice.randrange(8)]) + right[position + 1 :])
        with pytest.raises(Damaged):
            verify_session(path)
    file.write_bytes(right)
    verify_session(path)


def test_a_flip_in_what_nobody_needs_stops_no_restore(tmp_path: Path) -> None:
    """Every line that goes back is compared with its own SHA-256; the rest of the journal is for other commands."""
    made = built(SIZES[0], 1)
    path = write(tmp_path, made)
    compress(path)
    journal = store_in(path).journal
    journal.write_bytes(journal.read_bytes().replace(b'"tool":"bash"', b'"tool":"bush"', 1))
    with pytest.raises(Damaged, match="has changed"):
        verify_session(path)
    append(path, turn(made))
    restore_session(path)
    assert path.read_bytes() == made.bytes()


# Records that were forged


TEXT_FIELDS = [
    *(("edit", field) for field in ("type", "was", "was.sha256", "isSha256")),
    *(("block", field) for field in ("type", "ref", "path", "kind", "tool", "callId", "sha256", "replacement", "file")),
    *(("block", "gitBlob"), ("run", "type"), ("run", "at"), ("run", "version"), ("run", "policy"), ("run", "head")),
    *(("run", "policy.backupDir"), ("run", "originalsSha256"), ("run", "sha256"), ("run", "stats"), ("run", "records")),
]
COUNT_FIELDS = [
    *(("edit", f"was.{field}") for field in ("frame", "offset", "bytes")),
    *(("block", field) for field in ("line", "bytes", "lines")),
    *(("run", field) for field in ("originalSize", "compressedSize", "storeSize", "boundary", "stats.turns")),
    *(("run", f"records.{field}") for field in ("lines", "blocks")),
]
HOSTILE = {
    "an absolute path": "OUTSIDE",
    "a way up": "../../outside/secret",
    "the folder above": "..",
    "a system file": "/etc/passwd",
    "a device": "/dev/zero",
    "a home": "~root/.ssh/id_rsa",
    "a URL": "file:///etc/passwd",
    "a shell's words": "$(touch pwned); `id` && rm -rf .",
    "an option": "--backup-dir=/tmp",
    "a pattern": "**/*",
    "a path of Windows": "C:\\Windows\\win.ini",
    "NUL": "\0",
    "a path behind NUL": "x\0/../../outside/secret",
    "escapes": "\x1b]0;owned\x07\x1b[2J\x9b31m",
    "bidi": "\u202e\u2066\u200f",
    "a line break": 'a\n{"type":"run"}\nb',
    "a JSON pointer out of all": "/../../0/-1/message/~2",
    "nothing": "",
    "digits": "0" * 64,
    "much": "x" * 5000,
    "very much": "y" * 900_000,
}
TEXTS = {
    **{name: json.dumps(text) for name, text in HOSTILE.items()},
    "a nest": "[" * 1000 + "]" * 1000,
    "a nest of objects": '{"a":' * 1000 + "0" + "}" * 1000,
    "pairs": '[["a",1],[[],2]]',
    "no text": "7",
    "null": "null",
}
COUNTS = {
    **{f"2^{power}": str(2**power) for power in (31, 32, 53, 62)},
    "2^62-1": str(2**62 - 1),
    "2^63": str(2**63),
    "2^64-1": str(2**64 - 1),
    "2^64": str(2**64),
    "-1": "-1",
    "-2^63": str(-(2**63)),
    "half": "1.5",
    "1e308": "1e308",
    "1e400": "1e400",
    "NaN": "NaN",
    "-0": "-0.0",
    "true": "true",
    "false": "false",
    "null": "null",
    "a list": "[]",
    "a text": '"1"',
    "many digits": "9" * 5000,
    "many digits in a text": '"' + "9" * 5000 + '"',
    "a text with NUL": '"1\\u00002"',
}
CASES = [
    *((kind, field, TEXTS) for kind, field in TEXT_FIELDS),
    *((kind, field, COUNTS) for kind, field in COUNT_FIELDS),
]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a session that was compressed twice, and a secret outside of its own folder."""
    folder = tmp_path_factory.mktemp("attacked")
    for name in ("work", "outside"):
        (folder / name).mkdir()
    (folder / "outside" / "secret").write_text("the secret\n")
    compress(SCENES[1].prepare(folder / "work", SIZES[0]))
    return folder


@pytest.mark.parametrize("put", [forge, append_forged], ids=["committed", "behind the last run"])
@pytest.mark.parametrize(("kind", "field", "values"), CASES, ids=[f"{kind}.{field}" for kind, field, _ in CASES])
def test_a_forged_record_leads_nowhere(
    template: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    field: str,
    values: Mapping[str, str],
    put: Callable[..., None],
) -> None:
    """Every command works or refuses in a short printable sentence, and touches nothing but the session and its folder."""
    original = built(SIZES[0], 2).bytes()
    monkeypatch.setattr(disk.system, "fsync", lambda fd: None)
    for number, (name, value) in enumerate(values.items()):
        if put is append_forged and number % _EVERY:
            continue
        there = tmp_path / str(number)
        shutil.copytree(template, there)
        path = there / "work" / NAME
        put(path, kind, field, value.replace("OUTSIDE", str(there / "outside" / "secret")))
        _attacked(path, everything(there), original, name)
        shutil.rmtree(there)


def _attacked(path: Path, before: Mapping[str, bytes | None], original: bytes, name: str) -> None:
    """Run every command on a session; check what each says and does, and put back what it changed."""
    old = path.read_bytes()
    for command, act in commands(reference_in(old)).items():
        try:
            with nothing_outside(path.parent):
                act(path)
        except SessionCompressError as error:
            said = str(error)
            assert said.isprintable(), (name, command)
            assert len(said) < len(str(path)) * 2 + 1000, (name, command)
        if command in ("verify", "stats", "show") or "--dry-run" in command:
            assert everything(path.parent.parent) == before, (name, command)
        elif command == "restore":
            # A line of which the journal says another thing now is nobody's, and stays.
            left = {*old.splitlines(), *original.splitlines()}
            assert left.issuperset(path.read_bytes().splitlines()), (name, command)
        for place, content in everything(path.parent.parent).items():
            assert place in before or place.startswith("work/.sessioncompress"), (name, command)
            assert not place.startswith("outside") or content == before[place], (name, command)
        _put_back(path.parent.parent, before)


def reference_in(session: bytes) -> str:
    """Return the reference that a marker of a session names."""
    return str(re.findall(rb"sessioncompress show ([0-9a-f]+)", session)[0], "ascii")


def _put_back(folder: Path, before: Mapping[str, bytes | None]) -> None:
    for place, content in before.items():
        if content is None:
            (folder / place).mkdir(mode=0o700, exist_ok=True)
        elif not (folder / place).exists() or (folder / place).read_bytes() != content:
            (folder / place).write_bytes(content)


@pytest.mark.parametrize("field", ["ref", "sha256"])
def test_a_reference_without_digits_is_damage(tmp_path: Path, field: str) -> None:
    """Also to a run that gives out new references."""
    path = SCENES[1].prepare(tmp_path, SIZES[0])
    forge(path, "block", field, '""')
    for act in (compress, verify_session, restore_session):
        with pytest.raises(Damaged, match="digits"):
            act(path)
