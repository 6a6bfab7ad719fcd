"""Translates model names in agent files into hilum's: a role, or ``provider/name``."""

from __future__ import annotations

import re
from typing import NamedTuple

# Names that denote a tier rather than a model. For these names, the session's own model is used.
_SESSION_MODEL = frozenset(
    {"", "inherit", "default", "sonnet", "opus", "auto", "current", "parent", "opusplan", "best"}
)
_FAST = frozenset({"haiku", "fast", "small", "mini", "flash"})
_ROLES = frozenset({"summarize"})
_VENDORS = (
    (r"claude-", "anthropic"),
    (r"gemini-", "gemini"),
    (r"(?:gpt-|o[1-9]\b|chatgpt-|codex-)", "openai"),
    (r"deepseek-", "deepseek"),
    (r"grok-", "xai"),
    (r"(?:mistral|codestral|devstral)-", "mistral"),
)
_PROVIDERS = {"google": "gemini", "google-vertex": "gemini"}
# Providers that offer other vendors' models; the model name determines the vendor.
_RESELLERS = frozenset({"github-copilot", "copilot"})


class ModelChoice(NamedTuple):
    """The model chosen for an agent.

    Attributes:
        model: ``provider/name`` or a role; empty for the session's model.
        written: The value exactly as written in the file.
        warning: A message to the user; empty if there is none.
    """

    model: str
    written: str = ""
    warning: str = ""


def read_model(value: object) -> ModelChoice:
    """Return the model that the field ``model`` selects."""
    if isinstance(value, dict):
        return ModelChoice(
            "",
            str(value),
            "`model` must be a name, not a mapping; the session's model is used.",
        )
    if isinstance(value, list):
        return _first_of(value)
    text = "" if value is None else str(value).strip()
    return _read_name(text)._replace(written=text)


def _first_of(values: list[object]) -> ModelChoice:
    """Return the first model of a list."""
    named = [each for each in values if each is not None and not isinstance(each, dict | list)]
    names = [str(each).strip() for each in named]
    if not names:
        return ModelChoice("", "", "The list of models is empty; the session's model is used.")
    first = read_model(names[0])
    listed = ", ".join(names)
    warning = first.warning
    if len(names) > 1:
        warning = f"Only the first of the models {listed} is used. {warning}".rstrip()
    return ModelChoice(first.model, listed, warning)


def _read_name(text: str) -> ModelChoice:
    # VS Code writes models as `GPT-5 (copilot)`.
    name = re.sub(r"(?<!\s)\s*\((?:copilot|preview|latest)\)$", "", text, flags=re.IGNORECASE)
    folded = name.casefold()
    if folded in _SESSION_MODEL:
        return ModelChoice("")
    if folded in _FAST:
        return ModelChoice("fast")
    if folded in _ROLES:
        return ModelChoice(folded)
    if "/" in name:
        return _read_path(name, text)
    if any(sign in name for sign in "|,<"):
        return _not_a_model(text)
    return _read_plain(name, text)


def _read_path(name: str, text: str) -> ModelChoice:
    """Return the model for a name of the form ``provider/name``."""
    provider, _, rest = name.partition("/")
    if not rest or not re.fullmatch(r"[\w.:@/+-]+", name):
        return _not_a_model(text)
    # `github-copilot/gpt-5` is an OpenAI model.
    if provider.casefold() in _RESELLERS:
        return _read_name(rest)
    known = _PROVIDERS.get(provider.casefold(), provider)
    return ModelChoice(f"{known}/{rest}")


def _read_plain(name: str, text: str) -> ModelChoice:
    """Return the model for a name without a provider."""
    plain = re.sub(r"\s+", "-", name.casefold())
    vendor = next((vendor for pattern, vendor in _VENDORS if re.match(pattern, plain)), "")
    if vendor == "anthropic":
        plain = plain.replace(".", "-")  # people write "4.5", but model identifiers contain "4-5"
    if vendor:
        model = f"{vendor}/{plain}"
        warning = "" if plain == name else f"The model {text!r} is read as {model}."
        return ModelChoice(model, "", warning)
    if re.fullmatch(r"[\w.:@+-]+", name):
        return ModelChoice(
            name,
            "",
            f"The model {text!r} names no provider; unless it is one of your roles, the session's"
            " model is used.",
        )
    return _not_a_model(text)


def _not_a_model(text: str) -> ModelChoice:
    return ModelChoice("", "", f"{text!r} is not a model name; the session's model is used.")
