"""The package as `colcon build` installs it, under a Python whose own packages are a distribution's."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from importlib.metadata import distributions, version
from pathlib import Path

import pytest
from places import REPOSITORY

SCRIPT = Path(__file__).with_name("installed.sh")
MISSING = [
    name for name in ("rclpy", "ros2cli", "launch_ros", "colcon_core") if not importlib.util.find_spec(name)
]
OF_ROS = (
    *(
        "argcomplete",
        "catkin_pkg",
        "colcon-common-extensions",
        "empy<4",
        "lark",
        "packaging",
        "psutil",
        "pyyaml",
    ),
    *("setuptools<80", "pydantic<2", "pillow<10.3"),
)
"""What ROS's own packages, colcon and a robot need, as old as Ubuntu 24.04 has it where that matters."""
SETUP = (
    "import sys; sys.argv = ['setup.py', 'egg_info']; sys.version_info = {}; exec(open('setup.py').read())"
)


def quietly(*command: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        cwd=REPOSITORY,
        env=os.environ | more,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def system_python(folder: Path) -> Path:
    """An interpreter beside this one that lacks what the nodes need, with `ros2` and `colcon`; its bin."""
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    made = quietly(base, "-m", "venv", folder)
    assert made.returncode == 0, made.stdout
    fetched = quietly(
        folder / "bin/pip", "install", "-q", *OF_ROS, f"numpy=={version('numpy')}", PYTHONPATH=""
    )
    if fetched.returncode:
        pytest.skip(f"pip cannot fetch what ROS needs of Python: {fetched.stdout[-300:]}")
    ros2 = folder / "bin" / "ros2"
    ros2.write_text(f"#!{folder}/bin/python3\nimport sys\nfrom ros2cli.cli import main\nsys.exit(main())\n")
    ros2.chmod(0o755)
    return folder / "bin"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that is gone afterwards: an installation takes a gigabyte."""
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.mark.skipif(bool(MISSING), reason=f"no sourced ROS 2 with colcon; missing: {', '.join(MISSING)}")
@pytest.mark.timeout(1800)
def test_the_documented_installation_from_an_empty_workspace(folder: Path) -> None:
    """Build, command, launch, node, conversion; again without a network, with symlinks, merged."""
    import domain_coordinator  # noqa: PLC0415

    path = f"{system_python(folder / 'system')}:{os.environ['PATH']}"
    with domain_coordinator.domain_id() as domain:
        done = quietly(SCRIPT, folder / "made", PATH=path, ROS_DOMAIN_ID=str(domain))
    assert done.returncode == 0, done.stdout[-6000:]
    assert (folder / "made/captures/edgefirst/tour/tour.arrow").exists()
    installed = folder / "made/ws/install/edgefirst_ros/opt/edgefirst_ros"
    assert (installed / f"python{sys.version_info.major}.{sys.version_info.minor}" / "pydantic").is_dir()


@pytest.mark.parametrize("found", [(3, 10, 12), (3, 8, 0)])
def test_an_older_python_is_refused_with_what_to_do(found: tuple[int, ...]) -> None:
    done = quietly(sys.executable, "-c", SETUP.format(found))
    assert done.returncode == 1
    assert "needs Python 3.11 or newer" in done.stdout
    assert "ROS 2 Jazzy or Lyrical" in done.stdout
    assert "Zenoh" in done.stdout


def test_what_was_installed_beside_the_package_comes_first(tmp_path: Path) -> None:
    """In an underlay, too, and after rclpy; what is for another Python does not."""
    ours = f"python{sys.version_info.major}.{sys.version_info.minor}"
    other = f"python{sys.version_info.major}.{sys.version_info.minor + 1}"
    for prefix, python in (("over", other), ("under", ours)):
        folder = tmp_path / prefix / "opt" / "edgefirst_ros" / python
        folder.mkdir(parents=True)
        for name in ("pydantic.py", "typing_extensions.py"):
            (folder / name).write_text(f"PLACE = {prefix!r}\n")
    prefixes = f"{tmp_path / 'none'}::{tmp_path / 'over'}:{tmp_path / 'under'}"
    # ROS 2 Lyrical's messages import typing_extensions.
    asking = (
        "import typing_extensions, edgefirst_ros, pydantic, importlib; print(pydantic.PLACE, "
        "importlib.import_module('typing_extensions').PLACE)"
    )
    done = quietly(sys.executable, "-c", asking, AMENT_PREFIX_PATH=prefixes)
    assert done.stdout == "under under\n"
    plain = quietly(sys.executable, "-c", asking.replace("PLACE", "__name__"), AMENT_PREFIX_PATH="")
    assert plain.stdout == "pydantic typing_extensions\n"


def test_an_interpreter_that_has_everything_is_given_executables_alone(tmp_path: Path) -> None:
    """As in a venv, where pip needs no network for it."""
    # Not find_spec: setuptools has that of pip warn where a test before has imported distutils.
    if not {"setuptools", "pip"} <= {each.name for each in distributions()}:
        pytest.skip("this interpreter has no setuptools or no pip")
    ours = importlib.util.find_spec("polars")
    if ours is None or ours.origin is None or "/opt/edgefirst_ros/" in ours.origin:
        pytest.skip("this interpreter has its dependencies from the install space")
    prefix = tmp_path / "prefix"
    done = quietly(
        *(sys.executable, "setup.py", "-q", "egg_info", "--egg-base", tmp_path),
        *("build", "--build-base", tmp_path / "build", "install", "--prefix", prefix),
        *("--install-scripts", prefix / "lib/edgefirst_ros", "--record", tmp_path / "record"),
        "--single-version-externally-managed",
        PIP_NO_INDEX="1",
    )
    assert done.returncode == 0, done.stdout
    assert not (prefix / "opt").exists()
    names = {path.name for path in (prefix / "lib/edgefirst_ros").iterdir() if os.access(path, os.X_OK)}
    assert names == {"capture", "replay", "suggest", "edgefirst-ros"}
    (library,) = prefix.glob("lib/python*/site-packages")
    asked = quietly(prefix / "bin/edgefirst-ros", "--help", PYTHONPATH=str(library))
    assert asked.returncode == 0, asked.stdout
    assert "simulate" in asked.stdout


def test_a_source_distribution_has_what_the_repository_has(tmp_path: Path) -> None:
    names = quietly("git", "ls-files", "--cached", "--others", "--exclude-standard")
    if names.returncode or "setuptools" not in {each.name for each in distributions()}:
        pytest.skip("no git checkout, or an interpreter without setuptools")
    done = quietly(
        *(sys.executable, "setup.py", "-q", "egg_info", "--egg-base", tmp_path),
        *("sdist", "--formats", "tar", "--dist-dir", tmp_path),
    )
    assert done.returncode == 0, done.stdout
    with tarfile.open(*tmp_path.glob("*.tar")) as archive:
        found = {each.name.partition("/")[2] for each in archive if each.isfile()}
    made = {name for name in found if name == "PKG-INFO" or ".egg-info/" in name}
    of_services = (".ci/", ".github/", ".gitignore")
    assert found - made == {each for each in names.stdout.split() if not each.startswith(of_services)}
