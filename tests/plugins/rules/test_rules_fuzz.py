"""Samples of every dialect, damaged in many ways: nothing crashes, and no line goes in silence."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hilum_rules import RulesFile, load_rules
from hilum_rules.prompt_layers import build_layers
from hilum_rules.rule_store import Snapshot

SAMPLES = sorted(path for path in (Path(__file__).parent / "samples").rglob("*") if path.is_file())
NOISE = [
    b"---\n",
    b"```\n",
    b"<!--",
    b"-->",
    b"\xff\xfe",
    b"\0",
    b"\r",
    b"\xef\xbb\xbf",
    b"&a *a",
    b"{",
    b"[",
    b": ",
    b"\t- ",
    b"> ",
    b"|",
    b"enforce: ",
    b"\xe2\x80\xae",
    b"# ",
    b"@AGENTS.md\n",
    b"!!x ",
    b"<t>\n",
    b"'",
    b'"',
    b"|\n",
    b"- " * 50,
    b"#" * 7,
    b"  " * 40,
]


def cut(data: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(data) + 1)
    return data[:start] + data[min(len(data), start + chance.randrange(40)) :]


def noise(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.choice(NOISE) + data[at:]


def lines_moved(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    chance.shuffle(lines)
    return b"".join(lines)


def doubled(data: bytes, chance: random.Random) -> bytes:
    return data + data[chance.randrange(len(data) + 1) :]


def spliced(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)] + chance.choice(SAMPLES).read_bytes()


DAMAGE: list[Callable[[bytes, random.Random], bytes]] = [
    cut,
    noise,
    noise,
    lines_moved,
    doubled,
    spliced,
]


def everything(file: RulesFile) -> str:
    parts = [file.description, *file.globs]
    for rule in file.rules:
        parts += [rule.section, rule.lead, rule.content, *(line.text for line in rule.enforce)]
    return "\n".join(parts)


@pytest.mark.parametrize(
    "sample", SAMPLES, ids=lambda path: path.relative_to(SAMPLES[0].parent.parent).as_posix()
)
def test_damage_neither_crashes_nor_silences(
    sample: Path, tmp_path: Path, trials: Callable[[int, int], int]
) -> None:
    chance = random.Random(sample.name)
    place = tmp_path / sample.name
    for number in range(trials(4, 12)):
        data = sample.read_bytes()
        for _ in range(chance.randrange(4)):
            data = chance.choice(DAMAGE)(data, chance)
        lines = data.splitlines(keepends=True)
        lines.insert(chance.randrange(len(lines) + 1), b"\n- marker%d stands here\n" % number)
        data = b"".join(lines)
        place.write_bytes(data)
        file = load_rules(place)
        assert f"marker{number}" in everything(file) or file.problems, data
        last = data.count(b"\n") + data.count(b"\r") + 2
        assert all(0 <= problem.line <= last and problem.message for problem in file.problems)
        assert all(1 <= rule.line <= last and rule.content for rule in file.rules)
        assert len({rule.id for rule in file.rules}) == len(file.rules)
        assert file == load_rules(place)
        numbers = {file.path: 1}
        assert "\x1b" not in "".join(
            layer.text for layer in build_layers(Snapshot((file,), (file,), numbers=numbers), 10**6)
        )
