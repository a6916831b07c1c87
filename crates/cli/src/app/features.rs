//! Which features are on, and which setting says so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use engine::Config;
use memory::feature::{Feature, FeatureChanges, Features};

use crate::exit::Failure;

/// The variable of the environment that turns features on and off.
pub(crate) const VARIABLE: &str = "LUKASA_FEATURES";

/// What says whether a feature is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FeatureSource {
    Default,
    /// A line of the settings.
    Settings(PathBuf, usize),
    Environment,
}

/// A feature that the settings name, and the line that does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FeatureSetting {
    pub(crate) feature: Feature,
    pub(crate) is_on: bool,
    pub(crate) line: usize,
}

/// The features that the settings name: everywhere, and by the ids of workspaces.
pub(crate) type NamedFeatures = (Vec<FeatureSetting>, BTreeMap<String, Vec<FeatureSetting>>);

/// What settings and environment say of features.
#[derive(Clone, Debug, Default)]
pub(crate) struct FeatureConfig {
    settings_file: PathBuf,
    settings: Vec<FeatureSetting>,
    /// What the settings take away in single workspaces, by their ids.
    workspaces: BTreeMap<String, Vec<FeatureSetting>>,
    environment: Vec<(Feature, bool)>,
}

impl FeatureConfig {
    /// Reads the environment's part beside that of the settings.
    pub(crate) fn new(
        settings_file: PathBuf,
        (settings, workspaces): NamedFeatures,
        variable: Option<String>,
    ) -> Result<Self, Failure> {
        let environment = match variable.map(|text| text.parse::<FeatureChanges>()).transpose() {
            Ok(changes) => changes.unwrap_or_default().0,
            Err(error) => {
                return Err(Failure::usage(format!("{VARIABLE}: {error}")).help(
                    "`lukasa features` lists all; an example: `LUKASA_FEATURES=-recall,+page`",
                ));
            }
        };
        Ok(Self { settings_file, settings, workspaces, environment })
    }

    /// Returns the settings file, which may not be there.
    pub(crate) fn settings_file(&self) -> &Path {
        &self.settings_file
    }

    /// Tells what the environment says of a feature, if it does.
    pub(crate) fn environment_override(&self, feature: Feature) -> Option<bool> {
        let named = self.environment.iter().rev().find(|(named, _)| *named == feature);
        named.map(|(_, is_on)| *is_on)
    }

    /// Puts it in the place of the defaults.
    pub(crate) fn apply(&self, config: &mut Config) {
        for set in &self.settings {
            config.features.set(set.feature, set.is_on);
        }
        for (feature, is_on) in &self.environment {
            config.features.set(*feature, *is_on);
        }
        for (id, taken) in &self.workspaces {
            let without = |features: Features, set: &FeatureSetting| features.without(set.feature);
            let left = taken.iter().fold(Features::default(), without);
            config.workspace_features.insert(id.clone(), left);
        }
    }

    /// Returns what says whether a feature is on in a workspace: what takes it away there, else the last that names it.
    pub(crate) fn origin(&self, feature: Feature, workspace: &str) -> FeatureSource {
        let of = |set: &FeatureSetting| set.feature == feature;
        let line =
            |set: &FeatureSetting| FeatureSource::Settings(self.settings_file.clone(), set.line);
        if let Some(set) =
            self.workspaces.get(workspace).and_then(|taken| taken.iter().find(|set| of(set)))
        {
            return line(set);
        }
        if self.environment.iter().any(|(named, _)| *named == feature) {
            return FeatureSource::Environment;
        }
        self.settings.iter().find(|set| of(set)).map_or(FeatureSource::Default, line)
    }
}
