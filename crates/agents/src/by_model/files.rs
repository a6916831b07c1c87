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

use super::agent::{AgentError, Refused, Toolbox};
use super::runs::Runs;
use super::{kept, prompts};
use crate::embedded::{Form, Likeness, Note, Snapshot, Source, Stored, is_private, proposal};
use crate::request::Edit;

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
const ASKED: &str = "You have written nothing. If the text has a fact that is worth keeping and not known yet, write it now with the tools. If not, answer with the word NOTHING.";
/// Words in a row of private memories that no shared one may have.
const PRIVATE_RUN_WORDS: usize = 6;

/// What an agent may see and do.
#[derive(Clone, Debug)]
pub(crate) struct Allowed<'a> {
    /// The mounts that it sees.
    pub(crate) mounts: Vec<Mount>,
    /// Those of them that it may write to.
    pub(crate) writable: Vec<Mount>,
    /// Whether it sees what was there before.
    pub(crate) sees_earlier: bool,
    /// What it is to do with them.
    pub(crate) work: Work,
    /// The most memories that it may change.
    pub(crate) changed_max: usize,
    /// What it was asked, whose words may go anywhere.
    pub(crate) asked: &'a str,
}

/// What an agent is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Add to memories, or give an entry its new value.
    Remember,
    /// Tidy up: nothing is added, and nothing goes but what stands twice.
    Dream,
}

/// Memories, as an agent has them.
#[derive(Debug)]
pub(crate) struct Files<'a> {
    layout: Layout,
    screen: &'a Screen,
    allowed: Allowed<'a>,
    all: BTreeMap<String, File<'a>>,
    /// Paths that something else stands at.
    taken: BTreeSet<String>,
    /// The runs of words of private memories, and those that may stand anywhere; read when a shared memory is written.
    private: OnceCell<(Runs, Runs)>,
    /// Entries that may be merged, for a person to decide.
    proposals: Vec<Proposal>,
    /// Whether the model was asked if it meant to do nothing.
    was_asked: bool,
}

/// One memory.
#[derive(Debug)]
struct File<'a> {
    path: MemoryPath,
    stored: Option<&'a Stored>,
    /// Whether what was there before is shown.
    is_shown: bool,
    now: Option<String>,
    /// Whether the text that is stored holds a secret; screened when it is first needed.
    has_secret: OnceCell<bool>,
}

impl File<'_> {
    fn before(&self) -> Option<&str> {
        self.stored.map(|stored| &*stored.text)
    }

    fn is_changed(&self) -> bool {
        self.now.as_deref() != self.before()
    }

    /// Returns its text, if it is shown. What screening takes for a secret is sent to no model.
    fn shown(&self, screen: &Screen) -> Option<&str> {
        let is_shown = self.is_changed() || (self.is_shown && !self.has_secret(screen));
        self.now.as_deref().filter(|_| is_shown)
    }

    fn has_secret(&self, screen: &Screen) -> bool {
        let is_one = || self.before().is_some_and(|text| has_secret(screen, text));
        *self.has_secret.get_or_init(is_one)
    }
}

/// Tells whether screening takes something in a text for a secret.
pub(crate) fn has_secret(screen: &Screen, text: &str) -> bool {
    screen.check(text, TextAuthor::Agent).iter().any(|found| found.family == Family::Secrets)
}

impl<'a> Files<'a> {
    /// Copies the memories of a snapshot that somebody here reviewed.
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        layout: Layout,
        screen: &'a Screen,
        allowed: Allowed<'a>,
    ) -> Self {
        let mut files = BTreeMap::new();
        let mut taken: BTreeSet<String> = snapshot.unread.iter().map(ToString::to_string).collect();
        for stored in &snapshot.memories {
            let is_seen = stored.path.mount().is_some_and(|mount| allowed.mounts.contains(&mount));
            // What a review wrote waits for a person, and what somebody asks to remember is not to wait with it.
            let waits = stored.by_review && allowed.work == Work::Remember;
            if !is_seen || stored.is_unreviewed() || waits {
                taken.insert(stored.path.to_string());
                continue;
            }
            let (path, now) = (stored.path.clone(), Some(stored.text.to_string()));
            let file = File {
                path,
                stored: Some(stored),
                is_shown: allowed.sees_earlier,
                now,
                has_secret: OnceCell::new(),
            };
            files.insert(stored.path.to_string(), file);
        }
        Self {
            layout,
            screen,
            allowed,
            all: files,
            taken,
            private: OnceCell::new(),
            proposals: Vec::new(),
            was_asked: false,
        }
    }

    /// Returns what a person should decide: entries that are still as they were.
    pub(crate) fn proposals(&self) -> Vec<Proposal> {
        let is_as_it_was = |path: &MemoryPath| {
            self.all.get(&path.to_string()).is_some_and(|file| !file.is_changed())
        };
        let holds = |proposal: &&Proposal| {
            proposal.changes.iter().all(|change| is_as_it_was(&change.path))
                && proposal.relies_on.iter().all(|kept| is_as_it_was(&kept.path))
        };
        self.proposals.iter().filter(holds).cloned().collect()
    }

    /// Returns what was changed.
    pub(crate) fn edits(&self) -> Vec<Edit> {
        let changed = self.all.values().filter(|file| file.is_changed());
        changed
            .map(|file| match &file.now {
                Some(text) => Edit::Write { path: file.path.clone(), text: text.clone() },
                None => Edit::Remove { path: file.path.clone() },
            })
            .collect()
    }

    /// Returns all memories of the mounts, as they were and as they are.
    pub(crate) fn texts(
        &self,
    ) -> impl Iterator<Item = (&MemoryPath, Option<&'a Stored>, Option<Source>)> {
        self.all.values().map(|file| {
            let now = if file.is_changed() {
                file.now.as_deref().map(Source::from)
            } else {
                file.stored.map(|stored| stored.text.clone())
            };
            (&file.path, file.stored, now)
        })
    }

    fn path(&self, arguments: &Value, key: &str) -> Result<MemoryPath, Refused> {
        let text = string(arguments, key)?;
        MemoryPath::parse(text, self.layout).map_err(|error| Refused::new(error.to_string()))
    }

    /// Returns a memory that is shown, with its text.
    fn file(&self, path: &MemoryPath) -> Result<(&File<'a>, &str), Refused> {
        let file = self.all.get(&path.to_string());
        let shown = file.and_then(|file| Some((file, file.shown(self.screen)?)));
        shown.ok_or_else(|| {
            Refused::new(format!("there is no memory {path}; `ls` shows which there are"))
        })
    }

    /// Returns the folder that is asked for; everything without one.
    fn folder(&self, arguments: &Value) -> Result<String, Refused> {
        match arguments.get("path") {
            None | Some(Value::Null) => Ok("/memories".to_owned()),
            Some(_) => Ok(self.path(arguments, "path")?.to_string()),
        }
    }

    fn list(&self, arguments: &Value) -> Result<String, Refused> {
        let below = self.folder(arguments)?;
        let lines = self.below(&below).map(|(file, text)| {
            let text = Source::from(text);
            let head = &text.read().head;
            let pinned =
                if file.stored.is_some_and(|stored| stored.pinned) { " [pinned]" } else { "" };
            format!("{} ({} bytes) {}{pinned}", file.path, text.len(), head.shown_description())
        });
        Ok(listed(lines, "There are no memories here."))
    }

    /// Returns the memories below a folder that are shown, with their texts.
    fn below<'s>(&'s self, folder: &'s str) -> impl Iterator<Item = (&'s File<'a>, &'s str)> {
        let is_below = move |(path, _): &(&String, &File<'a>)| {
            path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let files = self.all.iter().filter(is_below);
        files.filter_map(|(_, file)| Some((file, file.shown(self.screen)?)))
    }

    fn search(&self, arguments: &Value) -> Result<String, Refused> {
        let pattern = string(arguments, "pattern")?;
        let below = self.folder(arguments)?;
        if pattern.len() > PATTERN_LENGTH_MAX {
            return Err(Refused::new("the pattern is too long"));
        }
        let compile = |pattern: &str| {
            let mut builder = RegexBuilder::new(pattern);
            builder.case_insensitive(true).size_limit(PATTERN_BYTES_MAX);
            builder.dfa_size_limit(PATTERN_BYTES_MAX).build()
        };
        // What is no pattern is looked for as it stands.
        let regex = compile(pattern).or_else(|_| compile(&regex::escape(pattern)));
        let regex = regex.map_err(|_| Refused::new("the pattern is too large"))?;
        let mut found = Vec::new();
        let until = Instant::now() + SEARCH_WAIT;
        for (file, text) in self.below(&below) {
            if found.len() > RESULT_LINES_MAX {
                break;
            }
            if Instant::now() >= until {
                return Err(Refused::new("that takes too long: look for less, or in one folder"));
            }
            for (number, line) in text.lines().enumerate() {
                let end = line.floor_char_boundary(LINE_BYTES_SEARCHED);
                if regex.is_match(slice(line, ..end)) {
                    let line: String = line.chars().take(LINE_CHARS_MAX).collect();
                    found.push(format!("{}:{}: {line}", file.path, number + 1));
                }
            }
        }
        Ok(listed(found.into_iter(), "Nothing matches."))
    }

    fn read(&self, arguments: &Value) -> Result<String, Refused> {
        let path = self.path(arguments, "path")?;
        Ok(self.file(&path)?.1.to_owned())
    }

    fn write(&mut self, arguments: &Value) -> Result<String, Refused> {
        let path = self.path(arguments, "path")?;
        let text = string(arguments, "content")?;
        // A memory that is made anew had no text before.
        let before = self.file(&path).map_or(String::new(), |(_, text)| text.to_owned());
        self.put(&path, &before, text.to_owned())
    }

    fn edit(&mut self, arguments: &Value) -> Result<String, Refused> {
        let path = self.path(arguments, "path")?;
        let (old, new) = (string(arguments, "old_string")?, string(arguments, "new_string")?);
        let before = self.file(&path)?.1.to_owned();
        let edited = edit::str_replace(&path, &before, old, new);
        let edited = edited.map_err(|error| Refused::new(error.to_string()))?;
        self.put(&path, &before, edited.text)
    }

    fn delete(&mut self, arguments: &Value) -> Result<String, Refused> {
        let path = self.path(arguments, "path")?;
        let (file, text) = self.file(&path)?;
        if file.stored.is_some_and(|stored| stored.pinned) {
            return Err(Refused::new(format!("{path} is pinned, so it stays")));
        }
        self.check_change(&path, text)?;
        if let Some(file) = self.all.get_mut(&path.to_string()) {
            file.now = None;
        }
        Ok(format!("Deleted {path}."))
    }

    /// Gives a memory a text, if everything about it is allowed.
    fn put(&mut self, path: &MemoryPath, before: &str, text: String) -> Result<String, Refused> {
        self.check_change(path, before)?;
        if let Some(stored) = self.all.get(&path.to_string()).and_then(|file| file.stored) {
            if self.allowed.work == Work::Remember {
                kept::check_added(stored, &text)
                    .map_err(|why| Refused::new(format!("{path}: {why}")))?;
            } else if stored.pinned {
                return Err(Refused::new(format!("{path} is pinned, so it stays as it is")));
            }
        }
        edit::check_writable(path, &text).map_err(|error| Refused::new(error.to_string()))?;
        let found = self.screen.introduced(before, &text, TextAuthor::Agent);
        if let Some(found) = found.iter().find(|found| found.policy == Policy::Refuse) {
            return Err(Refused::new(format!(
                "line {} matches the {} rule `{}`; secrets and orders to models are not kept",
                found.line, found.family, found.rule
            )));
        }
        if conflict_line(&text).is_some() {
            return Err(Refused::new("the text has markers of a merge conflict"));
        }
        if let Some(run) = prompts::quoted(before, &text) {
            return Err(Refused::new(format!(
                "`{run}` is a part of your instructions, and no memory"
            )));
        }
        if path.is_shared() && self.is_private(path, before, &text) {
            return Err(Refused::new(format!(
                "{path} is read by others, and this is private to the person"
            )));
        }
        let key = path.to_string();
        let file = self.all.entry(key).or_insert_with(|| File {
            path: path.clone(),
            stored: None,
            is_shown: true,
            now: None,
            has_secret: OnceCell::new(),
        });
        file.now = Some(text);
        Ok(format!("Wrote {path}."))
    }

    /// Tells whether a text for others, or its name, has something that is the person's own, which it did not have before.
    fn is_private(&self, path: &MemoryPath, before: &str, text: &str) -> bool {
        let (private, anywhere) = self.private.get_or_init(|| {
            let texts = |is_shared: bool| {
                let of = self.all.values().filter(move |file| file.path.is_shared() == is_shared);
                of.filter_map(File::before)
            };
            let shared = texts(true).chain([self.allowed.asked]);
            (Runs::of(texts(false), PRIVATE_RUN_WORDS), Runs::of(shared, PRIVATE_RUN_WORDS))
        });
        let known = Runs::of([before], PRIVATE_RUN_WORDS);
        let name = path.to_string().replace(['/', '-', '_', '.'], " ");
        if [text, &name].iter().any(|text| private.found_in(text, &[&known, anywhere]).is_some()) {
            return true;
        }
        let is_new =
            |line: &&str| !line.is_empty() && !before.lines().any(|old| old.trim() == *line);
        let lines = || text.lines().map(str::trim).filter(is_new).chain([name.as_str()]);
        if lines().any(is_private) {
            return true;
        }
        // Short facts have no run of words: an entry that is the same as one of the person's own tells them.
        let asked = Form::of(self.allowed.asked);
        let asked_text = self.allowed.asked.to_lowercase();
        let own: HashSet<&Form> = self
            .all
            .values()
            .filter(|file| !file.path.is_shared())
            .filter_map(|file| file.stored)
            .flat_map(|stored| stored.text.read().notes.iter().map(|note| &note.form))
            .collect();
        let text = Source::from(text);
        let before = Source::from(before);
        text.read().notes.iter().any(|note| {
            own.contains(&note.form)
                && note.form != asked
                && !asked_text.contains(&note.whole().to_lowercase())
                && before.read().notes.iter().all(|old| old.form != note.form)
        })
    }

    /// Checks that a memory may be changed at all.
    fn check_change(&self, path: &MemoryPath, before: &str) -> Result<(), Refused> {
        if path.relative().is_none() {
            return Err(Refused::new(format!("{path} is a folder")));
        }
        if !path.mount().is_some_and(|mount| self.allowed.writable.contains(&mount)) {
            return Err(Refused::new(format!("{path} may not be written")));
        }
        let key = path.to_string();
        let is_below = |one: &String| {
            key == *one || key.strip_prefix(one.as_str()).is_some_and(|rest| rest.starts_with('/'))
        };
        let file = self.all.get(&key);
        let is_hidden =
            file.is_some_and(|file| file.now.is_some() && file.shown(self.screen).is_none());
        if is_hidden || self.taken.iter().any(is_below) {
            return Err(Refused::new(format!("{path} is taken; choose another name")));
        }
        if conflict_line(before).is_some() {
            return Err(Refused::new(format!(
                "{path} has a merge conflict that a person has to resolve"
            )));
        }
        if file.is_none() {
            self.check_name(path)?;
        }
        let changed = self.all.values().filter(|file| file.is_changed()).count();
        if changed >= self.allowed.changed_max && !file.is_some_and(File::is_changed) {
            return Err(Refused::new(format!(
                "at most {} memories are changed at once",
                self.allowed.changed_max
            )));
        }
        Ok(())
    }
}

impl Files<'_> {
    /// Checks that a new memory may be called so beside those that there are.
    fn check_name(&self, path: &MemoryPath) -> Result<(), Refused> {
        if self.allowed.work == Work::Dream {
            return Err(Refused::new("a dream makes no new memories"));
        }
        let key = path.to_string();
        let name = path.relative().map(RelativePath::file_name).unwrap_or_default();
        if name.strip_suffix(".md").is_none_or(|stem| stem.eq_ignore_ascii_case("memory")) {
            return Err(Refused::new("the name of a memory ends with .md, and is not MEMORY.md"));
        }
        let folded = key.to_lowercase();
        let is_beside = |one: &String| {
            let one = one.to_lowercase();
            one == folded
                || folded.strip_prefix(&one).is_some_and(|rest| rest.starts_with('/'))
                || one.strip_prefix(&folded).is_some_and(|rest| rest.starts_with('/'))
        };
        if self.all.keys().chain(&self.taken).any(is_beside) {
            return Err(Refused::new(format!(
                "{path} is too like another name; choose another one"
            )));
        }
        Ok(())
    }

    /// Notes two entries that say the same in other words, for a person to decide.
    fn propose(&mut self, arguments: &Value) -> Result<String, Refused> {
        if self.proposals.len() >= AGENT_PROPOSALS_MAX {
            return Err(Refused::new("there are enough proposals"));
        }
        let entry = |path: &str, entry: &str| {
            let path = self.path(arguments, path)?;
            let form = Form::of(string(arguments, entry)?);
            let stored =
                self.file(&path)?.0.stored.filter(|stored| !stored.pinned || entry == "keep_entry");
            let notes = stored.into_iter().flat_map(|stored| &stored.text.read().notes);
            let text = notes.into_iter().find(|note| note.form == form).map(Note::whole);
            let text = text.ok_or_else(|| Refused::new(format!("{path} has no such entry")))?;
            Ok::<_, Refused>(EntryReference { path, text: text.to_owned() })
        };
        let (goes, stays) = (entry("drop_path", "drop_entry")?, entry("keep_path", "keep_entry")?);
        if goes == stays {
            return Err(Refused::new("these are one entry"));
        }
        let likeness =
            Likeness { kind: ProposalKind::Repetition, score: PROPOSAL_SCORE, older_goes: true };
        self.proposals.push(proposal(likeness, &goes, &stays));
        Ok("Noted for the person to decide.".to_owned())
    }
}

fn listed(lines: impl Iterator<Item = String>, nothing: &str) -> String {
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

fn string<'v>(arguments: &'v Value, key: &str) -> Result<&'v str, Refused> {
    arguments
        .get(key)
        .and_then(Value::as_str)
        .ok_or_else(|| Refused::new(format!("`{key}` must be a string")))
}

impl Toolbox for Files<'_> {
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
        if self.allowed.work == Work::Dream {
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

    fn object(&mut self) -> Option<(String, AgentError)> {
        if self.allowed.work == Work::Dream {
            let error = kept::check_tidied(self).err()?;
            let objection = format!(
                "This is not accepted: {error}. Put it right or take it back with the tools, then say that you are done."
            );
            return Some((objection, error));
        }
        let does_nothing = !self.all.values().any(File::is_changed);
        let is_first = does_nothing && !std::mem::replace(&mut self.was_asked, true);
        is_first.then(|| (ASKED.to_owned(), AgentError::NoAnswer))
    }

    fn looks_only(&self, name: &str) -> bool {
        matches!(name, "read_file" | "grep" | "ls")
    }

    fn call(&mut self, name: &str, arguments: &Value) -> Result<String, Refused> {
        match name {
            "read_file" => self.read(arguments),
            "grep" => self.search(arguments),
            "ls" => self.list(arguments),
            "write_file" => self.write(arguments),
            "edit" => self.edit(arguments),
            "delete" if self.allowed.work == Work::Dream => self.delete(arguments),
            "propose_merge" if self.allowed.work == Work::Dream => self.propose(arguments),
            _ => Err(Refused::new("there is no such tool")),
        }
    }
}
