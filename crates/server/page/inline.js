// The content of a Markdown paragraph: emphasis, code, links. Creates nodes; everything else stays text.

import { appendInOrder, el } from "./dom.js";

/** How deep marks may be nested. */
const DEEPEST = 8;
/** Longer texts are shown as they are. */
const MOST = 30_000;

/** The alternatives in order, each bounded so that no text takes long. */
const MARKS = new RegExp([
  // Formulas stay as they are: backslashes in them are not escapes.
  "(?<math>\\\\\\((?=\\S)[^]{1,1000}?\\\\\\)|\\\\\\[(?=\\s)[^]{1,2000}?\\s\\\\\\]|\\$\\$[^$]{1,2000}\\$\\$|"
    // Also between single dollar signs, unless these denote money, alone or before an amount, or precede variable names.
    + "(?<![\\w$])\\$(?=[^\\s$\\])\\/.,;:@*?!#\"'])(?!\\{[A-Za-z_]\\w+[}:])(?!\\d[^$\\\\^_={}<>+\\n]{0,300} [^$\\\\^_={}<>+\\n]{0,300}\\$)(?:\\\\[^\\n]|[^$`\\\\\\n]){1,500}(?<![\\s(\\[\"])\\$(?![\\w${(@#]))",
  "\\\\(?<escaped>[!-/:-@\\[-`{-~])",
  "(?<ticks>`{1,3})(?<code>[^`]|[^`][^]{0,2000}?[^`])\\k<ticks>(?!`)",
  "(?<bang>!?)\\[(?<label>(?:[^\\[\\]\\n]|\\[[^\\[\\]\\n]{0,200}\\]){1,500})\\]\\((?:<(?<angled>[^<>\\n]{1,2000})>|(?<target>[^\\s()<>]{0,2000}(?:\\([^\\s()<>]{0,500}\\)[^\\s()<>]{0,500})?))(?:[ \\n]+[\"'(][^\"'\\n]{0,300}[\"')])?\\)",
  "<(?<auto>(?:https?:\\/\\/|mailto:)[^\\s<>]{1,2000})>",
  // Also ends at punctuation of scripts without spaces between words.
  "(?<bare>https?:\\/\\/[^\\s<>\"'`\\]\\u3000-\\u303f\\uff01-\\uff0f\\uff1a-\\uff1f\\uff3b-\\uff3d\\uff5b-\\uff65]{1,2000})",
  "\\*{3}(?=[^\\s*])(?<both>[^*]{1,2000}?[^\\s*]|[^\\s*])\\*{3}(?!\\*)",
  "(?<strong>\\*\\*|(?<![\\w_])__)(?=\\S)(?<bold>[^\\s*_\\\\]|[^]{1,2000}?\\S)\\k<strong>(?:(?<=\\*)(?!\\*)|(?<=_)(?![\\w_]))",
  "(?<em>\\*)(?=[^\\s*])(?<italic>[^*\\n]{1,1000}?[^\\s*]|[^\\s*])\\*(?!\\*)",
  "(?<![\\w_])_(?=[^\\s_])(?<under>[^_\\n]{1,1000}?[^\\s_]|[^\\s_])_(?![\\w_])",
  "~~(?=\\S)(?<gone>[^~\\n]{1,1000})~~",
  "(?<hard> {2,}\\n|\\\\\\n|<br ?\\/?>)",
  "&(?:#(?:(?<decimal>\\d{1,7})|[xX](?<hexadecimal>[\\da-fA-F]{1,6}))|(?<entity>[a-zA-Z]{2,6}));",
].join("|"), "g");

/** The named characters that models use. */
const ENTITIES = {
  amp: "&", lt: "<", gt: ">", quot: "\"", apos: "'", nbsp: "\u00a0", copy: "©", reg: "®", trade: "™", deg: "°", plusmn: "±", times: "×", divide: "÷", middot: "·", bull: "•",
  hellip: "…", ndash: "–", mdash: "—", laquo: "«", raquo: "»", lsquo: "‘", rsquo: "’", ldquo: "“", rdquo: "”", euro: "€", larr: "←", rarr: "→", le: "≤", ge: "≥", ne: "≠",
};

/** Appends a text with its marks to a node. */
export function appendInline(node, text, depth = 0) {
  if (text.length > MOST || depth > DEEPEST) {
    return appendInOrder(node, text);
  }
  let from = 0;
  for (const match of text.matchAll(MARKS)) {
    const [whole, groups] = [match[0], match.groups];
    const made = mark(whole, groups, depth);
    if (!made) continue;
    appendInOrder(node, text.slice(from, match.index)).append(...made);
    from = match.index + whole.length;
  }
  return appendInOrder(node, text.slice(from));
}

function mark(whole, groups, depth) {
  const within = (tag, text) => [appendInline(el(tag), text, depth + 1)];
  if (groups.math !== undefined) return [appendInOrder(el("code", { class: "math" }), whole)];
  if (groups.escaped !== undefined) return [groups.escaped];
  if (groups.code !== undefined) return [appendInOrder(el("code"), trimOnce(groups.code))];
  if (groups.label !== undefined) return linked(groups, depth) ?? [whole];
  if (groups.auto !== undefined) return [link(groups.auto, groups.auto) ?? whole];
  if (groups.bare !== undefined) {
    const address = withoutEnd(groups.bare);
    return [link(address, address) ?? address, groups.bare.slice(address.length)];
  }
  if (groups.both !== undefined) return [el("em", {}, within("strong", groups.both))];
  if (groups.bold !== undefined) return within("strong", groups.bold);
  if (groups.italic !== undefined) return within("em", groups.italic);
  if (groups.under !== undefined) return within("em", groups.under);
  if (groups.gone !== undefined) return within("del", groups.gone);
  if (groups.hard !== undefined) return [el("br")];
  return [...appendInOrder(el("span"), signOf(groups) ?? whole).childNodes];
}

/** Returns the character for a number or name, or undefined if there is no such character. */
function signOf({ decimal, hexadecimal, entity }) {
  if (entity !== undefined) return Object.hasOwn(ENTITIES, entity) ? ENTITIES[entity] : undefined;
  const number = decimal === undefined ? Number.parseInt(hexadecimal, 16) : Number(decimal);
  const isSign = number > 31 && number <= 0x10ffff && !(number >= 0xd800 && number <= 0xdfff);
  return isSign ? String.fromCodePoint(number) : undefined;
}

/** Creates a link, or for an image a link to it, because nothing is loaded from elsewhere. */
function linked(groups, depth) {
  const made = link(groups.angled ?? groups.target);
  if (!made) return undefined;
  if (groups.bang) made.append("image: ");
  return [appendInline(made, groups.label, depth + 1)];
}

/** Creates a link to an address, or returns undefined if its scheme is not one of these three. */
export function link(address, text) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return undefined;
  }
  if (!["http:", "https:", "mailto:"].includes(url.protocol)) return undefined;
  return el("a", { href: url.href, rel: "noopener noreferrer", target: "_blank", title: url.href, text });
}

/** Removes the end of a sentence from an address within it. */
function withoutEnd(address) {
  let end = address.replace(/[.,;:!?*_~]+$/, "");
  while (end.endsWith(")") && end.split(")").length > end.split("(").length) end = end.slice(0, -1);
  return end;
}

function trimOnce(code) {
  const flat = code.replaceAll("\n", " ");
  return flat.startsWith(" ") && flat.endsWith(" ") && flat.trim() ? flat.slice(1, -1) : flat;
}
