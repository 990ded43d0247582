//! The head of the picture: title, command and figures, and the legends of causes, lanes and marks.

use super::canvas::{FAINT, Lettering, Path, text_width};
use super::compose::{Composer, MARGIN, NOTE, SMALL, TITLE};
use super::drawn::title;
use super::marks::{MARK_CLASSES, MarkClass};
use super::palette::CLASSES;
use super::panel::Panel;
use super::strip::{Fill, cause_fill, class_fill};
use crate::words::cause_name;
use thalweg_base::numbers;
use thalweg_explain::Cause;

/// Rows of the summary in the legend.
const MOST_ROWS: usize = 7;
/// Columns of a row's subject.
const SUBJECT: usize = 36;

/// What an entry of a legend shows.
#[derive(Clone, Copy)]
enum Sample {
    Colour(Fill),
    Mark(MarkClass),
}

struct Chip {
    sample: Sample,
    text: String,
}

impl Composer<'_> {
    /// Draws the title, the command and figures, and the legends.
    pub(super) fn head(&mut self, panels: &[&Panel]) {
        let e = self.explanation;
        let title = title(e);
        let (size, line_height) = if title.chars().count() > 170 { (17.0, 22.0) } else { (20.0, 25.0) };
        self.paragraph(&title, Lettering { size, ..TITLE }, line_height);
        self.y += 4.0;
        let mut said = vec![thalweg_base::text::cut(&e.command.join(" "), 110)];
        said.push(e.summary.about.clone());
        said.push(format!("recorder: {}", e.recorder));
        if e.dropped_events > 0 {
            said.push(format!("{} events lost", numbers::count(e.dropped_events)));
        }
        said.retain(|s| !s.is_empty());
        self.paragraph(&said.join("  ·  "), NOTE.in_colour(FAINT), 19.0);
        self.y += 14.0;
        self.legend_of_causes();
        self.legend_of_spans(panels);
        self.legend_of_marks(panels);
        self.y += 4.0;
    }

    /// The rows that `explain` prints, in its words and figures.
    fn legend_of_causes(&mut self) {
        let e = self.explanation;
        let mut chips: Vec<Chip> = Vec::new();
        for row in e.summary.rows.iter().filter(|row| row.share >= 0.005).take(MOST_ROWS) {
            let subject = thalweg_base::text::cut(&row.subject, SUBJECT);
            let of = if subject.is_empty() { String::new() } else { format!(": {subject}") };
            let text = format!("{} {}{of}", numbers::whole_percent(row.share), cause_name(e, row.cause));
            chips.push(Chip { sample: Sample::Colour(cause_fill(row.cause)), text });
        }
        let mut shares: Vec<(Cause, f64)> = Vec::new();
        for charge in e.critical_path.iter().filter(|c| !e.summary.rows.iter().any(|row| row.cause == c.cause)) {
            match shares.iter_mut().find(|(cause, _)| *cause == charge.cause) {
                Some((_, share)) => *share += charge.share,
                None => shares.push((charge.cause, charge.share)),
            }
        }
        for (cause, share) in shares.into_iter().filter(|(_, share)| *share >= 0.005) {
            let text = format!("{} {}", numbers::whole_percent(share), cause_name(e, cause));
            chips.push(Chip { sample: Sample::Colour(cause_fill(cause)), text });
        }
        self.chips("Critical path", &chips);
    }

    fn legend_of_spans(&mut self, panels: &[&Panel]) {
        let seen = |i: usize| panels.iter().any(|p| p.classes[i]);
        let seen: Vec<usize> = (0..CLASSES.len()).filter(|&i| seen(i)).collect();
        let mut chips: Vec<Chip> =
            seen.iter().map(|&i| Chip { sample: Sample::Colour(class_fill(i)), text: CLASSES[i].name.to_owned() }).collect();
        if panels.first().is_some_and(|whole| super::close_up::gaps(self.explanation, whole).next().is_some()) {
            let fill = Fill { colour: "#E4E4E4", pattern: "", thin: false };
            chips.push(Chip { sample: Sample::Colour(fill), text: "shaded: gap, in the colour of its cause".into() });
        }
        self.chips("Lanes", &chips);
    }

    fn legend_of_marks(&mut self, panels: &[&Panel]) {
        let Some(whole) = panels.first() else { return };
        let marked = |class: MarkClass| whole.marked[class as usize];
        let chip =
            |class: MarkClass| Chip { sample: Sample::Mark(class), text: format!("{} ({})", class.name(), numbers::count(marked(class))) };
        let chips: Vec<Chip> = MARK_CLASSES.iter().copied().filter(|class| marked(*class) > 0).map(chip).collect();
        self.chips("Marks", &chips);
    }

    fn chips(&mut self, name: &str, chips: &[Chip]) {
        if chips.is_empty() {
            return;
        }
        let begin = MARGIN + 100.0;
        self.y += 14.0;
        self.canvas.text(MARGIN, self.y, name, SMALL.bold());
        let mut x = begin;
        for chip in chips {
            let wide = 17.0 + text_width(&chip.text, 11.0) + 12.0;
            if x + wide > self.width - MARGIN && x > begin {
                x = begin;
                self.y += 17.0;
            }
            self.sample(chip.sample, x);
            self.canvas.text(x + 17.0, self.y, &chip.text, SMALL);
            x += wide;
        }
        self.y += 5.0;
    }

    fn sample(&mut self, sample: Sample, x: f64) {
        let top = self.y - 9.5;
        match sample {
            Sample::Mark(class) => class.draw(&mut self.canvas, x + 6.0, top, 11.0),
            Sample::Colour(fill) => {
                let mut path = Path::default();
                let (down, high) = if fill.thin { (4.5, 2.5) } else { (0.0, 11.0) };
                path.rectangle(0.0, down, 12.0, high);
                self.canvas.path(x, top, &path, fill.colour);
                if !fill.pattern.is_empty() {
                    self.canvas.path(x, top, &path, fill.pattern);
                }
            }
        }
    }
}
