//! Splitting: entries that plainly are of another type than their memory go to one of that type.
//!
//! Only where nothing is torn apart: the entry has no word in common with what stays, the memory has no
//! sections, no numbered steps and no line that introduces others. It goes to a memory that
//! speaks of the same, or to one of its own, never into another scope.

use memory::change::Trust;
use memory::path::{Mount, Scope};

use super::about::{Names, described, fresh, kept_true};
use super::book::{Note, Page, Snapshot, Source, Stored, Written, appended, may_change, without};
use super::classify;
use super::sketch::Sketch;
use super::when;
use crate::request::Topic;

/// How much of an entry's words a memory must have to be its place.
const PLACE_SHARE_MIN: f64 = 0.3;

/// The memories with entries moved.
pub(crate) struct Split {
    pub(crate) memories: Vec<Option<Stored>>,
    /// How many entries moved.
    pub(crate) moved: usize,
    /// How many stay although they belong elsewhere, since there is no room for new memories.
    pub(crate) held_back: usize,
}

/// Moves entries to where they belong: to memories that are there, and if there is nothing to move to those, to
/// new ones, until all memories together take `bytes_max`.
pub(crate) fn split(memories: Vec<Option<Stored>>, snapshot: &Snapshot, bytes_max: usize) -> Split {
    let shelves: Vec<Option<Shelf<'_>>> = memories
        .iter()
        .map(|stored| stored.as_ref().and_then(|stored| Shelf::of(stored, snapshot)))
        .collect();
    let mut done = to_their_places(&memories, &shelves);
    if done.moved == 0 {
        done = to_new_memories(&memories, &shelves, snapshot, bytes_max);
    }
    if done.moved == 0 || all_said(&memories) == all_said(&done.memories) {
        return done;
    }
    drop(shelves);
    Split { memories, moved: 0, held_back: 0 }
}

/// How long the memories are, in bytes.
pub(crate) fn bytes(memories: &[Option<Stored>]) -> usize {
    memories.iter().flatten().map(|stored| stored.text.len()).sum()
}

/// What all entries say, without regard to where and how they are laid out.
fn all_said(memories: &[Option<Stored>]) -> Vec<String> {
    let of = |stored: &Stored| -> Vec<String> {
        let words = |note: &Note| note.whole().split_whitespace().collect::<Vec<_>>().join(" ");
        stored.text.read().notes.iter().map(words).collect()
    };
    let mut said: Vec<String> = memories.iter().flatten().flat_map(of).collect();
    said.sort_unstable();
    said
}

/// A memory whose entries stand for themselves, so that one may come or go.
struct Shelf<'a> {
    page: Page<'a>,
    mount: Mount,
    topic: Topic,
    strangers: Vec<Stranger>,
}

/// An entry that does not belong where it is.
struct Stranger {
    at: usize,
    topic: Topic,
}

impl<'a> Shelf<'a> {
    fn of(stored: &'a Stored, snapshot: &Snapshot) -> Option<Self> {
        // What came from outside must not be taken for what somebody here had written.
        if !may_change(snapshot, stored) || stored.trust < Trust::Background {
            return None;
        }
        let page = Page::read(stored);
        let topic = Topic::declared(page.head.kind.as_deref(), &stored.path)?;
        let mount = page.mount().filter(|_| is_plain_list(&page))?;
        let strangers = strangers(&page, mount, topic);
        Some(Self { page, mount, topic, strangers })
    }

    /// Whether entries of this kind may come here.
    fn takes(&self, mount: Mount, topic: Topic) -> bool {
        self.mount == mount && self.topic == topic && self.strangers.is_empty()
    }

    /// The text without these entries.
    fn without(&self, entries: &[usize]) -> String {
        let ranges: Vec<_> =
            entries.iter().map(|at| self.page.notes[*at].entry.range.clone()).collect();
        without(&self.page.stored.text, &ranges)
    }

    fn fact(&self, stranger: &Stranger) -> String {
        unindented(&self.page.notes[stranger.at])
    }

    /// Memories for the entries that do not belong here, one for each type.
    fn made_of_strangers(&self, names: &mut Names) -> Vec<Stored> {
        let of = |topic: Topic| {
            let going = self.strangers.iter().filter(|stranger| stranger.topic == topic);
            let facts: Vec<String> = going.map(|stranger| self.fact(stranger)).collect();
            let (first, rest) = facts.split_first()?;
            let text =
                rest.iter().try_fold(fresh(first, topic), |text, fact| appended(&text, fact))?;
            let path = names.take_free(first, self.mount, topic)?;
            let (written, trust) = (Written::Unknown, Trust::Background);
            let new = Stored { path, text: text.into(), pinned: false, written, trust };
            let text = described(&new).map_or(new.text.clone(), Source::from);
            Some(Stored { text, ..new })
        };
        Topic::ALL.into_iter().filter_map(of).collect()
    }
}

/// Whether nothing stands between the entries and none of them counts, or introduces others.
fn is_plain_list(page: &Page<'_>) -> bool {
    let text = &page.stored.text;
    let mut end = page.notes.first().map(|first| first.entry.range.start);
    page.notes.iter().all(|note| {
        let range = note.entry.range.clone();
        let between = end.and_then(|end| text.get(end..range.start)).unwrap_or_default();
        let bullet = text.get(range.start..note.whole_start()).unwrap_or_default();
        end = Some(range.end);
        between.trim().is_empty()
            && matches!(bullet.trim(), "" | "-" | "*" | "+")
            && !note.entry.first_line.trim_end().ends_with([':', '：'])
    })
}

/// The entries that plainly are of another type and have no word in common with those that are not. If they are
/// most of the memory, it is the memory's type that is wrong, and they stay.
fn strangers(page: &Page<'_>, mount: Mount, topic: Topic) -> Vec<Stranger> {
    let other_topic = |note: &Note| {
        classify::plainly(note.statement()).filter(|own| *own != topic && is_kept_in(mount, *own))
    };
    let topics: Vec<Option<Topic>> = page.notes.iter().map(other_topic).collect();
    let title = Sketch::of(&page.file_title());
    let is_apart = |sketch: &Sketch| {
        let mut natives = page.notes.iter().zip(&topics).filter(|(_, topic)| topic.is_none());
        !sketch.touches(&title) && !natives.any(|(note, _)| sketch.touches(&note.sketch))
    };
    let strangers: Vec<Stranger> = page
        .notes
        .iter()
        .zip(&topics)
        .enumerate()
        .filter_map(|(at, (note, topic))| {
            let topic =
                topic.filter(|_| is_apart(&note.sketch) && !when::points_at_day(note.whole()))?;
            Some(Stranger { at, topic })
        })
        .collect();
    if strangers.len() * 2 > page.notes.len() { Vec::new() } else { strangers }
}

/// Whether memories of a scope are of this type: who a person is belongs to no project.
fn is_kept_in(mount: Mount, topic: Topic) -> bool {
    match (mount, topic) {
        (Mount::Flat, _) | (_, Topic::Feedback | Topic::Reference) => true,
        (Mount::Scope(scope), Topic::User) => scope == Scope::Global,
        (Mount::Scope(scope), Topic::Project) => scope != Scope::Global,
    }
}

/// An entry without the bullet, its further lines as far out as the first.
fn unindented(note: &Note) -> String {
    let by = note.whole_start() - note.entry.range.start;
    let mut lines = note.whole().trim_end().lines();
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |mut text, line| {
        let blank = line.len() - line.trim_start_matches(' ').len();
        text.push('\n');
        text.push_str(line.get(blank.min(by)..).unwrap_or_default());
        text
    })
}

/// Moves strangers to memories of their type that speak of the same.
fn to_their_places(memories: &[Option<Stored>], shelves: &[Option<Shelf<'_>>]) -> Split {
    let mut texts: Vec<Option<String>> = vec![None; memories.len()];
    let mut moved = 0;
    for (from, shelf) in
        shelves.iter().enumerate().filter_map(|(at, one)| Some((at, one.as_ref()?)))
    {
        let mut gone = Vec::new();
        for stranger in &shelf.strangers {
            let note = &shelf.page.notes[stranger.at];
            let Some(to) = place(shelves, shelf.mount, stranger.topic, &note.sketch) else {
                continue;
            };
            let old = texts[to].as_deref().or(memories[to].as_ref().map(|to| &*to.text));
            let Some(old) = old else { continue };
            let new = appended(old, &shelf.fact(stranger));
            if let Some(new) = new.filter(|new| new.len() <= old.len() + note.entry.range.len()) {
                texts[to] = Some(new);
                gone.push(stranger.at);
            }
        }
        moved += gone.len();
        if !gone.is_empty() {
            texts[from] = Some(shelf.without(&gone));
        }
    }
    let renewed = |(stored, text): (&Option<Stored>, Option<String>)| match (stored, text) {
        (Some(stored), Some(text)) => Some(renewed(stored, text)),
        (stored, _) => stored.clone(),
    };
    Split { memories: memories.iter().zip(texts).map(renewed).collect(), moved, held_back: 0 }
}

/// The memory of this mount and topic that has most of the words.
fn place(
    shelves: &[Option<Shelf<'_>>],
    mount: Mount,
    topic: Topic,
    words: &Sketch,
) -> Option<usize> {
    let mut best: Option<(usize, f64)> = None;
    for (at, shelf) in shelves.iter().enumerate() {
        let Some(shelf) = shelf.as_ref().filter(|shelf| shelf.takes(mount, topic)) else {
            continue;
        };
        let share = words.share_by_file(&shelf.page);
        if share >= PLACE_SHARE_MIN && best.is_none_or(|(_, most)| share > most) {
            best = Some((at, share));
        }
    }
    best.map(|(at, _)| at)
}

/// Moves strangers to memories of their own: one for all of a type that come from one memory.
fn to_new_memories(
    memories: &[Option<Stored>],
    shelves: &[Option<Shelf<'_>>],
    snapshot: &Snapshot,
    bytes_max: usize,
) -> Split {
    let mut names = Names::of(memories.iter().flatten(), snapshot);
    let mut done = Split { memories: memories.to_vec(), moved: 0, held_back: 0 };
    let mut now = bytes(memories);
    for (from, shelf) in
        shelves.iter().enumerate().filter_map(|(at, one)| Some((at, one.as_ref()?)))
    {
        if shelf.strangers.is_empty() {
            continue;
        }
        let gone: Vec<usize> = shelf.strangers.iter().map(|stranger| stranger.at).collect();
        let old = shelf.page.stored;
        let left = renewed(old, shelf.without(&gone));
        let made = shelf.made_of_strangers(&mut names);
        let new: usize = made.iter().map(|stored| stored.text.len()).sum();
        if now + new + left.text.len() > bytes_max + old.text.len() {
            done.held_back += gone.len();
            continue;
        }
        now = now + new + left.text.len() - old.text.len();
        done.moved += gone.len();
        done.memories[from] = Some(left);
        done.memories.extend(made.into_iter().map(Some));
    }
    done
}

/// A memory with another text, and a head that does not repeat what left it.
fn renewed(stored: &Stored, text: String) -> Stored {
    let text = kept_true(&stored.text, text, stored.text.len());
    Stored { text: text.into(), ..stored.clone() }
}
