"""Sources of the book: contents, links and anchors, texts for images, no typed results, and that generated parts are current."""

import hashlib
import json
import re
from functools import partial
from pathlib import Path

import book_config  # noqa: E402
import make_cards  # noqa: E402
import make_intro  # noqa: E402
import make_log  # noqa: E402
import make_speed  # noqa: E402
import make_texts  # noqa: E402
import pytest
import readme_numbers  # noqa: E402
import yaml
from make_register import entries, slug  # noqa: E402
from nbtools.prose import stated_at, value  # noqa: E402
from paths import ROOT

BOOK = ROOT / "book"
TOC = yaml.safe_load((BOOK / "_toc.yml").read_text(encoding="utf-8"))
CHAPTERS = [TOC["root"], *(chapter["file"] for part in TOC["parts"] for chapter in part["chapters"])]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s]*)\)")
CITE = re.compile(r"\{cite(?::\w+)?\}`([^`]+)`")
# The only numbers of the kind that results have which a page of the book may state in prose: settings, never something measured.
CONSTANTS = {
    "0.99": "gamma of the paper",
    "0.9": "gamma of the preset tiny; also in the authors' code, there a weight of eq. (27) too",
    "0.7": "a temperature in an example of rltok generate",
}


def source(chapter: str) -> Path:
    """File of a chapter; the notebook, not the script that it is paired with."""
    for suffix in (".md", ".ipynb"):
        if (path := ROOT / f"{chapter}{suffix}").is_file():
            return path
    raise FileNotFoundError(f"book/_toc.yml lists {chapter}, but there is no such .md or .ipynb. Write it or take the line out.")


def texts(path: Path) -> list[tuple[str, str]]:
    """(place, Markdown) of a page or of each Markdown cell of a notebook."""
    if path.suffix == ".ipynb":
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        name = path.relative_to(ROOT)
        return [(f"{name}, cell {i}", "".join(c["source"])) for i, c in enumerate(cells) if c["cell_type"] == "markdown"]
    pages = [path]
    for name in re.findall(r"^```\{include\} (\S+)", path.read_text(encoding="utf-8"), re.M):
        pages.append((path.parent / name).resolve())
    return [(str(page.relative_to(ROOT)), page.read_text(encoding="utf-8")) for page in pages]


def place(name: str, text: str, match: re.Match) -> str:
    line = text.count("\n", 0, match.start()) + 1
    return f"{name}, line {line}"


def anchors(text: str) -> set[str]:
    """Targets by name and headings of a text."""
    return set(re.findall(r"^\(([\w-]+)\)=", text, re.M)) | {slug(h) for h in re.findall(r"^#{1,3} (.+)$", text, re.M)}


SOURCES = {
    chapter: path for chapter in CHAPTERS for path in [ROOT / f"{chapter}.md", ROOT / f"{chapter}.ipynb"] if path.is_file()
}
TEXTS = {path: texts(path) for path in SOURCES.values()}
ANCHORS = {path: set().union(*(anchors(text) for _, text in parts)) for path, parts in TEXTS.items()}
TARGETS = set().union(*ANCHORS.values())


def link_problem(path: Path, link: str) -> str | None:
    """Why a link leads nowhere, or None."""
    target, _, anchor = link.partition("#")
    if re.match(r"[a-z]+:", link):
        return None
    if not target:
        return None if anchor in TARGETS else f"no page of the book has the anchor {anchor!r}"
    base = ROOT if path.name == "changelog.md" else path.parent
    goal = (base / target).resolve()
    if not goal.is_file():
        return f"there is no {target}"
    if path.suffix == ".md" and goal.suffix in (".md", ".ipynb") and goal not in ANCHORS:
        return f"{target} is not in book/_toc.yml"
    return f"{target} has no anchor {anchor!r}" if anchor and anchor not in ANCHORS.get(goal, {anchor}) else None


def problems_of(path: Path, parts: list[tuple[str, str]]) -> list[str]:
    """Every broken link and every image without a text, with the place and the mend."""
    problems = []
    for name, text in parts:
        for match in LINK.finditer(text):
            if problem := link_problem(path, match[1]):
                problems.append(f"{place(name, text, match)}: [..]({match[1]}): {problem}. Correct the link.")
        for match in IMAGE.finditer(text):
            if not match[1].strip():
                problems.append(f"{place(name, text, match)}: the image {match[2]} has no text. Write it between the brackets.")
    return problems


def typed_numbers(name: str, text: str) -> list[str]:
    """Every number in the prose of a page that reads like a result and is not one of CONSTANTS, with the place and the mend."""
    allowed = {value(number) for number in CONSTANTS}
    return [
        f"{name}, line {line}: {number} is typed. Let a script write results into book/_generated and include them; "
        "a setting goes into CONSTANTS of tests/scripts/book/test_book.py, with the reason."
        for line, number in stated_at(text)
        if value(number) not in allowed
    ]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_chapter_of_the_table_of_contents_exists(chapter):
    assert source(chapter).is_file()


def test_every_page_is_in_the_table_of_contents():
    listed = {Path(chapter).name for chapter in CHAPTERS}
    lost = [path.name for path in sorted(BOOK.glob("*.md")) if path.stem not in listed]
    assert lost == [], "enter them in book/_toc.yml, or delete them"


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_links_and_anchors_lead_somewhere_and_images_have_a_text(path):
    assert problems_of(path, TEXTS[path]) == []


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_what_is_cited_is_in_the_bibliography(path):
    known = set(re.findall(r"^@\w+\{([^,]+),", (BOOK / "refs.bib").read_text(encoding="utf-8"), re.M))
    cited = {key.strip() for _, text in TEXTS[path] for keys in CITE.findall(text) for key in keys.split(",")}
    assert cited - known == set(), f"{path.name} cites keys that book/refs.bib does not have; add them there"


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_nothing_is_left_for_later(path):
    unfinished = [f"{place(n, t, m)}: {m[0]}" for n, t in TEXTS[path] for m in re.finditer(r"\b(TODO|FIXME|XXX)\b", t)]
    assert unfinished == [], "finish it, or say plainly that it is not there"


@pytest.mark.parametrize("page", sorted(BOOK.glob("*.md")), ids=lambda page: page.name)
def test_no_page_states_a_number_that_was_typed(page):
    assert typed_numbers(f"book/{page.name}", page.read_text(encoding="utf-8")) == []


def test_no_reading_in_the_register_states_a_number_that_was_typed():
    problems = [typed_numbers(f"book/register.yml, equation {entry['equation']}", entry["reading"]) for entry in entries()]
    assert sum(problems, []) == []


def test_a_constant_that_no_page_states_is_taken_off_the_list():
    pages = [page.read_text(encoding="utf-8") for page in BOOK.glob("*.md")] + [entry["reading"] for entry in entries()]
    used = {value(number) for text in pages for _, number in stated_at(text)}
    assert [number for number in CONSTANTS if value(number) not in used] == []


def test_a_typed_number_is_found_with_its_line():
    fine = "# T\n\n$2.5$, `2.5` and [a](b-2.5.md), eq. (16), gamma 0.99, two rows.\n"
    text = fine + "It reached 2.793 with\n1,024 rows, 5 % or 3e-4.\n"
    problems = typed_numbers("book/x.md", text)
    assert typed_numbers("book/x.md", fine) == []
    assert [message.split(" is typed")[0] for message in problems] == [
        "book/x.md, line 4: 2.793", "book/x.md, line 5: 1,024", "book/x.md, line 5: 5", "book/x.md, line 5: 3e-4",
    ]  # fmt: skip
    assert all("book/_generated" in message and "CONSTANTS" in message for message in problems)
    included = "```{include} one.md\n```\n"
    between = typed_numbers("book/x.md", f"{included}\nIt reached 2.793.\n\n{included}")
    assert [message.split(" is typed")[0] for message in between] == ["book/x.md, line 4: 2.793"]


@pytest.mark.parametrize(
    ("page", "made"),
    [
        (make_log.PAGE, lambda: make_log.render(make_log.records(make_log.RESULTS))),
        (make_log.SEARCH, lambda: make_log.search_table(make_log.records(make_log.RESULTS))),
        (make_intro.PICTURE, lambda: make_intro.picture(make_intro.load_record())),
        (make_intro.TRY, lambda: make_intro.try_it(json.loads(make_intro.DEMO.read_text(encoding="utf-8"))["texts"])),
        (make_intro.MEASURED, lambda: readme_numbers.table(make_intro.load_record()) + "\n"),
        *((page, partial(lambda page: make_speed.pages()[page], page)) for page in make_speed.pages()),
        (make_texts.PAGE, lambda: make_texts.render(make_texts.record(), make_texts.words())),
        (book_config.PAGE, lambda: book_config.render_page(book_config.repository())),
        (book_config.RUN_IT, lambda: book_config.render_run_it(book_config.repository())),
        (make_cards.PAGE, make_cards.render),
        (book_config.CONFIG, lambda: book_config.render_config(book_config.CONFIG.read_text(), book_config.repository())),
    ],
    ids=lambda value: value.name if isinstance(value, Path) else "",
)
def test_generated_parts_are_current(page, made):
    assert page.is_file() and page.read_text(encoding="utf-8") == made(), (
        f"{page.relative_to(ROOT)} is out of date: run `make book`"
    )


def test_every_chapter_of_the_book_has_a_card_or_a_line_on_one():
    linked = re.findall(r"\(\.\./(notebooks/\w+)\.ipynb\)", make_cards.PAGE.read_text(encoding="utf-8"))
    assert linked == [chapter for chapter in CHAPTERS if chapter.startswith("notebooks/")]


def test_a_chapter_without_a_figure_has_a_card_without_a_picture(monkeypatch):
    plain = [{"cell_type": "markdown", "metadata": {}, "source": "# 09 New\n\n**In short.** It is 2.5 times so. More."}]
    monkeypatch.setattr(make_cards, "load", lambda name: plain)
    assert make_cards.card("09_new", "09b_more").splitlines() == [
        ":::{grid-item-card} [09 New](../notebooks/09_new.ipynb)", "", "It is 2.5 times so.", "", "About 5 minutes\\",
        "[09 New](../notebooks/09b_more.ipynb), 5 minutes more", ":::",
    ]  # fmt: skip


def test_reading_time_counts_prose_and_what_is_seen_and_no_code():
    html = {"text/html": "<b>one</b><script>not this</script>", "text/plain": "nor this"}
    outputs = {"": [{"text": ["two ", "words\n"]}, {"data": html}], "hide-output": [{"text": "unseen"}]}
    cells = [{"cell_type": "markdown", "metadata": {}, "source": "four words of prose <!-- not these two -->"}]
    for tag, shown in outputs.items():
        cells.append({"cell_type": "code", "metadata": {"tags": [tag]}, "source": "x = 1 + 2", "outputs": shown})
    assert make_cards.words(cells) == 4 + 2 + 1
    assert [make_cards.minutes(counted) for counted in (1, 1000, 1001)] == [5, 5, 10]


def test_without_an_address_there_are_no_buttons_and_with_one_they_all_point_there():
    plain = book_config.CONFIG.read_text(encoding="utf-8")
    bare = yaml.safe_load(book_config.render_config(plain, ""))
    assert not {"repository", "launch_buttons"} & bare.keys()
    assert not {"repository_url", "launch_buttons"} & bare["sphinx"]["config"]["html_theme_options"].keys()
    assert "](" not in book_config.render_page("") and "Colab" not in book_config.render_run_it("")
    assert "ogp_site_url" not in bare["sphinx"]["config"]
    address = "https://github.com/someone/rltok"
    full = yaml.safe_load(book_config.render_config(plain, address))
    theme = full["sphinx"]["config"]["html_theme_options"]
    assert full["repository"]["url"] == theme["repository_url"] == address
    assert full["launch_buttons"]["colab_url"] == theme["launch_buttons"]["colab_url"]
    assert "colab.research.google.com/github/someone/rltok/blob/main/notebooks/00" in book_config.render_run_it(address)
    assert full["sphinx"]["config"]["ogp_site_url"] == "https://someone.github.io/rltok/"
    assert book_config.source_link("f", "rltok/a.py", address) == f"[`f`]({address}/blob/main/rltok/a.py)"
    elsewhere = yaml.safe_load(book_config.render_config(plain, "https://example.org/rltok"))
    assert "repository" in elsewhere and "launch_buttons" not in elsewhere
    assert book_config.render_config(book_config.render_config(plain, address), "") == book_config.render_config(plain, "")


def test_the_log_shows_failures_smoke_runs_and_what_is_not_known(tmp_path):
    base = {"config_hash": "abc", "commit": None, "device": "cpu"}
    smoke = base | {"commit": "1" * 40 + "+changes", "seconds": 90, "full": False, "evaluation": {"bits_per_byte": 2.5}}
    for name, record in (("a", base | {"failed": "loss not finite"}), ("b", smoke), ("curves", {"x": 1})):
        (tmp_path / f"{name}.json").write_text(json.dumps(record))
    rows = make_log.render(make_log.records(tmp_path)).splitlines()[2:]
    assert len(rows) == 2
    assert "failed: loss not finite" in rows[0] and make_log.DASH in rows[0]
    assert "smoke run" in rows[1] and "2.500 bits per byte" in rows[1] and "`1111111+`" in rows[1] and "90 s" in rows[1]


def test_the_search_shows_each_method_with_its_best_schedule_once_all_are_tried():
    def run(name, warmup, peak, bits, **entries):
        train = {"warmup_fraction": warmup, "learning_rate": peak}
        made = {"name": f"{name}_warmup", "config": {"train": train}, "scores": {"validation": {"bits_per_byte": bits}}}
        return f"search/32m/{name}", {"bytes": 2e6, "data": {"name": "t"}, "seed": 0} | made | entries

    runs = [run("even", 0.15, 1e-3, 1.9), run("even", 0.45, 1e-3, 1.8), run("bpe", 0.15, 1e-3, 1.7),
             run("bpe", 0.45, 1e-3, 1.0, failed="nan"), ("sweeps/32m/even", run("even", 0.15, 1e-3, 0.5)[1])]  # fmt: skip
    assert make_log.search_table(runs).splitlines() == [
        "2.0 MB of t a run, seed 0.", "", "| method | 15%, 0.001 | 45%, 0.001 |", "|---|---:|---:|",
        "| `bpe` | 1.7000 | – |", "| `even` | 1.9000 | **1.8000** |",
    ]  # fmt: skip
    assert make_log.search_table(runs[-2:]) == make_log.NONE_YET


def test_tables_that_cells_make_are_shown_as_tables():
    config = yaml.safe_load((BOOK / "_config.yml").read_text(encoding="utf-8"))["sphinx"]["config"]
    assert config["nb_render_markdown_format"] == "myst"  # the default, CommonMark, knows no tables


def test_the_carried_scripts_are_the_ones_that_their_readme_names():
    vendor = BOOK / "_extra" / "vendor"
    named = dict(
        reversed(line.split()) for line in re.findall(r"^    ([0-9a-f]{64}  \S+)$", (vendor / "README.md").read_text(), re.M)
    )
    digests = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in vendor.iterdir() if p.suffix in (".js", ".woff2")}
    assert digests == named, (
        "book/_extra/vendor/README.md lists other files or digests; say there what was fetched, and from where"
    )


def test_the_checks_of_this_file_notice_what_they_look_for():
    text = "# Here\n[a](nowhere.md) [b](#no-such) [c](#here) [d](https://x.org)\n![](x.png)\n![a cat](x.png)\n"
    page = BOOK / "intro.md"
    TARGETS.add("here")
    problems = problems_of(page, [("book/intro.md", text)])
    assert [problem.split(":")[0] for problem in problems] == ["book/intro.md, line 2"] * 2 + ["book/intro.md, line 3"]


def test_the_log_says_what_the_first_and_the_last_rung_of_a_ladder_need():
    def stage(naive, full):
        return {
            "policy": {"estimators": {"naive": {"rows_needed": [naive]}, "causal+early+gamma0.9+batch": {"rows_needed": [full]}}}
        }

    words = make_log.verdict({"stages": [stage(2e6, 7.4), stage(3e6, None)]})
    assert "naive 2,000,000 to 3,000,000; causal+early+gamma0.9+batch 7 to 7, never in 1 of 2" in words


def test_the_log_takes_what_names_a_record_from_its_runs_and_adds_up_their_cost(tmp_path):
    run = {
        "config_hash": "abc",
        "commit": "1" * 40,
        "device": "cpu",
        "seed": 0,
        "unet": {"x": {"seconds": 70.0}},
        "seconds": 60.0,
    }
    record = {"runs": [run, run | {"config_hash": "def", "device": "other"}], "runs_within": {"learned": [1, 2]}, "within": 0.01}
    (tmp_path / "rates.json").write_text(json.dumps(record))
    (row,) = make_log.render(make_log.records(tmp_path)).splitlines()[2:]
    assert "| `1111111` | `abc`, `def` | cpu, other | 260 s" in row.replace("4 min", "260 s") and "learned 1 of 2 runs" in row
    listed = [
        {"preset": "a", "fits": True, "tokens_per_byte": 0.5, "peak_bytes": 2e9, "micro_batch": 8},
        {"preset": "b", "fits": False, "peak_bytes": 1},
    ]
    assert make_log.verdict({"runs": listed}) == "a 2.0 GB at 8 rows, b does not fit; at 0.5 tokens per byte"
    leak = [{"unet_gaps": {"causal - shifted as often as causal": {"bits_per_byte": gap}}} for gap in (0.02, 0.01)]
    assert "+0.0100 to +0.0200" in make_log.verdict({"runs": leak})


def test_the_log_tells_speeds_paths_and_shares_in_a_line_each():
    cost = {"cost": 0.0072, "interval": [0.0034, 0.0109]}
    bench = {"preset": "147m", "arm": {"bytes_per_second": 942331.0}, "ratio": 5.46, "policy_cost": cost}
    assert make_log.verdict(bench) == "147m 0.94 MB/s, 5.5 times plain, policy +0.7% (+0.3% to +1.1%)"
    assert make_log.verdict(bench | {"ratio": None, "policy_cost": None}) == "147m 0.94 MB/s"
    paths = {"distances": {"a": {}}, "means": {"triton": 1.75, "plain": 1.74}, "last": 50, "seed_deviation": None, "runs": [{}]}
    assert make_log.verdict(paths) == "nats per byte of the last 50 updates: fast 1.7500, plain 1.7400"
    assert make_log.verdict(paths | {"seed_deviation": 0.01}).endswith("plain 1.7400, standard deviation over seeds 0.0100")
    shares = [{"words": "early", "name": "naive", "mean_share": 0.914}]
    assert make_log.verdict({"shares": shares, "runs": [{}]}) == "share of the oracle's gain: early naive 0.91"
