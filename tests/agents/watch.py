"""Watch the agents: what does the newest version of each do that we do not know yet?

    python -m tests.agents.watch [AGENT...]

npm brings the newest version of each agent into a folder of the user's cache. In a home with all that it keeps there,
the agent lives through one story. Then its session is compressed, restored after an append, archived and compacted, and
resumed each time. The command prints a table, and exits with 1 where a kind that no format of ours names takes more
than 2 % of the bytes, where a request differs from what the agent sends without us, or where it lists other turns.

A kind is what a record, an event in it or a part of its content says in `type` (or `role`). It is known where the
format's own modules name it in a string, as every table and comparison there does, or where the format's reader takes
something out of it that may be replaced. So nothing is listed a second time: a format that learns a kind names it.
Attachments do not count as taken: a reader takes their texts whatever kind they are, and most of them stay.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from platformdirs import user_cache_path

from sessioncompress import Policy, compress_session, formats, restore_session
from sessioncompress.core.jsonl import parse
from sessioncompress.core.model import JsonPath, Kind, Line
from sessioncompress.formats.base import Format
from sessioncompress.formats.table import agent_named
from sessioncompress.formats.values import literal
from tests.agents import bodies, compacting, watch_story
from tests.agents.bodies import Body
from tests.agents.compare import MARKER, UNSAID, differences
from tests.agents.resuming import PROMPT, ResumeError
from tests.agents.sessions import ARCHIVE, NO_THRESHOLDS
from tests.agents.standin import Request, StandIn
from tests.agents.watch_agents import AGENTS, Agent, NotReadError, Seat
from tests.support.runs import form_of, units

PINS = Path(__file__).with_name("package.json")
MOST = 0.02
"""So large a share of the bytes may be of a kind that no format names."""

_SHOWN = 0.005
"""Kinds of a smaller share are not in the table."""

_NAMES = re.compile(r'"?[\w$-]+"?(?: [\w$-]+)*')
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{9,27}|\d{4,}")


# The kinds of a session


def names_of(form: Format) -> frozenset[str]:
    """Return what a format's modules name in strings: the kinds that it knows are among them."""
    classes = [*type(form).__mro__, *form.reader.__mro__]
    stems = {each.__module__.rpartition(".")[2] for each in classes if each.__module__.startswith(formats.__name__)}
    files = {path for stem in stems for path in Path(formats.__path__[0]).glob(f"{stem}*.py")}
    return frozenset(name for path in files for name in names_in(path.read_text(encoding="utf-8")))


def names_in(source: str) -> Iterator[str]:
    """Yield the names, and the lists of names, in the strings of a module; sentences and documentation are none."""
    nodes = list(ast.walk(ast.parse(source)))
    documentation = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)) and id(node) not in documentation:
            text = node.value if isinstance(node.value, str) else node.value.decode(errors="replace")
            if _NAMES.fullmatch(text.strip()):
                yield from text.replace('"', "").split()


def kind_of(value: Any) -> str:
    """Return what an object says that it is; an empty text where it does not say."""
    keys = ("type", "role") if isinstance(value, dict) else ()
    return next((value[key] for key in keys if isinstance(value.get(key), str)), "")


def label_of(entry: Mapping[str, Any]) -> str:
    """Return what a record is, and what the first thing in it is that says so of itself."""
    own = kind_of(entry) or next(iter(entry), "")
    return "/".join([own, *[kind for each in entry.values() if (kind := kind_of(each))][:1]])


def unnamed(entry: Mapping[str, Any], line: Line, names: Collection[str]) -> Iterator[tuple[str, int]]:
    """Yield the kinds in a record that its format does not know, each with its bytes."""
    taken = [block.path for block in line.blocks if block.kind is not Kind.ATTACHMENT]

    def walk(value: Any, path: JsonPath, label: str) -> Iterator[tuple[str, int]]:
        if kind := kind_of(value) or ("" if path else next(iter(value), "")):
            label = f"{label}/{kind}" if path else kind
            if kind not in names and not any(path == each[: len(path)] or each == path[: len(each)] for each in taken):
                yield label, len(literal(value)) if path else line.size
                return
        for step, child in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(child, (dict, list)):
                yield from walk(child, (*path, step), label)

    return walk(entry, (), "")


@dataclass(slots=True)
class Bytes:
    """The bytes of a session by kind, and those of the kinds that its format does not know."""

    kinds: Counter[str] = field(default_factory=Counter)
    unnamed: Counter[str] = field(default_factory=Counter)

    def unknown(self, share: float) -> list[tuple[str, float]]:
        """Return the kinds that no format names and that take more than a share of the bytes, with theirs."""
        shares = ((label, size / self.kinds.total()) for label, size in self.unnamed.most_common())
        return [(label, each) for label, each in shares if each > share]


def bytes_of(session: Path) -> Bytes:
    data, found = session.read_bytes(), Bytes()
    form = form_of(data)
    reader, names = form.reader(), names_of(form)
    for raw in units(data):
        entry = parse(raw) or {}
        found.kinds[label_of(entry)] += len(raw)
        for label, size in unnamed(entry, reader.line(raw, entry), names):
            found.unnamed[label] += size
    return found


def table(before: Bytes, after: Bytes) -> list[str]:
    """Write the kinds with their bytes, and the share of these that the preset archive leaves."""
    total, left = before.kinds.total(), after.kinds.total()
    rows = [(label, size, after.kinds[label]) for label, size in before.kinds.most_common() if size > _SHOWN * total]
    lines = [
        f"{size:9,} {size / total:6.1%} {now / size:13.1%}  {label}"
        for label, size, now in (*rows, ("all", total, left))
    ]
    unknown = [f"no format names {label}: {share:.1%}" for label, share in before.unknown(_SHOWN)]
    return ["    bytes  share archive leaves  kind", *lines, *unknown]


# What is beside a session


def state_of(home: Path) -> dict[Path, bytes]:
    """Return the digests of the files in a home but ours, and but what databases write beside themselves."""
    files = [path for path in home.rglob("*") if path.is_file() and not path.name.endswith(("-shm", "-wal"))]
    return {path: sha256(path.read_bytes()).digest() for path in files if ".sessioncompress" not in path.parts}


def places_in(data: bytes) -> frozenset[int]:
    """Return where lines of a session end and begin; a number of three digits is no place but by chance."""
    return frozenset(place for place in accumulate(map(len, data.splitlines(keepends=True))) if place >= 1000)


def numbers_in(path: Path) -> list[int]:
    """Return the numbers in a file: the integers of a database, or what is written in digits."""
    if path.read_bytes()[:6] != b"SQLite":
        return list(map(int, re.findall(rb"(?<![\d.])\d{4,12}(?![\d.])", path.read_bytes())))
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = (row for name in tables for row in database.execute(f'SELECT * FROM "{name}"'))
        return [value for row in rows for value in row if isinstance(value, int)]


def beside(home: Path, before: Mapping[Path, bytes], session: Path) -> list[str]:
    """Say which files beside a session changed, and which of them point into it, as far as it does not do so itself."""
    places, found = places_in(session.read_bytes()), Counter[str]()
    for path, digest in state_of(home).items():
        hits = sum(number in places for number in numbers_in(path))
        if path != session and (before.get(path) != digest or hits > 1):
            what = "is new" if path not in before else "is as it was" if before[path] == digest else "changed"
            points = f", {hits} numbers in it are places in the session" if hits > 1 else ""
            found[f"{_ID.sub('N', str(path.relative_to(home)))} {what}{points}"] += 1
    return [f"beside: {each}{f' ({many} times)' if many > 1 else ''}" for each, many in sorted(found.items())]


# The story


@dataclass(slots=True)
class Life:
    """An agent in its home; the lines of its table, and what of all that is wrong."""

    agent: Agent
    seat: Seat
    lines: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    session: Path | None = None

    def ask(self, prompt: str, steps: Iterable[watch_story.Step] = ()) -> Request:
        """Ask a prompt; return the largest request for it that offers tools."""
        stand_in, before = self.seat.stand_in, len(self.seat.stand_in.requests)
        stand_in.script = list(map(self.agent.says, steps))
        self.agent.ask(self.seat, prompt, self.session)
        if stand_in.script:
            self.wrong.append(f"story: {len(stand_in.script)} answers to {prompt!r} were not asked for")
        sent = [each for each in stand_in.requests[before:] if each.offers_tools]
        assert sent, f"nothing was sent for {prompt!r}"
        return max(sent, key=lambda request: request.size)

    def live(self) -> Path:
        self.agent.settle(self.seat)
        for number, (prompt, steps) in enumerate(watch_story.story(self.agent.tools, self.seat.cwd), 1):
            self.ask(prompt, steps)
            self.session = self.session or self.agent.sessions(self.seat)[0]
            if number == watch_story.COMPACTED_AFTER:
                self.agent.compact(self.seat, self.session)
        return self.agent.sessions(self.seat)[0]

    def resume(self, session: Path) -> tuple[Body, list[str]]:
        """Go on by one prompt; return its request, and what turns the agent lists then."""
        self.session = session
        return self.ask(PROMPT).body, self.agent.turns(self.seat, session)

    def look(self, session: Path) -> None:
        """Rewrite the session in each way, resume it each time, and compare that with a resume of the original."""
        home, saved = self.seat.home, self.seat.home.with_name("saved")
        original, kinds, state, asked = session.read_bytes(), bytes_of(session), state_of(home), len(self.seat.asked)
        shutil.copytree(home, saved, symlinks=True)
        first = self.resume(session)
        self.lines += beside(home, state, session)
        # Where the agent only reads the file that we rewrite, a restore takes it back to before the first resume.
        second = first if session.read_bytes() == original else self.resume(session)
        left = Bytes()
        for how, rewrite, wanted, judge in (
            ("compress", lambda: compressed(session, NO_THRESHOLDS), first, _judged),
            ("restore", lambda: restored(session, original), second, _exact),
            ("archive", lambda: compressed(session, ARCHIVE), first, _judged),
            ("compact", lambda: compacting.compacted_here(session, compacting.SMALL), first, compacting.differences),
        ):
            if how != "restore":
                shutil.rmtree(home)
                shutil.copytree(saved, home, symlinks=True)
                del self.seat.asked[asked:]
            try:
                done = rewrite()
                left = bytes_of(session) if how == "archive" else left
                self.agent.put_back(self.seat, session)
                self.wrong += [
                    f"{how}: {each}" for each in self._compared(how, done, wanted, self.resume(session), judge)
                ]
            except Exception as error:
                # Whatever goes wrong with one way, or below with one agent, all else is looked at.
                self.wrong.append(f"{how}: {error}")
        self.lines[:0] = table(kinds, left)
        self.wrong[:0] = [
            f"kinds: {share:.1%} are {label}, which no format names" for label, share in kinds.unknown(MOST)
        ]

    def _compared(self, how: str, done: Any, wanted: Resumed, found: Resumed, judge: Judge) -> list[str]:
        (before, turns), (after, listed) = wanted, found
        self.lines.append(f"{how:8} {counts(before)} -> {counts(after)}; {len(turns)} -> {len(listed)} turns listed")
        due = turns if how != "compact" or self.agent.lists_all else turns[-len(listed) :]
        return judge(done, before, after) + missing(due, listed)


Resumed = tuple[Body, list[str]]
Judge = Callable[[Any, Body, Body], list[str]]


def compressed(session: Path, policy: Policy) -> None:
    """Compress a session, which must become smaller."""
    before, stats = session.stat().st_size, compress_session(session, policy)
    assert session.stat().st_size < before, stats.reason


def restored(session: Path, original: bytes) -> None:
    """Restore a session: it must begin with each byte that it had. What the agent copied is put back as it says then."""
    done = restore_session(session)
    assert session.read_bytes().startswith(original), "the original bytes did not come back"
    if "--from-markers" in done.reason:
        restore_session(session, from_markers=True)


def _judged(_: object, before: Body, after: Body) -> list[str]:
    return differences(before, after)


def _exact(_: object, before: Body, after: Body) -> list[str]:
    return [*differences(before, after), *(["a marker is left"] if MARKER in json.dumps(after) else [])]


def counts(body: Body) -> str:
    """Say how many messages, pairs of a call and its result, and texts a request has, without the agent's own."""
    said = [message for message in bodies.messages(body) if message.role not in UNSAID]
    kinds = Counter(part.kind for message in said for part in message.parts)
    pairs = min(kinds[bodies.Kind.CALL], kinds[bodies.Kind.RESULT])
    return f"{len(said)} messages, {pairs} pairs, {kinds[bodies.Kind.TEXT]} texts"


def missing(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """Name the first turn that was listed and is no more; what is listed in addition may stand anywhere."""
    rest = iter(after)
    gone = next((turn for turn in before if turn not in rest), None)
    return [] if gone is None else [f"of {len(before)} turns that the agent listed, it lists {gone!r:.120} no more"]


def watch(agent: Agent, modules: Path) -> tuple[list[str], bool]:
    """Have an agent live through the story, and look at all that comes of it; return its table, and whether all is well."""
    with TemporaryDirectory() as folder, StandIn() as stand_in:
        root = Path(folder).resolve()
        life = Life(agent, Seat(modules, root / "home", root / "project", stand_in))
        for each in (life.seat.home, life.seat.cwd):
            each.mkdir()
        try:
            life.look(life.live())
        except NotReadError as error:
            return [f"not watched: {error}"], True
        except Exception as error:
            life.wrong.append(f"story: {error}")
        return [*life.lines, *([f"WRONG {each}" for each in life.wrong] or ["all is well"])], not life.wrong


# npm


def bring(agent: Agent) -> tuple[str, Path]:
    """Install the newest version of an agent that npm can bring whole; return what that is, and where its modules are.

    What is pinned is brought in the same form, without the scripts of packages. What npm does not have at all is stood
    in for: where an agent needs it, it does not start.
    """
    folder, pins = user_cache_path("sessioncompress-watch") / agent.name, json.loads(PINS.read_bytes())
    stub = {"package.json": '{"name": "stub", "version": "1.0.0"}', "index.js": "module.exports = () => ({});\n"}
    # To npm what was once the latest stays the latest.
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "stub").mkdir(parents=True)
    for name, text in stub.items():
        (folder / "stub" / name).write_text(text)
    own = [
        name for name in pins["optionalDependencies"] if agent.package.endswith("-") and name.startswith(agent.package)
    ]
    runtime = [name for name in pins["optionalDependencies"] if agent.runtime and name.startswith(agent.runtime)]
    overrides = {name: each for name, each in pins["overrides"].items() if not name.startswith("pi-")}
    notes = ""
    for version in max(map(versions, own or [agent.package]), key=lambda found: _numbers(found[:1])):
        while True:
            manifest = {
                "dependencies": {"left-out": f"file:{PINS.parent / 'left-out'}"}
                | ({} if own else {agent.package: version}),
                "optionalDependencies": dict.fromkeys(runtime, "latest") | dict.fromkeys(own, version),
                "overrides": overrides,
            }
            (folder / "package.json").write_text(json.dumps(manifest))
            quiet = ("--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts")
            done = _npm("install", "--prefix", str(folder), *quiet)
            if not done.returncode:
                return f"{agent.name} {version}{notes}", folder / "node_modules"
            absent = re.search(r"resource '(@?[^@']+)@", done.stderr)
            if absent is None or absent[1] in overrides:
                break
            overrides[absent[1]] = f"file:{folder / 'stub'}"
            notes += f"; npm does not have {absent[1]}"
        notes += f"; npm does not have all of {version}"
    raise ResumeError(f"npm cannot bring {agent.package}: {done.stderr[-500:]}")


def versions(name: str) -> list[str]:
    """Return a package's versions, from the one that npm calls the latest down; none where npm has none."""
    latest = _npm("view", name, "dist-tags.latest").stdout.strip()
    found = json.loads(_npm("view", name, "versions", "--json").stdout) if latest else []
    listed = found if isinstance(found, list) else []
    older = [each for each in listed if "-" not in each and _numbers([each]) < _numbers([latest])]
    return [latest, *sorted(older, key=lambda each: _numbers([each]), reverse=True)] if latest else []


def _numbers(found: Sequence[str]) -> list[int]:
    return [int(digits) for each in found for digits in re.findall(r"\d+", each)]


def _npm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["npm", *arguments], capture_output=True, text=True, timeout=900, check=False)


def main(arguments: Sequence[str]) -> int:
    """Watch the named agents, or all; print the table of each."""
    well = True
    for name in [agent_named(each, list(AGENTS)) for each in arguments] or AGENTS:
        title, lines, good = name, list[str](), False
        try:
            title, modules = bring(AGENTS[name])
            lines, good = watch(AGENTS[name], modules)
        except Exception as error:
            lines = [f"WRONG npm: {error}"]
        print("\n  ".join([title, *lines]), end="\n\n", flush=True)
        well &= good
    return int(not well)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
