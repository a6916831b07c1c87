//! Days: those that a text names, and those that it only points at.
//!
//! `tomorrow` means nothing a week later, so what is remembered names the day. The grammar is the same in
//! all languages (a word such as `tomorrow`; next or last with a unit or a weekday; so many units on or
//! ago), the words are the lexicon's. What the grammar does not understand stays as it is.

use std::ops::Range;

use jiff::civil::{Date, Weekday};
use jiff::{Span, ToSpan};
use memory::text::{has_word, slice};

use super::lexicon::{Class, Classes, Value, languages};
use super::words::{Text, Token, is_unspaced};

/// A day that a text names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// The words that name it.
    pub(crate) tokens: Range<usize>,
    pub(crate) date: Date,
}

/// Returns the days that a text names in full: year, month and day.
pub(crate) fn named(text: &Text) -> Vec<Named> {
    let mut found = Vec::new();
    let mut index = 0;
    while index < text.tokens.len() {
        match date_at(&text.tokens[index..]) {
            Some((length, date)) => {
                found.push(Named { tokens: index..index + length, date });
                index += length;
            }
            None => index += 1,
        }
    }
    found
}

fn date_at(tokens: &[Token]) -> Option<(usize, Date)> {
    let word = |index: usize| tokens.get(index).map(|token| token.word.as_str());
    if let Some(date) = numeric(word(0)?) {
        return Some((1, date));
    }
    let number = |index: usize| leading_number(word(index)?);
    let month = |index: usize| match tokens.get(index)?.value? {
        Value::Month(month) => Some(month),
        Value::Weekday(_) | Value::Number(_) => None,
    };
    let is = |index: usize, signs: &[&str]| word(index).is_some_and(|word| signs.contains(&word));
    if is(1, &["年", "년"]) && is(3, &["月", "월"]) && is(5, &["日", "일"]) {
        return day(number(0)?, i8::try_from(number(2)?).ok()?, number(4)?).map(|date| (6, date));
    }
    // `4 May 2026`, `4. Mai 2026`, `4 de mayo de 2026`.
    let skip = |index: usize| index + usize::from(is(index, &["de", "of"]));
    let at_month = skip(1);
    if let (Some(of_day), Some(month)) = (number(0), month(at_month)) {
        let at_year = skip(at_month + 1);
        return day(number(at_year)?, month, of_day).map(|date| (at_year + 1, date));
    }
    // `May 4, 2026`.
    day(number(2)?, month(0)?, number(1)?).map(|date| (3, date))
}

fn leading_number(word: &str) -> Option<i16> {
    let end = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
    word.get(..end)?.parse().ok()
}

fn day(year: i16, month: i8, day: i16) -> Option<Date> {
    let day = i8::try_from(day).ok()?;
    (year >= 1000).then(|| Date::new(year, month, day).ok()).flatten()
}

/// `2026-05-04`, `2026/5/4`, `04.05.2026`.
fn numeric(word: &str) -> Option<Date> {
    let separator = ['-', '/', '.'].into_iter().find(|separator| word.contains(*separator))?;
    let parts: Vec<i16> = word.split(separator).map(str::parse).collect::<Result<_, _>>().ok()?;
    let [a, b, c] = parts.as_slice() else { return None };
    let month = i8::try_from(*b).ok()?;
    if *a >= 1000 {
        day(*a, month, *c)
    } else if separator == '.' {
        day(*c, month, *a)
    } else {
        None
    }
}

/// Whether a text points at a day without naming it.
pub(crate) fn points_at_day(source: &str) -> bool {
    // Any day does: which days are pointed at does not depend on it.
    absolute(source, Date::constant(2000, 1, 1)) != source
}

/// Returns the text with the days that it points at from `today` named. In a plain statement the day stands in place of the
/// words; else behind them, `tomorrow (2026-05-04)`, so that nothing is lost where they meant no day.
pub(crate) fn absolute(source: &str, today: Date) -> String {
    let text = Text::read(source);
    let pointed = all_pointed_at(source, &text, today);
    let is_plain = pointed.len() == 1 && is_plain_statement(source, &text);
    let mut written = String::with_capacity(source.len());
    let mut end = 0;
    for Pointed { at, token, said } in pointed {
        // A week, a month and a year are no days on which something is.
        if is_plain && said.parse::<Date>().is_ok() {
            written.push_str(slice(source, end..at.start));
            written.push_str(preposition(&text, token));
            written.push_str(&said);
        } else {
            written.push_str(slice(source, end..at.end));
            let is_spaced = !slice(source, at.clone()).chars().any(is_unspaced);
            written.extend([if is_spaced { " (" } else { "(" }, &said, ")"]);
        }
        end = at.end;
    }
    written.push_str(slice(source, end..));
    written
}

/// Words that point at a day.
struct Pointed {
    /// Where they stand.
    at: Range<usize>,
    /// The first of them.
    token: usize,
    /// The name of the day.
    said: String,
}

fn all_pointed_at(source: &str, text: &Text, today: Date) -> Vec<Pointed> {
    let items = items(text);
    let (mut found, mut index) = (Vec::new(), 0);
    while index < items.len() {
        let Some((used, said)) = pointed_at(&items[index..], today, text) else {
            index += 1;
            continue;
        };
        let token = items[index].tokens.start;
        let last = &text.tokens[items[index + used - 1].tokens.end - 1];
        let at = text.tokens[token].at.start..last.at.end;
        if !is_quoted(source, at.clone()) && !is_named(source, at.end) && !is_no_day(text, token) {
            found.push(Pointed { at, token, said });
        }
        index += used;
    }
    found
}

/// Words of statements that hold for any day, or of a word itself: `if a build fails today`, `is called tomorrow`.
const OF_ANY_DAY: &str = "
    each every any if when whenever or may might could would should must always usually often
    whatever called what which review named word like people still than jede jeden jeder jedes
    wenn falls oder kann könnte muss immer heißt wie chaque si quand ou peut toujours appelle
    appelé cada cuando puede siempre llama ogni quando può sempre chiama elke ieder als kan
    altijd heet каждый если или может всегда 每 如果 或 总是 叫
";

/// Whether a text is one plain sentence about one time.
fn is_plain_statement(source: &str, text: &Text) -> bool {
    let is_of_any_day = |token: &Token| has_word(OF_ANY_DAY, &token.word);
    !source.trim().contains('\n')
        && text.tokens.iter().all(|token| token.sentence == text.tokens[0].sentence)
        && !text.has(Class::Not)
        && !text.tokens.iter().any(is_of_any_day)
}

/// Whether the day is named behind the words already: `tomorrow (2026-05-04)`.
fn is_named(source: &str, end: usize) -> bool {
    let behind = slice(source, end..).trim_start();
    let inside = behind.strip_prefix(['(', '（']).and_then(|rest| rest.split([')', '）']).next());
    inside.is_some_and(|inside| inside.contains(|c: char| c.is_ascii_digit()))
}

/// Whether words are part of something larger that is not to be touched: code, a link, a path, a quotation,
/// what belongs to a day (`tomorrow's plan`).
fn is_quoted(source: &str, at: Range<usize>) -> bool {
    let (before, after) = (slice(source, ..at.start), slice(source, at.end..));
    let joins = |c: char| "/\\._-=@#+&%~`\"'’“”«»".contains(c);
    let glued_behind = {
        let mut next = after.chars();
        match next.next() {
            Some('.' | '-') => next.next().is_some_and(|c| c.is_alphanumeric() || joins(c)),
            Some(c) => joins(c) || c == '(',
            None => false,
        }
    };
    let glued = before.ends_with(joins)
        || (before.ends_with(':') && !before.ends_with("::"))
        || glued_behind;
    let line = before.rsplit('\n').next().unwrap_or_default();
    let in_fence = before.matches("```").count() % 2 == 1;
    glued || in_fence || line.matches('`').count() % 2 == 1
}

/// Verbs of what takes a while, or is done again and again: `answers in two days` names no day.
const LASTING: &[&str] = &[
    "expire", "answer", "respond", "repl", "last", "take", "rotat", "delet", "purg", "refresh",
    "renew", "retain", "keep", "kept", "timeout",
];

/// Whether the words that begin here point at no day although they could: a name (`USA Today`), what something is
/// compared with (`older than 30 days ago`), how long something takes.
fn is_no_day(text: &Text, at: usize) -> bool {
    let token = &text.tokens[at];
    let before = at.checked_sub(1).map(|before| &text.tokens[before]);
    let Some(before) = before.filter(|before| before.sentence == token.sentence) else {
        return false;
    };
    let compared = ["than", "with", "versus", "vs", "per", "as", "compares", "select", "values"]
        .contains(&before.word.as_str());
    let lasting = token.is(Class::In)
        && text.tokens.get(at + 1).is_some_and(|next| next.key.parse::<i64>().is_ok())
        && text.tokens[..at].iter().any(|verb| {
            let word = &verb.word;
            // `takes place in two weeks` is on a day.
            let takes_place = text.tokens.iter().any(|one| one.word == "place");
            verb.sentence == token.sentence
                && !takes_place
                && LASTING.iter().any(|stem| word.starts_with(stem))
        });
    (token.is_name && token.is_english()) || compared || lasting
}

/// What a language puts in front of a day, if nothing stands there yet.
fn preposition(text: &Text, index: usize) -> &'static str {
    let language = text.tokens[index].language.and_then(|one| languages().get(one));
    let before = index.checked_sub(1).map(|before| &text.tokens[before]);
    let (put, not_after): (&str, &[&str]) = match language.map(|one| one.code) {
        Some("en") => (
            "on ",
            &[
                "on", "by", "of", "for", "before", "after", "since", "until", "till", "from",
                "starting", "due", "the", "through", "between", "and", "to",
            ],
        ),
        Some("de") => ("am ", &["am", "bis", "ab", "seit", "vom", "zum", "vor", "nach", "und"]),
        _ => return "",
    };
    match before {
        Some(token) if !not_after.contains(&token.word.as_str()) => put,
        Some(_) | None => "",
    }
}

/// A word or a run of words that a date may be made of.
struct Item {
    tokens: Range<usize>,
    classes: Classes,
    value: Option<Value>,
    number: Option<i64>,
}

impl Item {
    fn is(&self, class: Class) -> bool {
        self.classes.has(class)
    }

    fn weekday(&self) -> Option<i8> {
        match self.value? {
            Value::Weekday(day) => Some(day),
            Value::Month(_) | Value::Number(_) => None,
        }
    }
}

/// The words, the longest known runs first.
fn items(text: &Text) -> Vec<Item> {
    let mut items = Vec::new();
    let mut index = 0;
    while index < text.tokens.len() {
        let longest = text
            .hits
            .iter()
            .filter(|hit| hit.tokens.start == index)
            .max_by_key(|hit| hit.tokens.len())
            .filter(|hit| hit.tokens.len() > 1);
        let token = &text.tokens[index];
        let item = match longest {
            Some(hit) => Item {
                tokens: hit.tokens.clone(),
                classes: hit.classes,
                value: hit.value,
                number: None,
            },
            None => Item {
                tokens: index..index + 1,
                classes: token.classes,
                value: token.value,
                number: token.key.parse().ok().filter(|number| (0..=400).contains(number)),
            },
        };
        index = item.tokens.end;
        items.push(item);
    }
    items
}

/// A length of time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Day,
    Week,
    Fortnight,
    Month,
    Year,
}

fn unit(item: &Item) -> Option<Unit> {
    let units = [
        (Class::Day, Unit::Day),
        (Class::Week, Unit::Week),
        (Class::Fortnight, Unit::Fortnight),
        (Class::Month, Unit::Month),
        (Class::Year, Unit::Year),
    ];
    units.into_iter().find(|(class, _)| item.is(*class)).map(|(_, unit)| unit)
}

/// Reads a pointed-at day at the beginning of the items: how many of them it takes, and its name.
fn pointed_at(items: &[Item], today: Date, text: &Text) -> Option<(usize, String)> {
    let simple = [
        (Class::Today, 0),
        (Class::Tomorrow, 1),
        (Class::Yesterday, -1),
        (Class::Overmorrow, 2),
        (Class::Ereyesterday, -2),
    ];
    let first = items.first()?;
    if let Some((_, days)) = simple.into_iter().find(|(class, _)| first.is(*class)) {
        let is_noun = means_morning(text, first.tokens.start);
        return (!is_noun).then(|| said(today.checked_add(days.days()), 1)).flatten();
    }
    // The words of a date, without what may stand between them.
    let mut words: Vec<(usize, &Item)> = Vec::with_capacity(5);
    for (index, item) in items.iter().enumerate().take(7) {
        let matters = item.number.is_some()
            || item.value.is_some()
            || unit(item).is_some()
            || [
                Class::Next,
                Class::Last,
                Class::Current,
                Class::In,
                Class::Ago,
                Class::AgoBefore,
                Class::Later,
            ]
            .into_iter()
            .any(|class| item.is(class));
        if matters {
            words.push((index, item));
        } else if !item.is(Class::Glue) || index == 0 {
            break;
        }
    }
    let at = |index: usize| words.get(index).map(|(_, item)| *item);
    let used = |count: usize| words[count - 1].0 + 1;
    let (a, b, c) = (at(0)?, at(1)?, at(2));
    if let Some((count, date)) = by_weekday((a, b, c), today, text) {
        return said(date, used(count));
    }
    if let Some(steps) = direction(a)
        && let Some(unit) = unit(b)
    {
        return period(steps, unit, today).map(|said| (used(2), said));
    }
    if let Some(unit) = unit(a)
        && let Some(steps @ (1 | -1)) = direction(b)
        && !b.is(Class::Current)
        && !b.is(Class::Later)
    {
        return period(steps, unit, today).map(|said| (used(2), said));
    }
    let (sign, number, of, count) = counted((a, b, c))?;
    let name = at_distance(sign * number, of, today)?;
    Some((used(count), name))
}

/// `in three days`, `three days ago`, `vor drei Tagen`: sign, number, unit, words.
fn counted((a, b, c): (&Item, &Item, Option<&Item>)) -> Option<(i64, i64, Unit, usize)> {
    let sign = |item: &Item| match item {
        item if item.is(Class::In) => Some(1),
        item if item.is(Class::AgoBefore) => Some(-1),
        _ => None,
    };
    if let Some(sign) = sign(a) {
        if let (Some(number), Some(of)) = (b.number, c.and_then(unit)) {
            return Some((sign, number, of, 3)).filter(|_| sign > 0 || of != Unit::Year);
        }
        return unit(b).filter(|of| *of != Unit::Day).map(|of| (sign, 1, of, 2));
    }
    let (number, of, c) = (a.number?, unit(b)?, c?);
    if c.is(Class::Later) {
        Some((1, number, of, 3))
    } else if c.is(Class::Ago) && of != Unit::Year {
        Some((-1, number, of, 3))
    } else {
        None
    }
}

/// Next is 1, last is -1, this is 0.
fn direction(item: &Item) -> Option<i64> {
    let directions = [(Class::Next, 1), (Class::Last, -1), (Class::Current, 0)];
    directions.into_iter().find(|(class, _)| item.is(*class)).map(|(_, steps)| steps)
}

/// `next Friday`, `Monday of next week`, `vendredi prochain`: words used and the day.
fn by_weekday(
    (a, b, c): (&Item, &Item, Option<&Item>),
    today: Date,
    text: &Text,
) -> Option<(usize, Result<Date, jiff::Error>)> {
    let of_week = |steps: i64, weekday: i8| {
        let monday =
            today.checked_sub(i64::from(today.weekday().to_monday_zero_offset()).days())?;
        monday.checked_add((7 * steps + i64::from(weekday) - 1).days())
    };
    let nearest = |steps: i64, weekday: i8| {
        let wanted = Weekday::from_monday_one_offset(weekday)?;
        if steps == 0 && today.weekday() == wanted {
            return Ok(today);
        }
        today.nth_weekday(if steps < 0 { -1 } else { 1 }, wanted)
    };
    let is_week = |item: &Item| unit(item) == Some(Unit::Week);
    if let (Some(steps), true, Some(weekday)) =
        (direction(a), is_week(b), c.and_then(Item::weekday))
    {
        return Some((3, of_week(steps, weekday)));
    }
    if let (Some(weekday), Some(steps), true) = (a.weekday(), direction(b), c.is_some_and(is_week))
    {
        return Some((3, of_week(steps, weekday)));
    }
    if let (Some(steps), Some(weekday)) = (direction(a), b.weekday()) {
        let next_week = steps == 1 && !comes_next(text, a);
        return Some((2, if next_week { of_week(1, weekday) } else { nearest(steps, weekday) }));
    }
    if let (Some(weekday), Some(steps @ (1 | -1))) = (a.weekday(), direction(b)) {
        return Some((2, nearest(steps, weekday)));
    }
    None
}

/// Whether `next` means the one that comes next here, and not that of next week.
fn comes_next(text: &Text, item: &Item) -> bool {
    let token = &text.tokens[item.tokens.start];
    let language = token.language.and_then(|one| languages().get(one)).map_or("", |one| one.code);
    matches!(language, "fr" | "es" | "pt" | "it")
        || ["kommend", "coming", "komende", "aanstaande", "ближайш", "najbliższ", "kommande"]
            .iter()
            .any(|stem| token.word.starts_with(stem))
}

/// Whether a word for tomorrow means the morning: `am Morgen`, `por la mañana`.
fn means_morning(text: &Text, index: usize) -> bool {
    let token = &text.tokens[index];
    let ambiguous = matches!(token.word.as_str(), "morgen" | "manana");
    let before = index.checked_sub(1).map(|before| text.tokens[before].word.as_str());
    ambiguous
        && (token.is_name
            || before.is_some_and(|word| {
                matches!(
                    word,
                    "am" | "la" | "esta" | "jeden" | "elke" | "s" | "de" | "guten" | "cada"
                )
            }))
}

/// `next week`: from Monday to Sunday; a month or a year by its number.
fn period(steps: i64, of: Unit, today: Date) -> Option<String> {
    match of {
        Unit::Week => {
            let monday = today
                .checked_sub(i64::from(today.weekday().to_monday_zero_offset()).days())
                .and_then(|monday| monday.checked_add((7 * steps).days()))
                .ok()?;
            Some(format!("{monday}/{}", monday.checked_add(6.days()).ok()?))
        }
        Unit::Month => month_name(steps, today),
        Unit::Year => Some((i64::from(today.year()) + steps).to_string()),
        Unit::Day | Unit::Fortnight => None,
    }
}

fn at_distance(number: i64, of: Unit, today: Date) -> Option<String> {
    let span: Span = match of {
        Unit::Day => number.days(),
        Unit::Week => (7 * number).days(),
        Unit::Fortnight => (14 * number).days(),
        Unit::Month => return month_name(number, today),
        Unit::Year => return Some((i64::from(today.year()) + number).to_string()),
    };
    today.checked_add(span).ok().map(|date| date.to_string())
}

fn month_name(steps: i64, today: Date) -> Option<String> {
    let date = today.checked_add(steps.months()).ok()?;
    Some(format!("{:04}-{:02}", date.year(), date.month()))
}

fn said(date: Result<Date, jiff::Error>, used: usize) -> Option<(usize, String)> {
    date.ok().map(|date| (used, date.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_part_of_something_larger_or_lasts_is_no_day() {
        for text in [
            "Notes are at http://wiki/today",
            "See src/today.rs and yesterday.csv",
            "Run `date -d tomorrow` first",
            "git log --since=\"2 weeks ago\"",
            "Reads USA Today",
            "Always write tomorrow's plan",
            "Access tokens expire in 7 days",
            "Support answers in 2 days",
            "Logs older than 30 days are gone, older than 30 days ago too",
            "```\ntomorrow\n```",
        ] {
            assert!(
                !points_at_day(text),
                "{text} {}",
                absolute(text, jiff::civil::date(2031, 4, 5))
            );
        }
        for (text, named) in [
            ("The demo is tomorrow.", "The demo is on 2031-04-06."),
            ("Tomorrow: the demo", "2031-04-06: the demo"),
            ("We ship (tomorrow)", "We ship (on 2031-04-06)"),
            ("The demo is in 3 days", "The demo is on 2031-04-08"),
        ] {
            assert_eq!(absolute(text, jiff::civil::date(2031, 4, 5)), named);
        }
    }
}
