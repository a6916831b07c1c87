//! Edits of JSON, with or without notes, that leave every other byte as it is.
//!
//! A parser says where things are; what is added or left out is spliced into the text. The result is parsed again
//! and has to be the value that was meant, so that a text that reads in two ways, such as one with a name twice,
//! is refused and not changed.

use std::ops::Range;

use jsonc_parser::ast;
use jsonc_parser::tokens::{Token, TokenAndRange};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::{Map, Value};

use crate::install::ConfigError;
use crate::install::entry::{ConfigValue, LineStyle, quoted};

/// Why a range that the parser gave can be cut out of the text.
const IN_TEXT: &str = "a range of the parser lies within the text, between characters";

/// A step on the way to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathStep<'a> {
    /// The member of an object with this name.
    Member(&'a str),
    /// The item of a list at this place.
    Element(usize),
    /// A new item at the end of a list; comes last.
    New,
}

/// Returns what a text says. A text that holds nothing is an empty object.
pub(super) fn read(text: &str) -> Result<Value, ConfigError> {
    if text.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    Ok(ParsedText::new(text)?.root.into())
}

/// Puts a value at a place, and what is missing on the way there.
pub(super) fn insert(
    text: &str,
    at: &[PathStep<'_>],
    entry: &ConfigValue,
) -> Result<String, ConfigError> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let mut meant = read(text)?;
    let known = reach(&mut meant, at);
    let Some(place) = known.value else { return Err(ConfigError::Shape(path_text(at))) };
    *place = entry.value();
    let parsed = ParsedText::new(text)?;
    let splices = match at.get(..known.existing_steps).filter(|there| there.len() == at.len()) {
        Some(whole) => {
            let old = parsed.find(whole).ok_or_else(|| ConfigError::Form(path_text(at)))?;
            let indent = parsed.indent_of_line(old.start);
            vec![Splice { at: old, with: entry.render(parsed.lines(indent)) }]
        }
        None => parsed
            .insertion(at, known.existing_steps, entry)
            .ok_or_else(|| ConfigError::Form(path_text(at)))?,
    };
    check_result(apply_splices(text, splices), &meant, at)
}

/// Leaves out what is at a place, and what then holds nothing; the object that is the whole file stays.
pub(super) fn remove(text: &str, at: &[PathStep<'_>]) -> Result<String, ConfigError> {
    let parsed = ParsedText::new(text)?;
    let mut at = at;
    // What holds our entry alone goes with it.
    while let [above @ .., _] = at
        && !above.is_empty()
        && parsed.is_only_element(at)
    {
        at = above;
    }
    let mut meant = read(text)?;
    remove_value(&mut meant, at);
    let splices = parsed.removal(at).ok_or_else(|| ConfigError::Form(path_text(at)))?;
    check_result(apply_splices(text, splices), &meant, at)
}

fn check_result(text: String, meant: &Value, at: &[PathStep<'_>]) -> Result<String, ConfigError> {
    match read(&text) {
        Ok(read) if read == *meant => Ok(text),
        Ok(_) | Err(_) => Err(ConfigError::Form(path_text(at))),
    }
}

fn path_text(at: &[PathStep<'_>]) -> String {
    let names = at.iter().filter_map(|step| match step {
        PathStep::Member(name) => Some(*name),
        PathStep::Element(_) | PathStep::New => None,
    });
    names.collect::<Vec<_>>().join(".")
}

/// A place in a value, and how many steps towards it were there.
struct ReachedValue<'v> {
    value: Option<&'v mut Value>,
    existing_steps: usize,
}

/// Goes to a place, making what is missing.
fn reach<'v>(value: &'v mut Value, at: &[PathStep<'_>]) -> ReachedValue<'v> {
    let mut place = value;
    let mut there = 0;
    let mut missing = false;
    for step in at {
        if missing && place.is_null() {
            *place = match step {
                PathStep::Member(_) => Value::Object(Map::new()),
                PathStep::Element(_) | PathStep::New => Value::Array(Vec::new()),
            };
        }
        let next = match (step, place) {
            (PathStep::Member(name), Value::Object(members)) => {
                missing |= !members.contains_key(*name);
                Some(members.entry(*name).or_insert(Value::Null))
            }
            (PathStep::Element(index), Value::Array(items)) => items.get_mut(*index),
            (PathStep::New, Value::Array(items)) => {
                missing = true;
                items.push(Value::Null);
                items.last_mut()
            }
            _ => None,
        };
        let Some(next) = next else { return ReachedValue { value: None, existing_steps: there } };
        place = next;
        there += usize::from(!missing);
    }
    ReachedValue { value: Some(place), existing_steps: there }
}

fn remove_value(value: &mut Value, at: &[PathStep<'_>]) {
    let [way @ .., last] = at else { return };
    match (reach(value, way).value, last) {
        (Some(Value::Object(members)), PathStep::Member(name)) => {
            members.remove(*name);
        }
        (Some(Value::Array(items)), PathStep::Element(index)) if *index < items.len() => {
            items.remove(*index);
        }
        _ => {}
    }
}

/// A part of a text, and what comes in its stead.
struct Splice {
    at: Range<usize>,
    with: String,
}

/// Replaces parts of a text that do not overlap, given in order.
fn apply_splices(text: &str, splices: Vec<Splice>) -> String {
    let mut made = String::with_capacity(text.len());
    let mut done = 0;
    for Splice { at, with } in splices {
        made.push_str(text.get(done..at.start).expect(IN_TEXT));
        made.push_str(&with);
        done = at.end;
    }
    made.push_str(text.get(done..).expect(IN_TEXT));
    made
}

/// A text, and where things are in it.
struct ParsedText<'t> {
    text: &'t str,
    root: ast::Value<'t>,
    tokens: Vec<TokenAndRange<'t>>,
}

/// An object or list in the text.
struct Container {
    /// Between its brackets.
    inside: Range<usize>,
    /// What it holds, names included.
    items: Vec<Range<usize>>,
}

impl<'t> ParsedText<'t> {
    fn new(text: &'t str) -> Result<Self, ConfigError> {
        let options = ParseOptions {
            allow_loose_object_property_names: false,
            allow_missing_commas: false,
            allow_single_quoted_strings: false,
            allow_hexadecimal_numbers: false,
            allow_unary_plus_numbers: false,
            allow_bare_decimal_point_numbers: false,
            allow_non_finite_numbers: false,
            allow_extended_string_escapes: false,
            ..ParseOptions::default()
        };
        let collect = CollectOptions { tokens: true, ..CollectOptions::default() };
        let parsed =
            parse_to_ast(text, &collect, &options).map_err(|error| ConfigError::Syntax {
                line: error.line_display(),
                what: error.kind().to_string().to_lowercase(),
            })?;
        match (parsed.value, parsed.tokens) {
            (Some(root @ ast::Value::Object(_)), Some(tokens)) => Ok(Self { text, root, tokens }),
            _ => Err(ConfigError::Syntax { line: 1, what: "an object is expected".to_owned() }),
        }
    }

    fn value(&self, at: &[PathStep<'_>]) -> Option<&ast::Value<'t>> {
        at.iter().try_fold(&self.root, |value, step| match (step, value) {
            (PathStep::Member(name), ast::Value::Object(object)) => {
                object.get(name).map(|property| &property.value)
            }
            (PathStep::Element(index), ast::Value::Array(list)) => list.elements.get(*index),
            _ => None,
        })
    }

    fn find(&self, at: &[PathStep<'_>]) -> Option<Range<usize>> {
        self.value(at).map(range)
    }

    fn container(&self, at: &[PathStep<'_>]) -> Option<Container> {
        let value = self.value(at)?;
        let whole = range(value);
        let items = match value {
            ast::Value::Object(object) => object.properties.iter().map(range).collect(),
            ast::Value::Array(list) => list.elements.iter().map(range).collect(),
            _ => return None,
        };
        Some(Container { inside: whole.start + 1..whole.end.saturating_sub(1), items })
    }

    /// Returns how lines are broken here, `None` in a text of one line.
    fn lines<'a>(&self, indent: &'a str) -> Option<LineStyle<'a>>
    where
        't: 'a,
    {
        let root = self.container(&[])?;
        let unit = match root.items.first() {
            Some(first) => self.indent_of(first.start).filter(|indent| !indent.is_empty()),
            None => Some("  "),
        };
        let end = if self.text.contains("\r\n") { "\r\n" } else { "\n" };
        Some(LineStyle { end, unit: unit?, indent })
    }

    /// Returns the white space before something that begins its line.
    fn indent_of(&self, offset: usize) -> Option<&'t str> {
        let before = self.text.get(..offset)?;
        let begun = before.trim_end_matches([' ', '\t']);
        if begun.ends_with('\n') { before.get(begun.len()..) } else { None }
    }

    /// Returns the white space that a line begins with.
    fn indent_of_line(&self, offset: usize) -> &'t str {
        let before = self.text.get(..offset).expect(IN_TEXT);
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = self.text.get(start..).expect(IN_TEXT);
        let blank = line.len() - line.trim_start_matches([' ', '\t']).len();
        line.get(..blank).expect(IN_TEXT)
    }

    /// Adds a value, and what is missing on the way to it. `there` steps are there already.
    fn insertion(
        &self,
        at: &[PathStep<'_>],
        there: usize,
        entry: &ConfigValue,
    ) -> Option<Vec<Splice>> {
        let (known, missing) = at.split_at_checked(there)?;
        let (first, deeper) = missing.split_first()?;
        let container = self.container(known)?;
        let outer = self.indent_of_line(container.inside.start);
        let inner = match container.items.first() {
            Some(item) => self.indent_of(item.start).map(str::to_owned),
            None => self.lines(outer).map(LineStyle::indent_of_items),
        };
        let lines = inner.as_deref().and_then(|inner| self.lines(inner));
        let written = render_entry(first, deeper, entry, lines);
        match (container.items.last(), lines) {
            (None, None) => Some(vec![Splice { at: container.inside, with: written }]),
            (None, Some(lines)) => {
                let notes = self.text.get(container.inside.clone())?.trim_end();
                let at = container.inside.start + notes.len()..container.inside.end;
                let LineStyle { end, indent, .. } = lines;
                Some(vec![Splice { at, with: format!("{end}{indent}{written}{end}{outer}") }])
            }
            (Some(last), lines) => {
                let comma = self.comma(last.end..container.inside.end);
                let mut splices = Vec::new();
                if comma.is_none() {
                    splices.push(Splice { at: last.end..last.end, with: ",".to_owned() });
                }
                let after = comma.as_ref().map_or(last.end, |comma| comma.end);
                let place = if lines.is_some() { self.end_of_line(after) } else { after };
                let lead = lines.map_or(" ".to_owned(), |LineStyle { end, indent, .. }| {
                    format!("{end}{indent}")
                });
                let tail = if comma.is_some() { "," } else { "" };
                splices.push(Splice { at: place..place, with: format!("{lead}{written}{tail}") });
                Some(splices)
            }
        }
    }

    /// Tells whether nothing but this is in what it is in.
    fn is_only_element(&self, at: &[PathStep<'_>]) -> bool {
        let [way @ .., _] = at else { return false };
        self.container(way).is_some_and(|container| match container.items.as_slice() {
            [only] => {
                self.is_blank(container.inside.start..only.start)
                    && self.is_blank(only.end..container.inside.end)
            }
            _ => false,
        })
    }

    /// Tells whether there is nothing but white space and the comma after an item.
    fn is_blank(&self, at: Range<usize>) -> bool {
        let text = self.text.get(at).expect(IN_TEXT);
        text.chars().all(|c| c.is_whitespace() || c == ',')
    }

    fn removal(&self, at: &[PathStep<'_>]) -> Option<Vec<Splice>> {
        let [way @ .., last] = at else { return None };
        let container = self.container(way)?;
        if self.is_only_element(at) {
            return Some(vec![Splice { at: container.inside, with: String::new() }]);
        }
        let index = match (last, self.value(way)?) {
            (PathStep::Element(index), _) => *index,
            (PathStep::Member(name), ast::Value::Object(object)) => {
                object.properties.iter().position(|member| member.name.as_str() == *name)?
            }
            _ => return None,
        };
        let item = container.items.get(index)?;
        let begun = self.start_with_line(item.start);
        let next = container.items.get(index + 1).map_or(container.inside.end, |next| next.start);
        let after = self.comma(item.end..next);
        let before = index.checked_sub(1).and_then(|before| container.items.get(before));
        let comma_before = match (&after, before) {
            (None, Some(before)) => Some(self.comma(before.end..item.start)?),
            _ => None,
        };
        let item = begun..item.end;
        let ranges = comma_before.into_iter().chain([item]).chain(after);
        Some(ranges.map(|at| Splice { at, with: String::new() }).collect())
    }

    /// Returns where the white space before something begins, its own line's beginning included.
    fn start_with_line(&self, offset: usize) -> usize {
        let before = self.text.get(..offset).expect(IN_TEXT);
        let blank = before.trim_end_matches([' ', '\t']);
        let line = blank.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
        line.unwrap_or(blank).len()
    }

    /// Returns where a line ends, if nothing but notes follows.
    fn end_of_line(&self, offset: usize) -> usize {
        let rest = self.text.get(offset..).expect(IN_TEXT);
        let line = rest.lines().next().unwrap_or_default();
        let text = line.trim();
        let is_note = text.starts_with("//")
            || (text.starts_with("/*") && text.find("*/") == Some(text.len().saturating_sub(2)));
        if is_note { offset + line.trim_end().len() } else { offset }
    }

    fn comma(&self, within: Range<usize>) -> Option<Range<usize>> {
        let commas = self.tokens.iter().filter(|token| token.token == Token::Comma);
        let mut ranges = commas.map(|token| token.range.start..token.range.end);
        ranges.find(|comma| within.start <= comma.start && comma.end <= within.end)
    }
}

fn range(node: &impl jsonc_parser::common::Ranged) -> Range<usize> {
    let range = node.range();
    range.start..range.end
}

/// Writes an item with what is missing on the way to the entry around it.
fn render_entry(
    first: &PathStep<'_>,
    deeper: &[PathStep<'_>],
    entry: &ConfigValue,
    lines: Option<LineStyle<'_>>,
) -> String {
    let inner = match deeper.split_first() {
        None => entry.render(lines),
        Some((next, deeper)) => {
            let indent = lines.map(LineStyle::indent_of_items);
            let within = indent.as_deref().and_then(|indent| Some(LineStyle { indent, ..lines? }));
            let inner = render_entry(next, deeper, entry, within);
            let (open, close) = match next {
                PathStep::Member(_) => ('{', '}'),
                PathStep::Element(_) | PathStep::New => ('[', ']'),
            };
            match (within, lines) {
                (Some(LineStyle { end, indent, .. }), Some(outer)) => {
                    format!("{open}{end}{indent}{inner}{end}{}{close}", outer.indent)
                }
                _ => format!("{open}{inner}{close}"),
            }
        }
    };
    match first {
        PathStep::Member(name) => format!("{}: {inner}", quoted(name)),
        PathStep::Element(_) | PathStep::New => inner,
    }
}
