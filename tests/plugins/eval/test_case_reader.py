"""Cases are read strictly: a mistake is reported with the file and the key."""

import json
from pathlib import Path

import attrs
import pytest
from hilum import UsageError
from hilum_eval.case import Case, Edit, Read, Run, Say, Together
from hilum_eval.case_reader import compute_digest, read_case, read_suite
from hilum_eval.converter import structure, unstructure

CASE = """\
id: X01
title: Rename a function
dimensions: [edits, tools]
expected_turns: 3
turns:
  - prompt: Rename add to plus in calc.py.
    steps:
      - read: calc.py
      - edit: {path: calc.py, old: def add, new: def plus, slip: wrong_old_string}
      - together:
          - read: {path: calc.py, first: 1, last: 5}
          - run: {command: python calc.py, fails: true}
      - say: Done.
decisions:
  - {when: rm, answer: reject, reason: too dangerous}
thresholds: {efficiency: 4}
"""


def write_case(folder: Path, text: str = CASE, *, name: str = "x01") -> Path:
    case = folder / name
    (case / "files").mkdir(parents=True)
    (case / "case.yaml").write_text(text)
    (case / "verify.py").write_text("print('{}')\n")
    (case / "files" / "calc.py").write_text("def add(a, b):\n    return a + b\n")
    return case


def test_a_case_is_read_with_its_steps(tmp_path):
    case = read_case(write_case(tmp_path))
    assert case.folder == (tmp_path / "x01").resolve()
    assert case.turns[0].steps == (
        Read(path="calc.py"),
        Edit(path="calc.py", old="def add", new="def plus", slip="wrong_old_string"),
        Together(
            steps=(
                Read(path="calc.py", first=1, last=5),
                Run(command="python calc.py", fails=True),
            )
        ),
        Say(text="Done."),
    )
    assert case.thresholds.efficiency == 4.0
    assert case.decisions[0].reason == "too dangerous"


def test_a_case_survives_json(tmp_path):
    """Workers get cases as JSON."""
    case = read_case(write_case(tmp_path))
    assert structure(json.loads(json.dumps(unstructure(case))), Case, "job") == case


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("title: Rename a function", "titel: Rename", "unknown key 'titel'"),
        ("title: Rename a function", "title: 5", "title: must be text, not 5"),
        ("title: Rename a function\n", "", "the key 'title' is missing"),
        ("- read: calc.py", "- reed: calc.py", "turns[0].steps[0]: unknown step 'reed'"),
        ("- read: calc.py", "- read: {file: a}", "turns[0].steps[0]: unknown key 'file'"),
        ("- say: Done.", "- run: make", "turns[0].steps: the last step must be `say`"),
        ("slip: wrong_old_string", "slip: wrong", "turns[0].steps[1].slip"),
        ("[edits, tools]", "[edits, tool]", "dimensions[1]"),
        ("[edits, tools]", "edits", "dimensions: must be a list, not 'edits'"),
        ("expected_turns: 3", "expected_turns: three", "expected_turns: must be a whole number"),
        ("expected_turns: 3", "expected_turns: true", "expected_turns: must be a whole number"),
        ("expected_turns: 3", "expected_turns: 0", "expected_turns: 0 must be at least 1"),
        ("expected_turns: 3", "folder: /tmp\nexpected_turns: 3", "unknown key 'folder'"),
        ("expected_turns: 3", "timeout: -1\nexpected_turns: 3", "timeout: must be a number"),
        ("expected_turns: 3", "timeout: .nan\nexpected_turns: 3", "timeout: must be a number"),
        ("id: X01", "id: ../up", "id: '../up' must consist of"),
        ("id: X01", "id: X01\nid: X02", "the key 'id' occurs twice"),
        ("id: X01", "id: [", "is not valid YAML"),
        ("{efficiency: 4}", "[4]", "thresholds: must be a mapping"),
        ("turns:\n", "rounds:\n", "the key 'turns' is missing"),
        ("{when: rm,", "{when: 'rm(',", "decisions[0].when: is no regular expression"),
    ],
)
def test_mistakes_are_named(tmp_path, old, new, problem):
    assert old in CASE
    folder = write_case(tmp_path, CASE.replace(old, new))
    with pytest.raises(UsageError) as caught:
        read_case(folder)
    assert caught.value.code == "E_BAD_ARGS"
    assert caught.value.message.startswith(str(folder / "case.yaml"))
    assert problem in caught.value.message


def test_a_suite_needs_cases_with_different_ids(tmp_path):
    with pytest.raises(UsageError, match="contains no case"):
        read_suite(tmp_path)
    with pytest.raises(UsageError, match="There is no folder"):
        read_suite(tmp_path / "missing")
    write_case(tmp_path)
    write_case(tmp_path, CASE.replace("X01", "A00"), name="x02")
    assert [case.id for case in read_suite(tmp_path)] == ["A00", "X01"]
    write_case(tmp_path, name="x03")
    with pytest.raises(UsageError, match="is also the id of"):
        read_suite(tmp_path)


def test_the_digest_changes_with_every_file_of_the_case(tmp_path):
    case = read_case(write_case(tmp_path))
    before = compute_digest(case)
    assert compute_digest(attrs.evolve(case, title="other")) == before
    (case.folder / "misses").mkdir()
    (case.folder / "misses" / "a.patch").write_text("x")
    assert compute_digest(case) == before
    (case.folder / "files" / "calc.py").write_text("changed")
    changed = compute_digest(case)
    assert changed != before
    (case.folder / "files" / "calc.py").chmod(0o755)
    assert compute_digest(case) != changed


def test_a_case_without_a_verifier_is_refused(tmp_path):
    folder = write_case(tmp_path)
    (folder / "verify.py").unlink()
    with pytest.raises(UsageError, match=r"verify: neither this command nor the file verify\.py"):
        read_case(folder)
