"""Put a finished run into the package: its weights in bf16, what was run and measured, and the model card.

    python scripts/measure/ship_model.py demo runs/demo --training sample:train
    python scripts/measure/ship_model.py small-python runs/small-python --training corpora/python/train.parquet
    python scripts/measure/ship_model.py demo             # what is measured of stored weights, once more
    python scripts/measure/ship_model.py                  # the cards alone, from what is stored

Writes rltok/weights/NAME.safetensors, NAME.json and NAME.md. Words about a model stand in MODELS, numbers come from its record.
"""

import argparse
import contextlib
import hashlib
import io
import json
import re
import zlib
from pathlib import Path
from typing import Any

from rltok.cli.main import main as rltok
from rltok.data import documents
from rltok.explore import read
from rltok.explore.kinds import added, amount, by_themselves, each_byte
from rltok.runs.export import export
from rltok.runs.loading import load
from rltok.runs.shipped import FOLDER, facts_of, shipped_models, weights_of
from rltok.show.tables import markdown
from rltok.system.files import quoted, write_json

SCORED_BYTES = 131_072  # of the text that a model is scored on
PLACED_BYTES = 32_768  # of it, those whose boundaries are counted by kind of byte
DECIDED = 0.1  # nats a decision
PASSAGE, SAMPLED = 30, 16  # words; one in so many passages is looked for, by its first word
COLLECTION = (
    "The training split of our collection of English, {megabytes:.0f} MB from public repositories: an encyclopaedia, books up to"
    " about 1930, speech that was written down, laws and technical prose. Sources, authors and licences (public domain, CC0,"
    " CC BY, CC BY-SA, MIT, Apache-2.0, BSD-3-Clause, MPL-2.0) are listed in `book/texts.md`, which is also the credit that CC BY"
    " asks for. The collection itself is not in the repository."
)
SAMPLE = (
    "The training split of the bundled sample, {megabytes:.1f} MB of English in the public domain in the USA: openings of six"
    " books of before 1910, country profiles and presidential addresses. `rltok/data/SOURCES.md` lists them."
)
CODE = (
    "{megabytes:.0f} MB of Python: the standard library and installed packages under open licences, without copies, generated"
    " files and tables, as `scripts/measure/python_text.py corpora/python` collects them. The packages are listed below; their"
    " code is not in the repository."
)
NOVEL = {
    "example": "Where do tokens end?",
    "text": "sample:test",
    "scored": f"--data sample --split test --max-bytes {SCORED_BYTES}",
    "called": "bundled: *Pride and Prejudice*",
    "limits_of_scores": {"whitespace_share": (0.95, 1.0), "rate": (0.18, 0.22)},
}
# Of each model: what it is, and what a test asks of it: scores within limits, and shares of kinds of bytes with a boundary after
# them that bear out what `places` says, in which "{vowel} vowels" becomes "most vowels" or what else was counted. `text` names
# what it is scored on, by the options `scored`.
MODELS = {
    "demo": NOVEL | {
        "language": "English",
        "most_bytes": 1_000_000,
        "places": "It ends a token after {other white space} white space inside lines, {end of a line} ends of lines, {vowel}"
        " vowels and {other consonant} consonants beyond the first of a word.",
        "limits_of_places": {
            "end of a line": (0.4, 0.8), "other white space": (0.95, 1), "vowel": (0, 0.05),
            "first consonants of a word": (0, 0.05), "other consonant": (0, 0.05),
        },
        "recipe": "rltok train --preset tiny --data sample --device cpu --out runs/demo",
        "data": SAMPLE,
        "limits": "It is there to be looked at, and small enough for a web page. It has seen a few old books: it knows no facts,"
        " writes words that do not exist, and draws boundaries in other scripts and in code by chance.",
    },
    "small-english": NOVEL | {
        "language": "English",
        "most_bytes": 8_000_000,
        "places": "It ends a token after {end of a line} ends of lines, {other white space} other white space, {vowel} vowels and"
        " {other consonant} consonants. Which vowel it is decides, see below the table.",
        "limits_of_places": {
            "end of a line": (0.9, 1), "other white space": (0.9, 1), "vowel": (0.05, 0.2),
            "first consonants of a word": (0, 0.01), "other consonant": (0, 0.01),
        },
        "recipe": "rltok train --preset small_fast_policy --set model.embedding_dim=192 model.num_heads=3"
        " data.sequence_length=2048 data.cut=full_windows train.sequences_per_update=64 train.micro_batch=64"
        " train.learning_rate=3e-3 train.training_bytes=620000000 train.warmup_fraction=0.05 train.evaluate_rows=256"
        " train.checkpoint_every=500 train.keep_checkpoints=1 --data 'english-train-*.parquet'"
        " --validation english-validation.parquet --out runs/small-english",
        "data": COLLECTION,
        "limits": "It learned spelling and some grammar, not facts: what it writes means nothing. Text after about 1930 is a"
        " minority of what it read, and news, shops and forums are missing, so it carries the views of old books. Other novels of"
        " that age are in its training text: a modern text is harder for it than the first score says. It has seen next to no"
        " other language and little code, and its boundaries there show only that.",
    },
    "small-python": {
        "language": "Python code",
        "most_bytes": 4_000_000,
        "example": "for line in open(path): print(line)",
        "text": "tests/items/python.txt",
        "scored": f"--data tests/items/python.txt --max-bytes {SCORED_BYTES}",
        "called": "rltok's own code",
        # white space has fewer boundaries than chance gives, which is the rate: at ends of lines, and nowhere else
        "limits_of_scores": {"whitespace_share": (0.02, 0.15), "rate": (0.18, 0.25)},
        "places": "Most of its tokens end after a consonant. Which consonant it is decides, and for some of them their place in"
        " the word: see below the table. It ends tokens after {digit} digits, {closing bracket} closing brackets,"
        " {end of a line} ends of lines, {vowel} vowels and {other white space} other white space. Signs differ as letters do."
        " So its tokens are neither Python's tokens nor words. This was not expected: before the run, white space was asked to"
        " have a boundary more often than chance gives. Much white space in code is indentation, which is easy to predict;"
        " whether that is the reason was not tried, and another seed may settle elsewhere.",
        "limits_of_places": {
            "end of a line": (0.4, 0.8), "other white space": (0, 0.02), "vowel": (0, 0.05),
            "first consonants of a word": (0.45, 0.7), "other consonant": (0.2, 0.45), "digit": (0.95, 1),
            "closing bracket": (0.95, 1), "(": (0, 0.01), "[": (0.95, 1), "m": (0.75, 1), "r": (0, 0.05),
        },
        "recipe": "rltok train --preset small_fast_policy --set model.embedding_dim=128 model.num_heads=2 model.mid_layers=5"
        " data.sequence_length=2048 data.cut=full_windows train.sequences_per_update=64 train.micro_batch=64"
        " train.learning_rate=3e-3 train.training_bytes=400000000 train.warmup_fraction=0.05 train.evaluate_rows=256"
        " train.checkpoint_every=500 train.keep_checkpoints=1 --data corpora/python/train.parquet"
        " --validation corpora/python/validation.parquet --out runs/small-python",
        "data": CODE,
        "limits": "It learned the look of Python code: what it writes need not parse, and does nothing useful. Comments in other"
        " languages than English, other programming languages and prose are next to unknown to it. Whole packages were held out,"
        " but packages share idioms.",
    },
}  # fmt: skip


def scores_of(name: str, weights: Path) -> dict[str, Any]:
    """What `rltok evaluate` says of a file of weights on the held-out text of the model of that name."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert rltok(["evaluate", str(weights), *MODELS[name]["scored"].split(), "--device", "cpu", "--json"]) == 0
    return json.loads(out.getvalue())


def places_of(name: str, weights: Path) -> dict[str, dict[str, list[int]]]:
    """Of each byte of each kind at the beginning of that text: boundaries after it, and how often it is there."""
    model, text = load(weights).eval(), next(documents(MODELS[name]["text"])).text[:PLACED_BYTES]
    reading = read(model, text)
    found = each_byte(reading.data, reading.boundaries)
    return {kind: {sign: [*counts] for sign, counts in counted.items()} for kind, counted in found.items()}


def measured(name: str) -> dict[str, Any]:
    """What is measured of the stored weights of a model."""
    return {"scores": scores_of(name, weights_of(name)), "places": places_of(name, weights_of(name))}


def passages(text: bytes) -> set[bytes]:
    """Runs of PASSAGE words in a text, without case and signs, that begin with a word of a sample of all words."""
    words = re.findall(rb"[a-z]+", text.lower())
    chosen = (i for i, word in enumerate(words) if zlib.crc32(word) % SAMPLED == 0)
    return {b" ".join(words[i : i + PASSAGE]) for i in chosen if i + PASSAGE <= len(words)}


def overlap(name: str, training: str) -> dict[str, int]:
    """How many passages of the text that a model is scored on were looked for in its training text, and how many stand there."""
    scored = passages(next(documents(MODELS[name]["text"])).text[:SCORED_BYTES])
    found = set()
    for document in documents(training):
        found |= scored & passages(document.text)
    return {"words": PASSAGE, "passages": len(scored), "found": len(found)}


def ship(name: str, run: Path, training: str) -> None:
    """Write the three files of a model from the folder of its run, and the text that it was trained on."""
    record = json.loads((run / "record.json").read_text(encoding="utf-8"))
    weights = weights_of(name)
    weights.unlink(missing_ok=True)
    export(run, weights, bf16=True)
    facts = {
        "name": name,
        "language": MODELS[name]["language"],
        "parameters": sum(each.numel() for each in load(weights).parameters()),
        "precision": "bf16",
        "file_bytes": weights.stat().st_size,
        "sha256": hashlib.sha256(weights.read_bytes()).hexdigest(),
        "recipe": MODELS[name]["recipe"],
        "measured_by": f"rltok evaluate {name} {MODELS[name]['scored']}",
        **measured(name),
        "overlap": overlap(name, training),
        "record": record,
    }
    if (listed := Path(training).with_name("packages.json")).is_file():
        facts["packages"] = [each for each in json.loads(listed.read_text())["packages"] if each["split"] == "train"]
    write_json(FOLDER / f"{name}.json", facts)


def _score_lines(facts: dict[str, Any]) -> list[str]:
    own = facts["record"]["evaluation"]
    return [
        "| held-out text | bits per byte | boundaries per byte | white space with a boundary after it |",
        "| --- | --- | --- | --- |",
        *(
            f"| {text} | {each['bits_per_byte']:.3f} ± {each['standard_error']:.3f} | {each['rate']:.3f}"
            f" | {each['whitespace_share']:.1%} |"
            for text, each in ((MODELS[facts["name"]]["called"], facts["scores"]), ("validation rows of the run", own))
        ),
    ]


def _decided(record: dict[str, Any]) -> float:
    """The share of updates after which the entropy of the policy stayed below DECIDED."""
    undecided = [row["step"] for row in record["curve"] if row["policy_entropy"] >= DECIDED]
    return max(undecided, default=0) / record["updates"]


def _place_lines(facts: dict[str, Any]) -> list[str]:
    kinds = {kind: added(counts) for kind, counts in facts["places"].items()}
    whole = sum(drawn for drawn, _ in kinds.values())
    rows = [[kind, f"{there:,d}", f"{drawn / there:.1%}", f"{drawn / whole:.1%}"] for kind, (drawn, there) in kinds.items()]
    return [
        markdown(["byte", "how many", "with a boundary after it", "of all boundaries"], rows),
        "",
        *(f"{line}\n" for line in by_themselves(facts["places"])),
        f"First {PLACED_BYTES:,d} bytes of the text that is scored ({MODELS[facts['name']]['called']}), one draw. In training,"
        f" the policy's entropy was below {DECIDED} nats a decision from {_decided(facts['record']):.0%} of the updates on.",
    ]


def _package_lines(packages: list[dict[str, Any]]) -> list[str]:
    if not packages:
        return []
    rows = [[each["name"], each["version"], each["licence"], f"{each['bytes'] / 1e6:.2f}"] for each in packages]
    return [markdown(["package", "version", "licence", "MB"], rows), ""]


def card(facts: dict[str, Any]) -> str:
    """The model card."""
    name, record, words = facts["name"], facts["record"], MODELS[facts["name"]]
    config, sought, megabytes = record["config"], facts["overlap"], record["data"]["train"]["bytes"] / 1e6
    lines = [
        f"# {name}",
        "",
        f"A byte-level language model of {facts['parameters']:,d} parameters that learned where its tokens end, by reinforcement"
        f" as in arXiv 2602.13940, on {facts['language']}. Weights in {facts['precision']}, {facts['file_bytes']:,d} bytes.",
        "",
        f"    rltok show {name} {quoted(words['example'])}",
        "",
        f'In Python: `rltok.load("{name}")`. Neither needs a network. Files that this card names are those of the repository; a'
        " command that reads one runs in the root of a clone.",
        "",
        "## Scores",
        "",
        *_score_lines(facts),
        "",
        f"± is one standard error over rows. First the weights in this file: `{facts['measured_by']}`. Of {sought['passages']}"
        f" passages of {sought['words']} words that were looked for, {sought['found']} stand in the training text. Then the"
        f" run, before rounding, on its validation rows. Target rate {config['model']['rule']['target_rate']:g}, rows of"
        f" {config['data']['sequence_length']} bytes.",
        "",
        "## Where its tokens end",
        "",
        words["places"].format_map({kind: amount(added(counts)) for kind, counts in facts["places"].items()}),
        "",
        *_place_lines(facts),
        "",
        "## Recipe",
        "",
        f"    {facts['recipe']}",
        "",
        f"Commit {record['commit']}, seed {record['seed']}, {record['device']}, torch {record['versions']['torch']}:"
        f" {record['updates']:,d} updates, {record['bytes']:,d} bytes ({record['passes']:.2f} passes), {record['seconds']:,.0f}"
        f" seconds. Then `rltok export RUN {name}.safetensors --bf16`.",
        "",
        "## Data",
        "",
        words["data"].format(megabytes=megabytes),
        "",
        *_package_lines(facts.get("packages", [])),
        "## Limits",
        "",
        f"{words['limits']} Every number here is of one seed.",
        "",
        "## Licence",
        "",
        "The weights come under the MIT licence of the code. The texts they were trained on keep theirs.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="?", choices=sorted(MODELS))
    parser.add_argument("run", nargs="?", type=Path)
    parser.add_argument("--training", metavar="TEXT", help="what the run was trained on")
    options = parser.parse_args()
    if options.name is not None and options.run is None:
        write_json(FOLDER / f"{options.name}.json", facts_of(options.name) | measured(options.name))
    elif options.name is not None:
        ship(options.name, options.run, options.training)
    for name in shipped_models():
        (FOLDER / f"{name}.md").write_text(card(facts_of(name)), encoding="utf-8")
        print(f"{name}: {weights_of(name).stat().st_size} bytes")


if __name__ == "__main__":
    main()
