"""Agents' files: samples of every dialect and deviation, each read or reported with its line."""

import json
from pathlib import Path

import pytest
from hilum import AssistantMessage, Profile, Text, ToolFilter, Workspace
from hilum_agents import load_definition
from hilum_agents.answers import check
from hilum_agents.definitions import Permission, judge
from hilum_agents.definitions.catalog import CatalogEntry
from hilum_agents.definitions.loading import MAX_PROMPT
from hilum_agents.definitions.permissions import judge_reach
from hilum_agents.definitions.tools import KNOWN
from hilum_agents.folders import BUILTIN
from hilum_agents.formatting import check_entry
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SEARCH = ("search_files", "glob_search", "list_directory")
LOOKUP = ("semantic_search", "find_definition", "find_references", "list_symbols")
EDIT = ("edit_file", "multi_edit")
SHELL = ("run_terminal_cmd", "list_services", "read_service", "write_service", "stop_service")
START = ("task", "handover", "get_agent_result")
HEAD = "name: a\ndescription: d\n"


@pytest.fixture
def load(tmp_path):
    """Load a definition from front matter, in the folder that a dialect is found in."""

    def make(front, body="Do it.", place=".claude/agents/a.md"):
        file = tmp_path / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"---\n{front}\n---\n{body}\n")
        return load_definition(file)

    return make


def told(definition) -> str:
    return "\n".join(f"{each.line}: {each.message}" for each in definition.problems)


OWN = """\
kind: agent
name: code_review
title: Code Reviewer
description: Reviews code.
model: fast
scope: project
version: 1.0.0
tools:
  allow: [read_file, search_files, "mcp__docs__*"]
  deny: [write]
mcp:
  servers: [docs]
skills: [pdf]
permissions:
  deny: ["run_terminal_cmd(git push *)"]
  ask: [web_fetch]
limits: {turns: 5, timeout: 30, token_limit: 9000}
"""


def test_own_dialect_is_read_whole(load):
    found = load(OWN, place=".hilum/agents/code_review.md")
    assert (found.name, found.title, found.description) == (
        "code_review",
        "Code Reviewer",
        "Reviews code.",
    )
    assert (found.model, found.version, found.kind, found.servers, found.skills) == (
        "fast", "1.0.0", "hilum", ("docs",), ("pdf",),
    )  # fmt: skip
    assert found.tools == ToolFilter(
        ("read_file", "search_files", "docs__*", "use_skill"), ("write",)
    )
    assert found.permissions == (
        Permission("ask", "web_fetch"), Permission("deny", "run_terminal_cmd", "git push *"),
    )  # fmt: skip
    assert not found.problems
    prompt = "Do it.\n\nSkills for your work: pdf. Read each with use_skill before you need it."
    assert found.profile() == Profile("code_review", prompt, "fast", found.tools, 5, 30, 9000)


def test_limits_have_defaults(load):
    found = load(HEAD)
    assert (found.turns, found.timeout, found.token_limit) == (10, None, None)


@pytest.mark.parametrize(
    ("tools", "allow", "warning"),
    [
        ("", None, ""), ("tools: []", (), ""), ("tools: '*'", None, ""), ("tools: ['*']", None, ""),
        ("tools: ''", None, "neither all tools nor none"), ("tools:", None, "neither all tools nor none"),
        ("tools: Read, Grep", ("read_file", "search_files"), ""), ("tools: Read Grep", ("read_file", "search_files"), ""),
        ("tools: [Read, Glob, LS]", ("read_file", "glob_search", "list_directory"), ""),
        ("tools:\n  - Read\n  - Edit", ("read_file", *EDIT), ""), ("tools:\n  - Read, Grep", ("read_file", "search_files"), ""),
        ("tools: Bash", SHELL, ""), ("tools: Bash, BashOutput", SHELL, ""), ("tools: TodoWrite", ("todo_write",), ""),
        ("tools: WebFetch, WebSearch", ("web_fetch", "web_search"), ""), ("tools: mcp__gh__issue", ("gh__issue",), ""),
        ("tools: mcp__gh, a__b", ("gh__*", "a__b"), ""), ("tools: Task", START, ""), ("tools: Agent(x, y)", START, ""),
        ("tools: Read, Aaa, Bbb", ("read_file", "Aaa", "Bbb"), "The tools 'Aaa', 'Bbb' are unknown; the entries take effect"),
        ("tools: Read\nskills: [pdf]", ("read_file", "use_skill"), ""), ("skills: [pdf]\ntools:\n- '*'", None, ""),
        ("tools: Read, Frobnicate", ("read_file", "Frobnicate"), "'Frobnicate' is unknown"),
        ("tools: NotebookEdit", (), "has no tool like"), ("tools: [Read, {a: b}]", ("read_file",), "must be a list of names"),
        ("allowed-tools: Read", ("read_file",), "it is read as tools"),
        ("tools: Read, ...", ("read_file",), "not a tool name"), ("tools: network", (), "'network' is unknown"),
    ],
)  # fmt: skip
def test_tools_of_claude_code(load, tools, allow, warning):
    found = load(HEAD + tools)
    assert found.kind == "claude"
    assert found.tools.allow == allow
    assert warning in told(found)
    assert bool(warning) == bool(found.problems)


def test_sub_agents_are_limited(load):
    assert load(HEAD + "tools: Task(explore), Agent(review), Read").agents == ("explore", "review")
    assert load(HEAD + "tools: Task").agents is None
    assert load(HEAD + "tools: Task(explore), Task").agents is None
    assert load(HEAD + "tools: Task, Task(explore)").agents is None


@pytest.mark.parametrize(
    ("front", "place", "tool", "arguments", "refused"),
    [
        ("tools: Task(explore, sec-*)", "claude", "handover", {"agent": "Explore"}, False),
        ("tools: Task(explore, sec-*)", "claude", "handover", {"agent": "sec-web"}, False),
        ("tools: Task(explore, sec-*)", "claude", "handover", {"agent": "review"}, True),
        ("tools: Task(explore)", "claude", "task", {"prompt": "x"}, True),
        ("tools: Task(explore, general-purpose)", "claude", "task", {"prompt": "x"}, False),
        ("tools: Task", "claude", "handover", {"agent": "review"}, False),
        ("disallowedTools: Task(review)", "claude", "handover", {"agent": "review"}, True),
        ("disallowedTools: Task(review)", "claude", "handover", {"agent": "explore"}, False),
        ("permission: {task: {'*': deny, 'doc*': allow}}", "opencode", "handover", {"agent": "docs"}, False),
        ("permission: {task: {'*': deny, 'doc*': allow}}", "opencode", "handover", {"agent": "review"}, True),
        ("permission: {task: {'*': deny, 'doc*': allow}}", "opencode", "task", {"prompt": "x"}, True),
        ("permission: {skill: {'*': deny, pdf: allow}}", "opencode", "use_skill", {"name": "pdf"}, False),
        ("permission: {skill: {'*': deny, pdf: allow}}", "opencode", "use_skill", {"name": "xls"}, True),
        ("skills: [pdf]", "claude", "use_skill", {"name": "PDF "}, False),
        ("skills: [pdf]", "claude", "use_skill", {"name": "xls"}, True),
        ("skills: []", "claude", "use_skill", {"name": "xls"}, True),
        ("skills:", "claude", "use_skill", {"name": "xls"}, False),
        ("skills: [pdf]", "claude", "use_skill", {}, True),
        ("skills: [pdf]", "claude", "handover", {"agent": "review"}, False),
    ],
)  # fmt: skip
def test_named_agents_and_skills_are_enforced(
    load, tmp_path, front, place, tool, arguments, refused
):
    found = load(HEAD + front, place=f".{place}/agents/a.md")
    given = json.dumps(arguments)
    verdict = judge_reach(found.agents, found.skills, tool, given)
    verdict = verdict or judge(found.permissions, tool, given, Workspace(tmp_path))
    assert (verdict is not None and verdict.kind == "deny") == refused


def test_skills_are_named_in_the_prompt(load):
    assert "Skills for your work: pdf, xls." in load(HEAD + "skills: pdf, xls").profile().prompt
    assert load(HEAD).profile().prompt == "Do it."


def test_servers_in_a_file_are_kept_and_not_started(load):
    found = load(HEAD + "mcpServers:\n  - docs\n  - gh: {command: gh-mcp, args: [serve]}")
    assert found.servers == ("docs", "gh")
    assert found.own_servers == {"gh": {"command": "gh-mcp", "args": ["serve"]}}


@pytest.mark.parametrize(
    ("front", "line", "message"),
    [
        ("capabilities:\n  restricted_tools: [Bash]", 4, "capabilities.restricted_tools has no effect"),
        ("forbidden_paths: [secrets]", 4, "forbidden_paths has no effect"),
        ("metadata:\n  tags: [a]", 0, ""), ("allowed_tools: Read", 4, "it is read as tools"),
    ],
)  # fmt: skip
def test_keys_that_look_like_a_restriction_are_reported(load, front, line, message):
    found = load(HEAD + front)
    assert [(each.line, message in each.message) for each in found.problems] == (
        [(line, True)] if line else []
    )


CODEX = """\
name = "scout"
description = "Reads."
model = "gpt-5.5"
sandbox_mode = "read-only"
developer_instructions = \"\"\"
You scout.
\"\"\"
[mcp_servers.docs]
command = "docs-mcp"
"""


def test_agents_of_codex(tmp_path):
    file = tmp_path / ".codex/agents/other.toml"
    file.parent.mkdir(parents=True)
    file.write_text(CODEX)
    found = load_definition(file)
    assert (found.name, found.kind, found.model, found.prompt) == (
        "scout",
        "codex",
        "openai/gpt-5.5",
        "You scout.",
    )
    assert found.tools.deny == ("write",)
    assert found.permissions == (Permission("ask", "run_terminal_cmd"),)
    assert found.own_servers == {"docs": {"command": "docs-mcp"}}
    assert [each.line for each in found.problems] == [8]


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ('name = "a"\ndescription = oops\n', 2, "not valid TOML"), ("name = \"a\"\ndescription = 'd'\n", 1, "no prompt"),
        ("developer_instructions = ''\nname = 'a'\ndescription = 'd'", 1, "developer_instructions is empty"),
        ("", 1, "no fields"),
    ],
)  # fmt: skip
def test_codex_files_that_do_not_load_say_why(tmp_path, text, line, why):
    (tmp_path / "a.toml").write_text(text)
    found = load_definition(tmp_path / "a.toml")
    assert why in found.error
    assert any(each.fatal and each.line == line for each in found.problems), told(found)


# --- forms of answers -----------------------------------------------------------------------------

FORM = """\
answer:
  summary: text
  verdict: pass | fail
  problems:
    - file: path
      line: line
      note?: text
"""


def test_a_custom_form_is_shown_to_the_model(load):
    found = load(HEAD + FORM)
    assert not found.problems
    prompt = found.profile().prompt
    assert '"verdict": "pass" or "fail"' in prompt
    assert '"line": number of a line in that file, "note": text (optional)' in prompt
    assert load(HEAD + FORM, "End with:\n```json\n{}\n```").profile().prompt.count("```json") == 1
    assert '"severity": "critical" or' in load(HEAD + "answer: review").profile().prompt


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ("{summary: poem}", "summary is 'poem'"), ("{a: []}", "a must be a list with one entry"),
        ("{a: [text, text]}", "one entry"), ("{a: {}}", "a has no fields"), ("{}", "it has no fields"),
        ("{'a b': text}", "is not a valid name"), ("{a: {b: poem}}", "a.b is"),
        ("{a: text, 'a?': text}", "occurs twice"),
        ("{a: {b: {c: {d: {e: {f: text}}}}}}", "5 levels deep"), ("{a: [[text]]}", "list of lists"),
    ],
)  # fmt: skip
def test_an_unusable_form_is_reported(load, form, why):
    found = load(HEAD + f"answer: {form}")
    assert found.form is None
    assert why in told(found)
    assert found.problems[0].line == 4


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ('{"summary": "s", "verdict": "pass", "problems": []}', ""),
        ('{"summary": "s", "verdict": "pass", "problems": [{"file": "a.py", "line": 2}]}', ""),
        ('{"summary": "s", "verdict": "perhaps", "problems": []}', "Invalid enum value 'perhaps'"),
        ('{"verdict": "pass", "problems": []}', "missing required field `summary`"),
        ('{"summary": "s", "verdict": "pass", "problems": [{"file": "a.py", "line": 9}]}', "no line 9"),
        ('{"summary": "s", "verdict": "pass", "problems": [{"file": "b.py", "line": 1}]}', "no file 'b.py'"),
    ],
)  # fmt: skip
def test_a_custom_form_is_checked(load, tmp_path, answer, why):
    (tmp_path / "a.py").write_text("x = 1\ny = 2\n")
    message = AssistantMessage((Text(f"Done.\n```json\n{answer}\n```"),))
    found = check(load(HEAD + FORM).form, [message], Workspace(tmp_path))
    assert why in found
    assert bool(why) == bool(found)


@pytest.mark.parametrize(
    ("place", "front", "allow", "deny"),
    [
        (".gemini/agents/a.md", "tools: [read_file, run_shell_command, replace]", ("read_file", *SHELL, *EDIT), ()),
        (".gemini/agents/a.md", "tools: [mcp_*]", ("*__*",), ()),
        (".gemini/agents/a.md", "tools: [mcp_gh_*]", ("gh__*",), ()),
        (".gemini/agents/a.md", "tools: [mcp_a_b_c]", ("a__b_c", "a_b__c"), ()),
        (".opencode/agents/a.md", "tools: {write: false, bash: false}", None, ("write_file", "delete_file", *SHELL)),
        (".opencode/agents/a.md", "tools: {'*': false, read: true}", ("read_file",), ()),
        (".opencode/agents/a.md", "tools: {gh_*: false}", None, ("gh__*",)),
        (".opencode/agents/a.md", "permission: {edit: deny}", None, ("write",)),
        (".opencode/agents/a.md", "permission: {edit: deny, bash: ask}", None, ("write",)),
        (".opencode/agents/a.md", "permission: {edit: {'*': deny, 'a/*': allow}}", None, ()),
        (".claude/agents/a.md", "disallowedTools: Read", None, ("read_file", *LOOKUP)),
        (".claude/agents/a.md", "disallowedTools: Grep", None,
         ("search_files", "semantic_search", "find_definition", "find_references")),
        (".gemini/agents/a.md", "excludeTools: [replace]", None, (*EDIT, "rename_symbol")),
        (".codex/agents/a.md", "disallowedTools: apply_patch", None, ("write",)),
        (".github/agents/a.agent.md", "tools: [read, search]", ("read_file", *SEARCH), ()),
        (".github/agents/a.agent.md", "tools: [edit]", ("write_file", *EDIT, "delete_file"), ()),
        (".github/agents/a.agent.md", "tools: ['gh/*', 'gh/list']", ("gh__*", "gh__list"), ()),
        (".github/agents/a.agent.md", "tools: ['search/codebase', 'edit/editFiles']",
         ("read_file", *SEARCH, "write_file", *EDIT, "delete_file"), ()),
        (".github/agents/a.agent.md", "tools: ['codebase', 'usages']", ("read_file", *SEARCH), ()),
        (".github/agents/a.agent.md", "tools: ['editFiles']", ("read_file", "write_file", *EDIT, "delete_file"), ()),
        (".github/agents/a.agent.md", "tools: ['usages']", ("read_file", "search_files"), ()),
        (".github/agents/a.agent.md", "tools: ['changes']", ("read_file",), ()),
        (".github/agents/a.agent.md", "tools: ['runInTerminal', 'fetch', 'problems']",
         (*SHELL, "web_fetch", "read_lints"), ()),
        (".github/agents/a.agent.md", "disallowedTools: ['codebase']", None, (*SEARCH, *LOOKUP)),
        (".claude/agents/a.md", "tools: usages", ("search_files",), ()),
        (".github/agents/a.agent.md", "tools: []", (), ()),
        (".claude/agents/a.md", "disallowedTools: Edit, Write", None, ("write", "write_file", "delete_file")),
        (".claude/agents/a.md", "permissionMode: plan", None, ("write", "execute")),
        (".hilum/agents/a.md", "kind: agent\ntools: {allow: [read, Bash]}", ("read", *SHELL), ()),
        (".hilum/agents/a.md", "kind: agent\ntools: {allow: []}", (), ()),
        (".hilum/agents/a.md", "kind: agent\ntools: {deny: [Write]}", None, ("write_file", "delete_file")),
    ],
)  # fmt: skip
def test_tools_of_the_dialects(load, place, front, allow, deny):
    found = load(HEAD + front, place=place)
    assert found.tools.allow == allow
    assert set(found.tools.deny) == set(deny)
    assert not found.error


@pytest.mark.parametrize(
    ("written", "model", "warning"),
    [
        ("sonnet", "", ""), ("opus", "", ""), ("inherit", "", ""), ("haiku", "fast", ""), ("fast", "fast", ""),
        ("anthropic/claude-x", "anthropic/claude-x", ""), ("google/gemini-3", "gemini/gemini-3", ""),
        ("claude-sonnet-4-5", "anthropic/claude-sonnet-4-5", ""), ("gemini-2.5-pro", "gemini/gemini-2.5-pro", ""),
        ("Claude Sonnet 4.5", "anthropic/claude-sonnet-4-5", "is read as"), ("GPT-5 (copilot)", "openai/gpt-5", "is read as"),
        ("[Claude Sonnet 4.5, GPT-5]", "anthropic/claude-sonnet-4-5", "Only the first of the models"),
        ("sonnet|opus|haiku", "", "is not a model name"), ("wibble", "wibble", "names no provider"), ("[]", "", "is empty"),
        ("{a: b}", "", "not a mapping"), ("a b c", "", "is not a model name"),
    ],
)  # fmt: skip
def test_models(load, written, model, warning):
    found = load(f"{HEAD}model: {written}")
    assert found.model == model
    assert warning in told(found)
    assert bool(warning) == bool(found.problems)


@pytest.mark.parametrize(
    ("place", "front", "name", "title"),
    [
        (".opencode/agents/My Agent.md", "description: d", "my-agent", "My agent"),
        (".github/agents/db.agent.md", "name: Data Base Expert\ndescription: d", "db", "Data Base Expert"),
        (".claude/agents/x.md", "name: Code Reviewer\ndescription: d", "code-reviewer", "Code Reviewer"),
        (".claude/agents/x.md", "description: d", "x", "X"),
        (".claude/agents/x.md", "name: 3d\ndescription: d", "agent-3d", "3d"),
        (".claude/agents/x.md", "name: main\ndescription: d", "agent-main", "main"),
        (".claude/agents/x.md", f"name: {'a' * 99}\ndescription: d", "a" * 64, "a" * 99),
    ],
)  # fmt: skip
def test_names(load, place, front, name, title):
    found = load(front, place=place)
    assert (found.name, found.title) == (name, title)
    assert not found.error


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("You are an agent.", "no front matter"), ("", "no front matter"), ("---\n---\nDo it.", "no fields"),
        ("---\nname: a\ndescription: d\n---\n", "no prompt"), ("---\n- a\n- b\n---\nDo it.", "no f"),
        ("---\nkind: remote\nname: a\ndescription: d\n---\nx", "remote agent"),
        ("---\ndescription: d\ndisable: true\n---\nx", "switched off"),
    ],
)  # fmt: skip
def test_a_file_that_does_not_load_has_a_reason(tmp_path, text, why):
    (tmp_path / "a.md").write_text(text)
    found = load_definition(tmp_path / "a.md")
    assert why in found.error
    assert any(each.fatal for each in found.problems)


def test_a_file_that_cannot_be_read(tmp_path):
    assert "cannot be read" in load_definition(tmp_path / "none.md").error
    assert (
        "no plain file" in load_definition(tmp_path).error
        or "directory" in load_definition(tmp_path).error
    )


@pytest.mark.parametrize("size", [MAX_PROMPT + 1, 1_900_000, 5_000_000])
def test_a_huge_prompt_is_cut_and_reported(load, size):
    found = load(HEAD, "x" * size)
    assert len(found.prompt) <= MAX_PROMPT
    assert any(each.fatal for each in found.problems)


@pytest.mark.parametrize(
    ("front", "line", "message"),
    [
        ("permissionMode: bypassPermissions", 4, "cannot extend an agent"), ("permissionMode: acceptEdits", 4, "cannot extend"),
        ("hooks: {PreToolUse: []}", 4, "not run"), ("isolation: worktree", 4, "ignored"), ("maxTurns: many", 4, "above 0"),
        ("maxTurns: -1", 4, "above 0"),
        ("limits: 5", 4, "must be a mapping with turns, timeout and token_limit, not '5'"),
        ("limits: {turn: 5}", 4, "limits.turn is not a known key (did you mean turns?)"),
        ("mcpServers: {gh: {command: x}}", 4, "are not started: gh"),
        ("permissions: {allow: [Bash]}", 4, "permissions.allow cannot extend an agent"),
        ("permissions: deny", 4, "must be a mapping with deny and ask, not 'deny'"),
        ("answer: poem", 4, "answer must be one of explore, review, test, doc, refactor or a mapping, not 'poem'"),
        ("kind: poem", 4, "kind must be agent, not 'poem'"),
        ("permission: {edit: perhaps}", 4, "must be allow, ask or deny, not 'perhaps'"), ("name: b", 4, ""),
    ],
)  # fmt: skip
def test_problems_are_reported_with_their_line(load, front, line, message):
    found = load(HEAD + front)
    assert not found.error
    assert any(each.line == line and message in each.message for each in found.problems), told(
        found
    )


def test_a_misspelt_key_is_reported_with_the_one_that_is_meant(load):
    """Keys of other programs are legal, as long as they are not similar to a known one."""
    front = (
        "toolz: [read_file]\npermisions: {deny: [x]}\nlimits: {turnz: 3}\nMax-Turn: 3\n"
        "answer: tests\nmode: subagent\ncolor: red\nmodels: [a]\nargument-hint: x"
    )
    found = load(HEAD + front, place=".hilum/agents/a.md")
    assert [(each.line, each.message) for each in found.problems] == [
        (4, "'toolz' is not a known key (did you mean tools?); it is ignored."),
        (5, "'permisions' is not a known key (did you mean permissions?); it is ignored."),
        (6, "limits.turnz is not a known key (did you mean turns?); it is ignored."),
        (7, "'Max-Turn' is not a known key (did you mean maxTurns?); it is ignored."),
        (
            8,
            "answer must be one of explore, review, test, doc, refactor or a mapping, not 'tests'"
            " (did you mean test?); it is ignored.",
        ),
    ]


def test_all_mistakes_of_a_file_are_reported_at_once(load):
    """One wrong field costs no other field."""
    front = (
        "title: Fine\nlimits: {turns: many, timeout: 9, time: 5}\nanswer: poem\nmaxTurns: 3\n"
        "permissions: {deny: [web_fetch], allow: [read], extra: 1}"
    )
    found = load(HEAD + front, place=".hilum/agents/a.md")
    assert [(each.line, each.message) for each in found.problems] == [
        (5, "limits.turns must be a number above 0, not 'many'; it is ignored."),
        (5, "limits.time is not a known key (did you mean timeout?); it is ignored."),
        (
            6,
            "answer must be one of explore, review, test, doc, refactor or a mapping, not 'poem';"
            " it is ignored.",
        ),
        (8, "permissions.allow cannot extend an agent's permissions; it is ignored."),
        (8, "permissions.extra is not a known key (known: deny, ask); it is ignored."),
    ]
    assert (found.title, found.turns, found.timeout) == ("Fine", 10, 9)
    assert found.permissions == (Permission("deny", "web_fetch"),)


def test_limits_of_other_programs(load):
    assert load(HEAD + "maxTurns: 7").turns == 7
    assert load(HEAD + "steps: 7", place=".opencode/agents/a.md").turns == 7
    found = load(HEAD + "max_turns: 3\ntimeout_mins: 2", place=".gemini/agents/a.md")
    assert (found.turns, found.timeout) == (3, 120)
    found = load(HEAD, place=".gemini/agents/a.md")
    assert (found.turns, found.timeout) == (30, 600)


# --- permissions ----------------------------------------------------------------------------------


OWN_PLACE = ".hilum/agents/a.md"


def verdict(load, tmp_path, front, tool, place=".claude/agents/a.md", **arguments):
    found = judge(
        load(HEAD + front, place=place).permissions,
        tool,
        json.dumps(arguments),
        Workspace(tmp_path),
        touched=arguments.get("files", ()),
    )
    return found.kind if found else None


@pytest.mark.parametrize(
    ("front", "command", "expected"),
    [
        ("tools: Bash(git:*)", "git status", None), ("tools: Bash(git:*)", "ls", "deny"),
        ("tools: Bash(git:*)", "git status && rm -rf x", "deny"), ("tools: Bash(git:*)", "git log | head", "deny"),
        ("tools: Bash(git:*)", "git $(rm x)", "deny"), ("tools: Bash(git:*), Bash", "ls", None),
        ("tools: Bash(git:*), Bash(ls:*)", "git status && ls -l", None), ("disallowedTools: Bash(rm:*)", "rm x", "deny"),
        ("disallowedTools: Bash(rm:*)", "ls; rm x", "deny"), ("disallowedTools: Bash(rm:*)", "ls", None),
        ("permission: {bash: {'*': ask, 'git diff': allow}}", "git diff", None),
        ("permission: {bash: {'*': ask, 'git diff': allow}}", "git push", "ask"),
        ("permission: {bash: {'git *': deny, 'git diff': allow}}", "git diff", None),
        ("permission: {bash: {'git diff': allow, 'git *': deny}}", "git diff", "deny"),
        ("permission: {bash: {'*': allow}}", "rm -rf /", None), ("permission: {bash: allow}", "ls", None),
        ("permissions: {deny: ['run_terminal_cmd(git push *)']}", "git push origin", "deny"),
        ("permissions: {deny: ['run_terminal_cmd(git push *)']}", "git -C x push", "deny"),
        ("permissions: {deny: [Bash], ask: [Bash]}", "ls", "deny"),
    ],
)  # fmt: skip
def test_permissions_narrow_commands(load, tmp_path, front, command, expected):
    assert verdict(load, tmp_path, front, "run_terminal_cmd", command=command) == expected


def test_permissions_narrow_paths(load, tmp_path):
    front = "permission: {edit: {'*': deny, 'docs/**': allow}}"
    assert verdict(load, tmp_path, front, "write_file", path="docs/a.md") is None
    assert verdict(load, tmp_path, front, "write_file", path="src/a.py") == "deny"
    assert verdict(load, tmp_path, front, "edit_file", path="docs/../src/a.py") == "deny"
    assert verdict(load, tmp_path, front, "read_file", path="src/a.py") is None
    # A rename changes all files in which the name occurs.
    touched = {"path": "docs/a.md", "files": ["docs/a.md", "src/a.py"]}
    assert verdict(load, tmp_path, front, "rename_symbol", **touched) == "deny"
    assert verdict(load, tmp_path, front, "forget", number=1) == "deny"
    own = "permissions: {deny: ['write(src/**)']}"
    assert verdict(load, tmp_path, own, "write_file", OWN_PLACE, path="src/a.py") == "deny"
    assert verdict(load, tmp_path, own, "write_file", OWN_PLACE, path="docs/a.py") is None


# --- everything -----------------------------------------------------------------------------------

SAMPLES = [
    OWN, HEAD + "tools: Read, Bash(git:*)\nmodel: sonnet", HEAD + "tools: {write: false}\npermission: {bash: {'*': ask}}",
    HEAD + "tools: ['*']\nmodel: [GPT-5]\nhandoffs: [{label: x}]", HEAD + "kind: local\ntools: [mcp_*]\ntimeout_mins: 5",
    HEAD + "mcpServers: [a, {b: {command: c}}]\nskills: x, y", HEAD + FORM, CODEX,
    HEAD + "description: a: b\ntools:\n  - Read\n - Grep",
]  # fmt: skip
PLACES = [
    ".claude/agents/a.md",
    ".gemini/agents/a.md",
    ".opencode/agents/a.md",
    ".github/agents/a.agent.md",
    ".hilum/agents/a.md",
    ".cursor/agents/a.md",
    ".codex/agents/a.toml",
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_nothing_makes_it_crash(tmp_path, data):
    """Any mutation of a sample loads or has an error.

    Pieces are removed from samples and inserted into them.
    """
    text = f"---\n{data.draw(st.sampled_from(SAMPLES))}\n---\nDo it.\n"
    for _ in range(data.draw(st.integers(1, 4))):
        at, end = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
        piece = data.draw(
            st.sampled_from(
                [
                    "",
                    ":",
                    "\n",
                    "---\n",
                    "[",
                    "{",
                    "- ",
                    "\t",
                    "&a ",
                    "*a",
                    "'",
                    '"',
                    "\x00",
                    "é",
                    ", ",
                    "(",
                    "|",
                ]
            )
        )
        text = text[:at] + piece + text[min(end, at + data.draw(st.integers(0, 12))) :]
    file = tmp_path / data.draw(st.sampled_from(PLACES))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode(errors="replace"))
    found = load_definition(file)
    assert found.name
    assert len(found.name) <= 64
    assert all(1 <= each.line <= text.count("\n") + 2 and each.message for each in found.problems)
    if found.error:
        assert any(each.fatal for each in found.problems)
    judge(found.permissions, "run_terminal_cmd", '{"command": "git status"}', Workspace(tmp_path))


@pytest.mark.slow(cases=3)
@settings(max_examples=settings.default.max_examples // 3, deadline=None)
@given(
    value=st.recursive(
        st.none() | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
        ),
    )
)
@pytest.mark.parametrize(
    "key", ["tools", "skills", "disallowedTools", "permission", "model", "permissionMode"]
)
def test_values_of_any_shape_are_taken(tmp_path_factory, key, value):
    """A key that narrows an agent takes effect or is reported, whatever its value.

    Only an empty value is ignored silently.
    """
    file = tmp_path_factory.getbasetemp() / "shapes" / ".claude" / "agents" / "x.md"
    file.parent.mkdir(parents=True, exist_ok=True)

    def says(value):
        if isinstance(value, dict):
            return any(key.strip() for key in value)
        return any(map(says, value)) if isinstance(value, list) else bool(value and value.strip())

    def load(front):
        file.write_text(f"---\n{json.dumps({'name': 'x', 'description': 'd'} | front)}\n---\nHi.\n")
        found = load_definition(file)
        return found, (found.tools, found.skills, found.permissions, found.model)

    usual = load({})[1]
    found, read = load({key: value})
    star = key == "tools" and "*" in str(value)  # also without the key
    assert not says(value) or star or read != usual or found.problems, value
    assert not found.error


def test_built_in_agents_are_without_fault():
    found = {path.stem: load_definition(path, scope="builtin") for path in BUILTIN.glob("*.md")}
    assert set(found) == {"explore", "review", "test", "doc", "refactor"}
    for name, definition in found.items():
        assert (definition.name, definition.answer, definition.problems, definition.error) == (
            name,
            name,
            (),
            "",
        )
    for name in ("explore", "review"):  # they read only
        assert not any(
            found[name].tools.admits(tool, "write")
            for tool in ("write_file", "edit_file", "run_terminal_cmd")
        )
    assert Path(BUILTIN / "review.md").is_file()


@pytest.mark.parametrize(
    ("file", "front", "name"),
    [
        ("fixer.md", "name: 修复者\ndescription: d", "fixer"),
        ("修复.md", "name: fixer\ndescription: d", "fixer"),
        ("修复.md", "name: 修 fix\ndescription: d", "fix"),
        ("reviewer.md", "name: 123\ndescription: d", "reviewer"),
    ],
)
def test_a_name_without_ascii_letters_falls_back_to_the_name_of_the_file(load, file, front, name):
    found = load(front, place=f".claude/agents/{file}")
    assert found.name == name


def test_names_without_any_ascii_letter_differ(load):
    """Two agents with Chinese names do not hide each other."""
    first = load("name: 修复者\ndescription: d", place=".claude/agents/修复.md")
    second = load("name: 审查者\ndescription: d", place=".claude/agents/审查.md")
    assert first.name.startswith("agent-")
    assert second.name.startswith("agent-")
    assert first.name != second.name
    assert load("name: 修复者\ndescription: d", place=".claude/agents/b/修复.md").name == first.name


@pytest.mark.parametrize(
    ("tools", "is_warned"),
    [
        ("[Edit, Write]", True),
        ("[Edit, Read]", False),
        ("[Edit, Bash]", False),
        ("[Grep]", False),
    ],
)
def test_validate_warns_of_an_agent_that_can_write_but_not_read(load, tools, is_warned):
    definition = load(f"{HEAD}tools: {tools}", place=".claude/agents/a.md")
    found = check_entry(CatalogEntry(definition, "a file"), [*KNOWN.items()])
    warnings = [each.message for each in found if "but not read them" in each.message]
    assert bool(warnings) == is_warned


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("", "tools: all {all}"),
        ("disallowedTools: Write", "all except "),
        ("tools: [Grep]", "tools: 1 of {all}: search_files"),
    ],
)
def test_validate_lists_the_tools_or_those_that_are_missing(load, written, said):
    """Whichever list is shorter, because most agents have all tools."""
    definition = load(f"{HEAD}{written}", place=".claude/agents/a.md")
    found = check_entry(CatalogEntry(definition, "a file"), [*KNOWN.items()])
    (tools,) = [each.message for each in found if each.message.startswith("tools: ")]
    assert said.format(all=len(KNOWN)) in tools
    assert ("write_file" in tools) == ("Write" in written)
