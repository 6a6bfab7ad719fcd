"""What is left of a command whose run is stopped: the model and the user read its output so far."""

import hilum_shell
import pytest
import trio
from hilum import ToolCall, hookimpl
from hilum.errors import E_STOPPED, E_TIMEOUT
from hilum.events import Delta
from hilum.messages import Text, ToolMessage, ToolResult
from hilum.testing import open_bench, plugin, use

COMMAND = "echo first; echo problem >&2; echo ready; sleep 1000"


async def printed(kit, text: str) -> None:
    """Wait until a command has printed a text."""
    seen = ""
    async for event in kit.session.events(deltas=True):
        if isinstance(event, Delta) and event.kind == "output":
            seen += event.text
            if text in seen:
                return


async def stopped(kit, shown: str) -> ToolResult:
    """Start a run, stop it when its command has printed something, and return the call's result."""
    run = await kit.start("x")
    with kit.guard():
        await printed(kit, shown)
        run.stop()
        ended = await run.wait()
    assert ended.state == "stopped"
    assert f"Calls that were cut off: run_terminal_cmd {COMMAND[:20]}" in ended.left
    return kit.results[0]


async def test_the_output_of_a_stopped_command_is_kept(tmp_path) -> None:
    """It is in the result that the next prompt's model reads, with what was run."""
    answers = [use("run_terminal_cmd", command=COMMAND), "here"]
    async with open_bench(hilum_shell, answers=answers, workspace=tmp_path) as kit:
        result = await stopped(kit, "ready\n")
        await kit.run("and now?")
        asked = kit.model.requests[-1].messages
    assert result.code == E_STOPPED
    assert result.text.startswith(f"{E_STOPPED}: `run_terminal_cmd {COMMAND}` was stopped before ")
    assert "because the run was stopped. Its output so far:\nfirst\nready" in result.text
    assert result.text.endswith("[standard error]\nproblem")
    held = [
        part for message in asked if isinstance(message, ToolMessage) for part in message.results
    ]
    assert [each.text for each in held] == [result.text]


async def test_long_output_of_a_stopped_command_can_be_read_on(tmp_path) -> None:
    """It is cut and kept like that of a command that ended."""
    command = COMMAND.replace("echo first", "echo first; seq 1 1000")
    answers = [use("run_terminal_cmd", command=command), "here"]
    settings = {"shell.output_limit": 200}
    async with open_bench(
        hilum_shell, answers=answers, workspace=tmp_path, settings=settings
    ) as kit:
        run = await kit.start("x")
        with kit.guard():
            await printed(kit, "ready\n")
            run.stop()
            await run.wait()
        assert "read_service('s1', offset=0)" in kit.results[0].text


async def test_a_run_that_is_out_of_time_keeps_it_as_well(tmp_path, mock_clock) -> None:
    """The time of the run is over before that of the command."""
    mock_clock.rate = 1.0
    answers = [use("run_terminal_cmd", command=COMMAND, timeout=3000)]
    settings = {"timeout": 2000}
    async with open_bench(
        hilum_shell, answers=answers, workspace=tmp_path, settings=settings
    ) as kit:
        run = await kit.start("x")
        with kit.guard():
            await printed(kit, "ready\n")
            mock_clock.jump(2000)
            ended = await run.wait()
        assert ended.state == "timed_out"
        assert kit.results[0].code == E_TIMEOUT
        assert "because the run exceeded its time limit. Its output so far:" in kit.results[0].text


@pytest.mark.parametrize("works", [True, False])
async def test_plugins_check_it(tmp_path, works: bool) -> None:
    """It is a result like any other: a plugin may change it, and a fault withholds it."""

    @hookimpl
    def check_result(call: ToolCall, result: ToolResult) -> ToolResult:
        if not works:
            raise ValueError("broken")
        parts = (Text(result.text.replace("problem", "[gone]")),)
        return ToolResult(result.call_id, result.name, parts, result.code)

    answers = [use("run_terminal_cmd", command=COMMAND), "here"]
    checks = plugin("checks", check_result=check_result)
    async with open_bench(
        hilum_shell, checks, answers=answers, workspace=tmp_path, faults=not works
    ) as kit:
        result = await stopped(kit, "ready\n")
    assert "problem" not in result.text.removeprefix(f"{E_STOPPED}: `run_terminal_cmd {COMMAND}`")
    assert ("[gone]" in result.text) == works
    assert ("first\nready" in result.text) == works


async def test_a_check_that_takes_too_long_withholds_it(tmp_path, mock_clock) -> None:
    """A stop does not wait for it."""
    mock_clock.rate = 1.0
    reached = trio.Event()

    @hookimpl
    async def check_result() -> None:
        reached.set()
        await trio.sleep_forever()

    answers = [use("run_terminal_cmd", command=COMMAND), "here"]
    checks = plugin("checks", check_result=check_result)
    async with (
        open_bench(hilum_shell, checks, answers=answers, workspace=tmp_path) as kit,
        trio.open_nursery() as nursery,
    ):

        async def hasten() -> None:
            await reached.wait()
            mock_clock.jump(1.0)

        nursery.start_soon(hasten)
        result = await stopped(kit, "ready\n")
    assert result.code == E_STOPPED
    assert "Its output so far" not in result.text
