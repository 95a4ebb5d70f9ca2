"""A stand-in for an endpoint that sums up, on loopback: it gives the answers that a test lays out, in their order."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

PROSE = "## Goal\nFind out which gauge failed.\n\n## Next steps\n- Read notes-1.md again.\n"
"""What a model may write of the sessions in tests.support.long."""


class Answer(NamedTuple):
    """One answer: its state, headers and body. `cut` sends only so many bytes of it, `hangs` sends nothing.

    `drips` sends a byte now and then without end, of the "headers" or of the "body".
    """

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {}
    cut: int | None = None
    hangs: bool = False
    drips: str = ""


def chat(content: Any, *, usage: Any = None, **message: Any) -> Answer:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content, **message}}
    answer = {"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage}
    return Answer(body=json.dumps(answer).encode())


class Received(NamedTuple):
    path: str
    headers: Mapping[str, str]
    body: Any


class Endpoint:
    """A server for the length of a `with` block; the last answer is given again and again.

    With a `certificate`, a file that holds its key too, it speaks TLS.
    """

    def __init__(self, answers: Sequence[Answer], certificate: Path | None = None) -> None:
        self._answers = list(answers)
        self.received: list[Received] = []
        self.left = threading.Event()
        """Whether somebody went away to whom an answer dripped."""
        self._end = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self._scheme = "https"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}/v1"

    def models(self) -> list[str]:
        return [each.body.get("model", "") for each in self.received]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
                """Say nothing."""

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                headers = {name.lower(): value for name, value in self.headers.items()}
                endpoint.received.append(Received(self.path, headers, body))
                answer = endpoint._answers[min(len(endpoint.received), len(endpoint._answers)) - 1]
                if answer.hangs:
                    endpoint._end.wait(20)
                    return
                if answer.drips:
                    self._drip(b"HTTP/1.1 200 OK\r\n" + (b"X: " if answer.drips == "headers" else b"\r\n"))
                    return
                self.send_response(answer.status)
                for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                try:
                    self.wfile.write(answer.body[: answer.cut])
                except OSError:
                    self.close_connection = True

            def _drip(self, first: bytes) -> None:
                try:
                    self.wfile.write(first)
                    while not endpoint._end.wait(0.1):
                        self.wfile.write(b" ")
                except OSError:
                    self.close_connection = True
                    endpoint.left.set()

        return Handler
