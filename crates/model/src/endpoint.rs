//! A client of an embedding server.

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

/// An embedding model at a server.
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

    /// Returns a name for its vectors, of location and model. Vectors of different names must not be compared.
    pub fn name(&self) -> String {
        format!("{} {}", self.address.location(), self.model)
    }

    /// Returns a vector for each text, in their order. All have the same number of dimensions, at most
    /// [`DIMENSIONS_MAX`], and none is zero. Makes one attempt. Dropping the future closes the connection.
    ///
    /// [`DIMENSIONS_MAX`]: crate::DIMENSIONS_MAX
    pub async fn embed(
        &self,
        texts: &[&str],
        deadline: Duration,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let all = async {
            let key = self.key.get().await?;
            let body = EmbedRequest { model: &self.model, input: texts, encoding_format: "float" };
            let client = self.client.get(&self.address).map_err(EmbedError::unreachable)?;
            let mut request = client.post(self.address.join("embeddings")).json(&body);
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
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if bytes.len() + chunk.len() > max {
            return Err(EmbedError::TooLarge(max));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}
