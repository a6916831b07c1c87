//! Makes the program smaller where the system that builds it can do that; elsewhere it is some hundred kilobytes
//! larger and works as well.

#![expect(clippy::disallowed_methods, reason = "cargo tells by the environment what is built")]

use std::path::Path;
use std::process::Command;

/// Packs relocations: 24 bytes a pointer become about one.
const PACKS: &str = "-Wl,-z,pack-relative-relocs";

/// The first glibc whose loader reads what is packed so, `DT_RELR`.
const LOADS_PACKED: (u32, u32) = (2, 36);

/// Makes one of functions that are equal to the last byte. LLVM's linker, which links by default where most build this,
/// knows how; the one of GNU does not.
const FOLDS: &str = "-Wl,--icf=all";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = std::env::var("TARGET").unwrap_or_default().to_uppercase().replace('-', "_");
    println!("cargo::rerun-if-env-changed=CARGO_TARGET_{target}_LINKER");
    let is = |name: &str, wanted: &str| std::env::var(name).is_ok_and(|value| value == wanted);
    let here = std::env::var("HOST").ok() == std::env::var("TARGET").ok();
    let is_for_linux = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if !here || !is("PROFILE", "release") || !is_for_linux {
        return;
    }
    if glibc().is_some_and(|version| version >= LOADS_PACKED) {
        println!("cargo::rustc-link-arg-bins={PACKS}");
    }
    if links(FOLDS).unwrap_or_default() {
        println!("cargo::rustc-link-arg-bins={FOLDS}");
    }
}

/// Returns the version of the glibc of this system, which says `glibc 2.36`.
fn glibc() -> Option<(u32, u32)> {
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let said = String::from_utf8(said.stdout).ok()?;
    let (major, minor) = said.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}

/// Tells whether the linker takes an argument, by linking a program that does nothing.
fn links(argument: &str) -> Option<bool> {
    let folder = std::env::var("OUT_DIR").ok()?;
    let source = Path::new(&folder).join("nothing.rs");
    std::fs::write(&source, "fn main() {}\n").ok()?;
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let mut rustc = Command::new(std::env::var("RUSTC").ok()?);
    rustc.arg(&source).arg(format!("-Clink-arg={argument}")).args(["--out-dir", &folder]);
    rustc.args(flags.split('\u{1f}').filter(|flag| !flag.is_empty()));
    if let Ok(linker) = std::env::var("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={linker}"));
    }
    Some(rustc.output().ok()?.status.success())
}
