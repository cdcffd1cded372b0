// Syntax highlighting: comments, strings, numbers and keywords, as far as families of languages share them.
//
// It scans a text once and creates text nodes and spans. What it does not recognize stays as it is, because a wrong color is worse than
// none.

import { appendInOrder, el } from "./dom.js";

/** Longer texts are shown without colors. */
const MOST = 100_000;

const SLASHES = "\\/\\/[^\\n]*|\\/\\*[^]*?(?:\\*\\/|$)";
const HASH = "(?<![\\w$&])#[^\\n]*";
const DASHES = "--[^\\n]*";
const DOUBLE = '"(?:[^"\\\\\\n]|\\\\[^])*"?';
/** Bounded: a lone apostrophe would otherwise be matched to the end of its line each time. */
const SINGLE = "'(?:[^'\\\\\\n]|\\\\[^]){0,1000}'";
const TEMPLATE = "`(?:[^`\\\\]|\\\\[^])*`?";
const TRIPLE = '"""[^]*?(?:"""|$)|\'\'\'[^]*?(?:\'\'\'|$)';
const LETTER = "'(?:[^'\\\\\\n]|\\\\[^'\\n]{1,10})'";

const COMMON = "break case catch class const continue default do else enum export extends false finally for function if import in interface new null package private protected public return static super switch this throw true try typeof void while";

/** Each family: the names of its languages, its comments, strings and keywords, and whether keywords are case-insensitive. */
const FAMILIES = [
  ["js javascript jsx mjs ts tsx typescript json json5 jsonc", SLASHES, `${DOUBLE}|${SINGLE}|${TEMPLATE}`, `${COMMON} as async await debugger declare delete from implements instanceof keyof let namespace of readonly satisfies set get type undefined var with yield`],
  ["rust rs", SLASHES, `${DOUBLE}|${LETTER}`, "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type union unsafe use where while"],
  ["c h cpp c++ hpp cc java kotlin kt scala swift dart cs csharp c# go golang zig proto protobuf groovy", SLASHES, `${DOUBLE}|${SINGLE}|${TEMPLATE}`, `${COMMON} abstract and as auto bool boolean byte chan char data defer defined delete double elif endif explicit extension extern fallthrough final float fun func go goto guard ifdef ifndef include init inline int internal is let lock long map match message mut namespace nil nullptr object operator out override pub range record ref register repeated sealed select self short signed sizeof string struct template throws trait type typedef typename uint union unsafe unsigned using val var virtual volatile when where yield`],
  ["php", `${SLASHES}|${HASH}`, `${DOUBLE}|${SINGLE}`, `${COMMON} abstract array as and clone echo elseif endif endforeach extends fn foreach global implements include instanceof match namespace or require trait use var yield`],
  ["py python python3 starlark", HASH, `${TRIPLE}|${DOUBLE}|${SINGLE}`, "and as assert async await break case class continue def del elif else except False finally for from global if import in is lambda match None nonlocal not or pass raise return True try while with yield"],
  ["sh bash zsh shell console fish dockerfile docker make makefile", HASH, `${DOUBLE}|'[^']*'?`, "case do done elif else esac export fi for function if in local return set select source then until unset while FROM RUN COPY CMD ENTRYPOINT ENV WORKDIR EXPOSE ARG USER VOLUME"],
  ["rb ruby perl pl r julia elixir ex nix tcl", HASH, `${DOUBLE}|${SINGLE}`, "and begin break case class def defmodule do else elsif end ensure false fn for foreach function if in let module my next nil not or our package rescue return self sub then true unless until use when while yield"],
  ["toml yaml yml ini conf properties hcl terraform tf", `${HASH}|(?<=^|\\n);[^\\n]*`, `${TRIPLE}|${DOUBLE}|${SINGLE}`, "true false null yes no on off"],
  ["sql mysql postgres postgresql sqlite plsql", `${DASHES}|\\/\\*[^]*?(?:\\*\\/|$)`, "'(?:[^']|'')*'?|\"[^\"\\n]*\"", "add all alter and as asc begin between by case check column commit constraint create cross database default delete desc distinct drop else end exists foreign from full group having if in index inner insert into is join key left like limit not null offset on or order outer primary references returning right rollback select set table then transaction union unique update using values view when where with", true],
  ["lua hs haskell elm ada", DASHES, `${DOUBLE}|${SINGLE}`, "and break case class data deriving do else elseif end false for function if import in instance let local module newtype nil not of or repeat return then true type until where while"],
  ["css scss less", SLASHES, `${DOUBLE}|${SINGLE}`, "important media supports keyframes import from to root var calc"],
  ["html xml svg vue xhtml", "<!--[^]*?(?:-->|$)", `${DOUBLE}|${SINGLE}`, ""],
];

const TAG = "(?<=<\\/?)[A-Za-z][\\w:-]*";

const known = new Map();

/** Returns the reader for a language, or undefined if it is unknown. */
function readerOf(language) {
  const name = language.toLowerCase();
  if (known.has(name)) return known.get(name);
  const [names, comments, strings, words, isAnyCase] = FAMILIES.find(([all]) => all.split(" ").includes(name)) ?? [];
  const reader = names && {
    marks: new RegExp(`(?<comment>${comments})|(?<string>${strings})|(?<number>(?<![\\w.])\\d[\\w.]*)|(?<word>${words ? "[A-Za-z_$][\\w$]*" : TAG})`, "g"),
    words: words ? new Set(words.split(" ")) : undefined,
    isAnyCase,
  };
  known.set(name, reader);
  return reader;
}

/** Appends code to a node, with colors if the language is known. */
export function appendCode(node, text, language = "") {
  const reader = text.length <= MOST ? readerOf(language) : undefined;
  if (!reader) return appendInOrder(node, text);
  let from = 0;
  for (const { 0: whole, index, groups } of text.matchAll(reader.marks)) {
    const kind = groups.comment ? "comment" : groups.string ? "string" : groups.number ? "number" : "word";
    if (kind === "word" && reader.words && !reader.words.has(reader.isAnyCase ? whole.toLowerCase() : whole)) continue;
    if (index > from) appendInOrder(node, text.slice(from, index));
    node.append(appendInOrder(el("span", { class: `code-${kind}` }), whole));
    from = index + whole.length;
  }
  return appendInOrder(node, text.slice(from));
}
