#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The page of tessera attention in a browser: it loads without an error, heads can be switched, and what it shows under
# the pointer is what --json tells. Skipped (77) where there is no Chromium.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

find_browser
cd "$work" || exit 1

# </script> in a sentence must not end the page's data.
sentence='The </script> "museum" is worth visiting.'
run 0 attention "$model" "$sentence" --device cpu --out page.html --json
cp "$out" weights.json

# The page with somebody who uses it: what was seen is put into an element at its end.
cat >user.html <<'HTML'
<script>
const seen = {errors: window.early, cells: {}};
seen.begins = [document.querySelector('[name=kind]:checked').value, by('layer').value, by('head').value].join('/');
seen.labels = Array.from(by('top').children, span => span.textContent).join(' ');
const map = by('map'), hover = (row, column) => {
  const box = map.getBoundingClientRect();
  const k = data.kinds.find(k => k.id === document.querySelector('[name=kind]:checked').value);
  const x = (column + 0.5) * map.width / k.columns.length, y = (row + 0.5) * map.height / k.rows.length;
  map.dispatchEvent(new PointerEvent('pointermove', {clientX: box.left + x, clientY: box.top + y, bubbles: true}));
  return by('value').dataset.weight;
};
const choose = (id, value) => { by(id).value = value; by(id).dispatchEvent(new Event('change')); };
const picture = () => map.toDataURL();
try {
  for (const kind of ['encoder', 'decoder', 'cross']) {
    document.querySelector('[value=' + kind + ']').click();
    for (const [layer, head, row, column] of [[0, 0, 1, 0], [2, 5, 2, 1], [1, 3, 3, 3]]) {
      choose('layer', layer);
      choose('head', head);
      seen.cells[[kind, layer, head, row, column].join('_')] = hover(row, column);
    }
  }
  seen.text = by('value').value;
  choose('head', -1);
  seen.average = hover(1, 0);
  const before = picture();
  by('heads').children[3].click();
  seen.switched = before !== picture() && by('head').value === '2';
  seen.pressed = document.querySelectorAll('[aria-pressed=true]').length;
  hover(0, 0);
  map.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}));
  map.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowDown', bubbles: true}));
  seen.keyboard = by('value').dataset.weight;
  seen.hover = hover(1, 1);
  seen.source = by('about').children[5].textContent;
} catch (error) {
  seen.errors.push(String(error));
}
const result = document.createElement('pre');
result.id = 'seen';
result.textContent = '@@' + JSON.stringify(seen) + '@@';
document.body.append(result);
</script>
HTML
{
  echo "<script>window.early = []; addEventListener('error', e => window.early.push(e.message))</script>"
  cat page.html user.html
} >used.html

visit used.html seen.json
for kind in encoder decoder cross; do
  for cell in 0.0.1.0 2.5.2.1 1.3.3.3; do
    shown=$(json "cells.${kind}_$(echo $cell | tr . _)" seen.json)
    told=$(printf '%.6f' "$(json $kind.$cell weights.json)")
    check "$kind.$cell: shown $shown, told $told" test "$shown" = "$told"
  done
done
mean=$(for head in 0 1 2 3 4 5; do json cross.1.$head.1.0 weights.json; done |
  awk '{ s += $1 / 6 } END { printf "%.6f", s }')
check "the average is shown as $(json average seen.json), not $mean" \
  sh -c 'awk "BEGIN { d = $1 - $2; exit !(d < 2e-6 && d > -2e-6) }"' - "$(json average seen.json)" "$mean"
check 'it does not begin with the layer that aligns' test "$(json begins seen.json)" = cross/2/-1
check "labels: $(json labels seen.json)" \
  test "$(json labels seen.json)" = \
  'The ␣ <unk> ·/ ·s ·c ·r ·i ·p ·t <unk> " ·m ·use ·um ·" is worth visit ·ing ·. </s>'
check 'a head cannot be chosen' test "$(json switched seen.json)" = true
check 'not one head is marked' test "$(json pressed seen.json)" = 1
check 'the arrow keys do not move' test "$(json keyboard seen.json)" = "$(json hover seen.json)"
check 'another sentence' test "$(json source seen.json)" = "$sentence"
finish
