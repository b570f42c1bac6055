"""The wheel: exactly the package, with its data, and it works from another folder."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel once, with the build tools of this environment (no network needed)."""
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("*.whl"))


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    code = {n for n in names if not n.split("/")[0].endswith(".dist-info")}
    expected = {f"fedskew/{p.name}" for p in (ROOT / "src" / "fedskew").glob("*.py")} | {"fedskew/py.typed"}
    for room in ("profiles", "engine", "advisor"):
        files = [p for p in (ROOT / room).rglob("*") if p.is_file() and "__pycache__" not in p.parts]
        expected |= {f"fedskew/{p.relative_to(ROOT)}" for p in files}
    assert code == expected


@pytest.mark.slow
def test_the_wheel_works_unpacked_in_another_folder(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = (
        "import fedskew, fedskew.advisor as a; print(fedskew.__file__); p = a.demo_partition(); "
        "print(p.rows, fedskew.profile(p).prevailing.kind)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "site"), "PATH": ""},
        check=True,
    )
    where, found = done.stdout.strip().splitlines()
    assert where.startswith(str(tmp_path))
    assert found == "1797 label_dirichlet"
