//! Answers to reads of memories, kept as they were sent.
//!
//! An answer is true as long as the file that it was made of is of the same version, which takes one look
//! at the file and none into it. It is kept under what was asked, letter for letter. What is kept is derived
//! and bounded: when there is too much, all of it goes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use axum::http::header::ETAG;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use engine::{LastWrite, MemoryText, Stamp};
use memory::document::Revision;
use memory::limits::HTTP_ANSWERS_BYTES_MAX;
use memory::path::MemoryPath;
use protocol::error::ErrorCode;

use super::body;
use super::conditions::Conditions;
use super::memories::tag;
use super::refused::Refused;
use crate::to_wire;

/// The answer to who reads a memory.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    revision: Revision,
    tag: HeaderValue,
    body: Bytes,
}

/// An answer, and what it was made of.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) workspace: String,
    pub(super) path: MemoryPath,
    pub(super) stamp: Stamp,
    pub(super) answer: Answer,
}

/// Answers of all workspaces.
#[derive(Debug, Default)]
pub(super) struct Answers(Mutex<All>);

#[derive(Debug, Default)]
struct All {
    by_question: HashMap<String, Arc<Kept>>,
    bytes: usize,
}

impl Answer {
    /// Makes the answer out of what was read.
    pub(super) fn new(
        path: &MemoryPath,
        read: MemoryText,
        last: Option<LastWrite>,
    ) -> Result<Self, Refused> {
        let revision = read.revision;
        let memory = to_wire::memory(path, read, last);
        let body = serde_json::to_vec(&memory).map_err(|_| ErrorCode::Internal)?;
        Ok(Self { revision, tag: tag(&revision), body: body.into() })
    }

    /// Answers with it, with nothing but its tag to who has it already, or with why it is not what is wanted.
    pub(super) fn to(&self, headers: &HeaderMap) -> Response {
        let known = Conditions::of(headers).and_then(|wanted| wanted.is_known(self.revision));
        let tag = self.tag.clone();
        match known {
            Err(refused) => refused.into_response(),
            Ok(true) => (StatusCode::NOT_MODIFIED, [(ETAG, tag)]).into_response(),
            Ok(false) => {
                let mut response = body::json(self.body.clone());
                response.headers_mut().insert(ETAG, tag);
                response
            }
        }
    }
}

impl Answers {
    /// Returns the answer that was given to this question, the path and query of a request. Whether the file
    /// is still of its version is for the caller to see.
    pub(super) fn get(&self, question: &str) -> Option<Arc<Kept>> {
        self.lock().by_question.get(question).cloned()
    }

    /// Keeps an answer.
    pub(super) fn keep(&self, question: &str, kept: Kept) {
        let size = |kept: &Kept| question.len() + kept.answer.body.len();
        let bytes = size(&kept);
        let mut all = self.lock();
        let before = all.by_question.remove(question);
        all.bytes -= before.map_or(0, |before| size(&before));
        if all.bytes + bytes > HTTP_ANSWERS_BYTES_MAX {
            *all = All::default();
        }
        all.bytes += bytes;
        all.by_question.insert(question.to_owned(), Arc::new(kept));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use memory::path::Layout;

    use super::*;

    fn kept(text: &str) -> Kept {
        let path = MemoryPath::parse("/memories/global/a.md", Layout::Scoped).unwrap();
        let read = MemoryText {
            text: text.to_owned(),
            revision: Revision::of(text.as_bytes()),
            modified_at: memory::clock::Timestamp::default(),
            stamp: None,
        };
        let answer = Answer::new(&path, read, None).unwrap();
        Kept { workspace: "w".to_owned(), path, stamp: Stamp([1; 4]), answer }
    }

    #[test]
    fn the_last_answer_to_a_question_is_the_one_that_is_kept() {
        let answers = Answers::default();
        answers.keep("/a", kept("one"));
        answers.keep("/a", kept("two"));
        let body = answers.get("/a").unwrap().answer.body.clone();
        assert_eq!(body, kept("two").answer.body);
        assert!(answers.get("/a?b=c").is_none());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let answers = Answers::default();
        let text = "x".repeat(100_000);
        for number in 0..100_u64 {
            answers.keep(&format!("/{number}"), kept(&text));
            let all = answers.lock();
            let sizes = all.by_question.iter().map(|(at, kept)| at.len() + kept.answer.body.len());
            assert_eq!(sizes.sum::<usize>(), all.bytes);
            assert!(all.bytes <= HTTP_ANSWERS_BYTES_MAX, "{}", all.bytes);
        }
        let again = answers.lock().bytes;
        answers.keep("/99", kept(&text));
        assert_eq!(answers.lock().bytes, again, "in the place of the one before");
    }
}
