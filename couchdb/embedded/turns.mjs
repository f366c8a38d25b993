// Large reads of clients, few at once: each has its whole answer in memory, and all share one thread.

import { HttpError } from './http.mjs';

const [MOST_AT_ONCE, LONGEST_WAIT_MS] = [4, 60_000];

/** Middleware: requests through growd's front door wait for their turn, and get 503 in the end; growd's own do not wait. */
export function inTurn() {
  const waiting = new Set();
  const running = new Set();
  const begin = (res, next) => {
    running.add(res);
    const end = () => {
      running.delete(res);
      const [first] = running.size < MOST_AT_ONCE ? waiting : [];
      first?.();
    };
    res.once('close', end);
    const send = res.end;
    res.end = (...parts) => { // from here on the client may read slowly
      end();
      return send.apply(res, parts);
    };
    next();
  };
  return (req, res, next) => {
    if (req.get('X-Forwarded-For') === undefined) {
      next();
      return;
    }
    if (running.size < MOST_AT_ONCE) {
      begin(res, next);
      return;
    }
    const leave = (then) => () => {
      clearTimeout(timer);
      res.off('close', gone);
      waiting.delete(turn);
      then();
    };
    const gone = leave(() => {});
    const turn = leave(() => begin(res, next));
    const busy = new HttpError(503, 'service_unavailable', 'other large queries take too long; try again later');
    const timer = setTimeout(leave(() => next(busy)), LONGEST_WAIT_MS);
    res.once('close', gone);
    waiting.add(turn);
  };
}
