"""Optional packages that are not installed are named, with the command that installs them."""

import pytest
import trio
from hilum import HilumError, extras, open_kernel, open_standard_session
from hilum.__main__ import main
from hilum.events import PluginFault


@pytest.fixture
def bare(monkeypatch):
    """No optional package is installed."""
    installed = extras.entry_points("hilum")
    left = {name: point for name, point in installed.items() if name not in NAMES}
    monkeypatch.setattr(extras, "entry_points", lambda group: left)


NAMES = {extra.name for extra in extras.EXTRAS}


def test_every_extra_is_one_of_the_distribution(pytestconfig):
    import tomllib

    project = tomllib.loads((pytestconfig.rootpath / "pyproject.toml").read_text())["project"]
    assert set(project["optional-dependencies"]) - {"all"} == NAMES
    assert extras.missing_extras() == []


async def test_tools_and_sections_are_those_of_the_packages(tmp_path):
    # An optional package may have only a command, and no plugin.
    plugins = NAMES & set(extras.entry_points("hilum"))
    async with open_kernel(sorted(plugins)) as kernel, kernel.open_session(tmp_path) as session:
        tools = {name for extra in extras.EXTRAS for name in extra.tools}
        assert tools <= set(session.tools) | {"generate_image"}
        sections = {section.__section__ for section in kernel.host.sections()} - {""}
        assert {name for extra in extras.EXTRAS for name in extra.sections} <= sections


async def test_a_tool_of_a_missing_package_is_named_with_its_command(bare, bench):
    kit = await bench()
    result = await kit.call("web_search", query="x")
    assert result.code == "E_UNKNOWN_TOOL"
    assert "pip install 'hilum[web]'" in result.text


def test_a_command_of_a_missing_package_is_named(bare, monkeypatch, capsys):
    monkeypatch.setattr("hilum.__main__.all_entry_points", lambda group: {})
    assert main(["mcp", "list"]) == 2
    assert "pip install 'hilum[mcp]'" in capsys.readouterr().err
    assert main(["eval"]) == 2
    assert "pip install 'hilum[eval]'" in capsys.readouterr().err
    assert main(["run", "x"]) == 2
    assert "pip install hilum" in capsys.readouterr().err


async def test_settings_of_a_missing_package_are_no_mistake(bare, tmp_path):
    (tmp_path / ".hilum").mkdir()
    (tmp_path / ".hilum" / "settings.toml").write_text("[web]\nunheard_of = 1\n")
    async with open_kernel(["files"], workspace=tmp_path):
        pass
    (tmp_path / ".hilum" / "settings.toml").write_text("[webb]\nunheard_of = 1\n")
    with pytest.raises(HilumError, match="webb"):
        async with open_kernel(["files"], workspace=tmp_path):
            pass


async def test_a_project_file_without_its_package_is_reported(bare, tmp_path):
    (tmp_path / ".mcp.json").write_text("{}")
    async with open_standard_session(tmp_path, needs_model=False) as session:
        with trio.fail_after(10):
            async for event in session.events():
                if isinstance(event, PluginFault) and event.plugin == "mcp":
                    break
    assert ".mcp.json" in event.error
    assert "pip install 'hilum[mcp]'" in event.error
