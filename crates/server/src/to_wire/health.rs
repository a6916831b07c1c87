//! Conversion of health checks and repairs to the wire.
//!
//! Two findings are added here, because they are advice for people and not errors: a scope that is nearly full, and
//! memories that are stale.

use engine::{Health, HealthFinding, Memories, MemoryEntry, RepairReport, RootHealth};
use memory::path::MemoryPath;
use protocol::health;

use super::time;

/// The fill level of a scope, in percent, from which it is reported as nearly full.
const NEARLY_FULL_PERCENT: usize = 90;

/// Converts a health check, with the stale memories as advice.
pub(crate) fn health(
    health: &Health,
    stale: &[MemoryEntry],
    memories: &Memories,
) -> health::MemoryHealth {
    let stale = stale.iter().map(|listed| health::HealthFinding {
        kind: "stale".to_owned(),
        scope: listed.path.mount().map(|of| of.word().to_owned()),
        subject: listed.path.to_string(),
        path: Some(listed.path.to_string()),
        detail: format!("was last changed or used on {:.10}", last(listed)),
        fixable: false,
    });
    let advice = health.advice.iter().map(|advice| finding(advice, memories));
    let full = health.roots.iter().filter_map(nearly_full);
    health::MemoryHealth {
        findings: health
            .findings
            .iter()
            .map(|found| finding(found, memories))
            .chain(full)
            .collect(),
        advice: advice.chain(stale).collect(),
    }
}

fn last(listed: &MemoryEntry) -> String {
    let used = listed.usage.last_used_at.unwrap_or(listed.modified_at);
    time(used.max(listed.modified_at))
}

fn nearly_full(root: &RootHealth) -> Option<health::HealthFinding> {
    let is_near = root.files * 100 >= root.files_max * NEARLY_FULL_PERCENT;
    (is_near && root.files <= root.files_max).then(|| health::HealthFinding {
        kind: "nearly-full".to_owned(),
        scope: Some(root.mount.word().to_owned()),
        subject: root.mount.word().to_owned(),
        path: None,
        detail: format!(
            "holds {} of {} memories; no new ones can be made when it is full: delete some, or raise `files_max`",
            root.files, root.files_max
        ),
        fixable: false,
    })
}

/// Converts the report of a repair.
pub(crate) fn repaired(repaired: &RepairReport, memories: &Memories) -> health::RepairResponse {
    let left = repaired.remaining.iter().map(|rest| finding(rest, memories)).collect();
    health::RepairResponse { done: repaired.actions.clone(), left }
}

fn finding(finding: &HealthFinding, memories: &Memories) -> health::HealthFinding {
    let path = MemoryPath::parse(&finding.subject, memories.layout()).ok();
    let path = path.filter(|path| path.relative().is_some());
    health::HealthFinding {
        kind: finding.kind.as_str().to_owned(),
        scope: finding.mount.map(|of| of.word().to_owned()),
        subject: finding.subject.clone(),
        path: path.map(|path| path.to_string()),
        detail: finding.detail.clone(),
        fixable: finding.fixable,
    }
}
