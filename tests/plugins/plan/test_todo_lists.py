"""Todo lists in sessions, through the real loop.

The tests cover the log, the texts for the model, and the ends of runs.
"""

import hilum_memory
import hilum_plan
import hilum_prompt
import pytest
import trio
from hilum import Profile, hookimpl, tool
from hilum.events import (
    CallDone,
    Compacted,
    ModelStarted,
    PluginEvent,
    RoundEnded,
    RunEnded,
    RunStarted,
)
from hilum.messages import UserMessage
from hilum.store import MemoryStore
from hilum.testing import open_bench, pause, use
from hilum_plan import Plan
from hilum_view import SessionView

THREE = [{"id": name, "content": f"Do {name}"} for name in "abc"]


async def wait_forever(plan: Plan) -> None:
    """Take the place of the task that reports the ends of runs."""
    await trio.sleep_forever()


class Work:
    """Create a tool that does nothing and one that fails."""

    def __init__(self):
        self.reached, self.go_on = trio.Event(), trio.Event()

    @hookimpl
    def provide_tools(self):
        @tool(risk="read", effect="pure")
        async def look(what: str = "") -> str:
            """Look."""
            if what == "wait":
                self.reached.set()
                await self.go_on.wait()
            return "Seen."

        return [look]


def opened(*answers, plugins=(), **options):
    return open_bench(hilum_plan, hilum_prompt, *plugins, answers=answers, **options)


def notes(bench):
    return [note for event in bench.of(RoundEnded) for note in event.notes]


def named(bench, name):
    return [event for event in bench.of(PluginEvent) if event.name == name]


def context(bench, request=-1):
    messages = [m for m in bench.requests[request].messages if isinstance(m, UserMessage)]
    return "".join(part.text for part in messages[-1].parts[1:])


def states(bench, agent="main"):
    return {item.id: item.status for item in bench.session.plugin(Plan).items(agent)}


def todo(*todos, **options):
    return use("todo_write", todos=list(todos), **options)


def mark(name, status):
    return todo({"id": name, "status": status})


async def test_a_list_is_written_and_stored():
    async with opened(
        todo(*THREE), mark("a", "in_progress"), mark("a", "completed"), "Done."
    ) as bench:
        await bench.run("Do three things")
        assert states(bench) == {"a": "completed", "b": "pending", "c": "pending"}
        plan = bench.session.plugin(Plan)
        assert plan.progress() == {"total": 3, "completed": 1, "in_progress": 0, "pending": 2}
        assert [event.data["progress"]["completed"] for event in named(bench, "plan.todos")] == [
            0,
            0,
            1,
        ]
        assert bench.results[0].text == "Todo list: 0 of 3 completed. Next: a (Do a)."
        assert (
            bench.results[1].text
            == "Todo list: 0 of 3 completed. In progress: a (Do a). Next: b (Do b)."
        )
        assert {event.agent for event in named(bench, "plan.todos")} == {"main"}


async def test_a_refused_change_is_reported_and_the_others_are_made():
    both = todo({"id": "a", "status": "completed"}, {"id": "b", "status": "in_progress"})
    async with opened(todo(*THREE), both, mark("a", "blocked"), "Done.") as bench:
        await bench.run("Do three things")
        assert states(bench) == {"a": "pending", "b": "in_progress", "c": "pending"}
        assert bench.results[1].code == ""
        assert bench.results[1].text.startswith(
            "These items were not changed; all other changes were made:\n- a: it cannot go from pending to completed"
        )
        assert bench.results[2].code == "E_BAD_ARGS"
        assert (
            "from pending it can become in_progress, skipped or cancelled" in bench.results[2].text
        )
        assert len(named(bench, "plan.todos")) == 2


async def test_invalid_arguments_are_reported_with_their_place_and_change_nothing():
    invalid = [
        ({"todos": [{"id": "a", "content": "x", "status": "done"}]}, "$.todos[0].status"),
        ({"todos": [{"id": 1, "content": "x"}]}, "$.todos[0].id"),
        ({"todos": [{"content": "x"}]}, "missing required field `id`"),
        ({"todos": [{"id": "a", "content": ""}]}, "$.todos[0].content"),
        ({"todos": [{"id": "a", "content": "x" * 100_000}]}, "length <= 1000"),
        ({"todos": [{"id": "a" * 65, "content": "x"}]}, "length <= 64"),
        ({"todos": [{"id": str(n), "content": "x"} for n in range(5_000)]}, "length <= 100"),
        ({"todos": [{"id": "a", "content": "x", "colour": "red"}]}, "unknown field `colour`"),
        ({"todos": {"id": "a"}}, "$.todos"),
        ({"todos": None}, "$.todos"),
        ({"todos": [{"id": "a", "content": "x"}], "merge": "yes"}, "$.merge"),
        ({}, "missing required field `todos`"),
        ({"todos": [{"id": "a", "content": "x"}, {"id": "a", "content": "y"}]}, "occurs twice"),
        ({"todos": [{"id": "a", "content": "\x1b\x07"}]}, "is empty"),
    ]
    async with opened() as bench:
        await bench.call("todo_write", todos=THREE)
        written = bench.session.plugin(Plan).items()
        for arguments, said in invalid:
            result = await bench.call("todo_write", **arguments)
            assert result.code == "E_BAD_ARGS", arguments
            assert said in result.text
            assert len(result.text) < 1_000
            assert bench.session.plugin(Plan).items() == written, arguments


async def test_a_list_written_as_a_text_is_read_and_control_characters_go():
    async with opened() as bench:
        result = await bench.call("todo_write", todos='[{"id": "a", "content": "x\\u001b[2J y"}]')
        assert result.code == ""
        assert bench.session.plugin(Plan).items()[0].content == "x [2J y"


@pytest.mark.parametrize("_", range(8))
async def test_several_calls_of_one_answer_are_made_in_their_order(_):
    """They start at the same time, in any order."""
    answer = todo(*THREE)
    for status in ("in_progress", "failed", "in_progress", "completed"):
        answer += mark("a", status)
    async with opened(answer, "Done.") as bench:
        await bench.run("Do three things")
        assert [result.code for result in bench.results] == [""] * 5
        assert states(bench)["a"] == "completed"


async def test_an_item_shows_the_calls_made_for_it():
    """Only calls made while it was in progress count, and not the calls that change the list."""
    async with opened(
        todo(*THREE), use("look"), mark("a", "in_progress"),
        use("look", what="one") + use("nothing_such"), use("look", what="two"),
        mark("a", "completed"), use("look"), "Done.",
        plugins=[Work()],
    ) as bench:  # fmt: skip
        await bench.run("Do three things")
        item = bench.session.plugin(Plan).items()[0]
        assert [(call.name, call.done, call.code) for call in item.calls] == [
            ("look", True, ""),
            ("look", True, ""),
        ]
        assert item.spent > 0
        assert all(call.seconds >= 0 for call in item.calls)
        assert not any(item.calls for item in bench.session.plugin(Plan).items()[1:])
        assert "calls" not in str([event.data for event in named(bench, "plan.todos")])


async def test_open_items_are_cancelled_when_the_run_is_stopped():
    """The list and the log have it at once, and the model reads it with the next prompt."""
    work = Work()
    async with opened(todo(*THREE, {"id": "d", "content": "Do d", "status": "skipped"}),
                      mark("a", "in_progress") + use("look", what="wait"), "Hello.", plugins=[work]) as bench:  # fmt: skip
        run = await bench.start("Do three things")
        await work.reached.wait()
        bench.session.stop()
        assert (await run.wait()).state == "stopped"
        assert states(bench) == {
            "a": "cancelled",
            "b": "cancelled",
            "c": "cancelled",
            "d": "skipped",
        }
        event = await bench.wait_for(
            PluginEvent, lambda e: e.name == "plan.todos" and e.data["cause"] == "stopped"
        )
        assert event.data["progress"] == {
            "total": 0,
            "completed": 0,
            "in_progress": 0,
            "pending": 0,
        }
        assert event.run == run.id
        assert bench.session.plugin(Plan).left_over() == ()
        await bench.run("Hi")
        assert (
            "cancelled when the user stopped the run:\n- [in_progress] a: Do a\n- [pending] b: Do b"
            in context(bench)
        )
        assert "open" not in context(bench)


async def test_a_stopped_prompt_that_waited_cancels_nothing():
    """Stopping a waiting prompt does not end the run."""
    async with opened(todo(*THREE), [pause(1.0), "Done."]) as bench:
        run = await bench.start("Do three things")
        await bench.wait_for(ModelStarted, lambda event: event.turn == 2)
        waiting = await bench.start("And then")
        bench.session.emit(RunEnded(state="stopped"), bench.session.agents["main"], waiting.id)
        assert set(states(bench).values()) == {"pending"}
        assert (await run.wait()).state == "completed"


async def test_left_items_are_reported_when_the_run_ends():
    async with opened(
        todo(*THREE), mark("a", "in_progress"), mark("a", "completed"), "Done.", "Hello."
    ) as bench:
        ended = await bench.run("Do three things")
        event = await bench.wait_for(PluginEvent, lambda event: event.name == "plan.left_over")
        assert ended.state == "completed"
        assert [item["id"] for item in event.data["left"]] == ["b", "c"]
        assert [item.id for item in bench.session.plugin(Plan).left_over()] == ["b", "c"]
        await bench.run("Hi")
        assert "still open:\n- [pending] b: Do b\n- [pending] c: Do c" in context(bench)
        await bench.wait_for(
            PluginEvent, lambda e: e.name == "plan.left_over" and e.seq > event.seq
        )
    assert len(named(bench, "plan.left_over")) == 2


async def test_left_items_are_reported_before_the_next_run(monkeypatch):
    """The task that reports them may be later than the next prompt."""
    monkeypatch.setattr(Plan, "watch", wait_forever)
    async with opened(todo(*THREE), "Done.", "Hello.") as bench:
        await bench.run("Do three things")
        assert not named(bench, "plan.left_over")
        await bench.run("Hi")
        (event,) = named(bench, "plan.left_over")
        began = [each for each in bench.events if isinstance(each, RunStarted)]
        assert event.run == began[0].run
        assert event.seq < began[1].seq


async def test_left_items_of_an_agent_that_has_left_are_reported(monkeypatch):
    """A sub-agent leaves the session when its run has ended."""
    monkeypatch.setattr(Plan, "watch", wait_forever)
    async with opened(todo(*THREE), "Done.") as bench:
        await bench.run("Do three things")
        main = bench.session.agents.pop("main")
        bench.session.plugin(Plan).report()
        (event,) = named(bench, "plan.left_over")
        assert event.agent == "main"
        bench.session.agents["main"] = main


async def test_a_finished_list_leaves_nothing_to_tell():
    done = [mark("a", "in_progress"), mark("a", "completed")]
    async with opened(todo(THREE[0]), *done, "Done.", "Hello.") as bench:
        await bench.run("Do one thing")
        await bench.run("Hi")
        assert context(bench) == ""
        assert bench.session.plugin(Plan).left_over() == ()
    assert not named(bench, "plan.left_over")


async def test_owed_events_are_written_when_the_session_closes_at_once():
    store = MemoryStore()
    async with opened(todo(*THREE), "Done.", store=store) as bench:
        await bench.run("Do three things")
        session = bench.session.id
    events = await store.read(session)
    assert [e.name for e in events if isinstance(e, PluginEvent)] == [
        "plan.todos",
        "plan.left_over",
    ]


async def test_resume_and_fork_have_the_list(tmp_path):
    store = MemoryStore()
    async with opened(todo(*THREE), mark("a", "in_progress"), use("look"), "Done.", plugins=[Work()], store=store,
                      folder=tmp_path) as bench:  # fmt: skip
        await bench.run("Do three things")
        before, session = bench.session.plugin(Plan).items(), bench.session.id
    async with opened("Hi.", store=store, resume=session, folder=tmp_path) as bench:
        assert bench.session.plugin(Plan).items() == before
        assert [call.name for call in before[0].calls] == ["look"]
        fork = await bench.kernel.fork(session)
    async with opened("Hi.", store=store, resume=fork, folder=tmp_path) as bench:
        assert bench.session.plugin(Plan).items() == before
        await bench.run("Go on")
        assert "still open" in context(bench)


async def test_a_stop_that_was_not_written_down_is_written_by_the_resume(tmp_path):
    """The process died between the end of the run and its report; the log decides."""
    store = MemoryStore()
    async with opened(
        todo(*THREE), mark("a", "in_progress"), "Done.", store=store, folder=tmp_path
    ) as bench:
        await bench.run("Do three things")
        upto = bench.of(RunEnded)[0].seq - 1
        fork = await bench.kernel.fork(bench.session.id, upto)
    async with opened(store=store, resume=fork, folder=tmp_path) as bench:
        main = bench.session.agents["main"]
        bench.session.emit(RunEnded(state="stopped"), main)
        assert set(states(bench).values()) == {"cancelled"}
        await bench.wait_for(
            PluginEvent, lambda e: e.name == "plan.todos" and e.data["cause"] == "stopped"
        )


async def test_two_agents_have_two_lists():
    async with opened(
        todo(*THREE), "Done.", todo({"id": "a", "content": "Other"}), "Done."
    ) as bench:
        bench.session.add_agent(Profile("other"))
        await bench.run("Do three things")
        await bench.run("Do another", agent="other")
        plan = bench.session.plugin(Plan)
        assert [item.content for item in plan.items("other")] == ["Other"]
        assert len(plan.items()) == 3
        assert plan.items("nobody") == ()
        assert plan.progress("nobody")["total"] == 0
        assert context(bench) == ""


@pytest.mark.parametrize(
    ("mode", "there"), [("agent", True), ("plan", True), ("ask", False), ("debug", False)]
)
async def test_modes_that_have_the_list(mode, there):
    """The tool is in agent and plan mode; questions can be asked in all modes."""
    async with opened("Hi.", mode=mode) as bench:
        await bench.run("Hello")
        names = {spec.name for spec in bench.requests[0].tools}
        assert ("todo_write" in names) == there
        assert "ask_question" in names


@pytest.mark.parametrize("approve", ["ask_first", "readonly", "auto"])
async def test_writing_the_list_needs_no_approval(approve):
    async with opened(approve=approve) as bench:
        assert (await bench.call("todo_write", todos=THREE)).code == ""


async def test_the_model_is_reminded_only_if_needed():
    """It is reminded once if no item is in progress.

    Without changes it is reminded every few rounds. Sent messages stay unchanged.
    """
    async with opened(
        todo(*THREE), *[use("look", what=str(n)) for n in range(5)], mark("a", "in_progress"),
        *[use("look", what=f"b{n}") for n in range(7)], "Done.",
        plugins=[Work()], settings={"plan.remind_after": 3},
    ) as bench:  # fmt: skip
        await bench.run("Do three things")
        rounds = [event.notes for event in bench.of(RoundEnded)]
        said = {number: texts[0] for number, texts in enumerate(rounds) if texts}
        assert said == {
            1: "No item in your todo list is in progress; the next one is a (Do a). Keep the list up to date with todo_write.",
            2: "You have not changed your todo list for 3 rounds. Todo list: 0 of 3 completed. Next: a (Do a). "
            "Keep the list up to date with todo_write.",
            5: "You have not changed your todo list for 6 rounds. Todo list: 0 of 3 completed. Next: a (Do a). "
            "Keep the list up to date with todo_write.",
            8: "You have not changed your todo list for 3 rounds. Todo list: 0 of 3 completed. "
            "In progress: a (Do a). Next: b (Do b). Keep the list up to date with todo_write.",
            11: "You have not changed your todo list for 6 rounds. Todo list: 0 of 3 completed. "
            "In progress: a (Do a). Next: b (Do b). Keep the list up to date with todo_write.",
        }
        for earlier, later in zip(bench.requests, bench.requests[1:], strict=False):
            assert tuple(later.messages[: len(earlier.messages)]) == tuple(earlier.messages)
            assert later.layers == earlier.layers


async def test_a_reminder_names_blocked_and_failed_items_that_may_be_given_up():
    fail = [mark("a", "in_progress"), mark("a", "failed")]
    async with opened(
        todo(*THREE), *fail, *fail, *fail, mark("b", "in_progress"), mark("b", "blocked"), use("look"), use("look"), "Done.",
        plugins=[Work()], settings={"plan.blocked_timeout": 0, "plan.remind_after": 0},
    ) as bench:  # fmt: skip
        await bench.run("Do three things")
        (note,) = notes(bench)
        assert "a (Do a) is failed: it can become in_progress or cancelled." in note
        assert "b (Do b) is blocked: it can become in_progress or cancelled." in note


@pytest.mark.parametrize("mode", ["plan", "ask"])
async def test_nothing_is_reminded_of_where_the_list_waits_for_the_user(mode):
    async with opened(todo(*THREE), "Done.", use("look"), use("look"), "Done.", plugins=[Work()],
                      settings={"plan.remind_after": 1}) as bench:  # fmt: skip
        await bench.run("Do three things")
        bench.session.set(mode=mode)
        await bench.run("Something else")
        assert notes(bench) == []


async def test_the_list_of_an_earlier_run_comes_with_the_prompt_only():
    async with opened(todo(*THREE), "Done.", use("look"), use("look"), "Done.", plugins=[Work()],
                      settings={"plan.remind_after": 1}) as bench:  # fmt: skip
        await bench.run("Do three things")
        await bench.run("Something else")
        assert "still open" in context(bench)
        assert notes(bench) == []


async def test_open_items_stand_after_a_trim():
    async with opened(todo(*THREE), mark("a", "skipped"), "Done.", plugins=[hilum_memory]) as bench:
        plan, main = bench.session.plugin(Plan), bench.session.agents["main"]
        assert plan.keep_on_compaction(main) is None
        await bench.run("Do three things")
        kept = "Open items of your todo list:\n- [pending] b: Do b\n- [pending] c: Do c"
        assert plan.keep_on_compaction(main) == kept
        assert await bench.session.hooks.gather("keep_on_compaction", agent=main) == [
            ("hilum_plan", kept)
        ]


async def test_completed_items_are_named_after_a_compaction():
    async with opened(
        todo(*THREE), mark("a", "in_progress"), mark("a", "completed"), "Done."
    ) as bench:
        await bench.run("Do three things")
        plan, main = bench.session.plugin(Plan), bench.session.agents["main"]
        kept = plan.keep_on_compaction(main)
        assert kept.splitlines()[-1] == "Completed, and still on the list: a (Do a)."


@pytest.mark.parametrize("compacted", [True, False])
async def test_a_list_written_again_after_a_compaction_keeps_what_is_completed(compacted):
    """The model no longer sees the completed items, and writes only those that are left."""
    rest = [{"id": "b", "content": "Do b", "status": "in_progress"}, THREE[2]]
    answers = [
        todo(*THREE),
        mark("a", "in_progress"),
        mark("a", "completed"),
        "Half.",
        todo(*rest, merge=False),
        mark("b", "completed"),
        "Done.",
    ]
    async with opened(*answers) as bench:
        await bench.run("Do three things")
        if compacted:
            bench.session.agents["main"].emit(Compacted(upto=3, summary="Three things."))
        await bench.run("Go on")
        progress = bench.session.plugin(Plan).progress()
        view = SessionView().apply_all(bench.events)
        todos = view.lead_actor.todos
        assert (progress["completed"], progress["total"]) == ((2, 3) if compacted else (1, 2))
        assert (todos.completed, todos.total) == (progress["completed"], progress["total"])


async def test_another_list_after_a_compaction_replaces_everything():
    """A list without any of the open items is a new list, in which nothing is completed."""
    other = [{"id": "x", "content": "Do x"}]
    answers = [
        todo(*THREE),
        mark("a", "in_progress"),
        mark("a", "completed"),
        "Half.",
        todo(*other, merge=False),
        "Done.",
    ]
    async with opened(*answers) as bench:
        await bench.run("Do three things")
        bench.session.agents["main"].emit(Compacted(upto=3, summary="Three things."))
        await bench.run("Do something else")
        assert states(bench) == {"x": "pending"}


async def test_events_that_do_not_fit_are_passed_over():
    """Events of a later version or of another plugin are ignored."""
    async with opened("Hi.") as bench:
        await bench.call("todo_write", todos=THREE)
        main = bench.session.agents["main"]
        for items in (None, 3, [{"id": "a"}], [{"id": "a", "content": "x", "status": "odd"}]):
            main.emit(PluginEvent(name="plan.todos", data={"items": items}))
        main.emit(PluginEvent(name="plan.question_answered", data={"id": 3}))
        main.emit(PluginEvent(name="plan.todos", data={}))
        assert len(states(bench)) == 3


async def test_a_call_takes_a_second_at_most():
    """The tool has a time limit of one second."""
    async with opened("Hi.") as bench:
        assert bench.session.tools["todo_write"].time_limit({}) == 1
        await bench.run("Hello")
        assert not bench.of(CallDone)
