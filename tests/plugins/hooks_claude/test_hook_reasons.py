"""What a hook says, wherever it says it, and what uv says in its place."""

import json

import pytest
from hilum import PromptDenied
from hilum.testing import say
from hilum_hooks_claude.answers import read_answer
from hilum_hooks_claude.hook import Hook
from hook_places import group, ran

BLOCK = json.dumps({"decision": "block", "reason": "use the tool"})
SPECIFIC = json.dumps({"hookSpecificOutput": {"permissionDecisionReason": "use the tool"}})
SCRIPT = """# /// script
# requires-python = ">=3.11"
# dependencies = ["a-package-that-does-not-exist"]
# ///
"""


@pytest.fixture(autouse=True)
def _without_caches(monkeypatch):
    """The sandbox has a cache of its own, unless the user has set another one."""
    monkeypatch.delenv("UV_CACHE_DIR", raising=False)


@pytest.mark.parametrize(
    ("stdout", "stderr", "reason"),
    [
        ("", "no", "no"),
        ("Use uv add instead", "", "Use uv add instead"),
        # A log that cannot be written must not hide the reason.
        ("Use uv add", "x.log: Read-only file system", "Use uv add"),
        ("", "x.log: Read-only file system\nUse uv add", "Use uv add"),
        ("", "x.log: Read-only file system", "x.log: Read-only file system"),
        ("lint: 3 errors", "Fix them.", "Fix them.\nlint: 3 errors"),
        (BLOCK, "", "use the tool"),
        (SPECIFIC, "", "use the tool"),
        (BLOCK, "no", "no"),
        ("{not JSON", "", "{not JSON"),
        ("{}", "", "{}"),
        ("", "", "It gave no reason."),
    ],
)
def test_a_hook_that_blocks_gives_its_reason_on_either_stream(stdout, stderr, reason):
    answer = read_answer("PreToolUse", 2, stdout, stderr)
    assert (answer.decision, answer.reason) == ("deny", reason)


@pytest.mark.parametrize(
    ("command", "title"),
    [
        ('"$CLAUDE_PROJECT_DIR"/.claude/hooks/check.py', "check.py"),
        ("uv run .claude/hooks/check.py --quick", "check.py"),
        ("jq -r .tool_input.command >> ~/.claude/log.txt", "jq -r .tool_input.command >> ~/.claude/log.txt"),
        ("cat > /tmp/x.json && ./run.sh", "run.sh"),
        ("npm run lint -- --fix || true", "npm run lint -- --fix || true"),
        ("npx prettier --check .", "prettier --check ."),
        ("echo 'use uv for Python'", "echo 'use uv for Python'"),
        ('python3 -c "import sys"', 'python3 -c "import sys"'),
        ("env", "env"),
        ("env | sort", "env | sort"),
    ],
)  # fmt: skip
def test_a_title_says_what_a_command_runs(command, title):
    assert Hook("settings.json", 1, "user", "Stop", command=command).title == title


async def test_a_script_that_uv_cannot_run_fails_and_blocks_no_prompt(place):
    """`uv run` ends with 2, the code with which a hook blocks, if it cannot reach a server."""
    place.write("hook.py", SCRIPT)
    entries = group("uv run hook.py") + group("uv run missing.py")
    place.user_hooks({"UserPromptSubmit": entries})
    async with place.open(answers=[say("Done.")]) as bench:
        ended = await bench.run("go on")
        assert ended.text == "Done."
        first, second = ran(bench)[0]["hooks"]
    assert "Hooks have no network (setting hooks_claude.network)." in first["answer"]["failure"]
    assert "exit code 2: " in second["answer"]["failure"]
    assert "decision" not in second["answer"]


async def test_a_guard_that_uv_cannot_run_denies_the_call(place):
    place.user_hooks({"PreToolUse": group("uv run missing.py", "Bash")})
    async with place.open() as bench:
        result = await bench.call("run_terminal_cmd", command="echo reached")
    assert result.code == "E_DENIED"


async def test_a_script_that_ends_with_two_by_itself_blocks(place):
    place.write("hook.py", "import sys\nprint('not today', file=sys.stderr)\nsys.exit(2)\n")
    place.user_hooks({"UserPromptSubmit": group("uv run --no-project hook.py")})
    async with place.open() as bench:
        with pytest.raises(PromptDenied, match="blocked the prompt: not today"):
            await bench.run("go on")


async def test_a_guard_that_cannot_write_its_log_says_where_hooks_write(place):
    command = "echo x >> .claude/log.txt || exit 1"
    place.write(".claude/other.txt", "x")
    place.user_hooks({"PreToolUse": group(command, "Bash")})
    async with place.open() as bench:
        result = await bench.call("run_terminal_cmd", command="echo reached")
    assert result.code == "E_DENIED"
    assert "Hooks write only to the project, except .claude" in result.text


async def test_the_same_failure_of_a_hook_is_reported_once(place):
    place.user_hooks({"UserPromptSubmit": group("echo broken >&2; exit 1")})
    async with place.open(answers=[say("One."), say("Two.")]) as bench:
        await bench.run("first")
        await bench.run("second")
        first, second = ran(bench, "UserPromptSubmit")
    assert "broken" in first["say"]
    assert "say" not in second
    assert "broken" in second["hooks"][0]["answer"]["failure"]


async def test_each_call_that_a_failed_guard_denies_is_reported(place):
    place.user_hooks({"PreToolUse": group("echo broken >&2; exit 1", "Bash")})
    async with place.open() as bench:
        await bench.call("run_terminal_cmd", command="echo one")
        await bench.call("run_terminal_cmd", command="echo two")
        assert all("broken" in data["say"] for data in ran(bench, "PreToolUse"))
