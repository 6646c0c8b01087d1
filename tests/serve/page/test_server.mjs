// SPDX-License-Identifier: Apache-2.0
// The page with the server and a model that it is made for: what the mock server imitates is there.
import {
  at, axe, check, chosen, equal, finish, fox, isShown, launch, marks, recorded, textOf, translation, until, visit, word,
} from './browser.mjs';

const SOURCE = 'The museum is worth visiting.\nI read a book.';
const browser = await launch();
at('server');
try {
  const page = await visit(browser, {viewport: {width: 1280, height: 800}});
  await page.fill('#source-text', SOURCE);
  const lines = async () => (await translation(page)).split('\n');
  const isDone = () => page.evaluate(() => document.querySelectorAll('.sentence:has(.word)').length);
  await until(page, 'translated', isDone, 2);
  const [first, second] = await lines();
  check(first.startsWith('Le musée') && second.includes('livre'), 'French', [first, second]);
  equal(await chosen(page, 'source'), 'English (detected)', 'detected');
  await word(page, 'musée').hover();
  equal(await marks(page), ['museum'], 'where a word comes from');
  await word(page, 'livre').hover();
  equal(await marks(page), ['book'], 'in the second line');
  await word(page, 'musée').click();
  await until(page, 'other words', async () => await page.locator('#choice-list [role]').count() >= 3, true);
  const other = page.locator('#choice-list [aria-checked=false]').first();
  const going = await other.textContent();
  await other.click();
  equal(await lines(), [`Le ${going}`, second], 'the sentence goes on');
  await until(page, 'the chosen word is lit, too', async () => (await marks(page)).length > 0, true);
  await page.click('#undo');
  await until(page, 'taken back', lines, [first, second]);
  await page.setInputFiles('#picker', {name: 'a.txt', mimeType: 'text/plain', buffer: Buffer.from('I read a book.\n')});
  await page.locator('#file-list a').waitFor();
  const address = await page.locator('#file-list a').getAttribute('href');
  check((await (await page.request.get(new URL(address, page.url()).href)).text()).includes('livre'), 'a document');
  // What it hears of a file, and that it hears the microphone; a random model writes anything.
  await page.setInputFiles('#sound-picker', fox);
  await until(page, 'a sound', () => page.locator('#sound-list .segments span').allTextContents(), ['c| yv8', ']2^Jp']);
  await page.click('#record');
  await recorded(page, 2);
  await page.click('#record');
  await page.locator('#sound-list li[data-state=done]').nth(1).waitFor();
  check(!await isShown(page, 'notice'), 'no complaint', await textOf(page, 'notice-text'));
  await axe(page, 'with the server');
  await page.open('app/status');
  await until(page, 'its state', () => textOf(page, 'health'), 'The server is ready');
  await until(page, 'its model is open', () => page.evaluate(() =>
    document.getElementById('models').rows[1]?.cells[1].textContent), 'open');
  await until(page, 'and its device works', () => page.evaluate(() =>
    [...document.getElementById('devices').rows[1]?.cells || []].map(cell => cell.textContent).slice(0, 2).join(' ')),
  'cpu:0 (CPU) works');
  await page.leave();
} catch (error) {
  check(false, error.stack);
} finally {
  await browser.close();
}
process.exit(finish());
