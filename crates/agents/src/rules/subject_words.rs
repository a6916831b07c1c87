//! The words that may name the subject of a statement.
//!
//! These are content words, except numbers and words for liking, using and how often. `subject` compares them.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::lexicon::Class;
use super::tokenize::{TextToken, normalize};

/// Classes of content words that name no subject.
const OTHER_CLASSES: &[Class] =
    &[Class::Prefer, Class::Rule, Class::Change, Class::Gone, Class::Site, Class::Here];

/// Words that say how a person stands to a subject, how often or how much, in the languages of the lexicon. Each counts
/// in all languages, because the language of a short text is a guess. The lexicon does not have them: there they would
/// change how texts are cut into words and compared.
const STANCE_WORDS: &str = "
    hate hates hated dislike dislikes adore adores despise need needs try tries choose chose really usually often
    sometimes mostly generally typically normally rarely seldom always especially definitely mainly quite rather much
    well better best utilize utilise employ favourite favorite
    hasse hasst hassen verabscheue brauche braucht brauchen wähle setze setzen mögen bevorzugen lieben wirklich meist
    meistens oft manchmal gewöhnlich normalerweise selten stets immer besonders ziemlich lieber liebsten gerne gern nutze
    nutzen nutzt verwende verwenden verwendet benutze benutzen benutzt
    déteste détestes détestons hais adorons aimons aimes préférons préfères préférez besoin essaie choisis vraiment
    souvent parfois habituellement normalement généralement rarement toujours surtout beaucoup mieux bien plutôt
    utilises utilisons utilisez emploie
    odio odia odiamos detesto detesta adoro necesito necesita necesitamos intento elijo realmente normalmente suelo suele
    generalmente raramente siempre especialmente mucho mejor usamos usan utilizo utiliza utilizamos
    odeio odeia preciso precisa precisamos escolho costumo sempre muito melhor
    odiamo adora provo scelgo davvero spesso soprattutto molto meglio bene usiamo usano utilizzo utilizza
    haat hou houd houdt lust nodig kies echt vaak soms meestal gewoonlijk normaal zelden altijd vooral veel beter graag
    ненавижу ненавидит обожаю обожает предпочитаем нужен нужна нужно нужны выбираю действительно обычно часто иногда
    редко всегда особенно очень лучше использую используем используют пользуюсь пользуемся применяем
    讨厌 討厭 使用 采用 採用 需要 通常 经常 嫌い 苦手 普段
";

static NORMALIZED_STANCE_WORDS: LazyLock<HashSet<String>> =
    LazyLock::new(|| STANCE_WORDS.split_whitespace().map(normalize).collect());

/// Checks whether a word may name the subject of a statement.
pub(crate) fn is_subject_word(token: &TextToken) -> bool {
    let is_number = token.value.is_some() || !token.word.contains(char::is_alphabetic);
    token.is_content()
        && !token.is_light()
        && !is_number
        && !token.classes.has_any(OTHER_CLASSES)
        && !NORMALIZED_STANCE_WORDS.contains(&token.word)
}
