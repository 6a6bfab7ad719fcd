"""Answers as server-sent events, in the real shape of each vendor's stream.

Each function gives the events of one answer as bytes; joined they are the body of the response.
``number`` makes ids, so that the same exchange always gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from hilum.errors import ModelError
from hilum.messages import AssistantMessage, Text, Thinking, ToolCall, Usage

from hilum_replay.model import pieces

_encode = msgspec.json.Encoder().encode
CREATED = 1_700_000_000  # no clock: the same exchange gives the same bytes


def data(value: Any) -> bytes:
    """One event without a name."""
    return b"data: " + _encode(value) + b"\n\n"


def event(name: str, value: Any) -> bytes:
    """One event with a name."""
    return b"event: " + name.encode() + b"\n" + data(value)


def _cut(text: str) -> list[str]:
    return pieces(text)


# --- OpenAI chat completions ----------------------------------------------------------------------


def chat(message: AssistantMessage, usage: Usage, model: str, number: int) -> Iterator[bytes]:
    """Chunks of a chat completion, the usage in the last, then ``[DONE]``."""
    envelope = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": model,
    }

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return data(
            {**envelope, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        )

    yield chunk({"role": "assistant", "content": ""})
    calls = 0
    for part in message.parts:
        if isinstance(part, Text):
            for piece in _cut(part.text):
                yield chunk({"content": piece})
        elif isinstance(part, Thinking):
            yield from map(chunk, _chat_thinking(part))
        else:
            first, *rest = _cut(part.arguments) or [""]
            function = {"name": part.name, "arguments": first}
            start: dict[str, Any] = {
                "index": calls,
                "id": part.id,
                "type": "function",
                "function": function,
            }
            extra = part.vendor.get("extra_content")
            if extra:
                start["extra_content"] = extra
            yield chunk({"tool_calls": [start]})
            for piece in rest:
                yield chunk({"tool_calls": [{"index": calls, "function": {"arguments": piece}}]})
            calls += 1
    stops = {"end": "stop", "calls": "tool_calls", "length": "length", "refusal": "content_filter"}
    yield chunk({}, stops[message.stop])
    yield data({**envelope, "choices": [], "usage": _chat_usage(usage)})
    yield b"data: [DONE]\n\n"


def _chat_thinking(part: Thinking) -> Iterator[dict[str, Any]]:
    """Reasoning under the name it had; details go with its first piece."""
    details = part.vendor.get("reasoning_details")
    field = part.vendor.get("field") or ("reasoning" if details else "reasoning_content")
    for index, piece in enumerate(_cut(part.text) or [""]):
        extra = {"reasoning_details": details} if details and index == 0 else {}
        yield {field: piece, **extra}


def _chat_usage(usage: Usage) -> dict[str, Any]:
    table: dict[str, Any] = {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "prompt_tokens_details": {
            "cached_tokens": usage.cached,
            "cache_write_tokens": usage.cache_write,
        },
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
    if usage.cost is None:
        return table
    return {**table, "cost": usage.cost}


# --- OpenAI responses -----------------------------------------------------------------------------


def responses(message: AssistantMessage, usage: Usage, model: str, number: int) -> Iterator[bytes]:
    """Events of a response: items as they are added, grow and are done, then
    ``response.completed``.
    """
    counter = iter(range(1_000_000))

    def send(kind: str, **fields: Any) -> bytes:
        return event(kind, {"type": kind, "sequence_number": next(counter), **fields})

    reply: dict[str, Any] = {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": CREATED,
        "model": model,
    }
    begun = {**reply, "status": "in_progress", "output": [], "usage": None}
    yield send("response.created", response=begun)
    yield send("response.in_progress", response=begun)
    output: list[dict[str, Any]] = []
    phase = ""
    for part in message.parts:
        place = {"output_index": len(output)}
        name = f"{number}_{len(output)}"
        if isinstance(part, Text):
            item, steps = _text_item(part, f"msg_{name}", message.stop == "refusal", phase)
            phase = ""
        elif isinstance(part, ToolCall):
            item, steps = _call_item(part, f"fc_{name}")
        elif part.vendor.get("phase") and not part.text:
            phase = part.vendor[
                "phase"
            ]  # gateways keep what stands on a message here, before its text
            continue
        else:
            item, steps = _reasoning_item(part, f"rs_{name}")
        yield send("response.output_item.added", **place, item=steps[0][1])
        for kind, fields in steps[1:]:
            yield send(kind, item_id=item["id"], **place, **fields)
        yield send("response.output_item.done", **place, item=item)
        output.append(item)
    cut = message.stop == "length"
    why = {"incomplete_details": {"reason": "max_output_tokens"}} if cut else {}
    status = "incomplete" if cut else "completed"
    whole = {**reply, "status": status, **why, "output": output, "usage": _responses_usage(usage)}
    yield send(f"response.{status}", response=whole)


_Steps = list[tuple[str, dict[str, Any]]]


def _text_item(part: Text, name: str, refusal: bool, phase: str) -> tuple[dict[str, Any], _Steps]:
    kind, key, word = (
        ("refusal", "refusal", "refusal") if refusal else ("output_text", "text", "output_text")
    )
    content: dict[str, Any] = {"type": kind, key: part.text} | (
        {} if refusal else {"annotations": []}
    )
    item = {
        "id": name,
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [content],
    }
    item |= {"phase": phase} if phase else {}
    steps: _Steps = [("", {**item, "status": "in_progress", "content": []})]
    steps.append(
        ("response.content_part.added", {"content_index": 0, "part": {**content, key: ""}})
    )
    steps += [
        (f"response.{word}.delta", {"content_index": 0, "delta": piece})
        for piece in _cut(part.text)
    ]
    steps.append((f"response.{word}.done", {"content_index": 0, key: part.text}))
    steps.append(("response.content_part.done", {"content_index": 0, "part": content}))
    return item, steps


def _reasoning_item(part: Thinking, name: str) -> tuple[dict[str, Any], _Steps]:
    """A summary, or the item as it was where the vendor's own stands in the cassette."""
    summary = [{"type": "summary_text", "text": part.text}] if part.text else []
    item = {"id": name, "type": "reasoning", "summary": summary} | part.vendor.get("item", {})
    steps: _Steps = [("", {"id": item["id"], "type": "reasoning", "summary": []})]
    if part.text:
        empty = {"type": "summary_text", "text": ""}
        steps.append(("response.reasoning_summary_part.added", {"summary_index": 0, "part": empty}))
        for piece in _cut(part.text):
            steps.append(
                ("response.reasoning_summary_text.delta", {"summary_index": 0, "delta": piece})
            )
        steps.append(
            ("response.reasoning_summary_text.done", {"summary_index": 0, "text": part.text})
        )
        steps.append(
            ("response.reasoning_summary_part.done", {"summary_index": 0, "part": summary[0]})
        )
    return item, steps


def _call_item(part: ToolCall, name: str) -> tuple[dict[str, Any], _Steps]:
    item = {"id": name, "type": "function_call", "call_id": part.id, "name": part.name}
    steps: _Steps = [("", {**item, "status": "in_progress", "arguments": ""})]
    steps += [
        ("response.function_call_arguments.delta", {"delta": piece})
        for piece in _cut(part.arguments)
    ]
    steps.append(("response.function_call_arguments.done", {"arguments": part.arguments}))
    return {**item, "status": "completed", "arguments": part.arguments}, steps


def _responses_usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {
            "cached_tokens": usage.cached,
            "cache_write_tokens": usage.cache_write,
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total,
    }


# --- Anthropic messages ---------------------------------------------------------------------------


def anthropic(message: AssistantMessage, usage: Usage, model: str, number: int) -> Iterator[bytes]:
    """Events of a message: blocks as they start, grow and stop, then ``message_stop``."""
    counts = {
        "input_tokens": max(0, usage.input - usage.cached - usage.cache_write),
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": 1,
    }
    shell: dict[str, Any] = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
    }
    shell |= {"stop_reason": None, "stop_sequence": None, "usage": counts}
    yield event("message_start", {"type": "message_start", "message": shell})
    yield event("ping", {"type": "ping"})
    for index, part in enumerate(message.parts):
        block, deltas = _block(part)
        yield event(
            "content_block_start",
            {"type": "content_block_start", "index": index, "content_block": block},
        )
        for delta in deltas:
            yield event(
                "content_block_delta",
                {"type": "content_block_delta", "index": index, "delta": delta},
            )
        yield event("content_block_stop", {"type": "content_block_stop", "index": index})
    stops = {"end": "end_turn", "calls": "tool_use", "length": "max_tokens", "refusal": "refusal"}
    ending = {"stop_reason": stops[message.stop], "stop_sequence": None}
    final = {
        "output_tokens": usage.output,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
    }
    yield event("message_delta", {"type": "message_delta", "delta": ending, "usage": final})
    yield event("message_stop", {"type": "message_stop"})


def _block(part: Text | Thinking | ToolCall) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    if isinstance(part, Text):
        return {"type": "text", "text": ""}, [
            {"type": "text_delta", "text": piece} for piece in _cut(part.text)
        ]
    if isinstance(part, ToolCall):
        start = {"type": "tool_use", "id": part.id, "name": part.name, "input": {}}
        texts = _cut(part.arguments) or [""]
        return start, [{"type": "input_json_delta", "partial_json": piece} for piece in texts]
    hidden = part.vendor.get("redacted")
    if hidden:
        return {"type": "redacted_thinking", "data": hidden}, []
    deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _cut(part.text)]
    signature = part.vendor.get("signature")
    if signature:
        deltas.append({"type": "signature_delta", "signature": signature})
    return {"type": "thinking", "thinking": "", "signature": ""}, deltas


# --- Gemini ---------------------------------------------------------------------------------------


def gemini(message: AssistantMessage, usage: Usage, model: str, number: int) -> Iterator[bytes]:
    """Chunks of generated content; a call comes whole, and the last chunk says how it ended."""
    envelope = {"modelVersion": model, "responseId": f"resp-{number}"}

    def chunk(parts: list[Any], finish: str = "") -> bytes:
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
        if finish:
            candidate["finishReason"] = finish
        return data({"candidates": [candidate], "usageMetadata": counts, **envelope})

    counts = {
        "promptTokenCount": usage.input,
        "cachedContentTokenCount": usage.cached,
        "candidatesTokenCount": usage.output - usage.reasoning,
        "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": usage.total,
    }
    for part in message.parts:
        if isinstance(part, ToolCall):
            call = {
                "id": part.id,
                "name": part.name,
                "args": msgspec.Raw(part.arguments.encode() or b"{}"),
            }
            yield chunk([{"functionCall": call} | _signature(part)])
            continue
        thought = {"thought": True} if isinstance(part, Thinking) else {}
        for piece in _cut(part.text):
            yield chunk([{"text": piece} | thought])
        if isinstance(part, Thinking) and (signature := _signature(part)):
            yield chunk([{"text": ""} | signature])
    stops = {"end": "STOP", "calls": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY"}
    yield chunk([{"text": ""}], stops[message.stop])


def _signature(part: Thinking | ToolCall) -> dict[str, Any]:
    signature = part.vendor.get("thoughtSignature")
    return {"thoughtSignature": signature} if signature else {}


# --- all ------------------------------------------------------------------------------------------

Renderer = Callable[[AssistantMessage, Usage, str, int], Iterator[bytes]]
RENDERERS: dict[str, Renderer] = {
    "chat": chat,
    "responses": responses,
    "anthropic": anthropic,
    "gemini": gemini,
}


def render(
    api: str, message: AssistantMessage, usage: Usage, model: str, number: int, checked: bool = True
) -> list[bytes]:
    """Return the events of an answer in a format.

    Args:
        api: ``chat``, ``responses``, ``anthropic`` or ``gemini``.
        message: The answer.
        usage: Its tokens.
        model: The model's name, as the request gave it.
        number: Makes ids.
        checked: Whether to refuse what the format cannot hold, instead of sending something broken.

    Raises:
        ModelError: Gemini sends arguments as JSON objects; those of this answer are none.
    """
    if api == "gemini" and checked:
        for call in message.calls:
            try:
                msgspec.json.decode(call.arguments or "{}", type=dict[str, msgspec.Raw])
            except msgspec.DecodeError:
                text = (
                    f"The arguments of the call {call.id} are no JSON object, which Gemini's format"
                    " cannot hold."
                )
                raise ModelError(
                    text, kind="request", status=400, hint="Serve it in another format."
                ) from None
    return list(RENDERERS[api](message, usage, model, number))


def failure(api: str, status: int, text: str) -> bytes:
    """The body of an error response, as each vendor shapes it."""
    if api == "anthropic":
        kinds = {
            400: "invalid_request_error",
            401: "authentication_error",
            404: "not_found_error",
            429: "rate_limit_error",
        }
        kind = kinds.get(status, "overloaded_error" if status == 529 else "api_error")
        return _encode({"type": "error", "error": {"type": kind, "message": text}})
    if api == "gemini":
        states = {
            400: "INVALID_ARGUMENT",
            401: "UNAUTHENTICATED",
            404: "NOT_FOUND",
            429: "RESOURCE_EXHAUSTED",
        }
        return _encode(
            {"error": {"code": status, "message": text, "status": states.get(status, "INTERNAL")}}
        )
    kinds = {
        400: "invalid_request_error",
        401: "authentication_error",
        404: "not_found_error",
        429: "rate_limit_error",
    }
    return _encode(
        {
            "error": {
                "message": text,
                "type": kinds.get(status, "server_error"),
                "param": None,
                "code": None,
            }
        }
    )


def error_event(api: str, text: str) -> bytes:
    """An error within a stream that had begun."""
    if api == "anthropic":
        return event(
            "error", {"type": "error", "error": {"type": "overloaded_error", "message": text}}
        )
    if api == "responses":
        error = {"code": "server_error", "message": text}
        return event(
            "response.failed",
            {"type": "response.failed", "response": {"status": "failed", "error": error}},
        )
    if api == "gemini":
        return data({"error": {"code": 503, "message": text, "status": "UNAVAILABLE"}})
    return data({"error": {"message": text, "type": "server_error", "code": 503}})
