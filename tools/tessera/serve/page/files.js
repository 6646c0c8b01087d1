// SPDX-License-Identifier: Apache-2.0
// Documents: dropped or chosen, sent one after the other, saved when they are translated.

const documents = {list: [], kinds: [], isWorking: false, isStarted: false, isDropStarted: false};

function startFiles(settings) {
  const kinds = Array.isArray(settings.supportedFilesFormat) ? settings.supportedFilesFormat : [];
  documents.kinds = kinds.map(kind => String(kind).toLowerCase());
  by('files').hidden = !settings.filesTranslation || !kinds.length;
  if (by('files').hidden || documents.isStarted) return;
  documents.isStarted = true;
  by('kinds').textContent = documents.kinds.join('  ');
  by('picker').accept = documents.kinds.join(',');
  by('choose').addEventListener('click', () => by('picker').click());
  by('picker').addEventListener('change', () => {
    addFiles(by('picker').files);
    by('picker').value = '';
  });
}

// Files that are dropped anywhere: sounds are heard, others are translated.
function startDrop() {
  if (documents.isDropStarted || (by('files').hidden && by('speech').hidden)) return;
  documents.isDropStarted = true;
  let depth = 0; // enter and leave are told of every element below
  const hasFiles = event => [...event.dataTransfer?.types || []].includes('Files');
  const mark = () => document.body.classList.toggle('dropping', depth > 0);
  document.addEventListener('dragenter', event => {
    if (hasFiles(event)) depth++;
    mark();
  });
  document.addEventListener('dragleave', event => {
    if (hasFiles(event)) depth = Math.max(0, depth - 1);
    mark();
  });
  document.addEventListener('dragover', event => {
    if (hasFiles(event)) event.preventDefault();
  });
  document.addEventListener('drop', event => {
    depth = 0;
    mark();
    if (!hasFiles(event)) return;
    event.preventDefault();
    const files = [...event.dataTransfer.files];
    const sounds = files.filter(file => by('files').hidden || isSound(file));
    const others = files.filter(file => !sounds.includes(file));
    if (sounds.length) addSounds(sounds);
    if (others.length) addFiles(others);
  });
}

const kindOf = name => (name.includes('.') ? name.slice(name.lastIndexOf('.')).toLowerCase() : '');

function addFiles(files) {
  for (const file of files) {
    const isKnown = documents.kinds.includes(kindOf(file.name));
    documents.list.push({
      file, state: isKnown ? 'waits' : 'kind', percent: 0, message: '', address: '', source: view.source,
      target: view.target, controller: null,
    });
  }
  drawFiles();
  by('file-list').scrollIntoView({block: 'nearest'});
  workFiles();
}

async function workFiles() {
  if (documents.isWorking) return;
  documents.isWorking = true;
  for (let next = firstWaiting(); next; next = firstWaiting()) {
    next.controller = new AbortController();
    try {
      next.address = await patiently(next.controller.signal, () => send(next));
      setFile(next, 'done');
    } catch (error) {
      if (error.name === 'AbortError') {
        setFile(next, 'stopped');
      } else {
        next.message = error.message;
        setFile(next, 'failed');
        if (!(error instanceof Refusal)) throw error;
      }
    }
  }
  documents.isWorking = false;
}

const firstWaiting = () => documents.list.find(one => one.state === 'waits');

function setFile(one, state) {
  one.state = state;
  drawFiles();
  if (state !== 'sends' && state !== 'works') announce(`${one.file.name}: ${stateText(one)}`);
}

async function send(one) {
  const body = new FormData();
  body.append('file', one.file);
  body.append('source', one.source);
  body.append('target', one.target);
  if (store.get('key')) body.append('api_key', store.get('key'));
  one.percent = 0;
  setFile(one, 'sends');
  const answer = await upload('translate_file', body, {}, one.controller.signal, percent => {
    one.percent = percent;
    drawFiles();
  }, () => setFile(one, 'works'));
  try {
    return addressOfFile(JSON.parse(answer).translatedFileUrl);
  } catch {
    throw new Refusal(500, 'translatedFileUrl');
  }
}

// The server tells its own address, which a proxy before it may not have: the name is what counts.
function addressOfFile(told) {
  const name = /\/download_file\/([^/?#]+)$/.exec(told);
  if (!name) throw new Error('translatedFileUrl');
  return `download_file/${name[1]}`;
}

const savedName = one => one.file.name.replace(/(\.[^.]*)?$/, ending => `.${one.target}${ending}`);

function stateText(one) {
  switch (one.state) {
    case 'waits': return say('fileWaits');
    case 'sends': return say('fileSends', {percent: one.percent});
    case 'works': return say('fileWorks');
    case 'done': return say('fileDone');
    case 'stopped': return say('fileStopped');
    case 'kind': return say('fileKind');
    default: return say('refused', {message: one.message});
  }
}

function fileButton(key, one, path, work) {
  const button = make('button', {type: 'button', class: 'icon'}, icon(path));
  label(button, key, {name: one.file.name});
  button.addEventListener('click', work);
  return button;
}

const AGAIN = 'M19 12a7 7 0 1 1-2-5l2 2M19 4v5h-5';
const CROSS = 'M6 6l12 12M18 6 6 18';

function drawFile(one) {
  const name = one.file.name;
  const row = make('li', {'data-state': one.state}, make('span', {class: 'name'}, name));
  const isOpen = ['waits', 'sends', 'works'].includes(one.state);
  if (one.state === 'sends' || one.state === 'works') {
    // Without a value the bar only says that work goes on.
    const value = one.state === 'sends' && one.percent < 100 ? one.percent : null;
    row.append(make('progress', {max: 100, value, 'aria-label': name}));
  }
  row.append(make('span', {class: 'quiet state'}, stateText(one)));
  if (one.state === 'done') {
    const link = make('a', {href: one.address, download: savedName(one), class: 'save'}, savedName(one));
    label(link, 'fileSave', {name: savedName(one)});
    row.append(link);
  }
  if (one.state === 'failed' || one.state === 'stopped') {
    row.append(fileButton('fileAgain', one, AGAIN, () => {
      setFile(one, 'waits');
      workFiles();
    }));
  }
  row.append(fileButton(isOpen ? 'fileStop' : 'fileRemove', one, CROSS, () => {
    if (one.state === 'waits') setFile(one, 'stopped');
    else if (isOpen) one.controller.abort();
    else documents.list = documents.list.filter(other => other !== one);
    drawFiles();
  }));
  return row;
}

// Progress comes often: only rows that changed are drawn, so that focus stays where it is. `stateOf` tells all that a
// row is drawn from.
function drawRows(list, rows, stateOf, draw) {
  rows.forEach((one, i) => {
    const from = stateOf(one);
    const old = list.children[i];
    if (old && old.drawnFrom === from && old.drawnOf === one) return;
    const isFocused = old?.contains(document.activeElement);
    const row = draw(one);
    row.drawnFrom = from;
    row.drawnOf = one;
    if (old) old.replaceWith(row);
    else list.append(row);
    if (isFocused) row.querySelector('a, button')?.focus();
  });
  while (list.children.length > rows.length) list.lastElementChild.remove();
  list.hidden = !rows.length;
}

function drawFiles() {
  drawRows(by('file-list'), documents.list,
    one => [one.file.name, one.state, one.percent, face.language].join('\n'), drawFile);
}
