#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The options of the search, from outside.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

head -n 3 "$model/sample.en" >"$work/three.en"

# search CODE DEVICE ARGUMENT...
search()
{
  wanted=$1
  device=$2
  shift 2
  run "$wanted" translate --model "$model" --device "$device" "$@"
}

# The same on both.
for options in '--beam 1 --scores' '--beam 4 --n-best 3 --length-norm gnmt --length-penalty 0.6' \
  '--beam 4 --search marian --word-penalty 0.1 --n-best 4' '--beam 3 --patience 2 --early-stopping true --n-best 3' \
  '--beam 1 --repetition-penalty 5 --scores' '--beam 3 --repetition-penalty 0.5' '--no-repeat-ngram 1 --beam 2' \
  '--sample --n-best 2 --seed 5' '--sample --top-k 0 --top-p 0.8 --temperature 1.5 --scores' '--beam 4 --eos 0,2' \
  '--beam 2 --suppress 400,19 --begin-suppress 2871 --forced-bos 39' \
  '--beam 3 --bad-words 19,2871_400 --renormalize'; do
  options=$(echo "$options" | sed 's/2871_400/"2871 400"/')
  for device in cpu reference; do
    eval "search 0 $device $options --min-new-tokens 4 \"\$work/three.en\""
    stderr_is_empty
    sed 's/-[0-9]*\.[0-9]*//' "$out" >"$work/$device"
  done
  check "$options: the backends differ" cmp -s "$work/cpu" "$work/reference"
done

# N lines a sentence, which begin with its number; an empty one has one line, and it is empty.
printf '%s\n\n%s\n' "$(sed -n 1p "$work/three.en")" "$(sed -n 2p "$work/three.en")" >"$work/empty.en"
search 0 cpu --beam 4 --n-best 3 "$work/empty.en"
check 'n-best: not seven lines' test "$(wc -l <"$out")" = 7
check 'n-best: other numbers' test "$(cut -f 1 "$out" | tr '\n' ' ')" = '1 1 1  3 3 3 '
check 'n-best: another best one' test "$(sed -n 1p "$out" | cut -f 3)" = "$(sed -n 1p "$model/sample.fr")"
search 0 cpu --beam 4 --n-best 3 --json "$work/empty.en"
sed -n 3p "$out" >"$work/json"
check 'n-best: no rank' test "$(json rank "$work/json")" = 2

# The same seed, the same text, whatever is in the batch; another seed, another text.
search 0 cpu --sample --seed 11 "$model/sample.en"
cp "$out" "$work/sampled"
search 0 cpu --sample --seed 11 --batch 1 --workers 2 "$model/sample.en"
check 'seed: another text in other batches' cmp -s "$out" "$work/sampled"
search 0 cpu --sample --seed 12 "$model/sample.en"
check 'seed: the same text for another one' test "$(cat "$out")" != "$(cat "$work/sampled")"

# Greedy search has scores where they are wanted: the best hypothesis of a beam of one.
search 0 cpu --beam 1 --json "$work/three.en"
sed -n 1p "$out" >"$work/json"
check 'greedy: a score that was not wanted' test "$(json score "$work/json")" = null
search 0 cpu --beam 1 --scores "$work/three.en"
cp "$out" "$work/greedy"
search 0 cpu --beam 1 --search marian --scores "$work/three.en"
four_digits='s/\(\.[0-9]\{4\}\)[0-9]*/\1/'
check 'greedy: other scores' test "$(sed "$four_digits" "$out")" = "$(sed "$four_digits" "$work/greedy")"

# Lists are as long as they have to be, and one way to say it is as good as the other.
search 0 cpu --beam 1 --suppress "$(seq -s , 2 4001)" "$work/three.en"
cp "$out" "$work/suppressed"
check 'nothing was suppressed' test "$(cat "$work/suppressed")" != "$(cut -f 2 "$work/greedy")"
search 0 cpu --beam 1 --suppress "$(seq -s , 2 2000)" --bad-words "$(seq -s , 2001 4001)" "$work/three.en"
check 'many suppressed tokens and bad words' cmp -s "$out" "$work/suppressed"
search 0 cpu --beam 1 --begin-suppress "$(seq -s , 2 4001)" --eos "0,$(seq -s , 4002 4200)" "$work/three.en"
search 0 cpu --beam 2 --bad-words "$(seq -s , -f '%g 5 5' 2 4001)" "$work/three.en"

# What cannot be.
search 2 cpu --search beam "$work/three.en"
stderr_has "'beam' is none of transformers, marian"
search 2 cpu --early-stopping maybe "$work/three.en"
stderr_has "'maybe' is none of false, true, never"
search 2 cpu --suppress 1,x "$work/three.en"
stderr_has "--suppress: expected a token id at 'x'"
search 2 cpu --bad-words 1-2 "$work/three.en"
stderr_has '--bad-words'
search 2 cpu --seed -1 "$work/three.en"
stderr_has '--seed'
search 2 cpu --top-p 1.5 "$work/three.en"
stderr_has '--top-p'
search 2 cpu --top-k 5 "$work/three.en"
stderr_has '--top-k is for sampling'
search 2 cpu --max-length-factor 2 "$work/three.en"
stderr_has '--max-length-factor is for Marian'
search 2 cpu --beam 2 --n-best 3 "$work/three.en"
stderr_has '--n-best is 3; it should be 1 to 2'
search 2 cpu --forced-bos 99999 "$work/three.en"
stderr_has '--forced-bos is 99999; it should be -1 to'
search 2 cpu --search marian --sample "$work/three.en"
stderr_has 'sampling is no search of Marian'
search 2 cpu --suppress 99999 "$work/three.en"
stderr_has 'suppressed token is 99999'
search 2 cpu --beam 2 --sample "$work/three.en"
stderr_has 'sampling takes no beams'
stdout_is_empty

finish
