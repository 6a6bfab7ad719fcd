"""A program that compiles Python files and prints their syntax errors.

The program does not run the files and needs no third-party library.

``python compile_files.py FILE_OR_FOLDER …``, ``python compile_files.py - NAME`` for code on
standard input, or ``python compile_files.py --serve`` for many codes on standard input, each after
a line with its name and its size in bytes; each answer is one line with all findings.
"""

import json
import os
import sys
import warnings
from collections.abc import Iterator
from itertools import islice

MAX_FILES = 5_000


def find_errors(name: str, text: bytes) -> list[list[object]]:
    """Compile source code and return its errors and warnings."""
    found = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            # Compiling does not run the code. With ``dont_inherit``, this file's ``__future__``
            # imports do not apply.
            compile(text, name, "exec", dont_inherit=True)
        except SyntaxError as error:
            place = (error.lineno or 0, error.offset or 0)
            found.append(make_finding(name, *place, "error", str(error.msg)))
        except (ValueError, RecursionError, MemoryError) as error:
            found.append(make_finding(name, 0, 0, "error", str(error) or type(error).__name__))
    for warning in caught:
        found.append(make_finding(name, warning.lineno, 0, "warning", str(warning.message)))
    return found


def make_finding(name: str, line: int, column: int, severity: str, message: str) -> list[object]:
    """Return one finding in the form that is printed."""
    return [name, line, max(column, 0), severity, "invalid-syntax", message]


def check_source(name: str, text: bytes) -> None:
    """Compile source code and print its errors and warnings, each on one line."""
    for finding in find_errors(name, text):
        print(json.dumps(finding))


def serve() -> None:
    """Check one code after another until standard input ends."""
    source = sys.stdin.buffer
    while head := source.readline():
        name, size = json.loads(head)
        text = source.read(size)
        print(json.dumps(find_errors(name, text)), flush=True)


def find_python_files(folder: str) -> Iterator[str]:
    """Yield the Python files below a folder, excluding hidden folders and installed packages."""
    # `os.walk` calls itself for each level before Python 3.12, and fails if there are a thousand.
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        try:
            names = sorted(os.listdir(here))
        except OSError:
            continue
        inner = []
        for name in names:
            path = os.path.join(here, name)
            if os.path.islink(path):
                continue
            if os.path.isdir(path):
                if is_source_folder(here, name):
                    inner.append(path)
            elif name.endswith((".py", ".pyi")) and os.path.isfile(path):
                yield path
        waiting += reversed(inner)


def find_all(arguments: list[str]) -> Iterator[str]:
    """Yield the given files, and the Python files below the given folders."""
    for given in arguments:
        if os.path.isdir(given):
            yield from find_python_files(given)
        else:
            yield given


def is_source_folder(parent: str, name: str) -> bool:
    """Return whether a folder may contain the project's own sources."""
    if name.startswith(".") or name in ("node_modules", "__pycache__"):
        return False
    return not os.path.exists(os.path.join(parent, name, "pyvenv.cfg"))


def main(arguments: list[str]) -> None:
    """Check the files and folders named by the arguments."""
    if arguments[0] == "--serve":
        serve()
        return
    if arguments[0] == "-":
        check_source(arguments[1], sys.stdin.buffer.read())
        return
    for path in islice(find_all(arguments), MAX_FILES):
        with open(path, "rb") as file:
            check_source(path, file.read())


if __name__ == "__main__":
    main(sys.argv[1:])
