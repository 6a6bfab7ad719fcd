"""The plugins that judge a call read the project once for each judgement."""

import trio
import trio.testing
from hilum import allow, deny, hookimpl, tool
from hilum.shared_reads import read_once, share_reads
from hilum.testing import use


class Counter:
    """Count how often something was read."""

    def __init__(self):
        self.count = 0

    def read(self):
        self.count += 1
        return self.count


class Tools:
    @tool(risk="write", effect="once")
    def save(self, text: str) -> str:
        """Save a text."""
        return "saved"

    @hookimpl
    def provide_tools(self):
        return [self.save]


def make_gate(counter, seen, name, *, in_thread=False):
    """Create a gate that reads something, in the event loop or in a thread."""

    class Gate:
        @hookimpl
        async def on_tool_call(self, call):
            if in_thread:
                seen.append(await trio.to_thread.run_sync(read_once, "project", counter.read))
            else:
                seen.append(read_once("project", counter.read))

    Gate.__name__ = name
    return Gate()


async def test_gates_read_once_for_each_judgement(bench):
    """The second call is another judgement, for which the project may have changed."""
    counter = Counter()
    seen = []
    plugins = [
        make_gate(counter, seen, "First"),
        make_gate(counter, seen, "Second", in_thread=True),
        make_gate(counter, seen, "Third", in_thread=True),
    ]
    answers = [use("save", text="a"), use("save", text="b"), "Saved."]
    b = await bench(Tools(), *plugins, answers=answers)
    await b.run("Save.")
    assert seen[:3] == [seen[0]] * 3
    assert seen[3:] == [seen[3]] * 3
    assert seen[3] > seen[0]


async def test_a_rewritten_call_is_judged_by_a_new_look(bench):
    """The gate that rewrites a call sees the project anew with the rewritten one."""
    counter = Counter()
    seen = []

    class Rewriting:
        @hookimpl
        def on_tool_call(self, call):
            seen.append(read_once("project", counter.read))
            if "draft" in call.arguments:
                return allow(arguments={"text": "final"})
            return deny("It is final.") if "forbidden" in call.arguments else None

    b = await bench(Tools(), Rewriting())
    await b.call("save", text="draft")
    assert seen == sorted(set(seen))
    assert len(seen) >= 2


async def test_a_task_that_outlives_a_judgement_reads_anew(nursery):
    counter = Counter()
    begun = trio.Event()
    ended = trio.Event()
    seen = []

    async def read_twice():
        seen.append(read_once("project", counter.read))
        begun.set()
        await ended.wait()
        seen.append(read_once("project", counter.read))
        seen.append(read_once("project", counter.read))

    with share_reads():
        nursery.start_soon(read_twice)
        await begun.wait()
        assert read_once("project", counter.read) == 1
    ended.set()
    await trio.testing.wait_all_tasks_blocked()
    assert seen == [1, 2, 3]


def test_nothing_is_kept_outside_of_a_judgement():
    counter = Counter()
    assert [read_once("project", counter.read) for _ in range(3)] == [1, 2, 3]
