// SPDX-License-Identifier: Apache-2.0
// Texts in pieces: sentences, each of which is translated alone and remembered, words, places in code points.

// A point behind these, or behind one letter, ends no sentence.
const ABBREVIATION = new RegExp(
  '(?:^|[\\s(«“„"])(?:\\p{L}|Mrs?|Ms|Dr|Prof|St|Sr|Sra|Jr|Mme|Mlle|Hr|Fr|Nr|No|vs|ca|bzw|usw|evtl|etc|pp?|vol|Abb|' +
    'fig|approx|\\p{L}(?:\\.\\s?\\p{L})+)\\.\\s*$', 'iu');

const segmenters = new Map();

function segmenter(language, granularity) {
  if (!Intl.Segmenter) return null;
  const name = `${granularity} ${language}`;
  if (!segmenters.has(name)) {
    let made;
    try {
      made = new Intl.Segmenter(tagOf(language), {granularity});
    } catch {
      made = new Intl.Segmenter('en', {granularity}); // a language without a tag
    }
    segmenters.set(name, made);
  }
  return segmenters.get(name);
}

function pieces(text, language, granularity, pattern) {
  const cut = segmenter(language, granularity);
  if (cut) return Array.from(cut.segment(text), one => ({begin: one.index, text: one.segment, isWord: one.isWordLike}));
  return Array.from(text.matchAll(pattern), one =>
    ({begin: one.index, text: one[0], isWord: /[\p{L}\p{N}]/u.test(one[0])}));
}

// The sentences of a text: where each begins and ends, without blanks around it, and the blanks before it, `gap`.
function sentencesOf(text, language) {
  const found = [];
  let end = 0;
  for (const line of text.matchAll(/[^\n]+/g)) {
    let begin = 0;
    let whole = '';
    const parts = pieces(line[0], language, 'sentence', /[^.!?。！？]*(?:[.!?。！？]+\s*|$)/gu).filter(part => part.text);
    parts.forEach((part, i) => {
      if (!whole) begin = part.begin;
      whole += part.text;
      const next = parts[i + 1];
      if (next && (ABBREVIATION.test(whole) || /^\p{Ll}/u.test(next.text))) return;
      const core = whole.trim();
      if (core) {
        const from = line.index + begin + whole.indexOf(core);
        found.push({begin: from, end: from + core.length, text: core, gap: text.slice(end, from)});
        end = from + core.length;
      }
      whole = '';
    });
  }
  return {list: found, tail: text.slice(end)};
}

// Words with what joins them: l'eau and peut-être are one word each. [begin, end) in UTF-16.
function wordsOf(text, language) {
  const parts = pieces(text, language, 'word', /[\p{L}\p{M}\p{N}]+|[^\p{L}\p{M}\p{N}]/gu);
  const words = [];
  parts.forEach((part, i) => {
    if (!part.isWord) return;
    const last = words[words.length - 1];
    const joint = parts[i - 1];
    const end = part.begin + part.text.length;
    if (last && joint && /^[-‑'’]$/.test(joint.text) && last.end === joint.begin) last.end = end;
    else words.push({begin: part.begin, end});
  });
  return words;
}

// place[i]: where code point i begins in UTF-16; the last one is the end.
function placesOf(text) {
  const places = [];
  let at = 0;
  for (const letter of text) {
    places.push(at);
    at += letter.length;
  }
  places.push(at);
  return places;
}

// Alignment as the server tells it, in code points, as pairs of places in UTF-16. What is out of range is left out. A
// pair is {target: [begin, end], source: [begin, end]}.
function alignmentOf(given, source, target) {
  if (!Array.isArray(given)) return [];
  const from = placesOf(source);
  const to = placesOf(target);
  const read = (span, places) => {
    const [begin, end] = Array.isArray(span) ? span : [];
    const isThere = begin < end && places[begin] !== undefined && places[end] !== undefined;
    return isThere ? [places[begin], places[end]] : null;
  };
  return given.map(pair => ({target: read(pair?.target, to), source: read(pair?.source, from)}))
    .filter(pair => pair.target && pair.source);
}

const overlap = (a, b) => a[0] < b[1] && b[0] < a[1];

// The words of the source that the place [begin, end) of the translation was made from.
function sourceOf(place, alignment, source, language) {
  const spans = alignment.filter(pair => overlap(pair.target, place)).map(pair => pair.source);
  const words = wordsOf(source, language).map(word => [word.begin, word.end]);
  const lit = words.filter(word => spans.some(span => overlap(span, word)));
  return lit.length ? lit : spans.sort((a, b) => a[0] - b[0]).slice(0, 1);
}

// Blanks between two sentences of a translation: scripts without blanks between words have none between sentences.
function gapFor(gap, language, isFirst) {
  if (isFirst || /\n/.test(gap)) return gap;
  const tight = ['zh', 'ja', 'th', 'lo', 'km', 'my', 'bo', 'dz'].includes(tagOf(language).split('-')[0]);
  return tight ? '' : gap || ' ';
}
