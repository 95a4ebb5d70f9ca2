"""A stand-in for the model APIs on loopback: records each request, judges it, and answers with a short text."""

from __future__ import annotations

import gzip
import json
import re
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from sessioncompress.store.originals import zstd
from tests.agents import replies
from tests.agents.bodies import Body
from tests.agents.replies import Reply
from tests.agents.rules import problems

_REPLIES: tuple[tuple[str, Reply], ...] = (
    (r"/messages$", replies.anthropic),
    (r"/chat/completions$", replies.chat),
    (r"/responses$", replies.responses),
    (r"/v1internal:streamGenerateContent$", replies.code_assist),
    (r":streamGenerateContent$", replies.gemini),
    (r":generateContent$", replies.gemini_whole),
)


@dataclass(frozen=True, slots=True)
class Request:
    """One recorded request: where it went, its size as sent before any compression, and what it holds."""

    path: str
    size: int
    body: Body
    problems: tuple[str, ...] = ()

    @property
    def offers_tools(self) -> bool:
        """Tell whether it is the agent's own work; without tools it asks for a title, say."""
        return bool(self.body.get("tools"))


@dataclass(slots=True)
class StandIn:
    """A server for the length of a `with` block; it refuses, and notes in `strangers`, all that is no model request."""

    usage: int = 1000
    reasoned: frozenset[str] = frozenset()
    first: Reply | None = None
    """What answers the first request, where that is to be something else."""

    script: list[Reply] = field(default_factory=list)
    """What answers the requests that offer tools, in their order, as long as there is any of it."""

    refuses: Callable[[Request], tuple[int, str] | None] = lambda _: None
    """With what status and message a request is refused, as the vendors do; None where it is answered."""

    requests: list[Request] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    _server: ThreadingHTTPServer | None = None

    def __enter__(self) -> Self:
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    @property
    def url(self) -> str:
        if self._server is None:
            raise RuntimeError("the stand-in has not been started")
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def problems(self) -> list[str]:
        return [problem for request in self.requests for problem in request.problems]

    def record(self, path: str, raw: bytes) -> Request:
        body = json.loads(raw)
        request = Request(path, len(raw), body, tuple(problems(body, self.reasoned)))
        self.requests.append(request)
        return request


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of an agent that ended before it was answered."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def _handler(stand_in: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
            """Say nothing."""

        def do_POST(self) -> None:
            path = self.path.partition("?")[0]
            reply = next((given for form, given in _REPLIES if re.search(form, path)), None)
            raw = _unpacked(self.rfile.read(int(self.headers.get("Content-Length", 0))), self.headers)
            if reply is None:
                self._refuse()
                return
            if stand_in.first and not stand_in.requests:
                reply = stand_in.first
            request = stand_in.record(path, raw)
            if refusal := stand_in.refuses(request):
                error = {"type": "invalid_request_error", "message": refusal[1]}
                self._send(refusal[0], "application/json", json.dumps({"type": "error", "error": error}).encode())
                return
            if stand_in.script and request.offers_tools:
                reply = stand_in.script.pop(0)
            model = str(request.body.get("model") or path.rpartition("/")[2].partition(":")[0])
            self._send(200, "text/event-stream", b"".join(reply(model, stand_in.usage)))

        def _refuse(self) -> None:
            stand_in.strangers.append(f"{self.command} {self.path}")
            self.close_connection = True
            self._send(404, "application/json", b'{"error":{"message":"not a model request"}}')

        def _send(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_DELETE = do_HEAD = do_CONNECT = _refuse  # noqa: N815 - the names are the base class's

    return Handler


def _unpacked(raw: bytes, headers: Any) -> bytes:
    match headers.get("Content-Encoding", "").lower():
        case "gzip":
            return gzip.decompress(raw)
        case "zstd":
            return zstd.decompress(raw)
    return raw
