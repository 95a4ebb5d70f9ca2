"""Let a model sum up: the way out of the machine, to a command or to an endpoint, and what of its answer counts.

Nothing here is reached unless the user's policy names one of them. No error, and no record, has the key, the address of
an endpoint as it was given, or a word of an answer.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from itertools import count
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from sessioncompress.checkpoints.digest import gather, room_for_prose, with_prose
from sessioncompress.checkpoints.prompt import Conversation, Prompt
from sessioncompress.checkpoints.prose import missing, paths_in, strike, why_not
from sessioncompress.core import process
from sessioncompress.core.checkpoint import Said, Summary
from sessioncompress.core.text import counted, printable, shown_url
from sessioncompress.errors import NOT_CHANGED, FileFailed, UsageError, failing
from sessioncompress.operations.draft import Opened
from sessioncompress.policy.model import OnFailure, Protocol, Summarizer

_PROMPTS = Path(__file__).resolve().parent.parent / "prompts"
_LARGEST_PROMPT = 64 * 1024
_MOST_ANSWER = 1 << 20
"""Bytes of an answer, with what an endpoint puts around it."""
_AGAIN = (408, 409, 425, 429, 500, 502, 503, 504, 529)
"""States of HTTP after which the same request may succeed."""
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 30.0
"""Seconds before a request is made again: of those that double, the first, and the most for which a model is kept."""
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


class _Told(NamedTuple):
    """What a model wrote, and which."""

    text: str
    model: str


def is_used(rules: Summarizer) -> bool:
    """Tell whether a policy lets a model sum up."""
    return rules.command is not None or rules.endpoint is not None


def check(rules: Summarizer) -> None:
    """Raise UsageError where no model could be asked like this, so that it is said before any work."""
    if rules.command is not None and rules.endpoint is not None:
        raise _wrong("a command and an endpoint are both to sum up", "Name one of them.")
    if rules.command is not None:
        _words(rules.command)
        if rules.models or rules.protocol is not Protocol.OPENAI:
            raise _wrong("a command chooses its model itself", "Leave out --model and --protocol.")
    elif rules.endpoint is not None:
        _check_endpoint(rules)
    elif rules.models or rules.prompt or rules.protocol is not Protocol.OPENAI:
        raise _wrong(
            "a model, a prompt or a protocol is named, and nobody who sums up", "Add --summarizer or --endpoint."
        )
    _redaction(rules)
    if rules.prompt is not None:
        _read_prompt(rules.prompt)


def _check_endpoint(rules: Summarizer) -> None:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(rules.endpoint or "")
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_url = False
    if not is_url:
        raise _wrong("the endpoint is no URL", "Write it as in https://host/v1.")
    if rules.protocol is Protocol.OPENAI and not rules.models:
        raise _wrong("the endpoint needs the name of a model", "Add --model.")
    if rules.protocol is Protocol.OMP and rules.models:
        raise _wrong("the protocol of oh-my-pi names no model", "Leave out --model.")
    if find_spec("openai") is None:
        remedy = "Install it: pip install 'sessioncompress[llm]'"
        raise _wrong("an endpoint needs a package that is not installed", remedy)


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise _wrong(f"the command that sums up cannot be read ({error})".lower(), "Check its quotes.") from error
    if not words:
        raise _wrong("the command that sums up is empty", "Name a program.")
    return words


def _redaction(rules: Summarizer) -> Callable[[str], str]:
    """Make what takes out of a text what must not be sent."""
    patterns = []
    for number, each in enumerate(rules.redact_patterns, 1):
        try:
            patterns.append(re.compile(each))
        except (re.error, RecursionError, OverflowError) as error:
            what = f"the {number}. of the patterns to redact is no regular expression ({error})"
            raise _wrong(what, "Correct summarizer.redactPatterns.") from error

    def redact(text: str) -> str:
        for pattern in patterns:
            text = pattern.sub("[redacted]", text)
        return text

    return redact


def _read_prompt(name: str) -> str:
    path = Path(os.path.expanduser(name))  # noqa: PTH111 - leaves a home that is not there as it is
    if not path.is_absolute():
        # Of which folder it were would not be clear, and a session's is anybody's.
        raise _wrong("the prompt's path is not absolute", "Write it from / or ~ on.")
    with failing(path, _NOTHING_SENT), path.open("rb") as file:
        raw = file.read(_LARGEST_PROMPT + 1)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = ""
    if len(raw) > _LARGEST_PROMPT or not text.strip():
        what = f"the prompt is empty, no text, or has more than {_LARGEST_PROMPT // 1024} KB"
        raise UsageError(what, where=path, state=_NOTHING_SENT, remedy="Name another file.")
    return text.strip()


_NOTHING_SENT = "Nothing was sent, and no session is changed."


def _wrong(what: str, remedy: str) -> UsageError:
    return UsageError(what, state=_NOTHING_SENT, remedy=remedy)


def destination(rules: Summarizer) -> str:
    """Write who gets what was said: the program, or the endpoint's address without what may be secret."""
    if rules.command is not None:
        return f"the command {printable(Path(_words(rules.command)[0]).name)}"
    url = rules.endpoint or ""
    where = "this machine" if _is_loopback(url) else "not this machine"
    return f"{shown_url(url)} ({where})"


def _is_loopback(url: str) -> bool:
    from ipaddress import ip_address
    from urllib.parse import urlsplit

    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def or_extract(
    session: Opened,
    old: Sequence[int],
    extract: Summary,
    kind: str,
    *,
    budget: int,
    splits: bool = False,
    goal: str = "",
    instructions: str = "",
) -> tuple[Summary, str]:
    """Let a model write the prose of a summary, if the policy names one; the facts stay those of the extract.

    `kind` names the prompt; where an earlier summary is brought up to date, "first" is "update". Returns the extract
    where no model could, and why. Raises FileFailed where the policy wants none then, UsageError.
    """
    rules = session.policy.summarizer
    if not is_used(rules):
        return extract, ""
    check(rules)
    conversation = Conversation(rules.input_tokens, _redaction(rules))

    def heard() -> Iterator[tuple[int, Said]]:
        for number, said in session.said(old):
            conversation.take(said)
            yield number, said

    notes = gather(heard(), splits=splits)
    if kind == "first" and conversation.has_before:
        kind = "update"
    system = _read_prompt(rules.prompt or str(_PROMPTS / f"{kind}.md"))
    prompt = Prompt(system, conversation.data(budget, goal, instructions))
    most = room_for_prose(notes, budget)

    def checked(answer: str) -> str:
        if why := why_not(answer, most):
            raise ModelFailed(why)
        texts = (text for _, said in session.said(old) for text in said.contents())
        known = "\n".join([*extract.changed, *extract.read, prompt.data])
        unknown = missing(missing(paths_in(answer), [known], notes.root), texts, notes.root)
        answer = strike(answer, unknown)
        if why := why_not(answer, most):
            raise ModelFailed(why)
        return answer

    try:
        told = _ask(rules, prompt, checked)
    except ModelFailed as why:
        if rules.on_failure is OnFailure.EXTRACTIVE:
            return extract, str(why)
        remedy = "Run again, or with --on-failure extractive."
        what = f"no model has summed it up: {why}"
        raise FileFailed(what, where=session.where, state=NOT_CHANGED, remedy=remedy) from None
    by = "command" if rules.command is not None else "endpoint"
    return with_prose(notes, budget, told.text)._replace(by=by, model=told.model), ""


def _ask(rules: Summarizer, prompt: Prompt, checked: Callable[[str], str]) -> _Told:
    """Ask the models in their order until an answer passes the checks. Raises ModelFailed."""
    failures = []
    for model in rules.models or ("",):
        try:
            answer = _run(rules, prompt) if rules.command is not None else _request(rules, prompt, model)
            return _Told(checked(answer), model)
        except ModelFailed as error:
            failures.append(f"{printable(model)}: {error}" if model else str(error))
    raise ModelFailed("; ".join(failures))


def _run(rules: Summarizer, prompt: Prompt) -> str:
    given = prompt.whole.encode(errors="replace")
    done = process.run(_words(rules.command or ""), given, seconds=rules.timeout_seconds, most=_MOST_ANSWER)
    if done.failure:
        raise ModelFailed(f"the command failed: {done.failure}")
    return done.output.decode(errors="replace")


def _request(rules: Summarizer, prompt: Prompt, model: str) -> str:
    """Ask one model, again where that may help. Raises ModelFailed."""
    wait = _FIRST_WAIT
    with _client(rules) as client:
        for attempt in count(1):
            try:
                return _answer_in(_post(client, rules, prompt, model), rules.protocol)
            except _Again as error:
                seconds = wait if error.wait is None else error.wait
                tried = f" ({counted(attempt, 'attempt', 'attempts')})"
                if seconds > _LONGEST_WAIT:
                    raise ModelFailed(f"{error}, and it asks for a wait of {seconds:,.0f} seconds{tried}") from None
                if attempt > rules.retries:
                    raise ModelFailed(f"{error}{tried}") from None
                _sleep(seconds)
                wait = min(2 * wait, _LONGEST_WAIT)
    raise AssertionError


def _client(rules: Summarizer) -> Any:
    # Imported here: it takes a second, and is there only where it was asked for.
    import openai

    hooks = {"response": [_refuse_unless_ok]}
    return openai.OpenAI(
        api_key=os.environ.get(rules.api_key_env) or "none",
        # Whose account it is, is the key's business: what else the environment says goes to no endpoint.
        organization="",
        project="",
        base_url=rules.endpoint,
        # It would wait as long as it is told to.
        max_retries=0,
        timeout=rules.timeout_seconds,
        http_client=openai.DefaultHttpxClient(follow_redirects=False, event_hooks=hooks),
    )


def _refuse_unless_ok(response: Any) -> None:
    # Before anybody reads what it says: that may be long, and may quote the key.
    if response.status_code != _OK:
        response.close()
        raise _Status(response.status_code, response.headers.get("Retry-After", ""))


def _post(client: Any, rules: Summarizer, prompt: Prompt, model: str) -> bytes:
    import openai

    headers: dict[str, Any] = {"Accept-Encoding": "identity"}
    if not os.environ.get(rules.api_key_env):
        headers["Authorization"] = openai.Omit()
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
            return _read(stream.response, rules.timeout_seconds)
    except _Status as status:
        raise _refused(status, rules) from None
    except openai.APITimeoutError:
        raise _slow(rules.timeout_seconds) from None
    except openai.APIConnectionError as error:
        if isinstance(error.__cause__, _Status):
            # As other versions hand on what the hook raises.
            raise _refused(error.__cause__, rules) from None
        raise _Again("the endpoint cannot be reached") from None
    except (openai.OpenAIError, ValueError):
        raise ModelFailed("the request could not be made") from None


def _slow(seconds: float) -> ModelFailed:
    return ModelFailed(f"the endpoint took longer than {seconds:g} seconds")


def _read(response: Any, seconds: float) -> bytes:
    """Read an answer, as long as it may take and be."""
    ends, found = time.monotonic() + seconds, bytearray()
    try:
        for chunk in response.iter_raw():
            found += chunk
            if len(found) > _MOST_ANSWER or time.monotonic() > ends:
                break
    except Exception as error:  # noqa: BLE001 - the HTTP library's own, whose name differs between versions
        raise (
            _slow(seconds) if "Timeout" in type(error).__name__ else _Again("the answer of the endpoint breaks off")
        ) from None
    if len(found) > _MOST_ANSWER:
        raise ModelFailed(f"the endpoint sent more than {_MOST_ANSWER:,} bytes")
    if time.monotonic() > ends:
        raise _slow(seconds)
    return bytes(found)


def _chat_url(url: str) -> str:
    from urllib.parse import urlsplit, urlunsplit

    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    return urlunsplit(parts._replace(path=path if path.endswith("/chat/completions") else f"{path}/chat/completions"))


def _refused(status: _Status, rules: Summarizer) -> Exception:
    what = f"the endpoint answers with HTTP status {status.code}"
    if status.code in (401, 403) and not os.environ.get(rules.api_key_env):
        what += f", and the variable {rules.api_key_env} has no key"
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


def _answer_in(raw: bytes, protocol: Protocol) -> str:
    """Find the text in what an endpoint answered. Raises ModelFailed."""
    try:
        answer = orjson.loads(raw)
    except ValueError:
        raise ModelFailed("the answer of the endpoint is no JSON") from None
    if protocol is Protocol.OMP:
        text = answer.get("summary") if isinstance(answer, dict) else None
    else:
        text = _chosen(answer)
    if not isinstance(text, str):
        raise ModelFailed("the answer of the endpoint is not of its protocol")
    return text


def _chosen(answer: Any) -> Any:
    try:
        choice = answer["choices"][0]
        message, reason = choice["message"], choice.get("finish_reason")
        calls, refusal, text = (message.get(key) for key in ("tool_calls", "refusal", "content"))
    except (KeyError, IndexError, TypeError, AttributeError):
        return None
    if calls:
        raise ModelFailed("the answer has the call of a tool")
    if refusal or reason == "content_filter":
        raise ModelFailed("the model refuses")
    if reason == "length":
        raise ModelFailed("the answer breaks off at its longest")
    if text is None:
        return ""
    if isinstance(text, list):
        return "".join(each["text"] for each in text if isinstance(each, dict) and isinstance(each.get("text"), str))
    return text
