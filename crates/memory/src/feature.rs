//! Features that a person can turn off, each on its own.
//!
//! A feature that is off is not listed, not announced and not shown to a model. Requests for it are refused with
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
    /// All features.
    Memory,
    /// The memory tool for agents, and memories as resources and prompts of MCP.
    Tool,
    /// Tasks: remember, forget, dream.
    Tasks,
    /// The index of memories in a model's context, and the notices of changes.
    ContextIndex,
    /// Facts in a model's context: all of a small store, some of a large store.
    HotSet,
    /// Recall: finding memories that match a prompt, on request or unasked.
    Recall,
    /// Context files, such as `AGENTS.md`, in a model's context.
    ContextFiles,
    /// Adding to a context file: the tool `save_memory` and its equivalents.
    SaveMemory,
    /// Background review of turns. Also needs an interval in the settings.
    Review,
    /// Review of the turns that a compaction is about to drop, if turns are reviewed.
    Harvest,
    /// Scheduled dreams. They also need a schedule in `[dream]`.
    ScheduledDreams,
    /// Calls of models and endpoints. They also have to be named in the settings.
    Models,
    /// Tasks in a child process, and tasks for clients of the Agent Client Protocol.
    Child,
    /// The web page, at `/ui`.
    Page,
    /// Project memories over SSH. Not in this version.
    Ssh,
}

impl Feature {
    /// Checks whether this version includes the feature.
    pub const fn is_built(self) -> bool {
        !matches!(self, Self::Ssh)
    }

    /// Returns a short description for people.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Memory => "everything below",
            Self::Tool => "the memory tool for agents",
            Self::Tasks => "remember, forget, dream",
            Self::ContextIndex => "the index of memories in the context of models",
            Self::HotSet => "facts in the context of models, all or the most important ones",
            Self::Recall => "finding memories that match a prompt",
            Self::ContextFiles => "context files such as AGENTS.md in the context of models",
            Self::SaveMemory => "adding to a context file",
            Self::Review => "review of turns in the background, if an interval is set",
            Self::Harvest => "review before a compaction, where turns are reviewed",
            Self::ScheduledDreams => "scheduled dreams, if `[dream]` has a schedule",
            Self::Models => "calls of models and endpoints, if the settings name any",
            Self::Child => "tasks in a child process, and for clients of the Agent Client Protocol",
            Self::Page => "the web page",
            Self::Ssh => "project memories over SSH",
        }
    }

    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// The set of features that are on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Features(u32);

impl Default for Features {
    /// Everything is on.
    fn default() -> Self {
        Self(u32::MAX)
    }
}

impl Features {
    /// Checks whether a feature is on. Without [`Feature::Memory`] none is.
    pub const fn has(self, feature: Feature) -> bool {
        let required = Feature::Memory.bit() | feature.bit();
        self.0 & required == required
    }

    /// Turns a feature on or off.
    pub const fn set(&mut self, feature: Feature, is_on: bool) {
        if is_on {
            self.0 |= feature.bit();
        } else {
            self.0 &= !feature.bit();
        }
    }

    /// Returns the features that are on in both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the set with one feature turned off.
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

/// Features to turn on or off, parsed from one line such as `-recall,+review`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureChanges(pub Vec<(Feature, bool)>);

/// An error in a line of [`FeatureChanges`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseFeatureChangesError {
    /// A part without a sign.
    #[error("`{0}` has no sign: `-{0}` turns a feature off, `+{0}` on")]
    NoSign(String),
    /// An unknown feature.
    #[error(transparent)]
    Unknown(#[from] UnknownFeature),
}

/// An unknown feature name, with a suggestion.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no feature `{name}`; did you mean `{nearest}`?")]
pub struct UnknownFeature {
    /// The name.
    pub name: String,
    /// The feature whose name is nearest.
    pub nearest: Feature,
}

/// Returns the feature with this name.
pub fn feature(name: &str) -> Result<Feature, UnknownFeature> {
    name.parse().map_err(|ParseWordError(name)| {
        let distance = |it: &Feature| strsim::damerau_levenshtein(it.as_ref(), &name);
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
    fn each_feature_is_switched_on_its_own() {
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
    fn a_line_of_changes_parses_or_names_its_error() {
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
