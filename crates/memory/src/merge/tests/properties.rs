//! Properties of the merge, with random memories and random edits of them.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;

use super::*;

/// A memory as its parts, so that random edits of it are valid.
#[derive(Clone, Debug, PartialEq)]
struct Model {
    fields: Vec<(&'static str, String)>,
    sections: Vec<(Option<String>, Vec<String>)>,
    line_end: &'static str,
    has_last_line_end: bool,
}

impl Model {
    fn text(&self) -> String {
        let mut text = String::new();
        if !self.fields.is_empty() {
            text.push_str("---\n");
            text.extend(self.fields.iter().map(|(key, value)| format!("{key}: {value}\n")));
            text.push_str("---\n\n");
        }
        for (heading, entries) in &self.sections {
            text.extend(heading.iter().map(|heading| format!("{heading}\n\n")));
            for (index, entry) in entries.iter().enumerate() {
                let is_list = entry.starts_with("- ");
                let next_is_list =
                    entries.get(index + 1).is_some_and(|next| next.starts_with("- "));
                let gap = if is_list && next_is_list { "" } else { "\n" };
                text.extend([entry.as_str(), "\n", gap]);
            }
        }
        let end = text.trim_end().len();
        text.truncate(end);
        if self.has_last_line_end && !text.is_empty() {
            text.push('\n');
        }
        text.replace('\n', self.line_end)
    }

    /// Applies an edit; the number selects its place.
    fn apply(&mut self, edit: &Edit, number: usize) {
        let sections = self.sections.len();
        let (heading, entries) = &mut self.sections[number % sections];
        let at = (number / 7) % entries.len().max(1);
        match edit {
            Edit::Insert(entry) => entries.insert(at.min(entries.len()), entry.clone()),
            Edit::Append(entry) => entries.push(entry.clone()),
            Edit::Delete if !entries.is_empty() => drop(entries.remove(at)),
            Edit::Extend(words) if !entries.is_empty() => {
                // The last line may be the end of code, which words must not follow.
                let end = entries[at].find('\n').unwrap_or(entries[at].len());
                if !entries[at].starts_with("```") {
                    entries[at].insert_str(end, words);
                }
            }
            Edit::Move if entries.len() > 1 => {
                let entry = entries.remove(at);
                let to = (number / 11) % (entries.len() + 1);
                entries.insert(to, entry);
            }
            Edit::Rename(words) => heading.iter_mut().for_each(|heading| heading.push_str(words)),
            Edit::AddSection(heading, entry) => {
                let section = (Some(heading.clone()), vec![entry.clone()]);
                self.sections.insert(number % sections + 1, section);
            }
            Edit::DropSection if sections > 1 => drop(self.sections.remove(number % sections)),
            Edit::SetField(key, value) => {
                self.fields.retain(|(other, _)| other != key);
                self.fields.push((key, value.clone()));
            }
            Edit::DropField if !self.fields.is_empty() => {
                let fields = self.fields.len();
                drop(self.fields.remove(number % fields));
            }
            Edit::LineEnds(line_end) => self.line_end = line_end,
            Edit::LastLineEnd(has) => self.has_last_line_end = *has,
            Edit::Delete | Edit::Extend(_) | Edit::Move | Edit::DropSection | Edit::DropField => {}
        }
    }
}

#[derive(Clone, Debug)]
enum Edit {
    Insert(String),
    Append(String),
    Delete,
    Extend(String),
    Move,
    Rename(String),
    AddSection(String, String),
    DropSection,
    SetField(&'static str, String),
    DropField,
    LineEnds(&'static str),
    LastLineEnd(bool),
}

fn words() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "tea", "bees", "port", "8080", "build", "with", "make", "never", "the", "gate", "é", "漢字",
    ]);
    prop::collection::vec(word, 1..5).prop_map(|words| words.join(" "))
}

fn entry() -> impl Strategy<Value = String> {
    let kind = prop::sample::select(vec![
        "- {}",
        "- {}",
        "- {}",
        "- {}",
        "- {}\n  - deep {}",
        "- {}\n\n  Why: {}",
        "{}",
        "{}\nand {}",
        "> {}",
        "```sh\n- {}\n# {}\n```",
        "- {}\n  ```\n  - x\n  ```",
    ]);
    (kind, words()).prop_map(|(kind, words)| kind.replace("{}", &words))
}

fn heading() -> impl Strategy<Value = String> {
    (prop::sample::select(vec!["#", "##", "##", "###"]), words())
        .prop_map(|(level, words)| format!("{level} {words}"))
}

fn field() -> impl Strategy<Value = (&'static str, String)> {
    (prop::sample::select(vec!["name", "description", "type", "tags"]), words())
}

fn model() -> impl Strategy<Value = Model> {
    let heading = prop::option::weighted(0.8, heading());
    let section = (heading, prop::collection::vec(entry(), 0..5));
    (prop::collection::vec(field(), 0..3), prop::collection::vec(section, 1..4)).prop_map(
        |(mut fields, sections)| {
            let mut keys = BTreeSet::new();
            fields.retain(|(key, _)| keys.insert(*key));
            Model { fields, sections, line_end: "\n", has_last_line_end: true }
        },
    )
}

fn edits() -> impl Strategy<Value = Vec<(Edit, usize)>> {
    let edit = prop_oneof![
        4 => entry().prop_map(Edit::Insert),
        4 => entry().prop_map(Edit::Append),
        4 => Just(Edit::Delete),
        4 => words().prop_map(|words| Edit::Extend(format!(" {words}"))),
        2 => Just(Edit::Move),
        // Another name without a similarity or a common entry would be another section.
        1 => prop::sample::select(vec![" x", " y"]).prop_map(|word| Edit::Rename(word.to_owned())),
        1 => (heading(), entry()).prop_map(|(heading, entry)| Edit::AddSection(heading, entry)),
        1 => Just(Edit::DropSection),
        2 => field().prop_map(|(key, value)| Edit::SetField(key, value)),
        1 => Just(Edit::DropField),
        1 => prop::sample::select(vec!["\n", "\r\n"]).prop_map(Edit::LineEnds),
        1 => any::<bool>().prop_map(Edit::LastLineEnd),
    ];
    prop::collection::vec((edit, 0_usize..1_000), 0..6)
}

fn versions() -> impl Strategy<Value = [String; 3]> {
    versions_of(model())
}

/// Returns three versions of each memory.
fn versions_of(model: impl Strategy<Value = Model>) -> impl Strategy<Value = [String; 3]> {
    (model, edits(), edits()).prop_map(|(base, ours, theirs)| {
        let edited = |edits: &[(Edit, usize)]| {
            let mut model = base.clone();
            for (edit, number) in edits {
                model.apply(edit, *number);
            }
            model.text()
        };
        [base.text(), edited(&ours), edited(&theirs)]
    })
}

/// Returns any three texts, of fragments that have a meaning in Markdown.
fn any_texts() -> impl Strategy<Value = [String; 3]> {
    let fragment = prop::sample::select(vec![
        "---\n",
        "---\n",
        "...\n",
        "name: a\n",
        "description: b: c\n",
        "# c\n",
        "type: |\n  x\n",
        "- a\n",
        "- b\n",
        "* c\n",
        "1. d\n",
        "2) e\n",
        "  - f\n",
        "    g\n",
        "h\n",
        "i",
        "\n",
        "\n",
        "\n",
        "\r\n",
        "\r",
        "# T\n",
        "## U\n",
        "T\n===\n",
        "U\n---\n",
        "***\n",
        "```\n",
        "~~~\n",
        "> q\n",
        "<div>\n",
        "<!--\n",
        "-->\n",
        "[a]: b\n",
        "Why: w\n",
        "**How to apply:**\n",
        "|a|\n",
        "\u{FEFF}",
        "\t",
        "  \n",
        "-\n",
        "- \n",
        "<<<<<<< x\n",
        "=======\n",
        ">>>>>>> y\n",
        "\u{2028}",
        "\\\n",
    ]);
    let text = prop::collection::vec(fragment, 0..10).prop_map(|fragments| fragments.concat());
    [text.clone(), text.clone(), text]
}

fn line_counts(text: &str) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for line in text.lines().map(str::trim) {
        *counts.entry(line).or_default() += 1;
    }
    counts.remove("");
    counts
}

/// Returns the number of entries with each text, below each heading.
fn facts(text: &str) -> BTreeMap<(String, String), usize> {
    let mut facts = BTreeMap::new();
    let parts = DocumentParts::new(text);
    for unit in parts.body.iter().filter(|unit| !unit.is_heading()) {
        let heading = unit.parent.map(|heading| parts.body[heading].plain.clone());
        *facts.entry((heading.unwrap_or_default(), unit.plain.clone())).or_default() += 1;
    }
    facts
}

/// Checks whether units of the base, each of which has another text, have another order in a side.
fn has_moved(base: &str, side: &str) -> bool {
    let (base, side) = (DocumentParts::new(base), DocumentParts::new(side));
    let place = |unit: &Unit<'_>| base.body.iter().position(|other| other.plain == unit.plain);
    !side.body.iter().filter_map(place).is_sorted()
}

/// Checks whether an entry of the base stands below another heading in a side. A renamed heading begins as before.
fn has_changed_section(base: &str, side: &str) -> bool {
    let base: BTreeMap<_, _> =
        facts(base).into_keys().map(|(heading, text)| (text, heading)).collect();
    facts(side).keys().any(|(heading, text)| {
        base.get(text).is_some_and(|before| !heading.starts_with(before.as_str()))
    })
}

/// Checks whether a side lacks a heading of the base, which it may have edited.
fn has_edited_heading(base: &str, side: &str) -> bool {
    let [base, side] = [base, side].map(|text| {
        let units = DocumentParts::new(text).body;
        let headings = units.into_iter().filter(Unit::is_heading);
        headings.map(|unit| unit.plain).collect::<BTreeSet<_>>()
    });
    !base.is_subset(&side)
}

/// Returns three versions of a memory, each with headings of one level above all entries, without an entry that occurs
/// twice, and without an entry that another section got.
fn plain_versions() -> impl Strategy<Value = [String; 3]> {
    let model = model().prop_map(|mut model| {
        for (heading, _) in &mut model.sections {
            heading.get_or_insert_with(|| "## the gate".to_owned());
        }
        model
    });
    versions_of(model).prop_filter("not plain", |versions| {
        versions.iter().all(|text| {
            let parts = DocumentParts::new(text);
            let texts: BTreeSet<_> = parts.body.iter().map(|unit| &unit.plain).collect();
            let headings = parts.body.iter().filter(|unit| unit.is_heading());
            let levels: BTreeSet<_> = headings.map(Unit::level).collect();
            texts.len() == parts.body.len()
                && levels.len() <= 1
                && !has_changed_section(&versions[0], text)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn nothing_that_a_side_added_is_lost([base, ours, theirs] in versions()) {
        if let Ok(MergedMemory { text, .. }) = merged(&base, &ours, &theirs) {
            let (before, after) = (line_counts(&base), line_counts(&text));
            for side in [&ours, &theirs] {
                for (line, count) in line_counts(side) {
                    let added = count.saturating_sub(before.get(line).copied().unwrap_or(0));
                    let found = after.get(line).copied().unwrap_or(0);
                    prop_assert!(found >= added, "{line:?} of\n{side}\nin\n{text}");
                }
            }
        }
    }

    #[test]
    fn a_deletion_of_an_unchanged_entry_holds([base, ours, theirs] in versions()) {
        if let Ok(MergedMemory { text, .. }) = merged(&base, &ours, &theirs) {
            let [base, ours, theirs, merged] = [&base, &ours, &theirs, &text].map(|text| facts(text));
            for (fact, count) in base {
                let is_only_deleted = |one: &BTreeMap<(_, String), usize>, other: &BTreeMap<_, usize>| {
                    let is_gone = one.keys().all(|(_, text)| *text != fact.1);
                    count == 1 && is_gone && other.get(&fact) == Some(&1)
                };
                let is_deleted =
                    is_only_deleted(&ours, &theirs) || is_only_deleted(&theirs, &ours);
                prop_assert!(!is_deleted || !merged.contains_key(&fact), "{fact:?}\n{text}");
            }
        }
    }

    #[test]
    fn the_sides_are_symmetric_up_to_order([base, ours, theirs] in versions()) {
        let (one, other) = (merged(&base, &ours, &theirs), merged(&base, &theirs, &ours));
        match (one, other) {
            (Ok(one), Ok(other)) => {
                prop_assert_eq!(sorted_lines(&one.text), sorted_lines(&other.text));
                prop_assert_eq!(one.conflicts, other.conflicts);
            }
            (one, other) => prop_assert_eq!(one.is_ok(), other.is_ok()),
        }
    }

    #[test]
    fn merging_a_result_again_changes_nothing(
        [base, ours, theirs] in plain_versions()
    ) {
        if let Ok(MergedMemory { text, conflicts: 0 }) = merged(&base, &ours, &theirs) {
            let is_moved = [&ours, &theirs].into_iter().any(|side| has_moved(&base, side));
            // Which section is which is a guess then.
            if [&ours, &theirs].into_iter().any(|side| has_edited_heading(&base, side)) {
                return Ok(());
            }
            for side in [&ours, &theirs] {
                let again = [merged(&base, &text, side), merged(&base, side, &text)];
                for again in again.iter().flatten() {
                    prop_assert_eq!(again.conflicts, 0, "{}", again.text);
                    prop_assert_eq!(sorted_lines(&again.text), sorted_lines(&text), "{}", again.text);
                }
                if let (false, Ok(again)) = (is_moved, &again[0]) {
                    prop_assert_eq!(&again.text, &text, "{}", side);
                }
            }
        }
    }

    #[test]
    fn three_equal_texts_are_rendered_as_they_are([text, _, _] in any_texts()) {
        let sides = [&text; 3].map(|text| DocumentParts::new(text));
        let merge = Merge::new(&sides);
        let rendered = merge.render(&Resolution::Of(Side::Ours), Spacing::Usual);
        prop_assert_eq!(&rendered, &text);
        prop_assert!(conflict_line(&text).is_some() || merge.reads_back(&rendered, Side::Ours));
    }

    #[test]
    fn any_texts_are_merged_without_loss_or_not_at_all([base, ours, theirs] in any_texts()) {
        match (merged(&base, &ours, &theirs), merged(&base, &theirs, &ours)) {
            (Ok(one), Ok(other)) => {
                let input = MergeInput { base: &base, ours: &ours, theirs: &theirs };
                prop_assert!(has_all_additions(&one.text, &input));
                prop_assert_eq!(one.conflicts, other.conflicts);
                if one.conflicts == 0 {
                    prop_assert_eq!(merged(&base, &one.text, &one.text).unwrap().text, one.text);
                }
            }
            // Two blocks may be separate in one order only.
            (Err(error), _) | (_, Err(error)) => prop_assert_ne!(error, MergeError::TooLarge),
        }
    }
}

/// The properties hold for what is merged, so most random memories have to be.
#[test]
fn most_memories_are_merged_by_entry() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut counts = [0; 3];
    for _ in 0..2_000 {
        let [base, ours, theirs] = versions().new_tree(&mut runner).unwrap().current();
        match merged(&base, &ours, &theirs) {
            Ok(MergedMemory { conflicts: 0, .. }) => counts[0] += 1,
            Ok(_) => counts[1] += 1,
            Err(_) => counts[2] += 1,
        }
    }
    let [clean, conflicts, refused] = counts;
    assert!(clean > 1_000 && conflicts > 50 && refused < 100, "{counts:?}");
}
