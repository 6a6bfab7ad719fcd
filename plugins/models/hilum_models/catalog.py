"""What is known of common models: window, longest answer, price, images, tools.

Windows and prices are those of genai-prices 0.2.3 (its data of 20 November 2026); longest answers
are the vendors' own figures where known and otherwise a cautious 32,000. Prices are US dollars for
a million tokens, the standard tier. Anything here can be set otherwise under
``[models.models."provider/name"]``.
"""

from __future__ import annotations

import re

import msgspec
from hilum.models import Price


class Known(msgspec.Struct, frozen=True):
    """What the catalogue says of a model.

    Attributes:
        window: Context window in tokens.
        max_output: Most tokens of one answer.
        price: What it costs, ``None`` when not known.
        images: Whether it takes images.
        tools: Whether it can call tools natively.
    """

    window: int = 128_000
    max_output: int = 16_384
    price: Price | None = None
    images: bool = False
    tools: bool = True


def _known(window: int, output: int, *price: float | None, images: bool = True) -> Known:
    return Known(window, output, Price(*price) if price else None, images)  # type: ignore[arg-type]


M = 1_000_000
# By beginning of the model's name; the longest beginning that fits counts.
_TABLE: dict[str, Known] = {
    # Anthropic
    "claude-": _known(200_000, 32_000, 3, 15, 0.3, 3.75),
    "claude-3-5-haiku": _known(200_000, 8_192, 0.8, 4, 0.08, 1),
    "claude-3-haiku": _known(200_000, 4_096, 0.25, 1.25, 0.03, 0.3),
    "claude-opus-4-0": _known(200_000, 32_000, 15, 75, 1.5, 18.75),
    "claude-opus-4-1": _known(200_000, 32_000, 15, 75, 1.5, 18.75),
    "claude-opus-4-5": _known(200_000, 64_000, 5, 25, 0.5, 6.25),
    "claude-opus-4": _known(M, 64_000, 5, 25, 0.5, 6.25),
    "claude-opus-5": _known(M, 64_000, 5, 25, 0.5, 6.25),
    "claude-opus-5-5": _known(M, 64_000, 4, 20, 0.2, 5),
    "claude-sonnet-4": _known(200_000, 64_000, 3, 15, 0.3, 3.75),
    "claude-sonnet-4-6": _known(M, 64_000, 3, 15, 0.3, 3.75),
    "claude-sonnet-5": _known(M, 64_000, 2, 10, 0.2, 2.5),
    "claude-sonnet-5-5": _known(M, 64_000, 2, 10, 0.1, 2.5),
    "claude-haiku-4-5": _known(200_000, 64_000, 1, 5, 0.1, 1.25),
    "claude-haiku-5-5": _known(M, 64_000, 0.1, 0.5, 0.01, 0.125),
    "claude-fable-5": _known(M, 64_000, 10, 50, 1, 12.5),
    "claude-fable-5-1": _known(M, 64_000, 10, 50, 0.25, 12.5),
    "claude-fable-5-2": _known(M, 64_000, 8, 40, 0.2, 10),
    "claude-mythos-5-2": _known(M, 64_000, 8, 40, 0.2, 10),
    # OpenAI
    "gpt-4o": _known(128_000, 16_384, 2.5, 10, 1.25),
    "gpt-4o-mini": _known(128_000, 16_384, 0.15, 0.6, 0.075),
    "gpt-4.1": _known(M, 32_768, 2, 8, 0.5),
    "gpt-4.1-mini": _known(M, 32_768, 0.4, 1.6, 0.1),
    "gpt-4.1-nano": _known(M, 32_768, 0.1, 0.4, 0.025),
    "gpt-5": _known(400_000, 128_000, 1.25, 10, 0.125),
    "gpt-5-mini": _known(400_000, 128_000, 0.25, 2, 0.025),
    "gpt-5-nano": _known(400_000, 128_000, 0.05, 0.4, 0.005),
    "gpt-5.1-codex-mini": _known(400_000, 128_000, 0.25, 2, 0.025),
    "gpt-5.2": _known(400_000, 128_000, 1.75, 14, 0.175),
    "gpt-5.3": _known(128_000, 16_384, 1.75, 14, 0.175),
    "gpt-5.3-codex": _known(400_000, 128_000, 1.75, 14, 0.175),
    "gpt-5.4": _known(1_050_000, 128_000, 2.5, 15, 0.25),
    "gpt-5.4-mini": _known(400_000, 128_000, 0.75, 4.5, 0.075),
    "gpt-5.4-nano": _known(400_000, 128_000, 0.2, 1.25, 0.02),
    "gpt-5.5": _known(M, 128_000, 5, 30, 0.5),
    "gpt-5.6-luna": _known(1_050_000, 128_000, 0.2, 1.2, 0.02, 0.25),
    "gpt-5.6-sol": _known(1_050_000, 128_000, 4, 20, 0.4, 5),
    "gpt-5.6-terra": _known(1_050_000, 128_000, 2, 12, 0.2, 2.5),
    "gpt-6-astra": _known(1_050_000, 128_000, 10, 50, 1, 12.5),
    "gpt-6-luna": _known(1_050_000, 128_000, 0.1, 0.5, 0.01, 0.125),
    "gpt-6-sol": _known(1_050_000, 128_000, 2, 10, 0.2, 2.5),
    "gpt-6.1-sol": _known(1_050_000, 128_000, 2, 10, 0.1, 2.5),
    "gpt-6.1-terra": _known(1_050_000, 128_000, 1, 5, 0.05, 1.25),
    "o3": _known(200_000, 100_000, 2, 8, 0.5),
    "o3-mini": _known(200_000, 100_000, 1.1, 4.4, 0.55, images=False),
    "o4-mini": _known(200_000, 100_000, 1.1, 4.4, 0.275),
    "gpt-oss": _known(131_072, 32_768, images=False),
    # Google
    "gemini-": _known(M, 65_536),
    "gemini-2.0-flash": _known(M, 8_192, 0.1, 0.4, 0.025),
    "gemini-2.5-flash": _known(1_048_576, 65_536, 0.3, 2.5, 0.03),
    "gemini-2.5-flash-lite": _known(M, 65_536, 0.1, 0.4, 0.01),
    "gemini-2.5-pro": _known(1_048_576, 65_536, 1.25, 10, 0.125),
    "gemini-3-flash": _known(M, 65_536, 0.5, 3, 0.05),
    "gemini-3-pro": _known(M, 65_536, 2, 12, 0.2),
    "gemini-3.1-pro": _known(M, 65_536, 2, 12, 0.2),
    "gemini-3.1-flash-lite": _known(M, 65_536, 0.25, 1.5, 0.025),
    "gemini-3.5-flash": _known(M, 65_536, 1.5, 9, 0.15),
    "gemini-3.5-flash-lite": _known(M, 65_536, 0.3, 2.5, 0.03),
    "gemini-3.6-flash": _known(M, 65_536, 1.5, 7.5, 0.15),
    "gemini-3.7-flash": _known(M, 65_536, 1.5, 7.5, 0.15),
    "gemini-3.8-flash": _known(M, 65_536, 1.5, 7.5, 0.15),
    "gemini-4-argon": _known(1_048_576, 65_536, 4, 20, 0.2),
    # DeepSeek, Mistral, Moonshot, xAI
    "deepseek-": _known(128_000, 8_192, images=False),
    "deepseek-chat": _known(64_000, 8_192, 0.27, 1.1, 0.07, images=False),
    "deepseek-reasoner": _known(64_000, 32_000, 0.55, 2.19, 0.14, images=False),
    "deepseek-v4-flash": _known(M, 32_000, 0.3, 1.2, 0.006, images=False),
    "deepseek-v4-pro": _known(M, 32_000, 1.32, 3.96, 0.044, images=False),
    "codestral": _known(256_000, 32_000, 0.3, 0.9, 0.03, images=False),
    "devstral": _known(262_144, 32_000, 0.4, 2, 0.04, images=False),
    "mistral-large-4": _known(1_048_576, 32_000, 0.7, 2.1, 0.07),
    "mistral-medium": _known(262_144, 32_000, 1.5, 7.5, 0.15),
    "kimi-k2": _known(262_144, 32_000, 0.95, 4, 0.16, images=False),
    "kimi-k3": _known(1_048_576, 32_000, 3, 15, 0.3, 3),
    "grok-4": _known(256_000, 32_000, 2, 6, 0.5),
    "grok-code-fast": _known(256_000, 32_000, 0.2, 1.5, 0.02, images=False),
    "qwen": _known(131_072, 16_384, images=False),
}
_NAMES = sorted(_TABLE, key=len, reverse=True)

# Served without a tool template by the usual local servers.
_NO_TOOLS = re.compile(
    r"^(gemma-?[23]?\b|codegemma|llama-?2|codellama|phi-?[23]\b|phi3|tinyllama|vicuna|orca|starcoder|wizardcoder|deepseek-coder\b"
    r"|stable-code|yi-?coder|falcon|zephyr|openchat|dolphin-mi|solar)",
    re.IGNORECASE,
)
# What servers on one's own machine give unless told otherwise is far less than what the model could
# take.
LOCAL_WINDOW = 32_768


def known(model: str, *, local: bool = False) -> Known:
    """Return what is known of a model.

    Args:
        model: Its name at the provider; a vendor before a slash (``anthropic/claude-…``) is looked
            through.
        local: Whether a server on the user's own machine runs it: it costs nothing and its window
            is cautious.
    """
    name = model.rpartition("/")[2].lower()
    name = re.sub(r"(claude-(?:opus|sonnet|haiku|fable|mythos)-\d+)\.(\d)", r"\1-\2", name)
    found = next((_TABLE[start] for start in _NAMES if name.startswith(start)), Known())
    tools = not _NO_TOOLS.match(name)
    if local:
        return Known(
            min(found.window, LOCAL_WINDOW), min(found.max_output, 8_192), None, found.images, tools
        )
    return msgspec.structs.replace(found, tools=tools)
