// SPDX-License-Identifier: Apache-2.0
// Sounds: files and what the microphone records, sent one after the other; their texts with times, and subtitles of
// them.

const RATE = 16000; // of what the models hear
const LONGEST_RECORDING = 20 * 60; // seconds, which the browser keeps in memory
const LAST_PIECE = 5000; // milliseconds that the end of a recording is waited for
const MOST_DECODED = 64 << 20; // bytes of a file that the browser decodes where the server cannot

const speech = {
  list: [], models: [], limit: 0, isWorking: false, isStarted: false, recording: null, n: 0,
};

function startSpeech(settings) {
  speech.models = Array.isArray(settings.speechModels) ? settings.speechModels.map(String) : [];
  speech.limit = settings.soundLimit > 0 ? settings.soundLimit : Infinity;
  by('speech').hidden = !speech.models.length;
  for (const part of document.querySelectorAll('.texts, .languages')) {
    part.hidden = !view.languages.size && speech.models.length > 0;
  }
  by('sound-model').replaceChildren(...speech.models.map(name => make('option', {value: name}, name)));
  by('sound-model').hidden = speech.models.length < 2;
  const canRecord = Boolean(navigator.mediaDevices?.getUserMedia && window.AudioWorkletNode);
  by('record').hidden = !canRecord;
  by('no-microphone').hidden = canRecord;
  if (by('speech').hidden || speech.isStarted) return;
  speech.isStarted = true;
  by('choose-sound').addEventListener('click', () => by('sound-picker').click());
  by('sound-picker').addEventListener('change', () => {
    addSounds(by('sound-picker').files);
    by('sound-picker').value = '';
  });
  by('record').addEventListener('click', () => (speech.recording ? stopRecording() : startRecording()));
}

const isSound = file => speech.models.length > 0 && /^(audio|video)\//.test(file.type);

/* ---- The microphone ---- */

// RIFF, whole numbers of 16 bits: what every server reads.
function wavOf(samples, rate) {
  const data = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  const words = {0: 'RIFF', 8: 'WAVE', 12: 'fmt ', 36: 'data'};
  for (const [at, word] of Object.entries(words)) {
    for (let i = 0; i < 4; i++) data.setUint8(Number(at) + i, word.charCodeAt(i));
  }
  data.setUint32(4, 36 + 2 * samples.length, true);
  data.setUint32(16, 16, true); // bytes of the format
  data.setUint16(20, 1, true); // whole numbers
  data.setUint16(22, 1, true); // channels
  data.setUint32(24, rate, true);
  data.setUint32(28, 2 * rate, true);
  data.setUint16(32, 2, true);
  data.setUint16(34, 16, true);
  data.setUint32(40, 2 * samples.length, true);
  for (let i = 0; i < samples.length; i++) {
    data.setInt16(44 + 2 * i, Math.max(-32768, Math.min(32767, Math.round(32768 * samples[i]))), true);
  }
  return data.buffer;
}

// A sound that the browser can decode, as WAV at the models' rate: its decoder resamples as it should.
async function asWav(bytes) {
  const buffer = await new OfflineAudioContext(1, 1, RATE).decodeAudioData(bytes);
  const mean = new Float32Array(buffer.length);
  for (let channel = 0; channel < buffer.numberOfChannels; channel++) {
    const samples = buffer.getChannelData(channel);
    for (let i = 0; i < mean.length; i++) mean[i] += samples[i] / buffer.numberOfChannels;
  }
  return wavOf(mean, RATE);
}

async function startRecording() {
  const recording = {
    pieces: [], seconds: 0, timer: 0, stream: null, context: null, node: null, isStopped: false, ended: () => {},
  };
  speech.recording = recording;
  by('record').disabled = true;
  try {
    recording.stream = await navigator.mediaDevices.getUserMedia({audio: true});
    recording.context = new AudioContext();
    await recording.context.audioWorklet.addModule('app/recorder.js');
    const node = new AudioWorkletNode(recording.context, 'recorder');
    recording.node = node;
    node.port.onmessage = ({data}) => {
      if (!data) {
        recording.ended();
        return;
      }
      recording.pieces.push(data);
      recording.seconds += data.length / recording.context.sampleRate;
      if (recording.seconds >= LONGEST_RECORDING && !recording.isStopped) stopRecording();
    };
    recording.context.createMediaStreamSource(recording.stream).connect(node);
    node.connect(recording.context.destination); // silence, without which some browsers compute nothing
    recording.timer = setInterval(drawRecording, 200);
    announce(say('recording'));
  } catch (error) {
    endRecording(recording);
    by('record-state').textContent = say('microphoneRefused', {message: error.message || error.name});
    announce(by('record-state').textContent);
    return;
  } finally {
    by('record').disabled = false;
  }
  drawRecording();
}

function endRecording(recording) {
  recording.isStopped = true;
  clearInterval(recording.timer);
  for (const track of recording.stream?.getTracks() || []) track.stop();
  recording.context?.close();
  speech.recording = null;
  drawRecording();
}

// What was said since the last piece. A browser that computes no sound any more has none.
const lastPiece = recording => new Promise(resolve => {
  recording.ended = resolve;
  setTimeout(resolve, recording.context.state === 'running' ? LAST_PIECE : 0);
  recording.node.port.postMessage('end');
});

async function stopRecording() {
  const recording = speech.recording;
  const rate = recording.context.sampleRate;
  if (recording.isStopped) return;
  recording.isStopped = true;
  await lastPiece(recording);
  endRecording(recording);
  const samples = new Float32Array(recording.pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of recording.pieces) {
    samples.set(piece, at);
    at += piece.length;
  }
  if (!samples.length) return;
  const wav = await asWav(wavOf(samples, rate));
  addSounds([new File([wav], say('recordingName', {n: ++speech.n}), {type: 'audio/wav'})]);
}

function drawRecording() {
  const isOn = Boolean(speech.recording);
  by('record').textContent = say(isOn ? 'recordStop' : 'record');
  by('record').setAttribute('aria-pressed', String(isOn));
  by('record-state').textContent = isOn ? clockOf(speech.recording.seconds) : '';
}

/* ---- From a sound to its text ---- */

function addSounds(files) {
  for (const file of files) {
    const isLarge = file.size > speech.limit * (1 << 20);
    speech.list.push({
      file, state: isLarge ? 'large' : 'waits', percent: 0, message: '', heard: null, controller: null,
      task: by('sound-task').value, model: by('sound-model').value,
    });
  }
  drawSounds();
  by('sound-list').scrollIntoView({block: 'nearest'});
  workSounds();
}

async function workSounds() {
  if (speech.isWorking) return;
  speech.isWorking = true;
  for (let next = firstSound(); next; next = firstSound()) {
    next.controller = new AbortController();
    try {
      next.heard = await patiently(next.controller.signal, () => hear(next));
      setSound(next, 'done');
    } catch (error) {
      if (error.name === 'AbortError') {
        setSound(next, 'stopped');
      } else {
        if (!(error instanceof Refusal)) throw error;
        if (error.status === 401) by('key-form').hidden = false;
        next.message = error.message;
        setSound(next, 'failed');
      }
    }
  }
  speech.isWorking = false;
}

const firstSound = () => speech.list.find(one => one.state === 'waits');

function setSound(one, state) {
  one.state = state;
  drawSounds();
  if (state === 'done') announce(`${one.file.name}: ${one.heard.text || say('soundEmpty')}`);
  else if (state !== 'sends' && state !== 'works') announce(`${one.file.name}: ${soundState(one)}`);
}

function sendSound(one, file) {
  const body = new FormData();
  const path = one.task === 'translate' ? 'v1/audio/translations' : 'v1/audio/transcriptions';
  body.append('model', one.model);
  body.append('response_format', 'verbose_json');
  body.append('file', file, 'sound');
  one.percent = 0;
  setSound(one, 'sends');
  return upload(path, body, store.get('key') ? {Authorization: `Bearer ${store.get('key')}`} : {},
    one.controller.signal, percent => {
      one.percent = percent;
      drawSounds();
    }, () => setSound(one, 'works'));
}

// What a server without the plugins that read a format cannot read, the browser may.
async function hear(one) {
  let answer;
  try {
    try {
      answer = await sendSound(one, one.file);
    } catch (error) {
      if (error.status !== 415 || one.file.size > MOST_DECODED) throw error;
      const wav = await one.file.arrayBuffer().then(asWav).catch(() => null);
      if (!wav) throw error;
      answer = await sendSound(one, new Blob([wav], {type: 'audio/wav'}));
    }
  } catch (error) {
    // It would take as long again.
    throw error.status === 504 ? new Refusal(500, error.message) : error;
  }
  try {
    return heardOf(JSON.parse(answer));
  } catch { // of something between, perhaps; the sounds behind this one go on
    throw new Refusal(500, 'verbose_json');
  }
}

function heardOf(answer) {
  if (typeof answer.text !== 'string') throw new TypeError('text');
  const segments = Array.isArray(answer.segments) ? answer.segments : [];
  return {
    text: answer.text,
    segments: segments.map(one => (
      {start: Number(one.start), end: Number(one.end), text: String(one.text).trim().replace(/[\r\n]/g, ' ')}))
      .filter(one => one.text),
  };
}

/* ---- Times and subtitles ---- */

const two = value => String(value).padStart(2, '0');

// 1:02:03, without hours where there are none.
function clockOf(seconds) {
  const whole = Math.floor(seconds);
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

function subtitleTime(seconds, point, hasHours) {
  const ms = Math.round(seconds * 1000);
  const hours = Math.floor(ms / 3600000);
  const rest = `${two(Math.floor(ms / 60000) % 60)}:${two(Math.floor(ms / 1000) % 60)}${point}` +
    String(ms % 1000).padStart(3, '0');
  return hours || hasHours ? `${two(hours)}:${rest}` : rest;
}

const SIGNS = {'&': '&amp;', '<': '&lt;', '>': '&gt;'}; // of WebVTT; SubRip has no other writing for an arrow

const FORMS = {
  txt: heard => heard.segments.map(one => `${one.text}\n`).join(''),
  srt: heard => heard.segments.map((one, i) => `${i + 1}\n${subtitleTime(one.start, ',', true)} --> ` +
    `${subtitleTime(one.end, ',', true)}\n${one.text.replace(/-{2,}>/g, '->')}\n\n`).join(''),
  vtt: heard => `WEBVTT\n\n${heard.segments.map(one => `${subtitleTime(one.start, '.', false)} --> ` +
    `${subtitleTime(one.end, '.', false)}\n${one.text.replace(/[&<>]/g, sign => SIGNS[sign])}\n\n`).join('')}`,
};

/* ---- The list ---- */

function soundState(one) {
  switch (one.state) {
    case 'waits': return say('fileWaits');
    case 'sends': return say('fileSends', {percent: one.percent});
    case 'works': return say('soundWorks');
    case 'done': return one.heard.text ? '' : say('soundEmpty');
    case 'stopped': return say('fileStopped');
    case 'large': return say('soundLarge', {limit: number(speech.limit)});
    default: return say('refused', {message: one.message});
  }
}

// A link that saves what the page has in itself.
function saveLink(one, form) {
  const name = one.file.name.replace(/(\.[^.]*)?$/, `.${form}`);
  const link = make('a', {href: '#', download: name, class: 'save'}, form.toUpperCase());
  label(link, 'fileSave', {name});
  link.addEventListener('click', () => {
    const address = URL.createObjectURL(new Blob([FORMS[form](one.heard)], {type: 'text/plain;charset=utf-8'}));
    link.href = address;
    setTimeout(() => {
      URL.revokeObjectURL(address);
      link.href = '#';
    }, 10000);
  });
  return link;
}

function drawHeard(one) {
  const rows = one.heard.segments.map(part => make('li', {},
    make('time', {datetime: `PT${part.start.toFixed(2)}S`}, clockOf(part.start)),
    make('span', {dir: 'auto'}, part.text)));
  // A long list is scrolled, by keys, too.
  const list = make('ol', {class: 'segments', tabindex: '0', 'aria-label': one.file.name}, ...rows);
  const tools = make('div', {class: 'heard-tools'}, ...Object.keys(FORMS).map(form => saveLink(one, form)));
  const copied = make('button', {type: 'button'}, say('soundCopy'));
  copied.addEventListener('click', async () => {
    announce(say(await copyText(one.heard.text) ? 'copied' : 'notCopied'));
  });
  tools.append(copied);
  if (view.languages.size) {
    const use = make('button', {type: 'button'}, say('soundTranslate'));
    use.addEventListener('click', () => {
      by('source-text').value = one.heard.text;
      changed(0);
      by('source-text').focus();
    });
    tools.append(use);
  }
  return [list, tools];
}

function drawSound(one) {
  const {name} = one.file;
  const row = make('li', {'data-state': one.state}, make('span', {class: 'name'}, name));
  const isOpen = ['waits', 'sends', 'works'].includes(one.state);
  if (one.state === 'sends' || one.state === 'works') {
    const value = one.state === 'sends' && one.percent < 100 ? one.percent : null;
    row.append(make('progress', {max: 100, value, 'aria-label': name}));
  }
  row.append(make('span', {class: 'quiet state'}, soundState(one)));
  if (one.state === 'failed' || one.state === 'stopped') {
    row.append(fileButton('fileAgain', one, AGAIN, () => {
      setSound(one, 'waits');
      workSounds();
    }));
  }
  row.append(fileButton(isOpen ? 'fileStop' : 'fileRemove', one, CROSS, () => {
    if (one.state === 'waits') setSound(one, 'stopped');
    else if (isOpen) one.controller.abort();
    else speech.list = speech.list.filter(other => other !== one);
    drawSounds();
  }));
  if (one.state === 'done' && one.heard.text) row.append(...drawHeard(one));
  return row;
}

function drawSounds() {
  drawRows(by('sound-list'), speech.list, one => [one.file.name, one.state, one.percent, face.language].join('\n'),
    drawSound);
}
