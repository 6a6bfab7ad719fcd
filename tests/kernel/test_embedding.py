"""A kernel inside programs that do not run trio: asyncio and plain code."""

import asyncio
import threading

import hilum
import pytest
import trio
from hilum.events import CallStarted, RunEnded
from hilum.store import MemoryStore
from hilum.testing import ModelProvider, ScriptedModel, plugin, use


class Models:
    """A plugin that provides one scripted model."""

    def __init__(self, *answers):
        self.model = ScriptedModel(answers)

    @hilum.hookimpl
    def provide_models(self):
        return [ModelProvider({"model": self.model})]


def options(*answers):
    """What every kernel here is opened with."""
    return {"model": "scripted/model", "store": MemoryStore(), "environ": {}}, Models(*answers)


@pytest.fixture
def in_asyncio():
    """Run a coroutine function on an asyncio loop, which must not take longer than a minute."""

    def run(function):
        return asyncio.run(asyncio.wait_for(function(), 60))

    return run


def test_asyncio_program_runs_reads_and_uses_its_own_tool(in_asyncio, tmp_path):
    """The tool runs on the caller's loop, events come in order, the result is the run's."""
    named, models = options(use("stock", item="nuts"), "12 nuts.")

    async def main():
        loop = asyncio.get_running_loop()

        @hilum.aio.tool(risk="read", effect="pure")
        async def stock(item: str) -> str:
            """Count.

            Args:
                item: What.
            """
            assert asyncio.get_running_loop() is loop
            return f"12 {item}"

        async with (
            hilum.aio.open_kernel([models, plugin("shop", stock)], **named) as kernel,
            kernel.open_session(str(tmp_path)) as session,
        ):
            ended = await session.run("How many?")
            seen = []
            async for event in session.events():
                seen.append(event.seq)
                if isinstance(event, RunEnded):
                    break
            return ended, seen

    ended, seen = in_asyncio(main)
    assert (ended.state, ended.text) == ("completed", "12 nuts.")
    assert seen == list(range(1, len(seen) + 1))


def test_cancelling_an_asyncio_task_stops_the_run_and_waits_for_that(in_asyncio, tmp_path):
    """When the cancelled task is over, the run has ended and the tool's coroutine has cleaned up."""
    named, models = options(use("slow"))
    log = []

    async def main():
        @hilum.aio.tool(risk="read")
        async def slow() -> str:
            """Take long."""
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                await asyncio.sleep(0.05)
                log.append("cleaned up")
                raise
            return "never"

        async with (
            hilum.aio.open_kernel([models, plugin("shop", slow)], **named) as kernel,
            kernel.open_session(str(tmp_path)) as session,
        ):
            task = asyncio.create_task(session.run("Go."))
            async for event in session.events():
                if isinstance(event, CallStarted):
                    break
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert log == ["cleaned up"]
            return session.agents["main"].conversation.state

    assert in_asyncio(main) == "stopped"


def test_errors_reach_asyncio_as_they_are(in_asyncio, tmp_path):
    """No exception group, no wrapper: the error that a trio program would see."""
    named, models = options()

    async def main():
        async with hilum.aio.open_kernel([models], **named) as kernel:
            with pytest.raises(hilum.UsageError, match="does not exist"):
                async with kernel.open_session(str(tmp_path / "missing")):
                    pass

    in_asyncio(main)


def test_plain_code_runs_reads_answers_and_stops(tmp_path):
    """Every command has a blocking form, and the trio thread is gone afterwards."""

    @hilum.tool(risk="write")
    async def write() -> str:
        """Write."""
        return "written"

    @hilum.tool(risk="read")
    async def wait() -> str:
        """Wait."""
        await trio.sleep_forever()
        return "never"

    named, models = options(use("write"), "Done.", use("wait"))
    with (
        hilum.blocking.open_kernel([models, plugin("tools", write, wait)], **named) as kernel,
        kernel.open_session(str(tmp_path)) as session,
    ):
        run = session.prompt("Write.")
        for event in session.events():
            if type(event).__name__ == "ApprovalAsked":
                session.answer(event.id, True)
            if isinstance(event, RunEnded):
                break
        assert run.wait().text == "Done."
        before = session.journal.last  # and not after the prompt: the call may have started by then
        run = session.prompt("Wait.")
        for event in session.events(before):
            if isinstance(event, CallStarted):
                break
        run.stop()
        assert run.wait().state == "stopped"
    assert not [thread for thread in threading.enumerate() if thread.name == "hilum"]
