"""Build of the ament_python package; plain ``pip install .`` works without ROS."""

from __future__ import annotations

from glob import glob
from pathlib import Path

from setuptools import find_packages, setup

PACKAGE = "edgefirst_ros"

setup(
    name=PACKAGE,
    version="0.1.0",
    description="EdgeFirst Maivin/Raivin recordings to training data, every message accounted for",
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    maintainer="edgefirst_ros maintainers",
    maintainer_email="maintainers@users.noreply.a-seed-5e37c9f6.example",
    packages=find_packages(include=[PACKAGE, f"{PACKAGE}.*"]),
    package_data={PACKAGE: ["py.typed"]},
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{PACKAGE}"]),
        (f"share/{PACKAGE}", ["package.xml"]),
        (f"share/{PACKAGE}/config", sorted(glob("config/*.yaml"))),
        (f"share/{PACKAGE}/launch", sorted(glob("launch/*.launch.py"))),
        # Where `ros2 run` looks. No console_scripts: the PATH of a pip user gets one command only.
        (f"lib/{PACKAGE}", ["scripts/capture", "scripts/replay"]),
    ],
    python_requires=">=3.11",
    install_requires=[
        "numpy>=1.26,<3",
        "mcap>=1.2,<2",
        "lz4>=4.3,<5",
        "zstandard>=0.22,<1",
        "edgefirst-schemas>=4.1,<5",
        "mcap-ros2-support>=0.5,<1",
        "av>=18,<19",
        "simplejpeg>=1.8,<2",
        'isal>=1.6,<2; platform_machine in "x86_64 AMD64 aarch64 arm64"',
        "pillow>=10.3",
        "contourpy>=1.2,<2",
        "numcodecs>=0.13,<1",
        "cbor2>=5.6,<7",
        # Parses H.265 to find what is damaged in place, which libavcodec does not; needed for nothing else.
        'numba>=0.61,<1; platform_machine in "x86_64 AMD64 aarch64 arm64"',
        "polars>=1.20,<3",
        # 26 wants numpy 2 without saying so to pip; ROS 2 Jazzy has numpy 1.26, and its messages need that.
        "pyarrow>=16,<26",
        "pymap3d>=3.1,<4",
        "scipy>=1.12,<2",
        "eclipse-zenoh>=1.10,<2",
        "pydantic>=2.10.1,<3",
        "pyyaml>=6,<7",
        "typer>=0.15.4,<1",
        "rich>=13,<16",
    ],
    extras_require={
        "test": [
            "pytest>=8",
            "pytest-timeout>=2.3",
            "hypothesis>=6.100",
            "mypy>=1.18",
            "ruff>=0.16",
            "scipy-stubs",
            "types-PyYAML",
            "pypcd4>=1.5.1",
        ],
    },
    entry_points={"console_scripts": ["edgefirst-ros = edgefirst_ros.__main__:main"]},
    zip_safe=False,
)
