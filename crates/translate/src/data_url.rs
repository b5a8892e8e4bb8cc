//! Contents of files, as configurations carry them: `data:` URLs, perhaps packed.

use std::io::Read;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The most a file may hold once unpacked. A few bytes can unpack to more than there is memory.
const LARGEST: u64 = 8 << 20;

/// What a `data:` URL holds; `None` if it is no `data:` URL at all.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn read(url: &str, compression: Option<&str>) -> Option<Result<Vec<u8>, String>> {
    // An empty source is an empty file.
    let rest = if url.is_empty() { "," } else { url.strip_prefix("data:")? };
    Some(decode(rest).and_then(|bytes| unpack(bytes, compression)))
}

/// Bytes as a URL that [`read`] understands.
pub(crate) fn print(bytes: &[u8]) -> String {
    format!("data:;base64,{}", STANDARD.encode(bytes))
}

fn decode(rest: &str) -> Result<Vec<u8>, String> {
    let (kind, data) = rest.split_once(',').ok_or("the data: URL has no comma before its data")?;
    let data = percent(data)?;
    match kind.ends_with(";base64") {
        false => Ok(data),
        true => STANDARD.decode(data).map_err(|wrong| format!("the data: URL is not base64: {wrong}")),
    }
}

fn percent(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digit = |at: usize| after.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(0), digit(1)) else {
            return Err("the data: URL has a % that no two hexadecimal digits follow".into());
        };
        bytes.extend(u8::try_from(high * 16 + low));
        rest = &after[2..];
    }
    Ok(bytes)
}

fn unpack(bytes: Vec<u8>, compression: Option<&str>) -> Result<Vec<u8>, String> {
    match compression {
        None | Some("") => Ok(bytes),
        Some("gzip") => {
            let mut unpacked = Vec::new();
            let mut reader = flate2::read::GzDecoder::new(bytes.as_slice()).take(LARGEST + 1);
            reader.read_to_end(&mut unpacked).map_err(|wrong| format!("it is not gzip: {wrong}"))?;
            if unpacked.len() as u64 > LARGEST {
                return Err(format!("it unpacks to more than {LARGEST} bytes"));
            }
            Ok(unpacked)
        }
        Some(other) => Err(format!("compression {other:?} is not gzip")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    #[test]
    fn every_form_of_contents_is_understood() {
        let packed = print(&gzip(b"hello"));
        for (url, compression, contents) in [
            ("data:,hello%20world%0A", None, "hello world\n"),
            ("data:text/plain;charset=utf-8,a,b", None, "a,b"),
            ("data:text/plain;charset=utf-8;base64,aGVsbG8=", None, "hello"),
            ("data:;base64,aGVsbG8%3D", Some(""), "hello"),
            ("data:,", None, ""),
            ("", None, ""),
            (packed.as_str(), Some("gzip"), "hello"),
        ] {
            assert_eq!(read(url, compression), Some(Ok(contents.as_bytes().to_vec())), "{url}");
        }
        assert_eq!(read(&print(b"\0\xff"), None), Some(Ok(b"\0\xff".to_vec())));
        assert_eq!(read("https://elsewhere/file", None), None);
    }

    #[test]
    fn what_is_wrong_with_contents_is_said() {
        let bomb = print(&gzip(&vec![0; usize::try_from(LARGEST).unwrap() + 1]));
        for (url, compression, said) in [
            ("data:nothing", None, "no comma"),
            ("data:,%4", None, "hexadecimal"),
            ("data:,%zz", None, "hexadecimal"),
            ("data:;base64,!!!", None, "not base64"),
            ("data:,x", Some("gzip"), "not gzip"),
            ("data:,x", Some("xz"), "\"xz\" is not gzip"),
            (bomb.as_str(), Some("gzip"), "more than 8388608 bytes"),
        ] {
            let wrong = read(url, compression).unwrap().unwrap_err();
            assert!(wrong.contains(said), "{wrong}");
        }
    }
}
