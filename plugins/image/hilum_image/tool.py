"""The tool ``generate_image``."""

from __future__ import annotations

from typing import Annotated

import msgspec
from hilum import Call, Output, Session, tool

from hilum_image.settings import ImageSettings

Description = Annotated[str, msgspec.Meta(min_length=1, max_length=32_000)]
MAX_SECONDS = 3_600.0


@tool(risk="network", effect="once", writes="filename", reads=("edit", "mask"), timeout=MAX_SECONDS)
async def generate_image(
    call: Call,
    session: Session,
    description: Description,
    filename: str = "",
    size: str = "",
    edit: str = "",
    mask: str = "",
    overwrite: bool = False,
) -> Output:
    """Make an image from a description, or change one.

    Use this only when the user asks for an image; draw charts and diagrams with code.

    Args:
        description: Subject, layout, style, colours, and any text to show.
        filename: Where to save it, for example icon.png.
        size: Width x height, for example 1024x1024.
        edit: Image in the workspace to change as described.
        mask: PNG of the same size, transparent where the image may change; by default, all may.
        overwrite: Replace an existing file with this name.
    """
    from hilum_image.generation import Options, generate  # httpx takes 100 ms to import

    options = Options(description, filename, size, edit, mask, overwrite)
    return await generate(call, session.settings(ImageSettings), options)
