"""Fourier shell correlation of two half-maps."""

import numpy as np


def shell_correlation(first: np.ndarray, second: np.ndarray, apix: float) -> tuple[np.ndarray, np.ndarray]:
    """Return frequencies (1/Angstrom) up to Nyquist and the FSC of two cubes, shells one Fourier pixel wide.

    Harauz and van Heel, Optik 73, 1986.
    """
    box = first.shape[0]
    axis = np.fft.fftfreq(box, 1 / box)
    shell = np.sqrt((axis**2)[:, None, None] + (axis**2)[None, :, None] + (axis**2)[None, None, :]).round().astype(int)
    a, b = np.fft.fftn(first), np.fft.fftn(second)
    top = box // 2 + 1

    def sums(values: np.ndarray) -> np.ndarray:
        return np.bincount(shell.ravel(), values.ravel(), minlength=top)[:top]

    cross, power = sums((a * b.conj()).real), np.sqrt(sums(np.abs(a) ** 2) * sums(np.abs(b) ** 2))
    return np.arange(top) / (box * apix), cross / np.maximum(power, 1e-30)


def first_crossing(frequency: np.ndarray, correlation: np.ndarray, level: float = 0.143) -> float:
    """Return the resolution in Angstrom at which the FSC first falls below `level`, interpolated in frequency.

    Nyquist where it never does; infinite where it is below from the first shell on.
    """
    below = np.flatnonzero(correlation[1:] < level) + 1
    if not len(below):
        return float(1 / frequency[-1])
    last = below[0]
    if last == 1:
        return float("inf")
    before, after = correlation[last - 1], correlation[last]
    part = (before - level) / (before - after)
    return float(1 / (frequency[last - 1] + part * (frequency[last] - frequency[last - 1])))
