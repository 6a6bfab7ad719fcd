"""Proxies on the host's side for objects on the trio side."""

from __future__ import annotations

import inspect
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

from hilum.hosts.portal import Portal


class Proxy:
    """A proxy for an object on the trio side (``trio``), with the same attributes.

    A plain method is called on the trio thread, and the host waits for it. An async method, an
    async iterator and an async context manager become their counterparts in the host. Attributes
    are read on the host's thread.

    Args:
        portal: The portal to the trio side.
        target: The object on the trio side.
        wraps: Types of objects that are passed to the host as proxies. All other objects are passed
            unchanged.
    """

    _call: Any  # these three are defined by the subclass for the kind of host
    _iterate: Any
    _hold: Any

    def __init__(self, portal: Portal, target: Any, wraps: tuple[type, ...]) -> None:
        self._portal = portal
        self.trio = target
        self._wraps = wraps

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.trio, name)
        if inspect.iscoroutinefunction(value):
            return partial(self._call, value)
        if callable(value):
            return partial(self._plain, value)
        return self.wrap(value)

    def _plain(self, function: Any, *args: Any, **named: Any) -> Any:
        # Objects on the trio side are not thread-safe, so their plain methods also run there.
        async def call() -> Any:
            return function(*args, **named)

        return self.wrap(self._portal.submit(call).future.result())

    def wrap(self, value: Any) -> Any:
        """Return a value as a proxy, iterator or context manager for the host, or unchanged."""
        if isinstance(value, self._wraps):
            return type(self)(self._portal, value, self._wraps)
        if hasattr(value, "__anext__"):
            return self._iterate(value)
        if isinstance(value, AbstractAsyncContextManager):
            return self._hold(value)
        if isinstance(value, list):
            return [self.wrap(item) for item in value]
        return value
