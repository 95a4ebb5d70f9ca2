"""All pages: links lead somewhere, paths exist, nothing of a machine is in them; the design names each room."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DESIGN, DOCS, README, ROOT, anchors, page, pages, rows, section, without_code

INDEX = "docs/README.md"
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")


@pytest.mark.parametrize("name", pages())
def test_every_link_leads_to_a_file_and_a_heading(name: str) -> None:
    """Relative to the page, as GitHub reads it."""
    for path, anchor in _LINK.findall(without_code(page(name))):
        target = (ROOT / name).parent / path if path else ROOT / name
        assert target.exists(), (name, path)
        if anchor:
            assert target.suffix == ".md", (name, path)
            assert anchor in anchors(str(target.resolve().relative_to(ROOT))), (name, path, anchor)


def test_every_page_is_in_the_index() -> None:
    linked = {(DOCS / path).resolve() for path, _ in _LINK.findall(page(INDEX))}
    assert {path for path in DOCS.rglob("*.md") if path != ROOT / INDEX} <= linked
    assert (ROOT / INDEX).resolve() in {(ROOT / path).resolve() for path, _ in _LINK.findall(page("README.md"))}


@pytest.mark.parametrize("name", pages())
def test_every_path_that_a_page_names_exists(name: str) -> None:
    """Files of the repository; what is printed names others."""
    words = re.sub(r"^```text\n.*?^```$", "", page(name), flags=re.MULTILINE | re.DOTALL)
    for path in re.findall(r"`((?:tests|fixtures|docs|sessioncompress|formats|compressors|store)/[\w/.-]*)`", words):
        inside = (
            ROOT if path.startswith(("tests/", "fixtures/", "docs/", "sessioncompress/")) else ROOT / "sessioncompress"
        )
        assert (inside / path).exists() or "NAME" in path, (name, path)


def test_every_package_has_its_job() -> None:
    """The table of the rooms names all packages, and no other; what is no package needs no word."""
    said = [first.strip("`") for first in rows(section(DESIGN, "The rooms")) if first.startswith("`")]
    packages = {path.parent.name for path in (ROOT / "sessioncompress").glob("*/__init__.py")}
    assert sorted(said) == sorted(packages)


@pytest.mark.parametrize(
    "name",
    [
        *pages(),
        "docs/make_reference.py",
        ".ci/run",
        "docs/man/sessioncompress.1",
        "sessioncompress/policy/compression.schema.json",
        "compression.json",
        "action.yml",
        "action/install.sh",
        ".pre-commit-hooks.yaml",
        *(f".github/workflows/{name}.yml" for name in ("ci", "release", "watch")),
    ],
)
def test_nothing_of_a_machine_is_in_a_page(name: str) -> None:
    """No absolute path of anyone's machine, no registry's address, and plain ASCII."""
    text = Path(ROOT / name).read_text(encoding="utf-8")
    assert not re.search(r"(?<![\w~.$])/(?:home|root|work|Users|mnt|opt|venv)\b", text)
    assert not re.search(r"pypi\.|npmjs|registry\.|files\.pythonhosted", text)
    assert text.isascii()


def test_no_command_needs_a_registry_that_does_not_have_us() -> None:
    """Until a release the name there is anybody's; how a checkout is installed with its extras stands in one place."""
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "sessioncompress").rglob("*.py")}
    texts |= {ROOT / name: page(name) for name in pages()}
    named = r"\b(?:install|inject|uv add|uvx)(?: -\S+)* ['\"]?sessioncompress\b"
    assert not [path for path, text in texts.items() if re.search(named, text)]
    assert [path.name for path, text in texts.items() if ".[cloud]" in text] == [README]
