"""An agent cannot have another agent do what it may not do itself.

Each way to start or reach another agent is tried.
"""

import json

import hilum_agents
import hilum_files
import hilum_shell
import pytest
from hilum import Call, Compaction, ask, tool
from hilum.events import ApprovalAsked, CallDone, Compacted, PluginEvent
from hilum.messages import UserMessage
from hilum.store import MemoryStore
from hilum.testing import open_bench, pause, plugin, use
from hilum_agents import runs

pytestmark = pytest.mark.usefixtures("home")
PROPOSAL = {"id": 1, "title": "t", "file": "a.py", "line": 1, "why": "w"}


def agent(name: str, more: str = "", body: str = "You help.") -> str:
    return f"---\nkind: agent\nname: {name}\ndescription: Helps.\n{more}\n---\n{body}\n"


def block(**fields) -> str:
    return f"Here it is.\n```json\n{json.dumps(fields)}\n```\n"


def proposes(*, applied=()) -> str:
    return block(summary="s", proposals=[] if applied else [PROPOSAL], applied=list(applied))


@pytest.fixture
def opened(tmp_path):
    """Open a bench whose user has some agents."""

    def make(*plugins, user=None, **options):
        folder = tmp_path / "config" / "agents"
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in (user or {}).items():
            (folder / f"{name}.md").write_text(text)
        environ = {"HILUM_CONFIG": str(tmp_path / "config"), "HOME": str(tmp_path / "home")}
        return open_bench(
            hilum_agents, runs, hilum_files, *plugins, folder=tmp_path, environ=environ, **options
        )

    return make


def by_agent(**lists):
    """Return a model that answers each agent from its own list; sub-agents from ``task``."""

    def answer(request):
        name = request.agent if request.agent in lists else request.agent.split("-")[0]
        return lists[name].pop(0)

    return [answer] * 40


def codes(bench, name: str) -> list[str]:
    return [event.result.code for event in bench.of(CallDone) if event.result.name == name]


# --- the confirmation of a proposal ---------------------------------------------------------------


async def test_no_agent_confirms_for_the_user(opened):
    answers = by_agent(
        main=[use("handover", agent="refactor", brief="Improve a.py."), "Handed over.",
              use("handover", agent="refactor", brief="Yes, do all of them."), "Handed over."],
        refactor=[proposes(), use("write_file", path="b.py", content="x"), proposes()],
    )  # fmt: skip
    async with opened(files={"a.py": "z = 1\n"}, answers=answers) as bench:
        agent_runs = bench.session.plugin(runs.Runs)
        for text in ("Refactor a.py", "Go on"):
            await bench.run(text)
            for each in agent_runs.list():
                await agent_runs.wait(each["agent_id"])
        assert codes(bench, "write_file") == ["E_DENIED"]
        assert not (bench.workspace / "b.py").exists()


async def test_the_user_confirms_proposals_after_a_handover(opened):
    answers = by_agent(
        main=[use("handover", agent="refactor", brief="Improve a.py."), "Handed over."],
        refactor=[proposes(), use("write_file", path="b.py", content="x = 1\n"),
                  use("run_terminal_cmd", command="true"), proposes(applied=[1])],
    )  # fmt: skip
    async with opened(hilum_shell, files={"a.py": "z = 1\n"}, answers=answers) as bench:
        agent_runs = bench.session.plugin(runs.Runs)
        await bench.run("Refactor a.py")
        await agent_runs.wait(agent_runs.list()[0]["agent_id"])
        assert (await bench.run("@refactor yes, do 1")).state == "completed"
        assert (bench.workspace / "b.py").exists()


async def test_an_unconfirmed_proposal_restricts_agents_that_its_agent_starts(opened):
    answers = by_agent(
        careful=[use("task", description="do it", prompt="Write it."), proposes()],
        task=[use("write_file", path="a.py", content="x"), "Could not."],
    )
    async with opened(user={"careful": agent("careful", "answer: refactor")}, files={"a.py": "z = 1\n"},
                      answers=answers) as bench:  # fmt: skip
        await bench.run("@careful improve a.py")
        assert codes(bench, "write_file") == ["E_DENIED"]


@tool(risk="read")
async def forget(call: Call) -> str:
    """Compact the conversation before the next request."""
    call.session.compact(call.agent.name)
    return "ok"


def cut(messages) -> Compaction:
    return Compaction(len(messages) - 1, "Much was said.")


FORGETS = plugin("forgets", provide_tools=lambda: [forget], trim_context=cut)


async def test_a_compaction_takes_no_confirmation_away(opened):
    answers = [
        proposes(), use("forget"), use("write_file", path="b.py", content="x = 1\n"), use("forget"),
        use("run_terminal_cmd", command="true"), use("forget"), proposes(applied=[1]),
    ]  # fmt: skip
    async with opened(hilum_shell, FORGETS, user={"careful": agent("careful", "answer: refactor")},
                      files={"a.py": "z = 1\n"}, answers=answers) as bench:  # fmt: skip
        await bench.run("@careful improve a.py")
        ended = await bench.run("@careful yes, do 1")
        assert bench.of(Compacted)[-1].upto
        asked = [
            each
            for each in bench.session.agents["careful"].conversation.messages
            if isinstance(each, UserMessage)
        ]
        assert [message.parts[0].text for message in asked] == ["yes, do 1"]
        assert codes(bench, "write_file") == [""]
        assert (ended.state, ended.error) == ("completed", "")


async def test_an_interrupted_run_that_was_confirmed_is_retried_as_confirmed(opened):
    answers = [proposes(), use("read_file", path="a.py"), pause(1e8), use("write_file", path="b.py", content="x = 1\n"),
               use("run_terminal_cmd", command="true"), proposes(applied=[1])]  # fmt: skip
    async with opened(hilum_shell, files={"a.py": "z = 1\n"}, answers=answers) as bench:
        agent_runs = bench.session.plugin(runs.Runs)
        await agent_runs.wait(await agent_runs.start("refactor", "Improve a.py."))
        first = await agent_runs.start(
            "refactor", "yes, do 1", timeout=1e9
        )  # a pause longer than any test
        await bench.wait_for(CallDone, lambda event: event.result.name == "read_file")
        agent_runs.stop(first)
        assert (await agent_runs.wait(first))["status"] == "stopped"
        again = await agent_runs.wait(await agent_runs.retry(first))
        assert (again["status"], codes(bench, "write_file")) == ("completed", [""])


# --- what holds whatever becomes of a file, or of whoever stands between --------------------------


DENIES = "permissions: {deny: ['read_file(secrets/**)']}"


@pytest.mark.parametrize("becomes", [None, "no front matter", agent("helper")])
async def test_a_resumed_agent_keeps_its_definition(opened, tmp_path, becomes):
    store, files = MemoryStore(), {"secrets/key": "k"}
    async with opened(
        user={"helper": agent("helper", DENIES)}, files=files, answers=["ok"], store=store
    ) as bench:
        await bench.run("@helper hello")
        identity = bench.session.id
    path = tmp_path / "config/agents/helper.md"
    path.unlink() if becomes is None else path.write_text(becomes)
    answers = [use("read_file", path="secrets/key"), "No."]
    async with opened(files=files, answers=answers, store=store, resume=identity) as bench:
        await bench.run("read it", agent="helper")
        assert codes(bench, "read_file") == ["E_DENIED"]


async def test_denials_apply_after_the_agent_in_between_has_left(opened):
    """A sub-agent hands over and ends.

    The new agent is still below the agent that started the sub-agent.
    """
    answers = by_agent(
        helper=[use("task", description="hand it over", prompt="Have other read it."), "Done."],
        task=[use("handover", agent="other", brief="Read secrets/key."), "Handed over."],
        other=[use("read_file", path="secrets/key"), "Could not."],
    )
    user = {"helper": agent("helper", DENIES), "other": agent("other")}
    async with opened(
        user=user, files={"secrets/key": "k"}, answers=answers, settings={"scheduler.at_once": 1}
    ) as bench:
        agent_runs = bench.session.plugin(runs.Runs)
        await bench.run("@helper read the secret")
        handed = next(each for each in agent_runs.list() if each["agent"] == "other")
        await agent_runs.wait(handed["agent_id"])
        assert codes(bench, "read_file") == ["E_DENIED"]


@pytest.mark.parametrize("path", ["write_file", "call_tool"])
async def test_a_tool_that_is_filtered_away_is_reached_in_no_way(opened, path):
    call = use("write_file", path="b.py", content="x")
    if path == "call_tool":
        call = use("call_tool", name="write_file", arguments={"path": "b.py", "content": "x"})
    async with opened(user={"helper": agent("helper", "tools: {allow: [read_file, task]}")},
                      answers=by_agent(helper=[call, use("task", description="a b c", prompt="Write it."), "No."],
                                       task=[call, "No."])) as bench:  # fmt: skip
        bench.session.expects_deferred_tools = True
        await bench.run("@helper write it")
        assert codes(bench, path) == ["E_DENIED", "E_DENIED"]
        assert not (bench.workspace / "b.py").exists()


async def test_the_strictest_of_those_above_counts(opened):
    user = {"outer": agent("outer", "permissions: {deny: [read_file]}"),
            "inner": agent("inner", "permissions: {ask: [read_file]}"), "last": agent("last")}  # fmt: skip
    answers = by_agent(
        outer=[use("handover", agent="inner", brief="Go."), "ok"], inner=[use("handover", agent="last", brief="Go."), "ok"],
        last=[use("read_file", path="a.py"), "No."],
    )  # fmt: skip
    async with opened(user=user, files={"a.py": "1\n"}, answers=answers) as bench:
        agent_runs = bench.session.plugin(runs.Runs)
        await bench.run("@outer go")
        for name in ("inner", "last"):
            await agent_runs.wait(
                next(each["agent_id"] for each in agent_runs.list() if each["agent"] == name)
            )
        assert codes(bench, "read_file") == ["E_DENIED"]


async def test_a_yes_to_one_question_answers_no_other(opened):
    """An approval for the session covers only the question that was asked.

    Other rules and plugins still ask about the same call.
    """

    def judge(call):
        return ask("It is dangerous.", scope="danger") if "danger" in call.arguments else None

    answers = [use("write_file", path="a", content="x"), use("write_file", path="b", content="x"),
               use("write_file", path="danger", content="x"), "ok"]  # fmt: skip
    user = {"helper": agent("helper", "permissions: {ask: [write_file]}")}
    async with opened(plugin("gate", on_tool_call=judge), user=user, answers=answers) as bench:
        run = await bench.session.prompt("@helper write")
        asked = await bench.wait_for(ApprovalAsked)
        bench.session.answer(asked.id, True, remember="session")
        asked = await bench.wait_for(ApprovalAsked, lambda event: "danger" in event.call.arguments)
        bench.session.answer(asked.id, False)
        await run.wait()
        assert codes(bench, "write_file") == ["", "", "E_REJECTED"]
        assert len(bench.of(ApprovalAsked)) == 2


# --- tasks for named agents -----------------------------------------------------------------------


async def test_a_named_agent_does_a_task_and_its_answer_comes_back(opened):
    """It has its own prompt, its file's permissions and the smaller limits.

    Of its own tools it has those that its parent has, too.
    """
    answers = by_agent(
        main=[
            use("task", description="look it up", prompt="What is in a.py?", agent="Helper"),
            "It is 1.",
        ],
        helper=[
            [use("read_file", path="secrets/key"), use("write_file", path="b.py", content="")],
            "It is 1.",
        ],
    )
    user = {
        "helper": agent(
            "helper", f"tools: {{deny: [write]}}\nlimits: {{turns: 40, timeout: 20}}\n{DENIES}"
        )
    }
    files = {"a.py": "1\n", "secrets/key": "k"}
    async with opened(user=user, files=files, answers=answers) as bench:
        await bench.run("What is in a.py?")
        assert codes(bench, "read_file") == codes(bench, "write_file") == ["E_DENIED"]
        (result,) = [event.result for event in bench.of(CallDone) if event.result.name == "task"]
        assert result.text.startswith("It is 1.")
        (child,) = [
            each for each in bench.session.plugin(runs.Runs).list() if each["agent"] == "helper"
        ]
        profile = next(event.data["profile"] for event in bench.of(PluginEvent)
                       if event.name == "agents.queued" and event.data["agent_id"] == child["agent_id"])  # fmt: skip
        assert (profile["turns"], profile["timeout"]) == (15, 20)
        request = next(each for each in bench.requests if each.agent.startswith("helper-"))
        assert any("You help." in layer.text for layer in request.layers)


async def test_a_named_agent_gets_no_more_rights_than_its_caller(opened):
    answers = by_agent(
        reader=[use("task", description="write it", prompt="Write.", agent="helper"), "ok"],
        helper=[use("write_file", path="b.py", content=""), "No."],
    )
    user = {
        "helper": agent("helper"),
        "reader": agent("reader", "tools: {allow: [read_file, task]}"),
    }
    async with opened(user=user, answers=answers) as bench:
        await bench.run("@reader go")
        assert codes(bench, "write_file") == ["E_DENIED"]


@pytest.mark.parametrize(
    ("wanted", "code"),
    [("explore", ""), ("review", "E_DENIED"), ("", "E_DENIED"), ("nobody", "E_DENIED")],
)
async def test_only_agents_that_are_named_do_tasks(opened, wanted, code):
    answers = by_agent(
        helper=[use("task", description="look it up", prompt="Look.", agent=wanted), "ok"],
        explore=[block(summary="Nothing.", files=[])],
    )
    async with opened(
        user={"helper": agent("helper", "tools: Agent(explore), Read")}, answers=answers
    ) as bench:
        await bench.run("@helper go")
        assert codes(bench, "task") == [code]


async def test_a_task_for_an_unknown_agent_lists_the_known_ones(opened):
    answers = [use("task", description="look it up", prompt="Look.", agent="reveiw"), "ok"]
    async with opened(answers=answers) as bench:
        await bench.run("go")
        (result,) = [event.result for event in bench.of(CallDone)]
        assert "review" in result.text
