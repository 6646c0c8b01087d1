#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""random_t5gemma.py TESSERA DEVICE FIRST COUNT

Writes folders of T5Gemma of random sizes, one for each of the seeds FIRST .. FIRST + COUNT - 1, with what the published
description says that they compute: hidden states, attention, logits and searches, in NumPy in double precision, without
a cache. `TESSERA golden` then compares the library's results on DEVICE, of the first also those of the folder that
`TESSERA convert` makes of it, and on the CPU of one that `TESSERA train` makes in a step which changes nothing.
Training it goes on, and the loss has to fall. Exit code 77 where the device does not exist. The folder of a seed that
failed is left, and named.
"""
import csv
import json
import math
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

SKIPPED = 77
PAD, EOS, BOS = 0, 1, 2
VOCABULARY = 45  # of the model that is trained
LENGTH = 14  # of an output, with its first token
JITTER = 2e-5  # of a weight; searches that such a change turns round are not compared
SEARCHES = {
    'greedy': {'num_beams': 1, 'max_length': LENGTH},
    'beam': {'num_beams': 3, 'max_length': LENGTH, 'early_stopping': True, 'length_penalty': 1.0},
}


# ---- a random model --------------------------------------------------------------------------------------------------


class Model:
    """The configuration and the weights, by the names that they have in a folder. vocabulary: 0: a drawn one."""

    def __init__(self, seed, vocabulary=0):
        self.draw = draw = np.random.default_rng(seed)
        self.d = {side: int(draw.choice([16, 24, 36])) for side in ('encoder', 'decoder')}
        self.size = int(draw.choice([8, 12, 16]))
        self.scalar = int(draw.choice([self.size, 24]))
        self.window = int(draw.choice([2, 3, 5, 100]))
        self.cap = [None, 1.0, 5.0][draw.integers(3)]
        self.logits_cap = [None, 4.0, 30.0][draw.integers(3)]
        self.theta = float(draw.choice([10.0, 10000.0]))
        self.tied = bool(draw.integers(2))
        self.vocabulary = {'encoder': int(draw.integers(40, 70)), 'decoder': int(draw.integers(40, 70))}
        if vocabulary:
            self.vocabulary = dict.fromkeys(self.vocabulary, vocabulary)
        self.period = int(draw.choice([2, 2, 3]))
        self.heads = {}
        self.layers = {}
        self.weights = {}
        for side in ('encoder', 'decoder'):
            self.heads[side] = [(4, 2), (3, 1), (2, 2), (6, 3)][draw.integers(4)]
            self.layers[side] = int(draw.integers(2, 5))
            self.make_side(side)
        if not self.tied:
            self.matrix('lm_head.out_proj.weight', self.vocabulary['decoder'], self.d['decoder'])

    def matrix(self, name, rows, columns, scale=1.0):
        values = self.draw.normal(size=(rows, columns)) * scale / math.sqrt(columns)
        self.weights[name] = values.astype(np.float32)

    def gain(self, name, d):
        self.weights[name] = (0.2 * self.draw.normal(size=d)).astype(np.float32)

    def make_side(self, side):
        d, (heads, shared) = self.d[side], self.heads[side]
        d_ff = int(self.draw.choice([20, 48]))
        self.matrix('model.%s.embed_tokens.weight' % side, self.vocabulary[side], d)
        self.gain('model.%s.norm.weight' % side, d)
        for i in range(self.layers[side]):
            prefix = 'model.%s.layers.%d.' % (side, i)
            parts = ['self_attn'] + (['cross_attn'] if side == 'decoder' else [])
            for part in parts:
                seen = self.d['encoder'] if part == 'cross_attn' else d
                for name, n, width in (('q', heads, d), ('k', shared, seen), ('v', shared, seen)):
                    self.matrix('%s%s.%s_proj.weight' % (prefix, part, name), n * self.size, width, 1.5)
                self.matrix('%s%s.o_proj.weight' % (prefix, part), d, heads * self.size)
            for part in parts + ['feedforward']:
                self.gain('%spre_%s_layernorm.weight' % (prefix, part), d)
                self.gain('%spost_%s_layernorm.weight' % (prefix, part), d)
            self.matrix(prefix + 'mlp.gate_proj.weight', d_ff, d)
            self.matrix(prefix + 'mlp.up_proj.weight', d_ff, d)
            self.matrix(prefix + 'mlp.down_proj.weight', d, d_ff)

    def sees_all(self, layer):
        return (layer + 1) % self.period == 0

    def side_config(self, side):
        heads, shared = self.heads[side]
        config = {
            'hidden_size': self.d[side], 'num_hidden_layers': self.layers[side], 'num_attention_heads': heads,
            'num_key_value_heads': shared, 'head_dim': self.size, 'vocab_size': self.vocabulary[side],
            'intermediate_size': self.weights['model.%s.layers.0.mlp.up_proj.weight' % side].shape[0],
            'query_pre_attn_scalar': self.scalar, 'sliding_window': self.window, 'rope_theta': self.theta,
            'attn_logit_softcapping': self.cap, 'final_logit_softcapping': self.logits_cap, 'rms_norm_eps': 1e-6,
            'hidden_activation': 'gelu_pytorch_tanh', 'max_position_embeddings': 64, 'attention_bias': False,
        }
        if side == 'decoder' and self.d['encoder'] != self.d['decoder']:
            config['cross_attention_hidden_size'] = self.d['encoder']
        if self.period != 2:
            config['layer_types'] = ['full_attention' if self.sees_all(i) else 'sliding_attention'
                                     for i in range(self.layers[side])]
        return config

    def write(self, folder):
        config = {'model_type': 't5gemma', 'architectures': ['T5GemmaForConditionalGeneration'],
                  'encoder': self.side_config('encoder'), 'decoder': self.side_config('decoder'),
                  'tie_word_embeddings': self.tied, 'is_encoder_decoder': True, 'eos_token_id': [EOS],
                  'pad_token_id': PAD, 'bos_token_id': BOS, 'decoder_start_token_id': BOS}
        (folder / 'config.json').write_text(json.dumps(config), encoding='utf-8')
        write_tensors(folder / 'model.safetensors', self.weights)


def write_tensors(path, tensors):
    header, parts, at = {}, [], 0
    for name, values in tensors.items():
        data = values.tobytes()
        kind = 'I32' if values.dtype == np.int32 else 'F32'
        header[name] = {'dtype': kind, 'shape': list(values.shape), 'data_offsets': [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    path.write_bytes(struct.pack('<Q', len(text)) + text + b''.join(parts))


# ---- what it computes ------------------------------------------------------------------------------------------------


def softcap(x, cap):
    return x if cap is None else cap * np.tanh(x / cap)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def log_softmax(x):
    x = x - x.max()
    return x - math.log(np.exp(x).sum())


class Computation:
    """One sentence at a time: states are [tokens, d]."""

    def __init__(self, model, jitter=0.0):
        self.m = model
        draw = np.random.default_rng(7)
        self.w = {name: v.astype(np.float64) * (1 + jitter * draw.uniform(-1, 1, v.shape))
                  for name, v in model.weights.items()}

    def norm(self, x, name):
        root = np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)
        return x / root * (1 + self.w[name])

    def rotate(self, x):
        """Pairs are i and i + size / 2; x [tokens, heads, size]."""
        half = self.m.size // 2
        turns = self.m.theta ** (-np.arange(half) / half)
        angles = np.arange(x.shape[0])[:, None, None] * turns
        cos, sin = np.cos(angles), np.sin(angles)
        first, second = x[..., :half], x[..., half:]
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], -1)

    def attention(self, prefix, side, x, memory, visible, rotary):
        """visible [queries, keys]. Returns the result and the weights [heads, queries, keys]."""
        heads, shared = self.m.heads[side]
        q = (x @ self.w[prefix + 'q_proj.weight'].T).reshape(len(x), heads, -1)
        k = (memory @ self.w[prefix + 'k_proj.weight'].T).reshape(len(memory), shared, -1)
        v = (memory @ self.w[prefix + 'v_proj.weight'].T).reshape(len(memory), shared, -1)
        if rotary:
            q, k = self.rotate(q), self.rotate(k)
        out, weights = [], []
        for h in range(heads):
            group = h * shared // heads
            scores = softcap(q[:, h] @ k[:, group].T / math.sqrt(self.m.scalar), self.m.cap)
            scores = np.where(visible, scores, -np.inf)
            e = np.exp(scores - scores.max(-1, keepdims=True))
            weights.append(e / e.sum(-1, keepdims=True))
            out.append(weights[-1] @ v[:, group])
        return np.concatenate(out, -1) @ self.w[prefix + 'o_proj.weight'].T, np.stack(weights)

    def sublayer(self, x, prefix, name, function):
        y = function(self.norm(x, '%spre_%s_layernorm.weight' % (prefix, name)))
        return x + self.norm(y, '%spost_%s_layernorm.weight' % (prefix, name))

    def mlp(self, prefix, x):
        gate = gelu(x @ self.w[prefix + 'mlp.gate_proj.weight'].T)
        return (gate * (x @ self.w[prefix + 'mlp.up_proj.weight'].T)) @ self.w[prefix + 'mlp.down_proj.weight'].T

    def stack(self, side, ids, encoded=None):
        """Returns the hidden states, and the weights of self- and cross-attention, of all layers."""
        x = self.w['model.%s.embed_tokens.weight' % side][ids] * math.sqrt(self.m.d[side])
        distance = np.arange(len(ids))[:, None] - np.arange(len(ids))
        hidden, own, cross = [x], [], []

        def look(prefix, part, to, memory, visible, kept):
            y, weights = self.attention(prefix + part + '.', side, to, to if memory is None else memory, visible,
                                        memory is None)
            kept.append(weights)
            return y

        for i in range(self.m.layers[side]):
            prefix = 'model.%s.layers.%d.' % (side, i)
            visible = distance >= 0 if side == 'decoder' else np.ones_like(distance, bool)
            if not self.m.sees_all(i):
                visible = visible & (abs(distance) < self.m.window)
            x = self.sublayer(x, prefix, 'self_attn', lambda z: look(prefix, 'self_attn', z, None, visible, own))
            if side == 'decoder':
                everything = np.ones((len(ids), len(encoded)), bool)
                x = self.sublayer(x, prefix, 'cross_attn',
                                  lambda z: look(prefix, 'cross_attn', z, encoded, everything, cross))
            x = self.sublayer(x, prefix, 'feedforward', lambda z: self.mlp(prefix, z))
            hidden.append(x)
        hidden[-1] = self.norm(x, 'model.%s.norm.weight' % side)
        return hidden, own, cross

    def logits(self, states):
        table = self.w['model.decoder.embed_tokens.weight' if self.m.tied else 'lm_head.out_proj.weight']
        return softcap(states @ table.T, self.m.logits_cap)

    def next(self, encoded, ids):
        return log_softmax(self.logits(self.stack('decoder', np.array(ids), encoded)[0][-1][-1]))


def greedy(c, encoded):
    ids = [BOS]
    while len(ids) < LENGTH and (len(ids) == 1 or ids[-1] != EOS):
        ids.append(int(c.next(encoded, ids).argmax()))
    return ids, None


def beam(c, encoded, n=3):
    """Ends with as many whole hypotheses as there are beams; the best by the mean log-probability of its tokens."""
    beams, done = [([BOS], 0.0)], []
    while len(beams[0][0]) < LENGTH and len(done) < n:
        found = []
        for ids, total in beams:
            scores = total + c.next(encoded, ids)
            found += [(scores[t], ids + [t]) for t in range(len(scores))]
        found.sort(key=lambda pair: -pair[0])
        beams = []
        for rank, (total, ids) in enumerate(found[:2 * n]):
            if ids[-1] != EOS:
                beams.append((ids, total))
            elif rank < n:
                done.append((total / (len(ids) - 1), ids))
        beams = beams[:n]
    if len(done) < n:
        done += [(total / (len(ids) - 1), ids) for ids, total in beams]
    score, ids = max(done, key=lambda pair: pair[0])
    return [int(i) for i in ids], float(score)


# ---- recordings ------------------------------------------------------------------------------------------------------


def padded(rows, width, shape=()):
    """Rows of any lengths, with zeros behind them."""
    out = np.zeros((len(rows), width) + shape, np.asarray(rows[0]).dtype)
    for i, row in enumerate(rows):
        out[i, :len(row)] = row
    return out


def padded_weights(rows, queries, keys):
    out = np.zeros((len(rows), rows[0].shape[0], queries, keys))
    for i, row in enumerate(rows):
        out[i, :, :row.shape[1], :row.shape[2]] = row
    return out


def record(model, folder):
    """Writes golden.json and golden.safetensors. Returns how many searches are sure enough to be compared."""
    draw = model.draw
    exact, moved = Computation(model), Computation(model, JITTER)
    lengths, targets = draw.integers(1, 13, 3), draw.integers(1, 12, 3)
    sources = [draw.integers(3, model.vocabulary['encoder'], n) for n in lengths]
    starts = [np.concatenate([[BOS], draw.integers(3, model.vocabulary['decoder'], n)]) for n in targets]
    encoded = [exact.stack('encoder', s) for s in sources]
    decoded = [exact.stack('decoder', t, e[0][-1]) for t, e in zip(starts, encoded)]
    n_source, n_target = max(lengths), max(targets) + 1
    tensors = {
        'input_ids': padded(sources, n_source), 'decoder_input_ids': padded(starts, n_target),
        'attention_mask': padded([np.ones(len(s), int) for s in sources], n_source),
        'decoder_attention_mask': padded([np.ones(len(t), int) for t in starts], n_target),
        'encoder_output': padded([e[0][-1] for e in encoded], n_source, (model.d['encoder'],)),
        'logits': padded([exact.logits(x[0][-1]) for x in decoded], n_target, (model.vocabulary['decoder'],)),
    }
    for i in range(model.layers['encoder'] + 1):
        tensors['encoder_hidden.%d' % i] = padded([e[0][i] for e in encoded], n_source, (model.d['encoder'],))
    for i in range(model.layers['decoder'] + 1):
        tensors['decoder_hidden.%d' % i] = padded([x[0][i] for x in decoded], n_target, (model.d['decoder'],))
    for i in range(model.layers['encoder']):
        tensors['encoder_attn.%d' % i] = padded_weights([e[1][i] for e in encoded], n_source, n_source)
    for i in range(model.layers['decoder']):
        tensors['decoder_attn.%d' % i] = padded_weights([x[1][i] for x in decoded], n_target, n_target)
        tensors['cross_attn.%d' % i] = padded_weights([x[2][i] for x in decoded], n_target, n_source)
    generated = []
    for name, search in (('greedy', greedy), ('beam', beam)):
        found = [search(exact, e[0][-1]) for e in encoded]
        others = [search(moved, moved.stack('encoder', s)[0][-1]) for s in sources]
        if [f[0] for f in found] == [o[0] for o in others]:
            entry = {'name': name, 'args': SEARCHES[name], 'sequences': [f[0] for f in found]}
            if name == 'beam':
                entry['sequences_scores'] = [f[1] for f in found]
            generated.append(entry)
    golden = {'case': folder.name, 'family': 't5gemma', 'generate': generated}
    (folder / 'golden.json').write_text(json.dumps(golden), encoding='utf-8')
    write_tensors(folder / 'golden.safetensors',
                  {n: v.astype(np.int32 if v.dtype.kind == 'i' else np.float32) for n, v in tensors.items()})
    return len(generated)


def replay(tessera, device, folder, recorded):
    answer = subprocess.run([tessera, 'golden', str(folder), '--recorded', str(recorded), '--device', device,
                             '--tolerance', '2e-5', '--attention', '2e-5'], capture_output=True, text=True, check=False)
    print(answer.stdout + answer.stderr, flush=True)
    return answer.returncode == 0


def train(tessera, device, folder, made, steps, rate):
    """Trains the folder's model on a toy task. Returns the losses."""
    subprocess.run([tessera, 'train', '--task', 'copy', '--init', str(folder), '--vocab-size', str(VOCABULARY),
                    '--min-length', '5', '--max-length', '9', '--steps', str(steps), '--rate', str(rate), '--schedule',
                    'constant', '--warmup', '1', '--average', '0', '--log-every', '1', '--device', device, '--out',
                    str(made)], check=True, stdout=subprocess.DEVNULL)
    with open(made / 'train' / 'log.csv', encoding='utf-8') as file:
        rows = list(csv.DictReader(file))
    return [float(row['loss']) for row in rows if row['loss']]


def check_training(tessera, device, seed):
    """A step that changes nothing leaves what the model computes; others bring the loss down."""
    folder = Path(tempfile.mkdtemp(prefix='t5gemma-trained-'))
    model = Model(seed, VOCABULARY)
    model.write(folder)
    record(model, folder)
    print('trained: ' + describe(model), flush=True)
    train(tessera, device, folder, folder / 'same', 1, 1e-20)
    (folder / 'same' / 'generation_config.json').unlink() # which says never to write <pad>
    passed = replay(tessera, device, folder / 'same', folder)
    losses = train(tessera, device, folder, folder / 'on', 80, 0.01)
    print('losses from %.3g to %.3g' % (losses[0], losses[-1]), flush=True)
    if passed and losses[-1] < 0.7 * losses[0]:
        shutil.rmtree(folder)
        return True
    return False


def describe(model):
    return 'd %s, heads %s of %d, layers %s, window %d but every %d, caps %s and %s, theta %g%s' % (
        model.d, model.heads, model.size, model.layers, model.window, model.period, model.cap, model.logits_cap,
        model.theta, ', tied' if model.tied else '')


def main():
    tessera, device, first, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    names = subprocess.run([tessera, 'devices', '--names'], capture_output=True, text=True, check=False).stdout.split()
    if (device if ':' in device else device + ':0') not in names:
        print('skipped: there is no device ' + device)
        return SKIPPED
    searches = failures = 0
    for seed in range(first, first + count):
        folder = Path(tempfile.mkdtemp(prefix='t5gemma-%d-' % seed))
        model = Model(seed)
        model.write(folder)
        searches += record(model, folder)
        print('seed %d, %s' % (seed, describe(model)), flush=True)
        passed = replay(tessera, device, folder, folder)
        if passed and seed == first:
            made = folder / 'converted'
            subprocess.run([tessera, 'convert', str(folder), '--precision', 'f32', '--out', str(made)], check=True)
            passed = replay(tessera, device, made, folder)
        if passed:
            shutil.rmtree(folder)
        failures += not passed
    if device == 'cpu': # the test `training` has the gradients on every device
        failures += not check_training(tessera, device, first)
    if searches < count:
        print('only %d searches are sure enough to be compared' % searches)
        failures += 1
    return failures > 0


if __name__ == '__main__':
    sys.exit(main())
