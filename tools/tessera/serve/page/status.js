// SPDX-License-Identifier: Apache-2.0
// The view of the server's state: what GET /health, /languages, /status and /metrics tell, every two seconds.

const PERIOD = 2; // seconds
const KEPT_READINGS = 90; // that the chart shows

// What is read of /metrics.
const METRICS = {
  tokens: 'tessera_target_tokens_total',
  requests: 'tessera_requests_total', // endpoint
  buckets: 'tessera_request_seconds_bucket', // endpoint, le
  rows: 'tessera_step_rows_total',
  steps: 'tessera_steps_total',
  waiting: 'tessera_waiting',
  running: 'tessera_running',
};

const state = {languages: [], status: null, readings: [], health: '', timer: 0};

/* ---- Prometheus' text format ---- */

// name -> [{labels: {..}, value}]
function parseMetrics(body) {
  const found = new Map();
  for (const line of body.split('\n')) {
    const match = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/.exec(line);
    if (!match || line.startsWith('#')) continue;
    const labels = {};
    for (const [, name, value] of (match[2] || '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g))
      labels[name] = value.replace(/\\(.)/g, (all, letter) => (letter === 'n' ? '\n' : letter));
    const value = match[3] === '+Inf' ? Infinity : Number(match[3]);
    if (!found.has(match[1])) found.set(match[1], []);
    found.get(match[1]).push({labels, value});
  }
  return found;
}

const sumOf = (metrics, name, choose = () => true) =>
  (metrics.get(name) || []).filter(one => choose(one.labels)).reduce((sum, one) => sum + one.value, 0);

const isWork = labels => /^\/(translate|v2\/translate)/.test(labels.endpoint || '');

// How many took up to each bound, of all endpoints that translate.
function bucketsOf(metrics) {
  const sums = new Map();
  for (const {labels, value} of metrics.get(METRICS.buckets) || []) {
    if (!isWork(labels)) continue;
    const bound = labels.le === '+Inf' ? Infinity : Number(labels.le);
    sums.set(bound, (sums.get(bound) || 0) + value);
  }
  return sums;
}

// The time that a share of the requests took at most: between two readings, or from the start of the server.
function quantile(share, last, first) {
  const bounds = [...last.keys()].sort((a, b) => a - b);
  const counts = bounds.map(bound => last.get(bound) - (first?.get(bound) || 0));
  const all = counts[counts.length - 1];
  if (!all) return first ? quantile(share, last, null) : null;
  const at = counts.findIndex(count => count >= share * all);
  const low = at ? bounds[at - 1] : 0;
  if (bounds[at] === Infinity) return low;
  const below = at ? counts[at - 1] : 0;
  return low + (bounds[at] - low) * (share * all - below) / (counts[at] - below);
}

function readingOf(metrics) {
  return {
    time: performance.now() / 1000,
    tokens: sumOf(metrics, METRICS.tokens),
    requests: sumOf(metrics, METRICS.requests, isWork),
    rows: sumOf(metrics, METRICS.rows),
    steps: sumOf(metrics, METRICS.steps),
    waiting: sumOf(metrics, METRICS.waiting),
    running: sumOf(metrics, METRICS.running),
    buckets: bucketsOf(metrics),
  };
}

/* ---- What is seen ---- */

function row(cells, tag = 'td') {
  return make('tr', {}, ...cells.map((cell, i) => (cell instanceof Node ? make('td', {}, cell) :
    make(tag === 'th' || !i ? 'th' : 'td', {scope: tag === 'th' ? 'col' : i ? null : 'row'}, cell))));
}

function table(id, heads, rows) {
  by(id).closest('section').hidden = !rows.length;
  by(id).replaceChildren(make('thead', {}, row(heads.map(head => say(head)), 'th')), make('tbody', {}, ...rows));
}

function bytes(value) {
  if (!value) return '–';
  return value < 2 ** 30 ? `${number(value / 2 ** 20)}\u00a0MiB` : `${number(value / 2 ** 30, 1)}\u00a0GiB`;
}

function seconds(value) {
  if (value === null) return '–';
  return value < 1 ? `${number(1000 * value)}\u00a0ms` : `${number(value, 1)}\u00a0s`;
}

const tag = (key, kind) => make('span', {class: `tag ${kind}`}, say(key));

function drawHealth() {
  const key = {ready: 'serverReady', busy: 'serverBusy', away: 'serverAway'}[state.health];
  // A live region: nothing is written that it has said.
  if (key && by('health').textContent !== say(key)) by('health').textContent = say(key);
  by('health').dataset.state = state.health;
}

// Per second, between neighbours.
const rates = (name) => state.readings.slice(1).map((one, i) =>
  Math.max(0, (one[name] - state.readings[i][name]) / Math.max(0.1, one.time - state.readings[i].time)));

function drawNumbers() {
  const last = state.readings[state.readings.length - 1];
  const first = state.readings[Math.max(0, state.readings.length - 1 - 60 / PERIOD)];
  const time = last ? last.time - first.time : 0;
  const tokens = rates('tokens');
  const steps = last ? last.steps - first.steps : 0;
  const values = !last ? [] : [
    ['tokensPerSecond', number(tokens[tokens.length - 1] || 0)],
    ['requestsPerMinute', number(time ? 60 * (last.requests - first.requests) / time : 0)],
    ['running', number(last.running)],
    ['waiting', number(last.waiting)],
    ['occupancy', steps ? number((last.rows - first.rows) / steps, 1) : '–'],
    ['latencyHalf', seconds(quantile(0.5, last.buckets, first.buckets))],
    ['latencyMost', seconds(quantile(0.99, last.buckets, first.buckets))],
  ];
  by('numbers').closest('section').hidden = !last;
  by('numbers').replaceChildren(...values.map(([key, value]) =>
    make('div', {}, make('dt', {}, say(key)), make('dd', {}, value))));
  drawChart(tokens);
}

function drawChart(values) {
  const most = Math.max(1, ...values);
  const width = 600;
  const height = 90;
  const x = i => width * (1 - (values.length - 1 - i) / (KEPT_READINGS - 2));
  const y = value => height - 2 - (height - 8) * value / most;
  const points = values.map((value, i) => `${x(i).toFixed(1)},${y(value).toFixed(1)}`);
  by('chart-line').setAttribute('points', points.join(' '));
  by('chart-area').setAttribute('points', values.length ?
    `${x(0).toFixed(1)},${height} ${points.join(' ')} ${width},${height}` : '');
  by('chart-text').textContent = say('chart', {
    seconds: number(KEPT_READINGS * PERIOD), now: number(values[values.length - 1] || 0),
    most: number(values.length ? Math.max(...values) : 0),
  });
}

const MODEL_TAGS = {open: ['open', 'good'], opening: ['opening', 'good'], failed: ['failed', 'bad']};

function drawTables() {
  const devices = state.status?.devices || [];
  const models = state.status?.models || [];
  table('devices', ['device', 'state', 'memory'], devices.map(one => row([
    one.kind ? `${one.name} (${one.kind})` : one.name,
    one.lost ? tag('lost', 'bad') : tag('works', 'good'), bytes(one.bytes),
  ])));
  table('models', ['model', 'state', 'memory'], models.map(one => row([
    one.name, MODEL_TAGS[one.state] ? tag(...MODEL_TAGS[one.state]) : tag('closed', ''), bytes(one.bytes),
  ])));
  const name = one => languageName(one.code, one.name);
  const names = new Map(state.languages.map(one => [one.code, name(one)]));
  const list = codes => codes.map(code => names.get(code) || languageName(code))
    .sort((a, b) => a.localeCompare(b, face.language)).join(', ');
  table('pairs', ['language', 'into'], state.languages
    .map(one => [name(one), list(one.targets.filter(code => code !== one.code))])
    .filter(([, targets]) => targets).sort((a, b) => a[0].localeCompare(b[0], face.language)).map(cells => row(cells)));
}

function drawStatus() {
  drawHealth();
  drawNumbers();
  drawTables();
}

/* ---- Reading ---- */

// A server need not tell everybody about its load: null then.
const mayBeHidden = promise => promise.catch(error => {
  if (![403, 404].includes(error.status)) throw error;
  return null;
});

async function read() {
  const before = JSON.stringify([state.status, state.languages]);
  try {
    await ask('health');
    const [languages, status, metrics] = await Promise.all([
      ask('languages'), mayBeHidden(ask('status')), mayBeHidden(request('metrics').then(response => response.text())),
    ]);
    state.languages = languages;
    state.status = status;
    if (metrics === null) {
      state.readings = [];
    } else {
      const reading = readingOf(parseMetrics(metrics));
      // Counters that fell: the server began anew.
      if (reading.tokens < state.readings[state.readings.length - 1]?.tokens) state.readings = [];
      state.readings = [...state.readings, reading].slice(-KEPT_READINGS);
    }
    state.health = 'ready';
  } catch (error) {
    if (!(error instanceof Refusal || error instanceof TypeError)) throw error;
    state.health = error.status === 503 ? 'busy' : 'away';
  }
  drawHealth();
  drawNumbers();
  if (JSON.stringify([state.status, state.languages]) !== before) drawTables();
}

async function readAndRest() {
  clearTimeout(state.timer);
  if (!document.hidden) await read();
  state.timer = setTimeout(readAndRest, 1000 * PERIOD);
}

function startStatus() {
  startInterface(drawStatus);
  drawStatus();
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) readAndRest();
  });
  readAndRest();
}
