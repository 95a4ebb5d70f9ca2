"""Ask a model behind an endpoint: requests, waits, and what of an answer is its text.

Nothing that is said of a failure has the key, the address as it was given, or a word of an answer.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import count
from math import isfinite
from threading import Thread
from typing import Any

import orjson

from sessioncompress.checkpoints.prompt import Prompt
from sessioncompress.core.text import counted
from sessioncompress.policy.summarizer import Protocol, Summarizer

MOST_ANSWER = 1 << 20
"""Bytes of an answer, with what an endpoint puts around it."""
_AGAIN = (408, 409, 425, 429, 500, 502, 503, 504, 529)
"""States of HTTP after which the same request may succeed."""
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 30.0
"""Seconds before a request is made again: of those that double, the first, and the most for which a model is kept."""
_HEADERS = frozenset(
    {"host", "connection", "content-length", "content-type", "accept", "accept-encoding", "user-agent"}
)
_MOST_COST = 1e9
_OK = 200

_sleep = time.sleep
"""Tests put another one here."""


class ModelFailed(Exception):
    """A model has not summed up; it says why, without a word of what it wrote."""


class _Again(Exception):
    """The same request may succeed later; `wait` is what the endpoint asks for, in seconds."""

    def __init__(self, what: str, wait: float | None = None) -> None:
        super().__init__(what)
        self.wait = wait


class _Status(Exception):
    """An endpoint refused a request, or sent it elsewhere."""

    def __init__(self, code: int, after: str) -> None:
        super().__init__()
        self.code, self.after = code, after


def ask(rules: Summarizer, prompt: Prompt, model: str, spent: list[float]) -> str:
    """Ask one model, again where that may help; what the endpoint says that costs is `spent`. Raises ModelFailed."""
    wait = _FIRST_WAIT
    with _client(rules) as client:
        for attempt in count(1):
            try:
                answer = _answer_in(_within(rules, partial(_post, client, rules, prompt, model)), rules.protocol, spent)
            except _Again as error:
                seconds = wait if error.wait is None else error.wait
                tried = f" ({counted(attempt, 'attempt', 'attempts')})"
                if seconds > _LONGEST_WAIT:
                    raise ModelFailed(f"{error}, and it asks us to wait {seconds:,.0f} seconds{tried}") from None
                if attempt > rules.retries:
                    raise ModelFailed(f"{error}{tried}") from None
                _sleep(seconds)
                wait = min(2 * wait, _LONGEST_WAIT)
            else:
                if (key := os.environ.get(rules.api_key_env)) and key in answer:
                    raise ModelFailed("the answer quotes the key")
                return answer
    raise AssertionError


def _within(rules: Summarizer, post: Callable[[], bytes]) -> bytes:
    """Make a request in a thread of its own, which is left when its time is over.

    An endpoint that sends a byte now and then lets no read of its answer take too long. The thread ends when the client
    is closed.
    """
    answer: Future[bytes] = Future()

    def work() -> None:
        try:
            answer.set_result(post())
        except Exception as error:  # noqa: BLE001 - handed on
            answer.set_exception(error)

    Thread(target=work, daemon=True).start()
    try:
        return answer.result(rules.timeout_seconds)
    except TimeoutError:
        raise ModelFailed(f"the endpoint took longer than {rules.timeout_seconds:g} seconds") from None


def is_loopback(url: str) -> bool:
    """Tell whether a URL names this machine."""
    from ipaddress import ip_address
    from urllib.parse import urlsplit

    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _client(rules: Summarizer) -> Any:
    # Imported here: it takes a second, and is there only where it was asked for.
    import ssl

    import openai

    hooks = {"request": [partial(_strip, os.environ.get(rules.api_key_env, ""))], "response": [_refuse_unless_ok]}
    options: dict[str, Any] = {"follow_redirects": False, "event_hooks": hooks}
    try:
        if is_loopback(rules.endpoint or ""):
            # What is said to be sent to this machine goes through no proxy that the environment names; a certificate
            # that it names counts.
            options |= {"trust_env": False, "verify": ssl.create_default_context()}
        client = openai.DefaultHttpxClient(**options)
    except Exception:  # noqa: BLE001 - of several libraries, which may quote what is secret in the address of a proxy
        raise ModelFailed("the proxy or the certificates named in the environment cannot be used") from None
    return openai.OpenAI(
        api_key="none",  # see _strip()
        base_url=rules.endpoint,
        # It would wait as long as it is told to.
        max_retries=0,
        timeout=rules.timeout_seconds,
        http_client=client,
    )


def _strip(key: str, request: Any) -> None:
    """Leave the headers that a request needs, and the key: others come from the environment, and may be secret.

    The library sends an account, and any headers that a variable holds, also in place of the key.
    """
    for name in set(request.headers) - _HEADERS:
        del request.headers[name]
    if key:
        request.headers["Authorization"] = f"Bearer {key}"


def _refuse_unless_ok(response: Any) -> None:
    # Before anybody reads what it says: that may be long, and may quote the key.
    if response.status_code != _OK:
        response.close()
        raise _Status(response.status_code, response.headers.get("Retry-After", ""))


def _post(client: Any, rules: Summarizer, prompt: Prompt, model: str) -> bytes:
    import openai

    headers = {"Accept-Encoding": "identity"}
    if rules.protocol is Protocol.OMP:
        url = rules.endpoint or ""
        body: dict[str, Any] = {"systemPrompt": prompt.system, "prompt": prompt.data}
    else:
        url = _chat_url(rules.endpoint or "")
        roles = (("system", prompt.system), ("user", prompt.data))
        body = {"model": model, "messages": [{"role": role, "content": text} for role, text in roles]}
    try:
        # Asked for as a stream, so that no more is read than may be.
        stream = client.post(
            url, cast_to=object, body=body, options={"headers": headers}, stream=True, stream_cls=openai.Stream[object]
        )
        with stream:
            return _read(stream.response)
    except _Status as status:
        raise _refused(status, rules) from None
    except openai.APITimeoutError:
        raise TimeoutError from None
    except openai.APIConnectionError as error:
        if isinstance(error.__cause__, _Status):
            # As other versions hand on what the hook raises.
            raise _refused(error.__cause__, rules) from None
        if _is_distrusted(error):
            raise ModelFailed("the endpoint's certificate is not trusted (SSL_CERT_FILE can name others)") from None
        raise _Again("the endpoint cannot be reached") from None
    except (ModelFailed, _Again, TimeoutError):
        raise
    except Exception:  # noqa: BLE001 - of several libraries, as of a header that the environment holds
        raise ModelFailed("the request could not be made") from None


def _is_distrusted(error: BaseException | None) -> bool:
    """Tell whether a certificate is what a connection failed for."""
    from ssl import SSLCertVerificationError

    while error is not None:
        if isinstance(error, SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _read(response: Any) -> bytes:
    """Read an answer, as long as it may be."""
    found = bytearray()
    try:
        for chunk in response.iter_raw():
            found += chunk
            if len(found) > MOST_ANSWER:
                break
    except Exception as error:  # noqa: BLE001 - the HTTP library's own, whose name differs between versions
        is_slow = "Timeout" in type(error).__name__
        raise TimeoutError if is_slow else _Again("the endpoint's answer is cut off") from None
    if len(found) > MOST_ANSWER:
        raise ModelFailed(f"the endpoint sent more than {MOST_ANSWER:,} bytes")
    return bytes(found)


def _chat_url(url: str) -> str:
    from urllib.parse import urlsplit, urlunsplit

    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    return urlunsplit(parts._replace(path=path if path.endswith("/chat/completions") else f"{path}/chat/completions"))


def _refused(status: _Status, rules: Summarizer) -> Exception:
    what = f"the endpoint answered with HTTP status {status.code}"
    if status.code in (401, 403) and not os.environ.get(rules.api_key_env):
        what += f", and the variable {rules.api_key_env} is not set"
    return _Again(what, _seconds(status.after)) if status.code in _AGAIN else ModelFailed(what)


def _seconds(after: str) -> float | None:
    """Read how long to wait: seconds, or a date; None where it is neither."""
    from email.utils import parsedate_to_datetime

    with suppress(ValueError):
        return max(float(after), 0.0) if isfinite(float(after)) else None
    try:
        return max(parsedate_to_datetime(after).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None


def _answer_in(raw: bytes, protocol: Protocol, spent: list[float]) -> str:
    """Find the text in what an endpoint answered, and what that cost if it says so. Raises ModelFailed."""
    try:
        answer = orjson.loads(raw)
    except ValueError:
        raise ModelFailed("the endpoint's answer is not JSON") from None
    # An endpoint may say what its answer cost, as OpenRouter does.
    usage = answer.get("usage") if isinstance(answer, dict) else None
    cost = usage.get("cost") if isinstance(usage, dict) else None
    if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost <= _MOST_COST:
        spent.append(float(cost))
    if protocol is Protocol.OMP:
        text = answer.get("summary") if isinstance(answer, dict) else None
    else:
        text = _chosen(answer)
    if not isinstance(text, str):
        raise ModelFailed("the endpoint's answer does not follow its protocol")
    return text


def _chosen(answer: Any) -> Any:
    try:
        choice = answer["choices"][0]
        message, reason = choice["message"], choice.get("finish_reason")
        calls, refusal, text = (message.get(key) for key in ("tool_calls", "refusal", "content"))
    except (KeyError, IndexError, TypeError, AttributeError):
        return None
    if calls:
        raise ModelFailed("the answer contains a tool call")
    if refusal or reason == "content_filter":
        raise ModelFailed("the model refused")
    if reason == "length":
        raise ModelFailed("the answer was cut off at its length limit")
    if text is None:
        return ""
    if isinstance(text, list):
        return "".join(each["text"] for each in text if isinstance(each, dict) and isinstance(each.get("text"), str))
    return text
