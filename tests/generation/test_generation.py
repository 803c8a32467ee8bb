"""Generation with caches gives what a full pass for every byte gives, which gives what the model says of the finished rows."""

from dataclasses import fields

import jaxtyping
import pytest
import torch
from a_new_rule import KindRule
from fitted import fitted_model
from helpers import ranged_model, tiny_config, tiny_model
from hypothesis import given, settings
from hypothesis import strategies as st

from rltok.errors import RltokError
from rltok.fast.unet import FastUNet
from rltok.generation import Generated, Generation, Sampling, generate, stream
from rltok.generation.draws import draw
from rltok.rng import row_uniforms
from rltok.rules.dynamic_pooling import DynamicPoolingRule
from rltok.unet import AutoregressiveUNet
from rltok.vocab import BOS, EOS, PREDICTED

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
RAGGED = ["", "The cat sat.", b"\xff\xc3 no UTF-8 \xe2\x82"]
TOLERANCE = 1e-11


def evaluated(rule="learned", **settings):
    return tiny_model(rule, dtype=torch.float64, **settings).eval()


def leaning(model, favourite, by):
    """The model with `by` more on the logit of one id."""
    plain = model.output_logits
    model.output_logits = lambda states: plain(states) + by * (torch.arange(264) == favourite)
    return model


def both_ways(model, prompts, *, row_length=None, **chosen):
    """Rows of a generation with caches, once every step has been held to a full pass."""
    sampling = Sampling(**{"max_bytes": 15, "seed": 1} | chosen)
    fast, slow = (Generation(model, prompts, sampling, row_length=row_length, cached=cached) for cached in (True, False))
    tolerance = TOLERANCE if model.embedding.weight.dtype == torch.float64 else 1e-4
    for pieces, others in zip(fast, slow, strict=True):
        assert pieces == others
        torch.testing.assert_close(fast.logits, slow.logits, rtol=0, atol=tolerance)
    assert fast.results() == slow.results()
    return fast.results()


def rows_of(results):
    """BOS and the bytes of each row, and the boundaries after each byte."""
    return [(torch.tensor([[BOS, *row.prompt, *row.data]]), torch.tensor(row.boundaries)) for row in results]


# Step by step against the full pass


@pytest.mark.parametrize("prompts", [RAGGED[1:2], RAGGED], ids=["one", "three"])
@pytest.mark.parametrize("window", [1, 3, 5, 64])
@pytest.mark.parametrize("lags", [0, 1, 8])
def test_steps_equal_full_passes_for_the_learned_rule(lags, window, prompts):
    rows = both_ways(leaning(evaluated(lags=lags, window=window), EOS, -100.0), prompts)
    assert {len(row.data) for row in rows} == {15}
    marks = [row.boundaries[len(row.prompt) :] for row in rows]
    assert len(set(marks)) == len(prompts) and 0 < sum(map(sum, marks)) < 15 * len(prompts)  # rows end tokens at other bytes


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.6])
def test_steps_equal_full_passes_at_a_rate_that_was_chosen(rate):
    model = leaning(ranged_model(rate, dtype=torch.float64).eval(), EOS, -100.0)
    rows = both_ways(model, RAGGED, max_bytes=40)
    share = sum(sum(row.boundaries) for row in rows) / sum(len(row.boundaries) for row in rows)
    assert {0.1: share < 0.3, 0.3: 0.1 < share < 0.6, 0.6: share > 0.45}[rate], share


@pytest.mark.parametrize("upsample", ["value", "deviation"])
@pytest.mark.parametrize("token_positions", ["byte", "index"])
@pytest.mark.parametrize("head_norm", ["rms", "none", "heads", "policy"])
@pytest.mark.parametrize("attention_softcap", [50.0, None])
def test_steps_equal_full_passes_for_every_reading_of_the_model(attention_softcap, head_norm, token_positions, upsample):
    readings = {"head_norm": head_norm, "token_positions": token_positions, "upsample": upsample}
    both_ways(evaluated(attention_softcap=attention_softcap, down_layers=2, up_layers=2, **readings), RAGGED)


@pytest.mark.parametrize("smooth", ["ema", "none"])
@pytest.mark.parametrize("variant", ["faithful", "port"])
@pytest.mark.parametrize("token_positions", ["byte", "index"])
def test_steps_equal_full_passes_for_hnet(token_positions, variant, smooth):
    both_ways(evaluated("hnet", variant=variant, smooth=smooth, token_positions=token_positions), RAGGED, max_bytes=30)


@pytest.mark.parametrize("variant", ["faithful", "authors"])
@pytest.mark.parametrize("token_positions", ["byte", "index"])
def test_steps_equal_full_passes_for_dynamic_pooling(token_positions, variant):
    rows = both_ways(evaluated("dynamic_pooling", variant=variant, token_positions=token_positions), RAGGED, max_bytes=30)
    assert any(False in row.boundaries[len(row.prompt) :] for row in rows)  # a group of several bytes


@pytest.mark.parametrize("row_length", [None, 20, 64])
def test_steps_equal_full_passes_for_even_boundaries_as_in_a_row_of_the_trained_length(row_length):
    model = evaluated("even", target_rate=0.3)
    for row in both_ways(model, RAGGED, row_length=row_length):
        length = max(row_length or 0, len(row.prompt) + 15 + 1)
        whole = model.rule.decide(torch.zeros(1, length, 16), torch.zeros(1, length, dtype=torch.long), torch.zeros(1, length))
        assert list(row.boundaries) == whole.boundaries[0, 1 : len(row.boundaries) + 1].tolist()


@pytest.mark.parametrize("rule", ["whitespace", "entropy", "bpe_causal"])
def test_steps_equal_full_passes_for_rules_that_read_the_text(rule):
    model = fitted_model(rule, dtype=torch.float64).eval()
    rows = both_ways(model, ["The cat sat on the mat, and", "", "12 dogs"], max_bytes=20)
    assert any(any(row.boundaries[len(row.prompt) :]) for row in rows)


class LongWordRule(DynamicPoolingRule):
    """The user's own: means of groups, and a decision that depends on all of the row."""

    sees = None

    def decide(self, byte_states, ids, uniforms):
        drawn = super().decide(byte_states, ids, uniforms)
        count = torch.arange(ids.shape[1]) - drawn.boundaries.long().cumsum(1)
        return type(drawn)(drawn.boundaries & (count % 3 > 0) | (torch.arange(ids.shape[1]) == 0), soft=drawn.soft)


@pytest.mark.parametrize("kind", ["one file", "means of groups"])
def test_a_rule_of_the_users_own_generates_without_a_line_about_it(kind):
    pooling = {"target_rate": 0.3, "variant": "authors", "temperature": 1.0, "prior_weight": 1.0, "norm_eps": 1e-6}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        rule = KindRule() if kind == "one file" else LongWordRule(16, **pooling)
        model = AutoregressiveUNet(tiny_config(), rule=rule).double().eval()
    rows = both_ways(model, RAGGED)
    assert 0 < sum(sum(row.boundaries) for row in rows) < sum(len(row.boundaries) for row in rows)


@settings(max_examples=25)
@given(
    lengths=st.lists(st.integers(0, 12), min_size=1, max_size=4), window=st.integers(1, 9), lags=st.integers(0, 5),
    rule=st.sampled_from(["learned", "hnet", "dynamic_pooling", "even"]), seed=st.integers(0, 2**32), max_bytes=st.integers(1, 8),
)  # fmt: skip
def test_steps_equal_full_passes_for_any_prompts(lengths, window, lags, rule, seed, max_bytes):
    prompts = [bytes((seed + 31 * row + 7 * i) % 256 for i in range(length)) for row, length in enumerate(lengths)]
    model = evaluated(rule, window=window, lags=lags, seed=seed % 1000)
    both_ways(model, prompts, seed=seed, max_bytes=max_bytes, row_length=10)


@pytest.mark.parametrize("rule", ["learned", "even", "dynamic_pooling", "hnet"])
def test_everything_has_the_shapes_and_types_that_it_declares(rule):
    jaxtyping.config.update("jaxtyping_disable", False)  # the fixture of this file has switched the checks off
    both_ways(tiny_model(rule), RAGGED, max_bytes=6)


def test_the_fast_network_generates_through_the_same_steps():
    assert both_ways(evaluated(network=FastUNet), RAGGED) == both_ways(evaluated(), RAGGED)


@pytest.mark.parametrize("rule", ["learned", "dynamic_pooling", "hnet"])
def test_finished_rows_get_the_same_boundaries_and_the_same_most_probable_bytes_from_the_model_itself(rule):
    model = evaluated(rule)
    results = generate(model, RAGGED, max_bytes=25, temperature=0, seed=4)
    for number, (ids, boundaries) in enumerate(rows_of(results)):
        whole = torch.nn.functional.pad(ids, (0, 1), value=0)  # the last byte has a decision, too
        uniforms = row_uniforms(4, 0, [number], ids.shape[1])
        assert torch.equal(model(whole, uniforms=uniforms).boundaries[0, 1:], boundaries)
        start = len(results[number].prompt)
        best = model.log_probs(whole, uniforms=uniforms)[0, start:-1].argmax(-1)
        assert best.tolist() == list(results[number].data)


# What a row depends on


def test_a_row_depends_on_its_number_and_on_no_other_row():
    model, some = evaluated(), {"max_bytes": 20, "seed": 2}
    alone, other = generate(model, ["The"], **some), generate(model, ["The", "x" * 40, ""], **some)
    assert alone[0] == other[0]
    first, second = generate(model, ["The", "The"], **some)
    assert first == alone[0] and first.data != second.data
    assert generate(model, ["", "The"], **some)[1] == second
    assert generate(model, ["The"], **some | {"seed": 3})[0].data != first.data


def test_a_text_given_back_as_a_prompt_goes_on_as_it_did():
    model = evaluated()
    (whole,) = generate(model, ["The"], max_bytes=40)
    (again,) = generate(model, [b"The" + whole.data[:23]], max_bytes=17)
    assert again.prompt + again.data == whole.prompt + whole.data and again.boundaries == whole.boundaries


def test_a_model_in_training_mode_draws_as_in_evaluation_and_stays_in_training():
    model = tiny_model(dtype=torch.float64, softcap=0.9)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    trained = generate(model, RAGGED, max_bytes=40)
    assert model.training and all(part.training for part in model.modules())
    assert trained == generate(model.eval(), RAGGED, max_bytes=40)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    capped = model.train()(torch.tensor([[BOS, *trained[1].prompt, *trained[1].data, 0]]), uniforms=row_uniforms(0, 0, [1], 53))
    assert capped.boundaries[0, 1:].tolist() != list(trained[1].boundaries)  # under the cap the draw is another


# How a row ends


def test_the_models_own_end_ends_a_row_while_others_go_on():
    model = leaning(evaluated(), EOS, 4.5)
    rows = both_ways(model, RAGGED * 2, max_bytes=60)
    lengths = [len(row.data) for row in rows]
    assert len(set(lengths)) > 3 and max(lengths) < 60
    assert {row.ended for row in rows} == {"end"}
    assert all(len(row.boundaries) == len(row.prompt) + len(row.data) for row in rows)


def test_a_stop_string_ends_a_row_before_it_and_only_there():
    model = evaluated()
    free = generate(model, RAGGED, max_bytes=30)
    cuts = [row.data[10:12] for row in free]
    for row, stopped in zip(free, both_ways(model, RAGGED, max_bytes=30, seed=0, stop=tuple(cuts)), strict=True):
        place = min(row.data.find(cut) for cut in cuts if cut in row.data)
        assert stopped.data == row.data[:place] and stopped.ended == "stop"
        assert stopped.boundaries == row.boundaries[: len(stopped.prompt) + place]


def test_the_stop_string_in_a_prompt_stops_nothing():
    (row,) = generate(evaluated(), ["a.b."], max_bytes=5, stop=(".b.",))
    assert row.ended == "length" and len(row.data) == 5


def test_a_stream_is_the_text_in_pieces_without_half_characters():
    model = leaning(evaluated(), 0xC3, 6.0)
    for seed in range(3):
        (whole,) = generate(model, ["é"], seed=seed, max_bytes=20)
        pieces = list(stream(model, "é", seed=seed, max_bytes=20))
        assert "".join(pieces) == whole.text and len(pieces) > 1 and "" not in pieces


def test_a_stream_complains_before_its_first_piece_is_wanted():
    with pytest.raises(RltokError, match="temperature must be at least 0"):
        stream(evaluated(), "a", temperature=-1)


def test_a_generated_text_shows_invalid_bytes_as_replacement_characters():
    assert Generated(b"", b"a\xffb", (), "length").text == "a\ufffdb"


# What is refused


@pytest.mark.parametrize("rule", ["bpe", "random_k"])
def test_rules_that_look_ahead_refuse_and_say_why(rule):
    model = evaluated("random_k") if rule == "random_k" else fitted_model("bpe")
    with pytest.raises(RltokError) as error:
        generate(model, ["a"])
    why = {"bpe": "later bytes decide where a token", "random_k": "random numbers of the whole row"}[rule]
    assert why in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": -0.1}, "temperature must be at least 0 and finite; got -0.1"),
        ({"temperature": float("nan")}, "got nan"), ({"temperature": float("inf")}, "got inf"),
        ({"top_k": 0}, "top-k must lie between 1 and 257"), ({"top_k": 258}, "got 258"),
        ({"top_p": 0.0}, "top-p must be greater than 0"), ({"top_p": 1.1}, "got 1.1"), ({"top_p": float("nan")}, "got nan"),
        ({"max_bytes": 0}, "must be at least 1; got 0"), ({"stop": ("a", "")}, "a stop string is empty"),
        ({"seed": -1}, "seed and step must lie between 0"),
    ],
)  # fmt: skip
def test_settings_that_mean_nothing_are_errors_of_one_line(settings, message):
    with pytest.raises(RltokError) as error:
        generate(evaluated(), ["a"], **settings)
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("prompt", ["The cat sat.", RAGGED[2], ""])
def test_a_plain_string_is_one_prompt_and_one_stop_text(prompt):
    (listed,) = generate(evaluated(), [prompt], max_bytes=20)
    assert generate(evaluated(), prompt, max_bytes=20) == generate(evaluated(), iter([prompt]), max_bytes=20) == [listed]
    for stop, text, ended in (("ab", "aaaaa", "length"), (b"ab", "aaaaa", "length"), (iter(["b", "aaa"]), "", "stop")):
        (row,) = generate(leaning(evaluated(), ord("a"), 1e9), prompt, max_bytes=5, stop=stop)
        assert (row.text, row.ended) == (text, ended)


@pytest.mark.parametrize("call", [generate, stream])
def test_an_unknown_setting_is_one_line_with_those_that_there_are(call):
    names = ", ".join([*(field.name for field in fields(Sampling)), "row_length"])
    with pytest.raises(RltokError) as error:
        call(evaluated(), "a", bytes=5)
    assert f"there is no setting 'bytes' of how text goes on. There are {names};" in str(error.value)
    for name in names.split(", "):
        known = {"max_bytes": 3, "row_length": 20}.get(name, getattr(Sampling(), name, None))
        assert list(call(evaluated(), "a", **{"max_bytes": 3, name: known}))


def test_the_length_of_rows_is_that_of_the_model_unless_it_is_given():
    model = evaluated("even")
    plain = generate(model, "The cat", max_bytes=15)
    model.row_bytes = 64
    assert generate(model, "The cat", max_bytes=15) == generate(model, "The cat", max_bytes=15, row_length=64) != plain


def test_no_prompt_at_all_is_an_error():
    with pytest.raises(RltokError, match="there is no prompt"):
        generate(evaluated(), [])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("temperature", [0, 1])
def test_weights_that_have_grown_too_large_are_named(value, temperature):
    model = evaluated()
    with torch.no_grad():
        model.output_head.weight[5] = value
    with pytest.raises(RltokError, match="probabilities of the next byte come out as nan"):
        generate(model, ["a"], temperature=temperature, max_bytes=3)


# Sampling


def shares(logits, places=4000, **settings):
    """How often each id is drawn over an even grid of numbers in [0, 1)."""
    grid = (torch.arange(places) + 0.5) / places
    drawn = draw(Sampling(**settings), logits.expand(places, -1), grid)
    return torch.bincount(drawn, minlength=logits.shape[-1]) / places


def some_logits(seed=0):
    logits = torch.full((264,), float("-inf"))
    logits[list(PREDICTED)] = 2 * torch.randn(len(PREDICTED), generator=torch.Generator().manual_seed(seed))
    return logits


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_ids_come_as_often_as_their_probabilities_say(temperature):
    logits = some_logits()
    assert (shares(logits, temperature=temperature) - (logits / temperature).softmax(-1)).abs().max() < 1e-3


@pytest.mark.parametrize("top_k", [1, 2, 40, 257])
def test_top_k_leaves_the_most_probable_ids_in_their_proportions(top_k):
    logits = some_logits()
    kept = logits >= logits.topk(top_k).values[-1]
    wanted = torch.where(kept, logits.softmax(-1), 0.0)
    assert (shares(logits, top_k=top_k) - wanted / wanted.sum()).abs().max() < 1e-3


def test_top_p_leaves_the_fewest_ids_that_reach_it():
    logits = torch.tensor([0.1, 0.4, 0.2, 0.3]).log()
    for top_p, kept in [(0.01, [1]), (0.39, [1]), (0.41, [1, 3]), (0.69, [1, 3]), (0.71, [1, 2, 3]), (0.95, [0, 1, 2, 3])]:
        actual = shares(logits, top_p=top_p)
        assert actual.nonzero()[:, 0].tolist() == kept
        wanted = logits.exp() * torch.tensor([i in kept for i in range(4)])
        torch.testing.assert_close(actual, wanted / wanted.sum(), rtol=0, atol=1e-3)


def test_top_p_counts_what_top_k_left():
    logits = torch.tensor([0.1, 0.4, 0.2, 0.3]).log()
    assert shares(logits, top_k=2, top_p=0.57).nonzero()[:, 0].tolist() == [1]  # 0.4 / 0.7 is more


def test_temperature_0_takes_the_most_probable_id_and_the_lower_one_of_equals():
    logits = torch.tensor([[0.0, 3.0, 3.0, 1.0], [2.0, 1.0, 0.0, 1.0]])
    for number in (0.0, 0.5, 0.9999):
        assert draw(Sampling(temperature=0), logits, torch.full((2,), number)).tolist() == [1, 0]


@pytest.mark.parametrize("temperature", [1e-300, 1e300])
def test_extreme_temperatures_stay_finite(temperature):
    share = shares(torch.tensor([1.0, 5.0, 2.0, float("-inf")]), temperature=temperature)
    assert share.tolist() == ([0, 1, 0, 0] if temperature < 1 else pytest.approx([1 / 3, 1 / 3, 1 / 3, 0], abs=1e-3))


def test_the_largest_number_below_1_draws_an_id_that_can_come():
    logits = some_logits()
    (drawn,) = draw(Sampling(), logits[None], torch.tensor([1 - 2**-24])).tolist()
    assert logits[drawn] == logits[list(PREDICTED)].min()
