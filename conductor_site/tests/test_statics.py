"""A site whose static files were forgotten says so when it starts."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from conductor_site.statics import missing_static_files, tell_of_missing_static_files
from conductor_site.tests.stage import ROOT

OWN = {path.relative_to(ROOT / "static").as_posix() for path in (ROOT / "static").rglob("*") if path.is_file()}


@pytest.mark.parametrize("manifest", [None, "", "{}", '{"paths": {}}'])
def test_all_are_missing_where_nothing_was_collected(tmp_path: Path, settings: Any, manifest: str | None) -> None:
    settings.STATIC_ROOT = tmp_path
    if manifest is not None:
        (tmp_path / "staticfiles.json").write_text(manifest)
    assert set(missing_static_files()) == OWN


def test_one_that_came_with_an_upgrade_is_named(
    tmp_path: Path, settings: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("conductor_site"), "propagate", True)
    settings.STATIC_ROOT = tmp_path
    known = {name: name for name in OWN}
    (tmp_path / "staticfiles.json").write_text(json.dumps({"paths": known}))
    tell_of_missing_static_files()
    assert not caplog.records
    del known["icon.svg"]
    (tmp_path / "staticfiles.json").write_text(json.dumps({"paths": known}))
    tell_of_missing_static_files()
    assert [record.getMessage() for record in caplog.records] == [
        f"pages can't be shown (icon.svg not in {tmp_path}): run collectstatic"
    ]
