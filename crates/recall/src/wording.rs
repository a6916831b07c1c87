//! How a prompt is worded: as something that only those who work here can know, or as something that anybody may
//! look up or write. English wording alone; of other languages nothing is told.

use crate::features::flag;

/// Which wordings are told apart; 1 if a prompt has it, a few are counted.
pub(crate) const WORDINGS: [&str; WORDING] = [
    "asks in general",
    "orders something to be made",
    "ours",
    "mine",
    "the",
    "a",
    "where, when, who, which",
    "how",
    "what",
    "why",
    "is, does",
    "may, should",
    "how much",
    "code",
    "trouble",
    "question mark",
    "by now",
];
pub(crate) const WORDING: usize = 17;

/// A word of a phrase that may be any.
const ANY: &str = "*";
/// What is asked of the world at large.
const IN_GENERAL: [&[&str]; 34] = [
    &["explain"],
    &["difference", "between"],
    &["stand", "for"],
    &["stands", "for"],
    &["by", "default"],
    &["named", "after"],
    &["called", "after"],
    &["used", "for"],
    &["in", "general"],
    &["in", "theory"],
    &["time", "complexity"],
    &["who", "invented"],
    &["who", "wrote"],
    &["who", "created"],
    &["who", "founded"],
    &["who", "designed"],
    &["who", "discovered"],
    &["how", "does", ANY, "work"],
    &["how", "does", ANY, ANY, "work"],
    &["how", "do", ANY, "work"],
    &["how", "do", ANY, ANY, "work"],
    &["what", "does", ANY, "mean"],
    &["what", "does", ANY, ANY, "mean"],
    &["what", "does", ANY, ANY, ANY, "mean"],
    &["in", "python"],
    &["in", "javascript"],
    &["in", "typescript"],
    &["in", "java"],
    &["in", "go"],
    &["in", "rust"],
    &["in", "c"],
    &["in", "bash"],
    &["in", "sql"],
    &["in", "css"],
];
/// What something is made by, and what it then is: any such thing, not the one that is there.
const MAKE: [&str; 16] = [
    "write",
    "implement",
    "create",
    "generate",
    "build",
    "design",
    "make",
    "draw",
    "convert",
    "translate",
    "give",
    "show",
    "suggest",
    "sketch",
    "read",
    "want",
];
const SOME: [&str; 6] = ["a", "an", "some", "two", "three", "this"];
const OURS: [&str; 4] = ["our", "ours", "we", "us"];
const MINE: [&str; 4] = ["my", "me", "mine", "i"];
const SEEKING: [&str; 6] = ["when", "where", "who", "which", "whose", "whom"];
const STATING: [&str; 8] = ["is", "are", "does", "do", "did", "was", "were", "has"];
const ALLOWING: [&str; 7] = ["can", "may", "could", "should", "must", "shall", "am"];
const MUCH: [&str; 9] = ["long", "many", "often", "much", "big", "large", "far", "old", "early"];
const TROUBLE: [&str; 9] =
    ["error", "errors", "err", "exception", "traceback", "undefined", "cannot", "failed", "fails"];
const NOW: [&str; 10] =
    ["now", "today", "next", "new", "here", "again", "already", "still", "before", "after"];

/// As often as a word is counted.
const COUNTED_MAX: usize = 3;

/// Returns how a prompt of these words is worded, in the order of [`WORDINGS`].
pub(crate) fn wording(prompt: &str, words: &[&str]) -> [f32; WORDING] {
    let has = |some: &[&str]| words.iter().any(|word| some.contains(word));
    let says = |phrase: &[&str]| {
        let fits = |run: &[&str]| run.iter().zip(phrase).all(|(a, b)| *b == ANY || a == b);
        words.windows(phrase.len()).any(fits)
    };
    let bare = words.iter().position(|word| *word != "please").unwrap_or(0);
    let begins = |with: &[&str]| words.get(bare).is_some_and(|word| with.contains(word));
    let makes = words.windows(3).take(bare + 2).any(|run| {
        MAKE.contains(&run[0])
            && (SOME.contains(&run[1]) || run[1] == "me" && SOME.contains(&run[2]))
    });
    let counted = |some: &[&str]| {
        words.iter().filter(|word| some.contains(word)).take(COUNTED_MAX).count() as f32
    };
    [
        flag(IN_GENERAL.iter().any(|phrase| says(phrase))),
        flag(makes),
        flag(has(&OURS)),
        flag(has(&MINE)),
        counted(&["the"]),
        counted(&["a", "an"]),
        flag(begins(&SEEKING)),
        flag(begins(&["how"])),
        flag(begins(&["what"])),
        flag(begins(&["why", "explain"])),
        flag(begins(&STATING)),
        flag(begins(&ALLOWING)),
        flag(words.windows(2).any(|run| run[0] == "how" && MUCH.contains(&run[1]))),
        flag(prompt.trim_end().contains(['\n', '`', '{'])),
        flag(has(&TROUBLE)),
        flag(prompt.trim_end().ends_with(['?', '？'])),
        flag(has(&NOW)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::words;

    fn check(prompt: &str, expected: &[&str]) {
        let all = words(prompt);
        let all: Vec<&str> = all.iter().map(|word| word.text.as_str()).collect();
        let told = wording(prompt, &all);
        let found = WORDINGS.iter().zip(told).filter(|(_, is)| *is > 0.0).map(|(name, _)| *name);
        assert_eq!(found.collect::<Vec<_>>(), expected, "{prompt}");
    }

    #[test]
    fn what_anybody_can_look_up_is_worded_in_general() {
        check("Explain tides", &["asks in general", "why"]);
        check("What does the red flag mean", &["asks in general", "the", "what"]);
        check("how do lighthouses work?", &["asks in general", "how", "question mark"]);
    }

    #[test]
    fn what_is_to_be_made_is_any_such_thing() {
        check("Please write a ferry simulator", &["orders something to be made", "a"]);
        check("Give me some names", &["orders something to be made", "mine"]);
        check("Write the log", &["the"]);
    }

    #[test]
    fn what_is_asked_here_is_worded_so() {
        check(
            "which pier do we use now?",
            &["ours", "where, when, who, which", "question mark", "by now"],
        );
        check("how long may my boat stay", &["mine", "how", "how much"]);
        check("掃海艇はどこ？", &["question mark"]);
        check("", &[]);
    }
}
