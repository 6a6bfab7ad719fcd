"""A command of another agent in every face: ``hilum run``, the terminal, the server and an editor."""

import pytest
from acp_editor import EVERYTHING, open_editor
from hilum.trust import TrustedFolders

GREET = """---
description: Greets somebody
argument-hint: [name]
---
Greet $1.

Facts: !`echo shell-$1`
"""
READY = "ready · agent"


@pytest.fixture(autouse=True)
def project(cli):
    """A project with a command of Claude Code, and a key for the scripted model."""
    file = cli.workspace / ".claude/commands/greet.md"
    file.parent.mkdir(parents=True)
    file.write_text(GREET)
    cli.env["OPENAI_API_KEY"] = "k"
    TrustedFolders(cli.folder / "config").add(cli.workspace)


class Seen:
    """A model that remembers what it reads."""

    def __init__(self):
        self.requests = []

    def __call__(self, request):
        self.requests.append(request.body.decode())
        return "Greeted."

    def check(self):
        text = self.requests[-1]
        assert "Greet Ada.\\n\\nFacts: [attached 1]" in text
        assert "$ echo shell-Ada\\nshell-Ada" in text


async def test_hilum_run(cli):
    seen = Seen()
    async with cli.model(seen):
        done = await cli("run", "/greet Ada")
        assert (done.code, done.out) == (0, "Greeted.\n"), done.err
        seen.check()
        refused = await cli("run", "--approve", "readonly", "/greet Ada")
        assert refused.code == 2
        assert "E_DENIED: /greet was not sent." in refused.err
        assert "read-only" in refused.err
        assert len(seen.requests) == 1
    listed = await cli("commands")
    assert "/greet [name]  (.claude/commands)\n    Greets somebody" in listed.out


async def test_the_terminal(cli):
    seen = Seen()
    async with cli.model(seen), cli.on_screen() as screen:
        await screen.wait_for(READY)
        await screen.type("/gre")
        await screen.wait_for("Greets somebody")
        await screen.type("et Ada\r")
        await screen.wait_for("Greeted.")
        seen.check()
        await screen.type("/greet '`id`'\r")
        await screen.wait_until(lambda: len(seen.requests) == 2)
        assert "$ echo shell-'`id`'\\nshell-`id`" in seen.requests[-1]


async def test_an_editor(cli):
    seen = Seen()
    async with cli.model(seen), open_editor(cli) as editor:
        await editor.initialize(**EVERYTHING)
        opened = await editor.request("session/new", cwd=str(cli.workspace), mcpServers=[])
        session = opened["sessionId"]
        assert (await editor.prompt(session, "/greet Ada"))["stopReason"] == "end_turn"
        seen.check()
        commands = editor.of("available_commands_update")[0]["availableCommands"]
        (greet,) = [each for each in commands if each["name"] == "greet"]
        assert greet == {
            "name": "greet",
            "description": "Greets somebody",
            "input": {"hint": "[name]"},
        }
