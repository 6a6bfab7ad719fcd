"""Whether `hilum eval` finds planted regressions of hilum, and finds nothing in an unchanged hilum.

Each regression is a plugin in tests/plugins/eval/regressions that damages one thing. Baseline and
regression meet the same slips of the simulated model. The pairs (a case and a seed) are compared with a
permutation test that flips the signs of the differences; the p-values of the dimensions are corrected with
Holm's method. The results are kept in a folder, so that an interrupted run is continued with the same command.

    .venv/bin/python tests/benchmarks/eval_sensitivity.py            all regressions, 10 repeats
    .venv/bin/python tests/benchmarks/eval_sensitivity.py --only guessing_edits --repeats 20
    .venv/bin/python tests/benchmarks/eval_sensitivity.py --unchanged 20    the unchanged hilum, 20 times
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from hilum_eval.agents.hilum_agent import PRICE, PROVIDER
from hilum_eval.arm import Arm
from hilum_eval.attempt import Attempt
from hilum_eval.case import WEIGHTS, Case
from hilum_eval.case_reader import read_suite
from hilum_eval.driver import Progress, measure
from hilum_eval.jobs import make_jobs
from hilum_eval.measurement import open_results
from hilum_eval.scores import combine_scores

REGRESSIONS = Path(__file__).parents[1] / "plugins" / "eval" / "regressions"
# The dimensions in which each regression must be found.
EXPECTED: Mapping[str, tuple[str, ...]] = {
    "worse_recovery_prompt": ("recovery",),
    "slower_search": ("tools", "planning"),
    "guessing_edits": ("edits", "recovery"),
    "no_read_before_edit": ("edits",),
    "broken_compaction": ("context",),
}
# Compactions happen in small windows only, in tokens.
WINDOWS: Mapping[str, int] = {"broken_compaction": 16_000}
# What a regression makes worse must happen often enough.
PROFILES: Mapping[str, str] = {"no_read_before_edit": str(REGRESSIONS / "hasty.toml")}
# With the files that a prompt names in its context, even a hasty model sees the text that it changes.
SETTINGS: Mapping[str, Mapping[str, object]] = {"no_read_before_edit": {"context.search": False}}
FLIPS = 20_000
LIMIT = 0.05


def compute_p(differences: Sequence[float], flips: int = FLIPS) -> float:
    """Return the two-sided p-value of a sign-flip permutation test of the mean."""
    changed = [each for each in differences if abs(each) > 1e-9]
    if not changed:
        return 1.0
    observed = abs(sum(changed))
    rng = random.Random(1)
    as_extreme = 0
    for _ in range(flips):
        bits = rng.getrandbits(len(changed))
        total = sum(each if bits >> index & 1 else -each for index, each in enumerate(changed))
        as_extreme += abs(total) >= observed - 1e-9
    return (as_extreme + 1) / (flips + 1)


def correct(values: Mapping[str, float]) -> dict[str, float]:
    """Return p-values corrected with Holm's method."""
    corrected: dict[str, float] = {}
    highest = 0.0
    for rank, (name, p) in enumerate(sorted(values.items(), key=lambda pair: pair[1])):
        highest = max(highest, min(1.0, p * (len(values) - rank)))
        corrected[name] = highest
    return corrected


def score(attempt: Attempt, dimension: str) -> float | None:
    """Return what an attempt contributes to a dimension, from 0 to 100."""
    if dimension == "observability":
        return None if attempt.observed is None else 100 * attempt.observed
    return None if attempt.scores is None else combine_scores(attempt.scores)


def pair_up(
    cases: Sequence[Case], before: Sequence[Attempt], after: Sequence[Attempt]
) -> dict[str, list[float]]:
    """Return the differences of the pairs, by dimension."""
    second = {(each.case, each.repeat): each for each in after}
    by_id = {case.id: case for case in cases}
    found: dict[str, list[float]] = {name: [] for name in WEIGHTS}
    for attempt in before:
        other = second.get((attempt.case, attempt.repeat))
        if other is None:
            continue
        for name, differences in found.items():
            if name != "observability" and name not in by_id[attempt.case].dimensions:
                continue
            first, last = score(attempt, name), score(other, name)
            if first is not None and last is not None:
                differences.append(last - first)
    return {name: differences for name, differences in found.items() if differences}


def compare(
    cases: Sequence[Case], before: Sequence[Attempt], after: Sequence[Attempt]
) -> dict[str, tuple[float, float]]:
    """Return the mean difference and the corrected p-value of each dimension."""
    differences = pair_up(cases, before, after)
    corrected = correct({name: compute_p(values) for name, values in differences.items()})
    return {name: (fmean(differences[name]), corrected[name]) for name in differences}


def describe(attempts: Sequence[Attempt]) -> str:
    """Return the figures of an arm in one line."""
    verified = [each for each in attempts if each.state == "verified"]
    solved = sum(each.passed for each in verified)
    wasted = sum(each.usage.wasted_calls for each in verified)
    tokens = sum(each.usage.input_tokens + each.usage.output_tokens for each in verified)
    return (
        f"{len(verified)} attempts, solved {solved / max(len(verified), 1):.0%},"
        f" wasted calls {wasted / max(len(verified), 1):.2f} an attempt,"
        f" tokens per solved {tokens / max(solved, 1):,.0f},"
        f" broken {len(attempts) - len(verified)}"
    )


def main() -> None:
    """Print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=sorted(EXPECTED))
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--profile", default="weak")
    parser.add_argument("--cases", nargs="*", default=[])
    parser.add_argument("--near", action="store_true", help="only cases of the expected dimensions")
    parser.add_argument("--unchanged", type=int, default=0, metavar="N")
    parser.add_argument("--out", default="eval-sensitivity", help="the folder of the results")
    options = parser.parse_args()
    cases = [case for case in read_suite() if not options.cases or case.id in options.cases]
    baseline = Arm(name="hilum", profile=options.profile)
    if options.unchanged:
        _measure_unchanged(cases, baseline, options)
        return
    for name in options.only or EXPECTED:
        wanted = cases
        if options.near:
            wanted = [case for case in cases if set(case.dimensions) & set(EXPECTED[name])]
        before_arm, arm = _make_arms(name, options.profile)
        began = time.monotonic()
        attempts = _run(wanted, [before_arm, arm], options)
        seconds = time.monotonic() - began
        before = [each for each in attempts if each.arm == before_arm.name]
        after = [each for each in attempts if each.arm == arm.name]
        print(f"\n{name}: {seconds:.0f} s")
        print(f"  hilum: {describe(before)}\n  damaged: {describe(after)}")
        found = compare(wanted, before, after)
        for dimension, (difference, p) in found.items():
            mark = " ← expected" if dimension in EXPECTED[name] else ""
            print(f"  {dimension:14} {difference:+7.2f}  p = {p:.4f}{mark}")
        is_found = any(
            found[each][1] < LIMIT and found[each][0] < 0
            for each in EXPECTED[name]
            if each in found
        )
        print(f"  {'found' if is_found else 'NOT FOUND'}", flush=True)


def _make_arms(name: str, profile: str) -> tuple[Arm, Arm]:
    """Return the arms of the unchanged and of the damaged hilum."""
    settings = dict(SETTINGS.get(name, {}))
    before = "hilum"
    if name in PROFILES:
        profile = PROFILES[name]
        before = f"hilum with {Path(profile).stem}"
    if name in WINDOWS:
        before = f"hilum with a window of {WINDOWS[name]}"
        model = {"price": PRICE, "window": WINDOWS[name]}
        settings["models.models"] = {f"{PROVIDER}/{profile}": model}
    plugins = (str(REGRESSIONS / f"{name}.py"),)
    return (
        Arm(name=before, profile=profile, settings=settings),
        Arm(name=name, profile=profile, settings=settings, plugins=plugins),
    )


def _measure_unchanged(cases: Sequence[Case], baseline: Arm, options: argparse.Namespace) -> None:
    """Compare the unchanged hilum with itself, each time with other seeds."""
    repeats = options.repeats * options.unchanged
    arms = [baseline, Arm(name="again", profile=options.profile)]
    options.repeats = repeats
    attempts = _run(cases, arms, options)
    findings = 0
    size = repeats // options.unchanged
    for number in range(options.unchanged):
        seeds = range(number * size, (number + 1) * size)
        before = [each for each in attempts if each.arm == "hilum" and each.repeat in seeds]
        after = [each for each in attempts if each.arm == "again" and each.repeat in seeds]
        lowest = min(p for _, p in compare(cases, before, after).values())
        findings += lowest < LIMIT
        print(f"run {number + 1}: lowest p = {lowest:.4f}")
    print(f"findings: {findings} of {options.unchanged}")


def _run(cases: Sequence[Case], arms: Sequence[Arm], options: argparse.Namespace) -> list[Attempt]:
    jobs = make_jobs(cases, arms, options.repeats)
    with open_results(Path(options.out), resume=True) as results:
        outcome = measure(jobs, results, at_once=options.jobs, progress=Progress())
    if outcome.signal:
        raise SystemExit("stopped; the same command continues")
    return outcome.attempts


if __name__ == "__main__":
    main()
