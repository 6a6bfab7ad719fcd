"""Instances of SWE-bench, with small real repositories."""

import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import trio
from hilum import UsageError
from hilum_eval.case_reader import read_suite
from hilum_eval.eval_command import main
from hilum_eval.formats.swebench import convert, find_bad_path, read_instances

pytestmark = pytest.mark.slow(cases=4, of="file")

PATCH = """\
diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a + b
"""
TEST_PATCH = """\
diff --git a/tests/test_calc.py b/tests/test_calc.py
--- a/tests/test_calc.py
+++ b/tests/test_calc.py
@@ -3,3 +3,7 @@ from calc import add

 def test_zero():
     assert add(0, 0) == 0
+
+
+def test_sum():
+    assert add(2, 3) == 5
"""
TESTS = "from calc import add\n\n\ndef test_zero():\n    assert add(0, 0) == 0\n"


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", *arguments]
    return subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repos(tmp_path: Path) -> Path:
    clone = tmp_path / "repos" / "acme__calc"
    (clone / "tests").mkdir(parents=True)
    (clone / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (clone / "conftest.py").write_text("")
    (clone / "tests" / "test_calc.py").write_text(TESTS)
    git(clone, "init", "-q")
    git(clone, "add", "-A")
    git(clone, "commit", "-q", "-m", "first")
    return tmp_path / "repos"


def write_instances(tmp_path: Path, repos: Path, **changes: object) -> Path:
    instance = {
        "instance_id": "acme/calc-1",
        "repo": "acme/calc",
        "base_commit": git(repos / "acme__calc", "rev-parse", "HEAD"),
        "problem_statement": "add subtracts.",
        "patch": PATCH,
        "test_patch": TEST_PATCH,
        # The published files contain these lists as texts.
        "FAIL_TO_PASS": json.dumps(["tests/test_calc.py::test_sum"]),
        "PASS_TO_PASS": ["tests/test_calc.py::test_zero"],
        **changes,
    }
    path = tmp_path / "instances.jsonl"
    path.write_text(json.dumps(instance) + "\n\n")
    return path


def run(tmp_path: Path, path: Path, repos: Path, capfd: pytest.CaptureFixture, *more: str) -> dict:
    options = ["--swebench", str(path), "--repos", str(repos), "--out", str(tmp_path / "out")]
    main([*options, "--profile", "perfect", "--json", "--fail-under", "0", *more])
    return json.loads(capfd.readouterr().out)["attempts"][0]


def judge(
    tmp_path: Path, path: Path, repos: Path, patch: str, setup: str = "true", **options: object
) -> dict:
    """Return the verdict on a workspace to which a patch was applied, without an agent."""
    suite = tmp_path / "suite"
    trio.run(partial(convert, read_instances(path), repos, suite, **options))
    [case] = read_suite(suite)
    workspace = tmp_path / "workspace"
    shutil.copytree(case.folder / "files", workspace)
    git(workspace, "init", "-q")
    if patch:
        subprocess.run(["git", "apply"], cwd=workspace, input=patch, text=True, check=True)
    subprocess.run(setup, shell=True, cwd=workspace, check=True)
    command = [sys.executable, str(case.folder / "verify.py")]
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        command, cwd=workspace, env=environ, capture_output=True, text=True, check=False
    )
    if done.returncode:
        return {"completion": 0, "reason": done.stderr, "checks": {}}
    return json.loads(done.stdout.splitlines()[-1])


def read_prediction(tmp_path: Path) -> dict:
    [line] = (tmp_path / "out" / "predictions-hilum.jsonl").read_text().splitlines()
    return json.loads(line)


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def test_the_published_solution_passes(tmp_path, repos, capfd):
    before = git(repos / "acme__calc", "status", "--porcelain")
    attempt = run(tmp_path, write_instances(tmp_path, repos), repos, capfd)
    assert attempt["reason"] == ""
    assert attempt["passed"]
    assert attempt["case"] == "acme__calc-1"
    assert attempt["checks"]["fail_to_pass"] == "1 of 1"
    assert attempt["checks"]["pass_to_pass"] == "1 of 1"
    prediction = read_prediction(tmp_path)
    assert prediction["instance_id"] == "acme/calc-1"
    assert prediction["model_name_or_path"] == "simulated/perfect"
    assert "+    return a + b" in prediction["model_patch"]
    # The patch is the agent's, without the tests.
    assert "test_sum" not in prediction["model_patch"]
    assert git(repos / "acme__calc", "status", "--porcelain") == before


def test_a_solution_that_breaks_a_test_fails(tmp_path, repos):
    wrong = PATCH.replace("+    return a + b", "+    return (a + b) or 1")
    verdict = judge(tmp_path, write_instances(tmp_path, repos), repos, wrong)
    assert verdict["completion"] == 0
    assert verdict["checks"]["fail_to_pass"] == "1 of 1"
    assert verdict["checks"]["pass_to_pass"] == "0 of 1"
    assert "test_zero" in verdict["reason"]


def test_changes_of_the_tests_do_not_count(tmp_path, repos):
    """An agent that replaces the tests is judged by the published ones."""
    setup = "printf 'def test_sum():\\n    pass\\n' > tests/test_calc.py"
    verdict = judge(tmp_path, write_instances(tmp_path, repos), repos, "", setup)
    assert verdict["completion"] == 0
    assert verdict["checks"]["fail_to_pass"] == "0 of 1"
    assert verdict["checks"]["pass_to_pass"] == "1 of 1"
    assert "tests/test_calc.py" in verdict["checks"]["model_patch"]


FORGED = "import sys\nprint('PASSED tests/test_calc.py::test_sum')\nsys.exit(0)\n"
HOOK = """\
import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    outcome.get_result().outcome = "passed"
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [("pytest.py", FORGED), ("unittest/__init__.py", ""), ("conftest.py", HOOK)],
)
def test_tests_cannot_be_replaced(tmp_path, repos, name, text):
    """Modules in the workspace are imported before those that run the tests."""
    source = tmp_path / "forged"
    source.write_text(text)
    folder = Path(name).parent
    setup = f"mkdir -p {folder} && cp {source} {name}"
    found = judge(tmp_path, write_instances(tmp_path, repos), repos, "", setup)
    assert found["completion"] == 0
    assert found["checks"]["fail_to_pass"] == "0 of 1"
    assert found["checks"]["pass_to_pass"] == "1 of 1"
    assert found["checks"]["restored"] == [name.partition("/")[0]]


PYTEST_OPTIONS = "[tool.pytest.ini_options]\naddopts = '-p calc_plugin'\n"
OTHER_OPTIONS = "[project]\nname = 'calc'\ndependencies = []\n"
SETUP_OPTIONS = "[tool:pytest]\naddopts = -p calc_plugin\n"


@pytest.mark.parametrize(
    ("name", "text", "restored"),
    [
        ("pyproject.toml", PYTEST_OPTIONS, ["pyproject.toml"]),
        ("pyproject.toml", "this is no TOML", ["pyproject.toml"]),
        ("pyproject.toml", OTHER_OPTIONS, []),
        ("setup.cfg", SETUP_OPTIONS, ["setup.cfg"]),
        ("setup.cfg", "[metadata]\nname = calc\n", []),
    ],
)
def test_options_of_pytest_in_other_settings_are_restored(tmp_path, repos, name, text, restored):
    """A plugin named there could report every test as passed; other changes of these files are kept."""
    (tmp_path / "hook.py").write_text(HOOK)
    (tmp_path / "settings").write_text(text)
    setup = f"cp {tmp_path / 'hook.py'} calc_plugin.py && cp {tmp_path / 'settings'} {name}"
    found = judge(tmp_path, write_instances(tmp_path, repos), repos, "", setup)
    assert found["completion"] == 0
    assert found["checks"]["fail_to_pass"] == "0 of 1"
    assert found["checks"]["pass_to_pass"] == "1 of 1"
    assert found["checks"].get("restored", []) == restored


@pytest.mark.parametrize(
    ("changes", "options", "problem"),
    [
        pytest.param(
            {"test_patch": TEST_PATCH.replace("test_zero", "test_one")}, (), "git apply", id="patch"
        ),
        pytest.param(
            {}, ("--test-command", "nosuchtool -rA"), "cannot be started", id="test command"
        ),
    ],
)
def test_an_instance_that_cannot_be_verified_is_broken(
    tmp_path, repos, capfd, changes, options, problem
):
    path = write_instances(tmp_path, repos, **changes)
    attempt = run(tmp_path, path, repos, capfd, *options)
    assert attempt["state"] == "broken"
    assert problem in attempt["reason"]


def test_another_test_command(tmp_path, repos):
    path = write_instances(tmp_path, repos, FAIL_TO_PASS=["test_sum (calc.Sum)"], PASS_TO_PASS=[])
    command = "echo 'test_sum (calc.Sum) ... ok' #"
    verdict = judge(tmp_path, path, repos, "", test_command=command)
    assert verdict["completion"] == 10


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"repo": "../../etc"}, "is not OWNER/NAME"),
        ({"repo": "acme/.."}, "is not OWNER/NAME"),
        ({"base_commit": "--upload-pack=x"}, "is no commit"),
        ({"FAIL_TO_PASS": "not a list"}, "FAIL_TO_PASS"),
        ({"FAIL_TO_PASS": []}, "at least one test"),
        ({"test_patch": None}, "test_patch"),
        ({"test_patch": TEST_PATCH.replace("b/tests/", "b/../../")}, "leads out"),
        ({"test_patch": TEST_PATCH.replace("b/tests/test_calc.py", "/etc/passwd")}, "leads out"),
        ({"test_patch": TEST_PATCH.replace("b/tests/test_calc.py", "b/.git/config")}, "leads out"),
        ({"patch": "rename to ../x\n"}, "leads out"),
    ],
)
def test_hostile_instances_are_refused(tmp_path, repos, changes, problem):
    with pytest.raises(UsageError) as raised:
        read_instances(write_instances(tmp_path, repos, **changes))
    assert problem in raised.value.message
    assert "line 1" in raised.value.message


@pytest.mark.parametrize("name", ["../../../escape", "a/b/../..", "/abs", ".hidden", "ä b"])
def test_ids_become_names_of_folders(tmp_path, repos, name):
    [instance] = read_instances(write_instances(tmp_path, repos, instance_id=name))
    suite = tmp_path / "suite"
    trio.run(convert, [instance], repos, suite)
    [case] = read_suite(suite)
    assert case.folder.parent == suite.resolve()
    assert not (tmp_path / "escape").exists()


def test_a_link_does_not_lead_the_test_patch_out(tmp_path, repos):
    """An agent replaces the folder of the tests by a link to a folder outside."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "test_calc.py").write_text(TESTS)
    setup = f"rm -rf tests && ln -s {outside} tests"
    verdict = judge(tmp_path, write_instances(tmp_path, repos), repos, PATCH, setup)
    assert verdict["completion"] == 0
    assert "leads out" in verdict["reason"] or "symbolic link" in verdict["reason"]
    assert (outside / "test_calc.py").read_text() == TESTS


def test_the_settings_of_the_workspace_start_no_program(tmp_path, repos):
    """Settings of git in the agent's repository could start programs during the verification."""
    mark = tmp_path / "started"
    setup = f"git config core.fsmonitor 'touch {mark}'; git config diff.external 'touch {mark}'"
    verdict = judge(tmp_path, write_instances(tmp_path, repos), repos, PATCH, setup)
    assert verdict["completion"] == 10
    assert not mark.exists()


def test_missing_clones_and_commits_are_named(tmp_path, repos):
    [instance] = read_instances(write_instances(tmp_path, repos, base_commit="0" * 40))
    with pytest.raises(UsageError) as raised:
        trio.run(convert, [instance], repos, tmp_path / "suite")
    assert "cannot be checked out" in raised.value.message
    with pytest.raises(UsageError) as raised:
        trio.run(convert, [instance], tmp_path / "empty", tmp_path / "suite")
    assert "There is no clone of acme/calc" in raised.value.message


def test_two_instances_with_one_folder_are_refused(tmp_path, repos):
    path = write_instances(tmp_path, repos)
    path.write_text(path.read_text() * 2)
    with pytest.raises(UsageError) as raised:
        read_instances(path)
    assert "occurs twice" in raised.value.message


def test_paths_of_patches():
    assert find_bad_path(TEST_PATCH) == ""
    assert find_bad_path("--- /dev/null\n+++ b/new.py\n") == ""
    assert find_bad_path('+++ "b/a/../../x"\n') == "b/a/../../x"
