"""Real files of the field, which are no part of the project: they lie beside it, else what needs them is left out."""

from pathlib import Path

import pytest

CRYOET = Path(__file__).resolve().parents[4] / "shared/realdata/cryoet"
REAL_MANIFEST = CRYOET / "opus-et-agent/manifest.yml"
needs_real_files = pytest.mark.skipif(not CRYOET.is_dir(), reason=f"the field's own files are not at {CRYOET}")
