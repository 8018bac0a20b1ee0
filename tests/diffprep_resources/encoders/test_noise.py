import torch

from diffprep_resources.encoders.noise import sample_noise, sample_seed


def test_a_rows_noise_does_not_depend_on_the_batch() -> None:
    together = sample_noise((16, 8, 8), seed=3, sample_ids=[5, 9, 2**40, -1])
    for row, sample_id in enumerate([5, 9, 2**40, -1]):
        assert torch.equal(
            sample_noise((16, 8, 8), seed=3, sample_ids=[sample_id])[0], together[row]
        )


def test_noise_is_float32_and_standard_normal() -> None:
    noise = sample_noise((16, 64, 64), seed=0, sample_ids=range(4))
    assert noise.dtype == torch.float32
    assert abs(noise.mean().item()) < 0.01
    assert abs(noise.std().item() - 1) < 0.01


def test_neighbouring_ids_have_unrelated_noise() -> None:
    rows = sample_noise((16 * 64 * 64,), seed=0, sample_ids=range(6))
    correlations = torch.corrcoef(rows) - torch.eye(6)
    assert correlations.abs().max().item() < 0.02


def test_no_two_samples_share_a_seed_and_the_global_generator_is_left_alone() -> None:
    assert len({sample_seed(7, sample_id=number) for number in range(100_000)}) == 100_000
    assert sample_seed(7, sample_id=1) != sample_seed(8, sample_id=1)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    sample_noise((4, 4), seed=0, sample_ids=[1])
    assert torch.equal(torch.get_rng_state(), before)


def test_the_seed_of_a_sample_stays_the_same_in_every_release() -> None:
    assert [sample_seed(0, sample_id=number) for number in (0, 1, -1)] == [
        772865347,
        3427301108,
        2413396882,
    ]
