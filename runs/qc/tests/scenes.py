"""Volumes whose content is known."""

from __future__ import annotations

import numpy as np


def particles(shape: tuple[int, int, int] = (32, 64, 64), *, noise: float = 0.5, seed: int = 0) -> np.ndarray:
    """Dark spheres in noise on a jittered grid, (z, y, x) float32."""
    generator = np.random.default_rng(seed)
    volume = generator.normal(0, noise, shape)
    z, y, x = np.ogrid[: shape[0], : shape[1], : shape[2]]
    for centre_z in range(8, shape[0] - 4, 16):
        for centre_y in range(8, shape[1] - 4, 16):
            for centre_x in range(8, shape[2] - 4, 16):
                dz, dy, dx = generator.uniform(-3, 3, 3)
                distance = (z - centre_z - dz) ** 2 + (y - centre_y - dy) ** 2 + (x - centre_x - dx) ** 2
                volume -= distance < 16
    return volume.astype(np.float32)
