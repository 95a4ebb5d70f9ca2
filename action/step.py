"""The action's second step: compress what the inputs name, say so in the log and the job summary, keep the document.

Where they ask for it, compact it first.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import orjson
from hidden import checkout, hidden
from inputs import NONE, USAGE, Inputs, WrongInputError, arguments, inputs_of, to_compact
from summary import summary

from sessioncompress.core.text import printable
from sessioncompress.errors import SessionCompressError
from sessioncompress.operations import wording
from sessioncompress.operations.batch import worst
from sessioncompress.operations.compact import CompactStats
from sessioncompress.pipeline.stats import CompressionStats, Status
from sessioncompress.store.layout import store_in

COMMAND = Path(sys.executable).parent / "sessioncompress"
LARGER = 1
SAID = {
    1: "the sessions take more bytes than before, with what lies beside them",
    USAGE: "the inputs ask for something that does not exist, and nothing was done",
    3: "a file failed, the others are done",
    4: "a session was refused, the others are done",
    5: "a store or a session failed its check",
}
"""What each exit code means; the log says more."""
_SAID_BY_COMMAND = (Status.FAILED, Status.REFUSED)
"""Of these the commands themselves tell in the log."""


def on_disk(paths: Sequence[str]) -> int:
    """Return the bytes of all files under the paths, and of what lies beside those that are files."""
    found: set[Path] = set()
    for path in map(Path, paths):
        if path.is_dir():
            found.update(Path(here) / name for here, _, names in os.walk(path) for name in names)
        else:
            files = store_in(path)
            found.update((path, files.originals, files.journal))
    return sum(path.lstat().st_size for path in found if os.path.lexists(path))


def stats_of(document: bytes) -> list[CompressionStats]:
    """Return the statistics that a document of `compress --json` holds; none where the command printed none."""
    files = orjson.loads(document)["files"] if document else []
    return msgspec.convert(files, list[CompressionStats])


@contextmanager
def no_commands() -> Iterator[None]:
    """Let the runner take nothing in the log for a command to it: the names of files are anybody's."""
    token = secrets.token_hex(16)
    print(f"::stop-commands::{token}", flush=True)
    try:
        yield
    finally:
        print(f"::{token}::", flush=True)


def compacted_of(document: bytes) -> list[CompactStats]:
    """Return the statistics that a document of `compact --json` holds; none where the command printed none."""
    files = orjson.loads(document)["files"] if document else []
    return msgspec.convert(files, list[CompactStats])


def compress(inputs: Inputs) -> tuple[int, bytes]:
    """Run the command; return its exit code and the document. What it says of files that fail goes to the log."""
    return called(arguments(inputs))


def compact(inputs: Inputs) -> tuple[int, bytes]:
    """Run the command that comes first, where it is asked for; return the same of it."""
    given = to_compact(inputs)
    return called(given) if given else (0, b"")


def called(given: Sequence[str]) -> tuple[int, bytes]:
    """Run one of our commands."""
    # In a job's container the checkout is another user's, in which git does not answer by itself.
    number = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
    trusted = {f"GIT_CONFIG_KEY_{number}": "safe.directory", f"GIT_CONFIG_VALUE_{number}": checkout()}
    environment = {**os.environ, **trusted, "GIT_CONFIG_COUNT": str(number + 1)}
    # No shell reads them, and the paths stand behind a "--".
    done = subprocess.run([COMMAND, *given], stdout=subprocess.PIPE, check=False, env=environment)  # noqa: S603
    return done.returncode, done.stdout


def keep(document: bytes, name: str, environ: Mapping[str, str]) -> None:
    """Write the document where later steps can read it, and tell them the file by an output's name."""
    fd, path = tempfile.mkstemp(".json", "sessioncompress-", environ["RUNNER_TEMP"])
    with os.fdopen(fd, "wb") as file:
        file.write(document)
    with Path(environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as outputs:
        outputs.write(f"{name}={path}\n")


def would_be_lost(inputs: Inputs) -> bool:
    """Say whether git ignores or changes originals that are to be committed, and which, before anything needs them."""
    if inputs.originals == NONE:
        return False
    try:
        found = hidden(inputs.paths, inputs.config, inputs.preset)
    except SessionCompressError:
        # The command says what is wrong with the policy.
        return False
    for name in found:
        print(printable(f"not committed as it is: {name}"))
    return bool(found)


def run(environ: Mapping[str, str]) -> int:
    """Do the step; return its exit code, the worst of the commands', or 1 where compressing made the paths larger."""
    inputs = inputs_of(environ)
    before = on_disk(inputs.paths)
    with no_commands():
        if would_be_lost(inputs):
            raise WrongInputError(
                "git ignores originals, or changes them or their sessions, which could not be restored, or does not "
                "answer: let it take them as they are, or say originals: none"
            )
        first, told = compact(inputs)
        compacted = [stats for stats in compacted_of(told) if stats.status not in _SAID_BY_COMMAND]
        for each in compacted:
            print(wording.compact_line(each), flush=True)
        if first == USAGE:
            return first
        # A summary makes a session larger: that is not looked at.
        between = on_disk(inputs.paths)
        code, document = compress(inputs)
        code = worst({first, code})
        done = stats_of(document)
        for stats in done:
            if stats.status not in _SAID_BY_COMMAND:
                print(wording.line(stats), flush=True)
    after = on_disk(inputs.paths)
    if told:
        keep(told, "compact-json", environ)
    if document:
        keep(document, "json", environ)
        with Path(environ["GITHUB_STEP_SUMMARY"]).open("a", encoding="utf-8") as page:
            page.write(summary(done, before, after, compacted))
    return code or (LARGER if inputs.fail_if_larger and after > between else 0)


def main() -> int:
    """Do the step, and end it with what its exit code means."""
    try:
        code = run(os.environ)
    except WrongInputError as error:
        code, said = USAGE, str(error)
    else:
        said = SAID.get(code, f"the command ended with {code}")
    if code:
        print(f"::error title=sessioncompress::{said}")
    return code


if __name__ == "__main__":
    sys.exit(main())
