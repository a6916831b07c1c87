//! Statements that say plainly what an entry is now, so that it may be replaced without a question.
//!
//! Two forms only, in the languages whose words for `now` are listed: the same subject with another value of the same
//! shape (`The timeout is now 60 s`), and the whole old statement with `no longer` in it. The new entry says all that
//! the old one said but its value; anything else is proposed.

use std::sync::LazyLock;

use memory::text::slice;
use regex::Regex;

use super::duplicate::{NormalizedText, has_blocks};

/// Words for `now`, and forms of `to be`, in English, German, French and Spanish.
const NOW: &[&str] = &["now", "jetzt", "nun", "maintenant", "désormais", "ahora"];
const IS: &[&str] = &["is", "are", "ist", "sind", "est", "sont", "es", "son", "está", "están"];

/// Articles, which tell one subject from no other.
const ARTICLES: &[&str] = &[
    "the", "a", "an", "our", "my", "der", "die", "das", "ein", "eine", "unser", "unsere", "le",
    "la", "les", "un", "une", "notre", "el", "los", "las", "una", "nuestro", "nuestra",
];

/// Words that say that the rest is no longer so; the words that stand around it in French are not told apart from
/// others, so it has none.
const NO_LONGER: &[&str] = &["no longer ", "nicht mehr ", "ya no "];

/// A value with a shape of its own: a number with its unit, a time, a date, a version, a link, a path, a share.
static VALUE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?x)^(?:
        (?P<date>\d{4}-\d{2}-\d{2})
        |(?P<time>\d{1,2}:\d{2}(?:\ [A-Z]{3,4})?)
        |(?P<version>v?\d+\.\d+(?:\.\d+)*)
        |(?P<link>https?://\S+)
        |(?P<number>\d+(?:[.,]\d+)?)(?P<unit>(?:\ ?[\p{Alphabetic}%°/]+(?:\ [\p{Alphabetic}]+)?)?)
        )$",
    )
    .ok()
});

/// Tells whether a new statement replaces an old one, so that nothing else of the old one is lost.
pub(crate) fn replaces(new: &str, old: &str) -> bool {
    if has_blocks(new) || has_blocks(old) {
        return false;
    }
    negates_statement(new, old) || gives_new_value(new, old)
}

/// Tells whether the new statement is the old one with `no longer`, or other words for it, in it.
fn negates_statement(new: &str, old: &str) -> bool {
    let old = NormalizedText::new(old);
    NO_LONGER.iter().any(|words| {
        let mut found = new.match_indices(words);
        found.any(|(at, words)| {
            let rest = [slice(new, ..at), slice(new, at + words.len()..)].concat();
            NormalizedText::new(&rest) == old
        })
    })
}

/// Tells whether both give one subject a value of the same shape, and the new one says that it holds now.
fn gives_new_value(new: &str, old: &str) -> bool {
    let Some((subject, value)) = split_subject_and_value(new, true) else { return false };
    let Some((old_subject, old_value)) = split_subject_and_value(old, false) else { return false };
    subject == old_subject
        && value != old_value
        && value_shape(&value).is_some_and(|shape| Some(shape) == self::value_shape(&old_value))
}

/// Cuts `SUBJECT is VALUE` and `SUBJECT: VALUE`, with a word for `now` on either side of the value if that is wanted.
fn split_subject_and_value(text: &str, is_now: bool) -> Option<(NormalizedText, String)> {
    let text = text.trim().trim_end_matches(['.', '!']);
    let words: Vec<&str> = text.split_whitespace().collect();
    let at = words.iter().rposition(|word| IS.contains(word) || word.ends_with(':'))?;
    let (subject, rest) = words.split_at(at + 1);
    let (verb, subject) = subject.split_last()?;
    let subject = match verb.strip_suffix(':') {
        Some(last) => [subject, &[last]].concat().join(" "),
        None => subject.join(" "),
    };
    let value = match rest {
        [now, value @ ..] | [value @ .., now] if is_now && NOW.contains(now) => value,
        _ if is_now => return None,
        value => value,
    };
    // `The port` may be that of one of many things; `the gateway port` is not.
    let is_telling = |word: &&str| !ARTICLES.contains(&word.to_lowercase().as_str());
    let is_whole = subject.split_whitespace().filter(is_telling).count() > 1 && !value.is_empty();
    is_whole.then(|| (NormalizedText::new(&subject), value.join(" ")))
}

/// Returns the shape of a value: which kind it is, and its unit.
fn value_shape(value: &str) -> Option<(&'static str, String)> {
    let found = VALUE.as_ref()?.captures(value.trim_matches('`'))?;
    let kinds = ["date", "time", "version", "link", "number"];
    let kind = kinds.into_iter().find(|kind| found.name(kind).is_some())?;
    let unit = found.name("unit").map_or("", |unit| unit.as_str()).trim();
    Some((kind, unit.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_value_or_the_whole_statement_is_replaced() {
        for (old, new) in [
            ("The proxy timeout is 30 s", "the proxy timeout is now 60 s."),
            ("Gateway port: 8080", "Gateway port: now 9090"),
            ("The code freeze is 2026-01-02", "The code freeze is 2026-02-03 now"),
            ("We use Jenkins", "We no longer use Jenkins."),
            ("Wir nutzen Jenkins", "Wir nutzen nicht mehr Jenkins"),
            ("Das Limit der Datei ist 5 MB", "Das Limit der Datei ist jetzt 9 MB"),
        ] {
            assert!(replaces(new, old), "{old} | {new}");
        }
        for (old, new) in [
            ("The timeout is 30 s", "The timeout is now 60 s"),
            ("The proxy timeout is 30 s", "The proxy timeout is 60 s"),
            ("The timeout is 30 s", "The limit is now 60 s"),
            ("The timeout is 30 s", "The timeout is now 60 requests"),
            ("The timeout is 30 s, for slow links", "The timeout is now 60 s"),
            ("Priya is the owner", "Priya is now on leave"),
            ("Owner: Priya", "Owner: Tom"),
            ("Port: 8080", "Port: now 9090"),
            ("Uses VS Code with vim keys", "I switched from VS Code to Zed"),
            ("We use Jenkins for deploys", "We no longer use Jenkins"),
            ("Staging is 5", "Production is now 6"),
            ("Copy prod to staging", "Copy staging to prod every night"),
        ] {
            assert!(!replaces(new, old), "{old} | {new}");
        }
    }
}
