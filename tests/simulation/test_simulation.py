"""The simulator on a sample of seeds, and that it is what it claims: deterministic, able to shrink, able to find faults."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from simulator import mutants, scenario, trace
from simulator.command import run_once
from simulator.determinism import Folders
from simulator.generation import generate
from simulator.shrinking import shrink

SAMPLE = 500
# The search for a fault that was put back begins shortly before a seed that is known to find it.
FOUND = {
    "a-cancelled-opening-is-forgotten": 2_310,
    "all-questions-share-one-clock": 75,
    "an-old-end-counts-as-the-answer": 195,
    "arguments-are-written-as-they-are": 0,
    "calls-run-in-any-order": 10,
    "compaction-drops-the-request": 75,
    "failures-are-counted-by-tool": 65,
    "gates-fall-open": 45,
    "nesting-is-not-bounded": 0,
    "only-the-last-piece-is-kept": 15,
    "placeholders-run-in-place-of-secrets": 155,
    "reading-cures-nothing": 400,
    "repeats-are-counted-for-ever": 0,
}
SEARCHED = 60


@pytest.fixture(scope="module")
def folders():
    folders = Folders()
    yield folders
    folders.remove()


@pytest.mark.parametrize("first", range(0, SAMPLE, 50))
def test_everything_holds(first, folders):
    """No invariant is violated; a failure names the seed."""
    failures = []
    for seed in range(first, first + 50):
        failures += [f"seed {seed}: {violation}" for violation in run_once(generate(seed), folders).violations]
    assert not failures, "\n".join(failures)


def test_same_seed_writes_the_same_log(folders):
    """Two runs of one seed in one process do not differ in a single byte."""
    for seed in range(1_000, 1_020):
        chosen = generate(seed)
        first, second = run_once(chosen, folders), run_once(chosen, folders)
        assert first.log == second.log, f"seed {seed}"
        assert (first.steps, first.seconds) == (second.steps, second.seconds)


def test_log_is_the_same_in_every_process():
    """Neither the order of sets nor anything else of a process reaches the log."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from hashlib import sha256\n"
        "from simulator.command import run_once\n"
        "from simulator.determinism import Folders\n"
        "from simulator.generation import generate\n"
        "folders = Folders()\n"
        "print([sha256(run_once(generate(seed), folders).log).hexdigest() for seed in range(30)])\n"
        "folders.remove()\n"
    )
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    outputs = {
        subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": number}, check=True, capture_output=True).stdout
        for number in ("1", "2")
    }
    assert len(outputs) == 1


@pytest.mark.parametrize("name", sorted(mutants.MUTANTS))
def test_fault_that_is_put_back_is_found(name, folders):
    """Each mutant violates one of the invariants that are to find it."""
    assert first_failing(name, folders) is not None


def first_failing(name, folders):
    """Search for a seed that finds a mutant; gives its scenario."""
    for seed in range(FOUND[name], FOUND[name] + SEARCHED):
        chosen = generate(seed)
        if finds(name, chosen, folders):
            return chosen
    return None


def finds(name, chosen, folders):
    """Whether a scenario violates what a mutant breaks."""
    with mutants.applied(name):
        names = {violation.name for violation in run_once(chosen, folders).violations}
    return bool(names & set(mutants.MUTANTS[name].found_by))


def test_failing_scenario_is_shrunk(folders):
    """What is left still fails, is much smaller, and survives being written and read."""
    name = "calls-run-in-any-order"
    whole = first_failing(name, folders)
    small = shrink(whole, lambda candidate: finds(name, candidate, folders))
    assert len(scenario.encode(small)) < 0.8 * len(scenario.encode(whole))
    assert scenario.decode(scenario.encode(small)) == small
    assert finds(name, small, folders)
    with mutants.applied(name):
        assert any("CallStarted" in line for line in trace.lines(run_once(small, folders).events))
