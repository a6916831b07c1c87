//! What a conversation was given at the beginning of a segment, and how that is written down.
//!
//! The bytes are kept as they are, so that a conversation that goes on in another process is given the same.

use std::sync::Arc;

use context::segment::{Kind, Part, Segment, Told};
use memory::clock::Timestamp;
use memory::path::{Layout, MemoryPath};
use serde::{Deserialize, Serialize};
use state::SegmentRow;

/// What was given and what was told since.
#[derive(Clone, Debug)]
pub(super) struct Given {
    /// Of which segment.
    pub(super) of: u64,
    /// How often it was written.
    pub(super) version: u64,
    /// What was given.
    pub(super) segment: Arc<Segment>,
    /// What is known by that, and by what was told since, of which memories there are.
    pub(super) told: Told,
}

#[derive(Serialize, Deserialize)]
struct Written {
    parts: Vec<(String, String)>,
    /// Path, bytes, nanoseconds since 1970.
    told: Vec<(String, u64, i64)>,
}

impl Given {
    /// Returns what stands in the data of a row.
    pub(super) fn data(&self) -> String {
        let parts = self.segment.parts().iter();
        let told = self.told.memories().map(|(path, bytes, modified_at)| {
            let nanoseconds = i64::try_from(modified_at.as_nanosecond()).unwrap_or_default();
            (path.to_string(), bytes, nanoseconds)
        });
        let written = Written {
            parts: parts.map(|part| (part.kind.as_str().to_owned(), part.text.clone())).collect(),
            told: told.collect(),
        };
        serde_json::to_string(&written).unwrap_or_default()
    }

    /// Reads a row; what cannot be read is as good as nothing.
    pub(super) fn read(row: &SegmentRow, layout: Layout) -> Option<Self> {
        let Written { parts, told } = serde_json::from_str(&row.data)
            .inspect_err(|error| {
                let id = &row.conversation;
                tracing::warn!(conversation = id, %error, "what was given cannot be read");
            })
            .ok()?;
        let part = |(kind, text): (String, String)| Part::new(Kind::named(&kind)?, text);
        // What cannot be named any more is told as new.
        let told = told.into_iter().filter_map(|(path, bytes, nanoseconds)| {
            let path = MemoryPath::parse(&path, layout).ok()?;
            Some((path, bytes, Timestamp::from_nanosecond(nanoseconds.into()).ok()?))
        });
        Some(Self {
            of: row.segment,
            version: row.version,
            segment: Arc::new(Segment::of(parts.into_iter().map(part).collect::<Option<_>>()?)),
            told: Told::again(told),
        })
    }
}
