/** Server-sent events: parses frames from text chunks of any size. */

import { ProtocolError } from './errors.js';

/** Longest accepted frame, in characters. */
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
  #partialLine = '';
  #id: number | undefined;
  #event = '';
  #data: string[] = [];
  #length = 0;

  /** Adds text; returns the frames that it completes. */
  push(text: string): Frame[] {
    const frames: Frame[] = [];
    // A `\r` at the end may be the first half of a line end.
    const lines = (this.#partialLine + text).split(/\r\n|\n|\r(?!$)/);
    this.#partialLine = lines.pop() ?? '';
    for (const line of lines) {
      const frame = this.#endLine(line);
      if (frame !== undefined) frames.push(frame);
    }
    if (this.#partialLine.length + this.#length > FRAME_MAX) throw new ProtocolError(200, 'a frame is too long');
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
