#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tessera devices: what was found, and what was not.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

run 0 devices --names
check 'the reference is missing' grep -q '^reference' "$out"
reference=$(grep '^reference' "$out" | head -n 1)
n=$(wc -l <"$out")

run 0 devices
stdout_has "$reference"

run 0 devices --json
cp "$out" "$work/json"
check 'devices --json: no device' json devices.0.name "$work/json" >/dev/null
check 'devices --json: too few devices' json "devices.$((n - 1)).name" "$work/json" >/dev/null
check 'devices --json: no problems' json problems "$work/json" >/dev/null
check 'devices --json: no auto' json auto "$work/json" >/dev/null
run 2 devices --json --names

# Where no plugin is, unless this version is installed: then those are found in the end.
if [ ! -d "$PREFIX/$LIBRARY_FOLDER/tessera" ]; then
  export TESSERA_BACKEND_PATH="$work/none"
  run 4 devices
  stdout_has "$work/none"
  run 4 devices --json
  stdout_has "$work/none"
  run 4 translate --model "$model" --device "$reference" /dev/null
  stderr_has "$work/none"
fi

# A plugin that is none, alone and beside one that is well.
mkdir "$work/broken"
echo 'not a shared object' >"$work/broken/libtessera-backend-broken.so"
export TESSERA_BACKEND_PATH="$work/broken:$BACKENDS"
run 0 devices
stdout_has 'libtessera-backend-broken.so'
stdout_has "$reference"
run 0 devices --json
check 'devices --json: no problem' json problems.0.message "$out" >"$work/value"
unset TESSERA_BACKEND_PATH

run 4 translate --model "$model" --device no-such-device /dev/null
stderr_has 'no-such-device'
stderr_has "$reference"
run 4 translate --model "$model" --device "${reference%%:*}:99" /dev/null
stderr_has "$reference"
export TESSERA_DEVICE=no-such-device
run 4 translate --model "$model" /dev/null
stderr_has 'no-such-device'
unset TESSERA_DEVICE

# A driver that translates to another interface, such as MoltenVK, is hidden from those who do not ask for such.
lavapipe=$(find /usr/share/vulkan/icd.d -name 'lvp_icd*.json' 2>/dev/null | head -n 1)
if [ -z "${VK_ICD_FILENAMES-}" ] && [ -n "$lavapipe" ] && "$TESSERA" devices --names | grep -q '^vulkan'; then
  sed 's/"library_path"/"is_portability_driver": true, "library_path"/' "$lavapipe" >"$work/portability.json"
  VK_ICD_FILENAMES=$work/portability.json
  export VK_ICD_FILENAMES
  run 0 devices --names
  check 'a portability driver is not found' grep -q '^vulkan:0$' "$out"
  unset VK_ICD_FILENAMES
fi

finish
