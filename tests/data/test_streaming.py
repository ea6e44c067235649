import json
import os
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import gedi
from gedi.data import batches, load, streaming
from gedi.errors import DataError

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def small_memory(monkeypatch):
    """Pretend that 1 kB is a lot."""
    monkeypatch.setattr(streaming, "MAP_ABOVE", 1000)
    monkeypatch.setattr(streaming, "BLOCK", 512)


def is_mapped(x):
    while isinstance(x, np.ndarray):
        if isinstance(x, np.memmap):
            return True
        x = x.base
    return False


IMAGES = rng.integers(0, 256, (50, 8, 8, 3), dtype=np.uint8)


@pytest.mark.parametrize("images", [IMAGES, IMAGES[..., 0], (IMAGES / 255).astype(np.float32)])
def test_large_npy_images_stay_on_disk(tmp_path, small_memory, images):
    np.save(tmp_path / "a.npy", images)
    data = load(tmp_path / "a.npy")
    assert is_mapped(data.x) and data.x.dtype == images.dtype
    assert np.array_equal(data.x.reshape(images.shape), images)
    part = load(tmp_path / "a.npy", n=5)
    assert not is_mapped(part.x) and part.x.shape == (5, *data.image_shape)


def test_small_ones_are_in_memory_and_writable(tmp_path):
    np.save(tmp_path / "a.npy", IMAGES)
    x = load(tmp_path / "a.npy").x
    assert not is_mapped(x)
    x[0] = 0


@pytest.mark.parametrize("dtype", [np.float64, np.int16, bool])
def test_other_types_are_converted_block_by_block(tmp_path, small_memory, dtype, cache):
    np.save(tmp_path / "a.npy", IMAGES.astype(dtype))
    x = load(tmp_path / "a.npy").x
    assert is_mapped(x) and x.dtype == np.float32 and np.array_equal(x, IMAGES.astype(dtype).astype(np.float32))
    assert list((cache / "gedi" / "unpacked").iterdir()) == []  # the file goes with the array


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_large_npz_arrays_are_unpacked_once(tmp_path, small_memory, save, cache):
    save(tmp_path / "a.npz", x_train=IMAGES, y_train=np.arange(50), x_test=IMAGES[:2], y_test=[1, 0])
    train = load(tmp_path / "a.npz")
    assert is_mapped(train.x) and np.array_equal(train.x, IMAGES) and train.y.tolist() == list(range(50))
    (copy,) = (cache / "gedi" / "unpacked").iterdir()
    made = copy.stat().st_mtime_ns
    load(tmp_path / "a.npz")
    assert copy.stat().st_mtime_ns == made
    assert not is_mapped(load(tmp_path / "a.npz", split="test").x)
    save(tmp_path / "a.npz", x_train=IMAGES[::-1], y_train=np.arange(50))
    os.utime(tmp_path / "a.npz", ns=(1, 1))
    assert np.array_equal(load(tmp_path / "a.npz").x, IMAGES[::-1])


def test_a_damaged_member_leaves_nothing_behind(tmp_path, small_memory, cache):
    np.savez(tmp_path / "a.npz", x=IMAGES)
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[len(content) // 2] ^= 255
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(DataError, match="the array 'x'"):
        load(tmp_path / "a.npz")
    assert list((cache / "gedi" / "unpacked").iterdir()) == []


def test_a_disk_without_room_is_noticed_in_advance(tmp_path, small_memory, monkeypatch):
    np.savez(tmp_path / "a.npz", x=IMAGES)
    monkeypatch.setattr(streaming.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 10})())
    with pytest.raises(DataError, match=r"only 10 free.*\.npy"):
        load(tmp_path / "a.npz")


def test_objects_are_refused(tmp_path, small_memory):
    objects = np.array([{}] * 2000, dtype=object)
    np.save(tmp_path / "a.npy", objects, allow_pickle=True)
    np.savez(tmp_path / "a.npz", x=objects)
    for name in ("a.npy", "a.npz"):
        with pytest.raises(DataError, match="Python objects"):
            load(tmp_path / name)


def test_empty_arrays_still_say_so(tmp_path, small_memory):
    np.save(tmp_path / "a.npy", np.zeros((0, 8, 8)))
    assert load(tmp_path / "a.npy").x.shape == (0, 8, 8, 1)


def test_large_folders_go_to_disk(tmp_path, small_memory, cache):
    (tmp_path / "photos").mkdir()
    for i in range(6):
        Image.fromarray(IMAGES[i]).save(tmp_path / "photos" / f"{i}.png")
    data = load(tmp_path / "photos", size=8)
    assert is_mapped(data.x) and np.array_equal(data.x, IMAGES[:6])
    assert list((cache / "gedi" / "unpacked").iterdir()) == []


# ---- batches ----


@pytest.mark.parametrize("size", [1, 7, 50, 80])
def test_batches_see_every_row_once(size):
    x = np.arange(50 * 3).reshape(50, 3)
    for generator in (None, np.random.default_rng(3)):
        places = []
        for rows, values in batches(x, size, rng=generator):
            assert np.array_equal(values, x[rows]) and len(rows) <= size
            places += rows.tolist()
        assert sorted(places) == list(range(50))
        assert (places == list(range(50))) == (generator is None)


def test_batches_depend_on_the_generator_alone(tmp_path):
    np.save(tmp_path / "a.npy", IMAGES)
    mapped = streaming.open_numpy(tmp_path / "a.npy", mapped=True)
    one = [rows.tolist() for rows, _ in batches(IMAGES, 8, rng=np.random.default_rng(1))]
    two = [rows.tolist() for rows, _ in batches(mapped, 8, rng=np.random.default_rng(1))]
    assert one == two != [rows.tolist() for rows, _ in batches(IMAGES, 8, rng=np.random.default_rng(2))]
    with pytest.raises(DataError, match="at least 1"):
        next(batches(IMAGES, 0))


@pytest.mark.parametrize("places", [[], [3], [49, 0, 7, 7, 12], list(range(50))[::-1], list(range(20, 40))])
def test_rows_of_mapped_arrays_come_in_the_order_of_their_places(tmp_path, places):
    np.save(tmp_path / "a.npy", IMAGES)
    mapped = streaming.open_numpy(tmp_path / "a.npy", mapped=True)
    taken = streaming.take(mapped, np.array(places, dtype=int))
    assert np.array_equal(taken, IMAGES[places if places else slice(0)]) and not is_mapped(taken)


def test_released_arrays_keep_their_values(small_memory):
    x = streaming.scratch((100, 50), np.float32)
    x[:] = np.arange(50)
    streaming.release(x)
    assert np.array_equal(x, np.tile(np.arange(50, dtype=np.float32), (100, 1)))
    streaming.release(np.zeros(3))


def test_changes_to_a_copy_on_write_map_are_not_released(tmp_path):
    np.save(tmp_path / "a.npy", IMAGES)
    x = np.load(tmp_path / "a.npy", mmap_mode="c")
    x[7] = 9
    streaming.release(np.asarray(x).reshape(len(x), -1))
    assert (x[7] == 9).all()


def test_what_is_computed_from_a_map_is_in_memory(tmp_path):
    np.save(tmp_path / "a.npy", IMAGES)
    x = np.load(tmp_path / "a.npy", mmap_mode="r")
    assert streaming.is_mapped(x) and streaming.is_mapped(np.asarray(x).reshape(50, -1)[3:])
    assert not any(map(streaming.is_mapped, (x + 1, x[[3, 1]], IMAGES, IMAGES[1:])))


@pytest.mark.parametrize("mapped", [False, True])
def test_blocks_of_rows_follow_each_other(tmp_path, small_memory, mapped):
    np.save(tmp_path / "a.npy", IMAGES)
    x = np.load(tmp_path / "a.npy", mmap_mode="r" if mapped else None)
    blocks = [(start, np.array(rows)) for start, rows in streaming.row_blocks(x)]
    assert [start for start, _ in blocks] == list(range(0, 50, 2))
    assert np.array_equal(np.concatenate([rows for _, rows in blocks]), IMAGES)


def test_rows_of_whole_numbers_stay_on_disk(tmp_path, small_memory):
    np.save(tmp_path / "a.npy", IMAGES.reshape(50, -1))
    x = load(tmp_path / "a.npy").x
    assert is_mapped(x) and x.dtype == np.float64 and np.array_equal(x, IMAGES.reshape(50, -1))


MEGABYTES = 256
PROGRAM = """
    import json, sys
    from pathlib import Path
    import numpy as np
    from gedi.data import batches, load, streaming
    def peak():  # megabytes; getrusage would count the parent's memory too
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    streaming.MAP_ABOVE = 1 << 20
    before = peak()
    data = load(sys.argv[1], size=512)
    loaded, rows, total = peak(), 0, 0
    for rng in (None, np.random.default_rng(0)):
        for places, values in batches(data.x, 1 + 2**18 // data.x[0].size, rng=rng):
            rows, total = rows + len(places), total + int(values[:, 0, 0, 0].sum())
    read = peak()
    assert int(data.x.max()) == 1
    seen = {"loading": loaded - before, "reading": read - before, "all at once": peak() - before}
    print(json.dumps(seen | {"rows": rows, "total": total}))
"""


def large(kind, folder):
    """256 MB of images whose first pixel is 1: the path, and how many."""
    if kind == "folder":
        n = MEGABYTES * 2**20 // (512 * 512 * 3)
        (folder / "photos").mkdir()
        for i in range(n):
            Image.new("RGB", (4, 4), (1, 1, 1)).save(folder / "photos" / f"{i}.png")
        return folder / "photos", n
    n = MEGABYTES * 2**20 // (32 * 32 * 3)
    x = np.lib.format.open_memmap(folder / "big.npy", mode="w+", dtype=np.uint8, shape=(n, 32, 32, 3))
    x[:, 0, 0, 0] = 1
    x.flush()
    if kind == "npz":
        with zipfile.ZipFile(folder / "big.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.write(folder / "big.npy", "x.npy")
    return folder / f"big.{kind}", n


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("kind", ["npy", "npz", "folder"])
def test_peak_memory_does_not_grow_with_the_data(tmp_path, kind):
    path, n = large(kind, tmp_path)
    environment = os.environ | {"PYTHONPATH": str(Path(gedi.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(path)],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    seen = json.loads(done.stdout)
    assert seen["rows"] == seen["total"] == 2 * n
    most = 64 if kind == "folder" else 20  # decoding holds a few blocks of images at once
    assert seen["loading"] < most and seen["reading"] < max(48, most), seen  # of 256
    assert seen["all at once"] > 200, seen  # the measure does see mapped memory
