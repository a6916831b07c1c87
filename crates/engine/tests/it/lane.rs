//! Tests of lanes: each task takes effect once, one at a time, under every fault.

mod end_to_end;
mod ends;
mod faults;
mod host;
mod order;
mod overtaken;
mod pending;
mod processes;
mod requests;
mod schedule;
mod simulation;
