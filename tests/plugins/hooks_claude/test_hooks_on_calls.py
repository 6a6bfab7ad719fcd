"""Hooks that judge tool calls and read their results, in a real session with a real sandbox."""

import json
import sys
from pathlib import Path

import pytest
from hilum.events import ApprovalAsked
from hilum.testing import say, use
from hilum_files import Changes
from hook_places import group, ran


async def test_exit_code_two_denies_the_call_with_the_reason(place):
    place.user_hooks({"PreToolUse": group("echo 'no pushes here' >&2; exit 2", "Bash")})
    async with place.open() as bench:
        result = await bench.call("run_terminal_cmd", command="echo hello")
        assert result.code == "E_DENIED"
        assert "no pushes here" in result.text
        assert "~/.claude/settings.json:7" in result.text
        (data,) = ran(bench)
        assert data["hooks"][0]["answer"]["decision"] == "deny"
        assert data["say"].startswith("Hook (PreToolUse, run_terminal_cmd): ")
        other = await bench.call("list_directory", path=".")
        assert not other.code


async def test_hook_reads_the_call_as_claude_code_describes_it(place):
    place.user_hooks({"PreToolUse": group("cat >&2; exit 2", "Write")})
    async with place.open() as bench:
        result = await bench.call("write_file", path="a/b.txt", content="x")
        given = json.loads(result.text[result.text.index("{") : result.text.rindex("}") + 1])
    assert given["hook_event_name"] == "PreToolUse"
    assert given["tool_name"] == "Write"
    assert given["tool_input"] == {
        "file_path": str(place.project / "a/b.txt"),
        "content": "x",
    }
    assert given["cwd"] == str(place.project)
    assert given["session_id"] == bench.session.id
    assert not (place.project / "a").exists()


async def test_updated_input_runs_and_is_judged_again(place):
    script = (
        "import json,sys; d=json.load(sys.stdin); c=d['tool_input']['command'];"
        "print(json.dumps({'hookSpecificOutput': {'hookEventName': 'PreToolUse',"
        " 'permissionDecision': 'allow', 'updatedInput': {'command': 'echo changed; '+c}}}))"
    )
    other = "import json,sys; sys.exit(2 if 'forbidden' in sys.stdin.read() else 0)"
    place.user_hooks(
        {
            "PreToolUse": group(f'python3 -c "{script}"', "Bash")
            + group(f'python3 -c "{other}"', "Bash")
        }
    )
    async with place.open() as bench:
        result = await bench.call("run_terminal_cmd", command="echo hello")
        assert "changed\nhello" in result.text
        # The second hook judged both forms, the first one only the model's.
        assert [len(data["hooks"]) for data in ran(bench, "PreToolUse")] == [2, 1]


async def test_changed_call_passes_all_gates_again(place):
    script = (
        "import json; print(json.dumps({'hookSpecificOutput': {'hookEventName': 'PreToolUse',"
        " 'permissionDecision': 'allow', 'updatedInput': {'command': 'rm -rf /'}}}))"
    )
    place.user_hooks({"PreToolUse": group(f'python3 -c "{script}"', "Bash")})
    async with place.open() as bench:
        result = await bench.call("run_terminal_cmd", command="echo hello")
        assert result.code in ("E_BLOCKED", "E_DENIED")
        assert "hook" not in result.text.lower()


async def test_allow_does_not_override_a_denial_or_a_question(place):
    place.user_hooks(
        {"PreToolUse": group("""echo '{"decision": "approve", "reason": "fine"}'""", "*")}
    )
    async with place.open(kind="headless") as bench:
        result = await bench.call("run_terminal_cmd", command="rm -rf ~")
        assert result.code
    async with place.open(kind="headless", approve="ask_first") as bench:
        # The user's own hook answers the question of the approval policy …
        result = await bench.call("run_terminal_cmd", command="echo hello")
        assert "hello" in result.text


async def test_hook_of_a_project_spares_no_question(place):
    answer = """echo '{"hookSpecificOutput": {"permissionDecision": "allow"}}'"""
    place.project_hooks({"PreToolUse": group(answer, "Bash")})
    async with place.open(kind="headless", approve="ask_first") as bench:
        result = await bench.call("run_terminal_cmd", command="touch x")
        assert result.code == "E_DENIED"
        assert len(ran(bench)) == 1


async def test_ask_asks_the_user(place):
    answer = (
        """echo '{"hookSpecificOutput": {"permissionDecision": "ask","""
        """ "permissionDecisionReason": "look first"}}'"""
    )
    place.user_hooks({"PreToolUse": group(answer, "Bash")})
    async with place.open(
        answers=[use("run_terminal_cmd", command="echo hello"), say("Done.")]
    ) as b:
        run = await b.start("go")
        asked = await b.wait_for(ApprovalAsked)
        assert "look first" in asked.reason
        b.session.answer(asked.id, True)
        await run.wait()
        assert "hello" in b.result("run_terminal_cmd").text
        # The approved call is judged again, but the hook runs once.
        assert len(ran(b)) == 1


async def test_result_is_read_and_completed(place):
    place.user_hooks(
        {
            "PostToolUse": group(
                'python3 -c "import json,sys; d=json.load(sys.stdin);'
                " print(json.dumps({'decision': 'block', 'reason':"
                " 'saw '+d['tool_response']['stdout'].strip()}))\"",
                "Bash",
            ),
            "PostToolUseFailure": group("echo failed >&2; exit 2"),
        }
    )
    async with place.open() as bench:
        result = await bench.call("run_terminal_cmd", command="echo hello")
        assert "objects: saw " in result.text
        assert result.text.endswith("hello]")
        assert not result.code
        result = await bench.call("read_file", path="missing.txt")
        assert result.code
        assert "objects: failed]" in result.text


async def test_formatter_changes_the_file_and_can_be_undone(place):
    formatter = (
        'python3 -c "import json,sys,pathlib; d=json.load(sys.stdin);'
        " p=pathlib.Path(d['tool_input']['file_path']); p.write_text(p.read_text().upper())\""
    )
    place.user_hooks({"PostToolUse": group(formatter, "Edit|Write|MultiEdit")})
    async with place.open() as bench:
        await bench.call("write_file", path="a.txt", content="small\n")
        assert (place.project / "a.txt").read_text() == "SMALL\n"
        changes = bench.session.plugin(Changes)
        whats = [record.what for record in changes.records("session")]
        assert any(what.startswith("hook ") for what in whats)
        await changes.undo("session")
        assert not (place.project / "a.txt").exists()


async def test_hook_need_not_read_a_large_input(place):
    place.user_hooks({"PreToolUse": group("echo too large >&2; exit 2", "Write")})
    async with place.open() as bench:
        result = await bench.call("write_file", path="a.txt", content="x" * 500_000)
        assert "too large" in result.text


@pytest.mark.parametrize("tool_name", ["rename_symbol", "find_references", "find_definition"])
async def test_guards_for_editing_and_reading_cover_language_servers(place, tool_name):
    """Nobody who comes from Claude Code can have named these tools in a matcher."""
    matcher = "Edit|Write|MultiEdit" if tool_name == "rename_symbol" else "Read|Grep"
    place.user_hooks({"PreToolUse": group("cat >> seen.jsonl; echo guarded >&2; exit 2", matcher)})
    place.write("pyproject.toml", "[tool.ty]\n")
    file = place.write("m.py", "total = 1\nprint(total)\n")
    server = place.project / ".venv/bin/ty"
    server.parent.mkdir(parents=True)
    server.symlink_to(Path(sys.executable).with_name("ty"))
    arguments = {"name": "total", "path": "m.py"}
    if tool_name == "rename_symbol":
        arguments["new_name"] = "total2"
    settings = {"approve": "auto", "lint.trusted": [str(place.project)]}
    async with place.open("lint", "lsp", settings=settings) as bench:
        result = await bench.call(tool_name, **arguments)
    assert result.code == "E_DENIED"
    assert "guarded" in result.text
    assert file.read_text().startswith("total = 1")
    assert f'"file_path":"{file}"' in (place.project / "seen.jsonl").read_text()
