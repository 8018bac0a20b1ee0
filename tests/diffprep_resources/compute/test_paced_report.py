import pytest

from diffprep_resources.compute import paced_report
from diffprep_resources.compute.paced_report import PacedReport, Told


def test_many_samples_make_few_messages_and_none_is_lost():
    sent: list[Told] = []
    report = PacedReport(sent.append, "cpu")
    for number in range(10_000):
        report(1, 1 if number % 100 == 0 else 0)
    report.flush()
    report.flush()
    assert sum(done for done, _, _ in sent) == 10_000
    assert sum(rejected for _, rejected, _ in sent) == 100
    assert len(sent) < 100


def test_memory_is_looked_at_now_and_then_only(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(paced_report, "EVERY_S", 0.0)
    sent: list[Told] = []
    report = PacedReport(sent.append, "cpu")
    for _ in range(50):
        report(1)
    memory = [each for _, _, each in sent if each is not None]
    assert len(sent) == 50
    assert len(memory) == 1
    assert memory[0].used_bytes > 1_000_000
