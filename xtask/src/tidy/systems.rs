//! Finds code for one operating system outside of the modules that are for it, so that a port is a matter of those.

use crate::tidy::finding::TidyFinding;
use crate::tidy::rust::{self, RustSource};

/// Words that stand only in conditions of a compiler on the operating system.
const CONDITIONS: [&str; 4] = ["target_os", "target_family", "target_env", "target_vendor"];

/// Words that are such conditions after `cfg`.
const FAMILIES: [&str; 2] = ["unix", "windows"];

/// The crate whose calls of the system are all in its module `os`. Any other crate may call what every Unix offers.
const FILES_CRATE: &str = "crates/store/src/";

/// Finds conditions on the operating system outside of the modules `os`, and calls of the system in the crate of files.
pub(super) fn systems(sources: &[RustSource<'_>]) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| !is_for_systems(source.path)) {
        let tests_start = source.tests_start();
        for (index, line) in source.lines.iter().enumerate() {
            let tokens = rust::tokens(&line.code);
            let in_files_crate = source.path.starts_with(FILES_CRATE) && index < tests_start;
            let wrong = if let Some(condition) = condition(&tokens) {
                format!("`{condition}` is a condition on the operating system")
            } else if in_files_crate && calls_system(&tokens) {
                "a call of the operating system".to_owned()
            } else {
                continue;
            };
            let remedy = "move it to the crate's module `os`";
            findings.push(TidyFinding::file("systems", source.path, wrong, remedy).at(index));
        }
    }
    findings
}

/// Checks whether a file belongs to the module `os` of a crate.
fn is_for_systems(path: &str) -> bool {
    let below = path.split_once("/src/").map_or("", |(_, below)| below);
    below == "os.rs" || below.starts_with("os/")
}

fn condition<'t>(tokens: &[&'t str]) -> Option<&'t str> {
    let is_cfg = tokens.iter().any(|token| token.starts_with("cfg"));
    let is_condition =
        |token: &&str| CONDITIONS.contains(token) || is_cfg && FAMILIES.contains(token);
    tokens.iter().copied().find(is_condition)
}

fn calls_system(tokens: &[&str]) -> bool {
    tokens.contains(&"rustix") || tokens.windows(4).any(|window| window == ["std", ":", ":", "os"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::SourceTree;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let tree = SourceTree::from([(path, text)]);
        systems(&rust::sources(&tree)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn conditions_stand_in_the_module_for_systems_alone() {
        for text in [
            "#[cfg(target_os = \"linux\")]\nfn f() {}\n",
            "#[cfg(all(\n    test,\n    target_env = \"gnu\"\n))]\nfn f() {}\n",
            "#![cfg(unix)]\n",
            "fn f() -> bool { cfg!(windows) }\n",
            "#[cfg_attr(unix, path = \"a.rs\")]\nmod a;\n",
        ] {
            assert_eq!(findings("crates/cli/src/app.rs", text).len(), 1, "{text}");
            assert_eq!(findings("crates/cli/tests/it/app.rs", text).len(), 1, "{text}");
            for home in ["crates/cli/src/os.rs", "crates/store/src/os/linux.rs"] {
                assert!(findings(home, text).is_empty(), "{text}");
            }
        }
        let text =
            "#[cfg(test)]\nfn f(a: &[u8]) { a.windows(2); /* cfg(unix) */ g(\"cfg(unix)\"); }\n";
        assert!(findings("crates/cli/src/app.rs", text).is_empty());
    }

    #[test]
    fn the_crate_of_files_calls_the_system_in_one_module() {
        for text in ["use rustix::fs::stat;\n", "use std::os::unix::fs::MetadataExt as _;\n"] {
            assert_eq!(findings("crates/store/src/walk.rs", text).len(), 1, "{text}");
            assert!(findings("crates/store/src/os/unix.rs", text).is_empty(), "{text}");
            assert!(findings("crates/store/src/walk/tests.rs", text).is_empty(), "{text}");
            assert!(findings("crates/cli/src/files.rs", text).is_empty(), "{text}");
        }
    }
}
