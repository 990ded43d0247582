use super::*;

fn words(text: &[&str]) -> Vec<String> {
    text.iter().map(|&word| word.to_owned()).collect()
}

/// Commands, and their recorded form.
const CUT: &[(&[&str], &[&str])] = &[
    (&["app", "--password=hunter2"], &["app", "--password=[secret]"]),
    (&["app", "--password=two words; and more"], &["app", "--password=[secret]"]),
    (&["app", "--password", "hunter2", "--verbose"], &["app", "--password", "[secret]", "--verbose"]),
    (&["app", "--db-passwd", "hunter2"], &["app", "--db-passwd", "[secret]"]),
    (&["app", "-token", "hunter2"], &["app", "-token", "[secret]"]),
    (&["app", "--authToken=hunter2"], &["app", "--authToken=[secret]"]),
    (&["rclone", "copy", "--sftp-pass", "hunter2", "a", "b"], &["rclone", "copy", "--sftp-pass", "[secret]", "a", "b"]),
    (&["rclone", "--s3-secret-access-key=hunter2"], &["rclone", "--s3-secret-access-key=[secret]"]),
    (
        &["rclone", "ls", ":s3,access_key_id=x,secret_access_key=hunter2:bucket"],
        &["rclone", "ls", ":s3,access_key_id=x,secret_access_key=[secret]"],
    ),
    (&["mysqldump", "-uroot", "-phunter2", "db"], &["mysqldump", "-uroot", "-p[secret]", "db"]),
    (&["sudo", "-u", "x", "/usr/bin/mariadb", "-phunter2"], &["sudo", "-u", "x", "/usr/bin/mariadb", "-p[secret]"]),
    (&["7z", "a", "-phunter2", "-mhe", "a.7z"], &["7z", "a", "-p[secret]", "-mhe", "a.7z"]),
    (&["rar", "a", "-hphunter2", "a.rar"], &["rar", "a", "-hp[secret]", "a.rar"]),
    (&["unzip", "-P", "hunter2", "a.zip"], &["unzip", "-P", "[secret]", "a.zip"]),
    (&["sshpass", "-p", "hunter2", "ssh", "-p", "22", "host"], &["sshpass", "-p", "[secret]", "ssh", "-p", "22", "host"]),
    (&["sshpass", "-phunter2", "rsync", "-a", "x", "h:"], &["sshpass", "-p[secret]", "rsync", "-a", "x", "h:"]),
    (&["ldapsearch", "-x", "-w", "hunter2"], &["ldapsearch", "-x", "-w", "[secret]"]),
    (&["redis-cli", "-a", "hunter2", "get", "x"], &["redis-cli", "-a", "[secret]", "get", "x"]),
    (&["mongodump", "-p", "hunter2"], &["mongodump", "-p", "[secret]"]),
    (&["docker", "login", "-u", "ana", "-p", "hunter2"], &["docker", "login", "-u", "ana", "-p", "[secret]"]),
    (&["curl", "-u", "ana:hunter2", "http://h/"], &["curl", "-u", "ana:[secret]", "http://h/"]),
    (&["curl", "-uana:hunter2", "http://h/"], &["curl", "-uana:[secret]", "http://h/"]),
    (&["curl", "--user", "ana:hunter2"], &["curl", "--user", "ana:[secret]"]),
    (&["curl", "--user=ana:hunter2"], &["curl", "--user=ana:[secret]"]),
    (&["curl", "-H", "Authorization: Bearer hunter2"], &["curl", "-H", "Authorization: [secret]"]),
    (&["curl", "-HAuthorization: Bearer hunter2"], &["curl", "-HAuthorization: [secret]"]),
    (&["curl", "--header=Cookie: session=hunter2; x=y"], &["curl", "--header=Cookie: [secret]"]),
    (&["curl", "-H", "X-Api-Key:hunter2"], &["curl", "-H", "X-Api-Key: [secret]"]),
    (&["curl", "-b", "session=hunter2"], &["curl", "-b", "[secret]"]),
    (&["curl", "-d", r#"{"user":"ana","password":"hunter2","n":1}"#], &["curl", "-d", r#"{"user":"ana","password":"[secret]","n":1}"#]),
    (&["curl", "-d", "user=ana&password=hunter2&n=1"], &["curl", "-d", "user=ana&password=[secret]&n=1"]),
    (&["curl", "https://h/?a=1&token=hunter2&b=2"], &["curl", "https://h/?a=1&token=[secret]&b=2"]),
    (&["curl", "https://h/x?X-Amz-Date=1&X-Amz-Signature=hunter2"], &["curl", "https://h/x?X-Amz-Date=1&X-Amz-Signature=[secret]"]),
    (&["azcopy", "cp", "https://h/c?sv=1&sig=hunter2"], &["azcopy", "cp", "https://h/c?sv=1&sig=[secret]"]),
    (&["git", "clone", "https://ana:hunter2@h/r.git"], &["git", "clone", "https://ana:[secret]@h/r.git"]),
    (&["psql", "postgresql://ana:hun@ter2@h:5432/db"], &["psql", "postgresql://ana:[secret]@h:5432/db"]),
    (&["psql", "host=h user=ana password=hunter2 dbname=x"], &["psql", "host=h user=ana password=[secret] dbname=x"]),
    (&["env", "PGPASSWORD=hunter2", "psql"], &["env", "PGPASSWORD=[secret]", "psql"]),
    (&["env", "AWS_SECRET_ACCESS_KEY=hunter2", "aws"], &["env", "AWS_SECRET_ACCESS_KEY=[secret]", "aws"]),
    (&["env", "MYSQL_PWD=hunter2", "mysql"], &["env", "MYSQL_PWD=[secret]", "mysql"]),
    (&["docker", "run", "-e", "GITHUB_TOKEN=hunter2", "x"], &["docker", "run", "-e", "GITHUB_TOKEN=[secret]", "x"]),
    (&["mount", "-o", "user=ana,password=hunter2,uid=0", "//h/s"], &["mount", "-o", "user=ana,password=[secret],uid=0", "//h/s"]),
    (&["aws", "configure", "set", "aws_secret_access_key", "hunter2"], &["aws", "configure", "set", "aws_secret_access_key", "[secret]"]),
    (&["sh", "-c", "PGPASSWORD=hunter2 psql -p 5432"], &["sh", "-c", "PGPASSWORD=[secret] psql -p 5432"]),
    (&["bash", "-ec", "cd /x && mysql -phunter2 < a | gzip -9"], &["bash", "-ec", "cd /x && mysql -p[secret] < a | gzip -9"]),
    (&["sh", "-c", "app --password 'hun ter2' -p 2"], &["sh", "-c", "app --password [secret] -p 2"]),
    (&["sh", "-c", "curl -H 'Authorization: Basic hunter2' h"], &["sh", "-c", "curl -H 'Authorization: [secret]' h"]),
    (&["ssh", "h", "PGPASSWORD=hunter2 pg_dump x"], &["ssh", "h", "PGPASSWORD=[secret] pg_dump x"]),
    (&["sh", "-c", "sh -c \"mysql -phunter2\""], &["sh", "-c", "sh -c 'mysql -p[secret]'"]),
    (&["smbclient", "-U", "ana%hunter2", "//h/s"], &["smbclient", "-U", "ana%[secret]", "//h/s"]),
    (&["sqlplus", "scott/hunter2@db"], &["sqlplus", "scott/[secret]@db"]),
    (&["openssl", "enc", "-pass", "pass:hunter2"], &["openssl", "enc", "-pass", "[secret]"]),
    (&["x", "AccountName=a;AccountKey=hunter2==;EndpointSuffix=e"], &["x", "AccountName=a;AccountKey=[secret];EndpointSuffix=e"]),
    (&["x", "AKIAIOSFODNN7EXAMPLE"], &["x", "[secret]"]),
    (&["x", "/a/ghp_0123456789abcdefghijABCDEFGHIJ012345/b"], &["x", "/a/[secret]/b"]),
    (&["x", "k:glpat-0123456789abcdefghij"], &["x", "k:[secret]"]),
    (&["x", "xoxb-0123456789-abcdef"], &["x", "[secret]"]),
    (&["x", "AIzaSyA0123456789abcdefghijklmnopqrstuv"], &["x", "[secret]"]),
    (&["x", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"], &["x", "[secret]"]),
];

/// Commands that are recorded unchanged.
const STAY: &[&[&str]] = &[
    &["nc", "-p", "2811"],
    &["cp", "-p", "a", "b"],
    &["mkdir", "-p", "/a/b"],
    &["ssh", "-p", "22", "host"],
    &["mysql", "-p", "db"],
    &["mysql", "-h", "host", "--port=3306"],
    &["docker", "run", "-p", "80:80", "x"],
    &["rsync", "-a", "--password-file=/etc/rsync.secret", "a", "b"],
    &["app", "--token-file", "/run/token", "--no-password", "x"],
    &["app", "--ask-password", "x"],
    &["ffmpeg", "-i", "a", "b"],
    &["dd", "if=/a", "of=/b", "bs=1M"],
    &["env", "PWD=/a/b", "LANG=C", "ls"],
    &["tar", "-cf", "a.tar", "tokens.txt", "passwords/"],
    &["rsync", "host:/data/", "ana@host:/x"],
    &["curl", "-o", "x", "http://host:8080/a?b=c"],
    &["curl", "-H", "Accept: text/plain"],
    &[
        "thalweg",
        "cp",
        "--credential",
        "ana.credential",
        "thal://10.0.0.5:7400#dlrij23xawoylxqqwel4nltpiodhv5ppfqxkuf5mpvr6vt2oo6ia/x",
        "y",
    ],
    &["globus-url-copy", "-p", "4", "-tcp-bs", "1M", "file:///a", "gsiftp://h:2811/b"],
    &["sh", "-c", "for i in 1 2 3; do echo \"$i\" > /a/$i; done; sort -k 2 'a b' | uniq -c"],
    &["sqlplus", "/nolog"],
    &["git", "clone", "git@github.com:a/b.git"],
    &["sort", "-k", "2", "-t:", "a"],
    &["cat", "secret", "password", "token"],
];

#[test]
fn what_looks_like_a_secret_is_cut_and_its_option_stays() {
    let wrong: Vec<_> =
        CUT.iter().map(|(given, recorded)| (cut_command(&words(given)), words(recorded))).filter(|(is, asked)| is != asked).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let again: Vec<_> = CUT.iter().map(|(_, recorded)| words(recorded)).filter(|recorded| cut_command(recorded) != *recorded).collect();
    assert!(again.is_empty(), "what was cut stays as it is: {again:#?}");
    assert!(CUT.iter().all(|(_, recorded)| was_cut(&words(recorded))));
}

#[test]
fn what_does_not_look_like_a_secret_stays_as_it_is() {
    for given in STAY {
        assert_eq!(cut_command(&words(given)), words(given));
    }
}

#[test]
fn names_of_objects_and_attributes_are_cut_and_paths_are_names() {
    assert_eq!(cut_text("https://ana:hunter2@h/x?token=a&n=1"), "https://ana:[secret]@h/x?token=[secret]&n=1");
    assert_eq!(cut_text("PGPASSWORD=hunter2 psql"), "PGPASSWORD=[secret] psql");
    assert!(matches!(cut_text("10.0.0.1:4000 > [::1]:2049"), Cow::Borrowed(_)));
    assert_eq!(text::shapes("/data/token=7/part-0.parquet"), "/data/token=7/part-0.parquet");
    assert_eq!(cut_line("thalweg cp --requests {} --token x thal:/a b"), "thalweg cp --requests {} --token [secret] thal:/a b");
}
