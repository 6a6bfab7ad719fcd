"""Servers of a trusted project: the user is asked for approval in the session."""

import io
import json
from pathlib import Path
from typing import Any

import hilum_files
import hilum_guard
import hilum_plan
import hilum_shell
import pytest
import trio
import trio.lowlevel
from hilum.events import CallDone, PluginEvent
from hilum.testing import Bench, say, use
from hilum.trust import TrustedFolders
from hilum_mcp import approvals
from hilum_mcp.catalog import load_catalog
from hilum_mcp.commands import CommandContext, run
from hilum_mcp.executed_files import executed_files
from hilum_mcp.server_config import ServerConfig
from hilum_plan import Plan, question_asked

from .conftest import Opened, mcp_of, plain, server_pids, until
from .test_mcp_calls import answering


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a project with a server."""
    monkeypatch.setenv("HILUM_CONFIG", str(tmp_path / "bench" / "config"))
    root = tmp_path / "project"
    root.mkdir()
    describe(root, plain(f"count={tmp_path}/count"))
    return root


def describe(root: Path, server: dict[str, Any]) -> None:
    (root / ".mcp.json").write_text(json.dumps({"mcpServers": {"plain": server}}))


def asked(kit: Bench) -> list[str]:
    return [question.question for event in kit.events if (question := question_asked(event))]


async def answer_about(kit: Bench, answers: dict[str, str]) -> None:
    """Answer the questions about servers, by name; an empty answer gives none."""
    plan = kit.session.plugin(Plan)
    assert plan is not None
    async for event in kit.session.events(kit.session.journal.last):
        question = question_asked(event)
        for name, answer in answers.items():
            if question is not None and f"the MCP server {name!r}" in question.question:
                plan.answer(question.id, [answer] if answer else [])


def reports(kit: Bench) -> list[PluginEvent]:
    return [event for event in kit.of(PluginEvent) if event.name == "mcp.unapproved"]


async def test_a_server_that_is_approved_in_the_session_serves_in_it(
    servers: Opened, tmp_path: Path, project: Path
) -> None:
    answers = [
        say("hello"),
        use("call_tool", name="plain__echo", arguments={"call": "1"}),
        say("done"),
    ]
    TrustedFolders().add(project)
    async with (
        servers({}, hilum_plan, workspace=project, answers=answers) as kit,
        trio.open_nursery() as nursery,
    ):
        assert mcp_of(kit).statuses()[0].state == "unapproved"
        nursery.start_soon(answering, kit, {"wants to start a program": "Yes, start it"})
        await trio.lowlevel.checkpoint()
        await kit.run("hi")
        assert await until(lambda: "plain__echo" in kit.session.tools)
        await kit.run("go")
        nursery.cancel_scope.cancel()
        assert kit.of(CallDone)[0].result.text == '{"call": "1"}'
        (question,) = asked(kit)
        assert (
            f"{project}/.mcp.json wants to start a program as the MCP server 'plain':" in question
        )
        assert "plain_server.py" in question
    async with servers({}, hilum_plan, workspace=project, answers=[say("x")]) as kit:
        await kit.run("hi")
        assert not asked(kit), "what was approved is not asked again"
        assert mcp_of(kit).statuses()[0].state != "unapproved"
    describe(project, {**plain(), "env": {"LD_PRELOAD": "/tmp/x.so"}})
    async with (
        servers({}, hilum_plan, workspace=project, answers=[say("x")]) as kit,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(answering, kit, {"LD_PRELOAD=/tmp/x.so": "No, switch it off"})
        await trio.lowlevel.checkpoint()
        await kit.run("hi")
        assert await until(lambda: asked(kit)), "another definition is asked for again"
        assert await until(
            lambda: (entry := load_catalog(project).get("plain")) and entry.state == "off"
        )
        nursery.cancel_scope.cancel()


async def test_a_server_starts_before_the_next_question_is_answered(
    servers: Opened, tmp_path: Path, project: Path
) -> None:
    """Also if its tools are known from an earlier session."""
    described = {"plain": plain(), "other": {"command": "true"}}
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": described}))
    TrustedFolders().add(project)
    for _ in range(2):
        async with (
            servers({}, hilum_plan, workspace=project, answers=[say("hello")]) as kit,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(answer_about, kit, {"plain": "Yes, start it"})
            await trio.lowlevel.checkpoint()
            await kit.run("hi")
            assert await until(lambda: "plain__echo" in kit.session.tools)
            assert await until(lambda: len(asked(kit)) == 2)
            nursery.cancel_scope.cancel()
        assert approvals.revoke(str(project), "plain")


async def test_find_tools_waits_while_the_user_is_asked(servers: Opened, project: Path) -> None:
    answers = [use("find_tools", query="echo"), say("done")]
    TrustedFolders().add(project)
    async with (
        servers({}, hilum_plan, workspace=project, answers=answers) as kit,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(answer_about, kit, {"plain": "Yes, start it"})
        await trio.lowlevel.checkpoint()
        await kit.run("hi")
        nursery.cancel_scope.cancel()
        assert "plain__echo" in kit.of(CallDone)[0].result.text
        assert not reports(kit), "it would contradict the question"


@pytest.mark.parametrize("answer", ["Not now", ""])
async def test_without_an_answer_the_user_learns_how_to_approve(
    servers: Opened, project: Path, answer: str
) -> None:
    TrustedFolders().add(project)
    async with (
        servers({}, hilum_plan, workspace=project, answers=[say("x")]) as kit,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(answer_about, kit, {"plain": answer})
        await trio.lowlevel.checkpoint()
        await kit.run("hi")
        ready = kit.session.deferred_tools_ready
        assert ready is not None
        await ready.wait()
        nursery.cancel_scope.cancel()
        assert bool(reports(kit)) == (not answer)


async def test_a_server_that_a_command_approves_starts_in_the_session(
    servers: Opened, project: Path
) -> None:
    TrustedFolders().add(project)
    async with servers({}, hilum_plan, workspace=project, answers=[say("x")]) as kit:
        context = CommandContext(project, io.StringIO(), session=kit.session)
        assert await run(["approve", "plain", "--yes"], context) == 0
        assert "plain is approved. It is starting." in context.out.getvalue()
        assert await until(lambda: "plain__echo" in kit.session.tools)


@pytest.mark.parametrize(("kind", "trust"), [("headless", True), ("main", False)])
async def test_nobody_is_asked_without_trust_or_without_a_terminal(
    servers: Opened, tmp_path: Path, project: Path, kind: str, trust: bool
) -> None:
    if trust:
        TrustedFolders().add(project)
    async with servers({}, hilum_plan, workspace=project, answers=[say("x")], kind=kind) as kit:
        await kit.run("hi")
        assert not asked(kit)
        assert mcp_of(kit).statuses()[0].state == "unapproved"
        assert not [
            tool.name for tool in kit.requests[0].tools if tool.name in ("find_tools", "call_tool")
        ]
    assert not server_pids(tmp_path / "count")


async def test_changed_files_need_a_new_approval(tmp_path: Path, project: Path) -> None:
    """An approval covers the executed file, its imports, and the code beside it."""
    tools = project / "tools"
    tools.mkdir()
    (tools / "server.py").write_text("import helper\n")
    (tools / "helper.py").write_text("x = 1\n")
    (project / "notes.py").write_text("x = 1\n")
    describe(project, {"command": "python3", "args": ["tools/server.py"]})
    TrustedFolders().add(project)
    server = load_catalog(project).get("plain").server
    approvals.approve(str(project), server)
    assert load_catalog(project).get("plain").state == "on"
    (project / "notes.py").write_text("x = 2\n")
    assert load_catalog(project).get("plain").state == "on", "it does not execute that"
    for change in (
        lambda: (tools / "server.py").write_text("import os\n"),
        lambda: (tools / "helper.py").write_text("import os\n"),
        lambda: (tools / "json.py").write_text("import os\n"),
    ):
        approvals.approve(str(project), server)
        change()
        entry = load_catalog(project).get("plain")
        assert entry.state == "unapproved"
        assert "tools/" in entry.reason
        assert "since you approved it" in approvals.describe_request(server, str(project))


@pytest.mark.parametrize(
    ("argv", "files", "executed"),
    [
        (["python3", "server.py"], {"server.py": "from lib import a", "lib/__init__.py": "", "lib/a.py": "", "b.py": ""},
         {"server.py", "lib/__init__.py", "lib/a.py"}),
        (["python3", "-m", "pkg.run"], {"pkg/__init__.py": "", "pkg/run.py": "import other", "other.py": "", "b.py": ""},
         {"pkg/__init__.py", "pkg/run.py", "other.py"}),
        (["node", "index.js"], {"index.js": "const a = require('./a')", "a.js": "", "b.js": "", "package.json": "{}"},
         {"index.js", "a.js", "package.json"}),
        (["npm", "run", "mcp"], {"package.json": '{"scripts": {"mcp": "node bin/run.js"}}', "bin/run.js": "", "b.js": ""},
         {"package.json", "bin/run.js"}),
        (["uv", "run", "srv"],
         {"pyproject.toml": '[project.scripts]\nsrv = "srv.cli:main"\n', "src/srv/cli.py": "", "b.py": ""},
         {"pyproject.toml", "src/srv/cli.py"}),
        (["bash", "-c", "exec ./run.sh"], {"run.sh": "", "b.sh": ""}, {"run.sh"}),
        (["sh", "${workspaceFolder}/run.sh"], {"run.sh": ""}, {"run.sh"}),
        (["npx", "-y", "@example/server"], {"b.js": ""}, set()),
    ],
)  # fmt: skip
def test_the_files_that_a_server_executes(
    tmp_path: Path, argv: list[str], files: dict[str, str], executed: set[str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    server = ServerConfig("x", "stdio", argv[0], tuple(argv[1:]))
    assert set(executed_files(server, str(tmp_path.resolve()))) == executed


async def test_files_of_an_approved_server_are_read_only_and_asked_for(
    servers: Opened, tmp_path: Path, project: Path
) -> None:
    describe(
        project,
        {**plain(), "args": ["-c", "import sys; exec(open('server.py').read())", "server.py"]},
    )
    (project / "server.py").write_text("raise SystemExit\n")
    TrustedFolders().add(project)
    approvals.approve(str(project), load_catalog(project).get("plain").server)
    answers = [
        use("write_file", path="server.py", content="import os\n"), use("run_terminal_cmd", command="echo x | tee server.py"),
        say("done"),
    ]  # fmt: skip
    async with servers(
        {},
        hilum_guard,
        hilum_files,
        hilum_shell,
        workspace=project,
        answers=answers,
        kind="headless",
    ) as kit:
        kit.session.set(approve="auto")
        await kit.run("go")
        written, run = [event.result for event in kit.of(CallDone)]
        assert written.code == "E_DENIED"
        assert "server.py: it is executed by an approved MCP server" in written.text
        assert "Read-only" in run.text
        assert "server.py: read-only in the sandbox" in run.text
    assert (project / "server.py").read_text() == "raise SystemExit\n"
