// SPDX-License-Identifier: Apache-2.0
// The view that translates: languages, the text, its translation, the words of it.

const KEPT = 20000; // translations that are remembered
const TOGETHER = 8; // sentences in a request
const SIDE_BY_SIDE = 2; // requests at a time
const CHOICES = 6; // continuations that are asked for

const view = {
  isLoaded: false, // the server has told what it has
  languages: new Map(), // code -> {code, name, targets}
  source: 'auto',
  target: '',
  detected: '',
  limit: 0, // characters; 0: none
  delay: 300, // ms from the last key to the request
  streams: true, // the server has /translate/stream
  known: new Map(), // of a sentence, see keyOf: {text, alignment, chosen}
  sentences: [], // of the text: {begin, end, text, gap, key, partial, stale}
  tail: '',
  drawn: [], // what each element of the translation was drawn from
  timer: 0,
  controller: null, // of what is under way
  detections: new Map(),
  word: null, // the one that Tab reaches: {sentence, begin}
  choosing: null, // {controller, sentence, word} while the choices are shown
};

const text = () => by('source-text').value;
const fromCode = () => (view.source === 'auto' ? view.detected : view.source);
const keyOf = sentence => [fromCode() || 'auto', view.target, sentence].join('\n');

function remember(key, translation) {
  view.known.delete(key);
  view.known.set(key, translation);
  if (view.known.size > KEPT) view.known.delete(view.known.keys().next().value);
}

/* ---- Languages ---- */

function recent() {
  return (store.get('recent') || '').split(' ').filter(code => view.languages.has(code));
}

function keepRecent(code) {
  if (!view.languages.has(code)) return;
  store.set('recent', [code, ...recent().filter(one => one !== code)].slice(0, 4).join(' '));
}

function option(code) {
  return make('option', {value: code}, languageName(code, view.languages.get(code)?.name));
}

function languageOptions(codes) {
  const sorted = codes.map(option)
    .sort((a, b) => a.textContent.localeCompare(b.textContent, face.language));
  const late = recent().filter(code => codes.includes(code));
  if (sorted.length < 12 || !late.length) return sorted;
  return [
    make('optgroup', {label: say('recent')}, ...late.map(option)), make('optgroup', {label: say('all')}, ...sorted),
  ];
}

function targetsOf(code) {
  const all = code ? view.languages.get(code)?.targets || [] : [...view.languages.values()].flatMap(one => one.targets);
  return [...new Set(all)].filter(target => target !== code);
}

function drawDetected() {
  const first = by('source').options[0];
  if (first) {
    first.textContent = view.detected ?
      say('detected', {language: languageName(view.detected, view.languages.get(view.detected)?.name)}) : say('detect');
  }
}

// The lists, and a target that the source's language can be translated into.
function drawLanguages() {
  const sources = [...view.languages.values()].filter(one => targetsOf(one.code).length).map(one => one.code);
  by('source').replaceChildren(make('option', {value: 'auto'}, ''), ...languageOptions(sources));
  if (view.source !== 'auto' && !sources.includes(view.source)) view.source = 'auto';
  by('source').value = view.source;
  drawDetected();
  const targets = targetsOf(fromCode());
  if (!targets.includes(view.target))
    view.target = [...recent(), face.language, 'en'].find(code => targets.includes(code)) || targets[0] || '';
  by('target').replaceChildren(...languageOptions(targets));
  by('target').value = view.target;
  by('swap').disabled = !view.target || !fromCode() || !targetsOf(view.target).includes(fromCode());
  by('source-text').lang = fromCode() ? tagOf(fromCode()) : '';
  by('target-text').lang = view.target ? tagOf(view.target) : '';
}

function chooseLanguages(source, target) {
  view.source = source;
  view.target = target;
  view.detected = '';
  keepRecent(target);
  keepRecent(source);
  drawLanguages();
  writeAddress();
  changed(0);
}

function swap() {
  const source = fromCode();
  const translation = translationText();
  by('source-text').value = translation || text();
  chooseLanguages(view.target, source);
}

/* ---- The address: #source=en&target=fr&text=.., and LibreTranslate's ?source=..&target=..&q=.. ---- */

function readAddress() {
  const query = new URLSearchParams(location.search);
  const hash = new URLSearchParams(location.hash.slice(1));
  const get = name => hash.get(name) ?? query.get(name);
  return {source: get('source'), target: get('target'), text: get('text') ?? query.get('q')};
}

function addressOf(withText) {
  const parts = new URLSearchParams({source: view.source, target: view.target});
  if (withText) parts.set('text', text());
  return `${location.href.split(/[?#]/)[0]}#${parts}`;
}

// The text goes into the address only when a link is asked for: it has no business in the browser's history.
const writeAddress = () => history.replaceState(null, '', addressOf(false));

function useAddress() {
  const address = readAddress();
  const code = name => (name || '').toLowerCase();
  if (view.languages.has(code(address.source)) || code(address.source) === 'auto') view.source = code(address.source);
  if (view.languages.has(code(address.target))) view.target = code(address.target);
  if (address.text !== null) by('source-text').value = address.text;
  view.detected = '';
  drawLanguages();
  changed(0);
}

/* ---- From the text to its translation ---- */

// The text or its languages are others: shows what is known, and asks for the rest when the keys rest.
function changed(delay = view.delay) {
  closeChoices(false);
  clearTimeout(view.timer);
  view.controller?.abort();
  view.controller = null;
  const isEmpty = !text().trim();
  shade([]);
  drawCount();
  by('clear').hidden = !text();
  if (isEmpty && view.source === 'auto' && view.detected) {
    view.detected = '';
    drawLanguages();
  }
  cut();
  drawTranslation();
  setBusy(false);
  if (!patience.pause) {
    showNotice(hasNoModels() ? say('noModels') : '');
    tellAlarm('');
  }
  if (isEmpty || !view.languages.size) return;
  if (view.limit && text().length > view.limit) {
    showNotice(say('tooLong', {limit: number(view.limit)}));
    tellAlarm(by('notice-text').textContent);
    return;
  }
  view.timer = setTimeout(run, delay);
}

const hasNoModels = () => view.isLoaded && !view.languages.size && !speech.models.length;

// What is seen of a sentence's translation, as far as there is any.
const shownOf = one => view.known.get(one.key)?.text ?? (one.partial || one.stale);

function cut() {
  const shown = view.sentences.map(shownOf);
  const {list, tail} = sentencesOf(text(), fromCode() || 'en');
  view.sentences = list.map((sentence, i) => (
    {...sentence, key: keyOf(sentence.text), partial: '', stale: shown[i] || ''}));
  view.tail = tail;
}

async function detect(signal) {
  const beginning = text().slice(0, 1000);
  if (!view.detections.has(beginning)) {
    const found = await patiently(signal, () => ask('detect', {q: beginning}, signal));
    view.detections.clear();
    view.detections.set(beginning, found?.[0]?.language || '');
  }
  const code = view.detections.get(beginning);
  if (code !== view.detected) {
    view.detected = view.languages.has(code) ? code : '';
    drawLanguages();
    cut();
  }
}

async function run() {
  const controller = new AbortController();
  const {signal} = controller;
  view.controller = controller;
  setBusy(true);
  try {
    if (view.source === 'auto') await detect(signal);
    if (view.target) {
      const missing = view.sentences.filter((one, i) =>
        !view.known.has(one.key) && view.sentences.findIndex(other => other.key === one.key) === i);
      drawTranslation();
      if (missing.length === 1) await translateOne(missing[0], signal);
      else await translateMany(missing, signal);
    }
    if (signal.aborted) return;
    announce(say('done', {text: translationText()}));
  } catch (error) {
    if (error.name !== 'AbortError' && !signal.aborted) showRefusal(error);
  } finally {
    if (view.controller === controller) setBusy(false);
  }
}

function showRefusal(error) {
  if (!(error instanceof Refusal)) throw error;
  if (error.status === 403 || /api key/i.test(error.message)) by('key-form').hidden = false;
  showNotice(say('refused', {message: error.message}));
  tellAlarm(by('notice-text').textContent);
}

const bodyOf = q => ({q, source: fromCode() || 'auto', target: view.target, format: 'text', alignment: true});

async function translateMany(sentences, signal) {
  const groups = [];
  for (let i = 0; i < sentences.length; i += TOGETHER) groups.push(sentences.slice(i, i + TOGETHER));
  const work = async () => {
    for (let group = groups.shift(); group; group = groups.shift()) {
      const answer = await patiently(signal, () => ask('translate', bodyOf(group.map(one => one.text)), signal));
      if (signal.aborted) return;
      group.forEach((one, i) => accept(one, answer.translatedText?.[i], answer.alignment?.[i]));
      drawTranslation();
    }
  };
  await Promise.all(Array.from({length: SIDE_BY_SIDE}, work));
}

function accept(sentence, translation, alignment) {
  if (typeof translation !== 'string') throw new Refusal(500, 'translatedText');
  remember(sentence.key, {text: translation, alignment: alignmentOf(alignment, sentence.text, translation)});
}

async function translateOne(sentence, signal) {
  const answer = await patiently(signal, async () => {
    if (view.streams) {
      try {
        return await stream(sentence, signal);
      } catch (error) {
        if (!(error instanceof Refusal) || ![404, 405, 501].includes(error.status)) throw error;
        view.streams = false; // a server that has no more than LibreTranslate's API
      }
    }
    return ask('translate', bodyOf(sentence.text), signal);
  });
  if (signal.aborted) return;
  accept(sentence, answer.translatedText, answer.alignment);
  drawTranslation();
}

// Server-sent events: {"text": ..} adds to the translation, {"translatedText": ..} is all of it and ends it.
async function stream(sentence, signal) {
  const response = await request('translate/stream', bodyOf(sentence.text), signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  let answer = null;
  sentence.partial = '';
  try {
    for (let {value, done} = await reader.read(); !done && !answer; {value, done} = await reader.read()) {
      const events = (rest + value).split(/\r?\n\r?\n/);
      rest = events.pop();
      for (const event of events) answer = readEvent(event, sentence) || answer;
      if (sentence.partial && !signal.aborted) drawTranslation();
      if (answer) break;
    }
  } catch (error) {
    if (error instanceof Refusal || error.name === 'AbortError') throw error;
    throw new Refusal(0, '');
  }
  if (!answer) throw new Refusal(0, ''); // it broke off
  return answer;
}

function readEvent(event, sentence) {
  const data = event.split(/\r?\n/).filter(line => line.startsWith('data:')).map(line => line.slice(5)).join('\n');
  if (!data.trim()) return null;
  let told;
  try {
    told = JSON.parse(data);
  } catch {
    return null;
  }
  if (told.error) throw new Refusal(told.status || 500, String(told.error), Number(told.retryAfter) || 0);
  if (typeof told.translatedText === 'string') return told;
  if (typeof told.text === 'string') sentence.partial += told.text;
  return null;
}

/* ---- What is seen ---- */

function drawCount() {
  const n = number(text().length);
  const counted = view.limit ? say('countOf', {n, limit: number(view.limit)}) : say('count', {n});
  by('count').textContent = text() ? counted : '';
  by('count').classList.toggle('over', view.limit > 0 && text().length > view.limit);
}

function setBusy(isBusy) {
  by('busy').hidden = !isBusy;
  by('answer').setAttribute('aria-busy', String(isBusy));
}

function translationText() {
  return view.sentences.map((one, i) => gapFor(one.gap, view.target, i === 0) + shownOf(one)).join('').trim();
}

function drawSentence(one, i) {
  const known = view.known.get(one.key);
  const element = make('span', {class: 'sentence', 'data-sentence': i});
  element.append(gapFor(one.gap, view.target, i === 0));
  if (!known) {
    element.append(make('span', {class: one.partial ? 'partial' : 'stale'}, one.partial || one.stale || '…'));
    return element;
  }
  let end = 0;
  for (const word of wordsOf(known.text, view.target)) {
    element.append(known.text.slice(end, word.begin), make('span', {
      class: 'word', role: 'button', tabindex: '-1', 'aria-haspopup': 'menu', 'data-begin': word.begin,
      'data-end': word.end,
    }, known.text.slice(word.begin, word.end)));
    end = word.end;
  }
  element.append(known.text.slice(end));
  if (known.chosen) element.classList.add('chosen');
  return element;
}

// Draws the sentences that changed; the others keep their elements, and so their focus.
function drawTranslation() {
  const box = by('target-text');
  const drawn = view.sentences.map((one, i) => [one.gap, i, one.key, view.known.get(one.key) || shownOf(one)]);
  drawn.forEach((from, i) => {
    if (view.drawn[i] && from.every((part, j) => part === view.drawn[i][j])) return;
    const element = drawSentence(view.sentences[i], i);
    if (box.children[i]) box.children[i].replaceWith(element);
    else box.append(element);
  });
  while (box.children.length > drawn.length) box.lastElementChild.remove();
  view.drawn = drawn;
  const isEmpty = !drawn.length;
  const words = box.querySelectorAll('.word');
  by('empty').hidden = !isEmpty;
  for (const id of ['copy', 'share', 'print']) by(id).hidden = isEmpty;
  by('hint').hidden = !words.length;
  by('undo').hidden = !view.sentences.some(one => view.known.get(one.key)?.chosen);
  if (words.length && !box.querySelector('[tabindex="0"]')) words[0].tabIndex = 0;
}

// Behind the text area lies the same text, on which places are lit.
function shade(places) {
  const box = by('source-shade');
  const whole = text();
  const parts = [];
  let end = 0;
  for (const [from, to] of places) {
    if (from < end) continue;
    parts.push(whole.slice(end, from), make('mark', {}, whole.slice(from, to)));
    end = to;
  }
  // An empty last line has a height, too.
  box.replaceChildren(...parts, whole.slice(end), '\u200b');
}

const sentenceOf = word => view.sentences[Number(word.closest('.sentence').dataset.sentence)];
const placeOf = word => [Number(word.dataset.begin), Number(word.dataset.end)];

function light(word) {
  for (const other of by('target-text').querySelectorAll('.lit')) other.classList.remove('lit');
  by('word-source').textContent = '';
  const one = word && sentenceOf(word);
  const known = one && view.known.get(one.key);
  if (!known) return shade([]);
  const places = sourceOf(placeOf(word), known.alignment, one.text, fromCode() || 'en');
  word.classList.add('lit');
  if (places.length) {
    const words = places.map(place => one.text.slice(...place)).join(' ');
    by('word-source').textContent = say('madeFrom', {words});
    word.setAttribute('aria-describedby', 'word-source');
  }
  return shade(places.map(([begin, end]) => [begin + one.begin, end + one.begin]));
}

/* ---- Words: pointer and keys ---- */

// The word that is lit while the pointer is elsewhere: whose choices are shown, or that has the focus.
function restingWord() {
  return view.choosing ? wordAt(view.choosing.sentence, view.choosing.begin) : document.activeElement.closest('.word');
}

function reach(word, withFocus) {
  const before = by('target-text').querySelector('[tabindex="0"]');
  if (before) before.tabIndex = -1;
  word.tabIndex = 0;
  if (withFocus) word.focus();
}

// Up and down go to the word that lies nearest in the line above or below.
function wordInLine(words, word, direction) {
  const box = word.getBoundingClientRect();
  const middle = (box.left + box.right) / 2;
  let best = null;
  for (const other of words) {
    const place = other.getBoundingClientRect();
    const away = direction * (place.top - box.top);
    if (away < box.height / 2) continue;
    const distance = away * 1000 + Math.abs((place.left + place.right) / 2 - middle);
    if (!best || distance < best.distance) best = {other, distance};
  }
  return best?.other;
}

function wordKey(event) {
  const word = event.target.closest('.word');
  if (!word || event.altKey || event.ctrlKey || event.metaKey) return;
  const words = [...by('target-text').querySelectorAll('.word')];
  const at = words.indexOf(word);
  const step = getComputedStyle(by('target-text')).direction === 'rtl' ? -1 : 1;
  const next = {
    ArrowRight: () => words[at + step], ArrowLeft: () => words[at - step], Home: () => words[0],
    End: () => words[words.length - 1], ArrowDown: () => wordInLine(words, word, 1),
    ArrowUp: () => wordInLine(words, word, -1),
  }[event.key];
  if (next) {
    event.preventDefault();
    if (next()) reach(next(), true);
  } else if (event.key === 'Enter' || event.key === ' ') {
    event.preventDefault();
    openChoices(word);
  }
}

/* ---- Other words for one ---- */

async function openChoices(word) {
  closeChoices(false);
  const one = sentenceOf(word);
  const known = view.known.get(one.key);
  const controller = new AbortController();
  view.choosing = {controller, sentence: Number(word.closest('.sentence').dataset.sentence), begin: placeOf(word)[0]};
  reach(word, true);
  by('choices-name').textContent = say('choices', {word: word.textContent});
  by('choices-state').textContent = say('looking');
  by('choices-state').hidden = false;
  by('choice-list').hidden = true;
  by('choices').hidden = false;
  word.setAttribute('aria-expanded', 'true');
  placeChoices(word);
  try {
    const prefix = known.text.slice(0, placeOf(word)[0]);
    const body = {...bodyOf(one.text), alignment: false, prefix, continuations: CHOICES};
    const answer = await patiently(controller.signal, () => ask('translate', body, controller.signal));
    if (controller.signal.aborted) return;
    drawChoices(one, known, prefix, [answer.translatedText, ...answer.continuations || []]);
    placeChoices(word);
  } catch (error) {
    if (error.name === 'AbortError' || controller.signal.aborted) return;
    if (!(error instanceof Refusal)) throw error;
    by('choices-state').textContent = say('refused', {message: error.message});
  }
}

function drawChoices(one, known, prefix, continuations) {
  const seen = new Set();
  const items = [];
  for (const whole of continuations) {
    if (typeof whole !== 'string' || seen.has(whole)) continue;
    seen.add(whole);
    // Where it differs; a server may have written the prefix in its own way.
    let begin = whole.startsWith(prefix.trimEnd()) ? prefix.trimEnd().length : 0;
    while (/\s/.test(whole.charAt(begin))) begin++;
    const rest = whole.slice(begin);
    const first = wordsOf(rest, view.target)[0];
    const end = first ? first.end : rest.length;
    const item = make('button', {
      type: 'button', role: 'menuitemradio', tabindex: '-1', 'aria-checked': String(whole === known.text),
    }, make('b', {}, rest.slice(0, end)), make('span', {}, rest.slice(end)));
    item.addEventListener('click', () => choose(one, known, whole));
    items.push(item);
  }
  const isUseful = items.some(item => item.getAttribute('aria-checked') === 'false');
  by('choices-state').hidden = isUseful;
  by('choices-state').textContent = isUseful ? '' : say('noChoices');
  by('choice-list').hidden = !isUseful;
  by('choice-list').replaceChildren(...items);
  if (isUseful) items[0].focus();
  else announce(say('noChoices'));
}

// Below the word, within the window; a narrow window has them at its lower edge (page.css).
function placeChoices(word) {
  const box = word.getBoundingClientRect();
  const choices = by('choices');
  const width = choices.offsetWidth;
  const room = document.documentElement.clientWidth - width - 8;
  const isBelow = box.bottom + choices.offsetHeight + 12 < window.innerHeight || box.top < choices.offsetHeight + 12;
  choices.style.left = `${window.scrollX + Math.max(8, Math.min(box.left - 12, room))}px`;
  choices.style.top = `${window.scrollY + (isBelow ? box.bottom + 6 : box.top - choices.offsetHeight - 6)}px`;
}

function wordAt(sentence, begin) {
  const words = [...by('target-text').children[sentence]?.querySelectorAll('.word') || []];
  return words.filter(word => placeOf(word)[0] <= begin).pop() || words[0];
}

function closeChoices(withFocus) {
  if (!view.choosing) return;
  const {controller, sentence, begin} = view.choosing;
  controller.abort();
  view.choosing = null;
  by('choices').hidden = true;
  const word = wordAt(sentence, begin);
  word?.removeAttribute('aria-expanded');
  if (withFocus && word) reach(word, true);
  light(restingWord());
}

async function choose(one, known, whole) {
  const isOther = whole !== known.text;
  if (isOther) {
    remember(one.key, {text: whole, alignment: [], chosen: true});
    drawTranslation();
  }
  closeChoices(true);
  if (!isOther) return;
  announce(say('chosen', {text: whole}));
  // Where its words come from: the same text, given as the beginning of a translation.
  try {
    const answer = await ask('translate', {...bodyOf(one.text), prefix: whole});
    const now = view.known.get(one.key);
    if (now?.text !== whole || typeof answer.translatedText !== 'string') return;
    now.alignment = alignmentOf(answer.alignment, one.text, answer.translatedText)
      .filter(pair => pair.target[1] <= whole.length);
    if (by('target-text').contains(document.activeElement)) light(document.activeElement.closest('.word'));
  } catch (error) {
    if (!(error instanceof Refusal)) throw error; // without it, no words are lit
  }
}

function undo() {
  for (const one of view.sentences) if (view.known.get(one.key)?.chosen) view.known.delete(one.key);
  changed(0);
  by('source-text').focus();
}

function choiceKey(event) {
  const items = [...by('choice-list').children];
  const at = items.indexOf(document.activeElement);
  const next = {
    ArrowDown: (at + 1) % items.length, ArrowUp: (at - 1 + items.length) % items.length, Home: 0, End: items.length - 1,
  }[event.key];
  if (event.key === 'Escape' || event.key === 'Tab') {
    event.preventDefault();
    closeChoices(true);
  } else if (next !== undefined && items.length) {
    event.preventDefault();
    items[next].focus();
  }
}

/* ---- Copies ---- */

// Pages that came without TLS have no clipboard of their own.
async function copyText(value) {
  try {
    await navigator.clipboard.writeText(value);
    return true;
  } catch {
    const box = make('textarea', {class: 'unseen', 'aria-hidden': 'true', tabindex: '-1'});
    const before = document.activeElement;
    box.value = value;
    document.body.append(box);
    box.select();
    const isDone = document.execCommand('copy');
    box.remove();
    before?.focus();
    return isDone;
  }
}

let toldTimer = 0;

async function copy(value, key) {
  const told = say(await copyText(value) ? key : 'notCopied');
  by('told').textContent = told;
  announce(told);
  clearTimeout(toldTimer);
  toldTimer = setTimeout(() => {
    by('told').textContent = '';
  }, 2500);
}

/* ---- The start ---- */

async function loadServer() {
  const [languages, settings] = await patiently(null, () =>
    Promise.all([ask('languages'), ask('frontend/settings').catch(error => {
      if (error.status !== 404) throw error;
      return {};
    })]));
  view.languages = new Map(languages.map(one => [one.code, one]));
  view.limit = settings.charLimit > 0 ? settings.charLimit : 0;
  if (settings.frontendTimeout > 0) view.delay = Math.min(Math.max(settings.frontendTimeout, 100), 2000);
  by('key-form').hidden = !(settings.keyRequired && !store.get('key'));
  view.source = view.languages.has(store.get('source')) ? store.get('source') : 'auto';
  view.target = store.get('target') || settings.language?.target?.code || '';
  view.isLoaded = true;
  startFiles(settings);
  startSpeech(settings);
  startDrop();
  useAddress();
}

function startTranslate() {
  startInterface(() => {
    drawLanguages();
    drawCount();
    drawFiles();
    drawSounds();
    drawRecording();
    if (hasNoModels()) showNotice(say('noModels'));
  });
  by('source-text').addEventListener('input', () => {
    if (location.hash.includes('text=')) writeAddress();
    changed();
  });
  by('source').addEventListener('change', () => {
    store.set('source', by('source').value);
    chooseLanguages(by('source').value, view.target);
  });
  by('target').addEventListener('change', () => {
    store.set('target', by('target').value);
    chooseLanguages(view.source, by('target').value);
  });
  by('swap').addEventListener('click', swap);
  by('clear').addEventListener('click', () => {
    by('source-text').value = '';
    if (location.hash.includes('text=')) writeAddress();
    changed();
    by('source-text').focus();
  });
  by('copy').addEventListener('click', () => copy(translationText(), 'copied'));
  by('share').addEventListener('click', () => copy(addressOf(true), 'shared'));
  by('print').addEventListener('click', () => window.print());
  by('undo').addEventListener('click', undo);
  by('key-form').addEventListener('submit', event => {
    event.preventDefault();
    store.set('key', by('key').value.trim());
    by('key-form').hidden = true;
    changed(0);
  });
  const words = by('target-text');
  words.addEventListener('pointerover', event => light(event.target.closest('.word') || restingWord()));
  words.addEventListener('pointerleave', () => light(restingWord()));
  words.addEventListener('focusin', event => {
    reach(event.target.closest('.word'), false);
    light(event.target.closest('.word'));
  });
  words.addEventListener('focusout', () => light(restingWord()));
  words.addEventListener('keydown', wordKey);
  words.addEventListener('click', event => {
    const word = event.target.closest('.word');
    if (word && document.getSelection().isCollapsed) openChoices(word);
  });
  by('choices').addEventListener('keydown', choiceKey);
  document.addEventListener('keydown', event => {
    if (event.key === 'Escape') closeChoices(true);
  });
  document.addEventListener('pointerdown', event => {
    if (!by('choices').contains(event.target) && !event.target.closest('.word')) closeChoices(false);
  });
  window.addEventListener('resize', () => closeChoices(false));
  window.addEventListener('hashchange', useAddress);
  shade([]);
  loadServer().catch(showRefusal);
}
