//! Screening: checks texts for secrets and injected instructions, before a write and before a model is shown them.
//!
//! Rules look for secrets (keys, tokens, passwords), injection (sentences that instruct the model) and invisible
//! characters (which a person who reads the file cannot see). A check is pure, synchronous and linear in the text. It
//! applies to the texts of all writers.
//!
//! A finding names the rule, the position and the policy. It never contains the text itself, so it may be logged and
//! shown. The caller acts on it.

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

/// The version of the code that judges matches: whether a value is a secret, whether a quotation is a report. It must
/// be increased with each change of that code, so that cached results of an older version are not used.
const JUDGEMENT: u32 = 1;

/// The kind of harm that a rule looks for.
#[derive(AsRefStr, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// Credentials: keys, tokens, passwords.
    Secrets,
    /// Instructions to a model that reads the memory later, and characters that only a model can see.
    Injection,
}

/// The policy for a rule: the action for its findings.
#[derive(AsRefStr, Display, EnumString)]
#[strum(serialize_all = "snake_case")]
#[strum(parse_err_ty = UnknownPolicy, parse_err_fn = UnknownPolicy::of)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Policy {
    /// The rule is switched off, without findings.
    Off,
    /// The text is written, and the writer gets a warning.
    Warn,
    /// The text is not written.
    Refuse,
}

/// An error: a word is not a [`Policy`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown screening policy `{word}`: expected `off`, `warn` or `refuse`")]
pub struct UnknownPolicy {
    /// The word.
    pub word: String,
}

impl UnknownPolicy {
    fn of(word: &str) -> Self {
        Self { word: word.to_owned() }
    }
}

/// An error: a name is neither a rule nor a [`Family`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown screening rule `{name}`: expected the id of a rule, or a family")]
pub struct UnknownRule {
    /// The name.
    pub name: String,
}

/// The kind of writer of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextAuthor {
    /// A model, or anything that acts for one.
    Agent,
    /// A person, at the command line or on the page.
    Person,
}

/// A screening rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The stable id, `<family>.<name>`, as used in refusals and settings.
    pub id: &'static str,
    /// The family of the rule.
    pub family: Family,
    /// A description for the reference: a phrase without a full stop.
    pub about: &'static str,
}

/// Returns every rule, family by family, in the order of the documentation.
pub fn rules() -> &'static [Rule] {
    catalog::rules()
}

/// Drops the compiled patterns, to save memory while no text is screened. A pattern is compiled again when it is
/// needed.
pub fn drop_compiled_patterns() {
    catalog::Catalog::get().drop_compiled();
}

/// A match of a rule in a text.
///
/// It holds only positions, never the matched text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScreenFinding {
    /// The id of the rule.
    pub rule: &'static str,
    /// The family of the rule.
    pub family: Family,
    /// The line where the match begins, counted from 1.
    pub line: usize,
    /// The matched bytes: only the value, if the rule can separate it from the words around it.
    pub range: Range<usize>,
    /// The policy for the finding, never [`Policy::Off`].
    pub policy: Policy,
}

impl ScreenFinding {
    /// Returns the SHA-256 digest of the matched bytes in hex. A person adds it to the allowed values to let this value
    /// pass.
    ///
    /// `text` is the text that was checked. The digest is for settings, not for logs: a short password can be guessed
    /// from it.
    pub fn digest(&self, text: &str) -> String {
        digest(slice(text, self.range.clone()))
    }

    /// Checks whether the finding is about invisible characters.
    pub fn is_invisible(&self) -> bool {
        invisible::RULES.iter().any(|rule| rule.id == self.rule)
    }
}

/// The digest of a matched value, as [`ScreenFinding::digest`] returns it.
///
/// `Debug` does not show it, because a short password can be guessed from its digest in a log.
#[derive(Clone, PartialEq, Eq)]
pub struct ValueDigest(String);

impl ValueDigest {
    /// Returns the digest of the value of `finding` in `text`, the text that was checked.
    pub fn new(finding: &ScreenFinding, text: &str) -> Self {
        Self(finding.digest(text))
    }

    /// Returns the SHA-256 digest in hex, as it is used in the allowed values.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ValueDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ValueDigest(…)")
    }
}

/// The screening of texts, with the policies and allowed values that a person has chosen.
///
/// By default secrets are refused for all writers. Injection and invisible characters are refused for agents; a person
/// only gets a warning. A chosen policy applies to both kinds of writer.
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
    /// Creates a screening with a person's choices.
    ///
    /// A key of `policies` is the id of a rule or the name of a family; the entry of a rule takes precedence. `allowed`
    /// holds SHA-256 digests in hex, in either case, of single values that pass ([`ScreenFinding::digest`]). An entry
    /// that is not a digest has no effect.
    ///
    /// # Errors
    ///
    /// [`UnknownRule`] for a key that is neither: a misspelled key must not be ignored silently.
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

    /// Returns a digest of the rules and choices: while it is the same, a clean text stays clean, so results can be
    /// cached.
    pub fn fingerprint(&self) -> Revision {
        let mut source = format!("{JUDGEMENT}\n{}", catalog::sources());
        let policies: BTreeMap<_, _> = self.policies.iter().collect();
        for (name, policy) in policies {
            source.extend([name, " ", policy.as_ref(), "\n"]);
        }
        self.allowed.iter().for_each(|digest| source.extend([digest, "\n"]));
        Revision::digest(source.as_bytes())
    }

    /// Returns the findings in `text`, sorted by position.
    ///
    /// Rules with [`Policy::Off`] and allowed values are left out. Among secrets, the rule of a provider takes
    /// precedence over rules that only see an assignment of the same value.
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

    /// Returns the findings of `after` that an edit of `before` adds.
    ///
    /// For each pair of rule and matched text, only the last occurrences beyond the number in `before` are reported. So
    /// a text that was accepted once does not block an unrelated edit, and a secret that is completed by a second edit
    /// is found then.
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

/// Parses the id of a rule or the name of a family.
///
/// # Errors
///
/// [`UnknownRule`] if it is neither.
pub fn rule_or_family(name: &str) -> Result<&'static str, UnknownRule> {
    let families = Family::VARIANTS.iter().map(AsRef::as_ref);
    families
        .chain(rules().iter().map(|rule| rule.id))
        .find(|known| *known == name)
        .ok_or_else(|| UnknownRule { name: name.to_owned() })
}

/// Returns the SHA-256 digest of a text in hex, which is also the form of a revision.
fn digest(text: &str) -> String {
    Revision::digest(text.as_bytes()).to_string()
}

/// Converts ascending offsets of a text to line numbers, in one pass over the text.
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
