//! Screening: what may not become a memory.
//!
//! Every text that would be written passes here, whoever writes it, and again every text that would
//! be shown to a model. Three families of rules: secrets (keys, tokens, passwords), injection
//! (sentences meant for a model and not for a reader) and invisible characters (what a person who
//! reads the file cannot see). Pure, synchronous and linear in the text.
//!
//! A finding says which rule, where, and what the policy asks for. It never holds the text itself,
//! so it may be logged and shown. What happens next is up to the caller.

mod assignments;
mod catalog;
mod injection;
mod invisible;
mod multi_pattern;
mod normalize;
mod pattern;
mod plausible;
mod prose;
mod report;
mod scan;
mod secrets;
mod services;
mod tables;

#[cfg(test)]
mod tests;

use crate::document::Revision;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::Range;
use strum::{AsRefStr, Display, EnumString, IntoStaticStr, VariantArray};

use crate::text::slice;

pub use self::normalize::visual_equivalent;

/// The version of the code that judges what the rules find: whether a value is a secret, whether a quotation is a report.
/// It rises with each change of that code, so that no text stays clean by an older judgement.
const JUDGEMENT: u32 = 1;

/// What kind of harm a rule looks for.
#[derive(AsRefStr, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// Keys, tokens, passwords: text that gives access to something.
    Secrets,
    /// Orders to the model that reads the memory later, and characters that a person cannot see but it reads.
    Injection,
}

/// What is to be done about a finding.
#[derive(AsRefStr, Display, EnumString)]
#[strum(serialize_all = "snake_case")]
#[strum(parse_err_ty = UnknownPolicy, parse_err_fn = UnknownPolicy::of)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Policy {
    /// Nothing: the rule is not reported at all.
    Off,
    /// The text is written and whoever wrote it is told.
    Warn,
    /// The text is not written.
    Refuse,
}

/// A word that names no [`Policy`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a screening policy is `off`, `warn` or `refuse`, not `{word}`")]
pub struct UnknownPolicy {
    /// What was given.
    pub word: String,
}

impl UnknownPolicy {
    fn of(word: &str) -> Self {
        Self { word: word.to_owned() }
    }
}

/// A key that names neither a rule nor a [`Family`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is neither a screening rule nor a family of them")]
pub struct UnknownRule {
    /// What was given.
    pub name: String,
}

/// Who would write the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextAuthor {
    /// A model, or anything that acts for one.
    Agent,
    /// A person, at the command line or on the page.
    Person,
}

/// One thing that screening looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The stable id, `<family>.<name>`: what a refusal names and what settings speak of.
    pub id: &'static str,
    /// The family that it belongs to.
    pub family: Family,
    /// What it finds, for the reference: a phrase without a full stop.
    pub about: &'static str,
}

/// Returns every rule, family by family, in the order of the documentation.
pub fn rules() -> &'static [Rule] {
    catalog::rules()
}

/// Lets go of what was made ready for texts that were screened: whoever will not screen any for a while need not
/// keep it. It is made ready again when a text needs it.
pub fn drop_compiled_patterns() {
    catalog::Catalog::get().drop_compiled();
}

/// One place in a text that a rule objects to.
///
/// Holds positions only, never the text found there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScreenFinding {
    /// The id of the rule.
    pub rule: &'static str,
    /// The family of the rule.
    pub family: Family,
    /// The line on which it begins, counted from 1.
    pub line: usize,
    /// The bytes of the text: the value itself where a rule knows it, not the words around it.
    pub range: Range<usize>,
    /// What is to be done, never [`Policy::Off`].
    pub policy: Policy,
}

impl ScreenFinding {
    /// Returns what a person adds to the allowed values to let exactly this one pass: the SHA-256
    /// of the found bytes in hex.
    ///
    /// `text` is the text that was checked. Meant for settings, not for logs: the digest of a short
    /// password can be guessed.
    pub fn digest(&self, text: &str) -> String {
        digest(slice(text, self.range.clone()))
    }

    /// Tells whether it is about characters that a person cannot see.
    pub fn is_invisible(&self) -> bool {
        invisible::RULES.iter().any(|rule| rule.id == self.rule)
    }
}

/// The digest of a found value, as [`ScreenFinding::digest`] returns it, on its way to a person.
///
/// Not shown by `Debug`: what a short password hashes to does not belong into a log.
#[derive(Clone, PartialEq, Eq)]
pub struct ValueDigest(String);

impl ValueDigest {
    /// Returns the digest of what `finding` found in `text`, the text that was checked.
    pub fn new(finding: &ScreenFinding, text: &str) -> Self {
        Self(finding.digest(text))
    }

    /// Returns the SHA-256 in hex, as a person adds it to the allowed values.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ValueDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ValueDigest(…)")
    }
}

/// Checks texts against the rules under the policies that a person has chosen.
///
/// By default secrets are refused whoever writes; injection and invisible characters are refused
/// for agents, and a person is warned. A chosen policy holds for both kinds of writer.
#[derive(Clone, Default)]
pub struct Screen {
    policies: HashMap<&'static str, Policy>,
    allowed: BTreeSet<String>,
}

impl fmt::Debug for Screen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Digests are left out: those of short passwords can be guessed.
        let policies: BTreeMap<_, _> = self.policies.iter().collect();
        f.debug_struct("Screen")
            .field("policies", &policies)
            .field("allowed", &self.allowed.len())
            .finish()
    }
}

impl Screen {
    /// Takes a person's choices.
    ///
    /// A key of `policies` is the id of a rule or the word of a family; the rule's own entry wins.
    /// `allowed` holds SHA-256 digests in hex, either case, of values that a person has looked at
    /// and allowed ([`ScreenFinding::digest`]), so that one value passes while its rule stays on. An
    /// entry that is no such digest allows nothing.
    ///
    /// # Errors
    ///
    /// [`UnknownRule`] for a key that names neither: a misspelled key must not leave a rule as it was
    /// without anybody noticing.
    pub fn new(
        policies: &BTreeMap<String, Policy>,
        allowed: &[String],
    ) -> Result<Self, UnknownRule> {
        let mut chosen = HashMap::new();
        for (name, policy) in policies {
            chosen.insert(rule_or_family(name)?, *policy);
        }
        let allowed = allowed.iter().map(|digest| digest.to_ascii_lowercase()).collect();
        Ok(Self { policies: chosen, allowed })
    }

    /// Returns what tells these rules and choices from others: while it is the same, a text that was found
    /// clean is clean still.
    pub fn fingerprint(&self) -> Revision {
        let mut told = format!("{JUDGEMENT}\n{}", catalog::sources());
        let policies: BTreeMap<_, _> = self.policies.iter().collect();
        for (name, policy) in policies {
            told.extend([name, " ", policy.as_ref(), "\n"]);
        }
        self.allowed.iter().for_each(|digest| told.extend([digest, "\n"]));
        Revision::digest(told.as_bytes())
    }

    /// Returns what the rules object to in `text`, sorted by position.
    ///
    /// Rules with [`Policy::Off`] and allowed values are left out. Within the secrets, a rule that
    /// knows the provider silences the ones that only see an assignment around the same value.
    pub fn check(&self, text: &str, writer: TextAuthor) -> Vec<ScreenFinding> {
        let mut lines = LineCounter::new(text);
        scan::hits(text)
            .into_iter()
            .filter_map(|hit| {
                let policy = self.policy(&hit.rule, writer);
                let reported = policy != Policy::Off && !self.allows(text, &hit.range);
                reported.then(|| ScreenFinding {
                    rule: hit.rule.id,
                    family: hit.rule.family,
                    line: lines.number_at(hit.range.start),
                    range: hit.range,
                    policy,
                })
            })
            .collect()
    }

    /// Returns the findings of `after` that an edit brings in.
    ///
    /// Of each pair of rule and found text, only the occurrences beyond those of `before` are
    /// reported, the last ones. So what was accepted once does not block an unrelated edit, while a
    /// secret that two edits put together is found at the second.
    pub fn introduced(&self, before: &str, after: &str, writer: TextAuthor) -> Vec<ScreenFinding> {
        let found = self.check(after, writer);
        if found.is_empty() {
            return found;
        }
        let mut known: HashMap<(&str, &str), usize> = HashMap::new();
        for finding in self.check(before, writer) {
            let found_text = slice(before, finding.range.clone());
            *known.entry((finding.rule, found_text)).or_default() += 1;
        }
        found
            .into_iter()
            .filter(|finding| {
                let found_text = slice(after, finding.range.clone());
                match known.get_mut(&(finding.rule, found_text)) {
                    Some(count @ 1..) => {
                        *count -= 1;
                        false
                    }
                    Some(0) | None => true,
                }
            })
            .collect()
    }

    fn policy(&self, rule: &Rule, writer: TextAuthor) -> Policy {
        let chosen = self.policies.get(rule.id).or_else(|| self.policies.get(rule.family.as_ref()));
        chosen.copied().unwrap_or(match (rule.family, writer) {
            (Family::Secrets, _) | (_, TextAuthor::Agent) => Policy::Refuse,
            (Family::Injection, TextAuthor::Person) => Policy::Warn,
        })
    }

    fn allows(&self, text: &str, range: &Range<usize>) -> bool {
        !self.allowed.is_empty() && self.allowed.contains(&digest(slice(text, range.clone())))
    }
}

/// Returns the id of a rule, or the word of a family, that somebody wrote.
///
/// # Errors
///
/// [`UnknownRule`] when it is neither.
pub fn rule_or_family(name: &str) -> Result<&'static str, UnknownRule> {
    let families = Family::VARIANTS.iter().map(AsRef::as_ref);
    families
        .chain(rules().iter().map(|rule| rule.id))
        .find(|known| *known == name)
        .ok_or_else(|| UnknownRule { name: name.to_owned() })
}

/// Returns the SHA-256 of a text in hex; a revision is just that.
fn digest(text: &str) -> String {
    Revision::digest(text.as_bytes()).to_string()
}

/// Numbers positions of a text that are asked for in rising order, counting each line break once.
struct LineCounter<'t> {
    text: &'t str,
    position: usize,
    line: usize,
}

impl<'t> LineCounter<'t> {
    fn new(text: &'t str) -> Self {
        Self { text, position: 0, line: 1 }
    }

    fn number_at(&mut self, position: usize) -> usize {
        let passed = slice(self.text, self.position..position);
        self.line += passed.matches('\n').count();
        self.position = position;
        self.line
    }
}
