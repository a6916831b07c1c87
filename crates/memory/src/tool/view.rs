//! The tool `view_memory` as models and their hosts see it: the command `view` alone, which changes nothing.
//!
//! Codex CLI and Copilot CLI run a tool without asking a person when it says that it only reads. `memory` also
//! writes, so a host that has no other tool asks before each look.

use serde_json::{Value, json};

use crate::command::{CommandError, MemoryCommand};
use crate::path::Layout;

/// The tool's name.
pub const NAME: &str = "view_memory";

/// What the tool is for.
pub const DESCRIPTION: &str = "\
Shows a memory file with line numbers, or a folder two levels deep: `view` of `memory`, read-only.";

/// Returns the JSON schema of the arguments.
pub fn schema() -> Value {
    let view = super::schema()["properties"].take();
    let mut properties = json!({ "path": { "type": "string", "description": "File or folder" } });
    for field in ["view_range", "offset", "limit"] {
        properties[field] = view[field].clone();
    }
    json!({ "type": "object", "properties": properties, "required": ["path"] })
}

/// Reads a call's arguments.
pub fn decode(arguments: &Value, layout: Layout) -> Result<MemoryCommand, CommandError> {
    let mut arguments = arguments.clone();
    if let Some(fields) = arguments.as_object_mut() {
        fields.insert("command".to_owned(), json!("view"));
    }
    super::decode(&arguments, layout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::ViewRange;
    use crate::path::MemoryPath;

    #[test]
    fn a_call_is_a_view_whatever_command_it_names() {
        let path = MemoryPath::parse("/memories/global/a.md", Layout::Scoped).unwrap();
        let check = |arguments: Value, lines: ViewRange| {
            let expected = MemoryCommand::View { path: path.clone(), lines };
            assert_eq!(decode(&arguments, Layout::Scoped), Ok(expected), "{arguments}");
        };
        check(json!({ "path": "/memories/global/a.md" }), ViewRange::Whole);
        check(json!({ "command": "delete", "path": "/memories/global/a.md" }), ViewRange::Whole);
        check(
            json!({ "file_path": "/memories/global/a.md", "view_range": [1, 2] }),
            ViewRange::Range { first: 1, last: 2 },
        );
        let refused = decode(&json!({}), Layout::Scoped).unwrap_err();
        assert_eq!(refused.to_string(), "view requires 'path'");
    }
}
