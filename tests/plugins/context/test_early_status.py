"""The Git status is read while a session opens, if a prompt follows at once."""

import hilum_context
import hilum_guard
import hilum_lint
import pytest
import trio
from hilum.processes import CommandError
from hilum.testing import open_bench
from hilum_context import SessionContext, git

STATUS = git.GitStatus(branch="early", commit="1" * 40)


@pytest.fixture
def reads(monkeypatch):
    """The times at which the status was read."""
    found = []

    async def read(session, top):
        found.append(trio.current_time())
        return STATUS

    monkeypatch.setattr(git, "read_status", read)
    monkeypatch.setattr(git, "find_repository", lambda session, policy: "/")
    return found


def open_context(**options):
    return open_bench(hilum_context, hilum_lint, hilum_guard, answers=["one", "two"], **options)


async def test_a_status_that_was_read_early_serves_one_prompt(reads):
    async with open_context() as b:
        assert not reads
        await b.session.plugin(SessionContext).read_status_early()
        assert len(reads) == 1
        await b.run("hello")
        assert len(reads) == 1
        assert b"early" in b.requests[-1].body
        await b.run("again")
        assert len(reads) == 2


async def test_an_old_status_is_read_anew(reads):
    async with open_context() as b:
        context = b.session.plugin(SessionContext)
        await context.read_status_early()
        context._early._began -= git.MAX_AGE
        await b.run("hello")
        assert len(reads) == 2


async def test_nothing_is_read_early_without_the_environment(reads):
    async with open_context(settings={"context.environment": False}) as b:
        await b.session.plugin(SessionContext).read_status_early()
        assert not reads


async def test_a_status_that_fails_early_is_read_again(reads, monkeypatch):
    """The failure neither stops the plugin nor hides the status."""
    works = git.read_status

    async def fail(session, top):
        raise CommandError("no")

    async with open_context() as b:
        monkeypatch.setattr(git, "read_status", fail)
        await b.session.plugin(SessionContext).read_status_early()
        monkeypatch.setattr(git, "read_status", works)
        await b.run("hello")
        assert len(reads) == 1
        assert b"early" in b.requests[-1].body
