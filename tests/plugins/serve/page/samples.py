"""Entries of every kind and state, for the tests of the page."""

from __future__ import annotations

import json
import time
from typing import Any

NOW = time.time()
DIFF = """--- a/src/calc.py
+++ b/src/calc.py
@@ -1,6 +1,8 @@
 def add(a, b):
-    return a - b
+    return a + b


 def mul(a, b):
+    # Multiplies.
+    print(a, b)
     return a * b
"""
MARKDOWN = """## What I found

The function `add` **subtracts**. I changed it and ran the tests:

1. `src/calc.py` returned `a - b`
2. the test expects `add(1, 2) == 3`

```python
def add(a: int, b: int) -> int:
    return a + b  # was a - b
```

| file | tests | time |
|---|---|--:|
| calc | 4 | 0.02 s |
| more | 12 | 0.31 s |

> Nothing else calls `add`. See [the docs](https://example.org/calc).
"""


def entry(identity: int, kind: str, **fields: Any) -> dict[str, Any]:
    """Return an entry of the main agent."""
    base = {"kind": kind, "id": identity, "seq": identity + 1, "at": NOW - 60 + identity}
    return {**base, "agent": "main", "run": "r1", **fields}


def prompt(identity: int, text: str, **fields: Any) -> dict[str, Any]:
    """Return a prompt."""
    base = {"text": text, "typed": "", "model": "openai/scripted", "mode": "agent", "images": []}
    return entry(identity, "prompt", **{**base, **fields})


def answer(identity: int, text: str, **fields: Any) -> dict[str, Any]:
    """Return a complete answer."""
    base = {
        "text": text,
        "state": "done",
        "thinking": "",
        "model": "openai/scripted",
        "arguments": {},
        "tools": {},
        "seconds": 2.4,
        "usage": {"input": 9_000, "cached": 7_000, "output": 320, "cost": 0.012},
    }
    return entry(identity, "answer", **{**base, **fields})


def card(
    identity: int, tool: str, arguments: Any, state: str = "completed", **fields: Any
) -> dict[str, Any]:
    """Return a tool call."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    base = {
        "call": {"id": f"c{identity}", "name": tool, "arguments": text},
        "state": state,
        "risk": "read",
        "plugin": "files",
        "rewritten": "",
        "began": NOW - 60 + identity,
        "seconds": 0.8 if state in ("completed", "failed") else 0,
        "output": "",
        "result": None,
    }
    return entry(identity, "card", **{**base, **fields})


def result(text: str, code: str = "", **data: Any) -> dict[str, Any]:
    """Return a result of a call."""
    parts = [{"type": "text", "text": text, "source": "tool"}]
    return {"call_id": "", "name": "", "parts": parts, "code": code, "data": data}


def approval(identity: str, call: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a waiting approval for a card."""
    base = {
        "kind": "approval",
        "id": identity,
        "seq": 1,
        "agent": call["agent"],
        "call": call["call"],
        "risk": "execute",
        "reason": "Calls that change something need approval (approve = ask_first).",
        "scope": "bash: pytest *",
        "seconds": 300.0,
        "deadline": 0.0,
    }
    return {**base, **fields}


def started(identity: str, title: str, status: str = "running", **fields: Any) -> dict[str, Any]:
    """Return a start of an agent."""
    base = {
        "id": identity,
        "agent": "explore",
        "actor": f"explore-{identity}",
        "title": title,
        "owner": "main",
        "call": "",
        "owner_run": "r1",
        "status": status,
        "activity": "turn 2: read_file src/calc.py",
        "place": 0,
        "progress": 0.4,
        "since": NOW - 20,
        "seconds": 0.0,
        "turns": 15,
        "calls": 5,
        "ended": False,
        "answer": "",
        "usage": {"input": 4_000, "output": 200, "cost": 0.004},
    }
    return {**base, **fields}


TODO = {
    "agent": "main",
    "completed": 2,
    "total": 4,
    "items": [
        {"id": "1", "content": "Read the calculator and its tests", "status": "completed"},
        {"id": "2", "content": "Mend add()", "status": "completed"},
        {"id": "3", "content": "Run the whole test suite", "status": "in_progress"},
        {"id": "4", "content": "Write a test for negative numbers", "status": "pending"},
        {"id": "5", "content": "Publish a release", "status": "cancelled"},
    ],
}


def every_state() -> list[dict[str, Any]]:
    """Return a conversation with every kind of entry and every state of calls."""
    return [
        prompt(0, "The calculator adds wrongly. Find out why, mend it and run the tests."),
        answer(1, "I look at the code first.", thinking="The user says that adding is wrong."),
        card(2, "read_file", {"path": "src/calc.py"}, result=result("def add(a, b):\n    return a - b")),
        card(3, "edit_file", {"path": "src/calc.py", "old_string": "a - b", "new_string": "a + b"},
             risk="write", result=result("Edited src/calc.py", diff=DIFF)),
        card(4, "bash", {"command": "pytest -q"}, "failed", risk="execute",
             result=result("E_CMD_FAIL: Exit code 1\n1 failed, 3 passed", "E_CMD_FAIL", exit_code=1)),
        card(5, "bash", {"command": "rm -rf build"}, "failed", risk="execute", began=0,
             result=result("E_REJECTED: Keep the build folder.", "E_REJECTED")),
        card(6, "task", {"description": "Explore the project", "prompt": "Look around."}),
        entry(7, "notice", about="retry", text="The provider is overloaded; again in 2 s",
              code="E_OVERLOADED", hint="", level="warning"),
        answer(8, MARKDOWN),
        card(9, "bash", {"command": "sleep 100"}, "interrupted", risk="execute"),
        entry(10, "outcome", end={"state": "failed", "code": "E_TIMEOUT", "error": "The model did not answer in time.",
              "hint": "Try again, or choose another model.", "left": ""}, unread=[]),
        prompt(11, "Go on, please.", run="r2"),
        card(12, "bash", {"command": "for i in 1 2 3; do echo $i; sleep 1; done"}, "running",
             risk="execute", output="1\n2\n3\n", run="r2"),
        card(13, "write_file", {"path": "notes.md", "content": "# Notes\n"}, "pending", began=0, run="r2"),
        card(14, "bash", {"command": "pytest -q tests/test_calc.py"}, "waiting_for_approval",
             risk="execute", began=0, run="r2"),
        answer(15, "", state="streaming", run="r2", arguments={"c99": '{"path": "src/ca'}, tools={"c99": "read_file"}),
    ]  # fmt: skip
