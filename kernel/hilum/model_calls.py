"""The admission of requests to models, which plugins may refuse before anything is sent.

Every request of an agent, and every request that a plugin makes on its behalf, is admitted here.
A plugin that keeps a budget reserves an amount for the request, and is called when it has ended.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from hilum.errors import GATE_FAILED, GATE_SHUT, HilumError
from hilum.hooks import PluginFailure, current_plugin, is_failure, running_plugin
from hilum.messages import Price, Usage

if TYPE_CHECKING:
    from hilum.agents import Agent

HOOK = "on_model_call"


class ModelCallDenied(HilumError):
    """A request to a model was refused before it was sent."""

    code = "E_BUDGET"


class ModelCall(msgspec.Struct, eq=False):
    """One request to a model.

    Attributes:
        model: The name of the model, ``provider/name``.
        input: Estimated number of tokens in the request.
        max_output: Maximum number of tokens in the response.
        price: The price of the tokens; ``None`` if it is not known.
        plugin: The plugin that makes the request; empty for an agent's own turn.
        purpose: The purpose of a plugin's request.
        cached: Estimated number of tokens in the request that the provider reads from its cache.
        was_sent: Whether all plugins have admitted the request.
        usage: What the provider counted; ``None`` until the response is complete.
        failed: The kind of failure (see ``ModelError``); empty if the request did not fail.
    """

    model: str
    input: int
    max_output: int
    price: Price | None = None
    plugin: str = ""
    purpose: str = ""
    cached: int = 0
    was_sent: bool = False
    usage: Usage | None = None
    failed: str = ""
    _callbacks: list[tuple[str, Callable[[ModelCall], None]]] = []

    def cost(self, input: int, output: int) -> float | None:
        """Return the cost in US dollars of a number of input and output tokens.

        As many of the input tokens as expected are read from the cache.
        """
        if self.price is None:
            return None
        usage = Usage(input=input, cached=min(self.cached, input), output=output)
        return self.price.cost(usage)

    def on_end(self, callback: Callable[[ModelCall], None]) -> None:
        """Register a function to call once when the request has ended, in whatever way.

        The events that report the result are then in the log. The function must not block. If it
        raises an exception, this is reported as a failure of the plugin that registered it.
        """
        self._callbacks.append((current_plugin(), callback))

    def end(self, report: Callable[[str, BaseException], None]) -> None:
        """Call the registered functions.

        Args:
            report: A function that is called with the plugin and the exception if one fails. It
                must not end the run, whose request was answered, or keep the others from being
                called, such as one that releases a reserved amount.
        """
        callbacks = self._callbacks
        self._callbacks = []
        for plugin, callback in callbacks:
            try:
                with running_plugin(plugin):
                    callback(self)
            except BaseException as error:
                if not is_failure(error):
                    raise
                report(plugin, error)


@asynccontextmanager
async def admit_model_call(agent: Agent, call: ModelCall) -> AsyncIterator[None]:
    """Ask plugins to admit a request, which is sent in the block.

    Raises:
        ModelCallDenied: A plugin refuses the request, or a plugin that judges requests does not
            work. Nothing was sent.
    """
    try:
        await _judge(agent, call)
        call.was_sent = True
        yield
    finally:
        # Another plugin may have reserved an amount before one refused the request.
        call.end(lambda plugin, error: _report(agent, plugin, error))


def _report(agent: Agent, plugin: str, error: BaseException) -> None:
    """Report that a function that was called at the end of a request failed."""
    agent.session.hooks.record_failure(plugin, HOOK, error)


async def _judge(agent: Agent, call: ModelCall) -> None:
    """Call the plugins that judge requests.

    Raises:
        ModelCallDenied: The request is refused.
    """
    hooks = agent.session.hooks
    for plugin, reason in hooks.closed.get(HOOK, {}).items():
        raise ModelCallDenied(
            f"The plugin {plugin!r}, which judges requests to models, {GATE_SHUT} ({reason}).",
            code="E_PLUGIN",
            hint="`hilum plugins` shows what is wrong. If you can do without the plugin's"
            f" protection, block it by name: --no-plugin {plugin}.",
        )
    if not hooks.implemented(HOOK):
        return
    for plugin, value in await hooks.gather("on_model_call", agent=agent, call=call):
        if isinstance(value, PluginFailure):
            raise ModelCallDenied(f"The plugin {plugin}, {GATE_FAILED}: {value}.", code="E_PLUGIN")
        raise value
