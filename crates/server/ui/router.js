
export function currentRoute() {
	const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?');
	const cut = path.indexOf('/');
	const view = cut < 0 ? path : path.slice(0, cut);
	const rest = cut < 0 ? '' : path.slice(cut + 1).split('/').map(decode).join('/');
	return { view: view || 'memories', rest, query: new URLSearchParams(query) };
}

/** @param {string} text */
function decode(text) {
	try {
		return decodeURIComponent(text);
	} catch {
		return text;
	}
}

/** @param {string} view @param {string} [rest] a path below `/memories/` @param {Record<string, string>} [query] */
export function href(view, rest = '', query = {}) {
	const path = rest ? '/' + rest.split('/').map(encodeURIComponent).join('/') : '';
	const params = new URLSearchParams(query).toString();
	return `#/${view}${path}${params ? '?' + params : ''}`;
}

/** @param {string} path */
export const memoryHref = (path) => href('memories', path.replace(/^\/memories\//, ''));

/** @param {string} to @param {boolean} [instead] whether the current entry of the browser's history is replaced */
export function go(to, instead = false) {
	if (instead) {
		history.replaceState(null, '', to);
		dispatchEvent(new HashChangeEvent('hashchange'));
	} else {
		location.hash = to;
	}
}
