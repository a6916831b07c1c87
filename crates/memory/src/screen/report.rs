//! Recognizes reports about attacks, which are harmless: "Our guard drops prompts that say 'ignore all previous
//! instructions'".
//!
//! Quotation marks alone do not make an order a report. The whole sentence must be a report. In the clause before the
//! order, a third party blocks, tests or says it. The words after it only say where, how or that it was caught. Neither
//! the sentence nor the next one addresses the reader. In doubt the match counts as an order.

use std::ops::Range;
use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder};

use super::pattern::RuleHit;
use crate::text::slice;

/// The distance in which the sentence and the quotation marks around an order are searched, in bytes.
const SENTENCE_REACH_BYTES: usize = 240;

/// The longest distance between an order and the verb before it that governs it, in bytes.
const GOVERNED_MAX: usize = 80;

/// Rules whose matches may be part of a report. Template tags, commands and orders to send data away do harm even as a
/// quotation.
const REPORTABLE: &[&str] = &[
    "injection.override-instructions",
    "injection.role-change",
    "injection.prompt-extraction",
    "injection.hide-from-user",
    "injection.bypass-approval",
];

/// Verbs of blocking and finding, whose object is not obeyed.
static BLOCKING: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"\b(?:block(?:s|ed)?|drop(?:s|ped)?|reject(?:s|ed)?|refuse[sd]?|flag(?:s|ged)?|detect(?:s|ed)?|catch(?:es)?",
        r"|caught|filter(?:s|ed)?(?: out)?|strip(?:s|ped)?|quarantine[sd]?|den(?:y|ies|ied)|match(?:es|ed)?",
        r"|labels?|labell?ed|blockier(?:t|en)|filter[nt]|verwirft|verwerfen|erkenn(?:t|en)",
        r"|bloque(?:a|n|nt)?|filtra|filtre|rechaza|rejette|rifiuta|blocca|bloqueia|rejeita)\b",
    ))
});

/// Verbs of saying and testing, whose object is what a third party says.
static SAYING: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"\b(?:says?|said|contain(?:s|ed|ing)?|includ(?:es?|ed|ing)|sends?|sent|writes?|wrote|reads|lists?|found|tr(?:y|ies|ied)|add(?:s|ed)",
        r"|listed|hides?|hid|generates?|generated|covers?|covered|followed|models obey|quotes?|quoted|asserts?(?: that)?",
        r"|fe(?:eds?|d)|posts?|posted|pasted|asks?|asked|tells?|told|explains? why|uses?|used|has|have|contiene|contient|enthalt)\b",
    ))
});

/// Nouns of defenses, tests and attacks: what they say is known to be hostile.
static HOSTILE: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"\b(?:guards?|guard ?rails?|filters?|scanners?|detectors?|classifiers?|screening|moderation|waf|regex(?:es)?|fuzzers?",
        r"|honeypots?|owasp|llm01|tests?|suites?|fixtures?|evals?|benchmarks?|data ?sets?|corpus|papers?|stud(?:y|ies)|talks?",
        r"|lessons?|cve-[0-9-]+|attack(?:s|ers?)?|jailbreaks?|injections?|injected|payloads?|exploits?|phishing|red[ -]team(?:s|ers)?",
        r"|hidden text|hostile|malicious|adversarial|poisoned|spam|trick|bait|unsafe|suspicious|threat)\b",
    ))
});

/// Third parties that may make a model follow an order without being hostile by name.
static CARRIER: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"^(?:the|a|an|one|this) (?:[a-z-]+ )?(?:skill|plugin|extension|web ?site|web ?page)\b")
});

/// Words right before a quotation that label it: "Prompt injection example: …".
static LABEL: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"\b(?:injection|jailbreak|attack) (?:examples?|payloads?|strings?|attempts?)[^:,;]{0,40}:$",
        r"|\b(?:was|were|got|been) (?:tricked|fooled|hijacked|jailbroken|attacked) (?:by|with)$",
    ))
});

/// A third party that is made to follow an order, just before it.
static MADE_TO: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"\b(?:teach(?:es)?|taught|trick(?:s|ed)?|fool(?:s|ed)?|tell(?:s|ing)?|told|ask(?:s|ed|ing)?|instruct(?:s|ed|ing)?",
        r"|convince[sd]?|persuade[sd]?|tr(?:y|ies|ied|ying) to (?:make|get|trick|convince))",
        r" (?:(?:the|an?|our|its|their|any) )?(?:naive |language |victim )?",
        r"(?:models?|agents?|assistants?|llms?|bots?|ais?|chatbots?|claude|chatgpt|gpt|gemini|copilot|codex|cursor) (?:to|into)$",
    ))
});

/// Breaks between clauses: a verb before them does not govern the words after them.
static BREAK: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"[,;:]| -(?: |$)|\b(?:until|unless|because|so|hence|thus|but|if|since|and|first)\b")
});

/// The words that may follow an order in its clause: where, how, and that it was blocked.
static HEAD: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"^(?:(?:is|are|was|were|gets?|got|must be|should be|will be|has been|have been) (?:[a-z]+ )?",
        r"(?:blocked|dropped|rejected|refused|flagged|detected|caught|filtered|stripped|quarantined|denied)\b.*",
        r"|(?:in|into|inside|within|from|by (?:the|our|an?)|at|against|works? (?:against|on)|seit|par|dans|mit|bei|con|desde) .*",
        r"|with [0-9.]+ ?(?:%|confidence)|once|twice|again|often",
        r"|to (?:each|every|the|an?|our|all) (?:[a-z-]+ ){0,2}",
        r"(?:models?|agents?|assistants?|endpoints?|pipelines?|chat|api|corpus|suites?|tests?|fixtures?|data ?sets?|(?:deny|block) ?list)",
        r"|as (?:.*\b)?(?:attacks?|tricks?|bait|injections?|jailbreaks?|hostile|malicious|unsafe|refused|blocked|rejected|suspicious|spam|threats?)\b.*",
        r"|[0-9]+ times|[a-z-]+(?:ly|mente|ment)|zuverl.{1,2}ssig)$",
    ))
});

/// Verbs for a caught order, in a separate clause after it.
static CAUGHT: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"\b(?:flag|blocks|blocked|drops|dropped|rejects|rejected|refuses|refused|flags|flagged|detects|detected|catches|caught",
        r"|filters|filtered|strips|stripped|quarantined|denies|denied|closed|reported|logs|logged|skips|skipped|ignored|expects",
        r"|fails|failed|removed|deleted|discards|discarded)\b",
    ))
});

/// Words that address the reader, confirm the order, or withdraw the blocking.
static READER: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"\b(?:you|your|yours|yourself|please|remember|note|important|from now on|always|now|instead|system:|accordingly",
        r"|(?:must|has to|have to|should|shall|will|to) (?:now )?(?:obey|follow|comply|do|be honou?red|be obeyed|be followed)",
        r"|(?:so|and|then|just|who|which|that) (?:obey|follow|comply|complies|do|does|act|apply|execute|run|continue|proceed)",
        r"|obey (?:it|this|that)|comply|complies|act on|do (?:so|that|this|it|what|as)|doing (?:so|that|this|it|what)",
        r"|follow (?:it|this|that|these|them|what)|follows? below|carry (?:it|this|that) out|treat (?:it|this|that)|continue with|proceed",
        r"|(?:our|the|my|new|your) (?:policy|owner|user|operator|developer|admin)|(?:house|ground|golden|first|main|new) rules?",
        r"|(?:every|all|any|this|these|good|other) (?:assistants?|agents?|models?|readers?|ais?|bots?|llms?)",
        r"|this (?:session|workspace|repository|repo|memory|file|note|line|instruction)",
        r"|appl(?:y|ies)|binding|in (?:force|effect)|effective|valid|correct|legitimate|required|standard|honou?red|true|active",
        r"|right|allowed|approved|permitted|genuine|real order|still counts?|as (?:the|our|a) (?:rule|policy|law|order))\b",
    ))
});

/// Words that withdraw the blocking.
static NEGATION: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"\b(?:no|not|never|nothing|nobody|cannot|without|over|broken|disabled|until|unless|except)\b|n't\b",
    )
});

fn regex(source: &str) -> Regex {
    // Unicode word boundaries would be slow in texts of other scripts.
    RegexBuilder::new(source)
        .unicode(false)
        .build()
        .expect("the source must be a regular expression")
}

/// Checks whether a match is part of a report about an attack, and not an order.
pub(super) fn is_report(text: &str, hit: &RuleHit) -> bool {
    if !REPORTABLE.contains(&hit.rule.id) {
        return false;
    }
    let sentence = sentence_around(text, &hit.range);
    let quotation = quotation_around(text, &sentence, &hit.range);
    let order = quotation.as_ref().unwrap_or(&hit.range);
    let before = plain(slice(text, sentence.start..order.start));
    // A quotation may end after its sentence; then no part of the sentence follows it.
    let after = plain(slice(text, order.end..sentence.end.max(order.end)));
    let beyond = text.ceil_char_boundary((sentence.end + SENTENCE_REACH_BYTES / 2).min(text.len()));
    let next = plain(slice(text, sentence.end..beyond));
    let turns_to_reader = [&before, &after, &next].iter().any(|part| matches(&READER, part));
    if turns_to_reader || matches(&NEGATION, &before) {
        return false;
    }
    let Some(rest) = SentenceTail::parse(&after) else { return false };
    match quotation {
        Some(_) => is_quoted_by_third_party(&before, &rest),
        None => {
            matches(&MADE_TO, &before) && (matches(&HOSTILE, &before) || matches(&CARRIER, &before))
        }
    }
}

/// Checks whether the words around a quotation say that a third party blocks, tests or says it.
fn is_quoted_by_third_party(before: &str, rest: &SentenceTail<'_>) -> bool {
    let is_said = governs(&SAYING, before);
    governs(&BLOCKING, before)
        || matches(&LABEL, before)
        || (before.len() <= GOVERNED_MAX && !matches(&BREAK, before) && rest.is_blocked())
        || (is_said && (matches(&HOSTILE, before) || rest.is_hostile()))
        || (is_said && matches(&CAUGHT, rest.tail))
}

/// Checks whether the last of these verbs is in the final clause of the text.
fn governs(verbs: &Regex, text: &str) -> bool {
    let last = verbs.find_iter(text.as_bytes()).last();
    // A verb without a subject before it is a heading or an order.
    let object = last.filter(|verb| verb.start() > 0).and_then(|verb| text.get(verb.end()..));
    object.is_some_and(|object| object.len() <= GOVERNED_MAX && !matches(&BREAK, object))
}

/// The rest of the sentence after an order.
struct SentenceTail<'t> {
    /// The rest of the order's clause.
    head: &'t str,
    /// The clauses after it.
    tail: &'t str,
}

impl<'t> SentenceTail<'t> {
    /// Parses the rest of the sentence; `None` unless it only says where, how, or that the order was caught.
    fn parse(after: &'t str) -> Option<Self> {
        let after = after.trim_matches([' ', ')', '.', '"', '\'', '`']);
        let marks = [",", ";", " - ", " and ", " but "];
        let cut = marks.iter().filter_map(|mark| after.find(mark)).min();
        let cut = if after.starts_with("and ") { Some(0) } else { cut };
        let (head, tail) = after.split_at(cut.unwrap_or(after.len()));
        let head = head.trim();
        let only_reports = (head.is_empty() || matches(&HEAD, head))
            && (tail.is_empty() || matches(&CAUGHT, tail));
        only_reports.then_some(Self { head, tail })
    }

    fn is_blocked(&self) -> bool {
        matches(&HEAD, self.head) && matches(&CAUGHT, self.head)
    }

    fn is_hostile(&self) -> bool {
        let is_use = ["as ", "to "].iter().any(|start| self.head.starts_with(start));
        is_use && matches(&HOSTILE, self.head)
    }
}

/// Returns a text in lower case, with single spaces and without emphasis.
fn plain(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    words.join(" ").replace(['*', '_'], "").to_lowercase()
}

fn matches(expression: &Regex, text: &str) -> bool {
    expression.is_match(text.as_bytes())
}

/// Returns the sentence around a range. It may span soft line breaks, but not paragraphs, list items and table rows.
fn sentence_around(text: &str, range: &Range<usize>) -> Range<usize> {
    let first = text.floor_char_boundary(range.start.saturating_sub(SENTENCE_REACH_BYTES));
    let last = text.ceil_char_boundary((range.end + SENTENCE_REACH_BYTES).min(text.len()));
    let before = slice(text, first..range.start);
    let after = slice(text, range.end..last);
    let start = before
        .rmatch_indices(['.', '!', '?', '\n'])
        .find(|(offset, _)| ends_sentence(before, *offset))
        .map_or(first, |(offset, mark)| first + offset + mark.len());
    let end = after
        .match_indices(['.', '!', '?', '\n'])
        .find(|(offset, _)| ends_sentence(after, *offset))
        .map_or(last, |(offset, _)| range.end + offset);
    start..end
}

/// Checks whether the mark at an offset ends a sentence.
fn ends_sentence(text: &str, offset: usize) -> bool {
    let mark = text.as_bytes()[offset];
    let rest = slice(text, offset + 1..);
    if mark == b'\n' {
        return rest.trim_start_matches([' ', '\t']).starts_with(|first: char| {
            matches!(first, '\n' | '\r' | '-' | '*' | '+' | '#' | '>' | '|')
                || first.is_ascii_digit()
        });
    }
    let rest = rest.trim_start_matches(['"', '\'', '`', ')']);
    let abbreviated = text.get(..offset).is_some_and(|before| before.ends_with("e.g"));
    !abbreviated && (rest.is_empty() || rest.starts_with(char::is_whitespace))
}

/// Returns the quotation around a range, with its marks, if it begins in the sentence of the range.
fn quotation_around(
    text: &str,
    sentence: &Range<usize>,
    range: &Range<usize>,
) -> Option<Range<usize>> {
    let before = text.get(sentence.start..range.start)?;
    let (open, mark) =
        before.char_indices().rfind(|(offset, mark)| is_opening_quote(before, *offset, *mark))?;
    let inside = before.get(open + 1..)?;
    if inside
        .char_indices()
        .any(|(offset, other)| other == mark && is_closing_quote(inside, offset))
    {
        return None;
    }
    // A match may include the closing mark and the text after it.
    let order = text.get(range.clone())?;
    let own = order.trim_end_matches(|end: char| !end.is_alphanumeric()).len();
    if order
        .get(..own)?
        .char_indices()
        .any(|(offset, other)| other == mark && is_closing_quote(order, offset))
    {
        return None;
    }
    let from = range.start + own;
    let rest =
        text.get(from..text.ceil_char_boundary((from + SENTENCE_REACH_BYTES).min(text.len())))?;
    let (close, _) = rest
        .char_indices()
        .find(|(offset, other)| *other == mark && is_closing_quote(rest, *offset))?;
    Some(sentence.start + open..from + close + 1)
}

/// Checks whether a character at an offset is an opening quotation mark.
fn is_opening_quote(text: &str, offset: usize, mark: char) -> bool {
    let before = slice(text, ..offset).chars().next_back();
    let after = slice(text, offset + mark.len_utf8()..).chars().next();
    matches!(mark, '"' | '\'' | '`')
        && before.is_none_or(|before| !before.is_alphanumeric())
        && after.is_none_or(|after| !after.is_whitespace() || mark == '"')
}

/// Checks whether the mark at an offset closes a quotation and is not an apostrophe.
fn is_closing_quote(text: &str, offset: usize) -> bool {
    !slice(text, offset + 1..).starts_with(char::is_alphanumeric)
}
