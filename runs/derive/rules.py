"""The derived values of a cryo-ET pipeline: what each is computed from, how, and how it is rounded.

Lengths are in Angstrom, sizes in pixels (px) of the data that they are taken from.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from runs.derive.numbers import even_ceiling, next_multiple

FILL = Fraction(3, 4)  # a particle fills three quarters of its box
Given = Mapping[str, Fraction]


class NotDerivable(Exception):
    """The inputs can't be what they are; in words."""


@dataclass(frozen=True)
class Rule:
    """How `name` is derived. `inputs` are names of values; `tolerance` is the fraction by which it may be another."""

    name: str
    label: str
    unit: str
    formula: str
    inputs: tuple[str, ...]
    rounding: str
    compute: Callable[[Given], Fraction | int]
    tolerance: Fraction = Fraction(0)
    offer: Callable[[int], tuple[int, ...]] | None = None
    in_conf: bool = True  # a name of the conf files; else what a tool is told


def align_angpix(given: Given) -> Fraction:
    """Å, of the binned tomograms; binning is a positive whole number."""
    binning = given["BINNING_FACTOR"]
    if binning < 1 or binning.denominator != 1:
        raise NotDerivable("BINNING_FACTOR must be a positive whole number")
    return _positive(given, "ANGPIX") * binning


def tm_box_size(given: Given) -> int:
    """px of the binned tomograms."""
    return even_ceiling(_positive(given, "DIAMETER") / FILL / _positive(given, "ALIGN_ANGPIX"))


def subtomo_box_size(given: Given) -> int:
    """px of the exported subtomograms."""
    return even_ceiling(_positive(given, "DIAMETER") / FILL / _positive(given, "OUTPUT_ANGPIX"))


def mask_radius(given: Given) -> int:
    """px of the binned tomograms, halves upwards."""
    return int(_positive(given, "DIAMETER") / 2 / _positive(given, "ALIGN_ANGPIX") + Fraction(1, 2))


def templateres(given: Given) -> int:
    """px: the side of the volume that the network makes of a downsampled subtomogram."""
    return even_ceiling(_positive(given, "SUBTOMO_BOX_SIZE") * _positive(given, "DOWNSAMPLE_FRAC") / FILL)


def vol_z(given: Given) -> int:
    """px of the binned tomogram: AreTomo's -VolZ."""
    binning = _positive(given, "BINNING_FACTOR")
    return max(200, int(_positive(given, "TOMO_DIM_Z") // binning))


def align_z(given: Given) -> int:
    """px of the binned tomogram: AreTomo's -AlignZ."""
    return max(80, int(vol_z(given) * 40 // 100))


def output_angpix(given: Given) -> Fraction:
    """Å: never ANGPIX, since subtomograms are exported at OUTPUT_ANGPIX."""
    return _positive(given, "OUTPUT_ANGPIX")


def multiples(box: int) -> tuple[int, ...]:
    """Larger boxes that transform faster."""
    larger = next_multiple(box, 16)
    return (larger,) if larger != box else ()


def _positive(given: Given, name: str) -> Fraction:
    if given[name] <= 0:
        raise NotDerivable(f"{name} must be above 0")
    return given[name]


RULES = (
    Rule(
        "ALIGN_ANGPIX",
        "Pixel size of the tomograms",
        "Å",
        "ANGPIX x BINNING_FACTOR",
        ("ANGPIX", "BINNING_FACTOR"),
        "six decimals",
        align_angpix,
        tolerance=Fraction(1, 10**6),
    ),
    Rule(
        "TM_BOX_SIZE",
        "Box for template matching",
        "px",
        "DIAMETER / 0.75 / ALIGN_ANGPIX",
        ("DIAMETER", "ALIGN_ANGPIX"),
        "up to an even number",
        tm_box_size,
    ),
    Rule(
        "SUBTOMO_BOX_SIZE",
        "Box of a subtomogram",
        "px",
        "DIAMETER / 0.75 / OUTPUT_ANGPIX",
        ("DIAMETER", "OUTPUT_ANGPIX"),
        "up to an even number",
        subtomo_box_size,
        offer=multiples,
    ),
    Rule(
        "MASK_RADIUS",
        "Radius of the matching mask",
        "px",
        "DIAMETER / 2 / ALIGN_ANGPIX",
        ("DIAMETER", "ALIGN_ANGPIX"),
        "to the nearest, halves up",
        mask_radius,
    ),
    Rule(
        "TEMPLATERES",
        "Side of the network's volume",
        "px",
        "about SUBTOMO_BOX_SIZE x DOWNSAMPLE_FRAC / 0.75",
        ("SUBTOMO_BOX_SIZE", "DOWNSAMPLE_FRAC"),
        "up to an even number",
        templateres,
        tolerance=Fraction(1, 10),
    ),
    Rule(
        "VOL_Z",
        "AreTomo -VolZ",
        "px",
        "the larger of 200 and TOMO_DIM_Z / BINNING_FACTOR",
        ("TOMO_DIM_Z", "BINNING_FACTOR"),
        "down",
        vol_z,
        in_conf=False,
    ),
    Rule(
        "ALIGN_Z",
        "AreTomo -AlignZ",
        "px",
        "the larger of 80 and 40 % of VolZ",
        ("TOMO_DIM_Z", "BINNING_FACTOR"),
        "down",
        align_z,
        in_conf=False,
    ),
    Rule(
        "TRAINING_ANGPIX",
        "Training --angpix",
        "Å",
        "OUTPUT_ANGPIX, never ANGPIX",
        ("OUTPUT_ANGPIX",),
        "none",
        output_angpix,
        in_conf=False,
    ),
    Rule(
        "POSE_APIX",
        "Pose --Apix",
        "Å",
        "OUTPUT_ANGPIX, never ANGPIX",
        ("OUTPUT_ANGPIX",),
        "none",
        output_angpix,
        in_conf=False,
    ),
)
