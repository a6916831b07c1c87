//! Clients of chat and embedding models that other programs or providers run.
//!
//! [`Chat`] talks to a model over one of four [`ChatProtocol`]s, with tool calls. [`EmbeddingEndpoint`] requests
//! vectors of texts over OpenAI's embeddings API. Both connect only to the address that they were created with and
//! follow no redirect. They store no texts. The crate knows nothing of memories.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! use lukasa_model::{Address, ApiKey, Chat, ChatHistory, ChatProtocol, PlaintextReach};
//!
//! let address = Address::parse("http://127.0.0.1:11434/v1", PlaintextReach::ThisMachine)?;
//! let chat = Chat::new(ChatProtocol::OpenAi, address, "some-model", ApiKey::None);
//! let mut conversation = ChatHistory::new("You answer with one word.", &[]);
//! conversation.push_user("What is the capital of France?");
//! let reply = chat.next(&mut conversation, Duration::from_secs(30)).await?;
//! println!("{} ({} tokens)", reply.text, reply.usage.tokens_out);
//! # Ok(())
//! # }
//! ```

mod address;

mod response;

mod chat;

mod chat_history;

mod endpoint;

mod error;

mod http;

mod key;

pub use address::{Address, ParseAddressError, PlaintextReach};
pub use chat::{Chat, ChatProtocol};
pub use chat_history::{ChatHistory, ChatReply, TokenUsage, ToolInvocation, ToolSpec};
pub use endpoint::EmbeddingEndpoint;
pub use error::{ChatError, EmbedError};
pub use key::{ApiKey, KeyError};
pub use response::DIMENSIONS_MAX;
