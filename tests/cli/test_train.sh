#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tessera train, from outside: what it leaves, and what is missing or bad.
# shellcheck disable=SC2086 # $small, $toy and $relative are options
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"
unset TESSERA_DEVICE

data=$SOURCE_ROOT/tests/data/tatoeba
cat >"$work/recipe.yaml" <<YAML
# A tiny model.
source: $data/test.en
target: $data/test.fr
valid_source: $data/test.en
valid_target: $data/test.fr
vocab: $work/vocab
device: cpu
model:
  d_model: 16
  heads: 2
  d_ff: 32
  encoder_layers: 1
  decoder_layers: 1
batch_tokens: 600
bucket: 8
steps: 20
log_every: 5
save_every: 4
validate_every: 10
bleu_sentences: 20
warmup: 10
YAML
train()
{
  expected=$1
  shift
  run "$expected" train --config "$work/recipe.yaml" "$@"
}
toy='--task reverse --device cpu --vocab-size 8 --max-length 4 --d-model 16 --d-ff 32 --heads 2 --encoder-layers 1
  --decoder-layers 1 --batch-tokens 256 --warmup 20 --log-every 5 --bleu-sentences 20'

# value NAME: of the JSON that was printed last.
value()
{
  tail -n 1 "$out" >"$work/json"
  json "$1" "$work/json"
}

run 0 vocab --source "$data/test.en" --target "$data/test.fr" --out "$work/vocab" --size 300

# What would be done.
train 0 --out "$work/none" --dry-run
stdout_has 'parameters  '
stdout_has 'as planned'
train 0 --out "$work/none" --dry-run --json
check 'dry run: left out' test "$(value left_out)" = 0
check 'dry run: planned bytes' test "$(value planned_bytes)" -gt 0
check 'dry run: leaves files' test ! -e "$work/none"

# A whole run.
train 0 --out "$work/model" --json --average 0.9 --average-last 2 --statistics
check 'steps' test "$(value steps)" = 20
check 'reason' test "$(value reason)" = steps
stderr_has 'tokens/s'
stderr_has 'validation: loss'
for file in config.json generation_config.json model.safetensors source.spm target.spm vocab.json \
  tokenizer_config.json; do
  check "no $file" test -s "$work/model/$file"
done
for file in last.safetensors best.safetensors step-000000000016.safetensors step-000000000020.safetensors log.csv \
  log.jsonl layers.csv recipe.yaml; do
  check "no train/$file" test -s "$work/model/train/$file"
done
check 'partial files' test -z "$(find "$work/model" -name '*.partial' -o -name candidate)"
check 'csv: rows' test "$(cut -d, -f1 "$work/model/train/log.csv" | tr '\n' ' ')" = 'step 5 10 10 15 20 20 20 '
check 'jsonl: rows' test "$(wc -l <"$work/model/train/log.jsonl")" = 7
sed -n 1p "$work/model/train/log.jsonl" >"$work/json"
check 'jsonl: layers' test "$(json layers.1.name "$work/json")" = decoder.layers.0
check 'layers.csv: rows' test "$(wc -l <"$work/model/train/layers.csv")" = 9
printf 'He is here.\n' >"$work/text"
run 0 translate --model "$work/model" --device cpu --max-length 8 "$work/text"
run 0 info "$work/model"

# What it was begun with is enough to go on; more steps are fine, another model is not.
run 0 train --resume --out "$work/model" --steps 24 --json
check 'resumed: steps' test "$(value steps)" = 24
stderr_has 'resumed at step 20'
train 2 --out "$work/model" --resume --d-model 32
stderr_has "d_model '16'"
train 2 --out "$work/model" --resume --schedule cosine
train 3 --out "$work/model"
stderr_has 'holds a training'
run 3 train --resume --out "$work/none"
stderr_has 'no training to resume'
run 3 train $toy --steps 2 --out "$model"
stderr_has 'holds a model'

# A model is trained on; the other family; pairs of one file; passes over the data; minutes.
train 2 --out "$work/tuned" --init "$work/model" --steps 2 --d-ff 64
stderr_has "has d_ff '32', not '64'"
for key in d_model heads d_ff encoder_layers decoder_layers; do
  grep -v "  $key:" "$work/recipe.yaml" >"$work/less" && mv "$work/less" "$work/recipe.yaml"
done
grep -v '^model:' "$work/recipe.yaml" >"$work/less" && mv "$work/less" "$work/recipe.yaml"
train 0 --out "$work/tuned" --init "$work/model" --steps 2 --json
check 'tuned: steps' test "$(value steps)" = 2
check 'tuned: the recipe has another form' grep -q '^d_model: 16$' "$work/tuned/train/recipe.yaml"
grep -v '^out:' "$work/tuned/train/recipe.yaml" >"$work/tuned.yaml"
run 0 train --config "$work/tuned.yaml" --out "$work/again"
check 'tuned: the recipe makes another model' cmp "$work/tuned/model.safetensors" "$work/again/model.safetensors"
run 0 vocab --source "$data/test.en" --target "$data/test.fr" --out "$work/smaller" --size 250
train 3 --out "$work/none" --init "$work/model" --steps 2 --vocab "$work/smaller"
stderr_has 'vocabularies of 301 and 301 tokens'
small='--d-model 16 --heads 2 --d-ff 32 --encoder-layers 1 --decoder-layers 1'
run 0 vocab --source "$data/test.en" --target "$data/test.fr" --out "$work/separate" --size 200 --separate
train 0 --out "$work/torch" $small --family nn_transformer --norm-first --activation gelu --steps 2 \
  --vocab "$work/separate" --max-positions 18
run 0 translate --model "$work/torch" --device cpu --max-length 8 "$work/text"
# Relative positions: trained, resumed, translated with, trained on.
relative="$small --family nn_transformer --position-encoding relative --max-distance 3 --vocab $work/separate"
train 0 --out "$work/relative" $relative --steps 4 --save-every 2
check 'relative: the recipe' grep -q '^position_encoding: relative$' "$work/relative/train/recipe.yaml"
check 'relative: config.json' grep -q '"max_distance": 3' "$work/relative/config.json"
train 0 --out "$work/relative.parts" $relative --steps 2
run 0 train --resume --out "$work/relative.parts" --steps 4
check 'relative: resumed it is another' cmp "$work/relative/model.safetensors" "$work/relative.parts/model.safetensors"
run 0 translate --model "$work/relative" --device cpu --max-length 8 "$work/text"
train 0 --out "$work/relative.on" --init "$work/relative" --vocab "$work/separate" --steps 2
check 'relative: trained on in another form' grep -q '^max_distance: 3$' "$work/relative.on/train/recipe.yaml"
train 2 --out "$work/none" --init "$work/relative" --vocab "$work/separate" --steps 2 --max-distance 4
stderr_has "has max_distance '3', not '4': leave it out"
train 2 --out "$work/none" $small --position-encoding relative --steps 2 --vocab "$work/separate"
stderr_has '--position-encoding is for nn_transformer'
train 0 --out "$work/marian" $small --steps 2 --vocab "$work/separate"
run 0 translate --model "$work/marian" --device cpu --max-length 8 "$work/text"
paste "$data/test.en" "$data/test.fr" | head -n 200 >"$work/both.tsv"
run 0 train --tsv "$work/both.tsv" --vocab "$work/vocab" --device cpu $small --batch-tokens 600 --epochs 1 \
  --max-source 16 --out "$work/shorter"
stdout_has 'left out: of 200 pairs '
run 0 train --tsv "$work/both.tsv" --vocab "$work/vocab" --device cpu $small --batch-tokens 600 --epochs 2 --json \
  --out "$work/tsv"
check 'tsv: epochs' test "$(value reason)" = epochs
run 0 train $toy --minutes 0.01 --schedule linear --json --out "$work/minutes"
check 'minutes: reason' test "$(value reason)" = minutes
run 0 train $toy --steps 200 --validate-every 2 --patience 1 --rate 0 --floor 0 --warmup 1 --schedule constant --json \
  --out "$work/patience"

# A toy task is learnt.
run 0 train $toy --d-model 32 --d-ff 64 --batch-tokens 512 --rate 0.005 --warmup 50 --average 0.95 --validate-every 50 \
  --bleu-sentences 300 --steps 600 --until 0.9 --json --out "$work/reverse"
check 'reverse: not learnt' test "$(value reason)" = until
check 'reverse: not exact' sh -c 'echo "$1 >= 0.9" | sed "s/^1.0/1/" | awk "{exit !(\$1 >= 0.9)}"' - "$(value exact)"

# Gradients beyond f16 are left out, and the scale falls.
run 0 train $toy --steps 10 --precision f16 --loss-scale 1e30 --json --out "$work/f16"
check 'f16: steps' test "$(value steps)" = 10
check 'f16: none skipped' test "$(value skipped)" -gt 0

# Numbers that are not finite end it, with the step, the pairs and the line.
run 3 train $toy --rate 1e30 --warmup 0 --schedule constant --steps 10 --out "$work/fault"
stderr_has 'step 2: the '
stderr_has 'of the task: '
stderr_has 'It begins in line'

# SIGTERM saves and stops; the rows are those of a run that was not stopped.
rows()
{
  cut -d, -f1,2,4,5,6,8- "$1/train/log.csv"
}
run 0 train $toy --steps 300 --out "$work/whole"
"$TESSERA" train $toy --steps 300 --out "$work/stopped" >"$out" 2>"$err" &
process=$!
while ! grep -q '^10,' "$work/stopped/train/log.csv" 2>/dev/null && kill -0 $process 2>/dev/null; do
  sleep 0.02
done
kill -TERM $process
check 'SIGTERM: no success' wait $process
check 'SIGTERM: no state' test -s "$work/stopped/train/last.safetensors"
run 0 train --resume --out "$work/stopped" --json
check 'SIGTERM: steps' test "$(value steps)" = 300
rows "$work/whole" >"$work/rows"
rows "$work/stopped" >"$work/rows.stopped"
check 'SIGTERM: other rows' cmp -s "$work/rows" "$work/rows.stopped"

# A folder belongs to one training: another leaves it as it is. There is nothing to resume from yet, however fast this
# is.
"$TESSERA" train $toy --steps 1000000 --save-every 1000000 --validate-every 1000000 --out "$work/busy" \
  >"$work/busy.out" 2>"$work/busy.err" &
process=$!
while ! grep -q '^5,' "$work/busy/train/log.csv" 2>/dev/null && kill -0 $process 2>/dev/null; do
  sleep 0.02
done
cp "$work/busy/train/recipe.yaml" "$work/busy.yaml"
run 3 train $toy --steps 2 --seed 2 --out "$work/busy"
stderr_has 'another training writes to it'
run 3 train --resume --keep 2 --out "$work/busy"
check 'busy: another recipe' cmp "$work/busy.yaml" "$work/busy/train/recipe.yaml"
kill -TERM $process
check 'busy: no success' wait $process

# The best one that was validated is lost: what follows is compared anew.
rm "$work/stopped/train/best.safetensors"
run 0 train --resume --out "$work/stopped" --steps 305 --json
check 'no best: steps' test "$(value steps)" = 305
check 'no best: none again' test -s "$work/stopped/train/best.safetensors"

# A file that may not grow is a full disk.
(
  ulimit -f 40
  "$TESSERA" train $toy --steps 100 --save-every 10 --out "$work/full" >"$out" 2>"$err"
)
check 'full: the exit code' test $? = 3
stderr_has 'cannot be written'
check 'full: a torn file' test -z "$(find "$work/full" -name '*.partial')"
run 0 train --resume --out "$work/full"

# What would never end, or be found bad after hours, is found at once.
run 2 train --tsv "$work/both.tsv" --vocab "$work/vocab" --device cpu $small --patience 2 --out "$work/none"
stderr_has '--valid-source is missing'
train 2 --out "$work/until" $small --criterion loss --until 20
stderr_has 'compared by their loss'
run 2 train $toy --until 99 --out "$work/share"
stderr_has 'expected at most 1'
run 2 train $toy --device cpu,cpu:0 --steps 2 --out "$work/devices"
stderr_has "'cpu,cpu:0' names 2 devices, and one process trains on one of them: start a rank for each, \`mpirun -n 2"
check 'devices: a folder was made' test ! -e "$work/devices"
run 2 train --tsv "$work/both.tsv" --vocab "$work/vocab" --device cpu $small --batch-tokens 600 --epochs 1 \
  --accumulate 1000 --out "$work/short"
stderr_has 'before the first update'
: >"$work/empty"
train 3 --out "$work/unvalidated" $small --valid-source "$work/empty" --valid-target "$work/empty" --validate-every 1000
stderr_has 'no sentence pairs'
check 'unvalidated: steps were made' test ! -s "$work/unvalidated/train/log.csv"
train 2 --out "$work/none" $small --norm-first
stderr_has '--norm-first is for nn_transformer'

# Bad recipes.
bad()
{
  printf '%b' "$1" >"$work/bad.yaml"
  run 3 train --config "$work/bad.yaml" --out "$work/none"
  stderr_has "$2"
}
bad 'task: reverse\nrat: 3\n' "bad.yaml:2: there is no key 'rat'; the nearest is 'rate'"
bad 'task: reverse\n\nrate: high\n' "bad.yaml:3: rate: expected a number, found 'high'"
bad 'steps: 1.5\n' "bad.yaml:1: steps: expected a whole number, found '1.5'"
bad 'dropout: 2\n' "bad.yaml:1: dropout: expected 0 to 0.99, found '2'"
bad 'norm_first: maybe\n' "bad.yaml:1: norm_first: expected true or false"
bad 'family: gpt\n' "bad.yaml:1: family: expected marian|nn_transformer|bart|pegasus|t5|mt5|umt5|t5gemma"
bad 'rate: [1, 2]\n' 'bad.yaml:1: rate: expected a number or a text'
bad 'a:\n  b:\n    rate: 1\n' 'bad.yaml:2: b: expected a number or a text'
bad 'rate: 1\nrate: 2\n' "bad.yaml:2: the key 'rate' was there before"
bad '- rate\n' 'bad.yaml:1: expected keys and values'
bad 'rate: 1\n---\nrate: 2\n' 'expected one document'
bad 'rate: "1\n' 'bad.yaml:'
run 3 train --config "$work/nowhere.yaml" --out "$work/none"
stderr_has 'nowhere.yaml'
run 3 train --task reverse --family bart --steps 1 --out "$work/none"
stderr_has "a model of the family 'bart' needs a folder to start from (init)"

# Bad command lines.
run 2 train
stderr_has '--out is missing'
run 2 train --out "$work/none" --steps 2
stderr_has '--task'
run 2 train --out "$work/none" --task reverse
stderr_has 'for it to end'
run 2 train --out "$work/none" --task reverse --steps x
stderr_has '--steps: expected a whole number'
run 2 train --out "$work/none" --task revers --steps 2
run 2 train --out "$work/none" --source "$data/test.en" --steps 2
run 2 train --out "$work/none" --source "$data/test.en" --target "$data/test.fr" --steps 2
stderr_has '--vocab is missing'
run 2 train --out "$work/none" --task reverse --epochs 2 --schedule linear
stderr_has 'in steps or minutes'
run 2 train --out "$work/none" --task reverse --steps 2 more
run 2 train --out "$work/none" --task reverse --steps 2 --max-length 16 --max-positions 16
stderr_has 'no room for a batch of width 17'
train 3 --out "$work/gone" --source "$work/nowhere.en"
stderr_has 'nowhere.en'
check 'bad runs leave files' test ! -e "$work/none"

finish
