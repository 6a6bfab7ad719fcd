"""The providers of a kernel: the known ones with the user's changes, and the user's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlsplit

import msgspec
import trio
from hilum import is_loopback
from hilum.errors import E_NO_MODEL, ModelError, UsageError
from hilum.models import ModelInfo, Price

from hilum_models.addresses import format_origin, get_host
from hilum_models.api_loading import create_wire, load_api
from hilum_models.catalog import ModelFacts, find_facts
from hilum_models.discovery import fetch_ollama_facts, list_models
from hilum_models.failures import Endpoint
from hilum_models.gateway import HttpModel
from hilum_models.known_providers import KNOWN_PROVIDERS, KnownProvider
from hilum_models.settings import ModelSettings, ModelsSettings, ProviderSettings
from hilum_models.stored_key import StoredKey
from hilum_models.text_tools import read_text_calls
from hilum_models.transport import Transport

# Size in tokens. By default, an answer may take up an eighth of a smaller window, or half of a
# larger one.
SMALL_WINDOW = 64_000
# Seconds. A server on this machine accepts connections at once; for others, a handshake takes time.
PROBE_TIMEOUT = 0.3
SUGGEST_TIMEOUT = 2.0
LIST_TIMEOUT = 10.0


class HttpProvider(msgspec.Struct):
    """A provider that is reached over HTTP. Implements ``Provider``.

    Attributes:
        name: The provider's name, which is the part before the slash in a model's name.
        base_url: Base URL of the API, without a trailing slash.
        api: Wire format.
        transport: The connections.
        key_env: Environment variable for the key.
        key: The key; empty if there is none.
        key_place: Description of where hilum keeps the key; empty if it is in ``key_env``.
        key_problem: Why the key that hilum keeps cannot be used; empty if there is no problem.
        needs_key: Whether the provider is unusable without a key.
        default: Model to suggest; if empty, the server's list is used.
        local: Whether the provider runs on the user's own machine.
        given: Whether the user configured the provider's URL.
        headers: Additional headers for each request.
        settings: The user's settings.
        facts: The capabilities that the server reports for its models: tool calls and window.
    """

    name: str
    base_url: str
    api: str
    transport: Transport
    key_env: str = ""
    key: str = ""
    key_place: str = ""
    key_problem: str = ""
    needs_key: bool = False
    default: str = ""
    local: bool = False
    given: bool = False
    headers: Mapping[str, str] = {}
    settings: ModelsSettings = msgspec.field(default_factory=ModelsSettings)
    facts: dict[str, dict[str, int | bool]] = msgspec.field(default_factory=dict)

    def __repr__(self) -> str:
        # Omit the key, because representations may appear in tracebacks and logs.
        return f"HttpProvider({self.name})"

    # --- models -----------------------------------------------------------------------------------

    def model(self, name: str) -> HttpModel:
        """Return the model with the given name.

        Raises:
            UsageError: The name is empty, or the required key is missing.
        """
        self._check_usable(name)
        own = self.settings.models.get(f"{self.name}/{name}", ModelSettings())
        facts = self._find_facts(name, own)
        info = self._create_info(name, facts)
        protocol = own.tool_protocol
        if protocol == "auto":
            protocol = "native" if facts.tools else "text"
        api = load_api(self.api)
        # Anthropic requires a maximum. With other formats, the provider's own limit applies, unless
        # the user sets one.
        max_output = info.max_output if self.api == "anthropic" else own.max_output or 0
        wire = create_wire(
            self.api,
            info.name,
            tool_protocol=protocol,
            max_output=max_output,
            images=info.images,
            effort=own.effort,
            options=own.options,
            host=get_host(self.base_url),
        )
        create_reader = api.create_reader
        if protocol == "text":
            create_reader = read_text_calls(create_reader)

        def disable_native_tools() -> None:
            # Recorded in the provider, because model objects are frozen: the next model object that
            # it creates describes the tools as text.
            self.facts[name] = {**self.facts.get(name, {}), "tools": False}

        may_switch = own.tool_protocol == "auto" and protocol == "native"
        return HttpModel(
            info=info,
            wire=wire,
            url=self.base_url + api.path.replace("{model}", quote(name, safe="/.-_:@")),
            headers=self._request_headers(),
            endpoint=self.endpoint(name),
            create_reader=create_reader,
            transport=self.transport,
            disable_native_tools=disable_native_tools if may_switch else None,
        )

    def info(self, name: str) -> ModelInfo:
        """Return the properties of the model with the given name, even if it needs a key."""
        own = self.settings.models.get(f"{self.name}/{name}", ModelSettings())
        return self._create_info(name, self._find_facts(name, own))

    def _create_info(self, name: str, facts: ModelFacts) -> ModelInfo:
        return ModelInfo(
            name=f"{self.name}/{name}",
            window=facts.window,
            max_output=facts.max_output,
            price=facts.price,
            images=facts.images,
            window_assumed=facts.window_assumed,
        )

    def _check_usable(self, name: str) -> None:
        if not name:
            hint = "Write provider/name."
            raise UsageError(f"{self.name}/ has no model name.", code=E_NO_MODEL, hint=hint)
        if not self.usable:
            hint = self.endpoint(name).key_hint
            message = f"{self.name}/{name} cannot be used: no API key is set."
            if self.key_problem:
                message = f"{self.name}/{name} cannot be used: {self.key_problem}."
            raise UsageError(message, code=E_NO_MODEL, hint=hint)

    def _find_facts(self, name: str, own: ModelSettings) -> ModelFacts:
        """Return the properties of a model.

        The user's settings take precedence over the server's report, which takes precedence over
        the catalog.
        """
        known = find_facts(name, local=self.local)
        reported = self.facts.get(name, {})
        price = known.price
        if own.price is not None:
            price = msgspec.convert(own.price, Price, from_attributes=True)
        images = own.images
        if images is None:
            images = bool(reported.get("images", known.images))
        window = int(own.window or reported.get("window") or known.window)
        # Reserving half of a small window for the answer would leave too little for the work.
        share = window // 8 if window < SMALL_WINDOW else window // 2
        return ModelFacts(
            window=window,
            max_output=own.max_output or min(known.max_output, share),
            price=price,
            images=images,
            tools=bool(reported.get("tools", known.tools)),
            window_assumed=known.window_assumed and not (own.window or reported.get("window")),
        )

    def endpoint(self, model: str = "") -> Endpoint:
        """Return the provider and one of its models, for messages."""
        return Endpoint(self.name, model, self.key_env, self.key, self.key_place)

    def _base_headers(self) -> dict[str, str]:
        api = load_api(self.api)
        # Compression delays the events of a stream.
        headers = {"user-agent": "hilum", "accept-encoding": "identity", **api.headers}
        if self.key:
            headers |= api.key_headers(self.key)
        return headers

    def _own_headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}

    def list_headers(self) -> dict[str, str]:
        """Return the headers of a request for the list of models, the key included."""
        return self._base_headers() | self._own_headers()

    def _request_headers(self) -> dict[str, str]:
        content = {"content-type": "application/json", "accept": "text/event-stream"}
        # The user's headers take precedence, because a company's proxy may require other
        # credentials.
        return self._base_headers() | content | self._own_headers()

    # --- the server -------------------------------------------------------------------------------

    @property
    def usable(self) -> bool:
        """Whether the provider has a key, or needs none."""
        return bool(self.key) or not self.needs_key

    async def suggest(self) -> str | None:
        """Return a model to use, or ``None`` if this provider cannot currently be used.

        Raises:
            UsageError: The user configured the provider's address, but the server has no model.
        """
        if not self.usable:
            return None
        if self.default:
            return self.default
        problem = "lists no model; choose one with --model"
        names: list[str] = []
        timeout = PROBE_TIMEOUT if is_loopback(self.base_url) else SUGGEST_TIMEOUT
        try:
            if await self.is_listening():
                names = await self.list_models(timeout)
            else:
                problem = "does not answer"
        except ModelError as error:
            problem = f"cannot list its models ({error.message})"
        if names:
            return names[0]
        # A known port without a server is normal, but a URL that the user configured must work.
        if self.given:
            address = f"{format_origin(self.base_url)}, which you gave as its address,"
            raise UsageError(f"{address} {problem}.", code=E_NO_MODEL)
        return None

    async def check(self) -> None:
        """Request the server's list of models.

        Raises:
            ModelError: The server does not respond, or rejects the request.
        """
        await self.list_models(LIST_TIMEOUT)

    async def names(self) -> list[str]:
        """Return the names of the server's models, with the default first."""
        names = [self.default] if self.default else []
        try:
            if self.usable and await self.is_listening():
                names += await self.list_models(LIST_TIMEOUT)
        except ModelError:
            pass
        return list(dict.fromkeys(names))

    async def is_listening(self) -> bool:
        """Return whether a server listens on the provider's port on this machine.

        Other machines are not probed. The probe spares sessions without a local server the import
        of httpx, which takes 100 ms.
        """
        if not is_loopback(self.base_url):
            return True
        parts = urlsplit(self.base_url)
        with trio.move_on_after(PROBE_TIMEOUT):
            try:
                port = parts.port or (443 if parts.scheme == "https" else 80)
                stream = await trio.open_tcp_stream(parts.hostname or "", port)
            except (OSError, ValueError):
                return False
            # Nothing was sent, so the connection need not be closed gracefully.
            await trio.aclose_forcefully(stream)
            return True
        return False

    async def list_models(self, timeout: float) -> list[str]:
        """Return the names of the models that the server lists.

        Raises:
            ModelError: The server did not respond within ``timeout`` seconds, or rejected the
                request.
        """
        url = self.base_url + load_api(self.api).models_path
        headers = self.list_headers()
        names = await list_models(self.transport, url, headers, self.endpoint(), timeout)
        if self.name == "ollama" and names:
            self.facts |= await fetch_ollama_facts(
                self.transport,
                self.base_url.removesuffix("/v1"),
                headers,
                self.endpoint(),
                names,
                timeout,
            )
        return names


# --- from the settings and the environment --------------------------------------------------------


def create_providers(
    settings: ModelsSettings,
    environ: Mapping[str, str],
    transport: Transport,
    stored: Mapping[str, StoredKey] = {},
) -> Sequence[HttpProvider]:
    """Create all providers: the known ones with the user's changes, then the user's own.

    Args:
        settings: The user's settings.
        environ: The environment variables, which may contain keys and addresses.
        transport: The connections.
        stored: The keys that hilum keeps, by provider.
    """
    known_names = {known.name for known in KNOWN_PROVIDERS}
    own = [KnownProvider(name, "") for name in settings.providers if name not in known_names]
    return [
        _create_provider(known, settings, environ, transport, stored)
        for known in (*KNOWN_PROVIDERS, *own)
    ]


def _create_provider(
    known: KnownProvider,
    settings: ModelsSettings,
    environ: Mapping[str, str],
    transport: Transport,
    stored: Mapping[str, StoredKey],
) -> HttpProvider:
    own = settings.providers.get(known.name, ProviderSettings())
    given = _find_given_url(known, own, environ)
    url = (given or known.base_url).rstrip("/")
    api = _choose_api(known, own, url)
    base_url = _normalize_url(url, api)
    is_elsewhere = bool(given) and base_url != known.base_url
    key_env = _choose_key_env(known, own, environ)
    # The vendor's own server needs the vendor's key. A server at another address needs the
    # configured key.
    needs_key = bool(known.key_envs) and not known.local and not is_elsewhere
    # Pasted keys often end in a newline.
    key = environ.get(key_env, "").strip()
    kept = StoredKey("", "", "")
    if not key:
        kept = _find_stored_key(known.name, base_url, stored)
    return HttpProvider(
        known.name,
        base_url,
        api,
        transport,
        key_env=key_env,
        key=key or kept.key,
        key_place=kept.place if kept.key else "",
        key_problem=kept.problem,
        needs_key=needs_key or bool(own.key_env),
        default=own.default or ("" if is_elsewhere else known.default),
        local=known.local or is_loopback(base_url),
        given=bool(given),
        headers=own.headers,
        settings=settings,
    )


def _find_stored_key(name: str, base_url: str, stored: Mapping[str, StoredKey]) -> StoredKey:
    """Return the key that hilum keeps for a provider at an address; an empty one if it has none."""
    # The entry without a name contains the reason why no key could be read.
    kept = stored.get(name) or stored.get("") or StoredKey("", "", "")
    if kept.problem:
        return msgspec.structs.replace(kept, key="")
    # The user may have changed the provider's address since, and the new server must not receive
    # the key.
    if kept.key and kept.address != format_origin(base_url):
        problem = f"the key that hilum keeps for {name} is for {kept.address}"
        return StoredKey("", kept.address, kept.place, problem)
    return kept


def _find_given_url(known: KnownProvider, own: ProviderSettings, environ: Mapping[str, str]) -> str:
    """Return the base URL from settings or environment, or an empty string if there is none."""
    if own.base_url:
        return own.base_url
    given = _first_value(known.url_envs, environ)
    if known.name == "ollama" and given:
        return parse_ollama_host(given)
    return given


def _first_value(names: Sequence[str], environ: Mapping[str, str]) -> str:
    return next((environ[name] for name in names if environ.get(name)), "")


def parse_ollama_host(host: str) -> str:
    """Return the base URL for ``OLLAMA_HOST``: a host, a host and port, a port, or a URL."""
    host = host.strip().rstrip("/")
    if "://" not in host:
        if host.startswith(":"):
            host = f"127.0.0.1{host}"
        is_bare_ipv6 = host.startswith("[") and host.endswith("]")
        if ":" not in host or is_bare_ipv6:
            # Ollama's default port.
            host = f"{host}:11434"
        host = f"http://{host}"
    # The server also reads this variable, and may listen on all addresses, but a client needs a
    # specific address.
    host = host.replace("://0.0.0.0", "://127.0.0.1").replace("://[::]", "://[::1]")
    return host.removesuffix("/v1") + "/v1"


def _choose_api(known: KnownProvider, own: ProviderSettings, url: str) -> str:
    if own.api:
        return own.api
    # OpenAI-compatible servers use the older format, chat completions.
    if known.name == "openai" and get_host(url) != "api.openai.com":
        return "chat"
    return known.api


# Path suffixes that people copy from a vendor's page together with the base URL.
_COPIED_ENDS = {"chat": "/chat/completions", "responses": "/responses", "anthropic": "/messages"}


def _normalize_url(url: str, api: str) -> str:
    url = url.removesuffix(_COPIED_ENDS.get(api, "/"))
    # By the vendors' own conventions, Anthropic's base URL has no version, and Gemini's may lack
    # it.
    if api == "anthropic":
        return url.removesuffix("/v1")
    if api == "gemini" and "/v1" not in url:
        return f"{url}/v1beta"
    return url


def _choose_key_env(known: KnownProvider, own: ProviderSettings, environ: Mapping[str, str]) -> str:
    """Return the name of the variable that contains the key, or the first candidate."""
    if own.key_env:
        return own.key_env
    for name in known.key_envs:
        if environ.get(name):
            return name
    return known.key_envs[0] if known.key_envs else ""
