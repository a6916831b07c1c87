//! Dates in text: explicit ones, and relative ones such as `tomorrow`, which are resolved to a date.
//!
//! A relative date loses its meaning within days, so a remembered text gets the date itself. The grammar is the
//! same in all languages: a word such as `tomorrow`; next or last with a unit or a weekday; a number of units ahead
//! or ago. The words come from the lexicon. Text that the grammar does not understand stays as it is.

use std::ops::Range;

use jiff::civil::{Date, Weekday};
use jiff::{Span, ToSpan};
use memory::text::{has_word, slice};

use super::lexicon::{Class, ClassSet, LexiconValue, languages};
use super::tokenize::{TextToken, TokenizedText, is_unspaced};

/// An explicit date in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DateMention {
    /// Indexes of its tokens.
    pub(crate) tokens: Range<usize>,
    pub(crate) date: Date,
}

/// Returns the dates of a text that have year, month and day.
pub(crate) fn explicit_dates(text: &TokenizedText) -> Vec<DateMention> {
    let mut found = Vec::new();
    let mut index = 0;
    while index < text.tokens.len() {
        match date_at(&text.tokens[index..]) {
            Some((length, date)) => {
                found.push(DateMention { tokens: index..index + length, date });
                index += length;
            }
            None => index += 1,
        }
    }
    found
}

fn date_at(tokens: &[TextToken]) -> Option<(usize, Date)> {
    let word = |index: usize| tokens.get(index).map(|token| token.word.as_str());
    if let Some(date) = parse_numeric_date(word(0)?) {
        return Some((1, date));
    }
    let number = |index: usize| leading_number(word(index)?);
    let month = |index: usize| match tokens.get(index)?.value? {
        LexiconValue::Month(month) => Some(month),
        LexiconValue::Weekday(_) | LexiconValue::Number(_) => None,
    };
    let is = |index: usize, signs: &[&str]| word(index).is_some_and(|word| signs.contains(&word));
    if is(1, &["年", "년"]) && is(3, &["月", "월"]) && is(5, &["日", "일"]) {
        return full_date(number(0)?, i8::try_from(number(2)?).ok()?, number(4)?)
            .map(|date| (6, date));
    }
    // `4 May 2026`, `4. Mai 2026`, `4 de mayo de 2026`.
    let skip = |index: usize| index + usize::from(is(index, &["de", "of"]));
    let month_index = skip(1);
    if let (Some(day), Some(month)) = (number(0), month(month_index)) {
        let year_index = skip(month_index + 1);
        return full_date(number(year_index)?, month, day).map(|date| (year_index + 1, date));
    }
    // `May 4, 2026`.
    full_date(number(2)?, month(0)?, number(1)?).map(|date| (3, date))
}

fn leading_number(word: &str) -> Option<i16> {
    let end = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
    word.get(..end)?.parse().ok()
}

fn full_date(year: i16, month: i8, day: i16) -> Option<Date> {
    let day = i8::try_from(day).ok()?;
    (year >= 1000).then(|| Date::new(year, month, day).ok()).flatten()
}

/// Parses `2026-05-04`, `2026/5/4`, `04.05.2026`.
fn parse_numeric_date(word: &str) -> Option<Date> {
    let separator = ['-', '/', '.'].into_iter().find(|separator| word.contains(*separator))?;
    let parts: Vec<i16> = word.split(separator).map(str::parse).collect::<Result<_, _>>().ok()?;
    let [a, b, c] = parts.as_slice() else { return None };
    let month = i8::try_from(*b).ok()?;
    if *a >= 1000 {
        full_date(*a, month, *c)
    } else if separator == '.' {
        full_date(*c, month, *a)
    } else {
        None
    }
}

/// Checks whether a tokenized text has a relative date.
pub(crate) fn has_relative_date_in(source: &str, text: &TokenizedText) -> bool {
    // Any day works: the set of relative dates does not depend on today.
    resolve_dates_in(source, text, Date::constant(2000, 1, 1)) != source
}

/// Checks whether the words of a text have a class that every relative date has.
pub(crate) fn may_have_relative_date(classes: ClassSet) -> bool {
    classes.has_any(&[
        Class::Today,
        Class::Tomorrow,
        Class::Yesterday,
        Class::Overmorrow,
        Class::Ereyesterday,
        Class::Next,
        Class::Last,
        Class::Current,
        Class::In,
        Class::Ago,
        Class::AgoBefore,
        Class::Later,
    ])
}

/// Returns the text with its relative dates resolved from `today`. In a plain statement the date replaces the
/// words. Elsewhere it follows them, as in `tomorrow (2026-05-04)`, so that nothing is lost if the words mean no
/// date.
pub(crate) fn resolve_relative_dates(source: &str, today: Date) -> String {
    resolve_dates_in(source, &TokenizedText::tokenize(source), today)
}

fn resolve_dates_in(source: &str, text: &TokenizedText, today: Date) -> String {
    let relative_dates = find_relative_dates(source, text, today);
    let is_plain = relative_dates.len() == 1 && is_plain_statement(source, text);
    let mut output = String::with_capacity(source.len());
    let mut end = 0;
    for RelativeDate { range, token, resolved } in relative_dates {
        // Weeks, months and years are not dates that can replace the words.
        if is_plain && resolved.parse::<Date>().is_ok() {
            output.push_str(slice(source, end..range.start));
            output.push_str(preposition(text, token));
            output.push_str(&resolved);
        } else {
            output.push_str(slice(source, end..range.end));
            let is_spaced = !slice(source, range.clone()).chars().any(is_unspaced);
            output.extend([if is_spaced { " (" } else { "(" }, &resolved, ")"]);
        }
        end = range.end;
    }
    output.push_str(slice(source, end..));
    output
}

/// A relative date in a text.
struct RelativeDate {
    /// Byte range of its words.
    range: Range<usize>,
    /// Index of its first token.
    token: usize,
    /// Resolved date or period.
    resolved: String,
}

fn find_relative_dates(source: &str, text: &TokenizedText, today: Date) -> Vec<RelativeDate> {
    let items = date_tokens(text);
    let (mut found, mut index) = (Vec::new(), 0);
    while index < items.len() {
        let Some((length, resolved)) = resolve_relative_date(&items[index..], today, text) else {
            index += 1;
            continue;
        };
        let token = items[index].tokens.start;
        let last = &text.tokens[items[index + length - 1].tokens.end - 1];
        let range = text.tokens[token].range.start..last.range.end;
        if !is_inside_literal(source, range.clone())
            && !is_already_resolved(source, range.end)
            && !is_not_a_date(text, token)
        {
            found.push(RelativeDate { range, token, resolved });
        }
        index += length;
    }
    found
}

/// Words of statements that hold for any day, or are about a word itself: `if a build fails today`, `is called
/// tomorrow`.
const GENERIC_STATEMENT_WORDS: &str = "
    each every any if when whenever or may might could would should must always usually often
    whatever called what which review named word like people still than jede jeden jeder jedes
    wenn falls oder kann könnte muss immer heißt wie chaque si quand ou peut toujours appelle
    appelé cada cuando puede siempre llama ogni quando può sempre chiama elke ieder als kan
    altijd heet каждый если или может всегда 每 如果 或 总是 叫
";

/// Checks whether a text is one plain sentence about one time.
fn is_plain_statement(source: &str, text: &TokenizedText) -> bool {
    let is_generic = |token: &TextToken| has_word(GENERIC_STATEMENT_WORDS, &token.word);
    !source.trim().contains('\n')
        && text.tokens.iter().all(|token| token.sentence == text.tokens[0].sentence)
        && !text.has(Class::Not)
        && !text.tokens.iter().any(is_generic)
}

/// Checks whether the words are already followed by the date: `tomorrow (2026-05-04)`.
fn is_already_resolved(source: &str, end: usize) -> bool {
    let rest = slice(source, end..).trim_start();
    let inside = rest.strip_prefix(['(', '（']).and_then(|rest| rest.split([')', '）']).next());
    inside.is_some_and(|inside| inside.contains(|c: char| c.is_ascii_digit()))
}

/// Checks whether words belong to something that must not change: code, a link, a path, a quotation, or a
/// possessive (`tomorrow's plan`).
fn is_inside_literal(source: &str, range: Range<usize>) -> bool {
    let (before, after) = (slice(source, ..range.start), slice(source, range.end..));
    let joins = |c: char| "/\\._-=@#+&%~`\"'’“”«»".contains(c);
    let is_joined_after = {
        let mut next = after.chars();
        match next.next() {
            Some('.' | '-') => next.next().is_some_and(|c| c.is_alphanumeric() || joins(c)),
            Some(c) => joins(c) || c == '(',
            None => false,
        }
    };
    let is_joined = before.ends_with(joins)
        || (before.ends_with(':') && !before.ends_with("::"))
        || is_joined_after;
    let line = before.rsplit('\n').next().unwrap_or_default();
    let in_fence = before.matches("```").count() % 2 == 1;
    is_joined || in_fence || line.matches('`').count() % 2 == 1
}

/// Verbs of durations or repetitions: `answers in two days` is no date.
const DURATION_VERBS: &[&str] = &[
    "expire", "answer", "respond", "repl", "last", "take", "rotat", "delet", "purg", "refresh",
    "renew", "retain", "keep", "kept", "timeout",
];

/// Checks whether words that could be a relative date are none: a name (`USA Today`), a comparison (`older than 30
/// days ago`), or a duration.
fn is_not_a_date(text: &TokenizedText, index: usize) -> bool {
    let token = &text.tokens[index];
    let before = index.checked_sub(1).map(|before| &text.tokens[before]);
    let Some(before) = before.filter(|before| before.sentence == token.sentence) else {
        return false;
    };
    let is_compared = ["than", "with", "versus", "vs", "per", "as", "compares", "select", "values"]
        .contains(&before.word.as_str());
    let is_duration = token.is(Class::In)
        && text.tokens.get(index + 1).is_some_and(|next| next.key.parse::<i64>().is_ok())
        && text.tokens[..index].iter().any(|verb| {
            let word = &verb.word;
            // `takes place in two weeks` is a date.
            let takes_place = text.tokens.iter().any(|token| token.word == "place");
            verb.sentence == token.sentence
                && !takes_place
                && DURATION_VERBS.iter().any(|stem| word.starts_with(stem))
        });
    (token.is_name && token.is_english()) || is_compared || is_duration
}

/// Returns the preposition that a date needs in its language, if none precedes it.
fn preposition(text: &TokenizedText, index: usize) -> &'static str {
    let language = text.tokens[index].language.and_then(|index| languages().get(index));
    let before = index.checked_sub(1).map(|before| &text.tokens[before]);
    let (preposition, not_after): (&str, &[&str]) = match language.map(|language| language.code) {
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
        Some(token) if !not_after.contains(&token.word.as_str()) => preposition,
        Some(_) | None => "",
    }
}

/// A word, or a run of words in the lexicon, that may be part of a date.
struct DateToken {
    tokens: Range<usize>,
    classes: ClassSet,
    value: Option<LexiconValue>,
    number: Option<i64>,
}

impl DateToken {
    fn is(&self, class: Class) -> bool {
        self.classes.has(class)
    }

    fn weekday(&self) -> Option<i8> {
        match self.value? {
            LexiconValue::Weekday(day) => Some(day),
            LexiconValue::Month(_) | LexiconValue::Number(_) => None,
        }
    }
}

/// Returns the words of a text, joined into the longest runs that the lexicon knows.
fn date_tokens(text: &TokenizedText) -> Vec<DateToken> {
    let mut items = Vec::new();
    let mut index = 0;
    while index < text.tokens.len() {
        let longest = text
            .lexicon_matches
            .iter()
            .filter(|hit| hit.tokens.start == index)
            .max_by_key(|hit| hit.tokens.len())
            .filter(|hit| hit.tokens.len() > 1);
        let token = &text.tokens[index];
        let item = match longest {
            Some(hit) => DateToken {
                tokens: hit.tokens.clone(),
                classes: hit.classes,
                value: hit.value,
                number: None,
            },
            None => DateToken {
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

/// A unit of time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TimeUnit {
    Day,
    Week,
    Fortnight,
    Month,
    Year,
}

fn time_unit(item: &DateToken) -> Option<TimeUnit> {
    let units = [
        (Class::Day, TimeUnit::Day),
        (Class::Week, TimeUnit::Week),
        (Class::Fortnight, TimeUnit::Fortnight),
        (Class::Month, TimeUnit::Month),
        (Class::Year, TimeUnit::Year),
    ];
    units.into_iter().find(|(class, _)| item.is(*class)).map(|(_, unit)| unit)
}

/// Resolves a relative date at the beginning of the items; returns the number of items used, and the date.
fn resolve_relative_date(
    items: &[DateToken],
    today: Date,
    text: &TokenizedText,
) -> Option<(usize, String)> {
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
        return (!is_noun).then(|| resolved_date(today.checked_add(days.days()), 1)).flatten();
    }
    // The words of a date, without filler words in between.
    let mut words: Vec<(usize, &DateToken)> = Vec::with_capacity(5);
    for (index, item) in items.iter().enumerate().take(7) {
        let matters = item.number.is_some()
            || item.value.is_some()
            || time_unit(item).is_some()
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
    let word = |index: usize| words.get(index).map(|(_, item)| *item);
    let used = |count: usize| words[count - 1].0 + 1;
    let (a, b, c) = (word(0)?, word(1)?, word(2));
    if let Some((count, date)) = resolve_weekday((a, b, c), today, text) {
        return resolved_date(date, used(count));
    }
    if let Some(steps) = direction(a)
        && let Some(unit) = time_unit(b)
    {
        return resolve_period(steps, unit, today).map(|period| (used(2), period));
    }
    if let Some(unit) = time_unit(a)
        && let Some(steps @ (1 | -1)) = direction(b)
        && !b.is(Class::Current)
        && !b.is(Class::Later)
    {
        return resolve_period(steps, unit, today).map(|period| (used(2), period));
    }
    let (sign, number, unit, count) = counted_units((a, b, c))?;
    let name = resolve_offset(sign * number, unit, today)?;
    Some((used(count), name))
}

/// Parses `in three days`, `three days ago`, `vor drei Tagen`; returns sign, number, unit and word count.
fn counted_units(
    (a, b, c): (&DateToken, &DateToken, Option<&DateToken>),
) -> Option<(i64, i64, TimeUnit, usize)> {
    let sign = |item: &DateToken| match item {
        item if item.is(Class::In) => Some(1),
        item if item.is(Class::AgoBefore) => Some(-1),
        _ => None,
    };
    if let Some(sign) = sign(a) {
        if let (Some(number), Some(unit)) = (b.number, c.and_then(time_unit)) {
            return Some((sign, number, unit, 3)).filter(|_| sign > 0 || unit != TimeUnit::Year);
        }
        return time_unit(b).filter(|unit| *unit != TimeUnit::Day).map(|unit| (sign, 1, unit, 2));
    }
    let (number, unit, c) = (a.number?, time_unit(b)?, c?);
    if c.is(Class::Later) {
        Some((1, number, unit, 3))
    } else if c.is(Class::Ago) && unit != TimeUnit::Year {
        Some((-1, number, unit, 3))
    } else {
        None
    }
}

/// Returns 1 for next, -1 for last, 0 for this.
fn direction(item: &DateToken) -> Option<i64> {
    let directions = [(Class::Next, 1), (Class::Last, -1), (Class::Current, 0)];
    directions.into_iter().find(|(class, _)| item.is(*class)).map(|(_, steps)| steps)
}

/// Resolves `next Friday`, `Monday of next week`, `vendredi prochain`; returns the number of words and the date.
fn resolve_weekday(
    (a, b, c): (&DateToken, &DateToken, Option<&DateToken>),
    today: Date,
    text: &TokenizedText,
) -> Option<(usize, Result<Date, jiff::Error>)> {
    let of_week = |steps: i64, weekday: i8| {
        let monday =
            today.checked_sub(i64::from(today.weekday().to_monday_zero_offset()).days())?;
        monday.checked_add((7 * steps + i64::from(weekday) - 1).days())
    };
    let nearest = |steps: i64, weekday: i8| {
        let target = Weekday::from_monday_one_offset(weekday)?;
        if steps == 0 && today.weekday() == target {
            return Ok(today);
        }
        today.nth_weekday(if steps < 0 { -1 } else { 1 }, target)
    };
    let is_week = |item: &DateToken| time_unit(item) == Some(TimeUnit::Week);
    if let (Some(steps), true, Some(weekday)) =
        (direction(a), is_week(b), c.and_then(DateToken::weekday))
    {
        return Some((3, of_week(steps, weekday)));
    }
    if let (Some(weekday), Some(steps), true) = (a.weekday(), direction(b), c.is_some_and(is_week))
    {
        return Some((3, of_week(steps, weekday)));
    }
    if let (Some(steps), Some(weekday)) = (direction(a), b.weekday()) {
        let next_week = steps == 1 && !next_means_nearest(text, a);
        return Some((2, if next_week { of_week(1, weekday) } else { nearest(steps, weekday) }));
    }
    if let (Some(weekday), Some(steps @ (1 | -1))) = (a.weekday(), direction(b)) {
        return Some((2, nearest(steps, weekday)));
    }
    None
}

/// Checks whether `next` means the nearest such weekday, not the one of next week.
fn next_means_nearest(text: &TokenizedText, item: &DateToken) -> bool {
    let token = &text.tokens[item.tokens.start];
    let language = token
        .language
        .and_then(|index| languages().get(index))
        .map_or("", |language| language.code);
    matches!(language, "fr" | "es" | "pt" | "it")
        || ["kommend", "coming", "komende", "aanstaande", "ближайш", "najbliższ", "kommande"]
            .iter()
            .any(|stem| token.word.starts_with(stem))
}

/// Checks whether a word for tomorrow means the morning: `am Morgen`, `por la mañana`.
fn means_morning(text: &TokenizedText, index: usize) -> bool {
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

/// Resolves `next week` to Monday and Sunday; a month or a year to its number.
fn resolve_period(steps: i64, unit: TimeUnit, today: Date) -> Option<String> {
    match unit {
        TimeUnit::Week => {
            let monday = today
                .checked_sub(i64::from(today.weekday().to_monday_zero_offset()).days())
                .and_then(|monday| monday.checked_add((7 * steps).days()))
                .ok()?;
            Some(format!("{monday}/{}", monday.checked_add(6.days()).ok()?))
        }
        TimeUnit::Month => month_name(steps, today),
        TimeUnit::Year => Some((i64::from(today.year()) + steps).to_string()),
        TimeUnit::Day | TimeUnit::Fortnight => None,
    }
}

fn resolve_offset(number: i64, unit: TimeUnit, today: Date) -> Option<String> {
    let span: Span = match unit {
        TimeUnit::Day => number.days(),
        TimeUnit::Week => (7 * number).days(),
        TimeUnit::Fortnight => (14 * number).days(),
        TimeUnit::Month => return month_name(number, today),
        TimeUnit::Year => return Some((i64::from(today.year()) + number).to_string()),
    };
    today.checked_add(span).ok().map(|date| date.to_string())
}

fn month_name(steps: i64, today: Date) -> Option<String> {
    let date = today.checked_add(steps.months()).ok()?;
    Some(format!("{:04}-{:02}", date.year(), date.month()))
}

fn resolved_date(date: Result<Date, jiff::Error>, used: usize) -> Option<(usize, String)> {
    date.ok().map(|date| (used, date.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_literals_names_and_durations_are_no_dates() {
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
            assert_eq!(resolve_relative_dates(text, jiff::civil::date(2031, 4, 5)), text);
        }
        for (text, expected) in [
            ("The demo is tomorrow.", "The demo is on 2031-04-06."),
            ("Tomorrow: the demo", "2031-04-06: the demo"),
            ("We ship (tomorrow)", "We ship (on 2031-04-06)"),
            ("The demo is in 3 days", "The demo is on 2031-04-08"),
        ] {
            assert_eq!(resolve_relative_dates(text, jiff::civil::date(2031, 4, 5)), expected);
        }
    }
}
