"""`report` in a real browser: legible on a phone and on a desk, light and dark, silent, and asking for nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.attack import attack
from tests.support.browser import Browser, browser
from tests.support.commands import put, run
from tests.support.runs import write

pytestmark = pytest.mark.slow

FIXTURES = ("pi-anthropic.jsonl", "claude-code.jsonl", "codex.jsonl", "gemini.jsonl", "omp.jsonl", "openclaw.jsonl")
VIEWS = [(width, scheme) for width in (390, 1440) for scheme in ("light", "dark")]

TEXTS = """
(width => {
  const rgb = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = color => {
    const [r, g, b] = color.map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = node => {
    for (; node; node = node.parentElement) {
      const color = rgb(getComputedStyle(node).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color.slice(0, 3);
    }
    return [255, 255, 255];
  };
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode.parentElement;
    const box = node.getBoundingClientRect();
    if (!walk.currentNode.data.trim() || !box.width || node.closest(".hide")) continue;
    const style = getComputedStyle(node), svg = node instanceof SVGElement;
    const [a, b] = [light(rgb(svg ? style.fill : style.color)), light(behind(node))];
    found.push({
      text: walk.currentNode.data.trim().slice(0, 40),
      size: parseFloat(style.fontSize) * (svg ? node.getScreenCTM().a : 1),
      contrast: (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05),
      out: !node.closest(".scroll, pre") && (box.right > width + 1 || box.left < -1),
      cut: svg && (box.right > node.ownerSVGElement.getBoundingClientRect().right + 1
        || box.left < node.ownerSVGElement.getBoundingClientRect().left - 1),
    });
  }
  return found;
})
"""
"""Each text of a page of that width: its size in pixels, its contrast, and whether it lies outside the page or its plot."""


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


SCROLLED = """
[...document.querySelectorAll(".scroll")].filter(box => box.scrollWidth > box.clientWidth).map(box => box.textContent)
"""
"""The tables that are wider than their cards."""


def report(here: Path) -> Path:
    """Write a report of sessions of several agents, one of them compressed, and of one that attacks."""
    for name in FIXTURES:
        put(here / name, name)
    assert run("compress", "codex.jsonl").exit_code == 0
    write(here, attack(), '"><img src=x onerror=alert(1)>.jsonl')
    write(here, attack(long=False), "<script>.jsonl")
    assert run("report", here, "--price", "claude-*=3").exit_code == 0
    return here / "report.html"


def test_the_page_in_a_browser(here: Path, chromium: Browser) -> None:
    """All text is at least 12 pixels high, stands out, and stays within the page, which has no error and no request."""
    page = report(here)
    pictures = set()
    for width, scheme in VIEWS:
        chromium.show(page, width, scheme)
        assert chromium.ask("document.documentElement.scrollWidth") <= width
        texts = chromium.ask(f"{TEXTS}({width})")
        assert len(texts) > 300
        for each in texts:
            assert each["size"] >= 12, each
            assert each["contrast"] >= 4.5, (scheme, each)
            assert not each["out"], (width, each)
            assert not each["cut"], (width, each)
        assert chromium.ask(SCROLLED) == [], width
        assert len(chromium.ask("[...document.querySelectorAll('svg[role=img]')].map(plot => plot.id)")) >= 4
        assert chromium.ask("document.title").startswith("Sessions of coding agents")
        assert chromium.requests() == [page.as_uri(), "data:,"] or chromium.requests() == [page.as_uri()]
        assert chromium.complaints() == []
        picture = chromium.picture()
        assert len(picture) > 20_000
        pictures.add(picture)
    assert len(pictures) == len(VIEWS)


def test_sums_in_millions_need_no_scrolling(here: Path, chromium: Browser) -> None:
    """Nor tables beside their plots: up to 1,240 pixels all is in one column."""
    page = report(here)
    page.write_text(re.sub(r"<strong>[\d,.]+ KB</strong>", "<strong>12.3 million</strong>", page.read_text()))
    for width in (1000, 1100, 1239, 1240, 1440):
        chromium.show(page, width, "light")
        assert chromium.ask(SCROLLED) == [], width


def test_the_browser_sees_what_is_wrong(tmp_path: Path, chromium: Browser) -> None:
    """What the test above looks at is there to be seen: a script that is refused, a request, small and pale text."""
    page = tmp_path / "page.html"
    policy = "<meta http-equiv=Content-Security-Policy content=\"script-src 'none'\">"
    page.write_text(f"{policy}<script>1</script><img src=none.png><p style='font-size:8px;color:#ccc'>small</p>")
    chromium.show(page, 390, "light")
    assert chromium.complaints()
    assert any(url.endswith("none.png") for url in chromium.requests())
    (text,) = chromium.ask(f"{TEXTS}(390)")
    assert text["size"] == 8
    assert text["contrast"] < 2
