//! The settings as a JSON Schema, for editors that check TOML files.

use serde_json::{Map, Value, json};

use super::file::{NamedSetting, all};
use super::setting_table::ValueKind;

/// The revision of JSON Schema; editors for TOML support this one.
const DRAFT: &str = "http://json-schema.org/draft-07/schema#";

/// Returns the schema of `config.toml`.
pub(crate) fn schema() -> Value {
    let mut root = table("The settings of Lukasa. All are optional.");
    for named in all() {
        let mut at = &mut root;
        for name in named.table {
            at = properties(at).entry((*name).to_owned()).or_insert_with(|| table(""));
        }
        properties(at).insert(named.key.clone(), value(&named));
    }
    let switches = properties(&mut root).get("features").cloned().unwrap_or_default();
    let of_workspace = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": { "features": switches },
    });
    properties(&mut root).insert(
        "workspace".to_owned(),
        json!({
            "type": "object",
            "description": "features that are off in single workspaces, by workspace id",
            "additionalProperties": of_workspace,
        }),
    );
    properties(&mut root).insert(
        "remotes".to_owned(),
        json!({
            "type": "object",
            "description": "short names of projects on other machines",
            "additionalProperties": {
                "type": "object",
                "additionalProperties": false,
                "required": ["address"],
                "properties": {
                    "address": { "type": "string", "description": "address such as ssh://host/path" },
                },
            },
        }),
    );
    let provider = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "api": { "enum": ["openai", "openai-responses", "anthropic", "gemini"], "description": "API of the provider" },
            "url": { "type": "string", "description": "base URL of the API" },
            "key_variable": { "type": "string", "description": "environment variable with the key" },
            "key_command": { "type": "array", "items": { "type": "string" }, "description": "command that prints the key" },
            "beyond_this_machine": { "type": "boolean", "default": false, "description": "allow an http:// URL of another machine" },
        },
    });
    if let Some(models) = properties(&mut root).get_mut("models") {
        properties(models).insert(
            "providers".to_owned(),
            json!({
                "type": "object",
                "description": "other providers, or other addresses of built-in ones",
                "additionalProperties": provider,
            }),
        );
    }
    // Single rules may be named, not only families of rules.
    if let Some(policies) = properties(&mut root).get_mut("screening").map(properties)
        && let Some(policies) = policies.get_mut("policies")
    {
        policies["additionalProperties"] = json!({ "enum": ["refuse", "warn", "off"] });
    }
    root["$schema"] = DRAFT.into();
    root["title"] = "Lukasa".into();
    root
}

fn table(description: &str) -> Value {
    let mut table = json!({ "type": "object", "additionalProperties": false, "properties": {} });
    if !description.is_empty() {
        table["description"] = description.into();
    }
    table
}

fn properties(table: &mut Value) -> &mut Map<String, Value> {
    table["properties"].as_object_mut().expect("a table has properties")
}

fn value(named: &NamedSetting) -> Value {
    let mut value = match named.kind {
        ValueKind::Switch => json!({ "type": "boolean" }),
        ValueKind::Number(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        ValueKind::Choice(words) => json!({ "enum": words }),
        // A single name is allowed instead of a list.
        ValueKind::List if named.key == "file_names" => {
            json!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] })
        }
        ValueKind::List => json!({ "type": "array", "items": { "type": "string" } }),
        ValueKind::Text => json!({ "type": "string" }),
    };
    value["description"] = named.meaning.clone().into();
    if !named.default.is_null() {
        value["default"] = named.default.clone();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the schema of a key of a table.
    fn of<'s>(schema: &'s Value, key: &str) -> Option<&'s Value> {
        schema["properties"]
            .get(key)
            .or_else(|| Some(&schema["additionalProperties"]).filter(|other| other.is_object()))
    }

    fn check(schema: &Value, value: &toml::Value, name: &str) {
        let kind = |schema: &Value| schema["type"].as_str().map(str::to_owned);
        match value {
            toml::Value::Table(table) => {
                assert_eq!(kind(schema).as_deref(), Some("object"), "{name}");
                for (key, value) in table {
                    let name = format!("{name}.{key}");
                    let of = of(schema, key).unwrap_or_else(|| panic!("{name} is not described"));
                    check(of, value, &name);
                }
            }
            toml::Value::Boolean(_) => {
                assert_eq!(kind(schema).as_deref(), Some("boolean"), "{name}");
            }
            toml::Value::Integer(number) => {
                assert_eq!(kind(schema).as_deref(), Some("integer"), "{name}");
                let is_within = |bound: &str, is_fit: fn(i64, i64) -> bool| {
                    schema[bound].as_i64().is_none_or(|bound| is_fit(*number, bound))
                };
                assert!(is_within("minimum", |n, min| n >= min), "{name}");
                assert!(is_within("maximum", |n, max| n <= max), "{name}");
            }
            toml::Value::String(word) => match schema["enum"].as_array() {
                Some(words) => assert!(words.contains(&json!(word)), "{name}"),
                None => assert_eq!(kind(schema).as_deref(), Some("string"), "{name}"),
            },
            toml::Value::Array(_) => {
                let is_list = |one: &Value| one["type"] == "array";
                let any = schema["anyOf"].as_array().is_some_and(|any| any.iter().any(is_list));
                assert!(any || is_list(schema), "{name}");
            }
            other => panic!("{name} is {other:?}"),
        }
    }

    #[test]
    fn every_setting_in_the_help_is_in_the_schema() {
        // The descriptions after the values have no comment sign, so they are cut off.
        let lines = super::super::help();
        let lines = lines.lines().map(|line| {
            let line = line.trim();
            let cut = if line.starts_with('[') {
                line.find(']').map(|index| index + 1)
            } else {
                line.find("  ")
            };
            cut.and_then(|end| line.get(..end)).unwrap_or(line).to_owned() + "\n"
        });
        let settings: toml::Table = toml::from_str(&lines.collect::<String>()).unwrap();
        assert!(settings.len() > 8, "{settings:?}");
        check(&schema(), &toml::Value::Table(settings), "settings");
    }
}
