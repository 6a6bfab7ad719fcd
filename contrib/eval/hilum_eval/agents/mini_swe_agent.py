"""Measures mini-swe-agent: its own loop, prompts and shell, with a model at the metering endpoint."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from hilum_eval.agents.agent import Surroundings
from hilum_eval.agents.command_agent import CommandAgent, find_prompt_file
from hilum_eval.arm import Arm
from hilum_eval.case import Case

_RUNNER = Path(__file__).parent / "mini_swe_runner.py"


class MiniSweAgent(CommandAgent):
    """mini-swe-agent, which is installed in the environment that the setting ``python`` names."""

    def make_commands(
        self, case: Case, arm: Arm, surroundings: Surroundings
    ) -> Sequence[tuple[str, ...]]:
        """Return the command line for each prompt of a case. See ``CommandAgent``."""
        # litellm takes seconds to load, and the simulated model does not need it.
        client = "litellm" if arm.model else "requests"
        commands = []
        for number in range(1, len(case.turns) + 1):
            commands.append(
                (
                    _find_python(arm),
                    str(_RUNNER),
                    *("--base-url", surroundings.base_url, "--model", surroundings.model),
                    *("--client", client, "--config", str(arm.settings.get("config", ""))),
                    *("--trajectory", str(surroundings.scratch / "trajectory.json")),
                    str(find_prompt_file(surroundings, number)),
                )
            )
        return commands

    def find_programs(self, arm: Arm) -> Path | None:
        """Return the environment of mini-swe-agent."""
        return Path(_find_python(arm)).parent.parent


def _find_python(arm: Arm) -> str:
    return str(arm.settings.get("python", "")) or sys.executable
