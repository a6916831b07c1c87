//! The files and folders of a root in memory, and the operations on them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use memory::clock::Timestamp;
use memory::path::RelativePath;
use store::backend::{
    BackendError, Expect, Extent, FileKind, FileRead, SkipReason, SkippedEntry, Stamp, Stat, Walk,
    WalkedFile, WalkedFolder,
};

/// The modification time of version 0; each version is one second later.
const EPOCH_SECOND: i64 = 1_767_225_600;

#[derive(Clone, Debug)]
enum Node {
    Folder,
    File { bytes: Arc<[u8]>, version: u64 },
    Link,
    Pipe,
}

#[derive(Debug, Default)]
pub(super) struct FileTree {
    exists: bool,
    nodes: BTreeMap<RelativePath, Node>,
    /// Staged files by number, with their folders.
    staged: BTreeMap<u64, Option<RelativePath>>,
    versions: u64,
}

/// Returns the folders that contain a path, outermost first.
fn ancestors(path: &RelativePath) -> Vec<RelativePath> {
    let mut folders: Vec<_> = path.folders().collect();
    folders.reverse();
    folders
}

fn stat(bytes: &[u8], version: u64) -> Stat {
    let second = i64::try_from(version).unwrap_or(i64::MAX).saturating_add(EPOCH_SECOND);
    Stat {
        bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        modified_at: Timestamp::from_second(second).unwrap_or(Timestamp::MAX),
        stamp: Stamp([version, 0, 0, 0]),
        recent: false,
    }
}

impl FileTree {
    pub(super) const fn exists(&self) -> bool {
        self.exists
    }

    pub(super) fn temporaries(&self) -> usize {
        self.staged.len()
    }

    pub(super) fn files(&self) -> Vec<(String, Vec<u8>)> {
        let files = self.nodes.iter().filter_map(|(path, node)| match node {
            Node::File { bytes, .. } => Some((path.to_string(), bytes.to_vec())),
            Node::Folder | Node::Link | Node::Pipe => None,
        });
        files.collect()
    }

    pub(super) fn folders(&self) -> Vec<String> {
        let folders = self.nodes.iter().filter(|(_, node)| matches!(node, Node::Folder));
        folders.map(|(path, _)| path.to_string()).collect()
    }

    /// Checks the folders on the way to a path; `false` if one is missing.
    fn check_folders(&self, folders: &[RelativePath]) -> Result<bool, BackendError> {
        for folder in folders {
            match self.nodes.get(folder) {
                None => return Ok(false),
                Some(Node::Folder) => {}
                Some(Node::Link) => {
                    return Err(BackendError::Escapes(folder.file_name().to_owned()));
                }
                Some(Node::File { .. } | Node::Pipe) => return Err(BackendError::WrongKind),
            }
        }
        Ok(true)
    }

    fn create_folders(
        &mut self,
        folders: &[RelativePath],
    ) -> Result<Vec<RelativePath>, BackendError> {
        let mut created = Vec::new();
        for folder in folders {
            if !self.check_folders(std::slice::from_ref(folder))? {
                self.nodes.insert(folder.clone(), Node::Folder);
                created.push(folder.clone());
            }
        }
        self.exists = true;
        Ok(created)
    }

    fn below(&self, folder: &RelativePath) -> Vec<RelativePath> {
        let inside = |path: &&RelativePath| path.is_within(folder) && *path != folder;
        self.nodes.keys().filter(inside).cloned().collect()
    }

    /// Removes folders that were created for a dropped write, unless they are used.
    pub(super) fn remove_created(&mut self, created: &[RelativePath]) {
        for folder in created.iter().rev() {
            let is_staged = self.staged.values().any(|parent| parent.as_ref() == Some(folder));
            if !is_staged && self.below(folder).is_empty() {
                self.nodes.remove(folder);
            }
        }
    }

    fn version(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }

    pub(super) fn walk(
        &self,
        from: Option<&RelativePath>,
        extent: Extent,
    ) -> Result<Walk, BackendError> {
        let mut walk = Walk::default();
        if let Some(from) = from
            && !self.check_folders(&[ancestors(from), vec![from.clone()]].concat())?
        {
            return Ok(walk);
        }
        let depth_max = from.map_or(0, RelativePath::depth).saturating_add(extent.levels);
        let inside = |path: &RelativePath| from.is_none_or(|from| path.is_within(from));
        for (path, node) in self.nodes.iter().filter(|(path, _)| inside(path)) {
            match node {
                Node::Folder if Some(path) == from => {}
                Node::Folder => {
                    walk.folders_total += 1;
                    if path.depth() <= depth_max {
                        let bytes = self.bytes_below(path);
                        walk.folders.push(WalkedFolder { path: path.clone(), bytes });
                    }
                }
                Node::File { bytes, version } => {
                    let stat = stat(bytes, *version);
                    walk.files_total += 1;
                    walk.bytes_total += stat.bytes;
                    if path.depth() <= depth_max {
                        walk.files.push(WalkedFile { path: path.clone(), stat });
                    }
                }
                Node::Link => walk.skipped.push(skipped(path.to_string(), SkipReason::Link)),
                Node::Pipe => walk.skipped.push(skipped(path.to_string(), SkipReason::Special)),
            }
        }
        for (number, parent) in &self.staged {
            if parent.as_ref().map_or(from.is_none(), inside) {
                let name = format!(".lukasa-memory-{number}.tmp");
                let folder = parent.as_ref().map(|parent| format!("{parent}/")).unwrap_or_default();
                walk.skipped.push(skipped(folder + &name, SkipReason::Temporary));
            }
        }
        walk.in_reach = walk.files.len() + walk.folders.len();
        walk.files.truncate(extent.max);
        walk.folders.truncate(extent.max);
        walk.skipped.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(walk)
    }

    fn bytes_below(&self, folder: &RelativePath) -> u64 {
        let bytes = self.nodes.iter().map(|(path, node)| match node {
            Node::File { bytes, .. } if path.is_within(folder) => bytes.len(),
            Node::File { .. } | Node::Folder | Node::Link | Node::Pipe => 0,
        });
        u64::try_from(bytes.sum::<usize>()).unwrap_or(u64::MAX)
    }

    pub(super) fn kind(&self, path: &RelativePath) -> Result<Option<FileKind>, BackendError> {
        if !self.check_folders(&ancestors(path))? {
            return Ok(None);
        }
        Ok(self.nodes.get(path).map(|node| match node {
            Node::Folder => FileKind::Folder,
            Node::File { .. } => FileKind::File,
            Node::Link | Node::Pipe => FileKind::Other,
        }))
    }

    pub(super) fn read(&self, path: &RelativePath, max: usize) -> Result<FileRead, BackendError> {
        if !self.check_folders(&ancestors(path))? {
            return Err(BackendError::NotFound);
        }
        match self.nodes.get(path) {
            Some(Node::File { bytes, version }) => Ok(FileRead {
                bytes: bytes.iter().copied().take(max).collect(),
                stat: stat(bytes, *version),
            }),
            Some(Node::Folder | Node::Link | Node::Pipe) => Err(BackendError::WrongKind),
            None => Err(BackendError::NotFound),
        }
    }

    pub(super) fn stage(
        &mut self,
        path: &RelativePath,
    ) -> Result<(u64, Vec<RelativePath>), BackendError> {
        let created = self.create_folders(&ancestors(path))?;
        let number = self.version();
        self.staged.insert(number, path.parent());
        Ok((number, created))
    }

    pub(super) fn discard(&mut self, number: u64) {
        self.staged.remove(&number);
    }

    pub(super) fn publish(
        &mut self,
        path: &RelativePath,
        bytes: &Arc<[u8]>,
        expect: Expect,
    ) -> Result<(), BackendError> {
        let missing = match expect {
            Expect::Absent => BackendError::NotFound,
            Expect::File(_) => BackendError::Changed,
        };
        if !self.check_folders(&ancestors(path))? {
            return Err(missing);
        }
        match (expect, self.nodes.get(path)) {
            (Expect::Absent, Some(_)) => return Err(BackendError::Occupied),
            (Expect::File(stamp), now) => check_stamp(now, stamp)?,
            (Expect::Absent, None) => {}
        }
        let (bytes, version) = (Arc::clone(bytes), self.version());
        self.nodes.insert(path.clone(), Node::File { bytes, version });
        Ok(())
    }

    pub(super) fn remove_file(
        &mut self,
        path: &RelativePath,
        expect: Stamp,
    ) -> Result<(), BackendError> {
        if self.kind(path)?.is_none() {
            return Err(BackendError::NotFound);
        }
        check_stamp(self.nodes.get(path), expect)?;
        self.nodes.remove(path);
        Ok(())
    }

    pub(super) fn remove_folder(
        &mut self,
        path: &RelativePath,
        expect: &[(RelativePath, Stamp)],
    ) -> Result<(), BackendError> {
        match self.kind(path)? {
            None => return Err(BackendError::NotFound),
            Some(FileKind::File | FileKind::Other) => return Err(BackendError::WrongKind),
            Some(FileKind::Folder) => {}
        }
        let files = self.walk(Some(path), Extent::ALL)?.files;
        let found: BTreeSet<_> =
            files.into_iter().map(|file| (file.path, file.stat.stamp)).collect();
        if found != expect.iter().cloned().collect() {
            return Err(BackendError::Changed);
        }
        self.outside_remove(path);
        Ok(())
    }

    pub(super) fn remove_empty(&mut self, path: &RelativePath) {
        let mut folders = self.below(path);
        folders.push(path.clone());
        // Longest paths first, so that a folder is empty when its turn comes.
        folders.sort_by_key(|folder| std::cmp::Reverse(folder.depth()));
        for folder in folders {
            if matches!(self.nodes.get(&folder), Some(Node::Folder))
                && self.below(&folder).is_empty()
            {
                self.nodes.remove(&folder);
            }
        }
    }

    pub(super) fn rename(
        &mut self,
        from: &RelativePath,
        to: &RelativePath,
    ) -> Result<(), BackendError> {
        if !self.check_folders(&ancestors(from))? {
            return Err(BackendError::NotFound);
        }
        let created = self.create_folders(&ancestors(to))?;
        let moved = self.rename_node(from, to);
        if moved.is_err() {
            self.remove_created(&created);
        }
        moved
    }

    fn rename_node(&mut self, from: &RelativePath, to: &RelativePath) -> Result<(), BackendError> {
        if !self.nodes.contains_key(from) {
            return Err(BackendError::NotFound);
        }
        if self.nodes.contains_key(to) {
            return Err(BackendError::Occupied);
        }
        if to.is_within(from) {
            let source = io::ErrorKind::InvalidInput.into();
            return Err(BackendError::Io { doing: "rename a memory", source });
        }
        let moving = [self.below(from), vec![from.clone()]].concat();
        for path in moving {
            if let (Some(node), Some(path)) = (self.nodes.remove(&path), path.rebase(from, to)) {
                self.nodes.insert(path, node);
            }
        }
        Ok(())
    }

    pub(super) fn sweep(&mut self) -> usize {
        std::mem::take(&mut self.staged).len()
    }

    fn outside_put(&mut self, path: &RelativePath, node: Node) {
        self.exists = true;
        for folder in ancestors(path) {
            self.nodes.insert(folder, Node::Folder);
        }
        self.nodes.insert(path.clone(), node);
    }

    pub(super) fn outside_write(&mut self, path: &RelativePath, bytes: &[u8]) {
        let version = self.version();
        self.outside_put(path, Node::File { bytes: Arc::from(bytes), version });
    }

    pub(super) fn outside_link(&mut self, path: &RelativePath) {
        self.outside_put(path, Node::Link);
    }

    pub(super) fn outside_pipe(&mut self, path: &RelativePath) {
        self.outside_put(path, Node::Pipe);
    }

    pub(super) fn outside_temporary(&mut self, path: &RelativePath) {
        let number = self.version();
        self.exists = true;
        for folder in ancestors(path) {
            self.nodes.insert(folder, Node::Folder);
        }
        self.staged.insert(number, path.parent());
    }

    pub(super) fn outside_remove(&mut self, path: &RelativePath) {
        self.nodes.retain(|other, _| !other.is_within(path));
        self.staged
            .retain(|_, parent| !parent.as_ref().is_some_and(|folder| folder.is_within(path)));
    }
}

fn skipped(name: String, reason: SkipReason) -> SkippedEntry {
    SkippedEntry { name, reason }
}

fn check_stamp(now: Option<&Node>, expected: Stamp) -> Result<(), BackendError> {
    match now {
        Some(Node::File { bytes, version }) if stat(bytes, *version).stamp == expected => Ok(()),
        Some(_) | None => Err(BackendError::Changed),
    }
}
