"""The settings of the plugin."""

from __future__ import annotations

from hilum import section, setting


@section("image")
class ImageSettings:
    """Who makes images, and how large they are."""

    enabled: bool = setting(
        default=False, project=False, help="Whether images may be made; they cost money or time."
    )
    openai_api_key: str = setting(
        default="",
        secret=True,
        help="Key for OpenAI's images; without it that of the variable OPENAI_API_KEY.",
    )
    openai_url: str = setting(
        default="https://api.openai.com/v1",
        project=False,
        help="Where OpenAI's images, or a compatible server, are reached.",
    )
    model: str = setting(
        default="dall-e-3",
        project="user",
        help="OpenAI's model: dall-e-2, dall-e-3, gpt-image-1 or a later one.",
    )
    size: str = setting(
        default="1024x1024",
        project="user",
        help="Width and height in pixels, when the model names none.",
    )
    quality: str = setting(
        default="",
        project="user",
        help="OpenAI's quality, for example hd, low, high; the provider's own when empty.",
    )
    sd_url: str = setting(
        default="",
        project=False,
        help="Where a Stable Diffusion web API is reached, for example http://127.0.0.1:7860.",
    )
    sd_auth: str = setting(
        default="", secret=True, help="User and password of that server, as user:password."
    )
    steps: int = setting(
        default=20, minimum=1, project="lower", help="Sampling steps of Stable Diffusion."
    )
    timeout: float = setting(
        default=60.0,
        minimum=1,
        project="lower",
        help="Seconds that a provider may take for an image.",
    )
