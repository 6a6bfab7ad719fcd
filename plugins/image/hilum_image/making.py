"""The tool ``generate_image``: the providers in order, the file, the cost."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import datetime
from pathlib import PurePosixPath
from typing import Annotated

import msgspec
import trio
from hilum import Call, NeedsUser, Output, Session, ToolError, environment, errors, tool
from hilum_files import check_save, save_file
from hilum_web import line

from hilum_image.http import MOST_IMAGE
from hilum_image.openai import OpenAI
from hilum_image.picture import ENDINGS, Picture, look
from hilum_image.settings import ImageSettings
from hilum_image.stable_diffusion import StableDiffusion
from hilum_image.wish import Failed, Made, Wish

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=32_000)]
LONGEST = 3_600.0
MADE = (".png", ".jpg", ".jpeg", ".webp")


@tool(risk="network", effect="once", writes="filename", reads=("edit", "mask"), timeout=LONGEST)
async def generate_image(
    call: Call,
    session: Session,
    description: Text,
    filename: str = "",
    size: str = "",
    edit: str = "",
    mask: str = "",
    overwrite: bool = False,
) -> Output:
    """Make an image from a description, or change one.

    Only when the user asks for one; draw charts and diagrams with code.

    Args:
        description: Subject, layout, style, colours, and any text to show.
        filename: Where to save it, for example icon.png.
        size: Width x height, for example 1024x1024.
        edit: Image in the workspace to change as described.
        mask: PNG as large as that image, transparent where it may change; without it all of it may.
        overwrite: Replace a file of that name.
    """
    settings = session.settings(ImageSettings)
    makers = configured(settings)
    name = filename or await _free(call)
    ending = PurePosixPath(name).suffix.lower()
    if ending not in MADE:
        raise ToolError(
            f"{name!r} is no name for an image.",
            code=errors.E_BAD_ARGS,
            hint="End it with .png, .jpg or .webp.",
        )
    await check_save(call, name, overwrite=overwrite)
    wish = Wish(description, size or settings.size, ending, *await _bases(call, edit, mask))
    made, before = await _made(call, makers, wish, settings.timeout)
    try:
        path = await save_file(call, name, made.picture.data, overwrite=overwrite)
    except ToolError as error:  # it was paid for: it is not lost
        path = await save_file(call, await _free(call), made.picture.data)
        before.append(f"{error} It was saved under another name instead.")
    return _told(path, made, before, ending)


async def _free(call: Call) -> str:
    """Return a name that nothing has: more than one image may be made within a second."""
    stem = f"generated_{datetime.now():%Y%m%d_%H%M%S}"
    for name in (f"{stem}.png", *(f"{stem}_{number}.png" for number in range(2, 10))):
        with suppress(ToolError):
            await check_save(call, name, overwrite=False)
            return name
    return f"{stem}_{os.urandom(4).hex()}.png"


def configured(settings: ImageSettings) -> list[OpenAI | StableDiffusion]:
    """Return the providers that the user has set up, in the order they are asked.

    Raises:
        NeedsUser: ``E_NOT_CONFIGURED``, there is none; says how to set one up.
    """
    how = (
        "The user puts `enabled = true` under [image] into the settings file that `hilum config"
        " path` names, and a provider: openai_api_key (or the variable OPENAI_API_KEY), or sd_url"
        " for a Stable Diffusion web API."
    )
    if not settings.enabled:
        raise NeedsUser("Making images is switched off.", code=errors.E_NOT_CONFIGURED, hint=how)
    found: list[OpenAI | StableDiffusion] = []
    openai = OpenAI(settings.openai_url, settings.openai_api_key, settings.model, settings.quality)
    if openai.official and not openai.key:  # a key of the environment is for nobody else
        openai = msgspec.structs.replace(openai, key=environment().get("OPENAI_API_KEY", ""))
    openai = openai.current()
    if openai.key or not openai.official:
        found.append(openai)
    if settings.sd_url:
        found.append(StableDiffusion(settings.sd_url, settings.sd_auth, settings.steps))
    if not found:
        raise NeedsUser("No provider of images is set up.", code=errors.E_NOT_CONFIGURED, hint=how)
    return found


async def _bases(call: Call, edit: str, mask: str) -> tuple[Picture | None, Picture | None]:
    """Read the image that is to be changed, and where it may be."""
    if mask and not edit:
        raise ToolError(
            "A mask is for an image to change.",
            code=errors.E_BAD_ARGS,
            hint="Name the image in edit.",
        )
    base = await _base(call, edit) if edit else None
    holes = await _base(call, mask) if mask else None
    if base is not None and holes is not None:
        if not holes.transparent:
            message = f"The mask {mask!r} is no PNG with an alpha channel."
            raise ToolError(
                message,
                code=errors.E_BAD_ARGS,
                hint="Make it transparent where the image may change.",
            )
        if holes.size != base.size:
            message = f"The mask is {holes.size}, and the image to change is {base.size}."
            raise ToolError(message, code=errors.E_BAD_ARGS, hint="Make it as large as the image.")
    return base, holes


async def _base(call: Call, path: str) -> Picture:
    data = await call.workspace.read_bytes(path, MOST_IMAGE)
    picture = look(data)
    if picture:
        return picture
    raise ToolError(
        f"{path!r} is no PNG, JPEG, WebP or GIF image.",
        code=errors.E_BAD_ARGS,
        hint="Name an image to change.",
    )


async def _made(
    call: Call, makers: list[OpenAI | StableDiffusion], wish: Wish, seconds: float
) -> tuple[Made, list[str]]:
    """Ask one provider after another; gives the image, and what those before said."""
    failed: list[str] = []
    last: ToolError | None = None
    for maker in makers:
        why = maker.lacks(wish)
        if why:
            failed.append(why)
            continue
        call.emit(
            f"Asking {maker.model if isinstance(maker, OpenAI) else 'Stable Diffusion'} for an"
            " image …\n"
        )
        try:
            with trio.fail_after(seconds):
                return (
                    await (
                        maker.make(wish)
                        if isinstance(maker, OpenAI)
                        else maker.make(wish, call.emit)
                    ),
                    failed,
                )
        except trio.TooSlowError:
            who = "OpenAI" if isinstance(maker, OpenAI) else "Stable Diffusion"
            hint = "Try again, or raise image.timeout."
            last = Failed(
                f"{who} gave no image within {seconds:g} s.", code=errors.E_TIMEOUT, hint=hint
            )
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
    lines = [
        f"Saved {path}: {picture.size or 'an image'}, {len(picture.data):,} bytes, by"
        f" {made.by}{cost}."
    ]
    if made.cost is None:
        lines.append("What it cost is not known.")
    if ending not in ENDINGS[picture.media_type]:
        lines.append(
            f"The provider gave {picture.media_type.partition('/')[2].upper()}: the name ends"
            " otherwise than its content."
        )
    if made.told:
        lines.append(f"The provider read the description as: {line(made.told, 1_000)}")
    lines += [f"Before that: {why}" for why in before]
    data = {
        "path": path,
        "cost": made.cost,
        "by": made.by,
        "width": picture.width,
        "height": picture.height,
    }
    return Output("\n".join(lines), data=data)
