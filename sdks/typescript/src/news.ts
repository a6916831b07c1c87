/**
 * Events as this client tells them: one flat object for each, whatever form it has on the wire.
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

/** What every event has. */
interface Told {
  /** Its number on this stream; `undefined` for what a stream says about itself. */
  eventId: number | undefined;
  /** When it was published, in milliseconds since 1970. */
  serverTimestamp: number | undefined;
  /** The client that asked for it. */
  originatorClientId: string | undefined;
}

/** A task changed memories; it is told once, after the task's result can be read. */
export type ManagedMemoryChanged = Told & { type: 'workspace.memory.changed' } & Extract<
    WireChange,
    { scope: 'managed' }
  >;

/** A tool, a person, an editor or another process changed one memory. */
export type FileMemoryChanged = Told & { type: 'workspace.memory.changed' } & Extract<
    WireChange,
    { scope: 'file' }
  >;

/** A context file of the project or of the person was written through the daemon. */
export type ContextFileChanged = Told & { type: 'workspace.memory.changed' } & Extract<
    WireChange,
    { scope: 'workspace' | 'global' }
  >;

export type MemoryChanged = ManagedMemoryChanged | FileMemoryChanged | ContextFileChanged;

/** Proposals were made by a task, or a person accepted or rejected one. */
export type ProposalChanged = Told & { type: 'workspace.proposal.changed' } & DataOf<'proposal'>;

/** What a stream says about itself. */
export type StreamEvent =
  /** All that was missed has been told; what follows happens now. */
  | (Told & { type: 'stream.replay_complete' } & DataOf<'replay_complete'>)
  /** Something was missed for good: look anew instead of going on from what is known. */
  | (Told & { type: 'stream.resync_required' } & DataOf<'state_resync_required'>)
  /** The reader falls behind. */
  | (Told & { type: 'stream.slow_client' } & DataOf<'slow_client_warning'>)
  /** The reader fell too far behind; the stream comes back by itself. */
  | (Told & { type: 'stream.client_evicted' } & DataOf<'client_evicted'>);

/** Something that a later daemon tells. */
export type UnknownEvent = Told & { type: 'unknown'; name: string; data: unknown };

export type LukasaEvent = MemoryChanged | ProposalChanged | StreamEvent | UnknownEvent;

/** What a stream says about itself, by its name on the wire. */
const STREAM_TYPES: Record<string, StreamEvent['type']> = {
  replay_complete: 'stream.replay_complete',
  state_resync_required: 'stream.resync_required',
  slow_client_warning: 'stream.slow_client',
  client_evicted: 'stream.client_evicted',
};

/** What changes are about. */
const SCOPES: unknown[] = ['managed', 'file', 'workspace', 'global'];

/** Returns the event of a frame; `undefined` when its data is no JSON object. */
export function newsOf(frame: Frame): LukasaEvent | undefined {
  const envelope = objectOf(frame.data);
  if (envelope === undefined) return undefined;
  const meta = envelope['_meta'] as { serverTimestamp?: number } | undefined;
  const told: Told = {
    eventId: frame.id,
    serverTimestamp: meta?.serverTimestamp,
    originatorClientId: envelope['originatorClientId'] as string | undefined,
  };
  const name = String(envelope['type'] ?? frame.event);
  const data = envelope['data'];
  const unknown: UnknownEvent = { ...told, type: 'unknown', name, data };
  if (typeof data !== 'object' || data === null) return unknown;
  if (name === 'memory_changed') {
    const { scope } = data as { scope?: unknown };
    return SCOPES.includes(scope)
      ? { ...(data as WireChange), ...told, type: 'workspace.memory.changed' }
      : unknown;
  }
  if (name === 'proposal') {
    return { ...(data as DataOf<'proposal'>), ...told, type: 'workspace.proposal.changed' };
  }
  const type = STREAM_TYPES[name];
  return type === undefined ? unknown : ({ ...data, ...told, type } as StreamEvent);
}

function objectOf(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}
