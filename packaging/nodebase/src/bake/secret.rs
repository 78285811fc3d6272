// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Content that must not end up in an image that many people can pull.

/// What kind of secret the content is, if it is one. By content: a path says little.
pub fn secret(content: &[u8]) -> Option<&'static str> {
    let text = std::str::from_utf8(content).ok()?;
    let private_key = |l: &str| l.contains("-----BEGIN ") && l.contains("PRIVATE KEY");
    if text.lines().any(private_key) {
        return Some("a private key");
    }
    let trimmed = text.trim_start();
    if trimmed.starts_with('{')
        && let Ok(value) = serde_json::from_str::<serde_json::Value>(trimmed)
    {
        let auths = value.get("auths").and_then(serde_json::Value::as_object);
        if auths.is_some_and(|a| a.values().any(|v| v.get("auth").is_some() || v.get("password").is_some())) {
            return Some("a pull secret");
        }
    }
    let has = |key: &str| {
        text.lines().any(|l| l.trim_start().trim_start_matches("- ").trim_start_matches('"').starts_with(key))
    };
    if has("client-key-data") || (has("users") && (has("token:") || has("token\"") || has("password:"))) {
        return Some("a kubeconfig with credentials");
    }
    if has("psk=") && text.contains("[wifi-security]") {
        return Some("a wireless key");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_content() {
        for (text, want) in [
            ("x\n-----BEGIN EC PRIVATE KEY-----\n", Some("a private key")),
            ("-----BEGIN CERTIFICATE-----\n", None),
            (r#"{"auths":{"quay.example":{"auth":"eDp5"}}}"#, Some("a pull secret")),
            (r#"{"auths":{}}"#, None),
            ("kind: Config\nusers:\n- name: a\n  user:\n    token: abc\n", Some("a kubeconfig with credentials")),
            ("users:\n- name: a\n  user:\n    client-key-data: YWJj\n", Some("a kubeconfig with credentials")),
            ("token: in some other file\n", None),
        ] {
            assert_eq!(secret(text.as_bytes()), want, "{text}");
        }
    }
}
