"""A kernel inside programs that do not run trio: asyncio and plain code."""

import asyncio
import os
import threading

import hilum
import pytest
import trio
from hilum.events import CallStarted, RunEnded
from hilum.store import MemoryStore
from hilum.testing import ModelProvider, ScriptedModel, plugin, use


class Models:
    """A plugin that provides one scripted model."""

    def __init__(self, *answers):
        self.model = ScriptedModel(answers)

    @hilum.hookimpl
    def provide_models(self):
        return [ModelProvider({"model": self.model})]


def options(*answers):
    """What every kernel here is opened with."""
    return {"model": "scripted/model", "store": MemoryStore(), "environ": {}}, Models(*answers)


@pytest.fixture
def in_asyncio():
    """Run a coroutine function on an asyncio loop, which must not take longer than a minute."""

    def run(function):
        return asyncio.run(asyncio.wait_for(function(), 60))

    return run


def test_asyncio_program_runs_reads_and_uses_its_own_tool(in_asyncio, tmp_path):
    """The tool runs on the caller's loop, events come in order, the result is the run's."""
    named, models = options(use("stock", item="nuts"), "12 nuts.")

    async def main():
        loop = asyncio.get_running_loop()

        @hilum.aio.tool(risk="read", effect="pure")
        async def stock(item: str) -> str:
            """Count.

            Args:
                item: What.
            """
            assert asyncio.get_running_loop() is loop
            return f"12 {item}"

        async with (
            hilum.aio.open_kernel([models, plugin("shop", stock)], **named) as kernel,
            kernel.open_session(str(tmp_path)) as session,
        ):
            ended = await session.run("How many?")
            seen = []
            async for event in session.events():
                seen.append(event.seq)
                if isinstance(event, RunEnded):
                    break
            return ended, seen

    ended, seen = in_asyncio(main)
    assert (ended.state, ended.text) == ("completed", "12 nuts.")
    assert seen == list(range(1, len(seen) + 1))


@pytest.mark.parametrize(("answers", "state", "code"), [
    ((use("erase"), "Done."), "partial_success", "E_DENIED"),
    ((use("stock"), "Done."), "completed", ""),
    ((use("erase"), use("note"), "Done."), "completed", ""),
])  # fmt: skip
def test_a_run_whose_calls_nobody_could_approve_is_not_complete(
    in_asyncio, tmp_path, answers, state, code
):
    """The state tells it, as the exit code of ``hilum run`` does.

    A change that was made is an effect.
    """
    named, models = options(*answers)

    @hilum.tool(risk="read", effect="pure")
    async def stock() -> str:
        """Count."""
        return "12"

    @hilum.tool(risk="write", effect="once")
    async def erase() -> str:
        """Erase."""
        return "erased"

    @hilum.tool(risk="write", effect="once")
    async def note() -> str:
        """Note."""
        return "noted"

    def judge(call):
        return hilum.ask("It erases.") if call.name == "erase" else hilum.allow()

    async def main():
        shop = plugin("shop", stock, erase, note)
        async with (
            hilum.aio.open_kernel(
                [models, shop, plugin("gate", on_tool_call=judge)], **named
            ) as kernel,
            kernel.open_session(str(tmp_path), attended=False, approve="auto") as session,
        ):
            return await session.run("Erase it.")

    ended = in_asyncio(main)
    assert (ended.state, ended.code) == (state, code)
    assert ended.text == "Done."
    assert bool(ended.hint) is bool(code)


def test_cancelling_an_asyncio_task_stops_the_run_and_waits_for_that(in_asyncio, tmp_path):
    """When the cancelled task is over, the run has ended and the tool's coroutine has cleaned
    up.
    """
    named, models = options(use("slow"))
    log = []

    async def main():
        @hilum.aio.tool(risk="read")
        async def slow() -> str:
            """Take long."""
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                await asyncio.sleep(0.05)
                log.append("cleaned up")
                raise
            return "never"

        async with (
            hilum.aio.open_kernel([models, plugin("shop", slow)], **named) as kernel,
            kernel.open_session(str(tmp_path)) as session,
        ):
            task = asyncio.create_task(session.run("Go."))
            async for event in session.events():
                if isinstance(event, CallStarted):
                    break
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert log == ["cleaned up"]
            return session.agents["main"].conversation.state

    assert in_asyncio(main) == "stopped"


def test_errors_reach_asyncio_as_they_are(in_asyncio, tmp_path):
    """No exception group, no wrapper: the error that a trio program would see."""
    named, models = options()

    async def main():
        async with hilum.aio.open_kernel([models], **named) as kernel:
            with pytest.raises(hilum.UsageError, match="does not exist"):
                async with kernel.open_session(str(tmp_path / "missing")):
                    pass

    in_asyncio(main)


def test_plain_code_runs_reads_answers_and_stops(tmp_path):
    """Every command has a blocking form, and the trio thread is gone afterwards."""

    @hilum.tool(risk="write")
    async def write() -> str:
        """Write."""
        return "written"

    @hilum.tool(risk="read")
    async def wait() -> str:
        """Wait."""
        await trio.sleep_forever()
        return "never"

    named, models = options(use("write"), "Done.", use("wait"))
    with (
        hilum.blocking.open_kernel([models, plugin("tools", write, wait)], **named) as kernel,
        kernel.open_session(str(tmp_path)) as session,
    ):
        run = session.prompt("Write.")
        for event in session.events():
            if type(event).__name__ == "ApprovalAsked":
                session.answer(event.id, True)
            if isinstance(event, RunEnded):
                break
        assert run.wait().text == "Done."
        before = session.journal.last  # and not after the prompt: the call may have started by then
        run = session.prompt("Wait.")
        for event in session.events(before):
            if isinstance(event, CallStarted):
                break
        run.stop()
        assert run.wait().state == "stopped"
    assert not [thread for thread in threading.enumerate() if thread.name == "hilum"]


def test_a_tool_of_asyncio_needs_a_loop_and_says_so():
    """At the top level of a module there is none."""
    with pytest.raises(
        hilum.PluginError, match=r"needs a running asyncio loop\. Call it in a coroutine function"
    ):

        @hilum.aio.tool(risk="read")
        async def stock() -> str:
            """Count."""


async def test_the_events_of_a_run_end_with_it(bench):
    """The second run of a session, and one of another agent, are followed as the first is."""
    kit = await bench(answers=["one", "two", "three"])
    kit.session.add_agent(hilum.Profile(name="critic"))
    texts = []
    for text, agent in (("a", "main"), ("b", "main"), ("c", "critic")):
        run = await kit.session.prompt(text, agent=agent)
        events = [event async for event in run.events()]
        assert isinstance(events[-1], RunEnded)
        assert {event.run for event in events if event.agent == agent} == {run.id}
        texts.append((events[-1].agent, events[-1].text, (await run.wait()).text))
    assert texts == [("main", "one", "one"), ("main", "two", "two"), ("critic", "three", "three")]


def test_the_standard_session_is_there_for_asyncio_and_plain_code(in_asyncio, tmp_path):
    """With all that is installed; the model is passed beside it."""
    environ = {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    named = {"model": "scripted/model", "environ": environ, "store": MemoryStore()}

    class Scripted(Models):
        pass

    with hilum.blocking.open_standard_session(
        workspace, extra_plugins=[Scripted("one")], **named
    ) as session:
        assert session.run("x").text == "one"
        assert "guard" in session.kernel.host.plugins

    async def main():
        async with hilum.aio.open_standard_session(
            workspace, extra_plugins=[Scripted("two")], **named
        ) as session:
            return (await session.run("x")).text

    assert in_asyncio(main) == "two"


async def test_the_environment_that_is_given_governs_every_folder(tmp_path, monkeypatch):
    """Two kernels side by side write to their own folders, commands see their own variables, the
    home stays empty.
    """
    own = tmp_path / "own"
    own.mkdir()
    for name in [name for name in os.environ if name.startswith(("HILUM_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(own))
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    seen = {}

    @hilum.tool(risk="read")
    async def whoami(call: hilum.Call) -> str:
        """Say."""
        done = await call.processes.run(["sh", "-c", "echo $WHO"])
        seen[done.stdout.decode().strip()] = (
            hilum.data_folder(),
            hilum.config_folder(),
            hilum.home_folder(),
        )
        return "ok"

    def options(who):
        model = ModelProvider({"model": ScriptedModel([use("whoami"), "done"])})
        home = tmp_path / who
        home.mkdir()
        environ = {"HOME": str(home), "WHO": who, "PATH": "/usr/bin:/bin"}
        provider = plugin("provider", provide_models=lambda: [model])
        return {
            "model": "scripted/model",
            "extra_plugins": [provider],
            "tools": [whoami],
            "environ": environ,
        }

    async with (
        hilum.open_standard_session(workspace, approve="auto", **options("ada")) as one,
        hilum.open_standard_session(workspace, approve="auto", **options("bob")) as two,
    ):
        await two.run("x")
        await one.run("x")
    for who in ("ada", "bob"):
        home = tmp_path / who
        assert seen[who] == (home / ".local/share/hilum", home / ".config/hilum", home)
        assert (home / ".local/share/hilum/sessions.db").exists()
    assert not [*own.rglob("*")]


@pytest.mark.parametrize("where", ["setting", "argument"])
async def test_what_is_required_adds_to_the_guard(tmp_path, monkeypatch, where):
    """Neither the setting nor the argument takes the guard's place: only a name that is left out
    does.
    """
    monkeypatch.setattr("hilum.standard.GUARD", "hilum-missing-guard")
    options = {
        "environ": {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        "needs_model": False,
        "store": MemoryStore(),
    }
    if where == "setting":
        options["settings"] = {"required": ["hilum-files"]}
    else:
        options["required"] = ["hilum-files"]
    async with hilum.open_standard_session(tmp_path, **options) as session:
        assert "'hilum-missing-guard' is required and not installed" in session.hooks.refusal()
        assert "" in session.hooks.gates["files"]


def project(folder, name, turns):
    """A trusted project with a plugin of its own and a setting."""
    (folder / ".hilum" / "plugins").mkdir(parents=True)
    (folder / ".hilum" / "plugins" / f"{name}.py").write_text("")
    (folder / ".hilum" / "settings.toml").write_text(f"turns = {turns}\n")
    return folder


class StoreOfPlugin:
    """A plugin that provides a store, which outlives its kernels."""

    def __init__(self):
        self.store = MemoryStore()

    def plugin(self):
        return plugin("keeps", provide_store=lambda: self.store)


@pytest.mark.parametrize("given", [True, False], ids=["store passed", "store of a plugin"])
async def test_a_resumed_session_has_the_plugins_and_settings_of_its_own_folder(
    tmp_path, monkeypatch, given
):
    """Wherever it is resumed from: project plugins, settings of the kernel and of the session are
    those of its project.
    """
    monkeypatch.setattr("hilum.standard.explain_distrust", lambda root: "")
    mine = project(tmp_path / "mine", "mine_only", 7)
    other = project(tmp_path / "other", "other_only", 3)
    (mine / ".hilum" / "plugins" / "left_out.py").write_text("1 / 0")
    kept = StoreOfPlugin()
    model = plugin(
        "provider", provide_models=lambda: [ModelProvider({"model": ScriptedModel(["ok"])})]
    )
    options = {
        "environ": {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"},
        "without": ["store", "left_out"],
        "model": "scripted/model",
        "extra_plugins": [model] if given else [model, kept.plugin()],
    } | ({"store": kept.store} if given else {})
    async with hilum.open_standard_session(mine, **options) as session:
        await session.run("x")
        identity = session.id
    async with hilum.open_standard_session(other, resume=identity[:-2], **options) as session:
        assert session.workspace.root == mine
        assert {"mine_only"} == {"mine_only", "other_only"} & {*session.kernel.host.plugins}
        assert session.options.turns == session.kernel.options.turns == 7


async def test_a_session_in_another_folder_has_no_settings_of_the_kernels_project(tmp_path):
    """A kernel for one project opens a session in another one, which has no settings of its own."""
    mine = project(tmp_path / "mine", "unused", 7)
    other = tmp_path / "other"
    other.mkdir()
    async with hilum.open_kernel([], workspace=mine, environ={}) as kernel:
        async with kernel.open_session(mine) as session:
            assert session.options.turns == 7
        async with kernel.open_session(other) as session:
            assert session.options.turns == 25
