"""What can't be, or is not meant to be, among the values of a conf."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from runs.derive.graph import with_derived
from runs.derive.numbers import exact, shown

Numbers = Mapping[str, Fraction]


@dataclass(frozen=True)
class Finding:
    """What is wrong with `name`, in words. `refused`: nothing that uses it may start; else a person may mean it."""

    name: str
    names: tuple[str, ...]
    message: str
    refused: bool


@dataclass(frozen=True)
class Check:
    """`holds` over numbers that all of `names` have; `message` is filled with them."""

    name: str
    names: tuple[str, ...]
    holds: Callable[[Numbers], bool]
    message: str
    refused: bool = True


CHECKS = (
    Check(
        "BINNING_FACTOR",
        ("BINNING_FACTOR",),
        lambda n: n["BINNING_FACTOR"] >= 1 and n["BINNING_FACTOR"].denominator == 1,
        "BINNING_FACTOR is {BINNING_FACTOR}; it must be a positive whole number.",
    ),
    Check(
        "ANGPIX",
        ("ANGPIX",),
        lambda n: n["ANGPIX"] > 0,
        "ANGPIX is {ANGPIX} Å; a pixel size is above 0.",
    ),
    Check(
        "OUTPUT_ANGPIX",
        ("OUTPUT_ANGPIX", "ANGPIX"),
        lambda n: n["OUTPUT_ANGPIX"] >= n["ANGPIX"],
        "OUTPUT_ANGPIX is {OUTPUT_ANGPIX} Å, finer than the data's ANGPIX; at least {ANGPIX} Å is needed.",
    ),
    Check(
        "CTF_RANGE_MAX",
        ("CTF_RANGE_MAX", "ANGPIX"),
        lambda n: n["CTF_RANGE_MAX"] >= 2 * n["ANGPIX"],
        "CTF_RANGE_MAX is {CTF_RANGE_MAX} Å, beyond the Nyquist limit of {ANGPIX} Å pixels; give at least twice that. "
        "It is a resolution in Angstrom: a larger number is coarser.",
    ),
    Check(
        "MASK_RADIUS",
        ("MASK_RADIUS", "MASK_SIGMA", "TM_BOX_SIZE"),
        lambda n: n["MASK_RADIUS"] + n["MASK_SIGMA"] < n["TM_BOX_SIZE"] // 2,
        "MASK_RADIUS + MASK_SIGMA is {MASK_RADIUS} + {MASK_SIGMA} px, which does not fit into half of TM_BOX_SIZE "
        "({TM_BOX_SIZE} px): the mask would be cut off.",
    ),
    Check(
        "EXTRACT_MASK_RADIUS",
        ("EXTRACT_MASK_RADIUS", "MASK_RADIUS"),
        lambda n: n["EXTRACT_MASK_RADIUS"] > n["MASK_RADIUS"],
        "EXTRACT_MASK_RADIUS is {EXTRACT_MASK_RADIUS} px; it is meant to be larger than MASK_RADIUS ({MASK_RADIUS} px) "
        "so that one particle is not picked twice.",
        refused=False,
    ),
)


def findings(values: Mapping[str, str]) -> list[Finding]:
    """What is wrong with these values; a check whose values are not all there, or no numbers, says nothing."""
    known = with_derived(values)
    numbers = {name: number for name, text in known.items() if (number := exact(text)) is not None}
    return [_finding(check, numbers) for check in CHECKS if _applies(check, numbers) and not check.holds(numbers)]


def _applies(check: Check, numbers: Numbers) -> bool:
    return all(name in numbers for name in check.names)


def _finding(check: Check, numbers: Numbers) -> Finding:
    message = check.message.format(**{name: shown(numbers[name]) for name in check.names})
    return Finding(check.name, check.names, message, check.refused)
