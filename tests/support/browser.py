"""A headless Chromium that opens one page, by its DevTools protocol over a pair of pipes."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

_LONGEST = 30
"""Seconds that the browser may take for one answer."""


class Browser:
    """Sends commands to a page and keeps the events that come between the answers."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing = reading, writing
        self._buffer = b""
        self._number = 0
        self._session = ""
        self.events: list[dict[str, Any]] = []

    def open(self) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def show(self, page: Path, width: int, scheme: str) -> None:
        """Load a page at a width, in the light or the dark scheme; what happened before is forgotten."""
        self.events.clear()
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=page.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self._read())

    def ask(self, expression: str) -> Any:
        """Evaluate an expression in the page: no policy of the page forbids that to the protocol."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(self) -> bytes:
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"])

    def requests(self) -> list[str]:
        asked = (event["params"] for event in self.events if event["method"] == "Network.requestWillBeSent")
        return [each["request"]["url"] for each in asked]

    def complaints(self) -> list[Any]:
        """List what stands in the console, what was thrown, and the dialogs that were opened."""
        bad = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Page.javascriptDialogOpening")
        return [event for event in self.events if event["method"] in bad]

    def call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._writing, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)

    def _read(self) -> dict[str, Any]:
        until = time.monotonic() + _LONGEST
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._reading], [], [], max(until - time.monotonic(), 0))
            piece = os.read(self._reading, 1 << 20) if ready else b""
            assert piece, "the browser does not answer"
            self._buffer += piece
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)  # type: ignore[no-any-return]


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Start Chromium with a profile of its own; skip where it is missing, and fail in CI: nobody would look else."""
    program = shutil.which("chromium")
    if program is None:
        reason = "chromium is not installed: apt-get install --no-install-recommends chromium"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    options = ["--headless", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe"]
    # Its sandbox does not work for root, as whom containers run.
    options += ["--no-sandbox"] if os.geteuid() == 0 else []
    line = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
    command = ["/bin/bash", "-c", line, "chromium", program, *options, f"--user-data-dir={folder / 'profile'}"]
    environment = {**os.environ, "HOME": str(folder)}
    process = subprocess.Popen(
        command, pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        found = Browser(ours_in, ours_out)
        found.open()
        yield found
    finally:
        with suppress(OSError):
            os.write(ours_out, b'{"id":0,"method":"Browser.close"}\0')
        os.close(ours_out)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(ours_in)
