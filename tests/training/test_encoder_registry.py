import pytest
import torch

from gedi.training import encoder_registry, fit
from gedi.training.build import prepare
from gedi.training.config import NetConfig
from gedi.training.encoder_registry import in_bfloat16, threads_for
from gedi.training.presets import configure


@pytest.fixture(autouse=True)
def _two_threads(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("net", "said", "expected"),
    [
        (NetConfig(), None, 1),
        (NetConfig(), "2", 2),
        (NetConfig(encoder="resnet8"), None, 2),
        (NetConfig(hidden=(600, 400)), None, 2),
    ],
)
def test_narrow_nets_get_one_thread_unless_the_user_says_otherwise(monkeypatch, net, said, expected):
    if said:
        monkeypatch.setenv("OMP_NUM_THREADS", said)
    with pytest.raises(KeyError), threads_for(net):
        assert torch.get_num_threads() == expected
        raise KeyError  # the number comes back in any case
    assert torch.get_num_threads() == 2


def test_fits_and_predictions_follow_the_rule_and_give_the_threads_back(monkeypatch, tiny, blobs):
    seen = []

    def counted(function):
        return lambda x: seen.append(torch.get_num_threads()) or function(x)

    monkeypatch.setattr(fit, "train", counted(fit.train))
    model = fit.fit_prepared(prepare(blobs, tiny(), 2), seed=0)
    monkeypatch.setattr(model.net, "log_density", counted(model.net.log_density))
    model.score_samples(blobs)
    assert seen == [1, 1] and torch.get_num_threads() == 2


@pytest.mark.parametrize(
    ("precision", "preset", "has_instructions", "expected"),
    [
        ("auto", "grey", True, True),
        ("auto", "grey", False, False),
        ("auto", "images", True, True),
        ("auto", "digits", True, False),  # narrow layers
        ("auto", "paper-svhn", True, False),  # contrastive divergence
        ("32", "grey", True, False),
        ("bf16-mixed", "digits", False, True),
    ],
)
def test_networks_train_in_bfloat16_where_it_is_faster_and_as_good(
    monkeypatch, precision, preset, has_instructions, expected
):
    monkeypatch.setattr(encoder_registry, "multiplies_bfloat16", lambda device: has_instructions)
    config = configure(preset, "gedi", n_features=784, image_shape=(28, 28, 1))
    assert in_bfloat16(precision, config, torch.device("cpu")) == expected
