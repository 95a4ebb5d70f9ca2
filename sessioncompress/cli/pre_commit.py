"""`pre-commit`: make the sessions among staged files smaller, for a hook that then fails as formatters do."""

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

_STATE = "The sessions are as they were or as they will be, and what lies beside them is complete on disk."
_REMEDY = "Let git see these files and stage them, or run without --commit-originals (commitOriginals in your policy)."

_ADDED = re.compile(r"^add ", re.MULTILINE)
_PATCH = re.compile(r"patch(\d+)-(\d+)")
"""What pre-commit calls the file with what is not staged: its time, and the number of its process."""
_LONGEST = 3600
"""Seconds. An older patch is of a run that is over, whoever has its process's number now."""


_ATTRIBUTES = ("text", "eol", "crlf", "ident", "working-tree-encoding", "filter")
_OFF = ("unspecified", "unset")
_EXACT_FILTERS = ("lfs", "git-crypt", "annex")
"""Filters that give back to the byte what they took, by the names that their programs give them."""


def put_aside() -> frozenset[str]:
    """Return the absolute paths of the files that a run of pre-commit has set back to what of them is staged.

    It does so with every change that is not staged while its hooks run, and keeps a patch to put it back. Raises
    FileFailed where git cannot read that.
    """
    home = _home_of_pre_commit()
    try:
        patches = [entry.path for entry in os.scandir(home) if _is_at_work(entry.name)]
    except OSError:
        return frozenset()
    # What the user wants of white space in a patch is no concern of a look at its names.
    asked = ["apply", "--whitespace=nowarn", "--numstat", "-z", "--"]
    names = b"".join(git.call([*asked, patch], state=_STATE) for patch in patches).split(b"\0")
    return frozenset(os.path.abspath(os.fsdecode(name.split(b"\t", 2)[2])) for name in names if name)  # noqa: PTH100 - must not resolve links


def _home_of_pre_commit() -> str:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - without a home it stays as it is
    return os.environ.get("PRE_COMMIT_HOME") or os.path.join(cache, "pre-commit")  # noqa: PTH118


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
    """Raise Refused where what lies beside a session is not staged as it was before the hooks began.

    The commit would hold a session without its newest originals. And were anything appended to these files now,
    neither that nor what was put aside could be put back together.
    """
    for file in (files.journal, files.originals):
        if os.path.abspath(file) in aside:  # noqa: PTH100
            what = "the session is to be committed, but what lies beside it is not staged"
            remedy = f"Stage that too (git add {quote(str(files.folder))}), and commit again."
            raise Refused(what, where=file, state=NOT_CHANGED, remedy=remedy)


def stage(stores: Mapping[Path, Beside], *, dry_run: bool) -> list[str]:
    """Stage what lies beside some sessions; return the names of what was not staged yet, as git quotes them.

    With `dry_run` they are not staged. Raises FileFailed where git does not take one of them, or would change it, or
    the session that it belongs to.
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
    # Git does not look again at a file that it took by a rule that is no more.
    if stale := _stale(files):
        added |= _added([*options, "--renormalize", "--", *stale])
    return list(added)


def _added(arguments: Sequence[str | Path]) -> dict[str, None]:
    said = git.call(["--literal-pathspecs", "add", *arguments], state=_STATE, remedy=_REMEDY)
    # A name may hold the end of a line, which git prints as it is.
    return dict.fromkeys(name.rstrip("\n") for name in _ADDED.split(said.decode(errors="replace"))[1:])


def _stale(files: Sequence[Path]) -> list[Path]:
    """Return the files of which the index has another content than git would take now."""
    there = git.call(["--literal-pathspecs", "ls-files", "--stage", "-z", "--", *files], state=_STATE)
    known = {fields.split(b" ")[1] for fields in there.split(b"\0")[:-1]}
    now = git.call(["hash-object", "--", *files], state=_STATE).split()
    return [file for file, digest in zip(files, now, strict=True) if digest not in known]


def _refuse_altered(sessions: Iterable[Path], files: Iterable[Path]) -> None:
    """Raise FileFailed where a clone of the commit would have other bytes; it names all rules that prevent it."""
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
    """Return whether a session lies in the work tree at `top`, and in none that lies in that."""
    folder = Path(os.path.realpath(session.parent))
    return folder.is_relative_to(top) and top.is_relative_to(next(git.work_trees(folder), top))


def altered(sessions: Iterable[str], files: Iterable[str], at: Path | None = None, trusted: str = "") -> dict[str, str]:
    """Return which sessions, originals and journals would be others in a commit or a clone, each with what prevents it.

    Git may convert the ends of lines, the encoding and `$Id$`, or run a filter, of which it cannot be known whether it
    gives back what it took. Where git is to tell text from bytes by itself, it knows originals for bytes. `at` and
    `trusted` are those of git.call(). Raises FileFailed, as in no repository.
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
    """Return whether a clone has a carriage return at the end of each line."""
    return values["eol"] == "crlf" and _conversion(values) != "unset"


def _is_text(values: Mapping[str, str], *, auto: bool) -> bool:
    """Return whether a commit has no carriage return at the end of a line; with `auto` also where git decides that."""
    told = _conversion(values)
    implied = told == "unspecified" and values["eol"] in ("lf", "crlf")
    return implied or told in ("set", "input") or (auto and told == "auto")


def _conversion(values: Mapping[str, str]) -> str:
    """Return `text`, or what it was called before."""
    return values["crlf"] if values["text"] == "unspecified" else values["text"]


def _has_crlf(session: Path) -> bool:
    """Return whether a line of a session ends so; what is no file has none."""
    with failing(session, _STATE), suppress(FileNotFoundError, Refused), open(open_file(session), "rb") as file:
        last = b""
        while piece := file.read(BUFFER):
            if b"\r\n" in last + piece:
                return True
            last = piece[-1:]
    return False


def _others_to_unset(values: Mapping[str, str]) -> str:
    """Return the attributes beside `text` that are to be unset, as .gitattributes has them."""
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

    # All before any: a policy that is wrong ends it with nothing done.
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
    """Say what to do after a check: a run without what the hook was given would do something else."""
    if not due:
        return f"Stage what is not staged: {_ADD}."
    options = [
        *(["--config", quote(str(config))] if config else []),
        *(["--preset", preset] if preset else []),
        *(["--commit-originals"] if committed else []),
    ]
    add = _ADD.replace("them,", "them and what lies beside them,") if committed else _ADD
    return f"Run '{' '.join(['sessioncompress compress', *options])}' on them: {add}.{_where(policies)}"


def _where(policies: Iterable[Policy]) -> str:
    """Say where the originals are: a clone has them only where they are committed, too."""
    kept = any(policy.keep_backup and not policy.commit_originals for policy in policies)
    return " Their originals stay in this work tree alone, unless the hook has --commit-originals." if kept else ""


def _code(outcome: Outcome[CompressionStats]) -> int:
    """Say what became of a file, if anything; return the code with which it would end alone."""
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
    """Say of which sessions an earlier run hid from git what is to be committed; return those."""
    from sessioncompress.store.folder import hides_from_git

    besides = {path: beside_of(path, policy) for path, policy in policies.items()}
    hidden = [path for path, beside in besides.items() if holds(beside) and hides_from_git(beside)]
    for path in hidden:
        click.echo(printable(f"{path}: hidden from git by {besides[path].folder / '.gitignore'}: its originals"))
    return hidden


def _stage(policies: Mapping[Path, Policy], *, check: bool) -> bool:
    """Stage what lies beside sessions whose originals are committed; say whether there was any that was not staged.

    Of all of them, also those that this run left alone: what an earlier run put there may not have been staged.
    """
    if not policies:
        return False

    staged = stage({path: beside_of(path, policy) for path, policy in policies.items()}, dry_run=check)
    for name in staged:
        click.echo(printable(f"{'not staged' if check else 'staged'}: {name}"))
    return bool(staged)
