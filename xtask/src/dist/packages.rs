//! The packages of a program: a tarball, Debian and RPM packages, a Python wheel and two npm packages.
//!
//! All contain the same program. Other authors' tools write the formats. The same files give the same bytes each time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde_json::{Value, json};

use crate::cargo;
use crate::dist::build::GLIBC_OLDEST;
use crate::dist::licences::{self, LIBRARIES_FILE};
use crate::dist::{Release, plugins, registry};
use crate::tools::Tools;
use crate::workspace::CargoWorkspace;

/// A finished package.
#[derive(Debug)]
pub(super) enum Package {
    Tarball(PathBuf),
    Debian(PathBuf),
    Rpm(PathBuf),
    Wheel(PathBuf),
    /// The package with the command, and that with the program for one platform.
    Npm(PathBuf, PathBuf),
    /// A plugin of Claude Code, which is a marketplace, too.
    ClaudeCode(PathBuf),
    /// An extension of Gemini CLI.
    Gemini(PathBuf),
    /// A plugin of opencode, as an npm package.
    Opencode(PathBuf),
    /// A bundle of an MCP server for desktop programs.
    Bundle(PathBuf),
}

impl Package {
    /// Returns its files.
    pub(super) fn files(&self) -> Vec<&PathBuf> {
        match self {
            Self::Tarball(file)
            | Self::Debian(file)
            | Self::Rpm(file)
            | Self::Wheel(file)
            | Self::ClaudeCode(file)
            | Self::Gemini(file)
            | Self::Opencode(file)
            | Self::Bundle(file) => vec![file],
            Self::Npm(command, program) => vec![command, program],
        }
    }
}

/// Puts all files that are installed in the folders where they are installed.
pub(super) fn stage(
    workspace: &CargoWorkspace,
    release: &Release,
    program: &Path,
) -> anyhow::Result<()> {
    let stage = |path: &str| release.stage.join(path);
    for folder in [
        "bin",
        "share/bash-completion/completions",
        "share/doc/lukasa",
        "share/fish/vendor_completions.d",
        "share/man/man1",
        "share/zsh/site-functions",
    ] {
        fs::create_dir_all(stage(folder))?;
    }
    fs::copy(program, stage("bin/lukasa"))
        .with_context(|| format!("cannot copy {}", program.display()))?;
    let documents = stage("share/doc/lukasa");
    for name in ["README.md", "CHANGELOG.md"] {
        fs::copy(workspace.root.join(name), documents.join(name))?;
    }
    licences::copy(workspace, &documents)?;
    cargo::output(release.lukasa().args(["man", "--dir"]).arg(stage("share/man/man1")))?;
    for (shell, file) in [
        ("bash", "share/bash-completion/completions/lukasa"),
        ("fish", "share/fish/vendor_completions.d/lukasa.fish"),
        ("zsh", "share/zsh/site-functions/_lukasa"),
    ] {
        fs::write(stage(file), cargo::output(release.lukasa().args(["completions", shell]))?)?;
    }
    Ok(())
}

/// Gives all files and folders in a folder the time of the release, and permissions that do not depend on the umask.
pub(super) fn normalize(release: &Release, folder: &Path) -> anyhow::Result<()> {
    cargo::output(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(folder))?;
    let mut find = Command::new("find");
    find.arg(folder).args(["-exec", "touch", "--no-dereference", "--date"]);
    cargo::output(find.arg(format!("@{}", release.time)).args(["{}", "+"])).map(drop)
}

/// Builds all packages.
pub(super) fn all(
    workspace: &CargoWorkspace,
    tools: &Tools,
    release: &Release,
) -> anyhow::Result<Vec<Package>> {
    normalize(release, &release.stage)?;
    let name = format!("lukasa-{}-{}", release.version, release.target);
    let mut packages = vec![Package::Tarball(tarball(release, &release.stage, &name)?)];
    if release.target.has_system_packages() {
        packages.push(Package::Debian(system_package(workspace, tools, (release, "deb"))?));
        packages.push(Package::Rpm(system_package(workspace, tools, (release, "rpm"))?));
    }
    packages.push(wheel(workspace, tools, release)?);
    packages.push(npm(workspace, tools, release)?);
    packages.extend(plugins::all(workspace, tools, release)?);
    Ok(packages)
}

/// Packs a folder below another name, and returns the file.
pub(super) fn tarball(release: &Release, folder: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let file = release.out.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--gzip", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.args(["--mode=u=rwX,go=rX", "--format=ustar"]).arg(format!("--mtime=@{}", release.time));
    tar.arg(format!("--transform=s,^\\.,{name},")).arg("--file").arg(&file);
    // Without the time of the compression.
    cargo::output(tar.env("GZIP", "-n9").arg("--directory").arg(folder).arg("."))?;
    Ok(file)
}

/// Builds a Debian or an RPM package, and returns its file.
fn system_package(
    workspace: &CargoWorkspace,
    tools: &Tools,
    (release, format): (&Release, &str),
) -> anyhow::Result<PathBuf> {
    let file = release.out.join(match format {
        "deb" => format!("lukasa_{}_{}.deb", release.version, release.target.debian_arch()),
        _ => format!("lukasa-{}-1.{}.rpm", release.version, rpm_arch(release)),
    });
    let mut nfpm = tools.python_command("nfpm")?;
    nfpm.current_dir(workspace.root.join("packaging")).args(["package", "--config", "nfpm.yaml"]);
    nfpm.args(["--packager", format, "--target"]).arg(&file);
    nfpm.env("LUKASA_VERSION", &release.version).env("LUKASA_ARCH", release.target.debian_arch());
    nfpm.env("LUKASA_STAGE", &release.stage).env("LUKASA_REPOSITORY", &release.repository);
    nfpm.env("LUKASA_GLIBC", format!("{}.{}", GLIBC_OLDEST.0, GLIBC_OLDEST.1));
    nfpm.env("SOURCE_DATE_EPOCH", &release.time);
    cargo::output(&mut nfpm)?;
    Ok(file)
}

fn rpm_arch(release: &Release) -> &'static str {
    release.target.triple().split('-').next().unwrap_or_default()
}

/// Builds the wheel that puts the program into the search path.
fn wheel(workspace: &CargoWorkspace, tools: &Tools, release: &Release) -> anyhow::Result<Package> {
    let folder = release.work.join("python");
    copy_folder(&workspace.root.join("packaging/python"), &folder)?;
    fs::copy(release.stage.join("bin/lukasa"), folder.join("lukasa"))?;
    licences::copy_with_program(release, &folder)?;
    registry::claim_in_readme(release, &folder.join("README.md"))?;
    add_python_urls(release, &folder.join("pyproject.toml"))?;
    let tag = release.target.wheel_tag();
    let mut build = hatchling(tools, release, &folder)?;
    build.args(["--target", "wheel"]);
    build.env("LUKASA_VERSION", &release.version).env("LUKASA_WHEEL_TAG", &tag);
    cargo::output(&mut build)?;
    let file = release.out.join(format!("lukasa_cli-{}-{tag}.whl", release.version));
    anyhow::ensure!(file.exists(), "the wheel is not called {}", file.display());
    Ok(Package::Wheel(file))
}

/// Returns the program that builds a Python package from a folder.
pub(super) fn hatchling(
    tools: &Tools,
    release: &Release,
    folder: &Path,
) -> anyhow::Result<Command> {
    let mut build = tools.python_command("python")?;
    build.current_dir(folder).args(["-m", "hatchling", "build", "--directory"]).arg(&release.out);
    build.env("SOURCE_DATE_EPOCH", &release.time);
    Ok(build)
}

/// Adds the addresses of the project to the manifest of a Python package.
pub(super) fn add_python_urls(release: &Release, manifest: &Path) -> anyhow::Result<()> {
    let Release { repository, .. } = release;
    let changelog = release.address_of("CHANGELOG.md");
    let documentation = release.address_of("docs/README.md");
    let text = fs::read_to_string(manifest)?;
    let urls = format!(
        "[project.urls]\nRepository = \"{repository}\"\nDocumentation = \"{documentation}\"\nChangelog = \"{changelog}\"\n"
    );
    Ok(fs::write(manifest, format!("{text}\n{urls}"))?)
}

/// Builds the npm package with the command, and the one with the program of this platform.
fn npm(workspace: &CargoWorkspace, tools: &Tools, release: &Release) -> anyhow::Result<Package> {
    let command = release.work.join("npm/lukasa");
    copy_folder(&workspace.root.join("packaging/npm"), &command)?;
    let platform = release.target.npm_name();
    let name = format!("@lukasa/{platform}");
    let mut manifest: Value = serde_json::from_slice(&fs::read(command.join("package.json"))?)?;
    manifest["version"] = json!(release.version);
    manifest["description"] = json!(release.description);
    manifest["mcpName"] = json!(registry::name(&release.repository));
    manifest["repository"] = json!(release.repository);
    for platform in super::build::npm_names() {
        manifest["optionalDependencies"][format!("@lukasa/{platform}")] = json!(release.version);
    }
    fs::write(command.join("package.json"), serde_json::to_vec_pretty(&manifest)?)?;

    let program = release.work.join("npm").join(platform);
    fs::create_dir_all(program.join("bin"))?;
    fs::copy(release.stage.join("bin/lukasa"), program.join("bin/lukasa"))?;
    let mut words = platform.split('-');
    let (system, machine, libc) = (words.next(), words.next(), words.next());
    let mut of_platform = json!({
        "name": name,
        "version": release.version,
        "description": format!("The program of `lukasa` for {platform}"),
        "license": manifest["license"],
        "repository": manifest["repository"],
        "os": [system],
        "cpu": [machine],
        "files": ["bin", "LICENSE-*", LIBRARIES_FILE],
    });
    if system == Some("linux") {
        of_platform["libc"] = json!([libc.unwrap_or("glibc")]);
    }
    fs::write(program.join("package.json"), serde_json::to_vec_pretty(&of_platform)?)?;
    licences::copy(workspace, &command)?;
    licences::copy_with_program(release, &program)?;
    Ok(Package::Npm(npm_pack(tools, release, &command)?, npm_pack(tools, release, &program)?))
}

/// Packs a folder as an npm package, and returns the file.
pub(super) fn npm_pack(tools: &Tools, release: &Release, folder: &Path) -> anyhow::Result<PathBuf> {
    normalize(release, folder)?;
    let mut npm = tools.npm_command();
    npm.current_dir(folder).args(["pack", "--silent", "--pack-destination"]).arg(&release.out);
    Ok(release.out.join(cargo::output(&mut npm)?.trim()))
}

/// Copies a folder with everything in it.
pub(super) fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
