"""The asyncio API of hilum; the kernel runs on a separate trio thread.

A cancelled task ends only when the trio side has unwound.

::

    async with hilum.aio.open_kernel(model="openai/gpt-5") as kernel:
        async with kernel.open_session(".") as session:
            print((await session.run("Fix the failing test")).text)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Unpack

from hilum.errors import PluginError
from hilum.hosts import aio
from hilum.kernel import Kernel
from hilum.kernel import open_kernel as open_on_trio
from hilum.runs import Run
from hilum.session import Session
from hilum.standard import open_standard_session as open_standard_on_trio
from hilum.tools import Options, Tool
from hilum.tools import tool as trio_tool

if TYPE_CHECKING:
    # The functions that `hosted` returns take the same arguments as the originals.
    from hilum.kernel import open_kernel as open_kernel
    from hilum.standard import open_standard_session as open_standard_session
else:
    open_kernel = aio.hosted(open_on_trio, wraps=(Kernel, Session, Run), name="hilum")
    open_standard_session = aio.hosted(
        open_standard_on_trio, wraps=(Kernel, Session, Run), name="hilum"
    )


def tool(**options: Unpack[Options]) -> Callable[[Callable[..., Awaitable[Any]]], Tool]:
    """Create a tool from a coroutine function that runs on the caller's asyncio loop.

    The options are those of ``hilum.tool``.

    If the tool call is cancelled (because it was stopped or timed out), the coroutine is cancelled
    on that loop, and the call waits until it has ended.

    Raises:
        PluginError: No asyncio loop is running, for example at the top level of a module.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        hint = (
            "Call it in a coroutine function, where the loop is running, and pass the tool to"
            " open_kernel(tools=[…])."
        )
        raise PluginError("hilum.aio.tool needs a running asyncio loop.", hint=hint) from None
    return lambda function: trio_tool(**options)(aio.from_trio(function))
