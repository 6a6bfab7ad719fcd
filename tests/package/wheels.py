"""Smoke test of the wheels: each builds, and installs into a clean environment with nothing but the
kernel's wheel beside it.

Run it with ``python3 tests/package/wheels.py``. Wheels come from this tree, other dependencies from
the package index.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UV = [sys.executable, "-m", "uv"]
PINS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]["constraint-dependencies"]


def run(*argv: str | Path, quiet: bool = True) -> str:
    """Run a command and give its output; on failure show it and stop."""
    environ = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH")}
    done = subprocess.run(
        [str(a) for a in argv],
        capture_output=True,
        text=True,
        env=environ,
        cwd=tempfile.gettempdir(),
    )
    if done.returncode:
        sys.exit(
            f"failed ({done.returncode}): {' '.join(map(str, argv))}\n{done.stdout}{done.stderr}"
        )
    return done.stdout


def clean(folder: Path, dist: Path, *packages: str) -> Path:
    """Make an environment with these packages from ``dist`` and give its interpreter."""
    pins = folder.with_suffix(".txt")
    pins.write_text("\n".join(PINS))
    run(*UV, "venv", "--quiet", "--python", sys.executable, folder)
    python = folder / "bin" / "python"
    run(
        *UV,
        "pip",
        "install",
        "--quiet",
        "--python",
        python,
        "--find-links",
        dist,
        "-c",
        pins,
        *packages,
    )
    return python


def main() -> int:
    """Build all wheels and try them."""
    with tempfile.TemporaryDirectory() as temporary:
        base = Path(temporary)
        dist = base / "dist"
        run(
            *UV,
            "build",
            "--quiet",
            "--all-packages",
            "--wheel",
            "--project",
            ROOT,
            "-o",
            dist,
            ROOT,
        )
        run(*UV, "build", "--quiet", "--wheel", "-o", dist, ROOT / "contrib" / "template")
        names = sorted(path.name.split("-")[0].replace("_", "-") for path in dist.glob("*.whl"))
        print("built:", ", ".join(names))

        python = clean(base / "alone", dist, "hilum-core")
        hilum = python.with_name("hilum")
        print("kernel alone:", run(hilum, "--version").strip())
        run(hilum, "--help")
        run(hilum, "plugins")
        run(python, "-c", ALONE)
        run(python.with_name("hilum-warden"), "--", "true")
        run(python, "-c", FRONT_MATTER)

        python = clean(base / "one", dist, "hilum-core", "hilum-files")
        print(
            "kernel and one plugin:",
            run(python.with_name("hilum"), "plugins").strip().splitlines()[-1],
        )
        run(python, "-c", ONE)

        python = clean(base / "program", dist, "hilum", "pytest", "pytest-trio")
        try_program(python, base)

        python = clean(base / "all", dist, *names)
        run(python, "-c", SEARCH)
        out = run(python.with_name("hilum"), "demo", "--fast")
        print("everything: hilum demo:", out.strip().splitlines()[-1])
    return 0


def try_program(python: Path, base: Path) -> None:
    """Try what ``pip install hilum`` gives, in a folder outside the repository."""
    hilum = python.with_name("hilum")
    out = run(hilum, "demo", "--fast")
    print("pip install hilum: hilum demo:", out.strip().splitlines()[-1])
    for command in COMMANDS:
        run(hilum, *command.split())
    doctor = subprocess.run([hilum, "doctor", "--json"], capture_output=True, text=True)
    if doctor.returncode not in (0, 1) or doctor.stderr:  # 1: this machine lacks something
        sys.exit(f"hilum doctor failed: {doctor.stdout}{doctor.stderr}")
    for name, words in MISSING.items():
        said = fail(hilum, *words)
        if f"pip install 'hilum[{name}]'" not in said:
            sys.exit(f"hilum {' '.join(words)} does not name hilum[{name}]: {said}")
    for folder in ("contrib/template", "docs/examples/plugin"):
        copy = base / Path(folder).name
        shutil.copytree(ROOT / folder, copy, ignore=shutil.ignore_patterns("__pycache__"))
        run(*UV, "pip", "install", "--quiet", "--python", python, "--no-deps", copy)
        run(
            python,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--basetemp",
            base / "tests",
            copy,
        )
    print("template and tutorial: their tests pass")


def fail(*argv: str | Path) -> str:
    """Run a command that has to fail, and return what it writes to standard error."""
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True)
    if not done.returncode:
        sys.exit(f"did not fail: {' '.join(map(str, argv))}\n{done.stdout}")
    return done.stderr


COMMANDS = (
    "--help",
    "plugins",
    "config",
    "sessions list",
    "permissions list",
    "trust --list",
    "rules --help",
    "skills list",
    "agents list",
    "commands",
    "export --to claude --dry-run",
    "memory --help",
    "undo --help",
    "diff --help",
    "run --help",
)
MISSING = {"batch": ["batch", "tasks.txt"], "eval": ["eval", "--list"], "mcp": ["mcp", "list"]}
FRONT_MATTER = """
from hilum.frontmatter import read, text
assert text(read(b"---\\nname: pdf\\n---\\n"), "name") == "pdf"
"""
ALONE = """
import trio, hilum
async def main():
    async with hilum.open_kernel() as kernel, kernel.open_session(".") as session:
        assert session.tools == {} and not kernel.faults, kernel.faults
trio.run(main)
"""
ONE = """
import trio, hilum
async def main():
    async with hilum.open_kernel(["files"]) as kernel, kernel.open_session(".") as session:
        assert "read_file" in session.tools and not kernel.faults, kernel.faults
trio.run(main)
"""
SEARCH = """
import sys
from pathlib import Path
from hilum_search.ripgrep import find_ripgrep
assert Path(find_ripgrep()) == Path(sys.prefix, "bin", "rg"), find_ripgrep()
"""

if __name__ == "__main__":
    sys.exit(main())
