//! Lanes: tasks are done once, one at a time, whatever fails.

mod asked;
mod ends;
mod faults;
mod host;
mod order;
mod overtaken;
mod pending;
mod processes;
mod real;
mod schedule;
mod sim;
