//! The tools tested: a script runner that lets a wrong reply pass would make every other test worthless.

mod peers;
mod scripts;
