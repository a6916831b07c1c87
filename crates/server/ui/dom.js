/** Builds elements. All text goes through text nodes, so content can never become markup. */

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K | `${K}.${string}`} tag with classes behind it: `p.muted`
 * @param {T.Props | T.Child | T.Child[]} [props] `on*` functions become listeners
 * @param {...(T.Child | T.Child[])} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, props, ...children) {
	const [name = '', ...classes] = tag.split('.');
	const element = document.createElement(/** @type {K} */ (name));
	if (classes.length) element.className = classes.join(' ');
	if (element instanceof HTMLButtonElement) element.type = 'button';
	const given = props && typeof props === 'object' && !(props instanceof Node) && !Array.isArray(props);
	if (!given) children.unshift(/** @type {T.Child} */ (props));
	for (const [key, value] of Object.entries(given ? props : {})) {
		if (value === null || value === undefined || value === false) continue;
		if (key.startsWith('on')) element.addEventListener(key.slice(2), /** @type {EventListener} */ (value));
		else if (key !== 'value' || name === 'option') element.setAttribute(key, value === true ? '' : String(value));
	}
	append(element, children);
	// A select takes its value only once it has its options.
	if (given && 'value' in props && 'value' in element) element.value = /** @type {any} */ (props.value);
	return element;
}

/** @param {Element | DocumentFragment} parent @param {(T.Child | T.Child[])[]} children */
export function append(parent, children) {
	for (const child of children.flat()) {
		if (child === null || child === undefined || child === false) continue;
		parent.append(child instanceof Node ? child : String(child));
	}
}

/** @param {Element} parent @param {...(T.Child | T.Child[])} children */
export function replace(parent, ...children) {
	parent.replaceChildren();
	append(parent, children);
}

/** @param {string} tag @param {Record<string, string>} attributes @param {...Node} children */
export function svg(tag, attributes, ...children) {
	const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
	for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
	element.append(...children);
	return element;
}

// Characters that reorder or hide text. A reader must see that they are there.
const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/;
const HIDDEN_ALL = new RegExp(HIDDEN.source, 'g');

/** @param {string} text */
export const hasHidden = (text) => HIDDEN.test(text);

/** @param {string} character */
export const codePoint = (character) => 'U+' + (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');

/** @param {string} text @returns {T.Child[]} */
export function visible(text) {
	if (!HIDDEN.test(text)) return [text];
	/** @type {T.Child[]} */
	const parts = [];
	let from = 0;
	for (const match of text.matchAll(HIDDEN_ALL)) {
		// A text made of nothing else must not become as many elements.
		if (parts.length > 400) break;
		parts.push(text.slice(from, match.index), h('span.code-point', codePoint(match[0])));
		from = match.index + match[0].length;
	}
	parts.push(text.slice(from).replace(HIDDEN_ALL, '\u2423'));
	return parts;
}

/** The same where no elements go. @param {string} text */
export const plain = (text) => text.replace(HIDDEN_ALL, (character) => `[${codePoint(character)}]`);

/** @param {string} text */
export function hiddenCounts(text) {
	/** @type {Map<string, number>} */
	const counts = new Map();
	for (const [character] of text.matchAll(HIDDEN_ALL)) {
		const name = codePoint(character);
		counts.set(name, (counts.get(name) ?? 0) + 1);
	}
	return counts;
}
