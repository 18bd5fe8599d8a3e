//! Structured logs: one JSON object a line with the keys that MetalLB's users grep for (`ts`, `level`,
//! `caller`, `msg`, then the fields of the event), or text. The level can change at run time.

mod follow;

use std::fmt;
use std::io;

use clap::ValueEnum;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, reload};

use crate::args::{Format, Level};

pub use follow::LOG_LEVEL_KEY;
pub(crate) use follow::follow;

/// Changes the level of a running process.
#[derive(Clone, Debug)]
pub struct LevelHandle {
    filter: reload::Handle<Targets, Registry>,
}

impl LevelHandle {
    /// Logs at `level` from now on.
    pub fn set(&self, level: Level) -> Result<(), reload::Error> {
        self.filter.reload(targets(level))
    }
}

/// Reads a level as flags and requests spell it.
pub fn parse_level(text: &str) -> Result<Level, String> {
    Level::from_str(text.trim(), true)
        .map_err(|_| format!("invalid log level {text:?}: use all, debug, info, warn, error or none"))
}

/// Starts logging to standard output. Call once.
pub fn init(level: Level, format: Format) -> LevelHandle {
    let (filter, handle) = reload::Layer::new(targets(level));
    let registry = tracing_subscriber::registry().with(filter);
    match format {
        Format::Json => registry
            .with(tracing_subscriber::fmt::layer().event_format(JsonLines).with_writer(io::stdout))
            .init(),
        Format::Text => {
            registry.with(tracing_subscriber::fmt::layer().with_target(false).with_writer(io::stdout)).init();
        }
    }
    LevelHandle { filter: handle }
}

/// Our own crates log at `level`. Libraries are heard from `warn` up, and the Kubernetes client, which
/// reports each failed connection as an error of its own, not at all: whoever used it logs what failed.
fn targets(level: Level) -> Targets {
    let ours = match level {
        Level::All => return Targets::new().with_default(LevelFilter::TRACE),
        Level::Debug => LevelFilter::DEBUG,
        Level::Info => LevelFilter::INFO,
        Level::Warn => LevelFilter::WARN,
        Level::Error => LevelFilter::ERROR,
        Level::None => return Targets::new().with_default(LevelFilter::OFF),
    };
    Targets::new()
        .with_default(ours.min(LevelFilter::WARN))
        .with_target("ferrolb", ours)
        .with_target("kube_client", LevelFilter::OFF)
        .with_target("kube_runtime", LevelFilter::OFF)
        .with_target("foca", LevelFilter::OFF)
        .with_target("rustls", ours.min(LevelFilter::ERROR))
}

struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        let mut line = Map::new();
        line.insert("ts".into(), jiff::Timestamp::now().to_string().into());
        line.insert("level".into(), metadata.level().as_str().to_lowercase().into());
        if let (Some(file), Some(number)) = (metadata.file(), metadata.line()) {
            let file = file.rsplit('/').next().unwrap_or(file);
            line.insert("caller".into(), format!("{file}:{number}").into());
        }
        event.record(&mut Fields(&mut line));
        writeln!(writer, "{}", Value::Object(line))
    }
}

struct Fields<'a>(&'a mut Map<String, Value>);

impl Fields<'_> {
    fn put(&mut self, field: &Field, value: Value) {
        let key = if field.name() == "message" { "msg" } else { field.name() };
        self.0.insert(key.to_owned(), value);
    }
}

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        // Lists (`ips`) are handed over as JSON text, since tracing has no lists.
        let list = value.starts_with('[').then(|| serde_json::from_str(value).ok()).flatten();
        self.put(field, list.unwrap_or_else(|| value.into()));
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }
    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.put(field, chain(value).into());
    }
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }
}

/// An error with all its causes, each once: `cannot apply x: request failed: connection refused`.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// A list as the value of a log field: `ips = log::list(addresses)`.
pub fn list<T: fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    Value::from(items.into_iter().map(|i| i.to_string()).collect::<Vec<_>>()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_as_metallb_spells_them_and_errors_name_the_remedy() {
        assert_eq!(parse_level("warn\n"), Ok(Level::Warn));
        assert!(parse_level("loud").unwrap_err().contains("use all, debug, info"));
    }

    #[test]
    fn lists_become_json() {
        assert_eq!(list([1, 2]), r#"["1","2"]"#);
    }

    #[test]
    fn the_kubernetes_client_is_silent_unless_all_is_asked_for() {
        let info = targets(Level::Info);
        assert!(!info.would_enable("kube_client::client", &tracing::Level::ERROR));
        assert!(info.would_enable("ferrolb_speaker::agent", &tracing::Level::INFO));
        assert!(!info.would_enable("ferrolb_speaker::agent", &tracing::Level::DEBUG));
        assert!(!info.would_enable("hyper", &tracing::Level::INFO));
        assert!(targets(Level::All).would_enable("kube_client::client", &tracing::Level::TRACE));
    }
}
