//! Compares the dependencies of the packages with the tables `layers` and `homes` of the root `Cargo.toml`.
//!
//! Dependencies of tests are free, except on other layers: a test may use the layers of the package it tests, plus
//! `testkit`.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::finding::TidyFinding;
use crate::tidy::tree::SourceTree;
use crate::workspace::{CargoWorkspace, Dependency, DependencyKind, Package};

const MANIFEST: &str = "Cargo.toml";

/// Packages that are no layer: they may use every layer and every outside crate.
const NO_LAYER: [&str; 4] = ["xtask", "testkit", "benches", "fuzz"];

/// Compares the layer table with the declared dependencies of the packages.
pub(super) fn layers(workspace: &CargoWorkspace) -> Vec<TidyFinding> {
    let table = &workspace.tables.layers;
    let folders: BTreeMap<&str, &str> =
        workspace.packages.iter().map(|each| (each.name.as_str(), each.folder())).collect();
    let mut findings = Vec::new();
    for package in layer_packages(workspace) {
        let Some(allowed) = table.get(package.folder()) else {
            let wrong = format!("the layer `{}` is not in the table", package.folder());
            findings.push(TidyFinding::file("layers", MANIFEST, wrong, "give it a line"));
            continue;
        };
        findings.extend(compare(package, allowed, &folders));
    }
    for layer in table.keys() {
        if !layer_packages(workspace).any(|package| package.folder() == layer) {
            let wrong = format!("the table names the layer `{layer}`, which does not exist");
            findings.push(TidyFinding::file("layers", MANIFEST, wrong, "remove its line"));
        }
    }
    findings
}

/// Compares one package with its line of the table.
fn compare(
    package: &Package,
    allowed: &[String],
    folders: &BTreeMap<&str, &str>,
) -> Vec<TidyFinding> {
    let layer = package.folder();
    let used = |is_asked: fn(&Dependency) -> bool| -> BTreeSet<&str> {
        let asked = package.dependencies.iter().filter(|each| is_asked(each));
        asked.filter_map(|each| folders.get(each.name.as_str()).copied()).collect()
    };
    let normal = used(|each| each.kind != Some(DependencyKind::Dev));
    let in_tests = used(|each| each.kind == Some(DependencyKind::Dev));
    let allowed: BTreeSet<&str> = allowed.iter().map(String::as_str).collect();
    let finding =
        |wrong: String, remedy: &str| TidyFinding::file("layers", MANIFEST, wrong, remedy);
    let mut findings = Vec::new();
    for other in normal.difference(&allowed) {
        let wrong = format!("`{layer}` depends on `{other}`, which its line does not name");
        findings.push(finding(wrong, "take the dependency out, or change the architecture first"));
    }
    for other in allowed.difference(&normal).filter(|other| !in_tests.contains(*other)) {
        let wrong = format!("`{layer}` may depend on `{other}` and does not");
        findings.push(finding(wrong, "take it out of the line"));
    }
    for other in in_tests.difference(&allowed) {
        if *other != "testkit" {
            let wrong = format!("tests of `{layer}` use `{other}`, which its line does not name");
            findings.push(finding(wrong, "test it where both may be used"));
        }
    }
    findings
}

/// Finds outside crates that are used outside their home.
pub(super) fn homes(workspace: &CargoWorkspace) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for package in layer_packages(workspace) {
        let normal =
            package.dependencies.iter().filter(|each| each.kind != Some(DependencyKind::Dev));
        for dependency in normal {
            let Some(homes) = workspace.tables.homes.get(&dependency.name) else { continue };
            if !homes.iter().any(|home| home == package.folder()) {
                let (name, homes) = (&dependency.name, homes.join("` or `"));
                findings.push(TidyFinding::file(
                    "homes",
                    &workspace.relative(&package.manifest_path),
                    format!("`{name}` may be named by `{homes}` only"),
                    format!("use what `{homes}` offers"),
                ));
            }
        }
    }
    findings
}

/// Finds packages that do not use the lints of the workspace.
pub(super) fn lints(workspace: &CargoWorkspace, tree: &SourceTree) -> Vec<TidyFinding> {
    let manifests = workspace.packages.iter().map(|each| workspace.relative(&each.manifest_path));
    let lacks = |path: &String| {
        let manifest: Option<toml::Table> = tree.text(path).and_then(|text| text.parse().ok());
        let lints = manifest.as_ref().and_then(|manifest| manifest.get("lints"));
        lints.and_then(|lints| lints.get("workspace")) != Some(&toml::Value::Boolean(true))
    };
    manifests
        .filter(lacks)
        .map(|path| {
            let wrong = "does not take the lints of the workspace";
            TidyFinding::file("lints", &path, wrong, "add `[lints] workspace = true`")
        })
        .collect()
}

fn layer_packages(workspace: &CargoWorkspace) -> impl Iterator<Item = &Package> {
    workspace.packages.iter().filter(|package| !NO_LAYER.contains(&package.folder()))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::tidy::finding::printed;
    use crate::workspace::Tables;

    /// Makes a workspace of layers from rows `name: used used; in tests`.
    fn workspace(rows: &[&str], layers: &[(&str, &[&str])]) -> CargoWorkspace {
        let package = |row: &&str| {
            let (name, used) = row.split_once(':').unwrap();
            let (normal, dev) = used.split_once(';').unwrap_or((used, ""));
            let dependencies = |names: &str, kind: Option<DependencyKind>| -> Vec<Dependency> {
                let named = names.split_whitespace();
                named.map(|name| Dependency { name: name.to_owned(), kind }).collect()
            };
            Package {
                name: format!("lukasa-{name}"),
                manifest_path: PathBuf::from(format!("/w/crates/{name}/Cargo.toml")),
                dependencies: [
                    dependencies(normal, None),
                    dependencies(dev, Some(DependencyKind::Dev)),
                ]
                .concat(),
                targets: Vec::new(),
            }
        };
        let owned = |(layer, uses): &(&str, &[&str])| {
            ((*layer).to_owned(), uses.iter().map(ToString::to_string).collect())
        };
        CargoWorkspace {
            root: PathBuf::from("/w"),
            target: PathBuf::from("/w/target"),
            packages: rows.iter().map(package).collect(),
            tables: Tables {
                layers: layers.iter().map(owned).collect(),
                homes: [("sqlx".to_owned(), vec!["state".to_owned()])].into(),
            },
        }
    }

    const STATE_USES_MEMORY: &[(&str, &[&str])] = &[("memory", &[]), ("state", &["memory"])];

    #[track_caller]
    fn check(rows: &[&str], expected: &[&str]) {
        assert_eq!(printed(&layers(&workspace(rows, STATE_USES_MEMORY))), expected);
    }

    #[test]
    fn a_table_equal_to_the_dependencies_passes() {
        check(
            &["memory: sha2; lukasa-testkit", "state: lukasa-memory sqlx", "testkit: lukasa-state"],
            &[],
        );
    }

    #[test]
    fn each_difference_from_the_table_is_a_finding() {
        check(
            &["memory: lukasa-state", "state: lukasa-memory"],
            &["Cargo.toml: `memory` depends on `state`, which its line does not name; take the \
             dependency out, or change the architecture first"],
        );
        check(
            &["memory:", "state:"],
            &["Cargo.toml: `state` may depend on `memory` and does not; take it out of the line"],
        );
        check(
            &["memory:; lukasa-state", "state: lukasa-memory"],
            &[
                "Cargo.toml: tests of `memory` use `state`, which its line does not name; test it where \
             both may be used",
            ],
        );
        check(
            &["memory:", "state: lukasa-memory", "extra:"],
            &["Cargo.toml: the layer `extra` is not in the table; give it a line"],
        );
        check(
            &["memory:"],
            &[
                "Cargo.toml: the table names the layer `state`, which does not exist; remove its line",
            ],
        );
    }

    #[test]
    fn an_outside_crate_is_used_only_in_its_home() {
        let check = |rows: &[&str], expected: &[&str]| {
            assert_eq!(printed(&homes(&workspace(rows, STATE_USES_MEMORY))), expected);
        };
        check(&["state: sqlx", "memory: regex; sqlx", "testkit: sqlx"], &[]);
        check(
            &["memory: sqlx"],
            &[
                "crates/memory/Cargo.toml: `sqlx` may be named by `state` only; use what `state` offers",
            ],
        );
    }

    #[test]
    fn every_package_uses_the_lints() {
        let workspace = workspace(&["memory:", "state:"], STATE_USES_MEMORY);
        let tree = SourceTree::from([
            ("crates/memory/Cargo.toml", "[lints]\nworkspace = true\n"),
            ("crates/state/Cargo.toml", "[lints]\nrust.unsafe_code = \"allow\"\n"),
        ]);
        assert_eq!(
            printed(&lints(&workspace, &tree)),
            ["crates/state/Cargo.toml: does not take the lints of the workspace; add `[lints] \
             workspace = true`"]
        );
    }
}
