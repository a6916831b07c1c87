//! Forget: which entries a request means.
//!
//! Forgetting destroys, so it is precise: every word of the request that says something must be in the
//! entry. A request that names a kind of memory (`my editor preference`) looks for it where that kind
//! is kept. One that asks to *keep* something, or that says nothing but `forget it`, removes nothing.

use std::collections::BTreeSet;

use memory::path::{Mount, Scope};

use super::about::kept_true;
use super::book::{Note, Page, Snapshot, without};
use super::lexicon::{Class, Value};
use super::likeness::{has_opposites_of, is_light};
use super::when;
use super::words::{Text, Token, alike, is_unspaced, plain};
use crate::request::{Edit, ForgetRequest, Forgotten, Removed, Topic};

/// The shortest word that a letter too many, too few or out of place is looked over in: of shorter ones that
/// makes another word too often.
const SLIP_CHARS_MIN: usize = 6;

/// The same if a letter is another one, or if the word is all that a request says.
const SLIP_ALONE_CHARS_MIN: usize = 8;

/// How many letters a noun and a verb must begin with to be akin.
const AKIN_CHARS_MIN: usize = 6;

/// How much two words must begin with to be one, in languages that put ending upon ending, in bytes.
const STACKED_BYTES_MIN: usize = 6;

/// What is said when nothing matches.
const NO_MATCH: &str = "No managed auto-memory entries matched.";

/// Decides which entries go.
pub fn forget(snapshot: &Snapshot, request: &ForgetRequest) -> Forgotten {
    let pages: Vec<Page<'_>> = snapshot
        .memories
        .iter()
        .filter(|stored| may_go(snapshot, stored.path.mount(), request.scope))
        .map(Page::read)
        .collect();
    let chosen = chosen(&pages, &request.query);
    let mut done = Forgotten::default();
    for (index, page) in pages.iter().enumerate() {
        let notes: Vec<&Note> = chosen
            .iter()
            .filter(|(of, _)| *of == index)
            .filter_map(|(_, note)| page.notes.get(*note))
            .collect();
        if notes.is_empty() {
            continue;
        }
        if page.stored.pinned {
            done.skipped_pinned.push(page.stored.path.clone());
            continue;
        }
        let path = page.stored.path.clone();
        done.topics.insert(page.topic);
        done.scopes.extend(page.mount());
        done.removed.extend(notes.iter().map(|note| Removed {
            topic: page.topic,
            summary: note.entry.first_line.clone(),
            path: path.clone(),
        }));
        done.edits.push(if notes.len() == page.notes.len() {
            Edit::Remove { path }
        } else {
            let ranges: Vec<_> = notes.iter().map(|note| note.entry.range.clone()).collect();
            let text = without(&page.stored.text, &ranges);
            let text = kept_true(&page.stored.text, text, page.stored.text.len());
            Edit::Write { path, text }
        });
    }
    done.summary = summary(&done);
    done
}

fn may_go(snapshot: &Snapshot, mount: Option<Mount>, scope: Option<Scope>) -> bool {
    let Some(mount) = mount else { return false };
    let is_asked = scope.is_none_or(|scope| mount == Mount::Scope(scope) || mount == Mount::Flat);
    is_asked && snapshot.writable.contains(&mount)
}

fn summary(done: &Forgotten) -> String {
    let mut said = match done.removed.len() {
        0 if done.skipped_pinned.is_empty() => return NO_MATCH.to_owned(),
        0 => NO_MATCH.trim_end_matches('.').to_owned() + " that may be removed.",
        1 => "Removed 1 memory entry.".to_owned(),
        count => format!("Removed {count} memory entries."),
    };
    if !done.skipped_pinned.is_empty() {
        let paths: Vec<String> = done.skipped_pinned.iter().map(ToString::to_string).collect();
        said.push_str(" Pinned memories were left alone: ");
        said.push_str(&paths.join(", "));
        said.push('.');
    }
    said
}

/// An entry, by its page and its place there.
type At = (usize, usize);

fn chosen(pages: &[Page<'_>], query: &str) -> BTreeSet<At> {
    if let Some(quoted) = quoted(query) {
        let exact = exactly(pages, quoted);
        if !exact.is_empty() {
            return exact;
        }
    }
    let asked = Text::read(query);
    if asks_to_keep(&asked) {
        return BTreeSet::new();
    }
    let exact = exactly(pages, query);
    if !exact.is_empty() {
        return exact;
    }
    let (wanted, spared) = without_exception(&asked);
    let mut found = matching(pages, &Wanted::of(&wanted, &asked));
    let others = [each_of_several, as_many, nearly, as_ordered];
    for other in others {
        if found.is_empty() {
            found = other(pages, &wanted, &asked);
        }
    }
    narrow_to_identifiers(pages, query, &mut found);
    let is_told = |&(page, note): &At| has_opposites_of(pages[page].notes[note].full(), &asked);
    if found.iter().any(is_told) {
        found.retain(is_told);
    }
    if !spared.is_empty() {
        let spared: Vec<&Token> = spared.into_iter().filter(|token| says_what(token)).collect();
        found.retain(|&(page, note)| {
            let text = pages[page].notes[note].full();
            spared.is_empty() || !spared.iter().all(|token| covers(text, token))
        });
    }
    found
}

/// What stands between quotation marks, if it is most of a statement.
fn quoted(query: &str) -> Option<&str> {
    let pairs = [
        ('“', '”'),
        ('"', '"'),
        ('„', '“'),
        ('«', '»'),
        ('「', '」'),
        ('『', '』'),
        ('‘', '’'),
        ('”', '”'),
    ];
    pairs.into_iter().find_map(|(open, close)| {
        let (_, rest) = query.split_once(open)?;
        let (inside, _) = rest.rsplit_once(close)?;
        (inside.split_whitespace().count() >= 2 || inside.chars().count() >= 4).then_some(inside)
    })
}

/// The entries that state exactly this.
fn exactly(pages: &[Page<'_>], text: &str) -> BTreeSet<At> {
    let folded = |text: &str| {
        let words: Vec<String> = plain(text).split_whitespace().map(str::to_owned).collect();
        words.join(" ").trim_end_matches(['.', '!', '。', ' ']).to_owned()
    };
    let wanted = folded(text);
    let any = Wanted::default();
    everywhere(pages, &any, &|note| !wanted.is_empty() && folded(note.statement()) == wanted)
}

/// The entries that fit, of the memories that can be meant.
fn everywhere(
    pages: &[Page<'_>],
    wanted: &Wanted<'_>,
    fits: &dyn Fn(&Note) -> bool,
) -> BTreeSet<At> {
    let mut found = BTreeSet::new();
    for (page_at, page) in pages.iter().enumerate().filter(|(_, page)| wanted.may_be_in(page)) {
        let fitting = page.notes.iter().enumerate().filter(|(_, note)| fits(note));
        found.extend(fitting.map(|(at, _)| (page_at, at)));
    }
    found
}

/// Whether the request is *not* to forget: a negation right before the verb, or right behind it in
/// languages that put it there.
fn asks_to_keep(asked: &Text) -> bool {
    if asked.has(Class::Keep) {
        return true;
    }
    asked.tokens.iter().enumerate().any(|(index, token)| {
        let near = |offset: isize| {
            let at = index.checked_add_signed(offset)?;
            asked.tokens.get(at).filter(|other| other.clause == token.clause)
        };
        let negates = |other: Option<&Token>| other.is_some_and(|other| other.is(Class::Not));
        token.is(Class::Forget)
            && (token.is(Class::Not)
                || negates(near(-1))
                || negates(near(1))
                || negates_over_a_word(&near)
                || negates_at_the_end(asked, index))
    })
}

/// `do not ever forget`, `ne l'oublie pas`.
fn negates_over_a_word<'a>(near: &impl Fn(isize) -> Option<&'a Token>) -> bool {
    let small = |token: &Token| token.is(Class::Function) || token.is(Class::Asking);
    near(-2).is_some_and(|token| token.is(Class::Not)) && near(-1).is_some_and(small)
}

/// `vergiss den Termin nicht`: a negation that ends the clause which the verb begins.
fn negates_at_the_end(asked: &Text, verb: usize) -> bool {
    let clause = asked.tokens[verb].clause;
    let last = asked.tokens.iter().rev().find(|token| token.clause == clause);
    last.is_some_and(|last| last.is(Class::Not))
}

/// Whether a word of a request says what is to be forgotten.
fn says_what(token: &Token) -> bool {
    token.is_content()
        && !token.is(Class::Asking)
        && !token.is(Class::Forget)
        && !token.is(Class::Keep)
        && !token.is(Class::Gone)
}

/// Cuts off `except …`, `but not …`.
fn without_exception(asked: &Text) -> (Vec<&Token>, Vec<&Token>) {
    let at = asked.tokens.iter().position(|token| token.is(Class::Except));
    let (before, after) = asked.tokens.split_at(at.unwrap_or(asked.tokens.len()));
    let verb_last = before.iter().all(|token| !says_what(token));
    let spared = after.iter().filter(|token| !token.is(Class::Except));
    if verb_last {
        return (spared.collect(), Vec::new());
    }
    (before.iter().collect(), spared.collect())
}

/// What a request looks for.
#[derive(Default)]
struct Wanted<'a> {
    words: Vec<&'a Token>,
    /// The kind of memory that it names, if the words alone do not tell.
    kinds: Vec<&'a Token>,
    /// Whether it is about the person.
    own: bool,
    /// Whether it repeats a statement, so that a negation counts.
    states: bool,
    negated: bool,
}

impl<'a> Wanted<'a> {
    fn of(tokens: &[&'a Token], asked: &Text) -> Self {
        let words: Vec<&Token> = tokens.iter().copied().filter(|token| says_what(token)).collect();
        let kind = |token: &Token| {
            [Class::Taste, Class::Rules, Class::Links].into_iter().any(|class| token.is(class))
        };
        let (kinds, words): (Vec<&Token>, Vec<&Token>) =
            words.into_iter().partition(|token| kind(token));
        let that = asked.tokens.iter().any(|token| {
            matches!(
                token.word.as_str(),
                "that" | "dass" | "que" | "che" | "что" | "dat" | "ze" | "at" | "att"
            )
        });
        let own = tokens.iter().any(|token| token.is(Class::Oneself));
        let negated = words.iter().any(|token| token.negated);
        Self { words, kinds, own, states: that, negated }
    }

    /// Whether a memory can be meant: `my browser preference` is nothing that a project's tests need.
    fn may_be_in(&self, page: &Page<'_>) -> bool {
        !(self.own && self.is(Class::Taste)) || is_of_person(page)
    }

    /// Whether it names such a kind of memory.
    fn is(&self, kind: Class) -> bool {
        self.kinds.iter().any(|token| token.is(kind))
    }
}

/// Whether a memory is about a person, or kept for one.
fn is_of_person(page: &Page<'_>) -> bool {
    page.mount() == Some(Mount::Scope(Scope::Global)) || page.topic == Topic::User
}

/// Whether no word tells one entry from another: `use` is in half of them. `where I live` is told by who speaks.
fn names_nothing(words: &[&Token], wanted: &Wanted<'_>) -> bool {
    words.is_empty() || (!wanted.own && words.iter().all(|word| is_light(word)))
}

/// The entries that hold every word of the request.
fn matching(pages: &[Page<'_>], wanted: &Wanted<'_>) -> BTreeSet<At> {
    if names_nothing(&wanted.words, wanted) {
        return BTreeSet::new();
    }
    let with_kinds: Vec<&Token> = wanted.words.iter().chain(&wanted.kinds).copied().collect();
    let holds = |words: &[&Token], text: &Text| words.iter().all(|token| covers(text, token));
    let attempts: [&dyn Fn() -> BTreeSet<At>; 4] = [
        &|| everywhere(pages, wanted, &|note| holds(&with_kinds, note.text())),
        &|| everywhere(pages, wanted, &|note| holds(&wanted.words, note.text())),
        &|| everywhere(pages, wanted, &|note| holds(&wanted.words, note.full())),
        &|| by_title(pages, wanted),
    ];
    let found = attempts.iter().map(|attempt| attempt()).find(|found| !found.is_empty());
    narrowed(pages, wanted, found.unwrap_or_default())
}

/// The entries that hold most words while the memory's own description holds the rest; or the only entry
/// of a memory whose description holds all of them.
fn by_title(pages: &[Page<'_>], wanted: &Wanted<'_>) -> BTreeSet<At> {
    let mut found = BTreeSet::new();
    for (page_at, page) in pages.iter().enumerate().filter(|(_, page)| wanted.may_be_in(page)) {
        let title = page.title();
        for (note_at, note) in page.notes.iter().enumerate() {
            let (inside, outside): (Vec<&Token>, Vec<&Token>) =
                wanted.words.iter().partition(|token| covers(note.full(), token));
            let in_title = outside.iter().all(|token| covers(&title, token));
            let enough = if page.notes.len() == 1 { 0 } else { outside.len().max(1) };
            if in_title && inside.len() >= enough {
                found.insert((page_at, note_at));
            }
        }
    }
    // A description is a weak sign: it must point at one place.
    let places: BTreeSet<usize> = found.iter().map(|(page, _)| *page).collect();
    if places.len() == 1 { found } else { BTreeSet::new() }
}

/// Leaves out what the request does not mean although its words fit.
fn narrowed(pages: &[Page<'_>], wanted: &Wanted<'_>, mut found: BTreeSet<At>) -> BTreeSet<At> {
    let prefer = |found: &mut BTreeSet<At>, fits: &dyn Fn(&Page<'_>, &Note) -> bool| {
        let fitting: BTreeSet<At> = found
            .iter()
            .copied()
            .filter(|&(page, note)| fits(&pages[page], &pages[page].notes[note]))
            .collect();
        if !fitting.is_empty() {
            *found = fitting;
        }
    };
    if wanted.own || wanted.is(Class::Taste) {
        prefer(&mut found, &|page, _| is_of_person(page));
    }
    if wanted.is(Class::Rules) {
        prefer(&mut found, &|page, _| page.topic == Topic::Feedback);
    }
    if wanted.is(Class::Links) {
        prefer(&mut found, &|page, note| {
            page.topic == Topic::Reference || note.statement().contains("://")
        });
    }
    if wanted.states || wanted.negated {
        let negated = |note: &Note| {
            let words = note.text().tokens.iter();
            words
                .filter(|token| wanted.words.iter().any(|word| alike(word, token)))
                .any(|token| token.negated)
        };
        prefer(&mut found, &|_, note| negated(note) == wanted.negated);
    }
    found
}

/// Several things in one request, `the dog and the shell`: each has to be found.
fn each_of_several(pages: &[Page<'_>], tokens: &[&Token], asked: &Text) -> BTreeSet<At> {
    let mut parts: Vec<Vec<&Token>> = vec![Vec::new()];
    for (index, token) in tokens.iter().enumerate() {
        let comma = index > 0 && tokens[index - 1].clause != token.clause;
        if comma || token.is(Class::And) {
            parts.push(Vec::new());
        }
        if let Some(part) = parts.last_mut() {
            part.push(token);
        }
    }
    parts.retain(|part| part.iter().any(|token| says_what(token)));
    if parts.len() < 2 {
        return BTreeSet::new();
    }
    let mut all = BTreeSet::new();
    for part in parts {
        let found = matching(pages, &Wanted::of(&part, asked));
        if found.is_empty() {
            return BTreeSet::new();
        }
        all.extend(found);
    }
    all
}

/// So many entries as the request says: `the two entries on textures`.
fn as_many(pages: &[Page<'_>], tokens: &[&Token], asked: &Text) -> BTreeSet<At> {
    let count = tokens.windows(3).find_map(|three| match three[0].value {
        Some(Value::Number(count)) if three[1..].iter().any(|token| token.is(Class::Asking)) => {
            usize::try_from(count).ok().filter(|_| !three[0].has_digit())
        }
        _ => None,
    });
    let Some(count) = count else { return BTreeSet::new() };
    let is_count = |token: &&Token| matches!(token.value, Some(Value::Number(_)));
    let rest: Vec<&Token> = tokens.iter().copied().filter(|token| !is_count(token)).collect();
    let found = matching(pages, &Wanted::of(&rest, asked));
    if found.len() == count { found } else { BTreeSet::new() }
}

/// The one entry that the clause with the order names, where another one gives the reason: `I have moved, so scrap
/// where I live`.
fn as_ordered(pages: &[Page<'_>], tokens: &[&Token], asked: &Text) -> BTreeSet<At> {
    let orders: BTreeSet<usize> =
        asked.tokens.iter().filter(|one| one.is(Class::Forget)).map(|one| one.clause).collect();
    let ordered: Vec<&Token> =
        tokens.iter().copied().filter(|token| orders.contains(&token.clause)).collect();
    if ordered.len() == tokens.len() {
        return BTreeSet::new();
    }
    let found = matching(pages, &Wanted::of(&ordered, asked));
    if found.len() == 1 { found } else { BTreeSet::new() }
}

/// Leaves those entries that have what the request calls by a name such as `tiles-z`, if some do.
fn narrow_to_identifiers(pages: &[Page<'_>], query: &str, found: &mut BTreeSet<At>) {
    let chunks = query
        .split_whitespace()
        .map(|chunk| chunk.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase());
    for name in chunks.filter(|chunk| chunk.is_ascii() && chunk.contains(['-', '_', '.', '/'])) {
        let has = |&(page, note): &At| {
            pages[page].notes[note].whole().to_lowercase().contains(name.as_str())
        };
        if found.iter().any(has) {
            found.retain(has);
        }
    }
}

/// The one entry that holds every word of the request but for what is said of it (`… is wrong`), a slip of
/// the pen, a noun in place of its verb, or the word for what a value is: `the day of the release`. Nothing if there are several: it must be clear what is meant.
fn nearly(pages: &[Page<'_>], tokens: &[&Token], asked: &Text) -> BTreeSet<At> {
    let wanted = &Wanted::of(tokens, asked);
    let orders = |clause: usize| {
        asked.tokens.iter().any(|token| token.clause == clause && token.is(Class::Forget))
    };
    let is_judged =
        |token: &Token| (token.is(Class::Change) || token.is(Class::Ends)) && !orders(token.clause);
    let words: Vec<&Token> =
        wanted.words.iter().copied().filter(|token| !is_judged(token)).collect();
    if names_nothing(&words, wanted) {
        return BTreeSet::new();
    }
    let known: Vec<bool> = words
        .iter()
        .map(|word| !everywhere(pages, wanted, &|note| covers(note.full(), word)).is_empty())
        .collect();
    let is_certain = known.iter().any(|known| *known);
    let found = everywhere(pages, wanted, &|note| {
        words.iter().zip(&known).all(|(word, known)| {
            // What some entry holds as it stands is no slip.
            let tokens = &note.full().tokens;
            covers(note.full(), word)
                || (is_certain && tokens.iter().any(|token| is_asked_for(word, token)))
                || (!known && tokens.iter().any(|token| resembles(word, token, is_certain)))
        })
    });
    if found.len() == 1 { narrowed(pages, wanted, found) } else { BTreeSet::new() }
}

/// Whether a word asks for such a value: `day` for `Friday`, `time` for `09:30`.
fn is_asked_for(word: &Token, value: &Token) -> bool {
    let is_day = matches!(value.value_of_any_form(), Some(Value::Weekday(_) | Value::Month(_)))
        || when::is_date(&value.word);
    let is_time = value.word.split_once(':').is_some_and(|(hour, minute)| {
        [hour, minute].iter().all(|part| part.parse::<u8>().is_ok_and(|part| part < 60))
    });
    (word.is(Class::WhichDay) && is_day) || (word.is(Class::WhichTime) && is_time)
}

/// Whether a word that no entry holds may stand for another one. `is_certain`: other words of the request
/// are found as they stand.
fn resembles(word: &Token, other: &Token, is_certain: bool) -> bool {
    if word.has_digit() || other.has_digit() {
        return false;
    }
    let (a, b): (Vec<char>, Vec<char>) =
        (word.word.chars().collect(), other.word.chars().collect());
    let same = |(a, b): &(&char, &char)| a == b;
    let ahead = a.iter().zip(&b).take_while(same).count();
    let shorter = a.len().min(b.len());
    // English nouns and verbs of one stem are found by it; many of those that only look alike are not.
    let derives = word.language != Some(0)
        && ahead >= AKIN_CHARS_MIN
        && ahead < shorter
        && ahead * 5 >= a.len().max(b.len()) * 3;
    if derives && is_certain {
        return true;
    }
    let behind = a[ahead..].iter().rev().zip(b[ahead..].iter().rev()).take_while(same).count();
    let (ours, theirs) = (&a[ahead..a.len() - behind], &b[ahead..b.len() - behind]);
    // The first letter is hardly ever wrong, and another ending is another word.
    let (least, enough_behind) = match (ours, theirs) {
        ([], [_]) | ([_], []) => (SLIP_CHARS_MIN, 2),
        ([first, second], [one, two]) if (first, second) == (two, one) => (SLIP_CHARS_MIN, 1),
        ([_], [_]) => (SLIP_ALONE_CHARS_MIN, 2),
        _ => return false,
    };
    ahead > 0
        && behind >= enough_behind
        && shorter >= if is_certain { least } else { SLIP_ALONE_CHARS_MIN }
}

/// Whether a word of a request is in a text: in any form, as two words, or as a part of a compound.
fn covers(text: &Text, wanted: &Token) -> bool {
    let tokens = &text.tokens;
    if tokens.iter().any(|token| alike(token, wanted)) {
        return true;
    }
    let length = wanted.word.chars().count();
    if wanted.word.chars().all(is_unspaced) {
        // Without spaces a word may have been cut as a part of a longer one.
        return tokens.iter().any(|token| token.word.contains(wanted.word.as_str()));
    }
    if wanted.has_digit() || length < 5 {
        return false;
    }
    // `toplantılar`, `toplantılarla`: endings upon endings.
    let is_stacked = |token: &Token| {
        let shorter = token.word.len().min(wanted.word.len());
        shorter >= STACKED_BYTES_MIN
            && token.word.as_bytes()[..shorter] == wanted.word.as_bytes()[..shorter]
    };
    if wanted.stacks_endings() && tokens.iter().any(is_stacked) {
        return true;
    }
    // `database`, `data base`.
    if tokens.windows(2).any(|pair| format!("{}{}", pair[0].word, pair[1].word) == wanted.word) {
        return true;
    }
    // `Besprechungsraum`: two words of the text, with at most two letters between them.
    length >= 8
        && tokens.iter().filter(|token| token.key.chars().count() >= 4).any(|first| {
            wanted.word.strip_prefix(first.key.as_str()).is_some_and(|rest| {
                tokens.iter().filter(|token| token.key.chars().count() >= 4).any(|second| {
                    rest.find(second.key.as_str())
                        .is_some_and(|at| at <= 4 && rest.len() <= at + second.key.len() + 2)
                })
            })
        })
}
