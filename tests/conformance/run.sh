#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs `tessera check` for the test suite: run.sh PROGRAM WHAT [OPTION]..., and tells meson to skip where there is
# nothing to run on. The first six hand the options on, among which `--random-seed commit` comes first.
#   devices      every device that is found, against the reference
#   cpu          the cpu backend at each instruction level that this machine has
#   vulkan       the Vulkan devices that are found
#   variants     each variant of their kernels in turn
#   swiftshader  the same through the Vulkan driver that TESSERA_SWIFTSHADER_ICD names
#   reference    the reference against itself: guards, and equal bits from equal runs
#   options      what is printed can be pasted back, and the exit codes are those that --help tells
#   jobs         DEVICE OPERATORS [VARIANTS]: several threads give what one gives, in its order
#   template     the plugin that supports two operators: those pass, the others are reported as unsupported
set -eu

program=$1
what=$2
shift 2
skip=77

# `--random-seed commit`: with each commit other cases are drawn; without git, with each version.
if [ "${1-}" = --random-seed ] && [ "${2-}" = commit ]; then
  shift 2
  folder=$(dirname "$0")
  commit=$(git -C "$folder" rev-parse --short=7 HEAD 2>/dev/null) ||
    commit=$("$program" --version | cksum | cut -d ' ' -f 1 | awk '{ printf "%x", $1 }')
  set -- --random-seed "$((0x$commit))" "$@"
fi

case $what in
devices)
  status=0
  "$program" check --mode coverage "$@" || status=$?
  # 4: no device beside the reference
  if [ "$status" -eq 4 ]; then
    exit $skip
  fi
  exit "$status"
  ;;
vulkan)
  devices=$("$program" devices --names | grep '^vulkan:' | paste -s -d , -)
  if [ -z "$devices" ]; then
    exit $skip
  fi
  exec "$program" check --mode coverage --devices "$devices" "$@"
  ;;
variants)
  devices=$("$program" devices --names | grep '^vulkan:' | paste -s -d , -)
  if [ -z "$devices" ]; then
    exit $skip
  fi
  exec "$program" check --variant all --devices "$devices" "$@"
  ;;
cpu)
  TESSERA_CPU_LEVEL=all
  export TESSERA_CPU_LEVEL
  exec "$program" check --mode coverage --devices "$("$program" devices --names | grep '^cpu:' | paste -s -d , -)" "$@"
  ;;
swiftshader)
  if [ -z "${TESSERA_SWIFTSHADER_ICD:-}" ]; then
    echo "TESSERA_SWIFTSHADER_ICD names no driver"
    exit $skip
  fi
  VK_ICD_FILENAMES=$TESSERA_SWIFTSHADER_ICD exec "$program" check --mode coverage --devices vulkan:0 "$@"
  ;;
reference)
  "$program" check --mode coverage --devices reference "$@"
  # The other way round it is refused: a device that does not execute something is told apart from one that need not.
  if "$program" check --mode coverage --devices reference --ops embedding \
    --except 'embedding.table:i8@ref*' >/dev/null; then
    echo "an exception that is none was accepted"
    exit 1
  fi
  ;;
jobs)
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  if ! "$program" devices --names | grep -qx "$1"; then
    exit $skip
  fi
  # --minutes and --variant choose by what was run before
  for chosen in "--ops $2 --share 200" "--ops $2 --minutes 9" ${3:+"--variant $3 --share 400"}; do
    for jobs in 1 4; do
      # shellcheck disable=SC2086
      "$program" check --devices "reference,$1" --seed 3 $chosen --jobs $jobs --json --verbose >"$work/$jobs"
    done
    if ! cmp -s "$work/1" "$work/4"; then
      echo "check $chosen --devices $1: --jobs 4 prints something else than --jobs 1"
      diff "$work/1" "$work/4" | head
      exit 1
    fi
    echo "$chosen: $(wc -l <"$work/4") lines"
  done
  ;;
template)
  summary=$("$program" check --devices template --json | tail -n 1)
  echo "$summary"
  case $summary in
  *'"unsupported":0,'*) exit 1 ;;
  *'"failed":0,'*) ;;
  *) exit 1 ;;
  esac
  summary=$("$program" check --devices template --ops relu --json | tail -n 1)
  echo "relu: $summary"
  case $summary in
  *'"failed":0,"unsupported":0,"coverage":1'*) ;;
  *) exit 1 ;;
  esac
  # What it leaves out on purpose lowers no coverage.
  "$program" check --mode coverage --devices template --ops relu,silu --except 'silu*@template:*'
  ;;
options)
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  chosen=$("$program" check --list --ops 'relu,sil*,' | sed 's/(.*//' | sort -u | tr '\n' ' ')
  if [ "$chosen" != 'relu silu ' ]; then
    echo "--ops 'relu,sil*,' takes $chosen"
    exit 1
  fi
  name=$("$program" check --list --ops softmax | tail -n 1)
  summary=$("$program" check --devices reference --seed 7 --case "$name" --json | tail -n 1)
  echo "$name: $summary"
  case $summary in
  '{"cases":1,"failed":0,"unsupported":0,"coverage":0.'*) ;;
  *) exit 1 ;;
  esac
  for arguments in '--case nonsense' '--ops nonsense' '--mode nonsense' '--seed nonsense' '--nonsense' 'nonsense' \
    '--variant nonsense' '--variant all' '--variant all --mode perf' '--random -1' '--random 2 --mode perf'; do
    status=0
    # shellcheck disable=SC2086
    "$program" check --devices reference $arguments || status=$?
    if [ "$status" -ne 2 ]; then
      echo "check $arguments: exit code $status instead of 2"
      exit 1
    fi
  done
  status=0
  "$program" check --devices nonsense || status=$?
  if [ "$status" -ne 4 ]; then
    echo "a device that does not exist: exit code $status instead of 4"
    exit 1
  fi
  # cases that are drawn: a seed's own, the same ones again, and the first of more
  written=$("$program" check --list | wc -l)
  drawn=$("$program" check --list --random 2 --seed 5 | tail -n "+$((written + 1))")
  more=$("$program" check --list --random 3 --seed 5)
  if [ "$drawn" != "$("$program" check --list --random 2 --seed 5 | tail -n "+$((written + 1))")" ] ||
    [ "$drawn" = "$("$program" check --list --random 2 --seed 6 | tail -n "+$((written + 1))")" ]; then
    echo "the cases that are drawn do not depend on the seed alone"
    exit 1
  fi
  # ranks cost little, and embeddings; products of three families may cost more than two millions each
  if [ "$(printf '%s\n' "$drawn" | grep -c '^embedding(')" -ne 2 ] ||
    [ "$(printf '%s\n' "$drawn" | grep -c '^matmul(')" -lt 3 ] ||
    [ "$(printf '%s\n' "$drawn" | grep -c '^matmul(')" -gt 6 ] ||
    [ "$(printf '%s\n' "$drawn" "$more" | sort | uniq -d | wc -l)" -ne "$(printf '%s\n' "$drawn" | wc -l)" ]; then
    echo "--random 2 does not draw the first cases of each family, as many as two millions allow"
    exit 1
  fi
  # dear cases are few, cheap ones many, and some are as large as real models
  many=$("$program" check --list --random 300 --seed 5 | tail -n "+$((written + 1))")
  if [ "$(printf '%s\n' "$many" | grep -c '^embedding(')" -lt 200 ] ||
    [ "$(printf '%s\n' "$many" | grep -c '^dropout(')" -gt 100 ] ||
    ! printf '%s\n' "$many" | sed -n 's/^dropout(x=\([0-9x]*\),.*/\1/p' |
      awk -F x '{ n = 1; for (i = 1; i <= NF; i++) n *= $i; if (n > 1048576) large++ } END { exit large == 0 }'; then
    echo "--random 300 draws by something else than what a case costs, or no dropout of more than a million elements"
    exit 1
  fi
  "$program" check --devices reference --ops '*norm' --share 1000000 --random 2 --seed 5
  name=$(printf '%s\n' "$drawn" | tail -n 1)
  summary=$("$program" check --devices reference --random 2 --seed 5 --case "$name" --json | tail -n 1)
  echo "$name: $summary"
  case $summary in
  '{"cases":1,"failed":0,"unsupported":0,'*) ;;
  *) exit 1 ;;
  esac
  if "$program" check --devices reference --seed 5 --case "$name"; then
    echo "a case was drawn without --random"
    exit 1
  fi
  # a run that has time enough takes each case once, drawn ones too; one that has none says what it left
  "$program" check --list --ops softmax,adam --random 2 --seed 5 | LC_ALL=C sort >"$work/all"
  "$program" check --devices reference --ops softmax,adam --random 2 --seed 5 --minutes 9 --json --verbose \
    >"$work/lines"
  sed -n 's/^{"case": *"\([^"]*\)".*/\1/p' "$work/lines" | LC_ALL=C sort >"$work/taken"
  if ! cmp -s "$work/all" "$work/taken"; then
    echo "check --minutes 9: other cases than check --list"
    diff "$work/all" "$work/taken" | head
    exit 1
  fi
  case $(tail -n 1 "$work/lines") in
  '{"cases":'*',"failed":0,"unsupported":0,'*'"not_reached":0,'*'"softmax":{"cases":'*'"error_of_bound":'*) ;;
  *)
    tail -n 1 "$work/lines"
    exit 1
    ;;
  esac
  summary=$("$program" check --devices reference --minutes 0.001)
  printf '%s\n' "$summary"
  case $summary in
  *' cases were not reached in 0.001 minutes') ;;
  *) exit 1 ;;
  esac
  if "$program" check --devices reference --ops softmax --minutes 1 --share 2; then
    echo "--minutes and --share were taken together"
    exit 1
  fi
  "$program" check --mode perf --devices reference --ops reduce_sum
  "$program" check --mode support --devices reference --ops softmax
  ;;
*)
  echo "run.sh: unknown test '$what'" >&2
  exit 2
  ;;
esac
