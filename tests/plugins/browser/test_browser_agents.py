"""Agents of a session share its browser, each with tabs of its own."""

from collections import defaultdict, deque

from hilum import Profile
from hilum.events import ModelAnswered
from hilum.models import Request
from hilum.testing import say, use

from .conftest import Browser, Site, needs_browser

pytestmark = needs_browser


def test_an_agent_that_waits_holds_up_no_other(browser: Browser, site: Site) -> None:
    """What the first one waits for is done by the second one.

    Its own page is worked with as before, afterwards.
    """
    site.pages[
        "/waits"
    ] = """<p id=p></p><button onclick="p.textContent = 'clicked'">x</button><script>
        let over = false;  // several requests may be pending when the first answer is "done"
        const asking = setInterval(async () => { const said = await (await fetch('/state')).text();
          if (said == 'done' && !over) { over = true; clearInterval(asking); p.textContent = said } }, 50)</script>"""
    done = []
    site.pages["/state"] = lambda _: (200, {}, b"done" if done else b"not yet")
    site.pages["/does"] = lambda _: (
        200,
        {"content-type": "text/html"},
        bytes(done.append(1) or b"<title>Does</title>"),
    )
    browser.text("navigate", url=site.url("/waits"))
    scripts = defaultdict(deque)
    scripts["main"] += [
        use("browser_use", action="wait", text="done", waitMs=10_000),
        say("waited"),
    ]
    scripts["helper"] += [use("browser_use", action="navigate", url=site.url("/does")), say("did")]

    def answer(request: Request) -> object:
        return scripts[request.agent].popleft()

    async def both() -> None:
        bench = browser.bench
        bench.model.next(*[answer] * 4)
        bench.session.add_agent(Profile("helper"))
        last = bench.session.journal.last
        runs = [await bench.start("Wait.")]
        await bench.wait_for(ModelAnswered, after=last)
        runs.append(await bench.start("Do.", agent="helper"))
        for run in runs:
            await run.wait()

    browser.run(both)
    waited, did = (
        next(result for result in reversed(browser.bench.results) if said in result.text)
        for said in ("done", "Does")
    )
    assert not waited.code, waited.text
    assert not did.code, did.text
    browser.text("click", selector="button")
    assert browser.text("get_text", selector="p") == "clicked"
    assert len(browser.text("tabs").splitlines()) == 1
