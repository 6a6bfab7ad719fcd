"""A loop with three tools and no protection, which hilum is compared with.

The script runs as a program of its own: ``python bare_loop.py``, with ``OPENAI_BASE_URL`` in its
environment. It imports nothing but trio and httpx.
"""

from __future__ import annotations

import json
import os
from typing import Any

import httpx
import trio


async def call_tool(name: str, arguments: dict[str, str]) -> str:
    """Run a tool and return its result."""
    if name == "run_terminal_cmd":
        done = await trio.run_process(["bash", "-c", arguments["command"]], capture_stdout=True)
        return done.stdout.decode()
    with open(arguments["path"]) as file:  # noqa: ASYNC230  # small files
        text = file.read()
    if name == "read_file":
        return text
    with open(arguments["path"], "w") as file:  # noqa: ASYNC230
        file.write(text.replace(arguments["old_string"], arguments["new_string"], 1))
    return "edited"


async def ask_model(client: httpx.AsyncClient, messages: list[Any]) -> list[Any]:
    """Return the tool calls in the model's answer."""
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    body = {"model": "m", "stream": True, "messages": messages}
    calls: list[Any] = []
    async with client.stream("POST", url, json=body) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                for choice in json.loads(line[6:])["choices"]:
                    calls += choice["delta"].get("tool_calls", [])
    return calls


async def main() -> None:
    """Work until the model makes no more calls."""
    messages: list[Any] = [{"role": "user", "content": "Work."}]
    async with httpx.AsyncClient() as client:
        while calls := await ask_model(client, messages):
            messages.append({"role": "assistant", "content": "", "tool_calls": calls})
            results = [""] * len(calls)

            async def run(
                number: int, function: dict[str, str], results: list[str] = results
            ) -> None:
                arguments = json.loads(function["arguments"])
                results[number] = await call_tool(function["name"], arguments)

            async with trio.open_nursery() as nursery:
                for number, asked in enumerate(calls):
                    nursery.start_soon(run, number, asked["function"])
            for asked, result in zip(calls, results, strict=True):
                messages.append({"role": "tool", "tool_call_id": asked["id"], "content": result})


if __name__ == "__main__":
    trio.run(main)
