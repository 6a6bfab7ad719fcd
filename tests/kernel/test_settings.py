"""The kernel's settings, and hilum's own names, folders and errors in the reader of settings."""

from pathlib import Path

import hilum
import pytest
from hilum.errors import HilumError, PluginError, SettingsError
from hilum.settings import KernelSettings, PluginSettings, load


@hilum.section("shelf")
class ShelfSettings:
    """Settings of a plugin."""

    books: int = hilum.setting(default=3, help="How many.")


@pytest.fixture
def environ(tmp_path):
    return {"HILUM_CONFIG": str(tmp_path / "config")}


@pytest.fixture
def user(tmp_path):
    (tmp_path / "config").mkdir()
    return tmp_path / "config" / "settings.toml"


def test_settings_stand_where_hilum_says(tmp_path, environ, user):
    """In the user's folder, in .hilum of a project, and in variables HILUM_…."""
    (tmp_path / ".hilum").mkdir()
    user.write_text("model = 'user/m'\nturns = 3\nmode = 'ask'\n")
    (tmp_path / ".hilum" / "settings.toml").write_text("turns = 2\nmode = 'plan'\n")
    settings = load([KernelSettings], workspace=tmp_path, environ=environ | {"HILUM_MODE": "debug"})
    found = settings.get(KernelSettings)
    assert (found.model, found.turns, found.mode) == ("user/m", 2, "debug")


def test_without_any_source_approval_is_asked_and_all_plugins_load(environ):
    """The defaults that matter most."""
    found = load([KernelSettings], environ=environ).get(KernelSettings)
    assert found == KernelSettings()
    assert (found.approve, found.required, found.plugins) == ("ask_first", [], PluginSettings())
    assert PluginSettings() == PluginSettings(allow=None, block=[], order=[])


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("approve = 'auto'", "approve"),
        ("required = []", "required"),
        ("session_kind = 'shared'", "session_kind"),
        ("[plugins]\nblock = ['guard']", "plugins.block"),
        ("[plugins]\nallow = ['evil']", "plugins.allow"),
    ],
)
def test_a_project_cannot_widen_what_the_agent_may_do(tmp_path, environ, text, key):
    """Approval and plugins are for the user to say."""
    project = tmp_path / ".hilum" / "settings.toml"
    project.parent.mkdir()
    project.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load([KernelSettings], workspace=tmp_path, environ=environ)
    line = len(text.splitlines())
    assert caught.value.problems == [
        f"{project}, line {line}: {key}: only the user may set this, in a file of their own and not in a project"
    ]


def test_mistakes_are_an_error_of_hilum_with_code_and_hint(environ, user):
    """So that every face can show it."""
    user.write_text("turns = 0\nmodle = 'x'\n")
    with pytest.raises(SettingsError) as caught:
        load([KernelSettings], environ=environ)
    assert isinstance(caught.value, HilumError)
    assert (caught.value.code, caught.value.exit_code) == ("E_SETTINGS", 2)
    assert str(caught.value) == (
        "The settings have 2 mistakes:\n"
        f"  {user}, line 1: turns: found 0, expected a whole number of at least 1\n"
        f"  {user}, line 2: unknown key modle. Did you mean mode or model?\n"
        "Correct them; `hilum doctor` checks all settings files."
    )
    with pytest.raises(SettingsError, match="key=value"):
        hilum.parse_pair("turns")


def test_a_plugin_that_declares_or_asks_wrongly_is_told_so(environ):
    """The plugin is at fault, not the user."""
    with pytest.raises(PluginError, match="key needs a default"):

        @hilum.section("bad")
        class Bad:
            key: str = hilum.setting(help="No default.")

    settings = load([KernelSettings], environ=environ)
    with pytest.raises(PluginError, match="attribute of its plugin's module"):
        settings.get(ShelfSettings)
    with pytest.raises(PluginError, match=r"\[shelf\]"):
        load([ShelfSettings, hilum.section("shelf")(type("Other", (), {}))], environ=environ)


def test_folders_are_named_after_hilum(tmp_path):
    """HILUM_CONFIG and HILUM_DATA, then the XDG variables, then the home folder."""
    home = {"HOME": str(tmp_path)}
    assert hilum.config_folder(home) == tmp_path / ".config" / "hilum"
    assert hilum.data_folder(home) == tmp_path / ".local" / "share" / "hilum"
    assert hilum.config_folder(home | {"HILUM_CONFIG": "/x"}) == Path("/x")
    assert hilum.data_folder(home | {"HILUM_DATA": "/y"}) == Path("/y")
