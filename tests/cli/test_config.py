"""`config`: what counts and what says so, where files are looked for, and a file to begin with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.policy.file import flat, to_mapping
from sessioncompress.policy.model import PRESETS
from sessioncompress.policy.sources import policy_for
from tests.support.commands import document, run


def policy(folder: Path, section: Mapping[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "compression.json").write_text(json.dumps({"session": section}))
    return folder / "compression.json"


def said(*arguments: str) -> dict[str, tuple[str, str]]:
    """Return the keys that `config show` prints: their values, and what says so."""
    result = run("config", "show", *arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    rows = (line.split("  ", 1) for line in result.stdout.splitlines())
    values = {key: rest.strip().removesuffix(")").rpartition("  (") for key, rest in rows}
    return {key: (value, by) for key, (value, _, by) in values.items()}


def test_every_key_is_shown_with_what_says_so(here: Path) -> None:
    """In the order of the policy, the preset first."""
    file = policy(here, {"preset": "low-cost", "minSavedKB": 1, "prune": {"enabled": True}})
    shown = said()
    assert list(shown) == ["preset", *flat(to_mapping(PRESETS["balanced"]))]
    assert shown["preset"] == ('"low-cost"', str(file))
    assert shown["minSavedKB"] == ("1", str(file))
    assert shown["prune.enabled"] == ("true", str(file))
    assert shown["protectTokens"] == ("8000", "preset low-cost")
    assert shown["stripThinking"] == ("true", "default")
    chosen = said("--preset", "archive")
    assert chosen["preset"] == ('"archive"', "--preset")
    assert chosen["protectTools"] == ("[]", "preset archive")
    assert chosen["minSavedKB"] == ("1", str(file))


def test_a_session_counts_by_its_folder(here: Path) -> None:
    """And so does a folder; a file with --config takes the place of the nearest one."""
    file = policy(here / "below", {"protectTokens": 5})
    session = here / "below" / "s.jsonl"
    session.write_bytes(b"")
    assert said(str(session))["protectTokens"] == said("below")["protectTokens"] == ("5", str(file))
    assert said()["protectTokens"] == ("20000", "default")
    assert said("--config", "below/compression.json")["protectTokens"] == ("5", "below/compression.json")
    lines = run("config", "path", str(session)).stdout.splitlines()
    assert lines[0].startswith("not there    ")
    assert lines[1:] == [f"counts       {file}"]
    assert run("config", "path").stdout.splitlines()[1] == f"not there    {here / 'compression.json'}"


def test_the_document(here: Path) -> None:
    file = policy(here, {"preset": "archive", "protectTools": ["a"]})
    shown = document("config", "show", "--json")
    assert shown["schema"] == "sessioncompress.config/1"
    keys = {each["key"]: each for each in shown["keys"]}
    assert keys["protectTools"] == {"key": "protectTools", "value": ["a"], "by": "file", "file": str(file)}
    assert keys["protectTokens"] == {"key": "protectTokens", "value": 4000, "by": "preset", "file": None}


@pytest.mark.parametrize("action", ["show", "path", "init"])
@pytest.mark.parametrize(
    ("section", "complaint"),
    [
        ({"protectTool": []}, 'did you mean "protectTools"'),
        ({"preset": "\x1b[31m"}, '"session.preset" is "\\u001b[31m", but must be "balanced"'),
        ({"keepBackup": False}, "would delete originals, which a file found near a session may not"),
    ],
    ids=["a key", "a preset", "a key of the user"],
)
def test_a_wrong_file_is_the_error_that_it_is_for_a_run(
    here: Path, action: str, section: Mapping[str, Any], complaint: str
) -> None:
    """The places are those that are looked for: there a key that does not count is none."""
    policy(here, section)
    (here / "below").mkdir()
    result = run("config", action, "below")
    if action == "path":
        assert result.exit_code == 0
        return
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert not list((here / "below").iterdir())


def test_a_new_file_comes_to_what_counts(here: Path) -> None:
    """Also below a file that it hides from now on; and none is overwritten."""
    policy(here, {"minSavedKB": 3, "budget": {"rule": "omp"}, "toolCallMaxBytes": 500})
    session = here / "below" / "s.jsonl"
    session.parent.mkdir()
    before = policy_for(session, None, "low-cost")
    result = run("config", "init", "below", "--preset", "low-cost")
    assert (result.exit_code, result.stdout) == (0, "below/compression.json: written\n")
    written = json.loads((here / "below" / "compression.json").read_bytes())
    assert written["session"] == {
        "preset": "low-cost",
        "toolCallMaxBytes": 500,
        "minSavedKB": 3,
        "budget": {"rule": "omp"},
    }
    assert set(written) == {"session"}
    assert policy_for(session) == before
    again = run("config", "init", "below")
    assert again.exit_code == 4
    assert "below/compression.json: the file exists. Nothing was written." in again.stderr
    assert policy_for(session) == before


def test_a_new_file_names_the_schema_where_it_has_an_address(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An editor that asks a domain that is not there says so at each file."""
    address = "https://sessioncompress.dev/compression.schema.json"
    monkeypatch.setattr("sessioncompress.policy.file.schema_address", lambda: address)
    assert run("config", "init", ".").exit_code == 0
    assert json.loads((here / "compression.json").read_bytes())["$schema"] == address


def test_json_goes_with_show(here: Path) -> None:
    assert run("config", "path", "--json").exit_code == 2
    assert "--json only works with show" in run("config", "init", "--json").stderr
    assert not (here / "compression.json").exists()
