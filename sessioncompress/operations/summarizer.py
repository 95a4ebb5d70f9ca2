"""Let a model summarize: send data to a command or an endpoint, and check the answers.

This runs only if the user's policy names one of them. No error or record contains the key, the endpoint's address as
given, or any word of an answer.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Callable, Coroutine
from functools import cache
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from shutil import which
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import orjson
from msgspec import UNSET

from sessioncompress.checkpoints.prose import Conversation, Prompt
from sessioncompress.core import process
from sessioncompress.core.checkpoint import Summary
from sessioncompress.core.lines import tokens_of
from sessioncompress.core.text import estimate, printable, shown_url
from sessioncompress.errors import NOTHING_SENT, FileFailed, UsageError, failing
from sessioncompress.operations.draft import EditedSession, Opened
from sessioncompress.operations.old_part import OldPart, Unusable
from sessioncompress.policy.model import OnFailure, Protocol, Summarizer

LARGEST_PROMPT = 64 * 1024
"""Maximum bytes of a prompt."""
_SHORT = 1_000
"""Tokens of a summary up to which a model is asked for bullets, since sections take up much of its 400 words."""
_MOST_ANSWER = 1 << 20
"""Maximum bytes of an answer, including its envelope."""
_MOST_COST = 1e9


def is_used(rules: Summarizer) -> bool:
    """True if a policy lets a model summarize."""
    return rules.command is not None or rules.endpoint is not None


def check(rules: Summarizer) -> None:
    """Raise UsageError, before any work, if no model can be asked by these rules."""
    if rules.command is not None and rules.endpoint is not None:
        raise _wrong("both a command and an endpoint are set to write the summary", "Name one of them.")
    if rules.command is not None:
        _words(rules)
        if rules.models or rules.protocol is not Protocol.OPENAI:
            raise _wrong("a command chooses its own model", "Leave out --model and --protocol.")
    elif rules.endpoint is not None:
        _check_endpoint(rules)
    elif rules.models or rules.prompt or rules.protocol is not Protocol.OPENAI:
        raise _wrong(
            "a model, a prompt or a protocol is set, but nothing that writes the summary",
            "Add --summarizer or --endpoint.",
        )
    _redaction(rules)
    if rules.prompt is not None:
        _read_prompt(rules.prompt)
    if rules.command is not None:
        _find_program(rules)


def _find_program(rules: Summarizer) -> None:
    program = _words(rules)[0]
    if which(program) is not None:
        return
    # Don't quote a variable's value, which may be secret.
    name, sets, _ = program.partition("=")
    remedy = "Correct --summarizer, or summarizer.command in your configuration; it is not run by a shell."
    if sets:
        what = f"the summarizer command begins with the variable {printable(name)} instead of a program"
        raise _wrong(what, "Set the variable before you run sessioncompress.")
    state = "cannot be executed" if Path(program).exists() and os.sep in program else "is not found"
    raise _wrong(f"the summarizer program {printable(program)} {state}", remedy)


def _check_endpoint(rules: Summarizer) -> None:
    try:
        parts = urlsplit(rules.endpoint or "")
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        is_url = is_url and (rules.endpoint or "").isascii() and (rules.endpoint or "").isprintable()
    except ValueError:
        is_url = False
    if not is_url:
        raise _wrong("the endpoint is not a URL", "Write it as in https://host/v1.")
    if "@" in parts.netloc:
        # It would be sent instead of the key.
        remedy = "Remove the part before the @; the key comes from the variable that --api-key-env names."
        raise _wrong("the endpoint's URL has a user or a password", remedy)
    if rules.protocol is Protocol.OPENAI and not rules.models:
        raise _wrong("the endpoint needs the name of a model", "Add --model.")
    if rules.protocol is Protocol.OMP and rules.models:
        raise _wrong("oh-my-pi's protocol does not take a model", "Leave out --model.")
    key = os.environ.get(rules.api_key_env, "")
    if not (key.isascii() and key.isprintable()):
        what = f"the key in the variable {rules.api_key_env} has a line break or another character that no key has"
        raise _wrong(what, 'Set it without, as in "$(cat FILE)", which strips the last line break.')
    if find_spec("openai") is None:
        remedy = "Install it with the extra [llm], as the README says."
        raise _wrong("an endpoint needs a package that is not installed", remedy)


def words_of(command: str, name: str, state: str, where: str | None = None) -> list[str]:
    """Split a user's command line, which isn't run by a shell. Raises UsageError if it is invalid."""
    try:
        words, why = shlex.split(command), "it is empty"
    except ValueError as error:
        words, why = [], str(error).lower()
    if not words:
        what, remedy = f"the {name} is not a command line ({why})", "Correct it; it is not run by a shell."
        raise UsageError(what, where=where, state=state, remedy=remedy)
    return words


def _words(rules: Summarizer) -> list[str]:
    return words_of(rules.command or "", "summarizer command", NOTHING_SENT)


def _redaction(rules: Summarizer) -> Callable[[str], str]:
    """Return a function that removes from a text what must not be sent."""
    patterns = []
    for number, each in enumerate(rules.redact_patterns, 1):
        try:
            patterns.append(re.compile(each))
        except (re.error, RecursionError, OverflowError) as error:
            what = f"redaction pattern {number} is not a regular expression ({error})"
            raise _wrong(what, "Correct summarizer.redactPatterns.") from error

    def redact(text: str) -> str:
        for pattern in patterns:
            text = pattern.sub("[redacted]", text)
        return text

    return redact


def _read_prompt(name: str) -> str:
    path = Path(os.path.expanduser(name))  # noqa: PTH111 - never raises
    if not path.is_absolute():
        # It would be unclear which folder it is relative to, and anyone may be able to write to the session's.
        raise _wrong("the prompt's path is not absolute", "Start it with / or ~.")
    with failing(path, NOTHING_SENT):
        found = path.stat()
        raw = _read(path) if stat.S_ISREG(found.st_mode) else _piped(path, found.st_dev, found.st_ino)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = ""
    if len(raw) > LARGEST_PROMPT or not text.strip():
        what = f"the prompt is empty, not text, or larger than {LARGEST_PROMPT // 1024} KB"
        raise UsageError(what, where=path, state=NOTHING_SENT, remedy="Name another file.")
    return text.strip()


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(LARGEST_PROMPT + 1)


@cache
def _piped(path: Path, device: int, number: int) -> bytes:
    """Read a pipe, as in `--prompt <(...)`. Cached, because it can be read only once."""
    del device, number
    return _read(path)


def _wrong(what: str, remedy: str) -> UsageError:
    return UsageError(what, state=NOTHING_SENT, remedy=remedy)


def destination(rules: Summarizer) -> str:
    """Name the recipient: the program, or the endpoint's address without secrets."""
    if rules.command is not None:
        return f"the command {printable(Path(_words(rules)[0]).name)}"
    url = rules.endpoint or ""
    where = "this machine" if _is_loopback(url) else "not this machine"
    if where != "this machine" and not url.lower().startswith("https:"):
        where += ", and not encrypted on the way"
    return f"{shown_url(url)} ({where})"


class Answered(NamedTuple):
    """The summary of a session, why earlier models failed, and the cost that the endpoint reports.

    `sent` is the number of tokens that each model gets, or would get.
    """

    summary: Summary
    failure: str = ""
    cost: float | None = None
    sent: int = 0

    def stats(self, session: Opened, draft: EditedSession) -> dict[str, Any]:
        """Return the fields of Summarized about the summary and its draft."""
        summary = self.summary
        return {
            "size_after": draft.size,
            "tokens_after": tokens_of(draft.read, session.per_token),
            "tokens_summary": estimate(len(summary.text), session.per_token),
            "tokens_sent": self.sent,
            "by": summary.by,
            "model": summary.model,
            "model_failure": self.failure,
            "cost": UNSET if self.cost is None else self.cost,
            "summary": summary.text,
            "made_elsewhere": not session.is_ours,
        }


def or_extract(old: OldPart, kind: str, system: str, *, sends: bool) -> Answered:
    """Let a model write a summary's prose, if the policy names one. The extract provides the facts.

    `kind` names the prompt; "update" (after an earlier summary) and "short" (for few tokens) are chosen here. `system`
    replaces the prompt. Returns the extract if no model succeeds, or if not `sends`. Raises FileFailed if the policy
    doesn't allow the extract then; UsageError.
    """
    session, rules = old.session, old.session.policy.summarizer
    if not is_used(rules):
        return Answered(old.extract)
    check(rules)
    conversation = Conversation(rules.input_tokens, _redaction(rules))
    for _, said in old.said():
        conversation.take(said)
    if kind in ("first", "split-turn") and old.budget <= _SHORT:
        kind = "short"
    elif kind == "first" and conversation.has_before:
        kind = "update"
    notes = old.notes
    own = Path(__file__).resolve().parent.parent / "prompts" / f"{kind}.md"
    system = system.strip() or _read_prompt(rules.prompt or str(own))
    prompt = Prompt(system, conversation.data(old.budget, notes.besides._replace(goal=notes.goal), system=system))
    sent = estimate(len(prompt.whole))
    if not sends:
        return Answered(old.extract, sent=sent)
    spent: list[float] = []
    try:
        summary, failure = _ask(old, prompt, spent)
    except Unusable as why:
        if rules.on_failure is OnFailure.LEAVE:
            remedy = "Run again, or with --on-failure extractive (summarizer.onFailure)."
            what = f"no model summarized it: {why}"
            raise FileFailed(what, where=session.where, remedy=remedy) from None
        summary, failure = old.extract, str(why)
    return Answered(summary, failure, sum(spent) if spent else None, sent)


def _ask(old: OldPart, prompt: Prompt, spent: list[float]) -> tuple[Summary, str]:
    """Ask the models in order until an answer passes the checks; return it, and the earlier failures.

    Raises Unusable if none passes.
    """
    rules, failures = old.session.policy.summarizer, list[str]()
    for model in rules.models or ("",):
        try:
            if rules.command is not None:
                return old.holding(_run(rules, prompt, old.session.where), by="command", known=prompt.data), ""
            answer = _post(rules, prompt, model, spent)
            return old.holding(answer, by="endpoint", model=model, known=prompt.data), "; ".join(failures)
        except Unusable as error:
            failures.append(f"{printable(model)}: {error}" if model else str(error))
    raise Unusable("; ".join(failures))


def _run(rules: Summarizer, prompt: Prompt, where: str) -> str:
    given = prompt.whole.encode(errors="replace")
    done = process.run(_words(rules), given, seconds=rules.timeout_seconds, most=_MOST_ANSWER)
    if done.ended:
        # This process is being ended, so don't write the extract either.
        raise FileFailed(f"the summarizer command failed: {done.failure}", where=where)
    if done.failure:
        raise Unusable(f"the command failed: {done.failure}")
    return done.output.decode(errors="replace")


def _post(rules: Summarizer, prompt: Prompt, model: str, spent: list[float]) -> str:
    """Ask one model of an endpoint, and add the cost that the endpoint reports to `spent`. Raises Unusable."""
    # Imported here because it is an optional dependency.
    import openai

    key = os.environ.get(rules.api_key_env, "")
    try:
        answer = _answer_in(_finished(_answered(rules, prompt, model, key)), rules.protocol, spent)
    except Unusable:
        raise
    except TimeoutError:
        raise Unusable(f"the endpoint took longer than {rules.timeout_seconds:g} seconds") from None
    except openai.APIStatusError as error:
        no_key = f", and the variable {rules.api_key_env} is not set"
        is_key = error.status_code in (401, 403) and not key
        what = f"the endpoint answered with HTTP status {error.status_code}"
        raise Unusable(what + no_key * is_key) from None
    except openai.APIConnectionError as error:
        if _is_distrusted(error):
            raise Unusable("the endpoint's certificate is not trusted (SSL_CERT_FILE can name others)") from None
        raise Unusable("the endpoint cannot be reached") from None
    except Exception:  # noqa: BLE001 - several libraries raise here, e.g. for a header from the environment
        raise Unusable("the request could not be made") from None
    if key and key in answer:
        raise Unusable("the answer quotes the key")
    return answer


def _finished(work: Coroutine[Any, Any, bytes]) -> bytes:
    """Run a coroutine to its end, even inside a running event loop, as in a notebook."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


async def _answered(rules: Summarizer, prompt: Prompt, model: str, key: str) -> bytes:
    """Read an endpoint's answer up to the size limit; the client retries failed requests."""
    import asyncio

    import openai

    url = rules.endpoint or ""
    body: dict[str, Any] = {"systemPrompt": prompt.system, "prompt": prompt.data}
    if rules.protocol is Protocol.OPENAI:
        roles = (("system", prompt.system), ("user", prompt.data))
        parts = urlsplit(url)
        path = parts.path.rstrip("/").removesuffix("/chat/completions")
        url = parts._replace(path=f"{path}/chat/completions").geturl()
        body = {"model": model, "messages": [{"role": role, "content": text} for role, text in roles]}
    found = bytearray()
    # Limits the total time. A limit per read wouldn't stop an endpoint that sends a byte now and then.
    async with asyncio.timeout(rules.timeout_seconds), _client(rules, key) as client:
        # Streamed, so that no more is read than allowed.
        stream = await client.post(url, cast_to=object, body=body, stream=True, stream_cls=openai.AsyncStream[object])
        async with stream:
            try:
                async for chunk in stream.response.aiter_raw():
                    found += chunk
                    if len(found) > _MOST_ANSWER:
                        break
            except Exception:  # noqa: BLE001 - the HTTP library's error, whose name depends on the version
                raise Unusable("the endpoint's answer is cut off") from None
    if len(found) > _MOST_ANSWER:
        raise Unusable(f"the endpoint sent more than {_MOST_ANSWER:,} bytes")
    return bytes(found)


def _client(rules: Summarizer, key: str) -> Any:
    import ssl

    import openai

    async def strip(request: Any) -> None:
        # Other headers are set by the environment and may hold secrets, such as an account.
        sent = {"host", "connection", "content-length", "content-type", "accept", "user-agent"}
        for name in set(request.headers) - sent:
            del request.headers[name]
        request.headers["Accept-Encoding"] = "identity"
        if key:
            request.headers["Authorization"] = f"Bearer {key}"

    async def close_refusal(response: Any) -> None:
        # Close before reading the text, which may be long and may quote the key.
        if not response.is_success:
            await response.aclose()

    options: dict[str, Any] = {"event_hooks": {"request": [strip], "response": [close_refusal]}}
    try:
        if _is_loopback(rules.endpoint or ""):
            # If the user was told that data stays on this machine, it must not go through the environment's proxy. The
            # environment's certificates still count.
            options |= {"trust_env": False, "verify": ssl.create_default_context()}
        http = openai.DefaultAsyncHttpxClient(follow_redirects=False, **options)
    except Exception:  # noqa: BLE001 - errors of several libraries may quote a secret proxy address
        raise Unusable("the proxy or the certificates named in the environment cannot be used") from None
    # The hook sets the key.
    return openai.AsyncOpenAI(
        api_key="none", base_url=rules.endpoint, max_retries=rules.retries, timeout=None, http_client=http
    )


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _is_distrusted(error: BaseException | None) -> bool:
    """True if a connection failed because of a certificate."""
    from ssl import SSLCertVerificationError

    while error is not None:
        if isinstance(error, SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _answer_in(raw: bytes, protocol: Protocol, spent: list[float]) -> str:
    """Extract the text of an endpoint's answer, and its cost if reported. Raises Unusable."""
    try:
        answer = orjson.loads(raw)
    except ValueError:
        raise Unusable("the endpoint's answer is not JSON") from None
    # Some endpoints, such as OpenRouter, report the cost of an answer.
    usage = answer.get("usage") if isinstance(answer, dict) else None
    cost = usage.get("cost") if isinstance(usage, dict) else None
    if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost <= _MOST_COST:
        spent.append(float(cost))
    if protocol is Protocol.OMP:
        text = answer.get("summary") if isinstance(answer, dict) else None
    else:
        text = _chosen(answer)
    if not isinstance(text, str):
        raise Unusable("the endpoint's answer does not follow its protocol")
    return text


def _chosen(answer: Any) -> Any:
    try:
        choice = answer["choices"][0]
        message, reason = choice["message"], choice.get("finish_reason")
        calls, refusal, text = (message.get(key) for key in ("tool_calls", "refusal", "content"))
    except (KeyError, IndexError, TypeError, AttributeError):
        return None
    if calls:
        raise Unusable("the answer contains a tool call")
    if refusal or reason == "content_filter":
        raise Unusable("the model refused")
    if reason == "length":
        raise Unusable("the answer was cut off at its length limit")
    if text is None:
        return ""
    if isinstance(text, list):
        return "".join(each["text"] for each in text if isinstance(each, dict) and isinstance(each.get("text"), str))
    return text
