// SPDX-License-Identifier: Apache-2.0
// OpenAI's own package of npm with two of our servers: FREE has one model of speech, `tiny`, LOCKED asks for KEY.
// SOUNDS is the folder of recordings, HEARD a file with what `tessera transcribe` says of two of them, in JSON.
import assert from 'node:assert/strict';
import {File as NodeFile} from 'node:buffer';
import {createReadStream, readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import path from 'node:path';
import {describe, test} from 'node:test';

globalThis.File ??= NodeFile; // node 18 has it there alone
const {FREE, LOCKED, KEY, PACKAGES, SOUNDS, HEARD} = process.env;
const require = createRequire(path.join(PACKAGES, 'package.json'));
const OpenAI = require('openai');
const heard = JSON.parse(readFileSync(HEARD, 'utf8'));

const connect = (server, apiKey) => new OpenAI({baseURL: `${server}/v1`, apiKey, maxRetries: 0});
const client = connect(FREE, 'any');
const file = (name = 'fox') => createReadStream(path.join(SOUNDS, `${name}.wav`));
const hear = (more = {}, name = 'fox') => client.audio.transcriptions.create(
  {file: file(name), model: 'whisper-1', ...more});
const textOf = name => heard[name].text.trim();

describe('openai', () => {
  test('models', async () => {
    const names = [];
    for await (const model of client.models.list()) names.push(model.id);
    assert.deepEqual(names, ['tiny']);
    const model = await client.models.retrieve('tiny');
    assert.deepEqual([model.id, model.object, model.owned_by], ['tiny', 'model', 'tessera']);
    await assert.rejects(client.models.retrieve('none'), OpenAI.NotFoundError);
  });

  test('each form', async () => {
    assert.deepEqual(await hear(), {text: textOf('fox')});
    assert.deepEqual(await hear({response_format: 'json'}, 'count'), {text: textOf('count')});
    assert.equal(await hear({response_format: 'text'}), `${textOf('fox')}\n`);
    assert.equal(await hear({response_format: 'srt'}), heard.srt);
    assert.equal(await hear({response_format: 'vtt'}), heard.vtt);
    const verbose = await hear({response_format: 'verbose_json'});
    assert.deepEqual([verbose.task, verbose.language, verbose.text], ['transcribe', 'english', textOf('fox')]);
    assert.ok(Math.abs(verbose.duration - heard.fox.duration) < 1e-6);
    assert.deepEqual(verbose.segments.map(one => [one.id, one.start, one.end, one.text, one.tokens]),
      heard.fox.segments.map(one => [one.id, one.start, one.end, one.text, one.tokens]));
    assert.equal(verbose.words, undefined);
  });

  test('words', async () => {
    const timed = await hear({response_format: 'verbose_json', timestamp_granularities: ['word', 'segment']});
    assert.deepEqual(timed.words, heard.fox.segments.flatMap(one => one.words)
      .map(({word, start, end}) => ({word: word.trim(), start, end})));
    assert.equal(timed.segments.length, heard.fox.segments.length);
  });

  test('options', async () => {
    const options = {language: 'fr', prompt: 'A word', temperature: 0};
    assert.deepEqual(await hear(options), {text: heard.prompted.text.trim()});
  });

  test('translations', async () => {
    const create = more => client.audio.translations.create({file: file(), model: 'whisper-1', ...more});
    assert.deepEqual(await create(), {text: heard.translated.text.trim()});
    assert.equal((await create({response_format: 'verbose_json'})).task, 'translate');
  });

  test('a stream', async () => {
    const events = [];
    for await (const event of await hear({stream: true})) events.push(event);
    assert.deepEqual(events.at(-1), {type: 'transcript.text.done', text: textOf('fox')});
    assert.equal(events.slice(0, -1).map(one => one.delta).join('').trim(), textOf('fox'));
    await assert.rejects(async () => {
      for await (const event of await hear({stream: true, language: 'none'})) assert.fail(event);
    }, OpenAI.APIError);
  });

  test('many at once', async () => {
    const names = Array.from({length: 12}, (_, i) => (i % 2 ? 'fox' : 'count'));
    const all = await Promise.all(names.map(name => hear({}, name)));
    assert.deepEqual(all.map(one => one.text), names.map(textOf));
  });

  test('errors', async () => {
    await assert.rejects(hear({language: 'klingon'}), error => error instanceof OpenAI.BadRequestError &&
      error.type === 'invalid_request_error' && /klingon/.test(error.message));
    await assert.rejects(hear({temperature: 3}), error => error instanceof OpenAI.BadRequestError &&
      error.param === 'temperature');
    const odd = await OpenAI.toFile(Buffer.from('no sound'), 'a.wav');
    await assert.rejects(client.audio.transcriptions.create({file: odd, model: 'a'}),
      error => error instanceof OpenAI.APIError && error.status === 415 && error.code === 'unsupported_format');
    const large = await OpenAI.toFile(Buffer.alloc(60000), 'a.wav');
    await assert.rejects(client.audio.transcriptions.create({file: large, model: 'a', prompt: 'a'.repeat(70000)}),
      error => error instanceof OpenAI.APIError && error.status === 413);
  });

  test('keys', async () => {
    const ask = key => connect(LOCKED, key).audio.transcriptions.create({file: file(), model: 'whisper-1'});
    await assert.rejects(ask('none'), error => error instanceof OpenAI.AuthenticationError &&
      error.code === 'invalid_api_key');
    assert.deepEqual(await ask(KEY), {text: textOf('fox')});
    await assert.rejects(connect(LOCKED, 'none').models.list(), OpenAI.AuthenticationError);
  });
});
