#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The page of tessera eval in a browser: it loads without an error, headings sort, and sentences can be chosen. Skipped
# (77) where there is no Chromium.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

find_browser
cd "$work" || exit 1

printf 'first one\nsecond </script> <b>\nthird\n' >s.src
printf 'ein erster Satz\nnoch ein </script> Satz\nam Ende\n' >s.ref
printf 'ein erster Satz\nnoch ein Satz Satz\n\n' >one
printf 'kein erster Satz\nnoch ein </script> Satz\nam Ende\n' >two
run 0 eval --hypothesis one --hypothesis two --reference s.ref --source s.src --html page.html --json
cp "$out" told.json
check 'the page needs others' sh -c '! grep -q -i -e "http" -e "src=" -e "@import" page.html'

cat >user.html <<'HTML'
<script>
const seen = {errors: window.early};
const lines = () => [...by('sentences').tBodies[0].rows].map(r => r.cells[0].textContent).join(' ');
const choose = (id, value) => { by(id).value = value; by(id).dispatchEvent(new Event('change')); };
try {
  seen.worst = lines();
  seen.bleu = by('variants').rows[1].cells[1].textContent;
  seen.buckets = by('buckets').querySelectorAll('table').length;
  const buttons = by('sentences').tHead.querySelectorAll('button');
  buttons[0].click();
  seen.ascending = lines();
  buttons[0].click();
  seen.descending = lines();
  choose('flaw', 'empty');
  seen.empty = lines();
  choose('flaw', '');
  by('text').value = 'SECOND';
  by('text').dispatchEvent(new Event('input'));
  seen.found = lines();
  seen.source = by('sentences').tBodies[0].rows[0].cells[1].textContent;
  seen.marked = by('sentences').tBodies[0].rows[0].cells[4].querySelectorAll('mark').length;
  seen.count = by('count').value;
  by('text').value = '';
  by('text').dispatchEvent(new Event('input'));
  seen.marks = document.querySelectorAll('td mark').length;
} catch (error) {
  seen.errors.push(String(error));
}
const result = document.createElement('pre');
result.textContent = '@@' + JSON.stringify(seen) + '@@';
document.body.append(result);
</script>
HTML
{
  echo "<script>window.early = []; addEventListener('error', e => window.early.push(e.message))</script>"
  cat page.html user.html
} >used.html
visit used.html seen.json

# expect KEY VALUE: what was seen.
expect()
{
  check "$1: $(json "$1" seen.json), not $2" test "$(json "$1" seen.json)" = "$2"
}
expect worst '3 2 1'
expect bleu "$(printf '%.2f' "$(json variants.0.bleu told.json)")"
expect buckets 2
expect ascending '1 2 3'
expect descending '3 2 1'
expect empty 3
expect found 2
expect source 'second </script> <b>'
expect marked 0
expect marks 1
expect count '1 of 3 sentences'
finish
