#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Faults of a device, drawn by the number of a call: the program ends with a message that names the device and says what
# to do, and with a documented exit code; what was finished is there; nothing crashes or hangs. Where `auto` took the
# device, a file that is being translated is translated to its end by another one.
#   test_faults.sh PROFILE RUNS KIND...  as many translations with a fault of each kind (tests/card/README.md lists
#                                        them), and one training with one of the last
# CARD_SEED in the environment draws others.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"
profile=$1
runs=$2
shift 2
with=$SOURCE_ROOT/tests/card/with
unset TESSERA_DEVICE TESSERA_STAGING TESSERA_MAX_BINDING TESSERA_MAX_GROUPS TESSERA_VULKAN_VARIANT
unset CARD_FAULT CARD_STATISTICS
export TESSERA_BACKEND_PATH="$BUILD_ROOT/backends/cpu:$BUILD_ROOT/backends/vulkan"
export TESSERA_VULKAN_KERNELS=cpu # which the driver compiles sooner
# Tessera's folder of kernels is this test's own, the driver's is not: it need not compile them again.
export MESA_SHADER_CACHE_DIR="${MESA_SHADER_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME-}/.cache}}"
export XDG_CACHE_HOME="$work/cache"

# on_card CODES ARGUMENT...: the program on the card must end with one of these codes, and not hang. It gets much time:
# each submit waits for other threads, and a busy machine lets them wait long.
on_card()
{
  n_checks=$((n_checks + 1))
  codes=$1
  shift
  last="CARD_FAULT=${CARD_FAULT-} tessera $*"
  code=0
  timeout -k 5 240 "$with" "$profile" "$TESSERA" "$@" >"$out" 2>"$err" || code=$?
  case " $codes " in
  *" $code "*) ;;
  *) failure "$last: exit code $code, expected one of: $codes" ;;
  esac
  if [ $code != 0 ]; then
    stderr_has 'vulkan'
    check "$last: does not say what to do" \
      grep -q -E 'use a smaller|close other|choose another|another device|update it|check with|try again' "$err"
    check "$last: asks for a report" sh -c '! grep -q "please report it" "$1"' - "$err"
  fi
}

# The exit code where a device fails: 4; where memory is short: 5, or 4; 0 where it could do without. Waits are as many
# as the clock lets there be: a late one may not come.
codes_of()
{
  case $1 in
  allocate | allocate-above | buffer | bind | map | commands | submit | descriptors | host-memory) echo '0 4 5' ;;
  lost-in-wait | wait-timeout) echo '0 4' ;;
  *) echo 4 ;;
  esac
}

commit=$(git -C "$SOURCE_ROOT" rev-list --count HEAD 2>/dev/null) || commit=1
seed=${CARD_SEED:-$commit}
echo "CARD_SEED=$seed"
n_drawn=0
# draw LEAST MOST: sets $drawn to a number from LEAST to MOST.
draw()
{
  n_drawn=$((n_drawn + 1))
  drawn=$(awk -v seed=$((seed * 1000 + n_drawn)) -v least="$1" -v most="$2" \
    'BEGIN { srand(seed); for (i = 0; i < 5; i++) rand(); print least + int((most - least + 1) * rand()) }')
}

# Of falling length, so that sentences are finished in the order of the lines.
awk '{ print length($0) "\t" $0 }' "$model/sample.en" | sort -rn | cut -f 2- | head -n 6 >"$work/six.en"
: >"$work/none.en"
translate()
{
  codes=$1
  shift
  on_card "$codes" translate --model "$model" --beam 1 --max-length 6 --batch 2 "$@"
}

# calls KIND FILE: how many there were in a run.
calls()
{
  json "calls.$1" "$2"
}

export CARD_STATISTICS="$work/loading.json"
translate 0 --device vulkan:0 "$work/none.en"
if [ $code = 77 ]; then
  cat "$out"
  exit 77
fi
export CARD_STATISTICS="$work/whole.json"
translate 0 --device vulkan:0 "$work/six.en"
unset CARD_STATISTICS
cp "$out" "$work/good"
check 'not six lines' test "$(wc -l <"$work/good")" = 6

train()
{
  codes=$1
  shift
  on_card "$codes" train --device vulkan:0 "$@"
}
toy='--task reverse --vocab-size 8 --max-length 4 --d-model 16 --d-ff 32 --heads 2 --encoder-layers 1
  --decoder-layers 1 --batch-tokens 64 --log-every 2 --validate-every 100 --bleu-sentences 0 --warmup 5 --steps 6
  --save-every 2'
export CARD_STATISTICS="$work/training.json"
# shellcheck disable=SC2086 # options
train 0 $toy --out "$work/model"
unset CARD_STATISTICS

for kind; do
  # A number that is never reached changes nothing.
  export CARD_FAULT="$kind:1000000000"
  translate 0 --device vulkan:0 "$work/six.en"
  check "$last: another translation" cmp -s "$out" "$work/good"

  run=0
  while [ $run -lt "$runs" ]; do
    run=$((run + 1))
    case $kind in
    allocate-above)
      draw 100000 4000000
      loading=0
      ;;
    *)
      loading=$(calls "$kind" "$work/loading.json")
      # the first while the model is loaded, the others over what comes after that, if it does any such thing
      if [ $run = 1 ] || [ "$(calls "$kind" "$work/whole.json")" -le "$loading" ]; then
        draw 1 "$loading"
      else
        draw $((loading + 1)) "$(calls "$kind" "$work/whole.json")"
      fi
      ;;
    esac
    export CARD_FAULT="$kind:$drawn" CARD_STATISTICS="$work/faulty.json"
    rm -f "$CARD_STATISTICS"
    translate "$(codes_of "$kind")" --device vulkan:0 "$work/six.en"
    unset CARD_STATISTICS
    case $code,$kind in
    0,lost-in-wait | 0,wait-timeout)
      check "$last: exit code 0 after the fault" test "$(calls "$kind" "$work/faulty.json")" -lt "$drawn"
      ;;
    esac
    n=$(wc -l <"$out")
    head -n "$n" "$work/good" >"$work/expected"
    check "$last: other lines" cmp -s "$out" "$work/expected"
    check "$last: exit code 0 without all lines" test $code != 0 -o "$n" = 6
    if [ "$n" -gt 0 ] && [ $code != 0 ]; then
      stderr_has "the lines up to $n are translated; line $((n + 1)) and what follows are not"
    fi
    # The device was not asked for: another one goes on. Where the machine's own memory is short that would not help.
    case $kind in
    host-memory | allocate-above | device) translate "0 $(codes_of "$kind")" "$work/six.en" ;;
    *)
      translate 0 "$work/six.en"
      check "$last: another translation" cmp -s "$out" "$work/good"
      ;;
    esac
  done

done

# A training ends with what it saved; without the fault it goes on from there.
draw 1 "$(calls "$kind" "$work/training.json")"
export CARD_FAULT="$kind:$drawn"
# shellcheck disable=SC2086 # options
train "$(codes_of "$kind")" $toy --out "$work/resumed"
fault=$last
if [ $code != 0 ]; then
  unset CARD_FAULT
  if [ -s "$work/resumed/train/last.safetensors" ]; then
    train 0 --resume --out "$work/resumed"
  else
    rm -rf "$work/resumed"
    # shellcheck disable=SC2086 # options
    train 0 $toy --out "$work/resumed"
  fi
fi
check "$fault: resumed to another model" cmp -s "$work/resumed/model.safetensors" "$work/model/model.safetensors"

finish
