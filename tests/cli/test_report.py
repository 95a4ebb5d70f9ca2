"""`report`: the page that it writes, what it prints, and what it refuses to replace."""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from sessioncompress.core.text import kb
from sessioncompress.operations.overview import REST, measure
from sessioncompress.operations.page import BEGINNING, share
from tests.support.attack import LINK, SCRIPT, attack
from tests.support.commands import document, put, run
from tests.support.runs import write

RUNS = [
    (["--all"], "--all"),
    (["--agent", "pi"], "--agent pi"),
    (["--all", "--older-than", "7d"], "--all --older-than 1w"),
    (["../home"], "../home"),
    (["--all", "--preset", "archive", "--include", "*.jsonl"], "--all --include '*.jsonl' --preset archive"),
]
WRONG_PRICES = ["", "three", "claude-*=", "=", "-1", "nan", "inf", "claude-*=1e999", "a=b=c"]


class Page(HTMLParser):
    """What a page is made of: its tags with their attributes, and its text without style."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self._open.pop()

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self.text += data

    def named(self, *names: str) -> Iterator[dict[str, str | None]]:
        return (attributes for tag, attributes in self.tags if tag in names)


def page(here: Path) -> str:
    return (here / "report.html").read_text()


def words(here: Path) -> str:
    """Read the words of the page that was written, a space between any two."""
    return " ".join(re.sub("<[^>]*>", " ", page(here)).split())


def test_a_page_tells_what_stats_tells(session: Path, here: Path) -> None:
    """Its numbers are those of `stats`, before a run and after it."""
    said = run("report", "session.jsonl").stdout
    stats = document("stats", "session.jsonl")["files"][0]
    would = stats["would"]
    frees = would["originalSize"] - would["compressedSize"] - would["storeSize"]
    head = f"report.html: 1 session of 1 agent, {kb(stats['size'])}"
    assert said == f"{head}; a run would free {kb(frees)} ({share(frees, stats['size'])}), counted exactly\n"
    text = page(here)
    assert "nothing yet" in text
    assert stat.S_IMODE((here / "report.html").stat().st_mode) == 0o600
    run("compress", "session.jsonl")
    after = document("stats", "session.jsonl")["files"][0]
    saved = stats["size"] - after["size"] - after["storeSize"]
    head = f"report.html: 1 session of 1 agent, {kb(after['size'])} and {kb(after['storeSize'])} of stores"
    wanted = f"{head}; {kb(saved)} ({share(saved, stats['size'])}) saved so far; a run would free nothing\n"
    assert run("report", "session.jsonl").stdout.replace("\n  ", " ") == wanted
    assert "To do it" not in page(here)


def test_every_share_is_of_disk_with_stores(session: Path, here: Path) -> None:
    """The headline, the cards, the tables and the printed line have one number for one thing, also below zero."""
    paths = [session, put(here / "codex.jsonl", "codex.jsonl")]
    before = sum(path.stat().st_size for path in paths)
    run("compress", session)
    for told in (" saved so far;", ";"):
        said = " ".join(run("report", *paths).stdout.split())
        text = words(here)
        found = [measure(path) for path in paths]
        now = sum(each.size + each.store - each.unused for each in found)
        frees = sum(each.frees - each.adds for each in found)
        assert f"{told} a run would free {kb(frees)} ({share(frees, now)})" in said
        assert (before > now) is (told != ";")
        for number, of in ((before - now, before), (frees, now)) if told != ";" else ((frees, now),):
            assert f"{share(number, of)} {kb(number)} of disk with stores" in text
            assert f"Disk with stores {kb(number)} {share(number, of)}" in text
        run("restore", session)


def test_stores_of_restored_sessions_are_told(here: Path) -> None:
    """With their size and the command that lets them go, which names no session that is still compressed."""
    names = [f"{number}.jsonl" for number in range(5)]
    for name in names:
        put(here / name, "pi-anthropic.jsonl")
    run("compress", *names)
    run("report", *names)
    assert "every run was undone" not in page(here)
    assert "sessioncompress forget" not in page(here)
    run("restore", *names[:1])
    said = run("report", *names).stdout
    size_of = document("stats", names[0])["files"][0]["storeSize"]
    assert f" of stores, of which nothing needs {kb(size_of)}; " in said.replace("\n  ", " ")
    text = words(here)
    assert f"1 session no longer needs its store ({kb(size_of)}), since every run was undone" in text
    assert "To delete it: sessioncompress forget --unneeded . ." in text
    run("restore", *names[:4])
    run("report", *names)
    text = words(here)
    assert "4 sessions no longer need their stores (" in text
    assert "To delete them: sessioncompress forget --unneeded" in text
    assert run("report", *names, "--backup-dir", here / "none").exit_code == 4


@pytest.mark.parametrize(("given", "wanted"), RUNS, ids=[" ".join(given) for given, _ in RUNS])
def test_a_page_says_how_to_run(session: Path, here: Path, given: list[str], wanted: str) -> None:
    """With the options that it was asked for: that command frees what the page says."""
    folder = Path.home() / ".pi/agent/sessions/--work--"
    folder.mkdir(parents=True)
    os.utime(session, (1_000_000_000, 1_000_000_000))
    session.rename(folder / "session.jsonl")
    assert run("report", *given).exit_code == 0
    assert f"To do it: sessioncompress compress {wanted} (with" in words(here).replace("&#39;", "'")
    (frees,) = re.findall("A run now would free (.*?) of disk", words(here).replace(" .", ""))
    ran = run(*shlex.split(f"compress {wanted}"), "--json", "--yes").stdout
    (done,) = json.loads(ran)["files"]
    assert frees.strip() == kb(done["originalSize"] - done["compressedSize"] - done["storeAdded"])


def test_a_page_is_accessible_and_loads_nothing(session: Path, here: Path) -> None:
    """Headings in order, tables with captions and scope, plots with a name; no script, and no address anywhere."""
    put(here / "claude.jsonl", "claude-code.jsonl")
    put(here / "codex.jsonl", "codex.jsonl")
    assert run("report", ".", "--price", "3").exit_code == 0
    text = page(here)
    assert text.startswith(BEGINNING)
    found = Page(text)
    headings = [int(tag[1]) for tag, _ in found.tags if re.fullmatch("h[1-6]", tag)]
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(later <= before + 1 for before, later in pairwise(headings))
    assert len(list(found.named("caption"))) == len(list(found.named("table"))) >= 6
    assert all(each.get("scope") in ("col", "row") for each in found.named("th"))
    plots = [each for each in found.named("svg") if each.get("role") == "img"]
    ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(plots) >= 3
    assert len(set(ids)) == len(ids)
    assert {each["aria-labelledby"] for each in plots} | {each["aria-describedby"] for each in plots} <= set(ids)
    assert not list(found.named("script", "iframe", "object", "embed", "img", "form", "base"))
    assert all(each["href"] == "data:," for each in found.named("link"))
    policies = [each["content"] for each in found.named("meta") if each.get("http-equiv") == "Content-Security-Policy"]
    assert [(each or "").partition(";")[0] for each in policies] == ["default-src 'none'"]
    assert "://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert REST in found.text
    assert "$" in found.text


def test_text_of_sessions_stays_text(here: Path) -> None:
    """Whatever a session's names and results hold; a page stays small."""
    write(here, attack(), '"><img src=x onerror=alert(1)>.jsonl')
    write(here, attack(long=False), "<script>.jsonl")
    assert run("report", here).exit_code == 0
    text = page(here)
    found = Page(text)
    assert not list(found.named("script", "img", "a", "b", "iframe"))
    assert not [name for _, attributes in found.tags for name in attributes if name.startswith("on")]
    assert not re.search("[\u200f\u202a-\u202e\u2066-\u2069\x00\x1b\x07]", text)
    assert len(text) < 200_000
    for each in (SCRIPT[:40], LINK, "\\u202egnp.exe", "\\x00\\x1b[31m", "{{ 7 * 7 }}{% raw %}", "<b><b>"):
        assert each in found.text


def test_a_newer_report_takes_the_place_of_an_older_one_alone(session: Path, here: Path) -> None:
    """Another file stays, as does one behind a link; it is refused before any session is read."""
    assert run("report", session, "-o", "a.html").exit_code == 0
    assert run("report", session, "-o", "a.html").exit_code == 0
    (here / "b.html").write_text("<html>mine")
    (here / "c.html").symlink_to("a.html")
    (here / "d.html").mkdir()
    for name in ("b.html", "c.html", "d.html"):
        refused = run("report", session, "-o", name)
        assert refused.exit_code == 4
        assert f"{name}: the file exists and is not one of our reports" in refused.stderr
    assert (here / "b.html").read_text() == "<html>mine"
    assert run("report", session, "-o", "none/a.html").exit_code == 3


def test_files_that_cannot_be_read_are_counted(session: Path, here: Path) -> None:
    """The exit code is that of the worst; the page has the others."""
    (here / "broken").mkdir()
    (here / "broken/pi.jsonl").write_bytes(session.read_bytes() + b"<<<<<<< HEAD\n")
    assert run("report", here).exit_code == 4
    assert "1 file could not be read and is not counted" in page(here)


def test_a_report_stays_where_no_session_can_be_read(session: Path, here: Path) -> None:
    """One about nothing would take the place of a good one."""
    assert run("report", session).exit_code == 0
    before = page(here)
    session.write_bytes(session.read_bytes() + b"<<<<<<< HEAD\n")
    done = run("report", session)
    assert done.exit_code == 4
    assert "report.html: not written" in done.stderr
    assert done.stdout == ""
    assert page(here) == before


@pytest.mark.parametrize("chosen", [("folder",), ("--agent", "gemini"), ("--project", "folder")])
def test_where_no_session_is_chosen_an_older_report_stays(session: Path, here: Path, chosen: tuple[str, ...]) -> None:
    """It is said so, and the exit code is that of the other commands."""
    (here / "folder").mkdir()
    assert run("report", session).exit_code == 0
    before = page(here)
    done = run("report", *chosen)
    assert done.exit_code == run("stats", *chosen).exit_code == 0
    assert "report.html: not written: no sessions to report on" in done.stderr
    assert done.stdout == ""
    assert page(here) == before


@pytest.mark.parametrize("price", WRONG_PRICES)
def test_a_wrong_price_is_refused(session: Path, here: Path, price: str) -> None:
    """It says what one looks like, and writes nothing."""
    refused = run("report", session, "--price", price)
    assert refused.exit_code == 2
    assert "is not a price; give dollars per million tokens, as in 3 or 'claude-*=3'" in refused.stderr.replace(
        "\n", " "
    )
    assert not (here / "report.html").exists()


def test_the_first_price_that_fits_counts(session: Path, here: Path) -> None:
    """A session of a model without a price costs nothing, and is not counted."""
    saves = document("stats", session)["files"][0]["would"]
    tokens = saves["tokensBefore"] - saves["tokensAfter"]
    run("report", session, "--price", "CLAUDE-*=1000", "--price", "*=2000")
    assert f"${tokens / 1000:,.2f}" in page(here)
    assert "1 session uses a model you gave a price for" in page(here)
    run("report", session, "--price", "gpt-*=1000")
    assert "0 sessions use a model you gave a price for" in page(here)


def test_money_is_told_where_the_numbers_are(session: Path, here: Path) -> None:
    """On a card and on the terminal's line, of all sessions sent once; what was saved before what a run would save."""
    price = ("--price", "*=1000")
    before = run("report", session, *price).stdout
    assert re.search(r"; \$[\d,.]+ less to send each once after a run$", before)
    (would,) = re.findall(r"<dd>\$0\.00</dd><dd>saved so far; a run would save (\$[\d,.]+)</dd>", page(here))
    assert would in before
    run("compress", session)
    after = run("report", session, *price).stdout
    assert re.search(r"; \$[\d,.]+ less to send each once$", after)
    (saved,) = re.findall(r"<dd>(\$[\d,.]+)</dd><dd>saved so far</dd>", page(here))
    assert saved in after
    assert "<dt>Fewer tokens so far</dt>" in page(here)
    assert "<dd>0 %</dd>" not in page(here)


def test_a_price_of_no_model_is_warned_of(session: Path, here: Path) -> None:
    """A page of $0.00 says nothing of a name that was mistyped, or of one that an earlier pattern covers."""
    warned = run("report", session, "--price", "claud=3", "--price", "*=1", "--price", "claude-*=2").stderr
    assert warned.count("warning: ") == 2
    assert re.search(r"--price claud=3 applies to no session: .*; the models here are claude-[\w.-]+\n", warned)
    assert "--price claude-*=2 applies to no session: no model matches it, or an earlier --price does" in warned
    assert "warning" not in run("report", session, "--price", "*=1").stderr
    del here


def test_that_a_page_names_sessions_is_said(session: Path, here: Path) -> None:
    """Where it is written, and at the head of the page: who passes it on reads no further."""
    assert "names your sessions and projects" in run("report", session).stderr
    assert "names your sessions and projects" in page(here).partition("</header>")[0]


def test_only_a_report_needs_templates() -> None:
    """`--help` of all commands imports this one's module."""
    program = "import sys, sessioncompress.cli.report as _; assert 'jinja2' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
