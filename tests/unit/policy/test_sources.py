"""Which policy counts: the order of its sources, whose files are heeded, and what one near a session may say."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import platformdirs
import pytest
from jsonschema import Draft202012Validator
from msgspec.structs import replace
from platformdirs.macos import MacOS
from platformdirs.unix import Unix

import sessioncompress
from sessioncompress.errors import UsageError
from sessioncompress.policy import file, model, sources
from sessioncompress.policy.file import flat, keys_of, to_mapping
from sessioncompress.policy.model import BALANCED, PRESETS, Policy, Section, must_be
from sessioncompress.policy.sources import Policies, policy_for
from tests.unit.policy.test_config import BAD, BAD_INSIDE, BAD_PRESETS, GOOD, GOOD_INSIDE, SECTIONS, TYPOS, load


def write(path: Path, section: Mapping[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"session": section}))
    path.chmod(0o644)
    return path


@pytest.fixture
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    return tmp_path / "configuration" / "sessioncompress" / "config.json"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    (tmp_path / "clone" / "sessions").mkdir(parents=True)
    return tmp_path / "clone"


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a file or link be another user's; who is not root becomes that other one, as far as we know."""
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534, follow_symlinks=False)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 65534)


DEFAULTS: dict[str, Any] = {
    "keepBackup": True,
    "logFile": None,
    "backupDir": None,
    "commitOriginals": False,
    "summarizer": {},
    "beforeCommand": None,
    "afterCommand": None,
}
"""Of the keys that only the user may set to anything else."""


# The order


def test_from_the_weakest_to_the_strongest(clone: Path, configuration: Path, tmp_path: Path) -> None:
    """Each changes what it says of the one before; a named file takes the place of the nearest one alone."""
    session, warned = clone / "sessions" / "s.jsonl", list[str]()
    write(configuration, {"protectTokens": 1, "minSavedKB": 1, "toolCallMaxBytes": 1})
    write(clone / "compression.json", {"minSavedKB": 2, "toolCallMaxBytes": 2, "everyTurns": 2})
    named = write(tmp_path / "named.json", {"toolCallMaxBytes": 3})
    near = Policies(None, "low-cost", {"min_size": 4, "idle_seconds": None}, warn=warned.append).of(session)
    assert (near.tool_result_max_bytes, near.protect_tokens, near.min_saved_kb) == (600, 1, 2)
    assert (near.tool_call_max_bytes, near.every_turns, near.size_threshold_kb) == (2, 2, 4)
    other = Policies(named, None, {}, warn=warned.append).of(session)
    assert (other.protect_tokens, other.min_saved_kb, other.tool_call_max_bytes, other.every_turns) == (1, 1, 3, None)
    assert warned == []


PRESET_SAID: list[tuple[str | None, str | None, str | None, str]] = [
    (None, None, None, "balanced"),
    ("archive", None, None, "archive"),
    (None, "high-quality", None, "high-quality"),
    ("archive", "high-quality", None, "high-quality"),
    ("archive", "high-quality", "low-cost", "low-cost"),
    ("archive", None, "balanced", "balanced"),
]
"""What the user's file, the nearest one and the option say, and which preset it comes to."""


@pytest.mark.parametrize(("user", "near", "option", "expected"), PRESET_SAID)
def test_the_preset_of_the_strongest_is_the_base_of_all_keys(
    clone: Path, configuration: Path, user: str | None, near: str | None, option: str | None, expected: str
) -> None:
    """Keys of a weaker file stay, whatever preset a stronger one names."""
    write(configuration, {"minSavedKB": 1, "keepBackup": True} | ({"preset": user} if user else {}))
    file = write(clone / "compression.json", {"everyTurns": 2} | ({"preset": near} if near else {}))
    warned = list[str]()
    policies, session = Policies(None, option, warn=warned.append), clone / "sessions" / "s.jsonl"
    assert policies.of(session) == replace(model.PRESETS[expected], min_saved_kb=1, every_turns=2)
    settings = {each.key: each for each in policies.settings(session)}
    by = (
        ("option", None) if option else ("file", file if near else configuration) if near or user else ("default", None)
    )
    assert settings["preset"] == ("preset", expected, *by)
    assert settings["minSavedKB"] == ("minSavedKB", 1, "file", configuration)
    assert settings["keepBackup"].file == configuration
    assert settings["everyTurns"] == ("everyTurns", 2, "file", file)
    assert settings["prune.enabled"] == ("prune.enabled", False, "default", None)
    of_presets = {key for key, each in settings.items() if each.by == "preset"}
    assert (of_presets != set()) is (expected != "balanced")
    assert set(settings) == {"preset", *flat(to_mapping(BALANCED))}
    assert warned == []


def test_what_may_not_count_says_nothing(clone: Path, configuration: Path) -> None:
    """A key that a file near a session may not set is the default's, also where it says the default."""
    file = write(clone / "compression.json", {"keepBackup": True, "protectTokens": 20_000})
    settings = {each.key: each for each in Policies(warn=lambda _: None).settings(clone / "s.jsonl")}
    assert settings["keepBackup"] == ("keepBackup", True, "default", None)
    assert settings["protectTokens"] == ("protectTokens", 20_000, "file", file)


def test_the_places_of_policies_end_at_the_one_that_counts(clone: Path, configuration: Path, tmp_path: Path) -> None:
    policies = Policies(warn=lambda _: None)
    (clone / "sessions" / "compression.json").write_text("{}")
    above = write(clone / ".GITCLAW" / "compression.json", {})
    folder = clone / "sessions"
    assert policies.places(folder / "s.jsonl") == [
        (configuration, "not there"),
        (folder / "compression.json", "passed over"),
        (folder / ".GITCLAW" / "compression.json", "not there"),
        (clone / "compression.json", "not there"),
        (above, "counts"),
    ]
    write(configuration, {})
    named = write(tmp_path / "named.json", {})
    of_named = Policies(named, warn=lambda _: None)
    assert of_named.places(folder / "s.jsonl") == [(configuration, "counts"), (named, "counts")]
    assert {each.by for each in of_named.settings(folder / "s.jsonl")} == {"default"}


@pytest.mark.parametrize(
    "section",
    [
        {"keepBackup": False},
        {"logFile": "~/log"},
        {"backupDir": "/kept"},
        {"commitOriginals": True},
        {"beforeCommand": "true"},
    ],
)
def test_the_user_and_a_named_file_may_say_anything(
    clone: Path, configuration: Path, tmp_path: Path, section: Mapping[str, Any]
) -> None:
    """And where the user has said it, the file near a session that says otherwise is no error."""
    session = clone / "s.jsonl"
    named = policy_for(session, write(tmp_path / "named.json", section))
    assert named == policy_for(session, write(clone / "compression.json", section)) != BALANCED
    write(configuration, section)
    assert policy_for(session) == named
    write(clone / "compression.json", {"keepBackup": False, "logFile": "x", "backupDir": "/x", "commitOriginals": True})
    with pytest.raises(UsageError):
        policy_for(session)
    write(configuration, DEFAULTS)
    assert policy_for(session) == BALANCED


@pytest.mark.parametrize(
    ("value", "option"), [(True, "--commit-originals"), ("history", "--originals-in history")], ids=["true", "history"]
)
def test_the_option_that_says_the_same_is_named(clone: Path, value: bool | str, option: str) -> None:
    """It would be another choice where a value has an option of its own."""
    write(clone / "compression.json", {"commitOriginals": value})
    with pytest.raises(UsageError, match=f"give {option} to 'compress' or 'pre-commit', name a file"):
        policy_for(clone / "s.jsonl")


def test_defaults_in_a_file_near_a_session_take_nothing_from_the_user(clone: Path, configuration: Path) -> None:
    """A file with all keys is one that people copy."""
    write(configuration, {"keepBackup": False, "logFile": "~/log", "backupDir": "/kept", "commitOriginals": True})
    write(clone / "compression.json", DEFAULTS)
    policy = policy_for(clone / "s.jsonl")
    assert (policy.keep_backup, policy.log_file) == (False, "~/log")
    assert (policy.backup_dir, policy.commit_originals) == ("/kept", True)


# The user's configuration


@pytest.mark.parametrize("kind", [Unix, MacOS])
@pytest.mark.parametrize("variable", ["XDG_CONFIG_HOME", "HOME"])
def test_it_is_found_where_platformdirs_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Unix | MacOS], variable: str
) -> None:
    """Which is asked only where a folder of ours is in one of the places that it may name."""
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    assert not sources._may_have_configuration()
    monkeypatch.setenv(variable, str(tmp_path))
    folder = kind("sessioncompress").user_config_path
    assert folder.is_relative_to(tmp_path)
    folder.mkdir(parents=True)
    assert sources._may_have_configuration()


def test_one_from_where_the_command_runs_is_none(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative home would lead into the clone."""
    write(clone / "sessioncompress" / "config.json", {"enabled": False})
    write(clone / ".config" / "sessioncompress" / "config.json", {"enabled": False})
    monkeypatch.chdir(clone)
    monkeypatch.setenv("XDG_CONFIG_HOME", ".")
    assert policy_for(Path("s.jsonl")).enabled
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", ".")
    assert policy_for(Path("s.jsonl")).enabled
    monkeypatch.setattr(platformdirs, "user_config_path", lambda _: Path("sessioncompress"))
    assert sources.user_file() is None


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_one_that_others_may_write_is_ignored(clone: Path, configuration: Path, mode: int) -> None:
    write(configuration, {"keepBackup": False}).chmod(mode)
    warned: list[str] = []
    policies = Policies(warn=warned.append)
    assert policies.of(clone / "s.jsonl") == policies.of(clone / "sessions" / "s.jsonl") == BALANCED
    assert warned == [f"{configuration}: it is ignored, since other users can write to it: run 'chmod go-w' on it"]


def test_one_of_another_user_is_ignored(clone: Path, configuration: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_away(write(configuration, {"keepBackup": False}), monkeypatch)
    with pytest.warns(UserWarning, match="neither you nor root owns it"):
        assert policy_for(clone / "s.jsonl") == BALANCED


@pytest.mark.parametrize("text", ["", "{}", '{"Session": {}}', '{"session": {"enable": true}}', "{", "[]"])
def test_a_wrong_one_is_an_error(clone: Path, configuration: Path, text: str) -> None:
    """It is there for us alone, and names itself."""
    write(configuration, {}).write_text(text)
    with pytest.raises(UsageError, match=r"config\.json(:\d+)?: the policy "):
        policy_for(clone / "s.jsonl")


# Files near a session


@pytest.mark.parametrize("kind", ["file", "link", "target", "folder"])
def test_another_users_is_ignored_and_the_next_one_above_counts(
    clone: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Whoever owns the file, the link to it, or the folder that is looked into; warned of once."""
    session = clone / "sessions" / "s.jsonl"
    above = write(clone / "compression.json", {"protectTokens": 7})
    file = clone / "sessions" / (".GITCLAW/compression.json" if kind == "folder" else "compression.json")
    target = write(clone / "target.json", {"protectTokens": 1})
    if kind in ("file", "folder"):
        write(file, {"protectTokens": 1})
    else:
        file.symlink_to(target)
    warned: list[str] = []
    if os.geteuid() == 0:
        give_away({"target": target, "folder": file.parent}.get(kind, file), monkeypatch)
        expected: int | None = 7
    else:
        give_away(file, monkeypatch)
        expected = BALANCED.protect_tokens
    policies = Policies(warn=warned.append)
    assert policies.of(session).protect_tokens == expected
    assert policies.of(session.with_name("t") / "u.jsonl").protect_tokens == expected
    mine = "it is ignored, since neither you nor root owns it"
    assert warned[0] == f"{file.parent if kind == 'folder' else file}: {mine}"
    assert warned[1:] == ([] if expected == 7 else [f"{above}: {mine}"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to another user")
def test_what_is_another_users_is_asked_nothing_more(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That it cannot be read is no error: anybody could stop every run below a folder that all may write to."""
    refused: list[Path] = []

    def status(path: Path) -> os.stat_result:
        refused.append(path)
        raise PermissionError(13, "no")

    (clone / "compression.json").symlink_to("/")
    give_away(clone / "compression.json", monkeypatch)
    monkeypatch.setattr(os, "stat", status)
    warned: list[str] = []
    policies = Policies(warn=warned.append)
    assert policies._trusted(clone / "compression.json") is None
    assert (refused, len(warned)) == ([], 1)


def test_only_what_is_above_a_session_counts(clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the folder that the command runs in, for a session beside it."""
    write(clone / "compression.json", {"protectTokens": 7})
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(clone)
    assert policy_for(Path("../mine/s.jsonl")) == policy_for(Path("sessions/../../mine/s.jsonl")) == BALANCED
    assert policy_for(Path("../clone/s.jsonl")).protect_tokens == 7


def test_a_link_that_the_user_made_is_followed(clone: Path, tmp_path: Path) -> None:
    """To a file that is the user's too, wherever it is."""
    (clone / "compression.json").symlink_to(write(tmp_path / "dot" / "files.json", {"protectTokens": 7}))
    assert policy_for(clone / "sessions" / "s.jsonl").protect_tokens == 7


@pytest.mark.parametrize("text", ['{"level": 9}', '{"x": {"session": 1}}', '{"sessions": {}}'])
def test_another_tools_file_is_passed_over(clone: Path, text: str) -> None:
    (clone / "sessions" / "compression.json").write_text(text)
    write(clone / "compression.json", {"protectTokens": 7})
    assert policy_for(clone / "sessions" / "s.jsonl").protect_tokens == 7


@pytest.mark.parametrize("text", ["[]", "3", "null"])
def test_what_is_no_object_is_an_error(clone: Path, text: str) -> None:
    (clone / "compression.json").write_text(text)
    with pytest.raises(UsageError, match=f"the policy is {re.escape(text)}, but must be an object"):
        policy_for(clone / "s.jsonl")


TWICE = [
    '{"session": {"keepBackup": true, "keepBackup": false}}',
    '{"session": {"keepBackup": false}, "session": {}}',
    '{"session": {"prune": {"enabled": true, "enabled": false}}}',
    '{"session": {"budget": {"models": [{"pattern": "a", "pattern": "b", "contextWindow": 1, "outputLimit": 1}]}}}',
]


@pytest.mark.parametrize("text", TWICE)
def test_a_key_that_stands_twice_is_an_error(clone: Path, text: str) -> None:
    """Readers differ in which one counts; a reviewer may look at the other."""
    (clone / "compression.json").write_text(text)
    with pytest.raises(UsageError, match=r'the key "\w+" appears twice in one object'):
        policy_for(clone / "s.jsonl")


@pytest.mark.parametrize("text", ["", "\n", "{", "// mine\n{}", "\xff", '{"session": {}}' + " " * sources.LARGEST])
def test_what_cannot_be_read_as_json_is_an_error(clone: Path, text: str) -> None:
    (clone / "compression.json").write_text(text)
    with pytest.raises(UsageError, match=r"compression\.json(:\d+)?: the policy (is not JSON|is larger than 256 KB)"):
        policy_for(clone / "s.jsonl")


def test_a_loop_of_links_and_a_dangling_one_are_no_files(clone: Path) -> None:
    (clone / "compression.json").symlink_to("compression.json")
    (clone / "sessions" / "compression.json").symlink_to("none")
    (clone / ".GITCLAW").touch()
    assert policy_for(clone / "sessions" / "s.jsonl") == BALANCED


def test_a_long_key_is_cut_in_the_error(clone: Path) -> None:
    write(clone / "compression.json", {"x" * 100_000: 1, "prune." + "y" * 100_000: 1})
    with pytest.raises(UsageError) as caught:
        policy_for(clone / "s.jsonl")
    assert len(str(caught.value)) < 1_000


def test_each_file_is_read_once(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many folders with sessions it governs."""
    write(clone / "compression.json", {"protectTokens": 7})
    read: list[Path] = []
    bytes_of = sources._bytes_of

    def noted(file: Path, status: os.stat_result) -> bytes:
        read.append(file)
        return bytes_of(file, status)

    monkeypatch.setattr(sources, "_bytes_of", noted)
    policies = Policies(warn=pytest.fail)
    assert {policies.of(clone / str(number) / "s.jsonl").protect_tokens for number in range(9)} == {7}
    assert read == [clone / "compression.json"]


# The keys


def every_key(section: type[Section], name: str) -> Mapping[str, file.Key]:
    """Return the keys of a section and of those inside it, by their dotted names."""
    own = {f"{name}.{each}": key for each, key in file.keys_of(section).items()}
    inner = [every_key(key.section, each) for each, key in own.items() if key.section]
    return {name: key for each in (own, *inner) for name, key in each.items()}


def test_every_key_says_what_a_file_near_a_session_may_say() -> None:
    """A new one that is not free says why, and which option says the same; a path is never free."""
    found = every_key(model.Policy, "session")
    assert "session.budget.models" in found
    bound = {name: key.only_user for name, key in found.items() if key.only_user}
    assert set(bound) == {f"session.{key}" for key in DEFAULTS}
    assert all(key.option.startswith("--") and key.harm for key in bound.values())
    paths = {name for name, key in found.items() if " path " in must_be(key.kind)}
    assert paths == {"session.backupDir", "session.logFile", "session.summarizer.prompt"}
    assert {name if name in bound else name.rpartition(".")[0] for name in paths} <= set(bound)


# The schema

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
