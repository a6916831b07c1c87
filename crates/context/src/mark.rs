//! Marks of memories that were not reviewed on this host.

/// The reason that a memory is marked.
#[derive(strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The memory came with a repository.
    #[strum(serialize = "repository")]
    FromRepository,
    /// An agent wrote it after it had read unreviewed text.
    Influenced,
}

impl Mark {
    /// Returns the suffix of the memory's line in the index.
    pub(crate) const fn in_index(self) -> &'static str {
        match self {
            Self::FromRepository => " [from the repository]",
            Self::Influenced => " [not reviewed]",
        }
    }

    /// Returns the line that is shown before the memory's text.
    pub const fn before_text(self) -> &'static str {
        match self {
            Self::FromRepository => "[came with the repository; not reviewed here]",
            Self::Influenced => {
                "[an agent wrote this after it had read text that was not reviewed here]"
            }
        }
    }
}
