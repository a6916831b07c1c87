//! Keys of hosted services, built from prefix, alphabet and length.

use super::secrets::refuses_token;
use super::*;

fn uuid() -> String {
    [8, 4, 4, 4, 12].map(hex).join("-")
}

#[test]
fn keys_of_models_memory_and_agents_are_refused() {
    let check = |rule, prefix: &str, rest: &str| refuses_token(&format!("{prefix}{rest}"), rule);
    let a = alphanumeric;
    check("secrets.mem0-key", "m0-", &a(40));
    check("secrets.letta-key", "sk-let-", &a(80));
    check("secrets.zep-key", "z_1", &format!("{}.{}", a(40), a(86)));
    check("secrets.supermemory-key", "sm_", &format!("{}_{}", a(22), a(43)));
    check("secrets.pinecone-key", "pcsk_", &format!("{}_{}", a(6), a(63)));
    check("secrets.langfuse-key", "sk-lf-", &uuid());
    check("secrets.helicone-key", "sk-helicone-", &a(28));
    check("secrets.nvidia-key", "nvapi-", &a(64));
    check("secrets.cerebras-key", "csk-", &a(48));
    check("secrets.fireworks-key", "fw_", &a(24));
    check("secrets.together-key", "tgp_v1_", &a(43));
    check("secrets.voyage-key", "pa-", &a(43));
    check("secrets.jina-key", "jina_", &a(60));
    check("secrets.firecrawl-key", "fc-", &hex(32));
    check("secrets.e2b-key", "e2b_", &hex(40));
    check("secrets.apify-token", "apify_api_", &a(36));
    check("secrets.bedrock-key", "ABSK", &a(128));
    check("secrets.cursor-key", "key_", &hex(64));
    check("secrets.wandb-key", "wandb_v1_", &a(60));
}

#[test]
fn keys_of_monitoring_are_refused() {
    let check = |rule, prefix: &str, rest: &str| refuses_token(&format!("{prefix}{rest}"), rule);
    let a = alphanumeric;
    check("secrets.datadog-key", "ddapp_", &a(34));
    check("secrets.honeycomb-key", "hcaik_", &a(58).to_lowercase());
    check("secrets.posthog-key", "phx_", &a(43));
    check("secrets.logfire-token", "pylf_v1_us_", &a(43));
    check("secrets.axiom-token", "xaat-", &uuid());
    check("secrets.launchdarkly-key", "sdk-", &uuid());
    check("secrets.sonarqube-token", "squ_", &hex(40));
    check("secrets.sourcegraph-token", "sgp_", &format!("{}_{}", hex(16), hex(40)));
    check("secrets.newrelic-key", "NRII-", &a(32));
    check("secrets.sentry-token", "sntrya_", &hex(64));
}

#[test]
fn keys_of_hosting_and_builds_are_refused() {
    let check = |rule, prefix: &str, rest: &str| refuses_token(&format!("{prefix}{rest}"), rule);
    let a = alphanumeric;
    check("secrets.vercel-token", "vcp_", &a(56));
    check("secrets.vercel-token", "vercel_blob_rw_", &a(40));
    check("secrets.render-key", "rnd_", &a(28));
    check("secrets.neon-key", "napi_", &a(64).to_lowercase());
    check("secrets.deno-token", "ddp_", &a(36));
    check("secrets.scalingo-token", "tk-us-", &a(48));
    check("secrets.openshift-token", "sha256~", &a(43));
    check("secrets.mongodb-atlas-secret", "mdb_sa_sk_", &a(40));
    check("secrets.confluent-secret", "cflt", &a(60));
    check("secrets.clickhouse-secret", "4b1d", &a(38));
    check("secrets.circleci-token", "CCIPAT_", &format!("{}_{}", a(22), hex(40)));
    check("secrets.prefect-key", "pnu_", &a(36));
    check("secrets.nuget-key", "oy2", &a(43).to_lowercase());
    check("secrets.octopus-key", "API-", &a(26).to_uppercase());
    check("secrets.infracost-key", "ico-", &a(32));
    check("secrets.harness-key", "pat.", &format!("{}.{}.{}", a(22), a(24), a(20)));
    check("secrets.netlify-token", "nfc_", &a(36));
    check("secrets.artifactory-key", "cmVmd", &a(59));
    let group = || a(5).to_uppercase();
    let secret_key = format!("{}-{0}-{}-{1}-{1}-{1}", a(6).to_uppercase(), group());
    check("secrets.onepassword-token", "A3-", &secret_key);
}

#[test]
fn keys_of_mail_documents_and_commerce_are_refused() {
    let check = |rule, prefix: &str, rest: &str| refuses_token(&format!("{prefix}{rest}"), rule);
    let a = alphanumeric;
    check("secrets.resend-key", "re_", &format!("{}_{}", a(8), a(24)));
    check("secrets.brevo-key", "xkeysib-", &format!("{}-{}", hex(64), a(16)));
    check("secrets.mailersend-key", "mlsn.", &hex(64));
    check("secrets.airtable-token", "pat", &format!("{}.{}", a(14), hex(64)));
    check("secrets.hubspot-token", "pat-eu1-", &uuid());
    check("secrets.dropbox-token", "sl.", &a(136));
    check("secrets.typeform-token", "tfp_", &a(59));
    check("secrets.contentful-token", "CFPAT-", &a(43));
    check("secrets.mapbox-token", "sk.eyJ", &format!("{}.{}", a(60), a(22)));
    check("secrets.readme-key", "rdme_", &a(70).to_lowercase());
    check("secrets.trello-token", "ATTA", &hex(72));
    check("secrets.meta-token", "EAAM", &a(160));
    check("secrets.easypost-key", "EZAK", &a(54));
    check("secrets.shippo-token", "shippo_live_", &hex(40));
    check("secrets.shopify-token", "shptka_", &hex(32));
    check("secrets.duffel-token", "duffel_live_", &a(43));
    check("secrets.plaid-token", "access-production-", &uuid());
    check("secrets.flutterwave-key", "FLWSECK-", &format!("{}-X", hex(32)));
    check("secrets.frameio-token", "fio-u-", &a(64));
    check("secrets.adobe-secret", "p8e-", &a(32));
    check("secrets.maxmind-key", &a(6), &format!("_{}_mmk", a(29)));
    check("secrets.alibaba-key-id", "LTAI", &a(20));
    check("secrets.tencent-key-id", "AKID", &a(32));
    check("secrets.settlemint-token", "sm_pat_", &a(16));
}

#[test]
fn names_that_begin_like_a_key_pass() {
    all_pass(&[
        "pa-system-for-the-main-hall-and-the-garden-2025",
        "The path patterns are in src/pat/pathfinder.rs, sl.json holds locales.",
        "re_export_all and store_re_index_documents_nightly are flags.",
        "API-GATEWAY-PRODUCTION-EUROPE-WEST serves all tenants.",
        "api-3f2504e0-4f89 is the prefix of the pod.",
        "The feature_key_rotation job and key_of_the_tenant column stay.",
        "sdk-release-candidate-2025-11-25",
        "vca_, vcp_ and rnd_ are prefixes that the scanner knows.",
    ]);
}
