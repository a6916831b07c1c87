//! Review: a conversation, and the statements in it that are worth keeping.
//!
//! The types are the same for a reviewer by rules and for one by a model. What is found is not stored here:
//! the caller screens it, compares it with the memories and records it.

use std::fmt;
use std::str::FromStr;

use memory::change::UnknownWord;

/// Declares a closed set of words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// Returns the public word.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownWord;

            fn from_str(word: &str) -> Result<Self, UnknownWord> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(UnknownWord(word.to_owned())),
                }
            }
        }
    };
}

words! {
    /// The author of a message.
    Role {
        /// The person.
        User = "user",
        /// The agent.
        Assistant = "assistant",
        /// A tool that the agent called.
        Tool = "tool",
    }
}

words! {
    /// The subject of a finding, which decides where it is kept.
    Target {
        /// The person, in every project.
        User = "user",
        /// The project at work.
        Memory = "memory",
    }
}

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The name by which evidence points at it.
    pub id: String,
    /// Its author.
    pub role: Role,
    /// What was said, as it was said.
    pub text: String,
}

/// A statement worth keeping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where it is kept.
    pub target: Target,
    /// The statement, which stands alone.
    pub text: String,
    /// The ids of the messages in which the person says so.
    pub evidence: Vec<String>,
}

/// The most findings of one review.
pub const FINDINGS_MAX: usize = 5;
