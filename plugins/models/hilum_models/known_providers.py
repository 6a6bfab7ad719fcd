"""The providers that hilum supports without any settings."""

from __future__ import annotations

from typing import NamedTuple


class KnownProvider(NamedTuple):
    """A provider with its defaults.

    Attributes:
        name: The provider's name, which is the part before the slash in a model's name.
        base_url: Base URL of the API.
        api: Wire format.
        key_envs: Environment variables that may contain the key; the first one that is set is used.
        url_envs: Environment variables that may contain the base URL.
        default: Model to suggest; if empty, the first model that the server lists.
        local: Whether the provider runs on the user's own machine, needs no key, and is used if it
            responds.
    """

    name: str
    base_url: str
    api: str = "chat"
    key_envs: tuple[str, ...] = ()
    url_envs: tuple[str, ...] = ()
    default: str = ""
    local: bool = False


KNOWN_PROVIDERS: tuple[KnownProvider, ...] = (
    KnownProvider(
        "anthropic",
        "https://api.anthropic.com",
        "anthropic",
        ("ANTHROPIC_API_KEY",),
        ("ANTHROPIC_BASE_URL",),
        "claude-sonnet-5-5",
    ),
    KnownProvider(
        "openai",
        "https://api.openai.com/v1",
        "responses",
        ("OPENAI_API_KEY",),
        ("OPENAI_BASE_URL",),
        "gpt-6.1-sol",
    ),
    KnownProvider(
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta",
        "gemini",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        ("GOOGLE_GEMINI_BASE_URL", "GEMINI_BASE_URL"),
        "gemini-3.8-flash",
    ),
    KnownProvider(
        "openrouter",
        "https://openrouter.ai/api/v1",
        "chat",
        ("OPENROUTER_API_KEY",),
        ("OPENROUTER_BASE_URL",),
        "anthropic/claude-sonnet-5.5",
    ),
    KnownProvider(
        "deepseek",
        "https://api.deepseek.com/v1",
        "chat",
        ("DEEPSEEK_API_KEY",),
        ("DEEPSEEK_BASE_URL",),
        "deepseek-chat",
    ),
    KnownProvider(
        "qwen",
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        "chat",
        ("DASHSCOPE_API_KEY", "QWEN_API_KEY"),
        ("DASHSCOPE_BASE_URL",),
        "qwen3-coder-plus",
    ),
    KnownProvider(
        "groq",
        "https://api.groq.com/openai/v1",
        "chat",
        ("GROQ_API_KEY",),
        ("GROQ_BASE_URL",),
        "openai/gpt-oss-120b",
    ),
    KnownProvider(
        "mistral",
        "https://api.mistral.ai/v1",
        "chat",
        ("MISTRAL_API_KEY",),
        ("MISTRAL_BASE_URL",),
        "mistral-medium-latest",
    ),
    KnownProvider(
        "ollama",
        "http://127.0.0.1:11434/v1",
        "chat",
        ("OLLAMA_API_KEY",),
        ("OLLAMA_HOST",),
        local=True,
    ),
    KnownProvider(
        "lmstudio", "http://127.0.0.1:1234/v1", "chat", (), ("LMSTUDIO_BASE_URL",), local=True
    ),
    KnownProvider(
        "llamacpp", "http://127.0.0.1:8080/v1", "chat", (), ("LLAMACPP_BASE_URL",), local=True
    ),
    KnownProvider(
        "vllm",
        "http://127.0.0.1:8000/v1",
        "chat",
        ("VLLM_API_KEY",),
        ("VLLM_BASE_URL",),
        local=True,
    ),
)
