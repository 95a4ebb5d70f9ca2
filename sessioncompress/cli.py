"""The commands: parse, call, print, exit code; nothing else. Everything that takes time is imported when needed."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, ParamSpec

import click

from sessioncompress import interrupt
from sessioncompress.errors import SessionCompressError
from sessioncompress.find import policy_files
from sessioncompress.printable import printable
from sessioncompress.version import VERSION

if TYPE_CHECKING:
    from sessioncompress.discover import Found
    from sessioncompress.policy import Policy
    from sessioncompress.stats import CleanStats, CompressionStats, ForgetStats, RestoreStats, SessionStats, VerifyStats

P = ParamSpec("P")

_SHOWN_BYTES = 20 * 1024


class _Existing(click.Path):
    """A path that is there; click looks at all of them before a command starts."""

    def fail(self, message: str, param: click.Parameter | None = None, ctx: click.Context | None = None) -> NoReturn:
        super().fail(f"{message} Nothing was done.", param, ctx)


_PATHS = click.argument("paths", nargs=-1, required=True, type=_Existing(path_type=Path, exists=True, readable=False))
_CONFIG = click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Policy file; else the nearest compression.json beside or above the session.",
)
_PRESET = click.option(
    "--preset", type=click.Choice(["balanced", "low-cost", "high-quality"]), help="Base policy; a file changes it."
)
_BACKUP_DIR = click.option(
    "--backup-dir", type=click.Path(path_type=Path, file_okay=False), help="Folder for originals and journals."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")


def _errors_end_it(command: Callable[P, None]) -> Callable[P, None]:
    """Print an error of ours and exit with its code; an interrupt exits with 130."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with interrupt.raised():
                command(*args, **kwargs)
        except SessionCompressError as error:
            click.echo(str(error), err=True)
            sys.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo("Interrupted; every session is as it was or as it will be, none in between.", err=True)
            sys.exit(interrupt.EXIT_CODE)

    return run


@contextmanager
def _said_printably() -> Iterator[None]:
    """Let click say what was typed, a file's name perhaps, without its power over a terminal."""
    try:
        yield
    except click.UsageError as error:
        said = error.format_message()
        if said.isprintable() or (error.ctx and said == error.ctx.get_help()):
            raise
        raise click.UsageError(printable(said), error.ctx) from error


class _Commands(click.Group):
    """The commands; an error is said printably, whether this or one of them raises it."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with _said_printably():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _said_printably():
            return super().invoke(ctx)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="sessioncompress")
def main() -> None:
    """Rewrite coding-agent sessions in place into smaller ones; every original stays recoverable."""


@main.command(epilog="Example: sessioncompress compress ~/.pi/agent/sessions")
@_PATHS
@click.option("--dry-run", is_flag=True, help="Say what would change; change nothing.")
@click.option("--check", is_flag=True, help="Like --dry-run; exit 1 if something would change.")
@_CONFIG
@_PRESET
@click.option(
    "--keep-turns",
    type=click.IntRange(0),
    help="User turns that stay whole; in a session with no more of them --protect-tokens counts.",
)
@click.option(
    "--protect-mode",
    type=click.Choice(["turns-or-tokens", "turns", "turns-and-tokens"]),
    help="How the recent context is measured.",
)
@click.option("--protect-tokens", type=click.IntRange(0), help="Newest tokens of tool I/O that stay whole.")
@click.option("--min-size", type=click.IntRange(0), metavar="KB", help="Leave smaller sessions alone.")
@click.option("--no-backup", is_flag=True, help="Keep no originals: nothing can be restored.")
@_BACKUP_DIR
@click.option("--quiet-seconds", type=click.FloatRange(0), help="Refuse a session that changed within so many seconds.")
@click.option("--force", is_flag=True, help="Also sessions under the size threshold, and savings under minSavedKB.")
@_JSON
@_errors_end_it
def compress(
    paths: Sequence[Path],
    dry_run: bool,
    check: bool,
    config: Path | None,
    preset: str | None,
    as_json: bool,
    force: bool,
    **overrides: Any,
) -> None:
    """Make sessions smaller, in place."""
    from dataclasses import replace

    from sessioncompress import archive, gate, report
    from sessioncompress.discover import discover

    rehearse = dry_run or check

    def work(found: Found) -> CompressionStats:
        policy = _policy(found.path, config, preset, overrides)
        if (skipped := gate.skip(found.path, policy, force=force)) is not None:
            return skipped
        from sessioncompress.compress import compress_session

        return replace(compress_session(found.path, policy, dry_run=rehearse, force=force), path=str(found.path))

    done: list[CompressionStats] = []
    passed_over = 0
    codes: set[int] = set()
    for outcome in archive.each(discover(paths), work):
        codes.add(outcome.exit_code)
        if outcome.passed_over:
            passed_over += 1
            continue
        stats = outcome.result or report.failed(str(outcome.found.path), _known(outcome.error))
        done.append(stats)
        if not as_json or outcome.error:
            click.echo(report.line(stats, dry_run=rehearse), err=outcome.error is not None)
        _echo_all(report.warnings(stats))
    if as_json:
        _echo_json(report.document(done))
    else:
        click.echo(report.total_line(done, passed_over=passed_over, dry_run=rehearse))
    if check and any(stats.status.value == "compressed" for stats in done):
        codes.add(1)
    sys.exit(archive.worst(codes))


@main.command(epilog="Example: sessioncompress stats session.jsonl")
@_PATHS
@_CONFIG
@_PRESET
@_BACKUP_DIR
@_JSON
@_errors_end_it
def stats(
    paths: Sequence[Path], config: Path | None, preset: str | None, backup_dir: Path | None, as_json: bool
) -> None:
    """Show where the bytes of sessions are and what would be saved; change nothing."""
    from dataclasses import replace

    from sessioncompress import report
    from sessioncompress.inspect import inspect_session

    def work(path: Path) -> SessionStats:
        done = inspect_session(path, _policy(path, config, preset, {"backup_dir": backup_dir}))
        return replace(done, path=str(path), would=replace(done.would, path=str(path)))

    done = _for_each(paths, work)
    if as_json:
        _echo_json(report.sessions_document(done.results))
    else:
        for each in done.results:
            for text in report.session_lines(each):
                click.echo(text)
        _echo_total(paths, len(done.results), report.sessions_total(done.results), done.others)
    sys.exit(done.exit_code)


@main.command(epilog="Example: sessioncompress restore session.jsonl")
@_PATHS
@click.option("--from-markers", is_flag=True, help="Put originals back wherever a marker of ours stands.")
@click.option(
    "--originals", type=click.Path(path_type=Path), help="Session whose originals to use (with --from-markers)."
)
@_CONFIG
@_BACKUP_DIR
@_errors_end_it
def restore(
    paths: Sequence[Path], from_markers: bool, originals: Path | None, config: Path | None, backup_dir: Path | None
) -> None:
    """Give sessions their original bytes back; what was appended since stays."""
    if originals and not from_markers:
        raise click.UsageError("--originals goes with --from-markers")
    from sessioncompress.report import kb
    from sessioncompress.restore import restore_session

    def work(path: Path) -> RestoreStats:
        policy = _policy(path, config, None, {"backup_dir": backup_dir})
        done = restore_session(path, policy, from_markers=from_markers, originals=originals)
        if done.lines_restored:
            lines = f"{done.lines_restored:,} {'line' if done.lines_restored == 1 else 'lines'} restored"
            sizes = f"{kb(done.size_before)} -> {kb(done.size_after)}"
            click.echo(f"{printable(str(path))}: {sizes}, {lines}" + (f"; {done.reason}" if done.reason else ""))
        else:
            click.echo(f"{printable(str(path))}: unchanged: {done.reason}")
        return done

    done = _for_each(paths, work)
    restored = [each for each in done.results if each.lines_restored]
    before, after, lines = (
        sum(getattr(each, name) for each in restored) for name in ("size_before", "size_after", "lines_restored")
    )
    what = f" restored: {kb(before)} -> {kb(after)}, {lines:,} lines"
    _echo_total(paths, len(restored), what, {"unchanged": len(done.results) - len(restored), **done.others})
    sys.exit(done.exit_code)


@main.command(epilog="Example: sessioncompress show 7f3a91c2e05b --lines 1:80")
@click.argument("ref")
@click.argument("path", required=False, type=click.Path(path_type=Path, exists=True))
@click.option("--all", "everything", is_flag=True, help="Print all of it, not only the first 20 KB.")
@click.option("--lines", metavar="A:B", help="Print lines A to B only, counted from 1.")
@_CONFIG
@_BACKUP_DIR
@_errors_end_it
def show(
    ref: str, path: Path | None, everything: bool, lines: str | None, config: Path | None, backup_dir: Path | None
) -> None:
    """Print the original that a marker's reference names."""
    from sessioncompress.lookup import show as find
    from sessioncompress.lookup import working_folder
    from sessioncompress.report import kb

    policy = _policy(path or working_folder() / "session.jsonl", config, None, {"backup_dir": backup_dir})
    found = find(ref, path, policy)
    if len(found) > 1:
        _ambiguous(ref, found)
    content = found[0].content
    if lines is not None:
        content = _lines(content, lines)
    rest = 0 if everything or lines is not None else max(0, len(content) - _SHOWN_BYTES)
    _print(content[: len(content) - rest])
    if rest:
        click.echo(f"\n{kb(rest)} more; --all prints everything, --lines A:B a part.", err=True)
    if found[0].record.kind.value == "image":
        click.echo("An image, in base64: 'show REF --all | base64 -d' gives the file.", err=True)


@main.command(epilog="Example: sessioncompress verify session.jsonl")
@_PATHS
@_CONFIG
@_BACKUP_DIR
@_JSON
@_errors_end_it
def verify(paths: Sequence[Path], config: Path | None, backup_dir: Path | None, as_json: bool) -> None:
    """Check sessions and that every original is there and right; exit 5 if not."""
    from dataclasses import replace

    from sessioncompress import report
    from sessioncompress.audit import verify_session

    def work(path: Path) -> VerifyStats:
        done = verify_session(path, _policy(path, config, None, {"backup_dir": backup_dir}))
        done = replace(done, path=str(path))
        if not as_json:
            click.echo(report.verified(done))
        return done

    done = _for_each(paths, work)
    if as_json:
        _echo_json(report.verify_document(done.results))
    else:
        _echo_total(paths, len(done.results), report.verified_total(done.results), done.others)
    sys.exit(done.exit_code)


@main.command(epilog="Example: sessioncompress forget session.jsonl")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--yes", is_flag=True, help="Do not ask.")
@_CONFIG
@_BACKUP_DIR
@_errors_end_it
def forget(paths: Sequence[Path], yes: bool, config: Path | None, backup_dir: Path | None) -> None:
    """Delete what lies beside sessions, after saying what can then not be restored."""
    from itertools import chain

    from sessioncompress.discover import discover, is_folder
    from sessioncompress.forget import forget_session, sessions_gone
    from sessioncompress.report import at_stake, kb, links_kept

    def policy_of(path: Path) -> Policy:
        return _policy(path, config, None, {"backup_dir": backup_dir})

    def work(path: Path) -> tuple[str, ForgetStats]:
        policy = policy_of(path)
        would = forget_session(path, policy, dry_run=True)
        name = printable(str(path)) + (" (session gone)" if would.gone else "")
        if not would.bytes_deleted:
            kept = f"kept {links_kept(would.links_kept)}" if would.links_kept else "nothing lies beside it"
            click.echo(f"{name}: {kept}")
            return "with nothing beside", would
        if not yes and not _confirmed(f"{name}: delete {at_stake(would)}?", path):
            click.echo(f"{name}: kept")
            return "kept", would
        done = forget_session(path, policy)
        click.echo(f"{name}: deleted {at_stake(done, done=True)}")
        return "deleted", done

    gone = (each for path in paths if is_folder(path) for each in sessions_gone(path, policy_of))
    done = _for_all(chain(discover(paths), gone), work)
    deleted = [stats.bytes_deleted for ended, stats in done.results if ended == "deleted"]
    others = {word: sum(ended == word for ended, _ in done.results) for word in ("kept", "with nothing beside")}
    _echo_total(paths, len(deleted), f": deleted {kb(sum(deleted))}", {**others, **done.others})
    sys.exit(done.exit_code)


def _amount(
    units: Mapping[str, int], example: str
) -> Callable[[click.Context, click.Parameter, str | None], int | None]:
    """Return what reads a number with one of a few units as what it comes to."""

    def read(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
        if value is None:
            return None
        found = re.fullmatch(rf"(\d{{1,9}})({'|'.join(units)})", value)
        if found is None:
            raise click.BadParameter(
                f"{value!r} is no whole number with {' or '.join(units)} behind it, as in {example}", ctx, param
            )
        return int(found[1]) * units[found[2]]

    return read


@main.command(epilog="Example: sessioncompress clean ~/.pi/agent/sessions")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--yes", is_flag=True, help="Do it; without this it only says what would go.")
@click.option(
    "--older-than",
    metavar="AGE",
    callback=_amount({"d": 24 * 3600}, "90d"),
    help="Also delete the originals of sessions whose last run is older, as in 90d.",
)
@click.option(
    "--max-size",
    metavar="SIZE",
    callback=_amount({"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}, "500MB"),
    help="Also delete the oldest originals until the rest is no larger in all, as in 500MB.",
)
@_CONFIG
@_BACKUP_DIR
@_JSON
@_errors_end_it
def clean(
    paths: Sequence[Path],
    yes: bool,
    older_than: int | None,
    max_size: int | None,
    config: Path | None,
    backup_dir: Path | None,
    as_json: bool,
) -> None:
    """Delete the originals of sessions that are gone, and what runs that ended left behind."""
    from itertools import chain

    from sessioncompress import archive, clean_report
    from sessioncompress.clean import clean_one, plan_clean
    from sessioncompress.decide import Limits
    from sessioncompress.discover import Found

    planned = plan_clean(
        paths, lambda path: _policy(path, config, None, {"backup_dir": backup_dir}), Limits(older_than, max_size)
    )
    decisions = {each.holding.session: each for each in planned.decisions}
    found = chain(planned.unread, (Found(path, named=True) for path in decisions))
    done: list[CleanStats] = []
    failed: list[tuple[str, SessionCompressError]] = []
    codes: set[int] = set()
    for outcome in archive.each(found, lambda found: clean_one(decisions[found.path], dry_run=not yes)):
        codes.add(outcome.exit_code)
        if outcome.error is not None:
            failed.append((str(outcome.found.path), outcome.error))
            click.echo(clean_report.failed_line(outcome.error), err=True)
        elif outcome.result is not None:
            done.append(outcome.result)
            if not as_json:
                click.echo(clean_report.line(outcome.result, dry_run=not yes))
    if as_json:
        _echo_json(clean_report.document(done, failed, dry_run=not yes))
    else:
        click.echo(clean_report.total_line(done, len(failed), dry_run=not yes))
    sys.exit(archive.worst(codes))


def _confirmed(question: str, path: Path) -> bool:
    """Ask; an interrupt ends it all, and where nobody is there to answer, that is an error."""
    try:
        return click.confirm(question)
    except click.Abort as abort:
        if not isinstance(abort.__context__, EOFError):
            raise KeyboardInterrupt from None
    click.echo()
    from sessioncompress.errors import UsageError

    raise UsageError("nobody answers", where=path, state="Nothing of it is deleted.", remedy="Use --yes.")


class _Done(NamedTuple):
    """What became of several files: results, how many came to nothing and why, and the exit code."""

    results: list[Any]
    others: dict[str, int]
    exit_code: int


def _for_each(paths: Iterable[Path], work: Callable[[Path], Any]) -> _Done:
    """Do the work for every file that the paths mean; print errors."""
    from sessioncompress.discover import discover

    return _for_all(discover(paths), work)


def _for_all(found: Iterable[Found], work: Callable[[Path], Any]) -> _Done:
    """Do the work for every file that was found; print errors."""
    from sessioncompress import archive, report

    results = []
    codes: set[int] = set()
    others = dict.fromkeys(("failed", "refused", report.PASSED_OVER), 0)
    for outcome in archive.each(found, lambda each: work(each.path)):
        codes.add(outcome.exit_code)
        if outcome.error is None:
            results.append(outcome.result)
            continue
        ended = report.PASSED_OVER if outcome.passed_over else report.status_of(outcome.error).value
        others[ended] += 1
        if not outcome.passed_over:
            click.echo(f"{ended}: {outcome.error}", err=True)
    return _Done(results, others, archive.worst(codes))


def _echo_total(paths: Sequence[Path], done: int, what: str, others: Mapping[str, int]) -> None:
    """Print the line that ends a command over a folder or over several paths."""
    from sessioncompress.discover import is_folder
    from sessioncompress.words import counted

    if len(paths) > 1 or any(map(is_folder, paths)):
        head = f"total: {counted(done, 'session', 'sessions')}" + (what if done else "")
        click.echo("; ".join([head, *(f"{number:,} {word}" for word, number in others.items() if number)]))


def _policy(path: Path, config: Path | None, preset: str | None, overrides: dict[str, Any]) -> Policy:
    """Return the policy for a session: file and preset, then what the command line says."""
    from sessioncompress.policy import preset_of, with_options

    base = preset_of(preset)
    for file, ours in [(config, True)] if config else policy_files(path):
        _warn_of(file)
        if ours:
            from sessioncompress.config import load

            base = load(file, base)
            break
    return with_options(base, overrides)


def _warn_of(file: Path) -> None:
    """Say once what of a policy file nothing heeds."""
    warned = click.get_current_context().meta.setdefault(__name__, set())
    if file in warned:
        return
    warned.add(file)
    from sessioncompress.config import misplaced

    if said := misplaced(file):
        click.echo(printable(f"warning: {file}: {said}"), err=True)


def _known(error: SessionCompressError | None) -> SessionCompressError:
    return error or SessionCompressError("nothing came of it")


def _echo_all(texts: Iterable[str]) -> None:
    for text in texts:
        click.echo(text, err=True)


def _echo_json(document: Any) -> None:
    import orjson

    from sessioncompress.printable import printable_json

    click.echo(printable_json(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()))


def _ambiguous(ref: str, found: Sequence[Any]) -> None:
    from sessioncompress.errors import UsageError

    for each in found:
        record = each.record
        where = f"{record.kind.value} {record.tool}, {record.bytes:,} bytes, line {record.line + 1}"
        click.echo(printable(f"{record.xxh3}  {where}  {each.journal}"), err=True)
    raise UsageError(f"{ref} names {len(found)} originals", remedy="Give more digits, or name the session.")


def _lines(content: bytes, wanted: str) -> bytes:
    found = re.fullmatch(r"(\d{1,18})(?:(:)(\d{1,18})?)?", wanted)
    if found is None or int(found[1]) < 1:
        raise click.UsageError("--lines takes A:B, two line numbers counted from 1")
    lines = list(BytesIO(content))
    first = int(found[1])
    last = int(found[3]) if found[3] else (max(first, len(lines)) if found[2] else first)
    if last < first:
        raise click.UsageError(f"--lines {wanted} ends before it begins")
    if first > len(lines):
        raise click.UsageError(f"--lines {wanted} begins behind the end, line {len(lines):,}")
    return b"".join(lines[first - 1 : last])


def _print(content: bytes) -> None:
    """Print bytes as they are; on a terminal, control characters are made visible."""
    if not sys.stdout.isatty():
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return

    text = content.decode(errors="backslashreplace").removesuffix("\n")
    click.echo("\n".join(printable(each.replace("\t", "    ")) for each in text.split("\n")))
