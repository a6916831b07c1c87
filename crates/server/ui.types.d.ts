/** Responses of the daemon, as far as the page uses them. For the type checker only; never loaded. */

declare namespace T {
  interface Finding { line: number; rule: string }
  interface MemoryItem {
    path: string; scope: string; bytes: number; description: string; hasDescription: boolean; name?: string | null; type?: string | null;
    findings: Finding[]; lastAuthor?: string | null; lastUsedAt?: string | null; lastWrittenAt?: string | null;
    model?: string | null; modifiedAt: string; pinned: boolean; revision?: string | null; trust?: string; uses: number;
  }
  interface Memory { path: string; text: string; revision: string; modifiedAt: string; trust?: string }
  interface UnavailableScope { scope: string; reason: string }
  interface ChangedFile { path: string; before?: string | null; after?: string | null; movedTo?: string | null }
  interface Diff { path: string; diff: string; kept: boolean }
  interface Change {
    id: number; at: string; actor: string; kind: string; origin: string; trust: string; client?: string | null; session?: string | null;
    model?: string | null; task?: string | null; toolCall?: string | null; note?: string | null; undoes?: number | null; files: ChangedFile[]; diffs?: Diff[];
  }
  interface ChangePage { changes: Change[]; nextCursor?: string | null }
  interface Written { change?: number | null; path: string; revision?: string | null; warnings: Finding[] }
  interface Undone { change?: number | null; paths: string[]; undone: number[]; warnings: Finding[] }
  /** The target of an undo: one of these. */
  interface UndoTarget { changes?: number[]; task?: string; session?: string; since?: string; until?: string }
  /** The changes of one task or session. */
  interface Run {
    kind: 'task' | 'session'; id: string; actor: string; client?: string | null; model?: string | null; startedAt: string; endedAt: string;
    changes: number[]; memories: number; status?: string | null;
  }
  interface ModelRun {
    agent: string; model: string; ended: string; endedAt: string; calls: number; refused: number; tokensIn: number; tokensOut: number;
    cost?: number | null; why?: string | null;
  }
  interface RunPage { runs: Run[]; nextCursor?: string | null }
  interface HealthFinding {
    kind: string; scope?: string | null; subject: string; path?: string | null; detail: string; fixable: boolean;
  }
  interface Health { findings: HealthFinding[]; advice: HealthFinding[] }
  interface Proposal {
    id: number; kind: string; madeAt: string; origin: string; reason: string; score: number; stale?: string | null; task?: string | null;
    review?: { path: string; revision: string } | null; changes: { path: string; old?: string | null; new?: string | null }[]; diffs: Diff[];
  }
  interface Decision { id: number; done: boolean; change?: number | null; code?: string | null; error?: string | null }
  interface SegmentPart { part: string; bytes: number; tokens: number; revision: string }
  interface SegmentContext { text: string; tokens: number; revision: string; parts: SegmentPart[] }
  interface LoadedFile { path: string; scope: string; parent?: string | null; bytes: number; tokens: number; cut: boolean }
  interface SkippedFile { path: string; parent?: string | null; why: string }
  interface HotMemory { path: string; pinned: boolean; uses: number; shown: boolean; whole: boolean; why: string }
  interface Context extends SegmentContext { facts: number; factsShown: number; files: LoadedFile[]; skipped: SkippedFile[]; hot: HotMemory[] }
  interface Host { name: string; title: string; contextBytesMax: number; contextFilesLoaded: string[] }
  type SettingValue = string | number | boolean | string[] | null;
  interface Setting {
    key: string; kind: 'switch' | 'number' | 'choice' | 'text' | 'list'; meaning: string; value: SettingValue; default: SettingValue;
    from: 'default' | 'file' | 'environment'; line?: number; min?: number; max?: number; choices?: string[]; readOnly: boolean; why?: string; built: boolean;
  }
  interface Settings { file: string; restartNeeded: boolean; settings: Setting[] }
  interface Trust {
    folders: string[];
    here?: { path: string; trusted: boolean; speaks: { kind: 'contextFile' | 'memory'; path: string; description: string }[]; more: number } | null;
  }
  interface Recalled { path: string; title: string; modifiedAt: string; savedAt?: string; score: number; weak: boolean; why: string; alsoIn?: string[]; unreviewed?: string | null }
  interface Match { path: string; line: number; text: string }
  interface ScopeStats { scope: string; memories: number; memoriesMax: number; bytes: number; unavailable?: string | null }
  interface Stats {
    workspaceId: string; scopes: ScopeStats[]; connections: number; eventStreams: number;
    history: { changes: number; contentBytes: number; databaseBytes?: number; open: number };
    nextDream?: { notBefore?: string | null; sessionsMissing: number } | null;
  }
  interface TaskEntry { action: string; filePath: string; summary: string }
  interface TaskResult {
    summary: string; filesTouched?: string[]; proposals?: number; changes?: TaskEntry[]; removedEntries?: { filePath: string; summary: string }[];
  }
  interface Task {
    taskId: string; kind?: string; status: string; createdAt: string; updatedAt: string; scope?: string | null;
    error?: { code: string; message: string; details?: string | null } | null; result?: TaskResult | null;
  }
  interface Workspace { id: string; cwd: string; primary: boolean; trusted: boolean }
  interface Capabilities { lukasaVersion: string; features: string[]; workspaces: Workspace[] }
  interface HostWorkspace {
    id: string; checkout?: string | null; checkoutExists: boolean; memories: number; bytes: number; servedAs: string[];
  }

  interface BatchStep { do: string; path?: string; revision?: string; from?: string; to?: string }

  interface Api {
    memories(): Promise<{ memories: MemoryItem[]; unavailable: UnavailableScope[] }>;
    /** The list item of one memory; `undefined` if it is gone. */
    item(path: string): Promise<MemoryItem | undefined>;
    read(path: string): Promise<Memory>;
    /** `revision` is what is replaced; with `null`, nothing may be there. */
    write(path: string, text: string, revision: string | null): Promise<Written>;
    /** Several deletions or moves as one change: all or none. */
    batch(steps: BatchStep[]): Promise<Written>;
    move(from: string, to: string): Promise<Written>;
    pin(path: string, pinned: boolean): Promise<unknown>;
    changes(query: { path?: string; task?: string; session?: string; actor?: string; since?: string; cursor?: string; max?: number }): Promise<ChangePage>;
    compare(from: string, to: string): Promise<{ diff: string }>;
    change(id: number): Promise<Change>;
    /** As one change: all or none. */
    undo(what: UndoTarget, dryRun?: boolean): Promise<Undone>;
    runs(cursor: string): Promise<RunPage>;
    modelRuns(): Promise<{ runs: ModelRun[] }>;
    pending(): Promise<{ proposals: Proposal[]; waiting: number }>;
    decide(action: 'accept' | 'reject', ids: number[]): Promise<{ decisions: Decision[] }>;
    context(host?: Host): Promise<Context>;
    hosts(): Promise<{ hosts: Host[] }>;
    recall(q: string): Promise<{ text: string; memories: Recalled[] }>;
    search(q: string): Promise<{ matches: Match[]; more: boolean }>;
    stats(): Promise<Stats>;
    health(): Promise<Health>;
    mend(): Promise<{ done: string[]; left: HealthFinding[] }>;
    settings(): Promise<Settings>;
    /** `expected` is the value that is replaced. */
    set(key: string, value: SettingValue, expected?: SettingValue): Promise<Settings>;
    trust(): Promise<Trust>;
    setTrust(path: string, trusted: boolean): Promise<Trust>;
    tasks(): Promise<{ tasks: Task[] }>;
    startTask(kind: string, body: unknown): Promise<Task>;
    capabilities(): Promise<Capabilities>;
    workspaces(): Promise<{ workspaces: HostWorkspace[] }>;
  }

  /** Text typed on top of `base`. */
  interface Draft { text: string; base?: string; revision?: string | null; path?: string; scope?: string }
  type Topic = 'memories' | 'changes' | 'pending' | 'connection' | 'inbox' | 'reviewed';
  interface Edit { actor: string; client?: string | null; at: number }
  interface View { title: string; element: HTMLElement; dispose?: () => void }
  interface Route { view: string; rest: string; query: URLSearchParams }

  /** A row of the tree. */
  interface Row {
    kind: 'scope' | 'folder' | 'memory'; path: string; label: string; depth: number; count: number; open: boolean;
    item?: MemoryItem; position: number; size: number; note?: string;
  }
  interface Filters {
    text: string; scope: string; author: string; trust: string; type: string; days: string; pinned: boolean; unused: boolean; sort: 'name' | 'changed' | 'used';
  }
  type Child = Node | string | number | null | undefined | false;
  type Props = Record<string, unknown> & { [key: `on${string}`]: (event: any) => unknown };
  interface Folder { path: string; label: string; folders: Map<string, Folder>; items: MemoryItem[]; count: number }
  interface Fields { name: string; description: string; type: string }
  interface Document {
    /** The frontmatter as it was. */
    block: string; lines: string[];
    /** Whether most lines end with \r\n; the rest of this has \n alone. */
    crlf: boolean;
    /** The blank lines behind it. */
    gap: string; body: string; fields: Fields;
    /** Whether the fields can be edited without losing what else the frontmatter says. */
    simple: boolean;
  }
  interface Group { key: string; changes: Change[] }
  /** Called with whether something was undone, or redone. */
  type Done = (undone: boolean) => void;
  interface ChangeOptions { actions?: HTMLElement[]; open?: boolean; onUndone?: Done; showAuthor?: boolean }
  interface ServerEvent { type: string; data: any; id?: number | null }
  /** `missed`: events may have been lost, so state has to be loaded again. */
  interface Listener { event(event: ServerEvent): void; missed(): void; waiting(ms: number): void }

  interface ConfirmOptions {
    title: string;
    content: Child[];
    /** Without an action, the dialog only informs. */
    action?: string;
    danger?: boolean;
    act?(): Promise<unknown>;
    wide?: boolean;
    /** Restarts after a refusal. */
    again?(): void;
    /** Receives the switch that enables the action. */
    ready?(set: (on: boolean) => void): void;
  }
}
