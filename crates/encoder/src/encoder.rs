//! The model: embeddings of tokens, layers of attention, and the mean over all tokens.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use rayon::{ThreadPool, ThreadPoolBuilder};
use rten_gemm::{GemmExecutor, GemmInputA, GemmInputB, GemmOptions};
use rten_simd::{SimdOp, SimdUnaryOp};
use rten_tensor::{Matrix, NdTensorView};
use rten_vecmath::{Gelu, Normalize, NormalizeOptions, Softmax, Sum, SumSquareSub};

use crate::error::EncoderError;
use crate::file::{Header, Reader, Sha256Digest};
use crate::install::open_file;
use crate::limits;
use crate::linear::{Linear, QuantizedRows};
use crate::wordpiece::WordPiece;

thread_local! {
    /// Multiplies queries, keys and values. One for each thread, because it cannot be sent to another.
    static GEMM: GemmExecutor = GemmExecutor::new();
}

/// A loaded encoder.
///
/// It is immutable and can be shared. It has two threads of its own, one for each [`Priority`], and computes one text
/// at a time on each.
#[derive(Debug)]
pub struct Encoder {
    model: Model,
    foreground: ThreadPool,
    background: ThreadPool,
}

/// The priority of a computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// A caller waits for the vector.
    Foreground,
    /// No caller waits. Other threads of the machine come first.
    Background,
}

/// The weights of an encoder.
struct Model {
    header: Header,
    pieces: WordPiece,
    embeddings: Box<[i8]>,
    embedding_scales: Box<[f32]>,
    /// Vectors of the positions, the vector of the only segment added to each.
    positions: Box<[f32]>,
    norm: Norm,
    layers: Vec<Layer>,
}

/// One layer.
struct Layer {
    /// Queries, keys and values, one after the other.
    attention: Linear,
    attention_output: Linear,
    attention_norm: Norm,
    inner: Linear,
    output: Linear,
    output_norm: Norm,
}

/// Scale and offset that follow a normalization of a row.
struct Norm {
    scales: Box<[f32]>,
    offsets: Box<[f32]>,
}

impl Encoder {
    /// Loads the encoder file at a path. The thread for work in the background calls `on_background_start` first, which
    /// may lower its priority.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is of another format or version, or is damaged.
    pub fn open(path: &Path, on_background_start: fn()) -> Result<Self, EncoderError> {
        Self::load(&mut open(path)?, on_background_start)
    }

    /// Loads an encoder from the bytes that [`prepare`](crate::install::prepare) returns, as [`open`](Self::open) does.
    ///
    /// # Errors
    ///
    /// If they are of another format or version, or damaged.
    pub fn load(source: &mut dyn Read, on_background_start: fn()) -> Result<Self, EncoderError> {
        let mut reader = Reader::new(source);
        let header = reader.header()?;
        let pieces = WordPiece::parse(&reader.text()?)?;
        if pieces.len() != header.tokens {
            return Err(EncoderError::Damaged("its vocabulary has another size"));
        }
        let (embeddings, embedding_scales) = reader.matrix(header.tokens, header.width)?;
        let positions = reader.floats(header.positions * header.width)?;
        let norm = Norm::read(&mut reader, header.width)?;
        let layer = |_| Layer::read(&mut reader, &header);
        let layers = (0..header.layers).map(layer).collect::<Result<_, _>>()?;
        reader.finish()?;
        let model = Model { header, pieces, embeddings, embedding_scales, positions, norm, layers };
        // One thread each: the multiplication would use all processors otherwise.
        let threads = || ThreadPoolBuilder::new().num_threads(1);
        let foreground = threads().thread_name(|_| "encoder".to_owned()).build()?;
        let background = threads()
            .thread_name(|_| "encoder (low)".to_owned())
            .start_handler(move |_| on_background_start())
            .build()?;
        Ok(Self { model, foreground, background })
    }

    /// Returns the length of the vectors.
    pub const fn dimensions(&self) -> usize {
        self.model.header.width
    }

    /// Returns the digest of the weights. Vectors of different weights must not be compared.
    pub const fn digest(&self) -> Sha256Digest {
        self.model.header.digest
    }

    /// Returns the vector of a text, of length 1; `None` if the model does not know most of its words. All such texts
    /// would get similar vectors, whatever they mean. Only the first `tokens_max` tokens count, at most
    /// [`TEXT_TOKENS_MAX`](limits::TEXT_TOKENS_MAX). The time is about proportional to their number: 11 ms for 64 tokens
    /// on one core of a server of 2023.
    pub fn embed(&self, text: &str, tokens_max: usize, priority: Priority) -> Option<Vec<f32>> {
        let tokens = self.tokens(text, tokens_max);
        if !self.model.pieces.are_mostly_known(&tokens) {
            return None;
        }
        let pool = match priority {
            Priority::Foreground => &self.foreground,
            Priority::Background => &self.background,
        };
        Some(pool.install(|| self.model.embed(&tokens)))
    }

    /// Returns the tokens of a text, at most `tokens_max`, with those that mark its start and end.
    pub fn tokens(&self, text: &str, tokens_max: usize) -> Vec<u32> {
        let positions = self.model.header.positions.min(limits::TEXT_TOKENS_MAX);
        self.model.pieces.tokens(text, tokens_max.min(positions))
    }
}

/// Reads the digest of the weights from the start of an encoder file, without loading it.
///
/// # Errors
///
/// If the file cannot be read or is no encoder file of this version.
pub fn read_digest(path: &Path) -> Result<Sha256Digest, EncoderError> {
    Ok(Reader::new(&mut open(path)?).header()?.digest)
}

fn open(path: &Path) -> Result<BufReader<File>, EncoderError> {
    Ok(BufReader::with_capacity(1 << 16, open_file(path)?))
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model").field("header", &self.header).finish_non_exhaustive()
    }
}

impl Model {
    fn embed(&self, tokens: &[u32]) -> Vec<f32> {
        let width = self.header.width;
        let mut rows = self.embedded(tokens);
        for layer in &self.layers {
            let heads = layer.attention.apply(&QuantizedRows::new(&rows, width));
            let mixed = self.attend(&heads, tokens.len());
            let change = layer.attention_output.apply(&QuantizedRows::new(&mixed, width));
            layer.attention_norm.add(&mut rows, &change, self.header.epsilon);
            let mut inner = layer.inner.apply(&QuantizedRows::new(&rows, width));
            Gelu {}.map_mut(&mut inner);
            let inner = QuantizedRows::new(&inner, self.header.inner);
            let change = layer.output.apply(&inner);
            layer.output_norm.add(&mut rows, &change, self.header.epsilon);
        }
        mean_direction(&rows, width)
    }

    /// Returns the rows that enter the first layer.
    fn embedded(&self, tokens: &[u32]) -> Vec<f32> {
        let width = self.header.width;
        let mut rows = Vec::with_capacity(tokens.len() * width);
        for &token in tokens {
            let token = token as usize;
            let scale = self.embedding_scales[token];
            let numbers = &self.embeddings[token * width..][..width];
            rows.extend(numbers.iter().map(|&x| f32::from(x) * scale));
        }
        self.norm.add(&mut rows, &self.positions[..tokens.len() * width], self.header.epsilon);
        rows
    }

    /// Mixes the values of all tokens, for each head by the likeness of its queries and keys.
    fn attend(&self, heads: &[f32], count: usize) -> Vec<f32> {
        let width = self.header.width;
        let size = width / self.header.heads;
        let all = NdTensorView::from_data([count, 3 * width], heads);
        let mut mixed = vec![0.0; count * width];
        let mut weights = vec![0.0; count * count];
        let mut values = vec![0.0; count * size];
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let scale = (size as f32).sqrt().recip();
        for head in 0..self.header.heads {
            let part = |kind: usize| {
                all.slice((.., kind * width + head * size..kind * width + (head + 1) * size))
            };
            multiply(part(0), part(1).transposed(), scale, &mut weights);
            for row in weights.chunks_exact_mut(count) {
                Softmax::new_mut(row).dispatch();
            }
            let weights = NdTensorView::from_data([count, count], weights.as_slice());
            multiply(weights, part(2), 1.0, &mut values);
            for (mixed, values) in mixed.chunks_exact_mut(width).zip(values.chunks_exact(size)) {
                mixed[head * size..][..size].copy_from_slice(values);
            }
        }
        mixed
    }
}

/// Multiplies two matrices and a number into `out`.
fn multiply(a: Matrix, b: Matrix, alpha: f32, out: &mut [f32]) {
    let options = GemmOptions { alpha, ..Default::default() };
    let (a, b) = (GemmInputA::Unpacked(a), GemmInputB::Unpacked(b));
    GEMM.with(|gemm| gemm.gemm(out, a, b, options))
        .expect("sizes of queries, keys and values agree");
}

impl Layer {
    fn read(reader: &mut Reader, header: &Header) -> Result<Self, EncoderError> {
        let mut linear = |outputs, inputs| -> Result<Linear, EncoderError> {
            let (rows, scales) = reader.matrix(outputs, inputs)?;
            Ok(Linear::new(&rows, scales, reader.floats(outputs)?))
        };
        let attention = linear(3 * header.width, header.width)?;
        let attention_output = linear(header.width, header.width)?;
        let inner = linear(header.inner, header.width)?;
        let output = linear(header.width, header.inner)?;
        let attention_norm = Norm::read(reader, header.width)?;
        let output_norm = Norm::read(reader, header.width)?;
        Ok(Self { attention, attention_output, attention_norm, inner, output, output_norm })
    }
}

impl Norm {
    fn read(reader: &mut Reader, width: usize) -> Result<Self, EncoderError> {
        Ok(Self { scales: reader.floats(width)?, offsets: reader.floats(width)? })
    }

    /// Adds a change to the rows and normalizes each row.
    fn add(&self, rows: &mut [f32], change: &[f32], epsilon: f32) {
        let width = self.scales.len();
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let count = width as f32;
        for (row, change) in rows.chunks_exact_mut(width).zip(change.chunks_exact(width)) {
            row.iter_mut().zip(change).for_each(|(x, change)| *x += change);
            let mean = Sum::new(row).dispatch() / count;
            let variance = SumSquareSub::new(row, mean).dispatch() / count;
            let options = NormalizeOptions {
                pre_scale_bias: mean,
                scale: (variance + epsilon).sqrt().recip(),
                element_scale: Some(&self.scales),
                bias: 0.0,
                element_bias: Some(&self.offsets),
            };
            Normalize::new_mut(row, options).dispatch();
        }
    }
}

/// Returns the mean of the rows, brought to length 1.
fn mean_direction(rows: &[f32], width: usize) -> Vec<f32> {
    let mut sum = vec![0.0; width];
    for row in rows.chunks_exact(width) {
        sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
    }
    let length = sum.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
    sum.into_iter().map(|number| number / length).collect()
}
