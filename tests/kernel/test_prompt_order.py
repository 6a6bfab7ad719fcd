"""Prompts keep the order in which they were given.

A run that is tried again begins at its own events; kinds are checked.
"""

import pytest
import trio
import trio.testing
from hilum import ModelError, UsageError, hookimpl, open_kernel, open_standard_session
from hilum.events import PromptQueued, RunRetried
from hilum.hookspecs import Interpretation
from hilum.testing import open_bench


async def test_a_short_prompt_does_not_overtake_a_long_one() -> None:
    """The long one is searched for secrets in a thread, the short one at once."""
    async with open_bench("guard", answers=["a", "b"]) as bench:
        queued = trio.Event()

        async def prompt_long() -> None:
            await bench.session.prompt("first " + "lorem ipsum " * 20_000)
            queued.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(prompt_long)
            await trio.testing.wait_all_tasks_blocked()
            assert not queued.is_set()
            await bench.session.prompt("second")
        assert [event.text[:6] for event in bench.of(PromptQueued)] == ["first ", "second"]


async def test_a_refused_prompt_holds_up_no_later_one() -> None:
    """A prompt for an agent that does not exist, then one that is right."""
    async with open_bench(answers=["a"]) as bench:
        with pytest.raises(UsageError):
            await bench.session.prompt("first", agent="nobody")
        assert (await bench.session.run("second")).state == "completed"


class Nested:
    """Prompts while it reads a prompt."""

    @hookimpl
    async def interpret_prompt(self, session, text) -> Interpretation | None:
        if text != "outer":
            return None
        await session.prompt("inner")
        return Interpretation("outer, rewritten")


async def test_a_plugin_may_prompt_while_it_reads_a_prompt() -> None:
    """The inner prompt does not wait for the outer one, which waits for it."""
    async with open_bench(Nested(), answers=["a", "b"]) as bench:
        with trio.fail_after(30):
            await bench.session.run("outer")
        assert [event.text for event in bench.of(PromptQueued)] == ["inner", "outer, rewritten"]


async def test_a_retried_run_shows_its_own_events() -> None:
    """Not the session from its beginning, with questions that were answered long ago."""
    async with open_bench(answers=["one", ModelError("no", kind="auth"), "two"]) as bench:
        await bench.session.run("one")
        await bench.session.run("two")
        before = bench.session.journal.last
        run = await bench.session.retry()
        seen = [event async for event in run.events()]
        assert run.after == before
        assert isinstance(seen[0], RunRetried)


async def test_a_run_is_tried_again_once() -> None:
    """The second of two tasks that retry at once is refused."""
    async with open_bench(answers=[ModelError("no", kind="auth"), "two"]) as bench:
        await bench.session.run("one")
        refused = []

        async def retry() -> None:
            try:
                await (await bench.session.retry()).wait()
            except UsageError as error:
                refused.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(retry)
            nursery.start_soon(retry)
        assert len(refused) == 1


async def test_an_unknown_kind_of_session_is_refused(tmp_path) -> None:
    """By both ways to open one."""
    async with open_kernel(["store"]) as kernel:
        with pytest.raises(UsageError, match="'Headless'"):
            async with kernel.open_session(tmp_path, kind="Headless"):
                pass
    with pytest.raises(UsageError, match="'shard'"):
        async with open_standard_session(tmp_path, kind="shard", needs_model=False):
            pass
