"""Presets: named changes to the default settings, for each shape of data, and the paper's own.

They are plain data, so that their names are known without importing torch. `configure` makes the settings of a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gedi.errors import ConfigError, did_you_mean
from gedi.training.methods import with_method

if TYPE_CHECKING:
    from gedi.training.config import TrainingConfig

Changes = Mapping[str, Any]

CONSTRAINT_WEIGHTS = {"paper-mnist": 3000.0}  # Appendix G: the weight of a constraint that is given without one
SMALL_SIDE = 16  # pixels: up to this side an MLP is enough, and minutes faster
FEW_PIXELS = 1024  # an MLP is also enough for grey images of up to this many pixels
SHIFT, SHIFT_OF_SIDE = 0.5, 0.05  # largest shift of small images: in pixels, and as a share of the side
BUFFER_NUMBERS = 2**26  # 256 MB: the most a replay buffer holds, unless a batch needs more
FEW_FEATURES = 8  # up to this many, walks reach further than the gaps between neighbours

# Rows with many features. Walks are short compared with the distance between rows, so pairs are neighbours only, and
# chains hardly leave the row they start from, so the density learns without them.
STAGE_OF_ROWS = dict(settle=0.004, batch_size=256, learning_rate=2e-3, warmup=50, decay_from=0.0)
WIDE_ROWS: Changes = dict(
    net=dict(hidden=(256, 256), representation=None, first="linear", norm="layer"),
    sampler=dict(buffer_size=1000, restart=0.0, from_data=1.0, box_margin=3.0),
    augment=dict(learned=True),
    objective=dict(generative=dict(kind="denoising", weight=30.0, every=2), clustering=dict(dam=0.0)),
    heads=dict(random=32, starts=("neighbours", "kmeans", "mixture"), choose=0.6),
    step1=STAGE_OF_ROWS | dict(iterations=100),
    step2=STAGE_OF_ROWS | dict(iterations=1000),
)

# Small images as rows: one scale for all pixels, and slight affine and elastic views.
DIGITS: Changes = dict(
    augment=dict(noise=0.0, neighbours=5, rotate=10.0, scale=0.1, shear=0.1, elastic=0.05),
    heads=dict(starts=("neighbours", "kmeans")),
    step2=dict(iterations=700),
    scaling="global",
)

# Larger grey images, of which there are usually more.
GREY: Changes = dict(
    net=dict(hidden=(512, 384)),
    augment=dict(neighbours=10),
    step1=dict(batch_size=400),
    objective=dict(generative=dict(weight=300.0, every=4, base=100, components=64)),
    step2=dict(batch_size=400, iterations=1400, learning_rate=3e-3),
)

# Larger images, on a CPU. Clusters and neighbours of pixels say little about them. So a contrastive term, which learns
# most in the same time, trains the encoder together with the neutral head and the density, and both views are of the
# image itself until neighbours are found in the representation. Windows enlarge what they show, so views of three
# quarters of the image's size still show things as large as whole images do, and a pass takes half the time.
#
# The density costs three times as much per image as the other terms, so it is updated every fourth iteration.
STAGE_OF_IMAGES = dict(batch_size=256, learning_rate=2e-3, warmup=50, decay_from=0.0)
LARGE_IMAGES: Changes = dict(
    net=dict(encoder="convnet", representation=128, embedding=128, projector_hidden=512),
    sampler=dict(buffer_size=100, restart=0.0, from_data=1.0, box_margin=0.25),
    augment=dict(noise=0.0, area=0.2, resize=0.75, flip=None, jitter=0.8, gray=0.2, learned=True, early=False),
    objective=dict(
        generative=dict(kind="denoising", weight=300.0, every=4, base=300, components=64),
        contrastive=dict(kind="nt-xent", tau=0.2),
        clustering=dict(dam=0.0, neutral=1.0),
    ),
    heads=dict(random=32, starts=(), choose=0.7),
    step1=STAGE_OF_IMAGES | dict(iterations=100, settle=0.0),
    step2=STAGE_OF_IMAGES | dict(iterations=3000, settle=0.0),
    scaling="pixels",
)

# Seconds instead of minutes, for tests and first tries. SMOKE_IMAGES comes after LARGE_IMAGES, and uses a small MLP.
SMOKE: Changes = dict(
    net=dict(hidden=(32, 32)),
    sampler=dict(steps=3, buffer_size=400),
    dam=dict(steps=3),
    heads=dict(random=4, neutral=16),
    start=dict(nodes=40, walks=2, repeats=3),
    step1=dict(iterations=60, batch_size=128, average=0.9),
    step2=dict(iterations=60, batch_size=128, average=0.9, learning_rate=3e-3),
)
SMOKE_IMAGES: Changes = dict(
    net=dict(encoder="mlp", hidden=(32, 32), first="linear", representation=8),
    sampler=dict(steps=2, buffer_size=200),
    augment=dict(resize=1.0),
    heads=dict(random=4, neutral=16),
    start=dict(repeats=3),
    step1=dict(iterations=30, batch_size=64, average=0.9),
    step2=dict(iterations=60, batch_size=64, average=0.9),
)

# What the paper's settings have in common, as literally as possible (Appendix G): none of our safeguards.
STAGE_OF_PAPER = dict(settle=0.0, warmup=0, decay_from=1.0, average=0.0)
UNBOUNDED = dict(max_drift=None, burn_in=None, max_gap=None)
PAPER: Changes = dict(
    net=dict(head="projector", walls=False),
    sampler=UNBOUNDED | dict(noise=0.01, final_noise=0.01, step=1.0, buffer_size=10_000, from_data=0.0),
    dam=dict(radius=0.03, max_drop=None, every=1),
    augment=dict(noise=0.03, both=False, neighbours=0),
    objective=dict(
        generative=dict(size=0.0, every=1),
        negative_free=dict(kind="gaussian"),
        clustering=dict(kind="sinkhorn", weight=1000.0, dam=500.0),
    ),
    heads=dict(random=1, starts=(), neutral=0, choose=1.0),
)
# Synthetic data (Sec. 5.1), for 400 rows. What the paper does not state is as in the code it builds on (VERA): chains
# start in U(-1, 1) and are not clamped, and the energy's slope on data is penalised.
PAPER_TOY: Changes = dict(
    net=dict(representation=2, embedding=2, projector_hidden=4, activation="leaky_relu", first="linear"),
    sampler=dict(steps=1, data_noise=0.0, restart_within=1.0, clamp=False),
    objective=dict(generative=dict(gradient=0.1)),
    step1=STAGE_OF_PAPER | dict(iterations=7000, learning_rate=1e-3, betas=(0.0, 0.9)),
    step2=STAGE_OF_PAPER | dict(iterations=7000, batch_size=400, learning_rate=1e-3),
    scaling="none",
)
# JEM on synthetic data, from its list in Appendix G; for --method jem.
PAPER_JEM: Changes = dict(net=dict(representation=1), step1=dict(iterations=100_000), step2=dict(iterations=0))


def paper_images(width: int, *, iterations: int, batch_size: int = 64, steps: int = 20, **augment: Any) -> Changes:
    """A column of the paper's table of hyper-parameters for images."""
    stage = STAGE_OF_PAPER | dict(iterations=iterations, batch_size=batch_size, learning_rate=1e-4)
    return dict(
        net=dict(encoder="resnet8", representation=width, embedding=width, projector_hidden=2 * width),
        # The buffer starts from U(-1, 1) and data are shown with a little noise, as in the code the paper builds on.
        sampler=dict(steps=steps, box_margin=0.0, data_noise=0.03),
        # The table says 'Random crop: Yes' and gives no strengths for the jitter: 4 pixels, and our defaults for the
        # strengths, are those of the code it builds on.
        augment=dict(crop=4, jitter=0.1, gray=0.1) | augment,
        step1=stage,
        step2=stage,
        guard=dict(max_at_box=1.0),  # black and white lie on the box: reaching it is not a symptom
        scaling="pixels",
    )


PRESETS: dict[str, tuple[Changes, ...]] = {
    "toy": (),
    "rows": (WIDE_ROWS,),
    "digits": (WIDE_ROWS, DIGITS),
    "grey": (WIDE_ROWS, DIGITS, GREY),
    "smoke": (SMOKE,),
    "paper": (PAPER, PAPER_TOY),
    "paper-jem": (PAPER, PAPER_TOY, PAPER_JEM),
    "images": (LARGE_IMAGES,),
    "paper-svhn": (PAPER, paper_images(128, iterations=100_000)),
    "paper-cifar10": (PAPER, paper_images(128, iterations=70_000, flip=True)),
    "paper-cifar100": (PAPER, paper_images(256, iterations=70_000, flip=True)),
    # The table's column 'Addition': 5 epochs of 10,000 triplets, 20 of them in a batch.
    "paper-mnist": (PAPER, paper_images(128, iterations=2_500, batch_size=60, steps=10, noise=0.3)),
}


def preset(
    name: str | None, *, n_features: int, image_shape: tuple[int, ...] | None = None, has_words: bool = False
) -> TrainingConfig:
    """Settings by name, or by the data's shape if ``name`` is None; ``has_words``: some features are categories."""
    from gedi.training.config import TrainingConfig, override

    if name is None:
        name = _by_shape(n_features, image_shape, has_words)
    if name not in PRESETS:
        raise ConfigError(f"There is no preset {name!r}{did_you_mean(name, PRESETS)}")
    if name == "smoke" and image_shape is not None and min(image_shape[:2]) > SMALL_SIDE:
        return override(TrainingConfig(), LARGE_IMAGES, SMOKE_IMAGES)
    config = override(TrainingConfig(), *PRESETS[name])
    if name in ("digits", "grey") and image_shape is not None:
        config.augment.shift = SHIFT + SHIFT_OF_SIDE * min(image_shape[:2])
    fitting = max(config.step1.batch_size, BUFFER_NUMBERS // n_features)
    config.sampler.buffer_size = min(config.sampler.buffer_size, fitting)
    return config


def _by_shape(n_features: int, image_shape: tuple[int, ...] | None, has_words: bool) -> str:
    if image_shape is None:  # a walk cannot get from one category to the next, however few features there are
        return "toy" if n_features <= FEW_FEATURES and not has_words else "rows"
    if min(image_shape[:2]) <= SMALL_SIDE:
        return "digits"
    return "grey" if image_shape[2] == 1 and n_features <= FEW_PIXELS else "images"


def configure(
    name: str | None,
    method: str,
    *changes: Changes,
    n_features: int,
    image_shape: tuple[int, ...] | None = None,
    has_words: bool = False,
) -> TrainingConfig:
    """The settings of a run: a preset, turned into a method, with changes on top."""
    from gedi.training.config import override
    from gedi.training.encoder_registry import check_encoder

    config = with_method(preset(name, n_features=n_features, image_shape=image_shape, has_words=has_words), method)
    weight = CONSTRAINT_WEIGHTS.get(name or "")
    config = override(config, *changes, added={} if weight is None else {"symbolic": {"weight": weight}})
    check_encoder(config.net, n_features, image_shape)
    if "symbolic" in config.objective and not config.step2.iterations:
        raise ConfigError(f"A constraint acts in step 2, but step 2 has no iterations here (method {method}).")
    if method == "jem" and config.step2.iterations:
        raise ConfigError("The method jem is step 1 alone: leave training.step2.iterations at 0.")
    return config
