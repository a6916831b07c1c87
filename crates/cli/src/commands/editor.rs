//! The person's editor on a private copy.

use std::path::Path;
use std::process::Command;

use memory::error_code::MemoryErrorCode;

use super::ask;
use crate::app::{self, App};
use crate::exit::Failure;
use crate::files;

/// What the editor left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EditorExit {
    /// A text.
    Text(String),
    /// Bytes that are no text.
    NoText(Vec<u8>),
}

/// Opens the editor on a copy of `text`, named like the memory so that the editor knows what it is.
///
/// The copy lies in a folder that only this person can enter, and is gone when this returns or is
/// dropped. An editor that fails is a failure: what it left is not looked at.
pub(crate) async fn open(app: &App, name: &str, text: &str) -> Result<EditorExit, Failure> {
    let told = |path: &Path, error: &std::io::Error| Failure::file("write the copy", path, error);
    let folder = files::private_temporary_folder("lukasa-edit-")
        .map_err(|error| told("in the temporary folder".as_ref(), &error))?;
    let copy = folder.path().join(name);
    files::write_new_private(&copy, text.as_bytes()).map_err(|error| told(&copy, &error))?;
    run(app, &copy).await?;
    let bytes =
        files::read(&copy).map_err(|error| Failure::file("read the copy", &copy, &error))?;
    Ok(match String::from_utf8(bytes) {
        Ok(text) => EditorExit::Text(text),
        Err(error) => EditorExit::NoText(error.into_bytes()),
    })
}

async fn run(app: &App, copy: &Path) -> Result<(), Failure> {
    let editor = match app::editor() {
        Some(editor) => editor,
        None if ask::is_piped() => {
            return Err(Failure::usage("there is no terminal for an editor")
                .help("$VISUAL or $EDITOR names one that needs none; `lukasa create` and `lukasa replace` take texts"));
        }
        None => "vi".to_owned(),
    };
    // The shell parts the editor's words as the person wrote them: `code --wait`.
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{editor} \"$@\"")).arg(&editor).arg(copy);
    let lent = app.interrupts.suspend();
    let ended = tokio::task::spawn_blocking(move || command.status()).await;
    drop(lent);
    let failed = |how: String| {
        Failure::new(MemoryErrorCode::StorageFailed, format!("the editor `{editor}` {how}"))
            .help("nothing was written; $VISUAL or $EDITOR names the editor")
    };
    match ended {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(failed(format!("failed ({status})"))),
        Ok(Err(error)) => Err(failed(format!("could not be started: {error}"))),
        Err(stopped) => Err(failed(format!("could not be waited for: {stopped}"))),
    }
}
