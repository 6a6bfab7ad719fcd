"""The view stands alone: a page, a test or a notebook can use it without a loop or a terminal."""

import ast
import subprocess
import sys
from pathlib import Path

import hilum_view

CODE = """
import sys, hilum_view
bad = {"trio", "rich", "attrs", "httpx", "asyncio", "socket", "subprocess", "sqlite3"} & set(sys.modules)
assert not bad, bad
"""
ALLOWED = {"__future__", "collections.abc", "heapq", "json", "re", "typing", "msgspec"}
ALLOWED |= {"hilum", "hilum.errors", "hilum.events", "hilum.messages"}


def test_importing_it_loads_no_loop_and_no_terminal():
    subprocess.run([sys.executable, "-c", CODE], check=True)


def test_nothing_in_it_can_read_a_clock_or_a_file():
    """The same events give the same view."""
    found = set()
    for path in Path(hilum_view.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add(node.module)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("open", "print", "input", "__import__")
    assert {name for name in found if not name.startswith("hilum_view")} <= ALLOWED
