//! Turns the model into cells: title, throughput, time to a grant, holders, faults, notes.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, List, ListItem, Paragraph, Sparkline};

use super::model::Model;
use results::units;

/// Draws everything. A small terminal shows less of each part, never nothing of one that fits.
pub(super) fn draw(frame: &mut Frame<'_>, model: &Model) {
    let [title, charts, lists, notes] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Ratio(2, 5),
        Constraint::Min(3),
        Constraint::Length(5),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(head(model)).style(bold()), title);
    let [rate, wait] = Layout::vertical([Constraint::Ratio(1, 2); 2]).areas(charts);
    let now = |values: &std::collections::VecDeque<u64>| values.back().copied().unwrap_or(0);
    chart(
        frame,
        rate,
        format!("per second: {}", units::count(now(&model.per_s))),
        model.per_s.iter().copied(),
    );
    let longest = model.longest_us.map_or(String::new(), |us| {
        format!(", longest {}", units::duration(us * 1_000))
    });
    let median = match now(&model.wait_us) {
        0 => "–".to_owned(),
        us => units::duration(us * 1_000),
    };
    chart(
        frame,
        wait,
        format!("time to a grant: {median}{longest}"),
        model.wait_us.iter().copied(),
    );
    let [holders, faults] = Layout::horizontal([Constraint::Ratio(1, 2); 2]).areas(lists);
    list(frame, holders, "holders", model.holders.iter());
    list(frame, faults, "faults", newest(&model.faults, faults));
    list(frame, notes, "notes", model.notes.iter());
}

fn head(model: &Model) -> String {
    let progress = match &model.progress {
        Some((done, total, now)) => format!(" · {done}/{total} {now}"),
        None => String::new(),
    };
    format!(
        "{}{progress} · {}:{:02} · Ctrl-C ends in good order",
        model.title,
        model.elapsed_s / 60,
        model.elapsed_s % 60
    )
}

fn chart(
    frame: &mut Frame<'_>,
    area: Rect,
    title: String,
    values: impl DoubleEndedIterator<Item = u64>,
) {
    // The newest are at the right, however narrow it is.
    let room = usize::from(area.width.saturating_sub(2));
    let mut last: Vec<u64> = values.rev().take(room).collect();
    last.reverse();
    let sparkline = Sparkline::default()
        .block(Block::bordered().title(title))
        .data(last);
    frame.render_widget(sparkline, area);
}

fn list<'a>(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    lines: impl Iterator<Item = &'a String>,
) {
    let items = lines.map(|line| ListItem::new(Line::raw(line.as_str())));
    let list = List::new(items).block(Block::bordered().title(title.to_owned()));
    frame.render_widget(list, area);
}

/// As many of the last lines as there is room for.
fn newest(lines: &std::collections::VecDeque<String>, area: Rect) -> impl Iterator<Item = &String> {
    let room = usize::from(area.height.saturating_sub(2));
    lines.iter().skip(lines.len().saturating_sub(room))
}

fn bold() -> Style {
    Style::default().add_modifier(Modifier::BOLD)
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::model::tests::scene;
    use super::*;

    fn drawn(model: &Model, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, model)).unwrap();
        let buffer = terminal.backend().buffer();
        let rows = buffer.content().chunks(usize::from(width));
        rows.map(|row| {
            let text: String = row.iter().map(|cell| cell.symbol()).collect();
            format!("{}\n", text.trim_end())
        })
        .collect()
    }

    fn model() -> Model {
        let mut model = Model {
            title: "locklab chaos".to_owned(),
            elapsed_s: 65,
            progress: Some((1, 8, "failover".to_owned())),
            notes: vec!["seed 7".to_owned()],
            ..Model::default()
        };
        model.scenes(&mut [scene()], 0.5);
        model
    }

    #[test]
    fn everything_that_goes_on_is_on_the_screen() {
        let text = drawn(&model(), 100, 30);
        for words in [
            "locklab chaos · 1/8 failover · 1:05 · Ctrl-C ends in good order",
            "per second: 4",
            "time to a grant: 4 ms, longest 4 ms",
            "holders",
            "orders — c1/t0",
            "stock — c2/t0",
            "0.0 s  kill n1",
            "seed 7",
        ] {
            assert!(text.contains(words), "{words} is missing:\n{text}");
        }
        assert!(text.contains('█'), "no bar:\n{text}");
    }

    #[test]
    fn of_many_faults_the_newest_are_shown() {
        let mut model = model();
        model.faults = (0..50).map(|n| format!("fault {n}")).collect();
        let text = drawn(&model, 80, 24);
        assert!(
            text.contains("fault 49") && !text.contains("fault 3 "),
            "{text}"
        );
    }

    #[test]
    fn no_size_is_too_small() {
        for (width, height) in [(1, 1), (10, 3), (20, 8), (400, 100)] {
            drawn(&model(), width, height);
        }
    }
}
