"""Servers whose address the user enters: the address, the one request, and what is kept."""

from __future__ import annotations

import json
import tomllib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hilum import Kernel, ModelAccess, UsageError, open_kernel
from hilum.errors import ModelError
from hilum.store import MemoryStore
from hilum_models.added_servers import make_provider_name, parse_base_url

JSON = {"content-type": "application/json"}
KEY = "sk-secret-1234567890"


def listed(*names: str) -> bytes:
    return json.dumps({"data": [{"id": name} for name in names]}).encode()


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HILUM_CONFIG": str(tmp_path / "config"), "HOME": str(tmp_path)}


def read_settings(environ: dict[str, str]) -> str:
    """Return the user's settings; empty if there are none."""
    path = Path(environ["HILUM_CONFIG"], "settings.toml")
    return path.read_text() if path.exists() else ""


@pytest.fixture
def spoil(environ: dict[str, str]) -> Callable[[], None]:
    """Make the user's settings invalid."""

    def write() -> None:
        Path(environ["HILUM_CONFIG"]).mkdir()
        Path(environ["HILUM_CONFIG"], "settings.toml").write_text("this is not TOML")

    return write


@asynccontextmanager
async def opened(environ: dict[str, str], tmp_path: Path) -> AsyncIterator[tuple[Kernel, Any]]:
    folder = tmp_path / "project"
    folder.mkdir(exist_ok=True)
    opening = open_kernel(["models"], workspace=folder, environ=environ, store=MemoryStore())
    async with opening as kernel:
        yield kernel, kernel.plugin(ModelAccess)


@pytest.mark.parametrize(
    ("text", "base_url"),
    [
        ("http://gpu:8000/v1", "http://gpu:8000/v1"),
        ("  'HTTP://GPU:8000/v1/'\n", "http://gpu:8000/v1"),
        ("gpu:8000", "http://gpu:8000/v1"),
        ("10.0.0.5:8000/v1", "http://10.0.0.5:8000/v1"),
        ("[::1]:8000", "http://[::1]:8000/v1"),
        ("llm.example.com", "https://llm.example.com/v1"),
        ("llm.example.com:443/api", "https://llm.example.com:443/api"),
        ("https://llm.example.com/v1/chat/completions", "https://llm.example.com/v1"),
        ("https://llm.example.com/openai/v1/models", "https://llm.example.com/openai/v1"),
        ("<https://llm.example.com#top>", "https://llm.example.com/v1"),
    ],
)
def test_an_address_is_read_as_people_write_it(text: str, base_url: str) -> None:
    assert parse_base_url(text) == base_url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "ftp://gpu/v1",
        "http://",
        "http:///v1",
        "http://gpu:port/v1",
        "http://gpu:/v1",
        "http://gpu:99999",
        "http://[::1",
        "use the gpu",
        "http://gpu\x1b[2J/v1",
        "http://user:secret@gpu/v1",
        "http://gpu/v1?key=secret",
    ],
)
def test_what_is_no_address_or_contains_a_secret_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_base_url(text)
    assert caught.value.hint
    assert "secret" not in str(caught.value)


def test_names_are_derived_from_the_host_and_unique() -> None:
    assert make_provider_name("https://llm.example.com/v1", ()) == "llm-example-com"
    assert make_provider_name("https://api.example.com/v1", ()) == "example-com"
    assert make_provider_name("http://127.0.0.1:8001/v1", ()) == "localhost-8001"
    assert make_provider_name("http://gpu:8000/v1", ("gpu", "gpu-2")) == "gpu-3"
    assert make_provider_name("http://é/v1", ()) == "server"


async def test_one_request_adds_a_server_and_nothing_is_stored_yet(
    server: Any, reply: Any, environ: dict[str, str], tmp_path: Path
) -> None:
    server.say(listed("big", "text-embedding"), headers=JSON)
    async with opened(environ, tmp_path) as (kernel, access):
        status = await access.add_server(kernel, f"127.0.0.1:{server.port}")
        name = f"localhost-{server.port}"
        assert (status.name, status.state) == (name, "ready")
        assert [info.name for info in status.models] == [f"{name}/big"]
        assert [(seen.method, seen.path) for seen in server.seen] == [("GET", "/v1/models")]
        assert "authorization" not in server.seen[0].headers
        assert kernel.router.model(f"{name}/big").info.name == f"{name}/big"
        assert read_settings(environ) == ""
        # The same address is the same provider.
        again = await access.add_server(kernel, server.url)
        assert again.name == name


async def test_a_kept_server_and_its_key_are_there_in_the_next_session(
    server: Any, environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hilum_models.stored_keys.find_spec", lambda name: None)
    server.say(listed("big"), headers=JSON)
    async with opened(environ, tmp_path) as (kernel, access):
        status = await access.add_server(kernel, server.url, key=f" {KEY}\n")
        assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"
        place = await access.store_server(kernel, status.name)
        # The provider still has the key, which is now read from the file.
        assert kernel.router.providers[status.name].key == KEY
    assert place == str(Path(environ["HILUM_CONFIG"], "settings.toml"))
    kept = tomllib.loads(read_settings(environ))
    assert kept == {"models": {"providers": {status.name: {"base_url": f"{server.url}/v1"}}}}
    assert list((tmp_path / "project").iterdir()) == []
    async with opened(environ, tmp_path) as (kernel, access):
        (found,) = await access.survey_models(kernel, status.name)
        assert [info.name for info in found.models] == [f"{status.name}/big"]
    assert server.seen[-1].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("answer", "key", "sentence"),
    [
        ({"status": 401}, "", "requires a key (it answered 401)"),
        ({"status": 403}, "", "requires a key (it answered 403)"),
        ({"status": 401}, KEY, "rejected the key (it answered 401)"),
        ({"status": 404}, "", "There is no list of models at"),
        ({"status": 500}, "", "answered 500"),
        ({"status": 200, "pieces": (b"<!DOCTYPE html><title>Hi</title>",)}, "", "a web page at"),
        ({"status": 200}, "", "with nothing"),
        ({"status": 200, "pieces": (b'{"ok": true}',)}, "", "did not answer"),
        ({"status": 200, "pieces": (b"[1, 2]",)}, "", "did not answer"),
        ({"status": 200, "pieces": (listed(),)}, "", "lists no model"),
        ({"status": 200, "pieces": (b'{"data": null}',)}, "", "lists no model"),
        ({"status": 200, "pieces": (listed("embed-1"),)}, "", "lists no model"),
    ],
)
async def test_a_server_that_cannot_be_used_gets_a_clear_sentence(
    server: Any,
    reply: Any,
    environ: dict[str, str],
    tmp_path: Path,
    answer: dict[str, Any],
    key: str,
    sentence: str,
) -> None:
    server.replies = [reply(headers=JSON, **answer)]
    async with opened(environ, tmp_path) as (kernel, access):
        before = dict(kernel.router.providers)
        with pytest.raises(ModelError) as caught:
            await access.add_server(kernel, server.url, key=key)
        assert dict(kernel.router.providers) == before
    assert sentence in caught.value.message
    assert caught.value.hint or answer["status"] == 500
    assert KEY not in str(caught.value)
    assert len(server.seen) == 1


async def test_an_address_without_a_server_and_a_text_that_is_no_key(
    free_port: int, environ: dict[str, str], tmp_path: Path
) -> None:
    async with opened(environ, tmp_path) as (kernel, access):
        with pytest.raises(ModelError, match="cannot be reached"):
            await access.add_server(kernel, f"http://127.0.0.1:{free_port}/v1")
        with pytest.raises(UsageError, match="not a key"):
            await access.add_server(kernel, "http://127.0.0.1:1/v1", key="two words")
        with pytest.raises(UsageError, match="No server"):
            await access.store_server(kernel, "gpu")


async def test_settings_that_cannot_be_changed_are_an_error(
    server: Any, environ: dict[str, str], tmp_path: Path, spoil: Callable[[], None]
) -> None:
    server.say(listed("big"), headers=JSON)
    async with opened(environ, tmp_path) as (kernel, access):
        status = await access.add_server(kernel, server.url)
        spoil()
        with pytest.raises(Exception, match="cannot be changed") as caught:
            await access.store_server(kernel, status.name)
        assert caught.value.hint  # type: ignore[attr-defined]
    assert read_settings(environ) == "this is not TOML"
