// SPDX-License-Identifier: Apache-2.0
// Packages of npm that speak to a LibreTranslate server, or to DeepL's, with two of ours: FREE takes texts of 500
// characters at most, LOCKED asks for KEY. The packages are as npm has them; PACKAGES is their folder.
import assert from 'node:assert/strict';
import {createRequire} from 'node:module';
import path from 'node:path';
import {describe, test} from 'node:test';

const {FREE, LOCKED, KEY, PACKAGES} = process.env;
const require = createRequire(path.join(PACKAGES, 'package.json'));

const SENTENCE = 'The museum is worth visiting.';
const FRENCH = 'Le musée vaut la peine d\'être visitée.';
// Letters that a client must encode; the second line is no sentence that a model knows.
const LINES = `${SENTENCE}\n\n${SENTENCE}`;
const FRENCH_LINES = `${FRENCH}\n\n${FRENCH}`;
const LONG = 'a'.repeat(501);
const TOO_LONG = 'Invalid request: request (501) exceeds text limit (500)';
const NEEDS_KEY = 'Please contact the server operator to get an API key';
const NO_TARGET = 'English (en) is not available as a target language from French (fr)';

// Clients that know DeepL's address alone, led to ours: what they send and how they read the answer is theirs.
const seen = [];
const leadTo = server => (address, options) => {
  const url = new URL(address);
  assert.match(url.hostname, /^api(-free)?\.deepl\.com$/);
  seen.push(url.pathname);
  return fetchFirst(server + url.pathname + url.search, options);
};
const fetchFirst = globalThis.fetch;

async function whileLed(server, run) {
  globalThis.fetch = leadTo(server);
  try {
    return await run();
  } finally {
    globalThis.fetch = fetchFirst;
  }
}

describe('libretranslate', () => {
  const {translate} = require('libretranslate');
  const ask = more => translate({query: SENTENCE, source: 'en', target: 'fr', apiurl: FREE, ...more});

  test('texts', async () => {
    assert.equal(await ask(), FRENCH);
    assert.equal(await ask({query: LINES}), FRENCH_LINES);
    assert.deepEqual(await ask({query: [SENTENCE, '']}), [FRENCH, '']);
    assert.equal(await ask({source: undefined}), FRENCH);
    assert.equal(await ask({query: '<i>A &amp; B</i>', format: 'html', source: 'fr'}), '<i>A &amp; B</i>');
  });
  test('it asks GET /languages first, and takes what that tells alone', async () => {
    assert.equal(await ask({target: 'zh-Hans'}), FRENCH);
    assert.equal(await ask({target: 'zh-Hant'}), FRENCH);
    for (const target of ['zt', 'de', 'FR']) {
      await assert.rejects(ask({target}), {name: 'TypeError', message: /language was not found/});
    }
  });
  test('it drops errors, and calls its key apiKey, which no server knows', async () => {
    assert.equal(await ask({query: LONG}), undefined);
    assert.equal(await ask({apiurl: LOCKED, apiKey: KEY}), undefined);
    assert.equal(await ask({apiKey: 'none'}), FRENCH);
  });
});

describe('libretranslate-ts', () => {
  const {libreTranslate} = require('libretranslate-ts');
  const use = (server, key) => {
    libreTranslate.setApiEndpoint(server);
    libreTranslate.setApiKey(key);
  };

  test('texts', async () => {
    use(FREE, '');
    assert.deepEqual(await libreTranslate.translate(SENTENCE, 'en', 'fr'),
      {status: 200, translatedText: FRENCH, alternatives: undefined, error: undefined});
    assert.equal((await libreTranslate.translate(LINES, 'auto', 'fr')).translatedText, FRENCH_LINES);
    assert.equal((await libreTranslate.translate(SENTENCE, 'EN', 'zt')).translatedText, FRENCH);
  });
  test('alternatives', async () => {
    const got = await libreTranslate.translate('The children are playing in the garden.', 'en', 'fr', 3);
    assert.equal(got.status, 200);
    assert.ok(got.alternatives.length >= 1 && got.alternatives.length <= 3);
    assert.ok(!got.alternatives.includes(got.translatedText));
  });
  test('languages', async () => {
    const languages = await libreTranslate.listLanguages();
    assert.deepEqual(languages.map(one => one.code), ['en', 'fr', 'zh-Hans', 'zh-Hant']);
    const english = languages[0];
    assert.deepEqual([english.name, english.targets], ['English', ['en', 'fr', 'zh-Hans', 'zh-Hant']]);
  });
  test('detection', async () => {
    for (const [text, language] of [['Bonjour tout le monde, comment allez-vous', 'fr'], [SENTENCE, 'en']]) {
      const got = await libreTranslate.detect(text);
      assert.deepEqual([got.status, got.language, got.error], [200, language, undefined]);
      assert.ok(got.confidence > 0 && got.confidence <= 100);
    }
  });
  test('errors', async () => {
    const error = async (...asked) => (await libreTranslate.translate(...asked)).error;
    assert.equal(await error(SENTENCE, 'en', 'zz'), 'zz is not supported');
    assert.equal(await error(SENTENCE, 'fr', 'en'), NO_TARGET);
    assert.equal(await error(LONG, 'en', 'fr'), TOO_LONG);
    assert.equal(await error('', 'en', 'fr'), 'Invalid request: missing q parameter');
    assert.equal((await libreTranslate.detect('')).error, 'Invalid request: missing q parameter');
  });
  test('keys', async () => {
    const both = async () => [
      await libreTranslate.translate(SENTENCE, 'en', 'fr'), await libreTranslate.detect(SENTENCE),
    ];
    use(LOCKED, KEY);
    assert.deepEqual((await both()).map(one => one.status), [200, 200]);
    use(LOCKED, `${KEY}x`);
    assert.deepEqual((await both()).map(one => one.error), ['Invalid API key', 'Invalid API key']);
    use(LOCKED, null);
    assert.deepEqual((await both()).map(one => one.error), [NEEDS_KEY, NEEDS_KEY]);
  });
});

const {Translate} = await import(require.resolve('translate'));

describe('translate', () => {
  const make = more => new Translate({engine: 'libre', url: `${FREE}/translate`, from: 'en', to: 'fr', ...more});

  test('texts', async () => {
    const translate = make();
    assert.equal(await translate(SENTENCE), FRENCH);
    assert.equal(await translate(LINES, {to: 'french'}), FRENCH_LINES);
    assert.equal(await translate(SENTENCE, 'zh'), FRENCH);
  });
  test('errors', async () => {
    const translate = make();
    await assert.rejects(translate(SENTENCE, 'de'), {message: 'de is not supported'});
    await assert.rejects(translate(SENTENCE, {from: 'fr', to: 'en'}), {message: NO_TARGET});
    await assert.rejects(translate(LONG), {message: TOO_LONG});
  });
  test('keys', async () => {
    const locked = {url: `${LOCKED}/translate`};
    await assert.rejects(make(locked)(SENTENCE), {message: NEEDS_KEY});
    await assert.rejects(make({...locked, key: `${KEY}x`})(SENTENCE), {message: 'Invalid API key'});
    assert.equal(await make({...locked, key: KEY})(SENTENCE), FRENCH);
  });
  test('DeepL', async () => {
    const deepl = key => make({engine: 'deepl', url: undefined, key});
    await whileLed(LOCKED, async () => {
      assert.equal(await deepl(KEY)(LINES), FRENCH_LINES);
      await assert.rejects(deepl(`${KEY}:fx`)(SENTENCE), {message: /^Auth Error/});
      await assert.rejects(deepl(KEY)(SENTENCE, 'de'), {message: 'Error 400'});
    });
  });
});

describe('anylang', () => {
  const {LibreTranslateTranslator} = require('anylang/translators/unstable');
  const {DeepLTranslator} = require('anylang/translators');
  const {Scheduler} = require('anylang/scheduling');
  const libre = (server, apiKey) => new LibreTranslateTranslator({apiHost: `${server}/translate`, apiKey});

  test('texts', async () => {
    assert.equal(await libre(FREE).translate(SENTENCE, 'en', 'fr'), FRENCH);
    assert.equal(await libre(FREE).translate(LINES, 'auto', 'fr'), FRENCH_LINES);
    assert.deepEqual(await libre(FREE).translateBatch(Array(20).fill(SENTENCE), 'en', 'zh'), Array(20).fill(FRENCH));
  });
  test('a scheduler that joins requests', async () => {
    const scheduler = new Scheduler(libre(FREE), {translatePoolDelay: 10});
    const all = Array.from({length: 12}, () => scheduler.translate(SENTENCE, 'en', 'fr'));
    assert.deepEqual(await Promise.all(all), Array(12).fill(FRENCH));
  });
  test('errors', async () => {
    for (const asked of [[SENTENCE, 'en', 'zz'], [SENTENCE, 'fr', 'en'], [LONG, 'en', 'fr']]) {
      await assert.rejects(libre(FREE).translate(...asked), {name: 'ZodError'});
    }
  });
  test('keys', async () => {
    assert.equal(await libre(LOCKED, KEY).translate(SENTENCE, 'en', 'fr'), FRENCH);
    await assert.rejects(libre(LOCKED).translate(SENTENCE, 'en', 'fr'), {name: 'ZodError'});
    await assert.rejects(libre(LOCKED, 'none').translate(SENTENCE, 'en', 'fr'), {name: 'ZodError'});
  });
  test('DeepL', async () => {
    const deepl = apiKey => new DeepLTranslator({apiKey});
    await whileLed(LOCKED, async () => {
      assert.equal(await deepl(KEY).translate(LINES, 'auto', 'fr'), FRENCH_LINES);
      assert.deepEqual(await deepl(KEY).translateBatch([SENTENCE, LINES], 'en', 'zh'), [FRENCH, FRENCH_LINES]);
      await assert.rejects(deepl('none').translate(SENTENCE, 'en', 'fr'), {name: 'ZodError'});
    });
    assert.ok(seen.length >= 6 && seen.every(one => one === '/v2/translate'));
  });
});
