//! The program: see `posthaste --help`.

fn main() -> std::process::ExitCode {
    posthaste::cli::run()
}
