"""Lines and changes to rewritten lines; pure but for the reader it is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from sessioncompress.compressors import RENDERERS, Context, View
from sessioncompress.core.marker import content_of
from sessioncompress.core.model import Change, Kind, Path, Replacement, Treatment
from sessioncompress.core.splice import REMOVED, CannotSplice, literal, splice, within
from sessioncompress.formats.base import Entry


class Rewritten(NamedTuple):
    """A line as it is to be written, its parsed entry, and the replacements that made it."""

    raw: bytes
    entry: Entry
    replacements: tuple[Replacement, ...]


class MustStay(ValueError):
    """A change would touch what its format does not allow to change: an error in this program."""


def rewrite(
    raw: bytes, entry: Entry, changes: Sequence[Change], view: View, refer: Callable[[bytes], str | None]
) -> Rewritten | None:
    """Return the line with the changes made, or None where nothing of it becomes smaller.

    `entry` is the parsed line; it is changed in place. Raises CannotSplice where a change cannot be made, MustStay
    where it must not.
    """
    if not all(map(view.allows, changes)):
        raise MustStay("a change would touch protected bytes")
    context = Context(view, refer, entry)
    replacements = [each for change in changes for each in _rendered(entry, change, context)]
    if not replacements:
        return None
    new_values: dict[Path, Any] = {}
    texts: dict[Path, bytes] = {}
    for path, value, _, _, written, *_ in replacements:
        if not view.form.may_change(entry, path, value):
            raise MustStay(f"the value at {path} must stay")
        new_values[path] = value
        texts[path] = written
    new, parsed = splice(raw, entry, new_values, texts)
    if len(new) >= len(raw):
        return None
    return Rewritten(new, parsed, tuple(replacements))


def _rendered(entry: Entry, change: Change, context: Context) -> list[Replacement]:
    value = value_at(entry, change.path)
    if change.treatment is Treatment.SET:
        return [Replacement(change.path, change.value, change, change.saves, literal(change.value))]
    if change.block is None:
        return [Replacement(change.path, REMOVED, change, change.saves, b"")]
    rendered = RENDERERS[change.block.kind](change, value, context)
    # What comes beside a cleared result belongs to no block; none is proposed that does not shrink by more.
    return [each for each in rendered if each.change.block is None or len(each.written) < each.was]


def value_at(entry: Entry, path: Path) -> Any:
    """Return the value at a path of a parsed line; a path may go on into a string's JSON. Raises CannotSplice."""
    value: Any = entry
    try:
        for step in path:
            value = _opened(value) if isinstance(value, str) else value
            # A journal's path may hold as an index what is a key.
            value = value[str(step) if isinstance(step, int) and isinstance(value, dict) else step]
    except (KeyError, IndexError, TypeError) as error:
        raise CannotSplice("a value to replace is not there") from error
    return value


@lru_cache(maxsize=1)
def _opened(text: str) -> Any:
    """Return what a text is the JSON of. Many values of a line may stand in the same text: it is parsed once."""
    return within(text)


class OriginalPlaces:
    """Where the values of a rewritten line stand in the line's original: parts before them may have been taken out."""

    def __init__(self, original: Entry) -> None:
        self._original = original
        self._taken_out = 0
        """So many parts stood before the last value that was looked for: before the next one there are as many."""

    def path(self, path: Path, content: bytes, kind: Kind) -> Path:
        """Return where a value stands. Raises CannotSplice where the original does not hold that content."""
        at = next((position for position, step in enumerate(path) if isinstance(step, int)), None)
        if at is None:
            return path
        siblings = value_at(self._original, path[:at])
        first = path[at]
        if isinstance(siblings, list) and isinstance(first, int):
            likely = first + self._taken_out
            for index in chain(range(likely, len(siblings)), range(first, min(likely, len(siblings)))):
                candidate = (*path[:at], index, *path[at + 1 :])
                if _holds(self._original, candidate, content, kind):
                    self._taken_out = index - first
                    return candidate
        raise CannotSplice("the line's original does not hold what would be replaced")


def _holds(original: Entry, path: Path, content: bytes, kind: Kind) -> bool:
    try:
        return content_of(value_at(original, path), kind) == content
    except (CannotSplice, TypeError):
        # A value that is nested too deep to be written is a TypeError.
        return False
