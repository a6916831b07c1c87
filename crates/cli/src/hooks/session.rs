//! What a session of an agent asks of memory, and what it gets.
//!
//! A session is opened with the index of memories. Recall, reviews and harvests are not there yet: prompts and
//! results of tools are answered with nothing, and the rest is heard and not acted upon.

use crate::args::Globals;
use crate::compose::Glimpse;
use crate::exit::Failure;
use crate::hooks::segment::segment;
use crate::hooks::wire::Told;
use crate::hooks::{Event, Format};

/// A session of an agent, for as long as one hook runs.
pub(super) struct Session {
    globals: Globals,
    text_bytes_max: usize,
}

impl Session {
    /// Returns the session that an agent told of; its folder is the project, unless a flag names another.
    pub(super) fn new(mut globals: Globals, format: &Format, told: &Told) -> Self {
        globals.project = globals.project.or_else(|| told.folder.clone());
        Self { globals, text_bytes_max: format.text_bytes_max }
    }

    /// Hears of an event and returns what the model is shown, if anything.
    pub(super) async fn happened(&self, told: &Told) -> Result<Option<String>, Failure> {
        match told.event {
            Event::SessionStart => self.open().await.map(Some),
            Event::UserPrompt => Ok(recalled(told.prompt.as_deref())),
            Event::PostToolUse => Ok(recalled(None)),
            Event::PreCompact | Event::Stop | Event::SessionEnd => Ok(None),
        }
    }

    /// Looks at the memories; nothing is written, and no use is counted.
    async fn open(&self) -> Result<String, Failure> {
        let glimpse = Glimpse::new(&self.globals)?;
        let segment = segment(&glimpse.memories, self.text_bytes_max).await;
        glimpse.close().await;
        Ok(segment?)
    }
}

/// Returns what fits a prompt, or what was found since for the prompt before. Nothing is searched yet.
fn recalled(_prompt: Option<&str>) -> Option<String> {
    None
}
