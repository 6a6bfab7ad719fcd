"""Where models come from: a table of known providers, the user's own, and how to find out what they
serve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote, urlsplit

import msgspec
import trio
from hilum.errors import E_NO_MODEL, ModelError, UsageError
from hilum.models import ModelInfo, Price

from hilum_models.apis import api, wire_for
from hilum_models.catalog import known
from hilum_models.failures import Who
from hilum_models.gateway import HttpModel
from hilum_models.settings import ModelSettings, ModelsSettings, ProviderSettings
from hilum_models.transport import Transport, host_of, is_loopback, shown

# Below this an answer may take an eighth of the window by default, else half of it.
SMALL_WINDOW = 64_000
PROBE_SECONDS = 0.3
SUGGEST_SECONDS = 2.0
LIST_SECONDS = 10.0


class Row(NamedTuple):
    """A provider as the table knows it.

    Attributes:
        name: The part before the slash.
        base_url: Address of the API.
        api: Wire format.
        keys: Environment variables that may hold the key; the first that is set counts.
        urls: Environment variables that may hold the base URL.
        default: Model to suggest; empty asks the server.
        local: Whether it runs on the user's own machine: no key is needed, and it is used if it is
            there.
    """

    name: str
    base_url: str
    api: str = "chat"
    keys: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    default: str = ""
    local: bool = False


OPENAI = "https://api.openai.com/v1"
TABLE: tuple[Row, ...] = (
    Row(
        "anthropic",
        "https://api.anthropic.com",
        "anthropic",
        ("ANTHROPIC_API_KEY",),
        ("ANTHROPIC_BASE_URL",),
        "claude-sonnet-5-5",
    ),
    Row("openai", OPENAI, "responses", ("OPENAI_API_KEY",), ("OPENAI_BASE_URL",), "gpt-6.1-sol"),
    Row(
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta",
        "gemini",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        ("GOOGLE_GEMINI_BASE_URL", "GEMINI_BASE_URL"),
        "gemini-3.8-flash",
    ),
    Row(
        "openrouter",
        "https://openrouter.ai/api/v1",
        "chat",
        ("OPENROUTER_API_KEY",),
        ("OPENROUTER_BASE_URL",),
        "anthropic/claude-sonnet-5.5",
    ),
    Row(
        "deepseek",
        "https://api.deepseek.com/v1",
        "chat",
        ("DEEPSEEK_API_KEY",),
        ("DEEPSEEK_BASE_URL",),
        "deepseek-chat",
    ),
    Row(
        "qwen",
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        "chat",
        ("DASHSCOPE_API_KEY", "QWEN_API_KEY"),
        ("DASHSCOPE_BASE_URL",),
        "qwen3-coder-plus",
    ),
    Row(
        "groq",
        "https://api.groq.com/openai/v1",
        "chat",
        ("GROQ_API_KEY",),
        ("GROQ_BASE_URL",),
        "openai/gpt-oss-120b",
    ),
    Row(
        "mistral",
        "https://api.mistral.ai/v1",
        "chat",
        ("MISTRAL_API_KEY",),
        ("MISTRAL_BASE_URL",),
        "mistral-medium-latest",
    ),
    Row(
        "ollama",
        "http://127.0.0.1:11434/v1",
        "chat",
        ("OLLAMA_API_KEY",),
        ("OLLAMA_HOST",),
        local=True,
    ),
    Row("lmstudio", "http://127.0.0.1:1234/v1", "chat", (), ("LMSTUDIO_BASE_URL",), local=True),
    Row("llamacpp", "http://127.0.0.1:8080/v1", "chat", (), ("LLAMACPP_BASE_URL",), local=True),
    Row(
        "vllm",
        "http://127.0.0.1:8000/v1",
        "chat",
        ("VLLM_API_KEY",),
        ("VLLM_BASE_URL",),
        local=True,
    ),
)


def ollama_url(host: str) -> str:
    """Create a base URL of ``OLLAMA_HOST``, which may be a host, a host and port, a port, or a
    URL.
    """
    host = host.strip().rstrip("/")
    if "://" not in host:
        host = f"127.0.0.1{host}" if host.startswith(":") else host
        bare = host.startswith("[") and host.endswith("]")
        host = "http://" + (host if ":" in host and not bare else f"{host}:11434")
    # A server listens on all addresses; a client asks this machine.
    host = host.replace("://0.0.0.0", "://127.0.0.1").replace("://[::]", "://[::1]")
    return host.removesuffix("/v1") + "/v1"


class HttpProvider(msgspec.Struct):
    """A provider behind HTTP. Implements ``Provider``.

    Attributes:
        name: The part before the slash.
        base_url: Address of the API, without a slash at the end.
        api: Wire format.
        key_env: Variable that holds the key, or would.
        key: The key; empty where there is none.
        needs_key: Whether nothing works without one.
        default: Model to suggest; empty asks the server.
        local: Whether it runs on the user's own machine.
        given: Whether its address is the user's.
    """

    name: str
    base_url: str
    api: str
    transport: Transport
    key_env: str = ""
    key: str = ""
    needs_key: bool = False
    default: str = ""
    local: bool = False
    given: bool = False
    headers: Mapping[str, str] = {}
    settings: ModelsSettings = msgspec.field(default_factory=ModelsSettings)
    # What a server said of its models: whether they call tools, and their window.
    facts: dict[str, dict[str, int | bool]] = msgspec.field(default_factory=dict)

    def __repr__(self) -> str:
        return f"HttpProvider({self.name})"  # and never the key

    def model(self, name: str) -> HttpModel:
        """Return the model of that name.

        Raises:
            UsageError: There is no name, or no key.
        """
        if not name:
            raise UsageError(
                f"{self.name}/ names no model.", code=E_NO_MODEL, hint="Write provider/name."
            )
        if self.needs_key and not self.key:
            hint = f"Set {self.key_env} to your key for {self.name}."
            raise UsageError(
                f"{self.name}/{name} cannot be used: there is no key.", code=E_NO_MODEL, hint=hint
            )
        own = self.settings.models.get(f"{self.name}/{name}", ModelSettings())
        facts = self.facts.get(name, {})
        about = known(name, local=self.local)
        price = (
            Price(given.input, given.output, given.cached, given.cache_write)
            if (given := own.price)
            else about.price
        )
        window = own.window or facts.get("window") or about.window
        images = facts.get("images", about.images) if own.images is None else own.images
        # In a small window half of it for the answer would leave too little for the work.
        if window < SMALL_WINDOW:
            share = window // 8
        else:
            share = window // 2
        max_output = own.max_output or min(about.max_output, share)
        info = ModelInfo(f"{self.name}/{name}", int(window), int(max_output), price, bool(images))
        protocol = own.tool_protocol
        if protocol == "auto":
            protocol = "native" if facts.get("tools", about.tools) else "text"
        made = api(self.api)
        who = self.who(name)
        wire = wire_for(
            self.api,
            info.name,
            tool_protocol=protocol,
            # Anthropic must be told; elsewhere the provider's own limit is right unless the user
            # wants another.
            max_output=info.max_output if self.api == "anthropic" else own.max_output or 0,
            images=info.images,
            effort=own.effort,
            options=own.options,
        )
        read = made.read
        if protocol == "text":
            from hilum_models.textual import reading

            read = reading(read)
        url = self.base_url + made.path.replace("{model}", quote(name, safe="/.-_:@"))

        def describe_tools() -> None:
            self.facts[name] = {**self.facts.get(name, {}), "tools": False}

        if own.tool_protocol == "auto" and protocol == "native":
            switch = describe_tools
        else:
            switch = None
        return HttpModel(
            info, wire, url, self._headers(post=True), who, read, self.transport, switch
        )

    def who(self, model: str = "") -> Who:
        """Return who this is, for messages."""
        return Who(self.name, model, self.key_env, self.key)

    def _headers(self, post: bool) -> dict[str, str]:
        made = api(self.api)
        headers = {"user-agent": "hilum", "accept-encoding": "identity", **made.headers}
        if post:
            headers |= {"content-type": "application/json", "accept": "text/event-stream"}
        if self.key:
            headers |= made.key_headers(self.key)
        return headers | {name.lower(): value for name, value in self.headers.items()}

    async def suggest(self) -> str | None:
        """Name a model to use, ``None`` if this provider cannot be used right now.

        Raises:
            UsageError: The user gave its address, and there is no model to be had.
        """
        if self.needs_key and not self.key:
            return None
        if self.default:
            return self.default
        try:
            if await self._listens():
                names = await self._ask(
                    PROBE_SECONDS if is_loopback(self.base_url) else SUGGEST_SECONDS
                )
                why = "lists no model; name one with --model"
            else:
                names = []
                why = "does not answer"
        except ModelError as error:
            names = []
            why = f"cannot say which models it has ({error.message})"
        if not names and self.given:
            raise UsageError(
                f"{shown(self.base_url)}, which you gave as its address, {why}.", code=E_NO_MODEL
            )
        return names[0] if names else None

    async def names(self) -> list[str]:
        """Names of models the server says it has; the default first."""
        usable = bool(self.key) or not self.needs_key
        try:
            found = await self._ask(LIST_SECONDS) if usable and await self._listens() else []
        except ModelError:
            found = []
        first = [self.default] if self.default else []
        return list(dict.fromkeys((*first, *found)))

    async def _listens(self) -> bool:
        """Return whether anything listens on this machine's port: asked before httpx is loaded,
        which costs 100 ms.
        """
        if not is_loopback(self.base_url):
            return True
        parts = urlsplit(self.base_url)
        with trio.move_on_after(PROBE_SECONDS):
            try:
                port = parts.port or (443 if parts.scheme == "https" else 80)
                stream = await trio.open_tcp_stream(parts.hostname or "", port)
            except (OSError, ValueError):
                return False
            await trio.aclose_forcefully(stream)
            return True
        return False

    async def _ask(self, seconds: float) -> list[str]:
        from hilum_models.discovery import list_models, ollama_facts

        url = self.base_url + api(self.api).models
        headers = self._headers(post=False)
        names = await list_models(self.transport, url, headers, self.who(), seconds)
        if self.name == "ollama" and names:
            base = self.base_url.removesuffix("/v1")
            self.facts |= await ollama_facts(
                self.transport, base, headers, self.who(), names, seconds
            )
        return names


def providers(
    settings: ModelsSettings, environ: Mapping[str, str], transport: Transport
) -> Sequence[HttpProvider]:
    """Make all providers: the known ones with the user's changes, then the user's own.

    Args:
        settings: What the user set.
        environ: The environment, for keys and addresses.
        transport: How to reach them.
    """
    rows = [
        *TABLE,
        *(
            Row(name, "", local=False)
            for name in settings.providers
            if name not in {r.name for r in TABLE}
        ),
    ]
    return [_make(row, settings, environ, transport) for row in rows]


# What people copy from a vendor's page together with the base URL.
_ENDPOINTS = {"chat": "/chat/completions", "responses": "/responses", "anthropic": "/messages"}


def _make(
    row: Row, settings: ModelsSettings, environ: Mapping[str, str], transport: Transport
) -> HttpProvider:
    own = settings.providers.get(row.name, ProviderSettings())
    given = own.base_url or next((environ[name] for name in row.urls if environ.get(name)), "")
    if row.name == "ollama" and given and not own.base_url:
        given = ollama_url(given)
    base = (given or row.base_url).rstrip("/")
    keys = (own.key_env,) if own.key_env else row.keys
    key_env = next((name for name in keys if environ.get(name)), keys[0] if keys else "")
    format = own.api or row.api
    if row.name == "openai" and not own.api and host_of(base) != "api.openai.com":
        format = "chat"  # what others call compatible is the older format
    base = base.removesuffix(_ENDPOINTS.get(format, "/"))
    if format == "anthropic":  # its base URL has no version, by the vendor's own custom
        base = base.removesuffix("/v1")
    elif format == "gemini" and "/v1" not in base:
        base += "/v1beta"
    elsewhere = bool(given) and base != row.base_url
    return HttpProvider(
        row.name,
        base,
        format,
        transport,
        key_env=key_env,
        key=environ.get(key_env, "").strip(),
        needs_key=bool(own.key_env) or (bool(row.keys) and not row.local and not elsewhere),
        default=own.default or ("" if elsewhere else row.default),
        local=row.local or is_loopback(base),
        given=bool(given),
        headers=own.headers,
        settings=settings,
    )
