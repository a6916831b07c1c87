//! Memories as MCP resources, which a host application lists and reads for its user.
//!
//! Reading a resource does not count as a use of the memory, because a program reads it, not an agent. The cursor of a
//! page is the last URI of the previous page, so that memories added or removed in between neither repeat nor hide
//! others.
//!
//! A memory that came with a repository and has screening findings carries a notice, as in a view. A program that needs
//! the exact bytes reads the file.

use std::collections::HashMap;

use engine::{Listing, Memories, MemoryEntry, Unreviewed};
use memory::command::view::FROM_CHECKOUT;
use memory::command::{CommandError, Warning};
use memory::path::{Layout, MemoryPath, PathError};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rmcp::ErrorData;
use rmcp::model::{
    Annotations, ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate,
};
use serde_json::json;

use crate::error::{mcp_error, mcp_refusal};
use crate::limits::MCP_RESOURCES_PAGE;

const MIME_TYPE: &str = "text/markdown";

/// The characters to escape: all but the unreserved characters of a URI, and the slash.
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// The prefix of a memory path in a URI. The leading slash of the path completes the `//`.
const SCHEME: &str = "lukasa:/";

/// The URI template of a memory.
const URI_TEMPLATE: &str = "lukasa://memories/{+path}";

/// Returns the lines around a memory that no person here reviewed, if it is shown with any.
fn notices(
    unreviewed: &HashMap<MemoryPath, Unreviewed>,
    path: &MemoryPath,
) -> Option<[&'static str; 2]> {
    unreviewed.get(path).and_then(|unreviewed| unreviewed.marker_lines())
}

/// The description of a memory with a merge conflict.
const IN_CONFLICT: &str = "In conflict: a person has to resolve a merge in it.";

/// Returns the page of memories that follows `cursor`, or the first.
pub(super) async fn list(
    memories: &Memories,
    cursor: Option<&str>,
) -> Result<ListResourcesResult, ErrorData> {
    let after = match cursor {
        Some(cursor) => Some(path_of(cursor, memories.layout()).map_err(|_| bad_cursor())?),
        None => None,
    };
    let listing = memories.list(None).await.map_err(|error| mcp_error("resources/list", error))?;
    let (listed, next_cursor) = page(&listing, after.as_ref());
    let mut resources = Vec::with_capacity(listed.len());
    let paths: Vec<_> = listed.iter().map(|memory| (&memory.path, None)).collect();
    let unreviewed = memories.unreviewed(&paths).await;
    let paths: Vec<_> = listed.iter().map(|memory| &memory.path).collect();
    let findings = memories.text_findings(&paths).await;
    for (memory, findings) in listed.into_iter().zip(findings) {
        resources.push(if !findings.warnings.is_empty() {
            withheld_resource(memory, notice(&findings.warnings))
        } else if let Some([notice, _]) = notices(&unreviewed, &memory.path) {
            withheld_resource(memory, notice.to_owned())
        } else if findings.in_conflict {
            withheld_resource(memory, IN_CONFLICT.to_owned())
        } else {
            resource(memory)
        });
    }
    let mut result = ListResourcesResult::with_all_items(resources);
    result.next_cursor = next_cursor;
    Ok(result)
}

/// Returns the memories of a page, and the cursor of the next one.
fn page<'l>(
    listing: &'l Listing,
    after: Option<&MemoryPath>,
) -> (Vec<&'l MemoryEntry>, Option<String>) {
    let after = after.map(ToString::to_string);
    let mut rest = listing
        .memories
        .iter()
        .filter(|memory| after.as_ref().is_none_or(|after| memory.path.to_string() > *after));
    let listed: Vec<&MemoryEntry> = rest.by_ref().take(MCP_RESOURCES_PAGE).collect();
    let more = rest.next().is_some();
    let next = listed.last().filter(|_| more).map(|last| uri_of(&last.path));
    (listed, next)
}

/// Returns the resource of a memory that no person here reviewed, that has a merge conflict, or that came with a repository
/// and has screening findings. A notice replaces its title and description, because clients may show these to a model.
fn withheld_resource(memory: &MemoryEntry, notice: String) -> Resource {
    let mut resource = resource(memory);
    resource.title = None;
    resource.description = Some(notice);
    if let Some(annotations) = &mut resource.annotations {
        annotations.priority = None;
    }
    resource
}

/// Returns the findings of screening on one line.
fn notice(warnings: &[Warning]) -> String {
    let warnings = warnings.iter().map(|warning| format!(" {warning}"));
    std::iter::once(FROM_CHECKOUT.to_owned()).chain(warnings).collect()
}

fn resource(memory: &MemoryEntry) -> Resource {
    let path = memory.path.to_string();
    let name = path.strip_prefix("/memories/").unwrap_or(&path);
    let mut annotations = Annotations::default();
    annotations.last_modified = Some(memory.modified_at.to_string());
    // A pin is the only sign of importance that a person gives.
    annotations.priority = memory.pinned.then_some(1.0);
    let mut resource = Resource::new(uri_of(&memory.path), name)
        .with_mime_type(MIME_TYPE)
        .with_size(memory.bytes)
        .with_annotations(annotations);
    resource.title.clone_from(&memory.name);
    resource.description = (!memory.description.is_empty()).then(|| memory.description.clone());
    resource
}

/// Returns the template by which a client can make the URI of any memory.
pub(super) fn templates() -> ListResourceTemplatesResult {
    let template = ResourceTemplate::new(URI_TEMPLATE, "memory")
        .with_title("Memory")
        .with_description("A memory by its path below /memories.")
        .with_mime_type(MIME_TYPE);
    ListResourceTemplatesResult::with_all_items(vec![template])
}

/// Returns the text of a memory, with a notice if it needs one.
pub(super) async fn read(memories: &Memories, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let path = path_of(uri, memories.layout())?;
    let memory = memories.read(&path).await.map_err(|error| mcp_error("resources/read", error))?;
    let warnings = memories.read_warnings(&[&path]).await.remove(0);
    let unreviewed = memories.unreviewed(&[(&path, Some(memory.revision))]).await;
    let noted = memories.note_read(unreviewed.get(&path).copied()).await;
    noted.map_err(|error| mcp_error("resources/read", error.into()))?;
    // The notice is before the text, so that a model reads it first.
    let text = if !warnings.is_empty() {
        format!("{}\n\n{}", notice(&warnings), memory.text)
    } else if let Some([notice, _]) = notices(&unreviewed, &path) {
        // No closing line as in a view: the text could contain a forged one.
        format!("{notice}\n\n{}", memory.text)
    } else {
        memory.text
    };
    let contents = ResourceContents::text(text, uri).with_mime_type(MIME_TYPE);
    Ok(ReadResourceResult::new(vec![contents]))
}

/// Returns the memory path of a URI.
pub(super) fn path_of(uri: &str, layout: Layout) -> Result<MemoryPath, ErrorData> {
    match parse_uri(uri, layout) {
        Some(Ok(path)) => Ok(path),
        Some(Err(error)) => Err(mcp_refusal(&CommandError::from(error))),
        None => Err(ErrorData::resource_not_found(
            format!("not the URI of a memory; those have the form {URI_TEMPLATE}"),
            Some(json!({ "uri": uri })),
        )),
    }
}

/// Returns the URI of a memory: `/memories/global/prefs.md` is `lukasa://memories/global/prefs.md`. A scheme of its own
/// avoids clashes with resources of other servers in the same client.
fn uri_of(path: &MemoryPath) -> String {
    format!("{SCHEME}{}", utf8_percent_encode(&path.to_string(), ESCAPED))
}

/// Parses a URI; `None` for a URI of another scheme or form.
fn parse_uri(uri: &str, layout: Layout) -> Option<Result<MemoryPath, PathError>> {
    let path = uri.strip_prefix(SCHEME).filter(|path| path.starts_with("/memories"))?;
    let path = percent_decode_str(path).decode_utf8().ok()?;
    Some(MemoryPath::parse(&path, layout))
}

fn bad_cursor() -> ErrorData {
    ErrorData::invalid_params("invalid cursor; send the `nextCursor` of a list", None)
}

#[cfg(test)]
mod tests;
