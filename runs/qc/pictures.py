"""Drawing: one calm style for all pictures, scale bars, small grey PNGs."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ACCENT = "#1f5fa8"
THRESHOLD = "#a86400"
INK = "#222222"
QUIET = "#8a8a8a"
DPI = 100
FONT_PX = 19  # at 760 px; still 9 px when a phone shows the picture at 360 px

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": FONT_PX * 72 / DPI,
    "axes.titlesize": FONT_PX * 72 / DPI,
    "axes.labelsize": FONT_PX * 72 / DPI,
    "xtick.labelsize": 17 * 72 / DPI,
    "ytick.labelsize": 17 * 72 / DPI,
    "legend.fontsize": 17 * 72 / DPI,
    "legend.frameon": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": QUIET,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 1.0,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "image.origin": "lower",
    "image.cmap": "gray",
    "image.interpolation": "antialiased",
    "text.parse_math": False,
}


def new_figure(width_px: int, height_px: int) -> Figure:
    """An empty figure of this size, without pyplot, in the shared style."""
    import matplotlib
    from matplotlib.figure import Figure

    cast(Any, matplotlib.rcParams).update(STYLE)
    return Figure(figsize=(width_px / DPI, height_px / DPI), dpi=DPI)


def figure_png(figure: Figure, *, grey: bool = False) -> bytes:
    """The figure as PNG, without a time or program stamp, so that the same input gives the same bytes.

    `grey` stores one byte a pixel, for pictures without colour: noise then takes a third.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    image = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("L" if grey else "RGB")
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", compress_level=6)
    return buffer.getvalue()


def contrast_limits(values: NDArray[Any], *, low: float = 1.0, high: float = 99.0) -> tuple[float, float]:
    """Grey limits: percentiles of the finite values shown; a flat picture gets a width so that it can be drawn."""
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return 0.0, 1.0
    stride = max(1, finite.size // 1_000_000)
    lower, upper = (float(edge) for edge in np.percentile(finite[::stride], (low, high)))
    if upper <= lower:
        lower, upper = float(finite.min()), float(finite.max())
    return (lower, upper) if upper > lower else (lower - 0.5, lower + 0.5)


def nice_length(longest: float) -> float:
    """The largest of 1, 2, 5 x 10^n that is at most `longest`."""
    power = 10.0 ** np.floor(np.log10(longest))
    return float(max(step * power for step in (1, 2, 5) if step * power <= longest * (1 + 1e-9)))


def scale_bar(width_px: float, pixel_size_angstrom: float | None) -> tuple[float, str]:
    """A bar of about a quarter of the width: (length in px, label); nm from 10 nm on, Å below, px if unknown."""
    if pixel_size_angstrom is None:
        length = max(1.0, nice_length(max(width_px / 3.5, 1.0)))
        return length, f"{length:g} px"
    angstrom = nice_length(width_px * pixel_size_angstrom / 3.5)
    label = f"{angstrom / 10:g} nm" if angstrom >= 100 else f"{angstrom:g} Å"
    return angstrom / pixel_size_angstrom, label


def draw_scale_bar(axes: Axes, width_px: float, pixel_size_angstrom: float | None) -> None:
    """Draw the bar under the right end of an image whose data units are px, where it hides nothing."""
    from matplotlib.transforms import ScaledTranslation, blended_transform_factory

    length, label = scale_bar(width_px, pixel_size_angstrom)
    figure = axes.get_figure(root=True)
    if figure is None:
        raise ValueError("the axes belong to no figure")
    below = ScaledTranslation(0, -0.48, figure.dpi_scale_trans)
    place = blended_transform_factory(axes.transData, axes.transAxes) + below
    axes.plot((width_px - length, width_px), (0, 0), color=INK, linewidth=5, solid_capstyle="butt", clip_on=False,
              transform=place, scalex=False, scaley=False)  # fmt: skip
    axes.annotate(label, (width_px - length, 0), xycoords=place, xytext=(-6, 0), textcoords="offset points",
                  ha="right", va="center", annotation_clip=False)  # fmt: skip
    axes.xaxis.label.set(x=0.0, ha="left")


def show_section(
    axes: Axes, section: NDArray[Any], *, x: str, y: str, limits: tuple[float, float] | None = None
) -> None:
    """Draw a grey section (rows are `y`, first row at the bottom) with axes in px."""
    lower, upper = limits or contrast_limits(section)
    height, width = section.shape
    axes.imshow(section, vmin=lower, vmax=upper, origin="lower", extent=(0, width, 0, height), aspect="equal")
    axes.set(xlabel=f"{x} (px)", ylabel=f"{y} (px)")
    axes.locator_params(nbins=4, integer=True)
    axes.tick_params(length=3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(True)


def to_grey(section: NDArray[Any], limits: tuple[float, float], *, levels: int = 256) -> NDArray[np.uint8]:
    """Map values between the limits to 0..255 in so many steps; not finite is black. Rows stay as they are."""
    lower, upper = limits
    unit = np.clip((np.nan_to_num(section, nan=lower) - lower) / (upper - lower), 0.0, 1.0)
    return np.round(np.round(unit * (levels - 1)) * (255.0 / (levels - 1))).astype(np.uint8)


def grey_png(grey: NDArray[np.uint8]) -> bytes:
    """An 8-bit grey PNG of an image whose first row is at the bottom."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(grey[::-1])).save(buffer, format="PNG", compress_level=6)
    return buffer.getvalue()


def shrink(section: NDArray[Any], longest_px: int) -> NDArray[np.float32]:
    """Area-average a section so that its width is at most `longest_px`; a smaller one is returned as it is."""
    from PIL import Image

    height, width = section.shape
    if width <= longest_px:
        return section.astype(np.float32, copy=False)
    size = (longest_px, max(1, round(height * longest_px / width)))
    image = Image.fromarray(np.ascontiguousarray(section, dtype=np.float32))
    return np.asarray(image.resize(size, Image.Resampling.BOX), dtype=np.float32)


def with_scale_strip(
    grey: NDArray[np.uint8], *, shown_px: float, pixel_size_angstrom: float | None
) -> NDArray[np.uint8]:
    """Add a white strip with a scale bar under an image (first row at the bottom) that shows `shown_px` voxels in x."""
    from PIL import Image, ImageDraw, ImageFont

    height, width = grey.shape
    length, label = scale_bar(shown_px, pixel_size_angstrom)
    strip = Image.new("L", (width, 24), 255)
    draw = ImageDraw.Draw(strip)
    end = 4 + round(length * width / shown_px)
    draw.rectangle((4, 10, end, 14), fill=34)
    draw.text((end + 8, 12), label, fill=34, font=ImageFont.load_default(15), anchor="lm")
    return np.concatenate([np.asarray(strip, dtype=np.uint8)[::-1], grey])
