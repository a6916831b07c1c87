"""Makes the table of token vectors that the crate `recall` carries. scripts/README.md says from what and how.

  distil.py OUT [--dims 192] [--means FILE]

Needs numpy, scipy and safetensors, and the package that holds the model. Reads no network.
"""

import argparse
import os
import re
import struct

import numpy as np
from encoder import Encoder
from texts import text_vectors

MAGIC = b"QTV2"
# What a text cut into plain Latin words can need: words, and what continues them. Digits are compared as
# they stand, so tokens with digits have no vector.
KEPT = re.compile(r"(##)?[a-z]+")
# The row of `the`: special tokens and single characters stand before it.
FIRST_WORD = 1996
# What a step is worth in standard deviations: best for a bell curve in four bits.
STEP, MOST = 0.335, 7


def reduced(means, dims):
    """The leading principal components, of unit length; the sign of each is fixed."""
    centred = (means - means.mean(0)).astype(np.float64)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    vectors = vectors[:, np.argsort(-values, kind="stable")[:dims]]
    vectors *= np.sign(vectors[np.abs(vectors).argmax(0), np.arange(dims)])
    points = centred @ vectors
    return points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-9)


def quantized(points):
    """Whole numbers of four bits, two a byte, and the step of each dimension."""
    steps = points.std(0) * STEP
    halves = (np.clip(np.rint(points / steps), -MOST, MOST).astype(np.int8) & 15).astype(np.uint8)
    return halves[:, 0::2] | halves[:, 1::2] << 4, steps.astype("<f4")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--dims", type=int, default=192)
    parser.add_argument("--means", help="keep what the model says of the tokens here, and take it from here")
    args = parser.parse_args()

    encoder = Encoder()
    if args.means and os.path.exists(args.means):
        means = np.load(args.means)
    else:
        means = encoder.each([[token] for token in range(len(encoder.vocabulary))])
        if args.means:
            np.save(args.means, means)
    kept = sorted((token.encode(), row) for row, token in enumerate(encoder.vocabulary) if KEPT.fullmatch(token))
    # The vocabulary stands in the order of frequency: how rare a word is, in sixteenths of a doubling.
    ranks = [min(255, int(16 * np.log2(1 + max(0, row - FIRST_WORD)))) for _, row in kept]
    of_words = reduced(means[[row for _, row in kept]], args.dims)
    of_texts = text_vectors(encoder, [token.decode() for token, _ in kept], ranks, of_words)
    words = b"\n".join(token for token, _ in kept)
    numbers, steps = zip(*(quantized(points.astype(np.float64)) for points in (of_words, of_texts)))
    with open(args.out, "wb") as file:
        file.write(MAGIC + struct.pack("<III", len(kept), args.dims, len(words)))
        file.write(b"".join(step.tobytes() for step in steps) + bytes(ranks) + words)
        file.write(b"".join(number.tobytes() for number in numbers))
    print(f"{len(kept)} tokens, twice {args.dims} dimensions of 4 bits, {os.path.getsize(args.out)} bytes")


if __name__ == "__main__":
    main()
