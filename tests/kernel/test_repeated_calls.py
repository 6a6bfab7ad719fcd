"""A failed call that the user repeats: same arguments, new id, the same gates, a report at the end."""

import hilum
import msgspec
import pytest
import trio
from hilum import ToolError, UsageError, ask, tool
from hilum.events import (
    ApprovalAsked,
    CallDone,
    CallStarted,
    ModelAnswered,
    PromptFrozen,
    PromptQueued,
    RunEnded,
    RunStarted,
)
from hilum.messages import ToolMessage, UserMessage
from hilum.store import MemoryStore
from hilum.testing import open_bench, plugin, say, use
from hilum_view import Card, Prompt, SessionView


class Shop:
    """A tool that fails until the user has fixed the cause."""

    def __init__(self) -> None:
        self.broken = True
        self.ran: list[str] = []
        self.gate = trio.Event()
        self.gate.set()

    def plugin(self, risk="execute", effect="once"):
        @tool(risk=risk, effect=effect)
        async def build(target: str) -> str:
            """Build.

            Args:
                target: What.
            """
            self.ran.append(target)
            await self.gate.wait()
            if self.broken:
                raise ToolError("The compiler is missing.", code="E_CMD_FAIL")
            return f"built {target}"

        return plugin("shop", build)


async def fail(kit) -> str:
    """Run a call that fails, and return its id."""
    ended = await kit.run("Build it.")
    assert ended.state == "completed"
    (result,) = kit.results
    assert result.code == "E_CMD_FAIL"
    return result.call_id


async def repeat(kit, call: str) -> RunEnded:
    """Repeat a call, and wait until the agent has read its result."""
    run = await kit.session.repeat_call(call)
    with kit.guard():
        return await run.wait()


async def test_a_repeated_call_runs_and_the_model_reads_its_result_last():
    """The same arguments under a new id; nothing earlier in the conversation changes."""
    shop = Shop()
    answers = [use("build", target="docs"), "It failed.", "Now it works."]
    async with open_bench(shop.plugin(), answers=answers) as kit:
        call = await fail(kit)
        before = list(kit.session.agents["main"].conversation.messages)
        shop.broken = False
        ended = await repeat(kit, call)
        assert (ended.state, ended.text) == ("completed", "Now it works.")
        first, second = kit.of(CallStarted)
        assert first.call.arguments == second.call.arguments
        assert first.call.id != second.call.id
        assert shop.ran == ["docs", "docs"]
        sent = kit.requests[-1].messages
        assert list(sent[: len(before)]) == before
        announced, report = sent[len(before) : len(before) + 2]
        assert isinstance(announced, UserMessage)
        assert isinstance(report, UserMessage)
        assert 'build {"target":"docs"}' in announced.parts[0].text
        assert "built docs" in "".join(part.text for part in report.parts)
        # No message counts as the user's words, and no provider gets a result without its call.
        assert announced.typed == report.typed == ""
        made = {
            c.id for m in sent if not isinstance(m, UserMessage) for c in getattr(m, "calls", ())
        }
        for message in sent:
            if isinstance(message, ToolMessage):
                assert {result.call_id for result in message.results} <= made


async def test_the_event_names_the_failed_call_and_the_view_shows_both():
    shop = Shop()
    answers = [use("build", target="docs"), "It failed.", "Now it works."]
    async with open_bench(shop.plugin(), answers=answers) as kit:
        call = await fail(kit)
        shop.broken = False
        await repeat(kit, call)
        (queued,) = [event for event in kit.of(PromptQueued) if event.repeats]
        (started,) = [event for event in kit.of(RunStarted) if event.repeats]
        assert queued.repeats == started.repeats
        assert started.repeats.previous == call
        assert queued.piped
        view = SessionView().apply_all(kit.events)
        failed, repeated = [entry for entry in view.entries if isinstance(entry, Card)]
        assert (failed.state, failed.repeated_by) == ("failed", repeated.call.id)
        assert (repeated.state, repeated.repeats) == ("completed", failed.call.id)
        prompts = [entry for entry in view.entries if isinstance(entry, Prompt)]
        assert [prompt.repeats for prompt in prompts] == ["", call]
        # The prompt is frozen for the run, as for every other run.
        assert len(kit.of(PromptFrozen)) == 2


async def test_a_call_that_fails_again_is_reported_and_can_be_repeated_again():
    shop = Shop()
    answers = [use("build", target="docs"), "a", "b", "c"]
    async with open_bench(shop.plugin(), answers=answers) as kit:
        call = await fail(kit)
        await repeat(kit, call)
        again = kit.of(CallDone)[-1].result
        assert again.code == "E_CMD_FAIL"
        report = kit.session.agents["main"].conversation.messages[-2]
        assert "failed again (E_CMD_FAIL)" in report.parts[0].text
        shop.broken = False
        await repeat(kit, again.call_id)
        assert kit.of(CallDone)[-1].result.text == "built docs"


async def test_gates_and_the_user_decide_again():
    """An earlier approval does not cover the repeated call; a rejection ends it."""
    shop = Shop()
    gate = plugin("gate", on_tool_call=lambda call: ask("It is dangerous."))
    answers = [use("build", target="docs"), "It failed.", "Not allowed."]
    async with open_bench(shop.plugin(), gate, answers=answers) as kit:
        run = await kit.start("Build it.")
        asked = await kit.wait_for(ApprovalAsked)
        kit.session.answer(asked.id, True)
        await run.wait()
        call = kit.results[0].call_id
        run = await kit.session.repeat_call(call)
        again = await kit.wait_for(ApprovalAsked, after=asked.seq)
        assert again.call.arguments == asked.call.arguments
        kit.session.answer(again.id, False, reason="Not today.")
        with kit.guard():
            ended = await run.wait()
        assert ended.text == "Not allowed."
        assert kit.of(CallDone)[-1].result.code == "E_REJECTED"
        assert len(shop.ran) == 1


async def test_the_arguments_that_the_user_wrote_are_repeated():
    shop = Shop()
    gate = plugin("gate", on_tool_call=lambda call: ask("It is dangerous."))
    answers = [use("build", target="docs"), "It failed.", "Good."]
    async with open_bench(shop.plugin(), gate, answers=answers) as kit:
        run = await kit.start("Build it.")
        asked = await kit.wait_for(ApprovalAsked)
        kit.session.answer(asked.id, True, arguments='{"target": "tests"}')
        await run.wait()
        run = await kit.session.repeat_call(kit.results[0].call_id)
        again = await kit.wait_for(ApprovalAsked, after=asked.seq)
        kit.session.answer(again.id, True)
        with kit.guard():
            await run.wait()
        assert shop.ran == ["tests", "tests"]


async def test_calls_that_cannot_be_repeated():
    """Each refusal says why, and nothing is written."""
    shop = Shop()
    shop.gate = trio.Event()
    answers = [use("build", target="docs"), "It failed.", "Done.", use("build", target="a"), "End."]
    async with open_bench(shop.plugin(), answers=answers) as kit:
        with pytest.raises(UsageError, match="There is no call") as caught:
            await kit.session.repeat_call("missing")
        assert caught.value.code == "E_UNKNOWN"
        run = await kit.start("Build it.")
        started = await kit.wait_for(CallStarted)
        with pytest.raises(UsageError, match="has not ended yet") as caught:
            await kit.session.repeat_call(started.call.id)
        assert caught.value.code == "E_BUSY"
        shop.gate.set()
        await run.wait()
        shop.broken = False
        shop.gate = trio.Event()
        run = await kit.session.repeat_call(started.call.id)
        with pytest.raises(UsageError, match="being repeated already") as caught:
            await kit.session.repeat_call(started.call.id)
        assert caught.value.code == "E_BUSY"
        shop.gate.set()
        with kit.guard():
            await run.wait()
        await kit.run("Another.")
        succeeded = kit.results[-1]
        assert not succeeded.code
        last = kit.session.journal.last
        with pytest.raises(UsageError, match="did not fail"):
            await kit.session.repeat_call(succeeded.call_id)
        assert kit.session.journal.last == last


async def test_a_call_whose_secret_is_not_stored_cannot_be_repeated():
    shop = Shop()
    hide = plugin(
        "hide",
        redact_texts=lambda texts, origin: [
            text.replace("hunter2-hunter2", "[REDACTED:key]") for text in texts
        ],
    )
    answers = [use("build", target="hunter2-hunter2"), "It failed."]
    async with open_bench(shop.plugin(), hide, answers=answers) as kit:
        call = await fail(kit)
        with pytest.raises(UsageError, match="contained a secret") as caught:
            await kit.session.repeat_call(call)
        assert caught.value.code == "E_BAD_ARGS"
        assert shop.ran == ["hunter2-hunter2"]


async def test_calls_of_agents_that_work_for_others_are_not_repeated():
    shop = Shop()
    answers = [use("build", target="docs"), "It failed."]
    async with open_bench(shop.plugin(), answers=answers) as kit:
        kit.session.add_agent(hilum.Profile(name="helper"), parent="main")
        await kit.run("Build it.", agent="helper")
        with pytest.raises(UsageError, match="works for another agent"):
            await kit.session.repeat_call(kit.results[0].call_id)


async def test_a_repeated_call_waits_like_a_prompt_and_can_be_stopped():
    shop = Shop()
    answers = [use("build", target="docs"), "It failed.", use("build", target="long"), "End."]
    async with open_bench(shop.plugin(), answers=answers) as kit:
        call = await fail(kit)
        shop.gate = trio.Event()
        working = await kit.start("Build something long.")
        await kit.wait_for(CallStarted, lambda event: "long" in event.call.arguments)
        run = await kit.session.repeat_call(call)
        assert shop.ran == ["docs", "long"]
        run.stop()
        with kit.guard():
            assert (await run.wait()).state == "stopped"
        shop.gate.set()
        with kit.guard():
            assert (await working.wait()).state == "completed"
        assert shop.ran == ["docs", "long"]


async def test_a_stopped_repeated_call_is_reported_and_the_run_can_be_retried():
    shop = Shop()
    answers = [use("build", target="docs"), "It failed.", "I see."]
    async with open_bench(shop.plugin(), answers=answers) as kit:
        call = await fail(kit)
        shop.gate = trio.Event()
        run = await kit.session.repeat_call(call)
        while len(shop.ran) < 2:
            await trio.testing.wait_all_tasks_blocked()
        run.stop()
        with kit.guard():
            assert (await run.wait()).state == "stopped"
        report = kit.session.agents["main"].conversation.messages[-1]
        assert isinstance(report, UserMessage)
        assert "E_STOPPED" in report.parts[0].text
        retried = await kit.session.retry()
        with kit.guard():
            assert (await retried.wait()).text == "I see."
        assert len(shop.ran) == 2, "finished calls do not run again"


async def test_repeated_failures_do_not_refuse_a_call_that_the_user_repeats():
    """The user may have fixed the cause, which the counts of failures cannot know."""
    shop = Shop()
    wants = [use("build", target="docs")] * 3
    async with open_bench(shop.plugin(), answers=[*wants, "It failed.", "Good."]) as kit:
        await kit.run("Build it.")
        call = kit.results[-1].call_id
        shop.broken = False
        await repeat(kit, call)
        assert kit.of(CallDone)[-1].result.text == "built docs"


@pytest.mark.parametrize("effect", ["once", "pure"])
async def test_a_repeated_call_survives_a_crash(tmp_path, effect):
    """A resumed run continues with its call; one with an effect is not run twice."""
    shop = Shop()
    store = MemoryStore()
    answers = [use("build", target="docs"), "It failed."]
    options = {"store": store, "folder": tmp_path}
    made = shop.plugin(effect=effect)
    async with open_bench(made, answers=answers, **options) as kit:
        identity = kit.session.id
        call = await fail(kit)
        shop.gate = trio.Event()
        await kit.session.repeat_call(call)
        while len(shop.ran) < 2:
            await trio.testing.wait_all_tasks_blocked()
    shop.broken = False
    shop.gate.set()
    async with open_bench(made, answers=["Understood."], resume=identity, **options) as kit:
        (run,) = kit.session.resume()
        with kit.guard():
            ended = await run.wait()
        assert ended.text == "Understood."
        done = kit.of(CallDone)[-1].result
        if effect == "once":
            assert done.code == "E_INTERRUPTED"
            assert len(shop.ran) == 2
        else:
            assert done.text == "built docs"
            assert len(shop.ran) == 3


async def test_resumed_sessions_and_forks_send_the_same_conversation(tmp_path):
    shop = Shop()
    store = MemoryStore()
    answers = [use("build", target="docs"), "It failed.", "Now it works."]
    options = {"store": store, "folder": tmp_path}
    async with open_bench(shop.plugin(), answers=answers, **options) as kit:
        call = await fail(kit)
        shop.broken = False
        await repeat(kit, call)
        expected = list(kit.session.agents["main"].conversation.messages)
        fork = await kit.kernel.fork(kit.session.id)
        identity = kit.session.id
    for session in (identity, fork):
        async with open_bench(shop.plugin(), answers=["More."], resume=session, **options) as kit:
            conversation = kit.session.agents["main"].conversation
            assert conversation.messages == expected
            await kit.run("More?")
            assert list(kit.requests[0].messages[: len(expected)]) == expected
            # A call that failed in the original can be repeated in the copy.
            kit.model.next(say("Again."))
            await repeat(kit, call)
            assert kit.of(CallDone)[-1].result.text == "built docs"


async def test_a_call_before_a_compaction_can_be_repeated():
    shop = Shop()
    answers = [use("build", target="docs"), "It failed."]
    shorten = plugin(
        "shorten", trim_context=lambda messages: hilum.Compaction(len(messages) - 1, "x")
    )
    async with open_bench(shop.plugin(), shorten, answers=answers) as kit:
        call = await fail(kit)
        kit.session.compact()
        await kit.wait_for(hilum.events.Compacted)
        kit.model.next(say("Good."))
        shop.broken = False
        ended = await repeat(kit, call)
        assert ended.text == "Good."
        assert kit.of(ModelAnswered)[-1].message.text == "Good."
        assert msgspec.json.decode(kit.of(CallStarted)[-1].call.arguments) == {"target": "docs"}


async def test_a_call_far_back_is_found_without_reading_the_log_in_the_event_loop(monkeypatch):
    monkeypatch.setattr("hilum.journal.RECENT", 1)
    shop = Shop()
    answers = [use("build", target="docs"), "It failed.", "Now it works."]
    async with open_bench(shop.plugin(), answers=answers) as kit:
        call = await fail(kit)
        shop.broken = False
        read = kit.session.journal.since

        def read_in_memory(after):
            assert kit.session.journal.has_in_memory(after)
            return read(after)

        with monkeypatch.context() as patch:
            patch.setattr(kit.session.journal, "since", read_in_memory)
            run = await kit.session.repeat_call(call)
        with kit.guard():
            await run.wait()
        assert kit.of(CallDone)[-1].result.text == "built docs"
