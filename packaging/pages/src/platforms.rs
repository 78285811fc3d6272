// SPDX-License-Identifier: Apache-2.0 OR MIT
//! nodebase-platforms(7), from the table that the generator reads.

use std::fmt::Write as _;

use anyhow::{Result, anyhow};
use nodebase_generator::platform::{Row, Table};

/// What stands before the tables.
const HEAD: &str = r#".\" SPDX-License-Identifier: Apache-2.0 OR MIT
.\" Made from units/platforms.json by `make pages`; a test says when it is old.
.Dd December 1, 2026
.Dt NODEBASE-PLATFORMS 7
.Os nodebase
.Sh NAME
.Nm nodebase-platforms
.Nd platform ids and cluster platforms, and what follows from them
.Sh DESCRIPTION
A
.Em platform
is where a machine runs.
It is an id of Ignition's, on the kernel command line:
.Cm ignition.platform.id= Ns Ar id .
A
.Em cluster platform
is what the cluster integrates with, in the words of OpenShift's Infrastructure
object.
The one does not follow from the other: machines on
.Ql metal
can belong to a
.Ql BareMetal
cluster, a
.Ql None
cluster and others.
The tables name the default; the fact
.Cm clusterPlatform
in
.Xr node.json 5
overrides it.
.Pp
Each column is a facet by its name, see
.Xr nodebase-layers 5 .
The tables are those of
.Pa /usr/lib/nodebase/platforms.json .
"#;

const FOOT: &str = r".Sh FILES
.Bl -tag -width Ds
.It Pa /usr/lib/nodebase/platforms.json
The tables.
A row or a column that an image adds there counts at the next boot.
.El
.Sh SEE ALSO
.Xr nodebase 1 ,
.Xr node.json 5 ,
.Xr nodebase-layers 5 ,
.Xr nodebase-generator 8
";

/// The page for the table with this text.
///
/// # Errors
/// A table that the generator would not take.
pub fn page(json: &[u8]) -> Result<String> {
    let table = Table::parse(json).map_err(|e| anyhow!("the platform table: {e}"))?;
    let mut text = HEAD.to_owned();
    text.push_str(
        ".Sh PLATFORMS\nAn id that is not among these is\n.Ql unknown :\nthe machine gets what all platforms have in \
         common.\n",
    );
    rows(&mut text, "platform", table.platforms());
    text.push_str(
        ".Pp\n.Cm network\nsays when the initramfs needs the network to fetch the Ignition config,\n.Cm timeSource\n\
         what chronyd follows,\n.Cm providerId\nwhether the \
         node finds out its provider id itself on clusters of type\n.Ql External .\n.Ss Aliases\nOther spellings, of \
         older boot images; layers use the id.\n",
    );
    let _ = writeln!(text, ".Bl -column \"oldspelling\" \"platform\"\n.It Em alias Ta Em platform");
    for row in table.platforms() {
        for alias in &row.aliases {
            let _ = writeln!(text, ".It {alias} Ta {}", row.name);
        }
    }
    text.push_str(
        ".El\n.Sh CLUSTER PLATFORMS\nA type that is not among these is treated as\n.Ql None .\n.Ql External\nhas an \
         external cloud provider where the fact\n.Cm cloudControllerManager\nis\n.Ql External .\n",
    );
    let named: Vec<Row> = table.cluster_platforms().iter().filter(|r| !r.name.is_empty()).cloned().collect();
    rows(&mut text, "clusterPlatform", &named);
    text.push_str(FOOT);
    Ok(text)
}

/// A table: a line for each row, a column for each facet that any row has.
fn rows(text: &mut String, first: &str, rows: &[Row]) {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flat_map(|r| &r.columns) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let width = |name: &str| {
        let values = rows.iter().filter_map(|r| r.column(name)).map(str::len).max().unwrap_or(0);
        "x".repeat(values.max(name.len()))
    };
    let key = "x".repeat(rows.iter().map(|r| r.name.len()).max().unwrap_or(0).max(first.len()));
    let _ = write!(text, ".Bl -column \"{key}\"");
    for name in &names {
        let _ = write!(text, " \"{}\"", width(name));
    }
    let _ = write!(text, "\n.It Em {first}");
    for name in &names {
        let _ = write!(text, " Ta Em {name}");
    }
    text.push('\n');
    for row in rows {
        let _ = write!(text, ".It {}", row.name);
        for name in &names {
            let _ = write!(text, " Ta {}", row.column(name).unwrap_or("\\-"));
        }
        text.push('\n');
    }
    text.push_str(".El\n");
}
