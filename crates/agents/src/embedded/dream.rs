//! Dream: what repeats is merged, what is over or contradicted goes, days get their names, entries go where
//! they belong, and memories say of themselves what is in them.
//!
//! Only what the rules can be sure of: an entry goes when another one in sight says the same, when a later
//! one with a date gives its value anew, or when the day has passed until which it held. Entries are
//! not reworded; that takes a model. Whatever goes has its reason, and every reason is checked once more
//! against the result before anything is handed out.
//!
//! A dream straight after a dream finds nothing to do, unless the first one says that it held something back so
//! that the memories do not grow by more than they may.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use memory::change::Trust;
use memory::clock::Timestamp;
use memory::document;
use memory::path::{Mount, Scope};

use super::about::{described, kept_true};
use super::book::{Note, Page, Snapshot, Source, Stored, Written, may_change, without};
use super::lexicon::{Class, Script, languages};
use super::likeness::{fingerprint, is_light, is_to_be, literals, other_value, says_too};
use super::sketch::Sketch;
use super::split::{bytes, split};
use super::when;
use super::words::{Text, Token};
use crate::request::{Dreamt, Edit};

/// How much the memories may grow by a dream, in percent.
const GROWTH_PERCENT_MAX: usize = 2;

/// In how large steps new memories, longer descriptions and some of the days may use that, in bytes: small memories
/// get them only where the dream has made room, or where all days fit, so that a second dream has nothing to add.
const GROWTH_STEP_BYTES: usize = 256;

/// How often the rules are applied to their own result: an entry that goes may leave another one the
/// only one of its kind, never the other way round, so this ends by itself long before.
const ROUNDS_MAX: usize = 16;

/// An entry, by its page and its place there.
type At = (usize, usize);

/// Why an entry goes.
enum Reason {
    /// Another one says the same.
    Merged(At),
    /// Another one gives its value anew.
    Replaced(At),
    /// The day has passed until which it held.
    Over,
}

/// What was done, and what was left.
#[derive(Default)]
struct Counts {
    merged: usize,
    over: usize,
    moved: usize,
    described: usize,
    held_back: usize,
}

/// Decides what a dream changes.
pub fn dream(snapshot: &Snapshot) -> Dreamt {
    let mut memories: Vec<Option<Stored>> = snapshot.memories.iter().cloned().map(Some).collect();
    let bytes_before = bytes(&memories);
    let may_grow = bytes_before * GROWTH_PERCENT_MAX / 100;
    let bytes_max = bytes_before + may_grow / GROWTH_STEP_BYTES * GROWTH_STEP_BYTES;
    let today = day_of(snapshot.now);
    let mut counts = Counts::default();
    for _ in 0..ROUNDS_MAX {
        // Days that the growth forbids to be named may be named once an entry is gone.
        let mut days = name_days(&memories, snapshot, bytes_before + may_grow);
        if days.held_back > 0 && bytes_max > bytes_before {
            days = name_days(&memories, snapshot, bytes_max);
        } else if days.held_back > 0 {
            days = Days { memories: None, held_back: days.held_back + days.named, named: 0 };
        }
        let round = one_round(days.memories.as_ref().unwrap_or(&memories), snapshot, today);
        let is_tidy = round.gone == 0 && days.memories.is_none();
        counts.merged += round.merged;
        counts.over += round.gone - round.merged;
        memories = round.memories;
        if is_tidy {
            let split = split(memories, snapshot, bytes_max);
            memories = split.memories;
            counts.moved += split.moved;
            counts.held_back = days.held_back + split.held_back;
            if split.moved == 0 {
                break;
            }
        }
    }
    describe(&mut memories, snapshot, bytes_max, &mut counts);
    result(snapshot, &memories, &counts)
}

/// Lets memories say of themselves what is in them until together they take `bytes_max`.
fn describe(
    memories: &mut [Option<Stored>],
    snapshot: &Snapshot,
    bytes_max: usize,
    counts: &mut Counts,
) {
    let mut now = bytes(memories);
    for stored in memories.iter_mut().flatten().filter(|stored| may_change(snapshot, stored)) {
        let Some(text) = described(stored) else { continue };
        let (old, new) = (stored.text.len(), text.len());
        if new <= old || now + new <= bytes_max + old {
            now = now + new - old;
            stored.text = text.into();
            counts.described += 1;
        } else {
            counts.held_back += 1;
        }
    }
}

fn day_of(at: Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date()
}

fn result(snapshot: &Snapshot, memories: &[Option<Stored>], counts: &Counts) -> Dreamt {
    let mut dreamt = Dreamt { deduped: counts.merged, ..Dreamt::default() };
    let before = snapshot.memories.iter().map(Some).chain(std::iter::repeat(None));
    for (before, after) in before.zip(memories) {
        let (edit, of) = match (before, after) {
            (Some(before), Some(after)) if after.text == before.text => continue,
            (before, Some(after)) => {
                let (path, text) = (after.path.clone(), after.text.to_string());
                (Edit::Write { path, text }, before.unwrap_or(after))
            }
            (Some(before), None) => (Edit::Remove { path: before.path.clone() }, before),
            (None, None) => continue,
        };
        dreamt.topics.insert(Page::read(of).topic);
        dreamt.scopes.extend(of.path.mount());
        dreamt.edits.push(edit);
    }
    dreamt.summary = counts.summary(dreamt.edits.len());
    dreamt.held_back = counts.held_back;
    dreamt
}

impl Counts {
    fn summary(&self, changed: usize) -> String {
        let Self { merged, over, moved, described, held_back } = self;
        let mut said = match changed {
            0 => "Nothing to tidy up.".to_owned(),
            1 => "Changed 1 memory.".to_owned(),
            _ => format!("Changed {changed} memories."),
        };
        if changed > 0 {
            let _ =
                write!(said, " Repeated entries merged: {merged}, outdated ones removed: {over}");
            for (what, count) in
                [("moved to where they belong", moved), ("descriptions written", described)]
            {
                if *count > 0 {
                    let _ = write!(said, ", {what}: {count}");
                }
            }
            said.push('.');
        }
        if *held_back > 0 {
            let _ = write!(
                said,
                " Left for another time, since a dream may add {GROWTH_PERCENT_MAX} %: {held_back}."
            );
        }
        said
    }
}

/// What naming days comes to.
struct Days {
    /// The memories with days named; nothing if none is.
    memories: Option<Vec<Option<Stored>>>,
    /// How many entries name one now.
    named: usize,
    /// How many entries still only point at a day, for want of room.
    held_back: usize,
}

/// Names the days that memories point at, entry by entry, as long as all memories together take no more than
/// `bytes_max`.
fn name_days(memories: &[Option<Stored>], snapshot: &Snapshot, bytes_max: usize) -> Days {
    let mut days = Days { memories: None, named: 0, held_back: 0 };
    let mut room = bytes_max.saturating_sub(bytes(memories));
    let mut with_days =
        |stored: &Option<Stored>| with_days_named(stored.as_ref()?, snapshot, &mut room, &mut days);
    let named: Vec<Option<Source>> = memories.iter().map(&mut with_days).collect();
    days.memories = named.iter().any(Option::is_some).then(|| {
        let pairs = memories.iter().zip(named);
        pairs
            .map(|(stored, named)| {
                let stored = stored.clone()?;
                Some(Stored { text: named.unwrap_or_else(|| stored.text.clone()), ..stored })
            })
            .collect()
    });
    days
}

/// Returns the text with the days named that it points at, as far as it is known when they were written and there
/// is room, if that changes it. Counts entries in `days`.
fn with_days_named(
    stored: &Stored,
    snapshot: &Snapshot,
    room: &mut usize,
    days: &mut Days,
) -> Option<Source> {
    if stored.written == Written::Unknown || !may_change(snapshot, stored) {
        return None;
    }
    let old = &stored.text;
    let mut text = String::with_capacity(old.len());
    let (mut end, mut left) = (0, *room);
    for note in &old.read().notes {
        let whole = note.whole();
        let Some(written_at) = stored.written.of(whole) else { continue };
        let named = when::absolute(whole, day_of(written_at));
        if named.len() > whole.len() + left {
            days.held_back += 1;
            continue;
        }
        days.named += usize::from(named != whole);
        left = left + whole.len() - named.len();
        text.push_str(old.get(end..note.whole_start())?);
        text.push_str(&named);
        end = note.whole_start() + whole.len();
    }
    text.push_str(old.get(end..)?);
    if text == **old {
        return None;
    }
    let bytes_max = text.len();
    let text = Source::from(kept_true(old, text, bytes_max));
    (text.read().notes.len() == old.read().notes.len()).then(|| {
        *room = left;
        text
    })
}

/// Whether an entry may go because of what another memory says. Text from outside, such as a checkout brings,
/// must not take away what somebody here had written.
fn may_outdo(stays: &Stored, goes: &Stored) -> bool {
    stays.trust >= Trust::Background || stays.trust >= goes.trust
}

/// What one application of the rules comes to.
struct Round {
    memories: Vec<Option<Stored>>,
    gone: usize,
    merged: usize,
}

fn one_round(memories: &[Option<Stored>], snapshot: &Snapshot, today: Date) -> Round {
    let pages: Vec<Option<Page<'_>>> =
        memories.iter().map(|stored| stored.as_ref().map(Page::read)).collect();
    let mut reasons: BTreeMap<At, Reason> = BTreeMap::new();
    let notes: Vec<(At, &Page<'_>, &Note)> = pages
        .iter()
        .enumerate()
        .filter_map(|(at, page)| page.as_ref().map(|page| (at, page)))
        .flat_map(|(page_at, page)| {
            page.notes.iter().enumerate().map(move |(at, note)| ((page_at, at), page, note))
        })
        .collect();
    for (at, page, note) in &notes {
        if may_change(snapshot, page.stored) && is_over(note, today) {
            reasons.insert(*at, Reason::Over);
        }
    }
    merge(&notes, snapshot, &mut reasons);
    replace(&notes, snapshot, &mut reasons);
    // A reason holds only while what it leans on stays.
    let leaning: Vec<At> = reasons
        .iter()
        .filter(|(_, reason)| match reason {
            Reason::Merged(kept) | Reason::Replaced(kept) => reasons.contains_key(kept),
            Reason::Over => false,
        })
        .map(|(at, _)| *at)
        .collect();
    for at in leaning {
        reasons.remove(&at);
    }
    keep_what_others_hold(&pages, &mut reasons);
    let merged = reasons.values().filter(|reason| matches!(reason, Reason::Merged(_))).count();
    let after = pages.iter().enumerate().map(|(page_at, page)| {
        let page = page.as_ref()?;
        let gone: Vec<usize> =
            (0..page.notes.len()).filter(|at| reasons.contains_key(&(page_at, *at))).collect();
        if gone.is_empty() {
            return Some(page.stored.clone());
        }
        if gone.len() == page.notes.len() {
            return None;
        }
        let ranges: Vec<_> = gone.iter().map(|at| page.notes[*at].entry.range.clone()).collect();
        let old = &page.stored.text;
        let text = kept_true(old, without(old, &ranges), old.len()).into();
        Some(Stored { text, ..page.stored.clone() })
    });
    let after: Vec<Option<Stored>> = after.collect();
    if lost_a_fact(&pages, &after, &reasons) {
        let memories = memories.to_vec();
        return Round { memories, gone: 0, merged: 0 };
    }
    Round { memories: after, gone: reasons.len(), merged }
}

/// Leaves memories as they are of which no entry would be left, but fields that somebody keeps in their
/// frontmatter.
fn keep_what_others_hold(pages: &[Option<Page<'_>>], reasons: &mut BTreeMap<At, Reason>) {
    for (page_at, page) in pages.iter().enumerate() {
        let Some(page) = page else { continue };
        let all = (page_at, 0)..(page_at, page.notes.len());
        let goes = reasons.range(all.clone()).count() == page.notes.len();
        if goes && document::has_other_fields(&page.stored.text) {
            reasons.retain(|at, _| !all.contains(at));
        }
    }
}

/// Whether an entry is gone without a reason, or one that it leans on is.
fn lost_a_fact(
    before: &[Option<Page<'_>>],
    after: &[Option<Stored>],
    reasons: &BTreeMap<At, Reason>,
) -> bool {
    let left: Vec<Vec<&str>> = after
        .iter()
        .map(|stored| {
            let notes = stored.iter().flat_map(|stored| &stored.text.read().notes);
            notes.map(Note::statement).collect()
        })
        .collect();
    before.iter().enumerate().any(|(page_at, page)| {
        let Some(page) = page else { return false };
        let mut rest = left[page_at].iter();
        page.notes.iter().enumerate().any(|(at, note)| match reasons.get(&(page_at, at)) {
            None => rest.next() != Some(&note.statement()),
            Some(Reason::Over) => false,
            Some(Reason::Merged(kept) | Reason::Replaced(kept)) => {
                let survivor = before[kept.0].as_ref().and_then(|page| page.notes.get(kept.1));
                survivor.is_none_or(|survivor| !left[kept.0].contains(&survivor.statement()))
            }
        })
    })
}

/// Marks the entries that another one repeats.
fn merge(
    notes: &[(At, &Page<'_>, &Note)],
    snapshot: &Snapshot,
    reasons: &mut BTreeMap<At, Reason>,
) {
    let (mut statements, mut sentences) = (Likes::default(), Likes::default());
    for (index, (_, _, note)) in notes.iter().enumerate() {
        statements.add(index, &note.sketch);
        note.sentences().iter().for_each(|sentence| sentences.add(index, &sentence.sketch));
    }
    for (index, (at, _, note)) in notes.iter().enumerate() {
        if reasons.contains_key(at) {
            continue;
        }
        let mut others = BTreeSet::new();
        statements.find(&note.sketch, &mut others);
        sentences.find(&note.sketch, &mut others);
        for sentence in note.sentences() {
            statements.find(&sentence.sketch, &mut others);
        }
        for other in others.split_off(&(index + 1)) {
            if let Some((at, kept)) = repeated(notes, (index, other), snapshot, reasons) {
                reasons.insert(at, Reason::Merged(kept));
            }
        }
    }
}

/// Texts by their words, so that those like another one are found without comparing it with each.
#[derive(Default)]
struct Likes {
    by_words: HashMap<usize, Vec<usize>>,
    by_words_but_one: HashMap<usize, Vec<usize>>,
}

impl Likes {
    fn add(&mut self, index: usize, sketch: &Sketch) {
        if sketch.is_empty() {
            return;
        }
        self.by_words.entry(sketch.sum()).or_default().push(index);
        for sum in sketch.sums_without_one() {
            self.by_words_but_one.entry(sum).or_default().push(index);
        }
    }

    /// Adds all those that [`Sketch::may_repeat`] takes for like this one, and few others.
    fn find(&self, sketch: &Sketch, found: &mut BTreeSet<usize>) {
        if sketch.is_empty() {
            return;
        }
        let shorter = sketch.sums_without_one().filter_map(|sum| self.by_words.get(&sum));
        let sum = sketch.sum();
        let others = [self.by_words.get(&sum), self.by_words_but_one.get(&sum)];
        found.extend(others.into_iter().flatten().chain(shorter).flatten());
    }
}

/// Which of two entries goes because the other one says the same, if one may go.
fn repeated(
    notes: &[(At, &Page<'_>, &Note)],
    (first, second): (usize, usize),
    snapshot: &Snapshot,
    reasons: &BTreeMap<At, Reason>,
) -> Option<(At, At)> {
    let (a, b) = (&notes[first], &notes[second]);
    if reasons.contains_key(&a.0) || reasons.contains_key(&b.0) {
        return None;
    }
    let may_go = |goes: &(At, &Page<'_>, &Note), stays: &(At, &Page<'_>, &Note)| {
        may_change(snapshot, goes.1.stored)
            && may_outdo(stays.1.stored, goes.1.stored)
            && in_sight(goes.1.mount(), stays.1.mount())
            && !when::points_at_day(goes.2.whole())
            && (!goes.2.is_explained() || goes.2.full_words() == stays.2.full_words())
            && says_too(stays.2, goes.2)
    };
    // The later one goes, unless it says more or the earlier one may not stay alone.
    if longer(a.2, b.2) && may_go(b, a) {
        Some((b.0, a.0))
    } else if may_go(a, b) {
        Some((a.0, b.0))
    } else if may_go(b, a) {
        Some((b.0, a.0))
    } else {
        None
    }
}

fn longer(a: &Note, b: &Note) -> bool {
    (a.is_explained(), a.full().tokens.len()) >= (b.is_explained(), b.full().tokens.len())
}

impl Note {
    fn full_words(&self) -> BTreeSet<(String, bool)> {
        fingerprint(self.full())
    }
}

/// Whether whoever sees a memory of the first mount also sees those of the second.
fn in_sight(goes: Option<Mount>, stays: Option<Mount>) -> bool {
    goes == stays || goes == Some(Mount::Scope(Scope::Workspace)) && stays.is_some()
}

/// What an entry says, days aside.
struct Timeless<'a> {
    note: &'a Note,
    /// Of one that has days or other numbers.
    sketch: Option<Sketch>,
    /// The day from which it holds.
    since: Option<Date>,
}

impl<'a> Timeless<'a> {
    fn of(note: &'a Note) -> Self {
        if !may_name_days(note) {
            return Self { note, sketch: None, since: None };
        }
        let text = note.text_once();
        let since = stated_on(note, &text);
        Self { note, sketch: Some(Sketch::of(&undated(&text))), since }
    }

    fn sketch(&self) -> &Sketch {
        self.sketch.as_ref().unwrap_or(&self.note.sketch)
    }

    /// Whether this statement gives the value of the other anew.
    fn gives_anew(&self, old: &Self) -> bool {
        if !self.sketch().may_give_anew(old.sketch()) {
            return false;
        }
        let (new, old) = (undated(self.note.text()), undated(old.note.text()));
        let says_enough = |text: &Text| text.content().nth(1).is_some();
        !is_event(&new)
            && !is_event(&old)
            && says_enough(&new)
            && says_enough(&old)
            && other_value(&new, &old)
    }
}

/// Whether an entry has the digits without which no day is named.
fn may_name_days(note: &Note) -> bool {
    note.statement().contains(char::is_numeric)
}

/// Verbs of what was done once, beside those that end in `ed`.
const DONE: &[&str] = &[
    "was", "were", "ran", "went", "met", "had", "bought", "sold", "won", "lost", "made", "got",
    "took", "gave", "came", "saw", "sent", "paid", "wrote", "built", "held", "began", "left",
    "spoke", "cut", "war", "waren", "etait", "fue", "foi",
];

/// Whether a text tells of something that was done, which stays true however often it is done again.
fn is_event(text: &Text) -> bool {
    text.tokens.iter().take(3).enumerate().any(|(at, token)| {
        // The stem of `booked` is without its ending, that of `feed` is not.
        let ends_so = token.word.ends_with("ed") && token.key.len() < token.word.len();
        let past = DONE.contains(&token.word.as_str()) || ends_so;
        // `Is flushed` tells how things are.
        let is_passive = at.checked_sub(1).is_some_and(|before| is_to_be(&text.tokens[before]));
        past && !token.is(Class::Change) && !is_passive
    }) || text.tokens.iter().any(|token| matches!(token.word.as_str(), "was" | "were"))
}

/// Marks the entries whose value a later one gives anew.
fn replace(
    notes: &[(At, &Page<'_>, &Note)],
    snapshot: &Snapshot,
    reasons: &mut BTreeMap<At, Reason>,
) {
    let timeless: Vec<Timeless<'_>> = notes.iter().map(|(_, _, note)| Timeless::of(note)).collect();
    let mut by_word: HashMap<usize, Vec<usize>> = HashMap::new();
    for (index, one) in timeless.iter().enumerate() {
        one.sketch().ends().for_each(|word| by_word.entry(word).or_default().push(index));
    }
    for ((kept, new_page, _), new) in notes.iter().zip(&timeless) {
        let Some(date) = new.since else { continue };
        if reasons.contains_key(kept) {
            continue;
        }
        let alike = new.sketch().ends().filter_map(|word| by_word.get(&word));
        for index in alike.flatten().copied().collect::<BTreeSet<_>>() {
            let ((at, page, _), old) = (&notes[index], &timeless[index]);
            let older = old.since.is_none_or(|older| older < date);
            if at == kept || !older || !new.gives_anew(old) || reasons.contains_key(at) {
                continue;
            }
            if may_change(snapshot, page.stored)
                && may_outdo(new_page.stored, page.stored)
                && page.mount() == new_page.mount()
            {
                reasons.insert(*at, Reason::Replaced(*kept));
            }
        }
    }
    no_longer_so(notes, snapshot, reasons);
}

/// Marks what another entry says is no longer so, in the same words.
fn no_longer_so(
    notes: &[(At, &Page<'_>, &Note)],
    snapshot: &Snapshot,
    reasons: &mut BTreeMap<At, Reason>,
) {
    let bare = |note: &Note| -> BTreeSet<String> {
        let words = note
            .text()
            .content()
            .filter(|token| !token.is(Class::Gone) && !token.is(Class::Change) && !is_light(token));
        words.map(|token| token.key.clone()).collect()
    };
    let gone: Vec<&(At, &Page<'_>, &Note)> =
        notes.iter().filter(|(_, _, note)| note.says_gone).collect();
    for (kept, new_page, new) in gone {
        let words = bare(new);
        if words.len() < 2 {
            continue;
        }
        for (at, page, old) in notes {
            let may_be_so = !old.says_gone && new.sketch.touches(&old.sketch);
            if !may_be_so || old.text().has(Class::Not) || bare(old) != words {
                continue;
            }
            let free = !reasons.contains_key(at) && !reasons.contains_key(kept);
            let allowed = may_change(snapshot, page.stored)
                && may_outdo(new_page.stored, page.stored)
                && page.mount() == new_page.mount();
            if free && allowed && literals(new.statement()) == literals(old.statement()) {
                reasons.insert(*at, Reason::Replaced(*kept));
            }
        }
    }
}

/// The day from which an entry says that it holds: `(2026-01-20)` at its end, `since 2026-03-15`.
fn stated_on(note: &Note, text: &Text) -> Option<Date> {
    let named = when::named(text);
    let [only] = named.as_slice() else { return None };
    let first = &text.tokens[only.tokens.start];
    let last = &text.tokens[only.tokens.end - 1];
    let before = note.statement().get(..first.at.start)?.trim_end();
    let after = note.statement().get(last.at.end..)?.trim();
    let in_brackets = before.ends_with(['(', '（', '['])
        && after.trim_end_matches(['.', '。']).ends_with([')', '）', ']'])
        && after.chars().count() <= 2;
    let near = only.tokens.start.saturating_sub(2)..only.tokens.end + 1;
    let since = text.tokens.iter().enumerate().any(|(index, token)| {
        near.contains(&index) && token.is(Class::Since) && !token.is(Class::Until)
    });
    (in_brackets || since).then_some(only.date)
}

/// The text without the days that it names and the words that go with them.
fn undated(text: &Text) -> Text {
    let named = when::named(text);
    let tokens = text.tokens.iter().enumerate().filter(|(index, token)| {
        !named.iter().any(|one| one.tokens.contains(index)) && !token.is(Class::Since)
    });
    Text { tokens: tokens.map(|(_, token)| token.clone()).collect(), hits: Vec::new() }
}

/// Whether a text tells of a post or a stay: `worked there until 2019` is as true as before, other than `was away
/// until then`.
fn tells_of_stay(text: &Text) -> bool {
    let is_person = |token: &Token| token.is(Class::User) || token.is(Class::Oneself);
    let subject = text.tokens.iter().take_while(|token| is_person(token)).count();
    text.tokens.iter().take(subject.max(1) + 1).any(|token| token.is(Class::Stay))
}

/// Whether the day has passed until which an entry held, and it says nothing else.
fn is_over(note: &Note, today: Date) -> bool {
    if !may_name_days(note) {
        return false;
    }
    let text = &note.text_once();
    let named = when::named(text);
    let one_sentence =
        text.tokens.last().is_none_or(|last| last.sentence == text.tokens[0].sentence);
    if named.iter().any(|one| one.date >= today) || !one_sentence || note.is_explained() {
        return false;
    }
    // `It was not open until then` says that it is open now.
    let since_then = text.has(Class::Not)
        && text
            .tokens
            .iter()
            .any(|token| DONE.contains(&token.word.as_str()) || token.word == "did");
    if since_then || text.has(Class::Then) || text.has(Class::Gone) || tells_of_stay(text) {
        return false;
    }
    named.last().is_some_and(|last| {
        let ends = |token: &Token| token.is(Class::Until) || token.is(Class::Ends);
        let before = last.tokens.start.saturating_sub(3)..last.tokens.start;
        let verb_last =
            text.tokens[last.tokens.end - 1].language.and_then(|one| languages().get(one));
        let behind = match verb_last.map(|one| one.script) {
            Some(Script::Unspaced | Script::Hangul) => last.tokens.end..last.tokens.end + 2,
            _ => last.tokens.end..last.tokens.end,
        };
        text.tokens.iter().enumerate().any(|(index, token)| {
            ends(token) && (before.contains(&index) || behind.contains(&index))
        })
    })
}
