"""Records of a variance ladder, as `rltok variance --out` writes them: what every seed measured at each stage of training."""

from typing import Any

from rltok.errors import RltokError


def stage_names(record: dict[str, Any]) -> list[str]:
    """Stages in the order of training."""
    return list(dict.fromkeys(stage["stage"] for stage in record["stages"]))


def at(record: dict[str, Any], stage: str) -> list[dict[str, Any]]:
    """What every seed measured at a stage."""
    return [one for one in record["stages"] if one["stage"] == stage]


def rows_of(record: dict[str, Any], stage: str, name: str, group: str = "policy") -> list[float | None]:
    """Rows needed for a cosine of 0.5, seed by seed; None is never."""
    measures_of = [one[group]["estimators"][name] for one in at(record, stage)]
    for measures in measures_of:
        if measures["limit"][0] is None:
            raise RltokError(f"{name} at stage {stage!r} is not resolved in this record. Measure more batches.")
    return [measures["rows_needed"][0] for measures in measures_of]
