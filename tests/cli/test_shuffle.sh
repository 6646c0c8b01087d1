#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tessera shuffle, from outside.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

n=20000
seq 1 $n >"$work/a.txt"
seq 1 $n | sed 's/$/ b/' >"$work/b.txt"

# shuffled OUT ARGUMENT...: the program writes into $work/OUT, and leaves nothing else there.
shuffled()
{
  folder=$work/$1
  shift
  run 0 shuffle --out "$folder" "$@"
  stderr_is_empty
  check "$last: temporary files are left" test -z "$(find "$folder" -name '*.shuffle' -o -name '*.partial')"
}

# same_lines A B: in whatever order.
same_lines()
{
  LC_ALL=C sort "$1" >"$work/sorted.1"
  LC_ALL=C sort "$2" >"$work/sorted.2"
  check "$last: $1 and $2 have other lines" cmp -s "$work/sorted.1" "$work/sorted.2"
}

# Pairs stay together, and each is there once.
shuffled pairs --memory 1 "$work/a.txt" "$work/b.txt"
stdout_has "pairs/a.txt, $work/pairs/b.txt: 20,000 pairs"
same_lines "$work/a.txt" "$work/pairs/a.txt"
check 'the order is that of the input' test "$(cmp -s "$work/a.txt" "$work/pairs/a.txt" && echo same)" = ''
sed 's/$/ b/' "$work/pairs/a.txt" >"$work/expected"
check 'pairs were parted' cmp -s "$work/expected" "$work/pairs/b.txt"

# The order depends on the seed, and on nothing else: not on the memory, the form of the input, or the second file.
shuffled more --memory 1000 "$work/a.txt" "$work/b.txt"
check 'more memory: another order' cmp -s "$work/pairs/b.txt" "$work/more/b.txt"
shuffled one --memory 1 "$work/a.txt"
check 'one file: another order' cmp -s "$work/pairs/a.txt" "$work/one/a.txt"
stdout_has 'one/a.txt: 20,000 lines'
gzip -c "$work/a.txt" >"$work/a.txt.GZ"
shuffled packed --memory 1 "$work/a.txt.GZ"
check 'gzip: another order' cmp -s "$work/pairs/a.txt" "$work/packed/a.txt"
if command -v zstd >/dev/null; then
  zstd -q -c "$work/a.txt" >"$work/a.txt.zst"
  if "$TESSERA" shuffle --out "$work/zstd" "$work/a.txt.zst" >"$out" 2>"$err"; then
    check 'zstd: another order' cmp -s "$work/pairs/a.txt" "$work/zstd/a.txt"
  else
    stderr_has 'built without libzstd'
  fi
fi
run 0 shuffle --out "$work/piped" --memory 1 - <"$work/a.txt"
check 'a pipe: another order' cmp -s "$work/pairs/a.txt" "$work/piped/stdin"
paste "$work/a.txt" "$work/b.txt" >"$work/both.tsv"
shuffled tsv "$work/both.tsv"
paste "$work/pairs/a.txt" "$work/pairs/b.txt" >"$work/expected"
check 'TSV: another order' cmp -s "$work/expected" "$work/tsv/both.tsv"
shuffled seed --seed 2 "$work/a.txt"
same_lines "$work/a.txt" "$work/seed/a.txt"
check 'the seed changes nothing' test "$(cmp -s "$work/pairs/a.txt" "$work/seed/a.txt" && echo same)" = ''

# Lines are as likely in one tenth of the result as in another, whatever tenth they come from: chi-square of 100 fields
# with 81 degrees of freedom, which 999 of 1,000 random orders have between 46 and 127.
chi=$(awk -v n=$n '{ field[int(($1 - 1) * 10 / n) * 10 + int((NR - 1) * 10 / n)]++ }
  END { for (i = 0; i < 100; i++) sum += (field[i] - n / 100) ^ 2 / (n / 100); print int(sum) }' "$work/pairs/a.txt")
check "chi-square is $chi" test "$chi" -ge 46 -a "$chi" -le 127
# No more neighbours remain so than chance has it, two (Poisson).
neighbours=$(awk '$1 == last + 1 { n++ } { last = $1 } END { print n + 0 }' "$work/pairs/a.txt")
check "$neighbours lines still follow the one before" test "$neighbours" -le 10

# Lines of all kinds.
: >"$work/empty"
shuffled kinds "$work/empty"
check 'an empty file: not empty' test -f "$work/kinds/empty" -a ! -s "$work/kinds/empty"
printf 'one\r\n\ntwo\nbad \377 byte\nnul \000 byte\nlast' >"$work/lines"
printf 'one\n\ntwo\nbad \357\277\275 byte\nnul \000 byte\nlast\n' >"$work/clean"
shuffled kinds "$work/lines"
same_lines "$work/clean" "$work/kinds/lines"
# One line that is larger than the memory, among others that are so together.
{
  head -c 3000000 /dev/zero | tr '\000' x
  echo
  seq 1 200000
} >"$work/long"
shuffled kinds --memory 1 "$work/long"
same_lines "$work/long" "$work/kinds/long"
printf '<srcset><seg id="1">a</seg><seg id="2">b</seg></srcset>' >"$work/x.sgm"
shuffled kinds "$work/x.sgm"
printf 'a\nb\n' >"$work/expected"
same_lines "$work/expected" "$work/kinds/x"

# What cannot be done leaves nothing behind.
printf 'one\n' >"$work/short"
run 3 shuffle --out "$work/bad" "$work/a.txt" "$work/short"
stderr_has 'a.txt has more sentences than'
stderr_has 'which ends after 1'
check 'something was written' test -z "$(ls "$work/bad")"
head -c 5000 "$work/a.txt.GZ" >"$work/cut.gz"
run 3 shuffle --out "$work/bad" "$work/cut.gz"
stderr_has 'cut.gz: ends in the middle of a gzip member'
check 'something was written' test -z "$(ls "$work/bad")"
(
  ulimit -f 20
  run 3 shuffle --out "$work/bad" "$work/a.txt"
  stderr_has 'bad/a.txt'
  stderr_has 'cannot be written'
  check 'something was written' test -z "$(ls "$work/bad")"
  [ $n_failures = 0 ]
) || n_failures=$((n_failures + 1))
run 3 shuffle --out "$work" "$work/a.txt"
stderr_has 'would be overwritten'
mkdir "$work/other"
cp "$work/b.txt" "$work/other/a.txt"
run 3 shuffle --out "$work/bad" "$work/a.txt" "$work/other/a.txt"
stderr_has 'would both be written to'
run 3 shuffle --out "$work/bad" "$work/nowhere"
stderr_has 'nowhere: cannot be opened'
run 2 shuffle "$work/a.txt"
stderr_has '--out is needed'
run 2 shuffle --out "$work/bad"
stderr_has 'the file to shuffle is missing'
run 2 shuffle --out "$work/bad" a b c
run 2 shuffle --out "$work/bad" --memory 0 "$work/a.txt"

# What is not this command's stays: a file, or another's files in a folder, where temporary files would be.
mkdir -p "$work/kept/b.txt.shuffle"
echo precious >"$work/kept/a.txt.shuffle"
echo precious >"$work/kept/b.txt.shuffle/level-0-0x"
for name in a b; do
  run 3 shuffle --out "$work/kept" "$work/$name.txt"
  stderr_has "$name.txt.shuffle: is in the way"
done
check 'a file in the way is gone' test -f "$work/kept/a.txt.shuffle"
check 'files in the way are gone' test -f "$work/kept/b.txt.shuffle/level-0-0x"
check 'something was written' test ! -e "$work/kept/a.txt"

# Of two results, no old one is left beside a new one.
shuffled pair "$work/a.txt" "$work/b.txt"
rm "$work/pair/b.txt"
mkdir "$work/pair/b.txt"
cp "$work/pair/a.txt" "$work/before"
run 3 shuffle --out "$work/pair" --seed 2 "$work/a.txt" "$work/b.txt"
stderr_has 'b.txt: is a folder'
check 'one side was replaced' cmp -s "$work/before" "$work/pair/a.txt"

# An old result stands until the new one is whole, and what a killed process left is no obstacle.
mkfifo "$work/pipe"
mkdir -p "$work/stop/pipe.shuffle"
echo old >"$work/stop/pipe"
echo old >"$work/stop/pipe.shuffle/level-0-000"
"$TESSERA" shuffle --out "$work/stop" "$work/pipe" >"$out" 2>"$err" &
program=$!
exec 3>"$work/pipe"
seq 1 1000 >&3
until [ -f "$work/stop/pipe.shuffle/level-0-063" ]; do
  kill -0 $program 2>/dev/null || break
  sleep 0.05
done
last='tessera shuffle, asked to stop'
kill -TERM $program
seq 1 100000 >&3 2>/dev/null
exec 3>&-
wait $program
code=$?
check "$last: exit code $code" test $code = 143
stderr_has 'stopped; nothing was written'
check "$last: files are left" test "$(ls "$work/stop")" = pipe
check "$last: the old file is gone" test "$(cat "$work/stop/pipe")" = old

finish
