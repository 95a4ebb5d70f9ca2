"""What stands beside texts: documents that are texts become previews, and images go with the text that they belong to."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.core import marker
from sessioncompress.core.jsonl import parse_any
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.show import show
from tests.support import blocks
from tests.support.build import PiSession, blob, image
from tests.support.chats import ChatSession
from tests.support.claude import ClaudeSession
from tests.support.documents import GeminiDocument, OpenCodeExport
from tests.support.runs import after, compress, compress_again, entries, old, restore, run, split, turn

TEXT = "".join(f"{number}. The gauge of the harbor reads {number * 37}.\n" for number in range(120))
BASE64 = base64.b64encode(TEXT.encode()).decode()
PICTURE = blocks.png(160)
SAYS = "Image read successfully"
LOG = "".join(f"{number} of the gauges answered late, gauge_{number * 7} first\n" for number in range(900))
REMINDER = "<system-reminder>\nKeep the gauges quiet.\n</system-reminder>"


def claude(source: Any, **more: Any) -> bytes:
    made = ClaudeSession()
    made.user([{"type": "text", "text": "Read this."}, {"type": "document", "source": source, **more}])
    return made.turn(2).bytes()


def gemini(part: Any) -> bytes:
    made = GeminiDocument().message("user", [{"text": "Read this."}, part])
    return made.answer("Yes.").user("And now?").answer("Done.").bytes()


def opencode(**part: Any) -> bytes:
    made = OpenCodeExport().user("Read this.").part("file", **part).assistant().part("text", text="Yes.")
    return made.user("And now?").assistant().part("text", text="Done.").bytes()


def chat(part: Any) -> bytes:
    made = ChatSession().message("user", [{"type": "text", "text": "Read this."}, part]).message("assistant", "Yes.")
    return made.message("user", "And now?").message("assistant", "Done.").bytes()


DOCUMENTS: dict[str, tuple[bytes, str]] = {
    "claude, a text": (
        claude({"type": "text", "media_type": "text/plain", "data": TEXT}, title="notes.txt"),
        "notes.txt",
    ),
    "claude, base64": (claude({"type": "base64", "media_type": "text/markdown", "data": BASE64}), ""),
    "gemini": (gemini({"inlineData": {"mimeType": "text/plain", "data": BASE64, "displayName": "n.txt"}}), "n.txt"),
    "opencode": (opencode(mime="text/csv", filename="n.csv", url=f"data:text/csv;base64,{BASE64}"), "n.csv"),
    "a chat": (
        chat({"type": "file", "file": {"filename": "n.txt", "file_data": f"data:text/plain;base64,{BASE64}"}}),
        "n.txt",
    ),
}


@pytest.mark.parametrize(("data", "title"), DOCUMENTS.values(), ids=DOCUMENTS)
def test_a_document_that_is_a_text_becomes_a_preview(data: bytes, title: str, tmp_path: Path) -> None:
    """With its title, its first and its last line; its reference names the text, and a restore brings all back."""
    path = tmp_path / "session.jsonl"
    path.write_bytes(data)
    compress(path)
    (text,) = previews(path)
    first, *lines = text.splitlines()
    assert first == title if title else first.startswith("0. ")
    assert [line for line in lines if line.startswith("0. ")] or not title
    assert "119. The gauge of the harbor reads 4403." in lines
    (ref,) = marker.references(text)
    assert show(ref, path)[0].content.decode() == TEXT
    assert compress_again(path).imitated_markers == 0
    restore_session(path, from_markers=True)
    assert path.read_bytes() == data


def previews(path: Path) -> list[str]:
    """Return the texts in which a marker stands."""
    found = (
        [parse_any(path.read_bytes())]
        if path.read_bytes().startswith(b"{\n")
        else map(parse_any, split(path.read_bytes()))
    )
    return [text for each in found for text in texts_in(each) if marker.PREFIX in text]


def texts_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for child in children for text in texts_in(child)]


NAMED: dict[str, tuple[bytes, str]] = {
    "a short text": (claude({"type": "text", "media_type": "text/plain", "data": "A note.\n" * 50}), ""),
    "a document": (
        claude({"type": "base64", "media_type": "application/pdf", "data": "A" * 4000}, title="a.pdf"),
        "a.pdf, application/pdf, 2.9 KB",
    ),
    "a sound": (
        chat({"type": "input_audio", "input_audio": {"data": "A" * 4000, "format": "wav"}}),
        "audio/wav, 2.9 KB",
    ),
    "a file": (
        chat({"type": "file", "file": {"filename": "a.bin", "file_data": "A" * 4000}}),
        "a.bin, document, 2.9 KB",
    ),
    "a picture": (
        opencode(mime="image/png", filename="a.png", url="data:image/png;base64," + "A" * 4000),
        "a.png, image/png, 2.9 KB",
    ),
}


@pytest.mark.parametrize(("data", "named"), NAMED.values(), ids=NAMED)
def test_what_it_is_is_named(data: bytes, named: str, tmp_path: Path) -> None:
    """A document or a sound is no image; what is short stays."""
    path = tmp_path / "session.jsonl"
    path.write_bytes(data)
    done = run("compress", "--force", "--protect-tokens", "0", "--keep-turns", "1", path)
    assert done.exit_code == 0
    assert [text.partition(", kept on disk")[0] for text in previews(path)] == (
        [f"{marker.PREFIX}{named}"] if named else []
    )


def read(text: str, *pictures: str) -> OpenCodeExport:
    """Return an export with an old result that pictures belong to."""
    made = OpenCodeExport().user("Look.").assistant().tool("read", {"filePath": "/a.png"}, text)
    part = made.messages[-1]["parts"][-1]
    part["state"]["attachments"] = [
        {"type": "file", "mime": "image/png", "url": f"data:image/png;base64,{each}", "id": f"prt_{number}"}
        for number, each in enumerate(pictures)
    ]
    return made


def ended(made: OpenCodeExport) -> bytes:
    return made.user("And now?").assistant().part("text", text="Done.").bytes()


def answered(text: str, *pictures: str, again: bool = False) -> bytes:
    """Return the same of Gemini CLI, whose newer models take pictures inside a response."""
    made = GeminiDocument().user("Look.")
    call = made.used("read_file", {"file_path": "/a.png"}, text)
    call["result"][0]["functionResponse"]["parts"] = [
        {"inlineData": {"mimeType": "image/png", "data": each}} for each in pictures
    ]
    return made.answer("I look.", call).user("And now?").answer("Done.").bytes()


MAKERS = {"opencode": lambda *given: ended(read(*given)), "gemini": answered}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("pictures", [(PICTURE,), (PICTURE, blocks.png(160, 1))], ids=len)
@pytest.mark.parametrize("text", [SAYS, LOG], ids=["short", "long"])
def test_pictures_beside_a_result_go_with_it(make: Any, pictures: Any, text: str, tmp_path: Path) -> None:
    """Each is named below the text, since no text can stand in its place; a restore is exact."""
    path = tmp_path / "session.json"
    path.write_bytes(make(text, *pictures))
    assert compress(path).images_replaced == len(pictures)
    (shown,) = previews(path)
    refs = marker.references(shown)
    assert shown.startswith(f"{SAYS}\n[[" if text is SAYS else "0 of the gauges")
    assert [show(ref, path)[0].content.decode() for ref in refs[-len(pictures) :]] == list(pictures)
    assert all(each not in path.read_text() for each in pictures)
    assert compress_again(path).imitated_markers == 0
    restore(path)
    assert path.read_bytes() == make(text, *pictures)


@pytest.mark.parametrize("name", ["/short/gauge.py", "/a/very/long/folder" * 9 + "/gauge.py"], ids=len)
@pytest.mark.parametrize("kind", ["content", "entries"])
def test_the_preview_of_a_read_begins_with_what_was_read(kind: str, name: str, tmp_path: Path) -> None:
    """The call has the path: cut, it was the name of another file."""
    path = tmp_path / "session.json"
    text = f"<path>{name}</path>\n<type>file</type>\n<{kind}>\n{LOG}\n(900 lines)\n</{kind}>\n\n{REMINDER}"
    made = OpenCodeExport().user("Look.").assistant().tool("read", {"filePath": name}, text)
    data = ended(made)
    path.write_bytes(data)
    compress(path)
    (shown,) = previews(path)
    assert shown.startswith("0 of the gauges")
    assert "/a/very" not in shown
    assert "<" not in shown
    assert marker.adds_up(shown)
    restore(path)
    assert path.read_bytes() == data


# Images

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
