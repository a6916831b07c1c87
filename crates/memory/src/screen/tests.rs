use super::catalog::Catalog;

#[test]
fn every_pattern_is_a_regular_expression() {
    let catalog = Catalog::get();
    for index in 0..catalog.pattern_count() {
        catalog.run(index, "x", 0..1, &mut Vec::new());
    }
}
