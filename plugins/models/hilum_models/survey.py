"""Determines which providers can be used, and tests a model with one small request."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import trio
from hilum import ModelTest, ProviderStatus, is_loopback
from hilum.errors import ModelError, unknown_name_error
from hilum.hooks import describe_error, is_failure
from hilum.messages import Layer, Text, UserMessage
from hilum.models import Done, KeepAlive, Model, ModelInfo, Request

from hilum_models.addresses import format_origin
from hilum_models.providers import LIST_TIMEOUT, HttpProvider

if TYPE_CHECKING:
    from hilum import Kernel
    from hilum.models import Provider

# Seconds. A model server on this machine lists its models immediately; any other server might not
# respond.
LOCAL_TIMEOUT = 2.0
# Seconds until an answer begins. Servers on this machine first load the model, which may be large.
TEST_TIMEOUT = 30.0
LOCAL_TEST_TIMEOUT = 120.0
# Maximum number of names to suggest.
MAX_SUGGESTED = 3
PURPOSE = "test"
QUESTION = "Answer with the word OK."
_START = {
    "ollama": "Start it with `ollama serve`, and load a model with `ollama pull NAME`.",
    "lmstudio": "Start LM Studio's server: `lms server start`.",
    "llamacpp": "Start it with `llama-server -m MODEL.gguf`.",
    "vllm": "Start it with `vllm serve NAME`.",
}
_LOAD = {
    "ollama": "Load one with `ollama pull NAME`.",
    "lmstudio": "Load one in LM Studio, or with `lms load NAME`.",
}


# --- providers ------------------------------------------------------------------------------------


async def survey(
    kernel: Kernel, provider: str = "", *, known_only: bool = False
) -> list[ProviderStatus]:
    """Return the state of each provider; see ``hilum.ModelAccess``."""
    providers = kernel.router.providers
    if provider and provider not in providers:
        raise unknown_name_error("provider of models", provider, providers)
    chosen = [providers[provider]] if provider else list(providers.values())
    found: dict[str, ProviderStatus] = {}

    async def examine(each: Provider) -> None:
        if isinstance(each, HttpProvider):
            used = _find_used_names(kernel, each)
            found[each.name] = await _examine(each, used, named=bool(provider), quiet=known_only)
        else:
            found[each.name] = await _examine_other(each)

    async with trio.open_nursery() as nursery:
        for each in chosen:
            nursery.start_soon(examine, each)
    return [found[each.name] for each in chosen]


def _find_used_names(kernel: Kernel, provider: HttpProvider) -> list[str]:
    """Return the names of a provider's models in the settings, without the provider's name."""
    router = kernel.router
    names = [*router.roles.values(), *map(router.resolve, router.fallback)]
    names += provider.settings.models
    prefix = f"{provider.name}/"
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]


async def _examine(
    provider: HttpProvider, used: Iterable[str], *, named: bool, quiet: bool
) -> ProviderStatus:
    """Return the state of a provider.

    Args:
        provider: The provider.
        used: The names of the provider's models in the settings.
        named: Whether the user named the provider, so that it may be contacted on another machine.
        quiet: Whether to avoid contacting servers.
    """
    known = [*used, provider.default]
    report = partial(_report, provider, known)
    if not provider.usable:
        message = provider.key_problem or "there is no key"
        hint = f"Set {provider.key_env}, or run: hilum models key {provider.name}"
        return report("no_key", message, hint)
    here = is_loopback(provider.base_url)
    key = _describe_key(provider)
    if quiet or not (here or named):
        return report("unchecked", key)
    address = format_origin(provider.base_url)
    if here and not await provider.is_listening():
        hint = _START.get(provider.name, "Start the server, or correct its address.")
        return report("no_server", f"nothing answers at {address}", hint)
    try:
        names = await provider.list_models(LIST_TIMEOUT if named else LOCAL_TIMEOUT)
    except ModelError as error:
        return report("failed", error.message.rstrip("."), error.hint)
    if not names and not any(known):
        hint = _LOAD.get(provider.name, "Load a model, or choose another server.")
        return report("no_models", f"the server at {address} has no model", hint)
    listed = [name for name in dict.fromkeys((*known, *names)) if name in names]
    unlisted = [name for name in known if name and name not in names]
    # A server's list may omit aliases and deployments that work.
    return _report(provider, [*listed, *unlisted], "ready", f"answers at {address}, {key}")


def _report(
    provider: HttpProvider, names: Iterable[str], state: str, message: str, hint: str = ""
) -> ProviderStatus:
    return ProviderStatus(
        provider.name,
        state,  # type: ignore[arg-type]
        message,
        hint,
        format_origin(provider.base_url),
        is_loopback(provider.base_url),
        (provider.key_place or provider.key_env) if provider.key else "",
        provider.key_env,
        tuple(provider.info(name) for name in dict.fromkeys(names) if name),
    )


def _describe_key(provider: HttpProvider) -> str:
    if provider.key:
        return f"key in {provider.key_place or provider.key_env}"
    return "no key is required"


async def _examine_other(provider: Provider) -> ProviderStatus:
    """Return the state of a provider that another plugin contributes."""
    names: list[str] = []
    try:
        with trio.move_on_after(LIST_TIMEOUT):
            names = await provider.names()
    except BaseException as error:
        if not is_failure(error):
            raise
        return ProviderStatus(provider.name, "failed", describe_error(error))
    models = []
    for name in names:
        info = _find_info(provider, name)
        if info is not None:
            models.append(info)
    return ProviderStatus(provider.name, "unchecked", "provided by a plugin", models=tuple(models))


def _find_info(provider: Provider, name: str) -> ModelInfo | None:
    try:
        return provider.model(name).info
    except BaseException as error:
        if not is_failure(error):
            raise
        return None


# --- one model ------------------------------------------------------------------------------------


async def send_test_request(kernel: Kernel, name: str, *, key: str = "") -> ModelTest:
    """Send one small request to a model; see ``hilum.ModelAccess``."""
    router = kernel.router
    name = router.resolve(name)
    if not name:
        name = await router.default()
    provider = router.providers.get(name.partition("/")[0])
    if not isinstance(provider, HttpProvider):
        return await _time(router.model(name), name, "", TEST_TIMEOUT)
    if key:
        # Keys that are pasted often end in a newline.
        provider = msgspec.structs.replace(
            provider, key=key.strip(), key_place="your answer", key_problem=""
        )
    model = provider.model(name.partition("/")[2])
    limit = LOCAL_TEST_TIMEOUT if is_loopback(provider.base_url) else TEST_TIMEOUT
    try:
        return await _time(model, name, format_origin(provider.base_url), limit)
    except ModelError as error:
        raise await _explain(error, provider, model.endpoint.model) from None


async def _time(model: Model, name: str, address: str, limit: float) -> ModelTest:
    """Send the request, and return when the answer begins.

    Raises:
        ModelError: The model failed, or did not answer within ``limit`` seconds.
    """
    layers = (Layer(0, PURPOSE, QUESTION),)
    message = UserMessage((Text(QUESTION, "kernel"),))
    wire = model.wire
    body = wire.body(wire.head(layers, ()), [wire.message(message)])
    request = Request(body, layers, (), (message,))
    began = trio.current_time()
    with trio.move_on_after(limit):
        async with model.stream(request) as chunks:
            async for chunk in chunks:
                # The rest of the answer would only cost money.
                if not isinstance(chunk, KeepAlive):
                    _check_answer(chunk, name)
                    return ModelTest(name, address, trio.current_time() - began)
        raise ModelError(f"{name} sent no answer.", kind="broken")
    hint = "Try again; a large model may still be loading." if is_loopback(address) else ""
    raise ModelError(f"{name} did not answer within {limit:g} s.", kind="timeout", hint=hint)


def _check_answer(chunk: object, name: str) -> None:
    if isinstance(chunk, Done) and not chunk.message.parts:
        hint = "Choose another model: this one might not support conversations."
        raise ModelError(f"{name} answered with nothing.", kind="request", hint=hint)


async def _explain(error: ModelError, provider: HttpProvider, model: str) -> ModelError:
    """Return the error with the names of similar models, if the server does not know this model."""
    if error.status not in (400, 404) or error.kind != "request":
        return error
    names: list[str] = []
    try:
        names = await provider.list_models(LIST_TIMEOUT)
    except ModelError:
        # The first error is the one to report.
        return error
    if not names or model in names:
        return error
    near = get_close_matches(model, names, MAX_SUGGESTED) or names[:MAX_SUGGESTED]
    listed = ", ".join(f"{provider.name}/{name}" for name in near)
    hint = f"{provider.name} does not list {model!r}. It has, for example: {listed}."
    return ModelError(error.message, kind=error.kind, status=error.status, hint=hint)
