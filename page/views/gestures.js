/** `Gestures`: moves and zooms the chart of `Plots` by pointers, wheel and keys. */

export class Gestures {
  #pointers = new Map();

  constructor(plots) {
    this.plots = plots;
  }

  /** Follow what a person does; `on` adds a listener until the end. */
  begin(box, on) {
    for (const name of ["pointerdown", "pointermove", "pointerup", "pointercancel", "pointerleave"]) on(box, name, (event) => this.#point(event));
    on(box, "wheel", (event) => this.#turn(event), { passive: false });
    on(box, "dblclick", (event) => this.#share(event) !== null && this.plots.reset(this.plots.range));
    on(box, "keydown", (event) => this.#press(event));
  }

  /** The place of a pointer as a share of the plot under it; null outside. */
  #share(event) {
    const over = event.target.closest?.(".over")?.getBoundingClientRect();
    return over ? (event.clientX - over.left) / over.width : null;
  }

  /** A drag of the mouse shows the time between, also if the view moves meanwhile; a finger pans, two zoom; without a move the cursor is set. */
  #point(event) {
    const { plots } = this;
    const { type, pointerId: id } = event;
    const at = this.#share(event);
    const pointer = this.#pointers.get(id);
    const { start, end } = plots.view.value ?? {};
    const time = start + Math.min(1, Math.max(0, at)) * (end - start);
    if (type === "pointerdown") {
      if (at !== null && !event.button) this.#pointers.set(id, { at, from: at, began: time, time, isMouse: event.pointerType === "mouse" });
    } else if (type !== "pointermove") {
      this.#pointers.delete(id);
      if (pointer?.isMouse) plots.mark();
      if (type === "pointerup" && pointer?.isMouse && pointer.isMoved) plots.part(...[pointer.began, pointer.time].sort((a, b) => a - b));
      else if (type === "pointerup" && pointer && !pointer.isMoved) plots.point(pointer.time);
      else if (type === "pointerleave" && event.pointerType === "mouse") plots.point(null);
    } else if (!pointer) {
      if (at !== null) plots.point(time);
    } else if (at !== null) {
      const other = [...this.#pointers.values()].find((each) => each !== pointer);
      if (!other && !pointer.isMoved && Math.abs(at - pointer.from) * plots.width < 6) return;
      if (!pointer.isMoved) event.target.setPointerCapture(id);
      const [before, after] = [pointer.at, at].map((place) => Math.abs(place - (other?.at ?? 0)));
      if (pointer.isMouse) plots.mark(...[pointer.began, time].sort((a, b) => a - b));
      else if (!other) plots.pan(pointer.at - at);
      else if (Math.min(before, after) > 0.02) plots.zoom(before / after, (at + other.at) / 2);
      Object.assign(pointer, { at, time, isMoved: true });
    }
  }

  /** The wheel zooms with Ctrl, or while the charts have the focus; else it scrolls the page. Sideways it pans. */
  #turn(event) {
    const { plots } = this;
    const at = this.#share(event);
    const isSideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (at === null || !(isSideways || event.ctrlKey || plots.box.contains(document.activeElement))) return;
    event.preventDefault();
    if (isSideways) plots.pan(event.deltaX / plots.width);
    else plots.zoom(2 ** (Math.sign(event.deltaY) * Math.min(0.5, Math.abs(event.deltaY) / 200)), plots.view.value.follows && at > 0.9 ? 1 : at);
  }

  #press(event) {
    const { plots } = this;
    if (event.target !== plots.box || event.ctrlKey || event.altKey || event.metaKey) return;
    const move = (sign) => (event.shiftKey ? plots.point((plots.cursor.value ?? plots.view.value.end) + sign * plots.timeline.width) : plots.pan(sign * 0.1));
    const does = { ArrowLeft: () => move(-1), ArrowRight: () => move(1), "+": () => plots.zoom(1 / 1.5), "=": () => plots.zoom(1 / 1.5), "-": () => plots.zoom(1.5), Home: () => plots.reset(plots.range), End: () => plots.follow(), Escape: () => plots.point(null) }[event.key];
    if (!does || !plots.timeline) return;
    event.preventDefault();
    does();
  }
}
