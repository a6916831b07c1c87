//! The exceptions of `xtask/tidy.toml`, and the recorded numbers of import cycles and of habits of prose.
//!
//! Each exception names a check, a file and a reason.

use std::collections::BTreeMap;

use anyhow::Context;
use serde::Deserialize;

use crate::tidy::finding::TidyFinding;

/// The path of the exceptions, from the root.
pub(super) const PATH: &str = "xtask/tidy.toml";

/// All exceptions.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Allowed {
    #[serde(default, rename = "allowed")]
    exceptions: Vec<Exception>,
    /// For a crate, the sizes of its import cycles.
    #[serde(default)]
    pub(super) circles: BTreeMap<String, Vec<usize>>,
    /// For a habit of prose, its number of places.
    #[serde(default, rename = "plain-words")]
    pub(super) plain_words: BTreeMap<String, usize>,
    #[serde(default, rename = "repeated-type")]
    pub(super) repeated_types: Vec<RepeatedType>,
}

/// A type name that may be defined more than twice in the workspace.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RepeatedType {
    pub(super) name: String,
    pub(super) reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    /// The name of the check.
    check: String,
    /// The file.
    path: String,
    /// A text that the finding must contain; every finding of the file if absent.
    about: Option<String>,
    reason: String,
}

impl Exception {
    fn covers(&self, finding: &TidyFinding) -> bool {
        self.check == finding.check
            && self.path == finding.path
            && self.about.as_ref().is_none_or(|about| finding.wrong.contains(about))
    }
}

impl Allowed {
    /// Parses the exceptions.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let parsed: Self = toml::from_str(text).with_context(|| format!("cannot parse {PATH}"))?;
        let exceptions = parsed.exceptions.iter().map(|each| (&each.path, &each.reason));
        let types = parsed.repeated_types.iter().map(|each| (&each.name, &each.reason));
        for (about, reason) in exceptions.chain(types) {
            let has_reason = !reason.trim().is_empty();
            anyhow::ensure!(has_reason, "{PATH}: an exception for {about} has no reason");
        }
        Ok(parsed)
    }

    /// Removes the allowed findings, and adds a finding for each exception that covers none.
    pub(super) fn filter(&self, findings: Vec<TidyFinding>) -> Vec<TidyFinding> {
        let idle = self
            .exceptions
            .iter()
            .filter(|exception| !findings.iter().any(|finding| exception.covers(finding)));
        let idle: Vec<TidyFinding> = idle
            .map(|exception| {
                let wrong = format!(
                    "nothing in {} needs the exception for `{}`",
                    exception.path, exception.check
                );
                TidyFinding::file("allowed", PATH, wrong, "remove it")
            })
            .collect();
        let is_left =
            |finding: &TidyFinding| !self.exceptions.iter().any(|each| each.covers(finding));
        findings.into_iter().filter(is_left).chain(idle).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::finding::printed;

    const EXCEPTION: &str = r#"
        [[allowed]]
        check = "type-names"
        path = "a.rs"
        about = "`ServerInfo`"
        reason = "named by the protocol"
    "#;

    fn finding(check: &'static str, path: &str, about: &str) -> TidyFinding {
        TidyFinding::file(check, path, format!("`{about}` is vague"), "rename it")
    }

    #[test]
    fn an_exception_covers_its_check_its_file_and_its_word() {
        let allowed = Allowed::parse(EXCEPTION).unwrap();
        let left = allowed.filter(vec![
            finding("type-names", "a.rs", "ServerInfo"),
            finding("type-names", "a.rs", "OtherInfo"),
            finding("type-names", "b.rs", "ServerInfo"),
            finding("sizes", "a.rs", "ServerInfo"),
        ]);
        assert_eq!(
            printed(&left),
            [
                "a.rs: `OtherInfo` is vague; rename it",
                "b.rs: `ServerInfo` is vague; rename it",
                "a.rs: `ServerInfo` is vague; rename it",
            ]
        );
    }

    #[test]
    fn an_unneeded_exception_is_a_finding() {
        let left = Allowed::parse(EXCEPTION).unwrap().filter(Vec::new());
        assert_eq!(
            printed(&left),
            ["xtask/tidy.toml: nothing in a.rs needs the exception for `type-names`; remove it"]
        );
    }

    #[test]
    fn an_exception_needs_a_reason() {
        let check = |text: &str| Allowed::parse(text).unwrap_err().to_string();
        let without = EXCEPTION.replace("named by the protocol", " ");
        assert_eq!(check(&without), "xtask/tidy.toml: an exception for a.rs has no reason");
        assert_eq!(check("[[allowed]]\npath = \"a.rs\"\n"), "cannot parse xtask/tidy.toml");
    }
}
