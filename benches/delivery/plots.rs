//! How cost grows with size, drawn.

use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use plotters::prelude::*;
use serde_json::json;

use super::Setting;
use super::load::{Events, Load};
use super::receiver::{Receiver, WELL};
use super::scenarios::{flow_over, waiting};
use super::subject::{Subject, endpoint};

const SIZE: (u32, u32) = (720, 420);
const COLOURS: [RGBColor; 2] = [RGBColor(31, 119, 180), RGBColor(214, 39, 40)];

/// A picture: what is measured, over what, and its lines.
struct Picture<'a> {
    title: &'a str,
    over: &'a str,
    measured: &'a str,
    lines: Vec<(&'a str, Vec<(f64, f64)>)>,
}

pub fn draw(folder: &Path, machine: &str, setting: &Setting) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let pictures = [("events", events(setting)), ("endpoints", endpoints(setting)), ("backlog", backlog(setting))];
    for (name, picture) in pictures {
        let path = folder.join(format!("{name}.svg"));
        picture.draw(&path, machine).map_err(|error| io::Error::other(error.to_string()))?;
    }
    Ok(())
}

/// What an event costs when so many are stored already.
fn events(setting: &Setting) -> Picture<'static> {
    const STEP: u64 = 100_000;
    const STEPS: u64 = 10;
    let (receiver, subject) = (Receiver::start(), Subject::start(setting));
    subject.endpoint(endpoint(&receiver.url(WELL), "bench.one", 64, json!({})));
    let load = Load::closed(subject.address, 64, Events::of("bench.one", 1_024), receiver.book.clone());
    let mut line = Vec::new();
    for step in 1..=STEPS {
        let (cost, arrived) = (subject.processor_time(), receiver.book.arrived());
        while receiver.book.arrived() < step * STEP {
            sleep(Duration::from_millis(5));
        }
        let cost = (subject.processor_time() - cost).as_secs_f64() * 1e6;
        line.push(((step * STEP) as f64, cost / (receiver.book.arrived() - arrived) as f64));
    }
    load.stop();
    Picture {
        title: "What an event costs, by how many are stored",
        over: "events stored",
        measured: "engine CPU, µs per event",
        lines: vec![("one endpoint, 1 KiB", line)],
    }
}

/// What a delivery costs with so many endpoints.
fn endpoints(setting: &Setting) -> Picture<'static> {
    let line = [1, 10, 100, 1_000, 10_000].map(|count| {
        let through = flow_over(setting, &Receiver::start(), count);
        (count as f64, through.cost_of_delivery)
    });
    Picture {
        title: "What a delivery costs, by how many endpoints there are",
        over: "endpoints (a few get most events)",
        measured: "engine CPU, µs per delivery",
        lines: vec![("64 callers, 1 KiB", line.to_vec())],
    }
}

/// What a start takes with so many retries waiting.
fn backlog(setting: &Setting) -> Picture<'static> {
    let mut lines = vec![("memory after the start, MB", Vec::new()), ("first due attempt, 0.01 s", Vec::new())];
    for count in [10_000, 100_000, 300_000, 1_000_000] {
        let began = Instant::now();
        let found = waiting(setting, count, 100);
        eprintln!("{count} waiting retries: {:.0?}", began.elapsed());
        lines[0].1.push((count as f64, found.memory_after));
        lines[1].1.push((count as f64, found.first_due * 100.0));
    }
    Picture {
        title: "A start, by how many retries wait",
        over: "waiting retries of 100 endpoints",
        measured: "MB, hundredths of a second",
        lines,
    }
}

impl Picture<'_> {
    fn draw(&self, path: &Path, machine: &str) -> Result<(), Box<dyn std::error::Error>> {
        let root = SVGBackend::new(path, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let points = || self.lines.iter().flat_map(|(_, points)| points);
        let (least, most) = points().fold((f64::MAX, 1.0_f64), |(least, most), (x, _)| (least.min(*x), most.max(*x)));
        let highest = points().fold(0.0_f64, |highest, (_, y)| highest.max(*y));
        let mut chart = ChartBuilder::on(&root)
            .caption(self.title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(56)
            .y_label_area_size(56)
            .build_cartesian_2d((least..most * 1.05).log_scale(), 0.0..highest * 1.25)?;
        // Where it was measured belongs to the picture.
        let over = format!("{} — {machine}", self.over);
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_desc(over)
            .y_desc(self.measured)
            .axis_desc_style(("sans-serif", 12))
            .x_label_formatter(&|x| format!("{x:.0}"))
            .draw()?;
        for (index, (name, points)) in self.lines.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            chart
                .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?
                .label(*name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
            chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, colour.filled())))?;
        }
        chart.configure_series_labels().border_style(BLACK.mix(0.3)).background_style(WHITE).draw()?;
        root.present()?;
        Ok(())
    }
}
