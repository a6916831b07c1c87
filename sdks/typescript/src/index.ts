/**
 * A client of Lukasa, a memory for AI agents.
 *
 * It calls a daemon (`lukasa serve`) through `fetch`, on Node and in browsers, without dependencies.
 */

export { LukasaClient } from './client.js';
export type { ClientOptions, Session } from './client.js';
export type { CallOptions } from './transport.js';
export {
  ApiError,
  BusyError,
  ConflictError,
  ConnectionError,
  NotFoundError,
  ProtocolError,
  LukasaError,
  ScreenedError,
  TaskFailedError,
  TaskUnfinishedError,
  TimeoutError,
  TooLargeError,
  UnauthorizedError,
  UndoBlockedError,
} from './errors.js';
export { EventStream } from './events.js';
export type { Cursor, EventsOptions } from './events.js';
export type {
  ContextFileChanged,
  FileMemoryChanged,
  ManagedMemoryChanged,
  MemoryChanged,
  ProposalChanged,
  LukasaEvent,
  StreamEvent,
  UnknownEvent,
} from './event-types.js';
export type { CompletedTask, TaskOf, Tasks, WaitOptions } from './tasks.js';
export type { Memories } from './memories.js';
export type { Changes } from './changes.js';
export type { Pending } from './pending.js';
export type { ContextFiles } from './context-files.js';
export type * from './wire.js';
