//! Memories as resources: what a host application lists and reads for its user.
//!
//! Reading a resource is a program's read, not an agent's view, so it is no use of the memory.
//! A list is given in pages; where the next one begins is the URI that the last one ended with, so
//! that memories which come and go in between neither repeat nor hide others.
//!
//! A memory that came with a repository and that screening objects to carries a notice, here as in
//! a view. A program that wants its bytes reads its file.

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

/// Everything but the characters that mean themselves in every part of a URI, and the slash.
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// What stands before a path in a URI; the path brings the second half of the `//`.
const SCHEME: &str = "lukasa:/";

/// The URI of any memory, as a template.
const URI_TEMPLATE: &str = "lukasa://memories/{+path}";

/// Returns the lines around a memory that nobody here reviewed, if it is shown with any.
fn notices(
    unreviewed: &HashMap<MemoryPath, Unreviewed>,
    path: &MemoryPath,
) -> Option<[&'static str; 2]> {
    unreviewed.get(path).and_then(|unreviewed| unreviewed.marker_lines())
}

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
    for (memory, objections) in listed.into_iter().zip(memories.read_warnings(&paths).await) {
        resources.push(if !objections.is_empty() {
            withheld_resource(memory, notice(&objections))
        } else if let Some([notice, _]) = notices(&unreviewed, &memory.path) {
            withheld_resource(memory, notice.to_owned())
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

/// Returns a memory that nobody here reviewed, or that came with a repository and that screening objects to. It is listed,
/// with a notice in the place of what it says about itself: a client may show titles and descriptions to a model without
/// being asked.
fn withheld_resource(memory: &MemoryEntry, notice: String) -> Resource {
    let mut resource = resource(memory);
    resource.title = None;
    resource.description = Some(notice);
    if let Some(annotations) = &mut resource.annotations {
        annotations.priority = None;
    }
    resource
}

/// Says what screening objects to, on one line.
fn notice(objections: &[Warning]) -> String {
    let warnings = objections.iter().map(|warning| format!(" {warning}"));
    std::iter::once(FROM_CHECKOUT.to_owned()).chain(warnings).collect()
}

fn resource(memory: &MemoryEntry) -> Resource {
    let path = memory.path.to_string();
    let name = path.strip_prefix("/memories/").unwrap_or(&path);
    let mut annotations = Annotations::default();
    annotations.last_modified = Some(memory.modified_at.to_string());
    // What a person pinned is to be in context; nothing else is known to matter more or less.
    annotations.priority = memory.pinned.then_some(1.0);
    let mut resource = Resource::new(uri_of(&memory.path), name)
        .with_mime_type(MIME_TYPE)
        .with_size(memory.bytes)
        .with_annotations(annotations);
    resource.title.clone_from(&memory.name);
    resource.description = (!memory.description.is_empty()).then(|| memory.description.clone());
    resource
}

/// Returns the one template by which a client can make the URI of any memory.
pub(super) fn templates() -> ListResourceTemplatesResult {
    let template = ResourceTemplate::new(URI_TEMPLATE, "memory")
        .with_title("Memory")
        .with_description("A memory by its path below /memories.")
        .with_mime_type(MIME_TYPE);
    ListResourceTemplatesResult::with_all_items(vec![template])
}

/// Returns a memory's text, as data.
pub(super) async fn read(memories: &Memories, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let path = path_of(uri, memories.layout())?;
    let memory = memories.read(&path).await.map_err(|error| mcp_error("resources/read", error))?;
    let objections = memories.read_warnings(&[&path]).await.remove(0);
    let unreviewed = memories.unreviewed(&[(&path, Some(memory.revision))]).await;
    memories.note_read(unreviewed.get(&path).copied());
    // It stands before the text: what a model has read first it reads the rest by.
    let text = if !objections.is_empty() {
        format!("{}\n\n{}", notice(&objections), memory.text)
    } else if let Some([notice, _]) = notices(&unreviewed, &path) {
        // A line behind it could be forged in the text.
        format!("{notice}\n\n{}", memory.text)
    } else {
        memory.text
    };
    let contents = ResourceContents::text(text, uri).with_mime_type(MIME_TYPE);
    Ok(ReadResourceResult::new(vec![contents]))
}

/// Returns the memory path that a URI names.
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

/// Returns the URI of a memory: `/memories/global/prefs.md` is `lukasa://memories/global/prefs.md`. A scheme of its own keeps
/// it apart from the resources of other servers in the same client.
fn uri_of(path: &MemoryPath) -> String {
    format!("{SCHEME}{}", utf8_percent_encode(&path.to_string(), ESCAPED))
}

/// Reads a URI. `None` when it is not one of ours.
fn parse_uri(uri: &str, layout: Layout) -> Option<Result<MemoryPath, PathError>> {
    let path = uri.strip_prefix(SCHEME).filter(|path| path.starts_with("/memories"))?;
    let path = percent_decode_str(path).decode_utf8().ok()?;
    Some(MemoryPath::parse(&path, layout))
}

fn bad_cursor() -> ErrorData {
    ErrorData::invalid_params("the cursor is not one that a list ended with", None)
}

#[cfg(test)]
mod tests;
