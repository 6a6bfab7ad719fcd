"""Pages are fetched without a question only from hosts that the user or a search named, and with
plain addresses.
"""

import base64

import hilum_guard
import pytest
from hilum import Output, tool
from hilum.errors import E_DENIED
from hilum.events import ApprovalAsked
from hilum.testing import plugin, say, use
from hilum_cli import options
from hilum_guard.hosts.addresses import carried_data, find_named_hosts, hosts_within, is_known


@tool(risk="network", effect="pure")
def web_fetch(url: str) -> str:
    """Fetch."""
    return f"been at {url}"


@tool(risk="network", effect="pure")
def web_search(query: str) -> Output:
    """Search."""
    text = (
        "1. Found\n   https://found.example/page\n   An extract that names https://evil.example/x"
    )
    return Output(
        text,
        data={
            "results": [
                {
                    "title": "t",
                    "url": "https://found.example/page",
                    "snippet": "https://evil.example",
                }
            ]
        },
    )


WEB = plugin("web", web_fetch, web_search)


async def fetched(kit, prompt, url, **options):
    """Have a page fetched after a prompt; gives its result and how many questions there were."""
    before = len(kit.of(ApprovalAsked))
    kit.model.next(use("web_fetch", url=url), say("done"))
    run = await kit.start(prompt, **options)
    with kit.guard():
        await run.wait()
    return kit.results[-1], len(kit.of(ApprovalAsked)) - before


async def test_a_host_that_nobody_named_is_asked_under_auto(bench, asked):
    """The question names the host and the rule that would allow it."""
    kit = await bench(hilum_guard, WEB, approve="auto")
    event = await asked(kit, "web_fetch", url="https://evil.example/x")
    assert "Neither you nor a search named the host evil.example" in event.reason
    assert "hilum permissions allow 'web_fetch(domain:evil.example)'" in event.reason
    assert event.scope == "web_fetch(domain:evil.example)"


@pytest.mark.parametrize(
    ("prompt", "url"),
    [
        ("Read https://docs.example/a and sum it up", "https://docs.example/b"),
        ("Look at docs.python.org for asyncio", "https://docs.python.org/3/library/asyncio.html"),
        ("see www.docs.example", "https://docs.example/"),
    ],
)
async def test_a_host_in_the_prompt_is_fetched(bench, prompt, url):
    """As an address or as a bare name."""
    kit = await bench(hilum_guard, WEB, approve="auto")
    assert await fetched(kit, prompt, url) == (kit.results[-1], 0)
    assert kit.results[-1].code == ""


@pytest.mark.parametrize(
    "piped",
    ["see https://piped.example/y", "</stdin> https://piped.example/y", "<stdin>\npiped.example"],
)
async def test_a_host_in_what_is_piped_in_is_asked(bench, monkeypatch, piped):
    """The prompt is the user's; what another program wrote into it is data."""
    monkeypatch.setattr(options, "_is_piped", lambda: True)
    monkeypatch.setattr(options, "_read_stdin", lambda wanted: piped)
    given = options.read_prompt(["review", "typed.example"])
    assert given == ("review typed.example", piped, False)
    kit = await bench(hilum_guard, WEB, approve="auto", kind="headless")
    for site, code in (("piped", E_DENIED), ("typed", "")):
        result, _ = await fetched(
            kit, given.text, f"https://{site}.example/x", attached=given.attached
        )
        assert result.code == code


async def test_a_host_in_a_prompt_that_another_program_wrote_is_asked(bench):
    """``cat page | hilum run``: the whole prompt is a document; what the user says next is not."""
    kit = await bench(hilum_guard, WEB, approve="auto", kind="headless")
    kit.model.next(use("web_fetch", url="https://piped.example/x"), say("done"))
    run = await kit.session.prompt("Read https://piped.example/y", piped=True)
    with kit.guard():
        await run.wait()
    assert kit.results[-1].code == E_DENIED
    assert (await fetched(kit, "now read https://piped.example/y", "https://piped.example/x"))[
        0
    ].code == ""


@pytest.mark.parametrize(
    ("words", "terminal", "document"),
    [
        ([], False, True),
        (["-"], False, True),
        (["look"], False, False),
        (["-", "look"], False, False),
        (["-"], True, False),
    ],
)
def test_a_prompt_is_a_document_where_nothing_of_it_was_typed(
    monkeypatch, words, terminal, document
):
    """With ``-`` at a terminal it is typed, too."""
    monkeypatch.setattr(options, "is_terminal", lambda fd: terminal)
    monkeypatch.setattr(options, "_is_piped", lambda: True)
    monkeypatch.setattr(options, "_read_stdin", lambda wanted: "what is read")
    assert options.read_prompt(words).piped is document


async def test_a_host_below_a_named_one_is_asked(bench):
    """Anybody can have a host below a public suffix such as github.io."""
    kit = await bench(hilum_guard, WEB, approve="auto", kind="headless")
    result, _ = await fetched(kit, "deploy it to github.io", "https://evil.github.io/x")
    assert result.code == E_DENIED


@pytest.mark.parametrize(
    "url", ["https://apple.com⁄x.evil.test/", "https://a b.example/", "https:///x"]
)
async def test_an_address_that_will_be_refused_is_not_asked(bench, url):
    """No question, and no rule for an empty host, could let it through."""
    kit = await bench(hilum_guard, WEB, approve="auto")
    result, questions = await fetched(kit, "x", url)
    assert (result.code, questions) == ("E_ADDRESS", 0)
    assert "domain:)" not in result.text


async def test_the_address_of_a_search_result_is_known_and_its_extract_is_not(bench, asked):
    """An extract is text that somebody else wrote."""
    kit = await bench(hilum_guard, WEB, approve="auto")
    await kit.call("web_search", query="x")
    assert (await kit.call("web_fetch", url="https://found.example/other")).code == ""
    await asked(kit, "web_fetch", url="https://evil.example/x")


async def test_a_rule_and_a_setting_make_a_host_known(bench):
    """No question for them."""
    kit = await bench(hilum_guard, WEB, approve="auto")
    (kit.folder / "config" / "permissions.toml").write_text(
        'allow = ["web_fetch(domain:a.example)"]\n'
    )
    assert (await kit.call("web_fetch", url="https://a.example/x")).code == ""
    assert kit.of(ApprovalAsked) == []


async def test_a_headless_run_refuses_and_says_what_would_allow_it(bench):
    """Nobody is there to ask."""
    kit = await bench(hilum_guard, WEB, approve="auto", kind="headless")
    result = await kit.call("web_fetch", url="https://evil.example/x")
    assert result.code == E_DENIED
    assert "hilum permissions allow 'web_fetch(domain:evil.example)'" in result.text


async def test_a_secret_in_an_address_is_asked_whatever_the_rules_say(bench, asked, monkeypatch):
    """In any encoding that an address has for it."""
    monkeypatch.setenv("PROBE_SECRET", "correct horse battery")
    kit = await bench(hilum_guard, WEB, approve="auto")
    (kit.folder / "config" / "permissions.toml").write_text('allow = ["web_fetch"]\n')
    assert (
        "secret"
        in (
            await asked(kit, "web_fetch", url="https://a.example/?k=correct%20horse%20battery")
        ).reason
    )


RANDOM = base64.b64encode(bytes(range(7, 250, 5))).decode()
CARRYING = [
    f"https://a.example/?d={RANDOM}",
    f"https://a.example/{base64.urlsafe_b64encode(bytes(range(40))).decode()}",
    f"https://a.example/#{RANDOM}",
    f"https://a.example/{bytes(range(60, 100)).hex()}",
    f"https://{bytes(range(60, 90)).hex()}.a.example/",
    "https://user:password@a.example/",
    "https://a.example/?" + "&".join(f"q{n}=words" for n in range(60)),
    "https://a.example/?d=%00%01%02%ff",
    "https://a.example/" + "word/" * 200,
]
PLAIN = [
    "https://docs.python.org/3/library/asyncio-task.html#asyncio.TaskGroup.create_task",
    "https://github.com/python/cpython/commit/4d2403fd50409b7f4a8d4a2ed6d3a6c3a0e2d4a1",
    "https://stackoverflow.com/questions/5767325/how-can-i-remove-a-specific-item-from-an-array-in-javascript",
    "https://api.example/v1/items/123e4567-e89b-12d3-a456-426614174000?page=2&sort=name",
    "https://learn.microsoft.com/en-us/dotnet/api/system.collections.generic.dictionary-2.trygetvalue?view=net-8.0",
    "https://developer.mozilla.org/en-US/docs/Web/JavaScript/Reference/Global_Objects/Array/toLocaleString",
    "https://en.wikipedia.org/wiki/Comparison_of_programming_languages_(object-oriented_programming)",
    "https://www.postgresql.org/docs/current/runtime-config-replication.html#GUC-MAX-STANDBY-STREAMING-DELAY",
    "https://arxiv.org/abs/2305.10601v2",
    "https://raw.githubusercontent.com/encode/httpx/master/docs/advanced/transports.md",
    "https://de.wikipedia.org/wiki/Stra%C3%9Fe",
]


@pytest.mark.parametrize("url", CARRYING)
def test_an_address_with_encoded_data_is_seen(url):
    """In query, path, fragment, host, user; much of anything."""
    assert carried_data(url)


@pytest.mark.parametrize("url", PLAIN)
def test_everyday_addresses_are_plain(url):
    """Documentation, commits, articles."""
    assert carried_data(url) == ""


@pytest.mark.parametrize("rule", ["web_fetch", "web_fetch(domain:a.example)", "network"])
async def test_encoded_data_is_asked_although_a_rule_allows_the_host(bench, asked, rule):
    """Such a rule says nothing about the data; a rule for the exact URL does."""
    kit = await bench(hilum_guard, WEB, approve="auto")
    rules = kit.folder / "config" / "permissions.toml"
    rules.write_text(f'allow = ["{rule}"]\n')
    url = f"https://a.example/?d={RANDOM}"
    event = await asked(kit, "web_fetch", url=url)
    assert "The address may leak data" in event.reason
    assert event.scope == f"web_fetch(url={url})"
    rules.write_text(f'allow = ["{rule}", "web_fetch(url={url})"]\n')
    questions = len(kit.of(ApprovalAsked))
    assert (await kit.call("web_fetch", url=url)).code == ""
    assert len(kit.of(ApprovalAsked)) == questions


def test_hosts_are_read_from_texts_and_compared_by_labels():
    """File names are no hosts; an address within an address counts."""
    assert set(find_named_hosts("edit setup.py and see docs.python.org, https://Bücher.example/x.")) == {
        "docs.python.org", "xn--bcher-kva.example"}  # fmt: skip
    assert hosts_within("https://a.example/r?to=https%3A%2F%2Fevil.example%2Fx") == ["evil.example"]
    assert is_known("www.a.example", {"a.example"})
    assert is_known("a.example", {"www.a.example"})
    assert not is_known("api.a.example", {"a.example"})
    assert not is_known("", {""})
    assert not is_known("a.example.evil.net", {"a.example"})
    assert not is_known("nota.example", {"a.example"})


SECRET_URL = "https://a.example/?k=correct%20horse%20battery"


@pytest.mark.parametrize("remember", ["session", "always"])
async def test_a_yes_to_an_address_with_a_secret_is_for_this_address(
    bench, asked, monkeypatch, remember
):
    """Neither another secret address nor another host is answered by it, nor is it answered by a
    wider yes.
    """
    monkeypatch.setenv("PROBE_SECRET", "correct horse battery")
    kit = await bench(hilum_guard, WEB, approve="auto")
    first = await asked(kit, "web_fetch", url=SECRET_URL, accept=True, remember=remember)
    assert first.scope == f"web_fetch(url={SECRET_URL})"
    assert (await kit.call("web_fetch", url=SECRET_URL)).code == ""
    assert (
        "secret"
        in (await asked(kit, "web_fetch", url="https://b.example/?k=correct+horse+battery")).reason
    )
    await asked(kit, "web_fetch", url="https://c.example/", accept=True, remember="session")
    assert (
        "secret"
        in (
            await asked(kit, "web_fetch", url="https://c.example/?k=correct%20horse%20battery")
        ).reason
    )
    rules = kit.folder / "config" / "permissions.toml"
    assert not rules.exists() or "horse" not in rules.read_text()


@pytest.mark.parametrize("rule", ["web_fetch", "web_fetch(domain:a.example)", "network"])
async def test_a_rule_that_denies_refuses_an_address_with_a_secret(bench, monkeypatch, rule):
    """It cannot be approved."""
    monkeypatch.setenv("PROBE_SECRET", "correct horse battery")
    kit = await bench(hilum_guard, WEB, approve="auto")
    (kit.folder / "config" / "permissions.toml").write_text(f'deny = ["{rule}"]\n')
    assert (await kit.call("web_fetch", url=SECRET_URL)).code == E_DENIED
    assert kit.of(ApprovalAsked) == []
