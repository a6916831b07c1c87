//! Checks that a compiler does not make: the layer table, import cycles, names, sizes, orphans, links, generated docs.
//!
//! A check is a pure function from the checkout, loaded as values, to findings. So its tests use small invented trees.
//! Exceptions are in `xtask/tidy.toml`, each with its reason. An exception that is no longer needed is a finding too.

mod allowed;
mod diagram;
mod files;
mod finding;
mod import_cycles;
mod layers;
mod limits;
mod markdown;
mod module_graph;
mod modules;
mod plain_words;
mod prose;
mod rust;
mod systems;
mod tree;
mod words;

use crate::tidy::allowed::Allowed;
pub(crate) use crate::tidy::finding::TidyFinding;
pub(crate) use crate::tidy::markdown::resolve;
pub(crate) use crate::tidy::tree::{SourceTree, has_extension};
use crate::workspace::CargoWorkspace;
use crate::{cargo, docs};

/// The arguments of `cargo xtask tidy`.
#[derive(Default, clap::Args)]
pub(crate) struct TidyArgs {
    /// Format the sources and write the generated references first
    #[arg(long)]
    fix: bool,
    /// Also print hints that are no findings, such as long files
    #[arg(long, short)]
    verbose: bool,
}

/// Runs all checks and prints the findings.
pub(crate) fn run(workspace: &CargoWorkspace, args: &TidyArgs) -> anyhow::Result<()> {
    if args.fix {
        cargo::run(cargo::command().current_dir(&workspace.root).args(["fmt", "--all"]))?;
        docs::write(workspace)?;
    }
    let tree = SourceTree::read(&workspace.root)?;
    let allowed = Allowed::parse(tree.text(allowed::PATH).unwrap_or_default())?;
    let found = allowed.filter(check(workspace, &tree, &allowed));
    let places = plain_words::report(&found);
    let mut findings = plain_words::compare(found, &allowed.plain_words);
    // Last, because it needs a build.
    if findings.is_empty() {
        findings = drift(workspace);
    }
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    if args.verbose {
        for hint in files::long(&tree) {
            println!("hint: {hint}");
        }
        let sources = rust::sources(&tree);
        for circles in import_cycles::read(&sources, &modules::roots(workspace, &tree)) {
            print!("hint: {circles}");
        }
        for place in places {
            println!("hint: {place}");
        }
    }
    anyhow::ensure!(findings.is_empty(), "tidy has {} findings", findings.len());
    Ok(())
}

/// Compares the generated references; a failure to generate them is a finding too.
fn drift(workspace: &CargoWorkspace) -> Vec<TidyFinding> {
    docs::drift(workspace).unwrap_or_else(|error| {
        let wrong = format!("cannot be compared ({error:#})");
        vec![TidyFinding::file("docs", "docs/reference", wrong, "make `lukasa reference` work")]
    })
}

/// Runs every check that needs no build.
fn check(workspace: &CargoWorkspace, tree: &SourceTree, allowed: &Allowed) -> Vec<TidyFinding> {
    let sources = rust::sources(tree);
    let roots = modules::roots(workspace, tree);
    [
        layers::layers(workspace),
        layers::homes(workspace),
        layers::lints(workspace, tree),
        files::names(tree),
        files::sizes(tree),
        files::headers(tree),
        files::machine_paths(tree),
        files::old_name(tree),
        limits::limits(&sources),
        systems::systems(&sources),
        words::type_names(&sources),
        words::code(&sources),
        words::sleeps(&sources),
        words::notes(tree, &sources),
        modules::test_binaries(tree),
        modules::orphans(&sources, &roots),
        import_cycles::unrecorded(&import_cycles::read(&sources, &roots), &allowed.circles),
        plain_words::places(tree, &sources, &allowed.repeated_types),
        diagram::diagram(tree, &workspace.tables.layers),
        markdown::links(tree),
        markdown::paths(tree),
        markdown::named_tests(tree),
        markdown::invariants(tree),
        markdown::changelog(tree),
    ]
    .concat()
}
