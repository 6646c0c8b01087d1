#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes files as torch.save and NumPy do, with Python's own pickle and zipfile: torch_files.py FOLDER.

What is in them is checked by test_torch.c. torch is not needed: what its pickles name is made up here under the same
names.
"""
import collections
import os
import pickle
import struct
import sys
import types
import zipfile


def module(name, **content):
    made = types.ModuleType(name)
    for key, value in content.items():
        value.__module__ = name
        value.__qualname__ = value.__name__ = key
        setattr(made, key, value)
    sys.modules[name] = made
    return made


def function():
    return lambda *arguments: None


STORAGES = [
    'FloatStorage', 'HalfStorage', 'BFloat16Storage', 'LongStorage', 'DoubleStorage', 'CharStorage', 'BoolStorage',
]  # fmt: skip
torch = module('torch', **{name: type(name, (), {}) for name in STORAGES})
utils = module('torch._utils', _rebuild_tensor_v2=function(), _rebuild_parameter=function())
sys.modules['torch']._utils = utils


class Storage:
    def __init__(self, kind, key, content, elements):
        self.kind, self.key, self.content, self.elements = kind, key, content, elements


class Tensor:
    def __init__(self, storage, offset, sizes, strides, parameter=False):
        self.storage, self.offset, self.sizes, self.strides, self.parameter = storage, offset, sizes, strides, parameter


class Pickler(pickle._Pickler):
    """The Python one calls `persistent_id` and, through `reducer_override`, this class for tensors."""

    def persistent_id(self, item):
        if isinstance(item, Storage):
            return ('storage', getattr(torch, item.kind), item.key, 'cpu', item.elements)
        return None

    def reducer_override(self, item):
        if isinstance(item, Tensor):
            plain = (utils._rebuild_tensor_v2,
                     (item.storage, item.offset, item.sizes, item.strides, False, collections.OrderedDict()))
            if item.parameter:
                inner = Tensor(item.storage, item.offset, item.sizes, item.strides)
                return (utils._rebuild_parameter, (inner, True, collections.OrderedDict()))
            return plain
        return NotImplemented


def floats(*values):
    return struct.pack('<%df' % len(values), *values)


def save(path, state, storages, protocol, folder='archive', compression=zipfile.ZIP_STORED):
    import io
    text = io.BytesIO()
    Pickler(text, protocol).dump(state)
    with zipfile.ZipFile(path, 'w', compression) as out:
        out.writestr(folder + '/data.pkl', text.getvalue())
        out.writestr(folder + '/byteorder', 'little')
        for storage in storages:
            with out.open(zipfile.ZipInfo(folder + '/data/' + storage.key), 'w', force_zip64=True) as entry:
                entry.write(storage.content)
        out.writestr(folder + '/version', '3\n')


def write_torch(folder):
    main = Storage('FloatStorage', '0', floats(*range(8)), 8)
    half = Storage('HalfStorage', '1', struct.pack('<3e', 0.5, -2.0, 65504.0), 3)
    brain = Storage('BFloat16Storage', '2', struct.pack('<2H', 0x3F80, 0xC000), 2)
    long = Storage('LongStorage', '3', struct.pack('<q', 7), 1)
    empty = Storage('FloatStorage', '4', b'', 0)
    storages = [main, half, brain, long, empty]
    state = collections.OrderedDict()
    whole = Tensor(main, 0, (2, 3), (3, 1))
    state['whole'] = whole
    state['tied'] = whole
    state['turned'] = Tensor(main, 0, (3, 2), (1, 3))
    state['tail'] = Tensor(main, 6, (2,), (1,))
    state['skipping'] = Tensor(main, 1, (2, 2, 1), (4, 2, 9))
    state['scalar'] = Tensor(main, 3, (), ())
    state['parameter'] = Tensor(main, 0, (8,), (1,), parameter=True)
    state['half'] = Tensor(half, 0, (3,), (1,))
    state['brain'] = Tensor(brain, 0, (2,), (1,))
    state['long'] = Tensor(long, 0, (), ())
    state['empty'] = Tensor(empty, 0, (0, 5), (5, 1))
    state['deep'] = Tensor(main, 0, (1, 1, 2, 2, 2), (8, 8, 4, 2, 1))
    state._metadata = collections.OrderedDict([('', {'version': 1}), ('a.b', {'version': 2, 'ratio': 0.5})])
    save(os.path.join(folder, 'two.bin'), state, storages, 2)
    save(os.path.join(folder, 'four.bin'), dict(state), storages, 4, folder='pytorch_model')
    save(os.path.join(folder, 'five.bin'), state, storages, 5, compression=zipfile.ZIP_DEFLATED)


def npy(descr, shape, content, version=1, order=False):
    header = "{'descr': %r, 'fortran_order': %r, 'shape': %r, }" % (descr, order, shape)
    lead = 10 if version == 1 else 12
    header += ' ' * (-(lead + len(header) + 1) % 64) + '\n'
    return b'\x93NUMPY' + bytes([version, 0]) + struct.pack('<H' if version == 1 else '<I', len(header)) + \
        header.encode() + content


def write_npz(folder):
    for name, compression in (('stored.npz', zipfile.ZIP_STORED), ('deflated.npz', zipfile.ZIP_DEFLATED)):
        with zipfile.ZipFile(os.path.join(folder, name), 'w', compression) as out:
            out.writestr('a.npy', npy('<f4', (2, 3), floats(*range(6))))
            out.writestr('columns.npy', npy('<f4', (2, 3), floats(*range(6)), order=True))
            out.writestr('half.npy', npy('<f2', (1, 2), struct.pack('<2e', 0.5, -2.0), version=2))
            out.writestr('scalar.npy', npy('<f8', (), struct.pack('<d', 0.25)))
            out.writestr('special:model.yml.npy', npy('|i1', (4,), b'a: 1'))
            out.writestr('one.npy', npy('<f4', (1,), floats(9)))
            out.writestr('notes.txt', 'not an array')


if __name__ == '__main__':
    os.makedirs(sys.argv[1], exist_ok=True)
    write_torch(sys.argv[1])
    write_npz(sys.argv[1])
    open(os.path.join(sys.argv[1], 'done'), 'w').close()
