//! Builds the fields of a frontmatter from the events of the YAML parser.
//!
//! The depth and the number of values are bounded, including values that anchors keep and aliases repeat, so that a
//! hostile file cannot exhaust time or memory.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};

use crate::document::frontmatter::{Field, FieldValue};
use crate::limits::{FRONTMATTER_DEPTH_MAX, FRONTMATTER_NODES_MAX};

/// The bytes of a text that count as one value if an anchor keeps it or an alias repeats it.
const BYTES_PER_KEPT_NODE: usize = 16;

/// An error in the YAML at this line, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct YamlError(pub(super) usize);

impl From<ScanError> for YamlError {
    fn from(error: ScanError) -> Self {
        Self(error.marker().line())
    }
}

/// Returns the fields of a block that is a mapping or empty; `None` for anything else.
pub(super) fn fields(yaml: &str) -> Result<Option<Vec<Field>>, YamlError> {
    let options = granit_parser::options! {
        flow_nesting_limit: FRONTMATTER_DEPTH_MAX,
        block_nesting_limit: FRONTMATTER_DEPTH_MAX,
    };
    let parser = Parser::new_from_str_with_options(yaml, options);
    YamlReader { parser, anchors: BTreeMap::new(), nodes: 0 }.document()
}

/// Checks whether a plain scalar is null in YAML 1.2.
pub(super) fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

struct YamlReader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    /// The values that aliases may repeat, by the parser's number of the anchor.
    anchors: BTreeMap<usize, AnchoredNode>,
    /// The number of values so far, including those that anchors keep and aliases repeat.
    nodes: usize,
}

#[derive(Clone)]
struct AnchoredNode {
    value: FieldValue,
    /// The number of values that it counts as.
    nodes: usize,
    /// The depth of nested lists and mappings.
    depth: usize,
}

impl<'a> YamlReader<'a> {
    fn document(mut self) -> Result<Option<Vec<Field>>, YamlError> {
        let mut found = Some(Vec::new());
        let mut is_first = true;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(found),
                Event::StreamStart | Event::DocumentEnd => {}
                Event::DocumentStart(..) if is_first => is_first = false,
                Event::DocumentStart(..) => return Err(error_at(span)),
                Event::MappingStart(..) => found = Some(self.root_mapping()?),
                event => match self.value_of(event, span, 0)?.0 {
                    FieldValue::Null => {}
                    FieldValue::Text(_) | FieldValue::Mapping(_) | FieldValue::List(_) => {
                        found = None;
                    }
                },
            }
        }
    }

    /// Returns the next event; after the last one, always the end of the stream.
    fn next(&mut self) -> Result<(Event<'a>, Span), YamlError> {
        Ok(self.parser.next_event().unwrap_or(Ok((Event::StreamEnd, Span::default())))?)
    }

    /// Parses the outermost mapping, with the positions of keys and values.
    fn root_mapping(&mut self) -> Result<Vec<Field>, YamlError> {
        let mut fields = Vec::new();
        self.read_children(&Event::MappingEnd, |reader, event, span| {
            let key = reader.key(event, span)?;
            let (value, value_at) = reader.value(1)?;
            fields.push(Field {
                key,
                value,
                key_start: byte_range(span).start,
                value_range: value_at,
            });
            Ok(())
        })?;
        Ok(fields)
    }

    /// Calls `read` with the first event of each child of a list or mapping. Returns the offset of its end.
    fn read_children(
        &mut self,
        end: &Event<'static>,
        mut read: impl FnMut(&mut Self, Event<'a>, Span) -> Result<(), YamlError>,
    ) -> Result<usize, YamlError> {
        loop {
            let (event, span) = self.next()?;
            if event == *end {
                return Ok(byte_range(span).end);
            }
            read(self, event, span)?;
        }
    }

    /// Parses the next value, at nesting level `depth`; returns it with its range.
    fn value(&mut self, depth: usize) -> Result<(FieldValue, Range<usize>), YamlError> {
        let (event, span) = self.next()?;
        self.value_of(event, span, depth)
    }

    fn value_of(
        &mut self,
        event: Event<'a>,
        span: Span,
        depth: usize,
    ) -> Result<(FieldValue, Range<usize>), YamlError> {
        self.count(1, span)?;
        let mut written = byte_range(span);
        let (anchor, value) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                (anchor, scalar(text, style, tag.as_deref()))
            }
            Event::Alias(anchor) => {
                // An anchor is only known after its end: an alias within it would repeat without end.
                let target = self.anchors.get(&anchor).cloned().ok_or(error_at(span))?;
                self.count(target.nodes, span)?;
                check_depth(depth + target.depth, span)?;
                return Ok((target.value, written));
            }
            Event::SequenceStart(_, anchor, _) => {
                check_depth(depth + 1, span)?;
                let mut values = Vec::new();
                written.end = self.read_children(&Event::SequenceEnd, |reader, event, span| {
                    values.push(reader.value_of(event, span, depth + 1)?.0);
                    Ok(())
                })?;
                (anchor, FieldValue::List(values))
            }
            Event::MappingStart(_, anchor, _) => {
                check_depth(depth + 1, span)?;
                let mut pairs = Vec::new();
                written.end = self.read_children(&Event::MappingEnd, |reader, event, span| {
                    pairs.push((reader.key(event, span)?, reader.value(depth + 1)?.0));
                    Ok(())
                })?;
                (anchor, FieldValue::Mapping(pairs))
            }
            _ => return Err(error_at(span)),
        };
        if anchor != 0 {
            let (nodes, depth) = nodes_and_depth(&value);
            self.count(nodes, span)?;
            self.anchors.insert(anchor, AnchoredNode { value: value.clone(), nodes, depth });
        }
        Ok((value, written))
    }

    /// Parses the key that begins with this event. Only texts may be keys.
    fn key(&mut self, event: Event<'a>, span: Span) -> Result<String, YamlError> {
        match self.value_of(event, span, 0)?.0 {
            FieldValue::Text(text) => Ok(text),
            FieldValue::Mapping(_) | FieldValue::List(_) | FieldValue::Null => Err(error_at(span)),
        }
    }

    fn count(&mut self, nodes: usize, span: Span) -> Result<(), YamlError> {
        self.nodes += nodes;
        if self.nodes > FRONTMATTER_NODES_MAX { Err(error_at(span)) } else { Ok(()) }
    }
}

/// Returns the number of values that a kept value counts as, and its depth.
fn nodes_and_depth(value: &FieldValue) -> (usize, usize) {
    let of_text = |text: &str| 1 + text.len() / BYTES_PER_KEPT_NODE;
    let around = |(all, deepest): (usize, usize), (nodes, depth): (usize, usize)| {
        (all + nodes, deepest.max(depth + 1))
    };
    match value {
        FieldValue::Null => (1, 0),
        FieldValue::Text(text) => (of_text(text), 0),
        FieldValue::List(values) => values.iter().map(nodes_and_depth).fold((1, 1), around),
        FieldValue::Mapping(pairs) => pairs
            .iter()
            .map(|(key, value)| {
                let (nodes, depth) = nodes_and_depth(value);
                (of_text(key) + nodes, depth)
            })
            .fold((1, 1), around),
    }
}

fn check_depth(depth: usize, span: Span) -> Result<(), YamlError> {
    if depth > FRONTMATTER_DEPTH_MAX { Err(error_at(span)) } else { Ok(()) }
}

fn scalar(text: Cow<'_, str>, style: ScalarStyle, tag: Option<&Tag>) -> FieldValue {
    let is_nothing = match tag {
        Some(tag) => tag.is_yaml_core_schema_tag("null"),
        None => style == ScalarStyle::Plain && is_null(&text),
    };
    if is_nothing { FieldValue::Null } else { FieldValue::Text(text.into_owned()) }
}

fn error_at(span: Span) -> YamlError {
    YamlError(span.start.line())
}

fn byte_range(span: Span) -> Range<usize> {
    span.byte_range().expect("the parser of a string reports byte offsets")
}
