//! Tests of the places in rows, of pages and of digests.

use super::*;
use crate::Fault;

fn places() -> Places {
    Places::new(|identity| (identity == "global").then(|| "0123456789ab".to_owned()))
}

fn proposals() -> &'static Table {
    TABLES.iter().find(|table| table.name == "proposals").unwrap()
}

/// Converts the roots of a proposal in both directions.
fn check(local: &str, shared: &str) {
    let index = proposals().columns.iter().position(|column| column.name == "roots").unwrap();
    let mut row = vec![Value::Null; proposals().columns.len()];
    row[index] = Value::Text(local.to_owned());
    places().share(proposals(), &mut row).unwrap();
    assert_eq!(row[index], Value::Text(shared.to_owned()));
    places().localize(proposals(), &mut row).unwrap();
    assert_eq!(row[index], Value::Text(local.to_owned()));
}

#[test]
fn places_of_hosted_roots_become_their_identities_and_back() {
    check(r#"[["global","0123456789ab"]]"#, r#"[["global","global"]]"#);
    check(
        r#"[["global","0123456789ab"],["project:shop","ba9876543210"]]"#,
        r#"[["global","global"],["project:shop","ba9876543210"]]"#,
    );
    check(
        r#"{"a":["x"],"b":[["global","0123456789ab"]]}"#,
        r#"{"a":["x"],"b":[["global","global"]]}"#,
    );
}

#[test]
fn other_places_and_texts_stay() {
    for text in [
        "",
        r#"[["global","ba9876543210"]]"#,
        r#"{"text":"[\"global\",\"0123456789ab\"]"}"#,
        r#"["global"]"#,
        "[[",
        r#"["","#,
    ] {
        check(text, text);
    }
}

#[test]
fn a_place_that_no_folder_has_is_refused() {
    let heads = TABLES.iter().find(|table| table.name == "heads").unwrap();
    let mut row = vec![Value::Null; heads.columns.len()];
    row[0] = Value::Text("workspace:../x".to_owned());
    row[2] = row[0].clone();
    let refused = places().localize(heads, &mut row);
    assert!(matches!(refused, Err(Fault::Damaged(_))), "{refused:?}");
}

#[test]
fn a_page_holds_at_least_one_row_and_few_bytes() {
    let max = i64::try_from(PAGE_BYTES_MAX).unwrap();
    for (sizes, rows) in [
        (vec![], 0),
        (vec![0; 5], 5),
        (vec![max + 1, 1], 1),
        (vec![max, 1], 1),
        (vec![max - 1, 1, 1], 2),
        (vec![i64::MAX, i64::MAX], 1),
    ] {
        assert_eq!(rows_in_page(sizes.clone()), rows, "{sizes:?}");
    }
}

#[test]
fn a_digest_depends_on_each_value_and_not_on_the_order() {
    let row = |number, text: &str| vec![Value::Integer(number), Value::Text(text.to_owned())];
    let digest = |rows: &[Row]| {
        let mut digest = ContentDigest::default();
        for row in rows {
            digest.add_row(row);
        }
        digest
    };
    let both = digest(&[row(1, "a"), row(2, "b")]);
    assert_eq!(both, digest(&[row(2, "b"), row(1, "a")]));
    for other in [
        digest(&[row(1, "a")]),
        digest(&[row(1, "b"), row(2, "a")]),
        digest(&[row(1, "a"), row(2, "b"), row(2, "b")]),
        digest(&[row(1, "a"), vec![Value::Integer(2), Value::Bytes(b"b".to_vec())]]),
        digest(&[row(1, "a"), vec![Value::Integer(2), Value::Null]]),
    ] {
        assert_ne!(both, other);
    }
}
