"""Look at the built book: its files, and its pages in a browser without network, wide and narrow, light and dark.

python scripts/book/check_book.py     # after `make book`; screenshots go to build/screenshots

Every problem is one line that names the page, what is wrong and the mend; exit code 1 if there is any. A page of planted
mistakes comes first: each must be found, or the look at the others would prove nothing.
"""

import argparse
import html.parser
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from webdriver import TAB, Browser

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "build" / "_build" / "html"
SCREENSHOTS = ROOT / "build" / "screenshots"
SHAPES = {"desktop": (1280, 900), "phone": (390, 844)}
EQUATIONS = 27
SEARCH = "search.html"
COLOURED = ("book/intro.html", "notebooks/00_quickstart.html")
MOST_TABS = 60
TALLEST = 16000  # pixels of a screenshot
STILL = "document.head.append(Object.assign(document.createElement('style'), {textContent: '* {transition: none !important}'}));"
# What a problem's line must hold -> a mistake for the browser to find.
PLANTED = {
    "planted console.error": "<script>console.error('planted console.error')</script>",
    "planted exception": "<script>throw Error('planted exception')</script>",
    "planted rejection": "<script>Promise.reject(Error('planted rejection'))</script>",
    "SyntaxError": "<script>const planted = 1</script><script>const planted = 2</script>",
    "not_there.js": "<script src='not_there.js'></script>",
    "planted-late": "<script>addEventListener('load', () => setTimeout(() => console.error('planted-late'), 100))</script>",
    "asks for https://": "<script src='https://example.org/planted.js'></script>",
    "1 formulas not drawn": "<p>planted <span class='math'>x</span>.</p>",
    "1 formulas are tab stops, 1 without": "<mjx-container tabindex='0'></mjx-container>",
    "no text for those": "<img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>",
    "cannot be shown": "<img alt='planted' src='planted.png'>",
    "widgets are not drawn": "<script type='application/vnd.jupyter.widget-view+json'>{}</script>",
    "wider than the window": "<p style='width: 3000px'>wide</p>",
    "must be scrolled": "<pre style='overflow-x: auto; width: 20em'>a line of planted code that is too long for its box</pre>",
    "cannot be scrolled": "<details><pre style='overflow-x: hidden; width: 9em'>planted, folded code</pre></details>",
    "may break within 2.477 ± 0": "<p>2.477 ± 0.012</p>",
    "may break within x.": "",  # the formula above
    "contrast under 3": "<p style='color: #eee; background: #fff'>pale</p>",
    "the theme is": "",
    'no meta[name="description"]': "",
    'no meta[property="og:image"]': "",
    'no link[rel="icon"]': "",
    "do not reach the text": "",
}
PROBES = (Path(__file__).parent / "book_probes.js").read_text(encoding="utf-8")


class _Page(html.parser.HTMLParser):
    """Anchors, links and images of a file."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[tuple[int, str]] = []
        self.images: list[tuple[int, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag brings."""
        attributes = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := attributes.get(name))}
        if tag in ("a", "link") and attributes.get("href"):
            self.links.append((self.getpos()[0], attributes["href"]))
        if tag in ("img", "script", "iframe", "source") and attributes.get("src"):
            self.links.append((self.getpos()[0], attributes["src"]))
        if tag == "img":
            self.images.append((self.getpos()[0], attributes))


def _is_outside(link: str) -> bool:
    return bool(urllib.parse.urlsplit(link).scheme) or link.startswith("//")


def _anchors_problems(name: str, path: Path, pages: dict[Path, _Page]) -> list[str]:
    problems = []
    for line, link in pages[path].links:
        if _is_outside(link) or link in ("#", ""):
            continue
        target, _, anchor = link.partition("#")
        goal = (path.parent / urllib.parse.unquote(target.partition("?")[0])).resolve() if target else path
        if not goal.is_file():
            problems.append(f"{name}, line {line}: {link} leads to no file. Correct the link in the page's source.")
        elif anchor and goal in pages and urllib.parse.unquote(anchor) not in pages[goal].anchors:
            problems.append(f"{name}, line {line}: {link} names an anchor that is not there. Correct it, or name the target.")
    return problems


def file_problems(built: Path) -> list[str]:
    """Links and anchors that lead nowhere, and images without a text."""
    paths = [path.resolve() for path in sorted(built.rglob("*.html")) if "_static" not in path.parts]
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in paths}
    problems = []
    for path, page in pages.items():
        name = str(path.relative_to(built.resolve()))
        problems += _anchors_problems(name, path, pages)
        for line, image in page.images:
            alt = (image.get("alt") or "").strip()
            if not alt or alt.endswith((".png", ".svg", ".jpg")):
                problems.append(
                    f"{name}, line {line}: image {image.get('src')} has no text for those who cannot see it."
                    ' In Markdown: ![text](file); in a notebook\'s .py, on the cell: mystnb={"image": {"alt": "text"}}.'
                )
    return problems


def _ask(browser: Browser, question: str) -> dict[str, Any]:
    return browser.run(f"{PROBES}\nreturn await {question}();")


def _keyboard_problems(browser: Browser, name: str) -> list[str]:
    """Tab must offer the way past the menus, then reach the text, and show where it is."""
    skipped, unseen = False, []
    for _ in range(MOST_TABS):
        browser.press(TAB)
        now = _ask(browser, "focused")
        skipped = skipped or now["skip"]
        if not now["visible"] and not now["body"]:
            unseen.append(now["what"])
        if now["text"]:
            break
    else:
        return [f"{name}: {MOST_TABS} times Tab do not reach the text. Look for what holds the focus."]
    problems = [] if skipped else [f"{name}: Tab does not come past 'skip to main content'. The theme should bring it."]
    mend = "Give it an outline in book/_static/rltok.css."
    return problems + [f"{name}: the focus cannot be seen on {what}. {mend}" for what in unseen[:2]]


def _head_problems(browser: Browser, name: str) -> list[str]:
    """What search engines, previews of links and tabs of browsers show; the search page is for none of them."""
    missing = [] if name == SEARCH else _ask(browser, "unmarked")
    return [f"{name}: its head has no {mark}. Look at html_favicon and ogp_image in book/_config.yml." for mark in missing]


def _content_problems(browser: Browser, name: str, label: str) -> list[str]:
    """Formulas with their numbers, pictures, widgets, coloured text."""
    problems = []
    formulas, shown = _ask(browser, "formulas"), _ask(browser, "shown")
    missing = formulas["wanted"] - formulas["drawn"]
    if missing > 0 or formulas["wrong"]:
        problems.append(f"{label}: {missing} formulas not drawn, {formulas['wrong']} with an error. Correct their TeX.")
    if formulas["stops"] or formulas["silent"]:
        mend = "See mathjax3_config in book/_config.yml."
        problems.append(
            f"{label}: {formulas['stops']} formulas are tab stops, {formulas['silent']} without MathML for screen readers. {mend}"
        )
    if name == "book/equations.html" and formulas["numbers"] != [f"({n})" for n in range(1, EQUATIONS + 1)]:
        problems.append(f"{label}: shows the numbers {formulas['numbers']}, not (1) to ({EQUATIONS}). See book/register.yml.")
    if shown["models"] and not shown["widgets"]:
        problems.append(f"{label}: {shown['models']} widgets are not drawn. Is book/_extra/vendor/embed.js there?")
    problems += [f"{label}: no text for those who cannot see {image}. Give it an alt." for image in shown["untold"]]
    problems += [f"{label}: a line may break within {what}. See scripts/book/keep_together.py." for what in shown["apart"]]
    problems += [f"{label}: picture {source} cannot be shown. Run `make book` again." for source in shown["broken"]]
    if name in COLOURED and not shown["coloured"]:
        problems.append(f"{label}: no coloured text, which this page is about. Look at its first figure.")
    return problems


def _cut_problems(browser: Browser, label: str, shape: str) -> list[str]:
    """Code lines and outputs that do not fit: a wide window must show them whole; a narrow one may have them scroll."""
    cut, mend = _ask(browser, "cut"), "Break the line: 78 characters fit."
    problems = [f"{label}: cannot be scrolled, cut off are {what}. See book/_static/rltok.css." for what in cut["lost"]]
    whole = cut["scrolled"] if shape == "desktop" else []
    return problems + [f"{label}: must be scrolled to see {what}. {mend}" for what in whole if what not in cut["lost"]]


def _look_problems(browser: Browser, label: str, theme: str) -> list[str]:
    """Width and readability as the window is now."""
    browser.run(f"{PROBES}\nawait follow('{theme}');")
    size, contrast = _ask(browser, "overflow"), _ask(browser, "contrast")
    problems = []
    if size["pixels"] > 0 or size["what"]:
        mend = "Let it break, or scroll inside a box of its own."
        problems.append(f"{label}: {size['pixels']} pixels wider than the window: {size['what']}. {mend}")
    if contrast["theme"] != theme:
        problems.append(f"{label}: the theme is {contrast['theme']}. The page should follow the reader's wish.")
    return problems + [f"{label}: contrast under 3 in {what}. Set both colours." for what in contrast["weak"]]


def page_problems(browser: Browser, page: Path, name: str, screenshots: Path) -> list[str]:
    """One page in both widths and both themes; screenshots beside it."""
    problems = []
    for shape, (width, height) in SHAPES.items():
        browser.shape(width, height, dark=False)
        browser.open(page)
        browser.run(STILL)
        problems += _content_problems(browser, name, f"{name} ({shape})")
        problems += _cut_problems(browser, f"{name} ({shape})", shape)
        for theme in ("light", "dark"):
            browser.shape(width, height, dark=theme == "dark")
            problems += _look_problems(browser, f"{name} ({shape}, {theme})", theme)
            browser.shape(width, min(browser.run("return document.scrollingElement.scrollHeight;"), TALLEST), theme == "dark")
            browser.picture(screenshots / f"{name.removesuffix('.html').replace('/', '-')}-{shape}-{theme}.png")
        browser.shape(width, height, dark=False)
        problems += _keyboard_problems(browser, name) if shape == "desktop" else []
    problems += _head_problems(browser, name)
    problems += [f"{name}: the console says {error}. Mend the script, or take it out." for error in browser.errors()]
    outside = [address for address in browser.requests() if address.startswith(("http", "ws", "ftp"))]
    return problems + [f"{name}: asks for {address}. Put it under book/_extra/vendor, or leave it out." for address in outside]


def each_look(browser: Browser, page: Path) -> Iterator[tuple[str, str]]:
    """Open a page anew in each width and theme; their names."""
    for shape, (width, height) in SHAPES.items():
        for theme in ("light", "dark"):
            browser.shape(width, height, dark=theme == "dark")
            browser.open(page)
            browser.run(STILL)
            yield shape, theme


def part_problems(browser: Browser, selector: str, picture: Path) -> list[str]:
    """Width and readability of the page as it is now; takes a picture of one part of it."""
    size, weak = _ask(browser, "overflow"), _ask(browser, "contrast")["weak"]
    browser.run(f"scrollBy(0, document.querySelector('{selector}').getBoundingClientRect().top - 100);")
    browser.picture(picture)
    return [f"too wide: {size['what']}; too pale: {weak}."] if size["pixels"] > 0 or size["what"] or weak else []


def check_the_check(browser: Browser) -> None:
    """Stop if a mistake of PLANTED is not found."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "planted.html"
        page.write_text(f"<!doctype html><title>x</title><article>{''.join(PLANTED.values())}</article>", encoding="utf-8")
        problems = page_problems(browser, page, page.name, page.parent)
    if missed := [sign for sign in PLANTED if not any(sign in problem for problem in problems)]:
        raise SystemExit(
            f"planted and not found: {', '.join(missed)}. Look at check_book.py and book_probes.js. Found: {problems}"
        )


def toc_pages() -> list[str]:
    """Built names of the pages that the table of contents lists."""
    toc = yaml.safe_load((ROOT / "book" / "_toc.yml").read_text(encoding="utf-8"))
    chapters = [chapter["file"] for part in toc["parts"] for chapter in part["chapters"]]
    return [f"{name}.html" for name in [toc["root"], *chapters]]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--built", type=Path, default=BUILT)
    parser.add_argument("--screenshots", type=Path, default=SCREENSHOTS)
    parser.add_argument("--pages", nargs="+", help="only these, such as book/intro.html")
    options = parser.parse_args()
    if not (options.built / "index.html").is_file():
        raise SystemExit(f"{options.built} holds no book. Run `make book` first.")
    start = time.perf_counter()
    pages = options.pages or [*toc_pages(), SEARCH]
    problems = file_problems(options.built)
    options.screenshots.mkdir(parents=True, exist_ok=True)
    with Browser() as browser:
        check_the_check(browser)
        for name in pages:
            problems += page_problems(browser, options.built / name, name, options.screenshots)
    print("\n".join(problems) or f"{len(pages)} pages, {len(SHAPES)} widths, light and dark: nothing to mend.")
    print(f"{time.perf_counter() - start:.0f} s; screenshots in {options.screenshots.name}/")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
