"""Learns vectors of tokens whose weighted sums say of texts what the encoder says, and which notes answer which prompts.

Begins with the vectors of the tokens by themselves. A pair is a prompt and a note that answers it in other words; of
many pairs together each prompt has to be nearest to its own note, and about as near to the others as the encoder has
it. What comes of several orders of the pairs is averaged.
"""

import functools
import json
import os
import re
import unicodedata

import numpy as np
from scipy.sparse import csr_matrix

HERE = os.path.dirname(os.path.abspath(__file__))
SMALL_WORDS = os.path.join(HERE, "../../crates/recall/data/stop.txt")

ORDERS = 4
EPOCHS = 7
PAIRS = 768
RATE = 0.006
# How soft the choice among notes is, for what is learnt and for the encoder; and how much goes by the encoder.
SOFTNESS, ENCODER_SOFTNESS, ENCODER_SHARE = 0.07, 0.04, 0.8
TOKENS_MAX = 60

# As `crates/recall/src/embedder.rs` takes a word for another form of a token.
BEGINNINGS = ["un", "non", "mis", "dis"]
ENDINGS = [
    ("iness", "y"), ("ness", ""), ("ily", "y"), ("ies", "y"), ("ied", "y"), ("ing", "e"),
    ("ers", "e"), ("er", "e"), ("ed", "e"), ("ly", "le"), ("s", ""), ("y", "e"),
]  # fmt: skip


def pairs():
    """The prompts and the notes of all pairs."""
    folder = os.path.join(HERE, "pairs")
    found = []
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        found += [(line["prompt"], line["memory"]) for line in lines]
    return found


class Words:
    """Cuts texts into tokens about as recall does, each with its weight."""

    def __init__(self, tokens, ranks):
        self.ids = {token: at for at, token in enumerate(tokens)}
        self.ranks = ranks
        with open(SMALL_WORDS, encoding="utf-8") as file:
            lines = [line for line in file if not line.startswith("#")]
        # The second line has what says something in English.
        self.small = {word for at, line in enumerate(lines) if at != 1 for word in line.split()}
        self.cut = functools.lru_cache(None)(self.cut)

    def without_ending(self, word):
        for ending, instead in ENDINGS:
            stem = word[: -len(ending)]
            if not word.endswith(ending) or len(stem) < 3:
                continue
            single = stem[:-1] if stem[-1] == stem[-2] or stem.endswith("ck") else stem
            for form in (stem, single, stem + instead):
                if form in self.ids:
                    return self.ids[form]
        return None

    def form_of(self, word):
        bare = [word[len(begin) :] for begin in BEGINNINGS if word.startswith(begin)]
        for form in [word] + [rest for rest in bare if len(rest) > 3]:
            found = self.ids.get(form, self.without_ending(form))
            if found is not None:
                return found
        return None

    def cut(self, word):
        whole = self.form_of(word)
        if whole is not None:
            return (whole,)
        tokens, at = [], 0
        while at < len(word):
            ends = range(len(word), at, -1)
            piece = next((end for end in ends if ("##" if at else "") + word[at:end] in self.ids), None)
            if piece is None:
                return ()
            tokens.append(self.ids[("##" if at else "") + word[at:piece]])
            at = piece
        return tuple(tokens)

    def of(self, text):
        """The tokens of a text with their weights: of each word once, the rarer the more."""
        text = unicodedata.normalize("NFKC", text)
        text = re.sub(r"([a-z])([A-Z])", r"\1 \2", text).lower()
        words = re.findall(r"[a-z]{2,40}", re.sub(r"n't\b", " ", text))
        found = []
        for word in dict.fromkeys(word for word in words if word not in self.small):
            tokens, whole = self.cut(word), self.form_of(word)
            rarity = 1.0 if whole is None else round(self.ranks[whole] / 255 * 16) / 16
            found += [(token, rarity / len(tokens) ** 0.5) for token in tokens]
        return found[:TOKENS_MAX]

    def matrix(self, texts):
        rows = [self.of(text) for text in texts]
        starts = np.cumsum([0] + [len(row) for row in rows])
        tokens = [token for row in rows for token, _ in row]
        weights = np.array([weight for row in rows for _, weight in row], np.float32)
        return csr_matrix((weights, tokens, starts), shape=(len(rows), len(self.ids)))


def unit(rows):
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def shares(scores, axis):
    likely = np.exp(scores - scores.max(axis, keepdims=True))
    return likely / likely.sum(axis, keepdims=True)


def across(slope, direction, length):
    """The part of a slope that turns a direction, for what the direction was made of."""
    return (slope - (slope * direction).sum(1, keepdims=True) * direction) / length


def learnt(start, sides, said, seed):
    """Vectors that began as `start`; Adam over the pairs in the order that the seed gives."""
    rng, vectors = np.random.default_rng(seed), start.copy()
    first, second = np.zeros_like(vectors), np.zeros_like(vectors)
    count = sides[0].shape[0]
    steps, step = EPOCHS * (count // PAIRS), 0
    for _ in range(EPOCHS):
        order = rng.permutation(count)
        for begin in range(0, count - PAIRS + 1, PAIRS):
            chosen = order[begin : begin + PAIRS]
            lengths = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
            units = vectors / lengths
            rows = [side[chosen] for side in sides]
            sums = [row @ units for row in rows]
            sizes = [np.linalg.norm(one, axis=1, keepdims=True) + 1e-6 for one in sums]
            prompts, notes = (one / size for one, size in zip(sums, sizes))
            near = prompts @ notes.T / SOFTNESS
            by_encoder = said[0][chosen] @ said[1][chosen].T / ENCODER_SOFTNESS
            own = np.eye(PAIRS, dtype=np.float32)
            pull = np.zeros_like(near)
            for axis in (0, 1):
                wanted = (1 - ENCODER_SHARE) * own + ENCODER_SHARE * shares(by_encoder, axis)
                pull += (shares(near, axis) - wanted) / (2 * SOFTNESS * PAIRS)
            slope = rows[0].T @ across(pull @ notes, prompts, sizes[0])
            slope += rows[1].T @ across(pull.T @ prompts, notes, sizes[1])
            slope = across(slope, units, lengths)
            step += 1
            rate = RATE * min(1, step / 30) * (1 - step / (steps + 1))
            met = np.unique(np.concatenate([row.indices for row in rows]))
            first[met] = 0.9 * first[met] + 0.1 * slope[met]
            second[met] = 0.99 * second[met] + 0.01 * slope[met] ** 2
            vectors[met] -= rate * first[met] / (np.sqrt(second[met]) + 1e-8)
    return unit(vectors)


def text_vectors(encoder, tokens, ranks, start):
    """Vectors of tokens for texts, of unit length."""
    words = Words(tokens, ranks)
    sides = list(zip(*pairs()))
    matrices = [words.matrix(side) for side in sides]
    known = np.flatnonzero(np.all([np.diff(matrix.indptr) > 0 for matrix in matrices], axis=0))
    said = [unit(encoder.each([encoder.cut(side[at]) for at in known])) for side in sides]
    matrices = [matrix[known] for matrix in matrices]
    start = unit(start.astype(np.float32))
    return unit(sum(learnt(start, matrices, said, seed) for seed in range(1, ORDERS + 1)))
