//! Dream: what repeats is merged, what is over or contradicted goes, days get their names.
//!
//! Only what the rules can be sure of: an entry goes when another one in sight says the same, when a later
//! one with a date gives its value anew, or when the day has passed until which it held. Memories are
//! not split and not reworded; that takes a model. Whatever goes has its reason, and every reason is
//! checked once more against the result before anything is handed out.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::civil::Date;
use jiff::tz::TimeZone;
use memory::change::Trust;
use memory::clock::Timestamp;
use memory::path::{Mount, Scope};

use super::book::{Note, Page, Snapshot, Source, Stored, without};
use super::lexicon::{Class, Script, languages};
use super::likeness::{fingerprint, is_light, literals, other_value, says_too};
use super::sketch::Sketch;
use super::when;
use super::words::{Text, Token};
use crate::request::{Dreamt, Edit};

/// How much the memories may grow by a dream, in percent.
const GROWTH_PERCENT_MAX: usize = 2;

/// How often the rules are applied to their own result: an entry that goes may leave another one the
/// only one of its kind, never the other way round, so this ends by itself long before.
const ROUNDS_MAX: usize = 8;

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

/// Decides what a dream changes.
pub fn dream(snapshot: &Snapshot) -> Dreamt {
    let mut memories: Vec<Option<Stored>> = snapshot.memories.iter().cloned().map(Some).collect();
    let today = day_of(snapshot.now);
    let (mut merged, mut over) = (0, 0);
    for _ in 0..ROUNDS_MAX {
        // Days that the growth forbids to be named may be named once an entry is gone.
        let named = named_days(&memories, snapshot).filter(|named| !grew_too_much(snapshot, named));
        let round = one_round(named.as_ref().unwrap_or(&memories), snapshot, today);
        if round.gone == 0 && named.is_none() {
            break;
        }
        merged += round.merged;
        over += round.gone - round.merged;
        memories = round.memories;
    }
    result(snapshot, &memories, (merged, over))
}

fn day_of(at: Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date()
}

fn result(
    snapshot: &Snapshot,
    memories: &[Option<Stored>],
    (merged, over): (usize, usize),
) -> Dreamt {
    let mut dreamt = Dreamt { deduped: merged, ..Dreamt::default() };
    for (before, after) in snapshot.memories.iter().zip(memories) {
        let edit = match after {
            Some(after) if after.text == before.text => continue,
            Some(after) => Edit::Write { path: before.path.clone(), text: after.text.to_string() },
            None => Edit::Remove { path: before.path.clone() },
        };
        dreamt.topics.insert(Page::read(before).topic);
        dreamt.scopes.extend(before.path.mount());
        dreamt.edits.push(edit);
    }
    dreamt.summary = if dreamt.edits.is_empty() {
        "Nothing to tidy up.".to_owned()
    } else {
        let count = dreamt.edits.len();
        let memories = if count == 1 { "memory" } else { "memories" };
        format!(
            "Changed {count} {memories}. Repeated entries merged: {merged}, outdated ones removed: {over}."
        )
    };
    dreamt
}

/// Returns the memories with the days named that they point at, if one does.
fn named_days(memories: &[Option<Stored>], snapshot: &Snapshot) -> Option<Vec<Option<Stored>>> {
    let named: Vec<Option<Source>> = memories
        .iter()
        .map(|stored| stored.as_ref().and_then(|stored| with_days_named(stored, snapshot)))
        .collect();
    named.iter().any(Option::is_some).then(|| {
        let pairs = memories.iter().zip(named);
        pairs
            .map(|(stored, named)| {
                let stored = stored.clone()?;
                Some(Stored { text: named.unwrap_or_else(|| stored.text.clone()), ..stored })
            })
            .collect()
    })
}

/// Returns the text with the days named that it points at, as far as it is known when it was written, if
/// that changes it.
fn with_days_named(stored: &Stored, snapshot: &Snapshot) -> Option<Source> {
    let written_at = stored.written_at.filter(|_| may_change(snapshot, stored))?;
    let start = stored.text.len() - memory::document::body(&stored.text).len();
    let (head, body) = stored.text.split_at_checked(start)?;
    let named = when::absolute(body, day_of(written_at));
    if named == body {
        return None;
    }
    let text = Source::from(format!("{head}{named}"));
    (text.read().notes.len() == stored.text.read().notes.len()).then_some(text)
}

fn may_change(snapshot: &Snapshot, stored: &Stored) -> bool {
    !stored.pinned && stored.path.mount().is_some_and(|mount| snapshot.writable.contains(&mount))
}

/// Whether an entry may go because of what another memory says. Text from outside, such as a checkout brings,
/// must not take away what somebody here had written.
fn may_outdo(stays: &Stored, goes: &Stored) -> bool {
    stays.trust >= Trust::Background || stays.trust >= goes.trust
}

fn grew_too_much(snapshot: &Snapshot, memories: &[Option<Stored>]) -> bool {
    let before: usize = snapshot.memories.iter().map(|stored| stored.text.len()).sum();
    let after: usize = memories.iter().flatten().map(|stored| stored.text.len()).sum();
    after.saturating_sub(before) * 100 > before * GROWTH_PERCENT_MAX
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
        let text = without(&page.stored.text, &ranges).into();
        Some(Stored { text, ..page.stored.clone() })
    });
    let after: Vec<Option<Stored>> = after.collect();
    if lost_a_fact(&pages, &after, &reasons) {
        let memories = memories.to_vec();
        return Round { memories, gone: 0, merged: 0 };
    }
    Round { memories: after, gone: reasons.len(), merged }
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
    let mut near: HashMap<String, Vec<usize>> = HashMap::new();
    for (index, (_, _, note)) in notes.iter().enumerate() {
        // Equal statements share all words, nearly equal ones the longest.
        let words = fingerprint(note.text());
        let mut keys: Vec<&String> = words.iter().map(|(key, _)| key).collect();
        keys.sort_by_key(|key| std::cmp::Reverse(key.chars().count()));
        for key in keys.into_iter().take(2) {
            near.entry(key.clone()).or_default().push(index);
        }
    }
    let mut groups: Vec<(&String, &Vec<usize>)> = near.iter().collect();
    groups.sort();
    for (_, group) in groups {
        for (place, &first) in group.iter().enumerate() {
            for &second in &group[place + 1..] {
                if let Some((at, kept)) = repeated(notes, (first, second), snapshot, reasons) {
                    reasons.insert(at, Reason::Merged(kept));
                }
            }
        }
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
struct Timeless {
    text: Text,
    sketch: Sketch,
    /// The day from which it holds.
    since: Option<Date>,
}

impl Timeless {
    fn of(note: &Note) -> Self {
        let text = undated(note.text());
        Self { sketch: Sketch::of(&text), text, since: stated_on(note) }
    }

    /// Whether this statement gives the value of the other anew.
    fn gives_anew(&self, old: &Self) -> bool {
        let says_enough = |text: &Text| text.content().nth(1).is_some();
        self.sketch.may_give_anew(&old.sketch)
            && says_enough(&self.text)
            && says_enough(&old.text)
            && other_value(&self.text, &old.text)
    }
}

/// Marks the entries whose value a later one gives anew.
fn replace(
    notes: &[(At, &Page<'_>, &Note)],
    snapshot: &Snapshot,
    reasons: &mut BTreeMap<At, Reason>,
) {
    let timeless: Vec<Timeless> = notes.iter().map(|(_, _, note)| Timeless::of(note)).collect();
    for ((kept, new_page, _), new) in notes.iter().zip(&timeless) {
        let Some(date) = new.since else { continue };
        if reasons.contains_key(kept) {
            continue;
        }
        for ((at, page, _), old) in notes.iter().zip(&timeless) {
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
        notes.iter().filter(|(_, _, note)| note.text().has(Class::Gone)).collect();
    if gone.is_empty() {
        return;
    }
    let so: Vec<Option<BTreeSet<String>>> = notes
        .iter()
        .map(|(_, _, note)| {
            let holds = !note.text().has(Class::Gone) && !note.text().has(Class::Not);
            holds.then(|| bare(note))
        })
        .collect();
    for (kept, new_page, new) in gone {
        let words = bare(new);
        if words.len() < 2 {
            continue;
        }
        let words = Some(words);
        for (index, (at, page, old)) in notes.iter().enumerate() {
            if so[index] != words {
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
fn stated_on(note: &Note) -> Option<Date> {
    let named = when::named(note.text());
    let [only] = named.as_slice() else { return None };
    let first = &note.text().tokens[only.tokens.start];
    let last = &note.text().tokens[only.tokens.end - 1];
    let before = note.statement().get(..first.at.start)?.trim_end();
    let after = note.statement().get(last.at.end..)?.trim();
    let in_brackets = before.ends_with(['(', '（', '['])
        && after.trim_end_matches(['.', '。']).ends_with([')', '）', ']'])
        && after.chars().count() <= 2;
    let near = only.tokens.start.saturating_sub(2)..only.tokens.end + 1;
    let since = note.text().tokens.iter().enumerate().any(|(index, token)| {
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

/// Whether the day has passed until which an entry held, and it says nothing else.
fn is_over(note: &Note, today: Date) -> bool {
    let text = note.text();
    let named = when::named(text);
    let one_sentence =
        text.tokens.last().is_none_or(|last| last.sentence == text.tokens[0].sentence);
    if named.iter().any(|one| one.date >= today) || !one_sentence || note.is_explained() {
        return false;
    }
    if text.has(Class::Not) || text.has(Class::Then) || text.has(Class::Gone) {
        return false;
    }
    named.last().is_some_and(|last| {
        let ends = |token: &Token| token.is(Class::Until) || token.is(Class::Ends);
        let before = last.tokens.start.saturating_sub(3)..last.tokens.start;
        let verb_last =
            text.tokens[last.tokens.start].language.and_then(|one| languages().get(one));
        let behind = match verb_last.map(|one| one.script) {
            Some(Script::Unspaced | Script::Hangul) => last.tokens.end..last.tokens.end + 2,
            _ => last.tokens.end..last.tokens.end,
        };
        text.tokens.iter().enumerate().any(|(index, token)| {
            ends(token) && (before.contains(&index) || behind.contains(&index))
        })
    })
}
