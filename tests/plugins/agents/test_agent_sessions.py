"""Agents in sessions: found, called, held to their files; through the real loop."""

import json

import hilum_agents
import hilum_files
import hilum_shell
import hilum_skills
import pytest
from hilum import Profile
from hilum.events import CallDone, PluginEvent
from hilum.messages import NoteMessage
from hilum.testing import open_bench, say, use
from hilum.trust import TrustedFolders
from hilum_agents import Agents
from hilum_agents.definitions.catalog import find_agents

pytestmark = pytest.mark.usefixtures("home")


def agent(name: str, more: str = "", body: str = "You help.") -> str:
    return f"---\nkind: agent\nname: {name}\ndescription: Helps.\n{more}\n---\n{body}\n"


def block(**fields) -> str:
    return f"Here it is.\n```json\n{json.dumps(fields)}\n```\n"


def notes(bench, name: str) -> list[dict]:
    return [event.data for event in bench.of(PluginEvent) if event.name == name]


def write(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.md").write_text(text)


@pytest.fixture
def opened(tmp_path):
    """Open a bench whose user has some agents."""

    def make(*plugins, user=None, **options):
        write(tmp_path / "config" / "agents", **(user or {}))
        environ = {"HILUM_CONFIG": str(tmp_path / "config"), "HOME": str(tmp_path / "home")}
        return open_bench(
            hilum_agents, hilum_files, *plugins, folder=tmp_path, environ=environ, **options
        )

    return make


# --- finding --------------------------------------------------------------------------------------


def test_project_agents_precede_user_agents_which_precede_built_in_ones(tmp_path):
    root = tmp_path / "project"
    write(root / ".hilum/agents", review=agent("review"), only=agent("only"))
    write(root / ".claude/agents", theirs=agent("theirs"))
    write(tmp_path / "config/agents", review=agent("review"), doc=agent("doc"))
    write(tmp_path / "home/.claude/agents", theirs=agent("theirs"))
    catalog = find_agents(root)
    states = {(each.definition.name, each.definition.scope): each.state for each in catalog.entries}
    assert states["review", "project"] == states["theirs", "project"] == "untrusted"
    assert states["review", "user"] == states["doc", "user"] == states["theirs", "user"] == "on"
    assert states["doc", "builtin"] == "hidden"
    TrustedFolders().add(root)
    catalog = find_agents(root)
    states = {(each.definition.name, each.definition.scope): each.state for each in catalog.entries}
    assert states["review", "project"] == states["only", "project"] == "on"
    assert (
        states["review", "user"]
        == states["review", "builtin"]
        == states["theirs", "user"]
        == "hidden"
    )
    assert catalog.get("REVIEW").hides == ("user agents", "built in")
    assert not find_agents(root, folders=False).get("theirs")


def test_a_link_to_itself_is_reported_and_other_agents_are_found(tmp_path):
    """The system refuses even to say whether it is a folder."""
    write(tmp_path / "config/agents", good=agent("good"))
    (tmp_path / "config/agents/foo.md").symlink_to("foo.md")
    catalog = find_agents(tmp_path / "project")
    assert catalog.get("good").state == "on"
    broken = catalog.get("foo")
    assert broken.state == "broken"
    assert "cannot be read" in broken.reason


def test_folders_of_other_programs_are_looked_into(tmp_path):
    root = tmp_path / "project"
    for folder in (".cursor/agents", ".gemini/agents", ".opencode/agent", ".github/agents"):
        write(
            root / folder, **{folder.split("/")[0].strip("."): "---\ndescription: d\n---\nDo it.\n"}
        )
    write(root / ".github/chatmodes", **{"plan.chatmode": "---\ndescription: d\n---\nDo it.\n"})
    (root / ".codex/agents").mkdir(parents=True)
    (root / ".codex/agents/scout.toml").write_text(
        'description = "d"\ndeveloper_instructions = "Do it."\n'
    )
    (root / ".codex/agents/notes.md").write_text("No agent.")
    found = {
        each.definition.name: each.definition.kind
        for each in find_agents(root).entries
        if each.source != "built in"
    }
    assert found == {
        "cursor": "cursor", "gemini": "gemini", "opencode": "opencode", "github": "copilot", "plan": "copilot",
        "scout": "codex",
    }  # fmt: skip


def test_a_link_out_of_a_project_is_not_followed(tmp_path):
    write(tmp_path / "elsewhere", evil=agent("evil"))
    root = tmp_path / "project"
    (root / ".hilum").mkdir(parents=True)
    (root / ".hilum/agents").symlink_to(tmp_path / "elsewhere")
    catalog = find_agents(root)
    assert catalog.get("evil") is None
    assert "is a link that leads out of" in catalog.complaints[0]


def test_two_agents_of_one_name_in_a_folder_are_reported(tmp_path):
    write(
        tmp_path / "config/agents", a=agent("same", body="First."), b=agent("same", body="Second.")
    )
    catalog = find_agents(None)
    assert [(each.definition.prompt, each.state) for each in catalog.entries if each.definition.name == "same"] == [
        ("First.", "on"), ("Second.", "hidden"),
    ]  # fmt: skip


# --- calls ----------------------------------------------------------------------------------------


async def test_an_agent_is_called_by_name_in_a_conversation_of_its_own(opened):
    user = {
        "helper": agent(
            "helper", "tools: {allow: [read_file]}\nlimits: {turns: 3}", "You are the helper."
        )
    }
    async with opened(user=user, answers=["From main.", "From helper."]) as bench:
        await bench.run("Hello")
        ended = await bench.run("@helper look at it")
        assert ended.text == "From helper."
        assert [tool.name for tool in bench.requests[-1].tools] == ["read_file"]
        assert any("You are the helper." in layer.text for layer in bench.requests[-1].layers)
        assert "Hello" not in str(bench.requests[-1].messages)
        assert bench.session.agents["helper"].limit("turns") == 3


async def test_a_definition_is_read_at_each_call(opened, tmp_path):
    async with opened(user={"helper": agent("helper", body="One.")}, answers=["a", "b"]) as bench:
        await bench.run("@helper x")
        write(tmp_path / "config/agents", helper=agent("helper", "tools: []", body="Now two."))
        await bench.run("@helper y")
        assert any("Now two." in str(message) for message in bench.requests[-1].messages) or any(
            "Now two." in layer.text for layer in bench.requests[-1].layers
        )
        assert not bench.requests[-1].tools


async def test_a_prompt_with_an_unknown_name_is_text_and_the_nearest_is_suggested(opened):
    async with opened(answers=["ok"]) as bench:
        assert (await bench.run("@reveiw look")).text == "ok"
        assert notes(bench, "agents.unknown") == [
            {
                "say": "There is no agent 'reveiw'. Did you mean review?",
                "agent": "reveiw",
                "nearest": "review",
            }
        ]


async def test_a_call_of_an_agent_with_a_mistake_says_what_is_wrong(opened):
    user = {"broken": agent("broken", body="")}
    async with opened(user=user, answers=["text"]) as bench:
        run = await bench.session.prompt("@broken look at a.py")
        assert run.reply.startswith("The agent broken cannot be called: ")
        assert "The file has no prompt below its front matter." in run.reply
        assert "`hilum agents validate broken` shows details." in run.reply
        assert not bench.requests
        # Only this form names an agent without doubt.
        assert (await bench.run("broken links: look at a.py")).text == "text"


async def test_a_literal_prompt_calls_no_agent(opened):
    async with opened(user={"helper": agent("helper")}, answers=["ok"]) as bench:
        agents = bench.session.plugin(Agents)
        _, profile = await agents.prepare("helper")
        bench.session.add_agent(profile)
        with agents.as_text():
            run = await bench.session.prompt(
                "use the review agent to use the helper agent", agent="helper"
            )
        await run.wait()
        assert set(bench.session.agents) == {"main", "helper"}


async def test_a_filter_that_leaves_nothing_is_an_error(opened):
    async with opened(user={"helper": agent("helper", "tools: {allow: [Frobnicate]}")}) as bench:
        ended = await bench.run("@helper look")
        assert "excludes every tool" in ended.text
        assert not bench.requests


async def test_a_missing_model_is_reported_and_replaced_by_the_sessions(opened):
    async with opened(
        user={"helper": agent("helper", "model: nobody/nothing")}, answers=["ok"]
    ) as bench:
        assert (await bench.run("@helper look")).text == "ok"
        assert "nobody" in notes(bench, "agents.model")[0]["say"]


async def test_a_tool_out_of_the_filter_is_refused_at_the_call(opened):
    answers = [use("write_file", path="x", content="y"), "Could not."]
    async with opened(
        user={"helper": agent("helper", "tools: {allow: [read_file]}")}, answers=answers
    ) as bench:
        await bench.run("@helper write it")
        assert bench.of(CallDone)[0].result.code
        assert not (bench.workspace / "x").exists()


async def test_permissions_hold_at_the_call(opened):
    front = "permissions: {deny: ['write_file(src/**)']}"
    answers = [
        use("write_file", path="src/x", content="y"),
        use("write_file", path="docs/x", content="y"),
        "Done.",
    ]
    async with opened(user={"helper": agent("helper", front)}, answers=answers) as bench:
        await bench.run("@helper write it")
        assert [each.result.code for each in bench.of(CallDone)] == ["E_DENIED", ""]
        assert (bench.workspace / "docs/x").exists()
        assert not (bench.workspace / "src/x").exists()


async def test_named_agents_and_skills_are_enforced_at_the_call(opened):
    answers = [
        [
            use("handover", agent="review", brief="look"),
            use("task", description="a b c", prompt="go"),
        ],
        "Could not.",
    ]
    async with opened(hilum_agents.runs, user={"helper": agent("helper", "tools: Agent(explore), Read")},
                      answers=answers) as bench:  # fmt: skip
        await bench.run("@helper get it reviewed")
        assert [each.result.code for each in bench.of(CallDone)] == ["E_DENIED", "E_DENIED"]
        assert "allows starting only these agents: explore" in bench.of(CallDone)[0].result.text
        assert set(bench.session.agents) == {"main", "helper"}


async def test_an_agent_is_shown_the_skills_that_its_file_names_and_no_other(opened, tmp_path):
    for name in ("pdf", "secret"):
        file = tmp_path / "home/.agents/skills" / name / "SKILL.md"
        file.parent.mkdir(parents=True)
        file.write_text(f"---\nname: {name}\ndescription: About {name}.\n---\nHow to {name}.\n")
    users = {
        "some": agent("some", "skills: [PDF]"),
        "none": agent("none", "skills: []"),
        "all": agent("all"),
    }
    async with opened(hilum_skills, user=users, answers=["Done."] * 3) as bench:
        shown = []
        for name in users:
            await bench.run(f"@{name} read it")
            sent = "".join(layer.text for layer in bench.requests[-1].layers)
            shown.append(("How to pdf." in sent, "How to secret." in sent))
        assert shown == [(True, False), (False, False), (True, True)]


async def test_an_answer_without_its_custom_form_is_sent_back(opened):
    front = "answer: {verdict: pass | fail, files: [path]}"
    answers = [
        "All is well.",
        block(verdict="pass", files=["b.py"]),
        block(verdict="pass", files=["a.py"]),
    ]
    async with opened(
        user={"helper": agent("helper", front)}, files={"a.py": "x = 1\n"}, answers=answers
    ) as bench:
        assert (await bench.run("@helper check")).state == "completed"
        told = objections(bench)
        assert "no ```json block at its end; add one with the keys verdict, files" in told
        assert "no file 'b.py'" in told
        assert any(
            '"verdict": "pass" or "fail"' in layer.text for layer in bench.requests[0].layers
        )


async def test_permissions_apply_to_a_resumed_agent(opened):
    """As in a resumed session, the agent exists and its file has not been read."""
    front = "permissions: {deny: ['write_file']}\nanswer: explore"
    answers = [use("write_file", path="x", content="y"), "No.", "No.", "No.", "No."]
    async with opened(user={"helper": agent("helper", front)}, answers=answers) as bench:
        bench.session.add_agent(Profile("helper"))
        ended = await bench.run("write it", agent="helper")
        assert bench.of(CallDone)[0].result.code == "E_DENIED"
        assert ended.state == "partial_success"


async def test_agents_of_an_untrusted_project_are_reported_and_off(opened):
    files = {
        ".hilum/agents/review.md": agent("review", body="Evil."),
        ".claude/agents/other.md": agent("other"),
    }
    async with opened(files=files, answers=["ok"]) as bench:
        await bench.run("@other look")
        assert notes(bench, "agents.untrusted")[0]["agents"] == ["other", "review"]
        assert set(bench.session.agents) == {"main"}


# --- answers --------------------------------------------------------------------------------------


def objections(bench) -> str:
    return "\n".join(
        str(each) for each in bench.requests[-1].messages if isinstance(each, NoteMessage)
    )


async def test_a_review_is_true_to_the_files(opened):
    issue = {"severity": "high", "category": "quality", "problem": "p", "suggestion": "s"}
    answers = [
        "All is well.",
        use("read_file", path="a.py"),
        block(
            summary="s",
            problems=[{"file": "a.py", "line": 9, **issue}, {"file": "b.py", "line": 1, **issue}],
        ),
        block(summary="s", problems=[{"file": "a.py", "line": 2, **issue}]),
    ]
    async with opened(files={"a.py": "x = 1\ny = 2\n"}, answers=answers) as bench:
        ended = await bench.run("@review a.py")
        assert ended.state == "completed"
        told = objections(bench)
        assert "no ```json block" in told
        assert "a.py has 2 lines; there is no line 9" in told
        assert "no file 'b.py'" in told


async def test_objections_are_bounded(opened):
    async with opened(answers=["No."] * 4) as bench:
        ended = await bench.run("@explore find it")
        assert ended.state == "partial_success"
        assert len(bench.requests) == 4


def report_of(command: str, failed: int = 0) -> str:
    scenarios = [{"name": f"test_{kind}", "kind": kind} for kind in ("normal", "boundary", "error")]
    return block(
        summary="s",
        files=["test_a.py"],
        command=command,
        passed=3 - failed,
        failed=failed,
        scenarios=scenarios,
    )


async def test_tests_must_have_run_as_they_are(opened):
    source = "def test_normal(): pass\ndef test_boundary(): pass\ndef test_error(): pass\n"
    answers = [
        use("write_file", path="test_a.py", content=source), report_of("true"), use("run_terminal_cmd", command="true"),
        report_of("pytest"), report_of("true"),
    ]  # fmt: skip
    async with opened(hilum_shell, answers=answers) as bench:
        assert (await bench.run("@test a.py")).state == "completed"
        told = objections(bench)
        assert "were not run after their last change" in told
        assert "'pytest' was not run" in told


async def test_failed_tests_cannot_be_reported_as_passed(opened):
    source = "def test_normal(): pass\ndef test_boundary(): pass\ndef test_error(): pass\n"
    answers = [
        use("write_file", path="test_a.py", content=source), use("run_terminal_cmd", command="false"), report_of("false"),
        report_of("false", failed=1),
    ]  # fmt: skip
    async with opened(hilum_shell, answers=answers) as bench:
        await bench.run("@test a.py")
        assert "the answer says that no test failed" in objections(bench)


async def test_a_readme_has_its_parts(opened):
    text = "# X\n## Introduction\n## Installation\n## Usage\n## API\n"
    answer = block(summary="s", file="README.md", sections=[])
    answers = [
        use("write_file", path="README.md", content=text), answer,
        use("write_file", path="README.md", content=text + "## Contributing\n"), answer,
    ]  # fmt: skip
    async with opened(answers=answers) as bench:
        assert (await bench.run("@doc write a README")).state == "completed"
        assert "no heading for Contributing" in objections(bench)


PROPOSAL = {"id": 1, "title": "t", "file": "a.py", "line": 1, "why": "w"}


async def test_refactor_proposes_first_and_acts_once_confirmed(opened):
    answers = [
        use("write_file", path="a.py", content="x"),
        block(summary="s", proposals=[PROPOSAL], applied=[]),
        say(block(summary="s", proposals=[PROPOSAL], applied=[])),
        use("write_file", path="b.py", content="y = 1\n"), use("run_terminal_cmd", command="true"),
        block(summary="s", proposals=[], applied=[1]),
    ]  # fmt: skip
    async with opened(hilum_shell, files={"a.py": "z = 1\n"}, answers=answers) as bench:
        await bench.run("@refactor a.py")
        assert (bench.workspace / "a.py").read_text() == "z = 1\n"
        await bench.run("@refactor why the first one?")
        ended = await bench.run("@refactor yes, do 1")
        assert ended.state == "completed"
        assert [each.result.code for each in bench.of(CallDone)] == ["E_DENIED", "", ""]
        assert (bench.workspace / "b.py").exists()


async def test_scenarios_have_different_names_and_numbers_must_be_true(opened):
    source = "def test_normal(): pass\ndef test_boundary(): pass\ndef test_error(): pass\n"
    unnamed = [{"name": "", "kind": kind} for kind in ("normal", "boundary", "error")]
    named = [{"name": f"test_{each['kind']}", "kind": each["kind"]} for each in unnamed]
    run = {"summary": "s", "files": ["test_a.py"], "command": "echo 3 passed", "failed": 0}
    answers = [
        use("write_file", path="test_a.py", content=source), use("run_terminal_cmd", command="echo 3 passed"),
        block(**run, passed=30, scenarios=unnamed), block(**run, passed=3, scenarios=named),
    ]  # fmt: skip
    async with opened(hilum_shell, answers=answers) as bench:
        assert (await bench.run("@test a.py")).state == "completed"
        told = objections(bench)
        assert "There are 0 different scenarios" in told
        assert "the last run printed 3 passed" in told


async def test_numbers_of_any_length_are_read(opened):
    files = [{"path": "a.py", "why": "w", "lines": "9" * 6_000}]
    right = [{"path": "a.py", "why": "w", "lines": "1"}]
    answers = [
        block(summary="s", files=files),
        "```\nx = 1\n```\n" + block(summary="s", files=right),
    ]
    async with opened(files={"a.py": "x = 1\n"}, answers=answers) as bench:
        assert (await bench.run("@explore find x")).state == "completed"
        assert "there is no line 999999999" in objections(bench)


# --- /agents --------------------------------------------------------------------------------------


async def test_the_command_answers_in_a_session(opened):
    async with opened(user={"helper": agent("helper")}) as bench:
        assert "helper" in (await bench.run("/agents")).text
        assert "read_file" in (await bench.run("/agents info helper")).text
        assert "✓ helper" in (await bench.run("/agents validate helper")).text
        assert "usage: /agents info" in (await bench.run("/agents info --help")).text
        assert "no action 'frob'" in (await bench.run("/agents frob")).text
        assert "Close the quotes" in (await bench.run("/agents info 'x")).text
        assert not bench.requests


async def test_the_model_writes_a_prompt(opened, tmp_path):
    async with opened(answers=["You check SQL for injections. Look at every query."]) as bench:
        ended = await bench.run(
            "/agents create sql --scope user --about 'checks SQL for injections'"
        )
        assert "hilum will report when" in ended.text
        await bench.wait_for(PluginEvent, lambda event: event.name == "agents.done")
        assert "Look at every query." in (tmp_path / "config/agents/sql.md").read_text()
        assert not bench.requests[0].tools


async def test_a_session_deletes_only_after_a_confirmation(opened, tmp_path):
    async with opened(user={"helper": agent("helper")}) as bench:
        assert (
            "Confirm it with --yes" in (await bench.run("/agents delete helper --scope user")).text
        )
        assert "--scope user` deletes it" in (await bench.run("/agents delete helper --yes")).text
        assert "built in" in (await bench.run("/agents delete review --yes")).text
        assert "Deleted" in (await bench.run("/agents delete helper --scope user --yes")).text
        assert not (tmp_path / "config/agents/helper.md").exists()


@pytest.mark.parametrize(
    "prompt",
    ["@写手 写一首诗", "用 写手 agent 写一首诗", "@文案 写一首诗", "@agent-34e11536 写一首诗"],
)
async def test_an_agent_is_called_by_a_name_that_is_not_ascii(tmp_path, prompt):
    """Its name in lists and logs has only ASCII letters; people call it as they wrote it."""
    folder = tmp_path / "config/agents"
    folder.mkdir(parents=True)
    (folder / "文案.md").write_text("---\nname: 写手\ndescription: d\n---\nYou write.\n")
    environ = {"HILUM_CONFIG": str(tmp_path / "config"), "HOME": str(tmp_path / "home")}
    async with open_bench(
        hilum_agents, folder=tmp_path, environ=environ, answers=["好。", "好。"]
    ) as bench:
        await bench.run(prompt)
        assert bench.requests[-1].agent == "agent-34e11536"
        assert bench.requests[-1].messages[-1].typed == "写一首诗"
        await bench.run("写手 是谁？")
        assert bench.requests[-1].agent == "main"
