"""The simulated model, which walks the known steps of a case."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from hilum.messages import AssistantMessage, Text, ToolCall, ToolMessage, Usage, UserMessage
from hilum_replay import Answer, WireRequest

from hilum_eval.case import Case, Edit, Read, Run, Say, Search, Step, Together, Write


def make_answerer(case: Case, profile: str, seed: int) -> Callable[[WireRequest], Answer]:
    """Return the function that answers the requests of one attempt.

    Args:
        case: The case.
        profile: ``perfect``, ``strong``, ``mid``, ``weak``, or the path of a TOML file.
        seed: Number of the repetition: the same seed makes the same slips.
    """

    def answer(request: WireRequest) -> Answer:
        usage = Usage(input=len(request.body) // 4, output=50)
        prompts = [m for m in request.messages if isinstance(m, UserMessage)]
        turn = case.turns[min(len(prompts), len(case.turns)) - 1]
        rounds = 0
        last = ""
        for message in request.messages:
            if isinstance(message, UserMessage):
                rounds = 0
            elif isinstance(message, ToolMessage):
                rounds += 1
                last = message.results[-1].text
        step = turn.steps[min(rounds, len(turn.steps) - 1)] if turn.steps else Say(text="Done.")
        if isinstance(step, Say):
            text = Text(step.text.replace("{last_result}", last), "model")
            return Answer(AssistantMessage((text,), stop="end"), usage)
        calls = tuple(
            ToolCall(
                f"call_{request.number}_{index}", name, msgspec.json.encode(arguments).decode()
            )
            for index, (name, arguments) in enumerate(_list_calls(step))
        )
        return Answer(AssistantMessage(calls, stop="calls"), usage)

    return answer


def _list_calls(step: Step) -> Iterator[tuple[str, dict[str, Any]]]:
    match step:
        case Read():
            arguments: dict[str, Any] = {"path": step.path}
            if step.first:
                arguments["offset"] = step.first
            if step.last:
                arguments["limit"] = step.last - max(step.first, 1) + 1
            yield "read_file", arguments
        case Edit():
            yield (
                "edit_file",
                {"path": step.path, "old_string": step.old, "new_string": step.new},
            )
        case Write():
            yield "write_file", {"path": step.path, "content": step.content}
        case Search():
            yield "search_files", {"pattern": step.pattern, "path": step.path}
        case Run():
            yield "run_terminal_cmd", {"command": step.command}
        case Together():
            for each in step.steps:
                yield from _list_calls(each)
