//! A server of vectors, and a question to it.

use std::time::Duration;

use reqwest::Response;
use reqwest::header::ACCEPT;
use serde::Serialize;
use tokio::time::timeout;

use crate::address::Address;
use crate::error::EmbedError;
use crate::http::HttpClient;
use crate::key::ApiKey;
use crate::response::{bytes_max, decode_vectors};

/// Where vectors of texts are asked for, and which.
#[derive(Clone, Debug)]
pub struct EmbeddingEndpoint {
    address: Address,
    model: String,
    key: ApiKey,
    client: HttpClient,
}

#[derive(Serialize)]
struct EmbedRequest<'a> {
    model: &'a str,
    input: &'a [&'a str],
    encoding_format: &'static str,
}

impl EmbeddingEndpoint {
    /// Returns the endpoint at an address: texts are sent to `embeddings` below it.
    pub fn new(address: Address, model: &str, key: ApiKey) -> Self {
        Self { address, model: model.to_owned(), key, client: HttpClient::default() }
    }

    /// Returns what tells its vectors from those of others: where it is and which model is asked.
    pub fn name(&self) -> String {
        format!("{} {}", self.address.location(), self.model)
    }

    /// Returns a vector for each text, in their order: all as long, at most [`DIMENSIONS_MAX`], each with a
    /// direction. Dropping it closes the connection. Nothing is tried twice.
    ///
    /// [`DIMENSIONS_MAX`]: crate::DIMENSIONS_MAX
    pub async fn embed(
        &self,
        texts: &[&str],
        deadline: Duration,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let all = async {
            let key = self.key.get().await?;
            let asked = EmbedRequest { model: &self.model, input: texts, encoding_format: "float" };
            let client = self.client.get(&self.address).map_err(EmbedError::unreachable)?;
            let mut request = client.post(self.address.join("embeddings")).json(&asked);
            request = request.header(ACCEPT, "application/json");
            if let Some(key) = key {
                request = request.bearer_auth(key);
            }
            let response = request.send().await?;
            if response.status().as_u16() == 401 {
                self.key.invalidate().await;
            }
            decode_vectors(&read_body(response, bytes_max(texts.len())).await?, texts.len())
        };
        timeout(deadline, all).await.unwrap_or(Err(EmbedError::TimedOut(deadline)))
    }
}

async fn read_body(mut response: Response, max: usize) -> Result<Vec<u8>, EmbedError> {
    if !response.status().is_success() {
        return Err(EmbedError::Refused(response.status().as_u16()));
    }
    let mut read = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if read.len() + chunk.len() > max {
            return Err(EmbedError::TooLarge(max));
        }
        read.extend_from_slice(&chunk);
    }
    Ok(read)
}
