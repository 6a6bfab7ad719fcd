"""``hilum run`` and ``hilum memory``: what one run is told, the next one knows."""

import json

from hilum.messages import AssistantMessage, Text
from hilum_replay import Answer


async def test_what_is_remembered_after_a_run_is_shown_and_known_in_the_next(cli):
    """The answer is there before; the line comes while the session closes."""
    found = {"text": "Always use uv.", "quote": "always use uv", "kind": "preference"}
    answer = AssistantMessage((Text(json.dumps({"memories": [found]}), "model"),))
    async with (
        cli.model("Installed.", Answer(answer, seconds=0.3)) as server,
        cli.on_terminal("run", "Install x; we always use uv.") as terminal,
    ):
        await terminal.see("Installed.")
        await terminal.see("memory: remembered [1] Always use uv. (hilum memory forget 1)")
        assert await terminal.end() == 0
        assert len(server.requests) == 2
    async with cli.model("ok") as server:
        done = await cli("run", "Install y with uv")
        assert "memory: recalled 1 (hilum memory show 1)" in done.err
        assert b"preference: Always use uv." in server.bodies[0]
    listed = await cli("memory", "list", "--json")
    (memory,) = json.loads(listed.out)["memories"]
    assert (memory["text"], memory["origin"]) == ("Always use uv.", "run")


async def test_a_script_writes_no_memories_and_is_told_so(cli):
    """Nobody is there, and the prompt may be made of anything."""
    async with cli.model("ok") as server:
        done = await cli("run", "Remember that we always use uv.")
    assert "Sessions of the kind headless write no memories." in done.err
    assert len(server.requests) == 1
    assert json.loads((await cli("memory", "--json")).out)["memories"] == []


async def test_what_is_slow_is_given_up_when_the_session_closes(cli):
    """The command returns all the same."""
    slow = Answer(
        AssistantMessage((Text(json.dumps({"memories": []}), "model"),)), first=60, seconds=60
    )
    async with (
        cli.model("Installed.", slow),
        cli.on_terminal("run", "Install x; we always use uv.") as terminal,
    ):
        await terminal.see("Installed.")
        assert await terminal.end() == 0
