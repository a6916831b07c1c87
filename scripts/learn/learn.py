"""Learns the weights of the ranker from the features that the benches write. README.md says how.

  learn.py FEATURES

Prints what each conversation scores with weights learnt on the others, then weights learnt on all. Needs numpy.
"""

import argparse
import json

import numpy as np


def read(path):
    questions = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            one = json.loads(line)
            if one["entries"]:
                for level in ("entry", "memory"):
                    one[level + "_features"] = np.array(one[level + "_features"], dtype=np.float64)
                questions.append(one)
    return questions


def learnt(rows, alone, steps=250, rate=0.1, decay=3e-4):
    """Weights that make each right row of a question likelier than its wrong ones; Adam on the whole set.

    Right rows are no rivals of each other. With `alone` each counts as much as the one of a question that has but
    one; otherwise those of a question count that much together.
    """
    features = np.concatenate([of for of, _ in rows])
    right = np.concatenate([of for _, of in rows])
    counts = [len(of) for _, of in rows]
    starts, owner = np.cumsum([0] + counts[:-1]), np.repeat(np.arange(len(rows)), counts)

    def summed(numbers):
        return np.add.reduceat(numbers, starts)[owner]

    worth = right if alone else right / summed(right)
    weights = np.zeros(features.shape[1])
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, steps + 1):
        scores = features @ weights
        likely = np.exp(scores - np.maximum.reduceat(scores, starts)[owner])
        wrong = likely * (1 - right)
        rivals = summed(wrong)
        missing = worth * rivals / (likely + rivals)
        pull = wrong / np.maximum(rivals, 1e-30) * summed(missing) - missing
        slope = decay * weights + features.T @ pull / len(rows)
        first = 0.9 * first + 0.1 * slope
        second = 0.999 * second + 0.001 * slope * slope
        weights = weights - rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return weights


def marked(features, names, gold):
    """The rows of a question and which are right, if any is."""
    right = np.array([name in gold for name in names], dtype=np.float64)
    return [(features, right)] if right.any() else []


def entry_weights(questions, decay):
    rows = [row for q in questions for row in marked(q["entry_features"], q["entries"], set(q["gold"]))]
    return learnt(rows, alone=False, decay=decay)


def memory_features(question, weights):
    """What the ranker makes of the scores of a memory's entries, before the rest."""
    scores = question["entry_features"] @ weights
    owners = np.array(question["owners"])
    made = []
    for number, features in enumerate(question["memory_features"]):
        own = np.sort(scores[owners == number])[::-1]
        best = own[0]
        every = np.log(np.exp(own[:8] - best).sum()) + best
        made.append(np.concatenate([[best, own[:3].mean(), every], features[3:]]))
    return np.array(made)


def memory_weights(questions, of_entry, decay):
    rows = [
        row
        for q in questions
        for row in marked(memory_features(q, of_entry), q["memories"], set(q["memory_gold"]))
    ]
    return learnt(rows, alone=True, decay=decay)


def score(gold, names):
    found = [name in gold for name in names]
    first = found.index(True) if True in found else None
    recalls = [sum(found[:k]) / len(gold) for k in (5, 10, 20)]
    return recalls + [0.0 if first is None else 1 / (first + 1)]


def ordered(names, scores):
    return [names[at] for at in np.argsort(-scores, kind="stable")]


def evaluate(questions, of_entry, of_memory):
    turns, memories = [], []
    for question in questions:
        turns.append(score(set(question["gold"]), ordered(question["entries"], question["entry_features"] @ of_entry)))
        made = memory_features(question, of_entry) @ of_memory
        memories.append(score(set(question["memory_gold"]), ordered(question["memories"], made)))
    return turns, memories


def show(title, rows):
    print("{}: recall@5 {:.3f} recall@10 {:.3f} recall@20 {:.3f} MRR {:.3f}".format(title, *np.mean(rows, 0)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("features")
    parser.add_argument("--decay", type=float, default=3e-4)
    args = parser.parse_args()
    questions = read(args.features)
    turns, memories = [], []
    for group in sorted({q["group"] for q in questions}):
        others = [q for q in questions if q["group"] != group]
        of_entry = entry_weights(others, args.decay)
        of_memory = memory_weights(others, of_entry, args.decay)
        own_turns, own_memories = evaluate([q for q in questions if q["group"] == group], of_entry, of_memory)
        turns, memories = turns + own_turns, memories + own_memories
    show("entries, left out", turns)
    show("memories, left out", memories)
    of_entry = entry_weights(questions, args.decay)
    of_memory = memory_weights(questions, of_entry, args.decay)
    turns, memories = evaluate(questions, of_entry, of_memory)
    show("entries, all", turns)
    show("memories, all", memories)
    print("entry:", ", ".join(f"{weight:.2f}" for weight in of_entry))
    print("memory:", ", ".join(f"{weight:.2f}" for weight in of_memory))


if __name__ == "__main__":
    main()
