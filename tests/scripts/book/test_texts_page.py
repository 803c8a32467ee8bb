"""make_texts.py: both files tell of the same sources, sums are sums, and the page's numbers follow from the record."""

import copy
import re

import make_texts  # noqa: E402
import pytest
from nbtools.prose import stated_at  # noqa: E402

RECORD, WORDS = make_texts.record(), make_texts.words()
PAGE = make_texts.PAGE.read_text(encoding="utf-8")
SPLITS = ("train", "validation", "test")


def tables(text):
    """Cells of every table, by the first cell of its head and that of each row."""
    tables_there, rows = [], None
    for line in text.splitlines():
        if not line.startswith("| "):
            rows = None
            continue
        first, *rest = (cell.strip() for cell in line.strip("|").split("|"))
        if rows is None:
            tables_there.append(rows := {})
        rows[first.strip("`")] = rest
    return tables_there


def number(cell):
    return int(cell.replace(",", ""))


def test_words_and_record_tell_of_the_same_sources_and_sets():
    assert set(WORDS["sources"]) == set(RECORD["sources"]) and set(WORDS["tasks"]) == set(RECORD["tasks"])


@pytest.mark.parametrize("key", ["documents", "rows", "bytes", "windows"])
@pytest.mark.parametrize("split", SPLITS)
def test_totals_are_sums_over_the_sources(split, key):
    assert RECORD["splits"][split][key] == sum(source[split][key] for source in RECORD["sources"].values())


def test_the_page_adds_up_by_itself():
    totals, kinds, credit, sizes, sets = tables(PAGE)
    names = [name for name in sizes if name not in ("source", "---", "together")]
    assert set(names) == set(RECORD["sources"]) == set(credit) - {"source", "---"}
    for column in range(6):
        rounded = 0 if column < 3 else 0.5 * (len(names) + 1)  # kilobytes
        assert abs(sum(number(sizes[name][column]) for name in names) - number(sizes["together"][column])) <= rounded
    for place, split in enumerate(SPLITS):
        assert number(totals[split][0]) == number(sizes["together"][place])
        assert number(totals[split][2]) == pytest.approx(1000 * number(sizes["together"][3 + place]), abs=500)
        shares = [float(cells[place].rstrip("%")) for name, cells in kinds.items() if name not in ("share of the windows", "---")]
        assert sum(shares) == pytest.approx(100, abs=0.3)
    assert [number(cells[1]) for cells in list(sets.values())[2:]] == [1838, 10042, 2376, 5153]  # as published


def test_every_source_has_its_repository_and_licence_on_the_page():
    credit = tables(PAGE)[2]
    for name, source in WORDS["sources"].items():
        register, place, terms = credit[name]
        assert register == source["register"] and f"(https://github.com/{source['repository']})" in place
        assert source["licence"] in terms
        noted = next((line for line in PAGE.splitlines() if line.startswith(f"* `{name}`: ")), "")
        assert source.get("note", "") in noted and all(f"`{folder}`" in noted for folder in source.get("folders", []))
        if source["licence"].startswith("CC") and source["licence"][-1].isdigit():
            kind, version = re.fullmatch(r"CC ?(BY-SA|BY|0) ([\d.]+)", source["licence"]).groups()
            assert f"/{'zero' if kind == '0' else kind.lower()}/{version}/)" in terms


def test_shares_of_the_largest_documents_and_what_is_in_training_only():
    for split in SPLITS[1:]:
        facts, whole = RECORD["held_out"][split], RECORD["splits"][split]["windows"]
        text = next(line for line in PAGE.splitlines() if line.startswith(f"* {split}: "))
        first, all_of_them = (float(share) for share in re.findall(r"([\d.]+)%", text))
        windows = [each["windows"] for each in facts["largest"]]
        assert first == pytest.approx(100 * windows[0] / whole, abs=0.05)
        assert all_of_them == pytest.approx(100 * sum(windows) / whole, abs=0.05)
        share, effective = windows[0] / whole, facts["effective_documents"]
        assert 1 / share <= effective <= 1 / share**2  # the largest document bounds the sum of squares from both sides
        assert f"documents is {facts['effective_documents']:.1f}; there are {RECORD['splits'][split]['documents']}." in text
    (only,) = re.findall(r"^In training only: (.*)\.$", PAGE, re.M)
    absent = {name for name, facts in RECORD["sources"].items() if facts["validation"]["rows"] + facts["test"]["rows"] == 0}
    assert set(re.findall(r"`([^`]+)`", only)) == absent


@pytest.mark.parametrize("key", ["sources", "tasks"])
def test_what_one_file_lacks_is_named(key):
    name = next(iter(RECORD[key]))
    fewer = {**WORDS, key: {other: text for other, text in WORDS[key].items() if other != name}}
    with pytest.raises(SystemExit, match=f"texts.yml says nothing of {name}.*under {key}"):
        make_texts.render(RECORD, fewer)
    more = {**WORDS, key: {**WORDS[key], "elsewhere": WORDS[key][name]}}
    with pytest.raises(SystemExit, match="texts.json does not count elsewhere"):
        make_texts.render(RECORD, more)


def test_the_words_state_no_number_that_reads_like_a_result():
    said = [*WORDS["cleaning"], *WORDS["kinds"].values(), *(source["register"] for source in WORDS["sources"].values())]
    said += [each["origin"] for each in WORDS["tasks"].values()]
    assert [number for text in said for number in stated_at(text)] == []


def test_a_kind_that_nobody_explains_is_named():
    words = copy.deepcopy(WORDS)
    words["sources"]["dc-law"]["kind"] = "edicts"
    with pytest.raises(SystemExit, match="dc-law is of kind 'edicts'"):
        make_texts.render(RECORD, words)


def test_numbers_on_the_page_move_with_the_record():
    record = copy.deepcopy(RECORD)
    record["sources"]["dc-law"]["train"]["bytes"] = 123_456_789_012
    record["held_out"]["test"]["effective_documents"] = 3.14159
    page = make_texts.render(record, WORDS)
    assert "123,456,789" in page and "The effective number of documents is 3.1;" in page
