//! The documents as a site. `cargo xtask book` builds it in `target/book`, with mdBook.
//!
//! The chapters are the documents themselves, in the order of `docs/SUMMARY.md`. They are copied below `target/book-source`,
//! because mdBook publishes every file beside its summary. Their places stay the same, so that one link works on a git
//! host and in the book. A file that a page links to, such as a picture, is copied beside the pages.
//!
//! The build fails if a link leads to no file or heading, or if a document is not in the book. It also fails if a page
//! loads something from the web. Addresses on the web are not followed, so the check needs no network.

mod pages;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::book::pages::Pages;
use crate::tidy::{SourceTree, TidyFinding, has_extension, resolve};
use crate::tools::{self, Tools};
use crate::workspace::CargoWorkspace;

/// The list of chapters.
const SUMMARY: &str = "docs/SUMMARY.md";

/// The settings and the style of the book, each with its place in the folder that mdBook reads.
const SETTINGS: [(&str, &str); 3] = [
    ("xtask/book/book.toml", "book.toml"),
    ("xtask/book/style.css", "style.css"),
    // The icon of the daemon's page.
    ("crates/server/ui/icon.svg", "theme/favicon.svg"),
];

/// Documents that the book leaves out on purpose, each with the reason.
const LEFT_OUT: [(&str, &str); 1] =
    [(SUMMARY, "the list of chapters, which the book shows at its side")];

/// Installs mdBook and builds the book.
pub(crate) fn run(workspace: &CargoWorkspace) -> anyhow::Result<()> {
    let book = build(workspace, &tools::prepare(workspace, tools::FOR_BOOK)?)?;
    println!("written: {}", book.join("index.html").display());
    Ok(())
}

/// Builds the book with an mdBook that is already installed.
pub(crate) fn check(workspace: &CargoWorkspace, tools: &Tools) -> anyhow::Result<()> {
    build(workspace, tools).map(drop)
}

/// Builds the book and returns its folder.
fn build(workspace: &CargoWorkspace, tools: &Tools) -> anyhow::Result<PathBuf> {
    let tree = SourceTree::read(&workspace.root)?;
    let summary = Summary::parse(tree.text(SUMMARY).context("there is no docs/SUMMARY.md")?)?;
    let (source, book) = (workspace.target.join("book-source"), workspace.target.join("book"));
    for folder in [&source, &book] {
        if folder.exists() {
            fs::remove_dir_all(folder)
                .with_context(|| format!("cannot empty {}", folder.display()))?;
        }
    }
    copy_chapters(workspace, &tree, &summary, &source)?;
    run_mdbook(tools, &source, &book)?;
    let pages = Pages::read(&book)?;
    let (linked, mut findings) = pages.follow(|path| tree.is_file(path));
    for path in &linked {
        copy(&workspace.root.join(path), &book.join(path))?;
    }
    findings.extend(forgotten(&tree, &summary.chapters, &linked));
    for finding in &findings {
        println!("{finding}");
    }
    anyhow::ensure!(findings.is_empty(), "the book has {} findings", findings.len());
    Ok(book)
}

/// The list of chapters, with paths from the root of the repository.
#[derive(Debug, PartialEq, Eq)]
struct Summary {
    text: String,
    chapters: BTreeSet<String>,
}

impl Summary {
    /// Reads a summary whose links are relative to its own file, as git hosts need them.
    fn parse(text: &str) -> anyhow::Result<Self> {
        let mut pieces = text.split("](");
        let mut summary =
            Self { text: pieces.next().unwrap_or_default().to_owned(), chapters: BTreeSet::new() };
        for piece in pieces {
            let (link, rest) =
                piece.split_once(')').context("a link in docs/SUMMARY.md has no end")?;
            let path = resolve(SUMMARY, link)
                .with_context(|| format!("{SUMMARY}: `{link}` leads out of the repository"))?;
            write!(summary.text, "]({path}){rest}")?;
            anyhow::ensure!(summary.chapters.insert(path), "{SUMMARY} lists `{link}` twice");
        }
        Ok(summary)
    }
}

/// Fills the folder that mdBook reads.
fn copy_chapters(
    workspace: &CargoWorkspace,
    tree: &SourceTree,
    summary: &Summary,
    source: &Path,
) -> anyhow::Result<()> {
    for (from, to) in SETTINGS {
        copy(&workspace.root.join(from), &source.join(to))?;
    }
    for chapter in &summary.chapters {
        anyhow::ensure!(tree.is_file(chapter), "{SUMMARY} lists `{chapter}`, which does not exist");
        copy(&workspace.root.join(chapter), &source.join("src").join(chapter))?;
    }
    fs::write(source.join("src/SUMMARY.md"), &summary.text)?;
    Ok(())
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

/// Runs mdBook. A warning, as about a tag that is not closed, is an error.
fn run_mdbook(tools: &Tools, source: &Path, book: &Path) -> anyhow::Result<()> {
    let mut mdbook = tools.python_command("mdbook")?;
    mdbook.arg("build").arg(source).arg("--dest-dir").arg(book);
    // It takes its settings from such variables too.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("MDBOOK_") {
            mdbook.env_remove(name);
        }
    }
    let output = mdbook.output().context("cannot start `mdbook`")?;
    let log = [output.stdout, output.stderr].concat();
    let log = String::from_utf8_lossy(&log);
    let is_clean = !log.contains("WARN") && !log.contains("ERROR");
    anyhow::ensure!(output.status.success() && is_clean, "`mdbook build` complains:\n{log}");
    Ok(())
}

/// Finds documents that are neither chapters nor linked files, and exceptions that are not needed.
fn forgotten(
    tree: &SourceTree,
    chapters: &BTreeSet<String>,
    linked: &BTreeSet<String>,
) -> Vec<TidyFinding> {
    let is_document =
        |path: &str| path.starts_with("docs/") || !path.contains('/') && has_extension(path, "md");
    let is_in_book = |path: &str| chapters.contains(path) || linked.contains(path);
    let is_left_out = |path: &str| LEFT_OUT.iter().any(|(left_out, _)| *left_out == path);
    let missing = tree
        .paths()
        .filter(|path| is_document(path) && !is_in_book(path) && !is_left_out(path))
        .map(|path| {
            let remedy = "list it in docs/SUMMARY.md, or link to it from a chapter";
            TidyFinding::file("book", path, "is not in the book", remedy)
        });
    let needless = LEFT_OUT.iter().filter(|(path, _)| is_in_book(path) || !tree.is_file(path)).map(
        |(path, _)| {
            let remedy = "take it out of `LEFT_OUT` in xtask/src/book.rs";
            TidyFinding::file("book", path, "need not be left out of the book", remedy)
        },
    );
    missing.chain(needless).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(paths: &[&str]) -> BTreeSet<String> {
        paths.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_links_of_the_summary_become_paths_from_the_root() {
        let summary =
            Summary::parse("[A](../README.md)\n\n# B\n\n- [C](c/D.md)\n  - [`e`](F.md)\n");
        assert_eq!(
            summary.unwrap(),
            Summary {
                text: "[A](README.md)\n\n# B\n\n- [C](docs/c/D.md)\n  - [`e`](docs/F.md)\n"
                    .to_owned(),
                chapters: set(&["README.md", "docs/c/D.md", "docs/F.md"]),
            }
        );
    }

    #[test]
    fn a_summary_with_a_wrong_link_is_an_error() {
        let check = |text, expected| {
            assert_eq!(Summary::parse(text).unwrap_err().to_string(), expected, "{text}");
        };
        check("- [A](A.md)\n- [B](./A.md)\n", "docs/SUMMARY.md lists `./A.md` twice");
        check("- [A](../../A.md)\n", "docs/SUMMARY.md: `../../A.md` leads out of the repository");
        check("- [A](A.md\n", "a link in docs/SUMMARY.md has no end");
    }

    #[test]
    fn a_document_outside_the_book_is_a_finding() {
        let tree = SourceTree::from([
            ("docs/SUMMARY.md", ""),
            ("docs/A.md", ""),
            ("docs/B.md", ""),
            ("docs/a.png", ""),
            ("docs/b.png", ""),
            ("C.md", ""),
            ("LICENSE", ""),
            ("crates/a/README.md", ""),
        ]);
        let found = forgotten(&tree, &set(&["docs/A.md"]), &set(&["docs/a.png"]));
        let remedy = "is not in the book; list it in docs/SUMMARY.md, or link to it from a chapter";
        assert_eq!(
            found.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["C.md", "docs/B.md", "docs/b.png"].map(|path| format!("{path}: {remedy}"))
        );
    }

    #[test]
    fn an_exception_that_is_not_needed_is_a_finding() {
        let tree = SourceTree::from([("docs/A.md", "")]);
        let found = forgotten(&tree, &set(&["docs/A.md"]), &set(&[]));
        assert_eq!(
            found.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["docs/SUMMARY.md: need not be left out of the book; \
              take it out of `LEFT_OUT` in xtask/src/book.rs"]
        );
    }
}
