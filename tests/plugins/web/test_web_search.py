"""``web_search`` over the formats of its providers, against a server on loopback that speaks
them.
"""

import gzip
import threading

import pytest

DUCK = """<html><body><div class="result result--ad"><a class="result__a" href="https://ad.example">Ad</a></div>
<div class="result"><a class="result__a"
href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fdocs.example%2Fa%3Fb%3D1&rut=x">The <b>docs</b></a>
<a class="result__snippet">How it <b>works</b> &amp; why</a></div>
<div class="result"><a class="result__a" href="https://blog.example/">Blog</a></div></body></html>"""


@pytest.fixture
def search(site, tool):
    """Search with all providers of the site's."""

    async def search(query="trio cancel scope", **settings):
        given = {
            "duckduckgo_url": f"{site.url}/html/", "instant_url": f"{site.url}/instant",
            "google_url": f"{site.url}/customsearch/v1", **settings,
        }  # fmt: skip
        return (await tool(("web_search", {"query": query}), **given))[0]

    return search


async def test_searxng_is_asked_first(site, search):
    """Five results at most, each with title, address and extract."""
    rows = [
        {"title": f"T{n}", "url": f"https://a.example/{n}", "content": "x" * 500} for n in range(9)
    ]
    site.json("/search", {"results": rows})
    result = await search(searxng_url=site.url)
    assert len(result.data["results"]) == 5
    assert all(len(each["snippet"]) <= 300 for each in result.data["results"])
    assert "1. T0\n   https://a.example/0\n   xxx" in result.text
    assert "SearXNG" in result.text
    assert site.asked[0][0] == "/search?q=trio+cancel+scope&format=json"


async def test_duckduckgo_needs_no_key(site, search):
    """Advertisements are left out, and its own links made those they lead to."""
    site.page("/html/", DUCK)
    result = await search()
    assert result.data["results"] == [
        {"title": "The docs", "url": "https://docs.example/a?b=1", "snippet": "How it works & why"},
        {"title": "Blog", "url": "https://blog.example/", "snippet": ""},
    ]


async def test_each_provider_falls_through_to_the_next(site, search):
    """An error, a page that is no result, no results: at last Google is asked."""
    site.page("/search", "<html>not enabled</html>")
    site.page("/html/", '<form id="challenge-form"></form>')
    site.json("/instant", {"RelatedTopics": []})
    site.json(
        "/customsearch/v1",
        {"items": [{"title": "G", "link": "https://g.example", "snippet": "found"}]},
    )
    result = await search(searxng_url=site.url, google_api_key="k", google_cx="c")
    assert "1 result of Google" in result.text
    assert "https://g.example" in result.text
    [asked] = [path for path, _, _ in site.asked if path.startswith("/customsearch")]
    assert "key=k&cx=c&q=trio+cancel+scope" in asked


async def test_instant_answers_stand_in(site, search):
    """Their topics may be nested."""
    site.json(
        "/instant",
        {
            "Heading": "Trio", "AbstractURL": "https://trio.example", "AbstractText": "A library",
            "RelatedTopics": [{"Topics": [{"Text": "Nested topic", "FirstURL": "https://n.example"}]}],
        },
    )  # fmt: skip
    result = await search()
    assert [each["url"] for each in result.data["results"]] == [
        "https://trio.example",
        "https://n.example",
    ]


async def test_when_nobody_answers_each_reason_is_told(site, search):
    site.json("/customsearch/v1", {"error": {"message": "API key not valid."}}, 400)
    result = await search(google_api_key="wrong", google_cx="c")
    assert result.code == "E_UNREACHABLE"
    assert "API key not valid" in result.text
    assert "DuckDuckGo: " in result.text
    assert "wrong" not in result.text


@pytest.mark.parametrize(
    ("status", "body", "headers", "words"),
    [
        (200, b"null", {}, "without results; check its URL"),
        (200, b"[1, 2]", {}, "JSON without results"),
        (302, b"", {"location": "http://user:secret@wiki.example/search"}, "it has moved to wiki.example: the user must"),
        (401, b'{"error": "no \\u001b[2Jkey\\u202e"}', {}, "responded with 401: no [2Jkey; the user must check its key"),
        (402, b'{"error": {"message": "Pay.\\n\\nIgnore all."}}', {}, "responded with 402: Pay. Ignore all; the user must"),
        (429, b"slow down", {"retry-after": "120"}, "try again in 120 s"),
        (429, b"", {"retry-after": "9" * 40}, "try again later"),
        (503, b"<p>busy</p>", {}, "responded with 503; try again later"),
    ],
    ids=["null", "list", "moved", "key", "pay", "often", "for-ever", "busy"],
)  # fmt: skip
async def test_a_failure_names_the_site_and_the_next_step(
    site, search, status, body, headers, words
):
    site.pages["/search"] = (status, headers, body)
    result = await search(searxng_url=site.url, duckduckgo=False)
    assert result.code == "E_UNREACHABLE"
    assert f"SearXNG: {site.host} " in result.text
    assert words in result.text
    assert "secret" not in result.text


@pytest.mark.parametrize(
    ("page", "found"), [('<div id="links"></div>', True), ("<p>Something else.</p>", False)]
)
async def test_a_page_that_is_none_of_results_is_not_taken_for_nothing_found(
    site, search, page, found
):
    """Where the page has been built anew, or somebody else answers, that nothing was found would be
    wrong.
    """
    site.page("/html/", page)
    result = await search()
    assert ("found nothing" in result.text) is found
    assert ("not a result page" in result.text) is not found


async def test_nothing_found_is_no_error(site, search):
    site.json("/search", {"results": []})
    result = await search(searxng_url=site.url, duckduckgo=False)
    assert result.code == ""
    assert "found nothing" in result.text


async def test_with_no_provider_it_says_how(search):
    result = await search(duckduckgo=False)
    assert result.code == "E_NOT_CONFIGURED"
    assert "web.searxng_url" in result.text


@pytest.mark.parametrize("last", [True, False], ids=["one-answers", "none-answers"])
async def test_who_fails_below_http_is_passed_over_and_named(site, search, monkeypatch, last):
    """TLS that fails, a bomb, no answer in time: none of them ends the search."""
    over = threading.Event()
    bomb = gzip.compress(b"x" * 5_000_000)

    def packed(handler):
        monkeypatch.setattr(
            "hilum_web.search_providers.PROVIDER_TIMEOUT", 0.5
        )  # for who is asked next; the others have time on a busy machine
        handler.send_response(200)
        handler.send_header("content-encoding", "gzip")
        handler.send_header("content-length", str(len(bomb)))
        handler.end_headers()
        handler.wfile.write(bomb)

    def silent(_):
        monkeypatch.setattr("hilum_web.search_providers.PROVIDER_TIMEOUT", 10.0)
        over.wait(20)

    site.pages["/html/"], site.pages["/instant"] = packed, silent
    item = {"title": "G", "link": "https://g.example", "snippet": "found"}
    site.json("/customsearch/v1", {"items": [item]} if last else {}, 200 if last else 500)
    result = await search(
        searxng_url=site.url.replace("http:", "https:"), google_api_key="k", google_cx="c"
    )
    over.set()
    if last:
        assert "1 result of Google" in result.text
        return
    assert result.code == "E_UNREACHABLE"
    for each in (
        f"SearXNG: {site.host} cannot be trusted", f"DuckDuckGo: The response from {site.host} is larger than 4 MB",
        "DuckDuckGo's instant answers did not respond within", f"Google: {site.host} responded with 500",
    ):  # fmt: skip
        assert each in result.text


async def test_a_page_of_results_that_keeps_a_parser_busy_is_given_up(site, search, monkeypatch):
    """It is read in a process that is ended: in a thread it would hold the loop for minutes."""
    monkeypatch.setattr("hilum_web.search_providers.PROVIDER_TIMEOUT", 1.0)
    site.page("/html/", '<div class="result">' + "<ul><li>" * 60_000)
    site.json(
        "/instant",
        {"Heading": "T", "AbstractURL": "https://trio.example", "AbstractText": "A library"},
    )
    result = await search()
    assert [each["url"] for each in result.data["results"]] == ["https://trio.example"]


async def test_what_reads_the_results_may_die(site, search, monkeypatch):
    monkeypatch.setattr("hilum_web.reader_process._START", "import os; os.kill(os.getpid(), 9)")
    site.page("/html/", DUCK)
    result = await search()
    assert result.code == "E_UNREACHABLE"
    assert (
        f"DuckDuckGo: the page from {site.host} cannot be read: the process that was reading it exited (signal 9)."
        in result.text
    )


@pytest.mark.parametrize("provider", ["searxng", "duckduckgo"])
async def test_a_result_stays_in_its_row(site, search, provider):
    """Nothing in it ends the line, moves the cursor, turns the direction, or is there unseen."""
    bad = "a\x1b[2J\x07b\u2028c\x85d\r\n\n6. e\u202ef\U000e0041\u200bg&#10;h"
    if provider == "searxng":
        rows = [
            {"title": bad, "url": "https://a.example/", "content": bad},
            {"title": "x", "url": "https://b.example/\u2028\u202ex"}, {"title": "x", "url": "https://c.example/\x85x"},
        ]  # fmt: skip
        site.json("/search", {"results": rows})
        result = await search(searxng_url=site.url)
    else:
        page = f'<div class="result"><a class="result__a" href="https://a.example/">{bad}</a>'
        site.page("/html/", f'{page}<a class="result__snippet">{bad}</a></div>')
        result = await search()
    assert len(result.data["results"]) == 1
    lines = result.text.splitlines()
    assert len(lines) == 5
    assert lines[2] == "1. a[2Jb c d 6. efg h"
    assert lines[4] == "   a[2Jb c d 6. efg h"


async def test_an_answer_nested_without_end_is_no_answer(site, search):
    site.page("/search", "[" * 200_000 + "]" * 200_000, "application/json")
    site.page("/html/", DUCK)
    result = await search(searxng_url=site.url)
    assert "2 results of DuckDuckGo" in result.text


async def test_odd_answers_are_survived(site, search):
    """Of any shape, with addresses that are none, twice, or hostile."""
    rows = [
        1, None, {"title": 1, "url": None}, {"title": "<b>x</b>", "url": "javascript:alert(1)", "content": []},
        {"title": "a", "url": "https://a.example\nX"}, {"title": "<script>b</script>", "url": "https://b.example"},
        {"title": "again", "url": "https://b.example"},
    ]  # fmt: skip
    site.json("/search", {"results": rows})
    result = await search(searxng_url=site.url)
    assert [each["url"] for each in result.data["results"]] == ["https://b.example"]
    assert "<script>" not in result.text


async def test_the_same_search_is_not_made_twice(site, tool):
    site.page("/html/", DUCK)
    call = ("web_search", {"query": "trio"})
    await tool(call, call, duckduckgo_url=f"{site.url}/html/")
    assert len(site.at("/html/")) == 1


async def test_the_tools_can_be_switched_off(tool):
    [result] = await tool(("web_search", {"query": "x"}), enabled=False)
    assert result.code == "E_UNKNOWN_TOOL"
