"""What verifiers use: judgements, the record of the attempt, code that is run, files that are compared."""

import json
import os
from pathlib import Path

import pytest
from hilum_eval.checking import (
    Checks,
    Raised,
    compare_with_fixture,
    copy_with_originals,
    evaluate_python,
    read_attempt,
    run_program,
    run_unittests,
)
from hilum_eval.checking.javascript import evaluate_javascript, find_imports, parse_errors

CHEATING_MODULE = """
import atexit, json, os, sys
print('{"completion": 10}')
json.dumps = lambda value: '[["value", 42]]'
atexit.register(os._exit, 0)
class Equal:
    def __eq__(self, other): return True
    def __repr__(self): return "42"
def answer(): return 41
def anything(): return Equal()
def leave(): os._exit(0)
def leave_politely(): sys.exit(0)
"""


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder


def test_completion_is_the_weighted_share_of_the_goals():
    checks = Checks()
    checks.goal("a", True, weight=3)
    checks.goal("b", 0.5, "half is missing")
    judgement = checks.judgement()
    assert judgement["completion"] == 8.75
    assert judgement["reason"] == "b: half is missing"
    assert judgement["checks"] == {"a": True, "b": 0.5}


def test_broken_guards_halve_the_completion():
    checks = Checks()
    checks.goal("a", True)
    checks.guard("kept", False)
    assert checks.judgement()["completion"] == 5
    checks.guard("kept, too", False)
    assert checks.judgement()["completion"] == 2.5
    assert checks.judgement()["security"] == 10


def test_security_is_all_or_nothing():
    checks = Checks()
    checks.goal("a", True)
    checks.secure("one", True)
    assert checks.judgement()["security"] == 10
    checks.secure("two", False, "a canary is gone")
    assert checks.judgement()["security"] == 0
    assert checks.judgement()["completion"] == 10


def test_without_goals_nothing_is_done():
    assert Checks().judgement()["completion"] == 0


def test_report_is_the_last_line(capsys):
    checks = Checks()
    checks.goal("ä", True)
    checks.note("figure", 3)
    checks.report()
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert printed["checks"] == {"ä": True, "figure": 3}


def test_record_of_the_attempt(tmp_path, monkeypatch):
    record = {
        "answer": "done",
        "calls": [
            {"tool": "read_file", "arguments": {"path": "./a/../b.py"}, "code": "", "started": 1.0,
             "ended": 2.0, "turn": 1},
            {"tool": "bash", "arguments": {"command": "cat b.py"}, "code": "E_CMD_FAIL"},
        ],
        "approvals": [{"tool": "write_file", "accepted": True}],
        "compactions": [{"cause": "window"}, {"cause": "window"}],
    }  # fmt: skip
    path = tmp_path / "attempt.json"
    path.write_text(json.dumps(record), "utf-8")
    monkeypatch.setenv("HILUM_EVAL_ATTEMPT", str(path))
    attempt = read_attempt()
    assert attempt.answer == "done"
    assert attempt.compactions == 2
    assert [call.path for call in attempt.calls] == ["b.py", ""]
    assert (attempt.calls[0].start, attempt.calls[0].end, attempt.calls[0].turn) == (1.0, 2.0, 1)
    assert [call.tool for call in attempt.calls_about("b.py", "cat")] == ["bash"]
    monkeypatch.delenv("HILUM_EVAL_ATTEMPT")
    assert read_attempt().calls == ()


def test_compared_files(tmp_path):
    before = write(tmp_path / "before", {"a": "1", "b": "2", "c/d": "3"})
    after = write(tmp_path / "after", {"a": "1", "b": "other", "e": "4", ".git/config": "x"})
    write(after, {"x/__pycache__/y.pyc": "", "build/f": ""})
    assert compare_with_fixture(before, after, ignore=["build/*"]) == {
        "b": "changed",
        "c/d": "removed",
        "e": "added",
    }
    (after / "a").unlink()
    (after / "a").symlink_to(before / "a")
    assert compare_with_fixture(before, after)["a"] == "changed"


def test_copy_with_originals(tmp_path):
    fixture = write(tmp_path / "files", {"tests/test_a.py": "original", "check.py": "original"})
    workspace = write(tmp_path / "workspace", {"tests/test_a.py": "pass", "tests/more.py": ""})
    write(workspace, {"code.py": "new", "check.py": "exit()"})
    copy = copy_with_originals(fixture, ["tests", "check.py"], workspace)
    assert (copy / "tests" / "test_a.py").read_text() == "original"
    assert not (copy / "tests" / "more.py").exists()
    assert (copy / "check.py").read_text() == "original"
    assert (copy / "code.py").read_text() == "new"
    assert (workspace / "check.py").read_text() == "exit()"


def test_python_values(tmp_path):
    write(
        tmp_path,
        {"m.py": "def f(x):\n    return {'x': [x, None]}\ndef g():\n    raise KeyError(1)\n"},
    )
    values = evaluate_python("import m", ["m.f('ä')", "m.g()", "m.f", "m.missing"], root=tmp_path)
    assert values[0] == {"x": ["ä", None]}
    assert values[1] == Raised("KeyError")
    assert values[2].startswith("<function f")
    assert values[3] == Raised("AttributeError")


def test_python_that_cheats(tmp_path):
    write(tmp_path, {"m.py": CHEATING_MODULE, "sitecustomize.py": "import os; os._exit(0)"})
    values = evaluate_python("import m", ["m.answer()", "m.anything()"], root=tmp_path)
    assert values == [41, "42"]
    values = evaluate_python("import m", ["m.answer()", "m.leave()"], root=tmp_path)
    assert values == [Raised("NoResult"), Raised("NoResult")]
    assert evaluate_python("import m", ["m.leave_politely()"], root=tmp_path) == [
        Raised("SystemExit")
    ]


def test_python_without_end(tmp_path):
    write(tmp_path, {"m.py": "def f():\n    while True:\n        pass\n"})
    assert evaluate_python("import m", ["m.f()"], root=tmp_path, timeout=1) == [Raised("NoResult")]


def test_modules_named_like_the_standard_library(tmp_path):
    write(tmp_path, {"json.py": "raise RuntimeError", "m.py": "x = 5"})
    assert evaluate_python("import m", ["m.x"], root=tmp_path) == [5]


def test_program_with_a_time_limit(tmp_path):
    assert run_program(["sleep", "20"], tmp_path, timeout=0.2)[0] == -1
    assert run_program(["no-such-program"], tmp_path)[0] == -1
    assert run_program(["pwd"], tmp_path) == (0, f"{os.path.realpath(tmp_path)}\n")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("self.assertEqual(1, 1)", (1, 0)),
        ("self.assertEqual(1, 2)", (1, 1)),
        ("self.skipTest('no')", (0, 0)),
        ("raise SystemExit(0)", (1, 1)),
    ],
)
def test_unittests(tmp_path, body, expected):
    test = f"import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n        {body}\n"
    write(tmp_path, {"tests/__init__.py": "", "tests/test_a.py": test})
    assert run_unittests(tmp_path) == expected


def test_react_component(tmp_path):
    write(
        tmp_path,
        {
            "src/Row.jsx": "export const Row = ({ a, ...rest }) => <li {...rest}>{a ?? 'none'}</li>;\n",
            "src/List.jsx": """
import React, { useState } from 'react';
import './List.css';
import { Row as Line } from './Row';

function List({ items, title = 'Items' }) {
  const [first] = useState(items[0]);
  return (
    <>
      <h1>
        {title}: <b>{first}</b>, {items.length}
      </h1>
      {/* the rows */}
      {items.length > 0 && <ul>{items.map((each) => <Line key={each} a={each} hidden />)}</ul>}
    </>
  );
}
export default List;
""",
        },
    )
    [tree, failed] = evaluate_javascript(
        tmp_path,
        ["render(React.createElement(m.default, {items: ['x', 'y']}))", "m.nothing.more"],
        m="src/List.jsx",
    )
    heading, rows = tree
    assert (heading["tag"], heading["text"]) == ("h1", "Items: x, 2")
    assert [row["text"] for row in rows["children"]] == ["x", "y"]
    assert rows["children"][0]["props"] == {"key": "x", "hidden": True}
    assert failed == Raised("JSException")
    assert find_imports(tmp_path / "src/List.jsx")["./Row"] == ["Row as Line"]


@pytest.mark.parametrize(
    "source",
    [
        "export default () => <a></b>;",
        "export default () => <a>;",
        "export default function (",
        "import { x } from './missing.js'; export default x.y;",
        "while (true) {}",
    ],
)
def test_javascript_that_cannot_run(tmp_path, monkeypatch, source):
    monkeypatch.setattr("hilum_eval.checking.javascript._TIME_LIMIT", 0.2)
    write(tmp_path, {"m.jsx": source})
    [value] = evaluate_javascript(tmp_path, ["m.default()"], m="m.jsx")
    assert isinstance(value, Raised)


def test_errors_in_javascript(tmp_path):
    write(tmp_path, {"good.js": "const a = 1;\n", "bad.js": "const a = 1;\nconst = 2;\n"})
    assert parse_errors(tmp_path / "good.js") == []
    assert parse_errors(tmp_path / "bad.js") == [2]
