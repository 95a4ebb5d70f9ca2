"""Writes what is made from the code: parts of the reference pages and of the README, the policy's schema, the man page.

With --check it says which files are out of date. A generated part of a page stands between `<!-- generated: NAME -->`
and `<!-- end -->`. All other text of a page is written by hand and stays.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import click  # noqa: E402
import msgspec  # noqa: E402

from sessioncompress import PRESETS  # noqa: E402
from sessioncompress.cli.main import main as command_line  # noqa: E402
from sessioncompress.cli.options import once  # noqa: E402
from sessioncompress.core import VERSION  # noqa: E402
from sessioncompress.formats.table import AGENTS, TABLE  # noqa: E402
from sessioncompress.policy.file import KEYS, PRESET, SECTION, flat, to_mapping  # noqa: E402
from sessioncompress.policy.model import Policy  # noqa: E402

COMMANDS = HERE / "reference" / "commands.md"
CONFIGURATION = HERE / "reference" / "configuration.md"
FORMATS = HERE / "reference" / "formats.md"
README = HERE.parent / "README.md"
PAGES = (COMMANDS, CONFIGURATION, FORMATS, README)
SCHEMA = HERE.parent / "sessioncompress" / "policy" / "compression.schema.json"
MAN = HERE / "man" / "sessioncompress.1"
_PART = re.compile(r"(?<=^<!-- generated: )([\w-]+)( -->\n)(.*?)(?=^<!-- end -->$)", re.MULTILINE | re.DOTALL)

MEANINGS: Mapping[str, str] = {
    "enabled": "`false`: skip these sessions.",
    "sizeThresholdKB": "Skip smaller sessions.",
    "everyTurns": "Also compress a smaller session after this many new turns. `null`: never.",
    "turnThresholdBeforeCompress": "The number of newest user turns that are protected.",
    "protectTokens": "The cap on protected tool I/O in these turns: the newest whole steps, and always the newest. "
    "`null`: no cap.",
    "protectTools": "Protect calls and results of these tools.",
    "protectFiles": "Keep the newest result that reads a file of one of these names (no folders, no wildcards; case "
    "matters), or the same part of one.",
    "toolCallMaxBytes": "Keep the arguments of a call up to this size; at least 256.",
    "toolResultMaxBytes": "Keep tool results up to this size; at least 256.",
    "previewShare": "The share of a run's long results that their previews may take together. `0`: no previews.",
    "previewMaxBytes": "The maximum of one preview, without its first and last line and lines that report a failure. "
    "`0`: no previews.",
    "minSavedKB": "Write nothing if the run would save less than this, counting the store.",
    "stripThinking": "Remove thinking.",
    "eliminateRedundancy": "Replace what the session repeats later with a reference, without a preview.",
    "keepBackup": "`false`: keep no originals. Markers have no reference, and `restore` refuses. A journal is still "
    "written, to tell our markers from others.",
    "backupDir": "The folder for stores, relative to the session's, made if missing. `null`: `.sessioncompress` "
    "beside the session.",
    "commitOriginals": '`true`: let git see the originals. `"history"`: use those in commits, let git see the rest.',
    "quietSeconds": "Refuse a session that changed this recently. Sessions that `--all`, `--agent` or `--project` "
    "chose are skipped; for them the default is 60.",
    "idleSeconds": "Skip a session that changed this recently: its provider may still have it cached.",
    "logFile": "Append one JSON line per opened session to this file, relative to the session's folder.",
    "beforeCommand": "A command that runs before a summary is written, with JSON on its stdin.",
    "afterCommand": "A command that runs after a summary is written, with JSON on its stdin.",
    "prune.enabled": "Prune: clear whole old results.",
    "prune.only": "`true`: a run that prunes changes nothing else.",
    "prune.pruneMinimum": "Write nothing if pruning would save the model fewer tokens.",
    "prune.pruneProtect": "Do not prune this many tokens of the newest tool output.",
    "prune.protectTools": "Prune results of these tools only if the session repeats them later.",
    "prune.preserveRecentMessages": "Do not prune this many of the newest messages.",
    "prune.placeholder": '`"marker"`: leave our marker. `"native"`: leave the agent\'s own words.',
    "budget.rule": 'The rule: `"size"`, `"gencode"`, `"omp"`, `"eunice"` or `"deliberate"`.',
    "budget.reservedOutputTokens": "`gencode`: the maximum tokens kept free for the answer.",
    "budget.reservePercent": "`omp`: the percentage of the window kept free.",
    "budget.reserveTokens": "`omp`: the minimum tokens kept free.",
    "budget.thresholdPercent": "`omp`: a percentage of the window, instead of the reserve.",
    "budget.thresholdTokens": "`omp`: a number of tokens, instead of the reserve.",
    "budget.targetTokens": "`eunice`: pruning is enough if it leaves fewer tokens.",
    "budget.actTokens": "`deliberate`: act from this many tokens on (10,000 to 200,000),",
    "budget.actMessages": "`deliberate`: with at least this many new messages (5 to 100),",
    "budget.actSeconds": "`deliberate`: and this many seconds after the last run (60 to 1,800).",
    "budget.safetyPercent": "`deliberate`: always act at this percentage of the window (30 to 95).",
    "budget.frequencyMultiplier": "`deliberate`: how much the answer `less often` to `compact --ask` raises "
    "`actTokens` and `actMessages`.",
    "budget.models": "Your models, looked up before those that we know.",
    "compact.keep": 'What `compact` keeps: the newest `"tokens"`, `"messages"` or `"turns"`, a `"share"` of what the '
    'model reads, or everything from the newest request on (`"sincePrompt"`).',
    "compact.keepTokens": "`tokens`: how many.",
    "compact.keepMessages": "`messages`: how many.",
    "compact.keepShare": "`share`: how much.",
    "compact.keepTurns": "`turns`: how many.",
    "compact.summaryTokens": "The maximum tokens of a summary, and at most a twentieth of what it replaces, but 1,000 "
    "are always allowed.",
    "compact.minDeadTokens": "Write nothing if what would be summarized has fewer tokens.",
    "compact.minSavedTokens": "Write nothing if it would save the model fewer tokens.",
    "compact.ask": "`false`: `compact --ask` asks only if `deliberate` acts because of `safetyPercent`.",
    "compact.askSeconds": "Seconds that `compact --ask` waits for an answer.",
    "summarizer.command": "A command that writes summaries: a prompt comes on its stdin, and it prints the text.",
    "summarizer.endpoint": "The URL of an endpoint whose model writes them. Without a command or an endpoint nothing "
    "leaves the machine.",
    "summarizer.protocol": '`"openai"`: OpenAI\'s chat API. `"omp"`: `{"systemPrompt", "prompt"}`, answered by '
    '`{"summary"}`.',
    "summarizer.models": "The endpoint's models: each is asked if those before it failed.",
    "summarizer.apiKeyEnv": "The environment variable that has the endpoint's key. Empty: no key is sent.",
    "summarizer.prompt": "A file to use instead of our prompt; its path starts with `/` or `~`.",
    "summarizer.inputTokens": "The maximum tokens of a session to send, newest first.",
    "summarizer.timeoutSeconds": "The seconds that a command, or a model with its retries, may take.",
    "summarizer.retries": "How often to retry a request that failed for a temporary reason.",
    "summarizer.onFailure": '`"extractive"`: if no model writes it, use the summary made without one. `"leave"`: '
    "leave the session as it is, with exit code 3.",
    "summarizer.redactPatterns": "Python's regular expressions; what they match is sent as `[redacted]`.",
}
"""What each key of the policy does."""
PRESET_MEANING = "The base that the other keys change. `--preset` overrides it."


def commands() -> dict[str, click.Command]:
    """Return all commands by their names."""
    context = click.Context(command_line)
    found = {name: command_line.get_command(context, name) for name in command_line.list_commands(context)}
    return {name: command for name, command in found.items() if command is not None}


def signature(option: click.Option) -> str:
    """Return an option as it is typed, with a word for its value."""
    if option.is_flag:
        return ", ".join(option.opts)
    return f"{option.opts[0]} {option.metavar or _word(option.type)}"


def _word(kind: click.ParamType) -> str:
    if isinstance(kind, click.types.IntParamType | click.types.FloatParamType):
        return "N"
    return "NAME" if isinstance(kind, click.Choice) else kind.name.upper()


def _meaning(option: click.Option) -> str:
    said = [option.help or ""]
    if isinstance(option.type, click.Choice):
        said.append(f"One of {', '.join(f'`{each}`' for each in option.type.choices)}.")
    if option.multiple and option.callback is not once:
        said.append("May be given several times.")
    return " ".join(said).replace("|", "\\|")


def _arguments(command: click.Command) -> str:
    def shown(each: click.Argument) -> str:
        choices = each.type.choices if isinstance(each.type, click.Choice) else ()
        name = "|".join(choices) or (each.name or "").upper()
        name += "..." if each.nargs == -1 else ""
        return name if each.required else f"[{name}]"

    return " ".join(shown(each) for each in command.params if isinstance(each, click.Argument))


def command_part(name: str) -> str:
    """Return the usage, the help and the options of a command."""
    command = commands()[name]
    usage = f"sessioncompress {name} [OPTIONS] {_arguments(command)}".rstrip()
    lines = ["", "```text", usage, "```", "", " ".join((command.help or "").split()), ""]
    own, common = [], []
    for row in _rows(command):
        (common if row in _shared() else own).append(row)
    lines += ["| option | meaning |", "|---|---|", *own, ""] if own else []
    if common:
        names = ", ".join(re.sub(r" [A-Z]+`", "`", row.split("|")[1].strip()) for row in common)
        lines += [f"[Shared options](#shared-options): {names}."]
    return "\n".join([*lines, "", ""])


def _rows(command: click.Command) -> list[str]:
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    return [f"| `{signature(each).replace(', ', '`, `')}` | {_meaning(each)} |" for each in options]


@cache
def _shared() -> list[str]:
    """Return the rows of the options that mean the same in several commands, in the order of the first."""
    counts = Counter(row for command in commands().values() for row in _rows(command))
    return [row for row, number in counts.items() if number > 1]


def shared_part() -> str:
    """Return the table of the options that many commands have."""
    return "\n".join(["", "| option | meaning |", "|---|---|", *_shared(), "", ""])


def keys_part() -> str:
    """Return the table of the policy's keys, with their defaults."""
    lines = ["", "| key | default | meaning |", "|---|---|---|"]
    defaults = flat(to_mapping(PRESETS["balanced"]))
    if unknown := defaults.keys() ^ MEANINGS.keys():
        raise SystemExit(f"MEANINGS in {__file__} must have exactly the policy's keys; see {', '.join(unknown)}")
    lines.append(f'| `{PRESET}` | `"balanced"` | {PRESET_MEANING} |')
    lines += [f"| `{key}` | `{json.dumps(value)}` | {MEANINGS[key]} |" for key, value in defaults.items()]
    return "\n".join([*lines, "", ""])


def schema() -> str:
    """Return the JSON Schema of a policy file: what the loader accepts."""
    made = msgspec.json.schema(Policy)
    sections = {"": made["$defs"].pop("Policy")}
    for name, key in KEYS.items():
        if key.section is not None:
            sections[name] = sections[""]["properties"][name] = made["$defs"].pop(key.section.__name__)
    del sections[""]["properties"]["atRest"]
    for outer, section in sections.items():
        section |= {"additionalProperties": False, "title": outer or SECTION}
        del section["description"]  # that of the class
        for name, value in section["properties"].items():
            dotted = f"{outer}.{name}".lstrip(".")
            if dotted in MEANINGS:
                own = " Only in a file of your own." if not outer and KEYS[name].only_user else ""
                value["description"] = f"{MEANINGS[dotted]}{own}"
    preset = {"description": PRESET_MEANING, "enum": list(PRESETS), "default": "balanced"}
    sections[""]["properties"] = {PRESET: preset, **sections[""]["properties"]}
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"{homepage()}/{SCHEMA.name}",
        "title": "A policy of sessioncompress",
        "type": "object",
        "required": [SECTION],
        "properties": {"$schema": {"description": "This schema, for editors."}, SECTION: sections[""]},
        "$defs": made["$defs"],
    }
    # Patterns are those of Python; in a schema they are those of JavaScript.
    return json.dumps(document, indent=2).replace('"\\\\A', '"^').replace('\\\\Z"', '$"') + "\n"


def homepage() -> str:
    """Return the project's address, which stands in pyproject.toml alone."""
    tool = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    return str(tool["sessioncompress"]["repository"])


def man() -> str:
    """Return the man page: the commands with their options, as their help says them."""
    lines = [f'.TH SESSIONCOMPRESS 1 "" "sessioncompress {VERSION}" "User Commands"', ".SH NAME"]
    lines += [_troff(f"sessioncompress - {_one_line(command_line.help)}"), ".SH SYNOPSIS"]
    lines += [".B sessioncompress", r"\fICOMMAND\fR [\fIOPTIONS\fR] [\fIARGUMENTS\fR]", ".SH COMMANDS"]
    for name, command in commands().items():
        lines += [f".SS sessioncompress {_troff(name)} [OPTIONS] {_troff(_arguments(command))}".rstrip()]
        lines += [_troff(_one_line(command.help))]
        for each in command.params:
            if isinstance(each, click.Option):
                lines += [".TP", rf"\fB{_troff(signature(each))}\fR", _troff(_meaning(each).replace("`", ""))]
        lines += [".PP", _troff(_one_line(command.epilog))]
    lines += [".SH FILES", ".TP", "compression.json", "The policy; 'sessioncompress config path' says which counts."]
    lines += [".SH SEE ALSO", _troff(homepage())]
    return "\n".join(lines) + "\n"


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def _troff(text: str) -> str:
    """Escape what troff reads as a command, and keep hyphens what a user can paste."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{text}" if text.startswith((".", "'")) else text


def presets_part() -> str:
    """Return the table of the keys in which presets differ."""
    values = {name: flat(to_mapping(preset)) for name, preset in PRESETS.items()}
    names = list(values)
    lines = ["", f"| | {' | '.join(f'`{name}`' for name in names)} |", "|---" * (len(names) + 1) + "|"]
    for key in values["balanced"]:
        row = [values[name][key] for name in names]
        if len(set(map(str, row))) > 1:
            shown = [json.dumps(row[0]), *(json.dumps(each) if each != row[0] else "" for each in row[1:])]
            lines.append(f"| `{key}` | {' | '.join(each and f'`{each}`' for each in shown)} |")
    return "\n".join([*lines, "", ""])


def formats_part() -> str:
    """Return the table of the formats: whose they are, what kind of file, and the versions that CI resumes."""
    lines = ["", "| name | also | agent | sessions | resumed in CI with |", "|---|---|---|---|---|"]
    for row in sorted(TABLE, key=lambda row: row.name):
        said = row.said
        also = ", ".join(f"`{name}`" for name in row.also)
        line = f"| `{row.name}` | {also} | {said.agents} {said.since} | {said.kind} | {said.resumed} |"
        lines.append(line.replace("  ", " "))
    return "\n".join([*lines, "", ""])


def folders_part() -> str:
    """Return the table of the folders where each agent's sessions are looked for."""
    lines = ["", "| agent | folder |", "|---|---|"]
    for row in TABLE:
        patterns: dict[str, list[str]] = {}
        for variable, usual, pattern in row.folders + row.databases:
            home = " or ".join(f"`{each}`" for each in (variable, usual) if each)
            patterns.setdefault(home, []).append(f"`{pattern}`" if pattern else "")
        found = [f"{' and '.join(each)} in {home}" if all(each) else home for home, each in patterns.items()]
        lines.append(f"| {row.said.agents} | {'; '.join(found) or 'nowhere: name the file'} |")
    return "\n".join([*lines, "", ""])


def parts(page: Path) -> Mapping[str, Callable[[], str]]:
    """Return what makes each generated part of a page."""
    if page == CONFIGURATION:
        return {"keys": keys_part, "presets": presets_part}
    if page == README:
        return {"agents": lambda: f"\nA session is one of {AGENTS}.\n\n"}
    if page == FORMATS:
        return {"formats": formats_part, "folders": folders_part}
    return {"shared": shared_part, **{name: partial(command_part, name) for name in commands()}}


def made(page: Path) -> str:
    """Return a file with its generated parts as they should be. Exits where a part is missing, or of nothing."""
    if page in WHOLE:
        return WHOLE[page]()
    text = page.read_text(encoding="utf-8")
    makers = parts(page)
    found = [match[1] for match in _PART.finditer(text)]
    if sorted(found) != sorted(makers):
        raise SystemExit(f"{page.name}: has the parts {', '.join(found)}; it must have {', '.join(makers)}, once each")
    return _PART.sub(lambda match: f"{match[1]}{match[2]}{makers[match[1]]()}", text)


WHOLE = {SCHEMA: schema, MAN: man}
"""Files of which nothing is written by hand."""


def out_of_date() -> list[Path]:
    """Return the files that are not what this makes."""
    return [page for page in (*PAGES, *WHOLE) if not page.exists() or page.read_text(encoding="utf-8") != made(page)]


def main() -> int:
    """Write, or check."""
    pages = out_of_date()
    for page in pages:
        if "--check" in sys.argv[1:]:
            print(f"{page.name}: out of date; run `python docs/make_reference.py`", file=sys.stderr)
        else:
            page.write_text(made(page), encoding="utf-8")
            print(f"written: {page.name}")
    return 1 if pages and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
