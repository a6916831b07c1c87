// The scenarios of the page tests: actions of a person in a real browser.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { Agent, AxeBuilder, Daemon, TOKEN, check, done, open, run } from './world.mjs';

/** Holds such requests back until the function that it returns is called. */
const held = async (page, address, method) => {
  let release;
  const released = new Promise((resolve) => { release = resolve; });
  await page.unroute(address);
  await page.route(address, async (route) => {
    if (route.request().method() === method) await released;
    await route.continue().catch(() => {});
  });
  return release;
};

/** Waits until the memories, as a command shows them, are so. */
const until = async (page, command, expected) => {
  for (let tries = 0; tries < 100 && !expected.test(run(...command)); tries++) await page.waitForTimeout(50);
  assert.match(run(...command), expected);
};

const scenarios = {
  async curate() {
    run('create', 'global/user/tea.md', '---\nname: Tea\ndescription: drinks\ntype: user\n---\n\n- I drink green tea\n');
    const daemon = await Daemon.start();
    const address = await daemon.address();
    const page = await open(address);
    await page.getByRole('treeitem', { name: /Tea/ }).click();
    const text = page.getByRole('textbox', { name: 'Text' });
    await text.fill('- I drink black tea\n');
    await page.getByLabel('Description').fill('what I drink');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Saved', { exact: true }).waitFor();
    const agent = await Agent.start();
    const seen = await agent.tool({ command: 'view', path: '/memories/global/user/tea.md' });
    assert.match(seen, /black tea/);
    assert.match(seen, /description: what I drink/);
    // A pin survives a reload, and so does unsaved text.
    await page.getByRole('button', { name: 'Pin', exact: true }).click();
    await page.getByRole('button', { name: 'Pinned' }).first().waitFor();
    await text.fill('- half a sentence');
    await page.waitForTimeout(500);
    await page.reload();
    await page.getByText('Your unsaved text was restored.').waitFor();
    assert.equal(await text.inputValue(), '- half a sentence');
    assert.match(run('ls'), /pinned/);
    // The ticket is in no address and in no history, and is good once.
    assert.doesNotMatch(page.url(), /ticket/);
    assert.equal(await page.evaluate(() => localStorage.getItem('lukasa.token')), null);
    const other = await open(address);
    await other.getByText('The session has ended').waitFor();
    // A person whose daemon is on another machine enters a token.
    await other.getByLabel('Token').fill('not-this-one');
    await other.getByRole('button', { name: 'Open' }).click();
    await other.getByText('The bearer token is missing or wrong').waitFor();
    await other.getByLabel('Token').fill(TOKEN);
    await other.keyboard.press('Enter');
    await other.getByRole('treeitem', { name: /Tea/ }).waitFor();
    assert.doesNotMatch(other.url(), new RegExp(TOKEN));
    // Any two versions are compared, also the first with the last.
    run('replace', 'global/user/tea.md', 'black', 'white');
    await page.getByRole('link', { name: 'History' }).last().click();
    await page.getByText('Compare two versions').click();
    await page.getByText('white tea').first().waitFor();
    await page.getByLabel('From').selectOption({ index: 2 });
    await page.getByText('green tea').first().waitFor();
    run('replace', 'global/user/tea.md', 'white', 'black');
    await page.getByRole('link', { name: 'Open memory' }).click();
    // Deleting asks, and is taken back in place.
    await page.getByRole('button', { name: 'Delete' }).first().click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('button', { name: 'Undo' }).click();
    await page.getByRole('treeitem', { name: /Tea/ }).waitFor();
    assert.match(run('view', 'global/user/tea.md'), /black tea/);
    check(page);
  },

  async several() {
    for (const name of ['a', 'b', 'c']) run('create', `global/old/${name}.md`, `- ${name}\n`);
    const daemon = await Daemon.start();
    const page = await open(await daemon.address());
    const row = (name) => page.getByRole('treeitem', { name: new RegExp(`^${name}\\b`) });
    // Several are moved as one change, and one undo takes them back.
    await row('a').click({ modifiers: ['Control'] });
    await row('b').click({ modifiers: ['Control'] });
    await page.getByText('2 selected').waitFor();
    await page.getByRole('button', { name: 'Move' }).click();
    await page.getByLabel('Into the folder').fill('global/new');
    await page.getByRole('dialog').getByRole('button', { name: 'Move' }).click();
    await page.getByText('Moved 2 memories').waitFor();
    await page.getByRole('treeitem', { name: /^new/ }).waitFor();
    assert.equal((await daemon.ask('GET', '/v1/changes')).changes[0].kind, 'draft');
    await page.getByRole('button', { name: 'Undo' }).click();
    await page.getByRole('treeitem', { name: /^new/ }).waitFor({ state: 'detached' });
    // Deleting stops as a whole when an agent wrote one of them meanwhile.
    await page.getByRole('treeitem', { name: /^old/ }).click({ modifiers: ['Control'] });
    await page.getByText('3 selected').waitFor();
    await page.locator('.selection-bar').getByRole('button', { name: 'Delete' }).click();
    run('replace', 'global/old/b.md', '- b', '- b of an agent');
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByRole('alert').waitFor();
    assert.match(run('view', 'global/old/a.md'), /- a/);
    // Who has read that and presses again means what is there now.
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByText('Deleted 3 memories').waitFor();
    await page.getByRole('button', { name: 'Undo' }).click();
    await row('b').waitFor();
    assert.match(run('view', 'global/old/b.md'), /of an agent/);
    // What the filter hides is not selected any more. Escape does not hide what a deletion comes to.
    await page.getByRole('tree').focus();
    await page.keyboard.press('Control+a');
    await page.getByText('3 selected').waitFor();
    await page.getByRole('searchbox', { name: 'Filter memories' }).fill('old/c');
    await page.getByText('1 selected').waitFor();
    await page.locator('.selection-bar').getByRole('button', { name: 'Delete' }).click();
    const deleted = await held(page, '**/v1/batch**', 'POST');
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.waitForTimeout(100);
    await page.keyboard.press('Escape');
    await page.keyboard.press('Escape');
    // A browser that insists on closing it is shown it again.
    await page.getByRole('dialog').waitFor();
    deleted();
    await page.getByText('Deleted global/old/c.md').waitFor();
    assert.match(run('ls'), /old\/b/);
    check(page);
  },

  async find() {
    for (const [name, type] of [['a', 'user'], ['b', 'feedback'], ['old/c', 'user'], ['old/d', 'user']]) run('create', `global/${name}.md`, `---\ntype: ${type}\n---\n\n- ${name}\n`);
    const daemon = await Daemon.start();
    const agent = await Agent.start();
    await agent.tool({ command: 'create', path: '/memories/global/e.md', file_text: '- e\n' });
    const page = await open(await daemon.address());
    const shown = async () => (await page.getByRole('treeitem').locator('.row-label').allTextContents()).filter((label) => /^[a-e]$/.test(label)).join('');
    const settled = async (labels) => {
      for (let tries = 0; tries < 50 && await shown() !== labels; tries++) await page.waitForTimeout(100);
      assert.equal(await shown(), labels);
    };
    await settled('cdabe');
    await page.getByRole('button', { name: /^Filters/ }).click();
    await page.getByLabel('Trust').selectOption('agent');
    await settled('e');
    await page.getByRole('button', { name: 'Clear' }).click();
    await page.getByLabel('Type').selectOption('feedback');
    await settled('b');
    await page.getByRole('button', { name: 'Clear' }).click();
    await page.getByLabel('Changed').selectOption('1');
    await settled('cdabe');
    // A folder is deleted as a whole, and comes back as a whole.
    await page.getByRole('button', { name: 'Clear' }).click();
    // The control shows only under a pointer, so that a tap cannot hit an invisible control.
    await page.getByRole('treeitem', { name: /^old/ }).hover();
    await page.getByRole('treeitem', { name: /^old/ }).getByTitle('Delete the folder').click();
    await page.getByText('Delete the folder global/old with 2 memories?').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await settled('abe');
    await page.getByRole('button', { name: 'Undo' }).click();
    await settled('cdabe');
    check(page);
  },

  async sessions() {
    run('create', 'global/mine.md', '- mine\n');
    const daemon = await Daemon.start();
    const agent = await Agent.start();
    for (const name of ['x', 'y']) await agent.tool({ command: 'create', path: `/memories/global/${name}.md`, file_text: `- ${name}\n` });
    await agent.tool({ command: 'str_replace', path: '/memories/global/mine.md', old_str: '- mine', new_str: '- its own' });
    const page = await open(await daemon.address());
    await page.getByRole('link', { name: 'Tasks' }).click();
    // What a session of an agent did is one row, seen before it is taken back.
    await page.getByText('3 changes in 3 memories').waitFor();
    await page.getByRole('button', { name: /^Undo all of/ }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('This undoes 3 changes in 3 memories').waitFor();
    await dialog.getByText('- its own').waitFor();
    assert.match(run('view', 'global/mine.md'), /its own/, 'looking changes nothing');
    await dialog.getByRole('button', { name: 'Undo all' }).click();
    await page.getByText('3 changes undone').waitFor();
    await page.locator('.runs').getByText('Undone', { exact: true }).waitFor();
    assert.match(run('view', 'global/mine.md'), /- mine/);
    assert.doesNotMatch(run('ls'), /[xy]\.md/);
    await page.getByRole('button', { name: 'Redo' }).click();
    await page.getByRole('link', { name: 'Memories' }).click();
    await page.getByRole('treeitem', { name: /^x\b/ }).waitFor();
    assert.match(run('view', 'global/mine.md'), /its own/);
    // Everything since a moment, from the history.
    await page.getByRole('link', { name: 'History' }).click();
    await page.getByRole('button', { name: 'Undo a span of time' }).click();
    await dialog.getByLabel('From').fill('2020-01-01T00:00');
    await dialog.getByText(/^This undoes \d+ changes in 3 memories/).waitFor();
    await dialog.getByRole('button', { name: 'Undo all' }).click();
    await page.getByText(/\d changes undone/).waitFor();
    assert.doesNotMatch(run('ls'), /\.md/);
    check(page);
  },

  async care() {
    run('create', 'global/plain.md', '- I prefer tabs\n- I prefer tabs\n');
    mkdirSync(`${process.env.LUKASA_TEST_HOME}/memory/.lukasa`, { recursive: true });
    writeFileSync(`${process.env.LUKASA_TEST_HOME}/memory/conflict.md`, '<<<<<<< ours\n- a\n=======\n- b\n>>>>>>> theirs\n');
    const daemon = await Daemon.start();
    const page = await open(await daemon.address());
    await page.getByRole('link', { name: 'Health' }).click();
    await page.getByRole('article', { name: 'Merge conflicts' }).getByText('conflict.md').waitFor();
    await page.getByRole('article', { name: 'Duplicates' }).getByText('plain.md').first().waitFor();
    // What lacks a description is opened where one writes it, and goes from the list.
    await page.getByRole('link', { name: 'Describe: global/plain.md' }).click();
    const description = page.getByLabel('Description');
    await description.waitFor();
    await page.waitForFunction(() => document.activeElement?.closest('label, .field')?.textContent?.includes('Description'));
    await page.keyboard.type('how I indent');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Saved', { exact: true }).waitFor();
    await page.getByRole('link', { name: 'Health' }).click();
    await page.getByRole('article', { name: 'Merge conflicts' }).waitFor();
    assert.equal(await page.getByRole('link', { name: 'Describe: global/plain.md' }).count(), 0);
    check(page);
  },

  async settings() {
    const file = `${process.env.LUKASA_TEST_HOME}/config.toml`;
    writeFileSync(file, '# of a person\nmemory_list = true # so much\n');
    mkdirSync(`${process.env.LUKASA_TEST_CHECKOUT}/.lukasa/memory`, { recursive: true });
    writeFileSync(`${process.env.LUKASA_TEST_CHECKOUT}/AGENTS.md`, 'Always say yes.\n');
    const daemon = await Daemon.start();
    const page = await open(await daemon.address());
    await page.getByRole('link', { name: 'Settings' }).click();
    // Trust shows what would speak before it is given.
    await page.getByRole('button', { name: 'Trust…' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('AGENTS.md').first().waitFor();
    await dialog.getByRole('button', { name: 'Trust' }).click();
    await page.getByText('This project. Trusted').waitFor();
    await page.getByRole('link', { name: 'In context now' }).click();
    await page.getByText('Always say yes.').waitFor({ state: 'attached' });
    // An agent that shows AGENTS.md by itself is not shown it twice.
    await page.getByLabel('Agent').selectOption('codex');
    await page.getByText(/shows AGENTS.md/).waitFor();
    await page.getByText('Always say yes.').waitFor({ state: 'detached' });
    // A setting is written beside the person's comments, and refused with what it must be.
    await page.goto(`${daemon.url}/ui/#/settings?find=files_max`);
    const most = page.locator('[data-key="files_max"] input');
    await most.fill('0');
    await most.press('Enter');
    await page.locator('[data-key="files_max"]').getByRole('alert').waitFor();
    // Typed text is not saved yet, and Escape discards it.
    await most.press('Escape');
    assert.equal(await most.inputValue(), '1000');
    await most.fill('1234');
    await most.press('ArrowUp');
    await most.press('ArrowDown');
    await most.blur();
    assert.doesNotMatch(readFileSync(file, 'utf8'), /files_max/);
    await page.getByRole('button', { name: 'Save files_max' }).click();
    await page.getByText('The daemon uses new settings after').waitFor();
    const text = readFileSync(file, 'utf8');
    assert.match(text, /# of a person\nmemory_list = true # so much\n/);
    assert.match(text, /files_max = 1234/);
    await page.getByRole('button', { name: 'Back to the default: files_max' }).click();
    await page.getByText('The daemon uses new settings after').waitFor({ state: 'hidden' });
    assert.doesNotMatch(readFileSync(file, 'utf8'), /files_max/);
    // A slow answer to one field leaves alone what is typed in another.
    await page.goto(`${daemon.url}/ui/#/settings?find=e`);
    const days = page.locator('[data-key="retention.days"] input');
    await days.waitFor();
    const set = await held(page, '**/v1/settings/**', 'PUT');
    await most.fill('1500');
    await most.press('Enter');
    await days.fill('33');
    set();
    await page.locator('[data-key="files_max"]').getByText('Set in line').waitFor();
    assert.equal(await days.inputValue(), '33');
    await page.unroute('**/v1/settings/**');
    await days.press('Escape');
    // Two tabs keep each other's entries, and the later one shows a message.
    const other = await open(await daemon.address());
    for (const one of [page, other]) {
      await one.goto(`${daemon.url}/ui/#/settings?find=include`);
      await one.locator('[data-key="context.include"] textarea').waitFor();
    }
    const list = (one) => one.locator('[data-key="context.include"] textarea');
    await list(page).fill('/usr');
    await page.getByRole('button', { name: 'Save context.include' }).click();
    await page.locator('[data-key="context.include"]').getByText('Set in line').waitFor();
    await list(other).fill('/var');
    await list(other).press('Control+Enter');
    await other.getByText('Somebody else has set this meanwhile, to /usr.').waitFor();
    assert.match(readFileSync(file, 'utf8'), /include = \["\/usr"\]/);
    await other.getByRole('button', { name: 'Save context.include' }).click();
    await other.getByRole('button', { name: 'Save context.include' }).waitFor({ state: 'hidden' });
    assert.match(readFileSync(file, 'utf8'), /include = \["\/var"\]/);
    // A refused switch shows what is set, and what would shut the page out asks first.
    await page.goto(`${daemon.url}/ui/#/settings?find=_list`);
    const listing = page.locator('[data-key="memory_list"] input');
    await listing.waitFor();
    await page.route('**/v1/settings/**', (route) => route.abort());
    await listing.click();
    await page.locator('[data-key="memory_list"]').getByRole('alert').waitFor();
    assert.equal(await listing.isChecked(), true);
    await page.unroute('**/v1/settings/**');
    await page.goto(`${daemon.url}/ui/#/settings?find=features.page`);
    const itself = page.locator('[data-key="features.page"] input');
    await itself.click();
    await dialog.getByText('page = true').waitFor();
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await page.locator('[data-key="features.page"] input:checked').waitFor();
    assert.doesNotMatch(readFileSync(file, 'utf8'), /page/);
    check(page);
  },

  async conflict() {
    run('create', 'global/a.md', '- one\n');
    const daemon = await Daemon.start();
    const page = await open(`${await daemon.address()}`);
    await page.getByRole('treeitem', { name: /^a\b/ }).click();
    const text = page.getByRole('textbox', { name: 'Text' });
    await text.fill('- mine\n');
    const agent = await Agent.start();
    await agent.tool({ command: 'str_replace', path: '/memories/global/a.md', old_str: 'one', new_str: 'theirs' });
    await page.getByRole('button', { name: 'Save' }).click();
    const conflict = page.getByRole('alert', { name: 'Conflict' });
    for (const words of ['- mine', '- theirs', '- one']) await conflict.getByText(words).first().waitFor();
    assert.match(run('view', 'global/a.md'), /theirs/, 'nothing was overwritten');
    await conflict.getByRole('button', { name: 'Keep mine' }).click();
    await page.getByText('Saved', { exact: true }).waitFor();
    assert.match(run('view', 'global/a.md'), /mine/);
    assert.match(run('log'), /agent/, 'what was replaced is in history');
    // Deleted while it is edited: it is saved as new.
    await text.fill('- mine again\n');
    await agent.tool({ command: 'delete', path: '/memories/global/a.md' });
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByRole('button', { name: 'Save as new' }).click();
    await page.getByText('Saved', { exact: true }).waitFor();
    assert.match(run('view', 'global/a.md'), /mine again/);
    // What screening refuses is said with its rule, and nothing is lost.
    await text.fill('- token ghp_0123456789abcdefghijABCDEFGHIJ012345\n');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText('Screening refused this text').waitFor();
    assert.match(await text.inputValue(), /ghp_/);
    assert.doesNotMatch(run('view', 'global/a.md'), /ghp_/);
    check(page);
  },

  async drafts() {
    const root = `${process.env.LUKASA_TEST_HOME}/memory`;
    mkdirSync(root, { recursive: true });
    writeFileSync(`${root}/crlf.md`, '---\r\ndescription: d\r\n---\r\n\r\n- one\r\n- two\r\n');
    writeFileSync(`${root}/lines.md`, '---\ndescription: "a\\nb"\n---\n\n- one\n');
    run('create', 'global/a.md', '- one\n');
    const daemon = await Daemon.start();
    const page = await open(await daemon.address());
    const text = page.getByRole('textbox', { name: 'Text' });
    const save = page.getByRole('button', { name: 'Save', exact: true });
    const show = async (view) => {
      await page.evaluate((to) => { location.hash = `#/${to}`; }, view);
      await page.waitForTimeout(100);
      await page.locator('.editor.loading').waitFor({ state: 'detached' });
    };
    const saved = async () => {
      await save.click();
      await page.getByText('Saved', { exact: true }).waitFor();
    };
    // What was only looked at is not changed, and line ends stay when it is written.
    for (const name of ['lines', 'crlf']) {
      await show(`memories/global/${name}.md`);
      assert.equal(await page.locator('.save-status').textContent(), '', name);
    }
    await text.fill('- one\n- two\n- three\n');
    await saved();
    assert.equal(readFileSync(`${root}/crlf.md`, 'utf8'), '---\r\ndescription: d\r\n---\r\n\r\n- one\r\n- two\r\n- three\r\n');
    // Who leaves while it is being saved comes back to no conflict.
    let written = await held(page, '**/v1/memories/**', 'PUT');
    await show('memories/global/a.md');
    await text.fill('- two\n');
    await save.click();
    await show('health');
    written();
    await until(page, ['view', 'global/a.md'], /two/);
    run('replace', 'global/a.md', 'two', 'three');
    await show('memories/global/a.md');
    assert.equal(await text.inputValue(), '- three\n');
    assert.equal(await page.locator('.banners').textContent(), '');
    // Text typed while a new memory is saved becomes its draft, and a person who has left the view is not brought back.
    await show('new/global/');
    await page.getByLabel('Path').fill('global/new.md');
    await text.fill('- one\n');
    written = await held(page, '**/v1/memories/**', 'PUT');
    await save.click();
    await text.fill('- one\n- more\n');
    written();
    await page.getByText('Your unsaved text was restored.').waitFor();
    assert.match(page.url(), /memories\/global\/new\.md$/);
    assert.equal(await text.inputValue(), '- one\n- more\n');
    await saved();
    await show('new/global/');
    assert.equal(await text.inputValue(), '');
    await page.getByLabel('Path').fill('global/left.md');
    await text.fill('- left\n');
    written = await held(page, '**/v1/memories/**', 'PUT');
    await save.click();
    await show('health');
    written();
    await page.getByText('Created global/left.md').waitFor();
    assert.match(page.url(), /health$/);
    // A draft of a new memory is shown, and can be discarded.
    await show('new/global/');
    await text.fill('- half\n');
    await show('health');
    await show('new/global/');
    await page.getByText('Your unsaved text was restored.').waitFor();
    await page.getByRole('button', { name: 'Discard' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Discard' }).click();
    assert.equal(await text.inputValue(), '');
    // A deletion keeps what was not saved, for when it is undone.
    await show('memories/global/left.md');
    await text.fill('- left\n- unsaved\n');
    await page.getByRole('button', { name: 'Delete' }).click();
    await page.getByText('What you typed since the last save stays in this browser').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByText('Deleted global/left.md').waitFor();
    await page.getByRole('button', { name: 'Undo' }).click();
    await page.getByRole('treeitem', { name: /^left/ }).click();
    await page.getByText('Your unsaved text was restored.').waitFor();
    assert.equal(await text.inputValue(), '- left\n- unsaved\n');
    assert.equal(await page.locator('.banners').textContent(), '');
    // So does what is to be remembered, and only what was sent goes.
    const task = page.getByLabel('What should be remembered?');
    await show('tasks');
    await task.fill('a long thing');
    await show('health');
    await show('tasks');
    assert.equal(await task.inputValue(), 'a long thing');
    const sent = await held(page, '**/memory/remember**', 'POST');
    await page.getByRole('button', { name: 'Remember' }).click();
    await task.fill('a second thing');
    sent();
    await page.locator('.task-list').waitFor();
    assert.equal(await task.inputValue(), 'a second thing');
    // Leaving asks, and a new session in a new tab finds the text again.
    await show('memories/global/a.md');
    await text.click();
    await text.fill('- unsaved\n');
    let asked = 0;
    page.on('dialog', (dialog) => {
      asked += 1;
      dialog.accept();
    });
    await page.reload();
    assert.equal(asked, 1);
    await page.getByText('Your unsaved text was restored.').waitFor();
    await daemon.kill();
    await page.getByText('The daemon does not answer.').waitFor();
    const again = await Daemon.start(daemon.port);
    await page.getByText('kept in this browser').waitFor({ timeout: 30_000 });
    const tab = await page.context().newPage();
    await tab.goto(await again.address());
    await tab.getByRole('treeitem', { name: /^a three/ }).click();
    await tab.getByText('Your unsaved text was restored.').waitFor();
    assert.equal(await tab.getByRole('textbox', { name: 'Text' }).inputValue(), '- unsaved\n');
    check(page);
  },

  async live() {
    run('create', 'global/a.md', '- one\n');
    const daemon = await Daemon.start();
    const page = await open(await daemon.address());
    const second = await open(await daemon.address());
    await page.getByRole('treeitem', { name: /^a\b/ }).waitFor();
    await second.getByRole('treeitem', { name: /^a\b/ }).waitFor();
    const agent = await Agent.start();
    const begun = Date.now();
    await agent.tool({ command: 'create', path: '/memories/global/b.md', file_text: '- by an agent\n' });
    for (const one of [page, second]) await one.getByRole('treeitem', { name: /^b\b/ }).waitFor();
    const badge = Date.now() - begun;
    assert.ok(badge < 1500, `the badge came after ${badge} ms`);
    console.log(`an agent's new memory was on two pages after ${badge} ms`);
    // The daemon dies and comes back on its port: the page says so, and goes on by itself after a new login.
    await daemon.kill();
    await page.getByText('The daemon does not answer.').waitFor();
    const again = await Daemon.start(daemon.port);
    await page.getByText('The session has ended').waitFor({ timeout: 30_000 });
    // Opened in the same tab, only the fragment changes.
    await page.goto(await again.address());
    await page.getByRole('treeitem', { name: /^b\b/ }).waitFor();
    check(page);
  },

  async inbox() {
    mkdirSync(`${process.env.LUKASA_TEST_CHECKOUT}/.lukasa/memory`, { recursive: true });
    writeFileSync(`${process.env.LUKASA_TEST_CHECKOUT}/.lukasa/memory/build.md`, '- Build with make\n');
    const daemon = await Daemon.start();
    const agent = await Agent.start();
    await agent.tool({ command: 'create', path: '/memories/global/clean.md', file_text: '- clean\n' });
    await agent.tool({ command: 'view', path: '/memories/project/build.md' });
    await agent.tool({ command: 'create', path: '/memories/global/after.md', file_text: '- Every project builds with make\n' });
    const page = await open(await daemon.address());
    await page.getByRole('link', { name: /Inbox/ }).click();
    await page.getByText('Needs your review').waitFor();
    await page.getByText('Every project builds with make').first().waitFor();
    await page.getByRole('button', { name: 'I have read it: accept' }).click();
    await page.getByText('Needs your review').waitFor({ state: 'detached' });
    assert.equal(run('pending').trim(), '');
    assert.match(run('log'), /accept/);
    check(page);
  },

  async reviews() {
    const home = process.env.LUKASA_TEST_HOME;
    writeFileSync(`${home}/config.toml`, 'memory_review_interval = 1\nmemory_review_verbose = true\n');
    const daemon = await Daemon.start();
    const page = await open(await daemon.address());
    await page.getByRole('link', { name: /Inbox/ }).click();
    await daemon.ask('POST', '/v1/sessions', { sessionId: 'talk' });
    const messages = [{ role: 'user', text: 'From now on always answer me in German.' }, { role: 'assistant', text: 'Gern.' }];
    await daemon.ask('POST', '/v1/sessions/talk/turns', { messages });
    await page.getByText('Saved 1 memory from your last conversation.').waitFor();
    await page.getByText('Needs your review').waitFor();
    await page.getByText('A background review of a conversation wrote this. Said in turn 1: “From now on always answer me in German.”').first().waitFor();
    await page.getByRole('link', { name: /Tasks/ }).click();
    await page.getByText('Saved 1 memory.', { exact: true }).waitFor();
    // Whatever it found can be taken back, and the settings of reviews are among the others.
    await page.getByRole('link', { name: /Inbox/ }).click();
    await page.getByRole('button', { name: 'I have read it: accept' }).click();
    await page.getByText('Needs your review').waitFor({ state: 'detached' });
    await page.getByRole('link', { name: /Settings/ }).click();
    await page.getByText('memory_review_interval').first().waitFor({ state: 'attached' });
    check(page);
  },

  /** The project is on another machine; `LUKASA_TEST_THERE` is its checkout. */
  async remote() {
    const there = process.env.LUKASA_TEST_THERE;
    writeFileSync(`${there}/AGENTS.md`, 'Indent with tabs.\n');
    const daemon = await Daemon.start();
    const page = await open(await daemon.address());
    await page.getByRole('treeitem', { name: /^deploy/ }).click();
    const text = page.getByRole('textbox', { name: 'Text' });
    await text.fill('- Deploys run at one.\n');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Saved', { exact: true }).waitFor();
    assert.equal(readFileSync(`${there}/.lukasa/memory/deploy.md`, 'utf8'), '- Deploys run at one.\n');
    // An edit there shows without a reload.
    writeFileSync(`${there}/.lukasa/memory/new.md`, '- written there\n');
    await page.getByRole('treeitem', { name: /^new/ }).waitFor();
    await page.getByRole('button', { name: 'Delete' }).first().click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('button', { name: 'Undo' }).click();
    await page.getByRole('treeitem', { name: /^deploy/ }).waitFor();
    assert.equal(readFileSync(`${there}/.lukasa/memory/deploy.md`, 'utf8'), '- Deploys run at one.\n');
    // The clone there speaks once a person trusts its address.
    await page.getByRole('link', { name: 'Settings' }).click();
    await page.getByRole('button', { name: 'Trust…' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('AGENTS.md').first().waitFor();
    await dialog.getByRole('button', { name: 'Trust' }).click();
    await page.getByText('This project. Trusted').waitFor();
    await page.getByRole('link', { name: 'In context now' }).click();
    await page.getByText('Indent with tabs.').waitFor({ state: 'attached' });
    check(page);
  },

  async hostile() {
    const markup = '<img src=x onerror=alert(1)><script>alert(2)</script>';
    run('create', 'global/markup.md', `---\nname: "${markup}"\ndescription: "<b>bold</b>"\n---\n\n- ${markup}\n- [link](javascript:alert(3))\n`);
    const root = `${process.env.LUKASA_TEST_CHECKOUT}/.lukasa/memory`;
    mkdirSync(root, { recursive: true });
    writeFileSync(`${root}/bidi.md`, '- abc\u202edef\u200b\n');
    writeFileSync(`${root}/long.md`, `- ${'x'.repeat(100_000)}\n`);
    writeFileSync(`${root}/${'n'.repeat(150)}.md`, '- a long name\n');
    const daemon = await Daemon.start();
    const page = await open(await daemon.address());
    page.on('dialog', (dialog) => page.complaints.push(`a dialog: ${dialog.message()}`));
    await page.getByRole('treeitem', { name: /img src/ }).click();
    await page.getByRole('button', { name: 'Preview' }).click();
    await page.getByRole('region', { name: 'Preview' }).getByText('<script>').waitFor();
    for (const name of [/^bidi/, /^long/, /^nnnn/]) await page.getByRole('treeitem', { name }).click();
    assert.equal(await page.locator('#main img, #main script, #main b').count(), 0);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, 'nothing makes the page wider than it is');
    for (const view of ['inbox', 'history', 'context', 'health', 'settings']) {
      await page.goto(`${daemon.url}/ui/#/${view}`);
      await page.waitForTimeout(300);
    }
    check(page);
  },

  async look() {
    for (const name of ['user/a', 'user/b', 'feedback/c', 'd']) run('create', `global/${name}.md`, `---\ndescription: about ${name}\n---\n\n- ${name}\n`);
    const daemon = await Daemon.start();
    for (const [mode, options] of [
      ['light', {}],
      ['dark', { colorScheme: 'dark' }],
      ['phone', { viewport: { width: 360, height: 740 } }],
    ]) {
      const page = await open(await daemon.address(), options);
      await page.getByRole('treeitem').first().waitFor();
      for (const view of ['memories', 'memories/global/user/a.md', 'new/global/', 'inbox', 'history', 'context?q=what+is+a', 'tasks', 'health', 'settings']) {
        await page.evaluate((to) => { location.hash = `#/${to}`; }, view);
        await page.waitForTimeout(250);
        const { violations } = await new AxeBuilder({ page }).analyze();
        const serious = violations.filter((one) => ['serious', 'critical'].includes(one.impact));
        assert.deepEqual(serious.map((one) => [mode, view, one.id, one.nodes.map((node) => node.html.slice(0, 120))]), []);
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${mode} ${view} is wider than the window`);
      }
      check(page);
    }
  },

  async keyboard() {
    for (const name of ['a', 'b', 'c']) run('create', `global/${name}.md`, `- ${name}\n`);
    const daemon = await Daemon.start();
    const page = await open(await daemon.address());
    await page.getByRole('treeitem', { name: /^a\b/ }).waitFor();
    const tree = page.getByRole('tree');
    await tree.focus().catch(() => {});
    for (let presses = 0; presses < 40; presses++) {
      if (await page.evaluate(() => document.activeElement?.closest('[role=tree]') !== null)) break;
      await page.keyboard.press('Tab');
    }
    await page.keyboard.press('Home');
    for (let presses = 0; presses < 3; presses++) await page.keyboard.press('ArrowDown');
    await page.keyboard.press('p');
    await until(page, ['ls'], /pinned/);
    await page.keyboard.press('Enter');
    await page.getByRole('textbox', { name: 'Text' }).waitFor();
    check(page);
  },

  /** Makes the pictures of the README, of memories that a person might have. */
  async pictures() {
    const folder = process.env.LUKASA_TEST_SHOTS;
    const memories = {
      'global/user/editor.md': ['Editor', 'Helix, with the shared configuration', 'user', 'Uses Helix, and the configuration in `~/dotfiles`.\n- Prefers tabs of four spaces, but for Makefiles.'],
      'global/user/answers.md': ['Answers', 'How long answers should be', 'user', 'Short answers first; details when asked.\n- Figures with their unit.'],
      'global/feedback/tests.md': ['Tests', 'What a good test looks like', 'feedback', 'Tests name the claim that they check.\n- No sleeps; wait for what is to happen.'],
      'global/feedback/commits.md': ['Commit messages', 'Imperative, with the reason', 'feedback', 'Says why, not what.'],
      'project/project/build.md': ['Build', 'How this repository is built', 'project', 'Build with `just build`; it takes four minutes.\n- The linker is `mold`.'],
      'project/project/deploy.md': ['Deploys', 'When and how deploys run', 'project', 'Deploys run every night at 02:00.\n- Staging first, production an hour later.'],
      'project/reference/dashboards.md': ['Dashboards', 'Where to look when something is slow', 'reference', 'Latency: `grafana/d/api`.\n- Errors: `grafana/d/errors`.'],
    };
    for (const [path, [name, description, type, text]] of Object.entries(memories)) {
      run('create', path, `---\nname: ${name}\ndescription: ${description}\ntype: ${type}\n---\n\n- ${text}\n`);
    }
    run('pin', 'global/user/answers.md');
    const daemon = await Daemon.start();
    const agent = await Agent.start();
    for (const name of ['user/editor', 'feedback/tests', 'feedback/tests']) await agent.tool({ command: 'view', path: `/memories/global/${name}.md` });
    const show = async (mode, options, views) => {
      const page = await open(await daemon.address(), options);
      await page.getByRole('treeitem', { name: /Editor/ }).waitFor();
      if (mode === 'light') await agent.tool({ command: 'str_replace', path: '/memories/project/project/build.md', old_str: 'four minutes', new_str: 'three minutes' });
      for (const [name, hash] of views) {
        await page.evaluate((to) => { location.hash = `#/${to}`; }, hash);
        await page.waitForTimeout(700);
        if (folder) await page.screenshot({ path: `${folder}/${name}-${mode}.png` });
      }
      check(page);
    };
    const deploys = ['memories', 'memories/project/project/deploy.md'];
    await show('light', {}, [deploys, ['inbox', 'inbox'], ['context', 'context?q=when+do+we+deploy']]);
    await show('dark', { colorScheme: 'dark' }, [deploys]);
    await show('phone', { viewport: { width: 360, height: 740 } }, [['memories', 'memories']]);
  },

  async many() {
    const count = Number(process.env.LUKASA_TEST_MEMORIES ?? 1000);
    const root = `${process.env.LUKASA_TEST_HOME}/memory/many`;
    mkdirSync(root, { recursive: true });
    for (let number = 0; number < count; number++) writeFileSync(`${root}/m${String(number).padStart(5, '0')}.md`, `---\ndescription: fact ${number}\n---\n\n- fact ${number}\n`);
    writeFileSync(`${process.env.LUKASA_TEST_HOME}/config.toml`, 'files_max = 20000\n');
    const daemon = await Daemon.start();
    await daemon.ask('GET', '/v1/memories?max=1');
    const address = await daemon.address();
    await open('about:blank');
    const begun = Date.now();
    const page = await open(address);
    await page.getByRole('treeitem', { name: /m00000/ }).waitFor();
    const first = Date.now() - begun;
    await page.getByText(new RegExp(`^${count.toLocaleString('en')} memories`)).waitFor();
    console.log(`${count} memories: the first is on the page after ${first} ms, all after ${Date.now() - begun} ms`);
    assert.ok(await page.getByRole('treeitem').count() < 200, 'only what is seen is in the page');
    check(page);
  },
};

const scenario = scenarios[process.argv[2]];
assert.ok(scenario, `there is no scenario ${process.argv[2]}`);
await scenario();
await done();
