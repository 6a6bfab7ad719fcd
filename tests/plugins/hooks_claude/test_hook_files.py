"""Settings files with mistakes, matchers, conditions and the inputs of tools."""

import json
import os
from pathlib import Path

import pytest
from hilum import Tool, tool
from hilum_hooks_claude.answers import Answer, read_answer
from hilum_hooks_claude.hook import Hook
from hilum_hooks_claude.matching import fits_condition, matches
from hilum_hooks_claude.runner import make_command
from hilum_hooks_claude.settings_files import MAX_HOOKS, parse_settings, read_file, read_files
from hilum_hooks_claude.tool_inputs import describe_call

ROOT = Path("/project")
COMMENTED = """\
// The team's settings.
{
  "model": "opus", /* not
  hilum's business */
  "permissions": {"deny": ["Bash(rm *)"]},
  "hooks": {
    "PreToolUse": [
      {"matcher": "Bash", "hooks": [
        {"type": "command", "command": "echo '// no comment', ok", "timeout": 5},
      ]},
    ],
    "Stop": [
      {"hooks": [{"command": "notify"}, {"type": "prompt", "prompt": "Is it done?"}]},
      {"command": "old form"},
      "neither",
      {"matcher": 7, "hooks": []},
      {"hooks": [{"type": "command"}, 3, {"command": "x", "timeout": "soon"}]},
      {"hooks": [{"command": "x", "args": "y"}, {"command": "x", "if": true}]},
    ],
    "SessionStart": {"hooks": []},
    "BeforeTool": [{"hooks": [{"command": "gemini"}]}],
  },
}
"""


def parse(text):
    """Return the settings in a text."""
    return parse_settings(text, Path("x"), ".claude/settings.json", "project")


def test_file_with_comments_commas_and_mistakes():
    file = parse(COMMENTED)
    supported = [hook for hook in file.hooks if not hook.unsupported]
    assert [(hook.event, hook.command, hook.line, hook.timeout) for hook in supported] == [
        ("PreToolUse", "echo '// no comment', ok", 9, 5.0),
        ("Stop", "notify", 13, 0.0),
    ]
    others = [(hook.command, hook.unsupported) for hook in file.hooks if hook.unsupported]
    assert others[0] == ("Is it done?", "hilum runs commands only, not hooks of the type 'prompt'")
    assert others[1] == ("gemini", "Claude Code has no event 'BeforeTool'")
    problems = [str(mistake) for mistake in file.mistakes]
    assert len(problems) == 9
    assert problems[0].startswith(".claude/settings.json:14: An entry of `Stop` has no list")
    assert problems[-1] == ".claude/settings.json:20: `SessionStart` is not a list."


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{\n "hooks": {\n  "Stop": [}\n}', ".claude/settings.json:3: It is not JSON"),
        ("[]", ":1: It is not an object"),
        ('{"hooks": []}', ":1: `hooks` is not an object"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_broken_file_is_reported_with_its_line(text, problem):
    (mistake,) = parse(text).mistakes
    assert problem in str(mistake)


def test_unreadable_files(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    large = tmp_path / "large"
    large.write_bytes(b" " * 1_000_001)
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe{")
    for path in (pipe, large, binary, tmp_path / "missing", tmp_path):
        assert read_file(path, "shown", "user").mistakes
    assert not parse("").mistakes


def test_a_link_out_of_the_project_is_not_followed(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    project = tmp_path / "project/part"
    (project / ".claude").mkdir(parents=True)
    (tmp_path / "project/.git").mkdir()
    text = json.dumps({"hooks": {"Stop": [{"hooks": [{"command": "x"}]}]}})
    (tmp_path / "outside.json").write_text(text)
    (tmp_path / "project/shared.json").write_text(text)
    (project / ".claude/settings.json").symlink_to(tmp_path / "outside.json")
    (project / ".claude/settings.local.json").symlink_to("../../shared.json")
    outside, local = read_files(project)
    assert not outside.hooks
    assert "leads out of the project" in str(outside.mistakes[0])
    assert [hook.command for hook in local.hooks] == ["x"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_files_of_windows_are_read(encoding, tmp_path):
    text = '{"hooks": {\r\n"Stop": [{"hooks": [{"command": "x"}]}]}}'
    (tmp_path / "settings.json").write_bytes(text.encode(encoding))
    file = read_file(tmp_path / "settings.json", "shown", "user")
    assert [(hook.command, hook.line) for hook in file.hooks] == [("x", 2)]


def test_an_unknown_event_without_hooks_is_reported():
    file = parse('{"hooks": {"Bogus": [], "Stop": []}}')
    (mistake,) = file.mistakes
    assert "`Bogus` contains no hook, and Claude Code has no event 'Bogus'." in str(mistake)


def test_number_of_hooks_is_limited():
    hooks = [{"command": f"c{number}"} for number in range(MAX_HOOKS + 2)]
    file = parse(json.dumps({"hooks": {"Stop": [{"hooks": hooks}]}}))
    assert len(file.hooks) == MAX_HOOKS
    assert "left out" in str(file.mistakes[0])


def test_home_folder_as_a_project_has_its_file_once(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/settings.json").write_text("{}")
    (tmp_path / ".claude/settings.local.json").write_text("{}")
    assert [file.source for file in read_files(tmp_path)] == ["user", "local"]


@pytest.mark.parametrize(
    ("matcher", "name", "expected"),
    [
        ("", "Bash", True),
        ("*", "Bash", True),
        ("Bash", "Bash", True),
        ("Bash", "BashOutput", False),
        ("bash", "Bash", False),
        ("Edit|Write", "Write", True),
        ("Edit | Write", "Write", True),
        ("Edit,Write", "Write", True),
        ("Edit|Write", "MultiEdit", False),
        (".*Edit", "MultiEdit", True),
        ("^(Edit|Write)$", "MultiEdit", False),
        ("Notebook.*", "NotebookEdit", True),
        ("mcp__.*__write.*", "mcp__files__write_file", True),
        ("mcp__github__*", "mcp__github__issue", True),
        ("mcp__brave-search", "mcp__brave-search__query", False),
        ("*Write", "Write", True),
        ("(((", "Bash", True),
        ("Bash(git push *)", "Edit", False),
        ("(a+)+$" + "x" * 600, "Bash", True),
    ],
)
def test_matchers(matcher, name, expected):
    assert matches(matcher, name, {"command": "ls"}) == expected


@pytest.mark.parametrize(
    ("condition", "name", "value", "expected"),
    [
        ("Bash(rm *)", "Bash", "rm -rf x", True),
        ("Bash(rm *)", "Bash", "cd x && FOO=1 rm y", True),
        ("Bash(rm *)", "Bash", "format", False),
        ("Bash(git push:*)", "Bash", "git push", True),
        ("Bash(git push:*)", "Bash", "git pushy", False),
        ("Bash(rm *)", "Bash", "echo $(ls)", True),
        ("Bash", "Bash", "ls", True),
        ("Edit(*.ts)", "Edit", "/project/src/a.ts", True),
        ("Edit(*.ts)", "Write", "/project/src/a.ts", True),
        ("Edit(src/**)", "Edit", "/project/lib/a.ts", False),
        ("Edit(src/**)", "Edit", "/project/src/b/a.ts", True),
        ("Read(//etc/**)", "Read", "/etc/x/y", True),
        ("Read(~/.ssh/**)", "Read", "/home/me/.ssh/id", True),
        ("Edit(*.ts)", "Bash", "x", False),
        ("WebFetch(domain:example.com)", "WebFetch", "https://a.example.com/x", True),
        ("WebFetch(domain:example.com)", "WebFetch", "https://example.com.evil.org", False),
        ("not a rule (", "Bash", "x", True),
    ],
)
def test_conditions(condition, name, value, expected):
    key = {"Bash": "command", "WebFetch": "url"}.get(name, "file_path")
    assert fits_condition(condition, name, {key: value}) == expected


def names(name, arguments, tool=None):
    """Return the names of Claude Code's tools that a call is."""
    parts = describe_call(name, arguments, ROOT, tool=tool)
    return [[choice[0].name for choice in part if choice] for part in parts]


def test_tools_have_the_names_of_claude_code():
    edits = {"path": "a", "edits": [{"old_string": "x", "new_string": "y"}]}
    assert names("run_terminal_cmd", {"command": "ls"}) == [["Bash"]]
    assert names("read_file", {"path": "a"}) == [["Read"]]
    assert names("multi_edit", edits) == [["MultiEdit", "Edit"]]
    # Whoever guards a path or the command `rm` must see a deletion.
    assert names("delete_file", {"path": "a"}) == [["Write", "Edit"], ["Bash"]]
    assert names("list_directory", {}) == [["LS", "Glob"]]
    assert names("task", {"prompt": "x"}) == [["Task", "Agent"]]
    assert names("write_service", {"text": "rm -rf ."}) == [["Bash"]]
    assert names("guest_edit", {"paths": ["a", "b"], "change": "x"}) == [["Edit", "Write"]] * 2
    of_server = Tool("github__issue", "", print, risk="write", schema={}, plugin="mcp")
    assert names("github__issue", {"n": 1}, of_server) == [["mcp__github__issue"]]
    assert names("own_tool", {}) == [["own_tool"]]


EDITS = ["Edit", "Write", "MultiEdit"]


@pytest.mark.parametrize(
    ("kind", "arguments", "expected"),
    [
        ({"risk": "write", "writes": "target"}, {"target": "a"}, [EDITS]),
        ({"risk": "write", "writes": "target"}, {}, [EDITS]),
        ({"risk": "write"}, {}, [EDITS]),
        ({"risk": "network", "writes": "target"}, {"target": "a"}, [EDITS]),
        ({"risk": "network"}, {"target": "a"}, []),
        ({"risk": "read", "reads": "target"}, {"target": "a"}, [["Read"]]),
        ({"risk": "read", "reads": lambda given: given["many"] or ["."]}, {}, [["Read"]]),
        ({"risk": "read"}, {}, []),
        ({"risk": "execute"}, {}, []),
    ],
)
def test_tools_that_claude_code_lacks_are_what_they_do(kind, arguments, expected):
    """A guard for editing or reading need not know the names of hilum's tools."""

    @tool(**kind)
    async def own_tool(target: str = "", many: list[str] | None = None) -> str:
        """Do something.

        Args:
            target: A path.
            many: Paths.
        """
        return ""

    assert names("own_tool", arguments, own_tool) == [["own_tool"], *expected]


def test_renames_and_lookups_are_edits_and_reads():
    rename = {"name": "a", "new_name": "b", "path": "x.py"}
    assert names("rename_symbol", rename) == [["rename_symbol"]]
    files = {**rename, "files": ["x.py", "y.py"]}
    assert names("rename_symbol", files) == [["rename_symbol"], EDITS, EDITS]
    for lookup in ("find_references", "find_definition", "list_symbols", "semantic_search"):
        assert names(lookup, {"name": "a", "path": "x.py"}) == [[lookup], ["Read"], ["Grep"]]


def test_notebooks_are_also_guarded_under_their_own_tools():
    edit = {"path": "a.ipynb", "old_string": "x", "new_string": "y"}
    assert names("edit_file", edit) == [["Edit", "NotebookEdit"]]
    assert names("write_file", {"path": "a.ipynb", "content": "x"}) == [["Write", "NotebookEdit"]]
    assert names("read_file", {"path": "a.ipynb"}) == [["Read", "NotebookRead"]]
    assert names("read_file", {"path": "a.py"}) == [["Read"]]


def test_changed_inputs_become_arguments_of_our_tools():
    (((view,),),) = describe_call("read_file", {"path": "src/a.py", "limit": 5}, ROOT)
    assert view.values == {"file_path": "/project/src/a.py", "limit": 5}
    changed = {**view.values, "file_path": "/project/src/b.py"}
    assert view.restore(changed) == {"path": "src/b.py", "limit": 5}
    (((view,),),) = describe_call("run_terminal_cmd", {"command": "ls", "timeout": 3}, ROOT)
    assert view.values["timeout"] == 3000
    assert view.restore({**view.values, "command": "ls -l"}) == {"command": "ls -l", "timeout": 3}
    assert view.restore({**view.values, "timeout": 5000})["timeout"] == 5.0


def test_arguments_run_without_a_shell():
    hook = Hook("f", 1, "user", "Stop", command="python3", arguments=("${CLAUDE_PROJECT_DIR}/x y",))
    assert make_command(hook, "/p") == ("python3", "/p/x y")


@pytest.mark.parametrize(
    ("event", "stdout", "expected"),
    [
        ("PreToolUse", '{"decision": "block", "reason": "no"}', Answer("deny", "no")),
        ("PreToolUse", '{"decision": "approve"}', Answer("allow")),
        ("PreToolUse", '{"continue": true, "suppressOutput": true}', Answer(is_quiet=True)),
        ("Stop", '{"decision": "approve"}', Answer()),
        ("Stop", '{"decision": "continue"}', Answer()),
        ("Stop", "done", Answer()),
        ("SessionStart", "done", Answer(context="done")),
        ("PostToolUse", '{"systemMessage": "hi"}', Answer(message="hi")),
    ],
)
def test_answers(event, stdout, expected):
    assert read_answer(event, 0, stdout, "") == expected
