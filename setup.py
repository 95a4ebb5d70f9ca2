"""What pyproject.toml cannot say: on a package index the README's links lead to the files in the repository."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
FILES = URLS["Documentation"].removesuffix("docs/README.md")
README = re.sub(r"\]\((?!https?:|#)", f"]({FILES}", (ROOT / "README.md").read_text(encoding="utf-8"))

setup(long_description=README, long_description_content_type="text/markdown")
