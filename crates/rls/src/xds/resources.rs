//! From the resources of a response to rules, or to the words that refuse them.

use prost::Message;
use tollgate_policy::{LoadOptions, Ruleset};
use tollgate_wire::xds::{Any, RATE_LIMIT_CONFIG, RateLimitConfig};

/// The rules of all resources; the error is what the management server is told, in the words of envoyproxy/ratelimit and its library.
pub(super) fn rules_of(resources: &[Any], options: LoadOptions) -> Result<Ruleset, String> {
    let configs = resources.iter().map(config_of);
    let configs = configs.collect::<Result<Vec<_>, _>>()?;
    let rules = Ruleset::load_messages(&configs, options);
    rules.map_err(|error| error.to_string())
}

fn config_of(resource: &Any) -> Result<RateLimitConfig, String> {
    let (given, wanted) = (name_of(&resource.type_url), name_of(RATE_LIMIT_CONFIG));
    if given != wanted {
        return Err(format!(
            "proto: mismatched message type: got {wanted:?}, want {given:?}"
        ));
    }
    RateLimitConfig::decode(&*resource.value).map_err(|error| {
        let error = error.to_string();
        let detail = error.rsplit("message: ").next().unwrap_or_default();
        format!("proto: cannot parse invalid wire-format data: {detail}")
    })
}

/// The name of a message's type, without the place that describes it.
fn name_of(type_url: &str) -> &str {
    type_url.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(type_url: &str, value: &[u8]) -> String {
        let resource = Any {
            type_url: type_url.to_owned(),
            value: value.to_vec(),
        };
        rules_of(&[resource], LoadOptions::default()).expect_err("not valid")
    }

    #[test]
    fn what_is_no_configuration_is_refused_with_its_reason() {
        let other = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
        assert_eq!(
            refused(other, b""),
            "proto: mismatched message type: got \"ratelimit.config.ratelimit.v3.RateLimitConfig\", \
             want \"envoy.config.cluster.v3.Cluster\""
        );
        for broken in [&b"\xff"[..], b"\x12\x05ab", b"\x12\x01\xff"] {
            let told = refused(RATE_LIMIT_CONFIG, broken);
            assert!(
                told.starts_with("proto: cannot parse invalid wire-format data: "),
                "{told}"
            );
        }
        assert_eq!(
            refused(RATE_LIMIT_CONFIG, b""),
            ": config file cannot have empty domain"
        );
        // Any place may describe the type.
        let elsewhere = "example.com/ratelimit.config.ratelimit.v3.RateLimitConfig";
        assert!(refused(elsewhere, b"").contains("empty domain"));
        let none = rules_of(&[], LoadOptions::default()).expect("no rules are rules");
        assert!(none.is_loaded());
    }

    /// As deep as messages may be.
    #[test]
    fn deep_nesting_is_refused_and_does_no_harm() {
        let mut deep = Vec::new();
        for _ in 0..10_000 {
            let mut outer = vec![0x22];
            prost::encode_length_delimiter(deep.len(), &mut outer).expect("a Vec");
            outer.append(&mut deep);
            deep = outer;
        }
        let mut config = vec![0x1a];
        prost::encode_length_delimiter(deep.len(), &mut config).expect("a Vec");
        config.append(&mut deep);
        let told = refused(RATE_LIMIT_CONFIG, &config);
        assert!(told.contains("recursion limit"), "{told}");
    }
}
