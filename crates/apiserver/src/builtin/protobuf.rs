//! Reading what typed Go clients write: built-in objects in protobuf.
//!
//! `kubectl create` and every client made with client-go's generated clients send built-in kinds in protobuf and take
//! JSON back. The field numbers come from `protobuf.json`; the result is the JSON the same client could have sent.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// What a protobuf body begins with.
const MAGIC: &[u8] = b"k8s\0";

/// Why a body could not be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ProtobufError {
    /// The first bytes are not those of a Kubernetes object.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Prefix,
    /// The bytes end early, or make no sense where they are.
    #[error("reading a protobuf {message}: the message is cut off or malformed")]
    Malformed {
        /// The type that was being read.
        message: String,
    },
    /// There is no such type here.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    Unknown {
        /// Its `apiVersion`.
        api_version: String,
        /// Its `kind`.
        kind: String,
    },
}

/// The object in a protobuf body, as JSON.
pub fn protobuf_to_json(body: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = body.strip_prefix(MAGIC).ok_or(ProtobufError::Prefix)?;
    let malformed = || ProtobufError::Malformed { message: "envelope".to_owned() };
    let (mut api_version, mut kind, mut raw): (String, String, &[u8]) = Default::default();
    for field in Fields(envelope) {
        match field.map_err(|_| malformed())? {
            (1, Wire::Bytes(type_meta)) => {
                for field in Fields(type_meta) {
                    match field.map_err(|_| malformed())? {
                        (1, Wire::Bytes(text)) => api_version = utf8(text),
                        (2, Wire::Bytes(text)) => kind = utf8(text),
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let message = message_of(&api_version, &kind);
    if !numbers().contains_key(&message) {
        return Err(ProtobufError::Unknown { api_version, kind });
    }
    let mut object = Map::new();
    read(&message, raw, &mut object)?;
    object.insert("apiVersion".to_owned(), json!(api_version));
    object.insert("kind".to_owned(), json!(kind));
    Ok(Value::Object(object))
}

/// The type an `apiVersion` and `kind` name.
fn message_of(api_version: &str, kind: &str) -> String {
    if kind == "DeleteOptions" {
        // Known in every group.
        return "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions".to_owned();
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
    let package = group.split('.').next().unwrap_or_default();
    format!("io.k8s.api.{package}.{version}.{kind}")
}

type Numbers = BTreeMap<String, BTreeMap<String, (String, String)>>;

fn numbers() -> &'static Numbers {
    static NUMBERS: OnceLock<Numbers> = OnceLock::new();
    NUMBERS.get_or_init(|| {
        serde_json::from_str(include_str!("../../openapi/protobuf.json"))
            .expect("protobuf.json is written by openapi-import")
    })
}

fn read(message: &str, bytes: &[u8], into: &mut Map<String, Value>) -> Result<(), ProtobufError> {
    let malformed = || ProtobufError::Malformed { message: message.to_owned() };
    let Some(known) = numbers().get(message) else { return Ok(()) };
    for field in Fields(bytes) {
        let (number, wire) = field.map_err(|_| malformed())?;
        let Some((name, kind)) = known.get(&number.to_string()) else { continue };
        if let Some(kind) = kind.strip_prefix("[]") {
            let list = into.entry(name.as_str()).or_insert_with(|| json!([]));
            let value = value(kind, wire)?.ok_or_else(malformed)?;
            list.as_array_mut().ok_or_else(malformed)?.push(value);
        } else if let Some(kind) = kind.strip_prefix("{}") {
            let (key, value) = entry(kind, wire, message)?;
            let map = into.entry(name.as_str()).or_insert_with(|| json!({}));
            map.as_object_mut().ok_or_else(malformed)?.insert(key, value);
        } else if name.is_empty() {
            let Wire::Bytes(inlined) = wire else { return Err(malformed()) };
            read(kind, inlined, into)?;
        } else {
            into.insert(name.clone(), value(kind, wire)?.ok_or_else(malformed)?);
        }
    }
    Ok(())
}

/// One entry of a map: its key is field 1, its value field 2.
fn entry(kind: &str, wire: Wire<'_>, message: &str) -> Result<(String, Value), ProtobufError> {
    let malformed = || ProtobufError::Malformed { message: message.to_owned() };
    let Wire::Bytes(bytes) = wire else { return Err(malformed()) };
    let (mut key, mut held) = (String::new(), None);
    for field in Fields(bytes) {
        match field.map_err(|_| malformed())? {
            (1, Wire::Bytes(text)) => key = utf8(text),
            (2, wire) => held = value(kind, wire)?,
            _ => {}
        }
    }
    Ok((key, held.unwrap_or_else(|| if kind == "string" || kind == "bytes" { json!("") } else { json!({}) })))
}

/// A single value; nothing where the wire holds another type than the field.
fn value(kind: &str, wire: Wire<'_>) -> Result<Option<Value>, ProtobufError> {
    Ok(Some(match (kind, wire) {
        ("bool", Wire::Number(number)) => json!(number != 0),
        // Negative numbers are written as the 64 bits of their two's complement.
        ("int", Wire::Number(number)) => json!(number.cast_signed()),
        ("double", Wire::Fixed(bits)) => json!(f64::from_bits(bits)),
        ("string", Wire::Bytes(text)) => json!(utf8(text)),
        ("bytes", Wire::Bytes(bytes)) => json!(STANDARD.encode(bytes)),
        ("Time", Wire::Bytes(bytes)) => time(bytes, 0),
        ("MicroTime", Wire::Bytes(bytes)) => time(bytes, 6),
        ("Quantity", Wire::Bytes(bytes)) => text_field(bytes, 1).map_or(json!("0"), |text| json!(text)),
        ("IntOrString", Wire::Bytes(bytes)) => int_or_string(bytes),
        ("RawExtension" | "FieldsV1", Wire::Bytes(bytes)) => {
            text_field(bytes, 1).and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null)
        }
        (message, Wire::Bytes(bytes)) => {
            let mut object = Map::new();
            read(message, bytes, &mut object)?;
            // A list with a name of its own is a message with `items` here and a plain list in JSON.
            if message.ends_with(".ExtraValue") {
                object.remove("items").unwrap_or_else(|| json!([]))
            } else {
                Value::Object(object)
            }
        }
        (_, Wire::Number(_) | Wire::Fixed(_)) => return Ok(None),
    }))
}

fn text_field(bytes: &[u8], wanted: u64) -> Option<String> {
    Fields(bytes).flatten().find_map(|(number, wire)| match wire {
        Wire::Bytes(text) if number == wanted => Some(utf8(text)),
        Wire::Bytes(_) | Wire::Number(_) | Wire::Fixed(_) => None,
    })
}

fn number_field(bytes: &[u8], wanted: u64) -> i64 {
    let found = Fields(bytes).flatten().find_map(|(number, wire)| match wire {
        Wire::Number(value) if number == wanted => Some(value.cast_signed()),
        Wire::Bytes(_) | Wire::Number(_) | Wire::Fixed(_) => None,
    });
    found.unwrap_or_default()
}

fn int_or_string(bytes: &[u8]) -> Value {
    if number_field(bytes, 1) == 1 {
        json!(text_field(bytes, 3).unwrap_or_default())
    } else {
        json!(number_field(bytes, 2))
    }
}

/// Seconds and nanoseconds since the epoch; an empty message is no time at all.
fn time(bytes: &[u8], digits: usize) -> Value {
    let nanoseconds = i32::try_from(number_field(bytes, 2)).unwrap_or_default();
    match Timestamp::new(number_field(bytes, 1), nanoseconds) {
        Ok(time) if !bytes.is_empty() => {
            // Whole microseconds: a printed time is cut, never rounded up.
            let cut = Timestamp::new(time.as_second(), nanoseconds / 1000 * 1000).unwrap_or(time);
            let shown = if digits == 0 { Timestamp::new(time.as_second(), 0).unwrap_or(cut) } else { cut };
            json!(format!("{shown:.digits$}"))
        }
        Ok(_) | Err(_) => Value::Null,
    }
}

fn utf8(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A field's content, as the wire tells it apart.
#[derive(Clone, Copy, Debug)]
enum Wire<'a> {
    Number(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

#[derive(Debug)]
struct CutOff;

/// The fields of a message, in the order they were written.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, count: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(count).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    fn field(&mut self) -> Option<(u64, Wire<'a>)> {
        let tag = self.varint()?;
        let wire = match tag & 7 {
            0 => Wire::Number(self.varint()?),
            1 => Wire::Fixed(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            2 => {
                let length = self.varint()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Fixed(u64::from(u32::from_le_bytes(self.take(4)?.try_into().ok()?))),
            _ => return None,
        };
        Some((tag >> 3, wire))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Wire<'a>), CutOff>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field().ok_or(CutOff);
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}
