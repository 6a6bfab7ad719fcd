"""The properties of common models: context window, maximum answer length, price, images and tools.

Windows and prices in ``catalog.json`` come from genai-prices 0.2.3 (data from 20 November 2026).
Maximum answer lengths are the vendors' own figures if known, and otherwise a cautious 32,000.
Prices are in US dollars per million tokens in the standard tier. Settings under
``[models.models."provider/name"]`` take precedence.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
from hilum.models import Price


class ModelFacts(msgspec.Struct, frozen=True):
    """The properties of a model.

    Attributes:
        window: Context window in tokens.
        max_output: Maximum number of tokens in one answer.
        price: The price, or ``None`` if it is unknown.
        images: Whether the model accepts images.
        tools: Whether the model supports native tool calls.
        window_assumed: Whether the window is a cautious assumption.
    """

    window: int = 128_000
    max_output: int = 16_384
    price: Price | None = None
    images: bool = False
    tools: bool = True
    window_assumed: bool = False


# The catalog is a data file, keyed by prefixes of model names, so that a script can update prices.
_CATALOG = msgspec.json.decode(
    Path(__file__).with_name("catalog.json").read_bytes(),
    type=dict[str, ModelFacts],
)
# The longest matching prefix wins: gpt-5-mini before gpt-5.
_PREFIXES = sorted(_CATALOG, key=len, reverse=True)

# The usual local servers have no tool template for these models.
_NO_TOOLS = (
    r"(?i)^(gemma-?[23]?\b|codegemma|llama-?2|codellama|phi-?[23]\b|phi3|tinyllama|vicuna|orca"
    r"|starcoder|wizardcoder|deepseek-coder\b|stable-code|yi-?coder|falcon|zephyr|openchat"
    r"|dolphin-mi|solar)"
)
# OpenRouter writes versions with a dot, and Anthropic with a hyphen.
_DOTTED_VERSION = r"(claude-(?:opus|sonnet|haiku|fable|mythos)-\d+)\.(\d)"
# Unless configured otherwise, local servers use a much smaller window than the model supports.
LOCAL_WINDOW = 32_768
LOCAL_MAX_OUTPUT = 8_192


def find_facts(model: str, *, local: bool = False) -> ModelFacts:
    """Return the properties of a model.

    Args:
        model: The model's name at the provider; a vendor prefix (``anthropic/claude-…``) is
            ignored.
        local: Whether a server on the user's own machine runs the model, which is then free and
            gets a cautious window.
    """
    name = model.rpartition("/")[2].lower()
    name = re.sub(_DOTTED_VERSION, r"\1-\2", name)
    prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), None)
    facts = _CATALOG[prefix] if prefix else ModelFacts(window_assumed=True)
    tools = not re.match(_NO_TOOLS, name)
    if not local:
        return msgspec.structs.replace(facts, tools=tools)
    return ModelFacts(
        window=min(facts.window, LOCAL_WINDOW),
        max_output=min(facts.max_output, LOCAL_MAX_OUTPUT),
        images=facts.images,
        tools=tools,
        # The server's configuration decides how much of the model's window can be used.
        window_assumed=True,
    )
