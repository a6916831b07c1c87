//! What we add to a file of JSON: small, and in the order in which a person expects it.

use serde_json::Value;

/// A value that is written, its members in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConfigValue {
    /// A string.
    Text(String),
    /// A number.
    Number(u64),
    /// A switch.
    Bool(bool),
    /// A list.
    List(Vec<ConfigValue>),
    /// An object.
    Object(Vec<(&'static str, ConfigValue)>),
}

/// How lines are broken.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineStyle<'a> {
    /// What ends a line.
    pub(super) end: &'a str,
    /// What one level is indented by.
    pub(super) unit: &'a str,
    /// What the value's own line is indented by.
    pub(super) indent: &'a str,
}

impl ConfigValue {
    /// Returns a string.
    pub(super) fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    /// Returns it as a value.
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

    /// Writes it, on one line where there are no lines to break it into.
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
    /// Returns what items of a value on this line are indented by.
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

/// Returns a string as JSON has it.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
