//! The clients in TypeScript and Python: compares what is generated of them, checks their types, and tests them
//! against a daemon.
//!
//! The dependencies of the TypeScript client are installed when its lock file has changed. Those of the Python client
//! are tools with pinned versions, in an environment of their own.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::tools::{self, Tools};
use crate::workspace::CargoWorkspace;
use crate::{cargo, docs};

/// The remedy for a generated file that is out of date.
const STALE: &str = "a generated file of a client is out of date: run `cargo xtask sdk --types`";

/// The arguments of `cargo xtask sdk`.
#[derive(clap::Args)]
pub(crate) struct SdkArgs {
    /// Only generate their types from docs/reference/openapi.json, and the synchronous client in Python
    #[arg(long)]
    types: bool,
}

/// Installs the tools, and generates the types or runs everything.
pub(crate) fn run(workspace: &CargoWorkspace, args: &SdkArgs) -> anyhow::Result<()> {
    let tools = tools::prepare(workspace, tools::FOR_TESTS)?;
    if args.types {
        tools::install_package(workspace, &typescript(workspace))?;
        cargo::run(npm(workspace, &tools).args(["run", "types"]))?;
        return cargo::run(PythonSdk::prepare(workspace)?.python().arg("scripts/generate.py"));
    }
    check(workspace, &tools)
}

/// Runs everything with tools that are already installed.
pub(crate) fn check(workspace: &CargoWorkspace, tools: &Tools) -> anyhow::Result<()> {
    let program = docs::build_program(workspace)?;
    check_typescript(workspace, tools, &program)?;
    PythonSdk::prepare(workspace)?.check(&program)
}

fn check_typescript(
    workspace: &CargoWorkspace,
    tools: &Tools,
    program: &Path,
) -> anyhow::Result<()> {
    tools::install_package(workspace, &typescript(workspace))?;
    cargo::run(npm(workspace, tools).args(["run", "types:check"])).context(STALE)?;
    cargo::run(npm(workspace, tools).arg("test").env("LUKASA_PROGRAM", program))?;
    // The page has no package of its own, so it uses the compiler of the client.
    let page = workspace.root.join("crates/server/ui.tsconfig.json");
    cargo::run(npm(workspace, tools).args(["exec", "--", "tsc", "-p"]).arg(page))
        .context("the page does not compile")
}

fn typescript(workspace: &CargoWorkspace) -> PathBuf {
    workspace.root.join("sdks/typescript")
}

fn npm(workspace: &CargoWorkspace, tools: &Tools) -> Command {
    let mut npm = tools.npm_command();
    npm.current_dir(typescript(workspace)).arg("--silent");
    npm
}

/// The Python client, with the environment that has its tools.
struct PythonSdk {
    folder: PathBuf,
    interpreter: PathBuf,
    /// The folder for the built package and for caches of tools.
    output: PathBuf,
}

impl PythonSdk {
    fn prepare(workspace: &CargoWorkspace) -> anyhow::Result<Self> {
        Ok(Self {
            folder: workspace.root.join("sdks/python"),
            interpreter: tools::python_sdk(workspace)?,
            output: workspace.target.join("python-sdk"),
        })
    }

    fn check(&self, program: &Path) -> anyhow::Result<()> {
        cargo::run(self.python().args(["scripts/generate.py", "--check"])).context(STALE)?;
        self.module("ruff", &["check", "--quiet"])?;
        self.module("ruff", &["format", "--check", "--quiet"])?;
        self.module("mypy", &["--no-error-summary"])?;
        let package = self.output.join("package");
        self.install(&package)?;
        let mut pytest = self.python();
        pytest.args(["-m", "pytest", "--quiet"]);
        // The tests use the package as a user installs it, not the sources.
        cargo::run(pytest.env("PYTHONPATH", package).env("LUKASA_PROGRAM", program))
    }

    /// Builds the package and installs it into a folder.
    fn install(&self, package: &Path) -> anyhow::Result<()> {
        // An installation into a folder does not remove files that a package no longer has.
        if package.exists() {
            std::fs::remove_dir_all(package)?;
        }
        let mut pip = self.python();
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        pip.args(["--no-deps", "--no-index", "--no-build-isolation", "--target"]);
        cargo::run(pip.arg(package).arg(".")).context("the Python package cannot be built")
    }

    fn module(&self, name: &str, arguments: &[&str]) -> anyhow::Result<()> {
        cargo::run(self.python().args(["-m", name]).args(arguments))
    }

    /// Returns the interpreter in the folder of the client. Tools keep their caches below `target`.
    fn python(&self) -> Command {
        let mut python = Command::new(&self.interpreter);
        python.current_dir(&self.folder);
        python.env("MYPY_CACHE_DIR", self.output.join("mypy"));
        python.env("RUFF_CACHE_DIR", self.output.join("ruff"));
        python.env("HYPOTHESIS_STORAGE_DIRECTORY", self.output.join("hypothesis"));
        python.env("PYTHONDONTWRITEBYTECODE", "1");
        python
    }
}
