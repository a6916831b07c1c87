//! The pages of the built book: their links, and the ids that links may name.
//!
//! HTML is read by a tokenizer of the HTML standard. Links that a script makes are not checked. mdBook makes two lists so:
//! the chapters at the side, which come from the summary, and the results of a search.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Context;
use html5gum::{Token, Tokenizer};

use crate::tidy::{TidyFinding, has_extension, resolve};

/// The start of the book: a copy of its first chapter.
const START: &str = "index.html";

/// The remedy for a link that leads nowhere.
const REMEDY: &str =
    "link to a heading, to a chapter of docs/SUMMARY.md, or to a file that is not Markdown";

/// All pages, by path from the folder of the book, and the other files there.
#[derive(Debug, Default)]
pub(super) struct Pages {
    pages: BTreeMap<String, Page>,
    files: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct Page {
    ids: BTreeSet<String>,
    links: BTreeSet<String>,
    /// Addresses on the web that a browser requests by itself.
    foreign: BTreeSet<String>,
}

impl Pages {
    /// Reads all files of the book.
    pub(super) fn read(book: &Path) -> anyhow::Result<Self> {
        let mut pages = Self::default();
        let mut folders = vec![book.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder)? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let name = path.strip_prefix(book)?.to_string_lossy().replace('\\', "/");
                if has_extension(&name, "html") {
                    let html = fs::read_to_string(&path)
                        .with_context(|| format!("cannot read {}", path.display()))?;
                    pages.pages.insert(name, Page::parse(&html));
                } else {
                    pages.files.insert(name);
                }
            }
        }
        Ok(pages)
    }

    /// Follows each link of each page.
    ///
    /// Returns the files of the repository that the book lacks and links to, and a finding for each link that leads
    /// nowhere.
    pub(super) fn follow(
        &self,
        is_in_repository: impl Fn(&str) -> bool,
    ) -> (BTreeSet<String>, Vec<TidyFinding>) {
        let (mut linked, mut findings) = (BTreeSet::new(), Vec::new());
        for (name, page) in self.pages.iter().filter(|(name, _)| *name != START) {
            for address in &page.foreign {
                let wrong = format!("`{address}` is loaded from the web");
                let remedy = "put the file into the repository, or link to it";
                findings.push(TidyFinding::file("book", &source_of(name), wrong, remedy));
            }
            for link in page.links.iter().filter(|link| !leads_to_the_web(link)) {
                match self.follow_link(name, link, &is_in_repository) {
                    Ok(file) => linked.extend(file),
                    Err(wrong) => {
                        findings.push(TidyFinding::file("book", &source_of(name), wrong, REMEDY));
                    }
                }
            }
        }
        (linked, findings)
    }

    /// Returns the file of the repository that a link leads to, or nothing if the book has the target.
    ///
    /// A document that is no chapter is no such file, because its own links would not be checked.
    fn follow_link(
        &self,
        from: &str,
        link: &str,
        is_in_repository: impl Fn(&str) -> bool,
    ) -> Result<Option<String>, String> {
        let nowhere = || format!("`{link}` leads nowhere");
        let (file, id) = link.split_once('#').unwrap_or((link, ""));
        let target = if file.is_empty() { Some(from.to_owned()) } else { resolve(from, file) };
        let target = target.ok_or_else(nowhere)?;
        if let Some(page) = self.pages.get(&target) {
            let is_known = id.is_empty() || page.ids.contains(id);
            let unknown = || format!("`{link}` names no heading of {}", source_of(&target));
            return if is_known { Ok(None) } else { Err(unknown()) };
        }
        if self.files.contains(&target) {
            return Ok(None);
        }
        let is_linked = is_in_repository(&target) && !has_extension(&target, "md");
        if is_linked { Ok(Some(target)) } else { Err(nowhere()) }
    }
}

impl Page {
    fn parse(html: &str) -> Self {
        let mut page = Self::default();
        for token in Tokenizer::new(html) {
            let Ok(Token::StartTag(tag)) = token else { continue };
            let is_anchor = tag.name.as_slice() == b"a";
            for (name, value) in tag.attributes {
                let value = String::from_utf8_lossy(&value.value).into_owned();
                match name.as_slice() {
                    b"href" | b"src" | b"srcset" if !is_anchor && is_foreign(&value) => {
                        page.foreign.insert(value);
                    }
                    b"id" => {
                        page.ids.insert(value);
                    }
                    b"href" | b"src" => {
                        page.links.insert(value);
                    }
                    // Addresses, each with a size.
                    b"srcset" => {
                        let addresses =
                            value.split(',').filter_map(|one| one.split_whitespace().next());
                        page.links.extend(addresses.map(str::to_owned));
                    }
                    _ => {}
                }
            }
        }
        page
    }
}

/// Returns whether a link has a scheme, as `https:` or `data:`, or names another host.
fn leads_to_the_web(link: &str) -> bool {
    let scheme = link.split_once(':').map(|(scheme, _)| scheme);
    let is_scheme =
        |scheme: &str| scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    link.starts_with("//") || scheme.is_some_and(is_scheme)
}

/// Returns whether an address is on the web, rather than data in the page itself.
fn is_foreign(address: &str) -> bool {
    leads_to_the_web(address) && !address.starts_with("data:")
}

/// Returns the document that a page was made of.
fn source_of(page: &str) -> String {
    page.strip_suffix(".html").map_or_else(|| page.to_owned(), |stem| format!("{stem}.md"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows the links of one page and compares the linked files and the findings.
    #[track_caller]
    fn check(html: &str, linked: &[&str], findings: &[&str]) {
        let pages = Pages {
            pages: [
                ("docs/A.html", html),
                ("index.html", "<a href='gone.html'>as in README.html</a>"),
                ("README.html", "<h2 id=why>Why</h2>"),
            ]
            .map(|(name, html)| (name.to_owned(), Page::parse(html)))
            .into(),
            files: [String::from("book.js")].into(),
        };
        let in_repository = ["docs/a.svg", "docs/b.svg", "docs/B.md", "LICENSE"];
        let (found, wrong) = pages.follow(|path| in_repository.contains(&path));
        assert_eq!(Vec::from_iter(found), linked, "{html}");
        let expected: Vec<_> =
            findings.iter().map(|wrong| format!("docs/A.md: {wrong}; {REMEDY}")).collect();
        assert_eq!(wrong.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{html}");
    }

    #[test]
    fn links_to_pages_headings_and_files_pass() {
        check("<p id='x'><a href='#x'>x</a> <a href='#'>top</a>", &[], &[]);
        check("<a href='../README.html'>x</a> <a href=\"../README.html#why\">y</a>", &[], &[]);
        check("<script src='../book.js'></script>", &[], &[]);
        check("<a href='https://a.example/gone'> <a href='mailto:a@b.example'>", &[], &[]);
        check("<img src='data:image/png;base64,AA=='> <a href='//a.example/gone'>", &[], &[]);
        check("<pre><code>&lt;a href='gone.html'&gt;</code></pre>", &[], &[]);
    }

    #[test]
    fn files_of_the_repository_are_linked() {
        check("<a href='../LICENSE'>x</a> <img src='a.svg'>", &["LICENSE", "docs/a.svg"], &[]);
        check("<source srcset='a.svg, b.svg 2x'>", &["docs/a.svg", "docs/b.svg"], &[]);
    }

    #[test]
    fn what_a_page_loads_from_the_web_is_a_finding() {
        for html in ["<img src='URL'>", "<link href='URL'>", "<source srcset='URL'>"] {
            let address = "https://a.example/x";
            let pages = Pages {
                pages: [(String::from("A.html"), Page::parse(&html.replace("URL", address)))]
                    .into(),
                files: BTreeSet::new(),
            };
            let (linked, findings) = pages.follow(|_| true);
            assert_eq!(linked, BTreeSet::new(), "{html}");
            assert_eq!(
                findings.iter().map(ToString::to_string).collect::<Vec<_>>(),
                ["A.md: `https://a.example/x` is loaded from the web; \
                  put the file into the repository, or link to it"],
                "{html}"
            );
        }
    }

    #[test]
    fn a_link_that_leads_nowhere_is_a_finding() {
        check("<a href='gone.html'>", &[], &["`gone.html` leads nowhere"]);
        check("<img src='gone.png'>", &[], &["`gone.png` leads nowhere"]);
        check("<a href='..'>", &[], &["`..` leads nowhere"]);
        check("<a href='../../README.html'>", &[], &["`../../README.html` leads nowhere"]);
        check("<a href='B.md'>", &[], &["`B.md` leads nowhere"]);
        check("<a href='#gone'>", &[], &["`#gone` names no heading of docs/A.md"]);
        let link = "../README.html#gone";
        check(
            &format!("<a href='{link}'>"),
            &[],
            &[&format!("`{link}` names no heading of README.md")],
        );
    }
}
