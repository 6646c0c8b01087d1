# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154
#
# For tests of `tessera bench`, behind harness.sh.

# bench CODE ARGUMENT...
bench()
{
  wanted=$1
  shift
  run "$wanted" bench "$@"
}

# line N: line N of what was printed, in $work/json.
line()
{
  sed -n "${1}p" "$out" >"$work/json"
}

# number PATH: the last line taken has a number above 0 there.
number()
{
  n_checks=$((n_checks + 1))
  json "$1" "$work/json" >"$work/value" || failure "$last: no $1"
  check "$last: $1 is not above 0" awk '{ exit !($1 > 0) }' "$work/value"
}

# text PATH VALUE
text()
{
  check "$last: $1 is not $2" test "$(json "$1" "$work/json")" = "$2"
}
