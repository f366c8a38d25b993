/** JSON as people read and write it: laid out, and read with the place of each member. */
const SPACE = /\s*/y;
const TOKEN = /[{}[\],:]|"(?:[^"\\\x00-\x1f]|\\.)*"|[-+\w.]+/y;

/** A document as text, with members without members of their own on one line. */
export function written(value, indent = "\n") {
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const isList = Array.isArray(value);
  const members = Object.entries(value).filter(([, each]) => each !== undefined).map(([name, each]) => (isList ? "" : `${JSON.stringify(name)}: `) + written(each, `${indent}  `));
  const [open, close] = isList ? "[]" : "{}";
  return Object.values(value).some((each) => each !== null && typeof each === "object")
    ? `${open}${indent}  ${members.join(`,${indent}  `)}${indent}${close}`
    : open + members.join(", ") + close;
}

/** {value, places}: `places` has the offset of each member by its JSON pointer. Throws {expected, found, offset}. */
export function read(text) {
  const places = new Map();
  let [token, offset, end] = ["", 0, 0];
  const next = () => {
    SPACE.lastIndex = end;
    TOKEN.lastIndex = offset = end + SPACE.exec(text)[0].length;
    token = TOKEN.exec(text)?.[0] ?? text[offset] ?? "";
    end = offset + token.length;
  };
  const fail = (expected) => {
    throw Object.assign(new SyntaxError(expected), { expected, found: token, offset });
  };
  const members = (close, one) => {
    for (next(); token !== close; ) {
      one();
      if (token !== "," && token !== close) fail(`, ${close}`);
      if (token === "," && (next(), token === close)) fail("value");
    }
  };
  const value = (pointer) => {
    places.set(pointer, offset);
    let found;
    if (token === "{") {
      found = {};
      members("}", () => {
        if (token[0] !== '"') fail("name");
        const name = literal();
        const place = offset;
        if (Object.hasOwn(found, name)) fail("other");
        next();
        if (token !== ":") fail(":");
        next();
        const inner = `${pointer}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
        // an assignment to __proto__ would lose it
        Object.defineProperty(found, name, { value: value(inner), enumerable: true, configurable: true, writable: true });
        places.set(inner, place);
      });
    } else if (token === "[") {
      found = [];
      members("]", () => found.push(value(`${pointer}/${found.length}`)));
    } else found = literal();
    next();
    return found;
  };
  const literal = () => {
    try {
      return JSON.parse(token);
    } catch {
      return fail("value");
    }
  };
  next();
  const found = value("");
  if (token) fail("end");
  return { value: found, places };
}

/** The offset of a JSON pointer, or else of the nearest member around it. */
export function placeOf(places, pointer) {
  while (pointer && !places.has(pointer)) pointer = pointer.slice(0, pointer.lastIndexOf("/"));
  return places.get(pointer) ?? 0;
}
