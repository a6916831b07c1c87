//! How the roots and the state are, and what can be mended without losing anything.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use memory::change::ChangeId;
use memory::document::{conflict_line, second_frontmatter_line};
use memory::limits::{DISK_BYTES_LEFT_MIN, MEMORY_BYTES_MAX};
use memory::path::{Mount, RelativePath, Scope};
use memory::screen::{Policy, TextAuthor, ValueDigest};
use state::{StateError, Stats};

use crate::backend::local::{LocalBackend, Privacy, RootDir};
use crate::backend::{Backend as _, BackendError, Extent, SkipReason, SkippedEntry, WalkedFile};
use crate::binding::{PROJECT_FOLDER, other_checkouts};
use crate::cache::FileSummary;
use crate::checks::virtual_path;
use crate::error::StoreError;
use crate::host_fs;
use crate::memories::{BoundMount, Memories};
use crate::root::{Root, document_heads};

mod advice;

use self::advice::Adviser;

/// What kind of thing was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HealthFindingKind {
    /// A name that no memory path can name; nobody but a person can reach the file.
    UnaddressableName,
    /// A link; never followed.
    Link,
    /// A pipe, socket or device; never opened.
    NotAFile,
    /// A folder or file that cannot be read.
    Unreadable,
    /// A file larger than a memory may be.
    OverCap,
    /// A file that is not UTF-8 text.
    NotText,
    /// Frontmatter that cannot be understood; the memory has no description then.
    MalformedFrontmatter,
    /// A merge conflict that nobody resolved.
    ConflictMarker,
    /// A second block of frontmatter, which is read as text.
    SecondFrontmatter,
    /// What a write that did not end left over.
    LeftOverTemporary,
    /// Changes recorded by a writer that died, or before the machine did.
    InterruptedCommit,
    /// Pins and usage of memories that are gone.
    OrphanedState,
    /// More memories than the scope may hold.
    OverFull,
    /// Text that looks like a secret or an attack on a model.
    Screened,
    /// The root cannot be used.
    RootRefused,
    /// The root, or the folder of the state, cannot be written.
    Unwritable,
    /// The disk of the root, or of the state, has no room for another memory.
    DiskFull,
    /// The state database is damaged.
    StateDamaged,
    /// The state database cannot be used as things are; nothing is wrong in it.
    StateUnavailable,
    /// Advice: a value of the frontmatter that is no YAML and was read as text.
    UnquotedValue,
    /// Advice: a memory without a description.
    MissingDescription,
    /// Advice: an entry that says what another one says.
    RepeatedEntry,
}

/// How long after the first look what a writer at work may have left is looked at again.
const RECHECK_DELAY: Duration = Duration::from_millis(300);

impl HealthFindingKind {
    /// Tells whether a writer at work shows this for a moment.
    const fn is_transient(self) -> bool {
        matches!(
            self,
            Self::LeftOverTemporary
                | Self::Unreadable
                | Self::OrphanedState
                | Self::InterruptedCommit
        )
    }

    /// Returns the public word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UnaddressableName => "unaddressable-name",
            Self::Link => "link",
            Self::NotAFile => "not-a-file",
            Self::Unreadable => "unreadable",
            Self::OverCap => "over-cap",
            Self::NotText => "not-text",
            Self::MalformedFrontmatter => "malformed-frontmatter",
            Self::ConflictMarker => "conflict-marker",
            Self::SecondFrontmatter => "second-frontmatter",
            Self::LeftOverTemporary => "left-over-temporary",
            Self::InterruptedCommit => "interrupted-commit",
            Self::OrphanedState => "orphaned-state",
            Self::OverFull => "over-full",
            Self::Screened => "screened",
            Self::RootRefused => "root-refused",
            Self::Unwritable => "unwritable",
            Self::DiskFull => "disk-full",
            Self::StateDamaged => "state-damaged",
            Self::StateUnavailable => "state-unavailable",
            Self::UnquotedValue => "unquoted-value",
            Self::MissingDescription => "missing-description",
            Self::RepeatedEntry => "repeated-entry",
        }
    }
}

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthFinding {
    /// What kind.
    pub kind: HealthFindingKind,
    /// In which root; `None` for the state.
    pub mount: Option<Mount>,
    /// What it is about: a path or name. From a hostile checkout it may hold anything, so it is not
    /// safe to print as it is.
    pub subject: String,
    /// What that means and what to do, in a sentence.
    pub detail: String,
    /// Whether [`Memories::repair`] mends it.
    pub fixable: bool,
}

impl HealthFinding {
    /// Returns a finding that a person has to mend.
    fn new(kind: HealthFindingKind, mount: Option<Mount>, subject: String, detail: String) -> Self {
        Self { kind, mount, subject, detail, fixable: false }
    }
}

/// How one root is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootHealth {
    /// Which.
    pub mount: Mount,
    /// Its folder.
    pub folder: Option<PathBuf>,
    /// Why it is unavailable, if it is.
    pub unavailable: Option<String>,
    /// Whether it exists yet.
    pub exists: bool,
    /// How many memories it holds.
    pub files: usize,
    /// How many it may hold.
    pub files_max: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Who holds it for writing at this moment, in words.
    pub holder: Option<String>,
}

/// How everything is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The roots, in the order of the scopes.
    pub roots: Vec<RootHealth>,
    /// What is not as it should be.
    pub findings: Vec<HealthFinding>,
    /// What could be better and harms nothing; only a thorough look gives advice.
    pub advice: Vec<HealthFinding>,
    /// Counts and sizes of the state.
    pub state: Stats,
}

/// What a repair did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// What was done, in sentences.
    pub actions: Vec<String>,
    /// What is left for a person.
    pub remaining: Vec<HealthFinding>,
    /// What could be better and harms nothing.
    pub advice: Vec<HealthFinding>,
}

/// How thoroughly to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// At names, sizes and beginnings: quick.
    Quick,
    /// At every byte, and at the state database too.
    Thorough,
}

impl Memories {
    /// Examines roots and state. Mends nothing, makes nothing. What writers at work leave for a moment is looked at
    /// twice, and is a finding if it stays.
    pub async fn health(&self, depth: Depth) -> Result<Health, StoreError> {
        let first = self.examine(depth).await?;
        if !first.findings.iter().any(|finding| finding.kind.is_transient()) {
            return Ok(first);
        }
        tokio::time::sleep(RECHECK_DELAY).await;
        let mut second = self.examine(depth).await?;
        second.findings.retain(|finding| {
            let is_it = |known: &HealthFinding| {
                (known.kind, known.mount, &known.subject)
                    == (finding.kind, finding.mount, &finding.subject)
            };
            !finding.kind.is_transient() || first.findings.iter().any(is_it)
        });
        Ok(second)
    }

    /// Looks once. Its counts are those of [`Memories::health`]; among its findings may be what a writer at work leaves for
    /// a moment.
    pub async fn examine(&self, depth: Depth) -> Result<Health, StoreError> {
        let mut health = Health {
            roots: Vec::new(),
            findings: Vec::new(),
            advice: Vec::new(),
            state: Stats::default(),
        };
        for bound in &self.mounts {
            self.examine_mount(bound, depth, &mut health).await?;
        }
        self.examine_state(depth, &mut health).await;
        Ok(health)
    }

    async fn examine_state(&self, depth: Depth, health: &mut Health) {
        let folder = &self.store.folders.state;
        if !host_fs::is_writable(folder) {
            let subject = folder.display().to_string();
            health.findings.push(unwritable(None, subject));
        }
        health.findings.extend(disk_full(None, folder));
        match self.store.state.stats().await {
            Ok(stats) => health.state = stats,
            Err(error) => {
                health.findings.push(state_fault(&error));
                return;
            }
        }
        if depth == Depth::Thorough {
            match self.store.state.check().await {
                Ok(faults) => health.findings.extend(faults.into_iter().map(state_damage)),
                Err(error) => health.findings.push(state_fault(&error)),
            }
        }
    }

    async fn examine_mount(
        &self,
        bound: &BoundMount,
        depth: Depth,
        health: &mut Health,
    ) -> Result<(), StoreError> {
        let files_max = self.store.settings.files_max;
        let mut root_health = RootHealth {
            mount: bound.mount,
            folder: None,
            unavailable: None,
            exists: false,
            files: 0,
            files_max,
            bytes: 0,
            holder: None,
        };
        match &bound.root {
            Err(reason) => root_health.unavailable = Some(reason.clone()),
            Ok(root) => {
                root_health.folder = root.backend.folder();
                root_health.holder = root.backend.holder().await;
                match root.backend.walk(None, Extent::ALL).await {
                    Ok(walk) => {
                        root_health.exists = root
                            .backend
                            .exists()
                            .await
                            .map_err(StoreError::backend_error(root.mount))?;
                        let list = walk.files.iter().find(|file| root.is_list(&file.path));
                        root_health.files = walk.files_total - usize::from(list.is_some());
                        root_health.bytes =
                            walk.bytes_total - list.map_or(0, |list| list.stat.bytes);
                        let adviser = Adviser::new(root.mount, &mut health.advice);
                        let findings = &mut health.findings;
                        let mut examined = RootExamination { root, findings, adviser };
                        examined.check_counts(&root_health, walk.incomplete);
                        examined.add_skipped(&walk.skipped);
                        examined.check_writable();
                        examined.check_disk_room();
                        examined.check_files(self, &walk.files, depth).await?;
                        examined.check_state(self, &walk.files).await;
                    }
                    Err(error) => {
                        health.findings.push(root_refused(bound.mount, &error));
                        root_health.unavailable = Some(error.to_string());
                    }
                }
            }
        }
        health.roots.push(root_health);
        Ok(())
    }

    /// Mends what can be mended without losing anything: finishes interrupted writes, sweeps what
    /// they left over, drops pins and usage of memories that are gone, prunes history.
    pub async fn repair(&self) -> Result<RepairReport, StoreError> {
        let mut repaired = RepairReport::default();
        for bound in &self.mounts {
            let Ok(root) = &bound.root else { continue };
            if !matches!(root.backend.exists().await, Ok(true)) {
                continue;
            }
            let at = StoreError::backend_error(root.mount);
            let recovered = {
                let mut held = root.lock(&self.store).await?;
                crate::recovery::recover(&self.store, &mut held).await?
            };
            if recovered.completed > 0 {
                repaired.actions.push(format!(
                    "{}: finished or swept {} left-overs of interrupted writes",
                    bound.mount, recovered.completed
                ));
            }
            for name in recovered.restored {
                repaired.actions.push(format!(
                    "{}: brought back `{name}`, which somebody wrote during an interrupted write",
                    bound.mount
                ));
            }
            let walk = root.backend.walk(None, Extent::ALL).await.map_err(&at)?;
            let gone = orphans(self, root, &walk.files).await;
            if !gone.is_empty() {
                self.store.state.drop_usage(&root.key.identity, Some(&gone)).await?;
                repaired.actions.push(format!(
                    "{}: forgot pins and usage of {} memories that are gone",
                    bound.mount,
                    gone.len()
                ));
            }
        }
        let pruned = self.store.prune().await?;
        if pruned.changes > 0 {
            repaired.actions.push(format!("history: dropped {} old changes", pruned.changes));
        }
        let health = self.health(Depth::Thorough).await?;
        repaired.remaining = health.findings;
        repaired.advice = health.advice;
        Ok(repaired)
    }
}

struct RootExamination<'a> {
    root: &'a Root,
    findings: &'a mut Vec<HealthFinding>,
    adviser: Adviser<'a>,
}

impl RootExamination<'_> {
    fn add(&mut self, kind: HealthFindingKind, subject: String, detail: &str, fixable: bool) {
        let found = HealthFinding::new(kind, Some(self.root.mount), subject, detail.to_owned());
        self.findings.push(HealthFinding { fixable, ..found });
    }

    fn check_counts(&mut self, health: &RootHealth, incomplete: bool) {
        if health.files > health.files_max {
            let detail = format!(
                "holds {} memories; {} are allowed, so no new ones can be made",
                health.files, health.files_max
            );
            self.add(HealthFindingKind::OverFull, self.root.mount.to_string(), &detail, false);
        }
        if incomplete {
            let detail = "holds so much that not all of it was looked at";
            self.add(HealthFindingKind::OverFull, self.root.mount.to_string(), detail, false);
        }
    }

    fn add_skipped(&mut self, skipped: &[SkippedEntry]) {
        for SkippedEntry { name, reason } in skipped {
            let (kind, detail, fixable) = match reason {
                SkipReason::Unaddressable => (
                    HealthFindingKind::UnaddressableName,
                    "no memory path can name it; rename it by hand",
                    false,
                ),
                SkipReason::TooDeep => (
                    HealthFindingKind::UnaddressableName,
                    "lies too deep for a memory path; move it up by hand",
                    false,
                ),
                SkipReason::Link => {
                    (HealthFindingKind::Link, "is a link, and links are not followed", false)
                }
                SkipReason::Special => {
                    (HealthFindingKind::NotAFile, "is neither a file nor a folder", false)
                }
                SkipReason::Unreadable => (
                    HealthFindingKind::Unreadable,
                    "cannot be read; check its owner and permissions",
                    false,
                ),
                SkipReason::Temporary => (
                    HealthFindingKind::LeftOverTemporary,
                    "was left over by a write that did not end",
                    true,
                ),
            };
            self.add(kind, name.clone(), detail, fixable);
        }
    }

    fn check_writable(&mut self) {
        if let Some(folder) = self.root.backend.folder()
            && !host_fs::is_writable(&folder)
        {
            let mount = self.root.mount;
            self.findings.push(unwritable(Some(mount), mount.to_string()));
        }
    }

    fn check_disk_room(&mut self) {
        if let Some(folder) = self.root.backend.folder() {
            self.findings.extend(disk_full(Some(self.root.mount), &folder));
        }
    }

    async fn check_files(
        &mut self,
        memories: &Memories,
        files: &[WalkedFile],
        depth: Depth,
    ) -> Result<(), StoreError> {
        let heads = document_heads(self.root, files).await;
        let heads = heads.map_err(StoreError::backend_error(self.root.mount))?;
        for (file, head) in files.iter().zip(heads) {
            let Ok(path) = virtual_path(self.root.mount, file.path.clone()) else {
                let name = file.path.to_string();
                self.add_skipped(&[SkippedEntry { name, reason: SkipReason::TooDeep }]);
                continue;
            };
            let path = path.to_string();
            if usize::try_from(file.stat.bytes).is_ok_and(|bytes| bytes <= MEMORY_BYTES_MAX) {
                self.check_file(memories, (file, &head), path, depth).await?;
            } else {
                let detail = "is larger than a memory may be; it can be viewed in part, renamed \
                              or deleted, not edited";
                self.add(HealthFindingKind::OverCap, path, detail, false);
            }
        }
        Ok(())
    }

    async fn check_file(
        &mut self,
        memories: &Memories,
        (file, head): (&WalkedFile, &FileSummary),
        path: String,
        depth: Depth,
    ) -> Result<(), StoreError> {
        if head.is_text
            && let Some(why) = &head.head.malformed
        {
            let detail = format!("its frontmatter cannot be understood: {why}");
            self.add(HealthFindingKind::MalformedFrontmatter, path.clone(), &detail, false);
        }
        let mut is_text = head.is_text;
        if depth == Depth::Thorough && is_text {
            let Ok(read) = self.root.backend.read(&file.path, MEMORY_BYTES_MAX).await else {
                self.add(HealthFindingKind::Unreadable, path, "cannot be read", false);
                return Ok(());
            };
            match str::from_utf8(&read.bytes) {
                Ok(text) if !text.contains('\0') => {
                    self.check_screening(memories, &path, text);
                    self.check_text(&path, head, text);
                }
                _ => is_text = false,
            }
        }
        if !is_text {
            let detail = "is not UTF-8 text; it is left alone";
            self.add(HealthFindingKind::NotText, path, detail, false);
        }
        Ok(())
    }

    /// Looks at what merges leave behind, and at what could be better.
    fn check_text(&mut self, path: &str, head: &FileSummary, text: &str) {
        if head.generated {
            return;
        }
        if let Some(line) = conflict_line(text) {
            let detail = format!(
                "line {line} begins a merge conflict that was not resolved; keep what is right and \
                 remove its markers"
            );
            self.add(HealthFindingKind::ConflictMarker, path.to_owned(), &detail, false);
            // Both sides of a conflict say the same in places.
            return;
        }
        if let Some(line) = second_frontmatter_line(text) {
            let detail = format!(
                "line {line} begins a second block of frontmatter, which is read as text; move its \
                 fields into the first"
            );
            self.add(HealthFindingKind::SecondFrontmatter, path.to_owned(), &detail, false);
        }
        self.adviser.examine(path, &head.head, text);
    }

    fn check_screening(&mut self, memories: &Memories, path: &str, text: &str) {
        let mut rules: Vec<_> = memories
            .store
            .screen
            .check(text, TextAuthor::Agent)
            .into_iter()
            .filter(|found| found.policy == Policy::Refuse)
            .map(|found| (found.rule, found.line, ValueDigest::new(&found, text)))
            .collect();
        rules.dedup_by_key(|found| found.0);
        for (rule, line, digest) in rules {
            let detail = format!(
                "line {line} matches the screening rule `{rule}`; if that is harmless, add \"{}\" to \
                 `allowed` under [screening] in config.toml",
                digest.as_str()
            );
            self.add(HealthFindingKind::Screened, path.to_owned(), &detail, false);
        }
    }

    async fn check_state(&mut self, memories: &Memories, files: &[WalkedFile]) {
        let gone = orphans(memories, self.root, files).await;
        for path in gone {
            let detail = "is gone, but its pin and usage are still kept";
            self.add(HealthFindingKind::OrphanedState, path.to_string(), detail, true);
        }
        // What is open and whole is settled in its own time. Only a writer that died is a finding;
        // looked for twice, because a writer that lives may come and go between the questions.
        let store = &memories.store;
        if self.root.may_be_interrupted(store).await
            && self.root.backend.holder().await.is_none()
            && self.root.may_be_interrupted(store).await
            && let Ok(open) = memories.store.state.open_changes(&self.root.key.place).await
            && !open.is_empty()
        {
            let detail = format!(
                "a write was interrupted: {} changes are recorded and not yet known to be safe on \
                 the disk",
                open.len()
            );
            let subject = self.root.mount.to_string();
            self.add(HealthFindingKind::InterruptedCommit, subject, &detail, true);
        }
    }
}

/// Returns the memories that have marks and no file, here or in another place of the same identity.
async fn orphans(memories: &Memories, root: &Root, files: &[WalkedFile]) -> Vec<RelativePath> {
    let here: HashSet<&RelativePath> = files.iter().map(|file| &file.path).collect();
    let marks = memories.usage_by_path(&root.key).await;
    let mut gone = Vec::new();
    for path in marks.into_keys().filter(|path| !here.contains(path)) {
        // In a folder that cannot be looked into it may well be there.
        if !matches!(root.backend.kind(&path).await, Err(BackendError::Io { .. })) {
            gone.push(path);
        }
    }
    if gone.is_empty() {
        return gone;
    }
    // A memory that this place never had belongs to another worktree.
    let heads = memories.store.state.heads(&root.key.place, ChangeId(0)).await.unwrap_or_default();
    let had: HashSet<_> = heads.iter().map(|head| &head.path).collect();
    gone.retain(|path| had.contains(path));
    // One that another worktree has may never have been recorded there.
    for other in sibling_checkouts(root) {
        let mut still_gone = Vec::with_capacity(gone.len());
        for path in gone {
            if matches!(other.kind(&path).await, Ok(None) | Err(BackendError::WrongKind)) {
                still_gone.push(path);
            }
        }
        gone = still_gone;
    }
    gone.sort();
    gone
}

/// Returns the roots of the same project in other checkouts of its repository, for looking at.
fn sibling_checkouts(root: &Root) -> Vec<LocalBackend> {
    let Some(folder) = root.backend.folder() else { return Vec::new() };
    let in_checkout: PathBuf = PROJECT_FOLDER.iter().collect();
    if root.mount != Mount::Scope(Scope::Project) || !folder.ends_with(&in_checkout) {
        return Vec::new();
    }
    let Some(checkout) = folder.ancestors().nth(PROJECT_FOLDER.len()) else { return Vec::new() };
    let others = other_checkouts(checkout).into_iter();
    others
        .map(|other| {
            let anchor = RootDir::new(other, &PROJECT_FOLDER, Privacy::Shared);
            // Nobody holds it through this, so there is no lock file.
            LocalBackend::new(anchor, PathBuf::new())
        })
        .collect()
}

fn root_refused(mount: Mount, error: &BackendError) -> HealthFinding {
    HealthFinding::new(
        HealthFindingKind::RootRefused,
        Some(mount),
        mount.to_string(),
        error_chain(error),
    )
}

fn unwritable(mount: Option<Mount>, subject: String) -> HealthFinding {
    let detail = "cannot be written; check its owner and permissions".to_owned();
    HealthFinding::new(HealthFindingKind::Unwritable, mount, subject, detail)
}

/// Returns the finding that the disk of a folder is full, if it is.
fn disk_full(mount: Option<Mount>, folder: &Path) -> Option<HealthFinding> {
    let left = host_fs::available_bytes(folder).filter(|&left| left < DISK_BYTES_LEFT_MIN)?;
    let detail = format!("its disk has {left} bytes left; free some space");
    let subject = folder.display().to_string();
    Some(HealthFinding::new(HealthFindingKind::DiskFull, mount, subject, detail))
}

fn state_damage(detail: String) -> HealthFinding {
    let subject = "the state database".to_owned();
    HealthFinding {
        fixable: true,
        ..HealthFinding::new(HealthFindingKind::StateDamaged, None, subject, detail)
    }
}

fn state_fault(error: &StateError) -> HealthFinding {
    let damage = state_damage(error_chain(error));
    match error {
        StateError::Damaged { .. } => damage,
        _ => HealthFinding { kind: HealthFindingKind::StateUnavailable, fixable: false, ..damage },
    }
}

/// Returns an error and its causes in one line.
fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
