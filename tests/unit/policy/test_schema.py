"""The JSON Schema of a policy accepts what the loader accepts, and rejects what it rejects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import sessioncompress
from sessioncompress.errors import UsageError
from sessioncompress.policy.file import keys_of, to_mapping
from sessioncompress.policy.model import PRESETS, Policy
from tests.unit.policy.test_config import BAD, BAD_INSIDE, BAD_PRESETS, GOOD, GOOD_INSIDE, SECTIONS, TYPOS, load

SHIPPED = Path(sessioncompress.__file__).parent / "policy" / "compression.schema.json"
SCHEMA = json.loads(SHIPPED.read_bytes())

NO_SECTIONS: list[Any] = [True, None, [], "on", {"enable": True}]

DOCUMENTS: list[Any] = [
    *({"session": {key: value}} for key, value, _ in GOOD),
    *({"session": {key: value}} for key, value, _ in BAD),
    *({"session": {section: {key: value}}} for section, key, value, _ in (*GOOD_INSIDE, *BAD_INSIDE)),
    *({"session": {section: value}} for section in SECTIONS for value in NO_SECTIONS),
    *({"session": {key: 1}} for key, _ in TYPOS),
    *({"session": {"preset": preset}} for preset in (*PRESETS, *BAD_PRESETS)),
    *({"session": to_mapping(policy) | {"preset": name}} for name, policy in PRESETS.items()),
    {"session": {"atRest": True}},
    {"session": {"prune": {"preset": "archive"}}},
    {"session": {"protectFiles": ["AGENTS.md\n", ""], "backupDir": "a\nb"}},
    {"$schema": SCHEMA["$id"], "session": {}, "another tool": {"enabled": "whatever"}},
    {"session": {"$schema": SCHEMA["$id"]}},
    {"sessions": {}},
    {"session": []},
    {"session": None},
    {},
    [],
    None,
    "session",
]


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("document", DOCUMENTS, ids=range(len(DOCUMENTS)))
def test_it_accepts_what_the_loader_accepts(tmp_path: Path, document: Any) -> None:
    """Of a file that the user names, with a section for us."""
    file = tmp_path / "compression.json"
    file.write_text(json.dumps(document))
    try:
        load(file)
        accepted = True
    except UsageError:
        accepted = False
    assert Draft202012Validator(SCHEMA).is_valid(document) is accepted


def test_both_are_in_the_table() -> None:
    valid = list(map(Draft202012Validator(SCHEMA).is_valid, DOCUMENTS))
    assert valid.count(True) > 40
    assert valid.count(False) > 60


def test_every_key_has_a_meaning_in_it() -> None:
    section = SCHEMA["properties"]["session"]["properties"]
    assert section.keys() == keys_of(Policy).keys() | {"preset"}
    for name, inner in SECTIONS.items():
        assert inner is not None
        assert section[name]["properties"].keys() == keys_of(inner).keys()
    leaves = [each for name, each in section.items() if name not in SECTIONS]
    leaves += [each for name in SECTIONS for each in section[name]["properties"].values()]
    assert all(each["description"].endswith((".", ",")) for each in leaves)
    assert all("default" in each for each in leaves)
