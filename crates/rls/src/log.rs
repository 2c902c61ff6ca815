//! What the service says to its operator.

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Something went as it should.
    Info,
    /// Something may not be as it was meant.
    Warning,
    /// Something has failed.
    Error,
}

/// Takes a line.
pub type LogLine = fn(LogLevel, &str);
