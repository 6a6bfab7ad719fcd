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


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache for all tests of this file: most of the time goes into reading hilum."""
    return tmp_path_factory.mktemp("mypy")


def test_the_examples_pass_the_strict_mode(cache):
    """A plugin author who copies one starts without an error."""
    assert len(PROGRAMS) > 8
    assert check_types(cache, *PROGRAMS) == ""


def test_a_keyword_or_attribute_that_does_not_exist_is_an_error(cache, tmp_path):
    """In each of the three interfaces, on the line where it stands."""
    file = tmp_path / "wrong.py"
    file.write_text(WRONG)
    found = {int(line) for line in re.findall(r":(\d+): error", check_types(cache, file))}
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
