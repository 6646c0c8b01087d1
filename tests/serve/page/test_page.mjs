// SPDX-License-Identifier: Apache-2.0
// Drives everything that the page offers, in both colour schemes and two widths, against the mock server.
import {readFileSync, writeFileSync} from 'node:fs';
import {runInNewContext} from 'node:vm';
import {
  appears, asked, at, axe, base, check, chosen, counted, equal, finish, fits, focused, fox, isShown, launch, marks,
  recorded, tell, textOf, translate, translation, until, visit, word,
} from './browser.mjs';

const MUSEUM = 'The museum is worth visiting.';
const MUSEE = "Le musée vaut la peine d'être visité.";
const OPENS = 'It opens at nine.';
const OUVRE = 'Il ouvre à neuf heures.';

const features = {
  async start(browser, look) {
    const page = await visit(browser, look);
    equal(await page.title(), 'Tessera: translate', 'title');
    equal(await focused(page), 'BODY', 'focus');
    const [colour, ink] = await page.evaluate(() =>
      [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]
        .map(one => one.match(/\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0)));
    const isDark = look.colorScheme === 'dark';
    check(isDark ? colour < 150 && ink > 600 : colour > 600 && ink < 150, 'colours', [colour, ink]);
    equal(await counted(page, '[style], style, script:not([src])'), 0, 'inline');
    check(await fits(page), 'no scrolling aside');
    await axe(page, 'at the start');
    await page.leave();
  },

  async typing(browser, look) {
    const page = await visit(browser, look);
    await asked();
    await page.locator('#source-text').pressSequentially(MUSEUM, {delay: 25});
    await until(page, 'translation', () => translation(page), MUSEE);
    const all = await asked();
    const n = all.filter(one => one.path.startsWith('/translate')).length;
    check(n < MUSEUM.length / 3, 'keys share requests', n);
    equal(all.at(-1).body.q, MUSEUM, 'what was asked');
    equal(await page.evaluate(() => document.getElementById('target-text').lang), 'fr', 'its language');
    await until(page, 'told to who listens', () => textOf(page, 'live'), `Translation: ${MUSEE}`);
    await page.click('#clear');
    equal([await translation(page), await focused(page)], ['', 'source-text'], 'cleared');
    await page.leave();
  },

  async outdated(browser, look) {
    const page = await visit(browser, look);
    await tell({delay: 60});
    await page.fill('#source-text', 'zalp');
    await until(page, 'it says that it works', () => isShown(page, 'busy'), true);
    await until(page, 'the first request is under way', async () =>
      (await asked('/translate/stream')).some(one => one.body.q === 'zalp'), true);
    await tell({delay: 0});
    await translate(page, 'galp', 'plag');
    await until(page, 'the outdated request is cancelled', async () =>
      (await (await fetch(`${base}mock`)).json()).cancelled >= 1, true);
    await page.leave();
  },

  async stream(browser, look) {
    const page = await visit(browser, look);
    await tell({hold: 2});
    await page.fill('#source-text', MUSEUM);
    await until(page, 'the beginning comes first', () => page.evaluate(() =>
      document.querySelector('.partial')?.textContent.startsWith('Le musée') || false), true);
    await tell({hold: 0});
    await until(page, 'all of it', () => translation(page), MUSEE);
    await tell({broken_stream: 1});
    await page.fill('#source-text', OPENS);
    await until(page, 'a stream that broke off is asked again', () => translation(page), OUVRE);
    await tell({stream: false});
    await page.fill('#source-text', 'ton flow');
    await until(page, 'without streams', () => translation(page), 'not wolf');
    await page.leave();
  },

  async sentences(browser, look) {
    const page = await visit(browser, look);
    await translate(page, `${MUSEUM} ${OPENS}\n\n  Dr. Who.`, `${MUSEE} ${OUVRE}\n\n  rD. ohW.`);
    equal((await asked('/translate')).at(-1).body.q, [MUSEUM, OPENS, 'Dr. Who.'], 'sentences');
    await page.fill('#source-text', `${MUSEUM} ${OPENS}\n\n  Dr. Who? Yes.`);
    await until(page, 'translation', () => translation(page), `${MUSEE} ${OUVRE}\n\n  rD. ohW? seY.`);
    equal((await asked('/translate')).map(one => one.body.q), [['Dr. Who?', 'Yes.']], 'only what is new');
    const many = Array.from({length: 30}, (_, i) => `Number ${i} here.`);
    await page.fill('#source-text', many.join(' '));
    await until(page, 'many', async () => (await translation(page)).split('. ').length, 30);
    const groups = (await asked('/translate')).map(one => one.body.q);
    equal([groups.length, groups.flat().sort()], [4, [...many].sort()], 'many, in groups');
    await page.leave();
  },

  async languages(browser, look) {
    const page = await visit(browser, look);
    const names = await page.evaluate(() => [...document.getElementById('target').options].map(one => one.text));
    equal(names, ['English', 'French', 'German', 'Japanese', 'Spanish'], 'names');
    equal(await chosen(page, 'source'), 'Detect language', 'auto');
    await translate(page, MUSEUM, MUSEE);
    equal(await chosen(page, 'source'), 'English (detected)', 'detected');
    equal(await page.evaluate(() => [...document.getElementById('target').options].map(one => one.value)),
      ['fr', 'de', 'ja', 'es'], 'no target is the source');
    await page.selectOption('#target', 'de');
    await until(page, 'another target', () => translation(page), 'Das Museum ist einen Besuch wert.');
    await page.selectOption('#source', 'es');
    await until(page, 'another source', async () => (await asked()).at(-1)?.body.source, 'es');
    equal(new URL(page.url()).hash, '#source=es&target=de', 'address');
    await page.open('');
    equal(await page.evaluate(() => [document.getElementById('source').value, document.getElementById('target').value]),
      ['es', 'de'], 'kept for the next visit');
    await page.leave();
  },

  async swap(browser, look) {
    const page = await visit(browser, look);
    await translate(page, MUSEUM, MUSEE);
    await page.click('#swap');
    equal(await page.inputValue('#source-text'), MUSEE, 'the text');
    equal(await page.evaluate(() => [document.getElementById('source').value, document.getElementById('target').value]),
      ['fr', 'en'], 'languages');
    await until(page, 'asked the other way', async () => {
      const last = (await asked('/translate/stream')).at(-1)?.body;
      return [last?.source, last?.target, last?.q];
    }, ['fr', 'en', MUSEE]);
    await page.leave();
  },

  async light(browser, look) {
    const page = await visit(browser, look);
    await translate(page, `${OPENS} ${MUSEUM}`, `${OUVRE} ${MUSEE}`);
    await word(page, 'peine').hover();
    equal(await marks(page), ['is', 'worth'], 'under the pointer');
    equal(await textOf(page, 'word-source'), 'made from: is worth', 'for who listens');
    await page.mouse.move(1, 1);
    equal(await marks(page), [], 'without the pointer');
    await word(page, 'heures').focus();
    equal(await marks(page), ['nine'], 'under the focus');
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('ArrowRight');
    equal(await marks(page), ['museum'], 'the next but one');
    const places = await page.evaluate(() => {
      const area = document.getElementById('source-text');
      const shade = document.getElementById('source-shade');
      const style = element => ['font', 'padding', 'lineHeight', 'letterSpacing', 'whiteSpace', 'overflowWrap', 'width']
        .map(name => getComputedStyle(element)[name]);
      return [style(area), style(shade), area.scrollHeight <= area.clientHeight];
    });
    equal(places[0], places[1], 'what is lit lies below its words');
    check(places[2], 'the text area shows all of its text');
    await translate(page, '😀😀😀😀 Hello world!', '😀😀😀😀 Bonjour le monde !');
    await word(page, 'monde').hover();
    equal(await marks(page), ['world'], 'behind letters of two units');
    await word(page, 'Bonjour').hover();
    equal(await marks(page), ['Hello'], 'likewise the word before');
    await page.leave();
  },

  async choices(browser, look) {
    const page = await visit(browser, look);
    await translate(page, `${OPENS} ${MUSEUM}`, `${OUVRE} ${MUSEE}`);
    await asked();
    await word(page, 'vaut').click();
    await until(page, 'choices', () => page.locator('#choice-list [role]').allTextContents(),
      ["vaut la peine d'être visité.", "mérite d'être visité.", 'est à voir absolument.']);
    const {body} = (await asked('/translate')).at(-1);
    equal([body.q, body.prefix, body.continuations], [MUSEUM, 'Le musée ', 6], 'what was asked');
    equal(await marks(page), ['is', 'worth'], 'the word stays lit');
    await axe(page, 'with choices');
    const box = await page.locator('#choices').boundingBox();
    check(box.x >= 0 && box.x + box.width <= look.viewport.width, 'choices are within the window', box);
    await page.locator('#choice-list [role]').nth(1).click();
    equal(await translation(page), `${OUVRE} Le musée mérite d'être visité.`, 'the sentence goes on from there');
    check(!await isShown(page, 'choices'), 'the choices are gone');
    equal(await page.evaluate(() => document.activeElement.textContent), 'mérite', 'focus is on the chosen word');
    await until(page, 'the chosen word is lit, too', () => marks(page), ['is']);
    await page.click('#undo');
    await until(page, 'taken back', () => translation(page), `${OUVRE} ${MUSEE}`);
    check(!await isShown(page, 'undo'), 'nothing is left to take back');
    await word(page, 'Il').click();
    await page.keyboard.press('Escape');
    check(!await isShown(page, 'choices'), 'Escape closes');
    // The request that Escape cancelled may come after this.
    await tell({fail: [{path: '/translate', status: 400, error: 'prefix is too long', times: 2}]});
    await word(page, 'Il').click();
    await until(page, 'an error', () => textOf(page, 'choices-state'), 'The server says: prefix is too long');
    await tell({fail: []});
    await page.locator('#count').click();
    check(!await isShown(page, 'choices'), 'a click elsewhere closes');
    await page.leave();
  },

  async keyboard(browser, look) {
    const page = await visit(browser, look);
    const tab = async (n = 1) => {
      for (let i = 0; i < n; i++) await page.keyboard.press('Tab');
      return focused(page);
    };
    const way = [];
    for (let i = 0; i < 8; i++) way.push(await tab());
    equal(way, ['skip', 'brand', 'A', 'A', 'interface', 'colours', 'source', 'target'], 'the order of focus');
    equal(await tab(), 'source-text', 'the text');
    await page.keyboard.type(MUSEUM);
    await until(page, 'translation', () => translation(page), MUSEE);
    equal(await tab(), 'clear', 'clear');
    equal(await tab(), 'word lit', 'the first word');
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('ArrowRight');
    equal(await page.evaluate(() => document.activeElement.textContent), 'vaut', 'the third');
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineWidth);
    check(parseFloat(outline) >= 2, 'focus is seen', outline);
    await page.keyboard.press('End');
    await page.keyboard.press('Home');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Home');
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('Enter');
    await until(page, 'choices have the focus', () => focused(page), 'BUTTON');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    equal(await translation(page), 'Le musée est à voir absolument.', 'chosen');
    equal(await page.evaluate(() => document.activeElement.textContent), 'est', 'focus is on the chosen word');
    equal(await tab(), 'undo', 'the tools follow');
    equal(await tab(4), 'choose', 'documents');
    await page.keyboard.press('Shift+Tab');
    await page.evaluate(() => document.querySelector('.skip').focus());
    await page.keyboard.press('Enter');
    equal(await focused(page), 'source-text', 'the link that skips');
    await page.leave();
  },

  async files(browser, look) {
    const page = await visit(browser, look);
    await page.setInputFiles('#picker', {name: 'a b.txt', mimeType: 'text/plain', buffer: Buffer.from('abc')});
    const link = page.locator('#file-list a');
    await link.waitFor();
    const [download] = await Promise.all([page.waitForEvent('download'), link.click()]);
    equal(download.suggestedFilename(), 'a b.fr.txt', 'its name');
    const chunks = [];
    for await (const chunk of await download.createReadStream()) chunks.push(chunk);
    equal(Buffer.concat(chunks).toString(), 'cba', 'its content');
    // Dropped, with a delay: progress is shown, and it can be stopped.
    await tell({delay: 60});
    const drop = async files => {
      const data = await page.evaluateHandle(list => {
        const transfer = new DataTransfer();
        for (const [name, content] of list) transfer.items.add(new File([content], name));
        return transfer;
      }, files);
      await page.dispatchEvent('main', 'dragenter', {dataTransfer: data});
      check(await page.evaluate(() => document.body.classList.contains('dropping')), 'it shows where to drop');
      await page.dispatchEvent('main', 'drop', {dataTransfer: data});
    };
    await asked();
    await drop([['one.odt', 'x'.repeat(500000)], ['two.xyz', 'y'], ['broken.docx', 'broken']]);
    const states = () => page.locator('#file-list .state').allTextContents();
    await until(page, 'states', states, [
      'Translated', 'Being translated', 'This kind of file is not translated here', 'Waiting',
    ]);
    equal(await page.locator('#file-list progress').count(), 1, 'progress');
    await axe(page, 'with documents');
    await until(page, 'the server has it', async () => (await asked('/translate_file')).length > 0, true);
    await tell({delay: 0}); // of what comes from now on
    await page.getByLabel('Stop one.odt').click();
    await until(page, 'stopped, and the next one', states, [
      'Translated', 'Stopped', 'This kind of file is not translated here', 'The server says: The file is broken',
    ]);
    await page.getByLabel('Try one.odt again').click();
    await until(page, 'again', async () => (await states())[1], 'Translated');
    await tell({fail: [{path: '/translate_file', status: 503, retry: 1}]});
    const busy = appears(page, 'notice');
    await drop([['three.srt', 'z']]);
    await busy;
    await until(page, 'after the pause', async () => (await states()).at(-1), 'Translated');
    await page.getByLabel('Remove a b.txt').click();
    equal((await states()).length, 4, 'removed');
    await page.leave();
  },

  async sounds(browser, look) {
    const page = await visit(browser, look);
    check(await isShown(page, 'speech'), 'offered');
    const wav = readFileSync(fox);
    const states = () => page.locator('#sound-list .state').allTextContents();
    const row = n => page.locator('#sound-list > li').nth(n);
    await asked();
    await page.setInputFiles('#sound-picker', {name: 'a b.wav', mimeType: 'audio/wav', buffer: wav});
    await row(0).locator('.segments li').first().waitFor();
    const {body} = (await asked('/v1/audio/transcriptions'))[0];
    equal([body.model, body.response_format, body.size, body.rate], ['whisper-tiny', 'verbose_json', wav.length, 16000],
      'what was sent');
    equal(await row(0).locator('.segments li').evaluateAll(all =>
      all.map(one => [one.querySelector('time').textContent, one.querySelector('span').textContent])),
    [['0:00', 'Hello world.'], ['1:01', 'An arrow ---> here, R&B.']], 'segments with times');
    const saved = async form => {
      const link = row(0).getByText(form, {exact: true});
      const [download] = await Promise.all([page.waitForEvent('download'), link.click()]);
      const chunks = [];
      for await (const chunk of await download.createReadStream()) chunks.push(chunk);
      return [download.suggestedFilename(), Buffer.concat(chunks).toString()];
    };
    equal(await saved('TXT'), ['a b.txt', 'Hello world.\nAn arrow ---> here, R&B.\n'], 'text');
    equal(await saved('SRT'), ['a b.srt', '1\n00:00:00,300 --> 00:00:01,500\nHello world.\n\n' +
      '2\n00:01:01,250 --> 01:02:03,500\nAn arrow -> here, R&B.\n\n'], 'SubRip');
    equal(await saved('VTT'), ['a b.vtt', 'WEBVTT\n\n00:00.300 --> 00:01.500\nHello world.\n\n' +
      '01:01.250 --> 01:02:03.500\nAn arrow ---&gt; here, R&amp;B.\n\n'], 'WebVTT');
    await axe(page, 'with a sound');
    check(await fits(page), 'no scrolling aside');
    await row(0).getByText('Translate the text').click();
    equal(await page.inputValue('#source-text'), 'Hello world. An arrow.', 'as the text');
    // Translated, too large, of no kind, without speech, stopped, and where the server is busy.
    await page.selectOption('#sound-task', 'translate');
    await page.setInputFiles('#sound-picker', [
      {name: 'large.wav', mimeType: 'audio/wav', buffer: Buffer.alloc((1 << 20) + 1)},
      {name: 'odd.mp3', mimeType: 'audio/mpeg', buffer: Buffer.from('odd')},
      {name: 'quiet.ogg', mimeType: 'audio/ogg', buffer: Buffer.from('none')}]);
    await until(page, 'states', states, ['', 'Larger than 1 MiB, which this server takes at most',
      'The server says: Invalid file format: nothing reads it', 'Nothing was heard']);
    equal((await asked('/v1/audio/translations')).length, 2, 'in English');
    await tell({delay: 60});
    await page.setInputFiles('#sound-picker', {name: 'b.wav', mimeType: 'audio/wav', buffer: wav});
    await until(page, 'it is heard', async () => (await states()).at(-1), 'Being heard');
    await page.getByLabel('Stop b.wav').click();
    await until(page, 'stopped', async () => (await states()).at(-1), 'Stopped');
    await tell({delay: 0, fail: [{path: '/v1/audio/translations', status: 503, retry: 1}]});
    const busy = appears(page, 'notice');
    await page.getByLabel('Try b.wav again').click();
    await busy;
    await until(page, 'after the pause', async () => (await states()).at(-1), '');
    await page.getByLabel('Remove a b.wav').click();
    equal((await states()).length, 4, 'removed');
    await tell({fail: [{path: '/v1/audio/translations', status: 200, error: 'of a proxy'}]});
    await page.setInputFiles('#sound-picker', {name: 'd.wav', mimeType: 'audio/wav', buffer: wav});
    await until(page, 'an answer that is none', async () => (await states()).at(-1), 'The server says: verbose_json');
    await page.getByLabel('Remove d.wav').click();
    // Dropped beside a document.
    const data = await page.evaluateHandle(() => {
      const transfer = new DataTransfer();
      transfer.items.add(new File(['RIFF'], 'c.wav', {type: 'audio/wav'}));
      transfer.items.add(new File(['abc'], 'c.txt', {type: 'text/plain'}));
      return transfer;
    });
    await page.dispatchEvent('main', 'drop', {dataTransfer: data});
    await until(page, 'each to its place', async () => [
      (await states()).length, await page.locator('#file-list .name').allTextContents()], [5, ['c.txt']]);
    await page.leave();
  },

  async microphone(browser, look) {
    const page = await visit(browser, look);
    await asked();
    await page.click('#record');
    await recorded(page, 1);
    equal([await textOf(page, 'record'), await page.getAttribute('#record', 'aria-pressed')],
      ['Stop recording', 'true'], 'how to end it');
    await axe(page, 'while it records');
    const recording = await page.evaluateHandle('speech.recording');
    await page.click('#record');
    await until(page, 'heard', () => page.locator('#sound-list .name').allTextContents(), ['Recording 1.wav']);
    await page.locator('#sound-list .segments').waitFor();
    const {body} = (await asked('/v1/audio/transcriptions'))[0];
    equal([body.format, body.rate], ['RIFF', 16000], 'WAV at the models\' rate');
    check(body.size > 32000 && body.size < 32000 * 30, 'its length', body.size);
    check(body.peak > 300, 'its loudness', body.peak);
    check(await recording.evaluate(one => one.pieces.at(-1).length < 4096), 'to its end');
    equal([await textOf(page, 'record'), await textOf(page, 'record-state')], ['Record', ''], 'ended');
    await page.leave();
    // A file that the server cannot read, and the browser can: here a sound of another rate behind a wrong name.
    const other = await visit(browser, look);
    await tell({fail: [{path: '/v1/audio/transcriptions', status: 415, error: 'Invalid file format'}]});
    await other.setInputFiles('#sound-picker', {name: 'a.wav', mimeType: 'audio/wav', buffer: readFileSync(fox)});
    await other.locator('#sound-list .segments').waitFor();
    equal((await asked('/v1/audio/transcriptions')).map(one => one.body.rate), [16000, 16000],
      'decoded and sent again');
    // Not offered where there is no model of speech; alone where there is no other.
    await tell({settings: {speechModels: []}});
    await other.open('');
    check(!await isShown(other, 'speech'), 'not offered');
    await tell({settings: {keyRequired: true}, codes: []});
    await other.open('');
    check(await isShown(other, 'speech') && !await other.isVisible('#source-text'), 'alone');
    await other.setInputFiles('#sound-picker', {name: 'a.wav', mimeType: 'audio/wav', buffer: readFileSync(fox)});
    await until(other, 'it asks for a key', () => isShown(other, 'key-form'), true);
    await other.fill('#key', 'secret');
    await other.press('#key', 'Enter');
    await other.getByLabel('Try a.wav again').click();
    await other.locator('#sound-list .segments').waitFor();
    await other.leave();
  },

  // What is left when a recording ends is shorter than a piece, and is handed over, too.
  async recorder() {
    const posted = [];
    let Recorder;
    runInNewContext(await (await fetch(`${base}app/recorder.js`)).text(), {
      AudioWorkletProcessor: class {
        port = {postMessage: piece => posted.push(piece && [...piece])};
      },
      registerProcessor: (name, made) => {
        Recorder = made;
      },
    });
    const recorder = new Recorder();
    const block = new Float32Array(128).fill(0.5);
    for (let i = 0; i < 40; i++) check(recorder.process([[block]]), 'it goes on');
    equal(posted.map(piece => piece.length), [4096], 'a piece');
    recorder.port.onmessage({data: 'end'});
    equal(posted.map(piece => piece && piece.length), [4096, 1024, null], 'the rest');
    check(posted[1].every(sample => sample === 0.5), 'its samples');
    check(!recorder.process([[block]]), 'it ends');
  },

  async copies(browser, look) {
    const page = await visit(browser, {...look, permissions: ['clipboard-read', 'clipboard-write']});
    await translate(page, MUSEUM, MUSEE);
    let said = appears(page, 'told', 'Copied');
    await page.click('#copy');
    await said;
    equal(await page.evaluate(() => navigator.clipboard.readText()), MUSEE, 'copied');
    said = appears(page, 'told', 'Link copied');
    await page.click('#share');
    await said;
    const address = await page.evaluate(() => navigator.clipboard.readText());
    check(!page.url().includes('museum'), 'the text is not in the history');
    // Without the interface to the clipboard, as on a page without TLS.
    await page.evaluate(() => Object.defineProperty(navigator, 'clipboard', {value: undefined}));
    await page.selectOption('#target', 'de');
    await until(page, 'another translation', () => translation(page), 'Das Museum ist einen Besuch wert.');
    said = appears(page, 'told', 'Copied');
    await page.click('#copy');
    await said;
    equal(await focused(page), 'copy', 'focus stays');
    await page.leave();
    const other = await visit(browser, look, address.slice(base.length));
    await until(other, 'a shared link', () => translation(other), MUSEE);
    await other.goto(`${base}?source=en&target=de&q=${encodeURIComponent(MUSEUM)}`);
    await until(other, "LibreTranslate's link", () => translation(other), 'Das Museum ist einen Besuch wert.');
    await other.leave();
  },

  async colours(browser, look) {
    const page = await visit(browser, look);
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const seen = [await ground()];
    for (let i = 0; i < 2; i++) {
      await page.click('#colours');
      seen.push(await ground());
    }
    const [light, dark] = [seen[1], seen[2]];
    check(light !== dark, 'light and dark differ', seen);
    equal(seen[0], look.colorScheme === 'dark' ? dark : light, 'as the system has it');
    equal(await page.getAttribute('#colours', 'aria-label'), 'Colours: dark', 'what is chosen');
    await page.reload();
    equal(await ground(), dark, 'the choice is kept');
    await axe(page, 'with chosen colours');
    await page.leave();
  },

  async interface(browser, look) {
    for (const [locale, language, title, french] of [
      ['de-AT', 'de', 'Tessera: Übersetzen', 'Französisch'], ['fr-FR', 'fr', 'Tessera : traduire', 'Français'],
      ['es-MX', 'es', 'Tessera: traducir', 'Francés'], ['it-IT', 'en', 'Tessera: translate', 'French'],
    ]) {
      const page = await visit(browser, {...look, locale});
      await translate(page, MUSEUM, MUSEE);
      equal([await page.title(), await page.evaluate(() => document.documentElement.lang)], [title, language], locale);
      equal(await page.evaluate(() => document.querySelector('#target [value=fr]').text), french, 'names of languages');
      check(await fits(page), `${locale}: no scrolling aside`);
      await axe(page, locale);
      await page.leave();
    }
    const page = await visit(browser, look);
    await page.selectOption('#interface', 'de');
    equal([await page.title(), await page.getAttribute('#copy', 'title'), await textOf(page, 'hint')], [
      'Tessera: Übersetzen', 'Übersetzung kopieren',
      'Zeigen Sie auf ein Wort, um zu sehen, woher es kommt. Drücken Sie darauf, um ein anderes zu wählen.',
    ], 'switched');
    await page.reload();
    equal(await page.title(), 'Tessera: Übersetzen', 'the choice is kept');
    const faults = await page.evaluate(() => {
      const gaps = one => (one.match(/\{\w+\}/g) || []).sort().join();
      const isBad = row => row.length !== 4 || row.some(one => !one || gaps(one) !== gaps(row[0]));
      return Object.entries(TEXTS).filter(([, row]) => isBad(row));
    });
    equal(faults, [], 'each text is there in each language');
    await page.leave();
  },

  async refusals(browser, look) {
    const page = await visit(browser, look);
    const fail = (...all) => tell({fail: all});
    await fail({path: '/translate/stream', status: 429, retry: 3, error: 'Slowdown: 10 per 1 minute'});
    await asked();
    await page.fill('#source-text', MUSEUM);
    const notice = async () => (await textOf(page, 'notice-text')).replace(/\d+/, 'N');
    await until(page, '429', notice, 'Too many requests. The page goes on in N s.');
    check(!await isShown(page, 'again'), 'the waiting time is kept');
    await axe(page, 'with a notice');
    await until(page, 'then it goes on', () => translation(page), MUSEE);
    const [refused, again] = (await asked('/translate/stream')).map(one => one.time);
    check(again - refused >= 3, 'not before its time', again - refused);
    check(!await isShown(page, 'notice'), 'the notice is gone');
    await fail({path: '/translate/stream', status: 503, retry: 60});
    await page.fill('#source-text', OPENS);
    await until(page, '503', notice, 'The server is busy. The page tries again in N s.');
    await page.click('#again');
    await until(page, 'tried now', () => translation(page), OUVRE);
    await fail({path: '/translate/stream', status: 0, times: 2});
    await page.fill('#source-text', 'ton flow');
    await until(page, 'gone', notice, 'The server cannot be reached. The page tries again in N s.');
    await until(page, 'back', () => translation(page), 'not wolf');
    await page.context().setOffline(true);
    await page.fill('#source-text', 'on flow');
    await until(page, 'without a network', async () => (await textOf(page, 'alarm')).replace(/\d+/, 'N'),
      'The server cannot be reached. The page tries again in N s.');
    await page.context().setOffline(false);
    await until(page, 'with one', () => translation(page), 'no wolf');
    await fail({path: '/translate/stream', status: 400, error: 'xx is not <b>supported</b>'});
    await page.fill('#source-text', 'on');
    await until(page, '400', () => textOf(page, 'notice-text'), 'The server says: xx is not <b>supported</b>');
    equal(await counted(page, '#notice b'), 0, 'it is text');
    await page.fill('#source-text', 'x'.repeat(2001));
    await until(page, 'too long', () => textOf(page, 'notice-text'),
      'The text is too long: this server takes 2,000 characters.');
    equal(await textOf(page, 'count'), '2,001 of 2,000 characters', 'the count');
    await page.fill('#source-text', 'on');
    await until(page, 'and shorter again', () => translation(page), 'no');
    await page.leave();
    await fail({path: '/languages', status: 503, retry: 4});
    const early = await visit(browser, look);
    await until(early, 'busy at the start', () => isShown(early, 'notice'), true);
    await translate(early, MUSEUM, MUSEE);
    await early.leave();
  },

  async key(browser, look) {
    await tell({settings: {keyRequired: true, charLimit: -1}});
    const page = await visit(browser, look);
    await page.locator('#key').waitFor();
    await axe(page, 'with a key');
    await page.fill('#source-text', MUSEUM);
    await until(page, 'without a key', () => textOf(page, 'notice-text'), 'The server says: Invalid API key');
    await page.fill('#key', 'secret');
    await page.keyboard.press('Enter');
    await until(page, 'with a key', () => translation(page), MUSEE);
    check(!await isShown(page, 'key-form'), 'it is not asked for again');
    equal(await textOf(page, 'count'), '29 characters', 'without a limit');
    await page.leave();
  },

  async plain(browser, look) {
    const page = await visit(browser, look);
    const evil = '<img src=x onerror=alert(1)> &amp; <b>on</b>';
    await page.fill('#source-text', evil);
    await until(page, 'translated', async () => (await translation(page)).includes('gmi'), true);
    await word(page, 'crs').hover();
    equal(await counted(page, 'main img, main b'), 0, 'no element is made of it');
    // While it comes, and among the choices.
    await tell({hold: 2});
    await page.fill('#source-text', 'on <u>on</u> flow ton');
    await until(page, 'a part of it', () => page.evaluate(() =>
      document.querySelector('.partial')?.textContent.startsWith('no <u>no</u>') || false), true);
    equal(await counted(page, 'main u'), 0, 'nor while it comes');
    await tell({hold: 0});
    await until(page, 'all of it', () => translation(page), 'no <u>no</u> wolf not');
    await word(page, 'no').click();
    await until(page, 'choices', () => counted(page, '#choice-list button'), 6);
    equal(await counted(page, 'main u'), 0, 'nor among the choices');
    await page.goto(`${base}#source=en&target=fr&text=${encodeURIComponent(evil)}`);
    await page.reload();
    await until(page, 'from the address', async () => (await translation(page)).includes('gmi'), true);
    equal(await page.inputValue('#source-text'), evil, 'as it was written');
    equal(await counted(page, 'main img, main b'), 0, 'nor from the address');
    await page.leave();
  },

  async empty(browser, look) {
    await tell({codes: [], settings: {filesTranslation: false, speechModels: []}});
    const page = await visit(browser, look);
    await until(page, 'no models', () => textOf(page, 'notice-text'),
      'This server has no models yet: its models folder is empty.');
    check(!await isShown(page, 'files'), 'no documents');
    await axe(page, 'without models');
    await page.leave();
  },

  async status(browser, look) {
    const page = await visit(browser, look, 'app/status');
    await until(page, 'health', () => textOf(page, 'health'), 'The server is ready');
    const cells = id => page.evaluate(name =>
      [...document.getElementById(name).rows].map(row => [...row.cells].map(cell => cell.textContent)), id);
    equal(await cells('devices'), [
      ['Device', 'State', 'Memory'], ['cpu:0 (CPU)', 'works', '–'], ['vulkan:0 <b>card</b>', 'lost', '6\u00a0GiB'],
    ], 'devices');
    equal(await cells('models'), [
      ['Model', 'State', 'Memory'], ['opus-mt-en-fr', 'open', '312\u00a0MiB'],
      ['broken', 'failed', '–'], ['nllb-200-distilled-600M', 'closed', '–'],
    ], 'models');
    equal((await cells('pairs'))[1], ['English', 'French, German, Japanese, Spanish'], 'languages');
    const numbers = () => page.evaluate(() => Object.fromEntries([...document.querySelectorAll('#numbers div')]
      .map(one => [one.firstChild.textContent, one.lastChild.textContent])));
    await until(page, 'a second reading', async () => (await numbers())['Texts a step'], '16');
    const seen = await numbers();
    equal([seen['Half take at most'], seen['99 % take at most']], ['100\u00a0ms', '500\u00a0ms'], 'latency');
    // Between two readings that came in their time.
    await until(page, '2,000 tokens in two seconds', async () => {
      const tokens = Number((await numbers())['Tokens a second'].replace(',', ''));
      return tokens > 500 && tokens < 1100;
    }, true);
    equal([seen['In batches'], /^[0-4]$/.test(seen.Waiting)], ['16', true], 'what is under way');
    check((await page.getAttribute('#chart-line', 'points')).length > 3, 'a chart');
    check(/^Tokens a second in the last 180 s: now [\d,]+, at most/.test(await textOf(page, 'chart-text')),
      'told in words', await textOf(page, 'chart-text'));
    check(await fits(page), 'no scrolling aside');
    await axe(page, 'status');
    await tell({fail: [{path: '/health', status: 503, times: 1e9}]});
    await until(page, 'busy', () => textOf(page, 'health'), 'The server takes no new work');
    await tell({fail: []});
    await until(page, 'ready again', () => textOf(page, 'health'), 'The server is ready');
    const hidden = [{path: '/metrics', status: 403, times: 1e9}, {path: '/status', status: 403, times: 1e9}];
    await tell({fail: hidden});
    const sections = () => page.evaluate(() => ['numbers', 'devices', 'models', 'pairs']
      .filter(id => !document.getElementById(id).closest('section').hidden));
    await until(page, 'a server that does not tell', sections, ['pairs']);
    await tell({fail: []});
    await until(page, 'and tells again', sections, ['numbers', 'devices', 'models', 'pairs']);
    await page.selectOption('#interface', 'fr');
    equal([await textOf(page, 'health'), ...(await cells('models'))[0]],
      ['Le serveur est prêt', 'Modèle', 'État', 'Mémoire'], 'in French');
    await page.context().setOffline(true);
    await until(page, 'gone', () => textOf(page, 'health'), 'Le serveur est injoignable');
    await page.context().setOffline(false);
    await page.click('nav a:first-child');
    await until(page, 'back to the text', () => page.title(), 'Tessera : traduire');
    await page.leave();
  },

  async pieces(browser, look) {
    const page = await visit(browser, look);
    const cut = (what, language) => page.evaluate(([one, code]) =>
      sentencesOf(one, code).list.map(part => part.text), [what, language]);
    equal(await cut('Mr. Smith met Dr. Who. It rained, e.g. in June. Yes!', 'en'),
      ['Mr. Smith met Dr. Who.', 'It rained, e.g. in June.', 'Yes!'], 'abbreviations');
    equal(await cut('Das kostet ca. 5 Euro, z. B. hier. Gut.', 'de'), ['Das kostet ca. 5 Euro, z. B. hier.', 'Gut.'],
      'in German');
    equal(await cut('今日は雨です。傘がない。', 'ja'), ['今日は雨です。', '傘がない。'], 'without blanks');
    equal(await cut('\n \n\t\n', 'en'), [], 'blanks alone');
    const whole = ' One.  Two!\r\n\n Three\n';
    equal(await page.evaluate(one => {
      const {list, tail} = sentencesOf(one, 'en');
      return list.map(part => part.gap + part.text).join('') + tail;
    }, whole), whole, 'nothing is lost');
    const words = (what, language) => page.evaluate(([one, code]) =>
      wordsOf(one, code).map(part => one.slice(part.begin, part.end)), [what, language]);
    equal(await words("« L'eau, peut-être », d’été - 3,5 %", 'fr'), ["L'eau", 'peut-être', 'd’été', '3,5'], 'words');
    equal((await words('今日は雨です', 'ja')).join(''), '今日は雨です', 'words without blanks');
    const gaps = await page.evaluate(() => [
      gapFor(' ', 'ja', false), gapFor('', 'fr', false), gapFor('\n\n', 'ja', false), gapFor('', 'fr', true),
    ]);
    equal(gaps, ['', ' ', '\n\n', ''], 'between sentences');
    const bad = await page.evaluate(() => alignmentOf([
      null, 7, {}, {target: [0, 99], source: [0, 1]}, {target: [1, 1], source: [0, 1]},
      {target: [-1, 1], source: [0, 1]}, {target: [0, 1], source: 'ab'}, {target: [0, 1], source: [0, 1]},
    ], 'ab', 'cd').length);
    equal(bad, 1, 'an alignment that is out of range is left out');
    equal(await page.evaluate(() => alignmentOf('no', 'ab', 'cd')), [], 'likewise one that is no list');
    // A browser that cuts no texts itself.
    await page.context().addInitScript(() => {
      Intl.Segmenter = undefined;
    });
    await page.open('');
    await translate(page, `${MUSEUM} ${OPENS}`, `${MUSEE} ${OUVRE}`);
    await word(page, 'musée').hover();
    equal(await marks(page), ['museum'], 'without a segmenter');
    await page.leave();
  },

  async print(browser, look) {
    const page = await visit(browser, look);
    await translate(page, `${MUSEUM}\n${OPENS}`, `${MUSEE}\n${OUVRE}`);
    await page.emulateMedia({media: 'print'});
    const parts = ['source-text', 'source-shade', 'target-text', 'copy', 'files', 'speech', 'interface', 'hint'];
    const seen = await page.evaluate(ids => ids.filter(id => document.getElementById(id).offsetHeight > 0), parts);
    equal(seen, ['source-shade', 'target-text'], 'what is printed');
    const ink = await page.evaluate(() => getComputedStyle(document.getElementById('source-shade')).color);
    equal(ink, 'rgb(0, 0, 0)', 'ink');
    const widths = await page.evaluate(() => ['source', 'target'].map(id => document.getElementById(id).offsetWidth));
    check(Math.min(...widths) > 60, 'the names of the languages', widths);
    const pdf = await page.pdf();
    check(pdf.length > 5000, 'a page of it', pdf.length);
    await page.leave();
  },
};

async function answers() {
  at('answers');
  for (const path of ['', 'app/status', 'app/page.css', 'app/page.js', 'app/recorder.js', 'app/icon.svg']) {
    const first = await fetch(base + path);
    const tag = first.headers.get('etag');
    const policy = first.headers.get('content-security-policy') || '';
    check(first.ok && tag, `${path}: entity tag`, tag);
    check(policy.includes("default-src 'self'") && !policy.includes('unsafe'), `${path}: policy`, policy);
    const second = await fetch(base + path, {headers: {'If-None-Match': tag}});
    equal(second.status, 304, `${path}: not sent twice`);
  }
}

// LOOK FEATURE..: "light", "dark-360", "all"; all features if none is named.
const [wanted = 'all', ...only] = process.argv.slice(2);
const looks = [];
for (const colorScheme of ['light', 'dark']) {
  for (const viewport of [{width: 1280, height: 800}, {width: 360, height: 740}]) {
    const isWanted = wanted === 'all' || `${colorScheme}-${viewport.width}`.startsWith(wanted);
    if (isWanted) looks.push({colorScheme, viewport, hasTouch: viewport.width === 360});
  }
}
const browser = await launch();
try {
  await answers();
  for (const look of looks) {
    for (const [name, feature] of Object.entries(features)) {
      if (only.length && !only.includes(name)) continue;
      at(`${name}, ${look.colorScheme}, ${look.viewport.width}`);
      await tell({reset: true});
      try {
        await feature(browser, look);
      } catch (error) {
        check(false, error.stack.split('\n').slice(0, 6).join('\n'));
        if (process.env.PAGE_PICTURES) writeFileSync(`${process.env.PAGE_PICTURES}/${name}.txt`, error.stack);
      }
    }
  }
} finally {
  await browser.close();
}
process.exit(finish());
