"""Reading and writing: MRC and STAR, whole or not at all; which tilt series to work on; progress."""

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import mrcfile
import numpy as np

from tomo import conf
from tomo.errors import TomoError
from tomo.geometry import euler_from_matrix, matrix_from_euler

if TYPE_CHECKING:
    import pandas

Item = TypeVar("Item")


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, sync it and rename it, so that `path` is never half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        write(temporary)
        with temporary.open("rb") as handle:
            os.fsync(handle.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole."""
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def write_mrc(path: Path, data: np.ndarray, pixel_size_angstrom: float, kind: str = "volume") -> None:
    """Write float32 data (z, y, x), or (n, z, y, x) for a stack of volumes, with its pixel size in Angstrom.

    `kind` is `volume` or `stack` (of images, the tilt series), which sets the header's space group.
    """

    def write(temporary: Path) -> None:
        with mrcfile.new(temporary, overwrite=True) as mrc:
            mrc.set_data(np.ascontiguousarray(data, dtype=np.float32))
            if kind == "stack":
                mrc.set_image_stack()
            mrc.voxel_size = pixel_size_angstrom

    write_whole(path, write)


def read_mrc(path: Path) -> tuple[np.ndarray, float]:
    """Return an MRC file's data as float32 and its pixel size in Angstrom (0 where the header has none).

    The file is read permissively, as microscopes write headers that break the format's rules; what mrcfile remarks
    on is printed.
    """
    if not path.is_file():
        raise TomoError(f"{path} is not there: run the phase that writes it first.")
    with warnings.catch_warnings(record=True) as remarks:
        warnings.simplefilter("always")
        try:
            with mrcfile.open(path, permissive=True) as mrc:
                data, size = mrc.data, float(mrc.voxel_size.x)
        except ValueError as error:
            raise TomoError(f"{path} can't be read as MRC: {error}") from None
    if data is None:
        raise TomoError(f"{path} can't be read as MRC: {'; '.join(str(r.message) for r in remarks)}")
    for remark in remarks:
        print(f"note: {path.name}: {remark.message}; read permissively")
    return np.asarray(data, dtype=np.float32), size


def write_star(path: Path, columns: Mapping[str, Sequence], block: str) -> None:
    """Write one table as a STAR file."""
    import pandas
    import starfile

    table = pandas.DataFrame(dict(columns))
    write_whole(path, lambda temporary: starfile.write({block: table}, temporary, overwrite=True))


def read_star(path: Path) -> "pandas.DataFrame":
    """Return the one table of a STAR file, which may have no rows."""
    import starfile

    if not path.is_file():
        raise TomoError(f"{path} is not there: run the phase that writes it first.")
    table = starfile.read(path, always_dict=True)
    return next(iter(table.values()))


def excluded(work: Path) -> set[str]:
    """Return the names of the tilt series that a person left out, from EXCLUDED_SERIES and excluded_series.txt."""
    listed = work / "excluded_series.txt"
    names = listed.read_text(encoding="utf-8").split() if listed.is_file() else []
    return {*names, *conf.words("EXCLUDED_SERIES")}


def series_names(work: Path) -> list[str]:
    """Return the tilt series to work on: TILT_SERIES, or all that were imported, less the excluded ones."""
    found = sorted(path.stem for path in (work / "tomostar").glob("*.tomostar"))
    wanted = conf.words("TILT_SERIES") or found
    if missing := sorted(set(wanted) - set(found)):
        raise TomoError(f"TILT_SERIES names {', '.join(missing)}, not among those imported: {', '.join(found)}.")
    left_out = excluded(work)
    names = [name for name in wanted if name not in left_out]
    if not names:
        raise TomoError(f"No tilt series to work on: {len(found)} imported, {len(left_out)} excluded.")
    return names


def stack_path(work: Path, name: str, suffix: str = ".mrc") -> Path:
    """Return the path of a tilt series' file: `.mrc`, `.rawtlt`, `_ali.mrc`, `.tlt`, `.xf`, `_align.json`."""
    return work / "tiltstack" / name / f"{name}{suffix}"


def tomogram_path(work: Path, name: str) -> Path:
    """Return the path of a tilt series' tomogram."""
    found = sorted((work / "reconstruction").glob(f"{name}_*Apx.mrc"))
    if not found:
        raise TomoError(f"reconstruction/{name}_*Apx.mrc is not there: reconstruct {name} first.")
    return found[0]


def read_angles(path: Path) -> np.ndarray:
    """Return the tilt angles in degrees of a .rawtlt or .tlt file."""
    if not path.is_file():
        raise TomoError(f"{path} is not there: run the phase that writes it first.")
    try:
        return np.array([float(word) for word in path.read_text(encoding="utf-8").split()])
    except ValueError as error:
        raise TomoError(f"{path} is not a list of tilt angles: {error}") from None


def bar(items: Iterable[Item], total: int, label: str) -> Iterator[Item]:
    """Yield the items, drawing a progress bar over one line at every fifth percent."""
    shown = -1
    for done, item in enumerate(items, start=1):
        yield item
        percent = 100 * done // total // 5 * 5
        if percent != shown:
            shown = percent
            filled = percent // 5
            print(f"\r{label} [{'#' * filled}{'.' * (20 - filled)}] {percent:3d} %", end="", flush=True)
    sys.stdout.write("\n")


def made_with(inputs: Iterable[Path], values: Iterable[str]) -> str:
    """Return a text that changes when an input file or one of the named conf values does."""
    rows = [f"{name}={os.environ.get(name, '').strip()}" for name in values]
    for path in inputs:
        if not path.is_file():
            raise TomoError(f"{path} is not there: run the phase that writes it first.")
        rows.append(f"{path.name} {path.stat().st_size} {path.stat().st_mtime_ns}")
    return "\n".join(rows) + "\n"


def for_each(
    names: list[str],
    step: Callable[[str], str],
    verb: str,
    *,
    output: Callable[[str], Path],
    inputs: Callable[[str], Iterable[Path]],
    values: Iterable[str],
    also: str = "",
) -> None:
    """Run `step` for each tilt series that is not done, and print one line for each with what it returned.

    A series is done when its output is there (as outputs are written whole, it is complete) and was made with these
    inputs and conf values (and `also`, a text), which a hidden file beside it tells. So a phase that was stopped goes
    on where it was, and one that is run again with other values does its work.
    """
    values = list(values)
    for index, name in enumerate(names, start=1):
        path, wanted = output(name), made_with(inputs(name), values) + also
        stamp = path.with_name(f".{path.name}.made_with")
        if path.is_file() and stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
            print(f"{name} {index}/{len(names)} {verb} already, kept", flush=True)
            continue
        said = step(name)
        write_text(stamp, wanted)
        print(f"{name} {index}/{len(names)} {verb} ({said})", flush=True)


def write_series(work: Path, name: str, images: np.ndarray, angles: np.ndarray, apix: float, axis_deg: float) -> None:
    """Write a tilt series: the stack, its raw tilt angles, and last the .tomostar by which other phases find it."""
    write_mrc(stack_path(work, name), images, apix, kind="stack")
    write_text(stack_path(work, name, ".rawtlt"), "".join(f"{a:8.2f}\n" for a in angles))
    columns = {
        "wrpMovieName": [f"../tiltstack/{name}/{name}.mrc" for _ in angles],
        "wrpAngleTilt": [f"{a:.2f}" for a in angles],
        "wrpAxisAngle": [f"{axis_deg:.3f}" for _ in angles],
        "wrpAverageIntensity": [f"{image.mean():.4f}" for image in images],
    }
    write_star(work / "tomostar" / f"{name}.tomostar", columns, block="")


def particle_columns(name: str, particles: list[dict]) -> dict[str, list]:
    """Return STAR columns of particles with `position` (x, y, z; pixels, the first voxel's centre is 0) and `matrix`.

    Where the particles have a `score` there is a column of it.
    """
    angles = [euler_from_matrix(particle["matrix"]) for particle in particles]
    columns: dict[str, list] = {"rlnTomoName": [name for _ in particles]}
    for index, axis in enumerate("XYZ"):
        columns[f"rlnCoordinate{axis}"] = [f"{particle['position'][index]:.3f}" for particle in particles]
    for index, angle in enumerate(("Rot", "Tilt", "Psi")):
        columns[f"rlnAngle{angle}"] = [f"{angles[row][index]:.3f}" for row in range(len(particles))]
    if particles and "score" in particles[0]:
        columns["rlnLCCmax"] = [f"{particle['score']:.4f}" for particle in particles]
    return columns


def particles_of(table: "pandas.DataFrame") -> list[dict]:
    """Return a particle table's rows as `name`, `position`, `matrix` and, where there is one, `score`."""
    rows = []
    for row in table.to_dict("records"):
        position = np.array([float(row[f"rlnCoordinate{axis}"]) for axis in "XYZ"])
        matrix = matrix_from_euler(*(float(row[f"rlnAngle{angle}"]) for angle in ("Rot", "Tilt", "Psi")))
        particle = {"name": row["rlnTomoName"], "position": position, "matrix": matrix}
        rows.append(particle | ({"score": float(row["rlnLCCmax"])} if "rlnLCCmax" in row else {}))
    return rows
