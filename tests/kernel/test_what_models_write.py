"""Nothing that a model writes can poison a session: its log, its resume, and every later prompt."""

import json
from typing import Any

import msgspec
import pytest
from hilum import events, tool
from hilum.arguments import MAX_CALLS, MAX_LENGTH
from hilum.errors import E_BAD_ARGS, E_UNKNOWN_TOOL
from hilum.events import ModelAnswered
from hilum.messages import Text, Thinking, ToolCall
from hilum.testing import Answer, ScriptedModel, plugin, use
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

DEEP = 100_000
BAD = {
    "lists": "[" * DEEP + "]" * DEEP,
    "open lists": '{"text": ' + "[" * DEEP,
    "objects": '{"a":' * 1200 + "1" + "}" * 1200,
    "just too deep": '{"text":' + "[" * 100 + "]" * 100 + "}",
    "deep in a text": json.dumps({"items": "[" * DEEP + "]" * DEEP}),
    "long": json.dumps({"text": "x" * 4_000_000}),
    "twice": '{"text": "a", "text": "b"}',
    "twice below": '{"text": "a", "items": [{"b": 1, "b": 2}]}',
    "NaN": '{"text": NaN}',
    "infinite": '{"items": [Infinity]}',
    "half character": '{"text": "\ud800"}',
    "escaped half character": '{"text": "\\ud800"}',
    "list": "[1, 2]",
    "text": '"text"',
    "null": "null",
    "number": "3",
    "cut": '{"text": "a',
    "two": '{"text": "a"}{"text": "b"}',
    "bytes": '{"text": "a"}\x00',
    "huge number": '{"items": [1' + "0" * 5000 + "]}",
}


@pytest.fixture
def tools():
    @tool(risk="read")
    def echo(text: str, items: list[str] | None = None) -> str:
        """Echo."""
        return text

    return plugin("tools", echo)


def check_log(kit):
    """Every event can be written, read, and read by Python's own JSON."""
    for event in kit.events:
        written = events.encode(event)
        assert events.encode(events.decode(written)) == written
        json.loads(written)
    for answered in kit.of(ModelAnswered):
        for call in answered.message.calls:
            if not call.problem:
                continue
            assert call.arguments == "{}"


async def test_a_call_that_does_not_end_is_cut_off_and_the_session_goes_on(bench, tools):
    """Arguments of 50 MB are no call any more: the run says that the model did not come to an end.

    The next one works.
    """
    endless = Answer((ToolCall("", "echo", json.dumps({"text": "x" * 50_000_000})),))
    kit = await bench(tools, answers=[endless, use("echo", text="b"), "ok"])
    ended = await kit.run("x")
    assert (ended.state, ended.code) == ("failed", "E_LLM_FAIL")
    assert "without ending its answer" in ended.error
    assert (await kit.run("y")).text == "ok"
    check_log(kit)


@pytest.mark.parametrize("name", BAD)
async def test_bad_arguments_are_told_and_harm_nothing(bench, tools, name):
    """The model reads E_BAD_ARGS; the next call, the next prompt and the log are as always."""
    answers = [Answer((ToolCall("", "echo", BAD[name]),)), use("echo", text="b"), "ok"]
    kit = await bench(tools, model=ScriptedModel(answers, max_output=140_000))
    assert (await kit.run("x")).state == "completed"
    assert [result.code for result in kit.results] == [E_BAD_ARGS, ""]
    assert len(kit.results[0].text) < 1_000
    kit.model.next(use("echo", text="c"), "ok")
    assert (await kit.run("y")).state == "completed"
    check_log(kit)


async def test_what_is_deep_but_not_too_deep_is_kept(bench):
    """Ninety levels are fine, and so are brackets within texts."""

    @tool(risk="read")
    def take(value: Any = None, text: str = "") -> str:
        """Take anything."""
        return "taken"

    deep = '{"value":' + "[" * 90 + "]" * 90 + "}"
    kit = await bench(
        plugin("tools", take),
        answers=[Answer((ToolCall("", "take", deep),)), use("take", text="[" * 9999), "ok"],
    )
    await kit.run("x")
    assert [result.text for result in kit.results] == ["taken", "taken"]
    check_log(kit)


@pytest.mark.parametrize(
    "name", ["bad name!", "", "x" * 65, "é", "\ud800", "a\nb", "write file" * 1000]
)
async def test_tool_names_that_no_provider_takes_are_not_kept(bench, tools, name):
    """A provider refuses a whole conversation with such a name in it."""
    kit = await bench(tools, answers=[Answer((ToolCall("", name, "{}"),)), "ok"])
    assert (await kit.run("x")).state == "completed"
    assert kit.results[0].code in (E_BAD_ARGS, E_UNKNOWN_TOOL)
    (call,) = kit.of(ModelAnswered)[0].message.calls
    assert call.name.isascii()
    assert 1 <= len(call.name) <= 64
    check_log(kit)


@pytest.mark.parametrize("arguments", ["", '{"text": "half'])
async def test_a_call_cut_off_at_the_output_limit_is_told_so(bench, tools, arguments):
    """The model reads what happened and what to do, and not that its JSON is wrong."""
    kit = await bench(
        tools, answers=[Answer((ToolCall("", "echo", arguments),), stop="length"), "ok"]
    )
    await kit.run("x")
    assert kit.results[0].code == E_BAD_ARGS
    assert "cut off at the output limit" in kit.results[0].text
    assert "smaller pieces" in kit.results[0].text
    assert "JSON" not in kit.results[0].text
    check_log(kit)


async def test_whole_calls_before_one_that_was_cut_off_are_carried_out(bench, tools):
    """So is the last one, if it is whole."""
    calls = tuple(ToolCall(text, "echo", f'{{"text":"{text}"}}') for text in "ab")
    kit = await bench(tools, answers=[Answer(calls, stop="length"), "ok"])
    await kit.run("x")
    assert [result.text for result in kit.results] == ["a", "b"]


@pytest.mark.parametrize("name", ["functions.echo", "echo\n", " echo ", "functions.echo "])
async def test_a_prefix_and_white_space_are_taken_off_the_name_of_a_tool(bench, tools, name):
    """Some models write them; what is meant is plain."""
    kit = await bench(tools, answers=[Answer((ToolCall("", name, '{"text":"a"}'),)), "ok"])
    await kit.run("x")
    assert kit.results[0].text == "a"
    check_log(kit)


@pytest.mark.parametrize("name", ["functions.ecko", "my.echo", "echo()"])
async def test_a_name_that_is_no_tool_gets_near_names(bench, tools, name):
    """Whatever characters it has."""
    kit = await bench(tools, answers=[Answer((ToolCall("", name, '{"text":"a"}'),)), "ok"])
    await kit.run("x")
    assert kit.results[0].code == E_UNKNOWN_TOOL
    assert "Did you mean echo?" in kit.results[0].text


async def test_text_thinking_and_vendor_fields_cannot_poison_either(bench, tools):
    """Half characters in texts, and vendor fields that nobody could read back."""
    deep = value = {}
    for _ in range(5_000):
        value["a"] = value = {}
    parts = (
        Thinking("a\ud800", {"deep": deep}),
        Text("b\udfff", "model"),
        ToolCall("\ud800", "echo", '{"text":"a"}', {"d": deep}),
    )
    kit = await bench(tools, answers=[Answer(parts), "ok"])
    assert (await kit.run("x")).state == "completed"
    assert kit.results[0].text == "a"
    check_log(kit)


async def test_a_result_that_cannot_be_read_back_is_withheld(bench):
    """What a tool makes of a model's wish is bounded, too."""
    deep = value = []
    for _ in range(600):
        value.append([])
        value = value[0]

    @tool(risk="read")
    def dig() -> object:
        """Dig."""
        from hilum import Output

        return Output("dug", data={"deep": deep})

    kit = await bench(plugin("tools", dig), faults=True)
    assert (await kit.call("dig")).code == "E_PLUGIN"
    check_log(kit)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=20,
)


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.one_of(
        st.text(st.characters(codec=None)),
        JSON.map(lambda value: json.dumps(value)),
        st.text('[]{}":,\\ud8'),
    )
)
def test_whatever_passes_can_be_logged_and_read(text):
    """Any text as arguments, any name, any id: the event can be written and read."""
    from hilum.arguments import safe_call

    call = safe_call(ToolCall(text, text, text))
    written = msgspec.json.encode(call)
    assert msgspec.json.decode(written, type=ToolCall) == call
    json.dumps(json.loads(written)).encode()


def test_the_bound_is_above_what_models_write():
    """A write of a file of a million characters is no attack."""
    assert MAX_LENGTH > 1_000_000


async def test_of_too_many_calls_in_one_answer_the_first_are_carried_out(bench, tools):
    """The model is told once how many were left out; they cost next to nothing."""
    calls = [ToolCall(f"c{n}", "echo", json.dumps({"text": str(n)})) for n in range(2_000)]
    kit = await bench(tools, answers=[Answer(tuple(calls)), "done"])
    run = await kit.run("x")
    assert run.state == "completed"
    assert [result.code for result in kit.results] == [""] * MAX_CALLS + [E_BAD_ARGS]
    assert (
        "too many calls in one answer: 2,000. The first 128 were carried out"
        in kit.results[-1].text
    )
    assert len(kit.of(ModelAnswered)[0].message.calls) == MAX_CALLS + 1


@pytest.mark.parametrize(
    "identity", ["\x1b[31mred", "a\u202eb", "a\nb", "a b", "é", "\x00", "", "x" * 1000]
)
async def test_the_id_of_a_call_is_plain_and_the_same_in_the_next_request(bench, tools, identity):
    """Terminals show ids, and providers match results by them."""
    made = [
        ToolCall("call-1", "echo", '{"text": "a"}'),
        ToolCall(identity, "echo", '{"text": "b"}'),
    ]
    kit = await bench(tools, answers=[Answer((*made, made[1])), "done"])
    await kit.run("x")
    sent = [call.id for call in kit.of(ModelAnswered)[0].message.calls]
    assert len(set(sent)) == 3
    assert all(id.isascii() and id.isprintable() and " " not in id for id in sent)
    assert sorted(result.call_id for result in kit.results) == sorted(sent)
