//! The file tools of an agent, over an in-memory copy of the memories. Changed files become the edits of a draft.
//!
//! Only paths of memories exist here, so no call reaches anything else on the machine. A memory with a secret is
//! not shown. A write is refused if it breaks a permission, fails
//! screening, repeats our prompt to the model, or puts private text into a shared memory.
//! The toolbox touches no real file.

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

/// Maximum number of lines of a listing or a search result.
const RESULT_LINES_MAX: usize = 200;
/// Maximum length of a line in a search result, in characters.
const LINE_CHARS_MAX: usize = 300;
/// Maximum size of a compiled pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 64 * 1024;
/// Maximum size of a pattern's source, in bytes.
const PATTERN_SOURCE_BYTES_MAX: usize = 256;
/// Number of bytes of a line that are searched.
const LINE_BYTES_SEARCHED: usize = 8 * 1024;
/// Time limit of a search, checked between files.
const SEARCH_TIME_MAX: Duration = Duration::from_secs(2);
/// Maximum number of proposals of one dream.
const AGENT_PROPOSALS_MAX: usize = 20;
/// Score of a model's proposal, in percent.
const PROPOSAL_SCORE: u8 = 60;
/// Question to a model that has written nothing.
const CONFIRM_PROMPT: &str = "You have written nothing. If the text has a fact that is worth keeping and not known yet, write it now with the tools. If not, answer with the word NOTHING.";
/// A shared memory may not repeat this many consecutive words of a private one.
const PRIVATE_NGRAM_WORDS: usize = 6;

/// Permissions of an agent.
#[derive(Clone, Debug)]
pub(crate) struct AgentPermissions<'a> {
    /// Mounts that it can read.
    pub(crate) mounts: Vec<Mount>,
    /// Mounts among them that it can write.
    pub(crate) writable: Vec<Mount>,
    /// Whether it sees the existing memories.
    pub(crate) sees_existing: bool,
    /// Kind of its task.
    pub(crate) work: AgentTask,
    /// Maximum number of memories that it may change.
    pub(crate) changed_max: usize,
    /// Text of the request, whose words may be written to any scope.
    pub(crate) request: &'a str,
}

/// Kind of an agent's task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AgentTask {
    /// Adding to memories, or replacing an outdated entry.
    Remember,
    /// Tidying: nothing is added, and only duplicates are removed.
    Dream,
}

/// The memories as an agent sees and changes them.
#[derive(Debug)]
pub(crate) struct MemoryToolbox<'a> {
    layout: Layout,
    screen: &'a Screen,
    allowed: AgentPermissions<'a>,
    files: BTreeMap<String, ToolboxFile<'a>>,
    /// Paths that the agent may not use, because something it does not see is there.
    reserved_paths: BTreeSet<String>,
    /// N-grams of private memories, and those that may be written anywhere; computed when a shared memory is first
    /// written.
    private_ngrams: OnceCell<(WordNgrams, WordNgrams)>,
    /// Proposed merges, for a person to decide.
    proposals: Vec<Proposal>,
    /// Whether the model was asked to confirm that it writes nothing.
    was_asked_to_confirm: bool,
}

/// One file of the toolbox.
#[derive(Debug)]
struct ToolboxFile<'a> {
    path: MemoryPath,
    stored: Option<&'a StoredMemory>,
    /// Whether the stored text is shown.
    shows_existing: bool,
    current: Option<String>,
    /// Whether the stored text holds a secret; screened when it is first needed.
    has_secret: OnceCell<bool>,
}

impl ToolboxFile<'_> {
    fn original(&self) -> Option<&str> {
        self.stored.map(|stored| &*stored.text)
    }

    fn is_changed(&self) -> bool {
        self.current.as_deref() != self.original()
    }

    /// Returns the text if it may be shown. A stored text with a secret or a merge conflict is sent to no model.
    fn visible_text(&self, screen: &Screen) -> Option<&str> {
        let has_conflict = || self.stored.is_some_and(StoredMemory::has_conflict);
        let is_shown = self.is_changed()
            || (self.shows_existing && !has_conflict() && !self.has_secret(screen));
        self.current.as_deref().filter(|_| is_shown)
    }

    fn has_secret(&self, screen: &Screen) -> bool {
        let is_one = || self.original().is_some_and(|text| has_secret(screen, text));
        *self.has_secret.get_or_init(is_one)
    }
}

/// Checks whether a memory is sent to no model: it has a secret, or a merge conflict that a person has to resolve.
pub(crate) fn is_withheld(screen: &Screen, stored: &StoredMemory) -> bool {
    stored.has_conflict() || has_secret(screen, &stored.text)
}

/// Checks whether screening finds a secret in a text.
pub(crate) fn has_secret(screen: &Screen, text: &str) -> bool {
    screen.check(text, TextAuthor::Agent).iter().any(|found| found.family == Family::Secrets)
}

impl<'a> MemoryToolbox<'a> {
    /// Copies the memories of a snapshot that were reviewed on this machine.
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        layout: Layout,
        screen: &'a Screen,
        allowed: AgentPermissions<'a>,
    ) -> Self {
        let mut files = BTreeMap::new();
        let mut reserved_paths: BTreeSet<String> =
            snapshot.occupied_paths.iter().map(ToString::to_string).collect();
        for stored in &snapshot.memories {
            let is_seen = stored.path.mount().is_some_and(|mount| allowed.mounts.contains(&mount));
            // A memory by a background review waits for a person's decision; a requested fact must not wait with
            // it.
            let waits = stored.written_by_review && allowed.work == AgentTask::Remember;
            if !is_seen || stored.is_unreviewed() || waits {
                reserved_paths.insert(stored.path.to_string());
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
            reserved_paths,
            private_ngrams: OnceCell::new(),
            proposals: Vec::new(),
            was_asked_to_confirm: false,
        }
    }

    /// Returns the proposals whose memories were not changed since.
    pub(crate) fn proposals(&self) -> Vec<Proposal> {
        let is_unchanged = |path: &MemoryPath| {
            self.files.get(&path.to_string()).is_some_and(|file| !file.is_changed())
        };
        let holds = |proposal: &&Proposal| {
            proposal.changes.iter().all(|change| is_unchanged(&change.path))
                && proposal.relies_on.iter().all(|kept| is_unchanged(&kept.path))
        };
        self.proposals.iter().filter(holds).cloned().collect()
    }

    /// Returns the changed files as edits.
    pub(crate) fn edits(&self) -> Vec<CuratorEdit> {
        let changed = self.files.values().filter(|file| file.is_changed());
        changed
            .map(|file| match &file.current {
                Some(text) => CuratorEdit::Write { path: file.path.clone(), text: text.clone() },
                None => CuratorEdit::Remove { path: file.path.clone() },
            })
            .collect()
    }

    /// Returns all memories of the mounts, before and after the agent's edits.
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

    /// Returns a visible file and its text.
    fn visible_file(&self, path: &MemoryPath) -> Result<(&ToolboxFile<'a>, &str), ToolRefusal> {
        let file = self.files.get(&path.to_string());
        let shown = file.and_then(|file| Some((file, file.visible_text(self.screen)?)));
        shown.ok_or_else(|| {
            ToolRefusal::new(format!("there is no memory {path}; `ls` shows which there are"))
        })
    }

    /// Returns the folder in the arguments; all memories without one.
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

    /// Returns the visible files below a folder, with their texts.
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
        if pattern.len() > PATTERN_SOURCE_BYTES_MAX {
            return Err(ToolRefusal::new("the pattern is too long"));
        }
        let compile = |pattern: &str| {
            let mut builder = RegexBuilder::new(pattern);
            builder.case_insensitive(true).size_limit(PATTERN_BYTES_MAX);
            builder.dfa_size_limit(PATTERN_BYTES_MAX).build()
        };
        // An invalid pattern is searched for literally.
        let regex = compile(pattern).or_else(|_| compile(&regex::escape(pattern)));
        let regex = regex.map_err(|_| ToolRefusal::new("the pattern is too large"))?;
        let mut matches = Vec::new();
        let deadline = Instant::now() + SEARCH_TIME_MAX;
        for (file, text) in self.files_below(&below) {
            if matches.len() > RESULT_LINES_MAX {
                break;
            }
            if Instant::now() >= deadline {
                return Err(ToolRefusal::new(
                    "that takes too long: look for less, or in one folder",
                ));
            }
            for (number, line) in text.lines().enumerate() {
                let end = line.floor_char_boundary(LINE_BYTES_SEARCHED);
                if regex.is_match(slice(line, ..end)) {
                    let line: String = line.chars().take(LINE_CHARS_MAX).collect();
                    matches.push(format!("{}:{}: {line}", file.path, number + 1));
                }
            }
        }
        Ok(listing(matches.into_iter(), "Nothing matches."))
    }

    fn read(&self, arguments: &Value) -> Result<String, ToolRefusal> {
        let path = self.path_argument(arguments, "path")?;
        Ok(self.visible_file(&path)?.1.to_owned())
    }

    fn write(&mut self, arguments: &Value) -> Result<String, ToolRefusal> {
        let path = self.path_argument(arguments, "path")?;
        let text = string_argument(arguments, "content")?;
        // A new memory has no text before.
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

    /// Sets the text of a memory after all checks.
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
        let findings = self.screen.introduced(before, &text, TextAuthor::Agent);
        if let Some(finding) = findings.iter().find(|finding| finding.policy == Policy::Refuse) {
            return Err(ToolRefusal::new(format!(
                "line {} matches the {} rule `{}`; secrets and orders to models are not kept",
                finding.line, finding.family, finding.rule
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

    /// Checks whether a shared text, or its name, has private content that it did not have before.
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
        let existing = WordNgrams::from_texts([before], PRIVATE_NGRAM_WORDS);
        let name = path.to_string().replace(['/', '-', '_', '.'], " ");
        if [text, &name].iter().any(|text| private.find_in(text, &[&existing, anywhere]).is_some())
        {
            return true;
        }
        let is_new =
            |line: &&str| !line.is_empty() && !before.lines().any(|old| old.trim() == *line);
        let lines = || text.lines().map(str::trim).filter(is_new).chain([name.as_str()]);
        if lines().any(is_private) {
            return true;
        }
        // A short fact has fewer words than an n-gram, so entries are compared as a whole too.
        let requested = NormalizedText::new(self.allowed.request);
        let request_text = self.allowed.request.to_lowercase();
        let own: HashSet<&NormalizedText> = self
            .files
            .values()
            .filter(|file| !file.path.is_shared())
            .filter_map(|file| file.stored)
            .flat_map(|stored| stored.text.parsed().entries.iter().map(|entry| &entry.normalized))
            .collect();
        let text = ParsedText::from(text);
        let before = ParsedText::from(before);
        text.parsed().entries.iter().any(|entry| {
            own.contains(&entry.normalized)
                && entry.normalized != requested
                && !request_text.contains(&entry.full_text().to_lowercase())
                && before.parsed().entries.iter().all(|old| old.normalized != entry.normalized)
        })
    }

    /// Checks whether a memory may be changed at all.
    fn check_change(&self, path: &MemoryPath, before: &str) -> Result<(), ToolRefusal> {
        if path.relative().is_none() {
            return Err(ToolRefusal::new(format!("{path} is a folder")));
        }
        if !path.mount().is_some_and(|mount| self.allowed.writable.contains(&mount)) {
            return Err(ToolRefusal::new(format!("{path} may not be written")));
        }
        let key = path.to_string();
        let is_below = |reserved: &String| {
            key == *reserved
                || key.strip_prefix(reserved.as_str()).is_some_and(|rest| rest.starts_with('/'))
        };
        let file = self.files.get(&key);
        let is_hidden = file
            .is_some_and(|file| file.current.is_some() && file.visible_text(self.screen).is_none());
        if conflict_line(before).is_some() {
            return Err(ToolRefusal::new(format!(
                "{path} has a merge conflict that a person has to resolve"
            )));
        }
        if is_hidden || self.reserved_paths.iter().any(is_below) {
            return Err(ToolRefusal::new(format!("{path} is taken; choose another name")));
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
    /// Checks whether the name of a new memory is allowed and distinct from all others.
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
        let is_beside = |other: &String| {
            let other = other.to_lowercase();
            other == folded
                || folded.strip_prefix(&other).is_some_and(|rest| rest.starts_with('/'))
                || other.strip_prefix(&folded).is_some_and(|rest| rest.starts_with('/'))
        };
        if self.files.keys().chain(&self.reserved_paths).any(is_beside) {
            return Err(ToolRefusal::new(format!(
                "{path} is too like another name; choose another one"
            )));
        }
        Ok(())
    }

    /// Records a proposal to merge two entries that say the same in other words.
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
            let entries = stored.into_iter().flat_map(|stored| &stored.text.parsed().entries);
            let text = entries
                .into_iter()
                .find(|note| note.normalized == form)
                .map(ParsedEntry::full_text);
            let text = text.ok_or_else(|| ToolRefusal::new(format!("{path} has no such entry")))?;
            Ok::<_, ToolRefusal>(EntryReference { path, text: text.to_owned() })
        };
        let (dropped, kept) =
            (entry("drop_path", "drop_entry")?, entry("keep_path", "keep_entry")?);
        if dropped == kept {
            return Err(ToolRefusal::new("these are one entry"));
        }
        let relation = EntryRelation {
            kind: ProposalKind::Repetition,
            score: PROPOSAL_SCORE,
            removes_older: true,
        };
        self.proposals.push(relation_proposal(relation, &dropped, &kept));
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
