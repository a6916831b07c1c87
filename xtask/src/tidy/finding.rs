//! A finding of a check: its location, the problem and the remedy.

use std::fmt;

/// A violation of a rule of the repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TidyFinding {
    /// The file, from the root.
    pub(super) path: String,
    /// The line, counted from 1.
    line: Option<usize>,
    /// The name of the check, as the list of exceptions uses it.
    pub(super) check: &'static str,
    pub(super) wrong: String,
    /// The remedy.
    remedy: String,
}

impl TidyFinding {
    /// Returns a finding about a whole file.
    pub(crate) fn file(
        check: &'static str,
        path: &str,
        wrong: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            path: path.to_owned(),
            line: None,
            check,
            wrong: wrong.into(),
            remedy: remedy.into(),
        }
    }

    /// Returns the same finding about one line, given its index.
    pub(super) fn at(mut self, index: usize) -> Self {
        self.line = Some(index + 1);
        self
    }

    /// Returns the path, with the line if there is one.
    pub(super) fn place(&self) -> String {
        match self.line {
            Some(line) => format!("{}:{line}", self.path),
            None => self.path.clone(),
        }
    }
}

impl fmt::Display for TidyFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.place(), self.wrong, self.remedy)
    }
}

/// Returns findings as they are printed.
#[cfg(test)]
pub(super) fn printed(findings: &[TidyFinding]) -> Vec<String> {
    findings.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_shows_location_problem_and_remedy() {
        let finding = TidyFinding::file("names", "a/b.rs", "is long", "cut it");
        assert_eq!(finding.to_string(), "a/b.rs: is long; cut it");
        assert_eq!(finding.at(6).to_string(), "a/b.rs:7: is long; cut it");
    }
}
