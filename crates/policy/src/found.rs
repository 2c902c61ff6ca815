//! Mistakes beside which others are looked for.

use crate::yaml::YamlError;

/// What is wrong with one descriptor or its limit, in the order in which it was found. Each is told once.
#[derive(Debug, Default)]
pub(crate) struct Found {
    mistakes: Vec<YamlError>,
}

impl Found {
    pub(crate) fn is_empty(&self) -> bool {
        self.mistakes.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.mistakes.len()
    }

    pub(crate) fn into_mistakes(self) -> impl Iterator<Item = YamlError> {
        self.mistakes.into_iter()
    }

    pub(crate) fn note(&mut self, mistake: YamlError) {
        let is_told =
            |other: &YamlError| (other.line, &other.reason) == (mistake.line, &mistake.reason);
        if !self.mistakes.iter().any(is_told) {
            self.mistakes.push(mistake);
        }
    }

    /// What was read, if it could be.
    pub(crate) fn keep<T>(&mut self, read: Result<T, YamlError>) -> Option<T> {
        read.map_err(|mistake| self.note(mistake)).ok()
    }
}
