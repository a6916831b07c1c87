//! Packs the program's relocations where the system that builds it can load that: 24 bytes a pointer
//! become about one. Loaders know how since glibc 2.36; elsewhere the program is some hundred kilobytes
//! larger and works as well.

#![expect(clippy::disallowed_methods, reason = "cargo tells by the environment what is built")]

use std::process::Command;

/// The first glibc whose loader reads `DT_RELR`.
const LOADS_PACKED: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, wanted: &str| std::env::var(name).is_ok_and(|value| value == wanted);
    let here = std::env::var("HOST").ok() == std::env::var("TARGET").ok();
    let packs = here
        && is("PROFILE", "release")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && glibc().is_some_and(|version| version >= LOADS_PACKED);
    if packs {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Returns the version of the glibc of this system, which says `glibc 2.36`.
fn glibc() -> Option<(u32, u32)> {
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let said = String::from_utf8(said.stdout).ok()?;
    let (major, minor) = said.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
