"""Servers of a project: the user is asked in the session, about this definition, and only where there is trust."""

import json
from pathlib import Path
from typing import Any

import hilum_plan
import pytest
import trio
import trio.lowlevel
from hilum.events import CallDone
from hilum.testing import Bench, say, use
from hilum_guard import Trust
from hilum_mcp import sources
from hilum_plan import question_asked

from .conftest import Opened, half, plain, server_pids, until
from .test_mcp_calls import answering


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that describes a server."""
    monkeypatch.setenv("HILUM_CONFIG", str(tmp_path / "bench" / "config"))
    root = tmp_path / "project"
    root.mkdir()
    describe(root, plain(f"count={tmp_path}/count"))
    return root


def describe(root: Path, server: dict[str, Any]) -> None:
    (root / ".mcp.json").write_text(json.dumps({"mcpServers": {"plain": server}}))


def asked(kit: Bench) -> list[str]:
    return [question.question for event in kit.events if (question := question_asked(event))]


async def test_a_server_that_is_approved_in_the_session_serves_in_it(
    servers: Opened, tmp_path: Path, project: Path
) -> None:
    answers = [say("hello"), use("call_tool", name="plain__echo", arguments={"call": "1"}), say("done")]
    Trust().add(project)
    async with servers({}, hilum_plan, workspace=project, answers=answers) as kit, trio.open_nursery() as nursery:
        assert half(kit).rows()[0].state == "unapproved"
        nursery.start_soon(answering, kit, {"wants to start a program": "Yes, start it"})
        await trio.lowlevel.checkpoint()
        await kit.run("hi")
        assert await until(lambda: "plain__echo" in kit.session.tools)
        await kit.run("go")
        nursery.cancel_scope.cancel()
        assert kit.of(CallDone)[0].result.text == '{"call": "1"}'
        (question,) = asked(kit)
        assert f"{project}/.mcp.json wants to start a program as the MCP server 'plain':" in question
        assert "plain_server.py" in question
    async with servers({}, hilum_plan, workspace=project, answers=[say("x")]) as kit:
        await kit.run("hi")
        assert not asked(kit), "what was approved is not asked again"
        assert half(kit).rows()[0].state != "unapproved"
    describe(project, {**plain(), "env": {"LD_PRELOAD": "/tmp/x.so"}})
    async with servers({}, hilum_plan, workspace=project, answers=[say("x")]) as kit, trio.open_nursery() as nursery:
        nursery.start_soon(answering, kit, {"LD_PRELOAD=/tmp/x.so": "No, switch it off"})
        await trio.lowlevel.checkpoint()
        await kit.run("hi")
        assert await until(lambda: asked(kit)), "another definition is asked for again"
        assert await until(lambda: (entry := sources.look(project).get("plain")) and entry.state == "off")
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("kind", "trust"), [("headless", True), ("interactive", False)])
async def test_nobody_is_asked_without_trust_or_without_a_terminal(
    servers: Opened, tmp_path: Path, project: Path, kind: str, trust: bool
) -> None:
    if trust:
        Trust().add(project)
    async with servers({}, hilum_plan, workspace=project, answers=[say("x")], kind=kind) as kit:
        await kit.run("hi")
        assert not asked(kit)
        assert half(kit).rows()[0].state == "unapproved"
        assert not [tool.name for tool in kit.requests[0].tools if tool.name in ("find_tools", "call_tool")]
    assert not server_pids(tmp_path / "count")
