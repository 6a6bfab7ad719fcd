"""A whole agent in one file: the standard library, one tool, and a model at an address.

Usage: shell_agent.py BASE_URL MODEL PROMPT_FILE [HISTORY]
"""

import json
import os
import pathlib
import subprocess
import sys
import urllib.request

TOOL = {
    "type": "function",
    "function": {
        "name": "shell",
        "description": "Run a command",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        },
    },
}


def ask(base_url, model, messages):
    body = json.dumps({"model": model, "messages": messages, "tools": [TOOL]}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{base_url}/v1/chat/completions", body, headers)
    with urllib.request.urlopen(request) as response:
        return json.load(response)["choices"][0]["message"]


def main():
    base_url, model, prompt_file, *history = sys.argv[1:]
    messages = []
    if history and pathlib.Path(history[0]).exists():
        messages = json.loads(pathlib.Path(history[0]).read_text())
    messages.append({"role": "user", "content": pathlib.Path(prompt_file).read_text()})
    while True:
        answer = ask(base_url, model, messages)
        messages.append(answer)
        calls = answer.get("tool_calls") or []
        for call in calls:
            command = json.loads(call["function"]["arguments"])["command"]
            done = subprocess.run(command, shell=True, capture_output=True, text=True)
            text = json.dumps({"returncode": done.returncode, "output": done.stdout + done.stderr})
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
        if not calls:
            break
    if history:
        pathlib.Path(history[0]).write_text(json.dumps(messages))
    if os.environ.get("LEAVE"):
        subprocess.Popen(["sleep", "1000"], start_new_session=True)


main()
