function (keys, values) {
  var newest = values[0];
  for (var i = 1; i < values.length; i++) {
    var point = values[i];
    if (point.timestamp > newest.timestamp ||
        (point.timestamp === newest.timestamp && point._id > newest._id)) {
      newest = point;
    }
  }
  return newest;
}
