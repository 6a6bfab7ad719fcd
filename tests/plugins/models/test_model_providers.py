"""Providers come from a table, the environment and the user's settings.

They find out what can be used.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from hilum.errors import UsageError
from hilum.models import Done, Model, Price, Provider, Request
from hilum_models import Gateways, catalog
from hilum_models import providers as providers_module
from hilum_models.known_providers import KNOWN_PROVIDERS
from hilum_models.providers import HttpProvider, create_providers, parse_ollama_host
from hilum_models.settings import ModelSettings, ModelsSettings, PriceSettings, ProviderSettings
from hilum_models.transport import Transport

JSON = {"content-type": "application/json"}
KEYS = {key: f"key-of-{row.name}" for row in KNOWN_PROVIDERS for key in row.key_envs[:1]}
EMPTY = ModelsSettings()


def make(
    transport: Transport, settings: ModelsSettings = EMPTY, **environ: str
) -> dict[str, HttpProvider]:
    return {p.name: p for p in create_providers(settings, environ, transport)}


async def test_table_names_the_known_providers(transport: Transport) -> None:
    """All providers the manual names are there, each with its address and its key's variable."""
    made = make(transport, **KEYS)
    assert set(made) == {
        "openai", "anthropic", "gemini", "ollama", "openrouter", "deepseek", "qwen", "groq", "mistral", "vllm",
        "llamacpp", "lmstudio",
    }  # fmt: skip
    for name, provider in made.items():
        model = provider.model("some-model")
        assert model.info.name == f"{name}/some-model"
        assert model.url.startswith(("https://", "http://127.0.0.1:"))
        if provider.key:
            assert f"key-of-{name}" in "".join(model.headers.values())


@pytest.mark.parametrize(
    ("environ", "api", "url"),
    [
        ({}, "responses", "https://api.openai.com/v1/responses"),
        (
            {"OPENAI_BASE_URL": "https://api.openai.com/v1/"},
            "responses",
            "https://api.openai.com/v1/responses",
        ),
        ({"OPENAI_BASE_URL": "http://gpu:8000/v1"}, "chat", "http://gpu:8000/v1/chat/completions"),
    ],
)
async def test_openai_speaks_responses_at_home_and_chat_elsewhere(
    environ: dict[str, str], api: str, url: str, transport: Transport
) -> None:
    """A base URL that is not OpenAI's own means a compatible server, which speaks the older
    format.
    """
    model = make(transport, OPENAI_API_KEY="k", **environ)["openai"].model("gpt-5")
    assert model.wire.key.startswith(f"{api}:")
    assert model.url == url


async def test_addresses_of_the_other_formats(transport: Transport) -> None:
    """Base URLs are taken with or without the version, as each vendor's own tools take them."""
    made = make(transport, **KEYS)
    assert made["anthropic"].model("c").url == "https://api.anthropic.com/v1/messages"
    gemini = (
        "https://generativelanguage.googleapis.com/v1beta/models/g:streamGenerateContent?alt=sse"
    )
    assert made["gemini"].model("g").url == gemini
    made = make(
        transport,
        ANTHROPIC_BASE_URL="http://p/v1/",
        GOOGLE_GEMINI_BASE_URL="http://q",
        GOOGLE_API_KEY="k",
    )
    assert made["anthropic"].model("c").url == "http://p/v1/messages"
    assert made["gemini"].model("g").url == "http://q/v1beta/models/g:streamGenerateContent?alt=sse"
    assert made["gemini"].key == "k"


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:11434/v1"),
        ("127.0.0.1:9999", "http://127.0.0.1:9999/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0:80", "http://127.0.0.1:80/v1"),
        (":9999", "http://127.0.0.1:9999/v1"),
        ("[::]:9999", "http://[::1]:9999/v1"),
        ("[::1]", "http://[::1]:11434/v1"),
        ("gpu.local", "http://gpu.local:11434/v1"),
        ("https://ollama.example/", "https://ollama.example/v1"),
        ("http://gpu:1/v1", "http://gpu:1/v1"),
    ],
)
def test_ollama_host_is_understood(host: str, url: str) -> None:
    """The variable holds a host, a port or an address, and may be what the server listens on."""
    assert parse_ollama_host(host) == url


async def test_missing_key_is_an_error_that_names_it(transport: Transport) -> None:
    """Asking for a model that cannot be used says which variable to set."""
    for name, key in [
        ("openai", "OPENAI_API_KEY"),
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("gemini", "GEMINI_API_KEY"),
    ]:
        with pytest.raises(UsageError, match=r"no (API )?key") as caught:
            make(transport)[name].model("x")
        assert key in caught.value.hint
    own = ModelsSettings(
        providers={"company": ProviderSettings(base_url="http://x/v1", key_env="COMPANY_KEY")}
    )
    with pytest.raises(UsageError, match=r"no (API )?key") as caught:
        make(transport, own)["company"].model("x")
    assert "COMPANY_KEY" in caught.value.hint
    with pytest.raises(UsageError, match="has no model name"):
        make(transport, **KEYS)["openai"].model("")


async def test_settings_change_providers_and_add_new_ones(transport: Transport) -> None:
    """The user's own providers stand beside the known ones, which can be changed in any part."""
    settings = ModelsSettings(
        providers={
            "company": ProviderSettings(
                base_url="https://llm.example/v1/", key_env="COMPANY_KEY", default="big"
            ),
            "claude": ProviderSettings(
                base_url="https://p.example", api="anthropic", headers={"X-Team": "a"}
            ),
            "openai": ProviderSettings(api="chat", key_env="OTHER_KEY"),
        }
    )
    made = make(transport, settings, COMPANY_KEY="c0", OTHER_KEY="o1", OPENAI_API_KEY="o2")
    assert made["company"].model("x").url == "https://llm.example/v1/chat/completions"
    assert made["company"].model("x").headers["authorization"] == "Bearer c0"
    assert made["claude"].model("x").url == "https://p.example/v1/messages"
    assert made["claude"].model("x").headers["x-team"] == "a"
    assert made["openai"].model("x").url == "https://api.openai.com/v1/chat/completions"
    assert made["openai"].model("x").headers["authorization"] == "Bearer o1"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://eu.api.openai.com/v1", "max_completion_tokens"),
        ("https://mine.openai.azure.com/openai/v1", "max_completion_tokens"),
        ("http://gpu:8000/v1", "max_tokens"),
    ],
)
async def test_the_address_decides_on_the_name_of_the_limit(
    transport: Transport, url: str, name: str
) -> None:
    """Servers that do not know the field would answer without a limit."""
    settings = ModelsSettings(
        providers={"openai": ProviderSettings(api="chat")},
        models={"openai/x": ModelSettings(max_output=7)},
    )
    made = make(transport, settings, OPENAI_BASE_URL=url, OPENAI_API_KEY="k")
    wire = made["openai"].model("x").wire
    head = msgspec.json.decode(wire.body(wire.head((), ()), ()))
    assert {field: head[field] for field in head if "tokens" in field} == {name: 7}


async def test_catalogue_and_settings_describe_a_model(transport: Transport) -> None:
    """Window, longest answer and price come from the catalogue, and the user's settings win."""
    own = ModelSettings(
        window=50_000,
        max_output=1_000,
        price=PriceSettings(input=1, output=2),
        images=False,
        effort="low",
    )
    made = make(transport, ModelsSettings(models={"anthropic/claude-sonnet-4-6": own}), **KEYS)
    known = made["anthropic"].model("claude-opus-4-6").info
    assert (known.window, known.images, known.price) == (1_000_000, True, Price(5, 25, 0.5, 6.25))
    model = made["anthropic"].model("claude-sonnet-4-6")
    assert (model.info.window, model.info.max_output, model.info.images) == (50_000, 1_000, False)
    assert model.info.price == Price(1, 2)
    head = msgspec.json.decode(model.wire.body(model.wire.head((), ()), ()))
    assert (head["max_tokens"], head["output_config"]) == (1_000, {"effort": "low"})
    assert made["ollama"].model("qwen3:8b").info.window == catalog.LOCAL_WINDOW
    assert made["ollama"].model("qwen3:8b").info.price is None
    small = (
        make(transport, ModelsSettings(models={"vllm/x": ModelSettings(window=8_192)}))["vllm"]
        .model("x")
        .info
    )
    assert small.max_output <= small.window // 2


@pytest.mark.parametrize(
    ("name", "window", "cached"),
    [
        ("claude-sonnet-4-5-20250929", 200_000, 0.3),
        ("anthropic/claude-opus-4.6", 1_000_000, 0.5),
        ("gpt-5-mini-2025-08-07", 400_000, 0.025),
        ("openai/gpt-4o-mini", 128_000, 0.075),
        ("gemini-2.5-flash-lite", 1_000_000, 0.01),
        ("unheard-of", 128_000, None),
    ],
)
def test_longest_beginning_of_a_name_counts(name: str, window: int, cached: float | None) -> None:
    """Dated and vendor-prefixed names are found."""
    found = catalog.find_facts(name)
    assert found.window == window
    assert (found.price and found.price.cached) == cached


@pytest.mark.parametrize(
    ("name", "tools"),
    [("gemma:2b", False), ("gemma3:4b", False), ("gemma4:26b", True), ("llama2:7b", False), ("llama3.3", True),
     ("codellama", False), ("qwen3:8b", True), ("phi3:mini", False), ("phi4", True), ("gpt-oss:20b", True)],
)  # fmt: skip
def test_models_without_tools_are_known(name: str, tools: bool) -> None:
    """The usual local models without tool calling get the textual protocol by themselves."""
    assert catalog.find_facts(name).tools is tools


# --- what can be used right now -------------------------------------------------------------------


async def test_suggests_a_model_where_there_is_a_key(transport: Transport) -> None:
    """A key is enough; without one there is nothing, and nobody is asked."""
    made, bare = make(transport, **KEYS), make(transport)
    for row in KNOWN_PROVIDERS:
        if not row.local:
            assert await made[row.name].suggest() == row.default
            assert await bare[row.name].suggest() is None


async def test_local_servers_that_are_not_there_cost_next_to_nothing(
    free_port: int, transport: Transport
) -> None:
    """A closed port is known at once, and no HTTP library is loaded for it."""
    url = f"http://127.0.0.1:{free_port}"
    names = {
        "OLLAMA_HOST": url,
        "VLLM_BASE_URL": url,
        "LLAMACPP_BASE_URL": url,
        "LMSTUDIO_BASE_URL": url,
    }
    made = make(transport, **names)
    local = [
        msgspec.structs.replace(made[name], given=False)
        for name in ("ollama", "vllm", "llamacpp", "lmstudio")
    ]
    assert [await provider.suggest() for provider in local] == [None] * 4
    assert await made["ollama"].names() == []


async def test_server_that_does_not_answer_is_left_after_a_moment(
    server: Any, transport: Transport, autojump_clock: trio.testing.MockClock
) -> None:
    """A port on which somebody listens and says nothing delays the start by at most a third of a
    second.
    """
    server.say(hold=True)
    began = trio.current_time()
    provider = msgspec.structs.replace(
        make(transport, VLLM_BASE_URL=f"{server.url}/v1")["vllm"], given=False
    )
    assert await provider.suggest() is None
    assert trio.current_time() - began < 0.4


@pytest.mark.parametrize(
    "reply",
    [
        b"<html>my web app</html>",
        b'{"data":[1]}',
        b'{"hello":"world"}',
        b"[]",
        b"",
        b'{"data":{"id":"x"}}',
    ],
)
async def test_other_servers_on_the_port_are_no_models(
    reply: bytes, server: Any, transport: Transport
) -> None:
    """A web server under development on port 8000 is not taken for a model."""
    server.say(reply, headers=JSON)
    provider = make(transport, VLLM_BASE_URL=f"{server.url}/v1")["vllm"]
    assert await msgspec.structs.replace(provider, given=False).suggest() is None
    with pytest.raises(UsageError, match="which you gave as its address"):
        await provider.suggest()


async def test_ollama_is_found_and_asked_what_its_models_can_do(
    server: Any, transport: Transport
) -> None:
    """The first model listed is suggested, embeddings are not.

    Capabilities decide how tools are called.
    """
    models = [{"id": "nomic-embed-text:latest"}, {"id": "mystery:7b"}, {"id": "llava:7b"}]
    listing = msgspec.json.encode({"object": "list", "data": models})
    show = msgspec.json.encode({"capabilities": ["completion", "vision"], "details": {}})
    reply = type(server.say(b"").replies[0])
    server.by_path["/v1/models"] = reply(pieces=(listing,), headers=JSON)
    server.by_path["/api/show"] = reply(pieces=(show,), headers=JSON)
    made = make(transport, OLLAMA_HOST=server.url)["ollama"]
    assert await made.suggest() == "mystery:7b"
    assert await made.names() == ["mystery:7b", "llava:7b"]
    model = made.model("mystery:7b")
    assert model.wire.key.startswith("text:")
    assert model.info.images is True


async def test_names_come_from_the_server_the_default_first(
    server: Any, transport: Transport
) -> None:
    """Gemini's and Anthropic's lists are read like OpenAI's.

    A server that fails leaves the default.
    """
    gemini = b'{"models":[{"name":"models/gemini-x"},{"name":"models/text-embedding-004"}]}'
    anthropic = b'{"data":[{"type":"model","id":"claude-x","display_name":"X"}],"has_more":false}'
    settings = ModelsSettings(
        providers={
            "gemini": ProviderSettings(base_url=server.url, default="gemini-y"),
            "anthropic": ProviderSettings(base_url=server.url),
        }
    )
    made = make(transport, settings, **KEYS)
    server.say(gemini, headers=JSON)
    assert await made["gemini"].names() == ["gemini-y", "gemini-x"]
    server.say(anthropic, headers=JSON)
    assert await made["anthropic"].names() == ["claude-x"]
    assert server.seen[-1].headers["x-api-key"] == KEYS["ANTHROPIC_API_KEY"]
    server.say(b"", status=500)
    assert await made["gemini"].names() == ["gemini-y"]


async def test_compatible_server_is_asked_for_its_model(server: Any, transport: Transport) -> None:
    """With a base URL of one's own no name is guessed: the server is asked."""
    server.say(b'{"object":"list","data":[{"id":"served-model"}]}', headers=JSON)
    made = make(transport, OPENAI_BASE_URL=f"{server.url}/v1")["openai"]
    assert await made.suggest() == "served-model"


# --- in a kernel ----------------------------------------------------------------------------------


async def test_kernel_gets_models_from_the_plugin(
    server: Any, stream_of: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The plugin gives a kernel its providers, a model answers, and closing the kernel closes the
    connections.
    """
    import hilum_models
    from hilum import open_kernel

    for name in [*os.environ]:
        if name.endswith(("_API_KEY", "_BASE_URL")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HILUM_CONFIG", str(tmp_path))
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
    toml = f'[models.providers.company]\nbase_url = "{server.url}/v1"\n[models.models."company/m"]\nwindow = 9000\n'
    (tmp_path / "settings.toml").write_text(toml)
    server.say(stream_of("chat_openai"))
    with trio.fail_after(60):
        async with open_kernel([hilum_models]) as kernel:
            half = kernel.plugin(Gateways)
            assert half is not None
            assert kernel.router.model("company/m").info.window == 9000
            model = kernel.router.model("openai/x")
            async with model.stream(Request(b"{}", (), (), ())) as chunks:
                last = [chunk async for chunk in chunks][-1]
            assert isinstance(last, Done)
        assert half.transport._closed
        await server.closed.wait()


def test_import_is_cheap() -> None:
    """Importing the plugin loads no HTTP library and none of the formats."""
    code = (
        "import sys, hilum_models\n"
        "heavy = {'httpx', 'httpcore', 'rich', 'sqlite3', 'ssl', 'hilum_models.gemini', 'pydantic'}\n"
        "import trio\n"
        "print(sorted((heavy - {'ssl'}) & set(sys.modules)))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stdout.strip() == "[]"


async def test_types_keep_the_protocols(transport: Transport) -> None:
    """What the plugin gives has all that the protocols ask for."""
    provider: Provider = make(transport, **KEYS)["openai"]
    model: Model = provider.model("gpt-5")
    assert model.wire.key
    assert providers_module.PROBE_TIMEOUT <= 0.3
