"""Errors that plugins report after a run and while the session closes."""

import pytest

SOURCE = """
from hilum import hookimpl
from hilum.events import ErrorRaised

@hookimpl
async def open_session(session):
    yield object()
    session.emit(ErrorRaised(code="E_FAILED", message="Nothing was sent.", hint="Look at it."))
"""


@pytest.fixture
def late(cli):
    file = cli.folder / "late.py"
    file.write_text(SOURCE)
    return str(file)


async def test_a_run_shows_an_error_that_is_found_while_the_session_closes(cli, late):
    async with cli.model("The answer."):
        done = await cli("run", "hi", "--plugin", late)
    assert (done.code, done.out) == (0, "The answer.\n")
    assert "! Nothing was sent. Look at it." in done.err


async def test_the_terminal_shows_an_error_that_is_found_while_the_session_closes(cli, late):
    async with (
        cli.model("The answer."),
        cli.on_screen("--plugin", late) as screen,
    ):
        await screen.wait_for("ready")
        await screen.type("hi\r")
        await screen.wait_for("The answer.")
        await screen.type("/exit\r")
        await screen.wait_for("E_FAILED: Nothing was sent.")
        await screen.wait_for("Look at it.")
        assert await screen.end() == 0
