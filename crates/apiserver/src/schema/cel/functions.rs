//! The functions rules may call, and what they take and give.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::types::Type;

/// One letter per type: `s` string, `i` int, `u` uint, `d` double, `b` bool, `y` bytes, `D` duration, `T` timestamp, `l`
/// list, `m` map, `o` optional, `*` anything, `U` URL, `P` address, `C` CIDR, `Q` quantity, `V` semantic version, `F`
/// format. A receiver stands before the dot.
const SIGNATURES: &str = "
    size(s)i size(y)i size(l)i size(m)i s.size()i y.size()i l.size()i m.size()i
    s.startsWith(s)b s.endsWith(s)b s.contains(s)b s.matches(s)b matches(s,s)b
    int(i)i int(u)i int(d)i int(s)i int(T)i int(D)i uint(u)u uint(i)u uint(d)u uint(s)u
    double(d)d double(i)d double(u)d double(s)d bool(b)b bool(s)b bytes(y)y bytes(s)y dyn(*)* type(*)*
    string(s)s string(b)s string(i)s string(u)s string(d)s string(y)s string(T)s string(D)s string(P)s string(C)s
    duration(D)D duration(s)D duration(i)D timestamp(T)T timestamp(s)T timestamp(i)T
    T.getFullYear()i T.getMonth()i T.getDayOfYear()i T.getDayOfMonth()i T.getDate()i T.getDayOfWeek()i T.getHours()i
    T.getMinutes()i T.getSeconds()i T.getMilliseconds()i T.getFullYear(s)i T.getMonth(s)i T.getDayOfYear(s)i
    T.getDayOfMonth(s)i T.getDate(s)i T.getDayOfWeek(s)i T.getHours(s)i T.getMinutes(s)i T.getSeconds(s)i
    T.getMilliseconds(s)i D.getHours()i D.getMinutes()i D.getSeconds()i D.getMilliseconds()i
    s.charAt(i)s s.indexOf(s)i s.indexOf(s,i)i s.lastIndexOf(s)i s.lastIndexOf(s,i)i s.lowerAscii()s s.upperAscii()s
    s.replace(s,s)s s.replace(s,s,i)s s.split(s)S s.split(s,i)S s.substring(i)s s.substring(i,i)s s.trim()s l.join()s
    l.join(s)s s.format(l)s strings.quote(s)s s.find(s)s s.findAll(s)S s.findAll(s,i)S
    l.isSorted()b l.sum()* l.min()* l.max()* l.indexOf(*)i l.lastIndexOf(*)i
    url(s)U isURL(s)b U.getScheme()s U.getHost()s U.getHostname()s U.getPort()s U.getEscapedPath()s U.getQuery()m
    ip(s)P isIP(s)b ip.isCanonical(s)b P.family()i P.isUnspecified()b P.isLoopback()b P.isLinkLocalMulticast()b
    P.isLinkLocalUnicast()b P.isGlobalUnicast()b cidr(s)C isCIDR(s)b C.ip()P C.containsIP(P)b C.containsIP(s)b
    C.containsCIDR(C)b C.containsCIDR(s)b C.prefixLength()i C.masked()C
    quantity(s)Q isQuantity(s)b Q.isInteger()b Q.asInteger()i Q.asApproximateFloat()d Q.compareTo(Q)i Q.isLessThan(Q)b
    Q.isGreaterThan(Q)b Q.add(Q)Q Q.add(i)Q Q.sub(Q)Q Q.sub(i)Q sign(Q)i
    semver(s)V semver(s,b)V isSemver(s)b isSemver(s,b)b V.major()i V.minor()i V.patch()i V.compareTo(V)i V.isLessThan(V)b
    V.isGreaterThan(V)b
    format.named(s)o format.dns1123Label()F format.dns1123Subdomain()F format.dns1035Label()F format.qualifiedName()F
    format.dns1123LabelPrefix()F format.dns1123SubdomainPrefix()F format.dns1035LabelPrefix()F format.labelValue()F
    format.uri()F format.uuid()F format.byte()F format.date()F format.datetime()F F.validate(s)o
    sets.contains(l,l)b sets.equivalent(l,l)b sets.intersects(l,l)b
    optional.of(*)o optional.ofNonZeroValue(*)o optional.none()o o.hasValue()b o.value()* o.or(o)o o.orValue(*)*
";

struct Signature {
    receiver: Option<char>,
    args: Vec<char>,
    gives: char,
}

static FUNCTIONS: LazyLock<BTreeMap<&'static str, Vec<Signature>>> = LazyLock::new(|| {
    let mut functions: BTreeMap<&'static str, Vec<Signature>> = BTreeMap::new();
    for text in SIGNATURES.split_whitespace() {
        let (name, rest) = text.split_once('(').expect("a signature has arguments");
        let (args, gives) = rest.split_once(')').expect("a signature's arguments end");
        // A receiver is one letter; a longer word before the dot is part of the name.
        let (receiver, name) = match name.split_once('.') {
            Some((receiver, method)) if receiver.len() == 1 => (receiver.chars().next(), method),
            Some(_) | None => (None, name),
        };
        functions.entry(name).or_default().push(Signature {
            receiver,
            args: args.split(',').filter_map(|arg| arg.chars().next()).collect(),
            gives: gives.chars().next().expect("a signature gives something"),
        });
    }
    functions
});

/// Whether there is a function of this name, with its prefix if it has one (`sets.contains`).
pub(super) fn exists(name: &str) -> bool {
    FUNCTIONS.contains_key(name)
}

/// What a call gives; `None` when no signature takes what it is given.
pub(super) fn result(name: &str, receiver: Option<&Type>, args: &[Type]) -> Option<Type> {
    let found = FUNCTIONS.get(name)?.iter().find(|signature| {
        let receiver_fits = match (signature.receiver, receiver) {
            (None, None) => true,
            (Some(letter), Some(given)) => takes(letter, given),
            (Some(_), None) | (None, Some(_)) => false,
        };
        receiver_fits
            && signature.args.len() == args.len()
            && signature.args.iter().zip(args).all(|(letter, given)| takes(*letter, given))
    })?;
    Some(match (name, receiver) {
        ("value" | "orValue", Some(Type::Optional(of))) => (**of).clone(),
        ("sum" | "min" | "max", Some(Type::List(of))) => (**of).clone(),
        ("optional.of" | "optional.ofNonZeroValue", _) => {
            Type::Optional(Box::new(args.first().cloned().unwrap_or(Type::Dyn)))
        }
        _ => given_by(found.gives),
    })
}

fn takes(letter: char, given: &Type) -> bool {
    match (letter, given) {
        ('*', _) | (_, Type::Dyn) => true,
        ('l', Type::List(_)) | ('m', Type::Map(_)) | ('o', Type::Optional(_)) => true,
        (letter, given) => given_by(letter).is(given),
    }
}

fn given_by(letter: char) -> Type {
    match letter {
        's' => Type::Text,
        'i' => Type::Int,
        'u' => Type::Uint,
        'd' => Type::Double,
        'b' => Type::Bool,
        'y' => Type::Bytes,
        'D' => Type::Duration,
        'T' => Type::Timestamp,
        'S' => Type::List(Box::new(Type::Text)),
        'm' => Type::Map(Box::new(Type::Dyn)),
        'o' => Type::Optional(Box::new(Type::Dyn)),
        'U' => Type::Named("kubernetes.URL"),
        'P' => Type::Named("net.IP"),
        'C' => Type::Named("net.CIDR"),
        'Q' => Type::Named("kubernetes.Quantity"),
        'V' => Type::Named("kubernetes.Semver"),
        'F' => Type::Named("kubernetes.NamedFormat"),
        _ => Type::Dyn,
    }
}
