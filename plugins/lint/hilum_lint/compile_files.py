"""A program that compiles Python files and prints what is no Python.

It runs nothing of them and needs no library.

``python compile_files.py FILE_OR_FOLDER …``, or ``python compile_files.py - NAME`` for a text on
standard input.
"""

import json
import os
import sys
import warnings
from collections.abc import Iterator

MOST = 5_000


def look(name: str, text: bytes) -> None:
    """Compile a text and print what is wrong with it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            compile(text, name, "exec", dont_inherit=True)
        except SyntaxError as error:
            tell(name, error.lineno or 0, error.offset or 0, "error", str(error.msg))
        except (ValueError, RecursionError, MemoryError) as error:
            tell(name, 0, 0, "error", str(error) or type(error).__name__)
    for warning in caught:
        tell(name, warning.lineno, 0, "warning", str(warning.message))


def tell(name: str, line: int, column: int, severity: str, message: str) -> None:
    """Print one finding."""
    print(json.dumps([name, line, max(column, 0), severity, "invalid-syntax", message]))


def below(folder: str) -> Iterator[str]:
    """Yield the Python files below a folder, without hidden folders and what is installed."""
    for here, folders, files in os.walk(folder):
        folders[:] = [
            name
            for name in sorted(folders)
            if not name.startswith(".")
            and name not in ("node_modules", "__pycache__")
            and not os.path.exists(os.path.join(here, name, "pyvenv.cfg"))
        ]
        paths = (
            os.path.join(here, name) for name in sorted(files) if name.endswith((".py", ".pyi"))
        )
        yield from (path for path in paths if os.path.isfile(path) and not os.path.islink(path))


def main(arguments: list[str]) -> None:
    """Look at what the arguments name."""
    if arguments[0] == "-":
        look(arguments[1], sys.stdin.buffer.read())
        return
    paths = (
        path for given in arguments for path in (below(given) if os.path.isdir(given) else (given,))
    )
    for _, path in zip(range(MOST), paths, strict=False):
        with open(path, "rb") as file:
            look(path, file.read())


if __name__ == "__main__":
    main(sys.argv[1:])
