"""The site does not serve while its record could be changed."""

import importlib

import pytest

from record.errors import ConductorError
from record.tests.harness import lifted


@pytest.mark.django_db(transaction=True)
def test_the_site_starts_only_with_a_protected_record() -> None:
    from conductor_site import wsgi

    assert callable(wsgi.application)
    with lifted(), pytest.raises(ConductorError, match="not protected against changes"):
        importlib.reload(wsgi)
    importlib.reload(wsgi)
