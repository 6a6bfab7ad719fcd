"""Opening is cancelled at every step: it never hangs, and whatever was opened is closed, once."""

import random
from contextlib import asynccontextmanager

import pytest
import trio
from hilum import hookimpl, open_kernel, open_standard_session
from hilum.store import MemoryStore
from hilum.testing import ModelProvider, ScriptedModel, plugin

STANDARD_STEPS = 12
"""Instants at which the standard session is cancelled here."""


class Canceller(trio.abc.Instrument):
    """Cancels a scope at the n-th step that any task makes."""

    def __init__(self, scope, step):
        self.scope, self.left = scope, step

    def before_task_step(self, task):
        self.left -= 1
        if self.left == 0:
            self.scope.cancel()


class Book:
    """What was opened and closed, in order."""

    def __init__(self):
        self.opened, self.closed = [], []

    @asynccontextmanager
    async def kept(self, name):
        self.opened.append(name)
        try:
            yield
            await trio.lowlevel.checkpoint()
        finally:
            self.closed.append(name)

    def plugin(self, name, *, waits=True):
        """A plugin with both lifespans, a nursery, and checkpoints on the way (or none)."""

        async def opens_kernel():
            async with self.kept(f"{name} kernel"):
                if waits:
                    await trio.lowlevel.checkpoint()
                yield None

        async def opens_session():
            async with self.kept(f"{name} session"), trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                if waits:
                    await trio.lowlevel.checkpoint()
                yield None
                nursery.cancel_scope.cancel()

        return plugin(name, open_kernel=opens_kernel, open_session=opens_session)

    def store(self):
        """A plugin that provides a store, and takes its time."""

        class Kept(MemoryStore):
            async def close(inner):
                self.closed.append("store")
                await super().close()

        async def provide_store():
            await trio.lowlevel.checkpoint()
            self.opened.append("store")
            return Kept()

        return plugin("store", provide_store=provide_store)


def cancelled_at(step, function):
    """Run a function that is cancelled at a step; returns whether that came before its end."""

    async def main():
        with trio.fail_after(60), trio.CancelScope() as scope:
            canceller = Canceller(scope, step)
            trio.lowlevel.add_instrument(canceller)
            try:
                await function()
            finally:
                trio.lowlevel.remove_instrument(canceller)
        return canceller.left <= 0

    return trio.run(main)


@pytest.mark.parametrize("outer", [False, True])
def test_opening_is_cancelled_at_every_step(tmp_path, outer):
    """From the first step to the last, of every task; also in a nursery of the caller's."""
    step, again = 0, True
    while again:
        step += 1
        book = Book()
        plugins = [
            book.plugin("one"),
            book.plugin("two", waits=False),
            book.store(),
            book.plugin("three"),
        ]

        async def opening(plugins=plugins):
            async with open_kernel(plugins, environ={}) as kernel, kernel.open_session(tmp_path):
                await trio.lowlevel.checkpoint()

        async def inside(opening=opening):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(opening)

        again = cancelled_at(step, inside if outer else opening)
        assert sorted(book.opened) == sorted(book.closed), f"step {step}"
    assert step > 30
    assert len(book.opened) == 7


def test_a_deadline_at_any_moment_ends_the_opening(tmp_path):
    """As ``trio.move_on_after`` does it, with plugins that take their time."""
    seeds = random.Random(7)
    for _ in range(25):
        book = Book()
        plugins = [book.plugin("one"), book.plugin("two", waits=False), book.store()]

        async def main(seconds, plugins=plugins):
            with trio.fail_after(60), trio.move_on_after(seconds):
                async with (
                    open_kernel(plugins, environ={}) as kernel,
                    kernel.open_session(tmp_path),
                ):
                    await trio.sleep_forever()

        trio.run(main, seeds.uniform(0, 0.006))
        assert sorted(book.opened) == sorted(book.closed)


class Scripted:
    @hookimpl
    def provide_models(self):
        return [ModelProvider({"model": ScriptedModel(["ok"])})]


def standard(folder):
    """Open the standard session with everything that is installed, and a store in a file."""

    async def opening():
        async with open_standard_session(
            folder / "workspace",
            model="scripted/model",
            extra_plugins=[Scripted()],
            environ={"HOME": str(folder / "home"), "PATH": "/usr/bin:/bin"},
        ) as session:
            await session.run("Hello.")

    return opening


@pytest.fixture
def folder(tmp_path):
    """A home and a workspace."""
    for name in ("home", "workspace"):
        (tmp_path / name).mkdir()
    return tmp_path


def test_the_standard_session_is_cancelled_with_all_plugins(folder):
    """At steps by chance, each in a process's own loop: nothing hangs, and no session stays open
    elsewhere.
    """
    opening = standard(folder)
    last = 0
    seeds = random.Random(11)
    while cancelled_at(last := last + 400, opening):
        pass
    for step in sorted(seeds.sample(range(1, last), STANDARD_STEPS)):
        cancelled_at(step, opening)

    async def leases():
        async with open_kernel(["store"], environ={"HOME": str(folder / "home")}) as kernel:
            for info in await kernel.store.list(str(folder / "workspace")):
                await (
                    await kernel.store.open(info.id)
                ).close()  # raises where another one has it open

    trio.run(leases)
