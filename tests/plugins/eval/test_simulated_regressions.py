"""The planted regressions damage hilum as they say, and the simulated model feels it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import attrs
import hilum_prompt
import pytest
from hilum.processes import Warden
from hilum_eval.agents.hilum_agent import PRICE, PROVIDER
from hilum_eval.arm import Arm
from hilum_eval.attempt import Attempt
from hilum_eval.attempts import AttemptRunner
from hilum_eval.case_reader import read_suite
from hilum_eval.jobs import Job
from hilum_eval.simulation.outcomes import find_instructions
from hilum_eval.worker_processes import open_worker_processes
from hilum_prompt.abilities import Abilities

FOLDER = Path(__file__).parent / "regressions"
GUESSER = """\
[slips]
rule = 1.0

[recovery]
plain = [1.0]
"""


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def compare(tmp_path: Path, case: str, name: str, arm: Arm) -> tuple[Attempt, Attempt]:
    """Return an attempt with the unchanged hilum, and one with a regression."""
    [found] = [each for each in read_suite() if each.id == case]
    damaged = attrs.evolve(arm, plugins=(str(FOLDER / f"{name}.py"),))
    async with Warden() as warden, open_worker_processes(warden) as processes:
        runner = AttemptRunner(warden, processes, tmp_path, models={}, sandboxed=False)
        first = await runner.run(Job(found, arm, 0))
        second = await runner.run(Job(found, damaged, 0))
    assert (first.state, second.state) == ("verified", "verified")
    return first, second


def get_completion(attempt: Attempt) -> float:
    assert attempt.scores
    return attempt.scores.completion


async def check_slower_search(tmp_path: Path) -> None:
    arm = Arm(name="a", profile="perfect")
    before, after = await compare(tmp_path, "E06", "slower_search", arm)
    assert (before.usage.failed_calls, after.usage.failed_calls > 0) == (0, True)


async def check_guessing_edits(tmp_path: Path) -> None:
    arm = Arm(name="a", profile="perfect")
    before, after = await compare(tmp_path, "E07", "guessing_edits", arm)
    assert after.usage.turns > before.usage.turns


async def check_no_read_before_edit(tmp_path: Path) -> None:
    profile = tmp_path / "profile.toml"
    profile.write_text(GUESSER)
    arm = Arm(name="a", profile=str(profile))
    before, after = await compare(tmp_path, "E02", "no_read_before_edit", arm)
    # The edit that was not preceded by a read is refused, and with the regression it is made.
    assert get_completion(before) == 10
    assert after.usage.failed_calls < before.usage.failed_calls


async def check_broken_compaction(tmp_path: Path) -> None:
    model = {"price": PRICE, "window": 16_000}
    settings = {"models.models": {f"{PROVIDER}/perfect": model}}
    arm = Arm(name="a", profile="perfect", settings=settings)
    before, after = await compare(tmp_path, "E15", "broken_compaction", arm)
    assert get_completion(before) == 10
    assert get_completion(after) < 10


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(
    "check",
    [
        check_slower_search,
        check_guessing_edits,
        check_no_read_before_edit,
        check_broken_compaction,
    ],
)
async def test_a_regression_shows_in_an_attempt(check: object, tmp_path: Path) -> None:
    await check(tmp_path)  # type: ignore[operator]


def test_the_worse_recovery_prompt_helps_with_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    abilities = Abilities(edits=True, runs_commands=True)
    original = hilum_prompt.make_recovery_text
    monkeypatch.setattr(hilum_prompt, "make_recovery_text", original)
    helps = find_instructions(original(abilities))
    assert {"edit", "arguments", "path", "command", "repeat"} <= helps
    load("worse_recovery_prompt").open_session(None)
    assert not find_instructions(hilum_prompt.make_recovery_text(abilities))
