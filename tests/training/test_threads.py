import pytest
import torch

from gedi.training import fit
from gedi.training.config import NetConfig
from gedi.training.threads import threads_for


@pytest.fixture(autouse=True)
def _two_threads(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("encoder", "said", "expected"), [("mlp", None, 1), ("mlp", "2", 2), ("resnet8", None, 2), ("resnet8", "2", 2)]
)
def test_small_nets_get_one_thread_unless_the_user_says_otherwise(monkeypatch, encoder, said, expected):
    if said:
        monkeypatch.setenv("OMP_NUM_THREADS", said)
    with pytest.raises(KeyError), threads_for(NetConfig(encoder=encoder)):
        assert torch.get_num_threads() == expected
        raise KeyError  # the number comes back in any case
    assert torch.get_num_threads() == 2


def test_fits_and_predictions_follow_the_rule_and_give_the_threads_back(monkeypatch, tiny, blobs):
    seen = []

    def counted(function):
        return lambda x: seen.append(torch.get_num_threads()) or function(x)

    monkeypatch.setattr(fit, "train", counted(fit.train))
    model = fit.fit_rows(blobs, n_clusters=2, config=tiny(), seed=0)
    monkeypatch.setattr(model._frozen, "log_density", counted(model._frozen.log_density))
    model.score_samples(blobs)
    assert seen == [1, 1] and torch.get_num_threads() == 2
