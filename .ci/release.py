"""Build the sdist and the wheel from what git tracks, check them, and install both with every Python at hand.

    python .ci/release.py [FOLDER]

They are left in FOLDER, which must be empty or missing: to be released, so it exits with 1 where something is left to
do before that. Without FOLDER they are thrown away, and it only says what is left to do.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from concurrent.futures import ThreadPoolExecutor
from email import message_from_bytes
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "sessioncompress"
OLDEST, NEWEST = 11, 20
URLS = 4
PLACEHOLDER = "example.invalid"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
GENERATED = re.compile(rf"PKG-INFO|setup\.cfg|{PACKAGE}\.egg-info/.*")
FIXTURE = ROOT / "fixtures" / "pi-anthropic.jsonl"


def run(*command: str | Path, **environment: str) -> str:
    """Run a command that may not fail; return what it printed."""
    own = {**os.environ, **environment}
    done = subprocess.run([*map(str, command)], cwd=ROOT, env=own, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def tracked() -> set[str]:
    """List what git tracks, as it lies here."""
    return {name for name in run("git", "ls-files", "-z").split("\0") if name and (ROOT / name).is_file()}


def build(folder: Path) -> tuple[Path, Path]:
    """Build both from a copy of what git tracks, without caches and older builds. The wheel comes of the sdist."""
    with TemporaryDirectory() as copy:
        for name in tracked():
            (Path(copy) / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, Path(copy) / name)
        run(sys.executable, "-m", "build", "--outdir", folder, copy)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)
    return sdist, wheel


def differences(what: str, found: set[str], wanted: set[str]) -> list[str]:
    """Describe the files that are missing, and those that should not be there."""
    missing, extra = sorted(wanted - found), sorted(found - wanted)
    return [f"{what} lacks {name}" for name in missing] + [f"{what} has {name}" for name in extra]


def wrong_in_sdist(sdist: Path) -> list[str]:
    """Compare its files with what git tracks."""
    with tarfile.open(sdist) as archive:
        names = {each.name.partition("/")[2] for each in archive if each.isfile()}
    return differences("the sdist", {name for name in names if not GENERATED.fullmatch(name)}, tracked())


def wrong_in_wheel(wheel: Path) -> list[str]:
    """Compare its files with the package's, and look at what an index would show."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (about,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(archive.read(about))
    own = {name for name in names if not re.match(r"[^/]+\.(?:dist-info|data)/", name)}
    wrong = differences("the wheel", own, {name for name in tracked() if name.startswith(f"{PACKAGE}/")})
    text = str(metadata.get_payload())
    wrong += [f"the README has a relative link: {each}" for each in re.findall(r"\]\((?!https?:|#)[^)]*\)", text)]
    address = PYPROJECT["tool"]["sessioncompress"]["repository"]
    if sum(f", {address}" in each for each in metadata.get_all("Project-URL", [])) != URLS:
        wrong.append("the wheel lacks URLs of the project")
    return wrong


def interpreters() -> dict[str, str]:
    """Return a program for each version of Python at hand, those of pyenv too."""
    folder = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser() / "versions"
    found: dict[str, str] = {}
    for minor in range(OLDEST, NEWEST):
        own = [str(path) for path in sorted(folder.glob(f"3.{minor}.*/bin/python"))]
        for program in [f"python3.{minor}", *own]:
            # A shim of pyenv is there for versions that are switched off, too.
            shown = shutil.which(program) and subprocess.run([program, "-c", "1"], capture_output=True, check=False)
            if shown and shown.returncode == 0:
                found.setdefault(f"3.{minor}", program)
    return found


def tried(program: str, *packages: Path) -> set[str]:
    """Install each package in an empty environment, compress and restore a session with it; return their versions."""
    versions = set()
    with TemporaryDirectory() as folder:
        place = Path(folder)
        # Our own pip fills it: to put one into each takes longer than all else.
        run(program, "-m", "venv", "--without-pip", place / "venv")
        pip = [sys.executable, "-m", "pip", "--python", str(place / "venv/bin/python"), "--disable-pip-version-check"]
        own = {"HOME": folder, "PATH": os.defpath, "XDG_STATE_HOME": str(place / "state")}
        command, session = place / "venv/bin" / PACKAGE, place / "session.jsonl"
        for package in packages:
            run(*pip, "install", "--quiet", "--no-compile", package)
            versions.add(run(command, "--version", **own).split()[-1])
            shutil.copyfile(FIXTURE, session)
            before = session.read_bytes()
            run(command, "compress", session, **own)
            if session.stat().st_size >= len(before):
                sys.exit(f"{program}, {package.name}: the session did not become smaller")
            run(command, "restore", session, **own)
            if session.read_bytes() != before:
                sys.exit(f"{program}, {package.name}: the session did not come back")
            run(*pip, "uninstall", "--quiet", "--yes", PACKAGE)
    return versions


def left_to_do(tried_with: set[str]) -> list[str]:
    """Say what a release still needs."""
    classifiers = (re.fullmatch(r".* :: Python :: (3\.\d+)", each) for each in PYPROJECT["project"]["classifiers"])
    untried = {each[1] for each in classifiers if each} - tried_with
    left = [f"Python {each}, which the classifiers name, is not at hand to try it with" for each in sorted(untried)]
    if PLACEHOLDER in PYPROJECT["tool"]["sessioncompress"]["repository"]:
        left.append(f"[tool.sessioncompress] in pyproject.toml has the placeholder {PLACEHOLDER}")
    if "] - unreleased\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"):
        left.append("CHANGELOG.md has no date for it")
    return left


def main() -> None:
    """Do all of it; exit with 1 and say what is wrong."""
    with TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            sys.exit(f"{folder} is not empty")
        sdist, wheel = build(folder)
        if wrong := [*wrong_in_sdist(sdist), *wrong_in_wheel(wheel)]:
            sys.exit("\n".join(wrong))
        programs = interpreters()
        with ThreadPoolExecutor(2) as pool:
            versions = set().union(*pool.map(lambda program: tried(program, wheel, sdist), programs.values()))
        if len(versions) != 1 or f"-{next(iter(versions))}-" not in wheel.name:
            sys.exit(f"{wheel.name} says that it is of version {versions}")
        print(f"{sdist.name} and {wheel.name} are complete, and work with Python {', '.join(programs)}")
        left = left_to_do(set(programs))
        print(*(f"before a release: {each}" for each in left), sep="\n")
        if left and len(sys.argv) > 1:
            sys.exit(1)


if __name__ == "__main__":
    main()
