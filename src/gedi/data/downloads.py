"""Downloads of the named image sets, each file checked against its known SHA-256 before it is kept."""

# pyright: reportMissingTypeStubs=false
from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import pooch

from gedi.data.sources import NAMES, data_dir
from gedi.errors import DataError, did_you_mean


@dataclass(frozen=True)
class Download:
    """The official files of a set, and the mirrors that serve them, in the order to try."""

    mirrors: tuple[str, ...]
    sha256: dict[str, str]
    megabytes: int


DOWNLOADS = {
    "mnist": Download(
        # The authors' own page (yann.lecun.com) now asks for a password; these serve the same bytes.
        ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
        {
            "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        },
        12,
    ),
    "fashion-mnist": Download(
        (
            "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        ),
        {
            "train-images-idx3-ubyte.gz": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "train-labels-idx1-ubyte.gz": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "t10k-images-idx3-ubyte.gz": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "t10k-labels-idx1-ubyte.gz": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        },
        31,
    ),
    "svhn": Download(
        ("http://ufldl.stanford.edu/housenumbers/",),
        {
            "train_32x32.mat": "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
            "test_32x32.mat": "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
        },
        246,
    ),
    "cifar10": Download(
        ("https://www.cs.toronto.edu/~kriz/",),
        {"cifar-10-binary.tar.gz": "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"},
        170,
    ),
    "cifar100": Download(
        ("https://www.cs.toronto.edu/~kriz/",),
        {"cifar-100-binary.tar.gz": "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"},
        169,
    ),
}


def fetch(name: str, folder: Path | None = None) -> Path:
    """Download a named image set into ``folder`` (default: NAME in $GEDI_DATA) and return that folder.

    Files that exist and have the right hash are not downloaded again.
    """
    name = name.lower()
    if name not in DOWNLOADS:
        if name in NAMES:
            raise DataError(f"There is nothing to download for {name}: it comes with gedi.")
        raise DataError(f"There is no data set called {name!r}{did_you_mean(name, DOWNLOADS)}")
    folder = data_dir() / name if folder is None else folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"Cannot create the folder {folder} ({error.strerror}): set another GEDI_DATA.") from error
    pooch.get_logger().setLevel(logging.ERROR)  # only the command line prints
    for file, sha256 in DOWNLOADS[name].sha256.items():
        _fetch_file(file, sha256, DOWNLOADS[name].mirrors, folder)
    return folder


def _fetch_file(file: str, sha256: str, mirrors: tuple[str, ...], folder: Path) -> None:
    """Download from the first mirror that serves the file with the right hash; a wrong file is never kept."""
    problems: list[str] = []
    for mirror in mirrors:
        try:
            pooch.retrieve(  # pyright: ignore[reportUnknownMemberType]
                mirror + file, known_hash=f"sha256:{sha256}", fname=file, path=folder
            )
            return
        except ValueError as error:  # how pooch reports a wrong hash
            if "hash" not in str(error):
                raise
            problems.append(f"{mirror + file} serves a different file (its SHA-256 is not {sha256})")
        except OSError as error:  # no network, no such page, no disk space; requests' errors are OSErrors too
            problems.append(f"{mirror + file} cannot be downloaded ({type(error).__name__})")
    raise DataError(f"{'; '.join(problems)}: try again later, or put {file} into {folder} yourself.")
