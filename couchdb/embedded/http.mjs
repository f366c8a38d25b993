// Answers and errors in CouchDB's form.

export const CONFLICT = 'Document update conflict.'; // PouchDB's text has no full stop

/** An error with its HTTP status and CouchDB's name for it. */
export class HttpError extends Error {
  constructor(status, name, reason) {
    super(reason);
    this.status = status;
    this.name = name;
  }
}

/** Answer with JSON and a line end. */
export function sendJSON(res, status, body) {
  const bytes = Buffer.from(`${JSON.stringify(body)}\n`);
  res.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': bytes.length });
  res.end(res.req.method === 'HEAD' ? undefined : bytes);
}

/** Keep the scripts of an attachment or list from running with the rights of growd's page, as CouchDB does. */
export function sandbox(res) {
  res.setHeader('Content-Security-Policy', 'sandbox');
}

/** Answer with an error in place of a handler, whose own answer then goes nowhere, unless that has begun. */
export function sendInstead(res, error) {
  if (!res.headersSent) {
    sendError(res, error);
    for (const method of ['setHeader', 'writeHead', 'write', 'end']) {
      res[method] = () => res;
    }
  }
}

/** Answer with `{"error", "reason"}`, or break off an answer that has begun. */
export function sendError(res, error) {
  if (res.writableEnded) {
    return;
  }
  if (res.headersSent) {
    res.destroy();
    return;
  }
  const status = error.status >= 400 && error.status < 600 ? error.status : 500;
  // some errors of PouchDB have the details in `reason`
  const reason = error.name === 'conflict' ? CONFLICT : error.reason || error.message || 'unknown';
  sendJSON(res, status, { error: errorName(error, status), reason });
}

/** The address that the client used: proxies send it in Host and X-Forwarded-*. */
export function outsideAddress(req) {
  const scheme = req.get('X-Forwarded-Proto') ?? 'http';
  const host = req.get('X-Forwarded-Host') ?? req.get('Host') ?? `127.0.0.1:${req.socket.localPort}`;
  return `${scheme}://${host}`;
}

/** The query parameters as strings. */
export function queryStrings(req) {
  const question = req.originalUrl.indexOf('?');
  return new URLSearchParams(question < 0 ? '' : req.originalUrl.slice(question + 1));
}

function errorName(error, status) {
  const general = ['Error', 'TypeError', 'RangeError', 'SyntaxError', 'ReferenceError', undefined];
  if (!general.includes(error.name)) {
    return error.name;
  }
  return { 500: 'internal_server_error', 502: 'bad_gateway' }[status] ?? 'bad_request';
}

export function isObject(value) {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

export function isText(value) {
  return typeof value === 'string';
}
