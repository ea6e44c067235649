import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import KernelDensity
from torch.autograd import gradcheck
from torch.nn import functional as F

from gedi.objectives.bounds import infonce_bound, prototypical_critic
from gedi.objectives.contrastive import (
    SIMILARITIES,
    contrastive_log_density,
    contrastive_log_likelihood,
    info_nce_loss,
    instance_log_probs,
    negative_squared_distance,
    nt_xent_loss,
    protocpc_bound,
    similarity_logits,
    teacher_marginal,
    teacher_probabilities,
)

NAMES = sorted(SIMILARITIES)

DISTANCE = "negative_squared_distance"


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def rows(n=12, h=4, seed=0, dtype=torch.float64):
    return torch.randn(n, h, generator=gen(seed), dtype=dtype)


def numpy_similarity(name, a, b):
    a, b = np.asarray(a), np.asarray(b)
    return {
        "dot": a @ b,
        "cosine": a @ b / math.sqrt((a @ a) * (b @ b)),
        "negative_squared_distance": -sum((s - t) ** 2 for s, t in zip(a, b, strict=True)),
    }[name]


# Similarities


@pytest.mark.parametrize("name", NAMES)
def test_similarities_are_those_of_every_pair(name):
    z, other = rows(5, seed=1), rows(3, seed=2)
    expected = [[numpy_similarity(name, a, b) for b in other.numpy()] for a in z.numpy()]
    assert np.allclose(SIMILARITIES[name](z, other).numpy(), expected)


@pytest.mark.parametrize("name", NAMES)
def test_similarities_have_the_gradient_of_finite_differences(name):
    assert gradcheck(SIMILARITIES[name], (rows(4, seed=1).requires_grad_(), rows(3, seed=2).requires_grad_()))


def test_distances_far_from_the_origin_do_not_cancel():
    z, other = rows(20, seed=1, dtype=torch.float32), rows(20, seed=2, dtype=torch.float32)
    far = negative_squared_distance(z + 1000, other + 1000)
    # What is left is the rounding of z + 1000 itself; |a|^2 - 2ab + |b|^2 about the origin would be off by 0.5.
    assert torch.allclose(far, negative_squared_distance(z, other), atol=5e-3)


def test_between_unit_vectors_distance_is_twice_the_cosine_less_two():
    z, other = F.normalize(rows(seed=1), dim=1), F.normalize(rows(seed=2), dim=1)
    assert torch.allclose(negative_squared_distance(z, other), 2 * SIMILARITIES["cosine"](z, other) - 2)


def test_an_unknown_similarity_is_an_error_that_names_the_known():
    with pytest.raises(ValueError, match=r"manhattan.*dot, cosine, negative_squared_distance"):
        info_nce_loss(rows(), rows(), similarity="manhattan", tau=0.1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_worked_out_in_float32(name, dtype):
    z, z_view = rows(seed=1).to(dtype), rows(seed=2).to(dtype)
    wide = nt_xent_loss(z.float(), z_view.float(), similarity=name, tau=0.5)
    assert torch.equal(nt_xent_loss(z, z_view, similarity=name, tau=0.5), wide)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(nt_xent_loss(z.float(), z_view.float(), similarity=name, tau=0.5), wide)


# L_CT and InfoNCE


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 999), n=st.integers(2, 20), tau=st.floats(0.05, 2), name=st.sampled_from(NAMES))
def test_l_ct_is_infonce_where_z_is_g_of_x(seed, n, tau, name):
    # p(x, z) = p(x) delta(z - g(x)) and f(x, z) = sim(g(x), z) / tau: z is the embedding itself.
    embeddings = rows(n, seed=seed)
    critic = similarity_logits(embeddings, embeddings.clone(), tau=tau, similarity=name)
    likelihood = contrastive_log_likelihood(embeddings, tau=tau, similarity=name)
    # InfoNCE divides by a mean and averages over samples, L_CT divides by a sum and adds them up.
    assert torch.allclose(likelihood, n * (infonce_bound(critic) - math.log(n)))


@pytest.mark.parametrize("name", NAMES)
def test_l_ct_equals_equations_1_and_2(name):
    z, other, tau = rows(6, seed=1), rows(6, seed=2), 0.7
    total = 0.0
    for i in range(6):
        weights = [math.exp(numpy_similarity(name, other[j], z[i]) / tau) for j in range(6)]
        total += math.log(weights[i] / sum(weights))
    assert float(contrastive_log_likelihood(z, other, tau=tau, similarity=name)) == pytest.approx(total)


@pytest.mark.parametrize("name", ["cosine", "negative_squared_distance"])
def test_without_views_l_ct_only_pushes_samples_apart(name):
    together, apart = torch.ones(4, 4, dtype=torch.float64), torch.eye(4, dtype=torch.float64)
    # The worst value, where all samples coincide, is log 1/n each: views are what pulls anything together.
    assert float(contrastive_log_likelihood(together, similarity=name, tau=0.1)) == pytest.approx(-4 * math.log(4))
    assert contrastive_log_likelihood(apart, similarity=name, tau=0.1) > contrastive_log_likelihood(
        together, similarity=name, tau=0.1
    )


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), n=st.integers(2, 20), tau=st.floats(0.05, 2), name=st.sampled_from(NAMES))
def test_info_nce_loss_is_never_negative(seed, n, tau, name):
    assert info_nce_loss(rows(n, seed=seed), rows(n, seed=seed + 1), tau=tau, similarity=name) >= 0


def test_info_nce_loss_is_log_n_for_equal_embeddings_and_small_for_matched_ones():
    collapsed = torch.ones(8, 4, dtype=torch.float64)
    assert float(info_nce_loss(collapsed, collapsed, tau=0.1, similarity="cosine")) == pytest.approx(math.log(8))
    matched = torch.eye(8, dtype=torch.float64)
    assert info_nce_loss(matched, matched, tau=0.05, similarity="cosine") < 1e-6
    assert info_nce_loss(matched, matched.roll(1, 0), tau=0.05, similarity="cosine") > 10


@pytest.mark.parametrize("name", NAMES)
def test_contrastive_losses_have_the_gradient_of_finite_differences(name):
    z, z_view = rows(5, seed=1).requires_grad_(), rows(5, seed=2).requires_grad_()
    for loss in (contrastive_log_likelihood, info_nce_loss, nt_xent_loss):
        assert gradcheck(lambda a, b, loss=loss: loss(a, b, tau=0.7, similarity=name), (z, z_view))
    assert gradcheck(lambda a: contrastive_log_likelihood(a, tau=0.7, similarity=name), z)


# NT-Xent


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 999), n=st.integers(1, 8), tau=st.floats(0.1, 1))
def test_nt_xent_equals_simclrs_algorithm_1(seed, n, tau):
    # Rows 2k - 1 and 2k are the views of sample k; l(i, j) leaves out only i itself.
    z, z_view = rows(n, seed=seed), rows(n, seed=seed + 1)
    mixed = [row for pair in zip(z.numpy(), z_view.numpy(), strict=True) for row in pair]

    def pair_loss(i, j):
        others = [math.exp(numpy_similarity("cosine", mixed[i], mixed[k]) / tau) for k in range(2 * n) if k != i]
        return -math.log(math.exp(numpy_similarity("cosine", mixed[i], mixed[j]) / tau) / sum(others))

    expected = sum(pair_loss(2 * k, 2 * k + 1) + pair_loss(2 * k + 1, 2 * k) for k in range(n)) / (2 * n)
    assert float(nt_xent_loss(z, z_view, tau=tau, similarity="cosine")) == pytest.approx(expected, abs=1e-10)
    single = float(nt_xent_loss(z.float(), z_view.float(), tau=tau, similarity="cosine"))
    assert single == pytest.approx(expected, abs=1e-5)


def test_nt_xent_is_symmetric_and_blind_to_the_order_of_samples():
    z, z_view, order = rows(seed=1), rows(seed=2), torch.randperm(12, generator=gen())
    loss = nt_xent_loss(z, z_view, tau=0.5, similarity="cosine")
    assert torch.allclose(loss, nt_xent_loss(z_view, z, tau=0.5, similarity="cosine"))
    assert torch.allclose(loss, nt_xent_loss(z[order], z_view[order], tau=0.5, similarity="cosine"))


# ProtoCPC


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 9999),
    n=st.integers(1, 16),
    c=st.integers(2, 8),
    tau=st.floats(0.05, 2),
    teacher_tau=st.floats(0.02, 2),
)
def test_protocpc_never_exceeds_infonce_with_the_batch_marginal(seed, n, c, tau, teacher_tau):
    scores, teacher = rows(n, c, seed), teacher_probabilities(rows(n, c, seed + 1), tau=teacher_tau)
    infonce = infonce_bound(prototypical_critic(scores, teacher, tau=tau))
    assert protocpc_bound(scores, teacher, teacher_marginal(teacher), tau=tau) <= infonce + 1e-10


def test_protocpc_equals_infonce_for_a_certain_teacher_and_is_below_otherwise():
    scores = rows(20, 5, 1)
    certain = F.one_hot(torch.arange(20) % 5, 5).double()
    doubtful = teacher_probabilities(rows(20, 5, 2), tau=1.0)
    for teacher, gap in ((certain, 0.0), (doubtful, 1e-2)):
        infonce = infonce_bound(prototypical_critic(scores, teacher, tau=0.5))
        lack = float(infonce - protocpc_bound(scores, teacher, teacher_marginal(teacher), tau=0.5))
        assert lack == pytest.approx(0, abs=1e-12) if gap == 0 else lack > gap


def test_with_a_running_marginal_protocpc_may_exceed_infonce():
    # Jensen's step in App. D needs q to be the mean of this batch's p; another q can be small just where it counts.
    scores, teacher = torch.tensor([[2.0, 0.0]]).double(), torch.tensor([[1.0, 0.0]]).double()
    stale = torch.tensor([0.1, 0.9]).double()
    assert (
        protocpc_bound(scores, teacher, stale, tau=0.1)
        > infonce_bound(prototypical_critic(scores, teacher, tau=0.1)) + 1
    )


def test_critic_and_bound_equal_appendix_d_term_by_term():
    scores, p, tau = rows(6, 3, 1), teacher_probabilities(rows(6, 3, 2), tau=0.5), 0.4
    s = np.exp(scores.numpy() / tau)
    log_student = np.log(s / s.sum(1, keepdims=True))
    expected = [[sum(p[k, c] * log_student[i, c] for c in range(3)) for i in range(6)] for k in range(6)]
    assert np.allclose(prototypical_critic(scores, p, tau=tau).numpy(), expected)
    q = [float(sum(p[k, c] for k in range(6))) / 6 for c in range(3)]
    bound = 0.0
    for i in range(6):
        top = math.exp(sum(float(p[i, c] * scores[i, c]) / tau for c in range(3)))
        bound += math.log(top / sum(q[c] * s[i, c] for c in range(3))) / 6
    assert float(protocpc_bound(scores, p, teacher_marginal(p), tau=tau)) == pytest.approx(bound)


def test_teacher_is_a_softmax_and_its_marginal_the_batch_mean():
    scores = rows(6, 3)
    p = teacher_probabilities(scores, tau=0.2)
    assert torch.allclose(p, torch.exp(5 * scores) / torch.exp(5 * scores).sum(1, keepdim=True))
    assert torch.equal(teacher_marginal(p), p.mean(0))
    assert teacher_probabilities(scores, tau=0.02).max(1).values.mean() > p.max(1).values.mean()


def test_a_prototype_the_teacher_overuses_earns_less():
    scores, teacher = torch.tensor([[3.0, 0.0]]), torch.tensor([[1.0, 0.0]])
    rare, common = torch.tensor([0.1, 0.9]), torch.tensor([0.9, 0.1])
    assert protocpc_bound(scores, teacher, rare, tau=0.1) > protocpc_bound(scores, teacher, common, tau=0.1)


def test_protocpc_has_the_gradient_of_finite_differences():
    scores, teacher_scores = rows(5, 3, 1).requires_grad_(), rows(5, 3, 2).requires_grad_()

    def loss(s, t):
        p = teacher_probabilities(t, tau=0.5)
        return protocpc_bound(s, p, teacher_marginal(p), tau=0.7)

    assert gradcheck(loss, (scores, teacher_scores))
    assert gradcheck(lambda s, t: prototypical_critic(s, torch.softmax(t, 1), tau=0.7), (scores, teacher_scores))


# The energy of a contrastive model


@pytest.mark.parametrize("name", NAMES)
def test_joint_less_marginal_is_the_conditional_of_equation_1(name):
    z, bank, tau = rows(5, seed=1), rows(7, seed=2), 0.6
    joint = similarity_logits(z, bank, tau=tau, similarity=name)  # log p(l, x) + log Gamma
    marginal = contrastive_log_density(z, bank, tau=tau, similarity=name)  # log p(x) + log Gamma
    assert torch.allclose(joint - marginal[:, None], instance_log_probs(z, bank, tau=tau, similarity=name))


def test_ebclrs_energy_is_minus_the_log_of_a_sum_of_gaussians():
    z, bank, tau = rows(5, seed=1), rows(7, seed=2), 0.6
    for row, value in zip(
        z.numpy(),
        contrastive_log_density(z, bank, tau=tau, similarity=DISTANCE).tolist(),
        strict=True,
    ):
        energy = -math.log(sum(math.exp(-float(((row - b) ** 2).sum()) / tau) for b in bank.numpy()))
        assert value == pytest.approx(-energy)


def test_with_the_identity_as_encoder_it_is_a_kernel_density():
    # exp(-|z - b|^2 / tau) is a Gaussian of variance tau / 2, so Gamma is n (pi tau)^(h / 2).
    x, bank, tau = rows(50, 2, 1), rows(30, 2, 2), 0.3
    log_gamma = math.log(30) + math.log(math.pi * tau)
    expected = KernelDensity(bandwidth=math.sqrt(tau / 2)).fit(bank.numpy()).score_samples(x.numpy())
    assert np.allclose(
        (contrastive_log_density(x, bank, tau=tau, similarity=DISTANCE) - log_gamma).numpy(),
        expected,
    )


def test_for_unit_vectors_ebclrs_energy_is_the_cosine_energy_at_half_the_temperature():
    z, bank = F.normalize(rows(seed=1), dim=1), F.normalize(rows(seed=2), dim=1)
    by_distance = contrastive_log_density(z, bank, tau=0.4, similarity=DISTANCE)
    by_cosine = contrastive_log_density(z, bank, tau=0.2, similarity="cosine")
    assert torch.allclose(by_distance, by_cosine - 2 / 0.4)


@pytest.mark.parametrize("name", NAMES)
def test_log_density_has_the_gradient_of_finite_differences(name):
    z, bank = rows(4, seed=1).requires_grad_(), rows(5, seed=2).requires_grad_()
    assert gradcheck(lambda a, b: contrastive_log_density(a, b, tau=0.7, similarity=name), (z, bank))
    assert gradcheck(lambda a, b: instance_log_probs(a, b, tau=0.7, similarity=name), (z, bank))
