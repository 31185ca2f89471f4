// The statement's editor: CodeMirror with what Sluice's dialect says, bundled into server/pages/static/vendor/editor.js.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { SQLDialect, sql } from "@codemirror/lang-sql";
import { HighlightStyle, bracketMatching, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { EditorView, drawSelection, highlightActiveLine, keymap, lineNumbers, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const dialect = SQLDialect.define({
  keywords:
    "add all alter and as asc begin between bucket by call case cast comment create cross current database databases delete desc describe " +
    "distinct drop else end except execute exists explain false for from full functions grant group having if in inner insert intersect " +
    "into is job jobs join lateral left like limit masking not null of offset on options or order outer over overwrite partition " +
    "partitioned partitions plan policy procedures rename reset restart revoke right role roles rows select set show statement stop " +
    "system_time table tables temporary then to true truncate union until update use using values version view views watermark when " +
    "where window with drain views tags tag branch unbounded preceding following",
  types:
    "array bigint binary boolean bytes char date decimal double float int interval map multiset row smallint string time timestamp " +
    "timestamp_ltz tinyint varbinary varchar",
  identifierQuotes: "`",
  hashComments: false,
  slashComments: false,
  doubleQuotedStrings: false,
});

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--accent)", fontWeight: "560" },
  { tag: tags.typeName, color: "var(--good)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--warn)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--good)" },
  { tag: tags.comment, color: "var(--faint)", fontStyle: "italic" },
]);

const look = EditorView.theme({
  "&": { fontSize: "13.5px", backgroundColor: "transparent", color: "var(--ink)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6", minHeight: "11rem", maxHeight: "26rem" },
  ".cm-content": { padding: "0.6rem 0", caretColor: "var(--accent)" },
  ".cm-line": { padding: "0 0.8rem 0 0.5rem" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--faint)", border: "0", paddingLeft: "0.3rem" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--sunk) 55%, transparent)" },
  ".cm-activeLineGutter": { backgroundColor: "transparent", color: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--accent)", borderLeftWidth: "2px" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "color-mix(in srgb, var(--accent) 22%, transparent)",
  },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--accent-wash)", outline: "1px solid var(--accent)" },
  ".cm-placeholder": { color: "var(--faint)" },
  ".cm-tooltip": {
    backgroundColor: "var(--surface)", border: "1px solid var(--line-strong)", borderRadius: "6px", color: "var(--ink)",
    boxShadow: "0 6px 24px rgb(0 0 0 / 0.14)", overflow: "hidden",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", fontSize: "13px", maxHeight: "14rem" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "0.2rem 0.6rem" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--accent-ink)" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "650" },
  ".cm-completionIcon": { display: "none" },
  ".cm-diagnostic": { padding: "0.4rem 0.7rem", borderLeft: "3px solid var(--bad)", maxWidth: "34rem" },
  ".cm-lintRange-error": {
    backgroundImage: "none", textDecoration: "underline wavy var(--bad)", textDecorationSkipInk: "none", textUnderlineOffset: "3px",
  },
  ".cm-gutter-lint": { width: "0.9rem" },
  ".cm-lint-marker": { width: "0.6rem", height: "0.6rem", marginTop: "0.35rem", borderRadius: "50%", backgroundColor: "var(--bad)", content: "normal" },
});

const candidates = (complete) => async (context) => {
  const word = context.matchBefore(/[\w$.`]*/);
  const empty = !word || word.from === word.to;
  const afterName = /\b(from|join|into|table|use|describe|by|select|where|and|on)\s+$/i.test(context.state.sliceDoc(Math.max(0, context.pos - 20), context.pos));
  if (empty && !context.explicit && !afterName) return null;
  const found = await complete(context.state.doc.toString(), context.pos);
  if (context.aborted || !found.length) return null;
  return {
    from: word ? word.from : context.pos,
    options: found.map((label, at) => ({ label, boost: -at / 10 })),
    validFor: /^[\w$.`]*$/,
  };
};

// Takes the place of a text area, which keeps the text for the form.
export const edit = (area, { nonce, complete, run, explain }) => {
  const view = new EditorView({
    parent: area.parentElement,
    state: EditorState.create({
      doc: area.value,
      extensions: [
        EditorView.cspNonce.of(nonce),
        keymap.of([
          { key: "Mod-Enter", run: () => (run(), true) },
          { key: "Shift-Mod-Enter", run: () => (explain(), true) },
        ]),
        lineNumbers(), lintGutter(), history(), drawSelection(), bracketMatching(), closeBrackets(), highlightActiveLine(),
        sql({ dialect, upperCaseKeywords: true }).language,
        syntaxHighlighting(colours), look, EditorView.lineWrapping,
        placeholder(area.placeholder),
        autocompletion({ override: [candidates(complete)], icons: false }),
        keymap.of([...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, ...defaultKeymap]),
        EditorView.contentAttributes.of({ "aria-label": "Statement", "aria-keyshortcuts": "Control+Enter", spellcheck: "false" }),
        EditorView.updateListener.of((update) => { if (update.docChanged) area.value = update.state.doc.toString(); }),
      ],
    }),
  });
  area.parentElement.insertBefore(view.dom, area);
  area.hidden = true;
  return {
    selected: () => {
      const { from, to } = view.state.selection.main;
      const line = view.state.doc.lineAt(from);
      return from === to ? null : { text: view.state.sliceDoc(from, to), line: line.number - 1, column: from - line.from };
    },
    set: (text) => {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
      view.focus();
    },
    mark: ({ line, column, fragment, detail }) => {
      if (line > view.state.doc.lines) return;
      const found = view.state.doc.line(line);
      const from = Math.min(found.from + Math.max(0, column - 1), found.to);
      const to = Math.min(found.to, from + Math.max(1, (fragment ?? "").split("\n")[0].length));
      view.dispatch(setDiagnostics(view.state, [{ from: Math.min(from, to), to: Math.max(from, to), severity: "error", message: detail }]));
      view.dispatch({ selection: { anchor: from }, scrollIntoView: true });
    },
    unmark: () => view.dispatch(setDiagnostics(view.state, [])),
    focus: () => view.focus(),
  };
};
