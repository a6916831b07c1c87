//! Finds import cycles: files of a crate that each lead to each other, so that none can be read alone.
//!
//! Cycles of up to three files are allowed. `xtask/tidy.toml` records the sizes of larger ones. A cycle that becomes
//! smaller is a finding too, so that the record is lowered.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::tidy::allowed;
use crate::tidy::finding::TidyFinding;
use crate::tidy::module_graph::{ModuleImport, Modules};
use crate::tidy::rust::RustSource;

/// The size up to which a cycle is no finding.
const FILES_MAX: usize = 3;

/// The import cycles of a crate, the largest first.
#[derive(Debug)]
pub(super) struct ImportCycles {
    /// The folder of the crate, from the root.
    folder: String,
    cycles: Vec<ImportCycle>,
}

/// For each file of a cycle, the files of the cycle that it imports, each with the line.
type ImportCycle = BTreeMap<String, Vec<(String, usize)>>;

/// Finds the cycles of every crate that has any.
pub(super) fn read(sources: &[RustSource<'_>], roots: &[String]) -> Vec<ImportCycles> {
    let mut crates: BTreeMap<&str, Vec<ModuleImport>> = BTreeMap::new();
    for root in roots {
        if let Some((folder, _)) = root.split_once("/src/") {
            crates.entry(folder).or_default().extend(Modules::read(sources, root).imports());
        }
    }
    let found = crates.into_iter().map(|(folder, imports)| {
        let mut circles: Vec<ImportCycle> = components(&imports)
            .iter()
            .filter(|files| files.len() > FILES_MAX)
            .map(|files| import_cycle(sources, &format!("{folder}/src/"), files, &imports))
            .collect();
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        ImportCycles { folder: folder.to_owned(), cycles: circles }
    });
    found.filter(|each| !each.cycles.is_empty()).collect()
}

/// Describes a cycle with the paths of its files below `folder`.
fn import_cycle(
    sources: &[RustSource<'_>],
    folder: &str,
    files: &[usize],
    imports: &[ModuleImport],
) -> ImportCycle {
    let name = |file: usize| {
        let path = sources.get(file).map_or("", |source| source.path);
        path.strip_prefix(folder).unwrap_or(path).to_owned()
    };
    let within = |from: usize| {
        let imports = imports.iter().filter(move |import| import.from == from);
        imports.filter(|import| files.contains(&import.to))
    };
    files
        .iter()
        .map(|from| (name(*from), within(*from).map(|each| (name(each.to), each.line)).collect()))
        .collect()
}

/// Compares the cycles with the recorded sizes of each crate.
pub(super) fn unrecorded(
    found: &[ImportCycles],
    recorded: &BTreeMap<String, Vec<usize>>,
) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for crate_circles in found {
        let sizes = crate_circles.sizes();
        let allowed = recorded.get(&crate_circles.folder).map_or(&[][..], Vec::as_slice);
        if sizes != allowed {
            let wrong = format!(
                "has circles of imports of {sizes:?} files, {} records {allowed:?}",
                allowed::PATH
            );
            let remedy = format!("break them, or lower the record\n{crate_circles}");
            findings.push(TidyFinding::file("circles", &crate_circles.folder, wrong, remedy));
        }
    }
    for folder in recorded.keys() {
        if !found.iter().any(|each| each.folder == *folder) {
            let wrong = format!("{folder} has no circle of imports that could be recorded");
            findings.push(TidyFinding::file("circles", allowed::PATH, wrong, "remove its line"));
        }
    }
    findings
}

impl ImportCycles {
    /// Returns the number of files of each cycle.
    fn sizes(&self) -> Vec<usize> {
        self.cycles.iter().map(BTreeMap::len).collect()
    }
}

impl fmt::Display for ImportCycles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for circle in &self.cycles {
            writeln!(f, "{}: {} files import each other in a circle", self.folder, circle.len())?;
            for (file, imports) in circle {
                write!(f, "  {file} imports")?;
                for (index, (imported, line)) in imports.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    write!(f, "{comma} {imported} (line {})", line + 1)?;
                }
                writeln!(f)?;
            }
        }
        Ok(())
    }
}

/// Returns the strongly connected components of the graph, each sorted: files that lead to each other.
fn components(imports: &[ModuleImport]) -> Vec<Vec<usize>> {
    let files: BTreeSet<usize> = imports.iter().map(|import| import.from).collect();
    let reached: BTreeMap<usize, BTreeSet<usize>> =
        files.into_iter().map(|file| (file, reached_from(file, imports))).collect();
    let leads_to = |from: usize, to: usize| reached.get(&from).is_some_and(|all| all.contains(&to));
    let circles = reached.iter().map(|(file, all)| {
        all.iter().copied().filter(|other| leads_to(*other, *file)).collect::<Vec<_>>()
    });
    circles.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns the files that a file leads to; itself only if it is in a cycle.
fn reached_from(file: usize, imports: &[ModuleImport]) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![file];
    while let Some(from) = waiting.pop() {
        let next = imports.iter().filter(|import| import.from == from).map(|import| import.to);
        waiting.extend(next.filter(|to| reached.insert(*to)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::finding::printed;
    use crate::tidy::rust;
    use crate::tidy::tree::SourceTree;

    /// Returns the imports below `a/src/`, as `file.rs:line file.rs`.
    #[track_caller]
    fn check_imports(files: &[(&str, &str)], expected: &[&str]) {
        let tree = tree(files);
        let sources = rust::sources(&tree);
        let name = |file: usize| sources[file].path.strip_prefix("a/src/").unwrap();
        let imports = Modules::read(&sources, "a/src/lib.rs").imports();
        let mut found: Vec<_> = imports
            .iter()
            .map(|each| format!("{}:{} {}", name(each.from), each.line + 1, name(each.to)))
            .collect();
        found.sort();
        assert_eq!(found, expected, "{files:?}");
    }

    fn tree(files: &[(&str, &str)]) -> SourceTree {
        files.iter().map(|(path, text)| (format!("a/src/{path}"), (*text).to_owned())).collect()
    }

    #[test]
    fn a_path_leads_to_the_file_of_its_module() {
        let modules = ("lib.rs", "mod a; mod b; mod c;");
        let rest = [("b.rs", "mod d;"), ("b/d.rs", ""), ("c.rs", "")];
        let check = |text: &str, expected: &[&str]| {
            check_imports(&[&[modules, ("a.rs", text)], &rest[..]].concat(), expected);
        };
        check("use crate::b::B;", &["a.rs:1 b.rs"]);
        check("use crate::b::d::{self, D};", &["a.rs:1 b/d.rs"]);
        check("use crate::{b::d::{D, e}, c::C as X};", &["a.rs:1 b/d.rs", "a.rs:1 c.rs"]);
        check("\nuse super::b;", &["a.rs:2 b.rs"]);
        check("pub(super) use super::c::C;\nfn f(c: C) {}", &["a.rs:1 c.rs"]);
        check("fn f() { for x in crate::c::list::<X>() {} }", &["a.rs:1 c.rs"]);
        check("use crate::b::d::*;", &["a.rs:1 b/d.rs"]);
        check("pub(in crate::c) fn f() {}", &[]);
        check("use ::b::B; use std::c::C; use c::d; fn f() -> b::d {}", &[]);
        check("// crate::b::x\nconst TEXT: &str = \"crate::b::x\";", &[]);
        check("use crate::a::A; use self::B;", &[]);
    }

    #[test]
    fn a_parent_module_does_not_import_its_children() {
        let child = ("b.rs", "use super::super::a;\nuse super::C;");
        let check = |text: &str, expected: &[&str]| {
            let files = [("lib.rs", "mod a;"), ("a.rs", text), ("a/b.rs", child.1)];
            check_imports(&files, expected);
        };
        check("mod b;", &["a/b.rs:1 a.rs"]);
        check("mod b;\nuse b::B;", &["a/b.rs:1 a.rs"]);
        check("mod b;\nfn f() { b::f() }", &["a/b.rs:1 a.rs"]);
        check("mod b;\nfn f() { x.b::<T>(); c::b::d() }", &["a/b.rs:1 a.rs"]);
    }

    #[test]
    fn an_import_through_another_module_leads_to_the_file_that_defines_the_name() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; pub use b::{B, D as E};"),
            ("a.rs", "use crate::B;\nuse crate::E;\nuse crate::Other;"),
            ("b.rs", "mod d; pub use d::D; pub struct B;"),
            ("b/d.rs", "pub struct D;"),
            ("c.rs", "use crate::b::{B,\nD};"),
        ];
        let expected =
            ["a.rs:1 b.rs", "a.rs:2 b/d.rs", "a.rs:3 lib.rs", "c.rs:1 b.rs", "c.rs:2 b/d.rs"];
        check_imports(&files, &expected);
    }

    #[test]
    fn test_code_imports_nothing() {
        let check = |text: &str, expected: &[&str]| {
            let files =
                [("lib.rs", "mod a; mod b; mod c;"), ("a.rs", text), ("b.rs", ""), ("c.rs", "")];
            check_imports(&files, expected);
        };
        check(
            "#[cfg(test)] mod tests { use crate::b; fn f() {} } use crate::c::C;",
            &["a.rs:1 c.rs"],
        );
        check(
            "#[cfg(test)]\n#[path = \"x\"]\nuse crate::b::{B, C}; use crate::c::C;",
            &["a.rs:3 c.rs"],
        );
        check(
            "struct A { #[cfg(all(test, unix))] b: crate::b::B, c: crate::c::C }",
            &["a.rs:1 c.rs"],
        );
        check("#[cfg(not(test))] use crate::b::B;", &["a.rs:1 b.rs"]);
        let tests = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "#[cfg(test)] mod tests;"),
            ("a/tests.rs", "use crate::b;"),
            ("b.rs", ""),
        ];
        check_imports(&tests, &[]);
    }

    #[test]
    fn an_inline_module_belongs_to_its_file() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "mod x {\nuse super::super::b; mod y; }\nuse super::c;"),
            ("a/x/y.rs", "use super::super::A;"),
            ("b.rs", "use crate::a::x::X;"),
            ("c.rs", ""),
        ];
        let expected = ["a.rs:2 b.rs", "a.rs:3 c.rs", "a/x/y.rs:1 a.rs", "b.rs:1 a.rs"];
        check_imports(&files, &expected);
    }

    /// Four files in a cycle, and two that import each other.
    const FILES: [(&str, &str); 7] = [
        ("lib.rs", "mod a; mod b; mod c; mod d; mod e; mod f;"),
        ("a.rs", "use crate::b;\n\nuse crate::e;"),
        ("b.rs", "use crate::{a, c};"),
        ("c.rs", "use crate::d;"),
        ("d.rs", "use crate::a;"),
        ("e.rs", "use crate::f;"),
        ("f.rs", "use crate::e;"),
    ];

    fn findings_of(recorded: &[(&str, &[usize])]) -> Vec<String> {
        let tree = tree(&FILES);
        let circles = read(&rust::sources(&tree), &["a/src/lib.rs".to_owned()]);
        let recorded =
            recorded.iter().map(|(folder, sizes)| ((*folder).to_owned(), sizes.to_vec()));
        printed(&unrecorded(&circles, &recorded.collect()))
    }

    #[test]
    fn a_cycle_of_more_than_three_files_is_shown_with_its_imports() {
        insta::assert_snapshot!(findings_of(&[]).join("\n"), @r"
        a: has circles of imports of [4] files, xtask/tidy.toml records []; break them, or lower the record
        a: 4 files import each other in a circle
          a.rs imports b.rs (line 1)
          b.rs imports a.rs (line 1), c.rs (line 1)
          c.rs imports d.rs (line 1)
          d.rs imports a.rs (line 1)
        ");
    }

    #[test]
    fn a_record_has_the_exact_size() {
        assert_eq!(findings_of(&[("a", &[4])]), [""; 0]);
        let starts = |recorded: &[(&str, &[usize])]| {
            let found = findings_of(recorded);
            found.iter().map(|each| each.split(';').next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let wrong = "a: has circles of imports of [4] files, xtask/tidy.toml records";
        assert_eq!(starts(&[("a", &[5])]), [format!("{wrong} [5]")]);
        assert_eq!(starts(&[("a", &[4, 4])]), [format!("{wrong} [4, 4]")]);
        assert_eq!(
            starts(&[("a", &[4]), ("b", &[4])]),
            ["xtask/tidy.toml: b has no circle of imports that could be recorded"]
        );
    }
}
