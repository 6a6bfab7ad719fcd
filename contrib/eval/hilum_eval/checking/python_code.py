"""Runs the Python code of the workspace in processes of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TIMEOUT = 30.0  # seconds

# Evaluates expressions; what the code prints, and modules of the workspace that are named like those of
# the standard library, do not disturb it. The expected values are not in this process, so that the code
# cannot read them.
_PROBE = """
import json, os, sys
target, root, imports, expressions = json.loads(sys.argv[1])
dumps, write, leave = json.dumps, os.write, os._exit
out = os.open(target, os.O_WRONLY)
sys.path.insert(0, root)
space = {}
results = []
try:
    exec(imports, space)
except BaseException as error:
    results = [["raised", type(error).__name__, str(error)]] * len(expressions)
else:
    for expression in expressions:
        try:
            value = eval(expression, space)
            try:
                dumps(value)
            except (TypeError, ValueError):
                value = repr(value)
            results.append(["value", value])
        except BaseException as error:
            results.append(["raised", type(error).__name__, str(error)])
write(out, dumps(results).encode())
leave(0)
"""


@dataclass(frozen=True)
class Raised:
    """An exception that an expression raised; two are equal if their types have the same name.

    Args:
        name: Name of the type.
        message: The message.
    """

    name: str
    message: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Raised) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


def evaluate_python(
    imports: str,
    expressions: Sequence[str],
    *,
    root: Path = Path(),
    timeout: float = _TIMEOUT,
) -> list[Any]:
    """Evaluate expressions with the code of the workspace.

    Args:
        imports: Statements that run first.
        expressions: The expressions.
        root: The folder from which modules are imported.
        timeout: Time limit in seconds.

    Returns:
        A value for each expression: what JSON can represent, a ``repr`` of other values, or ``Raised``.
    """
    with tempfile.TemporaryDirectory(prefix="verify-") as folder:
        target = Path(folder) / "results"
        target.touch()
        argument = json.dumps([str(target), str(root.resolve()), imports, list(expressions)])
        run_program([sys.executable, "-I", "-B", "-c", _PROBE, argument], root, timeout=timeout)
        text = target.read_text("utf-8")
    if not text:
        return [Raised("NoResult", "the process ended or was stopped before it returned")] * len(
            expressions
        )
    return [Raised(*each[1:]) if each[0] == "raised" else each[1] for each in json.loads(text)]


def run_program(
    command: Sequence[str], folder: Path = Path(), *, timeout: float = _TIMEOUT
) -> tuple[int, str]:
    """Run a program with a time limit.

    Args:
        command: The program and its arguments.
        folder: The folder in which it runs.
        timeout: Time limit in seconds.

    Returns:
        The exit code and all output; -1 if it took too long or could not be started.
    """
    environ = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    environ["PYTHONDONTWRITEBYTECODE"] = "1"
    environ["PYTHONUTF8"] = "1"
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired as error:
        return -1, (error.stdout or b"").decode("utf-8", "replace")
    except OSError as error:
        return -1, str(error)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def run_unittests(
    root: Path, folder: str = "tests", *, timeout: float = _TIMEOUT
) -> tuple[int, int]:
    """Run the tests of a folder with ``unittest``.

    Args:
        root: The folder of the project.
        folder: The folder of the tests, relative to it.
        timeout: Time limit in seconds.

    Returns:
        The number of tests that ran, and the number of those that failed; ``(0, 1)`` if they did not
        run at all.
    """
    expression = f"run({folder!r})"
    [result] = evaluate_python(_RUN_TESTS, [expression], root=root, timeout=timeout)
    if isinstance(result, Raised):
        return 0, 1
    ran, failed = result
    return ran, failed


_RUN_TESTS = """
import io, unittest
def run(folder):
    import os, sys
    os.chdir(sys.path[0])
    suite = unittest.TestLoader().discover(folder, top_level_dir=".")
    result = unittest.TextTestRunner(stream=io.StringIO()).run(suite)
    skipped = len(result.skipped)
    return [result.testsRun - skipped, len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)]
"""
