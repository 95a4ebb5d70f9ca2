"""`pre-commit`: compress the sessions among staged files, for a hook that then fails as formatters do."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from sessioncompress.cli.options import (
    COMMIT_ORIGINALS,
    CONFIG,
    FILES,
    PRESET,
    errors_end_it,
    policies_of,
    show_originals,
    tell_of_two_stores,
)
from sessioncompress.core.text import printable
from sessioncompress.errors import NOT_CHANGED, FileFailed, Refused, failing
from sessioncompress.store import git
from sessioncompress.store.disk import BUFFER
from sessioncompress.store.folder import attributes_of
from sessioncompress.store.layout import JOURNAL, Beside, beside_of, holds
from sessioncompress.store.lock import open_file

if TYPE_CHECKING:
    from sessioncompress.operations.batch import Outcome
    from sessioncompress.pipeline.discover import Found
    from sessioncompress.pipeline.summary import CompressionStats
    from sessioncompress.policy.model import Policy

_STATE = "The sessions are as they were or as they will be, and their stores are complete on disk."
_REMEDY = "Let git see these files and stage them, or run without --commit-originals (commitOriginals in your policy)."

_ADDED = re.compile(r"^add ", re.MULTILINE)
_PATCH = re.compile(r"patch(\d+)-(\d+)")
"""The name of pre-commit's patch with unstaged changes: its time and process id."""
_LONGEST = 3600
"""Seconds. An older patch is of a run that is over, even if its process id is in use again."""


_ATTRIBUTES = ("text", "eol", "crlf", "ident", "working-tree-encoding", "filter")
_OFF = ("unspecified", "unset")
_EXACT_FILTERS = ("lfs", "git-crypt", "annex")
"""Filters that are known to be lossless, by the names that their programs use."""


def put_aside() -> frozenset[str]:
    """Return the absolute paths of files whose unstaged changes pre-commit has put aside.

    It reverts them while its hooks run, and keeps a patch to put them back. Raises FileFailed if git cannot read it.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - without a home it stays as it is
    home = os.environ.get("PRE_COMMIT_HOME") or os.path.join(cache, "pre-commit")  # noqa: PTH118
    try:
        patches = [entry.path for entry in os.scandir(home) if _is_at_work(entry.name)]
    except OSError:
        return frozenset()
    # Only the names are read, whatever the user configured for white space.
    asked = ["apply", "--whitespace=nowarn", "--numstat", "-z", "--"]
    names = b"".join(git.call([*asked, patch], state=_STATE) for patch in patches).split(b"\0")
    return frozenset(os.path.abspath(os.fsdecode(name.split(b"\t", 2)[2])) for name in names if name)  # noqa: PTH100 - must not resolve links


def _is_at_work(name: str) -> bool:
    found = _PATCH.fullmatch(name)
    if found is None or time.time() - int(found[1]) > _LONGEST:
        return False
    try:
        os.kill(int(found[2]), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def refuse_if_put_aside(files: Beside, aside: frozenset[str]) -> None:
    """Raise Refused if pre-commit has put aside unstaged changes of the store.

    The commit would hold a session without its newest originals. And if a run appended to the store now, the changes
    that were put aside could not be applied again.
    """
    for file in (files.journal, files.originals):
        if os.path.abspath(file) in aside:  # noqa: PTH100
            what = "the session is to be committed, but its store is not staged"
            remedy = f"Stage that too (git add {quote(str(files.folder))}), and commit again."
            raise Refused(what, where=file, state=NOT_CHANGED, remedy=remedy)


def stage(stores: Mapping[Path, Beside], *, dry_run: bool) -> list[str]:
    """Stage stores; return the names of files that were not staged yet, as git quotes them.

    With `dry_run` nothing is staged. Raises FileFailed if git does not take a file, or would change it or its session.
    """
    besides = {
        path: [file for file in (each.originals, each.journal) if os.path.lexists(file)]
        for path, each in stores.items()
    }
    files = sorted({file for each in besides.values() for file in each})
    if not files:
        return []
    _refuse_altered([path for path, each in besides.items() if each], files)
    attributes = {attributes_of(stores[path]) for path, each in besides.items() if each}
    files += sorted(filter(Path.is_file, attributes))
    options = ["--verbose", *(["--dry-run"] if dry_run else [])]
    added = _added([*options, "--", *files])
    # Git does not look again at a file that it took under an old rule.
    if stale := _stale(files):
        added |= _added([*options, "--renormalize", "--", *stale])
    return list(added)


def _added(arguments: Sequence[str | Path]) -> dict[str, None]:
    said = git.call(["--literal-pathspecs", "add", *arguments], state=_STATE, remedy=_REMEDY)
    # A name may hold the end of a line, which git prints as it is.
    return dict.fromkeys(name.rstrip("\n") for name in _ADDED.split(said.decode(errors="replace"))[1:])


def _stale(files: Sequence[Path]) -> list[Path]:
    there = git.call(["--literal-pathspecs", "ls-files", "--stage", "-z", "--", *files], state=_STATE)
    known = {fields.split(b" ")[1] for fields in there.split(b"\0")[:-1]}
    now = git.call(["hash-object", "--", *files], state=_STATE).split()
    return [file for file, digest in zip(files, now, strict=True) if digest not in known]


def _refuse_altered(sessions: Iterable[Path], files: Iterable[Path]) -> None:
    """Raise FileFailed, with all rules that would prevent it, if a clone of the commit would have other bytes."""
    top = git.work_tree(_STATE)
    asked = [os.fspath(path) for path in sessions if _is_of(top, path)]
    found = altered(asked, map(os.fspath, files))
    if not found:
        return
    first, *others = found
    more = f", and those of {len(others)} more" if others else ""
    rules = ", ".join(f"'{rule}'" for rule in dict.fromkeys(found.values()))
    raise FileFailed(
        f"git would change its bytes{more}, by a rule in .gitattributes",
        where=first,
        state=_STATE,
        remedy=f"Add {rules} at the end of the .gitattributes nearest to the file, in its folder or one above it "
        "(.git/info/attributes goes before all), and stage that; a session that git has already with 'git add "
        "--renormalize FILE', too.",
    )


def _is_of(top: Path, session: Path) -> bool:
    folder = Path(os.path.realpath(session.parent))
    return folder.is_relative_to(top) and top.is_relative_to(next(git.work_trees(folder), top))


def altered(sessions: Iterable[str], files: Iterable[str], at: Path | None = None, trusted: str = "") -> dict[str, str]:
    """Find files that git would change in a commit or a clone, each with the rule that prevents it.

    Git may convert line ends, encoding and `$Id$`, or run a filter that may be lossy. If git detects text by itself, it
    takes originals for binary. `at` and `trusted` are those of git.call(). Raises FileFailed, as outside a repository.
    """
    own = dict.fromkeys(sessions)
    asked = ["check-attr", "--stdin", "-z", *_ATTRIBUTES]
    given = b"\0".join(map(os.fsencode, [*own, *files]))
    fields = os.fsdecode(git.call(asked, at=at, trusted=trusted, given=given, state=_STATE)).split("\0")[:-1]
    found: dict[str, dict[str, str]] = {}
    for name, attribute, value in zip(fields[::3], fields[1::3], fields[2::3], strict=True):
        found.setdefault(name, {})[attribute] = value
    rules: dict[str, str] = {}
    for name, values in found.items():
        if name in own:
            pattern = f"*{Path(name).suffix}" if Path(name).suffix else Path(name).name
            converted = _ends_as_crlf(values) or (_is_text(values, auto=True) and _has_crlf(Path(at or "", name)))
        elif name.endswith(JOURNAL):
            pattern, converted = f"*{JOURNAL}", _ends_as_crlf(values)
        else:
            pattern, converted = "*.zst", _is_text(values, auto=False)
        if unset := (" -text" if converted else "") + _others_to_unset(values):
            rules[name] = pattern + unset
    return rules


def _ends_as_crlf(values: Mapping[str, str]) -> bool:
    return values["eol"] == "crlf" and _conversion(values) != "unset"


def _is_text(values: Mapping[str, str], *, auto: bool) -> bool:
    # With `auto` git decides by itself.
    told = _conversion(values)
    implied = told == "unspecified" and values["eol"] in ("lf", "crlf")
    return implied or told in ("set", "input") or (auto and told == "auto")


def _conversion(values: Mapping[str, str]) -> str:
    return values["crlf"] if values["text"] == "unspecified" else values["text"]


def _has_crlf(session: Path) -> bool:
    with failing(session, _STATE), suppress(FileNotFoundError, Refused), open(open_file(session), "rb") as file:
        last = b""
        while piece := file.read(BUFFER):
            if b"\r\n" in last + piece:
                return True
            last = piece[-1:]
    return False


def _others_to_unset(values: Mapping[str, str]) -> str:
    rule = " -ident" if values["ident"] not in _OFF else ""
    rule += " -working-tree-encoding" if values["working-tree-encoding"] not in _OFF else ""
    return rule + (" -filter" if values["filter"] not in (*_OFF, *_EXACT_FILTERS) else "")


@click.command(
    "pre-commit", epilog="Example: sessioncompress pre-commit --check $(git diff --cached --name-only --diff-filter=d)"
)
@FILES
@click.option("--check", is_flag=True, help="Change nothing; exit 1 if something would change.")
@CONFIG
@PRESET
@COMMIT_ORIGINALS
@errors_end_it
def pre_commit(
    files: Sequence[Path], check: bool, config: Path | None, preset: str | None, commit_originals: bool
) -> None:
    """Make the sessions among files smaller; exit 1 if one became smaller."""
    from sessioncompress.operations import batch
    from sessioncompress.pipeline import discover, triage

    # All policies first: a wrong one ends the command with nothing done.
    known = policies_of(config, preset, {"commit_originals": commit_originals}, compresses=True)
    policies = {found: known.of(found.path) for found in discover.handed(files)}
    for found, policy in policies.items():
        tell_of_two_stores(found.path, policy)

    aside = put_aside()

    def work(found: Found) -> CompressionStats:
        if aside:
            refuse_if_put_aside(beside_of(found.path, policies[found]), aside)
        show_originals(found.path, policies[found], rehearse=check)
        if (skipped := triage.skip(found.path, policies[found], force=False)) is not None:
            triage.check_originals(found.path, policies[found])
            return skipped
        from sessioncompress.operations.compress import compress_session

        done = compress_session(found.path, policies[found], dry_run=check, named=found.named)
        return replace(done, path=str(found.path))

    codes = {_code(outcome) for outcome in batch.each(policies, work)}
    committed = {found.path: policy for found, policy in policies.items() if policy.commit_originals}
    hidden = _hidden(committed) if check else []
    due = 1 in codes or bool(hidden)
    staged = _stage({path: policy for path, policy in committed.items() if path not in hidden}, check=check)
    if check and (due or staged):
        click.echo(printable(_to_do(config, preset, committed, policies.values(), due=due)))
    elif due:
        click.echo(f"They are smaller now: {_ADD}.{_where(policies.values())}")
    codes |= {int(due), int(check and staged)}
    sys.exit(batch.worst(codes))


_ADD = "'git add' them, and commit again"


def _to_do(
    config: Path | None, preset: str | None, committed: Mapping[Path, Policy], policies: Iterable[Policy], *, due: bool
) -> str:
    # With the options of the hook: a run without them would do something else.
    if not due:
        return f"Stage what is not staged: {_ADD}."
    options = [
        *(["--config", quote(str(config))] if config else []),
        *(["--preset", preset] if preset else []),
        *(["--commit-originals"] if committed else []),
    ]
    add = _ADD.replace("them,", "them and their stores,") if committed else _ADD
    return f"Run '{' '.join(['sessioncompress compress', *options])}' on them: {add}.{_where(policies)}"


def _where(policies: Iterable[Policy]) -> str:
    # A clone has the originals only if they are committed.
    kept = any(policy.keep_backup and not policy.commit_originals for policy in policies)
    return " Their originals stay in this work tree alone, unless the hook has --commit-originals." if kept else ""


def _code(outcome: Outcome[CompressionStats]) -> int:
    """Print the outcome of a file, and return its exit code."""
    from sessioncompress.errors import InUse
    from sessioncompress.operations import report

    if outcome.passed_over:
        return 0
    if outcome.error is not None:
        in_use = isinstance(outcome.error, InUse)
        click.echo(f"{'skipped' if in_use else report.status_of(outcome.error).value}: {outcome.error}", err=True)
        return 0 if in_use else outcome.exit_code
    assert outcome.result is not None
    for text in report.warnings(outcome.result):
        click.echo(text, err=True)
    if not outcome.result.is_smaller:
        return 0
    click.echo(report.line(outcome.result))
    return 1


def _hidden(policies: Mapping[Path, Policy]) -> list[Path]:
    """Print and return the sessions whose stores are to be committed but were hidden from git by an earlier run."""
    from sessioncompress.store.folder import hides_from_git

    besides = {path: beside_of(path, policy) for path, policy in policies.items()}
    hidden = [path for path, beside in besides.items() if holds(beside) and hides_from_git(beside)]
    for path in hidden:
        click.echo(printable(f"{path}: hidden from git by {besides[path].folder / '.gitignore'}: its originals"))
    return hidden


def _stage(policies: Mapping[Path, Policy], *, check: bool) -> bool:
    """Stage the stores that are committed; tell whether any was not staged.

    Also those of sessions that this run skipped: what an earlier run wrote may not have been staged.
    """
    if not policies:
        return False

    staged = stage({path: beside_of(path, policy) for path, policy in policies.items()}, dry_run=check)
    for name in staged:
        click.echo(printable(f"{'not staged' if check else 'staged'}: {name}"))
    return bool(staged)
