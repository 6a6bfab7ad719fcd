import io
import json

import pytest
from hilum import UsageError
from hilum.command import Parser, add_session_options, escape_terminal, say, say_json


def test_wrong_arguments_are_an_error_with_the_nearest_option():
    parser = Parser("hilum words", "Count.")
    parser.add_argument("--session")
    with pytest.raises(UsageError, match="Unrecognized arguments: --sesion=3") as found:
        parser.parse_args(["--sesion=3"])
    assert found.value.hint == "Did you mean --session?"
    with pytest.raises(UsageError) as found:
        parser.parse_args(["--session"])
    assert found.value.hint == "hilum words --help lists its options."


def test_options_for_settings_and_plugins_may_be_repeated():
    parser = Parser("hilum words")
    add_session_options(parser)
    words = "--set a=1 --set b=2 --plugin p.py --plugin q.py --no-plugin a,b --no-plugin c"
    options = parser.parse_args(words.split())
    assert options.set == ["a=1", "b=2"]
    assert options.plugin == ["p.py", "q.py"]
    assert options.no_plugin == ["a", "b", "c"]
    assert not hasattr(options, "plugins")
    # The lists of one command line are not those of the next.
    empty = parser.parse_args([])
    assert (empty.set, empty.plugin, empty.no_plugin) == ([], [], [])


def test_a_command_may_let_the_user_name_all_plugins():
    parser = Parser("hilum words")
    add_session_options(parser, only=True)
    assert parser.parse_args([]).plugins is None
    assert parser.parse_args(["--plugins", "a,b", "--plugins", "c"]).plugins == ["a", "b", "c"]


def test_options_are_never_shortened():
    parser = Parser("hilum words")
    parser.add_argument("--session")
    with pytest.raises(UsageError):
        parser.parse_args(["--sess", "3"])


@pytest.mark.parametrize(
    "hostile",
    [
        "\x1b]0;title\x07",
        "\x1b[2J",
        "a\rb",
        "\x9b31m",
        "\u202eexe.txt",
        "zero\u200bwidth",
        "\ud800",
        "\U000e0041",
        "\x00",
    ],
)
def test_a_terminal_obeys_nothing(hostile):
    shown = escape_terminal(hostile)
    assert shown.isprintable()
    assert shown != hostile


def test_lines_tabs_and_other_scripts_stay():
    text = "a\tb\nüber 中文 😀"
    assert escape_terminal(text) == text


def test_what_the_locale_cannot_show_is_escaped():
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    say("中\x1b", to=out)
    out.seek(0)
    assert out.read() == "\\u4e2d\\x1b\n"


def test_json_keeps_what_a_terminal_would_obey(capsys):
    data = {"name": "\x1b[2J\u202e 中文"}
    say_json(data)
    text = capsys.readouterr().out
    assert json.loads(text) == data
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "中文" in text
