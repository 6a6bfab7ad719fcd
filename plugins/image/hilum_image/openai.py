"""Generates and edits images with OpenAI.

Source: OpenAI's API reference, Images, and its guide to image generation (November 2026). dall-e-2
and dall-e-3 return PNG, which is requested in base64. gpt-image models return only base64, accept a
format and are billed by tokens. dall-e-3 cannot edit images. OpenAI itself retired both dall-e
models on 12 May 2026; compatible servers still have models of these names.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec
from hilum import errors

from hilum_image.image_file import ImageFile
from hilum_image.prices import compute_price
from hilum_image.provider import ImageRequest, ImageResult, ProviderError, RequestRejected
from hilum_image.provider_client import (
    Answer,
    Client,
    decode_image,
    fetch_image,
    format_origin,
    format_reason,
    get_first,
    open_client,
    request,
)

WHO = "OpenAI"
SIZES = {
    "dall-e-2": ("256x256", "512x512", "1024x1024"),
    "dall-e-3": ("1024x1024", "1792x1024", "1024x1792"),
    "gpt-image": ("1024x1024", "1536x1024", "1024x1536", "auto"),
}
API = "https://api.openai.com/v1"
REPLACEMENT = "gpt-image-1-mini"
_FORMATS = {".jpg": "jpeg", ".jpeg": "jpeg", ".webp": "webp"}
_REJECTIONS = ("content_policy_violation", "moderation_blocked", "content_filter")
_HINTS = {
    # OpenAI sends this code with status 429, but waiting does not help.
    "insufficient_quota": "The user must add credit to the account at this provider.",
    "model_not_found": "The user can set image.model to another model.",
}
# Models that generate images of any size within limits.
_FREE_SIZE = re.compile(r"gpt-image-[2-9]")
_MAX_TEXT = {"dall-e-2": 1_000, "dall-e-3": 4_000}
_MAX_SIDE = 3_840
_MAX_PIXELS = 3_840 * 2_160


class OpenAI(msgspec.Struct, frozen=True):
    """OpenAI's images API, or a compatible server.

    Args:
        url: The base URL of the API, ``…/v1``.
        key: The API key; empty for a server that requires none.
        model: The name of the model.
        quality: The quality, as the provider calls it; empty for the provider's default.
        replaces: The retired model that this one replaces; empty if it replaces none.
    """

    url: str
    key: str
    model: str
    quality: str = ""
    replaces: str = ""

    @property
    def name(self) -> str:
        """The name to show to the user."""
        return self.model

    @property
    def is_official(self) -> bool:
        """Whether the server is OpenAI itself."""
        # The host is compared, not a prefix of the URL: ``https://api.openai.com.example`` is not
        # OpenAI.
        return urlsplit(self.url).hostname == urlsplit(API).hostname

    def replace_retired_model(self) -> OpenAI:
        """Return a provider with OpenAI's replacement for the model if OpenAI has retired it."""
        if not self.is_official or not self.model.startswith("dall-e"):
            return self
        return msgspec.structs.replace(self, model=REPLACEMENT, quality="", replaces=self.model)

    def explain_unsupported(self, wanted: ImageRequest) -> str:
        """Return why the model cannot fulfil a request, or an empty string if it can."""
        reason = self._explain_size(wanted.size)
        if reason:
            return reason
        if wanted.base is not None and self.model == "dall-e-3":
            return "dall-e-3 cannot change images; gpt-image-1 and dall-e-2 can."
        if self.model.startswith("dall-e") and wanted.suffix != ".png":
            return f"{self.model} makes PNG images: the file name must end with .png."
        # The gpt-image models' documented limit on the length of a description.
        max_text = _MAX_TEXT.get(self.model, 32_000)
        if len(wanted.text) > max_text:
            return (
                f"{self.model} accepts descriptions of up to {max_text:,} characters; this one has"
                f" {len(wanted.text):,}."
            )
        return ""

    def _explain_size(self, size: str) -> str:
        if _FREE_SIZE.match(self.model):
            if size == "auto" or _fits(size):
                return ""
            return (
                f"{self.model} makes images with sides that are multiples of 16, up to 3840, and a "
                f"ratio of at most 3 to 1, not {size}."
            )
        family = "gpt-image" if self.model.startswith("gpt-image") else self.model
        sizes = SIZES.get(family, (size,))  # an unknown model may accept any size
        if size in sizes:
            return ""
        return f"{self.model} makes images of {', '.join(sizes)}, not {size}."

    async def generate(
        self, wanted: ImageRequest, show_progress: Callable[[str], None]
    ) -> ImageResult:
        """Generate an image.

        Args:
            wanted: The requested image.
            show_progress: Not called, because the API reports no progress.

        Raises:
            RequestRejected: The provider's rules do not allow the description.
            ProviderError: The provider could not generate the image.
        """
        headers = {"authorization": f"Bearer {self.key}"} if self.key else {}
        async with open_client(self.url, headers) as client:
            answer = await self._send(client, wanted)
        if answer.status != 200:
            raise self._to_error(answer)
        first = get_first(answer.data, "data")
        # The response of a compatible server may have any form.
        if not isinstance(first, dict):
            first = {}
        encoded = first.get("b64_json")
        url = first.get("url")
        # Compatible servers may ignore the requested format.
        if not encoded and isinstance(url, str):
            image = await fetch_image(url, self.url, WHO)
        else:
            image = decode_image(encoded, WHO)
        # The prices of other servers are unknown, even if their models have the same names.
        cost = None
        by = f"{self.model} at {format_origin(self.url)}"
        if self.is_official:
            cost = compute_price(self.model, wanted.size, self.quality, answer.data.get("usage"))
            by = f"{WHO}, {self.model}"
        if self.replaces:
            by += f" ({self.replaces} is retired; set image.model to choose another model)"
        revised = first.get("revised_prompt")
        return ImageResult(image, by, cost, revised if isinstance(revised, str) else "")

    async def _send(self, client: Client, wanted: ImageRequest) -> Answer:
        fields: dict[str, Any] = {
            "model": self.model,
            "prompt": wanted.text,
            "n": 1,
            "size": wanted.size,
        }
        if self.quality:
            fields["quality"] = self.quality
        # gpt-image models reject `response_format`. Other models would return a URL, which expires.
        if not self.model.startswith("gpt-image"):
            fields["response_format"] = "b64_json"
        elif wanted.suffix in _FORMATS:
            fields["output_format"] = _FORMATS[wanted.suffix]
        base = self.url.rstrip("/")
        if wanted.base is None:
            return await request(client, WHO, "POST", f"{base}/images/generations", json=fields)
        files = {"image": _to_form_file("image", wanted.base)}
        if wanted.mask is not None:
            files["mask"] = _to_form_file("mask", wanted.mask)
        # Form fields can only be strings.
        texts = {name: str(value) for name, value in fields.items()}
        return await request(client, WHO, "POST", f"{base}/images/edits", data=texts, files=files)

    def _to_error(self, answer: Answer) -> RequestRejected | ProviderError:
        """Return the error for an unsuccessful response."""
        status = answer.status
        kind, text = _get_error(answer.data)
        reason = format_reason(text or kind, status)
        # Some models reject a description only with this text, without a code.
        if kind in _REJECTIONS or (status == 400 and "safety system" in text):
            return RequestRejected(
                f"{WHO} rejects this description: {reason}",
                hint="Tell the user the reason; change the description only if they want that.",
            )
        where = f"{WHO} at {format_origin(self.url)}"
        if status in (401, 403):
            return ProviderError(
                f"{where} does not accept the key: {reason}",
                code=errors.E_NOT_CONFIGURED,
                hint="The user must check image.openai_api_key, or OPENAI_API_KEY.",
            )
        hint = _HINTS.get(kind, answer.advice)
        if status == 429:
            message = f"{where} receives too many requests: {reason}"
        else:
            reason = format_reason(text or kind or "no reason was given", status)
            message = f"{where} responded with {status}: {reason}"
        return ProviderError(message, code=errors.E_HTTP, hint=hint)


def _fits(size: str) -> bool:
    """Return whether a size is within the limits of the models that have no fixed sizes."""
    found = re.fullmatch(r"(\d{2,4})x(\d{2,4})", size)
    if not found:
        return False
    short, long = sorted(map(int, found.groups()))
    # OpenAI's documented limits, which ``_explain_size`` explains to the user.
    if short % 16 or long % 16 or long > 3 * short:
        return False
    return 0 < long <= _MAX_SIDE and short * long <= _MAX_PIXELS


def _to_form_file(name: str, image: ImageFile) -> tuple[str, bytes, str]:
    suffix = image.media_type.rpartition("/")[2]
    return f"{name}.{suffix}", image.data, image.media_type


def _get_error(data: dict[str, Any]) -> tuple[str, str]:
    """Return the code and message of an error, either of which may be empty."""
    # OpenAI sends an object, but some compatible servers send only a string.
    error = data.get("error")
    if not isinstance(error, dict):
        return "", error.strip() if isinstance(error, str) else ""
    kind = str(error.get("code") or error.get("type") or "")
    return kind, str(error.get("message") or "").strip()
