"""Runs attempts: prepares the workspace, starts the agent in its process, verifies and scores."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import trio
from hilum import HilumError
from hilum.errors import E_CMD_FAIL, E_INTERNAL, E_TIMEOUT
from hilum.hooks import describe_error
from hilum.processes import Warden

from hilum_eval.agents.abilities import find_missing_ability
from hilum_eval.agents.command_template import HILUM
from hilum_eval.attempt import Attempt
from hilum_eval.call_counts import count_calls
from hilum_eval.case import Case
from hilum_eval.case_reader import list_case_folders
from hilum_eval.converter import structure, unstructure
from hilum_eval.jobs import Job
from hilum_eval.regular_files import read_regular_file, write_regular_file
from hilum_eval.scores import score_attempt
from hilum_eval.transcript import Transcript
from hilum_eval.verifier import Verdict, Verifier
from hilum_eval.worker_job import READ_LOG, SESSION_FILE
from hilum_eval.worker_processes import WorkerEnd, WorkerProcesses
from hilum_eval.workspaces import FixtureError, Place, Workspaces, make_environ

WORKER_RESERVE = 60.0
"""Seconds that a worker has beyond the time limit of its case, for its start and its end."""
# Failures of a provider, which say nothing about the agent.
_PROVIDER_CODES = frozenset("E_LLM_429 E_LLM_AUTH E_LLM_FAIL E_LLM_TIMEOUT E_NO_MODEL".split())
_MAX_ANSWER = 4_000
_COMMAND_TOOL = "run_terminal_cmd"
# What bubblewrap writes if it cannot start a command.
_BWRAP_FAILURE = "bwrap: "


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
        hidden: More folders that agents must not see, such as that of the results.
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
        hidden: Sequence[Path] = (),
    ) -> None:
        self._warden = warden
        self._processes = processes
        self._workspaces = Workspaces(warden, base)
        self._sandboxed = sandboxed
        self._verifier = Verifier(warden, sandboxed=sandboxed)
        self._models = models
        self._keep = keep
        self._reserve = reserve
        self._hidden = hidden
        self._can_judge: dict[tuple[str, str], bool] = {}
        self._locks: dict[tuple[str, str], trio.Lock] = {}

    async def run(self, job: Job) -> Attempt:
        """Make an attempt. Whatever goes wrong becomes part of the result."""
        case = job.case
        attempt = Attempt(case=case.id, arm=job.arm.name, repeat=job.repeat, state="broken")
        missing = [program for program in case.needs if not shutil.which(program)]
        if missing:
            reason = f"needs {', '.join(missing)}, which is not installed"
            return attrs.evolve(attempt, state="skipped", reason=reason)
        lacking = find_missing_ability(case, job.arm, sandboxed=self._sandboxed)
        if lacking:
            return attrs.evolve(attempt, state="skipped", reason=lacking)
        try:
            place = await self._workspaces.prepare(case, job.arm, job.repeat)
        except FixtureError as error:
            return attrs.evolve(attempt, code=error.code, reason=error.message)
        try:
            return await self._run_in(place, job, attempt)
        except (OSError, ValueError, RecursionError, HilumError) as error:
            # An agent without a sandbox can damage the files of its attempt.
            reason = f"The attempt failed: {describe_error(error).rstrip('.')}."
            return attrs.evolve(attempt, code=E_INTERNAL, reason=reason)
        finally:
            if not self._keep:
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(place.remove)

    async def _run_in(self, place: Place, job: Job, attempt: Attempt) -> Attempt:
        environ = make_environ(job.arm, place, live=bool(job.arm.model))
        transcript = await self._run_worker(place, job, environ)
        # Verifiers read the counts, too.
        transcript = attrs.evolve(transcript, usage=count_calls(transcript))
        attempt = attrs.evolve(
            attempt,
            usage=transcript.usage,
            observed=transcript.observed,
            answer=transcript.answer[:_MAX_ANSWER],
            code=transcript.code,
            reason=transcript.reason,
            session=transcript.session,
        )
        if transcript.broken or (job.arm.model and transcript.code in _PROVIDER_CODES):
            return attempt
        if job.arm.model and transcript.code == E_TIMEOUT and not transcript.usage.turns:
            # The model never answered, which says nothing about the agent.
            return attempt
        problem = _find_sandbox_failure(job, transcript)
        if problem:
            return attrs.evolve(attempt, code=E_CMD_FAIL, reason=problem)
        verdict = await self._judge(job, transcript, place, environ)
        if verdict.broken:
            return attrs.evolve(attempt, code=verdict.code, reason=verdict.broken)
        return score_attempt(job.case, transcript, verdict, attempt)

    async def _judge(
        self, job: Job, transcript: Transcript, place: Place, environ: Mapping[str, str]
    ) -> Verdict:
        """Return what the verifier found, and whose failure it is if it found nothing."""
        verdict = await self._verifier.verify(job.case, transcript, place, environ)
        # The verifier runs what the agent made: an endless loop there must not count as a mistake of
        # the measurement.
        if verdict.is_doubtful and await self._can_verify(job):
            reason = f"{verdict.broken.rstrip('.')}; on the untouched files, it ends with a verdict"
            return Verdict(completion=0.0, reason=reason)
        return verdict

    async def _can_verify(self, job: Job) -> bool:
        """Return whether the verifier of a case gives a verdict on the untouched files."""
        key = (job.case.id, job.arm.name)
        async with self._locks.setdefault(key, trio.Lock()):
            if key not in self._can_judge:
                self._can_judge[key] = await self._verify_untouched(job)
            return self._can_judge[key]

    async def _verify_untouched(self, job: Job) -> bool:
        try:
            place = await self._workspaces.prepare(job.case, job.arm, job.repeat)
        except FixtureError:
            return False
        try:
            environ = make_environ(job.arm, place, live=bool(job.arm.model))
            verdict = await self._verifier.verify(job.case, Transcript(), place, environ)
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(place.remove)
        return not verdict.broken

    async def _run_worker(self, place: Place, job: Job, environ: Mapping[str, str]) -> Transcript:
        """Let the agent work in a process of its own, and return what it did."""
        described = place.record / "job.json"
        cases = await trio.to_thread.run_sync(list_case_folders, job.case.folder)
        hidden = [*cases, place.folder.parent, *self._hidden]
        output = place.record / "transcript.json"
        data = {
            "case": unstructure(job.case),
            "arm": unstructure(job.arm),
            "repeat": job.repeat,
            "workspace": str(place.workspace),
            "home": str(place.home),
            "scratch": str(place.scratch),
            "prompts": str(place.prompts),
            "record": str(place.record),
            "hidden": [str(folder) for folder in hidden],
            "environ": dict(environ),
            "models": dict(self._models) if job.arm.model else {},
            "output": str(output),
        }
        write_regular_file(described, json.dumps(data))
        if job.arm.agent != HILUM:
            # The worker is no part of the agent: its own files must not lie in the agent's folders.
            own = {"HOME": str(place.record), "TMPDIR": str(place.record / "tmp")}
            environ = {**environ, **own}
        end = await self._processes.run(
            [str(described)],
            folder=place.record,
            environ=environ,
            limit=job.case.timeout + self._reserve,
        )
        found = await trio.to_thread.run_sync(_read_transcript, output)
        if found is not None:
            return found
        code = E_TIMEOUT if end.code is None else E_INTERNAL
        if not (place.record / SESSION_FILE).is_file():
            # The agent had not begun.
            return Transcript(code=code, reason=self._describe_end(end, job.case), broken=True)
        # The log contains what the agent did until then.
        await self._processes.run(
            [READ_LOG, str(described)],
            folder=place.record,
            environ=environ,
            limit=WORKER_RESERVE,
        )
        found = await trio.to_thread.run_sync(_read_transcript, output)
        return attrs.evolve(
            found or Transcript(), code=code, reason=self._describe_end(end, job.case)
        )

    def _describe_end(self, end: WorkerEnd, case: Case) -> str:
        if end.code is None:
            limit = case.timeout + self._reserve
            return (
                f"The agent, whose time limit is {case.timeout:g} seconds, did not end, and was killed"
                f" after {limit:g} seconds."
            )
        if end.code < 0:
            return f"The agent's process was ended by signal {-end.code}."
        reason = end.text or "it wrote nothing"
        return f"The agent's process failed with exit code {end.code}: {reason}"


def _read_transcript(path: Path) -> Transcript | None:
    """Return the transcript in a file; ``None`` if the worker did not write it."""
    try:
        text = read_regular_file(path)
    except FileNotFoundError:
        return None
    return structure(json.loads(text), Transcript, str(path))


def _find_sandbox_failure(job: Job, transcript: Transcript) -> str:
    """Return how hilum's own sandbox failed, so that no command of the attempt could run."""
    commands = [call for call in transcript.calls if call.tool == _COMMAND_TOOL]
    if job.arm.agent != HILUM or not commands:
        return ""
    for call in commands:
        if call.code != E_CMD_FAIL or _BWRAP_FAILURE not in call.text:
            return ""
    line = next(line for line in commands[0].text.splitlines() if _BWRAP_FAILURE in line)
    return f"The sandbox does not work: {line.strip()}"
