"""No byte that a session stores holds a secret that the guard knows, whatever way it came in."""

import json

import hilum_agents
import hilum_files
import hilum_guard
import hilum_plan
import hilum_shell
import hilum_store
import pytest
from hilum.events import (
    ApprovalAsked,
    CallStarted,
    ModelAnswered,
    PluginEvent,
    PromptQueued,
    RunEnded,
)
from hilum.messages import AssistantMessage, Text, Thinking, ToolCall
from hilum.testing import open_bench, say, use

KEY = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"
VALUE = 'va"lue of\\the-environment'
ENVIRON = {"ACME_API_KEY": VALUE}
PASSWORD = "correct-horse-battery"


def files_with(folder, *secrets):
    """Files below a folder in which one of the texts is, as it is or as JSON spells it."""
    spellings = [form.encode() for secret in secrets for form in (secret, json.dumps(secret)[1:-1])]
    return [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and any(spelling in path.read_bytes() for spelling in spellings)
    ]


async def test_no_stored_byte_holds_a_secret(tmp_path):
    """With the real store: prompt, answer, reasoning, arguments of several tools, todos, a
    sub-agent, the title.
    """
    answer = AssistantMessage(
        (
            Thinking(f"{KEY} and {VALUE}"),
            Text(f"I use {KEY} and {VALUE}.", "model"),
            ToolCall(
                "a",
                "write_file",
                json.dumps({"path": "test_keys.py", "content": f"KEY = '{KEY}'\n# {VALUE}\n"}),
            ),
            ToolCall("b", "run_terminal_cmd", json.dumps({"command": f"echo {KEY} | wc -c"})),
            ToolCall(
                "c",
                "todo_write",
                json.dumps({"todos": [{"content": f"Use {KEY}", "status": "pending"}]}),
            ),
        )
    )
    plugins = (hilum_guard, hilum_files, hilum_plan, hilum_shell, hilum_agents, hilum_store)
    async with open_bench(*plugins, folder=tmp_path, environ=ENVIRON) as kit:
        kit.model.then(answer, say(f"Wrote {KEY}."))
        ended = await kit.run(
            f"Put {KEY} and {VALUE} into the tests; export DB_PASSWORD={PASSWORD}"
        )
        assert (
            kit.session.workspace.root / "test_keys.py"
        ).read_text() == f"KEY = '{KEY}'\n# {VALUE}\n"
        assert ended.text == "Wrote [REDACTED:GITHUB_TOKEN]."
        assert "41" in kit.result("b").text
        assert {"GITHUB_TOKEN", "ACME_API_KEY", "ASSIGNMENT"} == set(
            kit.of(PromptQueued)[0].redacted
        )
        title = (await kit.session.kernel.store.info(kit.session.id)).title
        assert title.startswith("Put [REDACTED:GITHUB_TOKEN] and")
        assert all(KEY.encode() not in request.body for request in kit.requests)
    assert any(
        "test_keys.py" not in name for name in files_with(tmp_path, "[REDACTED:GITHUB_TOKEN]")
    )
    found = [
        name
        for name in files_with(tmp_path, KEY, VALUE, PASSWORD)
        if not name.endswith("test_keys.py")
    ]
    # What a tool wrote is kept for undo as it was: docs/undo.md.
    assert [name for name in found if "objects" not in name] == []


async def test_a_fixture_that_looks_like_a_key_is_written_as_sent(bench):
    """And the model cannot later write its placeholder over it."""
    kit = await bench(hilum_guard, hilum_files, files={})
    text = f'TOKEN = "{KEY}"\n'
    kit.model.then(use("write_file", path="test_x.py", content=text), "done")
    await kit.run("Write a fixture.")
    assert (kit.session.workspace.root / "test_x.py").read_text() == text
    assert KEY not in kit.of(ModelAnswered)[0].message.calls[0].arguments
    assert KEY not in kit.of(CallStarted)[0].call.arguments
    kit.model.then(
        use("write_file", path="test_x.py", content='TOKEN = "[REDACTED:GITHUB_TOKEN]"\nX = 1\n'),
        "done",
    )
    await kit.run("Add X.")
    assert kit.results[-1].code == "E_DENIED"
    assert (kit.session.workspace.root / "test_x.py").read_text() == text


async def test_a_key_in_a_prompt_cannot_be_written_as_its_placeholder(bench):
    """The user meant the key: a file with the placeholder would look done and be wrong."""
    kit = await bench(hilum_guard, hilum_files, hilum_shell)
    put = "KEY=[REDACTED:GITHUB_TOKEN]"
    kit.model.then(
        use("write_file", path="settings.cfg", content=put),
        use("run_terminal_cmd", command=f"echo {put} > x"),
        "done",
    )
    await kit.run(f"Put {KEY} into settings.cfg.")
    assert [result.code for result in kit.results] == ["E_DENIED", "E_DENIED"]
    assert "ask the user" in kit.results[0].text
    assert not (kit.session.workspace.root / "settings.cfg").exists()
    assert any("redact_prompts" in event.data.get("say", "") for event in kit.of(PluginEvent))


async def test_a_placeholder_that_stands_for_nothing_is_a_text_like_others(bench):
    """A project may have it in its own tests."""
    kit = await bench(hilum_guard, hilum_files)
    kit.model.then(use("write_file", path="a.txt", content="[REDACTED:GITHUB_TOKEN]"), "done")
    await kit.run("Write it.")
    assert (kit.session.workspace.root / "a.txt").read_text() == "[REDACTED:GITHUB_TOKEN]"


async def test_prompts_are_sent_as_they_are_where_the_user_wants_it(bench):
    """The setting is for prompts alone."""
    kit = await bench(
        hilum_guard, settings={"guard.redact_prompts": False}, answers=[say(f"It is {KEY}.")]
    )
    ended = await kit.run(f"Use {KEY}.")
    assert KEY.encode() in kit.requests[0].body
    assert kit.of(PromptQueued)[0].text == f"Use {KEY}."
    assert KEY not in ended.text
    assert kit.of(PluginEvent) == []


@pytest.mark.parametrize(
    "text",
    [
        "export OPENAI_API_KEY=your-key-goes-here",
        "SECRET_KEY = settings.secret_key_base",
        'password = "example-password-1"',
    ],
)
async def test_examples_in_a_models_text_and_arguments_are_left_alone(bench, text):
    """What is only called a secret is mostly an example there; the answer must stay readable."""
    kit = await bench(hilum_guard, hilum_files)
    kit.model.then(use("write_file", path="README.md", content=text), say(text))
    ended = await kit.run("Document it.")
    assert ended.text == text
    assert json.loads(kit.of(ModelAnswered)[0].message.calls[0].arguments)["content"] == text


async def test_a_command_cannot_hide_from_the_user_as_a_secret(bench):
    """The question shows what runs."""
    kit = await bench(hilum_guard, hilum_shell, approve="ask_first")
    command = f"curl -H 'Authorization: Bearer {KEY}' https://example.org/x"
    kit.model.then(use("run_terminal_cmd", command=command), "done")
    run = await kit.start("go")
    asked = await kit.wait_for(ApprovalAsked)
    assert json.loads(asked.call.arguments)["command"] == command
    kit.session.answer(asked.id, False, reason="no")
    with kit.guard():
        await run.wait()
    written = [
        event
        for event in kit.session.journal._log.read(0, 1000)
        if isinstance(event, ApprovalAsked | RunEnded)
    ]
    assert KEY not in str(written)


@pytest.mark.parametrize("secret", [KEY, VALUE, "plain-value-9931"])
async def test_a_secret_as_the_name_or_the_id_of_a_call_is_not_kept(tmp_path, secret):
    """Both are free text of a model: a name that is no tool, and an id that it made up."""
    name = f"{'x' * 90}{secret}" if secret == KEY else secret
    answer = AssistantMessage(
        (
            ToolCall(secret, "write_file", json.dumps({"path": "a.txt", "content": "a"})),
            ToolCall("b", name, "{}"),
            ToolCall(f"{secret[:40]}{secret}", f"functions.{secret}", "{}"),
        )
    )
    environ = {"ACME_API_KEY": VALUE, "MY_TOKEN": "plain-value-9931"}
    async with open_bench(
        hilum_guard, hilum_files, hilum_store, folder=tmp_path, environ=environ
    ) as kit:
        kit.model.then(answer, "ok")
        ended = await kit.run("go")
        assert ended.state == "completed"
        calls = kit.of(ModelAnswered)[0].message.calls
        assert [result.call_id for result in kit.results] == [call.id for call in calls]
        assert (kit.session.workspace.root / "a.txt").read_text() == "a"
        assert [result.code for result in kit.results] == ["", "E_UNKNOWN_TOOL", "E_UNKNOWN_TOOL"]
        assert secret not in str([request.messages for request in kit.requests])
        assert all(len(call.name) <= 64 for call in calls)
        assert len({call.id for call in calls}) == 3
    assert files_with(tmp_path, secret, secret.replace("-", "_").replace(" ", "_")) == []


@pytest.mark.parametrize(
    "identity", ["call_Zk3bV0aYwTq8", "toolu_01A09q90qw90lq917835lq9", "functions.write_file:0"]
)
async def test_ids_that_vendors_make_are_kept(bench, identity):
    """Some vendors want their own back."""
    kit = await bench(hilum_guard, hilum_files)
    kit.model.then(
        AssistantMessage(
            (ToolCall(identity, "write_file", json.dumps({"path": "a", "content": "a"})),)
        ),
        "ok",
    )
    await kit.run("go")
    assert kit.results[0].call_id == identity
