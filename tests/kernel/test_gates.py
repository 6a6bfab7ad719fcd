"""A gate that is not in full working order stays shut: whatever is wrong with its plugin, and
whoever opens the session.
"""

import asyncio
import importlib.util
import sys
from pathlib import Path

import pytest
import trio
from hilum import PluginError, UsageError, hookimpl, open_kernel, tool
from hilum.errors import E_DENIED
from hilum.events import CallStarted, PluginFault
from hilum.hooks import is_failure
from hilum.testing import open_bench, plugin, use

_FILE = Path(__file__).resolve().parents[1] / "benchmarks" / "gates.py"
_SPEC = importlib.util.spec_from_file_location("gates_benchmark", _FILE)
gates = importlib.util.module_from_spec(_SPEC)
sys.modules["gates_benchmark"] = gates
_SPEC.loader.exec_module(gates)

NAMES = [*gates.SOURCES]
# On the kernel's own interface every way to fail, with the gates by turns; elsewhere a sample. The
# benchmark has the rest.
CASES = [("kernel on trio", gates.GATES[n % 4], name) for n, name in enumerate(NAMES)]
CASES += [
    case[:3]
    for case in gates.all_cases(
        [face for face in gates.INSIDE if face != "kernel on trio"], every=28
    )
]


@tool(risk="read", effect="pure")
def look() -> str:
    """Look."""
    return "seen"


@pytest.mark.slow(cases=20)
@pytest.mark.parametrize(("face", "gate", "name"), CASES)
def test_nothing_gets_past_a_gate_that_is_not_in_working_order(tmp_path, face, gate, name):
    """No call starts, and what a failing gate would have judged does not happen."""
    with gates.short_deadlines():
        assert gates.play(face, tmp_path / "site", gate, name) == set()


@pytest.mark.parametrize(
    ("hole", "name"),
    [
        ("a plugin that did not open leaves its gates open", "open_session: error"),
        ("closed gates are not looked at", "import: lacking"),
        ("a gate that fails has no objection", "asked: error"),
    ],
)
@pytest.mark.parametrize("gate", gates.GATES)
@pytest.mark.slow(cases=7)
def test_a_hole_that_is_put_back_is_found(tmp_path, gate, hole, name):
    """What the tests above measure would show a gate that falls open."""
    assert gates.play("kernel on trio", tmp_path / "site", gate, name, hole)


def test_what_was_never_raised_is_no_interrupt():
    """A plugin may put a KeyboardInterrupt into a group; nobody has pressed Ctrl-C."""
    group = BaseExceptionGroup(
        "several", [BaseExceptionGroup("inner", [KeyboardInterrupt()]), OSError("x")]
    )
    assert is_failure(group)


@pytest.mark.parametrize("place", gates.WORKING)
@pytest.mark.parametrize("gate", gates.GATES)
@pytest.mark.slow(cases=4)
def test_a_gate_in_working_order_lets_calls_run(tmp_path, place, gate):
    """The test above would be worth nothing if the tools never ran."""
    site = gates.Site.make(
        tmp_path / "site", gate, gates.WORKING[place], metadata=place == "instance"
    )
    with site.importable():
        assert gates.on_trio(site) == "completed"
    assert site.ran() == gates.RAN


@pytest.mark.parametrize(
    "source", ["import a_module_that_is_not_there", "from hilum_gatekeeper_inside import Keeper"]
)
@pytest.mark.parametrize("metadata", [False, True])
def test_the_metadata_of_a_distribution_closes_a_gate_that_cannot_be_imported(
    tmp_path, metadata, source
):
    """Where the source of the plugin says nothing of its gates, its metadata does, without being
    imported.
    """
    site = gates.Site.make(tmp_path / "site", "on_tool_call", source, metadata)
    with site.importable():
        gates.on_trio(site)
    assert site.ran() == (set() if metadata else gates.RAN)


async def test_no_process_starts_before_all_gates_are_in_place(bench):
    """A plugin that opens earlier than the one that wraps processes cannot start one: the guard
    opens first.
    """
    order = []

    class Keeper:
        @hookimpl
        async def wrap_process(self, command):
            order.append("wrapped")

    async def keeper():
        order.append("keeper opens")
        yield Keeper()

    async def starter(session):
        order.append("starter opens")
        await session.processes.run(["true"])
        yield

    await bench(
        plugin("a", open_session=starter), plugin("b", open_session=keeper, gates=("wrap_process",))
    )
    assert order == ["keeper opens", "starter opens", "wrapped"]


async def test_a_result_is_withheld_when_the_gate_that_checks_it_goes_during_the_call(bench):
    """The guard that redacts crashes while a command runs: nobody sees what the command printed."""
    crash = trio.Event()

    class Keeper:
        @hookimpl
        async def check_result(self, result):
            return None

    async def opens():
        async with trio.open_nursery() as nursery:

            async def fall():
                await crash.wait()
                raise OSError("gone")

            nursery.start_soon(fall)
            yield Keeper()
            nursery.cancel_scope.cancel()

    @tool(risk="read")
    async def leak() -> str:
        """Leak."""
        crash.set()
        await trio.testing.wait_all_tasks_blocked()
        return "the secret"

    keeper = plugin("keeper", open_session=opens, gates=("check_result",))
    kit = await bench(plugin("tools", leak), keeper, answers=[use("leak"), "done"], faults=True)
    await kit.run("x")
    assert (
        "The result is withheld. The plugin 'keeper' guards tool calls" in kit.result("leak").text
    )
    assert "the secret" not in str(kit.requests)


async def test_the_user_blocks_a_broken_gate_by_name(bench):
    """And then calls run again, as the refusal says."""
    broken = plugin("keeper", gates=("on_tool_call",))
    kit = await bench(broken, plugin("tools", look), faults=True)
    refused = await kit.call("look")
    assert refused.code == E_DENIED
    assert (
        "It declares the gate on_tool_call, but neither its module nor its instance has it)."
        in refused.text
    )
    assert "--no-plugin keeper" in refused.text
    async with open_bench(
        broken, plugin("tools", look), settings={"plugins.block": ["keeper"]}
    ) as kit:
        assert (await kit.call("look")).text == "seen"


async def test_an_undeclared_gate_of_an_instance_says_what_to_write(bench):
    """The author reads the line that is missing."""

    class Keeper:
        @hookimpl
        def on_tool_call(self):
            return None

    kit = await bench(
        plugin("keeper", open_session=lambda: Keeper()), plugin("tools", look), faults=True
    )
    assert (await kit.call("look")).code == E_DENIED
    (fault,) = kit.of(PluginFault)
    assert (
        "Keeper implements the gate on_tool_call, which its module does not declare." in fault.error
    )
    assert "gates = ('on_tool_call',)" in fault.error


# --- what is passed as a plugin -------------------------------------------------------------------


class Nothing:
    def provide_tools(self):
        return []


class Misspelt:
    @hookimpl
    def on_tool_call(self, agents):
        return None


class Unknown:
    @hookimpl
    def on_toolcall(self):
        return None


class Empty:
    pass


WRONG = [
    (None, "None is not a plugin"),
    ([look], "is not a plugin"),
    ({}, "is not a plugin"),
    (42, "42 is not a plugin"),
    (Misspelt, "The class Misspelt is not a plugin. Pass an instance: Misspelt"),
    (look, r"look is not a plugin. Pass it as a tool: open_kernel\(tools=\[look\]\)"),
    (len.__class__, "is not a plugin"),
    (Nothing(), "provide_tools is not marked as a hook. Mark it with @hookimpl"),
    (Misspelt(), "on_tool_call has no argument agents; it has agent, call, tool"),
    (Unknown(), "There is no hook 'on_toolcall'"),
    (Empty(), "Empty implements no hook"),
    (plugin("p", gates=("on_toolcall",)), "There is no gate 'on_toolcall'"),
    (plugin("p", gates=("remind",)), "There is no gate 'remind'"),
    (Path("/nowhere/x.py"), "There is no plugin file '/nowhere/x.py'"),
    (Path(__file__).parent, "is a folder"),
]


@pytest.mark.parametrize(("thing", "text"), WRONG)
async def test_what_cannot_be_a_plugin_is_an_error_where_it_is_passed(thing, text):
    """It says what to write; nothing is dropped without a word."""
    with pytest.raises((UsageError, PluginError), match=text):
        async with open_kernel([thing], environ={}):
            raise AssertionError("opened")


class Shop:
    """Two of these are two plugins."""

    def __init__(self, name):
        @tool(risk="read", name=name)
        def sell() -> str:
            """Sell."""
            return name

        self.tools = [sell]

    @hookimpl
    def provide_tools(self):
        return self.tools


async def test_objects_functions_tools_and_files_are_plugins(bench, tmp_path):
    """Two objects of one class count both; a marked function is a plugin; so is a file."""
    file = tmp_path / "greeter.py"
    file.write_text(
        "from dataclasses import dataclass\nfrom hilum import hookimpl, tool\n\n@tool(risk='read')\n"
        "def greet(name: str) -> str:\n"
        "    '''Greet.'''\n    return f'Hello {name}'\n\n@hookimpl\ndef provide_tools():\n    return [greet]\n"
    )

    @hookimpl
    def remind():
        return "from a function"

    kit = await bench(Shop("one"), Shop("two"), remind, file, answers=[use("one"), "ok"])
    assert [*kit.kernel.host.plugins] == ["Shop", "Shop-2", "remind", "greeter"]
    assert {*kit.session.tools} == {"one", "two", "greet"}
    assert (await kit.call("greet", name="Ada")).text == "Hello Ada"
    assert not list(tmp_path.glob("__pycache__"))


async def test_plain_functions_are_tools(tmp_path):
    """An embedder passes what it has."""

    async def stock(item: str) -> str:
        """Count."""
        return f"12 {item}"

    def bad(*things) -> str:
        """Do things."""
        return ""

    async with (
        open_kernel([], tools=[stock, look], environ={}) as kernel,
        kernel.open_session(tmp_path) as session,
    ):
        assert {*session.tools} == {"stock", "look"}
    for wrong, error in ((bad, "needs a type annotation"), ("stock", "is not a tool")):
        with pytest.raises((PluginError, UsageError), match=error):
            async with open_kernel([], tools=[wrong], environ={}):
                raise AssertionError("opened")


@pytest.mark.parametrize(("gate", "runs"), [("on_tool_call", False), ("remind", True)])
async def test_a_project_file_with_a_syntax_error_is_named_and_closes_only_what_names_a_gate(
    tmp_path, gate, runs
):
    """File and line are said; the session goes on.

    What cannot be read as code is read as words, to be on the safe side.
    """
    file = tmp_path / "broken.py"
    file.write_text(f"def {gate}():\n    return (\n")
    tools = plugin("tools", look)
    async with (
        open_kernel([tools], project_plugins=[str(file)], environ={}) as kernel,
        kernel.open_session(tmp_path) as session,
    ):
        assert (session.hooks.refusal() == "") is runs
        (fault,) = [event for event in session.journal.read_all() if isinstance(event, PluginFault)]
        assert (fault.plugin, fault.hook) == ("broken", "load")
        assert fault.error == f"SyntaxError: '(' was never closed, {file}, line 2"


GIVEN = {
    "x = 1\ndef f(:\n": "line 2, does not load: SyntaxError: ",
    "x = 1\nraise RuntimeError('boom')\n": "line 2, does not load: RuntimeError: boom.",
    "def f():\n    return 1 / 0\nf()\n": "line 2, does not load: ZeroDivisionError: division by zero.",
    "import nothing_like_it\n": "line 1, does not load: ModuleNotFoundError: No module named 'nothing_like_it'.",
    "raise SystemExit(3)\n": "line 1, does not load: SystemExit: 3.",
    "def x(): return '\0'\n": "does not load: SyntaxError: ",
    "import hilum\n": "It defines no plugin: no function in it is marked as a hook.",
    "": "It defines no plugin: no function in it is marked as a hook.",
    "from hilum import hookimpl\n@hookimpl\ndef reminds(): ...\n": "given.py, line 2: There is no hook 'reminds'.",
    "from hilum import hookimpl, tool\n\n@tool(risk='reed')\ndef f() -> str: ...\n": "given.py, line 3: "
    "The risk of a tool is one of read, write, execute, network, not 'reed'.",
    "from hilum import hookimpl\ngates = 7\n@hookimpl\ndef remind(): ...\n": "gates is 7.",
}


@pytest.mark.parametrize(("source", "text"), GIVEN.items())
async def test_a_file_that_was_passed_and_does_not_load_is_an_error(tmp_path, source, text):
    """The caller named it: going on without it would do something else than was asked for."""
    file = tmp_path / "given.py"
    file.write_text(source)
    with pytest.raises(UsageError) as caught:
        async with open_kernel([file], environ={}):
            raise AssertionError("opened")
    assert (caught.value.code, caught.value.exit_code) == ("E_PLUGIN", 2)
    assert caught.value.message.startswith(f"The plugin file {file}")
    assert text in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint


# --- clashes --------------------------------------------------------------------------------------


def installed(folder, distribution, name, source, module=""):
    """Install a plugin the way pip does."""
    module = module or distribution.replace("-", "_")
    info = folder / f"{distribution.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text(
        f"[hilum]\n{name} = {module}\n[hilum.commands]\n{name}-it = {module}:main\n"
    )
    (folder / f"{module}.py").write_text(source)


GOOD = """
from hilum import hookimpl

@hookimpl
def remind():
    return 'x'

def main(argv):
    '''Water the plants.'''
"""


async def test_two_distributions_with_one_plugin_name_are_an_error_that_names_both(
    tmp_path, monkeypatch, capsys
):
    """None of them wins silently; blocking the name, or uninstalling one, helps."""
    from hilum.__main__ import main

    monkeypatch.syspath_prepend(tmp_path)
    installed(tmp_path, "aaa-clashing", "clashing_one", GOOD)
    installed(tmp_path, "zzz-clashing", "clashing-one", GOOD)
    with pytest.raises(
        PluginError,
        match=r"aaa-clashing 1\.0 and zzz-clashing 1\.0 both provide the plugin 'clashing_one'",
    ):
        async with open_kernel(environ={}):
            raise AssertionError("opened")
    async with open_kernel(environ={}, without=["clashing_one"]) as kernel:
        assert kernel.host.plugins["clashing_one"].state == "blocked"
    assert main(["clashing-one-it"]) == 2 or "both provide the command" in capsys.readouterr().err
    main(["--help"])
    assert "both provide the command" in capsys.readouterr().out


async def test_an_object_does_not_take_the_name_of_an_installed_plugin(tmp_path, monkeypatch):
    """Both are named."""
    monkeypatch.syspath_prepend(tmp_path)
    installed(tmp_path, "hilum-gardener", "gardener", GOOD)
    with pytest.raises(
        UsageError, match=r"hilum-gardener 1\.0 and the module gardener have the same"
    ):
        async with open_kernel(["gardener"], extra_plugins=[plugin("gardener")], environ={}):
            raise AssertionError("opened")


def test_the_error_of_a_command_cannot_control_the_terminal(tmp_path, monkeypatch, capsys):
    """Its text is a plugin's."""
    from hilum.__main__ import main

    monkeypatch.syspath_prepend(tmp_path)
    source = "def main(argv):\n    raise BaseException('x\\x1b]0;title\\x07')\n"
    installed(tmp_path, "hilum-titler", "titler", source)
    assert main(["titler-it"]) != 0
    told = capsys.readouterr().err
    assert "\x1b" not in told
    assert "BaseException: x\\x1b]0;title" in told


async def test_a_command_says_itself_what_it_does(tmp_path, monkeypatch, capsys):
    """The help shows the first line of its docstring, without importing it."""
    from hilum.__main__ import main

    monkeypatch.syspath_prepend(tmp_path)
    installed(tmp_path, "hilum-watering", "water", f"{GOOD}\n1 / 0\n")
    main(["--help"])
    assert "  water-it     Water the plants\n" in capsys.readouterr().out


@tool(risk="read", name="look")
def other() -> str:
    """Look elsewhere."""
    return "elsewhere"


async def test_of_two_tools_with_one_name_the_newcomers_is_left_out_and_nobody_is_switched_off(
    bench,
):
    """The fault is the newcomer's, and is told once, however often tools are asked for."""
    kit = await bench(
        plugin("one", look), plugin("two", other, remind=lambda: "two is there"), faults=True
    )
    for _ in range(5):
        kit.session.tools_changed()
    assert (await kit.call("look")).text == "seen"
    (fault,) = kit.of(PluginFault)
    assert (fault.plugin, fault.hook, fault.switched_off) == ("two", "provide_tools", False)
    assert "The plugin one already has a tool look" in fault.error
    assert 'replaces = ("look",)' in fault.error
    assert kit.calls("remind")


async def test_a_tool_that_comes_later_does_not_take_a_name_that_is_held(bench):
    """Also where its plugin comes first."""
    tools = []
    kit = await bench(plugin("one", provide_tools=lambda: tools), plugin("two", look), faults=True)
    tools.append(other)
    kit.session.tools_changed()
    assert (await kit.call("look")).text == "seen"
    assert [event.plugin for event in kit.of(PluginFault)] == ["one"]


@pytest.mark.parametrize("order", [1, -1])
async def test_replacing_a_tool_is_declared(bench, order):
    """Whatever the order; and the original does not come back when its replacement goes."""
    crash = trio.Event()

    async def opens():
        async with trio.open_nursery() as nursery:

            async def fall():
                await crash.wait()
                raise OSError("gone")

            nursery.start_soon(fall)
            yield None
            nursery.cancel_scope.cancel()

    two = plugin("two", other, replaces=("look",), open_session=opens)
    kit = await bench(*[plugin("one", look), two][::order], faults=True)
    assert (await kit.call("look")).text == "elsewhere"
    assert not kit.faults
    crash.set()
    await kit.wait_for(PluginFault)
    kit.session.tools_changed()
    assert "look" not in kit.session.tools


# --- what went wrong is seen ----------------------------------------------------------------------


async def test_faults_from_before_the_session_are_events_of_every_session(
    bench, tmp_path, monkeypatch
):
    """What did not load or open stands in the log of each session, a resumed one's, too."""

    async def opens():
        raise OSError("no connection")
        yield

    installed(tmp_path, "hilum-broken", "broken", "1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    kit = await bench("broken", plugin("down", open_kernel=opens), faults=True)
    found = [("broken", "load", True), ("down", "open_kernel", True)]
    assert [(e.plugin, e.hook, e.switched_off) for e in kit.of(PluginFault)] == found
    async with kit.kernel.open_session(kit.workspace) as later:
        events = [event for event in later.journal.read_all() if isinstance(event, PluginFault)]
        assert [(e.plugin, e.hook, e.switched_off) for e in events] == found
        identity = later.id
    async with kit.kernel.open_session(resume=identity) as resumed:
        events = [event for event in resumed.journal.read_all() if isinstance(event, PluginFault)]
        assert [e.plugin for e in events if e.seq > resumed.began_at] == ["broken", "down"]


async def test_nothing_runs_before_the_crash_of_a_kernel_instance_is_known(bench):
    """A plugin that is off in the kernel is off in the sessions that are open, gates included."""
    kit = await bench(
        plugin("keeper", on_tool_call=lambda: None), plugin("tools", look), faults=True
    )
    assert (await kit.call("look")).text == "seen"
    kit.kernel.crashed("keeper", OSError("gone"))
    assert (await kit.call("look")).code == E_DENIED
    assert len(kit.of(CallStarted)) == 1


@pytest.mark.parametrize("moment", ["while the session opens", "between two instances"])
async def test_a_kernel_instance_that_crashes_while_a_session_opens_closes_its_gate(bench, moment):
    """The session that is opening is off the plugin as one that is open: no call runs in it, and it
    says why.
    """
    kit = await bench(plugin("tools", look))
    crash, opening = trio.Event(), trio.Event()

    async def keeper_kernel():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            yield

    async def fail():
        await crash.wait()
        raise OSError("gone")

    async def keeper_session():
        yield None

    async def slow_session(session):
        crash.set()
        while kernel.host.plugins["keeper"].state == "ready":
            await trio.lowlevel.checkpoint()
        opening.set()
        yield

    keeper = plugin(
        "keeper", open_kernel=keeper_kernel, open_session=keeper_session, on_tool_call=lambda: None
    )
    slow = plugin(
        "slow", open_session=slow_session, gates=("wrap_process",), wrap_process=lambda: None
    )
    plugins = [slow, keeper] if moment == "while the session opens" else [keeper, slow]
    async with (
        open_kernel([*plugins, plugin("tools", look)], environ={}) as kernel,
        kernel.open_session(kit.workspace) as session,
    ):
        assert opening.is_set()
        assert "'keeper' guards tool calls and is not working" in session.hooks.refusal()
        faults = [event for event in session.journal.read_all() if isinstance(event, PluginFault)]
        assert {(fault.plugin, fault.switched_off) for fault in faults} == {("keeper", True)}
    assert kernel.sessions == {}


CLASSES = (BaseException, type("Odd", (BaseException,), {}), asyncio.CancelledError)


@pytest.mark.parametrize("kind", CLASSES)
async def test_a_class_of_exception_that_is_not_an_error_ends_no_run(bench, kind):
    """A tool and a hook that raise one are at fault; the run goes on."""

    @tool(risk="read")
    async def fall() -> str:
        """Fall."""
        raise kind("fell")

    def remind():
        raise kind("fell")

    kit = await bench(
        plugin("tools", fall),
        plugin("other", remind=remind),
        answers=[use("fall"), "done"],
        faults=True,
    )
    assert (await kit.run("x")).state == "completed"
    assert kit.result("fall").code == "E_PLUGIN"
    assert {fault.plugin for fault in kit.of(PluginFault)} == {"tools", "other"}
