"""What pyproject.toml cannot say: all URLs, and the README's links on a package index, begin with the repository's."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["sessioncompress"][
    "repository"
]
FILES = f"{REPOSITORY}/blob/main"
README = re.sub(r"\]\((?!https?:|#)", f"]({FILES}/", (ROOT / "README.md").read_text(encoding="utf-8"))
URLS = {
    "Homepage": REPOSITORY,
    "Documentation": f"{FILES}/docs/README.md",
    "Changelog": f"{FILES}/CHANGELOG.md",
    "Issues": f"{REPOSITORY}/issues",
}

setup(long_description=README, long_description_content_type="text/markdown", project_urls=URLS)
