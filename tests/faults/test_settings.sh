#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Settings with values that make no sense are errors, whatever device is taken; and `auto` says why it takes the
# reference.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

unset TESSERA_THREADS TESSERA_CPU_LEVEL TESSERA_BLAS TESSERA_DEVICE TESSERA_LOG TESSERA_BACKEND_PATH
head -n 1 "$model/sample.en" >"$work/one.en"

# refused CODE NAME VALUE EXPECTED: a translation on the device that auto takes ends with CODE and one message, which
# has the variable, its value and what is expected.
refused()
{
  export "$2=$3"
  run "$1" translate --model "$model" "$work/one.en"
  unset "$2"
  stderr_has "$2 is \"$3\"; it should be "
  stderr_has "$4"
  stdout_is_empty
  check "$2=$3: more than one message" test "$(wc -l <"$err")" = 1
  check "$2=$3: a name twice before the message" sh -c '! grep -E "([a-z]+: )\1" "$1"' - "$err"
}

for value in 0 -1 two 1.5 99999 '2 '; do
  refused 4 TESSERA_THREADS "$value" 'a number from 1 to 1024'
done
refused 4 TESSERA_CPU_LEVEL foo portable
refused 4 TESSERA_BLAS "$work/none.so" 'cannot open shared object file'
refused 4 TESSERA_BLAS "$BLAS_WITHOUT_C" 'it lacks the function cblas_sgemm'
refused 2 TESSERA_LOG foo 'error, warning, info or debug'
export TESSERA_LOG=loud
run 2 tokenize --model "$model" "$work/one.en" # a command without devices
stderr_has 'TESSERA_LOG is "loud"'
unset TESSERA_LOG

if [ -d "$BUILD_ROOT/backends/vulkan" ] && "$TESSERA" devices --names | grep -q '^vulkan:'; then
  while IFS='|' read -r name value expected; do
    refused 4 "TESSERA_$name" "$value" "$expected"
  done <<'ROWS'
VULKAN_VARIANT|foo|devices --variants
VULKAN_KERNELS|tpu|auto, cpu or gpu
VULKAN_QUEUE|transfer|auto, compute or graphics
VULKAN_FUSION|yes|0 or 1
VALIDATION|on|0 or 1
PIPELINE_CACHE|2|0 or 1
TUNING|-1|0 or 1
STAGING|x|0 or 1
MAX_BINDING|4k|a number of 0 or more
MAX_BINDING|-4|a number of 0 or more
MAX_GROUPS|7x|a number of 0 or more
WATCHDOG_FLOPS|nan|a number of 0 or more
ROWS
  export TESSERA_VULKAN_VARIANT=foo
  run 4 translate --model "$model" --device vulkan:0 "$work/one.en"
  stderr_has 'TESSERA_VULKAN_VARIANT is "foo"; it should be '
  unset TESSERA_VULKAN_VARIANT
  export TESSERA_PIPELINE_STATISTICS="$work/none/statistics"
  run 3 translate --model "$model" --device vulkan:0 "$work/one.en"
  stderr_has "$work/none/statistics"
  unset TESSERA_PIPELINE_STATISTICS
fi

# Nothing but the reference, and why: no other backend; one that cannot be loaded; one whose devices are taken by name
# only.
export TESSERA_BACKEND_PATH="$BUILD_ROOT/backends/reference"
if "$TESSERA" devices --names | grep -q -v '^reference:'; then
  echo 'this version is installed: its other backends are found, too'
else
  run 0 translate --model "$model" "$work/one.en"
  stderr_has "warning: 'auto' chooses reference:0, which is slow"
  stderr_has "there is no other backend in $BUILD_ROOT/backends/reference"
  run 0 translate --model "$model" --device reference "$work/one.en"
  stderr_is_empty
  mkdir "$work/broken"
  echo 'not a shared object' >"$work/broken/libtessera-backend-cpu.so"
  export TESSERA_BACKEND_PATH="$work/broken:$BUILD_ROOT/backends/reference"
  run 0 translate --model "$model" "$work/one.en"
  stderr_has "'auto' chooses reference:0"
  stderr_has "$work/broken/libtessera-backend-cpu.so: cannot be loaded"
  if [ -d "$BUILD_ROOT/backends/vulkan" ]; then
    export TESSERA_BACKEND_PATH="$BUILD_ROOT/backends/vulkan:$BUILD_ROOT/backends/reference"
    "$TESSERA" devices >"$work/devices"
    if ! grep '(auto)' "$work/devices" | grep -q -v '^reference'; then
      run 0 translate --model "$model" "$work/one.en"
      stderr_has "'auto' chooses reference:0"
      stderr_has 'vulkan'
    fi
  fi
  export TESSERA_BACKEND_PATH="backends:$BUILD_ROOT/backends/reference"
  run 4 translate --model "$model" "$work/one.en"
  stderr_has "backends: a folder to search for backends must begin with '/'"
fi

finish
