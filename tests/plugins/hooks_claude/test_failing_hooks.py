"""Hooks that hang, crash, print garbage or cannot be confined: a guard that fails denies the call."""

import json
import time

import pytest
from hilum.events import PluginEvent
from hilum.testing import say, use
from hook_places import group, ran


async def call_with(place, command, settings=None, **hook):
    """Return the result of a call that one hook guards."""
    place.user_hooks({"PreToolUse": group(command, "Bash", **hook)})
    async with place.open(settings=settings or {}) as bench:
        result = await bench.call("run_terminal_cmd", command="echo reached")
        (data,) = ran(bench)
    return result, data["hooks"][0]


async def test_hook_that_hangs_is_ended_with_its_children(place):
    began = time.monotonic()
    result, hook = await call_with(place, "sleep 300 & sleep 300", timeout=0.3)
    assert result.code == "E_DENIED"
    assert "did not end within 0.3 seconds" in result.text
    assert "code" not in hook
    assert time.monotonic() - began < 20


async def test_every_kind_of_failure_denies_the_call(place):
    commands = {
        "./missing-guard.sh": "could not be started (exit code 127)",
        "echo '{\"decision\": '": "begins like JSON, but is not",
        "echo '[1]' >&2; exit 3": "ended with exit code 3: [1]",
        'python3 -c "raise SystemError(5)"': "ended with exit code 1: SystemError: 5",
        "kill -9 $$": "signal 9",
        'echo \'{"decision": "maybe"}\'': "`decision` is 'maybe'",
        'echo \'{"hookSpecificOutput": {"permissionDecision": "defer"}}\'': "'defer'",
        'echo \'{"hookSpecificOutput": {"updatedInput": [1]}}\'': "`updatedInput` is not an object",
        'echo "{\\"hookSpecificOutput\\": {\\"updatedInput\\": {\\"command\\": 7}}}"': "invalid",
    }
    entries = []
    for number, command in enumerate(commands):
        entries += group(command, "Bash", **{"if": f"Bash(echo {number})"})
    place.user_hooks({"PreToolUse": entries})
    async with place.open() as bench:
        for number, expected in enumerate(commands.values()):
            result = await bench.call("run_terminal_cmd", command=f"echo {number}")
            assert result.code == "E_DENIED", expected
            assert expected in result.text
        assert (await bench.call("run_terminal_cmd", command="echo other")).code == ""


async def test_silent_exit_code_one_and_plain_text_let_the_call_pass(place):
    entries = group("test -f missing && echo x", "Bash") + group("echo plain text", "Bash")
    place.user_hooks({"PreToolUse": entries})
    async with place.open() as bench:
        result = await bench.call("run_terminal_cmd", command="echo reached")
        assert "reached" in result.text
        assert "plain text" not in result.text


@pytest.mark.parametrize("stream", ["", " >&2"])
async def test_hook_that_writes_100_megabytes_is_ended(place, stream):
    result, _ = await call_with(place, f"head -c 100000000 /dev/zero{stream}")
    assert result.code == "E_DENIED"
    assert "wrote more than 8 MB" in result.text


async def test_hook_that_cannot_be_confined_does_not_run(place):
    result, _ = await call_with(place, "touch ran", {"guard.sandbox": "off"})
    assert result.code == "E_DENIED"
    assert "no sandbox" in result.text
    assert not (place.project / "ran").exists()
    settings = {"guard.sandbox": "off", "hooks_claude.unsandboxed": True}
    result, _ = await call_with(place, "touch ran", settings)
    assert "reached" in result.text
    assert (place.project / "ran").exists()


async def test_user_may_let_calls_pass_when_a_guard_fails(place):
    settings = {"hooks_claude.failing_guard": "pass"}
    result, hook = await call_with(place, "exit 7", settings)
    assert "reached" in result.text
    assert "exit code 7" in hook["answer"]["failure"]


async def test_failing_hook_about_a_result_changes_nothing(place):
    place.user_hooks({"PostToolUse": group("echo broken >&2; exit 1", "Bash")})
    async with place.open() as bench:
        result = await bench.call("run_terminal_cmd", command="echo reached")
        assert not result.code
        assert "broken" not in result.text
        (data,) = ran(bench)
        assert "broken" in data["say"]


async def test_hook_is_confined(place):
    outside = place.folder / "outside.txt"
    command = (
        f"touch {outside}; cat {place.folder}/config/secret;"
        " (exec 3<>/dev/tcp/1.1.1.1/80) 2>&1; pwd; echo $CLAUDE_PROJECT_DIR; echo $MY_TOKEN"
    )
    (place.folder / "config/secret").write_text("hidden words")
    place.user_hooks({"PreToolUse": group(f"({command}) >&2; exit 2", "Bash")})
    async with place.open(environ={"MY_TOKEN": "abcdef123456"}) as bench:
        result = await bench.call("run_terminal_cmd", command="echo reached")
    assert not outside.exists()
    assert "hidden words" not in result.text
    assert "abcdef123456" not in result.text
    assert result.text.count(str(place.project)) >= 2


async def test_hook_can_stop_the_run(place):
    answer = json.dumps({"continue": False, "stopReason": "halt"})
    place.user_hooks({"PreToolUse": group(f"echo '{answer}'")})
    answers = [use("run_terminal_cmd", command="echo reached"), say("Done.")]
    async with place.open(answers=answers) as bench:
        ended = await bench.run("go")
        assert ended.state == "stopped"
        assert "halt" in ran(bench)[0]["say"]
        assert len(bench.requests) == 1


async def test_the_user_reads_once_what_to_do_about_a_failing_guard(place):
    place.project_hooks({"PreToolUse": group("exit 7", "Bash")})
    async with place.open() as bench:
        for text in ("one", "two"):
            await bench.call("run_terminal_cmd", command=f"echo {text}")
        said = "\n".join(each.data.get("say", "") for each in bench.of(PluginEvent))
    assert said.count("failed, so its calls are denied. Correct it.") == 1
    assert "`hilum hooks refuse`, or set hooks_claude.failing_guard" in said


NPM = "npm error code EAI_AGAIN\\nnpm error A complete log of this run can be found in: /tmp/x.log"


async def test_a_hook_without_network_says_so_and_names_no_lost_log(place):
    result, _ = await call_with(place, f"printf '{NPM}' >&2; exit 1")
    assert "npm error code EAI_AGAIN. Hooks have no network (setting hooks_claude.network)." in (
        result.text
    )
    assert "complete log" not in result.text
