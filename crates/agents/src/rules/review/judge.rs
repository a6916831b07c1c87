//! Decides whether a sentence says that it is to be kept, and how plainly.
//!
//! Signs of the opposite come first: what is not meant, not certain, for once or another person's is never kept.

use std::ops::Range;

use memory::text::slice;

use super::super::content::{after_separator, strip_lead_in};
use super::super::lexicon::Class;
use super::super::phrases::{Sentence, Signal};

/// The fewest words of a statement, and the fewest characters where words are not parted.
pub(super) const STATEMENT_WORDS_MIN: usize = 3;
pub(super) const STATEMENT_CHARS_MIN: usize = 6;

/// The most words of a sentence that only limits the one before: `Just for this file, though.`
const LIMITING_WORDS_MAX: usize = 8;

/// The most words of a sentence in which a rule is looked for behind a condition.
const CONDITION_WORDS_MAX: usize = 8;

/// The most words into a statement at which a single word that ends its clause points out of it: `never print it`.
const POINTING_WORDS_MAX: usize = 4;

/// How plainly a person says that something is to be kept; the plainest first.
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
    /// Whether it is about how the agent is to work, or about the person.
    pub(super) const fn is_personal(self) -> bool {
        matches!(self, Self::FromNow | Self::Rule | Self::SelfDescription | Self::Correction)
    }
}

/// Decides whether a sentence is worth keeping.
pub(super) struct Judge<'s, 'b> {
    pub(super) sentence: &'s Sentence<'b>,
    /// The first word of the statement.
    pub(super) start: usize,
    /// The first word behind it, if a request to remember it stands there.
    pub(super) end: Option<usize>,
    pub(super) is_correction: bool,
    pub(super) asks_to_remember: bool,
    /// Whether the sentence before gives an order.
    pub(super) previous_is_order: bool,
}

impl Judge<'_, '_> {
    /// Returns how plainly the sentence says that it is to be kept; `None` if it does not.
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

    /// Whether the person goes on with what they do themselves, and not with what they want.
    fn states_own_plan(&self, at: usize) -> bool {
        let wants = [Signal::Like, Signal::Wish, Signal::Identity];
        let is_of_self = !self.sentence.is_unspaced && self.sentence.has_class(at, Class::Oneself);
        self.begins_with(Signal::Plan, at)
            || (is_of_self && !wants.into_iter().any(|signal| self.begins_with(signal, at)))
    }

    fn begins_with(&self, signal: Signal, at: usize) -> bool {
        self.sentence.phrase_end_at(signal, at).is_some()
    }

    fn has(&self, signal: Signal) -> bool {
        self.sentence.has(signal, 0)
    }

    /// Whether something says that it is not meant, not certain, not for long, or not the person's.
    fn is_ruled_out(&self) -> bool {
        let always = [Signal::Once, Signal::Maybe, Signal::Known];
        let unless_asked = [Signal::Says, Signal::Day];
        always.into_iter().any(|signal| self.has(signal))
            || (!self.asks_to_remember
                && unless_asked.into_iter().any(|one| self.sentence.has(one, self.start)))
    }

    /// Whether it asks without a question mark.
    fn is_unmarked_question(&self) -> bool {
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
            && self.sentence.phrases_in(Signal::Request, 0..self.start).next().is_some()
            && [Signal::Rule, Signal::Stop]
                .into_iter()
                .any(|one| self.begins_with(one, self.start));
        (is_request && self.has(Signal::FromNow)) || (!self.sentence.is_unspaced && is_cut)
    }

    /// Returns where the main clause may begin: at the start, and behind a condition or a place in front of it.
    fn clause_heads(&self) -> Vec<usize> {
        let sentence = self.sentence;
        let mut heads = vec![self.start];
        let mut add = |at: usize| {
            let behind_fluff = sentence.phrase_end_at(Signal::Fluff, at).unwrap_or(at);
            heads.extend([at, behind_fluff]);
        };
        let end = sentence.words.len();
        if sentence.is_unspaced {
            (self.start..end).filter(|at| sentence.is_clause_boundary(*at)).for_each(&mut add);
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
        if let Some(at) = (self.start..end).find(|at| sentence.is_clause_boundary(*at)) {
            add(at);
        }
        let near = self.start..end.min(self.start + CONDITION_WORDS_MAX);
        let signals = [Signal::Rule, Signal::Order, Signal::Convention];
        for signal in signals {
            sentence.phrases_in(signal, near.clone()).for_each(|range| add(range.start));
        }
        heads
    }

    /// Whether it is an order that holds every time.
    fn is_rule(&self, head: usize) -> bool {
        let sentence = self.sentence;
        if let Some(end) = sentence.phrase_end_at(Signal::Rule, head) {
            return !self.begins_with(Signal::NoRule, head) && !self.refers_to_one_thing(end);
        }
        if let Some(end) = sentence.phrase_end_at(Signal::Stop, head) {
            return !self.begins_with(Signal::NoStop, head) && !self.refers_to_one_thing(end);
        }
        if sentence.is_unspaced {
            let clause = |at: usize| sentence.words.get(at).map(|word| word.clause);
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
                        .any(|one| each(&one)));
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

    /// Whether an order holds each time, and not what it makes: `write a function that always returns a list`.
    fn is_standing_order(&self, order: usize, each: &Range<usize>) -> bool {
        let sentence = self.sentence;
        let begins_clause = sentence.is_clause_boundary(each.start);
        let is_last = each.end >= sentence.words.len() || sentence.is_clause_boundary(each.end);
        let of_thing = sentence.phrases_in(Signal::Which, order..each.start).next().is_some()
            || (order..each.start).any(|at| sentence.is_clause_boundary(at + 1)) && !begins_clause;
        let of_one = self.begins_with(Signal::Article, order);
        begins_clause || !(of_thing || (of_one && !is_last))
    }

    /// Whether an order stands behind words such as `as a rule` or `next time`.
    fn is_fronted_by_each(&self, head: usize) -> bool {
        self.sentence.phrases_in(Signal::Each, self.start..head).any(|each| {
            let behind = self.sentence.phrase_end_at(Signal::Fluff, each.end).unwrap_or(each.end);
            each.start == self.start && behind == head
        })
    }

    /// Whether the words behind a rule are a word that points at one thing: `never print it`.
    fn refers_to_one_thing(&self, end: usize) -> bool {
        !self.sentence.is_unspaced
            && [end.saturating_sub(1), end]
                .into_iter()
                .any(|at| at >= self.start && self.begins_with(Signal::Pronoun, at))
    }

    /// Whether a general rule is stated: `migrations must always be reversible`.
    fn is_general_rule(&self) -> bool {
        let is_definite = self.begins_with(Signal::Definite, self.start)
            || self.begins_with(Signal::Pronoun, self.start);
        let is_of_self =
            !self.sentence.is_unspaced && self.sentence.has_class(self.start, Class::Oneself);
        self.sentence.has(Signal::Must, self.start)
            && !is_of_self
            && (!is_definite || self.has(Signal::Here))
    }

    /// Whether the person says who they are or what they like.
    fn is_self_description(&self, head: usize) -> bool {
        let is = |yes, no| {
            if self.sentence.is_unspaced {
                self.has(yes) && !self.has(no)
            } else {
                self.begins_with(yes, head) && !self.begins_with(no, head)
            }
        };
        // `Ich bin Montag nicht da.`
        let names_day = self
            .sentence
            .phrase_end_at(Signal::Identity, head)
            .is_some_and(|end| self.sentence.is_day_or_month(end - 1));
        is(Signal::Like, Signal::NoLike) || (is(Signal::Identity, Signal::NoIdentity) && !names_day)
    }

    /// Whether it forbids something in general, as a correction or with a condition that holds every time.
    fn is_ban(&self, head: usize) -> bool {
        let sentence = self.sentence;
        let is_meant = self.is_correction || self.has(Signal::Unless);
        if !is_meant || self.begins_with(Signal::NoRule, head) {
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
                .map(|one| one.end)
        });
        verb.is_some_and(|end| {
            let is_definite = self.begins_with(Signal::Definite, end);
            sentence.words.len() - head >= STATEMENT_WORDS_MIN
                && !self.refers_to_one_thing(end)
                && (!is_definite || self.has(Signal::Unless))
        })
    }

    /// Whether it tells how things are done here.
    fn is_convention(&self) -> bool {
        let sentence = self.sentence;
        if self.has(Signal::Passing) {
            return false;
        }
        let contrast = sentence.phrases_in(Signal::Versus, self.start..usize::MAX).any(|one| {
            let before = one.start.checked_sub(1);
            sentence.is_clause_boundary(one.start)
                || before.is_some_and(|at| self.begins_with(Signal::Fluff, at))
        });
        let negated =
            sentence.has(Signal::Not, self.start) || sentence.has(Signal::Versus, self.start);
        let is_here = self.has(Signal::Here);
        // `Pull requests in this repository always target develop.`
        let begins_otherwise = [Signal::Definite, Signal::Pronoun, Signal::NoConvention]
            .into_iter()
            .any(|signal| self.begins_with(signal, self.start))
            && !self.begins_with(Signal::Here, self.start);
        let is_spoken_to = !sentence.is_unspaced
            && [Class::Oneself, Class::You]
                .into_iter()
                .any(|one| sentence.has_class(self.start, one))
            && !sentence.has_class(self.start, Class::Us);
        let is_always =
            sentence.has(Signal::Each, self.start) && !self.begins_with(Signal::Each, self.start);
        // `here` alone is any place.
        let is_here_of_work =
            sentence.phrases_in(Signal::Here, self.start..usize::MAX).any(|here| here.len() > 1);
        if is_here_of_work
            && is_always
            && !begins_otherwise
            && !is_spoken_to
            && !sentence.is_unspaced
        {
            return !is_order(sentence, self.start);
        }
        let mut starts = self.clause_heads();
        starts.extend(
            (self.start..sentence.words.len()).filter(|at| sentence.is_clause_boundary(*at)),
        );
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
        let is_of_self =
            !self.sentence.is_unspaced && self.sentence.has_class(self.start, Class::Oneself);
        self.is_correction
            && is_place
            && !begins_otherwise
            && !is_of_self
            && self.sentence.has(Signal::Verb, self.start)
            && !self.has(Signal::Passing)
    }

    /// Whether the sentence only limits what was said before it.
    pub(super) fn only_limits_previous(&self) -> bool {
        self.has(Signal::Once) && self.sentence.words.len() <= LIMITING_WORDS_MAX
    }

    /// Whether it says only that the order before it holds every time: `Answer in Danish. Always.`
    pub(super) fn only_repeats_previous(&self) -> bool {
        let sentence = self.sentence;
        let each = sentence.phrase_end_at(Signal::Each, self.start);
        let behind = each.map(|end| sentence.phrase_end_at(Signal::Fluff, end).unwrap_or(end));
        self.previous_is_order && behind == Some(sentence.words.len())
    }

    /// Whether it says something without the sentence before.
    pub(super) fn stands_alone(&self) -> bool {
        let sentence = self.sentence;
        let least = if sentence.is_unspaced { STATEMENT_CHARS_MIN } else { STATEMENT_WORDS_MIN };
        let said = sentence.words.len().saturating_sub(self.start);
        let of_signals: usize = [Signal::FromNow, Signal::Fluff, Signal::Each]
            .into_iter()
            .flat_map(|signal| sentence.phrases_in(signal, self.start..usize::MAX))
            .map(|range| range.len())
            .sum();
        let is_pronoun = self.asks_to_remember
            && self.begins_with(Signal::Pronoun, self.start)
            && self.begins_with(Signal::Verb, self.start + 1);
        said >= least && of_signals < said && !self.points_elsewhere() && !is_pronoun
    }

    /// Whether what is meant stands in another sentence. A single word that ends a later clause points into this one.
    fn points_elsewhere(&self) -> bool {
        let clause = |at: usize| self.sentence.words.get(at).map(|word| word.clause);
        self.sentence.phrases_in(Signal::Pointing, self.start..usize::MAX).any(|one| {
            let is_near = one.start < self.start + POINTING_WORDS_MAX;
            one.len() > 1 || (is_near && clause(one.start) == clause(self.start))
        })
    }

    /// Returns the statement, without what stands in front of it and without thanks behind it.
    pub(super) fn statement_text(&self) -> &str {
        let source = self.sentence.source;
        let before = self.start.checked_sub(1).and_then(|at| self.sentence.words.get(at));
        let text = before
            .map_or(source, |word| after_separator(slice(source, word.range.end..)).trim_start());
        let behind = self.end.filter(|_| !self.sentence.is_unspaced);
        let behind = behind.and_then(|at| Some(self.sentence.words.get(at)?.range.start));
        let cut = source.len() - text.len();
        let text = match behind.and_then(|end| source.get(cut..end)) {
            Some(text) => text.trim_end_matches([',', ';', ' ', '–', '—', '-', '(', ':', '.']),
            None => text,
        };
        let said = strip_lead_in(text);
        if said.is_empty() { text } else { said }
    }
}

/// Tells whether a sentence is an order.
pub(super) fn is_order(sentence: &Sentence<'_>, start: usize) -> bool {
    [Signal::Order, Signal::Ban, Signal::Stop].into_iter().any(|signal| {
        if sentence.is_unspaced {
            sentence.has(signal, start)
        } else {
            sentence.phrase_end_at(signal, start).is_some()
        }
    })
}
