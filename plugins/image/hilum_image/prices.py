"""Image prices in dollars from OpenAI's price list (developers' pages, November 2026)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# Prices by quality and by whether the image is square. The prices of dall-e-2 depend only on the
# size.
_DALL_E_3 = {
    ("standard", True): 0.04,
    ("standard", False): 0.08,
    ("hd", True): 0.08,
    ("hd", False): 0.12,
}
_DALL_E_2 = {"256x256": 0.016, "512x512": 0.018, "1024x1024": 0.02}
# Prices per million tokens: text input, image input, image output.
_TOKENS = {
    "gpt-image-1": (5.0, 10.0, 40.0),
    "gpt-image-1-mini": (2.0, 2.5, 8.0),
    "gpt-image-1.5": (5.0, 8.0, 32.0),
    "gpt-image-2": (5.0, 8.0, 30.0),
    "gpt-image-2.5-flare": (5.0, 8.0, 30.0),
    "gpt-image-2.5-sunburst": (5.0, 8.0, 30.0),
    "gpt-image-2.6-sunburst": (5.0, 8.0, 30.0),
}
_DATE = re.compile(r"-\d{4}-\d{2}-\d{2}$")


def compute_price(model: str, size: str, quality: str, usage: object) -> float | None:
    """Return the price of an image in dollars, or ``None`` if it is unknown.

    Args:
        model: The name of OpenAI's model.
        size: The width and height in the form ``1024x1024``.
        quality: The requested quality; empty for the default.
        usage: The field ``usage`` of the response, for models that are billed by tokens.
    """
    if model == "dall-e-3":
        width, _, height = size.partition("x")
        return _DALL_E_3.get((quality or "standard", width == height))
    if model == "dall-e-2":
        return _DALL_E_2.get(size)
    # A dated version, such as ``gpt-image-1-2025-04-23``, has the price of its model.
    rates = _TOKENS.get(_DATE.sub("", model))
    if rates is None or not isinstance(usage, Mapping):
        return None
    details: Any = usage.get("input_tokens_details")
    if not isinstance(details, Mapping):
        details = {}
    image_tokens = _count(details.get("image_tokens"))
    # Some responses do not distinguish between text and image tokens.
    text_tokens = _count(details.get("text_tokens"))
    if not text_tokens:
        text_tokens = _count(usage.get("input_tokens")) - image_tokens
    text_rate, image_rate, output_rate = rates
    micro_dollars = text_tokens * text_rate + image_tokens * image_rate
    micro_dollars += _count(usage.get("output_tokens")) * output_rate
    return micro_dollars / 1e6


def _count(value: object) -> int:
    # In Python, True is an int.
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    return 0
