"""Use the field on the book's first page as readers do, in a browser without network: does it compute what Python computes?

python scripts/book/check_demo.py     # after `make book`; screenshots go to build/screenshots

Every problem is one line that says what is wrong; exit code 1 if there is any. Expectations that were moved come first: each must
be found, or the comparison would prove nothing.
"""

import argparse
import copy
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from check_book import BUILT, SCREENSHOTS, SHAPES, each_look, part_problems
from webdriver import DELETE, HOME, RIGHT, TAB, Browser

EXPECTED = Path(__file__).resolve().parents[2] / "book" / "demo_page.json"
PAGE = "book/intro.html"
TOLERANCE = 1e-4  # of probabilities and of nats; bits are compared, which is stricter
MOST = 2048  # bytes that the page reads
READING = re.compile(r"byte (\d+): surprise [\d.]+ bits, boundary after it ([\d.]+)(, drawn)?")
LONG = "All work and no play makes a long page. " * 2500
MARKUP = "<img src=x onerror='window.planted = true'><b>bold</b> &amp; done"
MIXED = "👍🏽 é 👩‍👩‍👧\nקרא ספר, طويل جدا.\n"
HELPERS = """
const field = document.querySelector('#rltok-text'), view = document.querySelector('.rltok-bytes');
const shown = () => [...view.querySelectorAll('span')];
const settled = async () => {
  let beats = 0;
  do await new Promise(done => setTimeout(done)), beats++; while (view.getAttribute('aria-busy') !== 'false');
  return beats;
};
"""
COMPUTE = """
const model = window.checked ??= rltokModel.unpack(rltokDemo), data = new TextEncoder().encode(TEXT);
const found = {probabilities: [], boundaries: '', bits: []}, uniforms = UNIFORMS;
for (let from = 0; from < data.length; from += model.row_bytes) {
  const row = new rltokModel.Row(model);
  data.slice(from, from + model.row_bytes).forEach((byte, i) => row.push(byte, uniforms[from + i]));
  found.probabilities.push(...row.steps.slice(1).map(step => step.probability));
  found.boundaries += row.steps.slice(1).map(step => +step.boundary).join('');
  found.bits.push(...row.surprises);
}
return found;
"""


def _cases(expected: dict[str, Any]) -> Iterator[tuple[str, str, list[float], dict[str, Any]]]:
    """(name, text, uniforms, what Python makes of them)."""
    for case in expected["texts"]:
        yield case["name"], case["text"], case["uniforms"], case
        level = [expected["threshold"]] * len(case["uniforms"])
        yield f"{case['name']}, above {expected['threshold']}", case["text"], level, case["above"]


def computed(browser: Browser, expected: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What the page's model makes of each text."""
    return {
        name: browser.run(COMPUTE.replace("TEXT", json.dumps(text)).replace("UNIFORMS", json.dumps(uniforms)))
        for name, text, uniforms, _ in _cases(expected)
    }


def differences(found: dict[str, dict[str, Any]], expected: dict[str, Any]) -> tuple[list[str], float]:
    """Each text in which the page and Python differ, and the largest difference of any number."""
    problems, largest = [], 0.0
    for name, _, _, wanted in _cases(expected):
        for what in ("probabilities", "bits"):
            gaps = [abs(a - b) for a, b in zip(found[name][what], wanted[what], strict=True)]
            largest = max([largest, *gaps])
            if not max(gaps, default=0.0) <= TOLERANCE:
                problems.append(f"{name}: {what} differ from Python's by up to {max(gaps):.1e}, at most {TOLERANCE:g}.")
        if found[name]["boundaries"] != wanted["boundaries"]:
            problems.append(f"{name}: the boundaries are not Python's.")
    return problems, largest


def check_the_check(found: dict[str, dict[str, Any]], expected: dict[str, Any]) -> None:
    """Stop if an expectation that was moved a little is not noticed."""
    for what in ("probabilities", "bits", "boundaries"):
        moved = copy.deepcopy(expected)
        case = moved["texts"][-1]
        if what == "boundaries":
            case[what] = "10"[int(case[what][0])] + case[what][1:]
        else:
            case[what][-1] += 2 * TOLERANCE
        if not any(case["name"] in problem and what in problem for problem in differences(found, moved)[0]):
            raise SystemExit(f"moved {what} and saw no difference. Look at check_demo.py.")


def _enter(browser: Browser, text: str) -> int:
    """Replace the field's text as a paste does; how often the page could do something else meanwhile."""
    browser.run(f"{HELPERS} field.focus(); field.select();")
    browser.devtools("Input.insertText", text=text) if text else browser.press(DELETE)
    return browser.run(f"{HELPERS} return settled();")


def _readings(browser: Browser) -> list[tuple[int, float, bool]]:
    """(byte, probability, drawn) as the hints of the characters say."""
    titles = browser.run(f"{HELPERS} await settled(); return shown().map(e => e.title);")
    return [(int(byte), float(p), bool(drawn)) for title in titles for byte, p, drawn in READING.findall(title)]


def _tab_to(browser: Browser, selector: str) -> bool:
    """Whether Tab leads from the field to an element."""
    browser.run(f"{HELPERS} field.focus();")
    for _ in range(8):
        browser.press(TAB)
        if browser.run(f"return document.activeElement.matches({selector!r});"):
            return True
    return False


def _keyboard(browser: Browser) -> Iterator[str]:
    _enter(browser, "")
    for sign in "the cat sat on the mat and ":
        browser.press(sign)
    typed = _readings(browser)
    if bytes(byte for byte, *_ in typed) != b"the cat sat on the mat and ":
        yield "typing: the bytes shown are not the bytes typed."
    if not _tab_to(browser, "button"):
        yield "Tab does not lead from the field to 'Draw again'."
    draws = set()
    for _ in range(20):
        browser.press(" ")
        draws.add(tuple(drawn for *_, drawn in _readings(browser)))
    if len(draws) < 2:
        yield "'Draw again' twenty times: the boundaries stay where they are."
    if not _tab_to(browser, "#rltok-threshold"):
        yield "Tab does not lead from the field to the slider."
    browser.press(HOME)
    for _ in range(29):
        browser.press(RIGHT)
    level = float(browser.run("return document.querySelector('.rltok-try output').textContent;"))
    # probabilities are shown with two digits, so at the level itself either is right
    if level != 0.3 or any(p != level and drawn != (p > level) for _, p, drawn in _readings(browser)):
        yield f"the slider at {level}, after 29 steps from 0.01: boundaries do not stand where the probability is above 0.3."
    if not _tab_to(browser, ".rltok-bytes"):
        yield "Tab does not lead from the field to the characters."
    browser.press(HOME)
    browser.press(RIGHT)
    if not browser.run("return document.querySelector('.rltok-detail').textContent.startsWith('h (U+0068) ');"):
        yield "Home and the right arrow do not lead to the second character."


def _odd_texts(browser: Browser) -> Iterator[str]:
    beats = _enter(browser, LONG)
    note = browser.run("return document.querySelector('.rltok-note').textContent;")
    if len(_readings(browser)) != MOST or str(MOST) not in note:
        yield f"{len(LONG)} bytes: the page should read {MOST} and say so."
    if beats < 3:
        yield f"{len(LONG)} bytes: the page paused {beats} times while it computed, so it stood still for long."
    for name, text in (("markup", MARKUP), ("emoji and right to left", MIXED)):
        _enter(browser, text)
        if bytes(byte for byte, *_ in _readings(browser)) != text.encode():
            yield f"{name}: the bytes shown are not those of the text."
        shown = browser.run(f"{HELPERS} return shown().map(e => e.textContent).join('');")
        if shown.replace("·", " ").replace("↵", "") != text:
            yield f"{name}: the page shows {shown!r}."
    if browser.run("return Boolean(window.planted || document.querySelector('.rltok-try img, .rltok-try b'));"):
        yield "markup: it became elements of the page."
    boxes = browser.run(f"{HELPERS} return shown().map(e => e.title.match(/byte /g).length);")
    if boxes[0] != len("👍🏽".encode()) or len(boxes) >= len(MIXED):
        yield f"emoji: its bytes do not share one box; bytes in each box: {boxes}."
    _enter(browser, "")
    browser.run("await new Promise(done => setTimeout(done, 600));")
    if browser.run("return document.querySelector('.rltok-summary').textContent;") != "Nothing to read yet.":
        yield "an empty text: the page does not say that there is nothing to read."
    _enter(browser, "a")
    browser.run("await new Promise(done => setTimeout(done, 600));")
    said = browser.run("return document.querySelector('.rltok-summary').textContent;")
    if not re.match("(0 boundaries|1 boundary) in 1 byte[,;]", said):
        yield f"a text of one byte: the page says {said!r}."


def _looks(browser: Browser, picture: Path) -> list[str]:
    _enter(browser, MIXED + MARKUP + " It was a dark and stormy night." * 15)
    browser.run("await new Promise(done => setTimeout(done, 600));")  # until the summary stands
    return part_problems(browser, ".rltok-try", picture)


def page_problems(browser: Browser, page: Path, screenshots: Path) -> Iterator[str]:
    """Both widths, light and dark."""
    for shape, theme in each_look(browser, page):
        checks = [_looks(browser, screenshots / f"demo-{shape}-{theme}.png")]
        checks += [_keyboard(browser), _odd_texts(browser)] if theme == "light" else []
        yield from (f"{shape}, {theme}: {problem}" for check in checks for problem in check)
    yield from (f"the console says {error}." for error in browser.errors())
    yield from (f"asks for {address}." for address in browser.requests() if address.startswith(("http", "ws", "ftp")))


def without_scripts(browser: Browser, page: Path) -> list[str]:
    """A reader without JavaScript sees a text cut into tokens, and a sentence."""
    browser.devtools("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(page)
    asked = "document.querySelector('.rltok-try').innerText + document.querySelectorAll('.rltok-try .rltok-tokens span').length"
    seen = browser.devtools("Runtime.evaluate", expression=asked)["result"]["value"]
    browser.devtools("Emulation.setScriptExecutionDisabled", value=False)
    complete = "allow JavaScript" in seen and int(re.search(r"\d+$", seen)[0]) > 10
    return [] if complete else ["without scripts: no picture, or no sentence."]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--built", type=Path, default=BUILT)
    parser.add_argument("--screenshots", type=Path, default=SCREENSHOTS)
    options = parser.parse_args()
    page, expected = options.built / PAGE, json.loads(EXPECTED.read_text(encoding="utf-8"))
    if not page.is_file():
        raise SystemExit(f"{options.built} holds no book. Run `make book` first.")
    options.screenshots.mkdir(parents=True, exist_ok=True)
    with Browser() as browser:
        browser.shape(*SHAPES["desktop"], dark=False)
        browser.open(page)
        found = computed(browser, expected)
        check_the_check(found, expected)
        problems, largest = differences(found, expected)
        problems += page_problems(browser, page, options.screenshots)
        problems += without_scripts(browser, page)
    problems = [f"{PAGE}: {problem}" for problem in problems]
    print("\n".join(problems) or "The field works, and computes what Python computes.")
    print(f"largest difference {largest:.1e}; screenshots in {options.screenshots.name}/")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
