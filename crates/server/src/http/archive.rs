//! Export of all memories as a tar archive, and import of Markdown files from one.
//!
//! An export reads one memory at a time while it is sent, so it needs little room. An import is read whole as a
//! request body, whose size is limited. Which files an import takes is decided by `engine::import`.

use std::io::Read as _;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Query, Request};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use axum::{BoxError, Json};
use engine::import::{self, Format, SourceFile};
use engine::{Caller, ImportRejection, Memories, MemoryText, StoreError};
use futures_util::stream;
use memory::access::AgentClass;
use memory::change::{Actor, ChangeKind, Provenance, Trust};
use memory::limits::IMPORT_FILES_MAX;
use memory::path::MemoryPath;
use protocol::error::ErrorCode;
use protocol::memories::{ImportOutcome, ImportedMemory, SkippedImport};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::app_state::{PersonRequest, SharedState};
use super::body;
use super::request::{QueryResult, WorkspaceQuery, memory_path};
use super::routes::{Routes, routes};
use crate::error::ErrorResponse;
use crate::error_chain;

pub(super) fn routes() -> Routes {
    Routes::new().add(routes!(export: MEMORY)).add(routes!(import: MEMORY))
}

/// A tar archive.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "only described: archives are streams and bodies")]
struct Archive(Vec<u8>);

/// Get all memories as a tar archive, a folder for each scope.
///
/// The archive is created while it is sent. If the daemon fails meanwhile, the connection breaks before the end.
#[utoipa::path(
    get,
    path = "/v1/export",
    tag = "transfer",
    params(WorkspaceQuery),
    responses(
        (status = 200, description = "The archive", content_type = "application/x-tar", body = Archive),
        ErrorResponse,
    ),
)]
async fn export(PersonRequest { memories, .. }: PersonRequest) -> Result<Response, ErrorResponse> {
    let listed = memories.list(None).await?.memories;
    let paths: Vec<_> = listed.into_iter().map(|listed| listed.path).collect();
    let state = ArchiveStream {
        memories,
        remaining: paths.into_iter(),
        archive: Some(tar::Builder::new(Vec::new())),
    };
    let archive = stream::try_unfold(state, async |mut state: ArchiveStream| {
        let bytes = state.next().await.inspect_err(|error| {
            tracing::error!(error = error_chain(&**error), "an export failed before its end");
        })?;
        Ok::<_, BoxError>(bytes.map(|bytes| (bytes, state)))
    });
    let head = [
        (CONTENT_TYPE, "application/x-tar"),
        (CONTENT_DISPOSITION, "attachment; filename=\"memories.tar\""),
    ];
    Ok((head, Body::from_stream(archive)).into_response())
}

/// The state of an archive that is being sent.
struct ArchiveStream {
    memories: Memories,
    remaining: std::vec::IntoIter<MemoryPath>,
    /// `None` once the end of the archive is sent.
    archive: Option<tar::Builder<Vec<u8>>>,
}

impl ArchiveStream {
    /// Returns the bytes of the next memory or of the archive's end; `None` after that.
    async fn next(&mut self) -> Result<Option<Bytes>, BoxError> {
        let Some(mut archive) = self.archive.take() else { return Ok(None) };
        for path in self.remaining.by_ref() {
            match self.memories.read(&path).await {
                Ok(read) => {
                    add(&mut archive, &path, &read)?;
                    let bytes = std::mem::take(archive.get_mut());
                    self.archive = Some(archive);
                    return Ok(Some(bytes.into()));
                }
                // Skipped: not a readable memory, or deleted since it was listed.
                Err(StoreError::Refused(_)) => {}
                Err(fault) => return Err(fault.into()),
            }
        }
        Ok(Some(archive.into_inner()?.into()))
    }
}

fn add(
    archive: &mut tar::Builder<Vec<u8>>,
    path: &MemoryPath,
    read: &MemoryText,
) -> std::io::Result<()> {
    let whole = path.to_string();
    let name = whole.strip_prefix("/memories/").unwrap_or(&whole);
    let mut header = tar::Header::new_gnu();
    header.set_size(u64::try_from(read.text.len()).expect("a length fits 64 bits"));
    header.set_mode(0o644);
    header.set_mtime(u64::try_from(read.modified_at.as_second()).unwrap_or(0));
    archive.append_data(&mut header, name, read.text.as_bytes())
}

/// The target of an import.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ImportParams {
    /// The id of the workspace. The default is the first one.
    workspace: Option<String>,
    /// The scope or folder, such as `/memories/global`. If left out, the top folders of the archive are the scopes,
    /// as in an export.
    to: Option<String>,
}

/// Import the Markdown files of a tar archive, as one change.
///
/// A file that exists already, or may not be written, is skipped with the reason.
#[utoipa::path(
    post,
    path = "/v1/import",
    tag = "transfer",
    params(ImportParams),
    request_body(content = Archive, content_type = "application/x-tar"),
    responses(
        (status = 200, description = "The imported and the skipped files", body = ImportOutcome),
        ErrorResponse,
    ),
)]
async fn import(
    Extension(daemon): Extension<SharedState>,
    params: QueryResult<ImportParams>,
    request: Request,
) -> Result<Json<ImportOutcome>, ErrorResponse> {
    let headers = request.headers().clone();
    let archive = body::bytes(request).await?;
    let Query(ImportParams { workspace, to }) = params?;
    let memories = daemon.person_memories(workspace.as_deref(), &headers).await?;
    let target = match to {
        Some(to) => memory_path(&memories, &to)?,
        None => memory_path(&memories, "/memories")?,
    };
    let files = unpack(&archive)?;
    Ok(Json(import_files(&memories, &target, files).await?))
}

/// Returns the regular files of an archive. An archive with too many entries is refused.
fn unpack(archive: &[u8]) -> Result<Vec<SourceFile>, ErrorResponse> {
    let broken = |_| ErrorResponse::from(ErrorCode::InvalidArchive);
    let mut archive = tar::Archive::new(archive);
    let mut files = Vec::new();
    for (index, entry) in archive.entries().map_err(broken)?.enumerate() {
        let mut entry = entry.map_err(broken)?;
        if index >= IMPORT_FILES_MAX {
            let sentence = format!("the archive has more than {IMPORT_FILES_MAX} entries");
            let refused = ErrorResponse::from(ErrorCode::InvalidArchive).with_message(sentence);
            return Err(refused.with_fact("maxEntries", IMPORT_FILES_MAX));
        }
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(broken)?;
        files.push(SourceFile { path, bytes });
    }
    Ok(files)
}

async fn import_files(
    memories: &Memories,
    target: &MemoryPath,
    files: Vec<SourceFile>,
) -> Result<ImportOutcome, ErrorResponse> {
    let provenance = Provenance::new(Actor::Person, Trust::Imported, "import:folder");
    let memories = memories.for_caller(Caller::new(AgentClass::Exec, provenance));
    let plan = import::plan(Format::Folder, files);
    let skip = |source: String, why: String| SkippedImport { source, why };
    let mut skipped: Vec<_> =
        plan.skipped.into_iter().map(|file| skip(file.source, file.reason)).collect();
    let mut draft = memories.draft(ChangeKind::Import, engine::CallContext::default());
    let mut imported = Vec::new();
    for planned in plan.memories {
        let (source, notes) = (planned.source.clone(), planned.notes.clone());
        match engine::import_memory(&memories, &mut draft, target, planned).await {
            Ok(path) => imported.push(ImportedMemory { path: path.to_string(), source, notes }),
            Err(ImportRejection::Store(fault)) => return Err(fault.into()),
            Err(why) => skipped.push(skip(source, why.to_string())),
        }
    }
    let change = draft.commit().await?.map(|id| id.0);
    Ok(ImportOutcome { memories: imported, skipped, change })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packed(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        for (path, bytes) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(u64::try_from(bytes.len()).unwrap());
            archive.append_data(&mut header, path, *bytes).unwrap();
        }
        archive.into_inner().unwrap()
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_unpacked_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..2_000)) {
            drop(unpack(&bytes));
        }

        /// The sizes that a damaged archive claims never make its files larger than the archive.
        #[test]
        fn a_damaged_archive_unpacks_to_at_most_its_own_size(
            changes in proptest::collection::vec((0_usize..3_072, any::<u8>()), 0..8),
            end in 0_usize..=3_072,
        ) {
            let mut bytes = packed(&[("a.md", b"one"), ("b/c.md", &[b'x'; 600])]);
            prop_assert_eq!(unpack(&bytes).unwrap().len(), 2);
            for (offset, byte) in changes {
                let offset = offset % bytes.len();
                bytes[offset] = byte;
            }
            bytes.truncate(end);
            if let Ok(files) = unpack(&bytes) {
                let total: usize = files.iter().map(|file| file.bytes.len()).sum();
                prop_assert!(total <= bytes.len(), "{} of {}", total, bytes.len());
            }
        }
    }
}
