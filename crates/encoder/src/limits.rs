//! Limits of the encoder. The name of each holds its unit.

/// Maximum number of tokens of a text; the rest of the text is ignored. The model was trained with this length.
pub const TEXT_TOKENS_MAX: usize = 256;
/// Maximum number of characters of a word; a longer one is an unknown token, as in the model's own tokenizer.
pub const TOKENIZED_WORD_CHARS_MAX: usize = 100;
/// Maximum number of characters of a text that are tokenized. A token has 4 characters on average.
pub const TEXT_CHARS_MAX: usize = 16 * TEXT_TOKENS_MAX;
/// Maximum size of a file of a model, in bytes. The weights have 91 million.
pub const FILE_BYTES_MAX: usize = 1 << 28;
/// Maximum size of the vocabulary in an encoder file, in bytes. That of the model has 231,508.
pub const VOCABULARY_BYTES_MAX: usize = 1 << 22;
/// Maximum number of rows or columns of a matrix, so that products of sizes do not overflow.
pub const DIMENSION_MAX: usize = 1 << 18;
/// Maximum length of a vector that is multiplied, so that sums of products fit into 32 bits.
pub const INNER_MAX: usize = 1 << 14;
/// Maximum number of layers.
pub const LAYERS_MAX: usize = 48;
