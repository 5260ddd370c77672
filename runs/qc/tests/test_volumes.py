from __future__ import annotations

import numpy as np
import pytest

from runs.qc.errors import BadInput
from runs.qc.volumes import open_volume, series_name


@pytest.mark.parametrize("dtype", ["int8", "int16", "float32", "uint16", "float16"])
def test_every_mode_reads_back_what_was_written(write_mrc, dtype):
    values = np.arange(2 * 3 * 4).reshape(2, 3, 4).astype(dtype)
    volume = open_volume(write_mrc("a.mrc", values))
    assert volume.dims == (4, 3, 2)
    assert volume.pixel_size_angstrom == 10.0
    assert np.array_equal(volume.whole(), values.astype(np.float32))


def test_big_endian_is_read(tmp_path, write_mrc):
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    volume = open_volume(write_mrc("big.mrc", values.astype(">f4")))
    assert np.array_equal(volume.whole(), values)


def test_slabs_cover_the_volume_once(write_mrc, monkeypatch):
    monkeypatch.setattr("runs.qc.volumes.SLAB_BYTES", 3 * 4 * 4 * 4)
    values = np.random.default_rng(0).normal(size=(7, 4, 4)).astype(np.float32)
    slabs = list(open_volume(write_mrc("a.mrc", values)).slabs())
    assert [z for z, _ in slabs] == [0, 3, 6]
    assert np.array_equal(np.concatenate([slab for _, slab in slabs]), values)


def _cut(path):
    path.write_bytes(path.read_bytes()[:-50])


def _text(path):
    path.write_text("this is no map\n" * 500)


def _short(path):
    path.write_bytes(b"abc")


def _gzip(path):
    path.write_bytes(b"\x1f\x8b" + b"0" * 5000)


def _mode(path):
    raw = bytearray(path.read_bytes())
    raw[12:16] = (4).to_bytes(4, "little")
    path.write_bytes(raw)


def _no_slices(path):
    raw = bytearray(path.read_bytes())
    raw[8:12] = (0).to_bytes(4, "little")
    path.write_bytes(raw)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_cut, "is truncated: its header promises 96 bytes of voxels"),
        (_text, "is not an MRC file"),
        (_short, "is not an MRC file: it holds 3 bytes"),
        (_gzip, "is compressed"),
        (_mode, "MRC mode 4"),
        (_no_slices, "is empty or damaged"),
        (lambda path: path.unlink(), "can't be read: No such file"),
    ],
)
def test_a_bad_file_is_named_with_what_is_wrong(write_mrc, spoil, words):
    path = write_mrc("bad name.mrc", np.ones((2, 3, 4), np.float32))
    spoil(path)
    with pytest.raises(BadInput) as caught:
        open_volume(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_folder_is_no_volume(tmp_path):
    with pytest.raises(BadInput, match="can't be read"):
        open_volume(tmp_path)


@pytest.mark.parametrize(
    ("header", "given", "used", "words"),
    [
        (0.0, None, None, "units are px"),
        (0.0, 21.0, 21.0, "21 Å was given and is used"),
        (1.0, 21.0, 21.0, "placeholder"),
        (1.0, None, 1.0, "often a placeholder"),
        (9e9, 4.0, 4.0, "no usable pixel size"),
        (10.0, 10.05, 10.0, None),
        (10.0, 20.0, 10.0, "check the binning"),
    ],
)
def test_pixel_size(write_mrc, header, given, used, words):
    volume = open_volume(write_mrc("a.mrc", np.ones((2, 3, 4), np.float32), apix=header), apix=given)
    assert volume.pixel_size_angstrom == used
    assert (words in " ".join(volume.notes)) if words else not volume.notes


def test_irregular_headers_of_real_files(realdata):
    volume = open_volume(realdata / "PyTom" / "emd_5592_21A.mrc", apix=21)
    assert volume.dims == (20, 20, 20)
    assert volume.pixel_size_angstrom == 21
    assert any("no MAP string" in note for note in volume.notes)
    tilts = open_volume(realdata.parent / "haadf" / "HAADF.mrc", apix=33.6)
    assert tilts.dims == (256, 256, 77)
    assert open_volume(realdata / "derived" / "13pf_MT.mrc").data.dtype == np.float16


@pytest.mark.parametrize(
    ("name", "series"),
    [
        ("TS_001_10.00Apx.mrc", "TS_001"),
        ("a/b/TS_001_ali.mrc", "TS_001"),
        ("TS_1_13.48Apx_ali.mrc", "TS_1"),
        ("Unt_083.tomostar", "Unt_083"),
        ("lamella 2;x.rec", "lamella 2;x"),
        ("TS_001_rec.mrc", "TS_001"),
    ],
)
def test_series_name(name, series):
    assert series_name(name) == series
