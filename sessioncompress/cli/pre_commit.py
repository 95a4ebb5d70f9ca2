"""`pre-commit`: compress sessions among the staged files, for a hook that then fails as formatters do."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import click
from msgspec.structs import replace

from sessioncompress.cli import options, output
from sessioncompress.core import text
from sessioncompress.core.text import argument, printable, quote
from sessioncompress.errors import FileFailed, InUse, Refused, failing
from sessioncompress.operations import batch, wording
from sessioncompress.pipeline import triage
from sessioncompress.pipeline.discover import Found, handed
from sessioncompress.pipeline.stats import CompressionStats
from sessioncompress.policy.model import Policy
from sessioncompress.store import folder, git
from sessioncompress.store.disk import BUFFER
from sessioncompress.store.layout import JOURNAL, Store, holds, store_at
from sessioncompress.store.lock import open_file

_STATE = "Each session is either as before or completely rewritten, and the stores are complete on disk."

_ADDED = re.compile(r"^add ", re.MULTILINE)
_PATCH = re.compile(r"patch(\d+)-(\d+)")
"""The name of pre-commit's patch of unstaged changes: its time and process id."""

_OFF = ("unspecified", "unset")


def put_aside() -> frozenset[str]:
    """Return the absolute paths of files whose unstaged changes pre-commit has put aside.

    It reverts them while its hooks run, and restores them from a patch. Raises FileFailed if git can't read the patch.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - never raises
    home = os.environ.get("PRE_COMMIT_HOME") or os.path.join(cache, "pre-commit")  # noqa: PTH118
    try:
        patches = [entry.path for entry in os.scandir(home) if _is_at_work(entry.name)]
    except OSError:
        return frozenset()
    # Only the names matter; ignore the user's whitespace settings.
    asked = ["apply", "--whitespace=nowarn", "--numstat", "-z", "--"]
    names = b"".join(git.call([*asked, patch], state=_STATE) for patch in patches).split(b"\0")
    return frozenset(os.path.abspath(os.fsdecode(name.split(b"\t", 2)[2])) for name in names if name)  # noqa: PTH100 - must not resolve links


def _is_at_work(name: str) -> bool:
    found = _PATCH.fullmatch(name)
    # A patch older than an hour is from a finished run, even if its process id is in use again.
    if found is None or time.time() - int(found[1]) > 3600:  # noqa: PLR2004
        return False
    try:
        os.kill(int(found[2]), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def refuse_if_put_aside(store: Store, aside: frozenset[str]) -> None:
    """Raise Refused if pre-commit has put aside unstaged changes of the store.

    The commit would hold a session without its newest originals. And if a run appended to the store now, the changes
    could not be restored from the patch.
    """
    for file in (store.journal, store.originals):
        if os.path.abspath(file) in aside:  # noqa: PTH100
            what = "the session is about to be committed, but its store is not staged"
            remedy = f"Stage that too (git add {quote(str(store.folder))}), and commit again."
            raise Refused(what, where=file, remedy=remedy)


def stage(stores: Mapping[Path, Store], *, dry_run: bool) -> list[str]:
    """Stage stores, and return the names of files that were not yet staged, as git prints them.

    With `dry_run`, stage nothing. Raises FileFailed if git rejects a file, or would change it or its session;
    Refused if a later commit would lose them.
    """
    files: list[Path] = []
    sessions: list[Path] = []
    attributes: set[Path] = set()
    for path, store in stores.items():
        if there := [file for file in (store.originals, store.journal) if os.path.lexists(file)]:
            files += there
            sessions.append(path)
            attributes.add(folder.attributes_of(store))
    if not files:
        return []
    files = sorted(set(files))
    _refuse_altered(sessions, files)
    files += sorted(filter(Path.is_file, attributes))
    asked = ["--verbose", *(["--dry-run"] if dry_run else [])]
    added = _added([*asked, "--", *files])
    # Git doesn't re-examine a file that it added under an old rule.
    staged = git.call(["--literal-pathspecs", "ls-files", "--stage", "-z", "--", *files], state=_STATE)
    known = {fields.split(b" ")[1] for fields in staged.split(b"\0")[:-1]}
    now = git.call(["hash-object", "--", *files], state=_STATE).split()
    if stale := [file for file, digest in zip(files, now, strict=True) if digest not in known]:
        added |= _added([*asked, "--renormalize", "--", *stale])
    if added and Path(os.environ.get("GIT_INDEX_FILE", "")).name.startswith("next-index-"):
        # 'git commit FILE' takes what hooks stage into that commit, but not into the index of the next one.
        what = "git commits only the files that were named, and the next commit would delete this new store"
        remedy = "Stage it with its session ('git add' the folder), and commit without names of files."
        raise Refused(what, where=files[0], state=_STATE, remedy=remedy)
    return list(added)


def _added(arguments: Sequence[str | Path]) -> dict[str, None]:
    hidden = "--originals-in hidden (commitOriginals: false in your policy)"
    remedy = f"Let git see these files and stage them, or run with {hidden}."
    said = git.call(["--literal-pathspecs", "add", *arguments], state=_STATE, remedy=remedy)
    # A name may contain a newline, which git prints unescaped.
    return dict.fromkeys(name.rstrip("\n") for name in _ADDED.split(said.decode(errors="replace"))[1:])


def _refuse_altered(sessions: Iterable[Path], files: Iterable[Path]) -> None:
    """Raise FileFailed if a clone of the commit would get other bytes; it lists the rules that prevent this."""
    top = git.work_tree(_STATE)
    asked = []
    for path in sessions:
        real = Path(os.path.realpath(path.parent))
        if real.is_relative_to(top) and top.is_relative_to(next(git.work_trees(real), top)):
            asked.append(os.fspath(path))
    found = altered(asked, map(os.fspath, files))
    if not found:
        return
    first, *others = found
    more = f", and those of {len(others)} more" if others else ""
    rules = ", ".join(f"'{rule}'" for rule in dict.fromkeys(found.values()))
    raise FileFailed(
        f"a rule in .gitattributes makes git change its bytes{more}",
        where=first,
        state=_STATE,
        remedy=f"Add {rules} at the end of the .gitattributes nearest to the file, in its folder or one above it "
        "(.git/info/attributes overrides all), and stage that. If git has the session already, also run 'git add "
        "--renormalize FILE'.",
    )


def altered(sessions: Iterable[str], files: Iterable[str], at: Path | None = None, trusted: str = "") -> dict[str, str]:
    """Find files that git would change in a commit or a clone, each with the rule that prevents it.

    Git may convert line ends, encoding and `$Id$`, or run a lossy filter; its text detection takes originals for
    binary. `at` and `trusted` are passed to git.call(). Raises FileFailed, also outside a repository.
    """
    own = dict.fromkeys(sessions)
    asked = ["check-attr", "--stdin", "-z", "text", "eol", "crlf", "ident", "working-tree-encoding", "filter"]
    given = b"\0".join(map(os.fsencode, [*own, *files]))
    fields = os.fsdecode(git.call(asked, at=at, trusted=trusted, given=given, state=_STATE)).split("\0")[:-1]
    found: dict[str, dict[str, str]] = {}
    for name, attribute, value in zip(fields[::3], fields[1::3], fields[2::3], strict=True):
        found.setdefault(name, {})[attribute] = value
    rules: dict[str, str] = {}
    for name, values in found.items():
        text = values["crlf"] if values["text"] == "unspecified" else values["text"]
        is_text = text in ("set", "input") or (text == "unspecified" and values["eol"] in ("lf", "crlf"))
        ends_as_crlf = values["eol"] == "crlf" and text != "unset"
        if name in own:
            pattern = f"*{Path(name).suffix}" if Path(name).suffix else Path(name).name
            # With `auto`, git decides.
            converted = ends_as_crlf or ((is_text or text == "auto") and _has_crlf(Path(at or "", name)))
        elif name.endswith(JOURNAL):
            pattern, converted = f"*{JOURNAL}", ends_as_crlf
        else:
            pattern, converted = "*.zst", is_text
        unset = ["-text"] if converted else []
        unset += [f"-{each}" for each in ("ident", "working-tree-encoding") if values[each] not in _OFF]
        # These filters, as their programs name them, are lossless.
        if values["filter"] not in (*_OFF, "lfs", "git-crypt", "annex"):
            unset.append("-filter")
        if unset:
            rules[name] = " ".join([pattern, *unset])
    return rules


def _has_crlf(session: Path) -> bool:
    with failing(session, _STATE), suppress(FileNotFoundError, Refused), open(open_file(session), "rb") as file:
        last = b""
        while piece := file.read(BUFFER):
            if b"\r\n" in last + piece:
                return True
            last = piece[-1:]
    return False


@click.command(
    "pre-commit",
    cls=options.Command,
    epilog="Example: sessioncompress pre-commit --check $(git diff --cached --name-only --diff-filter=d)",
)
@options.FILES
@options.CHECK
@options.CONFIG
@options.PRESET
@options.COMMIT_ORIGINALS
def pre_commit(
    files: Sequence[Path], check: bool, config: Path | None, preset: str | None, commit_originals: bool
) -> None:
    """Compress the sessions among files. Exit 1 if one got smaller."""
    # Load all policies first, so that an invalid one ends the command before any change.
    known = options.policies_of(config, preset, compresses=True, commit_originals=commit_originals)
    policies = {found: known.of(found.path) for found in handed(files)}
    for found, policy in policies.items():
        options.tell_of_two_stores(found.path, policy)

    codes, runs, smaller = _compress(policies, check=check)
    committed = [found.path for found, policy in policies.items() if policy.commit_originals]
    stores = _for_the_commit(policies, committed)
    # An earlier run without --commit-originals hid them.
    hidden = [path for path, store in stores.items() if check and _is_hidden(store)]
    for path in hidden:
        click.echo(printable(f"{path}: its originals are hidden from git in {stores.pop(path).folder}"))
    # Include sessions that this run skipped: the output of an earlier run may not be staged.
    staged = stage({path: store for path, store in stores.items() if not store.is_hidden}, dry_run=check)
    for name in staged:
        click.echo(printable(f"{'not staged' if check else 'staged'}: {name}"))

    due = 1 in codes or bool(hidden)
    where = ""
    if any(policy.keep_backup and found.path not in {*stores, *committed} for found, policy in policies.items()):
        # A clone has the originals only if they are committed.
        where = " Their originals stay in this work tree only, unless the hook has --originals-in history."
    if due and check:
        command = _command((*smaller, *hidden), policies.values(), config, preset)
        these = "the sessions and their stores" if committed else "the sessions"
        click.echo(printable(f"Run '{command}', then 'git add' {these}, and commit again.{where}"))
    elif due:
        click.echo(f"They are smaller now: 'git add' them, and commit again.{where}")
    elif check and staged:
        click.echo("Run 'git add' on what is not staged, and commit again.")
    output.tell_of_undo(runs.values(), [path for path, run in runs.items() if run])
    sys.exit(batch.worst({*codes, int(due), int(check and bool(staged))}))


def _compress(policies: Mapping[Found, Policy], *, check: bool) -> tuple[set[int], dict[Path, str], list[Path]]:
    """Compress sessions; return the exit codes, the runs of sessions that were opened, and those that got smaller."""
    aside, run_id = put_aside(), text.run_id(time.time())
    runs, smaller = dict[Path, str](), list[Path]()

    def work(found: Found) -> CompressionStats:
        path, policy = found.path, policies[found]
        if aside:
            refuse_if_put_aside(store_at(path, policy), aside)
        if policy.commit_originals and not check:
            options.show_originals(path, policy)
        if (skipped := triage.skip(path, policy, force=False)) is not None:
            triage.check_originals(path, policy)
            return skipped
        from sessioncompress.operations.compress import compress_session

        done = compress_session(path, policy, dry_run=check, named=found.named, run_id=run_id)
        runs[path] = done.run
        smaller.extend([path] * done.is_smaller)
        return replace(done, path=str(path))

    return {_code(outcome) for outcome in batch.each(policies, work)}, runs, smaller


def _for_the_commit(policies: Mapping[Found, Policy], committed: Collection[Path]) -> dict[Path, Store]:
    """Return the stores of sessions whose policy commits originals, and those that git has."""
    stores = {found.path: store_at(found.path, policy) for found, policy in policies.items()}
    # A run may have added originals to a store in git, and this commit needs them.
    shown = (each for each in stores.values() if holds(each) and not (each.is_hidden or each.folder.is_symlink()))
    known = git.known(each.journal for each in shown)
    return {path: each for path, each in stores.items() if path in committed or each.journal in known}


def _is_hidden(store: Store) -> bool:
    return holds(store) and (store.is_hidden or folder.hides_from_git(store))


def _command(paths: Iterable[Path], policies: Iterable[Policy], config: Path | None, preset: str | None) -> str:
    """Return the command that compresses sessions as the hook would; a run without its options would not."""
    command = ["sessioncompress compress"]
    command += ["--config", quote(str(config))] if config else []
    command += ["--preset", preset] if preset else []
    kept = {policy.commit_originals for policy in policies}
    command += ["--originals-in", "history"] if "history" in kept else ["--commit-originals"] if any(kept) else []
    return " ".join([*command, *map(argument, paths)])


def _code(outcome: batch.Outcome[CompressionStats]) -> int:
    """Print a file's result and return its exit code."""
    if outcome.passed_over:
        return 0
    if isinstance(outcome.error, InUse):
        click.echo(f"skipped: {outcome.error}", err=True)
        return 0
    if outcome.error is not None:
        output.tell_error(outcome.found.shown, outcome.error, set())
        return outcome.exit_code
    assert outcome.result is not None
    for warning in wording.warnings(outcome.result):
        click.echo(warning, err=True)
    if not outcome.result.is_smaller:
        return 0
    click.echo(wording.line(outcome.result))
    return 1
