"""The settings of the plugin."""

from __future__ import annotations

from hilum import section, setting


@section("image")
class ImageSettings:
    """Image providers, and defaults for images."""

    enabled: bool = setting(
        default=False,
        project=False,
        help="Whether images may be generated; they cost money or time.",
    )
    openai_api_key: str = setting(
        default="",
        secret=True,
        help="Key for OpenAI's images API; by default, the variable OPENAI_API_KEY.",
    )
    openai_url: str = setting(
        default="https://api.openai.com/v1",
        project=False,
        help="Base URL of OpenAI's API or of a compatible server.",
    )
    model: str = setting(
        default="dall-e-3",
        project="user",
        help="OpenAI's model: dall-e-2, dall-e-3, gpt-image-1 or a later one.",
    )
    size: str = setting(
        default="1024x1024",
        project="user",
        help="Width and height in pixels if the model specifies none.",
    )
    quality: str = setting(
        default="",
        project="user",
        help="Quality for OpenAI, for example hd, low or high; empty for the provider's default.",
    )
    sd_url: str = setting(
        default="",
        project=False,
        help="URL of a Stable Diffusion web API, for example http://127.0.0.1:7860.",
    )
    sd_auth: str = setting(
        default="",
        secret=True,
        help="User name and password for the Stable Diffusion server, as user:password.",
    )
    steps: int = setting(
        default=20,
        minimum=1,
        project="lower",
        help="Number of sampling steps for Stable Diffusion.",
    )
    timeout: float = setting(
        default=60.0,
        minimum=1,
        project="lower",
        help="Maximum number of seconds that a provider may take for an image.",
    )
