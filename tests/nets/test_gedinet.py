from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from gedi.nets import GediNet, LinearHeads, MLPEncoder, Projector, Prototypes, score
from gedi.nets.gedinet import energy_density

new_net = partial(GediNet, head="projector", density=energy_density)


def toy_net(seed=0, *, two=False, **encoder):
    """The paper's toy network: 2-100-100-2, projectors 2-4-2."""
    torch.manual_seed(seed)

    def make():
        return MLPEncoder(2, [100, 100], 2, "leaky_relu", **encoder)

    return new_net(
        make(),
        representation=2,
        embedding=2,
        projector_hidden=4,
        n_clusters=2,
        energy_encoder=make() if two else None,
    )


def points(n=32, d=2, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


def touched(module):
    return any(p.grad is not None and bool((p.grad != 0).any()) for p in module.parameters())


def count(module):
    return sum(p.numel() for p in module.parameters())


# Sizes


def test_the_papers_toy_network_has_its_parameters():
    net = toy_net()
    assert count(net.encoder) == (2 * 100 + 100) + (100 * 100 + 100) + (100 * 2 + 2)
    assert count(net.energy_head) == 2  # u, without a bias
    assert count(net.projector) == count(net.nf_projector) == (2 * 4 + 2 * 4) + (4 * 2 + 2 * 2)
    assert count(net.clusters) == 2 * 2
    assert count(net) == 10_602 + 2 + 2 * 28 + 4
    assert count(toy_net(two=True)) == count(net) + 10_602


def test_outputs_have_their_shapes():
    torch.manual_seed(0)
    net = new_net(MLPEncoder(5, [16], 8), representation=8, embedding=3, projector_hidden=6, n_clusters=4)
    x = points(7, 5)
    assert net.encoder(x).shape == (7, 8)
    assert net.log_density(x).shape == (7,)
    assert net.embed(x).shape == (7, 3)
    assert net.nf_projector(net.encoder(x)).shape == (7, 3)
    assert net.scores(x).shape == net(x).shape == (7, 4)


# Heads


@pytest.mark.parametrize("training", [True, False])
def test_projector_ends_on_the_unit_sphere(training):
    net = toy_net()
    net(points(seed=1))  # batch norm has seen data once
    net.train(training)
    assert torch.allclose(net.embed(points()).norm(dim=1), torch.ones(32), atol=1e-5)


def test_negative_free_projector_does_not():
    net = toy_net()
    lengths = net.nf_projector(net.encoder(points())).norm(dim=1)
    assert lengths.std() > 0.1


@pytest.mark.parametrize("normalise", [True, False])
def test_every_linear_layer_of_the_projector_is_followed_by_batch_norm(normalise):
    layers = list(Projector(5, 7, 3, normalise=normalise).layers)
    after = [type(b) for a, b in zip(layers, [*layers[1:], None], strict=True) if isinstance(a, nn.Linear)]
    assert after == [nn.BatchNorm1d, nn.BatchNorm1d]


def test_batch_norm_standardises_the_projectors_output():
    torch.manual_seed(0)
    z = Projector(5, 7, 3, normalise=False)(points(64, 5))
    assert torch.allclose(z.mean(0), torch.zeros(3), atol=1e-5)
    assert torch.allclose(z.var(0, correction=0), torch.ones(3), atol=1e-2)


def test_batch_norm_undoes_a_shift_of_the_representation():
    torch.manual_seed(0)
    projector, h = Projector(5, 7, 3, normalise=False), points(64, 5)
    assert torch.allclose(projector(h + 10), projector(h), atol=1e-4)


def test_in_eval_mode_scores_do_not_depend_on_the_other_rows():
    net, x = toy_net().eval(), points()
    assert torch.allclose(net.scores(x)[:3], net.scores(x[:3]), atol=1e-5)


def test_the_two_projectors_share_nothing():
    net = toy_net()
    one, two = ({id(p) for p in head.parameters()} for head in (net.projector, net.nf_projector))
    assert not one & two


# Cluster heads


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 999), lr=st.floats(1e-3, 1e3), optimiser=st.sampled_from([torch.optim.SGD, torch.optim.Adam])
)
def test_prototypes_stay_on_the_unit_sphere_whatever_the_optimiser_does(seed, lr, optimiser):
    torch.manual_seed(seed)
    prototypes = Prototypes(2, 5, 3)
    steps = optimiser(prototypes.parameters(), lr=lr)
    before = prototypes.centres.detach()
    for k in range(5):
        steps.zero_grad()
        (prototypes.all_scores(points(16, 3, seed + k)) ** 3).sum().backward()
        steps.step()
    assert torch.allclose(prototypes.centres.norm(dim=2), torch.ones(2, 5), atol=1e-5)
    assert all(not torch.allclose(now, old, atol=1e-6) for now, old in zip(prototypes.centres, before, strict=True))


def test_scores_of_prototypes_are_cosines():
    net, x = toy_net(), points()
    with torch.no_grad():
        net.clusters.directions.mul_(torch.tensor([[3.0], [0.1]]))
    expected = nn.functional.cosine_similarity(net.embed(x)[:, None], net.clusters.directions[0], dim=2)
    assert torch.allclose(net.scores(x), expected, atol=1e-5)


HEADS = pytest.mark.parametrize("kind", [LinearHeads, Prototypes])


def heads_of(kind, n_heads=3, n_clusters=4, size=5):
    """Heads whose weights, biases too, are all different."""
    torch.manual_seed(0)
    heads = kind(n_heads, n_clusters, size)
    with torch.no_grad():
        for parameter in heads.parameters():
            parameter.normal_()
    return heads


@HEADS
def test_all_heads_score_every_row_and_the_chosen_one_answers(kind):
    heads, z = heads_of(kind), points(7, 5)
    scores = heads.all_scores(z)
    assert scores.shape == (3, 7, 4)
    for chosen in range(3):
        heads.chosen.fill_(chosen)
        torch.testing.assert_close(heads(z), scores[chosen])
    assert all(not torch.allclose(scores[i], scores[j]) for i, j in ((0, 1), (0, 2), (1, 2)))


def test_linear_heads_are_linear_layers_side_by_side():
    heads, z = heads_of(LinearHeads), points(7, 5)
    for scores, weight, bias in zip(heads.all_scores(z), heads.weight, heads.bias, strict=True):
        torch.testing.assert_close(scores, z @ weight.T + bias)


@HEADS
def test_heads_start_differently_and_the_first_is_chosen(kind):
    torch.manual_seed(0)
    heads = kind(3, 4, 5)
    scores = heads.all_scores(points(7, 5))
    assert int(heads.chosen) == 0 and "chosen" in heads.state_dict()
    assert not torch.allclose(scores[0], scores[1]) and not torch.allclose(scores[1], scores[2])


@HEADS
def test_a_head_feels_no_gradient_of_another(kind):
    heads = heads_of(kind)
    heads.all_scores(points(7, 5))[1].sum().backward()
    for parameter in heads.parameters():
        assert parameter.grad[1].abs().max() > 0 and (parameter.grad[[0, 2]] == 0).all()


@HEADS
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), size=st.integers(2, 8))
def test_placed_clusters_are_those_of_the_nearest_centre(kind, seed, size):
    heads = heads_of(kind, size=size)
    z, centres = points(50, size, seed), points(4, size, seed + 1000)
    if kind is Prototypes:  # they live on the sphere
        z, centres = nn.functional.normalize(z), nn.functional.normalize(centres)
    heads.place(centres)
    nearest = torch.cdist(z.double(), centres.double()).argmin(1)
    for scores in heads.all_scores(z):
        assert torch.equal(scores.argmax(1), nearest)


@HEADS
def test_fewer_centres_than_clusters_leave_the_others_as_they_were(kind):
    heads, z = heads_of(kind), points(7, 5)
    before = heads.all_scores(z)
    heads.place(points(2, 5, seed=3))
    after = heads.all_scores(z)
    assert torch.equal(after[..., 2:], before[..., 2:]) and not torch.allclose(after[..., :2], before[..., :2])


# Energy


@pytest.mark.parametrize("two", [False, True])
def test_log_density_is_u_times_the_representation(two):
    net, x = toy_net(two=two), points()
    encoder = net.own_energy_encoder if two else net.encoder
    expected = encoder(x) @ net.energy_head.weight[0]
    assert torch.allclose(net.log_density(x), expected, atol=1e-6)


@pytest.mark.parametrize("n", [1, 2])
def test_log_density_gives_one_value_per_row_for_few_rows(n):
    assert toy_net().log_density(points(n)).shape == (n,)


@pytest.mark.parametrize("frequency", [None, 2.0])
@pytest.mark.parametrize("part", ["encoder", "log_density"])
def test_a_point_does_not_feel_the_other_rows_of_its_batch(part, frequency):
    function, x = getattr(toy_net(frequency=frequency).train(), part), points()
    whole = function(x)
    changed = x.clone()
    changed[1:] = 100 * points(31, seed=5)
    assert torch.allclose(function(changed)[:1], whole[:1], atol=1e-5)
    assert torch.allclose(function(x[:1]), whole[:1], atol=1e-5)


def test_computing_the_energy_changes_no_state():
    net = toy_net().train()
    before = {k: v.clone() for k, v in net.state_dict().items()}
    net.log_density(points())
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())


def test_waves_are_bounded_and_trained():
    torch.manual_seed(0)
    encoder = MLPEncoder(2, [50], 3, frequency=3.0)
    waves = encoder.activations[0](encoder.linears[0](100 * points()))
    assert waves.shape == (32, 50) and waves.abs().max() <= 1
    encoder(points()).sum().backward()
    assert touched(encoder.linears[0])
    assert float(encoder.linears[0].weight.detach().std()) == pytest.approx(3.0, rel=0.3)  # 100 draws


def test_leaky_relus_have_the_slope_of_the_papers_table():
    (activation,) = MLPEncoder(2, [20], 3, "leaky_relu").activations
    x = torch.tensor([-2.0, 0.0, 3.0])
    assert torch.allclose(activation(x), torch.tensor([-0.4, 0.0, 3.0]))


@pytest.mark.parametrize("activation", ["silu", "leaky_relu"])
@pytest.mark.parametrize("frequency", [None, 3.0])
@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("norm", ["none", "layer"])
def test_closed_form_score_equals_autograd(activation, frequency, two, norm):
    torch.manual_seed(0)
    encoders = [MLPEncoder(2, [20, 10], 3, activation, frequency=frequency, norm=norm) for _ in range(2)]
    for scale in [p for encoder in encoders for name, p in encoder.named_parameters() if name.startswith("norms")]:
        nn.init.uniform_(scale, 0.5, 2.0)
    net = new_net(
        encoders[0],
        representation=3,
        embedding=3,
        projector_hidden=4,
        n_clusters=2,
        energy_encoder=encoders[1] if two else None,
    ).double()
    x = points().double()
    assert torch.allclose(net.score(x), score(net.log_density, x), atol=1e-12)


@pytest.mark.parametrize("frequency", [None, 3.0])
@pytest.mark.parametrize("features", [1, 15, 16, 40])
def test_closed_form_score_equals_autograd_for_any_number_of_columns(features, frequency):
    torch.manual_seed(0)
    encoder = MLPEncoder(features, [20, 10, 5], 3, frequency=frequency, norm="layer").double()
    x, direction = points(7, features).double(), points(1, 3)[0].double()
    expected = score(lambda x: encoder(x) @ direction, x)
    assert torch.allclose(encoder.input_gradient(x, direction), expected, atol=1e-12)


def test_layer_norm_comes_before_every_activation_but_the_waves():
    plain, waves = (MLPEncoder(2, [20, 10], 3, frequency=f, norm="layer") for f in (None, 3.0))
    seen = [encoder.norms[i](100 * points(7, (20, 10)[i])).norm(dim=1) for encoder in (plain, waves) for i in (0, 1)]
    for i in (0, 1, 3):  # a normed row of n numbers has length sqrt(n)
        assert torch.allclose(seen[i], torch.full((7,), (20, 10, 20, 10)[i] ** 0.5), rtol=1e-3)
    assert count(waves.norms[0]) == 0 and not torch.allclose(seen[2], seen[0])
    assert not any(name.startswith("norms") for name in MLPEncoder(2, [20], 3).state_dict())


# Who learns from what


def test_one_encoder_learns_from_energy_and_clusters():
    net = toy_net()
    assert net.energy_encoder is net.encoder
    net.log_density(points()).sum().backward()
    assert touched(net.encoder)
    net.zero_grad()
    net.scores(points())[:, 0].sum().backward()
    assert touched(net.encoder)


def test_with_two_encoders_the_energy_does_not_reach_the_clusters():
    net = toy_net(two=True)
    assert net.energy_encoder is not net.encoder
    net.log_density(points()).sum().backward()
    assert touched(net.own_energy_encoder) and touched(net.energy_head)
    for part in (net.encoder, net.projector, net.nf_projector, net.clusters):
        assert all(p.grad is None for p in part.parameters())


def test_with_two_encoders_the_clusters_do_not_reach_the_energy():
    net = toy_net(two=True)
    net.scores(points())[:, 0].sum().backward()
    assert touched(net.encoder) and touched(net.projector) and touched(net.clusters)
    for part in (net.own_energy_encoder, net.energy_head, net.nf_projector):
        assert all(p.grad is None for p in part.parameters())


@pytest.mark.parametrize("two", [False, True])
def test_state_dict_round_trip_gives_the_same_numbers(two):
    net, other = toy_net(0, two=two), toy_net(1, two=two)
    net(points())  # moves the batch norms' running statistics
    other.load_state_dict(net.state_dict())
    x = points(seed=3)
    assert torch.equal(net.eval().scores(x), other.eval().scores(x))
    assert torch.equal(net.log_density(x), other.log_density(x))


def net_of(**options):
    torch.manual_seed(0)
    sizes = dict(representation=8, embedding=3, projector_hidden=6, n_clusters=4)
    return new_net(MLPEncoder(5, [16], 8), **sizes, **options)


def test_linear_heads_read_the_representation():
    net, x = net_of(head="linear", n_heads=2), points(7, 5)
    assert torch.equal(net.embed(x), net.encoder(x)) and count(net.clusters) == 2 * (4 * 8 + 4)
    net.clusters.chosen.fill_(1)
    torch.testing.assert_close(net.scores(x), net.clusters.all_scores(net.encoder(x))[1])
    net.scores(x)[:, 0].sum().backward()
    assert touched(net.encoder) and touched(net.clusters) and not touched(net.nf_projector)


def test_prototypes_may_lie_on_the_sphere_of_the_negative_free_projector():
    net, x = net_of(head="nf_projector"), points(7, 5)
    torch.testing.assert_close(net.embed(x), nn.functional.normalize(net.nf_projector(net.encoder(x))))
    net.scores(x)[:, 0].sum().backward()
    assert touched(net.nf_projector) and touched(net.clusters) and not touched(net.projector)


@pytest.mark.parametrize("head", ["linear", "projector", "nf_projector"])
def test_embeddings_of_representations_are_those_of_their_rows(head):
    net, x = net_of(head=head).eval(), points(7, 5)
    assert torch.equal(net.embedding_of(net.encoder(x)), net.embed(x))


def test_the_neutral_head_is_there_if_asked_for_and_has_no_say_in_the_clusters():
    net, x = net_of(head="linear", neutral=20), points(7, 5)
    assert net_of(head="linear").neutral is None
    assert net.neutral(net.encoder(x)).shape == (7, 20)
    before = net.scores(x)
    with torch.no_grad():
        net.neutral.weight.add_(1.0)
    assert torch.equal(net.scores(x), before)


def test_the_chosen_head_is_part_of_the_state():
    net, other = net_of(head="linear", n_heads=3), net_of(head="linear", n_heads=3)
    net.clusters.chosen.fill_(2)
    other.load_state_dict(net.state_dict())
    x = points(7, 5)
    torch.testing.assert_close(other.scores(x), net.clusters.all_scores(net.encoder(x))[2])
