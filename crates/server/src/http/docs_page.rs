//! The HTML page of the OpenAPI description, at `/docs`.
//!
//! It is plain HTML with an inline style: no scripts and no external resources. All texts of the document are escaped.

use std::fmt::Write as _;

use protocol::error::ErrorCode;
use serde_json::{Map, Value};

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;\
    padding:0 1rem;color:#1b1b1b;background:#fff}h2{margin-top:2.5rem;border-bottom:1px solid #ccc}\
    h3{margin-bottom:0}code,pre{font:14px/1.5 ui-monospace,monospace;background:#f3f3f3;\
    padding:.1em .3em}pre{padding:.8em;overflow:auto}table{border-collapse:collapse}\
    td,th{text-align:left;vertical-align:top;padding:.2em .8em .2em 0}.method{font-weight:bold}\
    @media(prefers-color-scheme:dark){body{color:#eee;background:#161616}code,pre{background:#262626}}";

/// Renders a page of an OpenAPI document and the error codes.
pub(super) fn render(value: &Value, codes: &[ErrorCode]) -> String {
    let mut page = HtmlPage(String::new());
    page.add(&format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body>\
         <h1>{0} {1}</h1><p>{2}</p><p>Every request needs <code>Authorization: Bearer TOKEN</code>; \
         <code>lukasa token</code> prints the token. Exceptions are <code>GET /health</code> without a query, \
         the files of the page, and its login. The same for programs: <code>/openapi.json</code>.</p>",
        escaped(text(&value["info"]["title"])),
        escaped(text(&value["info"]["version"])),
        with_code_marks(text(&value["info"]["description"])),
    ));
    for tag in tags(value) {
        page.add(&format!("<h2>{}</h2>", escaped(&tag)));
        page.operations(value, &tag);
    }
    page.codes(codes);
    page.schemas(value);
    page.add("</body></html>\n");
    page.0
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the tags in the order of their first occurrence.
fn tags(value: &Value) -> Vec<String> {
    let mut tags: Vec<String> = Vec::new();
    for (_, _, operation) in operations(value) {
        let tag = text(&operation["tags"][0]);
        if !tags.iter().any(|other| other == tag) {
            tags.push(tag.to_owned());
        }
    }
    tags
}

/// Returns path, method and description of each operation.
fn operations(value: &Value) -> impl Iterator<Item = (&String, &String, &Value)> {
    let paths = value["paths"].as_object().into_iter().flatten();
    paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().into_iter().flatten();
        methods.map(move |(method, operation)| (path, method, operation))
    })
}

struct HtmlPage(String);

impl HtmlPage {
    fn add(&mut self, html: &str) {
        self.0.push_str(html);
    }

    fn operations(&mut self, value: &Value, tag: &str) {
        for (path, method, operation) in operations(value) {
            if text(&operation["tags"][0]) != tag {
                continue;
            }
            self.add(&format!(
                "<h3><code><span class=\"method\">{}</span> {}</code></h3><p>{}</p>",
                escaped(&method.to_uppercase()),
                escaped(path),
                with_code_marks(text(&operation["summary"])),
            ));
            let more = text(&operation["description"]);
            if !more.is_empty() {
                self.add(&format!("<p>{}</p>", with_code_marks(more)));
            }
            self.parameters(&operation["parameters"]);
            self.bodies(operation);
        }
    }

    fn parameters(&mut self, parameters: &Value) {
        let Some(parameters) = parameters.as_array() else { return };
        self.add("<table>");
        for parameter in parameters {
            let need = if parameter["required"] == true { "required" } else { "" };
            self.add(&format!(
                "<tr><td><code>{}</code></td><td>{} {need}</td><td>{}</td></tr>",
                escaped(text(&parameter["name"])),
                escaped(text(&parameter["in"])),
                with_code_marks(text(&parameter["description"])),
            ));
        }
        self.add("</table>");
    }

    fn bodies(&mut self, operation: &Value) {
        self.add("<table>");
        let body = &operation["requestBody"]["content"];
        if !body.is_null() {
            self.add(&format!("<tr><td>body</td><td>{}</td><td></td></tr>", content(body)));
        }
        for (status, response) in operation["responses"].as_object().into_iter().flatten() {
            self.add(&format!(
                "<tr><td><code>{}</code></td><td>{}</td><td>{}</td></tr>",
                escaped(status),
                content(&response["content"]),
                with_code_marks(text(&response["description"])),
            ));
        }
        self.add("</table>");
    }

    fn codes(&mut self, codes: &[ErrorCode]) {
        self.add(
            "<h2 id=\"codes\">codes</h2><table><tr><th>code</th><th>status</th><th></th></tr>",
        );
        for code in codes {
            self.add(&format!(
                "<tr><td><code>{code}</code></td><td>{}</td><td>{}</td></tr>",
                code.status(),
                with_code_marks(code.meaning()),
            ));
        }
        self.add("</table>");
    }

    fn schemas(&mut self, value: &Value) {
        self.add("<h2>values</h2>");
        for (name, schema) in value["components"]["schemas"].as_object().into_iter().flatten() {
            self.add(&format!(
                "<h3 id=\"{0}\"><code>{0}</code></h3><p>{1}</p>",
                escaped(name),
                with_code_marks(text(&schema["description"])),
            ));
            let fields = schema["properties"].as_object();
            self.fields(fields.unwrap_or(&Map::new()), &schema["required"]);
            for part in ["allOf", "oneOf", "anyOf"] {
                for (index, variant) in schema[part].as_array().into_iter().flatten().enumerate() {
                    let lead = if index == 0 {
                        ""
                    } else if part == "allOf" {
                        "and "
                    } else {
                        "or "
                    };
                    self.add(&format!("<p>{lead}{}</p>", kind(variant)));
                    if let Some(fields) = variant["properties"].as_object() {
                        self.fields(fields, &variant["required"]);
                    }
                }
            }
            if let Some(words) = schema["enum"].as_array() {
                self.add(&format!("<p>{}</p>", words_of(words)));
            }
        }
    }

    fn fields(&mut self, fields: &Map<String, Value>, required: &Value) {
        if fields.is_empty() {
            return;
        }
        self.add("<table>");
        for (name, field) in fields {
            let is_required =
                required.as_array().is_some_and(|names| names.iter().any(|other| other == name));
            self.add(&format!(
                "<tr><td><code>{}{}</code></td><td>{}</td><td>{}</td></tr>",
                escaped(name),
                if is_required { "" } else { "?" },
                kind(field),
                with_code_marks(text(&field["description"])),
            ));
        }
        self.add("</table>");
    }
}

/// Renders the content types of a body.
fn content(content: &Value) -> String {
    let kinds = content.as_object().into_iter().flatten();
    let kinds: Vec<_> = kinds
        .map(|(media, of)| match media.as_str() {
            "application/json" => kind(&of["schema"]),
            media => format!("<code>{}</code>", escaped(media)),
        })
        .collect();
    kinds.join(", ")
}

/// Renders the type of a schema.
fn kind(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = escaped(reference.rsplit('/').next().unwrap_or_default());
        return format!("<a href=\"#{name}\">{name}</a>");
    }
    for part in ["oneOf", "anyOf"] {
        if let Some(parts) = schema[part].as_array() {
            let kinds: Vec<_> = parts.iter().map(kind).collect();
            return kinds.join(" or ");
        }
    }
    match &schema["type"] {
        Value::String(word) if word == "array" => format!("list of {}", kind(&schema["items"])),
        Value::String(word) => escaped(word),
        Value::Array(words) => words_of(words),
        _ => "any".to_owned(),
    }
}

fn words_of(words: &[Value]) -> String {
    let words: Vec<_> =
        words.iter().map(|word| format!("<code>{}</code>", escaped(text(word)))).collect();
    words.join(" or ")
}

/// Renders a text in which backticks mark code.
fn with_code_marks(text: &str) -> String {
    let mut html = String::new();
    for (index, part) in text.split('`').enumerate() {
        // Writing to a string cannot fail.
        let _written = match index % 2 {
            0 => write!(html, "{}", escaped(part)),
            _ => write!(html, "<code>{}</code>", escaped(part)),
        };
    }
    html
}

/// Escapes a text for HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_in_a_text_is_escaped() {
        assert_eq!(
            with_code_marks("a `<b>` & \"c\""),
            "a <code>&lt;b&gt;</code> &amp; &quot;c&quot;"
        );
    }
}
