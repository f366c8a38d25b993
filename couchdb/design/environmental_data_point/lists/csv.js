function (head, req) {
  function columns(text) {
    var asked;
    try {
      asked = text === undefined ? ["timestamp", "variable", "value"] : JSON.parse(text);
    } catch (error) {
      return null;
    }
    var named = isArray(asked) && asked.length > 0 && asked.every(function (column) {
      return typeof column === "string";
    });
    return named ? asked : null;
  }
  function cell(value) {
    if (value === null || value === undefined) {
      return "";
    }
    var text = typeof value === "string" ? value : JSON.stringify(value);
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) {
      text = "'" + text;
    }
    return /[",\r\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
  }
  function line(cells) {
    send(cells.map(cell).join(",") + "\r\n");
  }
  var cols = columns(req.query.cols);
  if (cols === null) {
    start({code: 400, headers: {"Content-Type": "application/json"}});
    return JSON.stringify({
      error: "query_parse_error",
      reason: "cols must be a JSON array of column names, not " + req.query.cols
    }) + "\n";
  }
  start({headers: {"Content-Type": "text/csv; charset=utf-8; header=present"}});
  line(cols);
  var row;
  while ((row = getRow())) {
    var point = row.value || {};
    line(cols.map(function (column) {
      return Object.prototype.hasOwnProperty.call(point, column) ? point[column] : null;
    }));
  }
}
