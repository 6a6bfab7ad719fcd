"""The 20 cases: each verifier accepts the known solution, and rejects the untouched files and near misses."""

import re
from collections.abc import Callable
from pathlib import Path

import hilum_eval
import pytest
import yaml
from eval_oracle import Oracle, prepare, run_command
from hilum_eval.case import WEIGHTS, Case, Step
from hilum_eval.case_reader import read_case
from hilum_eval.checking import compare_with_fixture
from hilum_eval.converter import structure

SUITE = Path(hilum_eval.__file__).parent / "suite"
FOLDERS = sorted(path.parent for path in SUITE.glob("*/case.yaml"))
MIN_MISSES = 3
# What would make a case depend on where, when or by whom it is used.
CHANGING = re.compile(
    r"/home/|/root/|/Users/|datetime\.now|date\.today|time\.time\(\)|getpass|getlogin"
)


def passes(case: Case, judgement: dict) -> bool:
    return (
        judgement["completion"] >= case.thresholds.completion
        and judgement["security"] >= case.thresholds.security
    )


def load_misses(folder: Path) -> list[dict]:
    return yaml.safe_load((folder / "misses" / "misses.yaml").read_text("utf-8"))


def load_alternatives(folder: Path) -> list[dict]:
    path = folder / "misses" / "alternatives.yaml"
    return yaml.safe_load(path.read_text("utf-8")) if path.is_file() else []


def make_parameters(load: Callable[[Path], list[dict]]) -> list:
    return [
        pytest.param(folder, each, id=f"{folder.name}-{each['name']}")
        for folder in FOLDERS
        for each in load(folder)
    ]


def carry_out(oracle: Oracle, steps: list[dict]) -> None:
    for step in steps:
        if "shell" in step:
            # What no step of a case can do, such as deleting a file.
            done = run_command(step["shell"], oracle.workspace, oracle.home)
            assert done.returncode == 0, done.stdout
        else:
            [single] = structure([step], tuple[Step, ...], oracle.case.id)
            oracle.carry_out(single)


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def case(request) -> Case:
    return read_case(request.param)


@pytest.fixture(scope="session")
def solve(tmp_path_factory):
    """A function that returns a solved case; each case is solved only once."""
    solved: dict[str, Oracle] = {}

    def solve(case: Case) -> Oracle:
        if case.id not in solved:
            oracle = prepare(case, tmp_path_factory.mktemp(case.id) / "attempt")
            oracle.solve()
            solved[case.id] = oracle
        return solved[case.id]

    return solve


def test_all_cases_are_there():
    cases = [read_case(folder) for folder in FOLDERS]
    assert [case.id for case in cases] == [f"E{number:02}" for number in range(1, 21)]
    assert {dimension for case in cases for dimension in case.dimensions} == set(WEIGHTS)
    assert [case.id for case in cases if case.gate] == ["E10", "E11"]


def test_prompts_name_no_tools():
    names = re.compile(
        r"\b(read_file|write_file|edit_file|search_files|run_terminal_cmd|list_dir)\b"
    )
    for folder in FOLDERS:
        for turn in read_case(folder).turns:
            assert not names.search(turn.prompt), folder.name


def test_nothing_depends_on_the_place_the_date_or_the_user():
    for folder in FOLDERS:
        for path in folder.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert not CHANGING.search(path.read_text("utf-8")), path


def test_every_case_has_near_misses():
    for folder in FOLDERS:
        names = [miss["name"] for miss in load_misses(folder)]
        assert len(names) >= MIN_MISSES
        assert len(set(names)) == len(names)


@pytest.mark.slow(cases=2)
def test_known_solution_is_accepted(case, solve):
    judgement = solve(case).verify()
    assert judgement["completion"] == 10, judgement
    assert judgement["security"] == 10, judgement
    assert judgement["reason"] == ""


@pytest.mark.slow(cases=1)
def test_untouched_files_are_rejected(case, tmp_path):
    judgement = prepare(case, tmp_path / "attempt").verify()
    assert not passes(case, judgement), judgement
    assert judgement["completion"] <= 5, judgement
    assert judgement["reason"]


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize(("folder", "miss"), make_parameters(load_misses))
def test_near_miss_is_rejected(folder, miss, solve, tmp_path):
    case = read_case(folder)
    if miss.get("from") == "fixture":
        oracle = prepare(case, tmp_path / "attempt")
    else:
        oracle = solve(case).copy(tmp_path / "attempt")
    carry_out(oracle, miss.get("steps", []))
    judgement = oracle.verify(**miss.get("record", {}))
    assert not passes(case, judgement), judgement
    assert judgement["reason"]


@pytest.mark.slow(cases=3)
@pytest.mark.parametrize(("folder", "alternative"), make_parameters(load_alternatives))
def test_other_solution_is_accepted(folder, alternative, tmp_path):
    case = read_case(folder)
    oracle = prepare(case, tmp_path / "attempt")
    carry_out(oracle, alternative["steps"])
    judgement = oracle.verify()
    assert judgement["completion"] == 10, judgement
    assert passes(case, judgement)


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("folder", [each for each in FOLDERS if read_case(each).setup])
def test_workspaces_are_the_same_everywhere(folder, tmp_path):
    case = read_case(folder)
    first = prepare(case, tmp_path / "first")
    second = prepare(case, tmp_path / "another folder")
    assert compare_with_fixture(first.workspace, second.workspace) == {}
