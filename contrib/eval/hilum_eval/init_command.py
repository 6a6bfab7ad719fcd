"""The command ``hilum eval init``: creates a commented example of a case."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from hilum import UsageError
from hilum.command import Parser, say
from hilum.errors import E_BAD_ARGS

NAME = "rename-function"
# The files of the example, which linters and test runners would take for those of this package,
# have this suffix here.
_SUFFIX = ".txt"
_FILES = ("case.yaml", "verify.py", "files/prices.py.txt", "files/test_prices.py.txt")


def main(argv: list[str]) -> int:
    """Create the example, and return the exit code."""
    parser = Parser("hilum eval init", "Create a commented example of a case.")
    parser.add_argument("folder", metavar="DIR", help="the folder of your cases")
    options = parser.parse_args(argv)
    suite = Path(options.folder)
    folder = suite / NAME
    if folder.exists():
        raise UsageError(
            f"{folder} exists.", code=E_BAD_ARGS, hint="Choose another folder, or remove it."
        )
    try:
        written = _copy_example(folder)
    except OSError as error:
        raise UsageError(
            f"{error.filename or folder} cannot be written: {error.strerror}.",
            code=E_BAD_ARGS,
            hint="Choose another folder.",
        ) from None
    for path in written:
        say(f"Wrote {path}")
    say(f"\nCheck it with `hilum eval check {suite}`, then run `hilum eval --suite {suite}`.")
    return 0


def _copy_example(folder: Path) -> list[Path]:
    """Copy the files of the example, and return their paths."""
    written = []
    example = files("hilum_eval").joinpath("example")
    for name in _FILES:
        path = folder / name.removesuffix(_SUFFIX)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(example.joinpath(*name.split("/")).read_bytes())
        written.append(path)
    return written
