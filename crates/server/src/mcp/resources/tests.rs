//! Tests of memories as resources: lists, pages and URIs.

use memory::clock::Timestamp;
use memory::usage::Usage;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn listed(path: &str) -> MemoryEntry {
    MemoryEntry {
        path: MemoryPath::parse(path, Layout::Scoped).unwrap(),
        bytes: 12,
        modified_at: Timestamp::from_second(1_700_000_000).unwrap(),
        is_described: true,
        description: String::new(),
        name: None,
        kind: None,
        rules: memory::document::Rules::None,
        pinned: false,
        usage: Usage::default(),
    }
}

#[test]
fn a_resource_has_the_facts_of_its_listing() {
    let memory = MemoryEntry {
        description: "What Ada likes".to_owned(),
        name: Some("Preferences".to_owned()),
        pinned: true,
        ..listed("/memories/global/prefs.md")
    };
    assert_eq!(
        serde_json::to_value([resource(&memory), resource(&listed("/memories/project/a.md"))])
            .unwrap(),
        json!([
            {
                "uri": "lukasa://memories/global/prefs.md",
                "name": "global/prefs.md",
                "title": "Preferences",
                "description": "What Ada likes",
                "mimeType": "text/markdown",
                "size": 12,
                "annotations": { "priority": 1.0, "lastModified": "2023-11-14T22:13:20Z" },
            },
            {
                "uri": "lukasa://memories/project/a.md",
                "name": "project/a.md",
                "mimeType": "text/markdown",
                "size": 12,
                "annotations": { "lastModified": "2023-11-14T22:13:20Z" },
            },
        ])
    );
}

/// Returns all names by following the cursors, and the number of pages.
fn all(listing: &Listing) -> (Vec<String>, usize) {
    let (mut names, mut pages, mut after) = (Vec::new(), 0, None);
    loop {
        let (page, next) = page(listing, after.as_ref());
        names.extend(page.into_iter().map(|memory| resource(memory).name));
        pages += 1;
        match next {
            Some(cursor) => after = Some(path_of(&cursor, Layout::Scoped).unwrap()),
            None => return (names, pages),
        }
    }
}

#[test]
fn pages_hold_every_memory_once() {
    for (count, expected_pages) in [
        (0, 1),
        (1, 1),
        (MCP_RESOURCES_PAGE, 1),
        (MCP_RESOURCES_PAGE + 1, 2),
        (3 * MCP_RESOURCES_PAGE, 3),
    ] {
        let names: Vec<String> = (0..count).map(|n| format!("global/{n:05}.md")).collect();
        let memories = names.iter().map(|name| listed(&format!("/memories/{name}"))).collect();
        let listing = Listing { memories, ..Listing::default() };
        assert_eq!(all(&listing), (names, expected_pages), "{count} memories");
    }
}

#[test]
fn the_cursor_of_a_deleted_memory_is_still_valid() {
    let listing = Listing {
        memories: vec![listed("/memories/global/a.md"), listed("/memories/global/c.md")],
        ..Listing::default()
    };
    let deleted = MemoryPath::parse("/memories/global/b.md", Layout::Scoped).unwrap();
    let rest: Vec<String> =
        page(&listing, Some(&deleted)).0.into_iter().map(|memory| resource(memory).name).collect();
    assert_eq!(rest, ["global/c.md"]);
}

fn check_uri(path: &str, uri: &str) {
    let path = MemoryPath::parse(path, Layout::Scoped).unwrap();
    assert_eq!(uri_of(&path), uri);
    assert_eq!(parse_uri(uri, Layout::Scoped), Some(Ok(path)));
}

#[test]
fn a_path_and_its_uri_convert_both_ways() {
    check_uri("/memories/global/prefs.md", "lukasa://memories/global/prefs.md");
    check_uri("/memories/project/a b/ü.md", "lukasa://memories/project/a%20b/%C3%BC.md");
    check_uri("/memories/workspace/100%.md", "lukasa://memories/workspace/100%25.md");
    check_uri(
        "/memories/global/a#b&c=d;e@f.md",
        "lukasa://memories/global/a%23b%26c%3Dd%3Be%40f.md",
    );
}

#[test]
fn uris_of_other_schemes_and_forms_are_not_parsed() {
    for uri in [
        "",
        "memories/global/a.md",
        "/memories/global/a.md",
        "file:///memories/global/a.md",
        "lukasa://other/global/a.md",
        "lukasa:///memories/global/a.md",
        "lukasa://memories/%ff",
    ] {
        assert_eq!(parse_uri(uri, Layout::Scoped), None, "{uri}");
    }
}

#[test]
fn a_uri_cannot_name_a_path_outside_of_the_memories() {
    for uri in [
        "lukasa://memories/../etc/passwd",
        "lukasa://memories/global/%2e%2e/%2e%2e/etc/passwd",
        "lukasa://memories/global/%252e%252e/x",
        "lukasa://memories/global/a%00.md",
        "lukasa://memories/global/a%5Cb.md",
        "lukasa://memories/elsewhere/a.md",
    ] {
        assert!(matches!(parse_uri(uri, Layout::Scoped), Some(Err(_))), "{uri}");
    }
}

proptest! {
    #[test]
    fn a_parsed_uri_is_written_the_same(tail in ".{0,40}") {
        if let Some(Ok(path)) = parse_uri(&format!("lukasa://memories/{tail}"), Layout::Flat) {
            prop_assert_eq!(parse_uri(&uri_of(&path), Layout::Flat), Some(Ok(path)));
        }
    }
}
