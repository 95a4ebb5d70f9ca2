"""The policy of a program: its values are checked as those of a file are, and a preset is one that there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sessioncompress.errors import UsageError
from sessioncompress.policy.file import KEYS
from sessioncompress.policy.model import BALANCED, PRESETS, Policy, with_options
from sessioncompress.policy.sources import policy_for
from tests.unit.policy.test_config import BAD, GOOD

FIELDS = Policy.__struct_fields__


@pytest.mark.parametrize(("key", "value", "expected"), GOOD)
def test_what_a_file_may_say_a_program_may_say(key: str, value: Any, expected: Any) -> None:
    """It is held in the type of the field."""
    held = getattr(Policy(**{KEYS[key].field: value}), KEYS[key].field)
    assert held == expected
    assert type(held) is type(expected)


@pytest.mark.parametrize(("key", "value", "must_be"), BAD)
def test_what_a_file_may_not_say_a_program_may_not_say(key: str, value: Any, must_be: str) -> None:
    """The error is ours, and names the field, the value and what it must be."""
    with pytest.raises(UsageError) as caught:
        Policy(**{KEYS[key].field: value})
    said = str(caught.value)
    assert said.startswith(f"the policy's {KEYS[key].field} is ")
    assert must_be in said
    assert said.endswith("No session was changed. Correct the policy.")
    with pytest.raises(UsageError):
        replace(BALANCED, **{KEYS[key].field: value})


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_is_checked(name: str) -> None:
    """No field takes what no field can be."""
    wrong: dict[str, Any] = {name: object()}
    with pytest.raises(UsageError, match=f"the policy's {name} is <object "):
        Policy(**wrong)


def test_no_number_of_seconds() -> None:
    """What compares with nothing is none."""
    with pytest.raises(UsageError, match="idle_seconds is nan, but must be a number of seconds from 0 to"):
        with_options(BALANCED, {"idle_seconds": float("nan")})


def test_no_share() -> None:
    """Nor is such a number part of anything."""
    with pytest.raises(UsageError, match="preview_share is nan, but must be a share from 0 to 1"):
        replace(BALANCED, preview_share=float("nan"))


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


def test_a_folder_as_programs_write_it() -> None:
    """As a path; and what is long is shortened in an error."""
    assert Policy(backup_dir=Path("a", "b")).backup_dir == str(Path("a", "b"))  # type: ignore[arg-type]
    with pytest.raises(UsageError) as caught:
        Policy(protect_tokens="x" * 5000)  # type: ignore[arg-type]
    assert len(str(caught.value)) < 250


def test_a_preset_that_there_is_not(tmp_path: Path) -> None:
    """The error is ours, and names those that there are."""
    with pytest.raises(UsageError) as caught:
        policy_for(tmp_path / "s.jsonl", None, "cheap")
    said = "there is no preset 'cheap'. No session was changed. Presets are balanced, low-cost, high-quality, archive."
    assert str(caught.value) == said
    for name, preset in PRESETS.items():
        assert policy_for(tmp_path / "s.jsonl", None, name) == preset
