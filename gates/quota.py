"""How much evidence a lab may keep."""

from typing import Any

from django.conf import settings
from django.db.models import Sum

from gates.models import Evidence
from record.models import Lab

GIB = 1024**3


def over_quota(lab: Lab, pieces: list[dict[str, Any]]) -> str:
    """Why these pieces (fields of Evidence rows) can't be kept as well, in words; "" where they can.

    Bytes that are shown at several gates count at each: what a lab has shown, not what its disk holds.
    """
    if not settings.EVIDENCE_QUOTA_GIB:
        return ""
    kept = Evidence.objects.filter(gate__lab=lab).aggregate(size=Sum("size_bytes"))["size"] or 0
    wanted = kept + sum(piece["size_bytes"] for piece in pieces)
    if wanted <= settings.EVIDENCE_QUOTA_GIB * GIB:
        return ""
    return (
        f"The evidence of lab {lab} would take {wanted / GIB:.2f} GiB; it may take {settings.EVIDENCE_QUOTA_GIB} GiB. "
        "Have what nothing was decided on cleared away (manage.py clean_evidence), or the limit raised "
        "(CONDUCTOR_EVIDENCE_QUOTA_GIB); then have it prepared again."
    )
