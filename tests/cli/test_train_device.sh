#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A toy task, learnt on a device from the first number to 95 % exact sequences.
#   test_train_device.sh DEVICE
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

# AddressSanitizer keeps what was freed for a while. A driver that runs on the CPU frees so much, from so many threads,
# that thousands of submits would fill the machine; a small store keeps the process at 1.7 GB. Nothing else reads this.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}quarantine_size_mb=8"

"$TESSERA" devices 2>/dev/null | grep -q "^$1\\( \\|\$\\)" || {
  echo "there is no $1"
  exit 77
}
run 0 train --task reverse --vocab-size 8 --max-length 4 --d-model 32 --d-ff 64 --heads 2 --encoder-layers 1 \
  --decoder-layers 1 --batch-tokens 512 --log-every 100 --validate-every 50 --warmup 50 --rate 0.005 --average 0.95 \
  --steps 600 --until 0.95 --json --device "$1" --out "$work/reverse"
tail -n 1 "$out" >"$work/json"
check "$1: not learnt" test "$(json reason "$work/json")" = until
check "$1: not exact" awk -v exact="$(json exact "$work/json")" 'BEGIN {exit !(exact >= 0.95)}'

finish
