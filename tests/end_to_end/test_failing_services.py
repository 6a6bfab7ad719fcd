"""Plugins whose services fail while the result of a run is put together."""

import pytest

SOURCE = """
from hilum import hookimpl

class Commands:
    keep_running = "yes"
    def running(self):
        raise ValueError("no list")
    def move_waiting(self):
        raise ValueError("no list")

class Plans:
    def proposal(self, agent="main"):
        raise ValueError("no plan")
    left_over = progress = accept = reject = proposal

@hookimpl
async def open_session(session):
    yield KIND()
"""


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("kind", ["Commands", "Plans"])
async def test_a_failing_service_does_not_lose_the_answer(cli, kind):
    """The answer is shown, the run is completed, and the failure is reported."""
    file = cli.folder / "failing.py"
    file.write_text(SOURCE.replace("KIND", kind))
    own = "shell" if kind == "Commands" else "plan"
    async with cli.model("The answer."):
        done = await cli("run", "hi", "--no-plugin", own, "--plugin", str(file))
    assert done.code == 0, done
    assert "The answer." in done.out
    assert "failed: ValueError: no " in done.err
    assert "Traceback" not in done.err


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("kind", ["Commands", "Plans"])
async def test_hilums_own_services_precede_those_of_other_plugins(cli, kind):
    """The services of another plugin are not even called."""
    file = cli.folder / "failing.py"
    file.write_text(SOURCE.replace("KIND", kind))
    async with cli.model("The answer."):
        done = await cli("run", "hi", "--plugin", str(file))
    assert done.code == 0, done
    assert "ValueError" not in done.err
