// @ts-check
// The policy's file, as text: checked while it is written, saved whole or not at all.
import { useEffect, useRef, useState } from "preact/hooks";
import { call, problemOf } from "../api.js";
import { useKeys } from "../keys.js";
import { counted } from "../run/text.js";
import { draft, failed, toast } from "../store.js";
import { Button, html, Notice, Spinner, Trouble } from "../ui.js";
import { forClient, ruled, useAsked } from "./asked.js";
import { Editor } from "./editor.js";
import { Opens } from "./opens.js";
import { Whose } from "./whose.js";

/** @typedef {import("./opens.js").Checked} Checked */
/** @typedef {{file: string, there: boolean, text: string, revision: string}} File */

const PAUSE = 400;
const EXAMPLE = `# What runs may reach, besides their own model and reading GitHub.
domains:
  - api.example.org          # that host, over https and http
  # - "*.cdn.example.org"    # every name below it, not cdn.example.org itself
  # - host: db.example.org
  #   ports: [5432]

# services: [npm, pip]       # your package registries, as your own settings name them
# deny: [tracker.example.org]
# ask: true                  # hold what is refused, and ask me
`;

/** @param {{client: string}} props */
export function Policy({ client }) {
  const path = forClient("/settings/policy", client);
  const { data, problem, again, set } = useAsked(path);
  const seen = useRef(ruled.value);
  const isFree = draft(`policy.${client}`).value === "";
  // What somebody writes here is not disturbed: then it is read when that is saved or dropped.
  useEffect(() => {
    if (!isFree || seen.current === ruled.value) return;
    seen.current = ruled.value;
    again();
  }, [isFree, ruled.value]);
  if (problem && !data) return html`<${Whose} tab="policy" client=${client} /><${Trouble} problem=${problem} />`;
  if (!data) return html`<${Spinner} label="Loading" />`;
  return html`<${Editing} file=${data} client=${client} path=${path} onSaved=${set} onStale=${again} />`;
}

/**
 * What a draft would mean, a moment after it was last changed.
 * @param {string} text @param {string} client @param {boolean} wanted
 * @returns {[Checked | null, (found: Checked | null) => void]}
 */
function useCheck(text, client, wanted) {
  const [found, setFound] = useState(/** @type {Checked | null} */ (null));
  const asked = useRef(false);
  useEffect(() => {
    if (!wanted) return setFound(null);
    const stop = new AbortController();
    const ask = () =>
      call("POST", forClient("/settings/policy/check", client), { text }, { signal: stop.signal }).then(
        setFound,
        (error) => stop.signal.aborted || setFound(unchecked(error)),
      );
    const timer = setTimeout(ask, asked.current ? PAUSE : 0);
    asked.current = true;
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [text, client, wanted]);
  return [found, setFound];
}

/** What a refusal says of the text; a server that is away says nothing of it. @param {unknown} error @returns {Checked | null} */
function unchecked(error) {
  const { status, errors, hint } = problemOf(error);
  if (status !== 422) return null;
  const problems = errors.map(({ where, what }) => {
    const line = /^line (\d+)$/.exec(where);
    return { line: line && Number(line[1]), what, hint };
  });
  return { ok: false, problems, rules: [], deny: [], ask: null, pending: [], upstreams: [], host_services: [] };
}

/**
 * @param {{file: File, client: string, path: string, onSaved: (file: File) => void, onStale: () => Promise<void>}} props
 */
function Editing({ file, client, path, onSaved, onStale }) {
  // What the draft was begun from: if the file is another by now, the person decides.
  const kept = draft(`policy.${client}`);
  const base = draft(`policy.${client}.base`);
  const [text, setText] = useState(kept.value || file.text);
  const [busy, setBusy] = useState(false);
  const [found, setFound] = useCheck(text, client, file.there || text !== "");
  const editor = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const changed = text !== file.text;
  const stale = changed && base.value !== "" && base.value !== file.revision;

  const write = (/** @type {string} */ value) => {
    setText(value);
    if (!base.value) base.value = file.revision;
    kept.value = value === file.text ? "" : value;
    if (value === file.text) base.value = "";
  };
  const drop = () => {
    kept.value = base.value = "";
    setText(file.text);
  };
  const save = async () => {
    if (!changed || busy || stale) return;
    setBusy(true);
    try {
      const saved = await call("PUT", path, { text, revision: base.value || file.revision });
      kept.value = base.value = "";
      onSaved(saved);
      tell(saved);
    } catch (error) {
      const { status } = problemOf(error);
      const told = unchecked(error);
      if (told) setFound(told);
      if (status === 409) await onStale();
      failed(error);
    }
    setBusy(false);
  };
  useKeys([{ key: "Ctrl+s", label: "Save the policy", group: "Settings", anywhere: true, run: save }]);
  // A file that changed while nothing was written here is simply shown.
  useEffect(() => void (kept.value || setText(file.text)), [file.revision]);

  const problems = found?.problems || [];
  return html`<div class="policy">
    <div class="toolbar">
      <${Whose} tab="policy" client=${client} />
      <code class="cut faint" title=${file.file}>${tail(file.file)}</code>
      <span class="grow"></span>
      <span class="faint" role="status">${changed ? "not saved" : file.there ? "saved" : ""}</span>
      ${changed && html`<${Button} onClick=${drop}>Discard<//>`}
      <${Button} kind="primary" hotkey="Ctrl+s" busy=${busy} onClick=${save}
        disabled=${!changed || stale || problems.length > 0}>Save<//>
    </div>
    ${stale && html`<${Notice} kind="warn" title="The file has changed since you began">
      <p>Somebody wrote to it, be it you in another window. Yours is kept here until you decide.</p>
      <p class="actions"><${Button} onClick=${drop}>Show the file as it is<//>
        <${Button} onClick=${() => (base.value = file.revision)}>Keep mine, and save over it<//></p>
    <//>`}
    ${!file.there && !text && html`<${Begin} client=${client} onExample=${() => { write(EXAMPLE); editor.current?.focus(); }} />`}
    <div class="policy-columns">
      <div>
        <${Editor} place=${editor} text=${text} onText=${write} problems=${problems} label="Policy, as YAML" />
      </div>
      <${Opens} found=${found} empty=${!file.there && !text} />
    </div>
  </div>`;
}

/** Its end is what tells it apart. @param {string} file */
function tail(file) {
  const parts = file.split("/");
  return parts.length > 5 ? `…/${parts.slice(-4).join("/")}` : file;
}

/** @param {{client: string, onExample: () => void}} props */
function Begin({ client, onExample }) {
  const without = client
    ? `Without a policy of its own, ${client} has yours. What stands here comes on top of it.`
    : "Without a policy, an agent reaches its own model and reads GitHub, and nothing else.";
  return html`<${Notice} title="There is no such file yet">
    <p>${without}</p>
    <p class="actions"><${Button} onClick=${onExample}>Begin with an example<//></p>
  <//>`;
}

/** @param {{reloaded: string[], unmoved: {run: string, cause: string}[], notes: string[]}} saved */
function tell({ reloaded, unmoved, notes }) {
  const detail = reloaded.length ? `${counted(reloaded.length, "run")} at work ${reloaded.length === 1 ? "holds" : "hold"} to it now` : "";
  toast("Policy saved", { kind: "done", detail: [detail, ...notes].filter(Boolean).join("\n") });
  for (const { run, cause } of unmoved) toast(`${run} keeps the policy it had`, { detail: cause });
}
