"""A small agent with tools of its own, which the simulated model drives without HTTP."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from hilum.messages import AssistantMessage, ToolCall
from hilum_eval.case import Case, Edit, Read, Run, Say, Search, Step, Turn
from hilum_replay import Answer, WireRequest

Answerer = Callable[[WireRequest], Answer]

APP = '''\
"""Prices of a shop."""


def price(amount, rate):
    """Return the price of an amount."""
    total = amount * rate
    return total


def discount(amount):
    """Return the discount of an amount."""
    total = amount * 0.1
    return total
'''


def make_case(folder: Path, *turns: Sequence[Step], prompts: Sequence[str] = ()) -> Case:
    """Return a case with the file shop/prices.py."""
    (folder / "files" / "shop").mkdir(parents=True, exist_ok=True)
    (folder / "files" / "shop" / "prices.py").write_text(APP)
    texts = [*prompts, *(f"Please do part {number} of the work." for number in range(99))]
    return Case(
        id="T01",
        title="Change the prices",
        dimensions=("edits",),
        turns=tuple(
            Turn(prompt=text, steps=tuple(steps)) for text, steps in zip(texts, turns, strict=False)
        ),
        expected_turns=5,
        folder=folder,
    )


READ = Read(path="shop/prices.py")
EDIT = Edit(
    path="shop/prices.py",
    old="    total = amount * rate\n    return total",
    new="    total = round(amount * rate, 2)\n    return total",
)
CHECK = Run(
    command="grep -q 'round(amount' shop/prices.py && grep -q 'def discount' shop/prices.py"
    " && test $(grep -c 'return total' shop/prices.py) = 2"
)
SAY = Say(text="price rounds now.")
STEPS: tuple[Step, ...] = (Search(pattern="def price"), READ, EDIT, CHECK, SAY)


def tool(name: str, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Any]:
    """Return a tool as chat completions describe it."""
    properties = {each: {"type": "string"} for each in (*required, *optional)}
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


SHELL_TOOLS = (tool("bash", ["command"]),)
FILE_TOOLS = (
    tool("view_file", ["file_path"], ["start_line", "end_line"]),
    tool("str_replace", ["file_path", "old_str", "new_str"]),
    tool("create_file", ["file_path", "file_text"]),
    tool("grep_search", ["query"], ["include_path"]),
    tool("execute", ["cmd"]),
)


@attrs.define(slots=False)
class SmallAgent:
    """An agent that runs the calls of a model in a folder.

    Attributes:
        workspace: The folder.
        tools: Its tools.
        system: The system prompt.
        exact: Whether an edit must match exactly once; if not, the nearest line is replaced.
        notes: Whether it says so if the model repeats a call.
        read_first: Whether a file must be read before it is changed.
        limit: Number of answers after which the model counts as stuck.
        messages: The conversation.
        calls: The calls so far, as names and arguments.
        read: The files that were read.
    """

    workspace: Path
    tools: Sequence[Mapping[str, Any]] = FILE_TOOLS
    system: str = "You are an agent."
    exact: bool = True
    notes: bool = False
    read_first: bool = False
    limit: int = 300
    messages: list[dict[str, Any]] = attrs.field(factory=list)
    calls: list[tuple[str, str]] = attrs.field(factory=list)
    read: set[str] = attrs.field(factory=set)

    def make_request(self) -> WireRequest:
        """Return the request for the conversation so far."""
        body = {
            "model": "m",
            "messages": [{"role": "system", "content": self.system}, *self.messages],
            "tools": list(self.tools),
        }
        return WireRequest("chat", "/v1/chat/completions", {}, json.dumps(body).encode())

    def run(self, answer: Answerer, prompt: str) -> str:
        """Work on a prompt, and return the final answer."""
        self.messages.append({"role": "user", "content": prompt})
        for _ in range(self.limit):
            message = answer(self.make_request()).message
            self._add(message)
            if not message.calls:
                return message.text
            for call in message.calls:
                result = self._call(call)
                content = {"role": "tool", "tool_call_id": call.id, "content": result}
                self.messages.append(content)
            if self.notes and len(self.calls) > 2 and len(set(self.calls[-3:])) == 1:
                text = "You made the same call three times in a row with the same result."
                self.messages.append({"role": "user", "content": text})
        raise AssertionError(f"the model is stuck: {self.calls[-5:]}")

    def _add(self, message: AssistantMessage) -> None:
        calls = []
        for call in message.calls:
            function = {"name": call.name, "arguments": call.arguments}
            calls.append({"id": call.id, "type": "function", "function": function})
        self.messages.append({"role": "assistant", "content": message.text, "tool_calls": calls})

    def _call(self, call: ToolCall) -> str:
        self.calls.append((call.name, call.arguments))
        try:
            arguments = json.loads(call.arguments)
        except ValueError:
            return "Error: the arguments are not valid JSON."
        [spec] = [each["function"] for each in self.tools if each["function"]["name"] == call.name]
        known = spec["parameters"]["properties"]
        for name in spec["parameters"]["required"]:
            if name not in arguments:
                return f"Error: the required parameter {name} is missing."
        for name, value in arguments.items():
            if name not in known or not isinstance(value, str | int):
                return f"Error: invalid argument {name}."
        method = {
            "view_file": self._view_file,
            "str_replace": self._str_replace,
            "create_file": self._create_file,
            "grep_search": self._grep_search,
            "execute": self._execute,
            "bash": self._bash,
        }[call.name]
        return str(method(**arguments))

    def _path(self, path: str) -> Path:
        return self.workspace / path

    def _view_file(self, file_path: str, start_line: int = 1, end_line: int = 10**6) -> str:
        if not self._path(file_path).is_file():
            return f"Error: no such file: {file_path}"
        self.read.add(file_path)
        lines = self._path(file_path).read_text().splitlines()
        numbered = [f"{number}\t{line}" for number, line in enumerate(lines, 1)]
        return "\n".join(numbered[start_line - 1 : end_line])

    def _str_replace(self, file_path: str, old_str: str, new_str: str) -> str:
        path = self._path(file_path)
        if not path.is_file():
            return f"Error: no such file: {file_path}"
        if self.read_first and file_path not in self.read:
            return f"Error: you have not read {file_path}. Read it first."
        text = path.read_text()
        count = text.count(old_str)
        if count == 0 and not self.exact:
            old_str = next(line for line in text.splitlines() if line.startswith("    total"))
            count = 1
        if count == 0:
            return "Error: old_str was not found in the file."
        if count > 1:
            return f"Error: old_str occurs {count} times, it must be unique."
        path.write_text(text.replace(old_str, new_str))
        return "The file was edited."

    def _create_file(self, file_path: str, file_text: str) -> str:
        if self.read_first and self._path(file_path).exists() and file_path not in self.read:
            return f"Error: you have not read {file_path}. Read it first."
        self._path(file_path).write_text(file_text)
        return "The file was written."

    def _grep_search(self, query: str, include_path: str = ".") -> str:
        found = []
        for path in sorted(self._path(include_path).rglob("*.py")):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if re.search(query, line):
                    found.append(f"{path.relative_to(self.workspace)}:{number}:{line}")
        return "\n".join(found) or "No matches."

    def _execute(self, cmd: str) -> str:
        done = self._run(cmd)
        return f"{done.stdout}\n[exit code {done.returncode}]"

    def _bash(self, command: str) -> str:
        done = self._run(command)
        return json.dumps({"returncode": done.returncode, "output": done.stdout})

    def _run(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", command],
            cwd=self.workspace,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
