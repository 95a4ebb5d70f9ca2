"""A folder of invented files whose tools write themselves into a session, so that reads, edits and diffs agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.support import blocks, texts
from tests.support.session import PiSession
from tests.support.variants import shown

LIMIT_LINES = 2000
LIMIT_BYTES = 50 * 1024


class Workspace:
    """Files and the session that works on them; each method is one step of the agent, and returns the call's id."""

    def __init__(self, session: PiSession, files: Mapping[str, str]) -> None:
        self.session = session
        self.files = dict(files)

    def arguments(self, path: str, **more: Any) -> dict[str, Any]:
        return {"path": path, **more}

    def mirrors(self, tool: str, path: str, text: str) -> Any:
        """Return what a read or write keeps for the screen."""
        del tool, path, text
        return None

    def read(self, path: str, *, offset: int = 1, limit: int | None = None, **said: Any) -> str:
        lines = self.files[path].split("\n")
        kept = lines[offset - 1 : None if limit is None else offset - 1 + limit]
        text = "\n".join(kept)
        end = offset - 1 + len(kept)
        if end < len(lines):
            text += f"\n\n[{len(lines) - end} more lines in file. Use offset={end + 1} to continue.]"
        part = {"offset": offset, "limit": limit} if limit else {}
        return self.session.step(
            "read", self.arguments(path, **part), text, details=self.mirrors("read", path, text), **said
        )

    def look(self, path: str, pixels: int = 64, **said: Any) -> str:
        picture = [blocks.text("Read image file [image/png]"), blocks.image(blocks.png(pixels, path))]
        return self.session.step("read", self.arguments(path), picture, **said)

    def write(self, path: str, content: str, **said: Any) -> str:
        self.files[path] = content
        done = f"Successfully wrote {len(content.encode())} bytes to {path}"
        return self.session.step("write", self.arguments(path, content=content), done, **said)

    def edit(self, path: str, edits: Sequence[tuple[str, str]], **said: Any) -> str:
        old = new = self.files[path]
        for before, after in edits:
            if new.count(before) != 1:
                raise ValueError(f"{before[:40]!r} stands {new.count(before)} times in {path}")
            new = new.replace(before, after)
        self.files[path] = new
        done = f"Successfully replaced {len(edits)} block(s) in {path}."
        return self.session.step(
            "edit", self.edit_arguments(path, edits), done, details=self.changed(path, old, new), **said
        )

    def edit_arguments(self, path: str, edits: Sequence[tuple[str, str]]) -> dict[str, Any]:
        return self.arguments(path, edits=[{"oldText": before, "newText": after} for before, after in edits])

    def changed(self, path: str, old: str, new: str) -> dict[str, Any]:
        """Return what an edit keeps for the screen."""
        before, after = old.split("\n"), new.split("\n")
        pairs = enumerate(zip(before, after, strict=False), 1)
        first = next((number for number, (one, other) in pairs if one != other), min(len(before), len(after)))
        patch = texts.unified_diff(old, new, path).partition("\n")[2]
        return {"diff": texts.edit_diff(old, new), "patch": patch, "firstChangedLine": first}

    def bash(self, command: str, output: str, code: int = 0, **said: Any) -> str:
        """Run a command; long output is cut as pi cuts it."""
        text, details = cut(output)
        if code:
            text += f"\n\nCommand exited with code {code}"
        return self.session.step("bash", {"command": command}, text, details=details, error=bool(code), **said)


class OmpWorkspace(Workspace):
    def arguments(self, path: str, **more: Any) -> dict[str, Any]:
        """Return a file tool's arguments, with what the call is for."""
        return {"i": f"Working on {path.rpartition('/')[2]}", "path": path, **more}

    def mirrors(self, tool: str, path: str, text: str) -> Any:
        """Return the text once more, as the screen shows it."""
        return shown(text, path) if tool == "read" else None

    def changed(self, path: str, old: str, new: str) -> dict[str, Any]:
        """Return what an edit keeps for the screen."""
        mirrors = super().changed(path, old, new)
        return {"diff": mirrors["diff"], "path": path, "firstChangedLine": mirrors["firstChangedLine"], "op": "update"}

    def bash(self, command: str, output: str, code: int = 0, artifact: int | None = None, **said: Any) -> str:
        """Run a command; what it printed in full may lie in an artifact."""
        text = output + (f"\n\nCommand exited with code {code}" if code else "")
        if artifact is not None:
            text += f"\n\n[raw output: artifact://{artifact}]"
        took = 40 + len(output) % 2000
        text += f"\n\n\nWall time: {took / 1000:.2f} seconds"
        details = {"timeoutSeconds": 300, "wallTimeMs": took + 0.21700000762939}
        return self.session.step("bash", {"command": command}, text, details=details, error=bool(code), **said)

    def grep(self, pattern: str, found: str, **said: Any) -> str:
        """Search; the details hold the matches once more with another bar."""
        files = sorted({line.partition(":")[0] for line in found.split("\n")})
        details = {
            "scopePath": ".",
            "searchPath": ".",
            "cwd": self.session.cwd,
            "matchCount": found.count("\n") + 1,
            "fileCount": len(files),
            "files": files,
            "truncated": False,
            "displayContent": found.replace(":", "│"),
        }
        arguments = {"i": "Searching", "pattern": pattern, "path": "."}
        return self.session.step("grep", arguments, found.replace(":", "|"), details=details, **said)


def cut(output: str) -> tuple[str, Any]:
    """Return a command's output as pi shows it, and the details that go with it."""
    lines = output.split("\n")
    if len(lines) <= LIMIT_LINES and len(output.encode()) <= LIMIT_BYTES:
        return output, None
    kept: list[str] = []
    size = 0
    for line in reversed(lines[-LIMIT_LINES:]):
        size += len(line.encode()) + 1
        if size > LIMIT_BYTES:
            break
        kept.append(line)
    content = "\n".join(reversed(kept))
    full = f"/tmp/pi-bash-{blocks.hexes(16, output)}.log"
    truncation = {
        "content": content,
        "truncated": True,
        "truncatedBy": "bytes" if size > LIMIT_BYTES else "lines",
        "totalLines": len(lines),
        "totalBytes": len(output.encode()),
        "outputLines": len(kept),
        "outputBytes": len(content.encode()),
        "lastLinePartial": False,
        "firstLineExceedsLimit": False,
        "maxLines": LIMIT_LINES,
        "maxBytes": LIMIT_BYTES,
    }
    first = len(lines) - len(kept) + 1
    note = f"\n\n[Showing lines {first}-{len(lines)} of {len(lines)} (50.0KB limit). Full output: {full}]"
    return content + note, {"truncation": truncation, "fullOutputPath": full}
