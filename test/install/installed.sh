#!/usr/bin/env bash
# The documented installation, from an empty workspace to a dataset that was captured, checked and converted.
# Needs a sourced ROS, and a folder that is made. What `ros2` runs under may have an older pydantic, or none.
set -eEuo pipefail
trap 'echo "installed.sh: line $LINENO failed: $BASH_COMMAND" >&2' ERR
here=$(cd "$(dirname "$0")" && pwd)
root=$1
workspace=$root/ws
export ROS_LOG_DIR=$root/log

say() { echo "== $*"; }

use() {
    # Setup files read variables that nobody set.
    set +u
    source "$1/setup.bash"
    set -u
}

# Whoever is not ours finds a pydantic that is too old, as on Ubuntu 24.04.
mkdir -p "$root/older/pydantic"
echo 'VERSION = "1.10.14"' >"$root/older/pydantic/__init__.py"

say "build"
mkdir -p "$workspace/src"
ln -s "$here/../.." "$workspace/src/edgefirst_ros"
cd "$workspace"
colcon build --packages-select edgefirst_ros
use install
export PYTHONPATH="$root/older:$PYTHONPATH"

say "numpy"
where="import numpy; print(numpy.__file__)"
test "$(python3 -c "import edgefirst_ros, pyarrow; $where")" = "$(python3 -c "$where")"

say "command"
test "$(command -v edgefirst-ros)" = "$workspace/install/edgefirst_ros/bin/edgefirst-ros"
edgefirst-ros simulate -o "$root/drive" --seconds 3 --set width=320 --set height=180 --set lidar_points=640
ros2 run edgefirst_ros edgefirst-ros info "$root/drive"
for name in capture replay; do
    ros2 run edgefirst_ros "$name" --help >/dev/null
    ros2 launch edgefirst_ros "$name.launch.py" --show-args >/dev/null
done
test "$(ros2 pkg executables edgefirst_ros | wc -l)" = 3

say "capture"
# Under a job of its own: a shell without job control starts what is in the background deaf to SIGINT.
set -m
ros2 launch edgefirst_ros capture.launch.py output:="$root/captures" config:=generic name:=tour \
    >"$root/capture.log" 2>&1 &
launch=$!
set +m
trap 'kill -KILL -- -$launch 2>/dev/null || true' EXIT
timeout 120 python3 "$here/../launch/robot.py" --pictures 30
kill -INT "$launch"
wait "$launch" || { cat "$root/capture.log" && false; }
cat "$root/capture.log"
edgefirst-ros check "$root/captures"

say "replay"
ros2 launch edgefirst_ros replay.launch.py bag:="$root/drive" output:="$root/converted" config:=raivin
edgefirst-ros check "$root/converted"

say "once more, and with symlinks, without a network"
export PIP_NO_INDEX=1 PIP_FIND_LINKS= PIP_CONFIG_FILE=/dev/null
for options in "" "--symlink-install" ""; do
    # shellcheck disable=SC2086 # no option, or one
    colcon build --packages-select edgefirst_ros $options
    (
        use install
        edgefirst-ros check "$root/captures" >/dev/null
        ros2 run edgefirst_ros capture --help >/dev/null
    )
done

say "merged"
# What pip installed is the same; linking it spares the time.
mkdir -p merged
cp -al install/edgefirst_ros/opt merged/ 2>/dev/null || true
colcon build --packages-select edgefirst_ros --install-base merged --merge-install
(
    use merged
    test "$(command -v edgefirst-ros)" = "$workspace/merged/bin/edgefirst-ros"
    edgefirst-ros check "$root/captures" >/dev/null
    ros2 run edgefirst_ros edgefirst-ros check "$root/captures" >/dev/null
)
say "installed"
