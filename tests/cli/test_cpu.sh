#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The cpu backend's options, and what it says of the machine.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

export TESSERA_BACKEND_PATH="$BUILD_ROOT/backends/cpu:$BACKENDS"
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE TESSERA_THREADS TESSERA_CPU_LEVEL TESSERA_BLAS TESSERA_DEVICE

# translate CODE ARGUMENT...: three sentences with the recorded model.
head -n 3 "$model/sample.en" >"$work/three.en"
head -n 3 "$model/sample.fr" >"$work/three.fr"
translate()
{
  wanted=$1
  shift
  run "$wanted" translate --model "$model" "$@" "$work/three.en"
}

# auto takes it where no GPU is.
run 0 devices
stdout_has 'cpu:0  (auto)'

# A BLAS that runs below what the CPU offers: said once on stderr and among the devices, with what to set; and not used.
TESSERA_CPU_LEVEL=all "$TESSERA" devices >"$work/levels" 2>"$err"
if grep -q 'avx[0-9a-z]* kernels' "$work/levels"; then
  export TESSERA_BLAS="$FAKE_BLAS_OLD"
  translate 0 --device cpu
  check "$last: not the recorded translation" cmp -s "$out" "$work/three.fr"
  check "$last: not one warning" test "$(grep -c 'OpenBLAS 9.8.7, Prescott kernels' "$err")" = 1
  stderr_has 'set OPENBLAS_CORETYPE='
  run 0 devices
  stdout_has 'OpenBLAS 9.8.7, Prescott kernels (not used'
  export OPENBLAS_CORETYPE=Prescott
  translate 0 --device cpu
  stderr_has 'unset OPENBLAS_CORETYPE, or set it to'
  export OPENBLAS_L2_SIZE=512
  translate 0 --device cpu
  stderr_has 'unset OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE'
  unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
fi

# One that uses all: nothing is said.
export TESSERA_BLAS="$FAKE_BLAS_NEW"
translate 0 --device cpu
stderr_is_empty
run 0 devices
stdout_has 'OpenBLAS 9.8.7, SkylakeX kernels'

# A real one, where it is installed, multiplies as the kernels do.
export TESSERA_BLAS=libopenblas.so.0
if "$TESSERA" devices >/dev/null 2>&1; then
  export OPENBLAS_CORETYPE=Haswell
  if grep -q 'avx512[a-z]* kernels' "$work/levels"; then
    OPENBLAS_CORETYPE=SkylakeX
  fi
  "$TESSERA" check --list --ops matmul | grep -E '^matmul\(M=[0-9]{3,},N=[0-9]{3,},K=[0-9]{3},.* input' >"$work/cases"
  check 'no cases for a BLAS' test -s "$work/cases"
  while read -r case; do
    run 0 check --devices cpu --case "$case"
  done <"$work/cases"
  unset OPENBLAS_CORETYPE
fi

# None, and one that is none.
export TESSERA_BLAS=none
translate 0 --device cpu
stderr_is_empty
check "$last: not the recorded translation" cmp -s "$out" "$work/three.fr"
run 0 devices
stdout_has 'no BLAS'
export TESSERA_BLAS="$work/libnone.so"
translate 4 --device cpu
stderr_has "$work/libnone.so"
export TESSERA_BLAS=none

# Threads, instruction levels.
for threads in 1 2 5; do
  export TESSERA_THREADS=$threads
  translate 0 --device cpu
  check "$last: not the recorded translation with $threads threads" cmp -s "$out" "$work/three.fr"
done
for threads in 0 -1 two 1.5 9999999; do
  export TESSERA_THREADS=$threads
  translate 4 --device cpu
  stderr_has "TESSERA_THREADS is \"$threads\""
done
unset TESSERA_THREADS
export TESSERA_CPU_LEVEL=portable
translate 0 --device cpu
check "$last: not the recorded translation" cmp -s "$out" "$work/three.fr"
run 0 devices
stdout_has 'portable kernels'
export TESSERA_CPU_LEVEL=fastest
translate 4 --device cpu
stderr_has 'TESSERA_CPU_LEVEL is "fastest"'
stderr_has 'portable'
export TESSERA_CPU_LEVEL=all
run 4 translate --model "$model" --device cpu:99 "$work/three.en"
stderr_has 'cpu:99'

finish
