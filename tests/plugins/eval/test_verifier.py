"""Verifiers: their verdicts, and what they cannot do."""

import json
import os

import pytest
import trio
from hilum.processes import Warden
from hilum_eval.arm import Arm
from hilum_eval.case import Case, Turn
from hilum_eval.sandbox import find_sandbox
from hilum_eval.transcript import Call, Transcript
from hilum_eval.verifier import Verifier
from hilum_eval.workspaces import Workspaces, make_environ

ARM = Arm(name="a")


@pytest.fixture
async def warden():
    async with Warden() as warden:
        yield warden


async def verify(warden, tmp_path, program="", *, command="", limit=30.0, sandboxed=True):
    folder = tmp_path / "case"
    folder.mkdir()
    (folder / "verify.py").write_text(program)
    case = Case(
        id="X",
        title="x",
        dimensions=("edits",),
        turns=(Turn(prompt="Go."),),
        expected_turns=1,
        folder=folder,
        verify=command,
        verify_timeout=limit,
    )
    place = await Workspaces(warden, tmp_path).prepare(case, ARM, 0)
    transcript = Transcript(answers=("One.", "Two."), calls=(Call(tool="read_file", code="E_X"),))
    is_sandboxed = sandboxed and await find_sandbox(warden)
    verifier = Verifier(warden, sandboxed=is_sandboxed)
    return await verifier.verify(case, transcript, place, make_environ(ARM, place))


@pytest.mark.parametrize(
    ("program", "completion", "reason"),
    [
        pytest.param("", 10.0, "", id="exit 0"),
        pytest.param("import sys; sys.exit('two\\nthe reason')", 0.0, "the reason", id="exit 1"),
        pytest.param("print('x'); print('{\"completion\": 4}')", 4.0, "", id="JSON"),
        pytest.param("print('just text')", 10.0, "", id="text"),
        pytest.param(
            "print('{\"completion\": 4}'); import sys; sys.exit('no')", 0.0, "no", id="both"
        ),
    ],
)
async def test_verdicts(warden, tmp_path, program, completion, reason):
    found = await verify(warden, tmp_path, program)
    assert not found.broken
    assert (found.completion, found.security, found.reason) == (completion, 10.0, reason)


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("1/0", "The verifier failed: ZeroDivisionError: division by zero"),
        ("import os; os.kill(os.getpid(), 9)", "ended by signal 9"),
        ("print('{\"completion\": 11}')", "completion is 11, and not a number from 0 to 10"),
        ("print('{\"completion\": true}')", "completion is True"),
        ("print('{\"complete\": 1}')", "unknown keys: complete"),
    ],
)
async def test_verifiers_with_mistakes_are_broken(warden, tmp_path, program, problem):
    found = await verify(warden, tmp_path, program, sandboxed=False)
    assert problem in found.broken
    assert found.code == "E_CMD_FAIL"


async def test_a_failed_check_can_still_say_that_security_was_broken(warden, tmp_path):
    program = 'print(\'{"security": 0, "reason": "deleted"}\'); raise SystemExit(1)'
    found = await verify(warden, tmp_path, program)
    assert not found.broken
    assert (found.completion, found.security, found.reason) == (0.0, 0.0, "deleted")


async def test_a_failing_test_runner_is_no_mistake_of_the_verifier(warden, tmp_path):
    """unittest prints the exceptions of failed tests."""
    test = "import unittest\nclass T(unittest.TestCase):\n def test(self): 1/0\n"
    command = f"printf '%s' '{test}' > test_it.py; python3 -m unittest"
    found = await verify(warden, tmp_path, command=command)
    assert not found.broken
    assert found.completion == 0.0


@pytest.mark.parametrize("sandboxed", [True, False])
async def test_a_killed_command_is_no_failed_check(warden, tmp_path, sandboxed):
    """A shell and bubblewrap report a signal as an exit code."""
    command = "python3 -c 'import os; os.kill(os.getpid(), 9)'; exit $?"
    found = await verify(warden, tmp_path, command=command, sandboxed=sandboxed)
    assert "ended by signal 9" in found.broken


@pytest.mark.parametrize(
    ("program", "command", "problem"),
    [
        pytest.param("if True print(1)", "", "is no Python program: SyntaxError", id="syntax"),
        pytest.param("", "nosuchtool -rA", "could not be started", id="missing program"),
    ],
)
async def test_a_verifier_that_cannot_run_is_broken(warden, tmp_path, program, command, problem):
    found = await verify(warden, tmp_path, program, command=command)
    assert problem in found.broken


async def test_deeply_nested_output_is_no_verdict(warden, tmp_path):
    found = await verify(warden, tmp_path, "print('[' * 100_000)")
    assert (found.broken, found.completion) == ("", 10.0)


async def test_a_sandbox_that_does_not_start_is_no_failed_check(warden, tmp_path, monkeypatch):
    if not await find_sandbox(warden):
        pytest.skip("needs bubblewrap (Debian: apt install bubblewrap)")
    broken = ("bwrap", "--ro-bind", "/no-such-folder", "/")
    monkeypatch.setattr("hilum_eval.verifier.make_sandbox", lambda writable: broken)
    found = await verify(warden, tmp_path)
    assert "The sandbox could not start the verifier" in found.broken


async def test_a_verifier_that_hangs_is_ended_with_its_processes(warden, tmp_path):
    program = (
        "import subprocess, time, pathlib\n"
        "child = subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
        "pathlib.Path('child').write_text(str(child.pid))\n"
        "time.sleep(1000)\n"
    )
    found = await verify(warden, tmp_path, program, limit=1.5, sandboxed=False)
    assert found.code == "E_TIMEOUT"
    assert "did not end within 1.5 seconds" in found.broken
    [note] = tmp_path.glob("X-0-*/project/child")
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


async def test_a_verifier_reads_what_the_agent_did(warden, tmp_path):
    program = (
        "import json, os, pathlib\n"
        "data = json.loads(pathlib.Path(os.environ['HILUM_EVAL_ATTEMPT']).read_text())\n"
        "print(json.dumps({'checks': data}))\n"
    )
    found = await verify(warden, tmp_path, program)
    assert found.checks["answer"] == "Two."
    assert found.checks["answers"] == ["One.", "Two."]
    assert found.checks["calls"][0]["code"] == "E_X"


async def test_a_command_can_be_the_verifier(warden, tmp_path):
    found = await verify(warden, tmp_path, command="test -d .git && echo '{\"security\": 0}'")
    assert (found.completion, found.security) == (10.0, 0.0)


async def test_the_sandbox_confines_a_verifier(warden, tmp_path):
    """A verifier runs what the agent wrote."""
    if not await find_sandbox(warden):
        pytest.skip("needs bubblewrap (Debian: apt install bubblewrap)")
    canary = tmp_path / "canary"
    canary.write_text("here")
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    program = f"""
import json, pathlib, socket
checks = {{}}
try:
    pathlib.Path({str(canary)!r}).unlink()
    checks["outside"] = "written"
except OSError as error:
    checks["outside"] = "refused"
pathlib.Path("inside").write_text("x")
try:
    socket.create_connection(("127.0.0.1", {port}), timeout=5)
    checks["network"] = "reached"
except OSError as error:
    checks["network"] = "refused"
with socket.create_server(("127.0.0.1", 0)) as own:
    socket.create_connection(own.getsockname(), timeout=5).close()
    checks["own server"] = "reached"
print(json.dumps({{"checks": checks}}))
"""
    found = await verify(warden, tmp_path, program)
    await listeners[0].aclose()
    assert found.checks == {"outside": "refused", "network": "refused", "own server": "reached"}
    assert canary.read_text() == "here"
    assert json.dumps(dict(found.checks))
