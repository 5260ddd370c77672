"""Gates as pages: the evidence, the form beside it, and the decision."""

from uuid import UUID

from django.conf import settings
from django.http import FileResponse, Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from gates.models import Evidence, Gate
from record.access import visible

EVIDENCE_POLICY = "sandbox; default-src 'none'"


@require_safe
def detail(request: HttpRequest, pk: int) -> HttpResponse:
    """One gate (one iteration of it)."""
    gate = get_object_or_404(visible(Gate.objects.select_related("lab", "decision__statement"), request.user), pk=pk)
    return render(request, "gates/detail.html", {"gate": gate, "evidence": list(gate.evidence.all())})


@require_safe
def evidence(request: HttpRequest, pk: int, uuid: UUID) -> HttpResponseBase:
    """One piece of evidence, to those who may see its gate; never as active content."""
    rows = visible(Evidence.objects.filter(gate_id=pk), request.user, lab="gate__lab")
    piece = get_object_or_404(rows, uuid=uuid)
    etag = f'"{piece.sha256}"'
    if request.headers.get("If-None-Match") == etag:
        return _private(HttpResponse(status=304), etag)
    path = settings.EVIDENCE_ROOT / piece.sha256[:2] / piece.sha256
    if not path.exists():
        raise Http404("This piece of evidence is not in the store any more.")
    return _private(FileResponse(path.open("rb"), content_type=piece.media_type), etag)


def _private(response: HttpResponseBase, etag: str) -> HttpResponseBase:
    response.headers["ETag"] = etag
    response.headers["Cache-Control"] = "private, max-age=86400"
    response.headers["Content-Security-Policy"] = EVIDENCE_POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response
