"""What all tests share: the folder of real data sets, and one torch thread."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("FEDSKEW_DATA", ROOT.parent / "shared" / "data"))

settings.register_profile("ci", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("long", deadline=None, max_examples=2000)  # draws anew each time
settings.load_profile("ci")


def _data_file(name: str) -> Path:
    path = DATA / name
    if not path.is_file():
        pytest.skip(f"{name} is not in {DATA}; set FEDSKEW_DATA to the data folder")
    return path


@pytest.fixture(autouse=True)
def _no_data_folder(monkeypatch: pytest.MonkeyPatch):
    """What a study finds must not hang on the variable of whoever runs the tests."""
    monkeypatch.delenv("FEDSKEW_DATA", raising=False)


@pytest.fixture
def data_folder():
    """The folder of real data sets, which may be absent."""
    return DATA


@pytest.fixture
def data_file():
    """A function from the name of a real data file to its path; the test skips with a reason where it is absent."""
    return _data_file


@pytest.fixture
def refused(capsys):
    """Runs a command that must be refused as the user's error; gives its one line."""

    from fedskew.cli import _explain, app

    def refused(*words: object) -> str:
        with pytest.raises(Exception) as error:
            app([str(word) for word in words], standalone_mode=False)
        assert _explain(error.value) == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        (line,) = shown.err.splitlines()
        return str(line).removeprefix("fedskew: ")

    return refused
