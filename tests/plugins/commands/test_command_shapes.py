"""Sixty commands in the shapes of published ones become prompts, with all that guards them."""

import sys
from pathlib import Path

import pytest
from hilum import UsageError
from hilum.events import PluginEvent, PromptQueued

sys.path.insert(0, str(Path(__file__).parent))
from command_shapes import SHAPES


def write_files() -> dict[str, str]:
    files = {"docs/guide.md": "The guide.\n"}
    config = []
    for shape in SHAPES:
        if shape.file == "opencode.json":
            config.append(shape.text)
        else:
            files[shape.file] = shape.text
    files["opencode.json"] = (
        '{\n  // commands\n  "$schema": "https://opencode.ai/config.json",\n'
        f'  "command": {{\n    {", ".join(config)},\n  }},\n}}\n'
    )
    return files


async def test_all_shapes_run(opened, in_git, trials):
    assert len(SHAPES) == 60
    # Every third one by default.
    shapes = SHAPES[:: 60 // trials(20, 60)]
    wrong = []
    answers = ["ok"] * len(SHAPES)
    async with opened(write_files(), answers=answers, kind="headless") as bench:
        for shape in shapes:
            try:
                run = await bench.start(shape.typed)
            except UsageError as error:
                wrong.append((shape.typed, str(error)))
                continue
            await run.wait()
            queued = bench.of(PromptQueued)[-1]
            missing = [text for text in shape.prompt if text not in queued.text]
            missing += [text for text in shape.attached if text not in queued.attached]
            if missing:
                wrong.append((shape.typed, missing, queued.text, queued.attached))
        assert not wrong, wrong
        notes = [e.data for e in bench.of(PluginEvent) if e.name == "commands.problems"]
        # The only file that is not YAML is read and reported.
        assert "problems in other command files" in notes[0]["say"]
        assert any("bad-yaml.md:2" in problem for problem in notes[0]["problems"])


@pytest.mark.parametrize(
    "name", ["folded", "hint-without-quotes", "component", "git:commit-message"]
)
async def test_commands_are_listed_with_their_arguments(opened, name):
    async with opened(write_files()) as bench:
        listed = {command.name: command for _, command in bench.session.list_commands()}
        expected = {
            "folded": ("A long description on two lines", "[path...]"),
            "hint-without-quotes": (
                "Review the model at `$1`.",
                "<domain-model-path> [optional: output-path]",
            ),
            "component": ("Create a component", ""),
            "git:commit-message": ("Write a message for:", ""),
        }
        assert (listed[name].summary, listed[name].arguments) == expected[name]
        assert len(listed) == 60
