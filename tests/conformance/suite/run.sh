#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs `tessera check` for the test suite: run.sh PROGRAM WHAT, and tells meson to skip where there is nothing to run on.
#   devices      every device that is found, against the reference
#   swiftshader  the same through the Vulkan driver that TESSERA_SWIFTSHADER_ICD names
#   reference    the reference against itself: guards, and equal bits from equal runs
#   template     the plugin that supports two operators: those pass, the others are reported as unsupported
set -eu

program=$1
skip=77

case $2 in
devices)
  status=0
  "$program" check --mode coverage || status=$?
  # 4: no device beside the reference
  if [ "$status" -eq 4 ]; then
    exit $skip
  fi
  exit "$status"
  ;;
swiftshader)
  if [ -z "${TESSERA_SWIFTSHADER_ICD:-}" ]; then
    echo "TESSERA_SWIFTSHADER_ICD names no driver"
    exit $skip
  fi
  VK_ICD_FILENAMES=$TESSERA_SWIFTSHADER_ICD exec "$program" check --mode coverage --devices vulkan:0
  ;;
reference)
  exec "$program" check --mode coverage --devices reference
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
  ;;
*)
  echo "run.sh: unknown test '$2'" >&2
  exit 2
  ;;
esac
