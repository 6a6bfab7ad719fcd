"""Images from a description, by OpenAI or a Stable Diffusion web API."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from hilum import Session, Tool, hookimpl

from hilum_image.making import generate_image
from hilum_image.settings import ImageSettings

__all__ = ["ImageSettings", "generate_image", "provide_tools"]


@hookimpl
def provide_tools(session: Session) -> Sequence[Tool]:
    """Return the tool.

    Where nothing is set up it is deferred, and says how to set it up when it is called.
    """
    return (attrs.evolve(generate_image, deferred=not session.settings(ImageSettings).enabled),)
