#!/bin/bash
# run.sh PRESET [SECONDS] [OUT]: unpack the branch's package beside this file, then time_arms.py. On a card: 147m and 32m, a call each.
set -e
here=$(cd "$(dirname "$0")" && pwd)
preset=${1:-147m}; seconds=${2:-350}; out=${3:-${OUT:-build/speed_out}}
tree=${TREE:-build/speed_tree}
if [ ! -d "$tree/rltok" ]; then mkdir -p "$tree"; tar -xJf "$here/rltok_speed.tar.xz" -C "$tree"; fi
export TRITON_CACHE_DIR=${TRITON_CACHE_DIR:-build/speed_triton}
mkdir -p "$out"
# launch shapes of attention found by an earlier call
[ -e "$out/launch.json" ] || cp build/speed_launch.json "$out/launch.json" 2>/dev/null || true
status=0
${PYTHON:-python3} "$here/time_arms.py" --tree "$tree" --preset "$preset" --seconds "$seconds" --out "$out" ${EXTRA} || status=$?
cp "$out/launch.json" build/speed_launch.json 2>/dev/null || true
exit $status
