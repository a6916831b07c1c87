//! The tools of a model that reviews a conversation: they add, update and remove entries, and show nothing.
//!
//! The task lists the conversation and the entries that may be about it. Each call becomes a [`ReviewDecision`],
//! which the rules check later like their own findings.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use memory::screen::Screen;
use model::ToolSpec;
use serde_json::{Value, json};
use strum::VariantArray as _;

use super::agent::{AgentError, ToolRefusal, Toolbox, json_quoted};
use super::toolbox::is_withheld;
use crate::review::{
    FINDINGS_MAX, FindingSkipReason, FindingTarget, MessageRole, ReviewFinding, ReviewRequest,
    ReviewTrigger,
};
use crate::rules::{self, EntryRef, ReviewDecision, Snapshot};

/// Maximum length of the conversation in a task, in characters. The newest messages stay whole.
const SHOWN_CHARS_MAX: usize = 40_000;

/// Maximum number of listed entries, from the memories that share words with the conversation.
const ENTRIES_MAX: usize = 120;

/// Maximum number of memories with listed entries.
const MEMORIES_MAX: usize = 40;

/// Maximum length of a listed entry, in characters.
const REVIEWED_ENTRY_CHARS_MAX: usize = 300;

/// Findings of a model in a conversation.
pub(super) struct ReviewToolbox<'a> {
    request: &'a ReviewRequest,
    entries: BTreeMap<String, EntryRef<'a>>,
    items: Vec<ReviewDecision<'a>>,
    skipped: BTreeMap<FindingSkipReason, u32>,
}

impl<'a> ReviewToolbox<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, request: &'a ReviewRequest, screen: &Screen) -> Self {
        let said: String = request.messages.iter().map(|message| message.text.as_str()).collect();
        let likely = rules::most_similar_memories(snapshot, &said, MEMORIES_MAX);
        let likely = likely.into_iter().filter(|stored| !is_withheld(screen, stored));
        let entries = likely
            .flat_map(|stored| stored.text.parsed().entries.iter().map(move |note| (stored, note)));
        let entries = entries.take(ENTRIES_MAX).enumerate();
        let entries = entries.map(|(index, entry)| (format!("e{}", index + 1), entry)).collect();
        Self { request, entries, items: Vec::new(), skipped: BTreeMap::new() }
    }

    /// Returns the task for the model.
    pub(super) fn task(&self, snapshot: &Snapshot) -> String {
        let today = snapshot.local_date(snapshot.now);
        let mut task = format!("Today is {today}.\n\nEntries of memories that may be about it:\n");
        if self.entries.is_empty() {
            task.push_str("(none)\n");
        }
        let mut listed: Vec<_> = self.entries.iter().collect();
        listed.sort_by_key(|(id, _)| id.len());
        for (id, (stored, note)) in listed {
            let entry: String = note.full_text().chars().take(REVIEWED_ENTRY_CHARS_MAX).collect();
            let _ = writeln!(task, "{id} {} {}", stored.path, json_quoted(&entry));
        }
        if self.request.trigger == ReviewTrigger::Compaction {
            task.push_str(
    "\nThe agent is about to lose this conversation. With the target `workspace` keep what the agent that goes on \
     with this very work has to know: what the person decided, and what is to be left as it is.\n",
            );
        }
        task.push_str("\nThe conversation, one message a line:\n");
        for line in self.message_lines() {
            task.push_str(&line);
            task.push('\n');
        }
        task
    }

    /// Returns the newest messages that fit, as JSON lines. The person's messages take precedence over the model's,
    /// because only they are evidence.
    fn message_lines(&self) -> Vec<String> {
        let mut shown: BTreeMap<usize, String> = BTreeMap::new();
        let mut chars_left = SHOWN_CHARS_MAX;
        for is_of_person in [true, false] {
            for (index, message) in self.request.messages.iter().enumerate().rev() {
                if (message.role == MessageRole::User) != is_of_person {
                    continue;
                }
                let (id, role, text) = (&message.id, message.role.as_ref(), &message.text);
                let line = json!({ "id": id, "role": role, "text": text }).to_string();
                let Some(rest) = chars_left.checked_sub(line.chars().count()) else { break };
                chars_left = rest;
                shown.insert(index, line);
            }
        }
        shown.into_values().collect()
    }

    /// Returns the decisions, if the model finished. After the turn limit the decisions so far count: each stands
    /// alone.
    pub(super) fn into_items(
        self,
        outcome: Result<String, AgentError>,
    ) -> Result<(Vec<ReviewDecision<'a>>, BTreeMap<FindingSkipReason, u32>), AgentError> {
        match outcome {
            Ok(_) => Ok((self.items, self.skipped)),
            Err(AgentError::TurnLimit(_)) if !self.items.is_empty() => {
                Ok((self.items, self.skipped))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the scopes that a finding may belong to.
    const fn allowed_targets(&self) -> &'static [FindingTarget] {
        match self.request.trigger {
            ReviewTrigger::Compaction => FindingTarget::VARIANTS,
            ReviewTrigger::Turns | ReviewTrigger::End => {
                &[FindingTarget::User, FindingTarget::Memory]
            }
        }
    }

    fn evidence_argument(&self, arguments: &Value) -> Result<Vec<String>, ToolRefusal> {
        let ids: Option<Vec<String>> = arguments["evidence"]
            .as_array()
            .and_then(|ids| ids.iter().map(|id| Some(id.as_str()?.to_owned())).collect());
        let is_user_message = |id: &String| {
            let mut messages = self.request.messages.iter();
            messages.any(|message| message.id == *id && message.role == MessageRole::User)
        };
        let ids = ids.filter(|ids| !ids.is_empty() && ids.iter().all(is_user_message));
        ids.ok_or_else(|| ToolRefusal::new("`evidence` must be ids of messages of the role `user`"))
    }

    fn entry_argument(&self, arguments: &Value) -> Result<EntryRef<'a>, ToolRefusal> {
        let entry = arguments["id"].as_str().and_then(|id| self.entries.get(id)).copied();
        entry.ok_or_else(|| ToolRefusal::new("`id` must be the id of an entry that was listed"))
    }
}

fn text_argument(arguments: &Value) -> Result<String, ToolRefusal> {
    let text = arguments["text"].as_str().map(str::trim).filter(|text| !text.is_empty());
    text.map(str::to_owned).ok_or_else(|| ToolRefusal::new("`text` must be one statement"))
}

fn tool(name: &'static str, description: &'static str, properties: &Value) -> ToolSpec {
    let required: Vec<&String> =
        properties.as_object().into_iter().flat_map(|all| all.keys()).collect();
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    ToolSpec { name, description, schema }
}

impl Toolbox for ReviewToolbox<'_> {
    fn tools(&self) -> Vec<ToolSpec> {
        let text = json!({ "type": "string", "description": "One statement that stands alone" });
        let id = json!({ "type": "string", "description": "The id of a listed entry" });
        let evidence = json!({
            "type": "array",
            "items": { "type": "string" },
            "description": "The ids of the person's messages that say so",
        });
        let target = json!({
            "type": "string",
            "enum": self.allowed_targets().iter().map(AsRef::as_ref).collect::<Vec<_>>(),
            "description": "`user` for the person in all projects, `memory` for this project",
        });
        vec![
            tool(
                "add_memory",
                "Keeps something new.",
                &json!({ "target": target, "text": text, "evidence": evidence }),
            ),
            tool(
                "update_memory",
                "Gives an entry the text that the person's words ask for.",
                &json!({ "id": id, "text": text, "evidence": evidence }),
            ),
            tool(
                "delete_memory",
                "Removes an entry that the person's words make wrong.",
                &json!({ "id": id, "evidence": evidence }),
            ),
        ]
    }

    fn is_read_only(&self, _: &str) -> bool {
        false
    }

    fn call(&mut self, name: &str, arguments: &Value) -> Result<String, ToolRefusal> {
        if self.items.len() == FINDINGS_MAX {
            *self.skipped.entry(FindingSkipReason::Limit).or_default() += 1;
            return Err(ToolRefusal::new(format!(
                "a review takes {FINDINGS_MAX} findings, and has them"
            )));
        }
        let evidence = self.evidence_argument(arguments)?;
        let decision = match name {
            "add_memory" => {
                let target = arguments["target"].as_str().and_then(|word| word.parse().ok());
                let target = target.filter(|target| self.allowed_targets().contains(target));
                let target =
                    target.ok_or_else(|| ToolRefusal::new("`target` is none that there is"))?;
                ReviewDecision::New(ReviewFinding {
                    target,
                    text: text_argument(arguments)?,
                    evidence,
                })
            }
            "update_memory" => ReviewDecision::Update {
                entry: self.entry_argument(arguments)?,
                text: text_argument(arguments)?,
                evidence,
            },
            _ => ReviewDecision::Removal { entry: self.entry_argument(arguments)?, evidence },
        };
        self.items.push(decision);
        Ok("Noted.".to_owned())
    }
}
