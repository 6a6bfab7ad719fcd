"""The undo of a run, a turn or a call includes the changes of the agents that it started.

The diff names the agents.
"""

import os
import random
from pathlib import Path

import hilum_files
import hilum_store
import pytest
import trio
from hilum import UsageError
from hilum.__main__ import main
from hilum.events import CallDone
from hilum.messages import UserMessage
from hilum.testing import open_bench, say, use
from hilum_agents import runs
from hilum_files import Changes


def write(name: str, content: str):
    return use("write_file", path=name, content=content)


def task(prompt: str, **more):
    return use("task", description="Do a part", prompt=prompt, **more)


class Script:
    """A model that answers each agent by its last prompt.

    Each prompt has its own list of answers.
    """

    def __init__(self, **answers) -> None:
        self.left = {prompt: list(given) for prompt, given in answers.items()}

    def __call__(self, request):
        text = str([message for message in request.messages if isinstance(message, UserMessage)])
        prompt = max(self.left, key=lambda name: text.rfind(f"PROMPT {name}."))
        return self.left[prompt].pop(0) if self.left[prompt] else say("Done.")


async def opened(tmp_path, script, **options):
    return open_bench(
        hilum_files, hilum_store, runs, folder=tmp_path, answers=[script] * 200, **options
    )  # fmt: skip


def files(bench) -> dict[str, str]:
    return {
        str(p.relative_to(bench.workspace)): p.read_text()
        for p in bench.workspace.rglob("*")
        if p.is_file()
    }


NESTED = {
    "top": [write("top.txt", "1\n"), task("PROMPT sub."), say("All done.")],
    "sub": [write("sub.txt", "2\n"), task("PROMPT deep."), say("Sub done.")],
    "deep": [write("deep.txt", "3\n"), say("Deep done.")],
}


async def test_undo_of_a_run_takes_back_its_sub_agents_changes(tmp_path) -> None:
    """Nested agents are included; the run before stays."""
    script = Script(first=[write("first.txt", "0\n"), say("ok")], **NESTED)
    async with await opened(tmp_path, script) as bench:
        await bench.run("PROMPT first.")
        await bench.run("PROMPT top.")
        changes = bench.session.plugin(Changes)
        shown = {change.path: change.agents for change in await changes.diff()}
        assert set(shown) == {"top.txt", "sub.txt", "deep.txt"}
        assert shown["top.txt"] == ("main",)
        assert len({*shown.values()}) == 3
        await changes.undo()
        assert files(bench) == {"first.txt": "0\n"}
        await changes.undo("undo")
        assert set(files(bench)) == {"first.txt", "top.txt", "sub.txt", "deep.txt"}


async def test_undo_of_the_call_that_started_an_agent(tmp_path) -> None:
    """A call of task, its turn, or the run of a sub-agent can be undone alone."""
    async with await opened(tmp_path, Script(**NESTED)) as bench:
        await bench.run("PROMPT top.")
        changes = bench.session.plugin(Changes)
        by_path = {record.changes[0].path: record for record in changes.records()}
        await changes.undo("run", by_path["deep.txt"].run)
        assert set(files(bench)) == {"top.txt", "sub.txt"}
        await changes.undo("turn", "2")  # the main agent's second turn started the sub-agent
        assert set(files(bench)) == {"top.txt"}
        await changes.undo("undo")
        assert set(files(bench)) == {"top.txt", "sub.txt"}
        started = next(
            e for e in bench.of(CallDone) if (e.agent, e.result.name) == ("main", "task")
        )
        await changes.undo("call", started.result.call_id)
        assert set(files(bench)) == {"top.txt"}
        with pytest.raises(UsageError):
            await changes.undo("run", "no such run")


async def test_background_agents_belong_to_the_run_that_started_them(tmp_path) -> None:
    """This applies although they end after the next run has begun."""
    script = Script(
        top=[write("top.txt", "1\n"), task("PROMPT slow.", background=True), say("Started.")],
        slow=[write("slow.txt", "2\n"), say("Slow done.")],
        next=[write("next.txt", "3\n"), say("Next done.")],
    )
    async with await opened(tmp_path, script) as bench:
        await bench.run("PROMPT top.")
        await bench.run("PROMPT next.")
        agents = bench.session.plugin(runs.Runs)
        for entry in list(agents.scheduler.jobs.by_id.values()):
            await entry.ended.wait()
        changes = bench.session.plugin(Changes)
        by_path = {record.changes[0].path: record for record in changes.records()}
        await changes.undo("run", by_path["top.txt"].run)
        assert files(bench) == {"next.txt": "3\n"}
        assert "slow.txt" in by_path


async def test_any_tree_of_agents_is_undone(tmp_path, trials) -> None:
    """The undo of a run restores the state before it.

    Random trees of agents overwrite one another's files.
    """
    for seed in range(trials(3, 8)):
        rng = random.Random(seed)
        answers: dict[str, list] = {}

        def grow(name: str, depth: int, rng=rng, answers=answers) -> None:
            steps = []
            for number in range(rng.randrange(1, 4)):
                if depth < 2 and rng.random() < 0.5:
                    child = f"{name}x{number}"
                    grow(child, depth + 1)
                    steps.append(task(f"PROMPT {child}."))
                else:
                    steps.append(
                        write(f"{name}-{rng.randrange(3)}-{number}.txt", f"{rng.random()}\n")
                    )
            answers[name] = [*steps, say("Done.")]

        for name in ("a", "b"):
            grow(name, 0)
        async with await opened(tmp_path / str(seed), Script(**answers)) as bench:
            await bench.run("PROMPT a.")
            between = files(bench)
            await bench.run("PROMPT b.")
            changes = bench.session.plugin(Changes)
            try:
                changes.records("run")
            except UsageError:
                continue  # nothing was written
            if files(bench) != between:
                await changes.undo()
            assert files(bench) == between, seed


def test_the_commands_name_the_agents(tmp_path, monkeypatch, capsys) -> None:
    """``hilum diff`` names the agent of each change, ``--list`` the parent of each run.

    ``hilum undo`` undoes all of them.
    """

    async def prepare() -> Path:
        async with await opened(tmp_path, Script(**NESTED)) as bench:
            await bench.run("PROMPT top.")
            return bench.workspace

    workspace = trio.run(prepare)
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("HILUM_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("HILUM_CONFIG", str(tmp_path / "config"))

    def hilum(*words: str) -> str:
        assert main(words) == 0
        return "".join(capsys.readouterr())

    diff = hilum("diff")
    assert "created top.txt by main" in diff
    assert "created deep.txt by task" in diff
    assert hilum("diff", "--list").count("(started by run ") == 2
    hilum("undo")
    assert os.listdir(workspace) == []
