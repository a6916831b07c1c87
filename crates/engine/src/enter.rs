//! From the plan of an import to a draft: what can be made is drafted, the rest is said with its reason.

use memory::code::Code;
use memory::command::{Command, CommandError, Reply};
use memory::path::{MemoryPath, RelativePath};
use store::{Draft, Memories, StoreError};

use crate::import::Planned;

/// Why a memory that was planned is not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotEntered {
    /// Its path cannot be one here.
    #[error("{0}")]
    Path(String),
    /// The very same text is there.
    #[error("it is there already")]
    ThereAlready,
    /// Something else is there.
    #[error("{0} is there with another text")]
    OtherText(MemoryPath),
    /// It is refused.
    #[error("{0}")]
    Refused(CommandError),
}

/// Puts one memory below `target` into the draft; returns where it will be, or why it will not.
pub async fn enter(
    memories: &Memories,
    draft: &mut Draft,
    target: &MemoryPath,
    planned: Planned,
) -> Result<Result<MemoryPath, NotEntered>, StoreError> {
    let path = match below(target, &planned.path) {
        Ok(path) => path,
        Err(why) => return Ok(Err(NotEntered::Path(why))),
    };
    match memories.read(&path).await {
        Ok(there) if there.text == planned.text => return Ok(Err(NotEntered::ThereAlready)),
        Ok(_) => return Ok(Err(NotEntered::OtherText(path))),
        Err(error) if error.code() == Code::NotFound => {}
        Err(StoreError::Refused(refusal)) => return Ok(Err(NotEntered::Refused(refusal))),
        Err(fault) => return Err(fault),
    }
    let command = Command::Create { path: path.clone(), file_text: planned.text };
    Ok(match draft.apply(command).await? {
        Reply::Done { .. } => Ok(path),
        Reply::Refused(refusal) => Err(NotEntered::Refused(refusal)),
    })
}

fn below(target: &MemoryPath, relative: &str) -> Result<MemoryPath, String> {
    let relative = RelativePath::parse(relative).map_err(|error| error.to_string())?;
    let mut path = target.clone();
    for segment in relative.segments() {
        path = path.join(segment).map_err(|error| error.to_string())?;
    }
    Ok(path)
}
