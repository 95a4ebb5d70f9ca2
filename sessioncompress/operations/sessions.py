"""Find the sessions of all agents on this machine; measure a session, and judge it by its budget. Changes nothing."""

from __future__ import annotations

import glob
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from hashlib import sha256
from itertools import chain
from pathlib import Path, PureWindowsPath
from reprlib import repr as shortened
from typing import Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from sessioncompress.compressors import View
from sessioncompress.compressors.base import Ours
from sessioncompress.core import jsonl
from sessioncompress.core.checkpoint import Say
from sessioncompress.core.lines import turns_of
from sessioncompress.core.model import Protection, Role
from sessioncompress.core.text import counted, printable, quote, utf8
from sessioncompress.errors import NOTHING_DONE, IsALink, NotASession, SessionCompressError, UsageError, failing
from sessioncompress.formats import table, values
from sessioncompress.formats.base import Format, Head
from sessioncompress.operations.compress import compress_session, judge_open, refuse_conflicts, rehearse, rehearse_open
from sessioncompress.pipeline import reading, rollouts, triage
from sessioncompress.pipeline.discover import EVERYTHING, Found, Globs, Search, discover, is_folder, is_younger
from sessioncompress.pipeline.stats import Action, BudgetStats, CompressionStats, Status
from sessioncompress.policy.model import BALANCED, Policy, Rule
from sessioncompress.store import journal as journals
from sessioncompress.store.layout import FOLDER, lines_of, real_place, store_at, store_of
from sessioncompress.store.lock import OpenSession, open_session


class Selection(Struct, frozen=True):
    """Selects sessions by agent, project, minimum seconds since the last change, and path patterns. None means all.

    The agent may have any name that `--agent` takes. Raises UsageError.
    """

    agent: str | None = None
    project: Path | None = None
    older_than: int | None = None
    globs: Globs = EVERYTHING

    def __post_init__(self) -> None:
        """Convert the agent's name to ours, and check the types. A value that matches nothing must not pass for it."""
        if self.agent is not None:
            force_setattr(self, "agent", table.agent_named(str(self.agent)))
        seconds = "a whole number of seconds"
        for name, kind, must in (("project", str | os.PathLike, "a path"), ("older_than", int, seconds)):
            if not isinstance(value := getattr(self, name), kind | None):
                what = f"the selection's {name} is {shortened(value)}, but must be {must}"
                raise UsageError(what, state=NOTHING_DONE)


_ALL = Selection()


class Project(NamedTuple):
    """A selected project: its resolved folder with its digest, and a glob for names if the folder doesn't exist."""

    folder: Path
    digest: str
    names: str

    def has(self, project: str) -> bool:
        """True if a session's project is this one, is below it, or is displayed under this name."""
        name = printed(project)
        printed_as = (str(Path(name)), PureWindowsPath(name).name) if self.names else ()
        if project == self.digest or any(fnmatchcase(each, self.names) for each in printed_as):
            return True
        is_path = "\0" not in project and Path(project).is_absolute()
        return is_path and Path(os.path.realpath(project)).is_relative_to(self.folder)


def project_of(selection: Selection) -> Project | None:
    """Return the selected project, if any."""
    if selection.project is None:
        return None
    # Lists show `~`, which a shell doesn't expand inside quotes.
    folder = Path(os.path.realpath(os.path.expanduser(selection.project)))  # noqa: PTH111 - never raises
    # Narrow lists show only the last folder, with "..." for omitted parts.
    name = "" if is_folder(folder) else os.path.expanduser(selection.project)  # noqa: PTH111 - as above
    names = glob.escape(name).replace("...", "*") if name.strip("./") else ""
    return Project(folder, sha256(os.fsencode(folder)).hexdigest(), names)


_TITLE = 200
"""Maximum characters of a title."""
PROMPT_LINES = 200
"""A session's first prompt, which identifies its family, is searched in this many first lines."""
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/=]{60,}\n?)+")
_PASTED = 16_384


def short(project: str) -> str:
    """Shorten a project given only as a digest of its folder, as in Gemini CLI. Others stay."""
    is_digest = len(project) == len(sha256().hexdigest()) and frozenset("0123456789abcdef").issuperset(project)
    return f"sha256:{project[:12]}" if is_digest else project


def folder_of(project: str) -> str:
    """Return the name of a project's folder; empty if its agent records only a digest."""
    return PureWindowsPath(project).name if short(project) == project else ""


def printed(project: str) -> str:
    """Format a project as in the list of sessions."""
    return printable(short(project)) or "-"


class Session(Found, frozen=True):
    """A session in its agent's folder. `size` is in bytes, `modified` in seconds since 1970.

    `project` is the folder in which it was started, as in Name, or else the folder where the agent keeps its state.
    """

    agent: str = ""
    id: str = ""
    project: str = ""
    size: int = 0
    modified: float = 0
    title: str = ""


def sessions(selection: Selection = _ALL, search: Search = discover) -> Iterator[Found]:
    """Yield each selected session by folder, as a Session, and a Found with an `error` for what can't be read.

    Searches the agents' folders, and GitClaw's folders in the selected project, or in the working folder and its
    parents. Other files are skipped, because agents keep much else there. If `search` finds a missing session, or names
    a file that isn't a session, that one has a store and is yielded as found.
    """
    project = project_of(selection)
    met: set[str] = set()
    for folder, keeper in _places(project.folder if project else None):
        for found in search([folder], selection.globs) if is_folder(folder) else ():
            real = os.path.realpath(found.path)
            if real in met:
                continue
            met.add(real)
            if not os.path.lexists(found.path):
                if _may_be_gone(folder, keeper, selection, project):
                    yield found
                continue
            try:
                one: Found | None = _looked_at(found, keeper, selection, project)
            except (NotASession, IsALink):
                one = found if found.named and found.error is None else None
            except SessionCompressError as error:
                one = Found(found.path, named=False, error=error)
            if one is not None:
                yield one


def _places(project: Path | None) -> Iterator[tuple[Path, Path | None]]:
    """Yield the folders to search, each with the project if an agent keeps its state inside it."""
    for root in table.agent_roots():
        yield root, None
    keepers = [project] if project else []
    if project is None:
        # The working folder may have been deleted.
        with suppress(FileNotFoundError):
            here = Path.cwd()
            keepers = [here, *here.parents]
    for keeper in keepers:
        for folder in table.below(keeper):
            yield folder, keeper


def _may_be_gone(folder: Path, keeper: Path | None, selection: Selection, project: Project | None) -> bool:
    """True if a missing session is selected. The folder that was searched is all there is to go by."""
    kept_by = selection.agent is None or (
        folder in table.agent_roots(selection.agent) if keeper is None else selection.agent == table.KEEPER
    )
    return kept_by and selection.older_than is None and (project is None or project.folder == keeper)


def _looked_at(found: Found, keeper: Path | None, selection: Selection, project: Project | None) -> Session | None:
    """Read a session's properties; None if it isn't selected. Raises SessionCompressError."""
    if found.error is not None:
        raise found.error
    with failing(found.path):
        status = found.path.lstat()
    if selection.older_than is not None and is_younger(status, selection.older_than):
        return None
    title = ""
    if found.path.name.endswith(rollouts.ENDING):
        form, name = rollouts.whose(found.path)
    else:
        with open_session(found.path, writing=False) as opened:
            head = reading.head_in(opened)
            form = reading.format_of(opened, head=head)
            name, title = form.named(head), title_in(opened, form, head)
    if selection.agent not in (None, form.name):
        return None
    named = _folder_of(name.project, found.path) or str(keeper or "")
    if project and keeper != project.folder and not project.has(named):
        return None
    return Session(
        found.path,
        named=False,
        agent=form.name,
        id=name.id,
        project=named,
        size=status.st_size,
        modified=status.st_mtime,
        title=title,
    )


def _folder_of(project: str, session: Path) -> str:
    """Resolve a project's digest to its folder, if its agent knows that or it is the working folder or a parent."""
    if short(project) == project:
        return project
    with suppress(FileNotFoundError):
        here = Path.cwd()
        for folder in chain(table.projects_near(session), map(str, (here, *here.parents))):
            if sha256(folder.encode(errors="replace")).hexdigest() == project:
                return folder
    return project


class ListedSession(Struct, frozen=True, rename="camel"):
    """One session in the list. `estimate` is the bytes that a run would free in total; if 0, `reason` tells why.

    `could_save` is the same as counted by a dry run, if there was one. `compressed` is set if a run over it is in
    place. If `packed`, it takes `packed_size` bytes of its pack, store included. `made_elsewhere` is set if others may
    have packed it. `modified` is in seconds since 1970.
    """

    path: str
    agent: str
    project: str
    id: str
    size: int
    modified: float
    compressed: bool
    could_save: int | None
    reason: str = ""
    packed: bool = False
    packed_size: int = 0
    title: str = ""
    made_elsewhere: bool = False
    estimate: int = field(default=0, name="couldSaveEstimate")


def file_and_reason(session: Session, policy: Policy, *, force: bool) -> tuple[Path, str]:
    """Return the file that a session's store belongs to, and the reason if nothing is due in it, else empty."""
    if session.remote is not None:
        return lines_of(session.path), triage.too_small(session.size, policy, force=force)
    return session.path, (triage.status_unopened(session.path, policy, force=force) or ("", ""))[1]


def listed(session: Session, policy: Policy, *, counts: bool) -> ListedSession:
    """Measure a session for the list; `counts` does a dry run. Raises SessionCompressError."""
    path = session.path
    if counts:
        would = triage.skip(path, policy, force=False) or compress_session(path, policy, dry_run=True)
        saves = max(would.original_size - would.compressed_size - would.store_added, 0) if would.is_smaller else 0
        reason = "" if would.is_smaller else would.reason
    else:
        path, reason = file_and_reason(session, policy, force=False)
        saves = 0 if reason else triage.estimate(path, session.agent, session.size, policy)
        reason = reason or ("" if saves else "little to save, or not estimated: --savings counts")
    journal = journals.load(store_at(real_place(path), policy).journal)
    return ListedSession(
        path=str(session.path),
        agent=session.agent,
        project=session.project,
        id=session.id,
        size=session.size,
        modified=session.modified,
        compressed=bool(journal.standing.numbers),
        could_save=saves if counts else None,
        reason=reason,
        title=session.title,
        estimate=saves,
    )


def title_of(path: Path) -> str:
    """Return the title of the session at a path; empty if it can't be read."""
    with suppress(SessionCompressError, OSError), open_session(path, writing=False) as session:
        head = reading.head_in(session)
        return title_in(session, reading.format_of(session, head=head), head)
    return ""


def title_in(session: OpenSession, form: Format, head: Head) -> str:
    """Return the agent's title for a session, or else its first prompt, on one line."""
    return given_title(session, form, head) or first_prompt(session, form, head)[0]


def given_title(session: OpenSession, form: Format, head: Head) -> str:
    """Return the newest title that the agent gave a session, on one line, or empty."""
    keys = [f'"{path[-1]}"'.encode() for path in form.titles]
    entries: list[Any] = [*head.entries, head.document]
    if keys and head.document is None:
        # The agent repeats the title near the end.
        tail = os.pread(session.fd, 1 << 16, max(session.size - (1 << 16), 0)).split(b"\n")
        entries += [jsonl.parse(raw) for raw in tail if any(key in raw for key in keys)]
    titles = (values.text(values.at(entry, path)) for path in form.titles for entry in reversed(entries))
    return next(filter(None, map(one_line, filter(None, titles))), "")


def one_line(text: str) -> str:
    """Shorten a text to a title."""
    return " ".join(utf8(text[: 2 * _TITLE]).split())[:_TITLE]


def first_prompt(session: OpenSession, form: Format, head: Head) -> tuple[str, int]:
    """Find a session's first prompt and its time. A fork starts with its parent's."""
    reader = form.reader()
    for number, raw, whole in rollouts.pieces(session):
        if number > PROMPT_LINES:
            break
        if whole and (entry := head.parsed.get(raw) or jsonl.parse(raw)) is not None:
            for said in reader.said(entry):
                if said.say is Say.PROMPT and said.text.strip():
                    return one_line(said.text), reader.line(raw, entry).time
    return "", 0


class Swept(NamedTuple):
    """Sessions that agents will delete within a week: their number, a sentence on that, and a command to keep them."""

    sessions: int
    said: str
    command: str


def swept(sessions: Iterable[tuple[str, str, float]], project: Path | None) -> Swept:
    """Find sessions that agents will delete soon, given (agent, path, time of last change).

    `project` is the selected project, if any, for the command.
    """
    sessions, will, keys = list(sessions), list[str](), list[str]()
    going: list[tuple[str, int, bool]] = []
    for agent, called, where, key, days in table.sweeps():
        kept = max(int(days) - 7, 1)
        roots = [os.path.realpath(root) for root in table.agent_roots(agent)]
        old = [path for of, path, changed in sessions if of == agent and changed < time.time() - kept * 24 * 3600]
        if old := [path for path in old if any(Path(os.path.realpath(path)).is_relative_to(root) for root in roots)]:
            sweeps = (
                f"{len(old):,}" if will else f"will delete {counted(len(old), 'session', 'sessions')} within a week"
            )
            will.append(f"{called} {sweeps} ({key}: {days:g} days)")
            keys.append(f"{key}: 365 in {where}")
            going += [(agent, kept, is_packable(path, agent)) for path in old]
    if not (some := [each for each in going if each[2]]):
        how = "'pack' refuses them, since parts of them lie outside their files. To keep them, set:"
        return Swept(len(going), f"{', '.join(will)}. {how}", ", ".join(keys))
    is_of_one = len({agent for agent, _, _ in some}) == 1
    which = f" --agent {some[0][0]}" if is_of_one else "" if project else " --all"
    which += f" --project {quote(str(project))}" if project else ""
    keep = "To keep them in an archive:"
    if left := len(going) - len(some):
        refused = (
            "'pack' refuses 1, a part of which lies" if left == 1 else f"'pack' refuses {left:,}, parts of which lie"
        )
        keep = f"{refused} outside the file. To keep the others in an archive:"
    pack = f"sessioncompress pack{which} --older-than {min(kept for _, kept, _ in some)}d"
    return Swept(len(going), f"{', '.join(will)}. {keep}", pack)


def is_packable(path: str, agent: str) -> bool:
    """True if a session is entirely in its file. True if it can't be read, since `pack` will report that."""
    with suppress(SessionCompressError, OSError), open_session(Path(path), writing=False) as session:
        return not part_of(session, table.format_named(agent))
    return True


def part_of(session: OpenSession, form: Format) -> str:
    """Return a part of a session in another file, or empty. No pack would include it, and the agent deletes it."""
    if form.links is None:
        return ""
    beside = chain([session.path.with_suffix(".meta.json")], session.path.with_suffix("").rglob("*"))
    # Its subagents' files are sessions themselves.
    files = (each for each in beside if each.is_file() and each.suffix != ".jsonl" and FOLDER not in each.parts)
    texts = (raw.decode(errors="replace") for _, raw, _ in rollouts.pieces(session))
    links = (values.unescaped(link.group()) for text in texts for link in form.links.finditer(text))
    # In a command, a sign of the shell may follow.
    named = (each.partition("\n")[0].split()[-1].rstrip(";") for each in links)
    return next(chain(map(utf8, map(str, files)), named), "")


class Share(Struct, frozen=True, rename="camel"):
    """The blocks of one kind and tool: their number, and their bytes by position."""

    kind: str
    tool: str
    blocks: int = 0
    protected_bytes: int = 0
    old_bytes: int = 0
    dead_bytes: int = 0

    @property
    def size(self) -> int:
        """The total bytes."""
        return self.protected_bytes + self.old_bytes + self.dead_bytes

    def __add__(self, other: Share) -> Share:
        names = ("blocks", "protected_bytes", "old_bytes", "dead_bytes")
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in names})


class SessionStats(Struct, frozen=True, rename="camel"):
    """A session's bytes by kind, its number of compactions, and a dry run with the same policy.

    `other_bytes` is everything outside the blocks: messages, records, and replacements that runs left.
    """

    path: str
    format: str
    size: int
    store_size: int
    lines: int
    turns: int
    summary_count: int
    shares: tuple[Share, ...]
    other_bytes: int
    would: CompressionStats


class Inspected(NamedTuple):
    """The statistics of an open session, with the data they are based on."""

    stats: SessionStats
    view: View
    known: reading.Known


def inspect_open(stored: reading.Stored, policy: Policy) -> Inspected:
    """Measure the blocks of an open session and do a dry run. Raises SessionCompressError."""
    session = stored.session
    # Do the dry run first, so that the session isn't in memory twice.
    would = rehearse_open(stored, policy)
    known = reading.read_session(stored)
    view = View(known.survey, policy, known.form, Ours((known.journal,)))
    shares: dict[tuple[str, str], Share] = {}
    found = ((number, each) for number, line in enumerate(view.lines) for each in line.blocks)
    blocks = ((number, each) for number, each in found if not view.holds_ours(each))
    sizes = ((each.kind.value, each.tool, view.standing_of(number, each), each.size) for number, each in blocks)
    for kind, tool, standing, size in chain(sizes, _pasted(session, view)):
        share = shares.get((kind, tool), Share(kind, tool))
        where = f"{standing}_bytes"
        shares[kind, tool] = replace(share, blocks=share.blocks + 1, **{where: getattr(share, where) + size})
    stats = SessionStats(
        path=str(session.path),
        format=known.form.name,
        size=session.size,
        store_size=stored.store.size,
        lines=len(known.survey.lines),
        turns=turns_of(known.survey),
        summary_count=sum(role is Role.CHECKPOINT for role in view.lines.roles),
        shares=tuple(sorted(shares.values(), key=lambda share: -share.size)),
        # A mirror may repeat bytes that are already counted.
        other_bytes=max(session.size - sum(share.size for share in shares.values()), 0),
        would=would,
    )
    return Inspected(stats, view, known)


def _pasted(session: OpenSession, view: View) -> Iterator[tuple[str, str, Protection, int]]:
    """Find long base64 in prompts, which stays like all of the user's words."""
    for number, raw, whole in rollouts.pieces(session):
        if whole and len(raw) > _PASTED and number >= 0 and view.lines.roles[number] is Role.USER:
            texts = (said.text for said in view.form.reader().said(jsonl.parse(raw) or {}) if said.say is Say.PROMPT)
            sizes = (len(run) for text in texts for run in _BASE64.findall(text))
            yield from (("base64", "(prompts)", Protection.PROTECTED, size) for size in sizes if size > _PASTED)


def inspect_session(path: Path | str, policy: Policy = BALANCED, *, form: str | None = None) -> SessionStats:
    """Measure the blocks of a session and do a dry run. `form` as in compress_session().

    Raises SessionCompressError.
    """
    with reading.opened_with_store(path, policy, form=form) as stored:
        return inspect_open(stored, policy).stats


def budget_session(path: Path | str, policy: Policy = BALANCED, *, form: str | None = None) -> BudgetStats:
    """Judge a session by a policy's rule. `form` as in compress_session(). Raises SessionCompressError."""
    with reading.opened(Path(path), writing=False, form=form) as session:
        # A judgment needs no original, so the store is not checked.
        store = store_of(session.path, policy)
        known = reading.read_session(reading.Stored(session, store, journals.load(store.journal)))
        refuse_conflicts(known)
        stats = judge_open(known, policy)
        if not policy.enabled:
            return replace(stats, decision=Action.NONE.value, reason=triage.SWITCHED_OFF)
        # A rule judges only the present content. But a run that would change nothing is never due.
        if stats.decision == Action.COMPRESS and not (run := rehearse(known, policy)).is_smaller:
            reason = f"{stats.reason}, but compress would change nothing: {run.reason}"
            only_summary = policy.budget.rule is Rule.DELIBERATE and run.status is Status.UNCHANGED
            decision = Action.COMPACT if only_summary else Action.NONE
            return replace(stats, decision=decision.value, reason=reason)
        return stats
