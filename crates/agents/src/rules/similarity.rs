//! Entries that a person should look at together: they may repeat, replace or contradict each other.
//!
//! Nothing here destroys: what is found becomes a proposal. So words may be compared by their stems, and word lists
//! may be incomplete.

use std::collections::{BTreeSet, HashMap};

use jiff::civil::Date;
use memory::proposal::{EntryChange, EntryReference, Proposal, ProposalKind};

use super::dates;
use super::duplicate::NormalizedText;
use super::frontmatter::first_words;
use super::lexicon::Class;
use super::snapshot::{ParsedEntry, Snapshot, StoredMemory};
use super::tokenize::{TextToken, TokenizedText};

/// The smallest share of an older entry's words, by their weight, that a statement of change must repeat.
const CHANGE_OVERLAP_MIN: f64 = 0.5;

/// The same where the newer statement does not speak of what the older one begins with.
const OTHER_START_OVERLAP_MIN: f64 = 0.6;

/// The fewest words that say something in an entry that a longer one may repeat.
const REPEATED_WORDS_MIN: usize = 3;

/// The fewest words that say something in a statement of which some may have moved.
const MOVED_WORDS_MIN: usize = 4;

/// By how many words the longer entry may say more.
const MORE_WORDS_MAX: usize = 3;

/// Words that change what is said wherever they stand, although most small words do not.
const MEANINGFUL_FUNCTION_WORDS: &[&str] = &[
    "all", "some", "only", "both", "on", "off", "out", "before", "after", "without", "until",
    "from", "can", "may", "might", "could",
];

/// The number of entries that contain each word. Rare words weigh more.
#[derive(Default)]
pub(crate) struct DocumentFrequencies {
    entry_count: usize,
    entries_by_key: HashMap<String, usize>,
}

impl DocumentFrequencies {
    pub(crate) fn from_entries<'a>(notes: impl IntoIterator<Item = &'a ParsedEntry>) -> Self {
        let mut weights = Self::default();
        for note in notes {
            weights.entry_count += 1;
            for key in content_keys(note.tokenized())
                .into_iter()
                .map(|(key, _)| key)
                .collect::<BTreeSet<_>>()
            {
                *weights.entries_by_key.entry(key.to_owned()).or_default() += 1;
            }
        }
        weights
    }

    /// Returns how many entries have a word.
    pub(crate) fn entries_with(&self, key: &str) -> usize {
        self.entries_by_key.get(key).copied().unwrap_or_default()
    }

    fn idf_of(&self, key: &str) -> f64 {
        Self::idf(self.entries_with(key), self.entry_count)
    }

    /// Returns the weight of a word that `with` of all `entries` have; above 0, and larger the fewer have it.
    #[expect(clippy::cast_precision_loss, reason = "a count of entries is far below 2^52")]
    pub(crate) fn idf(with: usize, entries: usize) -> f64 {
        (1.0 + entries as f64 / with.max(1) as f64).ln()
    }
}

/// Why two entries should be looked at together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryRelation {
    pub(crate) kind: ProposalKind,
    /// How likely it is right, in percent.
    pub(crate) score: u8,
    /// Whether the older entry is the one to remove.
    pub(crate) removes_older: bool,
}

/// A statement as it is compared.
#[derive(Clone, Copy)]
pub(crate) struct ComparedStatement<'a> {
    pub(crate) text: &'a TokenizedText,
    pub(crate) source: &'a str,
    /// Whether it says that something is otherwise than it was.
    pub(crate) is_change: bool,
}

impl<'a> From<&'a ParsedEntry> for ComparedStatement<'a> {
    fn from(note: &'a ParsedEntry) -> Self {
        let text = note.tokenized();
        Self { text, source: note.statement(), is_change: is_change(text) }
    }
}

/// Compares two statements, of which the second one was made later as far as that is known.
pub(crate) fn compare_statements(
    older: ComparedStatement<'_>,
    newer: ComparedStatement<'_>,
    weights: &DocumentFrequencies,
) -> Option<EntryRelation> {
    let (old, new) = (content_keys(older.text), content_keys(newer.text));
    let same_literals = literals(older.source) == literals(newer.source);
    let bare =
        |keys: &[(&str, bool)]| keys.iter().map(|(key, _)| (*key).to_owned()).collect::<Vec<_>>();
    let (old_bare, new_bare) = (bare(&old), bare(&new));
    if same_literals
        && old.len() >= 2
        && old_bare == new_bare
        && (negated_keys(&old) != negated_keys(&new) || has_negation(older) != has_negation(newer))
    {
        return Some(EntryRelation {
            kind: ProposalKind::Contradiction,
            score: 70,
            removes_older: true,
        });
    }
    if let Some(likeness) = update_by_date(older, newer) {
        return Some(likeness);
    }
    let are_alike = meaningful_function_words(older.text) == meaningful_function_words(newer.text)
        && has_negation(older) == has_negation(newer);
    if same_literals && are_alike && old.len() >= 2 && has_same_content(older, newer) {
        return Some(EntryRelation {
            kind: ProposalKind::Repetition,
            score: 75,
            removes_older: false,
        });
    }
    let starts_alike =
        old.first().is_some_and(|(first, _)| new_bare.iter().any(|key| key == first));
    let share = overlap(older, newer, weights);
    // What is denied is no new value, unless it says that the old one ended.
    let is_denied = has_negation(newer) && !has_negation(older) && !newer.text.has(Class::Gone);
    if newer.is_change
        && !is_denied
        && is_value_replaced(older.text, newer.text)
        && share >= CHANGE_OVERLAP_MIN
        && (starts_alike || share >= OTHER_START_OVERLAP_MIN)
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
    if !are_alike {
        None
    } else if says_more(&old, &new, (older.source, newer.source)) {
        Some(EntryRelation { kind: ProposalKind::Repetition, score: 50, removes_older: true })
    } else if says_more(&new, &old, (newer.source, older.source)) {
        Some(EntryRelation { kind: ProposalKind::Repetition, score: 50, removes_older: false })
    } else {
        None
    }
}

/// Tells whether what a newer statement says instead can stand for what it leaves out: a name or number is not replaced by
/// words alone (`The lead is Ines`, `The lead is now on vacation`).
fn is_value_replaced(older: &TokenizedText, newer: &TokenizedText) -> bool {
    let has_value = |text: &TokenizedText, other: &TokenizedText| {
        let is_new = |token: &&TextToken| !other.tokens.iter().any(|known| known.key == token.key);
        let is_value = |token: &TextToken| {
            token.is_name || token.is_acronym || token.has_digit() || token.value.is_some()
        };
        text.content_tokens().filter(is_new).any(is_value)
    };
    !has_value(older, newer) || has_value(newer, older)
}

/// Tells whether a newer statement is an older one with another number, day or month in one place.
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

/// Returns how much of an older statement's words a newer one has, by their weight.
pub(crate) fn overlap(
    older: ComparedStatement<'_>,
    newer: ComparedStatement<'_>,
    weights: &DocumentFrequencies,
) -> f64 {
    overlap_with(older.text, [newer.text].into_iter(), weights)
}

/// Returns how much of a text's words some others have together, by their weight.
pub(crate) fn overlap_with<'a>(
    text: &TokenizedText,
    others: impl Iterator<Item = &'a TokenizedText>,
    weights: &DocumentFrequencies,
) -> f64 {
    // The language of a short text is a guess, and with it the stems; so words count as they stand, too.
    let others: BTreeSet<&str> = others
        .flat_map(TokenizedText::content_tokens)
        .flat_map(|token| [token.key.as_str(), &token.word])
        .collect();
    let (mut all, mut shared) = (0.0, 0.0);
    for token in text.content_tokens().filter(|token| !is_light(token)) {
        let weight = weights.idf_of(&token.key);
        all += weight;
        if others.contains(token.key.as_str()) || others.contains(token.word.as_str()) {
            shared += weight;
        }
    }
    if all > 0.0 { shared / all } else { 0.0 }
}

/// Returns the proposal to remove one of two entries that are alike.
pub(crate) fn relation_proposal(
    likeness: EntryRelation,
    older: &EntryReference,
    newer: &EntryReference,
) -> Proposal {
    let (goes, stays) = if likeness.removes_older { (older, newer) } else { (newer, older) };
    let what = match likeness.kind {
        ProposalKind::Contradiction => "says the opposite of",
        ProposalKind::Update => "may be replaced by",
        ProposalKind::Repetition
        | ProposalKind::Expiry
        | ProposalKind::Misplacement
        | ProposalKind::Removal
        | ProposalKind::Review => "may say the same as",
    };
    let is_equal = NormalizedText::new(&goes.text) == NormalizedText::new(&stays.text);
    let reason = if is_equal && goes.path != stays.path {
        format!(
            "\u{201C}{}\u{201D} stands in {} and in {}.",
            first_words(&goes.text),
            stays.path,
            goes.path
        )
    } else {
        let (goes, place) = (first_words(&goes.text), &stays.path);
        format!(
            "\u{201C}{goes}\u{201D} {what} \u{201C}{}\u{201D} in {place}.",
            first_words(&stays.text)
        )
    };
    Proposal {
        kind: likeness.kind,
        reason,
        score: likeness.score,
        changes: vec![EntryChange {
            path: goes.path.clone(),
            old: Some(goes.text.clone()),
            new: None,
        }],
        relies_on: vec![stays.clone()],
        review: None,
    }
}

/// Returns at most so many memories that share words with a text, those that share most first.
pub(crate) fn most_similar_memories<'a>(
    snapshot: &'a Snapshot,
    text: &str,
    max: usize,
) -> Vec<&'a StoredMemory> {
    let reviewed = || snapshot.memories.iter().filter(|stored| !stored.is_unreviewed());
    let weights = DocumentFrequencies::from_entries(
        reviewed().flat_map(|stored| &stored.text.parsed().entries),
    );
    let entries = reviewed().map(|stored| stored.text.parsed().entries.len()).sum();
    let asked = TokenizedText::tokenize(text);
    let asked = content_keys(&asked);
    let weight = |stored: &StoredMemory| {
        let read = stored.text.parsed();
        let head = TokenizedText::tokenize(&format!(
            "{} {}",
            stored.path,
            read.header.shown_description()
        ));
        let has = |key: &str| {
            let of_notes = read
                .entries
                .iter()
                .any(|note| content_keys(note.tokenized()).iter().any(|(word, _)| *word == key));
            of_notes || content_keys(&head).iter().any(|(word, _)| *word == key)
        };
        let shared = asked.iter().filter(|(key, _)| has(key));
        shared
            .map(|(key, _)| DocumentFrequencies::idf(weights.entries_with(key), entries))
            .sum::<f64>()
    };
    let mut weighed: Vec<(f64, &StoredMemory)> =
        reviewed().map(|stored| (weight(stored), stored)).collect();
    weighed.retain(|(weight, _)| *weight > 0.0);
    weighed.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    weighed.into_iter().map(|(_, stored)| stored).take(max).collect()
}

/// Returns the words that say something, in order, each once, and whether they are negated.
pub(crate) fn content_keys(text: &TokenizedText) -> Vec<(&str, bool)> {
    let mut keys: Vec<(&str, bool)> = Vec::new();
    for token in text.content_tokens().filter(|token| !is_light(token)) {
        if !keys.iter().any(|(key, _)| *key == token.key) {
            keys.push((&token.key, token.negated));
        }
    }
    keys
}

/// Tells whether a word adds nothing: a verb that any noun may have, or a word for the person.
pub(crate) fn is_light(token: &TextToken) -> bool {
    !token.key.starts_with('§')
        && [Class::Light, Class::Polite, Class::User, Class::Oneself]
            .into_iter()
            .any(|class| token.is(class))
}

fn has_negation(said: ComparedStatement<'_>) -> bool {
    said.text.has(Class::Not)
}

fn negated_keys<'a>(keys: &[(&'a str, bool)]) -> BTreeSet<&'a str> {
    keys.iter().filter(|(_, negated)| *negated).map(|(key, _)| *key).collect()
}

fn meaningful_function_words(text: &TokenizedText) -> BTreeSet<&str> {
    let words = text.tokens.iter().map(|token| token.word.as_str());
    words.filter(|word| MEANINGFUL_FUNCTION_WORDS.contains(word)).collect()
}

/// Returns what is no plain word: each stretch between spaces that has a sign, or a digit and more.
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

/// Tells whether two statements have the same words in an order that can mean the same: equal, turned into the
/// passive, or with a circumstance moved (`For Python: …`). `Alice reports to Bob` is not `Bob reports to Alice`.
fn has_same_content(a: ComparedStatement<'_>, b: ComparedStatement<'_>) -> bool {
    let (a_keys, b_keys) = (content_keys(a.text), content_keys(b.text));
    if a_keys == b_keys {
        return true;
    }
    let sorted = |keys: &[(&str, bool)]| {
        keys.iter().map(|(key, is)| ((*key).to_owned(), *is)).collect::<BTreeSet<_>>()
    };
    let is_turned = a.text.has(Class::By) != b.text.has(Class::By);
    sorted(&a_keys) == sorted(&b_keys)
        && (is_turned
            || (a_keys.len() >= MOVED_WORDS_MIN && is_reordered((a, &a_keys), (b, &b_keys))))
}

/// Tells whether one stretch of words stands elsewhere. Two words that changed places do not count, unless a comma or
/// colon parts the first of them from the rest: they may have changed their roles.
fn is_reordered(
    (a, a_keys): (ComparedStatement<'_>, &[(&str, bool)]),
    (b, b_keys): (ComparedStatement<'_>, &[(&str, bool)]),
) -> bool {
    let same = |(a, b): &(&(&str, bool), &(&str, bool))| a == b;
    let ahead = a_keys.iter().zip(b_keys).take_while(same).count();
    let behind = a_keys.iter().rev().zip(b_keys.iter().rev()).take_while(same).count();
    let (a_middle, b_middle) =
        (&a_keys[ahead..a_keys.len() - behind], &b_keys[ahead..b_keys.len() - behind]);
    let is_rotated =
        (1..a_middle.len()).any(|at| [&a_middle[at..], &a_middle[..at]].concat() == b_middle);
    let is_fronted = |said: ComparedStatement<'_>| {
        let mut content = said.text.content_tokens();
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

/// Tells whether a statement says that something is otherwise than it was.
pub(crate) fn is_change(text: &TokenizedText) -> bool {
    text.has(Class::Change) || text.has(Class::Gone)
}

/// Finds two statements that begin or end alike and give different values at different days: `CI runs on Jenkins (2024-02-11)`.
fn update_by_date(
    older: ComparedStatement<'_>,
    newer: ComparedStatement<'_>,
) -> Option<EntryRelation> {
    let (old, new) = (single_date(older.text), single_date(newer.text)?);
    let (old_words, new_words) = (keys_without_dates(older.text), keys_without_dates(newer.text));
    let ahead = old_words.iter().zip(&new_words).take_while(|(a, b)| a == b).count();
    let behind =
        old_words.iter().rev().zip(new_words.iter().rev()).take_while(|(a, b)| a == b).count();
    let shared = ahead.max(behind);
    let are_alike = shared >= 2 && shared * 2 > old_words.len() && old_words != new_words;
    let is_later = match old {
        Some(old) => old < new,
        None => newer.text.has(Class::Since),
    };
    (are_alike && is_later).then_some(EntryRelation {
        kind: ProposalKind::Update,
        score: 65,
        removes_older: true,
    })
}

/// Returns the only day that a statement names and that does not end a stretch of time.
fn single_date(text: &TokenizedText) -> Option<Date> {
    if text.has(Class::Until) || text.has(Class::Ends) {
        return None;
    }
    match dates::explicit_dates(text).as_slice() {
        [day] => Some(day.date),
        _ => None,
    }
}

fn keys_without_dates(text: &TokenizedText) -> Vec<&str> {
    let days = dates::explicit_dates(text);
    let tokens = text.tokens.iter().enumerate();
    let undated = tokens.filter(|(at, _)| !days.iter().any(|day| day.tokens.contains(at)));
    let telling =
        undated.map(|(_, token)| token).filter(|token| token.is_content() && !is_light(token));
    telling.map(|token| token.key.as_str()).collect()
}
