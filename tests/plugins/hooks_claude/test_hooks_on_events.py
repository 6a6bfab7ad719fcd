"""Hooks about prompts, answers, compactions, and the beginning and end of a session."""

import json

import pytest
from hilum import PromptDenied
from hilum.events import ApprovalAsked, Compacted, PluginEvent, PromptQueued
from hilum.testing import say, use
from hilum_hooks_claude.dispatch import RAN
from hook_places import group, ran

# Writes what a hook reads into a file of the project.
KEEP = "cat >> read.jsonl; echo >> read.jsonl"


def read(place):
    """Return what the hooks have read."""
    file = place.project / "read.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines() if line]


async def wait_for_hooks(bench, event):
    """Wait until the hooks of an event have ended."""
    await bench.wait_for(PluginEvent, lambda each: each.name == RAN and each.data["event"] == event)


async def test_prompt_is_blocked_before_it_is_logged(place):
    place.user_hooks(
        {"UserPromptSubmit": group("grep -q secret && { echo 'not here' >&2; exit 2; }")}
    )
    async with place.open(answers=[say("Fine.")]) as bench:
        with pytest.raises(PromptDenied, match="blocked the prompt: not here") as blocked:
            await bench.run("the secret word")
        assert (blocked.value.code, blocked.value.exit_code) == ("E_DENIED", 1)
        assert not bench.of(PromptQueued)
        assert not bench.requests
        ended = await bench.run("other words")
        assert ended.text == "Fine."
        # A piped prompt is not interpreted; its run ends before a request is sent.
        ended = await bench.run("a secret in a pipe", piped=True)
        assert ended.state == "partial_success"
        assert "not here" in ended.error
        assert len(bench.requests) == 1


async def test_hooks_add_context_at_the_start_and_to_a_prompt(place):
    answer = {"hookSpecificOutput": {"additionalContext": "Branch: main"}, "systemMessage": "hi"}
    place.user_hooks(
        {
            "SessionStart": group("echo Today is a holiday", "startup")
            + group("echo resumed", "resume|clear"),
            "UserPromptSubmit": group(f"echo '{json.dumps(answer)}'"),
        }
    )
    async with place.open(answers=[say("One."), say("Two.")]) as bench:
        await bench.run("first")
        await bench.run("second")
        first, second = (request.messages[-1].parts for request in bench.requests)
        texts = " ".join(part.text for part in first)
        assert "Today is a holiday" in texts
        assert "resumed" not in texts
        assert "Branch: main" in texts
        texts = " ".join(part.text for part in second)
        assert "holiday" not in texts
        assert "Branch: main" in texts
        assert "hi" in ran(bench, "UserPromptSubmit")[0]["say"]


async def test_stop_hook_objects_once(place):
    command = (
        'python3 -c "import json,sys; d=json.load(sys.stdin);'
        " lines=open(d['transcript_path']).read().splitlines();"
        " print('' if d['stop_hook_active'] else json.dumps({'decision': 'block',"
        " 'reason': 'run the tests first: '+str(len(lines))+d['last_assistant_message']}))\""
    )
    place.user_hooks({"Stop": group(command)})
    async with place.open(answers=[say("Done."), say("Tested.")]) as bench:
        ended = await bench.run("go")
        assert ended.text == "Tested."
        assert ended.state == "completed"
        assert "run the tests first: 2Done." in str(bench.requests[1].messages[-1])


async def test_hooks_hold_in_sub_agents_and_after_a_compaction(place):
    place.user_hooks(
        {
            "PreToolUse": group("echo never >&2; exit 2", "Bash"),
            "SubagentStop": group(KEEP),
            "PreCompact": group(KEEP, "manual"),
            "SessionStart": group("echo compacted again", "compact"),
        }
    )
    answers = [
        use("task", description="look", prompt="Run it."),
        use("run_terminal_cmd", command="echo reached"),
        say("It was denied."),
        say("All done."),
        use("run_terminal_cmd", command="echo reached"),
        say("Denied again."),
    ]
    async with place.open("agents", "scheduler", answers=answers) as bench:
        await bench.run("delegate")
        assert "never" in bench.result("run_terminal_cmd").text
        bench.session.compact(focus="tests")
        await bench.wait_for(Compacted)
        await bench.run("again")
        denied = [each for each in bench.results if each.name == "run_terminal_cmd"]
        assert [each.code for each in denied] == ["E_DENIED", "E_DENIED"]
        texts = " ".join(part.text for part in bench.requests[-2].messages[-1].parts)
        assert "compacted again" in texts
    stopped, compacted = read(place)
    assert stopped["hook_event_name"] == "SubagentStop"
    assert stopped["agent_id"]
    assert compacted["trigger"] == "manual"
    assert compacted["custom_instructions"] == "tests"


async def test_end_notification_and_background_hooks(place):
    place.user_hooks(
        {
            "SessionEnd": group(KEEP),
            "Notification": group(KEEP, "permission_prompt"),
            "PostToolUse": group("touch late", "Bash", **{"async": True}),
        }
    )
    answers = [use("run_terminal_cmd", command="touch x"), say("Done.")]
    async with place.open(answers=answers, approve="ask_first") as bench:
        run = await bench.start("go")
        asked = await bench.wait_for(ApprovalAsked)
        await wait_for_hooks(bench, "Notification")
        bench.session.answer(asked.id, True)
        await run.wait()
        await wait_for_hooks(bench, "PostToolUse")
        assert (place.project / "late").exists()
    notified, ended = read(place)
    assert notified["notification_type"] == "permission_prompt"
    assert notified["message"] == "hilum needs your permission to use run_terminal_cmd"
    assert ended["reason"] == "other"


async def test_session_without_hooks_imports_nothing_and_runs_no_hook(place):
    async with place.open() as bench:
        result = await bench.call("run_terminal_cmd", command="echo hello")
        assert "hello" in result.text
        assert not ran(bench)
