"""The guided set-up of a model, against real servers on the loopback interface."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from hilum import ProviderStatus, Session, open_standard_session
from hilum.errors import ModelError
from hilum.models import ModelInfo
from hilum.store import MemoryStore
from hilum_models import known_providers
from hilum_replay import serve
from hilum_terminal.model_texts import describe_model
from hilum_terminal.setup import EXPLANATION, LEFT, describe_policy, ensure_model, set_up
from scripted_asker import ScriptedAsker

KEY = "sk-secret-1234567890"
CLOSED = "http://127.0.0.1:9/v1"
LOCAL = ("OLLAMA_HOST", "LMSTUDIO_BASE_URL", "LLAMACPP_BASE_URL", "VLLM_BASE_URL")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment without models."""
    folders = {
        "HILUM_CONFIG": str(tmp_path / "config"),
        "HILUM_DATA": str(tmp_path / "data"),
        "HOME": str(tmp_path),
    }
    return folders | dict.fromkeys(LOCAL, CLOSED)


@asynccontextmanager
async def opened(tmp_path: Path, environ: dict[str, str]) -> AsyncIterator[Session]:
    folder = tmp_path / "project"
    folder.mkdir(exist_ok=True)
    async with open_standard_session(
        folder,
        plugins=["models", "guard"],
        environ=environ,
        store=MemoryStore(),
        needs_model=False,
        attended=True,
    ) as session:
        yield session


@pytest.fixture
def vendor(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let ``openai`` be at another address, as its vendor's own server that needs a key."""

    def move(url: str) -> None:
        row = next(row for row in known_providers.KNOWN_PROVIDERS if row.name == "openai")
        moved = row._replace(base_url=f"{url}/v1", api="chat", url_envs=(), default="scripted")
        rest = [row for row in known_providers.KNOWN_PROVIDERS if row.name != "openai"]
        for module in ("known_providers", "providers"):
            monkeypatch.setattr(f"hilum_models.{module}.KNOWN_PROVIDERS", (moved, *rest))

    return move


def read_config(environ: dict[str, str], name: str) -> str:
    """Return a file of the user's configuration, empty if there is none."""
    path = Path(environ["HILUM_CONFIG"], name)
    return path.read_text() if path.exists() else ""


def settings_of(environ: dict[str, str]) -> str:
    return read_config(environ, "settings.toml")


def write_settings(environ: dict[str, str], text: str) -> None:
    Path(environ["HILUM_CONFIG"]).mkdir()
    Path(environ["HILUM_CONFIG"], "settings.toml").write_text(text)


def occupy(path: str) -> None:
    """Put a file where a folder would be."""
    Path(path).write_text("a file, not a folder")


def keys_of(environ: dict[str, str]) -> str:
    return read_config(environ, "keys.toml")


async def test_a_key_and_an_address_in_the_environment_need_no_question(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    """Nothing is asked, said, requested or stored."""
    async with serve(lambda request: "Hi.") as server:
        environ |= {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": KEY}
        async with opened(tmp_path, environ) as session:
            asker = ScriptedAsker(session)
            assert await ensure_model(asker) == "openai/model"
        assert (asker.questions, asker.said, server.count) == ([], [], 0)
    assert settings_of(environ) == ""


async def test_a_vendor_s_key_alone_needs_no_question_and_no_network(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    """The vendor's usual model is used."""
    environ |= {"ANTHROPIC_API_KEY": KEY}
    async with opened(tmp_path, environ) as session:
        asker = ScriptedAsker(session)
        assert (await ensure_model(asker)).startswith("anthropic/claude-")
    assert asker.questions == []


async def test_without_a_model_the_three_ways_are_explained(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    """Esc leaves the set-up, which can be repeated."""
    async with opened(tmp_path, environ) as session:
        asker = ScriptedAsker(session, [None])
        assert await ensure_model(asker) == ""
    assert EXPLANATION in asker.said
    assert asker.said[-1] == LEFT
    assert "Enter a key for anthropic …" in asker.offered[0]
    assert "start it with `ollama serve`" in asker.text.lower()
    assert settings_of(environ) == ""


async def test_a_model_of_a_local_server_is_tested_and_stored(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    """One question; the settings keep what they had."""
    write_settings(environ, "# mine\nturns = 7\n")
    async with serve(lambda request: "OK.") as server:
        environ |= {"VLLM_BASE_URL": f"{server.url}/v1"}
        async with opened(tmp_path, environ) as session:
            asker = ScriptedAsker(session, ["vllm/model"])
            assert await set_up(asker) == "vllm/model"
            assert (session.model, server.count) == ("vllm/model", 1)
            # The start of the session has said what the policy means.
            assert describe_policy(session) not in asker.said
            assert "also in new sessions" in asker.said[-1]
            # Esc at another time changes nothing.
            asker = ScriptedAsker(session, [None])
            assert await set_up(asker) == ""
            assert asker.said[-1] == "Nothing was changed. The model is still vllm/model."
    assert len(asker.questions) == 1
    assert "free" in asker.offered[0][0]
    assert settings_of(environ) == '# mine\nturns = 7\nmodel = "vllm/model"\n'


async def test_a_key_is_asked_hidden_tested_and_kept_outside_of_the_project(
    tmp_path: Path, environ: dict[str, str], vendor: Any
) -> None:
    """Two questions; the key is in no settings, no event and no text on the screen."""
    async with serve(lambda request: "OK.") as server:
        vendor(server.url)
        async with opened(tmp_path, environ) as session:
            asker = ScriptedAsker(session, ["Enter a key for openai", f"  {KEY}\n"])
            assert await set_up(asker) == "openai/scripted"
            assert session.kernel.router.model("openai/scripted")
            events = repr(session.journal.read_all())
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert asker.secrets == [True]
    assert len(asker.questions) == 2
    assert KEY in keys_of(environ)
    assert stat.S_IMODE(os.stat(f"{environ['HILUM_CONFIG']}/keys.toml").st_mode) == 0o600
    assert KEY not in asker.text + settings_of(environ) + events
    for path in (tmp_path / "project").rglob("*"):
        assert KEY not in path.read_text()
    # The next session needs no question.
    async with serve(lambda request: "OK.") as again:
        assert again.url != server.url
        vendor(server.url)
        async with opened(tmp_path, environ) as session:
            quiet = ScriptedAsker(session)
            assert await ensure_model(quiet) == "openai/scripted"


async def test_a_rejected_key_is_not_kept_and_the_cause_is_shown(
    tmp_path: Path, environ: dict[str, str], vendor: Any
) -> None:
    """Enter tries the same provider again."""

    def script(request: Any) -> str:
        if request.headers["authorization"] != f"Bearer {KEY}":
            raise ModelError("Incorrect API key", kind="auth", status=401)
        return "OK."

    async with serve(script) as server:
        vendor(server.url)
        async with opened(tmp_path, environ) as session:
            asker = ScriptedAsker(session, ["Enter a key for openai", "sk-wrong-123456"])
            asker.answers += [lambda: _kept(environ), KEY]
            assert await set_up(asker) == "openai/scripted"
    (error,) = asker.errors
    assert (error.code, "401" in error.message) == ("E_LLM_AUTH", True)
    assert asker.selected[1] == "Enter a key for openai …"
    assert asker.questions[2] == "Try again, or choose another model"


def _kept(environ: dict[str, str]) -> str:
    assert keys_of(environ) == ""
    return "ENTER"


async def test_a_key_for_which_the_model_does_not_exist_leads_to_the_provider_s_list(
    tmp_path: Path, environ: dict[str, str], vendor: Any
) -> None:
    """The key was accepted, so it is kept."""

    def script(request: Any) -> str:
        if request.model == "scripted":
            raise ModelError("No such model", kind="request", status=404)
        return "OK."

    async with serve(script) as server:
        vendor(server.url)
        async with opened(tmp_path, environ) as session:
            asker = ScriptedAsker(session, ["Enter a key for openai", KEY, "openai/model"])
            assert await set_up(asker) == "openai/model"
    assert KEY in keys_of(environ)


async def test_a_failing_server_is_retried_and_a_started_one_is_found(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    """Look again, then a failure, then success."""
    failures = [ModelError("Loading", kind="server", status=503)]

    def script(request: Any) -> str:
        if failures:
            raise failures.pop()
        return "OK."

    async with serve(script) as server:
        environ |= {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": KEY}
        async with opened(tmp_path, environ) as session:
            asker = ScriptedAsker(session, ["Look again", "openai/model", "ENTER"])
            assert await set_up(asker) == "openai/model"
    assert [error.code for error in asker.errors] == ["E_LLM_FAIL"]
    assert EXPLANATION not in asker.said
    # The key came from a variable and is stored nowhere.
    assert KEY not in settings_of(environ)
    assert keys_of(environ) == ""


async def test_a_named_model_that_cannot_be_used_leads_to_the_set_up(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    """The cause comes first; the variable that still names it is mentioned at the end."""
    async with serve(lambda request: "OK.") as server:
        environ |= {"HILUM_MODEL": "anthropic/claude", "VLLM_BASE_URL": f"{server.url}/v1"}
        async with opened(tmp_path, environ) as session:
            asker = ScriptedAsker(session, ["vllm/model"])
            assert await ensure_model(asker) == "vllm/model"
    assert asker.said[0] == "anthropic/claude cannot be used: no API key is set."
    assert any("HILUM_MODEL is set, and takes precedence" in line for line in asker.said)


async def test_settings_that_cannot_be_written_keep_the_choice_for_the_session(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    """The model works all the same."""
    async with serve(lambda request: "OK.") as server:
        environ |= {"VLLM_BASE_URL": f"{server.url}/v1"}
        async with opened(tmp_path, environ) as session:
            occupy(environ["HILUM_CONFIG"])
            asker = ScriptedAsker(session, ["vllm/model"])
            assert await set_up(asker) == "vllm/model"
            assert session.model == "vllm/model"
    assert any("applies only to this session" in line for line in asker.said)


async def test_a_set_up_can_be_cancelled_while_it_waits_for_a_model(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    """The request ends with it."""
    begun = trio.Event()
    ended = trio.Event()

    async def script(request: Any) -> str:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()
        return ""

    async with serve(script) as server:
        environ |= {"VLLM_BASE_URL": f"{server.url}/v1"}
        async with opened(tmp_path, environ) as session, trio.open_nursery() as nursery:
            nursery.start_soon(set_up, ScriptedAsker(session, ["vllm/model"]))
            with trio.fail_after(5):
                await begun.wait()
            nursery.cancel_scope.cancel()
    assert settings_of(environ) == ""


async def test_a_server_at_another_address_is_added_tested_and_kept(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    """The address is suggested again after a failure, and the next session needs no question."""
    async with serve(lambda request: "OK.") as server:
        port = server.url.rpartition(":")[2]
        name = f"localhost-{port}"
        async with opened(tmp_path, environ) as session:
            asker = ScriptedAsker(session, ["A server at another address", CLOSED])
            asker.answers += ["ENTER", f" {server.url} ", f"{name}/model"]
            assert await set_up(asker) == f"{name}/model"
            assert session.model == f"{name}/model"
        assert server.count == 1
        (error,) = asker.errors
        assert "cannot be reached" in error.message
        kept = settings_of(environ)
        assert f'base_url = "{server.url}/v1"' in kept
        assert f'model = "{name}/model"' in kept
        assert keys_of(environ) == ""
        assert list((tmp_path / "project").iterdir()) == []
        async with opened(tmp_path, environ) as session:
            quiet = ScriptedAsker(session)
            assert await ensure_model(quiet) == f"{name}/model"
        assert quiet.questions == []


async def test_a_server_that_requires_a_key_gets_one_and_it_is_kept(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    """The list of models is public; the request to a model is not."""

    def script(request: Any) -> str:
        if request.headers.get("authorization") != f"Bearer {KEY}":
            raise ModelError("Who are you?", kind="auth", status=401)
        return "OK."

    async with serve(script) as server, opened(tmp_path, environ) as session:
        asker = ScriptedAsker(session, ["A server at another", server.url, "localhost-"])
        asker.answers += ["sk-wrong-123456", KEY]
        name = await set_up(asker)
        assert name.startswith("localhost-")
    assert asker.secrets == [False, True, True]
    assert "without encryption" not in asker.text
    assert KEY in keys_of(environ)
    assert KEY not in asker.text + settings_of(environ)


@pytest.mark.parametrize("answer", [None, "", "not an address"])
async def test_leaving_the_address_empty_or_wrong_keeps_nothing(
    tmp_path: Path, environ: dict[str, str], answer: str | None
) -> None:
    async with opened(tmp_path, environ) as session:
        asker = ScriptedAsker(session, ["A server at another address", answer, None])
        assert await set_up(asker) == ""
    assert [error.code for error in asker.errors] == (["E_BAD_ARGS"] if answer else [])
    assert settings_of(environ) == ""


async def test_without_the_plugin_that_reaches_models_there_is_an_error(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    """It names where to look."""
    async with open_standard_session(
        tmp_path, plugins=["guard"], environ=environ, store=MemoryStore(), needs_model=False
    ) as session:
        asker = ScriptedAsker(session)
        assert await set_up(asker) == ""
    assert "hilum plugins" in asker.errors[0].hint


def test_a_description_of_a_model_claims_nothing_that_is_unknown() -> None:
    """A server on this machine with a key may be a paid service behind a proxy."""
    info = ModelInfo("openai/model", window=32_768, window_assumed=True)
    address = "http://127.0.0.1:4000"
    status = ProviderStatus(
        "openai", "unchecked", "", address=address, local=True, key="OPENAI_KEY"
    )
    assert describe_model(status, info) == "32k window assumed · key in OPENAI_KEY"
    own = ProviderStatus("ollama", "ready", "", address="http://127.0.0.1:11434", local=True)
    stated = ModelInfo("ollama/qwen", window=64_000)
    assert describe_model(own, stated) == "64k window · free · http://127.0.0.1:11434"
