"""What files state as their pixel size, and how it compares with the conf."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.shells import LocalShell
from runs.derive.audit import AuditRow, audit, disagreements, judge
from runs.derive.pixels import Unstated, mdoc_sizes, mrc_sizes, star_sizes, warp_xml_sizes
from runs.qc.tests.realdata import CRYOET, needs_real_files

CONF = {"ANGPIX": "3.37", "BINNING_FACTOR": "4", "OUTPUT_ANGPIX": "4.2", "TM_LABEL": "ribosome", "WORK_DIR": ""}
MDOC = "PixelSpacing = {size}\nImageFile = TS_01.mrc\n\n[ZValue = 0]\nTiltAngle = 0.0\nPixelSpacing = {size}\n"
PARAM = '<Param Name="PixelSize" Value="{size}" />'
XML = f'<?xml version="1.0" encoding="{{encoding}}"?>\n<TiltSeries><CTF>{PARAM}</CTF></TiltSeries>'
STAR = """
data_optics

loop_
_rlnOpticsGroup #1
_rlnTomoTiltSeriesPixelSize #2
_rlnImagePixelSize #3
1 {raw} {image}
2 {raw} {image}
"""


def header(size: float, grid: int = 16) -> bytes:
    """The first bytes of an MRC file: a grid of voxels of this size in Angstrom."""
    data = bytearray(1024)
    struct.pack_into("<10i", data, 0, grid, grid, grid, 2, 0, 0, 0, grid, grid, grid)
    struct.pack_into("<3f", data, 40, *[size * grid] * 3)
    data[208:216] = b"MAP \x44\x44\x00\x00"
    return bytes(data)


def test_readers_find_what_is_stated() -> None:
    assert mdoc_sizes(MDOC.format(size=3.37).encode()) == [3.37]
    assert warp_xml_sizes(XML.format(encoding="utf-8", size=3.37).encode("utf-8-sig")) == [3.37]
    assert mrc_sizes(header(13.48)) == [pytest.approx(13.48)]
    star = STAR.format(raw=3.37, image=4.2).encode()
    assert star_sizes("rlnTomoTiltSeriesPixelSize")(star) == [3.37]
    assert star_sizes("rlnImagePixelSize")(star) == [4.2]
    assert star_sizes("rlnNoSuchColumn")(star) == []


def test_xml_in_utf_16_is_read() -> None:
    text = XML.format(encoding="utf-16", size=3.37)
    assert warp_xml_sizes(text.encode("utf-16")) == [3.37]


@pytest.mark.parametrize(
    ("read", "data", "told"),
    [
        (mdoc_sizes, "PixelSpacing = 3.37".encode("utf-16"), "UTF-8"),
        (mdoc_sizes, b"PixelSpacing = wide\n", "no number"),
        (warp_xml_sizes, b"no xml", "no XML"),
        (warp_xml_sizes, XML.format(encoding="utf-8", size=2).encode()[:-3], "no XML"),
        (warp_xml_sizes, b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "document type"),
        (mrc_sizes, b"\0" * 100, "less than the 1024"),
        (mrc_sizes, b"\xff" * 1024, "no MRC"),
    ],
)
def test_what_is_no_such_file_is_said(read: Callable[[bytes], list[float]], data: bytes, told: str) -> None:
    with pytest.raises(Unstated, match=told):
        read(data)


@pytest.mark.parametrize(
    ("stated", "expected", "is_header", "verdict"),
    [
        (13.48, 13.48, True, "agrees"),
        (13.54, 13.48, True, "agrees"),
        (13.55, 13.48, True, "disagrees"),
        (12.0024, 12.0, True, "agrees"),
        (0.0, 13.48, True, "unset"),
        (1.0, 13.48, True, "unset"),
        (1.0, 13.48, False, "disagrees"),
        (5.4, None, False, "unchecked"),
    ],
)
def test_half_a_percent_is_allowed(stated: float, expected: float | None, is_header: bool, verdict: str) -> None:
    assert judge(stated, expected, is_header=is_header) == verdict


def lay_out(folder: Path, files: dict[str, bytes]) -> list[AuditRow]:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return audit(LocalShell(), str(folder), CONF | {"WORK_DIR": str(folder)})


def test_the_table_of_a_run(tmp_path: Path) -> None:
    rows = lay_out(
        tmp_path,
        {
            "mdoc/TS_1.mdoc": MDOC.format(size=3.37).encode(),
            "warp_tiltseries/TS_1.xml": XML.format(encoding="utf-8", size=3.37).encode(),
            "warp_tiltseries/reconstruction/TS_1.mrc": header(3.37),
            "warp_tiltseries/ribosome_matching.star": STAR.format(raw=3.37, image=4.2).encode(),
            "templates/ribosome_tm.mrc": header(1.0),
            "templates/ribosome_mask.mrc": header(0.0),
            "templates/other_tm.mrc": header(5.0),
        },
    )
    assert {(row.source, row.stated, row.expected, row.verdict) for row in rows} == {
        ("conf", "3.37", "3.37", "unchecked"),
        ("conf", "13.48", "13.48", "unchecked"),
        ("conf", "4.2", "4.2", "unchecked"),
        ("mdoc", "3.37", "3.37", "agrees"),
        ("WARP, tilt series", "3.37", "3.37", "agrees"),
        ("Tomogram", "3.37", "13.48", "disagrees"),
        ("STAR, tilt images", "3.37", "3.37", "agrees"),
        ("STAR, subtomograms", "4.2", "4.2", "agrees"),
        ("Template", "unset", "13.48", "unset"),
        ("Mask", "unset", "13.48", "unset"),
    }
    assert [(row.source, row.note) for row in disagreements(rows)] == [
        ("Tomogram", "it would be right if it were not binned (BINNING_FACTOR 4)")
    ]


def test_a_file_that_cant_be_read_is_a_row_that_says_so(tmp_path: Path) -> None:
    rows = lay_out(tmp_path, {"warp_tiltseries/TS_1.xml": b"torn"})
    assert [(row.source, row.verdict) for row in disagreements(rows)] == [("WARP, tilt series", "unreadable")]


@needs_real_files
@pytest.mark.parametrize(
    ("name", "read", "sizes"),
    [
        ("mdocfile/tilt_series.mdoc", mdoc_sizes, [5.4]),
        ("warpylib/TS_1.xml", warp_xml_sizes, [0.834]),
        ("warpylib/00254.xml", warp_xml_sizes, [1.0]),
        ("mrcfile/EMD-3197.map", mrc_sizes, [11.4]),
        ("PyTom/emd_5592_21A.mrc", mrc_sizes, [1.0]),
        ("PyTom/mask_20_8_1.mrc", mrc_sizes, [0.0]),
        ("cryoCAT/tilt_stack.mrc", mrc_sizes, [0.0]),
        ("tomodrgn/warptools_test_box-32_angpix-12_reconstruct.mrc", mrc_sizes, [12.0024]),
        ("tomodrgn/warptools_test_4-tomos_10-ptcls_box-32_angpix-12.star", star_sizes("rlnImagePixelSize"), [12.0]),
        ("pytom-match-pick/tomograms.star", star_sizes("rlnTomoTiltSeriesPixelSize"), [1.724]),
    ],
)
def test_files_of_the_field(name: str, read: Callable[[bytes], list[float]], sizes: list[float]) -> None:
    assert read((CRYOET / name).read_bytes()) == pytest.approx(sizes, rel=1e-5)
