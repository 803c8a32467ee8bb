"""Move the slider through training in a browser without network: does each moment show what the data hold?

python scripts/book/check_moments.py     # after `make book`; screenshots go to build/screenshots

Every problem is one line that says what is wrong; exit code 1 if there is any.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from check_book import BUILT, SCREENSHOTS, SHAPES, each_look, part_problems
from webdriver import HOME, RIGHT, TAB, Browser

PAGE = "book/boundaries_in_training.html"
DATA = "_static/moments_data.js"
READING = re.compile(r"byte (\d+): (?:(a|no) boundary after it|boundary after it ([\d.]+)(, drawn)?)")
SHOWN = """return {
  views: [...document.querySelectorAll('.rltok-bytes')].map(view => [...view.querySelectorAll('span')].map(e => e.title)),
  runs: [...document.querySelectorAll('.rltok-run')].map(run => run.textContent),
  moment: document.querySelector('.rltok-moments output').textContent,
};"""
CHOOSE = """const choice = document.querySelector('#ID');
choice.value = VALUE; choice.dispatchEvent(new Event('input')); choice.dispatchEvent(new Event('change'));"""


def _choose(browser: Browser, which: str, value: int) -> None:
    browser.run(CHOOSE.replace("ID", which).replace("VALUE", str(value)))


def _read(titles: list[str]) -> tuple[bytes, str, list[float]]:
    """Bytes, boundaries and probabilities as the hints of the characters say."""
    found = [match.groups() for title in titles for match in READING.finditer(title)]
    boundaries = "".join("1" if one == "a" or drawn else "0" for _, one, _, drawn in found)
    return bytes(int(byte) for byte, *_ in found), boundaries, [float(p) for *_, p, _ in found if p]


def _problem(titles: list[str], text: str, moment: dict[str, str]) -> str | None:
    """Why a view does not show a moment, or None."""
    data, boundaries, chances = _read(titles)
    percent = moment.get("percent", "")
    wanted = [int(percent[i : i + 2]) / 100 for i in range(0, len(percent), 2)]
    if (data, boundaries, chances) != (text.encode(), moment["boundaries"], wanted):
        return f"{data[:20]!r}..., boundaries {boundaries[:20]}..., probabilities {chances[:5]}... are not those of the data"
    return None


def moments_problems(browser: Browser, data: dict[str, Any]) -> Iterator[str]:
    """Every moment of every run and text, led to by keys."""
    for number, size in enumerate(data["sizes"]):
        _choose(browser, "rltok-size", number)
        for which, (name, text) in enumerate(data["texts"].items()):
            _choose(browser, "rltok-which", which)
            browser.run("document.querySelector('#rltok-moment').focus();")
            browser.press(HOME)
            for place, step in enumerate(size["steps"]):
                if place:
                    browser.press(RIGHT)
                shown = browser.run(SHOWN)
                label = f"{size['name']}, {name}, moment {place}"
                if shown["runs"] != [run["name"] for run in size["runs"]] or f"after update {step} of" not in shown["moment"]:
                    yield f"{label}: the page says {shown['moment']!r} of {shown['runs']}."
                for run, titles in zip(size["runs"], shown["views"], strict=True):
                    if problem := _problem(titles, text, run["moments"][name][place]):
                        yield f"{label}, {run['name']}: {problem}."


def _looks(browser: Browser, page: Path, data: dict[str, Any], screenshots: Path) -> Iterator[str]:
    for shape, theme in each_look(browser, page):
        _choose(browser, "rltok-which", len(data["texts"]) - 1)
        problems = part_problems(browser, ".rltok-moments", screenshots / f"moments-{shape}-{theme}.png")
        yield from (f"{shape}, {theme}: {problem}" for problem in problems)


# A window that has only just opened may not take the focus yet.
FOCUS = """
for (let beats = 0; document.activeElement.id !== 'rltok-size' && beats < 200; beats++) {
  document.querySelector('#rltok-size').focus();
  await new Promise(done => setTimeout(done, 50));
}
"""


def _keyboard(browser: Browser, page: Path) -> Iterator[str]:
    browser.open(page)
    reached = set()
    browser.run(FOCUS)
    for _ in range(8):
        browser.press(TAB)
        reached.add(browser.run("return document.activeElement.id || document.activeElement.className;"))
    if missing := {"rltok-which", "rltok-moment", "rltok-bytes"} - reached:
        yield f"Tab does not lead to {', '.join(sorted(missing))}."


def check_the_check(browser: Browser, data: dict[str, Any]) -> None:
    """Stop if a boundary that was moved is not noticed."""
    titles, run = browser.run(SHOWN)["views"][0], data["sizes"][0]["runs"][0]
    (name, text), *_ = data["texts"].items()
    moment = run["moments"][name][-1]
    moved = moment | {"boundaries": "10"[int(moment["boundaries"][0])] + moment["boundaries"][1:]}
    if _problem(titles, text, moment) or not _problem(titles, text, moved):
        raise SystemExit("moved a boundary and saw no difference. Look at check_moments.py.")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--built", type=Path, default=BUILT)
    parser.add_argument("--screenshots", type=Path, default=SCREENSHOTS)
    options = parser.parse_args()
    page = options.built / PAGE
    if not page.is_file():
        raise SystemExit(f"{options.built} holds no book. Run `make book` first.")
    source = (options.built / DATA).read_text(encoding="utf-8")
    data = json.loads(source[source.index("{") : source.rindex("}") + 1])
    options.screenshots.mkdir(parents=True, exist_ok=True)
    with Browser() as browser:
        browser.shape(*SHAPES["desktop"], dark=False)
        browser.open(page)
        check_the_check(browser, data)
        problems = [*moments_problems(browser, data), *_keyboard(browser, page)]
        problems += _looks(browser, page, data, options.screenshots)
        problems += [f"the console says {error}." for error in browser.errors()]
    print("\n".join(f"{PAGE}: {problem}" for problem in problems) or "The slider shows what the data hold.")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
