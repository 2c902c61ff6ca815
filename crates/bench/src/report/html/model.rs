//! What the template prints, as plain values: cards made of a few kinds of blocks. All computing and rounding happens before.

use serde::Serialize;

use super::super::chart::Chart;

/// The whole page.
#[derive(Serialize)]
pub(super) struct Page {
    pub(super) badges: Vec<Tag>,
    pub(super) command: String,
    pub(super) started_at: String,
    pub(super) verdict: Vec<String>,
    pub(super) numbers: Vec<Number>,
    pub(super) cards: Vec<Card>,
    /// Drawings of legend entries; entries name them by their place here.
    pub(super) swatches: Vec<String>,
}

/// A headline number.
#[derive(Serialize)]
pub(super) struct Number {
    pub(super) value: String,
    pub(super) unit: &'static str,
    pub(super) name: String,
    pub(super) note: String,
    pub(super) tip: String,
}

/// One card of the page.
#[derive(Serialize)]
pub(super) struct Card {
    pub(super) id: &'static str,
    pub(super) title: String,
    pub(super) intro: String,
    pub(super) blocks: Vec<Block>,
}

impl Card {
    /// A card, unless it has nothing to show.
    pub(super) fn of(
        id: &'static str,
        title: &'static str,
        intro: impl Into<String>,
        blocks: Vec<Block>,
    ) -> Option<Self> {
        (!blocks.is_empty()).then(|| Self {
            id,
            title: title.to_owned(),
            intro: intro.into(),
            blocks,
        })
    }
}

/// A part of a card.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Block {
    Text {
        text: String,
    },
    Title {
        text: String,
    },
    List {
        class: &'static str,
        items: Vec<String>,
    },
    Table(Table),
    Figures {
        figures: Vec<Figure>,
    },
    Fold {
        id: String,
        title: String,
        right: String,
        open: bool,
        blocks: Vec<Block>,
    },
    Code {
        name: &'static str,
        title: String,
        text: String,
    },
    Checks {
        title: String,
        items: Vec<Check>,
    },
    Terms {
        rows: Vec<(String, String)>,
    },
}

/// A line with a box.
#[derive(Serialize)]
pub(super) struct Check {
    pub(super) done: bool,
    pub(super) text: String,
}

/// A table; the first cell of each row names it.
#[derive(Default, Serialize)]
pub(super) struct Table {
    pub(super) class: &'static str,
    /// Columns from the left that hold words, where this is the same in all rows.
    pub(super) words: usize,
    /// Headings over several columns: text and number of columns.
    pub(super) groups: Vec<(String, usize)>,
    pub(super) heads: Vec<Head>,
    pub(super) rows: Vec<Row>,
}

/// Heading of a column.
#[derive(Serialize)]
pub(super) struct Head {
    pub(super) text: String,
    pub(super) words: bool,
}

/// One row, with what is folded beneath it.
#[derive(Default, Serialize)]
pub(super) struct Row {
    pub(super) class: &'static str,
    pub(super) tip: String,
    pub(super) cells: Vec<Cell>,
    pub(super) under: Option<Under>,
}

/// What is folded beneath a row.
#[derive(Serialize)]
pub(super) struct Under {
    pub(super) title: String,
    pub(super) lines: Vec<String>,
}

/// One cell of a table.
#[derive(Default, Serialize)]
pub(super) struct Cell {
    pub(super) text: String,
    /// Markup of our own making in place of the text.
    pub(super) svg: String,
    pub(super) class: &'static str,
    pub(super) words: bool,
    pub(super) tip: String,
    pub(super) tags: Vec<Tag>,
}

/// A small framed word.
#[derive(Serialize)]
pub(super) struct Tag {
    pub(super) text: String,
    pub(super) class: &'static str,
    pub(super) tip: String,
}

/// A drawing with its title and legend.
#[derive(Serialize)]
pub(super) struct Figure {
    pub(super) title: String,
    pub(super) svg: String,
    pub(super) legend: Vec<Entry>,
}

/// A line of a legend.
#[derive(Serialize)]
pub(super) struct Entry {
    /// The drawing, until its place is known: a page has the same few of them hundreds of times.
    #[serde(skip)]
    drawing: String,
    /// Its place in [`Page::swatches`].
    swatch: usize,
    /// Markup.
    name: String,
}

/// Takes the drawings of all legends out of the cards, each once.
pub(super) fn swatches(cards: &mut [Card]) -> Vec<String> {
    let mut found = Vec::new();
    cards
        .iter_mut()
        .for_each(|card| gather(&mut card.blocks, &mut found));
    found
}

fn gather(blocks: &mut [Block], found: &mut Vec<String>) {
    for block in blocks {
        match block {
            Block::Fold { blocks, .. } => gather(blocks, found),
            Block::Figures { figures } => {
                for entry in figures.iter_mut().flat_map(|figure| &mut figure.legend) {
                    let drawing = std::mem::take(&mut entry.drawing);
                    let known = found.iter().position(|known| *known == drawing);
                    entry.swatch = known.unwrap_or(found.len());
                    if known.is_none() {
                        found.push(drawing);
                    }
                }
            }
            _ => {}
        }
    }
}

impl Tag {
    pub(super) fn new(text: impl Into<String>, class: &'static str) -> Self {
        Self {
            text: text.into(),
            class,
            tip: String::new(),
        }
    }
}

impl Cell {
    pub(super) fn number(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    pub(super) fn words(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            words: true,
            ..Self::default()
        }
    }

    pub(super) fn class(mut self, class: &'static str) -> Self {
        self.class = class;
        self
    }

    pub(super) fn tip(mut self, tip: impl Into<String>) -> Self {
        self.tip = tip.into();
        self
    }
}

impl Head {
    pub(super) fn number(text: &'static str) -> Self {
        Self {
            text: text.to_owned(),
            words: false,
        }
    }

    pub(super) fn words(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            words: true,
        }
    }
}

impl Block {
    /// A table without anything special; `words` columns stand left.
    pub(super) fn plain_table(heads: Vec<String>, words: usize, rows: Vec<Vec<String>>) -> Self {
        // The style sheet knows so many; with more, every cell says it itself.
        let alike = words <= 5;
        let cells = |fields: Vec<String>| {
            let cell = |(at, text): (usize, String)| Cell {
                words: !alike && at < words,
                text,
                ..Cell::default()
            };
            fields.into_iter().enumerate().map(cell).collect()
        };
        Self::Table(Table {
            words: if alike { words } else { 0 },
            heads: heads
                .into_iter()
                .enumerate()
                .map(|(at, text)| Head {
                    text,
                    words: !alike && at < words,
                })
                .collect(),
            rows: rows
                .into_iter()
                .map(|fields| Row {
                    cells: cells(fields),
                    ..Row::default()
                })
                .collect(),
            ..Table::default()
        })
    }
}

impl Block {
    /// The same with words in the last column, if it is a table.
    pub(super) fn ending_in_words(mut self) -> Self {
        if let Self::Table(table) = &mut self {
            let heads = table.heads.last_mut().map(|head| &mut head.words);
            let cells = table.rows.iter_mut().filter_map(|row| row.cells.last_mut());
            let cells = cells.map(|cell| &mut cell.words);
            heads
                .into_iter()
                .chain(cells)
                .for_each(|words| *words = true);
        }
        self
    }

    /// The same with texts that break into lines, if it is a table.
    pub(super) fn wrapped(mut self) -> Self {
        if let Self::Table(table) = &mut self {
            table.class = "wrapped";
        }
        self
    }
}

impl Figure {
    pub(super) fn new(title: impl Into<String>, chart: Chart) -> Self {
        Self {
            title: title.into(),
            svg: chart.svg,
            legend: chart
                .legend
                .into_iter()
                .map(|entry| Entry {
                    drawing: entry.svg,
                    swatch: 0,
                    name: entry.name,
                })
                .collect(),
        }
    }
}
