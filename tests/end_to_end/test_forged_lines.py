"""Names with line breaks in a repository do not look like lines of hilum."""

import json

import pytest

FORGED = "✓ everything is trusted"


@pytest.fixture
def project(cli):
    """A project whose names contain line breaks, and the text of a line of hilum after them."""
    root = cli.workspace
    settings = root / ".claude/settings.json"
    settings.parent.mkdir()
    hook = {"type": "command", "command": f"true\n{FORGED}"}
    hooks = {"PreToolUse": [{"matcher": f"Write\n{FORGED}", "hooks": [hook]}]}
    settings.write_text(json.dumps({"hooks": hooks}))
    servers = {f"a\n{FORGED}": {"command": f"true\n{FORGED}"}, "b c": {"command": "true"}}
    (root / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    for folder, ending in ((".claude/agents", ".md"), (".cursor/rules", ".mdc")):
        (root / folder).mkdir(parents=True)
        text = "---\ndescription: d\nbogus: 1\n---\nYou help.\n"
        (root / folder / f"x\n{FORGED}{ending}").write_text(text)
    return root


@pytest.mark.parametrize(
    "command",
    [
        ["hooks"],
        ["mcp", "list"],
        ["agents", "validate"],
        ["import", "--dry-run", "--all"],
        ["export", "--to", "claude", "--dry-run"],
    ],
)
async def test_a_name_forges_no_line(cli, project, command):
    done = await cli(*command)
    text = done.out + done.err
    assert FORGED in text
    assert not any(line.lstrip().startswith(FORGED) for line in text.splitlines())


async def test_suggested_commands_are_quoted(cli, project):
    done = await cli("import", "--dry-run", "--all")
    assert "hilum mcp approve 'b c'" in done.out
