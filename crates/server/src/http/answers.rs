//! Answers to reads of memories, kept as they were sent.
//!
//! An answer is true as long as the file that it was made of is of the same version, which takes one look
//! at the file and none into it. What is kept is derived and bounded: when there is too much, all of it goes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use axum::body::Bytes;
use axum::http::header::{ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use engine::{MemoryText, Stamp};
use memory::limits::HTTP_ANSWERS_BYTES_MAX;
use memory::path::MemoryPath;
use protocol::error::ErrorCode;
use protocol::memories::Memory;

use super::body;
use super::memories::tag;
use super::refused::Refused;
use crate::to_wire;

/// The answer to who reads a memory.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    tag: HeaderValue,
    body: Bytes,
}

/// Answers of all workspaces.
#[derive(Debug, Default)]
pub(super) struct Answers(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    of: HashMap<String, HashMap<MemoryPath, (Stamp, Answer)>>,
    bytes: usize,
}

impl Answer {
    /// Makes the answer out of what was read.
    pub(super) fn new(path: &MemoryPath, read: MemoryText) -> Result<Self, Refused> {
        let memory = Memory {
            path: path.to_string(),
            text: read.text,
            revision: read.revision.to_string(),
            modified_at: to_wire::time(read.modified_at),
        };
        let body = serde_json::to_vec(&memory).map_err(|_| ErrorCode::Internal)?;
        Ok(Self { tag: tag(&read.revision), body: body.into() })
    }

    /// Answers with it, or with nothing but its tag to who has it already.
    pub(super) fn to(self, headers: &HeaderMap) -> Response {
        if headers.get(IF_NONE_MATCH) == Some(&self.tag) {
            return (StatusCode::NOT_MODIFIED, [(ETAG, self.tag)]).into_response();
        }
        let mut response = body::json(self.body);
        response.headers_mut().insert(ETAG, self.tag);
        response
    }
}

impl Answers {
    /// Returns the answer that was made of this version of a memory's file, if it is kept. The version is
    /// looked up only where there is an answer at all.
    pub(super) fn get(
        &self,
        workspace: &str,
        path: &MemoryPath,
        version: impl FnOnce() -> Option<Stamp>,
    ) -> Option<Answer> {
        let (stamp, answer) = self.lock().of.get(workspace)?.get(path)?.clone();
        (version() == Some(stamp)).then_some(answer)
    }

    /// Keeps an answer that was made of this version.
    pub(super) fn keep(&self, workspace: &str, path: MemoryPath, stamp: Stamp, answer: Answer) {
        let bytes = answer.body.len();
        let mut kept = self.lock();
        let before = kept.of.get_mut(workspace).and_then(|of| of.remove(&path));
        kept.bytes -= before.map_or(0, |(_, answer)| answer.body.len());
        if kept.bytes + bytes > HTTP_ANSWERS_BYTES_MAX {
            *kept = Kept::default();
        }
        kept.bytes += bytes;
        kept.of.entry(workspace.to_owned()).or_default().insert(path, (stamp, answer));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use memory::document::Revision;
    use memory::path::Layout;

    use super::*;

    fn path(name: &str) -> MemoryPath {
        MemoryPath::parse(&format!("/memories/global/{name}"), Layout::Scoped).unwrap()
    }

    fn answer(text: &str) -> Answer {
        let read = MemoryText {
            text: text.to_owned(),
            revision: Revision::of(text.as_bytes()),
            modified_at: memory::clock::Timestamp::default(),
            stamp: None,
        };
        Answer::new(&path("a.md"), read).unwrap()
    }

    #[test]
    fn an_answer_is_given_for_its_version_of_its_memory_in_its_workspace_alone() {
        let answers = Answers::default();
        let (old, new) = (Stamp([1; 4]), Stamp([2; 4]));
        answers.keep("w", path("a.md"), old, answer("one"));
        let given = |workspace: &str, name: &str, stamp| {
            answers.get(workspace, &path(name), || stamp).is_some()
        };
        assert!(given("w", "a.md", Some(old)));
        assert!(!given("w", "a.md", Some(new)), "the file changed");
        assert!(!given("w", "a.md", None), "the file cannot be looked at");
        assert!(!given("w", "b.md", Some(old)));
        assert!(!given("v", "a.md", Some(old)));
        answers.keep("w", path("a.md"), new, answer("two"));
        assert!(!given("w", "a.md", Some(old)));
        assert!(given("w", "a.md", Some(new)));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let answers = Answers::default();
        let text = "x".repeat(100_000);
        for number in 0..100_u64 {
            let name = format!("{number}.md");
            answers.keep("w", path(&name), Stamp([number; 4]), answer(&text));
            let kept = answers.lock();
            let bytes: usize =
                kept.of.values().flat_map(HashMap::values).map(|(_, it)| it.body.len()).sum();
            assert_eq!(bytes, kept.bytes);
            assert!(bytes <= HTTP_ANSWERS_BYTES_MAX, "{bytes}");
        }
        let again = answers.lock().bytes;
        answers.keep("w", path("99.md"), Stamp([7; 4]), answer(&text));
        assert_eq!(answers.lock().bytes, again, "in the place of the one before");
    }
}
