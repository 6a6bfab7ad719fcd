"""The tool ``generate_image``: the providers in order, the file, the cost."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import PurePosixPath
from typing import Annotated

import msgspec
import trio
from hilum import Call, NeedsUser, Output, Session, ToolError, errors, tool
from hilum_files import save_file

from hilum_image.http import MOST_IMAGE
from hilum_image.openai import OpenAI
from hilum_image.picture import ENDINGS, Picture, look
from hilum_image.settings import ImageSettings
from hilum_image.stable_diffusion import StableDiffusion
from hilum_image.wish import Failed, Made, Wish

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=32_000)]
LONGEST = 3_600.0


@tool(risk="network", effect="once", writes=("filename",), timeout=LONGEST)
async def generate_image(
    call: Call,
    session: Session,
    description: Text,
    filename: str = "",
    size: str = "",
    edit: str = "",
    overwrite: bool = False,
) -> Output:
    """Make an image from a description, or change one. Only when the user asks for one; draw charts and diagrams with code.

    Args:
        description: Subject, layout, style, colours, and any text to show.
        filename: Where to save it, for example icon.png.
        size: Width x height, for example 1024x1024.
        edit: Image in the workspace to change as described.
        overwrite: Replace a file of that name.
    """
    settings = session.settings(ImageSettings)
    makers = configured(settings)
    name = filename or f"generated_{datetime.now():%Y%m%d_%H%M%S}.png"
    ending = PurePosixPath(name).suffix.lower()
    if ending not in {each for endings in ENDINGS.values() for each in endings}:
        raise ToolError(
            f"{name!r} is no name for an image.", code=errors.E_BAD_ARGS, hint="End it with .png, .jpg or .webp."
        )
    if not overwrite and await trio.to_thread.run_sync(os.path.lexists, call.workspace.resolve(name)):
        message = f"{name!r} exists already; no image was made."
        raise ToolError(message, code=errors.E_BAD_ARGS, hint="Choose another name, or set overwrite.")
    base = await _base(call, edit) if edit else None
    made, before = await _made(call, makers, Wish(description, size or settings.size, ending, base), settings.timeout)
    try:
        path = await save_file(call, name, made.picture.data, overwrite=overwrite)
    except ToolError as error:  # it was paid for: it is not lost
        path = await save_file(call, f"generated_{call.id[-12:]}.png", made.picture.data)
        before.append(f"{error} It was saved under another name instead.")
    return _told(path, made, before, ending)


def configured(settings: ImageSettings) -> list[OpenAI | StableDiffusion]:
    """Give the providers that the user has set up, in the order they are asked.

    Raises:
        NeedsUser: ``E_NOT_CONFIGURED``, there is none; says how to set one up.
    """
    how = (
        "The user sets it up with: hilum config set image.enabled true, and a provider: image.openai_api_key (or the variable"
        " OPENAI_API_KEY), or image.sd_url for a Stable Diffusion web API."
    )
    if not settings.enabled:
        raise NeedsUser("Making images is switched off.", code=errors.E_NOT_CONFIGURED, hint=how)
    found: list[OpenAI | StableDiffusion] = []
    key = settings.openai_api_key or os.environ.get("OPENAI_API_KEY", "")
    if key or settings.openai_url != "https://api.openai.com/v1":
        found.append(OpenAI(settings.openai_url, key, settings.model, settings.quality))
    if settings.sd_url:
        found.append(StableDiffusion(settings.sd_url, settings.sd_auth, settings.steps))
    if not found:
        raise NeedsUser("No provider of images is set up.", code=errors.E_NOT_CONFIGURED, hint=how)
    return found


async def _base(call: Call, path: str) -> Picture:
    data = await call.workspace.read_bytes(path, MOST_IMAGE)
    if picture := look(data):
        return picture
    raise ToolError(
        f"{path!r} is no PNG, JPEG, WebP or GIF image.", code=errors.E_BAD_ARGS, hint="Name an image to change."
    )


async def _made(
    call: Call, makers: list[OpenAI | StableDiffusion], wish: Wish, seconds: float
) -> tuple[Made, list[str]]:
    """Ask one provider after another; gives the image, and what those before said."""
    failed: list[str] = []
    last: ToolError | None = None
    for maker in makers:
        if why := maker.lacks(wish):
            failed.append(why)
            continue
        call.emit(f"Asking {maker.model if isinstance(maker, OpenAI) else 'Stable Diffusion'} for an image …\n")
        try:
            with trio.fail_after(seconds):
                return await (maker.make(wish) if isinstance(maker, OpenAI) else maker.make(wish, call.emit)), failed
        except trio.TooSlowError:
            who = "OpenAI" if isinstance(maker, OpenAI) else "Stable Diffusion"
            hint = "Try again, or raise image.timeout."
            last = Failed(f"{who} gave no image within {seconds:g} s.", code=errors.E_TIMEOUT, hint=hint)
        except Failed as error:
            last = error
        failed.append(str(last))
    if last is not None and len(failed) == 1:
        raise last
    code = last.code if last is not None else errors.E_BAD_ARGS
    raise ToolError(f"No image was made. {' '.join(failed)}", code=code)


def _told(path: str, made: Made, before: list[str], ending: str) -> Output:
    picture = made.picture
    cost = "" if made.cost is None else f", ${made.cost:.3f}" if made.cost else ", at no cost"
    lines = [f"Saved {path}: {picture.size or 'an image'}, {len(picture.data):,} bytes, by {made.by}{cost}."]
    if made.cost is None:
        lines.append("What it cost is not known.")
    if ending not in ENDINGS[picture.media_type]:
        lines.append(
            f"The provider gave {picture.media_type.partition('/')[2].upper()}: the name ends otherwise than its content."
        )
    if made.told:
        lines.append(f"The provider read the description as: {made.told[:1_000]}")
    lines += [f"Before that: {why}" for why in before]
    data = {"path": path, "cost": made.cost, "by": made.by, "width": picture.width, "height": picture.height}
    return Output("\n".join(lines), data=data)
