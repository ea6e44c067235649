"""Pictures as arrays and back: folders of image files, the values of black and white, thumbnails, mirror symmetry."""

from __future__ import annotations

import io
import math
import os
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageOps

from gedi.data.checks import few
from gedi.data.dataset import Dataset
from gedi.data.streaming import release, row_blocks, scratch
from gedi.errors import DataError

if TYPE_CHECKING:  # importing torch takes seconds
    from gedi.data.scaled_rows import Rows

PICTURE_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
SIZE = 32  # pixels, as in the paper's data sets
BYTES_AT_ONCE = 1 << 24  # bytes of images decoded at a time
GREY_MODES = ("1", "L", "LA", "La", "I", "I;16", "I;16B", "I;16L", "I;16N", "F")
WHITES = (1.0, 16.0, 255.0, 65535.0)  # usual values of white: fractions, scikit-learn's digits, bytes, 16 bits
THUMBNAIL = 96  # pixels of the longest side
# Pillow's errors for damaged files have no common base class.
UNREADABLE = (OSError, ValueError, SyntaxError, TypeError, IndexError, EOFError, ArithmeticError, MemoryError)
UNREADABLE += (Image.DecompressionBombError,)


def read_folder(
    folder: Path,
    *,
    size: int | tuple[int, int] | None = None,
    channels: int | None = None,
    labels: bool = True,
    skip_broken: bool = False,
) -> Dataset:
    """All images under a folder, or a single image file, center-cropped and resized to ``size``.

    Images are in the order of their names. They have one channel if all are grey and three otherwise, unless
    ``channels`` is given. Transparent pixels become white. Only the first frame of an animation is used. Sub-folders
    are the labels if there are at least two and every image is in one. Unreadable image files are an error or, with
    ``skip_broken``, left out with a warning; both name them. Other files are ignored.
    """
    size = SIZE if size is None else size
    height, width = (size, size) if isinstance(size, int) else size
    if min(height, width) < 1:
        raise DataError(f"The image size must be at least 1, got {size}.")
    if channels not in (None, 1, 3):
        raise DataError(f"Images have 1 or 3 channels, got {channels}.")
    if is_single := folder.is_file():
        folder, found = folder.parent, [folder.name]
    else:
        found = sorted(_image_files(folder), key=lambda name: name.split("/"))
    if not found:
        raise DataError(f"The folder {folder} holds no images: it has no file ending in {', '.join(PICTURE_SUFFIXES)}.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns about odd metadata, file by file
        if channels is None:
            channels = 1 if all(_is_grey(folder / name) in (True, None) for name in found) else 3
        x, files = _decode_all(folder, found, (height, width, channels))
    read = set(files)
    unreadable = [name for name in found if name not in read]
    if not files and is_single:
        raise DataError(f"{folder / found[0]} cannot be read as an image: it is damaged.")
    if not files:
        raise DataError(f"None of the {len(found)} image files in {folder} can be read: {_printable(unreadable)}.")
    if unreadable and not skip_broken:
        raise DataError(
            f"{len(unreadable)} of {len(found)} image files in {folder} cannot be read: {_printable(unreadable)}. "
            "Repair or remove them, or leave them out with --skip-broken (in Python: skip_broken=True)."
        )
    if unreadable:
        warnings.warn(
            f"Left out {len(unreadable)} of {len(found)} image files in {folder} that cannot be read: "
            f"{_printable(unreadable)}.",
            stacklevel=2,
        )
    y, classes = _sub_folder_labels(files) if labels else (None, None)
    return Dataset(folder.name, x, y, None, (height, width, channels), files, unreadable, classes)


def _image_files(folder: Path) -> Iterator[str]:
    """Files with an image's suffix, except hidden ones and those in linked folders (links may form a loop)."""
    for place, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if not f.startswith((".", "__MACOSX"))]
        for file in files:
            if file.lower().endswith(PICTURE_SUFFIXES) and not file.startswith("."):
                yield (Path(place) / file).relative_to(folder).as_posix()


def _is_grey(path: Path) -> bool | None:
    """Whether the file's header says so; None if it cannot be read."""
    try:
        with _open(path) as image:
            return image.mode in GREY_MODES
    except UNREADABLE:
        return None


def _open(path: Path) -> Image.Image:
    if not path.is_file():  # a pipe would block forever
        raise OSError(f"{path} is not a file")
    return Image.open(path)


def _decode_all(folder: Path, names: list[str], shape: tuple[int, int, int]) -> tuple[np.ndarray, list[str]]:
    x = scratch((len(names), *shape), np.uint8)
    files: list[str] = []
    waiting, at_once = iter(names), max(1, BYTES_AT_ONCE // math.prod(shape))
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:  # Pillow decodes without the GIL
        while block := list(islice(waiting, at_once)):
            for name, image in zip(block, pool.map(lambda n: _decode(folder / n, shape), block), strict=True):
                if image is not None:
                    x[len(files)] = image
                    files.append(name)
            release(x)
    return x[: len(files)], files


def _decode(path: Path, shape: tuple[int, int, int]) -> np.ndarray | None:
    """One image as uint8 [H, W, C], or None if it cannot be read."""
    height, width, channels = shape
    try:
        with _open(path) as image:
            image.draft(None, (2 * width, 2 * height))  # lets JPEG skip detail that would be discarded below
            upright = ImageOps.exif_transpose(image)
            plain = _plain(upright).convert("L" if channels == 1 else "RGB")
            fitted = ImageOps.fit(plain, (width, height), Image.Resampling.BICUBIC)
            return np.asarray(fitted, dtype=np.uint8).reshape(shape)
    except UNREADABLE:
        return None


def _plain(image: Image.Image) -> Image.Image:
    """Eight bits per channel, no transparency."""
    if image.mode.startswith("I;16"):
        return _eight_bits(np.asarray(image, dtype=np.float64), 65535.0)
    if image.mode in ("I", "F"):  # 32 bits: the file does not say what white is
        values = np.asarray(image, dtype=np.float64)
        fulls = (255.0, 65535.0) if image.mode == "I" else (1.0, 255.0, 65535.0)
        return _eight_bits(values, next((f for f in fulls if values.max(initial=0.0) <= f), values.max()))
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image


def _eight_bits(values: np.ndarray, white: float) -> Image.Image:
    """Values as bytes. Pillow itself would clip them at 255, which turns a 16-bit picture white."""
    if not np.isfinite(values).all():
        raise ValueError("not numbers")
    return Image.fromarray(np.clip(values * (255.0 / white), 0, 255).round().astype(np.uint8))


def _sub_folder_labels(files: list[str]) -> tuple[np.ndarray | None, list[str] | None]:
    if not all("/" in name for name in files):
        return None, None
    classes, y = np.unique([name.split("/")[0] for name in files], return_inverse=True)
    if len(classes) < 2:
        return None, None
    return y.reshape(-1).astype(np.int64), [str(name) for name in classes]


def _printable(names: list[str]) -> str:
    return few(names).encode("utf-8", "backslashreplace").decode()  # file names need not be valid text


# ---- which values are black and white ----


def usual_ends(darkest: float, lightest: float) -> tuple[float, float]:
    """Black and white of images with values in this range, by convention; the range itself if no convention fits.

    >>> usual_ends(0.0, 15.0), usual_ends(-0.9, 1.0), usual_ends(-0.4, 2.8)
    ((0.0, 16.0), (-1.0, 1.0), (-0.4, 2.8))
    """
    tolerance = 1e-3 * max(1.0, abs(lightest))  # for rounding to float32 and back
    if darkest < -tolerance:
        is_signed = darkest >= -1 - tolerance and lightest <= 1 + tolerance
        return (-1.0, 1.0) if is_signed else (darkest, lightest)
    return 0.0, next((white for white in WHITES if lightest <= white + tolerance), lightest)


def values_of_bytes(pixels: np.ndarray, black: float, white: float) -> np.ndarray:
    """Bytes 0 .. 255 as values from black to white, in float32; if these are 0 and 255, the bytes themselves."""
    if (black, white) == (0.0, 255.0):
        return pixels
    if (black, white) != (-1.0, 1.0) and (black != 0.0 or white not in WHITES):
        raise DataError(
            f"The run was trained on images with values from {black:.4g} to {white:.4g}, so the values "
            "of black and white are unknown: give an array of such values (.npy or .npz) instead of image files."
        )
    values = scratch(pixels.shape, np.float32)
    for start, some in row_blocks(pixels):
        values[start : start + len(some)] = black + some * ((white - black) / 255.0)
        release(values)
    return values


def bytes_of_values(values: np.ndarray, image_shape: tuple[int, ...], black: float, white: float) -> np.ndarray:
    """Rows of values [n, d] as images of bytes [n, H, W, C], black 0 and white 255; values beyond them are clipped."""
    shares = (np.asarray(values, dtype=np.float64) - black) / max(white - black, 1e-12)
    return (255 * shares.clip(0, 1)).round().astype(np.uint8).reshape(-1, *image_shape)


def thumbnail(values: np.ndarray, image_shape: tuple[int, ...], black: float, white: float) -> bytes:
    """One row of values as a small PNG."""
    (pixels,) = bytes_of_values(values[None], image_shape, black, white)
    picture = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    picture.thumbnail((THUMBNAIL, THUMBNAIL))
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


ASKED, AMONG = 1000, 2000  # most images to mirror, and most to compare them with
SURE_DEVIATIONS = 3.0  # standard deviations of a fair coin


def is_mirrored(rows: np.ndarray | Rows, image_shape: tuple[int, ...]) -> bool:
    """Whether mirror images of the data look like data themselves: they do for photographs, but not for digits.

    If left and right mean nothing, the mirror image of an image is as near to the other images as the image itself:
    which of the two is nearer is a coin toss. Images are compared at equal brightness and contrast.
    """
    if len(rows) < 3:
        return False
    some = np.asarray(rows[:: math.ceil(len(rows) / AMONG)], dtype=np.float32).reshape(-1, *image_shape)
    places = np.arange(0, len(some), math.ceil(len(some) / ASKED))  # spread out: rows may be sorted by class
    others = _directions(some)

    def nearest(images: np.ndarray) -> np.ndarray:
        similar = _directions(images) @ others.T
        similar[np.arange(len(places)), places] = -np.inf  # not to itself
        return similar.max(1)

    plain, mirrored = nearest(some[places]), nearest(some[places][:, :, ::-1])
    differ = plain != mirrored
    excess = (plain > mirrored)[differ].sum() - differ.sum() / 2
    return bool(excess <= SURE_DEVIATIONS * math.sqrt(differ.sum()) / 2)


def _directions(images: np.ndarray) -> np.ndarray:
    """Images as unit vectors around their own mean."""
    flat = images.reshape(len(images), -1)
    flat = flat - flat.mean(1, keepdims=True)
    return flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-6)
