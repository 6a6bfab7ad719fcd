"""Models as agent files name them, and what that is here: a role, or ``provider/name``."""

from __future__ import annotations

import re

# What the session's own model stands for: names of rank, not of a model.
_OWN = frozenset(
    {"", "inherit", "default", "sonnet", "opus", "auto", "current", "parent", "opusplan", "best"}
)
_FAST = frozenset({"haiku", "fast", "small", "mini", "flash"})
_ROLES = frozenset({"summarize"})
_MAKERS = (
    (r"claude-", "anthropic"),
    (r"gemini-", "gemini"),
    (r"(?:gpt-|o[1-9]\b|chatgpt-|codex-)", "openai"),
    (r"deepseek-", "deepseek"),
    (r"grok-", "xai"),
    (r"(?:mistral|codestral|devstral)-", "mistral"),
)
_PROVIDERS = {"google": "gemini", "google-vertex": "gemini", "github-copilot": "", "copilot": ""}


def read_model(written: object) -> tuple[str, str, str]:
    """Read the value of ``model``.

    Returns:
        The model (empty for the session's), as it was written, and a warning or nothing.
    """
    if isinstance(written, list):
        names = [
            str(each).strip()
            for each in written
            if each is not None and not isinstance(each, dict | list)
        ]
        if not names:
            return "", "", "The list of models is empty; the session's model is taken."
        model, _, warning = read_model(names[0])
        if len(names) > 1:
            more = f"Of the models {', '.join(names)} the first is taken."
        else:
            more = ""
        return model, ", ".join(names), " ".join(filter(None, (more, warning)))
    if isinstance(written, dict):
        return "", str(written), "A model is a name, not a mapping; the session's model is taken."
    text = "" if written is None else str(written).strip()
    model, warning = _of(text)
    return model, text, warning


def _of(text: str) -> tuple[str, str]:
    name = re.sub(r"(?<!\s)\s*\((?:copilot|preview|latest)\)$", "", text, flags=re.IGNORECASE)
    folded = name.casefold()
    if folded in _OWN:
        return "", ""
    if folded in _FAST:
        return "fast", ""
    if folded in _ROLES:
        return folded, ""
    if "/" in name:
        provider, _, rest = name.partition("/")
        if not rest or not re.fullmatch(r"[\w.:@/+-]+", name):
            return "", f"{text!r} is no model; the session's model is taken."
        known = _PROVIDERS.get(provider.casefold(), provider)
        if known == "":
            return _of(rest)
        return f"{known}/{rest}", ""
    if "|" in name or "," in name or "<" in name:
        return "", f"{text!r} is no model; the session's model is taken."
    plain = re.sub(r"\s+", "-", folded)
    maker = next((maker for pattern, maker in _MAKERS if re.match(pattern, plain)), "")
    if maker:
        # Claude's identifiers have a hyphen where people write a point.
        if maker == "anthropic":
            plain = plain.replace(".", "-")
        else:
            plain = plain
        if plain == name:
            warning = ""
        else:
            warning = f"The model {text!r} is taken as {maker}/{plain}."
        return f"{maker}/{plain}", warning
    if re.fullmatch(r"[\w.:@+-]+", name):
        return (
            name,
            (
                f"The model {text!r} has no provider; it counts if it is one of your roles, else"
                " the session's is taken."
            ),
        )
    return "", f"{text!r} is no model; the session's model is taken."
