/**
 * The service worker: opens the page while growd is away. It keeps files of the page only, and no data of growd, so
 * nothing old can be taken for a present value; lib/last.js keeps the last state with its time.
 */

const CACHE = "page";
const PATIENCE_MS = 4_000;
const PAGE = new URL("./", self.location);
const DIGEST = /page\/([0-9a-f]+)\//;

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== "GET" || url.origin !== PAGE.origin) return;
  if (request.mode === "navigate" && url.pathname === PAGE.pathname) event.respondWith(opened(request));
  else if (url.pathname.startsWith(`${PAGE.pathname}page/`)) event.respondWith(file(request));
});

/** The page sends the addresses of the files that it loaded before this worker was there. */
self.addEventListener("message", ({ data }) => keepAll(data));

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(self.clients.matchAll({ type: "window" }).then(([first]) => (first ? first.focus() : self.clients.openWindow(PAGE))));
});

/** The document of the running growd; the kept one if it does not answer. */
async function opened(request) {
  try {
    const answer = await fetch(request, { signal: AbortSignal.timeout(PATIENCE_MS) });
    if (answer.ok) await keep(answer.clone());
    return answer;
  } catch (error) {
    const kept = await caches.match(PAGE.href, { cacheName: CACHE, ignoreVary: true });
    if (!kept) throw error;
    return kept;
  }
}

/** A file of the page. Its address has a digest of all files, so it never changes. */
async function file(request) {
  const kept = await caches.match(request, { cacheName: CACHE, ignoreVary: true });
  if (kept) return kept;
  const answer = await fetch(request);
  if (answer.ok) await (await caches.open(CACHE)).put(request, answer.clone());
  return answer;
}

/** Keep the document, and forget the files of other versions. */
async function keep(answer) {
  const cache = await caches.open(CACHE);
  const [, digest] = DIGEST.exec(await answer.clone().text()) ?? [];
  for (const each of await cache.keys()) {
    const [, other] = DIGEST.exec(each.url) ?? [];
    if (other && other !== digest) await cache.delete(each);
  }
  await cache.put(PAGE.href, answer);
}

async function keepAll(addresses) {
  const cache = await caches.open(CACHE);
  const document = await fetch(PAGE, { headers: { Accept: "text/html" } }).catch(() => null);
  if (document?.ok) await keep(document);
  await Promise.all(addresses.map((each) => cache.add(each).catch(() => {}))); // those that fail are asked for again
}
