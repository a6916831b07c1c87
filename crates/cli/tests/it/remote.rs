//! Tests of projects on another machine, by a real `ssh` and a real SSH server.

mod basics;
mod context;
mod crash;
mod doors;
mod faults;
mod hostile;
mod hosts;
mod setup;
mod steps;
mod storm;
