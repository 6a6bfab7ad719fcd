"""Repeated failures and repeated results: what counts is the same call with nothing changed in
between.
"""

import pytest
from hilum import Output, Profile, ToolError, tool
from hilum.errors import E_BAD_ARGS, E_FAILED, E_REPEATED, E_STALE
from hilum.events import CallStarted, RoundEnded, UserNeeded
from hilum.messages import ToolCall
from hilum.repetition import MAX_SAME_RESULTS, SAME_RESULTS_NOTED
from hilum.state import Conversation
from hilum.testing import Answer, plugin, use


class World:
    """A program under test, files that are read and written, and what a model can do with them."""

    def __init__(self):
        self.red = 0
        self.stale = True
        self.edits = 0

    def plugin(self):
        @tool(risk="execute", aim=lambda arguments: arguments["command"].split()[0])
        def run(command: str) -> str:
            """Run a command."""
            if self.red > 0:
                self.red -= 1
                raise ToolError("Tests are red.")
            return "green"

        @tool(risk="write", effect="once", writes="path")
        def edit(path: str, text: str = "") -> str:
            """Edit a file."""
            if text == "stale" and self.stale:
                raise ToolError("Read it first.", code=E_STALE)
            self.edits += 1
            return "edited"

        @tool(risk="read", effect="pure", reads="path")
        def look(path: str) -> str:
            """Read a file."""
            if path == "missing":
                raise ToolError("There is no such file.", code="E_FILE_NOT_FOUND")
            return "content"

        return plugin("world", run, edit, look)


@pytest.fixture
def world():
    return World()


def codes(kit):
    return [result.code for result in kit.results]


def notes(kit):
    return [note for event in kit.of(RoundEnded) for note in event.notes]


async def test_red_edit_red_is_work_and_no_repetition(bench, world):
    """The same command may fail as often as something changed in between, and then succeeds."""
    world.red = 5
    test = use("run", command="python3 t.py")
    answers = []
    for n in range(5):
        answers += [test, use("edit", path="a.py", text=str(n))]
    kit = await bench(world.plugin(), answers=[*answers, test, "ok"])
    await kit.run("x")
    assert E_REPEATED not in codes(kit)
    assert kit.results[-1].text == "green"
    assert notes(kit) == []
    assert kit.of(UserNeeded) == []


async def test_fourth_identical_failure_is_refused_in_any_spelling(bench, world):
    """JSON that is spelled otherwise is the same call.

    The refused repeat changes nothing, and one sentence says it all.
    """
    world.red = 99
    spelled = [
        '{"command": "t"}',
        '{"command":"t"}',
        '{ "command":"\\u0074" }',
        '{"command":"t" }',
        '{"command":"t"}',
    ]
    answers = [Answer((ToolCall("", "run", text),)) for text in spelled]
    kit = await bench(world.plugin(), answers=[*answers, "ok"])
    await kit.run("x")
    assert codes(kit) == [E_FAILED] * 3 + [E_REPEATED] * 2
    assert "failed three times in a row with E_FAILED" in kit.results[3].text
    assert kit.results[3].text == kit.results[4].text
    (note,) = notes(kit)
    assert note.startswith(
        "run failed three times in a row with E_FAILED, and nothing changed in between."
    )
    assert [event.message for event in kit.of(UserNeeded)] == [note.partition(" Fix")[0]]
    assert len(kit.of(CallStarted)) == 3


async def test_reading_the_file_cures_a_stale_edit(bench, world):
    """After three E_STALE the model reads, and its edit is not refused.

    Reading another file cures nothing.
    """
    stale = use("edit", path="a.py", text="stale")
    answers = [
        stale,
        stale,
        stale,
        use("look", path="b.py"),
        stale,
        use("look", path="./a.py"),
        stale,
        "ok",
    ]
    kit = await bench(world.plugin(), answers=answers)
    await kit.run("x")
    assert codes(kit) == [E_STALE] * 3 + ["", E_REPEATED, "", E_STALE]


async def test_another_agents_change_clears(bench, world):
    """Twenty writers of one file are stale again and again.

    Each is stale anew because another one wrote.
    """
    stale = use("edit", path="a.py", text="stale")
    kit = await bench(
        world.plugin(), answers=[stale, stale, stale, "ok", use("edit", path="a.py"), "ok"]
    )
    kit.session.add_agent(Profile("other"))
    await kit.run("x")
    counts = kit.session.agents["main"].conversation.failures
    assert counts.calls
    await kit.run("y", agent="other")
    assert not counts.calls


async def test_three_different_calls_of_one_answer_are_no_repetition(bench, world):
    """Three missing files, or three commands, in one answer: nobody is told to stop."""
    world.red = 3
    three = (
        use("run", command="grep x") + use("run", command="ls y") + use("run", command="test -d z")
    )
    same = (
        use("run", command="git status")
        + use("run", command="git log")
        + use("run", command="git diff")
    )
    kit = await bench(world.plugin(), answers=[three, "ok"])
    await kit.run("x")
    assert codes(kit) == [E_FAILED] * 3
    world.red = 3
    kit.model.next(same, "ok")
    await kit.run("y")
    assert notes(kit) == []
    assert kit.of(UserNeeded) == []


async def test_same_aim_three_answers_in_a_row_is_told_once(bench, world):
    """Three answers in a row try one program in three ways and fail: one note, one event."""
    world.red = 99
    answers = [use("run", command=f"pytest -k {n}") for n in "abcd"]
    kit = await bench(world.plugin(), answers=[*answers, "ok"])
    await kit.run("x")
    assert codes(kit) == [E_FAILED] * 4
    assert len(notes(kit)) == 1
    assert len(kit.of(UserNeeded)) == 1


async def test_success_in_between_is_not_in_a_row(bench, world):
    """Two failures, a success of the same program, two failures."""
    answers = [use("look", path="missing")] * 2
    kit = await bench(
        world.plugin(), answers=[*answers, use("edit", path="missing"), *answers, "ok"]
    )
    await kit.run("x")
    assert notes(kit) == []
    assert E_REPEATED not in codes(kit)


async def test_bad_arguments_are_never_skipped_at_their_first_failure(bench, world):
    """Three different bad calls in one answer say what is wrong, and no more."""
    three = use("look", bad=1) + use("look", bad=2) + use("look", bad=3)
    kit = await bench(world.plugin(), answers=[three, "ok"])
    await kit.run("x")
    assert codes(kit) == [E_BAD_ARGS] * 3
    assert all("skip" not in result.text for result in kit.results)
    assert notes(kit) == []


async def test_calls_through_call_tool_are_told_apart_by_their_tools(bench):
    """A wrong call of each of three deferred tools is no repetition.

    Three wrong calls of one tool are.
    """

    def deferred(name):
        @tool(risk="read", effect="pure", name=name, deferred=True)
        def read(path: str) -> str:
            """Read."""
            return path

        return read

    def wrong(name, number=0):
        return use("call_tool", name=name, arguments={"bad": number})

    tools = plugin("many", *[deferred(name) for name in ("one", "two", "three")])
    kit = await bench(tools, answers=[wrong("one"), wrong("two"), wrong("three"), "ok"])
    await kit.run("x")
    assert (codes(kit), notes(kit)) == ([E_BAD_ARGS] * 3, [])
    kit = await bench(tools, answers=[wrong("one", 1), wrong("one", 2), wrong("one", 3), "ok"])
    await kit.run("x")
    assert [note.split(" with")[0] for note in notes(kit)] == ["one failed three times in a row"]


async def test_same_result_again_and_again_is_noticed_and_then_refused(bench, world):
    """A call that changes nothing and gives the same: a note at the fifth time, no run after the
    tenth.
    """
    look = use("look", path="a.py")
    kit = await bench(
        world.plugin(),
        answers=[*[look] * (MAX_SAME_RESULTS + 2), use("edit", path="b"), look, "ok"],
    )
    await kit.run("x")
    assert codes(kit) == [""] * MAX_SAME_RESULTS + [E_REPEATED] * 2 + ["", ""]
    assert (
        f"returned the same result {MAX_SAME_RESULTS} times" in kit.results[MAX_SAME_RESULTS].text
    )
    rounds = kit.of(RoundEnded)
    told = [
        number
        for number, event in enumerate(rounds, 1)
        if any("same result" in note for note in event.notes)
    ]
    assert told == [SAME_RESULTS_NOTED]


@tool(risk="write", effect="idempotent", writes="path")
def put(path: str, text: str = "") -> Output:
    """Write a file that already has this text."""
    return Output(f"{path} already has this content.", changed=False)


async def test_a_write_that_changes_nothing_is_counted_like_a_read(bench, world):
    """A note at the fifth time, no run after the tenth; a change in between starts anew."""
    same = use("put", path="a.py")
    kit = await bench(
        world.plugin(),
        plugin("put", put),
        answers=[*[same] * (MAX_SAME_RESULTS + 1), use("edit", path="b"), same, "ok"],
    )
    await kit.run("x")
    assert codes(kit) == [""] * MAX_SAME_RESULTS + [E_REPEATED, "", ""]
    assert len(notes(kit)) == 1
    assert f"put returned the same result {SAME_RESULTS_NOTED} times" in notes(kit)[0]


async def test_a_write_that_changes_nothing_clears_no_count(bench, world):
    """A command that keeps failing is refused, whatever is written to no effect in between."""
    world.red = 99
    test = use("run", command="t")
    idle = use("put", path="a.py")
    kit = await bench(
        world.plugin(),
        plugin("put", put),
        answers=[test, idle, test, idle, test, idle, test, use("edit", path="a.py"), test, "ok"],
    )
    kit.session.add_agent(Profile("other"))
    await kit.run("x")
    ran = [result.code for result in kit.results if result.name == "run"]
    assert ran == [E_FAILED] * 3 + [E_REPEATED, E_FAILED]


async def test_a_write_that_changes_nothing_clears_no_count_of_another_agent(bench, world):
    """Nothing has changed for them either."""
    world.red = 99
    kit = await bench(
        world.plugin(),
        plugin("put", put),
        answers=[use("run", command="t"), "ok", use("put", path="a.py"), "ok"],
    )
    kit.session.add_agent(Profile("other"))
    await kit.run("x")
    counts = kit.session.agents["main"].conversation.failures
    await kit.run("y", agent="other")
    assert counts.calls


async def test_a_resume_counts_the_same(bench, world):
    """The counts are folded from the log: whoever folds it again, refuses what was refused
    before.
    """
    world.red = 2
    answers = [
        use("run", command="t"),
        use("look", path="missing"),
        use("look", path="a"),
        use("run", command="t"),
    ]
    kit = await bench(world.plugin(), answers=[*answers, "ok"])
    await kit.run("x")
    folded = Conversation()
    for event in kit.events:
        if event.agent == "main":
            folded.apply(event)
    assert folded.failures.calls
    assert folded.failures == kit.session.agents["main"].conversation.failures


async def test_calls_whose_arguments_cannot_be_read_are_one_call_and_refused_after_three(
    bench, world
):
    """A model that sends half a call again and again does not go on for ever.

    A call that is right is carried out.
    """
    half = [Answer((ToolCall("", "look", '{"path": "a' + "b" * n),)) for n in range(5)]
    kit = await bench(world.plugin(), answers=[*half, use("look", path="a"), "ok"])
    await kit.run("x")
    assert codes(kit) == [E_BAD_ARGS] * 3 + [E_REPEATED] * 2 + [""]
    assert "three times" in kit.results[3].text
    assert "not valid JSON" in kit.results[3].text


async def test_the_same_bad_call_is_refused_after_three(bench, world):
    """Arguments that do not fit the tool."""
    kit = await bench(
        world.plugin(), answers=[*[use("look", bad=1)] * 4, use("look", path="a"), "ok"]
    )
    await kit.run("x")
    assert codes(kit) == [E_BAD_ARGS] * 3 + [E_REPEATED, ""]


@pytest.mark.parametrize("same", [True, False])
async def test_a_command_that_changes_something_itself_is_not_said_to_change_nothing(bench, same):
    """Each attempt edits and checks, and the check fails another way: whoever says that nothing
    changed, is wrong.
    """
    numbers = iter(range(9))

    @tool(risk="execute", aim=lambda arguments: "check")
    def run(command: str) -> str:
        """Run a command."""
        number = next(numbers)
        raise ToolError(
            f"Exit code 1 after 0.{number} s\n{3 if same else 9 - number} lines are wrong"
        )

    answers = [use("run", command=f"sed -i {n} a; check") for n in range(3)]
    kit = await bench(plugin("shell", run), answers=[*answers, "ok"])
    await kit.run("x")
    (note,) = notes(kit)
    assert ("nothing changed in between" in note) is same


@pytest.mark.parametrize("same", [True, False])
async def test_the_same_command_is_refused_only_where_it_gets_nowhere(bench, same):
    """A command that does the next step each time is no repetition.

    One that differs in its duration alone is.
    """
    numbers = iter(range(9))

    @tool(risk="execute", aim=lambda arguments: "step")
    def run(command: str) -> str:
        """Run a command."""
        number = next(numbers)
        raise ToolError(
            f"Exit code 1 after 0.{number} s\n{3 if same else 9 - number} steps are left"
        )

    kit = await bench(plugin("shell", run), answers=[*[use("run", command="step")] * 4, "ok"])
    await kit.run("x")
    assert codes(kit) == [E_FAILED] * 3 + [E_REPEATED if same else E_FAILED]


async def test_a_duration_does_not_make_another_result(bench):
    """The line that says how long something took is no news."""
    numbers = iter(range(99))

    @tool(risk="read", effect="pure")
    def state() -> str:
        """Read a state."""
        return f"Exit code 0 after {next(numbers)}.1 s\nthe same"

    kit = await bench(plugin("states", state), answers=[*[use("state")] * SAME_RESULTS_NOTED, "ok"])
    await kit.run("x")
    assert any("the same result" in note for note in notes(kit))


async def test_reading_cures_failures_among_others(bench):
    """Of three failures with different codes one was for want of reading: after it two are left,
    and the call may run.
    """
    codes_left = [E_STALE, E_FAILED, E_FAILED]

    @tool(risk="write", effect="once", writes="path")
    def edit(path: str) -> str:
        """Edit a file."""
        if codes_left:
            raise ToolError("It failed.", code=codes_left.pop(0))
        return "edited"

    @tool(risk="read", effect="pure", reads="path")
    def look(path: str) -> str:
        """Read a file."""
        return "content"

    answers = [*[use("edit", path="a")] * 3, use("look", path="a"), use("edit", path="a"), "ok"]
    kit = await bench(plugin("files", edit, look), answers=answers)
    await kit.run("x")
    assert codes(kit) == [E_STALE, E_FAILED, E_FAILED, "", ""]
    assert len(notes(kit)) == 1
