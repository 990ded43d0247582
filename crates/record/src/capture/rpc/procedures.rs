//! Names of ONC RPC programs and procedures, from their specifications.

/// The program number of NFS.
pub(crate) const NFS: u32 = 100_003;

const NFS_2: &[&str] = &[
    "NULL",
    "GETATTR",
    "SETATTR",
    "ROOT",
    "LOOKUP",
    "READLINK",
    "READ",
    "WRITECACHE",
    "WRITE",
    "CREATE",
    "REMOVE",
    "RENAME",
    "LINK",
    "SYMLINK",
    "MKDIR",
    "RMDIR",
    "READDIR",
    "STATFS",
];

const NFS_3: &[&str] = &[
    "NULL",
    "GETATTR",
    "SETATTR",
    "LOOKUP",
    "ACCESS",
    "READLINK",
    "READ",
    "WRITE",
    "CREATE",
    "MKDIR",
    "SYMLINK",
    "MKNOD",
    "REMOVE",
    "RMDIR",
    "RENAME",
    "LINK",
    "READDIR",
    "READDIRPLUS",
    "FSSTAT",
    "FSINFO",
    "PATHCONF",
    "COMMIT",
];

/// Operations of NFSv4, from number 3 on.
const NFS_4: &[&str] = &[
    "ACCESS",
    "CLOSE",
    "COMMIT",
    "CREATE",
    "DELEGPURGE",
    "DELEGRETURN",
    "GETATTR",
    "GETFH",
    "LINK",
    "LOCK",
    "LOCKT",
    "LOCKU",
    "LOOKUP",
    "LOOKUPP",
    "NVERIFY",
    "OPEN",
    "OPENATTR",
    "OPEN_CONFIRM",
    "OPEN_DOWNGRADE",
    "PUTFH",
    "PUTPUBFH",
    "PUTROOTFH",
    "READ",
    "READDIR",
    "READLINK",
    "REMOVE",
    "RENAME",
    "RENEW",
    "RESTOREFH",
    "SAVEFH",
    "SECINFO",
    "SETATTR",
    "SETCLIENTID",
    "SETCLIENTID_CONFIRM",
    "VERIFY",
    "WRITE",
    "RELEASE_LOCKOWNER",
    "BACKCHANNEL_CTL",
    "BIND_CONN_TO_SESSION",
    "EXCHANGE_ID",
    "CREATE_SESSION",
    "DESTROY_SESSION",
    "FREE_STATEID",
    "GET_DIR_DELEGATION",
    "GETDEVICEINFO",
    "GETDEVICELIST",
    "LAYOUTCOMMIT",
    "LAYOUTGET",
    "LAYOUTRETURN",
    "SECINFO_NO_NAME",
    "SEQUENCE",
    "SET_SSV",
    "TEST_STATEID",
    "WANT_DELEGATION",
    "DESTROY_CLIENTID",
    "RECLAIM_COMPLETE",
    "ALLOCATE",
    "COPY",
    "COPY_NOTIFY",
    "DEALLOCATE",
    "IO_ADVISE",
    "LAYOUTERROR",
    "LAYOUTSTATS",
    "OFFLOAD_CANCEL",
    "OFFLOAD_STATUS",
    "READ_PLUS",
    "SEEK",
    "WRITE_SAME",
    "CLONE",
    "GETXATTR",
    "SETXATTR",
    "LISTXATTRS",
    "REMOVEXATTR",
];

const MOUNT: &[&str] = &["NULL", "MNT", "DUMP", "UMNT", "UMNTALL", "EXPORT"];

const PORTMAP: &[&str] = &[
    "NULL",
    "SET",
    "UNSET",
    "GETPORT",
    "DUMP",
    "CALLIT",
    "GETTIME",
    "UADDR2TADDR",
    "TADDR2UADDR",
    "GETVERSADDR",
    "INDIRECT",
    "GETADDRLIST",
    "GETSTAT",
];

const LOCKS: &[&str] = &[
    "NULL",
    "TEST",
    "LOCK",
    "CANCEL",
    "UNLOCK",
    "GRANTED",
    "TEST_MSG",
    "LOCK_MSG",
    "CANCEL_MSG",
    "UNLOCK_MSG",
    "GRANTED_MSG",
    "TEST_RES",
    "LOCK_RES",
    "CANCEL_RES",
    "UNLOCK_RES",
    "GRANTED_RES",
];

/// The called procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Procedure {
    pub program: u32,
    pub version: u32,
    pub procedure: u32,
    /// The main operation of a compound, or 0.
    pub operation: u32,
}

/// Weight of an operation in choosing a compound's main one: moving data and modifying weigh most, finding the file
/// least.
pub(crate) fn weight(operation: u32) -> u8 {
    match operation {
        // SEQUENCE, and operations that only select a file.
        10 | 22 | 23 | 24 | 31 | 32 | 53 => 0,
        // GETATTR accompanies almost everything.
        9 => 1,
        3 | 15 | 16 | 17 | 37 => 2,
        _ => 3,
    }
}

impl Procedure {
    /// Returns the program's name, or its number.
    pub(crate) fn program_name(&self) -> String {
        match self.program {
            100_000 if self.version >= 3 => "rpcbind".to_owned(),
            100_000 => "portmap".to_owned(),
            NFS => "nfs".to_owned(),
            100_005 => "mount".to_owned(),
            100_011 => "rquota".to_owned(),
            100_021 => "nlm".to_owned(),
            100_024 => "status".to_owned(),
            100_227 => "nfsacl".to_owned(),
            other => other.to_string(),
        }
    }

    /// Returns the procedure's name, or its number.
    pub(crate) fn name(&self) -> String {
        let number = self.procedure as usize;
        let known = match (self.program, self.version) {
            (NFS, 2) => NFS_2.get(number),
            (NFS, 3) => NFS_3.get(number),
            (NFS, 4) => match (self.procedure, self.operation) {
                (0, _) => Some(&"NULL"),
                (_, 0) => Some(&"COMPOUND"),
                (_, operation) => (operation as usize).checked_sub(3).and_then(|i| NFS_4.get(i)),
            },
            (100_005, _) => MOUNT.get(number),
            (100_000, _) => PORTMAP.get(number),
            (100_021, _) => LOCKS.get(number),
            (100_227, _) => ["NULL", "GETACL", "SETACL"].get(number),
            _ if number == 0 => Some(&"NULL"),
            _ => None,
        };
        match known {
            Some(name) => (*name).to_owned(),
            None if self.operation != 0 => format!("operation {}", self.operation),
            None => format!("procedure {number}"),
        }
    }

    /// Whether the first word of its results is a status.
    pub(crate) fn has_status(&self) -> bool {
        self.procedure != 0 && (self.program == NFS || (self.program == 100_005 && self.procedure == 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn procedures_have_the_names_of_their_specifications() {
        let named = |program, version, procedure, operation| Procedure { program, version, procedure, operation }.name();
        assert_eq!(named(NFS, 3, 7, 0), "WRITE");
        assert_eq!(named(NFS, 3, 21, 0), "COMMIT");
        assert_eq!(named(NFS, 2, 8, 0), "WRITE");
        assert_eq!([38, 25, 18, 53, 75].map(|o| named(NFS, 4, 1, o)), ["WRITE", "READ", "OPEN", "SEQUENCE", "REMOVEXATTR"]);
        assert_eq!(named(NFS, 4, 1, 999), "operation 999");
        assert_eq!(named(100_005, 3, 1, 0), "MNT");
        assert_eq!(named(390_000, 1, 3, 0), "procedure 3");
    }
}
