//! Judges whether a sentence is worth keeping, and how strong its signal is.
//!
//! Contrary signals come first: an ironic, uncertain, one-time or quoted statement is never kept. A signal counts
//! only in certain positions, such as the beginning of a clause.

use std::ops::Range;

use memory::text::slice;

use super::super::content::{after_separator, strip_lead_in};
use super::super::lexicon::Class;
use super::super::phrases::{Sentence, Signal};

/// Minimum length of a statement in words, and in characters in scripts without spaces.
pub(super) const STATEMENT_WORDS_MIN: usize = 3;
pub(super) const STATEMENT_CHARS_MIN: usize = 6;

/// Maximum number of words of a sentence that only limits the previous one: `Just for this file, though.`
const LIMITING_WORDS_MAX: usize = 8;

/// Number of words after a condition within which a rule may begin.
const CONDITION_WORDS_MAX: usize = 8;

/// Number of words of a statement within which a final pronoun refers outside of it: `never print it`.
const POINTING_WORDS_MAX: usize = 4;

/// Strength of a signal to keep a statement; the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strength {
    /// `remember that …`
    ExplicitRequest,
    /// `from now on …`
    FromNow,
    /// `always …`, `stop …`
    Rule,
    /// `I prefer …`, `I'm a …`
    SelfDescription,
    /// `no, don't …`
    Correction,
    /// `there is no … here`
    Fact,
}

impl Strength {
    /// Checks whether it is about the agent's work or about the person.
    pub(super) const fn is_personal(self) -> bool {
        matches!(self, Self::FromNow | Self::Rule | Self::SelfDescription | Self::Correction)
    }
}

/// Judge of one sentence.
pub(super) struct Judge<'s, 'b> {
    pub(super) sentence: &'s Sentence<'b>,
    /// Index of the first word of the statement.
    pub(super) start: usize,
    /// Index of the first word after it, if a request to remember follows.
    pub(super) end: Option<usize>,
    pub(super) is_correction: bool,
    pub(super) asks_to_remember: bool,
    /// Whether the previous sentence is an order.
    pub(super) previous_is_order: bool,
}

impl Judge<'_, '_> {
    /// Returns the strength of the sentence's signal; `None` if it is not worth keeping.
    pub(super) fn strength(&self, is_question: bool) -> Option<Strength> {
        if (is_question && !self.is_polite_order()) || self.is_ruled_out() {
            return None;
        }
        if self.asks_to_remember {
            return Some(Strength::ExplicitRequest);
        }
        if self.begins_with(Signal::Plan, self.start) || self.is_unmarked_question() {
            return None;
        }
        if let Some(from_now) =
            self.sentence.phrases_in(Signal::FromNow, self.start..usize::MAX).next()
        {
            return (!self.states_own_plan(from_now.end)).then_some(Strength::FromNow);
        }
        let heads = self.clause_heads();
        if heads.iter().any(|head| self.is_rule(*head)) || self.is_general_rule() {
            return Some(Strength::Rule);
        }
        if heads.iter().any(|head| self.is_self_description(*head)) {
            return Some(Strength::SelfDescription);
        }
        if heads.iter().any(|head| self.is_ban(*head)) {
            return Some(Strength::Correction);
        }
        (self.is_convention() || self.is_corrected_fact()).then_some(Strength::Fact)
    }

    /// Checks whether the person continues with their own plan rather than a wish.
    fn states_own_plan(&self, index: usize) -> bool {
        let wants = [Signal::Like, Signal::Wish, Signal::Identity];
        let is_of_self =
            !self.sentence.is_unspaced && self.sentence.has_class(index, Class::Oneself);
        self.begins_with(Signal::Plan, index)
            || (is_of_self && !wants.into_iter().any(|signal| self.begins_with(signal, index)))
    }

    fn begins_with(&self, signal: Signal, index: usize) -> bool {
        self.sentence.phrase_end_at(signal, index).is_some()
    }

    fn has(&self, signal: Signal) -> bool {
        self.sentence.has(signal, 0)
    }

    /// Checks for signals that the statement is not meant, uncertain, temporary, or another person's.
    fn is_ruled_out(&self) -> bool {
        let always = [Signal::Once, Signal::Maybe, Signal::Known];
        let unless_asked = [Signal::Says, Signal::Day];
        always.into_iter().any(|signal| self.has(signal))
            || (!self.asks_to_remember
                && unless_asked.into_iter().any(|signal| self.sentence.has(signal, self.start)))
    }

    /// Checks for a question without a question mark.
    fn is_unmarked_question(&self) -> bool {
        if self.sentence.is_unspaced {
            return self.has(Signal::Question) && !self.is_polite_order();
        }
        self.begins_with(Signal::Question, self.start) && !self.is_polite_order()
    }

    /// Checks whether a question is a polite order: `could you from now on …?`
    fn is_polite_order(&self) -> bool {
        let is_request = if self.sentence.is_unspaced {
            self.has(Signal::Request)
        } else {
            self.begins_with(Signal::Request, self.start)
        };
        // The polite phrase before a rule was already cut from the statement.
        let was_cut = self.start.checked_sub(1).is_some()
            && self.sentence.phrases_in(Signal::Request, 0..self.start).next().is_some()
            && [Signal::Rule, Signal::Stop]
                .into_iter()
                .any(|signal| self.begins_with(signal, self.start));
        (is_request && self.has(Signal::FromNow)) || (!self.sentence.is_unspaced && was_cut)
    }

    /// Returns possible beginnings of the main clause: the start, and the words after a leading condition or place.
    fn clause_heads(&self) -> Vec<usize> {
        let sentence = self.sentence;
        let mut heads = vec![self.start];
        let mut add = |index: usize| {
            let after_fluff = sentence.phrase_end_at(Signal::Fluff, index).unwrap_or(index);
            heads.extend([index, after_fluff]);
        };
        let end = sentence.words.len();
        if sentence.is_unspaced {
            (self.start..end)
                .filter(|index| sentence.is_clause_boundary(*index))
                .for_each(&mut add);
            return heads;
        }
        if let Some(each) = sentence.phrase_end_at(Signal::Each, self.start) {
            add(each);
        }
        let is_condition = self.begins_with(Signal::When, self.start)
            || self.begins_with(Signal::Here, self.start);
        if !is_condition {
            return heads;
        }
        if let Some(index) = (self.start..end).find(|index| sentence.is_clause_boundary(*index)) {
            add(index);
        }
        let near = self.start..end.min(self.start + CONDITION_WORDS_MAX);
        let signals = [Signal::Rule, Signal::Order, Signal::Convention];
        for signal in signals {
            sentence.phrases_in(signal, near.clone()).for_each(|range| add(range.start));
        }
        heads
    }

    /// Checks for an order that holds every time.
    fn is_rule(&self, head: usize) -> bool {
        let sentence = self.sentence;
        if let Some(end) = sentence.phrase_end_at(Signal::Rule, head) {
            return !self.begins_with(Signal::NoRule, head) && !self.refers_to_one_thing(end);
        }
        if let Some(end) = sentence.phrase_end_at(Signal::Stop, head) {
            return !self.begins_with(Signal::NoStop, head) && !self.refers_to_one_thing(end);
        }
        if sentence.is_unspaced {
            let clause = |index: usize| sentence.words.get(index).map(|word| word.clause);
            let each = |order: &Range<usize>| {
                sentence
                    .phrases_in(Signal::Each, self.start..usize::MAX)
                    .any(|each| clause(each.start) == clause(order.start))
            };
            let is_rule =
                sentence.phrases_in(Signal::Rule, self.start..usize::MAX).next().is_some();
            let is_stop =
                sentence.phrases_in(Signal::Stop, self.start..usize::MAX).next().is_some();
            return !self.has(Signal::NoRule)
                && !self.has(Signal::NoStop)
                && (is_rule
                    || is_stop
                    || sentence
                        .phrases_in(Signal::Order, self.start..usize::MAX)
                        .any(|order| each(&order)));
        }
        if let Some(ban) = sentence.phrase_end_at(Signal::Ban, head) {
            // `don't use them here, ever`
            let trailing = sentence.phrases_in(Signal::Each, ban..usize::MAX).any(|each| {
                sentence.is_clause_boundary(each.start) && each.end >= sentence.words.len()
            });
            return trailing && !self.refers_to_one_thing(ban);
        }
        let order = match sentence.phrase_end_at(Signal::Wish, head) {
            Some(end) => (!self.begins_with(Signal::Definite, end)).then_some(end),
            None => sentence.phrase_end_at(Signal::Order, head),
        };
        order.is_some_and(|end| {
            !self.refers_to_one_thing(end)
                && (sentence
                    .phrases_in(Signal::Each, end..usize::MAX)
                    .any(|each| self.is_standing_order(end, &each))
                    || self.is_fronted_by_each(head))
        })
    }

    /// Checks whether an order itself holds every time, not its object: `write a function that always returns a
    /// list`.
    fn is_standing_order(&self, order: usize, each: &Range<usize>) -> bool {
        let sentence = self.sentence;
        let begins_clause = sentence.is_clause_boundary(each.start);
        let is_last = each.end >= sentence.words.len() || sentence.is_clause_boundary(each.end);
        let describes_thing =
            sentence.phrases_in(Signal::Which, order..each.start).next().is_some()
                || (order..each.start).any(|index| sentence.is_clause_boundary(index + 1))
                    && !begins_clause;
        let is_single = self.begins_with(Signal::Article, order);
        begins_clause || !(describes_thing || (is_single && !is_last))
    }

    /// Checks whether an order follows a phrase such as `as a rule` or `next time`.
    fn is_fronted_by_each(&self, head: usize) -> bool {
        self.sentence.phrases_in(Signal::Each, self.start..head).any(|each| {
            let after = self.sentence.phrase_end_at(Signal::Fluff, each.end).unwrap_or(each.end);
            each.start == self.start && after == head
        })
    }

    /// Checks whether a rule refers to one thing by a pronoun: `never print it`.
    fn refers_to_one_thing(&self, end: usize) -> bool {
        !self.sentence.is_unspaced
            && [end.saturating_sub(1), end]
                .into_iter()
                .any(|index| index >= self.start && self.begins_with(Signal::Pronoun, index))
    }

    /// Checks for a general rule: `migrations must always be reversible`.
    fn is_general_rule(&self) -> bool {
        let is_definite = self.begins_with(Signal::Definite, self.start)
            || self.begins_with(Signal::Pronoun, self.start);
        let is_of_self =
            !self.sentence.is_unspaced && self.sentence.has_class(self.start, Class::Oneself);
        self.sentence.has(Signal::Must, self.start)
            && !is_of_self
            && (!is_definite || self.has(Signal::Here))
    }

    /// Checks whether the person describes themselves or a preference.
    fn is_self_description(&self, head: usize) -> bool {
        let is = |yes, no| {
            if self.sentence.is_unspaced {
                self.has(yes) && !self.has(no)
            } else {
                self.begins_with(yes, head) && !self.begins_with(no, head)
            }
        };
        // Not an identity: `Ich bin Montag nicht da.`
        let names_day = self
            .sentence
            .phrase_end_at(Signal::Identity, head)
            .is_some_and(|end| self.sentence.is_day_or_month(end - 1));
        is(Signal::Like, Signal::NoLike) || (is(Signal::Identity, Signal::NoIdentity) && !names_day)
    }

    /// Checks for a general ban, as a correction or with a condition that holds every time.
    fn is_ban(&self, head: usize) -> bool {
        let sentence = self.sentence;
        let has_reason = self.is_correction || self.has(Signal::Unless);
        if !has_reason || self.begins_with(Signal::NoRule, head) {
            return false;
        }
        if sentence.is_unspaced {
            return self.has(Signal::Ban) && sentence.words.len() >= STATEMENT_CHARS_MIN;
        }
        let verb = sentence.phrase_end_at(Signal::Ban, head).or_else(|| {
            let end = sentence.phrase_end_at(Signal::Order, head)?;
            sentence
                .phrases_in(Signal::Not, end..end + STATEMENT_WORDS_MIN)
                .next()
                .map(|negation| negation.end)
        });
        verb.is_some_and(|end| {
            let is_definite = self.begins_with(Signal::Definite, end);
            sentence.words.len() - head >= STATEMENT_WORDS_MIN
                && !self.refers_to_one_thing(end)
                && (!is_definite || self.has(Signal::Unless))
        })
    }

    /// Checks for a convention of the project.
    fn is_convention(&self) -> bool {
        let sentence = self.sentence;
        if self.has(Signal::Passing) {
            return false;
        }
        let has_contrast =
            sentence.phrases_in(Signal::Versus, self.start..usize::MAX).any(|versus| {
                let before = versus.start.checked_sub(1);
                sentence.is_clause_boundary(versus.start)
                    || before.is_some_and(|index| self.begins_with(Signal::Fluff, index))
            });
        let is_negated =
            sentence.has(Signal::Not, self.start) || sentence.has(Signal::Versus, self.start);
        let is_here = self.has(Signal::Here);
        // `Pull requests in this repository always target develop.`
        let begins_otherwise = [Signal::Definite, Signal::Pronoun, Signal::NoConvention]
            .into_iter()
            .any(|signal| self.begins_with(signal, self.start))
            && !self.begins_with(Signal::Here, self.start);
        let is_about_people = !sentence.is_unspaced
            && [Class::Oneself, Class::You]
                .into_iter()
                .any(|class| sentence.has_class(self.start, class))
            && !sentence.has_class(self.start, Class::Us);
        let is_always =
            sentence.has(Signal::Each, self.start) && !self.begins_with(Signal::Each, self.start);
        // A single `here` may be any place.
        let names_workplace =
            sentence.phrases_in(Signal::Here, self.start..usize::MAX).any(|here| here.len() > 1);
        if names_workplace
            && is_always
            && !begins_otherwise
            && !is_about_people
            && !sentence.is_unspaced
        {
            return !is_order(sentence, self.start);
        }
        let mut starts = self.clause_heads();
        starts.extend(
            (self.start..sentence.words.len()).filter(|index| sentence.is_clause_boundary(*index)),
        );
        starts.into_iter().any(|index| {
            let is = |signal| self.begins_with(signal, index);
            !is(Signal::NoConvention)
                && ((is(Signal::Convention) && (is_here || has_contrast || self.is_correction))
                    || (is(Signal::Ours)
                        && is_here
                        && (is_negated
                            || has_contrast
                            || self.is_correction
                            || self.has(Signal::Each))))
        })
    }

    /// Checks for a statement about the environment, after a signal that something is wrong.
    fn is_corrected_fact(&self) -> bool {
        let is_place = self.has(Signal::Here) || self.has(Signal::Surroundings);
        let begins_otherwise = [Signal::Order, Signal::Pronoun, Signal::Question]
            .into_iter()
            .any(|signal| self.begins_with(signal, self.start))
            && !self.begins_with(Signal::Definite, self.start);
        let is_of_self =
            !self.sentence.is_unspaced && self.sentence.has_class(self.start, Class::Oneself);
        self.is_correction
            && is_place
            && !begins_otherwise
            && !is_of_self
            && self.sentence.has(Signal::Verb, self.start)
            && !self.has(Signal::Passing)
    }

    /// Checks whether the sentence only limits the previous one.
    pub(super) fn only_limits_previous(&self) -> bool {
        self.has(Signal::Once) && self.sentence.words.len() <= LIMITING_WORDS_MAX
    }

    /// Checks whether it only says that the previous order holds every time: `Answer in Danish. Always.`
    pub(super) fn only_repeats_previous(&self) -> bool {
        let sentence = self.sentence;
        let each = sentence.phrase_end_at(Signal::Each, self.start);
        let after = each.map(|end| sentence.phrase_end_at(Signal::Fluff, end).unwrap_or(end));
        self.previous_is_order && after == Some(sentence.words.len())
    }

    /// Checks whether it is meaningful without the previous sentence.
    pub(super) fn stands_alone(&self) -> bool {
        let sentence = self.sentence;
        let least = if sentence.is_unspaced { STATEMENT_CHARS_MIN } else { STATEMENT_WORDS_MIN };
        let length = sentence.words.len().saturating_sub(self.start);
        let signal_words: usize = [Signal::FromNow, Signal::Fluff, Signal::Each]
            .into_iter()
            .flat_map(|signal| sentence.phrases_in(signal, self.start..usize::MAX))
            .map(|range| range.len())
            .sum();
        let is_pronoun = self.asks_to_remember
            && self.begins_with(Signal::Pronoun, self.start)
            && self.begins_with(Signal::Verb, self.start + 1);
        length >= least && signal_words < length && !self.points_elsewhere() && !is_pronoun
    }

    /// Checks whether it refers to another sentence. A single word that ends a later clause refers to this one.
    fn points_elsewhere(&self) -> bool {
        let clause = |index: usize| self.sentence.words.get(index).map(|word| word.clause);
        self.sentence.phrases_in(Signal::Pointing, self.start..usize::MAX).any(|pointing| {
            let is_near = pointing.start < self.start + POINTING_WORDS_MAX;
            pointing.len() > 1 || (is_near && clause(pointing.start) == clause(self.start))
        })
    }

    /// Returns the statement, without introductory phrases and without thanks.
    pub(super) fn statement_text(&self) -> &str {
        let source = self.sentence.source;
        let before = self.start.checked_sub(1).and_then(|index| self.sentence.words.get(index));
        let text = before
            .map_or(source, |word| after_separator(slice(source, word.range.end..)).trim_start());
        let end = self.end.filter(|_| !self.sentence.is_unspaced);
        let end = end.and_then(|index| Some(self.sentence.words.get(index)?.range.start));
        let start = source.len() - text.len();
        let text = match end.and_then(|end| source.get(start..end)) {
            Some(text) => text.trim_end_matches([',', ';', ' ', '–', '—', '-', '(', ':', '.']),
            None => text,
        };
        let statement = strip_lead_in(text);
        if statement.is_empty() { text } else { statement }
    }
}

/// Checks whether a sentence is an order.
pub(super) fn is_order(sentence: &Sentence<'_>, start: usize) -> bool {
    [Signal::Order, Signal::Ban, Signal::Stop].into_iter().any(|signal| {
        if sentence.is_unspaced {
            sentence.has(signal, start)
        } else {
            sentence.phrase_end_at(signal, start).is_some()
        }
    })
}
