//! What holds for every block, whatever a memory or a file says.

mod frames;
