"""Reports the configured models, their addresses and keys for ``hilum doctor``.

The report names the key's variable, never the key.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import trio
from hilum import HilumError, UsageError, is_loopback, open_kernel
from hilum.checks import Check
from hilum.errors import ModelError
from hilum.store import MemoryStore

from hilum_models.addresses import format_origin
from hilum_models.providers import HttpProvider

if TYPE_CHECKING:
    from hilum import Kernel

# Kinds of failure that show that the server responds.
_ANSWERED = ("request", "server", "rate_limit", "quota")


def check_models(folder: Path, online: bool) -> list[Check]:
    """Check which models are set and whether each one has a key, for ``hilum doctor``. Blocks.

    Args:
        folder: The workspace.
        online: Whether to contact servers on other machines. No model is called.
    """

    async def check() -> list[Check]:
        async with open_kernel(workspace=folder, store=MemoryStore()) as kernel:
            return await report_models(kernel, online=online)

    try:
        return trio.run(check)
    except HilumError:
        # Mistakes in the settings are reported by separate checks.
        return []


async def report_models(kernel: Kernel, *, online: bool) -> list[Check]:
    """Return a check of each configured model, or of the model that hilum chooses if none is set.

    Args:
        kernel: The kernel with the providers.
        online: Whether to contact servers on other machines. No model is called.
    """
    router = kernel.router
    uses: dict[str, list[str]] = {}
    for role, name in router.roles.items():
        use = "model" if role == "default" else f"role {role}"
        uses.setdefault(name, []).append(use)
    for name in router.fallback:
        uses.setdefault(router.resolve(name), []).append("fallback")
    reports = []
    if not router.resolve("default"):
        reports.append(await _report_default(kernel, online=online))
    for name, names_of_uses in uses.items():
        use = ", ".join(names_of_uses)
        reports.append(await _report_model(kernel, name, use, online=online))
    return reports


async def _report_default(kernel: Kernel, *, online: bool) -> Check:
    """Return a check of the model that ``hilum run`` chooses if none is set."""
    remote = _find_remote_server(kernel.router.providers.values())
    if remote is not None and not online:
        address = format_origin(remote.base_url)
        return Check(
            "ok",
            "model",
            f"none is set; {remote.name} at {address} will be queried for one",
            "hilum doctor --online checks whether it responds.",
        )
    try:
        name = await kernel.router.default()
    except UsageError as error:
        return Check("warn", "model", error.message, error.hint)
    return await _report_model(kernel, name, "none is set; used", online=online)


def _find_remote_server(providers: Iterable[object]) -> HttpProvider | None:
    """Return the server on another machine that would be queried for a model, if any."""
    for provider in providers:
        if not isinstance(provider, HttpProvider) or not provider.usable:
            continue
        if provider.default:
            return None
        if not is_loopback(provider.base_url):
            return provider
    return None


async def _report_model(kernel: Kernel, name: str, use: str, *, online: bool) -> Check:
    try:
        kernel.router.model(name)
    except HilumError as error:
        return Check("fail", "model", f"{use}: {error.message}", error.hint)
    provider = kernel.router.providers[name.partition("/")[0]]
    if not isinstance(provider, HttpProvider):
        return Check("ok", "model", f"{use}: {name}, provided by a plugin")
    found = f"{use}: {name}, {format_origin(provider.base_url)}, {_describe_key(provider)}"
    if not online:
        return Check("ok", "model", found)
    # Requesting the list of models is free, and requires the key like any other request.
    try:
        await provider.check()
    except ModelError as error:
        if error.kind not in _ANSWERED:
            return Check("fail", "model", f"{found}. {error.message}", error.hint)
    return Check("ok", "model", f"{found}, responds")


def _describe_key(provider: HttpProvider) -> str:
    if provider.key:
        return f"key in {provider.key_place or provider.key_env}"
    if provider.key_env:
        return f"no key (none in {provider.key_env}; none is required)"
    return "no key is required"
