"""The user's settings for models.

A project's file cannot change these settings, because they decide where prompts and keys are sent.
"""

from __future__ import annotations

from typing import Any, Literal

from hilum import section, setting


@section()
class PriceSettings:
    """Prices in US dollars per million tokens."""

    input: float = setting(minimum=0, help="Uncached input tokens.")
    output: float = setting(minimum=0, help="Output tokens.")
    cached: float | None = setting(
        default=None, minimum=0, help="Input tokens read from the provider's cache."
    )
    cache_write: float | None = setting(
        default=None, minimum=0, help="Input tokens written to the provider's cache."
    )


@section()
class ModelSettings:
    """Settings of one model, which take precedence over the catalog."""

    window: int | None = setting(default=None, minimum=1024, help="Context window in tokens.")
    max_output: int | None = setting(
        default=None, minimum=1, help="Maximum number of tokens in one answer."
    )
    price: PriceSettings | None = setting(default=None, help="Price of its tokens.")
    images: bool | None = setting(default=None, help="Whether the model accepts images.")
    tool_protocol: Literal["auto", "native", "text"] = setting(
        default="auto", help="How tools are called: with the vendor's own protocol or as text."
    )
    effort: str = setting(
        default="",
        help="How hard the model thinks, in the vendor's terms: for example low, medium or high.",
    )
    options: dict[str, Any] = setting(
        factory=dict, help="Additional fields for the request, as documented by the vendor."
    )


@section()
class ProviderSettings:
    """A known provider with changes, or a new provider."""

    base_url: str = setting(default="", help="Base URL of the API, for example http://gpu:8000/v1.")
    api: Literal["", "chat", "responses", "anthropic", "gemini"] = setting(
        default="", help="Wire format; the default for a new provider is chat."
    )
    key_env: str = setting(
        default="", help="Name of the environment variable that contains the key."
    )
    headers: dict[str, str] = setting(
        factory=dict, secret=True, help="Additional headers for each request."
    )
    default: str = setting(
        default="", help="Name of the default model, without the provider's name."
    )


@section("models")
class ModelsSettings:
    """Providers and models."""

    providers: dict[str, ProviderSettings] = setting(
        factory=dict, project=False, help="Providers by name."
    )
    models: dict[str, ModelSettings] = setting(
        factory=dict, project=False, names="provider/name", help="Models by provider/name."
    )
