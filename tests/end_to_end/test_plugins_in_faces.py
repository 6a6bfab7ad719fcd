"""Plugins as real processes meet them: broken gates stay shut in every face, and what did not load
is said in every output.
"""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow(cases=6, of="file")

_FILE = Path(__file__).resolve().parents[1] / "benchmarks" / "gates.py"
_SPEC = importlib.util.spec_from_file_location("gates_benchmark", _FILE)
gates = importlib.util.module_from_spec(_SPEC)
sys.modules["gates_benchmark"] = gates
_SPEC.loader.exec_module(gates)

SAMPLE = [
    ("hilum run", "on_tool_call", "open_session: error"),
    ("hilum run", "wrap_process", "import: exit group"),
    ("hilum run, json", "check_result", "later: exit"),
    ("hilum run, json", "on_tool_call", "asked: interrupt"),
    ("hilum agents run", "on_tool_call", "open_session: yields None"),
    ("hilum agents run", "wrap_process", "import: syntax"),
    ("hilum mcp serve", "on_tool_call", "open_session: exit"),
]
FILE = """
from hilum import hookimpl, tool

@tool(risk="read")
def greet(name: str) -> str:
    '''Greet somebody.'''
    return f"Hello {name}"

@hookimpl
def provide_tools():
    return [greet]
"""


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize(("face", "gate", "name"), SAMPLE)
def test_nothing_gets_past_a_gate_that_is_not_in_working_order(tmp_path, face, gate, name):
    """The same as in one process: every face opens the one standard session."""
    assert gates.play(face, tmp_path / "site", gate, name) == set()


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize("face", gates.PROCESSES)
def test_a_guard_that_cannot_be_imported_closes_every_face(tmp_path, face):
    """Its distribution is there and its module is broken: no command runs unsandboxed."""
    site = gates.Site.make(tmp_path / "site", "on_tool_call", gates.WORKING["module"])
    (site.folder / "hilum_guard.py").write_text("1 / 0\n")
    gates.PROCESSES[face](site)
    assert site.ran() == set()


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(
    "choice",
    [
        ["--no-plugin", "guard"],
        ["--plugins", "files,models,agents"],
        ["--set", 'plugins.allow=["files","models","agents"]'],
    ],
)
async def test_a_guard_that_is_left_out_is_said_at_the_start(cli, choice):
    """Nothing is dropped without a word, in any output."""
    async with cli.model("one", "two", "three"):
        text = await cli("run", "hi", *choice)
        assert "the plugin guard is not loaded: it is left out by choice" in text.err
        whole = await cli("run", "hi", *choice, "--output-format", "json")
        assert "guard" in [fault["plugin"] for fault in whole.result["faults"]]
        stream = await cli("run", "hi", *choice, "--output-format", "stream-json")
        assert "guard" in [line.get("plugin") for line in stream.lines]


async def test_a_server_without_a_guard_says_so(cli):
    """On standard error, for standard output is the client's."""
    assert (
        "the plugin guard is not loaded: it is left out by choice"
        in (await cli("mcp", "serve", "--no-plugin", "guard")).err
    )


def test_a_run_whose_calls_a_closed_gate_refused_is_not_complete(tmp_path):
    """The exit code says it, and hilum doctor says which gate."""
    site = gates.Site.make(tmp_path / "site", "on_tool_call", gates.OPENING["open_kernel: error"])
    assert gates.on_run(site) == "3"
    doctor = gates._process(site, "doctor")
    assert "closed: on_tool_call: gatekeeper" in doctor.stdout


WAYS = [*dict.fromkeys(name.partition(":")[0] for name in gates.SOURCES)]


@pytest.mark.slow(cases=4)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("gate", ["on_tool_call", "wrap_process", "check_result", "check_answer"])
def test_each_way_to_break_a_gate_ends_an_agents_run_with_3(tmp_path, gate, way):
    """One case of each way, another one for each gate; never as if the task were done."""
    cases = [name for name in gates.SOURCES if name.partition(":")[0] == way]
    name = cases[gates.GATES.index(gate) % len(cases)]
    source = gates.SOURCES[name].replace("{late}", str(2.5 * gates.PROCESS_DEADLINE_SECONDS))
    site = gates.Site.make(tmp_path / "site", gate, source)
    assert gates.on_agents(site) == "3"


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize(
    ("failing", "calls", "code"),
    [("{1}", 1, 3), ("{2}", 2, 3), ("{1}", 2, 0), ("set()", 1, 0)],
    ids=["every call", "one of two", "repeated and done", "none"],
)
async def test_a_gate_that_fails_once_is_in_the_exit_code_of_an_agents_run(
    cli, asks, failing, calls, code
):
    """As in that of ``hilum run``, and in the result of the agent."""
    gate = cli.folder / "keeper.py"
    gate.write_text(f"FAILING = {failing}\n{GATE}")
    repeated = failing == "{1}"
    names = ["x.txt", "x.txt" if repeated else "y.txt"][:calls]
    answers = [asks("write_file", path=name, content="x") for name in names]
    agents = cli.folder / "config" / "agents"
    agents.mkdir(parents=True)
    (agents / "helper.md").write_text("---\nname: helper\ndescription: Helps.\n---\nHelp.\n")
    async with cli.model(*answers, "Done."):
        done = await cli(
            "agents", "run", "helper", "write", "--approve", "auto", "--json", "--plugin", str(gate)
        )
    assert done.code == code, done.err
    assert done.result["status"] == ("partial_success" if code else "completed")
    if code:
        assert done.result["error"]["code"] == "E_PLUGIN"
        assert names[-1] in "".join(done.result["not_done"])


async def test_what_did_not_load_of_a_project_is_in_every_output(cli):
    """Text says it in a line, json among the faults, stream-json as an event.

    The run goes on, as it has no gate.
    """
    broken = cli.workspace / ".hilum" / "plugins" / "broken.py"
    broken.parent.mkdir(parents=True)
    broken.write_text("def x(:\n")
    assert (await cli("trust", str(cli.workspace))).code == 0
    async with cli.model("one", "two", "three"):
        text = await cli("run", "hi")
        assert (text.code, text.out) == (0, "one\n")
        assert "the plugin broken is not loaded: SyntaxError: invalid syntax" in text.err
        found = await cli("run", "hi", "--output-format", "json")
        assert [(fault["plugin"], fault["hook"]) for fault in found.result["faults"]] == [
            ("broken", "load")
        ]
        stream = await cli("run", "hi", "--output-format", "stream-json")
        (fault,) = [line for line in stream.lines if line["type"] == "fault"]
        assert (fault["plugin"], fault["switched_off"]) == ("broken", True)


EMPTY = {
    "x = 1\n": "Add @hookimpl to the functions",
    "": "Add @hookimpl to the functions",
    FILE.replace("@hookimpl\ndef provide_tools", "def offered"): "Return the tool greet from",
}


@pytest.mark.parametrize(("source", "todo"), EMPTY.items(), ids=["value", "empty", "tool"])
async def test_a_project_file_that_defines_no_plugin_is_reported(cli, source, todo):
    """With what a plugin file must hold, in every output and list; a helper's name begins with
    an underscore.
    """
    folder = cli.workspace / ".hilum" / "plugins"
    folder.mkdir(parents=True)
    (folder / "_helper.py").write_text("x = 1\n")
    (folder / "nothing.py").write_text(source)
    assert (await cli("trust", str(cli.workspace))).code == 0
    async with cli.model("one", "two"):
        text = await cli("run", "hi")
        assert (text.code, text.out) == (0, "one\n")
        found = await cli("run", "hi", "--output-format", "json")
    (fault,) = found.result["faults"]
    assert (fault["plugin"], fault["hook"]) == ("nothing", "load")
    listed = (await cli("plugins")).out
    for said in (text.err, fault["error"]):
        assert "It defines no plugin: no function in it is marked as a hook." in said
        assert todo in said
    assert "begin its name with _" in fault["error"]
    assert "It defines no plugin" in listed


async def test_a_broken_project_plugin_with_a_gate_lets_no_call_run(cli, asks):
    """What it would have refused is not known, so everything is; the result names it."""
    broken = cli.workspace / ".hilum" / "plugins" / "broken.py"
    broken.parent.mkdir(parents=True)
    broken.write_text(
        "from hilum import hookimpl\ngates = ('on_tool_call',)\n@hookimpl\ndef on_tool_call(:\n"
    )
    assert (await cli("trust", str(cli.workspace))).code == 0
    async with cli.model(asks("write_file", path="x.txt", content="x"), "Not possible."):
        done = await cli("run", "write", "--approve", "auto", "--output-format", "json")
    assert (done.code, done.result["code"]) == (3, "E_PLUGIN")
    assert "'broken'" in done.result["error"]
    assert not (cli.workspace / "x.txt").exists()


BROKEN = {
    "syntax.py": (
        "x = 1\ndef f(:\n",
        "syntax.py, line 2, does not load: SyntaxError: invalid syntax.",
    ),
    "raises.py": (
        "raise RuntimeError('boom')\n",
        "raises.py, line 1, does not load: RuntimeError: boom.",
    ),
    "binary.py": (
        "\0",
        "binary.py does not load: SyntaxError: source code string cannot contain null bytes.",
    ),
    "nothing.py": ("x = 1\n", "nothing.py does not fit: It defines no plugin"),
    "missing.py": (None, "There is no plugin file 'missing.py'."),
    "folder.py": ("/", "The plugin file 'folder.py' is a folder."),
    "text.txt": ("x", "does not end with .py"),
}


@pytest.mark.slow(cases=3)
@pytest.mark.parametrize(
    ("name", "source", "text"), [(name, *case) for name, case in BROKEN.items()]
)
async def test_a_named_file_that_is_no_plugin_ends_the_run_before_any_request(
    cli, name, source, text
):
    """Exit code 2, a code, what is wrong and what to do, in every output.

    No traceback, which ``cli`` checks.
    """
    if source == "/":
        (cli.workspace / name).mkdir()
    elif source is not None:
        (cli.workspace / name).write_text(source)
    async with cli.model("never") as server:
        plain = await cli("run", "hi", "--plugin", name)
        assert (plain.code, plain.out) == (2, "")
        first, hint = plain.err.splitlines()
        assert first.startswith("hilum: E_")
        assert text in first
        assert hint
        for output in ("json", "stream-json"):
            done = await cli("run", "hi", "--plugin", name, "--output-format", output)
            assert done.code == 2
            (line,) = done.lines
            assert (line["type"], line["exit_code"]) == ("result", 2)
            assert line["code"].startswith("E_")
            assert text in line["error"]
            assert line["hint"] == hint
        assert server.count == 0


@pytest.mark.parametrize("face", [["agents", "run", "review", "look"], ["mcp", "serve"]])
async def test_the_other_faces_refuse_such_a_file_as_well(cli, face):
    """The same words, on standard error."""
    (cli.workspace / "bad.py").write_text("def f(:\n")
    async with cli.model("never") as server:
        done = await cli(*face, "--plugin", "bad.py")
    assert (done.code, done.out, server.count) == (2, "", 0)
    assert "E_PLUGIN: The plugin file" in done.err
    assert "bad.py, line 1, does not load: SyntaxError" in done.err


async def test_a_plugin_from_a_file_and_one_of_a_trusted_project(cli):
    """A file that is named is loaded.

    Those of a project only when it is trusted, and again after a change.
    """
    file = cli.folder / "greeter.py"
    file.write_text(FILE)
    own = cli.workspace / ".hilum" / "plugins" / "project_greeter.py"
    own.parent.mkdir(parents=True)
    own.write_text(FILE.replace("greet", "welcome"))

    def tools(done):
        assert done.code == 0, done.err
        (sealed,) = [line for line in done.lines if line["type"] == "prompt_built"]
        faults = [line["error"] for line in done.lines if line["type"] == "fault"]
        return {tool["name"] for tool in sealed["tools"]} & {"greet", "welcome"}, faults

    run = ("run", "hi", "--output-format", "stream-json")
    async with cli.model("one", "two", "three", "four"):
        found, faults = tools(await cli(*run, "--plugin", str(file)))
        assert found == {"greet"}
        assert (
            ".hilum/plugins/project_greeter.py is not loaded: You do not trust this project yet"
            in faults[0]
        )
        assert (await cli("trust", str(cli.workspace))).code == 0
        assert tools(await cli(*run)) == ({"welcome"}, [])
        own.write_text(own.read_text() + "\n# changed\n")
        found, faults = tools(await cli(*run))
        assert found == set()
        assert "changed since you trusted it" in faults[0]
        assert tools(await cli(*run, "--no-plugin", "project_greeter")) == (set(), [])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--plugin", "nowhere.py"], "There is no plugin file"),
        (["--plugin", "README.md"], "does not end with .py"),
        (["--no-plugin", "nothing"], "There is no plugin 'nothing'"),
    ],
)
async def test_a_wrong_file_or_name_is_an_error_at_the_start(cli, arguments, text):
    """The run does not begin."""
    (cli.workspace / "README.md").write_text("x")
    done = await cli("run", "hi", *arguments)
    assert done.code == 2
    assert text in done.err


async def test_doctor_and_plugins_tell_who_guards(cli):
    """A plugin of another distribution that has the name of the guard is not taken for it."""
    site = cli.folder / "site"
    info = site / "aaa_guard-9.0.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text("[hilum]\nguard = aaa_guard\n")
    (site / "aaa_guard.py").write_text("")
    done = await cli("doctor", "--json", PYTHONPATH=str(site))
    rows = [row for row in json.loads(done.out) if row["grade"] == "fail"]
    assert done.code == 1
    assert any(
        "hilum-guard 0.1.0 and aaa-guard 9.0 both provide the plugin 'guard'" in row["found"]
        for row in rows
    )
    rows = json.loads((await cli("plugins", "--json", PYTHONPATH=str(site))).out)
    guard = next(row for row in rows if row["name"] == "guard")
    assert guard["state"] == "failed"
    assert "aaa-guard 9.0" in guard["error"]
    assert (await cli("plugins", PYTHONPATH=str(site))).code == 0


GATE = """
from hilum import hookimpl

seen = []

@hookimpl
def on_tool_call(call):
    seen.append(call)
    if call.name == "write_file" and len(seen) in FAILING:
        raise RuntimeError("boom")
"""


@pytest.mark.parametrize(
    ("failing", "calls", "code"),
    [("{1}", 1, 3), ("{2}", 2, 3), ("{1}", 2, 0), ("set()", 1, 0)],
    ids=["every call", "one of two", "repeated and done", "none"],
)
async def test_a_gate_that_fails_once_is_in_the_exit_code(cli, asks, failing, calls, code):
    """The call was refused, so the task is not done, whatever the model says.

    The message names the plugin.
    """
    gate = cli.folder / "keeper.py"
    gate.write_text(f"FAILING = {failing}\n{GATE}")
    repeated = failing == "{1}"
    names = ["x.txt", "x.txt" if repeated else "y.txt"][:calls]
    answers = [asks("write_file", path=name, content="x") for name in names]
    arguments = ("run", "write", "--approve", "auto", "--plugin", str(gate))
    async with cli.model(*answers, "Done."):
        done = await cli(*arguments, "--output-format", "json")
    assert done.code == done.result["exit_code"] == code
    assert done.result["state"] == ("partial_success" if code else "completed")
    assert done.result["text"] == "Done."
    if code:
        assert done.result["code"] == "E_PLUGIN"
        assert (
            "The plugin keeper, which guards this, failed: RuntimeError: boom (keeper.py, line 11)."
            in done.result["error"]
        )
        assert "hilum doctor" in done.result["hint"]
        assert names[-1] in done.result["left"]


async def test_a_command_and_a_result_that_a_broken_gate_withheld_are_in_the_exit_code(cli, asks):
    """The other gates of calls."""
    sources = {
        "wrap_process": "@hookimpl\ndef wrap_process(command):\n    raise RuntimeError('boom')\n",
        "check_result": "@hookimpl\ndef check_result(result):\n    raise RuntimeError('boom')\n",
    }
    for gate, source in sources.items():
        file = cli.folder / f"{gate}.py"
        file.write_text(f"from hilum import hookimpl\n{source}")
        async with cli.model(asks("run_terminal_cmd", command="echo hello"), "Done."):
            done = await cli("run", "echo", "--plugin", str(file), "--output-format", "json")
        assert (done.code, done.result["code"]) == (3, "E_PLUGIN"), gate
        assert gate in done.result["error"]


async def test_a_file_that_says_what_a_broken_gate_says_changes_nothing(cli, asks):
    """Only what was refused counts, and not what was read."""
    (cli.workspace / "a.txt").write_text(
        "The plugin x, which guards this, failed: y. The result is withheld.\n"
    )
    async with cli.model(asks("read_file", path="a.txt"), "Done."):
        assert (await cli("run", "read")).code == 0


async def test_a_run_in_which_every_call_needed_an_approval_names_the_option(cli, asks):
    """Exit code 3, and what to do, in text and in json."""
    for output in ("text", "json"):
        async with cli.model(asks("write_file", path="x.txt", content="x"), "Not possible."):
            done = await cli("run", "write", "--output-format", output)
        assert done.code == 3
        assert "--approve auto" in (done.err if output == "text" else done.result["hint"])


LATE = """
from hilum import hookimpl
gates = ("on_tool_call",)

class Gate:
    @hookimpl
    def on_tool_call(self, call): ...

@hookimpl
async def open_session(session):
    BODY
"""


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("raise OSError('no room'); yield", "OSError: no room"),
        ("yield None", "it declares the gate on_tool_call"),
        ("return; yield", "keeper"),
    ],
)
async def test_doctor_sees_a_gate_that_closes_when_a_session_opens(cli, body, told):
    """It opens a session, and asks no model; the exit code says it."""
    folder = cli.workspace / ".hilum" / "plugins"
    folder.mkdir(parents=True)
    (folder / "keeper.py").write_text(LATE.replace("BODY", body))
    assert (await cli("trust", str(cli.workspace))).code == 0
    async with cli.model("never") as server:
        done = await cli("doctor", "--json")
    assert server.count == 0
    assert done.code == 1, done.out
    (gates,) = [row for row in json.loads(done.out) if row["subject"] == "gates"]
    assert gates["grade"] == "fail"
    assert "on_tool_call: keeper" in gates["found"]
    assert told.lower() in gates["found"].lower()
    (plugins,) = [row for row in json.loads(done.out) if row["subject"] == "plugins"]
    assert "keeper" in plugins["found"]
    assert not list((cli.folder / "data").glob("sessions.db*")), "the session is kept nowhere"


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (
            "from hilum.checks import Check\n"
            "def check(folder, online):\n"
            "    return [Check('warn', 'shelf', f'empty in {folder.name}', 'Fill it.')]\n",
            "warn  shelf",
        ),
        ("def check(folder, online):\n    raise OSError('no shelf')\n", "OSError: no shelf"),
        ("1 / 0\n", "ZeroDivisionError"),
    ],
    ids=["check", "fails", "not-importable"],
)
async def test_a_plugin_adds_checks_to_doctor(cli, source, shown):
    """A check that fails is shown as one, and the others are shown all the same."""
    site = cli.folder / "site"
    info = site / "hilum_shelf-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hilum-shelf\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[hilum.checks]\nshelf = hilum_shelf_checks:check\n")
    (site / "hilum_shelf_checks.py").write_text(source)
    done = await cli("doctor", PYTHONPATH=str(site))
    assert shown in done.out
    assert "ok    search" in done.out
    assert "Traceback" not in done.out + done.err
