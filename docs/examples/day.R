# Draw a variable over the last day, with its set point: Rscript day.R URL VARIABLE PDF
# Needs the packages httr2 and jsonlite.
library(httr2)

arguments <- commandArgs(trailingOnly = TRUE)
if (length(arguments) != 3) {
  message("usage: Rscript day.R URL VARIABLE PDF")
  quit(status = 2)
}
answer <- request(arguments[1]) |>
  req_url_path_append("_svc/api/0.0.1/history/environment_1") |>
  req_url_query(variable = arguments[2], points = 288) |>
  req_error(body = function(answer) resp_body_json(answer)$ERROR) |>
  req_perform()
past <- jsonlite::fromJSON(resp_body_string(answer), simplifyDataFrame = FALSE)
if (length(past$series) == 0) stop("there are no points of ", arguments[2])
series <- past$series[[1]]

# One row for each bucket that has points; NA where the value was not known.
frame <- function(columns) {
  time <- as.POSIXct(as.numeric(columns$time), origin = "1970-01-01", tz = "UTC")
  data.frame(time = time, lapply(columns[c("min", "mean", "max", "last")], as.numeric))
}
measured <- frame(series$measured)
desired <- frame(series$desired)
print(summary(measured))

pdf(arguments[3], width = 8, height = 4)
plot(measured$time, measured$mean, type = "s", xlab = "time (UTC)",
     ylab = paste0(series$variable, " (", series$unit, ")"),
     ylim = range(measured$min, measured$max, desired$last, na.rm = TRUE))
lines(measured$time, measured$min, type = "s", lty = 3)
lines(measured$time, measured$max, type = "s", lty = 3)
lines(desired$time, desired$last, type = "s", col = "red")
invisible(dev.off())
