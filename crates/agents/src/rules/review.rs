//! Review: finds the statements of a conversation that are worth keeping, by explicit signals alone.
//!
//! Only the person's own words are parsed, sentence by sentence, with the phrases of the lexicon (`phrases`). A
//! sentence is a finding if it has a signal: a request to remember, a standing rule, a description of the person, a
//! correction of the agent, or a convention. A contrary signal (a question, a joke, an order for this once, the
//! words of others) rules it out (`judge`). A missed statement may be repeated; a wrong one misleads every later
//! session. This module does not check for duplicates of memories or for secrets; `findings` does.

mod judge;

use std::ops::Range;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use memory::clock::Timestamp;
use memory::text::slice;

use self::judge::{Judge, STATEMENT_CHARS_MIN, STATEMENT_WORDS_MIN, Strength, is_order};
use super::classify::{self, FactOwner};
use super::content::strip_lead_in;
use super::dates;
use super::duplicate::NormalizedText;
use super::language::LanguageScores;
use super::lexicon::Class;
use super::message_sentences::{MessageSentence, own_sentences};
use super::phrases::{Sentence, Signal};
use super::similarity;
use super::tokenize::{TokenizedText, tokenize_spaced};
use super::update;
use crate::review::{FINDINGS_MAX, FindingTarget, MessageRole, ReviewFinding, ReviewMessage};

/// Minimum share of common words for two statements to say the same, in percent of the shorter one.
const SAME_PERCENT_MIN: usize = 80;
/// Minimum share for a later statement to give another value.
const VALUE_PERCENT_MIN: usize = 40;
/// Minimum share for a later statement to replace one that says the opposite.
const CONTRARY_PERCENT_MIN: usize = 60;

/// A finding before its dates are resolved.
struct StatementCandidate<'a> {
    strength: Strength,
    text: String,
    /// Index of its message.
    message: usize,
    evidence: Vec<&'a str>,
    /// Whether the message says that something before it is wrong.
    is_correction: bool,
    /// Tokens, cached: every statement is compared with all earlier ones.
    tokenized: TokenizedText,
    keys: Vec<String>,
    is_negated: bool,
    normalized: NormalizedText,
}

/// Returns at most [`FINDINGS_MAX`] findings: strongest signals first, then in the order of the conversation.
/// Relative dates are resolved from `now` in this time zone.
///
/// The result depends only on the arguments. The evidence of a finding is a list of message ids of the person.
pub fn review(
    messages: &[ReviewMessage],
    now: Timestamp,
    time_zone: &TimeZone,
) -> Vec<ReviewFinding> {
    let today = now.to_zoned(time_zone.clone()).date();
    let mut candidates: Vec<StatementCandidate<'_>> = Vec::new();
    let mut previous = None;
    for (index, message) in messages.iter().enumerate() {
        if message.role != MessageRole::User {
            continue;
        }
        let mut reader = MessageReader::new(index, &message.text);
        reader.read_message();
        if reader.retracts_previous {
            candidates.retain(|candidate| Some(candidate.message) != previous);
        }
        previous = Some(index);
        // A message may be an introduction alone.
        reader.candidates.retain(|candidate| !candidate.text.trim().is_empty());
        for mut candidate in reader.candidates {
            candidate.evidence.push(&message.id);
            add_candidate(&mut candidates, candidate);
        }
    }
    candidates.sort_by_key(|candidate| (candidate.strength, candidate.message));
    candidates.truncate(FINDINGS_MAX);
    candidates.into_iter().map(|candidate| to_finding(candidate, today)).collect()
}

fn to_finding(candidate: StatementCandidate<'_>, today: Date) -> ReviewFinding {
    let text = dates::resolve_relative_dates(&candidate.text, today);
    let kind = classify::classify(&text);
    let target = match kind.owner {
        FactOwner::User => FindingTarget::User,
        // A plain statement about things belongs to the project. An order to the agent belongs to the person.
        FactOwner::Project
            if candidate.strength.is_personal()
                && !kind.is_explicit
                && !kind.has_technical_terms =>
        {
            FindingTarget::User
        }
        FactOwner::Project => FindingTarget::Memory,
    };
    let evidence = candidate.evidence.into_iter().map(str::to_owned).collect();
    ReviewFinding { target, text, evidence }
}

/// Adds a statement, and removes earlier ones that say the same or the opposite.
fn add_candidate<'a>(
    candidates: &mut Vec<StatementCandidate<'a>>,
    mut new: StatementCandidate<'a>,
) {
    let mut kept = Vec::with_capacity(candidates.len() + 1);
    for old in candidates.drain(..) {
        match compare_candidates(&old, &new) {
            StatementRelation::Unrelated => kept.push(old),
            StatementRelation::Contrary => {}
            StatementRelation::Same => {
                new.strength = new.strength.min(old.strength);
                new.evidence.splice(0..0, old.evidence.iter().copied());
                if old.text.chars().count() > new.text.chars().count() {
                    new.take_text_from(old);
                }
            }
        }
    }
    kept.push(new);
    *candidates = kept;
}

enum StatementRelation {
    Same,
    Contrary,
    Unrelated,
}

fn compare_candidates(
    old: &StatementCandidate<'_>,
    new: &StatementCandidate<'_>,
) -> StatementRelation {
    if old.normalized == new.normalized {
        return StatementRelation::Same;
    }
    let least = old.keys.len().min(new.keys.len());
    let shared = old.keys.iter().filter(|key| new.keys.contains(key)).count();
    let percent = (shared * 100).checked_div(least).unwrap_or_default();
    let is_opposite = old.is_negated != new.is_negated;
    if least < 2 || percent < VALUE_PERCENT_MIN {
        return StatementRelation::Unrelated;
    }
    let is_contrary = (percent >= CONTRARY_PERCENT_MIN && (is_opposite || new.is_correction))
        || update::replaces(&new.text, &old.text)
        || similarity::changes_value(old.as_statement(), new.as_statement());
    if is_contrary {
        StatementRelation::Contrary
    } else if percent >= SAME_PERCENT_MIN {
        StatementRelation::Same
    } else {
        StatementRelation::Unrelated
    }
}

impl StatementCandidate<'_> {
    fn take_text_from(&mut self, other: Self) {
        self.text = other.text;
        self.tokenized = other.tokenized;
        self.keys = other.keys;
        self.is_negated = other.is_negated;
        self.normalized = other.normalized;
    }

    fn as_statement(&self) -> similarity::ComparedStatement<'_> {
        let is_change = similarity::is_change(&self.tokenized);
        similarity::ComparedStatement { text: &self.tokenized, source: &self.text, is_change }
    }
}

/// Reader of one message of the person.
struct MessageReader<'a, 'b> {
    index: usize,
    message_languages: LanguageScores,
    sentences: Vec<MessageSentence<'b>>,
    candidates: Vec<StatementCandidate<'a>>,
    /// Whether the message retracts the previous one.
    retracts_previous: bool,
    /// Whether the person said that something is wrong.
    is_correction: bool,
    previous: PreviousSentence<'b>,
}

/// State that a sentence passes to the next one.
#[derive(Default)]
struct PreviousSentence<'b> {
    /// Whether it asks to remember the next sentence.
    asks_to_remember: bool,
    is_order: bool,
    /// Its text, if the next sentence may refer to it.
    text: Option<&'b str>,
}

/// Whether to read the rest of a message.
#[derive(PartialEq, Eq)]
enum ReadFlow {
    Continue,
    /// The rest of the message is not in the person's own words.
    Stop,
}

impl<'b> MessageReader<'_, 'b> {
    fn new(index: usize, text: &'b str) -> Self {
        Self {
            index,
            message_languages: tokenize_spaced(text).1,
            sentences: own_sentences(text),
            candidates: Vec::new(),
            retracts_previous: false,
            is_correction: false,
            previous: PreviousSentence::default(),
        }
    }

    fn read_message(&mut self) {
        let sentences = std::mem::take(&mut self.sentences);
        let parsed: Vec<Option<Sentence<'b>>> = sentences
            .iter()
            .map(|sentence| {
                Sentence::parse(sentence.text, &sentence.quoted, &self.message_languages)
            })
            .collect();
        // Irony makes every part of a message unreliable.
        let is_joke = parsed.iter().flatten().any(|sentence| sentence.has(Signal::Joke, 0));
        for (index, (own, sentence)) in sentences.iter().zip(&parsed).enumerate() {
            let Some(sentence) = sentence else {
                self.previous.text = Some(own.text);
                if own.ends_with_colon {
                    break;
                }
                continue;
            };
            let next = self.read_sentence(sentence, own, index == 0, is_joke);
            self.previous.text = Some(own.text).filter(|text| !is_question(text));
            if next == ReadFlow::Stop {
                break;
            }
        }
    }

    fn read_sentence(
        &mut self,
        sentence: &Sentence<'b>,
        own: &MessageSentence<'b>,
        is_first: bool,
        is_joke: bool,
    ) -> ReadFlow {
        let mut lead = LeadIn::parse(sentence);
        while let Some(end) = retraction_end(sentence, lead.end) {
            self.retracts_previous |= is_first || self.candidates.is_empty();
            self.candidates.clear();
            lead = lead.extend(sentence, end);
        }
        self.is_correction |= lead.is_correction || sentence.has(Signal::Again, 0);
        let asks_to_remember = lead.asks_to_remember || self.previous.asks_to_remember;
        self.previous.asks_to_remember = false;
        if lead.end >= sentence.words.len() {
            if !is_joke && self.remember_previous(sentence) {
                return ReadFlow::Continue;
            }
            self.previous.asks_to_remember = lead.asks_to_remember;
            return if own.ends_with_colon && !asks_to_remember {
                ReadFlow::Stop
            } else {
                ReadFlow::Continue
            };
        }
        if is_joke {
            return ReadFlow::Continue;
        }
        if self.remember_previous(sentence) {
            return ReadFlow::Continue;
        }
        if introduces_material(sentence, &lead) {
            return ReadFlow::Stop;
        }
        if own.ends_with_colon {
            // `From now on:` makes the next sentences rules; any other introduction is followed by foreign text.
            self.previous.asks_to_remember = sentence.has(Signal::FromNow, 0) || asks_to_remember;
            return if self.previous.asks_to_remember {
                ReadFlow::Continue
            } else {
                ReadFlow::Stop
            };
        }
        if retracts_later(sentence, lead.end) {
            self.candidates.clear();
            self.retracts_previous |= is_first;
            return ReadFlow::Continue;
        }
        let end = trailing_request_start(sentence, lead.end);
        let asks_to_remember = asks_to_remember || end.is_some();
        let previous_is_order =
            std::mem::replace(&mut self.previous.is_order, is_order(sentence, lead.end));
        let is_correction = self.is_correction;
        let start = polite_order_start(sentence, lead.end);
        let judge =
            Judge { sentence, start, end, is_correction, asks_to_remember, previous_is_order };
        match judge.strength(is_question(own.text)) {
            Some(strength) => self.add_sentence(&judge, strength),
            None if judge.only_repeats_previous() => self.add_sentence(&judge, Strength::Rule),
            None if judge.only_limits_previous() => {
                self.candidates.pop();
            }
            None => {}
        }
        ReadFlow::Continue
    }

    /// Adds the previous sentence if this one only asks to remember it: `Remember that.`
    fn remember_previous(&mut self, sentence: &Sentence<'_>) -> bool {
        let whole = (0..sentence.words.len())
            .find_map(|index| sentence.phrase_end_at(Signal::Noted, index));
        let begins = sentence.phrase_end_at(Signal::Noted, 0).or_else(|| {
            sentence.phrase_end_at(Signal::Noted, sentence.phrase_end_at(Signal::Fluff, 0)?)
        });
        if whole.is_none() || begins != Some(sentence.words.len()) {
            return false;
        }
        let Some(last) =
            self.previous.text.take().filter(|last| last.split_whitespace().nth(2).is_some())
        else {
            return false;
        };
        let is_found = self.candidates.iter().any(|candidate| last.contains(&candidate.text));
        if !is_found {
            self.push_candidate(Strength::ExplicitRequest, strip_lead_in(last).to_owned());
        }
        true
    }

    fn push_candidate(&mut self, strength: Strength, text: String) {
        let tokenized = TokenizedText::tokenize(&text);
        self.candidates.push(StatementCandidate {
            strength,
            keys: similarity::content_keys(&tokenized)
                .into_iter()
                .map(|(key, _)| key.to_owned())
                .collect(),
            is_negated: tokenized.has(Class::Not),
            tokenized,
            normalized: NormalizedText::new(&text),
            text,
            message: self.index,
            evidence: Vec::new(),
            is_correction: self.is_correction,
        });
    }

    /// Adds the sentence, together with the previous one if it refers to that.
    fn add_sentence(&mut self, judge: &Judge<'_, 'b>, strength: Strength) {
        let own = judge.statement_text();
        let text = if judge.stands_alone() {
            own.to_owned()
        } else {
            let is_found =
                |last: &str| self.candidates.iter().any(|candidate| last.contains(&candidate.text));
            match self.previous.text.filter(|last| last.chars().count() >= STATEMENT_CHARS_MIN) {
                Some(last) if !is_found(last) && strength <= Strength::Rule => {
                    format!("{} {own}", strip_lead_in(last))
                }
                Some(_) | None => return,
            }
        };
        self.push_candidate(strength, text);
    }
}

/// Returns the start of an order that is put as a question: `could you please stop …?`
fn polite_order_start(sentence: &Sentence<'_>, start: usize) -> usize {
    let after = sentence.phrase_end_at(Signal::Request, start).filter(|_| !sentence.is_unspaced);
    let Some(mut index) = after else { return start };
    while let Some(next) = sentence.phrase_end_at(Signal::Fluff, index) {
        index = next;
    }
    let is_rule = [Signal::Rule, Signal::Stop]
        .into_iter()
        .any(|signal| sentence.phrase_end_at(signal, index).is_some());
    if is_rule { index } else { start }
}

/// Returns the first word of a final clause that asks to remember the rest: `…, remember that`.
fn trailing_request_start(sentence: &Sentence<'_>, start: usize) -> Option<usize> {
    let is_request = |range: &Range<usize>| {
        let is_separate = sentence.is_unspaced || sentence.is_clause_boundary(range.start);
        is_separate && range.start > start && range.end >= sentence.words.len()
    };
    sentence.phrases_in(Signal::Noted, start..usize::MAX).find(is_request).map(|range| range.start)
}

fn is_question(text: &str) -> bool {
    text.trim_end_matches([')', '"', '”', '»', '!', ' ']).ends_with(['?', '？', '؟'])
}

/// The introductory phrases before the statement of a sentence.
struct LeadIn {
    /// Index of the first word of the statement.
    end: usize,
    is_correction: bool,
    asks_to_remember: bool,
}

impl LeadIn {
    fn parse(sentence: &Sentence<'_>) -> Self {
        Self { end: 0, is_correction: false, asks_to_remember: false }.extend(sentence, 0)
    }

    /// Continues after a word.
    fn extend(mut self, sentence: &Sentence<'_>, start: usize) -> Self {
        self.end = start;
        loop {
            let index = self.end;
            let is_separate = |end: &usize| {
                *end >= sentence.words.len()
                    || sentence.is_clause_boundary(*end)
                    || (!sentence.is_unspaced && *end - index >= STATEMENT_WORDS_MIN)
            };
            let ends_clause =
                |end: &usize| *end >= sentence.words.len() || sentence.is_clause_boundary(*end);
            let label = sentence.phrase_end_at(Signal::Label, index).filter(ends_clause);
            // A note may be about a temporary state.
            let label = label.filter(|_| !sentence.has(Signal::Passing, index));
            let ends = [
                sentence.phrase_end_at(Signal::Correct, index).filter(is_separate),
                sentence
                    .phrase_end_at(Signal::Remember, index)
                    .filter(|_| sentence.phrase_end_at(Signal::NoRemember, index).is_none())
                    .or(label),
                sentence.phrase_end_at(Signal::Opener, index).filter(is_separate),
                sentence.phrase_end_at(Signal::Fluff, index),
            ];
            let Some(end) = ends.into_iter().flatten().max() else { return self };
            self.is_correction |= ends[0].is_some();
            self.asks_to_remember |= ends[1] == Some(end);
            self.end = end;
        }
    }
}

/// Returns the end of a phrase that retracts something, if the sentence begins with it.
fn retraction_end(sentence: &Sentence<'_>, start: usize) -> Option<usize> {
    let ends_clause =
        |end: &usize| *end >= sentence.words.len() || sentence.is_clause_boundary(*end);
    // `No, wait` begins with words that may be cut as well.
    let from = (0..=start)
        .filter(|index| *index == 0 || *index == start || sentence.is_clause_boundary(*index));
    let ends =
        from.filter_map(|index| sentence.phrase_end_at(Signal::Retract, index)).filter(ends_clause);
    ends.max().filter(|end| *end > start)
}

/// Checks whether a later clause of the sentence is a retraction: `leave it, never mind`.
fn retracts_later(sentence: &Sentence<'_>, start: usize) -> bool {
    sentence.phrases_in(Signal::Retract, start..usize::MAX).any(|range| {
        let ends = range.end >= sentence.words.len() || sentence.is_clause_boundary(range.end);
        ends && (range.start == start || sentence.is_clause_boundary(range.start))
    })
}

/// Checks whether a sentence introduces a text to work on, or a speaker's words, with a colon.
fn introduces_material(sentence: &Sentence<'_>, lead: &LeadIn) -> bool {
    let words = &sentence.words[lead.end..];
    let colon = words.windows(2).position(|pair| {
        let [first, second] = pair else { return false };
        let gap = slice(sentence.source, first.range.end..second.range.start);
        gap.contains([':', '：']) && (gap.len() > 1 || sentence.is_unspaced)
    });
    let Some(colon) = colon else { return false };
    let head = lead.end..lead.end + colon + 1;
    let has = |signal| sentence.phrases_in(signal, head.clone()).next().is_some();
    let is_label =
        !sentence.is_unspaced && colon < 2 && !has(Signal::FromNow) && !has(Signal::Each);
    let is_condition = sentence.phrase_end_at(Signal::When, lead.end).is_some();
    !lead.asks_to_remember
        && (is_label || (has(Signal::Material) && !is_condition && !has(Signal::FromNow)))
}

#[cfg(test)]
mod tests;
