//! A published study beside our rows.

use super::super::beside::columns_told;
use super::super::format::DASH;
use super::super::lang::{page as t, stored as p};
use super::super::study::derived;
use super::{Document, text};
use crate::record::paper::{PaperRecord, PaperRow};

impl Document<'_> {
    /// Paper, ours and ratio of every row, the status that the study printed beside the one that its own thresholds give,
    /// and why the rows are not comparable.
    pub(super) fn paper(&mut self) {
        let Some(paper) = self.record.paper.as_ref() else {
            return;
        };
        self.section(self.say(t::CARD_PAPER));
        let line = format!("{} ({})", text(&paper.title), text(&paper.source));
        self.line(&line);
        if !paper.not_comparable.is_empty() {
            let title = if paper.replay {
                p::P_REMARKS
            } else {
                p::P_WHY_NOT
            };
            let line = format!("\n{}\n", text(self.say(title)));
            self.line(&line);
            self.list(&paper.not_comparable);
        }
        for table in &paper.tables {
            let ours = table.ours.as_deref().unwrap_or(DASH);
            self.heading(&format!("{}: {} | {ours}", table.id, table.paper));
            self.paper_rows(&table.rows);
            if !table.not_comparable.is_empty() {
                self.line("");
                self.list(&table.not_comparable);
            }
        }
        self.follows(paper);
    }

    /// Tables that follow from the study's and ours.
    fn follows(&mut self, paper: &PaperRecord) {
        for part in derived(paper, self.lang) {
            self.heading(&part.title);
            let heads: Vec<String> = part.heads.iter().map(|head| text(head)).collect();
            let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
            self.table(&heads, 1);
            for row in &part.rows {
                let fields: Vec<String> = row.iter().map(|field| text(field)).collect();
                self.row(&fields);
            }
            if !part.remarks.is_empty() {
                self.line("");
                self.list(&part.remarks);
            }
        }
    }

    fn list(&mut self, items: &[String]) {
        for item in items {
            let line = format!("- {}", text(item));
            self.line(&line);
        }
    }

    fn paper_rows(&mut self, rows: &[PaperRow]) {
        if rows.is_empty() {
            return;
        }
        let lang = self.lang;
        let told = columns_told(rows, lang);
        let titles = told.iter().flat_map(|group| {
            let of_group = |title: &String| format!("{}: {title}", group.title);
            group
                .columns
                .iter()
                .map(move |column| of_group(&column.title))
        });
        let titles: Vec<String> = [self.say(t::H_LOAD).to_owned()]
            .into_iter()
            .chain(titles)
            .collect();
        let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
        self.table(&titles, 1);
        for row in rows {
            let columns = told.iter().flat_map(|group| &group.columns);
            let fields = columns.map(|column| text(&column.of(row, lang)));
            let fields: Vec<String> = [text(&row.title)].into_iter().chain(fields).collect();
            self.row(&fields);
        }
    }
}
