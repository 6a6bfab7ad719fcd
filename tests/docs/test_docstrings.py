"""The first lines of docstrings, which users read alone: in ``--help``, in lists and on pages."""

import ast
import subprocess
import sys
from pathlib import Path

import hilum
import pytest
from hilum.discovery import entry_points, summary

ROOT = Path(hilum.__file__).parents[2]
SCRIPTS = sorted(
    path
    for folder in ("tests", "docs")
    for path in (ROOT / folder).rglob("*.py")
    if "__doc__" in path.read_text(errors="replace")
)
SETTINGS = sorted((ROOT / "plugins").glob("*/hilum_*/settings.py"))


def problem(docstring: str | None) -> str:
    """Return what is wrong with the first line of a docstring."""
    first, _, rest = (docstring or "").partition("\n")
    if not first.endswith((".", "?", ":")):
        return f"not a whole sentence: {first!r}"
    return f"goes on: {first!r}" if rest.partition("\n")[0].strip() else ""


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_describes_itself_in_one_line(path: Path) -> None:
    """Its ``--help`` shows that line."""
    assert problem(ast.get_docstring(ast.parse(path.read_text()))) == ""


@pytest.mark.parametrize("path", SETTINGS, ids=lambda path: path.parent.name)
def test_a_section_of_settings_describes_itself_in_one_line(path: Path) -> None:
    """The page of the settings shows it."""
    classes = [each for each in ast.parse(path.read_text()).body if isinstance(each, ast.ClassDef)]
    found = {each.name: problem(ast.get_docstring(each)) for each in classes}
    assert {name: text for name, text in found.items() if text} == {}


def test_the_help_of_every_command_is_whole() -> None:
    """Neither its own description nor its line in ``hilum --help`` is cut in a sentence."""
    listed = subprocess.run(
        [sys.executable, "-m", "hilum", "--help"], capture_output=True, text=True, check=True
    ).stdout
    for point in entry_points("hilum.commands").values():
        line = summary(point).rstrip(".")
        assert line
        assert line in listed, point.name
