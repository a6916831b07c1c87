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

use self::judge::{Judge, STATEMENT_CHARS_MIN, STATEMENT_WORDS_MIN, Strength, orders};
use super::classify::{self, Whose};
use super::facts::bare;
use super::lexicon::Class;
use super::same::Form;
use super::signals::{Sentence, Signal};
use super::similar;
use super::speech::{Spoken, own_sentences};
use super::tongues::Tongues;
use super::update;
use super::when;
use super::words::{Text, spaced_words};
use crate::review::{FINDINGS_MAX, Finding, Message, Role, Target};

/// The shares of words, in percent of the shorter statement, from which two statements say the same, and from which the
/// later one takes the place of the other if it says the opposite.
const SAME_PERCENT_MIN: usize = 80;
/// The share from which a later statement may give another value.
const VALUE_PERCENT_MIN: usize = 40;
const CONTRARY_PERCENT_MIN: usize = 60;

/// A statement that was found, before the days are named.
struct Candidate<'a> {
    strength: Strength,
    text: String,
    /// By its place among the messages.
    message: usize,
    evidence: Vec<&'a str>,
    /// Whether the message says that something before it is wrong.
    is_correction: bool,
    /// Its words, read once: every statement is compared with all before it.
    read: Text,
    keys: Vec<String>,
    is_negated: bool,
    form: Form,
}

/// Finds what is worth keeping, at most [`FINDINGS_MAX`] statements: the plainest first, else in the order of the
/// conversation. Days that a statement points at are named, as from `now` in this time zone.
///
/// The result depends on the arguments alone. The evidence of a finding are ids of messages by the person.
pub fn review(messages: &[Message], now: Timestamp, time_zone: &TimeZone) -> Vec<Finding> {
    let today = now.to_zoned(time_zone.clone()).date();
    let mut found: Vec<Candidate<'_>> = Vec::new();
    let mut before = None;
    for (index, message) in messages.iter().enumerate() {
        if message.role != Role::User {
            continue;
        }
        let mut reader = Reader::new(index, &message.text);
        reader.read();
        if reader.takes_back {
            found.retain(|one| Some(one.message) != before);
        }
        before = Some(index);
        for mut one in reader.found {
            one.evidence.push(&message.id);
            settle(&mut found, one);
        }
    }
    found.sort_by_key(|one| (one.strength, one.message));
    found.truncate(FINDINGS_MAX);
    found.into_iter().map(|one| finding(one, today)).collect()
}

fn finding(one: Candidate<'_>, today: Date) -> Finding {
    let text = when::absolute(&one.text, today);
    let kind = classify::kind(&text);
    let target = match kind.whose {
        Whose::Person => Target::User,
        // A plain statement about things would be the project's. An order to the agent is the person's.
        Whose::Project if one.strength.is_personal() && !kind.is_plain && !kind.has_things => {
            Target::User
        }
        Whose::Project => Target::Memory,
    };
    let evidence = one.evidence.into_iter().map(str::to_owned).collect();
    Finding { target, text, evidence }
}

/// Adds a statement; an earlier one that says the same or the opposite gives way to it.
fn settle<'a>(found: &mut Vec<Candidate<'a>>, mut new: Candidate<'a>) {
    let mut kept = Vec::with_capacity(found.len() + 1);
    for old in found.drain(..) {
        match compare(&old, &new) {
            Relation::Other => kept.push(old),
            Relation::Contrary => {}
            Relation::Same => {
                new.strength = new.strength.min(old.strength);
                new.evidence.splice(0..0, old.evidence.iter().copied());
                if old.text.chars().count() > new.text.chars().count() {
                    new.take_words_of(old);
                }
            }
        }
    }
    kept.push(new);
    *found = kept;
}

enum Relation {
    Same,
    Contrary,
    Other,
}

fn compare(old: &Candidate<'_>, new: &Candidate<'_>) -> Relation {
    if old.form == new.form {
        return Relation::Same;
    }
    let least = old.keys.len().min(new.keys.len());
    let shared = old.keys.iter().filter(|key| new.keys.contains(key)).count();
    let percent = (shared * 100).checked_div(least).unwrap_or_default();
    let is_opposite = old.is_negated != new.is_negated;
    if least < 2 || percent < VALUE_PERCENT_MIN {
        return Relation::Other;
    }
    let is_contrary = (percent >= CONTRARY_PERCENT_MIN && (is_opposite || new.is_correction))
        || update::replaces(&new.text, &old.text)
        || similar::gives_other_value(old.said(), new.said());
    if is_contrary {
        Relation::Contrary
    } else if percent >= SAME_PERCENT_MIN {
        Relation::Same
    } else {
        Relation::Other
    }
}

impl Candidate<'_> {
    fn take_words_of(&mut self, other: Self) {
        self.text = other.text;
        self.read = other.read;
        self.keys = other.keys;
        self.is_negated = other.is_negated;
        self.form = other.form;
    }

    fn said(&self) -> similar::Said<'_> {
        let is_change = similar::is_change(&self.read);
        similar::Said { text: &self.read, source: &self.text, is_change }
    }
}

/// Reads one message of the person.
struct Reader<'a, 'b> {
    index: usize,
    around: Tongues,
    spoken: Vec<Spoken<'b>>,
    found: Vec<Candidate<'a>>,
    /// Whether it takes back what the message before it said.
    takes_back: bool,
    /// Whether the person said that something is wrong.
    is_correction: bool,
    before: Before<'b>,
}

/// What the sentence before leaves for the next one.
#[derive(Default)]
struct Before<'b> {
    /// Whether it asks to remember what follows.
    is_asked: bool,
    is_order: bool,
    /// Its text, if a word that points back may mean it.
    text: Option<&'b str>,
}

/// How the reading of a message goes on.
#[derive(PartialEq, Eq)]
enum Next {
    Sentence,
    /// The rest of the message is not the person's own.
    Stop,
}

impl<'b> Reader<'_, 'b> {
    fn new(index: usize, text: &'b str) -> Self {
        Self {
            index,
            around: spaced_words(text).1,
            spoken: own_sentences(text),
            found: Vec::new(),
            takes_back: false,
            is_correction: false,
            before: Before::default(),
        }
    }

    fn read(&mut self) {
        let spoken = std::mem::take(&mut self.spoken);
        let read: Vec<Option<Sentence<'b>>> =
            spoken.iter().map(|one| Sentence::read(one.text, &one.quoted, &self.around)).collect();
        // Irony spares no part of a message.
        let is_joke = read.iter().flatten().any(|sentence| sentence.has(Signal::Joke, 0));
        for (place, (one, sentence)) in spoken.iter().zip(&read).enumerate() {
            let Some(sentence) = sentence else {
                self.before.text = Some(one.text);
                if one.introduces {
                    break;
                }
                continue;
            };
            let next = self.read_sentence(sentence, one, place == 0, is_joke);
            self.before.text = Some(one.text).filter(|text| !is_question(text));
            if next == Next::Stop {
                break;
            }
        }
    }

    fn read_sentence(
        &mut self,
        sentence: &Sentence<'b>,
        spoken: &Spoken<'b>,
        is_first: bool,
        is_joke: bool,
    ) -> Next {
        let mut lead = Lead::of(sentence);
        while let Some(end) = retracted(sentence, lead.end) {
            self.takes_back |= is_first || self.found.is_empty();
            self.found.clear();
            lead = lead.then(sentence, end);
        }
        self.is_correction |= lead.is_correction || sentence.has(Signal::Again, 0);
        let is_asked = lead.is_asked || self.before.is_asked;
        self.before.is_asked = false;
        if lead.end >= sentence.words.len() {
            if !is_joke && self.asks_for_last(sentence) {
                return Next::Sentence;
            }
            self.before.is_asked = lead.is_asked;
            return if spoken.introduces && !is_asked { Next::Stop } else { Next::Sentence };
        }
        if is_joke {
            return Next::Sentence;
        }
        if self.asks_for_last(sentence) {
            return Next::Sentence;
        }
        if works_on_text(sentence, &lead) {
            return Next::Stop;
        }
        if spoken.introduces {
            // `From now on:` rules what follows; any other introduction makes it somebody's text.
            self.before.is_asked = sentence.has(Signal::FromNow, 0) || is_asked;
            return if self.before.is_asked { Next::Sentence } else { Next::Stop };
        }
        if retracts_later(sentence, lead.end) {
            self.found.clear();
            self.takes_back |= is_first;
            return Next::Sentence;
        }
        let end = noted(sentence, lead.end);
        let is_asked = is_asked || end.is_some();
        let last_is_order =
            std::mem::replace(&mut self.before.is_order, orders(sentence, lead.end));
        let is_correction = self.is_correction;
        let start = polite_start(sentence, lead.end);
        let judge = Judge { sentence, start, end, is_correction, is_asked, last_is_order };
        match judge.strength(is_question(spoken.text)) {
            Some(strength) => self.add(&judge, strength),
            None if judge.only_repeats() => self.add(&judge, Strength::Rule),
            None if judge.only_limits() => {
                self.found.pop();
            }
            None => {}
        }
        Next::Sentence
    }

    /// Takes the sentence before, if this one asks to remember it and says nothing else: `Remember that.`
    fn asks_for_last(&mut self, sentence: &Sentence<'_>) -> bool {
        let whole = (0..sentence.words.len()).find_map(|at| sentence.at(Signal::Noted, at));
        let begins = sentence
            .at(Signal::Noted, 0)
            .or_else(|| sentence.at(Signal::Noted, sentence.at(Signal::Fluff, 0)?));
        if whole.is_none() || begins != Some(sentence.words.len()) {
            return false;
        }
        let Some(last) =
            self.before.text.take().filter(|last| last.split_whitespace().nth(2).is_some())
        else {
            return false;
        };
        let is_found = self.found.iter().any(|one| last.contains(&one.text));
        if !is_found {
            self.push(Strength::Asked, bare(last).to_owned());
        }
        true
    }

    fn push(&mut self, strength: Strength, text: String) {
        let read = Text::read(&text);
        self.found.push(Candidate {
            strength,
            keys: similar::keys(&read).into_iter().map(|(key, _)| key.to_owned()).collect(),
            is_negated: read.has(Class::Not),
            read,
            form: Form::of(&text),
            text,
            message: self.index,
            evidence: Vec::new(),
            is_correction: self.is_correction,
        });
    }

    /// Adds the sentence, with the one before where it points at that.
    fn add(&mut self, judge: &Judge<'_, 'b>, strength: Strength) {
        let own = judge.text();
        let text = if judge.stands_alone() {
            own.to_owned()
        } else {
            let is_found = |last: &str| self.found.iter().any(|one| last.contains(&one.text));
            match self.before.text.filter(|last| last.chars().count() >= STATEMENT_CHARS_MIN) {
                Some(last) if !is_found(last) && strength <= Strength::Rule => {
                    format!("{} {own}", bare(last))
                }
                Some(_) | None => return,
            }
        };
        self.push(strength, text);
    }
}

/// Returns where an order begins that is put as a question: `could you please stop …?`
fn polite_start(sentence: &Sentence<'_>, start: usize) -> usize {
    let behind = sentence.at(Signal::Request, start).filter(|_| !sentence.is_unspaced);
    let Some(mut at) = behind else { return start };
    while let Some(next) = sentence.at(Signal::Fluff, at) {
        at = next;
    }
    let is_rule =
        [Signal::Rule, Signal::Stop].into_iter().any(|one| sentence.at(one, at).is_some());
    if is_rule { at } else { start }
}

/// Returns the first word of a last clause that asks to remember the rest: `…, remember that`.
fn noted(sentence: &Sentence<'_>, start: usize) -> Option<usize> {
    let is_one = |range: &Range<usize>| {
        let is_parted = sentence.is_unspaced || sentence.ends_clause(range.start);
        is_parted && range.start > start && range.end >= sentence.words.len()
    };
    sentence.within(Signal::Noted, start..usize::MAX).find(is_one).map(|range| range.start)
}

fn is_question(text: &str) -> bool {
    text.trim_end_matches([')', '"', '”', '»', '!', ' ']).ends_with(['?', '？', '؟'])
}

/// What stands in front of the statement of a sentence.
struct Lead {
    /// The first word of the statement.
    end: usize,
    is_correction: bool,
    is_asked: bool,
}

impl Lead {
    fn of(sentence: &Sentence<'_>) -> Self {
        Self { end: 0, is_correction: false, is_asked: false }.then(sentence, 0)
    }

    /// Goes on from this word.
    fn then(mut self, sentence: &Sentence<'_>, start: usize) -> Self {
        self.end = start;
        loop {
            let at = self.end;
            let is_parted = |end: &usize| {
                *end >= sentence.words.len()
                    || sentence.ends_clause(*end)
                    || (!sentence.is_unspaced && *end - at >= STATEMENT_WORDS_MIN)
            };
            let is_marked =
                |end: &usize| *end >= sentence.words.len() || sentence.ends_clause(*end);
            let label = sentence.at(Signal::Label, at).filter(is_marked);
            // What is only noted may be a state that passes.
            let label = label.filter(|_| !sentence.has(Signal::Passing, at));
            let ends = [
                sentence.at(Signal::Correct, at).filter(is_parted),
                sentence
                    .at(Signal::Remember, at)
                    .filter(|_| sentence.at(Signal::NoRemember, at).is_none())
                    .or(label),
                sentence.at(Signal::Opener, at).filter(is_parted),
                sentence.at(Signal::Fluff, at),
            ];
            let Some(end) = ends.into_iter().flatten().max() else { return self };
            self.is_correction |= ends[0].is_some();
            self.is_asked |= ends[1] == Some(end);
            self.end = end;
        }
    }
}

/// Returns the end of the words that take back what was said before, if the sentence goes on with them.
fn retracted(sentence: &Sentence<'_>, start: usize) -> Option<usize> {
    let is_parted = |end: &usize| *end >= sentence.words.len() || sentence.ends_clause(*end);
    // `No, wait` begins with what may be cut as well.
    let from = (0..=start).filter(|at| *at == 0 || *at == start || sentence.ends_clause(*at));
    let ends = from.filter_map(|at| sentence.at(Signal::Retract, at)).filter(is_parted);
    ends.max().filter(|end| *end > start)
}

/// Tells whether a later clause of the sentence takes back: `leave it, never mind`.
fn retracts_later(sentence: &Sentence<'_>, start: usize) -> bool {
    sentence.within(Signal::Retract, start..usize::MAX).any(|range| {
        let ends = range.end >= sentence.words.len() || sentence.ends_clause(range.end);
        ends && (range.start == start || sentence.ends_clause(range.start))
    })
}

/// Tells whether a sentence gives a text to work on behind a colon, or the words of a named speaker.
fn works_on_text(sentence: &Sentence<'_>, lead: &Lead) -> bool {
    let words = &sentence.words[lead.end..];
    let colon = words.windows(2).position(|pair| {
        let [one, two] = pair else { return false };
        let between = slice(sentence.source, one.at.end..two.at.start);
        between.contains([':', '：']) && (between.len() > 1 || sentence.is_unspaced)
    });
    let Some(colon) = colon else { return false };
    let head = lead.end..lead.end + colon + 1;
    let has = |signal| sentence.within(signal, head.clone()).next().is_some();
    let is_label =
        !sentence.is_unspaced && colon < 2 && !has(Signal::FromNow) && !has(Signal::Each);
    let is_condition = sentence.at(Signal::When, lead.end).is_some();
    !lead.is_asked
        && (is_label || (has(Signal::Material) && !is_condition && !has(Signal::FromNow)))
}

#[cfg(test)]
mod tests;
