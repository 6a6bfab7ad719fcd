"""Agents that attack the measurement: the user's files, its own files, and the verifier."""

import base64
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
from eval_cases import write_suite_case
from hilum.processes import Warden
from hilum_eval.arm import Arm
from hilum_eval.attempt import Attempt
from hilum_eval.attempts import AttemptRunner
from hilum_eval.case_reader import read_case
from hilum_eval.jobs import Job
from hilum_eval.sandbox import find_sandbox
from hilum_eval.worker_processes import open_worker_processes

pytestmark = pytest.mark.slow(cases=5, of="file")

# An agent that makes one request, and then attacks. Its arguments are the address of the model, the file
# with the prompt, and the workspace.
AGENT = """\
import json, os, sys, urllib.request
from pathlib import Path
url, prompt, workspace = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
body = json.dumps({{"model": "m", "messages": [{{"role": "user", "content": "Go."}}]}}).encode()
headers = {{"content-type": "application/json"}}
urllib.request.urlopen(urllib.request.Request(url + "/v1/chat/completions", body, headers)).read()
folders = [prompt.parent, workspace.parent, workspace.parent / "scratch", workspace.parent / "record"]
def attempt(function, *arguments):
    try:
        return function(*arguments)
    except OSError:
        return None
{attack}
"""
NAMES = ["attempt.json", "transcript.json", "prompt-2.txt", "worker.log", "modules", "session"]


async def run(
    tmp_path: Path,
    attack: str,
    *,
    sandbox: bool = True,
    two: bool = False,
    hidden: Sequence[Path] = (),
    **more: str,
) -> Attempt:
    """Return the attempt of an agent that attacks."""
    # A file in the folder for temporary files could not be read in the sandbox.
    code = base64.b64encode(AGENT.format(attack=attack).encode()).decode()
    start = f"import base64; exec(base64.b64decode('{code}'))"
    command = f'{sys.executable} -c "{start}" {{base_url}} {{prompt_file}} {{workspace}}'
    arm = Arm(name="hostile", profile="perfect", agent=command, resume=command)
    if not sandbox:
        arm = Arm(name="hostile", profile="perfect", agent=command, settings={"sandbox": False})
    folder = write_suite_case(tmp_path / "suite", **more)
    if two:
        path = folder / "case.yaml"
        path.write_text(f"{path.read_text()}  - prompt: Do more.\n")
    base = tmp_path / "base"
    base.mkdir()
    async with Warden() as warden, open_worker_processes(warden) as processes:
        sandboxed = await find_sandbox(warden)
        if sandbox and not sandboxed:
            pytest.skip("needs bubblewrap (Debian: apt install bubblewrap)")
        runner = AttemptRunner(
            warden, processes, base, models={}, sandboxed=sandboxed, hidden=hidden
        )
        with trio.fail_after(100):
            attempt = await runner.run(Job(read_case(folder), arm, 0))
    assert [path.name for path in base.iterdir()] == ["templates"]
    return attempt


@pytest.mark.parametrize("sandbox", [True, False])
async def test_links_do_not_lead_writes_to_other_files(tmp_path, sandbox):
    victim = tmp_path / "notes.txt"
    victim.write_text("mine")
    attack = f"""
for folder in folders:
    for name in {NAMES}:
        if name != "transcript.json" or "scratch" in str(folder):
            attempt((folder / name).unlink, True)
            attempt(os.symlink, {str(victim)!r}, folder / name)
"""
    attempt = await run(tmp_path, attack, sandbox=sandbox, two=sandbox)
    assert victim.read_text() == "mine"
    assert attempt.state == "verified"
    assert not attempt.passed


@pytest.mark.parametrize("sandbox", [True, False])
@pytest.mark.parametrize("kind", ["os.mkfifo", "os.mkdir"])
async def test_pipes_and_folders_do_not_stop_the_measurement(tmp_path, sandbox, kind):
    attack = f"""
for folder in folders:
    for name in {NAMES}:
        attempt((folder / name).unlink, True)
        attempt({kind}, folder / name)
"""
    attempt = await run(tmp_path, attack, sandbox=sandbox, two=sandbox)
    assert not attempt.passed
    # In a sandbox, the agent cannot reach these files at all.
    assert attempt.state == ("verified" if sandbox else attempt.state)


@pytest.fixture
def visible_folder():
    """A folder outside the folder for temporary files, which the sandbox replaces."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder).resolve()


async def test_an_agent_cannot_read_the_solution(visible_folder):
    suite = visible_folder / "suite"
    write_suite_case(suite, name="x02")
    results = visible_folder / "results"
    results.mkdir()
    (results / "attempts.jsonl").write_text("{}")
    attack = f"""
seen = []
roots = [Path({str(suite)!r}), Path({str(results)!r})]
for root in [*roots, workspace.parent / "record", workspace.parent.parent / "templates"]:
    for path in root.rglob("*"):
        seen.append(str(path))
(workspace / "seen.txt").write_text("\\n".join(seen))
(workspace / "prompt.txt").write_text(prompt.read_text())
"""
    verifier = (
        "import json, pathlib\n"
        "found = {name: pathlib.Path(name + '.txt').read_text() for name in ('seen', 'prompt')}\n"
        "print(json.dumps({'checks': found}))\n"
    )
    attempt = await run(visible_folder, attack, verifier=verifier, hidden=(results,))
    assert attempt.checks == {
        "seen": "",
        "prompt": "Rename the function add to plus in calc.py.",
    }


@pytest.mark.parametrize(
    ("attack", "verifier", "problem"),
    [
        pytest.param(
            "(workspace / 'calc.py').unlink()",
            "import pathlib\nif 'def plus' not in pathlib.Path('calc.py').read_text(): exit('no')\n",
            "FileNotFoundError",
            id="removed file",
        ),
        pytest.param(
            "(workspace / 'calc.py').write_text('while True: pass')",
            "import sys; sys.path.insert(0, '.')\nimport calc\nexit('no')\n",
            "did not end within 3 seconds",
            id="endless loop",
        ),
        pytest.param(
            "(workspace / 'calc.py').write_text('import os; os.kill(os.getpid(), 9)')",
            "import sys; sys.path.insert(0, '.')\nimport calc\nexit('no')\n",
            "ended by signal 9",
            id="killed verifier",
        ),
    ],
)
async def test_what_depends_on_the_result_is_a_failure(tmp_path, attack, verifier, problem):
    """The verifier works on the untouched files, so the agent is the reason."""
    more = "verify_timeout: 3"
    attempt = await run(tmp_path, attack, verifier=verifier, more=more)
    assert attempt.state == "verified"
    assert attempt.scores is not None
    assert attempt.scores.completion == 0
    assert problem in attempt.reason


async def test_a_verifier_that_never_works_is_broken(tmp_path):
    attempt = await run(tmp_path, "", verifier="1/0")
    assert attempt.state == "broken"
    assert "ZeroDivisionError" in attempt.reason


async def test_a_link_in_place_of_the_workspace_gives_no_access_to_its_target(tmp_path):
    """The sandbox of a verifier binds the workspace writable, and must not follow a link there."""
    victim = tmp_path / "home"
    victim.mkdir()
    attack = f"""
import shutil
shutil.rmtree(workspace)
os.symlink({str(victim)!r}, workspace)
"""
    verifier = "open('written', 'w').write('x')"
    attempt = await run(tmp_path, attack, sandbox=False, verifier=verifier)
    assert os.listdir(victim) == []
    assert "The agent removed its workspace" in attempt.reason
