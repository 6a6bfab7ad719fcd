"""Builds the site with the original program, and compares the pages."""

import sys
from pathlib import Path

from hilum_eval.checking import Checks, compare_with_fixture, copy_with_originals, run_program

FIXTURE = Path(__file__).parent / "files"
EXPECTED = {
    "about": '<title>About</title>\n<main>We bake bread. See our <a href="prices.html">prices</a>.\n</main>\n',
    "bread": "<title>Bread & butter</title>\n"
    '<p class="author">Ida</p>\n<article>Our bread is baked at four.\n</article>\n',
    "contact": "<title>Contact</title>\n"
    '<main>Or look at our <a href="opening-hours.html">opening hours</a>.\n</main>\n',
    "opening-hours": "<title>Opening hours</title>\n"
    '<main>From six to noon. <a href="contact.html">Contact</a>\n</main>\n',
    "prices": "<title>Prices</title>\n<main>A loaf costs 4 EUR.\n</main>\n",
    "rye": '<title>Rye</title>\n<p class="author">Bo</p>\n'
    '<article>Rye needs a day. See <a href="bread.html">bread</a>.\n</article>\n',
}

checks = Checks()
root = copy_with_originals(FIXTURE, ["build.py", "templates"])
code, output = run_program([sys.executable, "-I", "-B", "build.py"], root)
checks.goal("builds", code == 0, output.strip().splitlines()[-1] if output.strip() else "")
wrong = []
for name, text in EXPECTED.items():
    path = root / "dist" / f"{name}.html"
    if not path.is_file() or path.read_text("utf-8") != text:
        wrong.append(name)
checks.goal("pages", not wrong, f"missing or different: {wrong}")
changed = compare_with_fixture(FIXTURE, ignore=["dist/*"])
allowed = {"pages/bread.md", "pages/contact.md"}
others = sorted(set(changed) - allowed)
checks.guard("others", not others, f"other files changed: {others}")
checks.report()
