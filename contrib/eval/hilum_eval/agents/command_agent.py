"""Measures any agent that has a command line and asks a model over HTTP."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import msgspec
import trio
from hilum import HilumError
from hilum.errors import E_CMD_FAIL, E_INTERNAL, E_TIMEOUT
from hilum.hooks import describe_error
from hilum.messages import Price
from hilum.processes import Command, Completed, Warden
from hilum_replay import Answer, WireRequest, serve

from hilum_eval.agents.agent import Surroundings
from hilum_eval.agents.command_template import expand, replace_placeholders
from hilum_eval.agents.hilum_agent import PRICE, PROVIDER
from hilum_eval.agents.live_model import open_live_model
from hilum_eval.agents.meter import Answerer, Meter
from hilum_eval.arm import Arm
from hilum_eval.case import Case
from hilum_eval.regular_files import write_regular_file
from hilum_eval.sandbox import find_sandbox, make_sandbox, read_end
from hilum_eval.simulation.model import make_answerer
from hilum_eval.transcript import Transcript
from hilum_eval.workspaces import get_last_line

# What an agent gets of the environment: the keys of providers stay with the endpoint.
_KEPT_VARIABLES = (
    "HOME", "LANG", "LC_ALL", "PATH", "PYTHONDONTWRITEBYTECODE", "SYSTEMROOT", "TMPDIR", "TZ",
)  # fmt: skip


class CommandAgent:
    """An agent with a command line, which is run once for each prompt."""

    async def attempt(
        self, case: Case, arm: Arm, repeat: int, surroundings: Surroundings
    ) -> Transcript:
        """Let the agent work on a case, and return what it did. See ``Agent.attempt``."""
        async with _open_model(case, arm, repeat, surroundings) as answer:
            meter = Meter(answer, surroundings.workspace)
            async with serve(meter.answer, keep=0) as server, Warden() as warden:
                name = arm.model or f"{PROVIDER}/{Path(arm.profile).stem}"
                surroundings = attrs.evolve(surroundings, base_url=server.url, model=name)
                environ = _make_environ(arm, surroundings, server.environ)
                sandboxed = arm.settings.get("sandbox", True) and await find_sandbox(warden)
                begun = time.perf_counter()
                code, reason = await self._run_prompts(
                    case, arm, surroundings, environ, meter, warden, sandboxed=bool(sandboxed)
                )
                seconds = time.perf_counter() - begun
        found = meter.make_transcript()
        usage = attrs.evolve(found.usage, seconds=seconds)
        found = attrs.evolve(found, usage=usage, code=code, reason=reason)
        for failure in server.failures:
            # A request that is not valid is the agent's mistake; any other error is ours.
            if not isinstance(failure, HilumError):
                reason = f"The simulated model failed: {describe_error(failure)}."
                return attrs.evolve(found, code=E_INTERNAL, reason=reason, broken=True)
            if arm.model and failure.code.startswith("E_LLM"):
                found = attrs.evolve(found, code=failure.code, reason=failure.message)
        if not meter.requests:
            # Whatever its exit code is: this says nothing about how the agent works.
            reason = reason or "it ended without a request to {base_url}"
            message = f"The agent did not work: {reason.rstrip('.')}."
            return attrs.evolve(found, code=code or E_CMD_FAIL, reason=message, broken=True)
        return found

    def make_commands(
        self, case: Case, arm: Arm, surroundings: Surroundings
    ) -> Sequence[tuple[str, ...]]:
        """Return the command line for each prompt of a case.

        Args:
            case: The case.
            arm: The arm with the templates.
            surroundings: Where the agent works.
        """
        commands = []
        for number, turn in enumerate(case.turns):
            values = {
                "prompt": turn.prompt,
                "prompt_file": str(find_prompt_file(surroundings, number + 1)),
                "workspace": str(surroundings.workspace),
                "base_url": surroundings.base_url,
                "model": surroundings.model,
            }
            commands.append(expand(arm.resume if number else arm.agent, values))
        return commands

    def find_programs(self, arm: Arm) -> Path | None:
        """Return a folder that the agent must be able to read; ``None`` if there is no such folder."""
        return None

    async def _run_prompts(
        self,
        case: Case,
        arm: Arm,
        surroundings: Surroundings,
        environ: Mapping[str, str],
        meter: Meter,
        warden: Warden,
        *,
        sandboxed: bool,
    ) -> tuple[str, str]:
        """Run the commands, and return the error code and the reason of a failure."""
        prefix: tuple[str, ...] = ()
        if sandboxed:
            programs = self.find_programs(arm)
            prefix = make_sandbox(
                (surroundings.workspace, surroundings.home, surroundings.scratch),
                network=True,  # the endpoint is on the loopback interface
                temporary=surroundings.scratch / "tmp",
                hidden=(*surroundings.hidden, surroundings.record),
                readable=(surroundings.prompts, *([programs] if programs else [])),
            )
        done: Completed | None = None
        with trio.move_on_after(case.timeout) as scope:
            for number, argv in enumerate(self.make_commands(case, arm, surroundings)):
                prompt = case.turns[number].prompt
                write_regular_file(find_prompt_file(surroundings, number + 1), prompt)
                meter.begin_prompt()
                command = Command((*prefix, *argv), str(surroundings.workspace), dict(environ))
                done = await warden.run(command)
                meter.end_prompt()
                if sandboxed:
                    done, started = read_end(done)
                    if not started:
                        raise HilumError(
                            f"The sandbox could not start the agent: {get_last_line(done)}.",
                            code=E_CMD_FAIL,
                            hint="See whether `bwrap --ro-bind / / true` works.",
                        )
                await trio.to_thread.run_sync(_keep_output, surroundings, number + 1, done)
                if done.returncode:
                    break
        if scope.cancelled_caught:
            return E_TIMEOUT, f"The agent did not finish within {case.timeout:g} seconds."
        if done is not None and done.returncode:
            line = get_last_line(done)
            return E_CMD_FAIL, f"The agent failed with exit code {done.returncode}: {line}"
        return "", ""


@asynccontextmanager
async def _open_model(
    case: Case, arm: Arm, repeat: int, surroundings: Surroundings
) -> AsyncIterator[Answerer]:
    """Open the model of an arm: the simulated one, or a live one."""
    if not arm.model:
        simulated = make_answerer(case, arm.profile, repeat)
        price = Price(**PRICE)

        def answer(request: WireRequest) -> Answer:
            found = simulated(request)
            usage = msgspec.structs.replace(found.usage, cost=price.cost(found.usage))
            return attrs.evolve(found, usage=usage)

        yield answer
        return
    folder = surroundings.record / "model"
    folder.mkdir()
    # hilum's own files must not lie in the home of the agent, which can replace them with links.
    environ = {
        **surroundings.environ,
        "HOME": str(surroundings.record),
        "TMPDIR": str(surroundings.record / "tmp"),
    }
    async with open_live_model(arm.model, folder, surroundings.models, environ) as live:
        yield live


def _keep_output(surroundings: Surroundings, number: int, done: Completed) -> None:
    """Write what the agent printed to a file, which ``--keep`` keeps."""
    text = (done.stdout + done.stderr).decode(errors="replace")
    write_regular_file(surroundings.record / f"output-{number}.txt", text)


def find_prompt_file(surroundings: Surroundings, number: int) -> Path:
    """Return the file that contains a prompt.

    Args:
        surroundings: Where the agent works.
        number: Number of the prompt, counted from 1.
    """
    return surroundings.prompts / f"prompt-{number}.txt"


def _make_environ(
    arm: Arm, surroundings: Surroundings, endpoint: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of an agent, with the variables that name the endpoint."""
    environ = {
        name: surroundings.environ[name] for name in _KEPT_VARIABLES if name in surroundings.environ
    }
    values = {
        "workspace": str(surroundings.workspace),
        "base_url": surroundings.base_url,
        "model": surroundings.model,
    }
    own = {name: replace_placeholders(value, values) for name, value in arm.environ.items()}
    return {**environ, **endpoint, **own}
