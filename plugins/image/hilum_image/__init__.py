"""Generates images from descriptions with OpenAI or a Stable Diffusion web API."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from hilum import Session, Tool, hookimpl

from hilum_image.settings import ImageSettings
from hilum_image.tool import generate_image

__all__ = ["ImageSettings", "generate_image", "provide_tools"]


@hookimpl
def provide_tools(session: Session) -> Sequence[Tool]:
    """Return the tool.

    The tool is deferred if image generation is disabled. A call then explains how to enable it.
    """
    # A deferred tool costs no tokens until the model looks for it.
    is_deferred = not session.settings(ImageSettings).enabled
    return (attrs.evolve(generate_image, deferred=is_deferred),)
