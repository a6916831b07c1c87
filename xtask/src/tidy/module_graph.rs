//! The modules of a crate, and the paths that each file names.
//!
//! It reads tokens and is no full parser of Rust. It understands `mod`, `use` with nested groups, and inline modules.
//! Paths count if they begin with `crate`, `self`, `super` or a module of the same file. Code that is compiled only for
//! tests is left out. Macros are read as if they were code.

use std::collections::BTreeMap;
use std::slice;

use crate::tidy::modules;
use crate::tidy::rust::{self, RustSource};

/// One module: a file, or an inline `mod name { … }` in one.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// The index of the file in the list of sources.
    pub(super) file: usize,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// The declarations `use`, without globs.
    uses: Vec<Use>,
    /// Other paths in the code, and what a glob opens.
    paths: Vec<Path>,
}

/// A path as it is written, and its line as an index.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Path {
    segments: Vec<String>,
    line: usize,
}

/// One name that a `use` brings into a module.
#[derive(Debug, PartialEq, Eq)]
struct Use {
    /// The name by which the module knows it.
    name: String,
    path: Path,
    /// Whether other modules may name it here, and this one does not itself.
    only_exports: bool,
}

/// One file imports from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ModuleImport {
    pub(super) from: usize,
    pub(super) to: usize,
    /// The line in `from`, as an index.
    pub(super) line: usize,
}

/// All modules that one root file leads to, the root first.
#[derive(Debug, Default)]
pub(super) struct Modules(Vec<Module>);

impl Modules {
    /// Reads the modules below a root file.
    pub(super) fn read(sources: &[RustSource<'_>], root: &str) -> Self {
        let mut modules = Self::default();
        let Some(file) = sources.iter().position(|source| source.path == root) else {
            return modules;
        };
        modules.0.push(Module { file, ..Module::default() });
        let mut waiting = vec![(0, modules::folder(root, true).to_owned())];
        while let Some((module, folder)) = waiting.pop() {
            let Some(source) = modules.0.get(module).and_then(|module| sources.get(module.file))
            else {
                continue;
            };
            for (parent, inner, name) in ModuleParser::read(&mut modules.0, module, source) {
                let path =
                    [slice::from_ref(&folder), &inner, slice::from_ref(&name)].concat().join("/");
                let file = format!("{path}.rs");
                if let Some(file) = sources.iter().position(|source| source.path == file) {
                    waiting.push((modules.add(parent, &name, file), path));
                }
            }
        }
        modules
    }

    fn add(&mut self, parent: usize, name: &str, file: usize) -> usize {
        add(&mut self.0, parent, name, file)
    }

    /// Returns the imports between files, each pair once, at its first line. The use of a child module does not count as
    /// an import, because the child is a part of the module.
    pub(super) fn imports(&self) -> Vec<ModuleImport> {
        let mut first: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for (index, module) in self.0.iter().enumerate() {
            let used = module.uses.iter().filter(|each| !each.only_exports).map(|each| &each.path);
            for path in used.chain(&module.paths) {
                let Some(target) = self.resolve(index, &path.segments, 0) else { continue };
                let to = self.0.get(target).map_or(module.file, |target| target.file);
                if to != module.file && !self.is_below(target, index) {
                    let line = first.entry((module.file, to)).or_insert(path.line);
                    *line = path.line.min(*line);
                }
            }
        }
        first.into_iter().map(|((from, to), line)| ModuleImport { from, to, line }).collect()
    }

    fn is_below(&self, module: usize, above: usize) -> bool {
        let parent = |module: &usize| self.0.get(*module).and_then(|module| module.parent);
        std::iter::successors(parent(&module), parent).any(|parent| parent == above)
    }

    /// Returns the module that defines the item of a path in `module`; `None` if it is outside the crate.
    fn resolve(&self, module: usize, segments: &[String], depth: usize) -> Option<usize> {
        // Two modules may import a name from each other by mistake; the compiler says so.
        const DEPTH_MAX: usize = 16;
        if depth > DEPTH_MAX {
            return Some(module);
        }
        let (first, mut rest) = segments.split_first()?;
        let mut at = match first.as_str() {
            "crate" => 0,
            "self" => module,
            "super" => self.0.get(module)?.parent?,
            name => *self.0.get(module)?.children.get(name)?,
        };
        while let Some((name, after)) = rest.split_first() {
            let here = self.0.get(at)?;
            at = match name.as_str() {
                "super" => here.parent?,
                name => match here.children.get(name) {
                    Some(child) => *child,
                    None => return Some(self.reexported(at, rest, depth).unwrap_or(at)),
                },
            };
            rest = after;
        }
        Some(at)
    }

    /// Returns the module that defines an item that `module` only reexports.
    fn reexported(&self, module: usize, segments: &[String], depth: usize) -> Option<usize> {
        let (name, after) = segments.split_first()?;
        let found = self.0.get(module)?.uses.iter().find(|each| each.name == *name)?;
        self.resolve(module, &[&found.path.segments, after].concat(), depth + 1)
    }
}

fn add(modules: &mut Vec<Module>, parent: usize, name: &str, file: usize) -> usize {
    let index = modules.len();
    modules.push(Module { file, parent: Some(parent), ..Module::default() });
    if let Some(parent) = modules.get_mut(parent) {
        parent.children.insert(name.to_owned(), index);
    }
    index
}

/// A module in another file: its parent, the inline modules between the file and it, and its name.
type DeclaredModule = (usize, Vec<String>, String);

/// Reads the tokens of one file.
struct ModuleParser<'a> {
    tokens: Vec<(usize, &'a str)>,
    at: usize,
    file: usize,
    /// The inline modules that are open, with the depth of braces around each.
    open: Vec<(usize, String, usize)>,
    declared: Vec<DeclaredModule>,
}

impl<'a> ModuleParser<'a> {
    /// Reads a file into its module, and returns the modules in other files that it declares.
    fn read(
        modules: &mut Vec<Module>,
        module: usize,
        source: &'a RustSource<'a>,
    ) -> Vec<DeclaredModule> {
        let lines = source.lines.iter().enumerate();
        let tokens = lines.flat_map(|(line, text)| {
            rust::tokens(&text.code).into_iter().map(move |token| (line, token))
        });
        let file = modules.get(module).map_or(0, |module| module.file);
        let open = vec![(module, String::new(), 0)];
        let mut reader = Self { tokens: tokens.collect(), at: 0, file, open, declared: Vec::new() };
        reader.items(modules);
        reader.declared
    }

    fn token(&self, ahead: usize) -> &'a str {
        self.tokens.get(self.at + ahead).map_or("", |(_, token)| token)
    }

    fn line(&self) -> usize {
        self.tokens.get(self.at).map_or(0, |(line, _)| *line)
    }

    fn behind(&self, back: usize) -> &'a str {
        let behind = self.at.checked_sub(back).and_then(|behind| self.tokens.get(behind));
        behind.map_or("", |(_, token)| token)
    }

    fn is_done(&self) -> bool {
        self.at >= self.tokens.len()
    }

    fn items(&mut self, modules: &mut Vec<Module>) {
        let mut depth = 0;
        while !self.is_done() {
            let module = self.open.last().map_or(0, |(module, _, _)| *module);
            match self.token(0) {
                "#" if ["[", "!"].contains(&self.token(1)) => {
                    if self.attribute() {
                        self.skip_item();
                    }
                }
                "mod" if self.token(2) == ";" => {
                    let inner = self.open.iter().skip(1).map(|(_, name, _)| name.clone()).collect();
                    self.declared.push((module, inner, self.token(1).to_owned()));
                    self.at += 3;
                }
                "mod" if self.token(2) == "{" => {
                    let name = self.token(1).to_owned();
                    let inline = add(modules, module, &name, self.file);
                    self.open.push((inline, name, depth));
                    depth += 1;
                    self.at += 3;
                }
                "use" if self.token(1) != "<" => {
                    let is_public = self.is_public();
                    self.at += 1;
                    if self.token(0) == ":" {
                        // `::name` is another crate, even if a module has the same name.
                        self.skip_import();
                    } else if let Some(module) = modules.get_mut(module) {
                        self.tree(&mut Vec::new(), module, is_public);
                    }
                }
                "{" => {
                    depth += 1;
                    self.at += 1;
                }
                "}" => {
                    depth = depth.saturating_sub(1);
                    if self.open.last().is_some_and(|(_, _, outside)| *outside == depth)
                        && self.open.len() > 1
                    {
                        self.open.pop();
                    }
                    self.at += 1;
                }
                _ => {
                    if let Some(module) = modules.get_mut(module) {
                        self.path(module);
                    }
                }
            }
        }
        self.resolve_exports(modules);
    }

    /// Skips an attribute, and returns whether the item that follows is compiled only for tests.
    fn attribute(&mut self) -> bool {
        let start = self.at;
        self.at += if self.token(1) == "!" { 2 } else { 1 };
        self.skip_group();
        let tokens: Vec<_> =
            self.tokens.iter().take(self.at).skip(start).map(|(_, token)| *token).collect();
        let is_test = [&["cfg", "(", "test"][..], &["cfg", "(", "all", "(", "test"]];
        is_test.into_iter().any(|row| tokens.windows(row.len()).any(|window| window == row))
    }

    /// Skips from an opening bracket past the one that closes it.
    fn skip_group(&mut self) {
        let mut depth = 0_usize;
        while !self.is_done() {
            match self.token(0) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }

    /// Skips the rest of a `use`.
    fn skip_import(&mut self) {
        while !self.is_done() && self.token(0) != ";" {
            self.at += 1;
        }
    }

    /// Skips an item, a field or a statement with its attributes.
    fn skip_item(&mut self) {
        const ITEMS: [&str; 11] = [
            "const", "enum", "extern", "fn", "impl", "mod", "static", "struct", "trait", "type",
            "use",
        ];
        let (mut is_item, mut is_import) = (false, false);
        while !self.is_done() {
            match self.token(0) {
                "#" if self.token(1) == "[" => {
                    self.at += 1;
                    self.skip_group();
                }
                word if ITEMS.contains(&word) => {
                    is_item = true;
                    is_import |= word == "use";
                    self.at += 1;
                }
                "," if !is_item => {
                    self.at += 1;
                    return;
                }
                "(" | "[" => self.skip_group(),
                "{" => {
                    self.skip_group();
                    if !is_import {
                        return;
                    }
                }
                ";" => {
                    self.at += 1;
                    return;
                }
                // The end of the block or list whose last part this was.
                ")" | "]" | "}" => return,
                _ => self.at += 1,
            }
        }
    }

    /// Returns whether the `use` at this position has a `pub` before it.
    fn is_public(&self) -> bool {
        let before = self.tokens.iter().take(self.at).rev();
        let words: Vec<_> = before.map(|(_, token)| *token).take(8).collect();
        match words.first() {
            Some(&"pub") => true,
            Some(&")") => {
                let open = words.iter().position(|word| *word == "(");
                open.and_then(|open| words.get(open + 1)) == Some(&"pub")
            }
            _ => false,
        }
    }

    /// Reads a tree of a `use` behind a prefix, up to what ends it.
    fn tree(&mut self, prefix: &mut Vec<String>, module: &mut Module, is_public: bool) {
        let kept = prefix.len();
        let line = self.line();
        let mut name = None;
        while !self.is_done() {
            match self.token(0) {
                ":" => self.at += 1,
                "{" => {
                    self.at += 1;
                    while !self.is_done() && self.token(0) != "}" {
                        self.tree(prefix, module, is_public);
                        if self.token(0) == "," {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    prefix.truncate(kept);
                    return;
                }
                "*" => {
                    self.at += 1;
                    module.paths.push(Path { segments: prefix.clone(), line });
                    prefix.truncate(kept);
                    return;
                }
                "as" => {
                    name = Some(self.token(1).to_owned());
                    self.at += 2;
                }
                "," | "}" | ";" => break,
                // `{self}` is the prefix itself.
                "self" if !prefix.is_empty() => self.at += 1,
                segment => {
                    prefix.push(segment.to_owned());
                    self.at += 1;
                }
            }
        }
        if let Some(name) = name.or_else(|| prefix.last().cloned()) {
            let path = Path { segments: prefix.clone(), line };
            module.uses.push(Use { name, path, only_exports: is_public });
        }
        prefix.truncate(kept);
    }

    /// Reads one path, or skips one token.
    fn path(&mut self, module: &mut Module) {
        let is_word = |token: &str| token.starts_with(|c: char| c.is_alphabetic() || c == '_');
        let goes_on = |reader: &Self| reader.token(1) == ":" && reader.token(2) == ":";
        let before = [self.behind(2), self.behind(1)];
        // The middle of a path, a method; and `pub(in crate::a)` imports nothing.
        let begins = before != [":", ":"] && before[1] != "." && before != ["(", "in"];
        if !begins || !is_word(self.token(0)) || !goes_on(self) {
            self.at += 1;
            return;
        }
        let line = self.line();
        let mut segments = vec![self.token(0).to_owned()];
        while goes_on(self) && is_word(self.token(3)) {
            self.at += 3;
            segments.push(self.token(0).to_owned());
        }
        self.at += 1;
        module.paths.push(Path { segments, line });
    }

    /// Finds the public imports whose names the file uses itself.
    fn resolve_exports(&self, modules: &mut [Module]) {
        for module in modules.iter_mut().filter(|module| module.file == self.file) {
            for each in &mut module.uses {
                let named = self
                    .tokens
                    .iter()
                    .filter(|(line, token)| *token == each.name && *line != each.path.line);
                each.only_exports &= named.count() == 0;
            }
        }
    }
}
