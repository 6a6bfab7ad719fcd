"""``web_fetch`` against sites on loopback, through the real loop."""

import gzip
import re
import zlib

import pytest

ARTICLE = """<!doctype html><html><head><title>How to  parse</title><script>var x = "nothing"</script></head><body>
<nav><a href="/">Home</a> <a href="/about">About us</a></nav>
<main><h1>Parsing<a class="headerlink" href="#p">¶</a></h1><p>Use <code>json.loads</code>,
see <a href="../spec">the spec</a>.</p>
<pre><code class="language-python">import json
json.loads("{}")</code></pre>
<table><thead><tr><th>Name</th><th>Means</th></tr></thead><tbody><tr><td>a</td><td>one</td></tr></tbody></table>
<h2 id="later">Later</h2><p>The end of it.</p></main>
<footer>Imprint</footer></body></html>"""


async def test_a_page_is_its_main_content_as_markdown(site, fetch):
    """Code, tables and links stay; navigation, scripts and the marks of headings go."""
    result = await fetch(site.page("/docs/parse.html", ARTICLE))
    assert result.code == ""
    assert result.text.startswith(f"How to parse\n{site.url}/docs/parse.html\n\n# Parsing\n")
    assert "`json.loads`" in result.text
    assert f"[the spec]({site.url}/spec)" in result.text
    assert 'import json\njson.loads("{}")' in result.text
    assert "| a" in result.text
    for noise in ("Home", "Imprint", "nothing", "¶"):
        assert noise not in result.text


async def test_a_fragment_is_read_from_its_place(site, fetch):
    """As a person who follows the link would see it; a name that is not there is told."""
    url = site.page("/page", ARTICLE)
    result = await fetch(f"{url}#later")
    assert result.text.partition("\n\n")[2].startswith("## Later")
    assert "no element named 'never'" in (await fetch(f"{url}#never")).text


async def test_long_pages_are_read_in_parts(site, tool):
    """The parts together are the page, in order; the site is asked once."""
    words = "".join(f"<p>paragraph number {n} of many</p>" for n in range(3_000))
    url = site.page("/long", f"<html><body><main>{words}</main></body></html>")
    seen, start = [], 0
    while True:
        [result] = await tool(("web_fetch", {"url": url, "start": start}), limit=20_000)
        text = result.text.partition("\n\n")[2]
        seen += [line for line in text.split("\n") if line.startswith("paragraph")]
        if not result.data["more"]:
            break
        assert f"start={result.data['end']}" in result.text
        start = result.data["end"]
    assert seen == [f"paragraph number {n} of many" for n in range(3_000)]


async def test_reading_on_asks_nobody_again(site, tool):
    """Within a session a page that was just fetched is kept."""
    url = site.page("/long", f"<main>{'<p>some words here</p>' * 2_000}</main>")
    first, second = await tool(
        ("web_fetch", {"url": url}), ("web_fetch", {"url": url, "start": 10_000}), limit=10_000
    )
    assert first.code == second.code == ""
    assert len(site.at("/long")) == 1


async def test_a_page_is_asked_for_again_with_what_is_known_of_it(site, tmp_path, monkeypatch):
    """After a while the site is asked whether it changed; its 304 saves the transfer."""
    from hilum_web.fetching import Fetcher
    from hilum_web.settings import WebSettings

    monkeypatch.setattr("hilum_web.fetching.FRESH_SECONDS", 0.0)
    url = site.page(
        "/page", "<p>first</p>", etag='"v1"', last_modified="Sat, 21 Nov 2026 10:00:00 GMT"
    )
    fetcher = Fetcher(WebSettings(hosts=[site.host]))
    page = await fetcher.fetch(url)
    site.page("/page", "", status=304)
    assert await fetcher.fetch(url) is page
    assert site.at("/page")[1]["if-none-match"] == '"v1"'
    assert site.at("/page")[1]["if-modified-since"] == "Sat, 21 Nov 2026 10:00:00 GMT"
    site.page("/page", "<p>second</p>")
    assert b"second" in (await fetcher.fetch(url)).body
    await fetcher.aclose()


@pytest.mark.parametrize(
    ("kind", "body", "words"),
    [
        ("text/plain", b"just text", "just text"),
        ("text/markdown", b"# Title\n\ntext", "# Title"),
        ("application/json", b'{"a":[1,2]}', '{\n "a": [\n  1'),
        ("application/vnd.api+json", b'{"a": 1}\n', '"a": 1'),
        ("text/html; charset=gb2312", "<p>你好，世界</p>".encode("gb2312"), "你好，世界"),
        ("text/html", '<meta charset="shift_jis"><p>日本語のページ</p>'.encode("shift_jis"), "日本語のページ"),
        ("text/html", "<p>naïve café</p>".encode("latin-1"), "naïve café"),
        ("text/html; charset=none-such", "<p>naïve</p>".encode(), "naïve"),
        ("text/plain", "﻿mark".encode("utf-16"), "mark"),
        ("", b"<!DOCTYPE html><p>no type</p>", "no type"),
        ("text/html", b"", "has no text"),
        ("text/html", b"<div id=root></div><script>app()</script>", "may need scripts"),
    ],
)  # fmt: skip
async def test_kinds_of_text_and_their_encodings(site, fetch, kind, body, words):
    """The header counts, then what the page says of itself, then what it is."""
    result = await fetch(site.page("/page", body, kind))
    assert result.code == ""
    assert words in result.text


def pdf(text: str) -> bytes:
    """A page with a line of text (ISO 32000-1, 7.5)."""
    stream = f"BT /F 9 Tf 9 9 Td ({text}) Tj ET".encode()
    font = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
    parts = (
        b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R/Resources<</Font<</F " + font + b">>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream),
    )  # fmt: skip
    whole, places = b"%PDF-1.4\n", b""
    for number, each in enumerate(parts, 1):
        places += b"%010d 00000 n \n" % len(whole)
        whole += b"%d 0 obj" % number + each + b"endobj\n"
    table = b"xref\n0 5\n0000000000 65535 f \n" + places
    return whole + table + b"trailer<</Size 5/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % len(whole)


@pytest.mark.parametrize(
    "kind", ["text/plain", "text/markdown", "application/json", "application/pdf"]
)
async def test_no_kind_of_text_carries_what_nobody_sees(site, fetch, kind):
    """What steers a terminal, turns the direction or hides words for the model is left out.

    Joiners and emoji stay.
    """
    odd = "a\x1b[2J\x07b\u202ec\U000e0041d\u200be\ufe0f\ufe01\ufe02f\x9bg\U000e0120h"
    odd += "\rX\x85Y\ufeff \u0915\u094d\u200d \u2764\ufe0f"
    if kind == "application/pdf":
        pytest.importorskip("pypdf")
        shown, body = "a[2Jb", pdf("a\x1b[2J\x07b")
    else:
        shown, body = (
            "a[2Jbcde\ufe0ffgh\nX\nY \u0915\u094d\u200d \u2764\ufe0f",
            f'{{"x":\n"{odd}"}}'.encode(),
        )
    result = await fetch(site.page("/odd", body, f"{kind}; charset=utf-8"))
    assert result.code == "", result.text
    assert shown in result.text
    unseen = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\ufeff\U000e0000-\U000e0fff]"
    assert not re.search(unseen, result.text)


async def test_what_a_redirect_tells_of_a_login_is_not_shown(site, fetch):
    site.redirect("/r", "https://user:secret@wiki.example/")
    result = await fetch(f"{site.url}/r")
    assert result.code == "E_ADDRESS"
    assert "https://…@wiki.example/" in result.text
    assert f"{site.host} redirects to it." in result.text
    assert "secret" not in result.text


async def test_messages_carry_nothing_unseen_of_a_server(site, fetch):
    """Where a page leads to, and what it calls its kind and its packing, is said by the server."""
    odd = "\u202egnp.exe\U000e0041"
    site.redirect("/r", f"http://127.0.0.1{odd}/x".encode().decode("latin-1"))
    site.page("/kind", b"\0", f"image/{odd}{'x' * 300}".encode().decode("latin-1"))
    for path in ("/r", "/kind"):
        result = await fetch(site.url + path)
        assert result.code
        assert not re.search("[\u202a-\u202e\U000e0000-\U000e007f]", result.text), result.text
        assert len(result.text) < 400


async def test_what_is_no_text_is_told(site, fetch):
    """The kind is named."""
    result = await fetch(site.page("/a.zip", b"PK\3\4", "application/zip"))
    assert result.code == "E_CONTENT"
    assert "application/zip" in result.text


@pytest.mark.parametrize("packed", ["gzip", "deflate", "raw"])
async def test_packed_pages_are_unpacked(site, fetch, packed):
    body = b"<p>words that were packed</p>" * 100
    data = gzip.compress(body) if packed == "gzip" else zlib.compress(body)
    data = data[2:-4] if packed == "raw" else data
    url = site.page("/page", data, content_encoding="gzip" if packed == "gzip" else "deflate")
    assert "words that were packed" in (await fetch(url)).text


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("bomb", "E_TOO_LARGE", "larger than"),
        ("long", "E_TOO_LARGE", "larger than"),
        ("said", "E_TOO_LARGE", "larger than"),
        ("damaged", "E_CONTENT", "damaged"),
        ("brotli", "E_CONTENT", "not requested"),
    ],
)
async def test_limits_of_size(site, fetch, name, code, words):
    """A small body that unpacks to much, one without end, one that says it is large: no more than
    the limit is held.
    """

    def endless(handler):
        handler.send_response(200)
        handler.send_header("content-type", "text/plain")
        handler.send_header("connection", "close")
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b"x" * 65_536)
        except OSError:
            handler.close_connection = True

    site.page("/bomb", gzip.compress(b"\0" * 5_000_000), content_encoding="gzip")
    site.pages["/long"] = endless
    site.page("/said", b"", "text/plain", content_length="999999999")
    site.page("/damaged", b"no gzip", content_encoding="gzip")
    site.page("/brotli", b"\x0b", content_encoding="br")
    result = await fetch(f"{site.url}/{name}", max_bytes=1_000_000)
    assert result.code == code
    assert words in result.text
    assert site.host in result.text


async def test_redirects_are_followed_and_the_last_address_told(site, fetch):
    site.redirect("/old", "/new", 301)
    site.page("/new", "<p>moved here</p>")
    result = await fetch(f"{site.url}/old")
    assert f"{site.url}/new" in result.text
    assert "moved here" in result.text


@pytest.mark.parametrize(
    ("to", "code", "words"),
    [
        ("/loop", "E_HTTP", "in a loop"),
        ("http://169.254.169.254/latest", "E_ADDRESS", "metadata"),
        ("http://localhost:8123/", "E_ADDRESS", "this machine"),
        ("http://[::ffff:10.0.0.1]/", "E_ADDRESS", "private"),
        ("file:///etc/passwd", "E_ADDRESS", "only http"),
        ("http://user:pw@127.0.0.1/", "E_ADDRESS", "password"),
    ],
)
async def test_redirects_that_are_not_followed(site, fetch, to, code, words):
    """Each step is checked like the first one."""
    site.redirect("/loop", to)
    result = await fetch(f"{site.url}/loop")
    assert result.code == code
    assert words.lower() in result.text.lower()


async def test_a_chain_of_redirects_has_an_end(site, fetch):
    for n in range(20):
        site.redirect(f"/{n}", f"/{n + 1}")
    result = await fetch(f"{site.url}/0")
    assert result.code == "E_HTTP"
    assert "more than 10 times" in result.text


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "login"),
        (403, "refuses requests from programs"),
        (404, "search for"),
        (429, "try again in 7 s"),
        (503, "Try again in 7 s"),
    ],
)
async def test_statuses_are_told_with_what_to_do(site, fetch, status, words):
    url = site.page("/page", "no", status=status, retry_after="7")
    result = await fetch(url)
    assert result.code == "E_HTTP"
    assert str(status) in result.text
    assert words in result.text


async def test_the_users_network_is_not_fetched_unless_they_list_it(site, fetch):
    """The site is on this machine: without the setting nothing connects to it."""
    url = site.page("/page", "<p>secret</p>")
    result = await fetch(url, hosts=[])
    assert result.code == "E_ADDRESS"
    assert "web.hosts" in result.text
    assert not site.asked


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://no-such-host.invalid/", "E_UNREACHABLE"),
        ("http://127.0.0.1:8999/", "E_UNREACHABLE"),
        ("nonsense", "E_ADDRESS"),
        ("ftp://example.com/", "E_ADDRESS"),
        ("http://2130706433/", "E_ADDRESS"),
        ("http://", "E_ADDRESS"),
    ],
)
async def test_addresses_that_cannot_be_fetched(site, fetch, url, code):
    """One sentence names the host and what is wrong with it."""
    result = await fetch(url, hosts=["127.0.0.1:8999"], robots=False)
    assert result.code == code
    assert "Traceback" not in result.text


async def test_a_site_that_breaks_off(site, fetch):
    def broken(handler):
        handler.send_response(200)
        handler.send_header("content-length", "1000")
        handler.end_headers()
        handler.wfile.write(b"<p>beginning")
        handler.close_connection = True

    site.pages["/page"] = broken
    result = await fetch(f"{site.url}/page")
    assert result.code == "E_UNREACHABLE"
    assert "was interrupted" in result.text


async def test_a_site_that_never_answers(site, fetch):
    """The limit of time holds for all of it, also for one that sends a byte now and then."""
    import threading

    gate = threading.Event()
    site.pages["/page"] = lambda handler: gate.wait(20)
    result = await fetch(f"{site.url}/page", timeout=1.0, robots=False)
    gate.set()
    assert result.code == "E_TIMEOUT"
    assert site.host in result.text


async def test_robots_are_asked_once_and_heeded(site, tool):
    """A page that is kept from programs is not fetched; the user may decide otherwise."""
    site.page("/robots.txt", "User-agent: *\nDisallow: /private/*.html\nAllow: /\n", "text/plain")
    site.page("/private/a.html", "<p>a</p>")
    site.page("/open", "<p>b</p>")
    calls = [("web_fetch", {"url": f"{site.url}{path}"}) for path in ("/private/a.html", "/open")]
    refused, given = await tool(*calls)
    assert refused.code == "E_DENIED"
    assert "robots.txt" in refused.text
    assert given.code == ""
    assert len(site.at("/robots.txt")) == 1
    assert not site.at("/private/a.html")
    [given] = await tool(calls[0], robots=False)
    assert given.code == ""
    assert all("hilum" in headers["user-agent"] for _, headers, _ in site.asked)


async def test_a_start_beyond_the_end_is_told(site, fetch):
    result = await fetch(site.page("/page", "<p>short</p>"), start=5_000)
    assert result.code == "E_BAD_ARGS"
    assert "6 characters" in result.text


async def test_a_pdf_is_read(site, fetch):
    """With the extra installed; a damaged one is told."""
    pypdf = pytest.importorskip("pypdf")
    import io

    writer = pypdf.PdfWriter()
    writer.add_blank_page(100, 100)
    data = io.BytesIO()
    writer.write(data)
    result = await fetch(site.page("/a.pdf", data.getvalue(), "application/pdf"))
    assert "[Page 1]" in result.text
    result = await fetch(site.page("/b.pdf", b"%PDF-1.7 broken", "application/pdf"))
    assert result.code == "E_CONTENT"
