"""What a command leaves running: it goes on as a service that is listed, read and stopped.

Nothing of it is lost silently.

Everything happens without a sandbox, and in each kind of sandbox.
"""

import os
import signal
from pathlib import Path

import hilum_shell
import msgspec
import pytest
import trio
from hilum import Call, kernel
from hilum.testing import open_bench, say, use
from hilum_guard.sandbox import backends
from hilum_guard.sandbox.enforcement import Enforcement
from spare_warden import SpareWarden

# Prints a line when it runs and another one when it is asked to go on.
SERVER = """
import os, sys, time
print("serving", flush=True)
open("pid", "w").write(str(os.getpid()))
while not os.path.exists("go"):
    time.sleep(0.01)
print("went on", flush=True)
time.sleep(1000)
"""
WAYS = {
    "ampersand": "python3 server.py & ",
    "nohup": "nohup python3 server.py & ",
    "setsid": "setsid python3 server.py & ",
    "double fork": "(setsid sh -c 'python3 server.py & ') & ",
}
KINDS = ["none", "bubblewrap", "spare", "landlock"]


@pytest.fixture(params=KINDS)
def settings(request, monkeypatch):
    """The settings of each kind of sandbox."""
    if request.param == "none":
        return {"guard.sandbox": "off"}
    if request.param == "landlock":
        if backends.check_bubblewrap().by and not backends.check_landlock().by:
            pytest.skip("there is no Landlock")
        monkeypatch.setattr(backends, "check_bubblewrap", lambda: Enforcement())
    elif not backends.check_bubblewrap().by:
        pytest.skip("bubblewrap does not work here")
    if request.param == "spare":
        # Each command runs in a spare sandbox, which was built before the command was known.
        monkeypatch.setattr(kernel, "Warden", SpareWarden)
    return {}


@pytest.fixture
async def kit(tmp_path, settings):
    """A session with shell and guard."""
    root = tmp_path / "proj"
    root.mkdir()
    (root / "server.py").write_text(SERVER)
    async with open_bench(
        hilum_shell, "guard", settings=settings | {"approve": "auto"}, workspace=root
    ) as bench:
        yield bench


async def call(kit, tool, **arguments):
    """Call a tool as the kernel does."""
    session = kit.session
    found = session.tools[tool]
    checked = found.check(msgspec.json.encode(arguments).decode())
    deadline = trio.current_time() + found.time_limit(checked)
    with trio.fail_after(60):
        return await found.run(
            Call(
                "1",
                tool,
                checked,
                session.agents["main"],
                session,
                session.workspace,
                session.processes,
                deadline,
                print,
            )
        )


@pytest.mark.slow(cases=3)
@pytest.mark.parametrize("way", WAYS)
async def test_what_a_command_leaves_goes_on_as_a_service(kit, way):
    """Told, listed, read and stopped, by its command's name.

    The command's own end is told at once.
    """
    root = Path(kit.session.workspace.root)
    command = WAYS[way] + "until test -s pid; do sleep 0.01; done; echo started; exit 3"
    output = await call(kit, "run_terminal_cmd", command=command)
    assert output.text.startswith("Exit code 3 after")
    assert "started" in output.text
    assert "continue as s1" in output.text
    assert "ends with this session" in output.text
    assert output.data["service"] == "s1"
    listed = await call(kit, "list_services")
    assert "server.py" in listed.text
    assert "the processes that it started continue" in listed.text
    (root / "go").touch()
    if way != "nohup":  # that one prints into a file
        read = await call(kit, "read_service", service="s1", wait_for="went on")
        assert "Found: went on" in read.text
    stopped = await call(kit, "stop_service", service="s1")
    assert "stopped after" in stopped.text
    assert (await call(kit, "list_services")).text.count("stopped") == 1


async def test_what_is_left_and_ends_by_itself_is_told(kit):
    """As the end of any service."""
    output = await call(kit, "run_terminal_cmd", command="(sleep 0.5; echo late) & echo early")
    assert "continue as s1" in output.text
    read = await call(kit, "read_service", service="s1", timeout=30)
    assert "ended after" in read.text
    assert "late" in read.text


async def test_a_command_that_leaves_nothing_leaves_no_service(kit):
    """Also where its children take a moment to go."""
    output = await call(kit, "run_terminal_cmd", command="sleep 0.02 & echo done")
    assert output.text.partition("\n")[2] == "done"
    assert (await call(kit, "list_services")).text == "There are no services."


async def test_a_command_that_a_signal_ended_and_that_left_something(kit):
    """The signal is told as ever."""
    output = await call(kit, "run_terminal_cmd", command="sleep 1000 & kill -TERM $$")
    assert output.text.startswith(f"Ended by signal {signal.SIGTERM.value} (SIGTERM)")
    assert "continue as s1" in output.text


async def test_too_many_services_end_what_is_left(tmp_path, settings):
    """And that is told."""
    chosen = settings | {"approve": "auto", "shell.services": 0}
    async with open_bench(hilum_shell, "guard", settings=chosen, workspace=tmp_path) as kit:
        output = await call(kit, "run_terminal_cmd", command="sleep 1000 & echo started")
        assert "were ended with it" in output.text
        assert "no more are allowed" in output.text
        assert (await call(kit, "list_services")).text == "There are no services."


async def test_they_end_with_the_session(tmp_path, settings):
    """Whatever they did to get away."""
    (tmp_path / "server.py").write_text(SERVER)
    command = (
        WAYS["double fork"]
        + "until test -s pid; do sleep 0.01; done; pgrep -f server.py > pids; cat pids"
    )
    async with open_bench(
        hilum_shell, "guard", settings=settings | {"approve": "auto"}, workspace=tmp_path
    ) as kit:
        assert "continue as s1" in (await call(kit, "run_terminal_cmd", command=command)).text
        here = [pid for pid in os.listdir("/proc") if pid.isdigit() and _runs(pid, tmp_path)]
        assert here
    assert not [pid for pid in here if _runs(pid, tmp_path)]


def _runs(pid, folder):
    """Whether a process is the server in a folder."""
    try:
        return b"server.py" in Path(f"/proc/{pid}/cmdline").read_bytes() and os.readlink(
            f"/proc/{pid}/cwd"
        ) == str(folder)
    except OSError:
        return False


async def test_a_stopped_run_ends_what_its_commands_left(tmp_path, settings):
    """As it ends every service that it has started."""
    (tmp_path / "server.py").write_text(SERVER)
    left = WAYS["ampersand"] + "until test -s pid; do sleep 0.01; done; echo started"
    answers = [
        use("run_terminal_cmd", command=left),
        use("run_terminal_cmd", command="touch begun; sleep 1000"),
        say("no"),
    ]
    chosen = settings | {"approve": "auto"}
    # Without a sandbox the guard would ask.
    plugins = [hilum_shell, *([] if "guard.sandbox" in settings else ["guard"])]
    if len(plugins) == 1:
        chosen = {"approve": "auto"}
    async with open_bench(*plugins, answers=answers, settings=chosen, workspace=tmp_path) as kit:
        run = await kit.start("go")
        with trio.fail_after(60):
            while not (tmp_path / "begun").exists():  # noqa: ASYNC110
                await trio.sleep(0.01)
            run.stop()
            assert (await run.wait()).state == "stopped"
            services = kit.session.plugin(hilum_shell.Services)
            for service in list(services.running()):
                await service.ended.wait()
        assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and _runs(pid, tmp_path)]
