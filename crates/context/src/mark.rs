//! The marks of memories that nobody here reviewed.

/// Why a memory is marked.
#[derive(strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It came with a repository.
    #[strum(serialize = "repository")]
    FromRepository,
    /// An agent wrote it after it had read text that nobody here reviewed.
    Influenced,
}

impl Mark {
    /// Returns what stands behind its line of the index.
    pub(crate) const fn in_index(self) -> &'static str {
        match self {
            Self::FromRepository => " [from the repository]",
            Self::Influenced => " [not reviewed]",
        }
    }

    /// Returns the line before its text.
    pub const fn before_text(self) -> &'static str {
        match self {
            Self::FromRepository => "[came with the repository; nobody here reviewed it]",
            Self::Influenced => {
                "[an agent wrote this after it had read text that nobody here reviewed]"
            }
        }
    }
}
