import gzip
import io
import struct
import tarfile

import numpy as np
import pytest
import scipy.io

from gedi.data import known_datasets, load
from gedi.data.official import FIRST_LABELS, read_idx
from gedi.errors import DataError

rng = np.random.default_rng(0)


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("GEDI_DATA", str(tmp_path))
    return tmp_path


# ---- idx ----


def idx(array):
    """The format, written out by hand: magic, big-endian lengths, bytes."""
    header = bytes([0, 0, 8, array.ndim]) + b"".join(struct.pack(">I", n) for n in array.shape)
    return header + array.astype(np.uint8).tobytes()


def write_idx(folder, prefix, n, *, packed=True, labels=None):
    folder.mkdir(parents=True, exist_ok=True)
    x = rng.integers(0, 256, (n, 28, 28), dtype=np.uint8)
    y = rng.integers(0, 10, n) if labels is None else np.asarray(labels)
    for name, array in ((f"{prefix}-images-idx3-ubyte", x), (f"{prefix}-labels-idx1-ubyte", y)):
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(idx(array)))
        else:
            (folder / name).write_bytes(idx(array))
    return x, y


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(
    "name, place",
    [
        ("mnist", "mnist"),
        ("mnist", "."),
        ("mnist", "MNIST/raw"),
        ("fashion-mnist", "fashion-mnist"),
        ("fashion-mnist", "FashionMNIST/raw"),
    ],
)
def test_idx_files_come_back_byte_by_byte(root, name, place, packed):
    x, y = write_idx(root / place, "train", 7, packed=packed)
    x_test, y_test = write_idx(root / place, "t10k", 3, packed=packed)
    train, test = load(name), load(name, split="test")
    assert train.x.dtype == np.uint8 and train.y.dtype == np.int64 and train.image_shape == (28, 28, 1)
    assert np.array_equal(train.x[..., 0], x) and np.array_equal(train.y, y)
    assert np.array_equal(test.x[..., 0], x_test) and np.array_equal(test.y, y_test)
    train.x[0] = 0  # ours to change


def test_the_order_of_rows_and_columns_is_kept(tmp_path):
    array = np.arange(2 * 3 * 4).reshape(2, 3, 4)
    (tmp_path / "a").write_bytes(bytes.fromhex("00000803 00000002 00000003 00000004") + bytes(range(24)))
    assert np.array_equal(read_idx(tmp_path / "a"), array)


@pytest.mark.parametrize("name, other", [("mnist", "fashion-mnist"), ("fashion-mnist", "mnist")])
def test_two_sets_with_the_same_file_names_are_distinguished(root, name, other):
    for prefix, split in (("train", "train"), ("t10k", "test")):
        write_idx(root, prefix, 10, labels=FIRST_LABELS[name, split])
    assert load(name).y[0] == FIRST_LABELS[name, "train"][0] and len(load(name, split="test").y) == 10
    with pytest.raises(DataError, match=f"gedi fetch {other}"):
        load(other)


def test_the_first_labels_are_those_of_the_real_set(named_dataset):
    for split in ("train", "test"):
        assert tuple(load(named_dataset("mnist"), split=split).y[:10]) == FIRST_LABELS["mnist", split]


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "not an idx file"),
        (b"PK\x03\x04 something else", "not an idx file"),
        (bytes([0, 0, 0x0D, 3]) + bytes(12), "not an idx file"),  # floats
        (bytes([0, 0, 8, 3, 0, 0]), "ends within its header"),
        (bytes([0, 0, 8, 1, 0, 0, 0, 5]) + b"abcd", "promises 5 bytes, but it holds only 4"),
        (bytes([0, 0, 8, 1, 0, 0, 0, 3]) + b"abcd", "promises 3 bytes, but it holds more"),
        (bytes([0, 0, 8, 3]) + b"\xff" * 12, "promises an array of shape"),
    ],
)
@pytest.mark.parametrize("packed", [True, False])
def test_damaged_idx_files(tmp_path, content, message, packed):
    path = tmp_path / ("a.gz" if packed else "a")
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(DataError, match=message):
        read_idx(path)


def test_gz_files_that_are_cut_off_or_not_gz(tmp_path):
    packed = gzip.compress(idx(rng.integers(0, 256, (5, 28, 28))))
    for content in (packed[: len(packed) // 2], b"plain text", packed[:-6] + b"xxxxxx"):
        (tmp_path / "a.gz").write_bytes(content)
        with pytest.raises(DataError, match="damaged or truncated"):
            read_idx(tmp_path / "a.gz")


def test_images_without_their_labels(root):
    write_idx(root / "mnist", "train", 4)
    (root / "mnist" / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.arange(3))))
    with pytest.raises(DataError, match="do not belong together"):
        load("mnist")
    (root / "mnist" / "train-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError, match="gedi fetch mnist"):
        load("mnist")


# ---- CIFAR ----


def cifar_bytes(x, *labels):
    """Records: label bytes, then all red, all green and all blue pixels, row by row."""
    out = bytearray()
    for i, image in enumerate(x):
        out += bytes(int(y[i]) for y in labels)
        for channel in range(3):
            for row in range(32):
                out += bytes(image[row, :, channel].tolist())
    return bytes(out)


def cifar_files(name):
    """The files of a small set, and what should be read from them by split."""
    counts = {"train": 10, "test": 3}
    sets = {
        s: (rng.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8), rng.integers(0, 10, n)) for s, n in counts.items()
    }
    (x, y), (x_test, y_test) = sets["train"], sets["test"]
    if name == "cifar10":
        files = {f"data_batch_{i + 1}.bin": cifar_bytes(x[2 * i : 2 * i + 2], y[2 * i : 2 * i + 2]) for i in range(5)}
        files["test_batch.bin"] = cifar_bytes(x_test, y_test)
    else:
        files = {"train.bin": cifar_bytes(x, y // 5, y), "test.bin": cifar_bytes(x_test, y_test // 5, y_test)}
    return files, sets


FOLDERS = {"cifar10": "cifar-10-batches-bin", "cifar100": "cifar-100-binary"}
ARCHIVES = {"cifar10": "cifar-10-binary.tar.gz", "cifar100": "cifar-100-binary.tar.gz"}


def write_tar(path, entries):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for name, content in entries:
            entry = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
            else:
                entry.type, entry.linkname = content
                tar.addfile(entry)


def assert_is(name, sets):
    for split, (x, y) in sets.items():
        data = load(name, split=split)
        assert np.array_equal(data.x, x) and np.array_equal(data.y, y)
        assert data.x.dtype == np.uint8 and data.y.dtype == np.int64 and data.image_shape == (32, 32, 3)
        assert data.x.flags.c_contiguous


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("place", [".", "own"])
def test_cifar_archives_are_read_where_they_are(root, name, place):
    files, sets = cifar_files(name)
    archive = root / (name if place == "own" else ".") / ARCHIVES[name]
    write_tar(archive, [("readme.html", b"hi")] + [(f"{FOLDERS[name]}/{f}", b) for f, b in sorted(files.items())])
    assert_is(name, sets)
    assert list(archive.parent.iterdir()) == [archive]  # nothing was unpacked


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("place", ["unpacked", "own/unpacked", "own"])
def test_cifar_unpacked(root, name, place):
    files, sets = cifar_files(name)
    folder = root / place.replace("own", name).replace("unpacked", FOLDERS[name])
    folder.mkdir(parents=True)
    for file, content in files.items():
        (folder / file).write_bytes(content)
    assert_is(name, sets)
    known = {info.name: info for info in known_datasets()}[name]
    assert known.present and known.rows == 10 and known.where == str(folder)


@pytest.mark.parametrize(
    "entry",
    [
        ("../outside.bin", b"x"),
        ("/etc/outside.bin", b"x"),
        ("cifar-10-batches-bin/../../outside.bin", b"x"),
        ("..\\outside.bin", b"x"),
        ("cifar-10-batches-bin/data_batch_1.bin", (tarfile.SYMTYPE, "/etc/passwd")),
        ("cifar-10-batches-bin/link", (tarfile.LNKTYPE, "../../secret")),
        ("cifar-10-batches-bin/pipe", (tarfile.FIFOTYPE, "")),
        ("cifar-10-batches-bin/disk", (tarfile.BLKTYPE, "")),
    ],
)
def test_archives_that_lead_outside_are_refused(root, entry):
    files, _ = cifar_files("cifar10")
    write_tar(root / ARCHIVES["cifar10"], [entry] + [(f"cifar-10-batches-bin/{f}", b) for f, b in files.items()])
    with pytest.raises(DataError, match="is refused"):
        load("cifar10")
    assert [p.name for p in root.iterdir()] == [ARCHIVES["cifar10"]]


def test_damaged_cifar_archives(root):
    files, _ = cifar_files("cifar10")
    path = root / ARCHIVES["cifar10"]
    write_tar(path, [(f, b) for f, b in files.items() if f != "data_batch_3.bin"])
    with pytest.raises(DataError, match=r"holds no data_batch_3\.bin"):
        load("cifar10")
    write_tar(path, [(f, b[:-1]) for f, b in files.items()])
    with pytest.raises(DataError, match=r"not a whole number of records of 3,073"):
        load("cifar10")
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"not an archive"):
        path.write_bytes(content)
        with pytest.raises(DataError, match="damaged or truncated"):
            load("cifar10")


# ---- SVHN ----


@pytest.mark.parametrize("packed", [True, False])
def test_svhn_has_images_last_and_ten_for_zero(root, packed):
    x = rng.integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)
    y = np.array([10, 1, 9, 10, 5, 2], dtype=np.uint8)
    content = {"X": x.transpose(1, 2, 3, 0), "y": y[:, None]}
    scipy.io.savemat(root / "train_32x32.mat", content, do_compression=packed)
    data = load("svhn")
    assert np.array_equal(data.x, x) and data.x.flags.c_contiguous
    assert data.y.tolist() == [0, 1, 9, 0, 5, 2] and data.y.dtype == np.int64
    known = {info.name: info for info in known_datasets()}["svhn"]
    assert known.present and known.rows == 6 and known.where == str(root / "train_32x32.mat")
    with pytest.raises(DataError, match="gedi fetch svhn"):
        load("svhn", split="test")


def test_damaged_svhn(root):
    path = root / "train_32x32.mat"
    scipy.io.savemat(path, {"X": np.zeros((32, 32, 3, 4)), "y": np.zeros((4, 1))})
    with pytest.raises(DataError, match="is not an SVHN file"):
        load("svhn")
    scipy.io.savemat(path, {"a": np.zeros(3)})
    with pytest.raises(DataError, match="damaged"):
        load("svhn")
    content = {"X": np.zeros((32, 32, 3, 4), np.uint8), "y": np.zeros((4, 1), np.uint8)}
    scipy.io.savemat(path, content, do_compression=True)
    whole = path.read_bytes()
    for broken in (whole[:-30], whole[:100], b"", b"text " * 100, b"\x89HDF\r\n\x1a\n" + bytes(600)):
        path.write_bytes(broken)
        with pytest.raises(DataError, match="damaged"):
            load("svhn")
        assert not {info.name: info for info in known_datasets()}["svhn"].present or broken == whole[:-30]


# ---- which one is taken ----


def test_the_npz_comes_first_and_a_subset_is_drawn(root):
    _, y = write_idx(root / "mnist", "train", 20)
    known = {info.name: info for info in known_datasets()}["mnist"]
    assert known.present and known.rows == 20 and known.where == str(root / "mnist")
    assert len(load("mnist", n=5).x) == 5
    np.savez(root / "mnist.npz", x_train=np.zeros((2, 28, 28), np.uint8), y_train=[0, 1])
    assert len(load("mnist").x) == 2 != len(y)


def test_an_archive_is_present_though_its_rows_are_not_counted(root):
    write_tar(root / ARCHIVES["cifar100"], [])
    known = {info.name: info for info in known_datasets()}["cifar100"]
    assert known.present and known.rows is None
