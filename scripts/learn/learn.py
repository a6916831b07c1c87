"""Learns the weights of the ranker from the features that the benches write. scripts/README.md says how.

  learn.py wordings [TABLE]
  learn.py entries-and-memories FEATURES [WEIGHTS]
  learn.py answers FEATURES [WEIGHTS]
  learn.py encoder-entries-and-memories FEATURES WEIGHTS
  learn.py encoder-answers FEATURES [WEIGHTS]

The last two learn the tables for the encoder, from features that the benches wrote with `--encoder`.
Prints the scores of each group with weights that were learned on the others. Then learns on all groups and, if WEIGHTS
or TABLE is given, writes the weights into that file. Needs numpy and scipy.
"""

import argparse
import glob
import json
import os
import re
import struct
from collections import Counter, defaultdict

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

HERE = os.path.dirname(os.path.abspath(__file__))
PROMPTS = os.path.join(HERE, "prompts.jsonl")
SETS = os.path.join(HERE, "../../benches/sets/*/prompts.jsonl")
FOLDS = 5
WEIGHT_DECAY = 3e-4
# Groups whose name begins so are held out: they are measured and never learned from.
HELD_OUT = ("given", "ben/")
# Weight of each source of questions: conversations, our own sets, and the mixed sets.
SOURCES = {"talk": 1.0, "sets": 0.5, "mix": 1.0}
# Frequency of each kind of prompt in the sets, relative to the others.
KINDS = {"lexical": 17, "paraphrase": 12, "identifier": 10, "cjk": 10, "typo": 8, "multi": 7, "date": 3, "none": 23}
KIND_OTHER = 10
# Weight of a prompt by its situation: with the whole set, with a few memories of it, with seven sets, and without the
# memories that help.
SITUATIONS = {"whole": 1.0, "few": 0.3, "together": 0.3, "removed": 0.3, "few, removed": 0.15}

# Features of entries that may count against one: that it asks, or follows a question, or is long. No other may.
ENTRY_FREE = [15, 16, 17]
# Features of entries with a lower bound: an identifier that few entries have is stronger than nearness.
ENTRY_LEAST = {23: 8.0, 24: 1.0}
# Features of memories that may count against one: those relative to the best memory correct each other. The last five
# are absolute and may not.
MEMORY_FREE = list(range(27))
MEMORY_LEAST = {27: 4.0}
# Index of a memory's features: copies that count at low coverage.
BEST_LOW, TEXT_LOW, TEXT = 22, 20, 13

# Features of the decision to answer. More of these never counts against an answer; the last is the wording.
WORDED = 20
ENCODER = [22, 23, 24]
RISING = [*range(0, 14), WORDED, *ENCODER]
# More of these never counts for an answer.
FALLING = [16, 18]
# Features that say something about prompts in other languages.
FOREIGN = [0, 1, 10, 11, 13, 14, 15, 16, 17, 18]
# The first rule always applies: its threshold is below every value.
ALWAYS = (0, -1.0)
# Feature of the number of memories, and the sizes that weights are learned for: 6, 60 and 420 memories.
MEMORIES, SIZES = 19, np.log1p([6, 60, 420])
THRESHOLDS = 8
THRESHOLD_DECAY = 1e-3
# Share of the prompts without an answer that get one: by the strict threshold and by that of an explicit question, each in
# English and in other languages.
WRONG_STRICT, WRONG_LENIENT = (0.12, 0.09), (0.48, 0.35)
# The same two with the encoder, in English.
ENCODER_WRONG_STRICT, ENCODER_WRONG_LENIENT = 0.12, 0.60
# Number of features that compare a runner-up with the best: without and with the encoder.
RUNNER_UP_LEN, ENCODER_RUNNER_UP_LEN = 3, 5
# Number of memories that are shown, share of helpful runners-up that are kept, and weight decay for those.
SHOWN_MAX, RUNNERS_UP_KEPT, RUNNER_UP_DECAY = 3, 0.6, 10.0
# Maximum weight of a word or pair of words in the wording, and the number of prompts that must have it.
WORDING_MAX, WORDING_SEEN = 4.0, 2
WORDING_DECAY = 1 / 30
# Words of a prompt, as in `crates/recall/src/prompt_classifier.rs`, and how many are read.
WORDING_WORD = re.compile(r"[A-Za-z](?:[A-Za-z']*[A-Za-z])?|[0-9]+|[?`{}()<>=:;\n]")
WORDS_MAX = 60


def folds(groups):
    """Returns sets of groups; each group is left out once."""
    return [set(groups[at::FOLDS]) for at in range(FOLDS)]


def logistic(scores, right):
    """Returns the logistic loss of each score and its slope."""
    return np.logaddexp(0, scores) - right * scores, 1 / (1 + np.exp(-scores)) - right


def read(path):
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    lines = [one for one in lines if not one["group"].startswith(HELD_OUT)]
    for one in lines:
        for name in ("entry_features", "entry_similarities", "memory_features", "answer", "runner_up"):
            if name in one:
                one[name] = np.array(one[name], dtype=np.float64)
    return lines


def source(one):
    return "talk" if one["scene"] == "talk" else "mix" if "/" in one["group"] else "sets"


def least_weights(count, free, least):
    """Returns the lower bound of each weight."""
    bounds = np.zeros(count)
    bounds[free] = -np.inf
    for at, bound in least.items():
        bounds[at] = bound
    return bounds


def learn(rows, alone, worths, least, steps=300, rate=0.1):
    """Learns weights that make each right row of a question likelier than its wrong ones; Adam on the whole set.

    Right rows do not compete with each other. With `alone` each counts as much as the one of a question with a single
    one; otherwise those of a question count that much together. No weight falls below `least`.
    """
    features = np.concatenate([of for of, _ in rows])
    right = np.concatenate([of for _, of in rows])
    counts = [len(of) for _, of in rows]
    starts, owner = np.cumsum([0] + counts[:-1]), np.repeat(np.arange(len(rows)), counts)
    worths = np.array(worths) / np.sum(worths)

    def summed(numbers):
        return np.add.reduceat(numbers, starts)[owner]

    worth = (right if alone else right / summed(right)) * worths[owner]
    weights = np.maximum(np.zeros(features.shape[1]), least)
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, steps + 1):
        scores = features @ weights
        likely = np.exp(scores - np.maximum.reduceat(scores, starts)[owner])
        wrong = likely * (1 - right)
        rivals = summed(wrong)
        missing = worth * rivals / (likely + rivals)
        pull = wrong / np.maximum(rivals, 1e-30) * summed(missing) - missing
        slope = WEIGHT_DECAY * weights + features.T @ pull
        first = 0.9 * first + 0.1 * slope
        second = 0.999 * second + 0.001 * slope * slope
        weights = weights - rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
        weights = np.maximum(weights, least)
    return weights


def marked(features, names, gold):
    """Returns the rows of a question and which are right; nothing if none is."""
    right = np.array([name in gold for name in names], dtype=np.float64)
    return [(features, right)] if right.any() else []


def entry_gold(one):
    """Returns the entries that answer: those with the needle, or all of a helpful memory."""
    if one.get("gold"):
        return set(one["gold"])
    memories = {at for at, name in enumerate(one["memories"]) if name in one["memory_gold"]}
    return {name for name, owner in zip(one["entries"], one["owners"]) if owner in memories}


def balanced(questions, rows_of):
    """Returns rows and their weights: each source, and each kind of prompt within it, counts by its share."""
    found = [(one, row) for one in questions for row in rows_of(one)]
    kind = lambda one: (source(one), one.get("kind", ""))
    count = Counter(kind(one) for one, _ in found)
    worths = [KINDS.get(one.get("kind"), KIND_OTHER) / count[kind(one)] for one, _ in found]
    total = defaultdict(float)
    for (one, _), worth in zip(found, worths):
        total[source(one)] += worth
    worths = [worth / total[source(one)] * SOURCES[source(one)] for (one, _), worth in zip(found, worths)]
    return [row for _, row in found], worths


def entry_weights(questions):
    rows, worths = balanced(questions, lambda one: marked(one["entry_features"], one["entries"], entry_gold(one)))
    return learn(rows, False, worths, least_weights(rows[0][0].shape[1], ENTRY_FREE, ENTRY_LEAST))


def memory_features(question, weights):
    """Returns the features of memories with those that depend on the scores of entries computed again."""
    scores = question["entry_features"] @ weights
    owners = np.array(question["owners"])
    features = question["memory_features"].copy()
    for number, row in enumerate(features):
        own = np.sort(scores[owners == number])[::-1]
        best = own[0]
        uncovered = row[TEXT_LOW] / row[TEXT] if row[TEXT] > 0 else 0.0
        row[:3] = best, own[:3].mean(), np.log(np.exp(own[:8] - best).sum()) + best
        row[BEST_LOW] = uncovered * best
    return features


def memory_weights(questions, of_entry):
    rows_of = lambda one: marked(memory_features(one, of_entry), one["memories"], set(one["memory_gold"]))
    rows, worths = balanced(questions, rows_of)
    return learn(rows, True, worths, least_weights(rows[0][0].shape[1], MEMORY_FREE, MEMORY_LEAST))


def score(gold, names):
    found = [name in gold for name in names]
    first = found.index(True) if True in found else None
    recalls = [sum(found[:k]) / len(gold) for k in (1, 5, 10, 20)]
    return recalls + [0.0 if first is None else 1 / (first + 1)]


def ordered(names, scores):
    return [names[at] for at in np.argsort(-scores, kind="stable")]


def evaluate(questions, of_entry, of_memory):
    """Returns the scores of entries and of memories, by source or part."""
    found = defaultdict(list)
    for one in questions:
        name = one["group"] if source(one) == "mix" else source(one)
        if one.get("gold"):
            entries = ordered(one["entries"], one["entry_features"] @ of_entry)
            found[f"{name}, entries"].append(score(set(one["gold"]), entries))
        made = memory_features(one, of_entry) @ of_memory
        found[f"{name}, memories"].append(score(set(one["memory_gold"]), ordered(one["memories"], made)))
    return found


def show(title, found):
    for name, rows in sorted(found.items()):
        means = "recall@1 {:.3f} @5 {:.3f} @10 {:.3f} @20 {:.3f} MRR {:.3f}".format(*np.mean(rows, 0))
        print(f"{title}, {name}: {means}")


def write_table(path, name, lines):
    """Replaces the lines of a table in a file of weights."""
    if path:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        table = re.compile(rf"(\b{name}: [^=]* = &?[\[(]).*?([\])];)", re.DOTALL)
        text, count = table.subn(lambda found: "\n".join([found.group(1), *lines, found.group(2)]), text)
        assert count == 1, name
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def write_number(path, name, number):
    """Replaces a single number in a file of weights."""
    if path:
        with open(path, encoding="utf-8") as file:
            text, count = re.subn(rf"(\b{name}: f32 = )[^;]*;", rf"\g<1>{number};", file.read())
        assert count == 1, name
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def read_table(path, name):
    """Returns the numbers of a table in a file of weights."""
    with open(path, encoding="utf-8") as file:
        table = re.search(rf"\b{name}: [^=]* = \[(.*?)\];", file.read(), re.DOTALL)
    return np.array([float(number) for number in re.findall(r"-?\d+\.\d+", table.group(1))])


def group_folds(lines):
    """Returns sets of groups to leave out: a fifth of the conversations and sets, and of the parts of the mix."""
    names = defaultdict(set)
    for one in lines:
        names[source(one)].add(one["group"])
    return list(map(set.union, *(folds(sorted(of)) for of in names.values())))


def entries_and_memories(lines, path):
    lines = [one for one in lines if one["scene"] in ("talk", "whole") and one["memory_gold"] and one["entries"]]
    left_out = defaultdict(list)
    for out in group_folds(lines):
        kept = [one for one in lines if one["group"] not in out]
        of_entry = entry_weights(kept)
        of_memory = memory_weights(kept, of_entry)
        for name, rows in evaluate([one for one in lines if one["group"] in out], of_entry, of_memory).items():
            left_out[name] += rows
    show("left out", left_out)
    of_entry = entry_weights(lines)
    of_memory = memory_weights(lines, of_entry)
    show("all", evaluate(lines, of_entry, of_memory))
    for name, weights in (("OF_ENTRY", of_entry), ("OF_MEMORY", of_memory)):
        shown = [f"{weight:.3f}," for weight in weights]
        rows = ["    " + " ".join(shown[at : at + 12]) for at in range(0, len(shown), 12)]
        print("\n".join([name] + rows))
        write_table(path, name, rows)


def with_score(question, of_entry, of_memory, of_similarity):
    """Returns a question whose only features are the scores by words and the similarities by the encoder.

    The scores of memories use those of entries with `of_similarity` times the similarity.
    """
    similarities = question["entry_similarities"]
    entries = question["entry_features"] @ of_entry
    one = dict(question, entry_features=np.stack([entries, similarities], 1))
    made = memory_features(dict(question, entry_features=one["entry_features"]), np.array([1.0, of_similarity]))
    best = np.zeros(len(made))
    np.maximum.at(best, question["owners"], similarities)
    return dict(one, memory_features=np.stack([made @ of_memory, best], 1))


def encoder_weights(lines, of_entry, of_memory):
    """Learns the weight of a similarity in the score of an entry and of a memory; that of the score by words is 1."""
    found = []
    for key, gold, alone in (
        ("entry_features", lambda one: (one["entries"], entry_gold(one)), False),
        ("memory_features", lambda one: (one["memories"], set(one["memory_gold"])), True),
    ):
        of_similarity = found[0] if found else 0.0
        rows_of = lambda one: marked(with_score(one, of_entry, of_memory, of_similarity)[key], *gold(one))
        rows, worths = balanced(lines, rows_of)
        by_words, by_encoder = learn(rows, alone, worths, np.zeros(2))
        found.append(by_encoder / by_words)
    return found


def encoder_scores(lines, of_entry, of_memory, weights):
    """Returns the scores of entries and of memories with these two weights, by source or part."""
    found = defaultdict(list)
    for one in lines:
        own = with_score(one, of_entry, of_memory, weights[0])
        name = one["group"] if source(one) == "mix" else source(one)
        if one.get("gold"):
            names = ordered(one["entries"], own["entry_features"] @ [1.0, weights[0]])
            found[f"{name}, entries"].append(score(set(one["gold"]), names))
        names = ordered(one["memories"], own["memory_features"] @ [1.0, weights[1]])
        found[f"{name}, memories"].append(score(set(one["memory_gold"]), names))
    return found


def encoder_entries_and_memories(lines, path):
    of_entry, of_memory = read_table(path, "OF_ENTRY"), read_table(path, "OF_MEMORY")
    lines = [one for one in lines if one["scene"] in ("talk", "whole") and one["memory_gold"] and one["entries"]]
    left_out = defaultdict(list)
    for out in group_folds(lines):
        weights = encoder_weights([one for one in lines if one["group"] not in out], of_entry, of_memory)
        own = [one for one in lines if one["group"] in out]
        for name, rows in encoder_scores(own, of_entry, of_memory, weights).items():
            left_out[name] += rows
    show("encoder, left out", left_out)
    weights = encoder_weights(lines, of_entry, of_memory)
    for name, weight in zip(("ENCODER_OF_ENTRY", "ENCODER_OF_MEMORY"), weights):
        print(f"{name}: {weight:.2f}")
        write_number(path, name, f"{weight:.2f}")


def thresholds(features, used):
    """Returns thresholds that part the values of each feature into about equal counts."""
    found = []
    for at in set(used) - {MEMORIES}:
        values = np.unique(features[:, at])
        if len(values) > THRESHOLDS:
            values = np.unique(np.quantile(features[:, at], np.linspace(0.04, 0.96, THRESHOLDS)))
        else:
            values = values[:-1]
        found += [(at, round(float(value), 3)) for value in values]
    return sorted(set(found))


def exceeded(features, rules):
    return np.stack([features[:, at] > threshold for at, threshold in rules], 1).astype(np.float64)


def size_shares(features):
    """Returns the shares of the weights for few, some and many memories, interpolated by their logarithm."""
    counts = np.array(SIZES)
    at = np.clip(features[:, MEMORIES], counts[0], counts[-1])
    return np.stack([np.interp(at, counts, row) for row in np.eye(len(counts))], 1)


def helps(one):
    """Returns 1 if the first memory helps, a half if another of those that are shown does, else 0."""
    found = [name in one["memory_gold"] for name in one["memories"][:SHOWN_MAX]]
    return 1.0 if found[:1] == [True] else 0.5 if any(found) else 0.0


def prompt_weights(lines):
    """Returns the weight of each prompt by its situation and kind; sets and mix count by source."""
    kind = lambda one: (source(one), one["scene"], one["kind"])
    count = Counter(kind(one) for one in lines)
    worth = [KINDS.get(one["kind"], KIND_OTHER) / count[kind(one)] * SITUATIONS[one["scene"]] for one in lines]
    worth = np.array([of * SOURCES[source(one)] for of, one in zip(worth, lines)])
    return worth / worth.sum()


def answer_rules(lines, used):
    """Learns rules that tell prompts whose first memory helps from others: logistic, with monotone features.

    Returns a rule each with its weights for few, some and many memories; the first always applies.
    """
    features = np.array([one["answer"] for one in lines])
    right = np.array([helps(one) for one in lines])
    worth = prompt_weights(lines)
    rules = [ALWAYS, *thresholds(features, used)]
    rows, sizes = exceeded(features, rules), size_shares(features)
    shape = (len(rules), len(SIZES))
    # The weights for some memories stay near zero, the others near those.
    near = np.array([[1.0, -1, 0], [-1, 3, -1], [0, -1, 1]]) * THRESHOLD_DECAY
    free = np.array([0.0] + [1.0] * (len(rules) - 1))[:, None]

    def loss(flat):
        weights = flat.reshape(shape)
        scores = (rows @ weights * sizes).sum(1)
        wrong, slope = logistic(scores, right)
        held = weights @ near * free
        slopes = rows.T @ ((worth * slope)[:, None] * sizes) + held
        return worth @ wrong + (held * weights).sum() / 2, slopes.ravel()

    def bound(rule):
        if rule == ALWAYS:
            return None, None
        return (0 if rule[0] in RISING else None), (0 if rule[0] in FALLING else None)

    bounds = [bound(rule) for rule in rules for _ in SIZES]
    found = minimize(loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", bounds=bounds).x.reshape(shape)
    return [(rule, weights) for rule, weights in zip(rules, found) if np.abs(weights).max() >= 0.005]


def answer_scores(lines, rules):
    features = np.array([one["answer"] for one in lines])
    rows = exceeded(features, [rule for rule, _ in rules])
    return (rows @ np.array([of for _, of in rules]) * size_shares(features)).sum(1)


def answered(title, lines, scores, bar):
    """Prints how often a prompt with an answer gets one, and one without gets nothing, by situation and group."""
    rows = defaultdict(list)
    for one, score in zip(lines, scores):
        group = one["group"] if source(one) == "mix" else "sets"
        rows[group, one["scene"]].append((one, score >= bar))
    for (group, scene), of in sorted(rows.items()):
        has = [shown for one, shown in of if one["memory_gold"] and "removed" not in scene]
        helpful = [helps(one) == 1 for one, shown in of if shown]
        silent = [not shown for one, shown in of if not one["memory_gold"] or "removed" in scene]
        print(
            f"{title}, {group}, {scene}: answered {np.mean(has) if has else 0:.3f}, "
            f"first helps {np.mean(helpful) if helpful else 0:.3f}, silent {np.mean(silent) if silent else 0:.3f}"
        )


def runner_up_rows(question, compared):
    """Returns the features of the memories after the best, compared with it, and whether each helps."""
    shown = range(1, min(SHOWN_MAX, len(question["memories"])))
    rows = [[*question["memory_features"][at], *question["runner_up"][at][:compared]] for at in shown]
    return rows, [question["memories"][at] in question["memory_gold"] for at in shown]


def runner_up_weights(rows, helps):
    """Learns weights that tell helpful runners-up from others: logistic."""
    spread = rows.std(0) + 1e-6
    spread[spread < 1e-5] = 1.0
    scaled = rows / spread

    def loss(weights):
        wrong, slope = logistic(scaled @ weights, helps)
        return wrong.sum() + RUNNER_UP_DECAY / 2 * weights @ weights, scaled.T @ slope + RUNNER_UP_DECAY * weights

    return minimize(loss, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B").x / spread


def runners_up(lines, path, table, compared):
    questions = [one for one in lines if one["scene"] in ("whole", "few") and one["memory_gold"] and one["memories"]]
    found = [runner_up_rows(one, compared) for one in questions]
    groups = np.concatenate([[one["group"]] * len(helps) for one, (_, helps) in zip(questions, found)])
    rows = np.array([row for of, _ in found for row in of])
    helps = np.array([one for _, of in found for one in of], dtype=np.float64)
    scores = np.zeros(len(rows))
    for names in folds(sorted(set(groups))):
        out = np.isin(groups, list(names))
        scores[out] = rows[out] @ runner_up_weights(rows[~out], helps[~out])
    bar = np.quantile(scores[helps > 0], 1 - RUNNERS_UP_KEPT)
    shown = helps[scores >= bar]
    print(f"runners-up, left out: {len(shown) / len(questions):.2f} a prompt, of which {shown.mean():.3f} help")
    weights = runner_up_weights(rows, helps)
    own = questions[0]["memory_features"].shape[1]
    # The last of the first three comparisons is a constant 1.
    weights[own + RUNNER_UP_LEN - 1] -= bar
    listed = [f"{weight:.3f}" for weight in weights]
    write_table(path, table, [f"    [{', '.join(part)}]," for part in (listed[:own], listed[own:])])


def answers(lines, path, encoder=False):
    if encoder:
        runners_up(lines, path, "ENCODER_OF_BESIDE", ENCODER_RUNNER_UP_LEN)
    else:
        runners_up(lines, path, "OF_BESIDE", RUNNER_UP_LEN)
    lines = [one for one in lines if one["scene"] in SITUATIONS and one["memories"]]
    own_sets = [one for one in lines if source(one) == "sets"]
    for one, worded in zip(own_sets, left_out_wording(own_sets)):
        one["answer"][WORDED] = worded
    lenient = []
    every = range(len(lines[0]["answer"]))
    tables = [("OF_ANSWER", False, every), ("OF_FOREIGN_ANSWER", True, FOREIGN)]
    for table, foreign, used in [("ENCODER_OF_ANSWER", False, every)] if encoder else tables:
        # Prompts of other languages are few: all prompts tell what the words alone say.
        train = [one for one in lines if foreign or not one["foreign"]]
        judged = [at for at, one in enumerate(train) if one["foreign"] == foreign]
        scores = np.zeros(len(train))
        for out in group_folds(train):
            rules = answer_rules([one for one in train if one["group"] not in out], used)
            own = [at for at, one in enumerate(train) if one["group"] in out]
            scores[own] = answer_scores([train[at] for at in own], rules)
        own, scores = [train[at] for at in judged], scores[judged]
        none = np.array([one["scene"] == "whole" and not one["memory_gold"] for one in own])
        worth = prompt_weights(own)
        wrongs = WRONG_STRICT[foreign], WRONG_LENIENT[foreign]
        if encoder:
            wrongs = ENCODER_WRONG_STRICT, ENCODER_WRONG_LENIENT
        strict, low = (weighted_quantile(scores[none], worth[none], 1 - wrong) for wrong in wrongs)
        answered(f"{table}, left out", own, scores, strict)
        answered(f"{table}, explicit question, left out", own, scores, low)
        (always, start), *rules = answer_rules(train, used)
        print(f"{table}: strict {strict:.2f}, lenient {low:.2f}, {len(rules)} rules")
        lenient.append(low - strict)
        rules = [(always, start - strict), *rules]
        shown = [f"    ({at}, {of:.3f}, [{few:.2f}, {some:.2f}, {many:.2f}])," for (at, of), (few, some, many) in rules]
        write_table(path, table, shown)
    if encoder:
        write_number(path, "ENCODER_LENIENT_ANSWER_MIN", f"{lenient[0]:.2f}")
        return
    write_table(path, "LENIENT_ANSWER_MIN", ["    " + ", ".join(f"{bar:.2f}" for bar in lenient) + ","])


def weighted_quantile(values, weights, share):
    """Returns the value below which a share of the weight lies."""
    order = np.argsort(values)
    below = np.cumsum(weights[order]) / weights.sum()
    return float(values[order][min(np.searchsorted(below, share), len(order) - 1)])


def grams(prompt):
    """Returns the words of a prompt and each two that follow one another."""
    prompt = prompt.strip().replace("\u2019", "'").replace("\uff1f", "?")
    words = ["0" if word[0].isdigit() else word.lower() for word in WORDING_WORD.findall(prompt)[:WORDS_MAX]]
    return set(words).union(f"{a} {b}" for a, b in zip(["^"] + words, words + ["$"])) if words else set()


def wording_rows(prompts, known):
    rows = [grams(prompt) for prompt in prompts]
    found = [(at, known[gram], len(row) ** -0.5) for at, row in enumerate(rows) for gram in row if gram in known]
    owners, columns, values = zip(*found)
    return csr_matrix((values, (owners, columns)), shape=(len(rows), len(known)))


def wording_weights(prompts):
    """Learns weights of words and pairs that tell prompts about this project from others: logistic, bounded."""
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
    """Returns prompts with their group and whether a memory helps: pairs by number, and those of our sets."""
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
    """Returns how prompts of our sets are worded, by weights that were learned without their set."""
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
        print(f"{len(of)} prompts {title}, left out: {np.mean(of):.3f} right")
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
    learners = {
        "entries-and-memories": entries_and_memories,
        "answers": answers,
        "encoder-entries-and-memories": encoder_entries_and_memories,
        "encoder-answers": lambda lines, path: answers(lines, path, encoder=True),
    }
    for name in ("wordings", *learners):
        of_name = what.add_parser(name)
        if name != "wordings":
            of_name.add_argument("features")
        of_name.add_argument("target", nargs=None if name == "encoder-entries-and-memories" else "?")
    args = parser.parse_args()
    if args.what == "wordings":
        wordings(args.target)
    else:
        learners[args.what](read(args.features), args.target)


if __name__ == "__main__":
    main()
