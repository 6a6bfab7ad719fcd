"""hilum for asyncio programs: the kernel runs on a trio thread of its own.

Cancelling waits until its side has ended.

::

    async with hilum.aio.open_kernel(model="openai/gpt-5") as kernel, kernel.open_session(".") as session:
        print((await session.run("Fix the failing test")).text)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Unpack

from hilum_portal import aio

from hilum.errors import PluginError
from hilum.kernel import Kernel
from hilum.kernel import open_kernel as open_on_trio
from hilum.session import Run, Session
from hilum.standard import open_standard_session as open_standard_on_trio
from hilum.tools import Options, Tool
from hilum.tools import tool as trio_tool

open_kernel = aio.hosted(open_on_trio, wraps=(Kernel, Session, Run), name="hilum")
open_standard_session = aio.hosted(
    open_standard_on_trio, wraps=(Kernel, Session, Run), name="hilum"
)


def tool(**options: Unpack[Options]) -> Callable[[Callable[..., Awaitable[Any]]], Tool]:
    """Like ``hilum.tool``, for a coroutine function that runs on the asyncio loop this is called
    in.

    A call that is cancelled (stopped, out of time) cancels the coroutine there and waits until it
    has ended.

    Raises:
        PluginError: No loop runs here, at the top level of a module for example, so there is none
            for the tool to run on.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        hint = (
            "Use it in a coroutine function, where the loop runs, and pass the tool on:"
            " open_kernel(tools=[…])."
        )
        raise PluginError("hilum.aio.tool needs a running asyncio loop.", hint=hint) from None
    return lambda function: trio_tool(**options)(aio.from_trio(function))
