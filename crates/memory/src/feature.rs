//! Switches: what a person may turn off, each on its own.
//!
//! What is off leaves no trace: it is not listed, not announced, not shown to a model, and asking for it is refused with
//! `feature_disabled`.

use std::fmt;

use std::str::FromStr;

use strum::VariantArray as _;

use crate::change::ParseWordError;

/// A capability that can be turned off.
#[derive(strum::AsRefStr, strum::Display, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[strum(parse_err_ty = ParseWordError, parse_err_fn = ParseWordError::of)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Feature {
    /// Everything.
    Memory,
    /// The memory tool for agents, and memories as resources and prompts of MCP.
    Tool,
    /// Tasks: remember, forget, dream.
    Tasks,
    /// The index of memories in what a model is shown, and the news of what changed.
    ContextIndex,
    /// The hot set in what a model is shown: pinned and much used memories, whole.
    HotSet,
    /// Recall: finding what fits a prompt, asked or unasked.
    Recall,
    /// Context files, such as `AGENTS.md`, in what a model is shown.
    ContextFiles,
    /// Adding to a context file: the tool `save_memory` and what does the same elsewhere.
    SaveMemory,
    /// Background review of turns. An interval also has to be set.
    Review,
    /// Review of what is about to be lost by a compaction, where turns are reviewed.
    Harvest,
    /// Dreams that nobody asked for. They also have to be scheduled in `[dream]`.
    ScheduledDreams,
    /// Models and endpoints that are asked. They also have to be named in the settings.
    Models,
    /// Tasks in a child process, and tasks for clients of the Agent Client Protocol.
    Child,
    /// The page for people, at `/ui`.
    Page,
    /// Project memories over SSH. Not in this version.
    Ssh,
}

impl Feature {
    /// Tells whether this version has it.
    pub const fn is_built(self) -> bool {
        !matches!(self, Self::Ssh)
    }

    /// Returns what it is, in some words for people.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Memory => "everything below",
            Self::Tool => "the memory tool for agents",
            Self::Tasks => "remember, forget, dream",
            Self::ContextIndex => "the index of memories that models are shown",
            Self::HotSet => "pinned and much used memories that models are shown whole",
            Self::Recall => "finding what fits a prompt",
            Self::ContextFiles => "context files such as AGENTS.md that models are shown",
            Self::SaveMemory => "adding to a context file",
            Self::Review => "review of turns in the background, if an interval is set",
            Self::Harvest => "review before a compaction, where turns are reviewed",
            Self::ScheduledDreams => "dreams that nobody asked for, if `[dream]` schedules them",
            Self::Models => "models and endpoints that are asked, if the settings name any",
            Self::Child => "tasks in a child process, and for clients of the Agent Client Protocol",
            Self::Page => "the page for people",
            Self::Ssh => "project memories over SSH",
        }
    }

    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// Which features are on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Features(u32);

impl Default for Features {
    /// Everything is on.
    fn default() -> Self {
        Self(u32::MAX)
    }
}

impl Features {
    /// Tells whether a feature is on. Without memory none is.
    pub const fn has(self, feature: Feature) -> bool {
        let wanted = Feature::Memory.bit() | feature.bit();
        self.0 & wanted == wanted
    }

    /// Turns a feature on or off.
    pub const fn set(&mut self, feature: Feature, is_on: bool) {
        if is_on {
            self.0 |= feature.bit();
        } else {
            self.0 &= !feature.bit();
        }
    }

    /// Returns what is on in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the same without a feature.
    #[must_use]
    pub const fn without(mut self, feature: Feature) -> Self {
        self.set(feature, false);
        self
    }
}

impl fmt::Debug for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let off = Feature::VARIANTS.iter().filter(|feature| !self.has(**feature));
        f.debug_struct("Features").field("off", &off.collect::<Vec<_>>()).finish()
    }
}

/// Changes of switches in one line, such as `-recall,+review`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureChanges(pub Vec<(Feature, bool)>);

/// A line that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseFeatureChangesError {
    /// A part without a sign.
    #[error("`{0}` has no sign: `-{0}` turns a feature off, `+{0}` on")]
    NoSign(String),
    /// A name that no feature has.
    #[error(transparent)]
    Unknown(#[from] UnknownFeature),
}

/// A name that no feature has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no feature `{name}`; did you mean `{nearest}`?")]
pub struct UnknownFeature {
    /// The name.
    pub name: String,
    /// The feature whose name is nearest.
    pub nearest: Feature,
}

/// Returns the feature of this name.
pub fn feature(name: &str) -> Result<Feature, UnknownFeature> {
    name.parse().map_err(|ParseWordError(name)| {
        let distance = |one: &Feature| strsim::damerau_levenshtein(one.as_ref(), &name);
        let nearest =
            Feature::VARIANTS.iter().copied().min_by_key(distance).expect("there are features");
        UnknownFeature { name, nearest }
    })
}

impl FromStr for FeatureChanges {
    type Err = ParseFeatureChangesError;

    fn from_str(text: &str) -> Result<Self, ParseFeatureChangesError> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let read = |part: &str| {
            let off = part.strip_prefix('-').map(|name| (name, false));
            let (name, is_on) = off
                .or_else(|| part.strip_prefix('+').map(|name| (name, true)))
                .ok_or_else(|| ParseFeatureChangesError::NoSign(part.to_owned()))?;
            Ok((feature(name.trim())?, is_on))
        };
        Ok(Self(parts.map(read).collect::<Result<_, ParseFeatureChangesError>>()?))
    }
}

#[cfg(test)]
mod tests {
    use strum::VariantArray as _;

    use super::*;

    #[test]
    fn without_memory_nothing_is_on() {
        let mut features = Features::default();
        assert!(Feature::VARIANTS.iter().all(|feature| features.has(*feature)));
        features.set(Feature::Memory, false);
        assert!(!Feature::VARIANTS.iter().any(|feature| features.has(*feature)));
    }

    #[test]
    fn each_switch_is_its_own() {
        for &off in Feature::VARIANTS.iter().filter(|feature| **feature != Feature::Memory) {
            let features = Features::default().without(off);
            for &feature in Feature::VARIANTS {
                assert_eq!(features.has(feature), feature != off, "{off} {feature}");
            }
        }
        let both = Features::default().without(Feature::Tool);
        let both = both.and(Features::default().without(Feature::Page));
        assert!(!both.has(Feature::Tool) && !both.has(Feature::Page) && both.has(Feature::Recall));
    }

    #[test]
    fn a_line_of_changes_is_read_or_its_mistake_is_named() {
        let read = |text: &str| text.parse::<FeatureChanges>().map(|changes| changes.0);
        assert_eq!(read(""), Ok(vec![]));
        let expected = vec![(Feature::Recall, false), (Feature::Page, true)];
        assert_eq!(read(" -recall , + page,"), Ok(expected));
        let wrong = |text: &str| read(text).unwrap_err().to_string();
        assert_eq!(
            wrong("recall"),
            "`recall` has no sign: `-recall` turns a feature off, `+recall` on"
        );
        assert_eq!(wrong("-hotset"), "there is no feature `hotset`; did you mean `hot_set`?");
    }
}
