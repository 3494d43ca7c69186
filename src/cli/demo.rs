use super::Failure;
use clap::Args;
#[derive(Args)]
pub struct Demo {}
impl Demo {
    pub fn run(self) -> Result<(), Failure> {
        Ok(())
    }
}
