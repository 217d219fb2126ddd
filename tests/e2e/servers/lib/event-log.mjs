// Remembers the events of SSE streams, so that a client which lost a stream can pick it up again
// with `Last-Event-ID`. In memory: one log per session.

export class EventLog {
  #events = [];

  async storeEvent(streamId, message) {
    const eventId = `${streamId}_${this.#events.length}`;
    this.#events.push({ streamId, eventId, message });
    return eventId;
  }

  async getStreamIdForEventId(eventId) {
    return this.#events.find((event) => event.eventId === eventId)?.streamId;
  }

  async replayEventsAfter(lastEventId, { send }) {
    const at = this.#events.findIndex((event) => event.eventId === lastEventId);
    if (at < 0) throw new Error('unknown event id');
    const { streamId } = this.#events[at];
    for (const event of this.#events.slice(at + 1)) {
      if (event.streamId === streamId) await send(event.eventId, event.message);
    }
    return streamId;
  }
}
