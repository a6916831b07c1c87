//! Paths as URIs and back.

use proptest::prelude::*;

use super::*;

fn check(path: &str, uri: &str) {
    let path = MemoryPath::parse(path, Layout::Scoped).unwrap();
    assert_eq!(of(&path), uri);
    assert_eq!(parse(uri, Layout::Scoped), Some(Ok(path)));
}

#[test]
fn a_memory_has_one_uri() {
    check("/memories/global/prefs.md", "quipu://memories/global/prefs.md");
    check("/memories/project/a b/ü.md", "quipu://memories/project/a%20b/%C3%BC.md");
    check("/memories/workspace/100%.md", "quipu://memories/workspace/100%25.md");
    check("/memories/global/a#b&c=d;e@f.md", "quipu://memories/global/a%23b%26c%3Dd%3Be%40f.md");
}

#[test]
fn only_our_uris_are_read() {
    for uri in [
        "",
        "memories/global/a.md",
        "/memories/global/a.md",
        "file:///memories/global/a.md",
        "quipu://other/global/a.md",
        "quipu:///memories/global/a.md",
        "quipu://memories/%ff",
    ] {
        assert_eq!(parse(uri, Layout::Scoped), None, "{uri}");
    }
}

#[test]
fn a_uri_leads_nowhere_that_a_path_does_not() {
    for uri in [
        "quipu://memories/../etc/passwd",
        "quipu://memories/global/%2e%2e/%2e%2e/etc/passwd",
        "quipu://memories/global/%252e%252e/x",
        "quipu://memories/global/a%00.md",
        "quipu://memories/global/a%5Cb.md",
        "quipu://memories/elsewhere/a.md",
    ] {
        assert!(matches!(parse(uri, Layout::Scoped), Some(Err(_))), "{uri}");
    }
}

proptest! {
    #[test]
    fn what_is_read_is_written_the_same(tail in ".{0,40}") {
        if let Some(Ok(path)) = parse(&format!("quipu://memories/{tail}"), Layout::Flat) {
            prop_assert_eq!(parse(&of(&path), Layout::Flat), Some(Ok(path)));
        }
    }
}
