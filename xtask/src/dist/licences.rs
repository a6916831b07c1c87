//! The texts of licences in the packages: those of this program, and those of the libraries in it.
//!
//! Both licences are in each package. The file with the licences of the libraries exists only if `dist` built the program.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cargo;
use crate::dist::Release;
use crate::tools::Tools;
use crate::workspace::CargoWorkspace;

/// The files with our licences, in the root of the checkout and in each package.
const OUR_FILES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// The file with the licences of the libraries in the program.
pub(super) const LIBRARIES_FILE: &str = "licences.html";

/// Copies both licences into a package.
pub(super) fn copy(workspace: &CargoWorkspace, folder: &Path) -> anyhow::Result<()> {
    for licence in OUR_FILES {
        fs::copy(workspace.root.join(licence), folder.join(licence))?;
    }
    Ok(())
}

/// Copies both licences into a package with the program, and those of its libraries if the list was made.
pub(super) fn copy_with_program(release: &Release, folder: &Path) -> anyhow::Result<()> {
    let documents = release.stage.join("share/doc/lukasa");
    let list = documents.join(LIBRARIES_FILE).exists().then_some(LIBRARIES_FILE);
    for licence in OUR_FILES.into_iter().chain(list) {
        fs::copy(documents.join(licence), folder.join(licence))?;
    }
    Ok(())
}

/// Prints the files in an archive: a zip file or a compressed tar file.
const LIST_SCRIPT: &str = "import sys, tarfile, zipfile
file = sys.argv[1]
if zipfile.is_zipfile(file):
    print(*zipfile.ZipFile(file).namelist(), sep='\\n')
else:
    print(*(entry.name for entry in tarfile.open(file) if entry.isfile()), sep='\\n')";

/// Fails if a package of Python, npm or an agent lacks the text of a licence. System packages have the files of the stage.
pub(super) fn check<'a>(
    tools: &Tools,
    release: &Release,
    files: impl IntoIterator<Item = &'a PathBuf>,
) -> anyhow::Result<()> {
    let has_list = release.stage.join("share/doc/lukasa").join(LIBRARIES_FILE).exists();
    for file in files {
        let is_archive = ["whl", "tgz", "gz", "mcpb"].map(Some);
        if !is_archive.contains(&file.extension().and_then(|extension| extension.to_str())) {
            continue;
        }
        let mut list = tools.python_command("python")?;
        let listing = cargo::output(list.args(["-c", LIST_SCRIPT]).arg(file))?;
        if let Some(missing) = missing_licence(&listing, has_list) {
            anyhow::bail!("{} has no file {missing}", file.display());
        }
    }
    Ok(())
}

/// Returns the name of a licence that is not among the files of a package. One with a program needs the list, too.
fn missing_licence(listing: &str, has_list: bool) -> Option<&'static str> {
    let names: Vec<_> = listing.lines().filter_map(|path| path.rsplit('/').next()).collect();
    let needs_list = has_list && names.contains(&"lukasa");
    let list = needs_list.then_some(LIBRARIES_FILE);
    let mut needed = OUR_FILES.into_iter().chain(list);
    needed.find(|name| !names.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_needs_both_licences_and_with_a_program_those_of_its_libraries() {
        let both = "package/LICENSE-APACHE\npackage/LICENSE-MIT\n";
        assert_eq!(missing_licence(both, true), None);
        assert_eq!(missing_licence("package/LICENSE-APACHE\n", false), Some("LICENSE-MIT"));
        assert_eq!(missing_licence("a/LICENSE-MIT.txt\n", false), Some("LICENSE-APACHE"));
        let with_program = format!("{both}package/bin/lukasa\n");
        assert_eq!(missing_licence(&with_program, false), None);
        assert_eq!(missing_licence(&with_program, true), Some(LIBRARIES_FILE));
        assert_eq!(missing_licence(&format!("{with_program}licences.html\n"), true), None);
    }
}
