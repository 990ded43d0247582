//! The tables of secrets: names whose value is a secret, programs with one-letter options for it, and keys recognised
//! by their shape. To add an entry, add a line here and a case in `tests.rs`.

/// Replaces a secret.
pub const MARK: &str = "[secret]";

/// Endings of names (of options, variables, fields) whose value is a secret, in lower case and with `-` for `_`.
const SECRET_ENDINGS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "token",
    "secret",
    "api-key",
    "apikey",
    "access-key",
    "accesskey",
    "secret-key",
    "secretkey",
    "account-key",
    "accountkey",
    "storage-key",
    "application-key",
    "encryption-key",
    "auth-key",
    "authkey",
    "shared-key",
    "sharedkey",
    "-pass",
    "-signature",
    "-pwd",
    "security-token",
    "sharedaccesssignature",
    "oauth2-bearer",
    "credentials-json",
];

/// Whole names whose value is a secret, though other names with this ending are harmless.
const SECRETS: &[&str] = &[
    "pass",
    "pwd",
    "sig",
    "signature",
    "sshpass",
    "storepass",
    "keypass",
    "srcstorepass",
    "deststorepass",
    "http-pass",
    "ftp-pass",
    "private-token",
];

/// Prefixes of names that match above but have no secret value: a file that holds one, or whether to ask.
const NO_SECRET_BEGINNINGS: &[&str] = &["no-", "ask-", "prompt-", "max-", "num-", "show-", "use-"];

/// HTTP headers whose value is a secret.
pub(super) const HEADERS: &[&str] = &[
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
    "x-api-key",
    "x-auth-token",
    "x-amz-security-token",
    "private-token",
    "x-vault-token",
    "x-auth-key",
    "ocp-apim-subscription-key",
];

/// Where a one-letter option has its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Has {
    /// In the same word: `-pVALUE`. Without a value the program asks.
    Attached,
    /// In the same word or the next one.
    Either,
    /// In the next word.
    Next,
    /// In the same word or the next one, as `USER:VALUE`; the part before the first of these characters is kept.
    After(char),
}

/// Options, and where each has its value.
pub(super) type Options = &'static [(&'static str, Has)];

/// Programs, and their options followed by a secret.
pub(super) const PROGRAMS: &[(&[&str], Options)] = &[
    (
        &[
            "mysql",
            "mysqldump",
            "mysqladmin",
            "mysqlimport",
            "mysqlshow",
            "mysqlcheck",
            "mysqlpump",
            "mysqlbinlog",
            "mysqlslap",
            "mysqlsh",
            "mariadb",
            "mariadb-dump",
            "mariadb-admin",
            "mariadb-import",
            "mariadb-check",
            "mariadb-backup",
            "xtrabackup",
            "mydumper",
            "myloader",
        ],
        &[("-p", Has::Attached)],
    ),
    (&["7z", "7za", "7zr", "7zz", "rar", "unrar"], &[("-p", Has::Attached), ("-hp", Has::Attached)]),
    (&["zip", "unzip", "zipcloak"], &[("-P", Has::Either)]),
    (
        &["sshpass", "mongo", "mongosh", "mongodump", "mongorestore", "mongoexport", "mongoimport", "ncftp", "ncftpput", "ncftpget"],
        &[("-p", Has::Either)],
    ),
    (&["ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldapwhoami", "ldapmodrdn", "ldapcompare", "ldapexop"], &[("-w", Has::Either)]),
    (&["ldappasswd"], &[("-w", Has::Either), ("-s", Has::Either), ("-a", Has::Either)]),
    (&["redis-cli", "valkey-cli"], &[("-a", Has::Either)]),
    (
        &["curl"],
        &[
            ("-u", Has::After(':')),
            ("--user", Has::After(':')),
            ("-U", Has::After(':')),
            ("--proxy-user", Has::After(':')),
            ("-b", Has::Either),
            ("--cookie", Has::Next),
        ],
    ),
    (&["wget2", "aria2c", "http", "https", "xh"], &[("-a", Has::After(':')), ("--auth", Has::After(':'))]),
    (&["lftp"], &[("-u", Has::After(','))]),
    (&["smbclient", "smbget", "rpcclient", "smbmap", "net"], &[("-U", Has::After('%')), ("--user", Has::After('%'))]),
    (&["sqlcmd", "bcp", "osql", "isql"], &[("-P", Has::Either)]),
    (&["ipmitool"], &[("-P", Has::Either)]),
    (&["ssh-keygen"], &[("-N", Has::Either), ("-P", Has::Either)]),
    (&["snmpget", "snmpwalk", "snmpset", "snmpbulkwalk"], &[("-c", Has::Either), ("-A", Has::Either), ("-X", Has::Either)]),
    (&["openssl"], &[("-pass", Has::Next), ("-passin", Has::Next), ("-passout", Has::Next), ("-k", Has::Next), ("-K", Has::Next)]),
    (&["xfreerdp"], &[("/p:", Has::Attached)]),
];

/// Programs with such an option in `login` only: `docker run -p` is a port.
pub(super) const AT_LOGIN: &[&str] = &["docker", "podman", "nerdctl", "buildah", "skopeo", "helm", "oc", "az"];

/// Programs that take `USER/VALUE@WHERE` as a word.
pub(super) const WITH_SLASH: &[&str] = &["sqlplus", "impdp", "expdp", "rman", "sqlldr", "imp", "exp"];

/// Prefixes of provider keys, the minimum number of following characters, and whether these are only letters and
/// digits.
pub(super) const SHAPES: &[(&str, usize, bool)] = &[
    ("AKIA", 16, true),
    ("ASIA", 16, true),
    ("ghp_", 20, true),
    ("gho_", 20, true),
    ("ghu_", 20, true),
    ("ghs_", 20, true),
    ("ghr_", 20, true),
    ("github_pat_", 20, false),
    ("glpat-", 16, false),
    ("gldt-", 16, false),
    ("xoxb-", 10, false),
    ("xoxp-", 10, false),
    ("xoxa-", 10, false),
    ("xoxr-", 10, false),
    ("xoxs-", 10, false),
    ("xapp-", 10, false),
    ("AIza", 30, false),
    ("ya29.", 20, false),
    ("hf_", 30, true),
    ("npm_", 30, true),
    ("pypi-AgEI", 20, false),
    ("dop_v1_", 30, true),
    ("hvs.", 20, false),
    ("sk-ant-", 20, false),
    ("sk-proj-", 20, false),
    ("sk_live_", 16, true),
    ("rk_live_", 16, true),
    ("AGE-SECRET-KEY-1", 20, true),
    ("SG.", 40, false),
];

/// Whether the value of this name is a secret.
pub(super) fn is_secret(name: &str) -> bool {
    let plain = name.trim_start_matches('-').to_ascii_lowercase().replace('_', "-");
    let is_one = SECRETS.contains(&plain.as_str()) || SECRET_ENDINGS.iter().any(|end| plain.ends_with(end));
    is_one && !NO_SECRET_BEGINNINGS.iter().any(|begin| plain.starts_with(begin))
}
