"""The script that makes the reference, as a module."""

from __future__ import annotations

import importlib.util

from tests.docs.pages import DOCS

_SPEC = importlib.util.spec_from_file_location("make_reference", DOCS / "make_reference.py")
assert _SPEC is not None
assert _SPEC.loader is not None
make_reference = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(make_reference)
