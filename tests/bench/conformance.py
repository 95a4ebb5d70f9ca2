"""Holds `compact` against compaction-conformance-kit: `python -m tests.bench.conformance [--seeds 5] [--lost]`.

The kit plants rules, constraints, facts, goals and preferences in a dialogue and looks for them in what a model reads
behind each round. Its dialogues become plain chats here, which `compact_session` compacts by its default budget; only
the newest turn is kept. What a round left is the next one's session, with new work of an agent behind it: without that
a second round would write nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from sessioncompress.operations.compact import compact_session
from sessioncompress.pipeline.stats import Status
from sessioncompress.policy.model import Compact, CutRule
from tests.support import texts
from tests.support.chats import ChatSession
from tests.support.runs import EAGER, write

ROUNDS = 5
_POLICY = replace(EAGER, compact=Compact(keep=CutRule.SINCE_PROMPT, min_dead_tokens=0, min_saved_tokens=1))
_MORE = 6
"""Turns of work between two rounds."""


class Turn(Protocol):
    role: str
    text: str


class Compacted(NamedTuple):
    text: str
    compactor_name: str
    round_num: int
    structured: None = None


class Compactor:
    """Compacts as `compact` does, in the form that the kit asks for."""

    name = "sessioncompress"

    def compact(self, turns: Sequence[Turn], round_num: int = 1) -> Compacted:
        """Compact the kit's dialogue, or what the last round left of it."""
        chat = ChatSession()
        if round_num == 1:
            chat.messages = [{"role": turn.role, "content": turn.text} for turn in turns]
        else:
            chat.messages = json.loads(turns[0].text)
            _work(chat, round_num)
        with tempfile.TemporaryDirectory() as folder:
            path = write(Path(folder), chat.document())
            stats = compact_session(path, _POLICY)
            # Of some dialogues a summary would be no smaller: the model goes on reading them.
            assert stats.status is Status.COMPACTED or (round_num == 1 and "it would save" in stats.reason), (
                stats.reason
            )
            return Compacted(path.read_text("utf-8"), self.name, round_num)


def _work(chat: ChatSession, seed: int) -> None:
    """Add what an agent does on and on, of which nothing was planted."""
    for turn in range(_MORE):
        name = f"service-{seed}-{turn}"
        chat.message("user", f"Look at the logs of {name} and note what failed.")
        chat.step("bash", {"command": f"cat {name}.log"}, texts.log_lines(random.Random(f"{seed} {turn}"), 60))
        chat.step("write", {"path": f"/tmp/{name}.md", "content": f"Gauge {turn} of {name} failed.\n"}, "Wrote it.")
        chat.message("assistant", f"Gauge {turn} of {name} failed at noon.")


class Survival(NamedTuple):
    """Of a type of what was planted, how much there was, and how much of it each round left."""

    planted: int
    left: Sequence[int]

    @property
    def rates(self) -> list[float]:
        return [each / self.planted for each in self.left]


def _kit(module: str) -> Any:
    """Import a module of the kit, which has no types."""
    return import_module(f"compaction_kit.{module}")


def dialogues(seeds: int) -> Iterator[tuple[Any, Any]]:
    """Yield the kit's dialogues with what was planted in each: the fixed one, and so many of each that it makes."""
    yield _kit("session").build_seeded_session(), _kit("canaries").seeded_canaries()
    for seed in range(1, seeds + 1):
        yield _kit("corpus").build_random_session(seed)
        yield _kit("generated").build_generated_session(seed)
        yield _kit("semantic_corpus").build_semantic_session(seed)[:2]


def survival(found: Iterator[tuple[Any, Any]], lost: Counter[str] | None = None) -> Mapping[str, Survival]:
    """Run the kit over dialogues, and count by type what each round left; `lost` gets what was lost."""
    planted: Counter[str] = Counter()
    left: dict[str, Counter[int]] = {}
    for session, canaries in found:
        run = _kit("runner").run_conformance(session, Compactor(), ROUNDS, canaries)
        for canary in canaries:
            kind = canary.type.value
            planted[kind] += 1
            for at, each in enumerate(run.rounds):
                left.setdefault(kind, Counter())[at] += each.survived[canary.id]
                if lost is not None and not each.survived[canary.id]:
                    lost[canary.content] += 1
    return {kind: Survival(planted[kind], [left[kind][at] for at in range(ROUNDS)]) for kind in sorted(planted)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="how many dialogues of each kind the kit makes")
    parser.add_argument("--lost", action="store_true", help="print what was lost, and in how many rounds")
    asked = parser.parse_args()
    lost: Counter[str] = Counter()
    for kind, each in survival(dialogues(asked.seeds), lost).items():
        print(f"{kind:<16} {each.planted:>4} planted, left by round: {' '.join(f'{rate:.2f}' for rate in each.rates)}")
    for content, rounds in lost.most_common() if asked.lost else ():
        print(f"{rounds} {content}")


if __name__ == "__main__":
    main()
