//! Where a fact belongs: in which scope, and as what.
//!
//! Who speaks of whom decides. What names this repository, or what a team says of its work, is the
//! project's. What a person says of themselves, or how an agent is to answer, is the person's wherever
//! they are. A plain statement about things is the project's; what gives no sign at all is kept for the
//! person, where it is never in the way of others.

use std::sync::LazyLock;

use regex::Regex;

use super::lexicon::Class;
use super::words::{Text, is_unspaced};
use crate::request::Topic;

/// Whose fact it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The person's, in all projects.
    Person,
    /// The project's.
    Project,
}

/// What is told about a fact, and how plainly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) whose: Whose,
    pub(crate) topic: Topic,
    /// Whether the text says whose it is, rather than leaving it open.
    pub(crate) is_plain: bool,
    /// Whether somebody speaks of themselves.
    pub(crate) of_self: bool,
}

/// The most words of a text that only says where something is.
const POINTER_WORDS_MAX: usize = 40;

/// Code, commands, paths, file names, options, channels: things of the work.
static THINGS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"`[^`]+`|(?:^|\s)(?:\.{0,2}/)?[\w.-]+/[\w./*-]+|\b[\w-]+\.(?:[a-z]{1,4}|toml|yaml|json|lock)\b|(?:^|\s)--?[a-z][\w-]+|(?:^|\s)#[a-z][\w-]+|\b[a-z]+_[a-z_]+\b").ok()
});

/// Returns whose a fact is and what it is.
pub(crate) fn kind(fact: &str) -> Kind {
    let text = Text::read(fact);
    let signs = Signs::of(fact, &text);
    let (whose, is_plain) = signs.whose();
    let topic = match whose {
        Whose::Person if signs.is_pointer => Topic::Reference,
        Whose::Person if signs.to_agent || (signs.is_rule && !signs.speaks_of_self) => Topic::Feedback,
        Whose::Person => Topic::User,
        Whose::Project if signs.is_pointer => Topic::Reference,
        Whose::Project if signs.is_rule && signs.begins_as_rule => Topic::Feedback,
        Whose::Project => Topic::Project,
    };
    Kind { whose, topic, is_plain, of_self: signs.speaks_of_self || signs.of_user }
}

/// What a text shows.
struct Signs {
    /// Names this repository or project.
    site: bool,
    /// Says `here`, or names the team.
    here: bool,
    speaks_of_self: bool,
    of_us: bool,
    /// Speaks to the agent about how it works.
    to_agent: bool,
    to_you: bool,
    /// Is about the person in the third person.
    of_user: bool,
    is_rule: bool,
    begins_as_rule: bool,
    has_things: bool,
    /// Says where something is.
    is_pointer: bool,
    /// Names somebody or something in the third person, or begins with what it speaks of.
    is_statement: bool,
}

impl Signs {
    fn of(fact: &str, text: &Text) -> Self {
        let tokens = &text.tokens;
        let has = |class: Class| text.has(class);
        let site = tokens.iter().enumerate().any(|(index, token)| {
            let before = &tokens[index.saturating_sub(3)..index];
            token.is(Class::Site) && (before.iter().any(|one| one.is(Class::This)) || token.word.chars().any(is_unspaced))
        });
        let here = tokens.iter().any(|token| token.is(Class::Here) && !token.is(Class::Function))
            || tokens.iter().any(|token| token.word == "here" || token.word == "hier" || token.word == "ici");
        let first_sentence = tokens.iter().take_while(|token| token.sentence == tokens[0].sentence);
        let begins_as_rule = tokens.iter().take(4).any(|token| token.is(Class::Rule))
            || first_sentence.clone().any(|token| token.is(Class::Rule) && after_comma(text, token.clause));
        let first = tokens.first();
        let of_user = text.hits.iter().any(|hit| hit.tokens.start == 0 && hit.classes.has(Class::User))
            || first.is_some_and(|first| first.is(Class::Prefer) && !first.is(Class::Oneself));
        Self {
            site,
            here,
            speaks_of_self: has(Class::Oneself),
            of_us: has(Class::Us),
            to_agent: speaks_to_agent(text, begins_as_rule),
            to_you: has(Class::You),
            of_user,
            is_rule: has(Class::Rule),
            begins_as_rule,
            has_things: THINGS.as_ref().is_some_and(|pattern| pattern.is_match(fact)),
            is_pointer: is_pointer(fact, text),
            is_statement: is_statement(fact, text),
        }
    }

    fn whose(&self) -> (Whose, bool) {
        if self.site || (self.here && !self.speaks_of_self) {
            (Whose::Project, true)
        } else if self.speaks_of_self && !(self.of_us && !self.to_agent) {
            (Whose::Person, true)
        } else if self.of_user {
            (Whose::Person, true)
        } else if self.of_us {
            (Whose::Project, true)
        } else if self.to_agent && !self.is_pointer {
            (Whose::Person, true)
        } else if self.has_things || self.is_pointer {
            (Whose::Project, false)
        } else if self.to_you || (self.is_rule && self.begins_as_rule) {
            (Whose::Person, false)
        } else if self.is_statement {
            (Whose::Project, false)
        } else {
            (Whose::Person, false)
        }
    }
}

/// Whether a text is about how an agent answers, and not about the answers of a program: it speaks to
/// somebody or of somebody, is a rule, or begins with neither article nor subject.
fn speaks_to_agent(text: &Text, begins_as_rule: bool) -> bool {
    let personal = text.has(Class::You) || text.has(Class::Oneself) || begins_as_rule;
    let bare = text.tokens.first().is_some_and(|first| {
        [Class::Agent, Class::Light, Class::Prefer, Class::Not].into_iter().any(|class| first.is(class))
    });
    text.tokens.iter().enumerate().any(|(index, token)| {
        let before = index.checked_sub(1).map(|before| &text.tokens[before]);
        let of_a_program = before.is_some_and(|before| before.is_name || before.is_acronym);
        token.is(Class::Agent) && (personal || (bare && !of_a_program))
    })
}

/// Whether the rule stands at the beginning of this clause: `when a test fails, don't …`.
fn after_comma(text: &Text, clause: usize) -> bool {
    let begins = text.tokens.iter().filter(|token| token.clause == clause).take(2);
    clause > 0 && begins.into_iter().any(|token| token.is(Class::Rule))
}

/// Whether a text says where something is to be found: a link that is no command, or a place where
/// knowledge is kept together with a word that says that it is there.
fn is_pointer(fact: &str, text: &Text) -> bool {
    let link = fact.contains("://") && !fact.contains('|') && !fact.contains("curl ");
    if link {
        return true;
    }
    let located = text.tokens.iter().enumerate().any(|(index, token)| {
        let reach = &text.tokens[index + 1..(index + 6).min(text.tokens.len())];
        let verb_last = token.word.chars().any(is_unspaced) || token.language.is_none();
        token.is(Class::Located)
            && (verb_last || reach.iter().any(|next| {
                next.clause == token.clause && (next.is(Class::At) || next.is(Class::Place))
            }))
    });
    let place = text.tokens.iter().any(|token| token.is(Class::Place));
    let named = fact.chars().skip(1).any(char::is_uppercase) || fact.contains(['/', '「', '"', '\'']);
    place && located && named && text.tokens.len() <= POINTER_WORDS_MAX
}

/// Whether a text states something of a thing: it has words enough and does not begin with an order.
fn is_statement(fact: &str, text: &Text) -> bool {
    let Some(first) = text.tokens.first() else { return false };
    let article = first.is(Class::Function) && !first.is(Class::Oneself);
    let capital = fact.trim_start().starts_with(|c: char| c.is_uppercase() || !c.is_ascii());
    let names = text.tokens.iter().any(|token| token.is_name || token.has_digit());
    text.tokens.len() >= 3 && (article || capital || names)
}
