//! An MCP server in the language of the shell, which behaves but for what a test says.

/// What the server does of itself: it begins as those of 2025-11-25 do, and has one tool.
const ACTS: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
refuse() { printf '{"jsonrpc":"2.0","id":%s,"error":{"code":%s,"message":"%s"}}\n' "$id" "$1" "$2"; }
text() { answer '{"content":[{"type":"text","text":"'"$1"'"}]}'; }
changed() { printf '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'; }
begin() { answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"script","version":"1"}}'; }
list() { answer '{"tools":[{"name":"look","description":"Looks.","inputSchema":{"type":"object"}}]}'; }
call() { text ok; }
other() { :; }
"#;

const LOOP: &str = r#"
while IFS= read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *'"method":"server/discover"'*) refuse -32601 unknown ;;
    *'"method":"initialize"'*) begin ;;
    *'"method":"tools/list"'*) list ;;
    *'"method":"tools/call"'*) call ;;
    *) other ;;
  esac
done
"#;

/// Returns a script for `sh` that is an MCP server over standard input and output, with one tool, `look`.
///
/// `acts` is run first, and may put functions in place of its own: `begin`, `list`, `call` and `other` (anything else) are
/// called for each message, which is in `$line`, its id in `$id`. They may use `answer RESULT`, `refuse CODE MESSAGE`,
/// `text TEXT` (the result of a call) and `changed` (says that the list of tools is another one).
///
/// ```
/// let server = neuraxis_testkit::mcp_script(
///     r#"
///     list() { answer '{"tools":[{"name":"shout","inputSchema":{"type":"object"}}]}'; }
///     call() { text "seen $WORD"; }
///     "#,
/// );
/// // To be started as `sh -c SERVER`, with the variable WORD.
/// assert!(server.contains("tools/list"));
/// ```
#[must_use]
pub fn mcp_script(acts: &str) -> String {
    format!("{ACTS}\n{acts}\n{LOOP}")
}
