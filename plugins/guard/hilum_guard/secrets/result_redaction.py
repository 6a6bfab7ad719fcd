"""Replace secrets in tool results, and remember which files the placeholders come from."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, unquote_plus

import msgspec
import trio
from hilum import Session, Text, ToolCall, ToolError, ToolResult, environment

from hilum_guard.secrets.redaction import (
    PLACEHOLDER,
    is_settings,
    is_source,
)
from hilum_guard.secrets.settings_secrets import SettingsRedactor

if TYPE_CHECKING:
    from hilum_guard.call_reader import CheckedCall

MAX_CLEAN = 256
"""Maximum number of cleaned result texts to remember."""
MAX_CHARACTERS = 20_000
"""Length in characters above which a thread searches a result (0.2 ms for 1,000 characters)."""


class ResultRedactor:
    """The redactor for one session's results and logs.

    Args:
        session: The session.
        config: The user's configuration folder.
    """

    def __init__(self, session: Session, config: Path) -> None:
        self._session = session
        self._redactor = SettingsRedactor({**os.environ, **environment()}, config)
        # The result texts that were cleaned most recently. Events repeat these texts, and searching
        # them again would double the cost.
        self._clean: dict[str, None] = {}
        # Workspace-relative paths of the files that the model read with a placeholder in them.
        self._files: set[str] = set()

    @property
    def files(self) -> frozenset[str]:
        """The files that the model read with a placeholder in them, relative to the workspace."""
        return frozenset(self._files)

    def redact(self, text: str, path: str = "") -> str:
        """Return a text without secrets. Threads may call it.

        Args:
            text: The text.
            path: The file that the text comes from; if given, a placeholder is never written back
                to it.
        """
        cleaned = self._redactor(text, guess=not is_source(path), settings=is_settings(path))
        if path and cleaned != text:
            self.remember_file(path)
        return cleaned

    def redact_texts(self, texts: Sequence[str], origin: str) -> list[str]:
        """Return text without secrets, before the text is logged. Threads may call it.

        Values that are only named like a secret are replaced only in prompts: a model's output is
        mostly code and examples, and secrets that the model could repeat were replaced when it read
        them.
        """
        known = self._clean if origin == "result" else {}
        cleaned = []
        redactor = self._redactor.current()
        for text in texts:
            if text not in known:
                text = redactor(text, guess=origin == "prompt")
            cleaned.append(text)
        return cleaned

    async def redact_result(self, call: ToolCall, result: ToolResult) -> ToolResult | None:
        """Return a result without its secrets, or None if it contains no secrets."""
        if is_long(result):
            cleaned = await trio.to_thread.run_sync(self._clean_texts, call, result)
        else:
            cleaned = self._clean_texts(call, result)
        return self._replace_texts(result, cleaned)

    def redact_short_result(self, call: ToolCall, result: ToolResult) -> ToolResult | None:
        """Return the same as ``redact_result`` for a result that is not long, without a task."""
        return self._replace_texts(result, self._clean_texts(call, result))

    def _clean_texts(self, call: ToolCall, result: ToolResult) -> dict[str, str]:
        """Return the texts in a result, each with its form without secrets. Threads may call it."""
        path = read_path(call)
        # A command's output may be source code as well as settings, so plain words in it do not
        # count as passwords.
        is_of_file = bool(path) and result.name != "run_terminal_cmd"
        guess = not (is_of_file and is_source(path))
        settings = is_of_file and is_settings(path)
        cleaned = {}
        redactor = self._redactor.current()
        for text in _list_texts(result):
            cleaned[text] = redactor(text, guess=guess, settings=settings)
        return cleaned

    def _replace_texts(self, result: ToolResult, cleaned: dict[str, str]) -> ToolResult | None:
        """Return a result with its texts replaced, or None if no text differs."""
        self._remember_clean(cleaned.values())
        if all(text == new for text, new in cleaned.items()):
            return None
        parts = []
        for part in result.parts:
            if isinstance(part, Text):
                part = Text(cleaned[part.text], part.source)
            parts.append(part)
        data = _map_texts(result.data, cleaned.__getitem__)
        return msgspec.structs.replace(result, parts=tuple(parts), data=data)

    def _remember_clean(self, texts: Any) -> None:
        # A dict keeps insertion order, so its first key is the oldest.
        while len(self._clean) > MAX_CLEAN:
            del self._clean[next(iter(self._clean))]
        self._clean.update(dict.fromkeys(texts))

    def remember_file(self, path: str) -> None:
        """Remember that the model sees a placeholder for a secret in a file. Blocks."""
        workspace = self._session.workspace
        try:
            self._files.add(workspace.relative(workspace.resolve(path)))
        except ToolError:  # the file is outside the workspace, where no tool writes
            pass

    def carries_secret(self, call: CheckedCall) -> bool:
        """Return whether a call's URL contains a secret."""
        url = call.facts.arguments.get("url")
        if call.facts.category != "network" or not isinstance(url, str) or not url:
            return False
        # A secret in a URL may be percent-encoded, and a `+` may stand for a space.
        texts = {url, unquote(url), unquote_plus(url)}
        return any(self._redactor(text) != text for text in texts)


def is_long(result: ToolResult) -> bool:
    """Return whether a thread must search a result, because that takes several milliseconds."""
    return sum(map(len, _list_texts(result))) > MAX_CHARACTERS


def _list_texts(result: ToolResult) -> list[str]:
    """Return the different texts in a result, in their order."""
    texts = dict.fromkeys(part.text for part in result.parts if isinstance(part, Text))
    # Here, `_map_texts` only collects the texts; its result is not used.
    _map_texts(result.data, lambda text: texts.setdefault(text) or text)
    return list(texts)


def explain_placeholder(files: frozenset[str], names: frozenset[str], call: CheckedCall) -> str:
    """Return why a call that contains a secret's placeholder must not run; empty if it may run.

    A write would destroy the secret that the placeholder stands for, or write the placeholder
    instead of a secret from a prompt. A command would use the placeholder as if it were the secret.

    Args:
        files: The files that the model has read with a placeholder in them.
        names: The names of the secrets that were replaced in prompts and answers.
        call: The call.
    """
    facts = call.facts
    if not call.changes and facts.command is None:
        return ""
    found = set(PLACEHOLDER.findall(msgspec.json.encode(facts.arguments).decode()))
    if call.changes and found and files.intersection(facts.paths):
        return (
            "The text contains [REDACTED:…], which replaces a secret in this file. Edit only the"
            " text around it."
        )
    replaced = sorted(found & {f"[REDACTED:{name}]" for name in names})
    if replaced:
        return (
            f"{replaced[0]} replaces a secret that you do not have. Leave its place empty or read"
            " it from the environment, and ask the user to set it there."
        )
    return ""


def read_path(call: ToolCall) -> str:
    """Return the file that a call names; empty if it does not name one."""
    try:
        arguments = msgspec.json.decode(call.arguments or "{}")
    except msgspec.DecodeError:
        return ""
    path = arguments.get("path") if isinstance(arguments, dict) else None
    return path if isinstance(path, str) else ""


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a copy of plain data with a function applied to all its strings."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _map_texts(inner, change) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_map_texts(inner, change) for inner in value]
    return value
