/** Types of the wire, by their names in the OpenAPI description, from which `openapi.ts` is generated. */

import type { components, paths } from './openapi.js';

type Schemas = components['schemas'];

export type AgentHosts = Schemas['AgentHosts'];
export type BatchResponse = Schemas['BatchResponse'];
export type Blocked = { path: string; why: string; diff: string };
export type Capabilities = Schemas['Capabilities'];
export type Change = Schemas['Change'];
export type ChangePage = Schemas['ChangePage'];
export type ChangeWithDiffs = Schemas['ChangeWithDiffs'];
export type ContextScope = Schemas['ContextScope'];
export type Decision = Schemas['Decision'];
export type Decisions = Schemas['Decisions'];
export type DreamResult = Schemas['DreamResult'];
export type ErrorBody = Schemas['ErrorBody'];
export type ExplainedContext = Schemas['ExplainedContext'];
export type ForgetRequest = Schemas['ForgetRequest'];
export type ForgetResult = Schemas['ForgetResult'];
export type SearchResponse = Schemas['SearchResponse'];
export type Health = Schemas['Health'];
export type HostWorkspace = Schemas['HostWorkspace'];
export type HostWorkspaces = Schemas['HostWorkspaces'];
export type ImportOutcome = Schemas['ImportOutcome'];
export type ListedTask = Schemas['ListedTask'];
export type ManagedSource = Schemas['ManagedSource'];
export type Memory = Schemas['Memory'];
export type MemoryFile = Schemas['MemoryFile'];
export type MemoryHealth = Schemas['MemoryHealth'];
export type MemoryItem = Schemas['MemoryItem'];
export type MemoryPage = Schemas['MemoryPage'];
export type PendingPage = Schemas['PendingPage'];
export type PendingProposal = Schemas['PendingProposal'];
export type Pin = Schemas['Pin'];
export type ProposedEntry = Schemas['ProposedEntry'];
export type RecalledBlock = Schemas['RecalledBlock'];
export type RecalledMemory = Schemas['RecalledMemory'];
export type RememberRequest = Schemas['RememberRequest'];
export type RememberResult = Schemas['RememberResult'];
export type RemovedWorkspace = Schemas['RemovedWorkspace'];
export type RepairResponse = Schemas['RepairResponse'];
export type RevisionText = Schemas['RevisionText'];
export type ModelRun = Schemas['ModelRun'];
export type ModelRunPage = Schemas['ModelRunPage'];
export type Run = Schemas['Run'];
export type RunPage = Schemas['RunPage'];
export type SegmentContext = Schemas['SegmentContext'];
export type SessionBegun = Schemas['Session'];
export type Setting = Schemas['Setting'];
export type Settings = Schemas['Settings'];
export type Stats = Schemas['Stats'];
export type BatchStep = Schemas['BatchStep'];
export type TargetScope = Schemas['TargetScope'];
export type Task = Schemas['Task'];
export type TaskError = Schemas['TaskError'];
export type TaskKind = Schemas['TaskKind'];
export type TaskResult = Schemas['TaskResult'];
export type ToolReply = Schemas['ToolReply'];
export type TrustStatus = Schemas['TrustStatus'];
export type UndoSeveral = Schemas['UndoSeveral'];
export type UndoResponse = Schemas['UndoResponse'];
export type WorkspaceMemory = Schemas['WorkspaceMemory'];
export type WriteMode = Schemas['WriteMode'];
export type WriteResponse = Schemas['WriteResponse'];
export type WriteMemoryResponse = Schemas['WriteMemoryResponse'];

/** The fields of a query, without the workspace, which the client adds. */
type Query<Path extends keyof paths> = paths[Path] extends {
  get: { parameters: { query?: infer Fields } };
}
  ? Omit<NonNullable<Fields>, 'workspace'>
  : never;

export type ChangesQuery = Query<'/v1/changes'>;
export type ContextQuery = Query<'/v1/context'>;
export type MemoriesQuery = Query<'/v1/memories'>;
export type PendingQuery = Query<'/v1/pending'>;
export type RecallQuery = Omit<Query<'/v1/recall'>, 'q'>;
export type RunsQuery = Query<'/v1/runs'>;
export type SearchQuery = Omit<Query<'/v1/search'>, 'q'>;
export type TasksQuery = Query<'/v1/tasks'>;

/** A path of the API; a request to any other is a type error. */
export type Route = keyof paths & string;
