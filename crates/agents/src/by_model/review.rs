//! A model that reviews a conversation: it may add, change and remove entries, and look at nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use memory::screen::Screen;
use model::ToolSpec;
use serde_json::{Value, json};
use strum::VariantArray as _;

use super::agent::{AgentError, Refused, Toolbox, quoted};
use super::files::has_secret;
use crate::embedded::{self, At, Found, Snapshot};
use crate::review::{FINDINGS_MAX, Finding, LeftOut, Moment, ReviewRequest, Role, Target};

/// How much of a conversation a model is shown, in characters. The newest messages stay whole.
const SHOWN_CHARS_MAX: usize = 40_000;

/// Entries that are listed for a review, of the memories that share words with the conversation.
const ENTRIES_MAX: usize = 120;

/// Memories that those are of.
const MEMORIES_MAX: usize = 40;

/// Characters of an entry that is listed.
const REVIEWED_ENTRY_CHARS_MAX: usize = 300;

/// What a model found in a conversation.
pub(super) struct Findings<'a> {
    request: &'a ReviewRequest,
    entries: BTreeMap<String, At<'a>>,
    found: Vec<Found<'a>>,
    skipped: BTreeMap<LeftOut, u32>,
}

impl<'a> Findings<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, request: &'a ReviewRequest, screen: &Screen) -> Self {
        let said: String = request.messages.iter().map(|one| one.text.as_str()).collect();
        let likely = embedded::likely(snapshot, &said, MEMORIES_MAX);
        let likely = likely.into_iter().filter(|stored| !has_secret(screen, &stored.text));
        let entries = likely
            .flat_map(|stored| stored.text.read().notes.iter().map(move |note| (stored, note)));
        let entries = entries.take(ENTRIES_MAX).enumerate();
        let entries = entries.map(|(at, entry)| (format!("e{}", at + 1), entry)).collect();
        Self { request, entries, found: Vec::new(), skipped: BTreeMap::new() }
    }

    /// Returns what the model is told.
    pub(super) fn task(&self, snapshot: &Snapshot) -> String {
        let today = snapshot.day_of(snapshot.now);
        let mut task = format!("Today is {today}.\n\nEntries of memories that may be about it:\n");
        if self.entries.is_empty() {
            task.push_str("(none)\n");
        }
        let mut listed: Vec<_> = self.entries.iter().collect();
        listed.sort_by_key(|(id, _)| id.len());
        for (id, (stored, note)) in listed {
            let entry: String = note.whole().chars().take(REVIEWED_ENTRY_CHARS_MAX).collect();
            let _ = writeln!(task, "{id} {} {}", stored.path, quoted(&entry));
        }
        if self.request.moment == Moment::Compaction {
            task.push_str(
                "\nThe agent is about to lose this conversation. With the target `workspace` keep what whoever goes on with \
                 this very work has to know: what the person decided, and what is to be left as it is.\n",
            );
        }
        task.push_str("\nThe conversation, one message a line:\n");
        for line in self.lines() {
            task.push_str(&line);
            task.push('\n');
        }
        task
    }

    /// Returns the messages as a model is shown them, as many of the newest as there is room for. A person's words alone are
    /// evidence, so they come before what the model answered.
    fn lines(&self) -> Vec<String> {
        let mut shown: BTreeMap<usize, String> = BTreeMap::new();
        let mut left = SHOWN_CHARS_MAX;
        for is_of_person in [true, false] {
            for (at, message) in self.request.messages.iter().enumerate().rev() {
                if (message.role == Role::User) != is_of_person {
                    continue;
                }
                let (id, role, text) = (&message.id, message.role.as_ref(), &message.text);
                let line = json!({ "id": id, "role": role, "text": text }).to_string();
                let Some(rest) = left.checked_sub(line.chars().count()) else { break };
                left = rest;
                shown.insert(at, line);
            }
        }
        shown.into_values().collect()
    }

    /// Returns what was found, if the model came to an end. One that still called tools at its last turn has found what it
    /// has: each finding stands alone.
    pub(super) fn found(
        self,
        ran: Result<String, AgentError>,
    ) -> Result<(Vec<Found<'a>>, BTreeMap<LeftOut, u32>), AgentError> {
        match ran {
            Ok(_) => Ok((self.found, self.skipped)),
            Err(AgentError::Turns(_)) if !self.found.is_empty() => Ok((self.found, self.skipped)),
            Err(error) => Err(error),
        }
    }

    /// Returns whose a finding may be.
    const fn targets(&self) -> &'static [Target] {
        match self.request.moment {
            Moment::Compaction => Target::VARIANTS,
            Moment::Turns | Moment::End => &[Target::User, Target::Memory],
        }
    }

    fn evidence(&self, arguments: &Value) -> Result<Vec<String>, Refused> {
        let ids: Option<Vec<String>> = arguments["evidence"]
            .as_array()
            .and_then(|ids| ids.iter().map(|id| Some(id.as_str()?.to_owned())).collect());
        let is_said = |id: &String| {
            let mut messages = self.request.messages.iter();
            messages.any(|one| one.id == *id && one.role == Role::User)
        };
        let ids = ids.filter(|ids| !ids.is_empty() && ids.iter().all(is_said));
        ids.ok_or_else(|| Refused::new("`evidence` must be ids of messages of the role `user`"))
    }

    fn entry(&self, arguments: &Value) -> Result<At<'a>, Refused> {
        let entry = arguments["id"].as_str().and_then(|id| self.entries.get(id)).copied();
        entry.ok_or_else(|| Refused::new("`id` must be the id of an entry that was listed"))
    }
}

fn text(arguments: &Value) -> Result<String, Refused> {
    let text = arguments["text"].as_str().map(str::trim).filter(|text| !text.is_empty());
    text.map(str::to_owned).ok_or_else(|| Refused::new("`text` must be one statement"))
}

fn tool(name: &'static str, description: &'static str, properties: &Value) -> ToolSpec {
    let required: Vec<&String> =
        properties.as_object().into_iter().flat_map(|all| all.keys()).collect();
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    ToolSpec { name, description, schema }
}

impl Toolbox for Findings<'_> {
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
            "enum": self.targets().iter().map(AsRef::as_ref).collect::<Vec<_>>(),
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

    fn looks_only(&self, _: &str) -> bool {
        false
    }

    fn call(&mut self, name: &str, arguments: &Value) -> Result<String, Refused> {
        if self.found.len() == FINDINGS_MAX {
            *self.skipped.entry(LeftOut::Limit).or_default() += 1;
            return Err(Refused::new(format!(
                "a review takes {FINDINGS_MAX} findings, and has them"
            )));
        }
        let evidence = self.evidence(arguments)?;
        let found = match name {
            "add_memory" => {
                let target = arguments["target"].as_str().and_then(|word| word.parse().ok());
                let target = target.filter(|target| self.targets().contains(target));
                let target =
                    target.ok_or_else(|| Refused::new("`target` is none that there is"))?;
                Found::New(Finding { target, text: text(arguments)?, evidence })
            }
            "update_memory" => {
                Found::Changed { at: self.entry(arguments)?, text: text(arguments)?, evidence }
            }
            _ => Found::Gone { at: self.entry(arguments)?, evidence },
        };
        self.found.push(found);
        Ok("Noted.".to_owned())
    }
}
