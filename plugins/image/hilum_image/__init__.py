"""Images from a description, by OpenAI or a Stable Diffusion web API."""

from __future__ import annotations

from collections.abc import Sequence

from hilum import Tool, hookimpl

from hilum_image.making import generate_image
from hilum_image.settings import ImageSettings

__all__ = ["ImageSettings", "generate_image", "provide_tools"]


@hookimpl
def provide_tools() -> Sequence[Tool]:
    """Give the tool. Where nothing is set up it says how."""
    return (generate_image,)
