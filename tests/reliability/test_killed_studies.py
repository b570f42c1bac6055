"""A study whose workers die: the others are finished, the exit code blames the machine, and resuming mends it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.small_study import results_of, study_toml

from fedskew.advisor.study.command import Order, study_command

MODEL = """
import os, signal, torch
from pathlib import Path

def make(shape, outputs):
    how = Path(__file__).with_name("how").read_text()
    if how == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "memory":
        raise MemoryError
    return torch.nn.Linear(shape[0], outputs)
"""


def study(folder: Path, out: str, how: str) -> int:
    (folder / "how").write_text(how)
    return study_command(str(folder / "two.toml"), Order(out=folder / out, jobs=1))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A study, a model that does as it is told, and in ``whole`` what the study gives undisturbed."""
    made = tmp_path_factory.mktemp("study")
    (made / "two.toml").write_text(study_toml(model=["deadly_model:make", "linear"]))
    (made / "deadly_model.py").write_text(MODEL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(made))
        assert study(made, "whole", "") == 0
        yield made


@pytest.mark.kills
@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("die", "its worker died 2 times (killed by signal 9, probably out of memory)"),
        ("memory", "training died 3 times while training fedavg, fedprox (out of memory)"),
    ],
)
def test_a_setting_whose_worker_dies_costs_the_others_nothing_and_is_tried_again(
    folder: Path, capsys: pytest.CaptureFixture[str], how: str, reason: str
) -> None:
    assert study(folder, how, how) == 3
    told = capsys.readouterr().out
    assert "1 settings finished, 1 missing" in told
    assert f"FCUBE, homo, 4 parties: {reason}" in told
    assert "1 of 1 failed by the machine's fault; finished settings are kept: run the same command again" in told
    assert len(results_of(folder / how)) == 1
    assert study(folder, how, "") == 0
    assert results_of(folder / how) == results_of(folder / "whole")
