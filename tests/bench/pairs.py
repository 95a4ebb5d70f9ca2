"""Measures how good summaries are: `python -m tests.bench.pairs FOLDER... [--budget 3000] [--share 0.4]`.

Each real session is cut as `compact` does. A need is a name that the model writes behind the cut for
the first time, that nothing behind the cut said before, and that stands in the old part; a pair is one with the word
beside it. A list of random names of the same size has most names: only pairs judge a summary. Random lines of the old
part, of the same size, have pairs too.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from time import process_time
from typing import NamedTuple

from sessioncompress.checkpoints.cut import NoCut, find_cut
from sessioncompress.checkpoints.digest import extract
from sessioncompress.checkpoints.notes import Notes
from sessioncompress.core.checkpoint import Say, Utterance
from sessioncompress.core.jsonl import parse_any
from sessioncompress.core.text import estimate
from sessioncompress.formats.table import detect
from sessioncompress.pipeline.reading import survey
from sessioncompress.policy.model import Compact, CutRule
from tests.support.runs import head_of_file, units

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{3,63}|\d{4,}")
_STRICT = re.compile(r"[a-z][A-Z]|[A-Za-z0-9]_[A-Za-z0-9]|[A-Za-z]\d|[A-Z]{2}[a-z]{2}|^\d+$")
_PART = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|\d+")
TEXTS = ("summary", "random names", "random lines")
_LEAST = 10_000
"""Tokens of an old part that is worth a checkpoint."""

Pair = tuple[str, str]


class Row(NamedTuple):
    """What one cut gave: how many names and pairs are needed, and how many of them each text of `TEXTS` holds."""

    session: str
    names: int
    pairs: int
    recalled: tuple[tuple[int, int], ...]
    tokens: int
    seconds: float


class Halves(NamedTuple):
    """What was said in a session before and behind its cut; whether that splits a turn; the tokens before it."""

    old: Sequence[tuple[int, Utterance]]
    kept: Sequence[tuple[int, Utterance]]
    splits: bool
    tokens: int


def halves(path: Path, rules: Compact) -> Halves | None:
    """Cut a session where `compact` would by these rules; None where that cannot be cut."""
    data = path.read_bytes()
    form = detect(head_of_file(data))
    if form is None:
        return None
    messages = units(data)
    read = survey(((number, raw, True) for number, raw in enumerate(messages)), form)
    cut = find_cut(read, rules, splits=form.splits_turns)
    if isinstance(cut, NoCut):
        return None
    reader = form.reader()

    def said_in(numbers: Iterable[int]) -> list[tuple[int, Utterance]]:
        read = ((number, parse_any(messages[number])) for number in numbers)
        return [(number, each) for number, entry in read if entry is not None for each in reader.said(entry)]

    tokens = estimate(sum(read.lines[number].reads for number in cut.old))
    return Halves(said_in(cut.old), said_in(cut.kept), cut.splits, tokens)


def text_of(said: Iterable[tuple[int, Utterance]]) -> str:
    return "\n".join(content for _, each in said for content in each.contents())


def names_in(text: str) -> set[str]:
    """Return the names in a text: more than plain words, which recur by chance."""
    return {word for each in set(_WORD.findall(text)) if _STRICT.search(word := each.strip("-"))}


def pairs_in(text: str) -> set[Pair]:
    """Return the words in a text with the word behind each in its line."""
    found: set[Pair] = set()
    for line in text.split("\n"):
        words = _PART.findall(line)
        found.update(pairwise(words))
    return found


def needs(old: str, kept: Sequence[tuple[int, Utterance]]) -> tuple[set[str], set[Pair]]:
    """Return the names that the model writes first and the old part holds; and the pairs with them."""
    old_names, old_pairs = names_in(old), pairs_in(old)
    known: set[str] = set()
    known_pairs: set[Pair] = set()
    names: set[str] = set()
    pairs: set[Pair] = set()
    for at, (_, each) in enumerate(kept):
        text = text_of([kept[at]])
        if each.say in (Say.ANSWER, Say.CALL):
            names |= (names_in(text) & old_names) - known
            pairs |= {pair for pair in (pairs_in(text) & old_pairs) - known_pairs if names & set(pair)}
        known |= names_in(text)
        known_pairs |= pairs_in(text)
    return names, pairs


def random_list(every: Iterable[str], between: str, size: int) -> str:
    """Return texts in any order, as long as that."""
    texts = sorted(set(every))
    random.Random("pairs").shuffle(texts)
    return between.join(texts)[:size]


def measure(path: Path, budget: int, share: float) -> Row | None:
    """Return what one session gives; None where its old part is too small, or nothing of it is needed."""
    cut = halves(path, Compact(keep=CutRule.SHARE, keep_share=share))
    if cut is None:
        return None
    old = text_of(cut.old)
    names, pairs = needs(old, cut.kept)
    if estimate(len(old)) < _LEAST or not names:
        return None
    begun = process_time()
    summary = extract(Notes(cut.old, splits=cut.splits), budget).text
    seconds = process_time() - begun
    size = len(summary)
    texts = (summary, random_list(names_in(old), " ", size), random_list(old.split("\n"), "\n", size))
    recalled = tuple((len(names & names_in(text)), len(pairs & pairs_in(text))) for text in texts)
    return Row(path.name, len(names), len(pairs), recalled, estimate(size), seconds)


def main() -> None:
    """Measure the sessions of the folders that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--budget", type=int, default=3000)
    parser.add_argument("--share", type=float, default=0.4, help="how much of a session is kept")
    parser.add_argument("--each", action="store_true", help="print every session")
    asked = parser.parse_args()
    paths = sorted(path for folder in asked.folders for path in folder.rglob("*.json*"))
    rows = [row for path in paths if (row := measure(path, asked.budget, asked.share))]
    for row in rows if asked.each else ():
        print(*row)
    names, pairs = sum(row.names for row in rows), sum(row.pairs for row in rows)
    print(f"{len(rows)} cuts, {names} names, {pairs} pairs, {sum(row.seconds for row in rows):.2f} s")
    for at, title in enumerate(TEXTS):
        of_names = sum(row.recalled[at][0] for row in rows) / max(names, 1)
        of_pairs = sum(row.recalled[at][1] for row in rows) / max(pairs, 1)
        print(f"{title}: names {of_names:.3f}, pairs {of_pairs:.3f}")
    print(f"tokens: {sum(row.tokens for row in rows) / max(len(rows), 1):.0f} on average")


if __name__ == "__main__":
    main()
