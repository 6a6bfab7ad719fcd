"""What faces and the model read about a failed call that the user has repeated.

A repeated call runs without a request to a model, so the conversation contains no message in which
the model makes the call, and its result cannot be the result of such a message: providers refuse
that. The model reads it as a report at the end of the conversation instead.
"""

from __future__ import annotations

from hilum.context import render
from hilum.messages import Block, Image, Message, Text, ToolCall, ToolMessage, UserMessage
from hilum.refusals import describe_call

# Maximum number of characters of the arguments in the message that announces a repeated call. The
# model has read them before, unless they were compacted.
MAX_ARGUMENTS = 1_000


def describe_repeat(call: ToolCall) -> str:
    """Return a line for faces about a repeated call."""
    return f"Repeat the call: {describe_call(call)}"


def make_announcement(call: ToolCall) -> Text:
    """Return the text with which the run of a repeated call begins in the conversation.

    The text is not the user's, so it is neither an instruction nor consent.
    """
    arguments = call.arguments
    if len(arguments) > MAX_ARGUMENTS:
        arguments = f"{arguments[:MAX_ARGUMENTS]} …"
    block = render(Block("repeated_call", f"{call.name} {arguments}"))
    text = f"The user had a failed call of yours repeated, with the same arguments:\n{block}"
    return Text(text, "kernel")


def make_repeat_report(results: Message) -> Message:
    """Return the message in which the model reads the result of a repeated call.

    Args:
        results: The message with the result, as it would follow a call of the model. A round of a
            repeated call has no other results.
    """
    if not isinstance(results, ToolMessage):
        return results
    parts: list[Text | Image] = []
    for result in results.results:
        outcome = f"It failed again ({result.code})" if result.code else "It succeeded"
        parts.append(Text(f"{outcome}. Its result:", "kernel"))
        block = render(Block("result", result.text))
        parts.append(Text(block, f"tool:{result.name}"))
        parts += [part for part in result.parts if isinstance(part, Image)]
    parts.append(Text("Continue from there if this changes anything.", "kernel"))
    return UserMessage(tuple(parts))
