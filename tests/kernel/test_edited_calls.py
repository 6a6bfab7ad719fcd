"""A call that the user edits when he approves it, and calls that the user makes himself."""

import msgspec
import pytest
from hilum import UsageError, ask, deny, hookimpl, judge_call, tool
from hilum.errors import E_DENIED
from hilum.events import ApprovalAnswered, ApprovalAsked, CallStarted
from hilum.testing import open_bench, plugin, use


@tool(risk="execute", effect="once")
def shout(words: str) -> str:
    """Shout.

    Args:
        words: What to shout.
    """
    return words.upper()


class Keeper:
    """A gate that asks about everything and refuses swearing."""

    def __init__(self) -> None:
        self.judged: list[str] = []

    @hookimpl
    def on_tool_call(self, call):
        words = msgspec.json.decode(call.arguments)["words"]
        self.judged.append(words)
        if "damn" in words:
            return deny("No swearing.")
        return ask("It is loud.", scope=f"shout({words})")


def opened(keeper: Keeper, **options):
    """Open a bench with a tool and a gate."""
    gate = plugin("keeper", on_tool_call=keeper.on_tool_call)
    return open_bench(plugin("tools", shout), gate, approve="auto", **options)


async def answer_with(bench, arguments: str):
    """Run a call, and approve it with other arguments."""
    run = await bench.start("Shout.")
    asked = await bench.wait_for(ApprovalAsked)
    bench.session.answer(asked.id, True, arguments=arguments)
    with bench.guard():
        return await run.wait()


async def test_the_edited_call_runs_and_the_model_is_told() -> None:
    keeper = Keeper()
    async with opened(keeper, answers=[use("shout", words="hello"), "done"]) as bench:
        ended = await answer_with(bench, '{"words": "good morning"}')
        assert ended.state == "completed"
        (result,) = bench.results
        assert result.text.startswith("GOOD MORNING")
        assert "the user" in result.text
        (started,) = bench.of(CallStarted)
        assert msgspec.json.decode(started.call.arguments) == {"words": "good morning"}
        assert started.original == '{"words":"hello"}'
        assert keeper.judged == ["hello", "good morning"]
        assert len(bench.of(ApprovalAsked)) == 1, "the user is not asked about his own text"


async def test_what_a_gate_refuses_stays_refused() -> None:
    async with opened(Keeper(), answers=[use("shout", words="hello"), "done"]) as bench:
        await answer_with(bench, '{"words": "damn"}')
        (result,) = bench.results
        assert result.code == E_DENIED
        assert "No swearing" in result.text
        assert not bench.of(CallStarted)


@pytest.mark.parametrize("arguments", ['{"words": 3}', "{}", "no json", '{"words": "a", "x": 1}'])
async def test_arguments_that_do_not_fit_leave_the_question_open(arguments: str) -> None:
    async with opened(Keeper(), answers=[use("shout", words="hello"), "done"]) as bench:
        run = await bench.start("Shout.")
        asked = await bench.wait_for(ApprovalAsked)
        with pytest.raises(UsageError, match="does not fit"):
            bench.session.answer(asked.id, True, arguments=arguments)
        assert not bench.of(ApprovalAnswered)
        bench.session.answer(asked.id, True)
        with bench.guard():
            await run.wait()
        assert bench.results[0].text == "HELLO"


async def test_arguments_of_a_rejected_call_are_dropped() -> None:
    async with opened(Keeper(), answers=[use("shout", words="hello"), "done"]) as bench:
        run = await bench.start("Shout.")
        asked = await bench.wait_for(ApprovalAsked)
        bench.session.answer(asked.id, False, reason="Not now.", arguments='{"words": "hi"}')
        with bench.guard():
            await run.wait()
        assert bench.of(ApprovalAnswered)[0].arguments is None
        assert bench.results[0].code == "E_REJECTED"


async def test_calls_of_the_user_are_judged() -> None:
    """A face learns what the gates say, without a question to the user."""
    async with opened(Keeper()) as bench:
        agent = bench.session.agents["main"]
        assert (await judge_call(agent, "shout", '{"words": "hello"}')).kind == "ask"
        verdict = await judge_call(agent, "shout", '{"words": "damn"}')
        assert (verdict.kind, verdict.reason) == ("deny", "No swearing.")
        with pytest.raises(UsageError):
            await judge_call(agent, "whisper", "{}")
        bench.session.set(approve="readonly")
        assert (await judge_call(agent, "shout", '{"words": "hello"}')).kind == "deny"
        assert not bench.of(ApprovalAsked)
