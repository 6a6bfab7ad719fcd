"""What the agent does in a page, with one real Chromium for all of it."""

import re

import pytest
from hilum.messages import Image

from .conftest import Browser, Site, needs_browser

pytestmark = [needs_browser, pytest.mark.slow(cases=6, of="file")]

FORM = """<!doctype html><title>Order</title><h1>Order</h1>
<form onsubmit="document.querySelector('output').textContent = 'Thanks, ' + n.value + ', ' + s.value; return false">
<label>Name <input id=n></label>
<label>Size <select id=s><option value=s>Small<option value=l>Large</select></label>
<button>Send</button></form><output></output>
<a href="/second">On</a> <a href="/second" target=_blank>New</a>
<p onmouseover="this.textContent = 'was there'">hover me</p>"""


@pytest.fixture(autouse=True)
def pages(site: Site) -> None:
    site.pages |= {"/": FORM, "/second": "<title>Second</title><h1>Second page</h1>"}


def ref(outline: str, what: str) -> str:
    found = re.search(rf"{what}.*\[ref=(\w+)\]", outline)
    assert found, outline
    return found[1]


def test_a_form_is_filled_by_the_refs_of_a_snapshot(browser: Browser, site: Site) -> None:
    """Navigate, outline, type, select, click, read: what a user would see is what is read."""
    assert "HTTP 200" in browser.text("navigate", url=site.url())
    outline = browser.text("snapshot")
    browser.text("type", selector=ref(outline, 'textbox "Name"'), text="Ann")
    browser.text("select", selector=ref(outline, "combobox"), text="Large")
    assert ', "Order"' in browser.text("click", selector=ref(outline, 'button "Send"'))
    assert "Thanks, Ann, l" in browser.text("get_text")
    assert browser.text("get_text", selector="output") == "Thanks, Ann, l"


def test_keys_and_the_pointer(browser: Browser, site: Site) -> None:
    """Typing replaces.

    A key is pressed in an element, or where the focus is; the pointer can rest.
    """
    browser.text("navigate", url=site.url())
    browser.text("type", selector="#n", text="first")
    browser.text("type", selector="#n", text="Bob")
    browser.text("type", text="by")  # into what has the focus
    browser.text("press", selector="#n", text="Enter")
    assert browser.text("get_text", selector="output") == "Thanks, Bobby, s"
    browser.text("hover", selector="p")
    assert browser.text("get_text", selector="p") == "was there"


def test_an_element_is_dragged_onto_another(browser: Browser, site: Site) -> None:
    """By the browser's own drag and drop, and by a page that follows the pointer."""
    site.pages[
        "/board"
    ] = """<p id=card draggable=true>Card</p><div id=done style="height:50px">Done: </div>
        <b id=knob>knob</b> <i id=slot>slot</i><u id=u></u><script>
        done.ondragover = e => e.preventDefault(); done.ondrop = () => done.append(card);
        knob.onmousedown = () => document.onmouseup = e => u.textContent = 'put on ' + e.target.id</script>"""
    browser.text("navigate", url=site.url("/board"))
    outline = browser.text("snapshot")
    target = re.search(r"\[ref=(\w+)\]: .?Done", outline)
    assert target, outline
    browser.text("drag", selector=ref(outline, "paragraph"), text=target[1])
    assert browser.text("get_text", selector="#done").split() == ["Done:", "Card"]
    browser.text("drag", selector="#knob", text="#slot")
    assert browser.text("get_text", selector="#u") == "put on slot"
    assert browser("drag", selector="#knob").code == "E_BAD_ARGS"
    assert browser("drag", selector="#knob", text="e9999").code == "E_NOT_FOUND"
    result = browser("drag", selector="#knob", text="#nowhere")
    assert (result.code, "'#nowhere'" in result.text) == ("E_NOT_FOUND", True), result.text


def test_pages_back_and_forward(browser: Browser, site: Site) -> None:
    browser.text("navigate", url=site.url())
    assert ', "Second"' in browser.text("click", selector="text=On")
    assert ', "Order"' in browser.text("back")
    assert ', "Second"' in browser.text("forward")
    assert "HTTP 200" in browser.text("reload")
    assert "no page to go forward to" in browser.text("forward")


def test_a_new_tab_is_told_and_tabs_are_switched_and_closed(browser: Browser, site: Site) -> None:
    browser.text("navigate", url=site.url())
    said = browser.text("click", selector="text=New")
    assert "A new tab was opened" in said
    assert ', "Second"' in said
    listed = browser.text("tabs").splitlines()
    assert listed[0] == f'  1. {site.url()} "Order"'
    assert listed[1] == f'* 2. {site.url("/second")} "Second"'
    assert "Order" in browser.text("get_text", tab=1)
    assert "HTTP 404" in browser.text("navigate", url=site.url("/none"), tab=2)
    assert "closed" in browser.text("close", tab=2)
    assert len(browser.text("tabs").splitlines()) == 1
    assert browser("get_text", tab=2).code == "E_BAD_ARGS"


def test_the_tab_that_is_worked_with_is_drawn(browser: Browser, site: Site) -> None:
    """One behind another would be drawn once a second, and whatever waits for two frames of it
    would take seconds.
    """
    site.pages[
        "/drawn"
    ] = """<a href=/second target=_blank>New</a><p id=p></p><button onclick='draw(20)'>again</button>
        <script>function draw(n) { p.textContent = n ? 'drawing' : 'drawn'; if (n) requestAnimationFrame(() => draw(n - 1)) }
        </script>"""
    browser.text("navigate", url=site.url("/drawn"))
    browser.text("click", selector="text=New")
    for _ in range(2):
        browser.text("click", selector="button", tab=1)
        assert "appeared after" in browser.text("wait", text="drawn", waitMs=5000)
        browser.text("tabs", tab=2)
    browser.text("close", tab=2)
    browser.text("click", selector="button")
    assert "appeared after" in browser.text("wait", text="drawn", waitMs=5000)


def test_screenshots_are_saved_and_shown(browser: Browser, site: Site) -> None:
    """In the workspace by a name, else in a folder of the session.

    The model gets the image itself.
    """
    site.pages["/tall"] = "<body style='margin:0;height:3000px'>"
    browser.text("navigate", url=site.url("/tall"))
    result = browser("screenshot", path="shots/one.png")
    assert result.text.startswith("Saved shots/one.png")
    data = (browser.workspace / "shots/one.png").read_bytes()
    assert (int.from_bytes(data[16:20]), int.from_bytes(data[20:24])) == (1280, 800)
    assert [part.data for part in result.parts if isinstance(part, Image)] == [data]
    browser.text("screenshot", path="shots/one.png", full=True)
    data = (browser.workspace / "shots/one.png").read_bytes()
    assert int.from_bytes(data[20:24]) == 3000
    browser.text("screenshot", path="shots/one.jpg", selector="body")
    assert (browser.workspace / "shots/one.jpg").read_bytes().startswith(b"\xff\xd8\xff")
    assert re.search(r"Saved \S+/screenshot_\d+_\d+_\d+\.png", browser.text("screenshot"))


def test_a_screenshot_that_is_none_or_leads_out(browser: Browser, site: Site) -> None:
    browser.text("navigate", url=site.url())
    assert browser("screenshot", path="notes.txt").code == "E_BAD_ARGS"
    assert browser("screenshot", path="../out.png").code == "E_PATH_TRAVERSAL"


def test_the_viewport(browser: Browser, site: Site) -> None:
    browser.text("navigate", url=site.url())
    browser.text("viewport", size="390x844")
    browser.text("screenshot", path="small.png")
    assert int.from_bytes((browser.workspace / "small.png").read_bytes()[16:20]) == 390
    browser.text("viewport", size="1280x800")
    assert browser("viewport", size="huge").code == "E_BAD_ARGS"


def test_waiting(browser: Browser, site: Site) -> None:
    """For a time, a text, an element, or until nothing is loaded; never longer than ten seconds."""
    site.pages["/late"] = (
        "<script>setTimeout(() => document.body.innerHTML = '<i>Ready</i>', 200)</script>"
    )
    browser.text("navigate", url=site.url("/late"))
    assert "'Ready' appeared after" in browser.text("wait", text="Ready")
    assert "'i' appeared after" in browser.text("wait", selector="i", text="Ready")
    assert "Nothing is loading" in browser.text("wait_idle", waitMs=5000)
    assert browser.text("wait", waitMs=10).startswith("Waited 10 ms.")
    result = browser("wait", text="never", waitMs=50)
    assert result.code == "E_TIMEOUT"
    assert site.url("") in result.text
    assert browser("wait", waitMs=10_001).code == "E_BAD_ARGS"


def test_the_console_tells_messages_errors_and_failed_requests_once(
    browser: Browser, site: Site
) -> None:
    site.pages["/loud"] = "<script>console.warn('careful'); fetch('/none'); null.x</script>"
    browser.text("navigate", url=site.url("/loud"))
    browser.text("wait_idle", waitMs=5000)
    said = browser.text("console")
    assert "warning: careful" in said
    assert "uncaught: " in said
    assert f"404 GET {site.url('/none')}" in said
    assert browser.text("console") == "Nothing new."


def test_dialogs_are_answered_and_told(browser: Browser, site: Site) -> None:
    """An alert is accepted; a question is answered with no, unless it is to be yes."""
    site.pages["/ask"] = (
        "<button onclick=\"this.textContent = confirm('Delete all?') ? 'gone' : 'kept'\">x</button>"
    )
    browser.text("navigate", url=site.url("/ask"))
    said = browser.text("click", selector="button")
    assert "'Delete all?': dismissed" in said
    assert browser.text("get_text") == "kept"
    assert "accepted" in browser.text("click", selector="button", accept=True)
    assert browser.text("get_text") == "gone"


def test_downloads_are_saved_within_bounds(browser: Browser, site: Site) -> None:
    """A file that a page gives is told, and saved where the call says.

    One that is too large is not kept.
    """

    def attached(size: int) -> tuple[int, dict[str, str], bytes]:
        return (
            200,
            {
                "content-type": "text/csv",
                "content-disposition": 'attachment; filename="../a b.csv"',
            },
            b"x" * size,
        )

    site.pages |= {
        "/files": "<a href=/small>small</a><a href=/large>large</a>",
        "/small": lambda _: attached(100),
        "/large": lambda _: attached(1_000_001),
    }
    browser.text("navigate", url=site.url("/files"))
    assert "started a download" in browser.text("click", selector="text=small")
    assert browser.text("download", path="out/data.csv").startswith(
        "Saved out/data.csv: 100 bytes."
    )
    assert (browser.workspace / "out/data.csv").read_bytes() == b"x" * 100
    assert re.search(r"Saved downloads/[\w.]+csv", browser.text("download", selector="text=small"))
    assert (
        browser("download", selector="text=small", path="out/data.csv").code == "E_BAD_ARGS"
    )  # it is there already
    result = browser("download", selector="text=large", path="big.csv")
    assert result.code == "E_TOO_LARGE"
    assert site.url("") in result.text
    assert not (browser.workspace / "big.csv").exists()
    assert browser("download").code == "E_NOT_FOUND"
    assert "a file" in browser.text("navigate", url=site.url("/small"))


def test_a_long_page_is_cut(browser: Browser, site: Site) -> None:
    """Ten thousand characters of text, and it says how much more there is."""
    site.pages["/long"] = f"<p>{'word ' * 4000}</p>"
    browser.text("navigate", url=site.url("/long"))
    text = browser.text("get_text")
    assert len(text) < 10_200
    assert re.search(r"\[cut: 9,\d\d\d characters more\.", text)


def test_elements_that_cannot_be_used_say_why(browser: Browser, site: Site) -> None:
    """Not there, several, hidden, covered, of the wrong kind, not a selector, an old ref, an option
    that is none.
    """
    site.pages[
        "/hard"
    ] = """<p>a<p>b<button style="display:none">hid</button><select><option>One</select><i>t</i>
        <button id=b>under</button><div style="position:fixed;inset:0"></div>"""
    browser.text("navigate", url=site.url("/hard"))
    for selector, code, why in (
        ("#zzz", "E_NOT_FOUND", "snapshot"),
        ("e999", "E_NOT_FOUND", "new snapshot"),
        ("p", "E_MULTIPLE_MATCHES", "2 elements"),
        ("text=hid", "E_TIMEOUT", "not visible"),
        ("#b", "E_TIMEOUT", "covered by another"),
        ("[[", "E_BAD_ARGS", "not a valid selector"),
        ("", "E_BAD_ARGS", "requires a selector"),
    ):
        result = browser("click", selector=selector)
        assert result.code == code, result.text
        assert why in result.text
        assert not selector or site.url("") in result.text or code == "E_BAD_ARGS"
    result = browser("select", selector="select", text="Two")
    assert (result.code, "It has: One" in result.text) == ("E_NOT_FOUND", True)
    assert browser("type", selector="i", text="x").code == "E_BAD_ARGS"
    assert browser("press", text="NoKey").code == "E_BAD_ARGS"


def test_a_frame_in_a_page_is_reached(browser: Browser, site: Site) -> None:
    site.pages["/outer"] = "<iframe src=/second></iframe>"
    browser.text("navigate", url=site.url("/outer"))
    inside = ref(browser.text("snapshot"), 'heading "Second page"')
    assert browser.text("get_text", selector=inside) == "Second page"


def test_what_a_page_posts_arrives_whole(browser: Browser, site: Site) -> None:
    site.pages["/post"] = (
        "<form method=post action=/second><input name=a><button>Go</button></form>"
    )
    browser.text("navigate", url=site.url("/post"))
    browser.text("type", selector="input", text="1" * 100_000)
    assert "Second" in browser.text("click", selector="button")
    assert site.asked[-1] == "POST /second"
    assert site.bodies[-1] == b"a=" + b"1" * 100_000


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "data:text/html,x",
        "chrome://version",
        "about:blank",
        "x",
        "",
    ],
)
def test_only_pages_are_opened(browser: Browser, url: str) -> None:
    assert browser("navigate", url=url).code in ("E_ADDRESS", "E_BAD_ARGS")


def test_a_page_gets_neither_files_nor_scripts_of_the_program(browser: Browser, site: Site) -> None:
    """It cannot go to a file by itself, and knows nothing of what drives it."""
    script = (
        "location = 'file:///etc/passwd'; document.title = [typeof process, typeof require].join()"
    )
    site.pages["/escape"] = f"<a href='file:///etc/passwd'>f</a><script>{script}</script>"
    said = browser.text("navigate", url=site.url("/escape"))
    assert ', "undefined,undefined"' in said
    assert "root:" not in browser.text("get_text")
    assert site.url("/escape") in browser.text("click", selector="a")


def test_files_of_the_workspace_are_given_to_a_page(browser: Browser, site: Site) -> None:
    """To a field for files, or to what opens one; never from outside the workspace."""
    (browser.workspace / "data.csv").write_text("a,b\n")
    site.pages[
        "/up"
    ] = """<input type=file id=f hidden><button onclick="f.click()">Choose</button><p id=p></p><script>
        f.onchange = async () => p.textContent = f.files[0].name + ': ' + await f.files[0].text() + f.files[0].type</script>"""
    for selector in ("#f", "button"):
        browser.text("navigate", url=site.url("/up"))
        assert "data.csv, 4 bytes" in browser.text("upload", selector=selector, path="data.csv")
        assert browser.text("get_text", selector="#p") == "data.csv: a,b text/csv"
    assert browser("upload", selector="#f").code == "E_BAD_ARGS"
    assert browser("upload", selector="#f", path="none.csv").code == "E_FILE_NOT_FOUND"
    assert browser("upload", selector="#f", path="/etc/passwd").code == "E_PATH_TRAVERSAL"
    assert browser("upload", selector="p", path="data.csv").code in ("E_TIMEOUT", "E_BAD_ARGS")


def test_a_selector_that_fits_nothing_names_near_ones(browser: Browser, site: Site) -> None:
    browser.text("navigate", url=site.url())
    site.pages["/near"] = (
        "<button id=submit-order>Order</button><input name=customer><a href=/>Go home</a>"
    )
    browser.text("navigate", url=site.url("/near"))
    for selector, near in (
        ("#submitorder", "Similar: #submit-order"),
        ("input[name=custmer]", 'input[name="customer"]'),
        ("text=Go hom!", 'a:has-text("Go home")'),
    ):
        result = browser("click", selector=selector)
        assert (result.code, near in result.text) == ("E_NOT_FOUND", True), result.text
        browser.text("hover", selector=near.removeprefix("Similar: "))


def test_requests_are_listed_once(browser: Browser, site: Site) -> None:
    site.pages["/asks"] = "<script>fetch('/second'); fetch('/none')</script>"
    browser.text("navigate", url=site.url("/asks"))
    browser.text("wait_idle", waitMs=5000)
    said = browser.text("network")
    assert f"200 GET {site.url('/asks')} (document)" in said
    assert f"200 GET {site.url('/second')} (fetch)" in said
    assert f"404 GET {site.url('/none')} (fetch)" in said
    assert browser.text("network") == "Nothing new."


def test_a_dialog_that_wants_a_text(browser: Browser, site: Site) -> None:
    site.pages["/prompt"] = "<button onclick=\"document.title = prompt('Name?')\">x</button>"
    browser.text("navigate", url=site.url("/prompt"))
    assert ', "Ann"' in browser.text("click", selector="button", accept=True, text="Ann")
    assert "dismissed" in browser.text("click", selector="button", text="Ann")
