"""Commands nobody designed for: mutated tables, wrapped destruction, texts built to be slow."""

import random
import shlex
import time
import tracemalloc
from pathlib import Path

import pytest
from hilum_guard import judge_command

TABLES = Path(__file__).parent / "command_tables"
PIECES = [
    *" \t\n'\"\\;&|><(){}$`*?[]!#~=-,./é\x00\r\x1b",
    *[
        "&&",
        "||",
        "$(",
        "<<",
        "<<<",
        "${",
        "\\\n",
        "$'",
        '$"',
        ">(",
        "<(",
        "\u202e",
        "\ud800",
        "\U000f1000",
        "\ue000",
    ],
    *["EOF", "if ", "case ", "rm ", "x=", "~root", "{a,b}", " ; ", " | ", "function "],
]
# Each gives a text that does what the text it is given does, or does it too.
SAME = {
    "after": lambda s: f"ls; {s}",
    "after a failure": lambda s: f"false || {{ {s}\n}}",
    "background": lambda s: f"ls & {s}",
    "beside": lambda s: f"git status | cat; {s}",
    "blank": lambda s: f" \n{s}\n",
    "condition": lambda s: f"if true; then {s}\nfi",
    "eval": lambda s: f"eval {shlex.quote(s)}",
    "function": lambda s: f"f() {{ {s}\n}}; f",
    "group": lambda s: f"{{ {s}\n}}",
    "here-string": lambda s: f"bash <<< {shlex.quote(s)}",
    "inner shell": lambda s: f"sh -ec {shlex.quote(s)}",
    "line": lambda s: f"set -e\n{s}",
    "piped in": lambda s: f"echo {shlex.quote(s)} | bash",
    "privileged": lambda s: f"sudo -n sh -c {shlex.quote(s)}",
    "sourced": lambda s: f". <(echo {shlex.quote(s)})",
    "subshell": lambda s: f"( {s}\n)",
    "substituted": lambda s: f'echo "$({s}\n)"',
    "tabs": lambda s: s.replace(" ", "\t"),
    "timed": lambda s: f"timeout 9 bash -c {shlex.quote(s)}",
    "trap": lambda s: f"trap {shlex.quote(s)} EXIT",
    "variable": lambda s: f'x={shlex.quote(s)}; eval "$x"',
}
SLOW = {
    "a megabyte": "a" * 1_000_000,
    "a megabyte of words": "a " * 500_000,
    "10,000 parentheses": "(" * 10_000 + ")" * 10_000,
    "parentheses that fit": "( " * 3_000 + "ls" + " )" * 3_000,
    "substitutions": "$(" * 7_000,
    "parameters": "${" * 7_000,
    "back quotes": "`" * 15_000,
    "quotes": '"$(' * 5_000,
    "here-documents": "cat <<A\n" * 19 + "x\n" * 3_000,
    "commands": "echo a; " * 1_900,
    "words": "ls -la " * 2_200,
    "redirections": "ls " + ">a " * 4_000,
    "braces": "echo " + "{a,b}" * 40,
    "open braces": "echo " + "{" * 5_000,
    "doubling": "a=aaaaaaaaaa;" + "a=$a$a$a$a;" * 100 + "$a",
    "circles": "f(){ g; g; g; };g(){ f; f; f;};f",
    "loops": "for a in 1 2 3 4 5 6 7 8 9 10; do " * 8 + "ls;" + "done;" * 8,
    "evals": "eval " * 3_000 + "ls",
    "wrappers": "sudo " * 3_000 + "ls",
    "awk": "awk '{print" + " $1" * 4_000 + "!}' x",
    "awk in one": "awk '{print " + "$1 " * 4_000 + '" x',
    "sed": "sed 's/" + "\\a" * 4_000 + "' x",
    "sed spaces": "sed '" + " " * 14_000 + "!' x",
    "jq": "jq '" + ".a|" * 3_000 + "!' x",
    "patterns": "rm -rf /" + "*a" * 2_000 + "b",
    "brackets": "rm " + "[" * 15_000,
    "parts of a long value": "x=" + "a" * 4_000 + "; " + "echo ${x%%*a*b}; " * 390,
    "loops over loops": "for a in /*; do " * 8 + 'rm "$a/x";' + "done;" * 8,
    "lines": "printf '" + "a\\n" * 3_000 + "' | while read f; do " + "ls $f; " * 20 + "done",
    "a pattern for a program": "/" + "*a" * 2_000 + "b x",
}


def table(name):
    """The commands of a table."""
    lines = (TABLES / f"{name}.txt").read_text().splitlines()
    return [
        line.replace("⏎", "\n")
        for line in lines
        if line.strip() and not line.startswith(("# ", "## "))
    ]


def mutated(text, chance, others):
    """A text with a few pieces put in, taken out, or swapped."""
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(0, len(text))
        text = chance.choice(
            [
                lambda t, at: t[:at] + chance.choice(PIECES) + t[at:],
                lambda t, at: t[:at] + t[at + 1 :],
                lambda t, at: (
                    t[:at]
                    + chance.choice([" ; ", " | ", "\n", ""])
                    + chance.choice(others)
                    + t[at:]
                ),
                lambda t, at: t[at:] + t[:at],
            ]
        )(text, at)
    return text


@pytest.mark.parametrize("seed", range(8))
def test_no_text_crashes_the_reader(seed, trials, judged_workspace):
    """Mutated commands get a verdict, fast; nothing inside the reader was tripped over."""
    chance = random.Random(seed)
    lines = table("destructive") + table("ambiguous") + table("harmless")
    for _ in range(trials(80, 250)):
        text = mutated(chance.choice(lines), chance, lines)
        begun = time.process_time()
        verdict = judge_command(text, workspace=judged_workspace)
        assert time.process_time() - begun < 1, text
        assert verdict.kind in {"block", "ask", "auto"}, text
        assert "could not be read (" not in verdict.reason, text


@pytest.mark.slow(cases=10)
@pytest.mark.parametrize("name", SAME)
def test_a_destructive_command_is_never_harmless_in_another_dress(name, trials, judged_workspace):
    """Dressed once, and once more at random: at most a few are asked, none passes."""
    chance = random.Random(name)
    asked = []
    lines = [
        line for line in table("destructive") if "WORKSPACE" not in line and "HOME" not in line
    ]
    lines = chance.sample(lines, trials(100, len(lines)))
    for line in lines:
        text = SAME[name](line)
        if chance.random() < 0.3:
            text = SAME[chance.choice(sorted(SAME))](text)
        verdict = judge_command(text, workspace=judged_workspace)
        assert verdict.kind != "auto", text
        asked += [text] if verdict.kind == "ask" else []
    assert len(asked) < len(lines) / 20, asked


@pytest.mark.parametrize("name", SLOW)
def test_texts_built_to_be_slow_are_decided_at_once(name, judged_workspace):
    """Every limit fails closed, and soon."""
    begun = time.process_time()
    verdict = judge_command(SLOW[name], workspace=judged_workspace)
    assert time.process_time() - begun < 1
    assert verdict.kind == "ask"


HUGE = [
    "seq 1 99999999999",
    "for i in $(seq 1 99999999999); do rm x$i; done",
    "seq 1 99999999999 | xargs -I{} rm x{}",
    "echo {1..99999999}",
    "echo {1..999999999}{1..999999999}",
    "echo {-999999999..999999999}",
    "echo {1..9999999999999999999999}",
    "for i in {1..99999999}; do rm x$i; done",
    "for ((i=0;i<99999999999;i++)); do rm x$i; done",
    "echo {a..z}{a..z}{a..z}{a..z}{a..z}{a..z}",
    "printf %099999999d 1",
    "printf '%0999999999s' x | sh",
    "x=$(printf %099999999d 1); rm $x",
    "printf %s {1..99999999} | sh",
    "echo $((9**9**9**9))",
    "x=abc; echo ${x:0:99999999999}",
    "python3 -c 'print(\"a\"*99999999999)' | sh",
    "python3 -c 'print(9**9**9**9)' | sh",
    "yes | head -n 999999999999 | xargs rm",
    "find . -maxdepth " + "9" * 5_000 + " -exec rm {} +",
    "set -- {1..99999999}; for a; do rm $a; done",
]


@pytest.mark.parametrize("text", HUGE, ids=range(len(HUGE)))
def test_a_huge_number_is_not_counted_to(text, judged_workspace):
    """What a text would print or repeat costs the reader nothing: neither memory nor steps."""
    judge_command("ls", workspace=judged_workspace)  # loads the grammar
    tracemalloc.start()
    try:
        verdict = judge_command(text, workspace=judged_workspace)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000
    assert len(verdict.all_commands) <= 100
    assert sum(len(word) for each in verdict.all_commands for word in each.words) < 100_000


def test_a_text_that_does_not_parse_is_asked(judged_workspace):
    """Cut off anywhere inside a quote, a group or a substitution, nothing is harmless."""
    for text in (
        "ls 'a",
        'ls "a',
        "ls $(pwd",
        "ls `pwd",
        "(ls",
        "{ ls",
        "if ls; then",
        "for x in a; do ls",
        "ls )",
    ):
        assert judge_command(text, workspace=judged_workspace).kind == "ask", text


def test_commands_of_powershell_are_asked(judged_workspace, monkeypatch):
    """There is no grammar for them here."""
    monkeypatch.setattr("sys.platform", "win32")
    for text in ("ls", "Remove-Item -Recurse -Force C:\\", "rm -rf /"):
        assert judge_command(text, workspace=judged_workspace).kind == "ask"
