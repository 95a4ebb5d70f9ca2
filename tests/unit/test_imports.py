"""Imports point one way, from what users call down to what knows nothing; and one module writes to the disk."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import sessioncompress
from tests.support.runs import fixture

PACKAGE = Path(sessioncompress.__file__).parent
MODULES = sorted(str(path.relative_to(PACKAGE).with_suffix("")).replace("/", ".") for path in PACKAGE.rglob("*.py"))

LAYERS: tuple[tuple[str, ...], ...] = (
    ("__init__", "__main__", "cli", "hooks"),
    ("operations",),
    ("pipeline",),
    ("checkpoints",),
    ("compressors",),
    ("formats",),
    ("store",),
    ("policy", "errors"),
    ("core",),
)
"""From the top down: a module imports from its own room, from one that stands behind that in its layer, or lower."""

ROOMS = [room for layer in LAYERS for room in layer]

PURE = frozenset(
    {
        *("checkpoints", "compressors", "formats", "core.lines", "core.marker", "core.model", "core.splice"),
        *("core.text", "pipeline.plan", "pipeline.usage"),
    }
)
"""They know no files: everything they work on is given to them."""

DISK = frozenset({"os", "pathlib", "shutil", "tempfile", "io", "subprocess", "socket"})

WRITER = "store.disk"
WRITING_CALLS = frozenset(
    {
        *("write_text", "write_bytes", "touch", "replace_file", "pwrite", "writev", "ftruncate", "truncate"),
        *("rename", "renames", "unlink", "remove", "rmdir", "removedirs", "mkdir", "makedirs", "link", "symlink"),
        *("symlink_to", "hardlink_to", "fchmod", "chmod", "fchown", "chown", "utime", "setxattr", "fsync"),
        *("fdatasync", "rmtree", "copyfile", "move"),
    }
)
WRITING_FLAGS = frozenset({"O_WRONLY", "O_RDWR", "O_CREAT", "O_APPEND", "O_TRUNC"})

AGENT_KEYS = frozenset(
    {
        *("toolResult", "toolCall", "toolCallId", "thinkingSignature", "textSignature", "thoughtSignature"),
        *("providerPayload", "partialJson", "parentId", "firstKeptEntryId", "customType", "mimeType", "isError"),
        *("call_id", "function_call", "event_msg", "response_item", "replacement_history", "input_image"),
        *("image_url", "$set"),
    }
)


@cache
def tree(module: str) -> ast.Module:
    return ast.parse((PACKAGE / (module.replace(".", "/") + ".py")).read_text())


def depth_of(module: str) -> int:
    return ROOMS.index(module.split(".", maxsplit=1)[0])


def imports(module: str) -> Iterator[tuple[str, int]]:
    """Yield the modules of the package that a module imports, anywhere in it, with the line."""
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "sessioncompress":
            base = node.module.removeprefix("sessioncompress").removeprefix(".")
            for name in node.names:
                inner = f"{base}.{name.name}".removeprefix(".")
                yield (inner if inner in MODULES or f"{inner}.__init__" in MODULES else base or "__init__"), node.lineno
        elif isinstance(node, ast.Import):
            for name in node.names:
                if name.name.split(".")[0] == "sessioncompress":
                    yield name.name.removeprefix("sessioncompress").removeprefix(".") or "__init__", node.lineno


def test_every_module_has_its_layer() -> None:
    tops = {module.split(".")[0] for module in MODULES}
    assert sorted(ROOMS) == sorted(tops)


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_down(module: str) -> None:
    """To a lower layer, or inside the package; the package itself may be asked for nothing but its version."""
    for imported, line in imports(module):
        same_package = module.split(".", maxsplit=1)[0] == imported.split(".")[0] and "." in module
        assert same_package or depth_of(imported) > depth_of(module), f"{module}:{line} imports {imported}"


def test_no_module_imports_itself_by_a_detour() -> None:
    """Inside the packages too, where all modules are of one layer."""
    graph = {module.removesuffix(".__init__"): {name for name, _ in imports(module)} for module in MODULES}
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join((*path, module))
        if module not in done:
            for name in graph.get(module, ()):
                visit(name, (*path, module))
            done.add(module)

    for module in graph:
        visit(module, ())


def test_a_public_name_is_never_a_module() -> None:
    """A module that is imported becomes an attribute of its package, and would stand in the way of its namesake."""
    assert not set(sessioncompress.__all__) & {path.stem for path in PACKAGE.iterdir()}
    public: dict[str, object] = {}
    exec("from sessioncompress import *", public)
    assert {name for name, value in public.items() if not isinstance(value, ModuleType)} >= set(sessioncompress.__all__)


_KNOWN_TO_STORE = (
    *("documents", "jsonl", "lines", "marker", "model", "pointers", "process", "references", "splice", "text"),
)


@pytest.mark.parametrize("module", [module for module in MODULES if module.startswith("store.")])
def test_the_store_knows_no_sessions(module: str) -> None:
    """It keeps lines; what they mean is not its business, but only whether it grows, whose markers and which rows it has."""
    core = {f"core.{name}" for name in _KNOWN_TO_STORE}
    known = {"errors", "policy.model", *core}
    assert {name for name, _ in imports(module) if not name.startswith("store")} <= known


def is_pure(module: str) -> bool:
    """Say whether a module is one that decides; where an agent keeps what of its sessions is about files alone."""
    files = ("formats.table", "formats.codex_places")
    return (module in PURE or module.split(".", maxsplit=1)[0] in PURE) and module not in files


@pytest.mark.parametrize("module", [module for module in MODULES if is_pure(module)])
def test_what_decides_knows_no_files(module: str) -> None:
    """So that each of these can be tested, and read, without any."""
    names = {
        name.name.split(".")[0]
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Import)
        for name in node.names
    } | {
        (node.module or "").split(".")[0]
        for node in ast.walk(tree(module))
        # Bytes in memory are no file.
        if isinstance(node, ast.ImportFrom) and [name.name for name in node.names] != ["BytesIO"]
    }
    assert not names & DISK
    assert not any(name.startswith("store") for name, _ in imports(module))


@pytest.mark.parametrize("module", [module for module in MODULES if module != WRITER])
def test_only_one_module_writes(module: str) -> None:
    """What reaches the disk, and in which order, can be read in store/disk.py."""
    found = [ast.unparse(node)[:60] for node in ast.walk(tree(module)) if writes(node)]
    assert found == []


def test_every_write_can_be_made_to_fail() -> None:
    """Outside of System's own functions no system call that writes passes it, so the fault tests hit each."""
    own = [
        each for each in tree(WRITER).body if getattr(each, "name", "") not in ("_flush_drive", "_exchange", "System")
    ]
    calls = [node for each in own for node in ast.walk(each) if isinstance(node, ast.Call)]
    found = [ast.unparse(each) for each in calls if ast.unparse(each.func).startswith("os.")]
    assert not [
        each for each in found if each.partition("(")[0].removeprefix("os.") in {*WRITING_CALLS, "write", "replace"}
    ]


def writes(node: ast.AST) -> bool:
    """Say whether this is a call that changes something on disk, or a flag that a call needs to."""
    if isinstance(node, ast.Attribute):
        return node.attr in WRITING_FLAGS
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    if isinstance(called, ast.Name):
        return called.id == "open" and any(set(mode) & set("wax+") for mode in modes(node))
    if not isinstance(called, ast.Attribute):
        return False
    owner = ast.unparse(called.value).split(".")[0]
    if called.attr == "open":
        return owner != "os" and any(set(mode) & set("wax+") for mode in modes(node))
    if owner == "os" and called.attr in ("write", "replace"):
        return True
    return called.attr in WRITING_CALLS and owner != "disk"


def modes(node: ast.Call) -> list[str]:
    """Return what may be the mode of a call to open."""
    given = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
    return [
        each.value
        for each in given
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and len(each.value) < 4
    ]


@pytest.mark.parametrize("module", [module for module in MODULES if not module.startswith("formats.")])
def test_only_the_formats_know_the_agents_keys(module: str) -> None:
    """A new agent is one file and one line of a table; a line of updates is cut before its agent is known."""
    found = {
        key
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
        for text in [node.value if isinstance(node.value, str) else node.value.decode(errors="replace")]
        for key in AGENT_KEYS
        if text == key or f'"{key}"' in text
    }
    assert found == ({"$set"} if module == "core.jsonl" else set())


def test_a_run_with_nothing_to_do_imports_little() -> None:
    """The gate decides before anything that takes time is there."""
    heavy = {"orjson", "xxhash", "hashlib", "backports", "rich"}
    seen: set[str] = set()
    todo = [
        "__main__",
        "policy.sources",
        "pipeline.triage",
        "cli.main",
        "cli.compress",
        "operations.batch",
        "pipeline.discover",
    ]
    while todo:
        module = todo.pop()
        if module in seen:
            continue
        seen.add(module)
        for node in tree(module if module in MODULES else f"{module}.__init__").body:
            if isinstance(node, ast.Import):
                assert not {name.name.split(".")[0] for name in node.names} & heavy, (
                    f"{module} imports {ast.unparse(node)}"
                )
            if isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in heavy, f"{module} imports {ast.unparse(node)}"
                if (node.module or "").startswith("sessioncompress."):
                    source = (node.module or "").removeprefix("sessioncompress.")
                    todo += [source, *(each for name in node.names if (each := f"{source}.{name.name}") in MODULES)]


@pytest.mark.parametrize("arguments", [["--help"], ["compress"], ["compress", "--dry-run", "-v"], ["verify"]])
def test_only_tables_wait_for_rich(tmp_path: Path, arguments: list[str]) -> None:
    """Not the help, nor a run over a single file."""
    program = (
        "import atexit, sys; atexit.register(lambda: print('rich' in sys.modules)); "
        "from sessioncompress.__main__ import run; run()"
    )
    paths = [] if "--help" in arguments else [str(tmp_path / "session.jsonl")]
    (tmp_path / "session.jsonl").write_bytes(fixture("pi-anthropic.jsonl"))
    command = [sys.executable, "-c", program, *arguments, *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\nFalse\n"), done.stdout


def test_a_class_name_has_one_home() -> None:
    """Except for a command, which has the name that the user types."""
    homes: dict[str, list[str]] = {}
    for module in MODULES:
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.ClassDef) and not module.startswith("cli."):
                homes.setdefault(node.name.lstrip("_"), []).append(module)
    assert {name: modules for name, modules in homes.items() if len(modules) > 1} == {}
