#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Numbers that are none: in a model's weights, and computed by a backend that has a fault.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

export TESSERA_BACKEND_PATH="$FAULTY:$BACKENDS"
printf 'Yes.\nWe often play tennis together on Sundays, and you know it.\n\nNo.\n' >"$work/text.en"
printf 'Oui.\nNous jouons souvent au tennis le dimanche, et tu le sais.\n\nNon.\n' >"$work/text.fr"

# Without a fault the backend is the reference.
run 0 translate --model "$model" --device faulty "$work/text.en"
check 'no fault: lines are missing' test "$(wc -l <"$out")" = 4

# A product that gives NaN is called what it is: device, line, operator, sentence, and what to do next.
for how in '--beam 1' '--beam 3' '--beam 1 --scores' '--beam 1 --sample --top-k 0' '--beam 1 --no-repeat-ngram 2'; do
  # shellcheck disable=SC2086 # options
  FAULTY_LINE=decoder.layers.0.feed_forward run 4 translate --model "$model" --device faulty --workers 1 $how \
    "$work/text.en"
  stderr_has "$work/text.en, line 2: faulty:0 computed NaN at step 0 from finite numbers, in line "
  stderr_has 'matmul'
  stderr_has 'decoder.layers.0.feed_forward'
  stderr_has "\`tessera compare $model --devices reference,faulty:0\` tells where"
  check "$last: the weights are blamed" test "$(grep -c damaged "$err")" = 0
done
FAULTY_LINE=decoder.layers.0.feed_forward run 4 score "$model" --device faulty --source "$work/text.en" \
  --target "$work/text.fr"
stderr_has "$work/text.en, line 2: faulty:0 computed NaN at token 0 from finite numbers, in line "

# The same where the encoder has it, and the decoder reads what is left of it.
FAULTY_LINE=encoder.layers.0.self_attention run 4 translate --model "$model" --device faulty --workers 1 "$work/text.en"
stderr_has "$work/text.en, line 2: faulty:0 computed NaN in the encoder from finite numbers, in line "
stderr_has 'encoder.layers.0.self_attention'

# What the message tells to do next finds the line.
FAULTY_LINE=decoder.layers.0.feed_forward run 1 compare "$model" --devices reference,faulty:0
check 'compare: the line is not told' grep -q 'decoder.layers.0.feed_forward' "$out"

# A weight that is damaged on the device, after it was looked at.
FAULTY_TOKEN=333 run 4 translate --model "$model" --device faulty --workers 1 "$work/text.en"
stderr_has 'which was finite when it was loaded, holds NaN on the device'

# NaN in the file is told when the model is loaded, by tensor and element.
cp -r "$model" "$work/damaged"
chmod -R u+w "$work/damaged"
size=$(wc -c <"$work/damaged/model.safetensors")
printf '\377\377\377\377' | dd of="$work/damaged/model.safetensors" bs=1 seek=$((size - 4)) conv=notrunc 2>/dev/null
run 3 translate --model "$work/damaged" --device faulty "$work/text.en"
stderr_has "$work/damaged/model.safetensors: tensor '"
stderr_has 'is damaged: element '
stderr_has ' is NaN, the first of '
run 3 score "$work/damaged" --device faulty --source "$work/text.en" --target "$work/text.fr"
stderr_has 'is NaN, the first of '

finish
