# For batch services: the command with the clients of object stores, Ray and Dask. x86-64 and aarch64.
#   docker build -t edgefirst-ros .
#   docker run --rm -v "$PWD:/data" edgefirst-ros convert /data/drives -o /data/sets --jobs 4
FROM python:3.11-slim

WORKDIR /src
COPY setup.py setup.cfg pyproject.toml package.xml README.md ./
COPY resource resource
COPY config config
COPY launch launch
COPY edgefirst_ros edgefirst_ros
# The versions are those that setup.py allows.
# hadolint ignore=DL3013
RUN pip install --no-cache-dir '.[cloud,rosbag,dask,ray]'

# Datasets that go to a store are made below TMPDIR first: mount a disk there.
RUN useradd --create-home --uid 10001 edgefirst && mkdir /scratch && chown edgefirst /scratch
ENV TMPDIR=/scratch
USER 10001
WORKDIR /home/edgefirst

ENTRYPOINT ["edgefirst-ros"]
CMD ["--help"]
