//! Patterns for prompt injection: sentences that instruct a model instead of informing a reader.
//!
//! A memory states facts. It should not change the instructions of the model that reads it, hide something from the
//! person, or send data away. The patterns match the usual wordings of such sentences, across line breaks and markup,
//! but not facts about software. They are only the first defense: a text that passes is still shown to a model as data.

use std::ops::Range;

use super::pattern::{Pattern, PatternMatch, PatternWindow, whole_match};
use super::{Family, Rule};

const OVERRIDE: Rule = rule(
    "injection.override-instructions",
    "orders to ignore, forget or replace the instructions of the model",
);
const ROLE: Rule = rule(
    "injection.role-change",
    "attempts to change the role of the model: to an administrator, an unrestricted assistant",
);
const TEMPLATE: Rule = rule(
    "injection.chat-template",
    "tokens and tags of chat templates that would begin a turn of another speaker",
);
const CONTEXT_TAG: Rule =
    rule("injection.context-tag", "tags of the blocks in which memories are shown to a model");
const HIDE: Rule = rule("injection.hide-from-user", "orders to keep something from the person");
const OVERSIGHT: Rule =
    rule("injection.bypass-approval", "orders to approve everything or to drop safety measures");
const EXFILTRATION: Rule =
    rule("injection.exfiltration", "orders and commands that send secrets or conversations away");
const PERSISTENCE: Rule = rule(
    "injection.persistence",
    "orders to copy themselves into instruction files or to run code in every session",
);
const EXTRACTION: Rule =
    rule("injection.prompt-extraction", "orders to reveal the instructions of the model");

const fn rule(id: &'static str, about: &'static str) -> Rule {
    Rule { id, family: Family::Injection, about }
}

/// A pattern for prose that begins with one of the words.
const fn prose(rule: Rule, words: &'static [&'static str], source: &'static str) -> Pattern {
    Pattern {
        rule,
        words,
        source,
        reach: PatternWindow::Surrounding { before: 4, after: 240 },
        judge: whole_match,
    }
}

/// A pattern for prose with text before the word.
const fn prose_around(rule: Rule, words: &'static [&'static str], source: &'static str) -> Pattern {
    Pattern {
        rule,
        words,
        source,
        reach: PatternWindow::Surrounding { before: 120, after: 160 },
        judge: whole_match,
    }
}

/// A pattern for one line, in which a space matches only a space.
const fn on_line(rule: Rule, words: &'static [&'static str], source: &'static str) -> Pattern {
    Pattern { rule, words, source, reach: PatternWindow::Line, judge: whole_match }
}

/// The names of the local host.
const LOCAL_HOSTS: &[&str] = &["localhost", "127.0.0.1", "[::1]", "0.0.0.0"];

/// The patterns, in the order of the documentation.
pub(super) const PATTERNS: &[Pattern] = &[
    Pattern {
        rule: OVERRIDE,
        words: &[
            "ignor",
            "disregard",
            "forget",
            "overrid",
            "bypass",
            "follow",
            "neglect",
            "obey",
            "discard",
        ],
        source: concat!(
            r"(\bnot |\bnever |n't )?\b(?:ignor(?:e|ing)|disregard(?:ing)?|forget|override|bypass|neglect|discard",
            r"|(?:do not|don't|never|stop|cease|no longer|not) (?:follow|obey)(?:ing)?)",
            // Two alternatives: a noun for instructions of a model, or a general noun that is qualified as the
            // model's own or as earlier text.
            r" (?:(?:(?:of|the|and|or) )*(?:(?:all|any|every|each|these|those|previous(?:ly)?|prior|above|earlier|preceding|former|past",
            r"|your|other|existing|original|initial|current|system|given|developer|safety|hidden) (?:(?:of|the|and|or) )*)+",
            r"(?:instructions?|directives?|directions|system prompts?|prompts?|guard ?rails)\b",
            r"|(?:(?:all|any|every|of|the) )*(?:your|all(?: of)?(?: the| your)? (?:previous|prior|above|earlier|preceding))",
            r" (?:(?:previous|prior|earlier|other|existing|original|initial|current|system|own|safety|core) )*",
            r"(?:rules|guidelines|commands|orders|programming|training|restrictions|constraints|limitations|polic(?:y|ies)|messages?|context|safeguards|conditioning)\b",
            r"|(?:(?:all|any|every|of|the|your) )*(?:previous|prior|safety|ethical) (?:guidelines|safeguards|restrictions|constraints|training)\b",
            r"|(?:(?:all|any|every|each|of|the|these|those|your) )*(?:instructions?|prompts?|rules?|guidelines?|directives?)",
            r" (?:above|before this|given so far|so far|from above|(?:that )?you (?:were|are|have been|had been) (?:given|told|taught|shown))\b",
            r"|(?:everything|anything|all|what)(?: that)? (?:you (?:know|learned|(?:were|are|have been|had been) (?:told|taught|given|instructed|asked))\b",
            r"|above(?: this(?: line| point)?)?(?:[.,;:!\n]| and\b| instead\b|\z)|(?:was |were |has been |came |is )?(?:said|written|stated) (?:above|before|earlier|previously)\b|i (?:said|told you)\b))",
        ),
        reach: PatternWindow::Surrounding { before: 16, after: 240 },
        judge: unless_negated,
    },
    prose_around(
        OVERRIDE,
        &[
            "instructions",
            "directives",
            "prompt",
            "your new",
            "your real",
            "your true",
            "your only",
            "system override",
        ],
        concat!(
            r"\b(?:(?:all|your|any) )+(?:(?:previous|prior|earlier|above|existing|original) )+(?:instructions|directives|prompts?)",
            r" (?:are|is|have been|has been|were|must be|should be|shall be) (?:now |hereby )*(?:void|invalid|null|cancell?ed|revoked|superseded|overridden|replaced|deleted|obsolete|suspended|ignored|disregarded|forgotten)\b",
            r"|\byour (?:new|real|true|actual|only) (?:instructions?|directives?|task|goal|objective|mission|purpose|system prompt|role|identity|persona) (?:is|are)\b",
            r"|\bnew system (?:prompt|message|instructions?) ?:|\bsystem (?:prompt )?override\b|\b(?:begin|end) (?:of )?(?:the )?system prompt\b",
        ),
    ),
    prose(
        OVERRIDE,
        &[
            "ignor", "vergiss", "vergess", "missacht", "oubli", "olvid", "dimentic", "esque",
            "descart", "negeer", "vergeet",
        ],
        concat!(
            r"\b(?:ignorier(?:e|t|en)?|vergiss|vergesst|vergessen|missachte[nt]?) (?:sie )?(?:bitte )?(?:(?:alle|samtliche|aller?|deine[rn]?|eure|ihre|die|der|vorherigen?|vorigen?|bisherigen?|obigen?|fruheren?|vorangegangenen?|vorangehenden?|vorhergehenden?) )+(?:anweisungen|instruktionen|anordnungen|regeln|befehle|vorgaben|richtlinien|systemanweisungen|prompts?)\b",
            r"|\b(?:ignor(?:e|ez|er|a|ad|en|ar)|oubli(?:e|ez|er)|olvid(?:a|e|en|ad)|dimentic(?:a|ate|are)|esqueca|descart(?:a|e|ez)) (?:(?:toutes?|tous|tes|vos|ses|les|mes|todas?|todos|las|los|sus|tus|tu|as|os|suas?|tutte|tutti|le|gli|tue|tuoi|de|di) )+",
            r"(?:instructions?|consignes|directives|regles|instrucciones|indicaciones|ordenes|reglas|instrucoes|ordens|regras|istruzioni|regole|direttive) ?(?:precedentes?|anterieures?|ci-dessus|du systeme|anteriores?|previas?|previos?|de arriba|del sistema|dadas|do sistema|precedenti|sopra)\b",
            r"|\b(?:negeer|vergeet) (?:(?:alle|de|je|uw|vorige|eerdere|voorgaande|bovenstaande) )+(?:instructies|aanwijzingen|regels|opdrachten)\b",
        ),
    ),
    prose_around(
        OVERRIDE,
        &[
            "忽略",
            "无视",
            "無視",
            "忘记",
            "忘記",
            "忘掉",
            "不要理会",
            "不要遵守",
            "忘れ",
            "무시",
            "잊",
        ],
        concat!(
            r"(?:忽略|无视|無視|忘记|忘記|忘掉|不要理会|不要遵守)(?u:[^。！？!?\n]){0,6}(?:之前|以上|先前|上述|前面|此前|所有|全部|一切|系统|系統)(?u:[^。！？!?\n]){0,8}(?:指令|指示|提示词|提示詞|提示|命令|规则|規則|要求|说明)",
            r"|(?:以前|これまで|上記|前|すべて|全て|全部)の?(?u:[^。！？!?\n]){0,8}(?:指示|命令|プロンプト|ルール|指令)(?u:[^。！？!?\n]){0,4}(?:無視|忘れ)",
            r"|(?:이전|위의|앞의|앞선|지금까지|모든)(?u:[^.!?\n]){0,12}(?:지시|명령|지침|프롬프트|규칙)(?u:[^.!?\n]){0,8}(?:무시|잊)",
        ),
    ),
    prose(
        OVERRIDE,
        &["гнорир", "абудь", "бращай"],
        r"(?u)(?:проигнорируй(?:те)?|игнорируй(?:те)?|забудь(?:те)?|не обращай(?:те)? внимания на) (?:(?:обо?|про|о|на|все|всех|всё|любые|свои|ваши|твои|эти|предыдущие|предыдущих|прежние|прошлые|прошлых|ранние|вышеуказанные|вышеперечисленные|системные|данные|полученные) )+(?:инструкци|указани|команд|правил|предписани|промпт)",
    ),
    prose_around(
        ROLE,
        &["you", "act as", "pretend", "roleplay", "role-play", "persona", "identity"],
        concat!(
            r"\b(?:you are now|(?:from (?:now|this (?:point|moment)|here|today)|starting now)(?: on(?:wards?)?| forward)?,?(?: you)?(?: (?:are|will|must|shall|should))? ?(?:be|are|act|behave|serve|respond|operate|work)?(?: (?:as|like|in))?",
            r"|(?:you|please)(?: (?:must|will|shall|should))?(?: now)? (?:act|behave|pretend|roleplay|role-play)(?: (?:as|to be|that you are|like|as if you (?:are|were)))*)",
            r" (?:(?:an?|the|my|in|your|new|fully|completely|different|another|sole|chief|super|system|no|longer) )*",
            r"(?:administrators?|admin|sysadmin|superuser|super-user|god|dan|jailbroken|unrestricted|unfiltered|uncensored|uncontrolled|evil|malicious|developer mode|debug mode|maintenance mode|hacker|attacker",
            r"|(?:ai|language) (?:model|assistant)|bound by|restricted|limited by|constrained|without (?:any )?(?:restrictions|rules|limits|filters)|free (?:of|from) (?:all |any |your )?(?:restrictions|rules|limits|filters|constraints))\b",
            r"|\b(?:pretend|act|behave|respond)(?: (?:to be|that|as|if|though|like))* (?:you (?:are|were|have) |(?:an?|the) )*(?:unrestricted|unfiltered|uncensored|jailbroken|no (?:restrictions|rules|limits|guidelines))\b",
            r"|\bact as (?:(?:an?|the|my|system) )*(?:administrator|admin|root|superuser|owner)(?: user)? from now on\b",
            r"|\byou (?:(?:must|will|shall|should|now|only) )*(?:obey|serve|answer to|take orders from) (?:only )?me\b",
            r"|\byou are dan\b|\ban? (?:ai|model|assistant|agent) (?:model |assistant )?without (?:any )?(?:restrictions|limits|filters|rules)\b",
            r"|\bassume the (?:role|identity|persona) of\b|\byou (?:can |may |must )?do anything now\b|\byou are no longer (?:an? (?:ai|assistant)\b|(?:bound|restricted|limited|constrained) (?:by|to) (?:(?:any|your|the|these|those|all|safety|content) )*(?:rules|guidelines|restrictions|policies|instructions|limits|constraints)\b)",
        ),
    ),
    prose(
        ROLE,
        &["du bist", "sofort", "tu es", "vous etes", "eres"],
        r"\b(?:du bist|ab (?:jetzt|sofort) bist du|tu es|vous etes|eres) (?:jetzt|ab jetzt|ab sofort|nun|maintenant|desormais|ahora) (?:(?:ein|eine|der|die|das|un|une|el|la|le) )*(?:administrator|administrateur|administrador|admin|root|uneingeschrankte[rs]?|unzensierte[rs]?|sans restriction|sin restricciones|(?:ki|ia|ai)\b)",
    ),
    prose_around(
        ROLE,
        &["теперь", "你现在是", "从现在起", "从现在开始"],
        concat!(
            r"(?u:ты теперь|теперь ты) (?u:администратор|неограниченн|без ограничений)",
            r"|(?:你现在是|从现在起,?你是|从现在开始,?你是)(?u:[^。！？!?\n]){0,12}(?:管理员|没有限制|不受限制|无限制|越狱)",
        ),
    ),
    on_line(
        TEMPLATE,
        &[
            "<|im_",
            "<|sy",
            "<|us",
            "<|as",
            "<|de",
            "<|en",
            "<|st",
            "<|me",
            "<|ch",
            "<|eo",
            "<|be",
            "_token|>",
            "[inst]",
            "[/inst]",
            "<<sys>>",
            "<</sys>>",
            "_of_turn>",
            "<system",
            "/system",
            "<assistant",
            "/assistant",
            "[system",
        ],
        concat!(
            r"(?i)<\|\s{0,2}(?:im_start|im_end|im_sep|system|user|assistant|developer|endoftext|endofprompt|start|end|message|channel|start_header_id|end_header_id|eot_id|eom_id|begin_of_text|end_of_text|begin▁of▁sentence|end▁of▁sentence|start_of_role|end_of_role|[a-z]+_token)\s{0,2}\|>",
            r"|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>",
            r"|</?\s{0,2}(?:system|assistant|system[_ -]?(?:prompt|reminder|message|instructions?|note))\s{0,2}>",
            r"|\[\s{0,2}system (?:message|prompt|override|instructions?|note|reminder)\s{0,2}\]",
        ),
    ),
    on_line(
        TEMPLATE,
        &[
            "system:",
            "system*",
            "system]",
            "system message",
            "system prompt",
            "system note",
            "assistant:",
            "developer:",
        ],
        r"(?im)^(?:[\s>#*_\[(-]){0,8}(?:system|assistant|developer)(?: (?:message|prompt|note))?(?:[\])*_]){0,3}\s{0,2}:(?:[\s*_]){1,8}(?:you (?:are (?:now|an?)|must|will now|have)|ignore|disregard|forget (?:all|everything|your)|override|new (?:instructions?|rules|policy|task))\b",
    ),
    on_line(
        CONTEXT_TAG,
        &[
            "/memor",
            "/ memor",
            "/long_term_mem",
            "/ long_term_mem",
            "/recalled_mem",
            "/ recalled_mem",
            "/imported",
            "memory_file",
        ],
        concat!(
            r"(?i)<\s{0,4}/\s{0,4}(?:memory_file|long_term_memory|memory_changes|recalled_memories|recalled_memory|memories|memory|imported)\s{0,4}>?",
            r"|<\s{0,4}memory_file\s+path\s{0,4}=",
        ),
    ),
    prose_around(
        HIDE,
        &["tell", "inform", "notif", "mention", "reveal", "disclos", "alert"],
        concat!(
            r"\b(?:do not|don't|dont|never|must not|mustn't|should not|shall not|cannot|without|avoid|not) (?:ever )?(?:tell|inform|notify|mention|reveal|disclose|alert)(?:ing)?",
            r"(?: (?:any of )?(?:this|it|that|these|them|anything|what (?:you|i) (?:did|do|are doing)|these (?:instructions|steps)|this (?:instruction|step|change|action|message|memory|note|request))(?: to)?)?",
            r" (?:the |your |any |its |to )*(?:users?|humans?|operators?|owners?|person|people|developers?|admins?|administrators?|customers?|anyone|anybody)",
            r"(?: (?:(?:anything|a word) )?(?:about|of) (?:this|it|that|any of this|these|what you|your|the (?:change|upload|request|command|instructions?|transfer))| (?:this|it|anything|that you|what you|you (?:did|are|have|read|ran|sent))|(?:[*_\x22'`)\]])*(?:[.,;!\n]|。|—|–|\z|\s-))",
        ),
    ),
    prose(
        HIDE,
        &["keep", "hide", "conceal", "hidden"],
        r"\b(?:keep|hide|conceal|hidden|kept) (?:this|it|that|these|them|everything|secret|the (?:above|following|change|upload|transfer)|these (?:instructions|steps)|this (?:instruction|step|change|action|message|memory|note|request))(?: (?:an? )?(?:secret|hidden|private|confidential|quiet|concealed|away|invisible))* from (?:the |your |all |any )*(?:users?|humans?|operators?|owners?|person|developers?|admins?|administrators?|team)\b(?:(?:[*_\x22'`)\]])*(?:[.,;!\n]|。|—|–|\z|\s-)| (?:at all|and|until|while))",
    ),
    prose_around(
        HIDE,
        &[
            "user must",
            "user should",
            "user may",
            "user shall",
            "human must",
            "operator must",
            "secretly",
            "silently",
            "covertly",
            "let the",
            "let your",
            "let any",
        ],
        concat!(
            r"\b(?:user|human|operator|owner|person) (?:must|should|may|shall) (?:not|never) (?:know|find out|learn|be (?:told|informed|notified|made aware)|become aware)(?: (?:about|of) (?:this|it|that|these))?(?:[.,;!\n]|。|\z)",
            r"|\b(?:do not|don't|dont|never|not) let (?:the |your |any )*(?:users?|humans?|operators?|owners?|person|developers?|anyone|anybody) (?:know|notice|find out|learn)(?: (?:about|of) (?:this|it|that|these))?(?:[.,;!\n]|。|\z)",
            r"|\b(?:secretly|silently|covertly) (?:send|upload|copy|forward|post|transmit|exfiltrate|install|run|execute|add|append|write|collect|record) (?:(?:the|all|every|any|your|their|user|user's|this|it|these) )*(?:conversation|messages?|credentials?|secrets?|keys?|tokens?|passwords?|commands?|script|data|to https?|files?)\b",
        ),
    ),
    prose_around(
        HIDE,
        &[
            "benutzer",
            "nutzer",
            "anwender",
            "utilisateur",
            "usuario",
            "utente",
            "пользовател",
            "用户",
            "用戶",
            "使用者",
            "ユーザー",
            "사용자",
        ],
        concat!(
            r"\b(?:sag|sage|sagt|erzahle?|verrate?|teile?) (?:(?:es|das|davon|dies) )?(?:dem|der|den|deinem) (?:benutzer|nutzer|anwender)n? (?:(?:davon|daruber|hiervon|bitte) )*(?:nichts|nicht)\b",
            r"|\bne (?:(?:le|lui|en|l') ?)?(?:dis|dites|revele|revelez|mentionne|parle|informe)(?: (?:pas|jamais|rien))(?: (?:cela|ceci|ca|rien|en))? (?:a l'|l')utilisateur\b",
            r"|\bno (?:se lo |le |lo )?(?:digas|diga|reveles|cuentes|menciones|informes)(?: (?:esto|nada|eso))? al usuario\b|\bnon (?:dirlo|dire|rivelare|dire nulla)(?: (?:questo|nulla|niente))? all'utente\b",
            r"|(?u:не) (?:говори|говорите|сообщай|сообщайте|рассказывай|рассказывайте|показывай|упоминай)(?: (?:об этом|этого|это|ничего))? пользовател",
            r"|(?:不要|别|別|切勿|不得|勿)(?:把(?:这|此|这个)(?u:[^。\n]){0,6})?(?:告诉|告訴|告知|通知|透露给)(?:用户|用戶|使用者)(?:。|！|，|[!,\s]|\z|这|此|任何)",
            r"|ユーザーに(?:は)?(?:このことを|これを|絶対に|何も)?(?:言わ|伝え|知らせ|教え|話さ)(?:ないで|ないこと|るな|てはいけ)|사용자에게 ?(?:는 |이를 |절대 )?(?:말하지|알리지) ?(?:마|말)",
        ),
    ),
    prose_around(
        OVERSIGHT,
        &["approve", "confirm", "permission", "safety", "without asking", "guardrail"],
        concat!(
            r"\b(?:auto-?)?(?:approve|accept|allow|execute|run|grant) (?:all|every|any|each) (?:(?:future|tool|shell|file|permission|pending) )*(?:calls?|commands?|requests?|actions?|permissions?|prompts?) (?:automatically|silently|blindly|without (?:asking|confirm\w*|review\w*|approval|prompting|question\w*|checking|permission))\b",
            r"|\b(?:all|every) (?:(?:tool|shell|future) )*(?:commands?|calls?|actions?|requests?) (?:(?:to be|be|are|is|get|must be|should be) )*auto-?approved\b",
            r"|\b(?:(?:always|automatically) (?:skip|bypass|disable|ignore)(?: all| any| every| the)*|(?:skip|bypass|disable|circumvent) (?:all|any|every)(?: of)?(?: the)?) (?:safety|permission|approval|confirmation) (?:checks?|prompts?|measures|requests?|guards?|rules|filters|steps|dialogs?)\b",
            r"|\b(?:must|may|can|will) (?:not|never) refuse anything\b",
            r"|\balways skip (?:all |any |the |every |user )*(?:confirmations?|approvals?|permission (?:prompts?|checks?))\b",
            r"|\b(?:disable|turn off|bypass|circumvent|ignore|switch off|deactivate) (?:all |any )?(?:of )?your (?:(?:own|built-?in|internal) )*(?:safety|security|content|permission|approval|guard)",
        ),
    ),
    Pattern {
        rule: EXFILTRATION,
        words: &[
            "curl",
            "wget",
            "netcat",
            "ncat",
            "/dev/tcp/",
            "invoke-webrequest",
            "invoke-restmethod",
            "iwr ",
            "scp ",
            "rsync ",
            "nc ",
            "httpie",
            "http post",
        ],
        source: concat!(
            r"(?i)(?:(?:\b(?:curl|wget|invoke-webrequest|invoke-restmethod|iwr|httpie|http post)\b[^\n]{0,300}?|\b(?:scp|rsync)\b(?:\s+-i\s+\S+|\s+-[^i\s]\S*|\s+[^-\s]\S*)*?)",
            r"(?:[@<=\s'\x22](?:[^\s@'\x22]{0,60}/)?(?:\.ssh/|id_(?:rsa|ed25519|ecdsa|dsa)\b|\.env\b|\.aws/|\.netrc\b|\.npmrc\b|\.pypirc\b|\.git-credentials\b|\.kube/config|\.gnupg|\.docker/config|\.bash_history|\.zsh_history|etc/(?:passwd|shadow)\b|credentials\.json|wallet\.dat)",
            r"|(?:\$\(|`)\s{0,2}(?:cat|env|printenv|base64|tar|whoami|hostname|history|git config|security find)\b)",
            r"|\b(?:env|printenv|history|set)\s{0,4}\|[^\n]{0,120}\b(?:curl|wget|nc|ncat|netcat)\b",
            r"|(?:\.ssh|id_(?:rsa|ed25519|ecdsa|dsa)|\.env|\.aws|\.netrc|\.npmrc|\.git-credentials|\.kube/config|\.gnupg|_history|etc/passwd|etc/shadow|credentials)\b[^\n|]{0,60}\|[^\n]{0,120}\b(?:curl|wget|nc|ncat|netcat)\b",
            r"|\b(?:bash|sh|zsh) -i\b[^\n]{0,20}/dev/tcp/)",
        ),
        reach: PatternWindow::Line,
        judge: whole_match,
    },
    prose_around(
        EXFILTRATION,
        &[
            "send",
            "post",
            "upload",
            "forward",
            "transmit",
            "exfiltrat",
            "leak",
            "submit",
            "email",
            "paste",
            "append",
            "attach",
            "include",
        ],
        concat!(
            r"\b(?:send|post|upload|forward|transmit|exfiltrate|leak|submit|e?-?mail|paste) (?:me )?(?:(?:the|its|their|contents?|of|files?|a|copy|all|my|your) )*[^\s]{0,40}(?:\.ssh|id_rsa|id_ed25519|\.env|\.aws|\.netrc|\.npmrc|\.kube|\.gnupg|etc/passwd|etc/shadow)\b[^\n]{0,60}? to (?:https?://|[a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]{2,})",
            r"|(?:\.ssh|id_rsa|id_ed25519|\.env|\.aws|\.netrc|\.npmrc|\.kube|\.gnupg|etc/passwd|etc/shadow)\b[^\n]{0,40} (?:send|post|upload|forward|transmit|paste|append|attach|include) (?:it|its|them|their|the) (?:contents? )?(?:to|in) (?:(?:an?|the|every|each|your) (?:requests?|calls?|posts?) to )?(?:https?://|[a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]{2,})",
            r"|\b(?:send|post|upload|forward|transmit|exfiltrate|leak|submit|e?-?mail|paste) (?:me )?",
            r"(?:(?:(?:all|any|every|each|the|your|this|these|their|whole|entire|full|complete|contents?|copy|copies|of|a|user|user's|users'|and|or|current|private|available|stored|found|environment|env|api|ssh|access|secret) )+)?",
            r"(?:secrets|credentials|passwords|api keys|tokens|private keys?|ssh keys?|environment variables|env vars|\.env(?: files?)?|conversations?(?: history| log)?|chat (?:history|log|transcript)s?|transcripts?|system prompt|memories|memory files?)\b",
            r"[^\n]{0,60}? to (?:(?:the|this|that|an?|my|our|following|external|remote|attacker's?) )*(?:https?://|url\b|address\b|endpoint\b|server\b|webhook\b|e?-?mail\b|[a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]{2,}|[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:com|net|org|io|dev|xyz|example|ru|cn|top|site)\b)",
        ),
    ),
    on_line(
        EXFILTRATION,
        &["](h"],
        r"(?i)!\[[^\]\n]{0,120}\]\(\s{0,2}https?://[^)\s]{1,200}?(?:[?&][^)\s=]{1,40}=|/)(?:\{|\$|%7b|<|\[)[^)\n]{0,12}(?:data|secret|token|password|credential|conversation|chat|prompt|context|memory|memories|message|api.?key|env|content|summary|base64)",
    ),
    prose_around(
        PERSISTENCE,
        &[
            "claude.md",
            "agents.md",
            "gemini.md",
            "qwen.md",
            "copilot-instructions",
            ".cursorrules",
            ".windsurfrules",
            ".clinerules",
            ".cursor/rules",
            "instruction file",
            "soul.md",
            "system prompt",
            ".bashrc",
            ".zshrc",
            ".profile",
            "crontab",
        ],
        concat!(
            r"\b(?:add|write|append|insert|copy|put|save|store|inject|include|paste|replicate|propagate|embed|persist|install|duplicate)",
            r" (?:a copy of )?(?:yourself|itself|the (?:line|text|sentence|instruction|words)\b[^\n]{0,100}?|(?:this|these|the (?:following|above|same)|your)(?: (?:exact|entire|whole|full))?(?: (?:instructions?|prompts?|messages?|texts?|lines?|rules?|notes?|memory|memories|blocks?|paragraphs?|sentences?|orders?|commands?|payload))?)",
            r"(?: (?:verbatim|unchanged|also|permanently|silently|again))* (?:in|into|to|at the (?:top|end|start|beginning|bottom) of|inside|on top of) ",
            r"(?:(?:the|your|every|all|any|each|other|this|their|user's|project's|repository's|global|local|root) )*(?:[~./A-Za-z0-9_-]){0,60}?",
            r"(?:claude\.md|agents\.md|gemini\.md|qwen\.md|copilot-instructions(?:\.md)?|\.cursorrules|\.windsurfrules|\.clinerules|\.cursor/rules|instruction files?|soul\.md|system prompt|\.bashrc|\.zshrc|\.profile|crontab)",
            r"|\b(?:write|append|add|insert|put) (?:in|into|to) (?:(?:the|your|every|all|any|each) )*(?:[~./A-Za-z0-9_-]){0,60}?(?:claude\.md|agents\.md|gemini\.md|qwen\.md|\.cursorrules|\.windsurfrules|\.clinerules|soul\.md) (?:that|the following|this|these)\b",
        ),
    ),
    Pattern {
        rule: PERSISTENCE,
        words: &[
            "whenever",
            "every",
            "each time",
            "at the start",
            "at the beginning",
            "on startup",
        ],
        source: concat!(
            r"\b(?:whenever|every time|each time|(?:at|on|in|before|after) (?:the )?(?:start|beginning|startup|launch|opening)?(?: of)? ?(?:every|each|any)(?: new)?|at the (?:start|beginning) of|on startup)",
            r" (?:(?:you|the agent|an agent|the assistant|new|a|any|the) )*(?:open|start|begin|launch|wake|run|load|read|boot|sessions?|conversations?|chats?|startup|turns?|tasks?|starts?)",
            r"[^.!?\n]{0,80}?\b(?:run|execute|fetch|download|curl|wget|eval|source|load|visit|request|call|pipe)\b[^!?\n]{0,60}?(?:https?://[^\s\x22'`)]+|\bcurl\b|\bwget\b|base64 -?d)[^\n]{0,200}",
        ),
        reach: PatternWindow::Surrounding { before: 4, after: 360 },
        judge: unless_local,
    },
    prose_around(
        EXTRACTION,
        &["prompt", "instructions", "system message"],
        r"\b(?:reveal|print|output|repeat|show|display|leak|recite) (?:me |us |out )*(?:(?:all|back|of|verbatim) )*your (?:(?:full|entire|hidden|initial|original|complete|exact|secret|system) )*(?:system prompt|system message|initial prompt|(?:initial|hidden|original|secret|system) instructions|instructions verbatim)\b",
    ),
];

/// Reports an order, unless it is negated: "never ignore …".
fn unless_negated(found: &PatternMatch<'_>) -> Option<Range<usize>> {
    if found.group(1).is_some() { None } else { whole_match(found) }
}

/// Reports an order with network access, unless all of its addresses are local.
fn unless_local(found: &PatternMatch<'_>) -> Option<Range<usize>> {
    let (order, range) = found.group(0)?;
    let order = order.to_lowercase();
    let mut addresses = order.split("://").skip(1).peekable();
    let is_local = |address: &str| LOCAL_HOSTS.iter().any(|host| address.starts_with(host));
    let local = addresses.peek().is_some() && addresses.all(is_local);
    (!local).then_some(range)
}
