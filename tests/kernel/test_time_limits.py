"""Time limits that bind: whatever a tool does, its call ends soon after its limit, and the session
goes on.
"""

import signal
import threading

import pytest
import trio
from hilum import tool
from hilum.errors import E_PLUGIN, E_TIMEOUT
from hilum.events import CallDone, CallStarted, PluginFault
from hilum.testing import plugin, use


class Stubborn:
    """Tools that do not heed their limit, each in another way.

    ``release`` lets them end, so that the test can.
    """

    def __init__(self):
        self.release = threading.Event()
        self.freed = trio.Event()

    def plugin(self):
        @tool(risk="read", timeout=2)
        async def shield() -> str:
            """Shield itself."""
            with trio.CancelScope(shield=True):
                await self.freed.wait()
            return "a normal result"

        @tool(risk="read", timeout=2)
        async def thread() -> str:
            """Sit in a thread."""
            await trio.to_thread.run_sync(self.release.wait)
            return "a normal result"

        @tool(risk="read", timeout=2)
        async def swallow() -> str:
            """Swallow its cancellation, and go on."""
            try:
                await trio.sleep_forever()
            except trio.Cancelled:
                with trio.CancelScope(shield=True):
                    await self.freed.wait()
            return "a normal result"

        @tool(risk="read", timeout=2)
        async def late() -> str:
            """Swallow its cancellation, and return."""
            try:
                await trio.sleep_forever()
            except trio.Cancelled:
                return "a normal result"

        return plugin("stubborn", shield, thread, swallow, late)


@pytest.fixture
async def stubborn():
    """Release the tools at the end: a test that failed would otherwise wait for them forever."""
    tools = Stubborn()
    yield tools
    tools.release.set()
    tools.freed.set()


@pytest.mark.parametrize("name", ["shield", "swallow"])
async def test_a_call_that_ignores_its_limit_is_left_behind(bench, stubborn, autojump_clock, name):
    """The model reads E_TIMEOUT, the plugin is charged, the sibling and the next turn are as
    always.
    """
    kit = await bench(stubborn.plugin(), answers=[use(name), use("late"), "ok"], faults=True)
    began = trio.current_time()
    assert (await kit.run("x")).state == "completed"
    assert [result.code for result in kit.results] == [E_TIMEOUT, E_TIMEOUT]
    assert all("normal" not in result.text for result in kit.results)
    assert "was abandoned" in kit.results[0].text
    assert trio.current_time() - began <= 10
    fault = kit.of(PluginFault)[0]
    assert (fault.plugin, fault.hook) == ("stubborn", f"tool {name}")
    stubborn.freed.set()


async def test_a_thread_that_does_not_end_is_left_behind(bench, stubborn):
    """Nothing can end a thread: the call is over all the same."""
    stubborn.plugin()
    kit = await bench(stubborn.plugin(), answers=[use("thread"), "ok"], faults=True)
    assert (await kit.run("x")).state == "completed"
    assert kit.results[0].code == E_TIMEOUT
    stubborn.release.set()


async def test_stop_and_closing_do_not_wait_for_it(bench, stubborn, autojump_clock):
    """A run with such a call is stopped, and its session closed, within moments."""
    kit = await bench(stubborn.plugin(), answers=[use("shield"), "ok", use("shield")], faults=True)
    run = await kit.start("x")
    await kit.wait_for(CallStarted)
    began = trio.current_time()
    run.stop()
    with kit.guard():
        assert (await run.wait()).state == "stopped"
    assert trio.current_time() - began <= 5
    stubborn.freed.set()


async def test_closing_a_session_is_bounded(autojump_clock, tmp_path, stubborn):
    """The session closes while a tool shields itself."""
    from hilum.testing import open_bench

    began = 0.0
    async with open_bench(
        stubborn.plugin(), answers=[use("shield")], faults=True, folder=tmp_path
    ) as kit:
        await kit.start("x")
        await kit.wait_for(CallStarted)
        began = trio.current_time()
    assert trio.current_time() - began <= 15
    stubborn.freed.set()


async def test_a_tool_that_blocks_gives_no_late_result(bench):
    """A blocked event loop cannot be interrupted.

    What comes out of it then is E_TIMEOUT and a fault.
    """
    import time

    @tool(risk="read", timeout=0.1)
    def block() -> str:
        """Block."""
        time.sleep(1.3)
        return "a normal result"

    kit = await bench(plugin("tools", block), faults=True)
    result = await kit.call("block")
    assert result.code == E_TIMEOUT
    assert "normal" not in result.text
    assert [fault.hook for fault in kit.of(PluginFault)] == ["tool block"]


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt("mine"),
        SystemExit(3),
        BaseExceptionGroup("several", [SystemExit(3), ValueError("x")]),
        BaseExceptionGroup("several", [KeyboardInterrupt(), KeyboardInterrupt()]),
        GeneratorExit(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_what_ends_programs_ends_only_the_call(bench, error):
    """A tool that raises what ends programs is a plugin at fault; its sibling and the run go on."""

    @tool(risk="read")
    async def end() -> str:
        """End the program."""
        raise error

    @tool(risk="read")
    def count() -> str:
        """Count."""
        return "1"

    kit = await bench(
        plugin("tools", end, count), answers=[use("end") + use("count"), "ok"], faults=True
    )
    assert (await kit.run("x")).state == "completed"
    assert [result.code for result in kit.results] == [E_PLUGIN, ""]
    assert kit.of(PluginFault)[0].plugin == "tools"


def test_ctrl_c_still_ends_the_program(tmp_path):
    """A real SIGINT during a call is no fault of the tool: it reaches whoever runs the session."""
    from hilum.testing import open_bench

    @tool(risk="read")
    async def wait() -> str:
        """Wait, in tasks of its own, until the user has had enough."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            signal.raise_signal(signal.SIGINT)
        return "never"

    async def main():
        async with open_bench(
            plugin("tools", wait), answers=[use("wait"), "ok"], folder=tmp_path, faults=True
        ) as kit:
            await kit.run("x")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises((KeyboardInterrupt, BaseExceptionGroup)) as raised:
            trio.run(main)
    finally:
        signal.signal(signal.SIGINT, before)
    group = raised.value
    assert isinstance(group, KeyboardInterrupt) or group.subgroup(KeyboardInterrupt) is not None


async def test_cooperating_tools_are_no_fault(bench, autojump_clock):
    """A tool that ends when it is cancelled is charged with nothing."""

    @tool(risk="read", timeout=5)
    async def slow() -> str:
        """Take long, and clean up."""
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.5)
        return "never"

    kit = await bench(plugin("tools", slow))
    assert (await kit.call("slow")).code == E_TIMEOUT
    assert kit.of(CallDone)[0].seconds == pytest.approx(5.5)
    assert kit.of(PluginFault) == []
