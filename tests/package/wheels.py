"""Smoke test of the wheels: each builds, and installs into a clean environment with nothing but the
kernel's wheel beside it.

Run it with ``python3 tests/package/wheels.py``. Wheels come from this tree, other dependencies from
the package index.
"""

import os
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

        python = clean(base / "alone", dist, "hilum")
        hilum = python.with_name("hilum")
        print("kernel alone:", run(hilum, "--version").strip())
        run(hilum, "--help")
        run(hilum, "plugins")
        run(python, "-c", ALONE)

        python = clean(base / "one", dist, "hilum", "hilum-files")
        print(
            "kernel and one plugin:",
            run(python.with_name("hilum"), "plugins").strip().splitlines()[-1],
        )
        run(python, "-c", ONE)

        python = clean(base / "all", dist, *names)
        out = run(python.with_name("hilum"), "demo", "--fast")
        print("everything: hilum demo:", out.strip().splitlines()[-1])
    return 0


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

if __name__ == "__main__":
    sys.exit(main())
