#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The page of curves: what is drawn, from one log and from several, and logs that are none.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

head=step,epoch,seconds,loss,learning_rate,gradient_norm,tokens_per_second,scale,skipped
head=$head,valid_loss,valid_perplexity,valid_bleu,valid_exact
folder=$work/'a <folder> & more'
mkdir -p "$folder/train"
page=$folder/curves.html
cat >"$folder/train/log.csv" <<CSV
$head
50,0,10.5,8.125,0.0001,2.5,5000,1,0,,,,
100,0,20.5,6.1,0.0002,1.5,5100,1,0,,,,
100,0,20.5,,,,,,,5.9,365,0.5,
150,0,30,5.0625,0.0003,0,5050,1,0,,,,
150,0,31,,,,,,,4.75,115,7.5,
CSV
cat >"$folder/train/layers.csv" <<CSV
step,layer,mean,deviation,gradient_norm
50,encoder.layers.0,0.1,1.0,0.5
50,decoder.layers.0,0.2,2.0,0.25
100,encoder.layers.0,0.1,1.5,0.5
100,decoder.layers.0,0.2,2.5,0.25
CSV

printf 'task: reverse\n# a remark\nrate: 0.001\nvalid_source: "<b> & c.en"\nseed: 1\n' >"$folder/train/recipe.yaml"

# Six quantities that the log has (no exact share, a scale that never moves) and three of the layers.
run 0 plot "$folder"
stdout_has ': 9 charts'
count()
{
  grep -o -F -e "$1" "$page" | wc -l
}
check 'not nine charts' test "$(count '<figure>')" = 9
check 'a curve is missing' test "$(count '<polyline')" = 13
check 'the title is not escaped' grep -q -F 'a &lt;folder&gt; &amp; more</h1>' "$page"
check 'the last loss is not told' grep -q -F 'loss <b>5.0625</b>' "$page"
check 'the last BLEU is not told' grep -q -F 'valid_bleu <b>7.5</b>' "$page"
check 'the best BLEU is not told' grep -q -F "valid_bleu <b>7.5</b> <span class='quiet'>(best 7.5 at step 150)" "$page"
check 'the best loss is not told' grep -q -F '(best 4.75 at step 150)' "$page"
check 'not three bests are marked' test "$(count "class='best'")" = 3
check 'the recipe is not told' grep -q -F '<tr><td>valid_source</td><td>&lt;b&gt; &amp; c.en</td></tr>' "$page"
check 'not four keys of the recipe' test "$(count '<tr>')" = 4
check 'a lone recipe differs' test "$(count '<tr class=')" = 0
check 'the points of the loss are missing' grep -q -F '"x":[50,100,150],"y":[8.125,6.1,5.0625]' "$page"
check 'a layer is missing' grep -q -F 'decoder.layers.0 <b>2.5</b>' "$page"
check 'the page needs others' sh -c '! grep -q -i -e "http" -e "src=" -e "@import" "$1"' - "$page"
run 0 plot "$folder" --by-time --title 'Zeit' --out "$work/time.html"
check 'no minutes' grep -q -F '"x":[0.175,0.3416667,0.5],"y":[8.125' "$work/time.html"
check 'no minutes of the best' grep -q -F '(best 4.75 after 0.5167 minutes)' "$work/time.html"
check 'the title was not taken' grep -q -F '<h1>Zeit</h1>' "$work/time.html"

# A title of any length, whose characters have one to four bytes.
long=
for number in 1 2 3 4 5 6 7 8 9; do
  long="$long$number été 東京 𝄞 <ваза> mm mmm mmmm mmmmm mmmmmm été été été é 東京東京東京東京東京東京東京東京"
done
run 0 plot "$folder" --title "$long" --out "$work/long.html"
check 'a long title is another one' grep -q -F "<h1>$(printf '%s' "$long" | sed 's/</\&lt;/g; s/>/\&gt;/g')</h1>" \
  "$work/long.html"

# Two logs: each curve is named after its log.
printf 'step,loss\r\n1,3\r\n2,2\r\n' >"$work/one.csv"
printf 'step,loss\n1,4\n2,nan\n3,1\n' >"$work/two.csv"
run 0 plot "$work/one.csv" "$work/two.csv" --out "$work/both.html"
stdout_has ': 1 charts'
check 'a log is missing' grep -q -F "two.csv <b>1</b>" "$work/both.html"
check 'NaN is drawn' grep -q -F '"x":[1,3],"y":[4,1]' "$work/both.html"

# Two folders: what differs in their recipes comes first, and is marked. A best is the first of equal ones.
cp -r "$folder" "$work/second"
printf 'task: reverse\nrate: 0.002\nvalid_source: "<b> & c.en"\nseed: 1\nfloor: 0\n' >"$work/second/train/recipe.yaml"
printf '200,0,40,,,,,,,4.75,115,7.5,\n' >>"$work/second/train/log.csv"
run 0 plot "$folder" "$work/second" "$work/one.csv" --out "$work/both.html"
page=$work/both.html
check 'not two keys differ' test "$(count '<tr class=')" = 2
check 'the rates are not side by side' grep -q -F "<tr class='differs'><td>rate</td><td>0.001</td><td>0.002</td></tr>" \
  "$page"
check 'a key that one lacks' grep -q -F "<td>floor</td><td></td><td>0</td>" "$page"
check 'the later of equal bests' test "$(count '(best 4.75 at step 150)')" = 2

run 2 plot
run 2 plot "$work/one.csv"
stderr_has '--out is needed'
run 3 plot "$work/none" --out "$work/x.html"
stderr_has "$work/none: there is no such folder, or file"
run 3 plot "$work/none"
stderr_has "$work/none: there is no such folder, or file"
printf '' >"$work/empty.csv"
run 3 plot "$work/empty.csv" --out "$work/x.html"
stderr_has 'the file is empty'
printf 'time,loss\n1,2\n' >"$work/other.csv"
run 3 plot "$work/other.csv" --out "$work/x.html"
stderr_has "other.csv:1: the first column should be 'step'"
printf 'step,loss\n1,2\n2,high\n' >"$work/text.csv"
run 3 plot "$work/text.csv" --out "$work/x.html"
stderr_has "text.csv:3: 'high' in column 'loss' is no number"
printf 'step,loss\n1,2,3\n' >"$work/long.csv"
run 3 plot "$work/long.csv" --out "$work/x.html"
stderr_has 'long.csv:2: more cells than the 2'
printf 'step,loss\n1\n' >"$work/short.csv"
run 3 plot "$work/short.csv" --out "$work/x.html"
stderr_has 'short.csv:2: 1 cells'
printf 'step,loss\n1,\n' >"$work/nothing.csv"
run 3 plot "$work/nothing.csv" --out "$work/x.html"
stderr_has 'nothing in it can be drawn'
check 'a page was left' test ! -e "$work/x.html"
run 3 plot "$work/one.csv" --out "$work/missing/x.html"
stderr_has 'missing'

finish
