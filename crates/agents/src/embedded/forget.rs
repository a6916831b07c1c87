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

use super::about::{kept_true, title};
use super::book::{Note, Snapshot, Stored};
use super::lexicon::Class;
use super::same::{Form, has_blocks, is_fragment};
use super::similar::{self, Weights, is_light};
use super::words::{Text, Token, is_unspaced};
use crate::request::{
    Candidate, Edit, EntryAction, EntryNote, ForgetRequest, Forgotten, Removed, Topic,
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
const SLIP_CHARS_MIN: usize = 5;

const NO_MATCH: &str = "No managed auto-memory entries matched.";

/// Words that ask for all entries about something, in the languages of the lexicon.
const EVERYTHING: &str = "
    everything all anything every alles alle tout toutes tous todo todos todas tutto tutti tutte
    tudo allemaal все всё 所有 全部 すべて 全て
";

/// Words between `everything` and what it is about.
const ABOUT: &[&str] = &["about", "on", "über", "zu", "sur", "sobre", "su", "over", "о", "про"];

/// Small words that a plain request to forget may have. Any other (`if`, `but`, `without`, `who`) may turn its meaning.
const PLAIN: &[&str] = &[
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
const OF_SENTENCES: &[&str] = &[
    "is", "are", "i", "we", "it", "that", "to", "ist", "sind", "ich", "wir", "dass", "est", "sont",
    "que", "qu", "j", "je", "nous", "es", "son", "yo", "é", "são", "eu", "sono", "che", "zijn",
    "dat", "ik", "что", "я", "это",
];

/// Words between something and what it is of.
const OF: &[&str] = &["of", "von", "de", "du", "des", "del", "di", "della", "do", "da", "van"];

/// Words that begin a question. A question asks for no removal.
const QUESTIONS: &[&str] = &[
    "what", "which", "who", "whom", "whose", "when", "where", "why", "how", "do", "does", "did",
    "is", "are", "was", "should", "wer", "wo", "wann", "warum", "wie", "welche", "que", "qué",
    "quién", "cuándo", "dónde", "quoi", "qui", "quand", "où", "pourquoi", "comment",
];

/// One entry with its memory.
pub(crate) type At<'a> = (&'a Stored, &'a Note);

/// Decides which entries go.
pub fn forget(snapshot: &Snapshot, request: &ForgetRequest) -> Forgotten {
    let chosen = choose(&asked_of(snapshot, request), request);
    remove(snapshot, chosen)
}

/// Returns at most so many entries that somebody may choose from, those that share most with the request first.
pub(crate) fn candidates<'a>(
    snapshot: &'a Snapshot,
    request: &ForgetRequest,
    max: usize,
) -> Vec<At<'a>> {
    let mut entries = asked_of(snapshot, request);
    entries.retain(|(stored, _)| !stored.is_unreviewed());
    let asked = Text::read(&request.query);
    let weights = Weights::of(entries.iter().map(|(_, note)| *note));
    let weight = |note: &Note| {
        let words = similar::keys(note.words());
        let shared = similar::keys(&asked)
            .into_iter()
            .filter(|(key, _)| words.iter().any(|(word, _)| word == key));
        shared.map(|(key, _)| Weights::rarity(weights.count(key), entries.len())).sum::<f64>()
    };
    let mut weighed: Vec<(f64, At<'a>)> = entries.iter().map(|at| (weight(at.1), *at)).collect();
    weighed.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    weighed.into_iter().map(|(_, at)| at).take(max).collect()
}

/// Removes entries that were chosen; of more than a person would look through, nothing is removed, and they are told.
pub(crate) fn forget_entries(snapshot: &Snapshot, chosen: Vec<At<'_>>) -> Forgotten {
    let is_clear = chosen.len() <= ALL_ENTRIES_MAX;
    remove(snapshot, if is_clear { Chosen::Clear(chosen) } else { Chosen::Unsure(chosen) })
}

/// Returns the entries that a request may be about.
fn asked_of<'a>(snapshot: &'a Snapshot, request: &ForgetRequest) -> Vec<At<'a>> {
    let may_go = |stored: &&Stored| {
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
        .flat_map(|stored| stored.text.read().notes.iter().map(move |note| (stored, note)))
        .collect()
}

/// The entries that a request means.
enum Chosen<'a> {
    /// These are clearly meant.
    Clear(Vec<At<'a>>),
    /// One of these may be meant, the likeliest first.
    Unsure(Vec<At<'a>>),
}

fn choose<'a>(entries: &[At<'a>], request: &ForgetRequest) -> Chosen<'a> {
    let asked = Asked::of(&request.query);
    if let Some(exact) = exactly(entries, &asked, request.file.is_some()) {
        return exact;
    }
    // What came with a repository is not quoted to whoever asks for something like it.
    let is_meant_to_speak =
        |(stored, _): &&At<'a>| request.file.is_some() || !stored.is_unreviewed();
    let entries: Vec<At<'a>> = entries.iter().filter(is_meant_to_speak).copied().collect();
    let entries = entries.as_slice();
    let found: Vec<At<'a>> =
        entries.iter().copied().filter(|(_, note)| asked.is_in(note)).collect();
    let found = asked.narrowed(found);
    let is_clear = match found.as_slice() {
        [] => false,
        _ if !asked.is_plain_order => false,
        [(_, note)] => asked.means_all_of(note) && !rival(entries, &asked, note),
        [(_, note), ..] if are_copies(&found) => {
            asked.means_all_of(note) && !rival(entries, &asked, note)
        }
        // One word may stand for several things: `Grant`, `Summer`, `Kestrel`.
        _ => {
            asked.is_for_all
                && asked.words.len() > 1
                && found.len() <= ALL_ENTRIES_MAX
                && asked.names_subject()
        }
    };
    if is_clear {
        return Chosen::Clear(found);
    }
    let mut candidates = found;
    for at in likely(entries, &asked) {
        if !candidates.iter().any(|one| std::ptr::eq(one.1, at.1)) {
            candidates.push(at);
        }
    }
    candidates.truncate(CANDIDATES_SHOWN_MAX);
    Chosen::Unsure(candidates)
}

/// Finds the entry that the request repeats word for word, with or without `forget that` before it. Of a memory that a
/// person chose, the first line is enough.
fn exactly<'a>(entries: &[At<'a>], asked: &Asked, is_file_chosen: bool) -> Option<Chosen<'a>> {
    let is_meant = |(_, note): &&At<'a>| {
        asked.forms.iter().any(|form| {
            note.form == *form
                || Form::of(note.statement()) == *form
                || (is_file_chosen && Form::of(&note.entry.first_line) == *form)
        })
    };
    let found: Vec<At<'a>> = entries.iter().filter(is_meant).copied().collect();
    match found.as_slice() {
        [] => None,
        // A step that goes breaks those around it.
        [(_, note)] if note.is_step && !is_file_chosen => Some(Chosen::Unsure(found)),
        [_] => Some(Chosen::Clear(found)),
        all if are_copies(all) => Some(Chosen::Clear(found)),
        // The same line in several places: which one is meant is for a person to say.
        _ => Some(Chosen::Unsure(found)),
    }
}

/// Tells whether entries say the same, whole and below no heading: who forgets one forgets the others.
fn are_copies(found: &[At<'_>]) -> bool {
    let is_copy = |(_, note): &At<'_>| {
        note.form == found[0].1.form && note.context.is_empty() && !is_fragment(note.statement())
    };
    found.iter().all(is_copy)
}

/// A request to forget.
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that a request may say")]
struct Asked {
    /// The words that say what is meant.
    words: Vec<Token>,
    /// If it has no word that says something: those that say little.
    light: Vec<Token>,
    /// All words of what it says.
    all: Vec<Token>,
    /// The request without the words that only ask, once for each way to cut them.
    forms: Vec<Form>,
    /// Whether it orders to forget, and has no condition, exception or question.
    is_plain_order: bool,
    is_for_all: bool,
    is_own: bool,
    is_negated: bool,
    /// Whether it repeats a statement: `forget that …`.
    is_statement: bool,
    /// Whether it names something by something else, in any order: `the vouchers of Adyen`.
    is_phrase: bool,
}

impl Asked {
    fn of(query: &str) -> Self {
        let text = Text::read(query);
        let order = text.tokens.iter().position(|token| token.is(Class::Forget));
        let is_order = if let Some(at) = order {
            let token = &text.tokens[at];
            !token.negated
                && !is_no_order(&text.tokens[..at], token.sentence)
                && is_order_in_kana(query)
        } else {
            // To ask for `the staging database` is to ask to forget it; a sentence may say anything.
            let named = &text.tokens[usize::from(is_all_about(&text))..];
            !query.contains(['?', '？', '؟']) && named.iter().all(names_something)
        };
        let orders = text.tokens.iter().filter(|token| token.is(Class::Forget)).count();
        let is_statement = text.tokens.iter().any(is_that);
        let words: Vec<Token> =
            text.tokens.iter().filter(|token| says_what(token)).cloned().collect();
        // `forget where I live`: words that most entries have are better than none, to ask by.
        let is_light = |token: &&Token| {
            (token.is(Class::Light) || token.is(Class::Prefer)) && !token.is(Class::Forget)
        };
        let light = text.tokens.iter().filter(|_| words.is_empty()).filter(is_light).cloned();
        let keeps = text.hits.iter().any(|hit| {
            hit.classes.has(Class::Except)
                || hit.classes.has(Class::Keep)
                || (hit.tokens.start == 0 && hit.classes.has(Class::Lead))
        });
        let asks =
            text.tokens.first().is_some_and(|first| QUESTIONS.contains(&first.word.as_str()));
        let said = order.map_or(0, |at| at + 1);
        let has_any =
            |words: &[&str]| text.tokens.iter().any(|token| words.contains(&token.word.as_str()));
        Self {
            light: light.collect(),
            all: text.tokens[said..].iter().filter(|one| !only_asks(one)).cloned().collect(),
            forms: forms(query, &text, order.filter(|_| is_order && !keeps)),
            is_plain_order: is_order
                && orders <= 1
                && !words.is_empty()
                && !keeps
                && !asks
                && !text.is_foreign(query)
                && text.tokens.iter().all(is_plain),
            is_for_all: text.tokens.iter().any(|token| has_word(EVERYTHING, &token.word)),
            is_own: text.has(Class::Oneself),
            is_negated: text.tokens[said..].iter().any(|token| token.is(Class::Not)),
            is_statement,
            is_phrase: has_any(OF) && !has_any(OF_SENTENCES),
            words,
        }
    }

    /// Tells whether an entry has all words of the request as they stand.
    fn is_in(&self, note: &Note) -> bool {
        let has_all = |text: &Text| {
            self.words.iter().all(|word| text.tokens.iter().any(|token| is_word(word, token)))
        };
        // Without reasons, all of an entry is the statement, whose words are read already.
        let has = if note.is_explained() {
            has_all(&Text::read(note.whole()))
        } else {
            has_all(note.words())
        };
        !self.words.is_empty() && has
    }

    /// Tells whether all of an entry is meant: it says one thing, says yes or no as the request does, and is about the
    /// words of the request.
    fn means_all_of(&self, note: &Note) -> bool {
        let text = note.words();
        let says_one_thing = text.tokens.last().is_some_and(|last| last.clause == 0)
            && !text.has(Class::And)
            && !has_blocks(note.whole())
            && !note.is_step
            && !has_parts(note.statement());
        let content: Vec<&Token> = text.content().filter(|token| !is_light(token)).collect();
        let is_about = |word: &Token| {
            content.len() <= SHORT_WORDS_MAX
                || content.first().is_some_and(|first| is_word(word, first))
        };
        let has_same_words = || {
            let telling = |tokens: &'_ [Token]| {
                let telling = tokens.iter().filter(|token| !is_article(token));
                telling.map(|token| token.word.clone()).collect::<Vec<_>>()
            };
            telling(&self.all) == telling(&text.tokens)
        };
        let is_meant = match self.words.as_slice() {
            _ if self.is_statement => has_same_words(),
            [word] => is_about(word),
            words => self.is_phrase || are_in_order(words, text),
        };
        says_one_thing
            && self.is_negated == text.has(Class::Not)
            && !Text::read(note.whole()).is_foreign(note.whole())
            && is_meant
    }

    /// Leaves those entries of a person that `my` means, if there are such.
    fn narrowed<'a>(&self, found: Vec<At<'a>>) -> Vec<At<'a>> {
        let is_of_person =
            |(stored, _): &At<'a>| stored.path.mount() == Some(Mount::Scope(Scope::Global));
        if self.is_own && found.iter().any(is_of_person) {
            return found.into_iter().filter(is_of_person).collect();
        }
        found
    }

    /// Tells whether every word names something by itself, so that all entries with them may be meant. Short words such
    /// as `Go`, `May` and `Mark` are other words, too.
    fn names_subject(&self) -> bool {
        let names = |word: &Token| {
            word.is_acronym || word.has_digit() || word.word.chars().count() >= SLIP_CHARS_MIN
        };
        self.words.iter().all(names)
    }
}

/// Tells whether words stand in an entry in their order: `Ada reports to Ben` is not about `Ben reports to Ada`.
fn are_in_order(words: &[Token], text: &Text) -> bool {
    let mut from = 0;
    words.iter().all(|word| {
        let at = text.tokens[from..].iter().position(|token| is_word(word, token));
        // A piece of a script without spaces may have two of the words.
        let step = usize::from(!word.word.chars().any(is_unspaced));
        at.inspect(|at| from = (from + at + step).min(text.tokens.len())).is_some()
    })
}

/// Tells whether a statement has parts that say things of their own: `Fly hosts the API & Doppler holds secrets`.
fn has_parts(statement: &str) -> bool {
    const JOINING: &str = "& / | + -> → => whereas while unless because but if when";
    statement.split_whitespace().any(|word| has_word(JOINING, word))
}

/// Tells whether a request begins with `everything about`.
fn is_all_about(text: &Text) -> bool {
    let [first, next, ..] = text.tokens.as_slice() else { return false };
    has_word(EVERYTHING, &first.word) && ABOUT.contains(&next.word.as_str())
}

/// Tells whether a word only asks, or says of what the request is: `the note on …`.
fn only_asks(token: &Token) -> bool {
    [Class::Forget, Class::Polite].into_iter().any(|class| token.is(class)) || is_that(token)
}

/// Tells whether a word leads in what is said: `forget that …`.
fn is_that(token: &Token) -> bool {
    matches!(token.word.as_str(), "that" | "dass" | "que" | "che" | "что" | "dat")
}

/// Tells whether a word may be in the name of something: it says something, or is an article or the like.
fn names_something(token: &Token) -> bool {
    let is_kind =
        [Class::Taste, Class::Rules, Class::Links].into_iter().any(|class| token.is(class));
    let is_small =
        PLAIN.contains(&token.word.as_str()) && !OF_SENTENCES.contains(&token.word.as_str());
    is_kind || is_small || says_what(token)
}

/// Tells whether a word leaves a request as plain as it is.
fn is_plain(token: &Token) -> bool {
    let word = token.word.as_str();
    let is_small = token.is(Class::Function) && !token.is_content();
    let is_unspaced_word = word.chars().all(is_unspaced);
    let turns = token.is(Class::And) || token.is(Class::Contrast);
    // `no` is an article in Portuguese and a negation elsewhere; the entry has to say the same.
    !turns
        && (!is_small
            || is_unspaced_word
            || token.is(Class::Asking)
            || PLAIN.contains(&word)
            || token.is(Class::Not))
}

/// Tells whether a word says nothing in a statement: articles, forms of `to be`, and words for the person.
fn is_article(token: &Token) -> bool {
    const ARTICLES: &str = "
        the a an is are am i my der die das den dem ein eine ist sind ich le la les un une je el
        los las una yo o os um uma eu il gli io de het een ik
    ";
    has_word(ARTICLES, &token.word) || token.is(Class::User)
}

/// Tells whether the words before a word for forgetting make it no order: `I never want you to forget …`, `I forget …`.
fn is_no_order(before: &[Token], sentence: usize) -> bool {
    let mut before = before.iter().rev().take_while(|token| token.sentence == sentence);
    let speaks_of_oneself =
        before.clone().take(2).any(|token| token.is(Class::Oneself) && token.is(Class::Function));
    let asks = before.clone().any(|token| matches!(token.word.as_str(), "to" | "you" | "please"));
    before.any(|token| {
        token.is(Class::Not) || matches!(token.word.as_str(), "stop" | "quit" | "avoid")
    }) || (speaks_of_oneself && !asks)
}

/// Ends of Japanese sentences that order to forget; any other (`忘れるな`, `忘れちゃだめ`, `忘れるべき？`) may forbid it or ask.
const ORDERS_IN_KANA: &str = "
    忘れて 忘れろ 忘れてほしい 消して 消せ 消去 消去して 削除 削除して 取り消して 消してほしい 削除してほしい
";

/// Polite words that may follow such an ending.
const BEHIND_ORDERS: &str = "
    ください 下さい くれ くれる おいて ね よ お願い お願いします です
";

/// Tells whether a Japanese request ends, or begins with a mark behind it, as orders to forget do. Text without kana is not
/// Japanese.
fn is_order_in_kana(query: &str) -> bool {
    if !query.contains(|c| matches!(c, '\u{3040}'..='\u{30FF}')) {
        return true;
    }
    let begins = |rest: &str| {
        let order = ORDERS_IN_KANA.split_whitespace().find_map(|order| rest.strip_prefix(order));
        order.is_some_and(|rest| rest.trim_start().starts_with([':', '：', '、', '「']))
    };
    let mut said = query.trim().trim_end_matches(['。', '！', '!', '.', '、', ' ']);
    while let Some(rest) = BEHIND_ORDERS.split_whitespace().find_map(|end| said.strip_suffix(end)) {
        said = rest.trim_end_matches(['、', ' ']);
    }
    begins(query.trim()) || ORDERS_IN_KANA.split_whitespace().any(|order| said.ends_with(order))
}

/// Returns what a request says: all of it and, after an order, what is quoted and each rest that begins behind a word that
/// only asks.
fn forms(query: &str, text: &Text, order: Option<usize>) -> Vec<Form> {
    let mut forms = vec![Form::of(query)];
    if query.trim_start().starts_with(['"', '“', '„', '«', '「', '『']) {
        forms.extend(quoted(query).map(Form::of));
    }
    // `that the gate is red`: what is said to be forgotten, without the order.
    if let Some(that) = text.tokens.first().filter(|first| is_that(first)) {
        forms.push(Form::of(slice(query, that.at.end..)));
    }
    if let Some(order) = order {
        forms.extend(quoted(query).map(Form::of));
        for token in &text.tokens[order..] {
            let asks = [Class::Forget, Class::Asking, Class::Polite, Class::Function];
            if token.is(Class::Not) || !asks.into_iter().any(|class| token.is(class)) {
                break;
            }
            let rest = slice(query, token.at.end..);
            let rest = rest.trim_start_matches(|c: char| c.is_whitespace() || ":,：，".contains(c));
            forms.push(Form::of(rest));
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
fn says_what(token: &Token) -> bool {
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
fn is_word(wanted: &Token, other: &Token) -> bool {
    if wanted.word.chars().all(is_unspaced) && !wanted.word.is_empty() {
        return other.word.contains(&wanted.word)
            || wanted.word.contains(&other.word) && other.word.chars().count() > 1;
    }
    // `Go` is not the `go` of a sentence; what begins one may be either.
    let is_other_case = wanted.is_name && !other.is_name && other.at.start > 0;
    wanted.word == other.word && wanted.is_acronym == other.is_acronym && !is_other_case
}

/// Tells whether another entry fits nearly as well: it has all words in another form.
fn rival(entries: &[At<'_>], asked: &Asked, chosen: &Note) -> bool {
    entries.iter().any(|(_, note)| {
        !std::ptr::eq(*note, chosen)
            && note.form != chosen.form
            && asked.words.iter().all(|word| has_in_any_form(note, word))
    })
}

/// Tells whether an entry has a word in some form: by its stem, or but for a slip of the pen.
fn has_in_any_form(note: &Note, word: &Token) -> bool {
    note.words().tokens.iter().any(|token| {
        token.key == word.key
            || is_word(word, token)
            || token.word == word.word
            || is_slip(&word.word, &token.word)
    })
}

/// Tells whether two words begin alike, or differ by a slip of the pen: a letter more, less or other, or two turned.
fn is_slip(a: &str, b: &str) -> bool {
    let (long, short) =
        (a.chars().count().max(b.chars().count()), a.chars().count().min(b.chars().count()));
    let ahead = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    // Where a script has a sign for a syllable, fewer of them make a word.
    let short_min = if a.is_ascii() { SLIP_CHARS_MIN } else { 2 };
    let begins_alike = ahead >= short_min && ahead * 5 >= long * 3;
    begins_alike || (short >= SLIP_CHARS_MIN && strsim::damerau_levenshtein(a, b) <= 1 + long / 9)
}

/// Returns the entries that have most of the words in some form, the best first.
fn likely<'a>(entries: &[At<'a>], asked: &Asked) -> Vec<At<'a>> {
    let words = if asked.words.is_empty() { &asked.light } else { &asked.words };
    let count =
        |word: &Token| entries.iter().filter(|(_, note)| has_in_any_form(note, word)).count();
    let weights: Vec<f64> =
        words.iter().map(|word| Weights::rarity(count(word), entries.len())).collect();
    let all: f64 = weights.iter().sum();
    let mut scored: Vec<(f64, At<'a>)> = Vec::new();
    let mut titled: Option<(&Stored, Text)> = None;
    for &(stored, note) in entries {
        // Entries come memory by memory, so each title is read once.
        let (_, title) = match titled.take() {
            Some((of, title)) if std::ptr::eq(of, stored) => titled.insert((of, title)),
            _ => titled.insert((stored, Text::read(&title(stored)))),
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
fn remove(snapshot: &Snapshot, chosen: Chosen<'_>) -> Forgotten {
    let mut done = Forgotten::default();
    let mut conflicts = Vec::new();
    let clear = match chosen {
        Chosen::Clear(clear) => clear,
        Chosen::Unsure(unsure) => {
            let candidate = |(stored, note): At<'_>| Candidate {
                path: stored.path.clone(),
                entry: note.whole().to_owned(),
                summary: note.entry.first_line.clone(),
            };
            done.candidates = unsure.into_iter().map(candidate).collect();
            done.summary = summary(&done, &conflicts, &snapshot.unsearched);
            return done;
        }
    };
    for stored in &snapshot.memories {
        let is_chosen = |note: &&Note| clear.iter().any(|(_, one)| std::ptr::eq(*one, *note));
        // In the order of the file, and each once, however they were chosen.
        let notes: Vec<&Note> = stored.text.read().notes.iter().filter(is_chosen).collect();
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
        let read = stored.text.read();
        let topic = Topic::nearest(read.head.kind.as_deref(), &path);
        done.topics.insert(topic);
        done.scopes.extend(path.mount());
        for note in &notes {
            let summary = note.entry.first_line.clone();
            done.changes.push(EntryNote {
                path: path.clone(),
                action: EntryAction::Removed,
                summary: summary.clone(),
            });
            done.removed.push(Removed { topic, summary, path: path.clone() });
        }
        done.edits.push(if notes.len() == read.notes.len() {
            Edit::Remove { path }
        } else {
            let text = stored.without(notes.iter().copied());
            Edit::Write { path, text: kept_true(&stored.text, text) }
        });
    }
    done.summary = summary(&done, &conflicts, &snapshot.unsearched);
    done
}

fn summary(done: &Forgotten, conflicts: &[&MemoryPath], unsearched: &[MemoryPath]) -> String {
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
