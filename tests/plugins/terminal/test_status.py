"""The status line at every width: what it says, and what it leaves out first."""

import random

import attrs
from hilum.messages import Usage
from hilum_terminal.status import StatusFacts, format_number, shorten_model, status_row
from hilum_terminal.styles import PLAIN, Theme
from hilum_terminal.text_width import cells
from hilum_view import BudgetView

from .screens import find_faults, hostile_text

WIDTHS = (20, 40, 60, 80, 120, 200, 300)
WORKING = StatusFacts(
    state="working",
    spinner="*",
    stop_key="esc",
    mode="plan",
    model="anthropic/claude-sonnet-4-5-20250929",
    turn=3,
    turns=25,
    usage=Usage(12_345, cached=10_500, output=1_234, cost=0.0423),
    context_left=0.38,
    branch="main",
    sandbox=True,
    background=2,
)


def show(facts, width=300):
    row = status_row(facts, width=width, theme=PLAIN)
    assert not find_faults([row], width)
    return row


def test_everything_is_shown_where_there_is_room():
    assert show(WORKING) == (
        "* working · esc stops · plan · claude-sonnet-4-5 · turn 3/25"
        " · 12k in (85 % cached) 1.2k out · $0.0423 · 38 % context left · main · sandbox"
        " · 2 commands in the background"
    )
    assert show(StatusFacts()) == "ready"


def test_a_terminal_that_only_joined_says_so():
    facts = attrs.evolve(WORKING, is_joined=True)
    assert "esc stops · joined · plan" in show(facts)
    assert "joined" in show(facts, 40)
    assert "joined" not in show(WORKING)


def test_the_least_important_parts_are_left_out_first():
    assert {width: show(WORKING, width) for width in WIDTHS[:-1]} == {
        20: "* working · plan",
        40: "* working · esc stops · plan · 38 % left",
        60: "* working · esc stops · plan · 38 % left · 2 in background",
        80: "* working · esc stops · plan · claude-sonnet-4-5 · 38 % left · 2 in background",
        120: "* working · esc stops · plan · claude-sonnet-4-5 · turn 3/25 · 12k in 1.2k out"
        " · $0.0423 · 38 % left · 2 in background",
        200: show(WORKING),
    }


def test_a_missing_sandbox_is_among_the_last_parts():
    facts = attrs.evolve(WORKING, state="waiting", sandbox=False)
    assert {width: show(facts, width) for width in WIDTHS[:4]} == {
        20: "* waiting for you",
        40: "* waiting for you · NO SANDBOX · plan",
        60: "* waiting for you · esc stops · NO SANDBOX · 38 % left",
        80: "* waiting for you · esc stops · NO SANDBOX · plan · 38 % left · 2 in background",
    }
    theme = Theme("16")
    row = status_row(facts, width=300, theme=theme)
    assert theme.paint("NO SANDBOX", "warning") in row
    assert "NO SANDBOX" not in show(attrs.evolve(facts, sandbox=None))


def test_states_in_words():
    wrong = []
    for fields, expected in [
        ({"state": "idle"}, "ready"),
        ({"state": "thinking"}, "thinking"),
        ({"state": "waiting"}, "waiting for you"),
        ({"state": "retry", "attempt": 2, "attempts": 10, "retry_in": 7.2}, "retry 2/10 in 8 s"),
        ({"state": "retry", "attempt": 2, "retry_in": 0.0}, "retry 2"),
        ({"state": "retry", "attempt": 2, "retry_in": -5.0}, "retry 2"),
        ({"state": "waiting_for_agents", "agents": 1}, "waiting for 1 agent"),
        ({"state": "waiting_for_agents", "agents": 3}, "waiting for 3 agents"),
        ({"state": "stopping"}, "stopping"),
        ({"state": "working", "spinner": "*"}, "* working"),
        ({"state": "working", "stop_key": "esc"}, "working · esc stops"),
    ]:
        shown = show(StatusFacts(**fields))
        if shown != expected:
            wrong.append(f"{fields}: {shown!r}")
    assert not wrong


def test_single_parts():
    wrong = []
    for fields, expected in [
        ({"turn": 4}, "turn 4"),
        ({"usage": Usage(900, output=20)}, "900 in 20 out"),
        ({"usage": Usage(1_000, cached=1_000, output=1)}, "1.0k in (100 % cached) 1 out"),
        ({"usage": Usage(1_000, cached=999, output=1)}, "1.0k in (99 % cached) 1 out"),
        ({"usage": Usage(1, output=1, cost=0.0)}, "1 in 1 out · $0.00"),
        ({"context_left": -0.5}, "0 % context left"),
        ({"context_left": 7.0}, "100 % context left"),
        ({"background": 1}, "1 command in the background"),
    ]:
        shown = show(StatusFacts(**fields)).removeprefix("ready · ")
        if shown != expected:
            wrong.append(f"{fields}: {shown!r}")
    assert not wrong


def test_models_are_shortened():
    assert {name: shorten_model(name) for name in (
        "openai/gpt-5.2-2026-01-15",
        "openrouter/meta/llama-4-70b",
        "ollama/qwen3:8b",
        "claude-opus-4-latest",
        "x/" + "y" * 50,
        "",
    )} == {
        "openai/gpt-5.2-2026-01-15": "gpt-5.2",
        "openrouter/meta/llama-4-70b": "llama-4-70b",
        "ollama/qwen3:8b": "qwen3:8b",
        "claude-opus-4-latest": "claude-opus-4",
        "x/" + "y" * 50: "y" * 29 + "…",
        "": "",
    }  # fmt: skip


def test_numbers_are_short():
    numbers = [0, 999, 1_000, 1_234, 9_949, 9_950, 12_345, 999_499, 999_500, 1_000_000, 12_345_678]
    assert [format_number(number) for number in numbers] == [
        "0", "999", "1.0k", "1.2k", "9.9k", "10k", "12k", "999k", "1.0M", "1.0M", "12M",
    ]  # fmt: skip


def test_it_is_never_wider_than_the_terminal():
    generator = random.Random(14)
    faults = []
    states = ("idle", "working", "waiting", "waiting_for_agents", "retry", "compacting")
    for _ in range(300):
        facts = StatusFacts(
            state=generator.choice(states),
            attempt=generator.randrange(100),
            retry_in=generator.uniform(-1, 1e6),
            agents=generator.randrange(100),
            stop_key=generator.choice(("", "esc", "ctrl-c")),
            spinner=generator.choice(("", "⠋")),
            mode=hostile_text(generator),
            model=hostile_text(generator),
            turn=generator.randrange(1_000),
            usage=Usage(generator.randrange(10**9), output=generator.randrange(10**9)),
            context_left=generator.choice((None, 0.1, 0.9)),
            branch=hostile_text(generator),
            sandbox=generator.choice((None, True, False)),
            background=generator.randrange(3),
        )
        for width in (*WIDTHS, generator.randrange(1, 300)):
            row = status_row(facts, width=width, theme=generator.choice((PLAIN, Theme("256"))))
            faults += find_faults([row], width)
    assert not faults


def test_no_part_is_left_out_that_has_room():
    for width in range(20, 200):
        row = show(WORKING, width)
        for part in ("plan", "esc stops", "turn 3/25", "$0.0423", "main", "sandbox"):
            if part not in row:
                assert cells(row) + cells(part) + 3 > width, (width, part, row)


def test_colors():
    theme = Theme("16")
    row = status_row(attrs.evolve(WORKING, context_left=0.1), width=300, theme=theme)
    parts = row.split(" · ")
    assert parts[0] == theme.paint("* working", "accent")
    assert parts[2] == theme.paint("plan", "accent")
    assert parts[7] == theme.paint("10 % context left", "warning")
    waiting = status_row(StatusFacts(state="waiting"), width=80, theme=theme)
    assert waiting == theme.paint("waiting for you", "warning")


def test_the_cached_share_does_not_come_and_go_with_each_run():
    """It is left out while nothing runs, too, if a run leaves no room for it."""
    ready = attrs.evolve(WORKING, state="idle", spinner="", stop_key="", turn=0)
    for width in range(40, 240):
        if "cached" not in show(WORKING, width):
            assert "cached" not in show(ready, width), width
    assert "cached" in show(ready, 200)


def test_the_budget_of_which_least_is_left_is_shown():
    facts = attrs.evolve(WORKING, budget=BudgetView("session", "dollars", 1.0, 5.0))
    assert " · session budget $1.00 of $5.00 · " in show(facts)
    assert " · 20 % of budget · " in show(facts, 140)
    nearly = attrs.evolve(facts, budget=BudgetView("day", "tokens", 1_600_000, 2_000_000))
    painted = status_row(nearly, width=300, theme=Theme())
    text = "day budget 1,600,000 of 2,000,000 tokens"
    assert Theme().paint(text, "warning") in painted
    assert "90 % of budget" not in show(facts, 40)
