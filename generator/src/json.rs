// SPDX-License-Identifier: Apache-2.0 OR MIT
//! JSON as the three files of an image need it: strings borrowed from the input, the order of keys kept, a key that
//! stands twice in one object refused (it would be a guess which of the two is meant).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json<'a> {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number that is a whole number in the range of `i64`.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// A string.
    String(Cow<'a, str>),
    /// An array.
    List(Vec<Json<'a>>),
    /// An object, in the order of the input.
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

impl<'a> Json<'a> {
    /// Parses a whole file.
    ///
    /// # Errors
    /// The text of the parser's error, with line and column.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|e| format!("byte {} is not UTF-8", e.valid_up_to()))?;
        serde_json::from_str(text).map_err(|e| e.to_string())
    }

    /// What it is, for a message.
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "true or false",
            Json::Int(_) | Json::Float(_) => "a number",
            Json::String(_) => "a string",
            Json::List(_) => "a list",
            Json::Object(_) => "an object",
        }
    }

    /// The string, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        if let Json::String(s) = self { Some(s) } else { None }
    }

    /// The list, if it is one.
    pub fn as_list(&self) -> Option<&[Json<'a>]> {
        if let Json::List(l) = self { Some(l) } else { None }
    }

    /// The object's members, if it is one.
    pub fn as_object(&self) -> Option<&[(Cow<'a, str>, Json<'a>)]> {
        if let Json::Object(o) = self { Some(o) } else { None }
    }

    /// A member of an object.
    pub fn get(&self, key: &str) -> Option<&Json<'a>> {
        self.as_object()?.iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    /// The same value with nothing borrowed.
    pub fn into_owned(self) -> Json<'static> {
        match self {
            Json::Null => Json::Null,
            Json::Bool(b) => Json::Bool(b),
            Json::Int(i) => Json::Int(i),
            Json::Float(f) => Json::Float(f),
            Json::String(s) => Json::String(Cow::Owned(s.into_owned())),
            Json::List(l) => Json::List(l.into_iter().map(Json::into_owned).collect()),
            Json::Object(o) => {
                Json::Object(o.into_iter().map(|(k, v)| (Cow::Owned(k.into_owned()), v.into_owned())).collect())
            }
        }
    }
}

impl<'de> Deserialize<'de> for Json<'de> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, v: bool) -> Result<Json<'de>, E> {
        Ok(Json::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Json<'de>, E> {
        Ok(Json::Int(v))
    }

    #[allow(clippy::cast_precision_loss)] // beyond i64 the exact number is of no use to anybody here
    fn visit_u64<E>(self, v: u64) -> Result<Json<'de>, E> {
        Ok(i64::try_from(v).map_or(Json::Float(v as f64), Json::Int))
    }

    fn visit_f64<E>(self, v: f64) -> Result<Json<'de>, E> {
        Ok(Json::Float(v))
    }

    fn visit_str<E>(self, v: &str) -> Result<Json<'de>, E> {
        Ok(Json::String(Cow::Owned(v.to_owned())))
    }

    fn visit_borrowed_str<E>(self, v: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::String(Cow::Borrowed(v)))
    }

    fn visit_string<E>(self, v: String) -> Result<Json<'de>, E> {
        Ok(Json::String(Cow::Owned(v)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json<'de>, A::Error> {
        let mut list = Vec::new();
        while let Some(v) = seq.next_element()? {
            list.push(v);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json<'de>, A::Error> {
        let mut members: Vec<(Cow<'de, str>, Json<'de>)> = Vec::new();
        // A handful of keys is compared one by one; an object of thousands must not cost their square.
        let mut seen: Option<BTreeSet<Cow<'de, str>>> = None;
        while let Some(Key(key)) = map.next_key()? {
            if members.len() == 32 {
                seen = Some(members.iter().map(|(k, _)| k.clone()).collect());
            }
            let twice = match &mut seen {
                Some(seen) => !seen.insert(key.clone()),
                None => members.iter().any(|(k, _)| *k == key),
            };
            if twice {
                return Err(A::Error::custom(format_args!("key {key:?} stands twice")));
            }
            let value = map.next_value()?;
            members.push((key, value));
        }
        Ok(Json::Object(members))
    }
}

/// An object's key, borrowed where the input allows (serde's own `Cow` always owns).
struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_str<E>(self, v: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(v.to_owned())))
            }
            fn visit_borrowed_str<E>(self, v: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(v)))
            }
        }
        d.deserialize_str(KeyVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_borrows() {
        let v = Json::parse(br#"{"a":[1,-2,1.5,true,null,"x"],"b\n":{}}"#).unwrap();
        assert_eq!(v.get("a").unwrap().as_list().unwrap().len(), 6);
        assert_eq!(v.get("b\n").unwrap().as_object().unwrap().len(), 0);
        assert!(matches!(v.get("a").unwrap().as_list().unwrap()[5], Json::String(Cow::Borrowed("x"))));
        assert_eq!(v.clone().into_owned(), v);
    }

    #[test]
    fn refuses_what_is_ambiguous_or_broken() {
        for (text, want) in [
            (&b""[..], "EOF"),
            (b"{", "EOF"),
            (b"{\"role\":1,\"role\":2}", "\"role\" stands twice"),
            (b"{} x", "trailing"),
            (b"\xff", "not UTF-8"),
        ] {
            let e = Json::parse(text).unwrap_err();
            assert!(e.contains(want), "{e}");
        }
        let deep = "[".repeat(10_000);
        assert!(Json::parse(deep.as_bytes()).unwrap_err().contains("recursion"));
    }

    #[test]
    fn many_keys_are_checked_for_duplicates_too() {
        let mut s: Vec<String> = (0..5_000).map(|i| format!("\"k{i}\":1")).collect();
        let ok = format!("{{{}}}", s.join(","));
        assert_eq!(Json::parse(ok.as_bytes()).unwrap().as_object().unwrap().len(), 5_000);
        s.push("\"k7\":1".into());
        let bad = format!("{{{}}}", s.join(","));
        assert!(Json::parse(bad.as_bytes()).unwrap_err().contains("\"k7\" stands twice"));
    }
}
