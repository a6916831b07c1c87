
const KEYS = /** @type {const} */ (['name', 'description', 'type']);

/** @param {string} text */
export function parse(text) {
	/** @type {T.Fields} */
	const fields = { name: '', description: '', type: '' };
	// A field of text has \n alone; what is saved gets the line ends that most lines had.
	const crlf = text.split('\r\n').length * 2 > text.split('\n').length + 1;
	text = text.replaceAll('\r\n', '\n');
	const none = { block: '', lines: [], gap: '', body: text, fields, simple: true, crlf };
	if (text.startsWith('\ufeff') || text.includes('\r')) return { ...none, simple: false };
	const match = /^---[ \t]*\n(?:([^]*?)\n)?---[ \t]*(?:\n|$)/.exec(text.slice(0, 8192));
	if (!match) return none;
	const block = match[0];
	const lines = match[1]?.split('\n') ?? [];
	const rest = text.slice(block.length);
	const gap = /^\n*/.exec(rest)?.[0] ?? '';
	const document = { ...none, block, lines, gap, body: rest.slice(gap.length) };
	for (const [i, line] of lines.entries()) {
		const key = KEYS.find((name) => line.startsWith(`${name}:`));
		if (!key) continue;
		const value = scalar(line.slice(key.length + 1).trim());
		const continues = /^\s+\S/.test(lines[i + 1] ?? '');
		// A field of one line drops a newline.
		if (value === null || /[\r\n]/.test(value) || continues || fields[key]) return { ...none, simple: false };
		fields[key] = value;
	}
	return document;
}

/** @param {string} value */
function scalar(value) {
	if (value.startsWith('"')) {
		try {
			const text = JSON.parse(value);
			return typeof text === 'string' ? text : null;
		} catch {
			return null;
		}
	}
	if (value.startsWith("'")) return /^'(?:[^']|'')*'$/.test(value) ? value.slice(1, -1).replaceAll("''", "'") : null;
	if (/^[[\]{}|>&*!%@`]/.test(value) || / #/.test(value)) return null;
	return value;
}

/** @param {string} text */
function quoted(text) {
	const line = text.replace(/\s+/g, ' ').trim();
	const plain = /^[\p{L}\p{N}/(][^:#\p{C}]*$/u.test(line) && !/^(?:true|false|null|yes|no|on|off|~|[\d.+-]+)$/i.test(line);
	return plain ? line : JSON.stringify(line);
}

/** @param {T.Document} document @param {T.Fields} fields @param {string} body @returns {string} */
export function compose(document, fields, body) {
	const text = joined(document, fields, body);
	return document.crlf ? text.replaceAll('\n', '\r\n') : text;
}

/** @param {T.Document} document @param {T.Fields} fields @param {string} body */
function joined(document, fields, body) {
	if (!document.simple) return body;
	if (KEYS.every((key) => fields[key] === document.fields[key])) return document.block + document.gap + body;
	const lines = [...document.lines];
	let front = 0;
	for (const key of KEYS) {
		const at = lines.findIndex((line) => line.startsWith(`${key}:`));
		const value = fields[key].trim();
		if (at >= 0) {
			if (!value) lines.splice(at, 1);
			else if (fields[key] !== document.fields[key]) lines[at] = `${key}: ${quoted(value)}`;
		} else if (value) {
			lines.splice(front, 0, `${key}: ${quoted(value)}`);
		}
		if (value) front = lines.findIndex((line) => line.startsWith(`${key}:`)) + 1;
	}
	if (!lines.some((line) => line.trim())) return body;
	return `---\n${lines.join('\n')}\n---\n${document.block ? document.gap : '\n'}${body}`;
}
