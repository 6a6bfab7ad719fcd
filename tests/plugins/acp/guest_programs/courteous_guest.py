"""A guest that asks its client for everything: it does each step of a prompt, given as JSON."""

import json
import os
import time

from guest_wire import Client

client = Client()


def work(text):
    steps = json.loads(text[text.index("[") : text.rindex("]") + 1])
    for step in steps:
        kind, *values = step
        outcome = do(kind, *values)
        if outcome is not None:
            client.say(f"{kind}: {outcome}\n")


def do(kind, *values):
    if kind == "say":
        client.say(values[0])
    elif kind == "think":
        client.update("agent_thought_chunk", content={"type": "text", "text": values[0]})
    elif kind == "read":
        result, error = client.request("fs/read_text_file", path=os.path.abspath(values[0]))
        return error["message"] if error else result["content"]
    elif kind == "write":
        path, content = values
        _, error = client.request("fs/write_text_file", path=os.path.abspath(path), content=content)
        return error["message"] if error else "written"
    elif kind == "wait":
        while not os.path.exists(values[0]):
            time.sleep(0.01)
    elif kind == "disk":
        # What the guest does by itself, behind the back of its client.
        with open(values[0], "w") as file:
            file.write(values[1])
    elif kind == "terminal":
        return run_in_terminal(values[0])
    elif kind == "ask":
        title, tool_kind, more = values
        allowed = client.permission("call-1", title, tool_kind, **more)
        if allowed:
            update("call-1", "in_progress")
            update("call-1", "completed", "done by itself")
        return "allowed" if allowed else "rejected"
    elif kind == "tool":
        client.update(
            "tool_call", toolCallId="own", title=values[0], kind="execute", status="in_progress"
        )
        update("own", "completed", values[1])
    elif kind == "plan":
        entries = [{"content": text, "priority": "high", "status": state} for text, state in values]
        client.update("plan", entries=entries)
    elif kind == "exit":
        raise SystemExit(values[0])
    elif kind == "unknown":
        result, error = client.request("craft/drainMidTurnQueue")
        return error["code"]
    return None


def update(identity, status, text=""):
    content = [{"type": "content", "content": {"type": "text", "text": text}}] if text else []
    client.update("tool_call_update", toolCallId=identity, status=status, content=content)


def run_in_terminal(command):
    result, error = client.request("terminal/create", command=command, cwd=os.getcwd())
    if error:
        return error["message"]
    terminal = result["terminalId"]
    status, _ = client.request("terminal/wait_for_exit", terminalId=terminal)
    found, _ = client.request("terminal/output", terminalId=terminal)
    client.request("terminal/release", terminalId=terminal)
    return f"{found['output'].strip()} exit {status['exitCode']}"


client.serve(work)
