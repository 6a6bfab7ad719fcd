"""What a model may write into a tool call: bounds that keep the log, every wire format and every
face working.

A call is checked once, before anything of it is logged. Whatever passes can be encoded, decoded and
shown by everybody.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec
from hilum_signature import nesting

from hilum.messages import AssistantMessage, Text, Thinking, ToolCall, writable

MAX_DEPTH = (
    100  # levels of lists and objects; JSON decoders give up near 1,000, and every face decodes
)
MAX_LENGTH = 4_000_000  # characters; the longest answers of models are below 1,000,000
MAX_CALLS = 128  # calls of one answer that are carried out
# What every terminal shows as it is. Kimi writes `functions.NAME:0` and wants it back; gateways of
# stricter vendors encode it.
_PLAIN_ID = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
NO_TOOL = "There is no tool"
CALL_TOOL = "call_tool"  # the tool through which deferred tools are called
CUT_OFF = (
    "Your answer was cut off at the output limit in the middle of this call, so it was not carried"
    " out. Send it in smaller pieces, each in an answer of its own: write the beginning of a long"
    " text first, then add the rest."
)
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what every provider accepts


class BadArguments(ValueError):
    """The arguments of a call are not what a call can have.

    The message is a sentence without its full stop.
    """


def decode_arguments(text: str) -> dict[str, Any]:
    """Decode the arguments of a call.

    Args:
        text: JSON as a model wrote it; empty stands for no arguments.

    Raises:
        BadArguments: It is not one JSON object, or a key occurs twice in an object.
    """
    try:
        decoded = msgspec.json.decode(text or "{}", type=dict[str, Any])
        # msgspec keeps the last of two equal keys, and nobody can know which one the model meant.
        json.loads(text or "{}", object_pairs_hook=_without_duplicates)
    except BadArguments:
        raise
    except ValueError as error:  # of msgspec, json or a codec
        raise BadArguments(f"are not valid JSON, or not a JSON object: {error}") from None
    except RecursionError:
        raise BadArguments(f"are nested more than {MAX_DEPTH} levels deep") from None
    return decoded


def _without_duplicates(pairs: list[tuple[str, Any]]) -> None:
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise BadArguments(f"have the key {twice[:100]!r} twice in one object")


def normalized(text: str) -> str:
    """Return arguments in one spelling: equal objects become equal texts.

    Text that is no JSON stays as it is.
    """
    try:
        return msgspec.json.encode(msgspec.json.decode(text or "{}"), order="sorted").decode()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


def encode_arguments(arguments: Mapping[str, Any]) -> str:
    """Encode arguments as a call carries them."""
    return msgspec.json.encode(arguments).decode()


def problem_of(text: str) -> str:
    """Return why arguments cannot even be kept, as the end of the sentence "The arguments …".

    Empty if they can.
    """
    if len(text) > MAX_LENGTH:
        return f"are {len(text):,} characters long; at most {MAX_LENGTH:,} are accepted"
    if nesting(text) > MAX_DEPTH:
        return f"are nested more than {MAX_DEPTH} levels deep"
    if writable(text) != text or _has_half_character(text):
        return "hold half of a surrogate pair, which is no character"
    return ""


def _has_half_character(text: str) -> bool:
    """Return whether an escape sequence stands for half a character: JSON decoders differ in what
    they make of it.
    """
    if "\\ud" not in text and "\\uD" not in text:
        return False
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return True
    return False


def safe_call(call: ToolCall) -> ToolCall:
    """Return a call that can be logged and sent back to any provider.

    What cannot be kept is left out, and ``problem`` then says why; such a call is refused with that
    text.
    """
    problem = ""
    # Some models write the name of the namespace that their training put tools into.
    name = call.name.strip().removeprefix("functions.")
    if not TOOL_NAME.fullmatch(name):
        problem = f"{NO_TOOL} {writable(call.name)[:100]!r}."
    elif reason := problem_of(call.arguments):
        problem = f"The arguments of {name} {reason}."
    return ToolCall(
        id=safe_id(call.id),
        name=re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unnamed",
        arguments="{}" if problem else call.arguments,
        vendor=_safe_vendor(call.vendor),
        problem=problem,
    )


def safe_id(identity: str) -> str:
    """Return the id of a call, empty where it is longer or has other characters than ids have."""
    return identity if _PLAIN_ID.fullmatch(identity) else ""


def safe_answer(message: AssistantMessage) -> AssistantMessage:
    """Return an answer of a model that can be logged, with calls as ``safe_call`` returns them.

    Of more than ``MAX_CALLS`` calls the further ones are left out; the first of them stays, to be
    refused with the reason.
    """
    parts: list[Text | Thinking | ToolCall] = []
    calls = 0
    count = len(message.calls)
    for part in message.parts:
        if isinstance(part, ToolCall):
            calls += 1
            if calls <= MAX_CALLS:
                parts.append(safe_call(part))
            elif calls == MAX_CALLS + 1:
                why = (
                    f"There are too many calls in one answer: {count:,}. The first {MAX_CALLS} were"
                    " carried out, no others."
                )
                parts.append(msgspec.structs.replace(safe_call(part), arguments="{}", problem=why))
        elif isinstance(part, Thinking):
            parts.append(Thinking(writable(part.text), _safe_vendor(part.vendor)))
        else:
            parts.append(msgspec.structs.replace(part, text=writable(part.text)))
    if (
        message.stop == "length"
        and parts
        and isinstance(last := parts[-1], ToolCall)
        and _is_incomplete(last)
    ):
        parts[-1] = msgspec.structs.replace(last, arguments="{}", problem=CUT_OFF)
    return msgspec.structs.replace(message, parts=tuple(parts))


def _is_incomplete(call: ToolCall) -> bool:
    """Return whether the last call of an answer that was cut off misses its end.

    Of one without any arguments nobody knows.
    """
    return not call.problem and not (call.arguments.strip() and is_readable(call.arguments))


def is_readable(text: str) -> bool:
    """Return whether arguments are one JSON object, as those of a call must be."""
    try:
        decode_arguments(text)
    except BadArguments:
        return False
    return True


def _safe_vendor(vendor: dict[str, Any]) -> dict[str, Any]:
    """Return a vendor's opaque fields, or none where they could not be read back from the log."""
    if not vendor:
        return vendor
    try:
        encoded = msgspec.json.encode(vendor).decode()
    except (RecursionError, UnicodeError, TypeError):
        return {}
    return vendor if nesting(encoded) <= MAX_DEPTH else {}
