"""The stories that the fixtures tell: every module here says in its `STORIES` which file holds which session."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules

from sessioncompress.formats.pi import FamilyFormat
from sessioncompress.formats.table import format_named
from tests.support.story import Story

_MODULES = [import_module(f"{__name__}.{each.name}") for each in iter_modules(__path__)]

STORIES: Mapping[str, Story] = {story.file: story for each in _MODULES for story in getattr(each, "STORIES", ())}
"""All of them by the names of their files."""

SESSIONS = sorted(name for name, story in STORIES.items() if story.form)
"""The fixtures that a format recognizes."""

FAMILY = [name for name in SESSIONS if isinstance(format_named(str(STORIES[name].form)), FamilyFormat)]
"""Those of pi and its relatives."""


def of_format(*forms: str) -> list[str]:
    """Return the fixtures of these formats, without odd ones."""
    return [name for name in SESSIONS if STORIES[name].form in forms and not STORIES[name].is_odd]
