//! When two statements say the same, and when the second one replaces the first.
//!
//! Both are judged on the words that carry meaning, in the form that `words` gives them. The rules are
//! made to err towards *different*: a repeated fact is a nuisance, a lost one is not to be had back by
//! the reader. So all meaning words have to agree, with their negation, and so has everything that is no
//! plain word: numbers, paths, links, signs, pictures.

use std::collections::BTreeSet;

use super::book::Note;
use super::lexicon::{Class, Value};
use super::words::{Text, Token, is_unspaced};

/// A meaning word and whether it is negated.
pub(crate) type Word = (String, bool);

/// Returns the words that two texts must share to say the same.
pub(crate) fn fingerprint(text: &Text) -> BTreeSet<Word> {
    text.content()
        .filter(|token| !is_light(token))
        .map(|token| (token.key.clone(), token.negated))
        .collect()
}

/// Whether a word adds nothing: a verb that any noun may have, or the name of whoever speaks.
pub(crate) fn is_light(token: &Token) -> bool {
    let of_whom = token.is(Class::User) || token.is(Class::Oneself);
    // `Vivo` tells who lives there as well, and that somebody lives.
    let is_verb = token.is(Class::Oneself)
        && !token.is(Class::Function)
        && !token.word.chars().any(is_unspaced);
    !token.key.starts_with('§')
        && (token.is(Class::Light) || token.is(Class::Polite) || (of_whom && !is_verb))
}

/// Returns what is no plain word: each stretch between spaces that holds a digit and more, or a sign; options,
/// hidden files, and bits, which are no bytes.
pub(crate) fn literals(text: &str) -> BTreeSet<String> {
    let is_sign = |c: char| "/\\@#_=+<>$€£¥%^&|~°".contains(c);
    text.split_whitespace()
        .filter_map(|chunk| {
            let bare =
                chunk.trim_matches(|c: char| ",;:!?()[]{}'\"`*“”„‘’«»「」。、，！？…".contains(c));
            let chunk = bare.trim_matches('.');
            let begins = |with: char| {
                let rest = bare.strip_prefix(with);
                rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic()))
            };
            let is_bits = matches!(chunk, "Kb" | "Mb" | "Gb" | "Tb");
            let plain_number = chunk.chars().all(|c| c.is_ascii_digit());
            let telling = !plain_number && chunk.contains(|c: char| c.is_numeric() || is_sign(c));
            let whole = if begins('.') { bare.trim_end_matches('.') } else { chunk };
            (telling || is_bits || begins('.') || begins('-')).then(|| whole.to_owned())
        })
        .collect()
}

/// Whether two statements say the same in other words, or in the same.
pub(crate) fn same(a: &Text, b: &Text, (a_source, b_source): (&str, &str)) -> bool {
    let words = fingerprint(a);
    if words.is_empty() || literals(a_source) != literals(b_source) || are_opposed(a, b) {
        return false;
    }
    (words == fingerprint(b) || same_but_for_a_label(a, b)) && same_roles(a, b)
}

/// Small words that say nothing by themselves, in the languages that have them.
const ARTICLES: &[&str] = &[
    "the", "a", "an", "also", "too", "very", "just", "so", "then", "there", "any", "der", "die",
    "das", "den", "dem", "des", "ein", "eine", "einen", "einem", "einer", "le", "la", "les", "un",
    "une", "el", "los", "las", "una", "il", "lo", "i", "gli", "o", "os", "as", "um", "uma", "de",
    "het", "een", "en", "ett",
];

/// Whoever speaks, as what somebody does.
const SPEAKER: &[&str] = &["i", "ich", "je", "j", "yo", "eu", "io", "ik", "jag", "jeg"];

/// The same in languages that do not tell it from whom something is done to.
const SPEAKER_FIRST: &[&str] = &[
    "私",
    "僕",
    "我",
    "나",
    "저",
    "я",
    "ja",
    "ben",
    "saya",
    "aku",
    "toi",
    "من",
    "εγω",
    "אני",
    "मैं",
];

/// What a small word stands for, if another one could be in its place without a difference.
fn role(token: &Token) -> Option<&str> {
    let word = token.word.as_str();
    match word {
        // Short texts are taken for another language easily.
        "no" | "kein" | "keine" | "keinen" | "keiner" | "nessun" | "aucun" | "geen" => Some("not"),
        "ohne" | "sans" | "senza" | "sin" | "sem" | "zonder" => Some("without"),
        "an" if !token.is_english() => Some(word),
        _ if token.is(Class::Not) => Some("not"),
        // `I'm allergic`, `the user is allergic`.
        _ if ARTICLES.contains(&word) || SPEAKER.contains(&word) || token.is(Class::User) => None,
        "is" | "are" | "am" | "be" | "being" | "it's" | "that's" | "i'm" => Some("is"),
        "i've" => Some("have"),
        "was" | "were" => Some("was"),
        "in" | "on" | "at" | "of" | "for" | "by" | "as" => Some("in"),
        "all" | "every" | "each" => Some("all"),
        "do" | "does" | "did" => None,
        _ => Some(word),
    }
}

/// Small words that change what is said wherever they stand. The same words with another one of these say
/// another thing.
const LOADED: &[&str] = &[
    "not", "all", "some", "only", "both", "off", "out", "before", "after", "without", "until",
    "from", "can", "may", "might", "could",
];

/// The loaded small words of a text.
fn loaded(text: &Text) -> BTreeSet<&str> {
    let small = text.tokens.iter().filter(|token| !token.is_content());
    small.filter_map(role).filter(|role| LOADED.contains(role)).collect()
}

/// Whether a text has the small words of a request by which it can be meant instead of another one: `off`.
pub(crate) fn has_opposites_of(text: &Text, request: &Text) -> bool {
    let telling = ["off", "out", "before", "after", "without"];
    let own = loaded(text);
    loaded(request).into_iter().filter(|word| telling.contains(word)).all(|word| own.contains(word))
}

/// Whether two texts with the same words are told apart by small ones: `on` and `off`, `before` and `after`,
/// `they pay us` and `we pay them`. What stands in the same place between the same words must be the same, or
/// one has nothing there; this holds in languages whose small words nobody has sorted.
fn are_opposed(a: &Text, b: &Text) -> bool {
    if loaded(a) != loaded(b) {
        return true;
    }
    let (a, b) = (between(a), between(b));
    if a.len() != b.len() || a.iter().zip(&b).any(|((_, a), (_, b))| a != b) {
        return false;
    }
    a.iter().zip(&b).any(|((a, _), (b, _))| {
        (!a.is_subset(b) && !b.is_subset(a)) || a.contains("was") != b.contains("was")
    })
}

/// The small words before each word that says something, with that word, and those behind the last.
fn between(text: &Text) -> Vec<(BTreeSet<&str>, Option<&str>)> {
    let mut places = Vec::new();
    let mut small = BTreeSet::new();
    for (index, token) in text.tokens.iter().enumerate() {
        // In front of everything they say who does it, further on to whom it is done.
        if index == 0 && SPEAKER_FIRST.contains(&token.word.as_str()) {
        } else if !token.is_content() {
            small.extend(role(token));
        } else if !is_light(token) {
            places.push((std::mem::take(&mut small), Some(token.key.as_str())));
        }
    }
    places.push((small, None));
    places
}

/// Whether two statements share a name such as `chap-2`, and differ at most by a noun that says what
/// kind of thing the name is: `branch chap-2`.
fn same_but_for_a_label(a: &Text, b: &Text) -> bool {
    let (a_words, b_words) = (fingerprint(a), fingerprint(b));
    let (more, fewer, text) =
        if a_words.len() > b_words.len() { (a_words, b_words, a) } else { (b_words, a_words, b) };
    if more.len() != fewer.len() + 1 || !fewer.is_subset(&more) {
        return false;
    }
    let Some((label, _)) = more.difference(&fewer).next() else { return false };
    let content: Vec<&Token> = text.content().collect();
    content.windows(2).any(|pair| {
        let name = &pair[1].word;
        pair[0].key == *label
            && name.contains(|c: char| c.is_ascii_digit())
            && name.chars().filter(|c| c.is_alphabetic()).count() >= 2
            && name.contains(['-', '_', '.'])
    })
}

/// Whether the same words also stand in the same relation. `A calls B` is not `B calls A`, nor `A is called B`.
fn same_roles(a: &Text, b: &Text) -> bool {
    let (first, second) = (sequence(a), sequence(b));
    let is_turned = is_turned(a, b) || is_turned(b, a);
    if first == second {
        return !is_turned;
    }
    let is_free = is_turned
        || passive(a) != passive(b)
        || fronted(a) != fronted(b)
        || only_time_moved(a, b)
        || (first.len() == 2 && (asks(a) || asks(b)));
    if is_free {
        return true;
    }
    // One word moved past at least two others, around another small verb: `the branch x holds the marks`,
    // `the marks are developed on x`.
    let verbs = |text: &Text| -> BTreeSet<String> {
        text.content().filter(|token| is_light(token)).map(|token| token.key.clone()).collect()
    };
    let shared: Vec<&String> = first.iter().filter(|key| second.contains(key)).collect();
    verbs(a) != verbs(b)
        && shared.len() >= 3
        && shared.iter().any(|moved| {
            let rest = |keys: &[String]| -> Vec<String> {
                keys.iter().filter(|key| shared.contains(key) && key != moved).cloned().collect()
            };
            let place = |keys: &[String]| {
                keys.iter().filter(|key| shared.contains(key)).position(|key| key == *moved)
            };
            let distance = place(&first).zip(place(&second)).map_or(0, |(a, b)| a.abs_diff(b));
            distance >= 2 && rest(&first) == rest(&second)
        })
}

/// Whether two texts have the same words in the same order but for when something is: `on Fridays we ship`.
fn only_time_moved(a: &Text, b: &Text) -> bool {
    let timeless = |text: &Text| -> Vec<String> {
        let is_when = |token: &&Token| matches!(token.value_of_any_form(), Some(Value::Weekday(_)));
        let words = text.content().filter(|token| !is_light(token) && !is_when(token));
        words.map(|token| token.key.clone()).collect()
    };
    let (a, b) = (timeless(a), timeless(b));
    a.len() > 1 && a == b
}

/// Whether a text begins with a word such as `please`, so that it names nobody who does it.
fn asks(text: &Text) -> bool {
    text.tokens.first().is_some_and(|first| first.is(Class::Polite))
}

/// The meaning words in their order, each once.
fn sequence(text: &Text) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for token in text.content().filter(|token| !is_light(token)) {
        if !keys.contains(&token.key) {
            keys.push(token.key.clone());
        }
    }
    keys
}

fn passive(text: &Text) -> bool {
    text.has(Class::By)
}

/// How an English verb stands: `is held`, `holds`; nothing where its form leaves that open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Voice {
    Active,
    Passive,
}

/// Whether a verb of the first text stands in the passive there and in the active in the second.
fn is_turned(passive: &Text, active: &Text) -> bool {
    let has = |text: &Text, key: &str, wanted: Voice| {
        let mut verbs = text.tokens.iter().enumerate().filter(|(_, token)| token.key == key);
        verbs.any(|(at, _)| voice(text, at) == Some(wanted))
    };
    let verbs = passive.tokens.iter().enumerate();
    let mut verbs = verbs.filter(|(at, _)| voice(passive, *at) == Some(Voice::Passive));
    verbs.any(|(_, verb)| has(active, &verb.key, Voice::Active))
}

/// Whether an English word is a form of `to be`.
pub(crate) fn is_to_be(token: &Token) -> bool {
    ["is", "are", "was", "were", "be", "been", "being"].contains(&token.word.as_str())
}

fn voice(text: &Text, at: usize) -> Option<Voice> {
    let token = text.tokens.get(at).filter(|token| token.is_english())?;
    let is_participle = token.word.ends_with("ed") || token.is(Class::Past);
    // An order such as `keep it` names what is kept behind the verb, and not who keeps it.
    let before = &text.tokens[at.checked_sub(1)?];
    let follows_subject = before.sentence == token.sentence && !token.word.ends_with("ing");
    if is_participle {
        is_to_be(before).then_some(Voice::Passive)
    } else {
        follows_subject.then_some(Voice::Active)
    }
}

/// Whether a text begins with a circumstance: `For Python: …`, `In staging, …`.
fn fronted(text: &Text) -> bool {
    text.tokens.first().is_some_and(|first| {
        first.is(Class::Function)
            && !matches!(first.word.as_str(), "the" | "a" | "an" | "i" | "we")
            && text.tokens.iter().any(|token| token.clause > first.clause)
    })
}

/// Whether one of the sentences or clauses of `whole` says just what `part` says.
pub(crate) fn says_too(whole: &Note, part: &Note) -> bool {
    if whole.sketch.may_repeat(&part.sketch)
        && same(whole.text(), part.text(), (whole.statement(), part.statement()))
    {
        return true;
    }
    whole.sentences().iter().any(|sentence| {
        sentence.sketch.may_repeat(&part.sketch)
            && same(&sentence.text, part.text(), (&sentence.source, part.statement()))
    })
}

/// How a new statement stands to an old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// The old one says it already.
    Known,
    /// It is the old one with more to it.
    Elaborates,
    /// Both cannot hold.
    Replaces,
    /// They are about different things, or both hold.
    Other,
}

/// Returns how a new statement stands to an old one, with how sure that is, for choosing among many.
pub(crate) fn relation((new, new_source): (&Text, &str), old: &Note) -> (Relation, f64) {
    if same(new, old.text(), (new_source, old.statement())) {
        return (Relation::Known, 2.0);
    }
    let (ours, theirs) = (fingerprint(new), fingerprint(old.text()));
    let our_keys: BTreeSet<&String> = ours.iter().map(|(key, _)| key).collect();
    let their_keys: BTreeSet<&String> = theirs.iter().map(|(key, _)| key).collect();
    let shared = our_keys.intersection(&their_keys).count();
    let share = ratio(shared, their_keys.len());
    if our_keys == their_keys
        && ours != theirs
        && shared >= 2
        && literals(new_source) == literals(old.statement())
    {
        // The same words and another negation.
        return (Relation::Replaces, 1.5);
    }
    if (is_correction(new) && shared >= 1 && corrects(new, old, share, shared))
        || puts_right(new, old.text(), share)
    {
        return (Relation::Replaces, share);
    }
    if shared >= 3
        && ours.is_subset(&theirs)
        && !new.has(Class::Not)
        && loaded(new).is_subset(&loaded(old.text()))
        && literals(new_source).is_subset(&literals(old.statement()))
    {
        return (Relation::Known, share);
    }
    if shared >= 3
        && theirs.is_subset(&ours)
        && ours.len() <= theirs.len() + 3
        && loaded(old.text()).is_subset(&loaded(new))
        && literals(old.statement()).is_subset(&literals(new_source))
        && !old.text().has(Class::Not)
    {
        return (Relation::Elaborates, share);
    }
    if other_value(new, old.text()) {
        return (Relation::Replaces, share);
    }
    (Relation::Other, share)
}

#[expect(clippy::cast_precision_loss, reason = "counts of words of one entry")]
fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

pub(crate) fn is_correction(text: &Text) -> bool {
    text.has(Class::Change) || text.has(Class::Gone) || is_handed_over(text)
}

/// Whether a text may replace another one that has only some of its words.
pub(crate) fn may_correct(text: &Text) -> bool {
    is_correction(text) || text.has(Class::Not) || text.has(Class::Contrast)
}

/// Whether somebody gives something out of their hands: `passed the importer on to Bruna`.
fn is_handed_over(text: &Text) -> bool {
    let mut giving = text.tokens.iter().enumerate().filter(|(_, token)| token.is(Class::Handover));
    giving.any(|(at, verb)| {
        text.tokens[at..].windows(2).any(|pair| {
            let [to, name] = pair else { return false };
            to.clause == verb.clause && to.is(Class::Function) && name.is_name
        })
    })
}

/// Whether a statement that says that something changed speaks of this one: most of its words, or half
/// of them with a value that is no longer so.
fn corrects(new: &Text, old: &Note, share: f64, shared: usize) -> bool {
    let may_end = |token: &&Token| is_value(token) || token.is_name || token.negated;
    let gives_up = new
        .content()
        .filter(may_end)
        .any(|token| old.text().content().any(|theirs| theirs.key == token.key));
    let subject = subject(old.text());
    let names_subject =
        subject.is_some_and(|subject| new.content().any(|token| token.key == subject));
    (share >= 0.6 && shared >= 2)
        || (share >= 0.4 && shared >= 2 && (gives_up || names_subject))
        || (share >= 0.5 && gives_up && names_subject)
        || (share >= 0.4 && {
            let words = of_one_value(new);
            words.is_some() && words == of_one_value(old.text())
        })
}

/// Whether a statement says what holds and that what the other one says does not: `monthly, not quarterly`.
fn puts_right(new: &Text, old: &Text, share: f64) -> bool {
    let says =
        |token: &&Token| old.content().any(|theirs| theirs.key == token.key && !theirs.negated);
    let words = || new.content().filter(|token| !is_light(token));
    let is_set = |token: &Token| {
        let before = new.tokens.iter().rfind(|before| before.at.end <= token.at.start);
        before.is_some_and(|before| before.is(Class::Not) || before.is(Class::Contrast))
    };
    share >= 0.6
        && words().filter(|token| !token.negated).filter(says).count() >= 1
        && words().any(|token| !token.negated && !says(&token))
        && words().any(|token| token.negated && is_set(token) && says(&token))
}

/// The words of a statement that gives a value, without the value and what tells that it changed; nothing of
/// another one.
fn of_one_value(text: &Text) -> Option<BTreeSet<&str>> {
    let words = || text.content().filter(|token| !is_light(token));
    words().any(is_value).then(|| {
        let rest = words().filter(|token| !is_value(token) && !token.is(Class::Change));
        rest.map(|token| token.key.as_str()).collect()
    })
}

/// The first meaning word.
fn subject(text: &Text) -> Option<String> {
    text.content().find(|token| !is_light(token)).map(|token| token.key.clone())
}

/// Whether two statements are alike but for the value of something that has only one.
pub(crate) fn other_value(new: &Text, old: &Text) -> bool {
    let (ours, theirs) = (meaning(new), meaning(old));
    let ahead = ours
        .iter()
        .zip(&theirs)
        .take_while(|(a, b)| a.key == b.key && a.negated == b.negated)
        .count();
    let behind = |skip: usize| {
        let ours = ours.iter().skip(skip).rev();
        let theirs = theirs.iter().skip(skip).rev();
        ours.zip(theirs).take_while(|(a, b)| a.key == b.key && a.negated == b.negated).count()
    };
    let behind = behind(ahead);
    let (our_value, their_value) =
        (&ours[ahead..ours.len() - behind], &theirs[ahead..theirs.len() - behind]);
    let are_values = |tokens: &[&Token]| tokens.iter().all(|token| is_value(token));
    if our_value.is_empty() || their_value.is_empty() {
        // `every hour`, `every six hours`.
        let more = if our_value.is_empty() { their_value } else { our_value };
        let unit = ours.len().checked_sub(behind).and_then(|at| ours.get(at));
        let has_unit = ahead >= 1 && unit.is_some_and(|token| token.is(Class::Unit));
        return has_unit && more.len() == 1 && are_values(more);
    }
    let has = |class: Class| {
        let shares = |token: &&Token| token.is(class);
        ours[..ahead].iter().any(shares) || ours[ours.len() - behind..].iter().any(shares)
    };
    if are_values(our_value) && are_values(their_value) {
        // `ward 4` is a name, `has four` is a value: something stands between it and the noun.
        let is_apart = |text: &Text, tokens: &[&Token]| {
            tokens.get(ahead.wrapping_sub(1)).is_some_and(|before| {
                let (from, to) = (before.at.end, tokens[ahead].at.start);
                let is_between = |token: &Token| token.at.start >= from && token.at.end <= to;
                is_bound(before) || text.tokens.iter().any(is_between)
            })
        };
        let apart = is_apart(new, &ours) && is_apart(old, &theirs);
        // Where two differ, the first one names what the second one is said of: `service 1 is at 8001`.
        let is_one = our_value.len() == 1 && their_value.len() == 1;
        return if behind == 0 { is_one && ahead >= 2 } else { apart };
    }
    let short = [(new, our_value), (old, their_value)]
        .into_iter()
        .all(|(text, value)| value.len() <= 2 && is_one_run(text, value));
    let at_the_end = behind == 0 && ahead >= 1 && has(Class::Single);
    // `Kaveh leads the export`, and not `the catalogue backup runs`, where the verb is another noun's.
    let verb_follows = |tokens: &[&Token]| {
        let verb = tokens[tokens.len() - behind];
        verb.is(Class::Head) || verb.is_verb_last()
    };
    let at_the_head = ahead == 0
        && behind >= 2
        && has(Class::Head)
        && verb_follows(&ours)
        && verb_follows(&theirs);
    short && (at_the_end || at_the_head)
}

/// Whether a word says that what follows is the least or the most of something.
fn is_bound(token: &Token) -> bool {
    matches!(token.key.as_str(), "§less" | "§more")
}

/// Whether nothing stands between the words: `at home` and `Firefox` are two things.
fn is_one_run(text: &Text, words: &[&Token]) -> bool {
    let (Some(first), Some(last)) = (words.first(), words.last()) else { return true };
    let within = first.at.start..last.at.end;
    text.tokens.iter().filter(|token| within.contains(&token.at.start)).count() == words.len()
}

/// Whether a word may be the value of something.
pub(crate) fn is_value(token: &Token) -> bool {
    token.has_digit() || token.value.is_some()
}

/// The meaning words with the small verbs that say what kind of value it is.
pub(crate) fn meaning(text: &Text) -> Vec<&Token> {
    text.content()
        .filter(|token| !is_light(token) || token.is(Class::Single) || token.is(Class::Head))
        .filter(|token| !token.is(Class::Oneself) && !token.is(Class::User))
        .filter(|token| !matches!(token.value, Some(Value::Number(1))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_value_replaces_and_another_name_does_not() {
        let check = |new: &str, old: &str, expected: bool| {
            assert_eq!(other_value(&Text::read(new), &Text::read(old)), expected, "{old} {new}");
        };
        check("The server listens on port 9090.", "The server listens on port 8080.", true);
        check("The port of service 2 is 8002.", "The port of service 1 is 8001.", false);
        check("The berth of boat b2 is number 7.", "The berth of boat b1 is number 7.", false);
        check("The team has five testers.", "The team has four testers.", true);
    }
}
