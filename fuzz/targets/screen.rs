//! Screening of any text: it ends in time, every finding is within the text, and findings that existed before an edit
//! do not count against the edit.

#![no_main]

use libfuzzer_sys::fuzz_target;
use memory::screen::{Screen, TextAuthor};

fuzz_target!(|text: &str| {
    let screen = Screen::default();
    let findings = screen.check(text, TextAuthor::Agent);
    assert!(findings.is_sorted_by_key(|finding| finding.range.start));
    for finding in &findings {
        assert!(text.get(finding.range.clone()).is_some_and(|found| !found.is_empty()));
        assert!((1..=text.split('\n').count()).contains(&finding.line));
    }
    assert_eq!(screen.introduced(text, text, TextAuthor::Agent), []);
    assert_eq!(screen.introduced("", text, TextAuthor::Agent), findings);
});
