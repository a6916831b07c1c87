/** Server-sent events: frames out of text that comes in pieces of any size. */

import { ProtocolError } from './errors.js';

/** The longest frame that is taken, in characters. */
const FRAME_MAX = 4 * 1024 * 1024;

/** A frame as read. */
export interface Frame {
  /** Its id, if it is a number. */
  id: number | undefined;
  /** Its type; empty if it has none. */
  event: string;
  /** Its data, lines joined by `\n`. */
  data: string;
}

export class FrameReader {
  #rest = '';
  #id: number | undefined;
  #event = '';
  #data: string[] = [];
  #length = 0;

  /** Takes more text; returns the frames that it completes. */
  take(text: string): Frame[] {
    const frames: Frame[] = [];
    // A `\r` at the end may be half of an end of line.
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? '';
    for (const line of lines) {
      const frame = this.#endLine(line);
      if (frame !== undefined) frames.push(frame);
    }
    if (this.#rest.length + this.#length > FRAME_MAX) throw new ProtocolError(200, 'a frame is too long');
    return frames;
  }

  #endLine(line: string): Frame | undefined {
    if (line === '') return this.#endFrame();
    const [, field, value] = /^([^:]*)(?:: ?)?(.*)$/s.exec(line) ?? [];
    switch (field) {
      case 'id':
        this.#id = /^\d+$/.test(value ?? '') ? Number(value) : undefined;
        break;
      case 'event':
        this.#event = value ?? '';
        break;
      case 'data':
        this.#data.push(value ?? '');
        this.#length += (value ?? '').length;
    }
    return undefined;
  }

  #endFrame(): Frame | undefined {
    const frame = { id: this.#id, event: this.#event, data: this.#data.join('\n') };
    const isFrame = this.#data.length > 0;
    [this.#id, this.#event, this.#data, this.#length] = [undefined, '', [], 0];
    return isFrame ? frame : undefined;
  }
}
