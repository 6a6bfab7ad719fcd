"""The Git status is read while a session opens, if a prompt follows at once."""

import hilum_context
import hilum_guard
import hilum_lint
import pytest
import trio
import trio.testing
from hilum import hookimpl, tool
from hilum.processes import CommandError
from hilum.testing import open_bench, use
from hilum_context import SessionContext, git, session_context

STATUS = git.GitStatus(branch="early", commit="1" * 40)


@pytest.fixture
def reads(monkeypatch):
    """The times at which the status was read."""
    found = []

    async def read(session, top, begun=None):
        found.append(trio.current_time())
        return STATUS

    monkeypatch.setattr(git, "read_status", read)
    monkeypatch.setattr(git, "find_repository", lambda session, policy: "/")
    return found


def open_context(**options):
    return open_bench(hilum_context, hilum_lint, hilum_guard, answers=["one", "two"], **options)


async def read_early(b):
    """Read the status, as before a prompt that follows at once."""
    context = b.session.plugin(SessionContext)
    await context.read_status_early()
    if context._early is not None:
        await context._early._ended.wait()


async def test_a_status_that_was_read_early_serves_one_prompt(reads):
    async with open_context() as b:
        assert not reads
        await read_early(b)
        assert len(reads) == 1
        await b.run("hello")
        assert len(reads) == 1
        assert b"early" in b.requests[-1].body
        await b.run("again")
        assert len(reads) == 2


async def test_an_old_status_is_read_anew(reads):
    async with open_context() as b:
        context = b.session.plugin(SessionContext)
        await read_early(b)
        context._early._began -= git.MAX_AGE
        await b.run("hello")
        assert len(reads) == 2


async def test_nothing_is_read_early_without_the_environment(reads):
    async with open_context(settings={"context.environment": False}) as b:
        await read_early(b)
        assert not reads


async def test_a_status_that_fails_early_is_read_again(reads, monkeypatch):
    """The failure neither stops the plugin nor hides the status."""
    works = git.read_status

    async def fail(session, top, begun):
        raise CommandError("no")

    async with open_context() as b:
        monkeypatch.setattr(git, "read_status", fail)
        await read_early(b)
        monkeypatch.setattr(git, "read_status", works)
        await b.run("hello")
        assert len(reads) == 1
        assert b"early" in b.requests[-1].body


async def test_a_session_opens_when_git_has_been_started(reads, monkeypatch):
    """The rest of the session opens while Git runs."""
    may_start = trio.Event()

    async def read(session, top, begun):
        await may_start.wait()
        begun.set()
        await trio.sleep_forever()

    monkeypatch.setattr(git, "read_status", read)
    monkeypatch.setattr(session_context, "BEGIN_SECONDS", 30)
    async with open_context() as b:
        opened = trio.Event()

        async def open_early():
            await b.session.plugin(SessionContext).read_status_early()
            opened.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(open_early)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert not opened.is_set()
            may_start.set()
            with trio.fail_after(10):
                await opened.wait()


async def test_a_session_opens_although_git_does_not_start(reads, monkeypatch):
    async def read(session, top, begun):
        await trio.sleep_forever()

    monkeypatch.setattr(git, "read_status", read)
    monkeypatch.setattr(session_context, "BEGIN_SECONDS", 0.01)
    async with open_context() as b:
        with trio.fail_after(10):
            await b.session.plugin(SessionContext).read_status_early()


async def test_a_late_status_joins_the_next_turn(reads, monkeypatch):
    """The first request does not wait for Git; the model reads the status after its calls."""
    ready = trio.Event()

    async def read(session, top, begun):
        await ready.wait()
        return STATUS

    @tool(risk="read")
    async def finish() -> str:
        """Let Git finish."""
        ready.set()
        await b.session.plugin(SessionContext)._late["main"]._ended.wait()
        return "finished"

    @tool(risk="read")
    async def again() -> str:
        """Do nothing."""
        return "nothing"

    class Tools:
        @hookimpl
        def provide_tools(self):
            return [finish, again]

    monkeypatch.setattr(git, "read_status", read)
    async with open_bench(
        hilum_context,
        hilum_lint,
        hilum_guard,
        Tools(),
        answers=[use("finish"), use("again"), "done"],
        settings={"context.git_timeout": 0.01},
    ) as b:
        await b.run("hello")
        first, second, *_ = (request.body.decode() for request in b.requests)
        assert "Date: " in first
        assert "branch early" not in first
        assert "Git, read after the prompt: branch early, clean" in second
        # It is said once, and what was sent before stays as it was.
        assert b.requests[-1].body.decode().count("branch early") == 1
