"""The servers of a workspace, and whether each may be started: trust, approvals, switches."""

import json
import os
from pathlib import Path

import pytest
from hilum.trust import TrustedFolders
from hilum_mcp import approvals
from hilum_mcp.catalog import ServerCatalog, load_catalog
from hilum_mcp.paths import user_file
from hilum_mcp.server_config import ServerConfig


def write(path: Path, **servers: object) -> None:
    """Write servers into a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers}))


def state(place: Path, name: str = "tickets") -> tuple[str, str]:
    """Return state and reason of a server."""
    entry = load_catalog(place).get(name)
    assert entry is not None
    return entry.state, entry.reason


def approve(place: Path, name: str = "tickets") -> None:
    """Approve a server as it is now."""
    entry = load_catalog(place).get(name)
    assert entry is not None
    approvals.approve(os.path.realpath(place), entry.server)


def test_without_files_the_catalog_is_empty(place):
    """It has no entries and no mistakes."""
    assert load_catalog(place) == ServerCatalog()


def test_the_users_own_server_is_on(place):
    """It needs neither trust nor approval."""
    write(user_file(), tickets={"command": "x"})
    assert state(place) == ("on", "")


FILES = [
    ".hilum/mcp.json", ".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json", ".roo/mcp.json", ".gemini/settings.json",
    "opencode.json", "opencode.jsonc", ".codex/config.toml", ".zed/settings.json", "gemini-extension.json", "mcp.json",
]  # fmt: skip


@pytest.mark.parametrize("file", FILES)
def test_a_project_server_needs_trust_and_approval(place, file):
    """This holds for the file of each client."""
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
    TrustedFolders().add(place)
    assert state(place) == ("on", "")
    TrustedFolders().remove(place)
    assert state(place)[0] == "unapproved"


def test_an_approval_is_for_one_configuration_in_one_project(place, tmp_path):
    """Another argument, variable or folder needs a new approval, and so does another project."""
    write(place / ".mcp.json", tickets={"command": "x", "args": ["a"]})
    TrustedFolders().add(place)
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
    TrustedFolders().add(other)
    assert state(other)[0] == "unapproved"
    link = tmp_path / "link"
    link.symlink_to(place)
    assert state(link)[0] == "on"


def test_a_revoked_approval_has_no_effect(place):
    """A missing approval cannot be revoked."""
    write(place / ".mcp.json", tickets={"command": "x"})
    TrustedFolders().add(place)
    approve(place)
    assert approvals.revoke(os.path.realpath(place), "tickets")
    assert not approvals.revoke(os.path.realpath(place), "tickets")
    assert state(place)[0] == "unapproved"


def test_a_project_can_approve_nothing_itself(place):
    """Neither Claude Code's setting nor a file of decisions in the project approves a server."""
    write(place / ".mcp.json", tickets={"command": "x", "trust": True, "alwaysAllow": ["*"]})
    write(place / ".hilum/mcp.json", other={"command": "y"})
    (place / ".claude").mkdir()
    (place / ".claude/settings.json").write_text(
        '{"enableAllProjectMcpServers": true, "enabledMcpjsonServers": ["tickets"]}'
    )
    (place / ".hilum/mcp.toml").write_text(f'[approved."{place}"]\ntickets = "sha256:x"\n')
    TrustedFolders().add(place)
    assert [entry.state for entry in load_catalog(place).entries] == ["unapproved", "unapproved"]


def test_claude_codes_settings_can_switch_servers_off(place):
    """A server that the project disables is off, unless the user enables it."""
    write(place / ".mcp.json", tickets={"command": "x"})
    (place / ".claude").mkdir()
    (place / ".claude/settings.json").write_text('{"disabledMcpjsonServers": ["tickets"]}')
    TrustedFolders().add(place)
    approve(place)
    assert state(place)[0] == "off"
    approvals.switch(os.path.realpath(place), "tickets", True)
    assert state(place)[0] == "on"


def test_the_user_can_switch_servers_on_and_off(place):
    """The user's own servers and those of a project are switched separately."""
    write(user_file(), tickets={"command": "x"}, quiet={"command": "q", "disabled": True})
    for on in (False, True, False):
        approvals.switch("", "tickets", on)
        assert state(place)[0] == ("on" if on else "off")
    approvals.switch("", "tickets", None)
    assert state(place)[0] == "on"
    assert state(place, "quiet")[0] == "off"
    approvals.switch("", "quiet", True)
    assert state(place, "quiet")[0] == "on"
    write(place / ".mcp.json", wiki={"command": "w"})
    approvals.switch(os.path.realpath(place), "wiki", False)
    assert state(place, "wiki")[0] == "off"


def test_switching_on_approves_nothing(place):
    """A server of a project that the user switches on still waits for its approval."""
    write(place / ".mcp.json", tickets={"command": "x", "disabled": True})
    TrustedFolders().add(place)
    assert state(place)[0] == "off"
    approvals.switch(os.path.realpath(place), "tickets", True)
    assert state(place)[0] == "unapproved"


def test_the_users_server_wins_and_a_clash_is_reported(place):
    """The same configuration twice is no clash."""
    write(user_file(), tickets={"command": "mine"})
    write(place / ".mcp.json", tickets={"command": "theirs"}, wiki={"command": "w"})
    write(place / ".cursor/mcp.json", wiki={"command": "w"})
    catalog = load_catalog(place)
    assert catalog.get("tickets").server.command == "mine"
    assert [str(mistake) for mistake in catalog.warnings] == [
        f"{place / '.mcp.json'}: tickets: It was left out: {user_file()} has a server with this name."
    ]


def test_files_of_settings_without_servers_are_no_mistake(place):
    """A file of servers without servers, and an unreadable file, are mistakes."""
    (place / ".gemini").mkdir()
    (place / ".gemini/settings.json").write_text('{"theme": "dark"}')
    (place / "opencode.json").write_text('{"model": "x"}')
    assert load_catalog(place).mistakes == ()
    (place / ".mcp.json").write_text('{"mcpServer": {}}')
    (place / ".codex").mkdir()
    (place / ".codex/config.toml").write_text("oops\n")
    first, second = map(str, load_catalog(place).errors)
    assert first == f"{place}/.mcp.json:1: mcpServer: unknown key. Did you mean mcpServers?"
    assert f"{place}/.codex/config.toml:1: It is not TOML" in second


def test_a_link_out_of_the_project_is_not_followed(place, tmp_path):
    """Its target could be any file."""
    write(tmp_path / "elsewhere.json", tickets={"command": "x"})
    (place / ".mcp.json").symlink_to(tmp_path / "elsewhere.json")
    catalog = load_catalog(place)
    assert catalog.entries == ()
    assert "target outside the project" in catalog.errors[0].reason


def test_other_clients_files_of_the_user_are_not_read(place):
    """In the home folder they belong to the user, who can import from them."""
    home = Path.home()
    write(home / ".cursor/mcp.json", tickets={"command": "x"})
    write(home / ".gemini/settings.json", wiki={"command": "x"})
    assert load_catalog(place).entries == ()
    assert load_catalog(home).entries == ()


def test_an_unreadable_file_of_decisions_is_an_error(place):
    """It must not silently count as a file without decisions."""
    from hilum import UsageError

    write(user_file(), tickets={"command": "x"})
    approvals.decisions_file().write_text("[approved]\nx = 1\n")
    with pytest.raises(UsageError, match=r"mcp\.toml cannot be read"):
        load_catalog(place)


def test_an_approval_shows_the_whole_configuration():
    """It shows quotes, folder, variables, headers and tools."""
    program = ServerConfig(
        "s",
        "stdio",
        "sh",
        ("-c", "a b"),
        {"A": "1"},
        ("B",),
        ".env",
        "/tmp",
        allowed_tools=("t",),
        excluded_tools=("u",),
        file=Path("f"),
    )
    text = approvals.describe_request(program)
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
    address = ServerConfig(
        "s",
        "http",
        url="https://x.example",
        headers={"K": "v"},
        headers_from_env={"T": "TEAM"},
        oauth={"client_id": "i"},
    )
    text = approvals.describe_request(address)
    for part in ("https://x.example", "K: v", "T: from your variable TEAM", "client_id = i"):
        assert part in text
