"""Several calls in one answer: in parallel, in order, within their time, and never two writers on
one file.
"""

import pytest
import trio
from hilum import Call, NeedsUser, Output, ToolError, tool
from hilum.errors import E_BAD_ARGS, E_FAILED, E_REPEATED, E_TIMEOUT, E_UNKNOWN_TOOL
from hilum.events import CallDone, CallStarted, RoundEnded, UserNeeded
from hilum.testing import plugin, use


@tool(risk="read")
async def wait(seconds: float, n: int = 0) -> str:
    """Wait.

    Args:
        seconds: How long.
    """
    await trio.sleep(seconds)
    return f"waited {n}"


@tool(risk="read", timeout=15)
async def search() -> str:
    """Search for ever."""
    await trio.sleep_forever()


@tool(risk="read", timeout=lambda arguments: arguments["seconds"])
async def patient(seconds: float) -> str:
    """Wait for ever, for some time."""
    await trio.sleep_forever()


@tool(risk="read")
def fail(n: int = 0) -> str:
    """Fail."""
    raise ToolError("Nothing there.", hint="Look elsewhere.")


@tool(risk="read")
def count(n: int) -> str:
    """Count."""
    return str(n)


@pytest.fixture
def tools():
    return plugin("tools", wait, search, patient, fail, count)


async def test_eight_calls_take_as_long_as_one(bench, tools, autojump_clock):
    """Eight calls of half a second are done in half a second."""
    answer = use("wait", seconds=0.5)
    for n in range(1, 8):
        answer += use("wait", seconds=0.5, n=n)
    kit = await bench(tools, answers=[answer, "ok"])
    began = trio.current_time()
    await kit.run("x")
    assert trio.current_time() - began == pytest.approx(0.5)
    assert len(kit.results) == 8


async def test_results_stand_in_call_order(bench, tools, autojump_clock):
    """Whoever is done first, the model reads results in the order of its calls."""
    answer = use("wait", seconds=3, n=1) + use("wait", seconds=1, n=2) + use("wait", seconds=2, n=3)
    kit = await bench(tools, answers=[answer, "ok"])
    await kit.run("x")
    assert [event.result.text for event in kit.of(CallDone)] == ["waited 2", "waited 3", "waited 1"]
    sent = kit.requests[1].messages[-1].results
    assert [(result.call_id, result.text) for result in sent] == [
        (f"call-{n}", f"waited {n}") for n in (1, 2, 3)
    ]


async def test_one_failing_call_does_not_touch_the_others(bench, tools):
    """Siblings of a failing, an unknown and a malformed call end well."""
    answer = use("fail") + use("unheard_of") + use("count", n="x") + use("count", n=1)
    kit = await bench(tools, answers=[answer, "ok"])
    assert (await kit.run("x")).state == "completed"
    assert [result.code for result in kit.results] == [E_FAILED, E_UNKNOWN_TOOL, E_BAD_ARGS, ""]
    assert "Nothing there. Look elsewhere." in kit.results[0].text


@pytest.mark.parametrize(
    "names", [("a.txt", "a.txt"), ("a.txt", "./x/../a.txt"), ("a.txt", "link.txt")]
)
async def test_writers_of_one_file_take_turns(bench, autojump_clock, names):
    """Two calls that write one file, by whatever names, run one after another.

    Others beside them.
    """
    busy: list[str] = []
    overlaps: list[str] = []

    @tool(risk="write", writes="path")
    async def write(path: str, file: str) -> str:
        """Write."""
        if file in busy:
            overlaps.append(file)
        busy.append(file)
        await trio.sleep(1)
        busy.remove(file)
        return "written"

    first, second = names
    answer = (
        use("write", path=first, file="a")
        + use("write", path=second, file="a")
        + use("write", path="b.txt", file="b")
    )
    kit = await bench(
        plugin("tools", write), answers=[answer, "ok"], files={"a.txt": "", "x/y": ""}
    )
    (kit.workspace / "link.txt").symlink_to("a.txt")
    began = trio.current_time()
    await kit.run("x")
    assert overlaps == []
    assert trio.current_time() - began == pytest.approx(2)


async def test_call_that_outlives_its_time_is_cancelled_and_told(bench, tools, autojump_clock):
    """The limit is the tool's, a number or a function of the arguments.

    The loop does not repeat the call.
    """
    kit = await bench(tools, answers=[use("search") + use("patient", seconds=40), "ok"])
    began = trio.current_time()
    assert (await kit.run("x")).state == "completed"
    assert trio.current_time() - began == pytest.approx(40)
    assert [result.code for result in kit.results] == [E_TIMEOUT, E_TIMEOUT]
    assert "search did not end within 15 seconds" in kit.results[0].text
    assert [event.seconds for event in kit.of(CallDone)] == pytest.approx([15, 40])
    assert len(kit.of(CallStarted)) == 2


async def test_call_knows_its_deadline_and_session(bench, autojump_clock):
    """A tool sees when it will be cancelled, who calls, and where."""
    seen = {}

    @tool(risk="read", timeout=20)
    def show(call: Call) -> Output:
        """Show the call."""
        seen.update(
            left=call.deadline - trio.current_time(),
            id=call.id,
            agent=call.agent.name,
            session=call.session,
        )
        return Output("shown", data={"n": 1})

    kit = await bench(plugin("tools", show))
    result = await kit.call("show")
    assert seen == {
        "left": pytest.approx(20),
        "id": "call-1",
        "agent": "main",
        "session": kit.session,
    }
    assert result.data == {"n": 1}


async def test_bad_arguments_name_the_place(bench, tools):
    """The model reads where its JSON is wrong, each time, and the run goes on.

    The third answer in a row is told.
    """
    kit = await bench(
        tools, answers=[*[use("count", n=f"bad {n}") for n in range(3)], use("count", n=4), "ok"]
    )
    assert (await kit.run("x")).state == "completed"
    texts = [result.text for result in kit.results]
    assert all("`$.n`" in text and "skipped" not in text for text in texts[:3])
    assert texts[3] == "4"
    assert kit.of(UserNeeded)[0].code == E_BAD_ARGS
    assert "failed three times in a row with E_BAD_ARGS" in kit.of(RoundEnded)[2].notes[0]


async def test_same_failing_call_is_broken_after_three(bench, tools):
    """The fourth identical call is not carried out; a changed one is."""
    kit = await bench(
        tools, answers=[*[use("fail", n=1)] * 5, use("fail", n=2), use("count", n=1), "ok"]
    )
    await kit.run("x")
    assert [result.code for result in kit.results] == [E_FAILED] * 3 + [E_REPEATED] * 2 + [
        E_FAILED,
        "",
    ]
    assert len([event for event in kit.of(CallStarted) if event.call.name == "fail"]) == 4


async def test_tool_that_needs_the_user_says_so(bench):
    """NeedsUser is an event for faces and an error for the model."""

    @tool(risk="read")
    def login() -> str:
        """Log in."""
        raise NeedsUser("The login has expired.", hint="Ask the user to log in.")

    kit = await bench(plugin("tools", login))
    assert "Ask the user to log in." in (await kit.call("login")).text
    assert kit.of(UserNeeded)[0].message == "The login has expired."


async def test_huge_result_is_cut(bench):
    """No tool can flood the log."""

    @tool(risk="read")
    def flood() -> str:
        """Flood."""
        return "x" * 500_000

    kit = await bench(plugin("tools", flood))
    text = (await kit.call("flood")).text
    assert len(text) < 201_000
    note = "[… cut after 200,000 of 500,000 characters (1 line); the rest is not kept"
    assert note in text


async def test_output_of_a_running_call_reaches_readers_as_it_comes(bench):
    """emit shows text while the call runs; it carries the call's id."""
    go = trio.Event()

    @tool(risk="read")
    async def build(call: Call) -> str:
        """Build."""
        call.emit("compiling ")
        call.emit("linking ")
        await go.wait()
        return "built"

    kit = await bench(plugin("tools", build), answers=[use("build"), "ok"])
    run = await kit.start("x")
    started = await kit.wait_for(CallStarted)
    stream = kit.session.events(started.seq, deltas=True)
    with kit.guard():
        async for event in stream:
            if getattr(event, "kind", "") == "output":
                break
        go.set()
        await run.wait()
        await stream.aclose()
    assert event.text == "compiling linking "
    assert (event.call_id, event.seq) == ("call-1", started.seq)
