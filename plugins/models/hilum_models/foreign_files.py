"""Reports the models that the user chose in other agents, for ``hilum import``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from hilum import UsageError, config_folder, environment, home_folder
from hilum.config_files import UnreadableFile, load_file
from hilum.foreign_files import ForeignFile, Offer
from hilum.settings import FILE, ChangeError, KernelSettings, change, load

from hilum_models.known_providers import KNOWN_PROVIDERS

_ALIASES = frozenset(("default", "inherit", "opus", "sonnet", "haiku", "opusplan", "auto"))
# opencode's names of providers that hilum names differently.
_PROVIDERS = {"google": "gemini"}


def find_foreign_files(folder: Path) -> Iterator[ForeignFile]:
    """Yield the user's settings files of other agents that choose a model. Blocks.

    Args:
        folder: The workspace. A project cannot choose the model, so its files are not read.
    """
    current = load([KernelSettings], strict=False, known=None).get(KernelSettings).model
    for path, agent, provider in _list_files():
        if not os.path.lexists(path):
            continue
        try:
            data = load_file(path).data
        except UnreadableFile:
            continue  # the guard reports the file
        name = _find_name(data)
        if name:
            yield _describe(path, agent, _full_name(name, provider, data), name, current)


def _list_files() -> Iterator[tuple[Path, str, str]]:
    home = home_folder()
    environ = environment()
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    claude = Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    codex = Path(environ.get("CODEX_HOME") or home / ".codex")
    yield claude / "settings.json", "Claude Code", "anthropic"
    yield codex / "config.toml", "Codex", "openai"
    yield home / ".gemini" / "settings.json", "Gemini CLI", "gemini"
    yield config / "opencode" / "opencode.json", "opencode", ""
    yield config / "opencode" / "opencode.jsonc", "opencode", ""


def _find_name(data: Mapping[str, Any]) -> str:
    model = data.get("model")
    if isinstance(model, dict):  # Gemini CLI
        model = model.get("name")
    return model.strip() if isinstance(model, str) else ""


def _full_name(name: str, provider: str, data: Mapping[str, Any]) -> str:
    """Return a model's name in hilum; empty if hilum has no such name."""
    if name.casefold() in _ALIASES:
        return ""
    if not provider:
        first, slash, rest = name.partition("/")
        provider, name = _PROVIDERS.get(first, first), rest
        if not slash:
            return ""
    # Codex can use the models of other providers under names that only its file defines.
    if data.get("model_provider", provider) != provider:
        return ""
    known = [each.name for each in KNOWN_PROVIDERS]
    return f"{provider}/{name}" if provider in known and name else ""


def _describe(path: Path, agent: str, full: str, name: str, current: str) -> ForeignFile:
    works: tuple[str, ...] = ()
    offers: tuple[Offer, ...] = ()
    left: tuple[str, ...] = ()
    if not full:
        left = (f"model {name}: hilum has no model with this name (see hilum models)",)
    elif full == current:
        works = (f"the model {full} is set",)
    elif current:
        left = (f"model {name}: your setting model is {current}",)
    else:
        take = partial(_take, full)
        offers = (Offer(f"model {name}", f"the setting model = {full}", take),)
    return ForeignFile(path, agent, "models", True, works, offers, left)


def _take(name: str, user: bool) -> str:
    """Store a model as the user's setting, and return the file."""
    file = config_folder() / FILE

    def choose(old: Any) -> Any:
        if old:
            raise UsageError(f"The setting model is {old} already.")
        return name

    try:
        return str(change(file, "model", choose))
    except ChangeError as error:
        raise UsageError(str(error)) from None
