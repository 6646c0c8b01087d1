#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tessera check --mode compile: kernels made and none run, and what is written of them.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

export TESSERA_BACKEND_PATH="$BACKENDS:$BUILD_ROOT/backends/vulkan"
export TESSERA_PIPELINE_CACHE=0
device=$("$TESSERA" devices --names 2>/dev/null | grep -m 1 '^vulkan')
if [ -z "$device" ]; then
  echo 'no Vulkan device'
  exit 77
fi

# has TEXT: a line of the statistics.
has()
{
  check "no line with $1" grep -q -F -e "$1" "$work/statistics"
}

export TESSERA_PIPELINE_STATISTICS="$work/statistics"
run 0 check --devices "$device" --mode compile --ops softmax --share 40
stdout_has ' 0 failed'
has '"device": '
has '"making": "softmax'
has '"made": "softmax'
has '"executables": ['
has '"variant": null'
check 'a pipeline was made twice' test -z "$(grep '"making"' "$work/statistics" | sort | uniq -d)"
check 'what is made was not begun' \
  test "$(grep -c '"making"' "$work/statistics")" = "$(grep -c '"made"' "$work/statistics")"

# Each variant is told, forced or not; a model's program has lines of many kinds.
rm "$work/statistics"
run 0 check --devices "$device" --mode compile --variant matmul.generic \
  --case 'model(demo,greedy,batch=1,source=25,target=64,beam=1,weights=f16)'
stdout_has 'matmul.generic 1 programs'
has '"variant": "matmul.generic", "forced": true'
has '"forced": false'

# A product that is searched for its largest has a kernel of its own for some types of weights: a program that searches
# one is made though all its operators were made before.
rm "$work/statistics"
export TESSERA_VULKAN_KERNELS=cpu
run 0 check --devices "$device" --mode compile --ops model --share 100000
has '"made": "matmul_i8_plain_topk' # or the form that the device loads soonest
unset TESSERA_VULKAN_KERNELS

# A model's keys and values are those that it keeps on the device.
rm "$work/statistics"
run 0 check --devices "$device" --mode compile --case 'model(demo,beam,batch=1,source=25,target=64,beam=4,weights=bf16)'
if "$TESSERA" devices 2>/dev/null | sed -n "/^$device\$/,/^\$/p" | grep -q f16-storage; then
  has '"made": "scatter_halves"'
else
  check 'states are 16 bits' test "$(grep -c '"made": "scatter_halves"' "$work/statistics")" = 0
fi

run 0 check --devices "$device" --mode compile --json --ops relu --share 8
check 'nothing was compiled' test "$(json programs "$out")" -gt 0
run 0 check --devices reference --mode compile --ops relu
run 2 check --devices "$device" --mode compile --ops none
run 2 check --devices "$device" --mode compile --ops softmax --variant none

# A file that cannot be written is an error that names it.
export TESSERA_PIPELINE_STATISTICS="$work/none/statistics"
run 3 check --devices "$device" --mode compile --ops softmax
stderr_has "$work/none/statistics"
finish
