"""Questions to the user: events, answers, and the default without an answer."""

import hilum_plan
import hilum_prompt
import pytest
import trio
from hilum import UsageError
from hilum.events import CallDone, PluginEvent, RunEnded
from hilum.store import MemoryStore
from hilum.testing import open_bench, use
from hilum_plan import Plan, question_asked, question_settled
from hilum_plan.questions import Question, check_answers, clean_options, describe_answer

WHICH = use("ask_question", question="Which database?", options=["PostgreSQL", "SQLite"])


def opened(*answers, **options):
    return open_bench(hilum_plan, hilum_prompt, answers=answers, **options)


async def asked(bench, after=0):
    event = await bench.wait_for(
        PluginEvent, lambda e: e.name == "plan.question_asked", after=after
    )
    return question_asked(event)


async def ask_and_answer(bench, *answers):
    run = await bench.start("Go")
    question = await asked(bench)
    bench.session.plugin(Plan).answer(question.id, *answers)
    return question, await run.wait()


@pytest.mark.parametrize(
    ("call", "answers", "text"),
    [
        (WHICH, "SQLite", "The user chose:\n- SQLite"),
        (WHICH, ["SQLite"], "The user chose:\n- SQLite"),
        (WHICH, "DuckDB, please", "The user answered:\nDuckDB, please"),
        (
            WHICH,
            [],
            "The user leaves it to you. Continue with the first option, 'PostgreSQL', and say",
        ),
        (WHICH, "  ", "The user leaves it to you. Continue with the first option"),
        (use("ask_question", question="Why?"), "Because.", "The user answered:\nBecause."),
        (
            use("ask_question", question="Why?"),
            (),
            "The user leaves it to you. Decide yourself, and say",
        ),
        (
            use("ask_question", question="Which?", options=["a", "b", "c"], multiple=True),
            ["c", "a", "a", "and d"],
            "The user chose:\n- c\n- a\nThe user answered:\nand d",
        ),
    ],
)
async def test_an_answer_goes_to_the_model(call, answers, text):
    async with opened(call, "Thanks.") as bench:
        question, ended = await ask_and_answer(bench, answers)
        assert (ended.state, ended.turns) == ("completed", 2)
        assert bench.results[0].text.startswith(text)
        assert bench.results[0].code == ""
        (settled,) = [found for event in bench.events if (found := question_settled(event))]
        assert (settled.id, settled.by) == (question.id, "user")
        assert bench.session.plugin(Plan).questions() == []


async def test_faces_see_all_of_a_question():
    async with opened(WHICH, "Thanks.") as bench:
        run = await bench.start("Go")
        question = await asked(bench)
        assert (question.agent, question.question, question.options) == (
            "main",
            "Which database?",
            ("PostgreSQL", "SQLite"),
        )
        assert not question.multiple
        assert question.default == "PostgreSQL"
        assert bench.session.plugin(Plan).questions() == [question]
        event = next(e for e in bench.of(PluginEvent) if e.name == "plan.question_asked")
        assert event.run == run.id
        assert 299 < question.deadline - event.at <= 300
        bench.session.plugin(Plan).answer(question.id, "SQLite")
        await run.wait()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            WHICH,
            "Nobody can be asked. Continue with the first option, 'PostgreSQL', and say in your final answer that you did.",
        ),
        (
            use("ask_question", question="Why?"),
            "Nobody can be asked. Decide yourself, and say in your final answer what you decided.",
        ),
    ],
)
async def test_a_headless_run_gets_the_stated_default_at_once(call, text):
    async with opened(call, "I took it.", kind="headless") as bench:
        assert (await bench.run("Go")).state == "completed"
        assert bench.results[0].text == text
        assert bench.results[0].data["by"] == "headless"


async def test_without_an_answer_in_time_the_default_applies(autojump_clock):
    """The limit is five minutes; the usual time limit of calls does not apply."""
    async with opened(WHICH, "I took it.") as bench:
        began = trio.current_time()
        await bench.run("Go")
        assert trio.current_time() - began == pytest.approx(300, abs=1)
        assert bench.results[0].text.startswith(
            "Nobody answered within 300 seconds. Continue with the first option"
        )
        assert bench.results[0].code == ""
        settled = [found for event in bench.events if (found := question_settled(event))]
        assert [answer.by for answer in settled] == ["timeout"]
        with pytest.raises(UsageError, match="no open question"):
            bench.session.plugin(Plan).answer(settled[0].id, "SQLite")


async def test_the_time_to_answer_is_a_setting():
    async with opened(
        WHICH, "I took it.", settings={"plan.question_timeout": 7}, kind="headless"
    ) as bench:
        await bench.run("Go")
        question = await asked(bench)
        event = next(e for e in bench.of(PluginEvent) if e.name == "plan.question_asked")
        assert 6 < question.deadline - event.at <= 7


async def test_a_stop_ends_the_question():
    async with opened(WHICH, "Never said.") as bench:
        run = await bench.start("Go")
        question = await asked(bench)
        run.stop()
        assert (await run.wait()).state == "stopped"
        assert [found.by for event in bench.events if (found := question_settled(event))] == [
            "stop"
        ]
        assert bench.session.plugin(Plan).questions() == []
        with pytest.raises(UsageError, match="no open question"):
            bench.session.plugin(Plan).answer(question.id, "SQLite")


async def cut_off(bench, store, name, tmp_path):
    """Return a copy of the session as it was when an event was written last."""
    last = [
        event.seq for event in bench.events if isinstance(event, PluginEvent) and event.name == name
    ][-1]
    return await bench.kernel.fork(bench.session.id, last)


async def test_a_resume_asks_again(tmp_path):
    store = MemoryStore()
    async with opened(WHICH, "Thanks.", store=store, folder=tmp_path) as bench:
        first, _ = await ask_and_answer(bench, "SQLite")
        fork = await cut_off(bench, store, "plan.question_asked", tmp_path)
    async with opened("Thanks.", store=store, resume=fork, folder=tmp_path) as bench:
        last = bench.session.journal.last
        (run,) = bench.session.resume()
        again = await asked(bench, last)
        assert (again.question, again.call) == (first.question, first.call)
        assert again.id != first.id
        bench.session.plugin(Plan).answer(again.id, "PostgreSQL")
        assert (await run.wait()).state == "completed"
        assert bench.results[-1].text == "The user chose:\n- PostgreSQL"


async def test_an_answered_question_is_not_asked_again(tmp_path):
    """The answer was logged before the process died, the end of the call was not."""
    store = MemoryStore()
    async with opened(WHICH, "Thanks.", store=store, folder=tmp_path) as bench:
        await ask_and_answer(bench, "SQLite")
        fork = await cut_off(bench, store, "plan.question_answered", tmp_path)
    async with opened("Thanks.", store=store, resume=fork, folder=tmp_path) as bench:
        (run,) = bench.session.resume()
        assert (await run.wait()).state == "completed"
        assert bench.of(CallDone)[0].result.text == "The user chose:\n- SQLite"
        assert len([e for e in bench.of(PluginEvent) if e.name == "plan.question_asked"]) == 1


async def test_an_answer_belongs_to_its_own_call():
    """A later question with the same call id is asked again.

    Some servers count the calls of each answer from one.
    """
    from hilum.messages import ToolCall

    call = ToolCall("call-1", "ask_question", '{"question": "Which?"}')
    async with opened(call, call, "Thanks.") as bench:
        run = await bench.start("Go")
        first = await asked(bench)
        bench.session.plugin(Plan).answer(first.id, "one")
        second = await asked(bench, bench.session.journal.last)
        bench.session.plugin(Plan).answer(second.id, "two")
        await run.wait()
        assert [done.result.text[-3:] for done in bench.of(CallDone)] == ["one", "two"]


async def test_several_questions_are_asked_one_after_another():
    """Each question is asked when the one before is answered, in call order.

    So its time limit begins when the user sees it.
    """
    two = use("ask_question", question="One?") + use("ask_question", question="Two?")
    async with opened(two, "Thanks.") as bench:
        run = await bench.start("Go")
        plan = bench.session.plugin(Plan)
        seen = 0
        for expected in ("One?", "Two?"):
            event = await bench.wait_for(
                PluginEvent, lambda event: question_asked(event) is not None, after=seen
            )
            seen = event.seq
            (question,) = plan.questions()
            assert question.question == expected
            plan.answer(question.id, f"To {expected}")
        await run.wait()
        assert [result.text for result in bench.results] == [
            "The user answered:\nTo One?",
            "The user answered:\nTo Two?",
        ]


async def test_answers_that_cannot_be_leave_the_question_open():
    async with opened(WHICH, "Thanks.") as bench:
        run = await bench.start("Go")
        question, plan = await asked(bench), bench.session.plugin(Plan)
        for answers, said in (
            (["PostgreSQL", "SQLite"], "accepts only one answer"),
            ("x" * 10_001, "longer than 10000"),
        ):
            with pytest.raises(UsageError, match=said) as caught:
                plan.answer(question.id, answers)
            assert caught.value.code == "E_BAD_ARGS"
        with pytest.raises(UsageError, match="no open question 'nothing'"):
            plan.answer("nothing", "SQLite")
        assert plan.questions() == [question]
        plan.answer(question.id, "odd \udcff byte")
        assert (await run.wait()).state == "completed"
        assert bench.results[0].text == "The user answered:\nodd ? byte"


async def test_invalid_arguments_are_reported_and_ask_nothing():
    invalid = [
        ({}, "question"),
        ({"question": ""}, "$.question"),
        ({"question": " \n "}, "The question is empty"),
        ({"question": "x" * 100_000}, "length <= 4000"),
        ({"question": "Which?", "options": ["x"] * 11}, "length <= 10"),
        ({"question": "Which?", "options": ["x" * 301]}, "$.options[0]"),
        ({"question": "Which?", "options": [1]}, "$.options[0]"),
        ({"question": "Which?", "options": "yes or no"}, "$.options"),
        ({"question": "Which?", "multiple": "no"}, "$.multiple"),
    ]
    async with opened() as bench:
        for arguments, said in invalid:
            result = await bench.call("ask_question", **arguments)
            assert result.code == "E_BAD_ARGS", arguments
            assert said in result.text
            assert not bench.of(PluginEvent), arguments


def test_options_are_lines_and_stand_once():
    assert clean_options(["a\nb", "c\x1b[2J", "a b", " ", "c [2J"]) == ("a b", "c [2J")


def test_without_an_answer_the_agent_reads_the_default():
    question = Question("q", "main", "c", "Which?", ("a", "b"))
    assert check_answers(question, ["", " a "]) == ("a",)
    assert "first option, 'a'" in describe_answer(
        question, hilum_plan.questions.Answer("q", "c", by="timeout"), 5.0
    )


async def test_a_question_does_not_hold_up_the_other_calls():
    """They end while the user thinks; the next turn waits."""
    both = WHICH + use("todo_write", todos=[{"id": "a", "content": "x"}])
    async with opened(both, "Thanks.") as bench:
        run = await bench.start("Go")
        question = await asked(bench)
        done = await bench.wait_for(CallDone)
        assert done.result.name == "todo_write"
        assert not bench.of(RunEnded)
        bench.session.plugin(Plan).answer(question.id, "SQLite")
        assert (await run.wait()).turns == 2
