"""What is asked of a provider, what it gives, and how it fails."""

from __future__ import annotations

import msgspec
from hilum import ToolError

from hilum_image.picture import Picture


class Wish(msgspec.Struct, frozen=True):
    """An image that is wanted.

    Args:
        text: What it shows.
        size: Width and height, as ``1024x1024``.
        ending: The end of its file's name, for providers that can choose the format: ``.png``,
            ``.jpg``, ``.webp``.
        base: An image to change; ``None`` for a new one.
        mask: A PNG as large as ``base``, transparent where it may be changed; ``None`` for
            everywhere.
    """

    text: str
    size: str
    ending: str = ".png"
    base: Picture | None = None
    mask: Picture | None = None


class Made(msgspec.Struct, frozen=True):
    """An image that was made.

    Args:
        picture: The image.
        by: Who made it: provider and model.
        cost: In dollars; ``None`` when it is not known, 0 for a server of one's own.
        told: What the provider made of the description, where it says so.
    """

    picture: Picture
    by: str
    cost: float | None = None
    told: str = ""


class Refused(ToolError):
    """The provider will not make this image. Another one is not asked instead: the user decides."""

    code = "E_REJECTED"


class Failed(ToolError):
    """A provider could not make the image; another one may."""
