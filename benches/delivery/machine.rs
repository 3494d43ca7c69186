//! What the kernel knows: the processor time and the memory of a process, and what machine this is.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The unit of `/proc/PID/stat` (`man 5 proc`): hundredths of a second wherever Linux runs today.
const TICK: Duration = Duration::from_millis(10);

/// User and system time so far, from a `stat` file.
fn processor_time(stat: &str) -> Duration {
    let text = fs::read_to_string(stat).unwrap_or_default();
    // The name, in parentheses, may hold anything; utime and stime are the 12th and 13th after it.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u32 = fields.skip(11).take(2).filter_map(|field| field.parse::<u32>().ok()).sum();
    TICK * ticks
}

/// Of a process.
pub fn of_process(pid: u32) -> Duration {
    processor_time(&format!("/proc/{pid}/stat"))
}

/// Of the thread that asks.
pub fn of_this_thread() -> Duration {
    processor_time("/proc/thread-self/stat")
}

/// A process's memory in MB (10⁶ bytes): now, and the most so far.
pub fn memory(pid: u32) -> (f64, f64) {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let kib: f64 = line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0.0);
        kib * 1_024.0 / 1e6
    };
    (of("VmRSS:"), of("VmHWM:"))
}

/// Processor, cores, kernel, file system: on one line.
pub fn describe(store: &Path) -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown processor");
    let cores = std::thread::available_parallelism().map_or(0, |cores| cores.get());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let filesystem = Command::new("stat").args(["-f", "-c", "%T"]).arg(store).output();
    let filesystem =
        filesystem.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    let model = model.trim_start_matches([':', ' ', '\t']);
    format!("{model}, {cores} cores, Linux {}, store on {filesystem}", kernel.trim())
}
