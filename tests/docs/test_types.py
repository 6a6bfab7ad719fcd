"""What a type checker in strict mode says of the examples in the docs, and of keywords that do not
exist.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
EXAMPLES = DOCS / "examples"
PROGRAMS = [*sorted(EXAMPLES.glob("embed_*.py")), *sorted((EXAMPLES / "plugin").glob("[!t]*.py"))]
PROGRAMS += sorted((EXAMPLES / "plugin").glob("try_*.py"))

WRONG = """\
import hilum
import hilum.aio
import hilum.blocking


@hilum.aio.tool(rsik="read")  # wrong
async def tool_of_asyncio(call: hilum.Call) -> str:
    call.session.nothing  # wrong
    call.agent.nothing  # wrong
    return ""


@hilum.tool(rsik="read")  # wrong
def tool_of_trio() -> str:
    return ""


async def prompts(session: hilum.Session) -> None:
    await session.run("x", modle="y")  # wrong
    await session.prompt("x", modle="y")  # wrong
    async with hilum.open_kernel(plugns=[]):  # wrong
        pass
    async with hilum.aio.open_kernel(plugns=[]):  # wrong
        pass
    async with hilum.aio.open_kernel() as kernel, kernel.open_session(".") as other:
        await other.run("x", modle="y")  # wrong


with hilum.blocking.open_kernel() as plain, plain.open_session(".") as talk:
    talk.run("x", modle="y")  # wrong
with hilum.blocking.open_kernel(plugns=[]):  # wrong
    pass
"""


def check_types(cache: Path, *files: Path) -> str:
    """Return what mypy prints in strict mode."""
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--cache-dir",
        cache,
        *files,
    ]
    done = subprocess.run(
        command, cwd=EXAMPLES / "plugin", capture_output=True, text=True, timeout=300, check=False
    )
    return done.stdout + done.stderr


def test_the_examples_pass_the_strict_mode_and_misspelled_names_do_not(tmp_path):
    """A plugin author who copies an example starts without an error.

    In each of the three interfaces, a keyword or attribute that does not exist is an error on the
    line where it is. One run of mypy checks both: most of its time goes into reading hilum.
    """
    assert len(PROGRAMS) > 8
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG)
    printed = check_types(tmp_path / "cache", *PROGRAMS, wrong)
    # Besides an error in a call, mypy notes where hilum defines what is called.
    lines = [line for line in printed.splitlines() if not line.endswith("defined here")]
    assert [line for line in lines if "wrong.py:" not in line] == []
    found = {int(number) for number in re.findall(r"wrong\.py:(\d+): error", printed)}
    assert found == {n for n, line in enumerate(WRONG.splitlines(), 1) if line.endswith("# wrong")}


@pytest.mark.skipif(shutil.which("pyright") is None, reason="pyright is not installed")
def test_every_public_name_has_a_known_type():
    """As pyright sees it, which infers less than mypy does."""
    command = ["pyright", "--verifytypes", "hilum", "--ignoreexternal"]
    path = os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))
    done = subprocess.run(
        command,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "Type completeness score: 100%" in done.stdout, done.stdout
