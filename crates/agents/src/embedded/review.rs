//! Review: the statements of a conversation that are worth keeping, by explicit signals alone.
//!
//! Only what a person says in their own name is read, sentence by sentence, with the phrases of the lexicon
//! (`signals.rs`). A sentence is found when it asks to be remembered, gives a standing rule, states a liking or who the
//! person is, corrects the agent, or tells how things are done here. A sign of the opposite (a question, a joke, an
//! order for this once, the words of others) rules it out: what is missed may be said again, what is stored wrongly
//! misleads every later session. Duplicates of memories and secrets are the caller's to look for.

use std::ops::Range;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use memory::clock::Timestamp;

use super::classify::{self, Whose};
use super::facts::{bare, behind_mark};
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

/// The fewest words of a statement, and the fewest characters where words are not parted.
const STATEMENT_WORDS_MIN: usize = 3;
const STATEMENT_CHARS_MIN: usize = 6;

/// The most words of a sentence that only limits the one before: `Just for this file, though.`
const LIMITING_WORDS_MAX: usize = 8;

/// The most clauses of a sentence in which a rule is looked for behind a condition.
const CONDITION_WORDS_MAX: usize = 8;

/// The most words into a statement at which a single word that ends its clause points out of it: `never print it`.
const POINTING_WORDS_MAX: usize = 4;

/// The shares of words, in percent of the shorter statement, from which two statements say the same, and from which the
/// later one takes the place of the other if it says the opposite.
const SAME_PERCENT_MIN: usize = 80;
const CONTRARY_PERCENT_MIN: usize = 60;

/// How plainly a person says that something is to be kept; the plainest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    /// `remember that …`
    Asked,
    /// `from now on …`
    FromNow,
    /// `always …`, `stop …`
    Rule,
    /// `I prefer …`, `I'm a …`
    OfSelf,
    /// `no, don't …`
    Correction,
    /// `there is no … here`
    Fact,
}

impl Strength {
    /// Whether it is about how the agent is to work, or about the person.
    const fn is_personal(self) -> bool {
        matches!(self, Self::FromNow | Self::Rule | Self::OfSelf | Self::Correction)
    }
}

/// A statement that was found, before the days are named.
struct Candidate<'a> {
    strength: Strength,
    text: String,
    /// By its place among the messages.
    message: usize,
    evidence: Vec<&'a str>,
    /// Whether the message says that something before it is wrong.
    is_correction: bool,
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
                new.evidence.splice(0..0, old.evidence);
                if old.text.chars().count() > new.text.chars().count() {
                    new.text = old.text;
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
    if Form::of(&old.text) == Form::of(&new.text) {
        return Relation::Same;
    }
    let (a, b) = (Text::read(&old.text), Text::read(&new.text));
    let said = |text: &'_ Text, source: &'_ str| similar::is_change(text) && !source.is_empty();
    let newer = similar::Said { text: &b, source: &new.text, is_change: said(&b, &new.text) };
    let older = similar::Said { text: &a, source: &old.text, is_change: said(&a, &old.text) };
    if update::replaces(&new.text, &old.text) || similar::gives_other_value(older, newer) {
        return Relation::Contrary;
    }
    let (old_keys, new_keys) = (similar::keys(&a), similar::keys(&b));
    let least = old_keys.len().min(new_keys.len());
    let shared =
        old_keys.iter().filter(|(key, _)| new_keys.iter().any(|(other, _)| other == key)).count();
    let percent = (shared * 100).checked_div(least).unwrap_or_default();
    let is_opposite = a.has(Class::Not) != b.has(Class::Not);
    if least >= 2 && percent >= CONTRARY_PERCENT_MIN && (is_opposite || new.is_correction) {
        Relation::Contrary
    } else if least >= 2 && percent >= SAME_PERCENT_MIN {
        Relation::Same
    } else {
        Relation::Other
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
    /// Whether the sentence before asks to remember what follows.
    is_asked: bool,
    /// Whether the sentence before gives an order.
    last_is_order: bool,
    /// The sentence before, if a word that points back may mean it.
    last: Option<&'b str>,
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
            is_asked: false,
            last_is_order: false,
            last: None,
        }
    }

    fn read(&mut self) {
        let spoken = std::mem::take(&mut self.spoken);
        // Irony spares no part of a message.
        let is_joke = spoken.iter().any(|one| {
            let read = Sentence::read(one.text, &one.quoted, &self.around);
            read.is_some_and(|sentence| sentence.has(Signal::Joke, 0))
        });
        for (place, one) in spoken.iter().enumerate() {
            let Some(sentence) = Sentence::read(one.text, &one.quoted, &self.around) else {
                self.last = Some(one.text);
                if one.introduces {
                    break;
                }
                continue;
            };
            let next = self.read_sentence(&sentence, one, place == 0, is_joke);
            self.last = Some(one.text).filter(|text| !is_question(text));
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
        let is_asked = lead.is_asked || self.is_asked;
        self.is_asked = false;
        if lead.end >= sentence.words.len() {
            if !is_joke && self.asks_for_last(sentence) {
                return Next::Sentence;
            }
            self.is_asked = lead.is_asked;
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
            self.is_asked = sentence.has(Signal::FromNow, 0) || is_asked;
            return if self.is_asked { Next::Sentence } else { Next::Stop };
        }
        if retracts_later(sentence, lead.end) {
            self.found.clear();
            self.takes_back |= is_first;
            return Next::Sentence;
        }
        let end = noted(sentence, lead.end);
        let is_asked = is_asked || end.is_some();
        let last_is_order = std::mem::replace(&mut self.last_is_order, orders(sentence, lead.end));
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
        let begins = sentence.at(Signal::Noted, 0).or_else(|| {
            sentence.at(Signal::Noted, sentence.at(Signal::Fluff, 0)?)
        });
        if whole.is_none() || begins != Some(sentence.words.len()) {
            return false;
        }
        let Some(last) = self.last.take().filter(|last| last.split_whitespace().nth(2).is_some())
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
        self.found.push(Candidate {
            strength,
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
            match self.last.filter(|last| last.chars().count() >= STATEMENT_CHARS_MIN) {
                Some(last) if !is_found(last) && strength <= Strength::Rule => {
                    format!("{} {own}", bare(last))
                }
                Some(_) | None => return,
            }
        };
        self.push(strength, text);
    }
}

/// Tells whether a sentence is an order.
fn orders(sentence: &Sentence<'_>, start: usize) -> bool {
    [Signal::Order, Signal::Ban, Signal::Stop].into_iter().any(|signal| {
        if sentence.is_unspaced { sentence.has(signal, start) } else { sentence.at(signal, start).is_some() }
    })
}

/// Returns where an order begins that is put as a question: `could you please stop …?`
fn polite_start(sentence: &Sentence<'_>, start: usize) -> usize {
    let behind = sentence.at(Signal::Request, start).filter(|_| !sentence.is_unspaced);
    let Some(mut at) = behind else { return start };
    while let Some(next) = sentence.at(Signal::Fluff, at) {
        at = next;
    }
    let is_rule = [Signal::Rule, Signal::Stop].into_iter().any(|one| sentence.at(one, at).is_some());
    if is_rule { at } else { start }
}

/// Returns the first word of a last clause that asks to remember the rest: `…, remember that`.
fn noted(sentence: &Sentence<'_>, start: usize) -> Option<usize> {
    let range = sentence.within(Signal::Noted, start..usize::MAX).last()?;
    let is_parted = sentence.is_unspaced || sentence.ends_clause(range.start);
    let is_last = range.end >= sentence.words.len();
    (is_parted && is_last && range.start > start).then_some(range.start)
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
            let ends = [
                sentence.at(Signal::Correct, at).filter(is_parted),
                sentence.at(Signal::Remember, at).filter(|_| {
                    sentence.at(Signal::NoRemember, at).is_none()
                }),
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
    let words = sentence.words.get(lead.end..).unwrap_or_default();
    let colon = words.windows(2).position(|pair| {
        let [one, two] = pair else { return false };
        let between = sentence.source.get(one.at.end..two.at.start).unwrap_or_default();
        between.contains([':', '：']) && (between.len() > 1 || sentence.is_unspaced)
    });
    let Some(colon) = colon else { return false };
    let head = lead.end..lead.end + colon + 1;
    let has = |signal| sentence.within(signal, head.clone()).next().is_some();
    let is_label = !sentence.is_unspaced && colon < 2 && !has(Signal::FromNow) && !has(Signal::Each);
    let is_condition = sentence.at(Signal::When, lead.end).is_some();
    !lead.is_asked && (is_label || (has(Signal::Material) && !is_condition && !has(Signal::FromNow)))
}

/// Decides whether a sentence is worth keeping.
struct Judge<'s, 'b> {
    sentence: &'s Sentence<'b>,
    /// The first word of the statement.
    start: usize,
    /// The first word behind it, if a request to remember it stands there.
    end: Option<usize>,
    is_correction: bool,
    is_asked: bool,
    /// Whether the sentence before gives an order.
    last_is_order: bool,
}

impl Judge<'_, '_> {
    /// Returns how plainly the sentence says that it is to be kept; `None` if it does not.
    fn strength(&self, is_question: bool) -> Option<Strength> {
        if (is_question && !self.is_polite_order()) || self.is_ruled_out() {
            return None;
        }
        if self.is_asked {
            return Some(Strength::Asked);
        }
        if self.begins_with(Signal::Plan, self.start) || self.asks() {
            return None;
        }
        if let Some(from_now) = self.sentence.within(Signal::FromNow, self.start..usize::MAX).next() {
            return (!self.begins_with(Signal::Plan, from_now.end)).then_some(Strength::FromNow);
        }
        let heads = self.heads();
        if heads.iter().any(|head| self.is_rule(*head)) || self.is_general_rule() {
            return Some(Strength::Rule);
        }
        if heads.iter().any(|head| self.is_of_self(*head)) {
            return Some(Strength::OfSelf);
        }
        if heads.iter().any(|head| self.is_ban(*head)) {
            return Some(Strength::Correction);
        }
        (self.is_convention() || self.is_corrected_fact()).then_some(Strength::Fact)
    }

    fn begins_with(&self, signal: Signal, at: usize) -> bool {
        self.sentence.at(signal, at).is_some()
    }

    fn has(&self, signal: Signal) -> bool {
        self.sentence.has(signal, 0)
    }

    /// Whether something says that it is not meant, not certain, not for long, or not the person's.
    fn is_ruled_out(&self) -> bool {
        let always = [Signal::Once, Signal::Maybe, Signal::Known];
        let unless_asked = [Signal::Says, Signal::Day];
        always.into_iter().any(|signal| self.has(signal))
            || (!self.is_asked
                && unless_asked.into_iter().any(|one| self.sentence.has(one, self.start)))
    }

    /// Whether it asks without a question mark.
    fn asks(&self) -> bool {
        if self.sentence.is_unspaced {
            return self.has(Signal::Question) && !self.is_polite_order();
        }
        self.begins_with(Signal::Question, self.start) && !self.is_polite_order()
    }

    /// Whether a question is a polite order: `could you from now on …?`
    fn is_polite_order(&self) -> bool {
        let is_request = if self.sentence.is_unspaced {
            self.has(Signal::Request)
        } else {
            self.begins_with(Signal::Request, self.start)
        };
        // What stands in front of the order was cut where it is a rule.
        let is_cut = self.start.checked_sub(1).is_some()
            && self.sentence.within(Signal::Request, 0..self.start).next().is_some()
            && [Signal::Rule, Signal::Stop].into_iter().any(|one| self.begins_with(one, self.start));
        (is_request && self.has(Signal::FromNow)) || (!self.sentence.is_unspaced && is_cut)
    }

    /// Returns where the main clause may begin: at the start, and behind a condition or a place in front of it.
    fn heads(&self) -> Vec<usize> {
        let sentence = self.sentence;
        let mut heads = vec![self.start];
        let mut add = |at: usize| {
            let behind_fluff = sentence.at(Signal::Fluff, at).unwrap_or(at);
            heads.extend([at, behind_fluff]);
        };
        let end = sentence.words.len();
        if sentence.is_unspaced {
            (self.start..end).filter(|at| sentence.ends_clause(*at)).for_each(&mut add);
            return heads;
        }
        if let Some(each) = sentence.at(Signal::Each, self.start) {
            add(each);
        }
        let is_condition = self.begins_with(Signal::When, self.start)
            || self.begins_with(Signal::Here, self.start);
        if !is_condition {
            return heads;
        }
        if let Some(at) = (self.start..end).find(|at| sentence.ends_clause(*at)) {
            add(at);
        }
        let near = self.start..end.min(self.start + CONDITION_WORDS_MAX);
        let signals = [Signal::Rule, Signal::Order, Signal::Convention];
        for signal in signals {
            sentence.within(signal, near.clone()).for_each(|range| add(range.start));
        }
        heads
    }

    /// Whether it is an order that holds every time.
    fn is_rule(&self, head: usize) -> bool {
        let sentence = self.sentence;
        if let Some(end) = sentence.at(Signal::Rule, head) {
            return !self.begins_with(Signal::NoRule, head) && !self.means_one_thing(end);
        }
        if let Some(end) = sentence.at(Signal::Stop, head) {
            return !self.begins_with(Signal::NoStop, head) && !self.means_one_thing(end);
        }
        if sentence.is_unspaced {
            let clause = |at: usize| sentence.words.get(at).map(|word| word.clause);
            let each = |order: &Range<usize>| {
                sentence
                    .within(Signal::Each, self.start..usize::MAX)
                    .any(|each| clause(each.start) == clause(order.start))
            };
            let is_rule = sentence.within(Signal::Rule, self.start..usize::MAX).next().is_some();
            let is_stop = sentence.within(Signal::Stop, self.start..usize::MAX).next().is_some();
            return !self.has(Signal::NoRule)
                && !self.has(Signal::NoStop)
                && (is_rule
                    || is_stop
                    || sentence.within(Signal::Order, self.start..usize::MAX).any(|one| each(&one)));
        }
        if let Some(ban) = sentence.at(Signal::Ban, head) {
            // `don't use them here, ever`
            let trailing = sentence.within(Signal::Each, ban..usize::MAX).any(|each| {
                sentence.ends_clause(each.start) && each.end >= sentence.words.len()
            });
            return trailing && !self.means_one_thing(ban);
        }
        let order = sentence.at(Signal::Order, head).or_else(|| {
            let end = sentence.at(Signal::Wish, head)?;
            (!self.begins_with(Signal::Definite, end)).then_some(end)
        });
        order.is_some_and(|end| {
            !self.means_one_thing(end)
                && (sentence.within(Signal::Each, end..usize::MAX).any(|each| self.rules(end, &each))
                    || self.is_fronted_by_each(head))
        })
    }

    /// Whether an order holds each time, and not what it makes: `write a function that always returns a list`.
    fn rules(&self, order: usize, each: &Range<usize>) -> bool {
        let sentence = self.sentence;
        let begins_clause = sentence.ends_clause(each.start);
        let is_last = each.end >= sentence.words.len() || sentence.ends_clause(each.end);
        let of_thing = sentence.within(Signal::Which, order..each.start).next().is_some()
            || (order..each.start).any(|at| sentence.ends_clause(at + 1)) && !begins_clause;
        let of_one = self.begins_with(Signal::Article, order);
        begins_clause || !(of_thing || (of_one && !is_last))
    }

    /// Whether an order stands behind words such as `as a rule` or `next time`.
    fn is_fronted_by_each(&self, head: usize) -> bool {
        self.sentence.within(Signal::Each, self.start..head).any(|each| {
            let behind = self.sentence.at(Signal::Fluff, each.end).unwrap_or(each.end);
            each.start == self.start && behind == head
        })
    }

    /// Whether the words behind a rule are a word that points at one thing: `never print it`.
    fn means_one_thing(&self, end: usize) -> bool {
        !self.sentence.is_unspaced
            && [end.saturating_sub(1), end].into_iter().any(|at| {
                at >= self.start
                    && self.sentence.at(Signal::Pronoun, at).is_some_and(|behind| {
                        // `le`, `lo`, `het` and `die` are articles as well.
                        behind >= self.sentence.words.len()
                            || self.sentence.ends_clause(behind)
                            || !self.sentence.is(at, Class::Function)
                            || self.sentence.is(at, Class::Back) && self.is_english_like(at)
                    })
            })
    }

    /// Whether a word that points back is no article: the article of the language is another word.
    fn is_english_like(&self, at: usize) -> bool {
        !self.begins_with(Signal::Definite, at) || self.sentence.is(at, Class::This)
    }

    /// Whether a general rule is stated: `migrations must always be reversible`.
    fn is_general_rule(&self) -> bool {
        let is_definite = self.begins_with(Signal::Definite, self.start)
            || self.begins_with(Signal::Pronoun, self.start);
        let is_of_self = !self.sentence.is_unspaced && self.sentence.is(self.start, Class::Oneself);
        self.sentence.has(Signal::Must, self.start)
            && !is_of_self
            && (!is_definite || self.has(Signal::Here))
    }

    /// Whether the person says who they are or what they like.
    fn is_of_self(&self, head: usize) -> bool {
        let is = |yes, no| {
            if self.sentence.is_unspaced {
                self.has(yes) && !self.has(no)
            } else {
                self.begins_with(yes, head) && !self.begins_with(no, head)
            }
        };
        is(Signal::Like, Signal::NoLike) || is(Signal::Identity, Signal::NoIdentity)
    }

    /// Whether it forbids something in general, as a correction or with a condition that holds every time.
    fn is_ban(&self, head: usize) -> bool {
        let sentence = self.sentence;
        if !self.is_correction && !self.has(Signal::Unless) {
            return false;
        }
        if sentence.is_unspaced {
            return self.has(Signal::Ban) && sentence.words.len() >= STATEMENT_CHARS_MIN;
        }
        let verb = sentence.at(Signal::Ban, head).or_else(|| {
            let end = sentence.at(Signal::Order, head)?;
            sentence.within(Signal::Not, end..end + STATEMENT_WORDS_MIN).next().map(|one| one.end)
        });
        verb.is_some_and(|end| {
            let is_definite = self.begins_with(Signal::Definite, end);
            sentence.words.len() - head >= STATEMENT_WORDS_MIN
                && !self.means_one_thing(end)
                && (!is_definite || self.has(Signal::Unless))
        })
    }

    /// Whether it tells how things are done here.
    fn is_convention(&self) -> bool {
        let sentence = self.sentence;
        if self.has(Signal::Passing) {
            return false;
        }
        let contrast = sentence.within(Signal::Versus, self.start..usize::MAX).any(|one| {
            let before = one.start.checked_sub(1);
            sentence.ends_clause(one.start)
                || before.is_some_and(|at| self.begins_with(Signal::Fluff, at))
        });
        let negated = sentence.has(Signal::Not, self.start) || sentence.has(Signal::Versus, self.start);
        let is_here = self.has(Signal::Here);
        // `Pull requests in this repository always target develop.`
        let begins_otherwise = [Signal::Definite, Signal::Pronoun, Signal::NoConvention]
            .into_iter()
            .any(|signal| self.begins_with(signal, self.start))
            && !self.begins_with(Signal::Here, self.start);
        let is_spoken_to = !sentence.is_unspaced
            && [Class::Oneself, Class::You].into_iter().any(|one| sentence.is(self.start, one))
            && !sentence.is(self.start, Class::Us);
        let is_always = sentence.has(Signal::Each, self.start) && !self.begins_with(Signal::Each, self.start);
        if is_here && is_always && !begins_otherwise && !is_spoken_to && !sentence.is_unspaced {
            return !orders(sentence, self.start);
        }
        let mut starts = self.heads();
        starts.extend((self.start..sentence.words.len()).filter(|at| sentence.ends_clause(*at)));
        starts.into_iter().any(|at| {
            let is = |signal| self.begins_with(signal, at);
            !is(Signal::NoConvention)
                && ((is(Signal::Convention) && (is_here || contrast || self.is_correction))
                    || (is(Signal::Ours)
                        && is_here
                        && (negated || contrast || self.is_correction || self.has(Signal::Each))))
        })
    }

    /// Whether it states how the surroundings are, behind a word that something is wrong.
    fn is_corrected_fact(&self) -> bool {
        let is_place = self.has(Signal::Here) || self.has(Signal::Surroundings);
        let begins_otherwise = [Signal::Order, Signal::Pronoun, Signal::Question]
            .into_iter()
            .any(|signal| self.begins_with(signal, self.start))
            && !self.begins_with(Signal::Definite, self.start);
        let is_of_self = !self.sentence.is_unspaced && self.sentence.is(self.start, Class::Oneself);
        self.is_correction
            && is_place
            && !begins_otherwise
            && !is_of_self
            && self.sentence.has(Signal::Verb, self.start)
            && !self.has(Signal::Passing)
    }

    /// Whether the sentence only limits what was said before it.
    fn only_limits(&self) -> bool {
        self.has(Signal::Once) && self.sentence.words.len() <= LIMITING_WORDS_MAX
    }

    /// Whether it says only that the order before it holds every time: `Answer in Danish. Always.`
    fn only_repeats(&self) -> bool {
        let sentence = self.sentence;
        let each = sentence.at(Signal::Each, self.start);
        let behind = each.map(|end| sentence.at(Signal::Fluff, end).unwrap_or(end));
        self.last_is_order && behind == Some(sentence.words.len())
    }

    /// Whether it says something without the sentence before.
    fn stands_alone(&self) -> bool {
        let sentence = self.sentence;
        let least =
            if sentence.is_unspaced { STATEMENT_CHARS_MIN } else { STATEMENT_WORDS_MIN };
        let said = sentence.words.len().saturating_sub(self.start);
        let of_signals: usize = [Signal::FromNow, Signal::Fluff, Signal::Each]
            .into_iter()
            .flat_map(|signal| sentence.within(signal, self.start..usize::MAX))
            .map(|range| range.len())
            .sum();
        let is_pronoun = self.is_asked
            && self.begins_with(Signal::Pronoun, self.start)
            && self.begins_with(Signal::Verb, self.start + 1);
        said >= least
            && of_signals < said
            && !self.points_elsewhere()
            && !is_pronoun
    }

    /// Whether what is meant stands in another sentence. A single word that ends a later clause points into this one.
    fn points_elsewhere(&self) -> bool {
        let clause = |at: usize| self.sentence.words.get(at).map(|word| word.clause);
        self.sentence
            .within(Signal::Pointing, self.start..usize::MAX)
            .any(|one| {
                let is_near = one.start < self.start + POINTING_WORDS_MAX;
                one.len() > 1 || (is_near && clause(one.start) == clause(self.start))
            })
    }

    /// Returns the statement, without what stands in front of it and without thanks behind it.
    fn text(&self) -> &str {
        let source = self.sentence.source;
        let before = self.start.checked_sub(1).and_then(|at| self.sentence.words.get(at));
        let text = before.map_or(source, |word| {
            behind_mark(source.get(word.at.end..).unwrap_or_default()).trim_start()
        });
        let behind = self.end.filter(|_| !self.sentence.is_unspaced);
        let behind = behind.and_then(|at| Some(self.sentence.words.get(at)?.at.start));
        let cut = source.len() - text.len();
        let text = match behind.and_then(|end| source.get(cut..end)) {
            Some(text) => text.trim_end_matches([',', ';', ' ', '–', '—', '-', '(', ':', '.']),
            None => text,
        };
        let said = bare(text);
        if said.is_empty() { text } else { said }
    }
}
