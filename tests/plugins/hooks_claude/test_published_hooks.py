"""Hooks in the forms in which people publish them, written anew: 21 of them in one project."""

import json
import subprocess
from pathlib import Path

import pytest
from hilum.events import Compacted
from hilum.testing import say, use
from hilum_hooks_claude.listing import read_hooks
from hook_places import ran

SETTINGS = Path(__file__).with_name("published_settings.jsonc")
SCRIPTS = {
    "protect.py": """
import json, sys
data = json.load(sys.stdin)
path = data["tool_input"]["file_path"]
if "/migrations/" in path:
    decision = {"permissionDecision": "deny", "permissionDecisionReason": "migrations are final"}
    print(json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", **decision}}))
""",
    "check_bash.py": """#!/usr/bin/env python3
import json, re, sys
RULES = [(r"^grep\\b", "use rg instead of grep"), (r"\\bpip install\\b", "use uv add")]
command = json.load(sys.stdin).get("tool_input", {}).get("command", "")
found = [text for pattern, text in RULES if re.search(pattern, command)]
for text in found:
    print(f"- {text}", file=sys.stderr)
sys.exit(2 if found else 0)
""",
    "rewrite.py": """
import json, sys
values = json.load(sys.stdin)["tool_input"]
if values["command"] == "npm test":
    values["command"] = "echo tests run without colors"
    print(json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse",
                                            "permissionDecision": "allow",
                                            "updatedInput": values}}))
""",
    "log.py": """
import json, sys
data = json.load(sys.stdin)
with open("calls.log", "a") as log:
    log.write(data["tool_name"] + "\\n")
""",
    "format.sh": """
path=$(python3 -c "import json, sys; print(json.load(sys.stdin)['tool_input']['file_path'])")
case "$path" in *.txt) sed -i 's/[ ]*$//' "$path";; esac
""",
    "keywords.py": """
import json, sys
if "deploy" in json.load(sys.stdin)["prompt"]:
    print(json.dumps({"hookSpecificOutput": {"hookEventName": "UserPromptSubmit",
                                            "additionalContext": "Read docs/deploy.md first."}}))
""",
    "on_stop.py": """
import json, os, sys
data = json.load(sys.stdin)
if not data.get("stop_hook_active") and not os.path.exists("tested"):
    print(json.dumps({"decision": "block", "reason": "create the file `tested`"}))
""",
    "keep.py": """
import json, shutil, sys
shutil.copy(json.load(sys.stdin)["transcript_path"], "transcript.jsonl")
""",
}


def prepare(place):
    """Write the project with all hooks, and approve them."""
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=place.project, check=True)
    for name, text in SCRIPTS.items():
        place.write(f".claude/hooks/{name}", text.removeprefix("\n"), mode=0o755)
    place.write("scripts/clean.sh", "echo cleaned > cleaned.txt\n")
    place.project_hooks(SETTINGS.read_text())


def test_published_forms_are_supported(place):
    prepare(place)
    judged, mistakes = read_hooks(place.project)
    assert not mistakes
    assert [each.state for each in judged] == ["runs"] * 21


@pytest.mark.slow(cases=0)
async def test_published_forms_run(place):
    prepare(place)
    calls = [
        ("write_file", {"path": ".env", "content": "x"}, "E_DENIED", "it gave no reason"),
        ("write_file", {"path": "db/migrations/1.sql", "content": "x"}, "E_DENIED", "are final"),
        ("run_terminal_cmd", {"command": "grep x y"}, "E_DENIED", "use rg instead of grep"),
        ("run_terminal_cmd", {"command": "cd . && git push origin"}, "E_DENIED", "push by hand"),
        ("run_terminal_cmd", {"command": "npm test"}, "", "tests run without colors"),
        ("run_terminal_cmd", {"command": "echo hello"}, "", "seen echo hello"),
        ("write_file", {"path": "a.txt", "content": "wide   \n"}, "", ""),
        ("read_file", {"path": "a.txt"}, "", "wide"),
        ("write_file", {"path": "check.json", "content": "{"}, "", "objects: Expecting property"),
    ]
    script = [use(tool, **arguments) for tool, arguments, _, _ in calls]
    task = [use("task", description="look", prompt="Say hello."), say("Hello.")]
    ends = [say("I am done."), say("Really done."), say("Second.")]
    async with place.open("agents", "scheduler", answers=[*script, *task, *ends]) as bench:
        ended = await bench.run("deploy it")
        assert ended.text == "Really done."
        results = bench.results
        for (tool, arguments, code, text), result in zip(calls, results, strict=False):
            assert result.name == tool, arguments
            assert result.code == code, result.text
            assert text.lower() in result.text.lower()
        assert (place.project / "a.txt").read_text() == "wide\n"
        first = " ".join(part.text for part in bench.requests[0].messages[-1].parts)
        assert "CURRENT_TIME=20" in first
        assert "Read docs/deploy.md first." in first
        assert "## No commits yet on main" in first
        assert "create the file `tested`" in str(bench.requests[-1].messages)
        place.write("tested", "")
        bench.session.compact()
        await bench.wait_for(Compacted)
        await bench.run("go on")
        last = " ".join(part.text for part in bench.requests[-1].messages[-1].parts)
        assert "Use uv, not pip." in last
        failures = [each["answer"] for data in ran(bench) for each in data["hooks"]]
        assert not [answer for answer in failures if answer.get("failure")]
    assert "Bash" in (place.project / "calls.log").read_text()
    assert "Task" in (place.project / "calls.log").read_text()
    assert (place.project / "cleaned.txt").exists()
    lines = (place.project / "transcript.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["message"]["role"] == "user"
    assert any("tool_use" in line for line in lines)
