"""Gateways to the APIs of OpenAI, Anthropic and Gemini, and to compatible servers.

Other plugins reach models through hilum's model protocol. ``create_wire`` encodes requests in any
of the formats. ``SingleUseBody`` is a body for httpx that survives a cancelled request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import trio
from hilum import hookimpl
from hilum.events import PromptQueued

from hilum_models.settings import ModelsSettings as ModelsSettings

if TYPE_CHECKING:
    from hilum import Kernel, ModelTest, ProviderStatus, Session, models

    from hilum_models.api_loading import create_wire as create_wire
    from hilum_models.http_client import SingleUseBody as SingleUseBody
    from hilum_models.providers import HttpProvider
    from hilum_models.stored_key import StoredKey

__all__ = [
    "Gateways",
    "ModelsSettings",
    "SingleUseBody",
    "create_wire",
    "open_kernel",
    "open_session",
    "provide_models",
]


# Seconds. A locked keyring waits for the user, but a session must open without waiting.
KEYRING_TIMEOUT = 5.0


class Gateways:
    """The kernel's connections to providers, and the keys that hilum keeps.

    Implements ``hilum.ModelAccess``.
    """

    def __init__(self, stored: Mapping[str, StoredKey] | None = None) -> None:
        from hilum_models.transport import Transport

        self.transport = Transport()
        self.stored = dict(stored or {})
        # The servers that the user added in this session, by provider.
        self._added: dict[str, HttpProvider] = {}

    async def survey_models(
        self, kernel: Kernel, provider: str = "", *, known_only: bool = False
    ) -> Sequence[ProviderStatus]:
        """Return the state of each provider."""
        from hilum_models.survey import survey

        return await survey(kernel, provider, known_only=known_only)

    async def test_model(self, kernel: Kernel, name: str, *, key: str = "") -> ModelTest:
        """Send one small request to a model, and wait until its response begins."""
        from hilum_models.survey import send_test_request

        return await send_test_request(kernel, name, key=key)

    async def store_key(self, kernel: Kernel, provider: str, key: str) -> str:
        """Store a key for the user, and return where it is stored."""
        import trio

        from hilum_models.addresses import format_origin
        from hilum_models.stored_keys import check_folder, write_key

        address = format_origin(self._find_provider(kernel, provider).base_url)
        check_folder(kernel.workspace, kernel.environ)
        write = partial(write_key, provider, key, address, kernel.environ)
        place = await trio.to_thread.run_sync(write)
        await self._reload(kernel, provider)
        return place

    async def forget_key(self, kernel: Kernel, provider: str) -> bool:
        """Remove the key stored for a provider, and return whether there was one."""
        import trio

        from hilum_models.stored_keys import remove_key

        self._find_provider(kernel, provider)
        remove = partial(remove_key, provider, kernel.environ)
        was_kept = await trio.to_thread.run_sync(remove)
        await self._reload(kernel, provider)
        return was_kept

    async def add_server(self, kernel: Kernel, address: str, *, key: str = "") -> ProviderStatus:
        """Check a server with one request, and let this kernel use its models."""
        from hilum import ProviderStatus, is_loopback

        from hilum_models.added_servers import list_server_models, make_server, parse_base_url
        from hilum_models.addresses import format_origin
        from hilum_models.stored_keys import parse_key

        base_url = parse_base_url(address)
        key = parse_key(key) if key else ""
        server = make_server(base_url, key, kernel.router.providers, self.transport)
        names = await list_server_models(server)
        self._added[server.name] = server
        kernel.router.replace(server)
        origin = format_origin(base_url)
        return ProviderStatus(
            server.name,
            "ready",
            f"answers at {origin}",
            address=origin,
            local=is_loopback(base_url),
            key=(server.key_place or server.key_env) if server.key else "",
            key_env=server.key_env,
            models=tuple(server.info(name) for name in names),
        )

    async def store_server(self, kernel: Kernel, provider: str) -> str:
        """Store an added server and its key for the user, and return where it is stored."""
        from hilum import StoreError, UsageError, config_folder
        from hilum.settings import FILE, ChangeError, change

        from hilum_models.added_servers import ENTERED

        server = self._added.get(provider)
        if server is None:
            raise UsageError(f"No server with the name {provider} was added.")
        if server.key and server.key_place == ENTERED:
            await self.store_key(kernel, provider, server.key)
        path = config_folder(kernel.environ) / FILE
        if not server.given:
            # The address of a known provider is known in later sessions, too.
            return str(path)
        keys = ["models", "providers", provider, "base_url"]
        try:
            await trio.to_thread.run_sync(change, path, keys, server.base_url)
        except ChangeError as error:
            message = f"{path} cannot be changed: {error.reason}."
            raise StoreError(message, hint="Correct this file.") from None
        except OSError as error:
            message = f"{path} cannot be changed: {error.strerror or error}."
            raise StoreError(message, hint="Check the permissions of the file.") from None
        return str(path)

    def _read_settings(self, kernel: Kernel) -> ModelsSettings:
        """Return the settings with the servers that were added in this session."""
        from hilum_models.settings import ProviderSettings

        settings = kernel.settings(ModelsSettings)
        added = {
            name: ProviderSettings(base_url=server.base_url)
            for name, server in self._added.items()
            if name not in settings.providers and server.given
        }
        return ModelsSettings(providers={**settings.providers, **added}, models=settings.models)

    def _find_provider(self, kernel: Kernel, name: str) -> HttpProvider:
        from hilum.errors import unknown_name_error

        from hilum_models.providers import HttpProvider

        providers = kernel.router.providers
        found = providers.get(name)
        if isinstance(found, HttpProvider):
            return found
        ours = [each.name for each in providers.values() if isinstance(each, HttpProvider)]
        raise unknown_name_error("provider of models", name, ours)

    async def _reload(self, kernel: Kernel, name: str) -> None:
        """Recreate a provider with the keys that are now stored."""
        from hilum_models.providers import create_providers

        self.stored = await _read_keys(kernel)
        settings = self._read_settings(kernel)
        for provider in create_providers(settings, kernel.environ, self.transport, self.stored):
            if provider.name == name:
                kernel.router.replace(provider)


@hookimpl
async def open_kernel(kernel: Kernel) -> AsyncIterator[Gateways]:
    """Keep the connections open until the kernel closes."""
    gateways = Gateways(await _read_keys(kernel))
    try:
        yield gateways
    finally:
        await gateways.transport.aclose()


@hookimpl
async def open_session(session: Session) -> AsyncIterator[None]:
    """Import the HTTP client in a thread, while the user types the first prompt."""
    gateways = session.kernel.plugin(Gateways)
    async with trio.open_nursery() as nursery:
        if gateways is not None:
            nursery.start_soon(_preload, session, gateways, name="models: HTTP client")
        yield None
        nursery.cancel_scope.cancel()


async def _preload(session: Session, gateways: Gateways) -> None:
    """Import the HTTP client when nothing more urgent is left to do.

    If a prompt follows at once, the sandbox of ``git status`` is prepared first, in other threads.
    The import would only take turns with them, but it can run at the same time as Git.
    """
    if session.kernel.expects_prompt:
        async for event in session.events(session.began_at):
            if isinstance(event, PromptQueued):
                break
    await gateways.transport.preload(tls=_needs_tls(session.kernel))


def _needs_tls(kernel: Kernel) -> bool:
    """Return whether requests to the default model use TLS, as far as it is known already."""
    name = kernel.router.roles.get("default", "").partition("/")[0]
    provider = kernel.router.providers.get(name)
    return getattr(provider, "base_url", "").startswith("https://")


@hookimpl
def provide_models(kernel: Kernel) -> Iterable[models.Provider]:
    """Return the known providers and the user's own."""
    gateways = kernel.plugin(Gateways)
    if gateways is None:
        return []
    from hilum_models.providers import create_providers

    settings = kernel.settings(ModelsSettings)
    return create_providers(settings, kernel.environ, gateways.transport, gateways.stored)


async def _read_keys(kernel: Kernel) -> dict[str, StoredKey]:
    """Return the stored keys; for users without any, the code that reads keys is not loaded."""
    import os

    from hilum import config_folder

    path = config_folder(kernel.environ) / "keys.toml"
    # This is one system call, which takes less time than starting a thread.
    if not os.path.lexists(path):  # noqa: ASYNC240
        return {}
    import trio

    from hilum_models.stored_key import StoredKey
    from hilum_models.stored_keys import KEYRING, read_stored_keys

    read = partial(read_stored_keys, kernel.environ)
    with trio.move_on_after(KEYRING_TIMEOUT):
        return await trio.to_thread.run_sync(read, abandon_on_cancel=True)
    problem = f"the keyring did not answer within {KEYRING_TIMEOUT:g} s"
    return {"": StoredKey("", "", KEYRING, problem)}


# The modules of the public names that load on first use, because they import the formats or httpx.
_MODULES = {"SingleUseBody": "http_client", "create_wire": "api_loading"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"hilum_models.{_MODULES[name]}"), name)
