#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""random_ctranslate2.py COMPARE DEVICE FIRST COUNT

Writes folders of CTranslate2 of random sizes and kinds, one for each of the seeds FIRST .. FIRST + COUNT - 1, with what
the format says that they compute: encoder outputs, scores and searches, in double precision, position by position.
COMPARE, the program of ctranslate2.c, then compares the library's results on DEVICE. Exit code 77 where the device does
not exist. The folder of a seed that failed is left, and named.
"""
import json
import math
import random
import shutil
import struct
import subprocess
import sys
import tempfile
from operator import mul
from pathlib import Path

FLOAT32, INT8, INT16, INT32, FLOAT16, BFLOAT16 = range(6)
ITEM_SIZES = [4, 1, 2, 4, 2, 2]
FORMATS = ['f', 'b', 'h', 'i', 'e', 'H']
SKIPPED = 77
JITTER = 5e-5  # of a weight; results that such a change turns round are not compared
JITTER_ROUNDED = 2e-7  # the same where what is multiplied is rounded to whole numbers: no rounding may be a near thing
NEAR = 1e-3  # how near log-probabilities then stay

ACTIVATIONS = [
    lambda x: max(x, 0.0),
    lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    lambda x: x / (1 + math.exp(-x)),
    lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))),
    lambda x: x / (1 + math.exp(-1.702 * x)),
    math.tanh,
    lambda x: 1 / (1 + math.exp(-x)),
]


def as_float32(x):
    return struct.unpack('f', struct.pack('f', x))[0]


def dot(a, b):
    return sum(map(mul, a, b))


def plus(a, b):
    return [x + y for x, y in zip(a, b)]


# ---- the file --------------------------------------------------------------------------------------------------------


class Tensor:
    """What a file holds, and the values that it stands for."""

    def __init__(self, kind, shape, numbers, values):
        self.kind, self.shape, self.numbers, self.values = kind, shape, numbers, values

    def rows(self):
        n = self.shape[1]
        return [self.values[i * n:(i + 1) * n] for i in range(self.shape[0])]


def store(values, shape, kind):
    """A tensor of floating-point numbers, rounded as the type has them."""
    if kind == FLOAT32:
        numbers = [as_float32(v) for v in values]
        return Tensor(kind, shape, numbers, numbers)
    if kind == FLOAT16:
        numbers = [struct.unpack('e', struct.pack('e', v))[0] for v in values]
        return Tensor(kind, shape, numbers, numbers)
    bits = [(struct.unpack('I', struct.pack('f', v))[0] + 0x8000) >> 16 for v in values]
    return Tensor(kind, shape, bits, [struct.unpack('f', struct.pack('I', b << 16))[0] for b in bits])


class File:
    def __init__(self, version, revision, spec):
        self.version, self.revision, self.spec = version, revision, spec
        self.tensors, self.aliases = {}, {}

    def scalar(self, name, kind, value):
        self.tensors[name] = Tensor(kind, [], [value], [value])

    def text(self, name, text):
        self.tensors[name] = Tensor(INT8, [len(text)], list(text.encode()), None)

    def alias(self, name, other):
        """Files from version 3 on hold a tensor once."""
        if self.version >= 3:
            self.aliases[name] = other
            return
        for suffix in '', '_scale':
            if other + suffix in self.tensors:
                self.tensors[name + suffix] = self.tensors[other + suffix]

    def write(self, path):
        def text(s):
            return struct.pack('<H', len(s) + 1) + s.encode() + b'\0'

        out = [struct.pack('<I', self.version)]
        if self.version >= 2:
            out += [text(self.spec), struct.pack('<I', self.revision)]
        out.append(struct.pack('<I', len(self.tensors)))
        for name, t in sorted(self.tensors.items()):
            data = struct.pack('<%d%s' % (len(t.numbers), FORMATS[t.kind]), *t.numbers)
            out += [text(name), struct.pack('<B%dI' % len(t.shape), len(t.shape), *t.shape)]
            out.append(struct.pack('<BI', t.kind, len(data)) if self.version >= 4 else
                       struct.pack('<BI', ITEM_SIZES[t.kind], len(t.numbers)))
            out.append(data)
        if self.version >= 3:
            out.append(struct.pack('<I', len(self.aliases)))
            out += [text(name) + text(other) for name, other in sorted(self.aliases.items())]
        path.write_bytes(b''.join(out))


# ---- a random model --------------------------------------------------------------------------------------------------


class Side:
    """One of encoder and decoder."""


class Model:
    def __init__(self, seed):
        self.draw = draw = random.Random(seed)
        self.version, self.revision = draw.choice([(6, 7)] * 4 + [(5, 6), (4, 4), (3, 3), (2, 2)])
        self.d = draw.choice([12, 14, 15, 20, 24, 33, 36, 40])
        if self.version < 6:
            self.d = 24
        self.storage = draw.choice([FLOAT32, FLOAT16, BFLOAT16, INT8, INT8, INT8, INT16])
        if self.version < 4:
            self.storage = draw.choice([FLOAT32, INT8, INT16])
        self.rest = draw.choice([FLOAT32, FLOAT16, BFLOAT16]) if self.version >= 4 else FLOAT32
        self.rest = self.storage if self.storage in (FLOAT32, FLOAT16, BFLOAT16) else self.rest
        self.file = File(self.version, self.revision, 'TransformerBase' if self.revision < 3 else 'TransformerSpec')
        self.has_bias = draw.random() < 0.8
        self.is_rms = draw.random() < 0.25
        self.epsilon = draw.choice([None, None, 1e-3, 1e-6]) if self.version >= 6 else None
        self.is_gated = draw.random() < 0.25
        self.is_from_zero = draw.random() < 0.25 and self.revision >= 5
        self.logits_scale = draw.choice([1.0, 1.0, 0.7])
        self.has_ends = [draw.random() < 0.3 and self.version >= 6 for _ in range(2)]
        self.make_vocabularies()
        self.make_sides()
        self.make_tables()
        for side in self.sides:
            self.make_side(side)
        self.make_scalars()

    def make_vocabularies(self):
        self.is_shared = self.draw.random() < 0.6
        sizes = [self.draw.randint(23, 61), self.draw.randint(23, 61)]
        self.tokens = []
        for n in sizes[:1] if self.is_shared else sizes:
            tokens = ['<unk>', '<s>', '</s>'] + ['\u2581t%d' % i if i % 3 else 'p\u00e9%d' % i for i in range(n - 3)]
            self.draw.shuffle(tokens)
            self.tokens.append(tokens)
        self.tokens *= 3 - len(self.tokens)

    def make_sides(self):
        draw = self.draw
        self.sides = []
        divisors = [n for n in range(1, 9) if self.d % n == 0 and self.d // n > 1]
        for name in 'encoder', 'decoder':
            s = Side()
            s.name, s.is_decoder = name, name == 'decoder'
            s.layers = draw.randint(1, 3)
            s.heads = draw.choice(divisors)
            s.inner, s.scales = self.d, None
            if self.version == 6 and draw.random() < 0.3:
                s.inner = s.heads * draw.choice([3, 5, 8])
                s.scales = [draw.uniform(0.2, 1.0) for _ in range(2)]
            s.ffn = draw.choice([9, 16, 30, 47])
            s.is_pre_norm = draw.random() < 0.5
            s.activation = draw.randint(0, 6)
            s.has_final_norm = draw.random() < (0.9 if s.is_pre_norm else 0.0)
            s.has_embedding_norm = draw.random() < 0.25
            s.position = draw.choice(['saved', 'saved', 'computed', 'vectors', 'bias'])
            if self.d % 2:
                s.position = draw.choice(['saved', 'vectors', 'bias'])
            s.embedding_scale = draw.choice([None, True, False, 1.7])
            if self.version < 6:
                s.position, s.embedding_scale = 'saved', draw.choice([None, True, False])
            self.sides.append(s)
        encoder, decoder = self.sides
        if self.revision < 5:
            decoder.activation, decoder.is_pre_norm = encoder.activation, encoder.is_pre_norm
            decoder.heads = encoder.heads = 8 if self.revision < 3 else encoder.heads
            decoder.has_final_norm = encoder.has_final_norm = encoder.is_pre_norm

    def uniform(self, n, size):
        return [self.draw.uniform(-size, size) for _ in range(n)]

    def linear(self, name, n_out, n_in, size=None, has_bias=None):
        """A weight, stored as the model's are, and a bias."""
        values = self.uniform(n_out * n_in, size or math.sqrt(3.0 / n_in))
        if self.draw.random() < 0.3:  # a row of zeros
            row = self.draw.randrange(n_out)
            values[row * n_in:(row + 1) * n_in] = [0.0] * n_in
        self.weight(name, [n_out, n_in], values)
        if self.has_bias if has_bias is None else has_bias:
            self.vector(name + '/bias', self.uniform(n_out, 0.4))

    def weight(self, name, shape, values):
        name += '/weight'
        rows, columns = shape
        if self.storage == INT8:
            numbers, scales = [], []
            for i in range(rows):
                row = [as_float32(v) for v in values[i * columns:(i + 1) * columns]]
                largest = max(map(abs, row))
                scales.append(as_float32(127.0 / largest) if largest else 1.0)
                numbers += [max(-127, min(127, round(v * scales[-1]))) for v in row]
            values = [q / scales[i // columns] for i, q in enumerate(numbers)]
            self.file.tensors[name + '_scale'] = Tensor(FLOAT32, [rows], scales, scales)
            self.file.tensors[name] = Tensor(INT8, shape, numbers, values)
        elif self.storage == INT16:
            has_scale = self.version > 2
            scale = as_float32(1024.0 / max(map(abs, values))) if has_scale else 1000.0
            numbers = [round(v * scale) for v in values]
            if has_scale:
                self.file.scalar(name + '_scale', FLOAT32, scale)
            self.file.tensors[name] = Tensor(INT16, shape, numbers, [q / scale for q in numbers])
        else:
            self.file.tensors[name] = store(values, shape, self.storage)

    def vector(self, name, values):
        self.file.tensors[name] = store(values, [len(values)], self.rest)

    def table(self, name, rows, columns, size):
        self.file.tensors[name] = store(self.uniform(rows * columns, size), [rows, columns], self.rest)

    def norm(self, name):
        self.vector(name + '/gamma', [1.0 + v for v in self.uniform(self.d, 0.3)])
        if not self.is_rms:
            self.vector(name + '/beta', self.uniform(self.d, 0.2))

    def make_tables(self):
        size = 2.5 / math.sqrt(self.d)
        source, target = len(self.tokens[0]), len(self.tokens[1])
        encoder = 'encoder/embeddings_0' if self.revision >= 5 else 'encoder/embeddings'
        self.linear('decoder/embeddings', target, self.d, size, False)
        if self.is_shared and self.draw.random() < 0.7:
            self.file.alias(encoder + '/weight', 'decoder/embeddings/weight')
        else:
            self.linear(encoder, source, self.d, size, False)
        if self.draw.random() < 0.6:
            self.file.alias('decoder/projection/weight', 'decoder/embeddings/weight')
            if self.has_bias:
                self.vector('decoder/projection/bias', self.uniform(target, 0.4))
        else:
            self.linear('decoder/projection', target, self.d, size)

    def make_side(self, s):
        s.rows = 0
        if s.position == 'saved':
            self.table(s.name + '/position_encodings/encodings', self.draw.randint(24, 40), self.d, 0.8)
        elif s.position == 'vectors':
            s.distance = self.draw.choice([1, 2, 3, 7, 30])
        elif s.position == 'bias':
            s.buckets = self.draw.choice([4, 6, 8, 11])
            s.distance = s.buckets + self.draw.randint(1, 9)
        if s.has_embedding_norm:
            self.norm(s.name + '/layernorm_embedding')
        for i in range(s.layers):
            self.make_layer(s, '%s/layer_%d' % (s.name, i), i)
        if s.has_final_norm:
            self.norm(s.name + '/layer_norm')

    def make_layer(self, s, name, index):
        own, cross, ffn = name + '/self_attention', name + '/attention', name + '/ffn'
        self.linear(own + '/linear_0', 3 * s.inner, self.d)
        self.linear(own + '/linear_1', self.d, s.inner)
        self.norm(own + '/layer_norm')
        if s.scales:
            self.file.scalar(own + '/queries_scale', FLOAT32, as_float32(s.scales[0]))
        if s.position == 'vectors':
            for what in 'keys', 'values':
                self.table('%s/relative_position_%s' % (own, what), 2 * s.distance + 1, s.inner // s.heads, 0.6)
        if s.position == 'bias':
            bias = 'self_attention/relative_attention_bias'
            if index == 0:
                self.table('%s/%s' % (name, bias), s.buckets, s.heads, 1.0)
            else:
                self.file.alias('%s/%s' % (name, bias), '%s/layer_0/%s' % (s.name, bias))
            self.file.scalar(own + '/relative_attention_max_distance', INT32, s.distance)
        if s.is_decoder:
            self.linear(cross + '/linear_0', s.inner, self.d)
            self.linear(cross + '/linear_1', 2 * s.inner, self.d)
            self.linear(cross + '/linear_2', self.d, s.inner)
            self.norm(cross + '/layer_norm')
            if s.scales:
                self.file.scalar(cross + '/queries_scale', FLOAT32, as_float32(s.scales[1]))
        self.linear(ffn + '/linear_0', s.ffn, self.d)
        if self.is_gated:
            self.linear(ffn + '/linear_0_noact', s.ffn, self.d)
        self.linear(ffn + '/linear_1', self.d, s.ffn)
        self.norm(ffn + '/layer_norm')

    def make_scalars(self):
        f = self.file
        for s in self.sides:
            prefix = s.name + '/' if self.revision >= 5 else ''
            if self.revision >= 3:
                f.scalar(prefix + 'num_heads', INT16 if self.revision >= 5 else INT8, s.heads)
            f.scalar(prefix + 'pre_norm', INT8, int(s.is_pre_norm))
            f.scalar(prefix + 'activation', INT8, s.activation)
            name = s.name + '/scale_embeddings'
            if self.revision < 3:
                where = 'embeddings' if s.is_decoder or self.revision < 5 else 'embeddings_0'
                name = '%s/%s/multiply_by_sqrt_depth' % (s.name, where)
            if isinstance(s.embedding_scale, bool):
                f.scalar(name, INT8, int(s.embedding_scale))
            elif s.embedding_scale is not None:
                f.scalar(name, FLOAT32, as_float32(s.embedding_scale))
        if self.is_from_zero:
            f.scalar('decoder/start_from_zero_embedding', INT8, 1)
        if self.logits_scale != 1.0:
            f.scalar('decoder/scale_outputs', FLOAT32, as_float32(self.logits_scale))
        if self.version < 6:
            for key, value in ('with_source_bos', 0), ('with_source_eos', 0), ('with_target_bos', 1):
                f.scalar(key, INT8, value)

    def write(self, folder):
        self.file.write(folder / 'model.bin')
        suffix = '.json' if self.version >= 6 or self.draw.random() < 0.5 else '.txt'
        names = ['shared'] if self.is_shared else ['source', 'target']
        for name, tokens in zip(names, self.tokens):
            text = json.dumps(tokens) if suffix == '.json' else ''.join(t + '\n' for t in tokens)
            (folder / (name + '_vocabulary' + suffix)).write_text(text, encoding='utf-8')
        if self.version >= 6:
            config = {'unk_token': '<unk>', 'bos_token': '<s>', 'eos_token': '</s>', 'decoder_start_token': '<s>',
                      'add_source_bos': self.has_ends[0], 'add_source_eos': self.has_ends[1],
                      'layer_norm_epsilon': self.epsilon}
            (folder / 'config.json').write_text(json.dumps(config))


# ---- what it computes ------------------------------------------------------------------------------------------------


class Computation:
    def __init__(self, model, jitter, is_int8):
        self.m, self.is_int8 = model, is_int8
        noise = random.Random(1)
        self.tensors = {}
        for name, t in model.file.tensors.items():
            if t.values is not None and t.shape:
                values = [v * (1 + jitter * noise.gauss(0, 1)) for v in t.values] if jitter else t.values
                changed = Tensor(t.kind, t.shape, None, values)
                self.tensors[name] = changed.rows() if len(t.shape) == 2 else values
        for name, other in model.file.aliases.items():
            self.tensors[name] = self.tensors[other]
        self.epsilon = model.epsilon or (1e-6 if model.is_rms else 1e-5)

    def linear(self, name, x):
        if self.is_int8:
            largest = max(map(abs, x))
            x = [round(v * 127 / largest) * largest / 127 for v in x] if largest else x
        y = [dot(row, x) for row in self.tensors[name + '/weight']]
        bias = self.tensors.get(name + '/bias')
        return plus(y, bias) if bias else y

    def norm(self, name, x):
        mean = 0.0 if self.m.is_rms else sum(x) / len(x)
        factor = 1 / math.sqrt(sum((v - mean)**2 for v in x) / len(x) + self.epsilon)
        y = [(v - mean) * factor * g for v, g in zip(x, self.tensors[name + '/gamma'])]
        return y if self.m.is_rms else plus(y, self.tensors[name + '/beta'])

    def embed(self, s, token, position):
        name = 'decoder/embeddings' if s.is_decoder else 'encoder/embeddings_0'
        if not s.is_decoder and self.m.revision < 5:
            name = 'encoder/embeddings'
        scale = s.embedding_scale
        scale = math.sqrt(self.m.d) if scale is None or scale is True else 1.0 if scale is False else as_float32(scale)
        x = [0.0] * self.m.d if token is None else [v * scale for v in self.tensors[name + '/weight'][token]]
        if s.position == 'saved':
            x = plus(x, self.tensors[s.name + '/position_encodings/encodings'][position])
        elif s.position == 'computed':
            k = self.m.d // 2
            angles = [(position + 1) * 10000**(-j / (k - 1)) for j in range(k)]
            x = plus(x, [math.sin(a) for a in angles] + [math.cos(a) for a in angles])
        return self.norm(s.name + '/layernorm_embedding', x) if s.has_embedding_norm else x

    def bucket(self, s, distance):
        """Of a key that lies `distance` behind the query."""
        buckets, first = s.buckets, 0
        if s.is_decoder:
            distance = max(-distance, 0)
        else:
            buckets //= 2
            first = buckets if distance > 0 else 0
            distance = abs(distance)
        exact = buckets // 2
        if distance < exact:
            return first + distance
        far = exact + int(math.log(distance / exact) / math.log(s.distance / exact) * (buckets - exact))
        return first + min(far, buckets - 1)

    def attend(self, s, query, keys, values, scale, position=None, name=None):
        """One query; position and name: of self-attention, which may look at distances."""
        width = s.inner // s.heads
        out = []
        vectors = s.position == 'vectors' and name
        rows = []
        if vectors:
            rows = [max(-s.distance, min(s.distance, j - position)) + s.distance for j in range(len(keys))]
        for h in range(s.heads):
            part = slice(h * width, (h + 1) * width)
            q = query[part]
            scores = [dot(q, k[part]) for k in keys]
            if vectors:
                table = self.tensors[name + '/relative_position_keys']
                scores = plus(scores, [dot(q, table[r]) for r in rows])
            scores = [v * scale for v in scores]
            if s.position == 'bias' and name:
                table = self.tensors[s.name + '/layer_0/self_attention/relative_attention_bias']
                scores = [v + table[self.bucket(s, j - position)][h] for j, v in enumerate(scores)]
            largest = max(scores)
            weights = [math.exp(v - largest) for v in scores]
            total = sum(weights)
            context = [0.0] * width
            for j, w in enumerate(weights):
                value = values[j][part]
                if vectors:
                    value = plus(value, self.tensors[name + '/relative_position_values'][rows[j]])
                context = [c + w / total * v for c, v in zip(context, value)]
            out += context
        return out

    def scale(self, s, index):
        return as_float32(s.scales[index]) if s.scales else 1 / math.sqrt(self.m.d // s.heads)

    def sublayer(self, s, norm, x, function):
        if s.is_pre_norm:
            return plus(x, function(self.norm(norm, x)))
        return self.norm(norm, plus(x, function(x)))

    def feed_forward(self, s, name, x):
        activation = ACTIVATIONS[s.activation]
        y = [activation(v) for v in self.linear(name + '/linear_0', x)]
        if self.m.is_gated:
            y = list(map(mul, y, self.linear(name + '/linear_0_noact', x)))
        return self.linear(name + '/linear_1', y)

    def finish(self, s, x):
        return self.norm(s.name + '/layer_norm', x) if s.has_final_norm else x

    def encode(self, ids):
        s = self.m.sides[0]
        xs = [self.embed(s, token, i) for i, token in enumerate(ids)]
        for layer in range(s.layers):
            name = 'encoder/layer_%d' % layer
            own = name + '/self_attention'
            normed = [self.norm(own + '/layer_norm', x) for x in xs] if s.is_pre_norm else xs
            qkv = [self.linear(own + '/linear_0', x) for x in normed]
            keys = [v[s.inner:2 * s.inner] for v in qkv]
            values = [v[2 * s.inner:] for v in qkv]
            for i, x in enumerate(xs):
                context = self.attend(s, qkv[i][:s.inner], keys, values, self.scale(s, 0), i, own)
                x = plus(x, self.linear(own + '/linear_1', context))
                x = x if s.is_pre_norm else self.norm(own + '/layer_norm', x)
                xs[i] = self.sublayer(s, name + '/ffn/layer_norm', x,
                                      lambda y, n=name: self.feed_forward(s, n + '/ffn', y))
        return [self.finish(s, x) for x in xs]

    def start(self, encoded):
        """The states of a decoder that has seen nothing: of each layer, past keys and values, and the source's."""
        s = self.m.sides[1]
        states = []
        for layer in range(s.layers):
            both = [self.linear('decoder/layer_%d/attention/linear_1' % layer, x) for x in encoded]
            states.append(([], [], [v[:s.inner] for v in both], [v[s.inner:] for v in both]))
        return states

    def step(self, states, token, position):
        """log-probabilities' logits behind a token, and the states with it."""
        s = self.m.sides[1]
        after = []
        x = self.embed(s, None if position == 0 and self.m.is_from_zero else token, position)
        for layer, (keys, values, source_keys, source_values) in enumerate(states):
            name = 'decoder/layer_%d' % layer
            own, cross = name + '/self_attention', name + '/attention'
            y = self.norm(own + '/layer_norm', x) if s.is_pre_norm else x
            qkv = self.linear(own + '/linear_0', y)
            keys, values = keys + [qkv[s.inner:2 * s.inner]], values + [qkv[2 * s.inner:]]
            after.append((keys, values, source_keys, source_values))
            context = self.attend(s, qkv[:s.inner], keys, values, self.scale(s, 0), position, own)
            x = plus(x, self.linear(own + '/linear_1', context))
            x = x if s.is_pre_norm else self.norm(own + '/layer_norm', x)

            def look(y):
                q = self.linear(cross + '/linear_0', y)
                return self.linear(cross + '/linear_2',
                                   self.attend(s, q, source_keys, source_values, self.scale(s, 1)))

            x = self.sublayer(s, cross + '/layer_norm', x, look)
            x = self.sublayer(s, name + '/ffn/layer_norm', x, lambda y: self.feed_forward(s, name + '/ffn', y))
        x = self.finish(s, x)
        factor = as_float32(self.m.logits_scale)
        return self.linear('decoder/projection', [v * factor for v in x]), after


def log_softmax(logits):
    largest = max(logits)
    total = largest + math.log(sum(math.exp(v - largest) for v in logits))
    return [v - total for v in logits]


def search(c, encoded, start, end, settings):
    """Hypotheses (tokens without the end, score), best first."""
    beam, penalty = settings['beam_size'], settings['length_penalty']
    live = [(0.0, [], c.start(encoded), start)]
    done = []
    for position in range(settings['max_decoding_length']):
        candidates = []
        for h, (total, tokens, states, last) in enumerate(live):
            logits, after = c.step(states, last, position)
            if position == 0:
                logits[end] = -math.inf
            candidates += [(-total - v, h, token, after) for token, v in enumerate(log_softmax(logits))]
        candidates.sort(key=lambda way: way[:3])
        candidates = candidates[:2 * beam]
        is_last = position + 1 == settings['max_decoding_length']
        spare = [way for way in candidates[beam:] if way[2] != end]
        following = []
        for minus, h, token, after in candidates[:beam]:
            if token == end:
                done.append((live[h][1], -minus / (position + 1)**penalty))
                if is_last or not spare:
                    continue
                minus, h, token, after = spare.pop(0)
            following.append((-minus, live[h][1] + [token], after, token))
        live = following
        if is_last:
            done += [(tokens, total / len(tokens)**penalty) for total, tokens, _, _ in live]
        elif len(done) >= beam:
            break
    return sorted(done, key=lambda way: -way[1])[:settings['num_hypotheses']]


SEARCHES = {
    'greedy': {'beam_size': 1, 'length_penalty': 1, 'num_hypotheses': 1},
    'beam4': {'beam_size': 4, 'length_penalty': 1, 'num_hypotheses': 1},
    'beam3_lp0.2_2hyp': {'beam_size': 3, 'length_penalty': 0.2, 'num_hypotheses': 2},
}
for chosen in SEARCHES.values():
    chosen.update(patience=1, max_decoding_length=14)


def golden(model):
    draw = random.Random(model.d)
    pieces = [[t for t in tokens if t[0] != '<'] for tokens in model.tokens]
    sources = [draw.choices(pieces[0], k=n) for n in (1, 4, 6, 9, 13)]
    sources[3][2] = 'nowhere'
    targets = [draw.choices(pieces[1], k=n) for n in (2, 5, 9)]
    ids = [{t: i for i, t in enumerate(tokens)} for tokens in model.tokens]
    bos, eos = [model.has_ends[i] * [token] for i, token in enumerate(['<s>', '</s>'])]
    inputs = [[ids[0].get(t, ids[0]['<unk>']) for t in bos + source + eos] for source in sources]
    start, end = ids[1]['<s>'], ids[1]['</s>']
    exact, moved = Computation(model, 0.0, 0), Computation(model, JITTER, 0)
    encoded = [exact.encode(i) for i in inputs]
    shaken = [moved.encode(i) for i in inputs]
    results = {'encoder_output': encoded[1:4:2]}

    def score(c, states):
        pairs = []
        for state, target in zip(states, targets):
            past, last, out = c.start(state), start, []
            for position, token in enumerate([ids[1][t] for t in target] + [end]):
                logits, past = c.step(past, last, position)
                out.append(log_softmax(logits)[token])
                last = token
            pairs.append({'tokens': target + ['</s>'], 'log_probs': out})
        return pairs

    results['score'] = score(exact, encoded)
    for name, settings in SEARCHES.items():
        found = [search(exact, e, start, end, settings) for e in encoded]
        others = [search(moved, e, start, end, settings) for e in shaken]
        if [[h[0] for h in hypotheses] for hypotheses in found] == [[h[0] for h in o] for o in others]:
            results[name] = [[{'tokens': [model.tokens[1][t] for t in tokens], 'score': total}
                              for tokens, total in hypotheses] for hypotheses in found]
    both = {'float32': results}
    if model.storage == INT8:
        found, moved = [score(c, [c.encode(i) for i in inputs])
                        for c in (Computation(model, 0.0, 1), Computation(model, JITTER_ROUNDED, 1))]
        pairs = [(x, y) for a, b in zip(found, moved) for x, y in zip(a['log_probs'], b['log_probs'])]
        if all(abs(x - y) < NEAR for x, y in pairs):
            both['int8'] = {'score': found}
    return {'source': sources, 'encoder_input_ids': inputs[1:4:2], 'options': SEARCHES,
            'score_source': sources[:3], 'score_target': targets, 'results': both}


def describe(model):
    sides = ', '.join('%s %d x %d heads of %d, %s, %s' %
                      (s.name, s.layers, s.heads, s.inner // s.heads, s.position, 'pre' if s.is_pre_norm else 'post')
                      for s in model.sides)
    return 'version %d, storage %d/%d, d %d, vocabularies %d and %d: %s' % (
        model.version, model.storage, model.rest, model.d, len(model.tokens[0]), len(model.tokens[1]), sides)


def main():
    compare, device, first, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    n_searches = 0
    failures = 0
    for seed in range(first, first + count):
        folder = Path(tempfile.mkdtemp(prefix='ctranslate2-%d-' % seed))
        model = Model(seed)
        model.write(folder)
        recorded = golden(model)
        n_searches += len(recorded['results']['float32']) - 2
        (folder / 'golden.json').write_text(json.dumps(recorded), encoding='utf-8')
        answer = subprocess.run([compare, str(folder), device], capture_output=True, text=True, check=False)
        print('seed %d, %s\n%s%s' % (seed, describe(model), answer.stdout, answer.stderr), flush=True)
        if answer.returncode == 0 or answer.returncode == SKIPPED:
            shutil.rmtree(folder)
        if answer.returncode == SKIPPED:
            return SKIPPED
        failures += answer.returncode != 0
    if n_searches < count:
        print('only %d searches are sure enough to be compared' % n_searches)
        failures += 1
    return failures > 0


if __name__ == '__main__':
    sys.exit(main())
