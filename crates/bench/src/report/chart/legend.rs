//! Legends: a small drawing of each series and its name.

use super::shape::{escape, mark};

/// One line of a legend: a small drawing in a box of 34 by 14, and its name.
#[derive(Clone, Debug)]
pub(in crate::report) struct LegendEntry {
    pub(in crate::report) svg: String,
    pub(in crate::report) name: String,
}

pub(super) fn line_entry(class: &str, shape: Option<usize>, name: &str) -> LegendEntry {
    let mark = shape.map_or(String::new(), |shape| one_mark(class, shape));
    let svg = format!("<path class=\"line {class}\" d=\"M1 7H33\"/>{mark}");
    entry(&svg, name)
}

pub(super) fn mark_entry(class: &str, shape: usize, name: &str) -> LegendEntry {
    entry(&one_mark(class, shape), name)
}

fn one_mark(class: &str, shape: usize) -> String {
    let mark = mark(shape, (17.0, 7.0), 4.0, "");
    format!("<g class=\"mark {class}\">{mark}</g>")
}

pub(super) fn box_entry(class: &str, name: &str) -> LegendEntry {
    entry(
        &format!("<rect class=\"{class}\" x=\"8\" y=\"1\" width=\"18\" height=\"12\"/>"),
        name,
    )
}

/// Darker for more.
pub(super) fn shade_entry(name: &str) -> LegendEntry {
    let steps: String = (1..=5)
        .map(|at| {
            format!(
                "<path d=\"M{} 7h6\" opacity=\".{}\"/>",
                at * 6 - 4,
                at * 2 - 1
            )
        })
        .collect();
    entry(
        &format!("<g class=\"tile\" stroke-width=\"12\">{steps}</g>"),
        name,
    )
}

pub(super) fn whisker_entry(name: &str) -> LegendEntry {
    entry(
        "<path class=\"whisker\" d=\"M17 1V13M13 1H21M13 13H21\"/>",
        name,
    )
}

fn entry(body: &str, name: &str) -> LegendEntry {
    LegendEntry {
        svg: body.to_owned(),
        name: escape(name),
    }
}
