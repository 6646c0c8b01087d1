// SPDX-License-Identifier: Apache-2.0
// What the tests of the page share: a browser, pages of it, checks, the wishes of the mock server.
import {createRequire} from 'node:module';
import {readFileSync} from 'node:fs';
import {fileURLToPath} from 'node:url';

// The packages lie where the test was started, which is no folder above this file.
const require = createRequire(`${process.cwd()}/`);
const {chromium} = require('playwright-core');
const axeSource = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

// What the microphone hears.
export const fox = fileURLToPath(new URL('../../data/goldens/speech/features/fox.wav', import.meta.url));
export const base = process.env.PAGE_URL;
let checks = 0;
let failures = 0;
let where = '';

export function at(place) {
  where = place;
}

export function check(isRight, what, found) {
  checks++;
  if (isRight) return;
  failures++;
  console.log(`FAILED ${where}: ${what}${found === undefined ? '' : `: ${JSON.stringify(found)}`}`);
}

export function equal(found, expected, what) {
  check(JSON.stringify(found) === JSON.stringify(expected), `${what}: expected ${JSON.stringify(expected)}`, found);
}

export function finish() {
  console.log(`${checks} checks, ${failures} failed`);
  return failures || !checks ? 1 : 0;
}

export async function tell(wishes) {
  await fetch(`${base}mock`, {method: 'POST', body: JSON.stringify(wishes)});
}

// What the server was asked since the last call.
export async function asked(path) {
  const {asked: all} = await (await fetch(`${base}mock`)).json();
  return path ? all.filter(one => one.path === path) : all;
}

export const launch = () => chromium.launch({
  executablePath: process.env.CHROMIUM || '/usr/bin/chromium',
  args: [
    '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
    '--use-fake-device-for-media-stream', '--use-fake-ui-for-media-stream',
    `--use-file-for-fake-audio-capture=${fox}`, '--disable-background-networking', '--disable-component-update',
    '--disable-sync',
  ],
});

// A page of a visitor of her own. What it says in the console, throws or asks of others is a failure at its end.
export async function visit(browser, options = {}, path = '') {
  const context = await browser.newContext({locale: 'en-GB', acceptDownloads: true, ...options});
  const page = await context.newPage();
  const wrong = [];
  page.on('pageerror', error => wrong.push(error.message));
  page.on('console', message => {
    // The browser tells of every answer that is an error: those are asked for.
    const isAsked = /Failed to load resource/.test(message.text());
    if (['error', 'warning'].includes(message.type()) && !isAsked) wrong.push(message.text());
  });
  page.on('request', request => {
    if (!request.url().startsWith(base) && !/^(blob|data):/.test(request.url())) wrong.push(request.url());
  });
  page.open = async to => {
    await page.goto(base + to);
    // Its lists are there, or it says why not.
    await page.waitForFunction(() => {
      const target = document.getElementById('target');
      return !target || target.options.length || !document.getElementById('notice').hidden ||
        !document.getElementById('speech').hidden;
    });
  };
  await page.open(path);
  page.leave = async () => {
    equal(wrong, [], 'errors and foreign requests');
    await context.close();
  };
  return page;
}

export async function axe(page, what) {
  // The page's policy lets nothing be injected but through the debugger, which playwright evaluates with.
  await page.evaluate(axeSource);
  const violations = await page.evaluate(async () => {
    const found = await window.axe.run(document, {
      runOnly: {type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']},
    });
    return found.violations.map(one => `${one.id}: ${one.nodes.map(node => node.html.slice(0, 120)).join(' ')}`);
  });
  equal(violations, [], `axe-core, ${what}`);
}

// Waits until something holds; the test fails with its last value if it never does.
export async function until(page, what, probe, expected, timeout = 60000) {
  const end = Date.now() + timeout;
  let found;
  do {
    found = await probe();
    if (JSON.stringify(found) === JSON.stringify(expected)) break;
    await page.waitForTimeout(40);
  } while (Date.now() < end);
  equal(found, expected, what);
}

// What is shown for a short while alone, or said: waited for within the page, from before it.
export function appears(page, id, text) {
  const seen = text === undefined ? page.locator(`#${id}`).waitFor({state: 'visible'}) :
    page.locator(`#${id}`, {hasText: new RegExp(`^${text}$`)}).waitFor({state: 'attached'});
  seen.catch(() => {}); // whoever awaits it sees that it never came
  return seen;
}

// Waits until the microphone has been heard for so many seconds.
export const recorded = (page, seconds) => until(page, 'it records', async () =>
  Number((await textOf(page, 'record-state')).split(':')[1]) >= seconds, true);

export const translation = page => page.evaluate(() =>
  [...document.querySelectorAll('#target-text .sentence')].map(one => one.textContent).join(''));
export const marks = page => page.evaluate(() =>
  [...document.querySelectorAll('#source-shade mark')].map(one => one.textContent));
export const word = (page, name) => page.locator('#target-text .word', {hasText: new RegExp(`^${name}$`)}).first();
export const textOf = (page, id) => page.evaluate(name => document.getElementById(name).textContent, id);
export const isShown = (page, id) => page.evaluate(name => !document.getElementById(name).hidden, id);
export const chosen = (page, id) => page.evaluate(name => document.getElementById(name).selectedOptions[0].text, id);
export const counted = (page, selector) => page.evaluate(what => document.querySelectorAll(what).length, selector);

// Nothing of it lies beside the window.
export const fits = page => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);

export const focused = page => page.evaluate(() =>
  document.activeElement.id || document.activeElement.className || document.activeElement.tagName);

// Writes a text and waits for its translation.
export async function translate(page, source, target) {
  await page.fill('#source-text', source);
  await until(page, `translation of ${source}`, async () =>
    [await translation(page), await page.getAttribute('#answer', 'aria-busy')], [target, 'false']);
}
