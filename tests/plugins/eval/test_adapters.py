"""Other agents: run by their command lines, confined, and counted by their requests."""

import os
import shlex
import sys
from functools import partial
from pathlib import Path

import attrs
import msgspec
import pytest
from eval_cases import write_suite_case
from hilum import UsageError
from hilum.messages import AssistantMessage, Text, ToolCall, Usage
from hilum_eval.agents.abilities import find_missing_ability
from hilum_eval.agents.agent import Surroundings
from hilum_eval.agents.command_kinds import find_kind
from hilum_eval.agents.command_template import expand
from hilum_eval.agents.finding import find_agent
from hilum_eval.agents.meter import Meter
from hilum_eval.arm import Arm
from hilum_eval.arm_reader import check_arm, read_arm
from hilum_eval.call_counts import count_calls
from hilum_eval.case import Edit, OpenFile, Read, Run, Say, Turn
from hilum_eval.case_reader import read_case
from hilum_eval.workspaces import Place, make_environ
from hilum_replay import Answer, WireRequest, serve

pytestmark = pytest.mark.slow(cases=6, of="file")

SCRIPT = Path(__file__).parents[2] / "support" / "shell_agent.py"
AGENT = f"{sys.executable} {SCRIPT} {{base_url}} {{model}} {{prompt_file}}"
ARM = Arm(name="other", profile="perfect", agent=AGENT)
MINI_PYTHON = Path(__file__).parents[3] / ".ci" / "mini-swe-agent" / "bin" / "python"


def make_place(tmp_path: Path, case: Path) -> Surroundings:
    place = Place(tmp_path / "attempt")
    place.workspace.mkdir(parents=True)
    place.create()
    for path in (case / "files").iterdir():
        (place.workspace / path.name).write_bytes(path.read_bytes())
    return Surroundings(
        workspace=place.workspace,
        home=place.home,
        scratch=place.scratch,
        prompts=place.prompts,
        record=place.record,
        environ=make_environ(ARM, place),
    )


async def attempt(tmp_path, arm=ARM, **changes):
    folder = write_suite_case(tmp_path / "suite")
    surroundings = make_place(tmp_path, folder)
    case = attrs.evolve(read_case(folder), **changes)
    found = await find_agent(arm.agent).attempt(case, arm, 0, surroundings)
    return attrs.evolve(found, usage=count_calls(found)), surroundings


async def test_an_agent_solves_a_case_with_its_own_tool(tmp_path):
    found, surroundings = await attempt(tmp_path)
    assert found.reason == ""
    assert "def plus" in (surroundings.workspace / "calc.py").read_text()
    assert found.answer == "Done."
    usage = found.usage
    assert [usage.turns, usage.calls, usage.failed_calls, usage.wasted_calls] == [3, 2, 0, 0]
    assert [call.writes for call in found.calls] == [False, True]
    assert usage.input_tokens > 100
    assert usage.dollars is not None
    assert usage.dollars > 0


async def test_several_prompts_continue_the_conversation(tmp_path):
    arm = attrs.evolve(ARM, agent=f"{AGENT} history.json", resume=f"{AGENT} history.json")
    turns = (
        Turn(prompt="Show calc.py.", steps=(Read(path="calc.py"), Say(text="Shown."))),
        Turn(
            prompt="Rename add to plus.",
            steps=(Edit(path="calc.py", old="def add", new="def plus"), Say(text="Renamed.")),
        ),
    )
    found, _ = await attempt(tmp_path, arm, turns=turns)
    assert found.answers == ("Shown.", "Renamed.")
    # The second conversation has seen the file.
    assert [call.prompt for call in found.calls] == [1, 2]


async def test_an_agent_cannot_write_outside_its_folders(tmp_path):
    target = tmp_path / "outside.txt"
    command = f"echo x > {target}; echo x > {Path(sys.prefix) / 'written-by-a-test'}"
    steps = (Run(command=command, fails=True), Say(text="Done."))
    found, _ = await attempt(tmp_path, turns=(Turn(prompt="Write outside.", steps=steps),))
    assert not target.exists()
    assert found.calls[0].code
    assert "Read-only" in found.calls[0].text


async def test_an_agent_that_hangs_ends_with_all_its_processes(tmp_path):
    mark = tmp_path / "attempt" / "scratch" / "pid"
    command = f"sleep 1000 & echo $! > {mark}; sleep 1000"
    steps = (Run(command=command), Say(text="Done."))
    found, _ = await attempt(
        tmp_path,
        attrs.evolve(ARM, settings={"sandbox": False}),
        turns=(Turn(prompt="Wait.", steps=steps),),
        timeout=4.0,
    )
    assert found.code == "E_TIMEOUT"
    assert found.usage.turns == 1
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


async def test_an_agent_that_never_asks_the_model_says_nothing(tmp_path):
    found, _ = await attempt(tmp_path, attrs.evolve(ARM, agent="false {prompt}"))
    assert found.broken
    assert "exit code 1" in found.reason
    arm = attrs.evolve(ARM, agent="no-such-program-anywhere {prompt}", settings={"sandbox": False})
    case = read_case(tmp_path / "suite" / "x01")
    surroundings = make_place(tmp_path / "second", case.folder)
    with pytest.raises(BaseException) as raised:
        await find_agent(arm.agent).attempt(case, arm, 0, surroundings)
    assert "no-such-program-anywhere" in repr(raised.value)


async def test_requests_go_to_a_live_model_with_its_key_kept_back(tmp_path):
    """The arm's model is another server, as a provider's is."""
    asked = []

    def answer(request: WireRequest) -> Answer:
        asked.append((request.headers.get("authorization"), request.tools))
        return Answer(AssistantMessage((Text("It is done.", "model"),)), Usage(input=7, output=3))

    async with serve(answer) as server:
        folder = write_suite_case(tmp_path / "suite")
        surroundings = make_place(tmp_path, folder)
        table = {"far": {"base_url": f"{server.url}/v1", "api": "chat", "key_env": "FAR_KEY"}}
        environ = {**surroundings.environ, "FAR_KEY": "secret-key"}
        surroundings = attrs.evolve(surroundings, models={"providers": table}, environ=environ)
        arm = attrs.evolve(ARM, model="far/big", agent=f"sh -c 'env > env.txt; exec {AGENT}'")
        found = await find_agent(arm.agent).attempt(read_case(folder), arm, 0, surroundings)
    assert found.answer == "It is done."
    assert [found.usage.turns, found.usage.input_tokens, found.usage.output_tokens] == [1, 7, 3]
    assert asked == [("Bearer secret-key", ("shell",))]
    variables = (surroundings.workspace / "env.txt").read_text()
    assert "OPENAI_BASE_URL" in variables
    assert "secret-key" not in variables


def request(*messages):
    tool = {"type": "function", "function": {"name": "bash", "parameters": {
        "type": "object", "properties": {"command": {"type": "string"}}}}}  # fmt: skip
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "Go."}, *messages],
        "tools": [tool],
    }
    return WireRequest("chat", "/v1/chat/completions", {}, msgspec.json.encode(body))


def result(identity, code, output):
    text = f'{{"returncode": {code}, "output": "{output}"}}'
    return {"role": "tool", "tool_call_id": identity, "content": text}


async def count(tmp_path, commands, results):
    """Return the transcript of commands that a model gave one after another."""
    calls = iter(commands)

    def answer(_):
        command = next(calls, None)
        if command is None:
            return Answer(AssistantMessage((Text("End.", "model"),)))
        number = commands.index(command)
        arguments = (
            command
            if command.startswith("{")
            else msgspec.json.encode({"command": command}).decode()
        )
        return Answer(AssistantMessage((ToolCall(f"c{number}", "bash", arguments),), stop="calls"))

    meter = Meter(answer, tmp_path)
    meter.begin_prompt()
    seen = []
    await meter.answer(request())
    for each in results:
        if each is not None:
            seen.append(each)
        await meter.answer(request(*seen))
    meter.end_prompt()
    return meter.make_transcript()


async def test_failures_get_the_codes_that_hilum_has(tmp_path):
    commands = [
        "cat missing.py",
        "python3 - <<'EOF'\nopen('a.py', 'w').write(1)\nEOF",
        "pytest -q",
        "grep -n nothing a.py",
        "{broken",
        "true",
    ]
    results = [
        result("c0", 1, "cat: missing.py: No such file or directory"),
        result("c1", 1, "AssertionError: old text occurs 0 times in a.py"),
        result("c2", 1, "1 failed"),
        result("c3", 1, ""),
        None,  # the program did not accept the call
        result("c5", 0, ""),
    ]
    found = await count(tmp_path, commands, results)
    codes = [call.code for call in found.calls]
    assert codes == ["E_FILE_NOT_FOUND", "E_NOT_FOUND", "E_CMD_FAIL", "", "E_BAD_ARGS", ""]
    # The failing test is information.
    assert count_calls(found).wasted_calls == 3


async def test_the_call_that_ends_the_work_is_no_work(tmp_path):
    found = await count(tmp_path, ["ls", "echo DONE"], [result("c0", 0, "a.py")])
    assert [call.arguments["command"] for call in found.calls] == ["ls"]


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("cat a.py", "read"),
        ("cd src && sed -n '1,20p' a.py", "read"),
        ("nl -ba a.py | sed -n 1,5p", "read"),
        ("grep -rn x .", "search"),
        ("sed -i 's/a/b/' a.py", "edit"),
        ("cat <<'EOF' > a.py\nx\nEOF", "edit"),
        ("cat > a.py <<EOF\nEOF", "edit"),
        ('python3 -c \'open("a", "w").write("b")\'', "edit"),
        ("echo x > a.py", "edit"),
        ("echo x", "run"),
        ("python3 -m pytest", "run"),
        ("category --list", "run"),
        ("export A=1", "run"),
        ("", "run"),
    ],
)
def test_the_purpose_of_a_command(command, kind):
    assert find_kind(command) == kind


def test_values_of_placeholders_stay_one_argument():
    values = {"prompt": "a 'b'; rm -rf {workspace} $(x)", "workspace": "/w"}
    assert expand("agent -p {prompt} --dir={workspace}", values) == (
        "agent",
        "-p",
        "a 'b'; rm -rf {workspace} $(x)",
        "--dir=/w",
    )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"agent": "aider"}, "neither 'hilum' nor 'mini-swe-agent'"),
        ({"agent": "aider {promt} {prompt}"}, "{promt} is not one of"),
        ({"agent": "aider '{prompt}"}, "is no command line"),
        ({"agent": "aider {prompt}", "plugins": ("x",)}, "only the agent 'hilum' has plugins"),
        ({"agent": "mini-swe-agent", "settings": {"pyton": "x"}}, "settings.pyton"),
        ({"agent": "mini-swe-agent", "resume": "x {prompt}"}, "resume"),
        ({"resume": "x {prompt}"}, "resume"),
    ],
)
def test_mistakes_in_arms_are_named(changes, problem):
    with pytest.raises(UsageError) as raised:
        check_arm(Arm(name="a", **changes), "a.toml")
    assert problem in raised.value.message


def test_paths_of_settings_are_relative_to_the_file(tmp_path):
    path = tmp_path / "mini.toml"
    path.write_text("agent = 'mini-swe-agent'\nsettings = { python = 'mini/bin/python' }\n")
    assert read_arm(path).settings == {"python": str(tmp_path / "mini" / "bin" / "python")}


def test_cases_that_an_agent_cannot_do_are_not_counted(tmp_path):
    case = read_case(write_suite_case(tmp_path))
    mini = Arm(name="mini", agent="mini-swe-agent")
    check = partial(find_missing_ability, sandboxed=True)
    assert check(case, mini) == ""
    assert "approvals" in check(attrs.evolve(case, approve="ask_first"), mini)
    assert "editor" in check(attrs.evolve(case, open_files=(OpenFile(path="a"),)), mini)
    several = attrs.evolve(case, turns=case.turns * 2)
    assert check(several, mini) == ""
    assert "resume" in check(several, ARM)
    gate = attrs.evolve(case, gate=True)
    assert check(gate, mini) == ""
    assert "bubblewrap" in find_missing_ability(gate, mini, sandboxed=False)
    assert check(attrs.evolve(gate, approve="ask_first"), Arm(name="hilum")) == ""


@pytest.mark.slow(cases=1)  # of its own, so that it is never left out of the file's sample
@pytest.mark.skipif(
    not MINI_PYTHON.exists(), reason=f"mini-swe-agent is not at {shlex.quote('.ci')}"
)
async def test_the_loop_of_mini_swe_agent(tmp_path):
    arm = Arm(
        name="mini",
        agent="mini-swe-agent",
        profile="perfect",
        settings={"python": str(MINI_PYTHON)},
    )
    turns = (
        Turn(prompt="Show calc.py.", steps=(Read(path="calc.py"), Say(text="Shown."))),
        Turn(
            prompt="Rename add to plus.",
            steps=(Edit(path="calc.py", old="def add", new="def plus"), Say(text="Renamed.")),
        ),
    )
    found, surroundings = await attempt(tmp_path, arm, turns=turns)
    assert found.reason == ""
    assert found.answers == ("Shown.", "Renamed.")
    assert "def plus" in (surroundings.workspace / "calc.py").read_text()
    # The commands that submit are no work.
    assert [found.usage.turns, found.usage.calls, found.usage.failed_calls] == [4, 2, 0]


async def test_mini_swe_agent_that_is_missing_is_named(tmp_path):
    arm = Arm(name="mini", agent="mini-swe-agent", profile="perfect")
    if MINI_PYTHON.exists() and str(MINI_PYTHON) == sys.executable:
        pytest.skip("mini-swe-agent is installed here")
    found, _ = await attempt(tmp_path, arm)
    assert found.broken
    assert "mini-swe-agent is not installed" in found.reason
