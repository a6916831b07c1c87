//! Tests of the notifications that subscribers of resources get.

use memory::path::Layout;
use strum::VariantArray as _;

use super::*;

fn path(name: &str) -> MemoryPath {
    MemoryPath::parse(&format!("/memories/global/{name}"), Layout::Scoped).unwrap()
}

fn check(changed: &ChangedPaths, expected: &[&str]) {
    let subscribed: Subscriptions =
        [(path("a.md"), "uri of a".to_owned()), (path("b.md"), "uri of b".to_owned())].into();
    assert_eq!(changed.uris(&subscribed), expected);
}

#[test]
fn a_subscriber_is_notified_once_and_only_of_its_subscriptions() {
    check(&ChangedPaths::Listed(vec![]), &[]);
    check(&ChangedPaths::Listed(vec![path("other.md")]), &[]);
    check(
        &ChangedPaths::Listed(vec![path("b.md"), path("a.md"), path("b.md")]),
        &["uri of a", "uri of b"],
    );
    check(&ChangedPaths::Any, &["uri of a", "uri of b"]);
}

#[test]
fn every_change_but_an_edit_may_affect_the_list() {
    let unaffected: Vec<ChangeKind> =
        ChangeKind::VARIANTS.iter().copied().filter(|&kind| !affects_list(kind)).collect();
    assert_eq!(unaffected, [ChangeKind::Edit]);
}
