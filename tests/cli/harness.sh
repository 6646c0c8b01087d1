# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2034
#
# For tests of the program from outside. Sourced with `set -u`; the environment names what is tested:
#   TESSERA       the program
#   JSON_VALUE    tests/cli/json_value.c, built
#   SOURCE_ROOT   the project
# Each check prints one line if it fails; finish ends the test.

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
out=$work/out
err=$work/err
n_checks=0
n_failures=0
model=$SOURCE_ROOT/tests/data/marian-en-fr

failure()
{
  n_failures=$((n_failures + 1))
  printf 'FAILED: %s\n' "$*"
  sed 's/^/    stdout: /' "$out" | head -n 8 | cut -c -400
  sed 's/^/    stderr: /' "$err" | head -n 8 | cut -c -400
}

# check TEXT COMMAND...: COMMAND must succeed.
check()
{
  n_checks=$((n_checks + 1))
  text=$1
  shift
  "$@" || failure "$text"
}

# run CODE ARGUMENT...: the program with these arguments must end with CODE; $out and $err hold what it printed.
run()
{
  n_checks=$((n_checks + 1))
  expected=$1
  shift
  code=0
  "$TESSERA" "$@" >"$out" 2>"$err" || code=$?
  last="tessera $*"
  [ $code = "$expected" ] || failure "$last: exit code $code, expected $expected"
}

# Of the last run: something was printed there.
stdout_has()
{
  check "$last: stdout lacks '$1'" grep -q -F -e "$1" "$out"
}

stderr_has()
{
  check "$last: stderr lacks '$1'" grep -q -F -e "$1" "$err"
}

stderr_is_empty()
{
  check "$last: stderr is not empty" test ! -s "$err"
}

stdout_is_empty()
{
  check "$last: stdout is not empty" test ! -s "$out"
}

# json PATH FILE: the value at a path such as devices.0.name; fails if FILE is not JSON or lacks it.
json()
{
  "$JSON_VALUE" "$1" <"$2"
}

finish()
{
  printf '%d checks, %d failed\n' $n_checks $n_failures
  [ $n_failures = 0 ]
  exit
}
