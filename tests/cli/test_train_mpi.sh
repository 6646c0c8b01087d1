#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Trainings of several ranks under mpirun: the files of one rank, byte by byte but for times; ranks that die, stop and
# fail; checkpoints that another number of ranks goes on from.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"
# MPI keeps memory until the process ends.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
unset TESSERA_DEVICE
export TESSERA_THREADS=1

command -v mpirun >/dev/null || {
  echo 'there is no mpirun'
  exit 77
}

# ranks N CODE ARGUMENT...: the program as N ranks; as `run`.
ranks()
{
  n_checks=$((n_checks + 1))
  n=$1
  expected=$2
  shift 2
  code=0
  mpirun -n "$n" "$TESSERA" "$@" >"$out" 2>"$err" || code=$?
  last="mpirun -n $n tessera $*"
  [ $code = "$expected" ] || failure "$last: exit code $code, expected $expected"
}

# same EXPECTED FOUND: two trainings left the same.
same()
{
  for run in "$1" "$2"; do # all digits of the losses
    sed 's/"seconds":[^,]*,//; s/"tokens_per_second":[^,]*,//' "$work/$run/train/log.jsonl" >"$work/$run.jsonl"
    (cd "$work/$run" && find . -type f | sort) >"$work/files.$run"
  done
  check "$2: another log than $1" cmp "$work/$1.jsonl" "$work/$2.jsonl"
  check "$2: other files than $1" cmp "$work/files.$1" "$work/files.$2"
  for file in model.safetensors config.json train/layers.csv $(cd "$work/$1" && ls train/step-*); do
    check "$2: another $file than $1" cmp "$work/$1/$file" "$work/$2/$file"
  done
}

data=$SOURCE_ROOT/tests/data/tatoeba
run 0 vocab --source "$data/test.en" --target "$data/test.fr" --out "$work/vocab" --size 300
cat >"$work/recipe.yaml" <<YAML
{source: $data/test.en, target: $data/test.fr, valid_source: $data/test.en, valid_target: $data/test.fr,
 vocab: $work/vocab, device: cpu, d_model: 32, heads: 2, d_ff: 64, encoder_layers: 1, decoder_layers: 1,
 batch_tokens: 600, bucket: 8, steps: 30, average: 0.9, log_every: 3, save_every: 5, validate_every: 15,
 bleu_sentences: 20, warmup: 10, max_norm: 1, attention_dropout: 0.1, weight_decay: 0.01, statistics: true, keep: 3}
YAML

# As many batches as ranks, and more.
run 0 train --config "$work/recipe.yaml" --accumulate 2 --out "$work/two"
run 0 train --config "$work/recipe.yaml" --accumulate 3 --out "$work/three"
ranks 2 0 train --config "$work/recipe.yaml" --out "$work/two-ranks"
check 'the number of ranks is not in the recipe' grep -q '^accumulate: 2$' "$work/two-ranks/train/recipe.yaml"
check 'the ranks did not work together' test "$(grep -c 'steps in' "$out")" = 1
same two two-ranks
ranks 3 0 train --config "$work/recipe.yaml" --comm mpi --out "$work/three-ranks"
same three three-ranks
ranks 2 0 train --config "$work/recipe.yaml" --accumulate 3 --out "$work/three-shared"
same three three-shared
ranks 3 0 train --config "$work/recipe.yaml" --accumulate 2 --out "$work/two-shared"
stderr_has '3 ranks share the 2 batches of an update (accumulate): 1 of them have nothing to compute'
same two two-shared

# Moments and averages that are shared out.
ranks 3 0 train --config "$work/recipe.yaml" --shard-optimizer --out "$work/three-shares"
same three three-shares

# Gradients in 16 bits: other numbers, the same on any number of ranks.
run 0 train --config "$work/recipe.yaml" --accumulate 2 --gradient-precision bf16 --out "$work/bf16"
ranks 2 0 train --config "$work/recipe.yaml" --gradient-precision bf16 --out "$work/bf16-ranks"
same bf16 bf16-ranks
check 'bf16 changes nothing' test "$(cmp -s "$work/bf16.jsonl" "$work/two.jsonl" && echo same)" != same

# Sounds, with masks, in windows of several lengths.
sounds=$SOURCE_ROOT/tests/data/goldens/speech/features
for i in 1 2 3 4 5 6 7 8; do
  printf '%s\t%s\n' "$sounds/fox.wav" "The $i quick brown foxes" "$sounds/count.wav" "One two three $i" \
    "$sounds/bonjour.wav" "Bonjour $i" "$sounds/silence.wav" "Nothing $i"
done >"$work/sounds.tsv"
run 0 vocab --speech --source "$work/sounds.tsv" --out "$work/sound-vocab" --size 300
cat >"$work/sounds.yaml" <<YAML
{speech: $work/sounds.tsv, vocab: $work/sound-vocab, device: cpu, source_positions: 200, max_positions: 64, d_model: 32,
 heads: 2, d_ff: 64, encoder_layers: 1, decoder_layers: 1, batch_tokens: 500, bucket: 16, whole_windows: 0.3,
 time_masks: 2, mel_masks: 2, steps: 10, average: 0, log_every: 1, save_every: 5, warmup: 5, statistics: true, keep: 2}
YAML
run 0 train --config "$work/sounds.yaml" --accumulate 2 --out "$work/heard"
ranks 2 0 train --config "$work/sounds.yaml" --out "$work/heard-ranks"
same heard heard-ranks

# begin N ARGUMENT...: ranks in the background, which have made steps, and would go on for hours. Sets $mpirun.
begin()
{
  n=$1
  shift
  : >"$err" # what is waited for is not there from before
  mpirun -n "$n" "$TESSERA" "$@" >"$out" 2>"$err" &
  mpirun=$!
  tries=0
  while [ $tries -lt 600 ] && ! grep -q '^step' "$err"; do
    sleep 0.1
    tries=$((tries + 1))
  done
}

# Waits for them. Sets $code and $took, in seconds.
await()
{
  begun=$(date +%s)
  code=0
  wait $mpirun || code=$?
  took=$(($(date +%s) - begun))
}

# The processes that train in a folder.
pids_of()
{
  for process in /proc/[0-9]*; do
    case $(tr '\0' ' ' 2>/dev/null <"$process/cmdline") in
      "$TESSERA "*" $1 "*) echo "${process#/proc/}" ;;
    esac
  done
}

# Three ranks, of which one is killed; two, of which one is asked to stop; two, whose mpirun hands on a signal; one,
# which goes on to the end, as far as one that was never stopped.
begin 3 train --config "$work/recipe.yaml" --steps 1000000 --out "$work/parts"
kill -9 "$(pids_of "$work/parts" | tail -n 1)"
await
check "a rank was killed, and mpirun ends with $code" test $code != 0
check "a rank was killed, and the others needed $took s" test $took -le 60
check 'a rank is left' test -z "$(pids_of "$work/parts")"
begin 2 train --resume --out "$work/parts"
kill -TERM "$(pids_of "$work/parts" | tail -n 1)"
await
check "a rank was stopped, and mpirun ends with $code" test $code = 0
check 'a rank was stopped, and the training was not' grep -q '(stopped)' "$out"
if mpirun --version | grep -q 'Open MPI'; then # MPICH's ends its ranks
  begin 2 train --resume --out "$work/parts"
  kill -USR1 $mpirun
  await
  check "mpirun was asked to stop, and ends with $code" test $code = 0
  check 'mpirun was asked to stop, and the training was not' grep -q '(stopped)' "$out"
fi
steps=$((($(tail -n 1 "$work/parts/train/log.csv" | cut -d, -f1) / 30 + 2) * 30))
run 0 train --resume --out "$work/parts" --steps $steps
stderr_has 'resumed at step'
run 0 train --config "$work/recipe.yaml" --steps $steps --accumulate 3 --out "$work/long"
same long parts

# What all ranks find wrong is told once.
ranks 3 2 train --config "$work/recipe.yaml"
check "$last: the message is not there once" test "$(grep -c -- '--out is missing' "$err")" = 1
ranks 3 3 train --config "$work/recipe.yaml" --out "$work/parts"
check "$last: the message is not there once" test "$(grep -c 'holds a training already' "$err")" = 1
mpirun -n 1 "$TESSERA" train --config "$work/recipe.yaml" --out "$work/unlike" : \
  -n 1 "$TESSERA" train --config "$work/recipe.yaml" --out "$work/unlike" --d-ff 96 >"$out" 2>"$err"
check 'ranks with different models' grep -q 'rank 1: this rank trains with other settings, or another model' "$err"

# Of one rank, and of a build without the plugin.
run 0 train --config "$work/recipe.yaml" --comm mpi --steps 3 --out "$work/single"
TESSERA_BACKEND_PATH=$BACKENDS run 4 train --config "$work/recipe.yaml" --comm mpi --steps 3 --out "$work/without"
stderr_has 'there is no libtessera-comm-mpi'

finish
