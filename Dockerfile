# The command with all it can need: object stores, Ray, Dask, ROS 1 bags, and Zenoh to capture on a device. x86-64 and
# aarch64. It runs as the user 10001.
#   docker build -t edgefirst-ros .
#   docker run --rm -v "$PWD:/data" edgefirst-ros convert /data/drives -o /data/sets --jobs 4
#   docker run --rm -v "$PWD:/data" --network host edgefirst-ros capture -o /data/captures
FROM python:3.11-slim

WORKDIR /src
COPY setup.py setup.cfg pyproject.toml package.xml README.md ./
COPY resource resource
COPY config config
COPY launch launch
COPY edgefirst_ros edgefirst_ros
# The versions are those that setup.py allows.
# hadolint ignore=DL3013
RUN pip install --no-cache-dir '.[all,dask,ray]'

# Datasets that go to a store are made below TMPDIR first: mount a disk there.
RUN useradd --create-home --uid 10001 edgefirst && mkdir /scratch && chown edgefirst /scratch
ENV TMPDIR=/scratch
USER 10001
WORKDIR /home/edgefirst

ENTRYPOINT ["edgefirst-ros"]
CMD ["--help"]
