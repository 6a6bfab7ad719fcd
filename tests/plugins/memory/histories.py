"""Generated conversations, and what makes a request valid for each wire format."""

import json
import random
from types import SimpleNamespace

from hilum import (
    AssistantMessage,
    Image,
    NoteMessage,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from hilum_models.anthropic import AnthropicWire
from hilum_models.encode import Target
from hilum_models.gemini import GeminiWire
from hilum_models.openai_chat import ChatWire
from hilum_models.openai_responses import ResponsesWire

WIRES = {
    "chat": ChatWire,
    "responses": ResponsesWire,
    "anthropic": AnthropicWire,
    "gemini": GeminiWire,
}
SUMMARY = "\n".join(
    f"## {name}\nWhat was done about {name} in src/app.py.\n"
    for name in ("Goal", "Decisions", "Files", "Facts", "Open work")
)
WORDS = "def return class import 数据 文件 错误 修复 the a of result = ( ) { } \n - 0x1f 42 / . value self".split(
    " "
)


def wire(api):
    return WIRES[api](Target("lab/m", max_output=1_000, images=True))


def _pools():
    rng = random.Random(7)
    chinese = "".join(rng.choices("的一是在不了有和人这中大为上个国我以要他", k=60_000))
    return (
        "".join(rng.choices("ABCDEFGHIJabcdefghij0123456789+/", k=60_000)),
        chinese,
        " ".join(rng.choices(WORDS, k=30_000)),
    )


POOLS = _pools()


def text(rng, size):
    """A piece of base64, of Chinese, or of code."""
    kind, start = rng.random(), rng.randrange(40_000)
    return POOLS[0 if kind < 0.1 else 1 if kind < 0.3 else 2][start : start + size].strip() or "x"


def history(seed, *, most=40, repeated=False):
    """Give the messages of a conversation between runs."""
    rng, number = random.Random(seed), 0
    messages = []
    if rng.random() < 0.2:
        messages.append(NoteMessage("40 earlier messages were dropped to fit the window."))
    for _ in range(rng.randint(1, 6)):
        parts = [Text(text(rng, rng.choice((20, 200, 2_000))))]
        if rng.random() < 0.2:
            parts.append(
                Text("<open_file>\n" + text(rng, 1_500) + "\n</open_file>", "context:open_file")
            )
        if rng.random() < 0.1:
            parts.append(Image("image/png", b"x" * rng.randint(10, 90_000)))
        messages.append(UserMessage(tuple(parts)))
        for _ in range(rng.randint(0, most // 4)):
            calls, results = [], []
            for _ in range(rng.randint(1, 3)):
                identity = (
                    "call_repeated_00"
                    if repeated and rng.random() < 0.5 and not calls
                    else f"call_{seed}_{number:04}"
                )
                number += 1
                path = f"src/{rng.choice('abcdef')}.py"
                calls.append(ToolCall(identity, "read_file", json.dumps({"path": path})))
                out = [
                    Text(text(rng, rng.choice((5, 300, 3_000, 9_000, 20_000))), "tool:read_file")
                ]
                if rng.random() < 0.05:
                    out.append(Image("image/png", b"y" * 5_000, "tool:read_file"))
                results.append(
                    ToolResult(
                        identity, "read_file", tuple(out), rng.choice(("", "", "E_NOT_FOUND"))
                    )
                )
            said = (Text(text(rng, 100), "model"),) if rng.random() < 0.5 else ()
            messages += [
                AssistantMessage((*said, *calls), "lab/m", "calls"),
                ToolMessage(tuple(results)),
            ]
            if rng.random() < 0.2:
                messages.append(NoteMessage("Mind the rules."))
        messages.append(AssistantMessage((Text(text(rng, 200), "model"),), "lab/m"))
    if len(messages) > 3 and isinstance(messages[-2], ToolMessage) and rng.random() < 0.5:
        messages.pop()  # as after a run that was stopped
    return messages


def check_body(api, body):
    """Assert what the provider would: each call has its result right after it, no result stands
    alone, roles alternate.
    """
    {"chat": _chat, "responses": _responses, "anthropic": _anthropic, "gemini": _gemini}[api](
        json.loads(body)
    )


def _chat(body):
    messages = [m for m in body["messages"] if m["role"] != "system"]
    assert messages[0]["role"] == "user"
    waiting = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
            continue
        assert not waiting
        assert message.get("content") or message.get("tool_calls")
        waiting = [call["id"] for call in message.get("tool_calls", ())]
    assert not waiting


def _responses(body):
    waiting, done = [], False
    for item in body["input"]:
        if item.get("type") == "function_call":
            assert not done
            waiting.append(item["call_id"])
        elif item.get("type") == "function_call_output":
            done = True
            assert item["call_id"] == waiting.pop(0)
        else:
            assert not waiting
        done = done and bool(waiting)
    assert not waiting


def _anthropic(body):
    messages = body["messages"]
    assert messages[0]["role"] == "user"
    for before, message in zip([SimpleNamespace(), *messages], messages, strict=False):
        uses = (
            [b["id"] for b in before["content"] if b["type"] == "tool_use"]
            if isinstance(before, dict)
            else []
        )
        assert [b["tool_use_id"] for b in message["content"] if b["type"] == "tool_result"] == uses
        # Two messages of the user are read as one; two of the assistant would be, too, and never
        # are.
        assert message["role"] == "user" or before["role"] == "user"
        assert message["content"]
    assert not [b for b in messages[-1]["content"] if b["type"] == "tool_use"]


def _gemini(body):
    contents, waiting = body["contents"], []
    assert contents[0]["role"] == "user"
    for content in contents:
        responses = [
            part["functionResponse"]["id"]
            for part in content["parts"]
            if "functionResponse" in part
        ]
        assert responses == waiting
        waiting = [
            part["functionCall"]["id"] for part in content["parts"] if "functionCall" in part
        ]
        assert content["parts"]
        assert not waiting or content["role"] == "model"
    assert not waiting
