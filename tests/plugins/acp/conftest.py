"""A session with an agent that is another program, and an emulator of its models."""

import json
import shlex
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import hilum_agents
import hilum_files
import hilum_guard
import hilum_models
import hilum_shell
import pytest
import trio
from hilum.events import ModelAnswered
from hilum.messages import AssistantMessage, Text, Usage
from hilum.testing import open_bench
from hilum_acp import guests
from hilum_agents import runs
from hilum_agents.runs import Runs
from hilum_replay.server import Answer, serve

PROGRAMS = Path(__file__).parent / "guest_programs"


def answer(text="Hello.", used=100):
    """Return a model's answer that used a number of tokens."""
    message = AssistantMessage((Text(text, "model"),), "m")
    return Answer(message, Usage(input=used - 10, output=10))


class GuestBench:
    """A bench whose agent `guest` is a program."""

    def __init__(self, bench, models):
        self.bench = bench
        self.models = models

    async def run(self, *steps, agent="guest"):
        """Let the courteous guest do some steps; return the result of its run."""
        return await self.prompt(json.dumps(steps), agent)

    async def execute(self, code, agent="guest"):
        """Let the bypassing guest run some Python; return the result of its run."""
        return await self.prompt(f"#begin\n{code}", agent)

    @property
    def said(self):
        """Everything that the guest said, also between calls."""
        return "".join(event.message.text for event in self.bench.of(ModelAnswered))

    async def prompt(self, text, agent="guest", **options):
        identity = await self.start(text, agent, **options)
        return await self.bench.session.plugin(Runs).wait(identity)

    async def start(self, text, agent="guest", **options):
        """Start the agent without waiting; return the id of its job."""
        found = self.bench.session.plugin(Runs)
        definition, profile = await found.prepare(agent)
        return found.begin(profile, text, definition=definition, **options)


async def wait_for_text(guest, text):
    """Wait until a guest has said exactly a text."""
    with trio.fail_after(20):
        async for item in guest.bench.session.events(0, deltas=True):
            if getattr(item, "text", "") == text:
                return


def write_agent(folder, command, front="", name="guest", model="openai/priced"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(
        f"---\nkind: agent\nname: {name}\ndescription: Another agent.\nmodel: {model}\n"
        f"runner:\n  command: {json.dumps(command)}\n{front}\n---\n"
    )


@pytest.fixture
def open_guest(tmp_path, monkeypatch):
    """Return a function that opens a bench whose agent `guest` is a program."""
    # The sandbox looks up the user's folders in this process's environment.
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    @asynccontextmanager
    async def make(
        program, front="", *, script=None, models_url="", settings=None, plugins=(), **options
    ):
        command = program
        if not isinstance(program, list):
            command = [sys.executable, str(PROGRAMS / f"{program}_guest.py")]
        write_agent(tmp_path / "config" / "agents", command, front)
        async with serve(script or (lambda request: answer())) as models:
            environ = {
                "HILUM_CONFIG": str(tmp_path / "config"),
                "HOME": str(tmp_path / "home"),
                "XDG_CACHE_HOME": str(tmp_path / "cache"),
                "OPENAI_BASE_URL": f"{models_url or models.url}/v1",
                "OPENAI_API_KEY": "sk-the-users-own-key-0123456789",
            }
            price = {"input": 1.0, "output": 1.0}
            async with open_bench(
                hilum_agents,
                hilum_files,
                hilum_guard,
                hilum_models,
                hilum_shell,
                runs,
                guests,
                *plugins,
                folder=tmp_path,
                environ=environ,
                settings={
                    "models.models": {"openai/priced": {"price": price}},
                    **(settings or {}),
                },
                **options,
            ) as bench:
                yield GuestBench(bench, models)

    return make


__all__ = ["PROGRAMS", "answer", "shlex", "wait_for_text", "write_agent"]
