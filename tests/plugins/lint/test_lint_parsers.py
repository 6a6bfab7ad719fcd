"""What checkers print, of several versions, and files as they were before an edit."""

import itertools
import json
import random

import pytest
from hilum import Completed, Workspace
from hilum_files.text import unified_diff
from hilum_lint import parsers
from hilum_lint.checkers import CHECKERS
from hilum_lint.diagnostics import (
    Diagnostic,
    count_by_key,
    find_new,
    format_diagnostics,
    to_one_line,
)
from hilum_lint.diffs import find_written_lines, revert_diff
from hilum_lint.edits import Edit
from hilum_lint.parsers import Finding
from hilum_lint.project import CheckerUse
from hilum_lint.running import _read

RUFF = {"filename": "/p/a.py", "location": {"row": 2, "column": 3}, "message": "m"}
PYRIGHT = {
    "version": "1.1", "summary": {},
    "generalDiagnostics": [
        {
            "file": "/p/a.py", "severity": "error", "message": "m\n  more", "rule": "reportCallIssue",
            "range": {"start": {"line": 0, "character": 4}, "end": {"line": 0, "character": 5}},
        },
        {"file": "/p/b.py", "severity": "information", "message": "n"},
    ],
}  # fmt: skip
PYLINT = {
    "type": "convention",
    "path": "a.py",
    "line": 1,
    "column": 0,
    "symbol": "missing-docstring",
    "message": "m",
}
SHELLCHECK = {
    "file": "s.sh",
    "line": 2,
    "column": 6,
    "level": "style",
    "code": 2086,
    "message": "m",
}
CARGO = {
    "reason": "compiler-message",
    "message": {
        "message": "m", "level": "warning", "code": None,
        "spans": [
            {"file_name": "src/b.rs", "line_start": 1, "column_start": 1, "is_primary": False},
            {"file_name": "src/a.rs", "line_start": 7, "column_start": 8, "is_primary": True},
        ],
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("parse", "stdout", "found"),
    [
        (parsers.parse_ruff, json.dumps(RUFF | {"code": "E501"}), [("/p/a.py", 2, 3, "warning", "E501", "m")]),
        (parsers.parse_ruff, json.dumps(RUFF | {"code": "F821"}), [("/p/a.py", 2, 3, "error", "F821", "m")]),
        (parsers.parse_ruff, json.dumps(RUFF | {"code": None}), [("/p/a.py", 2, 3, "error", "invalid-syntax", "m")]),
        (parsers.parse_ruff, "", []),
        (
            parsers.parse_pyright, json.dumps(PYRIGHT),
            [("/p/a.py", 1, 5, "error", "reportCallIssue", "m\n  more"), ("/p/b.py", 0, 0, "info", "", "n")],
        ),
        (parsers.parse_pylint, json.dumps([PYLINT]), [("a.py", 1, 1, "info", "missing-docstring", "m")]),
        (parsers.parse_pylint, "", []),
        (parsers.parse_shellcheck, json.dumps([SHELLCHECK]), [("s.sh", 2, 6, "info", "SC2086", "m")]),
        (parsers.parse_cargo, json.dumps(CARGO) + '\n{"reason":"build-finished"}\n', [("src/a.rs", 7, 8, "warning", "", "m")]),
        (parsers.parse_mypy, "a.py:2: error: No column  [x-y]", [("a.py", 2, 0, "error", "x-y", "No column")]),
        (parsers.parse_mypy, "C:/a b.py:2:3: note: Say [it]", [("C:/a b.py", 2, 3, "info", "", "Say [it]")]),
        (parsers.parse_mypy, "Success: no issues found in 1 source file", []),
        (parsers.parse_flake8, "./a.py:1:2: E999 SyntaxError: no", [("./a.py", 1, 2, "error", "E999", "SyntaxError: no")]),
        (parsers.parse_tsc, "a(b).ts(1,2): error TS23: m\n  more", [("a(b).ts", 1, 2, "error", "TS23", "m")]),
        (parsers.parse_go_vet, "# pkg\n./a.go:3:4: m: n\n", [("./a.go", 3, 4, "error", "", "m: n")]),
        (parsers.parse_go_vet, "vet: ./a.go:3:4: expected ;", [("./a.go", 3, 4, "error", "", "expected ;")]),
    ],
)  # fmt: skip
def test_formats(parse, stdout, found) -> None:
    """Each becomes the same form."""
    assert [tuple(each) for each in parse(stdout, "")] == [tuple(Finding(*each)) for each in found]


def spoiled(value, chance):
    """Copy plain data with one part replaced by something odd, or left out."""
    if chance.random() < 0.2 or not isinstance(value, dict | list) or not value:
        return chance.choice(
            [None, -1, 1e300, "x" * 5, "\0", "../../..", [], {}, [[]], True, "9" * 5000]
        )
    if isinstance(value, list):
        return [spoiled(each, chance) for each in value]
    key = chance.choice(list(value))
    rest = {name: each for name, each in value.items() if name != key}
    return rest if chance.random() < 0.2 else rest | {key: spoiled(value[key], chance)}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ruff", RUFF | {"code": "F821"}),
        ("pyright", PYRIGHT),
        ("pylint", [PYLINT]),
        ("shellcheck", [SHELLCHECK]),
        ("cargo check", CARGO),
    ],
)
def test_whatever_a_checker_says_it_gives_diagnostics_or_a_problem(name, said, tmp_path) -> None:
    """Never an error, and nothing that cannot be sorted and written down."""
    chance = random.Random(name)
    (checker,) = [each for each in CHECKERS if each.name == name]
    use, workspace = CheckerUse(checker, tmp_path, ""), Workspace(tmp_path)
    for _ in range(300):
        outcome = _read(
            use,
            Completed(1, json.dumps(spoiled(said, chance)).encode(), b"", 0.1, 0),
            workspace,
            [],
        )
        assert outcome.problem or format_diagnostics(outcome.found, 5) or not outcome.found


def test_go_vet_speaks_on_standard_error() -> None:
    """Both are read."""
    assert [each.line for each in parsers.parse_go_vet("", "./a.go:3:4: m")] == [3]


def test_an_edit_is_taken_back_exactly() -> None:
    """Random texts, with and without an end of the last line, empty ones and odd characters among
    them.
    """
    chance = random.Random(4)
    pieces = ["a", "b", "", " ", "-x", "+y", "@@ -1 +1 @@", "\\ No newline", "ü\r", "\x0c"]

    def text() -> str:
        return "\n".join(chance.choices(pieces, k=chance.randrange(30))) + "\n" * chance.randrange(
            2
        )

    compared = 0
    for _ in range(500):
        before = text()
        lines = before.split("\n")
        for _ in range(chance.randrange(4)):
            lines[chance.randrange(len(lines)) :][:1] = chance.choices(
                pieces, k=chance.randrange(3)
            )
            at = chance.randrange(len(lines) + 1)
            lines[at : at + chance.randrange(3)] = chance.choices(pieces, k=chance.randrange(3))
            lines = lines or [""]
        after = "\n".join(lines)
        if before and before != after:
            compared += 1
            assert revert_diff(after, unified_diff("a", before, after)) == before
    assert compared > 200


def test_edits_of_a_round_are_taken_back_in_whatever_order_they_ran(tmp_path) -> None:
    """Calls run at the same time; their results stand in the order of the calls."""
    texts = ["one\ntwo\nthree\n", "one\nzwei\nthree\n", "eins\nzwei\nthree\n", "eins\nzwei\ndrei\n"]
    diffs = [unified_diff("a", before, after) for before, after in itertools.pairwise(texts)]
    for order in itertools.permutations(diffs):
        assert Edit(tmp_path, list(order)).before(texts[-1]) == texts[0]
    assert Edit(tmp_path, [*diffs, ""]).before(texts[-1]) is None


def test_a_diff_that_does_not_fit_is_no_diff() -> None:
    """The file has changed again since."""
    diff = unified_diff("a", "one\ntwo\n", "one\nzwei\n")
    assert revert_diff("one\ndrei\n", diff) is None
    assert revert_diff("", diff) is None


def test_changed_lines_are_those_written() -> None:
    """With their numbers after the edit."""
    assert find_written_lines(unified_diff("a", "1\n2\n3\n", "0\n1\nzwei\n3\n")) == {1, 3}
    assert find_written_lines(unified_diff("a", "1\n2\n", "1\n")) == set()


def diagnostic(line: int, message: str = "m", severity: str = "error") -> Diagnostic:
    return Diagnostic("a.py", line, 1, severity, "E1", message, "x")


def test_two_of_a_kind_are_two() -> None:
    """One more of what was there is one new."""
    before = count_by_key([diagnostic(1), diagnostic(5, "see line 3")])
    after = [diagnostic(2), diagnostic(7, "see line 4"), diagnostic(9)]
    assert find_new(after, before) == [after[2]]


def test_a_cut_list_says_what_is_left_out() -> None:
    """Errors are listed first; the rest is counted."""
    text = format_diagnostics([diagnostic(3, severity="warning"), diagnostic(2), diagnostic(1)], 2)
    assert text.split("\n")[:2] == ["a.py:1:1 error E1 m (x)", "a.py:2:1 error E1 m (x)"]
    assert "1 more are not shown: 1 warning in 1 file; read_lints" in text


def test_one_line() -> None:
    """Line ends, escapes and direction marks become spaces; what is long is cut."""
    assert to_one_line(" a\n\tb\x1b[1m\u202ec\u2028 ") == "a b [1m c"
    assert len(to_one_line("x" * 1000)) == 300
