//! Finds which unit of one side was which unit of the base.
//!
//! Units with the same text match in the order of both texts, or as moved within their section. Similar units of the
//! rest match as edited. Then the rest between two matches is matched in order. A doubtful match can only lead to a
//! conflict, while a missed one would keep two versions of one fact. A unit that moved to another section matches nothing: it
//! counts as deleted in one place and added in the other.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use crate::document::{Unit, UnitKind};
use imara_diff::{Algorithm, Diff, InternedInput};

/// The similarity from which two units count as versions of one.
const VERSION_SIMILARITY_MIN: f64 = 0.5;

/// The most pairs of units between two matches that are compared by similarity. A comparison takes about a microsecond
/// for each word.
const PAIRS_COMPARED_MAX: usize = 2_000;

/// The matches of one side with the base.
#[derive(Debug)]
pub(super) struct Matches {
    /// The index in the base, by the index in the side.
    pub(super) to_base: Vec<Option<usize>>,
    /// The index in the side, by the index in the base.
    pub(super) from_base: Vec<Option<usize>>,
    /// Whether a unit has another place among its siblings than in the base, by the index in the side.
    pub(super) is_moved: Vec<bool>,
}

impl Matches {
    fn none(base: &[Unit<'_>], side: &[Unit<'_>]) -> Self {
        Self {
            to_base: vec![None; side.len()],
            from_base: vec![None; base.len()],
            is_moved: vec![false; side.len()],
        }
    }

    fn add(&mut self, in_base: usize, in_side: usize) {
        self.to_base[in_side] = Some(in_base);
        self.from_base[in_base] = Some(in_side);
    }

    /// Removes the match of a unit of the side.
    pub(super) fn remove(&mut self, in_side: usize) {
        if let Some(in_base) = self.to_base[in_side].take() {
            self.from_base[in_base] = None;
        }
        self.is_moved[in_side] = false;
    }

    fn is_free(&self, in_base: usize, in_side: usize) -> bool {
        self.from_base[in_base].is_none() && self.to_base[in_side].is_none()
    }

    /// Checks whether a section of the base, named by its heading, is a section of the side.
    fn is_same_section(&self, of_base: Option<usize>, of_side: Option<usize>) -> bool {
        match (of_base, of_side) {
            (None, None) => true,
            (Some(base), Some(side)) => self.to_base[side] == Some(base),
            (None, Some(_)) | (Some(_), None) => false,
        }
    }
}

/// Matches fields by their keys and comments by their texts; the nth one with the nth one.
pub(super) fn match_fields(base: &[Unit<'_>], side: &[Unit<'_>]) -> Matches {
    let mut matches = Matches::none(base, side);
    let mut by_name: HashMap<&str, VecDeque<usize>> = HashMap::new();
    for (index, unit) in base.iter().enumerate() {
        by_name.entry(field_name(unit)).or_default().push_back(index);
    }
    for (index, unit) in side.iter().enumerate() {
        if let Some(in_base) = by_name.get_mut(field_name(unit)).and_then(VecDeque::pop_front) {
            matches.add(in_base, index);
        }
    }
    matches
}

/// Returns the key of a field, or the text of a comment.
pub(super) fn field_name<'u>(unit: &'u Unit<'_>) -> &'u str {
    unit.key.unwrap_or(&unit.plain)
}

/// Matches the units of two bodies.
pub(super) fn match_body(base: &[Unit<'_>], side: &[Unit<'_>]) -> Matches {
    let mut matches = Matches::none(base, side);
    let hunks = match_equal_in_order(base, side, &mut matches);
    for (in_base, in_side) in &hunks {
        match_edited_headings(base, side, (in_base, in_side), &mut matches);
    }
    // Headings come first, since they are the sections within which entries move.
    match_moved(base, side, &mut matches);
    // An entry may be edited and moved; in a large change only an edit in place is found.
    for (old, new) in match_similar(base, side, (&(0..base.len()), &(0..side.len())), &mut matches)
    {
        let is_in_place =
            |hunk: &(Range<usize>, Range<usize>)| hunk.0.contains(&old) && hunk.1.contains(&new);
        matches.is_moved[new] = !hunks.iter().any(is_in_place);
    }
    for (in_base, in_side) in &hunks {
        match_similar(base, side, (in_base, in_side), &mut matches);
        match_in_order(base, side, (in_base, in_side), &mut matches);
    }
    matches
}

/// Matches equal units in the order of both texts, and returns the stretches between them.
fn match_equal_in_order(
    base: &[Unit<'_>],
    side: &[Unit<'_>],
    matches: &mut Matches,
) -> Vec<(Range<usize>, Range<usize>)> {
    let mut input = InternedInput::default();
    input.update_before(base.iter().map(|unit| unit.plain.as_str()));
    input.update_after(side.iter().map(|unit| unit.plain.as_str()));
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_no_heuristic(&input);
    let range = |range: Range<u32>| index(range.start)..index(range.end);
    let hunks: Vec<_> = diff.hunks().map(|hunk| (range(hunk.before), range(hunk.after))).collect();
    let (mut next_base, mut next_side) = (0, 0);
    for (in_base, in_side) in &hunks {
        add_pairs(next_base..in_base.start, next_side, matches);
        (next_base, next_side) = (in_base.end, in_side.end);
    }
    add_pairs(next_base..base.len(), next_side, matches);
    hunks
}

fn add_pairs(in_base: Range<usize>, side_start: usize, matches: &mut Matches) {
    for (offset, index) in in_base.enumerate() {
        matches.add(index, side_start + offset);
    }
}

fn index(number: u32) -> usize {
    usize::try_from(number).expect("a 32-bit number fits")
}

/// Matches equal units that have another place in the same section.
fn match_moved(base: &[Unit<'_>], side: &[Unit<'_>], matches: &mut Matches) {
    let mut by_text: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, unit) in base.iter().enumerate() {
        if matches.from_base[index].is_none() && unit.kind != UnitKind::Rule {
            by_text.entry(&unit.plain).or_default().push(index);
        }
    }
    for (index, unit) in side.iter().enumerate() {
        let Some(candidates) = by_text.get_mut(unit.plain.as_str()) else { continue };
        let is_match = |&candidate: &usize| {
            matches.is_free(candidate, index)
                && matches.is_same_section(base[candidate].parent, unit.parent)
        };
        if let Some(position) = candidates.iter().position(is_match) {
            matches.add(candidates.remove(position), index);
            matches.is_moved[index] = true;
        }
    }
}

/// Matches headings that were edited: similar ones, and those that have the same entries.
fn match_edited_headings(
    base: &[Unit<'_>],
    side: &[Unit<'_>],
    (in_base, in_side): (&Range<usize>, &Range<usize>),
    matches: &mut Matches,
) {
    let has_common_entry = |heading: usize, other: usize, matches: &Matches| {
        let below = (heading + 1..base.len()).take_while(|&unit| !base[unit].is_heading());
        let mut found = below.filter_map(|unit| matches.from_base[unit]);
        found.any(|unit| side[unit].parent == Some(other))
    };
    for other in in_side.clone().filter(|&index| side[index].is_heading()) {
        let is_match = |&heading: &usize| {
            base[heading].level() == side[other].level()
                && matches.is_free(heading, other)
                && matches.is_same_section(base[heading].parent, side[other].parent)
                && (has_common_entry(heading, other, matches)
                    || similarity(&base[heading].plain, &side[other].plain)
                        >= VERSION_SIMILARITY_MIN)
        };
        let mut headings = in_base.clone().filter(|&index| base[index].is_heading());
        if let Some(heading) = headings.find(is_match) {
            matches.add(heading, other);
        }
    }
}

/// Matches entries that were edited, the most similar ones first, and returns the matches.
fn match_similar(
    base: &[Unit<'_>],
    side: &[Unit<'_>],
    (in_base, in_side): (&Range<usize>, &Range<usize>),
    matches: &mut Matches,
) -> Vec<(usize, usize)> {
    let [of_base, of_side] = unmatched_entries(base, side, (in_base, in_side), matches);
    if of_base.len().saturating_mul(of_side.len()) > PAIRS_COMPARED_MAX {
        return Vec::new();
    }
    let mut pairs = Vec::new();
    for &old in &of_base {
        for &new in &of_side {
            let similarity = similarity(&base[old].plain, &side[new].plain);
            if similarity >= VERSION_SIMILARITY_MIN
                && matches.is_same_section(base[old].parent, side[new].parent)
            {
                pairs.push((similarity, old, new));
            }
        }
    }
    pairs.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let mut found = Vec::new();
    for (_, old, new) in pairs {
        if matches.is_free(old, new) {
            matches.add(old, new);
            found.push((old, new));
        }
    }
    found
}

/// Matches the rest of the entries between two matches in order.
fn match_in_order(
    base: &[Unit<'_>],
    side: &[Unit<'_>],
    hunk: (&Range<usize>, &Range<usize>),
    matches: &mut Matches,
) {
    let [of_base, of_side] = unmatched_entries(base, side, hunk, matches);
    let mut rest = of_side.into_iter().peekable();
    for old in of_base {
        let is_partner = |new: &usize| matches.is_same_section(base[old].parent, side[*new].parent);
        if let Some(new) = rest.next_if(is_partner) {
            matches.add(old, new);
        }
    }
}

/// Returns the entries of base and side that have no match.
fn unmatched_entries(
    base: &[Unit<'_>],
    side: &[Unit<'_>],
    (in_base, in_side): (&Range<usize>, &Range<usize>),
    matches: &Matches,
) -> [Vec<usize>; 2] {
    let unmatched = |range: &Range<usize>, units: &[Unit<'_>], matches: &[Option<usize>]| {
        let is_entry = |&index: &usize| {
            matches[index].is_none() && matches!(units[index].kind, UnitKind::Item | UnitKind::Text)
        };
        range.clone().filter(is_entry).collect()
    };
    [unmatched(in_base, base, &matches.from_base), unmatched(in_side, side, &matches.to_base)]
}

/// Returns the share of pairs of neighboring characters that two texts have in common, from 0 to 1. White space does not
/// count. The function of that kind in `strsim` divides by bytes, so texts in other scripts would never be similar.
fn similarity(a: &str, b: &str) -> f64 {
    let pairs = |text: &str| {
        let letters: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
        letters.windows(2).map(|pair| (pair[0], pair[1])).collect::<Vec<_>>()
    };
    let (a, b) = (pairs(a), pairs(b));
    let mut counts: HashMap<(char, char), usize> = HashMap::new();
    for pair in &a {
        *counts.entry(*pair).or_default() += 1;
    }
    let mut common = 0_u32;
    for pair in &b {
        if let Some(count) = counts.get_mut(pair).filter(|count| **count > 0) {
            *count -= 1;
            common += 1;
        }
    }
    let all = u32::try_from(a.len() + b.len()).unwrap_or(u32::MAX);
    if all == 0 { 0.0 } else { f64::from(2 * common) / f64::from(all) }
}
