// Hostile content of models, tools and ids: none of it becomes more than text, and however long it is, the page stays responsive.

import assert from "node:assert/strict";
import http from "node:http";
import { HOSTILE } from "./model.mjs";
import { ask, choose, go, over, say, sees, REBOUND } from "./world.mjs";

/** Returns the forbidden elements on the page. */
function intruders(page) {
  return page.evaluate(() => {
    const odd = [...document.querySelectorAll("#main script, #main img, #main iframe, #main style, #main object, #main [onclick], #main [onerror], #main [onload], #side script, #side img")];
    const links = [...document.querySelectorAll("a[href]")].filter((link) => !["http:", "https:", "mailto:"].includes(new URL(link.href).protocol));
    return { pwned: window.pwned, odd: odd.map((node) => node.outerHTML), links: links.map((link) => link.href) };
  });
}

const NOTHING = { pwned: undefined, odd: [], links: [] };

export async function runs_nothing_of_what_models_say(world) {
  const page = await world.open();
  await choose(page, "Channel", "code_task");
  await say(page, `hostile ${HOSTILE}`);
  await page.waitForSelector(".ask .answers");
  await sees(page, ".ask .exact pre", "window.pwned = 1");
  assert.deepEqual(await intruders(page), NOTHING);
  await world.picture(page, "hostile-question");
  await page.click(".ask .primary");
  await over(page, 1);
  await page.click(".reasoning >> nth=0");
  await page.click(".call summary >> nth=0");
  await sees(page, ".md", "window.pwned = 1");
  await sees(page, ".odd", "U+202E");
  assert.deepEqual(await intruders(page), NOTHING);
  await world.picture(page, "hostile");
  await page.click(".actions a");
  await page.waitForSelector(".bar-row");
  assert.deepEqual(await intruders(page), NOTHING);
  for (let at = 0; at < (await page.locator(".bar-row").count()); at += 1) {
    await page.click(`.bar-row >> nth=${at}`);
    await page.waitForSelector(".detail");
    for (const summary of await page.locator(".detail summary").all()) await summary.click();
    assert.deepEqual(await intruders(page), NOTHING);
  }
  await world.picture(page, "hostile-detail");
  for (const tab of ["Events", "Replay", "Decision"]) {
    await page.click(`[role=tab] >> text=${tab}`);
    assert.deepEqual(await intruders(page), NOTHING);
  }
  for (const hash of ["#/sessions/<img src=x onerror=window.pwned=1>", "#/runs/javascript:window.pwned=2", "#/sessions/%E0%A4%A", "#/sessions/..%2F..%2Fhealthz"]) {
    await page.goto(`${world.url}/${hash}`);
    await page.reload();
    await page.waitForSelector(".failure");
    assert.deepEqual(await intruders(page), NOTHING);
  }
  await page.goto(`${world.url}/`);
}

export async function shows_what_an_approval_would_allow_with_signs_that_cannot_be_seen(world) {
  const page = await world.open();
  await choose(page, "Channel", "code_task");
  await say(page, "turned please");
  await page.waitForSelector(".ask .answers");
  const options = await page.locator(".ask .remember option").allTextContents();
  assert.ok(options.some((text) => text.includes("srcU+200B/")), options.join("\n"));
  assert.ok(options.every((text) => !/[\u200b\u202e]/.test(text)), options.join("\n"));
  await page.click(".ask .danger");
  await over(page, 1);
}

export async function shows_what_a_person_wrote_as_it_is(world) {
  const page = await world.open();
  // Invisible joiners and marks, and one character that reverses the order of others.
  const said = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 50%\u200f (x)\u200e \u2764\ufe0f \u202eabc";
  const shown = said.replace("\u202e", "U+202E");
  await ask(page, said);
  assert.equal(await page.locator(".turn .bubble").innerText(), shown);
  await sees(page, ".session-list .title", shown);
  // The same holds for places that can hold only text.
  assert.equal(await page.title(), `${shown} · Neuraxis`);
  assert.equal(await page.locator("#where").textContent(), shown);
  const told = await page.evaluate(() => [...document.querySelectorAll("[title], [aria-label]")].map((node) => `${node.title}${node.ariaLabel}`));
  assert.ok(told.some((text) => text.includes(shown)));
  assert.ok(told.every((text) => !text.includes("\u202e")));
  await page.reload();
  await over(page, 1);
  assert.equal(await page.locator(".turn .bubble").innerText(), shown);
  await page.click(".actions a");
  await sees(page, ".run-head h1", shown);
  await go(page, "#/runs");
  await sees(page, ".runs tbody a", shown);
  // If the text has no visible characters, the id is shown.
  await world.api("/sessions/unseen/turns", { message: "\u200b" });
  await page.reload();
  await sees(page, ".session-list .title", "unseen");
  assert.match(await page.locator(".runs tbody a").first().innerText(), /^[0-9a-f-]{36}$/);
}

export async function goes_on_answering_whatever_its_length(world) {
  const page = await world.open();
  await page.evaluate(() => {
    let last = performance.now();
    window.longest = 0;
    setInterval(() => { window.longest = Math.max(window.longest, performance.now() - last); last = performance.now(); }, 20);
  });
  await say(page, "big please");
  await page.waitForSelector(".turn-foot .facts", { timeout: 60_000 });
  await page.waitForFunction(() => document.querySelectorAll(".md > p").length === 1000, null, { timeout: 60_000 });
  assert.ok((await page.evaluate(() => document.querySelector(".reply > .md").textContent.length)) > 900_000);
  const longest = await page.evaluate(() => window.longest);
  assert.ok(longest < 3000, `the page did not answer for ${longest} ms`);

  // A run of five thousand records, in the server's format.
  const { runs } = await world.api("/runs");
  const run = runs[0].run_id;
  const at = (seq) => new Date(Date.UTC(2026, 0, 1) + seq * 10).toISOString();
  const base = (seq) => ({ seq, run_id: run, agent: "a0", turn: 1, at: at(seq) });
  const records = [{ ...base(1), type: "run_started", session_id: "s", spec: { messages: [] }, history: { count: 0 } }];
  while (records.length < 4999) {
    const seq = records.length + 1;
    const call = `call_${Math.floor(seq / 2)}`;
    records.push(seq % 2 ? { ...base(seq), type: "tool_result", tool_call_id: call, name: "calculate", status: "done", value: { result: "42" }, duration_ms: 5 }
      : { ...base(seq), type: "tool_call", tool_call_id: call, name: "calculate", arguments: "{\"expression\":\"6 * 7\"}", attempt: 1, class: "read_only" });
  }
  records.push({ ...base(5000), type: "final", content: "Done.", finish_reason: "stop", turns: 1, usage: { total_tokens: 1 } });
  const body = records.map((record) => `id: ${record.seq}\nevent: ${record.type}\ndata: ${JSON.stringify(record)}\n\n`).join("");
  await page.route(`**/runs/${run}/events`, (route) => route.fulfill({ contentType: "text/event-stream", body }));
  await page.evaluate(() => { window.longest = 0; });
  await page.click(".actions a");
  await page.waitForSelector(".bar-row");
  await page.click("[role=tab] >> text=Events");
  await sees(page, ".filters", "5,000 of 5,000");
  assert.equal(await page.locator(".log > li").count(), 200);
  await page.click("[role=tab] >> text=Replay");
  await sees(page, ".replay-word", "5000 of 5000");
  await sees(page, ".stage .md", "Done.");
  const again = await page.evaluate(() => window.longest);
  assert.ok(again < 3000, `the page did not answer for ${again} ms`);
}

/** A page of another origin that tries everything a browser might allow. */
const ATTACK = (url) => `<!doctype html><title>attack</title><iframe id="frame" src="${url}/"></iframe><script>
const tries = [
  fetch("${url}/api/v1/sessions", { method: "POST", headers: { "content-type": "application/json" }, body: "{\\"id\\":\\"a\\"}" }),
  fetch("${url}/api/v1/sessions", { method: "POST", mode: "no-cors", body: "{\\"id\\":\\"b\\"}" }),
  fetch("${url}/api/v1/policy"),
];
Promise.allSettled(tries).then((all) => { document.title = all.map((one) => (one.status === "fulfilled" ? one.value.type : "refused")).join(" "); });
</script><form id="form" action="${url}/api/v1/sessions" method="post" enctype="text/plain"><input name='{"id":"c","x":"' value='"}'></form>`;

export async function keeps_pages_of_other_origins_out(world) {
  const attacker = http.createServer((request, response) => response.writeHead(200, { "content-type": "text/html" }).end(ATTACK(world.server)));
  await new Promise((done) => attacker.listen(0, "127.0.0.1", done));
  const context = await world.browser.newContext();
  const page = await context.newPage();
  await page.goto(`http://127.0.0.1:${attacker.address().port}/`);
  await page.waitForFunction(() => document.title !== "attack");
  assert.equal(await page.title(), "refused opaque refused");
  const framed = page.frames().find((frame) => frame !== page.mainFrame());
  assert.equal(await framed.evaluate(() => document.querySelector("#message")), null, "it stands in nobody's frame");
  await page.evaluate(() => document.getElementById("form").submit());
  await page.waitForURL(`${world.server}/**`);
  assert.match(await page.content(), /foreign-origin/);
  // A host name whose owner made it point here.
  const rebound = await page.goto(`${world.server.replace("127.0.0.1", REBOUND)}/`);
  assert.equal(rebound.status(), 403);
  assert.match(await page.content(), /foreign-host/);
  assert.deepEqual((await world.api("/sessions")).sessions, []);
  await context.close();
  attacker.close();
}

/** The Markdown renderer on its own: inputs, and the expected HTML of its nodes. */
const MARKDOWN = [
  ["plain <b>text</b> & more", "<p>plain &lt;b&gt;text&lt;/b&gt; &amp; more</p>"],
  ["**a *b* c**", "<p><strong>a <em>b</em> c</strong></p>"],
  ["snake_case_name and 2 * 3 * 4", "<p>snake_case_name and 2 * 3 * 4</p>"],
  ["`` a ` b `` \\*no\\*", "<p><code>a ` b</code> *no*</p>"],
  ["# One\n## Two", "<h3>One</h3><h4>Two</h4>"],
  ["- a\n- b\n  1. c\n\nd", "<ul><li>a</li><li>b<ol><li>c</li></ol></li></ul><p>d</p>"],
  ["3. a\n4. b", "<ol start=\"3\"><li>a</li><li>b</li></ol>"],
  ["> a\n> > b", "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>"],
  ["---", "<hr>"],
  ["a\nb  \nc", "<p>a\nb<br>c</p>"],
  ["[a](javascript:alert(1))", "<p>[a](javascript:alert(1))</p>"],
  ["[a](/relative) [b](//elsewhere)", "<p>[a](/relative) [b](//elsewhere)</p>"],
  ["see https://a.example/b_c_(d), and", "<p>see <a href=\"https://a.example/b_c_(d)\">https://a.example/b_c_(d)</a>, and</p>"],
  ["\u8be6\u89c1https://a.example/b\uff0c\u7136\u540e\u3002", "<p>\u8be6\u89c1<a href=\"https://a.example/b\">https://a.example/b</a>\uff0c\u7136\u540e\u3002</p>"],
  ["| a | b |\n| - | -: |\n| 1 | 2 \\| 3 |", "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td>2 | 3</td></tr></tbody></table>"],
  ["```js\nlet a = \"<b>\";\n```", "<pre><code><span>let</span> a = <span>\"&lt;b&gt;\"</span>;</code></pre>"],
  ["```unheard-of\nlet a = 1;\n```", "<pre><code>let a = 1;</code></pre>"],
  ["````md\n```js\na\n```\n\nb\n````\n\nc", "<pre><code>```js\na\n```\n\nb</code></pre><p>c</p>"],
  ["~~~ `a`\nb\n~~~", "<pre><code>b</code></pre>"],
  ["```python title=\"a`b\"\nx\n```\nc", "<pre><code>x</code></pre><p>c</p>"],
  ["```a``` b\n\nc", "<p><code>a</code> b</p><p>c</p>"],
  ["1. a\n\n   ```\n   b\n\n\n   c\n   ```\n\n\n2. d\n\n\ne", "<ol><li>a<pre><code>b\n\n\nc</code></pre></li><li>d</li></ol><p>e</p>"],
  ["shop__list and shop__order, __init__ and __a__b__", "<p>shop__list and shop__order, <strong>init</strong> and <strong>a__b</strong></p>"],
  ["***both*** and **a *b***", "<p><em><strong>both</strong></em> and <strong>a <em>b</em></strong></p>"],
  ["It is:\n| a | b |\n| - | - |\n| 1 | 2 |", "<p>It is:</p><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody></table>"],
  ["**A** letter, **1** and __y__, but **ab** and ***c***, **\\*** and a ***** b", "<p><strong>A</strong> letter, <strong>1</strong> and <strong>y</strong>, but <strong>ab</strong> and <em><strong>c</strong></em>, <strong>*</strong> and a ***** b</p>"],
  ["| a |\n| - |\n| 1<br>2 &amp; 3&nbsp;&lt;b&gt; &copy; &#8364; |", "<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>1<br>2 &amp; 3&nbsp;&lt;b&gt; \u00a9 \u20ac</td></tr></tbody></table>"],
  ["&nothing; &constructor; &#xD800; &#x202E;", "<p>&amp;nothing; &amp;constructor; &amp;#xD800; <span>U+202E</span></p>"],
  ["One\n===\nTwo\nlines\n---\nc", "<h3>One</h3><h4>Two\nlines</h4><p>c</p>"],
  ["a:\n\n    if b:\n        c\n\n    d\n\ne", "<p>a:</p><pre><code>if b:\n    c\n\nd</code></pre><p>e</p>"],
  ["a\n    b\n\n- c\n\n      d", "<p>a\nb</p><ul><li>c<p>d</p></li></ul>"],
  ["[a](<https://a.example/b c>) [b](<javascript:alert(1)>)", "<p><a href=\"https://a.example/b%20c\">a</a> [b](&lt;javascript:alert(1)&gt;)</p>"],
  ["\\(a_1 \\{b\\}\\) and \\[x\\]", "<p><code>\\(a_1 \\{b\\}\\)</code> and [x]</p>"],
  ["$$\na \\\\\nb\n$$", "<p><code>$$\na \\\\\nb\n$$</code></p>"],
  ["\\[\n\\frac{a}{b}\n\\]", "<p><code>\\[\n\\frac{a}{b}\n\\]</code></p>"],
  ["$$\na\n\n- b\n= c\n$$\n\nd", "<p><code>$$\na\n\n- b\n= c\n$$</code></p><p>d</p>"],
  ["So:\n\\[\na\n+ b\n\\]\nand *c*", "<p>So:</p><p><code>\\[\na\n+ b\n\\]</code></p><p>and <em>c</em></p>"],
  ["$$ *a*\n\n```\n$$\n```", "<p>$$ <em>a</em></p><pre><code>$$</code></pre>"],
  ["$$\n*a*\n\nb", "<p>$$\n<em>a</em></p><p>b</p>"],
  ["($x_i^{*} = y_i^{*}$), $a*b*c$, $\\{x \\mid x>0\\}$ and $2n$", "<p>(<code>$x_i^{*} = y_i^{*}$</code>), <code>$a*b*c$</code>, <code>$\\{x \\mid x&gt;0\\}$</code> and <code>$2n$</code></p>"],
  ["Price $5 and $6, $5-$6, *US$7*, $8 *or* so (in US$)", "<p>Price $5 and $6, $5-$6, <em>US$7</em>, $8 <em>or</em> so (in US$)</p>"],
  ["Revenue ($) grew *12 %*, costs ($) fell; ($/kg, *net*) and ($/lb)", "<p>Revenue ($) grew <em>12 %</em>, costs ($) fell; ($/kg, <em>net</em>) and ($/lb)</p>"],
  ["${HOME}/${USER}, $(pwd)/$(whoami), ${a}-${b}, \"$@\" and \"$*\"", "<p>${HOME}/${USER}, $(pwd)/$(whoami), ${a}-${b}, \"$@\" and \"$*\"</p>"],
  ["Is it $x$? **For all $(0,1)$**, $f'$/$g$!", "<p>Is it <code>$x$</code>? <strong>For all <code>$(0,1)$</code></strong>, <code>$f'$</code>/<code>$g$</code>!</p>"],
  ["$$ is the shell\n\n- **$!** is the last\n- echo $$", "<p>$$ is the shell</p><ul><li><strong>$!</strong> is the last</li><li>echo $$</li></ul>"],
  ["$$ a = b\n\n- c\n$$", "<p><code>$$ a = b\n\n- c\n$$</code></p>"],
  ["$HOME/$USER, `$a`$ *b* $", "<p>$HOME/$USER, <code>$a</code>$ <em>b</em> $</p>"],
  ["```\nopen", "<pre><code>open</code></pre>"],
  ["", ""],
];

export async function renders_markdown(world) {
  const page = await world.open();
  const made = await page.evaluate(async (cases) => {
    const { Growing, render } = await import("/assets/markdown.js");
    /** The HTML without purely visual parts. */
    const bare = (node) => {
      const copy = node.cloneNode(true);
      copy.querySelectorAll("figcaption").forEach((it) => it.remove());
      for (const it of [...copy.querySelectorAll("figure, div.table")]) it.replaceWith(...it.childNodes);
      for (const it of copy.querySelectorAll("*")) for (const { name } of [...it.attributes]) if (!["href", "start"].includes(name)) it.removeAttribute(name);
      return copy.innerHTML;
    };
    const whole = cases.map(([text]) => bare(render(document.createElement("div"), text)));
    /** A text that grows by one character at a time. */
    const grow = (text) => {
      const at = document.createElement("div");
      const growing = new Growing(at);
      for (let end = 1; end <= text.length; end += 1) {
        growing.set(text.slice(0, end));
        growing.layOut();
      }
      return bare(at);
    };
    const all = cases.map(([text]) => text).join("\n\n");
    const slow = ["*", "[", "`", "_", "~", "<", "\\", "**a ", "_a ", "[a](", "![", "<http://", "http://", "a ", "`a", "> ", "- ", "|", "| - ", "\n- ", "\n> ", "\n", "\n\n  ", "***", "**a***", "__a", "``` ", "```a `", "  \n", "1. ", "\\(", "\\(a ", "\\[ ", "$$", "$$ a ", "$$\n", "$$\n\n", "\\[\n", "$", "$a", "$a ", "$1 ", "$1 a b ", "$\\", "&", "&#", "&#1", "<br", "[a](<", "a\n===\n", "    a\n\n", "    \n"].map((part) => part.repeat(Math.ceil(29_000 / part.length)));
    const took = slow.map((text) => { const begun = performance.now(); render(document.createElement("div"), text); return Math.round(performance.now() - begun); });
    return { whole, each: cases.map(([text]) => grow(text)), grown: grow(all), once: bare(render(document.createElement("div"), all)), took };
  }, MARKDOWN);
  MARKDOWN.forEach(([text, expected], at) => assert.equal(made.whole[at], expected, text));
  // A growing text ends in the same result as the whole text at once.
  MARKDOWN.forEach(([text, expected], at) => assert.equal(made.each[at], expected, text));
  assert.equal(made.grown, made.once);
  assert.ok(made.took.every((ms) => ms < 3000), `some text takes too long: ${made.took}`);
}
