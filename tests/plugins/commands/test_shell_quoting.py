"""Arguments in shell inserts: a real bash reads them as the words that the user typed, or nothing runs."""

import subprocess

import attrs
import pytest
from hilum_commands.arguments import read_arguments
from hilum_commands.shell_quoting import UnsafeArgument, fill_command
from hilum_commands.template import ShellInsert, split_template
from hypothesis import given, settings
from hypothesis import strategies as st

HOSTILE = [
    "; rm -rf /",
    "`touch pwned`",
    "$(touch pwned)",
    "${IFS}x",
    "a\ntouch pwned",
    "'; touch pwned; '",
    '"; touch pwned; "',
    "\\",
    "a'b\"c",
    "!history",
    "x && touch pwned",
    "| tee pwned",
    "> pwned",
    "~root",
    "*",
    "}} !{touch pwned}",
    "a[$(touch pwned)]",
]
# Each prints one argument for each line that ends with a NUL.
TEMPLATES = [
    "printf '%s\\0' $1",
    'printf "%s\\0" "$1"',
    "printf '%s\\0' '$ARGUMENTS'",
    'printf "%s\\0" "<$1>"',
    "printf '%s\\0' pre$1-post",
    'printf "%s\\0" "$(printf %s $1)"',
    'printf "%s\\0" "$(printf %s "$1")"',
]


def fill(template, value):
    (insert,) = split_template(f"!`{template}`", "claude")
    assert isinstance(insert, ShellInsert)
    arguments = read_arguments("", [insert], last_takes_rest=False)
    arguments = attrs.evolve(arguments, text=value, words=(value,))
    return fill_command(insert.parts, arguments)


def run(line, folder):
    done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, timeout=20)
    assert not (folder / "pwned").exists(), line
    return done.stdout.decode()


@pytest.mark.parametrize("template", TEMPLATES)
def test_bash_reads_an_argument_as_it_was_typed(template, tmp_path):
    """All hostile arguments are tried in one bash."""
    lines = [fill(template, value) for value in HOSTILE]
    printed = run("\n".join(lines), tmp_path).split("\0")[:-1]
    shape = "<{}>" if "<" in template else "pre{}-post" if "pre" in template else "{}"
    assert printed == [shape.format(value) for value in HOSTILE]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), max_size=6)
)
def test_any_text_arrives(tmp_path_factory, values):
    lines = [fill(template, value) for value in values for template in TEMPLATES[:3]]
    printed = run("\n".join(lines) or ":", tmp_path_factory.mktemp("any")).split("\0")[:-1]
    assert printed == [value for value in values for _ in range(3)]


@pytest.mark.parametrize(
    "template",
    [
        "cat <<END\n$1\nEND".replace("\n", " "),
        "[[ $1 -eq 1 ]]",
        "echo $(( $1 + 1 ))",
        "echo ${x:-$1}",
        'eval "ls $1"',
        'bash -c "ls $1"',
        "case x in x) echo $1;; esac",
        "echo a;# $1",
        "# $1",
        "echo \\$1",
        "let x=$1",
        'awk "/$1/" x',
        'sed -n "$1" x',
        "ssh host ls $1",
        "make $1",
    ],
)
def test_where_quotes_do_not_protect_only_plain_arguments_are_accepted(template):
    for value in HOSTILE:
        if value in ("~root",):
            continue
        with pytest.raises(UnsafeArgument):
            fill(template, value)
    assert "src/a-1.py" in fill(template, "src/a-1.py")


def test_a_nul_is_refused():
    with pytest.raises(UnsafeArgument):
        fill("ls $1", "a\0b")


def test_the_words_of_all_arguments_stay_apart(tmp_path):
    (insert,) = split_template("!{printf '<%s>' {{args}}}", "gemini")
    arguments = read_arguments("-n 'two words' $(id)", [insert], last_takes_rest=False)
    assert run(fill_command(insert.parts, arguments), tmp_path) == "<-n><two words><$(id)>"


def test_variables_of_awk_are_no_places():
    """In single quotes, a number is part of another language."""
    assert fill("ps | awk '{print $1, $2}'", "; id") == "ps | awk '{print $1, $2}'"
