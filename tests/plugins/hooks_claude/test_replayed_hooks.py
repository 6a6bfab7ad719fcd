"""A replay takes the answers of hooks from the log, and starts none of them."""

import json

from hilum.testing import say, use
from hilum_files.journal.content_store import ContentStore
from hilum_replay.sessions.comparison import describe
from hilum_replay.sessions.exporting import make_recording, make_repeatable
from hook_places import group, ran


async def test_session_with_hooks_replays_exactly(place):
    changed = {"command": "echo changed"}
    rewrite = {"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": changed}}
    place.user_hooks(
        {
            "PreToolUse": group(f"echo '{json.dumps(rewrite)}'", "Bash", **{"if": "Bash(echo *)"})
            + group("echo never >&2; exit 2", "Bash", **{"if": "Bash(rm *)"}),
            "PostToolUse": group("echo formatted > a.txt; echo look >&2; exit 2", "Write"),
            "UserPromptSubmit": group("echo context of a hook"),
            "SessionStart": group("echo started"),
            "Stop": group("test -f stopped || { touch stopped; echo again >&2; exit 2; }"),
            "SessionEnd": group("touch ended"),
        }
    )
    answers = [
        use("run_terminal_cmd", command="echo hello"),
        use("run_terminal_cmd", command="rm x"),
        use("write_file", path="a.txt", content="raw\n"),
        use("read_file", path="a.txt"),
        say("Done."),
        say("Done again."),
    ]
    async with place.open(answers=answers) as bench:
        ended = await bench.run("go")
        assert ended.text == "Done again."
        assert "formatted" in bench.result("read_file").text
        assert len(ran(bench)) == 7
        events = list(bench.events)
    store = ContentStore(place.folder / "data/objects")
    made = make_recording(events, store.get)
    store.close()
    _, outcome = await make_repeatable(made)
    assert outcome.comparison.identical, describe(outcome.comparison)
    results = [each for each in outcome.replayed.events if hasattr(each, "result")]
    assert "changed" in results[0].result.text
    assert "never" in results[1].result.text
    assert results[2].result.text.endswith("objects: look]")
