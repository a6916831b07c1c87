//! Release packages: a program for many Linux systems, packed in all the formats in which people install it.
//!
//! Each package is built from one program and then tried: it is installed in an empty root, a fact is remembered and
//! recalled, and the package is removed again. Plugins of agents have the settings that this program installs.

mod build;
mod clients;
mod licences;
mod mcp;
mod packages;
mod plugins;
mod registry;
mod trial;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::dist::build::Platform;
use crate::tools::{self, Tools};
use crate::version::package_text;
use crate::workspace::CargoWorkspace;
use crate::{cargo, docs};

/// The arguments of `cargo xtask dist`.
#[derive(clap::Args)]
pub(crate) struct DistArgs {
    /// Platform of the program; that of this machine by default
    #[arg(long, value_name = "TRIPLE")]
    target: Option<Platform>,
    /// Pack this program and build none. It need not run on older systems, and the packages lack the lists of dependencies
    #[arg(long, value_name = "FILE", conflicts_with = "target")]
    program: Option<PathBuf>,
    /// Go on with uncommitted changes and with the placeholder of the repository. Do not publish such packages
    #[arg(long)]
    not_a_release: bool,
    /// Do not try the packages
    #[arg(long)]
    no_trial: bool,
}

/// The version, the platform and the folders that all packages of a release share.
#[derive(Debug)]
struct Release {
    version: String,
    description: String,
    repository: String,
    target: Platform,
    /// Seconds since 1970, which all files in the packages have: the time of the commit.
    time: String,
    /// The folder of the finished packages.
    out: PathBuf,
    /// The folder with the files that are installed: `bin` and `share`.
    stage: PathBuf,
    /// A folder for files of this run.
    work: PathBuf,
    /// The folder with a program of this version that runs on this machine.
    program_dir: PathBuf,
}

/// Builds the program and all packages.
pub(crate) fn run(workspace: &CargoWorkspace, args: &DistArgs) -> anyhow::Result<()> {
    if args.program.is_none() && !args.not_a_release {
        require_releasable(workspace)?;
    }
    let target = args.target.map_or_else(Platform::of_this_machine, Ok)?;
    let tools = tools::prepare(workspace, tools::FOR_DIST)?;
    let release = Release::new(workspace, target)?;
    let program = match &args.program {
        Some(program) => program.clone(),
        None => build::program(workspace, &tools, &release)?,
    };
    let lists = args.program.is_none();
    let built = pack(workspace, &tools, (&release, &program, lists))?;
    if args.no_trial {
        println!("The packages were not tried.");
    } else if target.runs_here() {
        trial::try_all(workspace, &tools, &release, &built)?;
    } else {
        println!("The packages were not tried: a program for {target} does not run here.");
    }
    println!("\nPackages of version {} in {}:\n", release.version, release.out.display());
    print!("{}", fs::read_to_string(release.out.join(CHECKSUMS))?);
    Ok(())
}

/// Packs the debug program and tries the packages: the gate. It takes no time to build for release.
pub(crate) fn check(workspace: &CargoWorkspace, tools: &Tools) -> anyhow::Result<()> {
    let debug = docs::build_program(workspace)?;
    let release = Release::new(workspace, Platform::of_this_machine()?)?;
    let program = release.work.join("lukasa");
    // Its debug information is many times the size of the program.
    cargo::run(Command::new("strip").arg("-o").arg(&program).arg(debug))?;
    let built = pack(workspace, tools, (&release, &program, false))?;
    trial::try_all(workspace, tools, &release, &built)
}

/// The file with the SHA-256 of each package, in the format of `sha256sum`.
const CHECKSUMS: &str = "SHA256SUMS";

/// Builds all packages of a program.
fn pack(
    workspace: &CargoWorkspace,
    tools: &Tools,
    (release, program, with_lists): (&Release, &Path, bool),
) -> anyhow::Result<Vec<packages::Package>> {
    packages::stage(workspace, release, program)?;
    let mut lists = Vec::new();
    if with_lists {
        lists = build::lists(workspace, tools, release)?;
    }
    let built = packages::all(workspace, tools, release)?;
    let clients = clients::all(workspace, tools, release)?;
    lists.push(registry::entry(tools, release, &built)?);
    let packed = built.iter().flat_map(packages::Package::files).chain(&clients);
    licences::check(tools, release, packed.clone())?;
    let files = packed.chain(&lists);
    let names: Vec<_> = files.filter_map(|file| file.file_name()).collect();
    let mut sum = Command::new("sha256sum");
    let sums = cargo::output(sum.current_dir(&release.out).arg("--").args(names))?;
    fs::write(release.out.join(CHECKSUMS), sums)?;
    Ok(built)
}

impl Release {
    fn new(workspace: &CargoWorkspace, target: Platform) -> anyhow::Result<Self> {
        let manifest = fs::read_to_string(workspace.root.join("Cargo.toml"))?;
        let dist = workspace.target.join("dist");
        let work = dist.join("work");
        if work.exists() {
            fs::remove_dir_all(&work)?;
        }
        let stage = work.join("stage");
        // Where the new program does not run, the one of this machine prints the same texts.
        let program_dir = if target.runs_here() {
            stage.join("bin")
        } else {
            docs::build_program(workspace)?.parent().map(Path::to_owned).unwrap_or_default()
        };
        let release = Self {
            version: package_text(&manifest, "version")?,
            description: program_description(workspace)?,
            repository: package_text(&manifest, "repository")?,
            target,
            time: commit_time(workspace)?,
            out: dist.join(target.to_string()),
            stage,
            work,
            program_dir,
        };
        // Files of an earlier run do not belong to this release.
        if release.out.exists() {
            fs::remove_dir_all(&release.out)?;
        }
        fs::create_dir_all(&release.out)?;
        fs::create_dir_all(&release.stage)?;
        Ok(release)
    }

    /// Returns the address of a file of the repository in this version.
    fn address_of(&self, path: &str) -> String {
        format!("{}/blob/v{}/{path}", self.repository, self.version)
    }

    /// Returns a program of this version, with an empty home.
    fn lukasa(&self) -> Command {
        // By its name, because the scripts and settings that it writes call it by its name, too.
        let mut lukasa = Command::new("lukasa");
        lukasa.env("PATH", &self.program_dir).env("LUKASA_HOME", self.work.join("home"));
        lukasa
    }
}

/// Fails if packages of this checkout must not be published.
fn require_releasable(workspace: &CargoWorkspace) -> anyhow::Result<()> {
    let manifest = fs::read_to_string(workspace.root.join("Cargo.toml"))?;
    let mut git = Command::new("git");
    git.arg("-C").arg(&workspace.root).args(["status", "--porcelain"]);
    // A folder that is no checkout has no changes. `commit_time` says what it needs.
    let changes = cargo::output(&mut git).unwrap_or_default();
    let problems = release_problems(&changes, &package_text(&manifest, "repository")?);
    anyhow::ensure!(
        problems.is_empty(),
        "these packages could not be published: {}. To build them anyway, add `--not-a-release`",
        problems.join("; ")
    );
    Ok(())
}

/// Returns the reasons why packages must not be published, each with what to do.
fn release_problems(changes: &str, repository: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if let Some(change) = changes.lines().next() {
        let count = changes.lines().count();
        problems.push(format!(
            "the checkout has uncommitted changes ({count}, the first is `{}`): commit or remove them",
            change.trim()
        ));
    }
    let host = repository.trim_start_matches("https://").split('/').next().unwrap_or_default();
    if host == "invalid" || host.ends_with(".invalid") {
        problems.push(format!(
            "{repository} is a placeholder: set `repository` in Cargo.toml to the public one"
        ));
    }
    problems
}

/// Returns the description of the program in its manifest.
fn program_description(workspace: &CargoWorkspace) -> anyhow::Result<String> {
    let manifest: toml::Table =
        fs::read_to_string(workspace.root.join("crates/cli/Cargo.toml"))?.parse()?;
    let text = manifest.get("package").and_then(|package| package.get("description")?.as_str());
    text.map(str::to_owned).context("the manifest of the program has no description")
}

/// Returns the time of the newest commit; that of `SOURCE_DATE_EPOCH` in a folder that is no checkout.
fn commit_time(workspace: &CargoWorkspace) -> anyhow::Result<String> {
    if let Ok(time) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(time);
    }
    let mut git = Command::new("git");
    let time =
        cargo::output(git.arg("-C").arg(&workspace.root).args(["log", "-1", "--format=%ct"]))
            .context("set SOURCE_DATE_EPOCH, or run this in a checkout")?;
    Ok(time.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uncommitted_changes_and_the_placeholder_are_no_release() {
        let public = "https://git.example.org/merle/lukasa";
        assert_eq!(release_problems("", public), [""; 0]);
        assert_eq!(
            release_problems(" M README.md\n?? boats.md\n", public),
            [
                "the checkout has uncommitted changes (2, the first is `M README.md`): commit or remove them"
            ]
        );
        assert_eq!(
            release_problems("", "https://example.invalid/lukasa"),
            [
                "https://example.invalid/lukasa is a placeholder: set `repository` in Cargo.toml to the public one"
            ]
        );
        assert_eq!(release_problems("?? boats.md\n", "https://example.invalid/lukasa").len(), 2);
    }

    #[test]
    fn each_published_folder_has_the_text_of_both_licences() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let crates = fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path());
        let published = crates.filter(|folder| {
            let manifest = fs::read_to_string(folder.join("Cargo.toml"));
            manifest.is_ok_and(|text| !text.contains("\npublish = false\n"))
        });
        let clients = ["sdks/python", "sdks/typescript"].map(|folder| root.join(folder));
        for folder in published.chain(clients) {
            for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
                let text = fs::read_to_string(folder.join(licence)).ok();
                assert_eq!(
                    text,
                    fs::read_to_string(root.join(licence)).ok(),
                    "{}/{licence}",
                    folder.display()
                );
            }
        }
    }
}
