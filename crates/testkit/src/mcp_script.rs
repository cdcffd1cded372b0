//! An MCP server as a shell script, which behaves correctly except where a test changes it.

/// The default behavior: the handshake of protocol version 2025-11-25, and one tool.
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
/// `acts` runs first, and may redefine functions: `begin`, `list`, `call` and `other` (everything else) are called for
/// each message, which is in `$line`, with its id in `$id`. They may use `answer RESULT`, `refuse CODE MESSAGE`, `text
/// TEXT` (the result of a call) and `changed` (the notification that the list of tools has changed).
///
/// ```
/// let server = neuraxis_testkit::mcp_script(
///     r#"
///     list() { answer '{"tools":[{"name":"shout","inputSchema":{"type":"object"}}]}'; }
///     call() { text "seen $WORD"; }
///     "#,
/// );
/// // Start it with `sh -c SERVER`, with the variable WORD.
/// assert!(server.contains("tools/list"));
/// ```
#[must_use]
pub fn mcp_script(acts: &str) -> String {
    format!("{ACTS}\n{acts}\n{LOOP}")
}
