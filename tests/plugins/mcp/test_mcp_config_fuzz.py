"""Random configuration files: no exception, no key ignored silently, no value expanded twice."""

import json
from pathlib import Path

import attrs
import pytest
from hilum import UsageError
from hilum_mcp import read_config
from hilum_mcp.config_reader import TABLES
from hilum_mcp.entries import ADDRESS_KEYS, ADDRESSES, DESCRIPTIVE_KEYS, PROGRAM_KEYS
from hilum_mcp.expansion import Values, expand
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

OTHERS = """command cmd type transport enabled disabled tools includeTools excludeTools enabled_tools disabled_tools
available_tools timeout startup_timeout_sec tool_timeout_sec trust autoApprove alwaysAllow description unheard"""
KEYS = sorted({*ADDRESSES, *PROGRAM_KEYS, *ADDRESS_KEYS, *OTHERS.split()})
texts = st.text(max_size=8) | st.sampled_from(
    [
        "npx",
        "stdio",
        "http",
        "sse",
        "ws",
        "remote",
        "https://x.example/mcp",
        "a b",
        "'",
        "${X}",
        "$X",
        "true",
        "off",
        "30",
        "*",
        "\0",
        "\ud800",
    ]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 100_000) | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
likely = st.fixed_dictionaries(
    {},
    optional={
        "command": texts, "args": st.lists(texts, max_size=3), "env": st.dictionaries(texts, texts, max_size=2),
        "url": st.just("https://x.example/mcp"), "headers": st.dictionaries(texts, texts, max_size=2), "type": texts,
    },
)  # fmt: skip
entries = st.builds(
    lambda one, two: {**two, **one},
    likely,
    st.dictionaries(st.sampled_from(KEYS), values, max_size=4),
)
TOOL_LISTS = ("tools", "includeTools", "enabled_tools")
tables = st.sampled_from(TABLES)
names = st.sampled_from(["mcp.json", ".gemini/settings.json", "cline_mcp_settings.json"])
many = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def write(folder: Path, name: str, table: tuple[str, ...], servers: object) -> Path:
    """Write a file with a table of servers."""
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    data = servers
    for key in reversed(table):
        data = {key: data}
    path.write_text(json.dumps(data))
    return path


def plain(config):
    """Return the server of a file without its notes; nothing if it is left out."""
    return [attrs.evolve(server, notes=()) for server in config.servers.values()]


@many
@given(entry=entries, table=tables, name=names)
def test_each_key_has_an_effect_or_is_reported(tmp_path, entry, table, name):
    """Removing a key changes the server or the mistakes."""
    config = read_config(write(tmp_path, name, table, {"good": {"command": "x"}, "s": entry}))
    assert "good" in config.servers
    assert all(str(mistake) and mistake.line >= 0 for mistake in config.mistakes)
    for server in config.servers.values():
        assert server.digest.startswith("sha256:")
        assert server.prefix
        assert json.dumps(server.target)
    if "s" not in config.servers:
        assert any(mistake.server == "s" for mistake in config.mistakes)
        return
    told = " ".join(map(str, config.mistakes))
    for key, value in entry.items():
        if key in DESCRIPTIVE_KEYS or value in (None, "", [], {}) or key in told:
            continue
        less = {other: entry[other] for other in entry if other != key}
        if key in TOOL_LISTS and any(is_empty_list(less.get(other)) for other in TOOL_LISTS):
            continue  # a tool must be in each list, and another list has none
        if key in ADDRESSES and any(less.get(other) == value for other in ADDRESSES):
            continue  # the same address under another name
        without = read_config(write(tmp_path, name, table, {"good": {"command": "x"}, "s": less}))
        same = plain(config) == plain(without) and told == " ".join(map(str, without.mistakes))
        assert not same or restates(key, value), (key, value, told)


def is_empty_list(value: object) -> bool:
    """Return whether a list of tools names none."""
    if isinstance(value, str):
        return not value.strip(" ,\t\n")
    return value in ([], {})


def restates(key: str, value: object) -> bool:
    """Return whether a value only repeats a default: on, all tools, the obvious transport."""
    word = str(value).strip().lower()
    return (
        (key == "enabled" and word in ("true", "yes", "on", "1"))
        or (key == "disabled" and word in ("false", "no", "off", "0"))
        or (key in ("trust", "autoApprove", "alwaysAllow") and not value)
        or key in ("type", "transport", "oauth", "auth", "authorization")
        or (
            key in ("tools", "includeTools", "enabled_tools", "available_tools")
            and ("*" in value or word in ("", ","))
        )  # type: ignore[operator]
        or (
            key in ("requestInit", "scopes", "command", "cmd")
            or (isinstance(value, str) and not value.strip(" ,\t\n"))
        )
    )


@many
@given(data=values, ending=st.sampled_from(["json", "yaml", "toml"]))
def test_no_file_of_any_shape_raises(tmp_path, data, ending):
    """Any JSON in a file with any suffix is read."""
    path = tmp_path / f"mcp.{ending}"
    path.write_text(json.dumps(data))
    config = read_config(path)
    assert config.servers or config.mistakes or not data


@many
@given(
    data=st.binary(max_size=200)
    | st.text(alphabet='{}[]":,/*\\n \n-=abmcpServers', max_size=80).map(str.encode)
)
def test_no_bytes_raise(tmp_path, data):
    """This covers any bytes, and texts of the characters that the formats use."""
    for ending in ("json", "yaml", "toml"):
        path = tmp_path / f"mcp.{ending}"
        path.write_bytes(data)
        read_config(path)


@many
@given(
    text=st.text(alphabet="${}:-Xenvinputfile_ a", max_size=30),
    value=st.sampled_from(["", "v", "${Y}", "$Y", "{env:Y}"]),
)
def test_values_are_expanded_once(tmp_path, text, value):
    """The value of a variable is not searched for variables.

    A missing value is an error and not an empty text.
    """
    path = write(
        tmp_path,
        "mcp.json",
        ("mcpServers",),
        {"s": {"command": "x", "args": [text], "env": {"A": text}}},
    )
    servers = read_config(path).servers
    if "s" not in servers:
        return
    where = Values({"X": value, "Y": "SECRET"}, tmp_path, tmp_path)
    try:
        filled = expand(servers["s"], where)
    except UsageError:
        return
    if "Y" not in text:
        assert "SECRET" not in "".join([*filled.args, *filled.env.values()])


@pytest.mark.parametrize("size", [200_000])
@pytest.mark.parametrize("piece", ['"\\"', "/*", ",\n", "{", "//", '"a" : '])
def test_reading_takes_linear_time(tmp_path, piece, size):
    """For these texts a quadratic search of comments and commas would take hours."""
    path = tmp_path / "mcp.json"
    path.write_text('{"mcpServers": ' + piece * size)
    assert read_config(path).mistakes
