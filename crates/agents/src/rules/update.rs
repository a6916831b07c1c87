//! Detects statements that plainly replace an entry, so that no question is needed.
//!
//! There are two forms, in the languages whose words for `now` are listed. One gives the same subject another value
//! of the same shape (`The timeout is now 60 s`). The other is the whole old statement with `no longer` in it. The
//! new entry keeps all of the old one but the value; any other update is only proposed.

use std::sync::LazyLock;

use memory::text::slice;
use regex::Regex;

use super::duplicate::{NormalizedText, has_blocks};

/// Words for `now`, and forms of `to be`, in English, German, French and Spanish.
const NOW: &[&str] = &["now", "jetzt", "nun", "maintenant", "désormais", "ahora"];
const IS: &[&str] = &["is", "are", "ist", "sind", "est", "sont", "es", "son", "está", "están"];

/// Articles, which do not identify a subject.
pub(super) const ARTICLES: &[&str] = &[
    "the", "a", "an", "our", "my", "der", "die", "das", "ein", "eine", "unser", "unsere", "le",
    "la", "les", "un", "une", "notre", "el", "los", "las", "una", "nuestro", "nuestra",
];

/// Phrases for `no longer`. French has none: its negation stands around the verb, and its words have other uses.
const NO_LONGER: &[&str] = &["no longer ", "nicht mehr ", "ya no "];

/// Pattern of a value with a recognizable shape: a number with its unit, a time, a date, a version, a link.
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

/// A new statement that may replace others.
pub(crate) struct Replacement {
    /// The new statement without its `no longer`: an equal old one is denied.
    denied: Vec<NormalizedText>,
    /// Subject and value that the new one gives.
    new_value: Option<NewValue>,
}

/// A value that holds now.
struct NewValue {
    subject: NormalizedText,
    value: String,
    /// Kind and unit of the value.
    shape: (&'static str, String),
}

impl Replacement {
    /// Parses a new statement; `None` if it has no form that replaces another.
    pub(crate) fn parse(new: &str) -> Option<Self> {
        if has_blocks(new) {
            return None;
        }
        let denied = NO_LONGER.iter().flat_map(|words| new.match_indices(words));
        let denied: Vec<NormalizedText> = denied
            .map(|(index, words)| {
                let rest = [slice(new, ..index), slice(new, index + words.len()..)].concat();
                NormalizedText::new(&rest)
            })
            .collect();
        let new_value = split_subject_and_value(new, true).and_then(|(subject, value)| {
            let shape = value_shape(&value)?;
            Some(NewValue { subject, value, shape })
        });
        (!denied.is_empty() || new_value.is_some()).then_some(Self { denied, new_value })
    }

    /// Checks whether it replaces an old statement, in both forms, without losing anything else.
    pub(crate) fn replaces(&self, old: &str, old_form: &NormalizedText) -> bool {
        (self.denied.contains(old_form) || self.gives_new_value(old)) && !has_blocks(old)
    }

    /// Checks whether both give one subject a value of the same shape, and the new one holds now.
    fn gives_new_value(&self, old: &str) -> bool {
        let Some(NewValue { subject, value, shape }) = &self.new_value else { return false };
        // Every value with a shape has a digit or is a link. Most entries have neither.
        if !old.contains(char::is_numeric) && !old.contains("://") {
            return false;
        }
        let Some((old_subject, old_value)) = split_subject_and_value(old, false) else {
            return false;
        };
        *subject == old_subject
            && *value != old_value
            && value_shape(&old_value).as_ref() == Some(shape)
    }
}

/// Splits `SUBJECT is VALUE` and `SUBJECT: VALUE`; with `is_now`, a word for `now` must be on either side of the
/// value.
fn split_subject_and_value(text: &str, is_now: bool) -> Option<(NormalizedText, String)> {
    let text = text.trim().trim_end_matches(['.', '!']);
    let words: Vec<&str> = text.split_whitespace().collect();
    let index = words.iter().rposition(|word| IS.contains(word) || word.ends_with(':'))?;
    let (subject, rest) = words.split_at(index + 1);
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
    // `The port` may be the port of many things; `the gateway port` is specific.
    let is_significant = |word: &&str| !ARTICLES.contains(&word.to_lowercase().as_str());
    let is_specific =
        subject.split_whitespace().filter(is_significant).count() > 1 && !value.is_empty();
    is_specific.then(|| (NormalizedText::new(&subject), value.join(" ")))
}

/// Checks whether a new statement replaces an old one without losing anything else.
pub(crate) fn replaces(new: &str, old: &str) -> bool {
    Replacement::parse(new).is_some_and(|new| new.replaces(old, &NormalizedText::new(old)))
}

/// Returns the shape of a value: its kind and its unit.
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
    fn only_a_value_or_a_whole_statement_is_replaced() {
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
