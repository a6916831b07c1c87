//! Builds the fields of frontmatter of what the YAML parser finds, one event after the other.
//!
//! What it builds is bounded in depth, and in how many values there are, with those that anchors keep and aliases
//! repeat.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};

use crate::document::frontmatter::{Field, Value};
use crate::limits::{FRONTMATTER_DEPTH_MAX, FRONTMATTER_NODES_MAX};

/// As many bytes of a text count as one value where an anchor keeps it or an alias repeats it.
const BYTES_PER_KEPT_NODE: usize = 16;

/// The line of the YAML, from one, at which it cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreadable(pub(super) usize);

impl From<ScanError> for Unreadable {
    fn from(error: ScanError) -> Self {
        Self(error.marker().line())
    }
}

/// Returns the fields of a block that is a mapping or says nothing, and `None` for anything else.
pub(super) fn fields(yaml: &str) -> Result<Option<Vec<Field>>, Unreadable> {
    let options = granit_parser::options! {
        flow_nesting_limit: FRONTMATTER_DEPTH_MAX,
        block_nesting_limit: FRONTMATTER_DEPTH_MAX,
    };
    let parser = Parser::new_from_str_with_options(yaml, options);
    Reader { parser, anchored: BTreeMap::new(), nodes: 0 }.document()
}

/// Whether a text without quotes means that there is nothing, as YAML 1.2 has it.
pub(super) fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    /// What aliases may repeat, by the number that the parser gave it.
    anchored: BTreeMap<usize, Anchored>,
    /// Values so far, with those that anchors keep and aliases repeat.
    nodes: usize,
}

#[derive(Clone)]
struct Anchored {
    value: Value,
    /// How many values it counts as.
    nodes: usize,
    /// How many lists and mappings lie in each other.
    depth: usize,
}

impl<'a> Reader<'a> {
    fn document(mut self) -> Result<Option<Vec<Field>>, Unreadable> {
        let mut found = Some(Vec::new());
        let mut is_first = true;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(found),
                Event::StreamStart | Event::DocumentEnd => {}
                Event::DocumentStart(..) if is_first => is_first = false,
                Event::DocumentStart(..) => return Err(at(span)),
                Event::MappingStart(..) => found = Some(self.top()?),
                event => match self.value_of(event, span, 0)?.0 {
                    Value::Nothing => {}
                    Value::Text(_) | Value::Mapping(_) | Value::List(_) => found = None,
                },
            }
        }
    }

    /// The next event; beyond the last one there is only the end.
    fn next(&mut self) -> Result<(Event<'a>, Span), Unreadable> {
        Ok(self.parser.next_event().unwrap_or(Ok((Event::StreamEnd, Span::default())))?)
    }

    /// The outermost mapping, with where everything stands.
    fn top(&mut self) -> Result<Vec<Field>, Unreadable> {
        let mut fields = Vec::new();
        self.each(&Event::MappingEnd, |reader, event, span| {
            let key = reader.key(event, span)?;
            let (value, value_at) = reader.value(1)?;
            fields.push(Field { key, value, key_at: bytes(span).start, value_at });
            Ok(())
        })?;
        Ok(fields)
    }

    /// Reads what lies in a list or mapping, each by its first event, and returns where that ends.
    fn each(
        &mut self,
        end: &Event<'static>,
        mut read: impl FnMut(&mut Self, Event<'a>, Span) -> Result<(), Unreadable>,
    ) -> Result<usize, Unreadable> {
        loop {
            let (event, span) = self.next()?;
            if event == *end {
                return Ok(bytes(span).end);
            }
            read(self, event, span)?;
        }
    }

    /// The value that comes next, in so many others, and where it is written.
    fn value(&mut self, depth: usize) -> Result<(Value, Range<usize>), Unreadable> {
        let (event, span) = self.next()?;
        self.value_of(event, span, depth)
    }

    fn value_of(
        &mut self,
        event: Event<'a>,
        span: Span,
        depth: usize,
    ) -> Result<(Value, Range<usize>), Unreadable> {
        self.count(1, span)?;
        let mut written = bytes(span);
        let (anchor, value) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                (anchor, scalar(text, style, tag.as_deref()))
            }
            Event::Alias(anchor) => {
                // What is not read to its end yet would repeat itself without one.
                let again = self.anchored.get(&anchor).cloned().ok_or(at(span))?;
                self.count(again.nodes, span)?;
                within_depth(depth + again.depth, span)?;
                return Ok((again.value, written));
            }
            Event::SequenceStart(_, anchor, _) => {
                within_depth(depth + 1, span)?;
                let mut values = Vec::new();
                written.end = self.each(&Event::SequenceEnd, |reader, event, span| {
                    values.push(reader.value_of(event, span, depth + 1)?.0);
                    Ok(())
                })?;
                (anchor, Value::List(values))
            }
            Event::MappingStart(_, anchor, _) => {
                within_depth(depth + 1, span)?;
                let mut pairs = Vec::new();
                written.end = self.each(&Event::MappingEnd, |reader, event, span| {
                    pairs.push((reader.key(event, span)?, reader.value(depth + 1)?.0));
                    Ok(())
                })?;
                (anchor, Value::Mapping(pairs))
            }
            _ => return Err(at(span)),
        };
        if anchor != 0 {
            let (nodes, depth) = measures(&value);
            self.count(nodes, span)?;
            self.anchored.insert(anchor, Anchored { value: value.clone(), nodes, depth });
        }
        Ok((value, written))
    }

    /// The key that begins with this event. Only texts are keys.
    fn key(&mut self, event: Event<'a>, span: Span) -> Result<String, Unreadable> {
        match self.value_of(event, span, 0)?.0 {
            Value::Text(text) => Ok(text),
            Value::Mapping(_) | Value::List(_) | Value::Nothing => Err(at(span)),
        }
    }

    fn count(&mut self, nodes: usize, span: Span) -> Result<(), Unreadable> {
        self.nodes += nodes;
        if self.nodes > FRONTMATTER_NODES_MAX { Err(at(span)) } else { Ok(()) }
    }
}

/// As how many values one counts where it is kept, and how many lists and mappings lie in each other there.
fn measures(value: &Value) -> (usize, usize) {
    let of_text = |text: &str| 1 + text.len() / BYTES_PER_KEPT_NODE;
    let around = |(all, deepest): (usize, usize), (nodes, depth): (usize, usize)| {
        (all + nodes, deepest.max(depth + 1))
    };
    match value {
        Value::Nothing => (1, 0),
        Value::Text(text) => (of_text(text), 0),
        Value::List(values) => values.iter().map(measures).fold((1, 1), around),
        Value::Mapping(pairs) => pairs
            .iter()
            .map(|(key, value)| {
                let (nodes, depth) = measures(value);
                (of_text(key) + nodes, depth)
            })
            .fold((1, 1), around),
    }
}

fn within_depth(depth: usize, span: Span) -> Result<(), Unreadable> {
    if depth > FRONTMATTER_DEPTH_MAX { Err(at(span)) } else { Ok(()) }
}

fn scalar(text: Cow<'_, str>, style: ScalarStyle, tag: Option<&Tag>) -> Value {
    let is_nothing = match tag {
        Some(tag) => tag.is_yaml_core_schema_tag("null"),
        None => style == ScalarStyle::Plain && is_null(&text),
    };
    if is_nothing { Value::Nothing } else { Value::Text(text.into_owned()) }
}

fn at(span: Span) -> Unreadable {
    Unreadable(span.start.line())
}

fn bytes(span: Span) -> Range<usize> {
    span.byte_range().expect("a parser of a string knows where in bytes it is")
}
