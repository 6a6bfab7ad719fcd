"""What the process of an attempt does (see ``fork_server``).

The argument is the path of a file that contains a ``WorkerJob`` as JSON. The worker writes the
transcript, as JSON, to the file that the job names. With ``--read-log``, it reads the log of an
attempt whose process was killed instead.
"""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import hilum
import trio
from hilum import HilumError
from hilum.errors import E_INTERNAL
from hilum.hooks import describe_error, unwrap_group
from hilum.store import storage_plugins
from hilum_replay import serve

from hilum_eval.agents.agent import Agent, Surroundings
from hilum_eval.agents.finding import brings_model, find_agent
from hilum_eval.agents.hilum_agent import PROVIDER, read_events
from hilum_eval.converter import structure, unstructure
from hilum_eval.regular_files import read_regular_file, write_regular_file
from hilum_eval.simulation.model import make_answerer
from hilum_eval.transcript import Transcript
from hilum_eval.transcript_reader import read_transcript
from hilum_eval.worker_job import READ_LOG, SESSION_FILE, WorkerJob


def main(argv: list[str]) -> int:
    """Make the attempt that a job describes, and return the exit code."""
    path = Path(argv[-1])
    job = structure(json.loads(read_regular_file(path)), WorkerJob, str(path))
    work = _read_log if READ_LOG in argv else _attempt
    transcript = trio.run(work, job)
    write_regular_file(job.output, json.dumps(unstructure(transcript)))
    return 0


async def _attempt(job: WorkerJob) -> Transcript:
    surroundings = Surroundings(
        workspace=job.workspace,
        home=job.home,
        scratch=job.scratch,
        prompts=job.prompts,
        record=job.record,
        hidden=job.hidden,
        environ=job.environ,
        model=job.arm.model,
        models=job.models,
    )
    try:
        agent = find_agent(job.arm.agent)
        if job.arm.model or brings_model(agent):
            return await agent.attempt(job.case, job.arm, job.repeat, surroundings)
        return await _attempt_with_simulated_model(agent, job, surroundings)
    except (HilumError, BaseExceptionGroup) as raised:
        error = unwrap_group(raised)
        if not isinstance(error, HilumError):
            raise
        return Transcript(code=error.code, reason=error.message, broken=True)


async def _attempt_with_simulated_model(
    agent: Agent, job: WorkerJob, surroundings: Surroundings
) -> Transcript:
    answer = make_answerer(job.case, job.arm.profile, job.repeat)
    async with serve(answer, keep=0) as server:
        # The profile is part of the name, so that bills and traces show it.
        name = f"{PROVIDER}/{Path(job.arm.profile).stem}"
        surroundings = attrs.evolve(surroundings, base_url=server.url, model=name)
        transcript = await agent.attempt(job.case, job.arm, job.repeat, surroundings)
    for failure in server.failures:
        # A request that is not valid is the agent's mistake; any other error is ours.
        if not isinstance(failure, HilumError):
            reason = f"The simulated model failed: {describe_error(failure)}."
            return attrs.evolve(transcript, code=E_INTERNAL, reason=reason, broken=True)
    return transcript


async def _read_log(job: WorkerJob) -> Transcript:
    """Return what the log contains of an attempt whose process was killed."""
    session = read_regular_file(job.record / SESSION_FILE)
    async with hilum.open_kernel(storage_plugins(), environ=job.environ) as kernel:
        events = await read_events(kernel.store, session)
    return read_transcript(events, session=session)
