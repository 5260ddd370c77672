"""The tables of the pixel-size page, without a database."""

from pathlib import Path

from django.template.loader import render_to_string

from jobs.shells import LocalShell
from runs.derive.audit import AuditRow
from runs.derive.tilts import count_tilts
from runs.derive.wedges import WedgeRow, wedges
from runs.pixels_page import PixelsPage
from runs.qc.tests.realdata import CRYOET, needs_real_files


def test_the_wedges_of_a_folder(tmp_path: Path) -> None:
    for series, text in {"TS_1": "-40.0\n0.0\n3.0\n60.0\n", "TS_2": "0.0\nodd\n"}.items():
        (tmp_path / "tiltstack" / series).mkdir(parents=True)
        (tmp_path / "tiltstack" / series / f"{series}.tlt").write_text(text)
    assert wedges(LocalShell(), str(tmp_path)) == [
        WedgeRow("TS_1", 4, 30, 50, "3"),
        WedgeRow("TS_2", 0, None, None, "", "line 2: 'odd' is no tilt angle in degrees"),
    ]


def test_tilts_that_do_not_match_are_told(tmp_path: Path) -> None:
    head = "data_\n\nloop_\n_wrpMovieName #1\n_wrpAngleTilt #2\n"
    files = {
        "tiltstack/TS_1/TS_1.tlt": b"-3.0\r\n0.0\r\n3.0\r\n",
        "tiltstack/TS_2/TS_2.tlt": b"0.0\n3.0\n",
        "tiltstack/TS_3/TS_3.tlt": b"0.0\n3.0\n",
        "tiltstack/TS_4/TS_4.tlt": "0.0\n3.0\n".encode("utf-16"),
        "tomostar/TS_1.tomostar": f"{head}a.mrc -3\nb.mrc 0\n".encode(),
        "tomostar/TS_2.tomostar": f"{head}a.mrc -3\nb.mrc 0\n".encode(),
        "tomostar/TS_3.tomostar": f"{head}a.mrc -3\nb.mrc\n".encode(),
    }
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    rows = {row.series: row for row in wedges(LocalShell(), str(tmp_path))}
    assert (rows["TS_1"].tilts, rows["TS_1"].angle1) == (3, 87)
    assert rows["TS_1"].problem == "3 angles in its .tlt file, and 2 tilts in tomostar/TS_1.tomostar"
    assert rows["TS_2"].problem == ""
    assert rows["TS_3"].problem == (
        "tomostar/TS_3.tomostar: line 7: 1 values, and its header names 2: the file is torn"
    )
    assert "not UTF-8 text" in rows["TS_4"].problem
    text = render_to_string("runs/_pixels.html", {"page": PixelsPage([], [rows["TS_1"]])})
    assert "3 angles in its .tlt file" in text and "87°" in text


@needs_real_files
def test_tilts_of_a_real_tomostar_are_counted() -> None:
    assert count_tilts((CRYOET / "warp/TS_1.tomostar").read_text()) == 41


def test_without_tilt_files_there_are_the_stated_angles(tmp_path: Path) -> None:
    assert [(row.angle1, row.angle2) for row in wedges(LocalShell(), str(tmp_path))] == [(40, 50)]


def test_disagreements_stand_out_and_problems_are_told() -> None:
    row = AuditRow("Tomogram", "a.mrc", "3.37", "ALIGN_ANGPIX", "13.48", "disagrees", "not binned")
    page = PixelsPage([("", [row]), ("alpha", [])], [WedgeRow("TS_1", 41, 30, 50, "3")], "the host is away")
    text = render_to_string("runs/_pixels.html", {"page": page})
    assert '<b class="odd">disagrees</b>' in text and "not binned" in text and "ALIGN_ANGPIX 13.48" in text
    assert "the host is away" in text and "30°" in text and "Species alpha" not in text
