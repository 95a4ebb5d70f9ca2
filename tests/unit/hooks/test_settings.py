"""Hooks go into a JSON text by insertions, and what they leave behind is the text as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessioncompress.hooks import settings
from sessioncompress.hooks.base import shell_line

GROUPS: dict[str, settings.Group] = {
    "Before": {"matcher": "x", "hooks": [{"type": "command", "command": shell_line("guard")}]},
    "After": {"hooks": [{"type": "command", "command": shell_line("ended")}]},
}
THEIRS = {"hooks": [{"type": "command", "command": "theirs"}]}

TEXTS = {
    "empty": "{}",
    "empty with a line's end": "{}\n",
    "empty with a space": "{ }",
    "empty over lines": "{\n}\n",
    "one line": '{"model": "x"}',
    "one line without spaces": '{"model":"x"}',
    "one line with spaces at its ends": '{ "model": "x" }',
    "two spaces": '{\n  "model": "x",\n  "n": 0.000009\n}\n',
    "four spaces": '{\n    "model": "x"\n}',
    "tabs": '{\n\t"model": "x"\n}\n',
    "no indentation": '{\n"model": "x"\n}\n',
    "CRLF": '{\r\n  "model": "x"\r\n}\r\n',
    "space before it": '\n  {\n    "model": "x"\n  }',
    "letters that are no ASCII": '{\n  "who": "Zoë \U0001f600",\n  "hooks": {}\n}\n',
    "no hooks in hooks": '{\n  "hooks": {},\n  "model": "x"\n}\n',
    "an empty event": '{\n  "hooks": {\n    "After": []\n  }\n}\n',
    "an event of others": '{\n  "hooks": {\n    "Other": [{"hooks": []}]\n  }\n}\n',
    "both events, one line": f'{{"hooks": {{"After": [{json.dumps(THEIRS)}], "Before": [{json.dumps(THEIRS)}]}}}}',
    "both events": json.dumps({"hooks": {"After": [THEIRS], "Before": [THEIRS, THEIRS]}, "z": 1}, indent=2),
    "hooks twice": '{"hooks": {"Before": []}, "hooks": {"After": []}}',
    "a key that looks like it": '{"x": {"hooks": {}}, "\\u0068ooks": {"After": []}}',
    "numbers that parsing changes": '{"a": 1e400, "b": 1.10, "c": 123456789012345678901234567890}',
}


def put_in(text: str | None) -> tuple[str, list[str]]:
    pieces = sorted(settings.insertions(text, GROUPS), reverse=True)
    after = text or ""
    for at, new in pieces:
        after = after[:at] + new + after[at:]
    return after, [new for _, new in pieces]


def intended(text: str | None) -> Any:
    document = json.loads(text) if text else {}
    hooks = document.setdefault("hooks", {})
    for event, group in GROUPS.items():
        hooks[event] = [*hooks.get(event, []), group]
    return document


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_nothing_but_insertions(text: str) -> None:
    """The document is the intended one, and without the pieces the text is the same to the character."""
    after, pieces = put_in(text)
    assert json.loads(after) == intended(text)
    for piece in pieces:
        assert after.count(piece) == 1
        after = after.replace(piece, "")
    assert after == text


def test_no_file_becomes_a_whole_one() -> None:
    after, pieces = put_in(None)
    assert json.loads(after) == intended(None)
    assert [after] == pieces
    assert after.endswith("}\n")


WRITTEN = {
    "tabs": ('{\n\t"model": "x"\n}\n', '{\n\t"hooks": {\n\t\t"Before": [\n\t\t\t{\n\t\t\t\t"matcher": "x",\n'),
    "CRLF": ('{\r\n  "a": 1\r\n}', '{\r\n  "hooks": {\r\n    "Before": [\r\n      {\r\n'),
    "one line": ('{"a": 1}', '{"hooks": {"Before": [{"matcher": "x", "hooks": [{"type": "command", '),
    "in a list": (
        '{\n  "hooks": {\n    "After": [\n      {"hooks": []}\n    ]\n  }\n}',
        '{\n  "hooks": {\n    "Before": [\n      {\n        "matcher": "x",\n',
    ),
}


@pytest.mark.parametrize(("text", "beginning"), WRITTEN.values(), ids=WRITTEN.keys())
def test_it_is_written_as_the_rest_is(text: str, beginning: str) -> None:
    after, _ = put_in(text)
    assert after.startswith(beginning)
    assert ("\r\n" in text) == ("\r\n" in after)
    assert "\n" not in after.replace("\r\n", "") if "\r\n" in text else True


OURS = {"type": "command", "command": shell_line("guard")}
WITHOUT = {
    "nothing there": ('{"a": 1.10}', '{"a": 1.10}'),
    "hooks of others": ('{"hooks": {"A": [{"hooks": [{"command": "x"}]}]}}',) * 2,
    "hooks that are none": ('{"hooks": [1, {"command": "ours"}]}',) * 2,
    "an event that is none": ('{"hooks": {"A": {"command": "ours"}, "B": [1, {"hooks": 2}, {"hooks": [3]}]}}',) * 2,
    "all": ('{"a": 1.10, "hooks": {"A": [{"hooks": [{"command": "ours"}]}]}}', '{"a": 1.10}'),
    "first": ('{"hooks": {"A": [{"hooks": [{"command": "ours"}]}]}, "a": 1.10}', '{"a": 1.10}'),
    "an event": ('{"hooks": {"A": [{"hooks": [{"command": "ours"}]}], "B": []}}', '{"hooks": {"B": []}}'),
    "a group": (
        '{"hooks": {"A": [{"hooks": [{"command": "ours"}]}, {"hooks": [{"command": "x"}]}]}}',
        '{"hooks": {"A": [{"hooks": [{"command": "x"}]}]}}',
    ),
    "one of a group": (
        '{"hooks": {"A": [{"hooks": [{"command": "x"}, {"command": "ours"}]}]}}',
        '{"hooks": {"A": [{"hooks": [{"command": "x"}]}]}}',
    ),
    "over lines": (
        json.dumps({"hooks": {"A": [{"hooks": [OURS]}, THEIRS]}, "n": [1, 2]}, indent=3),
        json.dumps({"hooks": {"A": [THEIRS]}, "n": [1, 2]}, indent=3),
    ),
}


@pytest.mark.parametrize(("text", "after"), WITHOUT.values(), ids=WITHOUT.keys())
def test_what_stays_without_ours(text: str, after: str) -> None:
    text, after = (each.replace('"ours"', json.dumps(OURS["command"])) for each in (text, after))
    assert settings.without(text) == after


def test_all_that_went_in_comes_out_without_knowing_how() -> None:
    """Where the agent has written the file anew: the hooks go, and what they leave empty."""
    for text in (text for name, text in TEXTS.items() if name not in ("hooks twice", "numbers that parsing changes")):
        anew = json.dumps(json.loads(put_in(text)[0]), indent=1)
        left = json.loads(settings.without(anew))
        hooks = {event: groups for event, groups in json.loads(text).get("hooks", {}).items() if groups}
        assert left.get("hooks", {}) == hooks
        assert {key: value for key, value in left.items() if key != "hooks"} == {
            key: value for key, value in json.loads(text).items() if key != "hooks"
        }
