//! The tool `save_memory` as models and their hosts see it: a fact for the instruction files of a person or of
//! a project, which every session begins with.

use serde_json::{Value, json};

use crate::command::CommandError;
use crate::context_file;
use crate::path::Scope;

/// The tool's name.
pub const NAME: &str = "save_memory";

/// What the tool is for.
pub const DESCRIPTION: &str = "\
Adds one lasting fact to an instruction file that every session begins with: when the person asks for it. \
For all else use `memory`. Without `scope` it answers with both files: ask the person which.";

/// The same where there is no tool `memory`.
pub const DESCRIPTION_WITHOUT_TOOL: &str = "\
Adds one lasting fact to an instruction file that every session begins with: when the person asks for it. \
Without `scope` it answers with both files: ask the person which.";

/// A fact to save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaveRequest {
    /// The fact, on one line.
    pub fact: String,
    /// What the person made of it in their host before it was to be saved.
    pub edited: Option<String>,
    /// Whose file; `None` if that has to be asked.
    pub scope: Option<SaveScope>,
}

/// Whose instruction file.
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

/// Reads a call's arguments. A scope that is null or blank counts as not there.
///
/// Hosts that let their person edit a call before it is made add `modified_by_user` and `modified_content`; models are
/// not told of these fields.
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

/// Returns what a person made of the fact, if they edited it. Nothing is left of it if they cleared the text.
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
    fn arguments_are_taken_as_models_give_them() {
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
    fn what_a_person_edited_is_taken_for_the_text() {
        let edited = json!({ "fact": "x", "modified_by_user": true, "modified_content": "- y\n" });
        let save = decode(&edited).unwrap();
        assert_eq!((save.fact.as_str(), save.edited.as_deref()), ("x", Some("- y\n")));
        let alone = json!({ "modified_by_user": true, "modified_content": "- y\n" });
        assert_eq!(decode(&alone).unwrap().fact, "y");
    }
}
