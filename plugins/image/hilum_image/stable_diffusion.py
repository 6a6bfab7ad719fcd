"""Generates images with the API of Stable Diffusion web UIs: ``/sdapi/v1``.

These web UIs include AUTOMATIC1111, Forge and SD.Next.

Source: the schema that such a server publishes at ``/docs``: txt2img, img2img, progress, interrupt.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from typing import Any

import msgspec
import trio
from hilum import errors

from hilum_image.image_file import ImageFile
from hilum_image.provider import ImageRequest, ImageResult, ProviderError
from hilum_image.provider_client import (
    Answer,
    Client,
    decode_image,
    format_origin,
    format_reason,
    get_first,
    open_client,
    request,
)

WHO = "Stable Diffusion"
MIN_SIDE = 64
MAX_SIDE = 2_048
PROGRESS_INTERVAL = 1.0  # seconds
INTERRUPT_TIMEOUT = 1.0


class StableDiffusion(msgspec.Struct, frozen=True):
    """A Stable Diffusion web API.

    Args:
        url: The URL of the API's server.
        auth: The user name and password as ``user:password``; empty for none.
        steps: The number of sampling steps.
    """

    url: str
    auth: str = ""
    steps: int = 20

    @property
    def name(self) -> str:
        """The name to show to the user."""
        return WHO

    def explain_unsupported(self, wanted: ImageRequest) -> str:
        """Return why the server cannot fulfil the request, or an empty string if it can."""
        if _parse_size(wanted.size):
            return ""
        return (
            f"Stable Diffusion makes images of {MIN_SIDE} to {MAX_SIDE} pixels per side, in steps "
            f"of 8, not {wanted.size}."
        )

    async def generate(
        self, wanted: ImageRequest, show_progress: Callable[[str], None]
    ) -> ImageResult:
        """Generate an image. If this call is cancelled, the server is asked to stop.

        Args:
            wanted: The requested image.
            show_progress: Function that is called with each line of progress.

        Raises:
            ProviderError: The server could not generate the image.
        """
        width, height = _parse_size(wanted.size) or (0, 0)
        fields: dict[str, Any] = {
            "prompt": wanted.text,
            "steps": self.steps,
            "width": width,
            "height": height,
        }
        action = "txt2img"
        if wanted.base is not None:
            action = "img2img"
            fields["init_images"] = [_encode(wanted.base)]
        if wanted.mask is not None:
            # By default, this API changes the image where the mask is opaque, whereas OpenAI
            # changes it where the mask is transparent.
            fields["mask"] = _encode(wanted.mask)
            fields["inpainting_mask_invert"] = 1
            fields["inpainting_fill"] = 1  # start inpainting from the original content
        user, _, password = self.auth.partition(":")
        api = f"{self.url.rstrip('/')}/sdapi/v1"
        async with open_client(self.url, {}, (user, password) if self.auth else None) as client:
            answer = await self._send(client, api, action, fields, show_progress)
        if answer.status != 200:
            raise self._to_error(answer)
        image = decode_image(get_first(answer.data, "images"), WHO)
        # The user's own server charges nothing.
        return ImageResult(image, f"{WHO} at {format_origin(self.url)}", 0.0)

    async def _send(
        self,
        client: Client,
        api: str,
        action: str,
        fields: dict[str, Any],
        show_progress: Callable[[str], None],
    ) -> Answer:
        """Request an image, and show the progress until it arrives."""
        failed: ProviderError | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, client, api, show_progress)
            try:
                answer = await request(client, WHO, "POST", f"{api}/{action}", json=fields)
            # The error is raised below, because the nursery would wrap it in a group.
            except ProviderError as error:
                failed = error
            except trio.Cancelled:
                # The server does not notice that the connection was closed, and would continue.
                await self._interrupt(client, api)
                raise
            # Cancelling the nursery ends the task that shows progress.
            nursery.cancel_scope.cancel()
        if failed is not None:
            raise failed
        return answer

    async def _watch(self, client: Client, api: str, show_progress: Callable[[str], None]) -> None:
        # The preview is skipped, because it would be sent as an image with each response.
        url = f"{api}/progress?skip_current_image=true"
        last = -1
        while True:
            await trio.sleep(PROGRESS_INTERVAL)
            try:
                answer = await request(client, WHO, "GET", url)
            except ProviderError:  # the request for the image reports the error
                return
            # The server may send NaN or another type before the first step.
            share = answer.data.get("progress")
            if not isinstance(share, int | float) or not math.isfinite(share):
                return
            percent = int(min(max(share, 0), 1) * 100)
            if percent != last:
                last = percent
                show_progress(f"{percent} % of the image\n")

    async def _interrupt(self, client: Client, api: str) -> None:
        with trio.move_on_after(INTERRUPT_TIMEOUT) as scope:
            # The request is shielded, because the call is already cancelled. The short time limit
            # bounds the delay.
            scope.shield = True
            try:
                await request(client, WHO, "POST", f"{api}/interrupt")
            except ProviderError:
                pass

    def _to_error(self, answer: Answer) -> ProviderError:
        """Return the error for an unsuccessful response."""
        where = f"{WHO} at {format_origin(self.url)}"
        if answer.status in (401, 403):
            return ProviderError(
                f"{where} does not accept the user name or password.",
                code=errors.E_NOT_CONFIGURED,
                hint="The user must check image.sd_auth.",
            )
        if answer.status == 404:
            return ProviderError(
                f"{where} has no such API.", code=errors.E_HTTP, hint="Start the server with --api."
            )
        # FastAPI uses "detail", the web UI "errors" and "error".
        reasons = [answer.data.get(key) for key in ("detail", "errors", "error")]
        text = next((str(reason) for reason in reasons if reason), "no reason was given")
        return ProviderError(
            f"{where} responded with {answer.status}: {format_reason(text, answer.status)}",
            code=errors.E_HTTP,
            hint=answer.advice,
        )


def _encode(image: ImageFile) -> str:
    return base64.b64encode(image.data).decode()


def _parse_size(size: str) -> tuple[int, int] | None:
    """Return width and height, or ``None`` if the API does not accept them."""
    found = re.fullmatch(r"(\d{2,4})x(\d{2,4})", size)
    if not found:
        return None
    width, height = map(int, found.groups())
    # The model works on an image that is an eighth as large in each direction.
    sides = range(MIN_SIDE, MAX_SIDE + 1, 8)
    return (width, height) if width in sides and height in sides else None
