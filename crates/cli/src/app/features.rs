//! The features in settings and environment, and the origin of each feature's state.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use engine::Config;
use memory::feature::{Feature, FeatureChanges, Features};

use crate::exit::Failure;

/// The environment variable that turns features on and off.
pub(crate) const VARIABLE: &str = "LUKASA_FEATURES";

/// The origin of a feature's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FeatureSource {
    Default,
    /// A line of the settings file.
    Settings(PathBuf, usize),
    Environment,
}

/// A feature in the settings, with its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FeatureSetting {
    pub(crate) feature: Feature,
    pub(crate) is_on: bool,
    pub(crate) line: usize,
}

/// The features in the settings: for all workspaces, and by workspace id.
pub(crate) type NamedFeatures = (Vec<FeatureSetting>, BTreeMap<String, Vec<FeatureSetting>>);

/// The features in settings and environment.
#[derive(Clone, Debug, Default)]
pub(crate) struct FeatureConfig {
    settings_file: PathBuf,
    settings: Vec<FeatureSetting>,
    /// The features that are off in single workspaces, by workspace id.
    workspaces: BTreeMap<String, Vec<FeatureSetting>>,
    environment: Vec<(Feature, bool)>,
}

impl FeatureConfig {
    /// Combines the features in the settings with those in the environment variable.
    pub(crate) fn new(
        settings_file: PathBuf,
        (settings, workspaces): NamedFeatures,
        variable: Option<String>,
    ) -> Result<Self, Failure> {
        let environment = match variable.map(|text| text.parse::<FeatureChanges>()).transpose() {
            Ok(changes) => changes.unwrap_or_default().0,
            Err(error) => {
                return Err(Failure::usage(format!("{VARIABLE}: {error}")).help(
                    "`lukasa features` lists the features; example: `LUKASA_FEATURES=-recall,+page`",
                ));
            }
        };
        Ok(Self { settings_file, settings, workspaces, environment })
    }

    /// Returns the path of the settings file, which may not exist.
    pub(crate) fn settings_file(&self) -> &Path {
        &self.settings_file
    }

    /// Returns the state of a feature in the environment, if it is named there.
    pub(crate) fn environment_override(&self, feature: Feature) -> Option<bool> {
        let named = self.environment.iter().rev().find(|(named, _)| *named == feature);
        named.map(|(_, is_on)| *is_on)
    }

    /// Applies the features to a configuration.
    pub(crate) fn apply(&self, config: &mut Config) {
        for set in &self.settings {
            config.features.set(set.feature, set.is_on);
        }
        for (feature, is_on) in &self.environment {
            config.features.set(*feature, *is_on);
        }
        for (id, off) in &self.workspaces {
            let without = |features: Features, set: &FeatureSetting| features.without(set.feature);
            let features = off.iter().fold(Features::default(), without);
            config.workspace_features.insert(id.clone(), features);
        }
    }

    /// Returns the origin of a feature's state in a workspace: the workspace's setting, else the environment, else the
    /// settings, else the default.
    pub(crate) fn origin(&self, feature: Feature, workspace: &str) -> FeatureSource {
        let of = |set: &FeatureSetting| set.feature == feature;
        let line =
            |set: &FeatureSetting| FeatureSource::Settings(self.settings_file.clone(), set.line);
        if let Some(set) =
            self.workspaces.get(workspace).and_then(|off| off.iter().find(|set| of(set)))
        {
            return line(set);
        }
        if self.environment.iter().any(|(named, _)| *named == feature) {
            return FeatureSource::Environment;
        }
        self.settings.iter().find(|set| of(set)).map_or(FeatureSource::Default, line)
    }
}
