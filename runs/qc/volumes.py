"""Reading MRC volumes as they are found in the field: irregular headers, odd modes, larger than memory."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from runs.qc.errors import BadInput

HEADER_BYTES = 1024
READABLE_MODES = (0, 1, 2, 6, 12)  # int8, int16, float32, uint16, float16
SLAB_BYTES = 32 * 2**20
PLAUSIBLE_ANGSTROM = (0.05, 1000.0)
PLACEHOLDER_ANGSTROM = 1.0  # written by programs that don't know the pixel size
DISAGREEMENT = 0.01

Plane = NDArray[np.float32]
ByteOrder = Literal["<", ">"]


@dataclass(frozen=True, kw_only=True)
class Volume:
    """A memory-mapped volume, axis order (z, y, x).

    `pixel_size_angstrom` is None where neither the header nor the caller knew it. `notes` say what was irregular.
    """

    path: Path
    data: NDArray[Any]
    pixel_size_angstrom: float | None
    notes: tuple[str, ...] = ()
    _map: mmap.mmap = field(repr=False)

    @property
    def dims(self) -> tuple[int, int, int]:
        """Size in voxels as (x, y, z)."""
        nz, ny, nx = self.data.shape
        return nx, ny, nz

    def slabs(self) -> Iterator[tuple[int, Plane]]:
        """Go through the volume once, in slabs of at most 32 MiB (or one slice): (first z, float32 array (z, y, x))."""
        nz, ny, nx = self.data.shape
        depth = max(1, SLAB_BYTES // (ny * nx * 4))
        for z in range(0, nz, depth):
            yield z, self.block(z, min(z + depth, nz))

    def block(self, start: int, stop: int) -> Plane:
        """Slices start..stop-1 along z as float32 in memory; the pages read are given back to the system."""
        values = np.array(self.data[start:stop], dtype=np.float32)
        if hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)
        return values

    def whole(self) -> Plane:
        """The whole volume as float32, for maps that fit into memory; refused where a voxel isn't finite."""
        values = self.block(0, self.data.shape[0])
        bad = int(values.size - np.isfinite(values).sum())
        if bad:
            raise BadInput(f"{self.path} holds {bad} voxels that are not finite numbers (NaN or infinity)")
        return values


def open_volume(path: Path, *, apix: float | None = None) -> Volume:
    """Open an MRC file permissively. `apix` (Å/px) fills in for a header that doesn't know its pixel size.

    Raises BadInput, naming the file, where it is missing, empty, truncated, compressed or not an MRC volume.
    """
    header, order, notes = _read_header(path)
    offset = HEADER_BYTES + int(header.nsymbt)
    dtype, shape = _layout(header, order, path)
    expected = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    present = path.stat().st_size - offset
    if present < expected:
        raise BadInput(
            f"{path} is truncated: its header promises {expected} bytes of voxels, {max(present, 0)} are there"
        )
    try:
        with path.open("rb") as handle:
            mapped = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise BadInput(f"{path} can't be mapped into memory: {error.strerror or error}") from error
    data = np.ndarray(shape, dtype=dtype, buffer=mapped, offset=offset)
    pixel_size, more = _pixel_size(header, apix, path.name)
    return Volume(path=path, data=data, pixel_size_angstrom=pixel_size, notes=(*notes, *more), _map=mapped)


def series_name(path: Path | str) -> str:
    """The tilt series that a file speaks of: `TS_001_10.00Apx.mrc`, `TS_001_ali.mrc`, `TS_001.tomostar` -> `TS_001`."""
    stem = re.sub(
        r"\.(mrcs?|map|rec|st|ali|tomostar|star|xml|json|tsv)$", "", Path(str(path)).name, flags=re.IGNORECASE
    )
    stem = re.sub(r"_\d+(\.\d+)?Apx(?=_|$)", "", stem, flags=re.IGNORECASE)
    return re.sub(r"_(ali|rec)$", "", stem) or stem


def _read_header(path: Path) -> tuple[Any, ByteOrder, list[str]]:
    from mrcfile.dtypes import HEADER_DTYPE

    try:
        with path.open("rb") as handle:
            raw = handle.read(HEADER_BYTES)
    except OSError as error:
        raise BadInput(f"{path} can't be read: {error.strerror or error}") from error
    if raw[:2] == b"\x1f\x8b" or raw[:3] == b"BZh":
        raise BadInput(f"{path} is compressed; unpack it first, since volumes are read in place")
    if len(raw) < HEADER_BYTES:
        raise BadInput(f"{path} is not an MRC file: it holds {len(raw)} bytes, a header alone takes {HEADER_BYTES}")
    order, notes = _byte_order(raw, path.name)
    return np.frombuffer(raw, dtype=HEADER_DTYPE.newbyteorder(order)).view(np.recarray)[0], order, notes


def _byte_order(raw: bytes, name: str) -> tuple[ByteOrder, list[str]]:
    """Byte order by machine stamp, else by which one gives a known mode; with notes on what is missing."""
    stamps: dict[bytes, ByteOrder] = {b"\x44\x44": "<", b"\x44\x41": "<", b"\x11\x11": ">"}
    notes = [] if raw[208:211] == b"MAP" else [f"{name}: irregular header (no MAP string), read all the same"]
    if raw[212:214] in stamps:
        return stamps[raw[212:214]], notes
    mode_little = int.from_bytes(raw[12:16], "little", signed=True)
    order: ByteOrder = "<" if mode_little in READABLE_MODES else ">"
    return order, [*notes, f"{name}: irregular header (no machine stamp), read as {_endian(order)}"]


def _endian(order: ByteOrder) -> str:
    return "little-endian" if order == "<" else "big-endian"


def _layout(header: Any, order: ByteOrder, path: Path) -> tuple[np.dtype[Any], tuple[int, int, int]]:
    mode, dims = int(header.mode), (int(header.nz), int(header.ny), int(header.nx))
    types = {0: "i1", 1: "i2", 2: "f4", 6: "u2", 12: "f2"}
    if mode not in types and (min(dims) < 1 or mode not in (3, 4, 101)):
        raise BadInput(
            f"{path} is not an MRC file: its header gives mode {mode} and {dims[2]}x{dims[1]}x{dims[0]} voxels"
        )
    if mode not in types:
        raise BadInput(f"{path} has MRC mode {mode}, which isn't read here; real volumes have mode 0, 1, 2, 6 or 12")
    if min(dims) < 1 or int(header.nsymbt) < 0:
        raise BadInput(f"{path} is empty or damaged: its header gives {dims[2]}x{dims[1]}x{dims[0]} voxels")
    return np.dtype(types[mode]).newbyteorder(order), dims


def _pixel_size(header: Any, apix: float | None, name: str) -> tuple[float | None, list[str]]:
    """Pixel size in Å: the header's where it is plausible, else the caller's; and what to say about it."""
    sizes = [
        _ratio(header.cella[axis], count) for axis, count in (("x", header.mx), ("y", header.my), ("z", header.mz))
    ]
    size = sizes[0]
    if not PLAUSIBLE_ANGSTROM[0] <= size <= PLAUSIBLE_ANGSTROM[1]:
        if apix is None:
            return None, [
                f"{name}: the header gives no usable pixel size ({size:g} Å) and none was given; units are px"
            ]
        return apix, [f"{name}: the header gives no usable pixel size ({size:g} Å); {apix:g} Å was given and is used"]
    if size == PLACEHOLDER_ANGSTROM:
        return _placeholder(apix, name)
    notes = []
    if apix is not None and abs(apix - size) > DISAGREEMENT * size:
        notes.append(
            f"{name}: the header says {size:.4g} Å/px, {apix:g} was given; the header's is used: check the binning"
        )
    if max(sizes[:2]) - min(sizes[:2]) > DISAGREEMENT * size:
        notes.append(f"{name}: the pixel size differs by axis ({sizes[0]:.4g}, {sizes[1]:.4g} Å); that of x is used")
    return float(f"{size:.7g}"), notes


def _placeholder(apix: float | None, name: str) -> tuple[float, list[str]]:
    if apix is None:
        return 1.0, [f"{name}: the header says exactly 1 Å/px, often a placeholder; give the pixel size if it is"]
    if abs(apix - 1.0) <= DISAGREEMENT:
        return 1.0, []
    return apix, [f"{name}: the header says exactly 1 Å/px, a placeholder; {apix:g} Å was given and is used"]


def _ratio(length: Any, count: Any) -> float:
    value = float(length) / int(count) if int(count) > 0 else 0.0
    return value if np.isfinite(value) else 0.0
