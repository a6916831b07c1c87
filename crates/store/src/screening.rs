//! The findings of screening in a new text: which refuse it, and which only warn.

use memory::command::{CommandError, Warning};
use memory::screen::{Policy, ScreenFinding, ValueDigest};

/// Adds to each finding the digest of the matched value.
pub(crate) fn with_digests(
    text: &str,
    findings: Vec<ScreenFinding>,
) -> Vec<(ScreenFinding, ValueDigest)> {
    let digest = |found: ScreenFinding| {
        let digest = ValueDigest::new(&found, text);
        (found, digest)
    };
    findings.into_iter().map(digest).collect()
}

/// Refuses the text if any finding refuses it; otherwise returns all findings as warnings. A finding whose rule or
/// family is in `allowed` only warns.
pub(crate) fn refuse_or_warn(
    findings: &[(ScreenFinding, ValueDigest)],
    allowed: &[&str],
) -> Result<Vec<Warning>, CommandError> {
    let refuses = |found: &ScreenFinding| {
        found.policy == Policy::Refuse
            && ![found.rule, found.family.as_ref()].iter().any(|name| allowed.contains(name))
    };
    if let Some((found, digest)) = findings.iter().find(|(found, _)| refuses(found)) {
        return Err(CommandError::Screened {
            family: found.family.into(),
            rule: found.rule,
            line: found.line,
            digest: digest.clone(),
        });
    }
    let warning = |(found, _): &(ScreenFinding, _)| Warning { rule: found.rule, line: found.line };
    Ok(findings.iter().map(warning).collect())
}
