"""The log cut at a chosen place: the session resumed on it must send the very request that the live
run sent.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio
from hilum import events as ev
from hilum import open_kernel
from hilum.models import Chunk, Request
from hilum.store import MemoryLog, MemoryStore, SessionInfo
from hilum.testing import plugin

from simulator.determinism import Folders, virtual_clock
from simulator.invariants import Checker
from simulator.plugins import fault_names, redactor_plugin
from simulator.provider import SimulatedModel, SimulatedProvider
from simulator.scenario import Scenario
from simulator.world import World, world_plugin

PATIENCE = 1_000.0
# After these nothing but a request follows, whatever happens around.
SETTLED = (ev.RoundEnded, ev.PromptFrozen)
PHASES = (ev.RunStarted, ev.PromptFrozen, ev.Compacted, ev.ModelStarted, ev.ModelFailed, ev.ModelAnswered, ev.RoundEnded,
          ev.CallStarted, ev.CallDone, ev.RunEnded, ev.CompactionRequested)  # fmt: skip


class CapturingModel(SimulatedModel):
    """A model that keeps the first request of the main agent and never answers."""

    def __init__(self, scenario: Scenario, checker: Checker) -> None:
        super().__init__(scenario, checker)
        self.body: bytes | None = None
        self.asked = trio.Event()

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Chunk]]:
        """Keep the request."""
        if request.agent == "main" and self.body is None:
            self.body = request.body
            self.asked.set()
        await trio.sleep_forever()
        yield _nothing()


async def _nothing() -> AsyncGenerator[Chunk, None]:
    return
    yield  # type: ignore[unreachable]


def probe(scenario: Scenario, folders: Folders, checker: Checker, options: dict[str, Any]) -> None:
    """Cut the log somewhere between a settled phase and the request after it, resume, and compare
    the requests.
    """
    if fault_names(scenario):
        return  # a plugin that fails anew changes what is sent
    places = _places(checker)
    if not places:
        return
    cut, body = places[scenario.probe_at * len(places) // 1_000]
    found = trio.run(
        _resume, scenario, folders, checker.events[:cut], options, clock=virtual_clock()
    )
    if found is None:
        checker.violated(
            "any prefix of the log can be resumed", f"cut after event {cut}, no request follows"
        )
    elif found != body:
        at = next(
            (i for i, (a, b) in enumerate(zip(found, body, strict=False)) if a != b),
            min(len(found), len(body)),
        )
        text = f"cut after event {cut}, at byte {at}: {found[at - 60 : at + 60]!r} for {body[at - 60 : at + 60]!r}"
        checker.violated("any prefix of the log leads to the same request", text)


def _places(checker: Checker) -> list[tuple[int, bytes]]:
    """Find all cuts, each with the body of the request that must follow."""
    bodies = {count: body for count, agent, body in checker.requests if agent == "main"}
    places: list[tuple[int, bytes]] = []
    settled = 0
    for index, event in enumerate(checker.events, 1):
        if event.agent != "main" or not isinstance(event, PHASES):
            if isinstance(event, ev.SessionChanged):
                settled = 0
            continue
        if isinstance(event, ev.ModelStarted):
            body = bodies.get(index) or bodies.get(index + 1)
            if settled and body is not None:
                places += [
                    (cut, body) for cut in range(settled, index + 1) if _is_boundary(checker, cut)
                ]
            settled = 0
        else:
            settled = index if isinstance(event, SETTLED) else 0
    return places


def _is_boundary(checker: Checker, cut: int) -> bool:
    """Return whether a process can die there: a change of state is written together with what
    caused it.
    """
    return cut >= len(checker.events) or not isinstance(checker.events[cut], ev.StateChanged)


async def _resume(
    scenario: Scenario, folders: Folders, events: list[ev.AnyEvent], options: dict[str, Any]
) -> bytes | None:
    silent = Checker(guarded=False, serial_limit=0.0)
    silent.dead = True
    model = CapturingModel(scenario, silent)
    store = MemoryStore()
    opened = events[0]
    assert isinstance(opened, ev.SessionOpened)
    log = MemoryLog(SessionInfo(opened.session, opened.workspace))
    log._events = list(events)
    store._logs[opened.session] = log
    world = World(silent, folders.workspace)
    world.left.set()
    from simulator.execution import REAL_PLUGINS

    chosen: list[object] = [name for name in scenario.plugins if name in REAL_PLUGINS]
    chosen += [
        world_plugin(world),
        plugin("simulation", provide_models=lambda: [SimulatedProvider(model)]),
    ]
    if "faulty" in scenario.plugins:
        from simulator.plugins import faulty_plugin

        chosen.append(faulty_plugin(scenario, silent))
    if "redactor" in scenario.plugins:
        chosen.append(redactor_plugin())
    async with (
        open_kernel(
            chosen,
            settings=options,
            workspace=folders.workspace,
            store=store,
            environ=folders.environ,
        ) as kernel,
        kernel.open_session(folders.workspace, resume=opened.session) as session,
    ):
        session.resume()
        with trio.move_on_after(PATIENCE):
            await model.asked.wait()
    return model.body
