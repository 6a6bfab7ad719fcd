"""``web_search`` over the formats of its providers, against a server on loopback that speaks them."""

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
    rows = [{"title": f"T{n}", "url": f"https://a.example/{n}", "content": "x" * 500} for n in range(9)]
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
    site.json("/customsearch/v1", {"items": [{"title": "G", "link": "https://g.example", "snippet": "found"}]})
    result = await search(searxng_url=site.url, google_api_key="k", google_cx="c")
    assert "Results of Google" in result.text
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
    assert [each["url"] for each in result.data["results"]] == ["https://trio.example", "https://n.example"]


async def test_when_nobody_answers_each_reason_is_told(site, search):
    site.json("/customsearch/v1", {"error": {"message": "API key not valid."}}, 400)
    result = await search(google_api_key="wrong", google_cx="c")
    assert result.code == "E_UNREACHABLE"
    assert "API key not valid" in result.text
    assert "DuckDuckGo: " in result.text
    assert "wrong" not in result.text


async def test_nothing_found_is_no_error(site, search):
    site.json("/search", {"results": []})
    result = await search(searxng_url=site.url, duckduckgo=False)
    assert result.code == ""
    assert "found nothing" in result.text


async def test_with_no_provider_it_says_how(search):
    result = await search(duckduckgo=False)
    assert result.code == "E_NOT_CONFIGURED"
    assert "web.searxng_url" in result.text


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
