"""An object store for tests: moto's server stands for S3."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from sessioncompress.store import objects
from tests.support.session import PiSession

obstore = pytest.importorskip("obstore", reason="the extra sessioncompress[cloud] is not installed")
if find_spec("moto") is None:
    pytest.skip("moto's server is not installed", allow_module_level=True)

BUCKET = "s3://bucket"


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    # Imported here: that takes seconds, in each process that collects tests.
    from moto.server import ThreadedMotoServer

    running = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture
def bucket(server: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Make an empty bucket, and a client of it."""
    names = {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "REGION": "us-east-1"}
    for name, value in {**names, "ENDPOINT_URL": server, "ALLOW_HTTP": "true"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    urlopen(Request(f"{server}/moto-api/reset", method="POST")).close()
    urlopen(Request(f"{server}/bucket", method="PUT")).close()
    objects._client.cache_clear()
    yield obstore.store.from_url(BUCKET)
    objects._client.cache_clear()


def content(bucket: Any, key: str) -> bytes:
    return bytes(obstore.get(bucket, key).bytes())


def keys(bucket: Any) -> list[str]:
    return sorted(meta["path"] for chunk in obstore.list(bucket) for meta in chunk)


def putting(monkeypatch: pytest.MonkeyPatch, does: Callable[[str, Callable[[], Any]], Any]) -> list[str]:
    """Let a function stand before each put of a run; return the list to which the keys are added."""
    real, seen = obstore.put, []

    def put(store: Any, key: str, *arguments: Any, **named: Any) -> Any:
        seen.append(key)
        return does(key, lambda: real(store, key, *arguments, **named))

    monkeypatch.setattr(obstore, "put", put)
    return seen


def before_get(monkeypatch: pytest.MonkeyPatch, key: str, does: Callable[[], object]) -> None:
    """Let a function run once, just before an object is read for the first time."""
    real = obstore.get

    def get(store: Any, of: str, *arguments: Any, **named: Any) -> Any:
        if of == key:
            monkeypatch.setattr(obstore, "get", real)
            does()
        return real(store, of, *arguments, **named)

    monkeypatch.setattr(obstore, "get", get)


def small(seed: str) -> bytes:
    """Build a session that compresses a little."""
    built = PiSession(seed=seed).opening()
    for number in range(3):
        built.user(f"look at {number}")
        built.step("bash", {"command": f"cat {number}"}, "".join(f"{line} of {number}\n" for line in range(300)))
    return built.bytes()
