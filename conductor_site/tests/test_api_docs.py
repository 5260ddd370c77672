"""What docs/api.md and the page at /api/docs/ promise."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings
from django.test import Client
from django.urls import reverse

from conductor_site.api.tokens import make_token
from conductor_site.tests.world import World, make_world
from gates.models import Gate
from record.models import Decision, Lab
from record.tests.factories import People

TEXT = (Path(settings.BASE_DIR) / "docs" / "api.md").read_text()


@pytest.fixture
def world(transactional_db: None, lab: Lab, people: People, tmp_path: Path) -> World:
    return make_world(lab, people.operator, tmp_path)


def run_script(script: Path, address: str, token: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "CONDUCTOR": address, "CONDUCTOR_TOKEN": token}
    return subprocess.run([sys.executable, "-I", str(script)], env=environment, capture_output=True, text=True)


def test_the_script_answers_a_gate(world: World, people: People, live_server: Any, tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    script = tmp_path / "answer_gate.py"
    script.write_text(code)
    _, token = make_token(user=people.reviewer, name="script")
    Gate.objects.filter(pk=world.advised_gate.pk).delete()

    done = run_script(script, live_server.url, token)
    assert (done.returncode, done.stderr) == (0, "")
    decision = Decision.objects.get(gate=world.gate)
    assert f"recorded as decision {decision.number}" in done.stdout
    assert (decision.actor, decision.door, decision.statement.answers) == (people.reviewer, "api", {"shift": 4.5})

    again = run_script(script, live_server.url, token)
    assert (again.returncode, again.stderr) == (1, "Nothing waits for you.\n")
    refused = run_script(script, live_server.url, "wrong")
    assert "Not signed in: The token is wrong" in refused.stderr


def test_every_command_stands_in_the_table(world: World, client: Client, people: People) -> None:
    client.force_login(people.viewer)
    paths = client.get(reverse("api:schema"), headers={"Accept": "application/json"}).json()["paths"]
    table = TEXT[TEXT.index("## Commands") : TEXT.index("## Sending")]
    for path, operations in paths.items():
        if "post" in operations and "/token/" not in path:
            words = path.removeprefix("/api/v1/").replace("{id}", "<id>")
            folder, verb = words.rsplit("/", 2)[0], words.rsplit("/", 2)[-2]
            line = next((line for line in table.splitlines() if f"`{folder}/" in line and f"{verb}/`" in line), None)
            assert line or f"`{words}`" in table, path


def test_the_schema_is_openapi_3_1(world: World, client: Client, people: People) -> None:
    client.force_login(people.viewer)
    schema = yaml.safe_load(client.get(reverse("api:schema")).content)
    assert schema["openapi"].startswith("3.1")
    decide = schema["paths"]["/api/v1/gates/{id}/decide/"]["post"]
    assert {"200", "400", "401", "403", "404", "409", "422", "429", "503"} <= set(decide["responses"])
    assert "Idempotency-Key" in [each["name"] for each in decide["parameters"]]
    assert set(decide["responses"]["409"]["content"]) == {"application/problem+json"}
    add = schema["paths"]["/api/v1/gates/{id}/evidence/"]["post"]
    assert "Idempotency-Key" not in [each["name"] for each in add["parameters"]]
    assert "304" in schema["paths"]["/api/v1/runs/"]["get"]["responses"]


def test_the_page_loads_nothing_from_elsewhere(world: World, client: Client, people: People) -> None:
    client.force_login(people.viewer)
    answer = client.get(reverse("api:docs"))
    loaded = re.findall(r'(?:src|href|data-schema)="([^"]+)"', answer.content.decode())
    assert loaded
    assert all(address.startswith("/") and not address.startswith("//") for address in loaded)
    assert "script-src 'self';" in answer.headers["Content-Security-Policy"]
    assert "'unsafe" not in answer.headers["Content-Security-Policy"]
