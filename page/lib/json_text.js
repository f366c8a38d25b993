/** JSON as people read and write it: laid out, and read with the place of each member. */

/** A document as text, with members without members of their own on one line. */
export function written(value, indent = "") {
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  const isArray = Array.isArray(value);
  const inner = `${indent}  `;
  const members = Object.entries(value).map(
    ([name, member]) => (isArray ? "" : `${JSON.stringify(name)}: `) + written(member, inner),
  );
  const [open, close] = isArray ? "[]" : "{}";
  const isFlat = Object.values(value).every((member) => member === null || typeof member !== "object");
  return isFlat ? `${open}${members.join(", ")}${close}` : `${open}\n${inner}${members.join(`,\n${inner}`)}\n${indent}${close}`;
}

const TOKEN = /[{}[\],:]|"(?:[^"\\\x00-\x1f]|\\.)*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;

/** An error of syntax: `expected` and `found` are texts of the document, `offset` is its place. */
export class JsonError extends Error {
  constructor(expected, found, offset) {
    super(expected);
    Object.assign(this, { expected, found, offset });
  }
}

/** {value, places}: `places` has the offset of each member by its JSON pointer. Throws `JsonError`. */
export function read(text) {
  const places = new Map();
  let token, offset;
  let end = 0;

  const next = () => {
    offset = end + text.slice(end).search(/\S|$/);
    TOKEN.lastIndex = offset;
    token = TOKEN.exec(text)?.[0] ?? "";
    end = offset + token.length;
  };
  const fail = (expected) => {
    throw new JsonError(expected, token || text.slice(offset).match(/^\S{0,20}/)[0], offset);
  };
  const literal = (expected) => {
    try {
      return JSON.parse(token);
    } catch {
      return fail(expected);
    }
  };
  const members = (close, read) => {
    next();
    while (token !== close) {
      read();
      if (token !== "," && token !== close) fail(`, ${close}`);
      if (token === ",") {
        next();
        if (token === close) fail("value");
      }
    }
    next();
  };
  const value = (pointer) => {
    places.set(pointer, offset);
    if (token === "{") {
      const found = {};
      members("}", () => {
        const name = token.startsWith('"') ? literal("name") : fail("name");
        if (Object.hasOwn(found, name)) fail("other name");
        const place = offset;
        next();
        if (token !== ":") fail(":");
        next();
        const inner = `${pointer}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
        Object.defineProperty(found, name, { value: value(inner), enumerable: true, configurable: true, writable: true });
        places.set(inner, place);
      });
      return found;
    }
    if (token === "[") {
      const found = [];
      members("]", () => found.push(value(`${pointer}/${found.length}`)));
      return found;
    }
    const found = literal("value");
    next();
    return found;
  };

  next();
  const found = value("");
  if (offset < text.length) fail("end");
  return { value: found, places };
}

/** The line, from 1, of an offset. */
export const lineOf = (text, offset) => text.slice(0, offset).split("\n").length;

/** The offset of a JSON pointer, or else of the nearest member around it. */
export function placeOf(places, pointer) {
  let nearest = pointer;
  while (nearest && !places.has(nearest)) nearest = nearest.slice(0, nearest.lastIndexOf("/"));
  return places.get(nearest) ?? 0;
}
