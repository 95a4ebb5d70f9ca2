"""Images: in old results and prompts one line of text stands in their place, with type, size and reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sessioncompress.core import marker
from tests.support.build import PiSession, blob, image
from tests.support.runs import after, entries, old, turn

DATA = "iVBORw0KGgo" + "A" * 6000
Scene = Callable[[], bytes]


def prompt(*parts: Any) -> bytes:
    """Return an old session whose prompt has these parts."""
    made = PiSession()
    made.user("What is this?", list(parts))
    made.assistant("A picture.")
    return old(made)


def result(*parts: Any, tool: str = "read") -> bytes:
    """Return an old session with a result of these parts."""
    made = PiSession()
    made.user("Look.")
    made.step(tool, {"path": "a.png"}, list(parts))
    return old(made)


def recent() -> bytes:
    """Return a session whose last prompt has the picture."""
    made = turn(PiSession())
    made.user("What is this?", [image(DATA)])
    return made.bytes()


LEFT_ALONE: list[tuple[str, Scene]] = [
    ("in the last turn", recent),
    ("tiny", lambda: prompt(image("A" * 100))),
    ("a blob", lambda: prompt(image(blob("x")))),
    ("a blob with much beside it", lambda: prompt({**image(blob("x")), "note": "y" * 4000})),
    ("data that is no text", lambda: prompt({"type": "image", "data": ["A" * 5000], "mimeType": "image/png"})),
    ("no data", lambda: prompt({"type": "image", "source": {"type": "base64", "data": DATA}})),
    ("a picture's address", lambda: prompt({"type": "image", "image_url": "https://example.org/" + "a" * 900})),
    ("another type", lambda: prompt({"type": "audio", "data": DATA})),
    ("of the tool skill", lambda: result(image(DATA), tool="skill")),
]


@pytest.mark.parametrize("scene", [case[1] for case in LEFT_ALONE], ids=[case[0] for case in LEFT_ALONE])
def test_left_alone(scene: Scene) -> None:
    data = scene()
    assert after(data) == entries(data)


MEDIA = [("image/svg+xml", "image/svg+xml"), ("", "image"), ("]]\n[[x", "?????x"), ("x" * 300, "..." + "x" * 77)]


@pytest.mark.parametrize(("media", "shown"), MEDIA)
def test_any_media_type_stays_inside_the_marker(media: str, shown: str) -> None:
    made = after(prompt(image(DATA, media)))[1]["message"]["content"][1]["text"]
    assert marker.is_one(made)
    assert made.startswith(f"[[sessioncompress: {shown}, ")
