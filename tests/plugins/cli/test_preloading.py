"""What the fork server computes ahead for the processes that it forks."""

import os
import subprocess
import sys

import pytest

PRELOAD = """
from hilum_cli.fork_server import preloading

preloading.preload()
preloading.warm_up()
"""
COMPLETE = """
tools = [*preloading._find_tools()]
assert {"read_file", "run_terminal_cmd"} <= {tool.name for tool in tools}
assert [tool.name for tool in tools if not tool._signature] == []
"""
PRINT = """
import sys

import hilum_files
import hilum_guard
import hilum_shell
import trio
from hilum.testing import open_bench


async def main():
    async with open_bench(hilum_guard, hilum_files, hilum_shell) as kit:
        for tool in kit.session.tools.values():
            print(tool.spec)


trio.run(main)
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="fork server: only Linux")


def run(program: str) -> str:
    """Run a program in a new process, because what it computes stays there."""
    argv = [sys.executable, "-c", program]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, env={**os.environ})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_all_tools_are_described_even_those_of_classes() -> None:
    run(PRELOAD + COMPLETE)


def test_a_tool_is_described_as_in_a_new_process() -> None:
    described = run(PRINT)
    assert "run_terminal_cmd" in described
    assert run(PRELOAD + PRINT) == described
