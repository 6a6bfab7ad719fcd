"""``hilum models`` against real servers on the loopback interface."""

import json
import os
import stat
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
from hilum.errors import ModelError
from hilum_replay import serve

KEY = "sk-secret-1234567890"
PORTS = ("OLLAMA_HOST", "LMSTUDIO_BASE_URL", "LLAMACPP_BASE_URL", "VLLM_BASE_URL")
CLOSED = "http://127.0.0.1:9/v1"  # the discard port, where nothing listens


@pytest.fixture
def offline(cli):
    """``hilum`` on a machine without any model."""
    cli.env |= dict.fromkeys(PORTS, CLOSED)
    return cli


async def read_list(cli, *arguments, **env):
    done = await cli("models", "--json", *arguments, **env)
    assert done.code == 0, done
    data = json.loads(done.out)
    return data["default"], {each["name"]: each for each in data["providers"]}


@asynccontextmanager
async def local_server(*models):
    """Serve a list of models as Ollama does; every other path is unknown."""
    body = json.dumps({"data": [{"id": name} for name in models]}).encode()

    async def handle(stream):
        request = b""
        while b"\r\n\r\n" not in request:
            request += await stream.receive_some()
        path = request.split()[1].decode()
        answer = body if path == "/v1/models" else b"{}"
        status = "200 OK" if path == "/v1/models" else "404 Not Found"
        head = f"HTTP/1.1 {status}\r\ncontent-length: {len(answer)}\r\nconnection: close\r\n\r\n"
        await stream.send_all(head.encode() + answer)
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        serve_tcp = partial(trio.serve_tcp, handle, 0, host="127.0.0.1")
        (listener,) = await nursery.start(serve_tcp)
        yield f"http://127.0.0.1:{listener.socket.getsockname()[1]}/v1"
        nursery.cancel_scope.cancel()


async def test_without_any_model_it_says_what_is_missing(offline):
    """For each provider: the variable to set, or the server to start."""
    done = await offline("models")
    assert done.code == 0
    for text in (
        "anthropic   there is no key. Set ANTHROPIC_API_KEY, or run: hilum models key anthropic",
        "ollama      nothing answers at http://127.0.0.1:9. Start it with `ollama serve`",
        "There is no model to work with. Set one of these keys",
    ):
        assert text in done.out, done.out
    assert "cassette" not in done.out


async def test_a_key_is_named_by_its_variable_and_never_shown(offline):
    """Window and price of the model are listed; the provider is not contacted."""
    done = await offline("models", ANTHROPIC_API_KEY=KEY)
    line = next(line for line in done.out.splitlines() if "anthropic/" in line)
    assert line.startswith("* anthropic/claude-")
    assert "M  $" in line
    assert line.endswith("key in ANTHROPIC_API_KEY (not contacted)")
    default, found = await read_list(offline, ANTHROPIC_API_KEY=KEY)
    assert found["anthropic"]["state"] == "unchecked"
    assert default == found["anthropic"]["models"][0]["name"]
    assert KEY not in done.out + done.err + json.dumps(found)


async def test_local_servers_list_their_models(offline):
    """They are free, and have a cautious window."""
    async with local_server("qwen3-coder:30b", "nomic-embed-text", "gemma3:4b") as url:
        default, found = await read_list(offline, OLLAMA_HOST=url)
        done = await offline("models", OLLAMA_HOST=url)
    ollama = found["ollama"]
    assert (ollama["state"], ollama["local"]) == ("ready", True)
    assert [model["name"] for model in ollama["models"]] == [
        "ollama/qwen3-coder:30b",
        "ollama/gemma3:4b",
    ]
    assert default == "ollama/qwen3-coder:30b"
    assert "* ollama/qwen3-coder:30b     32k   free  answers at http://127.0.0.1:" in done.out


async def test_only_a_named_provider_is_contacted_on_another_machine(offline):
    """A server that is not on loopback is asked for its list only by name."""
    async with serve(lambda request: "Hi.") as server:
        # The proxy stands for the network: whatever leaves the machine arrives there.
        proxy = {"HTTP_PROXY": server.url, "http_proxy": server.url, "NO_PROXY": ""}
        address = {"OPENAI_BASE_URL": "http://models.invalid/v1", "OPENAI_API_KEY": KEY}
        _, found = await read_list(offline, **address, **proxy)
        assert found["openai"]["state"] == "unchecked"
        _, named = await read_list(offline, "openai", **address, **proxy)
    assert list(named) == ["openai"]
    assert named["openai"]["state"] == "ready", named


async def test_servers_are_examined_at_the_same_time(offline):
    """Four silent servers wait for one another no longer than their time limit."""
    waiting = set()
    most = 0
    async with trio.open_nursery() as nursery:

        async def be_silent(stream):
            nonlocal most
            if await stream.receive_some():  # a probe of the port sends nothing
                waiting.add(stream)
                most = max(most, len(waiting))
                await stream.receive_some()
                waiting.discard(stream)

        serve_tcp = partial(trio.serve_tcp, be_silent, 0, host="127.0.0.1")
        (listener,) = await nursery.start(serve_tcp)
        url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}/v1"
        _, found = await read_list(offline, **dict.fromkeys(PORTS, url))
        nursery.cancel_scope.cancel()
    assert found["vllm"]["state"] == "failed"
    assert "did not respond within 2 s" in found["vllm"]["message"]
    assert most == 4


async def test_a_model_is_tested_with_one_small_request(cli):
    """The default model, or a named one."""
    async with cli.model("OK.", "OK.") as server:
        done = await cli("models", "test")
        assert done.code == 0, done
        assert done.out.startswith(f"openai/scripted at {server.url} answers")
        done = await cli("models", "test", "openai/other", "--json")
        assert json.loads(done.out)["model"] == "openai/other"
        assert server.count == 2
        assert all(len(body) < 500 for body in server.bodies)


def refuse(status, message):
    def script(request):
        raise ModelError(message, kind="request", status=status)

    return script


async def test_the_cause_of_a_failed_test_is_exact(cli):
    """Each cause has its own words, and its next step."""
    wrong = []
    for status, message, expected in (
        (401, f"Incorrect API key: {KEY}", "The key in OPENAI_API_KEY was rejected"),
        (402, "No money", "has no credit left"),
        (404, "No such model", "openai does not list 'gpt-x'. It has"),
        (429, "You exceeded your current quota: billing", "has no credit left"),
        (503, "Overloaded", "503: Overloaded"),
    ):
        async with serve(refuse(status, message)) as server:
            env = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": KEY}
            done = await cli("models", "test", "openai/gpt-x", **env)
        if done.code != 4 or expected not in done.err or KEY in done.err:
            wrong.append((status, done))
    assert wrong == []


async def test_an_unreachable_server_and_an_unknown_host_are_told_apart(cli):
    """And a missing key, which needs no request at all."""
    done = await cli("models", "test", "openai/x", OPENAI_BASE_URL=CLOSED)
    assert (done.code, "cannot be reached" in done.err) == (4, True), done
    assert "Is the server running?" in done.err
    done = await cli("models", "test", "openai/x")
    assert (done.code, "no API key is set" in done.err) == (2, True), done
    done = await cli("models", "test", "x", "--json")
    assert json.loads(done.out)["ok"] is False


async def test_a_misspelt_model_is_corrected_from_the_server_s_list(cli):
    """The server lists what it has."""
    async with local_server("qwen3-coder:30b") as url:
        done = await cli("models", "test", "ollama/qwen3-coder", OLLAMA_HOST=url)
    assert done.code == 4, done
    assert "ollama/qwen3-coder:30b" in done.err


async def test_a_key_is_kept_in_a_file_that_only_the_user_can_read(cli):
    """It is used for the address it was entered for, unless a variable has one."""
    async with cli.model("OK.", "OK.", "OK.") as server:
        done = await cli("models", "key", "openai", stdin=f"{KEY}\n".encode())
        assert done.code == 0, done
        assert KEY not in done.out + done.err
        file = cli.folder / "config" / "keys.toml"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        await cli("models", "test")
        await cli("models", "test", OPENAI_API_KEY="sk-from-a-variable")
        keys = [request.headers["authorization"] for request in server.requests]
        assert keys == [f"Bearer {KEY}", "Bearer sk-from-a-variable"]
    # Another address does not get it.
    async with cli.model("OK.") as other:
        await cli("models", "test")
        assert "authorization" not in other.requests[0].headers
    done = await cli("models", "key", "openai", "--forget")
    assert "is removed" in done.out
    assert KEY not in file.read_text()


async def test_a_file_of_keys_that_others_can_read_is_not_used(offline):
    """What to do is said, and sessions with other models work."""
    await offline("models", "key", "openai", stdin=KEY.encode())
    file = offline.folder / "config" / "keys.toml"
    os.chmod(file, 0o644)
    _, found = await read_list(offline)
    assert found["openai"]["state"] == "no_key"
    assert f"chmod 600 {file}" in found["openai"]["message"]
    async with offline.model("Done."):
        assert (await offline("run", "hi", "--no-plugin", "web")).code == 0


async def test_no_key_is_kept_in_a_project(cli):
    """A settings folder in the workspace could be committed with it."""
    inside = {"HILUM_CONFIG": str(cli.workspace / "conf")}
    done = await cli("models", "key", "openai", stdin=KEY.encode(), **inside)
    assert done.code == 2, done
    assert "is in this project" in done.err
    assert not (cli.workspace / "conf" / "keys.toml").exists()


async def test_wrong_usage(cli):
    """Each mistake names what to type."""
    wrong = []
    for arguments, expected in (
        (["opnai"], "Did you mean openai?"),
        (["openai/gpt-5"], "hilum models test openai/gpt-5"),
        (["key"], "hilum models key openai"),
        (["key", "opnai"], "Did you mean openai?"),
        (["test", "a/b", "c"], "There is one word too many: c"),
        (["--forget"], "belongs to hilum models key"),
    ):
        done = await cli("models", *arguments)
        if done.code != 2 or expected not in done.err:
            wrong.append((arguments, done))
    for key in (b"", b"two words", b"line\x07bell", "schl\u00fcssel-123".encode()):
        done = await cli("models", "key", "openai", stdin=key)
        if done.code != 2 or "This is not a key" not in done.err:
            wrong.append((key, done))
    assert wrong == []
