"""Logging in to a server: renewal, refusal, wider scopes, checked addresses."""

import io
import json
import random
import stat
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import trio
from hilum import HilumError, NeedsUser, ToolError, UsageError
from hilum_mcp import commands, login, token_store
from hilum_mcp.commands import CommandContext
from hilum_mcp.commands.probe import connect_once
from hilum_mcp.paths import user_file
from mcp import MCPError

from .conftest import Place


async def test_a_log_in_is_stored_and_used_by_later_sessions(place: Place) -> None:
    """PKCE, state, resource and scope are sent.

    Only the user can read the file, and nobody is asked again.
    """
    with pytest.raises(NeedsUser, match="login"):
        await place.use()
    assert await place.log_in() == "look"
    (asked,) = place.it.of("authorize")
    assert (asked["code_challenge_method"], asked["resource"]) == ("S256", f"{place.it.url}/mcp")
    assert stat.S_IMODE(place.kept.file.stat().st_mode) == 0o600
    assert await place.use() == "look"
    assert len(place.it.of("authorize")) == len(place.it.of("register")) == 1


async def test_an_expired_token_is_renewed(
    place: Place,
) -> None:
    """It expires by its own time, or when the server rejects it.

    The refresh token changes as well.
    """
    await place.log_in()
    place.kept.update(until=time.time() - 1)
    assert await place.use() == "look"
    first = place.it.of("token")[-1]
    assert first["grant_type"] == "refresh_token"
    place.it.forget_access()
    assert await place.use() == "look"
    second = place.it.of("token")[-1]
    assert second["grant_type"] == "refresh_token"
    assert second["refresh_token"] != first["refresh_token"]
    assert len(place.it.of("authorize")) == 1


async def test_two_sessions_use_a_refresh_token_once(place: Place) -> None:
    """The second session uses the tokens of the first one.

    Many servers end the login if a refresh token is used twice.
    """
    await place.log_in()
    place.it.forget_access()
    got: list[str] = []

    async def session() -> None:
        got.append(await place.use())

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(session)
    assert got == ["look"] * 3
    assert [form["grant_type"] for form in place.it.of("token")].count("refresh_token") == 1


@pytest.mark.parametrize("how", ["time", "server"])
async def test_parallel_requests_renew_a_token_once(place: Place, how: str) -> None:
    """They are requests of one session that all find an expired token."""
    import httpx2

    await place.log_in()
    if how == "time":
        place.kept.update(until=time.time() - 1)
    else:
        place.it.forget_access()
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    got: list[int] = []

    async with (
        httpx2.AsyncClient(auth=login.load_auth(place.server)) as client,
        trio.open_nursery() as nursery,
    ):

        async def one() -> None:
            got.append((await client.post(f"{place.it.url}/mcp", json=message)).status_code)

        for _ in range(4):
            nursery.start_soon(one)
    assert got == [200] * 4
    assert [form["grant_type"] for form in place.it.of("token")].count("refresh_token") == 1


async def test_slow_reads_of_the_token_file_do_not_renew_a_token_twice(
    place: Place, monkeypatch: pytest.MonkeyPatch, trials: Callable[[int, int], int]
) -> None:
    """A late read of the old expiry must not make a renewed token look expired."""
    import httpx2

    await place.log_in()
    read = token_store.TokenStore.read
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    for seed in range(trials(3, 10)):
        chances = random.Random(seed)
        place.kept.update(until=time.time() - 1)

        def read_slowly(
            kept: token_store.TokenStore, chances: random.Random = chances
        ) -> dict[str, Any]:
            found = read(kept)
            time.sleep(chances.choice([0.0, 0.0, 0.01, 0.03]))
            return found

        before = len(place.it.of("token"))
        with monkeypatch.context() as patch:
            patch.setattr(token_store.TokenStore, "read", read_slowly)
            auth = login.load_auth(place.server)
            async with httpx2.AsyncClient(auth=auth) as client, trio.open_nursery() as nursery:
                for _ in range(6):
                    nursery.start_soon(partial(client.post, f"{place.it.url}/mcp", json=message))
        assert len(place.it.of("token")) == before + 1, f"seed {seed}"


@pytest.mark.parametrize(
    ("refusal", "registered"), [((400, "invalid_grant"), 1), ((401, "invalid_client"), 2)]
)
async def test_a_refused_renewal_requires_a_new_log_in(
    place: Place, refusal: tuple[int, str], registered: int
) -> None:
    """The tokens are removed. A client that the server no longer knows registers again."""
    await place.log_in()
    place.it.forget_access()
    place.it.refusal = refusal
    with pytest.raises(NeedsUser, match="login"):
        await place.use()
    assert not place.kept.read().get("tokens")
    with pytest.raises(NeedsUser):
        await place.use()
    assert [form["grant_type"] for form in place.it.of("token")].count("refresh_token") == 1
    assert await place.log_in() == "look"
    assert len(place.it.of("register")) == registered
    assert await place.use() == "look"


async def test_a_failing_authorization_server_keeps_the_log_in(place: Place) -> None:
    """The tokens stay, and are renewed when the server works again."""
    await place.log_in()
    place.it.forget_access()
    place.it.refusal = (503, "busy")
    with pytest.raises(ToolError, match=r"could not be renewed \(HTTP 503"):
        await place.use()
    place.it.refusal = None
    assert await place.use() == "look"


async def test_a_missing_scope_is_requested_by_the_next_log_in(place: Place) -> None:
    """A session reports it and opens no browser. After the login the call works."""
    await place.log_in()
    with pytest.raises((NeedsUser, ToolError), match="login"):
        await place.use("change")
    assert len(place.it.of("authorize")) == 1
    assert set((await place.log_in()).split()) == {"look", "change"}
    assert await place.use("change")
    assert len(place.it.of("authorize")) == 2
    assert not place.kept.read().get("wanted")


async def test_a_call_that_wants_a_further_log_in_fails_alone(place: Place) -> None:
    await place.log_in()
    desk = CommandContext(place.folder, io.StringIO(), session=place.kit.session)
    entry = await desk.find_entry("docs")

    async def job(client: Any) -> str:
        with pytest.raises(MCPError):
            await client.call_tool("change", {})
        return str((await client.call_tool("look", {})).content[0].text)

    assert await connect_once(desk, entry, job) == "look"
    assert place.kept.read().get("wanted") == "change"


async def test_the_address_where_the_browser_ended_can_be_pasted(place: Place) -> None:
    """This is for a browser on another machine. An address with another state is not accepted."""
    lines = trio.open_memory_channel[str](5)

    async def elsewhere(url: str) -> None:
        state = url.partition("state=")[2].partition("&")[0]
        place.it.codes["typed"] = dict(
            part.split("=", 1) for part in url.partition("?")[2].split("&")
        )
        place.it.codes["typed"]["resource"] = f"{place.it.url}/mcp"
        await lines[0].send("http://127.0.0.1:1/callback?code=typed&state=wrong")
        await lines[0].send(
            f"http://127.0.0.1:1/callback?code=typed&state={state}&iss={place.it.login}"
        )

    taken: list[bool] = []

    async def typed(take: Callable[[str], bool]) -> None:
        async for line in lines[1]:
            taken.append(take(line))

    assert await place.log_in(elsewhere, typed) == "look"
    assert taken == [False, True]


async def test_the_answer_of_the_browser_is_checked(place: Place) -> None:
    """Another issuer and a refusal cause an error, and nothing is stored."""
    place.it.issuer = "https://evil.example"
    with pytest.raises(ToolError, match="iss"):
        await place.log_in()

    async def refuse(url: str) -> None:
        state = url.partition("state=")[2].partition("&")[0]
        back = (
            url.partition("redirect_uri=")[2]
            .partition("&")[0]
            .replace("%3A", ":")
            .replace("%2F", "/")
        )
        await place.browse(f"{back}?error=access_denied&error_description=No+thanks&state={state}")

    with pytest.raises(ToolError, match="refused the login: access_denied No thanks"):
        await place.log_in(refuse)
    assert not place.kept.read().get("tokens")


async def test_a_log_in_has_a_time_limit(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to do."""
    monkeypatch.setattr(login, "BROWSER_TIMEOUT", 0.05)

    async def nobody(url: str) -> None:
        return

    with pytest.raises(ToolError, match="Nobody logged in") as failure:
        await place.log_in(nobody)
    assert "hilum mcp login docs" in failure.value.hint


@pytest.mark.slow(cases=4)
@pytest.mark.parametrize(
    ("metadata", "resource", "why"),
    [
        ({"token_endpoint": "https://10.0.0.1/token"}, {}, "does not contact"),
        ({"registration_endpoint": "https://169.254.169.254/register"}, {}, "does not contact"),
        ({"authorization_endpoint": "http://intern.example/authorize"}, {}, "does not contact"),
        ({"issuer": "https://other.example"}, {}, "issuer"),
        (
            {"code_challenge_methods_supported": ["plain"]},
            {},
            "login server of docs, does not support PKCE with S256",
        ),
        ({"code_challenge_methods_supported": []}, {}, "does not support PKCE with S256"),
        ({}, {"authorization_servers": ["https://192.168.0.1"]}, "does not contact"),
        ({}, {"resource": "https://other.example/mcp"}, "does not match"),
    ],
)
async def test_a_server_cannot_send_a_log_in_elsewhere(
    place: Place, metadata: dict[str, object], resource: dict[str, object], why: str
) -> None:
    """Local networks, metadata services, other issuers and missing PKCE are refused."""
    place.it.metadata, place.it.resource = metadata, resource
    with pytest.raises(HilumError, match=why):
        await place.log_in()
    assert not place.kept.read().get("tokens")


async def test_pkce_must_be_stated_unless_the_user_confirms_it(
    place: Place,
) -> None:
    """Some providers omit it from their metadata. The protocol requires clients to refuse them."""
    place.it.metadata = {"code_challenge_methods_supported": None}
    with pytest.raises(HilumError) as failure:
        await place.log_in()
    said = str(failure.value)
    assert f"{place.it.login}, the login server of docs" in said
    assert f'write "assume_pkce": true into oauth of docs in {user_file()}' in said
    assert not place.shown, "the browser is not opened"
    place.describe(assumePkce=True)
    assert await place.log_in() == "look"
    place.it.metadata = {"code_challenge_methods_supported": ["plain"]}
    token_store.forget_login(place.server)
    with pytest.raises(HilumError, match="does not support PKCE"):
        await place.log_in()


async def test_who_has_no_metadata_does_not_say_that_it_takes_pkce(place: Place) -> None:
    place.it.metadata = {"issuer": None}
    with pytest.raises(HilumError, match="PKCE with S256"):
        await place.log_in()


async def test_the_address_is_checked_when_the_socket_opens(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is public during the check and local a moment later leads nowhere."""
    from hilum_mcp import auth_requests, oauth

    port = place.it.login.rpartition(":")[2]

    async def yes(*_: object) -> None:
        return  # as if the name had stood for a public address

    async def resolve(host: str) -> list[str]:
        return ["127.0.0.1"]

    for module in (auth_requests, oauth):
        monkeypatch.setattr(module, "check_auth_address", yes)
    monkeypatch.setattr("hilum_web.resolver.resolve_host", resolve)
    place.it.resource = {"authorization_servers": [f"http://rebound.example:{port}"]}
    with pytest.raises(HilumError, match="does not contact"):
        await place.log_in()
    assert not place.it.of("/.well-known/oauth-authorization-server")


@pytest.mark.parametrize(
    "pointer",
    ["http://10.0.0.1/x", "http://[::ffff:169.254.169.254]/x", "https://user@192.168.1.1/"],
)
async def test_metadata_in_the_local_network_is_not_requested(place: Place, pointer: str) -> None:
    """The address of the metadata is checked like any other."""
    place.it.pointer = pointer
    with pytest.raises(HilumError, match="does not contact"):
        await place.log_in()


async def test_redirects_are_followed_on_one_origin_only(place: Place) -> None:
    """A moved document is found on the same origin, and not on another one."""
    path = "/.well-known/oauth-authorization-server"
    place.it.moved = f"{path}?moved=1"
    assert await place.log_in() == "look"
    place.kept.update(tokens=None, metadata=None, client=None)
    place.it.moved = f"{place.it.url}{path}?moved=1"
    place.it.metadata = {"issuer": place.it.login}
    with pytest.raises(HilumError):
        await place.log_in()
    assert len(place.it.of(path)) == 3


async def test_a_document_that_is_too_large_is_not_read(place: Place) -> None:
    """The metadata of a server cannot fill the memory."""
    place.it.metadata = {"scopes_supported": ["x" * 1_000] * 1_100}
    with pytest.raises(HilumError, match="larger than 1 MB"):
        await place.log_in()


async def test_a_client_id_comes_from_a_document_or_the_file(place: Place) -> None:
    """The address of the document is the client's id if the server accepts it.

    An id in the file has priority.
    """
    place.it.metadata = {"client_id_metadata_document_supported": True}
    document = "https://hilum.example/client.json"
    await place.log_in(client_metadata_url=document)
    assert place.it.of("authorize")[-1]["client_id"] == document
    assert not place.it.of("register")
    place.describe(client_id="mine", issuer=place.it.login)
    await place.log_in(client_metadata_url=document)
    assert place.it.of("authorize")[-1]["client_id"] == "mine"
    place.describe(client_id="mine", issuer="https://other.example")
    with pytest.raises(HilumError, match=r"does not name https://other\.example"):
        await place.log_in()
    with pytest.raises(UsageError, match="client_metadata_url"):
        await place.log_in(client_metadata_url="http://x")


async def test_the_command_uses_the_setting_for_the_document(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It behaves like a session."""
    import io

    from hilum import config_folder

    place.it.metadata = {"client_id_metadata_document_supported": True}
    (config_folder() / "settings.toml").write_text(
        '[mcp]\nclient_metadata_url = "https://hilum.example/c.json"\n'
    )
    shown = trio.Event()

    class Terminal(io.StringIO):
        def write(self, text: str) -> int:
            if "state=" in text:
                shown.set()
            return super().write(text)

    out = Terminal()

    async def browse() -> None:
        await shown.wait()
        (url,) = [line.strip() for line in out.getvalue().splitlines() if line.startswith("  http")]
        await place.browse(url)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(browse)
        assert (
            await commands.run(["login", "docs", "--no-browser"], CommandContext(place.folder, out))
            == 0
        )
    assert place.it.of("authorize")[-1]["client_id"] == "https://hilum.example/c.json"
    assert "docs accepts the login: 2 tools." in out.getvalue()
    assert await commands.run(["logout", "docs"], CommandContext(place.folder, out)) == 0
    assert not token_store.token_file(place.server).exists()


async def test_a_taken_port_is_replaced_unless_it_is_configured(place: Place) -> None:
    """The client registers again for another port.

    If the file names the port, the error says so.
    """
    await place.log_in()
    port = login.callback_port(place.server)
    (listener,) = await trio.open_tcp_listeners(port, host="127.0.0.1")
    async with listener:
        place.kept.update(tokens=None)
        assert await place.log_in() == "look"
        assert len(place.it.of("register")) == 2
        place.describe(callback_port=port)
        with pytest.raises(UsageError, match=f"Port {port}") as failure:
            await place.log_in()
    assert "callback_port" in failure.value.hint


async def test_metadata_of_2025_03_26_may_name_a_path_of_its_own_origin(place: Place) -> None:
    """Other origins are not accepted."""
    from hilum_mcp.oauth import OAuthProvider

    provider = OAuthProvider(place.server, place.kept, "http://127.0.0.1:1/callback")
    own = place.it.url

    async def issuer(**named: str) -> str:
        import httpx2

        data = {"issuer": f"{own}/oauth", "token_endpoint": f"{own}/oauth/token"} | named
        sent = httpx2.Request("GET", f"{own}/.well-known/oauth-authorization-server")
        return await provider._find_legacy_issuer(
            sent, httpx2.Response(200, content=json.dumps(data).encode(), request=sent)
        )

    assert await issuer() == f"{own}/oauth"
    assert await issuer(token_endpoint="https://evil.example/token") == ""
    assert await issuer(issuer="https://evil.example") == ""
    provider.context.auth_server_url = own
    assert await issuer() == ""
