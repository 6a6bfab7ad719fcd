"""The command line of the simulation.

It runs one seed with its trace or many seeds in several processes, shrinks, and tests mutants.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path

from simulator import mutants, scenario, trace
from simulator.determinism import Folders
from simulator.execution import Outcome, execute
from simulator.generation import generate
from simulator.scenario import Scenario
from simulator.shrinking import shrink

# Seconds of processor time after which a run counts as one that never ends, and real seconds on a
# machine that is busy with other things: nothing in a run waits in real time.
CPU_SECONDS = 60
REAL_SECONDS = 1_800
CHUNK = 25
# Runs after which a log file gets a line.
PROGRESS = 1_000
# Chunks after which a process is replaced by a new one, because modules and classes of thousands of
# runs add up.
CHUNKS_PER_PROCESS = 20


class Stuck(BaseException):
    """A run does not end and does not even reach a checkpoint."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    options = _parser().parse_args(arguments)
    if options.list_mutants:
        for name, mutant in mutants.MUTANTS.items():
            print(f"{name:24}{mutant.breaks}")
        return 0
    if options.mutants:
        return _try_mutants(options)
    with mutants.applied(options.mutant):
        if options.fingerprints:
            return _fingerprints(options)
        if options.seeds:
            return _many(options)
        return _one(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tests/simulation/run.py", description=__doc__)
    parser.add_argument(
        "--seed", type=int, default=0, help="carry out the scenario of one seed and print its trace"
    )
    parser.add_argument(
        "--file", type=Path, help="carry out a scenario that was written with --write"
    )
    parser.add_argument("--write", type=Path, help="write the scenario, after shrinking, to a file")
    parser.add_argument(
        "--shrink", action="store_true", help="make a failing scenario as small as possible"
    )
    parser.add_argument("--quiet", action="store_true", help="print no trace")
    parser.add_argument(
        "--seeds", metavar="FROM-TO", help="carry out many scenarios, TO not among them"
    )
    parser.add_argument(
        "--fingerprints",
        action="store_true",
        help="print a digest of all that happens with each seed",
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes for many scenarios")
    parser.add_argument(
        "--only", default="", help="count only violations of invariants whose name contains this"
    )
    parser.add_argument("--stop", action="store_true", help="stop at the first failing seed")
    parser.add_argument("--mutant", default="", help="break the kernel in a known way")
    parser.add_argument(
        "--mutants", action="store_true", help="show that every mutant is found within 5,000 seeds"
    )
    parser.add_argument("--list-mutants", action="store_true", help="list the mutants")
    return parser


# --- one scenario ---------------------------------------------------------------------------------


def run_once(chosen: Scenario, folders: Folders) -> Outcome:
    """Carry out a scenario under a limit of processor time.

    Raises:
        Stuck: It took longer.
    """
    expired = False

    def stuck(*_: object) -> None:
        nonlocal expired
        expired = True
        raise Stuck

    numbers = (signal.SIGALRM, signal.SIGPROF)
    before = [signal.signal(number, stuck) for number in numbers]
    signal.alarm(REAL_SECONDS)
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        return execute(chosen, folders)
    except BaseException as error:
        # In trio's own code it becomes an internal error of trio's.
        if expired and not isinstance(error, Stuck):
            raise Stuck from error
        raise
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _one(options: argparse.Namespace) -> int:
    chosen = scenario.decode(options.file.read_bytes()) if options.file else generate(options.seed)
    folders = Folders()
    try:
        outcome = run_once(chosen, folders)
        if options.shrink and outcome.violations:
            name = next(
                (v.name for v in outcome.violations if options.only in v.name),
                outcome.violations[0].name,
            )

            def fails(candidate: Scenario) -> bool:
                return any(
                    violation.name == name for violation in run_once(candidate, folders).violations
                )

            chosen = shrink(chosen, fails)
            outcome = run_once(chosen, folders)
    finally:
        folders.remove()
    if options.write:
        options.write.write_bytes(scenario.encode(chosen))
    if not options.quiet:
        print(scenario.encode(chosen).decode())
        print("\n".join(trace.lines(outcome.events)))
    for violation in outcome.violations:
        print(violation)
    if not outcome.violations:
        print(
            f"Everything holds: {len(outcome.events)} events, {outcome.requests} requests, {outcome.steps} steps."
        )
    return 1 if outcome.violations else 0


def _fingerprints(options: argparse.Namespace) -> int:
    first, _, last = (options.seeds or f"{options.seed}-{options.seed + 1}").partition("-")
    folders = Folders()
    try:
        for seed in range(int(first), int(last)):
            print(seed, run_once(generate(seed), folders).fingerprint)
    finally:
        folders.remove()
    return 0


# --- many seeds -----------------------------------------------------------------------------------


class Finding(tuple[int, str, str]):
    """A violated invariant: seed, name, text."""


# Set when nobody waits for further results.
_ENOUGH = multiprocessing.get_context("fork").Event()


def _work(seeds: range) -> list[tuple[int, str, str]]:
    """Carry out the scenarios of some seeds; runs in a process of its own."""
    folders = Folders()
    found: list[tuple[int, str, str]] = []
    try:
        for seed in seeds:
            if _ENOUGH.is_set():
                break
            found += [
                (seed, violation.name, str(violation)) for violation in _checked(seed, folders)
            ]
    finally:
        folders.remove()
    return found


def _checked(seed: int, folders: Folders) -> Sequence[object]:
    from simulator.invariants import Violation

    try:
        return run_once(generate(seed), folders).violations
    except Stuck:
        return [
            Violation(
                "every run ends", f"it took more than {CPU_SECONDS} seconds of processor time"
            )
        ]


def findings(
    first: int, last: int, jobs: int
) -> Generator[tuple[int, list[tuple[int, str, str]]], None, None]:
    """Carry out many seeds; yields, chunk by chunk, how many are done in all and what was found."""
    chunks = [range(start, min(start + CHUNK, last)) for start in range(first, last, CHUNK)]
    done = 0
    if jobs == 1:
        for chunk in chunks:
            found = _work(chunk)
            done += len(chunk)
            yield done, found
        return
    _ENOUGH.clear()
    pool = multiprocessing.get_context("fork").Pool(jobs, maxtasksperchild=CHUNKS_PER_PROCESS)
    try:
        for chunk, found in zip(chunks, pool.imap(_work, chunks), strict=True):
            done += len(chunk)
            yield done, found
    finally:
        # A run of the command line handles SIGTERM, with which a pool ends its processes: they must
        # end by themselves.
        _ENOUGH.set()
        pool.close()
        pool.join()
        _ENOUGH.clear()


def _many(options: argparse.Namespace) -> int:
    first, _, last = options.seeds.partition("-")
    began = time.perf_counter()
    seeds_by_name: dict[str, list[int]] = {}
    failing: set[int] = set()
    done = 0
    for done, found in findings(int(first), int(last), options.jobs):
        for seed, name, text in found:
            if options.only not in name:
                continue
            failing.add(seed)
            seeds = seeds_by_name.setdefault(name, [])
            if seed in seeds[-1:]:
                continue
            # The text of the first shows what is wrong. The others are named at once, too: a long
            # search may be ended before its summary.
            print(f"seed {seed}: {name if seeds else text}", flush=True)
            seeds.append(seed)
        if sys.stderr.isatty():
            print(f"\r{done} runs, {len(failing)} fail", end="", file=sys.stderr)
        elif done % PROGRESS == 0:
            print(
                f"{done} runs, {len(failing)} fail, {time.perf_counter() - began:.0f} s", flush=True
            )
        if options.stop and failing:
            break
    seconds = time.perf_counter() - began
    print(f"{done} runs in {seconds:.1f} s, {done / seconds:.1f} a second; {len(failing)} fail")
    for name, seeds in sorted(seeds_by_name.items(), key=lambda item: -len(item[1])):
        print(f"  {len(seeds):6} {name}: seeds {', '.join(map(str, seeds))}")
    if failing:
        print(f"Reproduce: python tests/simulation/run.py --seed {min(failing)} --shrink")
    return 1 if failing else 0


# --- mutants --------------------------------------------------------------------------------------


def _try_mutants(options: argparse.Namespace) -> int:
    """Apply each mutant and search for the first seed that finds it."""
    missed = 0
    first, _, last = (options.seeds or "0-5000").partition("-")
    for name, mutant in mutants.MUTANTS.items():
        if options.only not in name:
            continue
        began = time.perf_counter()
        with mutants.applied(name):
            found = _first(mutant, int(first), int(last), options.jobs)
        seconds = time.perf_counter() - began
        if found is None:
            missed += 1
            print(f"{name:34} NOT FOUND in {seconds:.0f} s", flush=True)
        else:
            print(f"{name:34} seed {found[0]:5} in {seconds:4.0f} s: {found[1][:110]}", flush=True)
    return 1 if missed else 0


def _first(mutant: mutants.Mutant, first: int, last: int, jobs: int) -> tuple[int, str] | None:
    search = findings(first, last, jobs)
    try:
        for _, found in search:
            for seed, name, text in found:
                if name in mutant.found_by:
                    return seed, text
        return None
    finally:
        search.close()


if os.name == "nt":
    raise SystemExit("The simulator needs signals, and Windows has too few of them.")
