"""OpenAI's images: generations and edits.

Source: OpenAI's API reference, Images, and its guide to image generation (November 2026). dall-e-2
and dall-e-3 are asked for base64 and give PNG; gpt-image models give nothing else than base64, take
a format and are paid by tokens. dall-e-3 changes no images. OpenAI itself retired both dall-e
models on 12 May 2026; compatible servers still have models of these names.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from hilum import ToolError, errors

from hilum_image.http import MOST_IMAGE, Answer, ask, decode, finished, open_client, said, shown
from hilum_image.picture import Picture, look
from hilum_image.prices import price
from hilum_image.wish import Failed, Made, Refused, Wish

if TYPE_CHECKING:
    import httpx

WHO = "OpenAI"
SIZES = {
    "dall-e-2": ("256x256", "512x512", "1024x1024"),
    "dall-e-3": ("1024x1024", "1792x1024", "1024x1792"),
    "gpt-image": ("1024x1024", "1536x1024", "1024x1536", "auto"),
}
HOST = "https://api.openai.com/v1"
INSTEAD = "gpt-image-1-mini"
_FORMATS = {".jpg": "jpeg", ".jpeg": "jpeg", ".webp": "webp"}
_REFUSALS = ("content_policy_violation", "moderation_blocked", "content_filter")
_LARGE = re.compile(r"gpt-image-[2-9]")
_LONGEST = {"dall-e-2": 1_000, "dall-e-3": 4_000}


class OpenAI(msgspec.Struct, frozen=True):
    """OpenAI's images, or a server compatible with them.

    Args:
        url: Where its API begins, ``…/v1``.
        key: The key; empty for a server that needs none.
        model: The model.
        quality: As the provider names it; empty for its own.
        instead: A model that is retired, in whose place this one stands.
    """

    url: str
    key: str
    model: str
    quality: str = ""
    instead: str = ""

    @property
    def official(self) -> bool:
        """Whether it is OpenAI itself."""
        return urlsplit(self.url).hostname == urlsplit(HOST).hostname

    def current(self) -> OpenAI:
        """Return itself with a model that there is: OpenAI has retired dall-e, and names another in
        its place.
        """
        if not self.official or not self.model.startswith("dall-e"):
            return self
        return msgspec.structs.replace(self, model=INSTEAD, quality="", instead=self.model)

    def lacks(self, wish: Wish) -> str:
        """Return why the model cannot do what is wanted; empty when it can."""
        sizes = () if _LARGE.match(self.model) else SIZES.get(_family(self.model), ())
        if sizes and wish.size not in sizes:
            return f"{self.model} makes images of {', '.join(sizes)}, not {wish.size}."
        if _LARGE.match(self.model) and wish.size != "auto" and not _large(wish.size):
            return (
                f"{self.model} makes images whose sides are multiples of 16, up to 3840 and 3 to 1,"
                f" not {wish.size}."
            )
        if wish.base is not None and self.model == "dall-e-3":
            return "dall-e-3 makes new images and changes none; gpt-image-1 and dall-e-2 do."
        if self.model.startswith("dall-e") and wish.ending != ".png":
            return f"{self.model} makes PNG images: the name must end with .png."
        if len(wish.text) > (most := _LONGEST.get(self.model, 32_000)):
            return (
                f"{self.model} takes descriptions of up to {most:,} characters; this one has"
                f" {len(wish.text):,}."
            )
        return ""

    async def make(self, wish: Wish) -> Made:
        """Create an image.

        Raises:
            Refused: The provider will not, by its rules.
            Failed: It could not.
        """
        fields: dict[str, Any] = {
            "model": self.model,
            "prompt": wish.text,
            "n": 1,
            "size": wish.size,
        }
        if self.quality:
            fields["quality"] = self.quality
        if not self.model.startswith("gpt-image"):
            fields["response_format"] = "b64_json"
        elif ending := _FORMATS.get(wish.ending):
            fields["output_format"] = ending
        headers = {"authorization": f"Bearer {self.key}"} if self.key else {}
        async with open_client(self.url, headers) as client:
            base = self.url.rstrip("/")
            if wish.base is None:
                answer = await ask(client, WHO, "POST", f"{base}/images/generations", json=fields)
            else:
                kind = wish.base.media_type
                files = {"image": (f"image.{kind.rpartition('/')[2]}", wish.base.data, kind)}
                if wish.mask is not None:
                    files["mask"] = ("mask.png", wish.mask.data, "image/png")
                texts = {name: str(value) for name, value in fields.items()}
                answer = await ask(
                    client, WHO, "POST", f"{base}/images/edits", data=texts, files=files
                )
            if answer.status != 200:
                raise self._failure(answer)
            first = _first(answer.data)
            if not first.get("b64_json") and isinstance(first.get("url"), str):
                picture = await _fetched(client, first["url"], self.url)
            else:
                picture = decode(first.get("b64_json"), WHO)
        told = first.get("revised_prompt")
        if self.official:
            cost = price(self.model, wish.size, self.quality, answer.data.get("usage"))
        else:
            cost = None
        if self.official:
            by = f"{WHO}, {self.model}"
        else:
            by = f"{self.model} at {shown(self.url)}"
        if self.instead:
            by += f" ({self.instead} is retired; image.model names another one)"
        return Made(picture, by, cost, told if isinstance(told, str) else "")

    def _failure(self, answer: Answer) -> Refused | Failed:
        given = answer.data.get("error")
        status = answer.status
        error = given if isinstance(given, dict) else {}
        text = str(error.get("message") or (given if isinstance(given, str) else "")).strip()
        kind = str(error.get("code") or error.get("type") or "")
        why = said(text or kind, status)
        if kind in _REFUSALS or (status == 400 and "safety system" in text):
            return Refused(
                f"{WHO} will not make this image: {why}",
                hint="Tell the user the reason; describe it otherwise only if they want that.",
            )
        where = f"{WHO} at {shown(self.url)}"
        if status in (401, 403):
            return Failed(
                f"{where} does not accept the key: {why}",
                code=errors.E_NOT_CONFIGURED,
                hint="The user must check image.openai_api_key, or OPENAI_API_KEY.",
            )
        if status == 429:
            if kind == "insufficient_quota":
                hint = "The user must add credit there."
            else:
                hint = answer.advice
            return Failed(f"{where} is asked too much: {why}", code=errors.E_HTTP, hint=hint)
        if kind == "model_not_found":
            hint = "The setting image.model names another one."
        else:
            hint = answer.advice
        return Failed(
            f"{where} answered {status}: {said(text or kind or 'no reason was given', status)}",
            code=errors.E_HTTP,
            hint=hint,
        )


def _family(model: str) -> str:
    return "gpt-image" if model.startswith("gpt-image") else model


def _large(size: str) -> bool:
    found = re.fullmatch(r"(\d{2,4})x(\d{2,4})", size)
    short, long = sorted(map(int, found.groups())) if found else (0, 0)
    return (
        0 < long <= min(3_840, 3 * short)
        and short % 16 == long % 16 == 0
        and short * long <= 8_294_400
    )


def _first(answer: dict[str, Any]) -> dict[str, Any]:
    data = answer.get("data")
    if isinstance(data, list) and data and isinstance(data[0], dict):
        return data[0]
    return {}


async def _fetched(client: httpx.AsyncClient, url: str, server: str) -> Picture:
    """Fetch an image that is given as an address: from the public network, or from the server
    itself.
    """
    import httpx
    from hilum_web import ENCODINGS, AddressRefused, Reach, line, open_client, read_body, read_url

    try:
        own = read_url(server)
        reach = Reach(
            hosts=frozenset(
                {f"[{own.host}]:{own.port}" if ":" in own.host else f"{own.host}:{own.port}"}
            )
        )
        headers = {"accept-encoding": ENCODINGS}
        async with (
            open_client(reach, timeout=60.0, headers=headers) as guarded,
            guarded.stream("GET", url) as response,
        ):
            body = await read_body(response, url, MOST_IMAGE)
    except ToolError as error:
        raise Failed(
            f"{WHO} gave an address for the image: {error.message}",
            code=error.code,
            hint="Try again.",
        ) from None
    except AddressRefused as error:
        raise Failed(
            f"{WHO} gave an address for the image that is not fetched: {line(str(error), 300)}",
            code=errors.E_ADDRESS,
            hint="Check image.openai_url.",
        ) from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        why = line(str(error), 300).rstrip(".") or type(error).__name__
        raise Failed(
            f"The image could not be fetched from {shown(url)}: {why}.",
            code=errors.E_UNREACHABLE,
            hint="Try again.",
        ) from None
    if response.status_code == 200 and (picture := look(body)):
        return finished(picture, WHO)
    raise Failed(
        f"{shown(url)} answered {response.status_code} without an image.",
        code=errors.E_CONTENT,
        hint="Try again.",
    )
