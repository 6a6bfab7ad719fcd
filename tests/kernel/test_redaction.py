"""Secrets are taken out of events before they are written, and a call still runs as its model wrote
it.
"""

import json
import threading
import time

import msgspec
import pytest
import trio
from hilum import PluginError, hookimpl, tool
from hilum.errors import E_INTERRUPTED, E_PLUGIN
from hilum.events import (
    ApprovalAsked,
    CallStarted,
    ModelAnswered,
    PluginEvent,
    PluginFault,
    PromptFrozen,
    PromptQueued,
    RunEnded,
    StateChanged,
    encode,
)
from hilum.messages import AssistantMessage, Layer, Text, Thinking, ToolCall
from hilum.redaction import IN_THREAD, WITHHELD, _walk_arguments
from hilum.store import MemoryStore, SessionInfo
from hilum.testing import open_bench, pause, plugin, say, use

SECRET = "hunter2-hunter2"
HIDDEN = "[REDACTED:PASSWORD]"


def replaced(texts):
    return [text.replace(SECRET, HIDDEN) for text in texts]


def redactor(**more):
    """A plugin that knows one secret."""
    return plugin("redactor", redact_texts=hookimpl(lambda texts: replaced(texts)), **more)


class Broken:
    """A redactor that fails while it is told to."""

    def __init__(self):
        self.fails = False

    def plugin(self):
        @hookimpl
        def redact_texts(texts):
            if self.fails:
                raise ValueError(f"cannot read {texts[0]}")
            return replaced(texts)

        return plugin("redactor", redact_texts=redact_texts)


class Notes:
    """Tools that keep what they were called with."""

    def __init__(self):
        self.kept = []
        kept = self.kept

        @tool(risk="write", effect="idempotent")
        def keep(text: str) -> str:
            """Keep a text."""
            kept.append(text)
            return "kept"

        @tool(risk="read", effect="pure")
        def keep_all(entries: dict[str, str]) -> str:
            """Keep texts by name."""
            kept.append(entries)
            return "kept"

        self.plugin = plugin("notes", provide_tools=lambda: [keep, keep_all])


def stored(kit):
    """Everything that is in the log, as it is written."""
    return b"\n".join(encode(event) for event in kit.session.journal._log.read(0, 10_000)).decode()


async def test_nothing_that_is_written_holds_a_secret_and_the_call_runs_as_written(bench):
    """Prompt, text, reasoning, arguments, the layers of plugins, their events, the end of the run,
    the title.
    """
    notes = Notes()
    layers = plugin(
        "layers",
        build_prompt_layer=hookimpl(lambda: Layer(40, "rules", f"The password is {SECRET}.")),
    )
    answer = AssistantMessage(
        (
            Thinking(f"I think of {SECRET}."),
            Text(f"I keep {SECRET}.", "model"),
            ToolCall("call_1", "keep", json.dumps({"text": SECRET})),
        )
    )
    kit = await bench(notes.plugin, layers, redactor(), answers=[answer, say(f"It is {SECRET}.")])
    ended = await kit.run(f"Keep {SECRET}, please.")
    kit.session.note("notes.fact", say=f"{SECRET} was kept")
    assert notes.kept == [SECRET]
    assert ended.text == f"It is {HIDDEN}."
    assert SECRET not in stored(kit)
    assert (await kit.session.kernel.store.info(kit.session.id)).title == f"Keep {HIDDEN}, please."
    assert all(SECRET.encode() not in request.body for request in kit.requests)
    assert f"Keep {HIDDEN}, please.".encode() in kit.requests[0].body
    assert kit.of(ModelAnswered)[0].withheld == ("call_1",)
    assert [layer.text for layer in kit.of(PromptFrozen)[0].layers if layer.name == "rules"] == [
        f"The password is {HIDDEN}."
    ]
    assert not any("instructions changed" in str(request.messages) for request in kit.requests)


async def test_the_user_is_told_what_was_replaced_in_a_prompt(bench):
    """By name, with what to do; a prompt without secrets says nothing."""
    kit = await bench(redactor(), answers=["ok", "ok"])
    await kit.run("hello")
    assert kit.of(PluginEvent) == []
    await kit.run(f"Put {SECRET} into .env")
    [event] = kit.of(PluginEvent)
    assert event.name == "redaction.prompt"
    assert "PASSWORD" in event.data["say"]
    assert "environment variable" in event.data["say"]
    assert kit.of(PromptQueued)[1].redacted == ("PASSWORD",)


async def test_a_resumed_session_sends_the_same_requests(tmp_path):
    """What the live session had in its memory and what a resumed one folds are the same bytes."""
    bodies = []
    store = MemoryStore()
    async with open_bench(Notes().plugin, redactor(), folder=tmp_path, store=store) as kit:
        kit.model.then(use("keep", text=f"a {SECRET}"), say(f"done with {SECRET}"), "next")
        await kit.run(f"Keep {SECRET}.")
        identity = kit.session.id
        await kit.run("And now?")
        bodies.append(kit.requests[-1].body)
        events = list(kit.session.journal._log.read(0, 10_000))
    second = MemoryStore()
    cut = (
        max(
            event.seq
            for event in events
            if isinstance(event, RunEnded) and event.seq < events[-2].seq
        )
        + 1
    )
    log = await second.create(SessionInfo(identity, str(kit.session.workspace.root)))
    log.append(events[:cut])
    await log.close()
    async with open_bench(
        Notes().plugin, redactor(), folder=tmp_path, store=second, resume=identity, answers=["x"]
    ) as kit:
        await kit.run("And now?")
        bodies.append(kit.requests[-1].body)
    assert bodies[0] == bodies[1]


@pytest.mark.parametrize("started", [False, True])
async def test_a_call_whose_arguments_nobody_knows_any_more_is_not_run(tmp_path, started):
    """The process died with them; the placeholder must not be written in place of the secret."""
    store, notes = MemoryStore(), Notes()
    async with open_bench(notes.plugin, redactor(), folder=tmp_path, store=store) as kit:
        kit.model.then(use("keep", text=SECRET), "done")
        await kit.run("Keep it.")
        identity = kit.session.id
        events = list(kit.session.journal._log.read(0, 10_000))
    kind = CallStarted if started else ModelAnswered
    cut = next(event.seq for event in events if isinstance(event, kind))
    cut += isinstance(events[cut], StateChanged)
    second = MemoryStore()
    log = await second.create(SessionInfo(identity, str(kit.session.workspace.root)))
    log.append(events[:cut])
    await log.close()
    async with open_bench(
        notes.plugin, redactor(), folder=tmp_path, store=second, resume=identity, answers=["x"]
    ) as kit:
        [run] = kit.session.resume()
        with kit.guard():
            await run.wait()
        assert kit.results[0].code == E_INTERRUPTED
        assert "not stored" in kit.results[0].text
    assert notes.kept == [SECRET]


async def test_arguments_stay_json_and_keep_their_spelling_where_nothing_is_in_them(bench):
    """Values, names, two names that become one, and numbers; ids and names of calls stay."""
    notes = Notes()
    plain = '{ "text" :  "as \\u0061 model writes" }'
    entries = {SECRET: "1", f"{SECRET}": "1", f"x{SECRET}": SECRET, f"x{HIDDEN}": "2"}
    answer = AssistantMessage(
        (
            ToolCall("call_1", "keep", plain),
            ToolCall("call_2", "keep_all", json.dumps({"entries": entries})),
        )
    )
    kit = await bench(notes.plugin, redactor(), answers=[answer, "done"])
    await kit.run("go")
    first, second = kit.of(ModelAnswered)[0].message.calls
    assert (first.id, first.arguments, second.id, second.name) == (
        "call_1",
        plain,
        "call_2",
        "keep_all",
    )
    assert json.loads(second.arguments) == {
        "entries": {HIDDEN: "1", f"x{HIDDEN}": HIDDEN, f"x{HIDDEN}-2": "2"},
    }
    assert entries in notes.kept
    assert SECRET not in stored(kit)


async def test_escapes_and_numbers_hide_nothing(bench):
    """A model may spell a text with escapes; a secret may be a number."""

    def numbers(texts):
        return [
            text.replace("1234567890123", "[REDACTED:PIN]").replace(SECRET, HIDDEN)
            for text in texts
        ]

    escaped = json.dumps({"text": SECRET}).replace("h", "\\u0068")
    answer = AssistantMessage(
        (
            ToolCall("a", "keep", escaped),
            ToolCall("b", "keep", '{"text": 1234567890123}'),
            ToolCall("c", "keep", f'{{"x": {SECRET}'),
        )
    )
    notes = Notes()
    secrets = plugin("redactor", redact_texts=hookimpl(lambda texts: numbers(texts)))
    kit = await bench(notes.plugin, secrets, answers=[answer, "done"])
    await kit.run("go")
    calls = kit.of(ModelAnswered)[0].message.calls
    assert [call.arguments for call in calls] == [
        f'{{"text":"{HIDDEN}"}}',
        '{"text":"[REDACTED:PIN]"}',
        f'{{"x": {HIDDEN}',
    ]
    assert notes.kept == [SECRET]


async def test_signed_reasoning_is_left_out_whole_and_plain_reasoning_is_replaced(bench):
    """What a vendor signed cannot be changed; without a secret it goes back byte for byte."""
    signed = {"signature": "c2lnbmVk" * 20}
    answer = AssistantMessage(
        (
            Thinking("a clean thought", signed),
            Thinking(f"of {SECRET}", signed),
            Thinking(f"more of {SECRET}", {"field": "reasoning_content"}),
            Text("done", "model"),
        )
    )
    kit = await bench(redactor(), answers=[answer])
    await kit.run("go")
    thoughts = [
        part for part in kit.of(ModelAnswered)[0].message.parts if isinstance(part, Thinking)
    ]
    assert thoughts == [
        Thinking("a clean thought", signed),
        Thinking(f"of {HIDDEN}"),
        Thinking(f"more of {HIDDEN}", {"field": "reasoning_content"}),
    ]


async def test_a_vendors_field_of_a_call_that_holds_a_secret_is_left_out(bench):
    """The other fields go back byte for byte: a vendor may have signed them."""
    signed = {"thoughtSignature": "c2lnbmVk" * 20}
    telling = {"extra_content": {"note": [f"uses {SECRET}"]}}
    answer = AssistantMessage(
        (
            ToolCall("call-a", "keep", '{"text": "x"}', signed),
            ToolCall("call-b", "keep", '{"text": "y"}', signed | telling),
        )
    )
    notes = Notes()
    kit = await bench(notes.plugin, redactor(), answers=[answer, "done"])
    await kit.run("go")
    assert [call.vendor for call in kit.of(ModelAnswered)[0].message.calls] == [signed, signed]
    assert [event.call.vendor for event in kit.of(CallStarted)] == [signed, signed]
    assert sorted(notes.kept) == ["x", "y"]  # the calls run in parallel
    assert SECRET not in stored(kit)
    assert all(SECRET not in str(request) for request in kit.model.requests)


async def test_the_user_approves_what_runs(bench):
    """A placeholder could hide a command; the log still has nothing but the placeholder."""
    notes = Notes()
    kit = await bench(
        notes.plugin, redactor(), approve="ask_first", answers=[use("keep", text=SECRET), "done"]
    )
    run = await kit.start("go")
    asked = await kit.wait_for(ApprovalAsked)
    assert json.loads(asked.call.arguments) == {"text": SECRET}
    kit.session.answer(asked.id, True)
    with kit.guard():
        await run.wait()
    assert notes.kept == [SECRET]
    assert SECRET not in stored(kit)


async def test_a_prompt_that_cannot_be_searched_is_refused(bench):
    """Nothing of it is written, not even in the message of the plugin's own error."""
    broken = Broken()
    kit = await bench(broken.plugin(), answers=["ok"])
    kit.allow_faults()
    broken.fails = True
    with pytest.raises(PluginError, match="could not be searched for secrets") as caught:
        await kit.session.prompt(f"Keep {SECRET}.")
    assert SECRET not in str(caught.value)
    assert kit.of(PromptQueued) == []
    assert [fault.hook for fault in kit.of(PluginFault)] == ["redact_texts"]
    assert SECRET not in stored(kit)
    broken.fails = False
    assert (await kit.run("again")).text == "ok"


async def test_an_answer_that_cannot_be_searched_ends_the_run(bench):
    """The end says why; what the model said is in no event."""
    broken = Broken()
    go_on = trio.Event()
    kit = await bench(
        Notes().plugin, broken.plugin(), answers=[pause(go_on) + use("keep", text=SECRET)]
    )
    kit.allow_faults()
    run = await kit.start("go")
    await kit.model.asked()
    broken.fails = True
    go_on.set()
    ended = await run.wait()
    assert (ended.state, ended.code) == ("failed", E_PLUGIN)
    assert "could not be searched for secrets" in ended.error
    assert SECRET not in stored(kit)


async def test_other_texts_that_cannot_be_searched_are_withheld(bench):
    """An event is written all the same.

    Who failed stays readable, and three failures refuse what follows.
    """
    broken = Broken()
    kit = await bench(broken.plugin(), answers=["ok"])
    kit.allow_faults()
    broken.fails = True
    for number in range(4):
        kit.session.note("notes.fact", text=f"{number} {SECRET}")
    assert [event.data["text"] for event in kit.of(PluginEvent)] == [WITHHELD] * 4
    assert kit.of(PluginFault)[-1].switched_off
    assert SECRET not in stored(kit)
    with pytest.raises(PluginError, match="not in working order"):
        await kit.session.prompt("hello")


async def test_wrong_answers_of_a_redactor_are_failures(bench):
    """Too few texts, or none at all."""
    for wrong in (lambda texts: [], lambda texts: [1 for _ in texts]):
        kit = await bench(plugin("redactor", redact_texts=hookimpl(wrong)))
        kit.allow_faults()
        with pytest.raises(PluginError, match="could not be searched"):
            await kit.session.prompt(f"Keep {SECRET}.")


async def test_large_texts_are_searched_in_a_thread_and_every_text_once(bench):
    """The loop goes on meanwhile, and what was searched is known from then on."""
    asked, threads = [], set()

    def redact_texts(texts):
        asked.extend(texts)
        threads.add(
            (
                threading.current_thread() is threading.main_thread(),
                max(map(len, texts)) > IN_THREAD,
            )
        )
        return replaced(texts)

    kit = await bench(plugin("redactor", redact_texts=hookimpl(redact_texts)), answers=["ok"])
    await kit.run("word " * IN_THREAD + SECRET)
    assert threads == {(True, False), (False, True)}
    assert len(asked) == len(set(asked))
    assert SECRET not in stored(kit)


async def test_a_run_that_is_stopped_while_a_text_is_searched_ends(bench):
    """The thread is left behind."""
    began, release = trio.Event(), threading.Event()

    def redact_texts(texts):
        if any(len(text) > IN_THREAD for text in texts):
            trio.from_thread.run_sync(began.set)
            release.wait(20)
        return replaced(texts)

    kit = await bench(
        plugin("redactor", redact_texts=hookimpl(redact_texts)), answers=[say("long " * IN_THREAD)]
    )
    run = await kit.start("go")
    await began.wait()
    run.stop()
    assert (await run.wait()).state == "stopped"
    release.set()


async def test_agents_of_other_agents_get_no_secret_either(bench):
    """Their prompts and their conversations from before are events like others."""
    from hilum import Profile

    kit = await bench(redactor(), answers=["ok", "ok"])
    before = (AssistantMessage((Text(f"It was {SECRET}.", "model"),)),)
    kit.session.add_agent(
        Profile("helper", prompt=f"You know {SECRET}."), parent="main", messages=before
    )
    await kit.run(f"Use {SECRET}.", agent="helper")
    assert SECRET not in stored(kit)
    assert SECRET.encode() not in kit.requests[0].body
    assert msgspec.json.encode(HIDDEN)[1:-1] in kit.requests[0].body


def test_many_keys_that_become_the_same_take_linear_time():
    """A secret in each of 20,000 keys: each gets a name of its own."""
    arguments = json.dumps({f"{SECRET}{number}": number for number in range(20_000)})

    def lookup(text, origin):
        return HIDDEN if text.startswith(SECRET) else text

    began = time.process_time()
    cleaned = json.loads(_walk_arguments(arguments, lookup))
    assert time.process_time() - began < 2
    assert len(cleaned) == 20_000
    assert list(cleaned)[:3] == [HIDDEN, f"{HIDDEN}-2", f"{HIDDEN}-3"]
