"""The simulated model: the same request gets the same answer, and nothing else decides."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from hilum import UsageError
from hilum.messages import ToolCall
from hilum_eval.case import Case, Edit, Read, Say, Step, Write
from hilum_eval.simulation.draws import Draws
from hilum_eval.simulation.model import make_answerer
from hilum_eval.simulation.plan import plan_turn
from hilum_eval.simulation.profile import BUILTIN, Profile, SlipRates, load_profile
from hilum_replay import WireRequest
from simulated_agent import (
    APP,
    CHECK,
    EDIT,
    FILE_TOOLS,
    READ,
    SAY,
    SHELL_TOOLS,
    STEPS,
    SmallAgent,
    make_case,
)

pytestmark = pytest.mark.slow(cases=18, of="file")

ROUNDED = APP.replace("total = amount * rate", "total = round(amount * rate, 2)")


def make_agent(case: Case, tmp_path: Path, **options: Any) -> SmallAgent:
    workspace = tmp_path / "workspace"
    shutil.rmtree(workspace, ignore_errors=True)
    shutil.copytree(case.folder / "files", workspace)
    return SmallAgent(workspace, **options)


def prices(agent: SmallAgent) -> str:
    return (agent.workspace / "shop" / "prices.py").read_text()


def write_profile(tmp_path: Path, slips: str, recovery: str = "plain = [1.0]") -> str:
    path = tmp_path / "profile.toml"
    path.write_text(f"[slips]\n{slips}\n[recovery]\n{recovery}\n")
    return str(path)


@pytest.mark.parametrize("tools", [FILE_TOOLS, SHELL_TOOLS], ids=["files", "shell"])
def test_the_perfect_model_makes_each_step_once(tmp_path: Path, tools: Any) -> None:
    case = make_case(tmp_path / "case", STEPS)
    agent = make_agent(case, tmp_path, tools=tools)
    answer = agent.run(make_answerer(case, "perfect", 0), case.turns[0].prompt)
    assert answer == "price rounds now."
    assert len(agent.calls) == 4
    assert prices(agent) == ROUNDED


@pytest.mark.parametrize("profile", BUILTIN)
def test_answers_depend_only_on_the_request(tmp_path: Path, profile: str) -> None:
    """A new model, and a model that has seen other requests before, answer in the same way."""
    case = make_case(tmp_path / "case", STEPS, STEPS[:2])
    agent = make_agent(case, tmp_path)
    requests: list[WireRequest] = []
    model = make_answerer(case, profile, 7)

    def record(request: WireRequest) -> Any:
        requests.append(request)
        return model(request)

    for turn in case.turns:
        agent.run(record, turn.prompt)
    expected = [make_answerer(case, profile, 7)(each).message for each in requests]
    order = list(range(len(requests)))
    random.Random(1).shuffle(order)
    other = make_answerer(case, profile, 7)
    for index in order:
        assert other(requests[index]).message == expected[index]
        assert model(requests[index]).message == expected[index]


def test_two_agents_meet_the_same_slips(tmp_path: Path) -> None:
    """The first try of each step is wrong for both agents, or for neither."""
    case = make_case(tmp_path / "case", STEPS)
    profile = write_profile(tmp_path, "edit = 0.3\narguments = 0.2\npath = 0.2")
    for seed in range(6):
        slipped = []
        for tools in (FILE_TOOLS, SHELL_TOOLS):
            agent = make_agent(case, tmp_path, tools=tools)
            agent.run(make_answerer(case, profile, seed), case.turns[0].prompt)
            ids = []
            for message in agent.messages:
                for call in message.get("tool_calls", []):
                    ids.append(call["id"].rpartition("_")[0])
            slipped.append({each for each in ids if each.endswith("0x")})
        assert slipped[0] == slipped[1]


@pytest.mark.parametrize("profile", ["mid", "weak"])
@pytest.mark.parametrize("tools", [FILE_TOOLS, SHELL_TOOLS], ids=["files", "shell"])
def test_the_model_is_never_stuck(tmp_path: Path, profile: str, tools: Any) -> None:
    case = make_case(tmp_path / "case", STEPS)
    for seed in range(15 if tools is FILE_TOOLS else 4):
        agent = make_agent(case, tmp_path, tools=tools, limit=150)
        assert agent.run(make_answerer(case, profile, seed), case.turns[0].prompt)


def test_an_agent_whose_results_are_always_errors_ends(tmp_path: Path) -> None:
    case = make_case(tmp_path / "case", STEPS)
    for seed in range(10):
        agent = make_agent(case, tmp_path, limit=150)
        agent._call = lambda call: "Error: something went wrong"  # type: ignore[method-assign]
        assert agent.run(make_answerer(case, "weak", seed), case.turns[0].prompt)


@pytest.mark.parametrize(
    ("slip", "rate"),
    [
        ("wrong_old_string", "edit"),
        ("bad_arguments", "arguments"),
        ("wrong_path", "path"),
        ("ignored_rule", "rule"),
    ],
)
def test_slips_are_made_at_the_stated_rates(tmp_path: Path, slip: str, rate: str) -> None:
    """Also those that come last in the order in which slips are drawn."""
    case = make_case(tmp_path / "case", STEPS)
    for name in ("strong", "mid", "weak"):
        profile = load_profile(name)
        expected = getattr(profile.slips, rate)
        count = 4_000
        found = 0
        for seed in range(count):
            [planned] = plan_turn(case, profile, Draws(case.id, seed), 0)[2]
            found += planned.slip == slip
        deviation = 4 * (expected * (1 - expected) / count) ** 0.5
        assert abs(found / count - expected) <= deviation


def test_rates_that_leave_nothing_for_the_others_are_possible(tmp_path: Path) -> None:
    case = make_case(tmp_path / "case", STEPS)
    profile = Profile(slips=SlipRates(arguments=1.0, edit=1.0))
    [planned] = plan_turn(case, profile, Draws(case.id, 0), 0)[2]
    assert planned.slip == "bad_arguments"


def test_a_prescribed_slip_always_happens_first(tmp_path: Path) -> None:
    slipped = Edit(path=EDIT.path, old=EDIT.old, new=EDIT.new, slip="wrong_old_string")
    case = make_case(tmp_path / "case", (READ, slipped, CHECK, SAY))
    agent = make_agent(case, tmp_path)
    agent.run(make_answerer(case, "perfect", 0), case.turns[0].prompt)
    assert [name for name, _ in agent.calls] == [
        "view_file",
        "str_replace",
        "view_file",
        "str_replace",
        "execute",
    ]
    assert prices(agent) == ROUNDED


def test_a_guess_damages_a_file_unless_the_agent_demands_a_read(tmp_path: Path) -> None:
    case = make_case(tmp_path / "case", (READ, EDIT, SAY))
    profile = write_profile(tmp_path, "rule = 1.0")
    damaged = {True: 0, False: 0}
    for read_first in damaged:
        for seed in range(20):
            agent = make_agent(case, tmp_path, read_first=read_first)
            agent.run(make_answerer(case, profile, seed), case.turns[0].prompt)
            damaged[read_first] += prices(agent) != ROUNDED
    assert damaged[True] == 0
    assert damaged[False] > 5


def test_damage_that_a_test_shows_is_repaired(tmp_path: Path) -> None:
    import subprocess

    case = make_case(tmp_path / "case", (READ, EDIT, CHECK, SAY))
    profile = write_profile(tmp_path, "rule = 1.0", "plain = [1.0]\nrecheck = 1.0")
    for seed in range(8):
        agent = make_agent(case, tmp_path)
        commit = "git init -q && git add -A && git -c user.name=a -c user.email=a@b commit -qm x"
        subprocess.run(commit, shell=True, cwd=agent.workspace, check=True)
        agent.run(make_answerer(case, profile, seed), case.turns[0].prompt)
        assert prices(agent) == ROUNDED


def test_a_note_about_repetition_ends_loops_sooner(tmp_path: Path) -> None:
    case = make_case(tmp_path / "case", (READ, SAY))
    profile = write_profile(tmp_path, "loop = 1.0", "keep_looping = 0.9")
    counts = {}
    for notes in (False, True):
        total = 0
        for seed in range(12):
            agent = make_agent(case, tmp_path, notes=notes)
            agent.run(make_answerer(case, profile, seed), case.turns[0].prompt)
            total += len(agent.calls)
        counts[notes] = total
    assert counts[True] < 0.6 * counts[False]


def test_a_tolerant_tool_turns_a_wrong_text_into_damage(tmp_path: Path) -> None:
    case = make_case(tmp_path / "case", (READ, EDIT, SAY))
    profile = write_profile(tmp_path, "edit = 1.0")
    right = {}
    for exact in (True, False):
        right[exact] = 0
        for seed in range(20):
            agent = make_agent(case, tmp_path, exact=exact)
            agent.run(make_answerer(case, profile, seed), case.turns[0].prompt)
            right[exact] += prices(agent) == ROUNDED
    assert right[True] == 20
    assert right[False] < 15


def test_a_fact_that_is_lost_is_written_wrongly(tmp_path: Path) -> None:
    write = Write(path="port.txt", content="The port is 8417.\n")
    prompts = ("The port is 8417. Remember it.", "Write the port to port.txt.")
    case = make_case(tmp_path / "case", (SAY,), (write, SAY), prompts=prompts)
    answer = make_answerer(case, "perfect", 0)
    agent = make_agent(case, tmp_path)
    agent.run(answer, prompts[0])
    agent.run(answer, prompts[1])
    assert (agent.workspace / "port.txt").read_text() == "The port is 8417.\n"
    forgetful = make_agent(case, tmp_path)
    forgetful.run(answer, prompts[1])
    assert "8417" not in (forgetful.workspace / "port.txt").read_text()


def test_a_summary_keeps_progress_and_facts(tmp_path: Path) -> None:
    """After a compaction, the model goes on where the summary says, with the facts in it."""
    prompts = ("The rate limit is 8417. Please do the work.",)
    write = Write(path="limit.txt", content="8417\n")
    case = make_case(tmp_path / "case", (READ, EDIT, write, SAY), prompts=prompts)
    answer = make_answerer(case, "perfect", 0)
    agent = make_agent(case, tmp_path)
    agent.messages.append({"role": "user", "content": prompts[0]})
    for _ in range(3):
        message = answer(agent.make_request()).message
        agent._add(message)
        for call in message.calls:
            content = agent._call(call)
            result = {"role": "tool", "tool_call_id": call.id, "content": content}
            agent.messages.append(result)
        if len(agent.calls) == 2:
            break
    message = answer(agent.make_request()).message
    text = "\n".join(str(each["content"]) for each in agent.messages) + message.text
    body = {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Summarize.\n## Goal\n## Facts\n## Open work\n"},
            {"role": "user", "content": text},
        ],
    }
    request = WireRequest("chat", "/v1/chat/completions", {}, json.dumps(body).encode())
    summary = answer(request).message.text
    assert "8417" in summary
    assert "Request 1: 2 of 4 steps done." in summary
    agent.messages = [{"role": "user", "content": f"Summary so far:\n{summary}"}]
    agent.run(answer, "The rate limit is … Please continue.\n" + prompts[0])
    assert [name for name, _ in agent.calls] == ["view_file", "str_replace", "create_file"]
    assert (agent.workspace / "limit.txt").read_text() == "8417\n"


def test_a_refused_call_is_an_answer(tmp_path: Path) -> None:
    case = make_case(tmp_path / "case", (READ, EDIT, SAY))
    agent = make_agent(case, tmp_path)
    execute = agent._call

    def refuse(call: ToolCall) -> str:
        if call.name == "str_replace":
            agent.calls.append((call.name, call.arguments))
            return "Error: the user rejected this call."
        return execute(call)

    agent._call = refuse  # type: ignore[method-assign]
    assert agent.run(make_answerer(case, "perfect", 0), case.turns[0].prompt) == SAY.text
    assert len(agent.calls) == 2


def test_a_step_without_a_tool_for_it_is_given_up(tmp_path: Path) -> None:
    case = make_case(tmp_path / "case", STEPS)
    tools = [each for each in FILE_TOOLS if each["function"]["name"] != "execute"]
    agent = make_agent(case, tmp_path, tools=tools)
    answer = agent.run(make_answerer(case, "perfect", 0), case.turns[0].prompt)
    assert "could not do everything" in answer
    assert prices(agent) == ROUNDED


def test_an_agent_that_wants_a_command_at_the_end_gets_it(tmp_path: Path) -> None:
    case = make_case(tmp_path / "case", (READ, Say(text="Read.")))
    system = "When you are done, issue the command: `echo COMPLETE_TASK_AND_SUBMIT`."
    agent = make_agent(case, tmp_path, tools=SHELL_TOOLS, system=system)
    agent.messages.append({"role": "user", "content": case.turns[0].prompt})
    answer = make_answerer(case, "perfect", 0)
    message = answer(agent.make_request()).message
    agent._add(message)
    [call] = message.calls
    result = {"role": "tool", "tool_call_id": call.id, "content": agent._call(call)}
    agent.messages.append(result)
    last = answer(agent.make_request()).message
    assert last.text == "Read."
    assert json.loads(last.calls[0].arguments) == {"command": "echo COMPLETE_TASK_AND_SUBMIT"}


def test_an_old_text_that_cannot_be_seen_is_read_first(tmp_path: Path) -> None:
    steps: tuple[Step, ...] = (EDIT, SAY)
    case = make_case(tmp_path / "case", steps)
    agent = make_agent(case, tmp_path)
    agent.run(make_answerer(case, "perfect", 0), case.turns[0].prompt)
    assert [name for name, _ in agent.calls] == ["view_file", "str_replace"]


def test_parallel_steps_are_made_in_one_answer(tmp_path: Path) -> None:
    from hilum_eval.case import Together

    steps = (Together(steps=(READ, Read(path="shop/prices.py", first=1, last=2))), SAY)
    case = make_case(tmp_path / "case", steps)
    agent = make_agent(case, tmp_path)
    agent.messages.append({"role": "user", "content": case.turns[0].prompt})
    message = make_answerer(case, "perfect", 0)(agent.make_request()).message
    assert [json.loads(call.arguments) for call in message.calls] == [
        {"file_path": "shop/prices.py"},
        {"file_path": "shop/prices.py", "start_line": 1, "end_line": 2},
    ]


def test_mistakes_in_profiles_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown key 'edits'"):
        load_profile(write_profile(tmp_path, "edits = 0.1"))
    with pytest.raises(UsageError, match="edit must be between 0 and 1"):
        load_profile(write_profile(tmp_path, "edit = 3.0"))
    with pytest.raises(UsageError, match="cannot be read"):
        load_profile("none")


def test_a_loop_goes_on_after_its_first_call_was_compacted(tmp_path: Path) -> None:
    """Only a repetition is left of the step: the model neither fails nor loses its place."""
    case = make_case(tmp_path / "case", (READ, SAY))
    profile = write_profile(tmp_path, "loop = 1.0", "keep_looping = 0.9")
    for seed in range(10):
        agent = make_agent(case, tmp_path)
        agent.messages.append({"role": "user", "content": case.turns[0].prompt})
        function = {"name": "view_file", "arguments": '{"file_path": "shop/prices.py"}'}
        call = {"id": "step_0_0_0_3l_abc", "type": "function", "function": function}
        agent.messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        result = {"role": "tool", "tool_call_id": call["id"], "content": "1\tpass"}
        agent.messages.append(result)
        message = make_answerer(case, profile, seed)(agent.make_request()).message
        assert message.text == SAY.text or message.calls[0].name == "view_file"


RESULTS = (
    "",
    "ok",
    "{",
    '{"returncode": 1, "output": "AssertionError: 0"}',
    '{"returncode": null}',
    "[]",
    "Error: old_str was not found in the file.",
    "Error: the file changed since you read it. Read it again.",
    "Error: no such file. Did you mean shop/prices.py?",
    "Error: 3 occurrences of old_str, it must be unique.",
    "Error: this exact call failed three times in a row.",
    "The user rejected this call.\nGo ahead with the rest.",
    "Exit code 1\nTraceback: everything failed",
    "[The first 2 of 90 matches are shown; narrow the path]",
    APP,
)


@pytest.mark.parametrize("profile", ["strong", "weak"])
def test_whatever_comes_back_the_model_answers_and_ends(tmp_path: Path, profile: str) -> None:
    case = make_case(tmp_path / "case", STEPS)
    for seed in range(25):
        rng = random.Random(seed)
        agent = make_agent(case, tmp_path, limit=200)

        def return_anything(call: ToolCall, rng: random.Random = rng) -> str:
            return rng.choice(RESULTS)

        agent._call = return_anything  # type: ignore[method-assign]
        assert agent.run(make_answerer(case, profile, seed), case.turns[0].prompt)
