//! Memories as an agent's tools show and change them: a copy, of which what was changed becomes the edits of a draft.
//!
//! A path that is no memory's does not exist here, so nothing leads anywhere else, whatever the machine has there.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use memory::command::edit;
use memory::document::conflict_line;
use memory::path::{Layout, MemoryPath, Mount, RelativePath};
use memory::proposal::{EntryReference, Proposal, ProposalKind};
use memory::screen::{Family, Policy, Screen, TextAuthor};
use memory::text::slice;
use model::ToolSpec;
use regex::RegexBuilder;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::agent::{AgentError, ToolRefusal, Toolbox};
use super::ngrams::WordNgrams;
use super::{content_check, prompts};
use crate::request::CuratorEdit;
use crate::rules::{
    EntryRelation, NormalizedText, ParsedEntry, ParsedText, Snapshot, StoredMemory, is_private,
    relation_proposal,
};

/// Lines of a listing, and of what a search finds.
const RESULT_LINES_MAX: usize = 200;
/// Characters of a line that a search finds.
const LINE_CHARS_MAX: usize = 300;
/// The size of a pattern, compiled, in bytes, and its length.
const PATTERN_BYTES_MAX: usize = 64 * 1024;
const PATTERN_LENGTH_MAX: usize = 256;
/// Bytes of a line that are searched.
const LINE_BYTES_SEARCHED: usize = 8 * 1024;
/// How long a search may take.
const SEARCH_WAIT: Duration = Duration::from_secs(2);
/// Proposals of one dream, and how sure they are, in percent.
const AGENT_PROPOSALS_MAX: usize = 20;
const PROPOSAL_SCORE: u8 = 60;
/// What a model is asked that has written nothing.
const CONFIRM_PROMPT: &str = "You have written nothing. If the text has a fact that is worth keeping and not known yet, write it now with the tools. If not, answer with the word NOTHING.";
/// Words in a row of private memories that no shared one may have.
const PRIVATE_NGRAM_WORDS: usize = 6;

/// What an agent may see and do.
#[derive(Clone, Debug)]
pub(crate) struct AgentPermissions<'a> {
    /// The mounts that it sees.
    pub(crate) mounts: Vec<Mount>,
    /// Those of them that it may write to.
    pub(crate) writable: Vec<Mount>,
    /// Whether it sees what was there before.
    pub(crate) sees_existing: bool,
    /// What it is to do with them.
    pub(crate) work: AgentTask,
    /// The most memories that it may change.
    pub(crate) changed_max: usize,
    /// What it was asked, whose words may go anywhere.
    pub(crate) request: &'a str,
}

/// What an agent is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AgentTask {
    /// Add to memories, or give an entry its new value.
    Remember,
    /// Tidy up: nothing is added, and nothing goes but what stands twice.
    Dream,
}

/// Memories, as an agent has them.
#[derive(Debug)]
pub(crate) struct MemoryToolbox<'a> {
    layout: Layout,
    screen: &'a Screen,
    allowed: AgentPermissions<'a>,
    files: BTreeMap<String, ToolboxFile<'a>>,
    /// Paths that something else stands at.
    reserved_paths: BTreeSet<String>,
    /// The runs of words of private memories, and those that may stand anywhere; read when a shared memory is written.
    private_ngrams: OnceCell<(WordNgrams, WordNgrams)>,
    /// Entries that may be merged, for a person to decide.
    proposals: Vec<Proposal>,
    /// Whether the model was asked if it meant to do nothing.
    was_asked_to_confirm: bool,
}

/// One memory.
#[derive(Debug)]
struct ToolboxFile<'a> {
    path: MemoryPath,
    stored: Option<&'a StoredMemory>,
    /// Whether what was there before is shown.
    shows_existing: bool,
    current: Option<String>,
    /// Whether the text that is stored holds a secret; screened when it is first needed.
    has_secret: OnceCell<bool>,
}

impl ToolboxFile<'_> {
    fn original(&self) -> Option<&str> {
        self.stored.map(|stored| &*stored.text)
    }

    fn is_changed(&self) -> bool {
        self.current.as_deref() != self.original()
    }

    /// Returns its text, if it is shown. What screening takes for a secret is sent to no model.
    fn visible_text(&self, screen: &Screen) -> Option<&str> {
        let is_shown = self.is_changed() || (self.shows_existing && !self.has_secret(screen));
        self.current.as_deref().filter(|_| is_shown)
    }

    fn has_secret(&self, screen: &Screen) -> bool {
        let is_one = || self.original().is_some_and(|text| has_secret(screen, text));
        *self.has_secret.get_or_init(is_one)
    }
}

/// Tells whether screening takes something in a text for a secret.
pub(crate) fn has_secret(screen: &Screen, text: &str) -> bool {
    screen.check(text, TextAuthor::Agent).iter().any(|found| found.family == Family::Secrets)
}

impl<'a> MemoryToolbox<'a> {
    /// Copies the memories of a snapshot that somebody here reviewed.
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        layout: Layout,
        screen: &'a Screen,
        allowed: AgentPermissions<'a>,
    ) -> Self {
        let mut files = BTreeMap::new();
        let mut taken: BTreeSet<String> =
            snapshot.occupied_paths.iter().map(ToString::to_string).collect();
        for stored in &snapshot.memories {
            let is_seen = stored.path.mount().is_some_and(|mount| allowed.mounts.contains(&mount));
            // What a review wrote waits for a person, and what somebody asks to remember is not to wait with it.
            let waits = stored.written_by_review && allowed.work == AgentTask::Remember;
            if !is_seen || stored.is_unreviewed() || waits {
                taken.insert(stored.path.to_string());
                continue;
            }
            let (path, now) = (stored.path.clone(), Some(stored.text.to_string()));
            let file = ToolboxFile {
                path,
                stored: Some(stored),
                shows_existing: allowed.sees_existing,
                current: now,
                has_secret: OnceCell::new(),
            };
            files.insert(stored.path.to_string(), file);
        }
        Self {
            layout,
            screen,
            allowed,
            files,
            reserved_paths: taken,
            private_ngrams: OnceCell::new(),
            proposals: Vec::new(),
            was_asked_to_confirm: false,
        }
    }

    /// Returns what a person should decide: entries that are still as they were.
    pub(crate) fn proposals(&self) -> Vec<Proposal> {
        let is_as_it_was = |path: &MemoryPath| {
            self.files.get(&path.to_string()).is_some_and(|file| !file.is_changed())
        };
        let holds = |proposal: &&Proposal| {
            proposal.changes.iter().all(|change| is_as_it_was(&change.path))
                && proposal.relies_on.iter().all(|kept| is_as_it_was(&kept.path))
        };
        self.proposals.iter().filter(holds).cloned().collect()
    }

    /// Returns what was changed.
    pub(crate) fn edits(&self) -> Vec<CuratorEdit> {
        let changed = self.files.values().filter(|file| file.is_changed());
        changed
            .map(|file| match &file.current {
                Some(text) => CuratorEdit::Write { path: file.path.clone(), text: text.clone() },
                None => CuratorEdit::Remove { path: file.path.clone() },
            })
            .collect()
    }

    /// Returns all memories of the mounts, as they were and as they are.
    pub(crate) fn texts_before_and_after(
        &self,
    ) -> impl Iterator<Item = (&MemoryPath, Option<&'a StoredMemory>, Option<ParsedText>)> {
        self.files.values().map(|file| {
            let now = if file.is_changed() {
                file.current.as_deref().map(ParsedText::from)
            } else {
                file.stored.map(|stored| stored.text.clone())
            };
            (&file.path, file.stored, now)
        })
    }

    fn path_argument(&self, arguments: &Value, key: &str) -> Result<MemoryPath, ToolRefusal> {
        let text = string_argument(arguments, key)?;
        MemoryPath::parse(text, self.layout).map_err(|error| ToolRefusal::new(error.to_string()))
    }

    /// Returns a memory that is shown, with its text.
    fn visible_file(&self, path: &MemoryPath) -> Result<(&ToolboxFile<'a>, &str), ToolRefusal> {
        let file = self.files.get(&path.to_string());
        let shown = file.and_then(|file| Some((file, file.visible_text(self.screen)?)));
        shown.ok_or_else(|| {
            ToolRefusal::new(format!("there is no memory {path}; `ls` shows which there are"))
        })
    }

    /// Returns the folder that is asked for; everything without one.
    fn folder_argument(&self, arguments: &Value) -> Result<String, ToolRefusal> {
        match arguments.get("path") {
            None | Some(Value::Null) => Ok("/memories".to_owned()),
            Some(_) => Ok(self.path_argument(arguments, "path")?.to_string()),
        }
    }

    fn list(&self, arguments: &Value) -> Result<String, ToolRefusal> {
        let below = self.folder_argument(arguments)?;
        let lines = self.files_below(&below).map(|(file, text)| {
            let text = ParsedText::from(text);
            let head = &text.parsed().header;
            let pinned =
                if file.stored.is_some_and(|stored| stored.pinned) { " [pinned]" } else { "" };
            format!("{} ({} bytes) {}{pinned}", file.path, text.len(), head.shown_description())
        });
        Ok(listing(lines, "There are no memories here."))
    }

    /// Returns the memories below a folder that are shown, with their texts.
    fn files_below<'s>(
        &'s self,
        folder: &'s str,
    ) -> impl Iterator<Item = (&'s ToolboxFile<'a>, &'s str)> {
        let is_below = move |(path, _): &(&String, &ToolboxFile<'a>)| {
            path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let files = self.files.iter().filter(is_below);
        files.filter_map(|(_, file)| Some((file, file.visible_text(self.screen)?)))
    }

    fn search(&self, arguments: &Value) -> Result<String, ToolRefusal> {
        let pattern = string_argument(arguments, "pattern")?;
        let below = self.folder_argument(arguments)?;
        if pattern.len() > PATTERN_LENGTH_MAX {
            return Err(ToolRefusal::new("the pattern is too long"));
        }
        let compile = |pattern: &str| {
            let mut builder = RegexBuilder::new(pattern);
            builder.case_insensitive(true).size_limit(PATTERN_BYTES_MAX);
            builder.dfa_size_limit(PATTERN_BYTES_MAX).build()
        };
        // What is no pattern is looked for as it stands.
        let regex = compile(pattern).or_else(|_| compile(&regex::escape(pattern)));
        let regex = regex.map_err(|_| ToolRefusal::new("the pattern is too large"))?;
        let mut found = Vec::new();
        let until = Instant::now() + SEARCH_WAIT;
        for (file, text) in self.files_below(&below) {
            if found.len() > RESULT_LINES_MAX {
                break;
            }
            if Instant::now() >= until {
                return Err(ToolRefusal::new(
                    "that takes too long: look for less, or in one folder",
                ));
            }
            for (number, line) in text.lines().enumerate() {
                let end = line.floor_char_boundary(LINE_BYTES_SEARCHED);
                if regex.is_match(slice(line, ..end)) {
                    let line: String = line.chars().take(LINE_CHARS_MAX).collect();
                    found.push(format!("{}:{}: {line}", file.path, number + 1));
                }
            }
        }
        Ok(listing(found.into_iter(), "Nothing matches."))
    }

    fn read(&self, arguments: &Value) -> Result<String, ToolRefusal> {
        let path = self.path_argument(arguments, "path")?;
        Ok(self.visible_file(&path)?.1.to_owned())
    }

    fn write(&mut self, arguments: &Value) -> Result<String, ToolRefusal> {
        let path = self.path_argument(arguments, "path")?;
        let text = string_argument(arguments, "content")?;
        // A memory that is made anew had no text before.
        let before = self.visible_file(&path).map_or(String::new(), |(_, text)| text.to_owned());
        self.set_text(&path, &before, text.to_owned())
    }

    fn edit(&mut self, arguments: &Value) -> Result<String, ToolRefusal> {
        let path = self.path_argument(arguments, "path")?;
        let (old, new) =
            (string_argument(arguments, "old_string")?, string_argument(arguments, "new_string")?);
        let before = self.visible_file(&path)?.1.to_owned();
        let edited = edit::str_replace(&path, &before, old, new);
        let edited = edited.map_err(|error| ToolRefusal::new(error.to_string()))?;
        self.set_text(&path, &before, edited.text)
    }

    fn delete(&mut self, arguments: &Value) -> Result<String, ToolRefusal> {
        let path = self.path_argument(arguments, "path")?;
        let (file, text) = self.visible_file(&path)?;
        if file.stored.is_some_and(|stored| stored.pinned) {
            return Err(ToolRefusal::new(format!("{path} is pinned, so it stays")));
        }
        self.check_change(&path, text)?;
        if let Some(file) = self.files.get_mut(&path.to_string()) {
            file.current = None;
        }
        Ok(format!("Deleted {path}."))
    }

    /// Gives a memory a text, if everything about it is allowed.
    fn set_text(
        &mut self,
        path: &MemoryPath,
        before: &str,
        text: String,
    ) -> Result<String, ToolRefusal> {
        self.check_change(path, before)?;
        if let Some(stored) = self.files.get(&path.to_string()).and_then(|file| file.stored) {
            if self.allowed.work == AgentTask::Remember {
                content_check::check_remember_edit(stored, &text)
                    .map_err(|why| ToolRefusal::new(format!("{path}: {why}")))?;
            } else if stored.pinned {
                return Err(ToolRefusal::new(format!("{path} is pinned, so it stays as it is")));
            }
        }
        edit::check_writable(path, &text).map_err(|error| ToolRefusal::new(error.to_string()))?;
        let found = self.screen.introduced(before, &text, TextAuthor::Agent);
        if let Some(found) = found.iter().find(|found| found.policy == Policy::Refuse) {
            return Err(ToolRefusal::new(format!(
                "line {} matches the {} rule `{}`; secrets and orders to models are not kept",
                found.line, found.family, found.rule
            )));
        }
        if conflict_line(&text).is_some() {
            return Err(ToolRefusal::new("the text has markers of a merge conflict"));
        }
        if let Some(run) = prompts::quoted_prompt_words(before, &text) {
            return Err(ToolRefusal::new(format!(
                "`{run}` is a part of your instructions, and no memory"
            )));
        }
        if path.is_shared() && self.is_private(path, before, &text) {
            return Err(ToolRefusal::new(format!(
                "{path} is read by others, and this is private to the person"
            )));
        }
        let key = path.to_string();
        let file = self.files.entry(key).or_insert_with(|| ToolboxFile {
            path: path.clone(),
            stored: None,
            shows_existing: true,
            current: None,
            has_secret: OnceCell::new(),
        });
        file.current = Some(text);
        Ok(format!("Wrote {path}."))
    }

    /// Tells whether a text for others, or its name, has something that is the person's own, which it did not have before.
    fn is_private(&self, path: &MemoryPath, before: &str, text: &str) -> bool {
        let (private, anywhere) = self.private_ngrams.get_or_init(|| {
            let texts = |is_shared: bool| {
                let of = self.files.values().filter(move |file| file.path.is_shared() == is_shared);
                of.filter_map(ToolboxFile::original)
            };
            let shared = texts(true).chain([self.allowed.request]);
            (
                WordNgrams::from_texts(texts(false), PRIVATE_NGRAM_WORDS),
                WordNgrams::from_texts(shared, PRIVATE_NGRAM_WORDS),
            )
        });
        let known = WordNgrams::from_texts([before], PRIVATE_NGRAM_WORDS);
        let name = path.to_string().replace(['/', '-', '_', '.'], " ");
        if [text, &name].iter().any(|text| private.find_in(text, &[&known, anywhere]).is_some()) {
            return true;
        }
        let is_new =
            |line: &&str| !line.is_empty() && !before.lines().any(|old| old.trim() == *line);
        let lines = || text.lines().map(str::trim).filter(is_new).chain([name.as_str()]);
        if lines().any(is_private) {
            return true;
        }
        // Short facts have no run of words: an entry that is the same as one of the person's own tells them.
        let asked = NormalizedText::new(self.allowed.request);
        let asked_text = self.allowed.request.to_lowercase();
        let own: HashSet<&NormalizedText> = self
            .files
            .values()
            .filter(|file| !file.path.is_shared())
            .filter_map(|file| file.stored)
            .flat_map(|stored| stored.text.parsed().entries.iter().map(|note| &note.normalized))
            .collect();
        let text = ParsedText::from(text);
        let before = ParsedText::from(before);
        text.parsed().entries.iter().any(|note| {
            own.contains(&note.normalized)
                && note.normalized != asked
                && !asked_text.contains(&note.full_text().to_lowercase())
                && before.parsed().entries.iter().all(|old| old.normalized != note.normalized)
        })
    }

    /// Checks that a memory may be changed at all.
    fn check_change(&self, path: &MemoryPath, before: &str) -> Result<(), ToolRefusal> {
        if path.relative().is_none() {
            return Err(ToolRefusal::new(format!("{path} is a folder")));
        }
        if !path.mount().is_some_and(|mount| self.allowed.writable.contains(&mount)) {
            return Err(ToolRefusal::new(format!("{path} may not be written")));
        }
        let key = path.to_string();
        let is_below = |one: &String| {
            key == *one || key.strip_prefix(one.as_str()).is_some_and(|rest| rest.starts_with('/'))
        };
        let file = self.files.get(&key);
        let is_hidden = file
            .is_some_and(|file| file.current.is_some() && file.visible_text(self.screen).is_none());
        if is_hidden || self.reserved_paths.iter().any(is_below) {
            return Err(ToolRefusal::new(format!("{path} is taken; choose another name")));
        }
        if conflict_line(before).is_some() {
            return Err(ToolRefusal::new(format!(
                "{path} has a merge conflict that a person has to resolve"
            )));
        }
        if file.is_none() {
            self.check_new_path(path)?;
        }
        let changed = self.files.values().filter(|file| file.is_changed()).count();
        if changed >= self.allowed.changed_max && !file.is_some_and(ToolboxFile::is_changed) {
            return Err(ToolRefusal::new(format!(
                "at most {} memories are changed at once",
                self.allowed.changed_max
            )));
        }
        Ok(())
    }
}

impl MemoryToolbox<'_> {
    /// Checks that a new memory may be called so beside those that there are.
    fn check_new_path(&self, path: &MemoryPath) -> Result<(), ToolRefusal> {
        if self.allowed.work == AgentTask::Dream {
            return Err(ToolRefusal::new("a dream makes no new memories"));
        }
        let key = path.to_string();
        let name = path.relative().map(RelativePath::file_name).unwrap_or_default();
        if name.strip_suffix(".md").is_none_or(|stem| stem.eq_ignore_ascii_case("memory")) {
            return Err(ToolRefusal::new(
                "the name of a memory ends with .md, and is not MEMORY.md",
            ));
        }
        let folded = key.to_lowercase();
        let is_beside = |one: &String| {
            let one = one.to_lowercase();
            one == folded
                || folded.strip_prefix(&one).is_some_and(|rest| rest.starts_with('/'))
                || one.strip_prefix(&folded).is_some_and(|rest| rest.starts_with('/'))
        };
        if self.files.keys().chain(&self.reserved_paths).any(is_beside) {
            return Err(ToolRefusal::new(format!(
                "{path} is too like another name; choose another one"
            )));
        }
        Ok(())
    }

    /// Notes two entries that say the same in other words, for a person to decide.
    fn propose(&mut self, arguments: &Value) -> Result<String, ToolRefusal> {
        if self.proposals.len() >= AGENT_PROPOSALS_MAX {
            return Err(ToolRefusal::new("there are enough proposals"));
        }
        let entry = |path: &str, entry: &str| {
            let path = self.path_argument(arguments, path)?;
            let form = NormalizedText::new(string_argument(arguments, entry)?);
            let stored = self
                .visible_file(&path)?
                .0
                .stored
                .filter(|stored| !stored.pinned || entry == "keep_entry");
            let notes = stored.into_iter().flat_map(|stored| &stored.text.parsed().entries);
            let text =
                notes.into_iter().find(|note| note.normalized == form).map(ParsedEntry::full_text);
            let text = text.ok_or_else(|| ToolRefusal::new(format!("{path} has no such entry")))?;
            Ok::<_, ToolRefusal>(EntryReference { path, text: text.to_owned() })
        };
        let (goes, stays) = (entry("drop_path", "drop_entry")?, entry("keep_path", "keep_entry")?);
        if goes == stays {
            return Err(ToolRefusal::new("these are one entry"));
        }
        let likeness = EntryRelation {
            kind: ProposalKind::Repetition,
            score: PROPOSAL_SCORE,
            removes_older: true,
        };
        self.proposals.push(relation_proposal(likeness, &goes, &stays));
        Ok("Noted for the person to decide.".to_owned())
    }
}

fn listing(lines: impl Iterator<Item = String>, nothing: &str) -> String {
    let mut lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        return nothing.to_owned();
    }
    let more = lines.len().saturating_sub(RESULT_LINES_MAX);
    lines.truncate(RESULT_LINES_MAX);
    if more > 0 {
        lines.push(format!("({more} more)"));
    }
    lines.join("\n")
}

fn string_argument<'v>(arguments: &'v Value, key: &str) -> Result<&'v str, ToolRefusal> {
    arguments
        .get(key)
        .and_then(Value::as_str)
        .ok_or_else(|| ToolRefusal::new(format!("`{key}` must be a string")))
}

impl Toolbox for MemoryToolbox<'_> {
    fn tools(&self) -> Vec<ToolSpec> {
        let tool = |name, description, required: &[&str], properties: Value| ToolSpec {
            name,
            description,
            schema: json!({ "type": "object", "properties": properties, "required": required }),
        };
        let path =
            json!({ "type": "string", "description": "Such as /memories/global/user/editor.md" });
        let folder = json!({ "type": "string", "description": "A folder such as /memories/global; all memories without it" });
        let text = |what: &str| json!({ "type": "string", "description": what });
        let mut tools = vec![
            tool("read_file", "Reads a memory.", &["path"], json!({ "path": path })),
            tool(
                "grep",
                "Finds lines of memories by a regular expression; case does not matter.",
                &["pattern"],
                json!({ "pattern": text("A regular expression"), "path": folder }),
            ),
            tool("ls", "Lists memories with their descriptions.", &[], json!({ "path": folder })),
            tool(
                "write_file",
                "Makes a memory, or replaces all of its text.",
                &["path", "content"],
                json!({ "path": path, "content": text("All of its text") }),
            ),
            tool(
                "edit",
                "Replaces a text that stands once in a memory.",
                &["path", "old_string", "new_string"],
                json!({ "path": path, "old_string": text("What is there, verbatim"), "new_string": text("What shall be there") }),
            ),
        ];
        if self.allowed.work == AgentTask::Dream {
            tools.push(tool("delete", "Deletes a memory.", &["path"], json!({ "path": path })));
            tools.push(tool(
                "propose_merge",
                "Proposes to the person that one of two entries goes, because they say the same in other words.",
                &["drop_path", "drop_entry", "keep_path", "keep_entry"],
                json!({
                    "drop_path": path, "drop_entry": text("The entry that may go, verbatim"),
                    "keep_path": path, "keep_entry": text("The entry that stays, verbatim"),
                }),
            ));
        }
        tools
    }

    fn find_objection(&mut self) -> Option<(String, AgentError)> {
        if self.allowed.work == AgentTask::Dream {
            let error = content_check::check_dream_edits(self).err()?;
            let objection = format!(
                "This is not accepted: {error}. Put it right or take it back with the tools, then say that you are done."
            );
            return Some((objection, error));
        }
        let does_nothing = !self.files.values().any(ToolboxFile::is_changed);
        let is_first = does_nothing && !std::mem::replace(&mut self.was_asked_to_confirm, true);
        is_first.then(|| (CONFIRM_PROMPT.to_owned(), AgentError::NoAnswer))
    }

    fn is_read_only(&self, name: &str) -> bool {
        matches!(name, "read_file" | "grep" | "ls")
    }

    fn call(&mut self, name: &str, arguments: &Value) -> Result<String, ToolRefusal> {
        match name {
            "read_file" => self.read(arguments),
            "grep" => self.search(arguments),
            "ls" => self.list(arguments),
            "write_file" => self.write(arguments),
            "edit" => self.edit(arguments),
            "delete" if self.allowed.work == AgentTask::Dream => self.delete(arguments),
            "propose_merge" if self.allowed.work == AgentTask::Dream => self.propose(arguments),
            _ => Err(ToolRefusal::new("there is no such tool")),
        }
    }
}
