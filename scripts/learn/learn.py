"""Learns the weights of the ranker from the features that the benches write. scripts/README.md says how.

  learn.py wordings [TABLE]
  learn.py entries-and-memories FEATURES [WEIGHTS]
  learn.py answers FEATURES [WEIGHTS]

Prints what each group scores with weights learnt on the others, then learns on all and, where WEIGHTS or TABLE is
given, puts what was learnt into that file. Needs numpy and scipy.
"""

import argparse
import glob
import json
import os
import re
import struct
from collections import Counter

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

HERE = os.path.dirname(os.path.abspath(__file__))
PROMPTS = os.path.join(HERE, "prompts.jsonl")
SETS = os.path.join(HERE, "../../benches/sets/*/prompts.jsonl")
FOLDS = 5
DECAY = 3e-4
# How much all notes count beside all conversations.
NOTES = 0.05
# How often each kind of prompt counts among notes.
KINDS = {"lexical": 17, "paraphrase": 12, "identifier": 10, "cjk": 10, "typo": 8, "multi": 7, "date": 3, "none": 23}
# How often a prompt counts that is asked of a whole set, of a few memories of it, or of seven sets; or without what
# helps with it.
SCENES = {"whole": 1.0, "few": 0.3, "together": 0.3, "bereft": 0.3, "few bereft": 0.15}
# Features of the decision that never speak against an answer, the more there is of them; the last is the wording.
WORDED = 13
RISING = [*range(0, 10), WORDED]
# What is above this step is known of every prompt: what speaks for an answer before anything is known.
ALWAYS = (0, -1.0)
# The feature that says how many memories there are, and for how many weights are learnt: six, sixty and 420.
MEMORIES, SIZES = 12, np.log1p([6, 60, 420])
EDGES = 10
STEPS_DECAY = 5e-4
# How often a wrong answer may be given, of prompts of our own sets that have none.
WRONG_MAX = 0.12
# How many memories are shown at most; how many of those that help and stand behind the best are to be kept, and how
# little is learnt of them.
SHOWN_MAX, BESIDE_KEPT, BESIDE_DECAY = 5, 0.8, 10.0
# What a word or a pair of words of a prompt can weigh at most, and in how many prompts it has to stand.
WORDING_MAX, WORDING_SEEN = 4.0, 2
WORDING_DECAY = 1 / 30
# What of a prompt counts as a word, as `crates/recall/src/prompt_classifier.rs` has it, and how many are read.
WORDING_WORD = re.compile(r"[A-Za-z](?:[A-Za-z']*[A-Za-z])?|[0-9]+|[?`{}()<>=:;\n]")
WORDS_MAX = 60


def folds(groups):
    """Groups that are left out together, each once."""
    return [set(groups[at::FOLDS]) for at in range(FOLDS)]


def logistic(scores, right):
    """How wrong each score is as the logarithm of the odds of being right, and the slope of that."""
    return np.logaddexp(0, scores) - right * scores, 1 / (1 + np.exp(-scores)) - right


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
    count = Counter(q["kind"] for q in notes)
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
        table = re.compile(rf"({name}: .*? = &?[\[(]\n).*?(\n[\])];)", re.DOTALL)
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
    for out in map(set.union, *map(folds, groups)):
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
    for at in set(range(features.shape[1])) - {MEMORIES}:
        values = np.unique(features[:, at])
        if len(values) > EDGES:
            values = np.unique(np.quantile(features[:, at], np.linspace(0.04, 0.96, EDGES)))
        else:
            values = values[:-1]
        found += [(at, round(float(value), 3)) for value in values]
    return sorted(set(found))


def above(features, steps):
    return np.stack([features[:, at] > edge for at, edge in steps], 1).astype(np.float64)


def sizes(features):
    """How much goes by what is learnt of few memories, of some and of many: parts of one, by their logarithm."""
    counts = np.array(SIZES)
    at = np.clip(features[:, MEMORIES], counts[0], counts[-1])
    return np.stack([np.interp(at, counts, row) for row in np.eye(len(counts))], 1)


def answer_weights(lines):
    """Steps that tell prompts with an answer from others: logistic, some of them never below zero.

    A row a step, its weights among few, some and many memories; the first row counts always.
    """
    features = np.array([one["answer"] for one in lines])
    right = np.array([float(bool(one["memory_gold"]) and "bereft" not in one["scene"]) for one in lines])
    count = Counter((one["scene"], one["kind"]) for one in lines)
    worth = np.array(
        [KINDS[one["kind"]] / count[one["scene"], one["kind"]] * SCENES[one["scene"]] for one in lines]
    )
    worth /= worth.sum()
    steps = [ALWAYS, *edges(features)]
    rows, size = above(features, steps), sizes(features)
    shape = (len(steps), len(SIZES))
    # What is learnt of some memories stays near zero, the rest near that.
    near = np.array([[1.0, -1, 0], [-1, 3, -1], [0, -1, 1]]) * STEPS_DECAY
    free = np.array([0.0] + [1.0] * (len(steps) - 1))[:, None]

    def loss(flat):
        weights = flat.reshape(shape)
        scores = (rows @ weights * size).sum(1)
        wrong, slope = logistic(scores, right)
        held = weights @ near * free
        slopes = rows.T @ ((worth * slope)[:, None] * size) + held
        return worth @ wrong + (held * weights).sum() / 2, slopes.ravel()

    bounds = [(0 if at in RISING and step != ALWAYS else None, None) for step in steps for at in [step[0]] * len(SIZES)]
    found = minimize(loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", bounds=bounds).x.reshape(shape)
    return [(step, weights) for step, weights in zip(steps, found) if np.abs(weights).max() >= 0.005]


def weighed(lines, weights):
    features = np.array([one["answer"] for one in lines])
    rows = above(features, [step for step, _ in weights])
    return (rows @ np.array([of for _, of in weights]) * sizes(features)).sum(1)


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


def beside_rows(question):
    """Of the four memories behind the best: their features, how they stand beside the best, and whether they help."""
    shown = range(1, min(SHOWN_MAX, len(question["memories"])))
    rows = [[*question["memory_features"][at], *question["beside"][at]] for at in shown]
    return rows, [question["memories"][at] in question["memory_gold"] for at in shown]


def beside_weights(rows, helps):
    """What tells memories that help from others, of those that stand behind the best: logistic."""
    spread = rows.std(0) + 1e-6
    spread[-1] = 1.0
    scaled = rows / spread

    def loss(weights):
        wrong, slope = logistic(scaled @ weights, helps)
        return wrong.sum() + BESIDE_DECAY / 2 * weights @ weights, scaled.T @ slope + BESIDE_DECAY * weights

    return minimize(loss, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B").x / spread


def beside(lines, path):
    questions = [one for one in lines if one["scene"] in ("whole", "few") and one["memory_gold"] and one["memories"]]
    found = [beside_rows(one) for one in questions]
    groups = np.concatenate([[one["group"]] * len(helps) for one, (_, helps) in zip(questions, found)])
    rows = np.array([row for of, _ in found for row in of])
    helps = np.array([one for _, of in found for one in of], dtype=np.float64)
    scores = np.zeros(len(rows))
    for names in folds(sorted(set(groups))):
        out = np.isin(groups, list(names))
        scores[out] = rows[out] @ beside_weights(rows[~out], helps[~out])
    bar = np.quantile(scores[helps > 0], 1 - BESIDE_KEPT)
    shown = helps[scores >= bar]
    print(f"beside the best, left out: {len(shown) / len(questions):.2f} a prompt, of which {shown.mean():.3f} help")
    weights = beside_weights(rows, helps)
    weights[-1] -= bar
    own = questions[0]["memory_features"].shape[1]
    listed = [f"{weight:.3f}" for weight in weights]
    written(path, "OF_BESIDE", [f"    [{', '.join(part)}]," for part in (listed[:own], listed[own:])])


def answers(lines, path):
    beside(lines, path)
    lines = [one for one in lines if one["scene"] in SCENES]
    for one, worded in zip(lines, left_out_wording(lines)):
        one["answer"][WORDED] = worded
    groups = sorted({one["group"] for one in lines})
    scores = np.zeros(len(lines))
    for out in folds(groups):
        weights = answer_weights([one for one in lines if one["group"] not in out])
        own = [at for at, one in enumerate(lines) if one["group"] in out]
        scores[own] = weighed([lines[at] for at in own], weights)
    without = [score for one, score in zip(lines, scores) if one["scene"] == "whole" and not one["memory_gold"]]
    bar = float(np.quantile(without, 1 - WRONG_MAX))
    answered("left out", lines, scores, bar)
    (always, start), *steps = answer_weights(lines)
    print(f"bar {bar:.2f}, {len(steps)} steps")
    steps = [(always, start - bar), *steps]
    shown = [f"    ({at}, {edge:.3f}, [{few:.2f}, {some:.2f}, {many:.2f}])," for (at, edge), (few, some, many) in steps]
    written(path, "OF_ANSWER", shown)


def grams(prompt):
    """The words of a prompt and each two that follow one another."""
    prompt = prompt.strip().replace("\u2019", "'").replace("\uff1f", "?")
    words = ["0" if word[0].isdigit() else word.lower() for word in WORDING_WORD.findall(prompt)[:WORDS_MAX]]
    return set(words).union(f"{a} {b}" for a, b in zip(["^"] + words, words + ["$"])) if words else set()


def wording_rows(prompts, known):
    rows = [grams(prompt) for prompt in prompts]
    found = [(at, known[gram], len(row) ** -0.5) for at, row in enumerate(rows) for gram in row if gram in known]
    owners, columns, values = zip(*found)
    return csr_matrix((values, (owners, columns)), shape=(len(rows), len(known)))


def wording_weights(prompts):
    """What words and pairs of words weigh that tell prompts of here from others: logistic, no weight too large."""
    texts, here = [prompt for _, prompt, _ in prompts], np.array([of_here for *_, of_here in prompts])
    seen = Counter(gram for text in texts for gram in grams(text))
    known = {gram: at for at, gram in enumerate(sorted(gram for gram in seen if seen[gram] >= WORDING_SEEN))}
    rows = wording_rows(texts, known)
    turned = rows.T.tocsr()

    def loss(weights):
        wrong, slope = logistic(rows @ weights, here)
        value = wrong.sum() + WORDING_DECAY / 2 * weights @ weights
        return value / len(here), (turned @ slope + WORDING_DECAY * weights) / len(here)

    bounds = [(-WORDING_MAX, WORDING_MAX)] * len(known)
    return known, minimize(loss, np.zeros(len(known)), jac=True, method="L-BFGS-B", bounds=bounds).x


def hashed(gram):
    """FNV-1a of 32 bits."""
    value = 0x811C9DC5
    for byte in gram.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def labelled():
    """Prompts with their group and whether what is known here helps: pairs by number, and those of our sets."""
    found = []
    with open(PROMPTS, encoding="utf-8") as file:
        for at, line in enumerate(file):
            one = json.loads(line)
            # The two of a pair stand next to each other.
            found.append((at // 2, one["prompt"], float(one["here"])))
    for path in sorted(glob.glob(SETS)):
        group = os.path.basename(os.path.dirname(path))
        with open(path, encoding="utf-8") as file:
            found += [(group, one["prompt"], float(bool(one["relevant"]))) for one in map(json.loads, file)]
    return found


def wording_of(prompts, weights):
    known, of = weights
    return wording_rows(prompts, known) @ of


def left_out_wording(lines):
    """How prompts of our sets are worded, by weights that were learnt without the set they are of."""
    prompts, scores = labelled(), np.zeros(len(lines))
    groups = sorted({one["group"] for one in lines})
    for out in folds(groups):
        weights = wording_weights([one for one in prompts if one[0] not in out])
        own = [at for at, one in enumerate(lines) if one["group"] in out]
        scores[own] = wording_of([lines[at]["prompt"] for at in own], weights)
    return scores


def wordings(path):
    prompts = labelled()
    groups = list(dict.fromkeys(group for group, *_ in prompts))
    right = {"of pairs": [], "of sets": []}
    for out in folds(groups):
        weights = wording_weights([one for one in prompts if one[0] not in out])
        left = [one for one in prompts if one[0] in out]
        for (group, _, here), score in zip(left, wording_of([one[1] for one in left], weights)):
            right["of sets" if isinstance(group, str) else "of pairs"].append((score > 0) == (here > 0))
    for title, of in right.items():
        print(f"{len(of)} prompts {title}, left out: {np.mean(of):.3f} told rightly")
    known, weights = wording_weights(prompts)
    order = sorted(known, key=lambda gram: weights[known[gram]])
    print(f"{len(known)} words and pairs; least of here: {', '.join(order[:12])!r}; most: {', '.join(order[-12:])!r}")
    steps = np.round(weights / WORDING_MAX * 127).astype(int)
    # Of two with one hash, which is rare, one is kept.
    kept = sorted({hashed(gram): steps[at] for gram, at in known.items() if steps[at]}.items())
    if path:
        with open(path, "wb") as file:
            file.write(b"QWT1" + struct.pack("<If", len(kept), WORDING_MAX / 127))
            file.write(b"".join(struct.pack("<I", gram) for gram, _ in kept))
            file.write(b"".join(struct.pack("<b", step) for _, step in kept))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_subparsers(dest="what", required=True)
    for name in ("wordings", "entries-and-memories", "answers"):
        of_name = what.add_parser(name)
        if name != "wordings":
            of_name.add_argument("features")
        of_name.add_argument("target", nargs="?")
    args = parser.parse_args()
    if args.what == "wordings":
        wordings(args.target)
    else:
        learn = entries_and_memories if args.what == "entries-and-memories" else answers
        learn(read(args.features), args.target)


if __name__ == "__main__":
    main()
