"""From a seed to a scenario: patterns in which agents, users and machines go wrong, mixed at random
and kept small.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from simulator.plugins import FAULTS, HOOKS, OPENING
from simulator.provider import FAULTS as STREAM_FAULTS
from simulator.provider import WIRES
from simulator.scenario import SECRET, Act, Answer, Call, Life, PluginFault, Prompt, Reply, Scenario

PATHS = ("a.txt", "b.txt", "sub/c.txt")
Pattern = Callable[[random.Random], list[Answer]]


def generate(seed: int) -> Scenario:
    """Generate the scenario of a seed."""
    chance = random.Random(f"{seed}/scenario")
    plugins = _plugins(chance)
    lives = _lives(chance)
    count = sum(len(life.prompts) for life in lives)
    answers: list[Answer] = []
    tasks: list[list[Answer]] = []
    for _ in range(max(count, 1)):
        answers += _conversation(chance, plugins, tasks)
    small = chance.random() < 0.3
    _aim_at_openings(random.Random(f"{seed}/openings"), lives, plugins)
    scenario = Scenario(
        seed=seed,
        wire=chance.choice(sorted(WIRES)),
        window=chance.choice((6_000, 8_000, 12_000, 16_000)) if small else 100_000,
        max_output=500 if small else 1_000,
        letters_per_token=chance.choice((2.5, 4.0)),
        strict=chance.random() < 0.8,
        identities=chance.choices(("unique", "repeated", "empty"), (6, 2, 1))[0],
        approve=chance.choices(("auto", "ask_first", "readonly"), (10, 4, 1))[0],
        plugins=plugins,
        turns=25 if chance.random() < 0.8 else chance.randint(1, 5),
        timeout=chance.choice((30.0, 120.0)) if chance.random() < 0.1 else None,
        summaries=chance.choice(("sound", "sound", "empty", "unsound", "fails", "hangs")),
        serial=chance.random() < 0.5,
        answers=answers,
        tasks=tasks,
        replies=_replies(chance),
        faults=_faults(chance, plugins),
        lives=lives,
        probe_at=chance.randrange(1_000) if chance.random() < 0.35 else -1,
    )
    # With chances of its own: all other decisions of a seed stay as they are.
    secrets = random.Random(f"{seed}/secrets")
    if secrets.random() < 0.3:
        _plant(secrets, scenario)
    return scenario


# Arguments that may hold a secret without the call becoming another one.
_FREE = {"text", "content", "old_string", "new_string", "description", "prompt"}


def _plant(chance: random.Random, scenario: Scenario) -> None:
    """Put the secret into prompts, texts of the model and arguments, some of which do not fit the
    tool then.
    """
    scenario.plugins.append("redactor")
    for life in scenario.lives:
        for prompt in life.prompts:
            prompt.secret = chance.random() < 0.4
    for answer in (answer for answers in (scenario.answers, *scenario.tasks) for answer in answers):
        if answer.text and chance.random() < 0.4:
            answer.text += f" {SECRET}"
        for call in answer.calls:
            names = sorted(_FREE & call.arguments.keys())
            if names and chance.random() < 0.5:
                name = chance.choice(names)
                call.arguments = {**call.arguments, name: f"{call.arguments[name]} {SECRET}"}
            elif chance.random() < 0.1:
                call.arguments = {**call.arguments, SECRET: [SECRET]}


def _plugins(chance: random.Random) -> list[str]:
    plugins = ["files"] if chance.random() < 0.5 else []
    if chance.random() < 0.6:
        plugins.append("memory")
    if chance.random() < 0.3:
        plugins.append("plan")
    if chance.random() < 0.35:
        plugins += ["agents", "scheduler"]
    if chance.random() < 0.4:
        plugins.append("sentry")
    if chance.random() < 0.4:
        plugins.append("faulty")
    return plugins


def _lives(chance: random.Random) -> list[Life]:
    lives: list[Life] = []
    number = 0
    count = chance.choices((1, 2, 3), (60, 30, 10))[0]
    for index in range(count):
        last = index == count - 1
        prompts: list[Prompt] = []
        for _ in range(
            chance.choices((0, 1, 2, 3), (1, 8, 3, 1))[0]
            if index
            else chance.choices((1, 2), (4, 1))[0]
        ):
            number += 1
            at = chance.choice((0.0, 0.0, 0.5, 3.0, 40.0))
            prompts.append(Prompt(f"job-number-{number}", at, chance.choice((0, 0, 0, 30))))
        life = Life(prompts, _acts(chance))
        if index and chance.random() < 0.2:
            life.resume = "prompt"
        life.terminal = chance.random() < 0.25
        if not last:
            _cut(chance, life)
        lives.append(life)
    return lives


def _cut(chance: random.Random, life: Life) -> None:
    """Choose how a life ends before its time."""
    how = chance.random()
    if how < 0.65:
        life.kill_at = chance.randint(1, 80)
    elif how < 0.8:
        life.store_fails_at = chance.randint(2, 60)
    else:
        life.cancel_open_at = chance.choice((chance.randint(1, 150), chance.randint(1, 800)))


def _aim_at_openings(chance: random.Random, lives: list[Life], plugins: list[str]) -> None:
    """Have some openings cancelled in the very moment in which a plugin comes up, which a random
    step seldom hits.
    """
    watched = [name for name in ("sentry", "faulty") if name in plugins]
    for life in lives:
        if life.cancel_open_at is not None and watched and chance.random() < 0.5:
            life.cancel_open_at = None
            life.cancel_open_of = chance.choice(watched)


def _acts(chance: random.Random) -> list[Act]:
    acts: list[Act] = []
    if chance.random() < 0.15:
        acts.append(Act("stop", _moment(chance)))
    if chance.random() < 0.08:
        acts.append(Act("stop_run", _moment(chance)))
    if chance.random() < 0.05:
        acts.append(Act("stop_agents", _moment(chance)))
    if chance.random() < 0.1:
        acts.append(Act("compact", _moment(chance)))
    if chance.random() < 0.1:
        acts.append(
            Act("approve", _moment(chance), chance.choice(("auto", "ask_first", "readonly")))
        )
    for _ in range(chance.choice((0, 0, 0, 1, 3))):
        acts.append(Act("edit", _moment(chance), chance.choice(PATHS)))
    return acts


def _moment(chance: random.Random) -> float:
    return round(
        chance.choice((chance.uniform(0, 1), chance.uniform(0, 10), chance.uniform(0, 100))), 3
    )


def _replies(chance: random.Random) -> list[Reply]:
    replies: list[Reply] = []
    for _ in range(chance.randint(0, 4)):
        accepted = chance.choices((True, False, None), (8, 3, 1))[0]
        remember = chance.choices(("once", "session"), (5, 1))[0]
        replies.append(Reply(accepted, chance.choice((0.0, 1.0, 30.0, 200.0)), remember))
    return replies


def _faults(chance: random.Random, plugins: list[str]) -> list[PluginFault]:
    faults: list[PluginFault] = []
    if "sentry" in plugins and chance.random() < 0.5:
        if chance.random() < 0.5:
            faults.append(PluginFault("sentry", "open_session", 1, chance.choice(OPENING)))
        else:
            faults += _repeated(chance, "sentry", "on_tool_call")
    if "faulty" in plugins and chance.random() < 0.8:
        if chance.random() < 0.2:
            faults.append(PluginFault("faulty", "open_session", 1, chance.choice(OPENING)))
        for _ in range(chance.randint(1, 2)):
            faults += _repeated(chance, "faulty", chance.choice(HOOKS))
    return faults


def _repeated(chance: random.Random, plugin: str, hook: str) -> list[PluginFault]:
    how = chance.choice(FAULTS)
    first = chance.randint(1, 4)
    return [
        PluginFault(plugin, hook, first + number, how)
        for number in range(chance.choice((1, 1, 2, 3)))
    ]


# --- what the model says --------------------------------------------------------------------------


def _conversation(
    chance: random.Random, plugins: list[str], tasks: list[list[Answer]]
) -> list[Answer]:
    """Generate the answers of one run: one or two patterns, and a final answer."""
    answers: list[Answer] = []
    for _ in range(chance.choices((0, 1, 2), (1, 5, 2))[0]):
        answers += _pattern(chance, plugins, tasks)
    answers += _final(chance)
    for answer in answers:
        if chance.random() < 0.12:
            answer.faults = [
                chance.choice(STREAM_FAULTS) for _ in range(chance.choice((1, 1, 2, 4)))
            ]
        answer.pace = chance.choice((0.0, 0.0, 0.01, 1.0))
        answer.usage = chance.choices(("counted", "none", "odd"), (8, 1, 1))[0]
    return answers


def _final(chance: random.Random) -> list[Answer]:
    kind = chance.random()
    if kind < 0.72:
        return [Answer(f"The end of it, {chance.randint(0, 99)}.")]
    if kind < 0.86:
        pieces = [
            Answer(f"Piece {n} of the answer, ", stop="length") for n in range(chance.randint(1, 5))
        ]
        return [*pieces, Answer("and its end.")]
    if kind < 0.92:
        return [Answer(""), Answer("After an empty answer.")]
    if kind < 0.96:
        return [Answer("", stop="refusal")]
    return [Answer("wrong answer"), Answer("right answer")]


def _pattern(chance: random.Random, plugins: list[str], tasks: list[list[Answer]]) -> list[Answer]:
    patterns: list[tuple[float, Pattern]] = [
        (4, _anything),
        (3, _red_and_green),
        (2, _stubborn),
        (2, _different_failures),
        (3, _meeting),
        (2, _slips),
        (2, _big),
        (2, _questions),
    ]
    if "files" in plugins:
        patterns += [(3, _dependent_edits), (2, _stale)]
    if "scheduler" in plugins:
        patterns.append((4, lambda chance: _tasks(chance, plugins, tasks)))
    weights = [weight for weight, _ in patterns]
    chosen = chance.choices([pattern for _, pattern in patterns], weights)[0]
    return chosen(chance)


def _anything(chance: random.Random) -> list[Answer]:
    return [
        Answer(
            chance.choice(("", "Let me see.")),
            [_call(chance) for _ in range(chance.choice((1, 1, 2, 4)))],
        )
        for _ in range(chance.randint(1, 3))
    ]


def _call(chance: random.Random) -> Call:
    path = chance.choice(PATHS)
    kind = chance.randrange(13)
    match kind:
        case 0:
            return Call("look", {"key": chance.choice((*PATHS, "nothing"))})
        case 1:
            return Call(
                "put",
                {"path": path, "value": chance.randint(0, 5), "seconds": chance.choice((0, 0.5))},
            )
        case 2:
            return Call("bump", {"path": path, "seconds": chance.choice((0, 0.5))})
        case 3:
            return Call("check", {"key": path, "want": chance.randint(0, 3)})
        case 4:
            return Call(
                "command",
                {"path": path, "value": chance.randint(0, 5), "seconds": chance.choice((0, 1.0))},
            )
        case 5:
            return Call("send", {"text": chance.choice(("hello", "forbidden", "a question"))})
        case 6:
            return Call("wait", {"seconds": chance.choice((0.1, 5, 30))})
        case 7:
            return Call(
                chance.choice(("shield", "swallow")), {"seconds": chance.choice((0.1, 5, 40))}
            )
        case 8:
            kinds = ("value", "exit", "generator", "tool", "own", "user", "recursion", "slow")
            return Call("boom", {"kind": chance.choice(kinds)})
        case 9:
            kinds = (
                "none",
                "bytes",
                "object",
                "surrogate",
                "zero",
                "code",
                "data",
                "unencodable",
                "deep",
                "set",
            )
            return Call("odd", {"kind": chance.choice(kinds)})
        case 10:
            return Call(
                "huge", {"characters": chance.choice((10, 3_000, 250_000)), "kind": "words"}
            )
        case 11:
            return Call("read_file", {"path": path})
    return _slip(chance)


def _slip(chance: random.Random) -> Call:
    deep = chance.choice((200, 1_200, 5_000))
    raw = chance.choice(
        (
            '{"key": "a.txt"',
            "not json",
            "[]",
            "null",
            '"text"',
            '{"key": 7}',
            '{"kex": "a.txt"}',
            "{}",
            "",
            '{"key": "a.txt", "key": "b.txt"}',
            '{"key": "\\ud800"}',
            '{"key": 1e999}',
            '{"value": ' + "[" * deep + "]" * deep + "}",
            '{"value": ' + '{"a":' * deep + "1" + "}" * deep + "}",
        )
    )
    tool = (
        "nested"
        if raw.startswith('{"value')
        else chance.choice(("look", "look", "no_such_tool", "put", ""))
    )
    return Call(tool, raw=raw)


def _slips(chance: random.Random) -> list[Answer]:
    return [
        Answer("", [_slip(chance) for _ in range(chance.choice((1, 2)))])
        for _ in range(chance.choice((1, 2, 4)))
    ]


def _red_and_green(chance: random.Random) -> list[Answer]:
    """The tests fail, something is changed, the tests fail again: the same call, and each time a
    new try.
    """
    path = chance.choice(PATHS)
    change = chance.choice(("bump", "command", "outside"))
    answers: list[Answer] = []
    for number in range(chance.randint(3, 5)):
        answers.append(Answer("", [Call("check", {"key": path, "want": 99})]))
        if change == "bump":
            answers.append(Answer("", [Call("bump", {"path": path})]))
        elif change == "command":
            answers.append(Answer("", [Call("command", {"path": path, "value": number})]))
    return answers


def _stubborn(chance: random.Random) -> list[Answer]:
    """The same mistake again and again."""
    call = chance.choice(
        (Call("look", {"key": "nothing"}), Call("boom", {"kind": "value"}), Call("look", raw="{"))
    )
    return [Answer("", [call]) for _ in range(chance.randint(3, 6))]


def _different_failures(chance: random.Random) -> list[Answer]:
    """Three different calls of one tool fail with one code."""
    calls = [Call("look", {"key": f"nothing {number}"}) for number in range(3)]
    if chance.random() < 0.5:
        calls = [Call("check", {"key": path, "want": 77}) for path in PATHS]
    return [Answer("", calls)] if chance.random() < 0.5 else [Answer("", [call]) for call in calls]


def _meeting(chance: random.Random) -> list[Answer]:
    """Calls of one answer that change one thing, and some that do not meet."""
    path = chance.choice(PATHS)
    calls = [
        chance.choice(
            (
                Call("put", {"path": path, "value": number, "seconds": chance.choice((0, 0.3))}),
                Call("bump", {"path": path, "seconds": chance.choice((0, 0.3))}),
                Call("command", {"path": path, "value": number}),
                Call("put", {"path": f"./{path}", "value": number}),
                Call("look", {"key": path}),
            )
        )
        for number in range(chance.randint(2, 4))
    ]
    return [Answer("", calls)]


def _dependent_edits(chance: random.Random) -> list[Answer]:
    """A file is written and then edited in the same answer."""
    path = chance.choice(("new.txt", "sub/new.txt"))
    calls = [Call("write_file", {"path": path, "content": "version 0\n"})]
    for number in range(chance.randint(1, 3)):
        arguments = {
            "path": path,
            "old_string": f"version {number}",
            "new_string": f"version {number + 1}",
        }
        calls.append(Call("edit_file", arguments))
    return [Answer("", calls)]


def _stale(chance: random.Random) -> list[Answer]:
    """Edits of a file that was never read, or changed meanwhile.

    Then it is read, and the edit is right.
    """
    edit = Call("edit_file", {"path": "b.txt", "old_string": "two", "new_string": "2"})
    # Three is the number after which a call is refused.
    answers = [Answer("", [edit]) for _ in range(chance.choices((1, 2, 3, 4), (1, 1, 4, 2))[0])]
    return [*answers, Answer("", [Call("read_file", {"path": "b.txt"})]), Answer("", [edit])]


def _big(chance: random.Random) -> list[Answer]:
    """Results that fill the window."""
    kind = chance.choice(("words", "digits", "wide", "letters"))
    characters = chance.choice((3_000, 15_000, 30_000, 120_000))
    calls = [
        Call("huge", {"characters": characters, "kind": kind})
        for _ in range(chance.choice((1, 1, 2)))
    ]
    return [Answer("", calls) for _ in range(chance.randint(1, 4))]


def _questions(chance: random.Random) -> list[Answer]:
    """Calls that the user is asked about, side by side."""
    calls = [Call("send", {"text": f"question {number}"}) for number in range(chance.randint(1, 3))]
    if chance.random() < 0.3:
        calls.append(Call("put", {"path": "a.txt", "value": 1}))
    return [Answer("", calls)]


def _tasks(chance: random.Random, plugins: list[str], tasks: list[list[Answer]]) -> list[Answer]:
    """Sub-agents, side by side or in the background."""
    calls: list[Call] = []
    for _ in range(chance.choice((1, 2, 3))):
        calls.append(_task(chance, len(tasks)))
        inner = _pattern(chance, [name for name in plugins if name != "scheduler"], tasks)
        tasks.append([*inner[:2], Answer(f"Task {len(tasks)} is done.")])
    if chance.random() < 0.3:
        calls.append(_call(chance))
    return [Answer("", calls)]


def _task(chance: random.Random, number: int) -> Call:
    arguments: dict[str, Any] = {
        "description": "A part of it",
        "prompt": f"task-number-{number} is yours.",
    }
    if chance.random() < 0.3:
        arguments["background"] = True
    if chance.random() < 0.2:
        arguments["readonly"] = True
    return Call("task", arguments)
