"""Small cases for the tests of hilum-eval."""

from pathlib import Path

CASE = """\
id: {name}
title: Rename a function
dimensions: [edits, tools]
expected_turns: 4
timeout: {timeout}
{more}
turns:
  - prompt: Rename the function add to plus in calc.py.
    steps:
      - read: calc.py
      - edit: {{path: calc.py, old: def add, new: def plus}}
      - say: Done.
"""
VERIFIER = """\
import json, pathlib
text = pathlib.Path("calc.py").read_text()
done = "def plus" in text and "def add" not in text
print(json.dumps({"completion": 10 if done else 0, "reason": "" if done else "not renamed"}))
"""
FILE = "def add(a, b):\n    return a + b\n"


def write_suite_case(
    suite: Path,
    name: str = "X01",
    *,
    more: str = "",
    verifier: str = VERIFIER,
    timeout: float = 60,
) -> Path:
    """Write a case with a known solution, and return its folder."""
    folder = suite / name.lower()
    (folder / "files").mkdir(parents=True)
    (folder / "case.yaml").write_text(CASE.format(name=name, more=more, timeout=timeout))
    (folder / "verify.py").write_text(verifier)
    (folder / "files" / "calc.py").write_text(FILE)
    return folder
