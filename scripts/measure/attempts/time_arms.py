"""Times each attempt at speed against the fast path as it is, by whole updates in turns, and checks that it computes the same.

    python time_arms.py --tree TREE --preset 147m --seconds 330 --out OUT [--data FILE]

TREE has the package `rltok` of the branch `speed`. OUT/PRESET.json is written after every round of turns. A parent process
starts the work in a child: where an arm takes the child down, for instance by an illegal access, the next child leaves it out.
"""

import argparse
import contextlib
import copy
import gc
import json
import os
import statistics
import subprocess
import sys
import time
import traceback
from functools import partial
from pathlib import Path

START = time.monotonic()


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tree", required=True)
    parser.add_argument("--preset", default="147m")
    parser.add_argument("--seconds", type=float, default=330)
    parser.add_argument("--sweep-seconds", type=float, default=75)
    parser.add_argument("--out", required=True)
    parser.add_argument("--data", help="any large file of text; else the sources of TREE")
    parser.add_argument("--arms", nargs="*", help="names of arms; all by default")
    parser.add_argument("--small", action="store_true", help="tiny sizes, to try the script itself")
    parser.add_argument("--child", action="store_true")
    return parser.parse_args()


def write(path, record):
    part = path.with_suffix(".part")
    part.write_text(json.dumps(record, indent=1))
    os.replace(part, path)


def parent(options):
    """Children, one after the other, until one gets through or the time is up."""
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    lost = out / f"{options.preset}.lost.json"
    write(lost, {})
    for attempt in range(4):
        left = options.seconds - (time.monotonic() - START)
        if left < 40:
            break
        given = [sys.executable, __file__, "--child", *sys.argv[1:], "--seconds", str(left)]
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = subprocess.run(given, timeout=left + 25).returncode
            if code == 0:
                break
            current = json.loads((out / f"{options.preset}.now.json").read_text())["arm"]
            names = json.loads(lost.read_text())
            names[current] = f"took its process down: exit {code}"
            write(lost, names)
            print(f"child {attempt} ended with {code} during {current!r}", flush=True)
            if current in ("start", "base"):
                break
    path = out / f"{options.preset}.json"
    if path.exists():
        table(json.loads(path.read_text()))


def table(record):
    print(f"\n{record['preset']} on {record['device']}: base {record['arms']['base'].get('median_ms')} ms, "
          f"{record['arms']['base'].get('megabytes_per_second')} MB/s; spread of base against itself {record.get('spread')}")
    for name, arm in record["arms"].items():
        parity = arm.get("parity", {})
        print(f"{name:14s} {arm.get('median_ms', '-')!s:>8} ms  {arm.get('gain_percent', '-')!s:>7} %  "
              f"{arm.get('gain_ms', '-')!s:>7} ms  rounds {arm.get('rounds', 0)!s:>3}  GB {arm.get('gigabytes', '-')!s:>5}  "
              f"parity {parity.get('ok')} (gradient {parity.get('gradient')}, of base {parity.get('gradient_of_base')}) "
              f"{(arm.get('error') or '')[-300:]}")


def child(options):
    """The work itself."""
    sys.path.insert(0, options.tree)
    import torch

    from rltok.config import with_settings
    from rltok.data import cut_documents
    from rltok.data.batches import Prefetcher, micro_batches
    from rltok.data.corpus import Corpus
    from rltok.data.documents import Document
    from rltok.device import autocast
    from rltok.estimator import advantages
    from rltok.kernels import attempts, backends
    from rltok.optim import make_optimizer
    from rltok.presets import preset
    from rltok.runs.models import new_model
    from rltok.speed.kernel_times import compilations, group_of
    from rltok.step import losses_of, train_step
    from rltok.system.stopwatch import stopwatch

    out, end = Path(options.out), START + options.seconds
    now, path = out / f"{options.preset}.now.json", out / f"{options.preset}.json"
    lost = json.loads((out / f"{options.preset}.lost.json").read_text())
    cuda = torch.cuda.is_available()
    device = torch.device("cuda" if cuda else "cpu")
    narrow = torch.bfloat16 if cuda else torch.float16
    if not cuda:
        os.environ["TRITON_INTERPRET"] = "1"
    write(now, {"arm": "start"})

    config = preset(options.preset)
    if options.small:
        config = with_settings(config, {
            "model.embedding_dim": 32, "model.num_heads": 1, "model.down_layers": 1, "model.mid_layers": 1, "model.up_layers": 1,
            "data.sequence_length": 96, "train.sequences_per_update": 4, "train.micro_batch": 2, "train.training_bytes": 100_000,
        })  # fmt: skip
    config = with_settings(config, {"train.warmup_fraction": 1.0, "train.warmup_start": 0.0})  # learning rate 0 at step 1
    if options.data:
        text = Path(options.data).read_bytes()[: 1 << 27]
    else:
        text = b"\n".join(file.read_bytes() for file in sorted(Path(options.tree).rglob("*")) if file.suffix in (".py", ".md", ".txt"))
    length, size = config.data.sequence_length, config.train.sequences_per_update
    text = (text * (1 + (size + 1) * length // len(text)))[: max(len(text), (size + 1) * length)].decode("utf-8", "replace").encode()
    rows = cut_documents([Document(text, "s", "0")], length, "full_windows", name="t")
    corpus = Corpus(rows, rows, None, {})

    model = new_model(config, device).train()
    optimizer = make_optimizer(model, config.train)
    names = list(attempts.NAMES)
    wanted = {"base": (), **{name: (name,) for name in names}, "launch": (), "all": tuple(names)}  # graphs of at most three arms fit on a card
    wanted |= {f"all but {name}": tuple(n for n in names if n != name) for name in ("graphs", "stream")}
    if options.arms:
        wanted = {name: wanted[name] for name in ("base", *options.arms) if name in wanted}
    record = {
        "preset": options.preset, "device": torch.cuda.get_device_name() if cuda else "CPU", "torch": torch.__version__,
        "bytes_an_update": size * length, "attempts": attempts.NAMES, "data": options.data or "sources of the package",
        "arms": {name: {"attempts": list(taken)} for name, taken in wanted.items()},
    }  # fmt: skip
    for name, why in lost.items():
        record["arms"].setdefault(name, {})["error"] = why
    live = [name for name in wanted if name not in lost]

    # ------------------------------------------------------------------ launch shapes
    tuned = {}
    if {"launch", "all"} & set(live) and cuda and "launch" not in lost:
        write(now, {"arm": "launch"})
        sys.path.insert(0, str(Path(__file__).parent))
        import sweep

        until = min(time.monotonic() + options.sweep_seconds, end - 150)
        try:
            record["sweep"], tuned = sweep.best(config, until, out / "launch.json", out / f"{options.preset}.sweep.json")
        except Exception:
            record["sweep"] = {"error": traceback.format_exc()}
        torch.cuda.synchronize()  # an error that stays ends this process; the next one leaves the sweep out
    if not tuned:
        live = [name for name in live if name != "launch"]
        record["arms"].get("launch", {}).setdefault("error", "no shape was faster than those of now, or the sweep failed")
    write(path, record)

    @contextlib.contextmanager
    def as_arm(name):
        import importlib

        before = []
        if name.split()[0] in ("launch", "all"):
            for where, settings in tuned.items():
                module, attribute = where.split(":")
                table = getattr(importlib.import_module(f"rltok.kernels.{module}"), attribute)
                before.append((table, dict(table)))
                table.clear()
                table.update(settings)
        try:
            with attempts.trying(*wanted[name]), backends.use("triton"):
                yield
        finally:
            for table, settings in before:
                table.clear()
                table.update(settings)

    def failed(name):
        record["arms"][name]["error"] = traceback.format_exc()[-3000:]
        live.remove(name)
        write(path, record)
        print(f"{name}: {traceback.format_exc()[-600:]}", flush=True)
        if cuda:
            torch.cuda.synchronize()  # an error that stays ends this process, and the next one goes on without the arm

    # ------------------------------------------------------------------ parity
    few = 4 if not options.small else 2
    ids = corpus.train.ids(list(range(few))).to(device)
    boundaries = torch.rand(few, length, generator=torch.Generator().manual_seed(0)).lt(0.2)
    boundaries[:, 0] = True
    boundaries = boundaries.to(device)

    def one_pass(name):
        dtype = torch.float64 if name == "float64" else torch.float32
        own = copy.deepcopy(model).to(dtype)
        narrowed = contextlib.nullcontext() if dtype == torch.float64 else torch.autocast(device.type, narrow)
        context = backends.use("plain") if name in ("float64", "plain") else as_arm(name)
        with context:
            with narrowed:
                result = own(ids, boundaries=boundaries)
            paid = advantages(result.nll, result.early_nll, result.scored, **config.objective.reductions)
            losses_of(result, paid, config.model.rule.target_rate).total(**config.objective.weights).backward()
        made = {"nll": result.nll.detach().double().cpu(), "early_nll": result.early_nll.detach().double().cpu()}
        return made, {key: weight.grad.double().cpu() for key, weight in own.named_parameters()}

    def distance(actual, exact):
        losses = {key: float((actual[0][key] - value).norm() / value.norm()) for key, value in exact[0].items()}
        each = {key: (float((actual[1][key] - value).norm()), float(value.norm())) for key, value in exact[1].items()}
        whole = (sum(a * a for a, _ in each.values()) / sum(b * b for _, b in each.values())) ** 0.5
        worst = max(each, key=lambda key: each[key][0] / max(each[key][1], 1e-12))
        return losses | {"gradient": whole, "worst": each[worst][0] / max(each[worst][1], 1e-12), "worst_parameter": worst}

    def shifted(name):
        """Weights after one update at a real learning rate, minus the weights before."""
        own = copy.deepcopy(model)
        moving = with_settings(config, {"train.warmup_fraction": 0.0})
        with as_arm(name):
            own_optimizer = make_optimizer(own, moving.train)
            train_step(own, own_optimizer, micro_batches(corpus, moving, 1, device)[:1], moving, 1)
        return torch.cat([(a - b).detach().flatten().double().cpu() for a, b in zip(own.parameters(), model.parameters(), strict=True)])

    print(f"{time.monotonic() - START:.0f} s: parity", flush=True)
    exact, base_distance, moved = one_pass("float64"), None, None
    record["plain_distance"] = distance(one_pass("plain"), exact)
    for name in list(live):
        write(now, {"arm": name})
        try:
            found = distance(one_pass(name), exact)
            base_distance = base_distance or found
            step = shifted(name)
            moved = step if moved is None else moved
            if name == "base":
                record["base_step_twice"] = float((shifted("base") - moved).norm() / moved.norm())
            keys = ("nll", "early_nll", "gradient", "worst")
            ok = all(found[key] < 1.5 * max(base_distance[key], record["plain_distance"][key]) for key in keys)
            record["arms"][name]["parity"] = {key: round(value, 6) if isinstance(value, float) else value for key, value in found.items()} | {
                "gradient_of_base": round(base_distance["gradient"], 6), "ok": ok,
                "step_against_base": float((step - moved).norm() / moved.norm()),
            }  # fmt: skip
        except Exception:
            if name == "base":
                raise
            failed(name)
        write(path, record)
    del exact, moved
    gc.collect()  # graphs of models that are gone
    if cuda:
        torch.cuda.empty_cache()

    # ------------------------------------------------------------------ turns
    class Arm:
        def __init__(self, name):
            self.name, self.seconds, self.number = name, {}, 0
            self.model, self.optimizer = model, optimizer
            if "graphs" in wanted[name]:  # what was captured belongs to a model
                self.model = copy.deepcopy(model)
                self.optimizer = make_optimizer(self.model, config.train)
            self.batches = Prefetcher(corpus, config, device, 1 << 30)

        def update(self):
            step = partial(train_step, after_backward=self.batches.prepare)
            return step(self.model, self.optimizer, self.batches(self.number), config, 1)

        def timed(self):
            self.number += 1
            with as_arm(self.name):
                return stopwatch(self.update, device)[0]

    arms = {}
    for name in list(live):
        write(now, {"arm": name})
        try:
            if cuda:
                torch.cuda.reset_peak_memory_stats()
            arm = Arm(name)
            record["arms"][name]["warm_up_ms"] = [round(1e3 * arm.timed(), 1) for _ in range(3)]
            if cuda:
                record["arms"][name]["gigabytes"] = round(torch.cuda.max_memory_allocated() / 1e9, 1)
            arms[name] = arm
        except Exception:
            failed(name)
        write(path, record)
        print(f"{time.monotonic() - START:.0f} s: {name} {record['arms'][name].get('warm_up_ms')}", flush=True)

    def summary():
        base = arms["base"].seconds
        for name, arm in arms.items():
            if not arm.seconds:
                continue
            middle = statistics.median(arm.seconds.values())
            ratios = [arm.seconds[n] / base[n] for n in arm.seconds if n in base]
            ratio = statistics.median(ratios)
            record["arms"][name] |= {
                "rounds": len(arm.seconds), "median_ms": round(1e3 * middle, 2), "ratio": round(ratio, 5),
                "gain_percent": round(100 * (1 - ratio), 2), "gain_ms": round(1e3 * (1 - ratio) * statistics.median(base.values()), 2),
                "megabytes_per_second": round(size * length / middle / 1e6, 4), "seconds": [round(s, 5) for s in arm.seconds.values()],
                "quartiles_of_ratio": [round(q, 5) for q in statistics.quantiles(ratios, n=4)[::2]] if len(ratios) > 1 else None,
            }  # fmt: skip
        twice = list(base.values())
        if len(twice) > 3:
            record["spread"] = round(statistics.median(twice[::2]) / statistics.median(twice[1::2]) - 1, 5)

    built, round_number = compilations() if cuda else 0, 0
    profiles = 8 + 3.0 * len(arms) if cuda else 0
    while time.monotonic() < end - profiles and round_number < (200 if cuda else 2):
        order = list(arms) if round_number % 2 == 0 else list(reversed(arms))
        for name in order:
            write(now, {"arm": name})
            try:
                arms[name].seconds[round_number] = arms[name].timed()
            except Exception:
                if name == "base":
                    raise
                failed(name)
                del arms[name]
        round_number += 1
        summary()
        write(path, record)
    record["compilations_in_turns"] = (compilations() if cuda else 0) - built
    write(path, record)

    # ------------------------------------------------------------------ where the time goes
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    for name, arm in arms.items():
        if not cuda or time.monotonic() > end - 4:
            break
        write(now, {"arm": name})
        try:
            arm.number += 1
            with as_arm(name), profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
                stopwatch(arm.update, device)
            groups, kernels = {}, []
            for event in profiled.key_averages():
                if event.device_type == DeviceType.CUDA and not getattr(event, "is_user_annotation", False):
                    spent = event.self_device_time_total / 1e3
                    groups[group_of(event.key)] = round(groups.get(group_of(event.key), 0) + spent, 3)
                    kernels.append([round(spent, 3), event.count, event.key[:110]])
            kernels.sort(reverse=True)
            busy = sum(groups.values())
            record["arms"][name]["profile"] = {
                "groups_ms": groups, "kernels_ms": round(busy, 2), "launches": sum(k[1] for k in kernels),
                "no_kernel_ms": round(record["arms"][name]["median_ms"] - busy, 2), "largest": kernels[:45],
            }  # fmt: skip
        except Exception:
            record["arms"][name]["profile"] = {"error": traceback.format_exc()[-1500:]}
        write(path, record)
    print(f"{time.monotonic() - START:.0f} s: done, {round_number} rounds", flush=True)


if __name__ == "__main__":
    chosen = arguments()
    child(chosen) if chosen.child else parent(chosen)
