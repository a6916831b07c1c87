//! What subscribers of resources hear, and when.

use memory::path::Layout;
use strum::VariantArray as _;

use super::*;

fn path(name: &str) -> MemoryPath {
    MemoryPath::parse(&format!("/memories/global/{name}"), Layout::Scoped).unwrap()
}

fn check(touched: &ChangedPaths, expected: &[&str]) {
    let subscribed: Subscriptions =
        [(path("a.md"), "uri of a".to_owned()), (path("b.md"), "uri of b".to_owned())].into();
    assert_eq!(touched.uris(&subscribed), expected);
}

#[test]
fn a_subscriber_hears_once_and_of_what_it_subscribed_to() {
    check(&ChangedPaths::Listed(vec![]), &[]);
    check(&ChangedPaths::Listed(vec![path("other.md")]), &[]);
    check(
        &ChangedPaths::Listed(vec![path("b.md"), path("a.md"), path("b.md")]),
        &["uri of a", "uri of b"],
    );
    check(&ChangedPaths::Any, &["uri of a", "uri of b"]);
}

#[test]
fn only_an_edit_leaves_the_list_as_it_was() {
    let leaving: Vec<ChangeKind> =
        ChangeKind::VARIANTS.iter().copied().filter(|&kind| !affects_list(kind)).collect();
    assert_eq!(leaving, [ChangeKind::Edit]);
}
