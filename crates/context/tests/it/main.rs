//! Properties of every block, for all contents of memories and files.

mod frames;
