#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A model of random weights in int8 that one imitated card cannot hold, split over two: they give what a card gives that
# can hold it.
#   test_split.sh VOCABULARY D_MODEL LAYERS MIB SENTENCES TOKENS   MIB: memory of each card
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"
unset TESSERA_DEVICE TESSERA_STAGING TESSERA_MAX_BINDING TESSERA_MAX_GROUPS TESSERA_VULKAN_VARIANT
unset CARD_FAULT CARD_STATISTICS
export TESSERA_VULKAN_KERNELS=cpu # which the driver compiles sooner
export TESSERA_BACKEND_PATH="$BUILD_ROOT/backends/cpu:$BUILD_ROOT/backends/reference:$BUILD_ROOT/backends/vulkan"
ids=$BUILD_ROOT/tests/model/generate_ids
with=$SOURCE_ROOT/tests/card/with

mib=$4
sed -e "s/\"10240 MiB\"/\"$mib MiB\"/" -e "s/\"9216 MiB\"/\"$mib MiB\"/" \
  "$SOURCE_ROOT/tests/card/profiles/rtx.json" >"$work/card.json"
check 'the profile has other heaps now' test "$(grep -c "\"$mib MiB\"" "$work/card.json")" -eq 1
mkdir "$work/model"
"$BUILD_ROOT/tests/model/write_large_model" "$work/model" "$1" "$2" "$3" || exit 1

if ! "$with" rtx "$ids" "$work/model" vulkan:0 int8 "$5" "$6" >"$work/expected" 2>"$work/whole"; then
  if grep -q TSR_ERR_NO_DEVICE "$work/whole"; then
    echo 'skipped: there is no Vulkan device'
    exit 77
  fi
  cat "$work/whole"
  exit 1
fi
cat "$work/whole"

# One card has no room, and says so.
if "$with" "$work/card.json" "$ids" "$work/model" vulkan:0 int8 "$5" "$6" >"$work/one" 2>"$err"; then
  failure 'the model fits into one card'
fi
check 'it is another error' grep -q TSR_ERR_DEVICE_MEMORY "$err"
cat "$err"

# Two that share one memory have none, either.
if "$with" "$work/card.json" "$ids" "$work/model" vulkan:0,vulkan:0 int8 "$5" "$6" >"$work/one" 2>"$err"; then
  failure 'the model fits into one memory'
fi
check 'it is another error' grep -q TSR_ERR_DEVICE_MEMORY "$err"

export CARD_APART=1
"$with" "$work/card.json" "$ids" "$work/model" vulkan:0,vulkan:0 int8 "$5" "$6" >"$work/split" 2>"$err" ||
  failure 'two cards do not hold it'
cat "$err"
check 'two cards compute something else' cmp "$work/expected" "$work/split"

# What the planner decides is printed.
"$with" "$work/card.json" "$TESSERA" program "$work/model" --precision int8 --device vulkan:0,vulkan:0 --split \
  --statistics --kind greedy >"$out" 2>"$err" || failure 'there is no plan'
last='program --split'
cat "$out"
stdout_has 'split over 2 devices:'
stdout_has ' % of its '
finish
