//! Lanes: tasks are done once, one at a time, whatever fails.

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
