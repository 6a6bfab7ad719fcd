"""The protocol of an agent that can be measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import attrs

from hilum_eval.arm import Arm
from hilum_eval.case import Case
from hilum_eval.transcript import Transcript


@attrs.frozen(kw_only=True)
class Surroundings:
    """Where an agent works in one attempt. Everything is removed after the attempt.

    Args:
        workspace: The workspace, a git repository with one commit that contains the files of the
            case.
        home: A fresh home folder outside the workspace.
        scratch: A fresh folder outside the workspace, for files of the agent.
        prompts: A fresh folder for files with prompts, which the agent can read.
        record: A folder for files of the measurement. An agent in a sandbox does not see it.
        hidden: Folders that the agent must not see: the cases, the results and the other attempts.
        environ: The whole environment of the agent: ``HOME``, ``PATH``, a few variables of the
            locale, and those of the arm.
        base_url: Base URL of the simulated model, without a path (the OpenAI API is at ``/v1``,
            Anthropic's at ``/v1/messages``); empty if the arm names a model.
        model: The model that the arm names; for the simulated model, its name at ``base_url``.
        models: The user's own settings of models (the table ``models`` of the settings), for live
            models.
    """

    workspace: Path
    home: Path
    scratch: Path
    prompts: Path
    record: Path
    hidden: tuple[Path, ...] = ()
    environ: Mapping[str, str]
    base_url: str = ""
    model: str = ""
    models: Mapping[str, Any] = attrs.field(factory=dict)


class Agent(Protocol):
    """An agent that can be measured."""

    async def attempt(
        self, case: Case, arm: Arm, repeat: int, surroundings: Surroundings
    ) -> Transcript:
        """Let the agent work on a case, and return what it did.

        The caller runs this in a process of its own, limits the time, and ends all processes
        afterwards. The implementation sends the prompts of the case one after another.

        Args:
            case: The case.
            arm: The agent's model, settings and plugins.
            repeat: Number of the repetition, which is the seed.
            surroundings: Where the agent works.

        Raises:
            HilumError: The agent could not start, so that the attempt says nothing about it.
        """
        ...
