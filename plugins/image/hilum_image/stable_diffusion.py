"""The web API of Stable Diffusion web UIs (AUTOMATIC1111, Forge, SD.Next): ``/sdapi/v1``.

Source: the schema that such a server gives at ``/docs``: txt2img, img2img, progress, interrupt.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from hilum import errors

from hilum_image.http import Answer, ask, decode, open_client, said, shown
from hilum_image.wish import Failed, Made, Wish

if TYPE_CHECKING:
    import httpx

WHO = "Stable Diffusion"
LEAST = 64
MOST = 2_048
EVERY = 1.0


class StableDiffusion(msgspec.Struct, frozen=True):
    """A Stable Diffusion web API.

    Args:
        url: Where it is reached.
        auth: User and password, as ``user:password``; empty for none.
        steps: Sampling steps.
    """

    url: str
    auth: str = ""
    steps: int = 20

    def lacks(self, wish: Wish) -> str:
        """Return why it cannot do what is wanted; empty when it can."""
        if _sides(wish.size):
            return ""
        return (
            f"Stable Diffusion makes images of {LEAST} to {MOST} pixels a side, in steps of 8, not"
            f" {wish.size}."
        )

    async def make(self, wish: Wish, tell: Callable[[str], None] = lambda _: None) -> Made:
        """Create an image, telling how far it is. A cancelled call interrupts the server's work.

        Raises:
            Failed: It could not.
        """
        width, height = _sides(wish.size) or (0, 0)
        fields: dict[str, Any] = {
            "prompt": wish.text,
            "steps": self.steps,
            "width": width,
            "height": height,
        }
        name = "txt2img"
        if wish.base is not None:
            name, fields["init_images"] = "img2img", [base64.b64encode(wish.base.data).decode()]
        if (
            wish.mask is not None
        ):  # it takes the alpha channel of a mask, and changes what is opaque, unless told otherwise
            fields |= {
                "mask": base64.b64encode(wish.mask.data).decode(),
                "inpainting_mask_invert": 1,
                "inpainting_fill": 1,
            }
        user, _, password = self.auth.partition(":")
        async with open_client(self.url, {}, (user, password) if self.auth else None) as client:
            base = f"{self.url.rstrip('/')}/sdapi/v1"
            answer = await self._answer(client, f"{base}/{name}", fields, base, tell)
        if answer.status != 200:
            raise self._failure(answer)
        images = answer.data.get("images")
        picture = decode(images[0] if isinstance(images, list) and images else None, WHO)
        return Made(picture, f"{WHO} at {shown(self.url)}", 0.0)

    async def _answer(
        self,
        client: httpx.AsyncClient,
        url: str,
        fields: dict[str, Any],
        base: str,
        tell: Callable[[str], None],
    ) -> Answer:
        """Ask for the image, telling how far it is."""
        failed: Failed | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, client, base, tell)
            try:
                answer = await ask(client, WHO, "POST", url, json=fields)
            except Failed as error:
                failed = error
            except trio.Cancelled:
                await self._interrupt(client, base)
                raise
            nursery.cancel_scope.cancel()
        if failed is not None:
            raise failed
        return answer

    async def _watch(
        self, client: httpx.AsyncClient, base: str, tell: Callable[[str], None]
    ) -> None:
        last = -1
        while True:
            await trio.sleep(EVERY)
            try:
                answer = await ask(client, WHO, "GET", f"{base}/progress?skip_current_image=true")
            except Failed:
                return
            share = answer.data.get("progress")
            if (
                answer.status != 200
                or not isinstance(share, int | float)
                or not math.isfinite(share)
            ):
                return
            percent = int(min(max(share, 0), 1) * 100)
            if percent != last:
                last = percent
                tell(f"{percent} % of the image\n")

    async def _interrupt(self, client: httpx.AsyncClient, base: str) -> None:
        with trio.move_on_after(1) as scope:
            scope.shield = True
            try:
                await ask(client, WHO, "POST", f"{base}/interrupt")
            except Failed:
                pass

    def _failure(self, answer: Answer) -> Failed:
        where = f"{WHO} at {shown(self.url)}"
        status = answer.status
        data = answer.data
        if status in (401, 403):
            return Failed(
                f"{where} wants another user or password.",
                code=errors.E_NOT_CONFIGURED,
                hint="The user must check image.sd_auth.",
            )
        if status == 404:
            return Failed(
                f"{where} has no such API.", code=errors.E_HTTP, hint="Start its server with --api."
            )
        text = str(
            data.get("detail") or data.get("errors") or data.get("error") or "no reason was given"
        )
        return Failed(
            f"{where} answered {status}: {said(text, status)}",
            code=errors.E_HTTP,
            hint=answer.advice,
        )


def _sides(size: str) -> tuple[int, int] | None:
    found = re.fullmatch(r"(\d{2,4})x(\d{2,4})", size)
    if not found:
        return None
    width = int(found[1])
    height = int(found[2])
    fits = all(LEAST <= side <= MOST and side % 8 == 0 for side in (width, height))
    return (width, height) if fits else None
