"""Settings: five sources, one truth, and every mistake named at once."""

import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Literal

import pytest
from hilum import PluginError, SettingsError
from hilum.settings import App, Raw, section, sections_of, setting

ORCHARD = App("orchard", hint="Ask the gardener.", unloaded="Load it.")


@section()
class PluginSettings:
    allow: list[str] | None = setting(default=None, help="Only these.")
    block: list[str] = setting(factory=list, help="Never these.")


@section("")
class TopSettings:
    model: str = setting(default="", help="Model to use.")
    roles: dict[str, str] = setting(factory=dict, help="Models by role.")
    fallback: list[str] = setting(factory=list, help="Models to try, in order.")
    mode: str = setting(default="agent", help="Mode to start in.")
    approve: Literal["ask_first", "auto", "readonly"] = setting(
        default="ask_first", project=False, help="How to ask."
    )
    turns: int = setting(default=25, minimum=1, help="Most rounds.")
    timeout: float | None = setting(default=None, minimum=0, help="Seconds; no limit when not set.")
    token_limit: int | None = setting(
        default=None, minimum=1, help="Tokens; no limit when not set."
    )
    silence: float = setting(default=30.0, minimum=0, help="Seconds without a byte.")
    required: list[str] = setting(factory=list, project=False, help="What must be there.")
    plugins: PluginSettings = setting(factory=PluginSettings, project=False, help="What is loaded.")


@section()
class Server:
    command: str = setting(help="Program to start.")
    args: list[str] = setting(factory=list, help="Its arguments.")
    token: str = setting(default="", secret=True, help="Its key.")


@section()
class Limits:
    memory: int = setting(default=512, minimum=1, maximum=4_000_000, help="Megabytes.")
    cpu: float = setting(default=1.0, help="Cores.")


@section("shell")
class ShellSettings:
    timeout: float = setting(default=120.0, minimum=0, help="Seconds a command may take.")
    program: str | None = setting(default=None, help="Shell to use.")
    login: bool = setting(default=False, help="Whether it is a login shell.")
    limits: Limits = setting(factory=Limits, help="What a command may use.")


@section("reach")
class ReachSettings:
    servers: dict[str, Server] = setting(factory=dict, help="Servers by name.")
    aliases: dict[str, str] = setting(factory=lambda: {"a": "alpha"}, help="Short names.")
    endpoint: str = setting(default="", project=False, help="Where to ask.")
    api_key: str = setting(default="", secret=True, help="Key of the endpoint.")
    size: Literal["small", "large"] = setting(default="small", help="How much.")
    level: Literal[1, 2] = setting(default=1, help="How deep.")
    mirrors: list[Server] = setting(factory=list, help="Servers in order.")


SECTIONS = (TopSettings, ShellSettings, ReachSettings)


class Place:
    """A configuration folder and a workspace to write settings into."""

    def __init__(self, folder: Path) -> None:
        self.user = folder / "config" / "settings.toml"
        self.workspace = folder / "work"
        self.project = self.workspace / ".orchard" / "settings.toml"
        self.user.parent.mkdir(parents=True)
        self.project.parent.mkdir(parents=True)

    def load(self, user="", project="", environ=None, sections=SECTIONS, **rest):
        self.user.write_text(user, "utf-8")
        self.project.write_text(project, "utf-8")
        return self.read(environ, sections, **rest)

    def read(self, environ=None, sections=SECTIONS, **rest):
        environ = {"ORCHARD_CONFIG": str(self.user.parent), **(environ or {})}
        return ORCHARD.load(sections, workspace=self.workspace, environ=environ, **rest)

    def problems(self, *args, **rest):
        with pytest.raises(SettingsError) as caught:
            self.load(*args, **rest)
        assert all("\n" not in problem for problem in caught.value.problems)
        return caught.value.problems


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def source_of(settings, key):
    (row,) = [row for row in settings.explained if row.key == key]
    return row.source


def test_without_any_source_the_defaults_hold(place):
    """Nothing is there, so every value is the class's own."""
    settings = ORCHARD.load(SECTIONS, environ={"ORCHARD_CONFIG": str(place.user.parent)})
    assert settings.get(TopSettings) == TopSettings()
    assert settings.get(TopSettings).approve == "ask_first"
    assert settings.get(ShellSettings).limits == Limits()
    assert {row.source for row in settings.explained} == {"default"}


def test_each_source_is_stronger_than_the_one_before(place):
    """User file, project file, environment, command line: in that order."""
    user, project = "model = 'user/m'\nturns = 1", "model = 'project/m'"
    environ = {"ORCHARD_MODEL": "environment/m"}
    kernel = place.load(user).get(TopSettings)
    assert (kernel.model, kernel.turns) == ("user/m", 1)
    kernel = place.load(user, project).get(TopSettings)
    assert (kernel.model, kernel.turns) == ("project/m", 1)
    assert place.load(user, project, environ).get(TopSettings).model == "environment/m"
    overrides = {"model": "line/m"}
    settings = place.load(user, project, environ, overrides=overrides)
    assert settings.get(TopSettings).model == "line/m"
    assert source_of(settings, "model") == "command line"
    assert source_of(settings, "turns") == str(place.user)


def test_tables_merge_key_by_key_and_lists_replace(place):
    """A project adds a key to a table and takes the place of a whole list."""
    settings = place.load(
        "fallback = ['a/1', 'a/2']\n[roles]\nfast = 'a/1'\ndefault = 'a/2'\n[shell.limits]\nmemory = 64",
        "fallback = ['b/1']\n[roles]\nfast = 'b/1'\n[shell.limits]\ncpu = 2",
    )
    kernel, shell = settings.get(TopSettings), settings.get(ShellSettings)
    assert kernel.fallback == ["b/1"]
    assert kernel.roles == {"fast": "b/1", "default": "a/2"}
    assert shell.limits == Limits(memory=64, cpu=2.0)
    assert source_of(settings, "roles.fast") == str(place.project)
    assert source_of(settings, "roles.default") == str(place.user)


def test_a_default_table_is_the_weakest_source_and_an_empty_one_takes_nothing_away(place):
    """Defaults merge like any other source."""
    settings = place.load(
        "[reach.aliases]\nb = 'beta'\n[reach.servers.x]\ncommand = 'run'", "[reach.servers.x]"
    )
    reach = settings.get(ReachSettings)
    assert reach.aliases == {"a": "alpha", "b": "beta"}
    assert reach.servers == {"x": Server(command="run")}


def test_a_file_of_mistakes_is_reported_in_time(place):
    """Only the first mistakes are listed, because finding the line of each takes time."""
    problems = place.problems("\n".join(f"wrong{number} = 1" for number in range(20_000)))
    assert problems[0].startswith(f"{place.user}: unknown key wrong0.")
    assert len(problems) == 101
    assert problems[-1].endswith("more mistakes are not listed")


def test_every_mistake_in_every_source_is_named_at_once(place):
    """Four sources, one mistake or more in each, one error."""
    problems = place.problems(
        "trun = 5\nturns = '5'\n[shell]\ntimeout = 'fast'",
        "[shel]\ntimeout = 1",
        {"ORCHARD_SHELL_LOGIN": "1", "ORCHARD_MODLE": "x"},
        overrides={"shell.timeot": 3},
    )
    user, project = place.user, place.project
    assert problems == [
        "environment ORCHARD_MODLE: unknown variable. Did you mean ORCHARD_MODE or ORCHARD_MODEL?",
        f"{user}, line 1: unknown key trun. Did you mean turns?",
        f"{user}, line 2: turns: found '5', expected a whole number of at least 1",
        f"{user}, line 4: shell.timeout: found 'fast', expected a number of at least 0",
        f"{project}, line 1: unknown section shel. Did you mean shell?",
        "environment ORCHARD_SHELL_LOGIN: shell.login: found 1, expected true or false",
        "command line: unknown key shell.timeot. Did you mean timeout?",
    ]


def test_variables_of_kubernetes_are_no_settings(place):
    """Kubernetes sets them in each pod for a service whose name begins like the program's."""
    service = {
        "ORCHARD_SHELL_SERVICE_HOST": "10.96.0.7",
        "ORCHARD_SHELL_SERVICE_PORT": "8786",
        "ORCHARD_SHELL_SERVICE_PORT_HTTP": "8786",
        "ORCHARD_SHELL_PORT": "tcp://10.96.0.7:8786",
        "ORCHARD_SHELL_PORT_8786_TCP": "tcp://10.96.0.7:8786",
        "ORCHARD_SHELL_PORT_8786_TCP_ADDR": "10.96.0.7",
        "ORCHARD_SERVICE_HOST": "10.96.0.8",
        "ORCHARD_PORT": "tcp://10.96.0.8:80",
    }
    settings = place.load(environ={**service, "ORCHARD_TURNS": "7"})
    assert settings.get(TopSettings).turns == 7
    # Without the service, such a name is a mistake.
    problems = place.problems(environ={"ORCHARD_SHELL_PORT_80_TCP": "tcp://10.96.0.7:80"})
    assert "ORCHARD_SHELL_PORT_80_TCP: unknown variable" in problems[0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("turns = true", "turns: found True, expected a whole number of at least 1"),
        ("turns = 1.0", "turns: found 1.0, expected a whole number of at least 1"),
        ("turns = 0", "turns: found 0, expected a whole number of at least 1"),
        ("silence = true", "silence: found True, expected a number of at least 0"),
        ("silence = nan", "silence: found nan, expected a number of at least 0"),
        (
            "shell.limits.memory = 4000001",
            "shell.limits.memory: found 4000001, expected a whole number of at least 1 and at most"
            " 4000000",
        ),
        ("shell.login = 'false'", "shell.login: found 'false', expected true or false"),
        ("shell.program = 5", "shell.program: found 5, expected a string"),
        ("model = 2026-01-01", "model: found datetime.date(2026, 1, 1), expected a string"),
        ("fallback = 'abc'", "fallback: found 'abc', expected a list of strings"),
        ("fallback = ['a', 5]", "fallback[1]: found 5, expected a string"),
        ("plugins.allow = 'x'", "plugins.allow: found 'x', expected a list of strings"),
        ("roles = 'x'", "roles: found 'x', expected a table"),
        ("roles.fast = 5", "roles.fast: found 5, expected a string"),
        ("shell = 5", "shell: found 5, expected a table"),
        ("plugins = []", "plugins: found [], expected a table"),
        (
            "approve = 'yes'",
            "approve: found 'yes', expected one of 'ask_first', 'auto', 'readonly'",
        ),
        ("reach.level = true", "reach.level: found True, expected one of 1, 2"),
        ("reach.size = 'big'", "reach.size: found 'big', expected one of 'small', 'large'"),
        (
            "[turns" + ".a" * 5000 + "]",
            "turns: found {'a': {'a': {'a': {'a': {'a': {'a': {...}}}}}}}, expected a whole number of at least 1",
        ),
        ("token_limit = 0", "token_limit: found 0, expected a whole number of at least 1"),
        (
            "reach.servers.x.comand = 'y'",
            "unknown key reach.servers.x.comand. Did you mean command?",
        ),
        ("reach.mirrors = [{command = 'y'}, 'z']", "reach.mirrors[1]: found 'z', expected a table"),
        ("reach.mirrors = 'z'", "reach.mirrors: found 'z', expected a list of tables"),
        ("reach.mirrors = [{command = 5}]", "reach.mirrors[0].command: found 5, expected a string"),
        (
            "reach.mirrors = [{token = 5}]",
            "reach.mirrors[0].token: found a value that is not shown, expected a string",
        ),
        (
            "reach.mirrors = [{comand = 'y'}]",
            "unknown key reach.mirrors[0].comand. Did you mean command?",
        ),
        ("reach.mirrors = [{args = []}]", "reach.mirrors[0].command: missing, expected a string"),
    ],
)
def test_types_are_strict(place, text, problem):
    """No value is bent to fit, and the message says what was found and what was expected."""
    assert f"{place.user}, line 1: {problem}" in place.problems(text)


def test_a_whole_number_does_for_a_number(place):
    """``timeout = 5`` is no mistake, and gives a float."""
    timeout = place.load("shell.timeout = 5\ntimeout = 60").get(ShellSettings).timeout
    assert timeout == 5.0
    assert type(timeout) is float


def test_a_required_setting_of_a_nested_table_must_be_there(place):
    """The message names the table and the file it is missing from."""
    (problem,) = place.problems("[reach.servers.x]\nargs = ['-v']")
    assert problem == f"{place.user}, line 1: reach.servers.x.command: missing, expected a string"
    (problem,) = place.problems("[reach.servers.x]")
    assert problem == f"{place.user}, line 1: reach.servers.x.command: missing, expected a string"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("approve = 'auto'", "approve"),
        ("required = []", "required"),
        ("[plugins]\nblock = ['guard']", "plugins.block"),
        ("[reach]\nendpoint = 'http://elsewhere'", "reach.endpoint"),
        ("[reach]\napi_key = 'hunter2'", "reach.api_key"),
        ("[reach.servers.x]\ncommand = 'y'\ntoken = 'hunter2'", "reach.servers.x.token"),
        ("[[reach.mirrors]]\ncommand = 'y'\ntoken = 'hunter2'", "reach.mirrors[0].token"),
    ],
)
def test_a_project_cannot_set_what_is_for_the_user_to_say(place, text, key):
    """Whatever widens rights, and every secret, is refused in a project's file and taken from the
    user's.
    """
    (problem,) = place.problems("", text)
    line = len(text.splitlines())
    assert problem == (
        f"{place.project}, line {line}: {key}: only the user may set this, in a file of their own"
        " and not in a project"
    )
    assert "hunter2" not in problem
    place.load(text)


def test_the_environment_is_read_as_toml_and_else_as_text(place):
    """Lists and numbers are written as in a file.

    A name needs no quotes; an empty variable counts as not set.
    """
    settings = place.load(
        environ={
            "ORCHARD_PLUGINS_BLOCK": '["x"]',
            "ORCHARD_SHELL_TIMEOUT": "7",
            "ORCHARD_MODEL": "5",
            "ORCHARD_MODE": '"plan"',
            "ORCHARD_APPROVE": "auto",
            "ORCHARD_ROLES": "{fast = 'a/b'}",
            "ORCHARD_SHELL_PROGRAM": "1\nx = 2",
            "ORCHARD_TURNS": "",
            "ORCHARD_SHELL_LIMITS_MEMORY": "3",
            "ORCHARD_DATA": "/nowhere",
            "OTHER": "x",
        }
    )
    kernel, shell = settings.get(TopSettings), settings.get(ShellSettings)
    assert kernel.plugins.block == ["x"]
    assert (kernel.model, kernel.mode, kernel.approve, kernel.turns) == ("5", "plan", "auto", 25)
    assert kernel.roles == {"fast": "a/b"}
    assert (shell.timeout, shell.program, shell.limits.memory) == (7.0, "1\nx = 2", 3)
    assert source_of(settings, "shell.timeout") == "ORCHARD_SHELL_TIMEOUT"


def test_pairs_of_the_command_line_are_read_like_the_environment(place):
    """``--set key=value`` gives what a file would."""
    pairs = dict(
        map(
            ORCHARD.parse_pair,
            ["shell.timeout=5", "roles.fast=a/b", "model = x=y", "fallback=['c/d']"],
        )
    )
    settings = place.load(overrides=pairs)
    assert settings.get(ShellSettings).timeout == 5.0
    kernel = settings.get(TopSettings)
    assert (kernel.roles, kernel.model, kernel.fallback) == ({"fast": "a/b"}, "x=y", ["c/d"])
    for wrong in ("shell.timeout", "=5", ""):
        with pytest.raises(SettingsError, match="key=value"):
            ORCHARD.parse_pair(wrong)


def test_a_name_with_a_dot_is_quoted_in_a_pair(place):
    """As in TOML; what is not a key is an error, and an unknown name in quotes is one, too."""
    pairs = ['roles."a.b" = x/y', "roles.'c=d'=z", '"model"=m', 'roles."e".f=1']
    settings = place.load(overrides=dict(map(ORCHARD.parse_pair, pairs[:3])))
    kernel = settings.get(TopSettings)
    assert (kernel.roles, kernel.model) == ({"a.b": "x/y", "c=d": "z"}, "m")
    with pytest.raises(SettingsError, match=r"roles\.e"):
        place.load(overrides=dict(map(ORCHARD.parse_pair, pairs[3:])))
    for unknown in ('"modle"=m', '"shell.timeout"=5', 'shell."timeuot"=5'):
        with pytest.raises(SettingsError, match="unknown"):
            place.load(overrides=dict([ORCHARD.parse_pair(unknown)]))
    for wrong in ('roles."a=1', 'roles."a"b=1', '"a"=1\nb=2', '""x=1'):
        with pytest.raises(SettingsError, match="command line"):
            place.load(overrides=dict([ORCHARD.parse_pair(wrong)]))


def test_overrides_of_a_program_are_values_not_text(place):
    """An embedder passes Python values; text is not parsed, ``None`` takes a limit away."""
    settings = place.load(
        "timeout = 60", overrides={"timeout": None, "shell": {"login": True}, "model": "[x]"}
    )
    assert settings.get(TopSettings).timeout is None
    assert settings.get(TopSettings).model == "[x]"
    assert settings.get(ShellSettings).login is True
    assert place.problems(overrides={"turns": "5"}) == [
        "command line: turns: found '5', expected a whole number of at least 1"
    ]


def test_sections_of_plugins_that_are_not_loaded_pass_unchecked(place):
    """Names in ``known`` pass in files and environment; with ``None`` every section passes."""
    text, environ = "[web-search]\nwhatever = 1", {"ORCHARD_WEB_SEARCH_URL": "x"}
    place.load(text, environ=environ, known=["web-search"])
    place.load(text, environ=environ, known=None)
    assert len(place.problems(text, environ=environ)) == 2
    settings = place.load("turns = 2\n[shell]\nx = 1", sections=[TopSettings], known=["shell"])
    assert settings.get(TopSettings).turns == 2


def test_mistakes_can_be_collected_instead_of_raised(place):
    """What is wrong counts as not set, what is right holds."""
    settings = place.load("turns = 'x'\nmode = 'plan'", strict=False)
    assert len(settings.problems) == 1
    assert settings.get(TopSettings).turns == 25
    assert settings.get(TopSettings).mode == "plan"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (
            b"model = 'x'\nturns 5\n",
            "not valid TOML: Expected '=' after a key in a key/value pair (at line 2, column 7)",
        ),
        (b"model = 'x'\n# \xff\n", "line 2 is not UTF-8 text"),
        (b"x = " + b"[" * 5000, "not valid TOML: "),
        (b"x = " + b"9" * 5000, "not valid TOML: a number is too long"),
    ],
)
def test_a_file_that_cannot_be_understood_is_named_with_its_line(place, data, problem):
    """Broken TOML and bytes that are not text; the other file is still checked."""
    place.user.write_bytes(data)
    place.project.write_text("turns = 'x'")
    with pytest.raises(SettingsError) as caught:
        place.read()
    first, second = caught.value.problems
    assert first.startswith(f"{place.user}: {problem}")
    assert second.startswith(f"{place.project}, line 1: turns")


def test_what_is_no_readable_file_is_a_problem_and_never_waited_for(place):
    """A folder, a pipe, or a link that leads nowhere in the place of the file."""
    place.user.mkdir()
    os.mkfifo(place.project)
    with pytest.raises(SettingsError) as caught:
        place.read()
    assert [problem.partition(": ")[0] for problem in caught.value.problems] == [
        str(place.user),
        str(place.project),
    ]
    place.user.rmdir()
    place.user.symlink_to("gone")
    place.project.unlink()
    with pytest.raises(SettingsError, match="cannot be read"):
        place.read()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_a_problem(place):
    """The system's reason is given."""
    place.user.write_text("turns = 1")
    place.user.chmod(0)
    with pytest.raises(SettingsError, match="Permission denied"):
        place.read()


def test_a_byte_order_mark_is_no_mistake(place):
    """Some editors write one."""
    place.user.write_bytes(b"\xef\xbb\xbfturns = 3\r\n")
    assert place.read().get(TopSettings).turns == 3


def test_explain_shows_every_value_with_its_source_and_no_secret(place):
    """One row for each setting; a secret is set or not set."""
    settings = place.load(
        "[reach]\napi_key = 'hunter2'\n[reach.servers.x]\ncommand = 'y'\ntoken = 'hunter2'\n"
        "[[reach.mirrors]]\ncommand = 'z'\ntoken = 'hunter2'",
        environ={"ORCHARD_REACH_ENDPOINT": "http://here"},
    )
    rows = {row.key: row for row in settings.explained}
    assert "hunter2" not in repr(settings.explained)
    assert rows["reach.api_key"].value == "set"
    assert rows["reach.api_key"].secret
    assert rows["reach.servers.x.token"].value == "set"
    assert rows["reach.mirrors"].value == "set"
    assert rows["reach.servers.x.command"].source == str(place.user)
    assert rows["reach.endpoint"].source == "ORCHARD_REACH_ENDPOINT"
    assert rows["reach.endpoint"].help == "Where to ask."
    assert rows["shell.limits.memory"].value == 512
    assert rows["roles"].value == {}
    assert rows["plugins.allow"].source == "default"
    empty = {row.key: row for row in place.load().explained}
    assert empty["reach.api_key"].value == "not set"


def test_a_wrong_secret_is_not_shown(place):
    """Not even in the message about it."""
    (problem,) = place.problems("[reach]\napi_key = ['hunter2']")
    assert problem.endswith("reach.api_key: found a value that is not shown, expected a string")


def test_a_section_is_given_by_class(place):
    """An unknown class is an error that says how sections are found."""
    settings = place.load("shell.timeout = 5", sections=[ShellSettings])
    assert settings.get(ShellSettings).timeout == 5.0
    with pytest.raises(PluginError, match=r"ReachSettings\. Load it\."):
        settings.get(ReachSettings)


def test_sections_are_frozen_have_defaults_and_are_found_in_a_module():
    """Each class once, under however many names; nested tables and other things are no sections."""
    module = types.ModuleType("some_plugin")
    module.A = module.B = ShellSettings  # type: ignore[attr-defined]
    module.Server, module.other = Server, 5  # type: ignore[attr-defined]
    assert sections_of(module) == [ShellSettings]
    with pytest.raises(AttributeError):
        ShellSettings().timeout = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        ShellSettings(5.0)  # type: ignore[misc]
    with pytest.raises(PluginError, match="key needs a default"):

        @section("bad")
        class Bad:
            key: str = setting(help="No default.")


def test_one_section_cannot_be_declared_by_two_classes(place):
    """The same class twice is no clash."""

    @section("shell")
    class Other:
        x: int = setting(default=1, help="X.")

    place.load(sections=[ShellSettings, ShellSettings])
    with pytest.raises(PluginError, match=r"\[shell\]"):
        place.load(sections=[ShellSettings, Other])


def test_folders_follow_the_environment(tmp_path):
    """ORCHARD_CONFIG and ORCHARD_DATA, then the XDG variables (absolute ones), then the home
    folder.
    """
    home = {"HOME": str(tmp_path)}
    assert ORCHARD.config_folder(home) == tmp_path / ".config" / "orchard"
    assert ORCHARD.data_folder(home) == tmp_path / ".local" / "share" / "orchard"
    assert ORCHARD.config_folder({**home, "XDG_CONFIG_HOME": "/c"}) == Path("/c/orchard")
    assert (
        ORCHARD.data_folder({**home, "XDG_DATA_HOME": "relative"})
        == tmp_path / ".local" / "share" / "orchard"
    )
    assert ORCHARD.config_folder({**home, "XDG_CONFIG_HOME": "/c", "ORCHARD_CONFIG": "/x"}) == Path(
        "/x"
    )
    assert ORCHARD.data_folder({**home, "ORCHARD_DATA": "/y"}) == Path("/y")


def test_mistakes_come_with_the_hints_of_the_application(tmp_path):
    """One hint is for mistakes in settings, another for sections that were not loaded."""
    environ = {"TWO_TREES_CONFIG": str(tmp_path), "TWO_TREES_TURNS": "0"}
    app = App("two-trees", hint="Look.", unloaded="Load.")
    with pytest.raises(SettingsError) as caught:
        app.load([TopSettings], environ=environ)
    problem = "environment TWO_TREES_TURNS: turns: found 0, expected a whole number of at least 1"
    assert caught.value.problems == [problem]
    assert str(caught.value) == f"The settings have a mistake:\n  {problem}\nLook."
    with pytest.raises(PluginError) as missing:
        app.load([TopSettings], environ=environ, strict=False).get(ShellSettings)
    assert str(missing.value) == "No settings were loaded for ShellSettings. Load."


def test_a_name_without_near_ones_gets_all_there_are(place):
    """So that nobody has to guess."""
    (problem,) = place.problems("[shell.limits]\nzzz = 1")
    assert problem == f"{place.user}, line 2: unknown key shell.limits.zzz. Known: cpu, memory."


def test_raw_text_is_text():
    """What the command line gives can be shown as it was typed."""
    assert Raw("5") == "5"


CHECK = """
import sys
from hilum.settings import App, section, setting

@section("")
class TopSettings:
    turns: int = setting(default=25, help="Most rounds.")

settings = App("orchard").load([TopSettings], environ={"ORCHARD_CONFIG": sys.argv[1]})
assert settings.get(TopSettings).turns == int(sys.argv[2])
settings.explained
print(*sorted({"tomllib", "tomlkit", "difflib", "trio", "msgspec"} & set(sys.modules)))
"""


def test_nothing_to_read_costs_no_import(place):
    """The parser is imported only when there is something to parse."""

    def imported(turns: str) -> str:
        command = [sys.executable, "-c", CHECK, str(place.user.parent), turns]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=60
        ).stdout.strip()

    assert imported("25") == ""
    place.user.write_text("turns = 7")
    assert imported("7") == "tomllib"


SPREAD = """\
# turns = 0
model = '''
turns = 0
'''
"turns" = 0
[shell]  # timeout
  timeout = "5"
limits.memory = 0
[roles]
"a.b" = 1
[reach.servers.x]
command = "x"
args = [
  "a",
  5,
]
[[reach.mirrors]]
command = "y"
[[reach.mirrors]]
command = 7
"""


@pytest.mark.parametrize("start", ["", "\ufeff", "\r\n"], ids=["plain", "mark", "windows"])
def test_every_mistake_has_its_line(place, start):
    """A key in a comment, in a text or in another table is not that key."""
    text = SPREAD
    if start == "\r\n":
        text = text.replace("\n", "\r\n")
    else:
        text = start + text
    place.user.write_bytes(text.encode())
    with pytest.raises(SettingsError) as caught:
        place.read()
    found = [problem.removeprefix(f"{place.user}, ") for problem in caught.value.problems]
    assert [problem.partition(": found")[0] for problem in found] == [
        "line 5: turns",
        "line 7: shell.timeout",
        "line 8: shell.limits.memory",
        "line 10: roles.a.b",
        "line 13: reach.servers.x.args[1]",
        "line 20: reach.mirrors[1].command",
        "line 20: reach.mirrors[1].command: missing, expected a string",
    ]


def test_a_line_is_looked_for_only_as_long_as_it_is_cheap(place):
    """A project's file must not slow hilum down: where it is large, the file alone is named."""
    text = "x = 0\n" + "# x\n" * 6_000 + "turns = 'x'\n"
    assert [problem.partition(" ")[0] for problem in place.problems("", text)] == [
        f"{place.project}:",
        f"{place.project}:",
    ]


def test_an_ignored_value_of_a_project_has_its_line(place):
    """So that the warning leads to the line as well."""

    @section("")
    class LowTurns:
        turns: int = setting(default=25, project="lower", help="Turns.")

    settings = place.load("turns = 5", "# more\nturns = 50", sections=[LowTurns])
    (ignored,) = settings.ignored
    assert ignored.startswith(f"{place.project}, line 2: turns = 50 is ignored: ")
