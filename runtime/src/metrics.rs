//! Metrics of the process itself, read from `/proc/self` when scraped. (The exporter's own collector
//! would bring two more libraries for these few lines.)

use std::fs;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Gauge, Opts};

/// Collects the `process_*` metrics that every dashboard expects.
pub(crate) struct ProcessCollector {
    resident: Gauge,
    cpu: Gauge,
    open_files: Gauge,
    threads: Gauge,
}

impl ProcessCollector {
    pub(crate) fn new() -> prometheus::Result<Self> {
        let gauge = |name: &str, help: &str| Gauge::with_opts(Opts::new(name, help));
        Ok(Self {
            resident: gauge("process_resident_memory_bytes", "Resident memory size in bytes.")?,
            cpu: gauge("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.")?,
            open_files: gauge("process_open_fds", "Number of open file descriptors.")?,
            threads: gauge("process_threads", "Number of OS threads in the process.")?,
        })
    }

    fn all(&self) -> [&Gauge; 4] {
        [&self.resident, &self.cpu, &self.open_files, &self.threads]
    }

    fn read(&self) {
        if let Some(usage) = fs::read_to_string("/proc/self/stat").ok().as_deref().and_then(Usage::parse) {
            self.resident.set(usage.resident_bytes);
            self.cpu.set(usage.cpu_seconds);
            self.threads.set(usage.threads);
        }
        if let Ok(entries) = fs::read_dir("/proc/self/fd") {
            self.open_files.set(entries.count() as f64);
        }
    }
}

impl Collector for ProcessCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.all().into_iter().flat_map(|g| g.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.read();
        self.all().into_iter().flat_map(|g| g.collect()).collect()
    }
}

#[derive(Debug, PartialEq)]
struct Usage {
    resident_bytes: f64,
    cpu_seconds: f64,
    threads: f64,
}

impl Usage {
    /// Linux reports times in ticks of 1/100 s on every architecture we build for, and memory in pages.
    const TICKS_PER_SECOND: f64 = 100.0;
    const PAGE_SIZE: f64 = 4096.0;

    /// Reads `/proc/<pid>/stat` (proc(5)); the command name may hold spaces and parentheses.
    fn parse(stat: &str) -> Option<Self> {
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        // The first of these is field 3 of the manual page.
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) / Self::TICKS_PER_SECOND,
            threads: field(20)?,
            resident_bytes: field(24)? * Self::PAGE_SIZE,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_past_a_hostile_command_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 3 0 9000 1000000 256 18446744073709551615";
        assert_eq!(
            Usage::parse(stat),
            Some(Usage { resident_bytes: 1_048_576.0, cpu_seconds: 2.0, threads: 3.0 })
        );
        assert_eq!(Usage::parse("7 (a"), None);
    }

    #[test]
    fn this_process_is_measured() {
        let collector = ProcessCollector::new().unwrap();
        collector.collect();
        assert!(collector.resident.get() > 0.0);
        assert!(collector.open_files.get() > 0.0);
    }
}
