// SPDX-License-Identifier: Apache-2.0
// What both views share: texts and colours of the interface, names of languages, requests, patience with the server.

const by = id => document.getElementById(id);

// What a visitor chose stays in the browser, where it lets a page store anything.
const store = {
  get(name) {
    try {
      return localStorage.getItem(`tessera.${name}`);
    } catch {
      return null;
    }
  },
  set(name, value) {
    try {
      localStorage.setItem(`tessera.${name}`, value);
    } catch {
      // It is forgotten with the page.
    }
  },
};

// Text alone: nothing that came from a server or a visitor is read as HTML.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, '');
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/* ---- The interface ---- */

const face = {language: 'en', column: 0, colours: 'system'};

function useInterface(language) {
  const codes = Object.keys(INTERFACE);
  face.language = codes.includes(language) ? language : 'en';
  face.column = codes.indexOf(face.language);
  document.documentElement.lang = face.language;
}

function preferredInterface() {
  const wanted = [store.get('interface'), ...(navigator.languages || [navigator.language])];
  return wanted.map(tag => String(tag || '').slice(0, 2).toLowerCase()).find(code => code in INTERFACE) || 'en';
}

function say(key, values = {}) {
  return TEXTS[key][face.column].replace(/\{(\w+)\}/g, (all, name) => (name in values ? values[name] : all));
}

const number = (value, digits = 0) =>
  new Intl.NumberFormat(face.language, {maximumFractionDigits: digits}).format(value);

function label(element, key, values) {
  const text = say(key, values);
  element.setAttribute('aria-label', text);
  if (element.tagName === 'BUTTON') element.title = text;
}

// Writes the texts of everything that names one.
function writeTexts() {
  for (const element of document.querySelectorAll('[data-text]')) element.textContent = say(element.dataset.text);
  for (const element of document.querySelectorAll('[data-label]')) label(element, element.dataset.label);
  for (const element of document.querySelectorAll('[data-placeholder]'))
    element.placeholder = say(element.dataset.placeholder);
  document.title = say(document.body.dataset.view === 'status' ? 'statusTitle' : 'title');
}

const COLOURS = {
  system: ['colourSystem', 'M12 4a8 8 0 1 0 0 16zM12 4a8 8 0 0 1 0 16'],
  light: [
    'colourLight',
    'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v3M12 19v3M2 12h3M19 12h3M5 5l2 2M17 17l2 2M5 19l2-2M17 7l2-2',
  ],
  dark: ['colourDark', 'M20 14A8 8 0 1 1 10 4a6.5 6.5 0 0 0 10 10z'],
};

function useColours(colours) {
  face.colours = colours in COLOURS ? colours : 'system';
  if (face.colours === 'system') delete document.documentElement.dataset.colours;
  else document.documentElement.dataset.colours = face.colours;
}

const SVG = 'http://www.w3.org/2000/svg';

function icon(path) {
  const picture = document.createElementNS(SVG, 'svg');
  const line = document.createElementNS(SVG, 'path');
  picture.setAttribute('viewBox', '0 0 24 24');
  picture.setAttribute('aria-hidden', 'true');
  line.setAttribute('d', path);
  picture.append(line);
  return picture;
}

function drawColours() {
  const [key, path] = COLOURS[face.colours];
  label(by('colours'), key);
  by('colours').replaceChildren(icon(path));
}

// Calls `changed` when the texts have to be written in another language.
function startInterface(changed) {
  by('interface').replaceChildren(
    ...Object.entries(INTERFACE).map(([code, name]) => make('option', {value: code, lang: code}, name)));
  by('interface').value = face.language;
  by('interface').addEventListener('change', () => {
    useInterface(by('interface').value);
    store.set('interface', face.language);
    writeTexts();
    drawColours();
    changed();
  });
  by('colours').addEventListener('click', () => {
    const all = Object.keys(COLOURS);
    useColours(all[(all.indexOf(face.colours) + 1) % all.length]);
    store.set('colours', face.colours);
    drawColours();
    announce(by('colours').title);
  });
  writeTexts();
  drawColours();
}

// For who listens: the text is written anew even if it is the same.
function announce(text) {
  const live = by('live');
  live.textContent = '';
  setTimeout(() => {
    live.textContent = text;
  }, 60);
}

/* ---- Languages ---- */

// A code of the API as a tag of a language.
const tagOf = code => String(code).replace(/_/g, '-');

// The name in the language of the interface, where the browser knows it; else as the server says it.
function languageName(code, given) {
  let name;
  try {
    name = new Intl.DisplayNames([face.language], {type: 'language', fallback: 'none'}).of(tagOf(code));
  } catch {
    name = undefined;
  }
  name = name || given || code;
  return name.charAt(0).toLocaleUpperCase(face.language) + name.slice(1);
}

/* ---- Requests. Addresses are relative, so that the page works below a path of a proxy. ---- */

const ROOT = document.documentElement.dataset.root || '';

class Refusal extends Error {
  // status: of HTTP; 0: no answer came. wait: seconds that the server asks for; 0: it does not say.
  constructor(status, message, wait = 0) {
    super(message);
    this.status = status;
    this.wait = wait;
  }

  get passes() {
    return [0, 429, 502, 503, 504].includes(this.status);
  }
}

function secondsOf(header) {
  if (!header) return 0;
  const seconds = /^\d+$/.test(header) ? Number(header) : (Date.parse(header) - Date.now()) / 1000;
  return seconds > 0 ? Math.min(Math.ceil(seconds), 3600) : 0;
}

function refusalOf(status, text, retryAfter) {
  let message = '';
  try {
    const {error} = JSON.parse(text);
    message = String(error?.message || error || '');
  } catch {
    message = '';
  }
  return new Refusal(status, message || `HTTP ${status}`, secondsOf(retryAfter));
}

// GET without a body, else POST with JSON. Returns the response.
async function request(path, body, signal) {
  const key = store.get('key');
  const options = {signal, cache: 'no-store'};
  if (body !== undefined) {
    options.method = 'POST';
    options.headers = {'Content-Type': 'application/json'};
    options.body = JSON.stringify(key ? {...body, api_key: key} : body);
  }
  let response;
  try {
    response = await fetch(ROOT + path, options);
    if (response.ok) return response;
    throw refusalOf(response.status, await response.text(), response.headers.get('Retry-After'));
  } catch (error) {
    if (error instanceof Refusal || error.name === 'AbortError') throw error;
    throw new Refusal(0, '');
  }
}

// POST of a form, by XMLHttpRequest, for fetch tells nothing of what has been sent: `sends` is told how many percent
// are, `sent` when all is. Returns the answer's text.
function upload(path, body, headers, signal, sends, sent) {
  return new Promise((resolve, reject) => {
    const call = new XMLHttpRequest();
    const stop = () => call.abort();
    call.open('POST', ROOT + path);
    for (const [name, value] of Object.entries(headers)) call.setRequestHeader(name, value);
    call.upload.addEventListener('progress', event => {
      sends(event.lengthComputable ? Math.floor(100 * event.loaded / event.total) : 0);
    });
    call.upload.addEventListener('load', sent);
    call.addEventListener('error', () => reject(new Refusal(0, '')));
    call.addEventListener('abort', () => reject(new DOMException('', 'AbortError')));
    call.addEventListener('load', () => {
      if (call.status === 200) resolve(call.responseText);
      else reject(refusalOf(call.status, call.responseText, call.getResponseHeader('Retry-After')));
    });
    call.addEventListener('loadend', () => signal.removeEventListener('abort', stop));
    signal.addEventListener('abort', stop);
    call.send(body);
  });
}

async function ask(path, body, signal) {
  const response = await request(path, body, signal);
  try {
    return await response.json();
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Refusal(0, '');
  }
}

/* ---- Patience: what the server refuses for now is asked again, by all who wait at the same time. ---- */

const patience = {pause: null, tries: 0};

function showNotice(text, canTry = false) {
  if (!by('notice')) return;
  by('notice').hidden = !text;
  by('notice-text').textContent = text;
  by('again').hidden = !canTry;
}

function tellAlarm(text) {
  by('alarm').textContent = text;
}

function beginPause(refusal) {
  const seconds = refusal.wait || Math.min(30, 2 ** (patience.tries + 1));
  const key = refusal.status === 429 ? 'slowDown' : refusal.status === 0 ? 'away' : 'busy';
  const until = Date.now() + 1000 * seconds;
  let end;
  const pause = {key, done: new Promise(resolve => (end = resolve))};
  const finish = () => {
    clearInterval(timer);
    by('again').removeEventListener('click', finish);
    window.removeEventListener('online', finish);
    patience.pause = null;
    end();
  };
  const tick = () => {
    const left = Math.ceil((until - Date.now()) / 1000);
    if (left <= 0) finish();
    // The server's own waiting time is not cut short.
    else showNotice(say(key, {seconds: number(left)}), refusal.status !== 429);
  };
  const timer = setInterval(tick, 250);
  by('again').addEventListener('click', finish);
  if (refusal.status === 0) window.addEventListener('online', finish);
  patience.pause = pause;
  patience.tries++;
  tick();
  tellAlarm(by('notice-text').textContent);
}

function abortable(promise, signal) {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const stop = () => reject(new DOMException('', 'AbortError'));
    if (signal.aborted) return stop();
    signal.addEventListener('abort', stop, {once: true});
    return promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
  });
}

async function patiently(signal, work) {
  for (;;) {
    while (patience.pause) await abortable(patience.pause.done, signal);
    try {
      const result = await work();
      patience.tries = 0;
      if (!patience.pause) {
        showNotice('');
        tellAlarm('');
      }
      return result;
    } catch (error) {
      if (!(error instanceof Refusal) || !error.passes || signal?.aborted) throw error;
      if (!patience.pause) beginPause(error);
    }
  }
}

// Before anything is drawn, so that no other colours flash up.
useInterface(preferredInterface());
useColours(store.get('colours'));
