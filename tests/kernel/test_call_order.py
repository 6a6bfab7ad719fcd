"""The calls of one answer act as if they ran in their order wherever they meet, and in parallel
where they do not.
"""

import json
import random

import pytest
import trio
from hilum import EVERYTHING, Call, Profile, tool
from hilum.events import ApprovalAsked, CallDone, CallStarted, PluginFault
from hilum.hookspecs import allow, ask, deny
from hilum.order import Claims, places
from hilum.testing import plugin, use

FILES = ["a", "b", "dir/c", "dir/d", "dir/deep/e"]
FOLDERS = [".", "dir", "dir/deep"]


class Disk:
    """Files in memory, and tools on them that take their time: what they saw and when they ran is
    written down.
    """

    def __init__(self):
        self.files = {}
        self.running = {}
        self.overlaps = []
        self.begun = []

    async def act(self, call, kind, paths, seconds):
        """Look at files, take some time, and look or write again: who is disturbed meanwhile sees
        it.
        """
        self.begun.append(call.id)
        before = {
            path: self.files.get(path, "")
            for path in FILES
            if any(inside(path, each) for each in paths)
        }
        self.running[call.id] = (kind, paths)
        await trio.sleep(seconds)
        del self.running[call.id]
        after = {path: self.files.get(path, "") for path in before}
        assert after == before, f"{call.id} was disturbed"
        if kind == "write":
            self.files[paths[0]] = f"{before[paths[0]]}{call.id};"
        return repr(sorted(before.items()))

    def plugin(self):
        @tool(risk="write", effect="idempotent", writes="path", timeout=1e6)
        async def write(call: Call, path: str, seconds: float) -> str:
            """Write a file."""
            return await self.act(call, "write", [path], seconds)

        @tool(risk="read", effect="idempotent", reads="path", timeout=1e6)
        async def read(call: Call, path: str, seconds: float) -> str:
            """Read a file, or all files of a folder."""
            return await self.act(call, "read", [path], seconds)

        @tool(
            risk="execute", effect="idempotent", reads=lambda arguments: [EVERYTHING], timeout=1e6
        )
        async def command(call: Call, seconds: float) -> str:
            """Run a command, which reads all files."""
            return await self.act(call, "read", ["."], seconds)

        return plugin("disk", write, read, command)


def inside(path, folder):
    """Whether a path is a folder, or below it."""
    return folder == "." or path == folder or path.startswith(f"{folder}/")


def meet(one, other):
    """Whether two calls, as (tool, path), meet: the rule of this test, written independently."""
    if "write" not in (one[0], other[0]):
        return False
    return inside(one[1], other[1]) or inside(other[1], one[1])


def history(seed):
    """Calls of one answer, as (tool, path, seconds)."""
    chance = random.Random(seed)
    calls = []
    for _ in range(chance.randint(2, 14)):
        kind = chance.choice(["write", "write", "read", "command"])
        path = {
            "write": chance.choice(FILES),
            "read": chance.choice(FILES + FOLDERS),
            "command": ".",
        }[kind]
        calls.append((kind, path, chance.choice([0.0, 1.0, 2.0, 3.0, 5.0])))
    return calls


def longest_chain(calls):
    """How long the calls take when only those wait that meet an earlier one."""
    ends = []
    for number, (kind, path, seconds) in enumerate(calls):
        waits = [ends[i] for i in range(number) if meet((kind, path), calls[i][:2])]
        ends.append(max(waits, default=0.0) + seconds)
    return max(ends)


def one_after_another(calls):
    """What the calls see when they run one after another."""
    files, seen = {}, []
    for number, (kind, path, _) in enumerate(calls, 1):
        paths = [each for each in FILES if inside(each, path)]
        before = {each: files.get(each, "") for each in paths}
        seen.append(repr(sorted(before.items())))
        if kind == "write":
            files[path] = f"{before[path]}call-{number};"
    return files, seen


@pytest.mark.slow(cases=12)
@pytest.mark.parametrize("seed", range(60))
async def test_random_answers_act_as_if_in_order_and_as_parallel_as_can_be(
    bench, autojump_clock, seed
):
    """Whatever the calls touch: what each sees, what is left, that all end, and how long all of
    them take.
    """
    calls = history(seed)
    answer = sum_of(
        use(kind, **({} if kind == "command" else {"path": path}), seconds=s)
        for kind, path, s in calls
    )
    disk = Disk()
    kit = await bench(disk.plugin(), answers=[answer, "ok"])
    began = trio.current_time()
    await kit.run("x")
    files, seen = one_after_another(calls)
    assert [result.text for result in kit.results] == seen
    assert disk.files == files
    assert trio.current_time() - began == pytest.approx(longest_chain(calls))


def sum_of(answers):
    """Join calls to one answer."""
    joined, *rest = answers
    for each in rest:
        joined += each
    return joined


@pytest.mark.slow(cases=15)
@pytest.mark.parametrize("seed", range(40))
async def test_random_places_never_wait_for_ever(seed, autojump_clock):
    """Claims of all kinds, taken up in random order, given up at random times: all come to an
    end.
    """
    chance = random.Random(seed)

    def some(of, most):
        return frozenset(chance.sample(of, chance.randint(0, most)))

    roots = [(), ("w",), ("w", "a"), ("w", "b"), ("w", "d"), ("w", "d", "x")]
    claims = [Claims(some(roots, 2), some(roots[1:], 2), some(["s1", "s2"], 1)) for _ in range(12)]
    queue = places(claims)
    ended = []

    async def one(number):
        await queue[number].wait()
        for earlier in range(number):
            if (
                claims[earlier].meets(claims[number])
                or claims[earlier].queues & claims[number].queues
            ):
                assert earlier in ended
        await trio.sleep(chance.random())
        ended.append(number)
        queue[number].end()

    numbers = list(range(12))
    chance.shuffle(numbers)
    async with trio.open_nursery() as nursery:
        for number in numbers:
            nursery.start_soon(one, number)
    assert sorted(ended) == list(range(12))


async def test_links_and_folders_meet_what_they_lead_to(bench, autojump_clock):
    """A link, another spelling, and a folder above are the same place."""
    disk = Disk()
    answer = (
        use("write", path="a", seconds=2)
        + use("read", path="link", seconds=1)
        + use("read", path="dir/../a", seconds=1)
    )
    kit = await bench(disk.plugin(), answers=[answer, "ok"], files={"a": "", "dir/c": ""})
    (kit.workspace / "link").symlink_to("a")
    began = trio.current_time()
    await kit.run("x")
    assert trio.current_time() - began == pytest.approx(3)
    assert disk.begun[0] == "call-1"


async def test_waiting_for_approval_holds_back_only_what_meets(bench, autojump_clock):
    """A write that waits for its yes: the command waits with it, another write does not."""
    gate = plugin(
        "gate", on_tool_call=lambda call: ask("sure?") if '"path":"a"' in call.arguments else None
    )
    disk = Disk()
    answer = (
        use("write", path="a", seconds=0)
        + use("command", seconds=0)
        + use("write", path="b", seconds=0)
    )
    kit = await bench(
        disk.plugin(), gate, answers=[answer + use("read", path="b", seconds=0), "ok"]
    )
    run = await kit.start("x")
    asked = await kit.wait_for(ApprovalAsked)
    await trio.testing.wait_all_tasks_blocked()
    assert disk.begun == []  # the command came before the write to b, and waits for the write to a
    kit.session.answer(asked.id, True)
    with kit.guard():
        await run.wait()
    assert disk.begun[0] == "call-1"


async def test_sibling_that_does_not_meet_runs_while_one_waits(bench):
    """A read of another file ends while the write waits for its yes."""
    gate = plugin("gate", on_tool_call=lambda call: ask("sure?") if call.name == "write" else None)
    kit = await bench(
        Disk().plugin(),
        gate,
        answers=[use("write", path="a", seconds=0) + use("read", path="b", seconds=0), "ok"],
    )
    run = await kit.start("x")
    asked = await kit.wait_for(ApprovalAsked)
    done = await kit.wait_for(CallDone)
    assert done.result.name == "read"
    kit.session.answer(asked.id, True)
    with kit.guard():
        await run.wait()


async def test_queues_keep_order_until_they_are_released(bench, autojump_clock):
    """Calls of one queue begin in order.

    One that releases its queue lets the next one begin before it ends.
    """
    begun = []

    @tool(risk="read", queues="service {service}")
    async def talk(service: str, n: int) -> str:
        """Talk to a service."""
        begun.append((service, n))
        await trio.sleep(1)
        return "said"

    @tool(risk="read", queues="agents")
    async def launch(call: Call, n: int) -> str:
        """Start something that takes long."""
        begun.append(("agent", n))
        call.release_queues()
        await trio.sleep(10)
        return "done"

    answer = sum_of(
        [
            *(use("talk", service=s, n=n) for n in range(4) for s in ("s1", "s2")),
            *(use("launch", n=n) for n in range(6)),
        ]
    )
    kit = await bench(plugin("tools", talk, launch), answers=[answer, "ok"])
    began = trio.current_time()
    await kit.run("x")
    assert trio.current_time() - began == pytest.approx(10)
    for queue in ("s1", "s2", "agent"):
        numbers = [n for name, n in begun if name == queue]
        assert numbers == sorted(numbers)


async def test_a_tool_that_executes_and_declares_nothing_reads_everything(bench, autojump_clock):
    """Without a word of its author, a tool that runs something comes after the edits before it."""
    disk = Disk()

    @tool
    async def build() -> str:
        """Build."""
        return disk.files.get("a", "nothing")

    answer = use("write", path="a", seconds=3) + use("build")
    kit = await bench(disk.plugin(), plugin("build", build), answers=[answer, "ok"])
    await kit.run("x")
    assert kit.result("build").text == "call-1;"


async def test_agents_take_turns_at_one_path_and_nothing_else(bench, autojump_clock):
    """Two agents write one file one after another; a command of one does not hold up the other."""
    disk = Disk()
    kit = await bench(
        disk.plugin(),
        answers=[use("write", path="a", seconds=2), "ok", use("write", path="a", seconds=2), "ok"],
    )
    kit.session.add_agent(Profile("other"))
    began = trio.current_time()
    first = await kit.start("x")
    second = await kit.start("y", agent="other")
    with kit.guard():
        await first.wait()
        await second.wait()
    assert trio.current_time() - began == pytest.approx(4)
    assert len(kit.of(CallStarted)) == 2
    kit.model.next(use("command", seconds=50), use("write", path="b", seconds=1), "ok", "ok")
    first = await kit.start("x")
    await kit.wait_for(CallStarted, lambda event: event.call.name == "command")
    second = await kit.start("y", agent="other")
    began = trio.current_time()
    with kit.guard():
        await second.wait()
    assert trio.current_time() - began == pytest.approx(1)
    first.stop()


def moving(moves, seconds):
    """A gate that takes its time and rewrites the path of calls that write."""

    async def gate(call):
        arguments = json.loads(call.arguments)
        await trio.sleep(seconds(arguments))
        to = moves.get((call.id, arguments.get("path")))
        return allow(arguments={**arguments, "path": to}) if to else None

    return plugin("mover", on_tool_call=gate)


async def test_a_rewritten_call_keeps_its_place(bench, autojump_clock):
    """A gate moves the write of `a` to `b`: the read of `b` behind it sees what it wrote."""
    disk = Disk()
    gate = moving({("call-1", "a"): "b"}, lambda arguments: 5 if arguments["path"] == "a" else 0)
    answer = use("write", path="a", seconds=1) + use("read", path="b", seconds=0)
    kit = await bench(disk.plugin(), gate, answers=[answer, "ok"])
    await kit.run("x")
    assert kit.results[1].text == repr([("b", "call-1;")])


async def test_a_call_that_waits_for_approval_of_its_new_path_holds_back_what_meets_it(
    bench, autojump_clock
):
    """Neither more nor less: the read of `b` waits for the answer, that of `c` does not."""
    disk = Disk()

    def gate(call):
        return (
            ask("moved", arguments={"path": "b", "seconds": 0})
            if '"path":"a"' in call.arguments
            else None
        )

    answer = (
        use("write", path="a", seconds=0)
        + use("read", path="b", seconds=0)
        + use("read", path="dir/c", seconds=0)
    )
    kit = await bench(disk.plugin(), plugin("gate", on_tool_call=gate), answers=[answer, "ok"])
    run = await kit.start("x")
    asked = await kit.wait_for(ApprovalAsked)
    await trio.testing.wait_all_tasks_blocked()
    assert disk.begun == ["call-3"]
    kit.session.answer(asked.id, True)
    with kit.guard():
        await run.wait()
    assert kit.results[1].text == repr([("b", "call-1;")])


@pytest.mark.slow(cases=15)
@pytest.mark.parametrize("seed", range(40))
async def test_random_rewriting_never_reverses_an_order(bench, autojump_clock, seed):
    """Calls that gates move act in order where they meet at last.

    One that comes too late for that is refused and harmless.
    """
    chance = random.Random(seed)
    calls = history(seed)
    moves = {}
    for number, (kind, path, _) in enumerate(calls, 1):
        if kind == "write" and chance.random() < 0.5:
            moves[f"call-{number}", path] = chance.choice([each for each in FILES if each != path])
    answer = sum_of(
        use(kind, **({} if kind == "command" else {"path": path}), seconds=s)
        for kind, path, s in calls
    )
    disk = Disk()
    delays = [random.Random(seed + 1).choice([0, 0, 1, 4]) for _ in range(5)]
    gate = moving(moves, lambda arguments: delays[len(arguments.get("path", "")) % 5])
    kit = await bench(disk.plugin(), gate, answers=[answer, "ok"])
    await kit.run("x")
    files = {}
    for number, ((kind, path, _), result) in enumerate(zip(calls, kit.results, strict=True), 1):
        path = moves.get((f"call-{number}", path), path)
        if result.code:
            assert result.code == "E_STALE"
            assert (f"call-{number}", calls[number - 1][1]) in moves
            continue
        before = {each: files.get(each, "") for each in FILES if inside(each, path)}
        assert result.text.partition("\n")[0] == repr(sorted(before.items()))
        if kind == "write":
            files[path] = f"{before[path]}call-{number};"
    assert disk.files == files


async def test_a_fault_in_what_a_call_touches_is_logged_once(bench):
    """Calls of one answer take their places first; what failed then is not asked again."""

    def fails(arguments):
        raise OSError("no answer")

    @tool(risk="read", effect="pure", reads=fails)
    def odd(n: int) -> str:
        """Look."""
        return "seen"

    kit = await bench(
        plugin("tools", odd), answers=[use("odd", n=1) + use("odd", n=2), "ok"], faults=True
    )
    await kit.run("x")
    assert [result.code for result in kit.results] == ["E_PLUGIN", "E_PLUGIN"]
    assert len(kit.of(PluginFault)) == 2


async def questions_of(bench, seed):
    """Run an answer whose gates take random times.

    Gives the ids of its calls, and of the questions in their order.
    """
    chance = random.Random(seed)
    count = chance.randint(2, 8)
    delays = {f"f{number}": chance.choice([0.0, 0.5, 1.0, 2.0, 3.0]) for number in range(count)}
    verdicts = {path: chance.choice(["ask", "ask", "ask", "allow", "deny"]) for path in delays}
    slow = chance.random() < 0.5

    async def first(call):
        path = json.loads(call.arguments)["path"]
        await trio.sleep(delays[path])
        if verdicts[path] == "deny":
            return deny("no")
        return ask("sure?") if verdicts[path] == "ask" else None

    async def second(call):
        if slow:
            await trio.sleep(delays[json.loads(call.arguments)["path"]] / 2)

    @tool(risk="write", effect="idempotent", writes="path", timeout=1e6)
    async def write(path: str) -> str:
        """Write a file."""
        await trio.sleep(0.5)
        return path

    answer = sum_of(use("write", path=path) for path in delays)
    gates = [plugin("first", on_tool_call=first), plugin("second", on_tool_call=second)]
    kit = await bench(plugin("disk", write), *gates, answers=[answer, "ok"], patience=1e6)
    run = await kit.start("x")
    asked = []
    async with trio.open_nursery() as nursery:

        async def answer_all():
            async for event in kit.session.events(0):
                if isinstance(event, ApprovalAsked):
                    asked.append(event.call.id)
                    await trio.sleep(chance.choice([0.0, 1.5]))
                    kit.session.answer(event.id, chance.random() < 0.7)

        nursery.start_soon(answer_all)
        await run.wait()
        nursery.cancel_scope.cancel()
    expected = [
        f"call-{number}" for number, path in enumerate(delays, 1) if verdicts[path] == "ask"
    ]
    return expected, asked


@pytest.mark.slow(cases=12)
@pytest.mark.parametrize("seed", range(200))
async def test_questions_come_in_the_order_of_the_calls_however_long_gates_take(
    bench, autojump_clock, seed
):
    """The user reads them in the order in which the model asked for them."""
    expected, asked = await questions_of(bench, seed)
    assert asked == expected


async def test_a_gate_that_takes_long_holds_back_only_later_questions(bench, autojump_clock):
    """A later call that needs no question runs meanwhile, unless the earlier one may still move
    into its way.
    """

    async def gate(call):
        path = json.loads(call.arguments)["path"]
        if path == "a":
            await trio.sleep(5)
        return ask("sure?") if path in ("a", "b") else None

    disk = Disk()
    answer = sum_of(use("write", path=path, seconds=0) for path in ("a", "b"))
    kit = await bench(disk.plugin(), plugin("gate", on_tool_call=gate), answers=[answer, "ok"])
    run = await kit.start("x")
    first = await kit.wait_for(ApprovalAsked)
    assert trio.current_time() >= 5
    await trio.testing.wait_all_tasks_blocked()
    assert [event.call.id for event in kit.of(ApprovalAsked)] == ["call-1", "call-2"]
    for event in kit.of(ApprovalAsked):
        kit.session.answer(event.id, True)
    assert first.call.id == "call-1"
    with kit.guard():
        await run.wait()
