-- functions pass through
SELECT date_format(ts, 'yyyy'), to_date('2024-01-01'), a || b, transform(x, y -> y + 1) FROM v
=>
SELECT DATE_FORMAT(ts, 'yyyy'), TO_DATE('2024-01-01'), a || b, TRANSFORM(x, y -> y + 1) FROM v

-- a timestamp cast cuts off digits
SELECT CAST(a AS TIMESTAMP(3)), CAST(a AS TIMESTAMP(6)) FROM v
=>
SELECT CAST(DATE_TRUNC('MILLISECOND', CAST(a AS TIMESTAMP)) AS TIMESTAMP), CAST(a AS TIMESTAMP) FROM v

-- types Flink spells differently
SELECT CAST(a AS BYTES), CAST(a AS ROW<x INT>), CAST(a AS TIMESTAMP_LTZ(6)), CAST(a AS STRING) FROM v
=>
SELECT CAST(a AS BINARY), CAST(a AS STRUCT<x: INT>), CAST(a AS TIMESTAMP_LTZ), CAST(a AS STRING) FROM v

-- a time stays a time
SELECT TIME '01:02:03'
=>
SELECT CAST('01:02:03' AS TIME)

-- percentiles are not approximated
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a) FROM v
=>
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY a) FROM v

-- a common table expression
WITH x AS (SELECT 1 AS a) SELECT * FROM x JOIN y USING (a) ORDER BY 1 LIMIT 3
=>
WITH x AS (SELECT 1 AS a) SELECT * FROM x JOIN y USING (a) ORDER BY 1 LIMIT 3

-- set operations
(SELECT 1) UNION ALL (SELECT 2)
=>
(SELECT 1) UNION ALL (SELECT 2)

-- windows
SELECT sum(x) OVER (PARTITION BY a ORDER BY b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM v
=>
SELECT SUM(x) OVER (PARTITION BY a ORDER BY b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM v

-- lateral views
SELECT z FROM v LATERAL VIEW explode(x) y AS z
=>
SELECT z FROM v LATERAL VIEW EXPLODE(x) y AS z
