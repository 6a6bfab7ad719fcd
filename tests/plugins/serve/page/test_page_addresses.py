"""Addresses of agents' conversations, and which call has started which agent."""

from .conftest import keep_screenshot, wait_until
from .samples import answer, card, prompt, started


def fill(server):
    """Two calls with the same title, whose agents were started in the other order."""
    server.entries = [
        prompt(0, "Go"),
        card(1, "task", {"description": "Explore"}, "running"),
        card(2, "task", {"description": "Explore"}, "running"),
        {**answer(3, "I am the first."), "agent": "explore-1"},
        {**answer(4, "I am the second."), "agent": "explore-2"},
    ]
    server.state["started"] = [
        started("2", "Explore", call="c2", activity="reads b.py"),
        started("1", "Explore", call="c1", activity="reads a.py"),
    ]


def card_of(page, number):
    return page.locator(f".card[data-call='c{number}']")


def test_an_agent_has_an_address_that_survives_reload_and_back(server, open_page, open_session):
    fill(server)
    page = open_session()
    card_of(page, 1).locator(".fold").click()
    card_of(page, 1).get_by_role("button", name="Open conversation").click()
    page.get_by_text("I am the first.").wait_for()
    assert page.url == f"{server.session_url}/a/explore-1"
    page.reload()
    page.get_by_text("I am the first.").wait_for()
    page.get_by_role("heading", name="Explore").wait_for()
    page.go_back()
    card_of(page, 1).wait_for()
    assert page.url == server.session_url
    page.go_forward()
    page.get_by_text("I am the first.").wait_for()
    shared = open_page(page.url, "phone")
    shared.get_by_text("I am the first.").wait_for()
    assert shared.get_by_text("I am the second.").count() == 0
    keep_screenshot(shared, "agent-phone")
    shared.get_by_role("button", name="Back").click()
    wait_until(shared, lambda: shared.url == server.session_url)


def test_the_address_of_an_unknown_agent_leads_back(server, open_page):
    fill(server)
    page = open_page(f"{server.session_url}/a/nobody")
    page.get_by_role("heading", name="This session has no such agent.").wait_for()
    page.locator(".empty").get_by_role("link", name="Back").click()
    card_of(page, 1).wait_for()


def test_agents_are_found_by_the_call_that_started_them(server, open_session):
    fill(server)
    page = open_session()
    card_of(page, 1).locator(".subject", has_text="reads a.py").wait_for()
    card_of(page, 2).locator(".subject", has_text="reads b.py").wait_for()
