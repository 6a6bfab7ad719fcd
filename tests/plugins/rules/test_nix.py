"""What `nix-shell` and `nix` run is judged, also in a text; what is written out needs no approval."""

import json
from pathlib import Path

import pytest
from hilum_checks import compile_rule, judge

from tests.support.obedience.judging import make_tool

SHELL = make_tool("run_terminal_cmd")


class Ruled:
    """A rule as judging sees it."""

    sentence, path, line = "Never run `cargo publish`.", "AGENTS.md", 1
    check = compile_rule("Never run `cargo publish`.", hard=False).check


def judged(command: str, root: Path) -> str:
    found = judge([Ruled()], json.dumps({"command": command}), SHELL, root)
    return found.kind if found else ""


@pytest.mark.parametrize(
    "command",
    [
        'nix-shell -p binutils --run "objdump -d target/x"',
        'nix-shell --run "cd a && cargo build"',
        "nix-shell",
        "nix-shell -p hello",
        "nix develop",
        "nix develop -c cargo build",
        "nix shell nixpkgs#hello --command hello",
        "nix build",
        "nix flake update",
        "nix run nixpkgs#cowsay -- hello",
        "nix run .",
        "nix run",
    ],
)
def test_other_commands_are_free(command: str, tmp_path: Path) -> None:
    assert judged(command, tmp_path) == ""


@pytest.mark.parametrize(
    "command",
    [
        'nix-shell -p binutils --run "cargo publish"',
        'nix-shell --command "cd x; cargo publish"',
        "echo 'cargo publish' | nix-shell",
        "echo 'cargo publish' | nix develop",
        "nix develop -c cargo publish",
        "nix develop .#a --command cargo publish",
        "nix shell nixpkgs#cargo -c sh -c 'cargo publish'",
        "nix run nixpkgs#cargo -- publish",
        "nix --extra-experimental-features flakes develop -c cargo publish",
    ],
)
def test_the_command_inside_is_judged(command: str, tmp_path: Path) -> None:
    assert judged(command, tmp_path) == "deny"


@pytest.mark.parametrize(
    "command", ['nix-shell --run "$X"', "cat x.sh | nix-shell", "nix-shell < x.sh"]
)
def test_what_is_known_only_at_run_time_is_asked_about(command: str, tmp_path: Path) -> None:
    assert judged(command, tmp_path) == "ask"
