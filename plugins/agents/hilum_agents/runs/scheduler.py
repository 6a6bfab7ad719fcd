"""The scheduler, which starts jobs, follows their runs, and writes exactly one result for each.

All state is folded from the log (``JobReports``). The queue is rebuilt from the fold when the
session is opened.

Three attributes of a job are names of agents: ``agent`` is the name of the definition, ``actor``
the name of the session's agent that does the work, and ``owner`` the name of the session's agent
that started the job (empty for the user). Each job has an actor of its own, unless the conversation
is persistent: then all jobs of the agent have the same actor, so they run one after another.
"""

from __future__ import annotations

from collections.abc import Callable

import trio
from hilum import Agent, HilumError, Session, StoreError, make_id
from hilum import events as ev
from hilum.errors import E_INTERRUPTED, E_STOPPED
from hilum.hooks import PLUGIN_EXCEPTIONS, PluginFailure

from hilum_agents.runs import results
from hilum_agents.runs.budgets import BudgetLedger
from hilum_agents.runs.jobs import QUEUED, RESULT, Job
from hilum_agents.runs.notices import EndNotices
from hilum_agents.runs.pool import AgentPool
from hilum_agents.runs.queue import JobQueue
from hilum_agents.runs.reports import JobReports
from hilum_agents.runs.settings import SchedulerSettings

# Minimum number of seconds between two status events of a running job.
STATUS_INTERVAL = 1.0
# Maximum number of waiting jobs per lane whose queue positions are reported on each change.
# Reporting all positions would take quadratic time.
MAX_PLACES_REPORTED = 5
# Fraction of a sub-agent's context limit at which its conversation is compacted.
COMPACT_AT = 0.8
# Number of tokens in a sub-agent's context reserved for its answer.
ANSWER_RESERVE = 2_048


class Scheduler:
    """The scheduler of a session: it starts jobs, follows their runs and writes their results.

    Args:
        session: The session.
        settings: The settings.
        nursery: The nursery for tasks that start jobs.

    Attributes:
        reports: The reporter that writes and folds job events.
        jobs: All jobs.
        queue: The waiting and running jobs.
        pool: The session's agents that execute jobs.
        budgets: The agents' budgets.
        notices: The sender of notices to owners whose jobs have ended.
        closed: Whether the scheduler has stopped processing events.
    """

    def __init__(
        self,
        session: Session,
        settings: SchedulerSettings,
        nursery: trio.Nursery,
    ) -> None:
        self._session = session
        self._settings = settings
        self._nursery = nursery
        self.reports = JobReports(session)
        self.jobs = self.reports.jobs
        self.queue = JobQueue(self._limit_of)
        self.pool = AgentPool(session)
        self.budgets = BudgetLedger(session, self.jobs, settings.cost_limit)
        self.notices = EndNotices(session, self.jobs, self.pool, nursery, self._continue)
        self._stopping: set[str] = set()
        self._places: dict[str, int] = {}
        self._prompted = False
        self.closed = False
        # Jobs left open by an earlier process wait until the session is resumed or the user does
        # something else.
        self._on_hold = any(True for _ in self.jobs.open())
        self._first_event = self.jobs.last
        self._work = trio.Event()
        # The next tick determines whether the session was resumed.
        if self._on_hold:
            self._work.set()

    def _limit_of(self, lane: str) -> int:
        return self._settings.tasks_at_once if lane else self._settings.at_once

    # --- beginning --------------------------------------------------------------------------------

    def add(self, job: Job) -> Job:
        """Queue a new job, which begins immediately if a slot is free.

        Returns:
            The job as recorded in the log.
        """
        self.reports.emit(QUEUED, **job.queued_data())
        # Folding the event created the job object that all other methods use.
        known = self.jobs.by_id[job.id]
        self._enqueue(known)
        self._begin_waiting()
        if known.id in self.queue.running:
            self.reports.status(known, "queued", "Begins now.", place=0)
        elif known.id not in self._places:
            self._report_place(known, self.queue.places()[known.id])
        return known

    def _enqueue(self, job: Job) -> None:
        self.queue.add(job)
        self._work.set()

    def _report_place(self, job: Job, place: int) -> None:
        self.reports.status(job, "queued", f"Position {place} in the queue.", place=place)

    def can_begin(self, name: str) -> bool:
        """Return whether a named agent could begin a job now.

        If the agent could begin, this session now holds the lock on the agent's conversation. If no
        job follows, the lock is released after a while.
        """
        agents = self._session.agents
        joined = [agents[each] for each in self.pool.joined if each in agents]
        # A prompt from the user becomes a job only when `follow` reads its event.
        not_yet_jobs = sum(
            bool(each.conversation.pending) and not self.queue.is_busy(each.name) for each in joined
        )
        agent = agents.get(name)
        is_idle = agent is None or not agent.conversation.pending
        self._work.set()  # the next tick then releases the lock if it stays unused
        if self._on_hold or self.queue.is_busy(name) or not is_idle:
            return False
        return self.queue.has_room("", not_yet_jobs) and self.pool.claim(name)

    def _continue(self, last: Job, text: str) -> None:
        """Queue a job that continues an agent with a new prompt and the rest of its budget."""
        profile = self._session.agents[last.actor].profile
        job = Job(
            id=new_id(),
            agent=last.agent,
            title=last.title,
            actor=last.actor,
            prompt=text,
            of=last.id,
            owner=last.owner,
            owner_run=last.owner_run,
            lane=last.lane,
            urgent=last.urgent,
            persistent=last.persistent,
            notify_owner=bool(last.lane),
            depth=last.depth,
            profile=self.budgets.limit_to_rest(last.actor, profile),
        )
        self.add(job)

    def _begin_waiting(self) -> None:
        """Start all waiting jobs that can begin now."""
        # While the session is closing, no job begins; waiting jobs begin when the session is
        # resumed.
        if self._on_hold or self.closed or self._session.closing:
            return
        for lane in self.queue.lanes():
            while (job := self.queue.start_next(lane, self._can_begin_job)) is not None:
                self._started(job)
                # The job starts in a separate task, so that preparing a prompt does not delay other
                # jobs.
                self._nursery.start_soon(self._begin, job, name=f"start of agent {job.agent}")
            self._report_places(lane)

    def _can_begin_job(self, job: Job) -> bool:
        if self.queue.is_busy(job.actor) or self.pool.is_running(job.actor):
            return False
        if not job.persistent or self.pool.claim(job.actor):
            return True
        step = f"Waiting: {job.agent} is running in another session."
        if job.step != step:
            self.reports.status(job, "queued", step)
        return False

    def _started(self, job: Job) -> None:
        self._places.pop(job.id, None)
        self._work.set()

    def _report_places(self, lane: str) -> None:
        """Report the first waiting jobs whose positions in the queue have changed."""
        for place, job in enumerate(self.queue.order(lane)[:MAX_PLACES_REPORTED], 1):
            if self._places.get(job.id) != place:
                self._places[job.id] = place
                self._report_place(job, place)

    async def _begin(self, job: Job) -> None:
        try:
            self.pool.enter(job.profile, job.owner, persistent=job.persistent)
            self.pool.bind(job.actor, self.pool.definitions.pop(job.id, None))
            with self.pool.literal(job.prompt):
                run = await self._session.prompt(job.prompt, agent=job.actor)
            self.jobs.begin(job, run.id)
            # The stop was requested while the prompt was being queued, before there was a run to
            # stop.
            if job.id in self._stopping:
                self._session.stop(job.actor)
        except StoreError:
            return  # the log accepts no more events
        except HilumError as error:
            self.finish(job, _failed(error.code, error.message, error.hint))
        except PLUGIN_EXCEPTIONS as error:
            if self._session.closing:
                return
            self._session.report(PluginFailure("scheduler", "start", error))
            self.finish(job, _failed("E_FAILED", f"The agent could not begin: {error!r}."))

    # --- following --------------------------------------------------------------------------------

    async def follow(self) -> None:
        """Follow the session's events until it closes.

        If processing an event raises an exception, the exception is reported and processing
        continues.
        """
        async for item in self._session.events(self._first_event, deltas=True):
            if self.closed:
                break
            if not self._survives(self._apply, item):
                break
        self.close()

    def _survives(self, action: Callable[..., None], *arguments: object) -> bool:
        """Run an action, and report any exception that it raises.

        Returns:
            Whether to continue: ``False`` once the log accepts no more events.
        """
        try:
            action(*arguments)
        except StoreError:
            return False
        except PLUGIN_EXCEPTIONS as error:
            self._session.report(PluginFailure("scheduler", "events", error))
        return True

    def close(self) -> None:
        """Stop processing events, and release all tasks that wait for a job to end."""
        self.closed = True
        for job in list(self.jobs.open()):
            job.ended.set()

    def _apply(self, item: ev.AnyEvent | ev.Delta) -> None:
        if isinstance(item, ev.Delta):
            job = self.jobs.by_run.get(item.run)
            if job is not None and item.kind == "text":
                self.reports.stream(job, item.text)
        elif not isinstance(item, ev.PluginEvent) or not item.name.startswith("agents."):
            # The plugin's own events were folded when they were written.
            self._apply_event(item)

    def _apply_event(self, event: ev.AnyEvent) -> None:
        self.jobs.apply(event)
        if isinstance(event, ev.PromptQueued):
            self._prompted = True
            # Not only at the next tick: the session may be closed before.
            self.recover()
            self._adopt(event)
        if event.run:
            self.notices.awake = True
            self._apply_to_job(event)
        if isinstance(event, ev.StopAsked):
            self._stop_tasks(event.run)
            self._stop_queue(event)
        elif isinstance(event, ev.RunEnded):
            if _ends_tasks(event):
                self._stop_tasks(event.run)
            self.budgets.release(event.agent, event.usage)
            self._begin_waiting()
            self.notices.wake(event.agent)

    def _apply_to_job(self, event: ev.AnyEvent) -> None:
        job = self.jobs.by_run.get(event.run)
        if job is None:
            return
        # An event from a run of an earlier process means that the session was resumed, unless the
        # event only marks that run as interrupted.
        cut_off = isinstance(event, ev.RunEnded) and event.state == "interrupted"
        if self._on_hold and not cut_off:
            self.settle(resumed=True)
        self._follow(job, event)

    def adopt(self, agent: Agent) -> None:
        """Create the job of a run that begins because of the user's prompt.

        The task that follows the events may be later than the run, whose tools depend on whether
        there are jobs.
        """
        for prompt in agent.conversation.queue:
            if prompt.run == agent.starting:
                self.jobs.match_prompt(agent.name, prompt.run, prompt.text)
                self._adopt(prompt)
                return

    def _adopt(self, event: ev.PromptQueued) -> None:
        """Create a job for a prompt that the user sent directly to an agent in ``pool.joined``."""
        if event.agent not in self.pool.joined or event.run in self.jobs.by_run:
            return
        job = Job(
            id=event.run,
            agent=event.agent,
            actor=event.agent,
            prompt=event.text,
            persistent=True,
            profile=self._session.agents[event.agent].profile,
        )
        self.reports.emit(QUEUED, **job.queued_data())
        known = self.jobs.by_id[job.id]
        self.jobs.begin(known, event.run)
        self.queue.start(known)
        self._started(known)

    def _follow(self, job: Job, event: ev.AnyEvent) -> None:
        self.reports.run_event(job, event)
        if isinstance(event, ev.RunEnded):
            self.finish(job, event)
        elif isinstance(event, ev.ModelAnswered) and job.lane:
            window = self._settings.task_window - ANSWER_RESERVE
            if self.reports.progress(job).context > window * COMPACT_AT:
                self._session.compact(job.actor)

    # --- ending -----------------------------------------------------------------------------------

    def stop(self, job: Job) -> None:
        """Stop a job in any state. A second stop has no effect."""
        if job.over or job.id in self._stopping:
            return
        self._stopping.add(job.id)
        is_running = job.id in self.queue.running
        if not is_running:
            self.queue.remove(job)
        if is_running or job.run:
            self._session.stop(job.actor)
        if is_running:
            return  # the job ends with its run
        self._stop_cut_off(job)
        if not job.over:
            error = (
                "The agent was stopped." if job.run else "The agent was stopped before it began."
            )
            self.finish(job, ev.RunEnded(state="stopped", code=E_STOPPED, error=error))

    def _stop_cut_off(self, job: Job) -> None:
        """Mark a run that a crash interrupted as stopped, so that resuming does not continue it."""
        agent = self._session.agents.get(job.actor)
        if job.run and agent is not None and agent.scope is None:
            self._session.emit(ev.StopAsked(), agent, job.run)

    def _stop_tasks(self, run: str) -> None:
        """Stop the sub-agents of a run that has ended or is being stopped."""
        for job in self.jobs.under(run):
            job.notify_owner = False  # a notice would prompt the agent that was just stopped
            self.stop(job)

    def _stop_queue(self, event: ev.StopAsked) -> None:
        """Stop the waiting jobs as well, once the user has stopped every top-level run."""
        job = self.jobs.by_run.get(event.run)
        # If the scheduler stopped this job itself, the event is not a request from the user.
        if job is None or job.id in self._stopping:
            return
        running = list(self.queue.running.values())
        if not all(self._stop_was_requested(other) for other in running if not other.lane):
            return
        for other in running:
            # A notice would prompt an agent that the user has just stopped.
            other.notify_owner = False
        not_begun = [other for other in running if not other.run]
        for other in [*self.queue.waiting(), *not_begun]:
            self.stop(other)

    def _stop_was_requested(self, job: Job) -> bool:
        agent = self._session.agents.get(job.actor)
        return agent is not None and agent.conversation.stopped_run == job.run

    def finish(self, job: Job, ended: ev.RunEnded) -> None:
        """Write the result of a job exactly once, and start the next job."""
        if job.over:
            return
        self._stopping.discard(job.id)
        self._write_result(job, ended)
        self.budgets.charge(job, ended.usage)
        # An agent that will be notified of a background task must stay in the session.
        if not any(other.notify_owner for other in self.jobs.owned(job.actor)):
            self.pool.leave(job)
        self.reports.forget(job.id)
        self._places.pop(job.id, None)
        # The slot must be free before the next job is chosen.
        self.queue.finish(job)
        self._begin_waiting()
        self.notices.wake(job.owner)

    def _write_result(self, job: Job, ended: ev.RunEnded) -> None:
        self.reports.output(job)
        # Save the conversation before writing the result: a caller waiting for the result may start
        # the agent again in another session.
        problem = self.pool.keep(job)
        if problem:
            self.reports.log(job, "warning", problem)
        progress = self.reports.progress(job)
        result = results.build(self._session, job, ended, progress)
        if ended.error:
            level = "error" if ended.state in ("failed", "timed_out") else "warning"
            self.reports.log(job, level, ended.error)
        self.reports.emit(RESULT, **result)
        self.reports.status(job, result["status"], result["current_step"], result["progress"])

    # --- time -------------------------------------------------------------------------------------

    async def tick(self) -> None:
        """Do the periodic work of the scheduler every second until it closes.

        Each tick settles jobs left by a crash, reports the status and output of running jobs, stops
        jobs on behalf of other processes, releases unused conversation locks, and starts waiting
        jobs that can begin now. While there is nothing to do, no ticks occur.
        """
        while not self.closed:
            await self._work.wait()
            await trio.sleep(STATUS_INTERVAL)
            if not self._survives(self._tick):
                return

    def _tick(self) -> None:
        self.recover()
        for job in list(self.queue.running.values()):
            if job.run:
                self.reports.output(job)
                self.reports.run_status(job, always=True)
            if self.pool.take_stop_request(job):
                self.stop(job)
        self.pool.release_unused(self.queue.is_busy)
        if self.queue.is_waiting:
            self._begin_waiting()  # another session may have released a conversation lock
        elif not self.queue.running and not self._on_hold and not self.pool.holds_locks:
            # There is nothing to report until the next job is queued.
            self._work = trio.Event()

    # --- after a crash ----------------------------------------------------------------------------

    def recover(self) -> None:
        """Repair the state after a crash: write missing results and settle open jobs.

        A job gets its missing result if its run ended before the crash. All other open jobs wait
        until it is clear whether the user resumes the session (the jobs continue) or sends another
        prompt (they are marked as interrupted).
        """
        for identity, ended in list(self.reports.unfinished.items()):
            self.finish(self.jobs.by_id[identity], ended)
        self.reports.unfinished.clear()
        if not self._on_hold:
            return
        cut_off = [job.run for job in self.jobs.open() if job.run]
        # The session has only runs that it began or resumed.
        if not cut_off or any(run in self._session.runs for run in cut_off):
            self.settle(resumed=True)
        elif self._prompted:
            self.settle(resumed=False)

    def settle(self, *, resumed: bool) -> None:
        """Continue the jobs that a crash interrupted, or mark these jobs as interrupted.

        Args:
            resumed: Whether the session was resumed; otherwise, the user has sent another prompt.
        """
        self._on_hold = False
        self._work.set()
        for job in list(self.jobs.open()):
            if job.id in self.reports.unfinished:
                continue  # its run has ended
            if resumed:
                self._resume(job)
            else:
                self._interrupt(job)
        self._begin_waiting()
        if resumed:
            self.notices.wake_all()

    def _resume(self, job: Job) -> None:
        if not job.run:
            self._enqueue(job)
            return
        self.queue.start(job)
        self._started(job)
        if job.persistent:
            self.pool.claim(job.actor)

    def _interrupt(self, job: Job) -> None:
        if job.run:
            error = "hilum ended while the agent was running."
        else:
            error = "hilum ended before the agent began."
        hint = f"`hilum agents retry {job.id}` continues it."
        if job.run and job.actor in self._session.agents:
            self._session.end_interrupted(job.actor)
        self.finish(
            job, ev.RunEnded(state="interrupted", code=E_INTERRUPTED, error=error, hint=hint)
        )


def new_id() -> str:
    """Return an id for a new job."""
    # An id is short enough to type, and long enough to be unique among a user's jobs.
    return make_id("job")


def _failed(code: str, error: str, hint: str = "") -> ev.RunEnded:
    """Return the end event of a run that could not begin."""
    return ev.RunEnded(state="failed", code=code, error=error, hint=hint)


def _ends_tasks(event: ev.RunEnded) -> bool:
    """Return whether a run's sub-agents are stopped when the run ends.

    If the main agent fails, its sub-agents continue: the user can prompt the main agent again, and
    it can use their results.
    """
    if event.agent == "main":
        return event.state in ("stopped", "timed_out")
    return event.state in ("stopped", "timed_out", "failed")
