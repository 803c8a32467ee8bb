"""`rltok bench`: options to a measurement, a measurement to lines."""

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from rltok.cli.options import parse_settings, say
from rltok.config import Config, with_settings
from rltok.data import load_corpus
from rltok.data.sources import is_hub
from rltok.device import backend_of, resolve_device
from rltok.errors import RltokError
from rltok.presets import preset
from rltok.speed.bench import BENCH_RECORD, Plan
from rltok.speed.bench import bench as measure
from rltok.speed.speeds import FULL_UPDATES
from rltok.system.files import check_record_path, write_record

HUB_UPDATES = 4  # of a dataset on the hub so many updates are read, then rows repeat


def bench(options: argparse.Namespace) -> None:
    """`rltok bench`."""
    plan = Plan(
        options.updates, options.plain_updates, options.plain_micro_batch, options.repeats if options.policy_cost else None
    )
    if options.out is not None:
        check_record_path(options.out, BENCH_RECORD)
        _keep_full_record(Path(options.out), plan)
    device = resolve_device(options.device)
    config = with_settings(
        preset(options.preset or ("147m" if device.type == "cuda" else "tiny")),
        {"data.cut": "full_windows"} | parse_settings(options.set),
    )
    plan.check(config)
    backend_of(config, device)
    corpus = load_corpus(
        options.data, config.data, max_bytes=_most_bytes(options, config), allow_binary=options.allow_binary, force=options.force
    )
    record = measure(config, corpus, device, plan, lambda line: say(options, line))
    if options.out is not None:
        write_record(Path(options.out), record)
    if options.json:
        print(json.dumps(record, indent=1, allow_nan=False))
        return
    print("\n".join(lines(record)))
    if options.out is not None:
        print(f"record: {options.out}")


def _keep_full_record(out: Path, plan: Plan) -> None:
    """Raise `RltokError` before a full record would give way to a smaller one."""
    stored = json.loads(out.read_bytes()) if out.exists() else {}
    if stored.get("full") and plan.updates < FULL_UPDATES:
        raise RltokError(
            f"--out {out} holds a full record, which {plan.updates} updates would replace by a smaller one. Take --updates"
            f" {FULL_UPDATES} or more, or name another file."
        )


def _most_bytes(options: argparse.Namespace, config: Config) -> int | None:
    if options.max_bytes is not None or not is_hub(options.data):
        return options.max_bytes
    return round(HUB_UPDATES * config.bytes_per_update / (1 - config.data.held_out_fraction))


def lines(record: dict[str, Any]) -> list[str]:
    """A record as lines for a terminal."""
    arm, product, train = record["arm"], record["product"], record["config"]["train"]
    lines = [
        f"{record['preset']} on {record['device']}, {record['precision']}, {train['sequences_per_update']} rows an update"
        + ("" if record["full"] else f"; a full record has {FULL_UPDATES} updates or more"),
        *_arm_lines(arm),
        f"tokens per byte     {arm['tokens_per_byte']:.4f}",
        f"computation         {_pair(arm['flops_per_byte'], 1e6, 'MFLOP a byte')}",
        f"                    {_pair(arm['flops_per_second'], 1e12, 'TFLOP/s')}",
        f"of a large product  {_percent(arm['share_of_product'])}; that product of {product['size']} x {product['size']}"
        f" matrices in {product['dtype']} ran at {product['rate'] / 1e12:.3g} TFLOP/s just now",
    ]
    if arm["share_of_datasheet"] is not None:
        lines.append(f"of the datasheet    {_percent(arm['share_of_datasheet'])}")
    lines.append(f"compiled after the warm-up: {arm['compilations_after_warm_up']}")
    lines += ["one update, profiled:", *_split_lines(arm)]
    if record["plain"] is not None:
        lines += [*_arm_lines(record["plain"]), f"{arm['backend']} is {record['ratio']:.2f} times as fast as plain"]
    if record["policy_cost"] is not None:
        cost = record["policy_cost"]
        lines.append(
            f"cost of the policy  {cost['cost']:+.2%} of an update ({cost['interval'][0]:+.2%} to {cost['interval'][1]:+.2%},"
            f" {len(cost['repeats'])} repeats, confidence {cost['confidence']:.0%})"
        )
    return lines


def _arm_lines(arm: dict[str, Any]) -> list[str]:
    low, high = arm["quartiles"]
    peak = "" if arm["peak_memory_bytes"] is None else f", peak memory {arm['peak_memory_bytes'] / 1e9:.1f} GB"
    return [
        f"{arm['backend']:8s}{arm['bytes_per_second'] / 1e6:>10.4f} MB/s, quartiles {low / 1e6:.4f} to {high / 1e6:.4f},"
        f" {arm['updates']} update{'s' * (arm['updates'] > 1)} of {arm['micro_batch']} rows a pass{peak};"
        f" first update {arm['cold_start_seconds']:.1f} s"
    ]


def _split_lines(arm: dict[str, Any]) -> list[str]:
    """Groups of kernels that took time, large unknown ones by name, and on a card how long none ran in the median update."""
    split, whole = arm["time_split"], sum(arm["time_split"]["seconds"].values())
    lines = [f"  {group:24s}{split['shares'][group]:>7.1%}  {spent:.4f} s" for group, spent in split["seconds"].items() if spent]
    lines += [f"    other: {name}, {spent:.4f} s" for name, spent in split["other"].items() if spent > 0.01 * whole]
    if arm["peak_memory_bytes"] is not None:
        lines.append(f"  no kernel runs in {max(0.0, 1 - whole / statistics.median(arm['seconds'])):.1%} of a median update")
    return lines


def _pair(values: dict[str, float], unit: float, name: str) -> str:
    return f"{values['without_attention'] / unit:.4g} {name}, {values['with_attention'] / unit:.4g} with attention"


def _percent(values: dict[str, float]) -> str:
    return f"{values['without_attention']:.1%}, {values['with_attention']:.1%} with attention"
