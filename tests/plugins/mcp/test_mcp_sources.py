"""Which servers there are, and whether each may be started: trust, approvals of a definition,
switches.
"""

import json
import os
from pathlib import Path

import pytest
from hilum_guard import Trust
from hilum_mcp import approving, sources
from hilum_mcp.server import Server


def write(path: Path, **servers: object) -> None:
    """Describe servers in a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers}))


def state(place: Path, name: str = "tickets") -> tuple[str, str]:
    """State and reason of a server."""
    entry = sources.look(place).get(name)
    assert entry is not None
    return entry.state, entry.reason


def approve(place: Path, name: str = "tickets") -> None:
    """Approve the definition of a server as it is."""
    entry = sources.look(place).get(name)
    assert entry is not None
    approving.approve(os.path.realpath(place), entry.server)


def test_with_nothing_configured_there_is_nothing(place):
    """No entry, no complaint."""
    assert sources.look(place) == sources.Catalog()


def test_what_the_user_describes_is_on(place):
    """It needs neither trust nor approval."""
    write(sources.user_file(), tickets={"command": "x"})
    assert state(place) == ("on", "")


FILES = [
    ".hilum/mcp.json", ".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json", ".roo/mcp.json", ".gemini/settings.json",
    "opencode.json", "opencode.jsonc", ".codex/config.toml", ".zed/settings.json", "gemini-extension.json", "mcp.json",
]  # fmt: skip


@pytest.mark.parametrize("file", FILES)
def test_a_server_of_a_project_is_off_until_it_is_trusted_and_approved(place, file):
    """In this order, for the file of each client."""
    path = place / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        '[mcp_servers.tickets]\ncommand = "x"\n'
        if file.endswith("toml")
        else '{"mcpServers": {"tickets": {"command": "x"}}}'
    )
    assert state(place)[0] == "unapproved"
    assert "do not trust" in state(place)[1]
    approve(place)
    assert state(place)[0] == "unapproved"
    Trust().add(place)
    assert state(place) == ("on", "")
    Trust().remove(place)
    assert state(place)[0] == "unapproved"


def test_an_approval_is_for_one_definition_in_one_place(place, tmp_path):
    """Another argument, variable or folder is asked for again.

    So is the same in another project.
    """
    write(place / ".mcp.json", tickets={"command": "x", "args": ["a"]})
    Trust().add(place)
    assert "not approved" in state(place)[1]
    approve(place)
    assert state(place)[0] == "on"
    write(place / ".mcp.json", tickets={"command": "x", "args": ["a", "--all"]})
    assert state(place)[0] == "unapproved"
    assert "changed since" in state(place)[1]
    write(
        place / ".mcp.json",
        tickets={"command": "x", "args": ["a"], "description": "d", "autoApprove": ["*"]},
    )
    assert state(place)[0] == "on"
    other = tmp_path / "other"
    write(other / ".mcp.json", tickets={"command": "x", "args": ["a"]})
    Trust().add(other)
    assert state(other)[0] == "unapproved"
    link = tmp_path / "link"
    link.symlink_to(place)
    assert state(link)[0] == "on"


def test_an_approval_taken_back_holds_no_more(place):
    """And what was never approved cannot be taken back."""
    write(place / ".mcp.json", tickets={"command": "x"})
    Trust().add(place)
    approve(place)
    assert approving.revoke(os.path.realpath(place), "tickets")
    assert not approving.revoke(os.path.realpath(place), "tickets")
    assert state(place)[0] == "unapproved"


def test_a_project_can_approve_nothing_itself(place):
    """Neither Claude Code's switch for all servers nor a file of approvals of its own."""
    write(place / ".mcp.json", tickets={"command": "x", "trust": True, "alwaysAllow": ["*"]})
    write(place / ".hilum/mcp.json", other={"command": "y"})
    (place / ".claude").mkdir()
    (place / ".claude/settings.json").write_text(
        '{"enableAllProjectMcpServers": true, "enabledMcpjsonServers": ["tickets"]}'
    )
    (place / ".hilum/mcp.toml").write_text(f'[approved."{place}"]\ntickets = "sha256:x"\n')
    Trust().add(place)
    assert [entry.state for entry in sources.look(place).entries] == ["unapproved", "unapproved"]


def test_claude_codes_settings_can_switch_servers_off(place):
    """What a project excludes stays out, unless the user switches it on."""
    write(place / ".mcp.json", tickets={"command": "x"})
    (place / ".claude").mkdir()
    (place / ".claude/settings.json").write_text('{"disabledMcpjsonServers": ["tickets"]}')
    Trust().add(place)
    approve(place)
    assert state(place)[0] == "off"
    approving.switch(os.path.realpath(place), "tickets", True)
    assert state(place)[0] == "on"


def test_switches_are_the_users(place):
    """Off and on again, for the user's own servers and for those of a project, each for itself."""
    write(sources.user_file(), tickets={"command": "x"}, quiet={"command": "q", "disabled": True})
    for on in (False, True, False):
        approving.switch("", "tickets", on)
        assert state(place)[0] == ("on" if on else "off")
    approving.switch("", "tickets", None)
    assert state(place)[0] == "on"
    assert state(place, "quiet")[0] == "off"
    approving.switch("", "quiet", True)
    assert state(place, "quiet")[0] == "on"
    write(place / ".mcp.json", wiki={"command": "w"})
    approving.switch(os.path.realpath(place), "wiki", False)
    assert state(place, "wiki")[0] == "off"


def test_switching_on_approves_nothing(place):
    """A server of a project that the user switches on still waits for its approval."""
    write(place / ".mcp.json", tickets={"command": "x", "disabled": True})
    Trust().add(place)
    assert state(place)[0] == "off"
    approving.switch(os.path.realpath(place), "tickets", True)
    assert state(place)[0] == "unapproved"


def test_the_user_comes_first_and_a_clash_is_told(place):
    """A project cannot take the place of a server of the user's.

    The same definition twice is no clash.
    """
    write(sources.user_file(), tickets={"command": "mine"})
    write(place / ".mcp.json", tickets={"command": "theirs"}, wiki={"command": "w"})
    write(place / ".cursor/mcp.json", wiki={"command": "w"})
    catalog = sources.look(place)
    assert catalog.get("tickets").server.command == "mine"
    assert [complaint for complaint in catalog.complaints if "was left out" in complaint] == [
        f"{place / '.mcp.json'}: tickets: It was left out: {sources.user_file()} has a server of that name."
    ]


def test_files_of_settings_without_servers_are_no_mistake(place):
    """But a file of servers that names none is, and so is one that cannot be read."""
    (place / ".gemini").mkdir()
    (place / ".gemini/settings.json").write_text('{"theme": "dark"}')
    (place / "opencode.json").write_text('{"model": "x"}')
    assert sources.look(place).complaints == ()
    (place / ".mcp.json").write_text('{"mcpServer": {}}')
    (place / ".codex").mkdir()
    (place / ".codex/config.toml").write_text("oops\n")
    complaints = sources.look(place).complaints
    assert any("names no MCP servers" in each for each in complaints)
    assert any(f"{place}/.codex/config.toml:1: It is not TOML" in each for each in complaints)


def test_a_link_out_of_the_project_is_not_followed(place, tmp_path):
    """What it leads to may be anything."""
    write(tmp_path / "elsewhere.json", tickets={"command": "x"})
    (place / ".mcp.json").symlink_to(tmp_path / "elsewhere.json")
    catalog = sources.look(place)
    assert catalog.entries == ()
    assert "leads out of the project" in catalog.complaints[0]


def test_other_clients_files_of_the_user_are_not_read(place):
    """In the home they are the user's, and only imported."""
    home = Path.home()
    write(home / ".cursor/mcp.json", tickets={"command": "x"})
    write(home / ".gemini/settings.json", wiki={"command": "x"})
    assert sources.look(place).entries == ()
    assert sources.look(home).entries == ()


def test_a_file_of_decisions_that_cannot_be_read_is_an_error(place):
    """It must not count as one that approves nothing in silence."""
    from hilum import UsageError

    write(sources.user_file(), tickets={"command": "x"})
    approving.file().write_text("[approved]\nx = 1\n")
    with pytest.raises(UsageError, match=r"mcp\.toml cannot be read"):
        sources.look(place)


def test_what_is_approved_is_shown_in_full():
    """Program with quotes, folder, variables, headers and tools: nothing of the definition is
    hidden.
    """
    program = Server(
        "s",
        "stdio",
        "sh",
        ("-c", "a b"),
        {"A": "1"},
        ("B",),
        ".env",
        "/tmp",
        tools=("t",),
        without=("u",),
        file=Path("f"),
    )
    text = approving.described(program)
    for part in (
        "sh -c 'a b'",
        "A=1",
        "B (from your environment)",
        ".env",
        "in        /tmp",
        "only t",
        "without u",
    ):
        assert part in text
    address = Server(
        "s",
        "http",
        url="https://x.example",
        headers={"K": "v"},
        header_names={"T": "TEAM"},
        oauth={"client_id": "i"},
    )
    text = approving.described(address)
    for part in ("https://x.example", "K: v", "T: from your variable TEAM", "client_id = i"):
        assert part in text
