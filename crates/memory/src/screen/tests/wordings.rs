//! Wordings for passwords, logins and tokens in several languages and formats, and texts that only mention one.

use super::*;

const LOGIN: &str = "secrets.login";
const ASSIGNMENT: &str = "secrets.assignment";

#[test]
fn passwords_in_plain_words_are_refused() {
    all_break(
        ASSIGNMENT,
        &[
            "The wifi pw is Tr4mpolin!9",
            "Reminder: pw is Schnee!mann4",
            "pw for grafana is Lm0n_Tree",
            "my pass is hunter2Zebra",
            "the guest network pass is blueMango42",
            "my laptop pass is r0seWood!",
            "login: maria, pw: Torte_88",
            "user=admin pass=Wr3nch_x",
            "db password - Kx83!mmQ",
            "root password – vk!30Dlw",
            "Password for staging → Sn0wy.Owl",
            "the new password (since Monday) is Velvet_Thunder9",
            "the password of the vault was changed to N3wMoon_x",
            "password of the root account: sUnf1sh",
            "the sudo password on kestrel is Blue$Whale1",
            "The password is hunter2",
            "fyi pw = gr33nTea",
            "the passcode to unlock the tablet is 7734aa",
            "My Apple ID password's Mango$Lassi2",
            "ldap bind pw: L1nden!Tree",
            "otp seed: JBSWY3DPEHPK3PXP",
            "license key: VAQRP-X22DU-5X5VI-LFRT2-BBREY",
            "recovery code: 8F3K-22QZ-PL9D",
            "the pin code of my bank card is 4821",
            "deploy_key=9f8b7c6d5e4f3a2b1c0d9e8f7a6b5c4d",
            "the door opens with passcode 883412",
        ],
    );
}

#[test]
fn card_numbers_are_refused_except_test_numbers() {
    all_break(
        "secrets.card-number",
        &[
            "My card is 4539 1488 0343 6467",
            "visa: 4539148803436467 exp 12/29",
            "Meine Kreditkarte hat die Nummer 5425-2334-3010-9903",
            "amex 3712 345678 90120",
        ],
    );
    for text in [
        "Pay with the test card 4242 4242 4242 4242",
        "The card 4539 1488 0343 6468 is refused: its check digit is wrong",
        "Order 4539148803436467 was shipped",
        "The card on the board is JIRA-4539",
    ] {
        assert_eq!(Screen::default().check(text, TextAuthor::Agent), [], "{text}");
    }
}

#[test]
fn passwords_in_other_languages_are_refused() {
    all_break(
        ASSIGNMENT,
        &[
            "Das Passwort ist Blaubeere77",
            "Das Passwort für den NAS lautet Gh7-kl!2",
            "Mein Kennwort ist Regen_Bogen8",
            "Das WLAN-Passwort ist 84736152",
            "Passwort lautet nun Herbst-Laub9",
            "Passwort fürs Backup: Eichhörnchen#3",
            "Das neue Kennwort lautet: Apfel-Kuchen7",
            "mot de passe wifi = croissant2023",
            "contraseña nueva: Cactus$44",
            "a senha nova é Praia!Sol1",
            "le mot de passe est Soleil#2024",
            "mon mdp est Fromage!33",
            "la contraseña es Perro_Verde9",
            "La contraseña de la base de datos es Zorro99!",
            "mi clave es Luna_2212!",
            "a senha do servidor é Cavalo*55",
            "la password del nas è Pizza_4ever",
            "parola d'ordine: Vesuvio!79",
            "het wachtwoord is Fiets_2020",
            "lösenordet är Alg_Mos7",
            "salasana on Jarvi_88x",
            "hasło to Bocian_91",
            "heslo je Praha_Most9",
            "şifre: Kedi!4455",
            "mật khẩu là Pho_Bo99",
            "kata sandi: Bali_Ubud7",
            "Пароль от базы — Qwer!8812",
            "пароль такой: Medved!7",
            "密码是 Panda#8848",
            "密码：Long#2029x",
            "パスワードは「Kaze_1234」です",
            "비밀번호는 Hangang!22 입니다",
        ],
    );
    refuses("пароль админа Sneg_0412", LOGIN);
    refuses("şifre Kaplan_77", LOGIN);
}

#[test]
fn passphrases_are_refused() {
    all_break(
        ASSIGNMENT,
        &[
            "passphrase: correct horse battery staple",
            "ssh passphrase is 'violet umbrella moss tram'",
            "seed phrase: ripple scissors kick mammal hire column oak again sun offer wealth tomorrow",
        ],
    );
    all_pass(&[
        "passphrase: at least six random words",
        "mnemonic: never stored in plain text",
        "The seed phrase is 12 or 24 words long.",
    ]);
}

#[test]
fn logins_with_their_password_are_refused() {
    all_break(
        LOGIN,
        &[
            "machine api.example.com login ops password s3kr1tHorse",
            "machine npm.internal\n\tlogin deploy\n\tpassword kVtt_x\n",
            "machine ftp.example.org login anon password bR4mble_x default",
            "default login ci password 7hYyD_d2",
            "log in to the staging box with admin:Wint3rfell!",
            "credentials: tobe / Oak_Bark5",
            "creds for jenkins are admin / Hudson!71",
            "ftp login: web:Hj82kslQ",
            "wifi: SSID kestrel, pw Gr4nit_Fels",
            "Zugang: lena / Sommer!2024",
            "you can sign in as demo:Demo_4711x",
            "you can log in with user ada and password Zebra99x",
            "my netflix is ada@kiln.com / B1nge!watch",
        ],
    );
    all_break(
        "secrets.command-line",
        &[
            "curl --user=ci:Zz81pqWe https://nexus.example/",
            "curl -su ada:Zw1ebel9 https://x.example",
            "redis-cli -a r3dis_Secret9",
            "docker login -u ada -p D0cker_Pw1",
            "http -a ada:Fl0werPot https://api.example",
        ],
    );
    refuses("Authorization: Basic YWxpY2U6d29uZGVybGFuZA==", "secrets.authorization-header");
    refuses("authorization: basic YWRhOnhYeFh4", "secrets.authorization-header");
}

#[test]
fn cookies_with_a_session_are_refused() {
    let a = alphanumeric;
    let cookie = "secrets.cookie";
    refuses(&format!("Cookie: session={}", a(32)), cookie);
    refuses(&format!("cookie: theme=dark; sessionid={}", a(40)), cookie);
    refuses(&format!("Set-Cookie: sid={}; HttpOnly; Path=/", a(26)), cookie);
    refuses(&format!("session cookie is _gitlab_session={}", hex(32)), cookie);
    refuses(&format!("The cookie of the panel is connect.sid=s%3A{}", a(32)), cookie);
    refuses(&format!("cookie 'auth_session={}'", a(40)), cookie);
    all_pass(&[
        "Cookie: theme=dark; lang=en",
        "Set-Cookie: locale=en-US; Path=/; Max-Age=31536000",
        "Set-Cookie must carry HttpOnly and SameSite=Lax.",
        "The cookie is called `session` and lasts a day.",
        "Cookie: session=<session id>",
        "Cookie: session=$SESSION_COOKIE_2",
        "Cookie consent: necessary, analytics",
    ]);
}

#[test]
fn secrets_in_columns_are_refused() {
    let found = |text: &str| -> Vec<String> {
        let found = Screen::default().check(text, TextAuthor::Agent);
        assert!(found.iter().all(|finding| finding.rule == ASSIGNMENT), "{found:?}");
        found.iter().map(|finding| found_in(text, finding).to_owned()).collect()
    };
    let table = "| user | password |\n|---|---|\n| ada | M0nkey!lamp |\n| bo | `Tig3r-Tank` |\n";
    assert_eq!(found(table), ["M0nkey!lamp", "Tig3r-Tank"]);
    let quoted = "> Host | Passwort\n> :-- | --:\n> nas | Kuchen_12\n\nKuchen_13 | Kuchen_14";
    assert_eq!(found(quoted), ["Kuchen_12"]);
    let token = alphanumeric(28);
    let tokens =
        format!("| name | API keys |\n|---|---|\n| prod | {token} |\r\n| dev | in vault |");
    assert_eq!(found(&tokens), [token]);
    let late = format!("# Hosts\n\npass the salt\n\nlogin,pass\nada,Br1ck_Wall\n\n{table}");
    assert_eq!(found(&late), ["Br1ck_Wall", "M0nkey!lamp", "Tig3r-Tank"]);
    assert_eq!(found("account;password\nada;Z3bra_crossing\nbo;<none>\n"), ["Z3bra_crossing"]);
    all_pass(&[
        "| field | type |\n|---|---|\n| password | varchar255 |\n| token | string |",
        "| Secret | Where it lives |\n|---|---|\n| Stripe key | 1Password, vault Ops |",
        "| Token | Example |\n|---|---|\n| NUMBER | 12.5e3 |\n| IDENT | fooBar2 |",
        "| Test | Pass |\n|---|---|\n| login-v2 | yes |\n| oauth2 | no |",
        "| env var | meaning |\n|---|---|\n| API_KEY | key of billing |\n| TOKEN | deploy token |",
        "| user | password |\n|---|---|\n\nThe box has web01 | db02 and k8s2.",
        "name, password\nAda reset hers, Bo not",
    ]);
}

#[test]
fn keys_of_services_without_a_prefix_need_the_name_of_the_service() {
    let key = hex(32);
    refuses(&format!("our Datadog key {key}"), "secrets.service-key");
    refuses(&format!("mistral key {}", alphanumeric(32)), "secrets.service-key");
    refuses(&format!("LLM_GATEWAY_KEY={key}"), ASSIGNMENT);
    refuses(&format!("The API key we use is {key}"), ASSIGNMENT);
    refuses(&format!("token {}", alphanumeric(40)), ASSIGNMENT);
    refuses(&format!("private key 0x{}", hex(64)), ASSIGNMENT);
    passes(&format!("our Datadog trace {key}"));
    all_pass(&[
        "The Datadog key is in Vault under kv/ops/datadog.",
        "The Cloudflare API token needs zone:edit.",
        "Mistral key facts: 32k context, open weights.",
        "Okta token lifetime: access-token-lifetime-minutes is 60",
    ]);
}

#[test]
fn talk_about_passwords_passes() {
    all_pass(&[
        "Passwords are hashed with argon2.",
        "The staging password is stored in 1Password.",
        "The deploy token is rotated weekly.",
        "pass is the password manager we use.",
        "the pw is in Bitwarden",
        "pw is short for Playwright in our scripts",
        "pw: see 1Password",
        "pw reset link expires after 24h",
        "pass is called before fail in the test harness",
        "The first pass is lexical, the second pass is semantic.",
        "pass: 12, fail: 3",
        "We pass: userId2 to the handler",
        "pass@1 is 63.2 on HumanEval",
        "The pass rate is 98.5%.",
        "Pass is spelled with two s.",
        "Password is required when signing up.",
        "The password is at least 12 characters long.",
        "password - minimum 12 characters, one digit",
        "Password - see the vault entry 'staging db'.",
        "password is NFKC-normalized before hashing",
        "password is UTF-8 normalized",
        "Das Passwort ist in Bitwarden hinterlegt.",
        "Das Passwort ist mindestens 12 Zeichen lang.",
        "le mot de passe est stocké dans le coffre",
        "la contraseña es obligatoria en el formulario",
        "la clave es simple: escribir pruebas primero",
        "a senha é armazenada com bcrypt",
        "La password è obbligatoria.",
        "пароль — это секрет, не храните его в коде",
        "Пароль должен быть не короче 12 символов.",
        "密码必须至少包含八个字符",
        "密码是用 argon2 加密的",
        "パスワードは8文字以上です",
        "비밀번호는 12자 이상이어야 합니다",
        "The tablet passcode is changed every term by Priya.",
        "PASSWORD IS CASE SENSITIVE in the legacy API.",
        "sudo pass is cached 15min",
        "The password is 12-character minimum.",
        "Our password strength meter is zxcvbn4.",
        "keystore password is asked by Gradle8",
        "otp seed is never shown again",
        "license key: Apache-2.0 header in each file",
        "La clave del éxito es dormir.",
        "senha: nunca no chat",
        "PIN: 4 digits, stored hashed",
        "PIN: 1234",
        "The pin of the GPIO is 17.",
    ]);
}

#[test]
fn talk_about_logins_passes() {
    all_pass(&[
        "machine learning login page password reset are three topics of the talk",
        "machine api.example.com login ops password $NETRC_PASSWORD",
        "default login anonymous password ada@kiln.example",
        "Login: SSO / Okta",
        "Accounts: Ada / Priya / Tobe",
        "creds live in vault:secret/ci",
        "sign in with github:oauth2",
        "git clone git@github.com:kiln2/oauth2Client.git with your account",
        "account ratio dev:prod is 3:1",
        "account: eu-west1 / Prod_2",
        "logins on Mon/Tue2 are down",
        "docker login -u ada --password-stdin",
        "redis-cli -a is deprecated",
        "ssh deploy@host with password prompts off",
        "Use curl -u user:password to test the endpoint.",
        "The format is user:group, e.g. www-data:www-data",
        "with password auth disabled",
        "Tobe's login is tobe, password in the team vault.",
        "Basic auth is disabled on the public endpoint.",
        "Authorization: Basic <base64 of user:pass>",
        "Tests use the password 'changeme' for the local Postgres.",
        "Log in with Touch ID on macOS14Sonoma.",
    ]);
}
