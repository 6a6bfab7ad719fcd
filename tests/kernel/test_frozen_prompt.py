"""The prompt's past never changes within a run: what was sent stays byte for byte, changes are
notes at the tail.
"""

import trio
from hilum import Layer, Mode, Profile, ToolFilter, hookimpl, tool
from hilum.errors import E_DENIED, E_UNKNOWN_TOOL
from hilum.events import (
    CallStarted,
    PluginFault,
    PromptFrozen,
    RoundEnded,
    SessionChanged,
    decode,
    encode,
)
from hilum.messages import ToolSpec
from hilum.prompt import compare_prompts
from hilum.store import MemoryStore
from hilum.testing import ScriptedModel, open_bench, plugin, say, use


@tool(risk="read")
def look(n: int = 0) -> str:
    """Look."""
    return f"seen {n} " + "€" * n


@tool(risk="write")
def write(n: int = 0) -> str:
    """Write."""
    return "written"


@tool(risk="read")
def choose(options: tuple[str, ...] = ()) -> str:
    """Choose, which does not need the password hunter2-hunter2."""
    return "chosen"


class Rules:
    """A half with a layer that a test changes."""

    def __init__(self):
        self.text = "Be kind."

    @hookimpl
    def build_prompt_layer(self):
        return [Layer(0, "meta", "You are a test.")] + (
            [Layer(40, "rules", self.text)] if self.text else []
        )


def body(request):
    """The request without the two characters that close its list and object."""
    assert request.body.endswith(b"]}")
    return request.body[:-2]


async def test_every_request_of_a_run_begins_with_the_one_before(bench):
    """Over 30 turns with layers changing and tools coming and going, the bytes already sent stay as
    they are.
    """
    rules = Rules()
    late: list[str] = []

    def remind(results):
        n = len(kit.requests)
        rules.text = f"Be kind, version {n}." if n % 3 == 0 else rules.text
        if n == 10:
            late.append("write")
            kit.session.tools_changed()
        if n == 20:
            late.clear()
            kit.session.tools_changed()
        return f"note {n}" if n % 2 else None

    tools = plugin(
        "tools",
        open_session=lambda: rules,
        remind=remind,
        provide_tools=lambda: [look, write][: 1 + len(late)],
    )
    answers = [use("look", n=n) + say(f"ünïcode {n}") for n in range(30)]
    kit = await bench(tools, answers=[*answers, "done"], settings={"turns": 40})
    ended = await kit.run("x")
    assert (ended.state, ended.turns) == ("completed", 31)
    for before, after in zip(kit.requests, kit.requests[1:], strict=False):
        assert body(after).startswith(body(before))
        assert len(after.messages) >= len(before.messages) + 2
    assert len(kit.of(PromptFrozen)) == 1
    tail = str(kit.requests[-1].messages)
    assert "Be kind, version 9." in tail
    assert "New tools: write." in tail
    assert "No longer available, do not call: write." in tail


async def test_changed_layer_is_a_note_now_and_a_layer_in_the_next_run(bench):
    """A rule that is edited within a run is told at the tail once, and takes its place in the
    prompt at the next run.
    """
    rules = Rules()

    def remind():
        rules.text = "Be brief."

    answers = [use("look"), use("look", n=1), "ok", "again"]
    kit = await bench(
        plugin("rules", open_session=lambda: rules),
        plugin("tools", look, remind=remind),
        answers=answers,
    )
    await kit.run("x")
    told = [note for event in kit.of(RoundEnded) for note in event.notes]
    assert told == ["Your instructions changed. The part 'rules' now reads:\nBe brief."]
    assert [layer.text for layer in kit.requests[2].layers] == ["You are a test.", "Be kind."]
    await kit.run("y")
    assert [layer.text for layer in kit.requests[3].layers] == ["You are a test.", "Be brief."]
    assert [event.cause for event in kit.of(PromptFrozen)] == ["run", "run"]


async def test_removed_layer_is_told_to_hold_no_longer(bench):
    """A layer that goes away is said to be gone; one that comes back is told anew."""
    rules = Rules()
    texts = iter(["", "Be kind.", "Be kind."])

    def remind():
        rules.text = next(texts)

    answers = [use("look"), use("look", n=1), use("look", n=2), "ok"]
    kit = await bench(
        plugin("rules", open_session=lambda: rules),
        plugin("tools", look, remind=remind),
        answers=answers,
    )
    await kit.run("x")
    assert [event.notes for event in kit.of(RoundEnded)] == [
        ("Your instructions changed. The part 'rules' no longer holds.",),
        ("Your instructions changed. The part 'rules' now reads:\nBe kind.",),
        (),
    ]


async def test_mode_switched_within_a_run_reseals_with_its_cause(bench):
    """The tools of the new mode hold at once, and the break of the prompt is logged."""
    answers = [use("look"), use("write"), "ok"]
    kit = await bench(
        plugin("tools", look, write, remind=lambda: kit.session.set(mode="ask")), answers=answers
    )
    kit.session.add_mode(Mode("ask", ToolFilter(allow=("read",))))
    await kit.run("x")
    assert [(event.cause, event.mode) for event in kit.of(PromptFrozen)] == [
        ("run", "agent"),
        ("mode", "ask"),
    ]
    assert [tool.name for tool in kit.requests[0].tools] == ["look", "write"]
    assert [tool.name for tool in kit.requests[1].tools] == ["look"]
    assert kit.result("write").code == E_DENIED
    assert "not available in ask mode" in kit.result("write").text
    assert [event.mode for event in kit.of(SessionChanged) if event.mode] == ["ask"]


async def test_model_switched_within_a_run_answers_the_next_turn(bench):
    """set(model=...) holds from the next turn on; the prompt is built again for it."""
    other = ScriptedModel(["from the other"], name="scripted/other")
    tools = plugin("tools", look, remind=lambda: kit.session.set(model="scripted/other"))
    kit = await bench(tools, answers=[use("look")], models={"other": other})
    ended = await kit.run("x")
    assert ended.text == "from the other"
    assert [(event.cause, event.model) for event in kit.of(PromptFrozen)] == [
        ("run", "scripted/model"),
        ("model", "scripted/other"),
    ]
    assert len(other.requests[0].messages) == 3


async def test_profile_narrows_the_tools_of_its_agent(bench):
    """An agent sees and may call only what its profile admits."""
    kit = await bench(plugin("tools", look, write), answers=[use("write"), "ok"])
    kit.session.add_agent(Profile("reader", prompt="Only read.", tools=ToolFilter(deny=("write",))))
    await kit.run("x", agent="reader")
    assert [spec.name for spec in kit.requests[0].tools] == ["look"]
    assert kit.requests[0].layers[0].text == "Only read."
    assert kit.results[0].code == E_DENIED


# --- tools that come late -------------------------------------------------------------------------


async def late_bench(bench, answers):
    """A session that expects tools, and a switch for one that comes late."""
    there: list[object] = []

    @tool(risk="read")
    def weather(city: str) -> str:
        """Tell the weather.

        Args:
            city: Name of the city.
        """
        return f"Rain in {city}."

    def open_session(session):
        session.expects_deferred_tools = True

    def remind():
        if not there:
            there.append(weather)
            kit.session.tools_changed()

    late = plugin("late", open_session=open_session, provide_tools=lambda: there, remind=remind)
    kit = await bench(late, plugin("tools", look), answers=answers)
    return kit


async def test_late_tool_is_reached_through_the_stable_pair(bench):
    """find_tools shows it with its schema, call_tool calls it, the tool list stays as it was
    frozen.
    """
    call = use("call_tool", name="weather", arguments={"city": "Kiel"})
    kit = await late_bench(bench, [use("look"), use("find_tools", query="weather"), call, "ok"])
    await kit.run("x")
    assert all(
        [spec.name for spec in request.tools] == ["look", "find_tools", "call_tool"]
        for request in kit.requests
    )
    assert (
        "New tools, to be called through call_tool: weather(city)." in kit.of(RoundEnded)[0].notes
    )
    assert '"city"' in kit.result("find_tools").text
    assert kit.result("call_tool").text == "Rain in Kiel."
    assert kit.of(CallStarted)[-1].plugin == "late"
    kit.model.then("next")
    await kit.run("y")
    assert "weather" in [spec.name for spec in kit.requests[-1].tools]


async def test_late_tool_is_checked_and_guarded_as_any_other(bench):
    """Arguments, gates and unknown names are judged for the tool that is meant, not for
    call_tool.
    """
    seen = []
    answers = [
        use("look"),
        use("call_tool", name="weather", arguments={"town": "Kiel"}),
        use("call_tool", name="wether", arguments={}),
        use("call_tool", name="weather"),
        use("call_tool", name="weather", arguments={"city": "Kiel"}),
        "ok",
    ]
    kit = await late_bench(bench, answers)
    gate = plugin("gate", on_tool_call=lambda call, tool: seen.append((call.name, tool.name)))
    kit.session.hooks.add(gate, "gate", 9)
    await kit.run("x")
    assert [result.code for result in kit.results[1:]] == [
        "E_BAD_ARGS",
        E_UNKNOWN_TOOL,
        "E_BAD_ARGS",
        "",
    ]
    assert "Did you mean weather?" in kit.results[2].text
    assert seen == [("look", "look"), ("weather", "weather")]


async def test_withdrawn_tool_stays_listed_and_is_refused(bench):
    """A tool that goes within a run cannot be called any more, and the model is told."""
    there = [look, write]

    def remind():
        if len(there) == 2:
            there.pop()
            kit.session.tools_changed()

    kit = await bench(
        plugin("tools", provide_tools=lambda: there, remind=remind),
        answers=[use("look"), use("write"), "ok"],
    )
    await kit.run("x")
    assert [spec.name for spec in kit.requests[1].tools] == ["look", "write"]
    assert kit.result("write").code == E_UNKNOWN_TOOL
    assert kit.of(RoundEnded)[0].notes == ("No longer available, do not call: write.",)


async def test_a_resumed_session_compares_its_prompt_with_what_was_sent(tmp_path):
    """The log contains a schema's tuples as lists, and no secrets; neither is a difference."""
    hide = hookimpl(lambda texts: [text.replace("hunter2-hunter2", "[HIDDEN]") for text in texts])
    redactor = plugin("redactor", redact_texts=hide)
    rules = Rules()
    same = plugin("tools", look, choose, open_session=lambda: rules)
    store = MemoryStore()
    async with open_bench(same, redactor, answers=["a", "b"], store=store, folder=tmp_path) as kit:
        await kit.run("x")
        await kit.run("y")
        session = kit.session.id
        sent = [request.body for request in kit.requests]
        assert [event.changed for event in kit.of(PromptFrozen)] == [(), ()]
    log = store._logs[session]
    log._events = [decode(encode(event)) for event in log._events]
    async with open_bench(
        same, redactor, answers=["c"], store=store, folder=tmp_path, resume=session
    ) as kit:
        await kit.run("z")
        assert kit.of(PromptFrozen)[-1].changed == ()
        assert kit.requests[0].body.startswith(sent[-1][:-2])
    other = plugin("tools", choose, write, open_session=lambda: rules)
    rules.text = ""
    async with open_bench(
        other, redactor, answers=["d"], store=store, folder=tmp_path, resume=session
    ) as kit:
        await kit.run("z")
        frozen = kit.of(PromptFrozen)
        assert frozen[-1].changed == ("layer rules", "tool look", "tool write")
        assert compare_prompts(frozen[-2], frozen[-1]) == {
            "layer rules": "removed",
            "tool look": "removed",
            "tool write": "added",
        }


def test_prompts_are_compared_as_they_are_sent():
    """The order counts, also that of a schema's keys; a rank and an empty layer are not sent."""
    meta, rules = Layer(0, "meta", "You are a test."), Layer(40, "rules", "Be kind.")
    one = ToolSpec("one", "One.", {"type": "object", "properties": {}})
    two = ToolSpec("two", "Two.", {"type": "object"})
    old = PromptFrozen(layers=(meta, rules), tools=(one, two))
    moved = PromptFrozen(layers=(rules, meta), tools=(two, one))
    assert compare_prompts(old, moved) == {
        "order of layers": "changed",
        "order of tools": "changed",
    }
    turned = ToolSpec("one", "One.", {"properties": {}, "type": "object"})
    changed = PromptFrozen(layers=(meta, rules), tools=(turned, two))
    assert compare_prompts(old, changed) == {"tool one": "changed"}
    ranked = (Layer(1, "meta", meta.text), Layer(20, "empty", ""), rules)
    assert compare_prompts(old, PromptFrozen(layers=ranked, tools=(one, two))) == {}


async def test_tools_are_described_while_the_context_of_the_first_prompt_is_gathered():
    """A context that waits for Git leaves the time unused otherwise."""

    @tool(risk="read")
    def measure(size: int = 0) -> str:
        """Measure."""
        return str(size)

    @tool(risk="read")
    def broken(size: object = 0) -> str:
        """Break."""
        return str(size)

    async def gather_context() -> None:
        with trio.fail_after(10):
            while not measure._signature:
                await trio.lowlevel.checkpoint()

    broken.function = 3
    source = plugin("source", measure, broken, gather_context=gather_context)
    async with open_bench(source, answers=["a"], faults=True) as kit:
        await kit.run("x")
        assert "measure" in kit.of(PromptFrozen)[0].tools[0].name
        assert [fault.hook for fault in kit.of(PluginFault)] == ["tool broken"]
