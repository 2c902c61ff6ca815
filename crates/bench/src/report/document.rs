//! Pages of comparisons: the Markdown of the same, in the style of the reports. One file that needs neither network nor
//! scripts.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd, html};

use super::chart::{Chart, LegendEntry, escape};
use super::html::STYLE;
use super::lang::Lang;

/// What columns of words look like beside the columns of figures of the other pages.
const WORDS: &str = "main { padding-bottom: 40px; } main > h1:first-child { margin-top: 22px; } \
     main td, main th { text-align: left; padding: 4px 5px; font-size: 12.5px; } main td:first-child { white-space: normal; min-width: 120px; } \
     blockquote { margin: 0 0 14px; padding: 2px 14px; border-left: 3px solid var(--rule); color: var(--soft); overflow-wrap: anywhere; } \
     main > ul { padding-left: 20px; } main li { overflow-wrap: anywhere; }";

/// `markdown` as a page. Markup of HTML in it stays text: names of targets and runs come from outside.
#[must_use]
pub(crate) fn document(markdown: &str, lang: Lang) -> String {
    drawn(markdown, &[], lang)
}

/// The same with drawings below it, each with its title.
pub(super) fn drawn(markdown: &str, figures: &[(String, Chart)], lang: Lang) -> String {
    let title = markdown
        .lines()
        .find_map(|line| line.strip_prefix("# "))
        .unwrap_or("Tollgate bench");
    let events = Parser::new_ext(markdown, Options::ENABLE_TABLES).map(|event| match event {
        Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
        other => other,
    });
    let mut body = String::new();
    html::push_html(&mut body, events.flat_map(scrolling));
    if !figures.is_empty() {
        let figures: String = figures.iter().map(figure).collect();
        body.push_str(&format!("<div class=\"figures\">\n{figures}</div>\n"));
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"{}\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{}</title>\n<style>\n{STYLE}\n{WORDS}\n</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        lang.code(),
        escape(title),
    )
}

fn figure((title, chart): &(String, Chart)) -> String {
    let entry = |entry: &LegendEntry| {
        let LegendEntry { svg, name } = entry;
        format!("<li><svg class=\"swatch\" aria-hidden=\"true\">{svg}</svg>{name}\n")
    };
    let legend: String = chart.legend.iter().map(entry).collect();
    format!(
        "<figure>\n<figcaption>{}</figcaption>\n{}\n<ul class=\"legend\">\n{legend}</ul>\n</figure>\n",
        escape(title),
        chart.svg
    )
}

/// A table scrolls by itself where it is wider than the page.
fn scrolling(event: Event<'_>) -> Vec<Event<'_>> {
    match event {
        start @ Event::Start(Tag::Table(_)) => vec![
            Event::Html("<div class=\"scroll\" tabindex=\"0\">\n".into()),
            start,
        ],
        end @ Event::End(TagEnd::Table) => vec![end, Event::Html("</div>\n".into())],
        other => vec![other],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_drawn_and_markup_of_names_stays_text() {
        let page = document(
            "# a<b> against c\n\n> **A**: x  \n\n| Load | Ratio |\n| --- | --: |\n| get \\| set | 1.2× |\n\n- fine: <script>alert(1)</script>\n",
            Lang::Vi,
        );
        assert!(page.contains("<html lang=\"vi\">"));
        assert!(page.contains("<title>a&lt;b&gt; against c</title>"));
        assert!(
            page.contains("<td style=\"text-align: right\">1.2×</td>"),
            "{page}"
        );
        assert!(page.contains("get | set"));
        assert!(page.contains("<div class=\"scroll\" tabindex=\"0\">\n<table>"));
        assert!(!page.contains("<script"), "{page}");
    }
}
