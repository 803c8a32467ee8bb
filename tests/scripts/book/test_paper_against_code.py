"""The appendix "Paper against code": what it names exists, defaults are the ones it states, and its arithmetic is right."""

import importlib
import importlib.util
import json
import math
import re
from dataclasses import fields
from functools import reduce

import make_paper_against_code as made  # noqa: E402
import pytest
import torch
import yaml
from make_register import module_file  # noqa: E402
from paths import ROOT
from sweeps import record, seeds_of, sweep_of

from rltok.config import Config, RuleConfig, with_settings  # noqa: E402
from rltok.errors import RltokError  # noqa: E402
from rltok.evidence.differences import gap  # noqa: E402
from rltok.evidence.figures import as_csv, gaps_data  # noqa: E402
from rltok.evidence.plan import read_plan  # noqa: E402
from rltok.flops import attention_flops_per_byte, flops_per_byte, parameter_counts  # noqa: E402
from rltok.layers import initialise  # noqa: E402
from rltok.policy import boundary_logits  # noqa: E402
from rltok.presets import preset  # noqa: E402
from rltok.rules.fixed import EvenRule, RandomKRule  # noqa: E402

CONTENT, ROWS = made.content(), made.rows()
KEYS = {"choice", "paper", "code", "evidence", "ours", "where", "config", "options", "absent", "presets", "chapter", "measured"}
SAYS_OPTION, SAYS_ABSENT = (
    re.compile(r"\boptions?\b"),
    re.compile(r"\b(there (is|are) no|not (yet )?there|is missing)\b", re.IGNORECASE),
)
each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row["choice"])


def say(row: dict, problem: str) -> str:
    return f"book/paper_against_code.yml, {row['choice']!r}: {problem}"


def setting(config: Config, dotted: str):
    return reduce(getattr, dotted.split("."), config)


def texts() -> list[str]:
    return CONTENT["first"] + [row[part] for row in ROWS for part in ("paper", "code", "ours")]


# The page and its source


def test_the_page_is_the_one_made_from_its_source():
    assert made.PAGE.read_text(encoding="utf-8") == made.render(), (
        f"{made.PAGE.relative_to(ROOT)} is out of date: run `make book`"
    )


def test_topics_and_choices_stand_once_each():
    topics = [topic["topic"] for topic in CONTENT["topics"]]
    choices = [row["choice"] for row in ROWS]
    assert len(set(topics)) == len(topics) and len(set(choices)) == len(choices)
    assert CONTENT.keys() == {"numbers", "first", "topics"} and all(
        topic.keys() == {"topic", "rows"} for topic in CONTENT["topics"]
    )


@each_row
def test_a_row_is_complete(row):
    assert row.keys() <= KEYS, say(row, f"unknown keys {sorted(row.keys() - KEYS)}")
    assert all(isinstance(row.get(key), str) for key in ("paper", "code", "ours")), say(
        row, "write text, quoted if it is a number"
    )
    assert row["paper"] and row["ours"] and row.get("where"), say(row, "a part is empty")
    assert not any(re.match(r"\d+[.)](\s|$)", row[key].strip()) for key in ("paper", "code", "ours")), say(
        row, "Markdown takes a number and a full stop at the start for a list"
    )
    assert bool(row["code"]) == bool(row["evidence"]), say(row, "say how sure it is: read, ran, inferred")
    assert row["evidence"] == [word for word in made.EVIDENCE if word in row["evidence"]], say(
        row, f"evidence is {row['evidence']}"
    )


# What the rows name


@each_row
def test_its_names_exist(row):
    for name in row["where"]:
        module = module_file(name).removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        assert name.startswith(module + "."), say(row, f"{name} is a module; name what is in it")
        reduce(getattr, name.removeprefix(module + ".").split("."), importlib.import_module(module))


@each_row
def test_its_settings_have_the_defaults_that_it_states(row):
    for dotted, value in row.get("config", {}).items():
        actual = setting(Config(), dotted)
        assert (type(actual), actual) == (type(value), value), say(row, f"{dotted} is {actual!r} by default, not {value!r}")


def exists(name: str) -> bool:
    """Whether rltok has a setting, or a module or what is in one."""
    try:
        if not name.startswith("rltok."):
            setting(Config(), name)
        elif importlib.util.find_spec(name) is None:
            module, _, inner = name.rpartition(".")
            getattr(importlib.import_module(module), inner)
    except (AttributeError, ModuleNotFoundError):
        return False
    return True


def unproved(row: dict) -> list[str]:
    """Options that rltok does not take, what is said to be absent and is there, and either of them said and not named."""
    found = [f"{name} exists" for name in row.get("absent", []) if exists(name)]
    for dotted, value in row.get("options", {}).items():
        try:
            taken = setting(with_settings(Config(), {dotted: value}), dotted)
            found += [f"{dotted}={value} is the default"] if taken == setting(Config(), dotted) else []
        except RltokError as error:
            found.append(str(error))
    for pattern, key in ((SAYS_OPTION, "options"), (SAYS_ABSENT, "absent")):
        if bool(pattern.search(row["ours"])) != (key in row):
            found.append(f"`ours` and {key} disagree")
    return found


@each_row
def test_an_option_can_be_set_and_what_is_said_not_to_be_there_is_not(row):
    assert unproved(row) == [], say(row, str(unproved(row)))


def test_a_row_that_denies_what_exists_or_promises_what_does_not_is_noticed():
    assert unproved({"ours": "Not there; held-out text only."}) == ["`ours` and absent disagree"]
    assert unproved({"ours": "Not there.", "absent": ["rltok.benchmarks"]}) == ["rltok.benchmarks exists"]
    assert unproved({"ours": "There is no cap.", "absent": ["rltok.policy.no_such_name", "model.no_such_setting"]}) == []
    assert unproved({"ours": "There is no window.", "absent": ["model.window"]}) == ["model.window exists"]
    assert unproved({"ours": "Another is an option."}) == ["`ours` and options disagree"]
    assert unproved({"ours": "An option.", "options": {"model.upsample": "value"}}) == ["model.upsample=value is the default"]
    (refused,) = unproved({"ours": "An option.", "options": {"objective.gamma": 2.0}})
    assert "gamma" in refused and "2.0" in refused


@each_row
def test_its_presets_have_the_settings_that_it_states(row):
    for name, settings in row.get("presets", {}).items():
        for dotted, value in settings.items():
            actual = setting(preset(name), dotted)
            assert actual == value, say(row, f"{dotted} is {actual!r} in {name}, not {value!r}")


def test_the_authors_preset_changes_what_the_page_says_and_nothing_else():
    stated = {key: value for row in ROWS for key, value in row.get("presets", {}).get("147m_authors", {}).items()}
    theirs, ours = preset("147m_authors"), preset("147m")
    flat = lambda config: {  # noqa: E731
        f"{section}.{f.name}": getattr(setting(config, section), f.name)
        for section in ("model", "model.rule", "objective", "data", "train")
        for f in fields(setting(config, section))
        if f.type is not RuleConfig
    }
    changed = {key: value for key, value in flat(theirs).items() if flat(ours)[key] != value}
    assert changed == stated


@each_row
def test_what_it_says_was_measured_stands_in_a_record(row):
    if "measured" not in row:
        pytest.skip("nothing measured")
    entry = row["measured"]
    if "sweep" in entry:
        planned = {run.name for run in read_plan(ROOT / "scripts" / "measure" / "sweeps" / f"{entry['sweep']}.toml").runs}
        assert planned >= set(entry["contenders"]) and entry["say"].count("{}") == 1
        return
    if "rates_of" in entry:
        assert len(made.rates(entry["rates_of"])) == 3 and entry["say"].count("{}") == 1 and "{}" not in made.measured(entry)
        return
    record = json.loads((ROOT / "notebooks" / "results" / f"{entry['record']}.json").read_text())
    if "runs" in record:
        numbers = made.fields(record, entry["field"])
        assert len(numbers) == len({run["seed"] for run in record["runs"]})  # each seed once, in order
        assert record.get("full", True) and not any(run.get("smoke") for run in record["runs"])
    assert entry["say"].count("{}") == 1 and "{}" not in made.measured(entry)


def test_differences_of_a_sweep_are_those_of_its_records(tmp_path, monkeypatch):
    monkeypatch.setattr(made, "RESULTS", tmp_path)
    entry = {"sweep": "32m", "place": "test", "contenders": ["even", "ours_lags1"], "say": "At 32M: {}."}
    assert made.measured(entry) == "The runs of the sweep 32m for this are to come."
    sweep = sweep_of(*seeds_of("ours", 2.0), *seeds_of("even", 2.1))
    (tmp_path / "figures" / "32m").mkdir(parents=True)
    (tmp_path / "figures" / "32m" / "gaps.csv").write_text(as_csv(gaps_data(sweep)))
    minus_ours = gap(sweep, "even", "ours", "test")
    assert made.measured(entry) == f"At 32M: even {minus_ours}, 3 seeds." and abs(minus_ours.bits - 0.1) < 0.01
    with_one = sweep_of(*seeds_of("ours", 2.0), *seeds_of("even", 2.1), record("ours_lags1", 0, bits=2.2))
    (tmp_path / "figures" / "32m" / "gaps.csv").write_text(as_csv(gaps_data(with_one)))
    assert made.measured(entry).endswith(f", 1 seed. {made.ONE_SEED}")


# The arithmetic


def spacing_of_bf16(value: float) -> float:
    return 2.0 ** (math.floor(math.log2(value)) - 7)


def stuck_from(step: float) -> float:
    """The power of two from which on an entry of bf16 stays where it was when a step of this size is taken off it."""
    value = 2.0**-20
    while torch.tensor(value * 1.01).bfloat16() - torch.tensor(step).bfloat16() != torch.tensor(value * 1.01).bfloat16():
        value *= 2
    return value


def bf16_frequencies(head_dim: int, theta: float) -> float:
    exact = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    return float(((exact.bfloat16().double() - exact) / exact).abs().max())


def start(softcap: float | None) -> float:
    logits = boundary_logits(
        torch.zeros(1, 1, 9), torch.ones(1, 1, dtype=torch.bool), bias=math.log(0.2 / 0.8), scale=16.0, softcap=softcap
    )
    return float(logits.sigmoid())


def combined_errors(first: tuple[float, float], second: tuple[float, float]) -> str:
    return f"{abs(first[0] - second[0]) / math.hypot(first[1], second[1]):.1f}"


def tokens() -> str:
    ids = torch.zeros(1, 4096, dtype=torch.long)
    uniforms = torch.rand(1, 4096, generator=torch.Generator().manual_seed(0))
    states = torch.zeros(1, 4096, 1)
    boundaries = {int(rule(0.2).decide(states, ids, uniforms).boundaries.sum()) for rule in (EvenRule, RandomKRule)}
    assert len(boundaries) == 1
    return str(boundaries.pop())


def linear_std(width: int) -> str:
    """Standard deviation of a linear layer as torch starts it and as we do; they are equal to the digits shown."""
    layer = torch.nn.Linear(width, width, bias=False)
    theirs = float(layer.weight.detach().std())
    initialise(layer)
    assert float(layer.weight.detach().std()) == pytest.approx(theirs, rel=0.01)
    return f"{1 / math.sqrt(3 * width):.4f}"


MODEL, COUNTS = preset("147m").model, parameter_counts(preset("147m").model)
PER_BYTE = flops_per_byte(MODEL, 0.2)
POSITIONS = torch.arange(4096).bfloat16()
PEAK = 1.5e-3
SIZES = {"147m": (4.5e8, 6e9), "90m": (2.5e8, 3.4e9), "small": (1.1e8, 1.5e9)}  # warm-up and training bytes of Table 2
COMPUTED = {
    "bf16_positions": lambda: str(len(POSITIONS.unique())),
    "bf16_run": lambda: f"{2048 / len(POSITIONS[2048:].unique()):.0f}",
    "bf16_window": lambda: f"{64 / spacing_of_bf16(3000):.0f}",
    "bf16_frequency": lambda: f"{bf16_frequencies(64, 10000.0):.2%}".replace("%", " %"),
    "tokens": tokens,
    "start_capped": lambda: f"{start(6.0):.3f}",
    "capped_low": lambda: f"{1 / (1 + math.exp(6)):.4f}",
    "capped_high": lambda: f"{1 / (1 + math.exp(-6)):.4f}",
    "uniform_nats": lambda: f"{math.log(320):.2f}",
    "linear_std": lambda: linear_std(768),
    "millions": lambda: f"{sum(COUNTS.values()) / 1e6:.1f}",
    "byte_layer": lambda: f"{COUNTS['byte_layers'] / 8 / 1e6:.2f}",
    "token_layer": lambda: f"{COUNTS['token_layers'] / 12 / 1e6:.2f}",
    "token_layer_a_byte": lambda: f"{COUNTS['token_layers'] / 12 / 5 / 1e6:.2f}",
    "layer_ratio": lambda: f"{(COUNTS['byte_layers'] / 8) / (COUNTS['token_layers'] / 12 / 5):.1f}",
    "reach_short": lambda: f"{1 / (1 - 0.9):.0f}",
    "reach_long": lambda: f"{1 / (1 - 0.99):.0f}",
    "stuck_peak": lambda: f"{stuck_from(PEAK):.1g}",
    "stuck_tenth": lambda: f"{stuck_from(PEAK / 10):.1g}",
    "stuck_hundredth": lambda: f"{stuck_from(PEAK / 100):.1g}",
    "restart_documents": lambda: f"{6e9 / 10 / 4096 / 1000:.0f}",
    "unscored": lambda: f"{1 - 4095 / 4096:.2%}".replace("%", " %"),
    "warmup_147m": lambda: f"{SIZES['147m'][0] / SIZES['147m'][1]:.3f}",
    "warmup_90m": lambda: f"{SIZES['90m'][0] / SIZES['90m'][1]:.3f}",
    "warmup_small": lambda: f"{SIZES['small'][0] / SIZES['small'][1]:.3f}",
    "flops": lambda: f"{6e9 * PER_BYTE:.2e}".replace("e+", "e"),
    "attention": lambda: f"{attention_flops_per_byte(MODEL, 0.2, 4096) / PER_BYTE:.1%}".replace("%", " %"),
    "early_head": lambda: f"{6 * COUNTS['early_head'] / PER_BYTE:.2%}".replace("%", " %"),
    "policy": lambda: f"{6 * COUNTS['policy'] / PER_BYTE:.3%}".replace("%", " %"),
    "arc_errors": lambda: combined_errors((1.974, 0.017), (2.016, 0.018)),
    "fineweb_errors": lambda: combined_errors((1.280, 0.003), (1.297, 0.003)),
    "lambada_errors": lambda: combined_errors((1.584, 0.013), (1.737, 0.013)),
}


def test_the_cap_alone_moves_the_start():
    assert start(None) == pytest.approx(0.2, abs=1e-7)


@pytest.mark.parametrize("name", sorted(CONTENT["numbers"].keys() | COMPUTED.keys()))
def test_a_number_of_the_page_is_what_arithmetic_gives(name):
    assert name in COMPUTED, f"compute {name} here"
    assert CONTENT["numbers"].get(name) == COMPUTED[name]()


def test_every_number_is_used_and_none_is_left_in_braces():
    used = set(re.findall(r"\{(\w+)\}", " ".join(texts()))) & CONTENT["numbers"].keys()
    assert used == CONTENT["numbers"].keys()
    page = made.PAGE.read_text(encoding="utf-8")
    assert re.findall(r"(?<![_^])\{\w+\}", page) == []


# The script


def test_a_number_that_moves_shows_and_a_chapter_that_is_missing_says_so():
    assert made.filled("a {x} of\n  $p_{i}$", {"x": "7"}) == "a 7 of $p_{i}$"
    assert made.fields({"runs": [{"a": {"b": 1}}, {"a": {"b": 2}}], "c": 3}, "runs.*.a.b") == [1, 2]
    assert made.fields({"c": 3}, "c") == [3]
    runs = {"runs": [{"name": "a", "rate": 1.0}, {"name": "b", "rate": 2.0}, {"name": "a", "rate": 3.0}]}
    assert made.fields(runs, "runs.name=a.rate") == [1.0, 3.0] and made.fields(runs, "runs.*.rate") == [1.0, 2.0, 3.0]
    assert made._chapter("99_never") == "To be measured in chapter 99, not yet written."
    assert made._chapter("00_quickstart") == "Measured in [chapter 00](../notebooks/00_quickstart.ipynb)."
    with pytest.raises(SystemExit, match="paper_against_code.yml names rltok_x.y"):
        made._source("rltok_x.y", "")


def test_a_row_is_told_in_four_cells_and_says_where_below_the_table():
    row = {"choice": "a", "paper": "p", "code": "", "evidence": [], "ours": "o", "where": ["rltok.step.autocast"]}
    assert made._row(row, {}) == ["* - **a**", "  - p", "  - –", "  - o"]
    row |= {"code": "c {n}", "evidence": ["read", "ran"], "config": {"a.b": True}, "presets": {"tiny": {"c.d": 1e-8, "e.f": "g"}}}
    assert made._row(row, {"n": "7"})[2] == "  - c 7 *(read, ran)*"
    assert made._where(row, "") == "* a: `a.b=true`; `c.d=1e-08`, `e.f=g` in preset `tiny`; `rltok.step.autocast`"


def test_the_source_is_yaml_without_repeated_keys():
    class Strict(yaml.SafeLoader):
        pass

    def once(loader, node):
        keys = [loader.construct_object(key) for key, _ in node.value]
        assert len(set(keys)) == len(keys), f"line {node.start_mark.line + 1}: a key stands twice"
        return loader.construct_mapping(node, deep=True)

    Strict.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, once)
    assert yaml.load(made.SOURCE.read_text(encoding="utf-8"), Strict) == CONTENT
