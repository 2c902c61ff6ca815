//! The HTML page of a run, small enough to be kept.

use crate::Failure;

/// Largest page that is kept.
pub(super) const PAGE_MAX_BYTES: usize = 300_000;
/// Cards that a page can lose when it is larger, first the ones with a picture for every row or cell. Tables and findings
/// stay.
const SPARE: [&str; 5] = [
    "card-6-heat",
    "card-5-time",
    "card-4-percentiles",
    "card-8-accuracy",
    "card-3-latency",
];
/// What stands in the place of a card that was left out.
const LEFT_OUT: &str = "<p>Left out of the kept page. <code>tollgate bench report</code> draws it again from results.json.</p>";

/// `page` without the record inside it, which is most of it and lies beside it as `results.json`, and without as many
/// cards as needed; `None` if it is too large even so.
pub(super) fn small(page: &str) -> Result<Option<String>, Failure> {
    let mut page = without_data(page)?;
    for card in SPARE {
        if page.len() > PAGE_MAX_BYTES {
            page = without_card(page, card);
        }
    }
    Ok((page.len() <= PAGE_MAX_BYTES).then_some(page))
}

fn without_data(page: &str) -> Result<String, Failure> {
    const OPEN: &str = "<script type=\"application/json\" id=\"tollgate-record\"";
    const CLOSE: &str = "</script>";
    let from = page.find(OPEN).ok_or("report.html has no record")?;
    let length = page[from..].find(CLOSE).ok_or("report.html has no end")?;
    Ok([&page[..from], &page[from + length + CLOSE.len()..]].concat())
}

/// The card keeps its place and its heading; a page without it is returned as it is.
fn without_card(page: String, id: &str) -> String {
    const HEADING_END: &str = "</h2>";
    let inner = page.find(&format!("<section id=\"{id}\"")).and_then(|at| {
        let heading = at + page[at..].find(HEADING_END)? + HEADING_END.len();
        let end = heading + page[heading..].find("</section>")?;
        Some((heading, end))
    });
    match inner {
        Some((from, to)) => [&page[..from], LEFT_OUT, &page[to..]].concat(),
        None => page,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: &str =
        "<script type=\"application/json\" id=\"tollgate-record\" data-encoding=\"x\">AAA</script>";

    #[test]
    fn a_page_is_kept_without_its_record() {
        let page = format!("<p>a</p>{DATA}<script>b</script>");
        assert_eq!(
            small(&page).unwrap().as_deref(),
            Some("<p>a</p><script>b</script>")
        );
        assert!(small("<p></p>").is_err());
    }

    #[test]
    fn a_large_page_loses_pictures_and_keeps_tables() {
        let card = |id: &str, size: usize| {
            format!(
                "<section id=\"{id}\">\n<h2>T</h2>{}</section>",
                "x".repeat(size)
            )
        };
        let ladder = card("card-1-ladder", 150_000);
        let page = [
            ladder.as_str(),
            &card("card-5-time", 100_000),
            &card("card-6-heat", 200_000),
            DATA,
        ]
        .concat();
        let kept = small(&page).unwrap().unwrap();
        assert!(kept.starts_with(&ladder));
        assert!(kept.contains(&card("card-5-time", 100_000)));
        assert!(kept.ends_with(&format!(
            "<section id=\"card-6-heat\">\n<h2>T</h2>{LEFT_OUT}</section>"
        )));
        let too_large = card("card-1-ladder", PAGE_MAX_BYTES) + DATA;
        assert_eq!(small(&too_large).unwrap(), None);
    }
}
