/**
 * The settings card in the web page: the form on the plugin's own page under Plugins.
 *
 * Owns: how a schema becomes fields. Every field, with its title, text, default and bounds, comes from the host's
 * description of the schema in settings.js; nothing is listed here. The page loads this file as it is, without a build,
 * so it is a plain script in the form that the host's module loader wants. Only settings that may change while the
 * plugin runs are described by the host; the others stay in the profile's configuration file.
 */
/** @typedef {{name: string, type: string, title: string, text: string, meta: any, choices: string[], parts: string[]}} Field */
/** @typedef {{text: string, overridden: boolean, invalid: boolean}} State */
/** @typedef {{edit(field: string, text: string): void, resetField(field: string): void}} Form */
/** @typedef {{field: Field, state: State, form: Form, disabled: boolean}} Shown */

const loader = /** @type {any} */ (globalThis).__ModuleLoader__
loader.load({
  id: 'dsh-antigravity-acp',
  /** @param {(name: string) => any} load */
  factory: (load) => {
    const { jsx, jsxs } = load('react/jsx-runtime')
    const { SettingsForm, SettingsFormModel, SettingsValueField, Switch, Tag } = load('@deepseek-ai/dsh-client-ui-primitives')

    const PACKAGE = 'dsh-antigravity-acp'
    const ROW = 'llm-antigravity-acp'
    const LABELS = {
      unavailable: 'The plugin is not running, so it cannot be set up right now.',
      readOnly: 'This deployment keeps its settings read-only.',
      saveFailed: 'The host did not accept these values; they are left here for you to correct.',
      save: 'Save',
      saving: 'Saving…',
    }
    const OVERRIDDEN = { overriddenLabel: 'Changed', resetLabel: 'Reset to default' }
    const quiet = { margin: 0, fontSize: 12, lineHeight: '18px', color: 'var(--dsw-alias-label-tertiary)' }
    const strong = { fontSize: 13, lineHeight: '20px', color: 'var(--dsw-alias-label-primary)' }
    const choice = {
      ...strong,
      height: 32,
      padding: '0 8px',
      borderRadius: 8,
      border: '.5px solid var(--dsw-alias-border-l4)',
      background: 'var(--dsw-alias-bg-layer-3)',
    }
    const heading = { margin: '0 0 12px', fontSize: 14, fontWeight: 500, lineHeight: '20px' }
    const columns = { display: 'grid', gridTemplateColumns: 'repeat(auto-fill, minmax(280px, 1fr))', gap: '8px 24px' }
    const column = { display: 'flex', flexDirection: 'column', gap: 16 }

    /** A manifest's text: words between backticks are code. */
    const prose = (/** @type {string} */ text) =>
      text.split('`').map((part, at) => at % 2 ? jsx('code', { children: part }, at) : part)
    /** What commas separate, except inside the parentheses of a rule. */
    const listed = (/** @type {string} */ text) => text.split(/,(?![^(]*\))/).map((part) => part.trim()).filter(Boolean)
    /** The host draws a line between fields that follow each other; side by side they are no list. */
    const apart = (/** @type {unknown} */ child, /** @type {string} */ key) => jsx('div', { children: child }, key)

    /**
     * The fields of a described schema, with what their form needs.
     * @param {any} schema
     * @returns {Field[]}
     */
    function fieldsOf (schema) {
      const at = (/** @type {any} */ uid) => schema.refs[uid]
      return Object.entries(at(schema.uid).dict).map(([name, uid]) => {
        const { type, meta, list, dict } = at(uid)
        const [, title = name, text = ''] = /^(.+?)\. (.*)$/s.exec(meta.description ?? '') ?? []
        const choices = (list ?? []).map((/** @type {any} */ one) => at(one).value)
        return { name, type, title, text, meta, choices, parts: dict ? Object.keys(dict) : [] }
      })
    }

    /**
     * How a field's value becomes text that is edited, and text a value; `undefined` is a text that is none.
     * @param {Field} field
     */
    function editing ({ name, type, meta, parts }) {
      const set = (/** @type {unknown} */ value) => ({ kind: 'set', value })
      if (type === 'number') {
        return {
          field: name,
          format: (/** @type {any} */ value) => typeof value === 'number' ? String(value) : '',
          parse: (/** @type {string} */ text) => {
            if (text.trim() === '') return { kind: 'clear' }
            const value = Number(text)
            const fits = Number.isInteger(value) && value >= (meta.min ?? -Infinity) && value <= (meta.max ?? Infinity)
            return fits ? set(value) : undefined
          },
        }
      }
      if (type === 'boolean') return { field: name, format: String, parse: (/** @type {string} */ text) => set(text === 'true') }
      // A list of names each; kept as they are typed, so that a comma at the end does not vanish.
      if (type === 'object') {
        return {
          field: name,
          format: (/** @type {any} */ value) => JSON.stringify(parts.map((part) => (value?.[part] ?? []).join(', '))),
          parse: (/** @type {string} */ text) => set(Object.fromEntries(
            JSON.parse(text).map((/** @type {string} */ names, /** @type {number} */ at) => [parts[at], listed(names)]),
          )),
        }
      }
      if (type === 'array') {
        return {
          field: name,
          format: (/** @type {any} */ value) => (value ?? []).join(', '),
          parse: (/** @type {string} */ text) => set(listed(text)),
        }
      }
      return { field: name, format: (/** @type {any} */ value) => String(value ?? ''), parse: set }
    }

    /** @param {Shown & {htmlFor: string}} props */
    function Head ({ field, state, form, disabled, htmlFor }) {
      return jsxs('div', {
        style: { display: 'flex', alignItems: 'center', gap: 8 },
        children: [
          jsx('label', { htmlFor, style: { ...strong, marginRight: 'auto' }, children: field.title }),
          state.overridden && jsx(Tag, { tone: 'neutral', children: OVERRIDDEN.overriddenLabel }),
          state.overridden && jsx('button', {
            type: 'button',
            disabled,
            onClick: () => form.resetField(field.name),
            style: { ...quiet, background: 'none', border: 0, padding: 0, cursor: 'pointer', textDecoration: 'underline' },
            children: OVERRIDDEN.resetLabel,
          }),
        ],
      })
    }

    /** @param {Shown} props */
    function Field ({ field, state, form, disabled }) {
      const id = `${ROW}-${field.name}`
      const edit = (/** @type {string} */ text) => form.edit(field.name, text)
      const head = { field, state, form, disabled, htmlFor: id }
      if (field.type === 'boolean') {
        return jsxs('div', {
          style: { display: 'flex', gap: 24, alignItems: 'center' },
          children: [
            jsxs('div', { style: { flex: 1 }, children: [jsx(Head, head), jsx('p', { style: quiet, children: prose(field.text) })] }),
            jsx(Switch, { checked: state.text === 'true', disabled, label: field.title, onChange: (/** @type {boolean} */ on) => edit(String(on)) }),
          ],
        })
      }
      if (field.choices.length > 0) {
        return jsxs('div', {
          style: { display: 'flex', gap: 24, alignItems: 'center' },
          children: [
            jsxs('div', { style: { flex: 1 }, children: [jsx(Head, head), jsx('p', { style: quiet, children: prose(field.text) })] }),
            jsx('select', {
              id,
              value: state.text,
              disabled,
              onChange: (/** @type {any} */ event) => edit(event.target.value),
              style: choice,
              children: field.choices.map((value) => jsx('option', { value, children: value }, value)),
            }),
          ],
        })
      }
      if (field.parts.length > 0) {
        /** @type {string[]} */
        const texts = JSON.parse(state.text)
        return jsxs('div', {
          children: [
            jsx(Head, head),
            jsx('p', { style: { ...quiet, marginBottom: 4 }, children: prose(field.text) }),
            jsx('div', {
              style: columns,
              children: field.parts.map((part, at) => apart(jsx(SettingsValueField, {
                id: `${id}-${part}`,
                label: part.slice(0, 1).toUpperCase() + part.slice(1),
                hint: '',
                placeholder: 'none',
                disabled,
                ...OVERRIDDEN,
                text: texts[at],
                invalid: false,
                overridden: false,
                onEdit: (/** @type {string} */ text) => edit(JSON.stringify(texts.with(at, text))),
              }), part)),
            }),
          ],
        })
      }
      const bounds = [field.meta.min !== undefined && `from ${field.meta.min}`, field.meta.max !== undefined && `to ${field.meta.max}`]
      return jsx(SettingsValueField, {
        id,
        label: field.title,
        hint: prose(field.text),
        numeric: field.type === 'number',
        disabled,
        ...OVERRIDDEN,
        invalidLabel: ['A whole number', ...bounds.filter(Boolean)].join(' '),
        ...state,
        onEdit: edit,
        onReset: () => form.resetField(field.name),
      })
    }

    /** @param {any} props */
    function Card (props) {
      const { fields, values, shell } = props.useCard((/** @type {any} */ snapshot) => snapshot)
      if (props.view === 'summary') return null
      const disabled = !shell.writable || shell.saving
      const show = (/** @type {Field} */ field) => jsx(Field, { field, state: values[field.name], form: props, disabled }, field.name)
      const numbers = (/** @type {Field} */ field) => field.type === 'number'
      return jsx(SettingsForm, {
        labels: LABELS,
        state: shell,
        onSave: props.save,
        onDiscard: props.discard,
        children: jsxs('div', {
          style: { ...column, gap: 28 },
          children: [
            jsxs('section', {
              children: [
                jsx('h4', { style: heading, children: 'Settings' }),
                jsx('div', { style: column, children: fields.filter((/** @type {Field} */ field) => !numbers(field)).map(show) }),
              ],
            }),
            jsxs('section', {
              children: [
                jsx('h4', { style: heading, children: 'Limits' }),
                jsx('div', { style: columns, children: fields.filter(numbers).map((/** @type {Field} */ field) => apart(show(field), field.name)) }),
              ],
            }),
          ],
        }),
      })
    }

    /** @param {any} ctx */
    function apply (ctx) {
      ctx.effect(() => ctx.configForms.whileServed([ROW], () => {
        const described = ctx.configForms.describe().getSnapshot().view.namespaces.find((/** @type {any} */ view) => view.ns === ROW)
        const fields = fieldsOf(described.schema)
        const form = new SettingsFormModel(ctx.configForms.get(ROW), fields.map(editing))
        const card = form.bind(() => ({
          fields,
          shell: form.shell(),
          values: Object.fromEntries(fields.map(({ name }) => [name, form.field(name)])),
        }))
        const off = ctx.slots.inject('plugins.bundle.config', () => ctx.slots.register({
          name: 'plugins.bundle.config',
          key: PACKAGE,
          inject: () => ({ hooks: { card }, ...form.actions() }),
        }, Card))
        return () => {
          off()
          form.dispose()
        }
      }), 'dsh-antigravity-acp: settings card')
    }

    return { inject: ['slots', 'configForms'], apply }
  },
})
