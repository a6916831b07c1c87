//! The user's editor, run on a private copy of a text.

use std::path::Path;
use std::process::Command;

use memory::error_code::MemoryErrorCode;

use super::ask;
use crate::app::{self, App};
use crate::exit::Failure;
use crate::files;

/// The content of the copy after the editor has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EditorExit {
    /// UTF-8 text.
    Text(String),
    /// Bytes that are not UTF-8.
    NoText(Vec<u8>),
}

/// Opens the editor on a copy of `text`, named like the memory so that the editor recognizes the file type.
///
/// The copy is in a folder that only this user can enter, and is deleted when this returns or is
/// dropped. If the editor fails, this fails, and the copy is not read.
pub(crate) async fn open(app: &App, name: &str, text: &str) -> Result<EditorExit, Failure> {
    let failed = |path: &Path, error: &std::io::Error| Failure::file("write the copy", path, error);
    let folder = files::private_temporary_folder("lukasa-edit-")
        .map_err(|error| failed("in the temporary folder".as_ref(), &error))?;
    let copy = folder.path().join(name);
    files::write_new_private(&copy, text.as_bytes()).map_err(|error| failed(&copy, &error))?;
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
            return Err(Failure::usage("cannot open an editor without a terminal")
                .help("set $VISUAL or $EDITOR to an editor that needs none, or use `lukasa create` or `lukasa replace` with a text"));
        }
        None => "vi".to_owned(),
    };
    // The shell splits the editor's command into words: `code --wait`.
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{editor} \"$@\"")).arg(&editor).arg(copy);
    let guard = app.interrupts.suspend();
    let ended = tokio::task::spawn_blocking(move || command.status()).await;
    drop(guard);
    let failed = |how: String| {
        Failure::new(MemoryErrorCode::StorageFailed, format!("the editor `{editor}` {how}"))
            .help("nothing was written; set $VISUAL or $EDITOR to your editor")
    };
    match ended {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(failed(format!("failed ({status})"))),
        Ok(Err(error)) => Err(failed(format!("could not be started: {error}"))),
        Err(stopped) => Err(failed(format!("could not be waited for: {stopped}"))),
    }
}
