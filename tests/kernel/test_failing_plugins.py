"""Plugins that do not load, crash in a lifespan, are required and missing, or clash: each fails
alone.
"""

import gc
import sys
import weakref
from contextlib import asynccontextmanager

import pytest
import trio
from hilum import UsageError, deny, hookimpl, open_kernel, tool
from hilum.errors import E_DENIED, E_PLUGIN, E_UNKNOWN_TOOL
from hilum.events import CallStarted, PluginFault
from hilum.hooks import PluginFailure
from hilum.testing import open_bench, plugin, use


@tool(risk="read", effect="pure")
def look() -> str:
    """Look."""
    return "seen"


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a plugin the way pip does: a module and an entry point in a folder on the path."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)

    def install(name, source):
        info = folder / f"hilum_{name}-1.0.dist-info"
        info.mkdir()
        (info / "entry_points.txt").write_text(f"[hilum]\n{name} = hilum_{name}\n")
        (folder / f"hilum_{name}.py").write_text(source)
        # Another test may have imported a module of this name.
        monkeypatch.delitem(sys.modules, f"hilum_{name}", raising=False)

    return install


GATE = """
from hilum import hookimpl

@hookimpl
def on_tool_call():
    raise RuntimeError("broken gate")
"""


async def test_plugin_that_does_not_load_is_a_fact_to_show(install):
    """Import errors, syntax errors, missing modules and even sys.exit are written down.

    The others load.
    """
    install("raising_one", "1 / 0")
    install("syntax_one", "def")
    install("quitting_one", "import sys; sys.exit(3)")
    install("lacking_one", "import a_module_that_is_not_there")
    install("good_one", "from hilum import hookimpl\n\n@hookimpl\ndef remind():\n    return 'x'\n")
    names = ["raising_one", "syntax_one", "quitting_one", "lacking_one", "good_one"]
    async with open_kernel(names, environ={}) as kernel:
        plugins = kernel.host.plugins
        assert {name: plugins[name].state for name in names} == dict.fromkeys(names, "failed") | {
            "good_one": "ready"
        }
        assert "division by zero" in plugins["raising_one"].error
        assert "a_module_that_is_not_there" in plugins["lacking_one"].error
        assert [fault.plugin for fault in kernel.faults] == names[:-1]


async def test_unknown_name_is_refused_with_near_names(install):
    """A typing error in the list of plugins is no silent loss."""
    install("weather_one", "")
    with pytest.raises(UsageError, match="weather_one"):
        async with open_kernel(["wether_one"], environ={}):
            raise AssertionError("opened")


OPENS = """
from hilum import hookimpl

@hookimpl
async def {hook}():
    raise RuntimeError("no connection")
    yield
"""
LACKING = {"not installed": "", "does not load": "1 / 0"}
LACKING |= {hook: OPENS.format(hook=hook) for hook in ("open_session", "open_kernel")}


@pytest.mark.parametrize("state", LACKING)
async def test_without_a_required_distribution_no_call_runs(install, state):
    """The prompt is answered, every call is refused, and distribution and reason are named."""
    plugins: list[object] = [plugin("tools", look)]
    if LACKING[state]:
        install("keeper", LACKING[state])
        plugins.append("keeper")
    async with open_bench(*plugins, settings={"required": ["hilum-keeper"]}, faults=True) as kit:
        result = await kit.call("look")
        assert result.code == E_DENIED
        assert (
            "keeper' is required and not in" in result.text
            or "'keeper' guards tool calls and is not" in result.text
        )


async def test_an_object_does_not_stand_for_a_required_distribution():
    """Whoever requires the guard means the package, and no object of that name."""
    keeper = plugin("keeper", remind=lambda: None)
    async with open_bench(plugin("tools", look), keeper, settings={"required": ["keeper"]}) as kit:
        assert (
            "The distribution 'keeper' is required and not installed"
            in (await kit.call("look")).text
        )


async def test_closed_gate_opens_when_the_user_blocks_the_plugin_by_name(install):
    """The tombstone is the plugin's.

    Whoever takes the plugin out by name, required or not, takes it out.
    """
    install("keeper", GATE)
    tools = plugin("tools", look)
    async with open_bench(tools, "keeper", settings={"required": ["keeper"]}, faults=True) as kit:
        for _ in range(4):
            assert (await kit.call("look")).code == E_DENIED
    blocked = {"required": ["keeper"], "plugins.block": ["keeper"]}
    async with open_bench(tools, "keeper", settings=blocked) as kit:
        assert (await kit.call("look")).text == "seen"
        assert kit.kernel.host.plugins["keeper"].state == "blocked"


class Service:
    """A half with a tool and a gate, in a lifespan that can be made to crash."""

    def __init__(self):
        self.crash = trio.Event()
        self.calls = trio.Event()

    @tool(risk="read")
    async def slow(self) -> str:
        """Wait."""
        self.calls.set()
        await trio.sleep_forever()

    @tool(risk="read")
    def quick(self) -> str:
        """Answer."""
        return "quick"

    @hookimpl
    def provide_tools(self):
        return [self.slow, self.quick]


@asynccontextmanager
async def crashing(half):
    async def watch():
        await half.crash.wait()
        raise ConnectionError("the server went away")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        yield half
        nursery.cancel_scope.cancel()


def service(half, guards=False, hook="open_session"):
    async def opens():
        async with crashing(half):
            yield half

    gate = {"on_tool_call": lambda: None} if guards else {}
    return plugin("service", **{hook: opens}, **gate)


@pytest.mark.parametrize("guards", [False, True])
async def test_crash_of_a_lifespan_ends_the_plugins_calls_and_tools(bench, guards):
    """A call in flight ends at once with the reason, its tools are gone, and if it had a gate that
    stays closed.
    """
    half = Service()
    kit = await bench(
        service(half, guards),
        plugin("tools", look),
        answers=[use("slow") + use("look"), "ok"],
        faults=True,
    )
    run = await kit.start("x")
    with kit.guard():
        await half.calls.wait()
        half.crash.set()
        ended = await run.wait()
    assert ended.state == "completed"
    assert kit.result("slow").code == E_PLUGIN
    assert "service" in kit.result("slow").text
    fault = kit.of(PluginFault)[0]
    assert (fault.plugin, fault.hook, fault.switched_off) == ("service", "lifespan", True)
    assert fault.error.startswith("ConnectionError: the server went away (")
    assert "test_failing_plugins.py, line " in fault.error
    assert (await kit.call("quick")).code == E_UNKNOWN_TOOL
    assert (await kit.call("look")).code == (E_DENIED if guards else "")
    assert any(
        "No longer available, do not call: quick, slow" in str(m) for m in kit.requests[1].messages
    )


async def test_crash_of_a_kernel_half_ends_the_plugin_in_all_sessions(bench):
    """What the kernel half served is gone everywhere.

    Sessions opened later do not see the plugin.
    """
    half = Service()
    kernel_half = service(half, guards=True, hook="open_kernel")
    kit = await bench(kernel_half, plugin("tools", look), faults=True)
    assert (await kit.call("look")).text == "seen"
    half.crash.set()
    await kit.wait_for(PluginFault)
    assert (await kit.call("look")).code == E_DENIED
    assert kit.kernel.host.plugins["service"].state == "off"
    async with kit.kernel.open_session(kit.workspace) as later:
        kit.model.then(use("look"), "ok")
        await later.run("x")
        assert not [event for event in later.journal.read_all() if isinstance(event, CallStarted)]


async def test_slow_start_of_a_lifespan_is_cut_off(bench, autojump_clock):
    """A plugin that hangs before it is up delays a session by its deadline and no more."""

    async def opens():
        await trio.sleep_forever()
        yield

    began = trio.current_time()
    kit = await bench(plugin("sleepy", open_session=opens), plugin("tools", look), faults=True)
    assert trio.current_time() - began == pytest.approx(30)
    assert (await kit.call("look")).text == "seen"


async def test_hanging_end_of_a_lifespan_is_cut_off(autojump_clock):
    """Closing waits five seconds for a plugin, then cancels it.

    Lifespans close in reverse order.
    """
    closed = []

    def ending(name, seconds):
        async def opens():
            try:
                yield
                await trio.sleep(seconds)
            finally:
                closed.append((name, round(trio.current_time() - began)))

        return plugin(name, open_session=opens)

    async with open_bench(ending("first", 0), ending("second", 1e6), ending("third", 2)):
        began = trio.current_time()
    assert closed == [("third", 2), ("second", 7), ("first", 7)]


async def test_error_at_the_end_of_a_lifespan_is_a_fault(bench):
    """A plugin that fails while it closes does not keep the session from closing."""

    async def opens():
        yield
        raise OSError("cannot say goodbye")

    with pytest.raises(AssertionError, match="cannot say goodbye"):
        async with open_bench(plugin("rude", open_session=opens), answers=["ok"]) as kit:
            assert (await kit.run("x")).state == "completed"


async def test_of_two_tools_of_one_name_the_first_counts(bench):
    """The second plugin's tool is left out, and both plugins are named."""

    @tool(risk="read", name="look")
    def other() -> str:
        """Look elsewhere."""
        return "elsewhere"

    kit = await bench(plugin("one", look), plugin("two", other), faults=True)
    assert (await kit.call("look")).text == "seen"
    assert (kit.faults[0].plugin, kit.faults[0].hook) == ("two", "provide_tools")
    assert "The plugin one already has a tool look" in str(kit.faults[0])


async def test_a_tool_belongs_to_the_plugin_that_gives_it_in_each_session(bench):
    """Plugins may share a tool, which is not copied where it is given by one: none changes whose it
    is for another.
    """
    one, two = await bench(plugin("one", look)), await bench(plugin("two", look))
    assert [kit.session.tools["look"].plugin for kit in (one, two)] == ["one", "two"]
    both = await bench(plugin("two", look), plugin("one", look), faults=True)
    assert both.session.tools["look"].plugin == "two"
    assert "The plugin two already has a tool look" in str(both.faults[0])
    assert (await two.call("look")).text == "seen"


async def test_tool_that_cannot_be_described_is_left_out(bench):
    """A tool with a bad signature takes itself out, not its neighbours."""

    @tool(risk="read")
    def bad(*things) -> str:
        """Do things."""
        return ""

    kit = await bench(plugin("one", bad, look), faults=True)
    assert (await kit.call("look")).text == "seen"
    assert [spec.name for spec in kit.requests[0].tools] == ["look"]
    assert "needs a type annotation" in str(kit.faults[0])


async def test_crash_in_a_tool_is_told_to_the_model_and_named(bench):
    """The call fails with the plugin's name, and its siblings are not touched."""

    @tool(risk="read")
    async def crash() -> str:
        """Crash."""
        raise KeyError("lost")

    kit = await bench(
        plugin("one", crash, look), answers=[use("crash") + use("look"), "ok"], faults=True
    )
    assert (await kit.run("x")).state == "completed"
    assert kit.result("crash").code == E_PLUGIN
    assert "a fault of the plugin one: KeyError: 'lost'" in kit.result("crash").text
    assert kit.result("look").text == "seen"


async def test_gate_that_denies_for_good_is_no_fault(bench):
    """Denying is a gate's work."""
    kit = await bench(
        plugin("tools", look), plugin("no", on_tool_call=lambda: deny("Not on Sundays."))
    )
    for _ in range(5):
        assert "Not on Sundays." in (await kit.call("look")).text
    assert kit.faults == []


async def test_a_required_distribution_that_is_not_there_can_be_blocked_by_name(bench):
    """The user says once that it is meant."""
    blocked = {"required": ["hilum-keeper"], "plugins.block": ["keeper"]}
    assert (
        await (await bench(plugin("tools", look), settings=blocked)).call("look")
    ).text == "seen"


async def test_faults_are_kept_as_text_and_not_for_ever(bench):
    """No frame of the code that failed stays alive, and a plugin that fails all day does not fill
    the memory.
    """

    class Large:
        pass

    alive = []

    def remind():
        large = Large()
        alive.append(weakref.ref(large))
        raise OSError("deep")

    kit = await bench(plugin("bad", remind=remind), faults=True)
    await kit.session.hooks.gather("remind", agent=kit.session.agents["main"], results=[])
    kit.observed.clear()  # the bench keeps errors for its reports
    gc.collect()
    assert [str(fault).partition(" (")[0] for fault in kit.kernel.faults] == ["OSError: deep"]
    assert alive[0]() is None
    for number in range(1000):
        kit.kernel.keep_fault(PluginFailure("bad", "remind", OSError(str(number))))
    assert str(kit.kernel.faults[-1]) == "OSError: 999"
    assert len(kit.kernel.faults) <= 200


async def test_a_run_does_not_keep_the_arguments_of_its_calls(bench):
    """Only what its report names is kept."""

    @tool(risk="write", writes="path")
    def write(path: str, content: str) -> str:
        """Write."""
        return "ok"

    kept = []
    remind = plugin("watch", remind=lambda agent: kept.extend(map(repr, agent.run.finished)))
    kit = await bench(
        plugin("tools", write),
        remind,
        answers=[use("write", path="a.py", content="x" * 10_000), "ok"],
    )
    await kit.run("x")
    assert len(kept) == 1
    assert "a.py" in kept[0]
    assert len(kept[0]) < 500
