"""Commands that only the user may run, because they decide what agents may do."""

import hilum_guard
import hilum_shell
import pytest
from hilum import list_user_commands
from hilum.discovery import all_entry_points
from hilum.errors import E_DENIED
from hilum.testing import open_bench

DECIDING = set(
    "trust;import;plugins;permissions;hooks approve;hooks refuse;rules compile;serve token;models key"
    ";mcp approve;mcp enable;mcp disable;mcp add;mcp remove;mcp login;mcp logout;skills add"
    ";skills enable;skills disable;skills update;skills remove;memory add;memory edit;memory forget"
    ";memory on;memory off;sessions delete;sessions prune;sessions rename".split(";")
)


def test_every_package_declares_its_deciding_commands():
    assert set(list_user_commands()) >= DECIDING


def test_each_declared_command_exists():
    """A command that is renamed must be declared with its new name."""
    commands = {**all_entry_points("hilum.commands"), "plugins": []}
    for name in list_user_commands():
        assert name.split()[0] in commands, name


async def test_no_agent_runs_a_deciding_command(tmp_path):
    """Whatever the rules allow, and however the command is written."""
    forms = (
        "hilum {}",
        "hilum {} --yes x",
        "timeout 5 .venv/bin/hilum {} --yes",
        "python3 -m hilum {}",
    )
    settings = {"approve": "auto", "guard.unsandboxed": "run"}
    async with open_bench(hilum_guard, hilum_shell, folder=tmp_path, settings=settings) as bench:
        rules = tmp_path / "config/permissions.toml"
        rules.write_text('allow = ["*"]\n')
        for name in sorted(DECIDING | set(list_user_commands())):
            for form in forms:
                result = await bench.call("run_terminal_cmd", command=form.format(name))
                assert result.code == E_DENIED, form.format(name)
                assert f"only the user may run hilum {name}" in result.text


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("hilum hooks --workspace /tmp approve --yes", "hooks approve"),
        ("x=approve; hilum hooks $(echo $x) --yes", "hooks approve"),
        ("hilum hooks", ""),
        ("hilum mcp list", ""),
        ("hilum rules AGENTS.md", ""),
        ("hilum skills show x", ""),
        ("hilum run 'trust nobody'", ""),
        ("echo hilum trust", ""),
    ],
)
async def test_arguments_decide(tmp_path, command, named):
    settings = {"approve": "auto", "guard.unsandboxed": "run"}
    async with open_bench(hilum_guard, hilum_shell, folder=tmp_path, settings=settings) as bench:
        result = await bench.call("run_terminal_cmd", command=command)
        assert (f"only the user may run hilum {named}" in result.text) == bool(named), result.text
