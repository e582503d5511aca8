"""A small software renderer: triangles with a value at each corner, hidden surfaces by z-buffer.

matplotlib sorts polygons by depth, which shows at a cut; a z-buffer does not, and it interpolates
the value, not the colour.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Scene:
    """Triangles and lines in space. `triangles` is (n, 3, 3); `value` and `normal` stand at its
    corners, (n, 3) and (n, 3, 3); `lines` is (m, 2, 3)."""

    triangles: np.ndarray
    value: np.ndarray
    normal: np.ndarray
    lines: np.ndarray


@dataclass(frozen=True)
class Camera:
    """Orthographic: looks along -`toward` (from the viewer's side), `up` points up."""

    toward: tuple[float, float, float]
    up: tuple[float, float, float]

    def axes(self) -> np.ndarray:
        """Rows: right, up and toward the viewer."""
        toward = np.array(self.toward) / np.linalg.norm(self.toward)
        right = np.cross(self.up, toward)
        right /= np.linalg.norm(right)
        return np.array([right, np.cross(toward, right), toward])


@dataclass(frozen=True)
class Frame:
    """Maps camera coordinates to pixels."""

    width: int
    height: int
    centre: np.ndarray
    scale: float

    def pixels(self, view: np.ndarray) -> np.ndarray:
        """Columns and rows (rows grow downward), the depth kept."""
        out = view.copy()
        out[..., 0] = self.width / 2 + (view[..., 0] - self.centre[0]) * self.scale
        out[..., 1] = self.height / 2 - (view[..., 1] - self.centre[1]) * self.scale
        return out


def fit(view: np.ndarray, width: int, height: int, margin: float) -> Frame:
    """A frame that holds all points, with a margin (part of the picture)."""
    low, high = view[..., :2].reshape(-1, 2).min(0), view[..., :2].reshape(-1, 2).max(0)
    scale = (1 - 2 * margin) * min(width / (high - low)[0], height / (high - low)[1])
    return Frame(width, height, (low + high) / 2, scale)


LIGHTS = (((-0.35, 0.75, 0.65), 0.42), ((0.85, 0.25, 0.45), 0.20))  # in camera axes, strength
AMBIENT = 0.63
LINE_STRENGTH = 0.30


def render(scene: Scene, camera: Camera, width: int, height: int, oversample: int, colour):
    """The picture as RGBA (height, width, 4) in 0..1, transparent where nothing is. `colour` maps
    an array of values to RGB."""
    axes = camera.axes()
    view = scene.triangles @ axes.T
    frame = fit(view, width * oversample, height * oversample, 0.02)
    shade = shading(scene.normal @ axes.T)
    depth, value, bright = rasterise(frame, frame.pixels(view), scene.value, shade)
    seen = np.isfinite(depth)
    picture = np.zeros((*depth.shape, 4))
    picture[seen, :3] = np.clip(colour(value[seen]) * bright[seen, None], 0, 1)
    picture[seen, 3] = 1
    draw_lines(picture, depth, frame.pixels(scene.lines @ axes.T), bias=0.004 * np.ptp(depth[seen]))
    return shrink(picture, oversample)


def shading(normal: np.ndarray) -> np.ndarray:
    """Brightness of a matt surface under the lights."""
    bright = np.full(normal.shape[:-1], AMBIENT)
    for direction, strength in LIGHTS:
        unit = np.array(direction) / np.linalg.norm(direction)
        bright += strength * np.clip(normal @ unit, 0, None)
    return bright


def rasterise(frame: Frame, corners: np.ndarray, value: np.ndarray, shade: np.ndarray):
    """Depth, value and brightness at each pixel; depth is -inf where nothing is."""
    depth = np.full((frame.height, frame.width), -np.inf)
    values, brights = np.zeros_like(depth), np.zeros_like(depth)
    ax, ay = corners[:, 0, 0], corners[:, 0, 1]
    bx, by = corners[:, 1, 0] - ax, corners[:, 1, 1] - ay
    cx, cy = corners[:, 2, 0] - ax, corners[:, 2, 1] - ay
    area = bx * cy - by * cx
    low = np.floor(corners[..., :2].min(1)).astype(int)
    high = np.ceil(corners[..., :2].max(1)).astype(int) + 1
    # Rows grow downward: a face turned toward the viewer has a negative area.
    for k in np.nonzero(area < -1e-9)[0]:
        x0, y0, x1, y1 = *low[k], *high[k]
        x = np.arange(x0, x1) + 0.5 - ax[k]
        y = (np.arange(y0, y1) + 0.5 - ay[k])[:, None]
        u = (x * cy[k] - y * cx[k]) / area[k]
        v = (y * bx[k] - x * by[k]) / area[k]
        inside = (u >= -1e-6) & (v >= -1e-6) & (u + v <= 1 + 1e-6)
        z = corners[k, :, 2]
        here = z[0] + u * (z[1] - z[0]) + v * (z[2] - z[0])
        window = (slice(y0, y1), slice(x0, x1))
        nearer = inside & (here > depth[window])
        depth[window][nearer] = here[nearer]
        for buffer, corner in ((values, value[k]), (brights, shade[k])):
            at = corner[0] + u * (corner[1] - corner[0]) + v * (corner[2] - corner[0])
            buffer[window][nearer] = at[nearer]
    return depth, values, brights


def draw_lines(picture: np.ndarray, depth: np.ndarray, ends: np.ndarray, bias: float) -> None:
    """Darkens the pixels under lines that are not hidden."""
    start, way = ends[:, 0], ends[:, 1] - ends[:, 0]
    count = np.ceil(np.abs(way[:, :2]).max(1)).astype(int) + 1
    line = np.repeat(np.arange(len(ends)), count)
    along = (np.arange(len(line)) - np.repeat(np.cumsum(count) - count, count)) / count[line]
    points = start[line] + along[:, None] * way[line]
    columns, rows = points[:, 0].astype(int), points[:, 1].astype(int)
    seen = points[:, 2] > depth[rows, columns] - bias
    mark = np.zeros(depth.shape, bool)
    height, width = depth.shape[0] - 1, depth.shape[1] - 1
    for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):  # two pixels wide before shrinking
        row, column = (
            np.minimum(rows[seen] + down, height),
            np.minimum(columns[seen] + right, width),
        )
        mark[row, column] = True
    mark &= np.isfinite(depth)
    picture[mark, :3] *= 1 - LINE_STRENGTH


def shrink(picture: np.ndarray, by: int) -> np.ndarray:
    """Averages blocks of pixels; colours count by their opacity."""
    height, width, _ = picture.shape
    blocks = picture.copy()
    blocks[..., :3] *= blocks[..., 3:]
    blocks = blocks.reshape(height // by, by, width // by, by, 4).mean((1, 3))
    opaque = blocks[..., 3:]
    blocks[..., :3] = np.divide(blocks[..., :3], opaque, where=opaque > 0, out=blocks[..., :3])
    return blocks
