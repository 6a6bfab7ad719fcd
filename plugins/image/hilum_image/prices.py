"""What an image costs, by OpenAI's list of prices (developers' pages, November 2026), in
dollars.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# By model, quality and whether the image is square; dall-e-2 goes by size.
_DALL_E_3 = {
    ("standard", True): 0.04,
    ("standard", False): 0.08,
    ("hd", True): 0.08,
    ("hd", False): 0.12,
}
_DALL_E_2 = {"256x256": 0.016, "512x512": 0.018, "1024x1024": 0.02}
# A million tokens: text in, images in, images out.
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


def price(model: str, size: str, quality: str, usage: object) -> float | None:
    """Return what an image cost in dollars; ``None`` when that is not known.

    Args:
        model: OpenAI's model.
        size: Width and height, as ``1024x1024``.
        quality: As it was asked for; empty for the usual.
        usage: What the answer says was used, for models that are paid by tokens.
    """
    if model == "dall-e-3":
        width, _, height = size.partition("x")
        return _DALL_E_3.get((quality or "standard", width == height))
    if model == "dall-e-2":
        return _DALL_E_2.get(size)
    rates = _TOKENS.get(_DATE.sub("", model))
    if rates is None or not isinstance(usage, Mapping):
        return None
    given: Any = usage.get("input_tokens_details")
    inside = given if isinstance(given, Mapping) else {}
    images = _count(inside.get("image_tokens"))
    texts = _count(inside.get("text_tokens")) or _count(usage.get("input_tokens")) - images
    text_in, image_in, out = rates
    return (texts * text_in + images * image_in + _count(usage.get("output_tokens")) * out) / 1e6


def _count(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    return 0
