//! Review: the statements of a conversation that are worth keeping, by explicit signals alone.
//!
//! Only what a person says in their own name is read, sentence by sentence, with the phrases of the lexicon
//! (`signals.rs`). A sentence is found when it asks to be remembered, gives a standing rule, states a liking or who the
//! person is, corrects the agent, or tells how things are done here. A sign of the opposite (a question, a joke, an
//! order for this once, the words of others) rules it out: what is missed may be said again, what is stored wrongly
//! misleads every later session (`review/judge.rs`). Duplicates of memories and secrets are the caller's to look for.

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

/// The shares of words, in percent of the shorter statement, from which two statements say the same, and from which the
/// later one takes the place of the other if it says the opposite.
const SAME_PERCENT_MIN: usize = 80;
/// The share from which a later statement may give another value.
const VALUE_PERCENT_MIN: usize = 40;
const CONTRARY_PERCENT_MIN: usize = 60;

/// A statement that was found, before the days are named.
struct StatementCandidate<'a> {
    strength: Strength,
    text: String,
    /// By its place among the messages.
    message: usize,
    evidence: Vec<&'a str>,
    /// Whether the message says that something before it is wrong.
    is_correction: bool,
    /// Its words, read once: every statement is compared with all before it.
    tokenized: TokenizedText,
    keys: Vec<String>,
    is_negated: bool,
    normalized: NormalizedText,
}

/// Finds what is worth keeping, at most [`FINDINGS_MAX`] statements: the plainest first, else in the order of the
/// conversation. Days that a statement points at are named, as from `now` in this time zone.
///
/// The result depends on the arguments alone. The evidence of a finding are ids of messages by the person.
pub fn review(
    messages: &[ReviewMessage],
    now: Timestamp,
    time_zone: &TimeZone,
) -> Vec<ReviewFinding> {
    let today = now.to_zoned(time_zone.clone()).date();
    let mut found: Vec<StatementCandidate<'_>> = Vec::new();
    let mut before = None;
    for (index, message) in messages.iter().enumerate() {
        if message.role != MessageRole::User {
            continue;
        }
        let mut reader = MessageReader::new(index, &message.text);
        reader.read_message();
        if reader.retracts_previous {
            found.retain(|one| Some(one.message) != before);
        }
        before = Some(index);
        for mut one in reader.candidates {
            one.evidence.push(&message.id);
            add_candidate(&mut found, one);
        }
    }
    found.sort_by_key(|one| (one.strength, one.message));
    found.truncate(FINDINGS_MAX);
    found.into_iter().map(|one| to_finding(one, today)).collect()
}

fn to_finding(one: StatementCandidate<'_>, today: Date) -> ReviewFinding {
    let text = dates::resolve_relative_dates(&one.text, today);
    let kind = classify::classify(&text);
    let target = match kind.owner {
        FactOwner::User => FindingTarget::User,
        // A plain statement about things would be the project's. An order to the agent is the person's.
        FactOwner::Project
            if one.strength.is_personal() && !kind.is_explicit && !kind.has_technical_terms =>
        {
            FindingTarget::User
        }
        FactOwner::Project => FindingTarget::Memory,
    };
    let evidence = one.evidence.into_iter().map(str::to_owned).collect();
    ReviewFinding { target, text, evidence }
}

/// Adds a statement; an earlier one that says the same or the opposite gives way to it.
fn add_candidate<'a>(found: &mut Vec<StatementCandidate<'a>>, mut new: StatementCandidate<'a>) {
    let mut kept = Vec::with_capacity(found.len() + 1);
    for old in found.drain(..) {
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
    *found = kept;
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

/// Reads one message of the person.
struct MessageReader<'a, 'b> {
    index: usize,
    message_languages: LanguageScores,
    sentences: Vec<MessageSentence<'b>>,
    candidates: Vec<StatementCandidate<'a>>,
    /// Whether it takes back what the message before it said.
    retracts_previous: bool,
    /// Whether the person said that something is wrong.
    is_correction: bool,
    previous: PreviousSentence<'b>,
}

/// What the sentence before leaves for the next one.
#[derive(Default)]
struct PreviousSentence<'b> {
    /// Whether it asks to remember what follows.
    asks_to_remember: bool,
    is_order: bool,
    /// Its text, if a word that points back may mean it.
    text: Option<&'b str>,
}

/// How the reading of a message goes on.
#[derive(PartialEq, Eq)]
enum ReadFlow {
    Continue,
    /// The rest of the message is not the person's own.
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
        let spoken = std::mem::take(&mut self.sentences);
        let read: Vec<Option<Sentence<'b>>> = spoken
            .iter()
            .map(|one| Sentence::parse(one.text, &one.quoted, &self.message_languages))
            .collect();
        // Irony spares no part of a message.
        let is_joke = read.iter().flatten().any(|sentence| sentence.has(Signal::Joke, 0));
        for (place, (one, sentence)) in spoken.iter().zip(&read).enumerate() {
            let Some(sentence) = sentence else {
                self.previous.text = Some(one.text);
                if one.ends_with_colon {
                    break;
                }
                continue;
            };
            let next = self.read_sentence(sentence, one, place == 0, is_joke);
            self.previous.text = Some(one.text).filter(|text| !is_question(text));
            if next == ReadFlow::Stop {
                break;
            }
        }
    }

    fn read_sentence(
        &mut self,
        sentence: &Sentence<'b>,
        spoken: &MessageSentence<'b>,
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
        let is_asked = lead.asks_to_remember || self.previous.asks_to_remember;
        self.previous.asks_to_remember = false;
        if lead.end >= sentence.words.len() {
            if !is_joke && self.remember_previous(sentence) {
                return ReadFlow::Continue;
            }
            self.previous.asks_to_remember = lead.asks_to_remember;
            return if spoken.ends_with_colon && !is_asked {
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
        if spoken.ends_with_colon {
            // `From now on:` rules what follows; any other introduction makes it somebody's text.
            self.previous.asks_to_remember = sentence.has(Signal::FromNow, 0) || is_asked;
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
        let is_asked = is_asked || end.is_some();
        let last_is_order =
            std::mem::replace(&mut self.previous.is_order, is_order(sentence, lead.end));
        let is_correction = self.is_correction;
        let start = polite_order_start(sentence, lead.end);
        let judge = Judge {
            sentence,
            start,
            end,
            is_correction,
            asks_to_remember: is_asked,
            previous_is_order: last_is_order,
        };
        match judge.strength(is_question(spoken.text)) {
            Some(strength) => self.add_sentence(&judge, strength),
            None if judge.only_repeats_previous() => self.add_sentence(&judge, Strength::Rule),
            None if judge.only_limits_previous() => {
                self.candidates.pop();
            }
            None => {}
        }
        ReadFlow::Continue
    }

    /// Takes the sentence before, if this one asks to remember it and says nothing else: `Remember that.`
    fn remember_previous(&mut self, sentence: &Sentence<'_>) -> bool {
        let whole =
            (0..sentence.words.len()).find_map(|at| sentence.phrase_end_at(Signal::Noted, at));
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
        let is_found = self.candidates.iter().any(|one| last.contains(&one.text));
        if !is_found {
            self.push_candidate(Strength::ExplicitRequest, strip_lead_in(last).to_owned());
        }
        true
    }

    fn push_candidate(&mut self, strength: Strength, text: String) {
        let read = TokenizedText::tokenize(&text);
        self.candidates.push(StatementCandidate {
            strength,
            keys: similarity::content_keys(&read)
                .into_iter()
                .map(|(key, _)| key.to_owned())
                .collect(),
            is_negated: read.has(Class::Not),
            tokenized: read,
            normalized: NormalizedText::new(&text),
            text,
            message: self.index,
            evidence: Vec::new(),
            is_correction: self.is_correction,
        });
    }

    /// Adds the sentence, with the one before where it points at that.
    fn add_sentence(&mut self, judge: &Judge<'_, 'b>, strength: Strength) {
        let own = judge.statement_text();
        let text = if judge.stands_alone() {
            own.to_owned()
        } else {
            let is_found = |last: &str| self.candidates.iter().any(|one| last.contains(&one.text));
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

/// Returns where an order begins that is put as a question: `could you please stop …?`
fn polite_order_start(sentence: &Sentence<'_>, start: usize) -> usize {
    let behind = sentence.phrase_end_at(Signal::Request, start).filter(|_| !sentence.is_unspaced);
    let Some(mut at) = behind else { return start };
    while let Some(next) = sentence.phrase_end_at(Signal::Fluff, at) {
        at = next;
    }
    let is_rule = [Signal::Rule, Signal::Stop]
        .into_iter()
        .any(|one| sentence.phrase_end_at(one, at).is_some());
    if is_rule { at } else { start }
}

/// Returns the first word of a last clause that asks to remember the rest: `…, remember that`.
fn trailing_request_start(sentence: &Sentence<'_>, start: usize) -> Option<usize> {
    let is_one = |range: &Range<usize>| {
        let is_parted = sentence.is_unspaced || sentence.is_clause_boundary(range.start);
        is_parted && range.start > start && range.end >= sentence.words.len()
    };
    sentence.phrases_in(Signal::Noted, start..usize::MAX).find(is_one).map(|range| range.start)
}

fn is_question(text: &str) -> bool {
    text.trim_end_matches([')', '"', '”', '»', '!', ' ']).ends_with(['?', '？', '؟'])
}

/// What stands in front of the statement of a sentence.
struct LeadIn {
    /// The first word of the statement.
    end: usize,
    is_correction: bool,
    asks_to_remember: bool,
}

impl LeadIn {
    fn parse(sentence: &Sentence<'_>) -> Self {
        Self { end: 0, is_correction: false, asks_to_remember: false }.extend(sentence, 0)
    }

    /// Goes on from this word.
    fn extend(mut self, sentence: &Sentence<'_>, start: usize) -> Self {
        self.end = start;
        loop {
            let at = self.end;
            let is_parted = |end: &usize| {
                *end >= sentence.words.len()
                    || sentence.is_clause_boundary(*end)
                    || (!sentence.is_unspaced && *end - at >= STATEMENT_WORDS_MIN)
            };
            let is_marked =
                |end: &usize| *end >= sentence.words.len() || sentence.is_clause_boundary(*end);
            let label = sentence.phrase_end_at(Signal::Label, at).filter(is_marked);
            // What is only noted may be a state that passes.
            let label = label.filter(|_| !sentence.has(Signal::Passing, at));
            let ends = [
                sentence.phrase_end_at(Signal::Correct, at).filter(is_parted),
                sentence
                    .phrase_end_at(Signal::Remember, at)
                    .filter(|_| sentence.phrase_end_at(Signal::NoRemember, at).is_none())
                    .or(label),
                sentence.phrase_end_at(Signal::Opener, at).filter(is_parted),
                sentence.phrase_end_at(Signal::Fluff, at),
            ];
            let Some(end) = ends.into_iter().flatten().max() else { return self };
            self.is_correction |= ends[0].is_some();
            self.asks_to_remember |= ends[1] == Some(end);
            self.end = end;
        }
    }
}

/// Returns the end of the words that take back what was said before, if the sentence goes on with them.
fn retraction_end(sentence: &Sentence<'_>, start: usize) -> Option<usize> {
    let is_parted = |end: &usize| *end >= sentence.words.len() || sentence.is_clause_boundary(*end);
    // `No, wait` begins with what may be cut as well.
    let from =
        (0..=start).filter(|at| *at == 0 || *at == start || sentence.is_clause_boundary(*at));
    let ends = from.filter_map(|at| sentence.phrase_end_at(Signal::Retract, at)).filter(is_parted);
    ends.max().filter(|end| *end > start)
}

/// Tells whether a later clause of the sentence takes back: `leave it, never mind`.
fn retracts_later(sentence: &Sentence<'_>, start: usize) -> bool {
    sentence.phrases_in(Signal::Retract, start..usize::MAX).any(|range| {
        let ends = range.end >= sentence.words.len() || sentence.is_clause_boundary(range.end);
        ends && (range.start == start || sentence.is_clause_boundary(range.start))
    })
}

/// Tells whether a sentence gives a text to work on behind a colon, or the words of a named speaker.
fn introduces_material(sentence: &Sentence<'_>, lead: &LeadIn) -> bool {
    let words = &sentence.words[lead.end..];
    let colon = words.windows(2).position(|pair| {
        let [one, two] = pair else { return false };
        let between = slice(sentence.source, one.range.end..two.range.start);
        between.contains([':', '：']) && (between.len() > 1 || sentence.is_unspaced)
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
