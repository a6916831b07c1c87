"""Learns the weights of the ranker from the features that the benches write. README.md says how.

  learn.py entries-and-memories FEATURES [WEIGHTS]
  learn.py answers FEATURES [WEIGHTS]

Prints what each group scores with weights learnt on the others, then learns on all and, where WEIGHTS is given, puts
what was learnt into that file. Needs numpy and scipy.
"""

import argparse
import json
import re

import numpy as np
from scipy.optimize import minimize

FOLDS = 5
DECAY = 3e-4
# How much all notes count beside all conversations.
NOTES = 0.05
# How often each kind of prompt counts among notes.
KINDS = {"lexical": 17, "paraphrase": 12, "identifier": 10, "cjk": 10, "typo": 8, "multi": 7, "date": 3, "none": 23}
# How often a prompt counts that is asked of seven sets together, or without what helps with it.
SCENES = {"whole": 1.0, "together": 0.3, "bereft": 0.15}
# Features of the decision that never speak against an answer, the more there is of them; and those that never speak
# for one.
RISING, FALLING = range(0, 10), [12]
EDGES = 10
STEPS_DECAY = 5e-4
# How often a wrong answer may be given, of prompts of our own sets that have none.
WRONG_MAX = 0.12


def read(path):
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    for one in lines:
        for name in ("entry_features", "memory_features", "answer"):
            if name in one:
                one[name] = np.array(one[name], dtype=np.float64)
    return [one for one in lines if one["group"] != "given"]


def learnt(rows, alone, worths, steps=250, rate=0.1):
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

    worth = (right if alone else right / summed(right)) * np.array(worths)[owner]
    weights = np.zeros(features.shape[1])
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, steps + 1):
        scores = features @ weights
        likely = np.exp(scores - np.maximum.reduceat(scores, starts)[owner])
        wrong = likely * (1 - right)
        rivals = summed(wrong)
        missing = worth * rivals / (likely + rivals)
        pull = wrong / np.maximum(rivals, 1e-30) * summed(missing) - missing
        slope = DECAY * weights + features.T @ pull / sum(worths)
        first = 0.9 * first + 0.1 * slope
        second = 0.999 * second + 0.001 * slope * slope
        weights = weights - rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return weights


def marked(features, names, gold):
    """The rows of a question and which are right, if any is."""
    right = np.array([name in gold for name in names], dtype=np.float64)
    return [(features, right)] if right.any() else []


def entry_weights(talks):
    rows = [row for q in talks for row in marked(q["entry_features"], q["entries"], set(q["gold"]))]
    return learnt(rows, False, [1.0] * len(rows))


def memory_features(question, weights):
    """What the ranker makes of the scores of a memory's entries, before the rest, and where that counts again."""
    scores = question["entry_features"] @ weights
    owners = np.array(question["owners"])
    features = question["memory_features"].copy()
    for number, row in enumerate(features):
        own = np.sort(scores[owners == number])[::-1]
        best = own[0]
        little = row[20] / row[13] if row[13] > 0 else 0.0
        row[:3] = best, own[:3].mean(), np.log(np.exp(own[:8] - best).sum()) + best
        row[22] = little * best
    return features


def memory_weights(talks, notes, of_entry):
    count = {}
    for q in notes:
        count[q["kind"]] = count.get(q["kind"], 0) + 1
    rows, worths = [], []
    for questions in (talks, notes):
        found = [
            (row, KINDS[q["kind"]] / count[q["kind"]] if questions is notes else 1.0)
            for q in questions
            for row in marked(memory_features(q, of_entry), q["memories"], set(q["memory_gold"]))
        ]
        share = NOTES * len(talks) / sum(worth for _, worth in found) if questions is notes else 1.0
        rows += [row for row, _ in found]
        worths += [worth * share for _, worth in found]
    return learnt(rows, True, worths)


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
        if "gold" in question:
            turns.append(
                score(set(question["gold"]), ordered(question["entries"], question["entry_features"] @ of_entry))
            )
        made = memory_features(question, of_entry) @ of_memory
        memories.append(score(set(question["memory_gold"]), ordered(question["memories"], made)))
    return turns, memories


def show(title, rows):
    print("{}: recall@5 {:.3f} recall@10 {:.3f} recall@20 {:.3f} MRR {:.3f}".format(title, *np.mean(rows, 0)))


def written(path, name, lines):
    """Puts the lines of a table in place of those that a file of weights has."""
    if path:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        table = re.compile(rf"({name}: .*? = &?\[\n).*?(\n\];)", re.DOTALL)
        text, count = table.subn(lambda found: found.group(1) + "\n".join(lines) + found.group(2), text)
        assert count == 1, name
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def entries_and_memories(lines, path):
    lines = [one for one in lines if one["scene"] in ("talk", "whole") and one["memory_gold"] and one["entries"]]
    talks = [one for one in lines if one["scene"] == "talk"]
    notes = [one for one in lines if one["scene"] == "whole"]
    groups = [sorted({one["group"] for one in of}) for of in (talks, notes)]
    turns, sessions, memories = [], [], []
    for fold in range(FOLDS):
        out = {name for of in groups for name in of[fold::FOLDS]}
        kept = [[one for one in of if one["group"] not in out] for of in (talks, notes)]
        of_entry = entry_weights(kept[0])
        of_memory = memory_weights(*kept, of_entry)
        own = [[one for one in of if one["group"] in out] for of in (talks, notes)]
        found = evaluate(own[0], of_entry, of_memory)
        turns, sessions = turns + found[0], sessions + found[1]
        memories += evaluate(own[1], of_entry, of_memory)[1]
    show("turns, left out", turns)
    show("sessions, left out", sessions)
    show("notes, left out", memories)
    of_entry = entry_weights(talks)
    of_memory = memory_weights(talks, notes, of_entry)
    turns, sessions = evaluate(talks, of_entry, of_memory)
    show("turns, all", turns)
    show("sessions, all", sessions)
    show("notes, all", evaluate(notes, of_entry, of_memory)[1])
    for name, weights in (("OF_ENTRY", of_entry), ("OF_MEMORY", of_memory)):
        shown = [f"{weight:.3f}," for weight in weights]
        rows = ["    " + " ".join(shown[at : at + 12]) for at in range(0, len(shown), 12)]
        print("\n".join([name] + rows))
        written(path, name, rows)


def edges(features):
    """Numbers that part the values of each feature into about as many each."""
    found = []
    for at in range(features.shape[1]):
        values = np.unique(features[:, at])
        if len(values) > EDGES:
            values = np.unique(np.quantile(features[:, at], np.linspace(0.04, 0.96, EDGES)))
        else:
            values = values[:-1]
        found += [(at, round(float(value), 3)) for value in values]
    return sorted(set(found))


def above(features, steps):
    return np.stack([features[:, at] > edge for at, edge in steps], 1).astype(np.float64)


def answer_weights(lines):
    """Steps that tell prompts with an answer from others: logistic, some of them never below zero."""
    features = np.array([one["answer"] for one in lines])
    right = np.array([float(bool(one["memory_gold"]) and one["scene"] != "bereft") for one in lines])
    count = {}
    for one in lines:
        count[one["scene"], one["kind"]] = count.get((one["scene"], one["kind"]), 0) + 1
    worth = np.array(
        [KINDS[one["kind"]] / count[one["scene"], one["kind"]] * SCENES[one["scene"]] for one in lines]
    )
    worth /= worth.sum()
    steps = edges(features)
    rows = above(features, steps)

    def loss(weights):
        scores = rows @ weights[1:] + weights[0]
        wrong = np.logaddexp(0, scores) - right * scores
        slope = worth * (1 / (1 + np.exp(-scores)) - right)
        value = worth @ wrong + STEPS_DECAY / 2 * weights[1:] @ weights[1:]
        return value, np.concatenate([[slope.sum()], rows.T @ slope + STEPS_DECAY * weights[1:]])

    bounds = [(None, None)]
    bounds += [(0 if at in RISING else None, 0 if at in FALLING else None) for at, _ in steps]
    found = minimize(loss, np.zeros(len(steps) + 1), jac=True, method="L-BFGS-B", bounds=bounds)
    kept = [(step, weight) for step, weight in zip(steps, found.x[1:]) if abs(weight) >= 0.005]
    return found.x[0], kept


def weighed(lines, weights):
    start, steps = weights
    rows = above(np.array([one["answer"] for one in lines]), [step for step, _ in steps])
    return start + rows @ np.array([weight for _, weight in steps])


def answered(title, lines, scores, bar):
    """How often a prompt is answered that has an answer, by kind as often as KINDS says; and how often others are."""
    for scene in SCENES:
        of = [(one, score) for one, score in zip(lines, scores) if one["scene"] == scene]
        shares = {}
        for one, score in of:
            kind = one["kind"] if one["memory_gold"] else "none"
            shares.setdefault(kind, []).append(score >= bar)
        shares = {kind: np.mean(of) for kind, of in shares.items()}
        kinds = [kind for kind in KINDS if kind in shares and kind != "none"]
        mean = sum(KINDS[kind] * shares[kind] for kind in kinds) / sum(KINDS[kind] for kind in kinds)
        none = f", without an answer {shares['none']:.3f}" if "none" in shares else ""
        other = f", in other words {shares['paraphrase']:.3f}"
        print(f"{title}, {scene}: answered {mean:.3f}{other}{none}")


def answers(lines, path):
    lines = [one for one in lines if one["scene"] in SCENES]
    groups = sorted({one["group"] for one in lines})
    scores = np.zeros(len(lines))
    for fold in range(FOLDS):
        out = set(groups[fold::FOLDS])
        weights = answer_weights([one for one in lines if one["group"] not in out])
        own = [at for at, one in enumerate(lines) if one["group"] in out]
        scores[own] = weighed([lines[at] for at in own], weights)
    without = [score for one, score in zip(lines, scores) if one["scene"] == "whole" and not one["memory_gold"]]
    bar = float(np.quantile(without, 1 - WRONG_MAX))
    answered("left out", lines, scores, bar)
    start, steps = answer_weights(lines)
    print(f"bar {bar:.2f}, {len(steps)} steps")
    # The first is what speaks for an answer before anything is known: every feature is above that.
    steps = [((0, -1.0), start - bar), *steps]
    written(path, "OF_ANSWER", [f"    ({at}, {edge:.3f}, {weight:.2f})," for (at, edge), weight in steps])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["entries-and-memories", "answers"])
    parser.add_argument("features")
    parser.add_argument("weights", nargs="?")
    args = parser.parse_args()
    learn = entries_and_memories if args.what == "entries-and-memories" else answers
    learn(read(args.features), args.weights)


if __name__ == "__main__":
    main()
