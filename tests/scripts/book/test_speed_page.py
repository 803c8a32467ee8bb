"""scripts/book/make_speed.py: tables from records, and plain words where there is none."""

import make_speed  # noqa: E402

ARM = {
    "bytes_per_second": 1.5e6, "micro_batch": 32, "tokens_per_byte": 0.21, "share_of_product": {"with_attention": 0.404},
    "peak_memory_bytes": 42e9, "cold_start_seconds": 9.4, "updates": 50, "quartiles": [1.4e6, 1.6e6],
    "compilations_after_warm_up": 0, "bytes": [1000, 500, 2000],
    "flops_per_byte": {"without_attention": 3e10},
    "time_split": {"seconds": {"attention": 0.5, "matrix products": 1.5}}, "seconds": [9.0, 4.0, 2.0],
}  # fmt: skip
BENCH = {
    "preset": "147m", "device": "H100", "arm": ARM, "plain": ARM | {"micro_batch": 16, "updates": 5}, "ratio": 5.53,
    "policy_cost": {
        "cost": 0.0112, "interval": [0.002, 0.0149], "pairs_a_repeat": 4, "confidence": 0.96,
        "repeats": [{"learned": [1.25, 1.5], "given": [1.0, 1.0]}] * 9,
    },
    "commit": "abcdef0123", "product": {"rate": 40e12}, "precision": "bf16 autocast", "versions": {"torch": "2.11"},
    "data": {
        "name": "a.parquet", "cut": "full_windows", "sequence_length": 4096, "train": {"rows": 33170, "hash": "b1f3aef6f2a0"},
    },
}  # fmt: skip


def cells(text, line):
    return [cell.strip() for cell in text.splitlines()[line].strip("|").split("|")]


def column(text, number=1):
    """Names and values of a table that was turned."""
    rows = [cells(text, line) for line in range(len(text.splitlines())) if text.splitlines()[line].startswith("|")]
    return {row[0]: row[number] for row in rows if set(row[0]) != {"-"}}


def test_a_bench_is_a_column_with_its_commit():
    column_cells = column(make_speed.benches([BENCH]).split("\n\n")[0])
    assert (column_cells["MB/s"], column_cells["GB"], column_cells["commit"]) == ("1.500", "42", "`abcdef0`")
    assert column_cells["times as fast as plain"] == "5.5 (at 16 rows)" and column_cells["of a matrix product's rate"] == "40%"
    assert column_cells["cost of the policy"] == "+1.1% (+0.2% to +1.5%), 375.0 ms"
    text = make_speed.benches([BENCH, BENCH | {"preset": "32m"}])
    assert (
        "* 147m: 50 updates and 5 plain ones, quartiles 1.400 to 1.600 MB/s; 9 repeats of 4 pairs for the cost of the policy,"
        " interval at 96%; bf16 autocast, torch 2.11; text a.parquet, 33,170 full windows of 4096 bytes, hash b1f3aef6; 0"
    ) in text
    assert list(column(text.split("\n\n")[-1], 2).items()) == [
        ("preset", "32m"), ("update, ms", "4000"), ("attention", "12.5%"), ("matrix products", "37.5%"), ("no kernel", "50.0%"),
        ("products, TFLOP/s", "20"), ("a large square product, TFLOP/s", "40"),
    ]  # fmt: skip
    bare = column(make_speed.benches([BENCH | {"plain": None, "policy_cost": None}]).split("\n\n")[0])
    assert bare["times as fast as plain"] == bare["cost of the policy"] == "-"


def test_notes_of_several_cards_are_numbered_through_and_each_part_names_its_card():
    note = {"change": "a", "predicted": "b", "outcome": "c"}
    parts = [
        {"card": "H100", "where": "where it rains", "notes": [note, note]},
        {"card": "H200", "where": "at night", "notes": [note]},
    ]
    text = make_speed.notes(parts)
    assert [cells(text, line) for line in (2, 3, 9)] == [["1", "a", "b", "c"], ["2", "a", "b", "c"], ["3", "a", "b", "c"]]
    assert cells(text, 5) == ["On one H100, where it rains."] and text.endswith("\n\nOn one H200, at night.\n")


def test_an_operation_that_failed_says_so():
    record = {
        "device": "H100", "commit": "abcdef0123", "rows": 32, "sequence_length": 4096, "copy_bytes_per_second": 3e12,
        "operations": [
            {"operation": "a", "way": "triton", "milliseconds": [0.25, 0.5], "floor_milliseconds": [0.1, 0.2]},
            {"operation": "a", "way": "flex", "failed": "RuntimeError: no"},
            {"operation": "b", "way": "c", "milliseconds": [1.0]},
        ],
    }  # fmt: skip
    text = make_speed.kernels(record)
    assert cells(text, 2) == ["a", "triton", "0.25 and 0.5", "0.1 and 0.2"]
    assert cells(text, 3)[2] == "RuntimeError: no" and cells(text, 4)[2:] == ["1", "-"]


def test_both_paths_are_told_apart_by_their_distance_from_float64_and_their_losses():
    one = {"nll": 1e-3, "early_nll": 2e-3, "gradient": 6e-3, "worst": 1e-2}
    record = {
        "distances": {"32m": {"plain": one, "triton": one | {"worst": 2e-2}}}, "updates": 200, "last": 50,
        "config": {"name": "32m"}, "means": {"plain": 1.75, "triton": 1.74}, "seed_deviation": 0.004, "device": "H100",
        "data": {"name": "a.parquet"}, "runs": [{"seed": 0}, {"seed": 1}], "commit": "abcdef0123",
    }  # fmt: skip
    text = make_speed.paths(record)
    assert cells(text, 5) == ["32m", "triton", "1.00e-03", "2.00e-03", "6.00e-03", "2.00e-02"]
    assert (
        "2 seeds, mean loss of the last 50, nats per byte: plain 1.7500, fast 1.7400, apart by -0.0100; standard deviation"
        in text
    )


def test_without_records_the_page_says_that_nothing_is_stored():
    for text in (make_speed.benches([]), make_speed.kernels(None), make_speed.paths(None)):
        assert text.startswith("No record of ") and text.endswith("stored yet.\n")
