//! Decides which units a merge keeps, and in which order.
//!
//! The order is that of our side. What their side added stands below the unit that it stands below there, behind what
//! our side added in the same place, and in its own section. The module does not look at bytes: it returns indexes.

use std::collections::{HashMap, HashSet};

use crate::document::Unit;
use crate::merge::matching::{Matches, field_name, match_body, match_fields};

/// The versions of one unit, as indexes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Versions {
    pub(super) base: Option<usize>,
    pub(super) ours: Option<usize>,
    pub(super) theirs: Option<usize>,
}

/// Plans the merge of three lists of fields.
pub(super) fn plan_fields(
    base: &[Unit<'_>],
    ours: &[Unit<'_>],
    theirs: &[Unit<'_>],
) -> Vec<Versions> {
    let mut plan = Planner::new([base, ours, theirs], match_fields);
    let is_new = |&index: &usize| plan.ours.to_base[index].is_none();
    let new: HashMap<_, _> =
        (0..ours.len()).filter(is_new).map(|index| (field_name(&ours[index]), index)).collect();
    for (index, unit) in theirs.iter().enumerate() {
        if let Some(&twin) = new.get(field_name(unit)).filter(|&&twin| !plan.is_twin[twin])
            && plan.theirs.to_base[index].is_none()
        {
            plan.link(twin, index);
        }
    }
    plan.order()
}

/// Plans the merge of three bodies.
pub(super) fn plan_body(
    base: &[Unit<'_>],
    ours: &[Unit<'_>],
    theirs: &[Unit<'_>],
) -> Vec<Versions> {
    let mut plan = Planner::new([base, ours, theirs], match_body);
    plan.link_equal_additions();
    plan.without_equal_additions(plan.order())
}

/// The section of a unit: the same for both sides, if it is the same section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Section {
    Top,
    OfBase(usize),
    OfOurs(usize),
    OfTheirs(usize),
}

struct Planner<'u, 'a> {
    /// The units of base, ours and theirs.
    units: [&'u [Unit<'a>]; 3],
    ours: Matches,
    theirs: Matches,
    /// The index in ours of a unit that both sides added, by the index in theirs.
    our_twin: Vec<Option<usize>>,
    /// Whether both sides added a unit, by the index in ours.
    is_twin: Vec<bool>,
}

impl<'u, 'a> Planner<'u, 'a> {
    fn new(
        units: [&'u [Unit<'a>]; 3],
        find_matches: fn(&[Unit<'a>], &[Unit<'a>]) -> Matches,
    ) -> Self {
        let [base, ours, theirs] = units;
        Self {
            units,
            ours: find_matches(base, ours),
            theirs: find_matches(base, theirs),
            our_twin: vec![None; theirs.len()],
            is_twin: vec![false; ours.len()],
        }
    }

    /// Notes that a unit of ours and one of theirs are one addition. If they were matched with units of the base, as
    /// edited, those count as deleted.
    fn link(&mut self, ours: usize, theirs: usize) {
        self.ours.remove(ours);
        self.theirs.remove(theirs);
        self.our_twin[theirs] = Some(ours);
        self.is_twin[ours] = true;
    }

    /// Links the texts that both sides have in the same section and the base has not. Headings come first, since they
    /// are sections.
    fn link_equal_additions(&mut self) {
        let [_, ours, theirs] = self.units;
        for headings in [true, false] {
            let mut new: HashMap<&str, Vec<usize>> = HashMap::new();
            for (index, unit) in ours.iter().enumerate() {
                if unit.is_heading() == headings && self.is_new(&self.ours, index, ours) {
                    new.entry(&unit.plain).or_default().push(index);
                }
            }
            for (index, unit) in theirs.iter().enumerate() {
                if unit.is_heading() != headings || !self.is_new(&self.theirs, index, theirs) {
                    continue;
                }
                let Some(candidates) = new.get_mut(unit.plain.as_str()) else { continue };
                let section = self.their_section(index);
                let twin = candidates.iter().position(|&twin| self.our_section(twin) == section);
                if let Some(twin) = twin.map(|position| candidates.remove(position)) {
                    self.link(twin, index);
                }
            }
        }
    }

    /// Checks whether a side added a unit or edited its text.
    fn is_new(&self, matches: &Matches, index: usize, side: &[Unit<'_>]) -> bool {
        let [base, ..] = self.units;
        matches.to_base[index].is_none_or(|in_base| base[in_base].plain != side[index].plain)
    }

    fn our_section(&self, index: usize) -> Section {
        let [_, ours, _] = self.units;
        let Some(heading) = ours[index].parent else { return Section::Top };
        self.ours.to_base[heading].map_or(Section::OfOurs(heading), Section::OfBase)
    }

    fn their_section(&self, index: usize) -> Section {
        let [_, _, theirs] = self.units;
        let Some(heading) = theirs[index].parent else { return Section::Top };
        match (self.theirs.to_base[heading], self.our_twin[heading]) {
            (Some(in_base), _) => Section::OfBase(in_base),
            (None, Some(twin)) => Section::OfOurs(twin),
            (None, None) => Section::OfTheirs(heading),
        }
    }

    /// Returns which headings of a side stand above something that this side added or edited.
    fn needed_headings(&self, matches: &Matches, side: &[Unit<'_>]) -> Vec<bool> {
        let mut needed = vec![false; side.len()];
        for index in (0..side.len()).filter(|&index| self.is_new(matches, index, side)) {
            let mut above = side[index].parent;
            while let Some(heading) = above.filter(|&heading| !needed[heading]) {
                needed[heading] = true;
                above = side[heading].parent;
            }
        }
        needed
    }

    fn order(&self) -> Vec<Versions> {
        let [_, ours, theirs] = self.units;
        let our_needed = self.needed_headings(&self.ours, ours);
        let their_needed = self.needed_headings(&self.theirs, theirs);
        let mut kept: Vec<Option<Versions>> =
            (0..ours.len()).map(|index| self.kept_of_ours(index, &our_needed)).collect();
        // What stands before the unit of ours with this index, and at the end.
        let mut inserted: Vec<Vec<Versions>> = vec![Vec::new(); ours.len() + 1];
        let mut place = 0;
        // The last place since the heading above: a heading that is added must not stand above units before it.
        let mut section_end = 0;
        for (index, unit) in theirs.iter().enumerate() {
            let base = self.theirs.to_base[index];
            let in_ours = base.and_then(|base| self.ours.from_base[base]).or(self.our_twin[index]);
            let versions = Versions { base, ours: in_ours, theirs: Some(index) };
            if let Some(in_ours) = in_ours {
                if let Some(versions) = &mut kept[in_ours] {
                    versions.theirs = Some(index);
                }
                if self.theirs.is_moved[index] && !self.ours.is_moved[in_ours] {
                    if self.is_between_unshared(&kept, place, in_ours) {
                        place = place.max(in_ours + 1);
                    } else {
                        place = self.place_of_addition(&kept, unit, place);
                        kept[in_ours] = None;
                        inserted[place].push(versions);
                    }
                } else {
                    place = in_ours + 1;
                }
            } else if base.is_none()
                || self.is_new(&self.theirs, index, theirs)
                || their_needed[index]
            {
                let after = if unit.is_heading() { place.max(section_end) } else { place };
                place = self.place_of_addition(&kept, unit, after);
                inserted[place].push(versions);
            }
            section_end = if unit.is_heading() { place } else { section_end.max(place) };
        }
        let mut all = Vec::new();
        for (before, unit) in inserted.into_iter().zip(kept.into_iter().chain([None])) {
            all.extend(before);
            all.extend(unit);
        }
        all
    }

    /// Removes what their side added to a section if our side added the same. Both may stand in one section only now,
    /// because one side added or removed the heading above.
    fn without_equal_additions(&self, all: Vec<Versions>) -> Vec<Versions> {
        let [_, ours, theirs] = self.units;
        // The places of units that only our side added, and of those that only their side added.
        let mut added: HashMap<_, [Vec<usize>; 2]> = HashMap::new();
        let mut section = 0;
        for (place, versions) in all.iter().enumerate() {
            let shown = versions.ours.map(|index| &ours[index]);
            let shown = shown.or(versions.theirs.map(|index| &theirs[index]));
            if shown.is_some_and(Unit::is_heading) {
                section = place;
                continue;
            }
            let new = |matches, index: Option<usize>, side| {
                index.filter(|&index| self.is_new(matches, index, side))
            };
            let our_new = new(&self.ours, versions.ours, ours).map(|index| &ours[index]);
            let their_new = new(&self.theirs, versions.theirs, theirs).map(|index| &theirs[index]);
            let (unit, side) = match (our_new, their_new) {
                (Some(unit), None) => (unit, 0),
                (None, Some(unit)) => (unit, 1),
                (Some(_), Some(_)) | (None, None) => continue,
            };
            let key = (section, unit.plain.as_str());
            added.entry(key).or_default()[side].push(place);
        }
        let pairs = added.values().flat_map(|[ours, theirs]| ours.iter().zip(theirs));
        let removed: HashSet<usize> = pairs.map(|(_, theirs)| *theirs).collect();
        let all = all.into_iter().enumerate();
        all.filter(|(place, _)| !removed.contains(place)).map(|(_, versions)| versions).collect()
    }

    /// Returns a unit of ours, unless their side deleted it and our side did not change it.
    fn kept_of_ours(&self, index: usize, needed: &[bool]) -> Option<Versions> {
        let [_, ours, _] = self.units;
        let base = self.ours.to_base[index];
        let is_deleted = base.is_some_and(|base| self.theirs.from_base[base].is_none());
        let is_kept = !is_deleted || self.is_new(&self.ours, index, ours) || needed[index];
        is_kept.then_some(Versions { base, ours: Some(index), theirs: None })
    }

    /// Checks whether only units that their side does not have stand between a place and a unit of ours.
    fn is_between_unshared(&self, kept: &[Option<Versions>], place: usize, index: usize) -> bool {
        let between = if index < place { index + 1..place } else { place..index };
        between.into_iter().all(|other| kept[other].is_none() || self.is_only_ours(other))
    }

    /// Checks whether their side does not have a unit of ours, since it deleted it or our side added it.
    fn is_only_ours(&self, index: usize) -> bool {
        let is_theirs = |base: usize| self.theirs.from_base[base].is_some();
        !self.is_twin[index] && !self.ours.to_base[index].is_some_and(is_theirs)
    }

    /// Returns the place of a unit that their side added behind `place`: after what only our side has there, except
    /// sections that would become the unit's own.
    fn place_of_addition(
        &self,
        kept: &[Option<Versions>],
        unit: &Unit<'_>,
        mut place: usize,
    ) -> usize {
        let [_, ours, _] = self.units;
        while let Some(next) = ours.get(place)
            && (kept[place].is_none()
                || self.is_only_ours(place) && !(next.is_heading() && next.level() < unit.level()))
        {
            place += 1;
        }
        place
    }
}
