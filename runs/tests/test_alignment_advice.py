"""The alignment gate asks about each tomogram, with its own figures and pictures, and real programs answer."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from gates.models import Evidence, Gate
from gates.protocols import protocol_for
from gates.services import ask_at_gate
from gates.store import put
from jobs.agents.models import Agent, Ask
from record.models import Decision
from runs.models import TiltSeries
from runs.tests.factories import Bench, phase_of

FIGURES = {
    "01_slices": {
        "series": {
            "TS_001": {"verdict": "good", "reason": "nothing stands out", "residual_px": 0.2},
            "TS_002": {"verdict": "bad", "reason": "high residual", "residual_px": 7.5},
        }
    }
}
# The least that passes for a PNG: a head that says 1 x 1 pixels, and an end.
PICTURE = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\x0dIHDR" + b"\0\0\0\1\0\0\0\1\x08\0\0\0\0" + b"\0" * 12 + b"IEND\xaeB\x60\x82"
# Reads the residual out of the prompt, and counts the pictures that lie beside it.
LOOKER = r"""
import json, os, re, sys
prompt = sys.stdin.read()
residual = float(re.search(r"\| residual, px: ([\d.]+)", prompt)[1])
seen = sorted(os.listdir("."))
print(json.dumps({"status": "ok", "verdict": "bad" if residual > 5 else "good", "reason": f"{residual} px, {seen}"}))
"""


@pytest.fixture
def gate(bench: Bench, settings: Any, tmp_path: Path) -> Gate:
    """An open alignment gate over two tilt series, with a picture of each."""
    settings.AGENT_OUTPUT_ROOT = tmp_path / "outputs"
    run = bench.begin()
    for name in ("TS_001", "TS_002"):
        TiltSeries.objects.get_or_create(run=run, name=name)
    phase = phase_of(run, "2")
    gate = Gate(
        lab=run.lab, subject_kind="phase", subject_uuid=phase.uuid, root_uuid=run.uuid, key="alignment",
        protocol="alignment_qc", title="Alignment", context="first, Reconstruct", state="open", digest="d" * 64,
        opened_at=timezone.now(), figures=FIGURES,
    )  # fmt: skip
    gate.suggestion = protocol_for(gate).suggest(gate, FIGURES)
    gate.save()
    for name in ("TS_001", "TS_002"):
        stored = put(PICTURE, name="central.png", kind="image")
        Evidence.objects.create(
            gate=gate, name=f"01_slices/{name}/central.png", kind="image", item=name, media_type=stored.media_type,
            sha256=stored.sha256, size_bytes=stored.size_bytes,
        )  # fmt: skip
    return gate


def test_one_agent_a_tomogram(bench: Bench, gate: Gate, client: Client) -> None:
    agent = Agent.objects.create(
        lab=bench.lab, name="looker", role="looks", backend="command", family="script",
        configuration={"command": ["/usr/bin/env", "python3", "-c", LOOKER]}, isolation="none",
    )  # fmt: skip
    asks = ask_at_gate(gate_id=gate.pk, agent_id=agent.pk, author=bench.reviewer)
    assert [ask.item for ask in asks] == ["TS_001", "TS_002"]
    assert "nothing stands out" not in asks[0].prompt, "it is not told what is suggested"
    bench.run_jobs()

    found = {ask.item: ask for ask in Ask.objects.all()}
    assert {name: (ask.state, ask.verdict) for name, ask in found.items()} == {
        "TS_001": ("ok", "good"), "TS_002": ("ok", "bad"),
    }, [ask.why for ask in found.values()]  # fmt: skip
    assert found["TS_002"].reason == "7.5 px, ['01_slices_TS_002_central.png']", "its own picture alone"
    gate.refresh_from_db()
    assert gate.state == "open" and not Decision.objects.exists()

    client.force_login(bench.people.reviewer)
    shown = client.get(f"/gates/{gate.pk}/").content.decode()
    assert shown.count("advises bad") == 1 and "7.5 px" in shown and "not isolated" in shown
    told = client.get(f"/api/v1/gates/{gate.pk}/").json()
    assert {each["item"]: each["result"]["verdict"] for each in told["advice"]} == {"TS_001": "good", "TS_002": "bad"}
    keys = [each["uuid"] for each in told["advice"]]
    body = {"verdict": "approve", "answers": {"series": gate.suggestion["series"]}, "digest": gate.digest}
    answer = client.post(
        f"/api/v1/gates/{gate.pk}/decide/", json.dumps(body | {"seen_advice": keys}), content_type="application/json"
    )
    assert answer.status_code == 200, answer.json()
    assert Decision.objects.get().evidence["advice"] == {str(ask.uuid): ask.digest for ask in found.values()}
