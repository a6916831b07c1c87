//! Edits of JSON, with or without comments, that leave every other byte unchanged.
//!
//! A parser yields the positions of values, and edits are spliced into the text. The result is parsed again and must be
//! the intended value. So an ambiguous text, such as one with a duplicate name, is refused and not changed.

use std::ops::Range;

use jsonc_parser::ast;
use jsonc_parser::tokens::{Token, TokenAndRange};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::{Map, Value};

use crate::install::ConfigError;
use crate::install::entry::{ConfigValue, LineStyle, quoted};

/// The message if a range of the parser cannot be cut out of the text.
const IN_TEXT: &str = "a range of the parser lies within the text, between characters";

/// A step of the path to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathStep<'a> {
    /// The member of an object with this name.
    Member(&'a str),
    /// The item of a list with this index.
    Element(usize),
    /// A new item at the end of a list; only as the last step.
    New,
}

/// Parses a text. An empty text is an empty object.
pub(super) fn read(text: &str) -> Result<Value, ConfigError> {
    if text.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    Ok(ParsedText::new(text)?.root.into())
}

/// Sets the value at a path, creating missing parents.
pub(super) fn insert(
    text: &str,
    at: &[PathStep<'_>],
    entry: &ConfigValue,
) -> Result<String, ConfigError> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let mut meant = read(text)?;
    let reached = reach(&mut meant, at);
    let Some(target) = reached.value else { return Err(ConfigError::Shape(path_text(at))) };
    *target = entry.value();
    let parsed = ParsedText::new(text)?;
    let existing = at.get(..reached.existing_steps);
    let splices = match existing.filter(|existing| existing.len() == at.len()) {
        Some(whole) => {
            let old = parsed.find(whole).ok_or_else(|| ConfigError::Form(path_text(at)))?;
            let indent = parsed.indent_of_line(old.start);
            vec![Splice { at: old, with: entry.render(parsed.lines(indent)) }]
        }
        None => parsed
            .insertion(at, reached.existing_steps, entry)
            .ok_or_else(|| ConfigError::Form(path_text(at)))?,
    };
    check_result(apply_splices(text, splices), &meant, at)
}

/// Removes the value at a path, and parents that are empty then; the root object stays.
pub(super) fn remove(text: &str, at: &[PathStep<'_>]) -> Result<String, ConfigError> {
    let parsed = ParsedText::new(text)?;
    let mut at = at;
    // A parent that holds only our entry is removed with it.
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

/// A value at a path, and the number of steps that existed before.
struct ReachedValue<'v> {
    value: Option<&'v mut Value>,
    existing_steps: usize,
}

/// Walks to a path, creating missing values.
fn reach<'v>(value: &'v mut Value, at: &[PathStep<'_>]) -> ReachedValue<'v> {
    let mut current = value;
    let mut existing_steps = 0;
    let mut missing = false;
    for step in at {
        if missing && current.is_null() {
            *current = match step {
                PathStep::Member(_) => Value::Object(Map::new()),
                PathStep::Element(_) | PathStep::New => Value::Array(Vec::new()),
            };
        }
        let next = match (step, current) {
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
        let Some(next) = next else { return ReachedValue { value: None, existing_steps } };
        current = next;
        existing_steps += usize::from(!missing);
    }
    ReachedValue { value: Some(current), existing_steps }
}

fn remove_value(value: &mut Value, at: &[PathStep<'_>]) {
    let [parent @ .., last] = at else { return };
    match (reach(value, parent).value, last) {
        (Some(Value::Object(members)), PathStep::Member(name)) => {
            members.remove(*name);
        }
        (Some(Value::Array(items)), PathStep::Element(index)) if *index < items.len() => {
            items.remove(*index);
        }
        _ => {}
    }
}

/// A part of a text and its replacement.
struct Splice {
    at: Range<usize>,
    with: String,
}

/// Applies splices that do not overlap and are in order.
fn apply_splices(text: &str, splices: Vec<Splice>) -> String {
    let mut edited = String::with_capacity(text.len());
    let mut end = 0;
    for Splice { at, with } in splices {
        edited.push_str(text.get(end..at.start).expect(IN_TEXT));
        edited.push_str(&with);
        end = at.end;
    }
    edited.push_str(text.get(end..).expect(IN_TEXT));
    edited
}

/// A text with its syntax tree.
struct ParsedText<'t> {
    text: &'t str,
    root: ast::Value<'t>,
    tokens: Vec<TokenAndRange<'t>>,
}

/// An object or list in the text.
struct Container {
    /// The range between the brackets.
    inside: Range<usize>,
    /// The ranges of the items, names included.
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

    /// Returns the line style at an indentation; `None` in a text of one line.
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

    /// Returns the white space before an item; `None` if the item is not the first one on its line.
    fn indent_of(&self, offset: usize) -> Option<&'t str> {
        let before = self.text.get(..offset)?;
        let trimmed = before.trim_end_matches([' ', '\t']);
        if trimmed.ends_with('\n') { before.get(trimmed.len()..) } else { None }
    }

    /// Returns the white space at the start of the line of an offset.
    fn indent_of_line(&self, offset: usize) -> &'t str {
        let before = self.text.get(..offset).expect(IN_TEXT);
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = self.text.get(start..).expect(IN_TEXT);
        let blank = line.len() - line.trim_start_matches([' ', '\t']).len();
        line.get(..blank).expect(IN_TEXT)
    }

    /// Returns the splices that add a value and its missing parents; `existing_steps` of the path exist.
    fn insertion(
        &self,
        at: &[PathStep<'_>],
        existing_steps: usize,
        entry: &ConfigValue,
    ) -> Option<Vec<Splice>> {
        let (existing, missing) = at.split_at_checked(existing_steps)?;
        let (first, deeper) = missing.split_first()?;
        let container = self.container(existing)?;
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
                let offset = if lines.is_some() { self.end_of_line(after) } else { after };
                let lead = lines.map_or(" ".to_owned(), |LineStyle { end, indent, .. }| {
                    format!("{end}{indent}")
                });
                let tail = if comma.is_some() { "," } else { "" };
                splices.push(Splice { at: offset..offset, with: format!("{lead}{written}{tail}") });
                Some(splices)
            }
        }
    }

    /// Checks whether a value is alone in its container, without comments beside it.
    fn is_only_element(&self, at: &[PathStep<'_>]) -> bool {
        let [parent @ .., _] = at else { return false };
        self.container(parent).is_some_and(|container| match container.items.as_slice() {
            [only] => {
                self.is_blank(container.inside.start..only.start)
                    && self.is_blank(only.end..container.inside.end)
            }
            _ => false,
        })
    }

    /// Checks whether a range holds only white space and commas.
    fn is_blank(&self, at: Range<usize>) -> bool {
        let text = self.text.get(at).expect(IN_TEXT);
        text.chars().all(|c| c.is_whitespace() || c == ',')
    }

    fn removal(&self, at: &[PathStep<'_>]) -> Option<Vec<Splice>> {
        let [parent @ .., last] = at else { return None };
        let container = self.container(parent)?;
        if self.is_only_element(at) {
            return Some(vec![Splice { at: container.inside, with: String::new() }]);
        }
        let index = match (last, self.value(parent)?) {
            (PathStep::Element(index), _) => *index,
            (PathStep::Member(name), ast::Value::Object(object)) => {
                object.properties.iter().position(|member| member.name.as_str() == *name)?
            }
            _ => return None,
        };
        let item = container.items.get(index)?;
        let start = self.start_with_line(item.start);
        let next = container.items.get(index + 1).map_or(container.inside.end, |next| next.start);
        let after = self.comma(item.end..next);
        let before = index.checked_sub(1).and_then(|before| container.items.get(before));
        let comma_before = match (&after, before) {
            (None, Some(before)) => Some(self.comma(before.end..item.start)?),
            _ => None,
        };
        let item = start..item.end;
        let ranges = comma_before.into_iter().chain([item]).chain(after);
        Some(ranges.map(|at| Splice { at, with: String::new() }).collect())
    }

    /// Returns the offset at which the white space before an item starts, its line break included.
    fn start_with_line(&self, offset: usize) -> usize {
        let before = self.text.get(..offset).expect(IN_TEXT);
        let blank = before.trim_end_matches([' ', '\t']);
        let line = blank.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
        line.unwrap_or(blank).len()
    }

    /// Returns the offset of the line end, if only a comment follows on the line; else `offset`.
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

/// Renders an entry with its missing parents around it.
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
