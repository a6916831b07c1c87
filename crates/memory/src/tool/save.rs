//! The tool `save_memory` for models and their hosts: adds a fact to the instruction file of a person or a project,
//! which every session begins with.
//!
//! It decodes the arguments, including the text that a user may have edited in the host. [`context_file`] computes the
//! new text of the file.

use serde_json::{Value, json};

use crate::command::CommandError;
use crate::context_file;
use crate::path::Scope;

/// The name of the tool.
pub const NAME: &str = "save_memory";

/// The description of the tool.
pub const DESCRIPTION: &str = "\
Adds one lasting fact to an instruction file that every session begins with: when the person asks for it. \
For all else use `memory`. Without `scope` it answers with both files: ask the person which.";

/// The description of the tool in hosts without the tool `memory`.
pub const DESCRIPTION_WITHOUT_TOOL: &str = "\
Adds one lasting fact to an instruction file that every session begins with: when the person asks for it. \
Without `scope` it answers with both files: ask the person which.";

/// A fact to save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaveRequest {
    /// The fact, on one line.
    pub fact: String,
    /// The text after the person edited it in their host, if they did.
    pub edited: Option<String>,
    /// The file to add to; `None` if the person must be asked.
    pub scope: Option<SaveScope>,
}

/// The owner of an instruction file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaveScope {
    /// The person's own.
    Global,
    /// The project's.
    Project,
}

/// Returns the JSON schema of the arguments.
pub fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "fact": { "type": "string", "description": "One sentence that stands by itself" },
            "scope": {
                "type": "string",
                "enum": [Scope::Global.as_ref(), Scope::Project.as_ref()],
                "description": "global: the person's file; project: the repository's"
            },
        },
        "required": ["fact"],
    })
}

/// Decodes the arguments of a call. A null or blank scope counts as absent.
///
/// Hosts that let the user edit a call add `modified_by_user` and `modified_content`; these fields are not in the
/// schema for models.
pub fn decode(arguments: &Value) -> Result<SaveRequest, CommandError> {
    let missing = || CommandError::MissingFields { command: NAME, fields: "'fact'" };
    let edited = edited(arguments)?;
    let fact = match arguments.get("fact") {
        None | Some(Value::Null) => edited.as_deref().and_then(context_file::fact),
        Some(Value::String(fact)) => context_file::fact(fact),
        Some(_) => return Err(CommandError::BadField { field: "fact", expected: "a string" }),
    };
    let fact = fact.ok_or_else(missing)?;
    let wrong = CommandError::BadField { field: "scope", expected: "'global' or 'project'" };
    let scope = match arguments.get("scope") {
        None | Some(Value::Null) => None,
        Some(Value::String(scope)) => match scope.trim() {
            "" => None,
            "global" | "user" => Some(SaveScope::Global),
            "project" => Some(SaveScope::Project),
            _ => return Err(wrong),
        },
        Some(_) => return Err(wrong),
    };
    Ok(SaveRequest { fact, edited, scope })
}

/// Returns the text that a person edited, if they did. A cleared text is refused.
fn edited(arguments: &Value) -> Result<Option<String>, CommandError> {
    if arguments.get("modified_by_user") != Some(&Value::Bool(true)) {
        return Ok(None);
    }
    let field = "modified_content";
    match arguments.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => {
            Err(CommandError::MissingFields { command: NAME, fields: "'modified_content'" })
        }
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(CommandError::BadField { field, expected: "a string" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_decoded_leniently() {
        fn check(arguments: &Value, expected: Result<(&str, Option<SaveScope>), &str>) {
            let read = decode(arguments).map_err(|refused| refused.to_string());
            let expected = expected.map(|(fact, scope)| SaveRequest {
                fact: fact.to_owned(),
                edited: None,
                scope,
            });
            assert_eq!(read, expected.map_err(str::to_owned), "{arguments}");
        }
        check(&json!({ "fact": "- Likes\ntea" }), Ok(("Likes tea", None)));
        check(&json!({ "fact": "x", "scope": null }), Ok(("x", None)));
        check(&json!({ "fact": "x", "scope": " " }), Ok(("x", None)));
        check(&json!({ "fact": "x", "scope": "user" }), Ok(("x", Some(SaveScope::Global))));
        check(&json!({ "fact": "x", "scope": "project" }), Ok(("x", Some(SaveScope::Project))));
        check(&json!({}), Err("save_memory requires 'fact'"));
        check(&json!({ "fact": " - " }), Err("save_memory requires 'fact'"));
        check(
            &json!({ "fact": "x", "modified_by_user": false, "modified_content": "y" }),
            Ok(("x", None)),
        );
        check(&json!({ "fact": "x", "modified_by_user": true }), Ok(("x", None)));
        check(
            &json!({ "fact": "x", "modified_by_user": true, "modified_content": " " }),
            Err("save_memory requires 'modified_content'"),
        );
        check(&json!({ "fact": 3 }), Err("Invalid `fact` parameter: it must be a string."));
        check(
            &json!({ "fact": "x", "scope": "workspace" }),
            Err("Invalid `scope` parameter: it must be 'global' or 'project'."),
        );
    }

    #[test]
    fn an_edited_text_is_decoded() {
        let edited = json!({ "fact": "x", "modified_by_user": true, "modified_content": "- y\n" });
        let save = decode(&edited).unwrap();
        assert_eq!((save.fact.as_str(), save.edited.as_deref()), ("x", Some("- y\n")));
        let alone = json!({ "modified_by_user": true, "modified_content": "- y\n" });
        assert_eq!(decode(&alone).unwrap().fact, "y");
    }
}
