"""Write what our runs say of the paper in short, for README's and the book's first page, from the stored records.

python scripts/book/make_verdict.py

rewrites verdict.md, verdict.svg, and settings.md, by which the demo's model differs from the paper's; a test fails while they are
out of date.
"""

from pathlib import Path

from rltok.config import Config
from rltok.evidence import headline, measuring
from rltok.presets import preset
from rltok.show.tables import markdown

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "notebooks" / "results"
TEXT = ROOT / "book" / "_generated" / "verdict.md"
SETTINGS = ROOT / "book" / "_generated" / "settings.md"
PICTURE = ROOT / "book" / "_static" / "verdict.svg"


def _values(config: Config) -> list[str]:
    rule, objective = config.model.rule, config.objective
    assert objective.lambda_policy == objective.lambda_target
    values = config.train.learning_rate, rule.scale, objective.lambda_policy, objective.gamma, config.model.window
    return [f"{value:g}" for value in values]


def settings() -> str:
    """Markdown: what the preset of the demo changes of the paper's settings."""
    changes = {
        "highest learning rate": "everything is learned sooner",
        "divisor of the policy's logits ($D$)": "the policy moves sooner",
        "weights of two terms of the loss: the policy's reward, and how often it draws ($\\lambda_\\pi$, $\\lambda_{target}$)":
            "the policy moves sooner, and is held closer to the wanted number of boundaries",
        "discount: what a reward counts after each byte of delay ($\\gamma$)": "less variance, more bias",
        "bytes that a byte layer looks back": "only tokens carry what is further away",
    }  # fmt: skip
    paper, ours = _values(preset("147m")), _values(preset("tiny"))
    paper[3] = headline.discount()
    rows = [[what, theirs, own, why] for (what, why), theirs, own in zip(changes.items(), paper, ours, strict=True)]
    return markdown(["setting", "in the paper", "here", "what the change does"], rows)


def main() -> None:
    """Rewrite all three. The picture holds the digest of its data, by which a test knows whether it is of these records."""
    import matplotlib.pyplot as plt

    from rltok.show.plots import digest

    TEXT.write_text(headline.verdict(RESULTS) + "\n", encoding="utf-8")
    SETTINGS.write_text(settings() + "\n", encoding="utf-8")
    drawing = headline.figure(RESULTS)
    plt.rcParams.update({"svg.hashsalt": "rltok", "svg.fonttype": "path"})
    drawing.savefig(PICTURE, metadata={"Description": digest(drawing), "Date": None})


if __name__ == "__main__":
    measuring.run(main)
