"""Sessions: agents, names, stores that fail, and what holds when something is not there any
more.
"""

import pytest
import trio
from hilum import (
    Interpretation,
    Mode,
    Profile,
    StoreError,
    ToolFilter,
    UsageError,
    open_kernel,
    tool,
)
from hilum.errors import E_BUSY, E_DENIED, E_PLUGIN, E_UNKNOWN
from hilum.events import AgentStarted, PluginEvent, PluginFault
from hilum.messages import AssistantMessage, Text, UserMessage
from hilum.store import MemoryStore, SessionInfo
from hilum.testing import ModelProvider, ScriptedModel, open_bench, pause, plugin, say, use


@tool(risk="read")
def look() -> str:
    """Look."""
    return "seen"


@tool(risk="write")
def write() -> str:
    """Write."""
    return "written"


class FullDisk(MemoryStore):
    """A store whose disk is full after so many events."""

    def __init__(self, room):
        super().__init__()
        self.room = room

    async def open(self, session):
        """Open a log that fills up."""
        log = await super().open(session)
        append = log.append

        def limited(events):
            if log.last + len(events) > self.room:
                raise StoreError("The disk is full.", hint="Make room.")
            append(events)

        log.append = limited
        return log


@pytest.mark.parametrize("room", range(4, 18))
async def test_full_disk_ends_a_run_with_its_reason_and_nothing_else(room):
    """Wherever the disk fills up: who waits is told, nothing unwritten is shown, the kernel closes
    in order.
    """
    answers = [use("look") + use("look"), "done"]
    store = FullDisk(room)
    async with open_bench(plugin("tools", look), answers=answers, store=store) as kit:
        told = ""
        try:
            assert (await kit.run("x")).state == "completed"
        except StoreError as error:
            told = error.message
            with pytest.raises(StoreError):
                await kit.session.prompt("y")
        assert bool(told) == bool(kit.session.journal.broken)
        assert told in ("", "The disk is full.")
        shown = (
            [event.seq async for event in kit.session.events()]
            if kit.session.journal.broken
            else []
        )
        assert shown == [*range(1, len(shown) + 1)]
        assert len(shown) <= room


async def test_prompt_may_address_another_agent(bench):
    """interpret_prompt names the agent; its conversation is its own."""

    def interpret_prompt(text):
        return (
            Interpretation(text.removeprefix("@helper "), "helper")
            if text.startswith("@")
            else None
        )

    kit = await bench(
        plugin("agents", interpret_prompt=interpret_prompt), answers=["from helper", "from main"]
    )
    kit.session.add_agent(Profile("helper", prompt="You help."))
    ended = await kit.run("@helper hello")
    assert ended.agent == "helper"
    assert (await kit.run("and you")).agent == "main"
    assert [len(request.messages) for request in kit.requests] == [1, 1]
    assert kit.requests[0].layers[0].text == "You help."
    assert kit.requests[0].agent == "helper"
    assert [event.agent for event in kit.of(AgentStarted)] == ["main", "helper"]


async def test_agents_of_a_session_work_at_the_same_time(bench, autojump_clock):
    """Two agents, two seconds each: two seconds."""
    kit = await bench(answers=[say("a") + pause(2.0), say("b") + pause(2.0)])
    kit.session.add_agent(Profile("helper"))
    began = trio.current_time()
    runs = [await kit.start("x"), await kit.start("y", agent="helper")]
    with kit.guard():
        for run in runs:
            await run.wait()
    assert trio.current_time() - began == pytest.approx(2)


async def test_names_that_do_not_exist_are_refused_with_near_ones(bench):
    """Agent, mode, policy, model, session, folder."""
    kit = await bench()
    kit.session.add_mode(Mode("plan"))
    with pytest.raises(UsageError, match="Did you mean main"):
        await kit.session.prompt("x", agent="mian")
    with pytest.raises(UsageError, match="Did you mean plan"):
        kit.session.set(mode="plna")
    with pytest.raises(UsageError, match="Did you mean readonly"):
        kit.session.set(approve="readnoly")
    with pytest.raises(UsageError, match=r"write provider/name(.|\n)*scripted/gpt"):
        kit.session.set(model="gpt")
    with pytest.raises(UsageError) as caught:
        kit.session.add_agent(Profile("main"))
    assert caught.value.code == E_BUSY
    with pytest.raises(StoreError, match="no session 'nothing'"):
        async with kit.kernel.open_session(resume="nothing"):
            raise AssertionError
    with pytest.raises(UsageError, match="does not exist"):
        async with kit.kernel.open_session(kit.workspace / "nowhere"):
            raise AssertionError
    with pytest.raises(UsageError, match="no mode"):
        async with kit.kernel.open_session(kit.workspace, mode="nomode"):
            raise AssertionError


async def test_session_in_a_mode_that_is_gone_only_reads(tmp_path):
    """The plugin of its mode was uninstalled: the session still opens, and nothing can be changed
    in it.
    """
    store = MemoryStore()
    modes = plugin("modes", open_session=lambda session: session.add_mode(Mode("build")))
    async with open_bench(modes, store=store, folder=tmp_path) as kit:
        kit.session.set(mode="build")
        session = kit.session.id
    async with open_bench(
        plugin("tools", look, write), store=store, resume=session, folder=tmp_path
    ) as kit:
        assert kit.session.mode.name == "build"
        assert (await kit.call("look")).text == "seen"
        assert (await kit.call("write")).code == E_DENIED
        kit.session.set(mode="agent")
        assert (await kit.call("write")).text == "written"


async def test_without_a_model_the_ways_to_get_one_are_told():
    """No model named, none suggested."""
    async with open_kernel([], environ={}) as kernel, kernel.open_session() as session:
        with pytest.raises(UsageError, match="no model") as caught:
            await session.prompt("x")
        assert caught.value.code == "E_NO_MODEL"
        assert "export OPENAI_API_KEY" in caught.value.hint


async def test_suggested_model_is_taken_when_none_is_named():
    """The first provider that can be used suggests; one that fails is passed over."""

    class Failing(ModelProvider):
        async def suggest(self):
            raise OSError("no server")

    providers = plugin(
        "p",
        provide_models=lambda: [
            Failing({}, "broken"),
            ModelProvider({"m": ScriptedModel(["hi"])}, "good"),
        ],
    )
    async with open_kernel([providers], environ={}) as kernel, kernel.open_session() as session:
        ended = await session.run("x")
        assert ended.text == "hi"
        assert session.agents["main"].conversation.messages[1].model == "good/m"


async def test_roles_name_models(bench):
    """An agent may ask for a role; fast and summarize fall back to the default."""
    quick = ScriptedModel(["quickly"], name="scripted/quick")
    kit = await bench(
        answers=["slowly"], models={"quick": quick}, settings={"roles": {"fast": "scripted/quick"}}
    )
    kit.session.add_agent(Profile("runner", model="fast"))
    kit.session.add_agent(Profile("writer", model="summarize"))
    assert (await kit.run("x", agent="runner")).text == "quickly"
    assert (await kit.run("x", agent="writer")).text == "slowly"


async def test_provider_that_crashes_is_named(bench):
    """A bug in a provider is an error with a hint, never a traceback."""

    class Buggy(ModelProvider):
        def model(self, name):
            raise KeyError(name)

    kit = await bench(plugin("p", provide_models=lambda: [Buggy({}, "buggy")]))
    with pytest.raises(UsageError, match="provider buggy failed: KeyError") as caught:
        kit.session.set(model="buggy/x")
    assert caught.value.code == E_PLUGIN


async def test_facts_of_plugins_are_events(bench):
    """note writes an event that any reader sees."""
    kit = await bench()
    kit.session.note("todo.changed", open=3)
    event = kit.of(PluginEvent)[0]
    assert (event.name, event.data) == ("todo.changed", {"open": 3})


async def test_fault_of_the_kernel_itself_ends_the_run_only(bench):
    """A wire that cannot encode fails its run; the session answers the next prompt."""

    class Brittle:
        key = "brittle"

        def head(self, layers, tools):
            raise ZeroDivisionError("head")

        message = body = head

    class Bad(ScriptedModel):
        wire = Brittle()

    kit = await bench(
        answers=["fine"], models={"bad": Bad(["never"], name="scripted/bad")}, faults=True
    )
    kit.session.set(model="scripted/bad")
    ended = await kit.run("x")
    assert ended.state == "failed"
    assert "ZeroDivisionError" in ended.error
    assert kit.of(PluginFault)[0].plugin == "kernel"
    kit.session.set(model="scripted/model")
    assert (await kit.run("y")).text == "fine"


async def test_memory_store_lists_renames_and_deletes():
    """What the store protocol promises, in memory."""
    store = MemoryStore()
    async with open_bench(answers=["ok"], store=store) as kit:
        await kit.run("  what is\n this ")
        with pytest.raises(StoreError) as caught:
            await store.delete(kit.session.id)
        assert caught.value.code == E_BUSY
        session = kit.session.id
    (info,) = await store.list()
    assert (info.id, info.title, info.state) == (session, "what is this", "completed")
    await store.rename(session[:-3], "A title")
    assert (await store.info(session)).title == "A title"
    await (await store.create(SessionInfo("20000101-x", "/elsewhere"))).close()
    assert [i.id for i in await store.list("/elsewhere")] == ["20000101-x"]
    with pytest.raises(StoreError, match="More than one"):
        await store.info("20")
    await store.delete(session)
    with pytest.raises(StoreError) as caught:
        await store.info(session)
    assert caught.value.code == E_UNKNOWN


async def test_tool_filter_takes_names_patterns_and_risks():
    """allow and deny lists of agents and modes."""
    only = ToolFilter(allow=("read", "mcp__*"), deny=("mcp__delete_*", "network"))
    assert only.admits("look", "read")
    assert only.admits("mcp__list", "write")
    assert not only.admits("mcp__delete_all", "write")
    assert not only.admits("write", "write")
    assert not only.admits("mcp__fetch", "network")


async def test_project_settings_hold_for_the_sessions_of_their_folder(bench):
    """A project's .hilum/settings.toml counts in its sessions."""
    files = {".hilum/settings.toml": "turns = 2\n"}
    kit = await bench(
        plugin("tools", look), answers=[use("look"), use("look"), use("look")], files=files
    )
    assert (await kit.run("x")).turns == 2


async def test_a_project_cannot_raise_the_turns_or_choose_the_model(bench):
    """What it may not say does not count, and a note says what and how to use it all the same."""
    files = {".hilum/settings.toml": 'turns = 500\nmodel = "dear/model"\n'}
    kit = await bench(files=files)
    assert kit.session.options.turns == 25
    assert kit.session.model != "dear/model"
    note = kit.of(PluginEvent)[0]
    assert note.name == "settings.ignored"
    assert (
        "turns = 500 is ignored: a project may only lower it, and without the project it is 25"
        in note.data["say"]
    )
    assert 'put `model = "dear/model"` in your own settings file' in note.data["say"]


async def test_cancelled_run_is_stopped_before_the_cancellation_goes_on(bench):
    """Cancelling session.run ends the run, and only then unwinds."""
    kit = await bench(answers=[pause(trio.Event())])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kit.session.run, "x")
        with kit.guard():
            await kit.model.asked(1)
        nursery.cancel_scope.cancel()
    assert kit.session.agents["main"].conversation.state == "stopped"


async def test_session_that_could_not_be_opened_leaves_nothing(bench):
    """A mistake in how it is opened does not fill the list of sessions."""
    kit = await bench()
    before = len(await kit.kernel.store.list())
    with pytest.raises(UsageError, match="mode"):
        async with kit.kernel.open_session(kit.workspace, mode="frobnicate"):
            pass
    assert len(await kit.kernel.store.list()) == before


async def test_an_agent_goes_on_from_what_was_said_in_another_session(tmp_path):
    """It says it to the model, and a resumed session knows it too."""
    said = (UserMessage((Text("Remember 7."),)), AssistantMessage((Text("Seven.", "model"),)))
    store = MemoryStore()
    async with open_bench(store=store, folder=tmp_path, answers=["Still seven."]) as kit:
        kit.session.add_agent(Profile("helper"), messages=said)
        await kit.run("And now?", agent="helper")
        identity = kit.session.id
        assert kit.requests[-1].messages[:2] == said
    async with open_bench(store=store, folder=tmp_path, resume=identity) as again:
        assert tuple(again.session.agents["helper"].conversation.messages[:2]) == said


@pytest.mark.parametrize(
    ("name", "arguments"), [("prompt", ["x"]), ("steer", ["x"]), ("compact", []), ("resume", [])]
)
async def test_a_session_that_closes_refuses_work_before_it_logs_it(tmp_path, name, arguments):
    """A task may outlive the session, such as the one of a request of an editor."""
    async with open_kernel(environ={}) as kernel:
        async with kernel.open_session(tmp_path) as session:
            pass
        last = session.journal.last

        async def begin():
            begun = getattr(session, name)(*arguments)
            if name in ("prompt", "steer"):
                await begun

        with pytest.raises(UsageError) as raised:
            await begin()
        assert raised.value.code == "E_INTERRUPTED"
        assert session.journal.last == last
