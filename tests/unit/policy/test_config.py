"""compression.json, and the policy of a program: every key is checked, and an error names it, and what helps."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sessioncompress.errors import UsageError
from sessioncompress.policy import file
from sessioncompress.policy.file import KEYS, keys_of
from sessioncompress.policy.model import BALANCED, PRESETS, Limits, Placeholder, Policy, Rule, differences
from sessioncompress.policy.sources import policy_for

SECTIONS = {key: each.section for key, each in KEYS.items() if each.section}

GOOD: list[tuple[str, Any, Any]] = [
    ("enabled", False, False),
    ("sizeThresholdKB", 0, 0),
    ("everyTurns", 3, 3),
    ("everyTurns", None, None),
    ("turnThresholdBeforeCompress", 0, 0),
    ("protectTokens", 0, 0),
    ("protectTokens", None, None),
    ("protectTools", [], ()),
    ("protectTools", ["skill", "ask"], ("skill", "ask")),
    ("protectFiles", [], ()),
    ("protectFiles", ["RULES.md"], ("RULES.md",)),
    ("toolCallMaxBytes", 0, 0),
    ("toolResultMaxBytes", 99, 99),
    ("previewShare", 0, 0),
    ("previewShare", 1, 1),
    ("previewShare", 0.05, 0.05),
    ("previewMaxBytes", 0, 0),
    ("minSavedKB", 0, 0),
    ("stripThinking", False, False),
    ("eliminateRedundancy", False, False),
    ("keepBackup", False, False),
    ("backupDir", "../kept", "../kept"),
    ("backupDir", None, None),
    ("commitOriginals", True, True),
    ("quietSeconds", 1.5, 1.5),
    ("idleSeconds", 300, 300),
    ("logFile", "runs.jsonl", "runs.jsonl"),
    ("logFile", None, None),
    ("beforeCommand", "notify --x 'a b'", "notify --x 'a b'"),
    ("afterCommand", None, None),
]

GOOD_INSIDE: list[tuple[str, str, Any, Any]] = [
    ("prune", "enabled", True, True),
    ("prune", "only", True, True),
    ("prune", "pruneMinimum", 0, 0),
    ("prune", "pruneProtect", 1, 1),
    ("prune", "protectTools", [], ()),
    ("prune", "preserveRecentMessages", 0, 0),
    ("prune", "placeholder", "native", Placeholder.NATIVE),
    *(("budget", "rule", rule.value, rule) for rule in Rule),
    ("budget", "reservedOutputTokens", 1, 1),
    ("budget", "reservePercent", 100, 100),
    ("budget", "reserveTokens", 0, 0),
    ("budget", "thresholdPercent", 1, 1),
    ("budget", "thresholdPercent", None, None),
    ("budget", "thresholdTokens", 1, 1),
    ("budget", "thresholdTokens", None, None),
    ("budget", "targetTokens", 0, 0),
    ("budget", "actTokens", 200_000, 200_000),
    ("budget", "actMessages", 5, 5),
    ("budget", "actSeconds", 1_800, 1_800),
    ("budget", "safetyPercent", 50, 50),
    ("budget", "frequencyMultiplier", 3, 3.0),
    ("compact", "ask", False, False),
    ("compact", "askSeconds", 300, 300),
    ("budget", "models", [], ()),
    ("budget", "models", [{"pattern": "mine-*", "contextWindow": 8, "outputLimit": 2}], (Limits("mine-*", 8, 2),)),
]

BAD: list[tuple[str, Any, str]] = [
    ("protectTokens", (1 << 53) + 1, "to 9,007,199,254,740,992"),
    ("protectTokens", -1, "a whole number from 0 to 9,007,199,254,740,992, or null"),
    ("everyTurns", (1 << 53) + 1, "to 9,007,199,254,740,992"),
    ("enabled", "yes", "true or false"),
    ("enabled", 1, "true or false"),
    ("sizeThresholdKB", -1, "from 0 to 9,0"),
    ("sizeThresholdKB", 1.5, "whole number"),
    ("sizeThresholdKB", "100", "whole number"),
    ("sizeThresholdKB", True, "whole number"),
    ("everyTurns", 0, "from 1 to 9,007,199,254,740,992, or null"),
    ("turnThresholdBeforeCompress", None, "whole number"),
    ("protectTools", "skill", "list of tool names"),
    ("protectTools", ["skill", 1], "list of tool names"),
    ("protectFiles", "AGENTS.md", "list of file names"),
    ("protectFiles", ["AGENTS.md", None], "list of file names"),
    ("protectFiles", ["docs/AGENTS.md"], "without folders"),
    ("protectFiles", ["*.md"], "without folders"),
    ("protectFiles", ["x" * 201], "at most 200 of at most 200 characters"),
    ("protectFiles", ["x"] * 201, "at most 200 of at most 200 characters"),
    ("previewShare", -0.01, "a share from 0 to 1"),
    ("previewShare", 1.01, "a share from 0 to 1"),
    ("previewShare", 8, "a share from 0 to 1"),
    ("previewShare", "8 %", "a share from 0 to 1"),
    ("previewShare", True, "a share from 0 to 1"),
    ("previewShare", None, "a share from 0 to 1"),
    ("previewMaxBytes", -1, "from 0 to 9,0"),
    ("previewMaxBytes", 0.5, "whole number"),
    ("backupDir", "", "folder's path or null"),
    ("backupDir", 1, "folder's path or null"),
    ("backupDir", "a\0b", "folder's path or null"),
    ("quietSeconds", -1, "from 0 to 9,0"),
    ("quietSeconds", False, "number of seconds"),
    ("quietSeconds", 1e300, "to 9,007,199,254,740,992"),
    ("protectTools", ["x" * 201], "at most 200 of at most 200 characters"),
    ("protectTools", ["x"] * 201, "at most 200 of at most 200 characters"),
    ("idleSeconds", "5", "number of seconds"),
    ("logFile", "", "file's path or null"),
    ("beforeCommand", "", "a command line of at most 4,096 characters or null"),
    ("beforeCommand", ["ls"], "a command line of"),
    ("afterCommand", "a\0b", "a command line of"),
    ("afterCommand", "x" * 4_097, "a command line of"),
]

_A_MODEL = 'a list of {"pattern": text, "contextWindow": tokens, "outputLimit": tokens}'
BAD_INSIDE: list[tuple[str, str, Any, str]] = [
    ("prune", "enabled", 1, "true or false"),
    ("prune", "pruneMinimum", -1, "from 0 to 9,0"),
    ("prune", "protectTools", "read", "list of tool names"),
    ("prune", "placeholder", "none", '"marker" or "native"'),
    ("budget", "rule", "tokens", '"size" or "gencode" or "omp" or "eunice" or "deliberate"'),
    ("budget", "rule", [], '"size"'),
    ("budget", "reservePercent", 0, "from 1 to 100"),
    ("budget", "reservePercent", 101, "from 1 to 100"),
    ("budget", "reservePercent", None, "from 1 to 100"),
    ("budget", "thresholdPercent", 0, "from 1 to 100, or null"),
    ("budget", "thresholdTokens", 0, "from 1 to 9,007,199,254,740,992, or null"),
    ("budget", "actTokens", 9_999, "a whole number from 10,000 to 200,000"),
    ("budget", "actMessages", 101, "a whole number from 5 to 100"),
    ("budget", "actSeconds", 59, "a whole number of seconds from 60 to 1,800"),
    ("budget", "safetyPercent", 96, "a whole number from 30 to 95"),
    ("budget", "frequencyMultiplier", 1.1, "a number from 1.2 to 3"),
    ("budget", "frequencyMultiplier", True, "a number from 1.2 to 3"),
    ("compact", "ask", 0, "true or false"),
    ("compact", "askSeconds", 9, "from 10 to 300"),
    ("budget", "models", {}, _A_MODEL),
    ("budget", "models", ["gpt-*"], _A_MODEL),
    ("budget", "models", [{"pattern": "x", "contextWindow": 1}], _A_MODEL),
    ("budget", "models", [{"pattern": "x", "contextWindow": 1, "outputLimit": 0}], _A_MODEL),
    ("budget", "models", [{"pattern": "", "contextWindow": 1, "outputLimit": 1}], _A_MODEL),
    ("budget", "models", [{"pattern": "x" * 201, "contextWindow": 1, "outputLimit": 1}], _A_MODEL),
    ("budget", "models", [{"pattern": "x", "contextWindow": 1, "outputLimit": 1}] * 201, _A_MODEL),
    ("budget", "models", [{"pattern": "x", "contextWindow": True, "outputLimit": 1}], _A_MODEL),
    ("budget", "models", [{"pattern": "x", "contextWindow": 1, "outputLimit": 1, "more": 1}], _A_MODEL),
    ("budget", "models", [{"pattern": "x", "contextWindow": 2**60, "outputLimit": 1}], "and tokens from 1 to 9,0"),
]

TYPOS = [
    ("sizeThresholdKb", "sizeThresholdKB"),
    ("size_threshold_kb", "sizeThresholdKB"),
    ("protectTool", "protectTools"),
    ("turnThreshold", "turnThresholdBeforeCompress"),
    ("keepbackup", "keepBackup"),
    ("pruneMinimum", "prune.pruneMinimum"),
    ("rules", "budget.rule"),
    ("Preset", "preset"),
    ("enablePruning", "prune.enabled"),
    ("idleTimeoutSeconds", "idleSeconds"),
    ("remoteEnabled", "summarizer.endpoint"),
    ("keepRecentTokens", "compact.keepTokens"),
    ("compressionStrategy", "compact.keep"),
    ("compressionInteractive", "compact.ask"),
    ("compressionPromptTimeout", "compact.askSeconds"),
    ("compressionTriggerTokens", "budget.actTokens"),
    ("compressionTriggerUtilization", "budget.safetyPercent"),
    ("compressionMinMessagesSinceLastCompress", "budget.actMessages"),
    ("compressionMinTimeBetweenPrompts", "budget.actSeconds"),
    ("compressionFrequencyMultiplier", "budget.frequencyMultiplier"),
]

NO_POLICY = [
    ("no JSON", b"{", "is not JSON"),
    ("empty", b"", "is not JSON"),
    ("a byte order mark", b'\xef\xbb\xbf{"session":{}}', "is not JSON"),
    (
        "a comma too many",
        b'{\n  "session": {\n    "beforeCommand": "x",\n  }\n}',
        r"compression.json:3: .*not JSON: .*, at column 25\. No session",
    ),
    ("an escape", b'{"session":\x1b[31m}', r"json:1: .*, at column 12\. No session"),
    ("a long line", b'{"session": ' + b"x" * 500, r"at column 13\. No session"),
    ("a list", b"[]", r"the policy is \[\], but must be an object"),
    ("a key twice", b'{"session":{"enabled":true,"enabled":false}}', 'the key "enabled" appears twice'),
    ("no section", b'{"sessions":{}}', 'no object "session"'),
    ("a section that is no object", b'{"session":[]}', 'no object "session"'),
]


def policy_file(folder: Path, section: Any) -> Path:
    path = folder / "compression.json"
    path.write_text(json.dumps({"session": section, "another tool": {"enabled": "whatever"}}))
    return path


def load(file: Path, preset: str | None = None) -> Policy:
    return policy_for(Path("session.jsonl"), file, preset)


@pytest.mark.parametrize(("key", "value", "expected"), GOOD)
def test_a_key_sets_its_field(tmp_path: Path, key: str, value: Any, expected: Any) -> None:
    """And nothing else, in a file and in a program; other tools' sections are theirs."""
    name = KEYS[key].field
    policy = load(policy_file(tmp_path, {key: value}))
    assert policy == Policy(**{name: value}) == replace(BALANCED, **{name: expected})
    assert type(getattr(policy, name)) is type(expected)


@pytest.mark.parametrize(("section", "key", "value", "expected"), GOOD_INSIDE)
def test_a_key_inside_a_section_sets_its_field_alone(
    tmp_path: Path, section: str, key: str, value: Any, expected: Any
) -> None:
    """What the section does not say stays as the preset has it."""
    base = PRESETS["low-cost"]
    policy = load(policy_file(tmp_path, {section: {key: value}}), "low-cost")
    name = keys_of(SECTIONS[section])[key].field
    assert policy == replace(base, **{section: replace(getattr(base, section), **{name: expected})})
    assert type(getattr(getattr(policy, section), name)) is type(expected)


@pytest.mark.parametrize(("section", "key", "value", "must_be"), BAD_INSIDE)
def test_a_wrong_value_inside_a_section_is_an_error_that_names_its_place(
    tmp_path: Path, section: str, key: str, value: Any, must_be: str
) -> None:
    with pytest.raises(UsageError) as caught:
        load(policy_file(tmp_path, {section: {key: value}}))
    assert f'"session.{section}.{key}"' in str(caught.value)
    assert must_be in str(caught.value)
    with pytest.raises(UsageError, match=re.escape(must_be)):
        replace(getattr(BALANCED, section), **{keys_of(SECTIONS[section])[key].field: value})


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("value", [True, None, [], "on"])
def test_a_section_is_an_object(tmp_path: Path, section: str, value: Any) -> None:
    """One that is not, is no section with nothing in it."""
    with pytest.raises(UsageError, match=f'"session.{section}" is .*, but must be an object'):
        load(policy_file(tmp_path, {section: value}))


@pytest.mark.parametrize(
    ("dotted", "written"), [("prune.enabled", "enabled"), ("budget.rule", "rule"), ("prune.x", "x")]
)
def test_a_dotted_key_is_told_how_it_is_written(tmp_path: Path, dotted: str, written: str) -> None:
    """Documentation has dots, the file has objects."""
    section = dotted.partition(".")[0]
    with pytest.raises(UsageError, match=re.escape(f'; write "{section}": {{"{written}": ...}}')):
        load(policy_file(tmp_path, {dotted: True}))


@pytest.mark.parametrize(("key", "value", "must_be"), BAD)
def test_a_wrong_value_is_an_error_that_says_what_it_must_be(
    tmp_path: Path, key: str, value: Any, must_be: str
) -> None:
    """It names the file and the key, or the field that a program gives it to."""
    file = policy_file(tmp_path, {key: value})
    with pytest.raises(UsageError) as caught:
        load(file)
    said = str(caught.value)
    assert all(each in said for each in (str(file), f'"session.{key}"', must_be, "No session was changed."))
    assert caught.value.exit_code == 2
    for make in (Policy, partial(replace, BALANCED)):
        with pytest.raises(UsageError) as caught:
            make(**{KEYS[key].field: value})
        said = str(caught.value)
        assert said.startswith(f"the policy's {KEYS[key].field} is ")
        assert must_be in said
        assert said.endswith("No session was changed. Correct the policy.")


@pytest.mark.parametrize(("typo", "meant"), TYPOS)
def test_an_unknown_key_is_an_error_that_names_the_nearest(tmp_path: Path, typo: str, meant: str) -> None:
    """A key that is silently ignored protects nothing."""
    with pytest.raises(UsageError, match=f'did you mean "{meant}"') as caught:
        load(policy_file(tmp_path, {typo: 1}))
    assert f'"session.{typo}"' in str(caught.value)


BAD_PRESETS: list[Any] = ["cheap", "Archive", "", None, 1, True, ["archive"], {"archive": 1}]


@pytest.mark.parametrize("preset", BAD_PRESETS)
def test_a_preset_that_there_is_not_is_an_error_that_names_those_that_there_are(tmp_path: Path, preset: Any) -> None:
    with pytest.raises(UsageError) as caught:
        load(policy_file(tmp_path, {"preset": preset}), "archive")
    assert '"session.preset" is ' in str(caught.value)
    assert 'must be "balanced" or "low-cost" or "high-quality" or "archive". ' in str(caught.value)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_file_may_name_the_preset_that_its_other_keys_change(tmp_path: Path, preset: str) -> None:
    base = PRESETS[preset]
    assert load(policy_file(tmp_path, {"preset": preset})) == base
    assert load(policy_file(tmp_path, {"preset": preset}), "low-cost") == PRESETS["low-cost"]
    changed = replace(base, protect_tokens=7, prune=replace(base.prune, enabled=True))
    assert load(policy_file(tmp_path, {"protectTokens": 7, "prune": {"enabled": True}, "preset": preset})) == changed


@pytest.mark.parametrize("preset", PRESETS.values(), ids=list(PRESETS))
def test_a_preset_says_only_how_much(preset: Policy) -> None:
    """A file of a stranger may name it: it says nothing of where anything is written, or what is thrown away."""
    for key in KEYS.values():
        assert not key.only_user or getattr(preset, key.field) == getattr(BALANCED, key.field), key


@pytest.mark.parametrize("section", SECTIONS)
def test_a_preset_stands_in_the_outermost_object_alone(tmp_path: Path, section: str) -> None:
    with pytest.raises(UsageError, match=f'unknown key "session.{section}.preset"'):
        load(policy_file(tmp_path, {section: {"preset": "archive"}}))


def test_a_key_that_there_is_not_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r'"session\.enableCompaction"; no key starts a summary: run .*--if-due'):
        load(policy_file(tmp_path, {"enableCompaction": True}))


@pytest.mark.parametrize(("data", "said"), [case[1:] for case in NO_POLICY], ids=[case[0] for case in NO_POLICY])
def test_a_file_that_is_no_policy(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "compression.json"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=said):
        load(path)


def test_a_value_nested_beyond_measure_is_an_error_like_others(tmp_path: Path) -> None:
    """The parser reads deeper than the writer writes."""
    path = tmp_path / "compression.json"
    path.write_text('{"session":{"enabled":' + "[" * 300 + "]" * 300 + "}}")
    with pytest.raises(UsageError):
        load(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load(tmp_path / "no.json")


def test_every_field_but_those_of_the_presets_has_a_key() -> None:
    """What a user may choose, the file may say."""
    assert {key.field for key in KEYS.values()} == set(Policy.__struct_fields__) - {"at_rest"}


@pytest.mark.parametrize("preset", PRESETS)
def test_what_a_policy_writes_it_reads(tmp_path: Path, preset: str) -> None:
    policy = PRESETS[preset]
    written = file.to_mapping(policy)
    assert load(policy_file(tmp_path, written), preset) == policy
    assert set(written) == set(KEYS)


@pytest.mark.parametrize("limit", [0, 1, 255, 256, 300, 10_000])
def test_limits_never_offer_our_own_markers_again(limit: int) -> None:
    """However low the policy sets them."""
    policy = Policy(tool_call_max_bytes=limit, tool_result_max_bytes=limit)
    assert policy.call_limit == policy.result_limit == max(limit, 256)
    assert policy.leaf_limit == min(max(limit, 256), 400)


def test_the_journal_says_what_is_not_the_default() -> None:
    """So it tells policies apart, also by what presets alone set; a log elsewhere makes no other policy."""
    told = [differences(policy) for policy in (*PRESETS.values(), replace(BALANCED, at_rest=True))]
    assert all(told.count(each) == 1 for each in told)
    assert (told[0], differences(replace(BALANCED, log_file="/log"))) == ({}, {})
    assert told[list(PRESETS).index("high-quality")] == {
        "protectTokens": None,
        "toolResultMaxBytes": 2000,
        "previewShare": 0.1,
        "previewMaxBytes": 4000,
        "stripThinking": False,
        "prune": {"pruneMinimum": 30000, "pruneProtect": 60000},
        "compact": {"keepTokens": 40000, "summaryTokens": 5000},
    }
    assert differences(replace(BALANCED, protect_tools=("a",))) == {"protectTools": ["a"]}


# In a program


@pytest.mark.parametrize("name", Policy.__struct_fields__)
def test_every_field_is_checked(name: str) -> None:
    wrong: dict[str, Any] = {name: object()}
    with pytest.raises(UsageError, match=f"the policy's {name} is <object "):
        Policy(**wrong)


PREVIEWS: list[tuple[float, int, bool]] = [
    (0, 0, False),
    (0, 2_000, False),
    (0.08, 0, False),
    (0.001, 1, True),
    (0.08, 2_000, True),
]
"""Share, most bytes, and whether anything of a text stays readable."""


@pytest.mark.parametrize(("share", "most", "expected"), PREVIEWS)
def test_either_number_at_0_means_no_previews(share: float, most: int, expected: bool) -> None:
    assert replace(BALANCED, preview_share=share, preview_max_bytes=most).has_previews is expected


def test_a_preset_that_there_is_not(tmp_path: Path) -> None:
    """The error is ours, and names those that there are."""
    with pytest.raises(UsageError) as caught:
        policy_for(tmp_path / "s.jsonl", None, "cheap")
    said = "there is no preset 'cheap'. No session was changed. Presets are balanced, low-cost, high-quality, archive."
    assert str(caught.value) == said
    for name, preset in PRESETS.items():
        assert policy_for(tmp_path / "s.jsonl", None, name) == preset
