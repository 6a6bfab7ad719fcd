"""The simulator on a sample of seeds, and that it is what it claims: deterministic, able to shrink,
able to find faults.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from simulator import command, mutants, scenario, trace
from simulator.command import run_once
from simulator.determinism import Folders
from simulator.generation import generate
from simulator.shrinking import shrink

SAMPLE = 500
# The search for a fault that was put back begins at a seed that is known to find it.
FOUND = {
    "a-cancelled-opening-is-forgotten": 18,
    "a-resume-tells-the-model": 1,
    "a-stop-is-only-written-down": 0,
    "all-questions-share-one-clock": 75,
    "an-old-end-counts-as-the-answer": 342,
    "arguments-are-written-as-they-are": 0,
    "placeholders-run-in-place-of-secrets": 155,
    "calls-end-twice": 0,
    "calls-run-in-any-order": 2,
    "compaction-drops-the-request": 77,
    "cut-off-calls-run-again": 209,
    "failures-are-counted-by-tool": 32,
    "gates-fall-open": 26,
    "nesting-is-not-bounded": 1,
    "notes-are-logged-and-not-sent": 0,
    "only-answers-are-counted": 1,
    "only-the-last-piece-is-kept": 17,
    "reading-cures-nothing": 13,
    "repeats-are-counted-for-ever": 5,
    "results-go-back-as-they-come": 1,
    "stopped-calls-have-no-end": 39,
}
# For each promise a fault that nothing else finds.
ALONE = {
    "any prefix of the log resumes to the same requests": "a-resume-tells-the-model",
    "closed gates let nothing through": "gates-fall-open",
    "every call ends exactly once": "calls-end-twice",
    "meeting calls act in order": "calls-run-in-any-order",
    "no innocent call is refused": "reading-cures-nothing",
    "nothing runs after a stop": "a-stop-is-only-written-down",
    "the request is in every request to the model": "compaction-drops-the-request",
    "usage adds up": "only-answers-are-counted",
}
SEARCHED = 60


@pytest.fixture(scope="module")
def folders():
    folders = Folders()
    yield folders
    folders.remove()


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("first", range(0, SAMPLE, 50))
def test_everything_holds(first, folders):
    """No invariant is violated; a failure names the seed."""
    failures = []
    for seed in range(first, first + 50):
        failures += [
            f"seed {seed}: {violation}"
            for violation in run_once(generate(seed), folders).violations
        ]
    assert not failures, "\n".join(failures)


def test_run_that_never_ends_is_found(folders, monkeypatch):
    """Its processor time is limited, wherever it is at that moment.

    The time that other programs take does not count.
    """

    def spin(*_):
        try:
            while True:
                pass
        except BaseException as error:
            raise RuntimeError("as trio does in its own code") from error

    monkeypatch.setattr(command, "CPU_SECONDS", 0.1)
    monkeypatch.setattr(command, "execute", spin)
    with pytest.raises(command.Stuck):
        run_once(generate(0), folders)
    assert [violation.name for violation in command._checked(0, folders)] == ["every run ends"]


def test_every_failing_seed_is_named(monkeypatch, capsys):
    """At once and in the summary, however many violate the same invariant."""

    def findings(first, last, jobs):
        for seed in range(first, last):
            yield seed - first + 1, [(seed, "calls end", f"calls end: {number}") for number in "ab"]

    monkeypatch.setattr(command, "findings", findings)
    assert command.main(["--seeds", "100-120"]) == 1
    said = capsys.readouterr().out
    assert said.startswith("seed 100: calls end: a\nseed 101: calls end\n")
    assert f"20 calls end: seeds {', '.join(map(str, range(100, 120)))}\n" in said


REPEATED = range(1_000, 1_050)


@pytest.fixture(scope="module")
def fingerprints(folders):
    """Digests of all that happens with some seeds, in this process."""
    return {seed: run_once(generate(seed), folders).fingerprint for seed in REPEATED}


def test_same_seed_does_the_same_again(folders, fingerprints):
    """Whatever ran before in this process: log, requests, steps and virtual time do not differ in a
    single byte.
    """
    again = {seed: run_once(generate(seed), folders).fingerprint for seed in reversed(REPEATED)}
    assert [seed for seed in REPEATED if again[seed] != fingerprints[seed]] == []


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("number", ["0", "1", "4242"])
def test_same_seed_does_the_same_in_every_process(number, fingerprints):
    """Neither the order of sets nor anything else of a process decides anything."""
    command = [sys.executable, str(Path(__file__).parent / "run.py"), "--fingerprints"]
    done = subprocess.run(
        [*command, "--seeds", f"{REPEATED.start}-{REPEATED.stop}"],
        env=os.environ | {"PYTHONHASHSEED": number},
        check=True,
        capture_output=True,
        text=True,
    )
    found = dict(line.split() for line in done.stdout.splitlines())
    assert [seed for seed in REPEATED if found[str(seed)] != fingerprints[seed]] == []


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


@pytest.mark.parametrize("promise", mutants.PROMISES)
def test_promise_is_checked_by_nothing_else(promise, folders):
    """For each promise there is a fault that only its own invariants find."""
    name = ALONE[promise]
    chosen = first_failing(name, folders)
    with mutants.applied(name):
        names = {violation.name for violation in run_once(chosen, folders).violations}
    assert names <= set(mutants.PROMISES[promise])


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


@pytest.mark.parametrize("seed", [7371, 10211, 16769, 19086, 24673, 34902])
def test_what_was_mended_holds(seed, folders):
    """What these seeds violated holds now.

    A call that waits for its task ends with the session; a report that comes with a stop is told of
    or ended; a call that is allowed at the moment of a stop does not begin; calls without arguments
    and with an empty object count as the same call.
    """
    assert not run_once(generate(seed), folders).violations
