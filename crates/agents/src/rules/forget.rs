//! Forget: which entries a request means.
//!
//! Forgetting destroys, so an entry goes only when it is clearly meant: the request repeats it, or it orders to forget
//! what is named by words that stand in this entry alone. Conditions, exceptions, questions, another yes or no, and
//! entries that say several things make it unclear. Then nothing goes, and the entries that may be meant are told, for a
//! person to choose from.

use std::collections::BTreeSet;

use memory::document::conflict_line;
use memory::path::{MemoryPath, Mount, Scope};
use memory::text::{has_word, slice};

use super::duplicate::{NormalizedText, has_blocks, is_fragment};
use super::frontmatter::{memory_title, refresh_frontmatter};
use super::lexicon::Class;
use super::similarity::{self, DocumentFrequencies, is_light};
use super::snapshot::{ParsedEntry, Snapshot, StoredMemory};
use super::tokenize::{TextToken, TokenizedText, is_unspaced};
use crate::request::{
    CuratorEdit, EntryAction, EntryCandidate, EntryOutcome, ForgetReport, ForgetRequest,
    ForgottenEntry, MemoryTopic,
};

/// The most candidates that are told.
const CANDIDATES_SHOWN_MAX: usize = 5;

/// The least share of a request's words that a candidate has, by their weight.
const CANDIDATE_SHARE_MIN: f64 = 0.4;

/// The most entries that `everything about …` removes without a question.
const ALL_ENTRIES_MAX: usize = 20;

/// The most words that say something in an entry that one of them means as a whole.
const SHORT_WORDS_MAX: usize = 3;

/// The shortest word that is looked for with a letter too many or too few, in characters.
const TYPO_CHARS_MIN: usize = 5;

const NO_MATCH: &str = "No managed auto-memory entries matched.";

/// Words that ask for all entries about something, in the languages of the lexicon.
const EVERYTHING_WORDS: &str = "
    everything all anything every alles alle tout toutes tous todo todos todas tutto tutti tutte
    tudo allemaal все всё 所有 全部 すべて 全て
";

/// Words between `everything` and what it is about.
const ABOUT_WORDS: &[&str] =
    &["about", "on", "über", "zu", "sur", "sobre", "su", "over", "о", "про"];

/// Small words that a plain request to forget may have. Any other (`if`, `but`, `without`, `who`) may turn its meaning.
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

/// Those of them that make a sentence.
const SENTENCE_WORDS: &[&str] = &[
    "is", "are", "i", "we", "it", "that", "to", "ist", "sind", "ich", "wir", "dass", "est", "sont",
    "que", "qu", "j", "je", "nous", "es", "son", "yo", "é", "são", "eu", "sono", "che", "zijn",
    "dat", "ik", "что", "я", "это",
];

/// Words between something and what it is of.
const POSSESSION_WORDS: &[&str] =
    &["of", "von", "de", "du", "des", "del", "di", "della", "do", "da", "van"];

/// Words that begin a question. A question asks for no removal.
const QUESTION_WORDS: &[&str] = &[
    "what", "which", "who", "whom", "whose", "when", "where", "why", "how", "do", "does", "did",
    "is", "are", "was", "should", "wer", "wo", "wann", "warum", "wie", "welche", "que", "qué",
    "quién", "cuándo", "dónde", "quoi", "qui", "quand", "où", "pourquoi", "comment",
];

/// One entry with its memory.
pub(crate) type EntryRef<'a> = (&'a StoredMemory, &'a ParsedEntry);

/// Decides which entries go.
pub fn forget(snapshot: &Snapshot, request: &ForgetRequest) -> ForgetReport {
    let chosen = select_entries(&entries_in_scope(snapshot, request), request);
    remove_selected(snapshot, chosen)
}

/// Returns at most so many entries that somebody may choose from, those that share most with the request first.
pub(crate) fn candidates<'a>(
    snapshot: &'a Snapshot,
    request: &ForgetRequest,
    max: usize,
) -> Vec<EntryRef<'a>> {
    let mut entries = entries_in_scope(snapshot, request);
    entries.retain(|(stored, _)| !stored.is_unreviewed());
    let asked = TokenizedText::tokenize(&request.query);
    let weights = DocumentFrequencies::from_entries(entries.iter().map(|(_, note)| *note));
    let weight = |note: &ParsedEntry| {
        let words = similarity::content_keys(note.tokenized());
        let shared = similarity::content_keys(&asked)
            .into_iter()
            .filter(|(key, _)| words.iter().any(|(word, _)| word == key));
        shared
            .map(|(key, _)| DocumentFrequencies::idf(weights.entries_with(key), entries.len()))
            .sum::<f64>()
    };
    let mut weighed: Vec<(f64, EntryRef<'a>)> =
        entries.iter().map(|at| (weight(at.1), *at)).collect();
    weighed.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    weighed.into_iter().map(|(_, at)| at).take(max).collect()
}

/// Removes entries that were chosen; of more than a person would look through, nothing is removed, and they are told.
pub(crate) fn forget_entries(snapshot: &Snapshot, chosen: Vec<EntryRef<'_>>) -> ForgetReport {
    let is_clear = chosen.len() <= ALL_ENTRIES_MAX;
    remove_selected(
        snapshot,
        if is_clear {
            ForgetSelection::Certain(chosen)
        } else {
            ForgetSelection::Ambiguous(chosen)
        },
    )
}

/// Returns the entries that a request may be about.
fn entries_in_scope<'a>(snapshot: &'a Snapshot, request: &ForgetRequest) -> Vec<EntryRef<'a>> {
    let may_go = |stored: &&StoredMemory| {
        let mount = stored.path.mount();
        let is_asked = request
            .scope
            .is_none_or(|scope| mount == Some(Mount::Scope(scope)) || mount == Some(Mount::Flat));
        is_asked
            && request.file.as_ref().is_none_or(|file| *file == stored.path)
            && mount.is_some_and(|mount| snapshot.writable.contains(&mount))
    };
    snapshot
        .memories
        .iter()
        .filter(may_go)
        .flat_map(|stored| stored.text.parsed().entries.iter().map(move |note| (stored, note)))
        .collect()
}

/// The entries that a request means.
enum ForgetSelection<'a> {
    /// These are clearly meant.
    Certain(Vec<EntryRef<'a>>),
    /// One of these may be meant, the likeliest first.
    Ambiguous(Vec<EntryRef<'a>>),
}

fn select_entries<'a>(entries: &[EntryRef<'a>], request: &ForgetRequest) -> ForgetSelection<'a> {
    let asked = ForgetQuery::parse(&request.query);
    if let Some(exact) = exact_matches(entries, &asked, request.file.is_some()) {
        return exact;
    }
    // What came with a repository is not quoted to whoever asks for something like it.
    let is_meant_to_speak =
        |(stored, _): &&EntryRef<'a>| request.file.is_some() || !stored.is_unreviewed();
    let entries: Vec<EntryRef<'a>> = entries.iter().filter(is_meant_to_speak).copied().collect();
    let entries = entries.as_slice();
    let found: Vec<EntryRef<'a>> =
        entries.iter().copied().filter(|(_, note)| asked.matches_entry(note)).collect();
    let found = asked.narrow_to_user(found);
    let is_clear = match found.as_slice() {
        [] => false,
        _ if !asked.is_plain_order => false,
        [(_, note)] => asked.means_whole_entry(note) && !has_rival(entries, &asked, note),
        [(_, note), ..] if are_duplicates(&found) => {
            asked.means_whole_entry(note) && !has_rival(entries, &asked, note)
        }
        // One word may stand for several things: `Grant`, `Summer`, `Kestrel`.
        _ => {
            asked.is_for_all
                && asked.content_words.len() > 1
                && found.len() <= ALL_ENTRIES_MAX
                && asked.is_specific()
        }
    };
    if is_clear {
        return ForgetSelection::Certain(found);
    }
    let mut candidates = found;
    for at in rank_candidates(entries, &asked) {
        if !candidates.iter().any(|one| std::ptr::eq(one.1, at.1)) {
            candidates.push(at);
        }
    }
    candidates.truncate(CANDIDATES_SHOWN_MAX);
    ForgetSelection::Ambiguous(candidates)
}

/// Finds the entry that the request repeats word for word, with or without `forget that` before it. Of a memory that a
/// person chose, the first line is enough.
fn exact_matches<'a>(
    entries: &[EntryRef<'a>],
    asked: &ForgetQuery,
    is_file_chosen: bool,
) -> Option<ForgetSelection<'a>> {
    let is_meant = |(_, note): &&EntryRef<'a>| {
        asked.normalized_texts.iter().any(|form| {
            note.normalized == *form
                || NormalizedText::new(note.statement()) == *form
                || (is_file_chosen && NormalizedText::new(&note.entry.first_line) == *form)
        })
    };
    let found: Vec<EntryRef<'a>> = entries.iter().filter(is_meant).copied().collect();
    match found.as_slice() {
        [] => None,
        // A step that goes breaks those around it.
        [(_, note)] if note.is_step && !is_file_chosen => Some(ForgetSelection::Ambiguous(found)),
        [_] => Some(ForgetSelection::Certain(found)),
        all if are_duplicates(all) => Some(ForgetSelection::Certain(found)),
        // The same line in several places: which one is meant is for a person to say.
        _ => Some(ForgetSelection::Ambiguous(found)),
    }
}

/// Tells whether entries say the same, whole and below no heading: who forgets one forgets the others.
fn are_duplicates(found: &[EntryRef<'_>]) -> bool {
    let is_copy = |(_, note): &EntryRef<'_>| {
        note.normalized == found[0].1.normalized
            && note.context.is_empty()
            && !is_fragment(note.statement())
    };
    found.iter().all(is_copy)
}

/// A request to forget.
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that a request may say")]
struct ForgetQuery {
    /// The words that say what is meant.
    content_words: Vec<TextToken>,
    /// If it has no word that says something: those that say little.
    light_words: Vec<TextToken>,
    /// All words of what it says.
    statement_words: Vec<TextToken>,
    /// The request without the words that only ask, once for each way to cut them.
    normalized_texts: Vec<NormalizedText>,
    /// Whether it orders to forget, and has no condition, exception or question.
    is_plain_order: bool,
    is_for_all: bool,
    is_first_person: bool,
    is_negated: bool,
    /// Whether it repeats a statement: `forget that …`.
    is_statement: bool,
    /// Whether it names something by something else, in any order: `the vouchers of Adyen`.
    is_phrase: bool,
}

impl ForgetQuery {
    fn parse(query: &str) -> Self {
        let text = TokenizedText::tokenize(query);
        let order = text.tokens.iter().position(|token| token.is(Class::Forget));
        let is_order = if let Some(at) = order {
            let token = &text.tokens[at];
            !token.negated
                && !is_not_an_order(&text.tokens[..at], token.sentence)
                && is_japanese_order(query)
        } else {
            // To ask for `the staging database` is to ask to forget it; a sentence may say anything.
            let named = &text.tokens[usize::from(is_all_about(&text))..];
            !query.contains(['?', '？', '؟']) && named.iter().all(can_name_subject)
        };
        let orders = text.tokens.iter().filter(|token| token.is(Class::Forget)).count();
        let is_statement = text.tokens.iter().any(is_complementizer);
        let words: Vec<TextToken> =
            text.tokens.iter().filter(|token| is_query_content(token)).cloned().collect();
        // `forget where I live`: words that most entries have are better than none, to ask by.
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
        let said = order.map_or(0, |at| at + 1);
        let has_any =
            |words: &[&str]| text.tokens.iter().any(|token| words.contains(&token.word.as_str()));
        Self {
            light_words: light.collect(),
            statement_words: text.tokens[said..]
                .iter()
                .filter(|one| !is_request_word(one))
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
            is_negated: text.tokens[said..].iter().any(|token| token.is(Class::Not)),
            is_statement,
            is_phrase: has_any(POSSESSION_WORDS) && !has_any(SENTENCE_WORDS),
            content_words: words,
        }
    }

    /// Tells whether an entry has all words of the request as they stand.
    fn matches_entry(&self, note: &ParsedEntry) -> bool {
        let has_all = |text: &TokenizedText| {
            self.content_words
                .iter()
                .all(|word| text.tokens.iter().any(|token| is_same_word(word, token)))
        };
        // Without reasons, all of an entry is the statement, whose words are read already.
        let has = if note.has_reasons() {
            has_all(&TokenizedText::tokenize(note.full_text()))
        } else {
            has_all(note.tokenized())
        };
        !self.content_words.is_empty() && has
    }

    /// Tells whether all of an entry is meant: it says one thing, says yes or no as the request does, and is about the
    /// words of the request.
    fn means_whole_entry(&self, note: &ParsedEntry) -> bool {
        let text = note.tokenized();
        let says_one_thing = text.tokens.last().is_some_and(|last| last.clause == 0)
            && !text.has(Class::And)
            && !has_blocks(note.full_text())
            && !note.is_step
            && !joins_statements(note.statement());
        let content: Vec<&TextToken> =
            text.content_tokens().filter(|token| !is_light(token)).collect();
        let is_about = |word: &TextToken| {
            content.len() <= SHORT_WORDS_MAX
                || content.first().is_some_and(|first| is_same_word(word, first))
        };
        let has_same_words = || {
            let telling = |tokens: &'_ [TextToken]| {
                let telling = tokens.iter().filter(|token| !is_article(token));
                telling.map(|token| token.word.clone()).collect::<Vec<_>>()
            };
            telling(&self.statement_words) == telling(&text.tokens)
        };
        let is_meant = match self.content_words.as_slice() {
            _ if self.is_statement => has_same_words(),
            [word] => is_about(word),
            words => self.is_phrase || are_in_order(words, text),
        };
        says_one_thing
            && self.is_negated == text.has(Class::Not)
            && !TokenizedText::tokenize(note.full_text()).is_unsupported_language(note.full_text())
            && is_meant
    }

    /// Leaves those entries of a person that `my` means, if there are such.
    fn narrow_to_user<'a>(&self, found: Vec<EntryRef<'a>>) -> Vec<EntryRef<'a>> {
        let is_of_person =
            |(stored, _): &EntryRef<'a>| stored.path.mount() == Some(Mount::Scope(Scope::Global));
        if self.is_first_person && found.iter().any(is_of_person) {
            return found.into_iter().filter(is_of_person).collect();
        }
        found
    }

    /// Tells whether every word names something by itself, so that all entries with them may be meant. Short words such
    /// as `Go`, `May` and `Mark` are other words, too.
    fn is_specific(&self) -> bool {
        let names = |word: &TextToken| {
            word.is_acronym || word.has_digit() || word.word.chars().count() >= TYPO_CHARS_MIN
        };
        self.content_words.iter().all(names)
    }
}

/// Tells whether words stand in an entry in their order: `Ada reports to Ben` is not about `Ben reports to Ada`.
fn are_in_order(words: &[TextToken], text: &TokenizedText) -> bool {
    let mut from = 0;
    words.iter().all(|word| {
        let at = text.tokens[from..].iter().position(|token| is_same_word(word, token));
        // A piece of a script without spaces may have two of the words.
        let step = usize::from(!word.word.chars().any(is_unspaced));
        at.inspect(|at| from = (from + at + step).min(text.tokens.len())).is_some()
    })
}

/// Tells whether a statement has parts that say things of their own: `Fly hosts the API & Doppler holds secrets`.
fn joins_statements(statement: &str) -> bool {
    const JOINING: &str = "& / | + -> → => whereas while unless because but if when";
    statement.split_whitespace().any(|word| has_word(JOINING, word))
}

/// Tells whether a request begins with `everything about`.
fn is_all_about(text: &TokenizedText) -> bool {
    let [first, next, ..] = text.tokens.as_slice() else { return false };
    has_word(EVERYTHING_WORDS, &first.word) && ABOUT_WORDS.contains(&next.word.as_str())
}

/// Tells whether a word only asks, or says of what the request is: `the note on …`.
fn is_request_word(token: &TextToken) -> bool {
    [Class::Forget, Class::Polite].into_iter().any(|class| token.is(class))
        || is_complementizer(token)
}

/// Tells whether a word leads in what is said: `forget that …`.
fn is_complementizer(token: &TextToken) -> bool {
    matches!(token.word.as_str(), "that" | "dass" | "que" | "che" | "что" | "dat")
}

/// Tells whether a word may be in the name of something: it says something, or is an article or the like.
fn can_name_subject(token: &TextToken) -> bool {
    let is_kind =
        [Class::Taste, Class::Rules, Class::Links].into_iter().any(|class| token.is(class));
    let is_small = PLAIN_FUNCTION_WORDS.contains(&token.word.as_str())
        && !SENTENCE_WORDS.contains(&token.word.as_str());
    is_kind || is_small || is_query_content(token)
}

/// Tells whether a word leaves a request as plain as it is.
fn is_plain_word(token: &TextToken) -> bool {
    let word = token.word.as_str();
    let is_small = token.is(Class::Function) && !token.is_content();
    let is_unspaced_word = word.chars().all(is_unspaced);
    let turns = token.is(Class::And) || token.is(Class::Contrast);
    // `no` is an article in Portuguese and a negation elsewhere; the entry has to say the same.
    !turns
        && (!is_small
            || is_unspaced_word
            || token.is(Class::Asking)
            || PLAIN_FUNCTION_WORDS.contains(&word)
            || token.is(Class::Not))
}

/// Tells whether a word says nothing in a statement: articles, forms of `to be`, and words for the person.
fn is_article(token: &TextToken) -> bool {
    const ARTICLES: &str = "
        the a an is are am i my der die das den dem ein eine ist sind ich le la les un une je el
        los las una yo o os um uma eu il gli io de het een ik
    ";
    has_word(ARTICLES, &token.word) || token.is(Class::User)
}

/// Tells whether the words before a word for forgetting make it no order: `I never want you to forget …`, `I forget …`.
fn is_not_an_order(before: &[TextToken], sentence: usize) -> bool {
    let mut before = before.iter().rev().take_while(|token| token.sentence == sentence);
    let speaks_of_oneself =
        before.clone().take(2).any(|token| token.is(Class::Oneself) && token.is(Class::Function));
    let asks = before.clone().any(|token| matches!(token.word.as_str(), "to" | "you" | "please"));
    before.any(|token| {
        token.is(Class::Not) || matches!(token.word.as_str(), "stop" | "quit" | "avoid")
    }) || (speaks_of_oneself && !asks)
}

/// Ends of Japanese sentences that order to forget; any other (`忘れるな`, `忘れちゃだめ`, `忘れるべき？`) may forbid it or ask.
const JAPANESE_ORDERS: &str = "
    忘れて 忘れろ 忘れてほしい 消して 消せ 消去 消去して 削除 削除して 取り消して 消してほしい 削除してほしい
";

/// Polite words that may follow such an ending.
const JAPANESE_POLITE_ENDINGS: &str = "
    ください 下さい くれ くれる おいて ね よ お願い お願いします です
";

/// Tells whether a Japanese request ends, or begins with a mark behind it, as orders to forget do. Text without kana is not
/// Japanese.
fn is_japanese_order(query: &str) -> bool {
    if !query.contains(|c| matches!(c, '\u{3040}'..='\u{30FF}')) {
        return true;
    }
    let begins = |rest: &str| {
        let order = JAPANESE_ORDERS.split_whitespace().find_map(|order| rest.strip_prefix(order));
        order.is_some_and(|rest| rest.trim_start().starts_with([':', '：', '、', '「']))
    };
    let mut said = query.trim().trim_end_matches(['。', '！', '!', '.', '、', ' ']);
    while let Some(rest) =
        JAPANESE_POLITE_ENDINGS.split_whitespace().find_map(|end| said.strip_suffix(end))
    {
        said = rest.trim_end_matches(['、', ' ']);
    }
    begins(query.trim()) || JAPANESE_ORDERS.split_whitespace().any(|order| said.ends_with(order))
}

/// Returns what a request says: all of it and, after an order, what is quoted and each rest that begins behind a word that
/// only asks.
fn query_texts(query: &str, text: &TokenizedText, order: Option<usize>) -> Vec<NormalizedText> {
    let mut forms = vec![NormalizedText::new(query)];
    if query.trim_start().starts_with(['"', '“', '„', '«', '「', '『']) {
        forms.extend(quoted(query).map(NormalizedText::new));
    }
    // `that the gate is red`: what is said to be forgotten, without the order.
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

/// Returns what stands between quotation marks, if that is most of a statement.
fn quoted(query: &str) -> Option<&str> {
    let pairs = [('“', '”'), ('"', '"'), ('„', '“'), ('«', '»'), ('「', '」'), ('『', '』')];
    pairs.into_iter().find_map(|(open, close)| {
        let (_, rest) = query.split_once(open)?;
        let (inside, _) = rest.rsplit_once(close)?;
        inside.split_whitespace().nth(1).map(|_| inside)
    })
}

/// Tells whether a word of a request says what is meant.
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

/// Tells whether two words are one as they stand. Capitals decide where either is written in capitals: `US` and `us`.
fn is_same_word(wanted: &TextToken, other: &TextToken) -> bool {
    if wanted.word.chars().all(is_unspaced) && !wanted.word.is_empty() {
        return other.word.contains(&wanted.word)
            || wanted.word.contains(&other.word) && other.word.chars().count() > 1;
    }
    // `Go` is not the `go` of a sentence; what begins one may be either.
    let is_other_case = wanted.is_name && !other.is_name && other.range.start > 0;
    wanted.word == other.word && wanted.is_acronym == other.is_acronym && !is_other_case
}

/// Tells whether another entry fits nearly as well: it has all words in another form.
fn has_rival(entries: &[EntryRef<'_>], asked: &ForgetQuery, chosen: &ParsedEntry) -> bool {
    entries.iter().any(|(_, note)| {
        !std::ptr::eq(*note, chosen)
            && note.normalized != chosen.normalized
            && asked.content_words.iter().all(|word| has_in_any_form(note, word))
    })
}

/// Tells whether an entry has a word in some form: by its stem, or but for a slip of the pen.
fn has_in_any_form(note: &ParsedEntry, word: &TextToken) -> bool {
    note.tokenized().tokens.iter().any(|token| {
        token.key == word.key
            || is_same_word(word, token)
            || token.word == word.word
            || is_typo(&word.word, &token.word)
    })
}

/// Tells whether two words begin alike, or differ by a slip of the pen: a letter more, less or other, or two turned.
fn is_typo(a: &str, b: &str) -> bool {
    let (long, short) =
        (a.chars().count().max(b.chars().count()), a.chars().count().min(b.chars().count()));
    let ahead = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    // Where a script has a sign for a syllable, fewer of them make a word.
    let short_min = if a.is_ascii() { TYPO_CHARS_MIN } else { 2 };
    let begins_alike = ahead >= short_min && ahead * 5 >= long * 3;
    begins_alike || (short >= TYPO_CHARS_MIN && strsim::damerau_levenshtein(a, b) <= 1 + long / 9)
}

/// Returns the entries that have most of the words in some form, the best first.
fn rank_candidates<'a>(entries: &[EntryRef<'a>], asked: &ForgetQuery) -> Vec<EntryRef<'a>> {
    let words =
        if asked.content_words.is_empty() { &asked.light_words } else { &asked.content_words };
    let count =
        |word: &TextToken| entries.iter().filter(|(_, note)| has_in_any_form(note, word)).count();
    let weights: Vec<f64> =
        words.iter().map(|word| DocumentFrequencies::idf(count(word), entries.len())).collect();
    let all: f64 = weights.iter().sum();
    let mut scored: Vec<(f64, EntryRef<'a>)> = Vec::new();
    let mut titled: Option<(&StoredMemory, TokenizedText)> = None;
    for &(stored, note) in entries {
        // Entries come memory by memory, so each title is read once.
        let (_, title) = match titled.take() {
            Some((of, title)) if std::ptr::eq(of, stored) => titled.insert((of, title)),
            _ => titled.insert((stored, TokenizedText::tokenize(&memory_title(stored)))),
        };
        let share = words.iter().zip(&weights).map(|(word, weight)| {
            let in_title = || title.tokens.iter().any(|token| token.key == word.key);
            if has_in_any_form(note, word) {
                *weight
            } else if in_title() {
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
    scored.into_iter().map(|(_, at)| at).take(CANDIDATES_SHOWN_MAX).collect()
}

/// Removes what is clearly meant, but for pinned memories, and tells the candidates otherwise.
fn remove_selected(snapshot: &Snapshot, chosen: ForgetSelection<'_>) -> ForgetReport {
    let mut done = ForgetReport::default();
    let mut conflicts = Vec::new();
    let clear = match chosen {
        ForgetSelection::Certain(clear) => clear,
        ForgetSelection::Ambiguous(unsure) => {
            let candidate = |(stored, note): EntryRef<'_>| EntryCandidate {
                path: stored.path.clone(),
                entry: note.full_text().to_owned(),
                summary: note.entry.first_line.clone(),
            };
            done.candidates = unsure.into_iter().map(candidate).collect();
            done.summary = summary(&done, &conflicts, &snapshot.failed_reads);
            return done;
        }
    };
    for stored in &snapshot.memories {
        let is_chosen =
            |note: &&ParsedEntry| clear.iter().any(|(_, one)| std::ptr::eq(*one, *note));
        // In the order of the file, and each once, however they were chosen.
        let notes: Vec<&ParsedEntry> =
            stored.text.parsed().entries.iter().filter(is_chosen).collect();
        if notes.is_empty() {
            continue;
        }
        if stored.pinned {
            done.skipped_pinned.push(stored.path.clone());
            continue;
        }
        if conflict_line(&stored.text).is_some() {
            conflicts.push(&stored.path);
            continue;
        }
        let path = stored.path.clone();
        let read = stored.text.parsed();
        let topic = MemoryTopic::declared_or_default(read.header.kind.as_deref(), &path);
        done.topics.insert(topic);
        done.scopes.extend(path.mount());
        for note in &notes {
            let summary = note.entry.first_line.clone();
            done.changes.push(EntryOutcome {
                path: path.clone(),
                action: EntryAction::Removed,
                summary: summary.clone(),
            });
            done.removed.push(ForgottenEntry { topic, summary, path: path.clone() });
        }
        done.edits.push(if notes.len() == read.entries.len() {
            CuratorEdit::Remove { path }
        } else {
            let text = stored.text_without(notes.iter().copied());
            CuratorEdit::Write { path, text: refresh_frontmatter(&stored.text, text) }
        });
    }
    done.summary = summary(&done, &conflicts, &snapshot.failed_reads);
    done
}

fn summary(done: &ForgetReport, conflicts: &[&MemoryPath], unsearched: &[MemoryPath]) -> String {
    let mut said = match (done.removed.len(), done.candidates.len()) {
        (0, 0) if done.skipped_pinned.is_empty() && conflicts.is_empty() => NO_MATCH.to_owned(),
        (0, 0) => NO_MATCH.trim_end_matches('.').to_owned() + " that may be removed.",
        (0, 1) => "Nothing was removed: 1 entry may be meant.".to_owned(),
        (0, count) => format!("Nothing was removed: {count} entries may be meant."),
        (1, _) => "Forgot 1 memory entry.".to_owned(),
        (count, _) => format!("Forgot {count} memory entries."),
    };
    let mut name = |what: &str, paths: BTreeSet<&MemoryPath>| {
        if !paths.is_empty() {
            let paths: Vec<String> = paths.into_iter().map(ToString::to_string).collect();
            said.extend([" ", what, ": ", &paths.join(", "), "."]);
        }
    };
    name("Pinned memories were left alone", done.skipped_pinned.iter().collect());
    name("Left alone, because of merge conflicts", conflicts.iter().copied().collect());
    name("Not searched, because they cannot be read", unsearched.iter().collect());
    said
}
