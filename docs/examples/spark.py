"""The mean CO2 of each chamber and hour in a year of an exported fleet, as Parquet in the folder co2."""

from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
    .getOrCreate()
)
spark.read.parquet("fleet/points").createOrReplaceTempView("points")
hourly = spark.sql("""
  SELECT device, environment, hour,
         sum(value * seconds) / sum(seconds) AS ppm, sum(seconds) / 3600 AS covered
  FROM (
    SELECT device, environment, value, hour,
           double(least(until, hour + INTERVAL 1 HOUR)) - double(greatest(time, hour)) AS seconds
    FROM (
      SELECT device, environment, time, value,
             least(lead(time) OVER (PARTITION BY device, environment ORDER BY time),
                   time + INTERVAL 660 SECONDS) AS until
      FROM points
      WHERE category = 'measured' AND variable = 'air_carbon_dioxide'
        AND month BETWEEN '2025-12' AND '2026-11'
    )
    LATERAL VIEW explode(sequence(date_trunc('hour', time), until, INTERVAL 1 HOUR)) AS hour
  )
  GROUP BY device, environment, hour HAVING sum(seconds) > 0 ORDER BY device, environment, hour
""")
hourly.write.parquet("co2")
