//! Levels, labels and grades in the language of the report.

use crate::record::{Grade, Label, Level};

use super::lang::{Lang, page as t};

/// The word of a grade.
pub(crate) fn grade(grade: Grade, lang: Lang) -> &'static str {
    match grade {
        Grade::Valid => t::GRADE_VALID,
        Grade::Indicative => t::GRADE_INDICATIVE,
        Grade::Invalid => t::GRADE_INVALID,
    }
    .of(lang)
}

/// The word of a level.
pub(crate) fn level(level: Level, lang: Lang) -> &'static str {
    match level {
        Level::Ok => t::LEVEL_OK,
        Level::NearLimit => t::LEVEL_NEAR_LIMIT,
        Level::Degraded => t::LEVEL_DEGRADED,
        Level::Failed => t::LEVEL_FAILED,
        Level::Collapsed => t::LEVEL_COLLAPSED,
    }
    .of(lang)
}

/// The words of a label.
pub(crate) fn label(label: Label, lang: Lang) -> &'static str {
    match label {
        Label::Excellent => t::LABEL_EXCELLENT,
        Label::Good => t::LABEL_GOOD,
        Label::StableLimit => t::LABEL_STABLE_LIMIT,
        Label::NearLimit => t::LABEL_NEAR_LIMIT,
        Label::Degraded => t::LABEL_DEGRADED,
        Label::Failed => t::LABEL_FAILED,
        Label::Collapsed => t::LABEL_COLLAPSED,
        Label::Dead => t::LABEL_DEAD,
    }
    .of(lang)
}

/// `complete` or `partial`.
pub(crate) fn whole(complete: bool, lang: Lang) -> &'static str {
    if complete { t::COMPLETE } else { t::PARTIAL }.of(lang)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The English words are those that the record itself uses.
    #[test]
    fn english_words_agree_with_the_record() {
        for grade in [Grade::Valid, Grade::Indicative, Grade::Invalid] {
            assert_eq!(super::grade(grade, Lang::En), grade.word());
        }
        for level in [
            Level::Ok,
            Level::NearLimit,
            Level::Degraded,
            Level::Failed,
            Level::Collapsed,
        ] {
            assert_eq!(super::level(level, Lang::En), level.word());
        }
        for label in [
            Label::Excellent,
            Label::Good,
            Label::StableLimit,
            Label::NearLimit,
            Label::Degraded,
            Label::Failed,
            Label::Collapsed,
            Label::Dead,
        ] {
            assert_eq!(super::label(label, Lang::En), label.words());
        }
    }
}
