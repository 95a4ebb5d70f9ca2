"""Images: in old results and prompts one line of text stands in their place, with type, size and reference."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.core import marker
from sessioncompress.operations.show import show
from tests.support.build import PiSession, blob, image, text
from tests.support.runs import after, compress, compress_again, entries, old, restore, turn, write

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


@pytest.mark.parametrize(("make", "number"), [(prompt, 1), (result, 3)], ids=["prompt", "result"])
def test_a_picture_becomes_one_line(make: Callable[..., bytes], number: int) -> None:
    """Type, size, reference; the parts around it stay."""
    found = after(make(text("before"), image(DATA), text("behind")))[number]["message"]["content"]
    shown = next(part for part in found if marker.is_one(part.get("text", "")))
    assert set(shown) == {"type", "text"}
    assert shown["type"] == "text"
    assert f"image/png, {marker.amount(len(DATA) * 3 // 4)}, kept on disk: sessioncompress show " in shown["text"]
    assert [part["text"] for part in found if part is not shown][-2:] == ["before", "behind"]


MEDIA = [("image/svg+xml", "image/svg+xml"), ("", "image"), ("]]\n[[x", "?????x"), ("x" * 300, "..." + "x" * 77)]


@pytest.mark.parametrize(("media", "shown"), MEDIA)
def test_any_media_type_stays_inside_the_marker(media: str, shown: str) -> None:
    made = after(prompt(image(DATA, media)))[1]["message"]["content"][1]["text"]
    assert marker.is_one(made)
    assert made.startswith(f"[[sessioncompress: {shown}, ")


def test_a_picture_without_a_type() -> None:
    """It is an image."""
    made = after(prompt({"type": "image", "data": DATA, "mimeType": None}))[1]["message"]["content"][1]["text"]
    assert made.startswith("[[sessioncompress: image, ")


def test_the_reference_names_the_data(tmp_path: Path) -> None:
    """As base64, as it was; a second run leaves the line, and a restore puts the picture back."""
    pictures = [image(base64.b64encode(bytes([number]) * 9000).decode()) for number in range(4)]
    made = PiSession()
    made.user("What is this?", pictures[:2])
    made.step("read", {"path": "a.png"}, pictures[2:])
    path = write(tmp_path, turn(made))
    assert compress(path).images_replaced == 4
    lines = entries(path.read_bytes())
    shown = [
        part["text"] for number in (1, 3) for part in lines[number]["message"]["content"] if marker.is_one(part["text"])
    ]
    assert [show(marker.references(each)[0], path)[0].content.decode() for each in shown] == [
        each["data"] for each in pictures
    ]
    assert compress_again(path).imitated_markers == 0
    restore(path)
    assert path.read_bytes() == made.bytes()
