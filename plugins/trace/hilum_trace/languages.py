"""The languages of the page of a trace: English, and a table with the same texts in Chinese."""

from __future__ import annotations

import re
from collections.abc import Mapping


class Language:
    """A language in which texts are written.

    Args:
        table: The translation of each English text; one that is missing stays in English.
    """

    def __init__(self, table: Mapping[str, str] | None = None) -> None:
        self._table = table or {}

    def __call__(self, text: str, **values: object) -> str:
        """Return a text with values for the names in braces.

        Args:
            text: The English text.
            values: The values.
        """
        text = self._table.get(text, text)
        return text.format(**values) if values else text


TEXTS: dict[str, str] = {
    # Titles
    "model {name}": "模型 {name}",
    "model for {name}": "模型（用于 {name}）",
    "queued {name}": "排队 {name}",
    "waits for {name}": "等待 {name}",
    "waits for approval of {name}": "等待批准 {name}",
    "asks {name}": "提问 {name}",
    "run {name}": "运行 {name}",
    "agent {name}": "代理 {name}",
    "compaction {name}": "压缩 {name}",
    "hook {name} of {plugin}": "插件 {plugin} 的钩子 {name}",
    "turn {turn}": "第 {turn} 轮",
    "turn": "轮次",
    "continued run": "继续的运行",
    "other calls": "其他调用",
    "Trace of {session}": "{session} 的追踪",
    "a session": "一个会话",
    "{count} events": "{count} 个事件",
    # Usage
    "{count} in": "输入 {count}",
    "{count} in ({share} cached)": "输入 {count}（缓存 {share}）",
    "{count} out": "输出 {count}",
    # Waits
    "first chunk after {time}": "首个数据块在 {time} 后到达",
    "waited to retry {time}": "等待重试 {time}",
    "waited for you {time}": "等待你 {time}",
    "waited for other calls {time}": "等待其他调用 {time}",
    "queued {time}": "排队 {time}",
    "interrupted for {time}": "中断 {time}",
    "{time} for first chunks": "首个数据块 {time}",
    "{time} to retry": "重试 {time}",
    "{time} for you": "等你 {time}",
    "{time} for other calls": "其他调用 {time}",
    "waited: {waits}": "等待：{waits}",
    "ran for {time}": "执行了 {time}",
    # Failures
    "1 failed attempt ({codes})": "1 次尝试失败（{codes}）",
    "{count} failed attempts ({codes})": "{count} 次尝试失败（{codes}）",
    "approved by {who}": "由 {who} 批准",
    "denied by {who}": "由 {who} 拒绝",
    "running": "运行中",
    "cancelled": "已取消",
    "outside of runs": "不属于任何运行",
    # Cache breaks
    "cache break: {why}": "缓存中断：{why}",
    "new run": "新的运行",
    "compaction": "压缩",
    "other mode": "模式已更换",
    "other model": "模型已更换",
    "the provider's cache was lost": "提供方的缓存已失效",
    "{name} added": "新增 {name}",
    "{name} removed": "移除 {name}",
    "{name} changed": "更改 {name}",
    "{why}: {changed}": "{why}：{changed}",
    "{names} and {count} more": "{names} 以及另外 {count} 项",
    "{why} (cached {before} → {after})": "{why}（缓存 {before} → {after}）",
    # Logs that cannot be read completely
    "{count} event is of a type that this version does not know: {types}.": (
        "有 {count} 个事件的类型是此版本不认识的：{types}。"
    ),
    "{count} events are of types that this version does not know: {types}.": (
        "有 {count} 个事件的类型是此版本不认识的：{types}。"
    ),
    "The log is damaged at entry {places}.": "日志在第 {places} 条处损坏。",
    "The log is damaged in {count} places: at entries {places}.": (
        "日志有 {count} 处损坏：第 {places} 条。"
    ),
}
ENGLISH = Language()
CHINESE = Language(TEXTS)

# Characters for private use, around a text that the page puts together in its own language. Where a
# session contains them, they are replaced.
START = "\ue000"
NEXT = "\ue001"
END = "\ue002"
_MARKS = str.maketrans(dict.fromkeys(START + NEXT + END, "\ufffd"))
_NUMBERS = {text: number for number, text in enumerate(TEXTS)}
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_NAMES = {text: _PLACEHOLDER.findall(text) for text in TEXTS}


class NumberedLanguage(Language):
    """The language of the data in a page: numbers of texts, with their values.

    A page may have tens of thousands of texts, so that both languages would double its size.

    Args:
        limit: Maximum number of characters of a value; longer ones are cut.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def __call__(self, text: str, **values: object) -> str:
        """Return the number of a text, with its values, between marks."""
        parts = [str(_NUMBERS[text])]
        for name in _NAMES[text]:
            value = str(values[name])
            # A value with marks was put together by this method.
            parts.append(value if START in value else cut_text(value, self._limit))
        return f"{START}{NEXT.join(parts)}{END}"


def replace_marks(text: str) -> str:
    """Return a text without the marks of ``NumberedLanguage``."""
    return text if text.isascii() else text.translate(_MARKS)


def cut_text(text: str, limit: int) -> str:
    """Return a text with at most ``limit`` characters, which can be written to a file."""
    # A damaged log may contain surrogates.
    text = text.encode(errors="replace").decode()
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
