//! Compares entries that a person should look at together: they may repeat, replace or contradict each other.
//!
//! The results only become proposals, never edits. So words may be compared by their stems, and word lists may be
//! incomplete.

use std::collections::BTreeSet;

use jiff::civil::Date;
use memory::proposal::{EntryChange, EntryReference, Proposal, ProposalKind};

use super::dates;
use super::duplicate::NormalizedText;
use super::fingerprints::{
    EntryFingerprints, Fingerprint, FingerprintMap, FingerprintSet, TokenFingerprint,
    is_selection_enabled, significant_keys, token_fingerprints,
};
use super::frontmatter::first_words;
use super::lexicon::Class;
use super::snapshot::{ParsedEntry, Snapshot, StoredMemory};
use super::tokenize::{TextToken, TokenizedText};

/// Minimum share of an older entry's words, by weight, that a statement of change must repeat.
const CHANGE_OVERLAP_MIN: f64 = 0.5;

/// Minimum share if the newer statement does not mention the first word of the older one.
const OTHER_START_OVERLAP_MIN: f64 = 0.6;

/// Minimum number of content words of an entry that a longer one may repeat.
const REPEATED_WORDS_MIN: usize = 3;

/// Minimum number of content words of a statement in which some may have moved.
const MOVED_WORDS_MIN: usize = 4;

/// Maximum number of additional words in the longer entry.
const MORE_WORDS_MAX: usize = 3;

/// Function words that change the meaning, unlike most others.
const MEANINGFUL_FUNCTION_WORDS: &[&str] = &[
    "all", "some", "only", "both", "on", "off", "out", "before", "after", "without", "until",
    "from", "can", "may", "might", "could",
];

/// Words for `always`, in the languages of the lexicon.
const ALWAYS_WORDS: &[&str] = &[
    "always",
    "immer",
    "stets",
    "toujours",
    "siempre",
    "sempre",
    "altijd",
    "всегда",
    "总是",
    "总",
    "始终",
    "一直",
    "永远",
    "必ず",
    "常に",
    "いつも",
];

/// Number of entries that contain each word. Rare words weigh more.
#[derive(Default)]
pub(crate) struct DocumentFrequencies {
    entry_count: usize,
    by_key: FingerprintMap<Fingerprint, WordCount>,
    /// Whether words that are missing in the map are in no entry; else they were not counted.
    counts_all_words: bool,
}

#[derive(Clone, Copy, Default)]
struct WordCount {
    entries: usize,
    /// Number of the last entry with the word, from 1.
    last_entry: usize,
}

impl WordCount {
    const fn add(&mut self, entry: usize) {
        if self.last_entry != entry {
            *self = Self { entries: self.entries + 1, last_entry: entry };
        }
    }
}

impl DocumentFrequencies {
    /// Counts all words of these entries.
    pub(crate) fn from_entries<'a>(entries: impl IntoIterator<Item = &'a ParsedEntry>) -> Self {
        let mut frequencies = Self { counts_all_words: true, ..Self::default() };
        for entry in entries {
            frequencies.entry_count += 1;
            for key in entry.fingerprints().significant_keys() {
                frequencies.by_key.entry(key).or_default().add(frequencies.entry_count);
            }
        }
        frequencies
    }

    /// Creates frequencies in a number of entries; each word must be counted before it is asked for.
    pub(crate) fn in_entries(entry_count: usize) -> Self {
        Self { entry_count, ..Self::default() }
    }

    /// Counts these words, unless they are counted already. The entries must be all those of the frequencies.
    pub(crate) fn count_words<'a>(
        &mut self,
        keys: impl IntoIterator<Item = Fingerprint>,
        entries: impl Iterator<Item = &'a ParsedEntry>,
    ) {
        let keys = keys.into_iter().filter(|key| !self.by_key.contains_key(key));
        let mut counts: FingerprintMap<Fingerprint, WordCount> =
            keys.map(|key| (key, WordCount::default())).collect();
        if counts.is_empty() {
            return;
        }
        for (number, entry) in (1..).zip(entries) {
            for key in entry.fingerprints().significant_keys() {
                if let Some(count) = counts.get_mut(&key) {
                    count.add(number);
                }
            }
        }
        self.by_key.extend(counts);
    }

    /// Returns the number of entries with a word.
    pub(crate) fn entries_with(&self, key: &str) -> usize {
        let count = self.by_key.get(&Fingerprint::of(key));
        assert!(count.is_some() || self.counts_all_words, "the word was not counted");
        count.map_or(0, |count| count.entries)
    }

    /// Returns the inverse document frequency of a word.
    pub(crate) fn idf_of(&self, key: &str) -> f64 {
        Self::idf(self.entries_with(key), self.entry_count)
    }

    /// Returns the lowest and the highest inverse document frequency that a word may have.
    fn idf_bounds(&self, key: Fingerprint) -> (f64, f64) {
        let idf = |entries: usize| Self::idf(entries, self.entry_count);
        match self.by_key.get(&key) {
            Some(count) => (idf(count.entries), idf(count.entries)),
            None if self.counts_all_words => (idf(0), idf(0)),
            None => (idf(self.entry_count), idf(0)),
        }
    }

    /// Returns the inverse document frequency of a word that `with` of all `entries` have; always above 0.
    #[expect(clippy::cast_precision_loss, reason = "a count of entries is far below 2^52")]
    pub(crate) fn idf(with: usize, entries: usize) -> f64 {
        (1.0 + entries as f64 / with.max(1) as f64).ln()
    }
}

/// A relation between two entries that a person should decide on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryRelation {
    pub(crate) kind: ProposalKind,
    /// Likelihood that it is right, in percent.
    pub(crate) score: u8,
    /// Whether the older entry is the one to remove.
    pub(crate) removes_older: bool,
}

/// A statement to compare.
#[derive(Clone, Copy)]
pub(crate) struct ComparedStatement<'a> {
    pub(crate) text: &'a TokenizedText,
    pub(crate) source: &'a str,
    /// Whether it says that something changed.
    pub(crate) is_change: bool,
}

impl<'a> ComparedStatement<'a> {
    /// Returns the statement of an entry with its tokens.
    pub(crate) fn of_entry(entry: &'a ParsedEntry, text: &'a TokenizedText) -> Self {
        Self { text, source: entry.statement(), is_change: is_change(text) }
    }
}

/// Compares two statements; the second one is newer as far as that is known.
pub(crate) fn compare_statements(
    older: ComparedStatement<'_>,
    newer: ComparedStatement<'_>,
    frequencies: &DocumentFrequencies,
) -> Option<EntryRelation> {
    let (old, new) = (content_keys(older.text), content_keys(newer.text));
    let same_literals = literals(older.source) == literals(newer.source);
    let bare =
        |keys: &[(&str, bool)]| keys.iter().map(|(key, _)| (*key).to_owned()).collect::<Vec<_>>();
    let new_bare = bare(&new);
    if same_literals && (are_opposite(older, newer) || are_swapped(older, newer)) {
        return Some(EntryRelation {
            kind: ProposalKind::Contradiction,
            score: 70,
            removes_older: true,
        });
    }
    if let Some(relation) = update_by_date(older, newer) {
        return Some(relation);
    }
    let have_same_modifiers = meaningful_function_words(older.text)
        == meaningful_function_words(newer.text)
        && has_negation(older) == has_negation(newer);
    if same_literals && have_same_modifiers && old.len() >= 2 && has_same_content(older, newer) {
        return Some(EntryRelation {
            kind: ProposalKind::Repetition,
            score: 75,
            removes_older: false,
        });
    }
    let shares_first_word =
        old.first().is_some_and(|(first, _)| new_bare.iter().any(|key| key == first));
    let share = overlap(older, newer, frequencies);
    // A denial gives no new value, unless it says that the old one ended.
    let is_denied = has_negation(newer) && !has_negation(older) && !newer.text.has(Class::Gone);
    if newer.is_change
        && !is_denied
        && is_value_replaced(older.text, newer.text)
        && share >= CHANGE_OVERLAP_MIN
        && (shares_first_word || share >= OTHER_START_OVERLAP_MIN)
    {
        return Some(EntryRelation { kind: ProposalKind::Update, score: 60, removes_older: true });
    }
    let says_more =
        |few: &[(&str, bool)], many: &[(&str, bool)], (few_source, many_source): (&str, &str)| {
            few.len() >= REPEATED_WORDS_MIN
                && (few.len() + 1..=few.len() + MORE_WORDS_MAX).contains(&many.len())
                && is_subsequence(few, many)
                && literals(few_source).is_subset(&literals(many_source))
        };
    if !have_same_modifiers {
        None
    } else if says_more(&old, &new, (older.source, newer.source)) {
        Some(EntryRelation { kind: ProposalKind::Repetition, score: 50, removes_older: true })
    } else if says_more(&new, &old, (newer.source, older.source)) {
        Some(EntryRelation { kind: ProposalKind::Repetition, score: 50, removes_older: false })
    } else {
        None
    }
}

/// The fingerprints of a newer statement, to find the entries that may have a relation with it.
pub(crate) struct RelationFilter<'a> {
    newer: &'a [TokenFingerprint],
    /// Keys of the content words that are not light.
    keys: FingerprintSet,
    /// Words and keys of the content words.
    content: FingerprintSet,
    has_date: bool,
    is_change: bool,
}

impl<'a> RelationFilter<'a> {
    /// Creates a filter from the tokens of the newer statement; `is_change` as in [`ComparedStatement`].
    pub(crate) fn new(newer: &'a [TokenFingerprint], is_change: bool) -> Self {
        let content = newer.iter().filter(|token| token.is_content());
        Self {
            newer,
            keys: significant_keys(newer).collect(),
            content: content.flat_map(|token| [token.key, token.word]).collect(),
            has_date: newer.iter().any(TokenFingerprint::is_date),
            is_change,
        }
    }

    /// Checks the necessary conditions of [`compare_statements`].
    pub(crate) fn may_relate(
        &self,
        older: &EntryFingerprints,
        frequencies: &DocumentFrequencies,
    ) -> bool {
        self.may_repeat(&older.statement)
            || (self.has_date && self.may_update_by_date(&older.statement))
            || (self.is_change && self.may_share_enough(&older.statement, frequencies))
    }

    /// Checks the necessary condition of [`changes_value`].
    pub(crate) fn may_change_value(&self, older: &EntryFingerprints) -> bool {
        let (old, new) = (&older.statement, self.newer);
        !is_selection_enabled() || (old.len() == new.len() && plain_words(old).eq(plain_words(new)))
    }

    /// Checks whether one statement has all content words of the other, and at most a few more. This is necessary
    /// for a contradiction and for a repetition.
    pub(crate) fn may_repeat(&self, older: &[TokenFingerprint]) -> bool {
        if !is_selection_enabled() {
            return true;
        }
        // Repeated words count once.
        let mut shared: Vec<Fingerprint> = Vec::new();
        let mut other = [None; MORE_WORDS_MAX];
        for key in significant_keys(older) {
            if self.keys.contains(&key) {
                if !shared.contains(&key) {
                    shared.push(key);
                }
            } else if !other.contains(&Some(key)) {
                let Some(free) = other.iter_mut().find(|key| key.is_none()) else { return false };
                *free = Some(key);
            }
        }
        let missing = self.keys.len() - shared.len();
        shared.len() >= 2 && missing <= MORE_WORDS_MAX && (missing == 0 || other[0].is_none())
    }

    /// Checks whether the statements begin or end with the same words, apart from dates, as in [`update_by_date`].
    fn may_update_by_date(&self, older: &[TokenFingerprint]) -> bool {
        let keys = |tokens: &'_ [TokenFingerprint]| {
            let undated = tokens.iter().filter(|token| token.is_significant() && !token.is_date());
            undated.map(|token| token.key).collect::<Vec<_>>()
        };
        let (old, new) = (keys(older), keys(self.newer));
        shared_end(&old, &new) >= 2
    }

    /// Checks whether the newer statement may have enough of the older one's words, by weight, for an update.
    fn may_share_enough(
        &self,
        older: &[TokenFingerprint],
        frequencies: &DocumentFrequencies,
    ) -> bool {
        let (mut shared, mut other) = (0.0, 0.0);
        for token in older.iter().filter(|token| token.is_significant()) {
            let (lowest, highest) = frequencies.idf_bounds(token.key);
            if self.content.contains(&token.key) || self.content.contains(&token.word) {
                shared += highest;
            } else {
                other += lowest;
            }
        }
        // Sums in another order may differ by a rounding error.
        shared > 0.0 && shared * (1.0 + 1e-9) >= CHANGE_OVERLAP_MIN * (shared + other)
    }
}

/// Returns the words that are no numbers, days or months.
fn plain_words(tokens: &[TokenFingerprint]) -> impl Iterator<Item = Fingerprint> {
    tokens.iter().filter(|token| !token.is_value()).map(|token| token.word)
}

/// Checks whether the new words can replace those that the newer statement lacks. A name or number is not replaced
/// by
/// words alone (`The lead is Ines`, `The lead is now on vacation`).
fn is_value_replaced(older: &TokenizedText, newer: &TokenizedText) -> bool {
    let has_value = |text: &TokenizedText, other: &TokenizedText| {
        let is_new = |token: &&TextToken| !other.tokens.iter().any(|old| old.key == token.key);
        let is_value = |token: &TextToken| {
            token.is_name || token.is_acronym || token.has_digit() || token.value.is_some()
        };
        text.content_tokens().filter(is_new).any(is_value)
    };
    !has_value(older, newer) || has_value(newer, older)
}

/// Checks whether a newer statement is an older one with a single number, day or month changed.
pub(crate) fn changes_value(older: ComparedStatement<'_>, newer: ComparedStatement<'_>) -> bool {
    let is_value = |token: &TextToken| token.has_digit() || token.value.is_some();
    let words = |text: &TokenizedText| {
        text.tokens
            .iter()
            .filter(|token| !is_value(token))
            .map(|token| token.word.clone())
            .collect::<Vec<_>>()
    };
    let values = |text: &TokenizedText| {
        text.tokens
            .iter()
            .filter(|token| is_value(token))
            .map(|token| token.key.clone())
            .collect::<Vec<_>>()
    };
    let (old, new) = (values(older.text), values(newer.text));
    let changed = old.iter().zip(&new).filter(|(old, new)| old != new).count();
    old.len() == new.len()
        && changed == 1
        && older.text.tokens.len() - old.len() >= REPEATED_WORDS_MIN
        && words(older.text) == words(newer.text)
}

/// Returns the share of an older statement's words that a newer one has, by weight.
pub(crate) fn overlap(
    older: ComparedStatement<'_>,
    newer: ComparedStatement<'_>,
    frequencies: &DocumentFrequencies,
) -> f64 {
    // The language of a short text is a guess, and so are its stems; therefore the words themselves count too.
    let others: BTreeSet<&str> =
        newer.text.content_tokens().flat_map(|token| [token.key.as_str(), &token.word]).collect();
    let (mut all, mut shared) = (0.0, 0.0);
    for token in older.text.content_tokens().filter(|token| !token.is_light()) {
        let weight = frequencies.idf_of(&token.key);
        all += weight;
        if others.contains(token.key.as_str()) || others.contains(token.word.as_str()) {
            shared += weight;
        }
    }
    if all > 0.0 { shared / all } else { 0.0 }
}

/// Returns the proposal to remove one of two related entries.
pub(crate) fn relation_proposal(
    relation: EntryRelation,
    older: &EntryReference,
    newer: &EntryReference,
) -> Proposal {
    let (removed, kept) = if relation.removes_older { (older, newer) } else { (newer, older) };
    let what = match relation.kind {
        ProposalKind::Contradiction => "says the opposite of",
        ProposalKind::Update => "may be replaced by",
        ProposalKind::Repetition
        | ProposalKind::Expiry
        | ProposalKind::Misplacement
        | ProposalKind::Removal
        | ProposalKind::Review => "may say the same as",
    };
    let is_equal = NormalizedText::new(&removed.text) == NormalizedText::new(&kept.text);
    let reason = if is_equal && removed.path != kept.path {
        format!(
            "\u{201C}{}\u{201D} stands in {} and in {}.",
            first_words(&removed.text),
            kept.path,
            removed.path
        )
    } else {
        format!(
            "\u{201C}{}\u{201D} {what} \u{201C}{}\u{201D} in {}.",
            first_words(&removed.text),
            first_words(&kept.text),
            kept.path
        )
    };
    Proposal {
        kind: relation.kind,
        reason,
        score: relation.score,
        changes: vec![EntryChange {
            path: removed.path.clone(),
            old: Some(removed.text.clone()),
            new: None,
        }],
        relies_on: vec![kept.clone()],
        review: None,
    }
}

/// Returns at most `max` memories that share words with a text, those that share most first.
pub(crate) fn most_similar_memories<'a>(
    snapshot: &'a Snapshot,
    text: &str,
    max: usize,
) -> Vec<&'a StoredMemory> {
    let reviewed = || snapshot.memories.iter().filter(|stored| !stored.is_unreviewed());
    let frequencies = DocumentFrequencies::from_entries(
        reviewed().flat_map(|stored| &stored.text.parsed().entries),
    );
    let query = TokenizedText::tokenize(text);
    let query = content_keys(&query);
    let keys: Vec<Fingerprint> = query.iter().map(|(key, _)| Fingerprint::of(key)).collect();
    let is_of_query: FingerprintSet = keys.iter().copied().collect();
    let weight = |stored: &StoredMemory| {
        let parsed = stored.text.parsed();
        let head = format!("{} {}", stored.path, parsed.header.shown_description());
        let head = token_fingerprints(&TokenizedText::tokenize(&head));
        let of_entries =
            parsed.entries.iter().flat_map(|entry| entry.fingerprints().significant_keys());
        let words: FingerprintSet = of_entries
            .chain(significant_keys(&head))
            .filter(|key| is_of_query.contains(key))
            .collect();
        let shared = query.iter().zip(&keys).filter(|(_, key)| words.contains(key));
        shared.map(|((key, _), _)| frequencies.idf_of(key)).sum::<f64>()
    };
    let mut weighted: Vec<(f64, &StoredMemory)> =
        reviewed().map(|stored| (weight(stored), stored)).collect();
    weighted.retain(|(weight, _)| *weight > 0.0);
    weighted.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    weighted.into_iter().map(|(_, stored)| stored).take(max).collect()
}

/// Returns the keys of the content words, in order without repetitions, and whether each is negated.
pub(crate) fn content_keys(text: &TokenizedText) -> Vec<(&str, bool)> {
    let mut keys: Vec<(&str, bool)> = Vec::new();
    for token in text.content_tokens().filter(|token| !token.is_light()) {
        if !keys.iter().any(|(key, _)| *key == token.key) {
            keys.push((&token.key, token.negated));
        }
    }
    keys
}

/// Checks whether two statements have the same content words in the same order, and differ in a negation. `Always`
/// does not count as one of the words, so that it is the opposite of `never`.
fn are_opposite(a: ComparedStatement<'_>, b: ComparedStatement<'_>) -> bool {
    let (a_keys, b_keys) = (keys_without_always(a.text), keys_without_always(b.text));
    let is_same_word = |((a, _), (b, _)): (&(&str, bool), &(&str, bool))| a == b;
    a_keys.len() >= 2
        && a_keys.len() == b_keys.len()
        && a_keys.iter().zip(&b_keys).all(is_same_word)
        && (negated_keys(&a_keys) != negated_keys(&b_keys) || has_negation(a) != has_negation(b))
}

/// Checks whether two statements have the same content words, but rank them differently: `tabs over spaces` and
/// `spaces over tabs`.
fn are_swapped(a: ComparedStatement<'_>, b: ComparedStatement<'_>) -> bool {
    let (a_keys, b_keys) = (content_keys(a.text), content_keys(b.text));
    let sorted = |keys: &[(&str, bool)]| {
        keys.iter().map(|(key, _)| (*key).to_owned()).collect::<BTreeSet<_>>()
    };
    a.text.has(Class::Contrast)
        && b.text.has(Class::Contrast)
        && a_keys.len() >= 2
        && sorted(&a_keys) == sorted(&b_keys)
        && negated_keys(&a_keys) != negated_keys(&b_keys)
}

fn keys_without_always(text: &TokenizedText) -> Vec<(&str, bool)> {
    let is_always = |key: &str| {
        let mut tokens = text.tokens.iter().filter(|token| token.key == key);
        tokens.any(|token| ALWAYS_WORDS.contains(&token.word.as_str()))
    };
    content_keys(text).into_iter().filter(|(key, _)| !is_always(key)).collect()
}

fn has_negation(statement: ComparedStatement<'_>) -> bool {
    statement.text.has(Class::Not)
}

fn negated_keys<'a>(keys: &[(&'a str, bool)]) -> BTreeSet<&'a str> {
    keys.iter().filter(|(_, negated)| *negated).map(|(key, _)| *key).collect()
}

fn meaningful_function_words(text: &TokenizedText) -> BTreeSet<&str> {
    let words = text.tokens.iter().map(|token| token.word.as_str());
    words.filter(|word| MEANINGFUL_FUNCTION_WORDS.contains(word)).collect()
}

/// Returns the literals of a text: chunks between spaces with a symbol, or with a digit and other characters.
pub(crate) fn literals(text: &str) -> BTreeSet<&str> {
    let is_sign = |c: char| "/\\@#_=+<>$€£¥%^&|~°".contains(c);
    text.split_whitespace()
        .map(|chunk| {
            chunk.trim_matches(|c: char| ",;:!?()[]{}'\"`*“”„‘’«»「」。、，！？…".contains(c))
        })
        .map(|chunk| chunk.trim_end_matches('.'))
        .filter(|chunk| {
            let is_number = chunk.chars().all(|c| c.is_ascii_digit());
            chunk.starts_with(['.', '-']) && chunk.len() > 1
                || !is_number && chunk.contains(|c: char| c.is_numeric() || is_sign(c))
        })
        .collect()
}

/// Checks whether two statements have the same words in an order that can mean the same: equal, in the passive, or
/// with a moved part (`For Python: …`). `Alice reports to Bob` is not `Bob reports to Alice`.
fn has_same_content(a: ComparedStatement<'_>, b: ComparedStatement<'_>) -> bool {
    let (a_keys, b_keys) = (content_keys(a.text), content_keys(b.text));
    if a_keys == b_keys {
        return true;
    }
    let sorted = |keys: &[(&str, bool)]| {
        keys.iter().map(|(key, negated)| ((*key).to_owned(), *negated)).collect::<BTreeSet<_>>()
    };
    let differs_in_voice = a.text.has(Class::By) != b.text.has(Class::By);
    sorted(&a_keys) == sorted(&b_keys)
        && (differs_in_voice
            || (a_keys.len() >= MOVED_WORDS_MIN && is_reordered((a, &a_keys), (b, &b_keys))))
}

/// Checks whether one run of words moved elsewhere. Two swapped words do not count, because they may have swapped
/// their roles, unless a comma or colon follows the first.
fn is_reordered(
    (a, a_keys): (ComparedStatement<'_>, &[(&str, bool)]),
    (b, b_keys): (ComparedStatement<'_>, &[(&str, bool)]),
) -> bool {
    let same = |(a, b): &(&(&str, bool), &(&str, bool))| a == b;
    let prefix = a_keys.iter().zip(b_keys).take_while(same).count();
    let suffix = a_keys.iter().rev().zip(b_keys.iter().rev()).take_while(same).count();
    let (a_middle, b_middle) =
        (&a_keys[prefix..a_keys.len() - suffix], &b_keys[prefix..b_keys.len() - suffix]);
    let is_rotated =
        (1..a_middle.len()).any(|at| [&a_middle[at..], &a_middle[..at]].concat() == b_middle);
    let is_fronted = |statement: ComparedStatement<'_>| {
        let mut content = statement.text.content_tokens();
        content
            .next()
            .is_some_and(|first| content.next().is_some_and(|next| first.clause < next.clause))
    };
    is_rotated && (a_middle.len() > 2 || is_fronted(a) || is_fronted(b))
}

fn is_subsequence(few: &[(&str, bool)], many: &[(&str, bool)]) -> bool {
    let mut many = many.iter();
    few.iter().all(|key| many.any(|other| other == key))
}

/// Checks whether a statement says that something changed.
pub(crate) fn is_change(text: &TokenizedText) -> bool {
    text.has(Class::Change) || text.has(Class::Gone)
}

/// Detects two statements with a common beginning or end that give different values on different dates: `CI runs on
/// Jenkins (2024-02-11)`.
fn update_by_date(
    older: ComparedStatement<'_>,
    newer: ComparedStatement<'_>,
) -> Option<EntryRelation> {
    let (old, new) = (single_date(older.text), single_date(newer.text)?);
    let (old_words, new_words) = (keys_without_dates(older.text), keys_without_dates(newer.text));
    let shared = shared_end(&old_words, &new_words);
    let are_similar = shared >= 2 && shared * 2 > old_words.len() && old_words != new_words;
    let is_later = match old {
        Some(old) => old < new,
        None => newer.text.has(Class::Since),
    };
    (are_similar && is_later).then_some(EntryRelation {
        kind: ProposalKind::Update,
        score: 65,
        removes_older: true,
    })
}

/// Returns the length of the common beginning or the common end, whichever is longer.
fn shared_end<T: PartialEq>(a: &[T], b: &[T]) -> usize {
    let prefix = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let suffix = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    prefix.max(suffix)
}

/// Returns the date of a statement, if it has exactly one and that is no end date.
fn single_date(text: &TokenizedText) -> Option<Date> {
    if text.has(Class::Until) || text.has(Class::Ends) {
        return None;
    }
    match dates::explicit_dates(text).as_slice() {
        [mention] => Some(mention.date),
        _ => None,
    }
}

fn keys_without_dates(text: &TokenizedText) -> Vec<&str> {
    let days = dates::explicit_dates(text);
    let tokens = text.tokens.iter().enumerate();
    let undated =
        tokens.filter(|(index, _)| !days.iter().any(|mention| mention.tokens.contains(index)));
    let content =
        undated.map(|(_, token)| token).filter(|token| token.is_content() && !token.is_light());
    content.map(|token| token.key.as_str()).collect()
}
