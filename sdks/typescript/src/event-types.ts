/**
 * Events of this client: one flat object for each, whatever its form on the wire.
 *
 * The forms of `memory_changed` (a task that touched memories, a single memory that changed, a context file
 * that was written) all become `workspace.memory.changed`; `scope` tells them apart.
 */

import type { components } from './openapi.js';
import type { Frame } from './frames.js';

type Schemas = components['schemas'];
type Wire = Schemas['Event'];
type WireChange = Schemas['MemoryChanged'];
type DataOf<Type extends Wire['type']> = Extract<Wire, { type: Type }>['data'];

/** Fields of every event. */
interface EventMeta {
  /** Its number in this stream; `undefined` for events about the stream itself. */
  eventId: number | undefined;
  /** When it was published, in milliseconds since 1970. */
  serverTimestamp: number | undefined;
  /** The client that asked for it. */
  originatorClientId: string | undefined;
}

/** A task changed memories; published once, after the task's result can be read. */
export type ManagedMemoryChanged = EventMeta & { type: 'workspace.memory.changed' } & Extract<
    WireChange,
    { scope: 'managed' }
  >;

/** A tool, a person, an editor or another process changed one memory. */
export type FileMemoryChanged = EventMeta & { type: 'workspace.memory.changed' } & Extract<
    WireChange,
    { scope: 'file' }
  >;

/** A context file of the project or of the person was written through the daemon. */
export type ContextFileChanged = EventMeta & { type: 'workspace.memory.changed' } & Extract<
    WireChange,
    { scope: 'workspace' | 'global' }
  >;

export type MemoryChanged = ManagedMemoryChanged | FileMemoryChanged | ContextFileChanged;

/** Proposals were made by a task, or a person accepted or rejected one. */
export type ProposalChanged = EventMeta & { type: 'workspace.proposal.changed' } & DataOf<'proposal'>;

/** Events about the stream itself. */
export type StreamEvent =
  /** All missed events have been delivered; live events follow. */
  | (EventMeta & { type: 'stream.replay_complete' } & DataOf<'replay_complete'>)
  /** Events were lost: load the state again. */
  | (EventMeta & { type: 'stream.resync_required' } & DataOf<'state_resync_required'>)
  /** The reader is slow. */
  | (EventMeta & { type: 'stream.slow_client' } & DataOf<'slow_client_warning'>)
  /** The reader was too slow; the stream reconnects by itself. */
  | (EventMeta & { type: 'stream.client_evicted' } & DataOf<'client_evicted'>);

/** An event type of a newer daemon. */
export type UnknownEvent = EventMeta & { type: 'unknown'; name: string; data: unknown };

export type LukasaEvent = MemoryChanged | ProposalChanged | StreamEvent | UnknownEvent;

/** Events about the stream itself, by their names on the wire. */
const STREAM_TYPES: Record<string, StreamEvent['type']> = {
  replay_complete: 'stream.replay_complete',
  state_resync_required: 'stream.resync_required',
  slow_client_warning: 'stream.slow_client',
  client_evicted: 'stream.client_evicted',
};

/** Scopes of changes. */
const SCOPES: unknown[] = ['managed', 'file', 'workspace', 'global'];

/** Returns the event of a frame; `undefined` when its data is not a JSON object. */
export function decodeEvent(frame: Frame): LukasaEvent | undefined {
  const envelope = parseObject(frame.data);
  if (envelope === undefined) return undefined;
  const meta = envelope['_meta'] as { serverTimestamp?: number } | undefined;
  const eventMeta: EventMeta = {
    eventId: frame.id,
    serverTimestamp: meta?.serverTimestamp,
    originatorClientId: envelope['originatorClientId'] as string | undefined,
  };
  const name = String(envelope['type'] ?? frame.event);
  const data = envelope['data'];
  const unknown: UnknownEvent = { ...eventMeta, type: 'unknown', name, data };
  if (typeof data !== 'object' || data === null) return unknown;
  if (name === 'memory_changed') {
    const { scope } = data as { scope?: unknown };
    return SCOPES.includes(scope)
      ? { ...(data as WireChange), ...eventMeta, type: 'workspace.memory.changed' }
      : unknown;
  }
  if (name === 'proposal') {
    return { ...(data as DataOf<'proposal'>), ...eventMeta, type: 'workspace.proposal.changed' };
  }
  const type = STREAM_TYPES[name];
  return type === undefined ? unknown : ({ ...data, ...eventMeta, type } as StreamEvent);
}

function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}
