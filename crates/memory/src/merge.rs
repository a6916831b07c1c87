//! Merges two versions of a memory that began as one: by entry and by field, not by line.
//!
//! The result has the additions of both sides. An addition that both sides made is in it once. A deletion holds unless
//! the other side edited the same entry. Only two different edits of one entry, or two values of one field, are a
//! conflict. It is marked as git marks conflicts. The module is pure: [`merge`] maps three texts to one.
//!
//! A result is checked before it is returned: it reads back as the units that were meant, and has every line that a side
//! added. If it does not, [`MergeError`] says so, and the caller merges by line instead.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::document::{DocumentParts, FrontParts, Unit, UnitKind, conflict_line, without_bullet};
use crate::limits::{MARKER_LENGTH_MAX, MARKER_LENGTH_MIN, MEMORY_BYTES_MAX};

mod matching;
mod plan;

use self::plan::{Versions, plan_body, plan_fields};

#[cfg(test)]
mod tests;

/// The three versions that a merge compares.
#[derive(Clone, Copy, Debug)]
pub struct MergeInput<'a> {
    /// The version that both sides began with; empty if each side created the memory.
    pub base: &'a str,
    /// The version of the branch that receives the merge.
    pub ours: &'a str,
    /// The version that is merged into it.
    pub theirs: &'a str,
}

/// The form of conflict markers.
#[derive(Clone, Copy, Debug)]
pub struct MarkerStyle<'a> {
    /// The length of a marker. A shorter one than [`MARKER_LENGTH_MIN`] is lengthened, so that it is noticed.
    pub length: usize,
    /// The name of our side.
    pub ours: &'a str,
    /// The name of their side.
    pub theirs: &'a str,
}

/// A merged memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedMemory {
    /// The text, with markers around each conflict.
    pub text: String,
    /// The number of conflicts.
    pub conflicts: usize,
}

/// The reason why a memory cannot be merged by entry. A merge by line still can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// A version has markers of an earlier conflict.
    #[error("a version has conflict markers")]
    Unresolved,
    /// A version is larger than a memory may be.
    #[error("a version is larger than {MEMORY_BYTES_MAX} bytes")]
    TooLarge,
    /// The entries would not be separate in the merged text.
    #[error("the entries would not be separate in the merged text")]
    NotSeparable,
}

/// Merges two versions of a memory by entry.
///
/// The bytes of what only one side changed are kept. If one side changed nothing, the result is the other side. With the
/// sides exchanged the result has the same lines, in another order. Merging a result without conflicts with either side
/// again gives the same lines, unless an entry occurs twice or got another section, or a heading was edited.
pub fn merge(
    input: &MergeInput<'_>,
    markers: &MarkerStyle<'_>,
) -> Result<MergedMemory, MergeError> {
    let MergeInput { base, ours, theirs } = *input;
    let unchanged = |text: &str| Ok(MergedMemory { text: text.to_owned(), conflicts: 0 });
    if ours == theirs || theirs == base {
        return unchanged(ours);
    }
    if ours == base {
        return unchanged(theirs);
    }
    if [base, ours, theirs].iter().any(|text| text.len() > MEMORY_BYTES_MAX) {
        return Err(MergeError::TooLarge);
    }
    if [base, ours, theirs].iter().any(|text| conflict_line(text).is_some()) {
        return Err(MergeError::Unresolved);
    }
    let sides = [base, ours, theirs].map(DocumentParts::new);
    let merge = Merge::new(&sides);
    let conflicts = merge.conflicts();
    for spacing in [Spacing::Usual, Spacing::Loose] {
        let text = merge.render(&Resolution::Markers(markers), spacing);
        let reads_back =
            |side| merge.reads_back(&merge.render(&Resolution::Of(side), spacing), side);
        let is_sound = reads_back(Side::Ours) && (conflicts == 0 || reads_back(Side::Theirs));
        let is_noticed = conflicts == 0 || conflict_line(&text).is_some();
        if is_sound && is_noticed && has_all_additions(&text, input) {
            return Ok(MergedMemory { text, conflicts });
        }
    }
    Err(MergeError::NotSeparable)
}

/// A side of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Ours,
    Theirs,
}

/// The form of conflicts in a rendered text.
enum Resolution<'m> {
    Markers(&'m MarkerStyle<'m>),
    /// With the text of this side.
    Of(Side),
}

/// A merge of three memories, before it is rendered.
struct Merge<'m, 'a> {
    sides: &'m [DocumentParts<'a>; 3],
    front: Vec<MergedUnit<'m, 'a>>,
    body: Vec<MergedUnit<'m, 'a>>,
    line_end: &'static str,
}

/// A unit of the result.
struct MergedUnit<'m, 'a> {
    versions: Versions,
    content: UnitContent<'m, 'a>,
    gap: Piece<'m>,
}

enum UnitContent<'m, 'a> {
    One(Side, &'m Unit<'a>),
    Conflict(&'m Unit<'a>, &'m Unit<'a>),
}

/// A part of a text, and the side that it is from.
#[derive(Clone, Copy)]
struct Piece<'m>(Side, &'m str);

/// Returns what only one side changed; ours if both did, or if there is no base.
fn three_way<T: Copy + PartialEq>(base: Option<T>, ours: T, theirs: T) -> (Side, T) {
    if base == Some(ours) { (Side::Theirs, theirs) } else { (Side::Ours, ours) }
}

impl<'m, 'a> MergedUnit<'m, 'a> {
    /// Returns the unit with these versions, below the unit with the versions `above`.
    fn new(
        [base, ours, theirs]: [&'m [Unit<'a>]; 3],
        versions: &Versions,
        above: Option<&Versions>,
    ) -> Self {
        let base = versions.base.map(|index| &base[index]);
        let ours = versions.ours.map(|index| &ours[index]);
        let theirs = versions.theirs.map(|index| &theirs[index]);
        let (content, gap) = match (ours, theirs) {
            (Some(ours), Some(theirs)) => {
                let is_next = |at: fn(&Versions) -> Option<usize>| {
                    let above = above.map_or(Some(0), |above| at(above).map(|index| index + 1));
                    above == at(versions)
                };
                // A side that has the same unit above knows the gap between them.
                let content = UnitContent::of_both(base, ours, theirs);
                let gap_side = match (is_next(|one| one.ours), is_next(|one| one.theirs)) {
                    (true, false) => Side::Ours,
                    (false, true) => Side::Theirs,
                    (true, true) | (false, false) => {
                        three_way(base.map(|unit| unit.gap), ours.gap, theirs.gap).0
                    }
                };
                let side = match content {
                    // A gap above an item of a list says nothing about one above a paragraph.
                    UnitContent::One(text_side, _) if ours.kind != theirs.kind => text_side,
                    UnitContent::One(..) | UnitContent::Conflict(..) => gap_side,
                };
                let gap = if side == Side::Ours { ours.gap } else { theirs.gap };
                (content, Piece(side, gap))
            }
            (Some(ours), None) => (UnitContent::One(Side::Ours, ours), Piece(Side::Ours, ours.gap)),
            (None, theirs) => {
                let theirs = theirs.expect("a unit is kept because a side has it");
                (UnitContent::One(Side::Theirs, theirs), Piece(Side::Theirs, theirs.gap))
            }
        };
        Self { versions: *versions, content, gap }
    }

    /// Returns the unit, or of a conflict the version of a side.
    fn unit(&self, side: Side) -> (Side, &'m Unit<'a>) {
        match self.content {
            UnitContent::One(side, unit) => (side, unit),
            UnitContent::Conflict(_, theirs) if side == Side::Theirs => (Side::Theirs, theirs),
            UnitContent::Conflict(ours, _) => (Side::Ours, ours),
        }
    }

    const fn is_conflict(&self) -> bool {
        matches!(self.content, UnitContent::Conflict(..))
    }
}

impl<'m, 'a> UnitContent<'m, 'a> {
    fn of_both(base: Option<&'m Unit<'a>>, ours: &'m Unit<'a>, theirs: &'m Unit<'a>) -> Self {
        let is_edited = |unit: &Unit<'_>| base.is_none_or(|base| base.plain != unit.plain);
        match (is_edited(ours), is_edited(theirs)) {
            (true, true) if ours.plain != theirs.plain => Self::Conflict(ours, theirs),
            (true, false) => Self::One(Side::Ours, ours),
            (false, true) => Self::One(Side::Theirs, theirs),
            (true, true) | (false, false) => {
                let text = |unit: &Unit<'a>| unit.text;
                match three_way(base.map(text), ours.text, theirs.text).0 {
                    Side::Theirs => Self::One(Side::Theirs, theirs),
                    Side::Ours => Self::One(Side::Ours, ours),
                }
            }
        }
    }
}

impl<'m, 'a> Merge<'m, 'a> {
    fn new(sides: &'m [DocumentParts<'a>; 3]) -> Self {
        let [base, ours, theirs] = sides;
        let front = [base, ours, theirs].map(DocumentParts::front_units);
        let body = [base, ours, theirs].map(|side| side.body.as_slice());
        let merged = |units: [&'m [Unit<'a>]; 3], plan: &[Versions]| {
            let above = std::iter::once(None).chain(plan.iter().map(Some));
            let all = plan.iter().zip(above);
            all.map(|(versions, above)| MergedUnit::new(units, versions, above)).collect()
        };
        Self {
            sides,
            front: merged(front, &plan_fields(front[0], front[1], front[2])),
            body: merged(body, &plan_body(body[0], body[1], body[2])),
            line_end: three_way(Some(base.line_end), ours.line_end, theirs.line_end).1,
        }
    }

    fn conflicts(&self) -> usize {
        self.front.iter().chain(&self.body).filter(|unit| unit.is_conflict()).count()
    }

    fn render(&self, resolution: &Resolution<'_>, spacing: Spacing) -> String {
        let [base, ours, theirs] = self.sides;
        let mark =
            three_way(Some(base.byte_order_mark), ours.byte_order_mark, theirs.byte_order_mark).1;
        let mut output = Output {
            text: mark.to_owned(),
            line_end: self.line_end,
            pending: None,
            must_end: false,
        };
        self.render_front(&mut output, resolution);
        let mut above: Option<&MergedUnit<'_, '_>> = None;
        for unit in &self.body {
            let mut gap = self.converted(unit.gap).into_owned();
            if gap.is_empty()
                && above.is_some_and(|above| self.must_be_apart(above, unit, resolution, spacing))
            {
                gap.push_str(self.line_end);
            }
            self.render_unit(&mut output, &gap, unit, resolution);
            above = Some(unit);
        }
        let tail = three_way(Some(base.tail), ours.tail, theirs.tail);
        output.finish(&self.converted(Piece(tail.0, tail.1)))
    }

    fn render_front(&self, output: &mut Output, resolution: &Resolution<'_>) {
        let [base, ours, theirs] = self.sides;
        let has_front =
            three_way(Some(base.front.is_some()), ours.front.is_some(), theirs.front.is_some());
        if self.front.is_empty() && !has_front.1 {
            return;
        }
        let (side, (open, open_end)) = self.chosen_front(|front| front.open);
        output.push_line(
            "",
            &self.converted(Piece(side, open)),
            &self.converted(Piece(side, open_end)),
        );
        for unit in &self.front {
            let gap = self.converted(unit.gap);
            self.render_unit(output, &gap, unit, resolution);
        }
        let (tail_side, tail) = self.chosen_front(|front| front.tail);
        let (side, (close, end)) = self.chosen_front(|front| front.close);
        let gap = self.converted(Piece(tail_side, tail));
        output.push_line(
            &gap,
            &self.converted(Piece(side, close)),
            &self.converted(Piece(side, end)),
        );
    }

    /// Returns a part of the frontmatter of the side that changed it, or of the only side that has one.
    fn chosen_front<T: Copy + PartialEq>(&self, get: impl Fn(&FrontParts<'a>) -> T) -> (Side, T) {
        let [base, ours, theirs] = self.sides.each_ref().map(|side| side.front.as_ref().map(&get));
        match (ours, theirs) {
            (Some(ours), Some(theirs)) => three_way(base, ours, theirs),
            (Some(ours), None) => (Side::Ours, ours),
            (None, theirs) => {
                let theirs = theirs.expect("frontmatter is rendered because a side has it");
                (Side::Theirs, theirs)
            }
        }
    }

    fn render_unit(
        &self,
        output: &mut Output,
        gap: &str,
        unit: &MergedUnit<'m, 'a>,
        resolution: &Resolution<'_>,
    ) {
        let text = |side: Side, unit: &Unit<'a>| {
            (self.converted(Piece(side, unit.text)), self.converted(Piece(side, unit.end)))
        };
        match (&unit.content, resolution) {
            (UnitContent::Conflict(ours, theirs), Resolution::Markers(style)) => {
                let mark = |mark: &str, label: &str| {
                    let length = style.length.clamp(MARKER_LENGTH_MIN, MARKER_LENGTH_MAX);
                    let label = label.lines().next().unwrap_or_default();
                    format!("{} {label}", mark.repeat(length)).trim_end().to_owned()
                };
                let (ours, our_end) = text(Side::Ours, ours);
                let (theirs, their_end) = text(Side::Theirs, theirs);
                output.push_line(gap, &mark("<", style.ours), "");
                output.push_line("", &ours, &our_end);
                output.push_line("", &mark("=", ""), "");
                output.push_line("", &theirs, &their_end);
                output.push_line("", &mark(">", style.theirs), "");
                output.must_end = true;
            }
            (_, Resolution::Of(side)) => {
                let (side, unit) = unit.unit(*side);
                let (text, end) = text(side, unit);
                output.push_line(gap, &text, &end);
            }
            (UnitContent::One(side, unit), Resolution::Markers(_)) => {
                let (text, end) = text(*side, unit);
                output.push_line(gap, &text, &end);
            }
        }
    }

    /// Checks whether a unit would become a part of the one above without a blank line between them.
    fn must_be_apart(
        &self,
        above: &MergedUnit<'_, '_>,
        unit: &MergedUnit<'_, '_>,
        resolution: &Resolution<'_>,
        spacing: Spacing,
    ) -> bool {
        let side = match resolution {
            Resolution::Markers(_) if above.is_conflict() || unit.is_conflict() => return false,
            Resolution::Markers(_) => Side::Ours,
            Resolution::Of(side) => *side,
        };
        let (upper, lower) = (above.unit(side).1, unit.unit(side).1);
        let [_, ours, theirs] = self.sides;
        let is_adjacent =
            |side: &DocumentParts<'_>, upper_at: Option<usize>, lower_at: Option<usize>| {
                let (Some(upper_at), Some(lower_at)) = (upper_at, lower_at) else { return false };
                upper_at + 1 == lower_at
                    && side.body[upper_at].plain == upper.plain
                    && side.body[lower_at].plain == lower.plain
            };
        if is_adjacent(ours, above.versions.ours, unit.versions.ours)
            || is_adjacent(theirs, above.versions.theirs, unit.versions.theirs)
        {
            return false;
        }
        // Around headings a blank line is not needed, but usual.
        let is_list = (upper.kind, lower.kind) == (UnitKind::Item, UnitKind::Item);
        spacing == Spacing::Loose || !is_list
    }

    /// Returns a piece with the line ending of the result, if its side has another one.
    fn converted(&self, Piece(side, text): Piece<'m>) -> Cow<'m, str> {
        let [_, ours, theirs] = self.sides;
        let line_end = match side {
            Side::Ours => ours.line_end,
            Side::Theirs => theirs.line_end,
        };
        match (line_end == self.line_end, self.line_end) {
            (true, _) => Cow::Borrowed(text),
            (false, "\n") => Cow::Owned(text.replace("\r\n", "\n")),
            (false, line_end) => Cow::Owned(text.replace("\r\n", "\n").replace('\n', line_end)),
        }
    }

    /// Checks whether a text, in which conflicts have the text of a side, has the units that were meant.
    fn reads_back(&self, text: &str, side: Side) -> bool {
        let parts = DocumentParts::new(text);
        let is_equal = |units: &[Unit<'_>], meant: &[MergedUnit<'_, '_>]| {
            units.len() == meant.len()
                && units.iter().zip(meant).all(|(unit, meant)| {
                    let (_, meant) = meant.unit(side);
                    (&unit.plain, unit.kind, unit.key) == (&meant.plain, meant.kind, meant.key)
                })
        };
        let [base, ours, theirs] = self.sides;
        let is_valid = !self.sides.iter().all(DocumentParts::is_valid)
            || (parts.is_valid() && parts.has_values_of(&[base, ours, theirs]));
        is_equal(parts.front_units(), &self.front)
            && is_equal(&parts.body, &self.body)
            && is_valid
            && conflict_line(text).is_none()
    }
}

/// The blank lines between units that are next to each other on no side.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spacing {
    /// Everywhere but between items of a list.
    Usual,
    /// Everywhere.
    Loose,
}

/// A text that grows by lines. A line ending is written before the next line, so that the last one can be replaced.
struct Output {
    text: String,
    line_end: &'static str,
    pending: Option<String>,
    /// Whether the last line needs a line ending.
    must_end: bool,
}

impl Output {
    /// Adds lines below blank lines; an empty line ending stands for the usual one.
    fn push_line(&mut self, gap: &str, line: &str, end: &str) {
        self.text.push_str(&self.pending.take().unwrap_or_default());
        self.text.push_str(gap);
        self.text.push_str(line);
        self.pending = Some(if end.is_empty() { self.line_end } else { end }.to_owned());
        self.must_end = false;
    }

    fn finish(mut self, tail: &str) -> String {
        self.text.push_str(if tail.is_empty() && self.must_end { self.line_end } else { tail });
        self.text
    }
}

/// Checks whether a text has each line that a side added, as often as the side that added more of them. Lines without
/// a letter or digit do not count, and neither do bullets.
fn has_all_additions(text: &str, input: &MergeInput<'_>) -> bool {
    let mut counts: HashMap<&str, [isize; 4]> = HashMap::new();
    for (column, text) in [input.base, input.ours, input.theirs, text].into_iter().enumerate() {
        for line in text.lines().filter(|line| line.contains(char::is_alphanumeric)) {
            counts.entry(without_bullet(line).trim()).or_default()[column] += 1;
        }
    }
    counts.values().all(|[base, ours, theirs, merged]| *merged >= (ours - base).max(theirs - base))
}
