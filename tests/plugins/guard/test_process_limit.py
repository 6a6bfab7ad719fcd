"""Failures of commands that reached the limit on processes name the limit and what holds processes."""

from errno import EAGAIN
from pathlib import Path

import hilum_guard
import hilum_shell
import pytest
from hilum import BackgroundCommands, Process, errors
from hilum.processes import CommandError
from hilum.testing import open_bench
from hilum_guard.sandbox import control_groups, process_limit
from hilum_guard.session_guard import Guard

PLUGINS = (hilum_guard, hilum_shell)
HOLD = """
import os, time
while True:
    try:
        if os.fork() == 0:
            time.sleep(600)
    except BlockingIOError:
        break
print("full", flush=True)
time.sleep(600)
"""
FAILURES = [
    "The program '/bin/sh' cannot be started: resource temporarily unavailable.",
    "bwrap: Creating new namespace failed: Resource temporarily unavailable",
    "hilum-sandbox: 23: Cannot fork",
    "bash: fork: retry: Resource temporarily unavailable",
    "RuntimeError: can't start new thread",
    "Error: spawn node EAGAIN",
]


def needs_group() -> None:
    """Skip the test where the processes of all commands are not limited together."""
    folder = control_groups.create_group(40)
    if not folder or not Path(folder, "pids.events").exists():
        pytest.skip("no control group with a count of refused processes")


async def test_a_service_that_holds_all_processes_is_named(tmp_path: Path) -> None:
    needs_group()
    settings = {"guard.processes": 40, "guard.spare_sandboxes": 0}
    async with open_bench(*PLUGINS, folder=tmp_path, approve="auto", settings=settings) as bench:
        (bench.workspace / "hold.py").write_text(HOLD)
        await bench.call("run_terminal_cmd", command="python3 hold.py", background=True)
        await bench.call("read_service", service="s1", wait_for="full")
        result = await bench.call("run_terminal_cmd", command="echo a | cat | cat")
        assert result.code == errors.E_CMD_FAIL
        for part in (
            "limit of 40 processes",
            "guard.processes",
            "s1 (python3 hold.py)",
            "stop_service",
        ):
            assert part in result.text
        assert "Check the path" not in result.text
        said = bench.session.plugin(Guard).explain_refusal(FAILURES[2])
        assert "s1 (python3 hold.py)" in said
        assert "(/stop)" in said
        await bench.call("stop_service", service="s1")
        assert list(bench.session.plugin(BackgroundCommands).running()) == []
        result = await bench.call("run_terminal_cmd", command="echo a | cat | cat")
        assert result.code == ""


@pytest.mark.parametrize("failure", FAILURES)
async def test_each_failure_is_explained_only_if_the_limit_was_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    events = tmp_path / "group/pids.events"
    events.parent.mkdir()
    events.write_text("max 0\n")
    monkeypatch.setattr(control_groups, "create_group", lambda _: str(events.parent))
    async with open_bench(*PLUGINS, folder=tmp_path, approve="auto") as bench:
        assert process_limit.explain_limit(bench.session, 64, failure) == ""
        events.write_text("max 3\n")
        said = process_limit.explain_limit(bench.session, 64, failure)
        assert "limit of 64 processes" in said
        assert "guard.processes" in said
        assert "Do less at once" in said
        assert process_limit.explain_limit(bench.session, 64, "Exit code 2: no such file") == ""


@pytest.mark.parametrize("is_root", [True, False])
async def test_without_a_group_the_limit_is_that_of_each_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_root: bool
) -> None:
    """Nothing limits the processes of root then."""
    monkeypatch.setattr(control_groups, "create_group", lambda _: "")
    monkeypatch.setattr(process_limit, "_is_root", lambda: is_root)
    async with open_bench(*PLUGINS, folder=tmp_path, approve="auto") as bench:
        said = process_limit.explain_limit(bench.session, 64, FAILURES[0])
    assert ("Probably, the command reached the limit of 64" in said) != is_root


async def test_a_program_for_which_there_is_no_process_is_not_called_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its path, mode and arguments are right."""
    async with open_bench(folder=tmp_path) as bench:

        async def fail(self: Process) -> list[str]:
            return ["failed", str(EAGAIN), "program"]

        monkeypatch.setattr(Process, "_report", fail)
        with pytest.raises(CommandError) as raised:
            await bench.session.processes.run(["/bin/sh", "-c", "true"])
    assert (
        raised.value.hint == "Too many processes run. End some of them, and run the command again."
    )


async def test_a_failure_that_the_limit_did_not_cause_is_not_explained(tmp_path: Path) -> None:
    async with open_bench(*PLUGINS, folder=tmp_path, approve="auto") as bench:
        needs_group()
        result = await bench.call(
            "run_terminal_cmd", command="echo 'Resource temporarily unavailable'; exit 3"
        )
        assert result.code == errors.E_CMD_FAIL
        assert "guard.processes" not in result.text
