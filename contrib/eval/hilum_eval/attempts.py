"""Runs attempts: prepares the workspace, starts the agent in its process, verifies and scores."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import trio
from hilum.errors import E_INTERNAL, E_TIMEOUT
from hilum.processes import Warden

from hilum_eval.attempt import Attempt
from hilum_eval.call_counts import count_calls
from hilum_eval.case import Case
from hilum_eval.converter import structure, unstructure
from hilum_eval.jobs import Job
from hilum_eval.scores import score_attempt
from hilum_eval.transcript import Transcript
from hilum_eval.verifier import Verifier
from hilum_eval.worker_job import READ_LOG, SESSION_FILE
from hilum_eval.worker_processes import WorkerEnd, WorkerProcesses
from hilum_eval.workspaces import FixtureError, Place, Workspaces, make_environ

WORKER_RESERVE = 60.0
"""Seconds that a worker has beyond the time limit of its case, for its start and its end."""
# Failures of a provider, which say nothing about the agent.
_PROVIDER_CODES = frozenset("E_LLM_429 E_LLM_AUTH E_LLM_FAIL E_LLM_TIMEOUT E_NO_MODEL".split())
_MAX_ANSWER = 4_000


class AttemptRunner:
    """Runs attempts, several at once if wanted.

    Args:
        warden: Runs the commands of fixtures and the verifiers.
        processes: Runs the agents.
        base: A folder for the workspaces.
        models: The user's own settings of models, for live models.
        sandboxed: Whether verifiers run in a sandbox.
        keep: Whether the folders of attempts are kept.
        reserve: Seconds after the time limit of a case after which its worker is killed.
    """

    def __init__(
        self,
        warden: Warden,
        processes: WorkerProcesses,
        base: Path,
        *,
        models: Mapping[str, Any],
        sandboxed: bool,
        keep: bool = False,
        reserve: float = WORKER_RESERVE,
    ) -> None:
        self._warden = warden
        self._processes = processes
        self._workspaces = Workspaces(warden, base)
        self._verifier = Verifier(warden, sandboxed=sandboxed)
        self._models = models
        self._keep = keep
        self._reserve = reserve

    async def run(self, job: Job) -> Attempt:
        """Make an attempt. Whatever goes wrong becomes part of the result."""
        case = job.case
        attempt = Attempt(case=case.id, arm=job.arm.name, repeat=job.repeat, state="broken")
        missing = [program for program in case.needs if not shutil.which(program)]
        if missing:
            reason = f"needs {', '.join(missing)}, which is not installed"
            return attrs.evolve(attempt, state="skipped", reason=reason)
        try:
            place = await self._workspaces.prepare(case, job.arm, job.repeat)
        except FixtureError as error:
            return attrs.evolve(attempt, code=error.code, reason=error.message)
        try:
            return await self._run_in(place, job, attempt)
        except OSError as error:
            reason = f"The attempt failed: {error.strerror or error}."
            return attrs.evolve(attempt, code=E_INTERNAL, reason=reason)
        finally:
            if not self._keep:
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(place.remove)

    async def _run_in(self, place: Place, job: Job, attempt: Attempt) -> Attempt:
        environ = make_environ(job.arm, place, live=bool(job.arm.model))
        transcript = await self._run_worker(place, job, environ)
        attempt = attrs.evolve(
            attempt,
            usage=count_calls(transcript),
            observed=transcript.observed,
            answer=transcript.answer[:_MAX_ANSWER],
            code=transcript.code,
            reason=transcript.reason,
            session=transcript.session,
        )
        if transcript.broken or (job.arm.model and transcript.code in _PROVIDER_CODES):
            return attempt
        verdict = await self._verifier.verify(job.case, transcript, place, environ)
        if verdict.broken:
            return attrs.evolve(attempt, code=verdict.code, reason=verdict.broken)
        return score_attempt(job.case, transcript, verdict, attempt)

    async def _run_worker(self, place: Place, job: Job, environ: Mapping[str, str]) -> Transcript:
        """Let the agent work in a process of its own, and return what it did."""
        described = place.scratch / "job.json"
        output = place.scratch / "transcript.json"
        data = {
            "case": unstructure(job.case),
            "arm": unstructure(job.arm),
            "repeat": job.repeat,
            "workspace": str(place.workspace),
            "home": str(place.home),
            "scratch": str(place.scratch),
            "environ": dict(environ),
            "models": dict(self._models) if job.arm.model else {},
            "output": str(output),
        }
        described.write_text(json.dumps(data))
        end = await self._processes.run(
            [str(described)],
            folder=place.scratch,
            environ=environ,
            limit=job.case.timeout + self._reserve,
        )
        found = await trio.to_thread.run_sync(_read_transcript, output)
        if found is not None:
            return found
        code = E_TIMEOUT if end.code is None else E_INTERNAL
        if not (place.scratch / SESSION_FILE).is_file():
            # The agent had not begun.
            return Transcript(code=code, reason=_describe_end(end, job.case), broken=True)
        # The log contains what the agent did until then.
        await self._processes.run(
            [READ_LOG, str(described)],
            folder=place.scratch,
            environ=environ,
            limit=WORKER_RESERVE,
        )
        found = await trio.to_thread.run_sync(_read_transcript, output)
        return attrs.evolve(found or Transcript(), code=code, reason=_describe_end(end, job.case))


def _read_transcript(path: Path) -> Transcript | None:
    """Return the transcript in a file; ``None`` if the worker did not write it."""
    if not path.is_file():
        return None
    return structure(json.loads(path.read_text()), Transcript, str(path))


def _describe_end(end: WorkerEnd, case: Case) -> str:
    if end.code is None:
        return f"The agent did not end within {case.timeout:g} seconds, and was killed."
    if end.code < 0:
        return f"The agent's process was ended by signal {-end.code}."
    return f"The agent's process failed with exit code {end.code}: {end.text or 'it wrote nothing'}"
