"""The tables of the pixel-size page, without a database."""

from pathlib import Path

from django.template.loader import render_to_string

from jobs.shells import LocalShell
from runs.derive.audit import AuditRow
from runs.derive.wedges import WedgeRow, wedges
from runs.pixels_page import PixelsPage


def test_the_wedges_of_a_folder(tmp_path: Path) -> None:
    for series, text in {"TS_1": "-40.0\n0.0\n3.0\n60.0\n", "TS_2": "0.0\nodd\n"}.items():
        (tmp_path / "tiltstack" / series).mkdir(parents=True)
        (tmp_path / "tiltstack" / series / f"{series}.tlt").write_text(text)
    assert wedges(LocalShell(), str(tmp_path)) == [
        WedgeRow("TS_1", 4, 30, 50, "3"),
        WedgeRow("TS_2", 0, None, None, "", "line 2: 'odd' is no tilt angle in degrees"),
    ]


def test_without_tilt_files_there_are_the_stated_angles(tmp_path: Path) -> None:
    assert [(row.angle1, row.angle2) for row in wedges(LocalShell(), str(tmp_path))] == [(40, 50)]


def test_disagreements_stand_out_and_problems_are_told() -> None:
    row = AuditRow("Tomogram", "a.mrc", "3.37", "ALIGN_ANGPIX", "13.48", "disagrees", "not binned")
    page = PixelsPage([("", [row]), ("alpha", [])], [WedgeRow("TS_1", 41, 30, 50, "3")], "the host is away")
    text = render_to_string("runs/_pixels.html", {"page": page})
    assert '<b class="odd">disagrees</b>' in text and "not binned" in text and "ALIGN_ANGPIX 13.48" in text
    assert "the host is away" in text and "30°" in text and "Species alpha" not in text
