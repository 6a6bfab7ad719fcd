"""Killed at event boundaries and at random instants, a session goes on as if nothing had
happened.
"""

import random
import sys
from collections.abc import Callable
from pathlib import Path

import trio
from hilum.events import Compacted

sys.path.insert(0, str(Path(__file__).parent))
import crash_session

TURNS = 21
SEED = 20250201


async def test_a_session_killed_at_event_boundaries_and_at_random_instants_goes_on_unharmed(
    trials: Callable[[int, int], int],
) -> None:
    """Of every promise about crashes: nothing shown is lost, nothing finished is repeated, prompts
    and files are the same.
    """
    dice = random.Random(SEED)
    between = trials(2, 25)
    instants = trials(2, 10)
    with trio.fail_after(600):
        undisturbed = await crash_session.trial(TURNS)
        crash_session.judge(undisturbed, undisturbed, TURNS)
        plans = [[deed] for deed in dice.sample(crash_session.boundaries(undisturbed), between)]
        plans += [[deed] for deed in crash_session.boundaries(undisturbed, Compacted)]
        plans += crash_session.instants(undisturbed, dice, instants)
        seen = await crash_session.judge_all(TURNS, undisturbed, plans)
    assert seen["trials"] >= between + instants + 2
    assert seen["kills"] >= between + 2
    assert seen["cut off"] >= 1
