//! A tree of folders with context files, most of which do not apply to the folder that is loaded.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::{BindingRequest, Caller, ContextFiles, Workspace};

use crate::fixture::Fixture;
use crate::measure::Times;

/// Folders of the tree.
const FOLDERS: usize = 200;
/// Context files in it; those on the way to the deepest folder are loaded.
const FILES: usize = 50;
/// The level of the deepest folder; the top has level 1.
const DEPTH: usize = 10;
/// Files of the tree that a load reads: each context file on the way, and six imports of each.
const LOADED: usize = 7 * DEPTH;

const RULE: &str = "- Prefer small changes, run the tests that are near, and say why a rule is there; \
                    `@not/an/import` is code.\n";

/// A tree of folders with context files that import others.
#[derive(Debug)]
pub(crate) struct ContextTree {
    deepest: PathBuf,
    /// The files that a load for the deepest folder reads.
    files: Vec<PathBuf>,
    loader: ContextFiles,
}

impl ContextTree {
    /// Creates the tree and marks it as trusted.
    pub(crate) fn new(fixture: &Fixture, top: &Path) -> anyhow::Result<Self> {
        let (deepest, files) = tree(top)?;
        fixture.run(fixture.engine().trusted_folders().add(top))?;
        let loader = context_files(fixture, &deepest);
        Ok(Self { deepest, files, loader })
    }

    /// Returns the folder that files are loaded for.
    pub(crate) fn deepest(&self) -> &Path {
        &self.deepest
    }

    /// Returns the least number of bytes that a load for it must read: the size of all its files.
    pub(crate) fn bytes(&self) -> u64 {
        let bytes = |file: &PathBuf| std::fs::metadata(file).map_or(0, |facts| facts.len());
        self.files.iter().map(bytes).sum()
    }

    /// Returns a sentence that describes the tree.
    pub(crate) fn tree_description() -> String {
        format!(
            "The tree has {FOLDERS} folders and {FILES} context files, each of which imports two files that import \
             one each that imports one; {LOADED} files are loaded for the deepest folder"
        )
    }

    /// Times a load with an empty cache.
    pub(crate) fn load_cold(&self, fixture: &Fixture, times: &mut Times) -> anyhow::Result<()> {
        let fresh = self.loader.clone().with_cache(Arc::default());
        load(&fresh, fixture, times)
    }

    /// Times a load that may use the cache of the load before.
    pub(crate) fn load_warm(&self, fixture: &Fixture, times: &mut Times) -> anyhow::Result<()> {
        load(&self.loader, fixture, times)
    }
}

fn load(files: &ContextFiles, fixture: &Fixture, times: &mut Times) -> anyhow::Result<()> {
    let loaded = times.time(|| fixture.run(files.load()));
    anyhow::ensure!(
        loaded.sources.len() == LOADED,
        "loaded {} files, expected {LOADED}",
        loaded.sources.len()
    );
    Ok(())
}

fn context_files(fixture: &Fixture, folder: &Path) -> ContextFiles {
    let project = Some(folder.to_owned().into());
    let binding = BindingRequest { project, ..BindingRequest::default() };
    let workspace = Workspace::new(folder.to_owned(), binding);
    fixture.engine().context_files(&workspace, Caller::person("bench"))
}

/// Creates a checkout of nested folders, each with a context file; returns the deepest.
fn chain(top: &Path, depth: usize, text: impl Fn(usize) -> String) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(top.join(".git"))?;
    let mut folder = std::fs::canonicalize(top)?;
    for level in 0..depth {
        if level > 0 {
            folder.push(format!("level{level}"));
            std::fs::create_dir(&folder)?;
        }
        std::fs::write(folder.join("AGENTS.md"), format!("# Level {level}\n\n{}", text(level)))?;
    }
    Ok(folder)
}

/// Creates the tree; returns its deepest folder and the files that are loaded for it.
fn tree(top: &Path) -> anyhow::Result<(PathBuf, Vec<PathBuf>)> {
    let importing = |_| {
        let rules = RULE.repeat(10);
        format!("{rules}\n@./notes/a.md\n\nMore:\n\n@./notes/b.md\n\n```\n@./notes/code.md\n```\n")
    };
    let deepest = chain(top, DEPTH, importing)?;
    let mut files = Vec::new();
    for folder in deepest.ancestors().take(DEPTH) {
        files.push(folder.join("AGENTS.md"));
        files.extend(notes(folder)?);
    }
    let beside = FOLDERS - 2 * DEPTH - (FILES - DEPTH);
    for number in 0..beside {
        let folder = top.join(format!("area{}", number % 8)).join(format!("part{number}"));
        std::fs::create_dir_all(&folder)?;
        if number < FILES - DEPTH {
            std::fs::write(folder.join("AGENTS.md"), format!("{number}\n{}", importing(number)))?;
            notes(&folder)?;
        }
    }
    Ok((deepest, files))
}

/// Creates the files that a context file imports.
fn notes(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let notes = folder.join("notes");
    std::fs::create_dir(&notes)?;
    let mut files = Vec::new();
    for name in ["a", "b"] {
        for (level, next) in [("", "2"), ("2", "3"), ("3", "")] {
            let import =
                if next.is_empty() { String::new() } else { format!("@./{name}{next}.md\n") };
            let file = notes.join(format!("{name}{level}.md"));
            std::fs::write(&file, format!("# {name}{level}\n\n{}\n{import}", RULE.repeat(5)))?;
            files.push(file);
        }
    }
    Ok(files)
}
