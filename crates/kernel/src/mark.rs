//! How a kernel object says that it is ours.
//!
//! Nothing is remembered about what we made: the objects carry it. Start-up adopts what carries the mark,
//! repair compares with it, and removal never touches anything that does not carry it.
//!
//! | object | mark |
//! | --- | --- |
//! | route, policy rule, neighbour | protocol number |
//! | address | protocol number, or the label's suffix (written by kernels older than 5.18) |
//! | link | alias |
//! | nftables | the table's name, in every family |

/// The marks of one owner on one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// `RTA_PROTOCOL`, `FRA_PROTOCOL`, `NDA_PROTOCOL` and `IFA_PROTO`: one number for the four tables that
    /// have a protocol column. None of the numbers of `rt_protos` that routing daemons register.
    pub protocol: u8,
    /// The end of an IPv4 address label (`eth0:nf`), for readers that do not show `IFA_PROTO`.
    pub label_suffix: String,
    /// The name of our nftables tables (one per family).
    pub nft_table: String,
    /// The beginning of a link's alias.
    pub link_alias: String,
}

impl Default for Mark {
    /// netferry's own.
    fn default() -> Mark {
        Mark {
            protocol: 110,
            label_suffix: ":nf".into(),
            nft_table: "netferry".into(),
            link_alias: "netferry".into(),
        }
    }
}

impl Mark {
    /// The alias of a link of ours, with a note for whoever looks at it.
    pub fn alias(&self, note: Option<&str>) -> String {
        match note {
            Some(note) if !note.is_empty() => format!("{}: {note}", self.link_alias),
            Some(_) | None => self.link_alias.clone(),
        }
    }

    /// Does a link with this alias belong to us?
    pub fn owns_alias(&self, alias: Option<&str>) -> bool {
        alias
            .and_then(|a| a.strip_prefix(self.link_alias.as_str()))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    }

    /// The label of an address of ours on a link, where there is room for it (labels are as short as names).
    pub fn label(&self, link: &str) -> Option<String> {
        let label = format!("{link}{}", self.label_suffix);
        (label.len() < libc::IFNAMSIZ).then_some(label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_is_ours_only_as_a_whole_word() {
        let mark = Mark::default();
        for (alias, ours) in [
            (Some("netferry"), true),
            (Some("netferry: pod a/b"), true),
            (Some("netferryman"), false),
            (Some("my netferry"), false),
            (None, false),
        ] {
            assert_eq!(mark.owns_alias(alias), ours, "{alias:?}");
        }
        assert!(mark.owns_alias(Some(&mark.alias(Some("pod a/b")))));
    }

    #[test]
    fn a_label_that_would_not_fit_is_left_out() {
        let mark = Mark::default();
        assert_eq!(mark.label("eth0").as_deref(), Some("eth0:nf"));
        assert_eq!(mark.label("averylongname15"), None);
    }
}
