"""Attempts with the real agent in a process of its own, and everything that can go wrong."""

import os
import shutil
import socket
import sys
import tempfile
from pathlib import Path

import attrs
import pytest
from eval_cases import write_suite_case
from hilum.processes import Warden
from hilum_eval.arm import Arm
from hilum_eval.attempt import Attempt
from hilum_eval.attempts import AttemptRunner
from hilum_eval.case_reader import read_case
from hilum_eval.jobs import Job
from hilum_eval.worker_processes import open_worker_processes

pytestmark = pytest.mark.slow(cases=4, of="file")

SCRIPT = Path(__file__).parents[2] / "support" / "shell_agent.py"
ARM = Arm(name="oracle", profile="perfect")
# Something happens to hilum's process after the edit.
PLUGIN = """\
import os, time
from hilum import hookimpl

@hookimpl
def remind(agent, results):
    if results[0].name == "edit_file":
        {action}
"""


async def run(case: Path, tmp_path: Path, arm: Arm = ARM, **options) -> Attempt:
    base = tmp_path / "base"
    base.mkdir()
    async with Warden() as warden, open_worker_processes(warden) as processes:
        runner = AttemptRunner(warden, processes, base, models={}, sandboxed=False, **options)
        attempt = await runner.run(Job(read_case(case), arm, 0))
    if not options.get("keep"):
        # Only the templates are left.
        assert [path.name for path in base.iterdir()] in ([], ["templates"])
    return attempt


def with_plugin(tmp_path: Path, action: str) -> Arm:
    plugin = tmp_path / "accident.py"
    plugin.write_text(PLUGIN.format(action=action))
    return attrs.evolve(ARM, plugins=(str(plugin),))


async def test_the_known_solution_passes(tmp_path):
    more = "setup: ['echo built > built.txt']\nrules: Keep it short.\nneeds: [git]"
    arm = attrs.evolve(ARM, instructions="Use plain words.", environ={"COLOR": "red"})
    attempt = await run(write_suite_case(tmp_path, more=more), tmp_path, arm, keep=True)
    assert attempt.reason == ""
    assert attempt.passed
    assert attempt.answer == "Done."
    assert attempt.observed == 1.0
    usage = attempt.usage
    assert (usage.turns, usage.calls, usage.failed_calls) == (3, 2, 0)
    assert usage.input_tokens > 1000
    assert usage.dollars is not None
    assert usage.dollars > 0
    assert 0 < usage.model_seconds < usage.seconds
    assert usage.peak_memory > 10e6
    [place] = (tmp_path / "base").glob("X01-0-*")
    assert (place / "project" / "built.txt").read_text() == "built\n"
    rules = (place / "project" / "AGENTS.md").read_text()
    assert rules == "Keep it short.\n"
    assert '"COLOR": "red"' in (place / "record" / "job.json").read_text()
    assert (place / "home" / ".local").is_dir(), "the home is not the user's"


async def test_the_configuration_of_a_case_starts_no_program(tmp_path):
    case = write_suite_case(tmp_path)
    mark = tmp_path / "started"
    git = case / "files" / ".git"
    git.mkdir()
    (git / "config").write_text(f'[core]\n\tfsmonitor = "touch {mark}; false"\n')
    attempt = await run(case, tmp_path)
    assert attempt.passed
    assert not mark.exists()


async def test_verifiers_read_the_counted_calls(tmp_path):
    verifier = (
        "import json, os, pathlib\n"
        "found = json.loads(pathlib.Path(os.environ['HILUM_EVAL_ATTEMPT']).read_text())\n"
        "print(json.dumps({'checks': found['usage']}))\n"
    )
    attempt = await run(write_suite_case(tmp_path, verifier=verifier), tmp_path)
    assert (attempt.checks["turns"], attempt.checks["calls"]) == (3, 2)


@pytest.mark.parametrize(
    "agent", ["hilum", f"{sys.executable} {SCRIPT} {{base_url}} {{model}} {{prompt_file}}"]
)
async def test_instructions_are_no_change_of_the_agent(tmp_path, agent):
    """A verifier that compares all files does not see the rules file with which the attempt began."""
    verifier = (
        "from pathlib import Path\n"
        "from hilum_eval.checking.changed_files import compare_with_fixture\n"
        "found = compare_with_fixture(Path(__file__).parent / 'files')\n"
        "raise SystemExit(0 if found == {'calc.py': 'changed'} else str(found))\n"
    )
    arm = attrs.evolve(ARM, agent=agent, instructions="Be short.")
    attempt = await run(write_suite_case(tmp_path, verifier=verifier), tmp_path, arm)
    assert attempt.reason == ""
    assert attempt.passed


async def test_a_process_that_is_killed_is_judged_by_what_it_left(tmp_path):
    """The log tells what it did until then."""
    arm = with_plugin(tmp_path, "os.kill(os.getpid(), 9)")
    attempt = await run(write_suite_case(tmp_path), tmp_path, arm)
    assert attempt.state == "verified"
    assert attempt.code == "E_INTERNAL"
    assert attempt.scores is not None
    assert attempt.scores.completion == 10
    assert [attempt.usage.turns, attempt.usage.calls] == [2, 2]


async def test_a_process_that_hangs_is_killed(tmp_path):
    """Not even its event loop runs."""
    arm = with_plugin(tmp_path, "time.sleep(1000)")
    case = write_suite_case(tmp_path, timeout=6)
    attempt = await run(case, tmp_path, arm, reserve=0.5)
    assert attempt.code == "E_TIMEOUT"
    assert attempt.state == "verified"
    assert attempt.usage.calls == 2


async def test_nothing_that_an_attempt_started_outlives_it(tmp_path):
    """Not even a process that a plugin starts behind hilum's back."""
    note = tmp_path / "pid"
    start = "__import__('subprocess').Popen(['sleep', '1000'], start_new_session=True).pid"
    arm = with_plugin(tmp_path, f"open({str(note)!r}, 'w').write(str({start}))")
    attempt = await run(write_suite_case(tmp_path), tmp_path, arm)
    assert attempt.passed
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


async def test_a_model_that_never_answers_ends_at_the_time_limit(tmp_path):
    """An arm with a live model, whose server accepts connections and is silent."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        settings = {"models.providers": {"silent": {"base_url": url, "api": "chat"}}}
        arm = Arm(name="live", model="silent/model", settings=settings)
        attempt = await run(write_suite_case(tmp_path, timeout=2), tmp_path, arm)
    assert attempt.code == "E_TIMEOUT"
    assert attempt.state == "broken", "the provider's silence is not the agent's failure"
    assert "did not finish within 2 seconds" in attempt.reason


@pytest.mark.parametrize(
    ("more", "verifier", "state", "problem"),
    [
        pytest.param(
            "setup: ['true', 'echo broken >&2; exit 3']",
            "",
            "broken",
            "The setup command `echo broken >&2; exit 3` failed with exit code 3: broken",
            id="setup",
        ),
        pytest.param(
            "needs: [no-such-program]",
            "",
            "skipped",
            "needs no-such-program, which is not installed",
            id="program",
        ),
    ],
)
async def test_what_cannot_be_prepared_is_named(tmp_path, more, verifier, state, problem):
    attempt = await run(write_suite_case(tmp_path, more=more, verifier=verifier), tmp_path)
    assert (attempt.state, attempt.reason) == (state, problem)
    assert not attempt.passed


async def test_an_unknown_plugin_is_no_result_of_the_agent(tmp_path):
    arm = attrs.evolve(ARM, plugins=("no-such-plugin",))
    attempt = await run(write_suite_case(tmp_path), tmp_path, arm)
    assert attempt.state == "broken"
    assert "no-such-plugin" in attempt.reason


async def test_a_full_disk_is_named(tmp_path, monkeypatch):
    def fail(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copytree", fail)
    attempt = await run(write_suite_case(tmp_path), tmp_path)
    assert attempt.state == "broken"
    assert attempt.code == "E_STORE"
    assert "No space left on device" in attempt.reason


async def test_the_user_of_a_case_answers_approvals(tmp_path):
    more = "approve: ask_first\ndecisions: [{when: edit_file, answer: reject, reason: Not now.}]"
    verifier = (
        "import json, os, pathlib\n"
        "found = json.loads(pathlib.Path(os.environ['HILUM_EVAL_ATTEMPT']).read_text())\n"
        "print(json.dumps({'checks': {'approvals': found['approvals']}}))\n"
    )
    attempt = await run(write_suite_case(tmp_path, more=more, verifier=verifier), tmp_path)
    [approval] = attempt.checks["approvals"]
    assert approval["tool"] == "edit_file"
    assert approval["reason"] == "Not now."
    assert not approval["accepted"]
    assert approval["by"] == "user"
    assert attempt.usage.failed_calls == 1


@pytest.mark.slow(cases=1)
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="only a sandbox hides folders")
async def test_commands_of_hilum_do_not_see_the_case(tmp_path):
    # The sandbox has a folder for temporary files of its own.
    with tempfile.TemporaryDirectory(dir=Path.home()) as home:
        folder = write_suite_case(Path(home))
        (Path(home) / "seen").write_text("seen\n")
        places = f"{home}/seen {folder}/verify.py ../record/job.json ../home"
        (folder / "case.yaml").write_text(
            "id: X01\ntitle: Look\ndimensions: [edits]\nexpected_turns: 2\nturns:\n"
            "  - prompt: Look.\n    steps:\n"
            f"      - run: 'ls {places} > found.txt 2> /dev/null; true'\n      - say: Done.\n"
        )
        attempt = await run(folder, tmp_path, keep=True)
        assert attempt.answer == "Done."
        [place] = (tmp_path / "base").glob("X01-0-*")
        found = (place / "project" / "found.txt").read_text()
    assert f"{home}/seen" in found
    assert "verify.py" not in found
    assert "job.json" not in found
