//! Where a fact belongs: in which scope, and as what.
//!
//! Who speaks of whom decides. What names this repository, or what a team says of its work, is the
//! project's. What a person says of themselves, or how an agent is to answer, is the person's wherever
//! they are. A plain statement about things is the project's; what gives no sign at all is kept for the
//! person, where it is never in the way of others.

use std::sync::LazyLock;

use regex::Regex;

use super::lexicon::Class;
use super::snapshot::reasons_start;
use super::tokenize::{TextToken, TokenizedText, is_unspaced};
use crate::request::MemoryTopic;

/// Whose fact it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FactOwner {
    /// The person's, in all projects.
    User,
    /// The project's.
    Project,
}

/// What is told about a fact, and how plainly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FactClassification {
    pub(crate) owner: FactOwner,
    pub(crate) topic: MemoryTopic,
    /// Whether the text says whose it is, rather than leaving it open.
    pub(crate) is_explicit: bool,
    /// Whether it names the project: `this repository`.
    pub(crate) names_project: bool,
    /// Whether it has code, paths, options: things of the work.
    pub(crate) has_technical_terms: bool,
}

/// The most words of a text that only says where something is.
const POINTER_WORDS_MAX: usize = 40;

/// The most words of what names a thing in front of a colon.
const LABEL_WORDS_MAX: usize = 4;

/// Code, commands, paths, file names, options, channels: things of the work.
static TECHNICAL_TERMS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"`[^`]+`|(?:^|\s)(?:\.{0,2}/)?[\w.-]+/[\w./*-]+|\b[\w-]+\.(?:[a-z]{1,4}|toml|yaml|json|lock)\b|(?:^|\s)--?[a-z][\w-]+|(?:^|\s)#[a-z][\w-]+|\b[a-z]+_[a-z_]+\b").ok()
});

/// An address of mail, or a number of a telephone or of a bank account.
static CONTACT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"[\w.+-]+@[\w-]+\.[\w.]+|(?:^|\s)\+\d{1,3}[ \d/()-]{6,}\d|(?:^|\s)0\d{2,4}[ /-]\d[\d -]{5,}|\b[\d.]+ ?kg\b.*\blose\b|\b\d{5} \p{Lu}\p{L}+|\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}").ok()
});

fn has_contact(fact: &str) -> bool {
    CONTACT.as_ref().is_some_and(|pattern| pattern.is_match(fact))
}

/// Returns whose a fact is and what it is.
pub(crate) fn classify(fact: &str) -> FactClassification {
    let text = TokenizedText::tokenize(fact);
    let signs = TextFeatures::detect(fact, &text);
    let (whose, is_plain) = signs.owner();
    let topic = signs.topic(whose);
    let names_project = signs.has(TextFeature::NamesProject) && whose == FactOwner::Project;
    FactClassification {
        owner: whose,
        topic,
        is_explicit: is_plain,
        names_project,
        has_technical_terms: signs.has(TextFeature::TechnicalTerms),
    }
}

/// Tells whether a fact speaks of health, family, money or an address.
pub(crate) fn is_private(fact: &str) -> bool {
    TextFeatures::detect(fact, &TokenizedText::tokenize(fact)).has(TextFeature::IsPrivate)
}

fn names_this_project(text: &TokenizedText) -> bool {
    text.tokens.iter().enumerate().any(|(index, token)| {
        let before = &text.tokens[index.saturating_sub(3)..index];
        let pointed_at = before.iter().any(|one| one.is(Class::This));
        let is_one = token.is(Class::Site) && !token.is(Class::Everywhere);
        is_one && (pointed_at || token.word.chars().any(is_unspaced))
    })
}

fn mentions_here(text: &TokenizedText) -> bool {
    text.tokens.iter().any(|token| {
        let small =
            token.is(Class::Function) && !matches!(token.word.as_str(), "here" | "hier" | "ici");
        token.is(Class::Here) && !small
    })
}

/// Something that a text shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextFeature {
    /// It names this repository or project.
    NamesProject,
    /// It says that it holds in all projects.
    AllProjects,
    /// It says why, and how to apply it.
    HasReasons,
    /// It says `here`, or names the team.
    MentionsHere,
    FirstPerson,
    FirstPersonPlural,
    /// It speaks to the agent about how it answers.
    AddressesAgent,
    SecondPerson,
    /// It is about the person, in the third person.
    AboutUser,
    HasRule,
    BeginsAsRule,
    /// Its first word asks for something.
    Request,
    /// It has code, paths, options: things of the work.
    TechnicalTerms,
    /// It says where something is.
    IsPointer,
    /// It begins with what it speaks of.
    IsStatement,
    /// It speaks of health, family, money or an address.
    IsPrivate,
    /// It is in a language whose words are not listed.
    UnsupportedLanguage,
}

/// What a text shows.
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
        let of_user = text
            .lexicon_matches
            .iter()
            .any(|hit| hit.tokens.start == 0 && hit.classes.has(Class::User))
            || first.is_some_and(|first| first.is(Class::Prefer) && !first.is(Class::Oneself));
        let shown = [
            (TextFeature::NamesProject, names_this_project(text)),
            (TextFeature::AllProjects, text.has(Class::Everywhere)),
            (TextFeature::HasReasons, reasons_start(fact).is_some()),
            (TextFeature::MentionsHere, mentions_here(text)),
            (TextFeature::FirstPerson, text.has(Class::Oneself)),
            (TextFeature::FirstPersonPlural, text.has(Class::Us)),
            (TextFeature::AddressesAgent, speaks_to_agent(text, begins_as_rule)),
            (TextFeature::SecondPerson, text.has(Class::You)),
            (TextFeature::AboutUser, of_user),
            (TextFeature::HasRule, text.has(Class::Rule)),
            (TextFeature::BeginsAsRule, begins_as_rule),
            (
                TextFeature::Request,
                first.is_some_and(|one| one.is(Class::Rule) && !one.is(Class::Not)),
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
        Self(shown.into_iter().filter(|(_, is_shown)| *is_shown).map(|(sign, _)| sign).collect())
    }

    fn has(&self, sign: TextFeature) -> bool {
        self.0.contains(&sign)
    }

    /// Returns whose fact it is, and whether the text says so.
    fn owner(&self) -> (FactOwner, bool) {
        // Whatever else it speaks of: others read the repository.
        if self.has(TextFeature::IsPrivate) {
            return (FactOwner::User, true);
        }
        let for_person = self.has(TextFeature::AllProjects)
            || (self.has(TextFeature::FirstPerson)
                && (!self.has(TextFeature::FirstPersonPlural)
                    || self.has(TextFeature::AddressesAgent)))
            || self.has(TextFeature::AboutUser);
        if self.has(TextFeature::NamesProject)
            || (self.has(TextFeature::MentionsHere) && !self.has(TextFeature::FirstPerson))
        {
            (FactOwner::Project, true)
        } else if for_person {
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

    fn topic(&self, whose: FactOwner) -> MemoryTopic {
        let rule = match whose {
            FactOwner::User => {
                let of_others = !self.has(TextFeature::FirstPerson);
                self.has(TextFeature::AddressesAgent)
                    || self.has(TextFeature::Request)
                    || self.has(TextFeature::HasReasons)
                    || (self.has(TextFeature::AllProjects) && of_others)
                    || ((self.has(TextFeature::HasRule) || self.has(TextFeature::SecondPerson))
                        && of_others)
            }
            FactOwner::Project => self.has(TextFeature::BeginsAsRule),
        };
        match whose {
            _ if self.has(TextFeature::IsPointer) => MemoryTopic::Reference,
            _ if rule => MemoryTopic::Feedback,
            FactOwner::User => MemoryTopic::User,
            FactOwner::Project => MemoryTopic::Project,
        }
    }
}

/// Whether a text is about how an agent answers, and not about the answers of a program: the sentence speaks to
/// somebody or of somebody, or the text is a rule, or begins with neither article nor subject.
fn speaks_to_agent(text: &TokenizedText, begins_as_rule: bool) -> bool {
    let bare = text.tokens.first().is_some_and(|first| {
        [Class::Agent, Class::Light, Class::Prefer, Class::Not]
            .into_iter()
            .any(|class| first.is(class))
    });
    text.tokens.iter().enumerate().any(|(index, token)| {
        let before = index.checked_sub(1).map(|before| &text.tokens[before]);
        let of_a_program = before.is_some_and(|before| before.is_name || before.is_acronym);
        let is_personal = |one: &TextToken| {
            one.sentence == token.sentence && (one.is(Class::You) || one.is(Class::Oneself))
        };
        let personal = begins_as_rule || text.tokens.iter().any(is_personal);
        token.is(Class::Agent) && (personal || (bare && !of_a_program))
    })
}

/// Whether a word is what somebody did and no order: `we decided to use`.
fn is_infinitive(tokens: &[TextToken], at: usize) -> bool {
    at.checked_sub(1).is_some_and(|before| tokens[before].word == "to")
}

/// Whether the rule stands at the beginning of this clause: `when a test fails, don't …`.
fn begins_clause_as_rule(text: &TokenizedText, clause: usize) -> bool {
    let begins = text.tokens.iter().filter(|token| token.clause == clause).take(2);
    clause > 0 && begins.into_iter().any(|token| is_rule(text, token))
}

/// Tells whether a word makes a sentence a rule. What is no longer so is none: `nicht mehr um sechs`.
fn is_rule(text: &TokenizedText, token: &TextToken) -> bool {
    token.is(Class::Rule) && (!token.is(Class::Not) || !text.has(Class::Gone))
}

/// Whether a text says where something is to be found: a link that is no command, or a place where
/// knowledge is kept together with a word that says that it is there.
fn is_pointer(fact: &str, text: &TokenizedText) -> bool {
    let link = fact.contains("://") && !fact.contains('|') && !fact.contains("curl ");
    if link {
        return true;
    }
    let located = text.tokens.iter().enumerate().any(|(index, token)| {
        let reach = &text.tokens[index + 1..(index + 6).min(text.tokens.len())];
        let verb_last = token.word.chars().any(is_unspaced) || token.language.is_none();
        token.is(Class::Located)
            && (verb_last
                || reach.iter().any(|next| {
                    next.clause == token.clause && (next.is(Class::At) || next.is(Class::Place))
                }))
    });
    let place = text.tokens.iter().any(|token| token.is(Class::Place)) || names_location(text);
    let named =
        fact.chars().skip(1).any(char::is_uppercase) || fact.contains(['/', '「', '"', '\'']);
    place && (located || is_labelled(fact, text)) && named && text.tokens.len() <= POINTER_WORDS_MAX
}

/// Whether a few words and a colon stand before a name: `Write-ups: Confluence, space BAKE`.
fn is_labelled(fact: &str, text: &TokenizedText) -> bool {
    let label = text.tokens.iter().filter(|token| token.clause == 0);
    let (count, end) = label.fold((0, 0), |(count, _), token| (count + 1, token.range.end));
    let rest = fact.get(end..).and_then(|rest| rest.strip_prefix(": "));
    count <= LABEL_WORDS_MAX && rest.is_some_and(|rest| rest.starts_with(char::is_uppercase))
}

/// Whether a text says by what name the place goes where something is put down: `collected in YouTrack`.
fn names_location(text: &TokenizedText) -> bool {
    text.tokens.windows(3).any(|three| match three {
        [put, at, place] => {
            put.is(Class::Recorded) && at.is(Class::At) && place.is_name && !place.has_digit()
        }
        _ => false,
    })
}

/// Whether a text states something of a thing: it has words enough and does not begin with an order.
fn is_statement(fact: &str, text: &TokenizedText) -> bool {
    let Some(first) = text.tokens.first() else { return false };
    let article = first.is(Class::Function) && !first.is(Class::Oneself);
    let capital = fact.trim_start().starts_with(|c: char| c.is_uppercase() || !c.is_ascii());
    let names = text.tokens.iter().any(|token| token.is_name || token.has_digit());
    text.tokens.len() >= 3 && (article || capital || names)
}
