//! Classifies a fact: its owner (person or project) and its topic.
//!
//! A fact that names this repository, or that a team says of its work, belongs to the project. A fact that a person
//! says of themselves, or about how an agent is to answer, belongs to the person. A plain statement about things
//! belongs to the project. Without any sign it belongs to the person, where it does not get in the way of others.

use std::sync::LazyLock;

use regex::Regex;

use super::lexicon::Class;
use super::snapshot::{ParsedEntry, reasons_start};
use super::tokenize::{TextToken, TokenizedText, is_unspaced};
use crate::request::MemoryTopic;

/// Owner of a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FactOwner {
    /// The person, in all projects.
    User,
    /// The project.
    Project,
}

/// Classification of a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FactClassification {
    pub(crate) owner: FactOwner,
    pub(crate) topic: MemoryTopic,
    /// Whether the text itself states the owner.
    pub(crate) is_explicit: bool,
    /// Whether it names the project: `this repository`.
    pub(crate) names_project: bool,
    /// Whether it has technical terms: code, paths, options.
    pub(crate) has_technical_terms: bool,
}

/// Maximum number of words of a text that only points to a place.
const POINTER_WORDS_MAX: usize = 40;

/// Maximum number of words of a label before a colon.
const LABEL_WORDS_MAX: usize = 4;

/// Pattern of technical terms: code, commands, paths, file names, options, channels.
static TECHNICAL_TERMS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"`[^`]+`|(?:^|\s)(?:\.{0,2}/)?[\w.-]+/[\w./*-]+|\b[\w-]+\.(?:[a-z]{1,4}|toml|yaml|json|lock)\b|(?:^|\s)--?[a-z][\w-]+|(?:^|\s)#[a-z][\w-]+|\b[a-z]+_[a-z_]+\b").ok()
});

/// Pattern of contact data: an email address, a telephone number, a bank account, and the like.
static CONTACT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"[\w.+-]+@[\w-]+\.[\w.]+|(?:^|\s)\+\d{1,3}[ \d/()-]{6,}\d|(?:^|\s)0\d{2,4}[ /-]\d[\d -]{5,}|\b[\d.]+ ?kg\b.*\blose\b|\b\d{5} \p{Lu}\p{L}+|\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}").ok()
});

fn has_contact(fact: &str) -> bool {
    CONTACT.as_ref().is_some_and(|pattern| pattern.is_match(fact))
}

/// Returns the classification of a fact.
pub(crate) fn classify(fact: &str) -> FactClassification {
    let text = TokenizedText::tokenize(fact);
    let features = TextFeatures::detect(fact, &text);
    let (owner, is_explicit) = features.owner();
    let topic = features.topic(owner);
    let names_project = features.has(TextFeature::NamesProject) && owner == FactOwner::Project;
    FactClassification {
        owner,
        topic,
        is_explicit,
        names_project,
        has_technical_terms: features.has(TextFeature::TechnicalTerms),
    }
}

/// Checks whether a fact is about health, family, money or an address.
pub(crate) fn is_private(fact: &str) -> bool {
    TokenizedText::tokenize(fact).has(Class::Private) || has_contact(fact)
}

/// Checks whether the statement of an entry is about health, family, money or an address.
pub(crate) fn is_private_entry(entry: &ParsedEntry) -> bool {
    entry.fingerprints().has(Class::Private) || has_contact(entry.statement())
}

fn names_this_project(text: &TokenizedText) -> bool {
    text.tokens.iter().enumerate().any(|(index, token)| {
        let before = &text.tokens[index.saturating_sub(3)..index];
        let has_pointer = before.iter().any(|other| other.is(Class::This));
        let is_site = token.is(Class::Site) && !token.is(Class::Everywhere);
        is_site && (has_pointer || token.word.chars().any(is_unspaced))
    })
}

fn mentions_here(text: &TokenizedText) -> bool {
    text.tokens.iter().any(|token| {
        let is_small =
            token.is(Class::Function) && !matches!(token.word.as_str(), "here" | "hier" | "ici");
        token.is(Class::Here) && !is_small
    })
}

/// Feature of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextFeature {
    /// Names this repository or project.
    NamesProject,
    /// Says that it holds in all projects.
    AllProjects,
    /// Gives reasons, and how to apply it.
    HasReasons,
    /// Says `here`, or names the team.
    MentionsHere,
    FirstPerson,
    FirstPersonPlural,
    /// Addresses the agent about its answers.
    AddressesAgent,
    SecondPerson,
    /// Is about the person, in the third person.
    AboutUser,
    HasRule,
    BeginsAsRule,
    /// Begins with a request.
    Request,
    /// Has technical terms: code, paths, options.
    TechnicalTerms,
    /// Points to a place.
    IsPointer,
    /// Begins with its subject.
    IsStatement,
    /// Is about health, family, money or an address.
    IsPrivate,
    /// Is in a language without a lexicon.
    UnsupportedLanguage,
}

/// The features of a text.
struct TextFeatures(Vec<TextFeature>);

impl TextFeatures {
    fn detect(fact: &str, text: &TokenizedText) -> Self {
        let tokens = &text.tokens;
        let begins_as_rule = tokens.iter().enumerate().any(|(index, token)| {
            token.sentence == tokens[0].sentence
                && is_rule(text, token)
                && !is_infinitive(tokens, index)
                && (index < 4 || begins_clause_as_rule(text, token.clause))
        });
        let first = tokens.first();
        let is_about_user = text
            .lexicon_matches
            .iter()
            .any(|hit| hit.tokens.start == 0 && hit.classes.has(Class::User))
            || first.is_some_and(|first| first.is(Class::Prefer) && !first.is(Class::Oneself));
        let features = [
            (TextFeature::NamesProject, names_this_project(text)),
            (TextFeature::AllProjects, text.has(Class::Everywhere)),
            (TextFeature::HasReasons, reasons_start(fact).is_some()),
            (TextFeature::MentionsHere, mentions_here(text)),
            (TextFeature::FirstPerson, text.has(Class::Oneself)),
            (TextFeature::FirstPersonPlural, text.has(Class::Us)),
            (TextFeature::AddressesAgent, speaks_to_agent(text, begins_as_rule)),
            (TextFeature::SecondPerson, text.has(Class::You)),
            (TextFeature::AboutUser, is_about_user),
            (TextFeature::HasRule, text.has(Class::Rule)),
            (TextFeature::BeginsAsRule, begins_as_rule),
            (
                TextFeature::Request,
                first.is_some_and(|first| first.is(Class::Rule) && !first.is(Class::Not)),
            ),
            (
                TextFeature::TechnicalTerms,
                TECHNICAL_TERMS.as_ref().is_some_and(|pattern| pattern.is_match(fact)),
            ),
            (TextFeature::IsPointer, is_pointer(fact, text)),
            (TextFeature::IsStatement, is_statement(fact, text)),
            (TextFeature::UnsupportedLanguage, text.is_unsupported_language(fact)),
            (TextFeature::IsPrivate, text.has(Class::Private) || has_contact(fact)),
        ];
        Self(features.into_iter().filter(|(_, has)| *has).map(|(feature, _)| feature).collect())
    }

    fn has(&self, feature: TextFeature) -> bool {
        self.0.contains(&feature)
    }

    /// Returns the owner, and whether the text states it.
    fn owner(&self) -> (FactOwner, bool) {
        // Private facts come first, because others read the repository.
        if self.has(TextFeature::IsPrivate) {
            return (FactOwner::User, true);
        }
        let is_personal = self.has(TextFeature::AllProjects)
            || (self.has(TextFeature::FirstPerson)
                && (!self.has(TextFeature::FirstPersonPlural)
                    || self.has(TextFeature::AddressesAgent)))
            || self.has(TextFeature::AboutUser);
        if self.has(TextFeature::NamesProject)
            || (self.has(TextFeature::MentionsHere) && !self.has(TextFeature::FirstPerson))
        {
            (FactOwner::Project, true)
        } else if is_personal {
            (FactOwner::User, true)
        } else if self.has(TextFeature::FirstPersonPlural) {
            (FactOwner::Project, true)
        } else if self.has(TextFeature::AddressesAgent) && !self.has(TextFeature::IsPointer) {
            (FactOwner::User, true)
        } else if self.has(TextFeature::TechnicalTerms) || self.has(TextFeature::IsPointer) {
            (FactOwner::Project, false)
        } else if self.has(TextFeature::SecondPerson)
            || self.has(TextFeature::BeginsAsRule)
            || self.has(TextFeature::UnsupportedLanguage)
            || !self.has(TextFeature::IsStatement)
        {
            (FactOwner::User, false)
        } else {
            (FactOwner::Project, false)
        }
    }

    fn topic(&self, owner: FactOwner) -> MemoryTopic {
        let is_rule = match owner {
            FactOwner::User => {
                let is_about_others = !self.has(TextFeature::FirstPerson);
                self.has(TextFeature::AddressesAgent)
                    || self.has(TextFeature::Request)
                    || self.has(TextFeature::HasReasons)
                    || (self.has(TextFeature::AllProjects) && is_about_others)
                    || ((self.has(TextFeature::HasRule) || self.has(TextFeature::SecondPerson))
                        && is_about_others)
            }
            FactOwner::Project => self.has(TextFeature::BeginsAsRule),
        };
        match owner {
            _ if self.has(TextFeature::IsPointer) => MemoryTopic::Reference,
            _ if is_rule => MemoryTopic::Feedback,
            FactOwner::User => MemoryTopic::User,
            FactOwner::Project => MemoryTopic::Project,
        }
    }
}

/// Checks whether a text is about the answers of an agent, not those of a program. Either its sentence uses the
/// first or second person, or the text is a rule, or it begins with neither article nor subject.
fn speaks_to_agent(text: &TokenizedText, begins_as_rule: bool) -> bool {
    let begins_bare = text.tokens.first().is_some_and(|first| {
        [Class::Agent, Class::Light, Class::Prefer, Class::Not]
            .into_iter()
            .any(|class| first.is(class))
    });
    text.tokens.iter().enumerate().any(|(index, token)| {
        let before = index.checked_sub(1).map(|before| &text.tokens[before]);
        let is_of_program = before.is_some_and(|before| before.is_name || before.is_acronym);
        let is_person = |other: &TextToken| {
            other.sentence == token.sentence && (other.is(Class::You) || other.is(Class::Oneself))
        };
        let is_personal = begins_as_rule || text.tokens.iter().any(is_person);
        token.is(Class::Agent) && (is_personal || (begins_bare && !is_of_program))
    })
}

/// Checks whether a word is an infinitive and no order: `we decided to use`.
fn is_infinitive(tokens: &[TextToken], index: usize) -> bool {
    index.checked_sub(1).is_some_and(|before| tokens[before].word == "to")
}

/// Checks whether a clause begins with a rule: `when a test fails, don't …`.
fn begins_clause_as_rule(text: &TokenizedText, clause: usize) -> bool {
    let begins = text.tokens.iter().filter(|token| token.clause == clause).take(2);
    clause > 0 && begins.into_iter().any(|token| is_rule(text, token))
}

/// Checks whether a word makes a sentence a rule. A negation of a former state does not: `nicht mehr um sechs`.
fn is_rule(text: &TokenizedText, token: &TextToken) -> bool {
    token.is(Class::Rule) && (!token.is(Class::Not) || !text.has(Class::Gone))
}

/// Checks whether a text points to a place: a link that is no command, or a place for knowledge with a word that
/// says that something is there.
fn is_pointer(fact: &str, text: &TokenizedText) -> bool {
    let is_link = fact.contains("://") && !fact.contains('|') && !fact.contains("curl ");
    if is_link {
        return true;
    }
    let is_located = text.tokens.iter().enumerate().any(|(index, token)| {
        let following = &text.tokens[index + 1..(index + 6).min(text.tokens.len())];
        let is_verb_last = token.word.chars().any(is_unspaced) || token.language.is_none();
        token.is(Class::Located)
            && (is_verb_last
                || following.iter().any(|next| {
                    next.clause == token.clause && (next.is(Class::At) || next.is(Class::Place))
                }))
    });
    let has_place = text.tokens.iter().any(|token| token.is(Class::Place)) || names_location(text);
    let has_name =
        fact.chars().skip(1).any(char::is_uppercase) || fact.contains(['/', '「', '"', '\'']);
    has_place
        && (is_located || is_labeled(fact, text))
        && has_name
        && text.tokens.len() <= POINTER_WORDS_MAX
}

/// Checks whether a label of a few words and a colon precede a name: `Write-ups: Confluence, space BAKE`.
fn is_labeled(fact: &str, text: &TokenizedText) -> bool {
    let label = text.tokens.iter().filter(|token| token.clause == 0);
    let (count, end) = label.fold((0, 0), |(count, _), token| (count + 1, token.range.end));
    let rest = fact.get(end..).and_then(|rest| rest.strip_prefix(": "));
    count <= LABEL_WORDS_MAX && rest.is_some_and(|rest| rest.starts_with(char::is_uppercase))
}

/// Checks whether a text names the place where something is recorded: `collected in YouTrack`.
fn names_location(text: &TokenizedText) -> bool {
    text.tokens.windows(3).any(|words| match words {
        [put, at, place] => {
            put.is(Class::Recorded) && at.is(Class::At) && place.is_name && !place.has_digit()
        }
        _ => false,
    })
}

/// Checks whether a text is a statement: it has enough words and does not begin with an order.
fn is_statement(fact: &str, text: &TokenizedText) -> bool {
    let Some(first) = text.tokens.first() else { return false };
    let has_article = first.is(Class::Function) && !first.is(Class::Oneself);
    let has_capital = fact.trim_start().starts_with(|c: char| c.is_uppercase() || !c.is_ascii());
    let has_name = text.tokens.iter().any(|token| token.is_name || token.has_digit());
    text.tokens.len() >= 3 && (has_article || has_capital || has_name)
}
