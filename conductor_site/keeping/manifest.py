"""What a backup says of itself.

A folder of backups holds `evidence/`, `agents/` and `snapshots/`, which all backups in it share since their files are
named by their content, and for each backup a folder named by its time: the database, the heads of the chains, the
secret key and those of channels, lists of the evidence and of what agents wrote, and `manifest.json`, written last.
"""

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from record.errors import BadInput

FORMAT = 1
STAMP = "%Y%m%dT%H%M%SZ"
NAME, EVIDENCE_LIST, OUTPUT_LIST = "manifest.json", "evidence.txt", "agents.txt"
HEADS, SECRET, CHANNEL_SECRETS = "record_heads.jsonl", "secret_key", "secrets"


@dataclass(frozen=True)
class Manifest:
    """`migrations` are [app, name] of those that the database had; `snapshots` digests; `evidence` how many files."""

    format: int
    taken_at: str
    vendor: str
    database: str
    database_sha256: str
    migrations: list[list[str]]
    evidence: int
    evidence_bytes: int
    snapshots: list[str]


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Seal a backup."""
    write_through(folder / NAME, json.dumps(asdict(manifest), indent=2).encode())


def read_manifest(folder: Path) -> Manifest:
    """What the backup in `folder` says of itself; BadInput where it is none, or of another kind."""
    try:
        said = json.loads((folder / NAME).read_text())
        if said["format"] != FORMAT:
            raise BadInput(f"{folder} is a backup of the format {said['format']}; this version reads {FORMAT}.")
        return Manifest(**said)
    except FileNotFoundError:
        raise BadInput(
            f"{folder} is no backup: it has no {NAME}. Name the folder of one, like .../20260131T023000Z."
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{folder / NAME} can't be read: {error}.") from error


def backups_in(root: Path) -> list[Path]:
    """The complete backups in a folder of backups, oldest first."""
    return sorted(path.parent for path in root.glob(f"[0-9]*Z/{NAME}"))


def listed_evidence(folder: Path) -> list[str]:
    """Digests of the evidence that belongs to the backup."""
    return (folder / EVIDENCE_LIST).read_text().split()


def listed_outputs(folder: Path) -> list[str]:
    """Digests of what agents wrote that belongs to the backup; backups made before there were agents list none."""
    path = folder / OUTPUT_LIST
    return path.read_text().split() if path.exists() else []


def sha256_of(path: Path) -> str:
    """Hex SHA-256 of a file of any size."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def write_through(path: Path, data: bytes) -> None:
    """Write a file, for its owner alone, down to the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as handle:
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())
