"""``/init`` in a conversation: the agent's prompt, or the draft where there is no model."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
import trio
from hilum import Session, open_standard_session
from hilum.store import MemoryStore
from hilum_replay import serve
from hilum_terminal.chat_protocol import CommandOutput
from hilum_terminal.init_project import init_project
from scripted_asker import ScriptedAsker

LOCAL = ("OLLAMA_HOST", "LMSTUDIO_BASE_URL", "LLAMACPP_BASE_URL", "VLLM_BASE_URL")


@attrs.define
class Conversation(ScriptedAsker):
    """A conversation that runs commands in the session's folder."""

    agrees: bool = False
    environ: dict[str, str] = attrs.field(factory=dict)

    async def confirm(self, question: str, *, yes: str, no: str = "No", details: str = "") -> bool:
        self.questions.append(question)
        return self.agrees

    async def run_hilum(self, arguments: Sequence[str]) -> CommandOutput:
        done = await trio.run_process(
            [sys.executable, "-m", "hilum", *arguments],
            cwd=self.session.workspace.root,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
        return CommandOutput(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "Makefile").write_text("test:\n\ttrue\n")
    folders = {"HILUM_CONFIG": str(tmp_path / "config"), "HILUM_DATA": str(tmp_path / "data")}
    return folders | {"PATH": "/usr/bin:/bin"} | dict.fromkeys(LOCAL, "http://127.0.0.1:9/v1")


def opened(environ: dict[str, str], tmp_path: Path) -> object:
    return open_standard_session(
        tmp_path / "project", environ=environ, store=MemoryStore(), needs_model=False
    )


async def test_with_a_model_the_agent_gets_the_prompt(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    """With what was found, and what the user adds."""
    async with serve(lambda request: "Done.") as server:
        environ |= {"OPENAI_BASE_URL": f"{server.url}/v1", "HILUM_MODEL": "openai/scripted"}
        async with opened(environ, tmp_path) as session:  # type: ignore[attr-defined]
            await init_project(Conversation(session), "the tests")
            await _settle(session)
        body = server.bodies[0].decode()
    assert "Write the file AGENTS.md in the workspace" in body
    assert "The user adds: the tests" in body
    assert "- Test: `make test`" in body


async def _settle(session: Session) -> None:
    for run in list(session.runs.values()):
        await run.wait()


async def test_without_a_model_the_draft_is_written_and_improvements_are_offered(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    """An existing file is changed only after a yes."""
    file = trio.Path(tmp_path / "project" / "AGENTS.md")
    async with opened(environ, tmp_path) as session:  # type: ignore[attr-defined]
        chat = Conversation(session, environ=environ)
        await init_project(chat, "")
        assert "AGENTS.md is written" in chat.text
        assert "- Test: `make test`" in await file.read_text()
        assert chat.questions == []
        for agrees in (False, True):
            await file.write_text("# X\n")
            chat.agrees = agrees
            await init_project(chat, "")
            assert ("make test" in await file.read_text()) is agrees
        assert chat.questions == ["Add these lines?"] * 2
    assert "+- Test: `make test`" in chat.text
