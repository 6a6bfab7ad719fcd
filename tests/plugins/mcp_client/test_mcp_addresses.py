"""Checks of addresses: metadata services, and this machine for a project's servers."""

from pathlib import Path

import pytest
from hilum import UsageError
from hilum_mcp.address_check import check_address
from hilum_mcp.config_reader import read_config
from hilum_mcp.server_config import ServerConfig


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HILUM_CONFIG", str(tmp_path / "config"))
    return tmp_path / "config"


@pytest.mark.parametrize(
    ("url", "mine", "project"),
    [
        ("http://127.0.0.1:8123/mcp", True, False),
        ("http://localhost:8123/mcp", True, False),
        ("http://192.168.1.7/mcp", True, False),
        ("https://93.184.216.34/mcp", True, True),
        ("http://169.254.169.254/latest", False, False),
        ("http://169.254.3.4/", False, False),
        ("http://[fe80::1]/", False, False),
        ("http://[fd00:ec2::254]/", False, False),
        ("file:///etc/passwd", False, False),
    ],
)
async def test_who_reaches_what(
    config: Path, tmp_path: Path, url: str, mine: bool, project: bool
) -> None:
    for file, reached in (
        (config / "mcp.json", mine),
        (tmp_path / "project" / ".mcp.json", project),
    ):
        server = ServerConfig("x", "http", url=url, file=file)
        if reached:
            await check_address(server, frozenset())
        else:
            with pytest.raises(UsageError, match="not contacted"):
                await check_address(server, frozenset())


def test_a_file_is_no_address(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(
        '{"mcpServers": {"a": {"url": "file:///etc/passwd"}, "b": {"url": "https://example.com/mcp"}}}'
    )
    config = read_config(file)
    assert set(config.servers) == {"b"}
    assert "http and https" in str(config.mistakes[0])
