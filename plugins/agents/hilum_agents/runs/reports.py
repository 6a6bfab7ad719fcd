"""Writes events that report on jobs, and restores jobs from these events."""

from __future__ import annotations

import time
from typing import Any

import trio
from hilum import Session
from hilum import events as ev

from hilum_agents.runs import jobs
from hilum_agents.runs.jobs import Job, JobTable
from hilum_agents.runs.progress import RunProgress

# Minimum number of seconds between two output events of a job that streams text.
OUTPUT_INTERVAL = 0.2


class JobReports:
    """A reporter that writes job events and folds all events in the session.

    Args:
        session: The session.

    Attributes:
        jobs: All jobs of the session.
        unfinished: The end events of runs whose results were not written because of a crash, by job
            id.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._progress: dict[str, RunProgress] = {}
        self._output_times: dict[str, float] = {}
        self.jobs = JobTable()
        self.unfinished: dict[str, ev.RunEnded] = {}
        self._fold_log()

    def _fold_log(self) -> None:
        """Apply the events of a resumed session."""
        while page := self._session.journal.since(self.jobs.last):
            for event in page:
                self.jobs.apply(event)
                self._fold_progress(event)

    def _fold_progress(self, event: ev.AnyEvent) -> None:
        job = self.jobs.by_run.get(event.run)
        if job is not None:
            self.progress(job).apply(event)
            if isinstance(event, ev.RunEnded):
                self.unfinished[job.id] = event
        elif isinstance(event, ev.PluginEvent) and event.name == jobs.RESULT:
            self.forget(event.data["agent_id"])

    def forget(self, identity: str) -> None:
        """Discard the reporting state of a job that has a result."""
        self._progress.pop(identity, None)
        self._output_times.pop(identity, None)
        self.unfinished.pop(identity, None)

    def progress(self, job: Job) -> RunProgress:
        """Return the progress of a job."""
        found = self._progress.get(job.id)
        if found is None:
            turns = job.profile.turns or self._session.options.turns
            found = self._progress[job.id] = RunProgress(turns)
        return found

    # --- events -----------------------------------------------------------------------------------

    def emit(self, name: str, **data: Any) -> None:
        """Write an event and fold it immediately, so that the next step sees the new state."""
        seq = self._session.emit(ev.PluginEvent(name=name, data=data))
        self.jobs.apply(ev.PluginEvent(name=name, data=data, seq=seq, at=time.time()))

    def log(self, job: Job, level: str, message: str) -> None:
        """Write one line to a job's log."""
        self.emit(jobs.LOG, agent_id=job.id, level=level, message=message, timestamp=time.time())

    def status(self, job: Job, status: str, step: str, progress: float = 0.0, **more: Any) -> None:
        """Write the status of a job."""
        self.emit(
            jobs.STATUS,
            agent_id=job.id,
            status=status,
            progress=max(job.progress, progress),
            current_step=step,
            **more,
        )

    def run_status(self, job: Job, *, always: bool = False) -> None:
        """Write the status of a running job if it has changed.

        Args:
            job: The job.
            always: Write the status even if it has not changed.
        """
        current = self.progress(job)
        if always or (current.status, current.step) != (job.status, job.step):
            self.status(job, current.status, current.step, current.progress)

    def output(self, job: Job) -> None:
        """Write the output that a job has produced since the previous output event."""
        # Each event is written to disk; one event per token would take longer than streaming the
        # answer itself.
        self._output_times[job.id] = trio.current_time()
        for kind, text in self.progress(job).take_output():
            self.emit(jobs.OUTPUT, agent_id=job.id, chunk=text, chunk_type=kind)

    def stream(self, job: Job, text: str) -> None:
        """Add streamed text of a job, which is written a few times per second."""
        self.progress(job).show(text)
        elapsed = trio.current_time() - self._output_times.get(job.id, 0.0)
        if elapsed >= OUTPUT_INTERVAL:
            self.output(job)

    def run_event(self, job: Job, event: ev.AnyEvent) -> None:
        """Report on an event from a job's run."""
        self.progress(job).apply(event)
        match event:
            case ev.ModelAnswered():
                self.output(job)
            case ev.CallStarted(call=call):
                self.emit(jobs.TOOL_CALL, agent_id=job.id, tool=call.name, arguments=call.arguments)
                self.run_status(job)
            case ev.CallDone(result=result) if result.code:
                self.log(job, "warning", f"{result.name} failed with {result.code}.")
            case ev.CallDone(result=result):
                self.log(job, "info", f"{result.name} is done.")
            case ev.ModelFailed() | ev.UserNeeded():
                self.log(job, "warning", event.message)
            case ev.ErrorRaised():
                self.log(job, "error", event.message)
            case ev.StateChanged() if event.state not in ev.FINAL:
                self.run_status(job)
