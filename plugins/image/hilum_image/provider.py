"""Defines requests to image providers, their results and their errors."""

from __future__ import annotations

import msgspec
from hilum import ToolError

from hilum_image.image_file import ImageFile


class ImageRequest(msgspec.Struct, frozen=True):
    """A request for an image.

    Args:
        text: The description of the image.
        size: The width and height in the form ``1024x1024``.
        suffix: The suffix of the image file, for providers that support several formats: ``.png``,
            ``.jpg``, ``.webp``.
        base: The image to edit; ``None`` for a new image.
        mask: A PNG with the same size as ``base``, transparent where ``base`` may change. ``None``
            if all of ``base`` may change.
    """

    text: str
    size: str
    suffix: str = ".png"
    base: ImageFile | None = None
    mask: ImageFile | None = None


class ImageResult(msgspec.Struct, frozen=True):
    """An image that a provider generated.

    Args:
        image: The image.
        by: The names of the provider and the model.
        cost: The cost in dollars; ``None`` if it is unknown, 0 for the user's own server.
        revised_text: The description as revised by the provider; empty if it was not revised.
    """

    image: ImageFile
    by: str
    cost: float | None = None
    revised_text: str = ""


class RequestRejected(ToolError):
    """The provider rejects the description. No other provider is tried: the user decides."""

    code = "E_REJECTED"


class ProviderError(ToolError):
    """A provider could not generate the image, but another provider may be able to."""
