#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A training that is killed at any moment goes on as if it had not been.
#   test_train_kills.sh KILLS STEPS
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"
# LeakSanitizer, which crashes now and then at the end of a training, looks at trainings in test_train.sh.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
unset TESSERA_DEVICE

kills=$1
steps=$2
data=$SOURCE_ROOT/tests/data/tatoeba
seed=${KILLS_SEED:-$(date +%s)}
printf 'KILLS_SEED=%s\n' "$seed"

run 0 vocab --source "$data/test.en" --target "$data/test.fr" --out "$work/vocab" --size 300
cat >"$work/recipe.yaml" <<YAML
{source: $data/test.en, target: $data/test.fr, valid_source: $data/test.en, valid_target: $data/test.fr,
 vocab: $work/vocab, device: cpu, d_model: 32, heads: 2, d_ff: 64, encoder_layers: 1, decoder_layers: 1,
 batch_tokens: 600, bucket: 8, steps: $steps, accumulate: 2, average: 0.9, average_last: 3, log_every: 3,
 save_every: 5, validate_every: 25, bleu_sentences: 20, warmup: 10, max_norm: 1, attention_dropout: 0.1,
 activation_dropout: 0.1, weight_decay: 0.01, statistics: true}
YAML

begin=$(date +%s%N)
run 0 train --config "$work/recipe.yaml" --out "$work/whole"
took=$((($(date +%s%N) - begin) / 1000000))

# The resumed training left what the other did.
compare()
{
  for name in log.csv layers.csv; do
    fields=1-
    [ $name = log.csv ] && fields=1,2,4,5,6,8-
    cut -d, -f$fields "$work/whole/train/$name" >"$work/rows"
    cut -d, -f$fields "$work/killed/train/$name" >"$work/rows.killed"
    check "other rows in $name" cmp "$work/rows" "$work/rows.killed"
  done
  for run in whole killed; do # all digits of the losses
    sed 's/"seconds":[^,]*,//; s/"tokens_per_second":[^,]*,//' "$work/$run/train/log.jsonl" >"$work/$run.jsonl"
    (cd "$work/$run" && find . -type f | sort) >"$work/files.$run"
  done
  check 'other rows in log.jsonl' cmp "$work/whole.jsonl" "$work/killed.jsonl"
  check 'another model' cmp "$work/whole/model.safetensors" "$work/killed/model.safetensors"
  check 'other files' cmp "$work/files.whole" "$work/files.killed"
}

# Killed behind the last step, before states that are not kept any more were removed.
(cd "$work/whole" && find . -type f | sort) >"$work/files.whole"
oldest=$(find "$work/whole/train" -name 'step-*' | sort | head -n 1)
check 'no state is kept' test -n "$oldest"
cp "$oldest" "$(printf '%s' "$oldest" | sed 's/step-[0-9]*/step-000000000001/')"
planted=$(find "$work/whole/train" -name 'step-*' | sort | head -n 1)
check 'an older state cannot be planted' test "$planted" != "$oldest"
run 0 train --config "$work/recipe.yaml" --out "$work/whole" --resume
(cd "$work/whole" && find . -type f | sort) >"$work/files.resumed"
check 'an older state stays' cmp "$work/files.whole" "$work/files.resumed"

# Each is killed within a third of the time that the whole took, from its start on. Those that come to their end before
# are compared, and it begins anew.
i=0
landed=0
while [ $landed -lt "$kills" ] && [ $n_failures = 0 ]; do
  i=$((i + 1))
  pause=$(awk -v seed="$seed$i" -v most=$((took / 3)) 'BEGIN {srand(seed); printf "%.3f", rand() * most / 1000}')
  resume=
  [ -e "$work/killed/train/recipe.yaml" ] && resume=--resume
  "$TESSERA" train --config "$work/recipe.yaml" --out "$work/killed" $resume >"$out" 2>"$err" &
  process=$!
  sleep "$pause"
  kill -KILL $process 2>/dev/null
  code=0
  wait $process 2>/dev/null || code=$?
  if [ $code = 0 ]; then
    compare
    rm -rf "$work/killed"
  else
    check "ended by itself with code $code" test $code = 137
    landed=$((landed + 1))
  fi
done
resume=
[ -e "$work/killed/train/recipe.yaml" ] && resume=--resume
run 0 train --config "$work/recipe.yaml" --out "$work/killed" $resume
compare
printf '%d kills, %d starts\n' $landed $i

finish
