//! The checkout as a value: every file that git tracks or would track, with its text.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::cargo;

/// Files by path from the root, with `/`. A file that is not UTF-8 has no text.
#[derive(Debug, Default)]
pub(crate) struct SourceTree {
    files: BTreeMap<String, Option<String>>,
}

impl SourceTree {
    /// Reads the checkout. Files that git ignores are left out.
    pub(crate) fn read(root: &Path) -> anyhow::Result<Self> {
        let mut git = Command::new("git");
        git.current_dir(root).args(["ls-files", "-z", "--cached", "--others"]);
        let listing = cargo::output(git.args(["--exclude-standard"]))?;
        let mut files = BTreeMap::new();
        for path in listing.split_terminator('\0') {
            // A file that is removed but not yet committed, or a link, has nothing to check.
            if let Ok(metadata) = fs::symlink_metadata(root.join(path))
                && metadata.is_file()
            {
                files.insert(path.to_owned(), String::from_utf8(fs::read(root.join(path))?).ok());
            }
        }
        Ok(Self { files })
    }

    /// Returns every path, in byte order.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Returns every path with this extension, with its text.
    pub(super) fn with_extension<'a>(
        &'a self,
        extension: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.texts().filter(move |(path, _)| has_extension(path, extension))
    }

    /// Returns every text file.
    pub(super) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// Returns the text of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Returns whether this is a file.
    pub(crate) fn is_file(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// Returns whether the file or folder exists; the root is the empty path.
    pub(super) fn has(&self, path: &str) -> bool {
        let is_within = |file: &str| {
            file.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        path.is_empty() || self.paths().any(is_within)
    }
}

/// Returns whether a path has this extension. Extensions of sources are written in lower case.
pub(crate) fn has_extension(path: &str, extension: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, found)| found == extension)
}

#[cfg(test)]
impl FromIterator<(String, String)> for SourceTree {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(files: T) -> Self {
        Self { files: files.into_iter().map(|(path, text)| (path, Some(text))).collect() }
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for SourceTree {
    fn from(files: [(&str, &str); N]) -> Self {
        let owned = |(path, text): (&str, &str)| (path.to_owned(), Some(text.to_owned()));
        Self { files: files.into_iter().map(owned).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_and_removed_files_are_not_in_the_tree() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, bytes: &[u8]| fs::write(root.path().join(path), bytes).unwrap();
        write(".gitignore", b"*.log\n");
        write("new.md", b"text");
        write("noise.log", b"noise");
        write("picture.png", b"\x89PNG\xff");
        write("gone.md", b"");
        let git = |arguments: &[&str]| {
            let mut command = Command::new("git");
            cargo::output(command.current_dir(root.path()).args(arguments)).unwrap()
        };
        git(&["init", "--quiet"]);
        git(&["add", "gone.md", "picture.png"]);
        fs::remove_file(root.path().join("gone.md")).unwrap();

        let tree = SourceTree::read(root.path()).unwrap();
        let texts: Vec<_> = tree.paths().map(|path| (path, tree.text(path))).collect();
        assert_eq!(
            texts,
            [(".gitignore", Some("*.log\n")), ("new.md", Some("text")), ("picture.png", None)]
        );
    }

    #[test]
    fn a_folder_exists_when_it_contains_a_file() {
        let tree = SourceTree::from([("docs/a.md", ""), ("docs-old/b.md", "")]);
        let check = |path, expected| assert_eq!(tree.has(path), expected, "{path}");
        check("", true);
        check("docs", true);
        check("docs/a.md", true);
        check("docs/a", false);
        check("doc", false);
    }
}
