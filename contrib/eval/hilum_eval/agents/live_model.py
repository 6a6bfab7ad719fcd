"""A live model for other agents: their requests go through hilum's gateways, and are counted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from hilum import open_standard_session
from hilum.messages import Layer
from hilum.models import Model, Request, add_cost, read_answer
from hilum_replay import Answer, WireRequest

_SILENCE = 120.0
"""Seconds without content after which a model counts as silent."""


@asynccontextmanager
async def open_live_model(
    name: str, folder: Path, models: Mapping[str, Any], environ: Mapping[str, str]
) -> AsyncIterator[Callable[[WireRequest], Awaitable[Answer]]]:
    """Open a model, and yield the function that answers requests in any format.

    Args:
        name: The model, as ``provider/name``.
        folder: An empty folder.
        models: The user's own settings of models.
        environ: The environment with the keys of the providers.

    Raises:
        HilumError: The model does not exist, or cannot be used.
    """
    settings = {f"models.{key}": table for key, table in models.items()}
    async with open_standard_session(
        folder, kind="headless", model=name, settings=settings, environ=environ
    ) as session:
        model = session.kernel.router.model(name)

        async def answer(request: WireRequest) -> Answer:
            return await _ask(model, request)

        yield answer


async def _ask(model: Model, request: WireRequest) -> Answer:
    layers = (Layer(0, "system", request.system),) if request.system else ()
    wire = model.wire
    pieces = [wire.message(message) for message in request.messages]
    body = wire.body(wire.head(layers, request.tool_specs), pieces)
    begun = trio.current_time()
    done = await read_answer(
        model, Request(body, layers, request.tool_specs, request.messages), silence=_SILENCE
    )
    seconds = trio.current_time() - begun
    return Answer(done.message, add_cost(done.usage, model.info), 0.0, seconds)
