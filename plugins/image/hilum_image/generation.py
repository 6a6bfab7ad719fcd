"""Generates an image: reads the images to edit, tries the providers in order, saves the file."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import datetime
from pathlib import PurePosixPath

import msgspec
import trio
from hilum import Call, NeedsUser, Output, ToolError, environment, errors, find_file_saver

from hilum_image.image_file import SUFFIXES, ImageFile, parse_image
from hilum_image.openai import OpenAI
from hilum_image.provider import ImageRequest, ImageResult, ProviderError
from hilum_image.provider_client import MAX_IMAGE, to_line
from hilum_image.settings import ImageSettings
from hilum_image.stable_diffusion import StableDiffusion

Provider = OpenAI | StableDiffusion
OUTPUT_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
_SETUP_HINT = (
    "The user must set `enabled = true` under [image] in the settings file whose path `hilum config"
    " path` prints, and configure a provider: openai_api_key (or the variable OPENAI_API_KEY), or"
    " sd_url for a Stable Diffusion web API."
)


class Options(msgspec.Struct, frozen=True):
    """The arguments of ``generate_image``."""

    description: str
    filename: str
    size: str
    edit: str
    mask: str
    overwrite: bool


async def generate(call: Call, settings: ImageSettings, options: Options) -> Output:
    """Generate an image and save it.

    Everything that can be checked without a provider is checked first, because images cost money.

    Args:
        call: The tool call.
        settings: The settings of the providers.
        options: The arguments of the call.

    Raises:
        ToolError: No image was generated or saved.
    """
    # Providers are checked first, because nothing else matters to the user without one.
    providers = configure_providers(settings)
    saver = find_file_saver()
    name = options.filename or await _find_free_name(call)
    suffix = PurePosixPath(name).suffix.lower()
    if suffix not in OUTPUT_SUFFIXES:
        raise ToolError(
            f"{name!r} is not a file name for an image.",
            code=errors.E_BAD_ARGS,
            hint="The name must end with .png, .jpg or .webp.",
        )
    # This is checked before the request, because afterwards the image has been paid for.
    await saver.check_save(call, name, overwrite=options.overwrite)
    base, mask = await _read_base_and_mask(call, options.edit, options.mask)
    wanted = ImageRequest(options.description, options.size or settings.size, suffix, base, mask)
    result, notes = await _ask_providers(call, providers, wanted, settings.timeout)
    data = result.image.data
    try:
        path = await saver.save_file(call, name, data, overwrite=options.overwrite)
    except ToolError as error:  # keep the image, which was paid for
        path = await saver.save_file(call, await _find_free_name(call), data)
        notes.append(f"{error} It was saved under another name instead.")
    return _format_output(path, result, notes, suffix)


async def _find_free_name(call: Call) -> str:
    """Return an unused file name. Several images may be generated within one second."""
    saver = find_file_saver()
    stem = f"generated_{datetime.now():%Y%m%d_%H%M%S}"
    for suffix in ("", "_2", "_3", "_4", "_5", "_6", "_7", "_8", "_9"):
        with suppress(ToolError):
            name = f"{stem}{suffix}.png"
            await saver.check_save(call, name)
            return name
    return f"{stem}_{os.urandom(4).hex()}.png"


def configure_providers(settings: ImageSettings) -> list[Provider]:
    """Return the providers that the user configured, in the order in which hilum tries them.

    Raises:
        NeedsUser: ``E_NOT_CONFIGURED`` if there is none. The hint explains how to configure a
            provider.
    """
    if not settings.enabled:
        raise NeedsUser(
            "Image generation is disabled.", code=errors.E_NOT_CONFIGURED, hint=_SETUP_HINT
        )
    found: list[Provider] = []
    openai = OpenAI(settings.openai_url, settings.openai_api_key, settings.model, settings.quality)
    if openai.is_official and not openai.key:
        # The key from the environment is sent only to OpenAI itself, never to another server.
        openai = msgspec.structs.replace(openai, key=environment().get("OPENAI_API_KEY", ""))
    # A compatible server on the user's machine often needs no key.
    if openai.key or not openai.is_official:
        found.append(openai.replace_retired_model())
    if settings.sd_url:
        found.append(StableDiffusion(settings.sd_url, settings.sd_auth, settings.steps))
    if not found:
        raise NeedsUser(
            "No image provider is configured.", code=errors.E_NOT_CONFIGURED, hint=_SETUP_HINT
        )
    return found


async def _read_base_and_mask(
    call: Call, edit: str, mask: str
) -> tuple[ImageFile | None, ImageFile | None]:
    """Read the image to edit and its mask."""
    if not edit:
        if mask:
            raise ToolError(
                "A mask requires an image to change.",
                code=errors.E_BAD_ARGS,
                hint="Pass the image as edit.",
            )
        return None, None
    base = await _read_image(call, edit)
    if not mask:
        return base, None
    mask_image = await _read_image(call, mask)
    if not mask_image.has_alpha:
        raise ToolError(
            f"The mask {mask!r} is not a PNG with an alpha channel.",
            code=errors.E_BAD_ARGS,
            hint="Make the mask transparent where the image may change.",
        )
    # The size is checked here, because a provider would reject the request only after the upload.
    if mask_image.size != base.size:
        raise ToolError(
            f"The mask is {mask_image.size}, but the image to change is {base.size}.",
            code=errors.E_BAD_ARGS,
            hint="Make the mask the same size as the image.",
        )
    return base, mask_image


async def _read_image(call: Call, path: str) -> ImageFile:
    image = parse_image(await call.workspace.read_bytes(path, MAX_IMAGE))
    if image is None:
        raise ToolError(
            f"{path!r} is not a PNG, JPEG, WebP or GIF image.",
            code=errors.E_BAD_ARGS,
            hint="Specify an image file.",
        )
    return image


async def _ask_providers(
    call: Call, providers: list[Provider], wanted: ImageRequest, seconds: float
) -> tuple[ImageResult, list[str]]:
    """Try one provider after another. Return the result, and why earlier providers failed."""
    notes: list[str] = []
    last: ToolError | None = None
    for provider in providers:
        # This is checked before the request, because the request may cost money.
        unsupported = provider.explain_unsupported(wanted)
        if unsupported:
            notes.append(unsupported)
            continue
        call.emit(f"Requesting an image from {provider.name} …\n")
        try:
            # The limit applies to each provider, so that a slow one does not use up the time of
            # the next.
            with trio.fail_after(seconds):
                return await provider.generate(wanted, call.emit), notes
        except trio.TooSlowError:
            last = ProviderError(
                f"{provider.name} returned no image within {seconds:g} s.",
                code=errors.E_TIMEOUT,
                hint="Try again, or increase image.timeout.",
            )
        # RequestRejected is not a ProviderError, so it ends the call.
        except ProviderError as error:
            last = error
        notes.append(str(last))
    # If there is only one error, it keeps its code and hint.
    if last is not None and len(notes) == 1:
        raise last
    code = last.code if last is not None else errors.E_BAD_ARGS
    raise ToolError(f"No image was generated. {' '.join(notes)}", code=code)


def _format_output(path: str, result: ImageResult, notes: list[str], suffix: str) -> Output:
    image = result.image
    size = image.size or "an image"
    byte_count = len(image.data)
    lines = [f"Saved {path}: {size}, {byte_count:,} bytes, by {result.by}."]
    if result.cost is None:
        lines.append("The cost of the image is not known.")
    elif result.cost:
        lines.append(f"It cost ${result.cost:.3f}.")
    else:
        lines.append("The image was free of charge.")
    # The image was paid for, so it is saved unchanged, and the model may rename the file.
    if suffix not in SUFFIXES[image.media_type]:
        actual = image.media_type.partition("/")[2].upper()
        lines.append(f"The provider returned {actual}, which does not match the file name.")
    if result.revised_text:
        lines.append(f"The provider revised the description: {to_line(result.revised_text, 1_000)}")
    lines += [f"Earlier failure: {note}" for note in notes]
    data = {
        "path": path,
        "cost": result.cost,
        "by": result.by,
        "width": image.width,
        "height": image.height,
    }
    return Output("\n".join(lines), data=data)
