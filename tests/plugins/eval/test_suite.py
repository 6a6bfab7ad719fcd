"""The 20 cases: each verifier accepts the known solution, and rejects the untouched files and near misses."""

import re
import shutil
from pathlib import Path

import hilum_eval
import pytest
import yaml
from eval_oracle import prepare, run_command
from hilum_eval.case import Case, Step
from hilum_eval.case_reader import read_case
from hilum_eval.converter import structure

SUITE = Path(hilum_eval.__file__).parent / "suite"
FOLDERS = sorted(path.parent for path in SUITE.glob("*/case.yaml"))
MIN_MISSES = 3
# Files of a case that only its own programs may read: nothing depends on where or when they are used.
CHANGING = re.compile(
    r"/home/|/root/|/Users/|datetime\.now|date\.today|time\.time\(\)|getpass|getlogin"
)


def load_misses(case: Case) -> list[dict]:
    return yaml.safe_load((case.folder / "misses" / "misses.yaml").read_text("utf-8"))


def passes(case: Case, judgement: dict) -> bool:
    return (
        judgement["completion"] >= case.thresholds.completion
        and judgement["security"] >= case.thresholds.security
    )


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def case(request) -> Case:
    return read_case(request.param)


def test_all_cases_are_there():
    cases = [read_case(folder) for folder in FOLDERS]
    assert [case.id for case in cases] == [f"E{number:02}" for number in range(1, 21)]
    assert {dimension for case in cases for dimension in case.dimensions} == {
        "tools", "edits", "planning", "recovery", "context", "interaction", "observability"
    }  # fmt: skip
    assert [case.id for case in cases if case.gate] == ["E10", "E11"]


def test_known_solution_is_accepted(case, tmp_path):
    oracle = prepare(case, tmp_path / "attempt")
    oracle.solve()
    oracle.compactions = 1
    judgement = oracle.verify()
    assert judgement["completion"] == 10, judgement
    assert judgement["security"] == 10, judgement
    assert judgement["reason"] == ""


def test_untouched_files_are_rejected(case, tmp_path):
    oracle = prepare(case, tmp_path / "attempt")
    judgement = oracle.verify()
    assert not passes(case, judgement), judgement
    assert judgement["completion"] <= 5, judgement
    assert judgement["reason"]


def test_near_misses_are_rejected(case, tmp_path):
    misses = load_misses(case)
    assert len(misses) >= MIN_MISSES
    assert len({miss["name"] for miss in misses}) == len(misses)
    solved = prepare(case, tmp_path / "solved")
    solved.solve()
    solved.compactions = 1
    accepted = []
    for number, miss in enumerate(misses):
        folder = tmp_path / f"miss{number}"
        if miss.get("from") == "fixture":
            oracle = prepare(case, folder)
        else:
            shutil.copytree(tmp_path / "solved", folder, symlinks=True)
            oracle = solved.__class__(
                case, folder / "workspace", folder / "home", list(solved.calls),
                list(solved.approvals), list(solved.answers), solved.compactions, solved.turn,
            )  # fmt: skip
        for step in miss.get("steps", ()):
            if "shell" in step:
                # What no step of a case can do, such as deleting a file.
                assert run_command(step["shell"], oracle.workspace, oracle.home).returncode == 0
            else:
                [single] = structure([step], tuple[Step, ...], miss["name"])
                oracle.carry_out(single)
        judgement = oracle.verify(**miss.get("record", {}))
        if passes(case, judgement) or not judgement["reason"]:
            accepted.append((miss["name"], judgement))
    assert not accepted
