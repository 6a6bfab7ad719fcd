"""A rate limit in the terminal: the wait is counted down, and Esc ends it."""

import pytest
from hilum.messages import AssistantMessage, Text
from hilum_replay import Fault, serve

READY = "ready · agent"


def limit(seconds):
    return Fault(status=429, headers={"retry-after": str(seconds)}, message="Slow down.")


@pytest.fixture(autouse=True)
def key(cli):
    cli.env |= {"OPENAI_API_KEY": "k", "HILUM_MODEL": "openai/scripted"}


async def test_a_rate_limit_is_waited_out_several_times(cli):
    answer = AssistantMessage((Text("Here it is.", "model"),), stop="end")
    async with serve(lambda request: answer, faults=[limit(1), limit(0)]) as server:
        cli.env["OPENAI_BASE_URL"] = f"{server.url}/v1"
        async with cli.on_screen() as screen:
            await screen.wait_for(READY)
            await screen.type("hi\r")
            await screen.wait_for("Slow down.; again in 1 s")
            await screen.wait_for("retry 2 in 1 s")
            # The provider's time has passed twice in vain, so hilum waits longer.
            await screen.wait_for("Slow down.; again in 4 s")
            await screen.wait_for("retry 3 in 3 s")
            await screen.wait_for("retry 3 in 2 s")
            await screen.wait_for("Here it is.")
        assert server.count == 3


async def test_esc_ends_the_wait(cli):
    async with serve(lambda request: "Never.", faults=[limit(100)]) as server:
        cli.env["OPENAI_BASE_URL"] = f"{server.url}/v1"
        async with cli.on_screen() as screen:
            await screen.wait_for(READY)
            await screen.type("hi\r")
            await screen.wait_for("retry 2 in 99 s")
            await screen.type("\x1b")
            await screen.wait_for("/continue continues this run.")
            await screen.wait_for(READY)
        assert server.count == 1
