"""The updates of a session: what is sent of output, and what is kept."""

from pathlib import Path

import msgspec
import pytest
from hilum import events as ev
from hilum.messages import AssistantMessage, Text, ToolCall, ToolResult, Usage, UserMessage
from hilum.testing import open_bench, use
from hilum_acp.messages import ClientAbilities
from hilum_acp.updates import OUTPUT_RATE, OUTPUT_SECONDS, UpdateMaker

CALL = ToolCall("c1", "run_terminal_cmd", '{"command": "make"}')


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def maker(clock):
    """A maker with a running command."""
    maker = UpdateMaker(Path("/w"), ClientAbilities(), clock, lambda model: 0)
    maker.make(ev.CallStarted(call=CALL, risk="execute", seq=5, agent="main", run="r"))
    return maker


def print_output(maker, text):
    return maker.make(ev.Delta(5, "main", "r", "output", text, "c1", CALL.name))


def text_of(update):
    return update["content"][0]["content"]["text"]


def test_output_that_came_too_soon_is_sent_later(maker, clock):
    [first] = print_output(maker, "one\n")
    assert "one" in text_of(first)
    assert maker.find_next_output() is None
    assert print_output(maker, "two\n") == []
    assert maker.find_next_output() == clock.now + OUTPUT_SECONDS
    assert list(maker.take_output()) == []
    clock.now += OUTPUT_SECONDS
    [later] = maker.take_output()
    # Content replaces the earlier content.
    assert "one\ntwo" in text_of(later)
    assert maker.find_next_output() is None
    assert list(maker.take_output()) == []


def test_much_output_is_sent_less_often(maker, clock):
    sent = 0
    for number in range(1_000):
        clock.now += 0.01
        # Output that looks the same as before would not be sent.
        for update in print_output(maker, f"line {number}\n" * 100):
            sent += len(text_of(update))
    assert sent <= 1.1 * 10 * OUTPUT_RATE
    assert sent >= 0.5 * 10 * OUTPUT_RATE


def test_output_that_changes_nothing_is_not_sent(maker, clock):
    print_output(maker, "done")
    clock.now += 1
    assert print_output(maker, "\n") == []
    assert maker.find_next_output() is None


def test_output_of_a_call_that_has_ended_is_not_sent(maker, clock):
    print_output(maker, "one\n")
    print_output(maker, "two\n")
    result = ToolResult("c1", CALL.name, (Text("all", "tool"),))
    [end] = maker.make(ev.CallDone(result=result, seq=6, agent="main", run="r"))
    assert "all" in text_of(end)
    clock.now += 1
    assert list(maker.take_output()) == []
    assert maker.find_next_output() is None


def test_a_call_that_only_waits_for_another_program_is_not_sent(maker):
    call = ToolCall("c2", "guest_wait", '{"number": 1}')
    assert maker.make(ev.CallStarted(call=call, risk="read", seq=6, agent="main", run="r")) == []
    result = ToolResult("c2", call.name, (Text("It has news.", "tool"),))
    assert maker.make(ev.CallDone(result=result, seq=7, agent="main", run="r")) == []


async def test_nothing_is_kept_of_what_has_ended(tmp_path, clock):
    """Neither of calls, nor of answers that failed or were stopped."""
    (tmp_path / "a.txt").write_text("one\n")
    maker = UpdateMaker(tmp_path, ClientAbilities(), clock, lambda model: 0)
    async with open_bench("files", workspace=tmp_path) as bench:
        reads = [use("read_file", path="a.txt") for _ in range(20)]
        bench.model.next(*reads, use("read_file", path="missing"), "Done.")
        await bench.run("Read.")
        updates = [update for event in bench.events for update in maker.make(event)]
    begun = [each for each in updates if each["sessionUpdate"] == "tool_call"]
    assert len(begun) == len({each["toolCallId"] for each in begun}) == 21
    assert (maker._calls, maker._answers) == ({}, {})
    # A call that was stopped has no result.
    maker = UpdateMaker(Path("/w"), ClientAbilities(), clock, lambda model: 0)
    maker.make(ev.ModelStarted(model="m", turn=1, attempt=1, seq=1, agent="main", run="r"))
    maker.make(ev.Delta(1, "main", "r", "text", "Well"))
    maker.make(ev.CallStarted(call=CALL, risk="execute", seq=5, agent="main", run="r"))
    assert maker._calls
    assert maker._answers
    [update] = maker.make(ev.RunEnded(state="stopped", seq=6, agent="main", run="r"))
    assert update["status"] == "failed"
    assert (maker._calls, maker._answers) == ({}, {})


# --- the rest of an answer ------------------------------------------------------------------------


def stream_answer(*pieces, complete):
    """Return what is sent of an answer, as texts and ids of messages."""
    maker = UpdateMaker(Path("/w"), ClientAbilities(), Clock(), lambda model: 0)
    maker.make(ev.ModelStarted(model="m", seq=5, agent="main", run="r"))
    updates = []
    for piece in pieces:
        updates += maker.make(ev.Delta(5, "main", "r", "text", piece))
    message = AssistantMessage((Text(complete, "model"),), "m")
    updates += maker.make(ev.ModelAnswered(message=message, seq=6, agent="main", run="r"))
    return [(update["content"]["text"], update["messageId"]) for update in updates]


@pytest.mark.parametrize(
    ("pieces", "complete", "rest"),
    [
        (["one ", "two"], "one two", []),
        (["one "], "one two", ["two"]),
        (["key sk-123 then some words"], "key [secret] then some words", []),
        (["key sk-123 then some words"], "key [secret] then some words and more", [" and more"]),
        (["key sk-123"], "key [secret]", ["[secret]"]),
    ],
)
def test_only_the_missing_part_of_an_answer_is_sent(pieces, complete, rest):
    sent = stream_answer(*pieces, complete=complete)
    assert [text for text, _ in sent] == [*pieces, *rest]
    assert len({message for _, message in sent}) == 1


def test_an_answer_with_a_gap_is_sent_again_as_a_whole():
    """An editor that reads too slowly does not get all pieces."""
    complete = "begin " + "word " * 1_000 + "the end of it"
    sent = stream_answer("begin ", "the end of it", complete=complete)
    assert sent[-1][0] == complete
    assert sent[-1][1] != sent[0][1]


# --- agents that the user calls -------------------------------------------------------------------


def test_the_answers_of_agents_that_agents_start_are_not_part_of_the_conversation():
    maker = UpdateMaker(Path("/w"), ClientAbilities(), Clock(), lambda model: 1_000)
    message = AssistantMessage((Text("Found.", "model"),), "m")
    for typed, texts in (("", []), ("@explore find", ["@explore find", "Found."])):
        run = f"run of {typed}"
        updates = []
        for number, event in enumerate(
            (
                ev.PromptQueued(text="find", typed=typed),
                ev.RunStarted(text="find", message=UserMessage((Text("find", "user"),)), model="m"),
                ev.ModelStarted(model="m"),
                ev.ModelAnswered(message=message, usage=Usage(input=7)),
                ev.RunEnded(state="completed", text="Found."),
            )
        ):
            placed = msgspec.structs.replace(event, seq=number + 1, agent="explore", run=run)
            updates += maker.make(placed)
        chunks = [each["content"]["text"] for each in updates if "content" in each]
        assert chunks == texts
        assert "usage_update" not in [each["sessionUpdate"] for each in updates]


def test_an_agent_that_the_user_calls_does_not_change_the_context_of_the_conversation():
    """The cost of its requests is shown, but the tokens are those of another conversation."""
    maker = UpdateMaker(Path("/w"), ClientAbilities(), Clock(), lambda model: 1_000)
    found = []
    for agent, typed, tokens in (("main", "", 700), ("explore", "@explore find", 7)):
        usage = Usage(input=tokens, cost=0.5)
        events = (
            ev.PromptQueued(text="find", typed=typed),
            ev.RunStarted(text="find", message=UserMessage((Text("find", "user"),)), model="m"),
            ev.ModelStarted(model="m"),
            ev.ModelAnswered(
                message=AssistantMessage((Text("Found.", "model"),), "m"), usage=usage
            ),
        )
        for event in events:
            placed = msgspec.structs.replace(event, seq=len(found) + 1, agent=agent, run=agent)
            found += maker.make(placed)
    updates = [each for each in found if each["sessionUpdate"] == "usage_update"]
    assert [(each["used"], each["cost"]["amount"]) for each in updates] == [(700, 0.5), (700, 1.0)]


def test_calls_of_parallel_agents_of_one_kind_can_be_told_apart():
    """The task stands in front, because the name of the agent would be the same."""
    maker = UpdateMaker(Path("/w"), ClientAbilities(), Clock(), lambda model: 0)
    titles = []
    for number, title in enumerate(("Find the callers", "Find the tests", "")):
        actor = f"explore-{number}"
        queued = {"agent_id": actor, "agent": "explore", "actor": actor, "title": title}
        events = (
            ev.PluginEvent(name="agents.queued", data={**queued, "status": "queued"}),
            ev.CallStarted(call=ToolCall("c1", "read_file", '{"path": "a.py"}'), risk="read"),
        )
        for offset, event in enumerate(events):
            seq = 1 + 2 * number + offset
            for update in maker.make(
                msgspec.structs.replace(
                    event, seq=seq, agent=actor if offset else "main", run=actor
                )
            ):
                titles.append(update["title"])
    assert titles == [
        "Find the callers: Read a.py",
        "Find the tests: Read a.py",
        "explore: Read a.py",
    ]


def end_call(maker, text, code=""):
    result = ToolResult("c1", CALL.name, (Text(text, "tool"),), code)
    return maker.make(ev.CallDone(result=result, seconds=1.0, seq=6, agent="main", run="r"))


TERMINAL = {"type": "terminal", "terminalId": "t1"}


def test_a_call_in_a_terminal_is_not_also_sent_as_text(maker, clock):
    print_output(maker, "one\n")
    print_output(maker, "two\n")
    [shown] = maker.show_terminal("main", "c1", "t1")
    assert shown["content"] == [TERMINAL]
    assert maker.has_terminal("main", "c1")
    assert maker.find_next_output() is None
    clock.now += OUTPUT_SECONDS
    assert print_output(maker, "three\n") == []
    [ended] = end_call(maker, "Exit code 0\nall")
    assert "content" not in ended  # what was sent stays
    assert ended["rawOutput"] == "Exit code 0\nall"
    assert not maker.has_terminal("main", "c1")


@pytest.mark.parametrize(("code", "is_explained"), [("E_CMD_FAIL", False), ("E_DENIED", True)])
def test_the_reason_of_a_failure_is_shown_beside_the_terminal(maker, code, is_explained):
    list(maker.show_terminal("main", "c1", "t1"))
    [ended] = end_call(maker, f"{code}: why", code)
    assert ended["status"] == "failed"
    if is_explained:
        assert ended["content"][0] == TERMINAL
        assert "why" in ended["content"][1]["content"]["text"]
    else:
        assert "content" not in ended


def test_a_terminal_of_an_unknown_or_ended_call_is_not_shown(maker):
    assert list(maker.show_terminal("other", "c1", "t1")) == []
    end_call(maker, "all")
    assert list(maker.show_terminal("main", "c1", "t1")) == []
    assert not maker.has_terminal("main", "c1")


def test_invisible_characters_of_a_result_are_escaped(maker):
    list(maker.show_terminal("main", "c1", "t1"))
    [ended] = end_call(maker, "one\ttab\n\u202etwo\u200b\x1b[31m")
    assert ended["rawOutput"] == "one\ttab\n\\u202etwo\\u200b\\x1b[31m"


def test_a_loaded_call_that_was_cut_off_says_so(maker):
    [waiting] = maker.interrupt_calls()
    assert waiting["status"] == "failed"
    assert text_of(waiting) == "This was not run, because hilum ended."
    begun = ev.CallStarted(call=CALL, risk="execute", seq=5, agent="main", run="r", at=1.0)
    maker.make(begun)
    [cut_off] = maker.interrupt_calls()
    assert cut_off["status"] == "failed"
    assert text_of(cut_off).startswith("This was cut off when hilum ended and may or may not")
