"""The scheduler: who begins when, what is told of each, and how each ends, exactly once.

All state is a fold over the log (``Ledger``). What is kept beside it, who waits and who runs in
this process, is made from it when the session is opened.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import trio
from hilum import HilumError, StoreError
from hilum import events as ev
from hilum.errors import E_INTERRUPTED, E_STOPPED
from hilum_hooks import FAULTS, Fault

from hilum_agents.runs import records, results
from hilum_agents.runs.actors import Actors
from hilum_agents.runs.owners import Owners
from hilum_agents.runs.queue import Queue, places
from hilum_agents.runs.records import Entry, Ledger
from hilum_agents.runs.watch import Watch

if TYPE_CHECKING:
    from hilum import Session

    from hilum_agents.runs.settings import SchedulerSettings

SECOND = 1.0
SOON = 0.2
SHOWN_PLACES = 5
TRIM_AT = 0.8
ANSWER = 2_048


class Scheduler:
    """See the module.

    Args:
        session: The session.
        settings: The user's.
        nursery: Owns what begins agents.

    Attributes:
        ledger: What the log says.
        actors: The agents in the session that entries run as.
        owners: Those that started them.
    """

    def __init__(
        self, session: Session, settings: SchedulerSettings, nursery: trio.Nursery
    ) -> None:
        self._session = session
        self._settings = settings
        self._nursery = nursery
        self.ledger = Ledger()
        self.actors = Actors(session)
        self.owners = Owners(
            session, self.ledger, self.actors, nursery, settings.cost_limit, self._go_on
        )
        self.watches: dict[str, Watch] = {}
        self._queues: dict[str, Queue] = {}
        self._running: Counter[str] = Counter()
        self._active: dict[str, Entry] = {}
        self._busy: set[str] = set()
        self._stopping: set[str] = set()
        self._places: dict[str, int] = {}
        self._flushed: dict[str, float] = {}
        self._lost: dict[str, ev.RunEnded] = {}
        self._work = trio.Event()
        self._alive = self.closed = False
        self._fold()
        self._held = any(True for _ in self.ledger.open())
        self._seen = self.ledger.last
        if self._held:
            self._work.set()

    def _fold(self) -> None:
        """Take in what the log holds already."""
        while page := self._session.journal.since(self.ledger.last):
            for event in page:
                self.ledger.apply(event)
                entry = self.ledger.by_run.get(event.run)
                if entry is not None:
                    self._watch(entry).apply(event)
                    if isinstance(event, ev.RunEnded):
                        self._lost[entry.id] = event
                elif isinstance(event, ev.PluginEvent) and event.name == records.RESULT:
                    self.watches.pop(event.data["agent_id"], None)
                    self._lost.pop(event.data["agent_id"], None)

    # --- telling ----------------------------------------------------------------------------------

    def note(self, name: str, **data: Any) -> None:
        """Write an event of ours and fold it."""
        event = ev.PluginEvent(name=name, data=data)
        seq = self._session.emit(event)
        self.ledger.apply(ev.PluginEvent(name=name, data=data, seq=seq, at=time.time()))

    def log(self, entry: Entry, level: str, message: str) -> None:
        """Write a line of its log."""
        self.note(
            records.LOG, agent_id=entry.id, level=level, message=message, timestamp=time.time()
        )

    def status(
        self, entry: Entry, status: str, step: str, progress: float | None = None, **more: Any
    ) -> None:
        """Tell where it stands."""
        share = max(entry.progress, progress or 0.0)
        self.note(
            records.STATUS,
            agent_id=entry.id,
            status=status,
            progress=share,
            current_step=step,
            **more,
        )

    def _tell(self, entry: Entry, *, always: bool = False) -> None:
        watch = self._watch(entry)
        if always or (watch.status, watch.step) != (entry.status, entry.step):
            self.status(entry, watch.status, watch.step, watch.progress)

    def _flush(self, entry: Entry) -> None:
        self._flushed[entry.id] = trio.current_time()
        for kind, text in self._watch(entry).flush():
            self.note(records.OUTPUT, agent_id=entry.id, chunk=text, chunk_type=kind)

    def _watch(self, entry: Entry) -> Watch:
        if entry.id not in self.watches:
            self.watches[entry.id] = Watch(entry.profile.turns or self._session.options.turns)
        return self.watches[entry.id]

    # --- beginning --------------------------------------------------------------------------------

    def add(self, entry: Entry) -> None:
        """Take in a new one. It begins at once if there is room."""
        self.note(records.QUEUED, **entry.queued())
        known = self.ledger.entries[entry.id]
        self._enqueue(known)
        self._pump()
        if known.id in self._active:
            self.status(known, "queued", "It begins.", place=0)
        elif known.id not in self._places:
            place = places([self._queues[known.lane]])[known.id]
            self.status(known, "queued", f"Place {place} in the queue.", place=place)

    def _enqueue(self, entry: Entry) -> None:
        self._queues.setdefault(entry.lane, Queue()).add(entry)
        self._work.set()

    def places(self) -> dict[str, int]:
        """Return the places of those that wait."""
        return places(self._queues.values())

    def can_begin(self, name: str) -> bool:
        """Return whether there is room for a named agent now, and no other session has it.

        It is this session's then.
        """
        ours = (
            self._session.agents[each]
            for each in self.actors.joined
            if each in self._session.agents
        )
        unseen = sum(
            each.name not in self._busy and bool(each.conversation.pending) for each in ours
        )
        room = self._running[""] + unseen < self._settings.at_once
        agent = self._session.agents.get(name)
        idle = name not in self._busy and (agent is None or not agent.conversation.pending)
        self._work.set()  # what was claimed, and is not made use of, is let go after a while
        return not self._held and room and idle and self.actors.claim(name)

    def _go_on(self, last: Entry, text: str) -> None:
        """Have an agent that was started here go on after its end, with what it is told."""
        profile = self.owners.rest(last.actor, self._session.agents[last.actor].profile)
        self.add(
            Entry(
                id=os.urandom(6).hex(),
                agent=last.agent,
                title=last.title,
                actor=last.actor,
                prompt=text,
                of=last.id,
                owner=last.owner,
                owner_run=last.owner_run,
                lane=last.lane,
                urgent=last.urgent,
                keeps=last.keeps,
                wakes=bool(last.lane),
                depth=last.depth,
                profile=profile,
            )
        )

    def _pump(self) -> None:
        """Begin who can begin."""
        if self._held or self.closed or self.actors.closing:
            return
        for lane, queue in list(self._queues.items()):
            most = self._settings.tasks_at_once if lane else self._settings.at_once
            while self._running[lane] < most:
                entry = queue.take(self._is_free)
                if entry is None:
                    break
                self._occupy(entry)
                self._nursery.start_soon(self._launch, entry, name=f"start of agent {entry.agent}")
            self._tell_places(queue)
            if not queue:
                del self._queues[lane]

    def _is_free(self, entry: Entry) -> bool:
        if entry.actor in self._busy or self.actors.works(entry.actor):
            return False
        if not entry.keeps or self.actors.claim(entry.actor):
            return True
        step = f"Waits: {entry.agent} is at work in another session."
        if entry.step != step:
            self.status(entry, "queued", step)
        return False

    def _occupy(self, entry: Entry) -> None:
        self._running[entry.lane] += 1
        self._busy.add(entry.actor)
        self._active[entry.id] = entry
        self._places.pop(entry.id, None)
        self._work.set()

    def _tell_places(self, queue: Queue) -> None:
        """Tell the first of those that wait where they are now."""
        for place, entry in enumerate(queue.order()[:SHOWN_PLACES], 1):
            if self._places.get(entry.id) != place:
                self._places[entry.id] = place
                self.status(entry, "queued", f"Place {place} in the queue.", place=place)

    async def _launch(self, entry: Entry) -> None:
        try:
            self.actors.enter(entry.profile, entry.owner, keeps=entry.keeps)
            self.actors.bind(entry)
            with self.actors.literal(entry.prompt):
                run = await self._session.prompt(entry.prompt, agent=entry.actor)
            self.ledger.begun(entry, run.id)
            if entry.id in self._stopping:
                self._session.stop(entry.actor)
        except StoreError:
            return  # nothing can be written any more
        except HilumError as error:
            self.finish(
                entry,
                ev.RunEnded(state="failed", code=error.code, error=error.message, hint=error.hint),
            )
        except FAULTS as error:
            if self.actors.closing:
                return
            self._session.report(Fault("scheduler", "start", error))
            self.finish(
                entry,
                ev.RunEnded(
                    state="failed", code="E_FAILED", error=f"It could not begin: {error!r}."
                ),
            )

    # --- following --------------------------------------------------------------------------------

    async def follow(self) -> None:
        """Read the session's events until it closes.

        A fault in what is done with one of them ends nothing.
        """
        async for item in self._session.events(self._seen, deltas=True):
            try:
                self._take(item)
            except StoreError:
                break
            except FAULTS as error:
                self._session.report(Fault("scheduler", "events", error))
        self.close()

    def close(self) -> None:
        """Take nothing more in, and release who waits for an end: nobody would see it now."""
        self.closed = True
        for entry in list(self.ledger.open()):
            entry.ended.set()

    def _take(self, item: ev.AnyEvent | ev.Delta) -> None:
        if self.closed:
            return
        if isinstance(item, ev.Delta):
            if item.kind == "text" and (entry := self.ledger.by_run.get(item.run)) is not None:
                self._watch(entry).show(item.text)
                if trio.current_time() - self._flushed.get(entry.id, 0.0) >= SOON:
                    self._flush(entry)
            return
        if isinstance(item, ev.PluginEvent) and item.name.startswith("agents."):
            return
        self.ledger.apply(item)
        if isinstance(item, ev.PromptQueued):
            self._alive = True
            self._adopt(item)
        self.owners.awake |= bool(item.run)
        entry = self.ledger.by_run.get(item.run) if item.run else None
        if entry is not None:
            cut_off = isinstance(item, ev.RunEnded) and item.state == "interrupted"
            if self._held and not cut_off:
                self.settle(resumed=True)
            self._follow(entry, item)
        if isinstance(item, ev.StopAsked | ev.RunEnded):
            self._stopped_with(item)
        if isinstance(item, ev.RunEnded):
            self.owners.release(item.agent, item.usage)
            self._pump()
            self.owners.wake(item.agent)

    def _adopt(self, event: ev.PromptQueued) -> None:
        """Take in what the user has prompted an agent with himself: it has begun already, and is
        watched like the others.
        """
        if event.agent not in self.actors.joined or event.run in self.ledger.by_run:
            return
        profile = self._session.agents[event.agent].profile
        entry = Entry(
            id=event.run,
            agent=event.agent,
            actor=event.agent,
            prompt=event.text,
            keeps=True,
            profile=profile,
        )
        self.note(records.QUEUED, **entry.queued())
        known = self.ledger.entries[entry.id]
        self.ledger.begun(known, event.run)
        self._occupy(known)

    def _follow(self, entry: Entry, event: ev.AnyEvent) -> None:
        watch = self._watch(entry)
        watch.apply(event)
        match event:
            case ev.ModelAnswered():
                self._flush(entry)
                self._check_window(entry, watch)
            case ev.CallStarted(call=call):
                self.note(
                    records.TOOL_CALL, agent_id=entry.id, tool=call.name, arguments=call.arguments
                )
                self._tell(entry)
            case ev.CallDone(result=result):
                failed = f" failed with {result.code}" if result.code else " is done"
                self.log(entry, "warning" if result.code else "info", f"{result.name}{failed}.")
            case ev.ModelFailed() | ev.UserNeeded():
                self.log(entry, "warning", event.message)
            case ev.ErrorRaised():
                self.log(entry, "error", event.message)
            case ev.StateChanged() if event.state not in ev.FINAL:
                self._tell(entry)
            case ev.RunEnded():
                self.finish(entry, event)

    def _check_window(self, entry: Entry, watch: Watch) -> None:
        if entry.lane and watch.context > (self._settings.task_window - ANSWER) * TRIM_AT:
            self._session.trim(entry.actor)

    # --- ending -----------------------------------------------------------------------------------

    def stop(self, entry: Entry) -> None:
        """End one, wherever it stands; a second time changes nothing."""
        if entry.over or entry.id in self._stopping:
            return
        self._stopping.add(entry.id)
        queue = self._queues.get(entry.lane)
        if queue is not None and entry.id not in self._active:
            queue.remove(entry)
        if entry.id in self._active or entry.run:
            self._session.stop(entry.actor)
        agent = self._session.agents.get(entry.actor)
        if entry.id not in self._active and entry.run and agent is not None and agent.scope is None:
            agent.session.emit(
                ev.StopAsked(), agent, entry.run
            )  # cut off by a crash: a resume must not go on with it
        if entry.id not in self._active and not entry.over:
            error = "It was stopped before it began." if not entry.run else "It was stopped."
            self.finish(entry, ev.RunEnded(state="stopped", code=E_STOPPED, error=error))

    def _stopped_with(self, event: ev.StopAsked | ev.RunEnded) -> None:
        """Stop what an agent has started, when it is stopped.

        And the whole queue, when everything is.
        """
        ends = (
            ("stopped", "timed_out")
            if event.agent == "main"
            else ("stopped", "timed_out", "failed")
        )
        if isinstance(event, ev.RunEnded) and event.state not in ends:
            return
        for entry in self.ledger.under(event.run):
            entry.wakes = False  # the one to be woken has just been ended
            self.stop(entry)
        asked_for = self.ledger.by_run.get(event.run)
        if (
            isinstance(event, ev.StopAsked)
            and asked_for is not None
            and asked_for.id not in self._stopping
        ):
            asked = {known.id for known in self._active.values() if self._was_asked(known)}
            if asked >= {known.id for known in self._active.values() if not known.lane}:
                for known in self._active.values():
                    known.wakes = False  # nobody is to be woken by a stop of everything
                waiting = [one for queue in self._queues.values() for one in queue.order()]
                for one in [
                    *waiting,
                    *(active for active in self._active.values() if not active.run),
                ]:
                    self.stop(one)

    def _was_asked(self, entry: Entry) -> bool:
        agent = self._session.agents.get(entry.actor)
        return agent is not None and agent.conversation.stopped == entry.run

    def finish(self, entry: Entry, ended: ev.RunEnded) -> None:
        """Write a result, once, and let the next one begin."""
        if entry.over:
            return
        watch = self._watch(entry)
        self._stopping.discard(entry.id)
        self._flush(entry)
        problem = self.actors.keep(entry)
        if problem:
            self.log(entry, "warning", problem)
        result = results.build(self._session, entry, ended, watch, str(ended.state))
        if ended.error:
            self.log(
                entry, "error" if ended.state in ("failed", "timed_out") else "warning", ended.error
            )
        self.note(records.RESULT, **result)
        self.status(entry, result["status"], result["current_step"], result["progress"])
        self.owners.charge(entry, ended.usage)
        if not any(one.wakes for one in self.ledger.owned(entry.actor)):
            self.actors.leave(entry)
        for kept in (self.watches, self._flushed, self._lost, self._places):
            kept.pop(entry.id, None)
        if self._active.pop(entry.id, None) is not None:
            self._running[entry.lane] -= 1
            self._busy.discard(entry.actor)
            if not self._running[entry.lane]:
                del self._running[entry.lane]
        self._pump()
        self.owners.wake(entry.owner)

    # --- time -------------------------------------------------------------------------------------

    async def tick(self) -> None:
        """Tell where each stands, every second, while there is anything to tell."""
        while not self.closed:
            await self._work.wait()
            await trio.sleep(SECOND)
            try:
                self._second()
            except StoreError:
                return
            except FAULTS as error:
                self._session.report(Fault("scheduler", "second", error))

    def _second(self) -> None:
        self.recover()
        for entry in list(self._active.values()):
            if entry.run:
                self._flush(entry)
                self._tell(entry, always=True)
            if self.actors.stop_wanted(entry):
                self.stop(entry)
        self.actors.let_all_go(self._busy)
        if self._queues:
            self._pump()  # for one that another session had
        if not self._active and not self._queues and not self._held and not self.actors.holds:
            self._work = trio.Event()

    # --- after a crash ----------------------------------------------------------------------------

    def recover(self) -> None:
        """Write the results that a crash has kept from being written.

        See what to do about what was cut off.
        """
        for identity, ended in list(self._lost.items()):
            self.finish(self.ledger.entries[identity], ended)
        self._lost.clear()
        if not self._held:
            return
        cut_off = [entry for entry in self.ledger.open() if entry.run]
        agents = [self._session.agents.get(entry.actor) for entry in cut_off]
        if not cut_off or any(agent is not None and agent.scope is not None for agent in agents):
            self.settle(resumed=True)
        elif self._alive:
            self.settle(resumed=False)

    def settle(self, *, resumed: bool) -> None:
        """Go on with what was cut off, or say of each that it was.

        Args:
            resumed: Whether the session was resumed; else the user has gone on to something else.
        """
        self._held = False
        self._work.set()
        for entry in list(self.ledger.open()):
            if entry.id in self._lost:
                continue
            if not resumed:
                error = "hilum ended while it ran." if entry.run else "hilum ended before it began."
                hint = "Retry it."
                self.finish(
                    entry,
                    ev.RunEnded(state="interrupted", code=E_INTERRUPTED, error=error, hint=hint),
                )
            elif entry.run:
                self._occupy(entry)
                if entry.keeps:
                    self.actors.claim(entry.actor)
            else:
                self._enqueue(entry)
        self._pump()
        if resumed:
            self.owners.wake_all()
