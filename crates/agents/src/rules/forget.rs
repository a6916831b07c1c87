//! Forget: decides which entries a request means.
//!
//! Forgetting destroys, so an entry is removed only if it is clearly meant. Either the request repeats it, or it
//! orders to forget a thing named by words that occur in this entry alone. Conditions, exceptions, questions, a
//! differing negation, and entries with several statements make a request unclear. Then nothing is removed, and the
//! entries that may be meant are returned for a person to choose from.

use std::collections::{BTreeSet, HashMap, HashSet};

use memory::path::{MemoryPath, Mount, Scope};
use memory::text::{has_word, slice};

use super::duplicate::{NormalizedText, has_blocks, is_fragment};
use super::fingerprints::{Fingerprint, FingerprintSet};
use super::frontmatter::{memory_edit, title_fingerprints};
use super::lexicon::Class;
use super::similarity::{self, DocumentFrequencies};
use super::snapshot::{ParsedEntry, Snapshot, StoredMemory};
use super::tokenize::{TextToken, TokenizedText, is_unspaced};
use super::word_match::{EntryWords, TYPO_CHARS_MIN, is_same_word};
use crate::request::{
    EntryAction, EntryCandidate, EntryOutcome, ForgetReport, ForgetRequest, ForgottenEntry,
    MemoryTopic,
};

/// Maximum number of candidates in a report.
const CANDIDATES_SHOWN_MAX: usize = 5;

/// Minimum share of a request's words, by weight, that a candidate has.
const CANDIDATE_SHARE_MIN: f64 = 0.4;

/// Maximum number of entries that `everything about …` removes without a question.
const ALL_ENTRIES_MAX: usize = 20;

/// Maximum number of content words of an entry that one of them identifies as a whole.
const SHORT_WORDS_MAX: usize = 3;

const NO_MATCH: &str = "No managed auto-memory entries matched.";

/// Words that ask for all entries about a subject, in the languages of the lexicon.
const EVERYTHING_WORDS: &str = "
    everything all anything every alles alle tout toutes tous todo todos todas tutto tutti tutte
    tudo allemaal все всё 所有 全部 すべて 全て
";

/// Words between `everything` and its subject.
const ABOUT_WORDS: &[&str] =
    &["about", "on", "über", "zu", "sur", "sobre", "su", "over", "о", "про"];

/// Function words that a plain request may have. Any other (`if`, `but`, `without`, `who`) may change its meaning.
const PLAIN_FUNCTION_WORDS: &[&str] = &[
    "the", "a", "an", "of", "on", "about", "for", "with", "mit", "avec", "con", "com", "met", "с",
    "my", "our", "this", "that", "to", "in", "at", "is", "are", "i", "we", "it", "der", "die",
    "das", "den", "dem", "des", "ein", "eine", "einen", "einem", "einer", "mein", "meine",
    "meinen", "meinem", "meiner", "unser", "unsere", "von", "über", "zu", "zum", "zur", "im", "am",
    "an", "auf", "für", "ist", "sind", "ich", "wir", "dass", "le", "la", "les", "l", "un", "une",
    "du", "de", "d", "mon", "ma", "mes", "notre", "nos", "sur", "à", "au", "aux", "pour", "en",
    "dans", "est", "sont", "que", "qu", "j", "je", "nous", "ce", "cette", "el", "los", "las",
    "una", "del", "mi", "mis", "nuestro", "nuestra", "sobre", "al", "para", "es", "son", "yo",
    "lo", "o", "os", "as", "um", "uma", "do", "da", "dos", "meu", "minha", "nosso", "nossa", "em",
    "no", "na", "é", "são", "eu", "il", "i", "gli", "di", "della", "dei", "delle", "mio", "mia",
    "nostro", "nostra", "su", "sul", "per", "nel", "sono", "che", "het", "een", "van", "mijn",
    "ons", "onze", "over", "op", "voor", "zijn", "dat", "ik", "о", "об", "про", "что", "в", "на",
    "мой", "моя", "мое", "мои", "наш", "у", "меня", "я", "это",
];

/// The words among them that indicate a sentence.
const SENTENCE_WORDS: &[&str] = &[
    "is", "are", "i", "we", "it", "that", "to", "ist", "sind", "ich", "wir", "dass", "est", "sont",
    "que", "qu", "j", "je", "nous", "es", "son", "yo", "é", "são", "eu", "sono", "che", "zijn",
    "dat", "ik", "что", "я", "это",
];

/// Words between a thing and its owner or kind.
const POSSESSION_WORDS: &[&str] =
    &["of", "von", "de", "du", "des", "del", "di", "della", "do", "da", "van"];

/// Words that begin a question. A question does not ask for a removal.
const QUESTION_WORDS: &[&str] = &[
    "what", "which", "who", "whom", "whose", "when", "where", "why", "how", "do", "does", "did",
    "is", "are", "was", "should", "wer", "wo", "wann", "warum", "wie", "welche", "que", "qué",
    "quién", "cuándo", "dónde", "quoi", "qui", "quand", "où", "pourquoi", "comment",
];

/// An entry with its memory.
pub(crate) type EntryRef<'a> = (&'a StoredMemory, &'a ParsedEntry);

/// Decides which entries are removed.
pub fn forget(snapshot: &Snapshot, request: &ForgetRequest) -> ForgetReport {
    let selection = select_entries(&entries_in_scope(snapshot, request), request);
    remove_selected(snapshot, selection)
}

/// Returns at most `max` entries to choose from, those that share most with the request first.
pub(crate) fn candidates<'a>(
    snapshot: &'a Snapshot,
    request: &ForgetRequest,
    max: usize,
) -> Vec<EntryRef<'a>> {
    let mut entries = entries_in_scope(snapshot, request);
    entries.retain(|(stored, _)| !stored.is_unreviewed());
    let query = TokenizedText::tokenize(&request.query);
    let frequencies = DocumentFrequencies::from_entries(entries.iter().map(|(_, note)| *note));
    let weights: Vec<(Fingerprint, f64)> = similarity::content_keys(&query)
        .into_iter()
        .map(|(key, _)| (Fingerprint::of(key), frequencies.idf_of(key)))
        .collect();
    let weight = |note: &ParsedEntry| {
        let words: FingerprintSet = note.fingerprints().significant_keys().collect();
        let shared = weights.iter().filter(|(key, _)| words.contains(key));
        shared.map(|(_, weight)| weight).sum::<f64>()
    };
    let mut weighted: Vec<(f64, EntryRef<'a>)> =
        entries.iter().map(|entry| (weight(entry.1), *entry)).collect();
    weighted.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    weighted.into_iter().map(|(_, entry)| entry).take(max).collect()
}

/// Removes selected entries. If there are more than a person would review, nothing is removed and they become
/// candidates.
pub(crate) fn forget_entries(snapshot: &Snapshot, selected: Vec<EntryRef<'_>>) -> ForgetReport {
    let is_clear = selected.len() <= ALL_ENTRIES_MAX;
    remove_selected(
        snapshot,
        if is_clear {
            ForgetSelection::Certain(selected)
        } else {
            ForgetSelection::Ambiguous(selected)
        },
    )
}

/// Returns the entries in writable memories of the requested scope or file.
fn entries_in_scope<'a>(snapshot: &'a Snapshot, request: &ForgetRequest) -> Vec<EntryRef<'a>> {
    let may_remove = |stored: &&StoredMemory| {
        let mount = stored.path.mount();
        let is_requested = request
            .scope
            .is_none_or(|scope| mount == Some(Mount::Scope(scope)) || mount == Some(Mount::Flat));
        is_requested
            && request.file.as_ref().is_none_or(|file| *file == stored.path)
            && mount.is_some_and(|mount| snapshot.writable.contains(&mount))
    };
    snapshot
        .memories
        .iter()
        .filter(may_remove)
        .flat_map(|stored| stored.text.parsed().entries.iter().map(move |entry| (stored, entry)))
        .collect()
}

/// Result of matching a request with entries.
enum ForgetSelection<'a> {
    /// Entries that are clearly meant.
    Certain(Vec<EntryRef<'a>>),
    /// Entries that may be meant, most likely first.
    Ambiguous(Vec<EntryRef<'a>>),
}

fn select_entries<'a>(entries: &[EntryRef<'a>], request: &ForgetRequest) -> ForgetSelection<'a> {
    let query = ForgetQuery::parse(&request.query);
    if let Some(exact) = exact_matches(entries, &query, request.file.is_some()) {
        return exact;
    }
    // Unreviewed text from a repository is not quoted in answers to similar requests.
    let may_be_shown =
        |(stored, _): &&EntryRef<'a>| request.file.is_some() || !stored.is_unreviewed();
    let entries: Vec<EntryRef<'a>> = entries.iter().filter(may_be_shown).copied().collect();
    let entries = entries.as_slice();
    let mut words = EntryWords::new(&query.content_words);
    // Entries with the same text are compared once.
    let mut matches: HashMap<&str, bool> = HashMap::new();
    let matching: Vec<EntryRef<'a>> = entries
        .iter()
        .copied()
        .filter(|&(_, note)| {
            words.may_have_all(note)
                && *matches.entry(note.full_text()).or_insert_with(|| query.matches_entry(note))
        })
        .collect();
    let matching = query.narrow_to_user(matching);
    let is_clear = match matching.as_slice() {
        [] => false,
        _ if !query.is_plain_order => false,
        [(_, note)] => query.means_whole_entry(note) && !has_rival(entries, &mut words, note),
        [(_, note), ..] if are_duplicates(&matching) => {
            query.means_whole_entry(note) && !has_rival(entries, &mut words, note)
        }
        // One word alone may name several things: `Grant`, `Summer`, `Kestrel`.
        _ => {
            query.is_for_all
                && query.content_words.len() > 1
                && matching.len() <= ALL_ENTRIES_MAX
                && query.is_specific()
        }
    };
    if is_clear {
        return ForgetSelection::Certain(matching);
    }
    let mut candidates = matching;
    let mut light_words = EntryWords::new(&query.light_words);
    let words = if query.content_words.is_empty() { &mut light_words } else { &mut words };
    for entry in rank_candidates(entries, words) {
        if !candidates.iter().any(|other| std::ptr::eq(other.1, entry.1)) {
            candidates.push(entry);
        }
    }
    candidates.truncate(CANDIDATES_SHOWN_MAX);
    ForgetSelection::Ambiguous(candidates)
}

/// Returns the entries that the request repeats word for word, with or without `forget that` before it. In a memory
/// that a person chose, the first line is enough.
fn exact_matches<'a>(
    entries: &[EntryRef<'a>],
    query: &ForgetQuery,
    is_file_chosen: bool,
) -> Option<ForgetSelection<'a>> {
    let is_meant = |(_, entry): &&EntryRef<'a>| {
        let has_form = |form: &NormalizedText| query.normalized_texts.contains(form);
        // Without reasons the statement is the whole entry.
        has_form(&entry.normalized)
            || (entry.has_reasons() && has_form(&NormalizedText::new(entry.statement())))
            || (is_file_chosen && has_form(&NormalizedText::new(entry.first_line())))
    };
    let matching: Vec<EntryRef<'a>> = entries.iter().filter(is_meant).copied().collect();
    match matching.as_slice() {
        [] => None,
        // Removing one step breaks those around it.
        [(_, entry)] if entry.is_step && !is_file_chosen => {
            Some(ForgetSelection::Ambiguous(matching))
        }
        [_] => Some(ForgetSelection::Certain(matching)),
        all if are_duplicates(all) => Some(ForgetSelection::Certain(matching)),
        // The same line in several places: a person must say which one is meant.
        _ => Some(ForgetSelection::Ambiguous(matching)),
    }
}

/// Checks whether entries say the same, as wholes and without headings, so that all may be removed together.
fn are_duplicates(entries: &[EntryRef<'_>]) -> bool {
    let is_copy = |(_, entry): &EntryRef<'_>| {
        entry.normalized == entries[0].1.normalized
            && entry.context.is_empty()
            && !is_fragment(entry.statement())
    };
    entries.iter().all(is_copy)
}

/// A parsed request to forget.
#[expect(clippy::struct_excessive_bools, reason = "each is a separate property of a request")]
struct ForgetQuery {
    /// Words that identify what is meant.
    content_words: Vec<TextToken>,
    /// Light words, only for a request without content words.
    light_words: Vec<TextToken>,
    /// Words of the statement to forget.
    statement_words: Vec<TextToken>,
    /// Request without its introduction, once for each way to cut it.
    normalized_texts: Vec<NormalizedText>,
    /// Whether it is an order to forget, without condition, exception or question.
    is_plain_order: bool,
    is_for_all: bool,
    is_first_person: bool,
    is_negated: bool,
    /// Whether it repeats a statement: `forget that …`.
    is_statement: bool,
    /// Whether it joins two names, whose order does not matter: `the vouchers of Adyen`.
    is_phrase: bool,
}

impl ForgetQuery {
    fn parse(query: &str) -> Self {
        let text = TokenizedText::tokenize(query);
        let order = text.tokens.iter().position(|token| token.is(Class::Forget));
        let is_order = if let Some(index) = order {
            let token = &text.tokens[index];
            !token.negated
                && !is_not_an_order(&text.tokens[..index], token.sentence)
                && is_japanese_order(query)
        } else {
            // A bare name such as `the staging database` asks to forget it; a whole sentence may mean anything.
            let named = &text.tokens[usize::from(is_all_about(&text))..];
            !query.contains(['?', '？', '؟']) && named.iter().all(can_name_subject)
        };
        let orders = text.tokens.iter().filter(|token| token.is(Class::Forget)).count();
        let is_statement = text.tokens.iter().any(is_complementizer);
        let words: Vec<TextToken> =
            text.tokens.iter().filter(|token| is_query_content(token)).cloned().collect();
        // `forget where I live` has only words that most entries have; they are used to rank candidates.
        let is_light = |token: &&TextToken| {
            (token.is(Class::Light) || token.is(Class::Prefer)) && !token.is(Class::Forget)
        };
        let light = text.tokens.iter().filter(|_| words.is_empty()).filter(is_light).cloned();
        let keeps = text.lexicon_matches.iter().any(|hit| {
            hit.classes.has(Class::Except)
                || hit.classes.has(Class::Keep)
                || (hit.tokens.start == 0 && hit.classes.has(Class::Lead))
        });
        let asks =
            text.tokens.first().is_some_and(|first| QUESTION_WORDS.contains(&first.word.as_str()));
        let statement_start = order.map_or(0, |index| index + 1);
        let has_any =
            |words: &[&str]| text.tokens.iter().any(|token| words.contains(&token.word.as_str()));
        Self {
            light_words: light.collect(),
            statement_words: text.tokens[statement_start..]
                .iter()
                .filter(|token| !is_request_word(token))
                .cloned()
                .collect(),
            normalized_texts: query_texts(query, &text, order.filter(|_| is_order && !keeps)),
            is_plain_order: is_order
                && orders <= 1
                && !words.is_empty()
                && !keeps
                && !asks
                && !text.is_unsupported_language(query)
                && text.tokens.iter().all(is_plain_word),
            is_for_all: text.tokens.iter().any(|token| has_word(EVERYTHING_WORDS, &token.word)),
            is_first_person: text.has(Class::Oneself),
            is_negated: text.tokens[statement_start..].iter().any(|token| token.is(Class::Not)),
            is_statement,
            is_phrase: has_any(POSSESSION_WORDS) && !has_any(SENTENCE_WORDS),
            content_words: words,
        }
    }

    /// Checks whether an entry has all content words of the request in the same form.
    fn matches_entry(&self, entry: &ParsedEntry) -> bool {
        let has_all = |text: &TokenizedText| {
            self.content_words
                .iter()
                .all(|word| text.tokens.iter().any(|token| is_same_word(word, token)))
        };
        !self.content_words.is_empty() && has_all(&TokenizedText::tokenize(entry.full_text()))
    }

    /// Checks whether a whole entry is meant: it has one statement, the request's negation, and the same subject.
    fn means_whole_entry(&self, entry: &ParsedEntry) -> bool {
        let text = &entry.tokenize();
        let says_one_thing = text.tokens.last().is_some_and(|last| last.clause == 0)
            && !text.has(Class::And)
            && !has_blocks(entry.full_text())
            && !entry.is_step
            && !joins_statements(entry.statement());
        let content: Vec<&TextToken> =
            text.content_tokens().filter(|token| !token.is_light()).collect();
        let is_about = |word: &TextToken| {
            content.len() <= SHORT_WORDS_MAX
                || content.first().is_some_and(|first| is_same_word(word, first))
        };
        let has_same_words = || {
            let significant = |tokens: &'_ [TextToken]| {
                let significant = tokens.iter().filter(|token| !is_article(token));
                significant.map(|token| token.word.clone()).collect::<Vec<_>>()
            };
            significant(&self.statement_words) == significant(&text.tokens)
        };
        let is_meant = match self.content_words.as_slice() {
            _ if self.is_statement => has_same_words(),
            [word] => is_about(word),
            words => self.is_phrase || are_in_order(words, text),
        };
        says_one_thing
            && self.is_negated == text.has(Class::Not)
            && !TokenizedText::tokenize(entry.full_text())
                .is_unsupported_language(entry.full_text())
            && is_meant
    }

    /// Keeps only the entries in the global scope if the request says `my` and there are any.
    fn narrow_to_user<'a>(&self, entries: Vec<EntryRef<'a>>) -> Vec<EntryRef<'a>> {
        let is_of_person =
            |(stored, _): &EntryRef<'a>| stored.path.mount() == Some(Mount::Scope(Scope::Global));
        if self.is_first_person && entries.iter().any(is_of_person) {
            return entries.into_iter().filter(is_of_person).collect();
        }
        entries
    }

    /// Checks whether every word is specific enough that all entries with them may be meant. Short words such as
    /// `Go`, `May` and `Mark` have other meanings.
    fn is_specific(&self) -> bool {
        let names = |word: &TextToken| {
            word.is_acronym || word.has_digit() || word.word.chars().count() >= TYPO_CHARS_MIN
        };
        self.content_words.iter().all(names)
    }
}

/// Checks whether words occur in an entry in the same order: `Ada reports to Ben` is not about `Ben reports to
/// Ada`.
fn are_in_order(words: &[TextToken], text: &TokenizedText) -> bool {
    let mut from = 0;
    words.iter().all(|word| {
        let index = text.tokens[from..].iter().position(|token| is_same_word(word, token));
        // One token of a script without spaces may contain two of the words.
        let step = usize::from(!word.word.chars().any(is_unspaced));
        index.inspect(|index| from = (from + index + step).min(text.tokens.len())).is_some()
    })
}

/// Checks whether a statement joins several: `Fly hosts the API & Doppler holds secrets`.
fn joins_statements(statement: &str) -> bool {
    const JOINING: &str = "& / | + -> → => whereas while unless because but if when";
    statement.split_whitespace().any(|word| has_word(JOINING, word))
}

/// Checks whether a request begins with `everything about`.
fn is_all_about(text: &TokenizedText) -> bool {
    let [first, next, ..] = text.tokens.as_slice() else { return false };
    has_word(EVERYTHING_WORDS, &first.word) && ABOUT_WORDS.contains(&next.word.as_str())
}

/// Checks whether a word belongs to the order, not to the statement.
fn is_request_word(token: &TextToken) -> bool {
    [Class::Forget, Class::Polite].into_iter().any(|class| token.is(class))
        || is_complementizer(token)
}

/// Checks whether a word introduces the statement: `forget that …`.
fn is_complementizer(token: &TextToken) -> bool {
    matches!(token.word.as_str(), "that" | "dass" | "que" | "che" | "что" | "dat")
}

/// Checks whether a word may be part of a name: a content word, or an article or preposition.
fn can_name_subject(token: &TextToken) -> bool {
    let is_kind =
        [Class::Taste, Class::Rules, Class::Links].into_iter().any(|class| token.is(class));
    let is_small = PLAIN_FUNCTION_WORDS.contains(&token.word.as_str())
        && !SENTENCE_WORDS.contains(&token.word.as_str());
    is_kind || is_small || is_query_content(token)
}

/// Checks whether a word cannot change the meaning of a plain request.
fn is_plain_word(token: &TextToken) -> bool {
    let word = token.word.as_str();
    let is_small = token.is(Class::Function) && !token.is_content();
    let is_unspaced_word = word.chars().all(is_unspaced);
    let may_change_meaning = token.is(Class::And) || token.is(Class::Contrast);
    // `no` is an article in Portuguese and a negation elsewhere; the entry must have the same negation.
    !may_change_meaning
        && (!is_small
            || is_unspaced_word
            || token.is(Class::Asking)
            || PLAIN_FUNCTION_WORDS.contains(&word)
            || token.is(Class::Not))
}

/// Checks whether a word adds nothing to a statement: articles, forms of `to be`, and words for the person.
fn is_article(token: &TextToken) -> bool {
    const ARTICLES: &str = "
        the a an is are am i my der die das den dem ein eine ist sind ich le la les un une je el
        los las una yo o os um uma eu il gli io de het een ik
    ";
    has_word(ARTICLES, &token.word) || token.is(Class::User)
}

/// Checks whether the words before a verb of forgetting make it no order: `I never want you to forget …`, `I forget
/// …`.
fn is_not_an_order(before: &[TextToken], sentence: usize) -> bool {
    let mut before = before.iter().rev().take_while(|token| token.sentence == sentence);
    let speaks_of_oneself =
        before.clone().take(2).any(|token| token.is(Class::Oneself) && token.is(Class::Function));
    let asks = before.clone().any(|token| matches!(token.word.as_str(), "to" | "you" | "please"));
    before.any(|token| {
        token.is(Class::Not) || matches!(token.word.as_str(), "stop" | "quit" | "avoid")
    }) || (speaks_of_oneself && !asks)
}

/// Endings of Japanese orders to forget; any other (`忘れるな`, `忘れちゃだめ`, `忘れるべき？`) may forbid it or ask.
const JAPANESE_ORDERS: &str = "
    忘れて 忘れろ 忘れてほしい 消して 消せ 消去 消去して 削除 削除して 取り消して 消してほしい 削除してほしい
";

/// Polite words that may follow such an ending.
const JAPANESE_POLITE_ENDINGS: &str = "
    ください 下さい くれ くれる おいて ね よ お願い お願いします です
";

/// Checks whether a Japanese request has the form of an order: the order ends it, or begins it before a mark. Text
/// without kana is not Japanese.
fn is_japanese_order(query: &str) -> bool {
    if !query.contains(|c| matches!(c, '\u{3040}'..='\u{30FF}')) {
        return true;
    }
    let begins = |rest: &str| {
        let order = JAPANESE_ORDERS.split_whitespace().find_map(|order| rest.strip_prefix(order));
        order.is_some_and(|rest| rest.trim_start().starts_with([':', '：', '、', '「']))
    };
    let mut statement = query.trim().trim_end_matches(['。', '！', '!', '.', '、', ' ']);
    while let Some(rest) =
        JAPANESE_POLITE_ENDINGS.split_whitespace().find_map(|end| statement.strip_suffix(end))
    {
        statement = rest.trim_end_matches(['、', ' ']);
    }
    begins(query.trim())
        || JAPANESE_ORDERS.split_whitespace().any(|order| statement.ends_with(order))
}

/// Returns the possible statements of a request: all of it and, after an order, the quoted part and each rest after
/// an introductory word.
fn query_texts(query: &str, text: &TokenizedText, order: Option<usize>) -> Vec<NormalizedText> {
    let mut forms = vec![NormalizedText::new(query)];
    if query.trim_start().starts_with(['"', '“', '„', '«', '「', '『']) {
        forms.extend(quoted(query).map(NormalizedText::new));
    }
    // `that the gate is red`: the statement follows without an order.
    if let Some(that) = text.tokens.first().filter(|first| is_complementizer(first)) {
        forms.push(NormalizedText::new(slice(query, that.range.end..)));
    }
    if let Some(order) = order {
        forms.extend(quoted(query).map(NormalizedText::new));
        for token in &text.tokens[order..] {
            let asks = [Class::Forget, Class::Asking, Class::Polite, Class::Function];
            if token.is(Class::Not) || !asks.into_iter().any(|class| token.is(class)) {
                break;
            }
            let rest = slice(query, token.range.end..);
            let rest = rest.trim_start_matches(|c: char| c.is_whitespace() || ":,：，".contains(c));
            forms.push(NormalizedText::new(rest));
        }
    }
    forms.retain(|form| form.as_str().chars().count() >= 2);
    forms
}

/// Returns the text between quotation marks, if it has at least two words.
fn quoted(query: &str) -> Option<&str> {
    let pairs = [('“', '”'), ('"', '"'), ('„', '“'), ('«', '»'), ('「', '」'), ('『', '』')];
    pairs.into_iter().find_map(|(open, close)| {
        let (_, rest) = query.split_once(open)?;
        let (inside, _) = rest.rsplit_once(close)?;
        inside.split_whitespace().nth(1).map(|_| inside)
    })
}

/// Checks whether a word of a request identifies what is meant.
fn is_query_content(token: &TextToken) -> bool {
    let asks = [
        Class::Forget,
        Class::Keep,
        Class::Except,
        Class::Asking,
        Class::Polite,
        Class::Taste,
        Class::Rules,
        Class::Links,
    ]
    .into_iter()
    .any(|class| token.is(class));
    let is_plain =
        !asks && !token.is(Class::User) && !token.is(Class::Oneself) && token.is_content();
    let is_light = token.is(Class::Light) || token.is(Class::Prefer);
    !token.is(Class::Forget) && is_plain && !is_light
        || (token.is_acronym || token.has_digit()) && !asks
}

/// Checks whether another entry matches nearly as well: it has all words in some form.
fn has_rival(entries: &[EntryRef<'_>], words: &mut EntryWords<'_>, chosen: &ParsedEntry) -> bool {
    entries.iter().any(|(_, entry)| {
        !std::ptr::eq(*entry, chosen)
            && entry.normalized != chosen.normalized
            && words.has_all_in_any_form(entry)
    })
}

/// Returns the entries that have most of the words in some form, best first.
fn rank_candidates<'a>(
    entries: &[EntryRef<'a>],
    found_words: &mut EntryWords<'_>,
) -> Vec<EntryRef<'a>> {
    let words = found_words.words();
    let found: Vec<Vec<usize>> =
        entries.iter().map(|(_, entry)| found_words.in_any_form(entry)).collect();
    let mut counts = vec![0; words.len()];
    found.iter().flatten().for_each(|index| counts[*index] += 1);
    let weights: Vec<f64> =
        counts.iter().map(|count| DocumentFrequencies::idf(*count, entries.len())).collect();
    let all: f64 = weights.iter().sum();
    let keys: Vec<Fingerprint> = words.iter().map(|word| Fingerprint::of(&word.key)).collect();
    let is_searched: FingerprintSet = keys.iter().copied().collect();
    let mut scored: Vec<(f64, EntryRef<'a>)> = Vec::new();
    let mut titled: Option<(&StoredMemory, FingerprintSet)> = None;
    for (&(stored, note), found) in entries.iter().zip(&found) {
        // Entries are grouped by memory, so each title is searched once.
        let (_, title) = match titled.take() {
            Some((of, title)) if std::ptr::eq(of, stored) => titled.insert((of, title)),
            _ => {
                let title = title_fingerprints(stored);
                let keys = title.iter().map(|token| token.key);
                titled.insert((stored, keys.filter(|key| is_searched.contains(key)).collect()))
            }
        };
        if found.is_empty() && title.is_empty() {
            continue;
        }
        let share = weights.iter().enumerate().map(|(index, weight)| {
            if found.contains(&index) {
                *weight
            } else if title.contains(&keys[index]) {
                weight / 2.0
            } else {
                0.0
            }
        });
        let share = share.sum::<f64>() / all;
        if share >= CANDIDATE_SHARE_MIN {
            scored.push((share, (stored, note)));
        }
    }
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.into_iter().map(|(_, entry)| entry).take(CANDIDATES_SHOWN_MAX).collect()
}

/// Removes the entries that are clearly meant, except pinned ones, or else returns candidates.
fn remove_selected(snapshot: &Snapshot, selection: ForgetSelection<'_>) -> ForgetReport {
    let mut report = ForgetReport::default();
    let mut conflicts = Vec::new();
    let selected = match selection {
        ForgetSelection::Certain(selected) => selected,
        ForgetSelection::Ambiguous(entries) => {
            let candidate = |(stored, entry): EntryRef<'_>| EntryCandidate {
                path: stored.path.clone(),
                entry: entry.full_text().to_owned(),
                summary: entry.first_line().to_owned(),
            };
            report.candidates = entries.into_iter().map(candidate).collect();
            report.summary = summary(&report, &conflicts, &snapshot.failed_reads);
            return report;
        }
    };
    let selected: HashSet<*const ParsedEntry> =
        selected.into_iter().map(|(_, entry)| std::ptr::from_ref(entry)).collect();
    for stored in &snapshot.memories {
        let is_selected = |entry: &&ParsedEntry| selected.contains(&std::ptr::from_ref(*entry));
        // In file order and without repetitions, independent of the selection.
        let notes: Vec<&ParsedEntry> =
            stored.text.parsed().entries.iter().filter(is_selected).collect();
        if notes.is_empty() {
            continue;
        }
        if stored.pinned {
            report.skipped_pinned.push(stored.path.clone());
            continue;
        }
        if stored.has_conflict() {
            conflicts.push(&stored.path);
            continue;
        }
        let path = stored.path.clone();
        let parsed = stored.text.parsed();
        let topic = MemoryTopic::declared_or_default(parsed.header.kind.as_deref(), &path);
        report.topics.insert(topic);
        report.scopes.extend(path.mount());
        for entry in &notes {
            let summary = entry.first_line().to_owned();
            report.changes.push(EntryOutcome {
                path: path.clone(),
                action: EntryAction::Removed,
                summary: summary.clone(),
            });
            report.removed.push(ForgottenEntry { topic, summary, path: path.clone() });
        }
        let text = stored.text_without(notes.iter().copied());
        report.edits.push(memory_edit(stored, text));
    }
    report.summary = summary(&report, &conflicts, &snapshot.failed_reads);
    report
}

fn summary(
    report: &ForgetReport,
    conflicts: &[&MemoryPath],
    failed_reads: &[MemoryPath],
) -> String {
    let mut text = match (report.removed.len(), report.candidates.len()) {
        (0, 0) if report.skipped_pinned.is_empty() && conflicts.is_empty() => NO_MATCH.to_owned(),
        (0, 0) => NO_MATCH.trim_end_matches('.').to_owned() + " that may be removed.",
        (0, 1) => "Nothing was removed: 1 entry may be meant.".to_owned(),
        (0, count) => format!("Nothing was removed: {count} entries may be meant."),
        (1, _) => "Forgot 1 memory entry.".to_owned(),
        (count, _) => format!("Forgot {count} memory entries."),
    };
    let mut name = |what: &str, paths: BTreeSet<&MemoryPath>| {
        if !paths.is_empty() {
            let paths: Vec<String> = paths.into_iter().map(ToString::to_string).collect();
            text.extend([" ", what, ": ", &paths.join(", "), "."]);
        }
    };
    name("Pinned memories were left alone", report.skipped_pinned.iter().collect());
    name("Left alone, because of merge conflicts", conflicts.iter().copied().collect());
    name("Not searched, because they cannot be read", failed_reads.iter().collect());
    text
}
