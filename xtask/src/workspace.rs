//! The output of `cargo metadata` for this workspace: its folders, its packages and the two tables that the root
//! `Cargo.toml` holds for `tidy`.
//!
//! It is loaded once, on start. No other part of `xtask` runs `cargo metadata`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;

use crate::cargo;

/// The workspace, as cargo describes it.
#[derive(Debug, Deserialize)]
pub(crate) struct CargoWorkspace {
    /// The folder of the root `Cargo.toml`.
    #[serde(rename = "workspace_root")]
    pub(crate) root: PathBuf,
    /// The build folder.
    #[serde(rename = "target_directory")]
    pub(crate) target: PathBuf,
    /// The members, with the dependencies that they declare.
    pub(crate) packages: Vec<Package>,
    /// `[workspace.metadata]`.
    #[serde(rename = "metadata")]
    pub(crate) tables: Tables,
}

/// The tables that `tidy` compares with the packages.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Tables {
    /// For each layer, the layers that it uses.
    #[serde(default)]
    pub(crate) layers: BTreeMap<String, Vec<String>>,
    /// For outside crates that have a home, the layers that may name them.
    #[serde(default)]
    pub(crate) homes: BTreeMap<String, Vec<String>>,
}

/// One member.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Package {
    /// Its published name.
    pub(crate) name: String,
    /// Its `Cargo.toml`.
    pub(crate) manifest_path: PathBuf,
    /// Its declared dependencies.
    pub(crate) dependencies: Vec<Dependency>,
    /// Its library, binaries, tests, examples, benches and build script.
    #[serde(default)]
    pub(crate) targets: Vec<CargoTarget>,
}

/// One declared dependency.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Dependency {
    /// The published name of the package that is depended on.
    pub(crate) name: String,
    /// When it is needed.
    #[serde(default)]
    pub(crate) kind: Option<DependencyKind>,
}

/// When a dependency is needed; cargo leaves it out for a normal one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DependencyKind {
    /// By tests, examples and benches alone.
    Dev,
    /// By the build script.
    Build,
}

/// One thing that cargo builds.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct CargoTarget {
    /// The file at its root.
    pub(crate) src_path: PathBuf,
}

impl CargoWorkspace {
    /// Runs `cargo metadata`. It needs no network, because dependencies are not resolved.
    pub(crate) fn load() -> anyhow::Result<Self> {
        let json =
            cargo::command().args(["metadata", "--no-deps", "--format-version", "1"]).output()?;
        if !json.status.success() {
            anyhow::bail!("`cargo metadata` failed: {}", String::from_utf8_lossy(&json.stderr));
        }
        serde_json::from_slice(&json.stdout).context("cannot parse the output of `cargo metadata`")
    }

    /// Returns a path of the checkout relative to the root, with `/`.
    pub(crate) fn relative(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).to_string_lossy().replace('\\', "/")
    }
}

impl Package {
    /// Returns the name of the package's folder, which for a layer is its library's name too.
    pub(crate) fn folder(&self) -> &str {
        self.manifest_path
            .parent()
            .and_then(Path::file_name)
            .and_then(|name| name.to_str())
            .unwrap_or(&self.name)
    }
}
