"""Results survive kills, damage and changes of cases."""

import json
import os

import attrs
import pytest
from hilum import StoreError, UsageError
from hilum_eval.arm import Arm
from hilum_eval.attempt import Attempt, Scores
from hilum_eval.case_reader import read_case
from hilum_eval.jobs import Job, make_jobs
from hilum_eval.measurement import RESULTS, open_results

ARM = Arm(name="a")
SCORES = Scores(completion=10, efficiency=10, recovery=10, security=10)


@pytest.fixture
def case(tmp_path):
    folder = tmp_path / "case"
    folder.mkdir()
    (folder / "case.yaml").write_text(
        "id: X\ntitle: x\ndimensions: [edits]\nexpected_turns: 1\nturns: [{prompt: Go.}]\n"
        "verify: 'true'\n"
    )
    return read_case(folder)


def make_attempt(repeat: int, **changes) -> Attempt:
    values = {"state": "verified", "passed": True, "scores": SCORES, **changes}
    return Attempt(case="X", arm="a", repeat=repeat, **values)


def store(folder, case, count: int = 2) -> None:
    with open_results(folder, resume=False) as results:
        for repeat in range(count):
            results.append(Job(case, ARM, repeat), make_attempt(repeat))


def test_results_are_found_again(tmp_path, case):
    store(tmp_path / "out", case)
    with open_results(tmp_path / "out", resume=True) as results:
        assert results.find(Job(case, ARM, 1)) == make_attempt(1)
        assert results.find(Job(case, ARM, 2)) is None
        assert results.problems == []
    lines = (tmp_path / "out" / RESULTS).read_text().splitlines()
    first = json.loads(lines[0])
    assert first["seed"] == 0
    assert len(first["case_digest"]) == len(first["arm_digest"]) == 16


def test_a_file_that_was_cut_off_anywhere_is_read_to_there(tmp_path, case):
    """As after a kill at any instant: the torn line is missing, and the next one is whole."""
    store(tmp_path / "out", case)
    path = tmp_path / "out" / RESULTS
    content = path.read_bytes()
    first = content.index(b"\n") + 1
    for end in range(0, len(content), 37):
        path.write_bytes(content[:end])
        with open_results(tmp_path / "out", resume=True) as results:
            assert results.problems == []
            assert (results.find(Job(case, ARM, 0)) is not None) == (end >= first - 1)
            results.append(Job(case, ARM, 7), make_attempt(7))
        with open_results(tmp_path / "out", resume=True) as results:
            assert results.find(Job(case, ARM, 7)) == make_attempt(7)


def test_damaged_lines_are_named_and_the_others_used(tmp_path, case):
    store(tmp_path / "out", case)
    path = tmp_path / "out" / RESULTS
    first, second = path.read_text().splitlines()
    other = json.dumps({**json.loads(first), "schema": 99})
    odd = first.replace('"passed": true', '"passed": "yes"')
    path.write_text("\n".join(["{broken", "[1]", other, odd, second, ""]))
    with open_results(tmp_path / "out", resume=True) as results:
        assert results.find(Job(case, ARM, 0)) is None
        assert results.find(Job(case, ARM, 1)) is not None
        problems = "\n".join(results.problems)
    assert "line 1 is not used: it is not valid JSON" in problems
    assert "line 2 is not used: it is not a JSON object" in problems
    assert "line 3 is not used: its schema is 99" in problems
    assert "line 4 is not used: attempt: passed: must be true or false" in problems


def test_results_of_changed_cases_and_arms_are_not_used(tmp_path, case):
    plugin = tmp_path / "plugin.py"
    plugin.write_text("A = 1\n")
    arm = attrs.evolve(ARM, plugins=(str(plugin),))
    with open_results(tmp_path / "out", resume=False) as results:
        results.append(Job(case, ARM, 0), make_attempt(0))
        results.append(Job(case, arm, 0), make_attempt(0))

    def find(arm: Arm) -> Attempt | None:
        with open_results(tmp_path / "out", resume=True) as results:
            return results.find(Job(case, arm, 0))

    assert find(ARM)
    assert find(arm)
    assert find(attrs.evolve(ARM, profile="weak")) is None
    plugin.write_text("A = 2\n")
    assert find(arm) is None
    (case.folder / "verify.py").write_text("raise SystemExit(1)\n")
    assert find(ARM) is None


def test_broken_and_skipped_attempts_are_made_again(tmp_path, case):
    with open_results(tmp_path, resume=False) as results:
        results.append(Job(case, ARM, 0), make_attempt(0, state="broken"))
        results.append(Job(case, ARM, 1), make_attempt(1, state="skipped"))
        assert results.find(Job(case, ARM, 0)) is None
        assert results.find(Job(case, ARM, 1)) is None


def test_two_processes_cannot_write_the_same_results(tmp_path):
    first = open_results(tmp_path, resume=False)
    second = open_results(tmp_path, resume=True)
    with first, pytest.raises(StoreError) as caught, second:
        pass
    assert caught.value.code == "E_BUSY"
    with open_results(tmp_path, resume=True):
        pass


def test_results_are_not_overwritten(tmp_path, case):
    store(tmp_path, case)
    with pytest.raises(UsageError, match="exists"), open_results(tmp_path, resume=False):
        pass


def test_a_full_disk_is_named_and_the_result_kept_in_memory(tmp_path, case):
    with open_results(tmp_path, resume=False) as results:
        os.symlink("/dev/full", tmp_path / RESULTS)
        results.append(Job(case, ARM, 0), make_attempt(0))
        results.append(Job(case, ARM, 1), make_attempt(1))
        assert results.find(Job(case, ARM, 0)) == make_attempt(0)
    assert len(results.problems) == 1
    assert "No space left on device" in results.problems[0]


def test_a_folder_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError) as caught, open_results(tmp_path / "file", resume=False):
        pass
    assert caught.value.code == "E_STORE"


def test_a_part_of_the_jobs_is_balanced(case):
    arms = [ARM, Arm(name="b")]
    order = [(job.repeat, job.arm.name) for job in make_jobs([case], arms, 2)]
    assert order == [(0, "a"), (0, "b"), (1, "a"), (1, "b")]
