"""The key `runner` of agents' files: the program that does an agent's work."""

import pytest
from hilum_agents import load_definition
from hilum_agents.definitions.runner import DEFAULT_TURNS, Runner


@pytest.fixture
def load(tmp_path):
    """Load the file of an agent that has some more front matter and no prompt."""

    def make(more, **options):
        file = tmp_path / ".hilum/agents/a.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"---\nkind: agent\nname: a\ndescription: d\n{more}\n---\n")
        return load_definition(file, **options)

    return make


@pytest.mark.parametrize(
    ("written", "runner"),
    [
        ("{command: codex-acp}", Runner(("codex-acp",))),
        ("{command: 'agent --say \"two words\"'}", Runner(("agent", "--say", "two words"))),
        ("{command: [agent, two words]}", Runner(("agent", "two words"))),
        ("{command: a, env: {N: 1, T: x}}", Runner(("a",), {"N": "1", "T": "x"})),
        ("{command: a, network: true}", Runner(("a",), network=True)),
        ("{command: a, network: false}", Runner(("a",))),
    ],
)
def test_a_runner_is_read(load, written, runner):
    definition = load(f"runner: {written}")
    assert definition.runner == runner
    assert not definition.error
    assert not definition.problems
    # A program needs no prompt, and takes the place of the model.
    assert definition.profile().model == "guest/a"
    assert definition.turns == DEFAULT_TURNS


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("codex-acp", "must be a mapping"),
        ("{}", "needs a command"),
        ("{command: ''}", "needs a command"),
        ("{command: []}", "needs a command"),
        ("{command: {a: b}}", "needs a command"),
        ("{command: 'a \"b'}", "cannot be split"),
        ("{comand: a}", "did you mean command?"),
        ("{command: a, env: [x]}", "needs a mapping for env"),
        ("{command: a, env: {'A=B': x}}", "invalid entry 'A=B'"),
        ("{command: a, env: {A: [x]}}", "invalid entry 'A'"),
        ("{command: a, network: sometimes}", "needs true or false"),
        ("{command: a, network: [true]}", "needs true or false"),
    ],
)
def test_a_file_with_an_invalid_runner_is_not_loaded(load, written, message):
    """Without its program, the agent would be another one."""
    definition = load(f"runner: {written}")
    assert definition.runner is None
    assert definition.error
    assert any(message in problem.message for problem in definition.problems)


def test_files_of_other_programs_start_nothing(load):
    definition = load("runner: {command: evil}", dialect="claude")
    assert "Only hilum's own agent files" in definition.error


def test_limits_of_the_file_apply_to_a_program(load):
    profile = load("runner: {command: a}\nlimits: {turns: 7, token_limit: 100}").profile()
    assert (profile.turns, profile.token_limit) == (7, 100)
