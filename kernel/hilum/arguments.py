"""Limits for the tool calls that a model writes.

Within these limits, the log, every wire format and every face can handle a call.

Each call is checked once, before it is logged. Every part of the program can encode, decode and
show a call that passes the check.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from hilum.messages import AssistantMessage, Text, Thinking, ToolCall, replace_surrogates
from hilum.signature import nesting

# Maximum nesting depth of lists and objects. JSON decoders fail at about 1,000 levels, and faces
# also decode the arguments.
MAX_DEPTH = 100
MAX_LENGTH = 4_000_000  # characters; even the longest model responses have fewer than 1,000,000
MAX_CALLS = 128  # maximum number of calls in one response that are run
# Characters that every terminal shows unchanged. Kimi writes ids such as `functions.NAME:0` and
# expects them back; gateways of stricter vendors encode these ids.
_PLAIN_ID = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
NO_TOOL = "There is no tool"
CALL_TOOL = "call_tool"  # the tool that calls deferred tools
CUT_OFF = (
    "Your answer was cut off at the output limit in the middle of this call, so it was not carried"
    " out. Send it in smaller pieces, each in a separate answer: write the beginning of a long"
    " text first, then add the rest."
)
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what every provider accepts


class BadArguments(ValueError):
    """The arguments of a call are invalid.

    The message completes the sentence "The arguments …", without a full stop.
    """


def decode_arguments(text: str) -> dict[str, Any]:
    """Decode the arguments of a call.

    Args:
        text: JSON as a model wrote it; empty for no arguments.

    Raises:
        BadArguments: The text is not one JSON object, or a key occurs twice in an object.
    """
    try:
        decoded = msgspec.json.decode(text or "{}", type=dict[str, Any])
        # Of two equal keys, msgspec keeps the last one, but the model may have meant the first one.
        json.loads(text or "{}", object_pairs_hook=_without_duplicates)
    except BadArguments:
        raise
    except ValueError as error:  # raised by msgspec, json or a codec
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
    """Return arguments in canonical form, in which equal objects have equal texts.

    Text that is not JSON is returned unchanged.
    """
    try:
        return msgspec.json.encode(msgspec.json.decode(text or "{}"), order="sorted").decode()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


def encode_arguments(arguments: Mapping[str, Any]) -> str:
    """Encode arguments as the JSON text of a call."""
    return msgspec.json.encode(arguments).decode()


def problem_of(text: str) -> str:
    """Return why arguments cannot be stored, as the end of the sentence "The arguments …".

    The result is empty if the arguments can be stored.
    """
    if len(text) > MAX_LENGTH:
        return f"are {len(text):,} characters long; at most {MAX_LENGTH:,} are accepted"
    if nesting(text) > MAX_DEPTH:
        return f"are nested more than {MAX_DEPTH} levels deep"
    if replace_surrogates(text) != text or _has_half_character(text):
        return "contain half of a surrogate pair, which is not a character"
    return ""


def _has_half_character(text: str) -> bool:
    """Return whether a text contains an escape sequence for half of a surrogate pair.

    JSON decoders disagree on how to read such a sequence.
    """
    # Only a text with an escape for a surrogate needs to be decoded.
    if "\\ud" not in text and "\\uD" not in text:
        return False
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return True
    return False


def safe_call(call: ToolCall) -> ToolCall:
    """Return a call that can be logged and sent back to any provider.

    Arguments that cannot be stored are left out. The call's ``problem`` then contains the reason,
    and the call is refused with it.
    """
    problem = ""
    # Some models prefix the name with the namespace that tools had in their training data.
    name = call.name.strip().removeprefix("functions.")
    if not TOOL_NAME.fullmatch(name):
        problem = f"{NO_TOOL} {replace_surrogates(call.name)[:100]!r}."
    elif reason := problem_of(call.arguments):
        problem = f"The arguments of {name} {reason}."
    return ToolCall(
        id=safe_id(call.id),
        # The name is sent back with the conversation, and OpenAI rejects a whole request because of
        # one name that does not match this pattern.
        name=re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unnamed",
        arguments="{}" if problem else call.arguments,
        vendor=_safe_vendor(call.vendor),
        problem=problem,
    )


def safe_id(identity: str) -> str:
    """Return the id of a call; empty if it is too long or contains invalid characters."""
    return identity if _PLAIN_ID.fullmatch(identity) else ""


def safe_answer(message: AssistantMessage) -> AssistantMessage:
    """Return a model's response in a form that can be logged; see ``safe_call`` for its calls.

    Calls beyond ``MAX_CALLS`` are left out, except for the first one, which is kept so that it can
    be refused with the reason.
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
                parts.append(replace(safe_call(part), arguments="{}", problem=why))
        elif isinstance(part, Thinking):
            parts.append(Thinking(replace_surrogates(part.text), _safe_vendor(part.vendor)))
        else:
            parts.append(replace(part, text=replace_surrogates(part.text)))
    # Only the last part can be incomplete, because the model finished all earlier parts.
    if message.stop == "length" and parts:
        last = parts[-1]
        if isinstance(last, ToolCall) and _is_incomplete(last):
            parts[-1] = replace(last, arguments="{}", problem=CUT_OFF)
    return replace(message, parts=tuple(parts))


def _is_incomplete(call: ToolCall) -> bool:
    """Return whether the last call of a response that was cut off is incomplete.

    A call without arguments counts as incomplete, because its arguments may have been cut off.
    """
    if call.problem:
        return False
    return not call.arguments.strip() or not is_readable(call.arguments)


def is_readable(text: str) -> bool:
    """Return whether a text is one JSON object, as the arguments of a call must be."""
    try:
        decode_arguments(text)
    except BadArguments:
        return False
    return True


def _safe_vendor(vendor: dict[str, Any]) -> dict[str, Any]:
    """Return a vendor's opaque fields; empty if they could not be read back from the log."""
    if not vendor:
        return vendor
    try:
        encoded = msgspec.json.encode(vendor).decode()
    except (RecursionError, UnicodeError, TypeError):
        return {}
    return vendor if nesting(encoded) <= MAX_DEPTH else {}
