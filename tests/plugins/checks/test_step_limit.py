"""Judging one call takes a limited number of steps, however many commands, paths and rules meet."""

import json
from pathlib import Path

import pytest
from hilum_checks import judge, step_limit
from hilum_checks.call_facts import CallFacts
from hilum_guard import search
from hilum_guard.effects.file_access import FindQuery

from tests.support.judged_commands import Ruled
from tests.support.obedience.judging import make_tool

SHELL = make_tool("run_terminal_cmd")
RULES = [
    *(Ruled(f"deny write vendor{number}/**") for number in range(30)),
    *(Ruled(f"deny command tool{number} push") for number in range(20)),
    Ruled("require command make test before git commit"),
]
LONG = {
    "commands": "ls a;" * 380,
    "wrappers": "xargs " * 300 + "ls",
    "searches": "find . " + '-exec sh -c "rm $0" {} \\; ' * 60,
    "moves": "mv a b; mv b a; " * 150,
    "loops": "for i in a b c d; do rm $i; done; " * 60,
    "branches": "if true; then b; " + "elif a; then b; " * 180 + "fi",
}


def judge_text(text: str, root: Path, rules: list[Ruled] = RULES):
    """Return the verdict on a command."""
    return judge(rules, json.dumps({"command": text}), SHELL, root)


@pytest.mark.parametrize("name", LONG)
def test_no_call_takes_more_steps_than_the_limit(name, tmp_path, monkeypatch):
    """A call that needs more of them is asked about, and no lasting approval covers it."""
    monkeypatch.setattr(step_limit, "MAX_STEPS", 2_000)
    verdict = judge_text(LONG[name], tmp_path)
    assert verdict is not None
    assert verdict.kind == "ask"
    assert "split it into several calls" in verdict.reason
    assert verdict.scope == ""


def test_a_certain_denial_that_is_found_in_time_stays_one(tmp_path):
    verdict = judge_text("ls a;" * 350 + "tool0 push", tmp_path, [Ruled("deny command tool0 push")])
    assert verdict is not None
    assert verdict.kind == "deny"


@pytest.mark.parametrize(
    "text",
    [
        "git add " + " ".join(f"src/module_{number}.py" for number in range(200)),
        "\n".join(f"echo step {number}; ls src" for number in range(40)),
    ],
    ids=["files", "lines"],
)
def test_long_calls_of_every_day_are_within_the_limit(text, tmp_path):
    assert judge_text(text, tmp_path) is None


def test_a_repeated_access_is_compared_once(tmp_path):
    """The number of comparisons does not grow with the number of times a path is named."""
    counts = []
    for times in (1, 100):
        arguments = json.dumps({"command": "rm a; " * times})
        counts.append(len(CallFacts.parse(SHELL, arguments, tmp_path).accesses))
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    "text",
    ["rm " + "a/" * 3_000, "rm -r " + "a/" * 1_000 + "..", "cp -r a " + "b/" * 2_000],
    ids=["down", "up", "copy"],
)
def test_a_deep_path_is_no_failure(text, tmp_path):
    """A path with thousands of parts exceeded the limit of recursion."""
    assert judge_text(text, tmp_path) is None


def test_nested_code_is_asked_about(tmp_path):
    """Code that nests too deeply to be read is not let pass, and fails no gate."""
    code = "x=" + '"a"+' * 490 + '"b"\nopen(x, "w")'
    verdict = judge_text(f"python3 -c '{code}'", tmp_path)
    assert verdict is not None
    assert verdict.kind == "ask"


def test_a_search_with_many_parentheses_is_unknown():
    """Its expression exceeded the limit of recursion."""
    words = ("find", ".", *["("] * 900, "-name", "x", *[")"] * 900, "-delete")
    assert search(FindQuery(words, len(words) - 1, "/")) is None
