"""Phase 1 with real data: one tilt series from a stack and its raw tilt angles."""

from pathlib import Path

import numpy as np

from tomo import conf, files
from tomo.errors import TomoError


def run(work: Path) -> None:
    """Import STACK_MRC as one tilt series, tilts ascending and the stack's first percentile as zero.

    PIXEL_SIZE_ANGSTROM is taken from the conf, never from the header.
    """
    stack, rawtlt = Path(conf.text("STACK_MRC")), Path(conf.text("STACK_RAWTLT"))
    name = conf.text("SERIES_NAME", stack.stem)
    files.for_each(
        [name],
        lambda name: import_series(work, name, stack, rawtlt),
        "imported",
        output=lambda name: work / "tomostar" / f"{name}.tomostar",
        inputs=lambda name: [stack, rawtlt],
        values=("PIXEL_SIZE_ANGSTROM", "TILT_AXIS_DEG"),
    )


def import_series(work: Path, name: str, stack: Path, rawtlt: Path) -> str:
    """Write a stack as a tilt series."""
    images, header_apix = files.read_mrc(stack)
    angles = files.read_angles(rawtlt)
    if images.ndim != 3 or len(images) != len(angles):
        raise TomoError(f"{stack} has shape {images.shape}, but {rawtlt} has {len(angles)} tilt angles.")
    apix = conf.positive("PIXEL_SIZE_ANGSTROM")
    if abs(header_apix - apix) > 0.01 * apix:
        print(f"note: {stack.name}: its header says {header_apix:g} A/px; PIXEL_SIZE_ANGSTROM={apix:g} is used")
    order = np.argsort(angles, kind="stable")
    images = images[order] - np.percentile(images, 1)
    files.write_series(work, name, images, angles[order], apix, conf.number("TILT_AXIS_DEG", "0"))
    return f"{len(angles)} tilts of {images.shape[2]}x{images.shape[1]}, {apix:g} A/px"
