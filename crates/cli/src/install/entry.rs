//! Values that are added to JSON files, rendered in the line style of the file and with members in a fixed order.

use serde_json::Value;

/// A JSON value whose members keep their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConfigValue {
    /// A JSON string.
    Text(String),
    /// A JSON number.
    Number(u64),
    /// A JSON boolean.
    Bool(bool),
    /// A JSON array.
    List(Vec<ConfigValue>),
    /// A JSON object, with its members in order.
    Object(Vec<(&'static str, ConfigValue)>),
}

/// The line breaks and indentation of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineStyle<'a> {
    /// The line end: `\n` or `\r\n`.
    pub(super) end: &'a str,
    /// The indentation of one level.
    pub(super) unit: &'a str,
    /// The indentation of the value's own line.
    pub(super) indent: &'a str,
}

impl ConfigValue {
    /// Creates a string value.
    pub(super) fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    /// Converts it to a `serde_json` value.
    pub(super) fn value(&self) -> Value {
        match self {
            Self::Text(text) => Value::from(text.as_str()),
            Self::Number(number) => Value::from(*number),
            Self::Bool(on) => Value::from(*on),
            Self::List(items) => items.iter().map(Self::value).collect(),
            Self::Object(members) => {
                members.iter().map(|(name, value)| ((*name).to_owned(), value.value())).collect()
            }
        }
    }

    /// Renders the value; on one line if there is no line style.
    pub(super) fn render(&self, lines: Option<LineStyle<'_>>) -> String {
        match self {
            Self::Text(text) => quoted(text),
            Self::Number(number) => number.to_string(),
            Self::Bool(on) => on.to_string(),
            Self::List(items) => {
                let nested = items.iter().any(|item| matches!(item, Self::Object(_)));
                let lines = lines.filter(|_| nested);
                let deeper = lines.map(LineStyle::indent_of_items);
                let items = items.iter().map(|item| item.render(within(lines, deeper.as_deref())));
                bracketed(('[', ']'), "", &items.collect::<Vec<_>>(), lines)
            }
            Self::Object(members) => {
                let deeper = lines.map(LineStyle::indent_of_items);
                let members = members.iter().map(|(name, value)| {
                    let value = value.render(within(lines, deeper.as_deref()));
                    format!("{}: {value}", quoted(name))
                });
                bracketed(('{', '}'), " ", &members.collect::<Vec<_>>(), lines)
            }
        }
    }
}

impl LineStyle<'_> {
    /// Returns the indentation of the items of a value on this line.
    pub(super) fn indent_of_items(self) -> String {
        format!("{}{}", self.indent, self.unit)
    }
}

fn within<'a>(lines: Option<LineStyle<'a>>, indent: Option<&'a str>) -> Option<LineStyle<'a>> {
    Some(LineStyle { indent: indent?, ..lines? })
}

fn bracketed(
    (open, close): (char, char),
    inside: &str,
    items: &[String],
    lines: Option<LineStyle<'_>>,
) -> String {
    match lines {
        _ if items.is_empty() => format!("{open}{close}"),
        None => format!("{open}{inside}{}{inside}{close}", items.join(", ")),
        Some(lines) => {
            let (end, deeper) = (lines.end, lines.indent_of_items());
            let items = items.join(&format!(",{end}{deeper}"));
            format!("{open}{end}{deeper}{items}{end}{}{close}", lines.indent)
        }
    }
}

/// Returns a string quoted for JSON.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
