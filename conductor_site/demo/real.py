"""The check on a real tilt series: aligned and reconstructed through Conductor, then cross-validated."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

from conductor_site.demo.unattended import Passage
from conductor_site.env import env_text

SERIES = "HAADF"
# 3.36 nm pixels and an axis along the image's horizontal, as the data's description says; the header has neither.
CONF = {
    "SOURCE": "mrc",
    "SERIES_NAME": SERIES,
    "PIXEL_SIZE_ANGSTROM": "33.6",
    "SPECIMEN": "needle",
    "TILT_AXIS_DEG": "90",
    "TILT_AXIS_SEARCH_DEG": "5",
    "ALIGN_BIN": "2",
    "MAX_SHIFT_PX": "40",
    "TOMO_DIM_Z": "160",
}
# Pearson's correlation of left-out projections with their re-projections; the gain is over the unaligned series.
LEAST_AGREEMENT = 0.97
LEAST_GAIN = 0.05


@dataclass(frozen=True)
class Figure:
    """One measured value, the limit it is held against, and whether it holds."""

    name: str
    value: float
    limit: float
    ok: bool


def data_folder() -> Path:
    """Where the real tilt series lies: CONDUCTOR_REALDATA, else beside the project. SystemExit where it isn't there."""
    folder = Path(env_text("CONDUCTOR_REALDATA", str(settings.BASE_DIR.parent / "shared" / "realdata"))) / "haadf"
    if missing := [name for name in ("HAADF.mrc", "HAADF.rawtlt") if not (folder / name).exists()]:
        raise SystemExit(
            f"{folder} holds no {' and no '.join(missing)}. They come with the NIST package etspy (tests/test_data); "
            "set CONDUCTOR_REALDATA to the folder above haadf/."
        )
    return folder


def hold_against_limits(measured: dict[str, Any], passage: Passage) -> list[Figure]:
    """The cross-validation's figures with their limits: correlations of left-out projections with re-projections."""
    aligned, unaligned = measured["aligned_mean"], measured["unaligned_mean"]
    gain, gates = round(aligned - unaligned, 4), passage.keeper.decided
    lowest_wins = measured["aligned_lowest"] > measured["unaligned_lowest"]
    return [
        Figure("correlation_aligned", aligned, LEAST_AGREEMENT, aligned >= LEAST_AGREEMENT),
        Figure("correlation_unaligned", unaligned, aligned, unaligned < aligned),
        Figure("lowest_aligned", measured["aligned_lowest"], measured["unaligned_lowest"], lowest_wins),
        Figure("correlation_gain", gain, LEAST_GAIN, gain >= LEAST_GAIN),
        Figure("gates_decided", gates, 2, gates == 2),
    ]


def report_line(figures: list[Figure]) -> str:
    """One JSON object on one line."""
    return json.dumps({"figures": [asdict(figure) for figure in figures]})
