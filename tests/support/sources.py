"""Seeded source files, Python and TypeScript, that read like parts of a real program."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from tests.support.words import ADJECTIVES, NOUNS, PACKAGES, PLACES, VERBS, past

_PYTHON: Sequence[str] = (
    '''def {v}_{n}({n2}: {T}, {n3}: int = {k}) -> {T} | None:
    """{V} the {n} of one {n2}, or return nothing when it is {a}."""
    if {n2}.{n3} < {n3}:
        return None
    {n4} = {n2}.{v2}({n3})
    return {n4} if {n4}.{n} else None''',
    '''def {v}_{n}s(rows: Iterable[{T}]) -> list[{T}]:
    """{V} all {n}s that are not {a}, in the order of their {n2}."""
    kept = [row for row in rows if row.{n2} is not None and not row.{a}]
    kept.sort(key=lambda row: (row.{n2}, row.{n3}))
    return kept[:{k}]''',
    '''async def {v}_{n}(client: Client, {n2}: str) -> {T}:
    """Ask the {a} {n3} for one {n}."""
    for attempt in range({d}):
        answer = await client.get(f"/{n3}s/{{{n2}}}/{n}", timeout={k})
        if answer.status == 200:
            return {T}.parse(await answer.json())
        log.warning("{n} %s: attempt %d gave %d", {n2}, attempt + 1, answer.status)
        await sleep(backoff(attempt))
    raise {T}Error(f"no {a} {n} for {{{n2}}}")''',
    '''@dataclass(frozen=True, slots=True)
class {T}:
    """One {a} {n} with its {n2} and {n3}."""

    {n2}: str
    {n3}: float
    {n4}: int = {k}
    {vd}_at: datetime | None = None

    def {v2}(self, other: {T}) -> bool:
        """Say whether the other {n} has the same {n2}."""
        return self.{n2} == other.{n2} and abs(self.{n3} - other.{n3}) < 0.{k}''',
    """def _{v}_{n}(state: dict[str, {T}], {n2}: str) -> None:
    {n3} = state.pop({n2}, None)
    if {n3} is None:
        raise KeyError(f"{n2} {{{n2}}} has no {a} {n}")
    state[f"{{{n2}}}/{n4}"] = {n3}.{v2}()""",
    '''class {T}Store:
    """Keeps {a} {n}s in one {n2} table."""

    def __init__(self, path: Path, {n3}: int = {k}) -> None:
        self._path = path
        self._{n3} = {n3}
        self._{n}s: dict[str, {T}] = {{}}

    def {v}(self, {n4}: str) -> {T}:
        """{V} the {n} for this {n4}."""
        try:
            return self._{n}s[{n4}]
        except KeyError:
            raise {T}Error(f"unknown {n4}: {{{n4}!r}}") from None

    def {v2}(self) -> int:
        """{V2} what is {a} and return how many {n}s went."""
        old = [key for key, {n} in self._{n}s.items() if {n}.{n2} > self._{n3}]
        for key in old:
            del self._{n}s[key]
        return len(old)''',
    '''{C} = {{
    "{p}": ({k}, {d}.{k}),
    "{p2}": ({d}, {k}.{d}),
    "{n}-{n2}": ({k}{d}, 0.{d}),
}}
"""{n} limits and {n2} offsets, by {n3}."""''',
    '''def test_{v}_{n}_{a}() -> None:
    """A {a} {n} does not {v2} its {n2}."""
    {n2} = make_{n2}({n3}={k}, {n4}="{p}")
    assert {v}_{n}({n2}) == [{d}, {k}]
    assert {n2}.{n3} == {k}, "the {n2} must stay as it was"''',
)

_TYPESCRIPT: Sequence[str] = (
    """export function {v}{N}({n2}: {T}, {n3} = {k}): {T} | undefined {{
	if ({n2}.{n3} < {n3}) return undefined;
	const {n4} = {n2}.{v2}({n3});
	return {n4}.{a} ? undefined : {n4};
}}""",
    """export interface {T} {{
	{n}: string;
	{n2}: number;
	{n3}?: Array<{{ {n4}: string; at: number }}>;
	/** Set when the {n} is {a}. */
	{vd}At: Date | null;
}}""",
    """export async function {v}{N}(client: Client, {n2}: string): Promise<{T}> {{
	for (let attempt = 0; attempt < {d}; attempt++) {{
		const answer = await client.get(`/{n3}s/${{{n2}}}/{n}`);
		if (answer.ok) return (await answer.json()) as {T};
		log.warn(`{n} ${{{n2}}}: attempt ${{attempt + 1}} gave ${{answer.status}}`);
	}}
	throw new Error(`no {a} {n} for ${{{n2}}}`);
}}""",
    """const {C} = new Map<string, {T}>([
	["{p}", {{ {n}: {k}, {n2}: "{a}" }}],
	["{p2}", {{ {n}: {d}, {n2}: "{a}" }}],
]);""",
    """export class {T}Panel extends Panel {{
	private {n}s: {T}[] = [];

	constructor(private readonly {n2}: {T}, private {n3} = {k}) {{
		super("{a}-{n}");
	}}

	{v}({n4}: string): void {{
		// {V} once, then {v2} what is {a}
		this.{n}s = this.{n}s.filter((entry) => entry.{n4} !== {n4});
		this.update();
	}}
}}""",
    """describe("{v} {n}", () => {{
	it("keeps a {a} {n2}", () => {{
		const {n2} = make{T}({{ {n3}: {k}, {n4}: "{p}" }});
		expect({v}{N}({n2})).toEqual([{d}, {k}]);
	}});
}});""",
)


def _slots(rng: random.Random) -> Mapping[str, object]:
    nouns = [rng.choice(NOUNS) for _ in range(4)]
    verb, verb2 = rng.choice(VERBS), rng.choice(VERBS)
    adjective = rng.choice(ADJECTIVES)
    return {
        "n": nouns[0],
        "n2": nouns[1],
        "n3": nouns[2],
        "n4": nouns[3],
        "N": nouns[0].capitalize(),
        "v": verb,
        "v2": verb2,
        "vd": past(verb),
        "V": verb.capitalize(),
        "V2": verb2.capitalize(),
        "a": adjective,
        "T": adjective.capitalize() + nouns[0].capitalize(),
        "C": f"{adjective}_{nouns[0]}".upper() + "S",
        "k": rng.randint(11, 99),
        "d": rng.randint(2, 9),
        "p": rng.choice(PLACES),
        "p2": rng.choice(PLACES),
    }


def python_source(rng: random.Random, parts: int = 12) -> str:
    """Return a Python module with that many functions, classes and tables."""
    imports = sorted({_import(rng) for _ in range(5)})
    opening = f'"""{_topic(rng)}."""\n\nfrom __future__ import annotations\n\n' + "\n".join(imports)
    bodies = [rng.choice(_PYTHON).format_map(_slots(rng)) for _ in range(parts)]
    return "\n\n\n".join([opening, *bodies]) + "\n"


def typescript_source(rng: random.Random, parts: int = 10) -> str:
    """Return a TypeScript module with that many functions, classes and interfaces."""
    folders = [f"../{rng.choice(NOUNS)}/{rng.choice(NOUNS)}.js" for _ in range(4)]
    imports = [f'import {{ {rng.choice(VERBS)} }} from "{folder}";' for folder in folders]
    bodies = [rng.choice(_TYPESCRIPT).format_map(_slots(rng)) for _ in range(parts)]
    return "\n\n".join([f"// {_topic(rng)}.", "\n".join(imports), *bodies]) + "\n"


def _topic(rng: random.Random) -> str:
    what = f"{rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}s"
    return f"{rng.choice(VERBS).capitalize()} the {what} of one {rng.choice(NOUNS)}"


def _import(rng: random.Random) -> str:
    return f"from {rng.choice(PACKAGES).replace('-', '_')}.{rng.choice(NOUNS)} import {rng.choice(VERBS)}"
