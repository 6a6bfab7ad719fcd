"""A server that asks the model, while a session is recorded and while its cassette is replayed."""

import json
from typing import Any

import hilum_plan
import pytest
import trio
import trio.lowlevel
from hilum.events import CallDone, ModelUsed
from hilum.testing import Bench, say, use
from hilum_plan import Plan
from hilum_replay import CassetteModel, dumps, loads, record

from .conftest import Opened, known, plain
from .test_mcp_calls import answering


async def sampled(kit: Bench) -> Any:
    """Let the model call a tool whose server asks the model.

    Returns the server's answer, and the agent's.
    """
    await known(kit)
    assert kit.session.plugin(Plan) is not None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(answering, kit, {"Say hello.": "Yes, this once"})
        await trio.lowlevel.checkpoint()
        ended = await kit.run("go")
        nursery.cancel_scope.cancel()
    return json.loads(kit.of(CallDone)[0].result.text), ended.text


@pytest.mark.parametrize("beside", ["", "You are terse.\nBe kind."])
async def test_what_a_server_asked_the_model_is_played_again(servers: Opened, beside: str) -> None:
    described = {"plain": plain(*([f"system={beside}"] if beside else []))}
    answers = [use("plain__sample", about="x"), say("Hello."), say("Done.")]
    async with servers(described, hilum_plan, answers=answers) as kit:
        first = await sampled(kit)
        sent = kit.requests[1]
        events = list(await kit.kernel.store.read(kit.session.id))
        (used,) = kit.of(ModelUsed)
    assert first[0]["content"]["text"] == "Hello."
    assert "MCP server plain" in sent.layers[0].text
    assert sent.layers[0].text.endswith(beside)
    assert (used.purpose, used.message and used.message.text) == ("mcp plain", "Hello.")

    cassette = loads(dumps(record(events)))
    assert [exchange.agent for exchange in cassette.exchanges] == ["main", "main/mcp plain", "main"]
    model = CassetteModel(cassette, name="scripted/model")
    async with servers(described, hilum_plan, model=model) as kit:
        assert await sampled(kit) == first
        assert model.playback(kit.session.id).left == 0
