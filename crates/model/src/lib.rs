//! Talking to models that somebody else runs. Knows nothing of memories.
//!
//! [`Chat`] asks a model that speaks one of four [`ChatProtocol`]s and may call tools; [`EmbeddingEndpoint`] asks a server that
//! speaks the embeddings part of OpenAI's API for vectors of texts. Both connect to the address that they were made
//! with and to nothing else: no redirect is followed. They keep nothing of what was asked.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! use lukasa_model::{Address, Chat, Conversation, Key, Reach, Wire};
//!
//! let address = Address::parse("http://127.0.0.1:11434/v1", Reach::ThisMachine)?;
//! let chat = Chat::new(Wire::OpenAi, address, "some-model", Key::None);
//! let mut conversation = Conversation::new("You answer with one word.", &[]);
//! conversation.say("What is the capital of France?");
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
