#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records models/nn_relative_*: torch.nn.Transformer whose self-attention has clamped relative positions.

    /usr/bin/python3 tests/data/goldens/record_nn_relative.py tests/data/goldens/models

It needs PyTorch (Debian: python3-torch) and nothing else. Everything around self-attention is torch's own code:
nn.TransformerEncoderLayer, nn.TransformerDecoderLayer, nn.MultiheadAttention between encoder and decoder.
Self-attention is written from its formula,

    scores[i, j] = q_i . k_j / sqrt(K) + bias[min(max(j - i, -m), m) + m, h],

and held against nn.MultiheadAttention with the bias as an additive mask. The search is written after `generate` of
Hugging Face transformers. Each case runs in f32 and in f64; the ids of all searches must be the same in both.
"""
import json
import math
import pathlib
import struct
import sys

import torch
from torch import nn
from torch.nn import functional as F

PAD, BOS, EOS, UNK = 0, 1, 2, 3
MAX_LENGTH = 22
# Large enough that the rounding noise in a gradient that is zero (that of the keys' bias) makes no step to speak of.
EPSILON = 1e-5

CASES = [
    # d_model and head size are no multiples of 4; the longest sentence is several times max_distance
    dict(name="nn_relative_postnorm", seed=11, d_model=30, nhead=5, num_encoder_layers=2, num_decoder_layers=2,
         dim_feedforward=44, src_vocab_size=59, tgt_vocab_size=61, max_distance=4, activation="relu",
         norm_first=False, lengths=[(9, 7), (1, 13), (19, 3)], steps=30),
    dict(name="nn_relative_prenorm", seed=12, d_model=21, nhead=3, num_encoder_layers=1, num_decoder_layers=3,
         dim_feedforward=50, src_vocab_size=47, tgt_vocab_size=43, max_distance=7, activation="gelu",
         norm_first=True, lengths=[(17, 16), (6, 1), (2, 9)], steps=30),
]

SEARCHES = [
    dict(name="greedy", args=dict(num_beams=1, max_length=MAX_LENGTH)),
    dict(name="beam4", args=dict(num_beams=4, max_length=MAX_LENGTH, length_penalty=1.0, early_stopping=False)),
    dict(name="beam4_early_lp0.6_n2", args=dict(num_beams=4, max_length=MAX_LENGTH, length_penalty=0.6,
                                               early_stopping=True, num_return_sequences=2)),
    dict(name="beam3_never_lp2", args=dict(num_beams=3, max_length=MAX_LENGTH, length_penalty=2.0,
                                          early_stopping="never")),
    dict(name="beam4_short", args=dict(num_beams=4, max_length=6, length_penalty=1.0, early_stopping=False)),
]


# ---- the model -----------------------------------------------------------------------------------------------------

class RelativeAttention(nn.MultiheadAttention):
    """Self-attention with a bias for each head and clamped distance. Keeps its weights for the recording."""

    def __init__(self, d_model, nhead, max_distance):
        super().__init__(d_model, nhead, batch_first=True)
        self.max_distance = max_distance
        self.relative_attention_bias = nn.Embedding(2 * max_distance + 1, nhead)

    def bias(self, length):
        i = torch.arange(length)
        distance = (i[None, :] - i[:, None]).clamp(-self.max_distance, self.max_distance)  # [i, j] = j - i
        return self.relative_attention_bias(distance + self.max_distance).permute(2, 0, 1)  # [h, i, j]

    def forward(self, query, key, value, key_padding_mask=None, need_weights=False, attn_mask=None, **ignored):
        x, (batch, length, d_model) = query, query.shape
        head_size = d_model // self.num_heads
        q, k, v = (part.reshape(batch, length, self.num_heads, head_size).transpose(1, 2)
                   for part in F.linear(x, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1))
        hidden = torch.zeros(batch, 1, length, length, dtype=torch.bool)
        if key_padding_mask is not None:
            hidden = hidden | key_padding_mask[:, None, None, :].bool()
        if attn_mask is not None:
            hidden = hidden | (attn_mask[None, None] == -math.inf)
        scores = q @ k.transpose(-2, -1) / math.sqrt(head_size) + self.bias(length)
        self.weights = scores.masked_fill(hidden, -math.inf).softmax(dim=-1)
        y = self.out_proj((self.weights @ v).transpose(1, 2).reshape(batch, length, d_model))
        self.check(x, hidden, y)
        return y, None

    def check(self, x, hidden, y):
        """torch's own attention, with the bias as an additive mask, gives the same."""
        mask = self.bias(x.shape[1])[None].masked_fill(hidden, -math.inf)
        with torch.no_grad():
            theirs, _ = super().forward(x, x, x, attn_mask=mask.flatten(0, 1), need_weights=False)
        assert (theirs - y).abs().max() < 1e-5, float((theirs - y).abs().max())


class CrossAttention(nn.MultiheadAttention):
    """torch's own, which keeps its weights for the recording."""

    def forward(self, query, key, value, **options):
        options["need_weights"] = True
        y, self.weights = super().forward(query, key, value, average_attn_weights=False, **options)
        return y, None


class TokenEmbedding(nn.Module):
    def __init__(self, vocabulary, d_model):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, d_model)

    def forward(self, ids):
        return self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)


class Seq2SeqTransformer(nn.Module):
    """The model of PyTorch's translation tutorial, without an encoding that is added to the embeddings."""

    def __init__(self, c):
        super().__init__()
        self.transformer = nn.Transformer(c["d_model"], c["nhead"], c["num_encoder_layers"], c["num_decoder_layers"],
                                          c["dim_feedforward"], dropout=0.0, activation=c["activation"],
                                          batch_first=True, norm_first=c["norm_first"])
        for layer in list(self.transformer.encoder.layers) + list(self.transformer.decoder.layers):
            layer.self_attn = RelativeAttention(c["d_model"], c["nhead"], c["max_distance"])
        for layer in self.transformer.decoder.layers:
            layer.multihead_attn = CrossAttention(c["d_model"], c["nhead"], batch_first=True)
        self.src_tok_emb = TokenEmbedding(c["src_vocab_size"], c["d_model"])
        self.tgt_tok_emb = TokenEmbedding(c["tgt_vocab_size"], c["d_model"])
        self.generator = nn.Linear(c["d_model"], c["tgt_vocab_size"])

    def encode(self, source, mask):
        """[embedding, outputs of the layers but the last, output of the final norm]"""
        hidden = [self.src_tok_emb(source)]
        for layer in self.transformer.encoder.layers:
            hidden.append(layer(hidden[-1], src_key_padding_mask=mask == 0))
        hidden[-1] = self.transformer.encoder.norm(hidden[-1])
        return hidden

    def decode(self, target, encoded, source_mask):
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        hidden = [self.tgt_tok_emb(target)]
        for layer in self.transformer.decoder.layers:
            hidden.append(layer(hidden[-1], encoded, tgt_mask=causal.to(encoded.dtype),
                                memory_key_padding_mask=source_mask == 0))
        hidden[-1] = self.transformer.decoder.norm(hidden[-1])
        return hidden

    def logits(self, source, source_mask, target):
        return self.generator(self.decode(target, self.encode(source, source_mask)[-1], source_mask)[-1])


# ---- search, after Hugging Face's generate -------------------------------------------------------------------------

def search_greedy(step, max_length):
    ids = [BOS]
    while len(ids) < max_length and ids[-1] != EOS or len(ids) == 1:
        ids.append(int(step([ids])[0].argmax()))
    return [(ids, None)]


def search_beam(step, max_length, n, length_penalty, early_stopping, n_return):
    beams, finished = [([BOS], 0.0)], []  # ids and sum of log-probabilities; ids and score

    def score(total, ids):
        return total / (len(ids) - 1) ** length_penalty

    def finish(ids, total):
        finished.append((ids, score(total, ids)))
        finished.sort(key=lambda pair: -pair[1])
        del finished[n:]

    def is_done(best, length):
        if len(finished) < n:
            return False
        if early_stopping is True:
            return True
        longest = max_length if early_stopping == "never" and length_penalty > 0.0 else length
        return finished[-1][1] >= best / (longest - 1) ** length_penalty

    while len(beams[0][0]) < max_length:
        rows = step([ids for ids, _ in beams])
        ways = [(total + float(row[token]), beam, token) for beam, ((_, total), row) in enumerate(zip(beams, rows))
                for token in range(len(row))]
        ways = sorted(ways, key=lambda way: -way[0])[:2 * n]
        chosen = []
        for rank, (total, beam, token) in enumerate(ways):
            ids = beams[beam][0] + [token]
            if token != EOS:
                chosen.append((ids, total))
            elif rank < n:
                finish(ids, total)
            if len(chosen) == n:
                break
        beams = chosen
        if is_done(ways[0][0], len(beams[0][0])):
            break
    else:
        for ids, total in beams:
            finish(ids, total)
    return finished[:n_return]


def search(model, source, source_mask, args):
    found = []
    for row in range(source.shape[0]):
        length = int(source_mask[row].sum())
        one, mask = source[row:row + 1, :length], source_mask[row:row + 1, :length]
        encoded = model.encode(one, mask)[-1]

        def step(rows):
            n = len(rows)
            hidden = model.decode(torch.tensor(rows), encoded.expand(n, -1, -1), mask.expand(n, -1))
            return model.generator(hidden[-1][:, -1]).log_softmax(dim=-1)

        if args["num_beams"] == 1:
            found += search_greedy(step, args["max_length"])
        else:
            found += search_beam(step, args["max_length"], args["num_beams"], args["length_penalty"],
                                 args["early_stopping"], args.get("num_return_sequences", 1))
    return found


# ---- recording -----------------------------------------------------------------------------------------------------

def write_safetensors(path, tensors, metadata=None):
    header, data = {"__metadata__": metadata} if metadata else {}, b""
    for name in sorted(tensors):
        t = tensors[name].detach().contiguous()
        is_float = t.dtype.is_floating_point
        raw = (t.float() if is_float else t.int()).numpy().tobytes()
        header[name] = dict(dtype="F32" if is_float else "I32", shape=list(t.shape),
                            data_offsets=[len(data), len(data) + len(raw)])
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def draw_batch(c):
    """Random sentences between <s> and </s>, and random answers."""
    n_source, n_target = (max(pair[side] for pair in c["lengths"]) for side in (0, 1))
    source = torch.full((len(c["lengths"]), n_source), PAD)
    target, labels = torch.full((len(c["lengths"]), n_target), PAD), torch.full((len(c["lengths"]), n_target), -100)
    for row, (a, b) in enumerate(c["lengths"]):
        source[row, :a] = torch.randint(4, c["src_vocab_size"], (a,))
        source[row, a - 1] = EOS
        words = torch.randint(4, c["tgt_vocab_size"], (b,))
        words[b - 1] = EOS
        labels[row, :b] = words
        target[row, 0] = BOS
        target[row, 1:b] = words[:-1]
    mask = lambda side, width: torch.tensor([[1] * pair[side] + [0] * (width - pair[side]) for pair in c["lengths"]])
    return dict(input_ids=source, attention_mask=mask(0, n_source), decoder_input_ids=target,
                decoder_attention_mask=mask(1, n_target), labels=labels)


def loss_of(model, batch, smoothing):
    logits = model.logits(batch["input_ids"], batch["attention_mask"], batch["decoder_input_ids"])
    return F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), ignore_index=-100,
                           label_smoothing=smoothing)


def adam(model, rate):
    return torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98), eps=EPSILON)


def train(model, batch):
    """Gradients before the first of three steps, the parameters behind the third, and the four losses."""
    optimizer, losses, gradients = adam(model, 1e-3), [], {}
    for step in range(4):
        optimizer.zero_grad()
        loss = loss_of(model, batch, 0.1)
        losses.append(float(loss))
        if step == 3:
            break
        loss.backward()
        if step == 0:
            gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
        optimizer.step()
    return gradients, {name: p.detach().clone() for name, p in model.named_parameters()}, losses


def build(c, state=None, dtype=torch.float32):
    model = Seq2SeqTransformer(c).train()  # dropout is 0; in eval torch would take a path that knows no bias
    if state:
        model.load_state_dict(state)
    return model.to(dtype)


def record(c, folder):
    torch.manual_seed(c["seed"])
    batch = draw_batch(c)
    model = build(c)
    for p in model.parameters():
        if p.dim() == 1:
            nn.init.normal_(p, mean=float(p.detach().mean().round()), std=0.1)
    optimizer = adam(model, 3e-3)
    for _ in range(c["steps"]):
        optimizer.zero_grad()
        loss_of(model, batch, 0.0).backward()
        optimizer.step()
    state = {name: t.detach().clone() for name, t in model.state_dict().items()}
    model, precise = build(c, state), build(c, state, torch.float64)

    encoder = model.encode(batch["input_ids"], batch["attention_mask"])
    decoder = model.decode(batch["decoder_input_ids"], encoder[-1], batch["attention_mask"])
    tensors = dict(batch, encoder_output=encoder[-1], logits=model.generator(decoder[-1]))
    for name, hidden in ("encoder", encoder), ("decoder", decoder):
        tensors.update({f"{name}_hidden.{i}": t for i, t in enumerate(hidden)})
        for i, layer in enumerate(getattr(model.transformer, name).layers):
            tensors[f"{name}_attn.{i}"] = layer.self_attn.weights
            if name == "decoder":
                tensors[f"cross_attn.{i}"] = layer.multihead_attn.weights

    searches = []
    for entry in SEARCHES:
        found, again = (search(m, batch["input_ids"], batch["attention_mask"], entry["args"]) for m in (model, precise))
        assert [ids for ids, _ in found] == [ids for ids, _ in again], f"{c['name']}, {entry['name']}: a close call"
        searches.append(dict(entry, sequences=[ids for ids, _ in found]))
        if found[0][1] is not None:
            searches[-1]["sequences_scores"] = [score for _, score in found]
    logits = precise.logits(batch["input_ids"], batch["attention_mask"], batch["decoder_input_ids"])
    real = batch["decoder_attention_mask"].bool()
    off = float((logits - tensors["logits"])[real].abs().max())

    plain = float(loss_of(model, batch, 0.0))
    gradients, after, losses = train(model, batch)
    _, precise_after, precise_losses = train(precise, batch)
    trained = {f"grad.{name}": t for name, t in gradients.items()}
    trained.update({f"after3.{name}": t for name, t in after.items()})
    moved = max(float((t - after[name]).abs().max()) for name, t in precise_after.items())
    assert moved < 5e-6, f"{c['name']}: after three steps f32 and f64 differ by {moved}"

    config = dict(model_type="nn_transformer", pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS, unk_token_id=UNK,
                  decoder_start_token_id=BOS, layer_norm_eps=1e-5, scale_embedding=True, position_encoding="relative",
                  max_distance=c["max_distance"], is_encoder_decoder=True, max_position_embeddings=64,
                  architectures=["Seq2SeqTransformer"], torch_dtype="float32",
                  **{key: c[key] for key in ("d_model", "nhead", "num_encoder_layers", "num_decoder_layers",
                                             "dim_feedforward", "src_vocab_size", "tgt_vocab_size", "activation",
                                             "norm_first")})
    golden = dict(case=c["name"], family="nn_transformer", seed=c["seed"],
                  weights=f"random, then {c['steps']} Adam steps on this batch with random answers",
                  provenance=f"tests/data/goldens/record_nn_relative.py on torch {torch.__version__}, CPU float32",
                  note="tensors are in golden.safetensors; compare only positions whose mask is 1; attention tensors "
                       "are [batch, head, query, key]; encoder_hidden.0 / decoder_hidden.0 is the embedding output, "
                       "the last one is after the final norm",
                  **{name: t.tolist() for name, t in batch.items()}, generate=searches,
                  checks=dict(float64_vs_float32_logits=off, logits_abs_max=float(logits[real].abs().max()),
                              same_ids_in_float64=True),
                  train=dict(label_smoothing=0.1, ignore_index=PAD,
                             reduction="mean over target words that are not padding",
                             optimizer=dict(kind="Adam", lr=1e-3, betas=[0.9, 0.98], eps=EPSILON, weight_decay=0.0,
                                            bias_correction=True), steps=3, same_batch_each_step=True,
                             loss_before_steps_1_2_3=losses[:3], loss_after_3_steps=losses[3],
                             float64_loss_before_steps_1_2_3=precise_losses[:3],
                             float64_loss_after_3_steps=precise_losses[3], loss_without_label_smoothing=plain))

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")
    write_safetensors(folder / "model.safetensors", state, {"format": "pt"})
    write_safetensors(folder / "golden.safetensors", tensors)
    write_safetensors(folder / "train.safetensors", trained)
    print(c["name"], "logits off by", off, "losses", losses)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for case in CASES:
        record(case, pathlib.Path(sys.argv[1]) / case["name"])
