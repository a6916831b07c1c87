//! The MCP prompts, which a user picks in the host, such as `/lukasa:remember`.
//!
//! A prompt is a fixed text with a placeholder for the user's argument. It accesses no memory itself: the model does
//! that, with the tools and the access of its class. The texts are in `prompts/`.

use memory::path::{Layout, Scope};
use rmcp::ErrorData;
use rmcp::model::{
    GetPromptRequestParams, GetPromptResult, JsonObject, ListPromptsResult, Prompt, PromptArgument,
    PromptMessage, Role,
};
use serde_json::Value;

/// The folder of all memories.
const ROOT: &str = "/memories";

/// A prompt and its optional argument, each with its description.
struct PromptSpec {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    argument: (&'static str, &'static str),
}

const REMEMBER: PromptSpec = PromptSpec {
    name: "remember",
    title: "Remember",
    description: "Record a fact, or the lasting facts of this conversation, in a memory",
    argument: ("text", "The fact to remember; by default, the lasting facts of this conversation"),
};

const RECALL: PromptSpec = PromptSpec {
    name: "recall",
    title: "Recall",
    description: "Find what is remembered about a question, or about the current task",
    argument: ("question", "The question; by default, the task of this conversation"),
};

const REVIEW: PromptSpec = PromptSpec {
    name: "review",
    title: "Review memories",
    description: "List repeated, contradictory, outdated or misplaced entries of the memories",
    argument: ("scope", "global, project or workspace; by default, all scopes"),
};

/// Returns all prompts. In a flat layout, the review has no argument, because there are no scopes.
pub(super) fn list(layout: Layout) -> ListPromptsResult {
    let prompt = |entry: &PromptSpec| {
        let (name, description) = entry.argument;
        let argument = PromptArgument::new(name).with_description(description).with_required(false);
        let has_argument = layout == Layout::Scoped || entry.name != REVIEW.name;
        let arguments = has_argument.then(|| vec![argument]);
        Prompt::new(entry.name, Some(entry.description), arguments).with_title(entry.title)
    };
    ListPromptsResult::with_all_items([REMEMBER, RECALL, REVIEW].iter().map(prompt).collect())
}

/// Returns the text of a prompt with its argument filled in.
pub(super) fn get(
    request: &GetPromptRequestParams,
    layout: Layout,
) -> Result<GetPromptResult, ErrorData> {
    let value = |entry: &PromptSpec| argument(request.arguments.as_ref(), entry.argument.0);
    let (entry, text) = match request.name.as_str() {
        "remember" => (
            REMEMBER,
            match value(&REMEMBER)? {
                Some(text) => fill(include_str!("prompts/remember.md"), "{text}", text),
                None => include_str!("prompts/remember-conversation.md").to_owned(),
            },
        ),
        "recall" => (
            RECALL,
            match value(&RECALL)? {
                Some(question) => fill(include_str!("prompts/recall.md"), "{question}", question),
                None => include_str!("prompts/recall-task.md").to_owned(),
            },
        ),
        "review" => {
            let folder = folder(value(&REVIEW)?, layout)?;
            (REVIEW, fill(include_str!("prompts/review.md"), "{folder}", &folder))
        }
        other => {
            let message =
                format!("no prompt is called `{other}`; there are remember, recall and review");
            return Err(ErrorData::invalid_params(message, None));
        }
    };
    let message = PromptMessage::new_text(Role::User, text.trim_end());
    Ok(GetPromptResult::new(vec![message]).with_description(entry.description))
}

/// Replaces the placeholder of a template.
fn fill(template: &str, placeholder: &str, text: &str) -> String {
    template.replacen(placeholder, text, 1)
}

/// Returns an argument; `None` if it is missing, null or blank.
fn argument<'a>(
    arguments: Option<&'a JsonObject>,
    name: &str,
) -> Result<Option<&'a str>, ErrorData> {
    match arguments.and_then(|arguments| arguments.get(name)) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.trim()).filter(|text| !text.is_empty())),
        Some(_) => {
            Err(ErrorData::invalid_params(format!("the argument `{name}` must be a string"), None))
        }
    }
}

/// Returns the folder to review.
fn folder(scope: Option<&str>, layout: Layout) -> Result<String, ErrorData> {
    let Some(word) = scope.filter(|_| layout == Layout::Scoped) else { return Ok(ROOT.to_owned()) };
    let scope = [Scope::Global, Scope::Project, Scope::Workspace];
    let scope = scope.into_iter().find(|scope| scope.as_ref() == word);
    scope.map(|scope| format!("{ROOT}/{}", scope.as_ref())).ok_or_else(|| {
        let message =
            format!("the argument `scope` is `{word}`; it must be global, project or workspace");
        ErrorData::invalid_params(message, None)
    })
}
