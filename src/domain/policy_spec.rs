use super::policy::{Policy, Preset};
#[derive(Clone, Debug, PartialEq)]
pub struct PolicySpec {
    pub preset: Preset,
}
impl PolicySpec {
    pub fn from_json(_v: &serde_json::Value, _p: &str) -> Result<PolicySpec, Vec<()>> {
        Ok(PolicySpec { preset: Preset::Orbit })
    }
    pub fn resolve(&self) -> Policy {
        Policy::preset(self.preset)
    }
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({"preset": self.preset.as_str()})
    }
}
