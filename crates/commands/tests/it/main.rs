//! Commands in process, on one shard and on many.

mod alloc;
mod collections;
mod command;
mod docs;
mod expiry;
mod gate;
mod keys;
mod ratelimit;
mod scan;
mod sorted_sets;
mod streams;
mod string;
mod table;
mod world;
