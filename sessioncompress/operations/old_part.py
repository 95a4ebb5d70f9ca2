"""The old part of a session: summed up from its own words, or by a text of somebody else that is checked against it."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from functools import cached_property
from itertools import chain

from sessioncompress.checkpoints.digest import extract, room_for_prose, with_prose
from sessioncompress.checkpoints.excerpts import stems_in
from sessioncompress.checkpoints.notes import NOTHING, Besides, gather
from sessioncompress.checkpoints.prose import missing, paths_in, strike, why_not
from sessioncompress.checkpoints.quote import clean
from sessioncompress.core.checkpoint import Said, Summary
from sessioncompress.errors import failing
from sessioncompress.operations.conversation import said
from sessioncompress.operations.draft import Opened

WENT_ON = "its agent added to it during the summary"
"""Why a session is left."""


class Unfit(Exception):
    """A text may not stand in a summary; it says why, without a word of it."""


class OldPart:
    """Lines of a session for which a summary of at most `budget` tokens is to stand; see said() and gather().

    `extract` is the one of the session's own words, whose facts are those of any other.
    """

    def __init__(
        self,
        session: Opened,
        lines: Sequence[int],
        *,
        budget: int,
        splits: bool = False,
        besides: Besides = NOTHING,
        apart: Container[int] = (),
    ) -> None:
        self.session, self.budget = session, budget
        self._lines, self._apart = lines, apart
        self.notes = gather(self.said(), splits=splits, besides=besides)
        self.extract = extract(self.notes, budget)

    def said(self) -> Iterator[tuple[int, Said]]:
        """Yield what was said in it, each with the number of its line."""
        return said(self.session, self._lines, self._apart)

    def went_on(self) -> bool:
        """Tell whether lines came while a model or a command took its time: they may hang on what is summed up.

        Raises InUse where the session was changed otherwise: its lines are no longer where they are looked for.
        """
        with failing(self.session.session.path):
            return self.session.session.appended() > 0

    def add(self, context: Sequence[str]) -> None:
        """Add what a command of the user's says besides."""
        if context:
            self.notes.besides = self.notes.besides._replace(context=context)
            self.extract = extract(self.notes, self.budget)

    @property
    def heeds(self) -> bool:
        """Whether anything that instructions may rank shares a word with them."""
        words, excerpts = stems_in(self.notes.besides.instructions).keys(), self.notes.excerpts
        lines = (line for _, line, *_ in chain(excerpts.written(), excerpts.readings()))
        return any(not words.isdisjoint(stems_in(each)) for each in chain(self.notes.story.decisions, lines))

    @cached_property
    def room(self) -> int:
        """The characters that a text may have which stands for what was said: nothing that is added takes of them."""
        return room_for_prose(self.notes, self.budget)

    def holding(self, text: str, *, by: str, model: str = "", known: str = "") -> Summary:
        """Write the summary with a text of somebody else, in which paths that the session does not have are struck.

        Those in `known` need not be looked for. Raises Unfit.
        """
        self._check(text)
        # As it will be written: what nobody sees in it may part what is looked for.
        text = clean(text)
        texts = (each for _, said in self.said() for each in said.contents())
        sure = "\n".join([*self.extract.changed, *self.extract.read, known])
        root = self.notes.root
        text = strike(text, missing(missing(paths_in(text), [sure], root), texts, root))
        self._check(text)
        return with_prose(self.notes, self.budget, text)._replace(by=by, model=model)

    def _check(self, text: str) -> None:
        if why := why_not(text, self.room):
            raise Unfit(why)
