"""What killed attempts cost counts for the limit of a batch."""

import contextlib
import json
import os
import signal
from pathlib import Path

import pytest
import trio
from hilum.messages import AssistantMessage, Text, ToolCall, Usage
from hilum_dask.session_runner import CONTINUE
from hilum_replay.server import Answer

pytestmark = pytest.mark.slow(cases=1, of="file")

PRICES = ("--set", 'models.models."openai/scripted".price={input=1.0,output=1000.0}')
OPTIONS = ("--out", "out", "--approve", "auto", *PRICES)


def say(text):
    """Return a last answer for a tenth of a cent."""
    return Answer(AssistantMessage((Text(text, "model"),), "m"), Usage(input=1, output=1))


def write(name):
    """Return an answer for ten cents that writes a file."""
    call = ToolCall(f"c{name}", "write_file", json.dumps({"path": name, "content": ""}))
    return Answer(AssistantMessage((call,), stop="calls"), Usage(input=1, output=100))


class Model:
    """A model for two tasks. A task `dear` uses up its share; as soon as it continues, it hangs."""

    def __init__(self):
        self.turns = 0
        self.continued = 0
        self.hangs = trio.Event()
        self.killed = False

    async def __call__(self, request):
        text = request.body.decode()
        if self.killed or "task:cheap" in text:
            return say("Done.")
        self.turns += 1
        if CONTINUE in text:
            self.continued += 1
            if self.continued == 2:
                self.hangs.set()
                await trio.sleep_forever()
        return write(f"f{self.turns}")


def kill_attempts(driver):
    """Kill the children of the fork server."""
    [server] = list_children(driver)
    for child in list_children(server):
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def list_children(pid):
    """Return the child processes of a process."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        found += map(int, path.read_text().split())
    return found


@pytest.mark.parametrize("victim", ["child", "driver"])
async def test_continued_attempt_that_is_killed_counts(batch, victim):
    """Its session is that of an earlier attempt, whose cost must not count twice."""
    model = Model()
    tasks = batch.tasks(
        {"id": "cheap", "prompt": "task:cheap"}, {"id": "dear", "prompt": "task:dear"}
    )
    command = (tasks, *OPTIONS, "--jobs", "2", "--budget", "1.0")
    async with batch.model(model):
        async with batch.started(*command) as driver:
            await model.hangs.wait()
            model.killed = True
            if victim == "child":
                kill_attempts(driver.pid)
                assert await driver.wait() == 0
            else:
                driver.kill()
                await driver.wait()
        done = await batch(*command, "--json")
    row = batch.rows["dear"]
    assert done.code == 0, (done.err, row)
    # All requests but the one that hung, and the last one.
    spent = (model.turns - 1) * 0.1
    assert row["attempts"] == 3
    assert row["task_cost"] == pytest.approx(spent + 0.001, abs=0.001)
    assert json.loads(done.out)["cost"] == pytest.approx(spent + 0.002, abs=0.001)
    lost = json.loads((batch.out / "attempts" / "dear.2.json").read_text())
    assert (lost["state"], round(lost["cost"], 2)) == ("lost", 0.1)


async def test_kept_workspaces_are_settled_too(batch):
    """The cost of the attempt counts, and its workspace is not that of the next one."""
    turns = 0
    hangs = trio.Event()

    async def script(request):
        nonlocal turns
        turns += 1
        if turns == 1:
            return write("first")
        if turns == 2:
            hangs.set()
            await trio.sleep_forever()
        return say("Done.")

    command = (batch.tasks({"id": "t", "prompt": "task:x"}), *OPTIONS, "--keep", "--budget", "1.0")
    async with batch.model(script):
        async with batch.started(*command) as driver:
            await hangs.wait()
            driver.kill()
            await driver.wait()
        done = await batch(*command, "--json")
    assert done.code == 0, done.err
    assert batch.rows["t"]["attempts"] == 2
    assert json.loads(done.out)["cost"] == pytest.approx(0.101, abs=0.001)
    assert (batch.out / "work" / "t.1" / "tree" / "first").exists()
    assert (batch.out / "work" / "t.2").exists()
