//! The program of a release, and the lists of what it was built from.
//!
//! Zig's linker builds for an old glibc, whatever this machine has. The paths of the checkout and of the registry do not
//! get into the program, so that two machines build the same bytes.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use anyhow::Context;

use crate::cargo;
use crate::dist::Release;
use crate::dist::licences::LIBRARIES_FILE;
use crate::tools::Tools;
use crate::workspace::CargoWorkspace;

/// The oldest glibc that a program runs on: that of RHEL 7, which is also the oldest that the compiler supports.
pub(super) const GLIBC_OLDEST: (u32, u32) = (2, 17);

/// A platform for which there are packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Platform {
    LinuxX64,
    LinuxArm64,
    LinuxX64Musl,
    LinuxArm64Musl,
    MacX64,
    MacArm64,
}

/// The triple, the architecture of Debian, npm's name, and the tags of Python's wheels for each platform.
const TARGETS: [(Platform, &str, &str, &str, &str); 6] = [
    (
        Platform::LinuxX64,
        "x86_64-unknown-linux-gnu",
        "amd64",
        "linux-x64",
        "manylinux_2_17_x86_64.manylinux2014_x86_64",
    ),
    (
        Platform::LinuxArm64,
        "aarch64-unknown-linux-gnu",
        "arm64",
        "linux-arm64",
        "manylinux_2_17_aarch64.manylinux2014_aarch64",
    ),
    (
        Platform::LinuxX64Musl,
        "x86_64-unknown-linux-musl",
        "amd64",
        "linux-x64-musl",
        "musllinux_1_2_x86_64",
    ),
    (
        Platform::LinuxArm64Musl,
        "aarch64-unknown-linux-musl",
        "arm64",
        "linux-arm64-musl",
        "musllinux_1_2_aarch64",
    ),
    (Platform::MacX64, "x86_64-apple-darwin", "amd64", "darwin-x64", "macosx_11_0_x86_64"),
    (Platform::MacArm64, "aarch64-apple-darwin", "arm64", "darwin-arm64", "macosx_11_0_arm64"),
];

impl Platform {
    fn row(self) -> (&'static str, &'static str, &'static str, &'static str) {
        let row = TARGETS.iter().find(|row| row.0 == self).expect("each platform has a row");
        (row.1, row.2, row.3, row.4)
    }

    pub(super) fn triple(self) -> &'static str {
        self.row().0
    }

    pub(super) fn debian_arch(self) -> &'static str {
        self.row().1
    }

    /// Returns what npm calls it: `process.platform` and `process.arch`.
    pub(super) fn npm_name(self) -> &'static str {
        self.row().2
    }

    /// Returns the tags of a wheel without code of Python.
    pub(super) fn wheel_tag(self) -> String {
        format!("py3-none-{}", self.row().3)
    }

    /// Returns whether the program needs a glibc.
    pub(super) fn has_glibc(self) -> bool {
        matches!(self, Self::LinuxX64 | Self::LinuxArm64)
    }

    /// Returns whether Debian and RPM packages exist for it.
    pub(super) fn has_system_packages(self) -> bool {
        self.has_glibc()
    }

    /// Returns the platform of this machine.
    pub(super) fn of_this_machine() -> anyhow::Result<Self> {
        let found = TARGETS.iter().find(|row| row.0.runs_here());
        found.map(|row| row.0).context("there are no packages for this machine: use `--target`")
    }

    /// Returns whether this machine can run the program.
    pub(super) fn runs_here(self) -> bool {
        std::env::consts::OS == "linux"
            && self.triple() == format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
    }
}

/// Returns npm's names of all platforms.
pub(super) fn npm_names() -> impl Iterator<Item = &'static str> {
    TARGETS.iter().map(|row| row.3)
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.triple())
    }
}

impl FromStr for Platform {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let row = TARGETS.iter().find(|row| row.1 == text);
        let all = || TARGETS.map(|row| row.1).join(", ");
        row.map(|row| row.0).ok_or_else(|| format!("there are packages for {}", all()))
    }
}

/// Builds the program for release and returns its path.
pub(super) fn program(
    workspace: &CargoWorkspace,
    tools: &Tools,
    release: &Release,
) -> anyhow::Result<PathBuf> {
    let target = release.target;
    require_standard_library(target)?;
    let mut build = tools.cargo_with_python()?;
    build.current_dir(&workspace.root).args(["zigbuild", "--release", "--locked"]);
    let zig_target = if target.has_glibc() {
        format!("{target}.{}.{}", GLIBC_OLDEST.0, GLIBC_OLDEST.1)
    } else {
        target.to_string()
    };
    build.args(["--package", "lukasa-cli", "--target", &zig_target]);
    // A path may contain spaces, which separate the options in RUSTFLAGS.
    build.env("CARGO_ENCODED_RUSTFLAGS", path_prefixes(workspace)?.join("\u{1f}"));
    // A constant, so that a new commit does not build the libraries in C again.
    build.env("SOURCE_DATE_EPOCH", "315532800");
    // The pages of an ARM machine may be larger than those of the machine that builds.
    build
        .env("JEMALLOC_SYS_WITH_LG_PAGE", if target == Platform::LinuxArm64 { "16" } else { "12" });
    cargo::run(&mut build)?;
    let program = workspace.target.join(target.triple()).join("release/lukasa");
    if target.has_glibc() {
        check_glibc(&program)?;
    }
    Ok(program)
}

/// Fails if the standard library of a platform is not installed.
fn require_standard_library(target: Platform) -> anyhow::Result<()> {
    let mut print = Command::new("rustc");
    let folder =
        cargo::output(print.args(["--print", "target-libdir", "--target", target.triple()]))?;
    anyhow::ensure!(
        Path::new(folder.trim()).exists(),
        "the standard library for {target} is not installed: run `rustup target add {target}`"
    );
    Ok(())
}

/// Returns the options that replace paths of this machine in the program.
fn path_prefixes(workspace: &CargoWorkspace) -> anyhow::Result<Vec<String>> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let home = home.context("neither CARGO_HOME nor HOME is set")?;
    let replace = |path: &Path, by: &str| format!("--remap-path-prefix={}={by}", path.display());
    Ok(vec![replace(&workspace.root, "/lukasa"), replace(&home, "/cargo")])
}

/// Fails if a program needs a newer glibc than the oldest, or a library that a minimal system lacks.
fn check_glibc(program: &Path) -> anyhow::Result<()> {
    let symbols = cargo::output(Command::new("objdump").arg("-T").arg(program))?;
    let newest = newest_glibc(&symbols).context("the program has no symbols of glibc")?;
    anyhow::ensure!(
        newest <= GLIBC_OLDEST,
        "the program needs glibc {}.{}, and must run with {}.{}",
        newest.0,
        newest.1,
        GLIBC_OLDEST.0,
        GLIBC_OLDEST.1
    );
    let headers = cargo::output(Command::new("objdump").arg("-p").arg(program))?;
    let needed: BTreeSet<_> = headers
        .lines()
        .filter_map(|line| line.trim().strip_prefix("NEEDED"))
        .map(str::trim)
        .collect();
    let is_of_glibc = |name: &&&str| {
        let names = ["libc.", "libm.", "libdl.", "librt.", "libpthread.", "libutil.", "ld-linux"];
        names.iter().any(|start| name.starts_with(start))
    };
    let others: Vec<_> = needed.iter().filter(|name| !is_of_glibc(name)).collect();
    anyhow::ensure!(others.is_empty(), "the program needs libraries besides glibc: {others:?}");
    println!("The program needs glibc {}.{} and no other library.", newest.0, newest.1);
    Ok(())
}

/// Returns the newest version of glibc among the symbols that `objdump -T` prints.
fn newest_glibc(symbols: &str) -> Option<(u32, u32)> {
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let mut parts = rest.get(..end)?.split('.').map(|part| part.parse().ok());
        Some((parts.next()??, parts.next()??))
    });
    versions.max()
}

/// Writes the bill of materials and the licences of the dependencies, into the packages and beside them.
pub(super) fn lists(
    workspace: &CargoWorkspace,
    tools: &Tools,
    release: &Release,
) -> anyhow::Result<Vec<PathBuf>> {
    let manifest = workspace.root.join("crates/cli/Cargo.toml");
    let mut bill = tools.cargo_command();
    bill.current_dir(&workspace.root).env("SOURCE_DATE_EPOCH", &release.time);
    bill.args(["cyclonedx", "--format", "json", "--spec-version", "1.5", "--target"]);
    bill.arg(release.target.triple()).arg("--manifest-path").arg(&manifest);
    cargo::run(bill.args(["--override-filename", "lukasa.cdx"]))?;
    let name = format!("lukasa-{}-{}", release.version, release.target);
    let bill = release.out.join(format!("{name}.cdx.json"));
    let written = workspace.root.join("crates/cli/lukasa.cdx.json");
    fs::copy(&written, &bill)?;
    remove_bills(workspace)?;

    let licences = release.out.join(format!("{name}-licences.html"));
    let mut about = tools.cargo_command();
    about
        .current_dir(&workspace.root)
        .args(["about", "generate", "--locked", "--fail", "--target"]);
    about.arg(release.target.triple()).arg("--manifest-path").arg(&manifest);
    about.arg("--config").arg(accepted_licences(workspace, release)?).arg("--output-file");
    cargo::run(about.arg(&licences).arg("packaging/licences.hbs"))?;
    fs::copy(&licences, release.stage.join("share/doc/lukasa").join(LIBRARIES_FILE))?;
    Ok(vec![bill, licences])
}

/// Writes the configuration of the tool that collects licences. deny.toml decides which ones are allowed.
fn accepted_licences(workspace: &CargoWorkspace, release: &Release) -> anyhow::Result<PathBuf> {
    let deny: toml::Table = fs::read_to_string(workspace.root.join("deny.toml"))?.parse()?;
    let allowed = deny.get("licenses").and_then(|licences| licences.get("allow"));
    let mut about = toml::Table::new();
    about.insert("accepted".to_owned(), allowed.context("deny.toml allows no licence")?.clone());
    about.insert("ignore-build-dependencies".to_owned(), true.into());
    about.insert("ignore-dev-dependencies".to_owned(), true.into());
    let file = release.work.join("about.toml");
    fs::write(&file, about.to_string())?;
    Ok(file)
}

/// Removes the bills that the tool writes beside each manifest of the workspace.
fn remove_bills(workspace: &CargoWorkspace) -> anyhow::Result<()> {
    for folder in ["crates", "."] {
        for entry in fs::read_dir(workspace.root.join(folder))? {
            let file = entry?.path().join("lukasa.cdx.json");
            if file.exists() {
                fs::remove_file(file)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_glibc_is_the_highest_number_and_not_the_last_word() {
        let symbols = "0 DF *UND* (GLIBC_2.9) pipe2\n0 DF *UND* (GLIBC_2.17) clock_gettime\n0 DF *UND* (GLIBC_2.2.5) read\n";
        assert_eq!(newest_glibc(symbols), Some((2, 17)));
        assert_eq!(newest_glibc("0 DF *UND* (GLIBC_PRIVATE) x"), None);
        assert_eq!(newest_glibc(""), None);
    }

    #[test]
    fn each_platform_has_one_triple() {
        for (target, triple, ..) in TARGETS {
            assert_eq!(triple.parse::<Platform>().unwrap(), target);
            assert_eq!(target.to_string(), triple);
        }
        "wasm32-wasip1".parse::<Platform>().unwrap_err();
    }
}
