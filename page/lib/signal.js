/** A value that components follow. */
import { useEffect, useState } from "./html.js";

export class Signal {
  #value;
  #followers = new Set();

  constructor(value) {
    this.#value = value;
  }

  get value() {
    return this.#value;
  }

  set value(value) {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    for (const follow of [...this.#followers]) follow(value);
  }

  /** Call `follow` with each new value, until the returned function is called. */
  follow(follow) {
    this.#followers.add(follow);
    return () => this.#followers.delete(follow);
  }
}

/** The value of a signal; the component is drawn again when it changes. */
export function useSignal(signal) {
  const [, draw] = useState({});
  const { value } = signal;
  useEffect(() => {
    if (!Object.is(signal.value, value)) draw({}); // it changed between the drawing and this effect
    return signal.follow(() => draw({}));
  }, [signal]);
  return value;
}
