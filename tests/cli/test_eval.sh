#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Scores of a file and of a model, every form of input, and what is missing or bad.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

device=cpu
unset TESSERA_DEVICE

# score NAME: a number of the JSON that was printed last, cut to two digits behind the point.
score()
{
  tail -n 1 "$out" >"$work/json"
  json "$1" "$work/json" | sed 's/\(\.[0-9][0-9]\).*/\1/'
}

# A file: "the cat sat on" has 4, 3, 2 and 1 n-grams, all in the reference of 6 words.
printf 'the cat sat on\n' >"$work/hyp"
printf 'the cat sat on the mat\n' >"$work/ref"
run 0 eval --hypothesis "$work/hyp" --reference "$work/ref"
stdout_has 'BLEU               60.65'
stdout_has 'precisions       100.00 / 100.00 / 100.00 / 100.00'
stdout_has 'brevity penalty  0.6065: 4 words, 6 in the reference'
stdout_has 'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:tessera-'
stderr_is_empty
run 0 eval --hypothesis - --reference "$work/ref" --json <"$work/hyp"
check 'stdin: another BLEU' test "$(score bleu)" = 60.65
check 'stdin: not one sentence' test "$(score sentences)" = 1
check 'stdin: not one line' test "$(wc -l <"$out")" = 1
check 'signature' \
  sh -c 'printf "%s\n" "$1" | grep -q "^nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:"' - "$(score signature)"
check 'signature of chrF' \
  sh -c 'printf "%s\n" "$1" | grep -q "^nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:"' - \
  "$(score chrf_signature)"

# The same as SGM, with other line ends, in one XML file.
printf '<refset setid="a">\n<DOC docid="d">\n<hl>\n<seg id="1">the cat  sat on the\nmat</seg>\n</hl></DOC></refset>' \
  >"$work/ref.sgm"
printf '\357\273\277the cat sat on\r\n' >"$work/dos"
cat >"$work/all.xml" <<XML
<?xml version='1.0' encoding='utf-8'?>
<dataset id="a"><doc id="d"><src lang="en"><seg id="1">A source.</seg></src>
<ref lang="fr"><seg id="1">the cat sat on the mat</seg></ref>
<hyp system="s"><seg id="1">the cat sat on</seg></hyp></doc></dataset>
XML
gzip -c "$work/dos" >"$work/dos.gz"
gzip -c "$work/ref.sgm" >"$work/ref.sgm.gz"
for hypothesis in hyp dos all.xml dos.gz; do
  for reference in ref ref.sgm all.xml ref.sgm.gz; do
    run 0 eval --hypothesis "$work/$hypothesis" --reference "$work/$reference" --json
    check "$hypothesis, $reference: another BLEU" test "$(score bleu)" = 60.65
  done
done

# A model: its recorded translations are perfect against themselves, whatever holds them.
head -n 3 "$model/sample.en" >"$work/three.en"
head -n 3 "$model/sample.fr" >"$work/three.fr"
paste "$work/three.en" "$work/three.fr" >"$work/three.tsv"
evaluate()
{
  expected=$1
  shift
  run "$expected" eval "$model" --device $device "$@"
}
evaluate 0 --source "$work/three.en" --reference "$work/three.fr" --json
check 'model: BLEU is not 100' test "$(score bleu | cut -c 1-3)" = 100
check 'model: chrF is not 100' test "$(score chrf | cut -c 1-3)" = 100
evaluate 0 --source "$work/three.tsv" --beam 4 --precision int8 --json
check 'tsv: BLEU is not 100' test "$(score bleu | cut -c 1-3)" = 100
check 'tsv: not three sentences' test "$(score sentences)" = 3
evaluate 0 --source - --reference "$work/three.fr" --timings --workers 2 --batch 1 <"$work/three.en"
stdout_has 'BLEU               100.00'
stderr_has 'sentences  3 '

# More than a chunk, many of them empty: as one file after the other.
i=0
while [ $i -lt 350 ]; do
  echo
  sed -n 1p "$work/three.en"
  echo
  i=$((i + 1))
done >"$work/many.en"
"$TESSERA" translate --model "$model" --device $device --beam 1 "$work/many.en" >"$work/many.fr"
evaluate 0 --beam 1 --source "$work/many.en" --reference "$work/many.fr" --json
check 'many: BLEU is not 100' test "$(score bleu | cut -c 1-3)" = 100
check 'many: not 1050 sentences' test "$(score sentences)" = 1050

# Several references: the second has the rest of the words, and the nearer length; an empty one is none.
printf 'a cat sat there\n' >"$work/ref2"
run 0 eval --hypothesis "$work/hyp" --reference "$work/ref" --reference "$work/ref2"
stdout_has 'BLEU               100.00'
stdout_has 'brevity penalty  1.0000: 4 words, 4 in the reference'
stdout_has 'nrefs:2|case:mixed|eff:no|tok:13a|smooth:exp|version:tessera-'
echo >"$work/none"
run 0 eval --hypothesis "$work/hyp" --reference "$work/ref" --reference "$work/none" --json
check 'an empty reference counts' test "$(score bleu)" = 60.65
check 'signature of one reference' sh -c 'printf "%s\n" "$1" | grep -q "^nrefs:1|"' - "$(score signature)"

# Files side by side, and what is wrong with them.
cat >"$work/s.src" <<TEXT
This is a small test of the program here .
He has a dog , and she has a cat .
TEXT
cat >"$work/s.ref" <<TEXT
C'est un petit test du programme ici .
Il a un chien , et elle a un chat .
TEXT
cat >"$work/s.one" <<TEXT
C'est un petit test du programme ici .
Il a un chien , et elle a un chat .
TEXT
cat >"$work/s.two" <<TEXT
This is a small test of the programme .

TEXT
run 0 eval --hypothesis "$work/s.two" --hypothesis "$work/s.one" --reference "$work/s.ref" --source "$work/s.src" \
  --analysis --json
check 'files: other BLEU' test "$(score variants.1.bleu | cut -c 1-3)" = 100
check 'files: not two that differ' test "$(score differing)" = 2
check 'files: the empty one is not the worst' test "$(score worst.0.line)" = 2
check 'files: not empty' test "$(score variants.0.flaws.empty)" = 1
check 'files: not copied' test "$(score variants.0.flaws.copied)" = 1
check 'files: known to be cut' test "$(score variants.0.flaws.cut)" = null
check 'files: flaws of the good one' test "$(score variants.1.flaws.copied)" = 0
check 'files: another bucket' test "$(score variants.1.buckets.0.words)" = '10 to 14'
check 'files: no source' test "$(score differences.0.source)" = 'He has a dog , and she has a cat .'
check 'files: signature' \
  sh -c 'printf "%s\n" "$1" | grep -q "|eff:yes|tok:13a|smooth:exp|"' - "$(score sentence_signature)"
run 0 eval --hypothesis "$work/s.two" --hypothesis "$work/s.one" --reference "$work/s.ref" --worst 1
stdout_has 'they differ on 2 of 2 sentences'
check 'worst: not one sentence' test "$(grep -c '^  line ' "$out")" = 1
run 3 eval --hypothesis "$work/s.one" --hypothesis "$work/hyp" --reference "$work/s.ref"
stderr_has 'less sentences than the other files: it ends before sentence 2'
run 3 eval --hypothesis "$work/hyp" --hypothesis "$work/s.one" --reference "$work/ref"
stderr_has 'more sentences than the other files'

# A model in several ways.
evaluate 0 --source "$work/three.en" --reference "$work/three.fr" --compare greedy,beam4,beam4:0.6 --json
check 'compare: beam 4 is not perfect' test "$(score variants.1.bleu | cut -c 1-3)" = 100
check 'compare: other names' test "$(score variants.0.name) $(score variants.2.name)" = 'greedy beam4:0.6'
check 'compare: no time' test "$(score variants.0.tokens_per_second)" != 0.00
check 'compare: cut' test "$(score variants.0.cut)" = 0
evaluate 0 --source "$work/three.en" --reference "$work/three.fr" --max-length 4 --analysis
stdout_has 'cut at the maximum length                       3'
stdout_has 'the worst of beam4 by sentence BLEU (nrefs:1|case:mixed|eff:yes|'
evaluate 2 --source "$work/three.en" --reference "$work/three.fr" --compare greedy,best
stderr_has "'best' is none of greedy, beamN, beamN:PENALTY"
evaluate 2 --source "$work/three.en" --reference "$work/three.fr" --compare beam65
{ cat "$work/three.en"; awk 'BEGIN { for (i = 0; i < 60; i++) printf "house "; print "" }'; } >"$work/longer.en"
{ cat "$work/three.fr"; echo; } >"$work/longer.fr"
evaluate 3 --source "$work/longer.en" --reference "$work/longer.fr" --max-source 50 --long-input error
stderr_has 'longer.en, line 4: '
stdout_has 'BLEU               100.00'

# The word error rate: of words as they stand, and of normalised texts.
cat >"$work/spoken" <<TEXT
Mr. Brown can't come before twenty past ten.

The colour costs five dollars.
TEXT
printf 'mister brown can not come before 20 past 10\n(noise)\num the color cost $5 \377\n' >"$work/heard"
table=$SOURCE_ROOT/tests/data/goldens/speech/tokenizer/normalizer.json
wer()
{
  expected=$1
  shift
  run "$expected" eval --hypothesis "$work/heard" --reference "$work/spoken" --wer "$@"
}
wer 0
stdout_has 'BLEU '
stdout_has '|norm:none|version:tessera-'
wer 0 --normalizer basic --json
check 'basic: another WER' test "$(score wer)" = 64.28
check 'basic: other errors' \
  test "$(score substitutions) $(score deletions) $(score insertions)" = '7 1 1'
wer 0 --normalizer english --spellings "$table"
stdout_has 'WER                7.69'
stdout_has '  errors           1 substitutions, 0 deletions, 0 insertions'
stdout_has '  words            13, 13 in the reference'
stdout_has '  signature        nrefs:1|norm:english|version:tessera-'
wer 0 --normalizer english --spellings "$table" --json
check 'english: another WER' test "$(score wer)" = 7.69
check 'english: other words' test "$(score reference_words) $(score hypothesis_words)" = '13 13'
check 'english: signature' sh -c 'printf "%s\n" "$1" | grep -q "^nrefs:1|norm:english|"' - "$(score wer_signature)"
wer 0 --hypothesis "$work/spoken" --json
check 'files: other WER' test "$(score variants.1.wer)" = 0.0
wer 0 --hypothesis "$work/spoken"
stdout_has 'WER'
run 0 eval --hypothesis "$work/heard" --reference "$work/spoken" --json
check 'a WER that nobody asked for' sh -c '! grep -q wer "$1"' - "$out"
echo >"$work/silence"
run 0 eval --hypothesis "$work/hyp" --reference "$work/silence" --wer
stdout_has 'WER                -'
stdout_has '0 deletions, 4 insertions'
run 0 eval --hypothesis "$work/hyp" --reference "$work/silence" --wer --json
check 'silence: a rate' test "$(score wer)" = null
cp -R "$model" "$work/with-table"
cp "$table" "$work/with-table/normalizer.json"
run 0 eval "$work/with-table" --device $device --source "$work/three.en" --reference "$work/three.fr" --wer \
  --normalizer english --json
check 'the table of a model: WER' test "$(score wer)" = 0.0
evaluate 3 --source "$work/three.en" --reference "$work/three.fr" --wer --normalizer english
stderr_has 'normalizer.json is not there: --normalizer english needs a table of spellings'
wer 2 --normalizer english
stderr_has '--spellings is missing'
wer 2 --normalizer french
stderr_has 'french'
wer 2 --normalizer basic --spellings "$table"
stderr_has '--spellings is for --normalizer english'
run 2 eval --hypothesis "$work/hyp" --reference "$work/ref" --normalizer basic
stderr_has '--normalizer is for --wer'
wer 3 --normalizer english --spellings "$work/hyp"
stderr_has 'hyp: '
wer 3 --normalizer english --spellings "$work/nowhere"
stderr_has 'nowhere'

# What is missing, bad or contradictory.
run 2 eval
stderr_has 'a model or --hypothesis is missing'
run 2 eval --source "$work/three.en" --reference "$work/three.fr"
stderr_has 'the model is missing'
run 2 eval "$model"
stderr_has '--source is missing'
run 2 eval --hypothesis "$work/hyp"
stderr_has '--reference is missing'
run 2 eval "$model" --hypothesis "$work/hyp" --reference "$work/ref"
run 2 eval --hypothesis "$work/hyp" --reference "$work/ref" --source "$work/hyp"
run 2 eval --hypothesis "$work/hyp" --reference "$work/ref" --beam 4
run 2 eval "$model" two --source "$work/three.en" --reference "$work/three.fr"
run 2 eval "$model" --source "$work/three.en" --beam 0
stderr_has '--beam'
evaluate 3 --source "$work/three.en" --reference "$work/nowhere"
stderr_has 'nowhere'
evaluate 3 --source "$work/three.en"
stderr_has 'three.en:1: '
stderr_has 'tab'
run 3 eval "$work/nowhere" --source "$work/three.en" --reference "$work/three.fr"
stderr_has 'nowhere'
run 3 eval --hypothesis "$work/three.en" --reference "$work/ref"
stderr_has 'three.en has more sentences than'
stderr_has 'which ends after 1'
stdout_is_empty
run 3 eval --hypothesis /dev/null --reference /dev/null --json
stderr_has 'expected sentences, found none'
stdout_is_empty
printf '<refset>\n<seg id="1">a\n</refset>\n' >"$work/broken.sgm"
run 3 eval --hypothesis "$work/hyp" --reference "$work/broken.sgm"
stderr_has 'broken.sgm:2: expected </seg>'
head -c 20 "$work/dos.gz" >"$work/cut.gz"
run 3 eval --hypothesis "$work/cut.gz" --reference "$work/ref"
stderr_has 'cut.gz: ends in the middle of a gzip member'

finish
