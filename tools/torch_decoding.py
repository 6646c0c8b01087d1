# SPDX-License-Identifier: Apache-2.0
#
# For bench-torch: decoding step by step with caches of keys and values, eagerly, with the parameters of a
# torch.nn.Transformer (post-norm, relu).
import time


class Decoding:
    """model: as bench-torch's make_model makes it."""

    def __init__(self, torch, model, most_tokens):
        self.torch, self.model = torch, model
        self.layers = list(model.transformer.decoder.layers)
        self.heads = self.layers[0].self_attn.num_heads
        self.d_model = self.layers[0].self_attn.embed_dim
        self.most = most_tokens

    def split(self, x):
        """[B, L, D] to [B, H, L, K]"""
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def attend(self, q, k, v):
        f = self.torch.nn.functional
        if hasattr(f, "scaled_dot_product_attention"):
            y = f.scaled_dot_product_attention(q, k, v)
        else:  # PyTorch 1
            scores = self.torch.matmul(q, k.transpose(-2, -1)) * q.shape[-1] ** -0.5
            y = self.torch.matmul(self.torch.softmax(scores, dim=-1), v)
        return y.transpose(1, 2).reshape(q.shape[0], -1, self.d_model)

    def start(self, memory, rows):
        """Keys and values of the source, each sentence `rows` times; room for those of the target."""
        f, d = self.torch.nn.functional, self.d_model
        memory = memory.repeat_interleave(rows, 0)
        size = (memory.shape[0], self.heads, self.most, d // self.heads)
        self.own, self.cross = [], []
        for layer in self.layers:
            attention = layer.multihead_attn
            both = f.linear(memory, attention.in_proj_weight[d:], attention.in_proj_bias[d:])
            self.cross.append([self.split(part).contiguous() for part in both.chunk(2, dim=-1)])
            self.own.append([memory.new_empty(size) for _ in range(2)])

    def step(self, ids, position):
        """ids [B]: tokens at `position`. Returns logits [B, V]."""
        f, d, model = self.torch.nn.functional, self.d_model, self.model
        x = model.tgt_tok_emb(ids).unsqueeze(1) * model.scale + model.positions[position]
        for layer, own, cross in zip(self.layers, self.own, self.cross):
            attention = layer.self_attn
            q, k, v = f.linear(x, attention.in_proj_weight, attention.in_proj_bias).chunk(3, dim=-1)
            for cache, new in zip(own, (k, v)):
                cache[:, :, position] = self.split(new)[:, :, 0]
            y = self.attend(self.split(q), own[0][:, :, : position + 1], own[1][:, :, : position + 1])
            x = layer.norm1(x + attention.out_proj(y))
            attention = layer.multihead_attn
            q = f.linear(x, attention.in_proj_weight[:d], attention.in_proj_bias[:d])
            x = layer.norm2(x + attention.out_proj(self.attend(self.split(q), *cross)))
            x = layer.norm3(x + layer.linear2(f.relu(layer.linear1(x))))
        norm = model.transformer.decoder.norm
        return model.generator(norm(x) if norm is not None else x)[:, 0]

    def reorder(self, rows):
        for own in self.own:
            for i in range(2):
                own[i] = own[i].index_select(0, rows)

    def generate(self, source, beam, tokens, start_id):
        """`tokens` tokens of each sentence, whatever they are. Returns the ids [B, tokens] of the best hypothesis, and
        the seconds of encoding and of all steps."""
        torch = self.torch

        def now():
            if source.device.type == "cuda":
                torch.cuda.synchronize()
            return time.perf_counter()

        with torch.inference_mode():
            begin = now()
            self.start(self.model.encode(source), beam)
            encoded = now()
            n = source.shape[0]
            ids = source.new_full((n * beam,), start_id)
            history = source.new_zeros((n * beam, 0))
            scores = torch.zeros((n, beam), device=source.device)
            scores[:, 1:] = float("-inf")  # all begin alike
            for position in range(tokens):
                logits = self.step(ids, position)
                if beam == 1:
                    ids = logits.argmax(-1)
                    history = torch.cat([history, ids.unsqueeze(1)], dim=1)
                    ids.tolist()  # a search looks at each token
                    continue
                sums = scores.unsqueeze(-1) + torch.log_softmax(logits.float(), dim=-1).view(n, beam, -1)
                best, where = torch.topk(sums.view(n, -1), 2 * beam)
                best.tolist(), where.tolist()  # likewise
                scores, where = best[:, :beam], where[:, :beam]
                vocabulary = logits.shape[-1]
                rows = (torch.div(where, vocabulary, rounding_mode="floor") + self.first(n, beam, where)).view(-1)
                ids = (where % vocabulary).view(-1)
                history = torch.cat([history.index_select(0, rows), ids.unsqueeze(1)], dim=1)
                self.reorder(rows)
            end = now()
            return history.view(n, beam, -1)[:, 0], encoded - begin, end - encoded

    def first(self, n, beam, like):
        return beam * self.torch.arange(n, device=like.device).unsqueeze(1)
