"""Which commands run a command, and which settings of Git run nothing."""

from pathlib import Path

import pytest
from hilum_guard import judge_command


def runners(text: str, root: Path) -> dict[str, list[str]]:
    """The programs that run each command, innermost first, by the program of the command."""
    verdict = judge_command(text, workspace=root, folder=root)
    return {
        command.words[0]: [words[0] for words in command.runners]
        for command in verdict.all_commands
    }


@pytest.mark.parametrize(
    ("text", "program", "by"),
    [
        ("pytest", "pytest", []),
        ("uv run pytest", "pytest", ["uv"]),
        ("timeout 9 uv run pytest", "pytest", ["uv", "timeout"]),
        ("sudo sh -c 'uv run pytest'", "pytest", ["uv", "sh", "sudo"]),
        ("uv run ls; pytest", "pytest", []),
        ("uv run ls | pytest", "pytest", []),
        ("find . -exec pytest {} +", "pytest", ["find"]),
        ("echo x | xargs pytest", "pytest", ["xargs"]),
    ],
)
def test_which_commands_run_a_command(
    text: str, program: str, by: list[str], tmp_path: Path
) -> None:
    assert runners(text, tmp_path)[program] == by


@pytest.mark.parametrize(
    ("setting", "others"),
    [
        ("user.email=a@b.example", 0),
        ("User.Name='A B'", 0),
        ("commit.gpgSign=false", 0),
        ("core.editor='make ship'", 1),
        ("core.sshCommand='make ship'", 1),
        ("sequence.editor='make ship'", 1),
        ("gpg.program='make ship'", 1),
        ("diff.external='make ship'", 1),
        ("user.name.x='make ship'", 1),
    ],
)
def test_names_and_switches_of_git_are_no_commands(
    setting: str, others: int, tmp_path: Path
) -> None:
    verdict = judge_command(f"git -c {setting} commit -m x", workspace=tmp_path, folder=tmp_path)
    assert len(verdict.all_commands) == 1 + others
